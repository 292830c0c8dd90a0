//! Why a ledger refuses.

use crate::exit::Exit;
use crate::privacy::ledger::storage::StorageError;
use crate::privacy::mechanism::LatticeError;

/// Why the ledger refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A record does not follow from the one before.
    #[error("the privacy ledger was changed: record {sequence} does not follow from the one before")]
    Broken {
        /// The first record that does not fit.
        sequence: u64,
    },
    /// The chain is shorter than it was, or another one.
    #[error("{ledger} was rolled back or replaced: it has {found} records, {anchor} knows record {expected}")]
    RolledBack {
        /// Which ledger.
        ledger: String,
        /// Which anchor.
        anchor: String,
        /// Record of the anchor.
        expected: u64,
        /// Records found.
        found: u64,
    },
    /// The chain has records, but the anchor is gone.
    #[error("{anchor} is missing, so a rollback of {ledger} could not be seen: restore it")]
    NoAnchor {
        /// Which ledger.
        ledger: String,
        /// Which anchor.
        anchor: String,
    },
    /// Stored bytes do not have the recorded digest.
    #[error("stored bytes of the privacy ledger were changed: {name}")]
    Changed {
        /// Which bytes.
        name: String,
    },
    /// A file without a single record, and an anchor that knows of none: its making was interrupted.
    #[error("the privacy ledger was never started: run `privacy init`")]
    NotStarted,
    /// There is a ledger already.
    #[error("there is a privacy ledger already, with {records} records")]
    Exists {
        /// How many.
        records: u64,
    },
    /// The data set is not registered.
    #[error("data set {data_set:?} is not registered in the privacy ledger: run `privacy init`")]
    Unknown {
        /// Its name.
        data_set: String,
    },
    /// The name stands for other persons.
    #[error(
        "the ledger's data set {data_set:?} has other persons than the data at hand: use the file and the `rows.id` with which it was \
         registered, or name the data set of these rows (`privacy.data_set`)"
    )]
    OtherData {
        /// Its name.
        data_set: String,
    },
    /// The name is taken.
    #[error("data set {data_set:?} is registered already")]
    NameTaken {
        /// Its name.
        data_set: String,
    },
    /// The same persons under another name.
    #[error("the same persons are registered as data set {existing:?}: a second name does not bring a second budget")]
    SamePersons {
        /// The name they have.
        existing: String,
    },
    /// There is no place for the anchor that the ledger's own folder does not take along.
    #[error(
        "neither XDG_STATE_HOME nor HOME is set, so there is no place for the anchor of the privacy ledger: state one \
         (`privacy.anchor`), outside of the ledger's folder and of its backup"
    )]
    NoHome,
    /// The data are registered in another ledger.
    #[error("{}", elsewhere(data, ledger, anchor, *gone))]
    Elsewhere {
        /// The data.
        data: String,
        /// The other ledger.
        ledger: String,
        /// Its anchor.
        anchor: String,
        /// Whether there is no such ledger any more.
        gone: bool,
    },
    /// What opens of the data is counted under another name.
    #[error(
        "what opens of {data} is counted as data set `{known}`, and another name does not bring another account: state that name (`privacy.data_set`)"
    )]
    CountedAs {
        /// The data.
        data: String,
        /// The name under which they are known.
        known: String,
    },
    /// A person has more rows than declared.
    #[error("{}", too_many_rows(*found, *declared))]
    RowsPerPerson {
        /// Declared maximum.
        declared: u32,
        /// Largest number found.
        found: u64,
    },
    /// Not enough budget.
    #[error(
        "{}: this run needs {needed:.6}, {left:.6} of {cap:.6} is left (sum of (sensitivity/sigma)^2)",
        spent(of_run, data_set)
    )]
    Overspent {
        /// The data set of the run.
        of_run: String,
        /// Whose cap would be passed; may be a data set that shares persons.
        data_set: String,
        /// Charge of the run.
        needed: f64,
        /// What is left.
        left: f64,
        /// The cap.
        cap: f64,
    },
    /// Tables of a data set with other weights of the same rows.
    #[error(
        "rows of `{data_set}` have other weights than in run {run}, of which a table opened: the difference of two tables with other weights \
         could be the table of a few rows; use the same weights"
    )]
    OtherWeights {
        /// The data set.
        data_set: String,
        /// The earlier run.
        run: String,
    },
    /// Rows that differ from those of an earlier table by too few.
    #[error(
        "the rows of this run and those of run {run:?}, whose table of data set {data_set:?} is open, differ by {rows}: the difference of \
         both tables is the table of those rows, and at least {least} are needed; use the same rows, or loosen `sealed_rows_per_column` \
         (for columns of few values `sealed_entropy_bits` and `sealed_level_rows` too) in your own policy"
    )]
    RowsBetween {
        /// Whose rows.
        data_set: String,
        /// The earlier run.
        run: String,
        /// Rows that are in one of both only.
        rows: u64,
        /// How many are needed.
        least: u64,
    },
    /// Rows that are told apart by another column than those of an earlier table.
    #[error(
        "rows are told apart by {} here, and were by {} in run {run:?}, whose table of data set {data_set:?} is open: nobody can tell by \
         how many rows the two tables differ; name the same `rows.id` in the study",
        told_by(Some(told)),
        told_by(before.as_deref())
    )]
    OtherIdentifiers {
        /// Whose rows.
        data_set: String,
        /// The earlier run.
        run: String,
        /// The column here; empty for the place in the table.
        told: String,
        /// That of the earlier run; none where it was not recorded.
        before: Option<String>,
    },
    /// A column that differs from one of an earlier table in too few rows.
    #[error(
        "column {column:?} and column {other:?} of run {run:?}, whose table of data set {data_set:?} is open, differ in {rows} rows: the \
         difference of both tables is about those values, and at least {least} are needed; use the same values, or loosen \
         `sealed_level_rows` in your own policy"
    )]
    CellsBetween {
        /// Whose rows.
        data_set: String,
        /// The earlier run.
        run: String,
        /// The column here.
        column: String,
        /// The column there.
        other: String,
        /// Rows in which they differ, about.
        rows: u64,
        /// How many are needed.
        least: u64,
    },
    /// A charge, or one release's part of it, that is no positive number.
    #[error("every release of a run needs a positive charge, got {charge} in all")]
    Charge {
        /// What came.
        charge: f64,
    },
    /// The run is not in the ledger.
    #[error("run {run:?} is not in the privacy ledger")]
    UnknownRun {
        /// Its name.
        run: String,
    },
    /// A run of that name exists.
    #[error("run {run:?} is in the privacy ledger already")]
    RunExists {
        /// Its name.
        run: String,
    },
    /// The run was withdrawn: it releases nothing any more.
    #[error(
        "run {run:?} was withdrawn: nothing of it had left when it was given up for another run of its study, or ended, and its charge was taken back; start a new run"
    )]
    Withdrawn {
        /// Its name.
        run: String,
    },
    /// A checkpoint that cannot follow from what is there.
    #[error(
        "{place}: checkpoint {sequence} of what the persons of run {run} have spent does not follow: {reason}; restore the latest ledger \
         and state folder, or start a new run"
    )]
    Filter {
        /// Which ledger.
        place: String,
        /// Its number in the run, counted from 0.
        sequence: u64,
        /// The run.
        run: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The plan has no such release.
    #[error("run {run:?} has no release {index}")]
    NoSuchRelease {
        /// Which run.
        run: String,
        /// Position asked for.
        index: u32,
    },
    /// A release that its permit does not fit.
    #[error("release {index} of run {run:?} is not the planned one")]
    NotPlanned {
        /// Which run.
        run: String,
        /// Position in its plan.
        index: u32,
    },
    /// A peer answered differently than before.
    #[error("message {index} of run {run:?} differs from the one received before")]
    Differs {
        /// Which run.
        run: String,
        /// Number of the message.
        index: u32,
    },
    /// Stored bytes that are no release.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
}

