//! Alice, Bob and a coordinator on one machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::report::merge::merge;
use fedreg_common::report::{Report, json};
use fedreg_common::study::{
    CoordinatorTerms, FitTerms, HeldColumn, InferenceTerms, Mode, Model, PartyTerms, PenaltyTerms, PredictionTerms,
    Protocol, RowTerms, Study,
};
use fedreg_coordinator::config as coordinator_config;
use fedreg_party::check::size;
use fedreg_party::config::{Config, DataTerms, LedgerTerms, Overrides, PolicyTerms};
use fedreg_party::output::{self, Folder, Format};
use fedreg_party::privacy;
use fedreg_party::read;
use fedreg_party::service::Failure as PartyFailure;
use fedreg_proto::certs::{self, Authority, CertsError, NewFile, Subject, Validity};
use fedreg_proto::files::TlsTerms;

use crate::Failure;
use crate::arguments::{ModeName, Vertical};
use crate::bounds;
use crate::columns::{Split, split};
use crate::processes::{self, Process};

/// The shipped data, so that the demo runs from any folder.
const DIABETES: &str = include_str!("../data/diabetes.csv");

/// Days that the certificates of a rehearsal are valid.
const DAYS: u32 = 30;

pub(crate) fn run(arguments: &Vertical, call: String) -> Result<Exit, Failure> {
    if arguments.mode == ModeName::Sealed {
        return Err(Failure::usage("mode `sealed` is not in this version"));
    }
    let out = absolute(&arguments.out)?;
    let folder = folder(&out)?;
    let stage = Stage::set(arguments, &folder)?;
    processes::watch_for_interrupts()?;
    let [alice, bob] = stage.play()?;
    let mut merged = merge(&alice, &bob).map_err(|error| Failure::new(Exit::Internal, error))?;
    merged.call = call;
    folder.report(&merged).map_err(cannot_write)?;
    let text = match arguments.format {
        Format::Text => programme(&merged, &alice, &bob, &out),
        format => format.render(&merged),
    };
    output::print(&text).map_err(cannot_write)?;
    Ok(fedreg_party::service::exit_of(merged.termination))
}

fn folder(path: &Path) -> Result<Folder, Failure> {
    Folder::prepare(path).map_err(cannot_write)
}

fn cannot_write(error: output::OutputError) -> Failure {
    Failure::new(error.exit(), error)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .with_context(|| format!("`{}` is no path", path.display()))
        .map_err(|error| Failure::new(Exit::Usage, error))
}

/// The study's files in the demo's folder, ready to be looked at and run.
struct Stage<'a> {
    folder: &'a Folder,
    data: PathBuf,
    seed: String,
    private: bool,
}

