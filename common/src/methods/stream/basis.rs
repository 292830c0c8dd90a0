//! The whitened coordinates of a record: `a(x) = L^-1 k_x` on a product grid, or random features.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::StreamError;
use crate::methods::features::FeatureMap;

/// Most grid points.
pub const LARGEST_GRID: usize = 4096;

/// Added to the diagonal of a kernel matrix, relative to its mean.
const JITTER: f64 = 1e-10;

/// A kernel in one covariate; several covariates have the product.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// `exp(-(s - t)^2 / (2 width^2))`, for smooth functions.
    Gaussian {
        /// In units of the covariate's public range.
        width: f64,
    },
    /// `1 + min(s, t)`: functions with a square-integrable derivative.
    Sobolev,
}

impl Kernel {
    fn value(self, s: f64, t: f64) -> f64 {
        match self {
            Kernel::Gaussian { width } => (-0.5 * ((s - t) / width).powi(2)).exp(),
            Kernel::Sobolev => 1.0 + s.min(t),
        }
    }

    /// Largest `k(x, x)` over `[0, 1]`.
    fn square_bound(self) -> f64 {
        match self {
            Kernel::Gaussian { .. } => 1.0,
            Kernel::Sobolev => 2.0,
        }
    }
}

/// What functions are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// A kernel on a grid.
    Grid(Grid),
    /// Random features, rows of norm 1.
    Features(FeatureMap),
}

impl Basis {
    /// Number of covariates.
    pub fn covariates(&self) -> usize {
        match self {
            Basis::Grid(grid) => grid.stated.covariates,
            Basis::Features(map) => map.inputs(),
        }
    }

    /// Number of coordinates.
    pub fn len(&self) -> usize {
        match self {
            Basis::Grid(grid) => grid.len(),
            Basis::Features(map) => map.count(),
        }
    }

    /// Never: every basis has a coordinate.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// `B`: at least the norm of `a(x)` for every `x`.
    pub fn bound(&self) -> f64 {
        match self {
            Basis::Grid(grid) => grid.stated.kernel.square_bound().powi(grid.stated.covariates as i32).sqrt(),
            Basis::Features(_) => 1.0,
        }
    }

    /// `a(x)` for covariates in `[0, 1]`, cut to it.
    pub(crate) fn coordinates(&self, x: &[f64], out: &mut Vec<f64>) {
        match self {
            Basis::Grid(grid) => grid.coordinates(x, out),
            Basis::Features(map) => {
                let inside: Vec<f64> = x.iter().map(|x| x.clamp(0.0, 1.0)).collect();
                map.row(&inside, out);
            }
        }
    }
}

/// A kernel on an even grid with the same number of points in every covariate, ends included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct Grid {
    stated: Stated,
    points: Vec<f64>,
    /// Lower factor of the kernel matrix of one covariate.
    lower: DMatrix<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stated {
    /// The kernel in one covariate.
    kernel: Kernel,
    /// Points of the grid in one covariate.
    points: usize,
    /// Number of covariates.
    covariates: usize,
}

impl TryFrom<Stated> for Grid {
    type Error = StreamError;

    fn try_from(stated: Stated) -> Result<Grid, StreamError> {
        Grid::new(stated.kernel, stated.points, stated.covariates)
    }
}

impl From<Grid> for Stated {
    fn from(grid: Grid) -> Stated {
        grid.stated
    }
}

impl Grid {
    /// With `points` points in each of one to three covariates.
    ///
    /// # Errors
    /// Fewer than two points, other than one to three covariates, more than [`LARGEST_GRID`] points in all, a width that is not from
    /// .001 to 10.
    pub fn new(kernel: Kernel, points: usize, covariates: usize) -> Result<Grid, StreamError> {
        let check = |what, expected, actual, sound: bool| {
            if sound { Ok(()) } else { Err(StreamError::Setting { what, expected, actual }) }
        };
        check(
            "the number of covariates of a grid",
            "1, 2 or 3 (use random features for more)",
            covariates as f64,
            (1..=3).contains(&covariates),
        )?;
        check("the number of grid points per covariate", "at least 2", points as f64, points >= 2)?;
        let total = (points as u128).saturating_pow(covariates as u32);
        if total > LARGEST_GRID as u128 {
            return Err(StreamError::GridTooLarge { points, covariates, total, limit: LARGEST_GRID });
        }
        if let Kernel::Gaussian { width } = kernel {
            check("the kernel's width", "from 0.001 to 10", width, (0.001..=10.0).contains(&width))?;
        }
        let stated = Stated { kernel, points, covariates };
        let points: Vec<f64> = (0..points).map(|j| j as f64 / (points - 1) as f64).collect();
        let mut matrix = DMatrix::from_fn(points.len(), points.len(), |i, j| kernel.value(points[i], points[j]));
        let jitter = JITTER * matrix.trace() / points.len() as f64;
        (0..points.len()).for_each(|j| matrix[(j, j)] += jitter);
        let lower = matrix.cholesky().ok_or(StreamError::Degenerate { points: points.len() })?.unpack();
        Ok(Grid { stated, points, lower })
    }

    /// The grid of one covariate, of at most a given number of points.
    pub(super) fn of_one_covariate(&self, most: usize) -> Result<Grid, StreamError> {
        Grid::new(self.stated.kernel, self.stated.points.min(most), 1)
    }

    /// Number of points of the whole grid.
    pub fn len(&self) -> usize {
        self.points.len().pow(self.stated.covariates as u32)
    }

    /// Never: a grid has points.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The points of one covariate, in `[0, 1]`.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The function on the whole grid, `L w`; the last covariate runs fastest.
    #[cfg(test)]
    pub(crate) fn function(&self, weights: &[f64]) -> Vec<f64> {
        let side = self.points.len();
        let mut values = weights.to_vec();
        let mut stride = 1;
        // One covariate at a time: the Kronecker product of the factors, without ever making it.
        for _ in 0..self.stated.covariates {
            for start in (0..values.len()).filter(|place| (place / stride).is_multiple_of(side)) {
                let line: Vec<f64> = (0..side).map(|j| values[start + j * stride]).collect();
                for i in 0..side {
                    values[start + i * stride] = (0..=i).map(|j| self.lower[(i, j)] * line[j]).sum();
                }
            }
            stride *= side;
        }
        values
    }

    fn coordinates(&self, x: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.push(1.0);
        let mut line = vec![0.0; self.points.len()];
        for &x in x {
            let x = x.clamp(0.0, 1.0);
            for (i, &point) in self.points.iter().enumerate() {
                let known: f64 = (0..i).map(|j| self.lower[(i, j)] * line[j]).sum();
                line[i] = (self.stated.kernel.value(point, x) - known) / self.lower[(i, i)];
            }
            *out = out.iter().flat_map(|outer| line.iter().map(move |inner| outer * inner)).collect();
        }
    }
}
