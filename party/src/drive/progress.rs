//! What a driver takes for progress.

use std::time::Instant;

/// How often, between two new messages, a line that was opened again is given the whole time again.
pub(super) const CHANCES: u32 = 3;

/// When something new came last. Signs of life are none: a peer that only beats would be waited for without end.
pub(super) struct Progress {
    /// Messages of the conversation so far.
    pub(super) position: u64,
    pub(super) at: Instant,
    /// Bytes that had left.
    pub(super) sent: u64,
    pub(super) chances: u32,
    /// Answers that were said again on this line.
    pub(super) repeats: u32,
}

impl Progress {
    pub(super) fn moved(&mut self, position: u64) {
        match position == self.position && position > 0 {
            true => self.repeats = self.repeats.saturating_add(1),
            false => {
                *self = Progress { position, at: Instant::now(), chances: CHANCES, repeats: 0, ..*self };
            }
        }
    }

    /// A part of a message came or went. To a peer that asks for the same answer again and again it is no progress.
    pub(super) fn part(&mut self) {
        self.part_at(Instant::now());
    }

    fn part_at(&mut self, when: Instant) {
        if self.repeats < 2 {
            self.at = self.at.max(when);
        }
    }

    /// So many bytes have left, the last of them at `when`: progress of that time, however late it is noticed.
    pub(super) fn sent(&mut self, bytes: u64, when: Instant) {
        if bytes > self.sent {
            self.sent = bytes;
            self.part_at(when);
        }
    }

    /// The line is gone, on which the peer was alive at `heard`.
    pub(super) fn lost(&mut self, heard: Instant) {
        if self.chances > 0 {
            self.at = self.at.max(heard);
        }
    }

    /// A line is open, for the first time or again.
    pub(super) fn opened(&mut self, first: bool) {
        if first || self.chances > 0 {
            self.chances -= u32::from(!first);
            (self.at, self.repeats) = (Instant::now(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bytes_are_progress_of_the_time_when_they_left() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut progress = Progress { position: 1, at: begun, sent: 0, chances: CHANCES, repeats: 0 };
        progress.sent(100, after(2));
        assert_eq!((progress.at, progress.sent), (after(2), 100));
        // The same bytes are no news, and what left before something that came later takes nothing back.
        progress.sent(100, after(5));
        assert_eq!(progress.at, after(2));
        progress.sent(200, after(1));
        assert_eq!((progress.at, progress.sent), (after(2), 200));
        // An answer that is said again and again is none.
        progress.repeats = 2;
        progress.sent(300, after(9));
        assert_eq!(progress.at, after(2));
    }
}
