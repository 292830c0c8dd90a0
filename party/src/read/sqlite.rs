//! SQLite files: all of a table, or what a query gives.
//!
//! The file is opened for reading only, and a query may read tables and call functions and nothing else. A thread of its own steps
//! through the rows, as they live no longer than the statement that gives them.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fedreg_common::data::Place;
use fedreg_common::id::Digest;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Statement as Prepared};

use super::rows::Rows;
use super::typed::{Cell, Meaning};
use super::{Chosen, Format, How, Identity, Opened, Origin, ReadError, Stated, Statement, file};

/// What a source in an SQLite file begins with.
pub(crate) const BEGINNING: &str = "sqlite:";

/// `sqlite:FILE`.
pub(super) const ORIGIN: Origin = Origin {
    takes: |place| super::after(place, BEGINNING).is_some(),
    statement: Statement::Base,
    identity: |stated| identity(stated).map(Some),
    open,
};

/// An SQLite file that is stated as if it were a table.
pub(super) const FORMAT: Format = Format {
    takes: |found| found.start == b"SQLi",
    open: |found, _| {
        let problem =
            format!("this is an SQLite file: state it as {BEGINNING}{0}, and a table or a query of it", found.name);
        Err(ReadError::stated(found.name, problem))
    },
};

/// How long another process may keep the file from being read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Rows that are handed over at a time, and how many such parts may wait.
const ROWS: usize = 2048;
const WAITING: usize = 4;

/// A table that is being read.
struct Table {
    file: String,
    columns: Vec<Column>,
    /// The positions of the columns to read, in the order in which they were picked.
    picks: Vec<usize>,
    /// Where these are told, once they are all known.
    ask: Option<SyncSender<Vec<usize>>>,
    said: Receiver<Said>,
    part: Part,
    /// Rows of the part that were given out.
    taken: usize,
    row: u64,
    ended: bool,
}

/// A column as the statement declares it.
#[derive(Clone)]
struct Column {
    name: String,
    declared: String,
}

/// What the thread says.
enum Said {
    Columns(Vec<Column>),
    Rows(Part),
    Failed(ReadError),
    End,
}

/// Some rows.
#[derive(Default)]
struct Part {
    rows: usize,
    /// Row by row.
    values: Vec<Value>,
    /// The texts, one after the other.
    texts: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Value {
    Missing,
    Truth(bool),
    Whole(i64),
    Number(f64),
    /// From one byte of the texts to another.
    Text(usize, usize),
    /// Bytes, which are no value of a regression and no id.
    Bytes,
}

impl Part {
    fn push(&mut self, value: ValueRef<'_>, is_truth: bool) {
        self.values.push(match value {
            ValueRef::Null => Value::Missing,
            ValueRef::Integer(value @ (0 | 1)) if is_truth => Value::Truth(value == 1),
            ValueRef::Integer(value) => Value::Whole(value),
            ValueRef::Real(value) => Value::Number(value),
            ValueRef::Text(text) => {
                let start = self.texts.len();
                self.texts.extend_from_slice(text);
                Value::Text(start, self.texts.len())
            }
            ValueRef::Blob(_) => Value::Bytes,
        });
    }

    fn cell(&self, value: Value) -> Cell<'_> {
        match value {
            Value::Missing => Cell::Missing,
            Value::Truth(value) => Cell::Truth(value),
            Value::Whole(value) => Cell::Whole(i128::from(value), Meaning::Plain),
            Value::Number(value) => Cell::Number(value),
            Value::Text(start, end) => Cell::Text(&self.texts[start..end]),
            // No number, and the same for all: neither a column of numbers nor one of levels takes it.
            Value::Bytes => Cell::Written(b"(BLOB)"),
        }
    }
}

