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
        if self.repeats < 2 {
            self.at = Instant::now();
        }
    }

    pub(super) fn sent(&mut self, bytes: u64) {
        if bytes > self.sent {
            self.sent = bytes;
            self.part();
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
