//! What other settings and sizes would give, from public facts and the declared design alone: what `privacy plan` adds to its forecast.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::Serialize;

use super::horizontal::{Robust, SiteMethod, Sites};
use super::{
    DesignTerms, Em, Features, Guarantee, PrivacyTerms, PrivateFitTerms, PrivateTerms, Release, Stream, Study, Vertical,
};
use crate::id::Role;
use crate::methods::em::{self, Estimator, Trials, averaged_rounds, clip_bound};
use crate::methods::stream::{Loss, Step};
use crate::privacy::bounds::RowBounds;

/// Rows, of a site or of both parties, that the table has.
const ROWS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
/// Rows of models with something hidden, whose forecast fits invented records.
const FEW_ROWS: [u64; 3] = [300, 1_000, 3_000];
/// Rows of functions, whose forecast takes the spectrum of their features apart each time.
const FUNCTION_ROWS: [u64; 2] = [10_000, 100_000];
/// Epsilons that the table has beside the study's own.
const EPSILONS: [f64; 4] = [0.5, 1.0, 3.0, 10.0];
/// Epsilons where a forecast takes its time.
const FEW_EPSILONS: [f64; 3] = [1.0, 3.0, 10.0];
/// Rounds and cuts that are tried.
const ROUNDS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 10];
const CLIPS: [f64; 9] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0];
/// Rounds of models with something hidden.
const EM_ROUNDS: [u32; 7] = [2, 4, 6, 10, 15, 22, 40];
/// Numbers of random features.
const FEATURES: [usize; 8] = [4, 6, 10, 20, 30, 50, 100, 200];
/// Ridges of pooled statistics, and of sites' own solutions.
const STATISTICS_RIDGES: [f64; 4] = [0.0, 0.001, 0.01, 0.1];
const OUTPUT_RIDGES: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];
/// First steps that shrink, steps that do not, and cuts of residuals of a stream.
const STEPS: [f64; 7] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];
const CONSTANT_STEPS: [f64; 7] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02];
const CUTS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// Correlation that settings are compared at where none is declared.
const CORRELATION: f64 = 0.3;
/// Quantile of the standard normal law that 95 % lie below.
const UPPER: f64 = 1.644_854;

/// Expected error by rows and epsilon, as a share of the length of what is sought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorTable {
    /// The columns.
    pub epsilons: Vec<f64>,
    /// One for each number of rows.
    pub rows: Vec<ErrorRow>,
    /// The correlation between columns that was assumed, where that is asked.
    pub correlation: Option<f64>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorRow {
    /// Rows of a site, or of both parties.
    pub rows: u64,
    /// An error for each epsilon; none where a run would be refused.
    pub relative_errors: Vec<Option<f64>>,
}

/// Settings that are expected to do better than the study's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// Settings by the key of the study.
    pub settings: BTreeMap<String, f64>,
    /// The error that is expected with them.
    pub relative_error: f64,
    /// The error that is expected as the study is.
    pub relative_error_now: f64,
}

/// Settings that were tried, and the best of them where it is clearly better than the study's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Search {
    /// Values by the key of the study; empty where nothing can be tried, as a run would be refused or no error is foretold.
    pub tried: BTreeMap<String, Vec<f64>>,
    /// Settings that are expected to do at least a twentieth better.
    pub suggested: Option<Suggestion>,
}

/// Settings with the error that is expected of them.
type Candidate = (f64, BTreeMap<String, f64>);

