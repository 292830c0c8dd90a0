//! From a party's table to its block: what the session needs before it can speak.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::data::advice::{self, Advice};
use crate::data::align::{self, CompleteCases, Mask};
use crate::data::encode::{self, Design};
use crate::data::formula::{self, Formula, FormulaError, Term};
use crate::data::functions::{self, Factor, Learnt};
use crate::data::outcome::{self, Support};
use crate::data::sketch::{Sketch, marks_of};
use crate::data::{DataError, Frame, counted};
use crate::fit::INTERCEPT;
use crate::glm::Family;
use crate::id::{Mode, Role};
use crate::secure::open::Limits;
use crate::session::{Abort, PeerFault};
use crate::study::{HeldAs, HeldColumn, Missing, Study, Vertical, VerticalGuarantee};

use super::block::{Block, Outcome};
use super::message::Held;

/// What a party allows beyond the study: it may only be stricter.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Largest share of any own column's variance that the peer may be able to reconstruct.
    pub max_disclosure: Option<f64>,
    /// Largest number of rounds.
    pub max_rounds: Option<u32>,
    /// Smallest number of rows.
    pub min_rows: Option<u64>,
    /// Whether the projection exchange, which shows the sender's column space, is allowed.
    pub allow_basis: bool,
    /// Whether an outcome that this party holds alone may leave, whole or within partial predictions.
    pub allow_outcome: bool,
    /// What may open in sealed mode.
    pub limits: Limits,
}

impl Policy {
    /// Whether the policy lets this party send what the study makes it send whole, before anything is sent.
    ///
    /// # Errors
    /// It does not; the sentence names the column.
    pub fn allows(&self, study: &Study<Vertical>, role: Role) -> Result<(), Abort> {
        let refuse = |what: String| Err(Abort::Policy { who: role, what });
        match study.guarantee {
            VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => {}
            VerticalGuarantee::Sealed(_) => {
                return match self.max_disclosure {
                    // Which share of a column the table gives away is known only once it is open.
                    Some(_) => refuse("max_disclosure cannot be kept in sealed mode; leave it out".to_string()),
                    None => Ok(()),
                };
            }
        }
        if let (true, Some(most)) = (study.method.shares_covariance(), self.max_disclosure.filter(|most| *most < 1.0)) {
            return refuse(format!(
                "the study shares the covariances of all coefficients, which tell single columns apart, and at most {:.1} % of a column may \
                 be reconstructed",
                100.0 * most
            ));
        }
        // What was sent to the leader before is a matter of the policy of its holder.
        let whole = study.sent_whole(role).into_iter();
        let mut whole = whole.filter(|(_, column)| column.held_by.holder() == Some(role));
        let outcome = &study.method.outcome;
        if !self.allow_outcome && outcome.held_by.holder() == Some(role) {
            return refuse(match study.sent_whole(role).iter().any(|(held, _)| *held == HeldAs::Outcome) {
                true => format!("the study lets every value of the outcome `{}` leave", outcome.column),
                false => {
                    format!("partial predictions contain the outcome `{}`, which {role} holds alone", outcome.column)
                }
            });
        }
        match (whole.next(), self.max_disclosure.filter(|most| *most < 1.0)) {
            (Some((_, column)), Some(most)) => refuse(format!(
                "the study lets every value of `{}` leave, and at most {:.1} % of a column may be reconstructed",
                column.column,
                100.0 * most
            )),
            _ => Ok(()),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_disclosure: None,
            max_rounds: None,
            min_rows: None,
            allow_basis: true,
            allow_outcome: true,
            limits: Limits::default(),
        }
    }
}

/// A party's table, checked as far as that goes without the peer.
pub struct Prepared {
    pub(super) role: Role,
    pub(super) study: Arc<Study<Vertical>>,
    pub(super) policy: Policy,
    pub(super) frame: Frame,
    pub(super) terms: Vec<Term>,
    pub(super) incomplete: Option<Mask>,
    advice: Vec<Advice>,
    /// Of a sealed study: sketches of all columns, by which their values are compared with those of other runs.
    sketches: Vec<(String, Sketch)>,
    /// The block, where no row can be dropped any more.
    encoded: Option<Encoded>,
}

