//! The study file as it is written: every section of every method, and the digest that parties compare.
//!
//! What of it fits together is decided where the guarantee and the method are parsed; nothing outside this folder reads a section here.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::glm::StatedFamily;
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
    /// The parties of a vertical study by name: alice and bob, or two to sixteen others.
    #[serde(default, deserialize_with = "parties", skip_serializing_if = "BTreeMap::is_empty")]
    pub parties: BTreeMap<Role, PartyTerms>,
    /// Among several parties, the one that all others dial, that holds the intercept, and that gets, in plain mode, an outcome, an offset or
    /// weights that another party holds alone; if absent, the one that `outcome.held_by` names, else the first by name.
    #[serde(default, deserialize_with = "leader", skip_serializing_if = "Option::is_none")]
    pub leader: Option<Role>,
    /// Among several parties, the order of their blocks, all of them with the leader first: a column that depends on columns before it is
    /// set aside; if absent, the leader and then the others by name.
    #[serde(default, deserialize_with = "order", skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Role>,
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
    /// How the parties find the rows that all have, where they did not select the same rows beforehand.
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
        if self.is_led() {
            return self.complete_led();
        }
        let (offset, weights) = (self.offset.iter_mut(), self.weights.iter_mut());
        for column in offset.chain(weights).chain([&mut self.outcome]).filter(|column| column.held_by == HeldBy::All) {
            column.held_by = HeldBy::Both;
        }
        if let Some(sealed) = &mut self.sealed {
            sealed.opens = sealed.opens.of_two();
        }
        self.inference.sender.get_or_insert(Role::Alice);
        self.prediction.result_to.get_or_insert(Role::Alice);
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

    /// Whether the study is vertical and of other parties than alice and bob: then one of them leads.
    pub(super) fn is_led(&self) -> bool {
        match self.protocol {
            Protocol::Vertical => !self.parties.keys().eq([Role::Alice, Role::Bob].iter()),
            Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => false,
        }
    }

    /// Fills in what a study of other parties than alice and bob leaves to the defaults.
    fn complete_led(&mut self) {
        let (offset, weights) = (self.offset.iter_mut(), self.weights.iter_mut());
        for column in offset.chain(weights).chain([&mut self.outcome]).filter(|column| column.held_by == HeldBy::Both) {
            column.held_by = HeldBy::All;
        }
        let holder = self.outcome.held_by.holder().filter(|holder| self.parties.contains_key(holder));
        self.leader = self.leader.or(holder).or(self.parties.keys().next().copied());
        self.prediction.result_to = self.prediction.result_to.or(self.leader);
    }

    /// Refuses parties that no vertical study has, and what several parties cannot do.
    pub(super) fn check_parties(&self) -> Result<(), StudyError> {
        let count = self.parties.len();
        if !(2..=MOST_PARTIES).contains(&count) {
            let named = match count {
                0 => "is missing".to_string(),
                1 => "names one party".to_string(),
                _ => format!("names {count} parties"),
            };
            return Err(value("parties", format!("{named}: a vertical study is of two to {MOST_PARTIES}")));
        }
        if !self.is_led() {
            if !self.order.is_empty() {
                return Err(value("order", "has no place in a study of alice and bob: alice's block is the first"));
            }
            return match self.leader {
                Some(_) => {
                    let problem = "has no place in a study of alice and bob: alice holds what one party holds alone";
                    Err(value("leader", problem))
                }
                None => Ok(()),
            };
        }
        let leader = self.leader.filter(|leader| self.parties.contains_key(leader));
        let Some(leader) = leader else {
            return Err(value("leader", format!("names {}, which is no party of the study", shown(self.leader))));
        };
        self.check_order(leader)?;
        if self.parties.len() == 2 {
            return Ok(());
        }
        if let Some(sender) = self.inference.sender {
            let problem = format!(
                "names {sender}, and has no place among several parties: all others send theirs to the leader, {leader}"
            );
            return Err(value("inference.sender", problem));
        }
        if self.prediction.result_to != Some(leader) {
            let problem = format!(
                "names {}, and among several parties only the leader, {leader}, gets the scores",
                shown(self.prediction.result_to)
            );
            return Err(value("prediction.result_to", problem));
        }
        Ok(())
    }

    /// Refuses an order of blocks that does not name every party once, the leader first.
    fn check_order(&self, leader: Role) -> Result<(), StudyError> {
        let Some(first) = self.order.first() else { return Ok(()) };
        let count = |role: &Role| self.order.iter().filter(|named| *named == role).count();
        let problem = if let Some(stranger) = self.order.iter().find(|role| !self.parties.contains_key(role)) {
            format!("names {stranger}, which is no party of the study")
        } else if let Some(role) = self.parties.keys().find(|role| count(role) != 1) {
            format!("must name every party once, and names {role} {} times", count(role))
        } else if *first != leader {
            format!("begins with {first}, and the first block is that of the leader, {leader}")
        } else {
            return Ok(());
        };
        Err(value("order", problem))
    }

    /// Refuses the sections that are set and that the study's method does not take; `place` says what it is.
    pub(super) fn takes_only(&self, taken: &[&str], place: &str) -> Result<(), StudyError> {
        let sections = [
            ("parties", !self.parties.is_empty()),
            ("leader", self.leader.is_some()),
            ("order", !self.order.is_empty()),
            ("workers", !self.workers.is_empty()),
            ("dealer", self.dealer.is_some()),
            ("sealed", self.sealed.is_some()),
            ("offset", self.offset.is_some()),
            ("weights", self.weights.is_some()),
            ("penalty", self.penalty.is_some()),
            ("fit", self.fit != FitTerms::default()),
            ("inference", !self.inference.is_usual()),
            ("prediction", !self.prediction.is_usual()),
            ("rows.id", self.rows.id.is_some()),
            ("match", self.matching.is_some()),
            ("outcome.held_by", self.outcome.held_by != HeldBy::Both),
            ("model.family", self.model.family != StatedFamily::Gaussian),
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

/// Most parties of a study.
const MOST_PARTIES: usize = 16;

fn shown(role: Option<Role>) -> String {
    role.map_or_else(|| "nobody".to_string(), |role| role.to_string())
}

/// Parties by name; what is no name of a party is said with its key.
fn parties<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Role, PartyTerms>, D::Error> {
    let named: BTreeMap<String, PartyTerms> = Deserialize::deserialize(deserializer)?;
    let role = |(name, terms): (String, PartyTerms)| {
        let role = party(&name).map_err(|problem| serde::de::Error::custom(format!("`parties`: {problem}")))?;
        Ok((role, terms))
    };
    named.into_iter().map(role).collect()
}

/// The name of the leader.
fn leader<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Role>, D::Error> {
    let name = String::deserialize(deserializer)?;
    party(&name).map(Some).map_err(|problem| serde::de::Error::custom(format!("`leader`: {problem}")))
}

/// The names of all parties, in the order of their blocks.
fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Role>, D::Error> {
    let names: Vec<String> = Deserialize::deserialize(deserializer)?;
    let named = |name: &String| party(name).map_err(|problem| serde::de::Error::custom(format!("`order`: {problem}")));
    names.iter().map(named).collect()
}

fn party(name: &str) -> Result<Role, String> {
    match name.parse::<Role>()? {
        role @ (Role::Alice | Role::Bob | Role::Party(_)) => Ok(role),
        Role::Worker | Role::Coordinator => {
            Err(format!("`{name}` is not the name of a party: it has a meaning of its own"))
        }
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
