//! Kills and broken lines against real processes, many times over: no result is lost, no budget is charged twice or lost where nothing
//! had left, and what comes out is what an undisturbed run gives.
//!
//! The quick version runs with all other tests. `tests/faults.sh` runs the long one: `FEDREG_KILLS` and `FEDREG_LINES` are
//! the numbers of kills and of broken lines, `FEDREG_SEED` begins another sequence of them.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod power;
mod scores;
mod sites;
mod world;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ledgers::{hold, let_go, records, stored};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use sites::DEMO;

/// Longest time that the processes of one case may take after the disturbance: below the 60 s for which they wait.
const PATIENCE: Duration = Duration::from_secs(50);
const LOOK: Duration = Duration::from_millis(5);
const TWO_PARTIES: [&str; 2] = ["alice", "bob"];
const THREE_PARTIES: [&str; 3] = ["carol", "alice", "bob"];
const TLS: [&str; 2] = ["--authority", "authority.pem"];

fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn generator() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(count("FEDREG_SEED", 1) as u64)
}

/// A study with its folder, and the command of each of its roles; the coordinator is the first.
struct Play {
    name: &'static str,
    folder: PathBuf,
    roles: Vec<Role>,
    /// Whether noise makes every run's numbers its own.
    private: bool,
    /// Whether a killed role goes on where it was. Parties do so only in a private run between two.
    resumes: bool,
    /// Whether every undisturbed run gives the same bits: batches of a stream arrive in any order.
    same_bits: bool,
    /// Whether the coordinator deals masks during the run.
    deals: bool,
    _world: Box<dyn std::any::Any>,
}

struct Role {
    name: &'static str,
    arguments: Vec<String>,
    /// Where it writes its report.
    out: &'static str,
    ledger: Option<PathBuf>,
}

/// What an undisturbed run leaves.
struct Clean {
    time: Duration,
    estimates: Vec<(String, Option<u64>)>,
    releases: Vec<usize>,
}

