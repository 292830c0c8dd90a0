//! What a horizontal study says: who the sites are, how they take part, and with which method.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ColumnTerms, FitTerms, HeldBy, InferenceTerms, Mode, PredictionTerms, PrivateFitTerms, Protocol, Release, RowTerms,
    Study, StudyError,
};
use crate::data::encode::{self, check_roles, column_terms};
use crate::data::formula::{Formula, Term};
use crate::data::{ColumnBuilder, Frame, Place, Places};
use crate::glm::Family;
use crate::privacy::release::{Declaration, Disclosures};
use crate::report::INTERCEPT;
use crate::robust::{
    ConsolidateError, ConsolidationSettings, FitSettings, Method, OnlineSettings, Start, minimum_rows,
};

/// Most numbers of one contribution: 16 MiB.
const LARGEST_CONTRIBUTION: u64 = 1 << 21;
/// Most workers of one study.
const MOST_WORKERS: usize = 10_000;
/// Most rows of a batch.
const LARGEST_BATCH: u64 = 10_000_000;

/// Most rows that a site may be said to have.
const MOST_ROWS_OF_A_SITE: u64 = 1 << 50;
/// Most rows of one person: noise grows with their number.
const MOST_ROWS_PER_PERSON: u32 = 1000;

/// One site of a horizontal study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTerms {
    /// The name in the worker's certificate.
    pub certificate: String,
    /// Rows that the site is known to have: in a robust study its votes are in proportion to them, if every worker has the
    /// key. Without it each site has one vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// How sites take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SiteTerms {
    /// Rows of a batch; the last of a site may have fewer, or up to half as many more.
    pub batch_rows: u64,
    /// Workers of whom something must have come for the run to have a result; more than half, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// Seconds after which the run ends with what has come.
    pub deadline: u64,
    /// Most rows of one person at a site of a private study: all of them together are what is protected.
    #[serde(skip_serializing_if = "is_one")]
    pub rows_per_person: u32,
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Default for SiteTerms {
    fn default() -> Self {
        SiteTerms { batch_rows: 1000, quorum: None, deadline: 86_400, rows_per_person: 1 }
    }
}

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
    pub fn settings(&self, consolidation: ConsolidationSettings) -> OnlineSettings {
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        OnlineSettings {
            window: whole(self.window),
            switch: (self.switch > 0).then_some(whole(self.switch)),
            consolidation,
        }
    }
}

impl RobustTerms {
    /// How estimates become one.
    ///
    /// # Errors
    /// The name is none of a method.
    pub fn consolidation(&self) -> Result<ConsolidationSettings, ConsolidateError> {
        self.consolidation.parse::<Method>().map(Into::into)
    }
}

pub(super) fn value(key: &str, problem: impl Into<String>) -> StudyError {
    StudyError::Value { key: key.to_string(), problem: problem.into() }
}

impl Study {
    /// Whether sites hold rows of one table, and not columns.
    pub fn is_horizontal(&self) -> bool {
        self.protocol != Protocol::Vertical
    }

    /// Whether sites answer round by round, and a round may be closed without one of them.
    pub fn in_rounds(&self) -> bool {
        self.protocol == Protocol::Em
    }

    /// How sites take part; the defaults where the study says nothing.
    pub fn site_terms(&self) -> SiteTerms {
        self.sites.clone().unwrap_or_default()
    }

    /// The method of a robust study; the defaults where the study says nothing.
    pub fn robust_terms(&self) -> RobustTerms {
        self.robust.clone().unwrap_or_default()
    }

    /// Workers of whom something must have come.
    pub fn quorum(&self) -> usize {
        let most = self.workers.len();
        self.site_terms().quorum.map_or(most / 2 + 1, |quorum| quorum as usize)
    }

    /// Rows that the study declares for its workers: all of them or none.
    pub fn declared_rows(&self) -> BTreeMap<String, u64> {
        self.workers.iter().filter_map(|(name, terms)| Some((name.clone(), terms.rows?))).collect()
    }

    /// The name of the worker with a certificate's name.
    pub fn worker_of(&self, certificate: &str) -> Option<&str> {
        self.workers.iter().find(|(_, terms)| terms.certificate == certificate).map(|(name, _)| name.as_str())
    }

