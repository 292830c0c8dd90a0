//! Compressed record batches: every buffer is packed by itself, behind the number of bytes that it unpacks to.

use std::io::Read;

use super::flat::{Cut, Table as Flat};

/// How buffers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// Not at all.
    Plain,
    Lz4,
    Zstandard,
}

impl Codec {
    /// As the description of a record batch says; nothing where it is none that is known.
    pub(super) fn of(compression: Option<Flat<'_>>) -> Result<Option<Codec>, Cut> {
        let Some(compression) = compression else { return Ok(Some(Codec::Plain)) };
        // One method is defined: each buffer by itself.
        Ok(match (compression.byte(0)?, compression.byte(1)?) {
            (0, 0) => Some(Codec::Lz4),
            (1, 0) => Some(Codec::Zstandard),
            _ => None,
        })
    }

    /// Appends what a buffer holds to `bytes`. Memory grows with what comes, not with what a damaged length promises.
    pub(super) fn unpack(self, buffer: &[u8], bytes: &mut Vec<u8>) -> Result<(), Cut> {
        if buffer.is_empty() || self == Codec::Plain {
            bytes.extend_from_slice(buffer);
            return Ok(());
        }
        let (length, packed) = buffer.split_first_chunk::<8>().ok_or(Cut)?;
        let length = i64::from_le_bytes(*length);
        // A buffer that would have grown is left as it is.
        if length == -1 {
            bytes.extend_from_slice(packed);
            return Ok(());
        }
        let length = u64::try_from(length).map_err(|_| Cut)?;
        let read = match self {
            Codec::Plain => return Err(Cut),
            Codec::Lz4 => lz4_flex::frame::FrameDecoder::new(packed).take(length).read_to_end(bytes),
            Codec::Zstandard => {
                zstd::Decoder::with_buffer(packed).and_then(|from| from.take(length).read_to_end(bytes))
            }
        };
        match read {
            Ok(read) if read as u64 == length => Ok(()),
            Ok(_) | Err(_) => Err(Cut),
        }
    }
}
