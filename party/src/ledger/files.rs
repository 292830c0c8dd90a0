//! One source of data is one budget: which sources stand behind the data sets of a ledger, and behind those of other ledgers.
//!
//! A source is known by its identity ([`crate::read::identity`]), so that links and other paths are the same file, and by digests of
//! its rows, so that copies are ([`crate::read::content`]). What is known stands in the anchors, which together are an index of the
//! ledgers whose anchors lie in one folder. A file that grows has no digest: it is known by its identity alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fedreg_common::id::Role;
use fedreg_common::privacy::ledger::{Account, Ledger, LedgerError, Registration};
use serde::{Deserialize, Serialize};

use super::anchors;
use super::{LedgerFile, Place, locked};
use crate::failure::Failure;
use crate::read::{self, Identity, ReadError, Stated, content};

/// A source of data as one role reads it.
#[derive(Debug, Clone)]
pub struct DataFile<'a> {
    /// Whose columns of it are read: both parties may have theirs in one file, as in a rehearsal.
    pub role: Role,
    /// As the private file states it.
    pub source: Stated,
    /// The separator, where it is stated.
    pub separator: Option<u8>,
    /// The column of identifiers.
    pub id: Option<&'a str>,
    /// Whether it may grow.
    pub grows: bool,
}

/// What an anchor knows of a file or of its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The data set to which they belong.
    pub(super) data_set: String,
    /// Of a file, its size and time of change when its rows were looked at: as long as they stay, so do the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
}

impl Known {
    /// A source whose rows were not looked at.
    pub(super) fn named(data_set: &str) -> Known {
        Known { data_set: data_set.to_owned(), stamp: None }
    }
}

impl DataFile<'_> {
    /// By what it and where it is are known in anchors.
    fn identity(&self) -> Result<Option<Identity>, ReadError> {
        let name = |of: &String| format!("{}: {of}", self.role.name());
        let Some(Identity { key, parts, place, stamp }) = read::identity(&self.source)? else { return Ok(None) };
        Ok(Some(Identity { key: name(&key), parts: parts.iter().map(name).collect(), place: name(&place), stamp }))
    }

    /// What it and its rows are known by.
    fn keys(&self, identity: &Identity) -> Result<Vec<String>, ReadError> {
        let digests = match self.grows {
            true => Vec::new(),
            false => content::digests(&self.source, self.separator, self.id)?,
        };
        let rows = digests.iter().map(|digest| format!("{}: rows {digest}", self.role.name()));
        Ok(rows.chain([identity.key.clone()]).chain(identity.parts.iter().cloned()).collect())
    }
}

/// Refuses what belongs to another ledger whose anchor lies in the same folder.
pub(super) fn refuse_elsewhere<'k>(
    data: &str,
    ledger: &Place,
    place: &str,
    keys: impl Iterator<Item = &'k String> + Clone,
) -> Result<(), LedgerError> {
    let Some((other, anchor)) = anchors::elsewhere(ledger, place, keys) else { return Ok(()) };
    let gone = !Path::new(&other).exists();
    Err(LedgerError::Elsewhere { data: data.to_owned(), ledger: other, anchor: anchor.display().to_string(), gone })
}

/// That what opens of a source is counted under these names.
pub(super) fn counted_as(data: &str, names: &BTreeSet<String>) -> LedgerError {
    let known = names.iter().map(String::as_str).collect::<Vec<_>>().join("` and `");
    LedgerError::CountedAs { data: data.to_owned(), known }
}

