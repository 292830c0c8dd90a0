//! The privacy account on a page: the promise in words, then budget, what was expected, and every release, under the names that the text
//! report uses.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::Report;
use super::number::{percent, visible};
use super::table::{WORDS, in_order, plain_value, words as in_words};
use crate::id::Role;

/// Rows of a table that are shown.
const MOST_ROWS: usize = 200;

/// Sites whose own account is shown beside the others'.
const MOST_SITES: usize = 50;

/// Fields that the promise says in words.
const SAID: [&str; 4] = ["unit", "adversary", "not_protected", "kind"];

/// Fields of the budget in the order in which they are read, with their labels.
const BUDGET: [(&str, &str); 14] = [
    ("epsilon", "Guarantee, epsilon"),
    ("delta", "Guarantee, delta"),
    ("epsilon_joint", "Epsilon of a person with a row in both blocks"),
    ("accountant", "How sums are read"),
    ("mechanism", "How every release is made private"),
    ("charge", "This run, as a sum of (sensitivity / sigma)²"),
    ("epsilon_zcdp", "This run, as epsilon by zcdp"),
    ("epsilon_exact", "This run, as epsilon, exact"),
    ("spent", "Spent by all runs"),
    ("cap", "Most that may be spent"),
    ("left", "Left"),
    ("epsilon_spent_zcdp", "Spent, as epsilon by zcdp"),
    ("epsilon_spent_exact", "Spent, as epsilon, exact"),
    ("plain_runs", "These persons were in a run without privacy"),
];

/// Sums, of which those that are nearly nothing are shown as nothing.
const SUMS: [&str; 4] = ["charge", "spent", "cap", "left"];

/// Fields of what was expected, and whether each is a share.
const EXPECTED: [(&str, &str, bool); 6] = [
    ("relative_error", "Distance from the pooled coefficients, of their length", true),
    ("relative_error_alone", "The same when nothing is exchanged", true),
    ("better_alone", "Exchanging nothing would do as well or better", false),
    ("biased", "Rounds and cut may move a coefficient by more than a quarter of its noise", false),
    ("better_from_correlation", "The run is worth it from a correlation of", false),
    ("biased_from_correlation", "Rounds and cut do so from a correlation of", false),
];

/// Columns of the table of releases; a place in the run's plan tells nobody anything.
const RELEASE: [(&str, &str); 6] = [
    ("label", "Release"),
    ("round", "Round"),
    ("sigma", "Sigma"),
    ("sensitivity", "Sensitivity"),
    ("mu", "Sensitivity / sigma"),
    ("formula", "Sensitivity, which is"),
];
const LEFT_OUT: [&str; 2] = ["run", "index"];

/// Lists of releases with their headings.
const RELEASES: [(&str, &str); 2] = [("releases", "Releases"), ("planned", "Releases of each site")];

/// The section about privacy.
pub(super) fn section(report: &Report) -> Markup {
    let accounts = report.privacy.each(report.role);
    html! {
        section {
            h2 { "Privacy" }
            @if accounts.iter().all(|(_, account)| account.is_none()) {
                p.remark { "No privacy budget was spent: values left without noise, as declared above." }
            } @else {
                @for (role, account) in &accounts {
                    @if accounts.len() > 1 { h3 { (role.map_or("this party", Role::name)) } }
                    @match account {
                        Some(Value::Object(fields)) => (shown(fields)),
                        Some(other) => p { (cell(other)) },
                        None => p.remark { "None spent." },
                    }
                }
            }
        }
    }
}

