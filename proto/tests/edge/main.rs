//! The edge from outside: certificates made, files loaded, peers accepted and refused on loopback, messages passed.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
// Tables of a setter and a name read better in place than behind an alias.
#![allow(clippy::type_complexity)]

mod attack;
mod coordinator;
mod crowd;
mod dealer;
mod frames;
mod identity;
mod line;
mod matching;
mod merge;
mod mutual_tls;
mod office;
mod say;
mod sealed;
mod spoiled;
mod star;
