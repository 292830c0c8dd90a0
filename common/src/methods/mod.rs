//! The methods, each in a folder of its own with the same rooms.
//!
//! | room | what stands in it |
//! | --- | --- |
//! | `terms` | what a study file says of the method, checked |
//! | `plan` | the releases of a private run, and what they cost |
//! | `forecast` | the error to expect of a private run, from public facts alone |
//! | `hub`, `site` | the two ends of a method between sites |
//! | `session`, `predict` | the conversation of a method between two parties |
//! | `report` | the method's own sections of a report |
//!
//! What else stands in a folder is the method's arithmetic. [`registry`] is the only list of methods.

pub mod em;
pub mod features;
pub mod registry;
pub mod robust;
pub mod stream;
pub mod vertical;
