//! What a consolidation of many estimates has to say: which batches were trusted, how far each lies from the consensus,
//! and whether the method's guarantee covers the result.
//!
//! The sections stand alone, so that a report of a whole run and the report of a consolidation of files share them.

use std::fmt::Write as _;

use maud::html;
use serde::{Deserialize, Serialize};

use crate::fit::{BatchName, Coefficient, Consolidation, Member, Standing, Verdict};
use crate::glm::Family;
use crate::id::{Protocol, Role};
use crate::methods::robust::Consensus;
use crate::report::coefficients::{Style, rows_of};
use crate::report::layout::{Layout, badge, notes, page, trimmed};
use crate::report::number::{UNDEFINED, column, percent, significant, single, thousands, visible};
use crate::report::section::Section;
use crate::report::sites::{Parts, course};
use crate::report::table::{Column, Entry, entry, first, folded, labelled};
use crate::report::{Comparison, Report, csv, json, plot};

/// Batches that the text and the page list by name; where there are more, those that were not trusted come first.
const NAMED_BATCHES: usize = 40;
/// Messages that were not accepted, by name.
const NAMED_REJECTIONS: usize = 20;
/// Sites whose own coefficients are shown.
const NAMED_SITES: usize = 4;
/// What intervals cover in private mode.
const COVERED: &str = "Intervals include the noise and the sampling of the uncorrupted rows.";

/// The report of a run.
pub fn layout(report: &Report) -> Layout<'_> {
    let title = format!("robust regression of {}", visible(&report.outcome));
    let mut parts =
        with_consensus(report, Parts { covered: COVERED, ..Parts::new(title, report.termination.to_string()) });
    let before = [report.comparison.as_deref().filter(|rows| !rows.is_empty()).map(compared), course(report)];
    parts.sections.splice(0..0, before.into_iter().flatten());
    parts.layout(report)
}

/// With what the consensus of a run says, if there is one.
pub(crate) fn with_consensus(report: &Report, parts: Parts) -> Parts {
    let Some(c) = &report.consolidation else { return parts };
    Parts {
        ending: ending(report, c),
        first: set_apart(c, &report.coefficients),
        sections: vec![batches(c)],
        consensus: true,
        batches: c.batches.len() as u64,
        messages: messages(c),
        ..parts
    }
}

fn ending(report: &Report, c: &Consolidation) -> String {
    if report.course.is_none() {
        // Outside the guarantee the sentence says so itself.
        return if c.guaranteed() { format!("{}; {}", report.termination, c.sentence()) } else { c.sentence() };
    }
    // The guarantee of a stream is that of its window, not of all that arrived.
    let sites = match c.site_votes {
        true => format!("{} wrong of {} sites, and ", thousands(c.sites_withstood()), thousands(c.sites_counted)),
        false => String::new(),
    };
    format!(
        "{}; {} of the last {} estimates are in the consensus; the window withstands {sites}{} wrong ones",
        report.termination,
        thousands(c.trusted),
        thousands(c.batches.len() as u64),
        thousands(c.withstands)
    )
}

/// Estimates beside those of least squares on all rows.
fn compared(rows: &[Comparison]) -> Section {
    let caption = html! {
        "How far each estimate lies from least squares of the rows that were not damaged, in standard errors of "
        "least squares of all rows. Zero is right."
    };
    let estimates = |name: &str, heading: &str, value: &dyn Fn(&Comparison) -> Option<f64>| {
        numbers(name, &rows.iter().map(value).collect::<Vec<_>>()).heading(heading)
    };
    Section::new("Beside least squares of all rows")
        .line("Beside least squares of all rows in one place:")
        .figure(plot::comparison(rows), caption)
        .table(vec![
            Column::left("", rows.iter().map(|row| visible(&row.term)).collect()).heading("Term"),
            estimates("Ours", "Ours", &|row| row.estimate),
            estimates("Least squares", "Least squares of all rows", &|row| row.pooled),
            estimates("Without the damage", "Of the rows without damage", &|row| row.undamaged),
        ])
}

/// Numbers with a common number of decimals in the text, and each for itself on the page.
fn numbers(name: &str, values: &[Option<f64>]) -> Column {
    Column::right(name, column(values, 4)).on_page(values.iter().map(|value| single(*value, 5)).collect())
}

