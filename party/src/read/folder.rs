//! Folders of Parquet files, and files that a pattern names: one table, in the order of their paths.
//!
//! A folder below them that is named `year=2024` stands for a column `year` of the files in it, as Hive and Spark write it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use fedreg_common::data::Place;
use fedreg_common::id::Digest;

use super::rows::Rows;
use super::stated::unescaped;
use super::typed::Cell;
use super::{How, Identity, Opened, Origin, ReadError, Stated, Statement, file};

/// `folder/`, and `folder/part-*.parquet`.
pub(super) const ORIGIN: Origin = Origin {
    takes: |place| place.is_dir() || is_pattern(place) && fs::symlink_metadata(place).is_err(),
    statement: Statement::Path,
    identity: |stated| identity(stated.place()),
    open,
};

/// Most files of a table.
const MOST: usize = 10_000;

/// Most folders within each other.
const DEEPEST: usize = 32;

/// What Hive writes where there is no value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// One of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    /// What the names of its folders say, column by column.
    values: Vec<(String, Option<String>)>,
}

/// A table of files one after the other.
struct Table {
    name: String,
    how: How,
    parts: std::vec::IntoIter<Part>,
    /// Names of the columns that all files have, and after them of those that are folders.
    columns: Vec<String>,
    within: usize,
    picks: Vec<(usize, bool)>,
    /// The file that is being read, with what its folders say.
    open: Option<(Opened, Vec<usize>, Part)>,
    row: u64,
}

fn open(stated: &Stated, how: &How) -> Result<Opened, ReadError> {
    let (place, name) = (stated.place(), stated.to_string());
    if how.arrival.follow {
        return Err(ReadError::stated(name, "several files cannot be followed; only one that grows can"));
    }
    let parts = parts(place)?;
    let Some(first) = parts.first() else { return Err(nothing(place)) };
    let partitions: Vec<String> = first.values.iter().map(|(column, _)| column.clone()).collect();
    for part in &parts {
        let found: Vec<&str> = part.values.iter().map(|(column, _)| column.as_str()).collect();
        if found != partitions {
            let (found, expected) = (listed(&found), listed(&partitions));
            return Err(ReadError::format(
                &part.path.display().to_string(),
                format!("the folders say {found}, those of {} say {expected}", first.path.display()),
            ));
        }
    }
    let mut columns = file::open(&first.path, how)?.columns;
    if let Some(twice) = partitions.iter().find(|partition| columns.contains(partition)) {
        let problem = format!("column `{twice}` stands in the file and in the name of its folder: leave it out of one");
        return Err(ReadError::format(&first.path.display().to_string(), problem));
    }
    let within = columns.len();
    columns.extend(partitions);
    let (picks, how) = (Vec::new(), How { arrival: how.arrival.clone(), ..*how });
    let parts = parts.into_iter();
    let table = Table { name: name.clone(), how, parts, columns: columns.clone(), within, picks, open: None, row: 0 };
    Opened::new(&name, columns, table)
}

fn listed(names: &[impl AsRef<str>]) -> String {
    match names {
        [] => "no column".to_owned(),
        names => names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", "),
    }
}

fn nothing(place: &Path) -> ReadError {
    let problem = match is_pattern(place) {
        true => "no file has such a path",
        false => "this is a folder, and there is no Parquet file in it",
    };
    ReadError::format(&place.display().to_string(), problem)
}

impl Table {
    /// Opens the next file and picks in it what is wanted; `false` after the last.
    fn more(&mut self) -> Result<bool, ReadError> {
        let Some(part) = self.parts.next() else { return Ok(false) };
        let mut opened = file::open(&part.path, &self.how)?;
        let own = &self.columns[..self.within];
        let same: BTreeSet<&String> = own.iter().collect();
        if opened.columns.len() != own.len() || !opened.columns.iter().all(|column| same.contains(column)) {
            let (found, expected) = (listed(&opened.columns), listed(own));
            let problem = format!("it has the columns {found}, and the first file of {} has {expected}", self.name);
            return Err(ReadError::format(&part.path.display().to_string(), problem));
        }
        let mut places = Vec::new();
        for (position, id) in &self.picks {
            let there = opened.columns.iter().position(|column| *column == self.columns[*position]);
            if let Some(there) = there {
                opened.table.pick(there, *id)?;
                places.push(there);
            }
        }
        self.open = Some((opened, places, part));
        Ok(true)
    }
}

