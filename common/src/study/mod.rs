//! The shared file: what all parties agree on, and its digest.
//!
//! Every party reviews the same `study.toml`. Its digest is taken over the content of the file, key by key, so that comments
//! and white space do not matter, and so that two parties whose files differ can both print which keys do.
//!
//! A file is parsed into a head that all methods share, a guarantee with its terms, and a method with its checked parameters:
//! keys that do not belong together are refused here, and no later code asks again.

use std::collections::BTreeMap;

use crate::id::Digest;
use crate::terms::value;

mod file;
mod formulas;
mod function;
mod methods;
mod sites;

pub use self::file::StudyFile;
pub use self::function::{Fitted, Forming, Function, Input, Slice};
pub use self::methods::{Method, SiteMethod};
pub use crate::id::{Mode, Protocol};
pub use crate::methods::em::terms::{Em, EmTerms, EstimatorName, UpdateName};
pub use crate::methods::features::terms::{Features, FeaturesTerms, Release};
pub use crate::methods::robust::terms::{OnlineTerms, PrivateFitTerms, Robust, RobustTerms};
pub use crate::methods::stream::terms::{DecayName, KernelName, LossName, Stream, StreamFeatures, StreamTerms};
pub use crate::methods::vertical::terms::{
    Acceleration, CoefficientTerms, CovarianceTerms, ErrorKind, ErrorsByMechanism, FitTerms, InferenceTerms,
    InferenceTime, Lambda, OpensTo, PartyTerms, PathWord, PenaltyTerms, PredictionTerms, PrivacyError, SealedTerms,
    Vertical, VerticalGuarantee,
};
pub use crate::terms::suggestion::{ErrorRow, ErrorTable, Search, Suggestion};
pub use crate::terms::{
    CoefficientGuess, ColumnTerms, CoordinatorTerms, DealerTerms, DesignTerms, DuplicateTerms, Expectation, FoldTerms,
    Guarantee, Guaranteed, Head, HeldAs, HeldBy, HeldColumn, KeyKind, KeyTerms, MatchProtocol, MatchRun, MatchTerms,
    Mechanism, Membership, Missing, Model, NoExpectation, PassTerms, PrivacyTerms, PrivateTerms, Promise, RowTerms,
    SiteTerms, Size, StudyError, WorkerTerms, explain, explain_in, statement,
};

/// A study, parsed and checked: of any method, or of one of them ([`Vertical`], [`Sites`]) where code knows which.
pub type Study<M = Method> = crate::terms::Study<M>;

/// A method between sites, and who they are.
pub type Sites = crate::terms::Sites<SiteMethod>;

impl Study {
    /// Parses and checks a study file.
    ///
    /// # Errors
    /// Unknown keys, with the nearest known one, and values that cannot be used.
    pub fn parse(text: &str) -> Result<Study, StudyError> {
        let file: StudyFile = toml::from_str(text).map_err(|error| StudyError::Parse(explain_in(text, &error)))?;
        Study::try_from(file)
    }

    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        match &self.method {
            Method::Vertical(..) => Protocol::Vertical,
            Method::Sites(sites, _) => sites.method.terms().protocol(),
        }
    }

    /// As a study of two parties, or else as one between sites.
    ///
    /// # Errors
    /// Not a failure: the study is between sites.
    // A process splits one study: its size costs nothing.
    #[allow(clippy::result_large_err)]
    pub fn split(self) -> Result<Study<Vertical>, Study<Sites>> {
        let Study { head, guarantee: (), method, keys } = self;
        match method {
            Method::Vertical(method, guarantee) => Ok(Study { head, guarantee, method, keys }),
            Method::Sites(method, guarantee) => Err(Study { head, guarantee, method, keys }),
        }
    }

    /// The study of two parties, if it is one.
    pub fn vertical(self) -> Option<Study<Vertical>> {
        self.split().ok()
    }

    /// The study between sites, if it is one.
    pub fn sites(self) -> Option<Study<Sites>> {
        self.split().err()
    }

    /// The keys in which two studies differ, from their key digests.
    pub fn differing_keys(ours: &[(String, Digest)], theirs: &[(String, Digest)]) -> Vec<String> {
        let ours: BTreeMap<_, _> = ours.iter().map(|(key, digest)| (key.as_str(), *digest)).collect();
        let theirs: BTreeMap<_, _> = theirs.iter().map(|(key, digest)| (key.as_str(), *digest)).collect();
        let mut keys: Vec<String> = ours
            .keys()
            .chain(theirs.keys())
            .filter(|key| ours.get(*key) != theirs.get(*key))
            .map(|key| key.chars().filter(|c| !c.is_control()).take(200).collect())
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl TryFrom<StudyFile> for Study {
    type Error = StudyError;

    fn try_from(mut file: StudyFile) -> Result<Study, StudyError> {
        file.complete();
        let StudyFile { id, coordinator, dealer, columns, rows, matching, .. } = file.clone();
        let head = Head { id, coordinator, dealer, columns, rows, matching };
        head.check()?;
        let keys = file.key_digests();
        match file.protocol {
            Protocol::Vertical => {
                let study = file.parse_vertical(head, keys)?;
                study.check_dealer()?;
                let names = study.method.parties.values().map(|terms| terms.certificate.as_str());
                let all = match study.leader().is_some() {
                    true => "every party and the coordinator",
                    false => "alice, bob and the coordinator",
                };
                certificates("parties", all, names, &study.head)?;
                let Study { head, guarantee, method, keys } = study;
                Ok(Study { head, guarantee: (), method: Method::Vertical(method, guarantee), keys })
            }
            Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => {
                let study = file.parse_sites(head, keys)?;
                let names = study.method.workers.values().map(|terms| terms.certificate.as_str());
                certificates("workers", "every worker and the coordinator", names, &study.head)?;
                let Study { head, guarantee, method, keys } = study;
                Ok(Study { head, guarantee: (), method: Method::Sites(method, guarantee), keys })
            }
        }
    }
}

/// Refuses certificates without a name, and two with the same.
fn certificates<'a>(
    key: &str,
    all: &str,
    names: impl Iterator<Item = &'a str>,
    head: &'a Head,
) -> Result<(), StudyError> {
    let dealer = head.dealer.iter().map(|dealer| dealer.certificate.as_str());
    let mut names: Vec<&str> = names.chain([head.coordinator.certificate.as_str()]).chain(dealer).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(value(key, "must give each party the name in its certificate"));
    }
    names.sort_unstable();
    match names.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(value(key, format!("must have different certificate names for {all}"))),
        false => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
