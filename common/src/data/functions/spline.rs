//! Bases of splines, as `bs` and `ns` of R's package `splines` have them.
//!
//! # Reference
//!
//! de Boor, A Practical Guide to Splines (1978), chapter 10: the recurrence of B-splines and their derivatives.

use super::interval::Interval;
use super::{Arguments, WIDEST};

/// By how much rounding may take a value of a basis over where it lies.
const ROUNDING: f64 = 1e-9;

/// Degree of natural splines.
const CUBIC: usize = 3;

/// A basis that is asked for.
#[derive(Debug)]
pub(super) struct Spline {
    natural: bool,
    degree: usize,
    intercept: bool,
    /// Inner knots: their number, or where they stand.
    inner: Inner,
    boundary: Option<[f64; 2]>,
}

#[derive(Debug)]
enum Inner {
    Quantiles(usize),
    At(Vec<f64>),
}

impl Spline {
    pub(super) fn new(natural: bool, arguments: &Arguments<'_>) -> Result<Spline, String> {
        let degree = if natural { CUBIC } else { arguments.count("degree")?.unwrap_or(CUBIC) };
        let intercept = arguments.truth("intercept", false)?;
        let columns = arguments.count("df")?;
        // Columns of a basis without inner knots.
        let least = if natural { 1 } else { degree } + usize::from(intercept);
        let inner = match (arguments.ascending("knots")?, columns) {
            (Some(knots), _) if knots.iter().any(|knot| !knot.is_finite()) => {
                return arguments.wrong("knots", "finite numbers");
            }
            (Some(knots), _) => Inner::At(knots),
            (None, Some(columns)) if columns < least => {
                return Err(format!("a basis of this kind has at least {least} columns, `df` asks for {columns}"));
            }
            (None, Some(columns)) => Inner::Quantiles(columns - least),
            (None, None) => Inner::Quantiles(0),
        };
        let boundary = match arguments.ascending("Boundary.knots")? {
            None => None,
            Some(ends) => match ends[..] {
                [low, high] if low.is_finite() && high.is_finite() => Some([low, high]),
                _ => return arguments.wrong("Boundary.knots", "two finite numbers"),
            },
        };
        if let (Inner::At(knots), Some([low, high])) = (&inner, boundary)
            && knots.iter().any(|knot| !(low..high).contains(knot) || *knot == low)
        {
            return Err("`knots` must lie between `Boundary.knots`".to_owned());
        }
        let spline = Spline { natural, degree, intercept, inner, boundary };
        match spline.width() <= WIDEST {
            true => Ok(spline),
            false => Err(format!("the basis has more than {WIDEST} columns")),
        }
    }

    /// The boundary knots and the inner knots, where all of them are declared.
    pub(super) fn declared(&self) -> Option<Vec<f64>> {
        let [low, high] = self.boundary?;
        match &self.inner {
            Inner::At(inner) => Some([low, high].iter().chain(inner).copied().collect()),
            // No inner knot is no quantile.
            Inner::Quantiles(0) => Some(vec![low, high]),
            Inner::Quantiles(_) => None,
        }
    }

    /// Where the columns of the basis lie between these boundary knots.
    ///
    /// B-splines are not negative and add up to 1. A natural basis is a linear map of them, so that each of its columns lies between the least
    /// and the largest entry of its row of the map, zero among them.
    pub(super) fn intervals(&self, learnt: &[f64]) -> Result<Vec<Interval>, String> {
        let unit = Interval::new(0.0, 1.0).widened(ROUNDING);
        if !self.natural {
            return Ok(vec![unit; self.width()]);
        }
        let (basis, ends) = self.basis(learnt)?;
        let constraints = Constraints::new(&basis, ends, self.intercept);
        let count = basis.count() - usize::from(!self.intercept);
        let image = |at: usize| constraints.apply((0..count).map(|i| f64::from(u8::from(i == at))).collect());
        let mut intervals = vec![Interval::new(0.0, 0.0); self.width()];
        for at in 0..count {
            for (interval, value) in intervals.iter_mut().zip(image(at)) {
                *interval = Interval::new(interval.low.min(value), interval.high.max(value));
            }
        }
        Ok(intervals.into_iter().map(|interval| interval.widened(ROUNDING)).collect())
    }

