//! First steps, and cuts of residuals, that are tried.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::Stream;
use crate::methods::stream::{Loss, Step};
use crate::terms::Between;
use crate::terms::suggestion::{Candidate, with_own};

/// First steps that shrink, steps that do not, and cuts of residuals of a stream.
const STEPS: [f64; 7] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];
const CONSTANT_STEPS: [f64; 7] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02];
const CUTS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];

impl Stream {
    pub(super) fn tried<M>(&self, study: &Between<M>, rows: u64) -> Vec<Candidate> {
        let Some((forecast, mu)) = study.stream_forecast(self) else { return Vec::new() };
        let stated = self.settings.stated();
        let Loss::Huber { tau } = stated.loss else { return Vec::new() };
        let usual = if matches!(stated.step, Step::Constant { .. }) { &CONSTANT_STEPS } else { &STEPS };
        let lengths = with_own(usual, stated.step.length());
        let records = rows.saturating_mul(u64::from(study.number_of_sites()));
        let tried = |(length, tau): (f64, f64)| {
            let error = forecast.error_with(stated.step.with_length(length), Loss::Huber { tau }, records, mu).ok()?
                / forecast.zero();
            let settings = BTreeMap::from([("stream.step".to_string(), length), ("stream.tau".to_string(), tau)]);
            error.is_finite().then_some((error, settings))
        };
        let cuts = with_own(&CUTS, tau);
        let all: Vec<_> = lengths.into_iter().flat_map(|length| cuts.iter().map(move |tau| (length, *tau))).collect();
        all.into_par_iter().filter_map(tried).collect()
    }
}
