//! A simulated network: sessions in one process, and lines that lose, repeat, delay and reorder what they carry.
//!
//! A session cannot tell the simulation from the real line. That is the point: what holds here over thousands of random
//! runs, such as that a lossy line gives the same bits as a clean one, holds for the same code under gRPC.

pub mod dealer;
pub mod merger;
pub mod pair;
pub mod several;
