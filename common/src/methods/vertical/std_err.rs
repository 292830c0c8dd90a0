//! Standard errors and one joint Newton step, by the projection exchange.
//!
//! With `A` and `B` the weighted columns `W^1/2 X` of the two parties, the covariance of one party's coefficients is
//! `(A' (I - P_B) A)^-1` times the dispersion. The sender streams an orthonormal, randomly rotated basis `Q` of its
//! columns; the receiver stacks it beside its own columns and keeps the R factor of all of them, block of rows by block
//! of rows. From that one small triangle it reads its own covariance, and it returns the R factor of `(I - P_B) Q`,
//! from which the sender reads its own: `A = Q T^-1` for a `T` that only the sender knows.
//!
//! Errors from residuals: who receives keeps the basis, and once the triangle is whole looks at all rows again, whose residuals and leverages
//! follow from it. It returns the R factor of a root of the covariance in coordinates of the basis.
//!
//! Working through R factors throughout keeps the digits of ill-conditioned data that a formula such as
//! `I - Q' P_B Q` loses.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::linalg::{self, DEPENDENCE, Triangle, kernels};

/// What standard errors follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The variance that the family states.
    #[default]
    #[serde(rename = "model")]
    Model,
    /// The squares of the residuals (White).
    #[serde(rename = "HC0")]
    Hc0,
    /// These times `n / (n - p)`.
    #[serde(rename = "HC1")]
    Hc1,
    /// Each over 1 less the leverage of its row.
    #[serde(rename = "HC2")]
    Hc2,
    /// Each over the square of that.
    #[serde(rename = "HC3")]
    Hc3,
}

impl ErrorKind {
    /// Whether they follow from the variance that the family states.
    pub fn is_model(&self) -> bool {
        *self == ErrorKind::Model
    }

    /// As in a study file.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Model => "model",
            ErrorKind::Hc0 => "HC0",
            ErrorKind::Hc1 => "HC1",
            ErrorKind::Hc2 => "HC2",
            ErrorKind::Hc3 => "HC3",
        }
    }

    /// Whether the leverages of the rows count.
    fn needs_leverages(self) -> bool {
        matches!(self, ErrorKind::Hc2 | ErrorKind::Hc3)
    }

    /// What the square of a residual counts, by the leverage of its row; `None` where that is not defined.
    fn factor(self, leverage: f64) -> Option<f64> {
        // A row that one coefficient fits alone leaves a residual of zero, whatever its outcome is.
        let rest = Some(1.0 - leverage).filter(|rest| *rest > ALONE);
        match self {
            ErrorKind::Model | ErrorKind::Hc0 | ErrorKind::Hc1 => Some(1.0),
            ErrorKind::Hc2 => rest.map(|rest| 1.0 / rest),
            ErrorKind::Hc3 => rest.map(|rest| 1.0 / (rest * rest)),
        }
    }
}

/// Where a column is further from zero than one over this times its deviation, rounding decides whether it depends on others.
const TOLD: f64 = 1e-5;

/// A leverage is 1 when no more than this is missing.
const ALONE: f64 = 1e-10;

/// Columns of one party in the form in which its coefficients are reported: `inner + 1 * centres'`, scaled inner columns
/// before centring. The intercept, where there is one, is an inner column of ones with centre 0.
#[derive(Clone)]
pub struct Reported<'a> {
    /// Inner columns, `n x p`.
    pub inner: &'a DMatrix<f64>,
    /// What centring took out, in units of the scale.
    pub centres: Vec<f64>,
    /// Working weights, `n`.
    pub weights: &'a [f64],
}

impl Reported<'_> {
    /// Appends rows of the weighted columns, column by column; the reported ones or the inner ones.
    fn append(&self, rows: Range<usize>, with_centres: bool, out: &mut Vec<f64>) {
        let roots: Vec<f64> = self.weights[rows.clone()].iter().map(|weight| weight.sqrt()).collect();
        for (j, column) in self.inner.column_iter().enumerate() {
            let values = &column.as_slice()[rows.clone()];
            match self.centres.get(j).filter(|_| with_centres) {
                None => kernels::append_scaled(out, values, &roots),
                Some(centre) => out.extend(values.iter().zip(&roots).map(|(x, root)| (x + centre) * root)),
            }
        }
    }
}

