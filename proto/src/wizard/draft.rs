//! A study that is still to be written: what it says so far, and which modes there are for it.

use std::collections::BTreeSet;

use fedreg_common::data::formula::{Formula, columns};
use fedreg_common::data::functions::Factor;
use fedreg_common::id::{Mode, Protocol};
use fedreg_common::study::{ColumnTerms, Mechanism, PartyTerms, PrivacyTerms, Study, StudyError, StudyFile};

use super::WizardError;

/// Delta of a private run that is only tried.
const TRIED_DELTA: f64 = 1e-6;

/// A study that says nothing but its name.
///
/// # Errors
/// None that a name could cause: only a study file without defaults would.
pub fn empty(id: &str) -> Result<StudyFile, WizardError> {
    let table = toml::Table::from_iter([("id".to_string(), toml::Value::from(id))]);
    table.try_into().map_err(|error: toml::de::Error| WizardError::Answer(error.to_string()))
}

/// Whether the study's own parser takes a study, and the text that it took.
pub(super) fn accepted(file: &StudyFile) -> Result<(Study, String), WizardError> {
    let text = toml::to_string_pretty(file)
        .map_err(|error| WizardError::Answer(format!("the study cannot be written: {error}")))?;
    Ok((Study::parse(&text)?, text))
}

/// What is wrong with a study so far, in the words of its parser.
pub(super) fn problem(file: &StudyFile) -> Option<String> {
    accepted(file).err().map(|error| error.to_string())
}

/// What a private run may cost.
pub(super) fn privacy(
    epsilon: f64,
    delta: Option<f64>,
    mechanism: Option<Mechanism>,
) -> Result<PrivacyTerms, WizardError> {
    let table = toml::Table::from_iter([("epsilon".to_string(), toml::Value::from(epsilon))]);
    let terms: PrivacyTerms = table.try_into().map_err(|error: toml::de::Error| {
        WizardError::Answer(format!("--epsilon: {}", fedreg_common::study::explain(&error)))
    })?;
    Ok(PrivacyTerms { delta, mechanism: mechanism.unwrap_or(terms.mechanism), ..terms })
}

/// By which mechanism values are private where a study between parties names none.
pub(super) fn mechanism(protocol: Protocol) -> Option<Mechanism> {
    match protocol {
        Protocol::Vertical => Some(Mechanism::Crossprod),
        Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => None,
    }
}

/// Why there is no such mode for a study; nothing where there is. The study's own parser decides: what the study must still say in this
/// mode is made up for it.
pub(super) fn refused(file: &StudyFile, mode: Mode) -> Result<Option<StudyError>, WizardError> {
    let mut tried = StudyFile { mode, ..file.clone() };
    match mode {
        Mode::Plain | Mode::Sealed => {}
        Mode::Private => tried.privacy = Some(privacy(1.0, Some(TRIED_DELTA), mechanism(file.protocol))?),
    }
    if needs_ranges(mode, file.protocol) {
        for name in bounded(file) {
            tried.columns.entry(name).or_insert_with(|| ColumnTerms::of_range(0.0, 1.0));
        }
    }
    match accepted(&tried) {
        Ok(_) => Ok(None),
        Err(WizardError::Study(problem)) => Ok(Some(problem)),
        Err(other) => Err(other),
    }
}

/// Whether a study must state ranges or levels of its columns.
pub(super) fn needs_ranges(mode: Mode, protocol: Protocol) -> bool {
    match (mode, protocol) {
        (Mode::Private, Protocol::Vertical | Protocol::Robust) => true,
        (Mode::Plain | Mode::Sealed | Mode::Private, Protocol::Features | Protocol::Stream) => true,
        (Mode::Private, Protocol::Em)
        | (Mode::Plain | Mode::Sealed, Protocol::Vertical | Protocol::Robust | Protocol::Em) => false,
    }
}

/// Columns whose ranges or levels a study may state.
pub(super) fn bounded(file: &StudyFile) -> Vec<String> {
    let own = file.parties.values().flat_map(own_columns).chain(file.model.features.clone());
    let outcome = Some(file.outcome.column.clone()).filter(|name| !name.is_empty());
    let mut names: Vec<String> = own.chain(outcome).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The columns of its table that a party's part of the model needs.
pub(super) fn own_columns(party: &PartyTerms) -> Vec<String> {
    match party.formula.as_deref().map(Formula::parse) {
        Some(Ok(formula)) => {
            let terms = formula.terms(&[], &[]);
            let offsets = formula.offsets.iter().flat_map(Factor::columns);
            columns(&terms).into_iter().chain(offsets).map(str::to_string).collect()
        }
        Some(Err(_)) | None => party.columns.clone(),
    }
}
