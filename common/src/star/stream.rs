//! A function that follows a stream of records: each record's part comes in, the function goes out again.

use serde::{Deserialize, Serialize};

use super::message::{Body, Kind};
use super::method::{Method, Outcome, Shape};
use crate::features::Range;
use crate::fit::{Statistics, Termination};
use crate::privacy::mechanism::records::{NoisedRecords, PerRecord};
use crate::privacy::mechanism::{Query, ReleaseError};
use crate::privacy::release::Released;
use crate::privacy::sampler::NoisePool;
use crate::report::{Fitted, Forming, Function, StreamModel};
use crate::stream::{Average, Forecast, Learner, Loss, Settings, StreamError};
use crate::study::{self, Guarantee, Sites, Study};

/// Most pictures of a function that forms; beyond it every other one goes.
const FORMING: usize = 12;

/// A message that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MakeError {
    /// Weights or covariates that do not fit.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Noise that cannot be added.
    #[error(transparent)]
    Release(#[from] ReleaseError),
}

/// How records become inputs and outcomes, and how their messages are made: what a site knows of the study.
#[derive(Debug, Clone)]
pub struct Maker {
    settings: Settings,
    ranges: Vec<Range>,
    outcome: Range,
}

impl Maker {
    /// From the study alone.
    pub fn new(stream: &study::Stream) -> Maker {
        Maker { settings: stream.settings.clone(), ranges: stream.ranges.clone(), outcome: stream.units() }
    }

    /// The settings of the stream.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A record in the units of the method: covariates in `[0, 1]`, cut to their ranges; the outcome in half ranges, not cut.
    pub fn scaled(&self, x: impl Iterator<Item = f64>, y: f64) -> (Vec<f64>, f64) {
        let x = self.ranges.iter().zip(x).map(|(range, x)| range.scale(x)).collect();
        let half = 0.5 * (self.outcome.high - self.outcome.low);
        (x, (y - self.outcome.low - half) / half)
    }

    /// Whether a covariate lies outside its public range.
    pub fn outside(&self, x: impl Iterator<Item = f64>) -> bool {
        self.ranges.iter().zip(x).any(|(range, x)| x < range.low || x > range.high)
    }

    /// The messages of some records in a row without noise, each with the weights that the ones before it have left; weights
    /// and `taken` are those of the hub.
    ///
    /// # Errors
    /// Weights or covariates of another length.
    pub fn body_of(&self, mut weights: Vec<f64>, taken: u64, records: &[(Vec<f64>, f64)]) -> Result<Body, StreamError> {
        let mut values = Vec::with_capacity(records.len() * weights.len());
        let private = matches!(self.settings.stated().loss, Loss::Huber { .. });
        for (at, (x, y)) in records.iter().enumerate() {
            let record = Some((x.as_slice(), *y));
            let message: Vec<f64> = match private {
                true => self.settings.message(&weights, record)?.values().iter().copied().collect(),
                false => self.settings.plain_message(&weights, record)?,
            };
            self.settings.step(&mut weights, taken + at as u64 + 1, &message)?;
            values.extend(message);
        }
        Ok(updates(records.len() as u64, values))
    }
}

impl Maker {
    /// What stands for the whole stream in the ledger: the message of no record, which tells nothing and has the sensitivity of all.
    ///
    /// # Errors
    /// A stream without a bound.
    pub fn opening(&self) -> Result<Query, StreamError> {
        let weights = vec![0.0; self.settings.basis().len()];
        Ok(Query::bounded(&self.settings.message(&weights, None)?))
    }

    /// The messages of some records in a row with noise, each with the weights that the ones before it have left. `None` in the place of a
    /// record is noise alone.
    ///
    /// # Errors
    /// Weights or covariates of another length, noise that cannot be added. Nothing may leave then.
    pub fn noised(
        &self,
        mut weights: Vec<f64>,
        taken: u64,
        records: &[Option<(Vec<f64>, f64)>],
        right: &mut PerRecord,
        pool: &mut NoisePool,
    ) -> Result<NoisedRecords, MakeError> {
        let mut noised = NoisedRecords::default();
        for (record, number) in records.iter().zip(taken.saturating_add(1)..) {
            let record = record.as_ref().map(|(x, y)| (x.as_slice(), *y));
            let message = self.settings.message(&weights, record)?;
            right.add(&Query::bounded(&message), pool, &mut noised)?;
            // Everybody sees the noised message, so whoever goes on from it tells nothing new.
            let sent = noised.values().len() - weights.len();
            self.settings.step(&mut weights, number, &noised.values()[sent..])?;
        }
        Ok(noised)
    }
}