/// Registers a data set with its source, unless that belongs to another ledger.
///
/// # Errors
/// As [`Ledger::register`] and [`use_file`].
pub fn register(
    ledger: &mut Ledger<LedgerFile>,
    file: &DataFile<'_>,
    registration: &Registration,
) -> Result<Account, Failure> {
    let Some(identity) = file.identity()? else {
        ledger.register(registration)?;
        return Ok(ledger.account(&registration.data_set)?);
    };
    // Looked up before anything is written, and again with the account: another process may have been faster.
    let (place, keys) = (ledger.storage().place.clone(), file.keys(&identity)?);
    refuse_elsewhere(&file.source.to_string(), &place, &identity.place, keys.iter())?;
    // What opened of it is counted under other names, which are no accounts that could share a budget.
    let mut names = names(keys.iter(), &known_in(&place)?);
    if !names.contains(&registration.data_set) {
        names.retain(|name| ledger.account(name).is_err());
        if !names.is_empty() {
            return Err(counted_as(&file.source.to_string(), &names).into());
        }
    }
    ledger.register(registration)?;
    use_known(ledger, &registration.data_set, file, (identity, keys))?;
    Ok(ledger.account(&registration.data_set)?)
}

/// Lets a data set of a ledger use a source of which something is known. If it, or one with the same rows, is known under another data set of the ledger, both share
/// what they spend from here on; the first use makes it known.
///
/// # Errors
/// It belongs to another ledger whose anchor lies in the same folder; files that cannot be read or written.
pub fn use_file(ledger: &mut Ledger<LedgerFile>, data_set: &str, file: &DataFile<'_>) -> Result<(), Failure> {
    let Some(identity) = file.identity()? else { return Ok(()) };
    let seen = seen_as(data_set, &identity);
    let known = ledger.storage().place.read_anchor().map_err(LedgerError::from)?;
    if seen.stamp.is_some() && known.is_some_and(|known| known.files.get(&identity.key) == Some(&seen)) {
        return Ok(());
    }
    let keys = file.keys(&identity)?;
    use_known(ledger, data_set, file, (identity, keys))
}

/// What an anchor keeps of a source whose rows were looked at.
fn seen_as(data_set: &str, identity: &Identity) -> Known {
    Known { data_set: data_set.to_owned(), stamp: identity.stamp.clone() }
}

/// As [`use_file`], with the keys of a source whose identity was taken before its rows were read.
fn use_known(
    ledger: &mut Ledger<LedgerFile>,
    data_set: &str,
    file: &DataFile<'_>,
    (identity, keys): (Identity, Vec<String>),
) -> Result<(), Failure> {
    let (place, seen) = (ledger.storage().place.clone(), seen_as(data_set, &identity));
    // Two ledgers that look at once would both find nothing.
    let lock = locked(&place.anchor.with_file_name("index.lock"));
    let _lock = lock.map_err(|error| LedgerError::from(place.file_error(&error)))?;
    refuse_elsewhere(&file.source.to_string(), &place, &identity.place, keys.iter())?;
    for other in names(keys.iter(), &known_in(&place)?) {
        if other != data_set && ledger.account(&other).is_ok() {
            tracing::warn!(
                "the rows of {} are registered as data set `{other}` too: what either spends, both have spent",
                file.source
            );
            ledger.link(data_set, &other)?;
        }
    }
    let changed = place.change_anchor(|anchor| {
        let before = anchor.files.clone();
        for key in keys {
            anchor.files.entry(key).or_insert_with(|| Known::named(data_set));
        }
        anchor.files.insert(identity.key, seen);
        let news = anchor.add(&place.ledger, identity.place);
        news || anchor.files != before
    });
    Ok(changed.map_err(LedgerError::from)?)
}

/// What the anchor of a ledger knows of files.
pub(super) fn known_in(place: &Place) -> Result<BTreeMap<String, Known>, LedgerError> {
    Ok(place.read_anchor()?.map(|anchor| anchor.files).unwrap_or_default())
}

