//! The roles as processes of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_proto::output::own_file;

use crate::Failure;

/// The hidden first argument that turns the demo into a role.
pub(crate) const ROLE: &str = "--role";

/// How often a file is looked for that a process writes when it is ready.
const LOOK: Duration = Duration::from_millis(5);

/// A role that runs.
pub(crate) struct Process {
    role: Role,
    name: String,
    child: Child,
    /// The process ends as by an interrupt when this closes: no role outlives the demo, however the demo ends.
    leash: Option<ChildStdin>,
    log: PathBuf,
    exit: Option<Exit>,
}

impl Process {
    /// Starts a role; its log goes to a file, and its standard output nowhere, as its report is written anyway.
    pub(crate) fn start(role: Role, name: &str, arguments: &[&str], log: &Path) -> Result<Process, Failure> {
        let start = || -> anyhow::Result<Process> {
            let made = own_file().write(true).truncate(true).open(log);
            let file = made.with_context(|| format!("cannot write {}", log.display()))?;
            let program = std::env::current_exe().context("the demo does not know its own file")?;
            let mut child = Command::new(program)
                .args([ROLE, role.name()])
                .args(arguments)
                .args(["--leash", "--log", "text"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(file)
                .spawn()
                .with_context(|| format!("cannot start {name}"))?;
            Ok(Process {
                role,
                name: name.to_string(),
                leash: child.stdin.take(),
                child,
                log: log.to_path_buf(),
                exit: None,
            })
        };
        start().map_err(|error| Failure::new(Exit::Internal, error))
    }

    /// The address that the process writes once it listens.
    pub(crate) fn address(&mut self, file: &Path) -> Result<String, Failure> {
        loop {
            if let Ok(address) = fs::read_to_string(file) {
                return Ok(address);
            }
            if let Some(exit) = self.ended()? {
                return Err(Failure::new(exit, anyhow::anyhow!(self.last_words())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The code with which the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<Exit>, Failure> {
        if self.exit.is_none() {
            let status = self
                .child
                .try_wait()
                .with_context(|| format!("cannot wait for {}", self.name))
                .map_err(|error| Failure::new(Exit::Internal, error))?;
            self.exit = status.map(|status| {
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                // No code means a signal, of which the process could say nothing.
                code.map_or(Exit::Interrupted, Exit::from_code)
            });
        }
        Ok(self.exit)
    }

    /// The code with which the process ended, if that was seen.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Ends the process as by an interrupt.
    pub(crate) fn let_go(&mut self) {
        self.leash = None;
    }

    /// Why the process ended, as it said itself.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let own = format!("{}: ", self.role);
        let said = log.lines().rev().find(|line| line.starts_with(&own));
        let name = &self.name;
        match (said.and_then(|line| line.strip_prefix(&own)), self.exit) {
            (Some(words), _) => format!("{name}: {words}"),
            (None, Some(exit)) => format!("{name}: {}; see {}", exit.advice(), self.log.display()),
            (None, None) => format!("{name}: see {}", self.log.display()),
        }
    }
}

/// Waits for the end of all processes; an interrupt of the demo ends them, each in its own good order.
pub(crate) fn wait(processes: &mut [&mut Process]) -> Result<Vec<Exit>, Failure> {
    let mut let_go = false;
    loop {
        let ends: Vec<Option<Exit>> =
            processes.iter_mut().map(|process| process.ended()).collect::<Result<_, Failure>>()?;
        if ends.iter().all(Option::is_some) {
            return Ok(ends.into_iter().flatten().collect());
        }
        if INTERRUPTED.load(Ordering::Relaxed) && !let_go {
            let_go = true;
            processes.iter_mut().for_each(|process| process.let_go());
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether the user has interrupted the demo.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Watches for interrupts from now on. Without it the demo would go first and leave the roles to themselves.
pub(crate) fn watch_for_interrupts() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    std::thread::spawn(move || {
        while runtime.block_on(fedreg_proto::shell::interrupted()) {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            // Only when the demo itself fails; whoever is killed has nothing left to say.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
