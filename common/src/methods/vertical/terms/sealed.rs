//! The sealed mode of a study of two parties: what it must not say, and what it lets leave.

use super::{Acceleration, CoefficientTerms, FitTerms, Vertical};
use crate::glm::Family;
use crate::privacy::release::Declaration;
use crate::terms::{HeldBy, Missing, Promise, Study, StudyError, value};

impl Study<Vertical> {
    /// Refuses what a sealed run between two parties cannot keep.
    pub(crate) fn check_sealed(&self) -> Result<(), StudyError> {
        let method = &self.method;
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
                method.weights.as_ref().is_some_and(|weights| weights.held_by == HeldBy::Alice),
                "is alice: in sealed mode both parties scale their rows by the weights, so both must hold them"
                    .to_owned(),
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
