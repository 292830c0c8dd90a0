//! A gradient on shares: the shapes that all roles know, and one side's part of the means.
//!
//! All of it is whole numbers: the factors of a mean, its constant term, outcomes, rows, and the public column of `2^15` whose product with
//! the residuals is their sum. So what opens is the integer that the sensitivity is proved for, plus the noise of both sides.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};

use super::super::Side;
use super::super::crossprod::WholeRows;
use super::{DIGITS, GradientScale, LAST_CLASS, LogisticFit, LogisticPlan, LogisticRelease, LogisticTables};
use crate::privacy::bounds::{ClippedRows, OutcomeBounds, ROW_BITS, RowBounds};
use crate::privacy::mechanism::share::{ShareError, open_whole, width_of};
use crate::privacy::mechanism::{LatticeVector, Query};
use crate::secure::kernel::{Factors, Kernel, Part, Separated};
use crate::secure::product::{self, Blocks, RowShape, Shape, TableShare, VectorShape, VectorShare};
use crate::secure::ring::{Elements, RingError, Width, row_blocks};

/// The class of points of usual length, 4.
const USUAL_CLASS: usize = 6;

impl GradientScale {
    /// The largest size of an entry without noise, in the integers that open.
    fn bound(self, rows: usize) -> u128 {
        (rows as u128 * u128::from(self.whole + self.excess())) << ROW_BITS
    }
}

impl LogisticPlan {
    /// The table between the blocks as the dealer knows it.
    pub fn table_shape(&self) -> Shape {
        let rows = self.setup().rows;
        self.shape(self.scale().width(rows))
    }

    fn shape(&self, width: Width) -> Shape {
        let setup = self.setup();
        Shape { width, bits: 0, rows: setup.rows, left: setup.alice_width, right: setup.bob_width }
    }

    /// The blocks with which the residuals of a gradient are multiplied, as the dealer knows them; none beyond the last gradient.
    pub fn gradient_shape(&self, at: usize) -> Option<Shape> {
        let scale = self.gradients().get(at)?;
        Some(self.shape(width_of(scale.bound(self.setup().rows))))
    }

    /// Factors a row that leave for a gradient: at a point of usual length, and at most.
    pub fn factors(&self) -> [usize; 2] {
        let of = |class| Separated::new(Kernel::Mean, class, DIGITS).map_or(0, |separated| separated.terms - 1);
        [of(USUAL_CLASS), of(LAST_CLASS)]
    }

    /// A side's block of the table between the blocks; of a gradient without its factor.
    pub fn block(&self, side: Side, rows: ClippedRows) -> WholeRows {
        let factor = match side {
            Side::Alice => self.scale().factor() as f64,
            Side::Bob => 1.0,
        };
        WholeRows::of_rows(rows, factor)
    }

    /// How many words a side's release has, of any side.
    pub fn entries(&self, side: Side, release: LogisticRelease) -> usize {
        let width = self.side(side).width;
        let words = |entries: usize, shape: Shape| entries * shape.width.words();
        match release {
            LogisticRelease::Table => width * (width + 1) / 2,
            LogisticRelease::Score | LogisticRelease::Sums => width,
            LogisticRelease::Share => words(self.table_shape().opened(), self.table_shape()),
            LogisticRelease::Gradient(at) => {
                self.gradient_shape(at).map_or(0, |shape| words(1 + shape.left + shape.right, shape))
            }
        }
    }

    /// The unit of the integers of a share; none for what is no share.
    pub fn share_step(&self, release: LogisticRelease) -> Option<f64> {
        match release {
            LogisticRelease::Share => Some(self.scale().step()),
            LogisticRelease::Gradient(at) => self.gradients().get(at).map(|scale| scale.step()),
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => None,
        }
    }

