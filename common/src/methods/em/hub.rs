//! Models with something hidden, between sites: coefficients go out, bounded sums of gradients come back, round by round.

use std::collections::BTreeMap;

use nalgebra::DVector;

use crate::fit::{Coefficient, Statistics, Termination};
use crate::glm::Family;
use crate::id::Role;
use crate::methods::em::{Estimator, Settings, SmoothTruncation, Update};
use crate::report::{Course, CoursePoint};
use crate::star::message::{Body, Kind};
use crate::star::method::{Method, Outcome, Pace, Shape};
use crate::study::{self, Guarantee, Sites, Study};

/// Percent of the coefficients' length beyond which a last step is worth a warning.
const UNSETTLED: f64 = 10.0;

/// The method at the hub.
pub struct Em {
    settings: Settings,
    terms: Vec<String>,
    noised: bool,
    /// The coefficients at the start and after every round.
    path: Vec<DVector<f64>>,
    /// Answers of the round that is open, by site: added up in one order, whatever the order of arrival.
    answers: BTreeMap<String, (u64, DVector<f64>)>,
    /// Records that each site has said to have.
    records: BTreeMap<String, u64>,
    /// Records in the last round.
    last: u64,
}

impl Em {
    /// Before anything came.
    pub fn new(study: &Study<Sites>, em: &study::Em) -> Em {
        Em {
            terms: study.method.coefficients.clone(),
            noised: match study.guarantee {
                Guarantee::Plain => false,
                Guarantee::Private(_) => true,
            },
            settings: em.settings.clone(),
            path: vec![em.start.clone()],
            answers: BTreeMap::new(),
            records: BTreeMap::new(),
            last: 0,
        }
    }

    fn rounds(&self) -> u32 {
        (self.path.len() - 1) as u32
    }

    /// Whether this number of records can have such a sum; noise knows no bound.
    fn possible(&self, records: u64, sum: &[f64]) -> Result<(), String> {
        let most = |bound: f64| bound * records as f64 * (1.0 + 1e-9);
        let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        let (found, limit) = match self.settings.stated().estimator {
            _ if self.noised => return Ok(()),
            Estimator::Clip { bound } => (norm, most(bound)),
            Estimator::Catoni { scale, smoothing } => {
                let largest = sum.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
                (largest, most(scale * SmoothTruncation::new(smoothing).bound()))
            }
            Estimator::None => return Ok(()),
        };
        match found <= limit {
            true => Ok(()),
            false => Err(format!("expected a sum of at most {limit:.6} for {records} records, got one of {found:.6}")),
        }
    }
}

impl Method for Em {
    fn pace(&self) -> Pace {
        // As `Study::in_rounds` tells the sites.
        Pace::Rounds
    }

    fn shapes(&self) -> Vec<Shape> {
        vec![Shape::fixed(Kind::GradientSum, 1, self.terms.len())]
    }

    fn take(&mut self, site: &str, _number: u64, body: &Body) -> Result<(), String> {
        let records = body.counts.first().copied().unwrap_or(0);
        if records == 0 {
            return Err("expected at least one record, got none".to_string());
        }
        if let Some(before) = self.records.get(site).filter(|before| **before != records) {
            return Err(format!("expected {before} records as it said before, got {records}"));
        }
        self.possible(records, &body.values)?;
        self.records.insert(site.to_string(), records);
        self.answers.insert(site.to_string(), (records, DVector::from_column_slice(&body.values)));
        Ok(())
    }

    fn broadcast(&self) -> Option<(u64, Body)> {
        let round = u64::from(self.rounds());
        let beta = self.path.last()?;
        let values = beta.iter().copied().collect();
        Some((round, Body { kind: Kind::Coefficients, counts: vec![round], values }))
    }

    fn close_round(&mut self) -> Result<bool, String> {
        let round = self.rounds() + 1;
        let answers = std::mem::take(&mut self.answers);
        let mut sum = DVector::zeros(self.terms.len());
        let mut count: u64 = 0;
        for (records, answer) in answers.values() {
            sum += answer;
            count = count.saturating_add(*records);
        }
        let beta = self.path.last().ok_or("there is no start")?;
        let next = self
            .settings
            .advance(beta, &sum, count)
            .map_err(|error| format!("round {round} has no result: {error}"))?;
        self.last = count;
        self.path.push(next);
        Ok(self.rounds() < self.settings.stated().rounds)
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let rounds = self.rounds();
        if rounds == 0 {
            return Err("no round was finished".to_string());
        }
        let stated = self.settings.stated();
        let estimate = self.settings.estimate(&self.path);
        let coefficients =
            self.terms.iter().zip(estimate.iter()).map(|(term, beta)| {
                Coefficient::new(term.clone(), Role::Worker, Some(*beta), None, Family::Gaussian, 0.0)
            });
        let mut notes = Vec::new();
        if stated.model.sign_is_free() {
            notes.push(
                "beta and -beta describe these data equally well: the sign of all coefficients together is free"
                    .to_string(),
            );
        }
        if let [.., before, last] = self.path.as_slice()
            && estimate.norm() > 0.0
        {
            let share = 100.0 * (last - before).norm() / estimate.norm();
            let what = if matches!(stated.update, Update::Direct) { "maximiser" } else { "step" };
            notes.push(format!("the {what} of the last round moved the coefficients by {share:.2} % of their length"));
            if share > UNSETTLED {
                notes.push(
                    "the iteration has not settled: expected are columns that are centred and of variance one, or more rounds"
                        .to_string(),
                );
            }
        }
        if stated.averaged > 1 {
            notes.push(format!(
                "the estimate is the mean over the last {} rounds, which takes noise away",
                stated.averaged.min(rounds)
            ));
        }
        if rounds < stated.rounds {
            notes.push(format!("{rounds} of {} rounds were finished", stated.rounds));
        }
        notes.push("no standard errors: the method gives estimates only".to_string());
        let points = self.path.iter().enumerate().map(|(round, beta)| CoursePoint {
            arrival: round as u64,
            coefficients: beta.iter().copied().collect(),
            outside: false,
            switched: false,
        });
        Ok(Outcome {
            termination: if rounds < stated.rounds { Termination::MaxRounds } else { Termination::FixedRounds },
            coefficients: coefficients.collect(),
            statistics: Statistics { nobs: self.last, ..Statistics::default() },
            rounds,
            consolidation: None,
            course: Some(Course {
                terms: self.terms.clone(),
                arrivals: u64::from(rounds),
                switches: 0,
                points: points.collect(),
            }),
            function: None,
            notes,
        })
    }
}
