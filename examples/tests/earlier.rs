//! What version 6200b4b wrote (`fixtures/6200b4b`): ledgers are opened, verified, reported and counted on, models predict, and state
//! folders go on.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fedreg_proto::certs::{self, Authority, NewFile, Subject, Validity};
use ledgers::{records, stored};
use serde_json::Value;
use tempfile::TempDir;

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fixture in another folder than where it was written, with certificates of today.
struct Fixture(TempDir);

impl Fixture {
    fn new(name: &str, names: &[&str]) -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/6200b4b").join(name), fixture.0.path());
        let validity = Validity::days(time::OffsetDateTime::now_utc(), 30).unwrap();
        let made = Authority::create("fixtures", validity).unwrap();
        let place = fixture.path("authority.pem");
        let issuer = Authority::from_pem(&made.pem, &made.key, (&place, &place)).unwrap();
        let write = |name: &str, contents: &str| {
            let file = NewFile { path: &fixture.path(name), contents, secret: name.ends_with("key") };
            certs::write(&[file], true).unwrap();
        };
        write("authority.pem", &made.pem);
        for name in names.iter().chain(&["coordinator"]) {
            let issued = issuer.issue(&Subject::new(name, &[]).unwrap(), validity).unwrap();
            write(&format!("{name}.pem"), &issued.pem);
            write(&format!("{name}.key"), &issued.key);
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// A program with its own certificate and state, and its configuration where there is one.
    fn command(&self, role: &str, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(DEMO);
        command.current_dir(self.0.path()).stdin(Stdio::null()).args(["--role", role]).args(words);
        command.args(["--study", "study.toml", "--state", &format!("{name}-state"), "--authority", "authority.pem"]);
        command.args(["--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")]);
        if self.path(&format!("{name}.toml")).exists() {
            command.args(["--config", &format!("{name}.toml")]);
        }
        command
    }

    fn start(&self, role: &str, name: &str, words: &[&str]) -> Child {
        let log = |kind: &str| fs::File::create(self.path(&format!("{name}.{kind}"))).unwrap();
        self.command(role, name, words).stdout(log("out")).stderr(log("log")).spawn().unwrap()
    }

    /// Starts the coordinator; its address.
    fn convene(&self, more: &[&str]) -> (Child, String) {
        for name in ["coordinator.address", "alice.address"] {
            let _ = fs::remove_file(self.path(name));
        }
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--announce", "coordinator.address", "--wait", "1"];
        (self.start("coordinator", "coordinator", &[&fixed[..], more].concat()), self.address("coordinator.address"))
    }