impl Consolidation {
    /// What a consensus says; repeats and rejections are known to anyone who took the messages.
    pub fn new(consensus: &Consensus) -> Consolidation {
        let pivot = consensus.members.get(consensus.pivot);
        Consolidation {
            consolidation: consensus.method.name().to_owned(),
            verdict: consensus.verdict,
            majority: consensus.majority as u64,
            withstands: consensus.withstands() as u64,
            trusted: consensus.trusted() as u64,
            pivot: BatchName {
                worker: pivot.map(|m| m.worker.clone()).unwrap_or_default(),
                batch: pivot.map_or(0, |m| m.batch),
            },
            radius: consensus.radius,
            overdispersion: consensus.overdispersion,
            batches: consensus.members.clone(),
            sites: consensus.sites.clone(),
            sites_counted: consensus.sites.iter().filter(|site| site.share > 0.0).count() as u64,
            sites_trusted: consensus.sites.iter().filter(|site| site.trusted > 0).count() as u64,
            site_votes: consensus.site_votes,
            votes_by_rows: {
                let shares = || consensus.sites.iter().map(|site| site.share).filter(|share| *share > 0.0);
                let (least, most) = (shares().fold(1.0, f64::min), shares().fold(0.0, f64::max));
                consensus.site_votes && most > least * (1.0 + 1e-9)
            },
            repeated: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Whether the result may be relied on, in sentences.
    pub fn sentence(&self) -> String {
        let m = self.estimates();
        let not_cleaned = self.batches.iter().filter(|b| !b.cleaned).count() as u64;
        let (count, trusted, majority) = (thousands(m), thousands(self.trusted), thousands(self.majority));
        let withstands = thousands(self.withstands);
        let mut text = match self.verdict {
            Verdict::MajorityAgrees if self.site_votes => format!(
                "{trusted} of {count} estimates are in the consensus, from {} of {} sites; sites have {} however many estimates \
                 they send, and the guarantee stands while at most {}, or {}, are wrong",
                thousands(self.sites_trusted),
                thousands(self.sites_counted),
                if self.votes_by_rows { "votes by their declared rows" } else { "a vote each" },
                plural(self.sites_withstood(), "site", "sites"),
                plural(self.withstands, "estimate", "estimates")
            ),
            Verdict::MajorityAgrees => format!(
                "{trusted} of {count} estimates are in the consensus; the guarantee stands while at most {withstands} are wrong"
            ),
            Verdict::NoMajority if self.site_votes => format!(
                "outside the guarantee: no majority of the {} sites agrees, so that any of several groups may be the honest \
                 one; {trusted} of {count} estimates agree with the tightest group",
                thousands(self.sites_counted)
            ),
            Verdict::NoMajority => format!(
                "outside the guarantee: no {majority} of {count} estimates agree with each other, so that any of several \
                 groups may be the honest one; {trusted} agree with the tightest group"
            ),
            Verdict::MostNotCleaned => format!(
                "outside the guarantee: {} of {count} batches could not be cleaned, so that most estimates mix good and \
                 corrupted rows",
                thousands(not_cleaned)
            ),
        };
        if self.verdict != Verdict::MostNotCleaned && not_cleaned > 0 {
            let _ = write!(text, "; {} could not be cleaned", plural(not_cleaned, "batch", "batches"));
        }
        match self.sites_counted {
            1 => text.push_str("; all estimates are of one site, so that the guarantee is of estimates and not of sites"),
            2 => text.push_str(
                "; of two sites neither can outvote the other, so that the guarantee is of estimates and not of sites: who \
                 sends most of them decides",
            ),
            _ => {}
        }
        if let Some(ratio) = self.overdispersion.filter(|ratio| *ratio > 2.0) {
            let _ = write!(text, "; batches differ {} times as much as their noise explains", single(Some(ratio), 2));
        }
        text
    }

    /// The batches to show, in their order: all, or those that were not trusted first.
    fn shown(&self) -> Vec<&Member> {
        let mut order: Vec<(usize, &Member)> = self.batches.iter().enumerate().collect();
        if order.len() > NAMED_BATCHES {
            order.sort_by_key(|(_, batch)| batch.trusted);
            order.truncate(NAMED_BATCHES);
            order.sort_unstable_by_key(|(at, _)| *at);
        }
        order.into_iter().map(|(_, batch)| batch).collect()
    }

    /// What the list of batches leaves out, if anything.
    fn left_out(&self) -> Option<String> {
        let hidden = self.batches.len().saturating_sub(NAMED_BATCHES) as u64;
        (hidden > 0).then(|| {
            format!(
                "{} are not listed; those that were set aside come first, and JSON has all",
                plural(hidden, "batch", "batches")
            )
        })
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count), if count == 1 { one } else { many })
}

/// The coefficient table of a consensus: standard errors and 95 % intervals where its method yields them.
///
/// `terms` names the coefficients in their order; names that are missing are `x1`, `x2`, ...
pub fn coefficients(consensus: &Consensus, terms: &[String]) -> Vec<Coefficient> {
    let errors = consensus.std_errors();
    consensus
        .coefficients
        .iter()
        .enumerate()
        .map(|(j, estimate)| {
            let term = terms.get(j).cloned().unwrap_or_else(|| format!("x{}", j + 1));
            let error = errors.as_ref().map(|e| e[j]).filter(|e| e.is_finite());
            let degrees = consensus.degrees_of_freedom;
            Coefficient::new(term, Role::Worker, Some(*estimate), error, Family::Gaussian, degrees)
        })
        .collect()
}

/// The result of consolidating estimates that came as files, where there is no study and no run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consolidated {
    /// Always `robust`.
    pub protocol: Protocol,
    /// The command that was called.
    pub call: String,
    /// The outcome's name, where the estimates carry it.
    pub outcome: Option<String>,
    /// The coefficient table, in the units of the data.
    pub coefficients: Vec<Coefficient>,
    /// Rows of the trusted batches.
    pub nobs: u64,
    /// Degrees of freedom of the standard errors.
    pub df_residual: Option<f64>,
    /// Whether the guarantee covers the result.
    pub converged: bool,
    /// `converged` or `outside_guarantee`.
    pub termination: String,
    /// Things the reader must know.
    pub notes: Vec<String>,
    /// What was trusted, and why.
    #[serde(flatten)]
    pub consolidation: Consolidation,
}

