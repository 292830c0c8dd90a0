//! Robust regression between sites: estimates of batches come in, and a consensus goes out.

use nalgebra::Cholesky;
use serde::{Deserialize, Serialize};

use crate::fit::{Consolidation, Statistics, Termination};
use crate::methods::robust::report::coefficients;
use crate::methods::robust::{
    BatchError, BatchFit, Consensus, ConsolidateError, ConsolidationSettings, Estimate, EstimateError, Estimates, Gram,
    Member, Online, Placement, Verdict, batch::kept_share_of_variance, consolidate,
};
use crate::report::{Course, CoursePoint};
use crate::star::message::{Body, Kind};
use crate::star::method::{Method, Outcome, Shape};
use crate::study::{self, Guarantee, Sites, Study, StudyError};

/// Points of a course that are kept; beyond it every other one goes.
const COURSE: usize = 1000;
/// Arrivals of a stream whose row in the table of batches is kept.
const LATEST: usize = 200;

/// The contribution of a batch, fitted or not.
pub fn body_of(fit: Result<&BatchFit, &BatchError>, rows: u64, with_gram: bool) -> Body {
    match fit {
        Ok(fit) => {
            let mut body = body(&Estimate::from_fit("", 0, fit));
            if !with_gram {
                body.kind = Kind::Estimate;
                body.values.truncate(fit.coefficients.len() + 1);
            }
            body
        }
        Err(_) => Body { kind: Kind::Unfit, counts: vec![rows], values: Vec::new() },
    }
}

/// An estimate as it travels: rows, rows kept, whether cleaned; scale, coefficients, packed cross-products.
pub fn body(estimate: &Estimate) -> Body {
    let mut values = vec![estimate.scale];
    values.extend(&estimate.coefficients);
    values.extend(estimate.gram.iter().flat_map(|gram| gram.packed()));
    Body {
        kind: if estimate.gram.is_some() { Kind::EstimateWithGram } else { Kind::Estimate },
        counts: vec![estimate.nobs, estimate.kept, u64::from(estimate.cleaned)],
        values,
    }
}

/// A private estimate as it travels, on the original scale: what consolidation needs of cross-products is the precision of the
/// coefficients, noise and sampling together, at noise level one. Without a finite precision the batch counts as not fitted.
pub fn private_body(estimate: &super::plan::Estimate) -> Body {
    let nobs = estimate.rows() as u64;
    let precision = Cholesky::new(estimate.covariance().clone()).map(|factor| factor.inverse());
    match precision.filter(|precision| precision.iter().all(|value| value.is_finite())) {
        None => Body { kind: Kind::Unfit, counts: vec![nobs], values: Vec::new() },
        Some(precision) => body(&Estimate {
            worker: String::new(),
            batch: 0,
            coefficients: estimate.coefficients().iter().copied().collect(),
            gram: Some(Gram::from_matrix(&precision)),
            nobs,
            kept: ((nobs as f64 * estimate.kept()).round() as u64).clamp(1, nobs.max(1)),
            scale: kept_share_of_variance().sqrt(),
            cleaned: true,
        }),
    }
}

/// The estimate in a body of `coefficients` coefficients. Its numbers are checked where it is inserted.
fn estimate(site: &str, number: u64, body: &Body, coefficients: usize) -> Result<Estimate, String> {
    let [nobs, kept, cleaned] = body.counts[..] else {
        return Err(format!("expected 3 counts, got {}", body.counts.len()));
    };
    if cleaned > 1 {
        return Err(format!("expected 0 or 1 as whether the batch was cleaned, got {cleaned}"));
    }
    let Some((scale, rest)) = body.values.split_first().filter(|(_, rest)| rest.len() >= coefficients) else {
        return Err(format!("expected a scale and {coefficients} coefficients, got {} numbers", body.values.len()));
    };
    let (beta, gram) = rest.split_at(coefficients);
    Ok(Estimate {
        worker: site.to_string(),
        batch: number,
        coefficients: beta.to_vec(),
        gram: (body.kind == Kind::EstimateWithGram).then(|| Gram::from_packed(gram.to_vec())),
        nobs,
        kept,
        scale: *scale,
        cleaned: cleaned == 1,
    })
}

/// What the intervals of a private run are about.
const TARGET: &str = "standard errors and intervals follow from noised values alone. They belong to the coefficient that the \
    uncorrupted rows have once values are cut at their public bounds; rows that are corrupted by less than the cut of the \
    residuals stay and bias it, and no interval shows by how much (with a fifth of the rows colluding, 95 % intervals covered in \
    89 to 91 % of simulated fits)";

