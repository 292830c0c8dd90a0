//! One side of a sealed fit.

mod all;
mod both;
mod penalty;
mod several;
mod solving;

use std::ops::Range;
use std::sync::Arc;

use nalgebra::DMatrix;

pub(in super::super) use self::several::Several;
pub(super) use self::solving::dependent_beyond;
use super::folds::{self, Folds};
use super::glm::{Glm, Lead, Own as Holds, Weights};
use super::kept::{self, OfAlice};
use super::limits::{Sizes, countable, holds_range, not_opened, opens, shape_of, within_limits};
use super::offset::{self, Offset};
use super::penalised::{Path, Theirs};
use super::reduction::reduction_values;
use super::results;
use super::solution::{self, Solved};
use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::agree::{self, Agreement};
use crate::methods::vertical::block::Scaling;
use crate::methods::vertical::masked::{MaskedTable, length, out_of_order, peer_fault};
use crate::methods::vertical::message::{Body, Joint, JointKind, Results, Share};
use crate::methods::vertical::outcome::{VerticalFit, check_shown};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::prepare::{Encoded, Prepared};
use crate::methods::vertical::session::Progress;
use crate::methods::vertical::several::Exchange;
use crate::privacy::ledger::{Before, Fewest};
use crate::privacy::openings::Account;
use crate::secure::basis::{Basis, BasisError, Own};
use crate::secure::gaussian::{Answer, Means, Reduction, Solution, Table};
use crate::secure::open::Limits;
use crate::secure::product::{Blocks, Shape, Shares, TableShare};
use crate::session::{Abort, Order, PeerFault};
use crate::study::{HeldBy, Study, Vertical};

/// One side of a sealed fit.
pub type SealedSession = Conversation<SealedScript>;

/// What the sides of a sealed fit say.
pub struct SealedScript {
    opening: Opening,
    agreement: Agreement<Prepared>,
    stage: Stage,
    /// Until the rows are settled.
    account: Option<Box<dyn Account + Send>>,
}

enum Stage {
    /// The parties compare their tables.
    Agreeing {
        /// Columns of the peer's block, without the intercept.
        peer_columns: usize,
    },
    /// The rows are settled.
    Fitting(Box<Work>),
}

/// The place in the script once the rows are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Place {
    /// Of several parties, columns of each.
    Columns,
    /// All parties' columns behind masks.
    Masked,
    /// Bob's shares of canary and table.
    Share,
    /// Alice's share, where the table opens to both.
    ShareOfAlice,
    /// The tables of several parties, where they open to all.
    Tables,
    /// Bob's factor, where there is a penalty or sub-models are to follow.
    Factor,
    /// Alice's, where sub-models are to follow at both.
    FactorOfAlice,
    /// Those of all others, where sub-models are to follow at all of several parties.
    Factors,
    /// The fits along lambda.
    Path,
    /// Bob's part of their intercepts.
    Shifts,
    /// What Alice finds in the table: that columns depend on each other, or the solution.
    Solution,
    Reduction,
    /// Gradients of a binomial or poisson fit, and what opens at its end.
    Evaluations,
    /// Bob's part of its solution.
    Answer,
    Means,
    /// Alice's results come first.
    Results {
        answered: bool,
    },
    Over,
}

/// What a run has beside rows.
pub(in super::super) struct Run {
    pub(in super::super) opening: Opening,
    pub(in super::super) account: Box<dyn Account + Send>,
    pub(in super::super) limits: Limits,
}

