//! What may leave a party, and at what price.

pub mod release;
