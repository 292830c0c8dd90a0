//! What the records of a chain add up to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::LedgerError;
use super::filter::Checkpoint;
use super::openings::Before;
use super::persons::{PersonDigests, is_anyone};
use crate::privacy::accountant::{Accountant, add_charge};
use crate::privacy::mechanism::{Receipt, ReleasePlan};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Entry {
    Opened {
        key_digest: String,
    },
    Registered {
        data_set: String,
        persons: u64,
        persons_digest: String,
        rows: u64,
        rows_per_person: u32,
        epsilon: f64,
        delta: f64,
        accountant: Accountant,
        cap: f64,
        #[serde(default)]
        bounds: BTreeMap<String, String>,
        shares_with: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        plain_runs: Vec<String>,
    },
    /// The same persons, whose ids count by their value since.
    Persons {
        data_set: String,
        persons_digest: String,
    },
    /// Two data sets that were found to hold the same rows.
    Linked {
        data_sets: [String; 2],
    },
    Bounds {
        data_set: String,
        study: String,
        bounds: BTreeMap<String, String>,
    },
    Reserved {
        run: String,
        data_set: String,
        peers: Vec<String>,
        study: String,
        charge: f64,
        plan: ReleasePlan,
    },
    /// In records of earlier versions, before a release was stored.
    Started {
        run: String,
        index: u32,
    },
    Stored {
        receipt: Receipt,
        bytes_digest: String,
    },
    Received {
        run: String,
        index: u32,
        bytes_digest: String,
    },
    Finished {
        run: String,
    },
    /// A run that ended before any of its releases was stored: its charge counts no longer.
    Withdrawn {
        run: String,
    },
    /// How far the account of a stream's persons has come.
    Filtered(Checkpoint),
    Plain {
        run: String,
        data_set: String,
        peers: Vec<String>,
        study: String,
        /// None in records of earlier versions, whose data set is registered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        persons_digest: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares_with: Vec<String>,
    },
    /// What a run let open without noise; the last one of a run counts.
    Numbers {
        run: String,
        data_set: String,
        peers: Vec<String>,
        study: String,
        numbers: u64,
        /// Of the rows of a table; none where rows themselves left.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows_digest: Option<String>,
        /// Of these rows with their weights, where they have some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weights_digest: Option<String>,
        /// Of the rows of each fold of cross-validation, of which a table each opened.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        folds: Vec<String>,
        /// The column by which rows are told apart, empty where that is their place; none in entries of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told_by: Option<String>,
        /// Digests of the sketches of the columns, by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sketches: BTreeMap<String, String>,
    },
}

/// A column whose public bounds became others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundsChange {
    /// Its name.
    pub column: String,
    /// What was stated before.
    pub from: String,
    /// What was stated then.
    pub to: String,
}

impl BoundsChange {
    /// What was changed and why it matters, in words.
    pub fn sentence(&self) -> String {
        let BoundsChange { column, from, to } = self;
        format!(
            "bounds of `{column}` were changed from {from} to {to}: the promise needs bounds that are known without the data; where \
             the data led to the change, it told something that is not covered"
        )
    }
}

/// What the ledger knows about a data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// Name.
    pub data_set: String,
    /// Persons.
    pub persons: u64,
    /// Rows.
    pub rows: u64,
    /// Largest number of rows that a person may have; a charge counts with its square.
    pub rows_per_person: u32,
    /// Epsilon of the budget.
    pub epsilon: f64,
    /// Delta of the budget.
    pub delta: f64,
    /// How sums are read.
    pub accountant: Accountant,
    /// Largest sum: the guarantee.
    pub cap: f64,
    /// Sum charged so far, inherited charges included: bookkeeping.
    pub sum: f64,
    /// The public bounds of its columns, as they were last stated.
    pub bounds: BTreeMap<String, String>,
    /// Columns whose bounds became others after they were first stated.
    pub bounds_changed: Vec<BoundsChange>,
    /// Whether a run without privacy was ever made on these persons; then no guarantee holds for what it showed.
    pub unbounded: bool,
    /// Whether one of those runs did not record its persons, so that it counts for everybody.
    pub unbounded_by_unknown: bool,
    /// Data sets that share persons with this one.
    pub shares_with: BTreeSet<String>,
    /// Sums of the runs per peer; a view, not a budget.
    pub peers: BTreeMap<String, f64>,
    #[serde(skip)]
    pub(super) persons_digest: String,
    /// The digest under which it was registered, where that became another one.
    #[serde(skip)]
    pub(super) read_otherwise: Option<String>,
}