/// What exists once the rows are settled.
pub(in super::super) struct Work {
    pub(in super::super) role: Role,
    /// Whether it is Alice, or the leader of several, to whom what all others together are is Bob.
    pub(super) leads: bool,
    /// Of several parties.
    pub(super) several: Option<Several>,
    pub(in super::super) study: Arc<Study<Vertical>>,
    pub(super) opening: Opening,
    /// Without its matrix, which is the basis's.
    pub(super) encoded: Encoded,
    pub(super) scalings: Vec<Scaling>,
    pub(super) rows: usize,
    /// At Alice.
    pub(super) null_deviance: f64,
    pub(super) own: Own,
    pub(super) shape: Shape,
    pub(in super::super) basis: Basis<DMatrix<f64>>,
    /// Of a binomial or poisson fit, as they stand in its products.
    pub(super) weights: Option<Weights>,
    /// At Alice, of a binomial or poisson fit.
    pub(super) offset: Option<Offset>,
    pub(in super::super) place: Place,
    masked: Option<MaskedTable>,
    /// Evaluations of a binomial or poisson fit, and its solution.
    pub(super) glm: Option<Box<Glm>>,
    pub(super) solved: Option<Solved>,
    /// Standard deviations of the own columns, in which a penalty measures them; at Alice the outcome's too.
    pub(super) units: Vec<f64>,
    pub(super) spread: f64,
    /// What Bob says of his columns, at Alice.
    theirs: Option<Theirs>,
    /// What Alice says of hers, at Bob, where sub-models are to follow at both.
    of_alice: Option<OfAlice>,
    /// Rows by fold, where there is cross-validation.
    pub(super) folds: Option<Folds>,
    /// The fold whose columns are exchanged, from 0.
    fold: usize,
    /// Own sums over each fold.
    pub(super) moments: Vec<DMatrix<f64>>,
    /// The tables of the folds that have opened to this party.
    pub(super) tables: Vec<DMatrix<f64>>,
    pub(super) path: Option<Path>,
    account: Box<dyn Account + Send>,
    limits: Limits,
    /// What this table and another one must differ by.
    apart: Fewest,
    /// Numbers that this party has let open.
    numbers: u64,
    /// At Alice, until Bob's share has come.
    shares: Option<Shares>,
    /// At Bob, until it is sent, and until Alice's has come where the table opens to both.
    share: Option<TableShare>,
    /// At Alice, her share for Bob where the table opens to both.
    own_share: Option<Share>,
    /// At Bob, where the table opens to both.
    seen: Option<Table>,
    table: Option<Table>,
    /// At Alice, the table as it opened, where columns of Bob were set aside.
    whole: Option<Table>,
    /// What Bob's columns that stay are, where some depend on Alice's.
    pub(super) reduction: Option<Reduction>,
    solution: Option<Solution>,
    pub(super) answer: Option<(Answer, f64)>,
    pub(super) means: Option<Means>,
    pub(super) own_results: Option<Results>,
    pub(in super::super) peer: Option<Results>,
}

impl SealedSession {
    /// A session over prepared data. What it lets open is recorded in `account` before it leaves.
    pub fn new(prepared: Prepared, opening: Opening, account: Box<dyn Account + Send>) -> SealedSession {
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let agreement = Agreement::of_prepared(prepared, &opening);
        let (stage, account) = (Stage::Agreeing { peer_columns: 0 }, Some(account));
        let script = SealedScript { opening: opening.clone(), agreement, stage, account };
        Conversation::open(role, Purpose::Fit, &study, &opening, script)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let script = self.script();
        let (phase, round) = match &script.stage {
            Stage::Agreeing { .. } if !self.has_greeted() => ("comparing studies", 0),
            Stage::Agreeing { .. } => ("lining up rows", 0),
            Stage::Fitting(work) => work.progress(),
        };
        Progress { phase, fit: (0, 1), round, certificate: None }
    }
}

impl Script for SealedScript {
    type Body = Body;
    type Output = VerticalFit;

    fn step(&self) -> Option<Step> {
        match &self.stage {
            Stage::Agreeing { .. } => self.agreement.step(),
            Stage::Fitting(work) => work.step(),
        }
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        if let Stage::Fitting(work) = &mut self.stage {
            return Ok(work.build()?.into());
        }
        let body = self.agreement.build()?;
        self.settle()?;
        Ok(body.into())
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        if let Stage::Fitting(work) = &mut self.stage {
            return work.absorb(body);
        }
        let study = Arc::clone(self.agreement.table.study());
        if let Some(theirs) = self.agreement.absorb(&study, body)? {
            let prepared = &self.agreement.table;
            let block = &prepared.encoded()?.block;
            agree::enough_rows(&study, prepared.role(), block, theirs.columns)?;
            let intercept = usize::from(study.method.intercept && !study.is_first(prepared.role()));
            let peer_columns = (theirs.columns as usize).saturating_sub(intercept);
            self.stage = Stage::Agreeing { peer_columns };
        }
        Ok(self.settle()?)
    }

