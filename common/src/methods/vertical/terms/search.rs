//! Settings of a private study of two parties that are tried, and its table of errors.

use std::collections::BTreeMap;

use super::{Vertical, VerticalGuarantee};
use crate::id::Role;
use crate::privacy::bounds::RowBounds;
use crate::terms::suggestion::{Candidate, EPSILONS, ErrorTable, ROWS, Search, counts, rounded};
use crate::terms::{DesignTerms, PrivacyTerms, PrivateTerms, Study};

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
            Study { guarantee, ..self.clone() }.foretold(rows)
        })
    }

    /// Rounds, cut and norm: what was tried, and what is expected to do better.
    pub fn search(&self, rows: u64) -> Search {
        self.foretold(rows).map_or_else(Search::default, |now| Search::of(self.candidates(rows), now))
    }

    fn design_correlation(&self) -> f64 {
        self.private().and_then(|terms| terms.stated.design.correlation).unwrap_or(CORRELATION)
    }

    /// The expected error of a given number of rows, as a share of what is sought; none where a run would be refused.
    fn foretold(&self, rows: u64) -> Option<f64> {
        let plan = self.private_plan(rows).ok()?;
        self.foretold_error(&plan, self.design_correlation()).ok().filter(|error| error.is_finite())
    }

    fn candidates(&self, rows: u64) -> Vec<Candidate> {
        let Some((terms, (shortened, design, norms))) = self.private().zip(self.shortened()) else { return Vec::new() };
        let all = ROUNDS.into_iter().flat_map(|rounds| CLIPS.map(|clip| (rounds, clip)));
        let tried = |(rounds, clip): (u32, f64)| {
            let stated = PrivacyTerms { rounds, clip, design: design.clone(), ..terms.stated.clone() };
            let guarantee = VerticalGuarantee::Private(PrivateTerms { stated, ..terms.clone() });
            let error = (Study { guarantee, ..shortened.clone() }).foretold(rows)?;
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
            let bounds = [Role::Alice, Role::Bob].map(|role| self.row_bounds(role));
            let widest = bounds.iter().flatten().map(|bounds| bounds.names().len()).min()?;
            let factor = (square * upper_square(widest)).sqrt();
            if factor < 0.97 {
                for (role, bounds) in [Role::Alice, Role::Bob].into_iter().zip(&bounds) {
                    let norm = rounded(factor * bounds.as_ref().ok().map(RowBounds::radius)?);
                    shortened.method.parties.get_mut(&role)?.row_norm = Some(norm);
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

/// The square, in means, that the squared length of a normal row of a given number of columns passes once in twenty (Wilson and Hilferty).
fn upper_square(columns: usize) -> f64 {
    let spread = 2.0 / (9.0 * columns.max(1) as f64);
    (1.0 - spread + UPPER * spread.sqrt()).powi(3)
}
