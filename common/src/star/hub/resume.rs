//! A hub that goes on where an earlier process of it was ended: the records that were kept, given back in order.

use super::{Act, Hub, Position, Record};

impl Hub {
    /// Takes a record of an earlier process back in.
    ///
    /// # Errors
    /// The record does not fit the study.
    pub fn resume(&mut self, record: Record) -> Result<(), String> {
        let unknown = |site: &str| format!("the state names `{site}`, which is no worker of this study");
        let named = match &record {
            Record::Contribution { site, .. }
            | Record::Rejected { site, .. }
            | Record::Complete { site, .. }
            | Record::Left { site, .. }
            | Record::Told { site } => Some(site),
            Record::Snapshot(_) | Record::Opened | Record::Round | Record::Over { .. } => None,
        };
        if let Some(site) = named
            && !self.sites.contains_key(site)
        {
            return Err(unknown(site));
        }
        // Nothing comes unasked, also where the record that says so is not among them.
        self.asked |= matches!(
            record,
            Record::Contribution { .. }
                | Record::Snapshot(_)
                | Record::Complete { .. }
                | Record::Opened
                | Record::Round
        );
        match record {
            Record::Contribution { site, number, body } => {
                self.method.take(&site, number, &body)?;
                self.advance(&site, number, &body);
            }
            Record::Snapshot(snapshot) => {
                self.method.restore(&snapshot.method)?;
                for (name, position) in snapshot.sites {
                    let site = self.sites.get_mut(&name).ok_or_else(|| unknown(&name))?;
                    site.joined |= position != Position::default();
                    site.position = position;
                }
                (self.rejections.named, self.rejections.repeated) = (snapshot.rejected, snapshot.repeated);
            }
            Record::Rejected { site, number, reason } => {
                self.reject(&site, number, reason);
            }
            Record::Complete { site, contributions } => {
                if let Some(site) = self.sites.get_mut(&site) {
                    site.joined = true;
                    site.position.total = Some(contributions);
                }
            }
            Record::Left { site, exit, sentence } => {
                if let Some(site) = self.sites.get_mut(&site) {
                    site.joined = true;
                    site.position.left = Some((exit.code(), sentence));
                }
            }
            Record::Round => {
                self.held = false;
                self.close_round();
            }
            Record::Opened => {}
            Record::Over { reason } => {
                self.finish(reason);
            }
            Record::Told { site } => {
                if let Some(site) = self.sites.get_mut(&site) {
                    site.done = true;
                }
            }
        }
        Ok(())
    }

    /// Goes on after the last record of an earlier process: what that one had all of, and did not live to close, is closed.
    pub fn go_on(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        self.settle(&mut acts);
        acts
    }
}
