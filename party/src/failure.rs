//! Why a command of a party or a worker ends without a result, and who may hear of it.

use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::privacy::ledger::LedgerError;
use fedreg_common::session::{Abort, ledger_for_peer};
use fedreg_proto::certs::CertsError;
use fedreg_proto::files::FileError;
use fedreg_proto::link::Notice;
use fedreg_proto::output::{OutputError, chain};
use fedreg_proto::tls::{IdentityError, LinkError};
use fedreg_proto::wizard::WizardError;
use thiserror::Error;

use crate::drive;
use crate::read::ReadError;

/// Why a party's command failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// A configuration or study file.
    #[error(transparent)]
    Config(#[from] FileError),
    /// Own certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// An address that cannot be listened at.
    #[error(transparent)]
    Line(#[from] LinkError),
    /// The table.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The run.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// Results that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The privacy ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The account of what the persons of a stream have spent; the sentence names files.
    #[error("{0}")]
    Account(String),
    /// Making certificates.
    #[error(transparent)]
    Certs(#[from] CertsError),
    /// Beginning or explaining a study.
    #[error(transparent)]
    Wizard(#[from] WizardError),
    /// The rows that a data base or a store has now are not those with which a private run was begun here.
    #[error(
        "the rows of {data} are not those with which run {run} was begun: what that run released stays spent; start a new run"
    )]
    Moved {
        /// Where they come from.
        data: String,
        /// The run that was to be taken up again.
        run: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(error) => error.exit(),
            Failure::Identity(error) => error.exit(),
            Failure::Line(error) => error.exit(),
            Failure::Read(error) => error.exit(),
            Failure::Abort(abort) => abort.exit(),
            Failure::Output(error) => error.exit(),
            Failure::Ledger(error) => error.exit(),
            Failure::Account(_) => Exit::Refused,
            Failure::Certs(error) => error.exit(),
            Failure::Wizard(error) => error.exit(),
            Failure::Moved { .. } => Exit::Data,
            Failure::Usage(_) => Exit::Usage,
        }
    }

    /// Whether it depends on what stands in the table. In a private run nobody else may hear of that.
    pub(crate) fn is_of_data(&self) -> bool {
        matches!(
            self,
            Failure::Read(_) | Failure::Moved { .. } | Failure::Abort(Abort::OwnData(_) | Abort::Changed { .. })
        ) || matches!(self.of_ledger(), Some(LedgerError::RowsPerPerson { .. } | LedgerError::Elsewhere { .. }))
    }

    /// Whether a private run that ended so may still come to its end, with the same bytes and without a second charge: what stopped it
    /// lies outside of the two sessions. Anything else would only happen again.
    pub(crate) fn passes(&self) -> bool {
        matches!(self.of_ledger(), Some(LedgerError::Storage(_)))
            || self.ends().is_none()
                && matches!(self.exit(), Exit::Unreachable | Exit::Interrupted | Exit::CannotWrite | Exit::Data)
    }

    /// The run that it ends for good, as the rows are others than those with which it was begun.
    pub(crate) fn ends(&self) -> Option<&str> {
        match self {
            Failure::Moved { run, .. } | Failure::Abort(Abort::Changed { run }) => Some(run),
            Failure::Config(_)
            | Failure::Identity(_)
            | Failure::Line(_)
            | Failure::Read(_)
            | Failure::Abort(_)
            | Failure::Output(_)
            | Failure::Ledger(_)
            | Failure::Account(_)
            | Failure::Certs(_)
            | Failure::Wizard(_)
            | Failure::Usage(_) => None,
        }
    }

    fn of_ledger(&self) -> Option<&LedgerError> {
        let (Failure::Ledger(error) | Failure::Abort(Abort::Ledger(error))) = self else { return None };
        Some(error)
    }

    /// Why, as it may be kept in a file that outlives the terminal: without a cell, an identifier or what a panic said.
    pub(crate) fn kept(&self) -> String {
        let what = if let Failure::Read(ReadError::Data { file, source }) = self
            && source.quotes()
        {
            format!("cannot use {file}")
        } else if let Failure::Read(ReadError::Format { file, .. }) = self {
            format!("{file} is not a table that can be read")
        } else if let Failure::Abort(Abort::OwnData(_)) = self {
            "the data were refused".to_string()
        } else if let Failure::Abort(Abort::Bug(_)) = self {
            "internal error".to_string()
        } else {
            return chain(self);
        };
        format!("{what}; the reason was shown on the terminal only")
    }

    /// Whether the coordinator or the dealer has ended the run because the other party is gone or was started again.
    pub(crate) fn is_of_lost_masks(&self) -> bool {
        matches!(self, Failure::Abort(Abort::Remote { from: Role::Coordinator, exit: Exit::Unreachable, .. }))
    }

    /// What the others are told; nothing when it was they who ended the run. Never quotes data, paths or addresses.
    pub(crate) fn notice(&self, own: Role) -> Option<Notice> {
        let sentence = match self {
            Failure::Abort(Abort::Remote { .. } | Abort::Study { .. }) => return None,
            Failure::Abort(abort) => return Some(drive::notice(abort, own)),
            Failure::Read(_) | Failure::Moved { .. } => {
                format!("the data of {own} were refused; the reason is shown there only")
            }
            Failure::Ledger(_) | Failure::Account(_) => ledger_for_peer(own, self.exit()),
            Failure::Output(_) => format!("{own} cannot write its results"),
            Failure::Config(_)
            | Failure::Identity(_)
            | Failure::Line(_)
            | Failure::Certs(_)
            | Failure::Wizard(_)
            | Failure::Usage(_) => format!("{own} cannot take part"),
        };
        Some(Notice { exit: self.exit(), sentence })
    }
}

#[cfg(test)]
mod tests {
    use fedreg_common::data::{DataError, Place};

    use super::*;

    #[test]
    fn what_is_kept_of_a_failure_quotes_neither_cells_nor_identifiers_nor_panics() {
        let data = |source| Failure::Read(ReadError::Data { file: "a.csv".to_string(), source });
        let cell = || "jane doe".to_string();
        let quoting = [
            data(DataError::NotFinite { column: "age".to_string(), place: Place::Line(3), text: cell() }),
            data(DataError::Mixed {
                column: "age".to_string(),
                number: Place::Line(2),
                place: Place::Line(3),
                text: cell(),
            }),
            data(DataError::UndeclaredLevel {
                column: "region".to_string(),
                place: Place::Line(3),
                level: cell(),
                declared: String::new(),
            }),
            Failure::Read(ReadError::Format { file: "a.csv".to_string(), problem: cell() }),
            Failure::Abort(Abort::OwnData(cell())),
            Failure::Abort(Abort::Bug(cell())),
        ];
        for failure in quoting {
            let kept = failure.kept();
            assert!(chain(&failure).contains("jane") && !kept.contains("jane"), "{kept}");
            assert!(kept.ends_with("the reason was shown on the terminal only"), "{kept}");
        }
        // What a person needs to find the place is no cell.
        let kept = data(DataError::MissingId { column: "id".to_string(), place: Place::Line(3) }).kept();
        assert_eq!(kept, "cannot use a.csv: column `id`, line 3: the row has no id");
        let ragged = ReadError::Ragged { file: "a.csv".to_string(), line: 3, found: 2, expected: 4 };
        assert!(Failure::Read(ragged).kept().contains("line 3: expected 4 cells"));
    }
}
