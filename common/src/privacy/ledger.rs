//! What was ever spent on a data set, on disk before it is used.
//!
//! A ledger is an append-only chain of records, each with the hash of the one before. One capped sum is kept per data
//! set over all peers together, because peers talk to each other and results get published; sums per peer are a view.
//! The whole protocol's budget is reserved up front, and releases consume it. A release takes three steps: a [`Permit`] is
//! handed out, the noised bytes are stored together with the receipt that marks that part of the reservation as used, in
//! one synced transaction of one file, and only then the bytes may be sent. A repeat and a restarted process get the
//! stored bytes. Of a process that died before they were stored nothing has left: what it had drawn is gone with it, and
//! drawing again under the same reservation shows nobody a second noise.
//!
//! A charge on one data set is also a charge on every data set that shares a person with it, and a new data set starts
//! at the largest sum among those. So no person's total is ever above the sum of any data set it is in. Persons are
//! compared by keyed digests; a person under two pseudonyms is two persons here, and nothing can detect that.
//!
//! # A run of which nothing was stored
//!
//! Such a run can be *withdrawn*: a record ends it, and its charge counts no longer. This is sound because what a process of a
//! private run says is of two kinds. What it says without noise (the study's digest, numbers of rows, digests of identifiers,
//! budgets, readiness) is what it says in a run that ends before the reservation; it is not covered by the budget, and such a run is
//! never charged. All else is made of noised releases, and only [`Ledger::store`] and [`Grant::Stored`] hand out a release that
//! can be sent. The records of a stream are noised under a stored release too
//! ([`PerRecord`](super::mechanism::records::PerRecord)): none of them exists where nothing is stored. So of a run without a stored
//! release the others have seen that the process contacted them, which is public, and nothing that depends on the values of the
//! rows. Two neighbouring tables give them the same: the run loses no privacy at any epsilon, and the sum over all other runs is
//! what bounds the loss.
//!
//! Nor can it release anything later. The withdrawal and the storing of a release are transactions of one file, and one of them is
//! first: behind the storing the withdrawal does not apply, and behind the withdrawal no release of the run is stored, permits that
//! another process still holds included. A record of the one kind behind one of the other makes a chain that is refused. A release
//! that is stored may have left, and nothing on this disk can tell whether it has: its run stays charged in full.
//!
//! Withdrawn are, in the transaction that reserves a new run, the unfinished runs of the same study on the same data set of which
//! nothing is stored, and a run that is over with nothing stored ([`Ledger::finish`]). Sums are computed anew without it, so that data
//! sets that share persons with its data set, inherited from it or were linked to it are what they would be had it never been charged.
//!
//! # The cap
//!
//! The guarantee is the cap. The running sum is bookkeeping and no guarantee of its own, because later charges may depend on
//! earlier results.
//!
//! # The filter of a stream
//!
//! The ledger charges a stream once, and what each person has spent of that charge is counted elsewhere. [`Ledger::filter`] puts
//! checkpoints of that account into the chain: how many messages it has counted, a word that only the account at that message has,
//! and the most that one person has spent. An account that does not have the last word is refused by its holder, and of two copies
//! of one account the second that comes to a checkpoint is refused here.
//!
//! # What is detected
//!
//! A record that was changed or removed in the middle breaks the chain. A chain that was cut at the end, replaced or
//! deleted disagrees with the *anchor*, the last record's number and hash, which the storage keeps somewhere else. Who
//! changes both consistently is not detected: a party's own administrators are outside the definition.

mod error;
mod filter;
mod openings;
mod persons;
mod state;
mod storage;
mod transaction;

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

pub use self::error::LedgerError;
pub use self::filter::Checkpoint;
pub use self::openings::{Before, ColumnSketch, Fewest, Opening, TableRows};
pub use self::persons::{PersonDigester, PersonDigests, canonical_id, keyed};
pub use self::state::{Account, BoundsChange, Unreleased};
use self::state::{Entry, Run, State};
pub use self::storage::{Anchor, Record, Storage, StorageError};
use self::transaction::Transaction;
use crate::privacy::accountant::Budget;
use crate::privacy::mechanism::{
    NoisedRelease, PlannedRelease, Query, Receipt, ReleaseError, ReleasePlan, Unsent, release,
};
use crate::privacy::sampler::NoisePool;

