//! What a party does, from its files to its results.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use fedreg_common::conversation::Opening;
use fedreg_common::data::matching::alignment::MatchPurpose;
use fedreg_common::exit::Exit;
use fedreg_common::methods::vertical::outcome::{Model, VerticalFit};
use fedreg_common::methods::vertical::predict::{NewRows, PredictSession, Scores, belongs};
use fedreg_common::methods::vertical::prepare::Prepared;
use fedreg_common::methods::vertical::sealed::SealedSession;
use fedreg_common::methods::vertical::session::{Progress, VerticalSession};
use fedreg_common::methods::vertical::several::{FitCentre, Hub, PredictCentre, SealedCentre};
use fedreg_common::report::{PerParty, Report, csv};
use fedreg_common::session::{Abort, Session};
use fedreg_common::study::VerticalGuarantee;
use fedreg_proto::files::FileError;
pub use fedreg_proto::output::chain;
use tokio::sync::mpsc;

pub use crate::failure::Failure;
pub use crate::job::{Job, study};
use crate::matching;
use crate::meet::{Met, Work, meet};
use crate::output::Folder;
use crate::private::{PrivateFit, SeveralFit, SeveralLeaderFit};
use crate::several::LeaderSession;
use crate::show::shown;
use crate::{openings, privacy, refit};

/// The model file in a folder of results.
pub const MODEL: &str = "model.json";

/// The file of scores there.
pub const SCORES: &str = "scores.csv";

/// Fits the study's model with the other party, and writes the results.
///
/// Reasons to stop go into `stop` from anywhere and come out of `stopped`.
///
/// # Errors
/// Why there is no result; the others have been told.
pub async fn fit(
    job: &Job,
    stop: mpsc::Sender<Abort>,
    mut stopped: mpsc::Receiver<Abort>,
) -> Result<(Report, Exit), Failure> {
    let stopped = &mut stopped;
    let folder = Folder::of_results(job.out.as_deref(), &job.config.state)?;
    if job.study.is_dealt() {
        // Known before anybody is contacted.
        job.party().dealer()?;
    }
    if matching::is_due(job.party(), MatchPurpose::Fit)? {
        tracing::info!("there is no match yet, and the study says `match.run = \"auto\"`: matching first");
        let job = Job { out: None, ..job.clone() };
        matching::run(&job, MatchPurpose::Fit, stop.clone(), stopped).await?;
    }
    match job.study.guarantee {
        VerticalGuarantee::Plain if job.study.leader_of_several() == Some(job.role) => {
            meet(&LeaderFit(Fit { folder }), job, stop, stopped).await
        }
        VerticalGuarantee::Plain => meet(&Fit { folder }, job, stop, stopped).await,
        VerticalGuarantee::Sealed(_) => sealed(folder, job, stop, stopped).await,
        VerticalGuarantee::Private(_) => match job.study.leader_of_several() {
            Some(leader) if leader == job.role => {
                meet(&SeveralLeaderFit(SeveralFit { folder }), job, stop, stopped).await
            }
            Some(_) => meet(&SeveralFit { folder }, job, stop, stopped).await,
            None => meet(&PrivateFit { folder }, job, stop, stopped).await,
        },
    }
}

#[derive(Clone)]
struct Fit {
    folder: Folder,
}

impl Work for Fit {
    type Table = Prepared;
    type Session = VerticalSession;
    type Yield = Report;

    const COMMAND: &'static str = "fit";

    fn read(&self, job: &Job) -> Result<Prepared, Failure> {
        job.party().table()
    }

    fn rows(table: &Prepared) -> u64 {
        table.rows() as u64
    }

    fn session(&self, job: &Job, table: Prepared, opening: Opening) -> Result<VerticalSession, Failure> {
        // At most every column and the outcome; how much it was is known at the end.
        let columns = table.term_names().len() as u64 + 1;
        privacy::record_plain(job, opening.run, table.rows() as u64 * columns, || table.identifiers())?;
        Ok(VerticalSession::new(table, opening))
    }

