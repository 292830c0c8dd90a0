//! Compressed CSV files, unpacked while they are read.

use std::io::BufReader;

use flate2::read::MultiGzDecoder;

use super::{Bytes, Format, Found, ReadError, Source, csv};

/// Files that begin as gzip or Zstandard do.
pub(super) const FORMAT: Format = Format {
    takes: |found| matches!(found.bytes, Bytes::File(_)) && (is_gzip(found) || found.start == ZSTANDARD),
    open: |found, how| {
        let file = found.name.as_str();
        // How far a damaged one can be read depends on its records.
        if how.torn {
            let problem = "a private stream cannot be read from a compressed file; unpack it first";
            return Err(ReadError::format(file, problem));
        }
        let gzip = is_gzip(&found);
        let source: Source = match found.bytes {
            // Of several streams one after the other, as parallel compressors write them, all are read.
            Bytes::File(source) if gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, source))),
            Bytes::File(source) => Box::new(zstd::Decoder::new(source).map_err(ReadError::read(file))?),
            Bytes::Unfinished(source) => source,
        };
        csv::open(source, file, how, false)
    },
};

const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn is_gzip(found: &Found) -> bool {
    found.start.starts_with(&[0x1f, 0x8b])
}