/// A data set as it is registered: what its budget is, for whom, and under which public policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// Name, unique in the ledger.
    pub data_set: String,
    /// Its persons.
    pub persons: PersonDigests,
    /// Its budget, for its lifetime and over all peers.
    pub budget: Budget,
    /// The public bounds of its columns, by name, as the study states them.
    pub bounds: BTreeMap<String, String>,
}

/// A run without privacy: an unbounded charge.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainRun {
    /// Its name.
    pub run: String,
    /// Name of the data at hand; they need not be registered.
    pub data_set: String,
    /// Whom it showed.
    pub persons: PersonDigests,
    /// To whom.
    pub peers: Vec<String>,
    /// Digest of the study.
    pub study: String,
}

/// The right to one release: made by the ledger after the charge is on disk, consumed by
/// [`release`]. It cannot be copied.
///
/// Nobody can make one without a ledger, so no noise is drawn before its charge is on disk:
///
/// ```compile_fail,E0451
/// use fedreg_common::privacy::ledger::Permit;
/// use fedreg_common::privacy::mechanism::PlannedRelease;
/// let planned = PlannedRelease { label: String::new(), mu: 1.0 };
/// let forged = Permit { run: String::new(), index: 0, planned };
/// ```
///
/// ```compile_fail,E0382
/// # use fedreg_common::privacy::ledger::Permit;
/// # use fedreg_common::privacy::mechanism::{Query, release};
/// # use fedreg_common::privacy::sampler::NoisePool;
/// fn twice(query: &Query, permit: Permit, pool: &mut NoisePool) {
///     let _ = (release(query, permit, pool), release(query, permit, pool));
/// }
/// ```
#[derive(Debug)]
pub struct Permit {
    run: String,
    index: u32,
    planned: PlannedRelease,
}

impl Permit {
    // For the ledger alone: no other module can reach this.
    fn new(run: String, index: u32, planned: PlannedRelease) -> Permit {
        Permit { run, index, planned }
    }

    /// Of no reservation; exists in this crate's own tests and nowhere else.
    #[cfg(test)]
    pub(crate) fn unreserved(run: &str, index: u32, planned: PlannedRelease) -> Permit {
        Permit::new(run.to_owned(), index, planned)
    }

    /// The run, the position in its plan and what is planned there.
    pub(in crate::privacy) fn spend(self) -> (String, u32, PlannedRelease) {
        (self.run, self.index, self.planned)
    }
}

/// The answer to a request for a release.
#[derive(Debug)]
pub enum Grant {
    /// It was not made yet: here is the right to make it.
    Fresh(Permit),
    /// It was made before: here it is again, bit by bit.
    Stored(NoisedRelease),
}

/// The chain with its storage.
#[derive(Debug)]
pub struct Ledger<S> {
    storage: S,
    state: State,
    hashes: Vec<[u8; 32]>,
}

impl<S: Storage> Ledger<S> {
    /// Where the chain is kept.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Starts a new chain.
    ///
    /// # Errors
    ///
    /// There is a chain already, or there was one and its anchor is still there.
    pub fn create(storage: S) -> Result<Ledger<S>, LedgerError> {
        let mut ledger = Ledger { storage, state: State::default(), hashes: Vec::new() };
        ledger.transact(|transaction| {
            let records = transaction.end().sequence;
            if records > 0 {
                return Err(LedgerError::Exists { records });
            }
            let key_digest = hexadecimal(&Sha256::digest(transaction.storage.key()?));
            transaction.append(Entry::Opened { key_digest })
        })?;
        Ok(ledger)
    }

    /// Opens a chain and checks every link and the anchor.
    ///
    /// # Errors
    ///
    /// A broken chain, a rollback, or no chain.
    pub fn open(storage: S) -> Result<Ledger<S>, LedgerError> {
        let mut ledger = Ledger { storage, state: State::default(), hashes: Vec::new() };
        ledger.transact(|transaction| {
            let key_digest = hexadecimal(&Sha256::digest(transaction.storage.key()?));
            match &transaction.state.key_digest {
                Some(known) if *known == key_digest => Ok(()),
                None if transaction.end().sequence == 0 => Err(LedgerError::NotStarted),
                // A chain that does not begin with its opening, or another ledger's key.
                _ => Err(LedgerError::Broken { sequence: 1 }),
            }
        })?;
        Ok(ledger)
    }

