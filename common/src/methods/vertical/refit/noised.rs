//! Sub-models of a private fit by the mechanism `crossprod`, from the noised tables that have opened.
//!
//! Rows were cut with all columns of the fit, and every table has its noise: a sub-model takes the entries of the columns that stay, with the
//! noise that these have, and goes on as the fit did. What the columns that go would have explained is rest to it, as to every sub-model.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::{Refitted, Term, penalised_notes, point};
use crate::fit::{Coefficient, INTERCEPT, Statistics, Termination};
use crate::id::Role;
use crate::methods::vertical::plan::{CrossFit, CrossPenalty, CrossPlan, CrossSetup, CrossTables, PrivatePlan};
use crate::methods::vertical::private::crossprod::{errors_of_noise, no_tests_of_terms};
use crate::privacy::bounds::RowBounds;
use crate::privacy::caution::Caution;
use crate::report::PathPoint;
use crate::session::Abort;
use crate::study::statement::{Charged, Releases, Statement};
use crate::study::{PenaltyTerms, Study, Vertical};

/// What has opened of a private fit.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Noised {
    /// What the noise of every entry follows from.
    setup: CrossSetup,
    /// The noised tables, as [`CrossTables::values`] has them.
    values: Vec<f64>,
    /// `y'y`: with noise where one party alone holds the outcome; otherwise this party's own.
    square: f64,
    /// What the run had cost this party.
    statement: Statement,
}

/// What the tables come to.
struct Fitted {
    coefficients: Vec<Coefficient>,
    path: Option<Vec<PathPoint>>,
    shown_lambda: Option<f64>,
    certificate: Option<f64>,
}

impl Noised {
    pub(in super::super) fn new(plan: &CrossPlan, tables: &CrossTables, statement: Statement) -> Noised {
        Noised { setup: plan.setup().clone(), values: tables.values(), square: tables.square, statement }
    }

    /// Rows that took part.
    pub(super) fn rows(&self) -> u64 {
        self.setup.rows as u64
    }

    pub(super) fn terms(&self, study: &Study<Vertical>) -> Vec<Term> {
        let bounds = study.all_bounds().unwrap_or_default();
        let of = |(party, bounds): (Role, &RowBounds)| -> Vec<Term> {
            bounds.names().iter().map(|name| Term { party, name: name.clone() }).collect()
        };
        study.parties_in_order().into_iter().zip(&bounds).flat_map(of).collect()
    }

    /// Whether the tables are those of the study's plan.
    pub(super) fn is_sound(&self, study: &Study<Vertical>) -> bool {
        let finite = self.values.iter().chain([&self.square]).all(|number| number.is_finite());
        let planned = study.private_plan(self.rows()).ok();
        let planned = planned.as_ref().and_then(PrivatePlan::crossprod);
        finite
            && planned.is_some_and(|plan| {
                *plan.setup() == self.setup && plan.tables_from(&self.values, self.square).is_some()
            })
    }

    /// The sub-model of the terms that stay.
    pub(super) fn refit(
        &self,
        study: &Study<Vertical>,
        run: &str,
        stays: &[bool],
        penalty: Option<&PenaltyTerms>,
    ) -> Result<Refitted, Abort> {
        let plan = CrossPlan::new(self.setup.clone()).map_err(|error| Abort::Bug(error.to_string()))?;
        let tables = plan.tables_from(&self.values, self.square).ok_or_else(no_table)?;
        let outlook =
            study.outlook(&PrivatePlan::Crossprod(plan.clone())).map_err(|error| Abort::Bug(error.to_string()))?;
        let entries = self.entries(study, stays)?;
        let all: Vec<usize> = entries.iter().flatten().copied().collect();
        let part = plan.of_entries(&entries).ok_or_else(no_table)?;
        let opened = CrossTables {
            joint: tables.joint.select_rows(&all).select_columns(&all),
            score: tables.score.select_rows(&all),
            square: tables.square,
        };
        let size = tables.score.len();
        let wide = |fit: CrossFit| widened(&fit, &all, size);
        let fitted = match penalty {
            None => {
                let fit = part.fit(&opened).ok_or_else(no_inverse)?;
                let inference = study.method.inference.allowed;
                let coefficients = coefficients(study, stays, &wide(fit), inference)?;
                Fitted { coefficients, path: None, shown_lambda: None, certificate: None }
            }
            Some(terms) => self.along(study, stays, (&part, &opened), (terms, &wide))?,
        };
        let Fitted { coefficients, path, shown_lambda, certificate } = fitted;
        let caution = Caution::joined(outlook.caution(), Caution::of_released(&coefficients));
        let statement = Statement { expected: Some(outlook), ..free(&self.statement, run) };
        Ok(Refitted {
            coefficients,
            statistics: Statistics { nobs: self.rows(), ..Statistics::default() },
            covariance: None,
            term_tests: None,
            path,
            shown_lambda,
            certificate,
            termination: Termination::FixedRounds,
            notes: self.notes(study, penalty.is_some()),
            caution,
            statement: Some(statement),
        })
    }

