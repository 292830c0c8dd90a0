//! How much each estimate counts, so that sites weigh equally however many estimates they send, and which estimates are the
//! same one.
//!
//! A site that sends many estimates would otherwise outvote the others alone. With three or more sites each has one vote,
//! shared equally by its estimates; with one or two no majority of sites can exist, and every estimate has one vote.

use std::collections::BTreeMap;

use super::distance::{median, select};
use super::estimate::Estimate;

/// Sites from which on a majority of them can outvote one.
pub(super) const SITES: usize = 3;
/// Sums of weights that differ by less than this share are equal.
const TIE: f64 = 1e-9;
/// Estimates whose numbers differ by less than this share of their size are one: the same rows, summed in another order.
const ROUNDING: f64 = 1e-8;

/// Weights of some estimates, in their order; they add up to the number of estimates.
pub(super) struct Weights {
    each: Vec<f64>,
    sites: usize,
    uniform: bool,
}

impl Weights {
    /// One vote a site, or one vote an estimate where there are fewer than three sites. Where the rows of every site are
    /// declared, its votes are in proportion to them, as far as no minority of the sites comes near half.
    pub(super) fn of(all: &[&Estimate], rows: &BTreeMap<String, u64>) -> Weights {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for estimate in all {
            *counts.entry(&estimate.worker).or_default() += 1;
        }
        let sites = counts.len();
        let declared: Option<Vec<u64>> = counts.keys().map(|name| rows.get(*name).copied()).collect();
        let votes = match declared.filter(|rows| sites >= SITES && rows.iter().any(|count| *count != rows[0])) {
            Some(rows) => bounded(rows.into_iter().map(|count| count.max(1) as f64).collect()),
            None => vec![1.0; sites],
        };
        let equal = votes.iter().all(|vote| *vote == 1.0);
        let uniform = sites < SITES || equal && counts.values().all(|count| count * sites == all.len());
        let unit = all.len() as f64 / votes.iter().sum::<f64>();
        let shares: BTreeMap<&str, f64> = counts
            .iter()
            .zip(&votes)
            .map(|((name, count), vote)| (*name, if uniform { 1.0 } else { unit * vote / *count as f64 }))
            .collect();
        let each = all.iter().map(|e| shares.get(e.worker.as_str()).copied().unwrap_or(1.0)).collect();
        Weights { each, sites, uniform }
    }

    /// Number of sites.
    pub(super) fn sites(&self) -> usize {
        self.sites
    }

    /// The weight of one.
    pub(super) fn at(&self, i: usize) -> f64 {
        self.each[i]
    }

    /// All of them.
    pub(super) fn each(&self) -> &[f64] {
        &self.each
    }

    fn half(&self) -> f64 {
        0.5 * self.each.len() as f64
    }

    /// Whether these hold more than half of all weight.
    pub(super) fn is_majority(&self, chosen: impl Iterator<Item = usize>) -> bool {
        chosen.map(|i| self.each[i]).sum::<f64>() > self.half() * (1.0 + TIE)
    }

    /// How many of the first of `order` it takes to hold more than `share` of all weight.
    pub(super) fn beyond(&self, order: &[usize], share: f64) -> usize {
        let limit = share * self.each.len() as f64 * (1.0 + TIE);
        let mut sum = 0.0;
        let reached = order.iter().position(|&i| {
            sum += self.each[i];
            sum > limit
        });
        reached.map_or(order.len(), |at| at + 1)
    }

    /// How many of the first of `order` hold no more than half of all weight.
    pub(super) fn within_half(&self, order: &[usize]) -> usize {
        let limit = self.half() * (1.0 + TIE);
        let mut sum = 0.0;
        let over = order.iter().position(|&i| {
            sum += self.each[i];
            sum > limit
        });
        over.unwrap_or(order.len())
    }

    /// How many estimates, whichever they are, hold less than half of all weight.
    pub(super) fn withstands(&self) -> usize {
        let mut order: Vec<usize> = (0..self.each.len()).collect();
        order.sort_by(|&a, &b| self.each[b].total_cmp(&self.each[a]));
        let limit = self.half() * (1.0 - TIE);
        let mut sum = 0.0;
        let over = order.iter().position(|&i| {
            sum += self.each[i];
            sum >= limit
        });
        over.unwrap_or(order.len())
    }

    /// The number of equally weighted estimates that would vary as much in their mean: `(sum w)^2 / sum w^2`.
    pub(super) fn effective(&self, chosen: impl Iterator<Item = usize>) -> f64 {
        let (mut sum, mut square) = (0.0, 0.0);
        for i in chosen {
            sum += self.each[i];
            square += self.each[i] * self.each[i];
        }
        if square > 0.0 { sum * sum / square } else { 0.0 }
    }

    /// The smallest of `values`, one for each estimate, up to which more than half of the weight lies.
    pub(super) fn majority_value(&self, values: &mut [f64]) -> f64 {
        match self.uniform {
            true => select(values, values.len() / 2),
            false => self.quantile(values, &(0..values.len()).collect::<Vec<_>>(), true),
        }
    }

