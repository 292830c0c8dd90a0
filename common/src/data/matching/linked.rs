//! Record pairs that were found elsewhere: a table with an own id and the id of a pair in each row.
//!
//! Each party has such a table of its own. Sorted by the id of the pair both have the same order, which is proved by a keyed digest before
//! anything rests on it.

use std::collections::HashMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use super::alignment::{TAG_BYTES, Tag};
use crate::data::{Ids, MAX_ROWS, align};
use crate::id::RunId;

/// A party's records in the order of the pairs.
#[derive(Clone, PartialEq, Eq)]
pub struct Linked {
    /// Own record numbers, from 0, in the order of `pairs`.
    records: Vec<u32>,
    /// Ids of the pairs, ascending by their bytes.
    pairs: Ids,
}

/// Why a table of pairs does not fit the data. May quote an id: for the local terminal only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Columns of different length: a bug of the caller.
    #[error("the table of pairs has {own} own ids and {pairs} pairs")]
    Lengths {
        /// Own ids.
        own: usize,
        /// Ids of pairs.
        pairs: usize,
    },
    /// An own id that the data do not have.
    #[error("row {row} of the table of pairs names the record `{id}`, which the data do not have")]
    Unknown {
        /// Row of the table of pairs, from 1.
        row: usize,
        /// The id.
        id: String,
    },
    /// An own id that several rows of the data have.
    #[error("row {row} of the table of pairs names the record `{id}`, which several rows of the data have")]
    Ambiguous {
        /// Row of the table of pairs, from 1.
        row: usize,
        /// The id.
        id: String,
    },
    /// A record or a pair that stands there twice: links are one to one.
    #[error("the table of pairs has the {what} `{id}` in rows {first} and {second}; a record has at most one partner")]
    Repeated {
        /// A record or a pair.
        what: &'static str,
        /// Its id.
        id: String,
        /// Row of the table, from 1.
        first: usize,
        /// Row of the table, from 1.
        second: usize,
    },
}

