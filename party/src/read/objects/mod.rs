//! Objects in a store that speaks S3: Parquet and CSV, compressed or not, without a copy on this machine.

#[cfg(feature = "s3")]
mod store;
#[cfg(feature = "s3")]
#[cfg(test)]
mod tests;

use std::path::Path;

#[cfg(not(feature = "s3"))]
use super::ReadError;
use super::{Origin, Statement};

const BEGINNING: &str = "s3://";

/// `s3://BUCKET/KEY`.
#[cfg(feature = "s3")]
pub(super) const ORIGIN: Origin = Origin {
    takes,
    statement: Statement::Table,
    identity: |stated| store::identity(stated).map(Some),
    open: store::open,
};

/// The same of a program that was built without it.
#[cfg(not(feature = "s3"))]
pub(super) const ORIGIN: Origin = Origin {
    takes,
    statement: Statement::Table,
    identity: |stated| Err(left_out(stated.to_string())),
    open: |stated, _| Err(left_out(stated.to_string())),
};

fn takes(place: &Path) -> bool {
    super::after(place, BEGINNING).is_some()
}

#[cfg(not(feature = "s3"))]
fn left_out(name: String) -> ReadError {
    ReadError::stated(name, "this program was built without S3: build it with `--features s3`")
}
