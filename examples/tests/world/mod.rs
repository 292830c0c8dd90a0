//! A folder with a study, certificates and tables, and the roles as processes.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod spoiler;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fedreg_proto::certs::{self, Authority, NewFile, Subject, Validity};
use tempfile::TempDir;

pub(crate) const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Longer than anything here takes; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a study, certificates, tables and private files.
pub(crate) struct World {
    pub(crate) folder: TempDir,
}

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) leash: Option<ChildStdin>,
    pub(crate) log: PathBuf,
}

pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) log: String,
    pub(crate) out: String,
}

pub(crate) const STUDY: &str = r#"
    id = "world"
    [outcome]
    column = "y"
    [rows]
    id = "id"
    [parties.alice]
    certificate = "alice"
    columns = ["a"]
    [parties.bob]
    certificate = "bob"
    columns = ["b"]
"#;

impl World {
    pub(crate) fn new() -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        world.certificates("authority", &["alice", "bob", "coordinator"]);
        world.write("study.toml", STUDY);
        let rows = |value: fn(f64) -> f64| {
            let mut text = String::from("id,x,y\n");
            for row in 0..40 {
                let t = f64::from(row);
                text.push_str(&format!("r{row:02},{},{}\n", value(t), (0.3 * t).sin() + 0.1 * t));
            }
            text
        };
        world.write("alice.csv", &rows(|t| (0.7 * t).cos()).replace(",x,", ",a,"));
        world.write("bob.csv", &rows(|t| 0.05 * t + (0.7 * t).cos()).replace(",x,", ",b,"));
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn certificates(&self, authority: &str, names: &[&str]) {
        let now = time::OffsetDateTime::now_utc();
        let validity = Validity::days(now, 30).unwrap();
        let made = Authority::create(authority, validity).unwrap();
        let place = self.path(&format!("{authority}.pem"));
        let issuer = Authority::from_pem(&made.pem, &made.key, (&place, &place)).unwrap();
        let write = |path: &Path, contents: &str| {
            let file = NewFile { path, contents, secret: false };
            certs::write(&[file], true).unwrap();
        };
        write(&place, &made.pem);
        for name in names {
            let issued = issuer.issue(&Subject::new(name, &[]).unwrap(), validity).unwrap();
            write(&self.path(&format!("{name}.pem")), &issued.pem);
            write(&self.path(&format!("{name}.key")), &issued.key);
        }
    }

    pub(crate) fn start(&self, role: &str, arguments: &[&str]) -> Running {
        self.start_as(role, role, arguments)
    }

    /// What a command of a party says that opens no connection; `line` is the flag by which the party meets the others.
    pub(crate) fn asked(&self, name: &str, line: &str, words: &[&str]) -> Output {
        self.command(name, line, words).output().unwrap()
    }

    /// The same, not begun yet. A table or a state folder among the words takes the place of the party's own.
    pub(crate) fn command(&self, name: &str, line: &str, words: &[&str]) -> Command {
        let mut command = Command::new(DEMO);
        command.args(["--role", name]).args(words);
        for (flag, value) in [("--data", format!("{name}.csv")), ("--state", format!("{name}-state"))] {
            if !words.contains(&flag) {
                command.args([flag, &value]);
            }
        }
        command
            .args(["--study", "study.toml", "--coordinator", "127.0.0.1:9", line, "127.0.0.1:9"])
            .args(["--authority", "authority.pem"])
            .args(["--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")])
            .env("XDG_STATE_HOME", self.path("state-home"))
            .current_dir(self.path(""))
            .stdin(Stdio::null());
        command
    }

    /// A program of a role, with the certificate of a given name.
    pub(crate) fn start_as(&self, role: &str, name: &str, arguments: &[&str]) -> Running {
        let log = self.path(&format!("{name}.log"));
        let (authority, certificate, key) =
            (self.path("authority.pem"), self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        let mut command = Command::new(DEMO);
        command
            .args(["--role", role])
            .args(arguments)
            .args(["--leash", "--log", "text", "--study", "study.toml"])
            .args(["--state", &format!("{name}-state")])
            .arg("--authority")
            .arg(authority)
            .arg("--certificate")
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .current_dir(self.folder.path())
            // Anchors of ledgers, away from those of the user who tests.
            .env("XDG_STATE_HOME", self.path("state-home"))
            .stdin(Stdio::piped())
            .stdout(fs::File::create(self.path(&format!("{name}.out"))).unwrap())
            .stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        Running { leash: child.stdin.take(), child, log }
    }

    pub(crate) fn coordinator(&self) -> (Running, String) {
        self.coordinator_with(&["--wait", "1"])
    }

    pub(crate) fn coordinator_with(&self, more: &[&str]) -> (Running, String) {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--announce", "coordinator.address"];
        let running = self.start("coordinator", &[&fixed[..], more].concat());
        let address = self.address("coordinator.address");
        (running, address)
    }

    pub(crate) fn address(&self, file: &str) -> String {
        eventually(|| fs::read_to_string(self.path(file)).ok())
    }

    pub(crate) fn alice(&self, coordinator: &str, more: &[&str]) -> Running {
        let mut arguments = vec!["fit", "--coordinator", coordinator];
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0", "--announce", "alice.address"]);
        }
        if !more.contains(&"--data") {
            arguments.extend(["--data", "alice.csv"]);
        }
        arguments.extend(more);
        self.start("alice", &arguments)
    }

    pub(crate) fn bob(&self, coordinator: &str, more: &[&str]) -> Running {
        let alice = self.address("alice.address");
        let mut arguments = vec!["fit", "--coordinator", coordinator, "--connect", &alice];
        if !more.contains(&"--data") {
            arguments.extend(["--data", "bob.csv"]);
        }
        arguments.extend(more);
        self.start("bob", &arguments)
    }

    /// A whole run; the coordinator, alice, bob.
    pub(crate) fn run(&self, alice: &[&str], bob: &[&str]) -> [Ended; 3] {
        let (coordinator, address) = self.coordinator();
        let alice = self.alice(&address, alice);
        let bob = self.bob(&address, bob);
        [coordinator.end(), alice.end(), bob.end()]
    }
}

impl Running {
    pub(crate) fn end(mut self) -> Ended {
        let child = &mut self.child;
        let status = eventually(|| child.try_wait().unwrap());
        Ended {
            code: status.code().unwrap_or(-1),
            log: fs::read_to_string(&self.log).unwrap(),
            out: fs::read_to_string(self.log.with_extension("out")).unwrap(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that stays free until a program of a test listens there, also between two of its runs: below the ports that the system gives
/// to those that are dialled or ask for any.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::SeqCst);
        let port = 20_000 + (std::process::id().wrapping_mul(61).wrapping_add(step)) % 12_000;
        if let Ok(listener) = TcpListener::bind(format!("127.0.0.1:{port}")) {
            return listener.local_addr().unwrap().to_string();
        }
    }
}

pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub(crate) fn assert_codes(ended: &[Ended; 3], code: i32) {
    let [coordinator, alice, bob] = ended;
    assert_eq!(
        [coordinator.code, alice.code, bob.code],
        [code; 3],
        "\ncoordinator:\n{}\nalice:\n{}\nbob:\n{}",
        coordinator.log,
        alice.log,
        bob.log
    );
}

pub(crate) fn demo(arguments: &[&str]) -> std::process::Output {
    Command::new(DEMO).args(arguments).stdin(Stdio::null()).output().unwrap()
}
