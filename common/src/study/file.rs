//! The study file as it is written: every section of every method, and the digest that parties compare.
//!
//! What of it fits together is decided where the guarantee and the method are parsed; nothing outside this folder reads a section here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::glm::Family;
use crate::id::{Digest, Mode, Protocol, Role};
use crate::methods::em::terms::EmTerms;
use crate::methods::features::terms::FeaturesTerms;
use crate::methods::robust::terms::RobustTerms;
use crate::methods::stream::terms::StreamTerms;
use crate::methods::vertical::terms::{
    FitTerms, InferenceTerms, PartyTerms, PenaltyTerms, PredictionTerms, SealedTerms,
};
use crate::terms::{
    ColumnTerms, CoordinatorTerms, DealerTerms, HeldBy, HeldColumn, MatchTerms, Model, PrivacyTerms, RowTerms,
    SiteTerms, StudyError, WorkerTerms, value,
};

/// A study file as it is written, with the sections of every method; [`Study::parse`](super::Study::parse) makes of it what fits
/// together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// The study's name.
    pub id: String,
    /// Which method.
    #[serde(default)]
    pub protocol: Protocol,
    /// What leaves, and under which guarantee.
    #[serde(default)]
    pub mode: Mode,
    /// What a private run may cost, and how it is made; in private mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyTerms>,
    /// The parties of a vertical study.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parties: BTreeMap<Role, PartyTerms>,
    /// The sites of a horizontal study, by the name that reports use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<String, WorkerTerms>,
    /// Who convenes.
    #[serde(default)]
    pub coordinator: CoordinatorTerms,
    /// Who deals the masks of a sealed run; the coordinator if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dealer: Option<DealerTerms>,
    /// What a sealed run lets open, and to whom; in sealed mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedTerms>,
    /// Family and link.
    #[serde(default)]
    pub model: Model,
    /// The outcome.
    #[serde(default, skip_serializing_if = "HeldColumn::is_none")]
    pub outcome: HeldColumn,
    /// A term with coefficient 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<HeldColumn>,
    /// Case weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<HeldColumn>,
    /// What is known of columns beforehand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, ColumnTerms>,
    /// Which rows take part.
    #[serde(default)]
    pub rows: RowTerms,
    /// How two parties find the rows that both have, where they did not select the same rows beforehand.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchTerms>,
    /// The penalty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<PenaltyTerms>,
    /// The iteration.
    #[serde(default)]
    pub fit: FitTerms,
    /// Standard errors.
    #[serde(default)]
    pub inference: InferenceTerms,
    /// Scoring new rows.
    #[serde(default)]
    pub prediction: PredictionTerms,
    /// How sites take part in a horizontal study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<SiteTerms>,
    /// The method of a robust study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robust: Option<RobustTerms>,
    /// The method of a study with something hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub em: Option<EmTerms>,
    /// The method of a study with random features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeaturesTerms>,
    /// The method of a study that follows a stream of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamTerms>,
}

impl StudyFile {
    /// Fills in what a study between sites leaves to the defaults, so that it has one digest however it is written.
    pub(super) fn complete(&mut self) {
        match self.protocol {
            Protocol::Vertical => return,
            Protocol::Robust => drop(self.robust.get_or_insert_default()),
            // What is hidden has no intercept; its points and covariates are centred.
            Protocol::Em => self.model.intercept = false,
            Protocol::Features => drop(self.features.get_or_insert_default()),
            Protocol::Stream => drop(self.stream.get_or_insert_default()),
        }
        let quorum = u32::try_from(self.workers.len() / 2 + 1).unwrap_or(u32::MAX);
        self.sites.get_or_insert_default().quorum.get_or_insert(quorum);
    }

    /// Refuses the sections that are set and that the study's method does not take; `place` says what it is.
    pub(super) fn takes_only(&self, taken: &[&str], place: &str) -> Result<(), StudyError> {
        let sections = [
            ("parties", !self.parties.is_empty()),
            ("workers", !self.workers.is_empty()),
            ("dealer", self.dealer.is_some()),
            ("sealed", self.sealed.is_some()),
            ("offset", self.offset.is_some()),
            ("weights", self.weights.is_some()),
            ("penalty", self.penalty.is_some()),
            ("fit", self.fit != FitTerms::default()),
            ("inference", self.inference != InferenceTerms::default()),
            ("prediction", self.prediction != PredictionTerms::default()),
            ("rows.id", self.rows.id.is_some()),
            ("match", self.matching.is_some()),
            ("outcome.held_by", self.outcome.held_by != HeldBy::Both),
            ("model.family", self.model.family != Family::Gaussian),
            ("sites", self.sites.is_some()),
            ("robust", self.robust.is_some()),
            ("em", self.em.is_some()),
            ("features", self.features.is_some()),
            ("stream", self.stream.is_some()),
            ("model.features", !self.model.features.is_empty()),
            ("model.formula", self.model.formula.is_some()),
        ];
        match sections.into_iter().find(|(key, set)| *set && !taken.contains(key)) {
            Some((key, _)) => Err(value(key, format!("has no place in {place}"))),
            None => Ok(()),
        }
    }

    /// The digest of each leaf of the study, by dotted name: defaults included, comments and order not.
    pub(super) fn key_digests(&self) -> Vec<(String, Digest)> {
        let mut leaves = BTreeMap::new();
        // Unwrap safety: a study consists of strings, numbers, lists and string-keyed maps, which JSON can hold;
        // should that ever change, the null below makes every digest of the changed build differ from an older one.
        flatten("", &serde_json::to_value(self).unwrap_or_default(), &mut leaves);
        leaves.into_iter().map(|(key, value)| (key, Digest::of(value.as_bytes()))).collect()
    }
}

fn flatten(prefix: &str, value: &serde_json::Value, leaves: &mut BTreeMap<String, String>) {
    let serde_json::Value::Object(map) = value else {
        leaves.insert(prefix.to_string(), value.to_string());
        return;
    };
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        flatten(&name, value, leaves);
    }
}
