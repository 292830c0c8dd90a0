//! What a driver takes for progress.

use std::time::Instant;

/// How often, between two new messages, a line that was opened again is given the whole time again.
pub(super) const CHANCES: u32 = 3;

/// When something new came last. Signs of life are none: a peer that only beats would be waited for without end.
pub(super) struct Progress {
    /// Messages of the conversation so far.
    position: u64,
    pub(super) at: Instant,
    chances: u32,
    /// Answers that were said again on this line.
    repeats: u32,
    /// Whether this line was given the whole time.
    granted: bool,
    /// Bytes that left.
    left: Reach,
    /// Parts of messages that came.
    came: Reach,
}

/// How far lines got since the last new message. A message that is said again on the next line has to get further than before:
/// a peer that takes line after line and answers on none is not waited for without end.
#[derive(Clone, Copy, Default)]
struct Reach {
    total: u64,
    /// The total when this line was opened, or when the last new message came.
    start: u64,
    furthest: u64,
}

impl Reach {
    fn begin(&mut self) {
        self.start = self.total;
    }

    /// Whether this is further than any line got.
    fn reach(&mut self, total: u64) -> bool {
        self.total = total;
        let far = total - self.start;
        let further = far > self.furthest;
        self.furthest = self.furthest.max(far);
        further
    }
}

impl Progress {
    pub(super) fn begun(at: Instant) -> Progress {
        let (left, came) = (Reach::default(), Reach::default());
        Progress { position: 0, at, chances: CHANCES, repeats: 0, granted: true, left, came }
    }

    pub(super) fn moved(&mut self, position: u64) {
        if position == self.position && position > 0 {
            self.repeats = self.repeats.saturating_add(1);
            return;
        }
        (self.position, self.at) = (position, Instant::now());
        (self.chances, self.repeats, self.granted) = (CHANCES, 0, true);
        for reach in [&mut self.left, &mut self.came] {
            *reach = Reach { start: reach.total, furthest: 0, ..*reach };
        }
    }

    /// We have done what the peer may have waited for.
    pub(super) fn done(&mut self) {
        self.part_at(Instant::now());
    }

    /// A part of a message came.
    pub(super) fn part(&mut self) {
        let further = self.came.reach(self.came.total.saturating_add(1));
        if further || self.granted {
            self.part_at(Instant::now());
        }
    }

    /// To a peer that asks for the same answer again and again it is no progress.
    fn part_at(&mut self, when: Instant) {
        if self.repeats < 2 {
            self.at = self.at.max(when);
        }
    }

    /// So many bytes have left, the last of them at `when`: progress of that time, however late it is noticed.
    pub(super) fn sent(&mut self, bytes: u64, when: Instant) {
        if bytes > self.left.total {
            let further = self.left.reach(bytes);
            if further || self.granted {
                self.part_at(when);
            }
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
        self.granted = first || self.chances > 0;
        self.left.begin();
        self.came.begin();
        if self.granted {
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
        let mut progress = Progress { position: 1, ..Progress::begun(begun) };
        progress.sent(100, after(2));
        assert_eq!((progress.at, progress.left.total), (after(2), 100));
        // The same bytes are no news, and what left before something that came later takes nothing back.
        progress.sent(100, after(5));
        assert_eq!(progress.at, after(2));
        progress.sent(200, after(1));
        assert_eq!((progress.at, progress.left.total), (after(2), 200));
        // An answer that is said again and again is none.
        progress.repeats = 2;
        progress.sent(300, after(9));
        assert_eq!(progress.at, after(2));
    }

    #[test]
    fn a_message_that_is_said_again_on_line_after_line_is_progress_where_it_gets_further() {
        let begun = Instant::now();
        let late = |seconds| Instant::now() + Duration::from_secs(seconds);
        let mut progress = Progress { position: 1, ..Progress::begun(begun) };
        progress.sent(100, begun);
        for _ in 0..CHANCES {
            progress.opened(false);
        }
        // The last line with the whole time.
        let when = late(10);
        progress.sent(200, when);
        assert_eq!(progress.at, when);
        progress.opened(false);
        progress.sent(300, late(20));
        assert_eq!(progress.at, when, "as far as before");
        let when = late(30);
        progress.sent(301, when);
        assert_eq!(progress.at, when, "further than before");
        // Something new begins all over again.
        progress.moved(2);
        progress.sent(302, late(40));
        assert!(progress.at > when && progress.granted);
    }
}