/// Columns as numbers.
pub(super) struct Encoded {
    pub(super) block: Block,
    /// Names of all own terms, those set aside included.
    pub(super) terms: Vec<String>,
    /// For each, the column or term of the formula that it comes from.
    pub(super) sources: Vec<String>,
    /// By term, the terms that contain it.
    pub(super) containing: std::collections::BTreeMap<String, Vec<String>>,
    /// Levels of categorical columns, for the model file.
    pub(super) levels: std::collections::BTreeMap<String, Vec<String>>,
    /// What functions took from the columns, for the model file.
    pub(super) learnt: Learnt,
    /// The fold of each row, from 1.
    pub(super) folds: Option<Vec<u32>>,
    /// Own outcome, offset and weights, for the comparison with the peer's.
    pub(super) outcome: Option<Vec<f64>>,
    pub(super) offset: Option<Vec<f64>>,
    pub(super) weights: Option<Vec<f64>>,
    pub(super) notes: Vec<String>,
    /// Rows with weight zero, which R does not count.
    pub(super) unweighted: usize,
    pub(super) complete: Option<CompleteCases>,
    /// What this party holds alone and sends to the leader, which it is not.
    pub(super) for_leader: VecDeque<Held>,
}

impl Encoded {
    /// Takes case weights over that another party held.
    pub(super) fn take_weights(&mut self, weights: Vec<f64>) -> Result<(), PeerFault> {
        self.unweighted = weights.iter().filter(|weight| **weight == 0.0).count();
        if self.unweighted == weights.len() {
            let (what, expected) = ("the weights", "positive somewhere");
            return Err(PeerFault::Value { what, expected, round: 0 });
        }
        self.block.reweight(Some(weights.clone()), 1.0);
        self.weights = Some(weights);
        Ok(())
    }

    /// Takes an outcome over that another party held.
    pub(super) fn take_outcome(&mut self, outcome: Vec<f64>) {
        self.block.receive_outcome(outcome.clone());
        self.outcome = Some(outcome);
    }

    /// Takes an offset over that another party held.
    pub(super) fn take_offset(&mut self, offset: Vec<f64>) {
        self.block.receive_offset(offset.clone());
        self.offset = Some(offset);
    }
}

/// The columns that a party needs to read: its terms', the shared ones, the folds. The id is apart.
///
/// # Errors
/// The study has no such party, or its formula cannot be read.
pub fn needed_columns(study: &Study<Vertical>, role: Role, header: &[&str]) -> Result<Vec<String>, Abort> {
    let mut needed = predictor_columns(study, role, header)?;
    let mut add = |name: &str| {
        if !needed.iter().any(|known| known == name) {
            needed.push(name.to_string());
        }
    };
    // An offset is among the columns of the predictor.
    for column in std::iter::once(&study.method.outcome).chain(&study.method.weights) {
        if study.has(role, column) {
            add(&column.column);
        }
    }
    if let Some(folds) = study.method.penalty.as_ref().and_then(|penalty| penalty.folds.as_ref()) {
        add(folds);
    }
    Ok(needed)
}

/// The columns of the linear predictor: the terms' and an offset.
pub(super) fn predictor_columns(study: &Study<Vertical>, role: Role, header: &[&str]) -> Result<Vec<String>, Abort> {
    let mut needed: Vec<String> = Vec::new();
    let terms = terms(study, role, header)?;
    let columns = formula::columns(&terms);
    let offset = offset_of(study).filter(|_| study.method.offset.iter().any(|offset| study.has(role, offset)));
    for name in columns.into_iter().chain(offset.iter().flat_map(Factor::columns)) {
        if !needed.iter().any(|known| known == name) {
            needed.push(name.to_string());
        }
    }
    Ok(needed)
}

/// The offset: a column, or what a party's formula computes from columns.
fn offset_of(study: &Study<Vertical>) -> Option<Factor> {
    let name = &study.method.offset.as_ref()?.column;
    let formulas = study.method.parties.values().filter_map(|party| Formula::parse(party.formula.as_deref()?).ok());
    let computed =
        formulas.flat_map(|formula| formula.offsets).find(|offset| offset.is_function() && offset.to_string() == *name);
    Some(computed.unwrap_or_else(|| Factor::column(name)))
}

/// The offset that a party adds to its part of a prediction, as a term: its holder's, the first one's where all hold it, so that it counts
/// once.
pub(super) fn added_offset(study: &Study<Vertical>, role: Role) -> Option<Term> {
    let adds = study.method.offset.as_ref()?.held_by.holder().unwrap_or(study.first()) == role;
    offset_of(study).filter(|_| adds).map(|offset| Term { factors: vec![offset] })
}

