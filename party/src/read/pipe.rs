//! Standard input, and what comes from any writer that may stop in the middle.

use std::io::{self, Cursor, Read};
use std::path::Path;

use super::{Bytes, Found, How, Opened, Origin, ReadError, STDIN, Source, Statement, of_bytes};

/// Standard input. Nothing is known of where it comes from.
pub(super) const ORIGIN: Origin = Origin {
    takes: |stated| stated == Path::new(STDIN),
    statement: Statement::Table,
    identity: |_| Ok(None),
    open: |_, how| open(Box::new(io::stdin()), "standard input", how),
};

/// Opens a pipe, whose format the first bytes show.
///
/// A pipe whose writer has died ends like any other, so its last line must end with a line feed, and an Arrow stream
/// with its end marker.
pub(super) fn open(mut source: Source, name: &str, how: &How) -> Result<Opened, ReadError> {
    let mut start = Vec::new();
    source.by_ref().take(4).read_to_end(&mut start).map_err(ReadError::read(name))?;
    let source = Bytes::Unfinished(Box::new(Cursor::new(start.clone()).chain(source)));
    of_bytes(Found { name: name.to_owned(), start, bytes: source }, how)
}
