//! How a study between sites is parsed: who takes part, the terms of the model, the guarantee, and then the section of its method.

use super::file::StudyFile;
use super::{SiteMethod, Sites, Study};
use crate::data::encode::{self, check_roles, column_terms};
use crate::data::formula::{self, Formula, Term};
use crate::data::{ColumnBuilder, Frame, Place, Places};
use crate::fit::INTERCEPT;
use crate::id::{Digest, Mode, Protocol};
use crate::terms::{self, Guarantee, Head, Mechanism, Missing, PrivacyTerms, SiteTerms, StudyError, value};

/// Most workers of one study.
const MOST_WORKERS: usize = 10_000;
/// Most rows of a batch.
const LARGEST_BATCH: u64 = 10_000_000;

/// Most rows that a site may be said to have.
const MOST_ROWS_OF_A_SITE: u64 = 1 << 50;
/// Most rows of one person: noise grows with their number.
const MOST_ROWS_PER_PERSON: u32 = 1000;

/// Sections that every study between sites takes beside those of all studies; each takes the one of its method too, and `rows.id` where
/// persons are counted.
const SECTIONS: [&str; 4] = ["workers", "sites", "model.features", "model.formula"];

impl StudyFile {
    pub(super) fn parse_sites(&self, head: Head, keys: Vec<(String, Digest)>) -> Result<Study<Sites>, StudyError> {
        let (model, guarantee) = self.check_sites()?;
        let coefficients = self.coefficient_names(&model)?;
        let sites = terms::Sites {
            workers: self.workers.clone(),
            terms: self.site_terms(),
            outcome: self.outcome.column.clone(),
            features: self.model.features.clone(),
            intercept: self.model.intercept,
            model,
            coefficients,
            method: (),
        };
        let study = Study { head, guarantee, keys, method: sites };
        let method = SiteMethod::parse(self, &study)?;
        Ok(study.with(|sites| sites.with(method)))
    }

    /// The section of `[sites]`.
    fn site_terms(&self) -> SiteTerms {
        self.sites.clone().unwrap_or_default()
    }

    /// As of the study that it becomes: by this a rehearsal chooses settings that are still to be written. Infinite also where the budget
    /// will be refused.
    pub fn site_mu(&self) -> f64 {
        Guarantee::parse(self.mode, self.privacy.as_ref(), "")
            .map_or(f64::INFINITY, |guarantee| guarantee.row_mu(self.site_terms().rows_per_person))
    }

    /// What studies between sites have in common: the terms of the model, and the guarantee.
    fn check_sites(&self) -> Result<(Vec<Term>, Guarantee), StudyError> {
        let name = self.protocol.name();
        let mut taken = SECTIONS.to_vec();
        taken.push(name);
        match self.mode {
            Mode::Plain | Mode::Sealed => {}
            Mode::Private => taken.push("rows.id"),
        }
        self.takes_only(&taken, &format!("a study of protocol `{name}`"))?;
        self.check_workers()?;
        self.check_site_terms()?;
        if self.model.features.is_empty() == self.model.formula.is_none() {
            return Err(value("model", "needs either `features` or `formula`"));
        }
        if self.outcome.is_none() && self.protocol != Protocol::Em {
            return Err(value("outcome.column", "is missing: which column is to be explained?"));
        }
        let guarantee = self.site_guarantee()?;
        Ok((self.model_terms()?, guarantee))
    }

    /// The guarantee of a study between sites.
    fn site_guarantee(&self) -> Result<Guarantee, StudyError> {
        let guarantee = Guarantee::parse(self.mode, self.privacy.as_ref(), "`privacy.epsilon` and `privacy.delta`")?;
        match &guarantee {
            Guarantee::Plain => {}
            Guarantee::Private(terms) => self.check_site_privacy(&terms.stated)?,
        }
        Ok(guarantee)
    }

    fn check_site_privacy(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        let PrivacyTerms { mechanism, rounds, clip, ridge, .. } = terms;
        for (key, given) in [
            ("privacy.mechanism", *mechanism != Mechanism::default()),
            ("privacy.rounds", *rounds != 1),
            ("privacy.clip", *clip != 0.3),
            ("privacy.ridge", *ridge != 0.0),
        ] {
            if given {
                return wrong(key, format!("has no place in a study of protocol `{}`", self.protocol.name()));
            }
        }
        if self.rows.missing == Missing::CompleteCases {
            let problem = "cannot be used in private mode: which rows are left out would show in their number; an incomplete row \
                           counts as zero";
            return wrong("rows.missing", problem.to_owned());
        }
        match terms.delta {
            Some(_) => Ok(()),
            None => {
                let problem = "is missing: every site's noise, which the coordinator must know, follows from it";
                wrong("privacy.delta", problem.to_owned())
            }
        }
    }

    fn check_site_terms(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        let terms = self.site_terms();
        if !(1..=MOST_ROWS_PER_PERSON).contains(&terms.rows_per_person) {
            return wrong("sites.rows_per_person", &format!("must lie between 1 and {MOST_ROWS_PER_PERSON}"));
        }
        if terms.rows_per_person > 1 {
            match self.mode {
                Mode::Plain | Mode::Sealed => {
                    return wrong("sites.rows_per_person", "has no place in a plain study: set mode = \"private\"");
                }
                Mode::Private => {}
            }
            if self.protocol == Protocol::Stream {
                return wrong("sites.rows_per_person", "has no place in a stream: `stream.records_per_person` says it");
            }
            if self.rows.id.is_none() {
                return wrong("sites.rows_per_person", "needs `rows.id`, the column that says whose a row is");
            }
        }
        if !(1..=LARGEST_BATCH).contains(&terms.batch_rows) {
            return wrong("sites.batch_rows", &format!("must lie between 1 and {LARGEST_BATCH}"));
        }
        let workers = self.workers.len();
        if !(1..=workers).contains(&terms.quorum(workers)) {
            return wrong("sites.quorum", &format!("must lie between 1 and the number of workers, {workers}"));
        }
        match (1..=u64::from(u32::MAX)).contains(&terms.deadline) {
            true => Ok(()),
            false => wrong("sites.deadline", "must be at least 1 second, and at most 136 years"),
        }
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
                let at = |problem: String, place: usize| wrong(problem + &formula::caret(text, place));
                let formula = match Formula::parse(text) {
                    Ok(formula) => formula,
                    Err(error) => return wrong(format!("cannot be read: {error}")),
                };
                if formula.has_rest() {
                    return wrong("must name its columns: `.` would mean something else at every site".to_string());
                }
                if formula.has_functions() {
                    return wrong("has a function of columns, which the formula of one party in a study of two may have, and this protocol does not know".to_string());
                }
                if !formula.offsets.is_empty() {
                    return at("has an offset, which this protocol does not know".to_string(), formula.places.offset);
                }
                if formula.outcome.as_deref().is_some_and(|name| name != outcome) {
                    let problem = format!("explains another column than `outcome.column`, which is `{outcome}`");
                    return at(problem, formula.places.outcome);
                }
                if formula.intercept != self.model.intercept {
                    let problem = "and `model.intercept` contradict each other";
                    return at(problem.to_string(), formula.places.intercept);
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
        let mut names = formula::columns(terms);
        names.sort_unstable();
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
}

fn sound_name(name: &str) -> bool {
    (1..=100).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}
