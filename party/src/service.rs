//! What a party does, from its files to its results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use fedreg_common::conversation::Opening;
use fedreg_common::data::Frame;
use fedreg_common::exit::Exit;
use fedreg_common::fit::{Statistics, Termination};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::{Model, VerticalFit};
use fedreg_common::methods::vertical::predict::{self, NewRows, PredictSession, Scores};
use fedreg_common::methods::vertical::prepare::{Prepared, needed_columns};
use fedreg_common::methods::vertical::session::{Progress, VerticalSession};
use fedreg_common::privacy::ledger::LedgerError;
use fedreg_common::report::{Disclosure, PerParty, Report, VERSION, csv};
use fedreg_common::session::{Abort, Session};
use fedreg_common::study::{Guarantee, Study, Vertical};
use fedreg_proto::certs::CertsError;
use fedreg_proto::files::{FileError, read_study};
use fedreg_proto::link::Notice;
pub use fedreg_proto::output::chain;
use fedreg_proto::tls::{Identity, IdentityError, LinkError};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::config::Config;
use crate::drive::{self, Patience};
use crate::ledger;
use crate::meet::{Met, Work, meet};
use crate::output::{self, Folder, OutputError};
use crate::privacy;
use crate::private::PrivateFit;
use crate::read::{Opened, ReadError, Request};

/// The model file in a folder of results.
pub const MODEL: &str = "model.json";

/// The file of scores there.
pub const SCORES: &str = "scores.csv";

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
    /// Making certificates.
    #[error(transparent)]
    Certs(#[from] CertsError),
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl From<ledger::FileError> for Failure {
    fn from(error: ledger::FileError) -> Failure {
        match error {
            ledger::FileError::Ledger(error) => Failure::Ledger(error),
            ledger::FileError::Read(error) => Failure::Read(error),
        }
    }
}

impl Failure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(error) => error.exit(),
            Failure::Identity(error) => error.exit(),
            Failure::Line(error) => error.exit(),
            Failure::Read(_) => Exit::Data,
            Failure::Abort(abort) => abort.exit(),
            Failure::Output(error) => error.exit(),
            Failure::Ledger(error) => error.exit(),
            Failure::Certs(error) => error.exit(),
            Failure::Usage(_) => Exit::Usage,
        }
    }

    /// Whether it depends on what stands in the table. In a private run nobody else may hear of that.
    pub(crate) fn is_of_data(&self) -> bool {
        matches!(
            self,
            Failure::Read(_)
                | Failure::Abort(Abort::OwnData(_) | Abort::Changed { .. })
                | Failure::Ledger(LedgerError::RowsPerPerson { .. } | LedgerError::Elsewhere { .. })
                | Failure::Abort(Abort::Ledger(LedgerError::RowsPerPerson { .. } | LedgerError::Elsewhere { .. }))
        )
    }

    /// Whether a private run that ended so may still come to its end, with the same bytes and without a second charge: what stopped it
    /// lies outside of the two sessions. Anything else would only happen again.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Failure::Ledger(LedgerError::Storage(_)) | Failure::Abort(Abort::Ledger(LedgerError::Storage(_))) => true,
            Failure::Config(_)
            | Failure::Identity(_)
            | Failure::Line(_)
            | Failure::Read(_)
            | Failure::Abort(_)
            | Failure::Output(_)
            | Failure::Ledger(_)
            | Failure::Certs(_)
            | Failure::Usage(_) => {
                matches!(self.exit(), Exit::Unreachable | Exit::Interrupted | Exit::CannotWrite | Exit::Data)
            }
        }
    }

    /// Why, as it may be kept in a file that outlives the terminal: without a cell, an identifier or what a panic said.
    pub(crate) fn kept(&self) -> String {
        const REST: &str = "the reason was shown on the terminal only";
        match self {
            Failure::Read(ReadError::Data { file, source }) if source.quotes() => format!("cannot use {file}; {REST}"),
            Failure::Read(ReadError::Format { file, .. }) => format!("{file} is not a table that can be read; {REST}"),
            Failure::Abort(Abort::OwnData(_)) => format!("the data were refused; {REST}"),
            Failure::Abort(Abort::Bug(_)) => format!("internal error; {REST}"),
            other @ (Failure::Config(_)
            | Failure::Identity(_)
            | Failure::Line(_)
            | Failure::Read(_)
            | Failure::Abort(_)
            | Failure::Output(_)
            | Failure::Ledger(_)
            | Failure::Certs(_)
            | Failure::Usage(_)) => chain(other),
        }
    }

    /// What the others are told; nothing when it was they who ended the run. Never quotes data, paths or addresses.
    pub(crate) fn notice(&self, own: Role) -> Option<Notice> {
        let sentence = match self {
            Failure::Abort(Abort::Remote { .. } | Abort::Study { .. }) => return None,
            Failure::Abort(abort) => return Some(drive::notice(abort, own)),
            Failure::Read(_) => format!("the data of {own} were refused; the reason is shown there only"),
            Failure::Ledger(_) => format!("the privacy ledger of {own} refused; the reason is shown there only"),
            Failure::Output(_) => format!("{own} cannot write its results"),
            Failure::Config(_) | Failure::Identity(_) | Failure::Line(_) | Failure::Certs(_) | Failure::Usage(_) => {
                format!("{own} cannot take part")
            }
        };
        Some(Notice { exit: self.exit(), sentence })
    }
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
pub fn read_table(role: Role, config: &Config, study: &Arc<Study<Vertical>>) -> Result<Prepared, Failure> {
    let frame = read_frame(config, study, declared_levels(study), false, |header| needed_columns(study, role, header))?;
    let table = Prepared::new(Arc::clone(study), role, config.policy(), frame)?;
    table.advice().iter().for_each(|advice| tracing::warn!("{}: {advice}", config.data.file.display()));
    Ok(table)
}

