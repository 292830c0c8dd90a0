//! The list of the fits of a run: which there are, at what each begins, and what it leaves.

use nalgebra::DVector;

use super::super::block::{Block, Tables};
use super::super::message::FitEnd;
use super::super::penalty::{self, Penalty};
use super::super::prepare::Encoded;
use super::{Fits, Fitted, Job, Site};
use crate::fit::Termination;
use crate::glm::Family;
use crate::linalg::Values;
use crate::session::Abort;
use crate::study::{Study, Vertical};

impl Fits {
    pub(in super::super) fn position(&self) -> (usize, usize) {
        (self.current + 1, self.jobs.len())
    }

    pub(in super::super) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The penalty of the fit to all rows at this place on the path.
    pub(in super::super) fn lambda_of(&self, fit: usize) -> Option<f64> {
        self.jobs.iter().filter(|job| job.fold.is_none()).nth(fit)?.lambda
    }

    pub(in super::super) fn own_largest(&self) -> f64 {
        self.own_largest
    }

    pub(in super::super) fn take_largest(&mut self, peer: f64) {
        self.path_top = peer;
    }

    pub(in super::super) fn set_fold_totals(&mut self, totals: Vec<f64>) {
        self.fold_totals = totals;
    }

    /// Settles what is known before the first fit: the null model, and the list of fits where lambda is given.
    pub(in super::super) fn begin(&mut self, encoded: &mut Encoded) -> Result<(), Abort> {
        let intercept = self.study.method.intercept;
        let block = &mut encoded.block;
        self.base_weights = block.outcome().weights.clone().map(Values::from);
        self.base_spread = block.outcome().spread;
        if self.study.needs_path() {
            self.own_largest = self.null_gradient(block, intercept);
        } else {
            self.list_jobs(given_lambdas(&self.study));
        }
        Ok(())
    }

    /// The largest mean score of the own standardised columns at the null model.
    fn null_gradient(&mut self, block: &mut Block, intercept: bool) -> f64 {
        let hidden_at_peer = !self.study.is_first(self.role)
            && self.study.method.outcome.held_by.is_alone()
            && block.outcome().family == Family::Gaussian;
        let constant = block.null_intercept(intercept && !hidden_at_peer);
        let mut beta = DVector::zeros(block.columns());
        if block.has_intercept() {
            beta[0] = constant;
        } else if !hidden_at_peer {
            block.take(vec![constant; block.rows()], 0.0);
        }
        let pass = block.pass(&beta);
        block.take(Values::default(), 0.0);
        let units = block.units();
        let scores = pass.gradient.iter().zip(&units).filter(|(_, unit)| **unit > 0.0);
        scores.map(|(score, unit)| (score / unit).abs() / block.weight_sum()).fold(0.0, f64::max)
    }

    /// Lists the fits once both sides know each other's largest gradient.
    pub(in super::super) fn settle_path(&mut self, rows: usize) -> Result<(), Abort> {
        let Some(terms) = &self.study.method.penalty else {
            return Err(Abort::Bug("a path without a penalty".to_string()));
        };
        let top = self.own_largest.max(self.path_top);
        let columns = self.columns.0 + self.columns.1 - usize::from(self.study.method.intercept);
        self.list_jobs(penalty::path(top, terms.alpha, rows, columns, 100).into_iter().map(Some).collect());
        Ok(())
    }

    fn list_jobs(&mut self, lambdas: Vec<Option<f64>>) {
        let folds = self.study.method.penalty.as_ref().and_then(|penalty| penalty.cv).unwrap_or(0);
        self.jobs = std::iter::once(None)
            .chain((1..=folds).map(Some))
            .flat_map(|fold| lambdas.iter().map(move |lambda| Job { fold, lambda: *lambda }))
            .collect();
    }