impl super::Table for Table {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        // Of the first file; the others are asked when they are opened.
        if position < self.within && self.open.is_none() && !self.more()? {
            return Err(ReadError::format(&self.name, "the files are gone"));
        }
        if let Some((opened, places, _)) = &mut self.open
            && position < self.within
        {
            opened.table.pick(position, id)?;
            places.push(position);
        }
        self.picks.push((position, id));
        Ok(())
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most {
            if self.open.is_none() && !self.more()? {
                break;
            }
            let Some((opened, places, part)) = &mut self.open else { break };
            let inside: Vec<bool> = self.picks.iter().map(|(position, _)| *position < self.within).collect();
            let count = rows.within(&opened.name, &inside, places, |rows| opened.table.next(most, rows))?;
            for (mut lane, (position, _)) in rows.lanes().zip(&self.picks) {
                let Some(partition) = position.checked_sub(self.within) else { continue };
                let value = part.values[partition].1.as_deref();
                let cell = value.map_or(Cell::Missing, |value| Cell::Written(value.as_bytes()));
                lane.fill(self.row + 1, std::iter::repeat_n(cell, count))?;
            }
            rows.end(Place::Row(self.row + 1), count)?;
            self.row += count as u64;
            if rows.len() < most {
                self.open = None;
            }
        }
        Ok(())
    }
}

/// The files, each known by its inode: another pattern that names one of them names the same rows.
fn identity(place: &Path) -> Result<Option<Identity>, ReadError> {
    let mut known = Vec::new();
    for part in parts(place)? {
        let Some(identity) = file::identity(&part.path) else { return Ok(None) };
        known.push(identity);
    }
    let (mut keys, mut stamps) = (Vec::new(), Vec::new());
    for Identity { key, stamp, .. } in known {
        stamps.push(format!("{key} {}", stamp.unwrap_or_default()));
        keys.push(key);
    }
    let digest = |lines: &[String]| Digest::of(lines.join("\n").as_bytes());
    let place = file::full(place);
    let key = format!("files {}", digest(&keys));
    Ok(Some(Identity { key, place, stamp: Some(digest(&stamps).to_string()), parts: keys }))
}

/// All files of a folder or a pattern, in the order of their paths.
fn parts(place: &Path) -> Result<Vec<Part>, ReadError> {
    let mut found = Vec::new();
    match place.is_dir() {
        true => below(place, &[], 0, &mut found)?,
        false => matching(place, &mut found)?,
    }
    found.sort_by(|one: &Part, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The Parquet files in a folder and in those below it. Names that begin with a dot or an underscore are those of what writers keep
/// beside their tables.
fn below(
    folder: &Path,
    values: &[(String, Option<String>)],
    depth: usize,
    found: &mut Vec<Part>,
) -> Result<(), ReadError> {
    let name = folder.display().to_string();
    if depth > DEEPEST {
        return Err(ReadError::format(&name, format!("folders lie more than {DEEPEST} deep within each other")));
    }
    for entry in fs::read_dir(folder).map_err(ReadError::read(&name))? {
        let path = entry.map_err(ReadError::read(&name))?.path();
        let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if own.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            let values: Vec<_> = values.iter().cloned().chain(partition(&own)).collect();
            below(&path, &values, depth + 1, found)?;
            continue;
        }
        if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
            let problem = "this is no Parquet file: name those that are meant by a pattern such as FOLDER/*.parquet";
            return Err(ReadError::format(&path.display().to_string(), problem));
        }
        push(found, Part { path, values: values.to_vec() }, &name)?;
    }
    Ok(())
}

