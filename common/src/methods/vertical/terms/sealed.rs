//! The sealed mode of a study between parties: what it must not say, and what it lets leave.

use serde::{Deserialize, Serialize};

use super::{Acceleration, CoefficientTerms, FitTerms, Vertical};
use crate::glm::Family;
use crate::id::Mode;
use crate::privacy::release::Declaration;
use crate::secure::kernel::CLASSES;
use crate::terms::{Missing, Promise, Study, StudyError, value};

/// The smallest range that a study may fix: a part of the linear predictor that is cut below it says little.
const SMALLEST_RANGE: f64 = 1.0;

/// What a sealed run lets open, and to whom.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedTerms {
    /// Of binomial and Poisson fits: each party cuts its own centred part of the linear predictor at this number, either way (that of
    /// Alice in a Poisson fit with the intercept), and tells nobody how large it is; 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24 or 32. If absent, the parties tell each other the class
    /// that holds their part, and nothing is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<f64>,
    /// To whom the tables of a fit open, and the gradients of a binomial or Poisson fit.
    #[serde(default, skip_serializing_if = "OpensTo::is_alice")]
    pub opens: OpensTo,
    /// Of gaussian fits: whether the columns' triangular factor, means and scales open too, to everybody to whom the table opens, who then fits
    /// sub-models by itself with the command `refit`; a factor is the exact cross-products of a party's own columns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refit: bool,
}

/// To whom the table of a sealed fit opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpensTo {
    /// To Alice, who makes the solution of it and tells Bob his part; of several parties to the leader, who tells each of the others its own.
    #[default]
    Alice,
    /// To both: Bob checks against them what Alice tells him.
    Both,
    /// Of several parties, the tables of all pairs to all of them, each of which solves by itself; of two the same as `both`.
    All,
}

impl OpensTo {
    fn is_alice(&self) -> bool {
        *self == OpensTo::Alice
    }

    /// As of a study of two parties.
    pub(crate) fn of_two(self) -> OpensTo {
        match self {
            OpensTo::Alice => OpensTo::Alice,
            OpensTo::Both | OpensTo::All => OpensTo::Both,
        }
    }
}

impl SealedTerms {
    /// The section of a study, which has a place in sealed mode only.
    pub(super) fn of_mode(stated: Option<&SealedTerms>, mode: Mode) -> Result<SealedTerms, StudyError> {
        let Some(stated) = stated else { return Ok(SealedTerms::default()) };
        if mode == Mode::Sealed {
            return Ok(stated.clone());
        }
        let key = match (stated.range, stated.opens) {
            (Some(_), _) => "sealed.range",
            (None, OpensTo::Both | OpensTo::All) => "sealed.opens",
            (None, OpensTo::Alice) if stated.refit => "sealed.refit",
            (None, OpensTo::Alice) => "sealed",
        };
        Err(value(key, format!("is given, but `mode` is \"{}\": set mode = \"sealed\"", mode.name())))
    }

    fn check(&self, method: &Vertical) -> Result<(), StudyError> {
        let family = method.family;
        self.check_refit(method)?;
        let Some(range) = self.range else { return Ok(()) };
        let ranges: Vec<f64> = CLASSES.into_iter().filter(|class| *class >= SMALLEST_RANGE).collect();
        if !ranges.contains(&range) {
            let all: Vec<String> = ranges.iter().map(f64::to_string).collect();
            return Err(value("sealed.range", format!("must be one of {}, got {range}", all.join(", "))));
        }
        match family {
            Family::Gaussian => Err(value(
                "sealed.range",
                "has no place in a sealed gaussian study: the fit follows from one table, and no linear predictor has a range",
            )),
            Family::Binomial | Family::Poisson => Ok(()),
        }
    }
}

/// Whom what several parties cannot do is for.
pub(super) const ONLY_OF_TWO: &str = "is for two parties in this version";