/// The values of the offset, computed first where it is no column of the table.
fn offset(study: &Study<Vertical>, frame: &mut Frame, dropped: Option<&Mask>) -> Result<Option<Vec<f64>>, DataError> {
    let Some(offset) = offset_of(study) else { return Ok(None) };
    if !offset.is_function() {
        return outcome::offset(frame, &[offset.name()], dropped);
    }
    let name = offset.name().to_owned();
    functions::derive(frame, &[Term { factors: vec![offset] }], dropped, None)?;
    let values = outcome::offset(frame, &[name.as_str()], dropped)?;
    // A term may be computed alike.
    frame.take(&name)?;
    Ok(values)
}

fn shared_columns(study: &Study<Vertical>) -> impl Iterator<Item = (&HeldColumn, &'static str)> {
    std::iter::once((&study.method.outcome, "the outcome"))
        .chain(study.method.offset.iter().map(|column| (column, "the offset")))
        .chain(study.method.weights.iter().map(|column| (column, "the weights")))
}

pub(super) fn terms(study: &Study<Vertical>, role: Role, header: &[&str]) -> Result<Vec<Term>, Abort> {
    let Some(party) = study.method.parties.get(&role) else {
        return Err(Abort::Bug(format!("the study has no party {role}")));
    };
    let offset = offset_of(study);
    let mut others: Vec<&str> = shared_columns(study).map(|(column, _)| column.column.as_str()).collect();
    others.extend(offset.iter().flat_map(Factor::columns));
    others.extend(study.head.rows.id.as_deref());
    others.extend(study.method.penalty.as_ref().and_then(|penalty| penalty.folds.as_deref()));
    let terms = match &party.formula {
        Some(text) => {
            let refused = |error: FormulaError| Abort::OwnData(format!("the formula of {role}: {error}"));
            let formula = Formula::parse(text).map_err(refused)?;
            let terms = formula.expanded(header, &others).map_err(refused)?;
            let named = |party: Role| (party, study.named_columns(party));
            let of_others: Vec<(Role, Vec<String>)> = study.others(role).into_iter().map(named).collect();
            let holder = |name: &str| {
                let has = |(_, columns): &&(Role, Vec<String>)| columns.iter().any(|column| column == name);
                of_others.iter().find(has).filter(|_| !header.contains(&name)).map(|(party, _)| party.to_string())
            };
            formula::own_alone(text, &terms, role.name(), holder).map_err(refused)?;
            formula::all_known(text, &terms, header).map_err(refused)?;
            terms
        }
        None => encode::column_terms(party.columns.iter().map(String::as_str)).map_err(own)?,
    };
    let roles: Vec<(&str, &'static str)> =
        shared_columns(study).map(|(column, what)| (column.column.as_str(), what)).collect();
    encode::check_roles(&terms, &roles).map_err(own)?;
    let outcome = &study.method.outcome;
    let both = study.has(role, outcome) && study.method.offset.iter().any(|offset| study.has(role, offset));
    match both && offset.iter().flat_map(Factor::columns).any(|column| column == outcome.column) {
        true => Err(Abort::OwnData(format!("column `{}` is the outcome and cannot be the offset too", outcome.column))),
        false => Ok(terms),
    }
}

/// Whether all categorical columns of a party are coded by contrasts. Without an intercept the first one of the party that would hold it
/// has all its levels, as R codes the first one of a formula; the others' have a reference level, as nobody knows what they have.
pub(super) fn is_contrasted(study: &Study<Vertical>, role: Role) -> bool {
    study.method.intercept || !study.is_first(role)
}

fn own(error: DataError) -> Abort {
    Abort::OwnData(error.to_string())
}

impl Prepared {
    /// Sorts the rows by id and encodes what can be encoded without the peer.
    ///
    /// # Errors
    /// The data are refused, by the study or by the policy.
    pub fn new(study: Arc<Study<Vertical>>, role: Role, policy: Policy, mut frame: Frame) -> Result<Prepared, Abort> {
        policy.allows(&study, role)?;
        align::sort(&mut frame).map_err(|error| Abort::OwnData(error.to_string()))?;
        let names: Vec<String> = frame.names().map(str::to_string).collect();
        let header: Vec<&str> = names.iter().map(String::as_str).collect();
        let terms = terms(&study, role, &header)?;
        let needed = needed_columns(&study, role, &header)?;
        let used: Vec<&str> = needed.iter().map(String::as_str).collect();
        let incomplete = match study.head.rows.missing {
            Missing::Refuse => None,
            Missing::CompleteCases => Some(frame.missing(used.iter().copied()).map_err(own)?),
        };
        // Before a matrix is built: with an identifier among the columns it would have a column for every row.
        let columns = formula::columns(&terms);
        advice::refuse_identifiers(&frame, columns.iter().copied()).map_err(own)?;
        let advice = advice::advice(&frame, columns);
        let sketches = if study.mode() == Mode::Sealed { sketches(&frame) } else { Vec::new() };
        let mut prepared = Prepared { role, study, policy, frame, terms, incomplete, advice, sketches, encoded: None };
        if prepared.incomplete.is_none() {
            prepared.encode(None)?;
        }
        Ok(prepared)
    }

    /// The study.
    pub fn study(&self) -> &Arc<Study<Vertical>> {
        &self.study
    }

    /// What the owner of the table should hear of before a run.
    pub fn advice(&self) -> &[Advice] {
        &self.advice
    }

    /// Whose table it is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.frame.rows()
    }

    /// The identifiers in the order of the rows; row numbers where the study names no id.
    pub fn identifiers(&self) -> Vec<Vec<u8>> {
        identifiers(&self.frame)
    }

    /// Of a sealed study: sketches of all columns of the table that the study needs, by name.
    pub fn sketches(&self) -> &[(String, Sketch)] {
        &self.sketches
    }

    /// Whether this party's policy lets a basis be exchanged.
    pub(super) fn allows_basis(&self) -> bool {
        let sends = self.study.sends_basis(self.role);
        self.policy.allow_basis && !(sends && self.policy.max_disclosure.is_some_and(|most| most < 1.0))
    }

    /// Names of the own terms; before complete cases are settled, those of the columns.
    pub fn term_names(&self) -> Vec<String> {
        match &self.encoded {
            Some(encoded) => encoded.terms.clone(),
            None => self.terms.iter().map(ToString::to_string).collect(),
        }
    }

    /// The block, once it is known which rows take part.
    pub(super) fn encoded(&self) -> Result<&Encoded, Abort> {
        self.encoded.as_ref().ok_or_else(unsettled)
    }

    pub(super) fn take_encoded(&mut self) -> Result<Encoded, Abort> {
        self.encoded.take().ok_or_else(unsettled)
    }

    pub(super) fn encode(&mut self, complete: Option<CompleteCases>) -> Result<(), Abort> {
        let (study, role) = (Arc::clone(&self.study), self.role);
        let refused = refused(complete.is_none());
        let dropped = complete.as_ref().map(|complete| &complete.dropped);
        let frame = &mut self.frame;
        let weights = match &study.method.weights {
            Some(column) if study.has(role, column) => {
                Some(outcome::weights(frame, &column.column, dropped).map_err(refused)?)
            }
            _ => None,
        };
        let unweighted = weights.as_ref().map_or(0, |weights| weights.zeros);
        let weights = weights.map(|weights| weights.values);
        let mut notes = loosened(&study, role, &self.policy.limits);
        let own_outcome = match study.has(role, &study.method.outcome) {
            true => Some(own_outcome(&study, frame, (weights.as_deref(), dropped), &mut notes).map_err(refused)?),
            false => None,
        };
        let offset = match &study.method.offset {
            Some(column) if study.has(role, column) => offset(&study, frame, dropped).map_err(refused)?,
            _ => None,
        };
        let folds = match &study.method.penalty {
            Some(penalty) if penalty.cv.is_some() => {
                let count = penalty.cv.unwrap_or_default();
                Some(folds(frame, penalty.folds.as_deref(), count, dropped)?)
            }
            _ => None,
        };
        let (design, learnt) = design(&study, role, (frame, &self.terms[..], dropped), &mut notes).map_err(refused)?;
        let rows = design.matrix.nrows();
        if let Some(least) = self.policy.min_rows.filter(|least| (rows as u64) < *least) {
            return Err(Abort::Policy {
                who: role,
                what: format!("{rows} rows take part, at least {least} are asked for"),
            });
        }
        let ([weights, own_outcome, offset], for_leader) = part(&study, role, [weights, own_outcome, offset]);
        let hidden = hidden(&study, role, own_outcome.as_deref(), offset.as_deref());
        let y = own_outcome.clone().unwrap_or_else(|| vec![0.0; rows]);
        let outcome_in_use = Outcome {
            family: study.method.family,
            y,
            weights: weights.clone(),
            offset: offset.clone(),
            hidden,
            spread: 1.0,
        };
        let intercept = study.method.intercept;
        let mut block = Block::new(design.matrix, intercept && study.is_first(role), intercept, outcome_in_use);
        if own_outcome.is_some() {
            block.measure_spread(intercept);
        }
        self.encoded = Some(Encoded {
            block,
            terms: design.terms,
            sources: design.sources,
            containing: formula::containing(&self.terms),
            levels: design.levels,
            learnt,
            folds,
            outcome: own_outcome,
            offset,
            weights,
            notes,
            unweighted,
            complete,
            for_leader,
        });
        Ok(())
    }
}

