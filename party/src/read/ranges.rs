//! Bytes that can be read from any place on: of a file, and of an object in a store.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use ::bytes::Bytes;

/// Bytes of a known number.
pub(super) trait Ranges: Send + Sync {
    /// How many there are.
    fn size(&self) -> u64;

    /// Reads some from a place on; none only at the end.
    ///
    /// # Errors
    ///
    /// A source that fails or has changed.
    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize>;

    /// So many from a place on, without a copy, where they are at hand in one piece.
    ///
    /// # Errors
    ///
    /// As [`Ranges::read_at`].
    fn piece(&self, _place: u64, _length: usize) -> io::Result<Option<Bytes>> {
        Ok(None)
    }

    /// Says which parts are read next, each from its beginning on, and which after these, so that they can be on their way.
    fn announce(&self, _parts: &[Range<u64>], _later: &[Range<u64>]) {}
}

impl Ranges for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |about| about.len())
    }

    #[cfg(unix)]
    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, bytes, place)
    }

    #[cfg(windows)]
    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, bytes, place)
    }
}

/// What stands there from a place on. Several can be read at a time.
pub(super) struct Rest {
    pub(super) ranges: Arc<dyn Ranges>,
    pub(super) place: u64,
}

impl Rest {
    /// All of it, which is read to the end.
    pub(super) fn all(ranges: Arc<dyn Ranges>) -> Rest {
        let all = 0..ranges.size();
        ranges.announce(std::slice::from_ref(&all), &[]);
        Rest { ranges, place: 0 }
    }
}

impl Read for Rest {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.ranges.read_at(bytes, self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}
