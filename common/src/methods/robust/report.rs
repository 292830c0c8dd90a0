//! What a consolidation of many estimates has to say: which batches were trusted, how far each lies from the consensus,
//! and whether the method's guarantee covers the result.
//!
//! The pieces stand alone, so that a report of a whole run and the report of a consolidation of files share them.

use std::fmt::Write as _;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::fit::{Coefficient, number_or_null};
use crate::glm::Family;
use crate::id::{Protocol, Role};
use crate::methods::robust::{Consensus, Member, Standing, Verdict};
use crate::report::number::{UNDEFINED, column, percent, significant, single, thousands, visible};
use crate::report::table::{Cells, Column, folded, interval_cells, table};
use crate::report::{csv, html as page};
use crate::report::{plot, standing};

/// Batches that the text and the page list by name; where there are more, those that were not trusted come first.
const NAMED_BATCHES: usize = 40;
/// Messages that were not accepted, by name.
const NAMED_REJECTIONS: usize = 20;

/// Everything that consolidation says beside the coefficients; flat in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consolidation {
    /// Name of the method: `refine`, `pivot`, ...
    pub consolidation: String,
    /// Whether the method's guarantee covers the result.
    pub verdict: Verdict,
    /// Size of a majority: more than half of the estimates.
    pub majority: u64,
    /// How many bad estimates the method's guarantee allows.
    pub withstands: u64,
    /// How many estimates were trusted.
    pub trusted: u64,
    /// The estimate whose majority of nearest neighbours is tightest.
    pub pivot: BatchName,
    /// Distance from the pivot to the farthest of that majority.
    #[serde(deserialize_with = "number_or_null")]
    pub radius: f64,
    /// Spread between the pooled estimates over what their noise explains; where it is significantly above one, the
    /// standard errors have been widened by it.
    #[serde(default)]
    pub overdispersion: Option<f64>,
    /// Every estimate.
    pub batches: Vec<Member>,
    /// How each site stands; of a stream, the sites in the window.
    #[serde(default)]
    pub sites: Vec<Standing>,
    /// Sites that have a vote: all that sent an estimate that counts.
    #[serde(default)]
    pub sites_counted: u64,
    /// Sites of which at least one estimate is in the consensus.
    #[serde(default)]
    pub sites_trusted: u64,
    /// Whether each site has one vote, as from three sites on; otherwise each estimate has.
    #[serde(default)]
    pub site_votes: bool,
    /// Whether sites have votes by the rows that the study declares for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub votes_by_rows: bool,
    /// Estimates that came more than once and counted once.
    #[serde(default)]
    pub repeated: Vec<BatchName>,
    /// Messages that were not accepted, and why.
    #[serde(default)]
    pub rejected: Vec<Rejection>,
}

/// Which batch of which worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchName {
    /// Name of the worker.
    pub worker: String,
    /// Number of the batch.
    pub batch: u64,
}

/// A message that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Where it came from: a worker and batch, or a file and line.
    pub from: String,
    /// Why it was not accepted.
    pub reason: String,
}

impl Consolidation {
    /// What a consensus says; repeats and rejections are known to whoever took the messages.
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

    /// Whether the guarantee covers the result.
    pub fn guaranteed(&self) -> bool {
        self.verdict == Verdict::MajorityAgrees
    }

    /// [`Exit::Done`], or [`Exit::NotConverged`] outside the guarantee.
    pub fn exit(&self) -> Exit {
        if self.guaranteed() { Exit::Done } else { Exit::NotConverged }
    }