impl Study<Vertical> {
    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let correlation = Some(self.design_correlation());
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts(rows, &ROWS), EPSILONS.to_vec(), own, correlation, |epsilon, rows| {
            let guarantee = Guarantee::Private(self.private()?.at(epsilon)?);
            Study { guarantee, ..self.clone() }.foretold(rows)
        })
    }

    /// Rounds, cut and norm: what was tried, and what is expected to do better.
    pub fn search(&self, rows: u64) -> Search {
        Search::of(self.candidates(rows), self.foretold(rows))
    }

    fn design_correlation(&self) -> f64 {
        self.private().and_then(|terms| terms.stated.design.correlation).unwrap_or(CORRELATION)
    }

    /// The expected error of so many rows, as a share of what is sought; none where a run would be refused.
    fn foretold(&self, rows: u64) -> Option<f64> {
        let plan = self.private_plan(rows).ok()?;
        self.foretold_error(&plan, self.design_correlation()).ok().filter(|error| error.is_finite())
    }

    fn candidates(&self, rows: u64) -> Vec<Candidate> {
        let Some((terms, (shortened, design, norms))) = self.private().zip(self.shortened()) else { return Vec::new() };
        let rounds = ROUNDS.into_iter().filter(|rounds| *rounds <= 4);
        let all = rounds.flat_map(|rounds| CLIPS.map(|clip| (rounds, clip)));
        let tried = |(rounds, clip): (u32, f64)| {
            let stated = PrivacyTerms { rounds, clip, design: design.clone(), ..terms.stated.clone() };
            let guarantee = Guarantee::Private(PrivateTerms { stated, ..terms.clone() });
            let error = (Study { guarantee, ..shortened.clone() }).foretold(rows)?;
            let mut settings = norms.clone();
            settings.insert("privacy.rounds".to_string(), f64::from(rounds));
            settings.insert("privacy.clip".to_string(), clip);
            Some((error, settings))
        };
        all.filter_map(tried).collect()
    }

    /// The study with shorter rows, the design that they then have, and both as settings. A norm can be suggested where it is declared how
    /// long rows are: the one that one row in twenty passes.
    fn shortened(&self) -> Option<(Study<Vertical>, DesignTerms, BTreeMap<String, f64>)> {
        let (mut shortened, mut design, mut norms) =
            (self.clone(), self.private()?.stated.design.clone(), BTreeMap::new());
        if let Some(square) = design.mean_square {
            let bounds = [Role::Alice, Role::Bob].map(|role| self.row_bounds(role));
            let widest = bounds.iter().flatten().map(|bounds| bounds.names().len()).min()?;
            let factor = (square * upper_square(widest)).sqrt();
            if factor < 0.97 {
                for (role, bounds) in [Role::Alice, Role::Bob].into_iter().zip(&bounds) {
                    let norm = rounded(factor * bounds.as_ref().ok().map(RowBounds::radius)?);
                    shortened.method.parties.get_mut(&role)?.row_norm = Some(norm);
                    norms.insert(format!("parties.{role}.row_norm"), norm);
                }
                let square = rounded(square / (factor * factor));
                design.mean_square = Some(square);
                norms.insert("privacy.design.mean_square".to_string(), square);
            }
        }
        Some((shortened, design, norms))
    }
}

