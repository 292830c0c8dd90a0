//! A table that is still being written: a file that grows.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a file is looked at that has not grown.
const LOOK: Duration = Duration::from_millis(50);

/// Reads to the end, and then waits for more until it is told to stop, or until nothing came for a while.
#[derive(Debug)]
pub struct Growing {
    source: File,
    idle: Option<Duration>,
    stop: Arc<AtomicBool>,
}

impl Growing {
    /// Follows a file; after `idle` without a new byte it counts as ended.
    pub fn new(source: File, idle: Option<Duration>, stop: Arc<AtomicBool>) -> Growing {
        Growing { source, idle, stop }
    }
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            let count = self.source.read(buffer)?;
            let over = self.stop.load(Ordering::Relaxed) || self.idle.is_some_and(|idle| since.elapsed() >= idle);
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
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let mut growing = Growing::new(File::open(&path).unwrap(), Some(Duration::from_millis(200)), Arc::default());
        let mut start = [0; 8];
        growing.read_exact(&mut start).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"3,4\n").unwrap();
        let mut rest = String::new();
        growing.read_to_string(&mut rest).unwrap();
        assert_eq!((&start, rest.as_str()), (b"a,b\n1,2\n", "3,4\n"));
    }
}