/// Messages with noise as they travel, of a stream that was charged.
pub fn released(noised: &NoisedRecords) -> Released<Body> {
    Released::noised_records(noised, updates)
}

/// Messages of records as they travel.
pub fn updates(records: u64, values: Vec<f64>) -> Body {
    Body { kind: Kind::Updates, counts: vec![records], values }
}

/// Number of records so far and weights in what the hub says.
pub fn weights_of(body: &Body, length: usize) -> Option<(u64, &[f64])> {
    let records = body.counts.first().copied()?;
    (body.kind == Kind::Weights && body.values.len() == length).then_some((records, &body.values))
}

/// Records in contribution `number` of a site: one, two, four and so on up to `most`, as the first records move the function far and
/// must be heard of soon.
pub fn group(number: u64, most: u64) -> u64 {
    let doubled = if number < 40 { 1 << number } else { u64::MAX };
    doubled.clamp(1, most.max(1))
}

/// Records in all contributions before `number`.
pub fn before(number: u64, most: u64) -> u64 {
    let ramp = (0..number.min(40)).take_while(|at| group(*at, most) < most.max(1)).count() as u64;
    let small: u64 = (0..ramp).map(|at| group(at, most)).sum();
    small.saturating_add((number - ramp).saturating_mul(most.max(1)))
}

/// The method at the hub: its memory depends on the basis and on nothing else.
pub struct Stream {
    settings: Settings,
    average: Average,
    noised: bool,
    /// What to expect of so many records with noise, and the budget of one.
    forecast: Option<(Forecast, f64)>,
    most: usize,
    inputs: Function,
    model: StreamModel,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    learner: Learner,
    forming: Vec<Forming>,
    /// Number of records at which the next picture is taken.
    next: u64,
}

impl Stream {
    /// Before anything came.
    pub fn new(study: &Study<Sites>, stream: &study::Stream) -> Stream {
        let settings = stream.settings.clone();
        let model = StreamModel {
            study: study.digest().to_string(),
            columns: study.method.inputs(),
            ranges: stream.ranges.clone(),
            outcome: stream.units(),
            weights: vec![0.0; settings.basis().len()],
            settings: settings.clone(),
        };
        Stream {
            average: stream.average,
            noised: match study.guarantee {
                Guarantee::Plain => false,
                Guarantee::Private(_) => true,
            },
            forecast: study.stream_forecast(stream),
            most: usize::try_from(study.site_terms().batch_rows)
                .unwrap_or(usize::MAX)
                .saturating_mul(settings.basis().len()),
            inputs: Function::of(study, Fitted::Stream(model.clone())),
            model,
            state: State { learner: Learner::new(&settings), forming: Vec::new(), next: 1 },
            settings,
        }
    }

    fn now(&self) -> Fitted {
        Fitted::Stream(StreamModel { weights: self.state.learner.average(self.average), ..self.model.clone() })
    }
}

impl Method for Stream {
    fn shapes(&self) -> Vec<Shape> {
        vec![Shape { kind: Kind::Updates, counts: 1, values: self.most, unit: self.settings.basis().len() }]
    }

    fn take(&mut self, _site: &str, _number: u64, body: &Body) -> Result<(), String> {
        let width = self.settings.basis().len();
        let records = (body.values.len() / width) as u64;
        if body.counts.first() != Some(&records) {
            return Err(format!("expected {records} as the number of records, got {:?}", body.counts));
        }
        if let (Some(sensitivity), false) = (self.settings.sensitivity(), self.noised) {
            let limit = 0.5 * sensitivity;
            for message in body.values.chunks_exact(width) {
                let norm = message.iter().map(|value| value * value).sum::<f64>().sqrt();
                if norm > limit * (1.0 + 1e-9) {
                    return Err(format!("expected messages of norm at most {limit:.6}, got {norm:.6}"));
                }
            }
        }
        // All of them or none.
        let mut learner = self.state.learner.clone();
        for message in body.values.chunks_exact(width) {
            learner.apply(&self.settings, message).map_err(|error| error.to_string())?;
        }
        self.state.learner = learner;
        let records = self.state.learner.records();
        if records >= self.state.next {
            let curves = self.inputs.with(self.now());
            if let Some(first) = curves.slices.first() {
                self.state.forming.push(Forming { records, values: first.values.clone() });
            }
            self.state.next = records.saturating_mul(2);
            if self.state.forming.len() > FORMING {
                let mut at = 0;
                self.state.forming.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
            }
        }
        Ok(())
    }