impl Account {
    /// Whether its persons are not known beforehand, as those of a stream.
    pub fn is_anyone(&self) -> bool {
        is_anyone(&self.persons_digest)
    }

    /// What may still be charged.
    pub fn left(&self) -> f64 {
        (self.cap - self.sum).next_down().max(0.0)
    }

    fn state_bounds(&mut self, bounds: BTreeMap<String, String>) {
        for (column, to) in bounds {
            match self.bounds.insert(column.clone(), to.clone()) {
                Some(from) if from != to => self.bounds_changed.push(BoundsChange { column, from, to }),
                _ => {}
            }
        }
    }

    /// What was spent, as an epsilon at the budget's delta by the given accountant.
    pub fn epsilon_spent(&self, accountant: Accountant) -> f64 {
        // The conversions round up, which at nothing spent would be a riddle.
        if self.sum == 0.0 { 0.0 } else { accountant.epsilon(self.sum, self.delta) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) data_set: String,
    pub(super) study: String,
    pub(super) plan: ReleasePlan,
    pub(super) charge: f64,
    /// Whether an earlier version has begun with a release.
    pub(super) started: bool,
    pub(super) stored: BTreeMap<u32, (Receipt, String)>,
    pub(super) received: BTreeMap<u32, String>,
    pub(super) finished: bool,
    pub(super) withdrawn: bool,
    /// The last checkpoint of its persons' account, in a stream.
    pub(super) filtered: Option<Checkpoint>,
}

impl Run {
    fn new(data_set: String, study: String, plan: ReleasePlan, charge: f64) -> Run {
        Run {
            data_set,
            study,
            plan,
            charge,
            started: false,
            stored: BTreeMap::new(),
            received: BTreeMap::new(),
            finished: false,
            withdrawn: false,
            filtered: None,
        }
    }

    /// Whether nothing of it can have left: only what is stored may be sent.
    pub(super) fn is_unreleased(&self) -> bool {
        self.stored.is_empty() && !self.started
    }
}

/// What changes sums, with the data sets that shared persons then. Kept so that sums can be computed without a run that is withdrawn.
#[derive(Debug, Clone, PartialEq)]
enum Posting {
    /// A new data set begins at the largest sum of these.
    Inherited { data_set: String, from: BTreeSet<String> },
    /// A run's charge on its data set and on those that share persons with it.
    Charged { run: String, data_set: String, affected: BTreeSet<String>, peers: Vec<String>, charge: f64 },
    /// What each of two data sets has spent is added to the sums of the other and of those that share persons with it.
    Joined { data_sets: [String; 2], affected: [BTreeSet<String>; 2] },
}

impl Posting {
    fn post(&self, accounts: &mut BTreeMap<String, Account>) -> Option<()> {
        match self {
            Posting::Inherited { data_set, from } => {
                let sums = from.iter().map(|other| accounts.get(other).map(|other| other.sum));
                let largest = sums.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
                accounts.get_mut(data_set)?.sum = largest;
            }
            Posting::Charged { data_set, affected, peers, charge, .. } => {
                for name in affected {
                    let account = accounts.get_mut(name)?;
                    account.sum = add_charge(account.sum, *charge);
                }
                // The sums per peer are those of the data set alone.
                let account = accounts.get_mut(data_set)?;
                for peer in peers {
                    let sum = account.peers.entry(peer.clone()).or_insert(0.0);
                    *sum = add_charge(*sum, *charge);
                }
            }
            Posting::Joined { data_sets: [first, second], affected: [of_first, of_second] } => {
                let [from_first, from_second] = [accounts.get(first)?.sum, accounts.get(second)?.sum];
                for name in of_first.union(of_second) {
                    let account = accounts.get_mut(name)?;
                    account.sum = match (of_first.contains(name), of_second.contains(name)) {
                        // A data set that was registered later shares persons with both. It began at the larger sum, as nobody was
                        // known to be in both: what it lacks is the smaller one, at most.
                        (true, true) => add_charge(account.sum, from_first.min(from_second)),
                        (true, false) => add_charge(account.sum, from_second),
                        (false, _) => add_charge(account.sum, from_first),
                    };
                }
            }
        }
        Some(())
    }
}

/// A run whose budget was reserved and of which nothing was stored, so that nothing of it has left.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unreleased {
    /// The run.
    pub run: String,
    /// What it reserved.
    pub charge: f64,
    /// Whether it was withdrawn: then it can release nothing any more, and its charge does not count.
    pub withdrawn: bool,
}

