//! Anderson extrapolation of one party's coefficients.
//!
//! A full round maps one party's coefficients `b` to `T(b)`: the partner fits its block given `X b`, the party fits its
//! own given the partner's answer. The differences `T(b) - b` of past rounds are combined to nearly zero, and the next
//! coefficients are the same combination of the `T(b)`. For an affine map with as much memory as columns this ends in
//! as many rounds as there are columns, as GMRES does.
//!
//! # Reference
//! D. G. Anderson, "Iterative procedures for nonlinear integral equations", J. ACM 12 (1965); H. F. Walker and P. Ni,
//! SIAM J. Numer. Anal. 49 (2011).

use std::collections::VecDeque;

use nalgebra::DVector;

/// Past rounds as pairs of a point and its image; no vector of the length of the data is kept.
#[derive(Debug, Clone)]
pub struct Memory {
    limit: usize,
    pairs: VecDeque<Pair>,
}

#[derive(Debug, Clone)]
struct Pair {
    image: DVector<f64>,
    /// Image minus point.
    step: DVector<f64>,
}

/// A difference of steps that adds less than this share of its length to the ones before it is left out: what it would
/// add is rounding.
const NOVELTY: f64 = 1e-9;

impl Memory {
    /// With room for a given number of differences of rounds.
    pub fn new(limit: usize) -> Memory {
        Memory { limit, pairs: VecDeque::new() }
    }

    /// Remembers that the round maps `point` to `image`.
    pub fn remember(&mut self, point: &DVector<f64>, image: &DVector<f64>) {
        self.pairs.push_back(Pair { image: image.clone(), step: image - point });
        if self.pairs.len() > self.limit + 1 {
            self.pairs.pop_front();
        }
    }

    /// Forgets everything: the map changed.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// The extrapolated point, least squares of what `embed` makes of a step; `None` before there are two rounds.
    pub fn extrapolate(&self, embed: impl Fn(&DVector<f64>) -> DVector<f64>) -> Option<DVector<f64>> {
        let newest = self.pairs.back()?;
        let mut rest = embed(&newest.step);
        let mut next = newest.image.clone();
        // Newest first, so that where the differences depend on each other the older ones give way. Each direction is
        // kept with the same combination of images, so that no coefficients have to be solved for.
        let mut directions: Vec<(DVector<f64>, DVector<f64>)> = Vec::new();
        for pair in self.pairs.iter().rev().skip(1) {
            let mut direction = embed(&(&newest.step - &pair.step));
            let mut image = &newest.image - &pair.image;
            let length = direction.norm();
            for _ in 0..2 {
                for (earlier, earlier_image) in &directions {
                    let share = earlier.dot(&direction);
                    direction.axpy(-share, earlier, 1.0);
                    image.axpy(-share, earlier_image, 1.0);
                }
            }
            let norm = direction.norm();
            if !(norm > NOVELTY * length) {
                continue;
            }
            direction /= norm;
            image /= norm;
            let share = direction.dot(&rest);
            rest.axpy(-share, &direction, 1.0);
            next.axpy(-share, &image, 1.0);
            directions.push((direction, image));
        }
        let usable = !directions.is_empty() && next.iter().all(|b| b.is_finite());
        usable.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #[test]
        fn an_affine_map_is_solved_in_as_many_rounds_as_columns(p in 1_usize..8, seed in 0_u64..300) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let map = DMatrix::from_fn(p, p, |_, _| rng.random_range(-0.9..0.9) / p as f64);
            let shift = DVector::from_fn(p, |_, _| rng.random_range(-1.0..1.0));
            let fixed = (DMatrix::identity(p, p) - &map).lu().solve(&shift).unwrap();
            let mut memory = Memory::new(p);
            let mut point = DVector::zeros(p);
            for _ in 0..=p {
                let image = &map * &point + &shift;
                memory.remember(&point, &image);
                point = memory.extrapolate(DVector::clone).unwrap_or(image);
            }
            prop_assert!((point - &fixed).amax() <= 1e-6 * fixed.amax().max(1.0));
        }
    }
}