    /// `converged`, or `outside_guarantee`: the word in JSON.
    pub fn termination(&self) -> &'static str {
        if self.guaranteed() { "converged" } else { "outside_guarantee" }
    }

    /// Rows of the trusted batches, and those of them that were kept.
    pub fn trusted_rows(&self) -> (u64, u64) {
        let trusted = self.batches.iter().filter(|b| b.trusted);
        trusted.fold((0, 0), |(nobs, kept), b| (nobs.saturating_add(b.nobs), kept.saturating_add(b.kept)))
    }

    /// How many wrong sites the guarantee allows; none where there are fewer than three.
    pub fn sites_withstood(&self) -> u64 {
        if self.site_votes { self.sites_counted.saturating_sub(1) / 2 } else { 0 }
    }

    /// Estimates of which a majority was sought, or batches where more are listed. A worker's view lists its own batches
    /// only, and the consensus is still that of all.
    pub fn estimates(&self) -> u64 {
        (self.batches.len() as u64).max(self.majority.saturating_add(self.withstands))
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

    /// Positions of the batches to show, in their order: all, or those that were not trusted first.
    fn shown(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.batches.len()).collect();
        if order.len() > NAMED_BATCHES {
            order.sort_by_key(|&i| self.batches[i].trusted);
            order.truncate(NAMED_BATCHES);
            order.sort_unstable();
        }
        order
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
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = standing::write(&mut out, &self.consolidation, &self.coefficients);
        let _ = write!(out, "Call:\n{}\n\n", visible(&self.call));
        let _ = self.write(&mut out);
        let lines: Vec<&str> = out.trim_end().lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let rows = &self.coefficients;
        let cells = Cells::new(rows, true);
        let ends = |end: fn(&Coefficient) -> Option<f64>| {
            interval_cells(&rows.iter().map(end).collect::<Vec<_>>(), &cells.estimate)
        };
        let (low, high) = (ends(|row| row.conf_low), ends(|row| row.conf_high));
        match &self.outcome {
            Some(outcome) => writeln!(out, "Coefficients for {}:", visible(outcome))?,
            None => writeln!(out, "Coefficients:")?,
        }
        table(
            out,
            &[
                Column::left("", rows.iter().map(|row| visible(&row.term)).collect()),
                Column::right("Estimate", cells.estimate.clone()),
                Column::right("Std. Error", cells.std_error),
                Column::right("t value", cells.statistic),
                Column::right("Pr(>|t|)", cells.p_value),
                Column::left("", cells.stars.iter().map(ToString::to_string).collect()),
                Column::right("2.5 %", low),
                Column::right("97.5 %", high),
            ],
        )?;
        if cells.starred {
            writeln!(out, "---\nSignif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1")?;
        }
        if rows.iter().all(|row| row.std_error.is_none()) {
            writeln!(
                out,
                "---\nStandard errors are NA: only `refine` has them, and only where every estimate brings its Gram"
            )?;
        }
        writeln!(out)?;
        batches(out, &self.consolidation)?;
        let (nobs, kept) = self.consolidation.trusted_rows();
        writeln!(out, "Rows:      {} in batches of the consensus, {} of them kept", thousands(nobs), thousands(kept))?;
        writeln!(out, "{}", folded(&self.consolidation.sentence(), "Ended:     ", "           "))?;
        messages(out, &self.consolidation)?;
        for note in &self.notes {
            writeln!(out, "{}", folded(&visible(note), "Note:      ", "           "))?;
        }
        Ok(())
    }

    /// As indented JSON with a final newline: stable names, numbers that round-trip, null for what is undefined.
    pub fn json(&self) -> String {
        match serde_json::to_string_pretty(self) {
            Ok(text) => text + "\n",
            // Writing to memory cannot fail and every key is a string; should that change, the reader gets an object
            // that says so rather than a panic.
            Err(error) => serde_json::json!({ "error": error.to_string() }).to_string() + "\n",
        }
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
        let c = &self.consolidation;
        page::page(
            &title,
            html! {
                header {
                    p.kicker { "fedreg · robust · consolidation of estimates" }
                    h1 { (title) }
                    p {
                        span class=(if c.guaranteed() { "badge good" } else { "badge bad" }) { (self.termination.replace('_', " ")) }
                        " " (c.sentence())
                    }
                }
                (standing::section(c, &self.coefficients))
                @if !self.notes.is_empty() {
                    section.notes { h2 { "Notes" } ul { @for note in &self.notes { li { (visible(note)) } } } }
                }
                section {
                    h2 { "Coefficients" }
                    @if let Some(picture) = plot::coefficients(&self.coefficients, false) { figure { (picture) } }
                    (page::coefficient_table(&self.coefficients, 't', false, None))
                }
                (section(c))
                footer { pre { (visible(&self.call)) } }
            },
        )
    }
}

/// The table of batches as text, with a heading and a blank line after it.
///
/// # Errors
/// Never, when writing to a string.
pub fn batches(out: &mut String, c: &Consolidation) -> std::fmt::Result {
    let sites = standing::rows(c);
    if sites.len() > 1 && sites.len() <= NAMED_BATCHES {
        writeln!(out, "Sites:")?;
        let of = |at: usize| sites.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
        table(
            out,
            &[Column::left("", of(0)), Column::right("In consensus", of(1)), Column::right("Share of the vote", of(2))],
        )?;
        writeln!(out)?;
    }
    let (inside, all) = (thousands(c.trusted), thousands(c.estimates()));
    writeln!(out, "Batches: ({}, {inside} of {all} in the consensus)", c.consolidation)?;
    let shown = c.shown();
    let of = |value: &dyn Fn(&Member) -> String| shown.iter().map(|&i| value(&c.batches[i])).collect::<Vec<_>>();
    let distances: Vec<Option<f64>> = shown.iter().map(|&i| Some(significant(c.batches[i].distance, 3))).collect();
    let together = column(&distances, 3);
    // One enormous lie must not push every honest distance into scientific notation.
    let apart = together.iter().any(|cell| cell.contains('e'));
    table(
        out,
        &[
            Column::left("Worker", of(&|b| visible(&b.worker))),
            Column::right("Batch", of(&|b| b.batch.to_string())),
            Column::right("Rows", of(&|b| b.nobs.to_string())),
            Column::right("Kept", of(&|b| percent(share(b)))),
            Column::right("Distance", if apart { distances.iter().map(|d| single(*d, 3)).collect() } else { together }),
            Column::left("Consensus", of(&trust)),
        ],
    )?;
    if let Some(sentence) = c.left_out() {
        writeln!(out, "{}", folded(&sentence, "  - ", "    "))?;
    }
    writeln!(out)
}

