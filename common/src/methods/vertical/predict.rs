//! Scores of new rows by all parties' models: the same proof of rows, then one vector, to the party that the study
//! names and to no other. Of several parties that is the leader, to which each of the others sends its own.
//!
//! A row in which a value is missing, or a level stands that the fit did not have, has no score. The vector says so by
//! not-a-number in its place, so that the party that gets the scores learns which rows that concerns; the other learns
//! nothing of the first one's. As `predict(fit, rows, na.action = na.pass)` in R.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::data::align;
use crate::data::encode;
use crate::data::error::shown;
use crate::data::formula::Term;
use crate::data::functions::{self, Fitted};
use crate::data::outcome;
use crate::data::{DataError, Frame, Values};
use crate::id::{Digest, Role};
use crate::session::{Abort, PeerFault};
use crate::study::{Study, Vertical};

use super::agree::{Agreement, Compared, Part};
use super::message::Body;
use super::outcome::Model;
use super::prepare;

/// One party's new rows with its own part of the linear predictor.
pub struct NewRows {
    role: Role,
    study: Arc<Study<Vertical>>,
    model: Model,
    frame: Frame,
    /// Not-a-number where a value is missing.
    own: Vec<f64>,
    unusable: Vec<(String, usize)>,
    /// Those of them that are columns, which come first.
    unusable_columns: usize,
}

/// The levels with which new rows must be read: those of the model, and of its truth values, so that a word that is
/// neither is a level that the fit did not have.
///
/// # Errors
/// As [`needed_columns`].
pub fn levels(study: &Study<Vertical>, model: &Model, header: &[&str]) -> Result<BTreeMap<String, Vec<String>>, Abort> {
    let mut levels = model.levels.clone();
    let known = |name: &str| model.terms.iter().any(|(term, _)| term == name);
    for factor in prepare::terms(study, model.role, header)?.iter().flat_map(|term| &term.factors) {
        let name = factor.name();
        if factor.is_function() {
            // Its column is read as it stands; a function that is named as a column is refused.
            levels.remove(name);
        } else if !levels.contains_key(name) && !known(name) && known(&format!("{name}TRUE")) {
            levels.insert(name.to_owned(), ["FALSE", "TRUE"].map(String::from).to_vec());
        }
    }
    Ok(levels)
}

/// Refuses text in a column that the model has as numbers.
fn refuse_text(study: &Study<Vertical>, model: &Model, frame: &Frame, header: &[&str]) -> Result<(), Abort> {
    let levels = levels(study, model, header)?;
    for factor in prepare::terms(study, model.role, header)?.iter().flat_map(|term| &term.factors) {
        let name = factor.name();
        if factor.is_function() || levels.contains_key(name) {
            continue;
        }
        let column = frame.column(name).map_err(|error| Abort::OwnData(error.to_string()))?;
        if let Values::Categorical { levels, .. } = &column.values {
            let found = levels.first().map(|level| format!(" (`{}`)", shown(level))).unwrap_or_default();
            let name = shown(name);
            return Err(Abort::OwnData(format!("column `{name}` has text{found}, and the model has it as numbers")));
        }
    }
    Ok(())
}

/// Whether a model is that of this party in this study.
///
/// # Errors
/// It belongs to another study or party.
pub fn belongs(model: &Model, study: &Study<Vertical>, role: Role) -> Result<(), Abort> {
    if model.role == role && model.study == study.digest().to_string() {
        return Ok(());
    }
    Err(Abort::OwnData(format!(
        "the model file belongs to {} of study {}, not to {role} of study {}",
        model.role,
        model.study.chars().take(8).collect::<String>(),
        study.digest().short()
    )))
}

/// The columns that a party needs to read in order to score new rows: its terms', the id, and an offset.
///
/// # Errors
/// The study has no such party, or its formula cannot be read.
pub fn needed_columns(study: &Study<Vertical>, role: Role, header: &[&str]) -> Result<Vec<String>, Abort> {
    prepare::predictor_columns(study, role, header)
}