    /// Prepares the block for the present fit.
    pub(super) fn enter(&mut self, site: &mut Site<'_>) -> Result<bool, Abort> {
        let job = self.jobs.get(self.current).copied();
        let Some(job) = job else {
            return Err(Abort::Bug("no fit is left".to_string()));
        };
        let before = self.current.checked_sub(1).and_then(|index| self.jobs.get(index));
        let same_rows = before.is_some_and(|before| before.fold == job.fold);
        let block = &mut *site.block;
        if !same_rows && !(self.restarted && self.current == 0) {
            if let Some(fold) = job.fold {
                let folds = site.folds.ok_or_else(|| Abort::Bug("no folds".to_string()))?;
                let base = self.base_weights.as_ref();
                let kept = folds
                    .iter()
                    .enumerate()
                    .map(|(i, other)| if *other == fold { 0.0 } else { base.map_or(1.0, |base| base[i]) });
                block.reweight(Some(kept.collect()), self.base_spread);
                match self.fold_totals.get(fold as usize - 1) {
                    Some(total) => block.set_spread(positive((total / block.weight_sum()).sqrt())),
                    None => block.measure_spread(self.study.method.intercept),
                }
            }
            if let Some(kit) = &self.tables {
                let tables: Tables = kit.tables(block, job.fold);
                block.tabulate(tables);
            }
            block.take(Values::default(), 0.0);
            let mut start = DVector::zeros(block.columns());
            if block.has_intercept() {
                start[0] = block.null_intercept(true) - self.tables.as_ref().map_or(0.0, |kit| kit.centre);
            }
            block.place(start);
        }
        let warm = same_rows || (self.restarted && self.current == 0);
        if let (Some(lambda), Some(terms)) = (job.lambda, &self.study.method.penalty) {
            let spread = if block.outcome().family == Family::Gaussian { block.outcome().spread } else { 1.0 };
            if !warm || self.units.is_empty() {
                self.units = block.units();
            }
            block.penalise(Some(Penalty::new(lambda, terms.alpha, spread, self.units.clone())));
        }
        if !warm {
            self.response.forget();
        }
        self.reset_rounds();
        // A fit that goes on from an exchange is the same fit.
        if job.fold.is_none() && self.exchanged_for == 0 {
            self.trace.clear();
        }
        if let Some(followers) = &mut self.followers {
            followers.begin(warm);
        }
        Ok(warm)
    }

    /// Keeps what the fit that just ended leaves.
    pub(super) fn leave(&mut self, site: &mut Site<'_>, termination: Termination) {
        let Some(job) = self.jobs.get(self.current).copied() else {
            return;
        };
        let block = &*site.block;
        match job.fold {
            None => {
                let mut beta = block.beta().clone();
                if block.has_intercept() {
                    beta[0] += self.tables.as_ref().map_or(0.0, |kit| kit.centre);
                }
                let shift = block.scalings().iter().zip(beta.iter()).map(|(s, b)| s.centre / s.scale * b).sum();
                let certificate = self.certificate;
                let end = FitEnd { shift, certificate };
                self.fitted.push(Fitted { beta, end, loss: self.loss, change: self.change, termination });
            }
            Some(fold) => {
                let Some(folds) = site.folds else { return };
                let base = self.base_weights.as_ref();
                let weight = |i: usize| {
                    if folds[i] == fold { base.map_or(1.0, |base| base[i]) } else { 0.0 }
                };
                // An error that overflows is larger than every other.
                if let Some(kit) = &self.tables {
                    let sum: f64 = (0..folds.len()).map(weight).sum();
                    self.fold_errors.extend(
                        kit.error(fold, &self.incoming_values, block.beta()).map(|error| (error / sum).min(f64::MAX)),
                    );
                } else {
                    // Also without the outcome: the partner's predictions then carry it.
                    self.fold_errors.push(block.held_out_error(weight).min(f64::MAX));
                }
            }
        }
    }
}

/// The lambdas that the study gives, largest first; one fit without a penalty has none, and a path finds its own.
fn given_lambdas(study: &Study<Vertical>) -> Vec<Option<f64>> {
    match &study.method.penalty {
        None => vec![None],
        Some(penalty) => penalty.given().unwrap_or_default().into_iter().map(Some).collect(),
    }
}

fn positive(spread: f64) -> f64 {
    if spread > 0.0 { spread } else { 1.0 }
}
