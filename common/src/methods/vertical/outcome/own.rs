//! What a party computes from what it has when a plain fit has ended: nothing of this leaves.

use nalgebra::DMatrix;

use crate::fit::{Coefficient, Covariance, INTERCEPT, Performance, Slope, Slopes, TermTest, Termination};
use crate::glm::{Family, StatedFamily};
use crate::methods::vertical::prepare::Encoded;
use crate::methods::vertical::session::Work;

/// Covariance and tests of a party's own coefficients.
pub(in crate::methods::vertical) type Own = (Option<Covariance>, Option<Vec<TermTest>>);

/// A square root of the covariance of the own coefficients before the dispersion, on the original scale: a row a coefficient, in
/// the order of the block.
pub(super) fn root(work: &Work) -> Option<DMatrix<f64>> {
    on_original_scale(work, &work.inference.as_ref()?.inference.root)
}

/// The same from the residuals, where the study asks for that; no dispersion counts.
fn robust_root(work: &Work) -> Option<DMatrix<f64>> {
    on_original_scale(work, work.inference.as_ref()?.inference.robust.as_ref()?)
}

/// Standard errors of the own coefficients, on the original scale.
pub(super) fn errors(work: &Work, dispersion: Option<f64>) -> Option<Vec<f64>> {
    let (root, unit) = root_and_unit(work, dispersion)?;
    Some(root.row_iter().map(|row| row.norm() * unit.sqrt()).collect())
}

/// A square root of the covariance of the own coefficients on the original scale, and what it is multiplied by.
pub(in crate::methods::vertical) fn root_and_unit(work: &Work, dispersion: Option<f64>) -> Option<(DMatrix<f64>, f64)> {
    match work.study.method.inference.errors.is_model() {
        true => Some((root(work)?, dispersion?)),
        // Residuals of a fit that leaves nothing over are rounding.
        false if super::df_residual(work) <= 0 => None,
        false => Some((robust_root(work)?, 1.0)),
    }
}

/// What the study lets a party know of covariances beside those of its own coefficients, in the order of the coefficient table.
pub(super) fn with_peer(work: &Work, own: Covariance, theirs: &[Coefficient]) -> Covariance {
    let Some(joined) = &work.across.joined else { return own };
    let theirs = Covariance::own(theirs, &joined.theirs);
    match theirs {
        Some(theirs) if joined.between.shape() == (own.terms.len(), theirs.terms.len()) => {
            match work.study.is_first(work.role) {
                true => Covariance::across(&own, &theirs, &joined.between),
                false => Covariance::across(&theirs, &own, &joined.between.transpose()),
            }
        }
        Some(_) | None => own,
    }
}

/// Rows about the own coefficients in inner units, as they are on the original scale.
pub(in crate::methods::vertical) fn on_original_scale(work: &Work, root: &DMatrix<f64>) -> Option<DMatrix<f64>> {
    let block = &work.encoded.block;
    let scalings = block.scalings();
    let mut root = root.clone();
    if root.nrows() != scalings.len() {
        return None;
    }
    if block.has_intercept() {
        for j in 1..scalings.len() {
            let slope = root.row(j).into_owned();
            root.row_mut(0).zip_apply(&slope, |at, x| *at -= scalings[j].centre / scalings[j].scale * x);
        }
    }
    for (j, scaling) in scalings.iter().enumerate() {
        root.row_mut(j).scale_mut(1.0 / scaling.scale);
    }
    Some(root)
}

