//! What a match found, and what it would bring, as they are printed.

use std::path::Path;

use fedreg_common::data::matching::alignment::{MatchPurpose, MatchRecord};
use fedreg_common::id::Role;
use fedreg_common::report::MatchReport;
use serde::Serialize;

use crate::job::Party;

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
            "{role} and {} matched their rows for `{study}`\n\n{}\nThe match is in {folder}; `{role} {next}` uses it.\n",
            role.partner(),
            report.text(*role)
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
    /// Fewest matched rows.
    pub min_matched: u64,
    /// Matches of this data set with this peer that are left.
    pub matches_left: u64,
}

impl Outlook {
    pub(super) fn of_pairs(
        party: Party<'_>,
        purpose: MatchPurpose,
        rows: u64,
        pairs: u64,
        min_matched: u64,
        matches_left: u64,
    ) -> Outlook {
        let terms = party.study.head.matching.as_ref();
        Outlook {
            role: party.role,
            study: party.study.head.id.clone(),
            match_digest: party.study.match_digest().map(|digest| digest.to_string()).unwrap_or_default(),
            protocol: terms.map_or("", |terms| terms.protocol.name()),
            purpose,
            rows,
            pairs: Some(pairs),
            min_matched,
            matches_left,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Outlook { role, study, match_digest, rows, min_matched, matches_left, .. } = self;
        let mut text = format!(
            "{role} can match its rows for `{study}`\n\n  match digest   {match_digest}\n  rows           {rows}\n"
        );
        if let Some(pairs) = self.pairs {
            text.push_str(&format!("  pairs          {pairs}, all of them with records of the table\n"));
        }
        text.push_str(&format!(
            "  at least       {min_matched} rows must match\n  left           {matches_left} matches of these data with {}\n\nWhat would leave \
             {role}\n  which rows matched, and how many rows it searched\nNo connection was opened, and nothing has left.\n",
            role.partner()
        ));
        text
    }
}
