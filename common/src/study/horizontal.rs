//! What a horizontal study says: who the sites are, how they take part, and with which method.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::{ColumnTerms, Mode, Protocol, StudyFile};
use super::methods::{Em, Features, Stream};
use super::{Guarantee, Head, PrivateFitTerms, Release, Study, StudyError, value};
use crate::data::encode::{self, check_roles, column_terms};
use crate::data::formula::{Formula, Term};
use crate::data::{ColumnBuilder, Frame, Place, Places};
use crate::fit::INTERCEPT;
use crate::id::Digest;
use crate::methods::robust::{ConsolidationSettings, FitSettings, Method, OnlineSettings, Start, minimum_rows};
use crate::privacy::bounds::{BoundsError, OutcomeBounds};
use crate::privacy::release::{Declaration, Disclosures};

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
    fn settings(&self, consolidation: ConsolidationSettings) -> OnlineSettings {
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        OnlineSettings {
            window: whole(self.window),
            switch: (self.switch > 0).then_some(whole(self.switch)),
            consolidation,
        }
    }
}

/// Sections that every study between sites takes beside those of all studies; each takes the one of its method too, and `rows.id` where
/// persons are counted.
const SECTIONS: [&str; 4] = ["workers", "sites", "model.features", "model.formula"];

/// A method between sites, and who they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// The sites, by the name that reports use.
    pub workers: BTreeMap<String, WorkerTerms>,
    /// How they take part.
    pub terms: SiteTerms,
    /// Header of the outcome; empty for points, which have none.
    pub outcome: String,
    /// Columns of the model; none where a formula names its terms.
    pub features: Vec<String>,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// Terms of the model.
    pub model: Vec<Term>,
    /// Names of the coefficients, the intercept first: a categorical column has its declared levels, every other column is one
    /// coefficient.
    pub coefficients: Vec<String>,
    /// What is computed.
    pub method: SiteMethod,
}

/// What sites compute, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum SiteMethod {
    /// One regression of rows some of which are wrong.
    Robust(Robust),
    /// Models with something hidden.
    Em(Em),
    /// A function by random features.
    Features(Features),
    /// A function that follows a stream of records.
    Stream(Stream),
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

impl Study<Sites> {
    pub(super) fn parse_file(file: StudyFile, head: Head, keys: Vec<(String, Digest)>) -> Result<Self, StudyError> {
        let (model, guarantee) = file.check_sites()?;
        let coefficients = file.coefficient_names(&model)?;
        let method = match file.protocol {
            Protocol::Vertical => return Err(value("protocol", "is `vertical`, which has no workers")),
            Protocol::Robust => SiteMethod::Robust(file.robust(&guarantee, coefficients.len())?),
            Protocol::Em => SiteMethod::Em(file.em(&guarantee, coefficients.len())?),
            Protocol::Features => SiteMethod::Features(file.features(&guarantee, &coefficients)?),
            Protocol::Stream => SiteMethod::Stream(file.stream(&guarantee, &coefficients)?),
        };
        let study = Study {
            head,
            guarantee,
            keys,
            method: Sites {
                workers: file.workers,
                terms: file.sites.unwrap_or_default(),
                outcome: file.outcome.column,
                features: file.model.features,
                intercept: file.model.intercept,
                model,
                coefficients,
                method,
            },
        };
        study.check_private_batches()?;
        Ok(study)
    }

    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        self.method.protocol()
    }

    /// How sites take part.
    pub fn site_terms(&self) -> &SiteTerms {
        &self.method.terms
    }

    /// Workers of whom something must have come.
    pub fn quorum(&self) -> usize {
        self.method.terms.quorum(self.method.workers.len())
    }

    /// Whether sites answer round by round, and a round may be closed without one of them.
    pub fn in_rounds(&self) -> bool {
        match &self.method.method {
            SiteMethod::Em(_) => true,
            SiteMethod::Robust(_) | SiteMethod::Features(_) | SiteMethod::Stream(_) => false,
        }
    }

    /// Rows that the study declares for its workers: all of them or none.
    pub fn declared_rows(&self) -> BTreeMap<String, u64> {
        self.method.workers.iter().filter_map(|(name, terms)| Some((name.clone(), terms.rows?))).collect()
    }

    /// The name of the worker with a certificate's name.
    pub fn worker_of(&self, certificate: &str) -> Option<&str> {
        let mut workers = self.method.workers.iter();
        workers.find(|(_, terms)| terms.certificate == certificate).map(|(name, _)| name.as_str())
    }

    /// The public range of the outcome.
    ///
    /// # Errors
    /// It is missing or cannot be used.
    pub fn outcome_bounds(&self) -> Result<OutcomeBounds, BoundsError> {
        self.head.bounds_of_outcome(&self.method.outcome)
    }

    /// What this study lets a site disclose.
    pub fn disclosures(&self) -> Disclosures {
        match &self.guarantee {
            Guarantee::Private(_) => return Disclosures::default(),
            Guarantee::Plain => {}
        }
        let declared = match &self.method.method {
            SiteMethod::Robust(robust) => {
                let gram = robust.gram.then_some(Declaration::BatchGram);
                std::iter::once(Declaration::BatchEstimate).chain(gram).collect()
            }
            SiteMethod::Em(_) => vec![Declaration::GradientSum],
            SiteMethod::Features(features) => match features.release {
                Release::Statistics => vec![Declaration::FeatureStatistics],
                Release::Output => vec![Declaration::FeatureSolution],
            },
            SiteMethod::Stream(_) => vec![Declaration::RecordUpdate],
        };
        Disclosures::new(declared)
    }
}