/// The robust method at the hub.
pub struct Robust {
    terms: Vec<String>,
    with_gram: bool,
    settings: ConsolidationSettings,
    unfit: Vec<Member>,
    taken: Taken,
    noised: bool,
}

enum Taken {
    Batches(Estimates),
    Stream(Box<Stream>),
}

/// What is remembered of a stream: bounded, however long it lasts.
#[derive(Clone, Serialize, Deserialize)]
struct Stream {
    online: Online,
    course: Course,
    /// Every which arrival is a point of the course.
    every: u64,
    latest: Vec<Member>,
    unfit: u64,
}

fn value(key: &str, problem: String) -> StudyError {
    StudyError::Value { key: key.to_string(), problem }
}

impl Robust {
    /// Before anything came.
    ///
    /// # Errors
    /// The study cannot be used.
    pub fn new(study: &Study<Sites>, robust: &study::Robust) -> Result<Robust, StudyError> {
        let terms = study.method.coefficients.clone();
        let taken = match &robust.online {
            None => Taken::Batches(Estimates::new(terms.len(), robust.gram).weighed_by(study.declared_rows())),
            Some(online) => Taken::Stream(Box::new(Stream {
                online: Online::new(*online, terms.len(), robust.gram)
                    .map_err(|error| value("robust.online", error.to_string()))?
                    .weighed_by(study.declared_rows()),
                course: Course { terms: terms.clone(), arrivals: 0, switches: 0, points: Vec::new() },
                every: 1,
                latest: Vec::new(),
                unfit: 0,
            })),
        };
        Ok(Robust {
            terms,
            with_gram: robust.gram,
            settings: robust.consolidation,
            unfit: Vec::new(),
            taken,
            noised: match study.guarantee {
                Guarantee::Plain => false,
                Guarantee::Private(_) => true,
            },
        })
    }

    fn kind(&self) -> Kind {
        if self.with_gram { Kind::EstimateWithGram } else { Kind::Estimate }
    }
}

impl Method for Robust {
    fn shapes(&self) -> Vec<Shape> {
        let q = self.terms.len();
        let values = q + 1 + if self.with_gram { q * (q + 1) / 2 } else { 0 };
        vec![Shape::fixed(self.kind(), 3, values), Shape::fixed(Kind::Unfit, 1, 0)]
    }

    fn take(&mut self, site: &str, number: u64, body: &Body) -> Result<(), String> {
        if body.kind == Kind::Unfit {
            match &mut self.taken {
                Taken::Batches(_) => self.unfit.push(unfit(site, number, body.counts.first().copied().unwrap_or(0))),
                Taken::Stream(stream) => stream.unfit += 1,
            }
            return Ok(());
        }
        let estimate = estimate(site, number, body, self.terms.len())?;
        match &mut self.taken {
            Taken::Batches(estimates) => {
                estimates.insert(estimate).map_err(|error: EstimateError| error.to_string())?;
            }
            Taken::Stream(stream) => stream.push(estimate)?,
        }
        Ok(())
    }

    fn broadcast(&self) -> Option<(u64, Body)> {
        let Taken::Stream(stream) = &self.taken else { return None };
        let consensus = stream.online.consensus().ok()?;
        let body = Body {
            kind: Kind::Estimate,
            counts: vec![stream.online.arrivals(), consensus.trusted() as u64, stream.online.switches()],
            values: consensus.coefficients.iter().copied().collect(),
        };
        Some((stream.online.arrivals(), body))
    }

    fn remembers(&self) -> bool {
        matches!(self.taken, Taken::Stream(_))
    }

    fn snapshot(&self) -> Option<String> {
        match &self.taken {
            Taken::Batches(_) => None,
            Taken::Stream(stream) => serde_json::to_string(stream).ok(),
        }
    }

