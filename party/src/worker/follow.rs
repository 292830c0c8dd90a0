//! Rows that are still being written: standard input, and files that grow.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a file is looked at that has not grown.
const LOOK: Duration = Duration::from_millis(50);

/// Reads to the end, and then waits for more until it is told to stop, or until nothing came for a while.
///
/// A last line without its end is half a row, and an error.
#[derive(Debug)]
pub struct Following<R> {
    source: R,
    /// Whether the end of the source is only the end for now.
    grows: bool,
    idle: Option<Duration>,
    stop: Arc<AtomicBool>,
    last: u8,
}

impl Following<File> {
    /// Follows a file that grows; after `idle` without a new byte it counts as ended.
    pub fn file(source: File, idle: Option<Duration>, stop: Arc<AtomicBool>) -> Following<File> {
        Following { source, grows: true, idle, stop, last: b'\n' }
    }
}

impl<R: Read> Following<R> {
    /// Reads a pipe, whose end is the end.
    pub fn pipe(source: R) -> Following<R> {
        Following { source, grows: false, idle: None, stop: Arc::default(), last: b'\n' }
    }
}

impl<R: Read> Read for Following<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            let count = self.source.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.last = buffer[..count].last().copied().unwrap_or(self.last);
                return Ok(count);
            }
            let over = !self.grows
                || self.stop.load(Ordering::Relaxed)
                || self.idle.is_some_and(|idle| since.elapsed() >= idle);
            if over {
                return match self.last {
                    b'\n' => Ok(0),
                    _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the rows end in the middle of a line")),
                };
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
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let mut following =
            Following::file(File::open(&path).unwrap(), Some(Duration::from_millis(200)), Arc::default());
        let mut start = [0; 8];
        following.read_exact(&mut start).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"3,4\n").unwrap();
        let mut rest = String::new();
        following.read_to_string(&mut rest).unwrap();
        assert_eq!((&start, rest.as_str()), (b"a,b\n1,2\n", "3,4\n"));
    }

    #[test]
    fn half_a_row_at_the_end_is_an_error() {
        let mut rest = String::new();
        let error = Following::pipe(&b"a,b\n1,2\n3,"[..]).read_to_string(&mut rest).unwrap_err();
        assert!(error.to_string().contains("in the middle of a line"));
        assert!(Following::pipe(&b"a,b\n1,2\n"[..]).read_to_string(&mut rest).is_ok());
    }
}