    /// Median of `values`, one for each of `chosen`; the mean of the two middle ones where half of the weight ends between
    /// them.
    pub(super) fn median_of(&self, values: &mut [f64], chosen: &[usize]) -> f64 {
        match self.uniform {
            true => median(values),
            false => 0.5 * self.quantile(values, chosen, false) + 0.5 * self.quantile(values, chosen, true),
        }
    }

    /// Median of `values`, one for each estimate.
    pub(super) fn median(&self, values: &mut [f64]) -> f64 {
        match self.uniform {
            true => median(values),
            false => self.median_of(values, &(0..values.len()).collect::<Vec<_>>()),
        }
    }

    /// The lower of the two middle ones where half of the weight ends between them: half of the weight cannot raise it.
    pub(super) fn lower_median(&self, values: &[f64]) -> f64 {
        match (values.is_empty(), self.uniform) {
            (true, _) => 0.0,
            (false, true) => select(&mut values.to_vec(), (values.len() - 1) / 2),
            (false, false) => self.quantile(values, &(0..values.len()).collect::<Vec<_>>(), false),
        }
    }

    /// The first value in ascending order up to which at least (or, `beyond`, more than) half of the weight of `chosen` lies.
    fn quantile(&self, values: &[f64], chosen: &[usize], beyond: bool) -> f64 {
        let mut pairs: Vec<(f64, f64)> = values.iter().copied().zip(chosen.iter().map(|&i| self.each[i])).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let half = 0.5 * pairs.iter().map(|pair| pair.1).sum::<f64>();
        let limit = half * if beyond { 1.0 + TIE } else { 1.0 - TIE };
        let mut sum = 0.0;
        let found = pairs.iter().find(|pair| {
            sum += pair.1;
            sum > limit
        });
        found.or(pairs.last()).map_or(0.0, |pair| pair.0)
    }
}

/// Votes of three or more sites, the largest cut until fewer than half of the sites hold clearly less than half together: for
/// S sites no more than 1/2 - 1/(4 S), where equal votes would give them at most 1/2 - 1/(2 S).
fn bounded(mut votes: Vec<f64>) -> Vec<f64> {
    let (sites, minority) = (votes.len() as f64, (votes.len() - 1) / 2);
    let most = 0.5 - 0.25 / sites;
    let mut sorted = votes.clone();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let held = |cut: f64| {
        let sum = |part: &[f64]| part.iter().map(|vote| vote.min(cut)).sum::<f64>();
        sum(&sorted[..minority]) / sum(&sorted)
    };
    let (mut low, mut high) = (sorted[sorted.len() - 1], sorted[0]);
    if held(high) > most {
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if held(middle) > most {
                high = middle;
            } else {
                low = middle;
            }
        }
        votes.iter_mut().for_each(|vote| *vote = vote.min(low));
    }
    votes
}

/// For each estimate the earlier one that it equals to rounding, if any: rows that were sent twice, under whatever name, are
/// evidence once.
///
/// With cross-products all of them must agree, since honest fits without noise share their coefficients. Without, a batch
/// that is fitted exactly is never taken for a copy.
pub(super) fn copies(all: &[&Estimate]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    let key = |i: usize| (all[i].nobs, all[i].kept);
    order.sort_by(|&a, &b| key(a).cmp(&key(b)).then(all[a].scale.total_cmp(&all[b].scale)).then(a.cmp(&b)));
    let mut found = vec![None; all.len()];
    let mut grouped = vec![false; all.len()];
    for (at, &i) in order.iter().enumerate() {
        // Who is a copy already has been compared through its group: however many copies come, each is looked at once.
        if grouped[i] {
            continue;
        }
        let near = |j: &usize| key(i) == key(*j) && close(all[i].scale, all[*j].scale, all[i].scale);
        let mut group = vec![i];
        group
            .extend(order[at + 1..].iter().copied().take_while(near).filter(|&j| !grouped[j] && equal(all[i], all[j])));
        let first = group.iter().copied().min().unwrap_or(i);
        for member in group {
            grouped[member] = true;
            found[member] = (member != first).then_some(first);
        }
    }
    found
}

fn close(a: f64, b: f64, size: f64) -> bool {
    (a - b).abs() <= ROUNDING * size.abs()
}

