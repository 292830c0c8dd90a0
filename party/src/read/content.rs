//! What a table holds, whatever its columns are called, its rows' order and its format: digests by which a copy is known again.
//!
//! A row counts by its cells, a cell by its value (`1.50` is 1.5), the columns in the order of their own digests, and the rows as
//! a sum. So two files have the same digest if one is the other with rows in another order, with columns in another order or under
//! other names, or in another format. Memory does not grow with the rows: the table is read twice.

use std::collections::BTreeMap;

use fedreg_common::data::Ids;
use fedreg_common::data::is_missing;
use fedreg_common::hash;
use fedreg_common::id::Digest;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::rows::Rows;
use super::{Opened, ReadError, Stated};

/// Rows that are read at a time.
const ROWS: usize = 8192;

/// Values of a column, or rows, of which it is looked whether they are all different: those with the smallest digests.
const LOOKED_AT: usize = 1024;

/// Rows of fewer kinds than these are no proof: two other tables may have as many of each by chance.
const KINDS: usize = 8;

/// The digests of a file's rows: of all columns; without those that tell every row from every other as an identifier does; and
/// without the column of identifiers `id` as well.
///
/// # Errors
/// A file that cannot be read.
pub fn digests(source: &Stated, separator: Option<u8>, id: Option<&str>) -> Result<Vec<Digest>, ReadError> {
    let (mut columns, mut rows): (Vec<Column>, u64) = (Vec::new(), 0);
    let header = each_batch(source, separator, &mut |cells: &[Ids]| {
        columns.resize_with(columns.len().max(cells.len()), Column::default);
        columns.par_iter_mut().zip(cells).for_each(|(column, cells)| cells.iter().for_each(|cell| column.add(cell)));
        rows += cells.first().map_or(0, |cells| cells.len() as u64);
    })?;
    let is_id =
        |at: usize| columns[at].tells_apart() || id.is_some_and(|id| header.get(at).is_some_and(|name| name == id));
    let all: Vec<usize> = (0..columns.len()).collect();
    let without = |leave_out: &dyn Fn(usize) -> bool| -> Vec<usize> {
        all.iter().copied().filter(|at| !leave_out(*at)).collect()
    };
    let mut choices: Vec<Vec<usize>> = vec![all.clone(), without(&|at| columns[at].tells_apart()), without(&is_id)];
    choices.dedup();
    let mut tables: Vec<Table> = choices.iter().map(|choice| Table::new(choice, &columns)).collect();
    each_batch(source, separator, &mut |cells: &[Ids]| tables.iter_mut().for_each(|table| table.add(cells)))?;
    // All of it is a file's own; of a part it must be unlikely that another table has it too.
    let mut first = true;
    let proofs = tables.iter().filter(|table| std::mem::take(&mut first) || table.rows.values.len() >= KINDS);
    Ok(proofs.map(|table| table.digest(rows)).collect())
}

/// The digest of all rows in their order, and of the names of their columns.
///
/// # Errors
/// A source that cannot be read.
pub fn in_order(source: &Stated) -> Result<Digest, ReadError> {
    let mut digest = Sha256::new();
    digest.update(b"rows in their order 1");
    let put = |digest: &mut Sha256, cell: &[u8]| {
        digest.update((cell.len() as u64).to_le_bytes());
        digest.update(cell);
    };
    let names = each_batch(source, None, &mut |cells: &[Ids]| {
        for row in 0..cells.first().map_or(0, Ids::len) {
            cells.iter().for_each(|column| put(&mut digest, column.bytes(row)));
        }
    })?;
    names.iter().for_each(|name| put(&mut digest, name.as_bytes()));
    Ok(Digest(digest.finalize().into()))
}

/// Gives the cells of some rows after the other, column by column, each by its value, and then the names of the columns.
fn each_batch(source: &Stated, separator: Option<u8>, give: &mut dyn FnMut(&[Ids])) -> Result<Vec<String>, ReadError> {
    let mut opened = Opened::open(source, separator)?;
    let (mut rows, names) = Rows::values(&mut opened);
    loop {
        opened.table.next(ROWS, &mut rows)?;
        match rows.take_values() {
            Some(columns) => give(&columns),
            None => return Ok(names),
        }
    }
}

/// The value of a text: nothing, a number, or the text.
pub(super) fn text_value(cell: &[u8]) -> Vec<u8> {
    let trimmed = cell.trim_ascii();
    if is_missing(trimmed) {
        return Vec::new();
    }
    // Whatever the file is said to write: it is the same file.
    let mut point = trimmed.to_vec();
    let commas = point.iter().filter(|byte| **byte == b',').count();
    if commas == 1 && !point.contains(&b'.') {
        point.iter_mut().filter(|byte| **byte == b',').for_each(|comma| *comma = b'.');
    }
    let numeric = point.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let number = std::str::from_utf8(&point).ok().filter(|_| numeric).and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(number) => number_value(number).to_vec(),
        None => [b"t".as_slice(), &trimmed.to_ascii_lowercase()].concat(),
    }
}

