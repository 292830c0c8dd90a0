//! Rounds and sizes of batches that are tried.

use std::collections::BTreeMap;

use super::{PrivateFitTerms, Robust};
use crate::terms::Between;
use crate::terms::suggestion::Candidate;

/// Rounds that are tried.
const ROUNDS: [u32; 7] = [2, 3, 4, 5, 6, 8, 10];

impl Robust {
    pub(super) fn tried<M: Clone>(&self, study: &Between<M>, rows: u64) -> Vec<Candidate> {
        let own = study.method.terms.batch_rows;
        let tried = |rounds: u32, batch_rows: u64| {
            let mut other = study.clone();
            other.method.terms.batch_rows = batch_rows;
            let private = PrivateFitTerms { rounds, ..self.private.clone() };
            let error = other.foretold(&Robust { private, ..self.clone() }, rows)?;
            let mut settings = BTreeMap::from([("robust.private.rounds".to_string(), f64::from(rounds))]);
            if batch_rows != own {
                settings.insert("sites.batch_rows".to_string(), batch_rows as f64);
            }
            Some((error, settings))
        };
        // All of a site's batches cost as much as one, so one large batch has the least noise; the study's own comes first.
        let sizes = [own, rows.div_ceil(2), rows];
        ROUNDS.into_iter().flat_map(|rounds| sizes.map(|size| tried(rounds, size.max(own)))).flatten().collect()
    }
}
