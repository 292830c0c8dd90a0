use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Made with the modules `hmac` and `hashlib` of Python 3.12.
#[test]
fn key_tags_and_dummies_are_those_that_python_makes() {
    let run = RunId([9; 16]);
    let draws: [[u8; 32]; 2] = [std::array::from_fn(|at| at as u8), std::array::from_fn(|at| 32 + at as u8)];
    let key = MergeKey::derive(&run, &draws[0], &draws[1]);
    assert_eq!(hex(&key.0[..]), "ea27d686a3572f9545058f09c6b17da2d3edcbe09f5b7821cc50d3ee2c871fec");
    let mut prefix = Vec::new();
    for field in [b"fedreg match key".as_slice(), &[3; 32], b"name"] {
        prefix.extend_from_slice(&(field.len() as u64).to_le_bytes());
        prefix.extend_from_slice(field);
    }
    prefix.extend_from_slice(&1_u64.to_le_bytes());
    let rest = [11_u64.to_le_bytes().as_slice(), b"12345678901"].concat();
    assert_eq!(hex(&key.tagger(&prefix).tag(&rest)), "7b370c22e9708a0c71649d311732e97b");
    let dummy = |which, number: usize| hex(&key.dummies(which, "name")[number]);
    assert_eq!(dummy(Dummies::Shared, 0), "5b52873d2feae93d1729689587a45948");
    assert_eq!(dummy(Dummies::Shared, 63), "c41afec20fbe7074e16fc2a6a71c9972");
    assert_eq!(dummy(Dummies::Of(Role::Alice), 0), "23aef9a4763ae3025064da7218df4e24");
    assert_eq!(dummy(Dummies::Of(Role::Bob), 63), "edbda990d2a34649ef3291e8d4beec23");
    let draw = MergeKey::draw(&[5; 32], &run);
    assert_eq!(hex(&draw), "62742cd6056e231cb3511e37272385b5f8f76211616ffae222fe86ed96d415c2");
}

/// Against the crate `hmac`, with beginnings and ends around the lengths at which blocks are full.
#[test]
fn tags_are_hmacs_of_messages_of_any_length() {
    let key = MergeKey::derive(&RunId([1; 16]), &[2; 32], &[3; 32]);
    let bytes: Vec<u8> = (0..255).collect();
    for begins in [0, 1, 30, 55, 56, 63, 64, 65, 82, 127, 128] {
        let tagger = key.tagger(&bytes[..begins]);
        for ends in 0..140 {
            let rest = &bytes[bytes.len() - ends..];
            let mut mac = keyed(&key.0[..]);
            mac.update(&bytes[..begins]);
            mac.update(rest);
            assert_eq!(tagger.tag(rest), mac.finalize().into_bytes()[..TAG_BYTES], "{begins} {ends}");
        }
    }
}

#[test]
fn every_pass_and_every_list_has_dummies_of_its_own() {
    let key = MergeKey::derive(&RunId([1; 16]), &[2; 32], &[3; 32]);
    let mut all = BTreeSet::new();
    for pass in ["a", "b"] {
        for which in [Dummies::Shared, Dummies::Of(Role::Alice), Dummies::Of(Role::Bob)] {
            all.extend(key.dummies(which, pass));
        }
    }
    assert_eq!(all.len(), 2 * 3 * 64);
    assert!(!format!("{key:?}").contains(|letter: char| letter.is_ascii_digit()));
}

fn tag(number: u16) -> Tag {
    let mut tag = [0; TAG_BYTES];
    tag[..2].copy_from_slice(&number.to_be_bytes());
    tag
}

/// Merges lists that come in parts of these lengths, in turn.
fn merged(lists: [&[Tag]; 2], lengths: &[usize]) -> Vec<[u32; 2]> {
    let (mut merge, mut found) = (Merge::new(lists.map(|list| list.len() as u64)).unwrap(), Vec::new());
    let mut lengths = lengths.iter().cycle();
    let mut rest = lists;
    while let Some(side) = merge.wants() {
        let (part, later) = rest[side].split_at((*lengths.next().unwrap()).min(rest[side].len()));
        rest[side] = later;
        merge.take(side, part.to_vec(), &mut found).unwrap();
    }
    assert_eq!(merge.passed(), lists.iter().map(|list| list.len() as u64).sum::<u64>());
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(14), ..ProptestConfig::default() })]

    #[test]
    fn a_merge_finds_what_both_lists_have_however_they_are_cut(
        a in prop::collection::btree_set(0..300_u16, 0..60), b in prop::collection::btree_set(0..300_u16, 0..60),
        lengths in prop::collection::vec(1..9_usize, 1..7)
    ) {
        let lists = [&a, &b].map(|set| set.iter().map(|number| tag(*number)).collect::<Vec<Tag>>());
        let place = |set: &BTreeSet<u16>, number| set.iter().position(|other| *other == number).unwrap() as u32;
        let expected: Vec<[u32; 2]> =
            a.intersection(&b).map(|number| [place(&a, *number), place(&b, *number)]).collect();
        prop_assert_eq!(merged([&lists[0], &lists[1]], &lengths), expected);
    }
}

#[test]
fn parts_that_do_not_belong_to_an_ascending_list_are_refused() {
    let take = |size: u64, parts: &[&[u16]]| {
        let (mut merge, mut found) = (Merge::new([size, 1]).unwrap(), Vec::new());
        let mut last = Ok(());
        for part in parts {
            last = merge.take(0, part.iter().map(|number| tag(*number)).collect(), &mut found);
        }
        last
    };
    assert_eq!(take(3, &[&[1, 2]]), Ok(()));
    assert_eq!(take(3, &[&[1, 2], &[3]]), Err(Unfit::Unawaited));
    assert_eq!(take(3, &[&[]]), Err(Unfit::Empty));
    assert_eq!(take(3, &[&[1, 2, 3, 4]]), Err(Unfit::TooLong));
    assert_eq!(take(3, &[&[1, 1]]), Err(Unfit::Order));
    assert_eq!(take(3, &[&[2, 1]]), Err(Unfit::Order));
    assert!(Merge::new([MOST_TAGS, 5]).is_some());
    for sizes in [[MOST_TAGS + 1, 5], [5, 1 << 63], [u64::MAX, u64::MAX]] {
        assert!(Merge::new(sizes).is_none());
    }
}

#[test]
fn order_holds_from_part_to_part() {
    let (mut merge, mut found) = (Merge::new([4, 1]).unwrap(), Vec::new());
    merge.take(0, vec![tag(1), tag(5)], &mut found).unwrap();
    merge.take(1, vec![tag(9)], &mut found).unwrap();
    assert_eq!(merge.take(0, vec![tag(5), tag(6)], &mut found), Err(Unfit::Order));
    merge.take(0, vec![tag(6), tag(9)], &mut found).unwrap();
    assert_eq!((merge.wants(), found), (None, vec![[3, 0]]));
    assert_eq!(merge.take(0, vec![tag(10)], &mut Vec::new()), Err(Unfit::Unawaited));
}

#[test]
fn a_list_that_has_a_tag_twice_is_none() {
    assert!(List::new(vec![(tag(1), 1), (tag(2), 2)]).is_some());
    assert!(List::new(vec![(tag(1), 1), (tag(1), 2)]).is_none());
    let list = List::new((0..40_000).map(|number| (tag(number as u16), number)).collect()).unwrap();
    let parts: Vec<Vec<u8>> = list.parts().collect();
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<usize>>(), [256 << 10, 256 << 10, (40_000 - 32_768) * 16]);
    assert_eq!((list.at(39_999).unwrap().1, list.at(40_000)), (39_999, None));
}
