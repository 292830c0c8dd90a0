//! Many sites around one hub: the conversation of every horizontal method, as values that are fed messages.
//!
//! A site says what it has to contribute in numbered pieces and hears what became of each; the hub keeps what came, and in
//! the end tells every site the outcome. What a piece means is the method's affair ([`method`] at the hub, [`site::local`] at a
//! site): the rest is the same for batches of a robust regression, rounds of an iteration and records of a stream.
//!
//! - Every contribution carries the study's digest, the run and its number. The hub takes them in order, acknowledges one only
//!   when it is durable, and counts a repeat once. A site sends again what was not acknowledged, with the same bits.
//! - What is malformed, foreign or contradicts an earlier piece is rejected and named in the report, and the run goes on.
//! - A study in rounds and every private one begin when the quorum of sites is ready: until then nothing is asked of anybody, as it could
//!   cost a site budget for nothing.
//! - The run ends when nothing more can come, or at the study's deadline. Below the quorum there is no result.
//!
//! No socket, no clock, no thread: [`hub`] and [`site`] run under gRPC, under the simulated network and in unit tests, with
//! the same bits.

pub mod hub;
pub mod message;
pub mod method;
pub mod site;

#[cfg(test)]
mod tests;