/// That data belong to another ledger, and what to do.
fn elsewhere(data: &str, ledger: &str, anchor: &str, gone: bool) -> String {
    let counts = "a second ledger does not bring a second budget";
    match gone {
        false => format!(
            "{data} belongs to the privacy ledger {ledger} (its anchor: {anchor}), which counts what leaves of it, and {counts}: use that one \
             (`privacy.ledger`)"
        ),
        true => format!(
            "{data} belongs to the privacy ledger {ledger}, which is gone, and {counts}: restore it; if all that it counted were trials, delete \
             its anchor {anchor}"
        ),
    }
}

/// Whose budget is spent: that of the run's data set, or of one that has persons in common with it.
fn spent(of_run: &str, data_set: &str) -> String {
    match of_run == data_set {
        true => format!("the budget of data set {data_set:?} is spent"),
        false => format!("data set {of_run:?} shares persons with {data_set:?}, whose budget is spent"),
    }
}

fn too_many_rows(found: u64, declared: u32) -> String {
    match declared {
        1 => "two rows belong to one person (the same id); give every person one row (ids that are whole numbers count by their value: \
              007 is 7)"
            .to_string(),
        _ => format!("a person has {found} rows, the study declares at most {declared}"),
    }
}

impl LedgerError {
    /// Whether there is no ledger and there never was one.
    pub fn is_missing(&self) -> bool {
        matches!(self, LedgerError::NotStarted | LedgerError::Storage(StorageError::Missing { .. }))
    }

    /// The exit code that belongs to it.
    pub fn exit(&self) -> Exit {
        match self {
            LedgerError::Storage(error) => error.exit(),
            LedgerError::RowsPerPerson { .. } => Exit::Data,
            LedgerError::Differs { .. } => Exit::Peer,
            LedgerError::NotPlanned { .. } | LedgerError::NoSuchRelease { .. } => Exit::Internal,
            LedgerError::Broken { .. }
            | LedgerError::RolledBack { .. }
            | LedgerError::NoAnchor { .. }
            | LedgerError::Changed { .. }
            | LedgerError::NotStarted
            | LedgerError::Exists { .. }
            | LedgerError::Unknown { .. }
            | LedgerError::OtherData { .. }
            | LedgerError::NameTaken { .. }
            | LedgerError::SamePersons { .. }
            | LedgerError::NoHome
            | LedgerError::Elsewhere { .. }
            | LedgerError::CountedAs { .. }
            | LedgerError::Overspent { .. }
            | LedgerError::RowsBetween { .. }
            | LedgerError::OtherWeights { .. }
            | LedgerError::OtherIdentifiers { .. }
            | LedgerError::CellsBetween { .. }
            | LedgerError::Charge { .. }
            | LedgerError::UnknownRun { .. }
            | LedgerError::RunExists { .. }
            | LedgerError::Withdrawn { .. }
            | LedgerError::Filter { .. }
            | LedgerError::Lattice(_) => Exit::Refused,
        }
    }
}

/// How rows are told apart.
fn told_by(column: Option<&str>) -> String {
    match column {
        None => "something else".to_string(),
        Some("") => "their place in the table".to_string(),
        Some(column) => format!("column {column:?}"),
    }
}