/// How data are refused; `droppable` says that the study could leave incomplete rows out.
fn refused(droppable: bool) -> impl Fn(DataError) -> Abort + Copy {
    move |error| own(if droppable { error.droppable() } else { error })
}

/// The design matrix of the rows that are kept, and what functions took from them; `notes` gets what is odd about it.
fn design(
    study: &Study<Vertical>,
    role: Role,
    (frame, terms, dropped): (&mut Frame, &[Term], Option<&Mask>),
    notes: &mut Vec<String>,
) -> Result<(Design, Learnt), DataError> {
    let contrasted = is_contrasted(study, role);
    let learnt = functions::derive(frame, terms, dropped, None)?;
    match study.guarantee {
        VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => {
            let unused = encode::drop_unused_levels(frame, terms, dropped)?;
            notes.extend(unused.iter().map(|unused| format!("{role}: {unused}")));
        }
        // Nothing but the study decides there which levels there are.
        VerticalGuarantee::Private(_) => {}
    }
    if study.method.penalty.is_none() {
        let intercept = usize::from(study.method.intercept && study.is_first(role));
        encode::refuse_too_many(frame, terms, (contrasted, intercept), dropped)?;
    }
    // What R would code of the whole table, where no other party had categorical columns.
    let all = match study.method.intercept || study.is_first(role) {
        true => Vec::new(),
        false => encode::term_names(frame, terms, false, dropped)?,
    };
    let design = encode::encode(frame, terms, contrasted, dropped)?;
    encode::refuse_same_names(&design.terms, &design.sources, INTERCEPT)?;
    encode::refuse_odd_names(&design.terms)?;
    match study.guarantee {
        VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => encode::refuse_tiny(&design)?,
        // Bounds are declared there, and no value ends a run.
        VerticalGuarantee::Private(_) => {}
    }
    if all.len() > design.terms.len() {
        let more = all.iter().filter(|name| !design.terms.contains(name)).map(|name| format!("`{name}`"));
        notes.push(format!(
            "{role}: categorical columns keep a reference level in a model without intercept; R's joint fit has {} too, unless \
             a party before {role} has a categorical column",
            more.collect::<Vec<_>>().join(", ")
        ));
    }
    Ok((design, learnt))
}

