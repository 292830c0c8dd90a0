//! What a study says of robust regression, in plain and in private mode, checked here.
//!
//! In private mode a site cuts its rows into batches by row number, and every row is in one of them. Each batch has the whole budget of
//! the run: replacing a row moves the releases of one batch only.

use serde::{Deserialize, Serialize};

use super::forecast::RobustDesign;
use super::plan::{Influence, Plan, Setup};
use super::{ConsolidationSettings, FitSettings, Method, OnlineSettings, Start, minimum_rows};
use crate::fit::INTERCEPT;
use crate::id::Protocol;
use crate::privacy::bounds::{BoundsError, RowBounds};
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::release::Declaration;
use crate::terms::statement::Protects;
use crate::terms::suggestion::{EPSILONS, ROWS, Search, counts};
use crate::terms::{
    Between, Foretold, Guarantee, MethodTerms, NoExpectation, Reckoned, StudyError, bounds_sentence, check_positive,
    refused_in_private, row_bounds, value,
};

mod search;

/// Most numbers of one contribution: 16 MiB.
const LARGEST_CONTRIBUTION: u64 = 1 << 21;
/// Most rounds of a batch.
const MOST_ROUNDS: u32 = 100;

/// The method of a robust study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RobustTerms {
    /// Where the fit of a batch starts.
    pub start: Start,
    /// How estimates become one: refine, pivot, geomed, trimmed, cmedian, filter or mean.
    pub consolidation: String,
    /// Whether the cross-products of the kept rows leave, beside coefficients, counts and scale. Standard errors need them.
    pub gram: bool,
    /// Seed of the random subsets of the start `lts`.
    pub seed: u64,
    /// Estimates are followed as they arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<OnlineTerms>,
    /// How batches are fitted in private mode, in place of `start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<PrivateFitTerms>,
}

impl Default for RobustTerms {
    fn default() -> Self {
        RobustTerms {
            start: Start::Auto,
            consolidation: Method::Refine.name().to_string(),
            gram: true,
            seed: 0,
            online: None,
            private: None,
        }
    }
}

/// How a stream of estimates is followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnlineTerms {
    /// Estimates in the window, at least three.
    pub window: u64,
    /// Agreeing arrivals that replace the window, at least two; 0 for never.
    pub switch: u64,
}

impl Default for OnlineTerms {
    fn default() -> Self {
        OnlineTerms { window: 7, switch: 7 }
    }
}

impl OnlineTerms {
    /// The same, as the method takes it.
    fn settings(&self, consolidation: ConsolidationSettings) -> OnlineSettings {
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        OnlineSettings {
            window: whole(self.window),
            switch: (self.switch > 0).then_some(whole(self.switch)),
            consolidation,
        }
    }
}

/// How a batch is fitted in private mode. All of it is public, and fixed before any row is touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrivateFitTerms {
    /// What a residual beyond the cut counts: `reject`, nothing; `huber`, as much as the cut.
    pub influence: Influence,
    /// Rounds, at most; fewer are made where the budget is thin.
    pub rounds: u32,
    /// Guess of the first round's cut, in half ranges of the outcome; 1 where nothing is known.
    pub first_cut: f64,
    /// Bound on the norm of the coefficients of unit rows, in half ranges of the outcome; the root of their number if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coefficient_bound: Option<f64>,
    /// Public norm at which centred and scaled rows are cut; if absent, the root of the number of columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_norm: Option<f64>,
}

impl Default for PrivateFitTerms {
    fn default() -> Self {
        PrivateFitTerms {
            influence: Influence::Reject,
            rounds: 5,
            first_cut: 1.0,
            coefficient_bound: None,
            row_norm: None,
        }
    }
}

/// Robust regression.
#[derive(Debug, Clone, PartialEq)]
pub struct Robust {
    /// How every batch is fitted.
    pub fit: FitSettings,
    /// How estimates become one.
    pub consolidation: ConsolidationSettings,
    /// Whether cross-products leave with an estimate.
    pub gram: bool,
    /// How estimates are followed as they arrive, where they are.
    pub online: Option<OnlineSettings>,
    /// How batches are fitted in private mode.
    pub private: PrivateFitTerms,
}

