//! What the report of a sub-model says in place of what a fit says of its lines.

use maud::html;

use super::{Statement, accounts, is_sealed};
use crate::report::number::visible;
use crate::report::section::Section;
use crate::report::table::{Entry, entry};
use crate::report::{Dropped, PerParty, Refit, Report};

/// Nothing left, in a few words.
const NOTHING: &str = "nothing: no line was opened, and no number of it was sent to anybody";

/// What stands first: that it is no fit of its own, and of which run.
pub(super) fn first(report: &Report, of: &Refit) -> Section {
    let run = visible(&of.run);
    let without = without(&of.dropped);
    let what = match is_sealed(report) {
        true => "the table that had opened in it",
        false => "the noised tables that had opened in it",
    };
    let sentence = format!("Sub-model of run {run}, computed from {what}; nothing left this party.");
    Section::new("Sub-model").boxed().line(format!("{sentence}\nLeft out: {without}.\n")).page(html! {
        p { (sentence) }
        p { "Left out: " (without) "." }
    })
}

/// The terms that were left out, in words.
fn without(dropped: &[Dropped]) -> String {
    let named: Vec<String> = dropped.iter().map(|term| format!("{} ({})", visible(&term.term), term.party)).collect();
    if named.is_empty() { "no term of the fit".to_string() } else { named.join(", ") }
}

/// In place of the account of the privacy of a sealed study.
pub(super) fn no_account() -> Section {
    Section::new("Privacy").remark(html! {
        "Nothing was charged to a privacy budget: sealed mode adds no noise. What the run rests on, and what opened in it, stands in its own report; "
        "a refit opens nothing more."
    })
}

/// In place of who saw what.
pub(super) fn disclosure(of: &Refit) -> Section {
    Section::new("Who saw what").remark(html! {
        "Nobody saw anything of this sub-model: it is computed from what run " (visible(&of.run)) " had opened to this party, whose report says what that was. "
        "The program sends none of it to anybody; whoever passes it on discloses what it says, which no account counts."
    })
}

/// What left, and what that cost.
pub(super) fn closing(report: &Report, of: &Refit) -> Vec<Entry> {
    let run = visible(&of.run);
    let noised =
        |accounts: &PerParty<Option<Statement>>| accounts.each(None).iter().any(|(_, account)| account.is_some());
    let privacy = match noised(&report.privacy) {
        true => ("Privacy:", accounts(report)),
        false => entry(
            "Privacy:",
            format!(
                "sealed, as run {run} was: what that run rests on and what opened in it stands in its own report, and a refit opens nothing more"
            ),
        ),
    };
    vec![entry("Left:", NOTHING.to_string()), privacy]
}