    /// Standard deviation of the noise of a side's release, in its unit of unit rows.
    pub fn sigma(&self, side: Side, release: LogisticRelease) -> f64 {
        match release {
            LogisticRelease::Table => self.side(side).table_sigma,
            LogisticRelease::Score | LogisticRelease::Sums => self.side(side).vector_sigma,
            LogisticRelease::Share => self.scale().sigma(),
            LogisticRelease::Gradient(at) => self.gradients().get(at).map_or(0.0, |scale| scale.sigma()),
        }
    }

    /// A side's share of the table between the blocks, to be released with its noise.
    pub fn share(&self, share: &TableShare) -> Query {
        let formula = "2: |x - z||w|, |x|, |z|, |w| <= 1, on whole numbers, with this side's noise alone";
        Query::share(share, self.scale(), 2.0, formula)
    }

    /// A side's share of a gradient, to be released with its noise.
    pub fn gradient_share(&self, scale: GradientScale, share: &VectorShare) -> Query {
        let formula = "2 (1 + 2 e): ((x r - z q)^2 + (r - q)^2 (|w|^2 + 1))^(1/2) of residuals r, q in one interval of length 1 + 2 e, e \
                       what roundings put means outside of [0, 1], on whole numbers, with this side's noise alone";
        Query::whole_share(share.share(), scale.sensitivity(), scale.step(), formula)
    }

    /// What opened before the first gradient, from the releases of both sides. None where a release is missing.
    ///
    /// # Errors
    /// Shares that are none of this table.
    pub fn tables(
        &self,
        released: impl Fn(Side, LogisticRelease) -> Option<LatticeVector>,
        mean: f64,
    ) -> Result<Option<LogisticTables>, ShareError> {
        let setup = self.setup();
        let (alice, bob) = (setup.alice_width, setup.bob_width);
        let of = |release| Some([released(Side::Alice, release)?, released(Side::Bob, release)?]);
        let (Some([first, second]), Some(score), Some(sums), Some([left, right])) = (
            of(LogisticRelease::Table),
            of(LogisticRelease::Score),
            of(LogisticRelease::Sums),
            of(LogisticRelease::Share),
        ) else {
            return Ok(None);
        };
        let (shape, scale) = (self.table_shape(), self.scale());
        let unit = (scale.step(), scale.bound(shape.rows));
        let opened = open_whole([&left, &right], shape.width, shape.opened(), unit)?;
        let stacked = |parts: [LatticeVector; 2]| {
            let values = parts.iter().flat_map(LatticeVector::values);
            DVector::from_iterator(alice + bob, values.take(alice + bob))
        };
        Ok(Some(LogisticTables {
            tables: [first.symmetric(alice), second.symmetric(bob)],
            cross: DMatrix::from_iterator(alice, bob, opened.into_iter().map(|value| value as f64 * scale.step())),
            score: stacked(score),
            sums: stacked(sums),
            mean,
        }))
    }

    /// A gradient from the shares of both sides, as the fit takes it in.
    ///
    /// # Errors
    /// Shares that are none of this gradient.
    pub fn opened_gradient(&self, at: usize, shares: [&LatticeVector; 2]) -> Result<DVector<f64>, ShareError> {
        let (Some(scale), Some(shape)) = (self.gradients().get(at), self.gradient_shape(at)) else {
            return Err(ShareError::Bound);
        };
        let entries = 1 + shape.left + shape.right;
        let opened = open_whole(shares, shape.width, entries, (scale.step(), scale.bound(shape.rows)))?;
        Ok(DVector::from_iterator(entries, opened.into_iter().map(|value| value as f64 * scale.step())))
    }
}

/// The products of the next gradient, which both sides plan from what opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientShapes {
    /// The columns.
    pub table: Shape,
    /// The means, within rows.
    pub rows: RowShape,
    /// The residuals with the columns.
    pub vector: VectorShape,
}

/// One side's part of the means at a point: whole numbers whose products within rows are summed.
pub struct WholeMeans {
    separated: Separated,
    part: Part,
    eta: Vec<f64>,
    whole: u64,
}

