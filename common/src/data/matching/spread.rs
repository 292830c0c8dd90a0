//! Sorting of many entries whose keys are spread evenly, because a hash has made them.

use rayon::prelude::*;

/// Below this number of entries one sort is as fast.
const FEW: usize = 1 << 14;
/// Entries of a bucket, which a core sorts within its cache.
const BUCKET: usize = 1 << 12;
/// Most buckets, as a power of two: with more of them the writes to all at once miss the cache.
const MOST_BITS: u32 = 12;

/// Sorts by a key whose leading 32 bits are `high`: entries go to the bucket of their leading bits, and buckets are sorted one by one. Takes
/// the memory of the entries once more. Where the keys are not spread, it is no faster than any other sort.
pub(crate) fn sort<T: Copy + Send + Sync, K: Ord>(
    entries: &mut Vec<T>,
    high: impl Fn(&T) -> u32,
    key: impl Fn(&T) -> K + Sync,
) {
    if entries.len() < FEW {
        return entries.sort_unstable_by_key(key);
    }
    let bits = (entries.len() / BUCKET).ilog2().min(MOST_BITS);
    let bucket = |entry: &T| (high(entry) >> (u32::BITS - bits)) as usize;
    let mut lengths = vec![0; 1 << bits];
    entries.iter().for_each(|entry| lengths[bucket(entry)] += 1);
    let mut places: Vec<usize> = Vec::with_capacity(lengths.len());
    let mut before = 0;
    for length in &lengths {
        places.push(before);
        before += length;
    }
    let mut sorted = entries.clone();
    for entry in entries.iter() {
        let place = &mut places[bucket(entry)];
        sorted[*place] = *entry;
        *place += 1;
    }
    let (mut buckets, mut rest) = (Vec::with_capacity(lengths.len()), sorted.as_mut_slice());
    for length in lengths {
        let (bucket, later) = rest.split_at_mut(length);
        buckets.push(bucket);
        rest = later;
    }
    buckets.into_par_iter().for_each(|bucket| bucket.sort_unstable_by_key(&key));
    *entries = sorted;
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn entries_are_sorted_however_many_there_are_and_however_their_keys_are_spread() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 5 * FEW] {
            for most in [0, 7, u64::MAX] {
                let mut entries: Vec<(u64, usize)> = (0..count).map(|at| (rng.random_range(0..=most), at)).collect();
                let mut expected = entries.clone();
                expected.sort_unstable();
                sort(&mut entries, |(key, _)| (key >> 32) as u32, |entry| *entry);
                assert_eq!(entries, expected, "{count} {most}");
            }
        }
    }
}