fn shown(fields: &Map<String, Value>) -> Markup {
    let whole = Value::Object(fields.clone());
    let promise = in_words(&whole, WORDS[0]);
    let expected = fields.get("expected").and_then(Value::as_object);
    let known = |name: &str| {
        WORDS.contains(&name)
            || name == "expected"
            || name == "sites"
            || BUDGET.iter().any(|(key, _)| *key == name)
            || RELEASES.iter().any(|(key, _)| *key == name)
            || (!promise.is_empty() && SAID.contains(&name))
    };
    let others: Vec<(&String, &Value)> = in_order(fields).into_iter().filter(|(name, _)| !known(name)).collect();
    let budget = BUDGET.iter().filter_map(|(key, label)| {
        let value = fields.get(*key).filter(|value| !value.is_null())?;
        let shown = match value.as_f64().filter(|_| SUMS.contains(key)) {
            Some(sum) => format!("{sum:.6}"),
            None => cell(value),
        };
        Some(((*label).to_owned(), shown))
    });
    let rest = others.iter().filter(|(_, value)| !value.is_object() && !is_table(value) && !is_empty(value));
    let rest = rest.map(|(name, value)| (words(name), cell(value)));
    html! {
        @if !promise.is_empty() { ul { @for line in promise { li { (visible(line)) } } } }
        (pairs("Budget", budget.chain(rest).collect()))
        @if let Some(expected) = expected {
            (pairs("Expected, from public facts alone", foretold(expected)))
            @if let Some(Value::Array(cases)) = expected.get("cases") { (records(cases)) }
            @let assumed = in_words(expected.get("assumed").unwrap_or(&Value::Null), "words");
            @if !assumed.is_empty() { p.remark { "Assumed: " (visible(&assumed.join("; "))) "." } }
        }
        @for (key, heading) in RELEASES {
            @if let Some(Value::Array(items)) = fields.get(key) {
                h3 { (heading) }
                (records(items))
            }
        }
        @if let Some(Value::Object(sites)) = fields.get("sites") {
            @for (site, account) in sites.iter().take(MOST_SITES) {
                @if let Value::Object(account) = account {
                    details { summary { (visible(site)) } (shown(account)) }
                }
            }
        }
        @for (name, value) in &others {
            @match value {
                Value::Array(items) if is_table(value) => { h3 { (words(name)) } (records(items)) },
                Value::Object(fields) => (pairs(&words(name), in_order(fields).into_iter().map(|(name, value)| (words(name), cell(value))).collect())),
                _ => {},
            }
        }
    }
}

fn foretold(expected: &Map<String, Value>) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (key, label, share) in EXPECTED {
        if let Some(value) = expected.get(key).filter(|value| !value.is_null()) {
            let shown = match value.as_f64().filter(|_| share) {
                Some(value) => percent_of(value),
                None => cell(value),
            };
            rows.push((label.to_owned(), shown));
        }
    }
    let known = |name: &str| EXPECTED.iter().any(|(key, _, _)| *key == name);
    let rest = in_order(expected).into_iter().filter(|(name, value)| !known(name) && !is_compound(value));
    rows.extend(rest.map(|(name, value)| (words(name), cell(value))));
    rows
}

/// A relative error, which may be above 1.
fn percent_of(share: f64) -> String {
    if share < 1.0 { percent(share) } else { format!("{:.0} %", 100.0 * share) }
}

fn is_compound(value: &Value) -> bool {
    value.is_object() || value.is_array() || value.is_null()
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Array(items) if items.is_empty())
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Array(items) if items.iter().any(Value::is_object))
}

/// Labels with their values, a row each; nothing at all where there are none.
fn pairs(heading: &str, rows: Vec<(String, String)>) -> Markup {
    html! {
        @if !rows.is_empty() {
            h3 { (heading) }
            div.scroll {
                table { tbody { @for (label, value) in &rows { tr { td.text { (label) } td { (value) } } } } }
            }
        }
    }
}

