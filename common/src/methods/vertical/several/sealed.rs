//! Sealed gaussian fits of several parties, as their leader sees them.
//!
//! To the leader all others together are one partner whose basis is orthonormal party by party ([`Work`]): the tables of all pairs open to
//! it, it solves, and tells each of the others its own part. Where columns depend on those of earlier parties, the others are
//! asked one after the other which of theirs stay; and one after the other says its part of the intercept, since the intercept's
//! variance takes a product of every two parties' means.

use std::sync::Arc;

use nalgebra::DVector;

use crate::conversation::{Opening, Purpose, Refusal};
use crate::id::Role;
use crate::privacy::openings::Account;
use crate::secure::gaussian::{Means, Reduction};
use crate::secure::product::SeveralTables;
use crate::session::{Abort, Order, PeerFault};

use super::super::masked::{length, out_of_order, peer_fault};
use super::super::message::{Body, Dealt, Joint, JointKind, Results, Share};
use super::super::outcome::{VerticalFit, check_shown};
use super::super::prepare::Prepared;
use super::super::sealed::{Place, Run, Work, finish, read_reduction, reduction_values};
use super::super::session::Progress;
use super::agree::{self, Agreed, Agreeing};
use super::masked::Relay;
use super::{Advance, Centre, Hub, Lines, refused};

/// A sealed fit, as its leader sees it.
pub struct SealedCentre {
    role: Role,
    stage: Stage,
}

enum Stage {
    Agreeing {
        agreeing: Agreeing,
        opening: Opening,
        account: Box<dyn Account + Send>,
    },
    Fitting(Box<Fitting>),
    /// Moved out of while a step is taken.
    Between,
}

struct Fitting {
    work: Work,
    /// Columns of all blocks.
    blocks: Vec<usize>,
    at: At,
}

/// How far the fit is.
enum At {
    Masked(Box<Relay>),
    /// The shares of all others are to come.
    Shares(SeveralTables),
    /// The factors of all others are to come, for sub-models.
    Factors,
    /// Which columns of a follower stay; what those before it have set aside.
    Reducing(Vec<Option<Reduction>>),
    /// The same while a follower is asked.
    Asked(Vec<Option<Reduction>>),
    /// Parts of the intercept: of those before, and where their means are.
    Means(Means, Vec<DVector<f64>>),
    Results,
}

impl Hub<SealedCentre> {
    /// A sealed fit over prepared data with all other parties of its study. What it lets open is recorded in `account` before it leaves.
    pub fn sealed(prepared: Prepared, opening: &Opening, account: Box<dyn Account + Send>) -> Hub<SealedCentre> {
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let stage = Stage::Agreeing { agreeing: Agreeing::new(prepared), opening: opening.clone(), account };
        Hub::open(&study, role, opening, SealedCentre { role, stage })
    }
}

impl Centre for SealedCentre {
    type Output = VerticalFit;

    fn purpose(&self) -> Purpose {
        Purpose::Fit
    }

    fn progress(&self) -> Progress {
        match &self.stage {
            Stage::Fitting(fitting) => {
                let waits = matches!(&fitting.at, At::Masked(relay) if relay.waits_for_dealer());
                let (phase, round) = if waits { ("waiting for the dealer", 0) } else { fitting.work.progress() };
                Progress { phase, fit: (0, 1), round, certificate: None }
            }
            Stage::Agreeing { .. } | Stage::Between => Progress::lining_up(),
        }
    }

    fn order(&mut self) -> Option<Order> {
        match &mut self.stage {
            Stage::Fitting(fitting) => match &mut fitting.at {
                At::Masked(relay) => relay.order(),
                At::Shares(_) | At::Factors | At::Reducing(_) | At::Asked(_) | At::Means(..) | At::Results => None,
            },
            Stage::Agreeing { .. } | Stage::Between => None,
        }
    }