/// The sender's side: a basis of its columns, given out block by block.
pub struct Sender {
    /// `A T` is the basis.
    transform: DMatrix<f64>,
    factor: DMatrix<f64>,
    rotation: DMatrix<f64>,
    /// Against which it is judged whether a column depends on the receiver's.
    lengths: Vec<f64>,
    with_centres: bool,
}

/// What a party learns from the exchange about its own coefficients, in inner units.
#[derive(Debug, Clone)]
pub struct Inference {
    /// A square root `S` with covariance `S S'` before the dispersion, `p x p`.
    pub root: DMatrix<f64>,
    /// The joint Newton step.
    pub step: DVector<f64>,
    /// A square root of the covariance that follows from the residuals, where that is asked for and defined; no dispersion counts.
    pub robust: Option<DMatrix<f64>>,
}

impl Sender {
    /// For the party's columns. The rotation is drawn from `rng`, so that the basis shows the column space and not the
    /// order of a factorisation.
    ///
    /// `with_centres` is for the party without the intercept: its reported columns span another space than its inner
    /// ones.
    pub fn new(columns: &Reported<'_>, with_centres: bool, rng: &mut impl Rng) -> Option<Sender> {
        let p = columns.inner.ncols();
        let fill = |rows: Range<usize>, out: &mut Vec<f64>| columns.append(rows, with_centres, out);
        let factor = linalg::packed_factor(columns.inner.nrows(), p, fill);
        if factor.nrows() < p || (0..p).any(|j| factor[(j, j)] == 0.0) {
            return None;
        }
        let gaussian = DMatrix::from_fn(p, p, |_, _| rng.sample::<f64, _>(StandardNormal));
        // The Q factor of a Gaussian matrix is uniform over rotations, up to signs.
        let rotation = gaussian.qr().q();
        let mut transform = rotation.clone();
        factor.solve_upper_triangular_mut(&mut transform);
        // A column far from zero is long, and yet what it says is about its mean; but no more of it is told than rounding leaves.
        let about_mean = |j: usize| {
            let rows = columns.inner.column(j).into_iter().zip(columns.weights);
            rows.map(|(x, weight)| weight * x * x).sum::<f64>().sqrt()
        };
        let length = |j: usize| about_mean(j).max(TOLD * factor.column(j).norm());
        let lengths = (0..p).into_par_iter().map(length).collect();
        Some(Sender { transform, factor, rotation, lengths, with_centres })
    }

    /// Rows `start..start + rows` of the basis.
    pub fn rows(&self, columns: &Reported<'_>, start: usize, rows: usize) -> DMatrix<f64> {
        let fill = |rows: Range<usize>, out: &mut Vec<f64>| columns.append(rows, self.with_centres, out);
        linalg::packed_product(start..start + rows, &self.transform, fill)
    }

    /// What the sender learns from the receiver's answer: `factor` is the R factor of the projected basis, `score` the
    /// projected basis times the working residual.
    pub fn learn(&self, factor: &DMatrix<f64>, score: &DVector<f64>) -> Option<Inference> {
        // A = Q T^-1 with T^-1 = rotation' factor, so A'(I-P)A = (R_E T^-1)' (R_E T^-1).
        let p = factor.ncols();
        if factor.shape() != (p, p) || score.len() != p {
            return None;
        }
        let mut step = score.clone();
        if !factor.tr_solve_upper_triangular_mut(&mut step) || !factor.solve_upper_triangular_mut(&mut step) {
            return None;
        }
        let mut root = DMatrix::identity(p, p);
        if !factor.solve_upper_triangular_mut(&mut root) {
            return None;
        }
        Some(Inference { root: &self.transform * root, step: &self.transform * step, robust: None })
    }

    /// A square root of the covariance that follows from the residuals, from an R factor of that of the coordinates of the basis.
    pub fn robust(&self, factor: &DMatrix<f64>) -> DMatrix<f64> {
        &self.transform * factor.transpose()
    }

    /// Which of the sender's columns depend on the receiver's, given the R factor of the projected basis.
    pub fn dependent(&self, factor: &DMatrix<f64>) -> Vec<usize> {
        let projected = factor * self.rotation.transpose() * &self.factor;
        let kept = linalg::independent_columns(&projected, Some(&self.lengths), 0, DEPENDENCE.sqrt() * 1e-3);
        (0..self.factor.ncols()).filter(|j| !kept.contains(j)).collect()
    }

