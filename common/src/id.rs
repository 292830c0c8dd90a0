//! Names that every message carries: who, which study, which run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A role in a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Holds the first block of columns, and the intercept.
    Alice,
    /// Holds the second block of columns.
    Bob,
    /// Holds rows of a table that all workers share the columns of.
    Worker,
    /// Holds no data.
    Coordinator,
}

impl Role {
    /// The name as it stands in study files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Alice => "alice",
            Role::Bob => "bob",
            Role::Worker => "worker",
            Role::Coordinator => "coordinator",
        }
    }

    /// The other party of a vertical study; a role that has none is returned as it is.
    pub fn partner(self) -> Role {
        match self {
            Role::Alice => Role::Bob,
            Role::Bob => Role::Alice,
            Role::Worker | Role::Coordinator => self,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        [Role::Alice, Role::Bob, Role::Worker, Role::Coordinator]
            .into_iter()
            .find(|role| role.name() == s)
            .ok_or_else(|| format!("`{s}` is not a role; expected alice, bob, worker or coordinator"))
    }
}

/// Which method a study runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Two parties, different columns of the same rows.
    #[default]
    Vertical,
    /// Many sites, the same columns of different rows, some of which are wrong.
    Robust,
    /// Many sites; models with something hidden, in rounds.
    Em,
    /// Many sites; a function of a few columns by random features.
    Features,
    /// Many sites; a function that follows a stream of records.
    Stream,
}

impl Protocol {
    /// The name as it stands in study files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Vertical => "vertical",
            Protocol::Robust => "robust",
            Protocol::Em => "em",
            Protocol::Features => "features",
            Protocol::Stream => "stream",
        }
    }
}

/// What leaves a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Partial predictions without noise: declared, counted and metered.
    #[default]
    Plain,
    /// Shares of declared tables, and masked columns: nothing of a single row in a readable form.
    Sealed,
    /// Noised values, charged to a ledger: differential privacy towards anyone who sees what left.
    Private,
}

impl Mode {
    /// The word in studies and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Sealed => "sealed",
            Mode::Private => "private",
        }
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The first eight hexadecimal digits: enough for people to compare.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One run of a study, drawn by the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub [u8; 16]);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{s}` is not a run; expected 32 hexadecimal digits");
        if s.len() != 32 || !s.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(s, 16).map(|number| RunId(number.to_be_bytes())).map_err(|_| wrong())
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

/// The head of every message between parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Digest of the study that the sender follows.
    pub study: Digest,
    /// The run that the coordinator opened.
    pub run: RunId,
    /// Who sent it.
    pub sender: Role,
    /// Position in the conversation: 0 for the first message of the first speaker, 1 for its answer, and so on.
    pub sequence: u64,
}
