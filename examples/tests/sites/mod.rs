//! A folder with a study of many sites, certificates and tables, and the roles as processes.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use fedreg_proto::certs::{self, Authority, NewFile, Subject, Validity};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Longer than anything here takes; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked for that a process writes.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A folder with a study, certificates and the tables of three workers.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) address: String,
}

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) log: PathBuf,
}

pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) log: String,
}

pub(crate) const WORKERS: [&str; 3] = ["north", "south", "west"];

pub(crate) const STUDY: &str = r#"
    id = "sites"
    protocol = "robust"
    [workers.north]
    certificate = "north"
    [workers.south]
    certificate = "south"
    [workers.west]
    certificate = "west"
    [model]
    features = ["a", "b"]
    [outcome]
    column = "y"
    [sites]
    batch_rows = 20
    deadline = 50
"#;

/// Rows of a worker around y = 1 + 2 a - 3 b; deterministic, with a little noise.
pub(crate) fn rows(seed: u64, count: u64) -> String {
    let wave = |x: f64| (x * 12.9898).sin() * 43_758.545;
    let draw = |at: u64| {
        let x = wave(at as f64 + 0.37 * seed as f64);
        2.0 * (x - x.floor()) - 1.0
    };
    (0..count).fold(String::new(), |mut text, row| {
        let (a, b, e) = (draw(3 * row), draw(3 * row + 1), draw(3 * row + 2));
        let _ = writeln!(text, "{a},{b},{}", 1.0 + 2.0 * a - 3.0 * b + 0.05 * e);
        text
    })
}

pub(crate) fn table(seed: u64, count: u64) -> String {
    format!("a,b,y\n{}", rows(seed, count))
}

impl World {
    pub(crate) fn new() -> World {
        World::of(STUDY)
    }

    pub(crate) fn of(study: &str) -> World {
        // A port that was free a moment ago, and the same for a coordinator that is started again.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let world = World { folder: tempfile::tempdir().unwrap(), address: free.to_string() };
        world.certificates(&["coordinator", "north", "south", "west", "stranger"]);
        world.write("study.toml", study);
        for (seed, name) in WORKERS.iter().enumerate() {
            world.write(&format!("{name}.csv"), &table(seed as u64 + 1, 100));
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn certificates(&self, names: &[&str]) {
        let validity = Validity::days(time::OffsetDateTime::now_utc(), 30).unwrap();
        let made = Authority::create("authority", validity).unwrap();
        let place = self.path("authority.pem");
        let issuer = Authority::from_pem(&made.pem, &made.key, (&place, &place)).unwrap();
        let write = |path: &Path, contents: &str| {
            certs::write(&[NewFile { path, contents, secret: path.extension().is_some_and(|e| e == "key") }], true)
                .unwrap();
        };
        write(&place, &made.pem);
        for name in names {
            let issued = issuer.issue(&Subject::new(name, &[]).unwrap(), validity).unwrap();
            write(&self.path(&format!("{name}.pem")), &issued.pem);
            write(&self.path(&format!("{name}.key")), &issued.key);
        }
    }

    pub(crate) fn start(&self, role: &str, name: &str, tag: &str, arguments: &[&str]) -> Running {
        let log = self.path(&format!("{tag}.log"));
        let mut command = Command::new(DEMO);
        command
            .args(["--role", role])
            .args(arguments)
            .args(["--log", "text"])
            .args([
                "--authority",
                "authority.pem",
                "--certificate",
                &format!("{name}.pem"),
                "--key",
                &format!("{name}.key"),
            ])
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(fs::File::create(self.path(&format!("{tag}.out"))).unwrap())
            .stderr(fs::File::create(&log).unwrap());
        if !arguments.contains(&"--study") {
            command.args(["--study", "study.toml"]);
        }
        if !arguments.contains(&"--state") {
            command.args(["--state", &format!("{tag}-state")]);
        }
        let mut child = command.spawn().unwrap();
        Running { stdin: child.stdin.take(), child, log }
    }

    pub(crate) fn coordinator(&self, more: &[&str]) -> Running {
        let mut arguments = vec!["serve", "--listen", &self.address, "--out", "coordinator"];
        if !more.contains(&"--wait") {
            arguments.extend(["--wait", "1"]);
        }
        arguments.extend(more);
        let running = self.start("coordinator", "coordinator", "coordinator", &arguments);
        running.wait_for("coordinating");
        running
    }

    pub(crate) fn worker(&self, name: &str, more: &[&str]) -> Running {
        self.worker_as(name, name, &format!("{name}.csv"), more)
    }

    pub(crate) fn worker_as(&self, certificate: &str, tag: &str, data: &str, more: &[&str]) -> Running {
        let mut arguments = vec!["join", "--coordinator", &self.address, "--data", data, "--out", tag];
        if !more.contains(&"--wait") {
            arguments.extend(["--wait", "20"]);
        }
        arguments.extend(more);
        self.start("worker", certificate, tag, &arguments)
    }

    pub(crate) fn report(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(&format!("{name}/report.json"))).unwrap()).unwrap()
    }

    /// Waits until the coordinator has so many contributions of a worker.
    pub(crate) fn wait_for_contributions(&self, name: &str, count: u64) {
        let since = Instant::now();
        loop {
            let out = Command::new(DEMO)
                .args(["--role", "coordinator", "status", "--format", "json", "--listen", &self.address])
                .args(["--study", "study.toml", "--authority", "authority.pem"])
                .args(["--certificate", "coordinator.pem", "--key", "coordinator.key"])
                .current_dir(self.folder.path())
                .output()
                .unwrap();
            if let Ok(status) = serde_json::from_slice::<Value>(&out.stdout)
                && status["parties"][name]["round"].as_u64() == Some(count)
            {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&out.stderr));
            std::thread::sleep(LOOK);
        }
    }
}

impl Running {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn wait_for(&self, words: &str) {
        let since = Instant::now();
        while !self.log().contains(words) {
            assert!(since.elapsed() < PATIENCE, "no `{words}` in {}", self.log());
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log()
    }

    pub(crate) fn end(mut self) -> Ended {
        drop(self.stdin.take());
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ended { code: status.code().unwrap_or(-1), log: self.log() };
            }
            assert!(since.elapsed() < PATIENCE, "{}", self.log());
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