/// Reads rows to be predicted: with the levels of the model, others as missing.
fn read_new_rows(role: Role, config: &Config, study: &Arc<Study<Vertical>>, model: &Model) -> Result<Frame, Failure> {
    let written = config.written();
    let table = Opened::open(&config.data.file, written.separator)?;
    let names: Vec<&str> = table.columns().iter().map(String::as_str).collect();
    let request = Request {
        columns: Some(predict::needed_columns(study, role, &names)?),
        id: study.head.rows.id.clone(),
        levels: predict::levels(study, model, &names)?,
        unseen: true,
        ..Request::default()
    }
    .of_files(written);
    Ok(table.read(&request)?)
}

/// The levels that the study declares.
pub(crate) fn declared_levels(study: &Study<Vertical>) -> BTreeMap<String, Vec<String>> {
    let declared = study.head.columns.iter().filter(|(_, terms)| !terms.levels.is_empty());
    declared.map(|(name, terms)| (name.clone(), terms.levels.clone())).collect()
}

/// Reads the columns that are needed; `lenient` takes what cannot be used as missing.
pub(crate) fn read_frame(
    config: &Config,
    study: &Study<Vertical>,
    levels: BTreeMap<String, Vec<String>>,
    lenient: bool,
    needed: impl FnOnce(&[&str]) -> Result<Vec<String>, Abort>,
) -> Result<Frame, Failure> {
    let written = config.written();
    let table = Opened::open(&config.data.file, written.separator)?;
    let names: Vec<&str> = table.columns().iter().map(String::as_str).collect();
    let request = Request {
        columns: Some(needed(&names)?),
        id: study.head.rows.id.clone(),
        levels,
        lenient,
        ..Request::default()
    }
    .of_files(written);
    Ok(table.read(&request)?)
}

