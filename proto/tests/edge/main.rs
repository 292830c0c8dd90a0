//! The edge from outside: certificates made, files loaded, peers accepted and refused on loopback, messages passed.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod coordinator;
mod frames;
mod identity;
mod line;
mod mutual_tls;
mod office;
mod say;
