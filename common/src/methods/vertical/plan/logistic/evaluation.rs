//! A gradient on shares: the shapes that all roles know, and one side's part of the means.
//!
//! All of it is whole numbers: the factors of a mean, its constant term, outcomes, rows, and the public column of `2^15` whose product with
//! the residuals is their sum. So what opens is the integer that the sensitivity is proved for, plus the noise of both sides.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::super::Side;
use super::super::crossprod::OutcomeAt;
use super::{
    DIGITS, GradientScale, LAST_CLASS, LogisticFit, LogisticPlan, LogisticRelease, LogisticTables, Outcomes, Replaced,
};
use crate::linalg::kernels::widest;
use crate::privacy::bounds::{ClippedOutcome, ClippedRows, OutcomeBounds, ROW_BITS, RowBounds};
use crate::privacy::mechanism::share::{ShareError, open_whole, width_of};
use crate::privacy::mechanism::{LatticeVector, Query};
use crate::secure::kernel::{Factors, Kernel, Part, Separated};
use crate::secure::product::{self, Blocks, RowShape, Shape, TableShare, VectorShape, VectorShare};
use crate::secure::ring::{Elements, RingError, row_blocks};

/// The class of points of usual length, 4.
const USUAL_CLASS: usize = 6;

impl GradientScale {
    /// The largest size of an entry without noise, in the integers that open.
    fn bound(self, rows: usize) -> u128 {
        (rows as u128 * u128::from(self.whole + self.excess())) << ROW_BITS
    }
}

impl LogisticPlan {
    /// The table between the blocks as the dealer knows it, the outcome behind Alice's columns where she holds it alone: whole numbers in the
    /// ring that holds it and every gradient, so that both are made of the same masked columns.
    pub fn table_shape(&self) -> Shape {
        let left = match self.setup().outcome {
            OutcomeAt::Both => 0,
            OutcomeAt::Alice => 1,
        };
        let columns = self.columns();
        Shape { left: columns.left + left, ..columns }
    }

    /// The columns of both blocks, as the products of gradients take them.
    pub fn columns(&self) -> Shape {
        let setup = self.setup();
        let bounds = self.gradients().iter().map(|scale| scale.bound(setup.rows));
        let most = bounds.fold(self.scale().bound(setup.rows), u128::max);
        Shape { width: width_of(most), bits: 0, rows: setup.rows, left: setup.alice_width, right: setup.bob_width }
    }

    /// Factors a row that leave for a gradient: at a point of usual length, and at most.
    pub fn factors(&self) -> [usize; 2] {
        match self.setup().outcomes {
            Outcomes::Events => {}
            Outcomes::Counts => return [1; 2],
        }
        let of = |class| Separated::new(Kernel::Mean, class, DIGITS).map_or(0, |separated| separated.terms - 1);
        [of(USUAL_CLASS), of(LAST_CLASS)]
    }

    /// How many words a side's release has.
    pub fn entries(&self, side: Side, release: LogisticRelease) -> usize {
        let width = self.side(side).width;
        let words = |entries: usize| entries * self.columns().width.words();
        match release {
            LogisticRelease::Table => width * (width + 1) / 2,
            LogisticRelease::Score => match self.replaced(side) {
                Replaced::Row => width,
                Replaced::RowAndOutcome => width + 1,
            },
            LogisticRelease::Sums => width,
            LogisticRelease::Share => words(self.table_shape().opened()),
            LogisticRelease::Gradient(_) => words(1 + self.setup().alice_width + self.setup().bob_width),
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
            LogisticRelease::Score => self.side(side).score_sigma,
            LogisticRelease::Sums => self.side(side).sums_sigma,
            LogisticRelease::Share => self.scale().sigma(),
            LogisticRelease::Gradient(at) => {
                let root = f64::from(self.replaced(side).draws()).sqrt();
                self.gradients().get(at).map_or(0.0, |scale| root * scale.sigma())
            }
        }
    }

    /// A side's share of the table between the blocks, to be released with its noise: times the factor of the table, as rows are
    /// masked without it.
    ///
    /// # Errors
    /// Never with a share of this table.
    pub fn share(&self, side: Side, share: &TableShare) -> Result<Query, RingError> {
        let formula = match (self.setup().outcome, side) {
            (OutcomeAt::Both, _) => "2: |x - z||w|, |x|, |z|, |w| <= 1, on whole numbers, with this side's noise alone",
            (OutcomeAt::Alice, Side::Alice) => {
                "sqrt(8): (|x - z|^2 + (t - u)^2)^(1/2) |w|, t = 2y - 1, on whole numbers, with this side's noise alone"
            }
            (OutcomeAt::Alice, Side::Bob) => {
                "sqrt(8): |x - z| (|w|^2 + t^2)^(1/2), t = 2y - 1, on whole numbers, with this side's noise alone"
            }
        };
        let mut whole = share.share().clone();
        let factors = vec![i128::from(self.scale().factor()); whole.count()];
        whole.multiply(&Elements::from_integers(whole.width(), &factors))?;
        Ok(Query::scaled_share(&whole, self.scale(), self.side(side).sensitivity, formula))
    }

