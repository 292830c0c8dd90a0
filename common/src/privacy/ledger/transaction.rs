//! One change of a ledger, made while nobody else can: what is read and checked in it is what it is charged on.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::persons::is_anyone;
use super::state::{self, Entry, Run, State};
use super::{
    Anchor, LedgerError, PersonDigests, Record, Storage, end_of, hexadecimal, persons_blob, plain_blob, received_blob,
    sent_blob,
};
use crate::privacy::accountant::add_charge;
use crate::privacy::mechanism::ReleasePlan;

/// A change under way; what it appends counts once the storage has committed it.
pub(super) struct Transaction<'a, S> {
    pub(super) storage: &'a mut S,
    pub(super) state: &'a mut State,
    pub(super) hashes: &'a mut Vec<[u8; 32]>,
}

impl<S: Storage> Transaction<'_, S> {
    pub(super) fn end(&self) -> Anchor {
        end_of(self.hashes)
    }

    pub(super) fn append(&mut self, entry: Entry) -> Result<(), LedgerError> {
        let sequence = self.end().sequence + 1;
        let body = serde_json::to_string(&entry).map_err(|_| LedgerError::Broken { sequence })?;
        let record = Record::link(&self.end(), self.storage.now(), body);
        self.state.apply(entry).ok_or(LedgerError::Broken { sequence })?;
        self.storage.append(&record)?;
        self.hashes.push(record.hash);
        Ok(())
    }

    /// Checks every stored byte; the records were checked when they were read.
    pub(super) fn check_bytes(&mut self) -> Result<(), LedgerError> {
        self.storage.check()?;
        let mut expected: Vec<(String, String)> = Vec::new();
        for account in self.state.accounts.values() {
            let digests = [Some(&account.persons_digest), account.read_otherwise.as_ref()];
            for digest in digests.into_iter().flatten() {
                let first = account.read_otherwise.as_ref().is_none_or(|first| first == digest);
                expected.push((persons_blob(&account.data_set, first), digest.clone()));
            }
        }
        let tables = self.state.openings.values().flat_map(state::Openings::names);
        for digest in self.state.plain_runs.values().flatten().chain(tables) {
            if !is_anyone(digest) && !expected.iter().any(|(_, known)| known == digest) {
                expected.push((plain_blob(digest), digest.clone()));
            }
        }
        for (run, known) in &self.state.runs {
            expected.extend(known.stored.iter().map(|(&index, (_, digest))| (sent_blob(run, index), digest.clone())));
            expected.extend(known.received.iter().map(|(&index, digest)| (received_blob(run, index), digest.clone())));
        }
        expected.iter().try_for_each(|(name, digest)| self.checked_blob(name, digest).map(drop))
    }

    /// Keeps a message of the peer; a repeat must be equal.
    pub(super) fn keep(&mut self, run: &str, index: u32, bytes: &[u8]) -> Result<(), LedgerError> {
        let bytes_digest = hexadecimal(&Sha256::digest(bytes));
        if let Some(before) = self.open_run(run)?.received.get(&index) {
            return match *before == bytes_digest {
                true => Ok(()),
                false => Err(LedgerError::Differs { run: run.to_owned(), index }),
            };
        }
        self.storage.put_blob(&received_blob(run, index), bytes)?;
        self.append(Entry::Received { run: run.to_owned(), index, bytes_digest })
    }

    /// Where a data set was registered by an earlier version, which took `007` and `7` for two persons: its persons are from
    /// here on those of the numbers' values, and what they share with other data sets is looked up again.
    pub(super) fn read_ids_by_value(&mut self, data_set: &str, persons: &PersonDigests) -> Result<(), LedgerError> {
        let Some(account) = self.state.accounts.get(data_set) else { return Ok(()) };
        if account.persons_digest == persons.digest() || self.state.same_data(data_set, persons).is_err() {
            return Ok(());
        }
        self.storage.put_blob(&persons_blob(data_set, false), &persons.bytes())?;
        let (data_set, persons_digest) = (data_set.to_owned(), persons.digest());
        self.append(Entry::Persons { data_set: data_set.clone(), persons_digest })?;
        for other in self.sharing(persons)? {
            let known = self.state.affected(&data_set).is_some_and(|names| names.contains(&other));
            if !known {
                self.append(Entry::Linked { data_sets: [data_set.clone(), other] })?;
            }
        }
        Ok(())
    }

    pub(super) fn run(&self, run: &str) -> Result<&Run, LedgerError> {
        self.state.runs.get(run).ok_or_else(|| LedgerError::UnknownRun { run: run.to_owned() })
    }

    /// A run that may go on.
    pub(super) fn open_run(&self, run: &str) -> Result<&Run, LedgerError> {
        match self.run(run)? {
            known if known.withdrawn => Err(LedgerError::Withdrawn { run: run.to_owned() }),
            known => Ok(known),
        }
    }

    /// The charge of a plan, if the data set and all that share persons with it have it left.
    pub(super) fn affordable(
        &mut self,
        data_set: &str,
        persons: &PersonDigests,
        plan: &ReleasePlan,
    ) -> Result<f64, LedgerError> {
        self.check_bytes()?;
        let charge = plan.charge_of(self.state.same_data(data_set, persons)?);
        let shares = plan.releases().iter().all(|release| release.mu > 0.0 && release.mu.is_finite());
        if !(shares && charge > 0.0 && charge.is_finite()) {
            return Err(LedgerError::Charge { charge });
        }
        for name in self.state.affected(data_set).into_iter().flatten() {
            if let Some(account) = self.state.accounts.get(&name)
                && add_charge(account.sum, charge) > account.cap
                // A first charge is not a sum, so it need not be rounded up to be compared.
                && !(account.sum == 0.0 && charge <= account.cap)
            {
                return Err(LedgerError::Overspent {
                    of_run: data_set.to_owned(),
                    data_set: name,
                    needed: charge,
                    left: account.left(),
                    cap: account.cap,
                });
            }
        }
        Ok(charge)
    }

    /// The data sets with one of these persons, under whichever pseudonym.
    pub(super) fn sharing(&mut self, persons: &PersonDigests) -> Result<Vec<String>, LedgerError> {
        let known: Vec<(String, String, bool)> = self
            .state
            .accounts
            .values()
            .map(|account| (account.data_set.clone(), account.persons_digest.clone(), account.read_otherwise.is_none()))
            .collect();
        let mut sharing = BTreeSet::new();
        for (name, digest, first) in known {
            if persons.shares_any(&self.checked_blob(&persons_blob(&name, first), &digest)?) {
                sharing.insert(name);
            }
        }
        Ok(self.state.with_linked(sharing).into_iter().collect())
    }

    /// The plain runs that showed one of these persons.
    pub(super) fn plain_runs_of(&mut self, persons: &PersonDigests) -> Result<Vec<String>, LedgerError> {
        let (mut found, mut seen) = (Vec::new(), BTreeMap::new());
        for (run, digest) in self.state.plain_runs.clone() {
            // Runs recorded by earlier versions belong to data sets, whose persons are compared as such.
            let Some(digest) = digest else { continue };
            let shared = match seen.get(&digest) {
                Some(&known) => known,
                None if persons.are_anyone() || is_anyone(&digest) => true,
                None => persons.shares_any(&self.blob_of_persons(&digest)?),
            };
            seen.insert(digest, shared);
            if shared {
                found.push(run);
            }
        }
        Ok(found)
    }

    /// The digests of persons that are kept, with a data set or apart.
    pub(super) fn blob_of_persons(&mut self, digest: &str) -> Result<Vec<u8>, LedgerError> {
        let name = match self.state.data_set_of(digest) {
            Some((data_set, first)) => persons_blob(data_set, first),
            None => plain_blob(digest),
        };
        self.checked_blob(&name, digest)
    }

    pub(super) fn checked_blob(&mut self, name: &str, digest: &str) -> Result<Vec<u8>, LedgerError> {
        match self.storage.blob(name)? {
            Some(bytes) if hexadecimal(&Sha256::digest(&bytes)) == digest => Ok(bytes),
            _ => Err(LedgerError::Changed { name: name.to_owned() }),
        }
    }
}