    /// Columns of the basis.
    pub(super) fn width(&self) -> usize {
        let knots = match &self.inner {
            Inner::Quantiles(count) => *count,
            Inner::At(knots) => knots.len(),
        };
        knots + if self.natural { 1 } else { self.degree } + usize::from(self.intercept)
    }

    /// The boundary knots and the inner knots.
    pub(super) fn learn(&self, values: &[f64]) -> Result<Vec<f64>, String> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(least), Some(largest)) = (sorted.first(), sorted.last()) else {
            return Err("there is no row".to_owned());
        };
        let [low, high] = self.boundary.unwrap_or([*least, *largest]);
        if low >= high {
            return Err("every row has the same value".to_owned());
        }
        let mut knots = vec![low, high];
        match &self.inner {
            Inner::At(inner) => knots.extend(inner),
            Inner::Quantiles(count) => {
                sorted.retain(|value| (low..=high).contains(value));
                knots.extend((1..=*count).map(|at| quantile(&sorted, at as f64 / (count + 1) as f64)));
            }
        }
        let Some(outside) = knots[2..].iter().find(|knot| !(low < **knot && **knot < high)) else { return Ok(knots) };
        Err(match &self.inner {
            // Between declared boundary knots they lie in any case.
            Inner::At(_) => format!(
                "the knot {outside} does not lie between the boundary knots, which are the least and the largest value, {low} and {high}; give \
                 `knots` between them, or `Boundary.knots` around them"
            ),
            Inner::Quantiles(_) => "a quantile of the values is a boundary knot; give `knots` or fewer `df`".to_owned(),
        })
    }

    /// The basis at these values, column by column; not-a-number stays.
    pub(super) fn columns(&self, values: &[f64], learnt: &[f64]) -> Result<Vec<Vec<f64>>, String> {
        let (basis, ends) = self.basis(learnt)?;
        let knots = learnt.get(2..).unwrap_or_default();
        let constraints = self.natural.then(|| Constraints::new(&basis, ends, self.intercept));
        let skipped = usize::from(!self.intercept);
        let mut columns = vec![vec![f64::NAN; values.len()]; self.width()];
        for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            let mut at = match &constraints {
                Some(_) => linear_outside(&basis, *value, ends),
                None => taylor_outside(&basis, *value, ends, knots),
            };
            at.drain(..skipped);
            if let Some(constraints) = &constraints {
                at = constraints.apply(at);
            }
            columns.iter_mut().zip(at).for_each(|(column, value)| column[row] = value);
        }
        Ok(columns)
    }
}

impl Spline {
    /// The B-splines over these knots, with the boundary knots.
    fn basis(&self, learnt: &[f64]) -> Result<(Basis, [f64; 2]), String> {
        let inner = self.width() - if self.natural { 1 } else { self.degree } - usize::from(self.intercept);
        let [low, high, knots @ ..] = learnt else { return Err("the model file lacks its knots".to_owned()) };
        if knots.len() != inner || !learnt.iter().all(|knot| knot.is_finite()) || low >= high {
            return Err("the model file has other knots".to_owned());
        }
        let order = self.degree + 1;
        let mut all = vec![*low; order];
        all.extend(knots);
        all.extend(vec![*high; order]);
        all.sort_by(f64::total_cmp);
        Ok((Basis { knots: all, order }, [*low, *high]))
    }
}

/// R's quantile of type 7, of values in ascending order.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1)) as f64 * share;
    // R allows for rounding of the place itself.
    let low = (place + 4.0 * f64::EPSILON).floor();
    let part = place - low;
    let at = |index: f64| sorted.get(index as usize).or(sorted.last()).copied().unwrap_or(f64::NAN);
    if part.abs() < 4.0 * f64::EPSILON { at(low) } else { (1.0 - part) * at(low) + part * at(low + 1.0) }
}

/// B-splines of one order over knots in ascending order, each end repeated.
struct Basis {
    knots: Vec<f64>,
    order: usize,
}

impl Basis {
    fn count(&self) -> usize {
        self.knots.len() - self.order
    }

    /// All B-splines, or their derivatives, at a value between the ends.
    fn at(&self, value: f64, derivative: usize) -> Vec<f64> {
        self.of_order(value, self.order, derivative)
    }

