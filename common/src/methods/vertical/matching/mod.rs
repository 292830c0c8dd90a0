//! Record matching between Alice and Bob, as a conversation.
//!
//! Both learn which records both have, and nothing else of the other's keys: [`secure::group`](crate::secure::group). After the greetings
//! and [`message::Terms`], each pass of the study ([`data::matching`](crate::data::matching)) goes through these messages; both parties
//! say each of them, the one that dialled first, and lists travel in parts of at most [`message::PART_BYTES`].
//!
//! 1. `Size`: the length of the own list. The peer's is checked before anything of the own list leaves.
//! 2. `Masked`: the own keys as elements times a scalar that is new in every run and pass, ascending.
//! 3. `Doubled`: tags of the peer's elements times the own scalar, ascending: the peer learns how many of its own keys are among the
//!    other's, and not which.
//! 4. `Count`: how many both lists have. Then the gate: where the first pass has fewer than either party asks for, both end with 77, and
//!    nothing is revealed; a later pass with fewer than the study asks for is left without being revealed.
//! 5. `Reveal`: where the matches stand in the peer's list.
//!
//! With [`Inputs::coordinated`] the coordinator compares: both parties `Draw` a key that it does not get, send it tags of their keys
//! ([`merging`](crate::secure::merging)) after `Size`, and hear from it how many both have. After `Count` and the same gate it says where
//! they stand in the own list.
//!
//! In the end `Agree` proves that both hold the same keys in the same order, without giving away what a guess of them could be tested
//! on. The order is that of passes, and within a pass of tags, which nobody can foresee.
//!
//! Of several parties each but the leader matches with the leader alone, and all end with the records that all have: see `matching/several.rs`.
//!
//! # For a driver
//!
//! [`MatchSession::new`] takes the study's rules, the party's policy and its normalised records, and refuses own data that cannot be
//! matched. The conversation ends with [`Matched`]. The scalars follow from [`Opening::seed`](crate::conversation::Opening), which must
//! come from the operating system: anyone who knows it can test guesses of keys. A party that is to go on after it was killed stores the
//! seed before the first message, gives the same seed, run and records again, and hands over a [`Journal`] of what it heard: then every
//! message has the same bytes as before. Nothing but numbers of records leaves before the gate; the sentence of a gate that closed
//! holds no number, as it may pass a coordinator.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use self::agreement::{Agreement, PROOF};
use self::direct::Lists;
use self::lists::{Revealed, Turns};
use self::merging::Merging;
use self::message::{DRAW, Match, Number, NumberKind, Part, PartKind};
use self::several::{Common, Entry, Several};
use super::message::Body;
use super::session::Progress;
use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::data::align::Mask;
use crate::data::matching::{Eligible, OwnCounts, Records, Rules};
use crate::id::{Digest, Role, RunId};
use crate::privacy::release::{Declaration, Disclosures};
use crate::secure::group::{Scalar, Tag};
use crate::secure::merging::{MergeKey, Request};
use crate::session::{Abort, PeerFault};
use crate::study::{Study, Vertical};

mod agreement;
mod checks;
mod direct;
pub(super) mod journal;
mod lists;
mod matched;
mod merging;
pub mod message;
pub(super) mod several;
#[cfg(test)]
mod tests;

pub use self::journal::Journal;
pub use self::matched::{Matched, PassCounts};

/// One side of a match.
pub type MatchSession = Conversation<MatchScript>;

/// What a party's own file says of matches; it may only be stricter than the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Fewest records that the first pass must find.
    pub min_matched: Option<u64>,
    /// Most entries of the peer's list.
    pub max_peer_rows: Option<u64>,
}

/// What a party brings to a match.
pub struct Inputs {
    /// What both agree on.
    pub rules: Arc<Rules>,
    /// The digest of what both agree on.
    pub match_digest: Digest,
    /// The party's policy.
    pub policy: Policy,
    /// The party's records.
    pub records: Arc<Records>,
    /// Which of them take part in the first pass, where that is known already.
    pub first: Option<Eligible>,
    /// What was heard in this run, of a party that goes on after it was killed.
    pub journal: Option<Box<dyn Journal + Send>>,
    /// Whether the coordinator compares the keys.
    pub coordinated: bool,
}