/// Parts the weights, the outcome and the offset of a party into those of its own fits and those that it sends to the leader.
fn part(
    study: &Study<Vertical>,
    role: Role,
    columns: [Option<Vec<f64>>; 3],
) -> ([Option<Vec<f64>>; 3], VecDeque<Held>) {
    let sent = study.sent_to_leader();
    let mut for_leader = VecDeque::new();
    let mut kept = [None, None, None];
    let all = [HeldAs::Weights, HeldAs::Outcome, HeldAs::Offset];
    for ((held, values), kept) in all.into_iter().zip(columns).zip(&mut kept) {
        let leaves = sent.iter().any(|(what, holder, _)| *what == held && *holder == role);
        match values {
            Some(values) if leaves => for_leader.push_back(Held { what: held.into(), values, total: 0.0 }),
            values => *kept = values,
        }
    }
    (kept, for_leader)
}

/// The outcome of the rows that are kept, with their weights; `notes` gets what is odd about it.
fn own_outcome(
    study: &Study<Vertical>,
    frame: &Frame,
    (weights, dropped): (Option<&[f64]>, Option<&Mask>),
    notes: &mut Vec<String>,
) -> Result<Vec<f64>, DataError> {
    let (column, support) = (&study.method.outcome.column, support(study.method.family));
    let read = outcome::outcome(frame, column, support, weights, dropped)?;
    // Where only mean and variance are stated, fractions are values like any other.
    let said = read.notes.iter().filter(|note| !(study.method.quasi && note.is_of_fractions()));
    notes.extend(said.map(ToString::to_string));
    Ok(read.values)
}

