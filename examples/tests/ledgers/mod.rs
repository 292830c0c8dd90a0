//! Ledgers of running processes, seen and held from outside with an ordinary SQLite connection.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// Makes a process hang for ever when it is about to do something with its ledger, and does not touch any record.
pub(crate) fn hold(ledger: &Path, event: &str) {
    count(ledger, event, "");
}

/// The same for a second or more, after which it goes on.
pub(crate) fn delay(ledger: &Path, event: &str) {
    count(ledger, event, "LIMIT 8000000");
}

fn count(ledger: &Path, event: &str, limit: &str) {
    let tool = Connection::open(ledger).unwrap();
    let script = format!(
        "CREATE VIEW forever AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c {limit}) SELECT x FROM c;
         CREATE TRIGGER hold BEFORE INSERT ON {event} BEGIN SELECT count(*) FROM forever; END;"
    );
    tool.execute_batch(&script).unwrap();
}

pub(crate) fn let_go(ledger: &Path) {
    Connection::open(ledger).unwrap().execute_batch("DROP TRIGGER hold; DROP VIEW forever;").unwrap();
}

/// Bodies of the ledger's records; none while it cannot be read.
pub(crate) fn records(ledger: &Path) -> Vec<String> {
    let read = || -> rusqlite::Result<Vec<String>> {
        // A process that was killed while it wrote leaves a journal, which a reader that may not write cannot roll back.
        let tool = Connection::open_with_flags(ledger, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut statement = tool.prepare("SELECT body FROM records ORDER BY sequence")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    read().unwrap_or_default()
}

pub(crate) fn stored(ledger: &Path, like: &str) -> Vec<(String, Vec<u8>)> {
    let tool = Connection::open(ledger).unwrap();
    let mut statement = tool.prepare("SELECT name, content FROM bytes WHERE name LIKE ?1 ORDER BY name").unwrap();
    statement.query_map([like], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}
