//! What a hub does not accept, what came again, and who is out of the run.

use std::collections::BTreeMap;

use super::{Act, Hub, Line, NAMED, Record};
use crate::exit::Exit;
use crate::fit::{BatchName, Rejection};
use crate::star::message::ToSite;

/// Repeats that the report names.
const REPEATS: usize = 1000;

/// What was not accepted, as far as the report names it.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    /// Contributions, at most [`NAMED`] of each site.
    pub(super) named: Vec<Rejection>,
    /// In what the study file of a site differed when it last came with another one. Not kept beyond the process: with the right file
    /// the site may come back.
    differing: BTreeMap<String, String>,
    /// What came again.
    pub(super) repeated: Vec<BatchName>,
}

impl Rejections {
    /// All that the report names.
    pub(super) fn all(&self) -> Vec<Rejection> {
        let differing = self
            .differing
            .iter()
            .map(|(site, keys)| Rejection { from: site.clone(), reason: format!("its study file differs in: {keys}") });
        differing.chain(self.named.iter().cloned()).collect()
    }

    /// A site came with a study file that differs in these keys.
    pub(super) fn differs(&mut self, site: &str, keys: &[String]) {
        let named = keys.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let keys = match keys.len().saturating_sub(NAMED) {
            0 => named,
            more => format!("{named}, and {more} more"),
        };
        self.differing.insert(site.to_string(), keys);
    }

    /// A contribution came again.
    pub(super) fn repeats(&mut self, batch: BatchName) {
        if self.repeated.len() < REPEATS && !self.repeated.contains(&batch) {
            self.repeated.push(batch);
        }
    }
}

impl Hub {
    /// Names something that is not accepted; with a number, the number is used up.
    pub(super) fn reject(&mut self, name: &str, number: Option<u64>, reason: String) {
        let Some(site) = self.sites.get_mut(name) else { return };
        site.joined = true;
        site.position.rejected = site.position.rejected.saturating_add(1);
        if let Some(number) = number {
            site.position.next = number.saturating_add(1);
            // Whatever comes again under this number says nothing new.
            site.position.remember(String::new());
        }
        if site.position.rejected <= NAMED as u64 {
            let from = number.map_or(name.to_string(), |number| format!("{name}, contribution {number}"));
            self.rejections.named.push(Rejection { from, reason });
        }
    }

    /// Rejects without using a number up.
    pub(super) fn refuse(&mut self, line: Line, name: &str, number: Option<u64>, reason: &str, acts: &mut Vec<Act>) {
        acts.extend(self.keep());
        let named = self.sites.get(name).is_some_and(|site| site.position.rejected < NAMED as u64);
        self.reject(name, None, reason.to_string());
        if named {
            let record = Record::Rejected { site: name.to_string(), number: None, reason: reason.to_string() };
            acts.push(Act::Store(record));
        }
        let number = number.unwrap_or(u64::MAX);
        acts.push(Act::Say(line, ToSite::Rejected { number, reason: reason.to_string() }));
    }

    /// A site is out of the run.
    pub(super) fn leave(&mut self, name: &str, exit: Exit, sentence: String, acts: &mut Vec<Act>) {
        acts.extend(self.keep());
        if let Some(site) = self.sites.get_mut(name)
            && site.position.left.is_none()
        {
            site.position.left = Some((exit.code(), sentence.clone()));
            acts.push(Act::Store(Record::Left { site: name.to_string(), exit, sentence }));
        }
    }
}
