//! What is the same in every protocol between two parties with keys: who takes part, how long lists may be, and what is held in the end.

use sha2::{Digest as _, Sha256};

use super::message::Terms;
use super::{MatchScript, lists};
use crate::conversation::Refusal;
use crate::data::matching::{Eligible, NORMALISER, unicode};
use crate::id::{Digest, Role};
use crate::session::{Abort, PeerFault};

impl MatchScript {
    /// Which own records take part in the present pass.
    pub(super) fn eligible(&self) -> Result<Eligible, Abort> {
        let pass = &self.inputs.rules.keys.passes()[self.pass];
        self.allowed(self.inputs.records.eligible(pass, &self.matched))
    }

    /// Refuses more records than a list may have.
    pub(super) fn allowed(&self, eligible: Eligible) -> Result<Eligible, Abort> {
        let rules = &self.inputs.rules;
        let pass = &rules.keys.passes()[self.pass];
        let length = self.length(self.role, eligible.counts.eligible);
        let refused = match &rules.capacity {
            Some(_) if eligible.counts.eligible > length => "match.capacity",
            _ if length > rules.max_rows.of(self.role).min(u64::from(lists::NO_RECORD)) => "match.max_rows",
            _ => return Ok(eligible),
        };
        Err(Abort::Refused(format!("{} has more records in pass `{}` than `{refused}` allows", self.role, pass.name)))
    }

    /// The length of a party's list of this number of records.
    pub(super) fn length(&self, role: Role, records: u64) -> u64 {
        match &self.inputs.rules.capacity {
            Some(capacity) => capacity.of(role).saturating_sub(self.order.len() as u64),
            None => records,
        }
    }

    /// Checks the length of the peer's list, before anything of the own one leaves.
    pub(super) fn check_size(&self, came: u64) -> Result<(), Refusal> {
        let (peer, rules) = (self.peer, &self.inputs.rules);
        let policy = self.inputs.policy.max_peer_rows.unwrap_or(u64::MAX);
        let most = rules.max_rows.of(peer).min(u64::from(lists::NO_RECORD));
        if came > most.min(policy) {
            let limit = if policy < most { "max_peer_rows" } else { "match.max_rows" };
            let who = if policy < most { self.role } else { peer };
            return Err(Abort::Refused(format!("{peer} has a longer list than `{limit}` of {who} allows")).into());
        }
        match rules.capacity.is_some() && came != self.length(peer, came) {
            true => {
                let expected = self.length(peer, came);
                Err(PeerFault::Length { what: "padded keys", came, expected }.into())
            }
            false => Ok(()),
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms { normaliser: NORMALISER, unicode: unicode(), min_matched: self.min_matched }
    }

    pub(super) fn check_terms(&mut self, theirs: &Terms) -> Result<(), Refusal> {
        let own = self.terms();
        if (theirs.normaliser, theirs.unicode) != (own.normaliser, own.unicode) {
            let shown = |terms: &Terms| {
                let version = |packed: u32| format!("{}.{}.{}", packed >> 16, packed >> 8 & 255, packed & 255);
                format!("rules {} and Unicode {}", terms.normaliser, terms.unicode.map(version).join(", "))
            };
            let (role, peer) = (self.role, self.peer);
            return Err(Abort::Refused(format!(
                "{role} normalises keys by {} and {peer} by {}: use the same release on both sides",
                shown(&own),
                shown(theirs)
            ))
            .into());
        }
        self.min_matched = self.min_matched.max(theirs.min_matched);
        Ok(())
    }

    pub(super) fn closed(&self) -> Abort {
        let pass = &self.inputs.rules.keys.passes()[0].name;
        Abort::Refused(format!(
            "fewer records match in pass `{pass}` than `min_matched` of the study or of a party asks for; nothing was revealed"
        ))
    }

    /// What this party holds, in the order that both share: SHA-256 over the number of matches and their keys.
    pub(super) fn held(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(field_length(HELD.len()));
        hash.update(HELD);
        hash.update(field_length(size_of::<u64>()));
        let common = self.several.as_ref().map_or(&[][..], |several| &several.common);
        let held = if self.several.is_some() { common.len() } else { self.order.len() };
        hash.update((held as u64).to_le_bytes());
        let mut rest = self.order.as_slice();
        for (pass, counts) in self.passes.iter().enumerate().filter(|_| self.several.is_none()) {
            let (records, later) = rest.split_at((counts.matched() as usize).min(rest.len()));
            rest = later;
            self.hash_keys(pass, records, &mut hash);
        }
        // Of several parties the passes stand among each other.
        for run in common.chunk_by(|one, next| one[0] == next[0]) {
            let records: Vec<u32> = run.iter().map(|[_, record]| *record).collect();
            self.hash_keys(run[0][0] as usize, &records, &mut hash);
        }
        Digest(hash.finalize().into())
    }

    /// Adds the keys of a pass to what is held.
    fn hash_keys(&self, pass: usize, records: &[u32], hash: &mut Sha256) {
        let Some(pass) = self.inputs.rules.keys.passes().get(pass) else { return };
        let messages = self.inputs.records.messages(pass, &self.inputs.match_digest);
        let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
        // The records stand anywhere in memory: those of a batch are looked up beside each other.
        for records in records.chunks(BATCH) {
            lengths.clear();
            lengths.extend(records.iter().map(|record| messages.length(*record)));
            bytes.clear();
            for (record, length) in records.iter().zip(&lengths) {
                bytes.extend_from_slice(&field_length(*length));
                messages.write(*record, &mut bytes);
            }
            hash.update(&bytes);
        }
    }
}

const HELD: &[u8] = b"fedreg match order";
/// Records whose keys are hashed at a time.
const BATCH: usize = 512;

/// What stands before a field.
fn field_length(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_le_bytes()
}
