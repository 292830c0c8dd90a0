//! Penalised binomial and poisson fits: Alice names points along lambda, see [`glm`](super::super::glm).
//!
//! The deviance is that of the last point, of which the gradient has opened, with what the last step changes: the losses without the
//! outcome change by `(g + c)'s + s'H s / 2`, with the gradient `g`, the outcome's products `c` with the columns and the curvature `H`.

use nalgebra::{DMatrix, DVector};

use super::{Fit, Path, Theirs, shares_of_alice, shares_of_bob, terms};
use crate::methods::vertical::masked::out_of_order;
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::penalty::PATH;
use crate::methods::vertical::sealed::glm::{Fitted, Glm, Lead, Penalised};
use crate::methods::vertical::sealed::offset;
use crate::methods::vertical::sealed::results::outcome_on_bob;
use crate::methods::vertical::sealed::session::{Work, dependent_beyond};
use crate::methods::vertical::sealed::solution;
use crate::secure::gaussian::Table;
use crate::session::Abort;

/// At Alice: who names the points.
pub(in super::super) fn lead(work: &Work, table: &Table, theirs: &Theirs) -> Result<Lead, Abort> {
    let terms = terms(work)?;
    let (joint, score) = moments(work, table)?;
    let first = usize::from(work.study.method.intercept);
    let (own, bob) = (&work.own.factor, &theirs.factor);
    let mut factor = DMatrix::identity(score.len(), score.len());
    factor.view_mut((first, first), own.shape()).copy_from(own);
    factor.view_mut((first + own.ncols(), first + own.ncols()), bob.shape()).copy_from(bob);
    let units = std::iter::repeat_n(&0.0, first).chain(&work.units).chain(&theirs.units);
    let penalised = Penalised {
        family: work.study.method.family,
        factor,
        units: units.copied().collect(),
        alpha: terms.alpha,
        lambdas: terms.given(),
        path: PATH,
        rows: work.rows,
    };
    let beside = offset::beside(work, score.len());
    let lead = Lead::penalised(penalised, joint, score, table.left(), beside);
    lead.ok_or_else(|| dependent_beyond(&work.study))
}

/// The table of the intercept and both bases, and the outcome's mean products with them.
fn moments(work: &Work, table: &Table) -> Result<(DMatrix<f64>, DVector<f64>), Abort> {
    let (joint, score) = table.joint(work.own.outcome.as_ref().ok_or_else(out_of_order)?);
    Ok(match work.study.method.intercept {
        true => (joint, score),
        false => (joint.remove_row(0).remove_column(0), score.remove_row(0)),
    })
}

/// At Alice: the fits at the lambdas that were reached, and what goes to Bob. Where none was, the fit at the first as far as it is.
pub(in super::super) fn path(work: &Work, glm: &Glm, table: &Table, theirs: &Theirs) -> Result<(Path, Joint), Abort> {
    let (fits, unfinished) = glm.lead().ok_or_else(out_of_order)?.fits();
    let under_way = unfinished.filter(|_| fits.is_empty());
    let reached: Vec<&Fitted> = fits.iter().chain(&under_way).collect();
    if reached.is_empty() {
        return Err(Abort::Data("the fit ended before a gradient opened".to_string()));
    }
    let outcome = work.own.outcome.as_ref().ok_or_else(out_of_order)?;
    let (_, score) = moments(work, table)?;
    let first = usize::from(work.study.method.intercept);
    let (alice, bob) = (table.left(), theirs.factor.ncols());
    let beside = Beside::new(work, &score, theirs);
    let (mut all, mut values) = (Vec::new(), Vec::new());
    for Fitted { lambda, beta, kkt, loss } in reached {
        let part = beta.rows(first + alice, bob).into_owned();
        let centre = work.offset.as_ref().map_or(0.0, |offset| offset.mean);
        let constant = if first == 1 { beta[0] - centre } else { 0.0 };
        let deviance = loss.map(|loss| beside.deviance(loss, beta));
        let own = beta.rows(first, alice).into_owned();
        let fit = Fit { lambda: *lambda, deviance, kkt: *kkt, constant, beta: own };
        fit.tell(&part, &mut values);
        all.push(fit);
    }
    values.extend(shares_of_bob(table, &theirs.factor));
    let shares = shares_of_alice(work, table);
    let (shifts, fold_errors) = (Vec::new(), Vec::new());
    let path = Path { fits: all, shares, outcome: outcome_on_bob(table, outcome), shifts, fold_errors };
    Ok((path, Joint { what: JointKind::Path, values }))
}

/// What a deviance has beside the losses, per row.
struct Beside {
    /// The outcome's mean products with the intercept and the standardised columns.
    score: DVector<f64>,
    /// With the offset.
    offset: f64,
    /// The loss of a perfect fit.
    saturated: f64,
}

impl Beside {
    fn new(work: &Work, score: &DVector<f64>, theirs: &Theirs) -> Beside {
        let (first, own, bob) = (usize::from(work.study.method.intercept), &work.own.factor, &theirs.factor);
        let (alice, rows) = (own.ncols(), work.rows as f64);
        let mut standardised = score.clone();
        standardised.rows_mut(first, alice).copy_from(&own.tr_mul(&score.rows(first, alice)));
        let at = first + alice;
        standardised.rows_mut(at, bob.ncols()).copy_from(&bob.tr_mul(&score.rows(at, bob.ncols())));
        let offset = work.offset.as_ref().map_or(0.0, |offset| solution::outcome_along(work, &offset.values) / rows);
        Beside { score: standardised, offset, saturated: solution::saturated(work) / rows }
    }

    fn deviance(&self, loss: f64, beta: &DVector<f64>) -> f64 {
        (2.0 * (loss - self.score.dot(beta) - self.offset - self.saturated)).max(0.0)
    }
}
