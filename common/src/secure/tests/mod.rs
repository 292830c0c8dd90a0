//! Facts of the ring, the masks and the products, against integers of another implementation, and whole fits.
//!
//! The vectors are those of `tests/vectors/make/secure.py`.

mod dealing;
mod gaussian;
mod glm;
mod limits;
mod masks;
mod received;
mod ring;
mod several;
mod table;
pub(crate) mod uniform;
mod vector;

use std::str::FromStr;

use serde::Deserialize;

use super::masks::Seed;
use super::ring::{Elements, Width};
use crate::id::{Digest, RunId};

/// The names under which the vectors were made.
#[derive(Deserialize)]
struct Names {
    study: String,
    run: String,
    seeds: Seeds,
}

#[derive(Deserialize)]
struct Seeds {
    left: String,
    right: String,
}

impl Names {
    fn study(&self) -> Digest {
        Digest(bytes(&self.study).try_into().unwrap())
    }

    fn run(&self) -> RunId {
        RunId::from_str(&self.run).unwrap()
    }

    fn left(&self) -> Seed {
        Seed::new(bytes(&self.seeds.left).try_into().unwrap())
    }

    fn right(&self) -> Seed {
        Seed::new(bytes(&self.seeds.right).try_into().unwrap())
    }
}

fn width(words: usize) -> Width {
    [Width::One, Width::Two][words - 1]
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn hex(elements: &Elements) -> String {
    elements.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
