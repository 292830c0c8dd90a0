//! End-to-end tests; one binary, so that linking stays cheap.

mod accountants;
mod imports;
mod protocol;
mod sandwich;
mod sealed;
mod several;
mod several_sealed;
mod vertical;
mod vertical_rounds;
mod words;
