//! Fits of several parties.
//!
//! A follower is told the sum of what all others predict, and gives its own part. At the leader the others together stand for one
//! partner ([`Work`]): what they say at a step is joined into what one partner would say, and what the leader says to one partner
//! goes to each, with what concerns that one.
//!
//! Where two parties take turns in a round, the leader asks its followers one after the other (block Gauss-Seidel); `Followers` keeps
//! what each predicted. For standard errors every follower sends a basis of its own block; the leader stacks them beside its own
//! columns and gives each what is left of its basis when all other blocks are projected out.
//!
//! Of columns that depend on each other those of the later party go.

use std::sync::Arc;

use crate::conversation::{Opening, Purpose};
use crate::id::{Role, RunId};
use crate::session::{Abort, PeerFault};

use super::super::exchange::{Gathered, Learnt, check_basis};
use super::super::message::{Basis, Body, FitEnd, Partial, Results, Shared, Table};
use super::super::outcome::{self, VerticalFit};
use super::super::prepare::Prepared;
use super::super::session::{Place, Progress, Work};
use super::agree::{self, Agreed, Agreeing};
use super::{Advance, Centre, Hub, Lines, refused};

/// A fit, as its leader sees it.
pub struct FitCentre {
    role: Role,
    run: RunId,
    stage: Stage,
}

enum Stage {
    Agreeing {
        agreeing: Agreeing,
        opening: Opening,
    },
    Fitting(Box<Fitting>),
    /// Moved out of while a step is taken.
    Between,
}

struct Fitting {
    work: Work,
    /// The round that is under way: what the leader says of itself, and who is asked.
    asked: Option<(Partial, usize)>,
    parts: Parts,
    gathered: Option<Gathered>,
}

/// Parts of several bases, which come in rows of their own heights.
#[derive(Default)]
struct Parts {
    /// The newest part of each follower, and how many of its rows have been used.
    newest: Vec<Option<(Basis, usize)>>,
    /// Rows that have been used.
    used: usize,
}

impl Hub<FitCentre> {
    /// A fit over prepared data with all other parties of its study.
    pub fn fit(prepared: Prepared, opening: &Opening) -> Hub<FitCentre> {
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let stage = Stage::Agreeing { agreeing: Agreeing::new(prepared), opening: opening.clone() };
        Hub::open(&study, role, opening, FitCentre { role, run: opening.run, stage })
    }
}

impl Centre for FitCentre {
    type Output = VerticalFit;

    fn purpose(&self) -> Purpose {
        Purpose::Fit
    }

    fn progress(&self) -> Progress {
        match &self.stage {
            Stage::Fitting(fitting) => fitting.work.progress(),
            Stage::Agreeing { .. } | Stage::Between => Progress::lining_up(),
        }
    }

    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<VerticalFit>, Abort> {
        let taken = match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::Agreeing { agreeing, opening } => self.agree(lines, agreeing, opening)?,
            Stage::Fitting(mut fitting) => {
                let taken = fitting.advance(lines)?;
                if fitting.work.place == Place::Over {
                    fitting.work.fits.rest();
                    return Ok(Advance::Over(outcome::finish(&fitting.work, self.run)?));
                }
                self.stage = Stage::Fitting(fitting);
                taken
            }
            Stage::Between => return Err(Abort::Bug("a leader went on after its fit had ended".to_string())),
        };
        Ok(if taken { Advance::Taken } else { Advance::Waits })
    }
}

impl FitCentre {
    /// Takes one step of the agreement; tells whether there was one to take.
    fn agree(&mut self, lines: &mut Lines, agreeing: Agreeing, opening: Opening) -> Result<bool, Abort> {
        match agreeing.advance(self.role, lines)? {
            Agreed::Waits(agreeing) => {
                self.stage = Stage::Agreeing { agreeing, opening };
                Ok(false)
            }
            Agreed::Taken(agreeing) => {
                self.stage = Stage::Agreeing { agreeing, opening };
                Ok(true)
            }
            Agreed::Over(prepared, theirs) => {
                let work = self.begin(lines, *prepared, &opening, &theirs)?;
                let (parts, gathered) = (Parts::default(), None);
                self.stage = Stage::Fitting(Box::new(Fitting { work, asked: None, parts, gathered }));
                Ok(true)
            }
        }
    }

