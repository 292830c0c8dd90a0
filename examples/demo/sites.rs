//! What rehearsals of many sites share: the user's table, split among workers, and a study of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fedreg_common::data::{Column, DataError, Frame, Values, advice};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::report::{PerParty, Report};
use fedreg_common::study::{
    ColumnTerms, CoordinatorTerms, DesignTerms, FitTerms, Guarantee, HeldColumn, InferenceTerms, Mechanism, Mode,
    Model, PredictionTerms, PrivacyTerms, Protocol, RowTerms, SiteTerms, Sites, Study, StudyFile, WorkerTerms,
};
use fedreg_party::config::{DataTerms, LedgerTerms, TableFlags};
use fedreg_party::output::{self, Folder, Format};
use fedreg_party::read::{self, ReadError, Request};
use fedreg_party::service::Failure as PartyFailure;
use fedreg_party::worker::config::{Config, Overrides, PolicyTerms};
use fedreg_party::worker::privacy::init;
use fedreg_proto::telemetry::say;

use crate::Failure;
use crate::arguments::{Common, DEFAULT_ACCOUNTANT, DEFAULT_DELTA, DEFAULT_EPSILON, ModeName};
use crate::bounds::{self, Bounds};
use crate::columns::{list, refuse_syntax};
use crate::processes::{self, Process};
use crate::stage::{Stage, cannot_write, folder, shown};

/// Workers whose complaints are shown when a run fails.
const LAST_WORDS: usize = 5;

/// Different texts that a feature may always have; beyond, a tenth as many as rows.
const MOST_TEXTS: usize = 50;

/// Data that are shipped, so that the demo runs from any folder.
pub(crate) struct Shipped {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Empty for none.
    pub(crate) outcome: &'static str,
    /// Public ranges and levels, in TOML.
    pub(crate) bounds: &'static str,
}

/// The user's table.
pub(crate) struct Rows {
    frame: Frame,
    /// Empty for none.
    pub(crate) outcome: String,
    pub(crate) features: Vec<String>,
    /// A column that says whose a row is.
    pub(crate) person: Option<String>,
    pub(crate) count: u64,
    shipped: Option<&'static str>,
}

pub(crate) struct Asked<'a> {
    pub(crate) data: Option<&'a Path>,
    /// How it is written.
    pub(crate) table: &'a TableFlags,
    pub(crate) outcome: Option<&'a str>,
    /// With the flag that they came from.
    pub(crate) features: Option<(&'a str, &'static str)>,
    pub(crate) person: Option<&'a str>,
    /// The flag that names such a column, where there is one.
    pub(crate) identifies: Option<&'static str>,
    /// The flag that names the features.
    pub(crate) lists: &'static str,
    /// Whether there is an outcome.
    pub(crate) explains: bool,
}

impl Asked<'_> {
    /// That a column of so many texts is hardly a feature.
    fn identifier(&self, column: &str, texts: &str) -> Failure {
        let lists = self.lists;
        let remedy = match self.identifies.filter(|_| self.person.is_none()) {
            Some(flag) => format!("give {flag} {column}, or {lists}"),
            None => format!("give {lists}"),
        };
        let sentence = format!("column `{column}` has {texts} different texts; is it an identifier? {remedy}");
        Failure::new(Exit::Data, anyhow::anyhow!(sentence))
    }
}

