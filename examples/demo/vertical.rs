//! Alice, Bob and a coordinator on one machine.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use fedreg_common::data::encode::{column_terms, refuse_too_many};
use fedreg_common::data::{DataError, advice};
use fedreg_common::exit::Exit;
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::report::reconstructible;
use fedreg_common::methods::vertical::report::sealed::{opened_in_words, predictable};
use fedreg_common::report::Report;
use fedreg_common::report::merge::merge;
use fedreg_common::study::statement::Statement;
use fedreg_common::study::{
    CoordinatorTerms, CovarianceTerms, FitTerms, HeldBy, HeldColumn, InferenceTerms, Mechanism, Missing, Mode, Model,
    OpensTo, PartyTerms, PenaltyTerms, PredictionTerms, Protocol, RowTerms, SealedTerms, StudyFile,
};
use fedreg_party::check::size;
use fedreg_party::config::{Config, DataTerms, LedgerTerms, MatchConfig, Overrides, PolicyTerms};
use fedreg_party::output::{self, Folder, Format};
use fedreg_party::privacy;
use fedreg_party::read::{self, ReadError, Request, Written};
use fedreg_party::refit::TABLE;
use fedreg_party::service::Failure as PartyFailure;
use fedreg_proto::telemetry::say;

use crate::Failure;
use crate::arguments::{ModeName, OpensName, SealedLimits, Vertical};
use crate::bounds;
use crate::columns::{Own, of_parties, refuse_syntax, single, split};
use crate::head::head;
use crate::matching::{self, Matched};
use crate::processes::{self, Process};
use crate::several;
use crate::stage::{ANY_PORT, Place, Stage, as_study, cannot_write, folder, heading, located, shown};

/// The shipped data, so that the demo runs from any folder.
const DIABETES: &str = include_str!("../data/diabetes.csv");

/// Stands in the merged report of a rehearsal without limits.
pub(crate) const LOOSENED: &str = "the limits on what may open were loosened for this rehearsal (--sealed-limits off): with real data a run that \
                        does not meet them is refused";

pub(crate) fn run(arguments: &Vertical, call: String) -> Result<Exit, Failure> {
    arguments.mode.check(&[
        ("--epsilon", arguments.epsilon.is_some()),
        ("--delta", arguments.delta.is_some()),
        ("--bounds", arguments.bounds.is_some()),
        ("--mechanism", arguments.mechanism.is_some()),
        ("--accountant", arguments.accountant.is_some()),
    ])?;
    if arguments.sealed_limits.is_some() && arguments.mode != ModeName::Sealed {
        return Err(Failure::usage("--sealed-limits needs --mode sealed"));
    }
    if arguments.sealed_limits.is_some() && arguments.as_study.is_some() {
        return Err(Failure::usage("--sealed-limits has no place beside --as-study: with real data the limits stay"));
    }
    if arguments.opens.is_some() && arguments.mode != ModeName::Sealed {
        return Err(Failure::usage("--opens needs --mode sealed"));
    }
    if arguments.refit && arguments.mode != ModeName::Sealed {
        return Err(Failure::usage(
            "--refit needs --mode sealed; a private fit by crossprod leaves its noised tables in any case",
        ));
    }
    if let Some(parties) = named(arguments)?.filter(|parties| two(parties).is_none()) {
        return several::run(arguments, &parties, call);
    }
    if arguments.outcome_at.holder().is_some_and(|holder| holder != Role::Alice) {
        return Err(Failure::usage(format!(
            "--outcome-at {}: of two parties `both` hold the outcome, or `alice` alone; where it is at the other side, swap --alice and --bob",
            arguments.outcome_at.word()
        )));
    }
    let scene = Place::of(&arguments.out, arguments.as_study.as_deref(), &arguments.places)?;
    let folder = scene.folder();
    let script = Script::of(arguments, folder)?;
    if let Some(dir) = &arguments.as_study {
        return as_study((dir, &arguments.places), &script.study, script.matching.as_ref());
    }
    let out = folder.path().to_path_buf();
    let play = Play::on_stage(arguments, folder, script)?;
    processes::watch_for_interrupts()?;
    let [alice, bob] = play.run()?;
    let mut merged = merge(&alice, &bob).map_err(|error| Failure::new(Exit::Internal, error))?;
    merged.call = call;
    if play.loosened {
        merged.notes.insert(0, LOOSENED.to_string());
    }
    folder.report(&merged).map_err(cannot_write)?;
    let text = match arguments.format {
        Format::Text => {
            let study = (&play.file, bounds::terms(arguments));
            let head = head(study, &merged, &[&alice, &bob], &out);
            head + &programme(play.mechanism(), &merged, [&alice, &bob], &out, arguments.verbose)
        }
        format => format.render(&merged),
    };
    output::print(&text).map_err(cannot_write)?;
    Ok(merged.termination.exit())
}

