//! Runs without privacy, remembered so that later private reports speak of them.
//!
//! Where a ledger exists the persons of a plain run are recorded in it, by their digests. Who never uses privacy gets no ledger and no
//! anchor: then a line in a file beside the ledger's place says that there was a run, and a ledger that is begun there later counts it
//! for everybody, as nobody can tell any more whom it showed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fedreg_common::id::{Digest, RunId};
use fedreg_common::privacy::ledger::{Before, Fewest, Ledger, LedgerError, Opening, PersonDigests, PlainRun};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::ledger::{self, LedgerFile};
use crate::output::{self, OutputError};

/// A run as it stands beside a ledger that is not there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlainLine {
    /// Its name.
    pub(crate) run: String,
    /// Name of the data.
    pub(crate) data_set: String,
    /// The data.
    pub(crate) data: String,
    /// To whom it showed them.
    pub(crate) peers: Vec<String>,
    /// Digest of the study.
    pub(crate) study: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub(crate) time: u64,
    /// How many numbers left, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) numbers: Option<u64>,
}

impl PlainLine {
    /// A run of now.
    pub(crate) fn now(run: RunId, data_set: String, data: &Path, peers: Vec<String>, study: Digest) -> PlainLine {
        PlainLine {
            run: run.to_string(),
            data_set,
            data: data.display().to_string(),
            peers,
            study: study.to_string(),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            numbers: None,
        }
    }
}

fn place(ledger: &Path) -> PathBuf {
    ledger::beside(ledger, "plain-runs")
}