impl SealedTerms {
    /// Refuses sub-models where no table decides them, or where they would show coefficients that the study keeps apart.
    fn check_refit(&self, method: &Vertical) -> Result<(), StudyError> {
        let problem = match (method.family, method.fit.coefficients) {
            _ if !self.refit => return Ok(()),
            (family @ (Family::Binomial | Family::Poisson), _) => {
                format!("is true, but a {family} fit does not follow from one table; sub-models of gaussian fits do")
            }
            (Family::Gaussian, CoefficientTerms::Own) => {
                "is true, but `fit.coefficients` is \"own\": a sub-model shows the coefficients of all parties to the one that computes it"
                    .to_owned()
            }
            (Family::Gaussian, CoefficientTerms::Shared) => return Ok(()),
        };
        Err(value("sealed.refit", problem))
    }
}

impl Study<Vertical> {
    /// Refuses what a sealed run between two parties cannot keep.
    pub(crate) fn check_sealed(&self, terms: &SealedTerms) -> Result<(), StudyError> {
        let method = &self.method;
        terms.check(method)?;
        if self.is_of_several() {
            self.check_sealed_several(terms)?;
        }
        let FitTerms { acceleration, tol, max_rounds, .. } = &method.fit;
        let default = FitTerms::default();
        let gaussian = method.family == Family::Gaussian;
        let only_gaussian = |what: &str| format!("{what}: sealed mode has that for gaussian only in this version");
        let rounds = || if gaussian { one_table() } else { no_rounds() };
        let refused = [
            (
                "penalty.cv",
                !gaussian && method.penalty.as_ref().is_some_and(|penalty| penalty.cv.is_some()),
                only_gaussian("is given"),
            ),
            (
                "weights.held_by",
                method.weights.as_ref().is_some_and(|weights| weights.held_by.is_alone()),
                match self.is_of_several() {
                    true => "is one party: in sealed mode all parties scale their rows by the weights, so all must hold them".to_owned(),
                    false => format!(
                        "is {}: in sealed mode both parties scale their rows by the weights, so both must hold them",
                        method.first()
                    ),
                },
            ),
            ("fit.acceleration", *acceleration != Acceleration::default(), rounds()),
            ("fit.tol", *tol != default.tol, rounds()),
            ("fit.max_rounds", max_rounds.is_some(), rounds()),
        ];
        match refused.into_iter().find(|(_, given, _)| *given) {
            Some((key, _, problem)) => Err(value(key, problem)),
            None => Ok(()),
        }
    }

    /// Refuses what sealed mode has for two parties only.
    fn check_sealed_several(&self, terms: &SealedTerms) -> Result<(), StudyError> {
        let (method, two) = (&self.method, ONLY_OF_TWO);
        let family = method.family;
        let why =
            "; what its gradients need of three parties' shares would show two of them together the mean of every row";
        let refused = [
            ("model.family", family != Family::Gaussian, format!("is {family}: a sealed {family} fit {two}{why}")),
            ("penalty", method.penalty.is_some(), format!("is given: a penalty in sealed mode {two}")),
            (
                "sealed.opens",
                terms.opens == OpensTo::Both,
                format!(
                    "is both, which {two}: among several the tables open to the leader, or with \"all\" to every party"
                ),
            ),
        ];
        match refused.into_iter().find(|(_, given, _)| *given) {
            Some((key, _, problem)) => Err(value(key, problem)),
            None => Ok(()),
        }
    }

    /// Refuses a dealer where nothing is dealt.
    pub(crate) fn check_dealer(&self) -> Result<(), StudyError> {
        if self.head.dealer.is_none() || self.is_dealt() {
            return Ok(());
        }
        let mode = self.guarantee.mode().name();
        let problem = format!(
            "has no place in a {mode} study: masks are dealt in sealed mode, and in private mode by `mechanism = \"crossprod\"`"
        );
        Err(value("dealer", problem))
    }

    /// What a sealed run lets either party disclose.
    pub(super) fn sealed_declarations(&self) -> Vec<Declaration> {
        let mut declared = vec![Declaration::Masked, Declaration::CrossProducts, Declaration::Summary];
        if self.head.rows.missing == Missing::CompleteCases {
            declared.push(Declaration::MissingRows);
        }
        if self.method.fit.coefficients == CoefficientTerms::Shared {
            declared.push(Declaration::Coefficients);
        }
        declared
    }
}

fn one_table() -> String {
    "has no place in a sealed gaussian study: the fit follows from one table, without rounds".to_owned()
}

fn no_rounds() -> String {
    "has no place in a sealed study: the fit ends where the opened gradient vanishes, after 60 of them at most"
        .to_owned()
}