/// Covariance and tests of the own coefficients, where there are standard errors.
pub(super) fn inferred(work: &Work, rows: &[Coefficient], dispersion: Option<f64>, df: i64) -> Own {
    let (Some(root), Some(dispersion)) = (root(work), dispersion) else { return (None, None) };
    let by_model = &root * root.transpose() * dispersion;
    let alone = alone(work) / dispersion;
    let how = (work.study.method.stated_family(), df);
    let (covariance, mut tests) = own(&work.encoded, rows, &by_model, Some(&alone), how);
    if work.study.method.inference.errors.is_model() {
        return (covariance, tests);
    }
    // What inflates a variance is a matter of the columns.
    let robust = robust_root(work).map(|root| own(&work.encoded, rows, &(&root * root.transpose()), None, how));
    let (covariance, walds) = robust.unwrap_or_default();
    for (at, test) in tests.iter_mut().flatten().enumerate() {
        let of = walds.as_ref().and_then(|walds| walds.get(at));
        (test.wald, test.wald_type_ii) = of.map_or((None, None), |of| (of.wald, of.wald_type_ii));
    }
    (covariance, tests)
}

/// The same from a covariance matrix of the columns that stay, in the order of the block, and from what its inverse would be without
/// other terms, without the intercept.
pub(in crate::methods::vertical) fn own(
    encoded: &Encoded,
    rows: &[Coefficient],
    covariance: &DMatrix<f64>,
    alone: Option<&DMatrix<f64>>,
    (family, df_residual): (StatedFamily, i64),
) -> Own {
    let first = usize::from(rows.first().is_some_and(|row| row.term == INTERCEPT) && encoded.block.has_intercept());
    let slopes: Vec<Slope<'_>> = encoded
        .sources
        .iter()
        .zip(rows.iter().skip(first))
        .filter_map(|(term, row)| Some(Slope { term, estimate: row.estimate? }))
        .collect();
    let size = slopes.len();
    if covariance.shape() != (first + size, first + size) {
        return (None, None);
    }
    let slopes = Slopes {
        slopes,
        containing: &encoded.containing,
        covariance: covariance.view((first, first), (size, size)).into_owned(),
        alone: alone.filter(|alone| alone.shape() == (size, size)).cloned(),
        family,
        df_residual,
    };
    let tests = rows.first().map(|row| slopes.tests(row.party));
    (Covariance::own(rows, covariance), tests)
}

/// Working cross-products of the own columns on the original scale, about their means where the model has an intercept.
fn alone(work: &Work) -> DMatrix<f64> {
    let block = &work.encoded.block;
    let first = usize::from(block.has_intercept());
    let mut products = block.working_products(work.study.method.intercept);
    let scale = |j: usize| block.scalings()[j].scale;
    for j in 0..products.ncols() {
        for i in 0..products.nrows() {
            products[(i, j)] *= scale(first + i) * scale(first + j);
        }
    }
    products
}

/// How well a binomial fit tells outcomes apart, at a party that holds the outcome, or why that is not known.
///
/// Each party knows the joint predictor of every row at the end: its own part, and what the others' parts were when it answered last,
/// from which these moved by no more than the tolerance of a fit that converged.
pub(super) fn performance(work: &Work, termination: Termination) -> Result<Option<Performance>, String> {
    let (study, encoded) = (&work.study, &work.encoded);
    if study.method.family != Family::Binomial {
        return Ok(None);
    }
    let not_computed = |why: &str| Err(format!("not computed{why}"));
    // The predictor at hand is that of the last fit, and with folds not of all rows.
    let several =
        work.fits.fitted.len() > 1 || study.method.penalty.as_ref().is_some_and(|penalty| penalty.cv.is_some());
    if several {
        return not_computed(" along a path");
    }
    if !termination.converged() {
        return not_computed(", since the fit did not converge");
    }
    if encoded.weights.is_some() {
        return not_computed(" with case weights");
    }
    let y = encoded.outcome.as_deref().unwrap_or_default();
    if y.iter().any(|y| *y != 0.0 && *y != 1.0) {
        return not_computed(", since the outcome has values other than 0 and 1");
    }
    // Others were sent its values for the fit, and report nothing of them.
    if let Some(holder) = study.method.outcome.held_by.holder().filter(|holder| *holder != work.role) {
        return Err(format!("in the report of {holder} alone, which holds the outcome"));
    }
    let performance = Performance::of(y, |row| encoded.block.predictor(row));
    performance.map_or_else(|| not_computed(", since a linear predictor is not finite"), |known| Ok(Some(known)))
}
