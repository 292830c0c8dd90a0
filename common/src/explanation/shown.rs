//! An explanation as text and as a page.

use maud::{Markup, html};

use super::{Explanation, Member};
use crate::report::layout::page;
use crate::report::number::visible;
use crate::report::table::list;

/// Width of the underlines of headings.
const MOST: usize = 60;

impl Explanation {
    /// Its parts that are lists of sentences, each with its heading.
    fn topics(&self) -> [(&'static str, &[String]); 8] {
        [
            ("Against whom it is protected", &self.protected),
            ("What it assumes", &self.assumes),
            ("What breaks it", &self.breaks),
            ("What is counted over runs", &self.counted),
            ("What finding the common rows discloses", &self.matching),
            ("What predictions disclose", &self.prediction),
            ("What the result says", &self.result),
            ("What this cannot tell", &self.unknown),
        ]
    }

    fn title(&self) -> String {
        format!("What leaves whom in the study {}", visible(&self.study))
    }

    fn digest(&self) -> &str {
        self.study_digest.get(..8).unwrap_or(&self.study_digest)
    }

    /// For people, on a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.title());
        list(
            &mut out,
            [
                format!("method: {}; {}", self.protocol.name(), visible(&self.model)),
                format!("mode: {}; {}", self.mode.name(), self.in_a_sentence),
                format!("digest of the study: {}; everybody's copy has the same", self.digest()),
            ]
            .into_iter(),
        );
        for member in &self.members {
            out.push_str(&heading(&visible(&member.name)));
            list(&mut out, member.lines().into_iter());
        }
        for (title, sentences) in self.topics() {
            out.push_str(&heading(title));
            list(&mut out, sentences.iter().map(|sentence| visible(sentence)));
        }
        out
    }

    /// One page without anything from elsewhere.
    pub fn html(&self) -> String {
        page(
            &self.title(),
            html! {
                header {
                    p.kicker { "fedreg · " (self.protocol.name()) " · " (self.mode.name()) }
                    h1 { (self.title()) }
                    p { (words(&capital(&visible(&self.model)))) "." }
                    p { "Mode " strong { (self.mode.name()) } ": " (self.in_a_sentence) "." }
                    dl.facts {
                        div { dt { "Mode" } dd { (self.mode.name()) } }
                        div { dt { "Method" } dd { (self.protocol.name()) } }
                        div { dt { "Digest of the study" } dd { code { (self.digest()) } } }
                    }
                }
                section {
                    h2 { "What leaves whom" }
                    p.remark { "Everybody who takes part, with what leaves there, who gets it, and what can be learnt from it." }
                    @for member in &self.members { (member.markup()) }
                }
                @for (title, sentences) in self.topics() {
                    section {
                        h2 { (title) }
                        ul { @for sentence in sentences { li { (words(&capital(&visible(sentence)))) } } }
                    }
                }
                footer {
                    p.remark { "Made from the study's file alone; no data were read. Every copy of the file with the digest " code { (self.study_digest) } " has this explanation." }
                }
            },
        )
    }
}

impl Member {
    fn lines(&self) -> Vec<String> {
        let certificate = self.certificate.iter().map(|name| format!("certificate: {}", visible(name)));
        let mut lines: Vec<String> = certificate.chain([format!("brings: {}", visible(&self.holds))]).collect();
        match self.leaves.is_empty() {
            true => lines.push("leaves: nothing of any row".to_string()),
            false => lines.extend(
                self.leaves
                    .iter()
                    .map(|leaves| format!("leaves: {}, to {}: {}", leaves.what, visible(&leaves.to), leaves.reveals)),
            ),
        }
        lines.extend(self.learns.iter().map(|learns| format!("learns: {}", visible(learns))));
        lines
    }

    fn markup(&self) -> Markup {
        html! {
            h3 { (visible(&self.name)) }
            p { @if let Some(name) = &self.certificate { "Certificate " code { (visible(name)) } ". " } "Brings " (words(&visible(&self.holds))) "." }
            @if self.leaves.is_empty() {
                p { "Nothing of any row leaves here." }
            } @else {
                div.scroll {
                    table {
                        thead { tr { th.text { "What leaves" } th.text { "To whom" } th.text { "What can be learnt from it" } } }
                        tbody {
                            @for leaves in &self.leaves {
                                tr {
                                    td class="text long" { (leaves.what) }
                                    td class="text long" { (visible(&leaves.to)) }
                                    td class="text wrap" { (leaves.reveals) }
                                }
                            }
                        }
                    }
                }
            }
            @if !self.learns.is_empty() {
                p.remark { "Learns of the others:" }
                ul { @for learns in &self.learns { li { (words(&visible(learns))) } } }
            }
        }
    }
}

fn heading(title: &str) -> String {
    let title = capital(title);
    format!("\n{title}\n{}\n", "-".repeat(title.chars().count().min(MOST)))
}

/// A sentence with what stands in backticks as code.
fn words(sentence: &str) -> Markup {
    let pieces: Vec<&str> = sentence.split('`').collect();
    // With one in a name it would be the words between names that look like code.
    let names = pieces.len() % 2 == 1;
    html! {
        @if !names { (sentence) } @else {
            @for (at, piece) in pieces.iter().enumerate() {
                @if at % 2 == 0 { (piece) } @else { code { (piece) } }
            }
        }
    }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