/// Which limits on what may open a party's own file loosens in sealed mode: its report says so.
fn loosened(study: &Study<Vertical>, role: Role, limits: &Limits) -> Vec<String> {
    match study.guarantee {
        VerticalGuarantee::Sealed(_) => {}
        VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => return Vec::new(),
    }
    let usual = Limits::default();
    let loosened = [
        (limits.entropy_bits < usual.entropy_bits, format!("{} bits of entropy", limits.entropy_bits)),
        (
            limits.level_rows < usual.level_rows,
            format!("{} rows of a rarer value, or beside a value that most rows have", limits.level_rows),
        ),
        (limits.rows_per_column < usual.rows_per_column, format!("{} rows a column", limits.rows_per_column)),
        (limits.opened_share > usual.opened_share, format!("{} % of the unknowns", 100.0 * limits.opened_share)),
    ];
    let loosened: Vec<String> = loosened.into_iter().filter(|(looser, _)| *looser).map(|(_, words)| words).collect();
    let note = || {
        format!("{role} loosened its limits on what may open: {}; single values may be solvable", loosened.join(", "))
    };
    (!loosened.is_empty()).then(note).into_iter().collect()
}

fn support(family: Family) -> Support {
    match family {
        Family::Gaussian => Support::Real,
        Family::Binomial => Support::Share,
        Family::Poisson => Support::Count,
    }
}

/// What the first party holds alone, or was sent, and its partial predictions contain.
pub(super) fn hidden(
    study: &Study<Vertical>,
    role: Role,
    outcome: Option<&[f64]>,
    offset: Option<&[f64]>,
) -> Option<Vec<f64>> {
    if !study.is_first(role) {
        return None;
    }
    let offset_alone = study.method.offset.as_ref().is_some_and(|offset| offset.held_by.is_alone());
    let offset_alone = offset_alone && !study.sends_offset();
    let offset = offset.filter(|_| offset_alone);
    if study.method.outcome.held_by.is_alone() && study.method.family == Family::Gaussian {
        let offset = |row: usize| offset.map_or(0.0, |offset| offset[row]);
        return Some(outcome.into_iter().flatten().enumerate().map(|(row, y)| offset(row) - y).collect());
    }
    offset.map(<[f64]>::to_vec)
}

fn unsettled() -> Abort {
    Abort::Bug("the block was used before the rows were settled".to_string())
}

pub(super) fn identifiers(frame: &Frame) -> Vec<Vec<u8>> {
    match frame.ids() {
        Some(ids) => ids.iter().map(<[u8]>::to_vec).collect(),
        // Of the file, also where a match has chosen the rows.
        None => (0..frame.rows()).map(|row| (frame.origin(row) + 1).to_string().into_bytes()).collect(),
    }
}

fn sketches(frame: &Frame) -> Vec<(String, Sketch)> {
    let rows = match frame.ids() {
        Some(ids) => marks_of(ids.iter()),
        None => marks_of((0..frame.rows()).map(|row| (frame.origin(row) + 1).to_string())),
    };
    frame.columns().iter().map(|column| (column.name.clone(), Sketch::of(&rows, column))).collect()
}

fn folds(frame: &Frame, column: Option<&str>, count: u32, dropped: Option<&Mask>) -> Result<Vec<u32>, Abort> {
    let rows = frame.rows() - dropped.map_or(0, Mask::count);
    let Some(column) = column else {
        if count as usize > rows {
            let rows = counted(rows, "row");
            return Err(Abort::OwnData(format!("{count} folds of {rows}; each fold needs at least one")));
        }
        return Ok((0..rows as u32).map(|row| 1 + row % count).collect());
    };
    let numbers = outcome::numbers(frame, column, "folds", dropped).map_err(own)?;
    let folds: Vec<u32> = numbers.iter().map(|fold| *fold as u32).collect();
    let sound = numbers.iter().zip(&folds).all(|(number, fold)| f64::from(*fold) == *number);
    let full = (1..=count).all(|fold| folds.contains(&fold));
    if !sound || folds.iter().any(|fold| *fold < 1 || *fold > count) || !full {
        return Err(Abort::OwnData(format!(
            "the folds in `{column}` must be whole numbers from 1 to {count}, none left out"
        )));
    }
    Ok(folds)
}

#[cfg(test)]
mod tests;
