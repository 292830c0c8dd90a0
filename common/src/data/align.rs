//! The same rows in the same order at every party, proved without showing an id.
//!
//! Each party sorts its rows by id, in byte order, and sends a keyed digest of the sequence. Equal digests mean equal ids
//! in equal order. The key is drawn per run and never reaches a third party, so that nobody can test guesses of ids
//! against a digest that was seen. Rows with missing values are told as bit masks over the shared order.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::error::{counted, shown};
use super::{DataError, Frame, Ids, Place};

/// Length of a digest and of its key, bytes.
pub const DIGEST_BYTES: usize = 32;

/// A keyed digest of a sequence.
pub type Digest = [u8; DIGEST_BYTES];

/// Most examples of duplicate ids that are kept.
const EXAMPLES: usize = 3;

/// Sorts the rows of a frame by id, in byte order. A frame without ids keeps the order of its file, and one whose rows were matched that
/// of the match.
///
/// # Errors
///
/// Ids that stand there more than once.
pub fn sort(frame: &mut Frame) -> Result<(), SortError> {
    if frame.matched().is_some() {
        return Ok(());
    }
    let Some(ids) = frame.ids() else { return Ok(()) };
    let Some(order) = order(ids) else { return Ok(()) };
    if let Some(duplicates) = duplicates(ids, &order, |row| frame.place(row)) {
        return Err(SortError::Duplicates(duplicates));
    }
    frame.reorder(&order)?;
    Ok(())
}

/// The permutation that sorts ids by their bytes, equal ids in file order; `None` where they ascend strictly already.
pub fn order(ids: &Ids) -> Option<Vec<u32>> {
    if (1..ids.len()).all(|row| ids.bytes(row - 1) < ids.bytes(row)) {
        return None;
    }
    // The first eight bytes decide most comparisons and spare the jump to the id itself.
    let mut keyed: Vec<(u64, u32)> = ids.iter().enumerate().map(|(row, id)| (prefix(id), row as u32)).collect();
    keyed.sort_unstable_by(|a, b| {
        (a.0.cmp(&b.0)).then_with(|| ids.bytes(a.1 as usize).cmp(ids.bytes(b.1 as usize))).then_with(|| a.1.cmp(&b.1))
    });
    Some(keyed.into_iter().map(|(_, row)| row).collect())
}

fn prefix(id: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = id.len().min(8);
    bytes[..length].copy_from_slice(&id[..length]);
    u64::from_be_bytes(bytes)
}

fn duplicates(ids: &Ids, order: &[u32], place: impl Fn(usize) -> Place) -> Option<Duplicates> {
    let mut duplicates = Duplicates { rows: 0, examples: Vec::new() };
    for pair in order.windows(2) {
        let (first, second) = (pair[0] as usize, pair[1] as usize);
        let id = ids.bytes(second);
        if ids.bytes(first) == id {
            duplicates.rows += 1;
            if duplicates.examples.len() < EXAMPLES {
                let id = shown(&String::from_utf8_lossy(id));
                duplicates.examples.push((id, place(first), place(second)));
            }
        }
    }
    (duplicates.rows > 0).then_some(duplicates)
}

/// Rows that repeat the id of another. For the local terminal only, because it quotes ids; a peer may be told `rows`.
#[derive(Clone, PartialEq, Eq)]
pub struct Duplicates {
    /// Number of rows whose id another row has already.
    pub rows: usize,
    /// At most three of these ids, ready to be shown, with the places of both rows.
    pub examples: Vec<(String, Place, Place)>,
}

impl fmt::Display for Duplicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.rows == 1 { "repeats" } else { "repeat" };
        write!(f, "{} {verb} an id: ", counted(self.rows, "row"))?;
        for (index, (id, first, second)) in self.examples.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}`{id}` ({first} and {second})")?;
        }
        if self.rows > self.examples.len() {
            write!(f, ", …")?;
        }
        Ok(())
    }
}

/// The count only: ids name people.
impl fmt::Debug for Duplicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplicates").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Why rows cannot be brought into the shared order.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SortError {
    /// Ids are not unique.
    #[error("{0}")]
    Duplicates(Duplicates),
    /// Another refusal.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Keyed digest of the ids of a frame in their present order.