fn equal(a: &Estimate, b: &Estimate) -> bool {
    let q = a.coefficients.len();
    // The length of a column turns coefficients into parts of predictions.
    let length = |j: usize| a.gram.as_ref().map_or(1.0, |gram| gram.at(j, j).sqrt());
    match (&a.gram, &b.gram) {
        (Some(g), Some(h)) => {
            // From the end, where cross-products of different rows differ at once; the first is a count of rows.
            let same = |j: usize| (0..=j).all(|k| close(g.at(j, k), h.at(j, k), length(j) * length(k)));
            if !(0..q).rev().all(same) {
                return false;
            }
        }
        (None, None) => {}
        _ => return false,
    }
    let size = (0..q).fold(0.0_f64, |most, j| most.max((a.coefficients[j] * length(j)).abs()));
    if a.gram.is_none() && a.scale <= ROUNDING * size {
        return false;
    }
    (0..q).all(|j| close(a.coefficients[j] * length(j), b.coefficients[j] * length(j), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Estimate> {
        let make = |(at, name): (usize, &&str)| Estimate {
            worker: (*name).to_owned(),
            batch: at as u64,
            coefficients: vec![at as f64],
            gram: None,
            nobs: 10,
            kept: 9,
            scale: 1.0,
            cleaned: true,
        };
        names.iter().enumerate().map(make).collect()
    }

    fn weights(names: &[&str]) -> Vec<f64> {
        let all = named(names);
        Weights::of(&all.iter().collect::<Vec<_>>(), &BTreeMap::new()).each
    }

    #[test]
    fn three_sites_have_a_vote_each_and_two_sites_have_one_an_estimate() {
        assert_eq!(weights(&["a", "a", "a", "a", "b", "c"]), [0.5, 0.5, 0.5, 0.5, 2.0, 2.0]);
        assert_eq!(weights(&["a", "a", "a", "b"]), [1.0; 4]);
        assert_eq!(weights(&["a", "b", "c", "a", "b", "c"]), [1.0; 6]);
    }

    #[test]
    fn declared_rows_give_votes_and_no_minority_of_sites_nears_half() {
        let all = named(&["a", "b", "b", "c", "d", "e"]);
        let shares = |rows: [u64; 5]| -> Vec<f64> {
            let rows = ["a", "b", "c", "d", "e"].map(String::from).into_iter().zip(rows).collect();
            let weights = Weights::of(&all.iter().collect::<Vec<_>>(), &rows);
            (0..6).map(|i| weights.at(i) / 6.0).collect()
        };
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 1e-9, "{a} {b}"));
        close(&shares([100, 100, 110, 90, 100]), &[0.2, 0.1, 0.1, 0.22, 0.18, 0.2]);
        close(&shares([7, 7, 7, 7, 7]), &[0.2, 0.1, 0.1, 0.2, 0.2, 0.2]);
        let boast = shares([1_000_000, 50_000, 10, 20, 30]);
        assert!(boast[0] + boast[1] + boast[2] < 0.4501, "{boast:?}");
        assert!(boast[0] >= boast[5] && boast[5] > boast[4] && boast[4] > boast[3], "{boast:?}");
        // Rows of some sites only say nothing.
        let some = [("a".to_owned(), 9)].into_iter().collect();
        let weights = Weights::of(&all.iter().collect::<Vec<_>>(), &some);
        assert!((weights.at(0) - 1.2).abs() < 1e-12);
    }

    #[test]
    fn medians_and_majorities_count_weight() {
        let all = named(&["a", "a", "a", "a", "b", "c"]);
        let weights = Weights::of(&all.iter().collect::<Vec<_>>(), &BTreeMap::new());
        let order = [0, 1, 2, 3, 4, 5];
        // The four of one site hold a third; with the next it is two thirds.
        assert_eq!((weights.beyond(&order, 0.5), weights.within_half(&order)), (5, 4));
        assert_eq!(weights.withstands(), 1, "one of a site that sent one, no second");
        assert_eq!(weights.lower_median(&[0.0, 0.0, 0.0, 0.0, 7.0, 9.0]), 7.0);
        assert_eq!(weights.median(&mut [0.0, 0.0, 0.0, 0.0, 7.0, 9.0]), 7.0);
        assert_eq!(weights.majority_value(&mut [0.0, 0.0, 0.0, 0.0, 7.0, 9.0]), 7.0);
        assert!(!weights.is_majority([0, 1, 2, 3].into_iter()) && weights.is_majority([4, 5].into_iter()));
        let even = named(&["a", "b", "c", "d"]);
        let even = Weights::of(&even.iter().collect::<Vec<_>>(), &BTreeMap::new());
        assert_eq!((even.median(&mut [4.0, 1.0, 2.0, 3.0]), even.lower_median(&[4.0, 1.0, 2.0, 3.0])), (2.5, 2.0));
        assert_eq!((even.majority_value(&mut [4.0, 1.0, 2.0, 3.0]), even.withstands()), (3.0, 1));
    }

    #[test]
    fn copies_are_found_across_sites_and_fits_without_noise_are_not_copies() {
        let mut all = named(&["a", "b", "c", "a"]);
        all[2].coefficients[0] = 1.0 + 1e-12;
        let of = |all: &[Estimate]| copies(&all.iter().collect::<Vec<_>>());
        assert_eq!(of(&all), [None, None, Some(1), None]);
        all[3].coefficients[0] = 1.0 - 1e-12;
        assert_eq!(of(&all), [None, None, Some(1), Some(1)]);
        all[3].kept = 8;
        all[2].coefficients[0] = 1.0 + 1e-6;
        assert_eq!(of(&all), [None; 4]);
        all.iter_mut().for_each(|e| (e.scale, e.coefficients[0]) = (1e-16, 2.0));
        assert_eq!(of(&all), [None; 4]);
    }
}
