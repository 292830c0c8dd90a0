//! A report in its order, as text that follows R's `summary(glm(...))` and as a page: head, warnings first, what the method's
//! room made of the run, and what closes every report.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::number::visible;
use super::section::Section;
use super::table::{Entry, entry, labelled, list};
use super::{Report, caution};

/// Nothing may be fetched and nothing may run, whatever a column is called.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const STYLE: &str = include_str!("page.css");

/// A report with what a method's room has to say of it.
#[derive(Debug)]
pub struct Layout<'a> {
    /// What is laid out.
    pub(crate) report: &'a Report,
    /// Of the page.
    pub(crate) title: String,
    /// The name of the merged report on the page.
    pub(crate) merged: &'static str,
    /// Whether it ended as it should.
    pub(crate) good: bool,
    /// How it ended, in a sentence.
    pub(crate) ending: String,
    /// What stands in the page's head.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// What the reader must know before everything else.
    pub(crate) first: Option<Section>,
    /// What the method has to say, the result first.
    pub(crate) sections: Vec<Section>,
    /// How it ended, what left, what was promised and how long it took, in the text.
    pub(crate) closing: Vec<Entry>,
}

impl Layout<'_> {
    /// The report as text: what R prints for a `glm`, then how it ended, what left, what privacy was spent, and notes.
    ///
    /// Estimates are rounded and aligned as by R's `printCoefmat`. There is no colour and no trailing space, and names are
    /// shown with control characters escaped, since they come from the header of somebody's file.
    ///
    /// # Privacy
    /// Nothing in it belongs to a single record. In private mode there are no stars: they would count noise as evidence.
    pub fn text(&self) -> String {
        let report = self.report;
        let mut out = String::new();
        if let Some(caution) = &report.caution {
            caution::text(&mut out, caution);
        }
        if let Some(first) = &self.first {
            first.text(&mut out);
        }
        out.push_str(&format!("Call:\n{}\n\n", visible(&report.call)));
        self.sections.iter().for_each(|section| section.text(&mut out));
        let digest: String = report.study_digest.chars().take(8).collect();
        let (study, digest, run) = (visible(&report.study), visible(&digest), visible(&report.run));
        let (protocol, mode, view) = (report.protocol.name(), report.mode.name(), self.view("merged report"));
        let about = entry("Study:", format!("{study} (digest {digest}), run {run}, {protocol} {mode}, {view}"));
        std::iter::once(&about).chain(&self.closing).for_each(|entry| labelled(&mut out, entry));
        if !report.notes.is_empty() {
            out.push_str("Notes:\n");
            list(&mut out, report.notes.iter().map(|note| visible(note)));
        }
        trimmed(&out)
    }

    /// The report as one self-contained HTML page: what the text has, with pictures, timings and the privacy account in full.
    ///
    /// Every name is escaped, and a content policy in the page forbids scripts and loading anything. It follows the reader's
    /// light or dark setting and prints on white.
    pub fn html(&self) -> String {
        page(
            &self.title,
            html! {
                (caution::banner(self.report))
                @if let Some(first) = &self.first { (first.markup()) }
                (self.head())
                (notes(&self.report.notes))
                @for section in &self.sections { (section.markup()) }
                (self.about())
            },
        )
    }

    fn view(&self, merged: &str) -> String {
        self.report.role.map_or(merged.to_string(), |role| format!("report of {role}"))
    }

    fn head(&self) -> Markup {
        let report = self.report;
        let good = self.good && report.caution.is_none();
        html! {
            header {
                p.kicker { "fedreg · " (report.protocol.name()) " · " (report.mode.name()) " · " (self.view(self.merged)) }
                h1 { (self.title) }
                (badge(good, report.termination.name(), &self.ending))
                dl.facts {
                    @for (name, value) in &self.facts {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    }

    fn about(&self) -> Markup {
        let report = self.report;
        html! {
            footer {
                h2 { "This run" }
                pre { (visible(&report.call)) }
                dl.grid {
                    div { dt { "Study" } dd { (visible(&report.study)) } }
                    div { dt { "Family and link" } dd { (report.family) ", " (visible(&report.link)) } }
                    div.wide { dt { "Study digest" } dd { code { (visible(&report.study_digest)) } } }
                    div.wide { dt { "Run" } dd { code { (visible(&report.run)) } } }
                }
                p.remark { "Made " @if let Some(date) = &report.date { "on " (visible(date)) " " } "by fedreg " (visible(&report.version)) ". Nothing on this page belongs to a single record." }
            }
        }
    }
}

/// How it ended, in a word and a sentence.
pub(crate) fn badge(good: bool, termination: &str, ending: &str) -> Markup {
    html! {
        p { span class=(if good { "badge good" } else { "badge bad" }) { (termination.replace('_', " ")) } " " (ending) }
    }
}

pub(crate) fn notes(notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            section.notes { h2 { "Notes" } ul { @for note in notes { li { (visible(note)) } } } }
        }
    }
}

/// A text without spaces at the ends of lines and without empty lines at its end.
pub(crate) fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// A self-contained page: the style sheet is inside, and nothing may be fetched or run.
pub fn page(title: &str, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
            }
        }
    }
    .into_string()
}
