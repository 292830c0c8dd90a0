//! The privacy account on a page: the promise in words, then budget, what was expected, and every release.

use maud::{Markup, html};

use super::Report;
use super::number::{percent, plain_number, visible};
use super::section::Section;
use crate::id::Role;
use crate::methods::vertical::plan::MovedBy;
use crate::privacy::mechanism::{PlannedRelease, Receipt};
use crate::study::statement::{Charged, Outlook, Planned, Releases, Statement};

/// Rows of a table that are shown.
const MOST_ROWS: usize = 200;

/// Sites whose own account is shown beside the others'.
const MOST_SITES: usize = 50;

/// The section about privacy.
pub(crate) fn section(report: &Report) -> Section {
    let accounts = report.privacy.each(report.role);
    Section::new("Privacy").page(html! {
        @if accounts.iter().all(|(_, account)| account.is_none()) {
            p.remark { "No privacy budget was spent: values left without noise, as declared above." }
        } @else {
            @for (role, account) in &accounts {
                @if accounts.len() > 1 { h3 { (role.as_ref().map_or("this party", Role::name)) } }
                @match account {
                    Some(account) => (shown(account)),
                    None => p.remark { "None spent." },
                }
            }
        }
    })
}

fn shown(account: &Statement) -> Markup {
    html! {
        ul { @for line in &account.promise { li { (visible(line)) } } }
        (pairs("Budget", budget(account)))
        @if let Some(expected) = &account.expected { (foretold(expected)) }
        @match &account.releases {
            Releases::Charged(charged) => (released(charged)),
            Releases::Planned(planned) => (foreseen(planned)),
        }
    }
}

/// The budget in the order in which it is read.
fn budget(account: &Statement) -> Vec<(&'static str, String)> {
    let sum = |sum: f64| format!("{sum:.6}");
    let mut rows =
        vec![("Guarantee, epsilon", plain_number(account.epsilon)), ("Guarantee, delta", plain_number(account.delta))];
    if let Some(joint) = account.charged().and_then(|charged| charged.epsilon_joint) {
        rows.push(("Epsilon of a person with a row in every block", plain_number(joint)));
    }
    rows.push(("How sums are read", account.accountant.name().to_owned()));
    rows.push(("How every release is made private", visible(&account.scope.mechanism)));
    rows.push(("This run, as a sum of (sensitivity / sigma)²", sum(account.charge)));
    match &account.releases {
        Releases::Planned(planned) => rows.extend([
            ("This run, as epsilon by zcdp", plain_number(planned.epsilon_zcdp)),
            ("This run, as epsilon, exact", plain_number(planned.epsilon_exact)),
        ]),
        Releases::Charged(charged) => rows.extend([
            ("Spent by all runs", sum(charged.spent)),
            ("Most that may be spent", sum(charged.cap)),
            ("Left", sum(charged.left)),
            ("Spent, as epsilon by zcdp", plain_number(charged.epsilon_spent_zcdp)),
            ("Spent, as epsilon, exact", plain_number(charged.epsilon_spent_exact)),
            ("These persons were in a run without privacy", yes_no(charged.plain_runs)),
        ]),
    }
    rows
}