    /// Settles what follows from the sizes of all blocks.
    fn begin(
        &mut self,
        lines: &mut Lines,
        mut prepared: Prepared,
        opening: &Opening,
        theirs: &[Shared],
    ) -> Result<Work, Abort> {
        let study = Arc::clone(prepared.study());
        let allows = prepared.allows_basis();
        let others = agree::answer(lines, &prepared, theirs, allows)?;
        let forbids = |who: Role| Some(format!("the policy of {who} does not allow the basis exchange"));
        let refusing = lines.0.iter().zip(theirs).find(|(_, shared)| !shared.basis).map(|(line, _)| line.peer);
        let no_inference = match (study.method.inference.allowed, allows, refusing) {
            (true, true, None) => None,
            (false, ..) => Some("the study does not allow them".to_string()),
            (true, false, _) => forbids(self.role),
            (true, true, Some(who)) => forbids(who),
        };
        let mut work = Work::new(&mut prepared, opening, others as usize, no_inference)?;
        let columns: Vec<usize> = lines.0.iter().map(|line| line.columns).collect();
        work.fits.lead_several(&columns);
        work.go_on_with_held()?;
        Ok(work)
    }
}

impl Fitting {
    /// Takes one step; tells whether there was one to take.
    fn advance(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        match self.work.place {
            Place::ForLeader { holder, .. } => self.column_of(lines, holder),
            Place::Held(_) => {
                let body = self.work.build()?;
                lines.say(&body);
                Ok(true)
            }
            Place::Largest { .. } => self.largest(lines),
            Place::Fit | Place::Answer => self.round(lines),
            Place::Basis { start, .. } => self.basis(lines, start as usize),
            Place::Redo => self.redo(lines),
            Place::Results { .. } => self.results(lines),
            Place::Over => Ok(false),
            Place::Table | Place::Redone | Place::Learn | Place::Covariance { .. } => {
                Err(Abort::Bug("a leader of several parties was told what it tells".to_string()))
            }
        }
    }

    fn absorb(&mut self, peer: Role, body: Body) -> Result<(), Abort> {
        self.work.absorb(body).map_err(|refusal| refused(peer, refusal))
    }

    /// What a follower holds alone, which it sends here.
    fn column_of(&mut self, lines: &mut Lines, holder: Role) -> Result<bool, Abort> {
        // Each speaks as soon as it can, whatever the leader takes first.
        for line in lines.0.iter_mut().filter(|line| self.work.awaits_column_of(line.peer)) {
            if !line.leg().has_heard() {
                line.leg().await_answer("a held vector");
            }
        }
        let line = lines.0.iter_mut().find(|line| line.peer == holder);
        let leg = line.ok_or_else(|| Abort::Bug("a column is to come from a party without a line".to_string()))?.leg();
        match leg.take() {
            Some(body) => self.absorb(holder, body).map(|()| true),
            None => Ok(false),
        }
    }