///
/// Where there is no id column the row number stands for the id; no id column has the same digest as row numbers. Of rows that were
/// matched the digest is that of their order, which is proved to be the same at both parties when the match is made.
pub fn digest_rows(frame: &Frame, key: &[u8; DIGEST_BYTES]) -> Digest {
    if let Some(order) = frame.matched() {
        let mut framed = Framed::new(key, b"fedreg rows by match");
        framed.field(&(frame.rows() as u64).to_le_bytes());
        framed.field(order);
        return framed.finish();
    }
    match frame.ids() {
        Some(ids) => digest_ids(ids, key),
        None => {
            let mut framed = Framed::new(key, b"fedreg rows by number");
            framed.field(&(frame.rows() as u64).to_le_bytes());
            framed.finish()
        }
    }
}

/// Keyed digest of ids in their present order.
pub fn digest_ids(ids: &Ids, key: &[u8; DIGEST_BYTES]) -> Digest {
    let mut framed = Framed::new(key, b"fedreg rows by id");
    framed.field(&(ids.len() as u64).to_le_bytes());
    ids.iter().for_each(|id| framed.field(id));
    framed.finish()
}

/// Keyed digest of numbers that two parties should hold alike, such as the outcome; `label` says which.
///
/// The two zeros are the same number here, and so are all NaN.
pub fn digest_numbers(label: &str, numbers: &[f64], key: &[u8; DIGEST_BYTES]) -> Digest {
    let mut framed = Framed::new(key, b"fedreg numbers");
    framed.field(label.as_bytes());
    framed.field(&(numbers.len() as u64).to_le_bytes());
    let mut bytes = [[0; size_of::<f64>()]; 512];
    for numbers in numbers.chunks(bytes.len()) {
        for (bytes, &number) in bytes.iter_mut().zip(numbers) {
            // Adding zero turns -0 into 0 and changes nothing else.
            let canonical = if number.is_nan() { f64::NAN } else { number + 0.0 };
            *bytes = canonical.to_bits().to_le_bytes();
        }
        framed.raw(bytes[..numbers.len()].as_flattened());
    }
    framed.finish()
}

/// A keyed digest over fields, each after its length, so that two different sequences never give the same bytes.
struct Framed {
    mac: Hmac<Sha256>,
    /// Bytes that are digested together: a short field alone costs more in calls than its digest does.
    waiting: Vec<u8>,
}

impl Framed {
    /// Bytes from which on they are digested.
    const TOGETHER: usize = 4096;

    fn new(key: &[u8; DIGEST_BYTES], domain: &[u8]) -> Framed {
        // HMAC pads a short key with zeros itself; padding it here spares the error of a key of any length.
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..DIGEST_BYTES].copy_from_slice(key);
        let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block);
        mac.update(&(domain.len() as u64).to_le_bytes());
        mac.update(domain);
        Framed { mac, waiting: Vec::with_capacity(2 * Framed::TOGETHER) }
    }

    fn field(&mut self, bytes: &[u8]) {
        self.raw(&(bytes.len() as u64).to_le_bytes());
        self.raw(bytes);
    }

    /// A field of a length that is known beforehand.
    fn raw(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= Framed::TOGETHER {
            self.mac.update(&self.waiting);
            self.waiting.clear();
        }
    }

    fn finish(mut self) -> Digest {
        self.mac.update(&self.waiting);
        self.mac.finalize().into_bytes().into()
    }
}

/// One bit per row, set for the rows that are to be dropped. Bytes with the first row in the lowest bit.
#[derive(Clone, PartialEq, Eq)]
pub struct Mask {
    bytes: Vec<u8>,
    rows: usize,
}

impl Mask {
    /// A mask that drops nothing.
    pub fn new(rows: usize) -> Mask {
        Mask { bytes: vec![0; rows.div_ceil(8)], rows }
    }

    /// Reads a mask that came from outside.
    ///
    /// # Errors
    ///
    /// Too few or too many bytes for `rows`, or a bit set beyond the last row.
    pub fn from_bytes(bytes: Vec<u8>, rows: usize) -> Result<Mask, MaskError> {
        let expected = rows.div_ceil(8);
        if bytes.len() != expected {
            return Err(MaskError::Length { expected, found: bytes.len() });
        }
        let used = rows % 8;
        if used != 0 && bytes.last().is_some_and(|last| last >> used != 0) {
            return Err(MaskError::Padding { rows });
        }
        Ok(Mask { bytes, rows })
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of rows, dropped or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Marks a row; rows beyond the last are ignored.
    pub fn set(&mut self, row: usize) {
        if row < self.rows {
            self.bytes[row / 8] |= 1 << (row % 8);
        }
    }

    /// Whether a row is marked.
    pub fn is_set(&self, row: usize) -> bool {
        row < self.rows && self.bytes[row / 8] >> (row % 8) & 1 == 1
    }

    /// Number of marked rows.
    pub fn count(&self) -> usize {
        self.bytes.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// The marks in row order.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.rows).map(|row| self.is_set(row))
    }

    /// The rows that are not marked.
    pub fn kept(&self) -> impl Iterator<Item = usize> {
        (0..self.rows).filter(|&row| !self.is_set(row))
    }
}

/// The count only: who has no value is a fact about persons.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} of {} rows)", self.count(), self.rows)
    }
}

