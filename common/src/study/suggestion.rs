//! What other settings and sizes would give, from public facts and the declared design alone: what `privacy plan` adds to its forecast.

use std::collections::BTreeMap;

use serde::Serialize;

use super::horizontal::{Robust, SiteMethod, Sites};
use super::{Guarantee, PrivacyTerms, PrivateFitTerms, PrivateTerms, Study, Vertical};
use crate::id::Role;
use crate::privacy::bounds::RowBounds;

/// Rows, of a site or of both parties, that the table has.
const ROWS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
/// Rows of models with something hidden, whose forecast fits invented records.
const FEW_ROWS: [u64; 3] = [300, 1_000, 3_000];
/// Rows of functions, whose forecast takes the spectrum of their features apart each time.
const FUNCTION_ROWS: [u64; 2] = [10_000, 100_000];
/// Epsilons that the table has beside the study's own.
const EPSILONS: [f64; 4] = [0.5, 1.0, 3.0, 10.0];
/// Epsilons where a forecast takes its time.
const FEW_EPSILONS: [f64; 3] = [1.0, 3.0, 10.0];
/// Rounds and cuts that are tried.
const ROUNDS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 10];
const CLIPS: [f64; 9] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0];
/// Correlation that settings are compared at where none is declared.
const CORRELATION: f64 = 0.3;
/// Quantile of the standard normal law that 95 % lie below.
const UPPER: f64 = 1.644_854;

/// Expected error by rows and epsilon, as a share of the length of what is sought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorTable {
    /// The columns.
    pub epsilons: Vec<f64>,
    /// One for each number of rows.
    pub rows: Vec<ErrorRow>,
    /// The correlation between columns that was assumed, where that is asked.
    pub correlation: Option<f64>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorRow {
    /// Rows of a site, or of both parties.
    pub rows: u64,
    /// An error for each epsilon; none where a run would be refused.
    pub relative_errors: Vec<Option<f64>>,
}

/// Settings that are expected to do better than the study's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// Settings by the key of the study.
    pub settings: BTreeMap<String, f64>,
    /// The error that is expected with them.
    pub relative_error: f64,
    /// The error that is expected as the study is.
    pub relative_error_now: f64,
}

impl Study<Vertical> {
    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let correlation = Some(self.design_correlation());
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts(rows, &ROWS), EPSILONS.to_vec(), own, correlation, |epsilon, rows| {
            let guarantee = Guarantee::Private(self.private()?.at(epsilon)?);
            Study { guarantee, ..self.clone() }.foretold(rows)
        })
    }

    /// Rounds, cut and norm that are expected to do at least a twentieth better; none where the study's own are near the best that was
    /// tried, or where nothing can be tried.
    pub fn suggestion(&self, rows: u64) -> Option<Suggestion> {
        Suggestion::of(self.best(rows)?, self.foretold(rows)?)
    }

    fn design_correlation(&self) -> f64 {
        self.private().and_then(|terms| terms.stated.design.correlation).unwrap_or(CORRELATION)
    }

    /// The expected error of so many rows, as a share of what is sought; none where a run would be refused.
    fn foretold(&self, rows: u64) -> Option<f64> {
        let plan = self.private_plan(rows).ok()?;
        self.foretold_error(&plan, self.design_correlation()).ok().filter(|error| error.is_finite())
    }

    fn best(&self, rows: u64) -> Option<(f64, BTreeMap<String, f64>)> {
        let terms = self.private()?.clone();
        // A norm can be suggested where it is declared how long rows are: the one that one row in twenty passes.
        let (mut shortened, mut design, mut norms) = (self.clone(), terms.stated.design.clone(), BTreeMap::new());
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
        let mut best: Option<(f64, BTreeMap<String, f64>)> = None;
        for rounds in ROUNDS.into_iter().filter(|rounds| *rounds <= 4) {
            for clip in CLIPS {
                let stated = PrivacyTerms { rounds, clip, design: design.clone(), ..terms.stated.clone() };
                let guarantee = Guarantee::Private(PrivateTerms { stated, ..terms.clone() });
                let Some(error) = (Study { guarantee, ..shortened.clone() }).foretold(rows) else { continue };
                if best.as_ref().is_none_or(|(least, _)| error < *least) {
                    let mut settings = norms.clone();
                    settings.insert("privacy.rounds".to_string(), f64::from(rounds));
                    settings.insert("privacy.clip".to_string(), clip);
                    best = Some((error, settings));
                }
            }
        }
        best
    }
}

