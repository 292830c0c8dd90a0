//! Parties by any names, two or several, and a coordinator on one machine: the leader listens, and all others dial it.

use std::fs;
use std::path::Path;

use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::report::reconstructible;
use fedreg_common::methods::vertical::report::sealed::{opened_in_words, predictable};
use fedreg_common::report::Report;
use fedreg_common::report::merge::merge_all;
use fedreg_common::study::statement::Statement;
use fedreg_common::study::{Mode, Study, StudyFile};
use fedreg_party::check::size;
use fedreg_party::config::{Config, LedgerTerms, MatchConfig, PolicyTerms};
use fedreg_party::output::{self, Folder, Format};
use fedreg_party::refit::TABLE;
use fedreg_proto::telemetry::say;

use crate::Failure;
use crate::arguments::{SealedLimits, Vertical};
use crate::bounds;
use crate::columns::{Own, Part, of_one_table};
use crate::head::head;
use crate::processes::{self, Process};
use crate::stage::{ANY_PORT, Place, Stage, as_study, cannot_write, folder, heading, shown};
use crate::vertical::{LOOSENED, Source, guarantee, look, programme as of_two, register, study, sub_models};

/// Runs a study of the parties that `--parties` names.
pub(crate) fn run(arguments: &Vertical, parties: &[(Role, String)], call: String) -> Result<Exit, Failure> {
    let scene = Place::of(&arguments.out, arguments.as_study.as_deref(), &arguments.places)?;
    let folder = scene.folder();
    let (source, file) = script(arguments, parties, folder)?;
    if let Some(dir) = &arguments.as_study {
        return as_study((dir, &arguments.places), &file, None);
    }
    let out = folder.path().to_path_buf();
    let play = Play::set(arguments, folder, source, file)?;
    processes::watch_for_interrupts()?;
    let reports = play.run()?;
    let all: Vec<&Report> = reports.iter().collect();
    let mut merged = merge_all(&all).map_err(|error| Failure::new(Exit::Internal, error))?;
    merged.call = call;
    if play.loosened {
        merged.notes.insert(0, LOOSENED.to_string());
    }
    folder.report(&merged).map_err(cannot_write)?;
    let text = match arguments.format {
        Format::Text => {
            let study = (&play.file, bounds::terms(arguments));
            let shown = match reports.as_slice() {
                [first, second] => {
                    let mechanism = play.file.privacy.as_ref().map(|terms| terms.mechanism).unwrap_or_default();
                    of_two(mechanism, &merged, [first, second], &out, arguments.verbose)
                }
                _ => programme(&merged, &reports, &out, arguments.verbose),
            };
            head(study, &merged, &all, &out) + &shown
        }
        format => format.render(&merged),
    };
    output::print(&text).map_err(cannot_write)?;
    Ok(merged.termination.exit())
}

/// The play of several parties on a stage.
struct Play<'a> {
    stage: Stage<'a>,
    /// All read the user's file, each its own columns only: a copy would only cost time and space.
    source: Source,
    seed: String,
    /// The parties, the one that listens first.
    order: Vec<Role>,
    /// Whether all parties loosen their limits on what may open.
    loosened: bool,
    /// The study, as it was written.
    file: StudyFile,
}

/// What the parties play: the table, and the study of the flags.
fn script(arguments: &Vertical, parties: &[(Role, String)], folder: &Folder) -> Result<(Source, StudyFile), Failure> {
    let source = Source::of(arguments, folder)?;
    let taken = source.taken(arguments)?;
    let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    let part = |(role, text): &(Role, String)| {
        let flag = format!("--parties, {role}");
        Own::read(text, &flag, &source.header).map(|own| Part { role: *role, flag, own })
    };
    let parts = parties.iter().map(part).collect::<Result<Vec<_>, Failure>>()?;
    let parts = of_one_table(parts, &source.header, &taken)?;
    let columns = parts.into_iter().map(|part| (part.role, part.own));
    let mut file = study(arguments, source.outcome.clone(), source.id.clone(), columns);
    guarantee(arguments, &mut file)?;
    // What the study says of its parties comes first, and what it refuses before a look at the data.
    Stage::accepts(&file)?;
    look(arguments, &source, &file)?;
    Ok((source, file))
}