/// What `--parties` names.
fn named(arguments: &Vertical) -> Result<Option<Vec<(Role, String)>>, Failure> {
    arguments.parties.as_deref().map(|text| of_parties(text, "--parties")).transpose()
}

/// What alice and bob have, where nobody else is named.
fn two(parties: &[(Role, String)]) -> Option<[String; 2]> {
    let of = |role: Role| parties.iter().find(|(party, _)| *party == role).map(|(_, own)| own.clone());
    (parties.len() == 2).then(|| Some([of(Role::Alice)?, of(Role::Bob)?])).flatten()
}

/// The one table of a rehearsal, and what of it is no term.
pub(crate) struct Source {
    pub(crate) table: DataTerms,
    written: Written,
    pub(crate) header: Vec<String>,
    pub(crate) outcome: String,
    pub(crate) id: Option<String>,
}

impl Source {
    /// The user's, or the shipped one.
    pub(crate) fn of(arguments: &Vertical, folder: &Folder) -> Result<Source, Failure> {
        let shipped = arguments.data.is_none();
        let data = match &arguments.data {
            Some(file) => located(file)?,
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
        let table = arguments.table.terms(data).map_err(Failure::usage)?;
        let written = table.written().map_err(Failure::usage)?;
        let header =
            read::header(table.source(), written.separator).map_err(|error| Failure::new(error.exit(), error))?;
        Ok(Source { table, written, header, outcome, id })
    }

    /// The columns that are no terms: outcome, identifiers, offset, weights and folds.
    pub(crate) fn taken(&self, arguments: &Vertical) -> Result<Vec<String>, Failure> {
        let others = [&self.id, &arguments.offset, &arguments.weights, &arguments.folds];
        let flags = ["--id", "--offset", "--weights", "--folds"];
        single("--outcome", &self.outcome, &self.header)?;
        for (flag, name) in flags.into_iter().zip(others) {
            name.iter().try_for_each(|name| single(flag, name, &self.header))?;
        }
        let taken: Vec<String> =
            std::iter::once(&self.outcome).chain(others.into_iter().flatten()).map(String::clone).collect();
        taken.iter().try_for_each(|name| refuse_syntax(std::slice::from_ref(name), &self.header))?;
        Ok(taken)
    }
}

/// The play of two parties on a stage.
struct Play<'a> {
    stage: Stage<'a>,
    /// Alice's and Bob's. Without a match both read the user's file, each its own columns only: a copy would only cost time and space.
    tables: [DataTerms; 2],
    /// How each party's rows are matched, if they are.
    matching: Option<[MatchConfig; 2]>,
    seed: String,
    private: bool,
    /// Whether both parties loosen their limits on what may open.
    loosened: bool,
    /// The study, as it was written.
    file: StudyFile,
}

/// What two parties play: the study of the flags, and their tables.
struct Script {
    study: StudyFile,
    tables: [DataTerms; 2],
    matching: Option<[MatchConfig; 2]>,
}

impl Script {
    fn of(arguments: &Vertical, folder: &Folder) -> Result<Script, Failure> {
        if let Some(matched) = matching::of(arguments, folder)? {
            return Script::of_matched(arguments, matched);
        }
        let source = Source::of(arguments, folder)?;
        let taken = source.taken(arguments)?;
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        let [alice, bob] = match named(arguments)?.as_deref().and_then(two) {
            Some([alice, bob]) => [Some(alice), Some(bob)],
            None => [arguments.alice.clone(), arguments.bob.clone()],
        };
        let columns = split(&source.header, &taken, alice.as_deref(), bob.as_deref())?;
        let columns = [(Role::Alice, columns.alice), (Role::Bob, columns.bob)];
        let mut study = study(arguments, source.outcome.clone(), source.id.clone(), columns);
        guarantee(arguments, &mut study)?;
        // Before a process is started: what nobody can have meant would take minutes, and end in another sentence.
        look(arguments, &source, &study)?;
        Ok(Script { study, tables: [source.table.clone(), source.table], matching: None })
    }

