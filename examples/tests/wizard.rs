//! Studies that begin with a folder for everybody: what is written is read by the programs that it is for, and their five lines lead to a fit.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fedreg_common::id::Role;
use fedreg_proto::files::read_study;
use serde_json::Value;

const DEMO: &str = env!("CARGO_BIN_EXE_demo");
const DIABETES: &str = include_str!("../data/diabetes.csv");
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with the programs on a path of their own, and a home for anchors.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let desk = Desk { folder: tempfile::tempdir().unwrap() };
        let bin = desk.path("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["alice", "bob", "coordinator", "worker"] {
            script(&bin.join(name), &format!("exec '{DEMO}' --role {name} \"$@\""));
        }
        script(&bin.join("party"), &format!("name=$2; shift 2; exec '{DEMO}' --role \"$name\" \"$@\""));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A line for the shell in a folder.
    fn command(&self, folder: &Path, line: &str) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(folder)
            .env("PATH", path)
            .env("XDG_STATE_HOME", self.path("home"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(self.folder.path(), line).output().unwrap()
    }

    fn done(&self, folder: &Path, line: &str) -> String {
        let output = self.command(folder, line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {line}\n{said}", folder.display());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn start(&self, folder: &Path, line: &str) -> Child {
        let log = fs::File::create(folder.join("log.txt")).unwrap();
        // In place of the shell, so that it ends with its own code.
        self.command(folder, &format!("exec {line}")).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    /// Follows the five lines of everybody's folder below `dir`, as far as a run goes: `data` has the tables by name.
    fn follow(&self, dir: &Path, data: &BTreeMap<&str, String>) {
        let coordinator = dir.join("coordinator");
        let of = |name: &str| commands(&dir.join(name));
        let all = of("coordinator");
        let sign = all.iter().find(|line| line.contains("certs sign")).unwrap();
        self.done(&coordinator, sign);
        for (name, table) in data {
            let own = dir.join(name);
            fs::write(own.join("data.csv"), table).unwrap();
            let requests: Vec<PathBuf> =
                fs::read_dir(own.join("certificates")).unwrap().map(|entry| entry.unwrap().path()).collect();
            let request = requests.iter().find(|path| path.extension().is_some_and(|ending| ending == "csr")).unwrap();
            let signed = request.with_extension("pem");
            fs::copy(coordinator.join("certificates").join(signed.file_name().unwrap()), &signed).unwrap();
        }
        for name in data.keys() {
            for line in of(name).iter().filter(|line| {
                line.contains(" study explain ") || line.contains(" privacy init") || line.ends_with(" check")
            }) {
                self.done(&dir.join(name), line);
            }
        }
        let joint = ["match", "fit --out results", "join --out results"];
        let serve = all.iter().find(|line| line.starts_with("coordinator serve")).unwrap();
        for what in joint {
            let lines: Vec<(&str, String)> = data
                .keys()
                .filter_map(|name| {
                    Some((*name, of(name).into_iter().find(|line| line.ends_with(&format!(" {what}")))?))
                })
                .collect();
            if lines.is_empty() {
                continue;
            }
            let mut running = vec![("coordinator", self.start(&coordinator, serve))];
            running.extend(lines.iter().map(|(name, line)| (*name, self.start(&dir.join(name), line))));
            for (name, child) in &mut running {
                let code = ended(child);
                let log = fs::read_to_string(dir.join(*name).join("log.txt")).unwrap();
                assert_eq!(code, Some(0), "{name}: {what}\n{log}");
            }
        }
    }
}

fn script(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    None
}

/// What stands between backticks in a folder's five lines and begins with a program.
fn commands(folder: &Path) -> Vec<String> {
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    assert_eq!(readme.lines().count(), 5, "{readme}");
    let programs = ["alice ", "bob ", "party ", "worker ", "coordinator ", "for "];
    let pieces = readme.split('`').skip(1).step_by(2);
    pieces.filter(|piece| programs.iter().any(|program| piece.starts_with(program))).map(str::to_string).collect()
}

/// Columns of the shipped table, as a table of their own.
fn columns(names: &[&str]) -> String {
    let header: Vec<&str> = DIABETES.lines().next().unwrap().split(',').collect();
    let at: Vec<usize> = names.iter().map(|name| header.iter().position(|other| other == name).unwrap()).collect();
    let cells = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        at.iter().map(|at| cells[*at]).collect::<Vec<_>>().join(",") + "\n"
    };
    DIABETES.lines().map(cells).collect()
}

/// Ports that nobody listens at.
fn free<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

/// The study of a rehearsal says 7100 and 7101; tests take what is free.
fn at_free_ports(dir: &Path) {
    let ports: [u16; 2] = free();
    for entry in fs::read_dir(dir).unwrap() {
        let folder = entry.unwrap().path();
        for file in fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|ending| ending == "toml") {
                let text = fs::read_to_string(&file).unwrap();
                let text = text.replace(":7100", &format!(":{}", ports[0])).replace(":7101", &format!(":{}", ports[1]));
                fs::write(&file, text).unwrap();
            }
        }
    }
}

