//! The pure core of fedreg: data model, numerics, protocol state machines, privacy and reports.
//!
//! Nothing here opens a socket or a file, looks at a clock or starts a thread of its own. Messages, deadlines and
//! randomness go in, results come out. The modules stand in the order in which data flows.

pub mod bounded;
pub mod conversation;
pub mod data;
pub mod em;
pub mod exit;
pub mod features;
pub mod fit;
pub mod glm;
pub mod id;
pub mod linalg;
pub mod privacy;
pub mod report;
pub mod robust;
pub mod session;
pub mod sim;
pub mod star;
pub mod stream;
pub mod study;
pub mod vertical;
