//! How the rows of two tables are matched, from a file of its own or by one column.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedreg_common::data::unknown;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::study::{
    DuplicateTerms, FoldTerms, HeldBy, KeyKind, KeyTerms, MatchProtocol, MatchRun, MatchTerms, Membership, PassTerms,
    explain,
};
use fedreg_party::config::{KeyColumn, MatchConfig, MissingKeys};
use fedreg_party::output::Folder;
use fedreg_party::read::{self, Request};
use serde::Deserialize;

use crate::Failure;
use crate::arguments::Vertical;
use crate::columns::{Own, Split};
use crate::people::{self, SHIPPED};
use crate::stage::{absolute, cannot_write};

/// The keys of the shipped tables.
pub(crate) const SHIPPED_KEYS: &str = include_str!("../data/people.match.toml");
/// Their outcome, at the hospital.
const OUTCOME: &str = "stay";
/// Fewest matched rows, where the file does not say.
const LEAST: u64 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "least")]
    min_matched: u64,
    #[serde(default = "ten")]
    min_pass: u64,
    #[serde(default)]
    duplicates: DuplicateTerms,
    /// Words for missing values, by party.
    #[serde(default)]
    missing: BTreeMap<Role, Vec<String>>,
    keys: BTreeMap<String, FileKey>,
    pass: Vec<PassTerms>,
}

/// A key as the study has it, and the column of each party.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKey {
    kind: KeyKind,
    length: Option<[u32; 2]>,
    fold: Option<FoldTerms>,
    earliest: Option<String>,
    latest: Option<String>,
    #[serde(default)]
    levels: Vec<String>,
    alice: KeyColumn,
    bob: KeyColumn,
}

fn least() -> u64 {
    LEAST
}

fn ten() -> u64 {
    10
}

/// What the study says of a match, and each party's own file.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) terms: MatchTerms,
    /// Alice's and Bob's.
    pub(crate) configs: [MatchConfig; 2],
}

/// A rehearsal with a match.
pub(crate) struct Matched {
    pub(crate) keys: Keys,
    /// Alice's and Bob's table.
    pub(crate) tables: [PathBuf; 2],
    pub(crate) outcome: String,
    pub(crate) held_by: HeldBy,
    pub(crate) columns: Split,
}

/// What the flags say of a match; nothing without `--match`.
pub(crate) fn of(arguments: &Vertical, folder: &Folder) -> Result<Option<Matched>, Failure> {
    let Some(by) = &arguments.matching else {
        return match arguments.alice_data.is_some() || arguments.bob_data.is_some() {
            true => Err(Failure::usage("--alice-data and --bob-data need --match: by what are their rows matched?")),
            false => Ok(None),
        };
    };
    let (keys, tables) = match (&arguments.alice_data, &arguments.bob_data) {
        (Some(alice), Some(bob)) if !by.is_empty() => (read_keys(by)?, [absolute(alice)?, absolute(bob)?]),
        (Some(_), Some(_)) => {
            return Err(Failure::usage("--match needs a file of keys, or a column that both tables have"));
        }
        (None, None) if by.is_empty() => {
            let people = people::people(SHIPPED, 1);
            let tables = [("hospital.csv", people.hospital), ("insurer.csv", people.insurer)];
            for (name, text) in &tables {
                folder.write(name, text.as_bytes()).map_err(cannot_write)?;
            }
            let keys = parse(Path::new("the shipped keys"), SHIPPED_KEYS)?;
            (keys, tables.map(|(name, _)| folder.path().join(name)))
        }
        _ => {
            return Err(Failure::usage(
                "--match needs --alice-data and --bob-data; without both, --match alone takes the shipped tables",
            ));
        }
    };
    let shipped = by.is_empty();
    let Some(outcome) = arguments.outcome.clone().or(shipped.then(|| OUTCOME.to_string())) else {
        return Err(Failure::usage("--match needs --outcome: which column is to be explained?"));
    };
    let written = arguments.table.written().map_err(Failure::usage)?;
    let header = |file: &Path| read::header(file, written.separator).map_err(|error| Failure::new(Exit::Data, error));
    let headers = [header(&tables[0])?, header(&tables[1])?];
    for (config, header) in keys.configs.iter().zip(&headers) {
        if let Some(own) = config.columns.values().find(|own| !header.iter().any(|name| name == own.column())) {
            let error = unknown(own.column(), header.iter().map(String::as_str));
            return Err(Failure::new(Exit::Data, error));
        }
    }
    let held_by = holder(&outcome, &headers)?;
    let given = [(&arguments.alice, "--alice", 0), (&arguments.bob, "--bob", 1)];
    let read = |(names, flag, side): (&Option<String>, &str, usize)| {
        names.as_deref().map(|text| Own::read(text, flag, &headers[side])).transpose()
    };
    let [alice, bob] = given.map(read);
    let own = [alice?, bob?];
    // The offset of one party's formula is no term of the other's.
    let offsets: Vec<String> = own.iter().flatten().flat_map(Own::offsets).collect();
    let [alice, bob] = given.map(|(_, flag, side)| {
        let flags = [&arguments.offset, &arguments.weights, &arguments.folds].into_iter().flatten();
        let others: Vec<&String> = flags.chain([&outcome]).chain(&offsets).collect();
        let is_free = |name: &&String| {
            !others.contains(name) && !keys.configs[side].columns.values().any(|key| key.column() == *name)
        };
        let free = headers[side].iter().filter(is_free);
        match &own[side] {
            Some(stated) => {
                let free: Vec<&str> = free.map(String::as_str).collect();
                stated.clone().written_out(&free, flag)
            }
            None => Ok(Own::Columns(free.cloned().collect())),
        }
    });
    let columns = Split { alice: alice?, bob: bob? };
    let mut keys = keys;
    for (role, file) in [Role::Alice, Role::Bob].into_iter().zip(&tables) {
        let request = Request { columns: Some(Vec::new()), written: written.clone(), ..Request::default() };
        let rows = read::read(file, &request).map_err(|error| Failure::new(Exit::Data, error))?.rows();
        keys.terms.max_rows.insert(role, rows as u64);
    }
    Ok(Some(Matched { keys, tables, outcome, held_by, columns }))
}