    /// A side's share of a gradient, to be released with its noise.
    pub fn gradient_share(&self, side: Side, scale: GradientScale, share: &VectorShare) -> Query {
        let replaced = self.replaced(side);
        let formula = match (self.setup().outcomes, replaced) {
            (Outcomes::Events, Replaced::Row) => {
                "2 (1 + 2 e): ((x r - z q)^2 + (r - q)^2 (|w|^2 + 1))^(1/2) of residuals r, q in one interval of length 1 + 2 e, e \
                 what roundings put means outside of [0, 1], on whole numbers, with this side's noise alone"
            }
            (Outcomes::Events, Replaced::RowAndOutcome) => {
                "sqrt(12) (1 + e): ((x r - z q)^2 + (r - q)^2 (|w|^2 + 1))^(1/2) of residuals r, q in [-1 - e, 1 + e], e what roundings \
                 put means outside of [0, 1], on whole numbers, with this side's noise alone"
            }
            (Outcomes::Counts, Replaced::Row) => {
                "2: ((x r - z q)^2 + (r - q)^2 (|w|^2 + 1))^(1/2) of residuals r, q in one interval of length 1 around 0, in units of the \
                 largest count, on whole numbers, with this side's noise alone"
            }
            (Outcomes::Counts, Replaced::RowAndOutcome) => {
                "sqrt(12): ((x r - z q)^2 + (r - q)^2 (|w|^2 + 1))^(1/2) of residuals r, q in [-1, 1], in units of the largest count, on \
                 whole numbers, with this side's noise alone"
            }
        };
        Query::whole_share(share.share(), (scale.sensitivity(replaced), replaced.draws()), scale.step(), formula)
    }

    /// What opened before the first gradient, from the releases of both sides; `outcome` is the one that both hold, and is not looked at where
    /// Alice holds it alone. None where a release is missing.
    ///
    /// # Errors
    /// Shares that are none of this table.
    pub fn tables(
        &self,
        released: impl Fn(Side, LogisticRelease) -> Option<LatticeVector>,
        outcome: &ClippedOutcome,
    ) -> Result<Option<LogisticTables>, ShareError> {
        let setup = self.setup();
        let (alice, bob) = (setup.alice_width, setup.bob_width);
        let of = |release| Some([released(Side::Alice, release)?, released(Side::Bob, release)?]);
        let (Some([first, second]), Some(of_alice), Some(sums), Some([left, right])) = (
            of(LogisticRelease::Table),
            released(Side::Alice, LogisticRelease::Score),
            of(LogisticRelease::Sums),
            of(LogisticRelease::Share),
        ) else {
            return Ok(None);
        };
        let (shape, scale) = (self.table_shape(), self.scale());
        let unit = (scale.step(), scale.bound(shape.rows));
        let opened = open_whole([&left, &right], shape.width, shape.opened(), unit)?;
        let opened = opened.into_iter().map(|value| value as f64 * scale.step());
        let opened = DMatrix::from_iterator(shape.left, shape.right, opened);
        let of_alice = of_alice.tail(0);
        let (of_bob, mean) = match setup.outcome {
            OutcomeAt::Both => {
                let Some(score) = released(Side::Bob, LogisticRelease::Score) else { return Ok(None) };
                let ones: f64 = outcome.values().iter().map(|t| 0.5 * (t + 1.0)).sum();
                (score.tail(0), ones / setup.rows as f64)
            }
            OutcomeAt::Alice => {
                let mean = 0.5 + of_alice.get(alice).copied().unwrap_or(0.0) / setup.rows as f64;
                (opened.row(alice).transpose(), self.mean_within_noise(mean))
            }
        };
        let score = of_alice.iter().take(alice).chain(of_bob.iter()).copied();
        let sums = sums.iter().flat_map(LatticeVector::values);
        Ok(Some(LogisticTables {
            tables: [first.symmetric(alice), second.symmetric(bob)],
            cross: opened.rows(0, alice).into_owned(),
            score: DVector::from_iterator(alice + bob, score),
            sums: DVector::from_iterator(alice + bob, sums),
            mean,
        }))
    }

    /// A gradient from the shares of both sides, as the fit takes it in.
    ///
    /// # Errors
    /// Shares that are none of this gradient.
    pub fn opened_gradient(&self, at: usize, shares: [&LatticeVector; 2]) -> Result<DVector<f64>, ShareError> {
        let Some(scale) = self.gradients().get(at) else { return Err(ShareError::Bound) };
        let shape = self.columns();
        let entries = 1 + shape.left + shape.right;
        let opened = open_whole(shares, shape.width, entries, (scale.step(), scale.bound(shape.rows)))?;
        Ok(DVector::from_iterator(entries, opened.into_iter().map(|value| value as f64 * scale.step())))
    }
}

/// The products of the next gradient, which both sides plan from what opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientShapes {
    /// The means, within rows.
    pub rows: RowShape,
    /// The residuals with the columns.
    pub vector: VectorShape,
}

