//! Private robust regression between sites: public bounds of the rows, and what every batch releases.
//!
//! A site cuts its rows into batches by row number, and every row is in one of them. Each batch has the whole budget of the run:
//! replacing a row moves the releases of one batch only.

use serde::{Deserialize, Serialize};

use super::file::StudyFile;
use super::horizontal::{Robust, RobustTerms, SiteMethod, Sites};
use super::privacy::bounds_sentence;
use super::{Guarantee, Study, StudyError, value};
use crate::fit::INTERCEPT;
use crate::methods::robust::plan::{Influence, Plan, Setup};
use crate::privacy::bounds::{BoundsError, ColumnBounds, RowBounds};

/// Most rounds of a batch.
const MOST_ROUNDS: u32 = 100;

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
    /// Public norm at which centred and scaled rows are cut; if absent, the root of the number of columns, a ranged one counting .5625.
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

impl Study<Sites> {
    /// The public bounds of a site's rows, the intercept first; the names in them are those of the coefficients.
    ///
    /// # Errors
    /// Names the first column without bounds, or with bounds that cannot be used.
    pub fn batch_bounds(&self, robust: &Robust) -> Result<RowBounds, BoundsError> {
        let mut terms: Vec<(String, ColumnBounds)> = Vec::new();
        for column in &self.method.features {
            match self.head.columns.get(column) {
                Some(stated) => terms.extend(stated.bounded(column)?),
                None => return Err(BoundsError::Missing { column: column.clone() }),
            }
        }
        let share = (1.0 / (terms.len() + 1) as f64).sqrt();
        RowBounds::new(terms, robust.private.row_norm, Some(share))
    }

