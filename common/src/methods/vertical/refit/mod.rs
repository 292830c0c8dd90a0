//! Sub-models of a fit whose table has opened to this party: no line is opened for them, and nothing leaves.
//!
//! A gaussian fit follows from the cross-products of all columns and the outcome, and so does every fit to fewer columns, with a penalty or
//! without. What a party keeps of a fit is [`Kept`]: of a sealed one the opened table with the factors of all blocks (`exact`), of a private
//! one the noised tables with the plan of their noise (`noised`). Both are what this party has seen in the fit: a sub-model of them is
//! post-processing, tells nobody anything, and costs nothing of a budget.

mod exact;
mod noised;
mod select;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(super) use self::exact::{Block, Exact, Outcome};
pub(super) use self::noised::Noised;
pub use self::select::{Columns, SelectError, names};
use crate::fit::{Coefficient, Covariance, INTERCEPT, Statistics, TermTest, Termination};
use crate::glm::Family;
use crate::id::{Mode, Role};
use crate::privacy::caution::Caution;
use crate::report::{Dropped, PathCoefficient, PathPoint, PerParty, Refit, Report, VERSION};
use crate::session::Abort;
use crate::study::statement::Statement;
use crate::study::{CoefficientTerms, Mechanism, PenaltyTerms, Study, Vertical, VerticalGuarantee};

/// The version of what is kept: another one is refused.
pub const FORMAT: u32 = 1;

/// What a party keeps of a fit for sub-models.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Digest of the study.
    study: String,
    /// The run that opened the tables.
    run: String,
    /// To whom they opened.
    role: Role,
    /// The guarantee of the run.
    mode: Mode,
    /// Rows that took part.
    rows: u64,
    /// Rows left out because a value was missing.
    missing: u64,
    tables: Tables,
}

// A program has one of them.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Tables {
    Exact(Exact),
    Noised(Noised),
}

/// Sizes only: tables are exact sums over the data.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.tables {
            Tables::Exact(_) => "exact",
            Tables::Noised(_) => "noised",
        };
        write!(f, "Kept({kind} tables of {} rows, run {})", self.rows, self.run)
    }
}

/// Which sub-model is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Its columns.
    pub columns: Columns,
    /// A penalty; cross-validation has no place in it.
    pub penalty: Option<PenaltyTerms>,
}

/// Why there is no sub-model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RefitError {
    /// The columns that were asked for.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The study, or the tables.
    #[error(transparent)]
    Abort(#[from] Abort),
}

/// A term of the fit, without the intercept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Who holds it.
    pub party: Role,
    /// The name of its coefficient.
    pub name: String,
}

/// What a sub-model comes to.
struct Refitted {
    coefficients: Vec<Coefficient>,
    statistics: Statistics,
    covariance: Option<Covariance>,
    term_tests: Option<Vec<TermTest>>,
    path: Option<Vec<PathPoint>>,
    shown_lambda: Option<f64>,
    certificate: Option<f64>,
    termination: Termination,
    notes: Vec<String>,
    caution: Option<Caution>,
    statement: Option<Statement>,
}

/// Whether a party of a study may fit sub-models, from the study alone.
///
/// # Errors
/// No table opens, none opens to this party, or the study keeps the parties' coefficients apart.
pub fn allowed(study: &Study<Vertical>, role: Role) -> Result<(), Abort> {
    let refuse = |why: String| Err(Abort::Refused(format!("there is no refit: {why}")));
    if study.method.fit.coefficients == CoefficientTerms::Own {
        return refuse(
            "`fit.coefficients` of the study is \"own\", and a sub-model shows the coefficients of all parties to the one that computes it"
                .to_string(),
        );
    }
    let family = study.method.family;
    match &study.guarantee {
        VerticalGuarantee::Plain => refuse(
            "a plain fit opens no table from which sub-models follow; each is a run of its own, or a study with mode = \"sealed\" and \
             `sealed.refit = true`"
                .to_string(),
        ),
        VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) if family != Family::Gaussian => {
            refuse(format!("a {family} fit does not follow from one table; sub-models of gaussian fits do"))
        }
        VerticalGuarantee::Sealed(terms) if !terms.refit => refuse(
            "the study does not say `sealed.refit = true`, so that the factors which a sub-model takes have not left the other parties"
                .to_string(),
        ),
        VerticalGuarantee::Sealed(_) if !study.guarantee.opens_to_both() && !study.is_first(role) => {
            let first = study.first();
            refuse(format!(
                "the table of the fit opened to {first} alone, and only {first} can refit; `sealed.opens` of the study says to whom"
            ))
        }
        VerticalGuarantee::Private(terms) if terms.stated.mechanism == Mechanism::Residual => refuse(
            "the mechanism `residual` opens no table; private sub-models follow from `mechanism = \"crossprod\"`".to_string(),
        ),
        VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) => Ok(()),
    }
}

impl Kept {
    pub(super) fn exact(study: &Study<Vertical>, (role, run): (Role, String), missing: u64, exact: Exact) -> Kept {
        let rows = exact.used();
        Kept::new(study, (role, run), (rows, missing), Tables::Exact(exact))
    }

    pub(super) fn noised(study: &Study<Vertical>, (role, run): (Role, String), noised: Noised) -> Kept {
        let rows = noised.rows();
        Kept::new(study, (role, run), (rows, 0), Tables::Noised(noised))
    }

    fn new(study: &Study<Vertical>, (role, run): (Role, String), (rows, missing): (u64, u64), tables: Tables) -> Kept {
        Kept { study: study.digest().to_string(), run, role, mode: study.mode(), rows, missing, tables }
    }

