//! Whether a run is worth it, in words and numbers: the same in the plan, in the report's notes and in its JSON.
//!
//! Nothing here is computed from data. Where the study declares no correlation nobody knows it, so the answer is given for several.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::design::MEAN_SQUARE;
use super::logistic::{MEAN_OF_COUNTS, MOST_NOISE};
use super::{Coefficients, Design, Outcomes, Prediction, PrivatePlan};
use crate::fit::number_or_null;
use crate::privacy::bounds::RowBounds;
use crate::privacy::caution::{Caution, MAYBE_NOISE, MOSTLY_NOISE, WITHHELD};

/// The correlations that are shown where none is declared: independent columns, and what is common between measurements of one
/// person.
const SHOWN: [f64; 3] = [0.0, 0.3, 0.6];

/// The correlations that are searched for the first at which something holds.
const SEARCHED: [f64; 20] =
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

/// All that a prediction assumes; none of it is taken from data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assumed {
    /// Declared correlation between any two columns; none where the study declares none.
    pub correlation: Option<f64>,
    /// Mean square of a row without its intercept, as a share of the square of its norm bound.
    pub mean_square: f64,
    /// Whether the study declares that.
    pub mean_square_declared: bool,
    /// Coefficients, or their sizes, by term: half ranges of the outcome per public scale of the column, log odds of a binomial outcome, log
    /// rates of a poisson one.
    pub coefficients: BTreeMap<String, f64>,
    /// Whether signs are random, and only sizes are assumed.
    pub random_signs: bool,
    /// Whether the study declares the coefficients or their size.
    pub coefficients_declared: bool,
    /// The same in words.
    pub words: Vec<String>,
}

/// What to expect at one correlation between any two columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The correlation.
    pub correlation: f64,
    /// Expected distance of the slopes from the pooled ones after the run, relative to their length.
    #[serde(deserialize_with = "number_or_null")]
    pub relative_error: f64,
    /// The same where nothing is exchanged.
    #[serde(deserialize_with = "number_or_null")]
    pub relative_error_alone: f64,
    /// The largest bias of a coefficient, in standard deviations of its noise.
    #[serde(deserialize_with = "number_or_null")]
    pub bias_to_noise: f64,
}

/// What moves coefficients from the pooled ones, so that no standard error shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovedBy {
    /// Unfinished rounds, the cut of messages, and the ridge.
    #[default]
    Rounds,
    /// What is added to the eigenvalues of the table that is solved: the ridge, and the floor that noise needs.
    Table,
    /// What is left of the cut of counts and their means, beside the floor.
    Cut,
}

/// An error of a run on shares up to which the foretold one is near.
const ROUGH: f64 = 0.5;

impl MovedBy {
    fn is_rounds(&self) -> bool {
        match self {
            MovedBy::Rounds => true,
            MovedBy::Table | MovedBy::Cut => false,
        }
    }

    fn does(self) -> &'static str {
        match self {
            MovedBy::Rounds => "they do",
            MovedBy::Table | MovedBy::Cut => "it does",
        }
    }

    /// What follows for a reader.
    fn then(self) -> &'static str {
        match self {
            MovedBy::Rounds | MovedBy::Table => "intervals then miss the pooled coefficient more often than 5 %",
            MovedBy::Cut => "fits of counts have no intervals, which would not know it",
        }
    }

    /// What it does, in a sentence.
    fn what(self) -> &'static str {
        match self {
            MovedBy::Rounds => {
                "unfinished rounds, the cut and the ridge move a coefficient from the pooled one by more than a quarter of its noise"
            }
            MovedBy::Table => {
                "what lifts the table that is solved, the ridge or the floor of its noise, moves a coefficient from the pooled one by more than a \
                 quarter of its noise"
            }
            MovedBy::Cut => {
                "what is left of the cut at the largest count moves a coefficient from the pooled one by more than a quarter of its noise"
            }
        }
    }
}

