//! Privacy at the boundary of a party: public bounds, calibrated noise, an exact account, and a ledger.
//!
//! # Definition
//!
//! Protected is one person's row in *this party's* block: two data sets are neighbours when one row is replaced by
//! another. Anyone who sees everything that a party ever released about a data set learns at most (epsilon, delta) about
//! any row of it, for the lifetime of the data set and over all peers together. A person with a row in both blocks of a
//! vertical study has [`accountant::joint_sum`] of the two sums towards anyone who sees the merged result.
//!
//! Not protected: that a person is in the data, the matched identifiers, the number of rows, column names and public
//! bounds, an outcome that the parties share, time and power that a machine uses, and the party's own administrators.
//!
//! # The path of a value
//!
//! ```text
//! bounds (public) -> Clipped..          only the clipping constructors make one; the bound is in the type
//! Clipped.. -> Query                    the value on an exact grid, its sensitivity beside the formula
//! Ledger::reserve(plan)                 the budget of the whole protocol, written and synced first
//! Ledger::permit -> Permit              one per release, consumed by it
//! mechanism::release(query, permit)     noise on a lattice; the result cannot be read or sent
//! Ledger::store -> NoisedRelease        the bytes are on disk; only now they may leave, and a repeat sends the same
//! Released::noised                      a message, beside the declared disclosures of plain mode
//! ```

pub mod accountant;
pub mod bounds;
pub mod caution;
pub mod ledger;
pub mod mechanism;
pub mod openings;
pub mod release;
pub mod sampler;
