//! How much memory a party takes for its numbers, and where the rest of them lies.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use fedreg_common::report::InFiles;
use fedreg_memory::{Allocator, available};
use serde::{Deserialize, Serialize};

/// Every program that is built with this package takes its memory here.
#[global_allocator]
static MEMORY: Allocator = Allocator::new();

/// Bytes of what is stated that are left to pages of files, but at most half of it: some mebibytes of each column are read at a time.
const FOR_FILES: u64 = 768 << 20;

/// An amount of memory, as `4GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

/// The units of sizes; a size is written in the first that it is a whole number of.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let found = UNITS.iter().find_map(|(name, unit)| Some((text.trim().strip_suffix(name)?.trim_end(), *unit)));
        let bytes = found.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(unit));
        match bytes.filter(|bytes| *bytes > 0) {
            Some(bytes) => Ok(Size(bytes)),
            None => {
                Err(format!("`{text}` is no amount of memory: write a whole number and its unit, as `4GiB` or `500MB`"))
            }
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.to_string()
    }
}

/// Keeps this process within what its configuration states, or within four fifths of what the machine has left. While the folder
/// is not there all is kept in memory: a run makes it before it reads its table.
pub(crate) fn keep(stated: Option<Size>, folder: &Path) {
    let limit = match stated {
        // The rest is for all that is small, and for the pages of files that are in use.
        Some(Size(bytes)) => usize::try_from(bytes - (bytes / 4).max((bytes / 2).min(FOR_FILES))).ok(),
        None => available().map(|left| left / 5 * 4),
    };
    if let Some(limit) = limit {
        MEMORY.limit(limit, stated.is_none(), folder);
    }
}

/// Says what lay in files at most, if anything did.
pub(crate) fn tell(stated: Option<Size>, folder: &Path) {
    let bytes = MEMORY.largest_in_files();
    if bytes > 0 {
        let gibibytes = bytes as f64 / f64::from(1 << 30);
        let why = match stated {
            Some(size) => format!("`memory = \"{size}\"` has room"),
            None => "this machine has memory left".to_string(),
        };
        tracing::warn!(
            "the numbers take {gibibytes:.2} GiB more than {why} for; these lie in files without a name in {}, which takes longer and gives the same result",
            folder.display()
        );
    }
}

/// Bytes that this process had read from the disk when its table had been read.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// From now on what is read from the disk are numbers that lie in files.
pub(crate) fn table_is_read() {
    BEFORE.store(read_from_disk().unwrap_or(0), Ordering::Relaxed);
}

/// What lay in files so far, and how much of it was read again; nothing where none did.
pub(crate) fn in_files() -> Option<InFiles> {
    let bytes = u64::try_from(MEMORY.largest_in_files()).ok().filter(|bytes| *bytes > 0)?;
    let read = read_from_disk().map(|read| read.saturating_sub(BEFORE.load(Ordering::Relaxed)));
    Some(InFiles { bytes, read_bytes: read })
}

/// Bytes that the system fetched from the disk for this process, where it tells.
fn read_from_disk() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_have_a_unit() {
        for (text, bytes) in [("4GiB", 4 << 30), ("500 MB", 500_000_000), (" 1kB ", 1000), ("3TiB", 3 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "4", "GiB", "-1GiB", "0MiB", "1.5GiB", "4gib", "99999999999TiB", "4 Gi B", "NaNGiB"] {
            let error = text.parse::<Size>().unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is no amount of memory: write a whole number and its unit, as `4GiB` or `500MB`")
            );
        }
    }

    #[test]
    fn an_amount_is_shown_as_it_is_written() {
        for text in ["4GiB", "1500MiB", "500MB", "7kB", "1TiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!("1024MiB".parse::<Size>().unwrap().to_string(), "1GiB");
    }
}
