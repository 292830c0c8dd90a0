//! Files: by their path, complete or still growing.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::{Arrival, Bytes, Found, How, Identity, Opened, Origin, ReadError, Statement, of_bytes};

/// How often a file is looked at that has not grown.
const LOOK: Duration = Duration::from_millis(50);

/// Every path.
pub(super) const ORIGIN: Origin = Origin {
    takes: |_| true,
    statement: Statement::Path,
    identity: |stated| Ok(identity(stated.place())),
    open: |stated, how| open(stated.place(), how),
};

/// A file is known by its inode, so that links and other paths are the same file.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let about = fs::metadata(path).ok()?;
    let changed = about.modified().ok().and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    Some(Identity {
        key: format!("file {}", number(path, &about)),
        parts: Vec::new(),
        place: full(path),
        stamp: Some(format!("{} {}", about.len(), changed.map_or(0, |since| since.as_nanos()))),
    })
}

/// A file's number, with the time of its birth as numbers are given again.
fn number(path: &Path, about: &Metadata) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let born = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_nanos());
        let _ = path;
        format!("{}:{}:{born}", about.dev(), about.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        full(path)
    }
}

/// A path without links and detours, as far as it leads anywhere.
pub(crate) fn full(path: &Path) -> String {
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned()
}

/// Opens a file. Its format is told by the first bytes, because names of files are what people make them.
pub(super) fn open(path: &Path, how: &How) -> Result<Opened, ReadError> {
    let name = path.display().to_string();
    let failed = |source| ReadError::Open { file: name.clone(), source };
    // Opening a pipe waits for its writer.
    let about = fs::metadata(path).map_err(failed)?;
    if !how.arrival.follow && !about.is_file() && !about.is_dir() {
        let problem = "this is a pipe or a device, expected a file: a table is read more than once";
        return Err(ReadError::format(&name, problem));
    }
    let mut source = File::open(path).map_err(failed)?;
    if how.arrival.follow {
        let growing = Growing { source, arrival: how.arrival.clone() };
        return of_bytes(Found { name, start: Vec::new(), bytes: Bytes::Unfinished(Box::new(growing)) }, how);
    }
    if source.metadata().map_err(failed)?.is_dir() {
        return Err(ReadError::format(&name, "this is a folder, expected a file"));
    }
    let mut start = Vec::new();
    source.by_ref().take(4).read_to_end(&mut start).map_err(ReadError::read(&name))?;
    io::Seek::rewind(&mut source).map_err(ReadError::read(&name))?;
    of_bytes(Found { name, start, bytes: Bytes::File(source) }, how)
}

/// Reads to the end, and then waits for more until it is told to stop, or until nothing came for a while.
struct Growing {
    source: File,
    arrival: Arrival,
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        let Arrival { idle, stop, .. } = &self.arrival;
        loop {
            let count = self.source.read(buffer)?;
            let over = stop.load(Ordering::Relaxed) || idle.is_some_and(|idle| since.elapsed() >= idle);
            if count > 0 || buffer.is_empty() || over {
                return Ok(count);
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grows_is_read_as_it_grows_and_ends_when_nothing_more_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        fs::write(&path, "a,b\n1,2\n").unwrap();
        let arrival = Arrival { follow: true, idle: Some(Duration::from_millis(200)), ..Arrival::default() };
        let mut growing = Growing { source: File::open(&path).unwrap(), arrival };
        let mut start = [0; 8];
        growing.read_exact(&mut start).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"3,4\n").unwrap();
        let mut rest = String::new();
        growing.read_to_string(&mut rest).unwrap();
        assert_eq!((&start, rest.as_str()), (b"a,b\n1,2\n", "3,4\n"));
    }

    #[test]
    #[cfg(unix)]
    fn a_file_is_the_same_by_every_path_and_link_and_another_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("in")).unwrap();
        fs::write(path("a.csv"), "x\n1\n").unwrap();
        fs::write(path("b.csv"), "x\n1\n").unwrap();
        fs::hard_link(path("a.csv"), path("hard.csv")).unwrap();
        std::os::unix::fs::symlink(path("a.csv"), path("in/soft.csv")).unwrap();
        let known = |name: &str| identity(&path(name)).unwrap();
        let first = known("a.csv");
        for same in ["in/../a.csv", "in/soft.csv"] {
            assert_eq!(known(same), first, "{same}");
        }
        let hard = known("hard.csv");
        assert!(hard.key == first.key && hard.place != first.place);
        assert_ne!(known("b.csv").key, first.key);
        assert_eq!(identity(&path("none.csv")), None);
    }
}
