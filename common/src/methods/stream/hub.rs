//! A function that follows a stream of records: each record's part comes in, the function goes out again.

use serde::{Deserialize, Serialize};

use crate::fit::{Statistics, Termination};
use crate::methods::stream::forecast::Forecast;
use crate::methods::stream::{Average, Learner, Settings, StreamModel};
use crate::star::message::{Body, Kind};
use crate::star::method::{Method, Outcome, Shape};
use crate::study::{self, Fitted, Forming, Function, Guarantee, Sites, Study};

/// Most pictures of a function that forms; beyond it every other one goes.
const FORMING: usize = 12;

/// The method at the hub: its memory depends on the basis and on nothing else.
pub struct Stream {
    settings: Settings,
    average: Average,
    noised: bool,
    /// What to expect of a given number of records with noise, and the budget of one.
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
    /// What public facts alone say against a given number of records with noise, if they do.
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
}