/// What the sides of a match say.
pub struct MatchScript {
    role: Role,
    peer: Role,
    first: Role,
    run: RunId,
    secret: Zeroizing<[u8; 32]>,
    inputs: Inputs,
    stage: Stage,
    /// The larger of both sides' demands.
    min_matched: u64,
    pass: usize,
    matched: Mask,
    order: Vec<u32>,
    tags: Vec<Tag>,
    passes: Vec<PassCounts>,
    /// In a match through the coordinator, once both have drawn.
    key: Option<MergeKey>,
    /// What the coordinator is to be asked for.
    requests: VecDeque<Request>,
    /// Of several parties.
    several: Option<Several>,
}

/// Where the conversation is. `said` counts the messages of a stage in which each party says one.
enum Stage {
    /// With the records of the first pass.
    Terms {
        said: u8,
        eligible: Option<Eligible>,
    },
    /// Through the coordinator.
    Draw {
        said: u8,
        eligible: Eligible,
        theirs: [u8; 32],
    },
    Size {
        said: u8,
        eligible: Eligible,
        peer: u64,
    },
    /// Through the coordinator, which merges both lists.
    Merge(Box<Merging>),
    /// It has said how many both have.
    Merged {
        said: u8,
        merging: Box<Merging>,
    },
    /// The gate is open, and it says which.
    Positions(Box<Merging>),
    Masked {
        lists: Box<Lists>,
        turns: Turns,
    },
    Doubled {
        lists: Box<Lists>,
        turns: Turns,
    },
    Count {
        said: u8,
        lists: Box<Lists>,
    },
    /// The gate is open.
    Reveal {
        lists: Box<Lists>,
        turns: Turns,
        revealed: Revealed,
        /// At a follower of several, where its entries stood first.
        before: Vec<Entry>,
    },
    /// Of several parties: where the follower's entries of this pass stood first.
    Same {
        turns: Turns,
        before: Vec<Entry>,
        /// At the leader, own records that match, and where in the follower's list.
        records: Vec<(u32, u32)>,
    },
    /// Of several parties: which records all have.
    Common(Box<Common>),
    /// The gate closed on the first pass.
    Closed,
    Agree(Box<Agreement>),
    Over,
    /// Between two stages only.
    Moving,
}

/// What the own list of a pass depends on.
struct Place<'a> {
    inputs: &'a Inputs,
    secret: &'a [u8; 32],
    run: &'a RunId,
    pass: usize,
    /// 0 for the first speaker.
    side: usize,
}

/// What a party may take for an entry of either list: an entry takes some 30 microseconds of one core, which others may use as well.
const MICROSECONDS: u64 = 200;

/// The scalar of the proof is that of no pass.
const PASS_OF_PROOF: u32 = u32::MAX;

impl MatchSession {
    /// A session over normalised records, of a command that is [`Purpose::MatchFit`] or [`Purpose::MatchPredict`].
    ///
    /// # Errors
    /// The own records cannot be matched: too many of them, or repeats in the first pass where the study has none.
    pub fn new(
        role: Role,
        purpose: Purpose,
        study: &Study<Vertical>,
        inputs: Inputs,
        opening: Opening,
    ) -> Result<MatchSession, Abort> {
        let script = MatchScript::new(role, study, inputs, &opening)?;
        // The study must say that both learn which records both have; there is no match without that, whatever the mode of the fit.
        let declared = disclosures(study);
        Ok(Conversation::open_under(role, purpose, study, &opening, declared, script))
    }

    /// How far it is. The round is the pass, from 1.
    pub fn progress(&self) -> Progress {
        match self.has_greeted() {
            true => self.script().progress(),
            false => Progress { phase: "comparing studies", ..self.script().progress() },
        }
    }