fn arguments(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn estimates(report: &Value) -> Vec<(String, Option<u64>)> {
    let rows = report["coefficients"].as_array().unwrap();
    rows.iter()
        .map(|row| (row["term"].as_str().unwrap().to_string(), row["estimate"].as_f64().map(f64::to_bits)))
        .collect()
}

impl Play {
    /// Two parties or three, of which the first leads; those of a private run have a ledger each.
    fn of_parties(name: &'static str, mode: &str, parties: &[&'static str]) -> Play {
        let private = mode == "private";
        let world = world::World::new();
        world.certificates("authority", &[parties, &["coordinator"]].concat());
        world.write("study.toml", &parties_study(mode, parties));
        parties.iter().for_each(|party| world.write(&format!("{party}.csv"), &party_table(party)));
        let (meet, line) = (world::free_address(), world::free_address());
        let mut roles = vec![Role {
            name: "coordinator",
            arguments: arguments(&["serve", "--listen", &meet, "--wait", "60"]),
            out: "",
            ledger: None,
        }];
        for (at, name) in parties.iter().copied().enumerate() {
            let mut words =
                arguments(&["fit", "--coordinator", &meet, "--data", &format!("{name}.csv"), "--out", name]);
            words.extend(arguments(&[if at == 0 { "--listen" } else { "--connect" }, &line]));
            words.extend(arguments(&["--wait", "60", "--seed", "7"]));
            let ledger = private.then(|| world.path(&format!("{name}-state/privacy.sqlite")));
            if private {
                world.write(&format!("{name}.toml"), &private_file(name));
                words.extend(["--config".to_string(), format!("{name}.toml")]);
            }
            roles.push(Role { name, arguments: words, out: name, ledger });
        }
        Play {
            name,
            folder: world.folder.path().to_path_buf(),
            roles,
            private,
            resumes: private && parties.len() == 2,
            same_bits: !private,
            deals: mode == "sealed" || (private && parties.len() > 2),
            _world: Box::new(world),
        }
    }

    /// Three sites and a coordinator.
    fn of_sites(name: &'static str, protocol: &str, section: &str, private: bool) -> Play {
        let mode = match private {
            true => "mode = \"private\"\n[privacy]\nepsilon = 8.0\ndelta = 1e-5\n",
            false => "",
        };
        let workers: String =
            sites::WORKERS.iter().map(|name| format!("[workers.{name}]\ncertificate = \"{name}\"\n")).collect();
        let study = format!(
            "id = \"endurance\"\nprotocol = \"{protocol}\"\n{mode}{workers}[outcome]\ncolumn = \"y\"\n{section}\n"
        );
        let mut world = sites::World::of(&study);
        world.address = world::free_address();
        let mut roles = vec![Role {
            name: "coordinator",
            arguments: arguments(&["serve", "--listen", &world.address, "--out", "coordinator", "--wait", "60"]),
            out: "coordinator",
            ledger: None,
        }];
        for name in sites::WORKERS {
            let (data, ledger) = (format!("{name}.csv"), world.path(&format!("{name}-state/privacy.sqlite")));
            let mut words =
                arguments(&["join", "--coordinator", &world.address, "--data", &data, "--out", name, "--wait", "60"]);
            if private {
                world.write(&format!("{name}.toml"), &private_file(name));
                words.extend(["--config".to_string(), format!("{name}.toml")]);
            }
            roles.push(Role { name, arguments: words, out: name, ledger: private.then_some(ledger) });
        }
        Play {
            name,
            folder: world.folder.path().to_path_buf(),
            roles,
            private,
            resumes: true,
            same_bits: !private && protocol != "stream",
            deals: false,
            _world: Box::new(world),
        }
    }

    fn all() -> Vec<Play> {
        const TWO: &str = "[model]\nfeatures = [\"a\", \"b\"]\n";
        const ONE: &str = "[model]\nfeatures = [\"a\"]\n";
        const BOUNDS: &str =
            "[columns.a]\nrange = [-1, 1]\n[columns.b]\nrange = [-1, 1]\n[columns.y]\nrange = [-6, 6]\n";
        const BOUND: &str = "[columns.a]\nrange = [-1, 1]\n[columns.y]\nrange = [-6, 6]\n";
        let sites = |batch: u32| format!("[sites]\ndeadline = 80\nquorum = 3\nbatch_rows = {batch}\n");
        let whole = "[sites]\ndeadline = 80\nquorum = 3\n";
        let em = "[em]\nmodel = \"mrm\"\nsigma = 1.0\ntau = 15.0\nrounds = 5\n";
        vec![
            Play::of_parties("plain, two parties", "plain", &TWO_PARTIES),
            Play::of_parties("private, two parties", "private", &TWO_PARTIES),
            Play::of_parties("plain, three parties", "plain", &THREE_PARTIES),
            Play::of_parties("sealed, three parties", "sealed", &THREE_PARTIES),
            Play::of_parties("private, three parties", "private", &THREE_PARTIES),
            Play::of_sites("plain robust", "robust", &format!("{TWO}{}", sites(20)), false),
            Play::of_sites(
                "private robust",
                "robust",
                &format!("{TWO}{BOUNDS}{}[robust.private]\nrounds = 3\n", sites(50)),
                true,
            ),
            Play::of_sites("plain em", "em", &format!("{TWO}{whole}{em}"), false),
            Play::of_sites("private em", "em", &format!("{TWO}{whole}{em}"), true),
            Play::of_sites(
                "plain features",
                "features",
                &format!("{ONE}{BOUND}{whole}[features]\ncount = 20\n"),
                false,
            ),
            Play::of_sites(
                "private features",
                "features",
                &format!("{ONE}{BOUND}{whole}[features]\ncount = 20\n"),
                true,
            ),
            Play::of_sites("plain stream", "stream", &format!("{ONE}{BOUND}{}[stream]\ngrid = 8\n", sites(16)), false),
            Play::of_sites("private stream", "stream", &format!("{ONE}{BOUND}{}[stream]\ngrid = 8\n", sites(16)), true),
        ]
    }

    /// Puts the folder back to before the first run: states, reports and ledgers go, ledgers are registered anew.
    fn reset(&self) {
        for role in &self.roles {
            let _ = fs::remove_dir_all(self.folder.join(format!("{}-state", role.name)));
            if !role.out.is_empty() {
                let _ = fs::remove_dir_all(self.folder.join(role.out));
            }
        }
        for anchors in ["anchors", "state-home"] {
            let _ = fs::remove_dir_all(self.folder.join(anchors));
        }
        for role in self.roles.iter().filter(|role| role.ledger.is_some()) {
            let out = self.privacy(role, "init");
            assert!(out.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&out.stderr));
        }
    }

    fn privacy(&self, role: &Role, word: &str) -> std::process::Output {
        let mut words: Vec<String> = role.arguments[1..].to_vec();
        for flag in ["--out", "--seed"] {
            if let Some(at) = words.iter().position(|word| word == flag) {
                words.drain(at..at + 2);
            }
        }
        self.command(role).args(["privacy", word]).args(words).args(self.own(role)).output().unwrap()
    }

    fn own(&self, role: &Role) -> Vec<String> {
        let name = role.name;
        let mut words = arguments(&TLS);
        words.extend(["--certificate".to_string(), format!("{name}.pem"), "--key".to_string(), format!("{name}.key")]);
        words.extend(arguments(&["--study", "study.toml", "--state"]));
        words.push(format!("{name}-state"));
        words
    }

    fn command(&self, role: &Role) -> Command {
        let program = if sites::WORKERS.contains(&role.name) { "worker" } else { role.name };
        let mut command = Command::new(DEMO);
        command.args(["--role", program]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.folder.join("state-home"));
        command
    }

    fn start(&self, at: usize, replace: &[(String, String)]) -> Running {
        let role = &self.roles[at];
        let file = |kind: &str| {
            let path = self.folder.join(format!("{}.{kind}", role.name));
            fs::OpenOptions::new().append(true).create(true).open(path).unwrap()
        };
        let words = role.arguments.iter().map(|word| {
            let other = replace.iter().find(|(old, _)| old == word);
            other.map_or(word.clone(), |(_, new)| new.clone())
        });
        let child = self.command(role).args(words).args(self.own(role)).stdout(file("out")).stderr(file("log")).spawn();
        Running { child: child.unwrap() }
    }

    fn logs(&self) -> String {
        let log = |role: &Role| {
            let text = fs::read_to_string(self.folder.join(format!("{}.log", role.name))).unwrap_or_default();
            format!("--- {}\n{text}", role.name)
        };
        self.roles.iter().map(log).collect()
    }

    /// Logs are of one case only.
    fn forget_logs(&self) {
        for role in &self.roles {
            for kind in ["log", "out"] {
                let _ = fs::remove_file(self.folder.join(format!("{}.{kind}", role.name)));
            }
        }
    }

    fn report(&self, at: usize) -> Option<Value> {
        let role = &self.roles[at];
        if role.out.is_empty() {
            return None;
        }
        serde_json::from_str(&fs::read_to_string(self.folder.join(role.out).join("report.json")).ok()?).ok()
    }

    /// The report that decides: the coordinator's of sites, the leader's of parties.
    fn result(&self) -> Option<Value> {
        self.report(usize::from(self.roles[0].out.is_empty()))
    }

    fn releases(&self) -> Vec<usize> {
        self.ledgers().map(|(_, ledger)| stored(ledger, "sent/%").len()).collect()
    }

    fn ledgers(&self) -> impl Iterator<Item = (&Role, &PathBuf)> {
        self.roles.iter().filter_map(|role| Some((role, role.ledger.as_ref()?)))
    }

    /// Roles whose ledger counts the charge of a run of which nothing is stored, after every process has ended.
    fn lost_budgets(&self) -> Vec<&'static str> {
        let lost = |ledger: &PathBuf| charges(ledger).iter().any(|(_, stored)| *stored == 0);
        self.ledgers().filter(|(_, ledger)| lost(ledger)).map(|(role, _)| role.name).collect()
    }

    /// Kills everybody, or waits until all end where no run is taken up again; forgets the run at the coordinator, and starts everybody
    /// again. Names the roles that had stored nothing and lack the budget of another run, and counts those that had reserved and stored
    /// nothing.
    fn given_up(&self, running: Vec<Running>, held: bool, clean: &Clean, what: &str) -> (Vec<&'static str>, usize) {
        // A party that waits for its ledger does not hear that the run is over.
        if self.resumes || held {
            drop(running);
        } else {
            let codes = self.codes(running, Instant::now());
            assert!(codes.iter().all(Option::is_some), "{}: {what}: {codes:?}\n{}", self.name, self.logs());
        }
        self.ledgers().filter(|_| held).for_each(|(_, ledger)| let_go(ledger));
        let idle = self.lost_budgets().len();
        let whole = self.result().is_some();
        let unreleased: Vec<bool> = self.releases().iter().map(|count| *count == 0).collect();
        let _ = fs::remove_dir_all(self.folder.join("coordinator-state"));
        if whole {
            return (self.lost_budgets(), idle);
        }
        self.forget_logs();
        let begun = Instant::now();
        // A role whose budget is spent ends the run, and the others need not wait for long.
        let all = unreleased.iter().all(|unreleased| *unreleased);
        let wait = [("60".to_string(), if all { "60" } else { "5" }.to_string())];
        let running: Vec<Running> = (0..self.roles.len()).map(|at| self.start(at, &wait)).collect();
        let codes = self.codes(running, begun);
        if all {
            // Nothing had left anywhere: the next run has all budgets, and costs each of them once.
            self.assert_whole(clean, &codes, &format!("the run after {what}"));
        }
        // Where something had, those of whom nothing had left have no less than before.
        let refused = |role: &Role| {
            let log = fs::read_to_string(self.folder.join(format!("{}.log", role.name))).unwrap_or_default();
            log.contains("the budget of data set")
        };
        let roles = self.ledgers().zip(&unreleased);
        let lost: Vec<&'static str> = roles
            .filter(|((role, _), unreleased)| **unreleased && refused(role))
            .map(|((role, _), _)| role.name)
            .collect();
        for (role, ledger) in self.ledgers() {
            assert!(charges(ledger).len() <= 1, "{} was charged {:?}: {}", role.name, charges(ledger), self.logs());
            assert!(self.privacy(role, "verify").status.success(), "{}: {what}: {}", self.name, self.logs());
        }
        (lost, idle)
    }

    fn undisturbed(&self) -> Clean {
        self.forget_logs();
        self.reset();
        let begun = Instant::now();
        let running: Vec<Running> = (0..self.roles.len()).map(|at| self.start(at, &[])).collect();
        let codes = self.codes(running, begun);
        assert!(codes.iter().all(|code| *code == Some(0)), "{}: {codes:?}\n{}", self.name, self.logs());
        let report = self.result().unwrap();
        Clean { time: begun.elapsed(), estimates: estimates(&report), releases: self.releases() }
    }

    /// Waits for all; `None` for one that had to be ended because it did not end by itself.
    fn codes(&self, mut running: Vec<Running>, since: Instant) -> Vec<Option<i32>> {
        let mut codes: Vec<Option<i32>> = vec![None; running.len()];
        while codes.iter().any(Option::is_none) && since.elapsed() < PATIENCE {
            for (code, running) in codes.iter_mut().zip(&mut running) {
                if code.is_none() {
                    *code = running.ended();
                }
            }
            // A coordinator that was started again after everybody had the outcome waits for nobody.
            if codes[1..].iter().all(Option::is_some) && codes[0].is_none() && self.result().is_some() {
                std::thread::sleep(Duration::from_millis(300));
                codes[0] = running[0].ended().or(Some(0));
            }
            std::thread::sleep(LOOK);
        }
        codes
    }

    /// Asserts that the run came to its result, once, and that each ledger was charged for one run.
    fn assert_whole(&self, clean: &Clean, codes: &[Option<i32>], what: &str) {
        let say = || format!("{}: {what}: {codes:?}\n{}", self.name, self.logs());
        for (at, code) in codes.iter().enumerate() {
            // A role that was killed after its report was written finds nobody when it is started again.
            let late = *code == Some(69) && (self.report(at).is_some() || at == 0);
            assert!(*code == Some(0) || late, "{}", say());
        }
        let Some(report) = self.result() else { panic!("the result is lost: {}", say()) };
        let found = estimates(&report);
        match self.same_bits {
            true => assert_eq!(found, clean.estimates, "{}", say()),
            false => assert_eq!(found.len(), clean.estimates.len(), "{}", say()),
        }
        if self.private {
            for (role, ledger) in self.ledgers() {
                let charged = charges(ledger);
                assert_eq!(charged.len(), 1, "{} was charged {charged:?}: {}", role.name, say());
                assert!(self.privacy(role, "verify").status.success(), "{}", say());
            }
            assert_eq!(self.releases(), clean.releases, "{}", say());
        }
    }
}