    /// The same with two tables whose rows are matched first.
    fn of_matched(arguments: &Vertical, matched: Matched) -> Result<Script, Failure> {
        let Matched { keys, tables, outcome, held_by, columns } = matched;
        let mut study = study(arguments, outcome, None, [(Role::Alice, columns.alice), (Role::Bob, columns.bob)]);
        study.outcome.held_by = held_by;
        study.matching = Some(keys.terms);
        guarantee(arguments, &mut study)?;
        let [alice, bob] = tables.map(|file| arguments.table.terms(file).map_err(Failure::usage));
        Ok(Script { study, tables: [alice?, bob?], matching: Some(keys.configs) })
    }
}

impl<'a> Play<'a> {
    fn on_stage(arguments: &Vertical, folder: &'a Folder, script: Script) -> Result<Play<'a>, Failure> {
        let Script { study, tables, matching } = script;
        let stage = Stage::new(folder, "demo vertical");
        stage.study(&study)?;
        stage.certificates(&["coordinator", "alice", "bob"])?;
        let loosened = arguments.sealed_limits.unwrap_or_default() == SealedLimits::Off;
        let private = arguments.mode == ModeName::Private;
        Ok(Play { stage, tables, matching, seed: arguments.seed.to_string(), private, loosened, file: study })
    }

    /// By which mechanism values are private, where they are.
    fn mechanism(&self) -> Mechanism {
        self.file.privacy.as_ref().map(|terms| terms.mechanism).unwrap_or_default()
    }

    /// Runs the processes to their end and reads what Alice and Bob report.
    fn run(&self) -> Result<[Report; 2], Failure> {
        let stage = &self.stage;
        for role in [Role::Coordinator, Role::Alice, Role::Bob] {
            folder(&stage.path(role.name()))?;
            stage.forget_ledger(role, self.file.mode);
            // Matches are counted, too.
            for file in ["matches.jsonl", "match/match.json", "match/alignment.bin", "report.json"] {
                let _ = fs::remove_file(stage.path(&format!("{role}/{file}")));
            }
            let _ = fs::remove_file(stage.path(&format!("anchors/{role}.anchor.matches")));
            // A table of an earlier rehearsal would be that of another study.
            let _ = fs::remove_file(stage.path(&format!("{role}/{TABLE}")));
        }
        if self.matching.is_some() {
            self.joint("match")?;
        }
        self.joint("fit")?;
        Ok([stage.report("alice")?, stage.report("bob")?])
    }

    /// A joint run of a command.
    fn joint(&self, command: &str) -> Result<(), Failure> {
        let stage = &self.stage;
        let address = |role: Role| stage.path(&format!("{role}.address"));
        // A file of an earlier run would be taken for this one's.
        for role in [Role::Coordinator, Role::Alice, Role::Bob] {
            let _ = fs::remove_file(address(role));
        }
        let (mut coordinator, convened) = stage.coordinator(&[])?;
        let mut alice = self.party(Role::Alice, command, &convened, None, &address(Role::Alice))?;
        let listening = alice.address(&address(Role::Alice))?;
        stage.fix_port("alice.toml", &listening)?;
        let mut bob = self.party(Role::Bob, command, &convened, Some(listening), &address(Role::Bob))?;
        let ends = processes::wait(&mut [&mut alice, &mut bob])?;
        processes::wait(&mut [&mut coordinator])?;
        for role in [Role::Coordinator, Role::Alice] {
            let _ = fs::remove_file(address(role));
        }
        // The side that found the reason says it best; the other only repeats that it was told.
        let aborted = |exit: &Exit| !matches!(exit, Exit::Done | Exit::NotConverged);
        if let Some(exit) = ends.iter().copied().find(|exit| aborted(exit)) {
            for process in [&alice, &bob] {
                say(&process.last_words());
            }
            let sentence = format!("the run was ended; logs are in {}", stage.path("").display());
            return Err(Failure::new(exit, anyhow::anyhow!(sentence)));
        }
        Ok(())
    }

    /// Whether something of a rehearsal is anchored: a ledger, or the count of matches.
    fn is_anchored(&self) -> bool {
        match self.file.mode {
            Mode::Plain => self.matching.is_some(),
            Mode::Sealed | Mode::Private => true,
        }
    }

    fn party(
        &self,
        role: Role,
        command: &str,
        coordinator: &str,
        connect: Option<String>,
        announce: &Path,
    ) -> Result<Process, Failure> {
        let listen = connect.is_none().then(|| ANY_PORT.to_string());
        let mut policy = PolicyTerms::default();
        if self.loosened {
            policy.loosen();
        }
        let config = Config {
            study: "study.toml".into(),
            coordinator: coordinator.to_string(),
            dealer: None,
            listen,
            connect,
            state: role.name().into(),
            wait: 60,
            memory: None,
            data: self.tables[usize::from(role == Role::Bob)].clone(),
            tls: Stage::tls(role.name()),
            policy,
            privacy: LedgerTerms {
                data_set: Some("rehearsal".to_string()),
                anchor: self.is_anchored().then(|| format!("anchors/{role}.anchor").into()),
                ..LedgerTerms::default()
            },
            matching: self
                .matching
                .as_ref()
                .map(|both| both[usize::from(role == Role::Bob)].clone())
                .unwrap_or_default(),
        };
        let file = format!("{role}.toml");
        let stage = &self.stage;
        stage.write(&file, "A private file: no other party ever sees it.", &config.print())?;
        // A budget is registered once, before the first run.
        let first = if self.matching.is_some() { "match" } else { "fit" };
        if self.private && command == first {
            register(role, &stage.path(&file))?;
        }
        let (config, out, announce) = (shown(&stage.path(&file)), shown(&stage.path(role.name())), shown(announce));
        let mut words = vec![command, "--config", &config, "--announce", &announce];
        let log = match command {
            "fit" => {
                words.extend(["--out", &out, "--seed", &self.seed]);
                format!("{role}/log.txt")
            }
            // A match is kept in the state folder, where the fit finds it.
            _ => format!("{role}/match.log.txt"),
        };
        Process::start(role, role.name(), &words, &stage.path(&log))
    }
}

/// Begins a party's ledger with its data set, before its first private run.
pub(crate) fn register(role: Role, file: &Path) -> Result<(), Failure> {
    let overrides = Overrides { config: Some(file.to_path_buf()), ..Overrides::default() };
    let made = Config::load(role, &overrides).map_err(PartyFailure::from).and_then(|config| {
        privacy::init(role, &config)?;
        if let Some(complaint) = privacy::complaint(role, &config) {
            say(&format!("demo: {role}: {complaint}; rows that cannot be used count as zeros in a private run"));
        }
        Ok(())
    });
    made.map_err(|failure| {
        let exit = failure.exit();
        Failure::new(exit, anyhow::anyhow!("{role}: {}", fedreg_party::service::chain(&failure)))
    })
}

/// Mode and public bounds, as the flags say; a study that the mode does not take is refused before all that the data could be refused for.
pub(crate) fn guarantee(arguments: &Vertical, study: &mut StudyFile) -> Result<(), Failure> {
    if arguments.mode == ModeName::Private {
        study.mode = Mode::Private;
        study.privacy = Some(bounds::terms(arguments));
        let bounds = bounds::of_vertical(arguments, &study.outcome.column)?;
        bounds.only_of(&study.parties.keys().map(Role::name).collect::<Vec<_>>())?;
        for (role, party) in &mut study.parties {
            party.row_norm = bounds.row_norm(role.name());
        }
        study.columns = bounds.columns;
        bounds::only_used(study);
    }
    if arguments.mode == ModeName::Sealed {
        study.mode = Mode::Sealed;
        Stage::accepts(study)?;
    }
    Ok(())
}

/// Refuses identifiers among the columns and more coefficients than rows, and says what else is odd about columns. What cannot
/// be read is left to the party whose it is. In a private run levels are declared, and what stands in the rows decides nothing, but
/// for a range of a column without numbers, by which no row could be used.
pub(crate) fn look(arguments: &Vertical, source: &Source, study: &StudyFile) -> Result<(), Failure> {
    let Source { table, written, header, .. } = source;
    let own = |party: &PartyTerms| match &party.formula {
        Some(formula) => Own::Formula(formula.clone()).columns(),
        None => party.columns.clone(),
    };
    let known: HashSet<&String> = header.iter().collect();
    let names: Vec<String> = study.parties.values().flat_map(own).filter(|name| known.contains(name)).collect();
    let identifier = |column: &str, texts: String| {
        let quoted = if column.contains(' ') { format!("\"{column}\"") } else { column.to_string() };
        let lists = if arguments.parties.is_some() { "--parties" } else { "--alice and --bob" };
        let remedy = match study.rows.id {
            None => format!("give --id {quoted}, or leave it out of {lists}"),
            Some(_) => format!("leave it out of {lists}"),
        };
        let sentence = format!("column `{column}` has {texts}; is it an identifier? {remedy}");
        Err(Failure::new(Exit::Data, anyhow::anyhow!(sentence)))
    };
    let request = Request { columns: Some(names.clone()), written: written.clone(), ..Request::default() };
    let private = arguments.mode == ModeName::Private;
    let frame = match read::read(table.source(), &request) {
        Ok(frame) if private => return bounds::refuse_ranges_of_texts(&frame, study),
        Ok(frame) => frame,
        Err(_) if private => return Ok(()),
        Err(ReadError::Data { source: DataError::TooManyLevels { column, most }, .. }) => {
            return identifier(&column, format!("more than {most} different texts"));
        }
        Err(error @ ReadError::Data { source: DataError::Date { .. }, .. }) => {
            return Err(Failure::new(Exit::Data, error));
        }
        Err(_) => return Ok(()),
    };
    let all = || names.iter().map(String::as_str);
    if let Err(DataError::Identifier { column, rows }) = advice::refuse_identifiers(&frame, all()) {
        return identifier(&column, format!("another text in each of {rows} rows"));
    }
    let dropped = match arguments.missing {
        Missing::Refuse => None,
        Missing::CompleteCases => frame.missing(all()).ok(),
    };
    if let (None, Ok(terms)) = (&arguments.lambda, column_terms(all()))
        && let Err(error @ DataError::TooManyCoefficients { .. }) =
            refuse_too_many(&frame, &terms, (true, usize::from(study.model.intercept)), dropped.as_ref())
    {
        return Err(Failure::new(Exit::Data, error));
    }
    advice::advice(&frame, all()).iter().for_each(|advice| say(&format!("demo: {advice}")));
    Ok(())
}

pub(crate) fn study(
    arguments: &Vertical,
    outcome: String,
    id: Option<String>,
    parties: impl IntoIterator<Item = (Role, Own)>,
) -> StudyFile {
    let party = |(role, own): (Role, Own)| {
        let (columns, formula) = match own {
            Own::Columns(columns) => (columns, None),
            Own::Formula(formula) => (Vec::new(), Some(formula)),
        };
        (role, PartyTerms { certificate: role.name().to_string(), columns, formula, row_norm: None })
    };
    let parties: BTreeMap<Role, PartyTerms> = parties.into_iter().map(party).collect();
    // The word for those who hold a column together.
    let together = if parties.keys().eq(&[Role::Alice, Role::Bob]) { HeldBy::Both } else { HeldBy::All };
    let shared = |column: &Option<String>| column.clone().map(|column| HeldColumn { column, held_by: together });
    let held_by = if arguments.outcome_at.is_shared() { together } else { arguments.outcome_at };
    StudyFile {
        id: "demo".to_string(),
        protocol: Protocol::Vertical,
        mode: Mode::Plain,
        privacy: None,
        parties,
        leader: arguments.leader,
        order: Vec::new(),
        coordinator: CoordinatorTerms::default(),
        dealer: None,
        sealed: (arguments.opens.is_some() || arguments.refit).then(|| SealedTerms {
            opens: match arguments.opens {
                Some(OpensName::Leader) | None => OpensTo::Alice,
                Some(OpensName::All) => OpensTo::All,
            },
            refit: arguments.refit,
            ..SealedTerms::default()
        }),
        model: Model { family: arguments.family, ..Model::default() },
        outcome: HeldColumn { column: outcome, held_by },
        offset: shared(&arguments.offset),
        weights: shared(&arguments.weights),
        columns: BTreeMap::new(),
        rows: RowTerms { id, missing: arguments.missing },
        matching: None,
        penalty: arguments.lambda.clone().map(|lambda| PenaltyTerms {
            lambda,
            alpha: arguments.alpha,
            cv: arguments.cv,
            folds: arguments.folds.clone(),
        }),
        fit: FitTerms {
            acceleration: arguments.acceleration,
            tol: arguments.tol,
            max_rounds: arguments.max_rounds,
            ..FitTerms::default()
        },
        inference: InferenceTerms {
            allowed: !arguments.no_inference,
            errors: arguments.errors,
            covariance: match arguments.share_covariance {
                true => CovarianceTerms::Shared,
                false => CovarianceTerms::Own,
            },
            ..InferenceTerms::default()
        },
        prediction: PredictionTerms::default(),
        workers: BTreeMap::new(),
        sites: None,
        robust: None,
        em: None,
        features: None,
        stream: None,
    }
}

/// All that is shown of a run: the merged summary, each party's own where that is asked for, and what each side saw.
pub(crate) fn programme(
    mechanism: Mechanism,
    merged: &Report,
    reports: [&Report; 2],
    out: &Path,
    verbose: bool,
) -> String {
    let (pair, [first, second]) = (merged.pair(), reports);
    let mut text = Format::Text.render(merged);
    for (role, report) in pair.into_iter().zip(reports).filter(|_| verbose) {
        text.push_str(&format!("\n{}\n", heading(&format!("what {role} may see"))));
        text.push_str(&Format::Text.render(report));
    }
    text.push_str(&format!("\n{}\n", heading("what each side saw")));
    for (role, other, peer) in [(pair[0], pair[1], second), (pair[1], pair[0], first)] {
        let (Some(disclosure), Some(bytes)) = (peer.disclosure.of(other), peer.bytes_sent.of(other)) else {
            continue;
        };
        if merged.mode == Mode::Private {
            let account = peer.privacy.of(other).and_then(Option::as_ref);
            let releases = account.and_then(Statement::charged).map_or(0, |charged| charged.releases.len());
            let saw = match mechanism {
                Mechanism::Residual => format!(
                    "{} vector{} with a noised value a row, and coefficients",
                    merged.rounds,
                    if merged.rounds == 1 { "" } else { "s" }
                ),
                Mechanism::Crossprod => opened_on_shares(merged.family.base()),
            };
            text.push_str(&format!(
                "{role} saw from {}: {saw}, in {}; {releases} releases were charged\n",
                other,
                size(*bytes),
            ));
            continue;
        }
        if merged.mode == Mode::Sealed {
            let opened: Vec<String> = disclosure.opened.iter().map(opened_in_words).collect();
            text.push_str(&format!(
                "{role} saw from {}: masked columns, and what opened: {}, in {}\n  kinds: {}\n",
                other,
                opened.join("; "),
                size(*bytes),
                disclosure.declared.join(", "),
            ));
            if let Some(sentence) = predictable(peer, Some(other), disclosure) {
                text.push_str(&format!("  {sentence}\n"));
            }
            continue;
        }
        let most: String = reconstructible(peer).into_iter().map(|sentence| format!("; {sentence}")).collect();
        text.push_str(&format!(
            "{role} saw from {}: {} vectors with a value a row, of rank {}, in {}{most}\n  kinds: {}\n",
            other,
            disclosure.vectors,
            disclosure.rank,
            size(*bytes),
            disclosure.declared.join(", "),
        ));
    }
    let seen = match merged.mode {
        Mode::Plain => "phases, rounds, gradients and bytes",
        Mode::Private => match mechanism {
            Mechanism::Residual => "phases, rounds and bytes",
            Mechanism::Crossprod => match merged.family.base() {
                Family::Gaussian => "phases, the size of the table that it dealt masks for, and bytes",
                Family::Binomial | Family::Poisson => "phases, the sizes of what it dealt masks for, and bytes",
            },
        },
        Mode::Sealed => "phases, the sizes of what it dealt masks for, and bytes",
    };
    text.push_str(&format!("the coordinator saw: certificate names, digests of the study's keys, {seen}; no data\n",));
    let again = crate::stage::spent(merged.mode);
    text.push_str(&format!(
        "\nReports and the study's files are in {0}; to run it again by hand, in three terminals{again}:\n  \
         coordinator serve --config {0}/coordinator.toml\n",
        out.display()
    ));
    for role in pair {
        text.push_str(&format!("  {} fit --config {}/{role}.toml\n", role.program(), out.display()));
    }
    text.push_str(&sub_models(out, pair[0]).unwrap_or_default());
    text
}

/// How a party of a rehearsal fits a sub-model, where it has a table for that.
pub(crate) fn sub_models(out: &Path, role: Role) -> Option<String> {
    let (out_shown, program) = (out.display(), role.program());
    out.join(role.name()).join(TABLE).is_file().then(|| {
        format!(
            "{role} keeps what opened to it, from which sub-models follow without another run; nothing leaves for them:\n  {program} refit --config \
             {out_shown}/{role}.toml --lambda path\n"
        )
    })
}

/// What a private run on shares lets the other party see.
fn opened_on_shares(family: Family) -> String {
    let more = match family {
        Family::Gaussian => "",
        Family::Binomial | Family::Poisson => " and of two gradients, with masked factors of means",
    };
    format!(
        "masked columns, noised tables of its own columns and its noised share of the table between the blocks{more}"
    )
}