impl Consolidated {
    /// The result of a consensus.
    pub fn new(
        call: String,
        outcome: Option<String>,
        terms: &[String],
        consensus: &Consensus,
        consolidation: Consolidation,
    ) -> Consolidated {
        Consolidated {
            protocol: Protocol::Robust,
            call,
            outcome,
            coefficients: coefficients(consensus, terms),
            nobs: consolidation.trusted_rows().0,
            df_residual: consensus.covariance.is_some().then_some(consensus.degrees_of_freedom),
            converged: consolidation.guaranteed(),
            termination: consolidation.termination().to_owned(),
            notes: Vec::new(),
            consolidation,
        }
    }

    /// For people, after R's `summary`.
    pub fn text(&self) -> String {
        let (c, rows) = (&self.consolidation, &self.coefficients);
        let mut out = String::new();
        set_apart(c, rows).iter().for_each(|section| section.text(&mut out));
        out.push_str(&format!("Call:\n{}\n\n", visible(&self.call)));
        let section = match &self.outcome {
            Some(outcome) => Section::default().line(format!("Coefficients for {}:", visible(outcome))),
            None => Section::default().line("Coefficients:"),
        };
        let section = rows_of(section, rows, &Style { intervals: true, ..Style::new('t') });
        let without =
            "---\nStandard errors are NA: only `refine` has them, and only where every estimate brings its Gram";
        match rows.iter().all(|row| row.std_error.is_none()) {
            true => section.line(without).text(&mut out),
            false => section.text(&mut out),
        }
        batches(c).text(&mut out);
        let (nobs, kept) = c.trusted_rows();
        let (nobs, kept) = (thousands(nobs), thousands(kept));
        let closing = [
            entry("Rows:", format!("{nobs} in batches of the consensus, {kept} of them kept")),
            entry("Ended:", c.sentence()),
        ];
        let notes = self.notes.iter().map(|note| entry("Note:", visible(note)));
        closing.into_iter().chain(messages(c)).chain(notes).for_each(|entry| labelled(&mut out, &entry));
        trimmed(&out)
    }

    /// As indented JSON with a final newline: stable names, numbers that round-trip, null for what is undefined.
    pub fn json(&self) -> String {
        json::pretty(self)
    }

    /// The coefficient table as CSV, in broom's names.
    pub fn csv(&self) -> String {
        csv::rows(&self.coefficients)
    }