impl Robust {
    /// Of the method's section of a study.
    pub(crate) fn parse(section: Option<&RobustTerms>, study: &Between<()>) -> Result<Robust, StudyError> {
        study.check_design(&["correlation", "residual", "signal", "corrupted"], Protocol::Robust)?;
        let terms = section.cloned().unwrap_or_default();
        let consolidation = match terms.consolidation.parse::<Method>() {
            Ok(method) => method.into(),
            Err(error) => return Err(value("robust.consolidation", format!("is not known: {error}"))),
        };
        let coefficients = study.method.coefficients.len();
        let (batch_rows, least) = (study.site_terms().batch_rows, minimum_rows(coefficients));
        if batch_rows < least as u64 {
            let problem = format!("must be at least {least}, three rows per coefficient, and is {batch_rows}");
            return Err(value("sites.batch_rows", problem));
        }
        terms.check(coefficients as u64)?;
        let private = match &study.guarantee {
            Guarantee::Plain if terms.private.is_some() => {
                return Err(value("robust.private", "has no place in a plain study: set mode = \"private\""));
            }
            Guarantee::Plain => PrivateFitTerms::default(),
            Guarantee::Private(_) => terms.check_private(study)?,
        };
        let robust = Robust {
            fit: FitSettings {
                start: terms.start,
                intercept: study.method.intercept,
                seed: terms.seed,
                ..FitSettings::default()
            },
            consolidation,
            gram: terms.gram,
            online: terms.online.map(|online| online.settings(consolidation)),
            private,
        };
        match study.guarantee {
            Guarantee::Plain => {}
            Guarantee::Private(_) => study.check_private_batches(&robust)?,
        }
        Ok(robust)
    }
}

impl RobustTerms {
    /// Refuses what is too large, of an estimate of `q` coefficients, or too small.
    fn check(&self, q: u64) -> Result<(), StudyError> {
        let numbers = q + 1 + if self.gram { q * (q + 1) / 2 } else { 0 };
        if numbers > LARGEST_CONTRIBUTION {
            let problem =
                format!("makes estimates of {numbers} numbers, more than {LARGEST_CONTRIBUTION}; set it to false");
            return Err(value("robust.gram", problem));
        }
        let Some(online) = &self.online else { return Ok(()) };
        if !(3..=10_000).contains(&online.window) {
            return Err(value("robust.online.window", "must lie between 3 and 10000"));
        }
        match online.switch == 1 || online.switch > 10_000 {
            true => Err(value("robust.online.switch", "must lie between 2 and 10000, or be 0 for never")),
            false => Ok(()),
        }
    }

    /// How batches are fitted in private mode; refuses what has no place in it.
    fn check_private(&self, study: &Between<()>) -> Result<PrivateFitTerms, StudyError> {
        let terms = self.private.clone().unwrap_or_default();
        if !(2..=MOST_ROUNDS).contains(&terms.rounds) {
            let problem = format!("must lie between 2 and {MOST_ROUNDS}, got {}", terms.rounds);
            return Err(value("robust.private.rounds", problem));
        }
        check_positive("robust.private.first_cut", Some(terms.first_cut), "number")?;
        check_positive("robust.private.coefficient_bound", terms.coefficient_bound, "number")?;
        check_positive("robust.private.row_norm", terms.row_norm, "number")?;
        let formula = "bounds of its terms are not derived in this version; list `features`";
        let intercept = "columns are centred by their public ranges, which leaves an intercept";
        refused_in_private(&[
            ("model.formula", study.method.features.is_empty(), formula),
            ("model.intercept", !study.method.intercept, intercept),
        ])?;
        if self.online.is_some() {
            let problem = "cannot be used in private mode in this version; private streams are protocol `stream`";
            return Err(value("robust.online", problem));
        }
        match self.gram {
            true => Ok(terms),
            false => {
                let problem = "cannot be false in private mode: it saves nothing, as all that leaves is noised";
                Err(value("robust.gram", problem))
            }
        }
    }
}

impl<M: Clone> MethodTerms<M> for Robust {
    fn protocol(&self) -> Protocol {
        Protocol::Robust
    }

    fn last_broadcast(&self) -> Option<u64> {
        self.online.map(|_| u64::MAX)
    }

    fn declared(&self) -> Vec<Declaration> {
        let gram = self.gram.then_some(Declaration::BatchGram);
        std::iter::once(Declaration::BatchEstimate).chain(gram).collect()
    }

    /// Those of one batch: all batches together cost as much as one.
    fn releases(&self, study: &Between<M>) -> Option<ReleasePlan> {
        Some(study.batch_plan(self, study.site_terms().batch_rows).ok()?.releases().clone())
    }

    fn protects(&self) -> Protects {
        Protects::Rows { batches: true }
    }