impl Rows {
    pub(crate) fn read(asked: &Asked<'_>, shipped: &Shipped, place: &Folder) -> Result<Rows, Failure> {
        let refused = |error: ReadError| Failure::new(error.exit(), anyhow::Error::new(error));
        let own: PathBuf = match asked.data {
            Some(file) => crate::stage::located(file)?,
            None => {
                place.write(shipped.name, shipped.text.as_bytes()).map_err(cannot_write)?;
                place.path().join(shipped.name)
            }
        };
        let outcome = match (asked.explains, asked.outcome, asked.data) {
            (false, ..) => String::new(),
            (true, Some(outcome), _) => outcome.to_string(),
            (true, None, None) => shipped.outcome.to_string(),
            (true, None, Some(_)) => {
                return Err(Failure::usage("--data needs --outcome: which column is to be explained?"));
            }
        };
        let written = asked.table.written().map_err(Failure::usage)?;
        let own = asked.table.terms(own).map_err(Failure::usage)?.source();
        let header = read::header(&own, written.separator).map_err(refused)?;
        let features = match asked.features {
            Some((names, flag)) => {
                let names = list(names, flag)?;
                refuse_syntax(&names, &header)?;
                names
            }
            None => {
                header.iter().filter(|name| **name != outcome && Some(name.as_str()) != asked.person).cloned().collect()
            }
        };
        if features.contains(&outcome) {
            return Err(Failure::usage(format!("column `{outcome}` is the outcome and cannot be a predictor too")));
        }
        let mut columns = features.clone();
        columns.extend(Some(outcome.clone()).filter(|name| !name.is_empty()));
        if let Some(person) = asked.person.filter(|person| columns.iter().any(|name| name == person)) {
            let flag = asked.identifies.unwrap_or("--id");
            return Err(Failure::usage(format!(
                "column `{person}` is the one of {flag} and cannot be in the model too"
            )));
        }
        let id = asked.person.map(str::to_string);
        let request = Request { columns: Some(columns), id, written, ..Request::default() };
        let frame = read::read(&own, &request).map_err(|error| match error {
            ReadError::Data { source: DataError::TooManyLevels { column, most, .. }, .. } => {
                asked.identifier(&column, &format!("more than {most}"))
            }
            error => refused(error),
        })?;
        let names = || features.iter().map(String::as_str);
        match advice::refuse_identifiers(&frame, names()) {
            Err(DataError::Identifier { column, rows }) => return Err(asked.identifier(&column, &rows.to_string())),
            other => other.map_err(|error| Failure::new(Exit::Data, error))?,
        }
        if asked.features.is_none() {
            for name in &features {
                if let Ok(Column { values: Values::Categorical { levels, .. }, .. }) = frame.column(name)
                    && levels.len() > MOST_TEXTS
                    && levels.len() > frame.rows() / 10
                {
                    return Err(asked.identifier(name, &levels.len().to_string()));
                }
            }
        }
        advice::advice(&frame, names()).iter().for_each(|advice| say(&format!("demo: {advice}")));
        let count = frame.rows() as u64;
        let person = asked.person.map(str::to_string);
        let shipped = asked.data.is_none().then_some(shipped.bounds);
        Ok(Rows { frame, outcome, features, person, count, shipped })
    }

    /// Some rows of the table as a file of its own.
    pub(crate) fn file(&self, rows: impl Iterator<Item = usize>) -> Result<Vec<u8>, Failure> {
        self.file_with(rows, |_, outcome| outcome)
    }

    /// The same with other outcomes: of a row and what it has.
    pub(crate) fn file_with(
        &self,
        rows: impl Iterator<Item = usize>,
        outcome: impl Fn(usize, f64) -> f64,
    ) -> Result<Vec<u8>, Failure> {
        self.written(rows, outcome).map_err(|error| Failure::new(Exit::Data, error))
    }

    fn written(
        &self,
        rows: impl Iterator<Item = usize>,
        outcome: impl Fn(usize, f64) -> f64,
    ) -> Result<Vec<u8>, anyhow::Error> {
        let mut names: Vec<&str> = self.features.iter().map(String::as_str).collect();
        names.extend(Some(self.outcome.as_str()).filter(|name| !name.is_empty()));
        let columns = names.iter().map(|name| self.frame.column(name)).collect::<Result<Vec<_>, DataError>>()?;
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(names.iter().copied().chain(self.person.as_deref()))?;
        let mut cell = String::new();
        for row in rows {
            for (name, column) in names.iter().zip(&columns) {
                cell.clear();
                if !column.values.is_missing(row) {
                    match &column.values {
                        Values::Numeric(values) if *name == self.outcome => {
                            write!(cell, "{:?}", outcome(row, values[row]))?
                        }
                        Values::Numeric(values) => write!(cell, "{:?}", values[row])?,
                        Values::Boolean(values) => write!(cell, "{}", values[row] == Some(true))?,
                        Values::Categorical { codes, levels, .. } => cell.push_str(&levels[codes[row] as usize]),
                    }
                }
                writer.write_field(&cell)?;
            }
            if let Some(ids) = self.frame.ids() {
                writer.write_field(ids.bytes(row))?;
            }
            writer.write_record(None::<&[u8]>)?;
        }
        Ok(writer.into_inner().map_err(|error| error.into_error())?)
    }

    /// The table.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Numbers of a column.
    pub(crate) fn numbers(&self, column: &str) -> Option<&[f64]> {
        match &self.frame.column(column).ok()?.values {
            Values::Numeric(values) => Some(values),
            _ => None,
        }
    }