    fn progress(session: &VerticalSession) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<VerticalSession>) -> Result<(Report, Exit), Failure> {
        write_plain(&self.folder, job, &met)
    }
}

/// The fit of the leader of several parties.
#[derive(Clone)]
struct LeaderFit(Fit);

impl Work for LeaderFit {
    type Table = Prepared;
    type Session = LeaderSession<FitCentre>;
    type Yield = Report;

    const COMMAND: &'static str = "fit";

    fn read(&self, job: &Job) -> Result<Prepared, Failure> {
        self.0.read(job)
    }

    fn rows(table: &Prepared) -> u64 {
        Fit::rows(table)
    }

    fn session(&self, job: &Job, table: Prepared, opening: Opening) -> Result<LeaderSession<FitCentre>, Failure> {
        let columns = table.term_names().len() as u64 + 1;
        privacy::record_plain(job, opening.run, table.rows() as u64 * columns, || table.identifiers())?;
        let followers = job.study.peers(job.role);
        Ok(LeaderSession::new(Hub::fit(table, &opening), &followers)?)
    }

    fn progress(session: &LeaderSession<FitCentre>) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<LeaderSession<FitCentre>>) -> Result<(Report, Exit), Failure> {
        write_plain(&self.0.folder, job, &met)
    }
}

/// Counts what left in a plain fit, and writes its results.
fn write_plain<S: Session<Output: Borrow<VerticalFit>>>(
    folder: &Folder,
    job: &Job,
    met: &Met<S>,
) -> Result<(Report, Exit), Failure> {
    let fit: &VerticalFit = met.driven.output.borrow();
    if fit.statistics.nobs > 0 {
        privacy::count_plain(job, met.run, fit.disclosure.vectors.saturating_mul(fit.statistics.nobs))?;
    }
    write(folder, job, met, None)
}

/// How often a sealed fit is begun again after the other party, or its dealer's line, was lost.
const BEGUN_AGAIN: u32 = 3;

/// Before a sealed fit is begun again: for a party that was killed to be started by whatever watches over it.
const PAUSE: Duration = Duration::from_secs(1);

/// A sealed fit, from the start each time that the other party loses its masks: they are used once, and nobody else has them.
async fn sealed(
    folder: Folder,
    job: &Job,
    stop: mpsc::Sender<Abort>,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<(Report, Exit), Failure> {
    let mut work = SealedFit { folder, left: BEGUN_AGAIN };
    loop {
        let ended = match job.study.leader_of_several() == Some(job.role) {
            true => meet(&SealedLeaderFit(work.clone()), job, stop.clone(), stopped).await,
            false => meet(&work, job, stop.clone(), stopped).await,
        };
        let Err(failure) = &ended else { return ended };
        if !work.begins_again(failure) {
            return ended;
        }
        tracing::warn!("{}; nothing can be used of this run: beginning another, with fresh masks", chain(failure));
        tokio::time::sleep(PAUSE).await;
        // Others may have told of the same end; an interrupt is one still.
        while let Ok(abort) = stopped.try_recv() {
            if let Abort::Interrupted(_) = abort {
                return Err(abort.into());
            }
        }
        work.left -= 1;
    }
}

#[derive(Clone)]
struct SealedFit {
    folder: Folder,
    /// How often another run may follow this one.
    left: u32,
}

impl Work for SealedFit {
    type Table = Prepared;
    type Session = SealedSession;
    type Yield = Report;

    const COMMAND: &'static str = "fit";

    fn is_dealt(&self, _job: &Job) -> bool {
        true
    }

    fn read(&self, job: &Job) -> Result<Prepared, Failure> {
        openings::counted_here(job.party())?;
        job.party().table()
    }

    fn rows(table: &Prepared) -> u64 {
        table.rows() as u64
    }

    fn begins_again(&self, failure: &Failure) -> bool {
        self.left > 0 && failure.is_of_lost_masks()
    }

    fn session(&self, job: &Job, table: Prepared, opening: Opening) -> Result<SealedSession, Failure> {
        let account = openings::account(job, opening.run, &table)?;
        Ok(SealedSession::new(table, opening, account))
    }

    fn progress(session: &SealedSession) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<SealedSession>) -> Result<(Report, Exit), Failure> {
        let before = openings::before(&job.config, &BTreeSet::new(), Some(met.run))?;
        write(&self.folder, job, &met, openings::sentence(before))
    }
}