    /// What a batch of so many rows releases.
    ///
    /// # Errors
    /// Bounds or a budget that cannot be used, and a budget that is hopeless for so many rows.
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
    pub(super) fn check_private_batches(&self) -> Result<(), StudyError> {
        let robust = match (&self.guarantee, &self.method.method) {
            (Guarantee::Private(_), SiteMethod::Robust(robust)) => robust,
            (Guarantee::Private(_), SiteMethod::Em(_) | SiteMethod::Features(_) | SiteMethod::Stream(_))
            | (Guarantee::Plain, _) => return Ok(()),
        };
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

impl StudyFile {
    pub(super) fn check_private_robust(&self, robust: &RobustTerms, guarantee: &Guarantee) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        match (guarantee, &robust.private) {
            (Guarantee::Plain, None) => return Ok(()),
            (Guarantee::Plain, Some(_)) => {
                return wrong("robust.private", "has no place in a plain study: set mode = \"private\"");
            }
            (Guarantee::Private(_), _) => {}
        }
        let terms = robust.private.clone().unwrap_or_default();
        if !(2..=MOST_ROUNDS).contains(&terms.rounds) {
            return wrong(
                "robust.private.rounds",
                &format!("must lie between 2 and {MOST_ROUNDS}, got {}", terms.rounds),
            );
        }
        for (key, number) in [
            ("robust.private.first_cut", Some(terms.first_cut)),
            ("robust.private.coefficient_bound", terms.coefficient_bound),
            ("robust.private.row_norm", terms.row_norm),
        ] {
            if let Some(number) = number.filter(|number| !(*number > 0.0 && number.is_finite())) {
                return wrong(key, &format!("must be a positive number, got {number}"));
            }
        }
        if self.model.formula.is_some() {
            let problem =
                "cannot be used in private mode: bounds of its terms are not derived in this version; list `features`";
            return wrong("model.formula", problem);
        }
        if !self.model.intercept {
            let problem =
                "cannot be used in private mode: columns are centred by their public ranges, which leaves an intercept";
            return wrong("model.intercept", problem);
        }
        if robust.online.is_some() {
            let problem = "cannot be used in private mode in this version; private streams are protocol `stream`";
            return wrong("robust.online", problem);
        }
        match robust.gram {
            true => Ok(()),
            false => {
                wrong("robust.gram", "cannot be false in private mode: it saves nothing, as all that leaves is noised")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::mechanism::ReleasePlan;
    use crate::study::tests::sites;

    const PRIVATE: &str = r#"
        id = "clinics"
        protocol = "robust"
        mode = "private"
        [privacy]
        epsilon = 1.0
        delta = 1e-6
        [workers.north]
        certificate = "north"
        [workers.south]
        certificate = "south"
        [model]
        features = ["age", "region", "smoker"]
        [outcome]
        column = "cost"
        [columns.age]
        range = [18, 90]
        [columns.region]
        levels = ["north", "south", "west"]
        [columns.smoker]
        levels = ["false", "true"]
        [columns.cost]
        range = [0, 70000]
        [sites]
        batch_rows = 10000
        "#;

    fn complaint(text: &str) -> String {
        Study::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn bounds_and_releases_of_every_batch_follow_from_the_study() {
        let study = sites(PRIVATE);
        let bounds_of = |study: &Study<Sites>| match &study.method.method {
            SiteMethod::Robust(robust) => study.batch_bounds(robust).unwrap(),
            other => panic!("{other:?}"),
        };
        let bounds = bounds_of(&study);
        assert_eq!(bounds.names(), ["age", "regionsouth", "regionwest", "smokerTRUE"]);
        let budget = study.private().unwrap().budget;
        let SiteMethod::Robust(robust) = &study.method.method else { panic!("{study:?}") };
        let plan = study.batch_plan(robust, 10_000).unwrap();
        let norm = |text: &str| bounds_of(&sites(text)).radius();
        assert_eq!(norm(PRIVATE), (0.5625f64 + 3.0).sqrt());
        assert_eq!(norm(&PRIVATE.replace("range = [18, 90]", "centre = 50\nscale = 20")), 2.0);
        assert_eq!(norm(&PRIVATE.replace("[sites]", "[robust.private]\nrow_norm = 1.25\n[sites]")), 1.25);
        assert!(plan.releases().charge() <= budget.cap() && plan.releases().charge() > 0.999 * budget.cap());
        let twelve = ReleasePlan::of_parts(&vec![plan.releases().clone(); 12]);
        assert_eq!(twelve.releases().len(), 12 * plan.releases().releases().len());
        assert_eq!(twelve.charge().to_bits(), plan.releases().charge().to_bits());
        assert!(study.disclosures().declared().is_empty());
    }

    #[test]
    fn private_robust_studies_that_cannot_be_kept_are_refused_before_anything_is_spent() {
        for (find, put, says) in [
            ("batch_rows = 10000", "batch_rows = 60", "this budget cannot fit 5 columns on 60 rows"),
            ("range = [18, 90]", "", "lacks public bounds of `age`"),
            ("range = [0, 70000]", "", "give [columns.cost] a `range`"),
            ("range = [0, 70000]", "centre = 0\nscale = 1", "give [columns.cost] a `range`"),
            ("[sites]", "[robust.private]\nrow_norm = 0.0\n[sites]", "robust.private.row_norm"),
            ("[sites]", "[robust.private]\nrow_norm = inf\n[sites]", "robust.private.row_norm"),
            ("range = [18, 90]", "centre = 50\nscale = -1", "columns.age.scale"),
            ("delta = 1e-6", "", "`privacy.delta` is missing"),
            ("delta = 1e-6", "delta = 1e-6\nclip = 0.1", "`privacy.clip` has no place"),
            ("[sites]", "[robust]\ngram = false\n[sites]", "robust.gram"),
            ("[sites]", "[robust.online]\nwindow = 7\n[sites]", "robust.online"),
            ("[sites]", "[robust.private]\nrounds = 1\n[sites]", "robust.private.rounds"),
            ("[sites]", "[robust.private]\nfirst_cut = 0.0\n[sites]", "robust.private.first_cut"),
            ("[sites]", "[rows]\nmissing = \"complete-cases\"\n[sites]", "rows.missing"),
            ("features = [\"age\", \"region\", \"smoker\"]", "formula = \"cost ~ age\"", "list `features`"),
            ("[outcome]", "intercept = false\n[outcome]", "leaves an intercept"),
        ] {
            let text = PRIVATE.replacen(find, put, 1);
            assert!(complaint(&text).contains(says), "{put}: {}", complaint(&text));
        }
        let plain = PRIVATE.replacen("mode = \"private\"", "", 1).replacen(
            "[privacy]\n        epsilon = 1.0\n        delta = 1e-6",
            "[robust.private]",
            1,
        );
        assert!(complaint(&plain).contains("robust.private"), "{}", complaint(&plain));
    }
}
