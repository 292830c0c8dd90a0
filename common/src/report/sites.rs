//! What the reports of all methods between sites share: who took part, the course of an iteration or a stream, and the closing lines.

use maud::html;

use super::coefficients::Style;
use super::layout::Layout;
use super::number::{bytes, duration, thousands, visible};
use super::section::Section;
use super::table::{Column, Entry, entry, first};
use super::{Report, WorkerRow, account, coefficients, function, plot};
use crate::exit::Exit;
use crate::fit::Termination;

/// Sites that text and page list.
const NAMED_WORKERS: usize = 60;

/// What intervals cover in private mode, where the method's notes say more.
pub(crate) const NOISE_ALONE: &str = "Intervals show the noise alone: see the notes for what they cover.";

/// What a method has to say of its run.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Of the page.
    pub(crate) title: String,
    /// How it ended, in a sentence.
    pub(crate) ending: String,
    /// What intervals cover in private mode.
    pub(crate) covered: &'static str,
    /// What the reader must know first.
    pub(crate) first: Option<Section>,
    /// After coefficients or function.
    pub(crate) sections: Vec<Section>,
    /// Whether the rows are those of a consensus.
    pub(crate) consensus: bool,
    /// Batches, where there are any.
    pub(crate) batches: u64,
    /// Closing lines about single messages.
    pub(crate) messages: Vec<Entry>,
}

impl Parts {
    /// Of a method that has nothing else to say.
    pub(crate) fn new(title: String, ending: String) -> Parts {
        Parts {
            title,
            ending,
            covered: NOISE_ALONE,
            first: None,
            sections: Vec::new(),
            consensus: false,
            batches: 0,
            messages: Vec::new(),
        }
    }

    /// Of a method that takes `what` once, in one round.
    pub(crate) fn once(report: &Report, title: String, what: &str) -> Parts {
        let ending = match report.termination == Termination::FixedRounds {
            true => format!("every {what} was taken, once"),
            false => report.termination.to_string(),
        };
        Parts::new(title, ending)
    }

    /// The whole report.
    pub(crate) fn layout(self, report: &Report) -> Layout<'_> {
        let test = if report.family.estimates_dispersion() { 't' } else { 'z' };
        // Methods that have no standard errors at all: columns of NA would say nothing.
        let bare = report.coefficients.iter().all(|row| row.std_error.is_none());
        let result = match &report.function {
            Some(function) => function::section(function, &report.outcome),
            None => coefficients::section(
                report,
                &Style { bare, covered: report.noised().then_some(self.covered), ..Style::new(test) },
            ),
        };
        Layout {
            report,
            merged: "merged report",
            good: report.termination.exit() == Exit::Done,
            facts: self.facts(report),
            closing: self.closing(report),
            first: self.first,
            sections: std::iter::once(result)
                .chain(self.sections)
                .chain([workers(report), account::section(report)])
                .collect(),
            title: self.title,
            ending: self.ending,
        }
    }

    fn facts(&self, report: &Report) -> Vec<(&'static str, String)> {
        let workers = report.workers.as_deref().unwrap_or_default().len() as u64;
        let mut facts = vec![
            (if self.batches > 0 { "rows in the consensus" } else { "rows" }, thousands(report.statistics.nobs)),
            ("workers", thousands(workers)),
        ];
        match &report.function {
            Some(function) => facts.push(("inputs", function.inputs.len().to_string())),
            None => facts.push(("coefficients", report.coefficients.len().to_string())),
        }
        if self.batches > 0 {
            facts.push(("batches", thousands(self.batches)));
        } else if report.rounds > 1 {
            facts.push(("rounds", thousands(u64::from(report.rounds))));
        }
        facts
    }

    fn closing(&self, report: &Report) -> Vec<Entry> {
        let missing = match report.missing {
            0 => String::new(),
            missing => format!(", {} left out here for missing values", thousands(missing)),
        };
        let which = if self.consensus { " in batches of the consensus" } else { "" };
        let mut closing = vec![
            entry("Rows:", format!("{}{which}{missing}", thousands(report.statistics.nobs))),
            entry("Ended:", self.ending.clone()),
        ];
        if report.rounds > 1 {
            closing.push(entry("Rounds:", report.rounds.to_string()));
        } else if let Some(course) = &report.course {
            let times = match course.switches {
                0 => "no change of the truth was followed".to_string(),
                1 => "one change of the truth was followed".to_string(),
                many => format!("{many} changes of the truth were followed"),
            };
            closing.push(entry("Stream:", format!("{} estimates arrived, {times}", thousands(course.arrivals))));
        }
        closing.push(entry("Left:", left(report)));
        let promised = match report.privacy.of_or_own(report.role).and_then(Option::as_ref) {
            None => vec!["none spent: values left without noise".to_string()],
            Some(account) => account.promise.iter().chain(&account.account).map(|line| visible(line)).collect(),
        };
        closing.push(("Privacy:", promised.into_iter().map(|line| (None, line)).collect()));
        let seconds = report.seconds.of_or_own(report.role);
        closing.extend(seconds.map(|seconds| entry("Time:", format!("{} in all", duration(seconds.total)))));
        closing.extend(self.messages.iter().cloned());
        closing
    }
}

