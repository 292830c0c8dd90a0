//! The edge of fedreg: wire schema, mutual TLS, certificates, and the shell of its programs.
//!
//! Protocol decisions live in `fedreg-common`; this crate only moves messages and says who sent them.

// A new mode, method or role must not fall into an arm that was written before it.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod certs;
pub mod certs_cli;
pub mod codec;
pub mod convert;
pub mod coordinator;
pub mod dealer;
pub mod files;
pub mod health;
pub mod limits;
pub mod line;
pub mod link;
pub mod merge;
pub mod output;
pub mod port;
pub mod register;
pub mod shell;
pub mod star;
pub mod status;
mod talk;
pub mod telemetry;
pub mod tls;
pub mod wizard;

/// A future that is compiled here, once; the body of an `async fn` is compiled again in each crate that awaits it, with all that it calls.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Messages and services generated from `fedreg/v1`, where the file stands beside its schema: a build needs no compiler of schemas. The
/// test `schema` of `fedreg-tests` says how it is made again.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod wire {
    include!("../fedreg/v1/generated.rs");
}