    fn broadcast(&self) -> Option<(u64, Body)> {
        let records = self.state.learner.records();
        let values = self.state.learner.weights().to_vec();
        Some((records, Body { kind: Kind::Weights, counts: vec![records], values }))
    }

    fn remembers(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Option<String> {
        serde_json::to_string(&self.state).ok()
    }

    fn restore(&mut self, snapshot: &str) -> Result<(), String> {
        let state: State =
            serde_json::from_str(snapshot).map_err(|error| format!("the snapshot is damaged: {error}"))?;
        state.learner.check(&self.settings).map_err(|error| format!("the snapshot is damaged: {error}"))?;
        self.state = state;
        Ok(())
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let records = self.state.learner.records();
        if records == 0 {
            return Err("no record came".to_string());
        }
        let mut function = self.inputs.with(self.now());
        function.forming.clone_from(&self.state.forming);
        Ok(Outcome {
            termination: Termination::FixedRounds,
            coefficients: Vec::new(),
            statistics: Statistics { nobs: records, ..Statistics::default() },
            rounds: 0,
            consolidation: None,
            course: None,
            function: Some(function),
            notes: self
                .hopeless(records)
                .into_iter()
                .chain(["no standard errors: the function is what is estimated".to_string()])
                .collect(),
        })
    }
}

impl Stream {
    /// What public facts alone say against so many records with noise, if they do.
    fn hopeless(&self, records: u64) -> Option<String> {
        let (forecast, mu) = self.forecast.as_ref()?;
        let ((error, _), zero) = (forecast.error(records, *mu), forecast.zero());
        // What is not finite is no better than anything.
        let better = error < zero;
        (!better).then(|| {
            format!(
                "warning: this run was hopeless by public facts alone: with {records} records and this noise the function is expected to be \
                 {error:.2} half ranges of the outcome off, where it is assumed to vary by {zero:.2} itself (`privacy.design` of the study): \
                 the middle of the range would have done as well, for nothing"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::SiteMethod;

    fn hub(more: &str) -> Stream {
        let text = format!(
            "id = \"s\"\nprotocol = \"stream\"\nmode = \"private\"\n[workers.w]\ncertificate = \"w\"\n[model]\nfeatures = [\"a\"]\n\
             [outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 1]\n[stream]\ngrid = 12\n[privacy]\ndelta = 1e-6\n{more}"
        );
        let study = Study::parse(&text).unwrap().sites().unwrap();
        let SiteMethod::Stream(stream) = &study.method.method else { panic!("{study:?}") };
        Stream::new(&study, stream)
    }

    #[test]
    fn a_stream_that_was_hopeless_by_public_facts_says_so_and_others_do_not() {
        let (thin, rich) = (hub("epsilon = 1.0"), hub("epsilon = 8.0"));
        let warning = thin.hopeless(500).unwrap();
        assert!(warning.starts_with("warning: this run was hopeless") && warning.contains("500 records"), "{warning}");
        assert!(thin.hopeless(10_000_000).is_none() && rich.hopeless(50_000).is_none());
        // What is worth finding is the study's to declare.
        let clear = hub("epsilon = 1.0\n[privacy.design]\nsignal = 50.0");
        assert!(clear.hopeless(500).is_none());
    }

    #[test]
    fn contributions_of_a_stream_grow_to_their_size_and_every_record_has_one_place() {
        for most in [1, 2, 3, 100, 1000] {
            let mut records = 0;
            for number in 0..50 {
                assert_eq!(before(number, most), records, "{most} {number}");
                records += group(number, most);
            }
        }
        assert_eq!((group(0, 100), group(6, 100), group(7, 100), group(u64::MAX, 100)), (1, 64, 100, 100));
    }
}
