//! In which interval a function lies, whatever its columns are within their declared ranges.
//!
//! Ends are moved outward by what rounding may add, so that no value that is computed from columns within their ranges lies outside.
//!
//! # Reference
//!
//! R. E. Moore, Interval Analysis (1966): arithmetic of intervals, which may be wider than the range of an expression that names a column
//! twice, and is never narrower.

use super::super::rows::LARGEST;
use super::expression::{Expression, Operator, Single};

/// By what share of its size an end is moved where a value is not rounded once from the exact one: functions of the platform's library
/// are off by a few units in the last place, 2e-16 each, powers by as many as they have factors.
const SLACK: f64 = 1e-12;

/// Ends up to this share of an interval are shown as zero, from which only room for rounding has moved them.
const ROUNDED_AWAY: f64 = 1e-9;

/// Where values lie: from `low` to `high`, both of usable size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// A stated range.
    pub const fn new(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    fn point(value: f64) -> Interval {
        Interval::new(value, value)
    }

    /// Whether the ends are of usable size and in order.
    pub(super) fn is_bounded(self) -> bool {
        self.low <= self.high && self.low.abs() <= LARGEST && self.high.abs() <= LARGEST
    }

    fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The smallest interval that holds some values, which are not rounded further.
    fn around(values: impl IntoIterator<Item = f64>) -> Interval {
        let ends = |interval: Interval, value: f64| Interval::new(interval.low.min(value), interval.high.max(value));
        values.into_iter().fold(Interval::new(f64::INFINITY, f64::NEG_INFINITY), ends)
    }

    /// With room for one rounding at each end.
    fn rounded(self) -> Interval {
        Interval::new(self.low.next_down(), self.high.next_up())
    }

    /// With room for this share of its size at each end.
    pub(super) fn widened(self, share: f64) -> Interval {
        let size = share * self.low.abs().max(self.high.abs());
        Interval::new(self.low - size, self.high + size).rounded()
    }

    /// For sentences: in at most six digits, and without what ends were moved by for rounding.
    pub(super) fn shown(self) -> String {
        let size = self.low.abs().max(self.high.abs());
        let end = |value: f64| match value.abs() <= ROUNDED_AWAY * size {
            true => "0".to_owned(),
            false => super::general(value, 6),
        };
        format!("[{}, {}]", end(self.low), end(self.high))
    }

    /// With zero.
    pub fn with_zero(self) -> Interval {
        Interval::new(self.low.min(0.0), self.high.max(0.0))
    }

    fn plus(self, other: Interval) -> Interval {
        Interval::new(self.low + other.low, self.high + other.high).rounded()
    }

    fn negated(self) -> Interval {
        Interval::new(-self.high, -self.low)
    }

    /// Where products lie.
    pub fn times(self, other: Interval) -> Interval {
        let ends = |a: f64| [a * other.low, a * other.high];
        Interval::around(ends(self.low).into_iter().chain(ends(self.high))).rounded()
    }

    fn over(self, other: Interval) -> Option<Interval> {
        let ends = |a: f64| [a / other.low, a / other.high];
        (!other.holds(0.0)).then(|| Interval::around(ends(self.low).into_iter().chain(ends(self.high))).rounded())
    }

    /// Where the values of a function lie that grows with its argument.
    fn by(self, growing: impl Fn(f64) -> f64) -> Interval {
        Interval::new(growing(self.low), growing(self.high)).widened(SLACK)
    }

    /// Where a power lies; none where it is not defined or has no bound.
    pub(super) fn power(self, exponent: Interval) -> Option<Interval> {
        let power = exponent.low;
        if exponent.low != exponent.high {
            // Of a positive number it grows or falls in either, so that the ends are at the ends.
            let ends = |a: f64| [a.powf(exponent.low), a.powf(exponent.high)];
            let corners = ends(self.low).into_iter().chain(ends(self.high));
            return (self.low > 0.0).then(|| Interval::around(corners).widened(SLACK));
        }
        let whole = power.fract() == 0.0 && power.abs() <= 1e6;
        if (power < 0.0 && self.holds(0.0)) || (!whole && self.low < 0.0) {
            return None;
        }
        let ends = Interval::around([self.low.powf(power), self.high.powf(power)]);
        // An even power turns at zero.
        let turns = whole && power > 0.0 && power % 2.0 == 0.0 && self.holds(0.0);
        Some(if turns { ends.with_zero() } else { ends }.widened(SLACK))
    }
}

/// Where an expression lies, each column in the interval that `column` gives.
///
/// # Errors
/// Where no bound is known, and what `column` says.
pub(super) fn of(
    expression: &Expression,
    column: &impl Fn(&str) -> Result<Interval, String>,
) -> Result<Interval, String> {
    let interval = match expression {
        Expression::Number(value) => Interval::point(*value),
        Expression::Name(name) => column(name)?,
        Expression::Truth(_) | Expression::Text(_) => return Err(format!("`{expression}` is no number")),
        Expression::Minus(inner) => of(inner, column)?.negated(),
        Expression::Inside(inner) => of(inner, column)?,
        Expression::Operation(operator, parts) => {
            let (a, b) = (of(&parts[0], column)?, of(&parts[1], column)?);
            match operator {
                Operator::Plus => a.plus(b),
                Operator::Minus => a.plus(b.negated()),
                Operator::Times => a.times(b),
                Operator::Over => a.over(b).ok_or_else(|| {
                    format!("`{expression}` has no bound: `{}` lies in {}, which holds 0", parts[1], b.shown())
                })?,
                Operator::Power => a.power(b).ok_or_else(|| {
                    format!(
                        "`{expression}` has no bound: `{}` lies in {}, `{}` in {}",
                        parts[0],
                        a.shown(),
                        parts[1],
                        b.shown()
                    )
                })?,
            }
        }
        Expression::Call(name, arguments) => {
            let (Some(single), Some((_, argument))) = (Single::named(name), arguments.first()) else {
                return Err(format!("`{expression}` is no number"));
            };
            let within = of(argument, column)?;
            let value = function(single, within)
                .ok_or_else(|| format!("`{expression}` has no bound: `{argument}` lies in {}", within.shown()))?;
            match arguments.get(1) {
                None => value,
                Some((_, base)) => {
                    let within = of(base, column)?;
                    let divisor = function(Single::Log, within).and_then(|base| value.over(base));
                    divisor.ok_or_else(|| {
                        format!("`{expression}` has no bound: its base `{base}` lies in {}", within.shown())
                    })?
                }
            }
        }
    };
    match interval.is_bounded() {
        true => Ok(interval),
        false => Err(format!("`{expression}` has no bound of usable size, up to {LARGEST:e}")),
    }
}

/// Where a function of one number lies; none where it is not defined on all of the interval, or has no bound there.
fn function(single: Single, within: Interval) -> Option<Interval> {
    let above = |least: f64| (within.low > least).then_some(within);
    Some(match single {
        Single::Log => above(0.0)?.by(f64::ln),
        Single::Log2 => above(0.0)?.by(f64::log2),
        Single::Log10 => above(0.0)?.by(f64::log10),
        Single::Log1p => above(-1.0)?.by(f64::ln_1p),
        Single::Exp => within.by(f64::exp),
        Single::Sqrt => (within.low >= 0.0).then(|| within.by(f64::sqrt))?,
        Single::Identity => within,
    })
}
