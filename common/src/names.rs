//! Names that come with data, or from elsewhere: how long they may be, and which letters are not shown as they are.

/// Longest name of a term, bytes.
pub const LONGEST: usize = 1000;

/// Letters that control a terminal, or that reorder or hide text around them.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{61c}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
