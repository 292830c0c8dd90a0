//! Sites weigh equally, whatever they send.

use rand::Rng;

use super::super::synthetic::unit_direction;
use super::*;

const METHODS: [&str; 6] = ["pivot", "refine", "geomed", "cmedian", "filter", "trimmed"];

fn of(estimates: &[Estimate], name: &str) -> Consensus {
    consolidate(&set_of(estimates), &name.parse::<Method>().unwrap().into()).unwrap()
}

/// Estimates of one site around `centre`, each with noise of 0.03 a coefficient.
fn site(rng: &mut impl Rng, name: &str, count: u64, centre: &DVector<f64>) -> Vec<Estimate> {
    let q = centre.len();
    (0..count)
        .map(|batch| {
            let noise = |rng: &mut dyn rand::RngCore| rng.sample::<f64, _>(rand_distr::StandardNormal);
            let root = DMatrix::from_fn(q, q, |a, b| if a == b { 42.4 + noise(rng) } else { noise(rng) });
            let off = root.transpose().try_inverse().unwrap() * DVector::from_fn(q, |_, _| 1.2 * noise(rng));
            Estimate {
                worker: name.to_owned(),
                batch,
                coefficients: (centre + off).iter().copied().collect(),
                gram: Some(Gram::from_matrix(&(&root * root.transpose()))),
                nobs: 2000,
                kept: 1800,
                scale: 1.15,
                cleaned: true,
            }
        })
        .collect()
}

fn off(found: &Consensus, beta: &DVector<f64>) -> f64 {
    (&found.coefficients - beta).norm()
}

#[test]
fn one_worker_of_three_owns_nothing_however_many_estimates_it_sends() {
    for seed in 0..5 {
        for (q, count) in [(5, 100), (3, 30), (8, 400), (5, 21)] {
            let mut rng = rng(seed);
            let (truth, lie) = (unit_coefficients(&mut rng, q), unit_direction(&mut rng, q) * 42.0);
            let mut all = site(&mut rng, "a", count, &lie);
            all.extend(site(&mut rng, "b", 10, &truth));
            all.extend(site(&mut rng, "c", 10, &truth));
            for name in METHODS {
                let found = of(&all, name);
                let off = off(&found, &truth);
                // The median of each coordinate and of the geometry withstand, with more of a bias than the others.
                let most = if ["pivot", "refine"].contains(&name) { 0.04 } else { 0.2 };
                if name == "trimmed" {
                    continue;
                }
                assert!(off < most, "{name}, {count} lies, seed {seed}: {off}");
                assert_eq!(found.verdict, Verdict::MajorityAgrees, "{name}, {count} lies, seed {seed}");
                assert!(found.members[..count as usize].iter().all(|m| !m.trusted), "{name}, {count}");
                assert!(found.site_votes && found.sites[0].set_aside() && !found.sites[1].set_aside());
                let own = DVector::from_vec(found.sites[0].coefficients.clone());
                assert!((own - &lie).norm() < 0.04, "{name}: what the site itself says");
            }
        }
    }
}

