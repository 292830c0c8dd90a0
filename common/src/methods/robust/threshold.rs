//! The number of rows that a heuristic hard-thresholding step keeps, found without knowing the share of corrupted rows.

use serde::{Deserialize, Serialize};

/// How the threshold reads its reference residual. The two differ by a few rows at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// As printed in the paper: the order statistic nearest in squares, and its own value.
    #[default]
    Paper,
    /// As in the authors' program: nearest in absolute value, and the root mean square in its place.
    Program,
}

/// Counts the rows to keep: the largest `tau` in `(n/2, at_most]` with `r_(tau) <= 2 tau r_(o) / o`, where `o` is the
/// order statistic nearest to the root mean square of the `tau - ceil(n/2)` smallest residuals; `at_least` when no
/// `tau` qualifies.
///
/// `sorted` holds the n absolute residuals in ascending order. Costs O(n): the root mean square falls with `tau`, so
/// one pointer walks down beside it.
///
/// With residuals nearly linear near zero, `r_(o) / o` is the slope of their quantile function at zero, and the rule
/// cuts at `sqrt(2 pi)` = 2.507 standard deviations of the clean core whatever the share of the others.
///
/// # Reference
/// Equations (3) and (4).
pub fn rows_to_keep(sorted: &[f64], at_most: usize, at_least: usize, rule: Rule) -> usize {
    let n = sorted.len();
    let half = n.div_ceil(2);
    let at_most = at_most.min(n);
    let fallback = at_least.min(at_most);
    if n < 2 || at_most <= half {
        return fallback;
    }
    let reach = at_most - half;
    let mut sums = Vec::with_capacity(reach);
    let mut sum = 0.0;
    for r in &sorted[..reach] {
        sum += r * r;
        sums.push(sum);
    }
    // `right` is the first position whose residual is at least the root mean square, kept inside 1..n.
    let mut right = n - 1;
    for tau in (half + 1..=at_most).rev() {
        let kept = tau - half;
        let mean_square = sums[kept - 1] / kept as f64;
        let rms = mean_square.sqrt();
        let below = |j: usize| match rule {
            Rule::Paper => sorted[j] * sorted[j] < mean_square,
            Rule::Program => sorted[j] < rms,
        };
        while right > 1 && !below(right - 1) {
            right -= 1;
        }
        let (low, high) = (sorted[right - 1], sorted[right]);
        let left_is_nearer = match rule {
            Rule::Paper => mean_square - low * low <= high * high - mean_square,
            Rule::Program => rms - low <= high - rms,
        };
        let rank = if left_is_nearer { right } else { right + 1 };
        let reference = match rule {
            Rule::Paper => sorted[rank - 1],
            Rule::Program => rms,
        };
        if sorted[tau - 1] <= 2.0 * tau as f64 * reference / rank as f64 {
            return tau;
        }
    }
    fallback
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::StandardNormal;

    use super::*;

    /// Equations (3) and (4) read aloud: every tau tried, every order statistic compared.
    fn by_the_letter(sorted: &[f64], at_most: usize, at_least: usize, rule: Rule) -> usize {
        let n = sorted.len();
        for tau in (n.div_ceil(2) + 1..=at_most).rev() {
            let inner = tau - n.div_ceil(2);
            let mean_square = sorted[..inner].iter().map(|r| r * r).sum::<f64>() / inner as f64;
            let gap = |r: f64| match rule {
                Rule::Paper => (r * r - mean_square).abs(),
                Rule::Program => (r - mean_square.sqrt()).abs(),
            };
            let (rank, value) =
                (1..=n).map(|k| (k, sorted[k - 1])).min_by(|a, b| gap(a.1).total_cmp(&gap(b.1))).unwrap();
            let reference = if rule == Rule::Paper { value } else { mean_square.sqrt() };
            if sorted[tau - 1] <= 2.0 * tau as f64 * reference / rank as f64 {
                return tau;
            }
        }
        at_least.min(at_most)
    }

    #[test]
    fn the_fast_search_agrees_with_the_equations_read_aloud() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut below_n = 0;
        for n in [2, 3, 9, 10, 101, 400] {
            for round in 0..60 {
                let share = 0.05 * (round % 10) as f64;
                let mut r: Vec<f64> = (0..n)
                    .map(|_| {
                        let wide = if rng.random::<f64>() < share { 10.0 } else { 1.0 };
                        (rng.sample::<f64, _>(StandardNormal) * wide).abs()
                    })
                    .collect();
                r.sort_by(f64::total_cmp);
                for rule in [Rule::Paper, Rule::Program] {
                    for at_most in [n, n - n / 5] {
                        let fast = rows_to_keep(&r, at_most, 3, rule);
                        assert_eq!(fast, by_the_letter(&r, at_most, 3, rule), "n {n}, at most {at_most}, {rule:?}");
                        below_n += usize::from(fast < at_most);
                    }
                }
            }
        }
        assert!(below_n > 200, "the rule must also cut, not only keep everything");
    }

    #[test]
    fn the_cut_on_clean_normal_residuals_is_near_two_and_a_half_standard_deviations() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut mean = 0.0;
        for _ in 0..20 {
            let mut r: Vec<f64> = (0..20_000).map(|_| rng.sample::<f64, _>(StandardNormal).abs()).collect();
            r.sort_by(f64::total_cmp);
            mean += r[rows_to_keep(&r, r.len(), 3, Rule::Paper) - 1] / 20.0;
        }
        assert!((mean - (2.0 * std::f64::consts::PI).sqrt()).abs() < 0.15, "mean cut {mean}");
    }

    #[test]
    fn residuals_without_a_core_are_all_kept_and_lumps_fall_back_to_the_floor() {
        let even: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(rows_to_keep(&even, 100, 3, Rule::Paper), 100);
        let mut lump = vec![0.0; 60];
        lump.extend((1..=40).map(f64::from));
        assert_eq!(rows_to_keep(&lump, 100, 7, Rule::Paper), 60);
        assert_eq!(rows_to_keep(&even, 50, 7, Rule::Paper), 7, "no tau above half is left");
        assert_eq!(rows_to_keep(&[], 0, 3, Rule::Paper), 0);
    }
}
