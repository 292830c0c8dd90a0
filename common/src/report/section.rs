//! Sections: what a report consists of. A method's room fills them with typed content; text and page are made of them here.

use maud::{Markup, html};

use super::table::{Column, markup, table};

/// A part of a report with a heading on the page. In the text it ends with an empty line.
#[derive(Debug, Default)]
pub struct Section {
    /// On the page; a section without one stands in the text only.
    heading: Option<String>,
    class: Option<&'static str>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// A line of the text.
    Line(String),
    /// A table, in both.
    Table(Vec<Column>),
    /// On the page only.
    Page(Markup),
}

impl Section {
    /// An empty section with a heading on the page.
    pub(crate) fn new(heading: &str) -> Section {
        Section { heading: Some(heading.to_string()), ..Section::default() }
    }

    /// As a box that stands out on the page.
    pub(crate) fn boxed(self) -> Section {
        Section { class: Some("notes"), ..self }
    }

    fn with(mut self, part: Part) -> Section {
        self.parts.push(part);
        self
    }

    /// A line of the text.
    pub(crate) fn line(self, line: impl Into<String>) -> Section {
        self.with(Part::Line(line.into()))
    }

    /// A table in both.
    pub(crate) fn table(self, columns: Vec<Column>) -> Section {
        self.with(Part::Table(columns))
    }

    /// What stands on the page only.
    pub(crate) fn page(self, markup: Markup) -> Section {
        self.with(Part::Page(markup))
    }

    /// A picture with what to see in it, on the page only.
    pub(crate) fn figure(self, picture: Option<Markup>, caption: Markup) -> Section {
        self.page(html! { @if let Some(picture) = picture { figure { (picture) figcaption { (caption) } } } })
    }

    /// A remark on the page.
    pub(crate) fn remark(self, words: Markup) -> Section {
        self.page(html! { p.remark { (words) } })
    }

    /// Labels with their values, on the page only.
    pub(crate) fn facts<N: AsRef<str>>(self, facts: impl IntoIterator<Item = (N, String)>) -> Section {
        self.page(html! { dl.grid { @for (name, value) in facts { div { dt { (name.as_ref()) } dd { (value) } } } } })
    }

    /// As text.
    pub(crate) fn text(&self, out: &mut String) {
        let before = out.len();
        for part in &self.parts {
            match part {
                Part::Line(line) => {
                    out.push_str(line);
                    out.push('\n');
                }
                Part::Table(columns) => {
                    // Writing to a string cannot fail.
                    let _ = table(out, columns);
                }
                Part::Page(_) => {}
            }
        }
        if out.len() > before {
            out.push('\n');
        }
    }

    /// On a page.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            @if let Some(heading) = &self.heading {
                section class=[self.class] {
                    h2 { (heading) }
                    @for part in &self.parts {
                        @match part {
                            Part::Line(_) => {},
                            Part::Table(columns) => { @if columns.iter().any(Column::is_on_page) { div.scroll { (markup(columns)) } } },
                            Part::Page(markup) => (markup),
                        }
                    }
                }
            }
        }
    }
}
