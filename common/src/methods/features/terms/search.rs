//! Numbers of features, and ridges, that are tried.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::{Features, Release};
use crate::terms::Between;
use crate::terms::suggestion::{Candidate, with_own};

/// Numbers of random features.
const FEATURES: [usize; 8] = [4, 6, 10, 20, 30, 50, 100, 200];
/// Ridges of pooled statistics, and of sites' own solutions.
const STATISTICS_RIDGES: [f64; 4] = [0.0, 0.001, 0.01, 0.1];
const OUTPUT_RIDGES: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];

impl Features {
    pub(super) fn tried<M: Sync>(&self, study: &Between<M>, rows: u64) -> Vec<Candidate> {
        let private = study.private().map(|terms| self.forecast(study, terms.stated.design.reckoned()));
        let Some(Ok(forecast)) = private else { return Vec::new() };
        let own = self.map.count();
        let counts: BTreeSet<usize> = FEATURES.into_iter().filter(|count| *count < own).chain([own]).collect();
        let ridges: &[f64] = match self.release {
            Release::Statistics => &STATISTICS_RIDGES,
            Release::Output => &OUTPUT_RIDGES,
        };
        let lambdas = with_own(ridges, self.lambda);
        let of_count = |count: usize| -> Option<Vec<Candidate>> {
            let (part, map) = (forecast.with_features(count)?, self.map.of_size(count).ok()?);
            let tried = |lambda: f64| {
                let other = Features { map: map.clone(), lambda, ..self.clone() };
                let predicted = other.predict(study, &part, rows).ok()?;
                let error = Some(predicted.error / predicted.zero).filter(|error| error.is_finite())?;
                let count = ("features.count".to_string(), count as f64);
                Some((error, BTreeMap::from([count, ("features.lambda".to_string(), lambda)])))
            };
            Some(lambdas.iter().copied().filter_map(tried).collect())
        };
        counts.into_par_iter().filter_map(of_count).collect::<Vec<_>>().into_iter().flatten().collect()
    }
}