    /// There are as many of a lower order, and one more for each; those that the value does not touch are zero.
    fn of_order(&self, value: f64, order: usize, derivative: usize) -> Vec<f64> {
        let (knots, count) = (&self.knots, self.knots.len() - order);
        let over = |top: f64, bottom: f64| if bottom == 0.0 { 0.0 } else { top / bottom };
        if derivative > 0 {
            if order == 1 {
                return vec![0.0; count];
            }
            let lower = self.of_order(value, order - 1, derivative - 1);
            let factor = (order - 1) as f64;
            return (0..count)
                .map(|i| {
                    factor
                        * (over(lower[i], knots[i + order - 1] - knots[i])
                            - over(lower[i + 1], knots[i + order] - knots[i + 1]))
                })
                .collect();
        }
        // The last interval that is not empty holds the upper end too.
        let top = knots[knots.len() - 1];
        let mut splines: Vec<f64> = (0..knots.len() - 1)
            .map(|i| {
                let holds = knots[i] <= value && (value < knots[i + 1] || (value == top && knots[i + 1] == top));
                f64::from(u8::from(holds && knots[i] < knots[i + 1]))
            })
            .collect();
        for order in 2..=order {
            splines = (0..knots.len() - order)
                .map(|i| {
                    over((value - knots[i]) * splines[i], knots[i + order - 1] - knots[i])
                        + over((knots[i + order] - value) * splines[i + 1], knots[i + order] - knots[i + 1])
                })
                .collect();
        }
        splines
    }
}

/// Natural splines go on as straight lines.
fn linear_outside(basis: &Basis, value: f64, [low, high]: [f64; 2]) -> Vec<f64> {
    let end = value.clamp(low, high);
    let mut at = basis.at(end, 0);
    if end != value {
        at.iter_mut().zip(basis.at(end, 1)).for_each(|(at, slope)| *at += (value - end) * slope);
    }
    at
}

/// B-splines go on by their polynomial, taken at a point a quarter of the way from the end to the next knot.
fn taylor_outside(basis: &Basis, value: f64, [low, high]: [f64; 2], inner: &[f64]) -> Vec<f64> {
    let pivot = if value < low {
        0.75 * low + 0.25 * inner.first().copied().unwrap_or(high)
    } else if value > high {
        0.75 * high + 0.25 * inner.last().copied().unwrap_or(low)
    } else {
        return basis.at(value, 0);
    };
    let mut sum = vec![0.0; basis.count()];
    let mut weight = 1.0;
    for derivative in 0..basis.order {
        if derivative > 0 {
            weight *= (value - pivot) / derivative as f64;
        }
        sum.iter_mut().zip(basis.at(pivot, derivative)).for_each(|(sum, of)| *sum += weight * of);
    }
    sum
}

/// That the second derivative is zero at both ends, as two reflections: what is left of a basis behind them is natural.
struct Constraints {
    reflections: [Vec<f64>; 2],
}

impl Constraints {
    /// Householder's reflections with the signs of LINPACK, so that the basis is R's.
    fn new(basis: &Basis, ends: [f64; 2], intercept: bool) -> Constraints {
        let skipped = usize::from(!intercept);
        let mut columns = ends.map(|end| basis.at(end, 2)[skipped..].to_vec());
        for at in 0..2 {
            let column = &columns[at];
            let norm = column[at..].iter().map(|value| value * value).sum::<f64>().sqrt();
            let norm = if column[at] < 0.0 { -norm } else { norm };
            let mut reflection = vec![0.0; column.len()];
            if norm != 0.0 {
                (at..column.len()).for_each(|row| reflection[row] = column[row] / norm);
                reflection[at] += 1.0;
            }
            if at == 0 {
                columns[1] = reflected(&reflection, 0, std::mem::take(&mut columns[1]));
            }
            columns[at] = reflection;
        }
        Constraints { reflections: columns }
    }

    fn apply(&self, values: Vec<f64>) -> Vec<f64> {
        let [first, second] = &self.reflections;
        reflected(second, 1, reflected(first, 0, values)).split_off(2)
    }
}

fn reflected(reflection: &[f64], at: usize, mut values: Vec<f64>) -> Vec<f64> {
    if reflection[at] != 0.0 {
        let product: f64 = reflection.iter().zip(&values).map(|(a, b)| a * b).sum();
        let times = -product / reflection[at];
        values.iter_mut().zip(reflection).for_each(|(value, of)| *value += times * of);
    }
    values
}
