//! What other settings and sizes would give, from public facts and the declared design alone: what `privacy plan` adds to its forecast.
//! Each method tries its own settings.

use std::collections::BTreeMap;

use serde::Serialize;

/// Rows, of a site or of both parties, that the table has.
pub(crate) const ROWS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
/// Epsilons that the table has beside the study's own.
pub(crate) const EPSILONS: [f64; 4] = [0.5, 1.0, 3.0, 10.0];
/// Epsilons where a forecast takes its time.
pub(crate) const FEW_EPSILONS: [f64; 3] = [1.0, 3.0, 10.0];

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

/// Settings that were tried, and the best of them where it is clearly better than the study's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Search {
    /// Values by the key of the study; empty where nothing can be tried, as a run would be refused or no error is foretold.
    pub tried: BTreeMap<String, Vec<f64>>,
    /// Settings that are expected to do at least a twentieth better.
    pub suggested: Option<Suggestion>,
}

/// What a norm does that is suggested.
const SHORTENED: &str = " Rows beyond a `row_norm` are shortened, which biases coefficients, and no interval contains \
                         that: the error counts it for normal rows of the declared mean square; rows with longer tails have more \
                         of it.";

/// A percentage with a digit after the point, or two where there is little.
fn percent(value: f64) -> String {
    if value < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// Settings with the error that is expected of them.
pub(crate) type Candidate = (f64, BTreeMap<String, f64>);

/// These values and the study's own, which stands for those that differ from it by less than a twentieth.
pub(crate) fn with_own(values: &[f64], own: f64) -> Vec<f64> {
    let mut all: Vec<f64> = values.iter().copied().filter(|value| (value - own).abs() > 0.05 * own).collect();
    all.push(own);
    all.sort_by(f64::total_cmp);
    all
}

/// The values of every key, in order.
pub(crate) fn listed<'a>(settings: impl Iterator<Item = &'a BTreeMap<String, f64>>) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, value) in settings.flatten() {
        let values = all.entry(key.clone()).or_default();
        if let Err(place) = values.binary_search_by(|known| known.total_cmp(value)) {
            values.insert(place, *value);
        }
    }
    all
}

/// Numbers of rows, with the study's own unless it is 0.
pub(crate) fn counts(own: u64, all: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = all.iter().copied().chain(Some(own).filter(|rows| *rows > 0)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Three significant digits, so that a setting can be typed.
pub(crate) fn rounded(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().log10().floor() - 2.0);
    format!("{:.6}", (value / unit).round() * unit).parse().unwrap_or(value)
}

impl ErrorTable {
    pub(crate) fn new(
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

impl Search {
    pub(crate) fn of(candidates: Vec<Candidate>, now: f64) -> Search {
        let tried = listed(candidates.iter().map(|(_, settings)| settings));
        let best = candidates.into_iter().min_by(|left, right| left.0.total_cmp(&right.0));
        Search { tried, suggested: best.and_then(|best| Suggestion::of(best, now)) }
    }

    /// The suggestion, or what was tried, in a sentence.
    pub fn text(&self) -> String {
        if let Some(suggestion) = &self.suggested {
            return suggestion.text();
        }
        if self.tried.is_empty() {
            return String::new();
        }
        let of_key = |(key, values): (&String, &Vec<f64>)| {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            format!("{key} {}", values.join(", "))
        };
        let tried: Vec<String> = self.tried.iter().map(of_key).collect();
        format!(
            "Nothing that was tried is expected to do at least a twentieth better than the study's settings: {}.\n",
            tried.join("; ")
        )
    }
}

impl Suggestion {
    pub(crate) fn of(best: Candidate, now: f64) -> Option<Suggestion> {
        let (relative_error, settings) = best;
        (relative_error < 0.95 * now).then_some(Suggestion { settings, relative_error, relative_error_now: now })
    }

    /// The suggestion in a sentence.
    pub fn text(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let shortens = self.settings.keys().any(|key| key.ends_with(".row_norm"));
        let shortened = if shortens { SHORTENED } else { "" };
        let [error, now] = [self.relative_error, self.relative_error_now].map(|error| percent(100.0 * error));
        format!(
            "Suggested, from the same assumptions: {}. Expected error {error} % in place of {now} %.{shortened}\n",
            settings.join(", "),
        )
    }
}