/// The sealed fit of the leader of several parties.
#[derive(Clone)]
struct SealedLeaderFit(SealedFit);

impl Work for SealedLeaderFit {
    type Table = Prepared;
    type Session = LeaderSession<SealedCentre>;
    type Yield = Report;

    const COMMAND: &'static str = "fit";

    fn is_dealt(&self, _job: &Job) -> bool {
        true
    }

    fn read(&self, job: &Job) -> Result<Prepared, Failure> {
        self.0.read(job)
    }

    fn rows(table: &Prepared) -> u64 {
        table.rows() as u64
    }

    fn begins_again(&self, failure: &Failure) -> bool {
        self.0.begins_again(failure)
    }

    fn session(&self, job: &Job, table: Prepared, opening: Opening) -> Result<Self::Session, Failure> {
        let account = openings::account(job, opening.run, &table)?;
        let followers = job.study.peers(job.role);
        Ok(LeaderSession::new(Hub::sealed(table, &opening, account), &followers)?)
    }

    fn progress(session: &Self::Session) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Report, Exit), Failure> {
        let before = openings::before(&job.config, &BTreeSet::new(), Some(met.run))?;
        write(&self.0.folder, job, &met, openings::sentence(before))
    }
}

/// Writes report and model where they belong.
fn write<S: Session<Output: Borrow<VerticalFit>>>(
    folder: &Folder,
    job: &Job,
    met: &Met<S>,
    note: Option<String>,
) -> Result<(Report, Exit), Failure> {
    let mut report = report(job, met);
    report.notes.extend(note);
    let exit = report.termination.exit();
    let model = serde_json::to_string_pretty(&met.driven.output.borrow().model).unwrap_or_default();
    folder.report(&report)?;
    folder.write(MODEL, format!("{model}\n").as_bytes())?;
    refit::keep(&job.config, met.driven.output.borrow().kept.as_ref())?;
    tracing::info!("report and model are in {}", folder.path().display());
    Ok((report, exit))
}