/// Whether a run could be noted beside the place of a ledger: before a run, not in it.
///
/// # Errors
/// There is a file of them that cannot be written.
pub(crate) fn writable(ledger: &Path) -> Result<(), OutputError> {
    let path = place(ledger);
    match std::fs::OpenOptions::new().append(true).open(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(OutputError { path, source }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Records a run: in the ledger, with the persons that `persons` finds under its key, or beside its place.
///
/// # Errors
/// A ledger that is there and refuses, and files that cannot be written.
pub(crate) fn record(
    ledger: &Path,
    anchor: Result<PathBuf, LedgerError>,
    line: PlainLine,
    persons: impl FnOnce(&[u8; 32]) -> Result<PersonDigests, Failure>,
) -> Result<(), Failure> {
    let open = || match &anchor {
        Ok(anchor) if ledger.exists() || anchor.exists() => match ledger::open(ledger, anchor) {
            Err(error) if error.is_missing() => Ok(None),
            opened => opened.map(Some),
        },
        // Who never uses privacy needs no place for an anchor.
        Err(error) if ledger.exists() => Err(error.clone()),
        _ => Ok(None),
    };
    let mut opened = open()?;
    if opened.is_none() {
        note(ledger, &line)?;
        // A ledger that was begun meanwhile may not have seen the line.
        opened = open()?;
    }
    match &mut opened {
        None => Ok(()),
        Some(opened) => {
            let persons = persons(&opened.key()?)?;
            opened.record_plain(&[as_run(line.clone(), persons)])?;
            Ok(count(opened, line)?)
        }
    }
}

/// Counts the numbers of a run, where they are counted, in place of those that were counted of it before.
fn count(opened: &mut Ledger<LedgerFile>, line: PlainLine) -> Result<(), LedgerError> {
    let PlainLine { run, data_set, peers, study, numbers: Some(numbers), .. } = line else { return Ok(()) };
    let opening = Opening { numbers, ..Opening::new(run, data_set, peers, study) };
    let Ok(()) = opened.open_numbers(&opening, Fewest::NONE, |_| Ok::<(), Infallible>(()))?;
    Ok(())
}

/// Takes the runs that stand beside a ledger into it; their persons were not recorded, so they may have been anyone.
///
/// # Errors
/// A ledger that refuses, and a file that cannot be read.
pub(crate) fn take_in(opened: &mut Ledger<LedgerFile>) -> Result<(), Failure> {
    let path = place(opened.storage().path());
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(OutputError { path, source }.into()),
    };
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().enumerate().map(|(at, line)| {
        serde_json::from_str(line).unwrap_or_else(|_| PlainLine {
            run: format!("line {} of {}", at + 1, path.display()),
            ..PlainLine::default()
        })
    });
    let lines: Vec<PlainLine> = lines.collect();
    let runs: Vec<PlainRun> = lines.iter().map(|line| as_run(line.clone(), PersonDigests::anyone())).collect();
    if runs.is_empty() {
        return Ok(());
    }
    opened.record_plain(&runs)?;
    let counted = opened.counted_runs();
    // A run has a line for its beginning and one for its end, which counts.
    let mut last: BTreeMap<String, PlainLine> = BTreeMap::new();
    last.extend(lines.into_iter().filter(|line| line.numbers.is_some()).map(|line| (line.run.clone(), line)));
    last.retain(|run, _| !counted.contains(run));
    Ok(last.into_values().try_for_each(|line| count(opened, line))?)
}

/// What runs have let open of a data set that stand beside the place of a ledger that is not there.
pub(crate) fn before(ledger: &Path, data_set: &str) -> Before {
    let text = std::fs::read(place(ledger)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<PlainLine>(line).ok());
    // A run has a line for its beginning and one for its end, which counts.
    let runs: BTreeMap<String, u64> =
        lines.filter(|line| line.data_set == data_set).filter_map(|line| Some((line.run, line.numbers?))).collect();
    let numbers = runs.values().fold(0, |sum: u64, numbers| sum.saturating_add(*numbers));
    Before { runs: runs.len() as u64, numbers, plain: numbers }
}

fn as_run(line: PlainLine, persons: PersonDigests) -> PlainRun {
    let PlainLine { run, data_set, peers, study, .. } = line;
    PlainRun { run, data_set, persons, peers, study }
}

fn note(ledger: &Path, line: &PlainLine) -> Result<(), Failure> {
    let path = place(ledger);
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = output::own_file().append(true).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| OutputError { path: path.clone(), source }.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::ledger::{Account, Registration};

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn ledger(&self) -> PathBuf {
            self.0.path().join("state/privacy.sqlite")
        }

        fn anchor(&self) -> PathBuf {
            self.0.path().join("away/x.anchor")
        }

        fn run(&self, run: &str, persons: std::ops::Range<u32>) {
            let line = PlainLine {
                run: run.to_string(),
                data_set: "hand".to_string(),
                data: "hand.csv".to_string(),
                peers: vec!["bob".to_string()],
                study: "digest".to_string(),
                time: 0,
                numbers: None,
            };
            let digests = |key: &[u8; 32]| Ok(PersonDigests::new(key, persons.map(|id| id.to_string()), 1)?);
            record(&self.ledger(), Ok(self.anchor()), line, digests).unwrap();
        }

        fn register(&self, data_set: &str, persons: std::ops::Range<u32>) -> Account {
            let mut ledger = ledger::open_or_create(&self.ledger(), &self.anchor()).unwrap();
            take_in(&mut ledger).unwrap();
            let persons = PersonDigests::new(&ledger.key().unwrap(), persons.map(|id| id.to_string()), 1).unwrap();
            let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 100, false).unwrap();
            let (data_set, bounds) = (data_set.to_string(), BTreeMap::new());
            ledger.register(&Registration { data_set, persons, budget, bounds }).unwrap()
        }
    }

    #[test]
    fn plain_runs_before_the_ledger_count_for_everybody_and_make_neither_ledger_nor_anchor() {
        let home = Home(tempfile::tempdir().unwrap());
        home.run("first", 0..10);
        home.run("second", 0..10);
        assert!(!home.ledger().exists() && !home.anchor().exists());
        // A line that a crash has cut is a run as well.
        let path = place(&home.ledger());
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        text.push_str("{\"run\":\"thi");
        std::fs::write(&path, text).unwrap();
        let account = home.register("cohort", 0..10);
        assert!(account.unbounded && account.unbounded_by_unknown);
        assert!(home.register("later", 50..60).unbounded);
        assert_eq!(
            ledger::open(&home.ledger(), &home.anchor()).unwrap().verify().unwrap().0,
            6,
            "each is taken in once"
        );
    }

    #[test]
    fn a_check_before_there_is_a_ledger_counts_the_plain_runs_that_stand_beside_its_place() {
        let home = Home(tempfile::tempdir().unwrap());
        let anyone = |_: &[u8; 32]| Ok(PersonDigests::anyone());
        for (run, data_set, numbers) in [
            ("first", "hand", Some(900)),
            ("first", "hand", Some(300)),
            ("second", "hand", Some(20)),
            ("third", "other", Some(5)),
            ("fourth", "hand", None),
        ] {
            let line = PlainLine {
                run: run.to_string(),
                data_set: data_set.to_string(),
                data: "hand.csv".to_string(),
                peers: vec!["bob".to_string()],
                study: "digest".to_string(),
                time: 0,
                numbers,
            };
            record(&home.ledger(), Ok(home.anchor()), line, anyone).unwrap();
        }
        assert_eq!(before(&home.ledger(), "hand"), Before { runs: 2, numbers: 320, plain: 320 });
        assert_eq!(before(&home.ledger(), "nothing"), Before::default());
        let many = |run| {
            format!(
                "{{\"run\":\"{run}\",\"data_set\":\"hand\",\"data\":\"\",\"peers\":[],\"study\":\"\",\"numbers\":{}}}\n",
                u64::MAX
            )
        };
        std::fs::write(place(&home.ledger()), many("first") + &many("second")).unwrap();
        assert_eq!(before(&home.ledger(), "hand").numbers, u64::MAX, "a file of any numbers is read");
    }

    #[test]
    fn plain_runs_beside_a_ledger_are_recorded_by_their_persons_whatever_the_data_are_called() {
        let home = Home(tempfile::tempdir().unwrap());
        assert!(!home.register("cohort", 0..10).unbounded);
        home.run("run", 9..20);
        let known = ledger::open(&home.ledger(), &home.anchor()).unwrap().account("cohort").unwrap();
        assert!(known.unbounded && !known.unbounded_by_unknown);
        assert!(home.register("later", 19..30).unbounded);
        assert!(!home.register("others", 30..40).unbounded);
        assert!(!place(&home.ledger()).exists());
    }

    #[test]
    fn a_plain_run_beside_a_ledger_that_is_gone_is_refused() {
        let home = Home(tempfile::tempdir().unwrap());
        home.register("cohort", 0..10);
        std::fs::remove_file(home.ledger()).unwrap();
        let line = PlainLine {
            run: "run".to_string(),
            data_set: String::new(),
            data: String::new(),
            peers: Vec::new(),
            study: String::new(),
            time: 0,
            numbers: None,
        };
        let refused = record(&home.ledger(), Ok(home.anchor()), line, |_| Ok(PersonDigests::anyone()));
        assert!(matches!(refused, Err(Failure::Ledger(_))));
    }
}