/// What a run let open.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Openings {
    pub(super) data_set: String,
    pub(super) numbers: u64,
    pub(super) rows_digest: Option<String>,
    pub(super) weights_digest: Option<String>,
    pub(super) folds: Vec<String>,
    pub(super) told_by: Option<String>,
    pub(super) sketches: BTreeMap<String, String>,
}

impl Openings {
    /// The sets of rows of which a table opened, by name: the folds, or all rows.
    pub(super) fn tables(&self) -> Vec<&String> {
        match self.folds.is_empty() {
            true => self.rows_digest.iter().collect(),
            false => self.folds.iter().collect(),
        }
    }

    /// What tells tables of two runs apart.
    pub(super) fn tables_named(&self) -> impl PartialEq {
        let Openings { data_set: _, numbers: _, rows_digest, weights_digest, folds, told_by, sketches } = self;
        (rows_digest, weights_digest, folds, told_by, sketches)
    }

    /// Every set of rows, and every sketch, that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.rows_digest.iter().chain(&self.weights_digest).chain(&self.folds).chain(self.sketches.values())
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub(super) key_digest: Option<String>,
    pub(super) accounts: BTreeMap<String, Account>,
    pub(super) runs: BTreeMap<String, Run>,
    /// With the digest of their persons, where it was recorded.
    pub(super) plain_runs: BTreeMap<String, Option<String>>,
    /// By run.
    pub(super) openings: BTreeMap<String, Openings>,
    postings: Vec<Posting>,
    links: Vec<[String; 2]>,
}

/// Nothing, where there was nothing before.
fn new<T>(before: Option<T>) -> Option<()> {
    before.is_none().then_some(())
}

impl State {
    /// Applies an entry; none where it cannot follow from what is there.
    pub(super) fn apply(&mut self, entry: Entry) -> Option<()> {
        match entry {
            Entry::Opened { key_digest } => new(self.key_digest.replace(key_digest))?,
            Entry::Registered {
                data_set,
                persons,
                persons_digest,
                rows,
                rows_per_person,
                epsilon,
                delta,
                accountant,
                cap,
                bounds,
                shares_with,
                plain_runs,
            } => {
                let account = Account {
                    data_set,
                    persons,
                    rows,
                    rows_per_person,
                    epsilon,
                    delta,
                    accountant,
                    // What an earlier version wrote may promise a little more than is proved.
                    cap: cap.min(accountant.cap(epsilon, delta)),
                    sum: 0.0,
                    bounds,
                    bounds_changed: Vec::new(),
                    unbounded: !plain_runs.is_empty(),
                    unbounded_by_unknown: false,
                    shares_with: shares_with.into_iter().collect(),
                    peers: BTreeMap::new(),
                    persons_digest,
                    read_otherwise: None,
                };
                self.register(account, &plain_runs)?;
            }
            Entry::Reserved { run, data_set, peers, charge, plan, study } => {
                self.reserve(run, Run::new(data_set, study, plan, charge), peers)?;
            }
            Entry::Persons { data_set, persons_digest } => {
                let account = self.accounts.get_mut(&data_set)?;
                new(account.read_otherwise.replace(std::mem::replace(&mut account.persons_digest, persons_digest)))?;
            }
            Entry::Linked { data_sets } => self.link(&data_sets)?,
            Entry::Started { run, index } => {
                let run = self.open(&run)?;
                run.plan.releases().get(index as usize)?;
                run.started = true;
            }
            Entry::Stored { receipt, bytes_digest } => {
                let run = self.open(&receipt.run)?;
                new(run.stored.insert(receipt.index, (receipt, bytes_digest)))?;
            }
            Entry::Received { run, index, bytes_digest } => {
                new(self.open(&run)?.received.insert(index, bytes_digest))?;
            }
            Entry::Finished { run } => self.open(&run)?.finished = true,
            Entry::Withdrawn { run } => self.withdraw(&run)?,
            Entry::Filtered(checkpoint) => self.filter(checkpoint)?,
            Entry::Plain { run, data_set, persons_digest, shares_with, .. } => {
                let names = match &persons_digest {
                    Some(_) => shares_with.into_iter().collect(),
                    None => self.affected(&data_set)?,
                };
                self.show(names, persons_digest.as_deref().is_some_and(is_anyone))?;
                self.plain_runs.insert(run, persons_digest);
            }
            Entry::Numbers {
                run, data_set, numbers, rows_digest, weights_digest, folds, told_by, sketches, ..
            } => {
                let opened = Openings { data_set, numbers, rows_digest, weights_digest, folds, told_by, sketches };
                self.openings.insert(run, opened);
            }
            Entry::Bounds { data_set, bounds, .. } => self.accounts.get_mut(&data_set)?.state_bounds(bounds),
        }
        Some(())
    }

