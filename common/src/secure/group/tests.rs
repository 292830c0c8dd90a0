use serde_json::Value;

use super::*;
use crate::data::matching::{Cells, Key, Keys, Kind, Reading, Records, Source};
use crate::id::Digest;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/vectors/matching/rfc.json")).unwrap()
}

fn bytes<const N: usize>(hex: &Value) -> [u8; N] {
    let hex = hex.as_str().unwrap();
    assert_eq!(hex.len(), 2 * N);
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list<'a>(vectors: &'a Value, name: &str) -> &'a Vec<Value> {
    vectors[name].as_array().unwrap()
}

/// A scalar as it stands in a vector.
fn scalar(of: [u8; 32]) -> Scalar {
    Scalar(curve25519_dalek::Scalar::from_canonical_bytes(of).unwrap().div_by_2())
}

fn context() -> TagContext {
    TagContext::new(&RunId([9; 16]), "name")
}

#[test]
fn elements_of_rfc_9496_are_taken_and_what_it_refuses_is_refused_with_its_position() {
    let vectors = vectors();
    let good: Vec<Element> = list(&vectors, "multiples_rfc9496_a1").iter().map(bytes).collect();
    let one = scalar(std::array::from_fn(|at| u8::from(at == 0)));
    let tags = one.tags(&good, &context()).unwrap();
    assert_eq!(tags, good.iter().map(|element| context().tag(element)).collect::<Vec<Tag>>());
    // Multiples of the generator are what they are: the scalar is neither halved nor doubled.
    for factor in 2..=15_usize {
        let scalar = scalar(std::array::from_fn(|at| if at == 0 { factor as u8 } else { 0 }));
        assert_eq!(scalar.tags(&good[..1], &context()).unwrap(), [context().tag(&good[factor - 1])]);
    }
    let refused = list(&vectors, "refused_rfc9496_a2").iter().map(bytes).chain([[0; 32]]);
    for (number, bad) in refused.enumerate() {
        // Behind the first batch too.
        let mut elements: Vec<Element> = (0..600).map(|at| good[at % good.len()]).collect();
        elements[300 + number] = bad;
        assert_eq!(one.tags(&elements, &context()), Err(300 + number), "{}", hex(&bad));
    }
}