    /// What turns coordinates of the basis into coefficients.
    pub fn transform(&self) -> &DMatrix<f64> {
        &self.transform
    }

    /// What turns coefficients into coordinates of the basis: `A b = Q (back b)`.
    pub fn back(&self) -> DMatrix<f64> {
        self.rotation.transpose() * &self.factor
    }
}

/// The receiver's side: one triangle of everything.
pub struct Receiver {
    basis: usize,
    own: usize,
    triangle: Triangle,
    centres: Vec<f64>,
    with_centres: bool,
    errors: ErrorKind,
    /// The bases, where they are looked at once more.
    kept: Vec<(usize, DMatrix<f64>)>,
    /// Whether covariances with the coordinates of the basis are asked for.
    across: bool,
    /// Whether the sender's step is one of coefficients of the fit, whatever columns are reported.
    steps_of_fit: bool,
    /// Products of basis and own columns with the working residual, summed row by row where a factorisation would round them
    /// away.
    products: Option<Vec<f64>>,
    /// What the working residual is divided by in the triangle.
    unit: f64,
}

/// Square roots of the covariance that follows from the residuals.
#[derive(Default)]
pub struct Robust {
    /// Of the own coefficients: a row each.
    pub own: Option<DMatrix<f64>>,
    /// R factors of those of each basis; none where it is not defined.
    pub bases: Vec<DMatrix<f64>>,
    /// Covariance of the coordinates of all bases with the own coefficients.
    pub across: Option<DMatrix<f64>>,
}

/// What the receiver reads off its triangle.
pub struct Reading {
    /// R factor of the basis after the receiver's columns were projected out, `basis x basis`.
    pub factor: DMatrix<f64>,
    /// The projected basis times the working residual.
    pub score: DVector<f64>,
    /// Sum of squares of the working residual that neither side's columns explain.
    pub residual: f64,
    /// That of what they explain together: a joint step lowers the deviance by it.
    pub gained: f64,
    /// Own columns that depend on the basis; where any are set aside, nothing else of the reading counts.
    pub dependent: Vec<usize>,
    /// Own covariance and Newton step; none where columns depend on each other to the last digit.
    pub inference: Option<Inference>,
    /// That of the basis from the residuals.
    pub robust: Option<DMatrix<f64>>,
    /// Where it is asked for: the covariance of the coordinates of the basis, a row each, with the own coefficients.
    pub across: Option<DMatrix<f64>>,
}

impl Reading {
    /// For rows at a point that is so far from that of the fit: own coefficients, and coordinates of the basis.
    pub fn come_from(&mut self, own: &DVector<f64>, basis: &DVector<f64>) {
        if let Some(inference) = &mut self.inference {
            inference.step += own;
        }
        self.score += self.factor.tr_mul(&(&self.factor * basis));
    }
}

/// What the receiver of several bases reads off its triangle.
pub struct ReadingOfSeveral {
    /// For each basis its R factor after the receiver's columns and the bases before it were projected out.
    pub earlier: Vec<DMatrix<f64>>,
    /// For each basis its R factor after everything else was projected out, and the projected basis times the working residual.
    pub all: Vec<(DMatrix<f64>, DVector<f64>)>,
    /// Sum of squares of the working residual that no side's columns explain.
    pub residual: f64,
    /// That of what they explain together: a joint step lowers the deviance by it.
    pub gained: f64,
    /// Own covariance and Newton step; none where columns depend on each other.
    pub inference: Option<Inference>,
    /// That of each basis from the residuals; none where it is not asked for or not defined.
    pub robust: Vec<DMatrix<f64>>,
}

impl Receiver {
    /// For a basis of a given number of columns beside own columns. `with_centres` is for the party without the intercept. For errors
    /// from residuals it keeps the basis.
    pub fn new(basis: usize, columns: &Reported<'_>, with_centres: bool, errors: ErrorKind) -> Receiver {
        let own = columns.inner.ncols();
        Receiver {
            basis,
            own,
            triangle: Triangle::new(basis + own + 1 + usize::from(with_centres)),
            centres: columns.centres.clone(),
            with_centres,
            errors,
            kept: Vec::new(),
            across: false,
            steps_of_fit: false,
            products: None,
            unit: 1.0,
        }
    }

    /// The same that also reads the covariance of its coefficients with the coordinates of the basis.
    #[must_use]
    pub fn with_across(self, across: bool) -> Receiver {
        Receiver { across, ..self }
    }