    /// The key of the person digests.
    ///
    /// # Errors
    ///
    /// The key cannot be read.
    pub fn key(&mut self) -> Result<[u8; 32], LedgerError> {
        Ok(self.storage.key()?)
    }

    /// Registers a data set. It inherits the largest sum of the data sets with which it shares a person, and the plain runs that
    /// showed one of its persons.
    ///
    /// # Errors
    ///
    /// The name is taken, or exactly these persons are registered under another name.
    pub fn register(&mut self, registration: &Registration) -> Result<Account, LedgerError> {
        let Registration { data_set, persons, budget, bounds } = registration;
        self.transact(|transaction| {
            if transaction.state.accounts.contains_key(data_set) {
                return Err(LedgerError::NameTaken { data_set: data_set.clone() });
            }
            let persons_digest = persons.digest();
            let same = transaction.state.accounts.values().find(|account| persons.are(&account.persons_digest));
            if let Some(account) = same {
                return Err(LedgerError::SamePersons { existing: account.data_set.clone() });
            }
            let shares_with = transaction.sharing(persons)?;
            let plain_runs = transaction.plain_runs_of(persons)?;
            transaction.storage.put_blob(&persons_blob(data_set, true), &persons.bytes())?;
            transaction.append(Entry::Registered {
                data_set: data_set.clone(),
                persons: persons.count(),
                persons_digest,
                rows: persons.rows(),
                rows_per_person: persons.rows_per_person(),
                epsilon: budget.epsilon(),
                delta: budget.delta(),
                accountant: budget.accountant(),
                cap: budget.cap(),
                bounds: bounds.clone(),
                shares_with,
                plain_runs,
            })
        })?;
        self.account(data_set)
    }

    /// Reserves the budget of a whole protocol. When this returns the charge is on disk, and no crash undoes it. Unfinished runs of
    /// the same study (the first word of `study`) on the data set of which nothing was stored are withdrawn in the same transaction.
    ///
    /// # Errors
    ///
    /// Other persons than registered, a run of that name, or a sum that would pass the cap of this data set or of one
    /// that shares persons with it.
    pub fn reserve(
        &mut self,
        run: &str,
        data_set: &str,
        persons: &PersonDigests,
        peers: &[String],
        study: &str,
        plan: &ReleasePlan,
    ) -> Result<(), LedgerError> {
        self.reserve_with(run, data_set, persons, peers, study, plan, &[])
    }