impl Linked {
    /// Joins the table of pairs with the data: `own` and `pairs` are its columns, `ids` those of the data, whose row numbers from 1 are
    /// their ids without them.
    ///
    /// # Errors
    /// Records that the data do not have, and records or pairs that stand there twice.
    pub fn new(own: &Ids, pairs: &Ids, ids: Option<&Ids>, rows: usize) -> Result<Linked, LinkError> {
        if own.len() != pairs.len() || rows > MAX_ROWS {
            return Err(LinkError::Lengths { own: own.len(), pairs: pairs.len() });
        }
        let shown = |id: &[u8]| String::from_utf8_lossy(id).chars().filter(|c| !c.is_control()).take(60).collect();
        // Rows of the data by id; `None` where several have it.
        let known: Option<HashMap<&[u8], Option<u32>>> = ids.map(|ids| {
            let mut known = HashMap::with_capacity(ids.len());
            for (row, id) in ids.iter().enumerate() {
                known.entry(id).and_modify(|row| *row = None).or_insert(Some(row as u32));
            }
            known
        });
        let mut records = Vec::with_capacity(own.len());
        let mut used: HashMap<u32, usize> = HashMap::with_capacity(own.len());
        for (at, id) in own.iter().enumerate() {
            let row = at + 1;
            let record = match &known {
                Some(known) => match known.get(id) {
                    None => return Err(LinkError::Unknown { row, id: shown(id) }),
                    Some(None) => return Err(LinkError::Ambiguous { row, id: shown(id) }),
                    Some(Some(record)) => *record,
                },
                None => number(id, rows).ok_or_else(|| LinkError::Unknown { row, id: shown(id) })?,
            };
            if let Some(first) = used.insert(record, row) {
                return Err(LinkError::Repeated { what: "record", id: shown(id), first, second: row });
            }
            records.push(record);
        }
        let Some(order) = align::order(pairs) else { return Ok(Linked { records, pairs: pairs.clone() }) };
        for two in order.windows(2) {
            let (first, second) = (two[0] as usize, two[1] as usize);
            if pairs.bytes(first) == pairs.bytes(second) {
                let id = shown(pairs.bytes(first));
                return Err(LinkError::Repeated { what: "pair", id, first: first + 1, second: second + 1 });
            }
        }
        let records = order.iter().filter_map(|&at| records.get(at as usize).copied()).collect();
        Ok(Linked { records, pairs: pairs.reordered(&order) })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Own record numbers in the order of the pairs.
    pub fn records(&self) -> &[u32] {
        &self.records
    }

    /// The keyed digest of the pairs in their order: what both parties compare.
    pub fn digest(&self, key: &[u8; 32]) -> [u8; 32] {
        align::digest_ids(&self.pairs, key)
    }

    /// What tells the pairs of a run apart, in their order.
    pub fn tags(&self, run: RunId) -> Vec<Tag> {
        let tag = |id: &[u8]| {
            let mut digest = Sha256::new();
            for field in [b"fedreg linked pair".as_slice(), &run.0, id] {
                digest.update((field.len() as u64).to_le_bytes());
                digest.update(field);
            }
            let whole: [u8; 32] = digest.finalize().into();
            let mut tag = [0; TAG_BYTES];
            tag.copy_from_slice(&whole[..TAG_BYTES]);
            tag
        };
        self.pairs.iter().map(tag).collect()
    }
}

/// A row number from 1, as the record number from 0.
fn number(id: &[u8], rows: usize) -> Option<u32> {
    let text = std::str::from_utf8(id).ok()?;
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let row = text.parse::<u32>().ok().filter(|row| plain && *row as usize <= rows)?;
    row.checked_sub(1)
}

/// Sizes only: who is in both tables is a fact about persons.
impl fmt::Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linked({} pairs)", self.records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(texts: &[&str]) -> Ids {
        let mut ids = Ids::default();
        texts.iter().for_each(|text| ids.push(text.as_bytes()));
        ids
    }

    fn join(own: &[&str], pairs: &[&str], data: &[&str]) -> Result<Linked, String> {
        Linked::new(&ids(own), &ids(pairs), Some(&ids(data)), data.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn records_come_in_the_order_of_the_pairs_whatever_the_order_of_the_tables_is() {
        let alice = join(&["a3", "a1", "a2"], &["p2", "p3", "p1"], &["a1", "a2", "a3", "a4"]).unwrap();
        let bob = join(&["b7", "b9", "b8"], &["p1", "p2", "p3"], &["b9", "b8", "b7"]).unwrap();
        assert_eq!((alice.records(), bob.records()), (&[1, 2, 0][..], &[2, 0, 1][..]));
        assert_eq!(alice.digest(&[1; 32]), bob.digest(&[1; 32]));
        assert_eq!(alice.tags(RunId([1; 16])), bob.tags(RunId([1; 16])));
        assert_ne!(alice.tags(RunId([1; 16])), alice.tags(RunId([2; 16])));
        let other = join(&["b7", "b9"], &["p1", "p2"], &["b9", "b8", "b7"]).unwrap();
        assert_ne!(alice.digest(&[1; 32]), other.digest(&[1; 32]));
    }

    #[test]
    fn row_numbers_stand_for_ids_where_the_data_have_none() {
        let linked = |own: &[&str]| Linked::new(&ids(own), &ids(&["p", "q"][..own.len()]), None, 3);
        assert_eq!(linked(&["3", "1"]).unwrap().records(), [2, 0]);
        for odd in ["0", "4", "01", "-1", "+1", "1.0", "", "x", "99999999999"] {
            assert!(matches!(linked(&[odd]), Err(LinkError::Unknown { row: 1, .. })), "{odd}");
        }
    }

    #[test]
    fn what_is_not_one_to_one_or_not_there_is_named() {
        let data = ["007", "7", "x", "x"];
        assert_eq!(join(&["7", "007"], &["p", "q"], &data).unwrap().records(), [1, 0], "ids are no numbers");
        assert!(join(&["8"], &["p"], &data).unwrap_err().contains("row 1 of the table of pairs names the record `8`"));
        assert!(join(&["x"], &["p"], &data).unwrap_err().contains("which several rows of the data have"));
        let twice = join(&["7", "7"], &["p", "q"], &data).unwrap_err();
        assert!(twice.contains("has the record `7` in rows 1 and 2"), "{twice}");
        let pair = join(&["7", "007"], &["p", "p"], &data).unwrap_err();
        assert!(pair.contains("has the pair `p` in rows 1 and 2"), "{pair}");
        assert!(matches!(Linked::new(&ids(&["7"]), &ids(&[]), None, 3), Err(LinkError::Lengths { own: 1, pairs: 0 })));
    }
}