/// What was not accepted and what came twice, as closing lines of a text report.
///
/// # Errors
/// Never, when writing to a string.
pub fn messages(out: &mut String, c: &Consolidation) -> std::fmt::Result {
    if !c.repeated.is_empty() {
        let mut names: Vec<String> = c.repeated.iter().take(NAMED_REJECTIONS).map(name).collect();
        if c.repeated.len() > names.len() {
            names.push(format!("and {} more", c.repeated.len() - names.len()));
        }
        let sentence = format!(
            "{} came again and counted once: {}",
            plural(c.repeated.len() as u64, "estimate", "estimates"),
            names.join(", ")
        );
        writeln!(out, "{}", folded(&sentence, "Repeated:  ", "           "))?;
    }
    let mut label = "Rejected:  ";
    for rejection in c.rejected.iter().take(NAMED_REJECTIONS) {
        let sentence = format!("{}: {}", visible(&rejection.from), visible(&rejection.reason));
        writeln!(out, "{}", folded(&sentence, label, "           "))?;
        label = "           ";
    }
    if c.rejected.len() > NAMED_REJECTIONS {
        writeln!(out, "{label}and {} more", c.rejected.len() - NAMED_REJECTIONS)?;
    }
    Ok(())
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

/// The batches as a section of a page: a picture of their distances, the share of rows kept, and the table.
pub fn section(c: &Consolidation) -> Markup {
    let shown = c.shown();
    html! {
        section {
            h2 { "Batches" }
            p { (c.sentence()) "." }
            @if let Some(picture) = plot::batches(&c.batches) {
                figure {
                    (picture)
                    figcaption {
                        "One mark a batch, in the order of worker and batch: its distance to the consensus above, and below "
                        "the share of its rows that the fit kept. Filled marks are in the consensus, hollow ones are set aside. "
                        @if plot::thinned(c.batches.len()) { "Not every batch is drawn." }
                    }
                }
            }
            dl.grid {
                div { dt { "Method" } dd { (c.consolidation) } }
                @if c.site_votes {
                    div { dt { "Sites in it" } dd { (thousands(c.sites_trusted)) " of " (thousands(c.sites_counted)) } }
                } @else {
                    div { dt { "Majority" } dd { (thousands(c.majority)) " of " (thousands(c.estimates())) } }
                }
                div { dt { "Pivot" } dd { (name(&c.pivot)) } }
                div { dt { "Radius of its majority" } dd { (single(Some(c.radius), 3)) } }
                @if c.overdispersion.is_some() { div { dt { "Spread over noise" } dd { (single(c.overdispersion, 3)) } } }
            }
            @let sites = standing::rows(c);
            @if sites.len() > 1 && sites.len() <= NAMED_BATCHES {
                div.scroll {
                    table {
                        thead { tr { th.text { "Site" } th { "In the consensus" } th { "Share of the vote" } } }
                        tbody { @for [site, inside, share] in &sites { tr { td.text { (site) } td { (inside) } td { (share) } } } }
                    }
                }
            }
            div.scroll {
                table {
                    thead { tr { th.text { "Worker" } th { "Batch" } th { "Rows" } th { "Kept" } th { "Distance" } th.text { "Consensus" } } }
                    tbody {
                        @for b in shown.iter().map(|&i| &c.batches[i]) {
                            tr {
                                td.text { (visible(&b.worker)) }
                                td { (b.batch) }
                                td { (thousands(b.nobs)) }
                                td { (percent(share(b))) }
                                td { (if b.distance.is_finite() { single(Some(b.distance), 3) } else { UNDEFINED.to_owned() }) }
                                td class=(if b.trusted { "text good" } else { "text bad" }) { (trust(b)) }
                            }
                        }
                    }
                }
            }
            @if let Some(sentence) = c.left_out() { p.remark { (sentence) "." } }
            @if !c.repeated.is_empty() {
                p.remark {
                    "Came again and counted once: "
                    (c.repeated.iter().take(NAMED_REJECTIONS).map(name).collect::<Vec<_>>().join(", "))
                    @if c.repeated.len() > NAMED_REJECTIONS { " and " (c.repeated.len() - NAMED_REJECTIONS) " more" }
                    "."
                }
            }
            @if !c.rejected.is_empty() {
                h3 { "Not accepted" }
                ul {
                    @for rejection in c.rejected.iter().take(NAMED_REJECTIONS) {
                        li { (visible(&rejection.from)) ": " (visible(&rejection.reason)) }
                    }
                    @if c.rejected.len() > NAMED_REJECTIONS { li { "and " (c.rejected.len() - NAMED_REJECTIONS) " more" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