    fn hear(&mut self, dealt: Dealt) -> Result<(), Refusal> {
        match &mut self.stage {
            Stage::Fitting(fitting) => match &mut fitting.at {
                At::Masked(relay) => relay.hear(dealt),
                At::Shares(_) | At::Factors | At::Reducing(_) | At::Asked(_) | At::Means(..) | At::Results => {
                    Err(Refusal::Kind)
                }
            },
            Stage::Agreeing { .. } | Stage::Between => Err(Refusal::Kind),
        }
    }

    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<VerticalFit>, Abort> {
        let taken = match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::Agreeing { agreeing, opening, account } => self.agree(lines, agreeing, opening, account)?,
            Stage::Fitting(mut fitting) => {
                let taken = fitting.advance(lines)?;
                if fitting.work.place == Place::Over {
                    return Ok(Advance::Over(finish(&fitting.work)?));
                }
                self.stage = Stage::Fitting(fitting);
                taken
            }
            Stage::Between => return Err(out_of_order()),
        };
        Ok(if taken { Advance::Taken } else { Advance::Waits })
    }
}

impl SealedCentre {
    fn agree(
        &mut self,
        lines: &mut Lines,
        agreeing: Agreeing,
        opening: Opening,
        account: Box<dyn Account + Send>,
    ) -> Result<bool, Abort> {
        let (agreeing, taken) = match agreeing.advance(self.role, lines)? {
            Agreed::Waits(agreeing) => (agreeing, false),
            Agreed::Taken(agreeing) => (agreeing, true),
            Agreed::Over(mut prepared, theirs) => {
                let followers: Vec<usize> = lines.0.iter().map(|line| line.columns).collect();
                let others = agree::answer(lines, &prepared, &theirs, false)?;
                let (study, limits) = (Arc::clone(prepared.study()), prepared.policy.limits);
                let encoded = prepared.take_encoded()?;
                let run = Run { opening: opening.clone(), account, limits };
                let mut work = Work::new(self.role, study, encoded, (others as usize, &followers), run)?;
                let blocks: Vec<usize> = std::iter::once(work.basis.own()).chain(followers).collect();
                let shape = work.shape_of_several(&blocks)?;
                let values = blocks.iter().map(|columns| *columns as f64).collect();
                lines.say(&Body::Joint(Joint { what: JointKind::Columns, values }));
                lines.await_all("masked columns");
                work.place = Place::Masked;
                let at = At::Masked(Box::new(Relay::new(&work.study, opening.run, shape)));
                self.stage = Stage::Fitting(Box::new(Fitting { work, blocks, at }));
                return Ok(true);
            }
        };
        self.stage = Stage::Agreeing { agreeing, opening, account };
        Ok(taken)
    }
}

impl Fitting {
    /// Takes one step; tells whether there was one to take.
    fn advance(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        let (at, taken) = match std::mem::replace(&mut self.at, At::Results) {
            At::Masked(mut relay) => match relay.advance(lines, &self.work.basis)? {
                Advance::Waits => (At::Masked(relay), false),
                Advance::Taken => (At::Masked(relay), true),
                Advance::Over(shares) => {
                    lines.await_all("shares of tables");
                    self.work.place = Place::Share;
                    (At::Shares(shares), true)
                }
            },
            At::Shares(own) => match lines.heard() {
                None => (At::Shares(own), false),
                Some(bodies) => {
                    self.open(lines, &own, bodies)?;
                    match self.work.awaits_factors() {
                        true => {
                            lines.await_all("a factor");
                            (At::Factors, true)
                        }
                        false => (At::Reducing(Vec::new()), true),
                    }
                }
            },
            At::Factors => match lines.heard() {
                None => (At::Factors, false),
                Some(bodies) => {
                    self.factors(lines, bodies)?;
                    (At::Reducing(Vec::new()), true)
                }
            },
            At::Reducing(parts) => (self.reduce(lines, parts)?, true),
            At::Asked(parts) => match lines.0[parts.len()].leg().take() {
                None => (At::Asked(parts), false),
                Some(body) => (At::Reducing(self.reduced(lines, parts, body)?), true),
            },
            At::Means(sum, positions) => self.means(lines, sum, positions)?,
            At::Results => (At::Results, self.results(lines)?),
        };
        self.at = at;
        Ok(taken)
    }

