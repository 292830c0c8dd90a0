//! A point of a sealed fit as one party sees it: its own part of the linear predictor, and what both parties know of the kernel.

use std::ops::Range;

use super::Sizes;
use crate::glm::Family;
use crate::secure::budget;
use crate::secure::kernel::{self, CLASSES, Factors, Kernel, Part, Separated, TOLERANCES};
use crate::secure::product::Blocks;
use crate::secure::ring::{Elements, Width, row_blocks};
use crate::session::Abort;

/// Digits of the kernels at the end of a fit, and of the losses at each lambda: a deviance of few rows with large weights is the difference
/// of numbers that are much larger.
const DIGITS_AT_END: u32 = 9;
const DIGITS_AT_LAMBDA: u32 = 10;

/// Largest whole number above a predictor of a poisson fit, either way: the budget ends far below.
const MOST: f64 = 2000.0;

/// Where a gradient opens.
pub(super) struct Point {
    family: Family,
    weighted: bool,
    penalised: bool,
    /// Whether this is the party whose factors come first: alice, or the leader.
    leads: bool,
    /// The own part of the linear predictor. Once the ranges are settled, with the intercept at the party that adds it.
    eta: Vec<f64>,
    intercept: f64,
    /// Digits of the kernel; bits of the largest outcome in a poisson fit.
    size: u32,
    /// Alice's range and Bob's.
    ranges: [f64; 2],
    /// What the ranges are where the study fixes them.
    stated: Option<f64>,
    /// Whether the own part was beyond the range that the study fixes.
    cut: bool,
}

/// Cuts a party's part of the linear predictor at the range that the study fixes, and says whether anything was beyond it. The intercept of a
/// poisson fit is in Alice's part by then.
pub(in super::super) fn cut(eta: &mut [f64], range: Option<f64>) -> bool {
    let Some(range) = range else { return false };
    let beyond = eta.iter().any(|eta| eta.abs() > range);
    eta.iter_mut().for_each(|eta| *eta = eta.clamp(-range, range));
    beyond
}

impl Point {
    /// With the own range. `intercept` is what this party knows of it.
    pub(super) fn new(sizes: &Sizes, leads: bool, mut eta: Vec<f64>, intercept: f64, size: u32) -> Point {
        let family = sizes.family;
        let largest =
            |eta: &[f64], of: fn(f64) -> f64| eta.iter().fold(f64::NEG_INFINITY, |most, eta| most.max(of(*eta)));
        if family == Family::Poisson && leads {
            eta.iter_mut().for_each(|eta| *eta += intercept);
        }
        let cut = cut(&mut eta, sizes.range);
        let class = |largest: f64| kernel::class(largest).unwrap_or(CLASSES.len()) as f64;
        // Where the study fixes it, nothing of the rows is in the range.
        let stated = sizes.range.map(|range| if family == Family::Poisson { range } else { class(range) });
        let range = stated.unwrap_or_else(|| match family {
            Family::Gaussian | Family::Binomial => class(largest(&eta, f64::abs)),
            Family::Poisson => largest(&eta, |eta| eta).ceil().clamp(-MOST, MOST),
        });
        let mut ranges = [0.0; 2];
        ranges[usize::from(!leads)] = range;
        let (weighted, penalised) = (sizes.weighted, sizes.lambdas.is_some());
        Point { family, weighted, penalised, leads, eta, intercept, size, ranges, stated, cut }
    }

    /// The own range: a class, or the smallest whole number above the own part; that of the study where it fixes one.
    pub(super) fn range(&self) -> f64 {
        self.ranges[usize::from(!self.leads)]
    }

    /// Whether the own part was beyond the range that the study fixes.
    pub(super) fn was_cut(&self) -> bool {
        self.cut
    }

    /// What Alice tells Bob of the intercept: she keeps that of a poisson fit, where it belongs to no kernel.
    pub(super) fn told(&self) -> f64 {
        match self.family {
            Family::Gaussian | Family::Binomial => self.intercept,
            Family::Poisson => 0.0,
        }
    }

    /// Takes the range of the other party; false where there is no such range.
    pub(super) fn take_range(&mut self, range: f64) -> bool {
        self.ranges[usize::from(self.leads)] = range;
        if let Some(stated) = self.stated {
            return range == stated;
        }
        let least = if self.family == Family::Poisson { -MOST } else { 0.0 };
        let most = if self.family == Family::Poisson { MOST } else { CLASSES.len() as f64 };
        range.fract() == 0.0 && range >= least && range <= most
    }