    /// What the study says of the columns, and whether that was taken from the data.
    pub(crate) fn columns(&self, common: &Common) -> Result<(BTreeMap<String, ColumnTerms>, bool), Failure> {
        let (bounds, from_data) = self.bounds(common)?;
        bounds.row_norms([])?;
        Ok((bounds.columns, from_data))
    }

    /// The same with the norms of rows.
    pub(crate) fn bounds(&self, common: &Common) -> Result<(Bounds, bool), Failure> {
        let mut bounds = match (&common.bounds, self.shipped) {
            (Some(file), _) => bounds::of_file(file, &self.outcome)?,
            (None, Some(text)) => bounds::parse(Path::new("the shipped bounds"), text, &self.outcome)?,
            (None, None) if common.mode == ModeName::Private => {
                return Err(bounds::missing());
            }
            (None, None) => return Ok((Bounds::of_columns(self.found()?), true)),
        };
        let used = |name: &String| *name == self.outcome || self.features.contains(name);
        bounds.columns.retain(|name, _| used(name));
        Ok((bounds, false))
    }

    /// The levels of columns that are not numeric.
    pub(crate) fn levels(&self) -> Result<BTreeMap<String, ColumnTerms>, Failure> {
        let mut columns = BTreeMap::new();
        for name in &self.features {
            let levels = match &self.frame.column(name).map_err(|error| Failure::new(Exit::Data, error))?.values {
                Values::Numeric(_) => continue,
                Values::Boolean(_) => vec!["FALSE".to_string(), "TRUE".to_string()],
                Values::Categorical { levels, .. } => levels.clone(),
            };
            columns.insert(name.clone(), ColumnTerms::of_levels(levels));
        }
        Ok(columns)
    }

    fn found(&self) -> Result<BTreeMap<String, ColumnTerms>, Failure> {
        let mut columns = BTreeMap::new();
        for name in self.features.iter().chain(Some(&self.outcome).filter(|name| !name.is_empty())) {
            let column = self.frame.column(name).map_err(|error| Failure::new(Exit::Data, error))?;
            let terms = match &column.values {
                Values::Numeric(values) => {
                    let finite = || values.iter().copied().filter(|value| value.is_finite());
                    let (low, high) =
                        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
                    if !(low < high) {
                        return Err(Failure::new(
                            Exit::Data,
                            anyhow::anyhow!("column `{name}` does not vary: it has no range"),
                        ));
                    }
                    ColumnTerms::of_range(low, high)
                }
                Values::Boolean(_) => ColumnTerms::of_levels(vec!["FALSE".to_string(), "TRUE".to_string()]),
                Values::Categorical { levels, .. } => ColumnTerms::of_levels(levels.clone()),
            };
            columns.insert(name.clone(), terms);
        }
        Ok(columns)
    }
}

/// A study of the rows, as far as methods do not differ.
pub(crate) fn study(protocol: Protocol, rows: &Rows, common: &Common, batch_rows: u64) -> StudyFile {
    let width = common.workers.to_string().len();
    let workers = (1..=common.workers)
        .map(|at| format!("worker-{at:0width$}"))
        .map(|name| (name.clone(), WorkerTerms { certificate: name, rows: None }))
        .collect();
    let private = common.mode == ModeName::Private;
    StudyFile {
        id: "demo".to_string(),
        protocol,
        mode: if private { Mode::Private } else { Mode::Plain },
        privacy: private.then(|| PrivacyTerms {
            mechanism: Mechanism::Residual,
            epsilon: common.epsilon.unwrap_or(DEFAULT_EPSILON),
            delta: Some(common.delta.unwrap_or(DEFAULT_DELTA)),
            accountant: common.accountant.unwrap_or(DEFAULT_ACCOUNTANT),
            rounds: 1,
            clip: 0.3,
            ridge: 0.0,
            design: DesignTerms::default(),
            large_epsilon: None,
        }),
        parties: BTreeMap::new(),
        workers,
        leader: None,
        order: Vec::new(),
        coordinator: CoordinatorTerms::default(),
        dealer: None,
        sealed: None,
        model: Model { features: rows.features.clone(), ..Model::default() },
        outcome: HeldColumn { column: rows.outcome.clone(), held_by: Default::default() },
        offset: None,
        weights: None,
        columns: BTreeMap::new(),
        rows: RowTerms { id: rows.person.clone().filter(|_| private), ..RowTerms::default() },
        matching: None,
        penalty: None,
        fit: FitTerms::default(),
        inference: InferenceTerms::default(),
        prediction: PredictionTerms::default(),
        sites: Some(SiteTerms { batch_rows, ..SiteTerms::default() }),
        robust: None,
        em: None,
        features: None,
        stream: None,
    }
}