    /// The largest gradients, from which a path begins.
    fn largest(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        lines.await_all("a largest gradient");
        let Some(bodies) = lines.heard() else { return Ok(false) };
        let mut found = Vec::new();
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::LargestGradient(largest) = body else {
                return Err(line.said_instead(&body, "a largest gradient"));
            };
            if !(largest.is_finite() && largest >= 0.0) {
                let (what, expected) = ("a gradient", "a finite size");
                return Err(line.broke(PeerFault::Value { what, expected, round: 0 }));
            }
            found.push(largest);
        }
        let peer = lines.0.first().map_or(self.work.role, |line| line.peer);
        self.absorb(peer, Body::LargestGradient(found.iter().copied().fold(0.0, f64::max)))?;
        let Body::LargestGradient(own) = self.work.build()? else {
            return Err(Abort::Bug("a leader's largest gradient is missing".to_string()));
        };
        for (at, line) in lines.0.iter_mut().enumerate() {
            let others = found.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, largest)| *largest);
            line.leg().say(Body::LargestGradient(others.fold(own, f64::max)));
        }
        Ok(true)
    }

    /// The next question of a round, or what follows from its answers.
    fn round(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        let Some((own, at)) = self.asked.take() else {
            let said = self.work.build()?;
            if let Body::Partial(own) = said {
                self.ask(lines, own, 0)?;
            } else {
                lines.say(&said);
            }
            return Ok(true);
        };
        let line = &mut lines.0[at];
        let Some(body) = line.leg().take() else {
            self.asked = Some((own, at));
            return Ok(false);
        };
        let peer = line.peer;
        let Body::Partial(partial) = body else { return Err(line.said_instead(&body, "partial predictions")) };
        let heard = self.work.fits.hear_part(&self.work.encoded.block, at, partial);
        heard.map_err(|fault| Abort::Peer { peer, fault })?;
        if at + 1 < lines.0.len() {
            self.ask(lines, own, at + 1)?;
            return Ok(true);
        }
        let followers = self.work.fits.followers().ok_or_else(no_followers)?;
        let joined = followers.joined(own.fit, own.round);
        self.absorb(peer, Body::Partial(joined))?;
        Ok(true)
    }

    fn ask(&mut self, lines: &mut Lines, own: Partial, at: usize) -> Result<(), Abort> {
        let question = self.work.fits.followers().ok_or_else(no_followers)?.question(at, &own);
        let leg = lines.0[at].leg();
        leg.say(Body::Partial(question));
        leg.await_answer("partial predictions");
        self.asked = Some((own, at));
        Ok(())
    }

    /// Takes parts of the bases in, as far as there are some of every follower.
    fn basis(&mut self, lines: &mut Lines, start: usize) -> Result<bool, Abort> {
        let rows = self.work.encoded.block.rows();
        if start == 0 && self.parts.newest.len() != lines.0.len() {
            self.parts = Parts { newest: vec![None; lines.0.len()], used: 0 };
        }
        for (line, newest) in lines.0.iter_mut().zip(&mut self.parts.newest) {
            if newest.is_none() {
                match line.leg().take() {
                    Some(Body::Basis(basis)) => {
                        let sound = check_basis(rows, self.parts.used as u64, line.columns, &basis);
                        sound.map_err(|fault| Abort::Peer { peer: line.peer, fault })?;
                        *newest = Some((basis, 0));
                    }
                    Some(other) => return Err(line.said_instead(&other, "a part of the basis")),
                    None => line.leg().await_answer("a part of the basis"),
                }
            }
        }
        let Some(joined) = self.parts.joined() else { return Ok(false) };
        let used = self.parts.used;
        let columns = lines.0.iter().map(|line| line.columns).sum();
        let peer = lines.0.first().map_or(self.work.role, |line| line.peer);
        let taken = self.work.take_basis(used as u64 - u64::from(joined.rows), columns, joined, false);
        taken.map_err(|fault| Abort::Peer { peer, fault })?;
        if used < rows {
            return Ok(true);
        }
        self.parts = Parts::default();
        let sizes: Vec<usize> = lines.0.iter().map(|line| line.columns).collect();
        let gathered = self.work.gathered(&sizes);
        let gathered = gathered.ok_or_else(|| Abort::Bug("the projection exchange is singular".to_string()))?;
        for (line, factor) in lines.0.iter_mut().zip(&gathered.earlier) {
            let (score, robust) = (Vec::new(), Vec::new());
            let table = Table { factor: factor.clone(), score, residual: 0.0, dependent: 0, robust };
            line.leg().say(Body::Table(table));
            line.leg().await_answer("columns to drop");
        }
        self.gathered = Some(gathered);
        self.work.place = Place::Redo;
        Ok(true)
    }

    /// Has the fit redone where columns depend on those of earlier parties; else gives out what is learnt.
    fn redo(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        let Some(bodies) = lines.heard() else { return Ok(false) };
        let mut dropped = Vec::new();
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::Redo(columns) = body else { return Err(line.said_instead(&body, "columns to drop")) };
            if columns as usize > line.columns {
                let (what, expected) = ("columns to drop", "possible");
                return Err(line.broke(PeerFault::Value { what, expected, round: 0 }));
            }
            dropped.push(columns);
        }
        let all: u32 = dropped.iter().sum();
        for ((at, line), own) in lines.0.iter_mut().enumerate().zip(&dropped) {
            line.leg().say(Body::Redo(all - own));
            line.columns -= *own as usize;
            let followers = self.work.fits.followers().ok_or_else(no_followers)?;
            followers.drop_columns(at, *own as usize);
        }
        if all > 0 {
            self.work.peer_columns -= all as usize;
            self.work.restart();
            return Ok(true);
        }
        let Some(gathered) = self.gathered.take() else {
            return Err(Abort::Bug("nothing was gathered for standard errors".to_string()));
        };
        for ((line, (factor, score)), robust) in lines.0.iter_mut().zip(gathered.all).zip(gathered.robust) {
            let table = Table { factor, score, residual: gathered.residual, dependent: 0, robust };
            line.leg().say(Body::Table(table));
        }
        let Gathered { inference, residual, gained, .. } = gathered;
        self.work.inference = Some(Learnt { inference, residual, gained });
        self.work.place = Place::Results { answered: false };
        Ok(true)
    }

    /// Results of all, and to each those of all others.
    fn results(&mut self, lines: &mut Lines) -> Result<bool, Abort> {
        lines.await_all("results");
        let Some(bodies) = lines.heard() else { return Ok(false) };
        let work = &mut self.work;
        let folds = work.fits.jobs().iter().filter(|job| job.fold.is_some()).count();
        let mut theirs = Vec::new();
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::Results(results) = body else { return Err(line.said_instead(&body, "results")) };
            outcome::check_results(&work.study, &work.fits.fitted, folds, (work.role, line.peer), &results)
                .map_err(|fault| Abort::Peer { peer: line.peer, fault })?;
            theirs.push(results);
        }
        let none = Results {
            fits: work.fits.fitted.iter().map(|_| FitEnd { shift: 0.0, certificate: 0.0 }).collect(),
            fold_errors: Vec::new(),
            statistics: None,
            coefficients: None,
        };
        work.peer = Some(theirs.iter().fold(none, add));
        work.place = Place::Results { answered: true };
        let Body::Results(own) = work.build()? else {
            return Err(Abort::Bug("a leader's results are missing".to_string()));
        };
        for (at, line) in lines.0.iter_mut().enumerate() {
            let others = theirs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, results)| results);
            let leg = line.leg();
            leg.say(Body::Results(others.fold(own.clone(), add)));
            leg.end();
        }
        Ok(true)
    }
}