impl Sites {
    pub(super) fn protocol(&self) -> Protocol {
        match &self.method {
            SiteMethod::Robust(_) => Protocol::Robust,
            SiteMethod::Em(_) => Protocol::Em,
            SiteMethod::Features(_) => Protocol::Features,
            SiteMethod::Stream(_) => Protocol::Stream,
        }
    }

    /// Names of the inputs of a function: numeric columns, and levels of the others.
    pub fn inputs(&self) -> Vec<String> {
        inputs(&self.coefficients)
    }
}

/// Coefficients other than the intercept.
pub(super) fn inputs(coefficients: &[String]) -> Vec<String> {
    coefficients.iter().filter(|name| *name != INTERCEPT).cloned().collect()
}

impl SiteTerms {
    /// Workers, of so many, of whom something must have come.
    fn quorum(&self, workers: usize) -> usize {
        self.quorum.map_or(workers / 2 + 1, |quorum| quorum as usize)
    }

    fn check(&self, file: &StudyFile) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        if !(1..=MOST_ROWS_PER_PERSON).contains(&self.rows_per_person) {
            return wrong("sites.rows_per_person", &format!("must lie between 1 and {MOST_ROWS_PER_PERSON}"));
        }
        if self.rows_per_person > 1 {
            match file.mode {
                Mode::Plain => {
                    return wrong("sites.rows_per_person", "has no place in a plain study: set mode = \"private\"");
                }
                Mode::Private => {}
            }
            if file.protocol == Protocol::Stream {
                return wrong("sites.rows_per_person", "has no place in a stream: `stream.records_per_person` says it");
            }
            if file.rows.id.is_none() {
                return wrong("sites.rows_per_person", "needs `rows.id`, the column that says whose a row is");
            }
        }
        if !(1..=LARGEST_BATCH).contains(&self.batch_rows) {
            return wrong("sites.batch_rows", &format!("must lie between 1 and {LARGEST_BATCH}"));
        }
        let workers = file.workers.len();
        if !(1..=workers).contains(&self.quorum(workers)) {
            return wrong("sites.quorum", &format!("must lie between 1 and the number of workers, {workers}"));
        }
        match (1..=u64::from(u32::MAX)).contains(&self.deadline) {
            true => Ok(()),
            false => wrong("sites.deadline", "must be at least 1 second, and at most 136 years"),
        }
    }
}

impl StudyFile {
    /// The section of `[sites]`.
    pub(super) fn site_terms(&self) -> SiteTerms {
        self.sites.clone().unwrap_or_default()
    }

