//! What a report says of the match that a fit stands on.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::axes::{WIDTH, px, view_box};
use super::number::{thousands, visible};
use super::section::Section;
use super::table::Column;
use super::{PerParty, Report};
use crate::data::matching::alignment::{MatchRecord, PassRecord};
use crate::id::Role;
use crate::terms::MatchProtocol;

/// The match that a fit stands on, as one party knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MatchReport {
    /// The run that found the rows.
    pub run: String,
    /// How they were found.
    pub protocol: String,
    /// Rows of this party's table.
    pub rows: u64,
    /// Rows that all parties have.
    pub matched: u64,
    /// Of several parties, the one that matched with all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Role>,
    /// The passes in their order; at the leader of several parties with one of the others after the other.
    pub passes: Vec<PassRecord>,
}

impl MatchReport {
    /// What a report says of a match.
    pub fn of(record: &MatchRecord) -> MatchReport {
        MatchReport {
            run: record.run.clone(),
            protocol: record.protocol.clone(),
            rows: record.rows,
            matched: record.matched,
            leader: record.leader,
            passes: record.passes.clone(),
        }
    }

    /// Own rows without a partner.
    pub fn unmatched(&self) -> u64 {
        self.rows.saturating_sub(self.matched)
    }

    /// Rows of the peer that took part in the first pass, as far as this party knows.
    fn peer_rows(&self) -> u64 {
        self.passes.first().map_or(0, |pass| pass.peer_eligible).max(self.matched)
    }

    /// What each side has learnt, in sentences.
    fn learnt(&self, role: Role) -> Vec<String> {
        if let Some(leader) = self.leader {
            return self.learnt_of_several(role, leader);
        }
        let (peer, matched) = (role.partner(), thousands(self.matched));
        let theirs = format!(
            "{peer} learnt which {matched} of its own rows {role} has too, in which pass, and how many rows of {role} took part"
        );
        let mut lines = vec![theirs, format!("{role} learnt the same of {peer}")];
        if let Some(MatchProtocol::Coordinator) = MatchProtocol::of_word(&self.protocol) {
            lines.push(format!(
                "the coordinator learnt how many rows of each took part and matched in each pass, and where in an order that is random to \
                 it; if it colludes with {role} or {peer}, it can find out every value of a key that can be guessed"
            ));
        }
        lines.push(self.without_partner(role));
        lines
    }

    /// The same of several parties.
    fn learnt_of_several(&self, role: Role, leader: Role) -> Vec<String> {
        let all = thousands(self.matched);
        let counts = match role == leader {
            true => {
                let mut pairs: Vec<(Role, u64)> = Vec::new();
                for pass in &self.passes {
                    let Some(with) = pass.with else { continue };
                    match pairs.iter_mut().find(|(peer, _)| *peer == with) {
                        Some((_, rows)) => *rows += pass.matched,
                        None => pairs.push((with, pass.matched)),
                    }
                }
                let pairs: Vec<String> =
                    pairs.into_iter().map(|(peer, rows)| format!("{} of {peer}", thousands(rows))).collect();
                format!(
                    "{leader} learnt of each of the others which of its own rows that party has too, in which pass, and how many rows of it \
                     took part: {}",
                    pairs.join(", ")
                )
            }
            false => format!(
                "{leader} learnt which {} of its own rows {role} has too, in which pass, and how many rows of {role} took part",
                thousands(self.passes.iter().map(|pass| pass.matched).sum())
            ),
        };
        let mut lines = vec![counts];
        if self.passes.iter().any(|pass| pass.name != self.passes[0].name) {
            lines.push(format!(
                "{leader} learnt which entries of several passes are one row of a party, and not which row"
            ));
        }
        lines.push(format!(
            "each of the others learnt how many of its rows {leader} has too, and which of its own rows are among the {all} that all have; \
             nothing of the others' rows beside that"
        ));
        lines.push(self.without_partner(role));
        lines
    }

    fn without_partner(&self, role: Role) -> String {
        if self.leader.is_some() {
            let (rows, lacking) = (thousands(self.rows), thousands(self.unmatched()));
            return format!("of the {rows} rows of {role} {lacking} are not in all tables");
        }
        format!("of the {} rows of {role} {} have no partner", thousands(self.rows), thousands(self.unmatched()))
    }

    /// For people: a line a pass, and what each side has learnt.
    pub fn text(&self, role: Role) -> String {
        let mut out = String::new();
        section(&[(Some(role), self)]).text(&mut out);
        out
    }
}

/// The section of a report whose fit stands on a match.
pub(crate) fn of_report(report: &Report) -> Option<Section> {
    report.matching.as_ref().map(|matching| section(&matching.each(report.role)))
}