/// What to expect of a run before it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// At the declared correlation, or else for independent columns.
    #[serde(deserialize_with = "number_or_null")]
    pub relative_error: f64,
    /// The same where nothing is exchanged.
    #[serde(deserialize_with = "number_or_null")]
    pub relative_error_alone: f64,
    /// Whether exchanging nothing is expected to do as well or better: for the declared design, or else at every correlation of
    /// `cases`.
    pub better_alone: bool,
    /// Whether intervals may miss the pooled coefficient more often than they say, because a coefficient is biased by more than a
    /// quarter of its noise: expected for the declared design or, where none is declared, not ruled out.
    pub biased: bool,
    /// Smallest correlation, in steps of .05, from which on the run is expected to do better than exchanging nothing.
    pub better_from_correlation: Option<f64>,
    /// Smallest correlation, in steps of .05, from which on some coefficient is biased by more than a quarter of its noise.
    pub biased_from_correlation: Option<f64>,
    /// What that bias comes from; absent where it is rounds, cut and ridge.
    #[serde(default, skip_serializing_if = "MovedBy::is_rounds")]
    pub moved_by: MovedBy,
    /// Of a binomial or poisson run, at the declared correlation, or else for independent columns: the noise of the opened table as a share
    /// of its smallest eigenvalue. A binomial run withholds its intervals where it is above .3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_noise: Option<f64>,
    /// One case where a correlation is declared, else several.
    pub cases: Vec<Case>,
    /// What all this rests on.
    pub assumed: Assumed,
}

impl Outlook {
    /// Looks ahead for rows with these bounds, in the order of the parties. What is not declared is `None`.
    pub fn new(
        plan: &PrivatePlan,
        bounds: &[&RowBounds],
        correlation: Option<f64>,
        mean_square: Option<f64>,
        (declared, outcome_mean): (Option<&Coefficients>, Option<f64>),
    ) -> Outlook {
        let neutral = plan.neutral();
        let coefficients = declared.unwrap_or(&neutral);
        let square = mean_square.unwrap_or(MEAN_SQUARE);
        let design =
            |correlation: f64| Design::new(bounds, correlation, square, coefficients).with_outcome_mean(outcome_mean);
        let at = |correlation: f64| plan.predict(&design(correlation));
        let case = |correlation: f64| {
            let prediction = at(correlation);
            Case {
                correlation,
                relative_error: prediction.relative_error,
                relative_error_alone: prediction.alone_error,
                bias_to_noise: prediction.bias_to_noise(),
            }
        };
        let cases: Vec<Case> = match correlation {
            Some(correlation) => vec![case(correlation)],
            None => SHOWN.map(case).to_vec(),
        };
        let searched = SEARCHED.map(|correlation| (correlation, at(correlation)));
        let first = |holds: &dyn Fn(&Prediction) -> bool| {
            searched.iter().find(|(_, prediction)| holds(prediction)).map(|(correlation, _)| *correlation)
        };
        let biased_from_correlation = first(&Prediction::biased);
        let unit = match plan {
            PrivatePlan::Residual(_) | PrivatePlan::Crossprod(_) => Unit::HalfRanges,
            PrivatePlan::Logistic(plan) => match plan.setup().outcomes {
                Outcomes::Events => Unit::LogOdds,
                Outcomes::Counts => Unit::LogRates,
            },
        };
        Outlook {
            relative_error: cases[0].relative_error,
            relative_error_alone: cases[0].relative_error_alone,
            better_alone: cases.iter().all(|case| case.relative_error_alone <= case.relative_error),
            biased: match correlation {
                Some(correlation) => at(correlation).biased(),
                None => biased_from_correlation.is_some(),
            },
            better_from_correlation: first(&|prediction| !prediction.better_alone()),
            biased_from_correlation,
            moved_by: match (plan, unit) {
                (PrivatePlan::Residual(_), _) => MovedBy::Rounds,
                (PrivatePlan::Logistic(_), Unit::LogRates) => MovedBy::Cut,
                (PrivatePlan::Crossprod(_) | PrivatePlan::Logistic(_), _) => MovedBy::Table,
            },
            table_noise: match plan {
                PrivatePlan::Residual(_) | PrivatePlan::Crossprod(_) => None,
                PrivatePlan::Logistic(plan) => Some(plan.table_noise(&design(correlation.unwrap_or(SHOWN[0])))),
            },
            cases,
            assumed: Assumed::new(
                bounds,
                (correlation, mean_square, outcome_mean),
                (coefficients, declared.is_some()),
                unit,
            ),
        }
    }

