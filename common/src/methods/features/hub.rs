//! A function by random features, between sites: each sends its statistics, or a solution of its own, once.

use std::collections::BTreeMap;

use nalgebra::DVector;

use crate::fit::{Consolidation, Statistics, Termination};
use crate::methods::features::{FeatureError, FeatureModel, Statistics as Table};
use crate::methods::robust::{ConsolidationSettings, Estimate, Estimates, Verdict, consolidate};
use crate::star::message::{Body, Kind};
use crate::star::method::{Method, Outcome, Shape};
use crate::study::{self, Fitted, Function, Release, Sites, Study, StudyError};

/// What a site sends.
pub(crate) fn kind(release: Release) -> Kind {
    match release {
        Release::Statistics => Kind::FeatureStatistics,
        Release::Output => Kind::FeatureSolution,
    }
}

/// The method at the hub.
pub struct Features {
    model: FeatureModel,
    inputs: Function,
    release: Release,
    lambda: f64,
    /// Standard deviation of each site's noise; zero without.
    sigma: f64,
    consolidation: ConsolidationSettings,
    taken: BTreeMap<String, (u64, DVector<f64>)>,
}

impl Features {
    /// Before anything came.
    ///
    /// # Errors
    /// The study cannot be used.
    pub fn new(study: &Study<Sites>, features: &study::Features) -> Result<Features, StudyError> {
        let map = features.map.clone();
        let model = FeatureModel {
            study: study.digest().to_string(),
            columns: study.method.inputs(),
            ranges: features.ranges.clone(),
            outcome: features.outcome,
            coefficients: vec![0.0; map.count()],
            map,
        };
        Ok(Features {
            inputs: Function::of(study, Fitted::Features(model.clone())),
            model,
            release: features.release,
            lambda: features.lambda,
            sigma: study.features_sigma(features)?,
            consolidation: features.consolidation,
            taken: BTreeMap::new(),
        })
    }

    fn values(&self) -> usize {
        match self.release {
            Release::Statistics => Table::len(&self.model.map),
            Release::Output => self.model.map.count(),
        }
    }

    /// Without noise: whether this number of rows of norm one can have these statistics, or a solution of this length.
    fn possible(&self, records: u64, values: &[f64]) -> Result<(), String> {
        if self.sigma > 0.0 {
            return Ok(());
        }
        let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let limit = match self.release {
            // |aa'| <= 1 and |a y| <= 1 for each row.
            Release::Statistics => 2.0_f64.sqrt() * records as f64,
            Release::Output => 0.5 / self.lambda.sqrt(),
        };
        match norm <= limit * (1.0 + 1e-6) {
            true => Ok(()),
            false => Err(format!("expected numbers of norm at most {limit:.6} for {records} records, got {norm:.6}")),
        }
    }

    fn pooled(&self) -> Result<(Vec<f64>, Vec<String>), String> {
        let released: Vec<DVector<f64>> = self.taken.values().map(|(_, values)| values.clone()).collect();
        let failed = |error: FeatureError| match error {
            FeatureError::Singular => {
                "the pooled statistics are singular to rounding: use fewer features, or a larger `features.lambda`"
                    .to_string()
            }
            other @ (FeatureError::Setting { .. }
            | FeatureError::Size { .. }
            | FeatureError::NotFinite { .. }
            | FeatureError::OtherStudy { .. }) => other.to_string(),
        };
        let mut pooled = Table::pool(&self.model.map, &released).map_err(failed)?;
        let rows: u64 = self.taken.values().fold(0, |sum, (records, _)| sum.saturating_add(*records));
        let shift = self.lambda * rows as f64;
        (0..pooled.gram.ncols()).for_each(|j| pooled.gram[(j, j)] += shift);
        let (coefficients, lifted) = Table::solve(&pooled, self.sigma).map_err(failed)?;
        let mut notes = Vec::new();
        if self.sigma > 0.0 && lifted > 0.0 {
            notes.push(
                "the noise flattened the function: where it says little, the function is pulled towards the middle of the outcome's \
                 range"
                    .to_string(),
            );
        }
        Ok((coefficients.iter().copied().collect(), notes))
    }

    fn consolidated(&self) -> Result<(Vec<f64>, Consolidation, Termination), String> {
        let mut estimates = Estimates::new(self.model.map.count(), false);
        for (site, (records, values)) in &self.taken {
            let estimate = Estimate {
                worker: site.clone(),
                batch: 0,
                coefficients: values.iter().copied().collect(),
                gram: None,
                nobs: *records,
                kept: *records,
                scale: 1.0,
                cleaned: true,
            };
            estimates.insert(estimate).map_err(|error| error.to_string())?;
        }
        let consensus = consolidate(&estimates, &self.consolidation).map_err(|error| error.to_string())?;
        let termination = match consensus.verdict {
            Verdict::MajorityAgrees => Termination::Converged,
            Verdict::NoMajority | Verdict::MostNotCleaned => Termination::OutsideGuarantee,
        };
        Ok((consensus.coefficients.iter().copied().collect(), Consolidation::new(&consensus), termination))
    }
}

impl Method for Features {
    fn shapes(&self) -> Vec<Shape> {
        vec![Shape::fixed(kind(self.release), 1, self.values())]
    }

    fn take(&mut self, site: &str, _number: u64, body: &Body) -> Result<(), String> {
        let records = body.counts.first().copied().unwrap_or(0);
        if records == 0 {
            return Err("expected at least one record, got none".to_string());
        }
        if self.taken.contains_key(site) {
            return Err(format!("expected one contribution of {site}, got another"));
        }
        self.possible(records, &body.values)?;
        self.taken.insert(site.to_string(), (records, DVector::from_column_slice(&body.values)));
        Ok(())
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let (coefficients, consolidation, termination, mut notes) = match self.release {
            Release::Statistics => {
                let (coefficients, notes) = self.pooled()?;
                (coefficients, None, Termination::Converged, notes)
            }
            Release::Output => {
                let (coefficients, consolidation, termination) = self.consolidated()?;
                (coefficients, Some(consolidation), termination, Vec::new())
            }
        };
        notes.push("no standard errors: the function is what is estimated".to_string());
        let nobs = self.taken.values().fold(0, |sum: u64, (records, _)| sum.saturating_add(*records));
        let model = FeatureModel { coefficients, ..self.model.clone() };
        Ok(Outcome {
            termination: match termination {
                Termination::Converged if self.sigma > 0.0 => Termination::FixedRounds,
                other @ (Termination::Converged
                | Termination::MaxRounds
                | Termination::Separation
                | Termination::OutOfRange
                | Termination::OpeningLimit
                | Termination::CollinearAcrossParties
                | Termination::FixedRounds
                | Termination::OutsideGuarantee
                | Termination::Interrupted) => other,
            },
            coefficients: Vec::new(),
            statistics: Statistics { nobs, ..Statistics::default() },
            rounds: 1,
            consolidation,
            course: None,
            function: Some(self.inputs.with(Fitted::Features(model))),
            notes,
        })
    }
}