    /// As one page that needs nothing else.
    pub fn html(&self) -> String {
        let title = match &self.outcome {
            Some(outcome) => format!("robust regression of {}", visible(outcome)),
            None => "robust regression".to_owned(),
        };
        let (c, rows) = (&self.consolidation, &self.coefficients);
        let picture = html! { @if let Some(picture) = plot::coefficients(rows, None) { figure { (picture) } } };
        page(
            &title,
            html! {
                header {
                    p.kicker { "fedreg · robust · consolidation of estimates" }
                    h1 { (title) }
                    (badge(c.guaranteed(), &self.termination, &c.sentence()))
                }
                @if let Some(section) = set_apart(c, rows) { (section.markup()) }
                (notes(&self.notes))
                (rows_of(Section::new("Coefficients").page(picture), rows, &Style::new('t')).markup())
                (batches(c).markup())
                footer { pre { (visible(&self.call)) } }
            },
        )
    }
}

/// Sites of which nothing is in the consensus.
fn set_aside(c: &Consolidation) -> Vec<&Standing> {
    match c.guaranteed() {
        true => c.sites.iter().filter(|site| site.set_aside()).collect(),
        // Without a consensus nobody can know which site is the odd one.
        false => Vec::new(),
    }
}

/// What stands first, a sentence each: sites that are wholly set aside, and sites that repeat another's estimates.
fn sentences(c: &Consolidation) -> Vec<String> {
    let aside = set_aside(c).into_iter().map(|site| {
        let own = site.estimates - site.copies;
        let estimates = match own {
            1 => "its estimate disagrees".to_string(),
            own => format!("all {} of its estimates disagree", thousands(own)),
        };
        format!(
            "{} is set aside: {estimates} with the consensus, and nothing of it is in the result",
            visible(&site.worker)
        )
    });
    let copies = c.sites.iter().filter(|site| site.copies > 0).map(|site| {
        let of_others = c.batches.iter().any(|batch| {
            batch.worker == site.worker && batch.copy_of.as_ref().is_some_and(|(worker, _)| *worker != site.worker)
        });
        let whose = if of_others { "those of another site" } else { "earlier ones of its own" };
        let (copies, all) = (thousands(site.copies), thousands(site.estimates));
        format!(
            "{copies} of {all} estimates of {} repeat {whose} to rounding: the same rows count once",
            visible(&site.worker)
        )
    });
    aside.chain(copies).collect()
}

/// What stands first: sites that are wholly set aside, with what each of them says alone, and sites that repeat another's estimates.
fn set_apart(c: &Consolidation, rows: &[Coefficient]) -> Option<Section> {
    let sentences = sentences(c);
    if sentences.is_empty() {
        return None;
    }
    let section = sentences.iter().fold(Section::new("Set aside").boxed(), |section, sentence| {
        section.line(folded(sentence, "*** ", "    ")).page(html! { p { strong { (sentence) "." } } })
    });
    let alone: Vec<&Standing> =
        set_aside(c).into_iter().filter(|site| site.coefficients.len() == rows.len()).take(NAMED_SITES).collect();
    if alone.is_empty() || rows.is_empty() {
        return Some(section);
    }
    let consensus: Vec<Option<f64>> = rows.iter().map(|row| row.estimate).collect();
    let mut columns = vec![
        Column::left("", rows.iter().map(|row| visible(&row.term)).collect()).heading("Term"),
        numbers("Consensus", &consensus),
    ];
    columns.extend(alone.into_iter().map(|site| {
        let values: Vec<Option<f64>> = site.coefficients.iter().map(|value| Some(*value)).collect();
        numbers(&format!("{} alone", visible(&site.worker)), &values)
    }));
    Some(section.table(columns))
}

/// How the sites stand: estimates in the consensus of those sent, and the share of the vote.
fn standings(c: &Consolidation) -> Vec<Column> {
    let of = |value: &dyn Fn(&Standing) -> String| c.sites.iter().map(value).collect::<Vec<_>>();
    let share = |site: &Standing| if c.site_votes { percent(site.share) } else { UNDEFINED.to_string() };
    vec![
        Column::left("", of(&|site| visible(&site.worker))).heading("Site"),
        Column::right(
            "In consensus",
            of(&|site| format!("{} of {}", thousands(site.trusted), thousands(site.estimates))),
        )
        .heading("In the consensus"),
        Column::right("Share of the vote", of(&share)),
    ]
}