    /// A new data set inherits the largest sum of those that share persons with it, and what plain runs have shown of them.
    fn register(&mut self, mut account: Account, plain_runs: &[String]) -> Option<()> {
        if self.accounts.contains_key(&account.data_set) {
            return None;
        }
        for run in plain_runs {
            account.unbounded_by_unknown |= self.plain_runs.get(run)?.as_deref().is_some_and(is_anyone);
        }
        for other in &account.shares_with {
            let other = self.accounts.get_mut(other)?;
            account.unbounded |= other.unbounded;
            other.shares_with.insert(account.data_set.clone());
        }
        let (data_set, from) = (account.data_set.clone(), account.shares_with.clone());
        self.accounts.insert(data_set.clone(), account);
        self.post(Posting::Inherited { data_set, from })
    }

    /// A run without privacy has shown persons of these data sets, or of anybody.
    fn show(&mut self, names: BTreeSet<String>, anyone: bool) -> Option<()> {
        for name in names {
            let account = self.accounts.get_mut(&name)?;
            account.unbounded = true;
            account.unbounded_by_unknown |= anyone;
        }
        Some(())
    }

    /// A run begins with its charge.
    fn reserve(&mut self, run: String, fresh: Run, peers: Vec<String>) -> Option<()> {
        let Run { data_set, charge, .. } = &fresh;
        if self.runs.contains_key(&run) || charge.is_nan() || *charge <= 0.0 {
            return None;
        }
        let (data_set, charge, affected) = (data_set.clone(), *charge, self.affected(data_set)?);
        self.post(Posting::Charged { run: run.clone(), data_set, affected, peers, charge })?;
        new(self.runs.insert(run, fresh))
    }

    fn post(&mut self, posting: Posting) -> Option<()> {
        posting.post(&mut self.accounts)?;
        self.postings.push(posting);
        Some(())
    }

    /// A run that was not withdrawn.
    fn open(&mut self, run: &str) -> Option<&mut Run> {
        self.runs.get_mut(run).filter(|run| !run.withdrawn)
    }

    /// Ends a run of which nothing was stored, and computes all sums as if it had never been charged. To subtract its charge would
    /// not do: sums round up, a later data set inherited the largest of several, and a link added what was spent by then.
    fn withdraw(&mut self, run: &str) -> Option<()> {
        let known = self.runs.get_mut(run).filter(|known| known.is_unreleased() && !known.finished)?;
        (known.finished, known.withdrawn) = (true, true);
        self.postings.retain(|posting| !matches!(posting, Posting::Charged { run: charged, .. } if charged == run));
        for account in self.accounts.values_mut() {
            account.sum = 0.0;
            account.peers.clear();
        }
        self.postings.iter().try_for_each(|posting| posting.post(&mut self.accounts))
    }

    /// The runs of a study on a data set that did not come to their end, and of which nothing was stored. A study's digest is the
    /// first word of what a reservation says of it.
    pub(super) fn idle(&self, data_set: &str, study: &str) -> Vec<String> {
        let digest = |study: &str| study.split_whitespace().next().map(str::to_owned);
        let idle = |run: &Run| {
            run.data_set == data_set && digest(&run.study) == digest(study) && !run.finished && run.is_unreleased()
        };
        self.runs.iter().filter(|(_, run)| idle(run)).map(|(name, _)| name.clone()).collect()
    }

