//! A site's answers to coefficients: bounded sums of gradients, round by round.

use nalgebra::DMatrix;

use crate::methods::em::{EmError, Model, Records, Settings};
use crate::privacy::mechanism::{NoisedRelease, Query};
use crate::privacy::release::Released;
use crate::session::Abort;
use crate::star::message::{Body, Kind};
use crate::star::site::local::{Act, Batch, Content, Contribution, Input, LocalMethod, bug, enough, fault};
use crate::study;

/// The rows of a site, and how far it is.
pub(crate) struct Site {
    settings: Settings,
    noised: bool,
    least: u64,
    /// Rows as they are read, one after the other.
    rows: Vec<f64>,
    y: Vec<f64>,
    columns: usize,
    missing: u64,
    records: Option<Records>,
    /// The first round that is not answered.
    next: u64,
    /// Whether the rows were counted in a contribution.
    counted: bool,
}

impl Site {
    pub(crate) fn new(em: &study::Em, noised: bool, least: u64) -> Site {
        Site {
            settings: em.settings.clone(),
            noised,
            least,
            rows: Vec::new(),
            y: Vec::new(),
            columns: 0,
            missing: 0,
            records: None,
            next: 0,
            counted: false,
        }
    }

    /// Answers what the hub asks in a round.
    fn answer(&mut self, round: u64, body: &Body) -> Result<Act, Abort> {
        let beta = coefficients_of(body, self.settings.stated().columns).ok_or_else(|| fault("coefficients"))?;
        let unusable = |_: EmError| fault("coefficients that are numbers");
        let records = self.records()?;
        let bounded = self.settings.bounded_sum(records, beta).map_err(unusable)?;
        if self.noised {
            let sum = bounded.ok_or_else(|| bug("a private run without a bound"))?;
            self.next = round;
            return Ok(Act::Release { index: u32::try_from(round).unwrap_or(u32::MAX), query: Query::bounded(&sum) });
        }
        let sum = match bounded {
            Some(bounded) => bounded.values(),
            None => self.settings.plain_sum(records, beta).map_err(unusable)?,
        };
        let count = records.len() as u64;
        let body = Body { kind: Kind::GradientSum, counts: vec![count], values: sum.iter().copied().collect() };
        self.next = round;
        Ok(self.contribute(Content::Plain(body), count))
    }

    fn records(&self) -> Result<&Records, Abort> {
        self.records.as_ref().ok_or_else(|| bug("a round before its rows"))
    }

    fn contribute(&mut self, content: Content, records: u64) -> Act {
        let counted = std::mem::replace(&mut self.counted, true);
        let (rows, missing) = if counted { (0, 0) } else { (records, self.missing) };
        self.next += 1;
        Act::Contribute(Contribution { missing, ..Contribution::new(self.next - 1, content, rows) })
    }
}

/// An answer with noise, charged and stored.
fn released(noised: &NoisedRelease, records: u64) -> Released<Body> {
    Released::noised(noised, |_, value| Body::noised(Kind::GradientSum, value.values())).of_rows(records, Body::counted)
}

/// The coefficients in what the hub says, of a given number of columns.
fn coefficients_of(body: &Body, columns: usize) -> Option<&[f64]> {
    (body.kind == Kind::Coefficients && body.values.len() == columns).then_some(&body.values)
}

impl LocalMethod for Site {
    fn gather(&mut self, batch: &Batch) -> Result<(), Abort> {
        self.columns = batch.x.ncols();
        self.missing += batch.missing;
        self.rows.extend(batch.x.transpose().iter());
        self.y.extend(batch.y.iter());
        Ok(())
    }

    fn gathered(&mut self) -> Result<(), Abort> {
        let (rows, y) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.y));
        let x = DMatrix::from_row_slice(y.len(), self.columns, &rows);
        let records = match self.settings.stated().model {
            Model::GaussianMixture => Records::mixture(&x),
            Model::MixedRegressions => Records::regressions(&x, &y),
            Model::MissingCovariates => Records::with_missing(&x, &y),
        };
        let records = match records {
            Ok(records) if records.is_empty() => return Err(Abort::OwnData("no row is complete".to_string())),
            records => records.map_err(bug)?,
        };
        enough(records.len() as u64, self.least)?;
        self.records = Some(records);
        Ok(())
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        Ok(match input {
            Input::Begin(first) => {
                self.next = first;
                Act::Wait
            }
            // A later round than the next: others were closed while the line was lost.
            Input::Heard { number, body } if number >= self.next => self.answer(number, &body)?,
            Input::Granted(noised) => {
                let count = self.records()?.len() as u64;
                self.contribute(Content::Released(released(&noised, count)), count)
            }
            // Where an answer was not accepted the round goes on: another one would be another release of it.
            Input::Done
            | Input::Rows(_)
            | Input::Opened
            | Input::Heard { .. }
            | Input::Acknowledged
            | Input::Rejected
            | Input::Silence
            | Input::Kept(_)
            | Input::Noised(..) => Act::Wait,
        })
    }
}