fn open(stated: &Stated, how: &How) -> Result<Opened, ReadError> {
    let name = stated.to_string();
    if how.arrival.follow {
        return Err(ReadError::stated(name, "a data base cannot be followed; only a file that grows can"));
    }
    let (ask, asked) = sync_channel(1);
    let (say, said) = sync_channel(WAITING);
    let thread = {
        let (stated, say) = (stated.clone(), say);
        move || {
            let ended = step(&stated, &asked, &say).unwrap_or_else(Said::Failed);
            // Nobody waits for it any more where the table was let go.
            let _ = say.send(ended);
        }
    };
    thread::Builder::new().name("sqlite".to_owned()).spawn(thread).map_err(ReadError::read(&name))?;
    let columns = match said.recv() {
        Ok(Said::Columns(columns)) => columns,
        Ok(Said::Failed(error)) => return Err(error),
        Ok(Said::Rows(_) | Said::End) | Err(_) => return Err(stopped(&name)),
    };
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let (picks, part) = (Vec::new(), Part::default());
    let table =
        Table { file: name.clone(), columns, picks, ask: Some(ask), said, part, taken: 0, row: 0, ended: false };
    Opened::new(&name, names, table)
}

/// Prepares the statement, says its columns, and once it is known which are wanted steps through the rows.
fn step(stated: &Stated, asked: &Receiver<Vec<usize>>, say: &SyncSender<Said>) -> Result<Said, ReadError> {
    let failed = failure(stated);
    let connection = connect(stated)?;
    let (mut statement, _) = prepare(stated, &connection)?;
    let column = |column: rusqlite::Column<'_>| Column {
        name: column.name().to_owned(),
        declared: column.decl_type().unwrap_or_default().to_ascii_uppercase(),
    };
    let columns: Vec<Column> = statement.columns().into_iter().map(column).collect();
    let truths: Vec<bool> = columns.iter().map(|column| column.declared.contains("BOOL")).collect();
    let _ = say.send(Said::Columns(columns));
    let Ok(picks) = asked.recv() else { return Ok(Said::End) };
    let mut rows = statement.query([]).map_err(&failed)?;
    let mut part = Part::default();
    while let Some(row) = rows.next().map_err(&failed)? {
        for position in &picks {
            part.push(row.get_ref(*position).map_err(&failed)?, truths[*position]);
        }
        part.rows += 1;
        if part.rows == ROWS && say.send(Said::Rows(std::mem::take(&mut part))).is_err() {
            return Ok(Said::End);
        }
    }
    if part.rows > 0 {
        let _ = say.send(Said::Rows(part));
    }
    Ok(Said::End)
}

fn path_of(stated: &Stated) -> PathBuf {
    stated.after(BEGINNING).map_or_else(PathBuf::new, PathBuf::from)
}

