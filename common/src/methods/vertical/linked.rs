//! A match by tables of record pairs that both parties have: the same proof of order as of a fit, behind a gate on their number.

use std::sync::Arc;

use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::data::matching::alignment::{MatchPurpose, order_digest};
use crate::data::matching::linked::Linked;
use crate::id::{Digest, Role, RunId};
use crate::session::Abort;
use crate::study::{Study, Vertical};

use super::agree::{Agreement, Compared, Part};
use super::matching::Journal;
use super::matching::journal::{recalled, record};
use super::message::Body;

/// What a match found, as its session ends with it.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkedRows {
    /// Own record numbers in shared order.
    pub records: Vec<u32>,
    /// The digest of that order, equal at both parties.
    pub order: [u8; 32],
}

/// Sizes only: who is in both tables is a fact about persons.
impl std::fmt::Debug for LinkedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkedRows({})", self.records.len())
    }
}

/// What a party brings to a match by a table of pairs.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// As whom.
    pub role: Role,
    /// The study.
    pub study: Arc<Study<Vertical>>,
    /// For which rows.
    pub purpose: MatchPurpose,
    /// The pairs.
    pub linked: Linked,
    /// Fewest pairs that the study and this party's own file allow.
    pub least: u64,
}

impl Pairs {
    /// Refuses too few pairs: before the peer hears of their number.
    ///
    /// # Errors
    /// There are fewer than are asked for.
    pub fn check(&self) -> Result<(), Abort> {
        match self.linked.len() as u64 >= self.least {
            true => Ok(()),
            // Without the number: the sentence goes to the others, too.
            false => {
                Err(Abort::Refused(format!("fewer rows match than the {} that must: nothing was revealed", self.least)))
            }
        }
    }
}

impl Compared for Pairs {
    fn rows(&self) -> u64 {
        self.linked.len() as u64
    }

    fn digest(&self, key: &[u8; 32]) -> Digest {
        Digest(self.linked.digest(key))
    }

    fn differs(&self, _parties: &str) -> String {
        let pairs = self.rows();
        format!("the tables of pairs differ: both have {pairs} pairs, but not the same ones")
    }

    fn counts_differ(&self, own: (Role, u64), peer: (Role, u64)) -> String {
        // Without the numbers: the coordinator hears the sentence.
        let ((role, _), (partner, _)) = (own, peer);
        format!(
            "the tables of pairs differ: {role} and {partner} have other numbers of pairs; both must come from the same linkage"
        )
    }
}

/// One side of a match by tables of pairs.
pub type LinkedSession = Conversation<LinkedScript>;

/// What the sides of such a match say.
pub struct LinkedScript {
    run: RunId,
    agreement: Agreement<Pairs>,
    journal: Option<Box<dyn Journal + Send>>,
}

/// The purpose in a greeting.
pub fn purpose(of: MatchPurpose) -> Purpose {
    match of {
        MatchPurpose::Fit => Purpose::MatchFit,
        MatchPurpose::Predict => Purpose::MatchPredict,
    }
}

impl LinkedSession {
    /// A session over a table of pairs. A party that is to go on after it was killed gives the same run and seed again and hands over what
    /// it heard: then every message has the same bytes as before.
    ///
    /// # Errors
    /// As [`Pairs::check`].
    pub fn new(
        pairs: Pairs,
        journal: Option<Box<dyn Journal + Send>>,
        opening: &Opening,
    ) -> Result<LinkedSession, Abort> {
        pairs.check()?;
        let (role, study, purpose) = (pairs.role, Arc::clone(&pairs.study), purpose(pairs.purpose));
        let key = Digest::of(&[b"pairs".as_slice(), opening.seed.as_slice()].concat()).0;
        let agreement = Agreement::new(pairs, role, opening, key, &[Part::Rows]);
        let script = LinkedScript { run: opening.run, agreement, journal };
        Ok(Conversation::open(role, purpose, &study, opening, script))
    }
}

impl Script for LinkedScript {
    type Body = Body;
    type Output = LinkedRows;

    fn step(&self) -> Option<Step> {
        self.agreement.step()
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        Ok(self.agreement.build()?.into())
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        let study = Arc::clone(&self.agreement.table.study);
        self.agreement.absorb(&study, body).map(drop)
    }

    fn finish(&mut self) -> Result<LinkedRows, Abort> {
        let linked = &self.agreement.table.linked;
        let order = order_digest(self.run, &[&linked.tags(self.run)]);
        Ok(LinkedRows { records: linked.records().to_vec(), order })
    }

    fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        match &mut self.journal {
            Some(journal) => journal.keep(sequence, &record(body)),
            None => Ok(()),
        }
    }

    fn resumes(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has_begun())
    }

    fn recall(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        recalled(&mut self.journal, sequence)
    }
}