    /// Makes two data sets share what they spend. Anyone who is in one of them is in the other too, so that what the other has
    /// spent is added to its sum, and to those of data sets that share persons with it.
    fn link(&mut self, [first, second]: &[String; 2]) -> Option<()> {
        self.links.push([first.clone(), second.clone()]);
        let [of_first, of_second] = [self.affected(first)?, self.affected(second)?];
        let affected = [of_first.clone(), of_second.clone()];
        self.post(Posting::Joined { data_sets: [first.clone(), second.clone()], affected })?;
        let known: Vec<&Account> = [first, second].iter().filter_map(|name| self.accounts.get(*name)).collect();
        let unbounded = known.iter().any(|account| account.unbounded);
        let unbounded_by_unknown = known.iter().any(|account| account.unbounded_by_unknown);
        for name in of_first.union(&of_second) {
            let account = self.accounts.get_mut(name)?;
            account.unbounded |= unbounded;
            account.unbounded_by_unknown |= unbounded_by_unknown;
            account.shares_with.extend([first, second].into_iter().filter(|other| *other != name).cloned());
        }
        for (own, others) in [(first, &of_second), (second, &of_first)] {
            let account = self.accounts.get_mut(own)?;
            account.shares_with.extend(others.iter().filter(|other| *other != own).cloned());
        }
        Some(())
    }

    /// These data sets and those that were found to hold the rows of one of them: anyone who is in one is in the other too.
    pub(super) fn with_linked(&self, mut names: BTreeSet<String>) -> BTreeSet<String> {
        loop {
            let one_of = |pair: &&[String; 2]| names.contains(&pair[0]) != names.contains(&pair[1]);
            let Some(pair) = self.links.iter().find(one_of) else { return names };
            names.extend(pair.iter().cloned());
        }
    }

    /// The data set and all that share persons with it.
    pub(super) fn affected(&self, data_set: &str) -> Option<BTreeSet<String>> {
        let mut names = self.accounts.get(data_set)?.shares_with.clone();
        names.insert(data_set.to_owned());
        Some(names)
    }

    /// Rows per person of a data set, after checking that these are its persons.
    pub(super) fn same_data(&self, data_set: &str, persons: &PersonDigests) -> Result<u32, LedgerError> {
        let account =
            self.accounts.get(data_set).ok_or_else(|| LedgerError::Unknown { data_set: data_set.to_owned() })?;
        let same = persons.are(&account.persons_digest)
            && account.rows == persons.rows()
            && persons.rows_per_person() <= account.rows_per_person;
        if same { Ok(account.rows_per_person) } else { Err(LedgerError::OtherData { data_set: data_set.to_owned() }) }
    }

    /// The data set that has exactly these persons, and whether they were registered so.
    pub(super) fn data_set_of(&self, persons_digest: &str) -> Option<(&str, bool)> {
        self.accounts.values().find_map(|account| {
            let first = account.read_otherwise.as_ref().unwrap_or(&account.persons_digest);
            let known = account.persons_digest == persons_digest || first == persons_digest;
            known.then_some((account.data_set.as_str(), first == persons_digest))
        })
    }

    /// Whether the digests of these persons are kept, with a data set, a plain run or a table that opened.
    pub(super) fn keeps(&self, persons_digest: &str) -> bool {
        let tables = self.openings.values().flat_map(Openings::names);
        let mut others = self.plain_runs.values().flatten().chain(tables);
        self.data_set_of(persons_digest).is_some() || others.any(|known| known == persons_digest)
    }

    /// A data set, others of its source, and those that were found to hold the rows of one of them.
    pub(super) fn of_the_same_rows(&self, data_set: &str, also: &BTreeSet<String>) -> BTreeSet<String> {
        self.with_linked(also.iter().cloned().chain([data_set.to_owned()]).collect())
    }

    /// What opened of data sets in runs other than this one.
    pub(super) fn opened_before(&self, data_sets: &BTreeSet<String>, run: &str) -> Before {
        let others = self.openings.iter().filter(|(name, opened)| *name != run && data_sets.contains(&opened.data_set));
        others.fold(Before::default(), |before, (_, opened)| Before {
            runs: before.runs + 1,
            numbers: before.numbers.saturating_add(opened.numbers),
            // A sealed run always says of which rows its table is.
            plain: before.plain.saturating_add(if opened.rows_digest.is_none() { opened.numbers } else { 0 }),
        })
    }
}
