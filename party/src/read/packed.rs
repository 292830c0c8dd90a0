//! Compressed CSV files, unpacked while they are read.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;

use super::ranges::Rest;
use super::{Bytes, Format, Found, ReadError, Source, csv};

/// Files that begin as gzip or Zstandard do.
pub(super) const FORMAT: Format = Format {
    takes: |found| !matches!(found.bytes, Bytes::Unfinished(_)) && (is_gzip(found) || found.start == ZSTANDARD),
    open: |found, how| {
        let file = found.name.as_str();
        // How far a damaged one can be read depends on its records.
        if how.torn {
            let problem = "a private stream cannot be read from a compressed file; unpack it first";
            return Err(ReadError::format(file, problem));
        }
        let gzip = is_gzip(&found);
        let source: Source = match found.bytes {
            Bytes::File(source) => unpacked(source, gzip).map_err(ReadError::read(file))?,
            Bytes::Object(ranges) => unpacked(Rest::all(ranges), gzip).map_err(ReadError::read(file))?,
            Bytes::Unfinished(source) => source,
        };
        csv::open(source, file, how, false)
    },
};

fn unpacked(source: impl Read + Send + 'static, gzip: bool) -> io::Result<Source> {
    Ok(match gzip {
        // Of several streams one after the other, as parallel compressors write them, all are read.
        true => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, source))),
        false => Box::new(zstd::Decoder::new(source)?),
    })
}

const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn is_gzip(found: &Found) -> bool {
    found.start.starts_with(&[0x1f, 0x8b])
}