impl NewRows {
    /// Sorts the rows by id and computes the party's part of the linear predictor.
    ///
    /// The frame must have been read with [`levels`], other levels as missing values.
    ///
    /// # Errors
    /// The model belongs to another study or party, or the data are refused.
    pub fn new(study: Arc<Study<Vertical>>, role: Role, model: Model, mut frame: Frame) -> Result<NewRows, Abort> {
        belongs(&model, &study, role)?;
        let own = |error: DataError| Abort::OwnData(error.to_string());
        align::sort(&mut frame).map_err(|error| Abort::OwnData(error.to_string()))?;
        let rows = frame.rows();
        let names: Vec<String> = frame.names().map(str::to_string).collect();
        let header: Vec<&str> = names.iter().map(String::as_str).collect();
        let needed = needed_columns(&study, role, &header)?;
        refuse_text(&study, &model, &frame, &header)?;
        let mut unusable = Vec::new();
        for name in &needed {
            let missing = frame.missing([name.as_str()]).map_err(own)?.count();
            if missing > 0 {
                unusable.push((name.clone(), missing));
            }
        }
        let unusable_columns = unusable.len();
        let terms = prepare::terms(&study, role, &header)?;
        let added = prepare::added_offset(&study, role);
        let mut mask = frame.missing(needed.iter().map(String::as_str)).map_err(own)?;
        if mask.count() < rows {
            let fitted = Fitted { learnt: &model.functions, levels: &model.levels };
            let computed: Vec<Term> = terms.iter().chain(&added).cloned().collect();
            functions::derive(&mut frame, &computed, Some(&mask), Some(fitted)).map_err(own)?;
            let without = functions::missing(&frame, &computed, &mask).map_err(own)?;
            without.iter().for_each(|(_, rows)| rows.iter().for_each(|row| mask.set(*row)));
            unusable.extend(without.into_iter().map(|(name, rows)| (name, rows.len())));
        }
        let mut eta = vec![f64::NAN; rows];
        if mask.count() < rows {
            let names: Vec<String> = added.iter().map(Term::to_string).collect();
            let offset = outcome::offset(&frame, &names, Some(&mask)).map_err(own)?;
            let known: Vec<&String> = model.terms.iter().map(|(term, _)| term).collect();
            // Models of earlier versions have contrasts without an intercept too.
            let names = encode::term_names(&frame, &terms, true, Some(&mask)).map_err(own)?;
            let contrasted = prepare::is_contrasted(&study, role) || names.iter().eq(known.iter().copied());
            let design = encode::encode(&mut frame, &terms, contrasted, Some(&mask)).map_err(own)?;
            if !design.terms.iter().eq(known) {
                return Err(Abort::OwnData(
                    "the new data have other terms than the model; columns and levels must be those of the fit"
                        .to_string(),
                ));
            }
            let mut found = offset.unwrap_or_else(|| vec![0.0; design.matrix.nrows()]);
            found.iter_mut().for_each(|eta| *eta += model.intercept);
            for (column, (_, estimate)) in design.matrix.column_iter().zip(&model.terms) {
                if let Some(estimate) = estimate {
                    found.iter_mut().zip(column.iter()).for_each(|(eta, x)| *eta += estimate * x);
                }
            }
            if !found.iter().all(|eta| eta.is_finite()) {
                return Err(Abort::OwnData("a prediction is not finite".to_string()));
            }
            mask.kept().zip(found).for_each(|(row, found)| eta[row] = found);
        }
        Ok(NewRows { role, study, model, frame, own: eta, unusable, unusable_columns })
    }

    /// Whose rows they are.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The study.
    pub(super) fn study(&self) -> &Arc<Study<Vertical>> {
        &self.study
    }

    /// Checks a part of the linear predictor that another party sent.
    pub(super) fn check_theirs(&self, values: &[f64]) -> Result<(), PeerFault> {
        let (came, expected) = (values.len() as u64, self.rows());
        if came != expected {
            return Err(PeerFault::Length { what: "predictions of new rows", came, expected });
        }
        match values.iter().any(|value| value.is_infinite()) {
            true => Err(PeerFault::Value { what: "a prediction", expected: "finite", round: 0 }),
            false => Ok(()),
        }
    }