/// Results of two parties as those of one. Errors of folds are those of the first: the leader's, at the joint predictions.
fn add(mut sum: Results, more: &Results) -> Results {
    for (end, other) in sum.fits.iter_mut().zip(&more.fits) {
        end.shift += other.shift;
        end.certificate = end.certificate.max(other.certificate);
    }
    if let Some(coefficients) = &more.coefficients {
        sum.coefficients.get_or_insert_default().extend(coefficients.iter().cloned());
    }
    sum
}

fn no_followers() -> Abort {
    Abort::Bug("a leader of several parties has no followers".to_string())
}

impl Parts {
    /// The rows that have come of every follower, beside each other; those that were used up are thrown away.
    fn joined(&mut self) -> Option<Basis> {
        let left = |part: &Option<(Basis, usize)>| part.as_ref().map(|(basis, used)| basis.rows as usize - used);
        let rows = self.newest.iter().map(left).try_fold(usize::MAX, |least, left| left.map(|left| least.min(left)))?;
        let mut values = Vec::new();
        let mut columns = 0;
        for slot in &mut self.newest {
            let Some((basis, used)) = slot else { continue };
            let height = basis.rows as usize;
            for column in basis.values.chunks_exact(height) {
                values.extend_from_slice(&column[*used..*used + rows]);
            }
            columns += basis.columns;
            *used += rows;
            if *used == height {
                *slot = None;
            }
        }
        let start = self.used as u64;
        self.used += rows;
        Some(Basis { start, rows: rows as u32, columns, values })
    }
}
