//! Lines from a pipe whose writer may die.

use std::io::{self, Read};

/// Passes bytes on, and makes an end in the middle of a line an error: the last cell may have lost digits.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    last: u8,
}

impl<R: Read> Lines<R> {
    /// Reads this source.
    pub fn new(source: R) -> Lines<R> {
        Lines { source, last: b'\n' }
    }
}

impl<R: Read> Read for Lines<R> {
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
        assert!(Lines::new(&b"a,b\n1,2\n"[..]).read_to_string(&mut text).is_ok());
        let error = Lines::new(&b"a,b\n1,2\n3,4"[..]).read_to_string(&mut text).unwrap_err();
        assert!(error.to_string().contains("in the middle of a row"));
    }
}