/// The runs that a ledger counts, each with the number of releases that it stored.
fn charges(ledger: &Path) -> Vec<(String, usize)> {
    let entries: Vec<Value> = records(ledger).iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let count = |kind: &str, at: &str, run: &Value| {
        entries.iter().filter(|entry| entry["kind"] == kind && entry.pointer(at) == Some(run)).count()
    };
    let reserved = entries.iter().filter(|entry| entry["kind"] == "reserved").map(|entry| &entry["run"]);
    let counted = reserved.filter(|run| count("withdrawn", "/run", run) == 0);
    counted.map(|run| (run.as_str().unwrap().to_string(), count("stored", "/receipt/run", run))).collect()
}

/// A study of these parties, each with a column of its own.
fn parties_study(mode: &str, parties: &[&str]) -> String {
    let three = parties.len() > 2;
    let (leads, held_by) =
        if three { (format!("leader = \"{}\"\n", parties[0]), "all") } else { (String::new(), "both") };
    let outcome = format!("[outcome]\ncolumn = \"y\"\nheld_by = \"{held_by}\"\n");
    let mut study = format!("id = \"endurance\"\nmode = \"{mode}\"\n{leads}[rows]\nid = \"id\"\n{outcome}");
    for party in parties {
        study.push_str(&format!("[parties.{party}]\ncertificate = \"{party}\"\ncolumns = [\"x_{party}\"]\n"));
    }
    if mode == "private" {
        for party in parties {
            study.push_str(&format!("[columns.x_{party}]\nrange = [-1, 1]\n"));
        }
        let mechanism = if three { "mechanism = \"crossprod\"\n" } else { "rounds = 3\n" };
        study.push_str(&format!("[columns.y]\nrange = [-2, 2]\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n{mechanism}"));
    }
    study
}