fn report(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).unwrap()
}

fn estimates(report: &Value) -> BTreeMap<String, f64> {
    let rows = report["coefficients"].as_array().unwrap().iter();
    rows.map(|row| (row["term"].as_str().unwrap().to_string(), row["estimate"].as_f64().unwrap())).collect()
}

#[track_caller]
fn assert_close(one: &BTreeMap<String, f64>, other: &BTreeMap<String, f64>) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (term, estimate) in one {
        assert!((estimate - other[term]).abs() <= 1e-8 * estimate.abs().max(1.0), "{term}: {estimate} {}", other[term]);
    }
}

/// Reads everybody's files below a folder as their programs do, and gives the names of the folders.
fn parsed(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let shared = fs::read_to_string(dir.join("coordinator/study.toml")).unwrap();
    for name in &names {
        let own = dir.join(name);
        assert_eq!(fs::read_to_string(own.join("study.toml")).unwrap(), shared, "study.toml differs between folders");
        let study = read_study(&own.join("study.toml")).unwrap();
        commands(&own);
        if name == "coordinator" || name == "dealer" {
            let flags = fedreg_coordinator::config::Overrides {
                config: Some(own.join(format!("{name}.toml"))),
                ..Default::default()
            };
            let config = fedreg_coordinator::config::Config::load(&flags).unwrap();
            assert!(config.tls.key.is_file() && config.tls.authority.is_file() && config.study.is_file());
            continue;
        }
        let (key, study_file) = match study.vertical() {
            Some(study) => {
                let role: Role = name.parse().unwrap();
                let flags = fedreg_party::config::Overrides {
                    config: Some(own.join(format!("{role}.toml"))),
                    ..Default::default()
                };
                let config = fedreg_party::config::Config::load(role, &flags).unwrap();
                assert_eq!(config.listen.is_some(), study.is_first(role), "{name}");
                (config.tls.key, config.study)
            }
            None => {
                let flags = fedreg_party::worker::config::Overrides {
                    config: Some(own.join("worker.toml")),
                    ..Default::default()
                };
                let config = fedreg_party::worker::config::Config::load(&flags).unwrap();
                (config.tls.key, config.study)
            }
        };
        assert!(key.is_file() && study_file.is_file(), "{name}");
    }
    names
}

#[test]
fn the_five_lines_of_every_folder_lead_to_the_fit_of_the_demo() {
    let desk = Desk::new();
    let [meet, line] = free();
    let made = desk.run(&format!(
        "bob study init --dir new --parties 'alice=age,sex,bmi,bp;bob=s1,s2,s3,s5,s6' --outcome progression --held-by alice --id id \
         --hosts 'coordinator=localhost;alice=localhost' --ports 'coordinator={meet};alice={line}'"
    ));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let dir = desk.path("new");
    assert_eq!(parsed(&dir), ["alice", "bob", "coordinator"]);
    let data = BTreeMap::from([
        ("alice", columns(&["id", "age", "sex", "bmi", "bp", "progression"])),
        ("bob", columns(&["id", "s1", "s2", "s3", "s5", "s6"])),
    ]);
    desk.follow(&dir, &data);
    let printed = desk.done(
        desk.folder.path(),
        &format!(
            "'{DEMO}' vertical --alice age,sex,bmi,bp --bob s1,s2,s3,s5,s6 --outcome-at alice --mode sealed --format json --out rehearsal"
        ),
    );
    let rehearsed: Value = serde_json::from_str(&printed).unwrap();
    for name in ["alice", "bob"] {
        let own = report(&dir.join(name).join("results/report.json"));
        assert_eq!(own["mode"], "sealed");
        assert_close(&estimates(&own), &estimates(&rehearsed));
    }
}

#[test]
fn a_study_whose_rows_are_matched_is_followed_through_its_match() {
    let desk = Desk::new();
    let [meet, line] = free();
    let made = desk.run(&format!(
        "coordinator study init --dir new --parties 'alice=age,bmi;bob=s1,s5' --outcome progression --held-by both --id id --rows matched \
         --hosts 'coordinator=localhost;alice=localhost' --ports 'coordinator={meet};alice={line}'"
    ));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let dir = desk.path("new");
    parsed(&dir);
    let fewer = |text: String, from: usize| {
        let lines: Vec<&str> = text.lines().collect();
        [&lines[..1], &lines[from..from + 300]].concat().join("\n") + "\n"
    };
    let data = BTreeMap::from([
        ("alice", fewer(columns(&["id", "age", "bmi", "progression"]), 1)),
        ("bob", fewer(columns(&["id", "s1", "s5", "progression"]), 101)),
    ]);
    desk.follow(&dir, &data);
    assert_eq!(report(&dir.join("bob/results/report.json"))["nobs"], 200);
}