/// The data sets to which keys lead, each once.
pub(super) fn names<'k>(keys: impl Iterator<Item = &'k String>, known: &BTreeMap<String, Known>) -> BTreeSet<String> {
    keys.filter_map(|key| known.get(key)).map(|known| known.data_set.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use fedreg_common::exit::Exit;
    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::ledger::PersonDigests;
    use fedreg_common::privacy::mechanism::{PlannedRelease, ReleasePlan};

    use super::super::counted::Counted;
    use super::super::open_or_create;
    use super::*;
    use crate::read::Chosen;

    /// A folder with a table, ledgers, and their anchors in one folder.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            host.write("cohort.csv", &Host::table(|at| format!("p{at}"), 0..30));
            host
        }

        /// Two columns of identifiers, and what was measured.
        fn table(id: impl Fn(usize) -> String, rows: impl Iterator<Item = usize>) -> String {
            let row = |at: usize| format!("{},{},{},{:.3}", id(at), 900 - at, at % 4, (0.7 * at as f64).sin());
            let rows: Vec<String> = rows.map(row).collect();
            format!("id,number,group,x\n{}\n", rows.join("\n"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        fn places(&self, ledger: &str) -> [PathBuf; 2] {
            [self.path(&format!("{ledger}/privacy.sqlite")), self.path(&format!("anchors/{ledger}"))]
        }

        fn ledger(&self, ledger: &str) -> Ledger<LedgerFile> {
            let [path, anchor] = self.places(ledger);
            open_or_create(&path, &anchor).unwrap()
        }

        fn persons(&self, ledger: &mut Ledger<LedgerFile>, file: &str, id: Option<usize>) -> PersonDigests {
            let text = fs::read_to_string(self.path(file)).unwrap();
            let rows = text.lines().skip(1).enumerate();
            let ids: Vec<String> = rows
                .map(|(at, line)| id.map_or((at + 1).to_string(), |id| line.split(',').nth(id).unwrap().to_owned()))
                .collect();
            PersonDigests::new(&ledger.key().unwrap(), ids, 1).unwrap()
        }

        /// Registers a file by one of its columns of identifiers, or by none.
        fn register(&self, ledger: &str, data_set: &str, file: &str, id: Option<usize>) -> Result<Account, Failure> {
            let mut opened = self.ledger(ledger);
            let persons = self.persons(&mut opened, file, id);
            let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 30, false).unwrap();
            let registration = Registration { data_set: data_set.to_owned(), persons, budget, bounds: BTreeMap::new() };
            super::register(&mut opened, &self.file(file, id, false), &registration)
        }

        fn file<'a>(&self, file: &str, id: Option<usize>, grows: bool) -> DataFile<'a> {
            let id = id.map(|id| ["id", "number"][id]);
            DataFile { role: Role::Worker, source: Stated::from(&self.path(file)), separator: None, id, grows }
        }

        fn spend(&self, ledger: &str, data_set: &str, file: &str, id: Option<usize>, mu: f64) {
            let mut opened = self.ledger(ledger);
            let persons = self.persons(&mut opened, file, id);
            let plan = ReleasePlan::new(vec![PlannedRelease { label: "r".to_owned(), mu }]);
            opened.reserve(&format!("{data_set} {mu}"), data_set, &persons, &[], "digest", &plan).unwrap();
        }

        fn sums(&self, ledger: &str, names: &[&str]) -> Vec<f64> {
            let opened = self.ledger(ledger);
            names.iter().map(|name| (opened.account(name).unwrap().sum * 1e9).round() / 1e9).collect()
        }
    }

    #[test]
    fn studies_that_differ_in_the_column_of_identifiers_share_one_budget() {
        let host = Host::new();
        for (name, id) in [("by id", Some(0)), ("by number", Some(1)), ("by row", None)] {
            host.register("a", name, "cohort.csv", id).unwrap();
        }
        host.spend("a", "by id", "cohort.csv", Some(0), 0.1);
        host.spend("a", "by number", "cohort.csv", Some(1), 0.2);
        host.spend("a", "by row", "cohort.csv", None, 0.1);
        assert_eq!(host.sums("a", &["by id", "by number", "by row"]), [0.06; 3]);
        host.ledger("a").verify().unwrap();
    }

    #[test]
    fn a_data_set_to_which_several_keys_lead_is_named_once() {
        let host = Host::new();
        host.register("a", "by id", "cohort.csv", Some(0)).unwrap();
        let file = host.file("cohort.csv", Some(1), false);
        let keys = file.keys(&file.identity().unwrap().unwrap()).unwrap();
        let known = host.ledger("a").storage().place.read_anchor().unwrap().unwrap().files;
        assert!(keys.iter().filter(|key| known.contains_key(*key)).count() > 1);
        assert_eq!(names(keys.iter(), &known).into_iter().collect::<Vec<_>>(), ["by id"]);
    }

    #[test]
    fn a_copy_in_another_order_under_other_names_and_with_other_identifiers_shares_the_budget_too() {
        let host = Host::new();
        host.register("a", "cohort", "cohort.csv", Some(0)).unwrap();
        host.spend("a", "cohort", "cohort.csv", Some(0), 0.1);
        let copy =
            Host::table(|at| format!("q{}", 7 * at), (0..30).rev()).replace("id,number,group,x", "id,number,arm,y");
        host.write("copy.csv", &copy);
        host.register("a", "copy", "copy.csv", Some(0)).unwrap();
        assert_eq!(host.sums("a", &["cohort", "copy"]), [0.01; 2]);
        // One changed row makes it another table.
        host.write("changed.csv", &copy.replace('q', "z").replace("0.644", "0.645"));
        assert_eq!(host.register("a", "changed", "changed.csv", Some(0)).unwrap().sum, 0.0);
    }

    /// Registers what is read of an SQLite file, about persons who are in no other data set.
    fn register_query(host: &Host, ledger: &str, data_set: &str, query: &str) -> Result<Account, Failure> {
        let mut opened = host.ledger(ledger);
        let ids = (0..30).map(|person| format!("{data_set} {person}"));
        let persons = PersonDigests::new(&opened.key().unwrap(), ids, 1).unwrap();
        let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 30, false).unwrap();
        let registration = Registration { data_set: data_set.to_owned(), persons, budget, bounds: BTreeMap::new() };
        let place = format!("sqlite:{}", host.path("base.db").display());
        let source = Stated::new(place, Some(Chosen::Query(query.to_owned())));
        let file = DataFile { role: Role::Worker, source, separator: None, id: None, grows: false };
        let account = super::register(&mut opened, &file, &registration)?;
        let plan = ReleasePlan::new(vec![PlannedRelease { label: "r".to_owned(), mu: 0.1 }]);
        opened.reserve(data_set, data_set, &registration.persons, &[], "digest", &plan).unwrap();
        Ok(account)
    }

    #[test]
    fn a_second_data_set_over_a_table_of_a_data_base_shares_its_budget_or_is_refused_whatever_the_query_says() {
        let host = Host::new();
        let base = rusqlite::Connection::open(host.path("base.db")).unwrap();
        base.execute_batch(
            "CREATE TABLE visits (id, x); CREATE TABLE other (id, x); CREATE VIEW seen AS SELECT x * 2 AS y FROM visits;
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29) INSERT INTO visits SELECT i, i * 0.37 FROM n;
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29) INSERT INTO other SELECT i, i * 0.41 FROM n;",
        )
        .unwrap();
        register_query(&host, "a", "visits", "SELECT id, x FROM visits").unwrap();
        register_query(&host, "a", "doubled", "SELECT y + 1 AS z FROM seen WHERE y > 3").unwrap();
        register_query(&host, "a", "other", "SELECT id, x FROM other").unwrap();
        assert_eq!(host.sums("a", &["visits", "doubled", "other"]), [0.02, 0.02, 0.01]);
        let refused = register_query(&host, "b", "again", "SELECT x FROM visits WHERE x < 5").unwrap_err();
        assert!(matches!(refused, Failure::Ledger(LedgerError::Elsewhere { .. })), "{refused}");
        assert!(host.ledger("b").accounts().next().is_none());
        register_query(&host, "b", "new", "SELECT 1 AS x UNION ALL SELECT 2").unwrap();
        // No text of a query is kept.
        let kept = fs::read_to_string(host.places("a")[1].clone()).unwrap();
        assert!(kept.contains("visits") && !kept.to_lowercase().contains("select") && !kept.contains("> 3"), "{kept}");
    }

    #[test]
    fn a_file_of_a_folder_shares_the_budget_of_the_folder() {
        let host = Host::new();
        fs::create_dir(host.path("parts")).unwrap();
        for part in ["1", "2"] {
            let text = Host::table(|at| format!("{part}-{at}"), 0..20);
            host.write(&format!("parts/{part}.csv"), &text);
        }
        // A pattern names any files; only Parquet is one table, so that what is known of it is looked at here.
        let identity = |place: &str| read::identity(&Stated::from(&host.path(place))).unwrap().unwrap();
        let (all, one) = (identity("parts/*.csv"), identity("parts/2.csv"));
        assert!(all.parts.contains(&one.key) && !all.parts.contains(&all.key));
    }

    #[test]
    fn links_and_copies_are_refused_in_another_ledger_whose_anchor_lies_in_the_same_folder() {
        let host = Host::new();
        host.register("a", "cohort", "cohort.csv", Some(0)).unwrap();
        fs::hard_link(host.path("cohort.csv"), host.path("link.csv")).unwrap();
        fs::copy(host.path("cohort.csv"), host.path("copy.csv")).unwrap();
        host.write("reversed.csv", &Host::table(|at| format!("p{at}"), (0..30).rev()));
        for (file, id) in [
            ("cohort.csv", None),
            ("link.csv", Some(1)),
            ("copy.csv", Some(0)),
            ("reversed.csv", None),
            ("a/../cohort.csv", Some(0)),
        ] {
            let refused = host.register("b", "other", file, id).unwrap_err();
            let Failure::Ledger(refused) = refused else { panic!("{refused}") };
            let text = refused.to_string();
            assert_eq!(refused.exit(), Exit::Refused);
            assert!(text.contains("a/privacy.sqlite") && text.contains("use that one (`privacy.ledger`)"), "{text}");
            assert!(host.ledger("b").accounts().next().is_none(), "{file} is registered all the same");
        }
        // A link to a file that grows is known by the inode alone.
        let grown = host.file("link.csv", None, true);
        assert!(use_file(&mut host.ledger("b"), "stream", &grown).is_err());
        host.write("other.csv", &Host::table(|at| format!("p{at}"), 1..31));
        host.register("b", "other", "other.csv", Some(0)).unwrap();
        // The columns of another party, as in a rehearsal.
        let of_bob = DataFile { role: Role::Bob, ..host.file("cohort.csv", Some(0), false) };
        use_file(&mut host.ledger("b"), "other", &of_bob).unwrap();
    }

    #[test]
    fn data_sets_of_earlier_versions_are_known_from_their_next_use_on() {
        let host = Host::new();
        for (name, id) in [("by id", Some(0)), ("by row", None)] {
            let mut opened = host.ledger("a");
            let persons = host.persons(&mut opened, "cohort.csv", id);
            let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 30, false).unwrap();
            let data_set = name.to_owned();
            opened.register(&Registration { data_set, persons, budget, bounds: BTreeMap::new() }).unwrap();
            host.spend("a", name, "cohort.csv", id, 0.1);
        }
        assert_eq!(host.sums("a", &["by id", "by row"]), [0.01; 2]);
        for (name, id) in [("by id", Some(0)), ("by row", None), ("by id", Some(0))] {
            use_file(&mut host.ledger("a"), name, &host.file("cohort.csv", id, false)).unwrap();
        }
        assert_eq!(host.sums("a", &["by id", "by row"]), [0.02; 2]);
        // In a ledger beside it the same file is no second budget either.
        let refused = use_file(&mut host.ledger("b"), "x", &host.file("cohort.csv", None, false));
        assert!(matches!(refused, Err(Failure::Ledger(LedgerError::Elsewhere { .. }))));
    }

    #[test]
    fn a_file_that_was_written_anew_is_looked_at_again() {
        let host = Host::new();
        host.register("a", "cohort", "cohort.csv", Some(0)).unwrap();
        let next = Host::table(|at| format!("p{at}"), 40..70);
        host.write("next.csv", &next);
        host.register("a", "next", "next.csv", Some(0)).unwrap();
        host.spend("a", "cohort", "cohort.csv", Some(0), 0.1);
        assert_eq!(host.sums("a", &["cohort", "next"]), [0.01, 0.0]);
        // The rows of the one in the file of the other.
        host.write("cohort.csv", &next);
        use_file(&mut host.ledger("a"), "cohort", &host.file("cohort.csv", Some(0), false)).unwrap();
        assert_eq!(host.sums("a", &["cohort", "next"]), [0.01; 2]);
    }

    fn counted(file: &DataFile<'_>, certificate: &str) -> Counted {
        Counted::of(file, certificate).unwrap().unwrap()
    }

    #[test]
    fn what_opens_of_a_file_is_counted_in_one_ledger_and_under_one_name() {
        let host = Host::new();
        let of = |file: &str| counted(&host.file(file, None, false), "north");
        let may = |ledger: &str, data_set: &str, source: &Counted| {
            let [path, anchor] = host.places(ledger);
            source.may_count([&path, &anchor], data_set)
        };
        let elsewhere = |judged| matches!(judged, Err(LedgerError::Elsewhere { gone: false, .. }));
        let names = |judged| match judged {
            Err(LedgerError::CountedAs { known, .. }) => known,
            judged => panic!("{judged:?}"),
        };
        fs::hard_link(host.path("cohort.csv"), host.path("link.csv")).unwrap();
        fs::copy(host.path("cohort.csv"), host.path("copy.csv")).unwrap();
        may("a", "cohort", &of("cohort.csv")).unwrap();
        may("b", "cohort", &of("cohort.csv")).unwrap();
        assert!(!host.places("a")[0].exists());
        for _ in 0..2 {
            of("cohort.csv").count_here(&host.ledger("a"), "cohort").unwrap();
        }
        assert!(may("a", "cohort", &of("link.csv")).unwrap().contains("cohort"));
        for file in ["cohort.csv", "link.csv"] {
            assert!(elsewhere(of(file).count_here(&host.ledger("b"), "other").map(|()| BTreeSet::new())), "{file}");
            assert!(elsewhere(may("b", "cohort", &of(file))), "{file}");
        }
        assert_eq!(names(of("link.csv").count_here(&host.ledger("a"), "other").map(|()| BTreeSet::new())), "cohort");
        assert_eq!(names(may("a", "other", &of("cohort.csv"))), "cohort");
        // The same party in another role, and the other party of a rehearsal.
        let as_bob = DataFile { role: Role::Bob, ..host.file("cohort.csv", None, false) };
        assert!(elsewhere(may("b", "cohort", &counted(&as_bob, "north"))));
        may("b", "cohort", &counted(&as_bob, "south")).unwrap();
        // Rows are not looked at.
        may("b", "copy", &of("copy.csv")).unwrap();
        // A ledger that was deleted counts on.
        fs::remove_file(&host.places("a")[0]).unwrap();
        let gone = may("b", "cohort", &of("cohort.csv")).unwrap_err();
        assert!(matches!(gone, LedgerError::Elsewhere { gone: true, .. }), "{gone}");
        assert!(gone.to_string().contains("delete its anchor") && gone.to_string().contains("anchors/a"), "{gone}");
    }

    #[test]
    fn what_opens_of_a_folder_and_of_a_table_of_a_data_base_is_counted_for_its_parts() {
        let host = Host::new();
        let of = |source: Stated| {
            counted(&DataFile { role: Role::Alice, source, separator: None, id: None, grows: false }, "north")
        };
        let [path, anchor] = host.places("b");
        let refused = |source: Stated| of(source).may_count([&path, &anchor], "other").is_err();
        fs::create_dir(host.path("parts")).unwrap();
        for part in ["1", "2"] {
            host.write(&format!("parts/{part}.csv"), &Host::table(|at| format!("{part}-{at}"), 0..20));
        }
        let file = |place: &str| Stated::from(&host.path(place));
        of(file("parts/*.csv")).count_here(&host.ledger("a"), "parts").unwrap();
        assert!(refused(file("parts/2.csv")) && !refused(file("cohort.csv")));
        let base = rusqlite::Connection::open(host.path("base.db")).unwrap();
        base.execute_batch(
            "CREATE TABLE visits (id, x); CREATE TABLE other (id, x); CREATE VIEW seen AS SELECT x AS y FROM visits;
             INSERT INTO visits VALUES (1, 2); INSERT INTO other VALUES (1, 3);",
        )
        .unwrap();
        let query = |text: &str| {
            let place = format!("sqlite:{}", host.path("base.db").display());
            Stated::new(place, Some(Chosen::Query(text.to_owned())))
        };
        of(query("SELECT id, x FROM visits")).count_here(&host.ledger("a"), "visits").unwrap();
        assert!(refused(query("SELECT y FROM seen WHERE y > 1")) && !refused(query("SELECT id, x FROM other")));
        let [path, anchor] = host.places("a");
        let renamed = of(query("SELECT y FROM seen")).may_count([&path, &anchor], "seen");
        assert!(matches!(renamed, Err(LedgerError::CountedAs { .. })), "{renamed:?}");
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_one_is_both_and_what_opened_under_both_names_is_judged_together() {
        let host = Host::new();
        let of = |file: &str| counted(&host.file(file, None, false), "north");
        host.write("new.csv", &Host::table(|at| format!("p{at}"), 0..29));
        for name in ["cohort", "new"] {
            of(&format!("{name}.csv")).count_here(&host.ledger("a"), name).unwrap();
        }
        fs::rename(host.path("new.csv"), host.path("cohort.csv")).unwrap();
        let [path, anchor] = host.places("a");
        for name in ["cohort", "new"] {
            let also = of("cohort.csv").may_count([&path, &anchor], name).unwrap();
            assert_eq!(also.into_iter().collect::<Vec<_>>(), ["cohort", "new"], "{name}");
        }
        let refused = of("cohort.csv").may_count([&path, &anchor], "third").unwrap_err();
        assert!(refused.to_string().contains("as data set `cohort` and `new`"), "{refused}");
        let [path, anchor] = host.places("b");
        assert!(of("cohort.csv").may_count([&path, &anchor], "cohort").is_err());
    }

    #[test]
    fn a_budget_is_registered_under_the_name_under_which_what_opens_is_counted() {
        let host = Host::new();
        let of = |id: Option<usize>| counted(&host.file("cohort.csv", id, false), "north");
        of(None).count_here(&host.ledger("a"), "cohort").unwrap();
        let refused = host.register("a", "by number", "cohort.csv", Some(1));
        assert!(matches!(refused, Err(Failure::Ledger(LedgerError::CountedAs { .. }))));
        assert!(host.ledger("a").accounts().next().is_none());
        host.register("a", "cohort", "cohort.csv", Some(0)).unwrap();
        // Two accounts that share a budget share the account of what opens.
        host.register("a", "by number", "cohort.csv", Some(1)).unwrap();
        of(Some(1)).count_here(&host.ledger("a"), "by number").unwrap();
        // The rows were looked at when the budget was registered.
        fs::copy(host.path("cohort.csv"), host.path("copy.csv")).unwrap();
        let refused = host.register("b", "copy", "copy.csv", Some(0));
        assert!(matches!(refused, Err(Failure::Ledger(LedgerError::Elsewhere { .. }))));
        // A file that was counted under another name takes the place of the registered one: its budget goes on.
        host.write("new.csv", &Host::table(|at| format!("q{at}"), 0..30));
        counted(&host.file("new.csv", None, false), "north").count_here(&host.ledger("a"), "new").unwrap();
        fs::rename(host.path("new.csv"), host.path("cohort.csv")).unwrap();
        use_file(&mut host.ledger("a"), "cohort", &host.file("cohort.csv", Some(0), false)).unwrap();
    }
}