fn foretold(expected: &Outlook) -> Markup {
    let (moved, does) = match expected.moved_by {
        MovedBy::Rounds => (
            "Rounds and cut may move a coefficient by more than a quarter of its noise",
            "Rounds and cut do so from a correlation of",
        ),
        MovedBy::Table => (
            "Ridge or floor may move a coefficient by more than a quarter of its noise",
            "Ridge or floor does so from a correlation of",
        ),
        MovedBy::Cut => (
            "What is left of the cut at the largest count may move a coefficient by more than a quarter of its noise",
            "It does so from a correlation of",
        ),
    };
    let mut rows = vec![
        ("Distance from the pooled coefficients, of their length", percent_of(expected.relative_error)),
        ("The same when nothing is exchanged", percent_of(expected.relative_error_alone)),
        ("Exchanging nothing would do as well or better", yes_no(expected.better_alone)),
        (moved, yes_no(expected.biased)),
    ];
    let from = |label, correlation: Option<f64>| correlation.map(|correlation| (label, plain_number(correlation)));
    rows.extend(from("The run is worth it from a correlation of", expected.better_from_correlation));
    rows.extend(from(does, expected.biased_from_correlation));
    let cases = expected.cases.iter().map(|case| {
        let numbers = [case.correlation, case.relative_error, case.relative_error_alone, case.bias_to_noise];
        numbers.map(plain_number).to_vec()
    });
    let heads = ["Correlation", "Relative error", "Relative error alone", "Bias to noise"].map(|head| (head, None));
    html! {
        (pairs("Expected, from public facts alone", rows))
        (records(&heads, cases.collect()))
        @if !expected.assumed.words.is_empty() {
            p.remark { "Assumed: " (visible(&expected.assumed.words.join("; "))) "." }
        }
    }
}

fn released(charged: &Charged) -> Markup {
    let heads = [
        ("Release", Some("text")),
        ("Sigma", None),
        ("Sensitivity", None),
        ("Sensitivity / sigma", None),
        ("Sensitivity, which is", Some("text wrap")),
    ];
    let row = |release: &Receipt| {
        let Receipt { run: _, index: _, label, sensitivity, formula, sigma, mu } = release;
        let [sigma, sensitivity, mu] = [*sigma, *sensitivity, *mu].map(plain_number);
        vec![visible(label), sigma, sensitivity, mu, visible(formula)]
    };
    let changed = charged.bounds_changed.iter();
    let changed = changed.map(|change| vec![visible(&change.column), visible(&change.from), visible(&change.to)]);
    html! {
        h3 { "Releases" }
        (records(&heads, charged.releases.iter().map(row).collect()))
        @if !charged.bounds_changed.is_empty() {
            h3 { "Bounds changed" }
            (records(&["Column", "From", "To"].map(|head| (head, Some("text"))), changed.collect()))
        }
    }
}

fn foreseen(planned: &Planned) -> Markup {
    let row = |release: &PlannedRelease| vec![visible(&release.label), plain_number(release.mu)];
    html! {
        h3 { "Releases of each site" }
        (records(&[("Release", Some("text")), ("Sensitivity / sigma", None)], planned.planned.iter().map(row).collect()))
        @for (site, account) in planned.sites.iter().take(MOST_SITES) {
            details { summary { (visible(site)) } (shown(account)) }
        }
    }
}

/// A relative error, which may be above 1.
fn percent_of(share: f64) -> String {
    if share < 1.0 { percent(share) } else { format!("{:.0} %", 100.0 * share) }
}

fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// Labels with their values, a row each.
fn pairs(heading: &str, rows: Vec<(&str, String)>) -> Markup {
    html! {
        h3 { (heading) }
        div.scroll {
            table { tbody { @for (label, value) in &rows { tr { td.text { (label) } td { (value) } } } } }
        }
    }
}

