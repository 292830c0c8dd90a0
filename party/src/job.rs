//! A joint run that a party takes part in: what it knows beforehand, and the table that it reads for it.

use std::path::PathBuf;
use std::sync::Arc;

use fedreg_common::data::Frame;
use fedreg_common::data::matching::alignment::MatchPurpose;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::Model;
use fedreg_common::methods::vertical::predict;
use fedreg_common::methods::vertical::prepare::{Prepared, needed_columns};
use fedreg_common::session::Abort;
use fedreg_common::study::{Study, Vertical};
use fedreg_proto::files::{FileError, read_study};

use crate::alignment::align;
use crate::config::Config;
use crate::drive::Patience;
use crate::failure::Failure;
use crate::party::{Party, no_party};
use crate::read::{Opened, Request};

/// A joint run that a party takes part in.
#[derive(Debug, Clone)]
pub struct Job {
    /// As whom.
    pub role: Role,
    /// The private configuration.
    pub config: Config,
    /// The shared study.
    pub study: Arc<Study<Vertical>>,
    /// Folder for results.
    pub out: Option<PathBuf>,
    /// File that is given the address at which we listen, once we do.
    pub announce: Option<PathBuf>,
    /// The command, as it was called.
    pub call: String,
    /// Makes the random choices of the run repeatable.
    pub seed: Option<u64>,
    /// Whether a line of progress is drawn.
    pub progress: bool,
    /// How long to wait for what.
    pub patience: Patience,
}

impl Job {
    pub(crate) fn party(&self) -> Party<'_> {
        Party { role: self.role, config: &self.config, study: &self.study }
    }
}

/// Reads the study that this party takes part in.
///
/// # Errors
/// The file is refused, or there is no such party in it.
pub fn study(role: Role, config: &Config) -> Result<Study<Vertical>, Failure> {
    let study = read_study(&config.study)?.vertical().filter(|study| study.method.parties.contains_key(&role));
    let study = study.ok_or_else(|| no_party(role))?;
    check_ends(&study, role, config)?;
    Ok(study)
}

/// Where the study has a leader it listens, and all others dial it.
fn check_ends(study: &Study<Vertical>, role: Role, config: &Config) -> Result<(), Failure> {
    let Some(leader) = study.leader() else { return Ok(()) };
    let (key, problem) = match (role == leader, &config.connect, &config.listen) {
        (true, Some(_), _) => (
            "connect",
            format!("is set, but {leader} is the leader of the study: it listens, and all others connect to it"),
        ),
        (false, _, Some(_)) => {
            ("listen", format!("is set, but {leader} is the leader of the study: {role} connects to it"))
        }
        (true, None, _) | (false, _, None) => return Ok(()),
    };
    Err(FileError::Value { key, problem }.into())
}

impl Party<'_> {
    /// Reads and encodes what the study asks of this party.
    pub(crate) fn table(self) -> Result<Prepared, Failure> {
        let file = self.config.source();
        let prepared = Prepared::new(Arc::clone(self.study), self.role, self.config.policy(), self.columns(false)?);
        let table = prepared.map_err(|abort| {
            // A complaint of a cell says in which file it stands.
            if let Abort::OwnData(sentence) = abort { Abort::OwnData(format!("{file}: {sentence}")) } else { abort }
        })?;
        table.advice().iter().for_each(|advice| tracing::warn!("{file}: {advice}"));
        if self.study.head.lines_up_by_place() {
            tracing::warn!(
                "the study names no identifiers (`rows.id`): row 1 here counts as the person of row 1 in the others' tables, and so on. Nothing \
                 checks that all tables have the same order"
            );
        }
        Ok(table)
    }

    /// Reads the columns for a fit, of the matched rows in a study with a match; `lenient` takes what cannot be used as missing.
    pub(crate) fn columns(self, lenient: bool) -> Result<Frame, Failure> {
        let mut frame = self.all_columns(lenient)?;
        align(self, MatchPurpose::Fit, &mut frame)?;
        Ok(frame)
    }

    /// The same of all rows of the table.
    pub(crate) fn all_columns(self, lenient: bool) -> Result<Frame, Failure> {
        let declared = self.study.head.columns.iter().filter(|(_, terms)| !terms.levels.is_empty());
        let levels = declared.map(|(name, terms)| (name.clone(), terms.levels.clone())).collect();
        self.frame(|names| {
            let columns = Some(needed_columns(self.study, self.role, names)?);
            Ok(Request { columns, levels, lenient, ..Request::default() })
        })
    }

    /// The identifiers of all rows, of which a match takes some: row numbers where there is no column of them.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(crate) fn all_identifiers(self) -> Result<Vec<Vec<u8>>, Failure> {
        let frame = self.frame(|_| Ok(Request { columns: Some(Vec::new()), ..Request::default() }))?;
        Ok(match frame.ids() {
            Some(ids) => ids.iter().map(<[u8]>::to_vec).collect(),
            None => (1..=frame.rows()).map(|row| row.to_string().into_bytes()).collect(),
        })
    }

    /// Reads rows to be predicted: with the levels of the model, others as missing.
    pub(crate) fn new_rows(self, model: &Model) -> Result<Frame, Failure> {
        let mut frame = self.frame(|names| {
            let columns = Some(predict::needed_columns(self.study, self.role, names)?);
            let levels = predict::levels(self.study, model, names)?;
            Ok(Request { columns, levels, unseen: true, ..Request::default() })
        })?;
        align(self, MatchPurpose::Predict, &mut frame)?;
        Ok(frame)
    }

    /// Reads what is asked for once the names of the table's columns are known.
    fn frame(self, request: impl FnOnce(&[&str]) -> Result<Request, Abort>) -> Result<Frame, Failure> {
        let written = self.config.written();
        let table = Opened::open(self.config.source(), written.separator)?;
        // What a match is made by is no term of the model, unless the study names it.
        let keys: Vec<&str> = match self.study.head.matching {
            Some(_) => self.config.matching.reserved().collect(),
            None => Vec::new(),
        };
        let names: Vec<&str> = table.columns().iter().map(String::as_str).filter(|name| !keys.contains(name)).collect();
        let request = Request { id: self.id_column().map(str::to_owned), written, ..request(&names)? };
        Ok(table.read(&request)?)
    }
}