    /// What became of the passes so far, for the local terminal; a pass whose gate closed is among them.
    pub fn passes(&self) -> &[PassCounts] {
        &self.script().passes
    }
}

/// What may leave in a match: the study must say that the parties learn which records the others have, whatever the mode of the fit.
pub(super) fn disclosures(study: &Study<Vertical>) -> Disclosures {
    let more = study.leader().is_some().then_some(Declaration::SameRecords);
    Disclosures::new([Declaration::MatchCounts, Declaration::Membership].into_iter().chain(more))
}

impl MatchScript {
    /// The side of `role` towards the peer that the opening names.
    ///
    /// # Errors
    /// As [`MatchSession::new`].
    pub(super) fn new(
        role: Role,
        study: &Study<Vertical>,
        inputs: Inputs,
        opening: &Opening,
    ) -> Result<MatchScript, Abort> {
        let rows = inputs.records.len();
        let leads = study.leader() == Some(role);
        let pairs = study.method.parties.len() as u64 - 1;
        let mut script = MatchScript {
            role,
            peer: opening.peer,
            first: opening.first_speaker(role),
            run: opening.run,
            secret: Zeroizing::new(opening.seed),
            min_matched: inputs.rules.min_matched.max(inputs.policy.min_matched.unwrap_or(0)).max(1),
            stage: Stage::Over,
            pass: 0,
            matched: Mask::new(rows),
            order: Vec::new(),
            tags: Vec::new(),
            passes: Vec::new(),
            key: None,
            requests: VecDeque::new(),
            several: study.leader().is_some().then(|| Several::new(leads, pairs, rows)),
            inputs,
        };
        let eligible = match script.inputs.first.take() {
            Some(first) => script.allowed(first)?,
            None => script.eligible()?,
        };
        eligible.refuse_repeats(&script.inputs.rules, 0).map_err(|error| Abort::OwnData(error.to_string()))?;
        script.stage = Stage::Terms { said: 0, eligible: Some(eligible) };
        Ok(script)
    }

    /// How far it is, once both have greeted each other.
    pub(super) fn progress(&self) -> Progress {
        let phase = match &self.stage {
            Stage::Terms { .. } | Stage::Draw { .. } => "comparing rules",
            Stage::Size { .. } | Stage::Masked { .. } => "masking keys",
            Stage::Doubled { .. } | Stage::Merge(_) => "comparing keys",
            Stage::Count { .. } | Stage::Merged { .. } | Stage::Closed => "counting matches",
            Stage::Reveal { .. } | Stage::Same { .. } | Stage::Common(_) | Stage::Positions(_) | Stage::Moving => {
                "revealing matches"
            }
            Stage::Agree(_) | Stage::Over => "proving the order",
        };
        Progress { phase, fit: (0, 1), round: self.pass as u32 + 1, certificate: None }
    }

    fn speaker(&self, side: usize) -> Role {
        if side == self.side() { self.role } else { self.peer }
    }

    fn side(&self) -> usize {
        usize::from(self.role != self.first)
    }

    /// The scalar of a pass, or of the proof.
    fn scalar(&self, pass: u32) -> Result<Scalar, Abort> {
        Scalar::derive(&self.secret, &self.run, pass)
            .ok_or_else(|| Abort::Bug("a scalar of a match is zero: start the match again".to_owned()))
    }

    /// The lists that group operations are due on, and whether the own ones are masked already.
    fn computed(&self) -> Option<(&Lists, bool)> {
        match &self.stage {
            Stage::Masked { lists, .. } => Some((lists, false)),
            Stage::Doubled { lists, .. } => Some((lists, true)),
            Stage::Terms { .. }
            | Stage::Draw { .. }
            | Stage::Size { .. }
            | Stage::Merge(_)
            | Stage::Merged { .. }
            | Stage::Positions(_)
            | Stage::Count { .. }
            | Stage::Reveal { .. }
            | Stage::Same { .. }
            | Stage::Common(_)
            | Stage::Closed
            | Stage::Agree(_)
            | Stage::Over
            | Stage::Moving => None,
        }
    }