fn section(all: &[(Option<Role>, &MatchReport)]) -> Section {
    let whose = |role: Option<Role>| role.unwrap_or(Role::Alice);
    let rows: Vec<(Role, &PassRecord)> =
        all.iter().flat_map(|(role, matching)| matching.passes.iter().map(|pass| (whose(*role), pass))).collect();
    let count = |value: fn(&PassRecord) -> u64| rows.iter().map(|(_, pass)| thousands(value(pass))).collect::<Vec<_>>();
    let matched = rows.iter().map(|(_, pass)| match pass.withheld {
        true => "too few".to_string(),
        false => thousands(pass.matched),
    });
    let several = all.iter().find_map(|(_, matching)| matching.leader);
    let mut columns = vec![
        Column::left("Party", rows.iter().map(|(role, _)| role.name().to_string()).collect()),
        Column::left("Pass", rows.iter().map(|(_, pass)| visible(&pass.name)).collect()),
        Column::right("Eligible", count(|pass| pass.own_eligible)),
        Column::right("Ambiguous", count(|pass| pass.own_ambiguous)),
        Column::right("Missing", count(|pass| pass.own_missing)),
        Column::right("Invalid", count(|pass| pass.own_invalid)),
        Column::right("Of the peer", count(|pass| pass.peer_eligible)),
        Column::right("Matched", matched.collect()),
    ];
    if let Some(leader) = several {
        let with = rows.iter().map(|(_, pass)| pass.with.unwrap_or(leader).name().to_string()).collect();
        columns.insert(1, Column::left("With", with));
    }
    let have = if several.is_some() { "Rows that all parties have" } else { "Rows that both parties have" };
    let first = all.first().map(|(_, matching)| *matching);
    let matched = first.map_or(0, |matching| matching.matched);
    let how = first.map_or_else(String::new, |matching| visible(&matching.protocol));
    let mut section =
        Section::new("Matched rows").line(format!("{have}: {matched} (match by {how})")).table(columns).figure(
            bars(all),
            html! {
                "Rows of each party that took part in the first pass; the rows that both have stand below each other."
            },
        );
    let speaker = all.iter().position(|(role, _)| role.is_some() && *role == several).unwrap_or(0);
    for (at, (role, matching)) in all.iter().enumerate() {
        // In the merged report the parties say the same of each other; of several the leader knows most.
        let lines = match at == speaker {
            true => matching.learnt(whose(*role)),
            false => vec![matching.without_partner(whose(*role))],
        };
        section = section.page(html! { @for line in &lines { p { (line) "." } } });
        section = lines.into_iter().fold(section, Section::line);
    }
    section
}

/// Two bars that overlap where rows of both parties matched. `None` where there are no rows.
fn bars(all: &[(Option<Role>, &MatchReport)]) -> Option<Markup> {
    let (own, matching) = all.first().map(|(role, matching)| (role.unwrap_or(Role::Alice), *matching))?;
    if matching.leader.is_some() {
        return None;
    }
    // In the merged report both know their own tables.
    let peer_rows = all.get(1).map_or(matching.peer_rows(), |(_, peer)| peer.rows);
    let (rows, peer_rows, matched) = (matching.rows as f64, peer_rows as f64, matching.matched as f64);
    let union = rows + peer_rows - matched;
    if !(union > 0.0 && rows >= matched && peer_rows >= matched) {
        return None;
    }
    let (left, right) = (70.0, WIDTH - 8.0);
    let at = |rows: f64| left + (right - left) * rows / union;
    let bar = |from: f64, to: f64, y: f64, class: &'static str| {
        html! { rect class=(class) x=(px(at(from))) y=(px(y)) width=(px((at(to) - at(from)).max(0.0))) height="22" {} }
    };
    let peer = own.partner();
    let label = |x: f64, y: f64, text: String, anchor: &'static str| {
        html! { text.value x=(px(x)) y=(px(y)) text-anchor=(anchor) { (text) } }
    };
    let begin = rows - matched;
    Some(html! {
        svg viewBox=(view_box(104.0)) role="img" aria-label="Rows that both parties have" {
            g class=(own.name()) {
                (label(left - 8.0, 35.0, own.name().to_string(), "end"))
                (bar(0.0, rows, 20.0, "bar"))
                title { (own.name()) ": " (thousands(matching.rows)) " rows" }
            }
            g class=(peer.name()) {
                (label(left - 8.0, 65.0, peer.name().to_string(), "end"))
                (bar(begin, union, 50.0, "bar"))
                title { (peer.name()) ": " (thousands(peer_rows as u64)) " rows" }
            }
            line.zero x1=(px(at(begin))) x2=(px(at(begin))) y1="12" y2="80" {}
            line.zero x1=(px(at(rows))) x2=(px(at(rows))) y1="12" y2="80" {}
            (label(at(begin + matched / 2.0), 96.0, format!("{} in both", thousands(matching.matched)), "middle"))
        }
    })
}

/// Joins what the parties know of one match.
pub(super) fn joined(own: &[(Role, &Report)]) -> Option<PerParty<MatchReport>> {
    let all = own.iter().map(|(role, report)| Some((*role, report.matching.as_ref()?.of(*role)?.clone())));
    Some(PerParty::Merged(all.collect::<Option<_>>()?))
}