fn party_table(party: &str) -> String {
    let step = match party {
        "alice" => 0.7,
        "bob" => 0.11,
        _ => 0.37,
    };
    let mut text = format!("id,x_{party},y\n");
    for row in 0..60 {
        let t = f64::from(row);
        let y = (0.7 * t).cos() + 0.5 * (0.11 * t).cos() - 0.4 * (0.37 * t).cos() + 0.1 * (2.1 * t).sin();
        text.push_str(&format!("r{row:02},{},{y}\n", (step * t).cos()));
    }
    text
}

fn private_file(name: &str) -> String {
    format!(
        "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}/anchor\"\ndata_set = \"cohort\"\nepsilon = 8.0\n\
         delta = 1e-5\n"
    )
}

struct Running {
    child: Child,
}

impl Running {
    fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn whoever_is_killed_whenever_no_result_is_lost_and_no_budget_is_charged_twice_or_lost() {
    let mut rng = generator();
    let (mut given_up, mut idle, mut lost): (usize, usize, Vec<String>) = (0, 0, Vec::new());
    let plays = Play::all();
    let wanted = count("FEDREG_KILLS", plays.len());
    let clean: Vec<Clean> = plays.iter().map(Play::undisturbed).collect();
    let mut kills = 0;
    let mut tries = 0;
    while kills < wanted {
        let at = tries % plays.len();
        let (play, clean) = (&plays[at], &clean[at]);
        tries += 1;
        assert!(tries < 20 * wanted + 100, "processes end before they can be killed");
        let victim = rng.random_range(0..play.roles.len());
        let delay = clean.time.mul_f64(rng.random_range(0.0..1.0));
        // Half of the private runs that can be taken up again are given up: nobody goes on with them. In half of those that are nobody
        // gets to its first release.
        let gives_up = play.private && (rng.random_bool(0.5) || !play.resumes);
        let held = gives_up && rng.random_bool(0.5);
        play.forget_logs();
        play.reset();
        let first = "bytes WHEN NEW.name LIKE 'sent/%/0'";
        play.ledgers().filter(|_| held).for_each(|(_, ledger)| hold(ledger, first));
        // Where nobody is started again the others wait in vain.
        let wait = [("60".to_string(), if play.resumes || !play.private { "60" } else { "10" }.to_string())];
        let mut running: Vec<Running> = (0..play.roles.len()).map(|at| play.start(at, &wait)).collect();
        std::thread::sleep(delay);
        if running[victim].ended().is_some() {
            continue;
        }
        let name = play.roles[victim].name;
        running[victim].child.kill().unwrap();
        running[victim].child.wait().unwrap();
        kills += 1;
        let what = format!("kill {kills}: {name} after {} ms", delay.as_millis());
        if gives_up {
            let (found, unreleased) = play.given_up(running, held, clean, &what);
            lost.extend(found.iter().map(|name| format!("{} at {name}: {what}", play.name)));
            given_up += 1;
            idle += unreleased;
            continue;
        }
        if play.report(victim).is_none() || victim == 0 {
            running[victim] = play.start(victim, &[]);
        } else {
            // It has its result; nobody would start it again.
            running[victim] = Running { child: Command::new("true").spawn().unwrap() };
        }
        let codes = play.codes(running, Instant::now());
        // The coordinator of a sealed run deals, and what it dealt is gone with it.
        if play.resumes || (victim == 0 && !play.deals) {
            play.assert_whole(clean, &codes, &what);
            lost.extend(play.lost_budgets().iter().map(|name| format!("{} at {name}: {what}", play.name)));
            continue;
        }
        // Any other run ends when one of its parties is killed: all are told or wait in vain, and the next run is whole.
        assert!(codes.iter().all(Option::is_some), "{}: {what}: {codes:?}\n{}", play.name, play.logs());
        if !codes.iter().all(|code| *code == Some(0)) {
            let running: Vec<Running> = (0..play.roles.len()).map(|at| play.start(at, &[])).collect();
            let codes = play.codes(running, Instant::now());
            play.assert_whole(clean, &codes, &format!("the run after {what}"));
        }
    }
    assert!(lost.is_empty(), "budgets lost where nothing had left: {lost:#?}");
    println!(
        "{kills} kills ({given_up} of them of runs that were then given up, where {idle} ledgers had a charge and no release): no result \
         lost, no double charge, {} budgets lost where nothing had left",
        lost.len()
    );
}

// ------------------------------------------------------------------------------------------------------ broken lines

#[derive(Debug, Clone, Copy, PartialEq)]
enum Break {
    /// Both directions end.
    Cut,
    /// One byte is another.
    Flip,
    /// Nothing moves for a while, then the line ends.
    Stall,
    /// One direction ends.
    HalfClose,
    /// An alert in the clear, before anything else.
    Alert,
}

/// Where a line breaks: which connection, in which direction, after how many bytes.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kind: Break,
    connection: usize,
    towards_listener: bool,
    offset: u64,
}