    fn no_proof(&self, expected: &'static str) -> PeerFault {
        PeerFault::Match { pass: self.pass as u32 + 1, what: PROOF, expected }
    }

    /// Moves on to the next stage for as long as the present one is complete.
    fn settle(&mut self) -> Result<(), Abort> {
        loop {
            let next = match std::mem::replace(&mut self.stage, Stage::Moving) {
                Stage::Terms { said: 2, eligible } => {
                    let eligible = eligible.map_or_else(|| self.eligible(), Ok)?;
                    match self.inputs.coordinated {
                        true => Stage::Draw { said: 0, eligible, theirs: [0; 32] },
                        false => Stage::Size { said: 0, eligible, peer: 0 },
                    }
                }
                Stage::Draw { said: 2, eligible, theirs } => {
                    self.key = Some(self.key(&theirs));
                    Stage::Size { said: 0, eligible, peer: 0 }
                }
                Stage::Size { said: 2, eligible, peer } if self.inputs.coordinated => {
                    let own = self.length(self.role, eligible.counts.eligible);
                    Stage::Merge(Box::new(Merging::new(eligible, own, peer)))
                }
                Stage::Size { said: 2, eligible, peer } => {
                    let lists = self.lists(eligible, peer)?;
                    let turns = Turns::new(lists.sizes);
                    Stage::Masked { lists: Box::new(lists), turns }
                }
                Stage::Masked { lists, turns } if turns.next().is_none() => {
                    let [first, second] = lists.sizes;
                    Stage::Doubled { lists, turns: Turns::new([second, first]) }
                }
                Stage::Doubled { lists, turns } if turns.next().is_none() => Stage::Count { said: 0, lists },
                Stage::Merge(merging) if merging.is_counted() => Stage::Merged { said: 0, merging },
                Stage::Merged { said: 2, merging } => self.gate_of_merge(merging)?,
                Stage::Positions(merging) if merging.is_complete() => {
                    let Merging { records, tags, .. } = *merging;
                    self.add(records, tags);
                    self.next_pass()?
                }
                Stage::Count { said: 2, lists } => self.gate_of_lists(lists)?,
                Stage::Reveal { lists, turns, revealed, before } if turns.next().is_none() => {
                    if self.several.is_some() {
                        self.revealed(&lists, revealed, before)?
                    } else {
                        self.add(revealed.records, lists.theirs.matched());
                        self.next_pass()?
                    }
                }
                Stage::Same { turns, before, records } if turns.next().is_none() => self.resolved(&before, &records)?,
                Stage::Common(common) if common.is_over() => self.proving()?,
                Stage::Agree(agreement) if agreement.side().is_none() => Stage::Over,
                unfinished @ (Stage::Terms { .. }
                | Stage::Draw { .. }
                | Stage::Size { .. }
                | Stage::Merge(_)
                | Stage::Merged { .. }
                | Stage::Positions(_)
                | Stage::Masked { .. }
                | Stage::Doubled { .. }
                | Stage::Count { .. }
                | Stage::Reveal { .. }
                | Stage::Same { .. }
                | Stage::Common(_)
                | Stage::Closed
                | Stage::Agree(_)
                | Stage::Over
                | Stage::Moving) => {
                    self.stage = unfinished;
                    return Ok(());
                }
            };
            self.stage = next;
        }
    }

    /// Both have said the same count: whether it is revealed what it counts.
    fn gate(&mut self, own: OwnCounts, peer: u64, counted: u64) -> bool {
        let fewest = if self.pass == 0 { self.min_matched } else { self.inputs.rules.min_pass.max(1) };
        let revealed = counted >= fewest;
        let name = self.inputs.rules.keys.passes()[self.pass].name.clone();
        self.passes.push(PassCounts { name, with: None, own, peer, counted, dropped: 0, revealed });
        revealed
    }

    /// What follows where the gate is closed.
    fn behind_the_gate(&mut self) -> Result<Stage, Abort> {
        if self.pass == 0 { Ok(Stage::Closed) } else { self.next_pass() }
    }

