//! Results on their way to people: standard output, and files that are whole or not there.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fedreg_common::exit::Exit;
use fedreg_common::methods::registry;
use fedreg_common::report::{Report, csv, json};
use serde::Serialize;
use thiserror::Error;

/// How a result is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A summary, as R prints it
    #[default]
    Text,
    /// Everything, with stable names
    Json,
    /// The coefficient table
    Csv,
}

impl Format {
    /// The report in this format.
    pub fn render(self, report: &Report) -> String {
        match self {
            Format::Text => registry::layout(report).text(),
            Format::Json => json::json(report),
            Format::Csv => csv::csv(report),
        }
    }
}

/// How something else than a report is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// For people
    #[default]
    Text,
    /// With stable names
    Json,
}

/// A value in a format; `text` is how it reads for people.
pub fn show<T: Serialize>(format: CheckFormat, value: &T, text: impl FnOnce(&T) -> String) -> String {
    match format {
        CheckFormat::Text => text(value),
        CheckFormat::Json => format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()),
    }
}

/// A file or folder that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {}", path.display())]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// The error beneath.
    pub source: io::Error,
}

impl OutputError {
    /// The error for something at a path.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
        |source| OutputError { path: path.to_path_buf(), source }
    }

    /// Always [`Exit::CannotWrite`].
    pub fn exit(&self) -> Exit {
        Exit::CannotWrite
    }
}

/// A folder that was found writable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder if need be, and tries to write there as much as results need: before a run, not after it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn prepare(path: &Path) -> Result<Folder, OutputError> {
        make_folder(path)?;
        let trial = path.join(format!(".trial-{}", std::process::id()));
        let room = try_room(&trial).map_err(OutputError::at(path));
        let removed = fs::remove_file(&trial).map_err(OutputError::at(&trial));
        room?;
        removed?;
        Ok(Folder { path: path.to_path_buf() })
    }

    /// The folder that was asked for; without one a folder of this run's own below `state`, made when something is written:
    /// no result may be nowhere, least of all one that a privacy budget was spent for.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn of_results(asked: Option<&Path>, state: &Path) -> Result<Folder, OutputError> {
        match asked {
            Some(asked) => Folder::prepare(asked),
            None => {
                let results = Folder::prepare(&state.join("results"))?;
                let stamp = format!("{}-{}", date().replace(':', ""), std::process::id());
                Ok(Folder { path: results.path.join(stamp) })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in one step: readers see the old one or the new one, whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), OutputError> {
        make_folder(&self.path)?;
        write_whole(&self.path.join(name), contents)
    }

    /// Writes `report.json`, `report.txt`, `report.html` and `report.csv`.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub fn report(&self, report: &Report) -> Result<(), OutputError> {
        for (name, text) in [
            ("report.json", Format::Json.render(report)),
            ("report.txt", Format::Text.render(report)),
            ("report.html", registry::layout(report).html()),
            ("report.csv", Format::Csv.render(report)),
        ] {
            self.write(name, text.as_bytes())?;
        }
        Ok(())
    }
}

/// Room that results need, with a margin.
const ROOM: usize = 1 << 20;

fn try_room(trial: &Path) -> io::Result<()> {
    let mut file = own_file().write(true).truncate(true).open(trial)?;
    // Zeros take no room in some file systems.
    let written = file.write_all(&vec![0x5a; ROOM]).and_then(|()| file.sync_all());
    written.map_err(|error| match matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        true => io::Error::new(error.kind(), format!("{} MiB are wanted there: {error}", ROOM >> 20)),
        false => error,
    })
}

/// Makes a folder, unless it is there.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(path: &Path) -> Result<(), OutputError> {
    durable_folder(path).map_err(OutputError::at(path))
}

/// Makes a folder of the owner alone.
///
/// # Errors
/// It cannot be made, or not be kept from others.
pub fn make_own_folder(path: &Path) -> Result<(), OutputError> {
    make_folder(path)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(OutputError::at(path))?;
    Ok(())
}

/// Makes a folder, and those above it, so that a power cut does not lose their names.
///
/// # Errors
/// One of them cannot be made.
pub fn durable_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    durable_folder(above(folder))?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_name(folder)
}

/// The folder in which a file or folder stands.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name of a file or folder durable: its contents alone survive a power cut without it.
fn sync_name(path: &Path) -> io::Result<()> {
    // Elsewhere folders cannot be opened, and names are durable by themselves.
    if cfg!(unix) { File::open(above(path))?.sync_all() } else { Ok(()) }
}

/// How files are made that are for their owner alone, as everything that is written here: reports, models, logs, ledgers.
pub fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a file of the owner alone, unless it is there.
///
/// # Errors
/// It cannot be made.
pub fn make_own(path: &Path) -> io::Result<()> {
    own_file().append(true).open(path).map(drop)
}

/// Writes a file in one step, for its owner alone.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), OutputError> {
    replace(path, contents, true).map_err(OutputError::at(path))
}