/// Carries connections to `target`, and breaks one of them once.
fn proxy(target: &str, fault: Fault) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let struck = Arc::new(AtomicBool::new(false));
    let (target, seen) = (target.to_string(), Arc::clone(&struck));
    std::thread::spawn(move || {
        for (number, dialler) in listener.incoming().enumerate() {
            let Ok(dialler) = dialler else { return };
            let Ok(served) = TcpStream::connect(&target) else { continue };
            let here = (number == fault.connection).then_some(fault);
            if let Some(Fault { kind: Break::Alert, .. }) = here {
                seen.store(true, Ordering::SeqCst);
                let _ = (&dialler).write_all(&[21, 3, 3, 0, 2, 2, 40]);
                continue;
            }
            for (from, to, towards_listener) in [(&dialler, &served, true), (&served, &dialler, false)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let here = here.filter(|fault| fault.towards_listener == towards_listener);
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || carry(from, to, here, &seen));
            }
        }
    });
    (address, struck)
}

fn carry(mut from: TcpStream, mut to: TcpStream, fault: Option<Fault>, struck: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    let mut carried = 0;
    let close = |from: &TcpStream, to: &TcpStream| {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    };
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer) else {
            let _ = to.shutdown(Shutdown::Write);
            return;
        };
        if let Some(fault) = fault.filter(|fault| (carried..carried + read as u64).contains(&fault.offset)) {
            struck.store(true, Ordering::SeqCst);
            let at = (fault.offset - carried) as usize;
            match fault.kind {
                Break::Flip => buffer[at] ^= 0x20,
                kind => {
                    let _ = to.write_all(&buffer[..at]);
                    if kind == Break::Stall {
                        std::thread::sleep(Duration::from_millis(300));
                    }
                    if kind == Break::HalfClose {
                        let _ = to.shutdown(Shutdown::Write);
                        std::thread::sleep(Duration::from_millis(300));
                    }
                    return close(&from, &to);
                }
            }
        }
        carried += read as u64;
        if to.write_all(&buffer[..read]).is_err() {
            return close(&from, &to);
        }
    }
}