/// The value of a number.
pub(super) fn number_value(number: f64) -> [u8; 9] {
    let mut value = [b'n'; 9];
    // Not twice: zero has two signs.
    value[1..].copy_from_slice(&(number + 0.0).to_bits().to_le_bytes());
    value
}

fn is_fraction(cell: &[u8]) -> bool {
    let number = cell
        .strip_prefix(b"n")
        .and_then(|bits| bits.try_into().ok())
        .map(|bits| f64::from_bits(u64::from_le_bytes(bits)));
    number.is_some_and(|number| number.fract() != 0.0)
}

/// A sum of SHA-256 digests modulo 2^256: of a multiset, whatever its order.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sum([u64; 4]);

impl Sum {
    fn add(&mut self, digest: &[u8; 32]) {
        let (words, _) = digest.as_chunks::<8>();
        let mut carry = 0u128;
        for (word, more) in self.0.iter_mut().zip(words) {
            carry += u128::from(*word) + u128::from(u64::from_le_bytes(*more));
            *word = carry as u64;
            carry >>= 64;
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// A multiset of values: their sum, and whether those with the smallest digests came once.
#[derive(Default)]
struct Values {
    sum: Sum,
    values: BTreeMap<u64, bool>,
    /// The largest of these, once they are as many as are looked at.
    last: Option<u64>,
}

impl Values {
    fn add(&mut self, value: &[u8]) {
        self.add_digest(hash::of_short(value));
    }

    fn add_digest(&mut self, digest: [u8; 32]) {
        self.sum.add(&digest);
        let short = digest.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if self.last.is_some_and(|last| short > last) {
            return;
        }
        self.values.entry(short).and_modify(|again| *again = true).or_insert(false);
        if self.values.len() > LOOKED_AT {
            self.values.pop_last();
        }
        if self.values.len() == LOOKED_AT {
            self.last = self.values.last_key_value().map(|(last, _)| *last);
        }
    }
}

/// A column: its values, and whether one of them is a fraction, as no identifier is.
#[derive(Default)]
struct Column {
    values: Values,
    fraction: bool,
}

impl Column {
    fn add(&mut self, cell: &[u8]) {
        self.fraction = self.fraction || is_fraction(cell);
        self.values.add(cell);
    }

    /// Whether it tells the rows apart, as an identifier does.
    fn tells_apart(&self) -> bool {
        !self.fraction && self.values.values.values().all(|again| !again)
    }
}

/// Some columns of a table.
struct Table {
    /// In the order of their sums; those that have the same values are told apart by nothing and stand together.
    columns: Vec<Vec<usize>>,
    sums: Vec<Sum>,
    rows: Values,
}

impl Table {
    fn new(choice: &[usize], columns: &[Column]) -> Table {
        let mut by_sum: BTreeMap<Sum, Vec<usize>> = BTreeMap::new();
        choice.iter().for_each(|at| by_sum.entry(columns[*at].values.sum).or_default().push(*at));
        let mut sums: Vec<Sum> = choice.iter().map(|at| columns[*at].values.sum).collect();
        sums.sort_unstable();
        Table { columns: by_sum.into_values().collect(), sums, rows: Values::default() }
    }

    fn add(&mut self, cells: &[Ids]) {
        let rows = cells.first().map_or(0, Ids::len);
        let rows = (0..rows).into_par_iter().with_min_len(ROWS / 8);
        let digests: Vec<[u8; 32]> = rows.map_init(Vec::new, |bytes, row| self.row(cells, row, bytes)).collect();
        digests.into_iter().for_each(|digest| self.rows.add_digest(digest));
    }

    /// The digest of one row, which is put together in `bytes`: many short updates take longer than the digest.
    fn row(&self, cells: &[Ids], row: usize, bytes: &mut Vec<u8>) -> [u8; 32] {
        bytes.clear();
        let mut put = |cell: &[u8]| {
            bytes.extend_from_slice(&(cell.len() as u64).to_le_bytes());
            bytes.extend_from_slice(cell);
        };
        for alike in &self.columns {
            let cell = |at: &usize| cells.get(*at).map_or(&[][..], |cells| cells.bytes(row));
            match &alike[..] {
                [one] => put(cell(one)),
                alike => {
                    let mut alike: Vec<&[u8]> = alike.iter().map(cell).collect();
                    alike.sort_unstable();
                    alike.into_iter().for_each(&mut put);
                }
            }
        }
        Sha256::digest(bytes).into()
    }

    fn digest(&self, rows: u64) -> Digest {
        let mut all = Sha256::new();
        all.update(b"the rows of a table 1");
        all.update(rows.to_le_bytes());
        all.update((self.sums.len() as u64).to_le_bytes());
        self.sums.iter().for_each(|sum| all.update(sum.bytes()));
        all.update(self.rows.sum.bytes());
        Digest(all.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 40;

    fn cells() -> Vec<[String; 5]> {
        let row = |at: usize| {
            let number = at as f64;
            let cells = [format!("p{at:02}"), format!("{}", 900 - at), format!("{}", at % 3), format!("{}", at % 2)];
            let [a, b, c, d] = cells;
            [a, b, c, d, format!("{:.2}", (number * 0.7).sin())]
        };
        (0..ROWS).map(row).collect()
    }

    /// A CSV file of some of the columns.
    fn csv(rows: &[[String; 5]], header: &str, columns: &[usize]) -> String {
        let line = |row: &[String; 5]| columns.iter().map(|at| row[*at].clone()).collect::<Vec<_>>().join(",");
        format!("{header}\n{}\n", rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    fn of(text: &str, id: Option<&str>) -> Vec<Digest> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        digests(&Stated::from(&path), None, id).unwrap()
    }

    fn known(one: &[Digest], other: &[Digest]) -> bool {
        one.iter().any(|digest| other.contains(digest))
    }

    #[test]
    fn a_copy_is_known_again_whatever_the_order_of_its_rows_the_names_of_its_columns_and_its_identifiers() {
        let rows = cells();
        let original = csv(&rows, "id,number,c,d,x", &[0, 1, 2, 3, 4]);
        let all = of(&original, Some("id"));
        let mut turned = rows.clone();
        turned.reverse();
        turned.swap(3, 17);
        let mut other_ids = rows.clone();
        other_ids.iter_mut().enumerate().for_each(|(at, row)| row[0] = format!("q{}", 7 * at));
        for (what, copy, id) in [
            ("itself, by other identifiers", original.clone(), Some("number")),
            ("itself, by no identifiers", original.clone(), None),
            ("rows in another order", csv(&turned, "id,number,c,d,x", &[0, 1, 2, 3, 4]), None),
            ("columns in another order and under other names", csv(&rows, "u,v,w,y,z", &[4, 2, 0, 3, 1]), Some("w")),
            ("without identifiers", csv(&turned, "c,d,x", &[2, 3, 4]), None),
            ("with others", csv(&other_ids, "name,c,x,d", &[0, 2, 4, 3]), Some("name")),
            ("numbers written otherwise", original.replace(",0,", ", 0.0,").replace(",1,", ",+1,"), None),
            ("other ends of lines and separators", original.replace('\n', "\r\n").replace(',', ";"), None),
            ("decimal commas", original.replace(',', ";").replace('.', ","), Some("id")),
        ] {
            assert!(known(&of(&copy, id), &all), "{what}");
        }
    }

    #[test]
    fn values_that_came_twice_are_seen_among_those_with_the_smallest_digests() {
        let mut values = Values::default();
        let numbers = |more: u64| (0..4 * LOOKED_AT as u64 + more).map(|at| number_value((at % 4096) as f64));
        numbers(0).for_each(|value| values.add(&value));
        assert!(values.values.len() == LOOKED_AT && values.values.values().all(|again| !again));
        assert_eq!(values.last, values.values.last_key_value().map(|(last, _)| *last));
        numbers(4096).for_each(|value| values.add(&value));
        assert!(values.values.len() == LOOKED_AT && values.values.values().all(|again| *again));
    }

    #[test]
    fn another_table_is_another_one() {
        let rows = cells();
        let all = of(&csv(&rows, "id,number,c,d,x", &[0, 1, 2, 3, 4]), Some("id"));
        let mut changed = rows.clone();
        changed[5][4] = "0.123".to_string();
        // The same columns, with the cells of two rows exchanged: every column has the values that it had.
        let mut paired = rows.clone();
        let exchanged = paired[5][4].clone();
        paired[5][4] = std::mem::replace(&mut paired[8][4], exchanged);
        for (what, other) in [
            ("one changed row", csv(&changed, "id,number,c,d,x", &[0, 1, 2, 3, 4])),
            ("one row less", csv(&rows[1..], "id,number,c,d,x", &[0, 1, 2, 3, 4])),
            ("one row twice", csv(&[&rows[..], &rows[..1]].concat(), "id,number,c,d,x", &[0, 1, 2, 3, 4])),
            ("cells of two rows exchanged", csv(&paired, "id,number,c,d,x", &[0, 1, 2, 3, 4])),
            ("one column less", csv(&rows, "id,number,c,x", &[0, 1, 2, 4])),
        ] {
            assert!(!known(&of(&other, Some("id")), &all), "{what}");
        }
        // A few counts are no proof that it is the same table.
        let few = |ids: &str| of(&csv(&rows, "id,c,d", &[0, 2, 3]).replace('p', ids), Some("id"));
        assert!(!known(&few("p"), &few("q")));
    }
}