fn push(found: &mut Vec<Part>, part: Part, name: &str) -> Result<(), ReadError> {
    if found.len() == MOST {
        return Err(ReadError::format(name, format!("a table can have {MOST} files at most")));
    }
    found.push(part);
    Ok(())
}

/// The files whose paths a pattern names.
fn matching(pattern: &Path, found: &mut Vec<Part>) -> Result<(), ReadError> {
    let name = pattern.display().to_string();
    let components: Vec<Component<'_>> = pattern.components().collect();
    let mut reached = vec![Part { path: PathBuf::new(), values: Vec::new() }];
    let mut begun = false;
    for (at, component) in components.iter().enumerate() {
        let (text, is_last) = (component.as_os_str(), at + 1 == components.len());
        let wild = is_pattern(Path::new(text));
        begun |= wild;
        let mut next = Vec::new();
        for Part { path, values } in reached {
            let names = match wild {
                false => vec![text.to_owned()],
                true => named(&path, text, &name)?,
            };
            for own in names {
                let mut values = values.clone();
                if begun && !is_last {
                    values.extend(partition(&own.to_string_lossy()));
                }
                let path = path.join(own);
                let is_there = if is_last { path.is_file() } else { path.is_dir() };
                if is_there {
                    push(&mut next, Part { path, values }, &name)?;
                }
            }
        }
        reached = next;
    }
    found.extend(reached);
    Ok(())
}

/// The names in a folder that are as a pattern says.
fn named(folder: &Path, pattern: &OsStr, name: &str) -> Result<Vec<std::ffi::OsString>, ReadError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let pattern = pattern.to_string_lossy();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(ReadError::read(name))? {
        let own = entry.map_err(ReadError::read(name))?.file_name();
        let hidden = own.to_string_lossy().starts_with('.') && !pattern.starts_with('.');
        if !hidden && matches(pattern.as_bytes(), own.to_string_lossy().as_bytes()) {
            names.push(own);
        }
    }
    Ok(names)
}

fn is_pattern(place: &Path) -> bool {
    place.to_str().is_some_and(|text| text.contains(['*', '?']))
}