#[test]
fn a_line_that_breaks_anywhere_handshake_included_gives_the_bits_of_a_clean_line() {
    let mut rng = generator();
    let plays = Play::all();
    let wanted = count("FEDREG_LINES", plays.len());
    let clean: Vec<Clean> = plays.iter().map(Play::undisturbed).collect();
    let (mut broken, mut tries) = (0, 0);
    while broken < wanted {
        let at = tries % plays.len();
        let (play, clean) = (&plays[at], &clean[at]);
        tries += 1;
        assert!(tries < 20 * wanted + 100, "lines end before they can be broken");
        let kinds = [Break::Cut, Break::Flip, Break::Stall, Break::HalfClose, Break::Alert];
        let fault = Fault {
            kind: kinds[rng.random_range(0..kinds.len())],
            connection: rng.random_range(0..2),
            towards_listener: rng.random_bool(0.5),
            // Half of them within the handshake.
            offset: if rng.random_bool(0.5) { rng.random_range(0..2_500) } else { rng.random_range(0..20_000) },
        };
        play.forget_logs();
        play.reset();
        // One dialling role reaches what it dials through the proxy: the coordinator, or Alice for Bob.
        let victim = rng.random_range(1..play.roles.len());
        let flags = ["--coordinator", "--connect"];
        let dialled: Vec<String> = flags
            .iter()
            .filter_map(|flag| {
                let words = &play.roles[victim].arguments;
                words.iter().position(|word| word == flag).map(|at| words[at + 1].clone())
            })
            .collect();
        let target = &dialled[rng.random_range(0..dialled.len())];
        let (address, struck) = proxy(target, fault);
        let replace = [(target.clone(), address)];
        let begun = Instant::now();
        let running: Vec<Running> =
            (0..play.roles.len()).map(|at| play.start(at, if at == victim { &replace } else { &[] })).collect();
        let codes = play.codes(running, begun);
        let what = format!("{fault:?} between {} and {target}", play.roles[victim].name);
        // What is dealt stands on one line to its end: where that breaks nothing has opened and nothing was charged, and the next run is whole.
        let dealt = play.deals && play.roles[0].arguments.contains(target) && fault.connection > 0;
        if dealt && codes[1..].iter().all(|code| *code == Some(69)) {
            let running: Vec<Running> = (0..play.roles.len()).map(|at| play.start(at, &[])).collect();
            let codes = play.codes(running, Instant::now());
            play.assert_whole(clean, &codes, &format!("the run after {what}"));
        } else {
            play.assert_whole(clean, &codes, &what);
        }
        broken += usize::from(struck.load(Ordering::SeqCst));
    }
    println!("{broken} broken lines: the bits of a clean run each time");
}
