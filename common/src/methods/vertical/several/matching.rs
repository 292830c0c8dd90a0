//! A match of several parties, as its leader sees it: with each of the others that of two parties, and no pair goes further than all.
//!
//! No follower is asked to reveal anything before every pair's gate is open, no follower is told which of its records match before
//! there are enough that all have, and none hears the last of the proof before all have proved that they hold the same. What a pair
//! says is in [`matching::several`](super::super::matching::several).

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::conversation::{Content as _, Conversation, Opening, Purpose, Refusal, Said, Script as _};
use crate::id::{Digest, Role, RunId};
use crate::session::Abort;
use crate::study::{Study, Vertical};

use super::super::matching::several::{Hold, Link};
use super::super::matching::{Inputs, Journal, MatchScript, Matched, disclosures};
use super::super::session::Progress;
use super::leg::Leg;
use super::{Advance, Centre, Hub, Line, Lines, refused};
use crate::secure::merging::MergeKey;

/// A match, as its leader sees it.
pub struct MatchCentre {
    role: Role,
    run: RunId,
    secret: Zeroizing<[u8; 32]>,
    purpose: Purpose,
    /// With each follower, in the order of the lines.
    pairs: Vec<MatchScript>,
    /// How far all may go.
    released: Option<Hold>,
    /// The own records that all have, in the order that all share.
    common: Vec<u32>,
}

impl Hub<MatchCentre> {
    /// A match with all other parties of the study, of a command that is [`Purpose::MatchFit`] or [`Purpose::MatchPredict`]. `journals` are
    /// of the lines in their order; without any the leader does not go on after it was killed.
    ///
    /// # Errors
    /// The own records cannot be matched: too many of them, or repeats in the first pass where the study has none.
    pub fn matching(
        (role, purpose): (Role, Purpose),
        study: &Study<Vertical>,
        inputs: &Inputs,
        journals: Vec<Box<dyn Journal + Send>>,
        opening: &Opening,
    ) -> Result<Hub<MatchCentre>, Abort> {
        let pair = |peer: Role| {
            // A scalar of one pair masks nothing of another.
            let seed = Digest::of(&[b"fedreg match pair".as_slice(), &opening.seed, peer.name().as_bytes()].concat()).0;
            let inputs = Inputs {
                rules: Arc::clone(&inputs.rules),
                match_digest: inputs.match_digest,
                policy: inputs.policy,
                records: Arc::clone(&inputs.records),
                first: inputs.first.clone(),
                journal: None,
                coordinated: false,
            };
            MatchScript::new(role, study, inputs, &Opening { first: false, seed, peer, ..opening.clone() })
        };
        let pairs = study.others(role).into_iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let (run, secret) = (opening.run, Zeroizing::new(opening.seed));
        let centre = MatchCentre { role, run, secret, purpose, pairs, released: None, common: Vec::new() };
        let mut journals = journals.into_iter();
        Ok(Hub::of_lines(study, (role, opening.run), centre, |peer| {
            let opening = Opening { first: false, peer, ..opening.clone() };
            let leg = Leg::new(role, peer, "terms of a match").keeping(journals.next());
            Conversation::open_under(role, purpose, study, &opening, disclosures(study), leg)
        }))
    }
}

impl Centre for MatchCentre {
    type Output = Matched;

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn progress(&self) -> Progress {
        let all = self.pairs.iter().map(MatchScript::progress);
        all.min_by_key(|progress| progress.round).unwrap_or_else(Progress::lining_up)
    }

    fn allowance(&self) -> std::time::Duration {
        self.pairs.iter().map(MatchScript::allowance).max().unwrap_or_default()
    }

    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<Matched>, Abort> {
        let mut taken = false;
        for (line, pair) in lines.0.iter_mut().zip(&mut self.pairs) {
            while pair.hold().is_none_or(|hold| Some(hold) <= self.released) && go_on(line, pair)? {
                taken = true;
            }
        }
        let next = match self.released {
            None => Hold::Counts,
            Some(Hold::Counts) => Hold::Links,
            Some(Hold::Links | Hold::Proofs) => Hold::Proofs,
        };
        if self.released != Some(Hold::Proofs) && self.pairs.iter().all(|pair| pair.hold() == Some(next)) {
            match next {
                Hold::Counts => self.check_counts(lines)?,
                Hold::Links => self.tell_common()?,
                Hold::Proofs => {}
            }
            self.released = Some(next);
            return Ok(Advance::Taken);
        }
        if self.pairs.iter().all(|pair| pair.step().is_none()) {
            return Ok(Advance::Over(self.matched()));
        }
        Ok(if taken { Advance::Taken } else { Advance::Waits })
    }
}

