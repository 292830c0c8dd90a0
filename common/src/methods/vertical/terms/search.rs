//! Settings of a private vertical study that are tried, and its table of errors.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Vertical, VerticalGuarantee};
use crate::glm::Family;
use crate::privacy::bounds::RowBounds;
use crate::terms::suggestion::{Candidate, EPSILONS, ErrorTable, ROWS, Search, counts, rounded};
use crate::terms::{DesignTerms, HeldBy, Mechanism, PrivacyTerms, PrivateTerms, Study};

/// Rounds and cuts that are tried.
const ROUNDS: [u32; 4] = [1, 2, 3, 4];
const CLIPS: [f64; 9] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0];
/// Correlation that settings are compared at where none is declared.
const CORRELATION: f64 = 0.3;
/// Quantiles of the standard normal law that all but one in 20, 100, 1 000 and 10 000 lie below.
const UPPER: [f64; 4] = [1.644_854, 2.326_348, 3.090_232, 3.719_016];
/// Largest bias by rows that are shortened, as a share of the error that is foretold without it: more is no suggestion, as no
/// interval contains it.
const MOST_BIAS: f64 = 0.25;

impl Study<Vertical> {
    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let correlation = Some(self.design_correlation());
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts(rows, &ROWS), EPSILONS.to_vec(), own, correlation, |epsilon, rows| {
            let guarantee = VerticalGuarantee::Private(self.private()?.at(epsilon)?);
            Study { guarantee, ..self.clone() }.foretold_of(rows)
        })
    }

    /// Rounds, cut and norm: what was tried, and what is expected to do better.
    pub fn search(&self, rows: u64) -> Search {
        self.foretold_of(rows).map_or_else(Search::default, |now| Search::of(self.candidates(rows), now))
    }

    /// What each mechanism is expected to reach under the budget of the study, and what exchanging nothing does.
    pub fn errors_by_mechanism(&self, rows: u64) -> ErrorsByMechanism {
        let correlation = self.design_correlation();
        let of = |mechanism| {
            let plan = self.plan_by(mechanism, rows).ok()?;
            self.foretold(&plan, correlation).ok()
        };
        let finite = |error: Option<f64>| error.filter(|error| error.is_finite());
        let crossprod = of(Mechanism::Crossprod);
        let residual = match (self.method.outcome.held_by, self.method.family) {
            // Among several parties there is no such plan.
            (HeldBy::Both | HeldBy::All, Family::Gaussian) => of(Mechanism::Residual),
            (HeldBy::Both | HeldBy::All, Family::Binomial | Family::Poisson)
            | (HeldBy::One(_), Family::Gaussian | Family::Binomial | Family::Poisson) => None,
        };
        ErrorsByMechanism {
            correlation,
            nothing: finite(crossprod.as_ref().or(residual.as_ref()).map(|prediction| prediction.alone_error)),
            residual: finite(residual.map(|prediction| prediction.relative_error)),
            crossprod: finite(crossprod.map(|prediction| prediction.relative_error)),
        }
    }

    fn design_correlation(&self) -> f64 {
        self.private().and_then(|terms| terms.stated.design.correlation).unwrap_or(CORRELATION)
    }

    /// The expected error of a given number of rows, as a share of what is sought; none where a run would be refused.
    fn foretold_of(&self, rows: u64) -> Option<f64> {
        let plan = self.private_plan(rows).ok()?;
        let prediction = self.foretold(&plan, self.design_correlation()).ok()?;
        Some(prediction.relative_error).filter(|error| error.is_finite())
    }

    fn candidates(&self, rows: u64) -> Vec<Candidate> {
        let Some(terms) = self.private() else { return Vec::new() };
        let own =
            Shortened { study: self.clone(), design: terms.stated.design.clone(), norms: BTreeMap::new(), bias: 0.0 };
        let all: Vec<Shortened> = UPPER.into_iter().filter_map(|upper| self.shortened(upper)).chain([own]).collect();
        match terms.stated.mechanism {
            Mechanism::Residual => {}
            // Neither rounds nor a cut: a norm alone can be suggested.
            Mechanism::Crossprod => {
                let norms = all.iter().filter(|one| !one.norms.is_empty());
                return norms.filter_map(|one| Some((one.error(&terms.stated, rows)?, one.norms.clone()))).collect();
            }
        }
        let settings = ROUNDS.into_iter().flat_map(|rounds| CLIPS.map(|clip| (rounds, clip)));
        let tried = settings.flat_map(|(rounds, clip)| {
            let stated = PrivacyTerms { rounds, clip, ..terms.stated.clone() };
            all.iter().filter_map(move |one| {
                let error = one.error(&stated, rows)?;
                let mut settings = one.norms.clone();
                settings.insert("privacy.rounds".to_string(), f64::from(rounds));
                settings.insert("privacy.clip".to_string(), clip);
                Some((error, settings))
            })
        });
        tried.collect()
    }

    /// The study with shorter rows. A norm can be suggested where it is declared how long rows are: the one that normal rows pass
    /// as rarely as a standard normal number passes `upper`. None where that is about the norm that the study has.
    fn shortened(&self, upper: f64) -> Option<Shortened> {
        let (mut study, mut design, mut norms) = (self.clone(), self.private()?.stated.design.clone(), BTreeMap::new());
        let square = design.mean_square?;
        let roles = self.parties_in_order();
        let bounds: Vec<RowBounds> = roles.iter().filter_map(|role| self.row_bounds(*role).ok()).collect();
        let narrowest = bounds.iter().map(|bounds| bounds.names().len()).min()?;
        let longest = upper_square(narrowest, upper);
        let factor = (square * longest).sqrt();
        (factor < 0.97).then_some(())?;
        for (role, bounds) in roles.iter().zip(&bounds) {
            let norm = rounded(factor * bounds.radius());
            study.method.parties.get_mut(role)?.row_norm = Some(norm);
            norms.insert(format!("parties.{role}.row_norm"), norm);
        }
        let square = rounded(square / (factor * factor));
        design.mean_square = Some(square);
        norms.insert("privacy.design.mean_square".to_string(), square);
        Some(Shortened { study, design, norms, bias: bias_of_shortened(narrowest, longest) })
    }
}