    /// What follows for the comparison with exchanging nothing, in a sentence.
    pub fn comparison(&self) -> String {
        let declared = self.assumed.correlation.is_some();
        match (declared, self.better_alone, self.better_from_correlation) {
            (true, true, _) => {
                "warning: for the declared design exchanging nothing is expected to do as well or better".to_owned()
            }
            (true, false, _) => {
                "for the declared design this run is expected to do better than exchanging nothing".to_owned()
            }
            (false, true, _) => format!(
                "warning: exchanging nothing is expected to do as well or better, even if any two columns have correlation {}",
                SHOWN[SHOWN.len() - 1]
            ),
            (false, false, from) => format!(
                "exchanging nothing does well only if the parties' columns are nearly uncorrelated, which no party can see alone; from a \
                 correlation of about {} on this run is expected to do better",
                from.unwrap_or(SHOWN[SHOWN.len() - 1])
            ),
        }
    }

    /// Whether a figure is rough: the error of a run on shares is foretold for noise that is small beside the table.
    fn is_rough(&self, error: f64) -> bool {
        // What is not finite is as large as anything.
        !self.moved_by.is_rounds() && !(error <= ROUGH)
    }

    /// That a binomial run is expected to withhold its intervals, in a sentence; none where it is not, or where nobody says how long rows
    /// are.
    pub fn withheld(&self) -> Option<String> {
        let known = self.assumed.mean_square_declared && self.moved_by != MovedBy::Cut;
        let noise = self.table_noise.filter(|noise| known && *noise > MOST_NOISE)?;
        let design = match self.assumed.correlation {
            Some(_) => "for the declared design",
            None => "even for uncorrelated columns",
        };
        Some(format!(
            "warning: the report is expected to withhold intervals and p-values: {design} the noise of the opened table is {:.0} % of its \
             smallest eigenvalue, more than {:.0} %; narrower ranges, a smaller `row_norm`, more rows or a larger epsilon make it less",
            100.0 * noise,
            100.0 * MOST_NOISE
        ))
    }

    /// What figures above one half say, in a sentence; none where there is no such figure.
    pub fn rough(&self) -> Option<String> {
        let rough = self.cases.iter().any(|case| self.is_rough(case.relative_error));
        rough.then(|| {
            format!(
                "figures above {:.0} % are rough ones: they say that the error of this run is more than half of what is sought, not by how much, \
                 and with a larger epsilon such a figure may rise before it falls",
                100.0 * ROUGH
            )
        })
    }

    /// What a reader of the result must know first: that the error is expected to be as large as what is sought, or that intervals would
    /// miss. From the plan alone.
    pub fn caution(&self) -> Option<Caution> {
        let worst =
            self.cases.iter().fold(&self.cases[0], |worst, case| match case.relative_error > worst.relative_error {
                true => case,
                false => worst,
            });
        // What is not finite is as large as anything.
        let noise = (!(worst.relative_error < 1.0)).then(|| {
            let banner = if self.relative_error < 1.0 { MAYBE_NOISE } else { MOSTLY_NOISE };
            let rough = if self.is_rough(worst.relative_error) { " (a rough figure, as any above one half)" } else { "" };
            let size = format!("{:.0} %{rough}", 100.0 * worst.relative_error);
            let reason = format!(
                "its plan foretold, from public facts alone, that the slopes miss the pooled ones by {size} of their length at a \
                 correlation of {} between columns; more rows, fewer columns or a larger epsilon make it less, and `privacy plan` says by how much",
                worst.correlation
            );
            Caution::new(banner, reason, true)
        });
        // Nothing is withheld of a fit that has no intervals.
        let bias = self.bias().filter(|_| self.biased && self.moved_by != MovedBy::Cut).map(|sentence| {
            let sentence = sentence.trim_start_matches("warning: ");
            let remedy = "`[privacy.design]` can declare a design that rules it out";
            Caution::new(WITHHELD, format!("{sentence}; {remedy}"), true)
        });
        Caution::joined(noise, bias)
    }

    /// What follows for intervals, in a sentence; none where no correlation up to .95 makes a difference.
    pub fn bias(&self) -> Option<String> {
        let (what, does, then) = (self.moved_by.what(), self.moved_by.does(), self.moved_by.then());
        let from = self.biased_from_correlation;
        match (self.assumed.correlation.and(self.cases.first()), self.biased) {
            (Some(case), true) => Some(format!(
                "warning: for the declared design {what}, up to {:.2} of it: {then}",
                case.bias_to_noise
            )),
            (Some(_), false) => from.map(|from| {
                format!("the declared design rules out that {what}; from a correlation of about {from} on {does}, and {then}")
            }),
            (None, _) => from.map(|from| {
                let most = self.cases.iter().map(|case| case.bias_to_noise).fold(0.0, f64::max);
                let most = match most >= 0.01 {
                    true => format!(", up to {most:.2} of it at {}", SHOWN[SHOWN.len() - 1]),
                    false => String::new(),
                };
                format!(
                    "warning: no correlation is declared, so it cannot be ruled out that {what}: {does} from a correlation of about \
                     {from} on{most}; {then}"
                )
            }),
        }
    }
}