#[test]
fn any_minority_of_sites_of_any_sizes_is_outvoted_and_half_of_them_is_no_majority() {
    for seed in 0..6 {
        let mut rng = rng(40 + seed);
        let sites = [5, 6, 7, 4][seed as usize % 4];
        let (truth, lie) = (unit_coefficients(&mut rng, 5), unit_direction(&mut rng, 5) * 3.0);
        for liars in 1..=sites / 2 {
            let mut all = Vec::new();
            for at in 0..sites {
                let count = rng.random_range(1..=if at < liars { 120 } else { 12 });
                all.extend(site(&mut rng, &format!("s{at}"), count, if at < liars { &lie } else { &truth }));
            }
            for name in ["pivot", "refine"] {
                let found = of(&all, name);
                let trusted: Vec<bool> = found.sites.iter().map(|site| site.trusted > 0).collect();
                if 2 * liars < sites {
                    assert_eq!(found.verdict, Verdict::MajorityAgrees, "{name}: {liars} of {sites}, seed {seed}");
                    assert!(off(&found, &truth) < 0.06, "{name}: {}", off(&found, &truth));
                    assert!(trusted[..liars].iter().all(|t| !t), "{name}: {trusted:?}");
                } else {
                    assert_eq!(found.verdict, Verdict::NoMajority, "{name}: {liars} of {sites}, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn three_sites_that_all_disagree_have_no_consensus_however_unequal_they_are() {
    for counts in [[1, 1, 1], [10, 10, 10], [200, 3, 1], [50, 10, 10]] {
        let mut rng = rng(3);
        let mut all = Vec::new();
        for (name, count) in ["a", "b", "c"].into_iter().zip(counts) {
            let centre = unit_direction(&mut rng, 5) * 20.0;
            all.extend(site(&mut rng, name, count, &centre));
        }
        for name in ["pivot", "refine"] {
            assert_eq!(of(&all, name).verdict, Verdict::NoMajority, "{name} of {counts:?}");
        }
    }
}

#[test]
fn honest_sites_of_very_different_size_agree_and_are_trusted() {
    let (mut aside, mut sent) = (0, 0);
    for seed in 0..20 {
        for counts in [[100, 10, 10], [1, 30, 4], [200, 1, 1], [2, 2, 40], [7, 1, 3]] {
            let mut rng = rng(70 + seed);
            let truth = unit_coefficients(&mut rng, 4);
            let mut all = Vec::new();
            for (name, count) in ["a", "b", "c"].into_iter().zip(counts) {
                all.extend(site(&mut rng, name, count, &truth));
            }
            let found = of(&all, "refine");
            assert_eq!(found.verdict, Verdict::MajorityAgrees, "{counts:?}, seed {seed}");
            assert!(found.sites.iter().all(|site| (site.share - 1.0 / 3.0).abs() < 1e-12));
            aside += all.len() - found.trusted();
            sent += all.len();
        }
    }
    assert!(20 * aside < sent, "{aside} of {sent}");
}

#[test]
fn two_sites_have_no_majority_of_sites_and_estimates_weigh_equally() {
    let mut rng = rng(5);
    let (truth, lie) = (unit_coefficients(&mut rng, 5), unit_direction(&mut rng, 5) * 4.0);
    let mut all = site(&mut rng, "a", 4, &lie);
    all.extend(site(&mut rng, "b", 10, &truth));
    let found = of(&all, "refine");
    assert!(!found.site_votes && off(&found, &truth) < 0.04);
    assert_eq!((found.majority, found.withstands()), (8, 6));
    assert_eq!(found.sites[0].share, 4.0 / 14.0);
}

#[test]
fn declared_rows_give_a_large_site_more_weight_and_never_the_result() {
    let mut rng = rng(15);
    let (truth, lie) = (unit_coefficients(&mut rng, 5), unit_direction(&mut rng, 5) * 4.0);
    let mut all = site(&mut rng, "a", 50, &lie);
    all.extend(site(&mut rng, "b", 10, &truth));
    all.extend(site(&mut rng, "c", 10, &truth));
    let rows = [("a", 1_000_000), ("b", 400), ("c", 500)].map(|(name, rows)| (name.to_owned(), rows));
    let set = set_of(&all).weighed_by(rows.into_iter().collect());
    let found = consolidate(&set, &Method::Refine.into()).unwrap();
    assert!(off(&found, &truth) < 0.04, "{}", off(&found, &truth));
    assert_eq!(found.verdict, Verdict::MajorityAgrees);
    let shares: Vec<f64> = found.sites.iter().map(|site| site.share).collect();
    assert!(shares[0] < 0.42 && shares[0] > shares[2] && shares[2] > shares[1], "{shares:?}");
}

#[test]
fn what_is_withstood_is_said_for_the_heaviest_estimates() {
    let mut rng = rng(6);
    let truth = unit_coefficients(&mut rng, 3);
    let mut all = site(&mut rng, "a", 100, &truth);
    all.extend(site(&mut rng, "b", 10, &truth));
    all.extend(site(&mut rng, "c", 10, &truth));
    // Fifteen of the twenty of b and c hold half.
    assert_eq!(of(&all, "refine").withstands(), 14);
}

#[test]
fn rows_that_come_again_under_another_name_count_once() {
    for seed in 0..5 {
        let mut rng = rng(80 + seed);
        let (truth, lie) = (unit_coefficients(&mut rng, 5), unit_direction(&mut rng, 5) * 4.0);
        // Two liars of five sites, one of which copies the other under new ids, in another order of rows.
        let mut all = site(&mut rng, "a", 2, &lie);
        let mut copy = all.clone();
        for e in &mut copy {
            e.worker = "b".to_owned();
            e.batch += 10;
            e.coefficients.iter_mut().for_each(|b| *b *= 1.0 + 3e-13);
            e.gram =
                Some(Gram::from_packed(e.gram.as_ref().unwrap().packed().iter().map(|g| g * (1.0 - 2e-13)).collect()));
        }
        all.extend(copy);
        let honest = site(&mut rng, "c", 2, &truth);
        all.extend(honest.clone());
        all.extend(site(&mut rng, "d", 2, &truth));
        let found = of(&all, "refine");
        // Counted twice, the liars would be half.
        assert_eq!(found.verdict, Verdict::MajorityAgrees, "seed {seed}");
        assert!(off(&found, &truth) < 0.06, "{}", off(&found, &truth));
        assert_eq!(found.members[2].copy_of, Some(("a".to_owned(), 0)));
        assert_eq!((found.sites[1].copies, found.sites[1].share), (2, 0.0));
        assert!((found.sites[0].share - 1.0 / 3.0).abs() < 1e-12);
        // The same estimate again at its own site adds nothing either.
        let mut again = honest;
        again.iter_mut().for_each(|e| e.batch += 5);
        let mut more = all.clone();
        more.extend(again);
        assert_eq!(of(&more, "refine").coefficients, found.coefficients);
    }
}

#[test]
fn a_site_that_floods_a_stream_neither_fills_the_window_nor_switches_it() {
    for first in [true, false] {
        let mut rng = rng(11);
        let (truth, lie) = (unit_coefficients(&mut rng, 4), unit_direction(&mut rng, 4) * 5.0);
        let mut liar = site(&mut rng, "a", 400, &lie).into_iter();
        let mut honest: Vec<Estimate> = site(&mut rng, "b", 12, &truth);
        honest.extend(site(&mut rng, "c", 12, &truth));
        honest.sort_by_key(|e| e.batch);
        let mut arrivals = Vec::new();
        for e in honest {
            if first {
                arrivals.extend(liar.by_ref().take(15));
                arrivals.push(e);
            } else {
                arrivals.push(e);
                arrivals.extend(liar.by_ref().take(15));
            }
        }
        let updates = stream(&arrivals, OnlineSettings::default());
        // As soon as both honest sites have been heard, one lying site of three moves nothing.
        for update in &updates[40..] {
            assert!((&update.consensus.coefficients - &truth).norm() < 0.08, "first {first}");
            assert_eq!(update.consensus.verdict, Verdict::MajorityAgrees);
        }
        assert!(updates.iter().all(|update| update.placement != Placement::Switched), "first {first}");
    }
}

#[test]
fn a_site_of_the_majority_that_sends_much_takes_the_place_of_its_own_estimates_only() {
    let mut rng = rng(13);
    let (truth, other) = (unit_coefficients(&mut rng, 4), unit_direction(&mut rng, 4) * 5.0);
    let mut arrivals = site(&mut rng, "b", 2, &other);
    arrivals.extend(site(&mut rng, "c", 1, &truth));
    arrivals.extend(site(&mut rng, "a", 30, &truth));
    let updates = stream(&arrivals, OnlineSettings::default());
    let replaced: Vec<&Placement> = updates
        .iter()
        .map(|update| &update.placement)
        .filter(|placement| matches!(placement, Placement::Replaced { .. }))
        .collect();
    assert!(replaced.len() > 20, "{replaced:?}");
    for placement in replaced {
        assert!(matches!(placement, Placement::Replaced { worker, .. } if worker == "a"), "{placement:?}");
    }
}

#[test]
fn a_change_that_most_sites_see_is_followed_although_one_denies_it() {
    let mut rng = rng(12);
    let (before, after) = (unit_coefficients(&mut rng, 4), unit_direction(&mut rng, 4) * 2.0);
    let mut arrivals = Vec::new();
    let three = |rng: &mut ChaCha8Rng, from: u64, centres: [&DVector<f64>; 3]| {
        let mut all: Vec<Estimate> = Vec::new();
        for (name, centre) in ["a", "b", "c"].into_iter().zip(centres) {
            all.extend(site(rng, name, 8, centre));
        }
        all.iter_mut().for_each(|e| e.batch += from);
        all.sort_by_key(|e| e.batch);
        all
    };
    arrivals.extend(three(&mut rng, 0, [&before; 3]));
    arrivals.extend(three(&mut rng, 100, [&before, &after, &after]));
    let updates = stream(&arrivals, OnlineSettings::default());
    assert_eq!(updates.iter().filter(|u| u.placement == Placement::Switched).count(), 1);
    assert!((&updates.last().unwrap().consensus.coefficients - &after).norm() < 0.08);
}