    /// The scores, with what the others add to the linear predictor.
    pub(super) fn scores(&self, theirs: Vec<f64>) -> Scores {
        let NewRows { own, model, frame, .. } = self;
        let link: Vec<f64> = own.iter().zip(theirs).map(|(own, theirs)| own + theirs).collect();
        Scores {
            // A match has changed the order of the rows, so that their numbers are no longer those of the table.
            ids: (frame.ids().is_some() || frame.matched().is_some()).then(|| prepare::identifiers(frame)),
            response: link.iter().map(|eta| if eta.is_nan() { f64::NAN } else { model.family.mean(*eta) }).collect(),
            link,
        }
    }

    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.own.len() as u64
    }

    /// The columns with values that cannot be used, missing or of a level that the fit did not have, and in how many rows; then
    /// functions of the formula that have no value, and in how many rows.
    pub fn unusable(&self) -> &[(String, usize)] {
        &self.unusable
    }

    /// The same, columns and functions apart.
    pub fn unusable_by_kind(&self) -> (&[InRows], &[InRows]) {
        self.unusable.split_at(self.unusable_columns)
    }

    /// Identifiers of the rows; row numbers where the study names no column of them.
    pub fn identifiers(&self) -> Vec<Vec<u8>> {
        prepare::identifiers(&self.frame)
    }
}

/// A name, and in how many rows.
pub type InRows = (String, usize);

/// The scores, at the party that the study names.
#[derive(Clone, PartialEq)]
pub struct Scores {
    /// The ids in the order of the scores; `None` where row numbers are the ids.
    pub ids: Option<Vec<Vec<u8>>>,
    /// The linear predictor of each row; not-a-number where either party cannot use a value.
    pub link: Vec<f64>,
    /// The mean of each row; likewise.
    pub response: Vec<f64>,
}

impl Scores {
    /// Rows without a score.
    pub fn without(&self) -> usize {
        self.link.iter().filter(|eta| eta.is_nan()).count()
    }
}

/// Prints sizes only: scores are data.
impl std::fmt::Debug for Scores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scores of {} rows", self.link.len())
    }
}

/// All parties' parts must come from the same fit: the run is compared under the key, like the ids.
impl Compared for NewRows {
    fn rows(&self) -> u64 {
        NewRows::rows(self)
    }

    fn digest(&self, key: &[u8; 32]) -> Digest {
        let ids = align::digest_rows(&self.frame, key);
        Digest::of(&[ids.as_slice(), self.model.run.as_bytes()].concat())
    }

    fn is_matched(&self) -> bool {
        self.frame.matched().is_some()
    }

    fn is_of_several(&self) -> bool {
        self.study.is_of_several()
    }

    fn differs(&self, parties: &str) -> String {
        format!("{parties} hold different ids, or model files of different runs")
    }
}

/// One side of a joint prediction.
pub type PredictSession = Conversation<PredictScript>;

/// What the sides of a joint prediction say.
pub struct PredictScript {
    agreement: Agreement<NewRows>,
    scored: bool,
    theirs: Option<Vec<f64>>,
}

impl PredictSession {
    /// A session over new rows.
    pub fn new(rows: NewRows, opening: Opening) -> PredictSession {
        let (role, study) = (rows.role, Arc::clone(&rows.study));
        let key = Digest::of(&[b"new rows".as_slice(), opening.seed.as_slice()].concat()).0;
        let agreement = Agreement::new(rows, role, &opening, key, &[Part::Rows]);
        let script = PredictScript { agreement, scored: false, theirs: None };
        Conversation::open(role, Purpose::Predict, &study, &opening, script)
    }
}

impl Script for PredictScript {
    type Body = Body;
    type Output = Option<Scores>;

    fn step(&self) -> Option<Step> {
        let NewRows { role, study, .. } = &self.agreement.table;
        let speaker = if study.result_to() == *role { self.agreement.peer } else { *role };
        let scores = Step { speaker, expected: "predictions of new rows" };
        self.agreement.step().or((!self.scored).then_some(scores))
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        if self.agreement.part().is_some() {
            return Ok(self.agreement.build()?.into());
        }
        self.scored = true;
        Ok(Body::Prediction(self.agreement.table.own.clone()).into())
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        if self.agreement.part().is_some() {
            let study = Arc::clone(&self.agreement.table.study);
            return self.agreement.absorb(&study, body).map(drop);
        }
        let Body::Prediction(values) = body else { return Err(Refusal::Kind) };
        self.agreement.table.check_theirs(&values)?;
        self.theirs = Some(values);
        self.scored = true;
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Scores>, Abort> {
        let Some(theirs) = self.theirs.take() else { return Ok(None) };
        Ok(Some(self.agreement.table.scores(theirs)))
    }
}