    /// Adds the matches of a pass.
    fn add(&mut self, records: Vec<u32>, tags: Vec<Tag>) {
        for record in &records {
            self.matched.set(*record as usize);
        }
        self.order.extend(records);
        match self.tags.is_empty() {
            true => self.tags = tags,
            false => self.tags.extend(tags),
        }
    }

    fn gate_of_lists(&mut self, mut lists: Box<Lists>) -> Result<Stage, Abort> {
        let (counted, side) = (lists.theirs.count(), self.side());
        let theirs = lists.sizes[1 - side];
        let own =
            lists.prepare(&Place { inputs: &self.inputs, secret: &self.secret, run: &self.run, pass: self.pass, side });
        let before = self.several.as_mut().map_or_else(Vec::new, |several| several.seat.keep(own, theirs));
        let revealed = Revealed::new(own);
        if !self.gate(lists.counts, lists.sizes[1 - side], counted) {
            return self.behind_the_gate();
        }
        Ok(Stage::Reveal { lists, turns: Turns::new(self.revealing(counted)), revealed, before })
    }

    fn next_pass(&mut self) -> Result<Stage, Abort> {
        if self.pass + 1 == self.inputs.rules.keys.passes().len() {
            return self.behind_the_passes();
        }
        self.pass += 1;
        Ok(Stage::Size { said: 0, eligible: self.eligible()?, peer: 0 })
    }

    fn proving(&self) -> Result<Stage, Abort> {
        let scalar = self.scalar(PASS_OF_PROOF)?;
        Ok(Stage::Agree(Box::new(Agreement::new((self.role, self.peer), &self.run, scalar, self.held()))))
    }

    fn absorb_number(&mut self, came: Number) -> Result<(), Refusal> {
        if came.pass as usize != self.pass {
            return Err(PeerFault::Round { came: came.pass, expected: self.pass as u32 }.into());
        }
        match came.what {
            NumberKind::Size => {
                let Stage::Size { .. } = self.stage else { return Err(Refusal::Kind) };
                self.check_size(came.number)?;
                // The peer is behind the pass before, of which nobody needs anything any more.
                self.requests.clear();
                if let Stage::Size { said, peer, .. } = &mut self.stage {
                    *said += 1;
                    *peer = came.number;
                }
            }
            NumberKind::Count => {
                let (said, expected) = match &mut self.stage {
                    Stage::Count { said, lists } => (said, lists.theirs.count()),
                    Stage::Merged { said, merging } => (said, merging.matched()),
                    Stage::Terms { .. }
                    | Stage::Draw { .. }
                    | Stage::Size { .. }
                    | Stage::Merge(_)
                    | Stage::Positions(_)
                    | Stage::Masked { .. }
                    | Stage::Doubled { .. }
                    | Stage::Reveal { .. }
                    | Stage::Same { .. }
                    | Stage::Common(_)
                    | Stage::Closed
                    | Stage::Agree(_)
                    | Stage::Over
                    | Stage::Moving => return Err(Refusal::Kind),
                };
                if came.number != expected {
                    let what = "a count of matches";
                    return Err(PeerFault::Match { pass: self.pass as u32 + 1, what, expected: "the own count" }.into());
                }
                *said += 1;
            }
            NumberKind::Common => self.absorb_common(came.number)?,
        }
        Ok(())
    }
}

impl Script for MatchScript {
    type Body = Body;
    type Output = Matched;