impl Study<Sites> {
    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let (counts, epsilons) = match &self.method.method {
            SiteMethod::Robust(_) => (counts(rows, &ROWS), EPSILONS.to_vec()),
            SiteMethod::Em(_) => (counts(0, &FEW_ROWS), FEW_EPSILONS.to_vec()),
            SiteMethod::Features(_) | SiteMethod::Stream(_) => (counts(rows, &FUNCTION_ROWS), FEW_EPSILONS.to_vec()),
        };
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts, epsilons, own, None, |epsilon, rows| self.at(epsilon)?.foretold(rows))
    }

    /// The settings of the study's method: what was tried, and what is expected to do better.
    pub fn search(&self, rows: u64) -> Search {
        // Nothing is compared where the study's own error cannot be foretold.
        let Some(now) = self.foretold(rows) else { return Search::default() };
        let candidates = match &self.method.method {
            SiteMethod::Robust(robust) => self.robust_candidates(robust, rows),
            SiteMethod::Em(em) => return self.em_search(em, rows, now),
            SiteMethod::Features(features) => self.features_candidates(features, rows),
            SiteMethod::Stream(stream) => self.stream_candidates(stream, rows),
        };
        Search::of(candidates, Some(now))
    }

    /// The same study with another epsilon, and what follows from it.
    fn at(&self, epsilon: f64) -> Option<Study<Sites>> {
        let guarantee = Guarantee::Private(self.private()?.at(epsilon)?);
        let mut other = self.clone();
        if let SiteMethod::Stream(stream) = &self.method.method {
            other.method.method = SiteMethod::Stream(stream.under(&guarantee)?);
        }
        Some(Study { guarantee, ..other })
    }

    /// The expected error of so many rows, as a share of what is sought; none where a run would be refused.
    fn foretold(&self, rows: u64) -> Option<f64> {
        self.expectation(rows).ok().map(|expected| expected.relative_error).filter(|error| error.is_finite())
    }

    fn robust_candidates(&self, robust: &Robust, rows: u64) -> Vec<Candidate> {
        let own = self.method.terms.batch_rows;
        let tried = |rounds: u32, batch_rows: u64| {
            let mut other = self.clone();
            let private = PrivateFitTerms { rounds, ..robust.private.clone() };
            other.method.method = SiteMethod::Robust(Robust { private, ..robust.clone() });
            other.method.terms.batch_rows = batch_rows;
            let error = other.foretold(rows)?;
            let mut settings = BTreeMap::from([("robust.private.rounds".to_string(), f64::from(rounds))]);
            if batch_rows != own {
                settings.insert("sites.batch_rows".to_string(), batch_rows as f64);
            }
            Some((error, settings))
        };
        // All of a site's batches cost as much as one, so one large batch has the least noise; the study's own comes first.
        let sizes = [own, rows.div_ceil(2), rows];
        let all = ROUNDS.into_iter().filter(|rounds| *rounds >= 2);
        all.flat_map(|rounds| sizes.map(|size| tried(rounds, size.max(own)))).flatten().collect()
    }

    /// Rounds, and the bound on gradients, compared on a few invented records; the best of them has the error of [`Study::expectation`].
    fn em_search(&self, em: &Em, rows: u64, now: f64) -> Search {
        let stated = em.settings.stated();
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
            em::Settings::try_from(em::Stated { rounds, estimator, averaged, ..stated.clone() }).ok()
        };
        let size = (rows, self.number_of_sites());
        let trials = self
            .private()
            .map(|terms| Trials::new(&em.settings, size, self.site_mu(), terms.stated.design.hidden_length(em)));
        let Some(Ok(trials)) = trials else { return Search::default() };
        let rounds: BTreeSet<u32> = EM_ROUNDS.into_iter().chain([stated.rounds]).collect();
        let tried = |(rounds, bound): (u32, f64)| {
            let settings = with(rounds, bound)?;
            let error = trials.error(&settings, &em.start).ok()?;
            let keys = BTreeMap::from([("em.rounds".to_string(), f64::from(rounds)), (key.to_string(), bound)]);
            Some((error, settings, keys))
        };
        let all: Vec<_> =
            rounds.into_iter().flat_map(|rounds| bounds.iter().map(move |bound| (rounds, *bound))).collect();
        let all: Vec<_> = all.into_par_iter().filter_map(tried).collect();
        // Of those that are as good as the best, the first has the fewest rounds.
        let least = all.iter().map(|(error, _, _)| *error).fold(f64::INFINITY, f64::min);
        let best = all.iter().find(|(error, _, _)| *error <= 1.02 * least).and_then(|(_, settings, keys)| {
            let mut other = self.clone();
            other.method.method = SiteMethod::Em(Em { settings: settings.clone(), start: em.start.clone() });
            Suggestion::of((other.foretold(rows)?, keys.clone()), now)
        });
        Search { tried: listed(all.iter().map(|(_, _, keys)| keys)), suggested: best }
    }

    /// Number of features, and ridge.
    fn features_candidates(&self, features: &Features, rows: u64) -> Vec<Candidate> {
        let Some(forecast) = self.function_forecast(features) else { return Vec::new() };
        let own = features.map.count();
        let counts: BTreeSet<usize> = FEATURES.into_iter().filter(|count| *count < own).chain([own]).collect();
        let ridges: &[f64] = match features.release {
            Release::Statistics => &STATISTICS_RIDGES,
            Release::Output => &OUTPUT_RIDGES,
        };
        let lambdas = with_own(ridges, features.lambda);
        let of_count = |count: usize| -> Option<Vec<Candidate>> {
            let (part, map) = (forecast.with_features(count)?, features.map.of_size(count).ok()?);
            let tried = |lambda: f64| {
                let other = Features { map: map.clone(), lambda, ..features.clone() };
                let predicted = self.predict_features(&part, &other, rows).ok()?;
                let error = Some(predicted.error / predicted.zero).filter(|error| error.is_finite())?;
                let count = ("features.count".to_string(), count as f64);
                Some((error, BTreeMap::from([count, ("features.lambda".to_string(), lambda)])))
            };
            Some(lambdas.iter().copied().filter_map(tried).collect())
        };
        counts.into_par_iter().filter_map(of_count).collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The first step, and the cut of residuals.
    fn stream_candidates(&self, stream: &Stream, rows: u64) -> Vec<Candidate> {
        let Some((forecast, mu)) = self.stream_forecast(stream) else { return Vec::new() };
        let stated = stream.settings.stated();
        let Loss::Huber { tau } = stated.loss else { return Vec::new() };
        let steps = match stated.step {
            Step::Root { length } => with_own(&STEPS, length),
            Step::Constant { length } => with_own(&CONSTANT_STEPS, length),
        };
        let records = rows.saturating_mul(u64::from(self.number_of_sites()));
        let tried = |(length, tau): (f64, f64)| {
            let step = match stated.step {
                Step::Root { .. } => Step::Root { length },
                Step::Constant { .. } => Step::Constant { length },
            };
            let error = forecast.error_with(step, Loss::Huber { tau }, records, mu).ok()? / forecast.zero();
            let settings = BTreeMap::from([("stream.step".to_string(), length), ("stream.tau".to_string(), tau)]);
            error.is_finite().then_some((error, settings))
        };
        let cuts = with_own(&CUTS, tau);
        let all: Vec<_> = steps.into_iter().flat_map(|length| cuts.iter().map(move |tau| (length, *tau))).collect();
        all.into_par_iter().filter_map(tried).collect()
    }
}