fn connect(stated: &Stated) -> Result<Connection, ReadError> {
    let path = path_of(stated);
    // SQLite does not say why it cannot open a file.
    File::open(&path).map_err(|source| ReadError::Open { file: stated.to_string(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = failure(stated);
    let connection = Connection::open_with_flags(&path, flags).map_err(&failed)?;
    connection.busy_timeout(PATIENCE).map_err(&failed)?;
    Ok(connection)
}

/// The statement, and the tables that it reads, however it reaches them.
fn prepare<'c>(stated: &Stated, connection: &'c Connection) -> Result<(Prepared<'c>, BTreeSet<String>), ReadError> {
    let refused = |problem: &str| ReadError::stated(stated.to_string(), problem);
    let text = match stated.chosen() {
        Some(Chosen::Table(name)) => format!("SELECT * FROM \"{}\"", name.replace('"', "\"\"")),
        Some(Chosen::Query(text)) => text.clone(),
        None => return Err(refused("neither a table nor a query is stated")),
    };
    let tables = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&tables);
    connection.authorizer(Some(move |context: AuthContext<'_>| allow(&context, &seen)));
    let statement = connection.prepare(&text).map_err(|error| {
        if matches!(error, Error::MultipleStatement) {
            refused("the query is more than one statement")
        } else if error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
            // Of a function SQLite says it in words alone.
            || error.to_string().starts_with("not authorized")
        {
            refused("the query does something else than reading tables")
        } else {
            failure(stated)(error)
        }
    })?;
    if statement.column_count() == 0 || !statement.readonly() {
        return Err(refused("the query gives no rows"));
    }
    let tables = tables.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((statement, tables))
}

/// Reading only; what is read is noted.
// What else a statement could do is an open set.
#[allow(clippy::wildcard_enum_match_arm)]
fn allow(context: &AuthContext<'_>, seen: &Mutex<BTreeSet<String>>) -> Authorization {
    match context.action {
        AuthAction::Read { table_name, .. } => {
            if !table_name.starts_with("sqlite_") {
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(table_name.to_ascii_lowercase());
            }
            Authorization::Allow
        }
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        AuthAction::Select | AuthAction::Function { .. } | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// The file by its inode, and in it the tables that are read: another query over one of them reads the same rows.
fn identity(stated: &Stated) -> Result<Identity, ReadError> {
    let path = path_of(stated);
    let connection = connect(stated)?;
    let (_, tables) = prepare(stated, &connection)?;
    let open = || ReadError::format(&stated.to_string(), "the file is gone");
    let known = file::identity(&path).ok_or_else(open)?;
    // What was committed last may stand beside the file.
    let mut log = path.into_os_string();
    log.push("-wal");
    let log = file::identity(Path::new(&log)).and_then(|log| log.stamp);
    let query = match stated.chosen() {
        Some(Chosen::Query(text)) => Digest::of(text.as_bytes()).to_string(),
        Some(Chosen::Table(_)) | None => String::new(),
    };
    let parts = tables.iter().map(|table| format!("sqlite {} table {table}", known.key)).collect();
    let tables: Vec<String> = tables.into_iter().collect();
    Ok(Identity {
        key: format!("sqlite {} tables {}", known.key, tables.join(", ")),
        parts,
        place: format!("{BEGINNING}{} tables {}", known.place, tables.join(", ")),
        stamp: Some(format!("{} {} {query}", known.stamp.unwrap_or_default(), log.unwrap_or_default())),
    })
}

// Codes of SQLite are an open set.
#[allow(clippy::wildcard_enum_match_arm)]
fn failure(stated: &Stated) -> impl Fn(Error) -> ReadError {
    let name = stated.to_string();
    move |error| {
        let busy = || ReadError::Unreachable {
            file: name.clone(),
            problem: format!("another process is writing to it, and was not done in {} s", PATIENCE.as_secs()),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(),
            Some(ErrorCode::NotADatabase) => ReadError::format(&name, "this is no SQLite file"),
            Some(ErrorCode::DatabaseCorrupt) => ReadError::format(&name, "the SQLite file is damaged"),
            _ => ReadError::format(&name, format!("SQLite refuses it ({})", said(&error))),
        }
    }
}

/// What SQLite says, without the query and without values of it: of one it may quote a sign or all from there on.
fn said(error: &Error) -> String {
    let Error::SqlInputError { msg, .. } = error else { return error.to_string() };
    let is_value = |quoted: &str| quoted.starts_with(|first: char| first.is_ascii_digit() || "'\".".contains(first));
    if msg.starts_with("unrecognized token") {
        return "a quote that is not closed, or a sign that SQL does not know".to_owned();
    }
    match msg.strip_prefix("near \"") {
        Some(quoted) if is_value(quoted) => "syntax error".to_owned(),
        _ => msg.clone(),
    }
}

fn stopped(name: &str) -> ReadError {
    ReadError::format(name, "reading stopped at an error before")
}

impl Table {
    /// Gets the next part; `false` after the last row.
    fn more(&mut self) -> Result<bool, ReadError> {
        if let Some(ask) = self.ask.take() {
            ask.send(self.picks.clone()).map_err(|_| stopped(&self.file))?;
        }
        (self.part, self.taken) = (Part::default(), 0);
        match self.said.recv() {
            Ok(Said::Rows(part)) => {
                self.part = part;
                Ok(true)
            }
            Ok(Said::End) => {
                self.ended = true;
                Ok(false)
            }
            Ok(Said::Failed(error)) => Err(error),
            Ok(Said::Columns(_)) | Err(_) => Err(stopped(&self.file)),
        }
    }
}

impl super::Table for Table {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        let Column { name, declared } = &self.columns[position];
        let fraction = ["REAL", "FLOA", "DOUB"].iter().any(|part| declared.contains(part));
        if id && fraction {
            return Err(ReadError::Type {
                file: self.file.clone(),
                column: name.clone(),
                found: "floating-point number".to_owned(),
                expected: "ids must be text or whole numbers",
            });
        }
        self.picks.push(position);
        Ok(())
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most && !self.ended {
            if self.taken == self.part.rows && !self.more()? {
                break;
            }
            let count = (self.part.rows - self.taken).min(most - rows.len());
            let (width, first, part) = (self.picks.len(), self.row + 1, &self.part);
            let start = self.taken * width;
            for (at, mut lane) in rows.lanes().enumerate() {
                let column = part.values[start..].iter().skip(at).step_by(width.max(1)).take(count);
                lane.fill(first, column.map(|value| part.cell(*value)))?;
            }
            rows.end(Place::Row(first), count)?;
            self.taken += count;
            self.row += count as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fedreg_common::data::{Frame, Values};
    use fedreg_common::exit::Exit;

    use super::super::tests::chain;
    use super::super::{Arrival, Batches, Request, content, header, identity as known, read};
    use super::*;

    const TABLES: &str = "
        CREATE TABLE visits (id TEXT PRIMARY KEY, age INTEGER, bmi REAL, smoker BOOLEAN, region TEXT, number INTEGER);
        INSERT INTO visits VALUES ('p1', 41, 22.5, 1, 'north', 9007199254740993), ('p2', NULL, 31.25, 0, '1', 7),
            ('p3', 55, NULL, NULL, NULL, 8);
        CREATE TABLE other (id INTEGER, x);
        INSERT INTO other VALUES (1, 0.5), (2, X'00ff');
        CREATE VIEW adults AS SELECT id, age FROM visits WHERE age > 17;";

    struct Base(tempfile::TempDir);

    impl Base {
        fn new() -> Base {
            let base = Base(tempfile::tempdir().unwrap());
            base.change(TABLES);
            base
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("cohort.db")
        }

        fn change(&self, sql: &str) {
            Connection::open(self.path()).unwrap().execute_batch(sql).unwrap();
        }

        fn at(&self, path: &Path, chosen: Chosen) -> Stated {
            Stated::new(format!("{BEGINNING}{}", path.display()), Some(chosen))
        }

        fn table(&self, name: &str) -> Stated {
            self.at(&self.path(), Chosen::Table(name.into()))
        }

        fn query(&self, text: &str) -> Stated {
            self.at(&self.path(), Chosen::Query(text.into()))
        }

        fn refused(&self, source: &Stated, request: &Request) -> (Exit, String) {
            let error = read(source, request).unwrap_err();
            (error.exit(), chain(&error).replace(&self.0.path().display().to_string(), "@"))
        }
    }

    fn numbers(frame: &Frame, name: &str) -> Vec<Option<f64>> {
        match &frame.column(name).unwrap().values {
            Values::Numeric(values) => values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn by(id: &str) -> Request {
        Request { id: Some(id.into()), ..Request::default() }
    }

    #[test]
    fn a_table_and_a_query_are_read_with_nulls_as_missing_and_ids_with_all_their_digits() {
        let base = Base::new();
        assert_eq!(header(base.table("visits"), None).unwrap(), ["id", "age", "bmi", "smoker", "region", "number"]);
        let frame = read(base.table("visits"), &by("id")).unwrap();
        assert_eq!(numbers(&frame, "age"), [Some(41.0), None, Some(55.0)]);
        assert_eq!(numbers(&frame, "bmi"), [Some(22.5), Some(31.25), None]);
        assert_eq!(frame.column("smoker").unwrap().values, Values::Boolean(vec![Some(true), Some(false), None]));
        let Values::Categorical { levels, .. } = &frame.column("region").unwrap().values else { panic!() };
        assert_eq!(levels, &["1", "north"]);
        assert!(frame.column("region").unwrap().values.is_missing(2));
        let ordered = base.query("SELECT number, age / 2.0 AS half FROM visits WHERE age > 0 ORDER BY age DESC");
        let frame = read(&ordered, &by("number")).unwrap();
        assert_eq!(numbers(&frame, "half"), [Some(27.5), Some(20.5)]);
        assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), [&b"8"[..], b"9007199254740993"]);
    }

    #[test]
    fn many_rows_come_in_batches_of_the_size_asked_for_and_a_table_that_is_let_go_ends() {
        let base = Base::new();
        let many = base.query(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) SELECT i, 'l' || (i % 3) AS l FROM n",
        );
        let request = Request {
            columns: Some(vec!["l".into(), "i".into()]),
            levels: [("l".to_owned(), ["l0", "l1", "l2"].map(String::from).to_vec())].into(),
            ..Request::default()
        };
        let mut batches = Batches::open(&many, &request, &Arrival::default()).unwrap();
        let (mut sizes, mut row) = (Vec::new(), 0.0);
        while let Some(frame) = batches.next(3000).unwrap() {
            sizes.push(frame.rows());
            for found in numbers(&frame, "i") {
                assert_eq!(found, Some(row));
                row += 1.0;
            }
        }
        assert_eq!(sizes, [3000, 3000, 3000, 1000]);
        let mut let_go = Batches::open(&many, &request, &Arrival::default()).unwrap();
        assert_eq!(let_go.next(10).unwrap().unwrap().rows(), 10);
        drop(let_go);
        drop(Opened::open(&many, None).unwrap());
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_a_sentence() {
        let base = Base::new();
        let all = Request::default();
        let stated = |place: String| Stated::new(place, Some(Chosen::Table("t".into())));
        let (exit, text) = base.refused(&stated(format!("sqlite:{}/none.db", base.0.path().display())), &all);
        assert!(exit == Exit::Data && text.starts_with("cannot open sqlite:@/none.db: "), "{text}");
        std::fs::write(base.0.path().join("text.db"), "x,y\n1,2\n".repeat(200)).unwrap();
        let (exit, text) = base.refused(&stated(format!("SQLite:{}/text.db", base.0.path().display())), &all);
        assert_eq!((exit, text.as_str()), (Exit::Data, "SQLite:@/text.db: this is no SQLite file"));
        let neither = Stated::new(format!("sqlite:{}", base.path().display()), None);
        let (exit, text) = base.refused(&neither, &all);
        assert!(exit == Exit::Usage && text.contains("`data.table` or `data.query`"), "{text}");
        let (exit, text) = base.refused(&Stated::from(&base.path()), &all);
        assert!(exit == Exit::Usage && text.contains("state it as sqlite:@/cohort.db"), "{text}");
        let (exit, text) = base.refused(&base.table("visit"), &all);
        assert!(exit == Exit::Data && text.contains("no such table: visit"), "{text}");
        let (exit, text) = base.refused(&base.table("other"), &all);
        assert!(exit == Exit::Data && text.contains("text (first `(BLOB)` at row 2)"), "{text}");
        let (exit, text) = base.refused(&base.table("visits"), &by("bmi"));
        assert!(exit == Exit::Data && text.contains("column `bmi` is of type floating-point number"), "{text}");
        let (exit, text) = base.refused(&base.query("SELECT id, id FROM visits"), &all);
        assert!(exit == Exit::Data && text.contains("the name `id` twice"), "{text}");
        let (exit, text) = base.refused(&base.query("SELECT age FROM visits WHERE age > 99"), &all);
        assert!(exit == Exit::Data && text.contains("there are no rows"), "{text}");
        let follow = Arrival { follow: true, ..Arrival::default() };
        assert_eq!(Batches::open(base.table("visits"), &all, &follow).unwrap_err().exit(), Exit::Usage);
        let csv = base.0.path().join("a.csv");
        std::fs::write(&csv, "x\n1\n").unwrap();
        let (exit, text) = base.refused(&Stated::new(csv, Some(Chosen::Table("t".into()))), &all);
        assert!(exit == Exit::Usage && text.contains("this is no data base"), "{text}");
    }

    #[test]
    fn a_query_that_sqlite_refuses_is_not_shown() {
        let base = Base::new();
        for (text, said) in [
            ("SELECT age FORM visits WHERE id = 'geheim'", "SQLite refuses it (near \"visits\": syntax error)"),
            ("SELECT weight FROM visits WHERE id = 'geheim'", "SQLite refuses it (no such column: weight)"),
            ("SELECT age FROM visits WHERE id = 'x' 'geheim'", "SQLite refuses it (syntax error)"),
            (
                "SELECT age FROM visits WHERE id = 'geheim",
                "SQLite refuses it (a quote that is not closed, or a sign that SQL does not know)",
            ),
        ] {
            let (exit, sentence) = base.refused(&base.query(text), &Request::default());
            assert_eq!((exit, sentence), (Exit::Data, format!("sqlite:@/cohort.db: {said}")), "{text}");
            assert!(known(&base.query(text)).is_err_and(|error| !chain(&error).contains("geheim")), "{text}");
        }
    }

    #[test]
    fn a_query_may_read_and_do_nothing_else() {
        let base = Base::new();
        let before = std::fs::read(base.path()).unwrap();
        for text in [
            "DELETE FROM visits RETURNING id",
            "UPDATE visits SET age = 1 RETURNING age",
            "INSERT INTO other VALUES (3, 4) RETURNING id",
            "DROP TABLE visits",
            "ATTACH DATABASE ':memory:' AS more",
            "PRAGMA journal_mode = WAL",
            "BEGIN",
            "SELECT load_extension('x')",
            "SELECT age FROM visits; SELECT id FROM visits",
            "",
            "-- nothing",
        ] {
            let (exit, sentence) = base.refused(&base.query(text), &Request::default());
            assert_eq!(exit, Exit::Usage, "{text}: {sentence}");
        }
        assert_eq!(std::fs::read(base.path()).unwrap(), before);
        assert!(read(base.query("SELECT age FROM visits; -- and no more"), &Request::default()).is_ok());
    }

    #[test]
    fn sources_that_read_one_table_have_it_in_common_however_they_are_stated() {
        let base = Base::new();
        let of = |source: &Stated| known(source).unwrap().unwrap();
        let table = of(&base.table("visits"));
        let shared = |source: &Stated| of(source).parts.iter().any(|part| table.parts.contains(part));
        for text in [
            "SELECT bmi FROM VISITS",
            "SELECT age FROM adults",
            "SELECT o.x, v.age FROM other o JOIN visits v ON v.number = o.id",
            "WITH a AS (SELECT * FROM visits) SELECT count(*) AS n FROM a",
            "SELECT x FROM other WHERE id IN (SELECT number FROM visits)",
        ] {
            assert!(shared(&base.query(text)), "{text}");
        }
        assert!(!shared(&base.table("other")));
        let link = base.0.path().join("link.db");
        std::fs::hard_link(base.path(), &link).unwrap();
        assert!(shared(&base.at(&link, Chosen::Table("visits".into()))));
        // Another query is looked at again, and so is a table that was changed.
        let stamp = |text: &str| of(&base.query(text)).stamp;
        let narrow = stamp("SELECT age FROM visits WHERE age > 50");
        assert_ne!(narrow, stamp("SELECT age FROM visits"));
        base.change("UPDATE visits SET age = 60 WHERE id = 'p3'");
        assert_ne!(narrow, stamp("SELECT age FROM visits WHERE age > 50"));
        // No text of a query stands in what is kept.
        let identity = of(&base.query("SELECT age FROM visits WHERE region = 'north'"));
        assert!(!format!("{identity:?}").contains("north"));
    }

    #[test]
    fn rows_are_known_again_in_a_file_of_another_format() {
        let base = Base::new();
        let csv = base.0.path().join("visits.csv");
        let text = "id,age,bmi,smoker,region\np2,,31.25,false,1\np1,41,22.5,true,north\np3,55,NA,,\n";
        std::fs::write(&csv, text).unwrap();
        let rows = |source: Stated| content::digests(&source, None, None).unwrap();
        let query = base.query("SELECT bmi, id, age, smoker, region FROM visits");
        // Text is text in a data base: `1` is a number in CSV and a level there, and both are compared as written.
        assert_eq!(rows(query), rows(Stated::from(&csv)));
    }

    #[test]
    fn a_file_that_is_locked_is_waited_for_and_rows_are_those_of_one_moment() {
        let base = Base::new();
        base.change("PRAGMA journal_mode = WAL");
        let many = base.query("SELECT a.number FROM visits a, visits b, visits c, visits d, visits e, visits f, visits g, visits h, visits i");
        let mut batches = Batches::open(&many, &Request::default(), &Arrival::default()).unwrap();
        let mut rows = batches.next(10).unwrap().unwrap().rows();
        base.change("DELETE FROM visits");
        while let Some(frame) = batches.next(5000).unwrap() {
            rows += frame.rows();
        }
        assert_eq!(rows, 3usize.pow(9));
    }
}
