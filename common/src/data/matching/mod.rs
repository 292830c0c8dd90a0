//! Which rows two parties both have, found without showing those that only one has.

pub mod alignment;
pub mod linked;