    fn address(&self, file: &str) -> String {
        let since = Instant::now();
        loop {
            match fs::read_to_string(self.path(file)) {
                Ok(text) => return text,
                Err(_) => assert!(since.elapsed() < PATIENCE, "no {file}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The same command at both parties; {} stands for the role. The codes of the coordinator, alice and bob.
    fn both(&self, words: &[&str]) -> [i32; 3] {
        let (coordinator, meet) = self.convene(&[]);
        let words = |role: &str| -> Vec<String> {
            words
                .iter()
                .map(|word| word.replace("{}", role))
                .chain(["--coordinator".to_string(), meet.clone()])
                .collect()
        };
        let start = |role: &str, more: &[&str]| {
            let words = words(role);
            self.start(role, role, &[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], more].concat())
        };
        let alice = start("alice", &["--listen", "127.0.0.1:0", "--announce", "alice.address"]);
        let bob = start("bob", &["--connect", &self.address("alice.address")]);
        [coordinator, alice, bob].map(ended)
    }

    /// A run between sites; the codes of the coordinator and of the sites.
    fn between(&self, sites: &[&str]) -> Vec<i32> {
        let (coordinator, meet) = self.convene(&["--out", "out/coordinator"]);
        let join = |name: &&str| {
            let words =
                ["join", "--coordinator", &meet, "--data", &format!("{name}.csv"), "--out", &format!("out/{name}")];
            self.start("worker", name, &words)
        };
        let sites: Vec<Child> = sites.iter().map(join).collect();
        std::iter::once(coordinator).chain(sites).map(ended).collect()
    }

    fn privacy(&self, role: &str, name: &str, words: &[&str]) -> Output {
        let mut all = vec!["privacy"];
        all.extend(words);
        let data = format!("{name}.csv");
        all.extend(["--coordinator", "127.0.0.1:9", "--data", &data]);
        if role != "worker" {
            all.extend(["--connect", "127.0.0.1:9"]);
        }
        self.command(role, name, &all).output().unwrap()
    }

    fn told(&self, role: &str, name: &str, words: &[&str]) -> Value {
        let output = self.privacy(role, name, &[words, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn sum(&self, role: &str, name: &str) -> f64 {
        self.told(role, name, &["status"])[0]["sum"].as_f64().unwrap()
    }

    fn ledger(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}-state/privacy.sqlite"))
    }

    fn logs(&self) -> String {
        let logs = fs::read_dir(self.0.path()).unwrap().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        logs.map(|path| format!("== {}\n{}", path.display(), fs::read_to_string(&path).unwrap())).collect()
    }

    /// The ledger is whole, and says of its run what the run's report said when it was made.
    fn reports_what_was_reported(&self, role: &str, name: &str) {
        let verified = self.privacy(role, name, &["verify"]);
        assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
        let old = &self.json(&format!("out/{name}/report.json"))["privacy"];
        let runs = self.told(role, name, &["report"]);
        assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
        assert_eq!(runs[0]["releases"], old["releases"]);
        assert_eq!(self.sum(role, name), old["spent"].as_f64().unwrap());
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn ended(mut child: Child) -> i32 {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(path, to).unwrap()),
        }
    }
}

fn count(ledger: &Path, kind: &str) -> usize {
    records(ledger).iter().filter(|body| body.contains(&format!("\"kind\":\"{kind}\""))).count()
}

#[test]
fn ledgers_of_two_parties_count_on_until_their_budget_is_spent() {
    let fixture = Fixture::new("two-parties-private", &["alice", "bob"]);
    let parties = ["alice", "bob"];
    let before = parties.map(|role| {
        assert!(count(&fixture.ledger(role), "started") > 0, "a record that is no longer written");
        fixture.reports_what_was_reported(role, role);
        (fixture.sum(role, role), stored(&fixture.ledger(role), "sent/%"))
    });
    let fit = || fixture.both(&["fit", "--data", "{}.csv", "--out", "out/{}"]);
    assert_eq!(fit(), [0; 3], "{}", fixture.logs());
    for (role, (sum, sent)) in parties.iter().zip(&before) {
        let report = fixture.json(&format!("out/{role}/report.json"));
        let charge = report["privacy"]["charge"].as_f64().unwrap();
        let now = fixture.sum(role, role);
        assert!(now > *sum && (now - sum - charge).abs() < 1e-12, "{role}: {sum} and {charge} are {now}");
        assert!(sent.iter().all(|bytes| stored(&fixture.ledger(role), "sent/%").contains(bytes)), "stored bytes stay");
    }
    assert_eq!(fit(), [77; 3], "{}", fixture.logs());
    assert!(fixture.logs().contains("the budget of data set \"cohort\" is spent"), "{}", fixture.logs());
    for role in parties {
        assert_eq!(count(&fixture.ledger(role), "reserved"), 2);
        assert_eq!(fixture.privacy(role, role, &["verify"]).status.code(), Some(0));
    }
}

#[test]
fn ledgers_of_sites_whose_identifiers_have_leading_zeros_count_on_until_their_budget_is_spent() {
    let fixture = Fixture::new("sites-robust", &["north", "south"]);
    let sites = ["north", "south"];
    let before = sites.map(|name| {
        assert!(count(&fixture.ledger(name), "started") > 0, "a record that is no longer written");
        fixture.reports_what_was_reported("worker", name);
        fixture.sum("worker", name)
    });
    let codes = fixture.between(&sites);
    assert!(codes.iter().all(|code| [0, 3].contains(code)), "{codes:?} {}", fixture.logs());
    for (name, sum) in sites.iter().zip(before) {
        let charge = fixture.json(&format!("out/{name}/report.json"))["privacy"]["charge"].as_f64().unwrap();
        let now = fixture.sum("worker", name);
        assert!(now > sum && (now - sum - charge).abs() < 1e-12, "{name}: {sum} and {charge} are {now}");
        // `007` and `7` are one person now: the ledger says so once, where there are such, and it is the same data set.
        assert_eq!(count(&fixture.ledger(name), "persons"), usize::from(*name == "north"));
    }
    let codes = fixture.between(&sites);
    assert_eq!(codes[1..], [77; 2], "{}", fixture.logs());
    for name in sites {
        assert_eq!(count(&fixture.ledger(name), "reserved"), 2);
        assert_eq!(fixture.privacy("worker", name, &["verify"]).status.code(), Some(0));
    }
}

#[test]
fn the_ledger_of_a_stream_counts_on_until_its_budget_is_spent() {
    let fixture = Fixture::new("site-stream", &["north"]);
    fixture.reports_what_was_reported("worker", "north");
    let before = fixture.sum("worker", "north");
    let codes = fixture.between(&["north"]);
    assert_eq!(codes, [0; 2], "{}", fixture.logs());
    let charge = fixture.json("out/north/report.json")["privacy"]["charge"].as_f64().unwrap();
    let now = fixture.sum("worker", "north");
    assert!(now > before && (now - before - charge).abs() < 1e-12, "{before} and {charge} are {now}");
    assert_eq!(fixture.between(&["north"])[1], 77, "{}", fixture.logs());
    assert_eq!(fixture.privacy("worker", "north", &["verify"]).status.code(), Some(0));
}

#[test]
fn models_and_states_of_two_parties_are_used_on() {
    let fixture = Fixture::new("two-parties-plain", &["alice", "bob"]);
    let runs =
        || ["alice", "bob"].map(|role| fs::read_to_string(fixture.path(&format!("{role}-state/runs.jsonl"))).unwrap());
    let (before, predictions) = (runs(), fs::read(fixture.path("out/alice/scores.csv")).unwrap());
    let codes = fixture.both(&["predict", "--model", "out/{}/model.json", "--data", "{}_new.csv", "--out", "again/{}"]);
    assert_eq!(codes, [0; 3], "{}", fixture.logs());
    assert_eq!(fs::read(fixture.path("again/alice/scores.csv")).unwrap(), predictions);
    let codes = fixture.both(&["fit", "--data", "{}.csv", "--out", "again/{}"]);
    assert_eq!(codes, [0; 3], "{}", fixture.logs());
    let estimates = |folder: &str| -> Vec<f64> {
        let report = fixture.json(&format!("{folder}/alice/report.json"));
        report["coefficients"].as_array().unwrap().iter().map(|row| row["estimate"].as_f64().unwrap()).collect()
    };
    for (now, then) in estimates("again").iter().zip(estimates("out")) {
        assert!((now - then).abs() < 1e-7 * then.abs(), "{now} {then}");
    }
    for (now, then) in runs().iter().zip(before) {
        assert!(now.starts_with(&then) && now.lines().count() == then.lines().count() + 2, "{then}\n{now}");
    }
}

#[test]
fn what_a_plain_run_showed_is_known_to_a_ledger_that_is_made_later() {
    let fixture = Fixture::new("two-parties-plain", &["alice", "bob"]);
    let private = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/6200b4b/two-parties-private/study.toml");
    fs::copy(private, fixture.path("study.toml")).unwrap();
    let terms = "[privacy]\nanchor = \"anchors/alice.anchor\"\ndata_set = \"cohort\"\nepsilon = 1.0\ndelta = 1e-5\n";
    fs::write(fixture.path("alice.toml"), terms).unwrap();
    let made = fixture.privacy("alice", "alice", &["init"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    assert_eq!(fixture.told("alice", "alice", &["status"])[0]["unbounded"], true);
}

#[test]
fn functions_of_sites_predict() {
    let fixture = Fixture::new("sites-features", &["north", "south"]);
    for report in ["north", "south", "coordinator"] {
        let output = Command::new(DEMO)
            .args(["--role", "worker", "predict", "--study", "study.toml", "--data", "new.csv", "--report"])
            .arg(format!("out/{report}/report.json"))
            .current_dir(fixture.0.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(output.stdout, fs::read(fixture.path("predictions.csv")).unwrap(), "{report}");
    }
}
