//! A joint run that a party takes part in: what it knows beforehand, and the table that it reads for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fedreg_common::data::Frame;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::Model;
use fedreg_common::methods::vertical::predict;
use fedreg_common::methods::vertical::prepare::{Prepared, needed_columns};
use fedreg_common::session::Abort;
use fedreg_common::study::{Study, Vertical};
use fedreg_proto::files::read_study;
use fedreg_proto::tls::Identity;

use crate::config::Config;
use crate::drive::Patience;
use crate::failure::Failure;
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
/// Reads the study that this party takes part in.
///
/// # Errors
/// The file is refused, or there is no such party in it.
pub fn study(role: Role, config: &Config) -> Result<Study<Vertical>, Failure> {
    read_study(&config.study)?.vertical().ok_or_else(|| no_party(role))
}

fn no_party(role: Role) -> Failure {
    Failure::Usage(format!("the study has no party {role}"))
}

/// Reads and encodes what the study asks of this party.
///
/// # Errors
/// The file or its contents are refused.
pub(crate) fn read_table(role: Role, config: &Config, study: &Arc<Study<Vertical>>) -> Result<Prepared, Failure> {
    let frame = read_columns(role, config, study, false)?;
    let table = Prepared::new(Arc::clone(study), role, config.policy(), frame)?;
    table.advice().iter().for_each(|advice| tracing::warn!("{}: {advice}", config.data.file.display()));
    Ok(table)
}

/// Reads rows to be predicted: with the levels of the model, others as missing.
pub(crate) fn read_new_rows(
    role: Role,
    config: &Config,
    study: &Study<Vertical>,
    model: &Model,
) -> Result<Frame, Failure> {
    read_frame(config, study, |names| {
        let columns = Some(predict::needed_columns(study, role, names)?);
        Ok(Request { columns, levels: predict::levels(study, model, names)?, unseen: true, ..Request::default() })
    })
}

/// Reads this party's columns for a fit; `lenient` takes what cannot be used as missing.
pub(crate) fn read_columns(
    role: Role,
    config: &Config,
    study: &Study<Vertical>,
    lenient: bool,
) -> Result<Frame, Failure> {
    let declared = study.head.columns.iter().filter(|(_, terms)| !terms.levels.is_empty());
    let levels: BTreeMap<_, _> = declared.map(|(name, terms)| (name.clone(), terms.levels.clone())).collect();
    read_frame(config, study, |names| {
        let columns = Some(needed_columns(study, role, names)?);
        Ok(Request { columns, levels, lenient, ..Request::default() })
    })
}

/// Reads what is asked for once the names of the table's columns are known.
fn read_frame(
    config: &Config,
    study: &Study<Vertical>,
    request: impl FnOnce(&[&str]) -> Result<Request, Abort>,
) -> Result<Frame, Failure> {
    let written = config.written();
    let table = Opened::open(&config.data.file, written.separator)?;
    let names: Vec<&str> = table.columns().iter().map(String::as_str).collect();
    let request = Request { id: study.head.rows.id.clone(), written, ..request(&names)? };
    Ok(table.read(&request)?)
}

/// Loads the party's certificate and checks that it carries the study's name for it.
///
/// # Errors
/// The files cannot be used.
pub(crate) fn identity(role: Role, config: &Config, study: &Study<Vertical>) -> Result<Identity, Failure> {
    let identity = Identity::load(&config.tls.files())?;
    identity.check_own_name(certificate(study, role)?)?;
    for warning in identity.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(identity)
}

/// The name in a party's certificate.
pub(crate) fn certificate(study: &Study<Vertical>, role: Role) -> Result<&str, Failure> {
    study.method.parties.get(&role).map(|terms| terms.certificate.as_str()).ok_or_else(|| no_party(role))
}
