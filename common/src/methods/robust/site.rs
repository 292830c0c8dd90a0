//! A site's estimates of its batches: plain ones by themselves, private ones release by release.

use std::collections::VecDeque;

use crate::methods::robust::hub::{body_of, private_body};
use crate::methods::robust::plan::{Fit, Need, Plan};
use crate::methods::robust::{BatchError, FitSettings, fit, minimum_rows};
use crate::privacy::bounds::{BoundsError, ClippedOutcome, ClippedRows, OutcomeBounds, RowBounds};
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::release::Released;
use crate::session::Abort;
use crate::star::site::local::{Act, Batch, Content, Contribution, Fitting, Input, LocalMethod, bug, enough};
use crate::study::{self, Sites, Study, StudyError};

/// Batches that are fitted as they are read, each by itself.
pub(crate) struct Plain {
    settings: FitSettings,
    with_gram: bool,
    least: u64,
    first: u64,
}

impl Plain {
    pub(crate) fn new(robust: &study::Robust, least: u64) -> Plain {
        Plain { settings: robust.fit.clone(), with_gram: robust.gram, least, first: 0 }
    }
}

impl LocalMethod for Plain {
    fn gathers(&self) -> bool {
        false
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        Ok(match input {
            Input::Rows(None) => Act::Finish(Vec::new()),
            Input::Rows(Some(batch)) if batch.number >= self.first => {
                let (settings, with_gram, least) = (self.settings.clone(), self.with_gram, self.least);
                Act::Fit(Fitting::new(move || fitted(batch, &settings, with_gram, least)))
            }
            Input::Begin(first) => {
                self.first = first;
                Act::Read(None)
            }
            Input::Done
            | Input::Rows(Some(_))
            | Input::Opened
            | Input::Heard { .. }
            | Input::Acknowledged
            | Input::Rejected
            | Input::Silence
            | Input::Granted(_)
            | Input::Kept(_)
            | Input::Noised(..) => Act::Read(None),
        })
    }
}

/// The estimate of a batch; none of one with fewer rows than the site's policy, `least`, lets take part.
fn fitted(batch: Batch, settings: &FitSettings, with_gram: bool, least: u64) -> Contribution {
    let rows = batch.y.len() as u64;
    let q = batch.x.ncols() + usize::from(settings.intercept);
    let needed = usize::try_from(least).unwrap_or(usize::MAX).max(minimum_rows(q));
    let fitted = match (rows as usize) < needed {
        true => Err(BatchError::TooFewRows { rows: batch.y.len(), needed }),
        false => fit(&batch.x, &batch.y, settings),
    };
    let (first, last) = batch.place;
    let unfit = fitted.as_ref().err().map(|error| format!("batch {} ({first} to {last}): {error}", batch.number));
    let content = Content::Plain(body_of(fitted.as_ref(), rows, with_gram));
    Contribution { missing: batch.missing, unfit, ..Contribution::new(batch.number, content, rows) }
}

/// Batches that are fitted by noised releases, one after the other. The budget of all of them is reserved before the first.
pub(crate) struct Private {
    study: Study<Sites>,
    robust: study::Robust,
    bounds: RowBounds,
    outcome: OutcomeBounds,
    least: u64,
    sites: u32,
    batches: VecDeque<(Plan, ClippedRows, ClippedOutcome)>,
    /// Batches of all sites, each taken to have as many as this one.
    together: u64,
    first: u64,
    /// The batch at hand.
    number: u64,
    /// Its first release.
    offset: u32,
    fit: Option<(Fit, u64, u32)>,
}

impl Private {
    pub(crate) fn new(study: &Study<Sites>, robust: &study::Robust, least: u64) -> Result<Private, StudyError> {
        let unusable =
            |error: BoundsError| StudyError::Value { key: "columns".to_string(), problem: error.to_string() };
        Ok(Private {
            study: study.clone(),
            robust: robust.clone(),
            bounds: study.batch_bounds(robust).map_err(unusable)?,
            outcome: study.outcome_bounds().map_err(unusable)?,
            least,
            sites: study.number_of_sites(),
            batches: VecDeque::new(),
            together: 0,
            first: 0,
            number: 0,
            offset: 0,
            fit: None,
        })
    }

    /// What the batch at hand needs, or the next one where there is none.
    fn go_on(&mut self) -> Result<Act, Abort> {
        loop {
            let Some((fit, rows, releases)) = &self.fit else {
                let Some((plan, x, y)) = self.batches.pop_front() else { return Ok(Act::Finish(Vec::new())) };
                let releases = u32::try_from(plan.releases().releases().len()).unwrap_or(u32::MAX);
                // What the hub has needs no second fit; its releases keep their places.
                match self.number < self.first {
                    true => {
                        self.number += 1;
                        self.offset += releases;
                    }
                    false => {
                        let rows = x.len() as u64;
                        self.fit = Some((Fit::new(plan, x, y).map_err(bug)?, rows, releases));
                    }
                }
                continue;
            };
            if let Need::Release { index, query } = fit.need().map_err(bug)? {
                return Ok(Act::Release { index: self.offset + index, query });
            }
            let estimate = fit.estimate(self.together).ok_or_else(|| bug("a fit without an estimate"))?;
            let estimate = estimate.on_original_scale(&self.bounds, &self.outcome);
            let content = Content::Released(Released::post_processed(&estimate, private_body));
            let contribution = Contribution::new(self.number, content, *rows);
            self.number += 1;
            self.offset += releases;
            self.fit = None;
            return Ok(Act::Contribute(contribution));
        }
    }
}

impl LocalMethod for Private {
    fn gather(&mut self, batch: &Batch) -> Result<(), Abort> {
        let rows = batch.y.len() as u64;
        enough(rows, self.least)?;
        let plan = self.study.batch_plan(&self.robust, rows).map_err(|error| Abort::Refused(error.to_string()))?;
        let (x, y) = ClippedRows::with_outcome(&self.bounds, &batch.x, &self.outcome, batch.y.as_slice());
        self.batches.push_back((plan, x, y));
        Ok(())
    }

    fn gathered(&mut self) -> Result<(), Abort> {
        if self.batches.is_empty() {
            return Err(Abort::OwnData("there is no row".to_string()));
        }
        self.together = (self.batches.len() as u64).saturating_mul(u64::from(self.sites));
        Ok(())
    }

    fn plan(&self) -> Option<ReleasePlan> {
        let plans: Vec<ReleasePlan> = self.batches.iter().map(|(plan, ..)| plan.releases().clone()).collect();
        Some(ReleasePlan::of_parts(&plans))
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        match (input, &mut self.fit) {
            (Input::Begin(first), _) => self.first = first,
            (Input::Granted(noised), Some((fit, ..))) => {
                let index = noised.receipt().index.saturating_sub(self.offset);
                fit.supply(&noised, index).map_err(bug)?;
            }
            (_, _) => {}
        }
        self.go_on()
    }
}
