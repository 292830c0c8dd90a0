//! End-to-end tests; one binary, so that linking stays cheap.

mod protocol;
mod vertical;
