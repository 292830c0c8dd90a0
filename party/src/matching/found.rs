//! What a match found, and what it would bring, as they are printed.

use std::path::Path;

use fedreg_common::data::matching::alignment::{MatchPurpose, MatchRecord};
use fedreg_common::id::Role;
use fedreg_common::report::MatchReport;
use fedreg_common::study::{MatchProtocol, MatchTerms};
use serde::Serialize;

use crate::party::Party;

/// What a match found, as it is printed at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// As whom.
    pub role: Role,
    /// The study's id.
    pub study: String,
    /// For which rows.
    pub purpose: MatchPurpose,
    /// The counts.
    #[serde(flatten)]
    pub report: MatchReport,
    /// Where the match is.
    pub folder: String,
    /// Bytes of messages that left.
    pub bytes_sent: u64,
}

impl Found {
    pub(super) fn new(party: Party<'_>, record: &MatchRecord, folder: &Path, bytes_sent: u64) -> Found {
        Found {
            role: party.role,
            study: party.study.head.id.clone(),
            purpose: record.purpose,
            report: MatchReport::of(record),
            folder: folder.display().to_string(),
            bytes_sent,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Found { role, study, purpose, report, folder, .. } = self;
        let next = match purpose {
            MatchPurpose::Fit => "fit",
            MatchPurpose::Predict => "predict",
        };
        format!(
            "{role} and {} matched their rows for `{study}`\n\n{}\nThe match is in {folder}; `{} {next}` uses it.\n",
            if report.leader.is_some() { "all others".to_string() } else { role.partner().to_string() },
            report.text(*role),
            role.program()
        )
    }
}

/// What a party would bring to a match.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// As whom.
    pub role: Role,
    /// The study's id.
    pub study: String,
    /// What decides the match in the study: the other party must see the same.
    pub match_digest: String,
    /// How records are found.
    pub protocol: &'static str,
    /// For which rows.
    pub purpose: MatchPurpose,
    /// Rows of the table.
    pub rows: u64,
    /// Pairs of the table of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u64>,
    /// The keys, with examples of their canonical values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyOutlook>,
    /// The passes, each as if none came before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<ExpectedPass>,
    /// Rows of the peer that expected false links are reckoned with: the largest that the study allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_rows: Option<u64>,
    /// Fewest matched rows.
    pub min_matched: u64,
    /// Matches of this data set with this peer that are left; with several the fewest.
    pub matches_left: u64,
    /// With whom; at the leader of several parties all others.
    pub peers: Vec<Role>,
    /// Of several parties, the one that matches with all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<Role>,
}

/// A key of a party's table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyOutlook {
    /// Its name in the study.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// Rows without a value.
    pub missing: u64,
    /// Rows with a value that cannot be used.
    pub invalid: u64,
    /// A few canonical values.
    pub examples: Vec<String>,
    /// The first value that cannot be used, with its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_invalid: Option<String>,
}

/// A pass of a party's table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectedPass {
    /// Its name.
    pub name: String,
    /// Rows that would take part.
    pub eligible: u64,
    /// Rows that share their keys with another row.
    pub ambiguous: u64,
    /// Rows that lack a part of the keys.
    pub missing: u64,
    /// Rows with a part that cannot be used.
    pub invalid: u64,
    /// Links between different persons that are to be expected with a peer of the largest size that the study allows.
    pub expected_false_links: f64,
}

impl Outlook {
    pub(super) fn of(party: Party<'_>, terms: &MatchTerms, purpose: MatchPurpose, rows: u64, left: u64) -> Outlook {
        Outlook {
            role: party.role,
            study: party.study.head.id.clone(),
            match_digest: party.study.match_digest().map(|digest| digest.to_string()).unwrap_or_default(),
            protocol: terms.protocol.name(),
            purpose,
            rows,
            pairs: None,
            keys: Vec::new(),
            passes: Vec::new(),
            peer_rows: None,
            min_matched: super::least(party, purpose),
            matches_left: left,
            peers: party.study.peers(party.role),
            leader: party.study.leader(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Outlook { role, study, match_digest, rows, min_matched, matches_left, .. } = self;
        let peers = self.peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        let mut text = format!(
            "{role} can match its rows for `{study}`\n\n  match digest   {match_digest}\n  rows           {rows}\n"
        );
        if let Some(pairs) = self.pairs {
            text.push_str(&format!("  pairs          {pairs}, all of them with records of the table\n"));
        }
        text.push_str(&format!(
            "  at least       {min_matched} rows must match\n  left           {matches_left} matches of these data with {peers}\n"
        ));
        for key in &self.keys {
            let KeyOutlook { name, kind, missing, invalid, examples, .. } = key;
            text.push_str(&format!(
                "\nKey {name} ({kind}): {missing} missing, {invalid} invalid; compared as {}\n",
                examples.join(", ")
            ));
            if let Some(first) = &key.first_invalid {
                text.push_str(&format!("  the first that cannot be used is {first}\n"));
            }
        }
        for pass in &self.passes {
            let ExpectedPass { name, eligible, ambiguous, missing, invalid, expected_false_links: wrong } = pass;
            let peer = self.peer_rows.unwrap_or(0);
            let twice = match ambiguous {
                0 => "",
                _ => ", or if ambiguous rows are of one person who stands in the own table twice",
            };
            text.push_str(&format!(
                "\nPass {name}: {eligible} rows take part; {ambiguous} ambiguous, {missing} missing, {invalid} invalid\n  about {wrong:.1} \
                 false links are to be expected if {peers} has {peer} rows, the most that the study allows (match.max_rows), and knows nobody \
                 of these; fewer if it knows many{twice}\n"
            ));
        }
        let to_coordinator = match MatchProtocol::of_word(self.protocol) {
            Some(MatchProtocol::Coordinator) => {
                "  to the coordinator tags of the keys, of which it learns how many there are and match; with the help of a party, every key that \
                     can be guessed\n"
            }
            Some(MatchProtocol::Direct | MatchProtocol::Linked) | None => "",
        };
        let which = match self.leader {
            None => "which rows matched".to_string(),
            Some(leader) if leader == *role => "to each of the others, which of its rows all parties have".to_string(),
            Some(leader) if self.passes.len() > 1 => {
                format!(
                    "to {leader}, which of its rows match, and which entries of several passes are one row of {role}"
                )
            }
            Some(leader) => format!("to {leader}, which of its rows match"),
        };
        text.push_str(&format!(
            "\nWhat would leave {role}\n  how many rows take part in each pass, and how many matched; then {which}\n{to_coordinator}No \
             connection was opened, and nothing has left.\n"
        ));
        text
    }
}