    /// Reserves, and keeps what the peer has sent so far in the same transaction: no crash leaves a run that is charged and
    /// lacks what it needs to go on.
    ///
    /// # Errors
    ///
    /// As [`Ledger::reserve`].
    #[allow(clippy::too_many_arguments, reason = "all of it becomes one record")]
    pub fn reserve_with(
        &mut self,
        run: &str,
        data_set: &str,
        persons: &PersonDigests,
        peers: &[String],
        study: &str,
        plan: &ReleasePlan,
        received: &[(u32, Vec<u8>)],
    ) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            if transaction.state.runs.get(run).is_some_and(|known| known.withdrawn) {
                return Err(LedgerError::Withdrawn { run: run.to_owned() });
            }
            if transaction.state.runs.contains_key(run) || transaction.state.plain_runs.contains_key(run) {
                return Err(LedgerError::RunExists { run: run.to_owned() });
            }
            transaction.read_ids_by_value(data_set, persons)?;
            for idle in transaction.state.idle(data_set, study) {
                transaction.append(Entry::Withdrawn { run: idle })?;
            }
            let charge = transaction.affordable(data_set, persons, plan)?;
            transaction.append(Entry::Reserved {
                run: run.to_owned(),
                data_set: data_set.to_owned(),
                peers: peers.to_vec(),
                study: study.to_owned(),
                charge,
                plan: plan.clone(),
            })?;
            received.iter().try_for_each(|(index, bytes)| transaction.keep(run, *index, bytes))
        })
    }

    /// Makes two data sets share their sums from here on, because they were found to hold the same rows: what either has spent
    /// counts for both.
    ///
    /// # Errors
    ///
    /// A data set that is not registered.
    pub fn link(&mut self, data_set: &str, other: &str) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            let known = |name: &str| {
                let account = transaction.state.accounts.get(name);
                account.ok_or_else(|| LedgerError::Unknown { data_set: name.to_owned() })
            };
            known(other)?;
            if data_set == other || known(data_set)?.shares_with.contains(other) {
                return Ok(());
            }
            transaction.append(Entry::Linked { data_sets: [data_set.to_owned(), other.to_owned()] })
        })
    }

    /// Whether a protocol could be reserved now, with the runs of the study withdrawn of which nothing was stored; nothing is charged
    /// or withdrawn. Another process may still be faster. Every stored byte is checked, as before a charge.
    ///
    /// # Errors
    ///
    /// As [`Ledger::reserve`].
    pub fn afford(
        &mut self,
        data_set: &str,
        persons: &PersonDigests,
        study: &str,
        plan: &ReleasePlan,
    ) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            let known = transaction.state.clone();
            let idle = known.idle(data_set, study);
            let withdrawn = idle.into_iter().try_for_each(|run| transaction.state.apply(Entry::Withdrawn { run }));
            let afforded = transaction.affordable(data_set, persons, plan).map(drop);
            *transaction.state = known;
            let sequence = transaction.end().sequence;
            withdrawn.ok_or(LedgerError::Broken { sequence }).and(afforded)
        })
    }

    /// Whether the budget of a run is reserved, and was not given back.
    pub fn is_reserved(&self, run: &str) -> bool {
        self.state.runs.get(run).is_some_and(|known| !known.withdrawn)
    }

    /// Whether a run was withdrawn.
    pub fn is_withdrawn(&self, run: &str) -> bool {
        self.state.runs.get(run).is_some_and(|known| known.withdrawn)
    }

    /// The runs on a data set of which nothing was stored: those that were withdrawn, and those that may still go on.
    pub fn unreleased(&self, data_set: &str) -> Vec<Unreleased> {
        let open = |run: &Run| run.data_set == data_set && run.is_unreleased() && (run.withdrawn || !run.finished);
        let shown = |(run, known): (&String, &Run)| Unreleased {
            run: run.clone(),
            charge: known.charge,
            withdrawn: known.withdrawn,
        };
        self.state.runs.iter().filter(|(_, known)| open(known)).map(shown).collect()
    }

    /// Whether a run of this study on this data set was reserved and interrupted, so that it may go on.
    ///
    /// # Errors
    ///
    /// There was a run of this name, of another study or data set, or one that is over or withdrawn: going on with it could combine
    /// releases that were not planned together.
    pub fn resumes(&self, run: &str, data_set: &str, study: &str) -> Result<bool, LedgerError> {
        match self.state.runs.get(run) {
            None => Ok(false),
            Some(known) if known.withdrawn => Err(LedgerError::Withdrawn { run: run.to_owned() }),
            Some(known) if known.data_set == data_set && known.study == study && !known.finished => Ok(true),
            Some(_) => Err(LedgerError::RunExists { run: run.to_owned() }),
        }
    }

    /// The run of a study on a data set that was reserved and did not come to its end, for instance because the process
    /// was killed.
    pub fn unfinished(&self, data_set: &str, study: &str) -> Option<&str> {
        let open = |run: &Run| run.data_set == data_set && run.study == study && !run.finished;
        self.state.runs.iter().find(|(_, run)| open(run)).map(|(name, _)| name.as_str())
    }

    /// The same of a run of which something was stored: one of which nothing was can as well be begun anew.
    pub fn interrupted(&self, data_set: &str, study: &str) -> Option<&str> {
        let open = |run: &Run| run.data_set == data_set && run.study == study && !run.finished && !run.is_unreleased();
        self.state.runs.iter().find(|(_, run)| open(run)).map(|(name, _)| name.as_str())
    }

    /// The runs on a data set that were reserved and did not come to their end, and whose study begins with these words, with the whole of
    /// what they are said to be of.
    pub fn unfinished_of(&self, data_set: &str, study: &str) -> Vec<(&str, &str)> {
        let open =
            |run: &Run| run.data_set == data_set && run.study.starts_with(study) && !run.finished && !run.withdrawn;
        let open = self.state.runs.iter().filter(|(_, run)| open(run));
        open.map(|(name, run)| (name.as_str(), run.study.as_str())).collect()
    }

    /// The same of a run whose study begins with these words and of which a message of this number is kept.
    pub fn unfinished_with(&self, data_set: &str, study: &str, index: u32) -> Option<&str> {
        let open = |run: &Run| {
            run.data_set == data_set
                && run.study.starts_with(study)
                && !run.finished
                && run.received.contains_key(&index)
        };
        self.state.runs.iter().find(|(_, run)| open(run)).map(|(name, _)| name.as_str())
    }

    /// The right to make a release of a reserved run, or the release if it was made before.
    ///
    /// # Errors
    ///
    /// An unknown run or release, a run that was withdrawn, and stored bytes that were changed.
    pub fn permit(&mut self, run: &str, index: u32) -> Result<Grant, LedgerError> {
        self.transact(|transaction| {
            let known = transaction.open_run(run)?;
            let Some(planned) = known.plan.releases().get(index as usize).cloned() else {
                return Err(LedgerError::NoSuchRelease { run: run.to_owned(), index });
            };
            if let Some((receipt, digest)) = known.stored.get(&index).cloned() {
                let bytes = transaction.checked_blob(&sent_blob(run, index), &digest)?;
                return Ok(Grant::Stored(NoisedRelease::from_storage(&bytes, receipt)?));
            }
            // Another permit may have been handed out before, to a process that died: nothing that is not stored has left.
            Ok(Grant::Fresh(Permit::new(run.to_owned(), index, planned)))
        })
    }

    /// Stores a release with its receipt, in one transaction; only what comes out may be sent.
    ///
    /// # Errors
    ///
    /// A release that was not planned or is stored already, a run that was withdrawn, and storage errors: then it is never sent.
    pub fn store(&mut self, unsent: Unsent) -> Result<NoisedRelease, LedgerError> {
        self.transact(|transaction| {
            let receipt = unsent.receipt().clone();
            let (run, index) = (receipt.run.clone(), receipt.index);
            let known = transaction.open_run(&run)?;
            let planned = known.plan.releases().get(index as usize);
            let fits = planned.is_some_and(|planned| planned.label == receipt.label && receipt.mu <= planned.mu);
            if !fits || known.stored.contains_key(&index) {
                return Err(LedgerError::NotPlanned { run, index });
            }
            let bytes = unsent.bytes();
            transaction.storage.put_blob(&sent_blob(&run, index), &bytes)?;
            transaction.append(Entry::Stored { receipt, bytes_digest: hexadecimal(&Sha256::digest(&bytes)) })
        })?;
        Ok(unsent.stored())
    }

    /// One release of a reserved run, or the one that was made before: permitted, noised and stored, in this order.
    ///
    /// # Errors
    ///
    /// As [`Ledger::permit`], [`release`] and [`Ledger::store`]: nothing may leave then.
    pub fn release<E: From<LedgerError> + From<ReleaseError>>(
        &mut self,
        run: &str,
        index: u32,
        query: &Query,
        pool: &mut NoisePool,
    ) -> Result<NoisedRelease, E> {
        Ok(match self.permit(run, index)? {
            Grant::Stored(noised) => noised,
            Grant::Fresh(permit) => self.store(release(query, permit, pool)?)?,
        })
    }

    /// Keeps what a peer sent, so that a restarted party computes on the same bytes. A repeat must be equal.
    ///
    /// # Errors
    ///
    /// Other bytes than before under the same number, and a run that was withdrawn.
    pub fn keep_received(&mut self, run: &str, index: u32, bytes: &[u8]) -> Result<(), LedgerError> {
        self.transact(|transaction| transaction.keep(run, index, bytes))
    }

    /// What a peer sent before a restart.
    ///
    /// # Errors
    ///
    /// An unknown run, or stored bytes that were changed.
    pub fn received(&mut self, run: &str, index: u32) -> Result<Option<Vec<u8>>, LedgerError> {
        self.transact(|transaction| match transaction.run(run)?.received.get(&index).cloned() {
            None => Ok(None),
            Some(digest) => transaction.checked_blob(&received_blob(run, index), &digest).map(Some),
        })
    }

    /// Records that a run came to its end. One of which nothing was stored is withdrawn: it costs nothing.
    ///
    /// # Errors
    ///
    /// An unknown run.
    pub fn finish(&mut self, run: &str) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            let known = transaction.run(run)?;
            let name = run.to_owned();
            match (known.finished, known.is_unreleased()) {
                (true, _) => Ok(()),
                (false, true) => transaction.append(Entry::Withdrawn { run: name }),
                (false, false) => transaction.append(Entry::Finished { run: name }),
            }
        })
    }

    /// Records runs without privacy, unbounded charges of which every later report on their persons speaks, whether those are
    /// registered now, later, or under another name. A run that is recorded already stays as it is.
    ///
    /// # Errors
    ///
    /// A private run of that name.
    pub fn record_plain(&mut self, runs: &[PlainRun]) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            for PlainRun { run, data_set, persons, peers, study } in runs {
                if transaction.state.plain_runs.contains_key(run) {
                    continue;
                }
                if transaction.state.runs.contains_key(run) {
                    return Err(LedgerError::RunExists { run: run.clone() });
                }
                let digest = persons.digest();
                let shares_with = transaction.sharing(persons)?;
                if !persons.are_anyone() && !transaction.state.keeps(&digest) {
                    transaction.storage.put_blob(&plain_blob(&digest), &persons.bytes())?;
                }
                transaction.append(Entry::Plain {
                    run: run.clone(),
                    data_set: data_set.clone(),
                    peers: peers.clone(),
                    study: study.clone(),
                    persons_digest: Some(digest),
                    shares_with,
                })?;
            }
            Ok(())
        })
    }

    /// States the bounds under which a run is about to be made. Bounds of a column that differ from those of before are recorded:
    /// the promise holds for bounds that are known without the data.
    ///
    /// # Errors
    ///
    /// The data set is not registered.
    pub fn state_bounds(
        &mut self,
        data_set: &str,
        study: &str,
        bounds: &BTreeMap<String, String>,
    ) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            let account = transaction.state.accounts.get(data_set);
            let account = account.ok_or_else(|| LedgerError::Unknown { data_set: data_set.to_owned() })?;
            if bounds.iter().all(|(column, stated)| account.bounds.get(column) == Some(stated)) {
                return Ok(());
            }
            let (data_set, study, bounds) = (data_set.to_owned(), study.to_owned(), bounds.clone());
            transaction.append(Entry::Bounds { data_set, study, bounds })
        })
    }

    /// One data set's account.
    ///
    /// # Errors
    ///
    /// The data set is not registered.
    pub fn account(&self, data_set: &str) -> Result<Account, LedgerError> {
        self.state.accounts.get(data_set).cloned().ok_or_else(|| LedgerError::Unknown { data_set: data_set.to_owned() })
    }

    /// All accounts.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.state.accounts.values()
    }

    /// All runs whose budget was reserved.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.state.runs.keys().map(String::as_str)
    }

    /// The receipts of a run's stored releases, in their order.
    pub fn receipts(&self, run: &str) -> Vec<Receipt> {
        self.state
            .runs
            .get(run)
            .map(|known| known.stored.values().map(|(receipt, _)| receipt.clone()).collect())
            .unwrap_or_default()
    }

    /// Checks the whole chain again with every stored byte, and returns the number of records and the last hash.
    ///
    /// # Errors
    ///
    /// A broken chain, a rollback, changed bytes.
    pub fn verify(&mut self) -> Result<(u64, String), LedgerError> {
        self.state = State::default();
        self.hashes.clear();
        self.transact(|transaction| {
            transaction.check_bytes()?;
            let end = transaction.end();
            Ok((end.sequence, hexadecimal(&end.hash)))
        })
    }

    /// Runs `work` inside a transaction on the state of the disk; commits and moves the anchor only if it succeeds.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_, S>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.storage.begin()?;
        // The copies make a failed transaction leave no trace in memory either; states are small.
        let (mut state, mut hashes) = (self.state.clone(), self.hashes.clone());
        let outcome = (|| {
            refresh(&mut self.storage, &mut state, &mut hashes)?;
            let before = hashes.len();
            let mut transaction = Transaction { storage: &mut self.storage, state: &mut state, hashes: &mut hashes };
            let value = work(&mut transaction)?;
            Ok((value, hashes.len() > before))
        })();
        match outcome {
            Ok((value, false)) => {
                self.storage.abandon();
                (self.state, self.hashes) = (state, hashes);
                Ok(value)
            }
            Ok((value, true)) => {
                self.storage.commit()?;
                (self.state, self.hashes) = (state, hashes);
                // The anchor follows the commit: a crash in between leaves it one record behind, which still is a
                // prefix; and nothing was handed out yet.
                self.storage.advance_anchor(&end_of(&self.hashes))?;
                Ok(value)
            }
            Err(error) => {
                self.storage.abandon();
                Err(error)
            }
        }
    }
}

