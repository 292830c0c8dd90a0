//! Record matching: which records of two tables have the same keys.
//!
//! A study names keys ([`Key`]) and ordered passes of composite keys ([`Pass`]). Each party says in its own file where a key stands in its
//! table and how it is written there ([`Reading`]). From there to a match:
//!
//! 1. A reader fills one [`Cells`] a key, in the order of the records. A cell is text: an identifier is never read as a number.
//! 2. [`Records::normalise`] makes the canonical form of every cell, or marks it as missing or invalid.
//! 3. [`Records::eligible`] says which records take part in a pass: not yet matched, every part present and valid, and the composite key
//!    unique among all own records, matched ones too. [`Records::messages`] is what such a record is compared by.
//! 4. The conversation [`crate::methods::vertical::matching`] finds the records that both parties have and ends with the own record numbers
//!    in an order that both parties share.
//!
//! A table of record pairs that was made elsewhere does without keys ([`linked`]). What either way leaves is an [`alignment`].
//!
//! Nothing here knows a peer. Errors may quote a cell, for the local terminal only, as everywhere below [`crate::data`].

pub mod alignment;
mod keys;
pub mod linked;
mod normalise;
mod reading;
mod records;
pub(crate) mod spread;

pub use keys::{BySide, Cut, Date, Duplicates, Fold, Key, Keys, KeysError, Kind, Part, Pass, Rules};
pub use normalise::{Canonical, NORMALISER, canonical, unicode};
pub use reading::{Cells, Format, FormatError, Reading, Source};
pub use records::{Eligible, Messages, OwnCounts, Records, RecordsError};
