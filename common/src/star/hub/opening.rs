//! When a run opens: a study in rounds, and every private study, is held until the quorum is ready. What is asked of a site costs it
//! budget, and below the quorum nothing would come of it.

use super::{Act, Hub, NAMED, Record, Site};
use crate::star::message::ToSite;
use crate::star::method::{Method, Pace};
use crate::study::{Guarantee, Sites, Study};

/// Whether a run waits for its quorum before anything is asked.
pub(super) fn waits(study: &Study<Sites>, method: &dyn Method) -> bool {
    match study.guarantee {
        Guarantee::Plain => method.pace() == Pace::Rounds,
        Guarantee::Private(_) => true,
    }
}

impl Site {
    /// Whether it counts for the opening. A site that has contributed does, also where an earlier process of the hub opened the run.
    pub(super) fn counts(&self) -> bool {
        let here = self.joined && self.ready && self.line.is_some();
        self.position.left.is_none() && (here || self.position.next > 0)
    }
}

impl Hub {
    /// Whether the run is held: nothing is asked of anybody, or nothing more, before the quorum is ready.
    pub fn held(&self) -> bool {
        self.held
    }

    /// Sites for which a held run waits although its quorum is ready: no round is closed without those who have not left.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let waits = self.held && self.over.is_none() && self.method.pace() == Pace::Rounds && self.has_quorum();
        self.sites
            .iter()
            .filter(move |(_, site)| waits && site.position.left.is_none() && !site.counts())
            .map(|(name, _)| name.as_str())
    }

    /// Opens the run if it can be.
    pub(super) fn open_run(&mut self, acts: &mut Vec<Act>) {
        if !self.held || self.over.is_some() || !self.has_quorum() || self.missing().next().is_some() {
            return;
        }
        self.held = false;
        // What is in no snapshot yet must not be told as kept.
        acts.extend(self.keep());
        if !std::mem::replace(&mut self.asked, true) {
            acts.push(Act::Store(Record::Opened));
        }
        for site in self.sites.values().filter(|site| site.joined) {
            if let Some(line) = site.line {
                acts.push(Act::Say(line, self.welcome(site)));
            }
        }
        acts.extend(self.publish());
    }

    /// What a site is told that has joined. After the end there is nothing that it should begin with.
    pub(super) fn welcome(&self, site: &Site) -> ToSite {
        let held = self.held || self.over.is_some();
        ToSite::Welcome { differing: Vec::new(), run: self.run, next: site.position.next, held }
    }

    /// Who was ready when the run ended before it was opened.
    pub(super) fn never_opened(&self) -> String {
        let ready = self.sites.iter().filter(|(_, site)| site.counts()).map(|(name, _)| name.as_str());
        let ready: Vec<&str> = ready.take(NAMED).collect();
        let quorum = self.study.quorum();
        let who = match (ready.is_empty(), self.has_quorum()) {
            (true, _) => format!("the quorum of {quorum} workers was not reached: nobody was ready"),
            (_, false) => format!("the quorum of {quorum} workers was not reached: only {} ready", were(&ready)),
            (_, true) => {
                format!("the run was not opened: {} ready, and not all others had been given up", were(&ready))
            }
        };
        format!("{who}; nothing was asked of anybody")
    }

    fn has_quorum(&self) -> bool {
        self.sites.values().filter(|site| site.counts()).count() >= self.study.quorum()
    }
}

fn were(names: &[&str]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "was" } else { "were" })
}
