//! What a study lets leave whom, against whom that is protected, and what it assumes: for the person who has to sign that it may run.
//!
//! Everything follows from the parsed study. Its guarantee, its method and the kinds of values that it declares are matched without a
//! wildcard, so that a new one has no explanation, and does not compile, until somebody writes it.
//!
//! What single kinds of values reveal is said in the same words as by `check`, which adds how much of each a run would send; what the
//! modes between parties rest on, in the words of the book's table of modes.

use serde::Serialize;

use crate::id::{Mode, Protocol};
use crate::study::Study;

mod matching;
mod modes;
mod reveals;
mod shown;
mod sites;
mod vertical;

pub use self::modes::{ModeFacts, Rests};
pub use self::reveals::{NoisedKind, Reveals, membership};
pub use self::sites::site_leaves;

/// What a study means for everybody who takes part in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The study's name.
    pub study: String,
    /// Its digest: everybody's copy must have the same.
    pub study_digest: String,
    /// Its method.
    pub protocol: Protocol,
    /// Its guarantee by name.
    pub mode: Mode,
    /// What is computed, among whom.
    pub model: String,
    /// The guarantee in a sentence.
    pub in_a_sentence: String,
    /// Everybody who takes part: parties or sites, the coordinator, and the dealer where there is one.
    pub members: Vec<Member>,
    /// Against whom it is protected, and what is not.
    pub protected: Vec<String>,
    /// What it assumes of others.
    pub assumes: Vec<String>,
    /// What breaks it.
    pub breaks: Vec<String>,
    /// What is counted over runs.
    pub counted: Vec<String>,
    /// What finding the common rows discloses.
    pub matching: Vec<String>,
    /// What scoring new rows discloses.
    pub prediction: Vec<String>,
    /// What the result itself says.
    pub result: Vec<String>,
    /// What cannot be told from the study.
    pub unknown: Vec<String>,
}

/// One who takes part, or several sites that are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Name in the study.
    pub name: String,
    /// The name in the certificate; none where several are described together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// What it brings.
    pub holds: String,
    /// What leaves it.
    pub leaves: Vec<Leaves>,
    /// What it learns of the others.
    pub learns: Vec<String>,
}

/// One kind of value that leaves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leaves {
    /// Its name in reports.
    pub what: String,
    /// Who gets it.
    pub to: String,
    /// What can be learnt from it.
    pub reveals: String,
}

impl Study {
    /// What the study means for everybody who takes part in it.
    pub fn explanation(&self) -> Explanation {
        match self.clone().split() {
            Ok(study) => vertical::explain(&study),
            Err(study) => sites::explain(&study),
        }
    }
}

/// What nobody can tell without the data, and which command can.
fn unknown(program: &str) -> Vec<String> {
    vec![
        format!(
            "how much of each kind would leave, in numbers and bytes, and whether this party's own limits allow it: `{program} check` says so \
             on the own data, and opens no connection"
        ),
        "what a party's own file allows: it may be stricter than the study, and is shown to nobody".to_string(),
        "whether the programs run where and as they should: who administers the machines can see what is on them"
            .to_string(),
    ]
}

/// What goes for every line between programs, whatever the mode.
fn on_the_network() -> String {
    "anybody on the network, in every mode: each line is mutual TLS 1.3 between certificates that the study names"
        .to_string()
}

/// What the result says in every mode but private.
fn facts_of_groups() -> String {
    "coefficients and fit statistics are exact facts about groups of people: no mode but `private` bounds what they tell about one of them"
        .to_string()
}

/// Words with a comma between them, and `and` before the last.
fn listed<S: AsRef<str>>(words: &[S]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_string(),
        [all @ .., last] => {
            let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", all.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests;