/// The batches: a picture of their distances and of the share of rows kept, and the table of those that are named.
fn batches(c: &Consolidation) -> Section {
    let caption = html! {
        "One mark a batch, in the order of worker and batch: its distance to the consensus above, and below "
        "the share of its rows that the fit kept. Filled marks are in the consensus, hollow ones are set aside. "
        @if plot::thinned(c.batches.len()) { "Not every batch is drawn." }
    };
    let sentence = html! { p { (c.sentence()) "." } };
    let mut section = Section::new("Batches").page(sentence).figure(plot::batches(&c.batches), caption).facts(facts(c));
    if c.sites.len() > 1 && c.sites.len() <= NAMED_BATCHES {
        section = section.line("Sites:").table(standings(c)).line("");
    }
    let (inside, all) = (thousands(c.trusted), thousands(c.estimates()));
    section = section
        .line(format!("Batches: ({}, {inside} of {all} in the consensus)", c.consolidation))
        .table(members(&c.shown()));
    if let Some(sentence) = c.left_out() {
        section = section.line(folded(&sentence, "  - ", "    ")).remark(html! { (sentence) "." });
    }
    if !c.repeated.is_empty() {
        let (shown, more) = first(&c.repeated, NAMED_REJECTIONS);
        section = section.remark(html! {
            "Came again and counted once: " (shown.iter().map(name).collect::<Vec<_>>().join(", "))
            @if more > 0 { " and " (more) " more" }
            "."
        });
    }
    if !c.rejected.is_empty() {
        let (shown, more) = first(&c.rejected, NAMED_REJECTIONS);
        section = section.page(html! {
            h3 { "Not accepted" }
            ul {
                @for rejection in shown { li { (visible(&rejection.from)) ": " (visible(&rejection.reason)) } }
                @if more > 0 { li { "and " (more) " more" } }
            }
        });
    }
    section
}

fn facts(c: &Consolidation) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Method", c.consolidation.clone())];
    facts.push(match c.site_votes {
        true => ("Sites in it", format!("{} of {}", thousands(c.sites_trusted), thousands(c.sites_counted))),
        false => ("Majority", format!("{} of {}", thousands(c.majority), thousands(c.estimates()))),
    });
    facts.push(("Pivot", name(&c.pivot)));
    facts.push(("Radius of its majority", single(Some(c.radius), 3)));
    facts.extend(c.overdispersion.map(|ratio| ("Spread over noise", single(Some(ratio), 3))));
    facts
}

fn members(shown: &[&Member]) -> Vec<Column> {
    let of = |value: &dyn Fn(&Member) -> String| shown.iter().map(|b| value(b)).collect::<Vec<_>>();
    let distances: Vec<Option<f64>> = shown.iter().map(|b| Some(significant(b.distance, 3))).collect();
    let mut together = column(&distances, 3);
    // One enormous lie must not push every honest distance into scientific notation.
    if together.iter().any(|cell| cell.contains('e')) {
        together = distances.iter().map(|distance| single(*distance, 3)).collect();
    }
    vec![
        Column::left("Worker", of(&|b| visible(&b.worker))),
        Column::right("Batch", of(&|b| b.batch.to_string())),
        Column::right("Rows", of(&|b| b.nobs.to_string())).on_page(of(&|b| thousands(b.nobs))),
        Column::right("Kept", of(&|b| percent(share(b)))),
        Column::right("Distance", together).on_page(of(&|b| single(Some(b.distance), 3))),
        Column::left("Consensus", of(&trust)).classes(shown.iter().map(|b| if b.trusted { "good" } else { "bad" })),
    ]
}

/// What was not accepted and what came twice, as closing lines.
fn messages(c: &Consolidation) -> Vec<Entry> {
    let mut entries = Vec::new();
    if !c.repeated.is_empty() {
        let (shown, more) = first(&c.repeated, NAMED_REJECTIONS);
        let mut names: Vec<String> = shown.iter().map(name).collect();
        names.extend((more > 0).then(|| format!("and {more} more")));
        let count = plural(c.repeated.len() as u64, "estimate", "estimates");
        entries.push(entry("Repeated:", format!("{count} came again and counted once: {}", names.join(", "))));
    }
    let (shown, more) = first(&c.rejected, NAMED_REJECTIONS);
    let mut rejected: Vec<_> =
        shown.iter().map(|r| (None, format!("{}: {}", visible(&r.from), visible(&r.reason)))).collect();
    rejected.extend((more > 0).then(|| (None, format!("and {more} more"))));
    entries.push(("Rejected:", rejected));
    entries
}