fn report<S: Session<Output: Borrow<VerticalFit>>>(job: &Job, met: &Met<S>) -> Report {
    let fit: &VerticalFit = met.driven.output.borrow();
    let common = met.report(job);
    Report {
        coefficients: fit.coefficients.clone(),
        errors: Some(job.study.method.inference.errors)
            .filter(|kind| !kind.is_model())
            .map(|kind| kind.name().to_string()),
        statistics: fit.statistics.clone(),
        covariance: fit.covariance.clone(),
        term_tests: fit.term_tests.clone(),
        performance: fit.performance.clone(),
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
    .with_derived()
    .cautioned(fit.caution.clone())
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
    mut stopped: mpsc::Receiver<Abort>,
) -> Result<(Option<String>, Exit), Failure> {
    match job.study.guarantee {
        VerticalGuarantee::Plain => {}
        VerticalGuarantee::Sealed(_) => {
            let sentence =
                "predictions are not made in sealed mode: they show each party's part of the score of every new row";
            return Err(Abort::Refused(sentence.to_string()).into());
        }
        VerticalGuarantee::Private(_) => {
            let sentence = "predictions are not made in private mode: a partial prediction of a new row is a release of its own, \
                            without a charge";
            return Err(Abort::Refused(sentence.to_string()).into());
        }
    }
    matching::is_due(job.party(), MatchPurpose::Predict)?;
    let folder = job.out.as_deref().map(Folder::prepare).transpose()?;
    let model = read_model(model)?;
    // Before the new rows are read by its formula.
    belongs(&model, &job.study, job.role)?;
    let work = Predict { folder, model, scale };
    match job.study.leader_of_several() == Some(job.role) {
        true => meet(&LeaderPredict(work), job, stop, &mut stopped).await,
        false => meet(&work, job, stop, &mut stopped).await,
    }
}

fn read_model(file: &Path) -> Result<Model, FileError> {
    let text = std::fs::read_to_string(file).map_err(|source| {
        if source.kind() != std::io::ErrorKind::NotFound {
            return FileError::Read { file: file.to_path_buf(), source };
        }
        let problem =
            format!("there is no such file: give --model with the `{MODEL}` that the fit wrote into its --out folder");
        FileError::Parse { file: file.to_path_buf(), problem }
    })?;
    serde_json::from_str(&text).map_err(|error| {
        let why = match error.is_data() {
            true => "give the `model.json` that a fit wrote here".to_string(),
            false => format!("it is cut off or damaged at line {}, column {}", error.line(), error.column()),
        };
        FileError::Parse { file: file.to_path_buf(), problem: format!("not a model file: {why}") }
    })
}

#[derive(Clone)]
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

    fn read(&self, job: &Job) -> Result<NewRows, Failure> {
        let Job { role, config, study, .. } = job;
        let frame = job.party().new_rows(&self.model)?;
        let table = NewRows::new(Arc::clone(study), *role, self.model.clone(), frame)?;
        let (file, rows) = (config.source(), table.rows());
        let (columns, functions) = table.unusable_by_kind();
        for (function, unusable) in functions {
            let what = "the function has no value there, or the fit did not have the level: no score";
            tracing::warn!(
                "{file}: `{function}` of the formula cannot be computed in {unusable} of {rows} rows: {what}"
            );
        }
        for (column, unusable) in columns {
            let what = "a missing value, or a level that the fit did not have: no score";
            tracing::warn!("{file}: column `{column}` has in {unusable} of {rows} rows {what}");
        }
        Ok(table)
    }

    fn rows(table: &NewRows) -> u64 {
        table.rows()
    }

    fn session(&self, job: &Job, table: NewRows, opening: Opening) -> Result<PredictSession, Failure> {
        privacy::record_plain(job, opening.run, table.rows(), || table.identifiers())?;
        Ok(PredictSession::new(table, opening))
    }

    fn progress(_session: &PredictSession) -> Option<Progress> {
        None
    }

    fn finish(&self, job: &Job, met: Met<PredictSession>) -> Result<(Option<String>, Exit), Failure> {
        self.write(job, met.driven.output.as_ref())
    }
}

impl Predict {
    /// Writes the scores, where they are.
    fn write(&self, job: &Job, scores: Option<&Scores>) -> Result<(Option<String>, Exit), Failure> {
        let Some(scores) = scores else {
            tracing::info!("the scores are at {}", job.study.result_to());
            return Ok((None, Exit::Done));
        };
        if scores.without() > 0 {
            tracing::warn!(
                "{} of {} rows have no score (NA), as a value cannot be used at a party",
                scores.without(),
                scores.link.len()
            );
        }
        let id = job.party().id_column().unwrap_or("row");
        let text = scores_csv(id, scores, self.scale);
        if let Some(folder) = &self.folder {
            folder.write(SCORES, text.as_bytes())?;
        }
        Ok((Some(text), Exit::Done))
    }
}

/// Scores at the leader of several parties.
#[derive(Clone)]
struct LeaderPredict(Predict);

impl Work for LeaderPredict {
    type Table = NewRows;
    type Session = LeaderSession<PredictCentre>;
    type Yield = Option<String>;

    const COMMAND: &'static str = "predict";

    fn read(&self, job: &Job) -> Result<NewRows, Failure> {
        self.0.read(job)
    }

    fn rows(table: &NewRows) -> u64 {
        table.rows()
    }

    fn session(&self, job: &Job, table: NewRows, opening: Opening) -> Result<Self::Session, Failure> {
        privacy::record_plain(job, opening.run, table.rows(), || table.identifiers())?;
        Ok(LeaderSession::new(Hub::predict(table, &opening), &job.study.peers(job.role))?)
    }

    fn progress(_session: &Self::Session) -> Option<Progress> {
        None
    }

    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Option<String>, Exit), Failure> {
        self.0.write(job, met.driven.output.as_ref().as_ref())
    }
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