/// Contiguous blocks of so many of these rows.
pub(crate) fn blocks(rows: &[usize], workers: u64) -> Vec<&[usize]> {
    let (count, workers) = (rows.len(), usize::try_from(workers).unwrap_or(1));
    (0..workers).map(|at| &rows[at * count / workers..(at + 1) * count / workers]).collect()
}

/// Runs all processes of a study to their end, and gives the coordinator's report.
pub(crate) fn rehearse(
    place: &Folder,
    command: &'static str,
    study: &StudyFile,
    rows: &Rows,
    shared: &[usize],
) -> Result<Report, Failure> {
    rehearse_with(place, command, study, shared, |block| rows.file(block.iter().copied()))
}

/// The same with what a worker's file holds.
pub(crate) fn rehearse_with(
    place: &Folder,
    command: &'static str,
    study: &StudyFile,
    shared: &[usize],
    file: impl Fn(&[usize]) -> Result<Vec<u8>, Failure>,
) -> Result<Report, Failure> {
    let stage = Stage::new(place, command);
    let Some(study) = stage.study(study)?.sites() else {
        return Err(Failure::usage("a study of two parties has no sites"));
    };
    let workers = &study.method.workers;
    let mut names: Vec<&str> = workers.keys().map(String::as_str).collect();
    if shared.len() < names.len() {
        return Err(Failure::usage(format!("{} rows cannot be split among {} workers", shared.len(), names.len())));
    }
    names.push("coordinator");
    stage.certificates(&names)?;
    processes::watch_for_interrupts()?;
    for (name, block) in workers.keys().zip(blocks(shared, workers.len() as u64)) {
        folder(&stage.path(name))?.write("rows.csv", &file(block)?).map_err(cannot_write)?;
    }
    play(&stage, &study)?;
    match study.guarantee {
        Guarantee::Plain => return stage.report("coordinator"),
        Guarantee::Private(_) => {}
    }
    let mut accounts = BTreeMap::new();
    for name in workers.keys() {
        // A worker that left early has none.
        if stage.path(&format!("{name}/report.json")).is_file()
            && let PerParty::Own(Some(account)) = stage.report(name)?.privacy
        {
            accounts.insert(name.clone(), account);
        }
    }
    let mut merged = stage.report("coordinator")?;
    merged.privacy = match merged.privacy {
        PerParty::Own(promise) => PerParty::Own(promise.map(|promise| promise.with_sites(accounts))),
        by_role => by_role,
    };
    Ok(merged)
}