/// Loads the party's certificate and checks that it carries the study's name for it.
///
/// # Errors
/// The files cannot be used.
pub fn identity(role: Role, config: &Config, study: &Study<Vertical>) -> Result<Identity, Failure> {
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

/// Fits the study's model with the other party, and writes the results.
///
/// Reasons to stop go into `stop` from anywhere and come out of `stopped`.
///
/// # Errors
/// Why there is no result; the others have been told.
pub async fn fit(
    job: &Job,
    stop: mpsc::Sender<Abort>,
    stopped: mpsc::Receiver<Abort>,
) -> Result<(Report, Exit), Failure> {
    let folder = Folder::of_results(job.out.as_deref(), &job.config.state)?;
    match job.study.guarantee {
        Guarantee::Plain => meet(&Fit { folder }, job, stop, stopped).await,
        Guarantee::Private(_) => meet(&PrivateFit { folder }, job, stop, stopped).await,
    }
}

struct Fit {
    folder: Folder,
}

impl Work for Fit {
    type Table = Prepared;
    type Session = VerticalSession;
    type Yield = Report;

    const COMMAND: &'static str = "fit";

    fn reader(&self, job: &Job) -> impl FnOnce() -> Result<Prepared, Failure> + Send + 'static {
        let (role, config, study) = (job.role, job.config.clone(), Arc::clone(&job.study));
        move || read_table(role, &config, &study)
    }

    fn rows(table: &Prepared) -> u64 {
        table.rows() as u64
    }

    fn session(&self, job: &Job, table: Prepared, opening: Opening) -> Result<VerticalSession, Failure> {
        privacy::record_plain(job, opening.run, || table.identifiers())?;
        Ok(VerticalSession::new(table, opening))
    }

    fn progress(session: &VerticalSession) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<VerticalSession>) -> Result<(Report, Exit), Failure> {
        let report = report(job, &met);
        let exit = exit_of(report.termination);
        let model = serde_json::to_string_pretty(&met.driven.output.model).unwrap_or_default();
        self.folder.report(&report)?;
        self.folder.write(MODEL, format!("{model}\n").as_bytes())?;
        tracing::info!("report and model are in {}", self.folder.path().display());
        Ok((report, exit))
    }
}

fn report(job: &Job, met: &Met<VerticalSession>) -> Report {
    let fit: &VerticalFit = &met.driven.output;
    let common = common_report(job, met);
    Report {
        coefficients: fit.coefficients.clone(),
        statistics: fit.statistics.clone(),
        rounds: fit.rounds,
        converged: Some(fit.termination.converged()),
        termination: fit.termination,
        tol: job.study.method.fit.tol,
        trace: fit.trace.clone(),
        notes: fit.notes.iter().cloned().chain(common.notes.clone()).collect(),
        missing: fit.missing,
        lambda: fit.shown_lambda,
        path: fit.path.clone(),
        cv: fit.cv.clone(),
        lambda_min: fit.lambda.map(|(best, _)| best),
        lambda_1se: fit.lambda.map(|(_, within)| within),
        certificate: PerParty::Own(Some(fit.certificate).filter(|certificate| certificate.is_finite())),
        disclosure: PerParty::Own(fit.disclosure.clone()),
        ..common
    }
}

/// What the reports of all kinds of fit have in common; what a fit yields is not in it yet.
pub(crate) fn common_report<S: Session>(job: &Job, met: &Met<S>) -> Report {
    let Job { role, study, .. } = job;
    let mut notes = Vec::new();
    if met.driven.reopened > 0 {
        let times = match met.driven.reopened {
            1 => "once".to_string(),
            count => format!("{count} times"),
        };
        notes.push(format!("the line to {} was lost and opened again {times}", role.partner()));
    }
    Report {
        protocol: study.protocol(),
        mode: study.mode(),
        study: study.head.id.clone(),
        study_digest: study.digest().to_string(),
        run: met.run.to_string(),
        date: Some(output::date()),
        version: VERSION.to_string(),
        role: Some(*role),
        call: job.call.clone(),
        family: study.method.family,
        link: study.method.family.link().to_string(),
        outcome: study.method.outcome.column.clone(),
        coefficients: Vec::new(),
        statistics: Statistics::default(),
        rounds: 0,
        converged: None,
        termination: Termination::FixedRounds,
        tol: f64::NAN,
        trace: Vec::new(),
        notes,
        missing: 0,
        lambda: None,
        path: None,
        cv: None,
        lambda_min: None,
        lambda_1se: None,
        certificate: PerParty::Own(None),
        bytes_sent: PerParty::Own(met.bytes_sent),
        peak_rss_bytes: PerParty::Own(output::peak_rss_bytes()),
        seconds: PerParty::Own(met.seconds),
        disclosure: PerParty::Own(Disclosure::default()),
        privacy: PerParty::Own(None),
        consolidation: None,
        workers: None,
        caution: None,
        course: None,
        comparison: None,
        function: None,
    }
}

/// The code for a fit that ended in some way.
pub fn exit_of(termination: Termination) -> Exit {
    termination.exit()
}

/// On which scale scores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Scale {
    /// That of the outcome: a mean, a probability or a rate
    #[default]
    Response,
    /// That of the linear predictor
    Link,
}