    /// Both ranges are known: in a binomial fit the side with the larger one adds the intercept.
    pub(super) fn settle(&mut self) {
        if self.family != Family::Poisson && self.part() == Part::Functions {
            let intercept = self.intercept;
            self.eta.iter_mut().for_each(|eta| *eta += intercept);
        }
    }

    /// The factors that this party has.
    fn part(&self) -> Part {
        let alice = self.ranges[0] <= self.ranges[1];
        if alice == self.leads { Part::Polynomials } else { Part::Functions }
    }

    /// In a binomial fit; none where both ranges are beyond all classes.
    fn separated(&self, kernel: Kernel) -> Option<Separated> {
        let digits = match kernel {
            Kernel::Mean => self.size.clamp(*TOLERANCES.start(), *TOLERANCES.end()),
            Kernel::Loss if self.penalised => DIGITS_AT_LAMBDA,
            Kernel::Weight | Kernel::Loss => DIGITS_AT_END,
        };
        let class = self.ranges[0].min(self.ranges[1]);
        Separated::new(kernel, class as usize, digits)
    }

    /// Bits of the factors of a product within rows, and how many there are in a row; none where no kernel or no budget holds the point.
    pub(super) fn shape(&self, kernel: Kernel, rows: usize) -> Option<(u32, usize)> {
        match self.family {
            Family::Gaussian | Family::Binomial => {
                let (bits, separated) = (budget::binomial(rows)?, self.separated(kernel)?);
                let bits = match kernel {
                    Kernel::Loss if self.weighted => bits.losses,
                    Kernel::Mean | Kernel::Loss => bits.features,
                    Kernel::Weight => bits.weights,
                };
                Some((bits, separated.terms - 1))
            }
            Family::Poisson => {
                let largest = self.ranges[0] + self.ranges[1];
                // The largest outcome is below this power of two.
                let outcome = 2f64.powi(self.size as i32) - 1.0;
                let bits = budget::poisson(rows, largest, outcome)?;
                let bits = match kernel {
                    Kernel::Mean | Kernel::Loss => bits.features,
                    Kernel::Weight => bits.weights,
                };
                (budget::POISSON_FACTORS.contains(&bits)).then_some((bits, 1))
            }
        }
    }

    /// Bits of the factors, and the largest size of what opens with columns of some bits.
    pub(super) fn bits(&self, kernel: Kernel, rows: usize, columns: u32) -> Result<(u32, u128), Abort> {
        let (bits, _) = self.shape(kernel, rows).ok_or_else(|| Abort::Bug("a point without a kernel".to_string()))?;
        let bound = match (self.family, kernel) {
            (Family::Gaussian | Family::Binomial, Kernel::Mean) => (rows as u128) << (columns + 2 * bits + 1),
            (Family::Gaussian | Family::Binomial, Kernel::Weight) => (rows as u128) << (2 * columns + 2 * bits),
            (Family::Gaussian | Family::Binomial, Kernel::Loss) | (Family::Poisson, _) => u128::MAX,
        };
        Ok((bits, bound))
    }

    /// The own factors of products within rows. A mean is multiplied by the root of the case weight, as the columns are that it meets; a
    /// weight meets the columns twice.
    pub(super) fn feature<'a>(&'a self, kernel: Kernel, roots: Option<&'a [f64]>) -> Feature<'a> {
        let roots = roots.filter(|_| kernel == Kernel::Mean);
        match (self.family, self.separated(kernel)) {
            (Family::Gaussian | Family::Binomial, Some(separated)) => {
                Feature::Separated(Factors { separated, part: self.part(), own: &self.eta, roots })
            }
            (Family::Gaussian | Family::Binomial, None) | (Family::Poisson, _) => {
                let [alice, bob] = self.ranges;
                // Both parties' factors have the same largest size, so that both have the same digits.
                let above = if self.leads { bob - alice } else { alice - bob };
                let shift = above / 2.0;
                Feature::Exponential { eta: &self.eta, shift, roots: roots.filter(|_| self.leads) }
            }
        }
    }