/// A table whose columns have a heading and a class.
fn records(heads: &[(&str, Option<&str>)], rows: Vec<Vec<String>>) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for (head, class) in heads { th class=[class] { (head) } } } }
                tbody {
                    @for row in rows.iter().take(MOST_ROWS) {
                        tr { @for (cell, (_, class)) in row.iter().zip(heads) { td class=[class] { (cell) } } }
                    }
                }
            }
        }
        @if rows.len() > MOST_ROWS {
            p.remark { "The first " (MOST_ROWS) " of " (rows.len()) "; the JSON report has all." }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn charged() -> Value {
        json!({
            "unit": "one row", "adversary": "all", "not_protected": "n", "kind": "k", "mechanism": "noise", "epsilon": 3.0, "delta": 1e-6,
            "accountant": "zcdp",
            "releases": [{ "run": "r", "index": 0, "label": "X'X", "sensitivity": 1.41, "formula": "sqrt 2 < 2", "sigma": 7.5, "mu": 0.19 }],
            "charge": 0.2, "cap": 0.4, "spent": 0.2, "left": 1e-14, "epsilon_spent_zcdp": 2.1, "epsilon_spent_exact": 2.0,
            "epsilon_joint": null, "plain_runs": false, "promise": ["protected: <one> row"], "account": ["spent: .2"],
            "expected": {
                "relative_error": 0.123, "relative_error_alone": null, "better_alone": false, "biased": true, "better_from_correlation": null,
                "biased_from_correlation": 0.3,
                "cases": [{ "correlation": 0.3, "relative_error": 0.1, "relative_error_alone": 0.2, "bias_to_noise": 0.1 }],
                "assumed": {
                    "correlation": null, "mean_square": 0.4, "mean_square_declared": false, "coefficients": { "a": 0.5 },
                    "random_signs": true, "coefficients_declared": false, "words": ["rows are <short>"],
                },
            },
            "bounds_changed": [],
        })
    }

    #[test]
    fn an_account_is_shown_in_the_words_of_the_text_and_not_by_its_keys() {
        let account: Statement = serde_json::from_value(charged()).unwrap();
        let page = shown(&account).into_string();
        for key in charged().as_object().unwrap().keys().filter(|key| key.contains('_')) {
            let spaced = key.replace('_', " ");
            assert!(!page.contains(key) && !page.contains(&spaced), "{key}: {page}");
        }
        for (label, value) in [
            ("Guarantee, epsilon", "3"),
            ("Guarantee, delta", "1e-06"),
            ("Left", "0.000000"),
            ("These persons were in a run without privacy", "no"),
            ("Distance from the pooled coefficients, of their length", "12.3 %"),
            ("Rounds and cut may move a coefficient by more than a quarter of its noise", "yes"),
            ("Rounds and cut do so from a correlation of", "0.3"),
        ] {
            let row = format!("<tr><td class=\"text\">{label}</td><td>{value}</td></tr>");
            assert!(page.contains(&row), "{label}: {page}");
        }
        assert!(page.contains("<li>protected: &lt;one&gt; row</li>") && page.contains("sqrt 2 &lt; 2"), "{page}");
        let heads = "<th class=\"text\">Release</th><th>Sigma</th><th>Sensitivity</th><th>Sensitivity / sigma</th><th class=\"text wrap\">Sensitivity, which is</th>";
        assert!(page.contains(heads), "{page}");
        assert!(!page.contains("spent: .2"), "what the tables show is not said again");
        assert!(page.contains("<th>Bias to noise</th>") && page.contains("Assumed: rows are &lt;short&gt;."), "{page}");
        assert!(!page.contains("{\"") && !page.contains("Bounds changed"), "{page}");
    }

    #[test]
    fn the_plan_for_all_sites_shows_their_own_accounts_where_these_are_known() {
        let mut promise = charged();
        let fields = promise.as_object_mut().unwrap();
        for key in ["releases", "cap", "spent", "left", "epsilon_joint", "plain_runs", "bounds_changed", "expected"] {
            fields.remove(key);
        }
        fields.extend(
            json!({
                "planned": [{ "label": "gradients", "mu": 0.3 }], "epsilon_zcdp": 1.5, "epsilon_exact": 1.25,
                "sites": { "north <1>": charged() },
            })
            .as_object()
            .unwrap()
            .clone(),
        );
        let account: Statement = serde_json::from_value(promise).unwrap();
        let page = shown(&account).into_string();
        assert!(page.contains("Releases of each site") && page.contains("<td class=\"text\">gradients</td>"), "{page}");
        assert!(page.contains("This run, as epsilon by zcdp</td><td>1.5"), "{page}");
        assert!(page.contains("<summary>north &lt;1&gt;</summary>") && page.contains("Spent by all runs"), "{page}");
    }

    #[test]
    fn an_account_reads_back_as_it_was_written() {
        let account: Statement = serde_json::from_value(charged()).unwrap();
        let written = serde_json::to_value(&account).unwrap();
        assert_eq!(written, charged());
    }
}