/// Whether a name is as a pattern says: `*` stands for any characters, `?` for one of ASCII.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of, mut again) = (0, 0, None);
    while of < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at, of));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[of] => (at, of) = (at + 1, of + 1),
            Some(_) | None => {
                // The last star takes one character more.
                let Some((star, from)) = again else { return false };
                (at, of) = (star + 1, from + 1);
                again = Some((star, from + 1));
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

/// The column and the value that a folder is named by.
fn partition(name: &str) -> Option<(String, Option<String>)> {
    let (column, value) = name.split_once('=').filter(|(column, _)| !column.is_empty())?;
    let value = (value != NO_VALUE).then(|| unescaped(value));
    Some((unescaped(column), value))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use fedreg_common::data::Values;
    use parquet::data_type::{DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::super::tests::chain;
    use super::super::{Arrival, Batches, Request, content, header, identity as known, read};
    use super::*;

    /// Writes rows `from..to` with an id, and half of it, in groups of 100 000 rows.
    pub(in crate::read) fn write(path: &Path, names: [&str; 2], from: i64, to: i64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let schema = format!("message m {{ required int64 {}; optional double {}; }}", names[0], names[1]);
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
        let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
        for from in (from..to).step_by(100_000) {
            let ids: Vec<i64> = (from..to.min(from + 100_000)).collect();
            let mut rows = writer.next_row_group().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
            column.close().unwrap();
            let halves: Vec<f64> = ids.iter().map(|id| *id as f64 / 2.0).collect();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(&halves, Some(&vec![1; halves.len()]), None).unwrap();
            column.close().unwrap();
            rows.close().unwrap();
        }
        writer.close().unwrap();
    }

    fn numbers(frame: &fedreg_common::data::Frame, name: &str) -> Vec<f64> {
        match &frame.column(name).unwrap().values {
            Values::Numeric(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn with_id() -> Request {
        Request { id: Some("id".into()), ..Request::default() }
    }

    /// Seven rows in three files of two years.
    fn years() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, from, to| write(&folder.path().join(name), ["id", "x"], from, to);
        write("year=2023/site=north/part-0.parquet", 0, 3);
        write("year=2023/site=south%20east/part-0.parquet", 3, 4);
        write("year=2024/site=__HIVE_DEFAULT_PARTITION__/part-0.parquet", 4, 7);
        fs::write(folder.path().join("_SUCCESS"), "").unwrap();
        fs::write(folder.path().join("year=2024/.part-0.parquet.crc"), "x").unwrap();
        folder
    }

    #[test]
    fn a_folder_is_one_table_and_its_hive_partitions_are_columns() {
        let folder = years();
        assert_eq!(header(folder.path(), None).unwrap(), ["id", "x", "year", "site"]);
        let frame = read(folder.path(), &with_id()).unwrap();
        assert_eq!(numbers(&frame, "x"), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert_eq!(numbers(&frame, "year"), [2023.0, 2023.0, 2023.0, 2023.0, 2024.0, 2024.0, 2024.0]);
        let Values::Categorical { codes, levels, .. } = &frame.column("site").unwrap().values else { panic!() };
        assert_eq!(levels, &["north", "south east"]);
        assert_eq!(&codes[..4], [0, 0, 0, 1]);
        assert!((4..7).all(|row| frame.column("site").unwrap().values.is_missing(row)));
        let ids: Vec<&[u8]> = frame.ids().unwrap().iter().collect();
        assert_eq!(ids, [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]);
        // Columns in any order, a partition as the id, and batches over the ends of files.
        let request = Request { columns: Some(vec!["year".into(), "x".into()]), id: Some("id".into()), ..with_id() };
        let mut batches = Batches::open(folder.path(), &request, &Arrival::default()).unwrap();
        let mut all = Vec::new();
        while let Some(frame) = batches.next(2).unwrap() {
            all.extend(numbers(&frame, "x").into_iter().zip(numbers(&frame, "year")));
        }
        assert_eq!(all, numbers(&frame, "x").into_iter().zip(numbers(&frame, "year")).collect::<Vec<_>>());
        let request = Request { columns: Some(vec!["x".into()]), id: Some("year".into()), ..Request::default() };
        let frame = read(folder.path(), &request).unwrap();
        assert_eq!(frame.ids().unwrap().bytes(6), b"2024");
    }

    #[test]
    fn a_pattern_names_files_and_the_folders_of_its_wildcards_are_columns() {
        let folder = years();
        let path = |pattern: &str| folder.path().join(pattern);
        let rows = |pattern: &str| read(&path(pattern), &with_id()).unwrap().rows();
        assert_eq!(header(&path("year=*/site=*/part-?.parquet"), None).unwrap(), ["id", "x", "year", "site"]);
        assert_eq!(header(&path("year=2023/site=*/*.parquet"), None).unwrap(), ["id", "x", "site"]);
        assert_eq!((rows("year=*/*/*.parquet"), rows("year=2023/*/*"), rows("*/site=n*/*")), (7, 4, 3));
        let message = |pattern: &str| chain(&read(&path(pattern), &with_id()).unwrap_err());
        assert!(message("year=2025/*/*.parquet").ends_with("no file has such a path"));
        assert!(message("part-*.parquet").ends_with("no file has such a path"));
        // A file whose name has a star is that file.
        #[cfg(unix)]
        {
            fs::copy(path("year=2023/site=north/part-0.parquet"), path("a*.parquet")).unwrap();
            fs::copy(path("year=2023/site=north/part-0.parquet"), path("ab.parquet")).unwrap();
            assert_eq!(rows("a*.parquet"), 3);
        }
        for (pattern, name, same) in [
            ("part-*.parquet", "part-17.parquet", true),
            ("part-*.parquet", "part-17.parquet.crc", false),
            ("*a*b", "xaxbaab", true),
            ("*a*b", "xaxbaac", false),
            ("?", "", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), same, "{pattern} {name}");
        }
    }

    #[test]
    fn folders_that_are_no_one_table_are_refused_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let message = || {
            let text = chain(&read(folder.path(), &with_id()).unwrap_err());
            text.replace(&folder.path().display().to_string(), "@")
        };
        assert_eq!(message(), "@: this is a folder, and there is no Parquet file in it");
        let path = |name: &str| folder.path().join(name);
        write(&path("a/1.parquet"), ["id", "x"], 0, 2);
        write(&path("b/2.parquet"), ["id", "y"], 2, 4);
        assert_eq!(message(), "@/b/2.parquet: it has the columns `id`, `y`, and the first file of @ has `id`, `x`");
        fs::remove_file(path("b/2.parquet")).unwrap();
        write(&path("b/2.parquet"), ["x", "id"], 2, 4);
        assert!(message().starts_with("@/b/2.parquet: column `id` is of type floating-point number"), "{}", message());
        fs::remove_file(path("b/2.parquet")).unwrap();
        write(&path("c=1/3.parquet"), ["id", "x"], 0, 2);
        assert_eq!(message(), "@/c=1/3.parquet: the folders say `c`, those of @/a/1.parquet say no column");
        fs::remove_dir_all(path("a")).unwrap();
        fs::rename(path("c=1"), path("x=1")).unwrap();
        assert_eq!(
            message(),
            "@/x=1/3.parquet: column `x` stands in the file and in the name of its folder: leave it out of one"
        );
        fs::write(path("notes.txt"), "x").unwrap();
        assert!(message().starts_with("@/notes.txt: this is no Parquet file"), "{}", message());
        fs::remove_file(path("notes.txt")).unwrap();
        fs::rename(path("x=1"), path("y=1")).unwrap();
        fs::write(path("y=1/4.parquet"), "PAR1").unwrap();
        assert!(message().starts_with("@/y=1/4.parquet: the Parquet file is damaged or cut short"), "{}", message());
        let follow = Arrival { follow: true, ..Arrival::default() };
        let refused = Batches::open(folder.path(), &with_id(), &follow).unwrap_err();
        assert_eq!(refused.exit(), fedreg_common::exit::Exit::Usage);
    }

    #[test]
    fn a_folder_and_each_of_its_files_by_whatever_pattern_have_parts_in_common() {
        let folder = years();
        let of = |path: &Path| known(&path.into()).unwrap().unwrap();
        let all = of(folder.path());
        let one = of(&folder.path().join("year=2023/site=n*/part-0.parquet"));
        let file = of(&folder.path().join("year=2023/site=north/part-0.parquet"));
        assert_eq!((all.parts.len(), one.parts.len()), (3, 1));
        assert!(all.parts.contains(&one.parts[0]) && one.parts[0] == file.key);
        assert_eq!(of(&folder.path().join("year=*/*/*")).key, all.key);
        // What one file holds is known again in another folder, by its rows.
        let copy = tempfile::tempdir().unwrap();
        write(&copy.path().join("all.parquet"), ["who", "half"], 0, 7);
        let flat = tempfile::tempdir().unwrap();
        write(&flat.path().join("1.parquet"), ["id", "x"], 0, 3);
        write(&flat.path().join("2.parquet"), ["id", "x"], 3, 7);
        let rows = |folder: &Path| content::digests(&folder.into(), None, None).unwrap();
        assert_eq!(rows(copy.path()), rows(flat.path()));
        // Another file in it changes the stamp.
        write(&flat.path().join("3.parquet"), ["id", "x"], 7, 9);
        let before = of(copy.path()).stamp;
        write(&copy.path().join("more.parquet"), ["who", "half"], 7, 8);
        assert_ne!(of(copy.path()).stamp, before);
    }
}
