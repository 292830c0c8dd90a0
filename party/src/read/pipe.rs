//! Standard input, and what comes from any writer that may stop in the middle.

use std::io::{self, Cursor, Read};
use std::path::Path;

use super::{Bytes, Found, How, Opened, Origin, ReadError, STDIN, Source, of_bytes};

/// Standard input. Nothing is known of where it comes from.
pub(super) const ORIGIN: Origin = Origin {
    takes: |stated| stated == Path::new(STDIN),
    identity: |_| None,
    open: |_, how| open(Box::new(io::stdin()), "standard input", how),
};

/// Opens a pipe, whose format the first bytes show.
///
/// A pipe whose writer has died ends like any other, so its last line must end with a line feed, and an Arrow stream
/// with its end marker.
pub(super) fn open(mut source: Source, name: &str, how: &How<'_>) -> Result<Opened, ReadError> {
    let mut start = Vec::new();
    source.by_ref().take(4).read_to_end(&mut start).map_err(ReadError::read(name))?;
    let source = Bytes::Unfinished(Box::new(Cursor::new(start.clone()).chain(source)));
    of_bytes(Found { name: name.to_owned(), start, bytes: source }, how)
}

/// Passes bytes on, and makes an end in the middle of a line an error: the last cell may have lost digits.
pub(super) struct Lines {
    source: Source,
    last: u8,
}

impl Lines {
    pub(super) fn new(source: Source) -> Lines {
        Lines { source, last: b'\n' }
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        match (buffer[..read].last(), self.last) {
            (Some(last), _) => self.last = *last,
            (None, b'\n') => {}
            (None, _) if buffer.is_empty() => {}
            (None, _) => {
                let sentence = "the input ends in the middle of a row; the last row must end with a line feed";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, sentence));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_in_the_middle_of_a_line_is_an_error() {
        let mut text = String::new();
        assert!(Lines::new(Box::new(&b"a,b\n1,2\n"[..])).read_to_string(&mut text).is_ok());
        let error = Lines::new(Box::new(&b"a,b\n1,2\n3,4"[..])).read_to_string(&mut text).unwrap_err();
        assert!(error.to_string().contains("in the middle of a row"));
    }
}