/// Reads what other processes have added, checks every link, and compares the end with the anchor.
fn refresh<S: Storage>(storage: &mut S, state: &mut State, hashes: &mut Vec<[u8; 32]>) -> Result<(), LedgerError> {
    let known = end_of(hashes);
    // The last known record is read again: a chain that was cut or swapped behind our back shows there.
    let mut records = storage.records_after(known.sequence.saturating_sub(1))?.into_iter();
    if known.sequence > 0 && records.next().map(|record| record.end()) != Some(known) {
        return Err(rolled_back(storage, known.sequence, known.sequence - 1));
    }
    for record in records {
        let previous = end_of(hashes);
        let sequence = previous.sequence + 1;
        let entry = serde_json::from_str(&record.body).ok().filter(|_| {
            record.sequence == sequence && Record::link(&previous, record.at, record.body.clone()) == record
        });
        if let Some(Entry::Filtered(checkpoint)) = &entry {
            state.may_follow(checkpoint).map_err(|reason| checkpoint.refused(&storage.name(), reason))?;
        }
        entry.and_then(|entry| state.apply(entry)).ok_or(LedgerError::Broken { sequence })?;
        hashes.push(record.hash);
    }
    let found = hashes.len() as u64;
    let anchored = match storage.anchor()? {
        // A crash right after the first record was written leaves no anchor.
        None if found <= 1 => 0,
        None => {
            let [ledger, anchor] = storage.places();
            return Err(LedgerError::NoAnchor { ledger, anchor });
        }
        Some(anchor) => {
            let index = usize::try_from(anchor.sequence).unwrap_or(usize::MAX);
            if index != 0 && index.checked_sub(1).and_then(|index| hashes.get(index)) != Some(&anchor.hash) {
                return Err(rolled_back(storage, anchor.sequence, found));
            }
            anchor.sequence
        }
    };
    // A crash between commit and anchor left it behind; before anything is added it catches up, so that it never
    // lags by more than one record.
    if anchored < found {
        storage.advance_anchor(&end_of(hashes))?;
    }
    Ok(())
}

fn rolled_back<S: Storage>(storage: &S, expected: u64, found: u64) -> LedgerError {
    let [ledger, anchor] = storage.places();
    LedgerError::RolledBack { ledger, anchor, expected, found }
}

fn end_of(hashes: &[[u8; 32]]) -> Anchor {
    Anchor { sequence: hashes.len() as u64, hash: hashes.last().copied().unwrap_or_default() }
}

/// Of a data set's persons, as they were `first` digested or by the values of ids that are numbers.
fn persons_blob(data_set: &str, first: bool) -> String {
    match first {
        true => format!("persons/{data_set}"),
        false => format!("persons by value/{data_set}"),
    }
}

/// Of persons who were in a plain run or in a table that opened, and in no data set that is registered.
fn plain_blob(persons_digest: &str) -> String {
    format!("plain/{persons_digest}")
}

fn sent_blob(run: &str, index: u32) -> String {
    format!("sent/{run}/{index}")
}

fn received_blob(run: &str, index: u32) -> String {
    format!("received/{run}/{index}")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests;
