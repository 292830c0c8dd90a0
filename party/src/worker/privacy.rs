//! What a worker registers and plans by the commands about its privacy ledger.

use fedreg_common::privacy::ledger::Account;
use fedreg_common::study::{ErrorTable, Expectation, Protocol, Search, Sites, Study};
use serde::Serialize;

use super::batches::each_id;
use super::config::{Config, Overrides};
use super::private::Private;
pub use super::private::init;
use crate::failure::Failure;
use crate::privacy::{Keeper, PlanFlags, left_sentence, not_private, runs_left};
use crate::show::show;

impl PlanFlags for Overrides {
    const ROWS: &'static str = "Plan for this number of rows or records a site in place of the table's";
}

/// Of a worker.
pub(crate) const WORKER: Keeper<Config, Overrides> = Keeper {
    load: |_, flags| Config::load(flags),
    terms: |config| &mut config.privacy,
    places: |config| Ok([config.ledger(), config.anchor()?]),
    register: |_, config| init(config),
    plan: |_, config, rows, format| Ok(show(format, &plan(config, rows)?, Planned::text)),
};

/// What a run would release and cost.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    study: String,
    protocol: Protocol,
    epsilon: f64,
    delta: f64,
    charge: f64,
    releases: Vec<String>,
    /// Smallest and largest share of a release.
    mu: [f64; 2],
    left: Option<f64>,
    runs_left: Option<u64>,
}

/// What a run would release, cost, and be good for.
#[derive(Debug, Serialize)]
struct Planned {
    #[serde(flatten)]
    cost: Cost,
    expected: Option<Expectation>,
    /// Why nothing is expected.
    not_expected: Option<String>,
    by_rows_and_epsilon: ErrorTable,
    /// Settings that were tried, and those that are expected to do better.
    #[serde(flatten)]
    search: Search,
    warnings: Vec<String>,
}

/// What a run would release and cost, from the study and the ledger alone.
pub(crate) fn cost(config: &Config, study: &Study<Sites>, private: Private<'_>) -> Result<Cost, Failure> {
    private.allowed()?;
    let plan = study.site_plan().ok_or_else(not_private)?;
    let charge = plan.charge_of(study.rows_per_person());
    let budget = private.terms.budget;
    let account: Option<Account> = private.open().ok().and_then(|ledger| ledger.account(&config.data_set()).ok());
    let shares = plan.releases().iter().map(|release| release.mu);
    Ok(Cost {
        study: study.head.id.clone(),
        protocol: study.protocol(),
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        charge,
        releases: plan.releases().iter().map(|release| release.label.clone()).collect(),
        mu: shares.fold([f64::INFINITY, 0.0], |[low, high], mu| [low.min(mu), high.max(mu)]),
        left: account.as_ref().map(Account::left),
        runs_left: account.as_ref().map(|account| runs_left(account, charge)),
    })
}

/// The same with what to expect of a given number of rows. Of the table their number is looked at and nothing else.
fn plan(config: &Config, rows: Option<u64>) -> Result<Planned, Failure> {
    let study = super::join::study(config)?;
    let cost = cost(config, &study, Private::of(config, &study).ok_or_else(not_private)?)?;
    let rows = match rows {
        Some(rows) => rows,
        // A stream that is still to come has no number.
        None if config.reads_stdin() => 0,
        None => {
            let mut rows = 0;
            each_id(config, &study, |_| rows += 1)?;
            rows
        }
    };
    let (expected, not_expected) = match study.expectation(rows) {
        Ok(expected) => (Some(expected), None),
        Err(reason) => (None, Some(reason.to_string())),
    };
    let warnings = expected.as_ref().map(Expectation::warnings).unwrap_or_default();
    let (by_rows_and_epsilon, search) = (study.error_table(rows), study.search(rows));
    Ok(Planned { cost, expected, not_expected, by_rows_and_epsilon, search, warnings })
}

impl Cost {
    fn cost(&self) -> String {
        let Cost { epsilon, delta, charge, .. } = self;
        format!("epsilon {epsilon} at delta {delta:e}, a sum of {charge:.6}")
    }

    /// Cost and what is left, in a sentence.
    pub(crate) fn budget(&self) -> String {
        format!("a run costs {}; {}", self.cost(), left_sentence(self.left, self.runs_left))
    }

    fn text(&self) -> String {
        let (study, protocol, cost) = (&self.study, self.protocol.name(), self.cost());
        let mut text = format!("A run of `{study}` ({protocol}), from public facts alone\n\n  costs     {cost}\n");
        text.push_str(&format!("  budget    {}\n", left_sentence(self.left, self.runs_left)));
        let count = self.releases.len();
        let plural = if count == 1 { "" } else { "s" };
        let first = self.releases.first().map_or("", String::as_str);
        let shares = match self.mu {
            [low, high] if low == high => format!("= {low:.6} each"),
            [low, high] => format!("from {low:.6} to {high:.6}"),
        };
        let whose = match self.protocol {
            Protocol::Robust => " of every batch",
            Protocol::Em | Protocol::Features | Protocol::Stream | Protocol::Vertical => "",
        };
        text.push_str(&format!(
            "  releases  {count} release{plural}{whose} with sensitivity / sigma {shares}: {first}"
        ));
        text.push_str(if count > 1 { ", and so on\n" } else { "\n" });
        text
    }
}

impl Planned {
    fn text(&self) -> String {
        let mut text = self.cost.text();
        match (&self.expected, &self.not_expected) {
            (Some(expected), _) => text.push_str(&foretold(expected)),
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or_default();
                text.push_str(&format!("\nNo error is foretold: {reason}\n"));
            }
        }
        text.push_str(&self.by_rows_and_epsilon.text());
        text.push_str(&self.search.text());
        for warning in &self.warnings {
            text.push_str(&format!("Warning: {warning}.\n"));
        }
        text.push_str("Nothing was spent.\n");
        text
    }
}

/// What to expect, as a table with what was assumed.
fn foretold(expected: &Expectation) -> String {
    let Expectation { of, rows, sites, error_zero, .. } = expected;
    let halves = expected.noise.half_range().is_some();
    let mut text = format!(
        "\nExpected ({of}), of {sites} site{} with {rows} rows each, by an assumption and not by the data\n",
        if *sites == 1 { "" } else { "s" }
    );
    let lines = expected.lines();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let head = if halves { "half ranges" } else { "" };
    text.push_str(&format!("  {:width$}  {head:>11}  {:>12}  {:>9}\n", "", "own unit", "of length"));
    for (label, size) in &lines {
        let half = if halves { digits(size.half_ranges) } else { String::new() };
        let share = format!("{:.1} %", 100.0 * size.outcome() / error_zero.outcome());
        text.push_str(&format!("  {label:width$}  {half:>11}  {:>12}  {share:>9}\n", digits(size.outcome())));
    }
    text.push_str("Assumed (`privacy.design` of the study declares other numbers):\n");
    for thought in &expected.assumed {
        text.push_str(&format!("  - {thought}\n"));
    }
    text
}

/// Four significant digits.
fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "NA".to_string();
    }
    let size = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    format!("{value:.*}", (3.0 - size).clamp(0.0, 12.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_four_digits_whatever_their_size() {
        for (value, shown) in
            [(0.012345, "0.01235"), (1234.56, "1235"), (9.99999, "10.000"), (0.0, "0.000"), (f64::INFINITY, "NA")]
        {
            assert_eq!(digits(value), shown);
        }
    }
}