/// A list of objects as a table with every key that occurs, those of releases first.
fn records(items: &[Value]) -> Markup {
    let mut columns: Vec<(String, String)> = Vec::new();
    let occurs = |key: &str| items.iter().any(|item| item.get(key).is_some());
    columns.extend(
        RELEASE.iter().filter(|(key, _)| occurs(key)).map(|(key, label)| ((*key).to_owned(), (*label).to_owned())),
    );
    for (name, _) in items.iter().filter_map(Value::as_object).flat_map(in_order) {
        if !LEFT_OUT.contains(&name.as_str()) && !columns.iter().any(|(key, _)| key == name) {
            columns.push((name.clone(), words(name)));
        }
    }
    let numeric =
        |name: &str| items.iter().filter_map(|item| item.get(name)).all(|value| value.is_number() || value.is_null());
    let class = |name: &str| match (numeric(name), name) {
        (true, _) => None,
        (false, "formula") => Some("text wrap"),
        (false, _) => Some("text"),
    };
    html! {
        div.scroll {
            table {
                thead { tr { @for (key, label) in &columns { th class=[class(key)] { (label) } } } }
                tbody {
                    @for item in items.iter().take(MOST_ROWS) {
                        tr {
                            @for (key, _) in &columns {
                                td class=[class(key)] { (item.get(key.as_str()).map(cell).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
        }
        @if items.len() > MOST_ROWS {
            p.remark { "The first " (MOST_ROWS) " of " (items.len()) "; the JSON report has all." }
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => visible(&plain_value(other)),
    }
}

fn words(name: &str) -> String {
    let words = visible(&name.replace('_', " "));
    match words.chars().next() {
        Some(first) => first.to_uppercase().chain(words.chars().skip(1)).collect(),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_account_is_shown_in_the_words_of_the_text_and_not_by_its_keys() {
        let account = json!({
            "unit": "one row", "adversary": "all", "not_protected": "n", "kind": "k", "epsilon": 3.0, "delta": 1e-6, "accountant": "zcdp",
            "releases": [{ "run": "r", "index": 0, "label": "X'X", "sensitivity": 1.41, "formula": "sqrt 2 < 2", "sigma": 7.5, "mu": 0.19 }],
            "charge": 0.2, "cap": 0.4, "spent": 0.2, "left": 1e-14, "epsilon_spent_zcdp": 2.1, "epsilon_spent_exact": 2.0,
            "epsilon_joint": null, "plain_runs": false, "promise": ["protected: <one> row"], "account": ["spent: .2"],
            "expected": {
                "relative_error": 0.123, "relative_error_alone": 2.5, "better_alone": false, "biased": true, "better_from_correlation": null,
                "cases": [{ "correlation": 0.3, "bias_to_noise": 0.1 }], "assumed": { "words": ["rows are <short>"] },
            },
            "bounds_changed": [],
            "planned": [{ "label": "gradients", "mu": 0.3 }],
            "sites": { "north <1>": { "left": 0.125 } },
        });
        let page = shown(account.as_object().unwrap()).into_string();
        for key in account.as_object().unwrap().keys().filter(|key| key.contains('_')) {
            let spaced = key.replace('_', " ");
            assert!(!page.contains(key) && !page.contains(&spaced), "{key}: {page}");
        }
        for (label, value) in [
            ("Guarantee, epsilon", "3"),
            ("Left", "0.000000"),
            ("These persons were in a run without privacy", "no"),
            ("Distance from the pooled coefficients, of their length", "12.3 %"),
            ("The same when nothing is exchanged", "250 %"),
            ("Rounds and cut may move a coefficient by more than a quarter of its noise", "yes"),
        ] {
            let row = format!("<tr><td class=\"text\">{label}</td><td>{value}</td></tr>");
            assert!(page.contains(&row), "{label}: {page}");
        }
        assert!(page.contains("<li>protected: &lt;one&gt; row</li>") && page.contains("sqrt 2 &lt; 2"), "{page}");
        let heads = "<th class=\"text\">Release</th><th>Sigma</th><th>Sensitivity</th><th>Sensitivity / sigma</th><th class=\"text wrap\">Sensitivity, which is</th>";
        assert!(page.contains(heads) && page.contains("Releases of each site"), "{page}");
        assert!(!page.contains("spent: .2"), "what the tables show is not said again");
        assert!(page.contains("<th>Bias to noise</th>") && page.contains("Assumed: rows are &lt;short&gt;."), "{page}");
        assert!(!page.contains("{\"") && !page.contains("Bounds changed"), "{page}");
        assert!(page.contains("<summary>north &lt;1&gt;</summary>"), "{page}");
    }

    #[test]
    fn fields_that_nobody_knows_are_shown_all_the_same() {
        let account = json!({ "unit": "rows", "new_thing": 4, "more": [{ "b_c": 1 }, { "d": "x" }], "deep": { "inside_it": true } });
        let page = shown(account.as_object().unwrap()).into_string();
        for text in
            ["Unit</td><td>rows", "New thing</td><td>4", "<th>B c</th>", "<h3>Deep</h3>", "Inside it</td><td>yes"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
