//! Anchors as files: their names, what stands in them, and what those of one user know of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use fedreg_common::id::Digest;
use serde::{Deserialize, Serialize};

use super::files::Known;
use super::{Place, hexadecimal};
use crate::read::file::full;

/// Letters of a ledger's path that its anchor's name shows; the rest is left to the digest.
const SHOWN: usize = 80;

/// Anchors are some lines; whatever is larger is none.
const LARGEST: u64 = 1 << 24;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AnchorFile {
    pub(super) sequence: u64,
    pub(super) hash: String,
    pub(super) key: String,
    /// The ledger, for other ledgers of the same user.
    #[serde(default)]
    ledger: String,
    /// Whose data of which files are registered in it.
    #[serde(default)]
    data: BTreeSet<String>,
    /// Files and rows by what they are known by, and the data sets to which they belong.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) files: BTreeMap<String, Known>,
}

impl AnchorFile {
    /// Of a ledger without a record.
    pub(super) fn new(key: &[u8; 32], ledger: &Path) -> AnchorFile {
        AnchorFile {
            sequence: 0,
            hash: hexadecimal(&[0; 32]),
            key: hexadecimal(key),
            ledger: full(ledger),
            data: BTreeSet::new(),
            files: BTreeMap::new(),
        }
    }

    /// Adds where a source is, and whose columns of it; whether that is news.
    pub(super) fn add(&mut self, ledger: &Path, data: String) -> bool {
        self.ledger = full(ledger);
        self.data.insert(data)
    }
}

/// Where the anchor of a ledger belongs when the configuration says nothing: under `state_home`, by the ledger's path.
pub fn default_anchor(ledger: &Path, state_home: &Path) -> PathBuf {
    let path = std::path::absolute(ledger).unwrap_or_else(|_| ledger.to_owned());
    let digest = Digest::of(path.as_os_str().as_encoded_bytes());
    let stem: String = path
        .to_string_lossy()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' || letter == '-' { letter } else { '_' })
        .collect();
    let stem = stem.trim_start_matches('_');
    let shown = stem.get(stem.len().saturating_sub(SHOWN)..).unwrap_or(stem);
    state_home.join("fedreg").join("anchors").join(format!("{shown}-{digest}.anchor"))
}

/// A file that belongs to another one, beside it: its whole name with an ending more, so that no two files share one.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Another ledger to which these data belong, by where they are or by one of the `keys` of their source and rows, if its anchor lies in
/// the same folder as ours; with that anchor.
pub(super) fn elsewhere<'k>(
    Place { ledger, anchor }: &Place,
    data: &str,
    keys: impl Iterator<Item = &'k String> + Clone,
) -> Option<(String, PathBuf)> {
    let own = full(ledger);
    let files = fs::read_dir(anchor.parent()?).ok()?;
    // Files beside an anchor that belong to it.
    let beside = |path: &Path| {
        path.extension().is_some_and(|ending| ["new", "lock", "stream", "matches"].iter().any(|known| ending == *known))
    };
    let mut others: Vec<(String, PathBuf)> = files
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path != anchor && !beside(path))
        .filter(|path| fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= LARGEST))
        .filter_map(|path| Some((serde_json::from_str::<AnchorFile>(&fs::read_to_string(&path).ok()?).ok()?, path)))
        .filter(|(file, _)| {
            let known = file.data.contains(data) || keys.clone().any(|key| file.files.contains_key(key));
            file.ledger != own && known
        })
        .map(|(file, path)| (file.ledger, path))
        .collect();
    others.sort();
    others.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledgers_have_different_anchors_whatever_their_paths() {
        let home = Path::new("/home/ana/.local/state");
        let long = format!("/c/{}/privacy.sqlite", "ä".repeat(300));
        let paths = [
            "/c1/a_b/privacy.sqlite",
            "/c1/a/b/privacy.sqlite",
            "/c1/a b/privacy.sqlite",
            "/_c1/a/b/privacy.sqlite",
            &long,
        ];
        let anchors: BTreeSet<PathBuf> = paths.iter().map(|path| default_anchor(Path::new(path), home)).collect();
        assert_eq!(anchors.len(), paths.len(), "{anchors:?}");
        for anchor in &anchors {
            let name = anchor.file_name().unwrap().to_string_lossy();
            assert!(name.contains("privacy.sqlite-") && name.len() < 255 && anchor.starts_with(home), "{name}");
        }
        let again = default_anchor(Path::new("/c1/a_b/privacy.sqlite"), home);
        assert!(again.to_string_lossy().contains("/fedreg/anchors/c1_a_b_privacy.sqlite-"), "{again:?}");
    }

    #[test]
    fn files_beside_an_anchor_belong_to_it_alone() {
        let [first, second] = ["anchors/w.1", "anchors/w.2"].map(|name| beside(Path::new(name), "new"));
        assert_eq!(first, Path::new("anchors/w.1.new"));
        assert_ne!(first, second);
    }
}
