//! Shared by the end-to-end tests: worlds, processes and oracle vectors.