/// What coefficients are counted in.
#[derive(Clone, Copy)]
enum Unit {
    HalfRanges,
    LogOdds,
    LogRates,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::HalfRanges => "half ranges of the outcome",
            Unit::LogOdds => "log odds",
            Unit::LogRates => "log rates",
        }
    }
}

impl Unit {
    /// The mean outcome that the figures are for; none where it does not matter.
    fn outcome_in_words(self, declared: Option<f64>) -> Option<String> {
        let key = "`privacy.design.outcome_mean` declares another";
        match (self, declared) {
            (Unit::HalfRanges, _) => None,
            (Unit::LogOdds, Some(mean)) => {
                Some(format!("{} % of the rows have the outcome 1 (declared)", (1e6 * mean).round() / 1e4))
            }
            (Unit::LogOdds, None) => Some(format!(
                "half of the rows have the outcome 1 (not declared); with a share p of ones the error grows about as \
                 1 / (4 p (1 - p)), of 2 % some tenfold: {key}"
            )),
            (Unit::LogRates, Some(mean)) => {
                Some(format!("the mean of the counts is {mean} of the largest one that the study declares (declared)"))
            }
            (Unit::LogRates, None) => Some(format!(
                "the mean of the counts is {MEAN_OF_COUNTS} of the largest one that the study declares (not declared); with a smaller \
                 mean the error grows as much as the mean is smaller: {key}"
            )),
        }
    }
}

impl Assumed {
    fn new(
        bounds: &[&RowBounds],
        (correlation, mean_square, outcome_mean): (Option<f64>, Option<f64>, Option<f64>),
        (coefficients, coefficients_declared): (&Coefficients, bool),
        unit: Unit,
    ) -> Assumed {
        let said = |declared: bool| if declared { "declared" } else { "not declared" };
        let square = mean_square.unwrap_or(MEAN_SQUARE);
        let mut sizes = BTreeMap::new();
        let mut listed = Vec::new();
        let mut values = match coefficients {
            Coefficients::Each(values) => values.iter(),
            Coefficients::Signal(_) | Coefficients::Size(_) => [].iter(),
        };
        for rows in bounds {
            for name in rows.names() {
                let size = match coefficients {
                    Coefficients::Signal(signal) => signal / (square.sqrt() * rows.radius()),
                    Coefficients::Size(size) => *size,
                    Coefficients::Each(_) => values.next().copied().unwrap_or(0.0),
                };
                listed.push(format!("{name} {size}"));
                sizes.insert(name.clone(), size);
            }
        }
        let of = unit.name();
        let per_scale = format!("{of} per scale of a column (half its range)");
        let mut words = vec![
            match correlation {
                Some(correlation) => format!("any two columns have correlation {correlation} (declared)"),
                None => "any two columns have the same correlation, which the study does not declare".to_owned(),
            },
            format!(
                "rows have mean square {square:.3} of the square of their norm bound ({}), alike in all columns of a party",
                said(mean_square.is_some())
            ),
            match coefficients {
                Coefficients::Signal(signal) => format!(
                    "coefficients have equal size and random sign, and give each party's columns a signal of {signal} {of}, were all \
                     uncorrelated ({})",
                    said(coefficients_declared)
                ),
                Coefficients::Size(size) => {
                    format!("coefficients have size {size} and random sign (declared), in {per_scale}")
                }
                Coefficients::Each(_) => format!("coefficients are {} (declared), in {per_scale}", listed.join(", ")),
            },
            match unit {
                Unit::HalfRanges => "columns and outcome are centred where their bounds say".to_owned(),
                Unit::LogOdds | Unit::LogRates => "columns are centred where their bounds say".to_owned(),
            },
        ];
        // What the figures depend on most stands first.
        words.splice(0..0, unit.outcome_in_words(outcome_mean));
        Assumed {
            correlation,
            mean_square: square,
            mean_square_declared: mean_square.is_some(),
            coefficients: sizes,
            random_signs: !matches!(coefficients, Coefficients::Each(_)),
            coefficients_declared,
            words,
        }
    }
}