fn holder(outcome: &str, [alice, bob]: &[Vec<String>; 2]) -> Result<HeldBy, Failure> {
    let has = |header: &[String]| header.iter().any(|name| name == outcome);
    match (has(alice), has(bob)) {
        (true, true) => Ok(HeldBy::Both),
        (true, false) => Ok(HeldBy::One(Role::Alice)),
        (false, true) => Err(Failure::usage(format!(
            "the outcome `{outcome}` stands in bob's table alone: exchange --alice-data and --bob-data, as alice holds the outcome"
        ))),
        (false, false) => {
            let error = unknown(outcome, alice.iter().map(String::as_str));
            Err(Failure::new(Exit::Data, error))
        }
    }
}

/// A file of keys, or a column of identifiers that both tables have under one name.
fn read_keys(by: &str) -> Result<Keys, Failure> {
    let file = Path::new(by);
    if !file.is_file() {
        if by.ends_with(".toml") {
            return Err(Failure::usage(format!("cannot read {by}: there is no such file")));
        }
        let key = FileKey {
            kind: KeyKind::Identifier,
            length: None,
            fold: None,
            earliest: None,
            latest: None,
            levels: Vec::new(),
            alice: KeyColumn::Name(by.to_string()),
            bob: KeyColumn::Name(by.to_string()),
        };
        return Ok(keys(File {
            min_matched: LEAST,
            min_pass: ten(),
            duplicates: DuplicateTerms::Refuse,
            missing: BTreeMap::new(),
            keys: [("id".to_string(), key)].into(),
            pass: vec![PassTerms { name: by.to_string(), keys: vec!["id".to_string()] }],
        }));
    }
    let text = std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("cannot read {by}: {error}")))?;
    parse(file, &text)
}

/// The keys in the text of a file of this name.
pub(crate) fn parse(name: &Path, text: &str) -> Result<Keys, Failure> {
    let wrong = |error: toml::de::Error| Failure::usage(format!("{}: {}", name.display(), explain(&error)));
    toml::from_str(text).map(keys).map_err(wrong)
}

fn keys(file: File) -> Keys {
    let config = |role: Role, column: fn(&FileKey) -> &KeyColumn| MatchConfig {
        columns: file.keys.iter().map(|(name, key)| (name.clone(), column(key).clone())).collect(),
        missing: MissingKeys { values: file.missing.get(&role).cloned().unwrap_or_default() },
        ..MatchConfig::default()
    };
    let configs = [config(Role::Alice, |key| &key.alice), config(Role::Bob, |key| &key.bob)];
    let keys = file.keys.into_iter().map(|(name, key)| {
        let FileKey { kind, length, fold, earliest, latest, levels, .. } = key;
        (name, KeyTerms { kind, length, fold, earliest, latest, levels })
    });
    let terms = MatchTerms {
        protocol: MatchProtocol::Direct,
        membership: Membership::Disclosed,
        min_matched: file.min_matched,
        min_matched_predict: None,
        min_pass: file.min_pass,
        run: MatchRun::Command,
        duplicates: file.duplicates,
        reused: Vec::new(),
        // Known once the tables are read.
        max_rows: [(Role::Alice, 1), (Role::Bob, 1)].into(),
        capacity: BTreeMap::new(),
        keys: keys.collect(),
        pass: file.pass,
    };
    Keys { terms, configs }
}