/// Scores new rows with the other party.
///
/// The scores come as CSV at the party that the study names, and as `None` at the other.
///
/// # Errors
/// Why there is no result; the others have been told.
pub async fn predict(
    job: &Job,
    model: &Path,
    scale: Scale,
    stop: mpsc::Sender<Abort>,
    stopped: mpsc::Receiver<Abort>,
) -> Result<(Option<String>, Exit), Failure> {
    match job.study.guarantee {
        Guarantee::Plain => {}
        Guarantee::Private(_) => {
            let sentence = "predictions are not made in private mode: a partial prediction of a new row is a release of its own, \
                            without a charge";
            return Err(Abort::Refused(sentence.to_string()).into());
        }
    }
    let folder = job.out.as_deref().map(Folder::prepare).transpose()?;
    let model = read_model(model)?;
    meet(&Predict { folder, model, scale }, job, stop, stopped).await
}

fn read_model(file: &Path) -> Result<Model, FileError> {
    let text = std::fs::read_to_string(file).map_err(|source| FileError::Read { file: file.to_path_buf(), source })?;
    serde_json::from_str(&text)
        .map_err(|error| FileError::Parse { file: file.to_path_buf(), problem: format!("not a model file: {error}") })
}

struct Predict {
    folder: Option<Folder>,
    model: Model,
    scale: Scale,
}

impl Work for Predict {
    type Table = NewRows;
    type Session = PredictSession;
    type Yield = Option<String>;

    const COMMAND: &'static str = "predict";

    fn reader(&self, job: &Job) -> impl FnOnce() -> Result<NewRows, Failure> + Send + 'static {
        let (role, config, study) = (job.role, job.config.clone(), Arc::clone(&job.study));
        let model = self.model.clone();
        move || {
            let frame = read_new_rows(role, &config, &study, &model)?;
            let table = NewRows::new(study, role, model, frame)?;
            let rows = table.rows();
            for (column, unusable) in table.unusable() {
                let what = "a missing value, or a level that the fit did not have: no score";
                let file = config.data.file.display();
                tracing::warn!("{file}: column `{column}` has in {unusable} of {rows} rows {what}");
            }
            Ok(table)
        }
    }

    fn rows(table: &NewRows) -> u64 {
        table.rows()
    }

    fn session(&self, job: &Job, table: NewRows, opening: Opening) -> Result<PredictSession, Failure> {
        privacy::record_plain(job, opening.run, || table.identifiers())?;
        Ok(PredictSession::new(table, opening))
    }

    fn progress(_session: &PredictSession) -> Option<Progress> {
        None
    }

    fn finish(&self, job: &Job, met: Met<PredictSession>) -> Result<(Option<String>, Exit), Failure> {
        let Some(scores) = met.driven.output else {
            tracing::info!("the scores are at {}", job.study.method.prediction.result_to);
            return Ok((None, Exit::Done));
        };
        if scores.without() > 0 {
            tracing::warn!(
                "{} of {} rows have no score (NA), as a value cannot be used at either party",
                scores.without(),
                scores.link.len()
            );
        }
        let id = job.study.head.rows.id.as_deref().unwrap_or("row");
        let text = scores_csv(id, &scores, self.scale);
        if let Some(folder) = &self.folder {
            folder.write(SCORES, text.as_bytes())?;
        }
        Ok((Some(text), Exit::Done))
    }
}

/// The shortest digits that read back as the same bits, and `NA` where there is no number.
pub(crate) fn shown(value: f64) -> String {
    if value.is_nan() { "NA".to_string() } else { format!("{value:?}") }
}

fn scores_csv(id: &str, scores: &Scores, scale: Scale) -> String {
    let (name, values) = match scale {
        Scale::Response => ("response", &scores.response),
        Scale::Link => ("link", &scores.link),
    };
    let mut text = format!("{},{name}\n", csv::field(id));
    for (row, value) in values.iter().enumerate() {
        let id = match &scores.ids {
            Some(ids) => String::from_utf8_lossy(ids.get(row).map_or(&[][..], Vec::as_slice)).into_owned(),
            None => (row + 1).to_string(),
        };
        text.push_str(&format!("{},{}\n", csv::field(&id), shown(*value)));
    }
    text
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
