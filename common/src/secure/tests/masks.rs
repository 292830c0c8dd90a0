//! The streams against an AES in Python.

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Names, hex, width};
use crate::secure::masks::{Labels, Mask, Purpose};
use crate::secure::ring::Width;

#[derive(Deserialize)]
struct File {
    #[serde(flatten)]
    names: Names,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    purpose: String,
    index: u64,
    words: usize,
    block: usize,
    count: usize,
    bytes: Option<String>,
    replaced: Vec<(usize, usize)>,
    sha256: String,
}

fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/secure/masks.json")).unwrap()
}

fn mask(names: &Names, purpose: Purpose, index: u64, width: Width) -> Mask {
    let mut labels = Labels::new(names.study(), names.run());
    for _ in 0..index {
        labels.take(purpose);
    }
    labels.take(purpose).expand(&names.left(), width)
}

const PURPOSES: [Purpose; 4] = [Purpose::TableLeft, Purpose::TableRight, Purpose::TableShare, Purpose::Canary];

#[test]
fn streams_are_those_of_the_vectors() {
    let file = file();
    for case in &file.cases {
        let purpose = PURPOSES.into_iter().find(|purpose| purpose.name() == case.purpose).unwrap();
        let elements = mask(&file.names, purpose, case.index, width(case.words)).block(case.block, case.count);
        assert!(case.bytes.iter().all(|bytes| *bytes == hex(&elements)), "{}", case.purpose);
        let digest: String = Sha256::digest(elements.to_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, case.sha256, "{} {}", case.purpose, case.index);
    }
    // Both halves, and more than one in one of them, so that the order of the tail counts.
    let halves: Vec<usize> = file.cases.iter().flat_map(|case| &case.replaced).map(|(half, _)| *half).collect();
    assert!(halves.contains(&0) && halves.iter().filter(|half| **half == 1).count() > 1);
}

#[test]
fn every_name_in_the_key_makes_another_stream() {
    let names = file().names;
    let first = |labels: &mut Labels, purpose| labels.take(purpose).expand(&names.left(), Width::One).block(0, 4);
    let mut seen = Vec::new();
    for purpose in PURPOSES {
        let mut labels = Labels::new(names.study(), names.run());
        seen.push(first(&mut labels, purpose));
        seen.push(first(&mut labels, purpose));
    }
    let (mut study, mut run) = (names.study(), names.run());
    study.0[31] ^= 1;
    run.0[0] ^= 1;
    seen.push(first(&mut Labels::new(study, names.run()), Purpose::Canary));
    seen.push(first(&mut Labels::new(names.study(), run), Purpose::Canary));
    let mut labels = Labels::new(names.study(), names.run());
    let canary = labels.take(Purpose::Canary);
    let public = canary.publish(Width::One);
    seen.extend([public.block(0, 4), public.block(1, 4), public.block(1 << 33, 4)]);
    for (at, elements) in seen.iter().enumerate() {
        assert!(seen[..at].iter().all(|earlier| earlier != elements), "stream {at}");
    }
}

#[test]
fn the_words_of_an_element_are_independent_and_blocks_do_not_depend_on_their_length() {
    let names = file().names;
    let mask = mask(&names, Purpose::TableLeft, 0, Width::Two);
    let (long, short) = (mask.block(0, 2000), mask.block(0, 7));
    assert_ne!(long.half(0)[..7], long.half(1)[..7]);
    assert_eq!(long.half(0)[..7], short.half(0)[..7]);
    assert_eq!(long.half(1)[..7], short.half(1)[..7]);
    assert_eq!(mask.block(0, 0).count(), 0);
}

#[test]
fn residues_are_uniform() {
    let names = file().names;
    let mask = mask(&names, Purpose::TableLeft, 0, Width::Two);
    let mut counts = vec![[0_u32; 64]; 6];
    let (blocks, each) = (8, 25_000);
    for block in 0..blocks {
        let elements = mask.block(block, each);
        for (at, prime) in Width::Two.primes().iter().enumerate() {
            let mut residues = Vec::new();
            elements.residues(at, each, &mut residues);
            residues.iter().for_each(|residue| counts[at][(residue * 64.0 / *prime as f64) as usize] += 1);
        }
    }
    let expected = (blocks * each) as f64 / 64.0;
    for counts in counts {
        let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // 63 degrees of freedom: 130 has a probability of 1e-6, and the seed is fixed.
        assert!(chi < 130.0, "{chi}");
    }
}
