//! Names that every message carries: who, which study, which run.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A role in a study.
///
/// Parties are in the order of their names, before workers and the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Of two parties, the one that holds the first block of columns, and the intercept.
    Alice,
    /// Of two parties, the one that holds the second block of columns.
    Bob,
    /// A party by another name, in a study of several.
    Party(PartyName),
    /// Holds rows of a table that all workers share the columns of.
    Worker,
    /// Holds no data.
    Coordinator,
}

/// The name of a party other than alice and bob: a letter, then at most 31 letters, digits, `_` and `-`, all lowercase.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartyName {
    bytes: [u8; PartyName::LENGTH],
    length: u8,
}

/// Names that mean something else where a party's could stand.
const RESERVED: [&str; 5] = ["all", "both", "coordinator", "dealer", "worker"];

impl PartyName {
    /// Most bytes of a name.
    pub const LENGTH: usize = 32;

    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        // Names are ASCII.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl FromStr for PartyName {
    type Err = String;

    fn from_str(s: &str) -> Result<PartyName, String> {
        let shown: String = s.chars().take(PartyName::LENGTH + 1).flat_map(char::escape_debug).collect();
        let begins = s.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        let goes_on = s.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if !(begins && goes_on && s.len() <= PartyName::LENGTH) {
            return Err(format!(
                "`{shown}` is not the name of a party; expected a lowercase letter, then at most 31 lowercase letters, digits, _ and -"
            ));
        }
        if RESERVED.contains(&s) || s == Role::Alice.name() || s == Role::Bob.name() {
            return Err(format!("`{shown}` is not the name of a party: it has a meaning of its own"));
        }
        let mut bytes = [0; PartyName::LENGTH];
        bytes[..s.len()].copy_from_slice(s.as_bytes());
        Ok(PartyName { bytes, length: s.len() as u8 })
    }
}

impl fmt::Debug for PartyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartyName({})", self.as_str())
    }
}

impl Role {
    /// The name as it stands in study files and reports.
    pub fn name(&self) -> &str {
        match self {
            Role::Alice => "alice",
            Role::Bob => "bob",
            Role::Party(name) => name.as_str(),
            Role::Worker => "worker",
            Role::Coordinator => "coordinator",
        }
    }

    /// The other of the two parties alice and bob; any other role is returned as it is. In a study of several parties nobody has a
    /// partner by name: there a conversation is told its peer.
    pub fn partner(self) -> Role {
        match self {
            Role::Alice => Role::Bob,
            Role::Bob => Role::Alice,
            Role::Party(_) | Role::Worker | Role::Coordinator => self,
        }
    }

    /// Whether the role is one of those that a party of a vertical study may have.
    pub fn is_party(self) -> bool {
        match self {
            Role::Alice | Role::Bob | Role::Party(_) => true,
            Role::Worker | Role::Coordinator => false,
        }
    }

    /// How the program of this role is called, for sentences with a command.
    pub fn program(self) -> String {
        match self {
            Role::Party(name) => format!("party --name {}", name.as_str()),
            Role::Alice | Role::Bob | Role::Worker | Role::Coordinator => self.to_string(),
        }
    }

    /// Its place before and after roles of other kinds.
    fn rank(self) -> u8 {
        match self {
            Role::Alice | Role::Bob | Role::Party(_) => 0,
            Role::Worker => 1,
            Role::Coordinator => 2,
        }
    }
}

impl Ord for Role {
    fn cmp(&self, other: &Role) -> Ordering {
        self.rank().cmp(&other.rank()).then_with(|| self.name().cmp(other.name()))
    }
}

impl PartialOrd for Role {
    fn partial_cmp(&self, other: &Role) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let known = [Role::Alice, Role::Bob, Role::Worker, Role::Coordinator].into_iter().find(|role| role.name() == s);
        known.map_or_else(|| PartyName::from_str(s).map(Role::Party), Ok)
    }
}

impl Serialize for Role {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
        struct Name;

        impl serde::de::Visitor<'_> for Name {
            type Value = Role;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a party")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Role, E> {
                name.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Name)
    }
}

/// Which method a study runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Two to sixteen parties, different columns of the same rows.
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_party_has_a_short_plain_name_that_means_nothing_else() {
        let longest = "a".repeat(32);
        for name in ["carol", "a", "z9", "north-west_2", &longest] {
            let role: Role = name.parse().unwrap();
            assert!(
                matches!(role, Role::Party(_)) && role.name() == name && role.to_string() == name && role.is_party()
            );
        }
        let too_long = "a".repeat(33);
        for name in ["", "Carol", "9", "-a", "_a", "a b", "a.b", "é", "a/b", "a\n", &too_long] {
            let sentence = name.parse::<Role>().unwrap_err();
            assert!(sentence.contains("is not the name of a party; expected a lowercase letter"), "{sentence}");
            assert!(!sentence.contains('\n') && sentence.len() < 300);
        }
        for name in RESERVED.into_iter().chain(["alice", "bob"]) {
            assert!(name.parse::<PartyName>().unwrap_err().contains("has a meaning of its own"));
        }
        assert_eq!(
            ["alice", "bob", "worker", "coordinator"].map(|name| name.parse::<Role>().unwrap()),
            [Role::Alice, Role::Bob, Role::Worker, Role::Coordinator]
        );
    }

    #[test]
    fn parties_are_in_the_order_of_their_names_before_other_roles() {
        let names = ["coordinator", "worker", "carol", "bob", "alice", "anna", "zoe"];
        let roles: BTreeSet<Role> = names.iter().map(|name| name.parse().unwrap()).collect();
        let sorted: Vec<&str> = roles.iter().map(Role::name).collect();
        assert_eq!(sorted, ["alice", "anna", "bob", "carol", "zoe", "worker", "coordinator"]);
    }

    #[test]
    fn a_role_is_written_as_its_name_also_as_a_key() {
        let carol: Role = "carol".parse().unwrap();
        let map = BTreeMap::from([(Role::Bob, 1), (carol, 2)]);
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"bob":1,"carol":2}"#);
        assert_eq!(serde_json::from_str::<BTreeMap<Role, i32>>(r#"{"carol":2,"bob":1}"#).unwrap(), map);
        assert_eq!(toml::from_str::<BTreeMap<Role, i32>>("carol = 2\nbob = 1").unwrap(), map);
        assert_eq!(serde_json::to_string(&carol).unwrap(), "\"carol\"");
        assert!(serde_json::from_str::<Role>("\"all\"").is_err() && serde_json::from_str::<Role>("1").is_err());
    }
}