/// A study whose rows are cut at shorter norms.
struct Shortened {
    study: Study<Vertical>,
    /// The design that its rows have.
    design: DesignTerms,
    /// Both as settings.
    norms: BTreeMap<String, f64>,
    /// By how much of their size the rows that are shortened move coefficients.
    bias: f64,
}

impl Shortened {
    /// The error that is expected with these terms; none where a run would be refused, or where the bias is no small part of it.
    fn error(&self, stated: &PrivacyTerms, rows: u64) -> Option<f64> {
        let stated = PrivacyTerms { design: self.design.clone(), ..stated.clone() };
        let terms = self.study.private()?.clone();
        let guarantee = VerticalGuarantee::Private(PrivateTerms { stated, ..terms });
        let error = (Study { guarantee, ..self.study.clone() }).foretold_of(rows)?;
        (self.bias <= MOST_BIAS * error).then_some(error.hypot(self.bias))
    }
}

/// The expected error of each mechanism at one correlation between any two columns, as a share of the length of the slopes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorsByMechanism {
    /// The correlation: the declared one, or .3.
    pub correlation: f64,
    /// Where nothing is exchanged and each party fits its own columns.
    pub nothing: Option<f64>,
    /// By noised partial predictions; none where they cannot be had.
    pub residual: Option<f64>,
    /// By one table that opens with the noise of both; none where it cannot be had.
    pub crossprod: Option<f64>,
}

impl ErrorsByMechanism {
    /// For people: each error, and which is the smallest.
    pub fn text(&self) -> String {
        let named = [("nothing exchanged", self.nothing), ("residual", self.residual), ("crossprod", self.crossprod)];
        let lines = named.iter().map(|(name, error)| match error {
            Some(error) => format!("  {name:<28}{:>9.1} %\n", 100.0 * error),
            None => format!("  {name:<28}{:>11}\n", "not possible"),
        });
        let best = named.iter().filter_map(|(name, error)| Some((*name, (*error)?))).min_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.map_or(String::new(), |(name, _)| format!("Best by this: {name}.\n"));
        let head = format!("\nThe same by mechanism, under the same budget, at correlation {}\n", self.correlation);
        lines.fold(head, |text, line| text + &line) + &best
    }
}

/// The square, in means, that the squared length of a normal row of a given number of columns passes as rarely as a standard
/// normal number passes `upper` (Wilson and Hilferty).
fn upper_square(columns: usize, upper: f64) -> f64 {
    let spread = 2.0 / (9.0 * columns.max(1) as f64);
    (1.0 - spread + upper * spread.sqrt()).powi(3)
}

/// By how much of their size coefficients grow where normal rows `x` of so many columns are shortened to `s x`, at a squared
/// length of `longest` means: `E s |x|^2 / E s^2 |x|^2 - 1`. The outcome is that of the rows as they were.
fn bias_of_shortened(columns: usize, longest: f64) -> f64 {
    const STEPS: u32 = 20_000;
    let columns = columns.max(1) as f64;
    let (most, end) = ((longest * columns).sqrt(), columns.sqrt() + 9.0);
    let (mut once, mut twice) = (0.0, 0.0);
    for step in 1..STEPS {
        let length = end * f64::from(step) / f64::from(STEPS);
        // The law of the length, up to a factor that keeps it in range.
        let law = ((columns - 1.0) * (length / columns.sqrt()).ln() - 0.5 * (length * length - columns)).exp();
        let cut = length.min(most);
        once += law * cut * length;
        twice += law * cut * cut;
    }
    once / twice - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two columns the squared length has an exponential law, so that both means are known: with `c^2 = 2 ln 20` the share is
    /// .0233.
    #[test]
    fn the_bias_of_shortened_rows_is_that_of_normal_ones() {
        let square = 2.0 * 20f64.ln();
        let tail = 2.506_628_3 * crate::laws::normal_above(square.sqrt());
        let (once, twice) = (square.sqrt() * (square.sqrt() / 20.0 + tail), square / 20.0);
        let rest = 2.0 - (square + 2.0) / 20.0;
        let known = (rest + once) / (rest + twice) - 1.0;
        let found = bias_of_shortened(2, square / 2.0);
        assert!((found - known).abs() < 1e-6 && (0.02..0.03).contains(&found), "{found} {known}");
        assert!(bias_of_shortened(2, upper_square(2, UPPER[3])) < 1e-4);
        assert!(bias_of_shortened(200, upper_square(200, UPPER[0])) < 0.002);
    }
}