    /// How every batch is fitted.
    pub fn fit_settings(&self) -> FitSettings {
        let robust = self.robust_terms();
        FitSettings {
            start: robust.start,
            intercept: self.model.intercept,
            seed: robust.seed,
            ..FitSettings::default()
        }
    }

    /// The terms of a horizontal model.
    ///
    /// # Errors
    /// A formula that cannot be read, or that names no columns; a column with two roles.
    pub fn model_terms(&self) -> Result<Vec<Term>, StudyError> {
        let outcome = self.outcome.column.as_str();
        let (key, terms) = match &self.model.formula {
            None => {
                let names = self.model.features.iter().map(String::as_str);
                ("model.features", column_terms(names).map_err(|error| value("model.features", error.to_string()))?)
            }
            Some(text) => {
                let wrong = |problem: String| Err(value("model.formula", problem));
                let formula = match Formula::parse(text) {
                    Ok(formula) => formula,
                    Err(error) => return wrong(format!("cannot be read: {error}")),
                };
                if formula.has_rest() {
                    return wrong("must name its columns: `.` would mean something else at every site".to_string());
                }
                if !formula.offsets.is_empty() {
                    return wrong("has an offset, which this protocol does not know".to_string());
                }
                if formula.outcome.as_deref().is_some_and(|name| name != outcome) {
                    return wrong(format!("explains another column than `outcome.column`, which is `{outcome}`"));
                }
                if formula.intercept != self.model.intercept {
                    return wrong("and `model.intercept` contradict each other".to_string());
                }
                ("model.formula", formula.terms(&[], &[]))
            }
        };
        let roles: &[(&str, &'static str)] = if outcome.is_empty() { &[] } else { &[(outcome, "the outcome")] };
        check_roles(&terms, roles).map_err(|error| value(key, error.to_string()))?;
        Ok(terms)
    }

    /// Names of the coefficients, the intercept first, as the study alone tells them: a categorical column has its declared
    /// levels, every other column is one coefficient.
    ///
    /// # Errors
    /// As [`Study::model_terms`], and a model without coefficients.
    pub fn coefficient_names(&self) -> Result<Vec<String>, StudyError> {
        let terms = self.model_terms()?;
        let wrong = |error: crate::data::DataError| value("model", error.to_string());
        let mut names: Vec<&str> = terms.iter().flat_map(|term| &term.factors).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let mut places = Places::default();
        places.push(Place::Row(1));
        let columns = names
            .into_iter()
            .map(|name| {
                let truth = ["FALSE", "TRUE"].map(String::from);
                let levels = match self.columns.get(name) {
                    Some(terms) if terms.is_boolean() => &truth[..],
                    Some(terms) => &terms.levels,
                    None => &[],
                };
                let mut builder = match levels {
                    [] => ColumnBuilder::new(name),
                    levels => ColumnBuilder::with_levels(name, levels)?,
                };
                match levels.first() {
                    None => builder.number(0.0, Place::Row(1))?,
                    Some(level) => builder.level(level.as_bytes(), Place::Row(1))?,
                }
                builder.finish()
            })
            .collect::<Result<Vec<_>, _>>();
        let frame = columns.and_then(|columns| Frame::new(columns, None, places)).map_err(wrong)?;
        let mut all: Vec<String> = self.model.intercept.then(|| INTERCEPT.to_string()).into_iter().collect();
        all.extend(encode::term_names(&frame, &terms, self.model.intercept, None).map_err(wrong)?);
        match all.is_empty() {
            true => Err(value("model", "has no coefficient: name features, or keep the intercept")),
            false => Ok(all),
        }
    }

    /// Fills in what a horizontal study leaves to the defaults, so that it has one digest however it is written.
    pub(super) fn complete(&mut self) {
        if self.is_horizontal() {
            let quorum = u32::try_from(self.workers.len() / 2 + 1).unwrap_or(u32::MAX);
            self.sites.get_or_insert_default().quorum.get_or_insert(quorum);
        }
        if self.protocol == Protocol::Robust {
            self.robust.get_or_insert_default();
        }
        self.complete_methods();
    }

    pub(super) fn check_horizontal(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        let name = self.protocol.name();
        for (key, given) in [
            ("parties", !self.parties.is_empty()),
            ("offset", self.offset.is_some()),
            ("weights", self.weights.is_some()),
            ("penalty", self.penalty.is_some()),
            ("fit", self.fit != FitTerms::default()),
            ("inference", self.inference != InferenceTerms::default()),
            ("prediction", self.prediction != PredictionTerms::default()),
            ("rows.id", self.mode == Mode::Plain && self.rows != RowTerms { id: None, ..self.rows.clone() }),
            ("outcome.held_by", self.outcome.held_by != HeldBy::Both),
            ("model.family", self.model.family != Family::Gaussian),
            ("robust", self.robust.is_some() && self.protocol != Protocol::Robust),
            ("em", self.em.is_some() && self.protocol != Protocol::Em),
            ("features", self.features.is_some() && self.protocol != Protocol::Features),
            ("stream", self.stream.is_some() && self.protocol != Protocol::Stream),
        ] {
            if given {
                return wrong(key, &format!("has no place in a study of protocol `{name}`"));
            }
        }
        if self.workers.is_empty() {
            return wrong("workers", "must name at least one worker: `[workers.north]` with its `certificate`");
        }
        if self.workers.len() > MOST_WORKERS {
            return wrong("workers", &format!("has {}, more than {MOST_WORKERS}", self.workers.len()));
        }
        if let Some(odd) = self.workers.keys().find(|name| !sound_name(name)) {
            return wrong(
                &format!("workers.{}", odd.escape_debug()),
                "must have a name of 1 to 100 printable characters",
            );
        }
        for (name, terms) in &self.workers {
            let key = format!("workers.{name}.rows");
            match terms.rows {
                Some(_) if self.protocol != Protocol::Robust => {
                    return wrong(&key, "has a place in a study of protocol `robust` only");
                }
                Some(rows) if !(1..=MOST_ROWS_OF_A_SITE).contains(&rows) => {
                    return wrong(&key, &format!("must lie between 1 and {MOST_ROWS_OF_A_SITE}"));
                }
                None if self.workers.values().any(|terms| terms.rows.is_some()) => {
                    return wrong(&key, "is missing: state it for every worker, or for none");
                }
                _ => {}
            }
        }
        let sites = self.site_terms();
        if !(1..=MOST_ROWS_PER_PERSON).contains(&sites.rows_per_person) {
            return wrong("sites.rows_per_person", &format!("must lie between 1 and {MOST_ROWS_PER_PERSON}"));
        }
        if sites.rows_per_person > 1 && self.mode == Mode::Plain {
            return wrong("sites.rows_per_person", "has no place in a plain study: set mode = \"private\"");
        }
        if sites.rows_per_person > 1 && self.protocol == Protocol::Stream {
            return wrong("sites.rows_per_person", "has no place in a stream: `stream.records_per_person` says it");
        }
        if sites.rows_per_person > 1 && self.rows.id.is_none() {
            return wrong("sites.rows_per_person", "needs `rows.id`, the column that says whose a row is");
        }
        if !(1..=LARGEST_BATCH).contains(&sites.batch_rows) {
            return wrong("sites.batch_rows", &format!("must lie between 1 and {LARGEST_BATCH}"));
        }
        if self.quorum() == 0 || self.quorum() > self.workers.len() {
            let problem = format!("must lie between 1 and the number of workers, {}", self.workers.len());
            return wrong("sites.quorum", &problem);
        }
        if !(1..=u64::from(u32::MAX)).contains(&sites.deadline) {
            return wrong("sites.deadline", "must be at least 1 second, and at most 136 years");
        }
        if self.model.features.is_empty() == self.model.formula.is_none() {
            return wrong("model", "needs either `features` or `formula`");
        }
        if self.outcome.is_none() && self.protocol != Protocol::Em {
            return wrong("outcome.column", "is missing: which column is to be explained?");
        }
        self.check_site_budgets()?;
        let coefficients = self.coefficient_names()?.len();
        match self.protocol {
            Protocol::Vertical => Ok(()),
            Protocol::Robust => self.check_robust(&sites, coefficients),
            Protocol::Em => self.check_em(),
            Protocol::Features => self.check_features(),
            Protocol::Stream => self.check_stream(&sites),
        }
    }

    fn check_robust(&self, sites: &SiteTerms, coefficients: usize) -> Result<(), StudyError> {
        let robust = self.robust_terms();
        let consolidation =
            robust.consolidation().map_err(|error| value("robust.consolidation", format!("is not known: {error}")))?;
        let least = minimum_rows(coefficients);
        if sites.batch_rows < least as u64 {
            let problem = format!("must be at least {least}, three rows per coefficient, and is {}", sites.batch_rows);
            return Err(value("sites.batch_rows", problem));
        }
        let q = coefficients as u64;
        let numbers = q + 1 + if robust.gram { q * (q + 1) / 2 } else { 0 };
        if numbers > LARGEST_CONTRIBUTION {
            let problem =
                format!("makes estimates of {numbers} numbers, more than {LARGEST_CONTRIBUTION}; set it to false");
            return Err(value("robust.gram", problem));
        }
        if let Some(online) = &robust.online {
            if !(3..=10_000).contains(&online.window) {
                return Err(value("robust.online.window", "must lie between 3 and 10000"));
            }
            if online.switch == 1 || online.switch > 10_000 {
                return Err(value("robust.online.switch", "must lie between 2 and 10000, or be 0 for never"));
            }
            let _ = online.settings(consolidation);
        }
        self.check_private_robust()
    }

    pub(super) fn horizontal_disclosures(&self) -> Disclosures {
        let mut declared = match self.protocol {
            Protocol::Vertical | Protocol::Robust => vec![Declaration::BatchEstimate],
            Protocol::Em => vec![Declaration::GradientSum],
            Protocol::Features => match self.features_terms().release {
                Release::Statistics => vec![Declaration::FeatureStatistics],
                Release::Output => vec![Declaration::FeatureSolution],
            },
            Protocol::Stream => vec![Declaration::RecordUpdate],
        };
        if self.protocol == Protocol::Robust && self.robust_terms().gram {
            declared.push(Declaration::BatchGram);
        }
        Disclosures::new(declared)
    }
}

impl ColumnTerms {
    /// Whether the declared levels are those of truth values, in any case, which readers recognise by themselves.
    pub fn is_boolean(&self) -> bool {
        matches!(&self.levels[..], [no, yes] if no.eq_ignore_ascii_case("false") && yes.eq_ignore_ascii_case("true"))
    }
}

fn sound_name(name: &str) -> bool {
    (1..=100).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
        id = "sites"
        protocol = "robust"
        [workers.north]
        certificate = "north.example"
        [workers.south]
        certificate = "south.example"
        [model]
        features = ["age", "region"]
        [outcome]
        column = "cost"
        [columns.region]
        levels = ["a", "b", "c"]
    "#;

    #[test]
    fn a_short_horizontal_study_has_the_defaults_and_knows_its_coefficients() {
        let study = Study::parse(MINIMAL).unwrap();
        assert_eq!(study.coefficient_names().unwrap(), ["(Intercept)", "age", "regionb", "regionc"]);
        assert_eq!((study.quorum(), study.site_terms().batch_rows), (2, 1000));
        assert_eq!(study.worker_of("south.example"), Some("south"));
        let explicit = format!(
            "{MINIMAL}\n[sites]\nbatch_rows = 1000\nquorum = 2\ndeadline = 86400\n[robust]\nconsolidation = \"refine\"\n"
        );
        assert_eq!(study.digest(), Study::parse(&explicit).unwrap().digest());
        let written = toml::to_string_pretty(&study).unwrap();
        assert_eq!(Study::parse(&written).unwrap(), study);
    }

    #[test]
    fn declared_rows_are_of_all_workers_and_a_study_without_them_keeps_its_digest() {
        let study = Study::parse(MINIMAL).unwrap();
        let written = toml::to_string_pretty(&study).unwrap();
        assert!(study.declared_rows().is_empty() && !written.lines().any(|line| line.starts_with("rows =")));
        let stated = MINIMAL.replace(".example\"\n", ".example\"\n rows = 5\n");
        let stated = Study::parse(&stated).unwrap();
        assert_eq!(stated.declared_rows().values().sum::<u64>(), 10);
        assert_ne!(stated.digest(), study.digest());
    }

    #[test]
    fn a_formula_and_truth_values_name_their_coefficients_as_r_does() {
        let text = MINIMAL.replace("features = [\"age\", \"region\"]", "formula = \"cost ~ age * smoker\"").replace(
            "[columns.region]\n        levels = [\"a\", \"b\", \"c\"]",
            "[columns.smoker]\nlevels = [\"FALSE\", \"TRUE\"]",
        );
        let study = Study::parse(&text).unwrap();
        assert_eq!(study.coefficient_names().unwrap(), ["(Intercept)", "age", "smokerTRUE", "age:smokerTRUE"]);
        assert!(study.columns["smoker"].is_boolean());
    }

    #[test]
    fn every_mistake_in_a_horizontal_study_names_its_key() {
        let complaint = |text: &str| Study::parse(text).unwrap_err().to_string();
        for (find, put, says) in [
            (
                "[workers.south]\n        certificate = \"south.example\"",
                "[workers.south]\n certificate = \"north.example\"",
                "`workers` must have different",
            ),
            ("certificate = \"north.example\"", "certificate = \"\"", "`workers` must give"),
            (
                "certificate = \"north.example\"",
                "certificate = \"north.example\"\nrows = 10",
                "`workers.south.rows` is missing",
            ),
            (
                "certificate = \"north.example\"",
                "certificate = \"north.example\"\nrows = 0",
                "`workers.north.rows` must lie",
            ),
            ("features = [\"age\", \"region\"]", "features = [\"age\", \"cost\"]", "`model.features`"),
            ("features = [\"age\", \"region\"]", "features = [\"age\", \"age\"]", "`model.features`"),
            ("features = [\"age\", \"region\"]", "", "`model` needs either"),
            ("features = [\"age\", \"region\"]", "formula = \"cost ~ .\"", "`model.formula` must name its columns"),
            ("features = [\"age\", \"region\"]", "formula = \"bill ~ age\"", "`model.formula` explains another"),
            (
                "features = [\"age\", \"region\"]",
                "formula = \"cost ~ age - 1\"",
                "`model.formula` and `model.intercept`",
            ),
            ("column = \"cost\"", "column = \"\"", "`outcome.column` is missing"),
            ("column = \"cost\"", "column = \"cost\"\nheld_by = \"alice\"", "`outcome.held_by` has no place"),
            ("[outcome]", "[sites]\nquorum = 3\n[outcome]", "`sites.quorum` must lie"),
            ("[outcome]", "[sites]\nquorum = 0\n[outcome]", "`sites.quorum` must lie"),
            ("[outcome]", "[sites]\nbatch_rows = 11\n[outcome]", "`sites.batch_rows` must be at least 12"),
            ("[outcome]", "[sites]\ndeadline = 0\n[outcome]", "`sites.deadline` must be"),
            ("[outcome]", "[robust]\nconsolidation = \"refined\"\n[outcome]", "`robust.consolidation` is not known"),
            ("[outcome]", "[robust.online]\nwindow = 2\n[outcome]", "`robust.online.window`"),
            ("[outcome]", "[robust.online]\nswitch = 1\n[outcome]", "`robust.online.switch`"),
            ("[outcome]", "[robust]\nstrat = \"ols\"\n[outcome]", "did you mean `start`"),
            ("[outcome]", "[fit]\ntol = 1e-6\n[outcome]", "`fit` has no place"),
            ("[outcome]", "[penalty]\nlambda = 1.0\n[outcome]", "`penalty` has no place"),
        ] {
            let text = MINIMAL.replacen(find, put, 1);
            assert_ne!(text, MINIMAL, "{find}");
            assert!(complaint(&text).contains(says), "{put}: {}", complaint(&text));
        }
        let none = MINIMAL
            .replace("[workers.north]\n        certificate = \"north.example\"", "")
            .replace("[workers.south]\n        certificate = \"south.example\"", "");
        assert!(complaint(&none).contains("`workers` must name at least one"), "{}", complaint(&none));
    }
}
