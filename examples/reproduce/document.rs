//! Headings, sentences, tables and charts in one order, as text for a terminal and as a page.

use fedreg_common::report::table::{Column, folded, table};
use fedreg_common::report::{layout, visible};
use maud::{Markup, html};

use super::chart::Chart;

/// A document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// Stands above everything.
    pub(crate) title: String,
    /// Its parts in their order.
    pub(crate) parts: Vec<Part>,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Begins a section.
    Heading(String),
    /// A sentence or more.
    Paragraph(String),
    /// A statement that was put to the test.
    Finding {
        /// Whether it held.
        holds: bool,
        /// The statement, with what was measured.
        text: String,
    },
    /// A bound that was set beforehand.
    Target {
        /// Whether it was reached.
        reached: bool,
        /// The bound, with what was measured.
        text: String,
    },
    /// A table.
    Table(Table),
    /// A picture.
    Figure {
        /// Name of its file, without an ending.
        name: String,
        /// The picture.
        chart: Chart,
        /// What to see in it.
        caption: String,
    },
}

/// A table; the first column names the rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Names of the columns, that of the first included.
    pub(crate) header: Vec<String>,
    /// Cells of each row.
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Its cells, the name first.
    pub(crate) cells: Vec<String>,
    /// Numbers from elsewhere: set apart from what was computed here.
    pub(crate) published: bool,
}

impl Table {
    /// An empty table.
    pub(crate) fn new<S: Into<String>>(caption: impl Into<String>, header: impl IntoIterator<Item = S>) -> Table {
        Table { caption: caption.into(), header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row that was computed here.
    pub(crate) fn ours<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(Row { cells: cells.into_iter().map(Into::into).collect(), published: false });
    }

    /// Adds a row of numbers from elsewhere.
    pub(crate) fn published<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(Row { cells: cells.into_iter().map(Into::into).collect(), published: true });
    }
}

impl Document {
    /// An empty document.
    pub(crate) fn new(title: impl Into<String>) -> Document {
        Document { title: title.into(), parts: Vec::new() }
    }

    /// Begins a section.
    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub(crate) fn paragraph(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Paragraph(text.into()));
    }

    /// Adds a statement that was put to the test.
    pub(crate) fn finding(&mut self, holds: bool, text: impl Into<String>) {
        self.parts.push(Part::Finding { holds, text: text.into() });
    }

    /// Adds a bound that was set beforehand.
    pub(crate) fn target(&mut self, reached: bool, text: impl Into<String>) {
        self.parts.push(Part::Target { reached, text: text.into() });
    }

    /// How many bounds were missed.
    pub(crate) fn missed(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Target { reached: false, .. })).count()
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    /// Adds a picture.
    pub(crate) fn figure(&mut self, name: impl Into<String>, chart: Chart, caption: impl Into<String>) {
        self.parts.push(Part::Figure { name: name.into(), chart, caption: caption.into() });
    }

    /// The pictures with their names, as files of their own.
    pub(crate) fn pictures(&self) -> Vec<(&str, String)> {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Figure { name, chart, .. } => Some((name.as_str(), chart.svg())),
                _ => None,
            })
            .collect()
    }

    /// For a terminal; pictures are left out.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n\n", visible(&self.title));
        // Writing to a string cannot fail.
        let _ = self.parts.iter().enumerate().try_for_each(|(at, part)| {
            let statement = |part: &Part| matches!(part, Part::Finding { .. } | Part::Target { .. });
            // Statements stand close together and apart from what follows.
            if at > 0 && statement(&self.parts[at - 1]) && !statement(part) {
                out.push('\n');
            }
            write_part(&mut out, part)
        });
        out
    }

    /// As one page that needs nothing else.
    pub(crate) fn html(&self) -> String {
        layout::page(
            &visible(&self.title),
            html! {
                header { p.kicker { "fedreg · reproduction" } h1 { (visible(&self.title)) } }
                @for part in &self.parts { (markup(part)) }
            },
        )
    }
}

fn write_part(out: &mut String, part: &Part) -> std::fmt::Result {
    use std::fmt::Write as _;
    match part {
        Part::Heading(text) => writeln!(out, "== {}\n", visible(text)),
        Part::Paragraph(text) => writeln!(out, "{}\n", folded(&visible(text), "", "")),
        Part::Finding { holds, text } => {
            let first = if *holds { "  holds:         " } else { "  does not hold: " };
            writeln!(out, "{}", folded(&visible(text), first, "                 "))
        }
        Part::Target { reached, text } => {
            let first = if *reached { "  reached:       " } else { "  MISSED:        " };
            writeln!(out, "{}", folded(&visible(text), first, "                 "))
        }
        Part::Table(Table { caption, header, rows }) => {
            writeln!(out, "{}", folded(&visible(caption), "", ""))?;
            let columns: Vec<Column> = header
                .iter()
                .enumerate()
                .map(|(at, name)| {
                    let cells =
                        rows.iter().map(|row| row.cells.get(at).map(|c| visible(c)).unwrap_or_default()).collect();
                    if at == 0 { Column::left(name, cells) } else { Column::right(name, cells) }
                })
                .collect();
            table(out, &columns)?;
            writeln!(out)
        }
        Part::Figure { .. } => Ok(()),
    }
}

fn markup(part: &Part) -> Markup {
    html! {
        @match part {
            Part::Heading(text) => section { h2 { (visible(text)) } },
            Part::Paragraph(text) => p { (visible(text)) },
            Part::Finding { holds, text } => p {
                span class=(if *holds { "badge good" } else { "badge bad" }) { (if *holds { "holds" } else { "does not hold" }) }
                " " (visible(text))
            },
            Part::Target { reached, text } => p {
                span class=(if *reached { "badge good" } else { "badge bad" }) { (if *reached { "reached" } else { "missed" }) }
                " " (visible(text))
            },
            Part::Table(Table { caption, header, rows }) => div.scroll {
                table {
                    caption.remark { (visible(caption)) }
                    thead { tr { @for (at, name) in header.iter().enumerate() { th class=[(at == 0).then_some("text")] { (visible(name)) } } } }
                    tbody {
                        @for row in rows {
                            tr class=[row.published.then_some("remark")] {
                                @for (at, cell) in row.cells.iter().enumerate() { td class=[(at == 0).then_some("text")] { (visible(cell)) } }
                            }
                        }
                    }
                }
            },
            Part::Figure { chart, caption, .. } => figure { (chart.picture()) figcaption { (visible(caption)) } },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_the_same_as_text_and_as_a_page() {
        let mut document = Document::new("Table of <errors>");
        document.heading("Bad batches");
        document.paragraph("Mean of ten.");
        let mut errors = Table::new("error", ["method", "0/20", "8/20"]);
        errors.ours(["DRLR", ".015", ".016"]);
        errors.published(["DRLR, paper", ".015", ".015"]);
        document.table(errors);
        document.finding(false, "the error stays below .01");
        let text = document.text();
        assert!(text.contains("method      0/20 8/20\nDRLR        .015 .016\nDRLR, paper .015 .015\n"), "{text}");
        assert!(text.contains("does not hold: the error stays below .01"));
        let page = document.html();
        assert!(
            page.contains("Table of &lt;errors&gt;")
                && page.contains("<td>.016</td>")
                && page.contains("does not hold")
        );
        assert!(document.pictures().is_empty());
    }
}