    /// The same from whose joint step the fit goes on.
    #[must_use]
    pub fn with_steps_of_the_fit(self, steps_of_fit: bool) -> Receiver {
        Receiver { steps_of_fit, ..self }
    }

    /// The same for a working residual with values that a factorisation would spread over all columns as rounding: rows of nearly
    /// no working weight have such values, and yet their products with weighted columns are small. `largest` is the largest one
    /// in size.
    #[must_use]
    pub fn with_products(self, largest: Option<f64>) -> Receiver {
        let products = largest.map(|_| vec![0.0; self.basis + self.own]);
        Receiver { products, unit: largest.unwrap_or(1.0), ..self }
    }

    /// Takes rows `start..` of the basis in; `working` is the working residual `W^-1/2 W (y - mean)` of all rows.
    pub fn push(&mut self, columns: &Reported<'_>, start: usize, basis: DMatrix<f64>, working: &[f64]) {
        let rows = start..start + basis.nrows();
        let of_basis = |part: Range<usize>, out: &mut Vec<f64>| {
            for column in basis.column_iter() {
                out.extend_from_slice(&column.as_slice()[part.start - start..part.end - start]);
            }
        };
        self.extend(columns, rows, of_basis, working);
        if !self.errors.is_model() {
            self.kept.push((start, basis));
        }
    }

    /// The same for some rows of a basis of which all are here and none has been weighted.
    pub fn push_weighted(&mut self, columns: &Reported<'_>, rows: Range<usize>, basis: &DMatrix<f64>, working: &[f64]) {
        let of_basis = |part: Range<usize>, out: &mut Vec<f64>| {
            let roots: Vec<f64> = columns.weights[part.clone()].iter().map(|weight| weight.sqrt()).collect();
            for column in basis.column_iter() {
                kernels::append_scaled(out, &column.as_slice()[part.clone()], &roots);
            }
        };
        self.extend(columns, rows.clone(), of_basis, working);
        if !self.errors.is_model() {
            let mut weighted = basis.rows(rows.start, rows.len()).into_owned();
            linalg::scale_rows(&mut weighted, &columns.weights[rows.clone()]);
            self.kept.push((rows.start, weighted));
        }
    }

    /// Takes rows in, of which `of_basis` appends those of the basis column by column.
    fn extend(
        &mut self,
        columns: &Reported<'_>,
        rows: Range<usize>,
        of_basis: impl Fn(Range<usize>, &mut Vec<f64>) + Sync,
        working: &[f64],
    ) {
        let (with_centres, unit) = (self.with_centres, self.unit);
        if let Some(products) = &mut self.products {
            for start in rows.clone().step_by(linalg::BLOCK_ROWS) {
                let part = start..rows.end.min(start + linalg::BLOCK_ROWS);
                let mut values = Vec::new();
                of_basis(part.clone(), &mut values);
                columns.append(part.clone(), false, &mut values);
                let of_columns = products.iter_mut().zip(values.chunks(part.len()));
                of_columns.for_each(|(sum, column)| *sum += kernels::dot(column, &working[part.clone()]));
            }
        }
        self.triangle.extend(rows, |part, out| {
            of_basis(part.clone(), out);
            columns.append(part.clone(), false, out);
            out.extend(working[part.clone()].iter().map(|z| z / unit));
            // Where the other party's columns explain them nothing but rounding is left, and they stand last: it harms no other column.
            if with_centres {
                out.extend(columns.weights[part].iter().map(|weight| weight.sqrt()));
            }
        });
    }