#[test]
fn a_rehearsal_of_several_parties_becomes_a_study_with_the_same_fit() {
    let desk = Desk::new();
    let flags = "vertical --parties 'hospital=bmi,bp;laboratory=s1,s3,s5;office=age,sex' --leader hospital --outcome-at hospital";
    let said = desk.done(desk.folder.path(), &format!("'{DEMO}' {flags} --as-study new"));
    assert!(said.contains("study new (digest ") && said.contains("mode plain"), "{said}");
    assert!(!desk.path("fedreg-demo").exists(), "nothing is rehearsed");
    let dir = desk.path("new");
    assert_eq!(parsed(&dir), ["coordinator", "hospital", "laboratory", "office"]);
    at_free_ports(&dir);
    let data = BTreeMap::from([
        ("hospital", columns(&["id", "bmi", "bp", "progression"])),
        ("laboratory", columns(&["id", "s1", "s3", "s5"])),
        ("office", columns(&["id", "age", "sex"])),
    ]);
    desk.follow(&dir, &data);
    let printed = desk.done(desk.folder.path(), &format!("'{DEMO}' {flags} --format json --out rehearsal"));
    let rehearsed: Value = serde_json::from_str(&printed).unwrap();
    assert_close(&estimates(&report(&dir.join("office/results/report.json"))), &estimates(&rehearsed));
}

#[test]
fn a_rehearsal_of_sites_becomes_a_study_that_they_join() {
    let desk = Desk::new();
    desk.done(desk.folder.path(), &format!("'{DEMO}' robust --as-study new"));
    let dir = desk.path("new");
    assert_eq!(parsed(&dir), ["coordinator", "worker-1", "worker-2", "worker-3"]);
    at_free_ports(&dir);
    let all = columns(&["sex", "bmi", "bp", "s5", "progression"]);
    let lines: Vec<&str> = all.lines().collect();
    let part = |at: usize| [&lines[..1], &lines[1 + at * 147..1 + (at + 1) * 147]].concat().join("\n") + "\n";
    let data = BTreeMap::from([("worker-1", part(0)), ("worker-2", part(1)), ("worker-3", part(2))]);
    desk.follow(&dir, &data);
    assert_eq!(report(&dir.join("coordinator/results/report.json"))["protocol"], "robust");
}

#[test]
fn every_rehearsal_becomes_files_that_its_programs_read() {
    let desk = Desk::new();
    for (at, flags) in [
        "vertical",
        "vertical --mode sealed",
        "vertical --mode private --epsilon 3",
        "vertical --mode private --epsilon 3 --mechanism residual",
        "vertical --match",
        "vertical --lambda path --cv 5",
        "vertical --parties 'alice=~ log(bmi) * age;carol=s1;bob=s2' --mode sealed --opens all",
        "vertical --parties 'hospital=bmi,bp;office=age,sex' --mode private --epsilon 3",
        "robust --mode private --epsilon 3",
        "em",
        "em --model mrm --mode private",
        "features",
        "features --mode private",
        "stream --workers 2",
        "stream --mode private --epsilon 3",
    ]
    .iter()
    .enumerate()
    {
        let dir = format!("study-{at}");
        let said = desk.done(desk.folder.path(), &format!("'{DEMO}' {flags} --as-study {dir}"));
        assert!(said.starts_with(&format!("study {dir} (digest ")), "{flags}: {said}");
        let names = parsed(&desk.path(&dir));
        assert!(names.len() >= 3, "{flags}: {names:?}");
        let rows = fs::read_dir(desk.path(&dir)).unwrap().any(|entry| entry.unwrap().path().join("data.csv").exists());
        assert!(!rows, "{flags}: no row of the rehearsal is in a folder");
        // Once more over what is there.
        let again = desk.run(&format!("'{DEMO}' {flags} --as-study {dir}"));
        assert_eq!(again.status.code(), Some(73), "{flags}");
        assert!(
            String::from_utf8_lossy(&again.stderr).contains("exists already: choose another folder with --as-study")
        );
    }
}

/// The private file of a party, and line 2 of its README.
fn of_bob(dir: &Path) -> (String, String) {
    let read = |name: &str| fs::read_to_string(dir.join("bob").join(name)).unwrap();
    (read("bob.toml"), read("README.md").lines().nth(1).unwrap().to_string())
}