fn name(b: &BatchName) -> String {
    format!("batch {} of {}", b.batch, visible(&b.worker))
}

fn share(b: &Member) -> f64 {
    if b.nobs == 0 { f64::NAN } else { b.kept as f64 / b.nobs as f64 }
}

fn trust(b: &Member) -> String {
    if let Some((worker, batch)) = &b.copy_of {
        return format!("copy of batch {batch} of {}", visible(worker));
    }
    let words = match (b.trusted, b.cleaned, b.kept) {
        (true, true, _) => "in",
        (true, false, _) => "in, though not cleaned",
        (false, _, 0) => "not fitted",
        (false, true, _) => "set aside",
        (false, false, _) => "set aside, not cleaned",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::fit::Rejection;
    use crate::methods::robust::{Estimate, Estimates, Gram, Method, consolidate};
    use nalgebra::DMatrix;

    /// Twenty estimates around (1, -2), of which the last `far` lie elsewhere.
    fn consensus(far: u64) -> Consensus {
        let mut set = Estimates::new(2, true);
        for i in 0..20_u64 {
            let t = 0.01 * ((i * 7 % 20) as f64 / 10.0 - 0.95);
            let away = if i >= 20 - far { 30.0 } else { 0.0 };
            let estimate = Estimate {
                worker: if i % 2 == 0 { "north".into() } else { "<south>".into() },
                batch: i / 2,
                coefficients: vec![1.0 + t + away, -2.0 - 0.5 * t],
                gram: Some(Gram::from_matrix(&DMatrix::from_row_slice(2, 2, &[900.0, 10.0, 10.0, 850.0]))),
                nobs: 1000,
                kept: 900,
                scale: 0.3,
                cleaned: i != 3,
            };
            set.insert(estimate).unwrap();
        }
        consolidate(&set, &Method::Refine.into()).unwrap()
    }

    fn consolidated(far: u64) -> Consolidated {
        let consensus = consensus(far);
        let mut about = Consolidation::new(&consensus);
        about.repeated.push(BatchName { worker: "north".into(), batch: 2 });
        about
            .rejected
            .push(Rejection { from: "sites.jsonl, line 7".into(), reason: "expected 2 coefficients, got 3".into() });
        let terms = ["(Intercept)".to_owned(), "age".to_owned()];
        Consolidated::new("coordinator consolidate".into(), Some("cost".into()), &terms, &consensus, about)
    }

    #[test]
    fn the_report_shows_each_batch_and_whom_was_trusted() {
        let report = consolidated(4);
        let text = report.text();
        assert!(text.contains("Coefficients for cost:"), "{text}");
        assert!(text.contains("Batches: (refine, 16 of 20 in the consensus)"), "{text}");
        // Long sentences are folded.
        let unfolded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let stands = "16 of 20 estimates are in the consensus; the guarantee stands while at most 9 are wrong; 1 batch could not be cleaned";
        assert!(unfolded.contains(stands) && unfolded.contains("of two sites neither can outvote the other"), "{text}");
        assert!(text.contains("came again and counted once: batch 2 of north"), "{text}");
        assert!(text.contains("sites.jsonl, line 7: expected 2 coefficients, got 3"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with(" set aside")).count(), 4, "{text}");
        assert!(report.consolidation.exit() == Exit::Done && report.converged);
        let row = &report.coefficients[1];
        assert!(row.conf_low.unwrap() < -2.0 && row.conf_high.unwrap() > -2.0 && row.p_value.unwrap() < 1e-10);
        let page = report.html();
        assert!(page.contains("&lt;south&gt;") && !page.contains("<south>"));
        assert_eq!(page.matches("class=\"hollow\"").count(), 8);
    }

    #[test]
    fn a_site_that_is_set_aside_stands_first_with_its_own_coefficients() {
        let mut set = Estimates::new(2, true);
        for (site, name) in ["north", "<south>", "west"].into_iter().enumerate() {
            for batch in 0..if site == 1 { 30 } else { 4 } {
                let t = 0.01 * ((7 * batch + site as u64) as f64).sin();
                let away = if site == 1 { 30.0 } else { 0.0 };
                let gram = DMatrix::from_row_slice(2, 2, &[900.0 + t, 10.0, 10.0, 850.0]);
                let estimate = Estimate {
                    worker: name.into(),
                    batch,
                    coefficients: vec![1.0 + t + away, -2.0 - 0.5 * t],
                    gram: Some(Gram::from_matrix(&gram)),
                    nobs: 1000,
                    kept: 900,
                    scale: 0.3,
                    cleaned: true,
                };
                set.insert(estimate.clone()).unwrap();
                if (site, batch) == (2, 3) {
                    set.insert(Estimate { batch: 9, ..estimate }).unwrap();
                }
            }
        }
        let consensus = consolidate(&set, &Method::Refine.into()).unwrap();
        let terms = ["(Intercept)".to_owned(), "age".to_owned()];
        let about = Consolidation::new(&consensus);
        let report = Consolidated::new("coordinator consolidate".into(), None, &terms, &consensus, about);
        let text = report.text();
        let unfolded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = "*** <south> is set aside: all 30 of its estimates disagree with the consensus, and nothing of it is in the result";
        assert!(unfolded.starts_with(first), "{text}");
        assert!(unfolded.contains("1 of 5 estimates of west repeat earlier ones of its own to rounding"), "{text}");
        let (banner, _) = text.split_once("Call:").unwrap();
        let row = banner.lines().find(|line| line.starts_with("(Intercept)")).unwrap();
        let numbers: Vec<f64> = row.split_whitespace().skip(1).map(|cell| cell.parse().unwrap()).collect();
        assert!((numbers[0] - 1.0).abs() < 0.01 && (numbers[1] - 31.0).abs() < 0.01, "{banner}");
        assert!(unfolded.contains("from 2 of 3 sites; sites have a vote each however many"), "{text}");
        assert!(unfolded.contains("at most 1 site, or 5 estimates, are wrong"), "{text}");
        assert!(text.contains("copy of batch 3 of west"), "{text}");
        let page = report.html();
        let banner = page.find("&lt;south&gt; is set aside").unwrap();
        assert!(banner < page.find("<h2>Coefficients").unwrap() && !page.contains("<south>"));
        let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((value["site_votes"].as_bool(), value["sites"][0]["trusted"].as_u64()), (Some(true), Some(0)));
        assert_eq!(serde_json::from_str::<Consolidated>(&report.json()).unwrap(), report);
    }

    #[test]
    fn a_result_outside_the_guarantee_says_so_everywhere() {
        let report = consolidated(10);
        assert_eq!(report.consolidation.exit(), Exit::NotConverged);
        assert_eq!(report.termination, "outside_guarantee");
        for text in [report.text(), report.html()] {
            let unfolded = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(unfolded.contains("outside the guarantee: no 11 of 20 estimates agree"), "{text}");
        }
        assert!(report.json().contains("\"verdict\": \"no_majority\""));
    }

    #[test]
    fn json_reads_back_as_it_was_and_is_flat() {
        let report = consolidated(3);
        let text = report.json();
        assert_eq!(serde_json::from_str::<Consolidated>(&text).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let batch = &value["batches"][0];
        for key in ["worker", "batch", "nobs", "kept", "distance", "trusted"] {
            assert!(!batch[key].is_null(), "{key}");
        }
        assert_eq!(value["consolidation"], "refine");
        assert_eq!(value["coefficients"][0]["term"], "(Intercept)");
    }

    #[test]
    fn of_many_batches_those_that_were_set_aside_are_listed_first() {
        let mut report = consolidated(4);
        let template = report.consolidation.batches[0].clone();
        report.consolidation.batches = (0..5000)
            .map(|batch| Member { batch, trusted: batch % 1000 != 999, worker: "w".into(), ..template.clone() })
            .collect();
        let text = report.text();
        for batch in [999, 1999, 4999] {
            assert!(text.contains(&format!(" {batch} ")), "{text}");
        }
        assert!(text.contains("4,960 batches are not listed"), "{text}");
        assert!(text.lines().count() < 80);
        let page = report.html();
        assert!(page.len() < 1_500_000 && page.contains("Not every batch is drawn."), "{}", page.len());
    }
}