    /// Square roots of the covariance that follows from the residuals, for bases of these numbers of columns; `all` is the triangle.
    ///
    /// With `Z` all columns and `D` the residuals, the covariance is `(Z'Z)^-1 Z'D^2Z (Z'Z)^-1`; with R factors `F` of `Z` and `K` of
    /// `D Z`, a root of it is `F^-1 (K F^-1)'`.
    fn robust(&self, all: &DMatrix<f64>, columns: &Reported<'_>, working: &[f64], sizes: &[usize]) -> Option<Robust> {
        let size = self.basis + self.own;
        let mut joined = all.columns(0, size + 1).into_owned();
        let own = self.reported(all, &joined.columns(self.basis, self.own).into_owned());
        joined.columns_mut(self.basis, self.own).copy_from(&own);
        let joined = square(linalg::upper_factor(&joined), size + 1);
        let factor = joined.view((0, 0), (size, size)).into_owned();
        let mut step = joined.view((0, size), (size, 1)).column(0).into_owned();
        let mut inverse = DMatrix::identity(size, size);
        let solved = factor.solve_upper_triangular_mut(&mut step) && factor.solve_upper_triangular_mut(&mut inverse);
        if !solved || !step.iter().all(|step| step.is_finite()) {
            return None;
        }
        let mut triangle = Triangle::new(size);
        for (start, basis) in &self.kept {
            let mut rows = DMatrix::zeros(basis.nrows(), size);
            rows.columns_mut(0, self.basis).copy_from(basis);
            let mut own = Vec::with_capacity(basis.nrows() * self.own);
            columns.append(*start..*start + basis.nrows(), self.with_centres, &mut own);
            rows.columns_mut(self.basis, self.own).copy_from(&DMatrix::from_vec(basis.nrows(), self.own, own));
            let (left, scores) = (&rows * &step, self.errors.needs_leverages().then(|| &rows * &inverse));
            for i in 0..basis.nrows() {
                let residual = working[start + i] - left[i];
                let leverage = scores.as_ref().map_or(0.0, |scores| scores.row(i).norm_squared());
                let by_leverage = self.errors.factor(leverage)?;
                rows.row_mut(i).scale_mut(residual * by_leverage.sqrt());
            }
            triangle.push(rows);
        }
        let counted = columns.weights.iter().filter(|weight| **weight > 0.0).count() as f64;
        let whole = if self.errors == ErrorKind::Hc1 { (counted / (counted - size as f64)).sqrt() } else { 1.0 };
        let scaled = square(triangle.finish(), size) * whole;
        let root = &inverse * (scaled * &inverse).transpose();
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let of_basis =
            |(start, size): (usize, &usize)| square(linalg::upper_factor(&root.rows(start, *size).transpose()), *size);
        let finite = root.iter().all(|value| value.is_finite());
        let roots = || Robust {
            own: Some(root.rows(self.basis, self.own).into_owned()),
            bases: starts.zip(sizes).map(of_basis).collect(),
            across: self.across.then(|| root.rows(0, self.basis) * root.rows(self.basis, self.own).transpose()),
        };
        finite.then(roots)
    }

    /// The triangle of all rows, the sum of squares of the working residual that no columns explain, and where it is asked for
    /// the same.
    fn whole(&mut self, columns: &Reported<'_>, working: &[f64], sizes: &[usize]) -> (DMatrix<f64>, f64, Robust) {
        let size = self.basis + self.own + 1 + usize::from(self.with_centres);
        let mut all = square(std::mem::replace(&mut self.triangle, Triangle::new(0)).finish(), size);
        let last = self.basis + self.own;
        all.column_mut(last).scale_mut(self.unit);
        let residual = all[(last, last)].powi(2).min(f64::MAX);
        if let Some(along) = self.along(&all) {
            // What no columns explain would be rounding of what they do, in every factorisation to come.
            all.column_mut(last).fill(0.0);
            all.view_mut((0, last), (last, 1)).copy_from(&along);
        }
        let asked = !self.errors.is_model();
        let robust = asked.then(|| self.robust(&all, columns, working, sizes)).flatten();
        (all, residual, robust.unwrap_or_default())
    }

    /// Coordinates of the working residual along the first rows of the triangle, from products with columns.
    fn along(&self, all: &DMatrix<f64>) -> Option<DVector<f64>> {
        let mut along = DVector::from_column_slice(self.products.as_ref()?);
        let factor = all.view((0, 0), (along.len(), along.len()));
        let solved = factor.tr_solve_upper_triangular_mut(&mut along);
        (solved && along.iter().all(|value| value.is_finite())).then_some(along)
    }

    /// The own columns as they are reported, in the small columns of the triangle.
    fn reported(&self, all: &DMatrix<f64>, inner: &DMatrix<f64>) -> DMatrix<f64> {
        let mut reported = inner.clone();
        if self.with_centres {
            let ones = all.column(self.basis + self.own + 1);
            let columns = reported.column_iter_mut().zip(&self.centres);
            columns.for_each(|(mut column, centre)| column.axpy(*centre, &ones, 1.0));
        }
        reported
    }