impl<'a> Play<'a> {
    fn set(arguments: &Vertical, folder: &'a Folder, source: Source, file: StudyFile) -> Result<Play<'a>, Failure> {
        let stage = Stage::new(folder, "demo vertical");
        let study = stage.study(&file)?.vertical();
        let order = study.as_ref().map(Study::parties_in_order).unwrap_or_default();
        let names: Vec<&str> = std::iter::once("coordinator").chain(order.iter().map(Role::name)).collect();
        stage.certificates(&names)?;
        let loosened = arguments.sealed_limits.unwrap_or_default() == SealedLimits::Off;
        Ok(Play { stage, source, seed: arguments.seed.to_string(), order, loosened, file })
    }

    /// Runs the processes to their end and reads what the parties report.
    fn run(&self) -> Result<Vec<Report>, Failure> {
        let stage = &self.stage;
        let address = |role: Role| stage.path(&format!("{role}.address"));
        for role in self.order.iter().copied().chain([Role::Coordinator]) {
            folder(&stage.path(role.name()))?;
            // Files of an earlier run would be taken for this one's.
            let _ = fs::remove_file(stage.path(&format!("{role}/report.json")));
            let _ = fs::remove_file(address(role));
            let _ = fs::remove_file(stage.path(&format!("{role}/{TABLE}")));
            stage.forget_ledger(role, self.file.mode);
        }
        let (mut coordinator, convened) = stage.coordinator(&[])?;
        let mut processes = Vec::new();
        let mut listening = None;
        for role in self.order.iter().copied() {
            let mut process = self.party(role, &convened, listening.clone(), &address(role))?;
            if listening.is_none() {
                let bound = process.address(&address(role))?;
                stage.fix_port(&format!("{role}.toml"), &bound)?;
                listening = Some(bound);
            }
            processes.push(process);
        }
        let ends = processes::wait(&mut processes.iter_mut().collect::<Vec<_>>())?;
        processes::wait(&mut [&mut coordinator])?;
        for role in self.order.iter().copied().chain([Role::Coordinator]) {
            let _ = fs::remove_file(address(role));
        }
        // The side that found the reason says it best; the others only repeat that they were told.
        let aborted = |exit: &Exit| !matches!(exit, Exit::Done | Exit::NotConverged);
        if let Some(exit) = ends.iter().copied().find(|exit| aborted(exit)) {
            processes.iter().for_each(|process| say(&process.last_words()));
            let sentence = format!("the run was ended; logs are in {}", stage.path("").display());
            return Err(Failure::new(exit, anyhow::anyhow!(sentence)));
        }
        self.order.iter().map(|role| stage.report(role.name())).collect()
    }

    /// Whether what opens is counted in a ledger, which is anchored.
    fn is_anchored(&self) -> bool {
        match self.file.mode {
            Mode::Plain => false,
            Mode::Sealed | Mode::Private => true,
        }
    }

    fn party(
        &self,
        role: Role,
        coordinator: &str,
        connect: Option<String>,
        announce: &Path,
    ) -> Result<Process, Failure> {
        let mut policy = PolicyTerms::default();
        if self.loosened {
            policy.loosen();
        }
        let config = Config {
            study: "study.toml".into(),
            coordinator: coordinator.to_string(),
            dealer: None,
            listen: connect.is_none().then(|| ANY_PORT.to_string()),
            connect,
            state: role.name().into(),
            wait: 60,
            memory: None,
            data: self.source.table.clone(),
            tls: Stage::tls(role.name()),
            policy,
            privacy: LedgerTerms {
                data_set: Some("rehearsal".to_string()),
                anchor: self.is_anchored().then(|| format!("anchors/{role}.anchor").into()),
                ..LedgerTerms::default()
            },
            matching: MatchConfig::default(),
        };
        let (file, stage) = (format!("{role}.toml"), &self.stage);
        stage.write(&file, "A private file: no other party ever sees it.", &config.print())?;
        if self.file.mode == Mode::Private {
            register(role, &stage.path(&file))?;
        }
        let (config, out, announce) = (shown(&stage.path(&file)), shown(&stage.path(role.name())), shown(announce));
        let words = ["fit", "--config", &config, "--announce", &announce, "--out", &out, "--seed", &self.seed];
        Process::start(role, role.name(), &words, &stage.path(&format!("{role}/log.txt")))
    }
}

/// All that is shown of a run of several: the merged summary, each party's own where that is asked for, and what each saw.
fn programme(merged: &Report, reports: &[Report], out: &Path, verbose: bool) -> String {
    let mut text = Format::Text.render(merged);
    for (role, report) in merged.parties.iter().zip(reports).filter(|_| verbose) {
        text.push_str(&format!("\n{}\n", heading(&format!("what {role} may see"))));
        text.push_str(&Format::Text.render(report));
    }
    text.push_str(&format!("\n{}\n", heading("what each party saw")));
    let leader = merged.parties.first().map_or("", Role::name);
    for (role, report) in merged.parties.iter().zip(reports) {
        let (Some(disclosure), Some(bytes)) = (report.disclosure.of(*role), report.bytes_sent.of(*role)) else {
            continue;
        };
        let (seen_by, what) = match role.name() == leader {
            true => ("the others", "vectors, each a sum of all blocks but its receiver's"),
            false => (leader, "vectors with a value a row"),
        };
        if merged.mode == Mode::Private {
            let account = report.privacy.of(*role).and_then(Option::as_ref);
            let releases = account.and_then(Statement::charged).map_or(0, |charged| charged.releases.len());
            text.push_str(&format!(
                "all others saw from {role}: masked columns, noised tables of its own columns and of these with those of every other \
                 party, in {}; {releases} releases were charged\n",
                size(*bytes),
            ));
            continue;
        }
        if merged.mode == Mode::Sealed {
            let way = if role.name() == leader { String::new() } else { format!(", by way of {leader}") };
            text.push_str(&format!("all others saw from {role}: masked columns{way}\n"));
            for to in merged.parties.iter().filter(|to| *to != role) {
                let here = disclosure.opened.iter().filter(|opened| opened.to == *to);
                let opened: Vec<String> = here.map(opened_in_words).collect();
                if !opened.is_empty() {
                    text.push_str(&format!("  to {to} opened: {}\n", opened.join("; ")));
                }
            }
            text.push_str(&format!("  in {} together; kinds: {}\n", size(*bytes), disclosure.declared.join(", ")));
            if let Some(sentence) = predictable(report, Some(*role), disclosure) {
                text.push_str(&format!("  {sentence}\n"));
            }
            continue;
        }
        let most: String = reconstructible(report).into_iter().map(|sentence| format!("; {sentence}")).collect();
        text.push_str(&format!(
            "{seen_by} saw from {role}: {} {what}, of rank {}, in {}{most}\n  kinds: {}\n",
            disclosure.vectors,
            disclosure.rank,
            size(*bytes),
            disclosure.declared.join(", "),
        ));
    }
    let seen = match merged.mode {
        Mode::Plain => "phases, rounds, gradients and bytes",
        Mode::Sealed | Mode::Private => "phases, the sizes of what it dealt masks for, and bytes",
    };
    text.push_str(&format!("the coordinator saw: certificate names, digests of the study's keys, {seen}; no data\n"));
    let (folder, out) = (out, out.display());
    let again = crate::stage::spent(merged.mode);
    text.push_str(&format!(
        "\nReports and the study's files are in {out}; to run it again by hand, in {} terminals{again}:\n  \
         coordinator serve --config {out}/coordinator.toml\n",
        reports.len() + 1
    ));
    for role in &merged.parties {
        text.push_str(&format!("  {} fit --config {out}/{role}.toml\n", role.program()));
    }
    let leads = merged.parties.first().and_then(|leader| sub_models(folder, *leader));
    text.push_str(&leads.unwrap_or_default());
    text
}
