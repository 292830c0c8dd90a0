//! The maximum likelihood fit of pooled columns, as tight as double precision lets it be.

use fedreg_common::glm::Family;
use nalgebra::{DMatrix, DVector};

/// Steps that are not halved any more, and steps in all.
const SHORTEST: f64 = 1e-9;
const STEPS: usize = 200;

/// Coefficients and their covariance at dispersion 1, by Newton steps on an orthonormal basis of the columns, halved where the loss would
/// grow. None where columns are dependent or no finite maximum was reached.
pub(crate) fn pooled(family: Family, x: &DMatrix<f64>, y: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let scale = (x.nrows() as f64).sqrt();
    let (basis, factor) = x.clone().qr().unpack();
    let (basis, factor) = (basis * scale, factor / scale);
    let mean = y.mean();
    let mut point = match family {
        Family::Poisson => basis.tr_mul(&y.map(|_| mean.ln())) / x.nrows() as f64,
        Family::Gaussian | Family::Binomial => DVector::zeros(x.ncols()),
    };
    let loss = |point: &DVector<f64>| -> f64 {
        (&basis * point).iter().zip(y.iter()).map(|(eta, y)| family.at(*y, *eta).loss).sum()
    };
    let curvature = |eta: &DVector<f64>| {
        let mut weighted = basis.clone();
        weighted.row_iter_mut().zip(eta.iter()).for_each(|(mut row, eta)| row *= family.variance(*eta));
        basis.tr_mul(&weighted)
    };
    let (mut reached, mut left) = (loss(&point), f64::INFINITY);
    for _ in 0..STEPS {
        let eta = &basis * &point;
        let gradient = basis.tr_mul(&(eta.map(|eta| family.mean(eta)) - y));
        let step = curvature(&eta).cholesky()?.solve(&gradient);
        left = step.amax() / (1.0 + point.amax());
        if left < 1e-15 {
            break;
        }
        let mut length = 1.0;
        let mut next = &point - &step;
        while !(loss(&next) <= reached + 1e-13 * reached.abs()) && length > SHORTEST {
            length *= 0.5;
            next = &point - &step * length;
        }
        reached = loss(&next);
        point = next;
    }
    let inverse = factor.try_inverse()?;
    let covariance = curvature(&(&basis * &point)).try_inverse()?;
    (left < SHORTEST).then(|| (&inverse * point, &inverse * covariance * inverse.transpose()))
}