    /// Which entries of each party's rows stay: the intercept's, and those of the terms.
    fn entries(&self, study: &Study<Vertical>, stays: &[bool]) -> Result<Vec<Vec<usize>>, Abort> {
        let bounds = study.all_bounds().map_err(|error| Abort::Bug(error.to_string()))?;
        let (mut first, mut term) = (0, 0);
        let mut entries = Vec::with_capacity(bounds.len());
        for bounds in &bounds {
            let (names, intercept) = (bounds.names().len(), bounds.width() - bounds.names().len());
            let slopes = (0..names).filter(|at| stays.get(term + at) == Some(&true)).map(|at| first + intercept + at);
            entries.push((first..first + intercept).chain(slopes).collect());
            first += bounds.width();
            term += names;
        }
        Ok(entries)
    }

    fn along(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        (part, opened): (&CrossPlan, &CrossTables),
        (terms, wide): (&PenaltyTerms, &dyn Fn(CrossFit) -> CrossFit),
    ) -> Result<Fitted, Abort> {
        let bounds = study.outcome_bounds().map_err(|error| Abort::Bug(error.to_string()))?;
        let penalty = CrossPenalty { lambdas: terms.given(), alpha: terms.alpha };
        let fits = part.penalised(opened, &penalty, bounds.half_range()).ok_or_else(no_inverse)?;
        let (mut points, mut shown) = (Vec::with_capacity(fits.len()), Vec::new());
        for each in fits {
            shown = coefficients(study, stays, &wide(each.fit), false)?;
            // As in the fit: nobody looks at how well the rows are met.
            points.push(point((each.lambda, f64::NAN, each.violation), &shown));
        }
        let last = points.last().map(|point| (point.lambda, point.kkt));
        let path = Some(points).filter(|points| points.len() > 1);
        let (shown_lambda, certificate) = (last.map(|(lambda, _)| lambda), last.map(|(_, kkt)| kkt));
        Ok(Fitted { coefficients: shown, path, shown_lambda, certificate })
    }

    fn notes(&self, study: &Study<Vertical>, penalised: bool) -> Vec<String> {
        let mut notes = vec![
            "it cost nothing of the budget: it is computed from noised tables that had been paid for; rows stay cut as the fit cut them, with all of \
             its columns"
                .to_string(),
            "deviance, AIC, R squared and tests of the whole model: not computed, since they would need values without noise".to_string(),
            "what was expected before the run is about the fit with all columns".to_string(),
        ];
        match (penalised, study.method.inference.allowed) {
            (true, _) => notes.extend(penalised_notes()),
            (false, true) => notes.extend([errors_of_noise(study), no_tests_of_terms()]),
            (false, false) => notes.push("standard errors: the study does not allow them".to_string()),
        }
        notes
    }
}

/// A fit to some entries as one to all, with zero where there is none.
fn widened(fit: &CrossFit, entries: &[usize], size: usize) -> CrossFit {
    let mut coefficients = DVector::zeros(size);
    let mut covariance = DMatrix::zeros(size, size);
    for (at, entry) in entries.iter().enumerate() {
        coefficients[*entry] = fit.coefficients[at];
        for (other, column) in entries.iter().enumerate() {
            covariance[(*entry, *column)] = fit.covariance[(at, other)];
        }
    }
    CrossFit { coefficients, covariance }
}

/// Intercept and slopes of the terms that stay.
fn coefficients(
    study: &Study<Vertical>,
    stays: &[bool],
    fit: &CrossFit,
    inference: bool,
) -> Result<Vec<Coefficient>, Abort> {
    let refused = |error: crate::privacy::bounds::BoundsError| Abort::Bug(error.to_string());
    let outcome = study.outcome_bounds().map_err(refused)?;
    let bounds = study.all_bounds().map_err(refused)?;
    let (values, variances) = fit.on_original_scale(&bounds.iter().collect::<Vec<_>>(), &outcome);
    let row = |name: &str, party, at: usize, shift: f64| {
        let error = inference.then(|| variances[at].sqrt());
        Coefficient::normal(name.to_string(), party, Some(shift + values[at]), error)
    };
    let parties = study.parties_in_order();
    let named =
        parties.iter().zip(&bounds).flat_map(|(party, bounds)| bounds.names().iter().map(|name| (*party, name)));
    let slopes = named.enumerate().zip(stays).filter(|(_, stays)| **stays);
    let slopes = slopes.map(|((at, (party, name)), _)| row(name, party, at + 1, 0.0));
    Ok(std::iter::once(row(INTERCEPT, study.first(), 0, outcome.centre())).chain(slopes).collect())
}

/// The account of a run as that of what is computed from its releases: nothing is charged.
fn free(of_run: &Statement, run: &str) -> Statement {
    let mut account = vec![format!(
        "spent by this refit: 0 (epsilon 0), as it is computed from what run {run} had released, and nothing else of the data"
    )];
    let releases = match &of_run.releases {
        Releases::Charged(charged) => {
            account.push(format!(
                "spent when run {run} had ended: {:.6} of {:.6}, left {:.6}",
                charged.spent, charged.cap, charged.left
            ));
            Releases::Charged(Charged { releases: Vec::new(), ..charged.clone() })
        }
        Releases::Planned(planned) => Releases::Planned(planned.clone()),
    };
    Statement { charge: 0.0, account, releases, ..of_run.clone() }
}

fn no_table() -> Abort {
    Abort::Data("the noised tables that are kept here do not fit together: fit the study again".to_string())
}

fn no_inverse() -> Abort {
    Abort::Bug("the joint table has no inverse".to_string())
}
