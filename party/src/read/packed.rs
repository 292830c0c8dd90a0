//! Compressed files, unpacked while they are read.

use std::fs::File;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstandard,
}

impl Packing {
    /// By the first bytes; `None` where the file is not compressed.
    pub(super) fn of(start: &[u8]) -> Option<Packing> {
        match start {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstandard),
            _ => None,
        }
    }

    /// What the file holds.
    pub(super) fn unpack(self, file: File) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            // Of several streams one after the other, as parallel compressors write them, all are read.
            Packing::Gzip => Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, file))),
            Packing::Zstandard => Box::new(zstd::Decoder::new(file)?),
        })
    }
}