    /// The run that opened the tables.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Whether the tables are of a study and a party, and fit together.
    ///
    /// # Errors
    /// They are of another study or party, or no fit leaves such.
    pub fn check(&self, study: &Study<Vertical>, role: Role) -> Result<(), Abort> {
        let [kept, asked] = [self.study.clone(), study.digest().to_string()].map(|digest| short(&digest));
        if self.study != study.digest().to_string() {
            return Err(Abort::Data(format!(
                "the table that is kept here is of a study with digest {kept}, and this one has {asked}: fit it first"
            )));
        }
        if self.role != role {
            return Err(Abort::Data(format!("the table that is kept here opened to {}, not to {role}", self.role)));
        }
        let sound = match (&self.tables, &study.guarantee) {
            (Tables::Exact(exact), VerticalGuarantee::Sealed(_)) => exact.is_sound(study),
            (Tables::Noised(noised), VerticalGuarantee::Private(_)) => {
                noised.rows() == self.rows && noised.is_sound(study)
            }
            (Tables::Exact(_) | Tables::Noised(_), _) => false,
        };
        match sound {
            true => Ok(()),
            false => Err(Abort::Data("the table that is kept here is damaged: fit the study again".to_string())),
        }
    }

    /// The terms of the fit, without the intercept, party by party.
    pub fn terms(&self, study: &Study<Vertical>) -> Vec<Term> {
        match &self.tables {
            Tables::Exact(exact) => exact.terms(),
            Tables::Noised(noised) => noised.terms(study),
        }
    }

    /// The sub-model, as a report without call, date and times.
    ///
    /// # Errors
    /// What the study does not allow, tables that are not its own, and columns that it does not have.
    pub fn refit(&self, study: &Study<Vertical>, wanted: &Wanted) -> Result<Report, RefitError> {
        allowed(study, self.role)?;
        self.check(study, self.role)?;
        let terms = self.terms(study);
        let stays = wanted.columns.stay(study, &terms)?;
        if !stays.contains(&true) && (!study.method.intercept || wanted.penalty.is_some()) {
            return Err(SelectError::Nothing.into());
        }
        let refitted = match &self.tables {
            Tables::Exact(exact) => exact.refit(study, &stays, wanted.penalty.as_ref())?,
            Tables::Noised(noised) => noised.refit(study, &self.run, &stays, wanted.penalty.as_ref())?,
        };
        let dropped = terms.into_iter().zip(&stays).filter(|(_, stays)| !**stays);
        let dropped = dropped.map(|(term, _)| Dropped { term: term.name, party: term.party }).collect();
        Ok(self.report(study, dropped, refitted))
    }

    fn report(&self, study: &Study<Vertical>, dropped: Vec<Dropped>, refitted: Refitted) -> Report {
        let family = study.method.stated_family();
        let mut notes = vec![self.origin(study)];
        notes.extend(refitted.notes);
        Report {
            protocol: study.protocol(),
            mode: study.mode(),
            study: study.head.id.clone(),
            study_digest: self.study.clone(),
            run: self.run.clone(),
            version: VERSION.to_string(),
            role: Some(self.role),
            parties: if study.leader().is_some() { study.parties_in_order() } else { Vec::new() },
            family,
            link: family.link().to_string(),
            outcome: study.method.outcome.column.clone(),
            coefficients: refitted.coefficients,
            statistics: refitted.statistics,
            covariance: refitted.covariance,
            term_tests: refitted.term_tests,
            converged: match self.mode {
                Mode::Private => None,
                Mode::Plain | Mode::Sealed => Some(true),
            },
            termination: refitted.termination,
            tol: f64::NAN,
            notes,
            missing: self.missing,
            lambda: refitted.shown_lambda,
            path: refitted.path,
            certificate: PerParty::Own(refitted.certificate),
            seconds: PerParty::Own(crate::report::Seconds::UNKNOWN),
            privacy: PerParty::Own(refitted.statement),
            refit: Some(Refit { run: self.run.clone(), dropped, numbers_sent: 0, charged: 0.0 }),
            ..Report::default()
        }
        .with_derived()
        .cautioned(refitted.caution)
    }

    /// What the report rests on, in a sentence.
    fn origin(&self, study: &Study<Vertical>) -> String {
        let what = match &self.tables {
            Tables::Exact(_) => "the table that opened to it in",
            Tables::Noised(_) => "the noised tables that opened in",
        };
        let penalty = study.method.penalty.as_ref().map(|_| "; the penalty of the study is not that of a refit");
        format!(
            "a sub-model that {} computed alone from {what} run {}: nobody was contacted and nothing left{}",
            self.role,
            self.run,
            penalty.unwrap_or_default()
        )
    }
}

fn short(digest: &str) -> String {
    digest.chars().take(8).collect()
}

/// A point on a path from its rows of the coefficient table.
fn point((lambda, deviance, kkt): (f64, f64, f64), rows: &[Coefficient]) -> PathPoint {
    let kept = rows.iter().filter(|row| row.term != INTERCEPT && row.estimate.is_some_and(|b| b != 0.0));
    let each = rows.iter().cloned();
    PathPoint {
        lambda,
        df: kept.count() as u64,
        deviance,
        kkt,
        coefficients: each
            .map(|row| PathCoefficient { term: row.term, party: row.party, estimate: row.estimate })
            .collect(),
    }
}

/// What the reader of a penalised sub-model must know.
fn penalised_notes() -> Vec<String> {
    vec!["penalised estimates have no standard errors".to_string()]
}