#[test]
fn hashing_agrees_with_rfc_9496_9380_and_9497() {
    let vectors = vectors();
    for case in list(&vectors, "map_rfc9496_a3") {
        let element = RistrettoPoint::from_uniform_bytes(&bytes(&case[0]));
        assert_eq!(element.compress().to_bytes(), bytes(&case[1]));
    }
    for case in list(&vectors, "xmd_sha512_rfc9380_k3") {
        let (message, dst) = (case[0].as_str().unwrap().as_bytes(), b"QUUX-V01-CS02-with-expander-SHA512-256");
        match case[1].as_u64().unwrap() {
            32 => assert_eq!(expand::<32>(message, dst), bytes(&case[2])),
            length => {
                assert_eq!(length, 128);
                assert_eq!(expand::<128>(message, dst), bytes(&case[2]));
            }
        }
    }
    let oprf = &vectors["oprf_rfc9497_a1_1"];
    let of = |name: &str| curve25519_dalek::Scalar::from_canonical_bytes(bytes(&oprf[name])).unwrap();
    for case in oprf["cases"].as_array().unwrap() {
        let input = case[0].as_str().unwrap();
        let input: Vec<u8> =
            (0..input.len() / 2).map(|at| u8::from_str_radix(&input[2 * at..2 * at + 2], 16).unwrap()).collect();
        let blinded = of("blind") * hash(&input, b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512");
        assert_eq!(blinded.compress().to_bytes(), bytes(&case[1]));
        assert_eq!((of("key") * blinded).compress().to_bytes(), bytes(&case[2]));
    }
}

/// The key of a vector as a record's message, in a match whose digest is 32 times 3.
fn message(parts: &[Value]) -> Vec<u8> {
    let parts: Vec<&str> = parts.iter().map(|part| part.as_str().unwrap()).collect();
    let keys: Vec<Key> = (0..parts.len())
        .map(|at| Key {
            name: format!("k{at}"),
            kind: Kind::Code { levels: vec![parts[at].to_owned(), "-".to_owned()] },
        })
        .collect();
    let names = keys.iter().map(|key| key.name.clone()).collect();
    let keys = Keys::new(keys, &[("name".to_owned(), names)]).unwrap();
    let columns = parts.iter().map(|part| {
        let mut cells = Cells::default();
        cells.push(part.as_bytes());
        let source = Source { column: "c".to_owned(), reading: Reading::Text, missing: Default::default() };
        (source, cells)
    });
    let records = Records::normalise(&keys, columns.collect()).unwrap();
    let mut message = Vec::new();
    records.messages(&keys.passes()[0], &Digest([3; 32])).write(0, &mut message);
    message
}

#[test]
fn messages_masks_and_tags_agree_with_the_vectors_of_the_specification() {
    let wide = |who: &str| -> [u8; 64] { Sha512::digest(format!("fedreg match test {who}")).into() };
    let (alice, bob) = (Scalar::from_wide(&wide("alice")).unwrap(), Scalar::from_wide(&wide("bob")).unwrap());
    let mut seen = 0;
    for line in include_str!("../../../../tests/vectors/matching/vectors.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let parts = case["parts"].as_array().unwrap();
        let expected = case["message"].as_str().unwrap();
        let length = expected.len() / 2;
        let stated: Vec<u8> =
            (0..length).map(|at| u8::from_str_radix(&expected[2 * at..2 * at + 2], 16).unwrap()).collect();
        // A record without a value takes part in no pass: the vector with an empty part is one of the encoding alone.
        if parts.iter().all(|part| !part.as_str().unwrap().is_empty()) {
            assert_eq!(hex(&message(parts)), expected);
        }
        assert_eq!(hash(&stated, DST).compress().to_bytes(), bytes(&case["element"]));
        let mut masked = [([0; 32], ())];
        alice.mask(&mut masked, |(), message| message.extend_from_slice(&stated));
        assert_eq!(masked[0].0, bytes(&case["masked_a"]));
        assert_eq!(bob.tags(&[masked[0].0], &context()).unwrap(), [bytes(&case["tag"])]);
        let mut masked = [([0; 32], ())];
        bob.mask(&mut masked, |(), message| message.extend_from_slice(&stated));
        assert_eq!(alice.tags(&[masked[0].0], &context()).unwrap(), [bytes(&case["tag"])]);
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn scalars_differ_between_runs_passes_and_secrets_and_return_for_the_same() {
    let masked = |secret: u8, run: u8, pass: u32| {
        let mut items = [([0; 32], ())];
        let scalar = Scalar::derive(&[secret; 32], &RunId([run; 16]), pass).unwrap();
        scalar.mask(&mut items, |(), message| message.push(1));
        items[0].0
    };
    let all = [masked(1, 1, 0), masked(1, 1, 1), masked(1, 2, 0), masked(2, 1, 0)];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one));
    }
    assert_eq!(masked(1, 1, 0), all[0]);
}

#[test]
fn lists_of_every_length_are_masked_alike_on_any_number_of_threads() {
    let scalar = Scalar::derive(&[1; 32], &RunId([1; 16]), 0).unwrap();
    let write = |number: &u32, message: &mut Vec<u8>| message.extend_from_slice(&number.to_le_bytes());
    let mut all: Vec<(Element, u32)> = (0..700).map(|number| ([0; 32], number)).collect();
    scalar.mask(&mut all, write);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for length in [0, 1, 255, 256, 257, 700] {
        let mut some: Vec<(Element, u32)> = (0..length).map(|number| ([0; 32], number)).collect();
        pool.install(|| scalar.mask(&mut some, write));
        assert_eq!(some, all[..length as usize]);
    }
}

#[test]
fn a_scalar_prints_nothing() {
    assert_eq!(format!("{:?}", Scalar::derive(&[1; 32], &RunId([1; 16]), 0).unwrap()), "Scalar");
}
