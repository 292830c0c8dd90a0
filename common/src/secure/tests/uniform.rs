//! Whether elements are uniform: a chi-square of the residues modulo every prime.

use crate::secure::ring::{Elements, PRIMES};

const CELLS: usize = 64;

/// The quantiles of chi-square with 63 degrees of freedom at a millionth from either end: `qchisq(c(1e-6, 1 - 1e-6), 63)` in R.
const WITHIN: std::ops::Range<f64> = 23.161_46..131.369_7;

/// How many residues fall into each of as many equal parts of every prime.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uniform {
    counts: Vec<[u64; CELLS]>,
}

impl Uniform {
    /// Counts elements of any width; a narrow one has the first three primes.
    pub(crate) fn add(&mut self, elements: &Elements) {
        let primes = elements.width().primes();
        self.counts.resize(self.counts.len().max(primes.len()), [0; CELLS]);
        for (at, counts) in self.counts.iter_mut().enumerate().take(primes.len()) {
            let mut residues = Vec::new();
            elements.residues(at, elements.count(), &mut residues);
            residues.iter().for_each(|residue| counts[*residue as usize * CELLS / PRIMES[at] as usize] += 1);
        }
    }

    /// Counts what another one has counted.
    pub(crate) fn join(&mut self, other: &Uniform) {
        self.counts.resize(self.counts.len().max(other.counts.len()), [0; CELLS]);
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }

    /// How many elements were counted.
    pub(crate) fn count(&self) -> u64 {
        self.counts.first().map_or(0, |counts| counts.iter().sum())
    }

    /// That the residues modulo every prime are uniform, of elements of which there are enough for five in each part.
    #[track_caller]
    pub(crate) fn check(&self, what: &str) {
        assert!(self.count() >= 5 * CELLS as u64, "{what}: {} elements", self.count());
        for (counts, prime) in self.counts.iter().zip(PRIMES) {
            let expected = counts.iter().sum::<u64>() as f64 / CELLS as f64;
            let chi: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
            assert!(
                WITHIN.contains(&chi),
                "{what}: {} elements modulo {prime} have a chi-square of {chi}",
                self.count()
            );
        }
    }
}