    /// Adds to the shares of products within rows what needs no product: the first coefficient of a kernel, and Alice's outcome with
    /// a minus sign where a residual is meant.
    pub(super) fn complete(
        &self,
        kernel: Kernel,
        shares: &mut [Elements],
        y: Option<&[f64]>,
        roots: Option<&[f64]>,
    ) -> Result<(), Abort> {
        let (bits, _) = self.bits(kernel, self.eta.len(), 0)?;
        let bug = |error: crate::secure::ring::RingError| Abort::Bug(error.to_string());
        let feature = self.feature(kernel, roots);
        let y = y.filter(|_| kernel == Kernel::Mean);
        for (share, range) in shares.iter_mut().zip(row_blocks(self.eta.len())) {
            if let Feature::Separated(factors) = &feature
                && factors.part == Part::Functions
            {
                share.add(&scaled(&factors.constant(range.clone()), bits)?).map_err(bug)?;
            }
            if let Some(y) = y {
                let length = || Abort::Bug("an outcome of another length".to_string());
                let rows = y.get(range.clone()).ok_or_else(length)?;
                let rows = match roots {
                    Some(roots) => &rows.iter().zip(&roots[range]).map(|(y, root)| y * root).collect::<Vec<_>>(),
                    None => rows,
                };
                share.subtract(&scaled(rows, bits)?).map_err(bug)?;
            }
        }
        Ok(())
    }
}

/// Values at twice the bits of a factor.
fn scaled(values: &[f64], bits: u32) -> Result<Elements, Abort> {
    if let Ok(mut scaled) = Elements::fixed(Width::Two, values, bits) {
        scaled.multiply_all(1 << bits);
        return Ok(scaled);
    }
    // Beyond what fixed point takes at once: counts are far below 2^80.
    let integer = |value: &f64| ((value * 2f64.powi(bits as i32)).round_ties_even() as i128) << bits;
    if !values.iter().all(|value| value.abs() <= 1e15) {
        return Err(Abort::OwnData("a value is beyond what fixed point holds".to_string()));
    }
    Ok(Elements::from_integers(Width::Two, &values.iter().map(integer).collect::<Vec<_>>()))
}

/// The sums of all shares, each times a public factor with some bits.
pub(super) fn weighted_sum(shares: &[Elements], factors: &[f64], bits: u32) -> Result<Elements, Abort> {
    let bug = |error: crate::secure::ring::RingError| Abort::Bug(error.to_string());
    let mut weighted = Vec::with_capacity(shares.len());
    for (share, range) in shares.iter().zip(row_blocks(factors.len())) {
        let integers = factors[range].iter().map(|factor| (factor * 2f64.powi(bits as i32)).round_ties_even() as i128);
        let mut product = share.clone();
        product.multiply(&Elements::from_integers(Width::Two, &integers.collect::<Vec<_>>())).map_err(bug)?;
        weighted.push(product);
    }
    sum(&weighted)
}

/// The sum of all shares.
pub(super) fn sum(shares: &[Elements]) -> Result<Elements, Abort> {
    let mut sum = Elements::zeros(Width::Two, 1);
    for share in shares {
        let mut folded = share.clone();
        while folded.count() > 1 {
            let half = folded.count() / 2;
            let mut first = folded.slice(0..half);
            first.add(&folded.slice(half..2 * half)).map_err(|error| Abort::Bug(error.to_string()))?;
            if folded.count() % 2 == 1 {
                let last = folded.slice(2 * half..folded.count());
                first.append(&last).map_err(|error| Abort::Bug(error.to_string()))?;
            }
            folded = first;
        }
        if folded.count() == 1 {
            sum.add(&folded).map_err(|error| Abort::Bug(error.to_string()))?;
        }
    }
    Ok(sum)
}

/// The own factors of products within rows.
pub(super) enum Feature<'a> {
    /// Of a separated kernel.
    Separated(Factors<'a>),
    /// The exponential of the own part, shifted, at one party times the roots of the case weights.
    Exponential { eta: &'a [f64], shift: f64, roots: Option<&'a [f64]> },
}

impl Blocks for Feature<'_> {
    fn rows(&self) -> usize {
        match self {
            Feature::Separated(factors) => factors.rows(),
            Feature::Exponential { eta, .. } => eta.len(),
        }
    }

    fn columns(&self) -> usize {
        match self {
            Feature::Separated(factors) => factors.columns(),
            Feature::Exponential { .. } => 1,
        }
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        match self {
            Feature::Separated(factors) => factors.fill(rows, out),
            Feature::Exponential { eta, shift, roots } => {
                let begin = out.len();
                out.extend(eta[rows.clone()].iter().map(|eta| (eta + shift).exp()));
                if let Some(roots) = roots {
                    out[begin..].iter_mut().zip(&roots[rows]).for_each(|(value, root)| *value *= root);
                }
            }
        }
    }
}
