//! How much a peer may make us take in, in one place.

/// Bytes of a chunk; only the last of a message may be shorter.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Values in a full chunk.
pub(crate) const CHUNK_VALUES: usize = CHUNK_BYTES / size_of::<f64>();
/// Largest frame that is taken: a chunk, or as many entries, with what describes them.
pub const FRAME_BYTES: usize = 320 << 10;
/// Largest event between a party and the coordinator; a study's keys come in one, a digest each. Decoding can take thirty
/// times as much before the number of keys is looked at.
pub const EVENT_BYTES: usize = 512 << 10;
/// Bytes that a connection to the coordinator may be ahead of its reader; what is said there is short.
pub(crate) const EVENT_WINDOW_BYTES: u32 = 1 << 20;
/// Largest question about a peer's own certificate, which is empty.
pub(crate) const QUESTION_BYTES: usize = 1 << 10;
/// Largest order to a dealer: a few sizes.
pub(crate) const ORDER_BYTES: usize = 1 << 10;
/// Longest name of a term or of a key of a study.
pub const NAME_BYTES: usize = fedreg_common::names::LONGEST;
/// Most keys of a study.
pub const KEYS: u64 = 10_000;
/// Most rows of a coefficient table.
pub const COEFFICIENTS: u64 = 100_000;
/// Most numbers beside the coefficients in a message of results: two a fit, and the fold errors.
pub const RESULT_VALUES: u64 = 1_000_000;
/// Longest sentence that a peer can make us print, in characters.
pub const SENTENCE_CHARACTERS: usize = 500;
/// Largest report that the hub may send to a site.
pub const OUTCOME_BYTES: usize = 64 << 20;
/// Longest description of a phase, in characters.
pub const PHASE_CHARACTERS: usize = 100;

/// How long the vectors of one study may be.
///
/// The session knows the exact lengths and checks them; these limits bound what a peer can make us store before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most values in a vector: the number of rows.
    pub values: u64,
    /// Most values in a matrix: a part of the basis, or a projection table.
    pub matrix: u64,
}

impl Limits {
    /// A matrix of 4096 columns, 128 MiB.
    const MATRIX: u64 = 1 << 24;

    /// For a party with this number of rows.
    pub fn for_rows(rows: u64) -> Limits {
        Limits {
            // A vector in table form has one value a column.
            values: rows.max(1 << 16),
            matrix: Limits::MATRIX,
        }
    }
}

/// Nothing but messages without vectors, until the data are read.
impl Default for Limits {
    fn default() -> Limits {
        Limits { values: 0, matrix: 0 }
    }
}