    fn order(&mut self) -> Option<Order> {
        match &mut self.stage {
            Stage::Agreeing { .. } => None,
            Stage::Fitting(work) => work.order(),
        }
    }

    fn work(&mut self) -> Result<(), Abort> {
        match &mut self.stage {
            Stage::Agreeing { .. } => Ok(()),
            Stage::Fitting(work) => work.go_ahead(),
        }
    }

    fn finish(&mut self) -> Result<VerticalFit, Abort> {
        match &self.stage {
            Stage::Fitting(work) => results::finish(work),
            Stage::Agreeing { .. } => Err(Abort::Bug("the parties agreed and did not fit".to_string())),
        }
    }
}

impl SealedScript {
    /// Sets the table up once both parties have said all that is to be compared. Nothing of the columns has left before.
    fn settle(&mut self) -> Result<(), Abort> {
        let (None, Stage::Agreeing { peer_columns }) = (self.agreement.part(), &self.stage) else {
            return Ok(());
        };
        let peer_columns = *peer_columns;
        let prepared = &mut self.agreement.table;
        let limits = prepared.policy.limits;
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let encoded = prepared.take_encoded()?;
        let account = self.account.take().ok_or_else(out_of_order)?;
        let run = Run { opening: self.opening.clone(), account, limits };
        let work = Work::new(role, study, encoded, (peer_columns, &[]), run)?;
        self.stage = Stage::Fitting(Box::new(work));
        Ok(())
    }
}

/// The basis of the own columns, and of the outcome at Alice, in the order of the folds if there are any.
fn basis_of(
    leads: bool,
    study: &Study<Vertical>,
    encoded: &mut Encoded,
    own: Range<usize>,
    folds: Option<&Folds>,
) -> Result<Basis<DMatrix<f64>>, Abort> {
    let mut target = leads.then(|| target(study.method.family, encoded));
    let mut matrix = encoded.block.take_matrix();
    let mut weights = encoded.weights.clone();
    if let Some(folds) = folds {
        folds.arrange(&mut matrix);
        [&mut target, &mut weights].into_iter().flatten().for_each(|values| *values = folds.ordered(values));
    }
    let first = own.start;
    Basis::new(matrix, own, weights.as_deref(), target.as_deref(), study.method.intercept)
        .map_err(|error| unusable(encoded, first, &error))
}

impl Work {
    /// `peer_columns` are those of all others together; the leader of several knows them of each.
    pub(in super::super) fn new(
        role: Role,
        study: Arc<Study<Vertical>>,
        mut encoded: Encoded,
        (peer_columns, followers): (usize, &[usize]),
        Run { opening, mut account, limits }: Run,
    ) -> Result<Work, Abort> {
        let leads = study.is_first(role);
        let (block, rows, family) = (&encoded.block, encoded.block.rows(), study.method.family);
        let own = usize::from(block.has_intercept())..block.columns();
        let shape = shape_of(&study, role, rows, [own.len(), peer_columns])?;
        // What earlier runs let open is the account's to judge.
        let sizes = Sizes::new(&study, rows, shape.left - 1, shape.right).of_several(&study, role, followers);
        let apart = within_limits(&study, role, &limits, &sizes, (&encoded, peer_columns), Before::default())?;
        countable(&study, &encoded)?;
        holds_range(&sizes)?;
        let opens = opens(sizes.at_least(role), rows, &shape, &encoded, (&limits, apart));
        account.may_open(&opens).map_err(|why| not_opened(role, why, Some(&sizes)))?;
        let null_deviance = if leads { block.null_deviance(study.method.intercept) } else { 0.0 };
        let folds = encoded.folds.as_ref().filter(|_| sizes.folds > 0).map(|all| Folds::new(all, sizes.folds as u32));
        let first = fold_shape(&study, role, [own.len(), peer_columns], folds.as_ref(), 0)?.unwrap_or(shape);
        let masked = (!study.is_of_several()).then(|| masked_table(&study, role, &opening, first));
        let scalings = block.scalings()[own.clone()].to_vec();
        let (units, spread) = penalty::units(&study, block, own.clone());
        let glm = family != Family::Gaussian;
        let weights = encoded.weights.as_deref().filter(|_| glm).map(Weights::new);
        let offset = (glm && leads).then(|| Offset::new(&encoded, study.method.intercept)).flatten();
        let mut basis = basis_of(leads, &study, &mut encoded, own, folds.as_ref())?;
        let moments = folds.iter().flat_map(|folds| &folds.parts).map(|part| folds::moments(&basis, part)).collect();
        let kept = basis.finish();
        if glm {
            // Every gradient needs it.
            basis.store();
        }
        Ok(Work {
            role,
            leads,
            place: if study.is_of_several() { Place::Columns } else { Place::Masked },
            several: study.is_of_several().then(Several::default),
            study,
            opening,
            scalings,
            rows,
            null_deviance,
            own: kept,
            shape,
            basis,
            weights,
            offset,
            encoded,
            masked,
            glm: None,
            solved: None,
            units,
            spread,
            theirs: None,
            of_alice: None,
            folds,
            fold: 0,
            moments,
            tables: Vec::new(),
            path: None,
            account,
            limits,
            apart,
            numbers: 0,
            shares: None,
            share: None,
            own_share: None,
            seen: None,
            table: None,
            whole: None,
            reduction: None,
            solution: None,
            answer: None,
            means: None,
            own_results: None,
            peer: None,
        })
    }