    /// Reads the result off once all rows have come.
    pub fn finish(mut self, columns: &Reported<'_>, working: &[f64]) -> Option<Reading> {
        let (q, p) = (self.basis, self.own);
        let (all, residual, robust) = self.whole(columns, working, &[q]);
        let basis = all.columns(0, q).into_owned();
        let inner = all.columns(q, p).into_owned();
        let working = all.column(q + p).into_owned();
        let reported = self.reported(&all, &inner);
        // The small columns of the triangle have the inner products of the long ones, so everything below is exact.
        let beside = |first: &DMatrix<f64>, second: &DMatrix<f64>| {
            let mut joined = DMatrix::zeros(all.nrows(), q + p + 1);
            joined.columns_mut(0, first.ncols()).copy_from(first);
            joined.columns_mut(first.ncols(), second.ncols()).copy_from(second);
            joined.set_column(q + p, &working);
            square(linalg::upper_factor(&joined), q + p + 1)
        };
        let lengths: Vec<f64> = basis.column_iter().chain(inner.column_iter()).map(|column| column.norm()).collect();
        let own_last = beside(&basis, &inner);
        let kept = linalg::independent_columns(
            &own_last.columns(0, q + p).into_owned(),
            Some(&lengths),
            q,
            DEPENDENCE.sqrt() * 1e-3,
        );
        let dependent: Vec<usize> = (0..p).filter(|j| !kept.contains(&(q + j))).collect();
        let basis_last = beside(&reported, &basis);
        let factor = basis_last.view((p, p), (q, q)).into_owned();
        let mut score = factor.transpose() * basis_last.view((p, q + p), (q, 1)).column(0);
        if self.steps_of_fit && self.with_centres {
            let of_fit = beside(&inner, &basis);
            let mut step = of_fit.view((p, q + p), (q, 1)).column(0).into_owned();
            let solved = of_fit.view((p, p), (q, q)).solve_upper_triangular_mut(&mut step);
            if solved && step.iter().all(|value| value.is_finite()) {
                score = factor.transpose() * (&factor * step);
            }
        }
        let own_factor = own_last.view((q, q), (p, p)).into_owned();
        let mut root = DMatrix::identity(p, p);
        let mut step = own_last.view((q, q + p), (p, 1)).column(0).into_owned();
        let solved =
            own_factor.solve_upper_triangular_mut(&mut root) && own_factor.solve_upper_triangular_mut(&mut step);
        let inference = match solved {
            true => Some(Inference { root, step, robust: robust.own }),
            false if dependent.is_empty() => return None,
            false => None,
        };
        let gained = own_last.view((0, q + p), (q + p, 1)).norm_squared();
        let across = match (self.across && inference.is_some(), self.errors.is_model()) {
            (false, _) => None,
            (true, true) => across(&beside(&basis, &reported), q, p),
            (true, false) => robust.across,
        };
        let robust = robust.bases.into_iter().next();
        Some(Reading { factor, score, residual, gained, dependent, inference, robust, across })
    }
}