    /// What studies between sites have in common: the terms of the model, and the guarantee.
    fn check_sites(&self) -> Result<(Vec<Term>, Guarantee), StudyError> {
        let name = self.protocol.name();
        let mut taken = SECTIONS.to_vec();
        taken.push(name);
        match self.mode {
            Mode::Plain => {}
            Mode::Private => taken.push("rows.id"),
        }
        self.takes_only(&taken, &format!("a study of protocol `{name}`"))?;
        self.check_workers()?;
        self.site_terms().check(self)?;
        if self.model.features.is_empty() == self.model.formula.is_none() {
            return Err(value("model", "needs either `features` or `formula`"));
        }
        if self.outcome.is_none() && self.protocol != Protocol::Em {
            return Err(value("outcome.column", "is missing: which column is to be explained?"));
        }
        let guarantee = self.site_guarantee()?;
        Ok((self.model_terms()?, guarantee))
    }

    fn check_workers(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
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
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// The terms of the model.
    fn model_terms(&self) -> Result<Vec<Term>, StudyError> {
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

    /// Names of the coefficients, as the study alone tells them.
    fn coefficient_names(&self, terms: &[Term]) -> Result<Vec<String>, StudyError> {
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
        all.extend(encode::term_names(&frame, terms, self.model.intercept, None).map_err(wrong)?);
        match all.is_empty() {
            true => Err(value("model", "has no coefficient: name features, or keep the intercept")),
            false => Ok(all),
        }
    }

    fn robust(&self, guarantee: &Guarantee, coefficients: usize) -> Result<Robust, StudyError> {
        let robust = self.robust.clone().unwrap_or_default();
        let batch_rows = self.site_terms().batch_rows;
        let consolidation = match robust.consolidation.parse::<Method>() {
            Ok(method) => method.into(),
            Err(error) => return Err(value("robust.consolidation", format!("is not known: {error}"))),
        };
        let least = minimum_rows(coefficients);
        if batch_rows < least as u64 {
            let problem = format!("must be at least {least}, three rows per coefficient, and is {batch_rows}");
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
        }
        self.check_private_robust(&robust, guarantee)?;
        Ok(Robust {
            fit: FitSettings {
                start: robust.start,
                intercept: self.model.intercept,
                seed: robust.seed,
                ..FitSettings::default()
            },
            consolidation,
            gram: robust.gram,
            online: robust.online.map(|online| online.settings(consolidation)),
            private: robust.private.unwrap_or_default(),
        })
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
    use crate::study::tests::{sites, written};

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
        let study = sites(MINIMAL);
        assert_eq!(study.method.coefficients, ["(Intercept)", "age", "regionb", "regionc"]);
        assert_eq!((study.quorum(), study.site_terms().batch_rows), (2, 1000));
        assert_eq!(study.worker_of("south.example"), Some("south"));
        let explicit = format!(
            "{MINIMAL}\n[sites]\nbatch_rows = 1000\nquorum = 2\ndeadline = 86400\n[robust]\nconsolidation = \"refine\"\n"
        );
        assert_eq!(study.digest(), Study::parse(&explicit).unwrap().digest());
        assert_eq!(sites(&written(MINIMAL)), study);
    }

    #[test]
    fn declared_rows_are_of_all_workers_and_a_study_without_them_keeps_its_digest() {
        let (study, written) = (sites(MINIMAL), written(MINIMAL));
        assert!(study.declared_rows().is_empty() && !written.lines().any(|line| line.starts_with("rows =")));
        let stated = MINIMAL.replace(".example\"\n", ".example\"\n rows = 5\n");
        let stated = sites(&stated);
        assert_eq!(stated.declared_rows().values().sum::<u64>(), 10);
        assert_ne!(stated.digest(), study.digest());
    }

    #[test]
    fn a_formula_and_truth_values_name_their_coefficients_as_r_does() {
        let text = MINIMAL.replace("features = [\"age\", \"region\"]", "formula = \"cost ~ age * smoker\"").replace(
            "[columns.region]\n        levels = [\"a\", \"b\", \"c\"]",
            "[columns.smoker]\nlevels = [\"FALSE\", \"TRUE\"]",
        );
        let study = sites(&text);
        assert_eq!(study.method.coefficients, ["(Intercept)", "age", "smokerTRUE", "age:smokerTRUE"]);
        assert!(study.head.columns["smoker"].is_boolean());
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
