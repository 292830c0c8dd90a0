//! The exit codes of every binary, with what to do about each.

/// Why a process ended, as the shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// The result was written.
    Done,
    /// A bug of ours.
    Internal,
    /// The command line or a configuration file cannot be understood.
    Usage,
    /// The result was written, but the fit did not converge, or lies outside the method's guarantee.
    NotConverged,
    /// The data were refused.
    Data,
    /// A peer could not be reached, or never came.
    Unreachable,
    /// A result or state file cannot be written.
    CannotWrite,
    /// `status` only: not ready yet.
    NotReady,
    /// A peer broke the protocol.
    Peer,
    /// A certificate, study digest, budget or policy refused the run.
    Refused,
    /// The user, here or at a peer, interrupted the run.
    Interrupted,
}

impl Exit {
    /// Every code, in ascending order.
    pub const ALL: [Exit; 11] = [
        Exit::Done,
        Exit::Internal,
        Exit::Usage,
        Exit::NotConverged,
        Exit::Data,
        Exit::Unreachable,
        Exit::CannotWrite,
        Exit::NotReady,
        Exit::Peer,
        Exit::Refused,
        Exit::Interrupted,
    ];

    /// The number that the process returns.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Internal => 1,
            Exit::Usage => 2,
            Exit::NotConverged => 3,
            Exit::Data => 65,
            Exit::Unreachable => 69,
            Exit::CannotWrite => 73,
            Exit::NotReady => 75,
            Exit::Peer => 76,
            Exit::Refused => 77,
            Exit::Interrupted => 130,
        }
    }

    /// The exit for a code that came from a peer; an unknown code is the peer's fault.
    pub fn from_code(code: u8) -> Exit {
        Exit::ALL.into_iter().find(|exit| exit.code() == code).unwrap_or(Exit::Peer)
    }

    /// What happened, and what to do about it: one line of the table in the book.
    pub fn advice(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Internal => "internal error: a bug of ours, please report it with the log",
            Exit::Usage => "wrong flags or unknown keys: the message names the nearest known one",
            Exit::NotConverged => {
                "finished without convergence: the report is written and marked; raise --max-rounds or see the named cause"
            }
            Exit::Data => "data refused: the message names file, line or column",
            Exit::Unreachable => {
                "no connection, a peer that never came, or a port in use: check that the side that listens runs, the address that \
                 the other side dials, and that no firewall closes the port"
            }
            Exit::CannotWrite => "cannot write: check the folder's permissions and space",
            Exit::NotReady => "not ready yet (status only): ask again later",
            Exit::Peer => "a peer broke the protocol: compare versions, then talk to the peer",
            Exit::Refused => "refused by certificate, study digest, budget or policy: the message says which",
            Exit::Interrupted => "interrupted, here or at the peer",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_survive_a_round_trip() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code()), exit);
        }
        assert_eq!(Exit::from_code(200), Exit::Peer);
    }
}
