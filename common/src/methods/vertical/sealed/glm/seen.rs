//! What opens, as numbers; and what Bob has of it where everything opens to him too, with what follows from it.

use nalgebra::{DMatrix, DVector};

use super::Sizes;
use crate::linalg::Definite;

/// Bob's part of what opens to both.
#[derive(Default)]
pub(in super::super) struct Seen {
    /// His coordinates at the last point that Alice named, of his columns that stay.
    point: DVector<f64>,
    /// The gradient that opened last.
    gradient: DVector<f64>,
    weighted: Option<DMatrix<f64>>,
}

impl Seen {
    pub(super) fn take_point(&mut self, point: &[f64]) {
        self.point = DVector::from_column_slice(point);
    }

    pub(in super::super) fn point(&self) -> &DVector<f64> {
        &self.point
    }

    /// The gradient at the last point, as integers.
    pub(super) fn take_gradient(&mut self, opened: &[i128], bits: [u32; 2], rows: usize, map: Option<&DMatrix<f64>>) {
        self.gradient = gradient(opened, bits, rows, map);
    }

    /// The weighted table at the last point.
    pub(super) fn take_weighted(&mut self, opened: &[i128], bits: [u32; 2], sizes: &Sizes, map: Option<&DMatrix<f64>>) {
        self.weighted = Some(weighted(opened, bits, sizes, map));
    }

    /// His coordinates of the solution with their covariance over rows of mean weight 1, where the weighted table has opened: those of a last
    /// step of Newton from the last point.
    pub(in super::super) fn solution(&self, rows: usize) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let definite = Definite::from_gram(self.weighted.as_ref()?)?;
        let (step, covariance) = (-definite.solve(&self.gradient), definite.inverse() / rows as f64);
        let bob = self.point.len();
        let first = step.len().checked_sub(bob)?;
        let gamma = &self.point + step.rows(first, bob);
        Some((gamma, covariance.view((first, first), (bob, bob)).into_owned()))
    }
}

/// A gradient of `1, Q_a, Q_b` that opened as integers: the mean over the rows, then mean products with the columns; `map` says what the
/// columns of Bob that stay are.
pub(super) fn gradient(opened: &[i128], bits: [u32; 2], rows: usize, map: Option<&DMatrix<f64>>) -> DVector<f64> {
    let scale = 2f64.powi(-((bits[0] + 2 * bits[1]) as i32)) / rows as f64;
    let gradient = DVector::from_iterator(opened.len(), opened.iter().map(|value| *value as f64 * scale));
    let Some(map) = map else { return gradient };
    let first = gradient.len() - map.nrows();
    let bob = map.tr_mul(&gradient.rows(first, map.nrows()));
    DVector::from_iterator(first + bob.len(), gradient.rows(0, first).iter().chain(bob.iter()).copied())
}

/// The same of a weighted table: its lower triangle, row by row.
pub(super) fn weighted(opened: &[i128], bits: [u32; 2], sizes: &Sizes, map: Option<&DMatrix<f64>>) -> DMatrix<f64> {
    let scale = 2f64.powi(-((2 * bits[0] + 2 * bits[1]) as i32)) / sizes.rows as f64;
    let first = usize::from(sizes.intercept) + sizes.alice;
    let size = first + sizes.bob;
    let mut table = DMatrix::zeros(size, size);
    let places = (0..size).flat_map(|j| (0..=j).map(move |k| (j, k)));
    for ((j, k), value) in places.zip(opened) {
        (table[(j, k)], table[(k, j)]) = (*value as f64 * scale, *value as f64 * scale);
    }
    let Some(map) = map else { return table };
    let mut whole = DMatrix::zeros(size, first + map.ncols());
    whole.view_mut((0, 0), (first, first)).fill_with_identity();
    whole.view_mut((first, first), map.shape()).copy_from(map);
    whole.tr_mul(&table) * whole
}
