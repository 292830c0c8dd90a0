//! Rounds and bounds on gradients that are tried.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::Em;
use crate::methods::em::forecast::Trials;
use crate::methods::em::{Estimator, Settings, Stated, averaged_rounds, clip_bound};
use crate::terms::Between;
use crate::terms::suggestion::{Search, Suggestion, listed, rounded, with_own};

/// Rounds that are tried.
const ROUNDS: [u32; 7] = [2, 4, 6, 10, 15, 22, 40];

impl Em {
    /// Compared on a few invented records; the best has the error of the forecast.
    pub(super) fn tried<M>(&self, study: &Between<M>, rows: u64, now: f64) -> Search {
        let stated = self.settings.stated();
        let (key, bounds) = match stated.estimator {
            Estimator::Clip { bound } => ("em.bound", around(bound, clip_bound(stated.columns, stated.tau))),
            Estimator::Catoni { scale, .. } => ("em.scale", around(scale, stated.tau.sqrt())),
            // Such a study is not private.
            Estimator::None => return Search::default(),
        };
        let with = |rounds: u32, bound: f64| {
            let estimator = match stated.estimator {
                Estimator::Clip { .. } => Estimator::Clip { bound },
                Estimator::Catoni { smoothing, .. } => Estimator::Catoni { scale: bound, smoothing },
                Estimator::None => Estimator::None,
            };
            let averaged = averaged_rounds(rounds);
            Settings::try_from(Stated { rounds, estimator, averaged, ..stated.clone() }).ok()
        };
        let size = (rows, study.number_of_sites());
        let length = study.private().map(|terms| self.length(&terms.stated.design));
        let trials = length.map(|length| Trials::new(&self.settings, size, study.site_mu(), length));
        let Some(Ok(trials)) = trials else { return Search::default() };
        let rounds: BTreeSet<u32> = ROUNDS.into_iter().chain([stated.rounds]).collect();
        let tried = |(rounds, bound): (u32, f64)| {
            let settings = with(rounds, bound)?;
            let error = trials.error(&settings, &self.start).ok()?;
            let keys = BTreeMap::from([("em.rounds".to_string(), f64::from(rounds)), (key.to_string(), bound)]);
            Some((error, settings, keys))
        };
        let all: Vec<_> =
            rounds.into_iter().flat_map(|rounds| bounds.iter().map(move |bound| (rounds, *bound))).collect();
        let all: Vec<_> = all.into_par_iter().filter_map(tried).collect();
        // Of those that are as good as the best, the first has the fewest rounds.
        let least = all.iter().map(|(error, _, _)| *error).fold(f64::INFINITY, f64::min);
        let best = all.iter().find(|(error, _, _)| *error <= 1.02 * least).and_then(|(_, settings, keys)| {
            let other = Em { settings: settings.clone(), start: self.start.clone() };
            Suggestion::of((study.foretold(&other, rows)?, keys.clone()), now)
        });
        Search { tried: listed(all.iter().map(|(_, _, keys)| keys)), suggested: best }
    }
}

/// Halves and doubles of the usual bound, and the study's own.
fn around(own: f64, usual: f64) -> Vec<f64> {
    with_own(&[0.125, 0.25, 0.5, 1.0, 2.0].map(|factor| rounded(factor * usual)), own)
}