impl<'a> Stage<'a> {
    fn set(arguments: &Vertical, folder: &'a Folder) -> Result<Stage<'a>, Failure> {
        let shipped = arguments.data.is_none();
        let data = match &arguments.data {
            Some(file) => absolute(file)?,
            None => {
                folder.write("diabetes.csv", DIABETES.as_bytes()).map_err(cannot_write)?;
                folder.path().join("diabetes.csv")
            }
        };
        let default = |given: &Option<String>, default: &str| given.clone().or(shipped.then(|| default.to_string()));
        let Some(outcome) = default(&arguments.outcome, "progression") else {
            return Err(Failure::usage("--data needs --outcome: which column is to be explained?"));
        };
        let id = default(&arguments.id, "id");
        let header = read::header(&data, None).map_err(|error| Failure::new(Exit::Data, error))?;
        let mut taken = vec![outcome.as_str()];
        taken.extend(
            [&id, &arguments.offset, &arguments.weights, &arguments.folds]
                .into_iter()
                .filter_map(|name| name.as_deref()),
        );
        let columns = split(&header, &taken, arguments.alice.as_deref(), arguments.bob.as_deref())?;
        let mut study = study(arguments, outcome, id, columns);
        if arguments.mode == ModeName::Private {
            study.mode = Mode::Private;
            study.privacy = Some(bounds::terms(arguments));
            study.columns = bounds::columns(arguments, &study.outcome.column)?;
            bounds::only_used(&mut study);
        }
        // Through the parser, so that the demo complains as every other program does.
        let text = toml::to_string_pretty(&study)
            .context("the study cannot be written")
            .map_err(|error| Failure::new(Exit::Internal, error))?;
        Study::parse(&text).map_err(Failure::usage)?;
        let private = arguments.mode == ModeName::Private;
        let stage = Stage { folder, data, seed: arguments.seed.to_string(), private };
        stage.write("study.toml", "What all parties agree on; each has the same file.", &text)?;
        stage.certificates().map_err(|error| Failure::new(error.exit(), error))?;
        Ok(stage)
    }

    fn write(&self, name: &str, what: &str, text: &str) -> Result<(), Failure> {
        let text = format!("# {what}\n# Written by `demo vertical`.\n\n{text}");
        self.folder.write(name, text.as_bytes()).map_err(cannot_write)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A fresh authority and a certificate for each role; the authority's key is not kept.
    fn certificates(&self) -> Result<(), CertsError> {
        let validity = Validity::days(time::OffsetDateTime::now_utc(), DAYS)?;
        let made = Authority::create("demo authority", validity)?;
        let place = self.path("certificates/authority.pem");
        let authority = Authority::from_pem(&made.pem, &made.key, (&place, &place))?;
        let write = |path: &Path, contents: &str, secret| certs::write(&[NewFile { path, contents, secret }], true);
        write(&place, &made.pem, false)?;
        for name in ["coordinator", "alice", "bob"] {
            let issued = authority.issue(&Subject::new(name, &[])?, validity)?;
            write(&self.path(&format!("certificates/{name}.key")), &issued.key, true)?;
            write(&self.path(&format!("certificates/{name}.pem")), &issued.pem, false)?;
        }
        Ok(())
    }

    /// Runs the processes to their end and reads what Alice and Bob report.
    fn play(&self) -> Result<[Report; 2], Failure> {
        let address = |role: Role| self.path(&format!("{role}.address"));
        for role in [Role::Coordinator, Role::Alice, Role::Bob] {
            folder(&self.path(role.name()))?;
            // Every rehearsal begins with its whole budget. Only here: no other program ever removes a ledger.
            for ledger in [format!("{role}/privacy.sqlite"), format!("anchors/{role}.anchor")] {
                let _ = fs::remove_file(self.path(&ledger));
            }
            // A file of an earlier rehearsal would be taken for this one's.
            for stale in [address(role), self.path(&format!("{role}/report.json"))] {
                let _ = fs::remove_file(stale);
            }
        }
        let mut coordinator = self.coordinator(&address(Role::Coordinator))?;
        let convened = coordinator.address(&address(Role::Coordinator))?;
        let mut alice = self.party(Role::Alice, &convened, None, &address(Role::Alice))?;
        let listening = alice.address(&address(Role::Alice))?;
        let mut bob = self.party(Role::Bob, &convened, Some(listening), &address(Role::Bob))?;
        let ends = processes::wait([&mut alice, &mut bob])?;
        processes::wait([&mut coordinator])?;
        for role in [Role::Coordinator, Role::Alice] {
            let _ = fs::remove_file(address(role));
        }
        // The side that found the reason says it best; the other only repeats that it was told.
        let aborted = |exit: &Exit| !matches!(exit, Exit::Done | Exit::NotConverged);
        if let Some(exit) = ends.iter().copied().find(|exit| aborted(exit)) {
            for process in [&alice, &bob] {
                eprintln!("{}", process.last_words());
            }
            let sentence = format!("the run was ended; logs are in {}", self.folder.path().display());
            return Err(Failure::new(exit, anyhow::anyhow!(sentence)));
        }
        Ok([self.report(Role::Alice)?, self.report(Role::Bob)?])
    }

    fn coordinator(&self, announce: &Path) -> Result<Process, Failure> {
        let config = coordinator_config::Config {
            study: "study.toml".into(),
            listen: "127.0.0.1:0".to_string(),
            state: "coordinator".into(),
            wait: 60,
            tls: TlsTerms {
                authority: "certificates/authority.pem".into(),
                certificate: "certificates/coordinator.pem".into(),
                key: "certificates/coordinator.key".into(),
            },
        };
        self.write("coordinator.toml", "The coordinator's own file; port 0 takes any free port.", &config.print())?;
        let (config, announce) = (shown(&self.path("coordinator.toml")), shown(announce));
        Process::start(
            Role::Coordinator,
            &["serve", "--config", &config, "--announce", &announce],
            &self.path("coordinator/log.txt"),
        )
    }

    fn party(
        &self,
        role: Role,
        coordinator: &str,
        connect: Option<String>,
        announce: &Path,
    ) -> Result<Process, Failure> {
        let listen = connect.is_none().then(|| "127.0.0.1:0".to_string());
        let config = Config {
            study: "study.toml".into(),
            coordinator: coordinator.to_string(),
            listen,
            connect,
            state: role.name().into(),
            wait: 60,
            data: DataTerms {
                // Both read the user's file, each its own columns only: a copy would only cost time and space.
                file: self.data.clone(),
                separator: None,
            },
            tls: TlsTerms {
                authority: "certificates/authority.pem".into(),
                certificate: format!("certificates/{role}.pem").into(),
                key: format!("certificates/{role}.key").into(),
            },
            policy: PolicyTerms::default(),
            privacy: LedgerTerms {
                data_set: Some("rehearsal".to_string()),
                anchor: self.private.then(|| format!("anchors/{role}.anchor").into()),
                ..LedgerTerms::default()
            },
        };
        let file = format!("{role}.toml");
        self.write(&file, "A private file: no other party ever sees it.", &config.print())?;
        if self.private {
            let overrides = Overrides { config: Some(self.path(&file)), ..Overrides::default() };
            let made = Config::load(role, &overrides).map_err(PartyFailure::from).and_then(|config| {
                privacy::init(role, &config)?;
                if let Some(complaint) = privacy::complaint(role, &config) {
                    eprintln!("demo: {role}: {complaint}; rows that cannot be used count as zeros in a private run");
                }
                Ok(())
            });
            made.map_err(|failure| {
                let exit = failure.exit();
                Failure::new(exit, anyhow::anyhow!("{role}: {}", fedreg_party::service::chain(&failure)))
            })?;
        }
        let (config, out, announce) = (shown(&self.path(&file)), shown(&self.path(role.name())), shown(announce));
        Process::start(
            role,
            &["fit", "--config", &config, "--out", &out, "--seed", &self.seed, "--announce", &announce],
            &self.path(&format!("{role}/log.txt")),
        )
    }

    fn report(&self, role: Role) -> Result<Report, Failure> {
        let path = self.path(&format!("{role}/report.json"));
        fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))
            .and_then(|text| json::parse(&text).with_context(|| format!("{}", path.display())))
            .map_err(|error| Failure::new(Exit::Internal, error))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn study(arguments: &Vertical, outcome: String, id: Option<String>, columns: Split) -> Study {
    let party = |role: Role, columns: Vec<String>| {
        let terms = PartyTerms { certificate: role.name().to_string(), columns, formula: None };
        (role, terms)
    };
    let shared =
        |column: &Option<String>| column.clone().map(|column| HeldColumn { column, held_by: Default::default() });
    Study {
        id: "demo".to_string(),
        protocol: Protocol::Vertical,
        mode: Mode::Plain,
        privacy: None,
        parties: BTreeMap::from([party(Role::Alice, columns.alice), party(Role::Bob, columns.bob)]),
        coordinator: CoordinatorTerms::default(),
        model: Model { family: arguments.family.into(), intercept: true },
        outcome: HeldColumn { column: outcome, held_by: arguments.outcome_at.into() },
        offset: shared(&arguments.offset),
        weights: shared(&arguments.weights),
        columns: BTreeMap::new(),
        rows: RowTerms { id, missing: arguments.missing.into() },
        penalty: arguments.lambda.clone().map(|lambda| PenaltyTerms {
            lambda,
            alpha: arguments.alpha,
            cv: arguments.cv,
            folds: arguments.folds.clone(),
        }),
        fit: FitTerms {
            acceleration: arguments.acceleration.into(),
            tol: arguments.tol,
            max_rounds: arguments.max_rounds,
            ..FitTerms::default()
        },
        inference: InferenceTerms { allowed: !arguments.no_inference, ..InferenceTerms::default() },
        prediction: PredictionTerms::default(),
    }
}

/// All that is shown of a run: the merged summary, each party's own, and what each side saw.
fn programme(merged: &Report, alice: &Report, bob: &Report, out: &Path) -> String {
    let mut text = Format::Text.render(merged);
    for (role, report) in [(Role::Alice, alice), (Role::Bob, bob)] {
        text.push_str(&format!("\n{}\n", heading(&format!("what {role} may see"))));
        text.push_str(&Format::Text.render(report));
    }
    text.push_str(&format!("\n{}\n", heading("what each side saw")));
    for (role, peer) in [(Role::Alice, bob), (Role::Bob, alice)] {
        let (Some(disclosure), Some(bytes)) = (peer.disclosure.of(role), peer.bytes_sent.of(role)) else {
            continue;
        };
        if merged.mode == Mode::Private.name() {
            let sent =
                peer.privacy.of(role.partner()).and_then(Option::as_ref).and_then(|account| account.get("releases"));
            let releases = sent.and_then(|releases| releases.as_array()).map_or(0, Vec::len);
            text.push_str(&format!(
                "{role} saw from {}: {} vector{} with a noised value a row, and coefficients, in {}; {releases} releases were charged\n",
                role.partner(),
                merged.rounds,
                if merged.rounds == 1 { "" } else { "s" },
                size(*bytes),
            ));
            continue;
        }
        let most = disclosure
            .columns
            .iter()
            .max_by(|a, b| a.share.total_cmp(&b.share))
            .map(|column| format!("; of `{}` {role} could reconstruct {:.1} %", column.term, 100.0 * column.share))
            .unwrap_or_default();
        text.push_str(&format!(
            "{role} saw from {}: {} vectors with a value a row, of rank {}, in {}{most}\n  kinds: {}\n",
            role.partner(),
            disclosure.vectors,
            disclosure.rank,
            size(*bytes),
            disclosure.declared.join(", "),
        ));
    }
    let gradients = if merged.mode == Mode::Private.name() { "" } else { ", gradients" };
    text.push_str(&format!(
        "the coordinator saw: certificate names, digests of the study's keys, phases, rounds{gradients} and bytes; no data\n",
    ));
    text.push_str(&format!("\nReports and the study's files are in {}\n", out.display()));
    text
}

fn heading(title: &str) -> String {
    format!("--- {title} {}", "-".repeat(90_usize.saturating_sub(title.len())))
}
