//! What finding the rows that all parties have discloses.

use super::membership;
use super::vertical::through_the_coordinator;
use crate::study::{MatchProtocol, Membership, Study, Vertical};

/// What the parties of a study learn by a match, or by lining up rows that they selected beforehand.
pub(super) fn of_parties(study: &Study<Vertical>) -> Vec<String> {
    let Some(terms) = &study.head.matching else {
        return match &study.head.rows.id {
            Some(id) => vec![
                format!(
                    "no match: the parties have selected the same people beforehand, and keyed digests of `{id}` show that their rows line up; \
                     where they do not, the run ends before any value leaves"
                ),
                "so each party knows already that these persons are in all tables".to_string(),
            ],
            None => vec![
                "no match, and no identifiers: the parties have selected the same people beforehand, and brought their rows into one order. Nothing \
                 checks that order: where it differs between tables the result is wrong, without an error (`rows.id` names a column of \
                 identifiers, by which rows are lined up and compared)"
                    .to_string(),
            ],
        };
    };
    let several = study.leader().is_some();
    let mut lines = match terms.membership {
        Membership::Disclosed => {
            let places: &[bool] = if several { &[true, false] } else { &[true] };
            places.iter().map(|leads| membership_line(several, *leads)).collect::<Vec<_>>()
        }
    };
    lines.extend(match terms.protocol {
        MatchProtocol::Direct => vec![
            "keys are hashed into a group and masked on both sides (Diffie-Hellman, ristretto255): a peer that follows the protocol learns nothing \
             of keys that it has not itself; one that does not can test made-up keys, at most as many as it may have rows"
                .to_string(),
        ],
        MatchProtocol::Coordinator => vec![
            "keys become tags (HMAC-SHA-256, under a key that the coordinator does not get), which the coordinator compares. With the help of one \
             party it learns every key that can be guessed: it must collude with neither, and each party's own file must allow it"
                .to_string(),
        ],
        MatchProtocol::Linked => {
            vec!["pairs come from a table that was made elsewhere: whoever made it has seen the keys of both".to_string()]
        }
    });
    lines.push(format!(
        "with fewer than {} matches the match ends, and nobody learns which rows matched; matching again and again with tables that differ in a \
         few rows shows who these are, so that each party's file limits how often",
        terms.min_matched
    ));
    lines.push(
        "in every mode of the fit membership and key columns are disclosed as said here: `private` protects the columns of the model of the matched \
         rows, not that they matched"
            .to_string(),
    );
    lines
}

fn membership_line(several: bool, leads: bool) -> String {
    let (what, reveals) = membership(several, leads);
    let who = match (several, leads) {
        (false, _) => "each party learns",
        (true, true) => "the leader tells",
        (true, false) => "each of the others tells",
    };
    format!("{who} {what}: {reveals}")
}

/// What the coordinator learns by a match.
pub(super) fn of_coordinator(study: &Study<Vertical>) -> Option<String> {
    through_the_coordinator(study).then(|| {
        "how many rows of each party take part in each pass of the match, how many match, and where, in an order that is random to it; no key"
            .to_string()
    })
}

/// That sites have nothing to match.
pub(super) fn of_sites() -> Vec<String> {
    vec!["nothing: the sites hold different people".to_string()]
}
