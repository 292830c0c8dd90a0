//! PostgreSQL: all of a table, or what a query gives, of one moment.
//!
//! A process that reads a data base holds one transaction, REPEATABLE READ and READ ONLY, for as long as it lives; every reading takes
//! part in its snapshot on a connection of its own, so that all passes see the same rows. Rows come by COPY in binary form.

#[cfg(feature = "postgres")]
mod base;
#[cfg(feature = "postgres")]
mod copy;
#[cfg(feature = "postgres")]
mod dsn;
#[cfg(feature = "postgres")]
#[cfg(test)]
mod tests;
#[cfg(feature = "postgres")]
mod tls;

use std::path::Path;

#[cfg(not(feature = "postgres"))]
use super::ReadError;
use super::{Origin, Statement};

const BEGINNINGS: [&str; 2] = ["postgres://", "postgresql://"];

/// `postgres://USER@HOST:PORT/DATABASE`.
#[cfg(feature = "postgres")]
pub(super) const ORIGIN: Origin =
    Origin { takes, statement: Statement::Base, identity: |stated| base::identity(stated).map(Some), open: copy::open };

/// The same of a program that was built without it.
#[cfg(not(feature = "postgres"))]
pub(super) const ORIGIN: Origin = Origin {
    takes,
    statement: Statement::Base,
    identity: |stated| Err(left_out(stated.to_string())),
    open: |stated, _| Err(left_out(stated.to_string())),
};

fn takes(place: &Path) -> bool {
    BEGINNINGS.iter().any(|beginning| super::after(place, beginning).is_some())
}

#[cfg(not(feature = "postgres"))]
fn left_out(name: String) -> ReadError {
    ReadError::stated(name, "this program was built without PostgreSQL: build it with `--features postgres`")
}
