//! Properties of a stream.

use super::*;
use crate::research::batches::unit_direction;

/// Arrivals around `truth`, each with the noise of a batch.
fn around(truth: &DVector<f64>, from: u64, count: u64) -> Vec<Estimate> {
    (from..from + count)
        .map(|t| {
            let b = batch(&mut rng(7000 + t), truth, &BatchLaw::published(400, 0.1));
            Estimate::from_fit("site", t, &fitted(&b, Start::Ols))
        })
        .collect()
}

fn off(update: &Update, truth: &DVector<f64>) -> f64 {
    (&update.consensus.coefficients - truth).norm()
}

#[test]
fn the_source_never_follows_a_change_and_the_switch_does_within_ten_arrivals() {
    let mut rng = rng(1);
    let (first, second) = (unit_coefficients(&mut rng, 4), unit_direction(&mut rng, 4));
    let mut arrivals = around(&first, 0, 20);
    arrivals.extend(around(&second, 20, 40));
    let source = stream(&arrivals, OnlineSettings::source());
    assert!(off(&source[19], &first) < 0.03);
    let apart = (&first - &second).norm();
    assert!((20..60).all(|t| off(&source[t], &second) > 0.9 * apart), "the source must stay where it was");
    let following = stream(&arrivals, OnlineSettings::default());
    assert!(off(&following[19], &first) < 0.03);
    assert!(off(&following[29], &second) < 0.03, "{}", off(&following[29], &second));
    assert_eq!(following.iter().filter(|u| u.placement == Placement::Switched).count(), 1);
    assert_eq!(following[26].placement, Placement::Switched, "the seventh arrival after the change");
    let off_switch = OnlineSettings { switch: None, ..OnlineSettings::default() };
    assert!(off(stream(&arrivals, off_switch).last().unwrap(), &second) > 0.9 * apart);
}

#[test]
fn a_burst_shorter_than_the_switch_changes_nothing_even_when_it_repeats() {
    let mut rng = rng(2);
    let truth = unit_coefficients(&mut rng, 4);
    let far = &truth + unit_direction(&mut rng, 4);
    let mut arrivals = Vec::new();
    for burst in 0..4 {
        arrivals.extend(around(&truth, 20 * burst, 14));
        arrivals.extend(around(&far, 20 * burst + 14, 6));
    }
    for update in &stream(&arrivals, OnlineSettings::default())[6..] {
        assert!(off(update, &truth) < 0.08, "{}", off(update, &truth));
        assert_ne!(update.placement, Placement::Switched);
    }
}

#[test]
fn scattered_arrivals_never_make_a_switch() {
    let mut rng = rng(3);
    let truth = unit_coefficients(&mut rng, 4);
    let mut arrivals = around(&truth, 0, 30);
    for e in &mut arrivals[10..] {
        e.coefficients = (&truth + unit_direction(&mut rng, 4) * 1.3).iter().copied().collect();
    }
    let updates = stream(&arrivals, OnlineSettings::default());
    assert!(updates.iter().all(|u| u.placement != Placement::Switched));
    assert!(off(updates.last().unwrap(), &truth) < 0.06);
    assert!(updates[10..].iter().all(|u| u.outside));
}

#[test]
fn identical_colluders_in_the_window_do_not_lock_honest_arrivals_out() {
    let mut rng = rng(4);
    let truth = unit_coefficients(&mut rng, 4);
    let mut arrivals = around(&truth, 0, 40);
    for e in &mut arrivals[8..16] {
        e.coefficients = (&truth + unit_direction(&mut rng, 4) * 1e-6).iter().copied().collect();
    }
    let updates = stream(&arrivals, OnlineSettings::default());
    // Half of the window agrees to six digits now; an honest arrival agrees with it as far as its noise allows.
    let outside = updates[16..].iter().filter(|u| u.outside).count();
    assert!(outside <= 6, "{outside} of 24 honest arrivals were outside");
}

#[test]
fn a_repeated_batch_counts_once_and_a_malformed_one_changes_nothing() {
    let mut rng = rng(5);
    let truth = unit_coefficients(&mut rng, 4);
    let arrivals = around(&truth, 0, 10);
    let mut online = Online::new(OnlineSettings::default(), 4, true).unwrap();
    arrivals.iter().for_each(|e| drop(online.push(e.clone()).unwrap()));
    let before = online.clone();
    assert_eq!(online.push(arrivals[9].clone()).unwrap().placement, Placement::Repeated);
    assert_eq!(online.push(arrivals[2].clone()).unwrap().placement, Placement::Repeated);
    let mut wrong = around(&truth, 10, 1).remove(0);
    wrong.coefficients[0] = f64::NAN;
    assert!(matches!(online.push(wrong), Err(OnlineError::Estimate(EstimateError::Coefficient { index: 0 }))));
    assert_eq!(online, before);
    // Another worker may use the same numbers.
    let mut other = arrivals[2].clone();
    other.worker = "elsewhere".into();
    assert_ne!(online.push(other).unwrap().placement, Placement::Repeated);
    assert_eq!(online.arrivals(), 11);
}

#[test]
fn a_state_that_was_written_and_read_goes_on_with_the_same_bits() {
    let mut rng = rng(6);
    let (first, second) = (unit_coefficients(&mut rng, 4), unit_direction(&mut rng, 4));
    let mut arrivals = around(&first, 0, 12);
    arrivals.extend(around(&second, 12, 12));
    let mut whole = Online::new(OnlineSettings::default(), 4, true).unwrap();
    let mut resumed = whole.clone();
    for e in arrivals {
        let text = serde_json::to_string(&resumed).unwrap();
        resumed = serde_json::from_str(&text).unwrap();
        let (a, b) = (whole.push(e.clone()).unwrap(), resumed.push(e).unwrap());
        assert_eq!((a.placement, a.consensus), (b.placement, b.consensus));
    }
    assert_eq!(whole, resumed);
    assert_eq!(whole.switches(), 1);
}

#[test]
fn windows_and_switches_that_cannot_work_are_refused() {
    let with = |window, switch| Online::new(OnlineSettings { window, switch, ..OnlineSettings::default() }, 3, true);
    assert_eq!(with(2, None).unwrap_err(), OnlineError::Window(2));
    assert_eq!(with(7, Some(1)).unwrap_err(), OnlineError::Switch(1));
    assert!(with(3, Some(2)).is_ok());
    let empty = with(3, None).unwrap();
    assert_eq!(empty.consensus(), Err(ConsolidateError::Empty));
}