/// Takes one step of a pair; tells whether there was one to take.
fn go_on(line: &mut Line, pair: &mut MatchScript) -> Result<bool, Abort> {
    let Some(step) = pair.step() else {
        line.leg().end();
        return Ok(false);
    };
    if step.speaker != line.peer {
        let Said::Declared(body) = pair.build()? else {
            return Err(Abort::Bug("a match released something with noise".to_string()));
        };
        line.leg().say(body);
        return Ok(true);
    }
    let Some(body) = line.leg().take() else {
        line.leg().await_answer(step.expected);
        return Ok(false);
    };
    let came = body.kind();
    match pair.absorb(body) {
        Ok(()) => Ok(true),
        Err(Refusal::Kind) => Err(line.said(came, step.expected)),
        Err(refusal) => Err(refused(line.peer, refusal)),
    }
}

impl MatchCentre {
    /// The gate of every pair, before any of them reveals anything.
    fn check_counts(&self, lines: &Lines) -> Result<(), Abort> {
        match lines.0.iter().zip(&self.pairs).find(|(_, pair)| !pair.is_open()) {
            Some((line, pair)) => Err(Abort::Refused(format!(
                "fewer records of {} and {} match in pass `{}` than `min_matched` of the study or of a party asks for; nothing was \
                 revealed",
                self.role,
                line.peer,
                pair.first_pass()
            ))),
            None => Ok(()),
        }
    }

    /// The gate of the records that all have, and what is told of these.
    fn tell_common(&mut self) -> Result<(), Abort> {
        let mut linked: Vec<Vec<Link>> = self.pairs.iter().map(|pair| pair.links().to_vec()).collect();
        linked.iter_mut().for_each(|links| links.sort_unstable_by_key(|link| link.record));
        let has = |links: &[Link], record: u32| links.binary_search_by_key(&record, |link| link.record).ok();
        let first = linked.first().map_or(&[][..], Vec::as_slice);
        let records = first.iter().map(|link| link.record);
        let common = records.filter(|record| linked.iter().all(|links| has(links, *record).is_some()));
        // Neither the file's order nor a pair's shows in the order that all are told.
        let place = |record: u32| {
            let bytes = [b"fedreg match common".as_slice(), &*self.secret, &self.run.0, &record.to_le_bytes()].concat();
            (Digest::of(&bytes).0, record)
        };
        let mut places: Vec<([u8; 32], u32)> = common.map(place).collect();
        places.sort_unstable();
        let fewest = self.pairs.iter().map(MatchScript::fewest).max().unwrap_or(1);
        if (places.len() as u64) < fewest {
            let leader = self.role;
            return Err(Abort::Refused(format!(
                "fewer records match at all parties than `min_matched` of the study or of a party asks for; nobody but {leader} learnt \
                 which of its records match"
            )));
        }
        let draw = MergeKey::draw(&self.secret, &self.run);
        for (pair, links) in self.pairs.iter_mut().zip(&linked) {
            let told: Vec<Link> = places.iter().filter_map(|(_, record)| Some(links[has(links, *record)?])).collect();
            pair.tell(draw, &told);
        }
        self.common = places.into_iter().map(|(_, record)| record).collect();
        Ok(())
    }

    fn matched(&mut self) -> Matched {
        Matched {
            run: self.run,
            order: std::mem::take(&mut self.common),
            tags: Vec::new(),
            draw: Some(MergeKey::draw(&self.secret, &self.run)),
            passes: self.pairs.iter().flat_map(MatchScript::counts_with).collect(),
        }
    }
}
