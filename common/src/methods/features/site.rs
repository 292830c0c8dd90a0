//! A site's statistics of random features, or its own solution in them, contributed once.

use nalgebra::DMatrix;

use crate::bounded::Bounded;
use crate::methods::features::hub::kind;
use crate::methods::features::{
    FeatureError, FeatureMap, Range, Statistics as Table, output_perturbation, shortened_ridge,
};
use crate::privacy::mechanism::{NoisedRelease, Query};
use crate::privacy::release::Released;
use crate::session::Abort;
use crate::star::message::{Body, Kind};
use crate::star::site::local::{Act, Batch, Content, Contribution, Input, LocalMethod, bug, enough};
use crate::study::{self, Release};

/// A site's contribution as its batches come: what is kept of them does not grow, with statistics.
pub(crate) struct Site {
    map: FeatureMap,
    ranges: Vec<Range>,
    outcome: Range,
    release: Release,
    lambda: f64,
    noised: bool,
    least: u64,
    records: u64,
    missing: u64,
    sum: Option<Bounded>,
    /// Of a solution: inputs in `[0, 1]` by rows, and outcomes in half ranges.
    inputs: Vec<f64>,
    outcomes: Vec<f64>,
    /// What is to be released in a private run.
    query: Option<Query>,
}

impl Site {
    pub(crate) fn new(features: &study::Features, noised: bool, least: u64) -> Site {
        Site {
            map: features.map.clone(),
            ranges: features.ranges.clone(),
            outcome: features.outcome,
            release: features.release,
            lambda: features.lambda,
            noised,
            least,
            records: 0,
            missing: 0,
            sum: None,
            inputs: Vec::new(),
            outcomes: Vec::new(),
            query: None,
        }
    }

    /// Takes rows in the columns' own units; values outside a range are cut to it.
    fn push(&mut self, x: &DMatrix<f64>, y: &[f64]) -> Result<(), FeatureError> {
        let scaled = DMatrix::from_fn(x.nrows(), x.ncols(), |i, j| match self.ranges.get(j) {
            Some(range) => range.scale(x[(i, j)]),
            None => f64::NAN,
        });
        let half = 0.5 * (self.outcome.high - self.outcome.low);
        let units: Vec<f64> = y.iter().map(|y| (y - self.outcome.low - half) / half).collect();
        match self.release {
            Release::Statistics => {
                let table = Table::of(&self.map, &scaled, &units)?;
                self.sum = Some(match self.sum.take() {
                    Some(sum) => sum.joined(&table).ok_or(FeatureError::NotFinite { what: "statistics" })?,
                    None => table,
                });
            }
            Release::Output => {
                self.inputs.extend(scaled.transpose().iter());
                self.outcomes.extend(units);
            }
        }
        self.records += x.nrows() as u64;
        Ok(())
    }

    /// What is to be released, before its noise, with its sensitivity.
    fn bounded(&self) -> Result<Bounded, FeatureError> {
        let nothing = FeatureError::Size { what: "rows, at least", expected: 1, actual: 0 };
        match self.release {
            Release::Statistics => self.sum.clone().ok_or(nothing),
            Release::Output => output_perturbation(&self.features()?, &self.outcomes, self.lambda),
        }
    }

    /// The features of the rows that were kept.
    fn features(&self) -> Result<DMatrix<f64>, FeatureError> {
        self.map.rows(&DMatrix::from_row_slice(self.outcomes.len(), self.ranges.len(), &self.inputs))
    }

    /// The contribution with noise, charged and stored.
    fn released(&self, noised: &NoisedRelease) -> Released<Body> {
        let released = match self.release {
            Release::Statistics => {
                Released::noised(noised, |_, value| Body::noised(Kind::FeatureStatistics, value.values()))
            }
            Release::Output => Released::noised(noised, |_, value| Body::noised(Kind::FeatureSolution, value.values())),
        };
        released.of_rows(self.records, Body::counted)
    }

    /// The contribution without noise.
    fn body(&self) -> Result<Body, FeatureError> {
        let values = match self.release {
            Release::Output => shortened_ridge(&self.features()?, &self.outcomes, self.lambda)?,
            Release::Statistics => self.bounded()?.values(),
        };
        let values = values.iter().copied().collect();
        Ok(Body { kind: kind(self.release), counts: vec![self.records], values })
    }

    fn contribute(&self, content: Content) -> Act {
        Act::Contribute(Contribution { missing: self.missing, ..Contribution::new(0, content, self.records) })
    }
}

impl LocalMethod for Site {
    fn gather(&mut self, batch: &Batch) -> Result<(), Abort> {
        self.missing += batch.missing;
        self.push(&batch.x, batch.y.as_slice()).map_err(bug)
    }

    fn gathered(&mut self) -> Result<(), Abort> {
        if self.records == 0 {
            return Err(Abort::OwnData("no row is complete".to_string()));
        }
        if self.noised {
            // Solving may fail as well, and is done before anybody could notice.
            self.query = Some(Query::bounded(&self.bounded().map_err(bug)?));
        }
        enough(self.records, self.least)
    }

    fn is_over(&self, first: u64) -> bool {
        first > 0
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        Ok(match (input, self.query.take()) {
            (Input::Begin(_), Some(query)) => Act::Release { index: 0, query },
            (Input::Begin(_), None) => self.contribute(Content::Plain(self.body().map_err(bug)?)),
            (Input::Granted(noised), _) => self.contribute(Content::Released(self.released(&noised))),
            (_, _) => Act::Finish(Vec::new()),
        })
    }
}