/// One side's part of the means at a point: whole numbers whose products within rows are summed.
pub struct WholeMeans {
    half: Half,
    /// The own part of the linear predictor: of counts less where it is cut, and at most 0.
    eta: Vec<f64>,
    whole: u64,
}

/// The own factors of a mean.
#[derive(Clone, Copy)]
enum Half {
    /// Those of a separated kernel.
    Kernel { separated: Separated, part: Part },
    /// The exponential.
    Exponential,
}

impl LogisticFit {
    /// What is exchanged for the next gradient; `corrected` is who gets the dealer's corrections of rows. None after the last gradient.
    pub fn shapes(&self, corrected: product::Side) -> Option<GradientShapes> {
        self.scale()?;
        let Shape { width, bits, rows, left, right } = self.plan.columns();
        let terms = match self.plan.setup().outcomes {
            Outcomes::Events => self.kernel()?.0.terms.saturating_sub(1),
            Outcomes::Counts => 1,
        };
        Some(GradientShapes {
            rows: RowShape { width, bits, rows, terms, corrected },
            vector: VectorShape { width, bits, rows, left, right },
        })
    }

    /// The scale of the next gradient.
    pub fn scale(&self) -> Option<GradientScale> {
        self.plan.gradients().get(self.taken).copied()
    }

    /// Intercept and slopes on the original scale with their variances, Alice's first; of rows and an outcome with these bounds. None where
    /// the curvature has no inverse.
    pub fn on_original_scale(
        &self,
        bounds: [&RowBounds; 2],
        outcome: &OutcomeBounds,
    ) -> Option<(DVector<f64>, DVector<f64>)> {
        let (mut values, covariance, _) = self.finish()?;
        match self.plan.setup().outcomes {
            Outcomes::Events => {}
            // Counts were shares of the largest one.
            Outcomes::Counts => values[0] += (2.0 * outcome.half_range()).ln(),
        }
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
        let (intercept, parts) = self.point();
        let own = usize::from(side);
        let mut eta = rows.products(&parts[own], 0);
        let half = match self.plan.setup().outcomes {
            Outcomes::Events => {
                let (separated, polynomials) = self.kernel()?;
                let part = if side == polynomials { Part::Polynomials } else { Part::Functions };
                if part == Part::Functions {
                    eta.iter_mut().for_each(|eta| *eta += intercept);
                }
                Half::Kernel { separated, part }
            }
            Outcomes::Counts => {
                // The intercept is in the ends.
                let end = self.ends()[own];
                eta.iter_mut().for_each(|eta| *eta = (*eta - end).min(0.0));
                Half::Exponential
            }
        };
        Some(WholeMeans { half, eta, whole: self.scale()?.whole() })
    }
}

impl WholeMeans {
    fn factors(&self, separated: Separated, part: Part) -> Factors<'_> {
        Factors { separated, part, own: &self.eta, roots: None }
    }

    /// Adds to the own shares of the products, by row block, what needs no product: the kernel's constant term and, where outcomes are given, as
    /// numbers in `[-1, 1]`, these with a minus sign, so that shares of means become shares of residuals.
    ///
    /// # Errors
    /// Shares of other rows.
    pub fn complete(&self, shares: &mut [Elements], outcome: Option<&[f64]>) -> Result<(), RingError> {
        let whole = self.whole as f64;
        let ranges: Vec<Range<usize>> = row_blocks(self.eta.len()).collect();
        shares.par_iter_mut().zip(ranges).try_for_each(|(share, range)| {
            // At most 2^40 in size.
            let width = share.width();
            let integers = |values: Vec<f64>| Elements::fixed(width, &values, 0);
            if let Half::Kernel { separated, part: part @ Part::Functions } = self.half {
                let constants = self.factors(separated, part).constant(range.clone());
                share.add(&integers(constants.iter().map(|value| (value * whole).round()).collect())?)?;
            }
            if let Some(all) = outcome {
                let rows = all.get(range.clone()).ok_or(RingError::Count { came: all.len(), expected: range.end })?;
                // Events are 0 or 1 exactly; what Alice holds alone may be anything between, where a row cannot be used.
                share.subtract(&integers(rows.iter().map(|t| (0.5 * (t + 1.0) * whole).round()).collect())?)?;
            }
            Ok(())
        })
    }
}

impl Blocks for WholeMeans {
    fn rows(&self) -> usize {
        self.eta.len()
    }

    fn columns(&self) -> usize {
        match self.half {
            Half::Kernel { separated, .. } => separated.terms.saturating_sub(1),
            Half::Exponential => 1,
        }
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let begin = out.len();
        match self.half {
            Half::Kernel { separated, part } => self.factors(separated, part).fill(rows, out),
            // Of at most 0, so at most 1, whatever an exponential rounds to.
            Half::Exponential => out.extend(self.eta[rows].iter().map(|eta| eta.exp().min(1.0))),
        }
        let root = (self.whole as f64).sqrt();
        widest(
            #[inline(always)]
            || out[begin..].iter_mut().for_each(|value| *value = (*value * root).round()),
        );
    }
}