    fn restore(&mut self, snapshot: &str) -> Result<(), String> {
        let Taken::Stream(stream) = &mut self.taken else {
            return Err("a snapshot of a stream for a study without one".to_string());
        };
        **stream = serde_json::from_str(snapshot).map_err(|error| format!("the snapshot is damaged: {error}"))?;
        Ok(())
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let none = |error: ConsolidateError| match error {
            ConsolidateError::Empty => "no batch of any worker could be fitted".to_string(),
            other @ (ConsolidateError::Discard { .. }
            | ConsolidateError::MetricNeedsGram
            | ConsolidateError::UnknownMethod(_)) => other.to_string(),
        };
        let (consensus, course, mut notes) = match &self.taken {
            Taken::Batches(estimates) => (consolidate(estimates, &self.settings).map_err(none)?, None, Vec::new()),
            Taken::Stream(stream) => {
                let consensus = stream.online.consensus().map_err(none)?;
                (consensus, Some(stream.course.clone()), stream.notes())
            }
        };
        let mut consolidation = Consolidation::new(&consensus);
        if let Taken::Stream(stream) = &self.taken {
            consolidation.batches = stream.members(&consensus);
            consolidation.trusted = consolidation.batches.iter().filter(|batch| batch.trusted).count() as u64;
        }
        if !self.unfit.is_empty() {
            notes.push(match self.unfit.len() {
                1 => "1 batch could not be fitted where it lies and has no estimate".to_string(),
                count => format!("{count} batches could not be fitted where they lie and have no estimate"),
            });
        }
        if self.noised {
            notes.push(TARGET.to_string());
        }
        consolidation.batches.extend(self.unfit.iter().cloned());
        consolidation.batches.sort_by(|a, b| (&a.worker, a.batch).cmp(&(&b.worker, b.batch)));
        Ok(Outcome {
            termination: match consensus.verdict {
                // Under noise nobody may look whether the estimates are the solution.
                Verdict::MajorityAgrees if self.noised => Termination::FixedRounds,
                Verdict::MajorityAgrees => Termination::Converged,
                Verdict::NoMajority | Verdict::MostNotCleaned => Termination::OutsideGuarantee,
            },
            coefficients: coefficients(&consensus, &self.terms),
            statistics: statistics(&consensus),
            rounds: 0,
            consolidation: Some(consolidation),
            course,
            function: None,
            notes,
        })
    }
}

/// A batch without an estimate, in the table of batches.
fn unfit(site: &str, number: u64, nobs: u64) -> Member {
    let worker = site.to_string();
    Member { worker, batch: number, nobs, kept: 0, cleaned: false, distance: f64::NAN, trusted: false, copy_of: None }
}

fn statistics(consensus: &Consensus) -> Statistics {
    let trusted = consensus.members.iter().filter(|member| member.trusted);
    let nobs = trusted.fold(0u64, |sum, member| sum.saturating_add(member.nobs));
    let degrees = consensus.degrees_of_freedom;
    Statistics { nobs, df_residual: (degrees > 0.0).then_some(degrees as i64), ..Statistics::default() }
}

impl Stream {
    fn push(&mut self, estimate: Estimate) -> Result<(), String> {
        let (worker, batch, nobs, kept, cleaned) =
            (estimate.worker.clone(), estimate.batch, estimate.nobs, estimate.kept, estimate.cleaned);
        let update = self.online.push(estimate).map_err(|error| error.to_string())?;
        if update.placement == Placement::Repeated {
            return Err(format!("expected batches of {worker} in rising order, got batch {batch} again"));
        }
        let now = update.consensus.members.iter().find(|member| member.worker == worker && member.batch == batch);
        self.latest.push(Member {
            worker,
            batch,
            nobs,
            kept,
            cleaned,
            distance: now.map_or(f64::NAN, |member| member.distance),
            trusted: now.is_some_and(|member| member.trusted),
            copy_of: now.and_then(|member| member.copy_of.clone()),
        });
        let excess = self.latest.len().saturating_sub(LATEST);
        self.latest.drain(..excess);
        self.course.arrivals = self.online.arrivals();
        self.course.switches = self.online.switches();
        if self.course.arrivals.is_multiple_of(self.every) || update.placement == Placement::Switched {
            self.course.points.push(CoursePoint {
                arrival: self.course.arrivals,
                coefficients: update.consensus.coefficients.iter().copied().collect(),
                outside: update.outside,
                switched: update.placement == Placement::Switched,
            });
        }
        if self.course.points.len() > COURSE {
            self.every *= 2;
            let every = self.every;
            self.course.points.retain(|point| point.arrival.is_multiple_of(every) || point.switched);
            let excess = self.course.points.len().saturating_sub(COURSE);
            self.course.points.drain(..excess);
        }
        Ok(())
    }

    /// The latest arrivals, those still in the window as they stand now.
    fn members(&self, consensus: &Consensus) -> Vec<Member> {
        let now = |old: &Member| {
            consensus.members.iter().find(|member| member.worker == old.worker && member.batch == old.batch)
        };
        self.latest.iter().map(|old| now(old).unwrap_or(old).clone()).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.online.arrivals() > self.latest.len() as u64 {
            let shown = self.latest.len();
            notes.push(format!("the table of batches has the last {shown} of {} arrivals", self.online.arrivals()));
        }
        if self.unfit > 0 {
            notes.push(format!("{} batches could not be fitted where they lie and have no estimate", self.unfit));
        }
        notes
    }
}
