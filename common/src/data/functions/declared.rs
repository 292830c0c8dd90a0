//! Functions of which everything is declared, so that nothing is taken from data: where their columns lie, and what they are computed by.

use super::expression::{self, Expression};
use super::interval::{self, Interval};
use super::{Declared, Factor, Function, Kind};

/// What is known of a column or of a function before any row is.
#[derive(Debug, Clone, PartialEq)]
pub enum Foreknown {
    /// Numbers within these intervals, one for each column that it makes.
    Within(Vec<Interval>),
    /// Numbers about a public centre, without a range.
    Centred,
    /// One of these levels, the reference first.
    Levels(Vec<String>),
}

/// What a function of declared constants is computed by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Constants {
    /// Numbers in place of those that a fit would take from its rows.
    pub numbers: Vec<f64>,
    /// Levels, the reference first.
    pub levels: Vec<String>,
}

impl Factor {
    /// What is known of it, and what it is computed by, where `column` says what is known of each column.
    ///
    /// # Errors
    /// A column of which nothing usable is known; a function that looks at data, or that has no bound.
    pub fn foreknown(
        &self,
        column: &impl Fn(&str) -> Result<Foreknown, String>,
    ) -> Result<(Foreknown, Constants), String> {
        match &self.function {
            None => Ok((column(&self.name)?, Constants::default())),
            Some(function) => function.foreknown(&self.name, column),
        }
    }
}

impl Function {
    fn foreknown(
        &self,
        name: &str,
        column: &impl Fn(&str) -> Result<Foreknown, String>,
    ) -> Result<(Foreknown, Constants), String> {
        let looks = |at: &str, remedy: &str| Err(format!("`{name}` takes {at} from the data; {remedy}"));
        let within = || interval::of(&self.of, &|name| range(name, column(name)?));
        let of_levels = |levels: Vec<String>| match levels.len() {
            0 | 1 => Err(format!("`{name}` has fewer than two levels")),
            _ => Ok((Foreknown::Levels(levels.clone()), Constants { levels, ..Constants::default() })),
        };
        let numbers = |intervals: Vec<Interval>, numbers: Vec<f64>| match intervals.iter().all(|of| of.is_bounded()) {
            true => Ok((Foreknown::Within(intervals), Constants { numbers, ..Constants::default() })),
            false => Err(format!("`{name}` has no bound of usable size")),
        };
        match &self.kind {
            Kind::Number => numbers(vec![within()?], Vec::new()),
            Kind::Polynomial { raw: false, .. } => {
                looks("its orthogonal basis", "give `raw = TRUE`, or `scale` with declared constants")
            }
            Kind::Polynomial { degree, raw: true } => {
                let within = within()?;
                let power = |power: usize| within.power(Interval::new(power as f64, power as f64));
                let powers: Option<Vec<Interval>> = (1..=*degree).map(power).collect();
                numbers(powers.unwrap_or_default(), Vec::new())
            }
            Kind::Spline(spline) => {
                let within = within()?;
                let Some(knots) = spline.declared() else {
                    return looks("its knots", "declare `knots` and `Boundary.knots`");
                };
                let (low, high) = (knots[0], knots[1]);
                // What rounding may add to an argument goes no further than rounding adds to a value.
                let room = 1e-9 * (high - low);
                if within.low < low - room || within.high > high + room {
                    let problem = "goes beyond `Boundary.knots`";
                    return Err(format!("`{}`, which lies in {}, {problem}", self.of, within.shown()));
                }
                numbers(spline.intervals(&knots)?, knots)
            }
            Kind::Scale { centre: Declared::FromData, .. } => looks("its centre", "declare `center`"),
            Kind::Scale { scale: Declared::FromData, .. } => looks("its scale", "declare `scale`"),
            Kind::Scale { centre: centre @ (Declared::No | Declared::As(_)), scale } => {
                let (centre, scale) = (centre.or(0.0), scale.or(1.0));
                let less = [self.of.clone(), Expression::Number(centre)];
                let less = Expression::Operation(expression::Operator::Minus, Box::new(less));
                let scaled =
                    Expression::Operation(expression::Operator::Over, Box::new([less, Expression::Number(scale)]));
                let within = interval::of(&scaled, &|name| range(name, column(name)?))?;
                numbers(vec![within], vec![centre, scale])
            }
            Kind::Cut { labels, .. } => within().and_then(|_| of_levels(labels.clone())),
            Kind::Factor { levels: Some(levels) } => {
                self.of.columns().into_iter().try_for_each(|name| column(name).map(|_| ()))?;
                of_levels(levels.clone())
            }
            Kind::Factor { levels: None } => match self.of.columns().into_iter().next().map(column).transpose()? {
                Some(Foreknown::Levels(levels)) => of_levels(levels),
                Some(Foreknown::Within(_) | Foreknown::Centred) | None => {
                    looks("its levels", "declare `levels`, of the function or of the column")
                }
            },
        }
    }
}

impl Declared {
    fn or(self, usual: f64) -> f64 {
        match self {
            Declared::As(value) => value,
            Declared::No | Declared::FromData => usual,
        }
    }
}

/// The range of a column inside of a function.
fn range(name: &str, known: Foreknown) -> Result<Interval, String> {
    let name = super::super::error::shown(name);
    match known {
        Foreknown::Within(intervals) => {
            intervals.first().copied().ok_or_else(|| format!("`{name}` has no public range"))
        }
        Foreknown::Centred => Err(format!("`{name}` has a centre and a scale; inside a function it needs a `range`")),
        Foreknown::Levels(_) => Err(format!("`{name}` has levels, and no range of numbers")),
    }
}