    /// Opens the tables of all pairs with the shares of all, and sends them on where they open to all.
    fn open(&mut self, lines: &mut Lines, own: &SeveralTables, bodies: Vec<Body>) -> Result<(), Abort> {
        let mut all = vec![own.shares().clone()];
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::Share(Share { table: Some(table), .. }) = body else {
                return Err(line.said_instead(&body, "shares of tables"));
            };
            all.push(table);
        }
        let tables = SeveralTables::open(own.shape(), &all).map_err(|(place, fault)| {
            let peer = lines.0.get(place.saturating_sub(1)).map_or(self.work.role, |line| line.peer);
            Abort::Peer { peer, fault: peer_fault(fault) }
        })?;
        self.work.open_tables(&tables)?;
        if let Some(joint) = self.work.tell_tables(&tables)? {
            lines.say(&Body::Joint(joint));
        }
        Ok(())
    }

    /// Takes the factors of all others, and sends all factors on where the tables open to all.
    fn factors(&mut self, lines: &mut Lines, bodies: Vec<Body>) -> Result<(), Abort> {
        let mut all = Vec::new();
        for (at, (line, body)) in lines.0.iter().zip(bodies).enumerate() {
            let Body::Joint(Joint { what: JointKind::Factor, values }) = body else {
                return Err(line.said_instead(&body, "a factor"));
            };
            let taken = self.work.take_factor_of(at, self.blocks[at + 1], &values);
            taken.map_err(|fault| line.broke(fault))?;
            all.push(values);
        }
        let Some(own) = self.work.tell_factor_to_all()? else { return Ok(()) };
        let told = |place: usize, values: &[f64]| {
            let values = std::iter::once(place as f64).chain(values.iter().copied()).collect();
            Body::Joint(Joint { what: JointKind::Factor, values })
        };
        for (at, line) in lines.0.iter_mut().enumerate() {
            line.leg().say(told(0, &own));
            for (other, values) in all.iter().enumerate().filter(|(other, _)| *other != at) {
                line.leg().say(told(other + 1, values));
            }
        }
        Ok(())
    }

    /// Asks the next follower whose columns depend on those of earlier parties which of them stay; solves once all have answered.
    fn reduce(&mut self, lines: &mut Lines, mut parts: Vec<Option<Reduction>>) -> Result<At, Abort> {
        let table = self.work.table().ok_or_else(out_of_order)?;
        let blocks = table.blocks().to_vec();
        while parts.len() < blocks.len() {
            let so_far = joined(&parts, &blocks).and_then(|reduction| table.reduce(&reduction));
            let so_far = so_far.as_ref().unwrap_or(table);
            if so_far.depends(parts.len()) {
                let values = so_far.left_of(parts.len()).ok_or_else(out_of_order)?;
                self.work.ask(lines.0[parts.len()].peer, values.ncols())?;
                let values = values.as_slice().to_vec();
                let leg = lines.0[parts.len()].leg();
                leg.say(Body::Joint(Joint { what: JointKind::LeftOver, values }));
                leg.await_answer("the columns that stay");
                return Ok(At::Asked(parts));
            }
            parts.push(None);
        }
        if let Some(reduction) = joined(&parts, &blocks) {
            let taken = self.work.take_reduction(&reduction_values(&reduction));
            taken.map_err(|refusal| refused(self.work.role, refusal))?;
        }
        self.work.solve()?;
        self.ask_means(lines, &[])?;
        Ok(At::Means(Means { shift: 0.0, spread: 0.0 }, Vec::new()))
    }

    /// What a follower said of the columns that stay; where the tables open to all, the others are told.
    fn reduced(
        &self,
        lines: &mut Lines,
        mut parts: Vec<Option<Reduction>>,
        body: Body,
    ) -> Result<Vec<Option<Reduction>>, Abort> {
        let line = &lines.0[parts.len()];
        let Body::Joint(Joint { what: JointKind::Reduction, values }) = body else {
            return Err(line.said_instead(&body, "the columns that stay"));
        };
        let size = self.blocks[parts.len() + 1];
        let reduction = read_reduction(&values, size).filter(|reduction| reduction.sound(size));
        let wrong =
            || line.broke(PeerFault::Garbage("columns that stay and are no part of those that came".to_string()));
        let reduction = reduction.ok_or_else(wrong)?;
        if self.work.study.guarantee.opens_to_both() {
            let place = (parts.len() + 1) as f64;
            let values: Vec<f64> = std::iter::once(place).chain(reduction_values(&reduction)).collect();
            for (_, line) in lines.0.iter_mut().enumerate().filter(|(at, _)| *at != parts.len()) {
                line.leg().say(Body::Joint(Joint { what: JointKind::Reduced, values: values.clone() }));
            }
        }
        parts.push(Some(reduction));
        Ok(parts)
    }

    /// Tells the next follower its part of the solution, and asks for its part of the intercept.
    fn ask_means(&mut self, lines: &mut Lines, positions: &[DVector<f64>]) -> Result<(), Abort> {
        let at = positions.len();
        let values = self.work.answer_of(at, positions).ok_or_else(out_of_order)?;
        let leg = lines.0[at].leg();
        leg.say(Body::Joint(Joint { what: JointKind::Answer, values }));
        leg.await_answer("the predictor at the means");
        Ok(())
    }

    /// The next follower's part of the intercept, and the answer to the one after it.
    fn means(&mut self, lines: &mut Lines, sum: Means, mut positions: Vec<DVector<f64>>) -> Result<(At, bool), Abort> {
        let at = positions.len();
        let line = &mut lines.0[at];
        let Some(body) = line.leg().take() else { return Ok((At::Means(sum, positions), false)) };
        let Body::Joint(Joint { what: JointKind::Means, values }) = body else {
            return Err(line.said_instead(&body, "the predictor at the means"));
        };
        if !values.iter().all(|value| value.is_finite()) {
            let (what, expected) = ("means", "finite");
            return Err(line.broke(PeerFault::Value { what, expected, round: 1 }));
        }
        let (means, position) = self.work.read_means(at, &values).map_err(|fault| line.broke(fault))?;
        let sum = Means { shift: sum.shift + means.shift, spread: sum.spread + means.spread };
        positions.push(position);
        if positions.len() < lines.0.len() {
            self.ask_means(lines, &positions)?;
            return Ok((At::Means(sum, positions), true));
        }
        self.work.take_all_means(sum);
        lines.await_all("results");
        Ok((At::Results, true))
    }

    /// Results of all, and to each those of all others.
    fn results(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        lines.await_all("results");
        let Some(bodies) = lines.heard() else { return Ok(false) };
        let work = &mut self.work;
        let mut theirs: Vec<Results> = Vec::new();
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::Results(results) = body else { return Err(line.said_instead(&body, "results")) };
            check_shown(&work.study, (work.role, line.peer), &results).map_err(|fault| line.broke(fault))?;
            if !results.fold_errors.is_empty() || results.statistics.is_some() {
                return Err(line.broke(length("results of another than the leader", 1, 0)));
            }
            theirs.push(results);
        }
        let none = Results { fits: Vec::new(), fold_errors: Vec::new(), statistics: None, coefficients: None };
        work.peer = Some(theirs.iter().fold(none, add));
        work.place = Place::Results { answered: true };
        let Body::Results(own) = work.build()? else { return Err(out_of_order()) };
        for (at, line) in lines.0.iter_mut().enumerate() {
            let others = theirs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, results)| results);
            let leg = line.leg();
            leg.say(Body::Results(others.fold(own.clone(), add)));
            leg.end();
        }
        Ok(true)
    }
}

/// What those that were asked have set aside, with all columns of the others.
fn joined(parts: &[Option<Reduction>], blocks: &[usize]) -> Option<Reduction> {
    let mut all = parts.to_vec();
    all.resize_with(blocks.len(), || None);
    Reduction::joined(&all, blocks)
}

/// Coefficients of two parties as those of one.
fn add(mut sum: Results, more: &Results) -> Results {
    if let Some(coefficients) = &more.coefficients {
        sum.coefficients.get_or_insert_default().extend(coefficients.iter().cloned());
    }
    sum
}