impl LogisticFit {
    /// What is exchanged for the next gradient; `corrected` is who gets the dealer's corrections of rows. None after the last gradient.
    pub fn shapes(&self, corrected: product::Side) -> Option<GradientShapes> {
        let table = self.plan.gradient_shape(self.taken)?;
        let Shape { width, bits, rows, left, right } = table;
        let terms = self.kernel()?.0.terms.saturating_sub(1);
        Some(GradientShapes {
            table,
            rows: RowShape { width, bits, rows, terms, corrected },
            vector: VectorShape { width, bits, rows, left, right },
        })
    }

    /// The scale of the next gradient.
    pub fn scale(&self) -> Option<GradientScale> {
        self.plan.gradients().get(self.taken).copied()
    }

    /// Intercept and slopes on the original scale with their variances, Alice's first; of rows with these bounds. None where the curvature
    /// has no inverse.
    pub fn on_original_scale(&self, bounds: [&RowBounds; 2]) -> Option<(DVector<f64>, DVector<f64>)> {
        let (values, covariance, _) = self.finish()?;
        let mut map = DMatrix::identity(values.len(), values.len());
        let mut first = 1;
        for bounds in bounds {
            let (scale, size) = (bounds.original_scale(&OutcomeBounds::unit()), bounds.width());
            for entry in 0..size {
                let unit = DVector::from_fn(size, |at, _| f64::from(u8::from(at == entry)));
                let image = scale.coefficients(&unit);
                map[(0, first + entry)] = image[0];
                map.view_mut((first, first + entry), (size, 1)).copy_from(&image.rows(1, size));
            }
            first += size;
        }
        let variances = (&map * covariance * map.transpose()).diagonal();
        Some((&map * values, variances.map(|variance| variance.max(0.0))))
    }

    /// A side's part of the means at the next point.
    pub fn means(&self, side: Side, rows: &ClippedRows) -> Option<WholeMeans> {
        let (separated, polynomials) = self.kernel()?;
        let (intercept, parts) = self.point();
        let slopes = match side {
            Side::Alice => &parts[0],
            Side::Bob => &parts[1],
        };
        let mut eta = rows.products(slopes, 0);
        let part = if side == polynomials { Part::Polynomials } else { Part::Functions };
        if part == Part::Functions {
            eta.iter_mut().for_each(|eta| *eta += intercept);
        }
        Some(WholeMeans { separated, part, eta, whole: self.scale()?.whole() })
    }
}

impl WholeMeans {
    fn factors(&self) -> Factors<'_> {
        Factors { separated: self.separated, part: self.part, own: &self.eta, roots: None }
    }

    /// Adds to the own shares of the products, by row block, what needs no product: the kernel's constant term and, where `y` is given, the
    /// outcomes with a minus sign, so that shares of means become shares of residuals.
    ///
    /// # Errors
    /// Shares of other rows.
    pub fn complete(&self, shares: &mut [Elements], y: Option<&[f64]>) -> Result<(), RingError> {
        let factors = self.factors();
        let whole = self.whole as f64;
        for (share, range) in shares.iter_mut().zip(row_blocks(self.eta.len())) {
            if self.part == Part::Functions {
                let constants = factors.constant(range.clone());
                let integers: Vec<i128> = constants.iter().map(|value| (value * whole).round() as i128).collect();
                share.add(&Elements::from_integers(share.width(), &integers))?;
            }
            if let Some(y) = y {
                let rows = y.get(range.clone()).ok_or(RingError::Count { came: y.len(), expected: range.end })?;
                let integers: Vec<i128> = rows.iter().map(|y| *y as i128 * i128::from(self.whole)).collect();
                share.subtract(&Elements::from_integers(share.width(), &integers))?;
            }
        }
        Ok(())
    }
}

impl Blocks for WholeMeans {
    fn rows(&self) -> usize {
        self.eta.len()
    }

    fn columns(&self) -> usize {
        self.separated.terms.saturating_sub(1)
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let begin = out.len();
        self.factors().fill(rows, out);
        let root = (self.whole as f64).sqrt();
        out[begin..].iter_mut().for_each(|value| *value = (*value * root).round());
    }
}