#[test]
fn a_study_of_a_rehearsal_names_the_machines_or_says_that_it_does_not() {
    let desk = Desk::new();
    let flags = "--hosts 'coordinator=registry.example;alice=north.example' --ports 'alice=7201'";
    let said = desk.done(desk.folder.path(), &format!("'{DEMO}' vertical --mode sealed --as-study there {flags}"));
    assert!(!said.contains("localhost"), "{said}");
    let (file, line) = of_bob(&desk.path("there"));
    assert!(file.contains("coordinator = \"registry.example:7100\"") && !line.contains("this machine"), "{file}{line}");
    assert!(file.contains("connect = \"north.example:7201\""), "{file}");
    parsed(&desk.path("there"));
    let said = desk.done(desk.folder.path(), &format!("'{DEMO}' vertical --mode sealed --as-study here"));
    assert!(said.contains("addresses are those of this machine (localhost)") && said.contains("--hosts"), "{said}");
    let (file, line) = of_bob(&desk.path("here"));
    assert!(file.contains("connect = \"localhost:7101\""), "{file}");
    assert!(
        line.contains("this machine (localhost)") && line.ends_with("`coordinator` and `connect` in bob.toml."),
        "{line}"
    );
    for (line, says) in [
        ("vertical --ports 'alice=7201'", "--hosts and --ports need --as-study"),
        ("robust --hosts 'coordinator=a'", "--hosts and --ports need --as-study"),
        ("vertical --as-study new --hosts 'coordinator=a'", "--hosts is missing"),
        ("robust --as-study new --hosts 'coordinator=a' --ports 'worker-1=7'", "--ports: worker-1 listens nowhere"),
    ] {
        let output = desk.run(&format!("'{DEMO}' {line}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(says), "{line}: {said}");
    }
    assert!(!desk.path("new").exists());
}

#[test]
fn every_program_explains_the_same_study_in_the_same_words() {
    let desk = Desk::new();
    fs::write(desk.path("study.toml"), include_str!("../two-hospitals/study-sealed.toml")).unwrap();
    let texts: Vec<String> = ["alice", "bob", "worker", "coordinator", "party --name carol"]
        .iter()
        .map(|program| desk.done(desk.folder.path(), &format!("{program} study explain study.toml")))
        .collect();
    assert!(texts.iter().all(|text| *text == texts[0]));
    for words in [
        "What leaves whom in the study two-hospitals-sealed",
        "a dealer that colludes with neither party",
        "certificate: north.hospital.example",
        "What predictions disclose",
    ] {
        // However the lines are broken.
        let text = texts[0].split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}\n{}", texts[0]);
    }
    desk.done(desk.folder.path(), "worker study explain study.toml --format html --out page.html");
    assert!(fs::read_to_string(desk.path("page.html")).unwrap().starts_with("<!DOCTYPE html>"));
    let json = desk.done(desk.folder.path(), "coordinator study explain study.toml --format json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!([&json["mode"], &json["protocol"]], ["sealed", "vertical"]);
    let study = fs::read(desk.path("study.toml")).unwrap();
    let over = desk.run("alice study explain study.toml --out ./study.toml");
    assert_eq!(over.status.code(), Some(2));
    let said = String::from_utf8_lossy(&over.stderr).into_owned();
    assert!(said.contains("--out names the study itself, ./study.toml, which would be lost"), "{said}");
    assert_eq!(fs::read(desk.path("study.toml")).unwrap(), study);
    let wrong = desk.run("bob study explain nothing.toml");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("cannot read nothing.toml"));
}

#[test]
fn what_nobody_answers_ends_with_the_flag_and_writes_nothing() {
    let desk = Desk::new();
    for (line, says) in [
        ("alice study init --dir new", "alice: --parties is missing"),
        ("party --name a study init --dir new --parties 'a=x;b=y'", "--outcome is missing"),
        ("worker study init --dir new --method robust", "--sites is missing"),
        (
            "alice study init --dir new --parties 'alice=a;bob=b' --outcome y --held-by bob",
            "names bob: it is \"both\" or \"alice\"",
        ),
    ] {
        let output = desk.run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(says) && said.trim_end().lines().count() == 1, "{line}: {said}");
        assert!(!desk.path("new").exists(), "{line}");
    }
    fs::write(desk.path("own.csv"), "id,age,y\n1,2,3\n").unwrap();
    let line =
        "alice study init --dir new --data own.csv --parties 'alice=agee;bob=b' --outcome y --held-by alice --id id";
    let said = String::from_utf8_lossy(&desk.run(line).stderr).into_owned();
    assert!(said.contains("there is no column `agee`; the nearest name is `age`"), "{said}");
    let gone = desk.run("alice study init --dir new --data gone.csv");
    assert_eq!(gone.status.code(), Some(65));
}