    pub(in super::super) fn progress(&self) -> (&'static str, u32) {
        let exchange = self.several.as_ref().and_then(|several| several.exchange.as_ref());
        match self.place {
            Place::Columns => ("lining up rows", 0),
            Place::Masked if exchange.is_some_and(Exchange::waits_for_dealer) => ("waiting for the dealer", 0),
            Place::Masked if self.masked.as_ref().is_some_and(MaskedTable::waits_for_dealer) => {
                ("waiting for the dealer", 0)
            }
            Place::Masked | Place::Share | Place::ShareOfAlice | Place::Tables => ("exchanging masked columns", 0),
            Place::Evaluations => ("opening gradients", self.rounds() + 1),
            Place::Solution | Place::Reduction | Place::Answer | Place::Means => ("solving", self.rounds()),
            Place::Factor | Place::FactorOfAlice | Place::Factors => ("solving", self.rounds()),
            Place::Path | Place::Shifts => ("solving", self.rounds()),
            Place::Results { .. } => ("exchanging results", self.rounds()),
            Place::Over => ("done", self.rounds()),
        }
    }

    fn step(&self) -> Option<Step> {
        let (alice, bob) = match self.leads {
            true => (self.role, self.opening.peer),
            false => (self.opening.peer, self.role),
        };
        // The leader of several says its results last: they are those of all.
        let (first, second) = if self.several.is_some() { (bob, alice) } else { (alice, bob) };
        let (speaker, expected) = match self.place {
            Place::Columns => (alice, "columns of each party"),
            Place::Masked if self.several.is_some() => return self.exchange().and_then(Exchange::step),
            Place::Masked => return self.masked.as_ref().and_then(MaskedTable::step),
            Place::Evaluations => return self.glm.as_ref().and_then(|glm| glm.step()),
            Place::Answer => (alice, "the solution"),
            Place::Share => (bob, "shares of a table"),
            Place::ShareOfAlice => (alice, "shares of a table"),
            Place::Tables => (alice, "the tables of all pairs"),
            Place::Solution => (alice, "the joint solution"),
            Place::Factor => (bob, "a factor"),
            Place::FactorOfAlice => (alice, "a factor with the outcome"),
            Place::Factors => (alice, "the factors of all others"),
            Place::Path => (alice, "the fits along lambda"),
            Place::Shifts => (bob, "parts of the intercepts"),
            Place::Reduction => (bob, "the columns that stay"),
            Place::Means => (bob, "the predictor at the means"),
            Place::Results { answered: false } => (first, "results"),
            Place::Results { answered: true } => (second, "results"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    fn exchange(&self) -> Option<&Exchange> {
        self.several.as_ref()?.exchange.as_ref()
    }

    /// Builds the message of the present place, and moves on.
    pub(in super::super) fn build(&mut self) -> Result<Body, Abort> {
        Ok(match self.place {
            Place::Columns | Place::Tables | Place::Factors => return Err(out_of_order()),
            Place::Masked => {
                let own = columns(&self.basis, self.folds.as_ref(), self.fold);
                if let Some(several) = &mut self.several {
                    let body = several.exchange.as_mut().ok_or_else(out_of_order)?.build(&own)?;
                    self.after_exchange();
                    return Ok(body);
                }
                let body = self.masked.as_mut().ok_or_else(out_of_order)?.build(&own)?;
                self.after_masked()?;
                body
            }
            Place::Evaluations => {
                let (glm, own) = self.glm()?;
                let body = glm.build(&own)?;
                let opens = glm.opens();
                self.count(opens)?;
                self.after_evaluations();
                body
            }
            Place::Answer => {
                let glm = self.glm.as_ref().ok_or_else(out_of_order)?;
                let (solved, joint) = solution::answer(self, glm)?;
                self.count(solution::numbers(&joint))?;
                self.solved = Some(solved);
                self.place = Place::Means;
                Body::Joint(joint)
            }
            Place::Share if self.several.is_some() => {
                self.count((self.shape.left - 1) * self.shape.right + self.shape.right)?;
                self.tell_shares()?
            }
            Place::Share | Place::ShareOfAlice => {
                self.count(self.shape.left * self.shape.right)?;
                Body::Share(self.tell_share()?)
            }
            Place::Factor => Body::Joint(self.tell_factor()?),
            Place::FactorOfAlice => Body::Joint(self.tell_factor_of_alice()?),
            Place::Path => Body::Joint(self.tell_path()?),
            Place::Shifts => Body::Joint(self.tell_shifts()?),
            Place::Solution => match self.solve()? {
                Some(joint) => Body::Joint(joint),
                None => return self.build(),
            },
            Place::Reduction => {
                let reduction = self.reduction.as_ref().ok_or_else(out_of_order)?;
                let (map, dropped) = (reduction.map.len(), reduction.dropped.len());
                let values = reduction_values(reduction);
                self.count(map + dropped)?;
                self.place = Place::Solution;
                Body::Joint(Joint { what: JointKind::Reduction, values })
            }
            Place::Means => {
                let means = self.means.ok_or_else(out_of_order)?;
                let mut values = vec![means.shift, means.spread];
                values.extend_from_slice(&solution::along(self));
                values.extend_from_slice(&self.position());
                self.count(values.len())?;
                self.place = Place::Results { answered: false };
                Body::Joint(Joint { what: JointKind::Means, values })
            }
            Place::Results { answered } => {
                let results = results::results(self)?;
                self.count(results.fold_errors.len())?;
                self.own_results = Some(results.clone());
                self.place = if answered { Place::Over } else { Place::Results { answered: true } };
                Body::Results(results)
            }
            Place::Over => return Err(out_of_order()),
        })
    }

    /// Takes what was said at the present place, and moves on.
    pub(in super::super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Columns, Body::Joint(Joint { what: JointKind::Columns, values })) => self.take_columns(&values)?,
            (Place::Masked, body) if self.several.is_some() => {
                let exchange = self.several.as_mut().and_then(|several| several.exchange.as_mut());
                exchange.ok_or_else(out_of_order)?.absorb(body)?;
                self.after_exchange();
            }
            (Place::Masked, body) => {
                let own = columns(&self.basis, self.folds.as_ref(), self.fold);
                self.masked.as_mut().ok_or_else(out_of_order)?.absorb(body, &own)?;
                self.after_masked()?;
            }
            (Place::Evaluations, body) => {
                let (glm, own) = self.glm()?;
                glm.absorb(body, &own)?;
                self.after_evaluations();
            }
            (Place::Answer, Body::Joint(Joint { what: JointKind::Answer, values })) => {
                let glm = self.glm.as_ref().ok_or_else(out_of_order)?;
                let (solved, means) = solution::take_answer(self, glm, &values)?;
                (self.solved, self.means) = (Some(solved), Some(means));
                self.place = Place::Means;
            }
            (Place::Share, Body::Share(Share { canary, table: Some(table) })) => {
                let shares = self.shares.take().ok_or_else(out_of_order)?;
                let share = shares.check(&canary).map_err(peer_fault)?;
                self.keep_own(&share);
                let opened = share.open(&table).map_err(peer_fault)?.mean();
                match self.folds {
                    Some(_) => self.tables.push(opened),
                    None => self.table = Table::new(&opened, self.across()),
                }
                self.after_opening()?;
            }
            (Place::ShareOfAlice, Body::Share(Share { table: Some(table), .. })) => self.take_share_of_alice(&table)?,
            (Place::Tables, Body::Joint(Joint { what: JointKind::Tables, values })) => self.take_tables(&values)?,
            (Place::Solution, Body::Joint(Joint { what: JointKind::Reduced, values })) => self.take_reduced(&values)?,
            (Place::Factor, Body::Joint(Joint { what: JointKind::Factor, values })) => self.take_factor(&values)?,
            (Place::FactorOfAlice, Body::Joint(Joint { what: JointKind::Factor, values })) => {
                self.take_factor_of_alice(&values)?;
            }
            (Place::Factors, Body::Joint(Joint { what: JointKind::Factor, values })) => self.take_factors(&values)?,
            (Place::Path, Body::Joint(Joint { what: JointKind::Path, values })) => self.take_path(&values)?,
            (Place::Shifts, Body::Joint(Joint { what: JointKind::Shifts, values })) => self.take_shifts(values)?,
            (Place::Solution, Body::Joint(Joint { what: JointKind::LeftOver, values })) if self.reduction.is_none() => {
                self.take_left_over(values)?;
                self.place = Place::Reduction;
            }
            (Place::Solution, body) if self.is_glm() => {
                self.begin_evaluations(None)?;
                return self.absorb(body);
            }
            (Place::Solution, Body::Joint(Joint { what: JointKind::Answer, values })) => {
                self.take_answer(&values)?;
                self.place = Place::Means;
            }
            (Place::Reduction, Body::Joint(Joint { what: JointKind::Reduction, values })) => {
                self.take_reduction(&values)?;
                self.place = Place::Solution;
            }
            (Place::Means, Body::Joint(Joint { what: JointKind::Means, values })) => {
                self.means = Some(self.take_means(&values)?);
                self.place = Place::Results { answered: false };
            }
            (Place::Results { answered }, Body::Results(results)) => {
                check_shown(&self.study, (self.role, self.opening.peer), &results)?;
                self.check_errors(&results.fold_errors)?;
                self.peer = Some(results);
                self.place = if answered { Place::Over } else { Place::Results { answered: true } };
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    /// Held-out errors come from Alice, of each fold at every lambda.
    fn check_errors(&self, errors: &[f64]) -> Result<(), PeerFault> {
        let lambdas = self.path.as_ref().map_or(0, |path| path.fits.len());
        let expected = if !self.leads { self.moments.len() * lambdas } else { 0 };
        if errors.len() != expected {
            return Err(length("errors of folds", errors.len(), expected));
        }
        match errors.iter().all(|error| error.is_finite() && *error >= 0.0) {
            true => Ok(()),
            false => Err(PeerFault::Value { what: "errors of folds", expected: "finite", round: 1 }),
        }
    }

    /// At Alice: Bob's part of the intercept, and of a binomial or poisson fit with his outcome his part of the likelihood.
    fn take_means(&mut self, values: &[f64]) -> Result<Means, PeerFault> {
        let both = self.study.method.outcome.held_by.is_shared();
        let expected = if self.solved.is_some() && both { 3 } else { 2 };
        let (Some((means, along)), true) = (values.split_first_chunk::<2>(), values.len() == expected) else {
            return Err(length("means", values.len(), expected));
        };
        if let (Some(solved), Some(value)) = (&mut self.solved, along.first()) {
            solved.along = *value;
        }
        Ok(Means { shift: means[0], spread: means[1] })
    }

    /// Records numbers that are about to leave, beside those of the run that have left.
    pub(in super::super) fn count(&mut self, numbers: usize) -> Result<(), Abort> {
        if numbers == 0 {
            return Ok(());
        }
        self.numbers += numbers as u64;
        let opens = opens(self.numbers, self.rows, &self.shape, &self.encoded, (&self.limits, self.apart));
        self.account.open(&opens).map_err(|why| not_opened(self.role, why, None))
    }

    /// Gradients that may open by the own limits, with what leaves at the end, beside what earlier runs let open.
    fn gradients(&mut self, sizes: &Sizes) -> u64 {
        let (mut below, mut above) = (0, sizes.most_gradients() + 1);
        while above - below > 1 {
            let middle = (below + above) / 2;
            let numbers = self.numbers.saturating_add(sizes.leaving(self.role, middle));
            let opens = opens(numbers, self.rows, &self.shape, &self.encoded, (&self.limits, self.apart));
            if self.account.may_open(&opens).is_ok() { below = middle } else { above = middle }
        }
        below
    }

    /// Once all masked columns have passed, the share waits for its message.
    fn after_masked(&mut self) -> Result<(), Abort> {
        let masked = self.masked.as_mut().ok_or_else(out_of_order)?;
        if masked.step().is_none() {
            match self.leads {
                true => self.shares = Some(masked.take_shares()?),
                false => self.share = Some(masked.take_share()?),
            }
            self.place = Place::Share;
        }
        Ok(())
    }

    /// What follows once a table is open: that of the next fold, or what is made of the table of all rows.
    fn after_share(&mut self) -> Result<(), Abort> {
        let columns = [self.basis.own(), self.shape.left + self.shape.right - 1 - self.basis.own()];
        let next = fold_shape(&self.study, self.role, columns, self.folds.as_ref(), self.fold + 1)?;
        if let Some(shape) = next {
            self.fold += 1;
            self.masked = Some(self.masked.take().ok_or_else(out_of_order)?.following(shape)?);
            self.place = Place::Masked;
            return Ok(());
        }
        if let Some((first, others)) = self.tables.split_first() {
            let whole = others.iter().fold(first.clone(), |sum, table| sum + table);
            let whole = Table::new(&whole, self.across());
            *if self.leads { &mut self.table } else { &mut self.seen } = whole;
        }
        self.place = match self.study.method.penalty.is_some() || kept::opens(self) {
            true => Place::Factor,
            false => Place::Solution,
        };
        Ok(())
    }

    pub(super) fn outcome_at_both(&self) -> bool {
        match self.study.method.outcome.held_by {
            HeldBy::Both | HeldBy::All => true,
            HeldBy::One(_) => false,
        }
    }

    fn is_glm(&self) -> bool {
        self.study.method.family != Family::Gaussian
    }

    /// Exchanges that the report counts: gradients, or the table of a gaussian fit.
    pub(super) fn rounds(&self) -> u32 {
        self.glm.as_ref().map_or(1, |glm| glm.evaluations())
    }

    fn order(&mut self) -> Option<Order> {
        if let Some(several) = &mut self.several {
            return several.exchange.as_mut().and_then(Exchange::order);
        }
        match &mut self.glm {
            Some(glm) => glm.order(),
            None => self.masked.as_mut().and_then(MaskedTable::order),
        }
    }

    /// Does what can be done while the others are at work.
    fn go_ahead(&mut self) -> Result<(), Abort> {
        if self.glm.is_some() {
            let (glm, own) = self.glm()?;
            return glm.go_ahead(&own);
        }
        if let Some(several) = &mut self.several {
            let own = columns(&self.basis, self.folds.as_ref(), self.fold);
            return several.exchange.as_mut().map_or(Ok(()), |exchange| exchange.go_ahead(&own));
        }
        match &mut self.masked {
            Some(masked) => masked.go_ahead(&columns(&self.basis, self.folds.as_ref(), self.fold)),
            None => Ok(()),
        }
    }

    fn glm(&mut self) -> Result<(&mut Glm, Holds<'_>), Abort> {
        let Work { encoded, basis, offset, weights, glm, .. } = self;
        let y = encoded.outcome.as_deref().unwrap_or_default();
        let offset = offset.as_ref().map(|offset| &offset.values[..]);
        Ok((glm.as_mut().ok_or_else(out_of_order)?, Holds { basis, y, offset, weights: weights.as_ref() }))
    }

    /// What a party has beside the columns.
    pub(super) fn holds(&self) -> Holds<'_> {
        let y = self.encoded.outcome.as_deref().unwrap_or_default();
        let offset = self.offset.as_ref().map(|offset| &offset.values[..]);
        Holds { basis: &self.basis, y, offset, weights: self.weights.as_ref() }
    }

    fn after_evaluations(&mut self) {
        if self.glm.as_ref().is_some_and(|glm| glm.step().is_none()) {
            self.place = if self.study.method.penalty.is_some() { Place::Path } else { Place::Answer };
        }
    }

    /// The table is open, and it is known which columns stay.
    fn begin_evaluations(&mut self, lead: Option<Lead>) -> Result<(), Abort> {
        let kept = self.masked.take().ok_or_else(out_of_order)?.kept()?;
        let map = self.reduction.as_ref().map(|reduction| reduction.map.clone());
        let sizes = Sizes::new(&self.study, self.rows, self.shape.left - 1, self.shape.right);
        let most = self.gradients(&sizes);
        self.glm =
            Some(Box::new(Glm::new(Pair::of(&self.study, self.role), (sizes, self.shape, most), kept, map, lead)));
        self.place = Place::Evaluations;
        Ok(())
    }

    /// At Alice.
    fn lead(&self) -> Result<Lead, Abort> {
        let missing = || Abort::Bug("the table is not open".to_string());
        let table = self.table.as_ref().filter(|table| !table.dependent());
        let table = table.ok_or_else(|| dependent_beyond(&self.study))?;
        let (mut joint, mut score) = table.joint(self.own.outcome.as_ref().ok_or_else(missing)?);
        if !self.study.method.intercept {
            (joint, score) = (joint.remove_row(0).remove_column(0), score.remove_row(0));
        }
        let map = self.reduction.as_ref().map(|reduction| reduction.map.clone());
        let beside = offset::beside(self, score.len());
        let lead = Lead::new(self.study.method.family, joint, score, map, [self.rows, table.left()], beside);
        lead.ok_or_else(|| dependent_beyond(&self.study))
    }
}

/// The exchange of two parties; of a binomial or poisson fit with all that further products with the columns need.
fn masked_table(study: &Study<Vertical>, role: Role, opening: &Opening, shape: Shape) -> MaskedTable {
    let masked = MaskedTable::new(Pair::of(study, role), study, opening.run, shape);
    if study.method.family == Family::Gaussian { masked } else { masked.keeping() }
}

/// The own columns that are exchanged: all rows, or those of a fold.
fn columns<'a>(basis: &'a Basis<DMatrix<f64>>, folds: Option<&Folds>, fold: usize) -> folds::Part<'a> {
    let rows = folds.and_then(|folds| folds.parts.get(fold)).cloned();
    folds::Part::new(basis, rows.unwrap_or(0..basis.rows()))
}

/// The shape of a fold's table; none where there is no such fold.
fn fold_shape(
    study: &Study<Vertical>,
    role: Role,
    columns: [usize; 2],
    folds: Option<&Folds>,
    fold: usize,
) -> Result<Option<Shape>, Abort> {
    let rows = folds.and_then(|folds| folds.parts.get(fold)).map(ExactSizeIterator::len);
    rows.map(|rows| shape_of(study, role, rows, columns)).transpose()
}

/// The outcome, of a gaussian fit less the offset.
fn target(family: Family, encoded: &Encoded) -> Vec<f64> {
    let offset = encoded.offset.as_ref().filter(|_| family == Family::Gaussian);
    let offset = |row: usize| offset.map_or(0.0, |offset| offset[row]);
    encoded.outcome.iter().flatten().enumerate().map(|(row, y)| y - offset(row)).collect()
}

/// Why there is no basis of the own columns; `first` is the position of the first among all columns of the block.
fn unusable(encoded: &Encoded, first: usize, error: &BasisError) -> Abort {
    match error {
        BasisError::Dependent(j) => {
            let place = encoded.block.places().get(first + j).copied().flatten();
            let name = place.and_then(|place| encoded.terms.get(place)).map_or("", String::as_str);
            Abort::OwnData(format!("`{name}` nearly depends on other columns of the block; leave it out"))
        }
        BasisError::Weights | BasisError::Length { .. } => Abort::OwnData(error.to_string()),
    }
}