/// Writes the workers' private files and runs all processes to their end.
fn play(stage: &Stage<'_>, study: &Study<Sites>) -> Result<(), Failure> {
    let workers = &study.method.workers;
    let private = match study.guarantee {
        Guarantee::Plain => false,
        Guarantee::Private(_) => true,
    };
    for name in workers.keys().map(String::as_str).chain(["coordinator"]) {
        folder(&stage.path(name))?;
        // A file of an earlier rehearsal would be taken for this one's; and every rehearsal begins with its whole budget. Only here: no
        // other program ever removes a ledger.
        for stale in ["report.json", "privacy.sqlite", "stream.sqlite", "stream.sqlite-wal", "stream.sqlite-shm"] {
            let _ = fs::remove_file(stage.path(&format!("{name}/{stale}")));
        }
        let _ = fs::remove_file(stage.path(&format!("anchors/{name}.anchor")));
    }
    for stale in
        ["coordinator.address", "coordinator/run.sqlite", "coordinator/run.sqlite-wal", "coordinator/run.sqlite-shm"]
    {
        let _ = fs::remove_file(stage.path(stale));
    }
    let reports = shown(&stage.path("coordinator"));
    let (mut coordinator, address) = stage.coordinator(&["--out", &reports])?;
    let mut running = Vec::new();
    for name in workers.keys() {
        let config = Config {
            study: "study.toml".into(),
            coordinator: address.clone(),
            state: name.into(),
            wait: 60,
            // The parts are written anew, as every reader understands them.
            data: DataTerms {
                file: format!("{name}/rows.csv").into(),
                table: None,
                query: None,
                separator: None,
                na_values: Vec::new(),
                decimal: None,
            },
            tls: Stage::tls(name),
            policy: PolicyTerms::default(),
            privacy: LedgerTerms {
                data_set: Some("rehearsal".to_string()),
                anchor: private.then(|| format!("anchors/{name}.anchor").into()),
                ..LedgerTerms::default()
            },
        };
        let file = format!("{name}.toml");
        stage.write(&file, "A private file: nobody else ever sees it.", &config.print())?;
        if private {
            let overrides = Overrides { config: Some(stage.path(&file)), ..Overrides::default() };
            let made = Config::load(&overrides).map_err(PartyFailure::from).and_then(|config| init(&config));
            made.map_err(|failure| {
                Failure::new(failure.exit(), anyhow::anyhow!("{name}: {}", fedreg_party::service::chain(&failure)))
            })?;
        }
        let (config, out) = (shown(&stage.path(&file)), shown(&stage.path(name)));
        let log = stage.path(&format!("{name}/log.txt"));
        running.push(Process::start(Role::Worker, name, &["join", "--config", &config, "--out", &out], &log)?);
    }
    let mut all: Vec<&mut Process> = running.iter_mut().collect();
    let ends = processes::wait(&mut all)?;
    let end = processes::wait(&mut [&mut coordinator])?;
    let _ = fs::remove_file(stage.path("coordinator.address"));
    let aborted = |exit: &Exit| !matches!(exit, Exit::Done | Exit::NotConverged);
    let failed: Vec<Exit> = ends.into_iter().filter(aborted).collect();
    let failures = running.iter().filter(|process| process.exit().as_ref().is_some_and(aborted));
    let words: Vec<String> = failures.map(Process::last_words).collect();
    words.iter().take(LAST_WORDS).for_each(|words| say(words));
    if words.len() > LAST_WORDS {
        say(&format!("... and {} more workers", words.len() - LAST_WORDS));
    }
    match end.first().filter(|exit| aborted(exit)) {
        None => Ok(()),
        Some(exit) => {
            say(&coordinator.last_words());
            let exit = failed.into_iter().find(|exit| *exit == Exit::Data).unwrap_or(*exit);
            let sentence = format!("the run was ended; logs are in {}", stage.path("").display());
            Err(Failure::new(exit, anyhow::anyhow!(sentence)))
        }
    }
}

/// Writes and prints what came of a rehearsal.
pub(crate) fn show(
    place: &Folder,
    merged: &Report,
    study: &StudyFile,
    format: Format,
    more: &[String],
) -> Result<Exit, Failure> {
    place.report(merged).map_err(cannot_write)?;
    let text = match format {
        Format::Text => {
            let mut text = Format::Text.render(merged);
            text.push('\n');
            for line in more {
                let _ = writeln!(text, "{line}");
            }
            for row in merged.workers.iter().flatten() {
                let size = fedreg_party::check::size(row.bytes);
                let plural = if row.contributions == 1 { "" } else { "s" };
                let _ = writeln!(
                    text,
                    "the coordinator saw from {}: {} contribution{plural} in {size}",
                    row.worker, row.contributions
                );
            }
            let _ = match study.workers.len() {
                1 => writeln!(text, "the worker saw: the result"),
                workers => writeln!(text, "each of the {workers} workers saw: the result"),
            };
            let _ = writeln!(text, "\nReports and the study's files are in {}", place.path().display());
            text
        }
        format => format.render(merged),
    };
    output::print(&text).map_err(cannot_write)?;
    Ok(merged.termination.exit())
}

/// What is said where ranges were taken from the data.
pub(crate) const FROM_DATA: &str = "ranges and levels were taken from the data, which only a rehearsal in plain mode may do; give --bounds for your own";

/// Why a number that has no noise is not shown in private mode.
pub(crate) const RAW: &str = "it would be a number without noise of your file; plain mode and the shipped data have it";

/// Whether numbers that are computed of all rows in one place, without noise, may be shown beside the result: of the shipped data, and of
/// one's own where no guarantee stands beside them.
pub(crate) fn shown_raw(common: &Common, data: Option<&Path>) -> bool {
    common.mode != ModeName::Private || data.is_none()
}