/// Halves and doubles of the usual bound, and the study's own.
fn around(own: f64, usual: f64) -> Vec<f64> {
    with_own(&[0.125, 0.25, 0.5, 1.0, 2.0].map(|factor| rounded(factor * usual)), own)
}

/// These values and the study's own, which stands for those that differ from it by less than a twentieth.
fn with_own(values: &[f64], own: f64) -> Vec<f64> {
    let mut all: Vec<f64> = values.iter().copied().filter(|value| (value - own).abs() > 0.05 * own).collect();
    all.push(own);
    all.sort_by(f64::total_cmp);
    all
}

/// The values of every key, in order.
fn listed<'a>(settings: impl Iterator<Item = &'a BTreeMap<String, f64>>) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, value) in settings.flatten() {
        let values = all.entry(key.clone()).or_default();
        if let Err(place) = values.binary_search_by(|known| known.total_cmp(value)) {
            values.insert(place, *value);
        }
    }
    all
}

/// Numbers of rows, with the study's own unless it is 0.
fn counts(own: u64, all: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = all.iter().copied().chain(Some(own).filter(|rows| *rows > 0)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The square, in means, that the squared length of a normal row of so many columns passes once in twenty (Wilson and Hilferty).
fn upper_square(columns: usize) -> f64 {
    let spread = 2.0 / (9.0 * columns.max(1) as f64);
    (1.0 - spread + UPPER * spread.sqrt()).powi(3)
}

/// Three significant digits, so that a setting can be typed.
fn rounded(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().log10().floor() - 2.0);
    format!("{:.6}", (value / unit).round() * unit).parse().unwrap_or(value)
}

impl ErrorTable {
    fn new(
        counts: Vec<u64>,
        mut epsilons: Vec<f64>,
        own: Option<f64>,
        correlation: Option<f64>,
        error: impl Fn(f64, u64) -> Option<f64>,
    ) -> ErrorTable {
        epsilons.extend(own);
        epsilons.sort_by(f64::total_cmp);
        epsilons.dedup();
        let row = |rows: u64| ErrorRow {
            rows,
            relative_errors: epsilons.iter().map(|epsilon| error(*epsilon, rows)).collect(),
        };
        ErrorTable { rows: counts.into_iter().map(row).collect(), epsilons: epsilons.clone(), correlation }
    }

    /// The table as text, its rows indented by two.
    pub fn text(&self) -> String {
        let assumed = self.correlation.map(|correlation| format!(", at correlation {correlation}")).unwrap_or_default();
        let mut text = format!(
            "\nExpected error by rows and epsilon, relative to the length of what is sought{assumed}; all else as in the study\n"
        );
        let cells: String = self.epsilons.iter().map(|epsilon| format!("{:>10}", format!("{epsilon}"))).collect();
        text.push_str(&format!("  {:>10}{cells}\n", "rows"));
        for row in &self.rows {
            let cell = |error: &Option<f64>| match error {
                Some(error) => format!("{:.1} %", 100.0 * error),
                None => "refused".to_string(),
            };
            let cells: String = row.relative_errors.iter().map(|error| format!("{:>10}", cell(error))).collect();
            text.push_str(&format!("  {:>10}{cells}\n", row.rows));
        }
        text
    }
}

impl Search {
    fn of(candidates: Vec<Candidate>, now: Option<f64>) -> Search {
        let Some(now) = now else { return Search::default() };
        let tried = listed(candidates.iter().map(|(_, settings)| settings));
        let best = candidates.into_iter().min_by(|left, right| left.0.total_cmp(&right.0));
        Search { tried, suggested: best.and_then(|best| Suggestion::of(best, now)) }
    }

    /// The suggestion, or what was tried, in a sentence.
    pub fn text(&self) -> String {
        if let Some(suggestion) = &self.suggested {
            return suggestion.text();
        }
        if self.tried.is_empty() {
            return String::new();
        }
        let of_key = |(key, values): (&String, &Vec<f64>)| {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            format!("{key} {}", values.join(", "))
        };
        let tried: Vec<String> = self.tried.iter().map(of_key).collect();
        format!(
            "Nothing that was tried is expected to do at least a twentieth better than the study's settings: {}.\n",
            tried.join("; ")
        )
    }
}

impl Suggestion {
    fn of(best: Candidate, now: f64) -> Option<Suggestion> {
        let (relative_error, settings) = best;
        (relative_error < 0.95 * now).then_some(Suggestion { settings, relative_error, relative_error_now: now })
    }

    /// The suggestion in a sentence.
    pub fn text(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!(
            "Suggested, from the same assumptions: {}. Expected error {:.1} % in place of {:.1} %.\n",
            settings.join(", "),
            100.0 * self.relative_error,
            100.0 * self.relative_error_now
        )
    }
}

#[cfg(test)]
mod tests;