impl Receiver {
    /// Reads the result off for bases of these numbers of columns, which were pushed beside each other.
    pub fn finish_several(mut self, sizes: &[usize], columns: &Reported<'_>, working: &[f64]) -> ReadingOfSeveral {
        let (q, p) = (self.basis, self.own);
        let (all, residual, robust) = self.whole(columns, working, sizes);
        let inner = all.columns(q, p).into_owned();
        let working = all.column(q + p).into_owned();
        let reported = self.reported(&all, &inner);
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let bases: Vec<DMatrix<f64>> =
            starts.zip(sizes).map(|(start, size)| all.columns(start, *size).into_owned()).collect();
        // The R factor of some columns beside each other, the working residual last.
        let factor = |columns: &[&DMatrix<f64>]| {
            let width: usize = columns.iter().map(|columns| columns.ncols()).sum();
            let mut joined = DMatrix::zeros(all.nrows().max(width + 1), width + 1);
            let mut start = 0;
            for columns in columns {
                joined.columns_mut(start, columns.ncols()).copy_from(columns);
                start += columns.ncols();
            }
            joined.set_column(width, &working);
            square(linalg::upper_factor(&joined), width + 1)
        };
        let last = |columns: &[&DMatrix<f64>]| {
            let size = columns.last().map_or(0, |columns| columns.ncols());
            let factor = factor(columns);
            let start = factor.ncols() - 1 - size;
            let projected = factor.view((start, start), (size, size)).into_owned();
            let along = factor.view((start, start + size), (size, 1)).column(0).into_owned();
            (projected, along, factor.view((0, start + size), (start + size, 1)).norm_squared())
        };
        let mut reading = ReadingOfSeveral {
            earlier: Vec::new(),
            all: Vec::new(),
            residual,
            gained: 0.0,
            inference: None,
            robust: robust.bases,
        };
        // Beside a column that depends on others a factorisation would project out what rounding left of it.
        let mut beside = reported.clone();
        for (at, basis) in bases.iter().enumerate() {
            let before = std::iter::once(&reported).chain(&bases[..at]);
            reading.earlier.push(last(&[&beside, basis]).0);
            let (width, more) = (beside.ncols(), basis.ncols());
            let mut joined = beside.resize_horizontally(width + more, 0.0);
            joined.columns_mut(width, more).copy_from(basis);
            let lengths: Vec<f64> = joined.column_iter().map(|column| column.norm()).collect();
            let kept = linalg::independent_columns(&joined, Some(&lengths), width, DEPENDENCE.sqrt() * 1e-3);
            beside = joined.select_columns(&kept);
            let others: Vec<&DMatrix<f64>> = before.chain(&bases[at + 1..]).chain([basis]).collect();
            let (projected, along, _) = last(&others);
            let score = projected.transpose() * along;
            reading.all.push((projected, score));
        }
        let own: Vec<&DMatrix<f64>> = bases.iter().chain([&inner]).collect();
        let (projected, mut step, gained) = last(&own);
        let mut root = DMatrix::identity(p, p);
        let solved = projected.solve_upper_triangular_mut(&mut root) && projected.solve_upper_triangular_mut(&mut step);
        reading.inference = solved.then_some(Inference { root, step, robust: robust.own });
        reading.gained = gained;
        reading
    }
}

/// Covariance of the first `q` coefficients with the next `p`, from an R factor of their columns.
fn across(factor: &DMatrix<f64>, q: usize, p: usize) -> Option<DMatrix<f64>> {
    let mut inverse = DMatrix::identity(q + p, q + p);
    let factor = factor.view((0, 0), (q + p, q + p)).into_owned();
    let solved = factor.solve_upper_triangular_mut(&mut inverse);
    (solved && inverse.iter().all(|value| value.is_finite()))
        .then(|| inverse.rows(0, q) * inverse.rows(q, p).transpose())
}

