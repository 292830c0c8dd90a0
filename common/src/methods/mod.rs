//! The methods, each in a folder of its own with the same rooms.
//!
//! | room | after | what stands in it |
//! | --- | --- | --- |
//! | `arithmetic` | `session` | every file that no other row names: the method as numbers |
//! | `plan` | `session` | the releases of a private run, and what they cost |
//! | `forecast` | `session` | the error to expect of a private run, from public facts alone |
//! | `terms` | `terms` | what a study file says of the method, checked, and what the method says of itself to all others |
//! | `report` | `report` | the method's own sections of a report |
//! | `hub` | `star` | the coordinator's end of a method between sites |
//! | `site` | `star` | a site's end of it |
//! | `session`, `across`, `agree`, `exchange`, `fits`, `followers`, `linked`, `masked`, `matching`, `message`, `names`, `outcome`, `pair`, `predict`, `prepare`, `private`, `products`, `refit`, `sealed`, `several` | `star` | the conversations of a method between parties |
//! | `registry` | `star` | which hub and which site a study asks for |
//!
//! A room stands after the module of [the crate](crate) that the table names, and after the rooms above it; the test `imports` reads the
//! table. So [`crate::study`] knows the terms of every method, and what two ends say knows the study, but no method knows another's ends,
//! and no arithmetic knows what a study is.

pub mod em;
pub mod features;
pub mod registry;
pub mod robust;
pub mod stream;
pub mod vertical;
