//! Public bounds for private mode, from a file of their own.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fedreg_common::data::Frame;
use fedreg_common::data::column::Values;
use fedreg_common::data::formula::Formula;
use fedreg_common::exit::Exit;
use fedreg_common::study::{ColumnTerms, DesignTerms, Mechanism, PartyTerms, PrivacyTerms, StudyFile};
use serde::Deserialize;

use crate::Failure;
use crate::arguments::{DEFAULT_ACCOUNTANT, DEFAULT_EPSILON, MechanismName, Vertical};

/// Bounds of the shipped data.
const DIABETES: &str = include_str!("../data/diabetes.bounds.toml");
/// Bounds of the shipped tables whose rows are matched.
const PEOPLE: &str = include_str!("../data/people.bounds.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    columns: BTreeMap<String, toml::Value>,
    #[serde(default)]
    levels: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    outcome: BTreeMap<String, toml::Value>,
    #[serde(default)]
    row_norm: BTreeMap<String, f64>,
}

/// What a study says of columns, and the norms at which rows are cut.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// What the study says of each column.
    pub(crate) columns: BTreeMap<String, ColumnTerms>,
    /// Norms by who holds the rows: `alice`, `bob`, `workers`.
    row_norms: BTreeMap<String, f64>,
}

impl Bounds {
    /// Bounds of columns, and no norms.
    pub(crate) fn of_columns(columns: BTreeMap<String, ColumnTerms>) -> Bounds {
        Bounds { columns, row_norms: BTreeMap::new() }
    }

    /// The norms of these holders; a norm of anybody else is refused.
    pub(crate) fn row_norms<const N: usize>(&self, holders: [&str; N]) -> Result<[Option<f64>; N], Failure> {
        self.only_of(&holders)?;
        Ok(holders.map(|holder| self.row_norm(holder)))
    }

    /// The norm of a holder, where there is one.
    pub(crate) fn row_norm(&self, holder: &str) -> Option<f64> {
        self.row_norms.get(holder).copied()
    }

    /// Refuses a norm of anybody else.
    pub(crate) fn only_of(&self, holders: &[&str]) -> Result<(), Failure> {
        match self.row_norms.keys().find(|name| !holders.contains(&name.as_str())) {
            None => Ok(()),
            Some(other) if holders.is_empty() => Err(Failure::usage(format!(
                "[row_norm] {other} has no place here: these models bound values by ranges"
            ))),
            Some(other) => {
                Err(Failure::usage(format!("[row_norm] names `{other}`, but rows are held by {}", holders.join(", "))))
            }
        }
    }
}

/// The bounds that stand in `--bounds`, or in the shipped file for the shipped data.
pub(crate) fn of_vertical(arguments: &Vertical, outcome: &str) -> Result<Bounds, Failure> {
    match (&arguments.bounds, &arguments.data) {
        (Some(file), _) => of_file(file, outcome),
        (None, None) if arguments.matching.as_ref().is_some_and(String::is_empty) => {
            parse(Path::new("the shipped bounds"), PEOPLE, outcome)
        }
        (None, _) if arguments.matching.is_some() => Err(missing()),
        (None, None) => parse(Path::new("the shipped bounds"), DIABETES, outcome),
        (None, Some(_)) => Err(missing()),
    }
}

/// That a private run of the user's own data needs bounds.
pub(crate) fn missing() -> Failure {
    Failure::usage(
        "--mode private needs --bounds FILE: ranges and levels that are known without the data, as in\n[columns]\nage = [18, \
         90]\n[levels]\nregion = [\"north\", \"south\"]\n[outcome]\ncost = [0, 5000]",
    )
}

/// The bounds in a file.
pub(crate) fn of_file(file: &Path, outcome: &str) -> Result<Bounds, Failure> {
    parse(file, &read(file)?, outcome)
}

/// The bounds in the text of a file of this name.
pub(crate) fn parse(name: &Path, text: &str, outcome: &str) -> Result<Bounds, Failure> {
    let place = |problem: &str| Failure::usage(format!("{}: {problem}", name.display()));
    let bounds: File = toml::from_str(text).map_err(|error| place(&fedreg_common::study::explain(&error)))?;
    if let Some(other) = bounds.outcome.keys().find(|column| *column != outcome) {
        return Err(place(&format!("[outcome] names `{other}`, but the outcome is `{outcome}`")));
    }
    let mut terms: BTreeMap<String, ColumnTerms> = BTreeMap::new();
    for (column, stated) in bounds.columns.iter().chain(&bounds.outcome) {
        // Through the study's own words, so that a range is refused here as it is there.
        let table = match stated {
            toml::Value::Table(table) => table.clone(),
            range => toml::Table::from_iter([("range".to_owned(), range.clone())]),
        };
        let parsed: ColumnTerms = table.try_into().map_err(|error: toml::de::Error| {
            place(&format!("`{column}`: {}", fedreg_common::study::explain(&error)))
        })?;
        terms.insert(column.clone(), parsed);
    }
    for (column, levels) in bounds.levels {
        terms.entry(column).or_default().levels = levels;
    }
    Ok(Bounds { columns: terms, row_norms: bounds.row_norm })
}

/// Refuses a range of a column that holds no numbers: a private run would take each of its rows as one that cannot be used.
pub(crate) fn refuse_ranges_of_texts(frame: &Frame, study: &StudyFile) -> Result<(), Failure> {
    for column in frame.columns() {
        let Some(terms) = study.columns.get(&column.name) else { continue };
        let levels = match &column.values {
            Values::Numeric(_) => continue,
            Values::Boolean(_) => "[\"false\", \"true\"]",
            Values::Categorical { .. } => "its levels",
        };
        // What stands in a function of a formula may be a number all the same.
        let alone = study.parties.values().any(|party| party.columns.contains(&column.name));
        if alone && terms.levels.is_empty() && (terms.range.is_some() || terms.centre.is_some()) {
            let (name, kind) = (&column.name, column.values.kind());
            let sentence = format!(
                "column `{name}` holds {kind}, and has a range in place of levels: give [levels] {name} = {levels} in --bounds"
            );
            return Err(Failure::new(Exit::Data, anyhow::anyhow!(sentence)));
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(|error| Failure::new(Exit::Usage, error))
}

/// The terms of a private run.
pub(crate) fn terms(arguments: &Vertical) -> PrivacyTerms {
    PrivacyTerms {
        mechanism: match arguments.mechanism.unwrap_or_default() {
            MechanismName::Crossprod => Mechanism::Crossprod,
            MechanismName::Residual => Mechanism::Residual,
        },
        epsilon: arguments.epsilon.unwrap_or(DEFAULT_EPSILON),
        delta: arguments.delta,
        accountant: arguments.accountant.unwrap_or(DEFAULT_ACCOUNTANT),
        rounds: 1,
        clip: 0.3,
        ridge: 0.0,
        design: DesignTerms::default(),
        large_epsilon: None,
    }
}

/// Keeps what the study says of columns that take part.
pub(crate) fn only_used(study: &mut StudyFile) {
    let named = |party: &PartyTerms| match party.formula.as_deref().map(Formula::parse) {
        Some(Ok(formula)) => formula.predictors().into_iter().map(str::to_owned).collect(),
        Some(Err(_)) | None => party.columns.clone(),
    };
    let used: Vec<String> = study.parties.values().flat_map(named).collect();
    let outcome = study.outcome.column.clone();
    study.columns.retain(|column, _| *column == outcome || used.contains(column));
}
