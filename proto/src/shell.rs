//! What the programs of all roles have in common: command line, log, interrupts, and the exit code for the shell.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Read};
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use fedreg_common::exit::Exit;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::output::OutputError;
use crate::telemetry::LogFormat;
use crate::{files, output, telemetry};

#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Program<C: Subcommand> {
    #[command(subcommand)]
    command: C,
    /// How log lines on stderr look
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log: LogFormat,
}

/// The command line of a program with the commands `C`, from which the book's chapter of its flags is made.
pub fn command<C: Subcommand>(name: &'static str, about: &'static str) -> clap::Command {
    Program::<C>::command().name(name).bin_name(name).about(about)
}

/// Runs a command line, the program's name first, with `work` for its command and how it was called; ends with the exit code for the
/// shell.
pub fn run<C: Subcommand, F: Error>(
    program: clap::Command,
    arguments: &[OsString],
    exit: impl Fn(&F) -> Exit,
    work: impl FnOnce(C, String) -> Result<Exit, F>,
) -> Exit {
    let name = program.get_name().to_string();
    run_as((&name, &name), program, arguments, exit, work)
}

/// The same by a program whose user is called otherwise in its sentences, and that is itself called in another way.
pub fn run_as<C: Subcommand, F: Error>(
    (who, name): (&str, &str),
    program: clap::Command,
    arguments: &[OsString],
    exit: impl Fn(&F) -> Exit,
    work: impl FnOnce(C, String) -> Result<Exit, F>,
) -> Exit {
    let matches = program.try_get_matches_from(arguments);
    let Program { command, log } = match matches.and_then(|matches| Program::<C>::from_arg_matches(&matches)) {
        Ok(program) => program,
        Err(error) => {
            // Help goes to standard output and is no failure. If neither can be printed, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    telemetry::init(log);
    #[cfg(unix)]
    take_file_limit_as_an_error();
    work(command, output::call(name, arguments)).unwrap_or_else(|failure| {
        telemetry::last_words(who, &output::chain(&failure));
        exit(&failure)
    })
}

/// The values of a flag, each with its name and what is said of it in the help.
pub type Values<T, const N: usize> = [(&'static str, &'static str, T); N];

/// Reads a flag whose values are those of an enumeration from elsewhere.
pub fn values<T: Copy + Send + Sync + 'static, const N: usize>(
    table: &'static Values<T, N>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(table.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help)))
        .try_map(|given| table.iter().find(|(name, ..)| *name == given).map(|(.., value)| *value).ok_or("unknown"))
}

/// The configuration to go on with; nothing where it was only to be shown.
///
/// # Errors
/// It cannot be printed.
pub fn configured<T: Serialize>(config: T, print: bool) -> Result<Option<T>, OutputError> {
    if print {
        output::print(&files::print(&config))?;
    }
    Ok(Some(config).filter(|_| !print))
}

/// Where the system limits the size of files (`ulimit -f`), it ends a process that goes beyond it by SIGXFSZ, unless the process takes the
/// signal: then writing fails, as on a full disk, which is told.
#[cfg(unix)]
fn take_file_limit_as_an_error() {
    use tokio::signal::unix::{SignalKind, signal};
    /// SIGXFSZ, on Linux and macOS alike.
    const FILE_LIMIT: i32 = 25;
    // The handler outlives the runtime. Where there is none the signal ends the process, as before.
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        let _entered = runtime.enter();
        let _ = signal(SignalKind::from_raw(FILE_LIMIT));
    }
}

/// A runtime for connections.
///
/// # Errors
/// The system gives no threads.
pub fn runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// Waits for SIGINT, SIGTERM or SIGHUP, the end of the session at a terminal; false where signals cannot be had.
pub async fn interrupted() -> bool {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else {
            return tokio::signal::ctrl_c().await.is_ok();
        };
        static ENDING: AtomicBool = AtomicBool::new(false);
        let hung_up = async {
            // Where `nohup` has it ignored, it stays so. A terminal that closes says it twice, which is no second request.
            match (!ignores_hangups() && !ENDING.load(Ordering::Relaxed)).then(|| signal(SignalKind::hangup())) {
                Some(Ok(mut hangup)) => drop(hangup.recv().await),
                Some(Err(_)) | None => std::future::pending().await,
            }
        };
        let came = tokio::select! {
            () = hung_up => true,
            _ = terminate.recv() => true,
            pressed = tokio::signal::ctrl_c() => pressed.is_ok(),
        };
        ENDING.store(true, Ordering::Relaxed);
        came
    }
    #[cfg(not(unix))]
    {
        tokio::signal::ctrl_c().await.is_ok()
    }
}

/// Whether this process was started with SIGHUP ignored, where the system tells. Where it does not, the signal is left as it is.
#[cfg(unix)]
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first signal is the lowest bit.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
}

/// Waits for the end of standard input where a process was started by another that it must not outlive, and for ever elsewhere.
pub async fn leashed(leash: bool) {
    if !leash {
        return std::future::pending().await;
    }
    let (ended, end) = oneshot::channel::<()>();
    // A thread of its own, as reading standard input cannot be cancelled and would hold the runtime.
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(1)) {}
        let _ = ended.send(());
    });
    let _ = end.await;
}