    fn row_norm(&self) -> Option<Option<f64>> {
        Some(self.private.row_norm)
    }

    fn half_range(&self, study: &Between<M>) -> Option<f64> {
        let range = study.head.columns.get(&study.method.outcome).and_then(|terms| terms.range);
        Some(range.map_or(1.0, |[low, high]| 0.5 * (high - low)))
    }

    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation> {
        let Reckoned { design, residual, signal } = reckoned;
        let wanted = study.site_terms().batch_rows.max(1);
        // A short last batch joins the one before it.
        let own = (rows / wanted + u64::from(rows % wanted >= wanted.div_ceil(2))).max(1);
        let all = own.saturating_mul(u64::from(study.number_of_sites()));
        let plan = study.batch_plan(self, rows / own)?;
        let intercept = study.batch_bounds(self).ok().and_then(|bounds| bounds.intercept());
        let correlation = design.correlation.unwrap_or(0.0);
        let moments = RobustDesign::equicorrelated(plan.setup().width, intercept, correlation);
        let corrupted = design.corrupted.unwrap_or(0.0);
        let predicted = plan.predict(&RobustDesign { moments, residual, signal, corrupted }, all, rows);
        let correlated = match correlation {
            0.0 => "columns are uncorrelated".to_owned(),
            correlation => format!("any two columns have correlation {correlation}"),
        };
        Ok(Foretold {
            of: "norm of the coefficients of unit rows",
            assumed: vec![
                format!("{correlated}; rows beside the intercept have mean square 1/4 of their public norm"),
                reckoned.sizes(),
                format!("{:.0} % of the rows are corrupted, and rejected", 100.0 * corrupted),
                "every batch is trusted".to_owned(),
            ],
            batches: Some(all),
            noise_once: Some(predicted.batch_noise),
            noise: predicted.noise,
            error: predicted.error,
            fitted: Some(predicted.fitted),
            alone: predicted.alone,
            zero: predicted.length,
            counts: Some(predicted.counts),
        })
    }

    fn tabled(&self, rows: u64) -> (Vec<u64>, Vec<f64>) {
        (counts(rows, &ROWS), EPSILONS.to_vec())
    }

    fn search(&self, study: &Between<M>, rows: u64, now: f64) -> Search {
        Search::of(self.tried(study, rows), now)
    }

    fn foretold_quickly(&self, _: bool, _: u64, _: u32) -> bool {
        true
    }
}

impl<M> Between<M> {
    /// The public bounds of a site's rows, the intercept first; the names in them are those of the coefficients.
    ///
    /// # Errors
    /// Names the first column without bounds, or with bounds that cannot be used.
    pub fn batch_bounds(&self, robust: &Robust) -> Result<RowBounds, BoundsError> {
        row_bounds(&self.head, &self.method.features, robust.private.row_norm, true)
    }

    /// What a batch of a given number of rows releases.
    ///
    /// # Errors
    /// Bounds or a budget that cannot be used, and a budget that is hopeless for a given number of rows.
    pub fn batch_plan(&self, robust: &Robust, rows: u64) -> Result<Plan, StudyError> {
        let bounds = self.batch_bounds(robust).map_err(|error| value("columns", bounds_sentence(&error)))?;
        let budget = self.site_mu().powi(2);
        let terms = &robust.private;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let setup = Setup::new(rows, bounds.width(), budget);
        Plan::new(Setup {
            rounds: terms.rounds,
            influence: terms.influence,
            first_cut: terms.first_cut,
            coefficient_bound: terms.coefficient_bound.unwrap_or(setup.coefficient_bound),
            ..setup
        })
        .map_err(|error| value("privacy.epsilon", format!("is too small: {error}")))
    }

    /// Refuses private batches without public bounds, or with too little budget.
    fn check_private_batches(&self, robust: &Robust) -> Result<(), StudyError> {
        let unbounded = |error: BoundsError| value("columns", bounds_sentence(&error));
        self.outcome_bounds().map_err(unbounded)?;
        self.batch_plan(robust, self.method.terms.batch_rows)?;
        let bounds = self.batch_bounds(robust).map_err(unbounded)?;
        let names = &self.method.coefficients;
        let bounded = std::iter::once(INTERCEPT).chain(bounds.names().iter().map(String::as_str));
        match bounded.eq(names.iter().map(String::as_str)) {
            true => Ok(()),
            false => {
                let problem = format!("have other terms ({}) than their bounds", names.join(", "));
                Err(value("model.features", problem))
            }
        }
    }
}

#[cfg(test)]
mod tests;