impl Study<Sites> {
    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let (counts, epsilons) = match &self.method.method {
            SiteMethod::Robust(_) => (counts(rows, &ROWS), EPSILONS.to_vec()),
            SiteMethod::Em(_) => (counts(0, &FEW_ROWS), FEW_EPSILONS.to_vec()),
            SiteMethod::Features(_) | SiteMethod::Stream(_) => (counts(rows, &FUNCTION_ROWS), FEW_EPSILONS.to_vec()),
        };
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts, epsilons, own, None, |epsilon, rows| self.at(epsilon)?.foretold(rows))
    }

    /// Rounds and sizes of batches that are expected to do at least a twentieth better; none where the study's own are near the best that
    /// was tried, or where nothing can be tried.
    pub fn suggestion(&self, rows: u64) -> Option<Suggestion> {
        match &self.method.method {
            SiteMethod::Robust(robust) => Suggestion::of(self.best_batches(robust, rows)?, self.foretold(rows)?),
            SiteMethod::Em(_) | SiteMethod::Features(_) | SiteMethod::Stream(_) => None,
        }
    }

    /// The same study with another epsilon, and what follows from it.
    fn at(&self, epsilon: f64) -> Option<Study<Sites>> {
        let guarantee = Guarantee::Private(self.private()?.at(epsilon)?);
        let mut other = self.clone();
        if let SiteMethod::Stream(stream) = &self.method.method {
            other.method.method = SiteMethod::Stream(stream.under(&guarantee)?);
        }
        Some(Study { guarantee, ..other })
    }

    /// The expected error of so many rows, as a share of what is sought; none where a run would be refused.
    fn foretold(&self, rows: u64) -> Option<f64> {
        self.expectation(rows).ok().map(|expected| expected.relative_error).filter(|error| error.is_finite())
    }

    fn best_batches(&self, robust: &Robust, rows: u64) -> Option<(f64, BTreeMap<String, f64>)> {
        let own = self.method.terms.batch_rows;
        let tried = |rounds: u32, batch_rows: u64| {
            let mut other = self.clone();
            let private = PrivateFitTerms { rounds, ..robust.private.clone() };
            other.method.method = SiteMethod::Robust(Robust { private, ..robust.clone() });
            other.method.terms.batch_rows = batch_rows;
            let error = other.foretold(rows)?;
            let mut settings = BTreeMap::from([("robust.private.rounds".to_string(), f64::from(rounds))]);
            if batch_rows != own {
                settings.insert("sites.batch_rows".to_string(), batch_rows as f64);
            }
            Some((error, settings))
        };
        // All of a site's batches cost as much as one, so one large batch has the least noise; the study's own comes first.
        let sizes = [own, rows.div_ceil(2), rows];
        let all = ROUNDS.into_iter().filter(|rounds| *rounds >= 2);
        all.flat_map(|rounds| sizes.map(|size| tried(rounds, size.max(own))))
            .flatten()
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Numbers of rows, with the study's own unless it is 0.
fn counts(own: u64, all: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = all.iter().copied().chain(Some(own).filter(|rows| *rows > 0)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The square, in means, that the squared length of a normal row of so many columns passes once in twenty (Wilson and Hilferty).
fn upper_square(columns: usize) -> f64 {
    let spread = 2.0 / (9.0 * columns.max(1) as f64);
    (1.0 - spread + UPPER * spread.sqrt()).powi(3)
}

/// Three significant digits, so that a setting can be typed.
fn rounded(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().log10().floor() - 2.0);
    format!("{:.6}", (value / unit).round() * unit).parse().unwrap_or(value)
}

impl ErrorTable {
    fn new(
        counts: Vec<u64>,
        mut epsilons: Vec<f64>,
        own: Option<f64>,
        correlation: Option<f64>,
        error: impl Fn(f64, u64) -> Option<f64>,
    ) -> ErrorTable {
        epsilons.extend(own);
        epsilons.sort_by(f64::total_cmp);
        epsilons.dedup();
        let row = |rows: u64| ErrorRow {
            rows,
            relative_errors: epsilons.iter().map(|epsilon| error(*epsilon, rows)).collect(),
        };
        ErrorTable { rows: counts.into_iter().map(row).collect(), epsilons: epsilons.clone(), correlation }
    }

    /// The table as text, its rows indented by two.
    pub fn text(&self) -> String {
        let assumed = self.correlation.map(|correlation| format!(", at correlation {correlation}")).unwrap_or_default();
        let mut text = format!(
            "\nExpected error by rows and epsilon, relative to the length of what is sought{assumed}; all else as in the study\n"
        );
        let cells: String = self.epsilons.iter().map(|epsilon| format!("{:>10}", format!("{epsilon}"))).collect();
        text.push_str(&format!("  {:>10}{cells}\n", "rows"));
        for row in &self.rows {
            let cell = |error: &Option<f64>| match error {
                Some(error) => format!("{:.1} %", 100.0 * error),
                None => "refused".to_string(),
            };
            let cells: String = row.relative_errors.iter().map(|error| format!("{:>10}", cell(error))).collect();
            text.push_str(&format!("  {:>10}{cells}\n", row.rows));
        }
        text
    }
}

impl Suggestion {
    fn of(best: (f64, BTreeMap<String, f64>), now: f64) -> Option<Suggestion> {
        let (relative_error, settings) = best;
        (relative_error < 0.95 * now).then_some(Suggestion { settings, relative_error, relative_error_now: now })
    }

    /// The suggestion in a sentence.
    pub fn text(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!(
            "Suggested, from the same assumptions: {}. Expected error {:.1} % in place of {:.1} %.\n",
            settings.join(", "),
            100.0 * self.relative_error,
            100.0 * self.relative_error_now
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::vertical;

    const VERTICAL: &str = r#"
        id = "two"
        mode = "private"
        [parties.alice]
        certificate = "alice"
        columns = ["a", "b", "c"]
        [parties.bob]
        certificate = "bob"
        columns = ["d", "e", "f"]
        [outcome]
        column = "y"
        [columns]
        a = { range = [0, 1] }
        b = { range = [0, 1] }
        c = { range = [0, 1] }
        d = { range = [0, 1] }
        e = { range = [0, 1] }
        f = { range = [0, 1] }
        y = { range = [0, 1] }
        [privacy]
        epsilon = 3.0
        delta = 1e-5
        rounds = 4
        clip = 1.0
    "#;

    #[test]
    fn errors_fall_with_rows_and_with_epsilon_and_refusals_are_said() {
        let table = vertical(VERTICAL).error_table(20_000);
        assert_eq!(table.epsilons, EPSILONS);
        assert!(table.rows.iter().any(|row| row.rows == 20_000), "the planned rows are in the table");
        let at = |rows: u64, epsilon: f64| {
            let place = table.epsilons.iter().position(|known| *known == epsilon).unwrap();
            table.rows.iter().find(|row| row.rows == rows).unwrap().relative_errors[place].unwrap()
        };
        assert!(at(1_000, 0.5) > at(100_000, 0.5) && at(10_000, 0.5) > at(10_000, 10.0));
        let strict = VERTICAL.replace("1e-5", "1e-4");
        let text = vertical(&strict).error_table(0).text();
        assert!(text.lines().last().unwrap().contains("refused"), "delta above one over the rows: {text}");
    }

    #[test]
    fn suggested_settings_are_expected_to_do_better_and_nothing_better_is_suggested_for_them() {
        let study = vertical(VERTICAL);
        let found = study.suggestion(10_000).unwrap();
        assert!(found.relative_error < 0.95 * found.relative_error_now);
        assert!(found.text().contains("privacy.rounds = "), "{}", found.text());
        let declared = vertical(&format!("{VERTICAL}[privacy.design]\nmean_square = 0.2\ncorrelation = 0.2"));
        let found = declared.suggestion(10_000).unwrap();
        assert!(found.settings.contains_key("parties.bob.row_norm"), "{found:?}");
        let mut followed = declared.clone();
        let Guarantee::Private(terms) = &mut followed.guarantee else { panic!("{declared:?}") };
        let terms = &mut terms.stated;
        (terms.rounds, terms.clip) = (found.settings["privacy.rounds"] as u32, found.settings["privacy.clip"]);
        terms.design.mean_square = Some(found.settings["privacy.design.mean_square"]);
        for (role, party) in &mut followed.method.parties {
            party.row_norm = Some(found.settings[&format!("parties.{role}.row_norm")]);
        }
        assert_eq!(followed.suggestion(10_000), None);
    }
}