/// Writes a file in one step, a secret one for its owner alone: a full disk must not leave half a file, nor replace a good one.
/// What a link leads to is replaced, not the link; a device, a pipe or a socket stays what it is.
pub(crate) fn replace(path: &Path, contents: &[u8], secret: bool) -> io::Result<()> {
    let target = target(path)?;
    let path = &target;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // One that another process left may be readable by others.
    let _ = fs::remove_file(&draft);
    let mut options = own_file();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if secret { 0o600 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = secret;
    let written = options
        .write(true)
        .create_new(true)
        .open(&draft)
        .and_then(|mut file| file.write_all(contents).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_name(path));
    if written.is_err() {
        // What is left of a draft is of no use to anybody; if it cannot be removed either, the error says enough.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// The file that a path leads to, which need not be there.
fn target(path: &Path) -> io::Result<PathBuf> {
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(path.to_path_buf()) };
    let (path, about) = match about.is_symlink() {
        true => match fs::canonicalize(path) {
            Ok(full) => (full, fs::metadata(path)?),
            // To a file that is still to be made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(above(path).join(fs::read_link(path)?)),
            Err(error) => return Err(error),
        },
        false => (path.to_path_buf(), about),
    };
    if about.is_file() || about.is_dir() {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, a pipe or a socket, expected a file"))
}

/// An error with its causes, as it is shown.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Prints a result. A reader that has gone, as `head` does, is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(source) => Err(OutputError { path: "standard output".into(), source }),
        Ok(()) => Ok(()),
    }
}

/// The time now, RFC 3339 in UTC, to the second.
pub fn date() -> String {
    let now = time::OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    now.format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

/// Largest resident memory of this process so far, where the system tells.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The command line as R prints a call, without what only matters to anyone who started the process.
pub fn call(name: &str, arguments: &[OsString]) -> String {
    let mut call = name.to_string();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let argument = argument.to_string_lossy();
        match argument.as_ref() {
            "--leash" => continue,
            "--announce" | "--log" => {
                rest.next();
                continue;
            }
            // A query may hold values of rows, and a report travels.
            "--query" => {
                rest.next();
                call.push_str(" --query ...");
                continue;
            }
            query if query.starts_with("--query=") => {
                call.push_str(" --query ...");
                continue;
            }
            _ => {}
        }
        let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
        call.push(' ');
        match !argument.is_empty() && argument.chars().all(plain) {
            true => call.push_str(&argument),
            false => call.push_str(&format!("'{}'", argument.replace('\'', "'\\''"))),
        }
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_quoted_where_a_shell_would_need_it() {
        let call = call("alice", &["x".into(), "fit".into(), "--data".into(), "my file.csv".into()]);
        assert_eq!(call, "alice fit --data 'my file.csv'");
        for query in [&["x", "fit", "--query", "SELECT 'ana'"][..], &["x", "fit", "--query=SELECT 'ana'"]] {
            let arguments: Vec<OsString> = query.iter().map(Into::into).collect();
            assert_eq!(super::call("alice", &arguments), "alice fit --query ...");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_written_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let out = Folder::prepare(folder.path()).unwrap();
        out.write("x.txt", b"one").unwrap();
        make_own(&out.path().join("y")).unwrap();
        for name in ["x.txt", "y"] {
            let mode = fs::metadata(out.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_sentence_that_already_ends_with_its_cause_is_not_said_twice() {
        let source = fedreg_common::study::Study::parse("[fit]\nlambda = 1").unwrap_err();
        let error = crate::files::FileError::Study { file: "study.toml".into(), source };
        assert_eq!(chain(&error).matches("unknown key").count(), 1, "{}", chain(&error));
        let refused = io::Error::other("no space");
        assert_eq!(chain(&OutputError { path: "out".into(), source: refused }), "cannot write out: no space");
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_draft_stays() {
        let folder = tempfile::tempdir().unwrap();
        let out = Folder::prepare(&folder.path().join("a/b")).unwrap();
        out.write("x.txt", b"one").unwrap();
        out.write("x.txt", b"two").unwrap();
        assert_eq!(fs::read(out.path().join("x.txt")).unwrap(), b"two");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_is_replaced_and_what_is_no_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("kept.txt"), "old").unwrap();
        std::os::unix::fs::symlink("kept.txt", path("link")).unwrap();
        write_whole(&path("link"), b"new").unwrap();
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        assert_eq!(fs::read(path("kept.txt")).unwrap(), b"new");
        let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let refused = write_whole(&path("socket"), b"new").unwrap_err();
        assert_eq!(refused.exit(), Exit::CannotWrite);
        assert!(
            chain(&refused).ends_with("it is a device, a pipe or a socket, expected a file"),
            "{}",
            chain(&refused)
        );
        assert!(!fs::symlink_metadata(path("socket")).unwrap().is_file());
        drop(socket);
        std::os::unix::fs::symlink("later.txt", path("early")).unwrap();
        write_whole(&path("early"), b"new").unwrap();
        assert_eq!(fs::read(path("later.txt")).unwrap(), b"new");
        std::os::unix::fs::symlink("nowhere/x", path("dangling")).unwrap();
        assert!(write_whole(&path("dangling"), b"new").is_err());
    }

    #[test]
    fn results_without_a_folder_are_kept_below_the_state_folder() {
        let state = tempfile::tempdir().unwrap();
        let results = Folder::of_results(None, state.path()).unwrap();
        results.write("model.json", b"{}").unwrap();
        let kept: Vec<_> = fs::read_dir(state.path().join("results")).unwrap().map(Result::unwrap).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(fs::read(kept[0].path().join("model.json")).unwrap(), b"{}");
        let asked = state.path().join("asked");
        assert_eq!(Folder::of_results(Some(&asked), state.path()).unwrap().path(), asked);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Folder::prepare(&file.join("out")).unwrap_err();
        assert_eq!(error.exit(), Exit::CannotWrite);
        assert_eq!(error.to_string(), format!("cannot write {}", file.join("out").display()));
    }

    #[test]
    fn linux_tells_the_peak_memory() {
        if cfg!(target_os = "linux") {
            assert!(peak_rss_bytes().unwrap() > 1 << 20);
        }
    }
}
