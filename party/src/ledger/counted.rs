//! What opens without noise is counted for one source of data: in one ledger, whatever the state folder, the role and the name.
//!
//! A source is known here by what it is and where it is, not by its rows: one row more makes it no other. The first opening makes it
//! known in the anchor of the ledger that counts it. It is known by the role, as in the index of budgets, and by the name in the party's
//! certificate, which is the same in every role; so the two parties of a rehearsal may read one file.

use std::collections::BTreeSet;
use std::path::Path;

use fedreg_common::privacy::ledger::{Ledger, LedgerError};

use super::files::{self, DataFile, Known};
use super::{LedgerFile, Place, locked};
use crate::read::{self, Identity, ReadError};

/// Most files of a folder that are known one by one; of more, the folder alone is known.
const PARTS: usize = 1000;

/// A source of which something may open.
#[derive(Debug, Clone)]
pub struct Counted {
    /// As it is stated.
    data: String,
    /// Where it is, for the role.
    place: String,
    /// What it is known by.
    keys: BTreeSet<String>,
}

impl Counted {
    /// The source of a party with this certificate; nothing of one that ends once it is read, or of which nothing is known.
    ///
    /// # Errors
    /// A data base that cannot be asked.
    pub fn of(file: &DataFile<'_>, certificate: &str) -> Result<Option<Counted>, ReadError> {
        if read::ends_once_read(&file.source) {
            return Ok(None);
        }
        let Some(Identity { key, parts, place, .. }) = read::identity(&file.source)? else { return Ok(None) };
        let parts = if parts.len() > PARTS { Vec::new() } else { parts };
        let (role, party) = (file.role.name(), format!("certificate {certificate}"));
        let of_role = format!("{role}: {place}");
        // A file that takes the place of another one is no new data set.
        let known: Vec<String> = parts.into_iter().chain([key, place]).collect();
        let keys = known.iter().flat_map(|known| [format!("{role}: {known}"), format!("{party}: {known}")]);
        Ok(Some(Counted { data: file.source.to_string(), place: of_role, keys: keys.collect() }))
    }

    /// What it is known by.
    pub fn keys(&self) -> &BTreeSet<String> {
        &self.keys
    }

    /// Whether what opens may be counted as a data set of the ledger at these places, which need not be there yet; the names under which
    /// it is counted there. Nothing is written.
    ///
    /// # Errors
    /// It belongs to another ledger whose anchor lies in the same folder, or in this one to data sets that share nothing with this one;
    /// files that cannot be read.
    pub fn may_count(&self, [ledger, anchor]: [&Path; 2], data_set: &str) -> Result<BTreeSet<String>, LedgerError> {
        let place = Place { ledger: ledger.to_owned(), anchor: anchor.to_owned() };
        files::refuse_elsewhere(&self.data, &place, &self.place, self.keys.iter())?;
        match super::open(ledger, anchor) {
            Err(error) if error.is_missing() => Ok(BTreeSet::new()),
            opened => self.names(&opened?, data_set),
        }
    }

    /// The names under which it is counted, which are judged together. A name under which it never was is one of these only if it
    /// shares a budget with them.
    fn names(&self, ledger: &Ledger<LedgerFile>, data_set: &str) -> Result<BTreeSet<String>, LedgerError> {
        let names = files::names(self.keys.iter(), &files::known_in(&ledger.storage().place)?);
        let shared = |name: &String| ledger.hold_the_same_rows(data_set, name);
        match names.is_empty() || names.contains(data_set) || names.iter().all(shared) {
            true => Ok(names),
            false => Err(files::counted_as(&self.data, &names)),
        }
    }

    /// Makes known that what opens of it is counted as a data set of a ledger, which need not be registered.
    ///
    /// # Errors
    /// As [`Counted::may_count`].
    pub fn count_here(&self, ledger: &Ledger<LedgerFile>, data_set: &str) -> Result<(), LedgerError> {
        let place = ledger.storage().place.clone();
        // Two ledgers that look at once would both find nothing.
        let lock = locked(&place.anchor.with_file_name("index.lock"));
        let _lock = lock.map_err(|error| place.file_error(&error))?;
        files::refuse_elsewhere(&self.data, &place, &self.place, self.keys.iter())?;
        self.names(ledger, data_set)?;
        place.change_anchor(|anchor| {
            let before = anchor.files.len();
            for key in &self.keys {
                // Without the file's size and time: its rows were not looked at.
                anchor.files.entry(key.clone()).or_insert_with(|| Known::named(data_set));
            }
            let news = anchor.add(&place.ledger, self.place.clone());
            news || anchor.files.len() != before
        })?;
        Ok(())
    }
}
