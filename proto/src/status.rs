//! What a side says when it ends a run or turns a caller away, and how its words are taken.

use crate::limits::SENTENCE_CHARACTERS;
use crate::link::{Notice, OpenError};
use crate::tls::{LinkError, explain, printable_within};
use crate::wire;
use fedreg_common::exit::Exit;
use fedreg_common::session::PeerFault;
use tonic::{Code, Status};

impl From<&Notice> for wire::Notice {
    fn from(notice: &Notice) -> wire::Notice {
        wire::Notice { exit: notice.exit.code().into(), sentence: sentence(&notice.sentence) }
    }
}

/// A peer's notice: its sentence made safe to print, its code one that a run can end with before its result.
impl From<wire::Notice> for Notice {
    fn from(notice: wire::Notice) -> Notice {
        let told = exit_code(notice.exit);
        // Nobody may make us report success.
        let success = matches!(told, Exit::Done | Exit::NotConverged | Exit::NotReady);
        let exit = if success { Exit::Peer } else { told };
        Notice { exit, sentence: sentence(&notice.sentence) }
    }
}

/// The exit for a number from the wire.
pub(crate) fn exit_code(code: u32) -> Exit {
    u8::try_from(code).map_or(Exit::Peer, Exit::from_code)
}

/// Why a connection failed, as the driver of a line wants it.
pub(crate) fn not_connected(error: &LinkError) -> OpenError {
    let sentence = error.to_string();
    if !error.passing() {
        return OpenError::Refused(sentence);
    }
    let exit = error.exit();
    if exit == Exit::Unreachable {
        return OpenError::Unreachable(sentence);
    }
    OpenError::Unproven { sentence, refused: exit == Exit::Refused }
}

/// Why a call failed on a connection that stands.
pub(crate) fn not_answered(who: &str, status: &Status) -> OpenError {
    let reason = format!("{who}: {}", explain(status));
    let refused = matches!(
        status.code(),
        Code::PermissionDenied | Code::Unauthenticated | Code::FailedPrecondition | Code::Unimplemented
    );
    if refused { OpenError::Refused(reason) } else { OpenError::Unreachable(reason) }
}

/// The fault behind an error that our end of a stream found in what came; `None` where the connection broke.
pub(crate) fn stream_fault(status: &Status) -> Option<PeerFault> {
    // tonic has no type for these. A connection that breaks leaves a source, except for one that ends inside a frame.
    let ours = std::error::Error::source(status).is_none();
    let garbage = status.code() == Code::OutOfRange
        || status.code() == Code::Internal && status.message().starts_with("protocol error");
    (ours && garbage).then(|| PeerFault::Garbage(sentence(status.message())))
}

fn sentence(text: &str) -> String {
    printable_within(text, SENTENCE_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_survives_the_wire_and_a_hostile_one_is_tamed() {
        for exit in Exit::ALL {
            let notice = Notice { exit, sentence: "interrupted by the user of bob".to_owned() };
            let back = Notice::from(wire::Notice::from(&notice));
            assert_eq!(back.sentence, notice.sentence);
            let success = [Exit::Done, Exit::NotConverged, Exit::NotReady].contains(&exit);
            assert_eq!(back.exit, if success { Exit::Peer } else { exit });
        }
        let hostile = Notice::from(wire::Notice { exit: 256, sentence: "\u{1b}]0;x\u{7}\n".repeat(1000) });
        assert_eq!(hostile.exit, Exit::Peer);
        assert_eq!(hostile.sentence.chars().count(), SENTENCE_CHARACTERS);
        assert!(!hostile.sentence.chars().any(char::is_control));
    }

    #[test]
    fn a_broken_connection_is_no_fault_of_the_peer() {
        assert_eq!(stream_fault(&Status::internal("Unexpected EOF decoding stream.")), None);
        assert_eq!(stream_fault(&Status::unavailable("gone")), None);
        assert!(stream_fault(&Status::out_of_range("too long")).is_some());
    }

    #[test]
    fn only_what_is_proven_ends_the_attempts_and_the_rest_says_how_a_wait_in_vain_ends() {
        use crate::tls::{Cause, RefusedOurs};
        let opened = |cause, proven| not_connected(&LinkError { who: "bob at host:1".to_owned(), cause, proven });
        let refused = || Cause::RefusedOurs(RefusedOurs::UnknownAuthority);
        assert!(matches!(opened(refused(), true), OpenError::Refused(_)));
        assert!(matches!(opened(refused(), false), OpenError::Unproven { refused: true, .. }));
        assert!(matches!(opened(Cause::NotTls, true), OpenError::Unproven { refused: false, .. }));
        assert!(matches!(opened(Cause::NobodyListens, false), OpenError::Unreachable(_)));
        let exits = [opened(refused(), false), opened(Cause::NotTls, false), opened(Cause::NobodyListens, false)];
        let ended = exits.map(|error| error.in_vain("alice waited 9 s", "check the port").exit());
        assert_eq!(ended, [Exit::Refused, Exit::Unreachable, Exit::Unreachable]);
    }

    #[test]
    fn a_refused_caller_does_not_try_again() {
        assert_eq!(
            not_answered("bob at host:1", &Status::permission_denied("not you")),
            OpenError::Refused("bob at host:1: not you".to_owned())
        );
        assert_eq!(
            not_answered("bob at host:1", &Status::unavailable("not now")),
            OpenError::Unreachable("bob at host:1: not now".to_owned())
        );
    }
}