    fn step(&self) -> Option<Step> {
        let (side, expected) = match &self.stage {
            Stage::Merge(_) => return Some(Step { speaker: Role::Coordinator, expected: "the count of a merge" }),
            Stage::Positions(_) => return Some(Step { speaker: Role::Coordinator, expected: "positions of a merge" }),
            Stage::Terms { said, .. } => (usize::from(*said), "terms of a match"),
            Stage::Draw { said, .. } => (usize::from(*said), DRAW),
            Stage::Size { said, .. } => (usize::from(*said), "the length of a list"),
            Stage::Masked { turns, .. } => (turns.next()?, PartKind::Masked.name()),
            Stage::Doubled { turns, .. } => (turns.next()?, PartKind::Doubled.name()),
            Stage::Count { said, .. } | Stage::Merged { said, .. } => (usize::from(*said), "a count of matches"),
            Stage::Reveal { turns, .. } => (turns.next()?, PartKind::Reveal.name()),
            Stage::Same { turns, .. } => (turns.next()?, PartKind::Same.name()),
            Stage::Common(common) => (self.leading_side(), common.expected()),
            Stage::Agree(agreement) => (agreement.side()?, PROOF),
            // This party says no more; the peer ends the run, or this one does.
            Stage::Closed | Stage::Moving => (1 - self.side(), "the end of the match"),
            Stage::Over => return None,
        };
        Some(Step { speaker: self.speaker(side), expected })
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        let (pass, side, peer) = (self.pass, self.side(), self.peer);
        let number = pass as u32;
        let theirs = |fault| Abort::Peer { peer, fault };
        let terms = self.terms();
        let length = if let Stage::Size { eligible, .. } = &self.stage { eligible.counts.eligible } else { 0 };
        let length = self.length(self.role, length);
        let place = Place { inputs: &self.inputs, secret: &self.secret, run: &self.run, pass, side };
        let no_proof = |expected| theirs(PeerFault::Match { pass: number + 1, what: PROOF, expected });
        let message = match &mut self.stage {
            Stage::Terms { said, .. } => {
                *said += 1;
                Match::Terms(terms)
            }
            Stage::Draw { said, .. } => {
                *said += 1;
                Match::Draw(MergeKey::draw(&self.secret, &self.run))
            }
            Stage::Merged { said, merging } => {
                *said += 1;
                Match::Number(Number { what: NumberKind::Count, pass: number, number: merging.matched() })
            }
            Stage::Size { said, .. } => {
                *said += 1;
                Match::Number(Number { what: NumberKind::Size, pass: number, number: length })
            }
            Stage::Masked { lists, turns } => {
                let due = turns.due(side, PartKind::Masked);
                turns.advance(side, due.1);
                Match::Part(lists.prepare(&place).part(number, due))
            }
            Stage::Doubled { lists, turns } => {
                let due = turns.due(side, PartKind::Doubled);
                turns.advance(side, due.1);
                lists.sorted(pass).map_err(theirs)?;
                Match::Part(lists.theirs.part(number, due))
            }
            Stage::Count { said, lists } => {
                *said += 1;
                Match::Number(Number { what: NumberKind::Count, pass: number, number: lists.theirs.count() })
            }
            Stage::Reveal { lists, turns, .. } => {
                let due = turns.due(side, PartKind::Reveal);
                turns.advance(side, due.1);
                Match::Part(lists.theirs.positions(number, due))
            }
            Stage::Same { turns, before, .. } => {
                let (first, count) = turns.due(side, PartKind::Same);
                turns.advance(side, count);
                let bytes = several::written(&before[first as usize..(first + count) as usize]);
                Match::Part(Part { what: PartKind::Same, pass: number, first, bytes })
            }
            Stage::Common(_) => self.build_common()?,
            Stage::Agree(agreement) => Match::Agree(agreement.build().map_err(no_proof)?),
            Stage::Merge(_) | Stage::Positions(_) | Stage::Closed | Stage::Over | Stage::Moving => {
                return Err(Abort::Bug("a match has nothing to say here".to_owned()));
            }
        };
        self.settle()?;
        Ok(Body::Match(message).into())
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        if let Body::Merged(merged) = body {
            // A party that goes on hears again what it heard before it had work to do.
            self.make_list()?;
            return self.absorb_merged(merged);
        }
        let Body::Match(message) = body else { return Err(Refusal::Kind) };
        match message {
            Match::Draw(draw) if self.several.is_some() => self.absorb_name(draw)?,
            Match::Draw(draw) => {
                let Stage::Draw { said, theirs, .. } = &mut self.stage else { return Err(Refusal::Kind) };
                *said += 1;
                *theirs = draw;
            }
            Match::Terms(theirs) => {
                let Stage::Terms { .. } = self.stage else { return Err(Refusal::Kind) };
                self.check_terms(&theirs)?;
                if let Stage::Terms { said, .. } = &mut self.stage {
                    *said += 1;
                }
            }
            Match::Number(number) => self.absorb_number(number)?,
            Match::Part(part) => self.absorb_part(part)?,
            Match::Agree(proof) => {
                let Stage::Agree(agreement) = &mut self.stage else { return Err(Refusal::Kind) };
                let agreed = agreement.absorb(proof);
                agreed.map_err(|expected| self.no_proof(expected))?;
                self.requests.clear();
            }
        }
        self.settle()?;
        if let Stage::Closed = self.stage {
            return Err(self.closed().into());
        }
        // The driver works only behind what this party says, and the coordinator is next.
        self.make_list()?;
        Ok(())
    }