/// An R factor with rows of zeros below, where there were fewer rows than columns.
fn square(factor: DMatrix<f64>, size: usize) -> DMatrix<f64> {
    let rows = factor.nrows().min(size);
    let mut square = DMatrix::zeros(size, size);
    square.rows_mut(0, rows).copy_from(&factor.rows(0, rows));
    square
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #[test]
        fn both_parties_read_the_pooled_covariance_and_newton_step(
            p in 1_usize..5, q in 0_usize..5, seed in 0_u64..300, alice_sends: bool
        ) {
            let n = 200;
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut draw = |rows, columns| DMatrix::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0_f64));
            let alice = draw(n, p).insert_column(0, 1.0);
            let mut bob = draw(n, q);
            let centres: Vec<f64> = draw(1, q).iter().map(|c| 10.0 * c).collect();
            let weights: Vec<f64> = draw(1, n).iter().map(|w| w.abs() + 0.1).collect();
            let working: Vec<f64> = draw(1, n).iter().copied().collect();
            let mut pooled = DMatrix::zeros(n, p + 1 + q);
            pooled.columns_mut(0, p + 1).copy_from(&alice);
            for j in 0..q {
                pooled.set_column(p + 1 + j, &bob.column(j).add_scalar(centres[j]));
            }
            linalg::scale_rows(&mut pooled, &weights);
            let covariance = (pooled.transpose() * &pooled).try_inverse().unwrap();
            let step = &covariance * pooled.transpose() * DVector::from_vec(working.clone());
            if q == 0 { bob = DMatrix::zeros(n, 0); }
            let at_alice = Reported { inner: &alice, centres: vec![0.0; p + 1], weights: &weights };
            let at_bob = Reported { inner: &bob, centres: centres.clone(), weights: &weights };
            let (from, to) = if alice_sends { (&at_alice, &at_bob) } else { (&at_bob, &at_alice) };
            prop_assume!(from.inner.ncols() > 0);
            let sender = Sender::new(from, !alice_sends, &mut rng).unwrap();
            let mut receiver = Receiver::new(from.inner.ncols(), to, alice_sends, ErrorKind::Model);
            for start in (0..n).step_by(64) {
                let rows = 64.min(n - start);
                receiver.push(to, start, sender.rows(from, start, rows), &working);
            }
            let reading = receiver.finish(to, &working).unwrap();
            let (learnt, received) = (sender.learn(&reading.factor, &reading.score).unwrap(), reading.inference.unwrap());
            prop_assert!(reading.dependent.is_empty() && sender.dependent(&reading.factor).is_empty());
            let (a, b) = if alice_sends { (&learnt, &received) } else { (&received, &learnt) };
            let check = |inference: &Inference, start: usize, size: usize| {
                let expected = covariance.view((start, start), (size, size));
                let got = &inference.root * inference.root.transpose();
                ((got - expected).amax(), (&inference.step - step.rows(start, size)).amax())
            };
            for (covariance_error, step_error) in [check(a, 0, p + 1), check(b, p + 1, q)] {
                prop_assert!(covariance_error < 1e-9 && step_error < 1e-9, "{covariance_error} {step_error}");
            }
            let fitted = &pooled * &step;
            let rest: f64 = working.iter().zip(fitted.iter()).map(|(z, f)| (z - f) * (z - f)).sum();
            prop_assert!((reading.residual - rest).abs() < 1e-9 * rest.max(1.0));
        }
    }

    #[test]
    fn errors_of_a_coefficient_that_one_row_decides_are_not_defined_by_leverages() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let n = 50;
        let alice = DMatrix::from_fn(n, 2, |_, _| rng.random_range(-1.0..1.0_f64)).insert_column(0, 1.0);
        let mut bob = DMatrix::from_fn(n, 2, |_, _| rng.random_range(-1.0..1.0_f64));
        bob.set_column(1, &DVector::from_fn(n, |row, _| f64::from(u8::from(row == 7))));
        let (weights, working) = (vec![1.0; n], (0..n).map(|row| (row as f64).sin()).collect::<Vec<_>>());
        let at_alice = Reported { inner: &alice, centres: vec![0.0; 3], weights: &weights };
        let at_bob = Reported { inner: &bob, centres: vec![0.0; 2], weights: &weights };
        for (kind, defined) in
            [(ErrorKind::Hc0, true), (ErrorKind::Hc1, true), (ErrorKind::Hc2, false), (ErrorKind::Hc3, false)]
        {
            let sender = Sender::new(&at_bob, true, &mut rng).unwrap();
            let mut receiver = Receiver::new(2, &at_alice, false, kind);
            receiver.push(&at_alice, 0, sender.rows(&at_bob, 0, n), &working);
            let reading = receiver.finish(&at_alice, &working).unwrap();
            assert_eq!(
                (reading.robust.is_some(), reading.inference.unwrap().robust.is_some()),
                (defined, defined),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_column_of_the_receiver_that_depends_on_the_sender_is_named() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let n = 100;
        let alice = DMatrix::from_fn(n, 3, |_, _| rng.random_range(-1.0..1.0_f64)).insert_column(0, 1.0);
        let mut bob = DMatrix::from_fn(n, 3, |_, _| rng.random_range(-1.0..1.0_f64));
        let sum = alice.column(1) - alice.column(3) * 2.0 + bob.column(0);
        bob.set_column(1, &sum);
        let weights = vec![1.0; n];
        let working = vec![0.5; n];
        let at_alice = Reported { inner: &alice, centres: vec![0.0; 4], weights: &weights };
        let at_bob = Reported { inner: &bob, centres: vec![0.0; 3], weights: &weights };
        let sender = Sender::new(&at_alice, false, &mut rng).unwrap();
        let mut receiver = Receiver::new(4, &at_bob, true, ErrorKind::Model);
        receiver.push(&at_bob, 0, sender.rows(&at_alice, 0, n), &working);
        assert_eq!(receiver.finish(&at_bob, &working).unwrap().dependent, [1]);
        let sender = Sender::new(&at_bob, true, &mut rng).unwrap();
        let mut receiver = Receiver::new(3, &at_alice, false, ErrorKind::Model);
        receiver.push(&at_alice, 0, sender.rows(&at_bob, 0, n), &working);
        let reading = receiver.finish(&at_alice, &working).unwrap();
        assert_eq!(sender.dependent(&reading.factor), [1]);
    }
}