/// Why a mask from outside was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// Wrong number of bytes.
    #[error("the row mask has {found} bytes, expected {expected}")]
    Length {
        /// Bytes for the agreed number of rows.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
    /// Bits that mean no row.
    #[error("the row mask marks rows beyond the last of {rows}")]
    Padding {
        /// The agreed number of rows.
        rows: usize,
    },
    /// Masks of two parties that do not belong together.
    #[error("the row masks are for {own} and {peer} rows")]
    Rows {
        /// Own rows.
        own: usize,
        /// The peer's rows.
        peer: usize,
    },
}

/// The rows that both parties keep, and the counts for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteCases {
    /// Rows to drop at both parties.
    pub dropped: Mask,
    /// Rows incomplete at this party.
    pub own: usize,
    /// Rows incomplete at the peer.
    pub peer: usize,
    /// Rows incomplete at both, counted in `own` and in `peer`.
    pub both: usize,
    /// Rows left.
    pub kept: usize,
}

/// Joins the masks of both parties.
///
/// # Errors
///
/// Masks of different length.
pub fn complete_cases(own: &Mask, peer: &Mask) -> Result<CompleteCases, MaskError> {
    if own.rows != peer.rows {
        return Err(MaskError::Rows { own: own.rows, peer: peer.rows });
    }
    let dropped =
        Mask { bytes: own.bytes.iter().zip(&peer.bytes).map(|(own, peer)| own | peer).collect(), rows: own.rows };
    let union = dropped.count();
    let (own, peer) = (own.count(), peer.count());
    Ok(CompleteCases { kept: dropped.rows - union, both: own + peer - union, own, peer, dropped })
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Places, Values};
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [7; 32];

    fn ids<B: AsRef<[u8]>>(texts: &[B]) -> Ids {
        let mut ids = Ids::default();
        texts.iter().for_each(|text| ids.push(text.as_ref()));
        ids
    }

    fn frame<B: AsRef<[u8]>>(texts: &[B]) -> Frame {
        let mut places = Places::default();
        (0..texts.len()).for_each(|row| places.push(Place::Line(row as u64 + 2)));
        let values = Values::Numeric((0..texts.len()).map(|row| row as f64).collect());
        Frame::new(vec![Column { name: "row".into(), values }], Some(ids(texts)), places).unwrap()
    }

    proptest! {
        #[test]
        fn rows_are_sorted_by_the_bytes_of_their_id_and_every_row_stays_whole(
            texts in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..12), 1..60),
            seed in any::<u64>(),
        ) {
            let sorted: Vec<Vec<u8>> = texts.into_iter().collect();
            let mut shuffled = sorted.clone();
            shuffled.sort_by_key(|text| {
                text.iter().fold(seed, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            });
            let mut frame = frame(&shuffled);
            sort(&mut frame).unwrap();
            prop_assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), sorted.iter().collect::<Vec<_>>());
            let Values::Numeric(values) = &frame.column("row").unwrap().values else { panic!() };
            for (row, id) in sorted.iter().enumerate() {
                prop_assert_eq!(&shuffled[values[row] as usize], id);
                prop_assert_eq!(frame.place(row), Place::Line(values[row] as u64 + 2));
            }
            prop_assert_eq!(digest_rows(&frame, &KEY), digest_ids(&ids(&sorted), &KEY));
        }

        #[test]
        fn a_mask_comes_back_from_its_bytes(marks in proptest::collection::vec(any::<bool>(), 0..70)) {
            let mut mask = Mask::new(marks.len());
            marks.iter().enumerate().filter(|(_, mark)| **mark).for_each(|(row, _)| mask.set(row));
            let back = Mask::from_bytes(mask.as_bytes().to_vec(), marks.len()).unwrap();
            prop_assert_eq!(back.iter().collect::<Vec<_>>(), &marks[..]);
            prop_assert_eq!(back.count() + back.kept().count(), marks.len());
            let mut long = mask.as_bytes().to_vec();
            long.push(0);
            prop_assert!(Mask::from_bytes(long, marks.len()).is_err());
            if !marks.len().is_multiple_of(8) {
                let mut padded = mask.as_bytes().to_vec();
                *padded.last_mut().unwrap() |= 0x80;
                prop_assert_eq!(Mask::from_bytes(padded, marks.len()), Err(MaskError::Padding { rows: marks.len() }));
            }
        }
    }

    #[test]
    fn duplicate_ids_are_counted_and_three_are_shown_with_their_lines() {
        let mut frame = frame(&["b", "a", "c", "b", "b", "a", "d", "c"]);
        let SortError::Duplicates(duplicates) = sort(&mut frame).unwrap_err() else { panic!() };
        assert_eq!(duplicates.rows, 4);
        assert_eq!(
            duplicates.to_string(),
            "4 rows repeat an id: `a` (line 3 and line 7), `b` (line 2 and line 5), `b` (line 5 and line 6), …"
        );
        assert_eq!(format!("{duplicates:?}"), "Duplicates { rows: 4, .. }");
    }

    #[test]
    fn duplicates_that_stand_in_ascending_order_are_found_too() {
        assert!(matches!(sort(&mut frame(&["a", "b", "b"])), Err(SortError::Duplicates(_))));
    }

    #[test]
    fn ids_that_ascend_already_need_no_order() {
        assert_eq!(order(&ids(&["1", "10", "2"])), None);
        assert_eq!(order(&ids(&["10", "1"])), Some(vec![1, 0]));
    }

    #[test]
    fn ids_with_the_same_first_eight_bytes_are_told_apart_and_zero_bytes_count() {
        assert_eq!(order(&ids(&["patient-2", "patient-1", "patient-"])), Some(vec![2, 1, 0]));
        assert_eq!(order(&ids(&[&b"a\0"[..], b"a"])), Some(vec![1, 0]));
    }

    #[test]
    fn the_digest_of_ids_depends_on_order_cuts_and_key() {
        let digest = |texts: &[&str]| digest_ids(&ids(texts), &KEY);
        assert_eq!(digest(&["a", "bc"]), digest(&["a", "bc"]));
        for other in [&["ab", "c"][..], &["bc", "a"], &["a", "bc", ""], &["abc"]] {
            assert_ne!(digest(&["a", "bc"]), digest(other));
        }
        assert_ne!(digest(&["a"]), digest_ids(&ids(&["a"]), &[8; 32]));
    }

    /// Expected value from Python's `hmac`: `domain`, count and ids, each after its length as eight little-endian bytes.
    #[test]
    fn the_digest_of_ids_is_hmac_sha_256_over_length_prefixed_fields() {
        let hex: String = digest_ids(&ids(&["a", "bc"]), &KEY).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "92e740379fd58cdef22137925db0de665b7969db761af7ce67298187c70f16de");
    }

    #[test]
    fn the_digest_of_numbers_sees_every_bit_but_the_sign_of_zero() {
        let digest = |numbers: &[f64]| digest_numbers("outcome", numbers, &KEY);
        assert_eq!(digest(&[0.0, 1.0]), digest(&[-0.0, 1.0]));
        assert_eq!(digest(&[f64::NAN]), digest(&[-f64::NAN]));
        assert_ne!(digest(&[1.0]), digest(&[1.0 + f64::EPSILON]));
        assert_ne!(digest(&[1.0]), digest(&[-1.0]));
        assert_ne!(digest(&[1.0, 2.0]), digest(&[2.0, 1.0]));
        assert_ne!(digest(&[1.0]), digest_numbers("offset", &[1.0], &KEY));
    }

    #[test]
    fn joint_complete_cases_count_each_side_and_the_overlap() {
        let mask = |rows: &[usize]| {
            let mut mask = Mask::new(10);
            rows.iter().for_each(|&row| mask.set(row));
            mask
        };
        let joint = complete_cases(&mask(&[0, 3, 9]), &mask(&[3, 4])).unwrap();
        assert_eq!((joint.own, joint.peer, joint.both, joint.kept), (3, 2, 1, 6));
        assert_eq!(joint.dropped.kept().collect::<Vec<_>>(), [1, 2, 5, 6, 7, 8]);
        assert_eq!(complete_cases(&mask(&[]), &Mask::new(9)), Err(MaskError::Rows { own: 10, peer: 9 }));
    }
}