    fn finish(&mut self) -> Result<Matched, Abort> {
        let order = match &self.several {
            None => std::mem::take(&mut self.order),
            Some(several) => several.common.iter().map(|[_, record]| *record).collect(),
        };
        Ok(Matched {
            run: self.run,
            order,
            tags: std::mem::take(&mut self.tags),
            draw: self.several.as_ref().and_then(|several| several.draw),
            passes: self.passes.clone(),
        })
    }

    fn request(&mut self, heard: u64) -> Option<Request> {
        let mut request = self.requests.pop_front()?;
        if let Request::List { known, .. } = &mut request {
            known.messages = heard;
        }
        Some(request)
    }

    /// Nothing leaves before a whole list is masked and sorted.
    fn allowance(&self) -> Duration {
        let computed = self
            .computed()
            .map_or(0, |(lists, _)| lists.sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)));
        // The leader computes for all pairs, and goes on once all have come as far.
        let entries = self.several.as_ref().map_or(computed, |several| several.entries.saturating_mul(several.pairs));
        Duration::from_micros(entries.saturating_mul(MICROSECONDS))
    }

    /// The group operations, which are all that takes long: so both parties compute at once.
    fn has_work(&self) -> bool {
        self.computed().is_some_and(|(lists, doubles)| match doubles {
            true => !lists.theirs.is_sorted(),
            false => lists.own.is_none() || lists.theirs.is_waiting(),
        })
    }

    fn work(&mut self) -> Result<(), Abort> {
        self.make_list()?;
        let (pass, side, peer) = (self.pass, self.side(), self.peer);
        let place = Place { inputs: &self.inputs, secret: &self.secret, run: &self.run, pass, side };
        let done = match &mut self.stage {
            Stage::Masked { lists, .. } => {
                lists.prepare(&place);
                lists.tags(pass)
            }
            Stage::Doubled { lists, .. } => lists.sorted(pass),
            Stage::Closed => return Err(self.closed()),
            Stage::Terms { .. }
            | Stage::Draw { .. }
            | Stage::Size { .. }
            | Stage::Merge(_)
            | Stage::Merged { .. }
            | Stage::Positions(_)
            | Stage::Count { .. }
            | Stage::Reveal { .. }
            | Stage::Same { .. }
            | Stage::Common(_)
            | Stage::Agree(_)
            | Stage::Over
            | Stage::Moving => Ok(()),
        };
        done.map_err(|fault| Abort::Peer { peer, fault })
    }

    fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        match &mut self.inputs.journal {
            Some(journal) => journal.keep(sequence, &journal::record(body)),
            None => Ok(()),
        }
    }

    fn resumes(&self) -> bool {
        self.inputs.journal.as_ref().is_some_and(|journal| journal.has_begun())
    }

    fn recall(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        journal::recalled(&mut self.inputs.journal, sequence)
    }

    fn keep_answer(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        self.keep(journal::ANSWERS | sequence, body)
    }

    fn recall_answer(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        self.recall(journal::ANSWERS | sequence)
    }
}
