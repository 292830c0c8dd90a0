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
/// Quantile of the standard normal law that 95 % lie below.
const UPPER: f64 = 1.644_854;

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
        let Some((terms, (shortened, design, norms))) = self.private().zip(self.shortened()) else { return Vec::new() };
        match terms.stated.mechanism {
            Mechanism::Residual => {}
            // Neither rounds nor a cut: a norm alone can be suggested.
            Mechanism::Crossprod => {
                let stated = PrivacyTerms { design, ..terms.stated.clone() };
                let guarantee = VerticalGuarantee::Private(PrivateTerms { stated, ..terms.clone() });
                let error = (Study { guarantee, ..shortened }).foretold_of(rows).filter(|_| !norms.is_empty());
                return error.map(|error| (error, norms)).into_iter().collect();
            }
        }
        let all = ROUNDS.into_iter().flat_map(|rounds| CLIPS.map(|clip| (rounds, clip)));
        let tried = |(rounds, clip): (u32, f64)| {
            let stated = PrivacyTerms { rounds, clip, design: design.clone(), ..terms.stated.clone() };
            let guarantee = VerticalGuarantee::Private(PrivateTerms { stated, ..terms.clone() });
            let error = (Study { guarantee, ..shortened.clone() }).foretold_of(rows)?;
            let mut settings = norms.clone();
            settings.insert("privacy.rounds".to_string(), f64::from(rounds));
            settings.insert("privacy.clip".to_string(), clip);
            Some((error, settings))
        };
        all.filter_map(tried).collect()
    }

    /// The study with shorter rows, the design that they then have, and both as settings. A norm can be suggested where it is declared how
    /// long rows are: the one that one row in twenty passes.
    fn shortened(&self) -> Option<(Study<Vertical>, DesignTerms, BTreeMap<String, f64>)> {
        let (mut shortened, mut design, mut norms) =
            (self.clone(), self.private()?.stated.design.clone(), BTreeMap::new());
        if let Some(square) = design.mean_square {
            let roles = self.parties_in_order();
            let bounds: Vec<RowBounds> = roles.iter().filter_map(|role| self.row_bounds(*role).ok()).collect();
            let narrowest = bounds.iter().map(|bounds| bounds.names().len()).min()?;
            let factor = (square * upper_square(narrowest)).sqrt();
            if factor < 0.97 {
                for (role, bounds) in roles.iter().zip(&bounds) {
                    let norm = rounded(factor * bounds.radius());
                    shortened.method.parties.get_mut(role)?.row_norm = Some(norm);
                    norms.insert(format!("parties.{role}.row_norm"), norm);
                }
                let square = rounded(square / (factor * factor));
                design.mean_square = Some(square);
                norms.insert("privacy.design.mean_square".to_string(), square);
            }
        }
        Some((shortened, design, norms))
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

/// The square, in means, that the squared length of a normal row of a given number of columns passes once in twenty (Wilson and Hilferty).
fn upper_square(columns: usize) -> f64 {
    let spread = 2.0 / (9.0 * columns.max(1) as f64);
    (1.0 - spread + UPPER * spread.sqrt()).powi(3)
}