/// What left the sites, in a sentence.
fn left(report: &Report) -> String {
    let workers = report.workers.as_deref().unwrap_or_default();
    let (count, size) = workers.iter().fold((0_u64, 0_u64), |(count, size), row| {
        (count.saturating_add(row.contributions), size.saturating_add(row.bytes))
    });
    let declared = match report.disclosure.of_or_own(report.role) {
        Some(disclosure) if !disclosure.declared.is_empty() => format!("; declared: {}", disclosure.kinds()),
        _ => String::new(),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{} contribution{plural}, {} of numbers{declared}", thousands(count), bytes(size))
}

/// Who took part, and what each site sent.
fn workers(report: &Report) -> Section {
    let (shown, more) = first(report.workers.as_deref().unwrap_or_default(), NAMED_WORKERS);
    let of = |value: &dyn Fn(&WorkerRow) -> String| shown.iter().map(value).collect::<Vec<_>>();
    let section = Section::new("Who took part, and what left")
        .page(html! { p { (left(report)) "." } })
        .line("Workers:")
        .table(vec![
            Column::left("", of(&|row| visible(&row.worker))).heading("Worker"),
            Column::right("Contributions", of(&|row| thousands(row.contributions))),
            Column::right("Rejected", of(&|row| thousands(row.rejected))),
            Column::right("Sent", of(&|row| bytes(row.bytes))),
            Column::left("State", of(&|row| visible(&row.state))).class("wrap"),
        ]);
    let section = match more {
        0 => section,
        more => section.line(format!("  and {more} more")).remark(html! { "and " (more) " more; JSON has all." }),
    };
    let seconds = report.seconds.of_or_own(report.role).map(|seconds| ("Time", duration(seconds.total)));
    let peak = report.peak_rss_bytes.of_or_own(report.role).copied().flatten().map(|peak| ("Peak memory", bytes(peak)));
    section.facts(seconds.into_iter().chain(peak))
}

/// The result over the rounds of an iteration, or over the arrivals of a stream.
pub(crate) fn course(report: &Report) -> Option<Section> {
    let course = report.course.as_ref()?;
    if report.rounds > 1 {
        let caption = html! { "From the start to the last round, every coefficient divided by its largest size." };
        return Some(Section::new("Coefficients over the rounds").figure(plot::course(course, "round"), caption));
    }
    let caption = html! {
        "The consensus after each arrival, every coefficient divided by its largest size. Hollow marks: the estimate "
        "that arrived lay outside the consensus. Dashed lines: a change of the truth was followed."
    };
    let counts = [("Arrivals", thousands(course.arrivals)), ("Changes followed", thousands(course.switches))];
    Some(Section::new("Consensus over time").figure(plot::course(course, "arrival"), caption).facts(counts))
}
