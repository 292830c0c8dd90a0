//! Tables and sentences: a table is stated once, and stands in the text and on the page.

use maud::{Markup, html};

use crate::id::Role;
use crate::report::plot::Colours;

/// Widest column that others are lined up behind; wider cells push them on. Padding has a limit of its own, 65,535.
const WIDEST: usize = 1000;

/// Where a value stands after its label in the closing lines.
const INDENT: usize = 11;
/// Width after which sentences are folded.
const WIDTH: usize = 100;

/// A label of the closing lines with its sentences, each of them of one party or of all.
pub(crate) type Entry = (&'static str, Vec<(Option<Role>, String)>);

/// A label with one sentence.
pub(crate) fn entry(label: &'static str, sentence: String) -> Entry {
    (label, vec![(None, sentence)])
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    name: String,
    cells: Vec<String>,
    left: bool,
    /// Name and cells on the page, where they differ.
    heading: Option<String>,
    page_cells: Option<Vec<String>>,
    /// Classes of the cells on the page, one a cell.
    classes: Vec<&'static str>,
    swatch: bool,
    in_text: bool,
    on_page: bool,
}

impl Column {
    /// Cells that begin below each other.
    pub fn left(name: &str, cells: Vec<String>) -> Column {
        Column { left: true, ..Column::right(name, cells) }
    }

    /// Cells that end below each other.
    pub fn right(name: &str, cells: Vec<String>) -> Column {
        Column {
            name: name.to_string(),
            cells,
            left: false,
            heading: None,
            page_cells: None,
            classes: Vec::new(),
            swatch: false,
            in_text: true,
            on_page: true,
        }
    }

    /// With another name on the page.
    pub(crate) fn heading(self, heading: &str) -> Column {
        Column { heading: Some(heading.to_string()), ..self }
    }

    /// With other cells on the page.
    pub(crate) fn on_page(self, cells: Vec<String>) -> Column {
        Column { page_cells: Some(cells), ..self }
    }

    /// With a class for each cell on the page; empty ones do not count.
    pub(crate) fn classes(self, classes: impl Iterator<Item = &'static str>) -> Column {
        Column { classes: classes.collect(), ..self }
    }

    /// With a class for all cells on the page.
    pub(crate) fn class(self, class: &'static str) -> Column {
        let cells = self.cells.len();
        self.classes(std::iter::repeat_n(class, cells))
    }

    /// With the colour of a party before each cell on the page.
    pub(crate) fn parties(self, parties: impl Iterator<Item = Option<Role>>, colours: Colours<'_>) -> Column {
        Column { swatch: true, ..self.classes(parties.map(|party| party.map_or("", |party| colours.class(party)))) }
    }

    /// In the text only.
    pub(crate) fn text_only(self) -> Column {
        Column { on_page: false, ..self }
    }

    /// On the page only.
    pub(crate) fn page_only(self) -> Column {
        Column { in_text: false, ..self }
    }

    /// Whether the page has it.
    pub(crate) fn is_on_page(&self) -> bool {
        self.on_page
    }

    fn shown_cells(&self) -> &[String] {
        self.page_cells.as_deref().unwrap_or(&self.cells)
    }

    fn cell(&self, row: usize) -> Markup {
        let class = match self.classes.get(row) {
            Some(class) if self.left && !class.is_empty() => format!("text {class}"),
            _ if self.left => "text".to_string(),
            _ => String::new(),
        };
        let class = (!class.is_empty()).then_some(class);
        html! {
            td class=[class] { @if self.swatch { span.swatch {} " " } (self.shown_cells().get(row).map_or("", String::as_str)) }
        }
    }
}

/// Columns side by side, a space between them.
///
/// # Errors
/// Never, when writing to a string.
pub fn table(out: &mut impl std::fmt::Write, columns: &[Column]) -> std::fmt::Result {
    let columns: Vec<&Column> = columns.iter().filter(|column| column.in_text).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = column.cells.iter().map(|cell| cell.chars().count());
            cells.chain([column.name.chars().count()]).max().unwrap_or(0).min(WIDEST)
        })
        .collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    for row in 0..=rows {
        let line: Vec<String> = columns
            .iter()
            .zip(&widths)
            .map(|(column, &width)| {
                let cell = match row {
                    0 => column.name.as_str(),
                    _ => column.cells.get(row - 1).map_or("", String::as_str),
                };
                if column.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        writeln!(out, "{}", line.join(" ").trim_end())?;
    }
    Ok(())
}

/// The same columns on a page.
pub(crate) fn markup(columns: &[Column]) -> Markup {
    let columns: Vec<&Column> = columns.iter().filter(|column| column.on_page).collect();
    let rows = columns.iter().map(|column| column.shown_cells().len()).max().unwrap_or(0);
    let name = |column: &Column| column.heading.as_ref().unwrap_or(&column.name).clone();
    html! {
        table {
            thead { tr { @for column in &columns { th class=[column.left.then_some("text")] { (name(column)) } } } }
            tbody { @for row in 0..rows { tr { @for column in &columns { (column.cell(row)) } } } }
        }
    }
}

/// A label and its sentences, folded and indented; a party's name hangs to the left of its own sentences.
pub(crate) fn labelled(out: &mut String, (label, sentences): &Entry) {
    let mut first = format!("{label:<INDENT$}");
    for (role, sentence) in sentences {
        let owner = role.map(|role| format!("{role}: ")).unwrap_or_default();
        let others = " ".repeat(INDENT + owner.len());
        out.push_str(&folded(&(owner + sentence), &first, &others));
        out.push('\n');
        first = " ".repeat(INDENT);
    }
}

/// Sentences below each other, each with a dash.
pub(crate) fn list(out: &mut String, sentences: impl Iterator<Item = String>) {
    for sentence in sentences {
        out.push_str(&folded(&sentence, "  - ", "    "));
        out.push('\n');
    }
}

/// Breaks a sentence at spaces so that lines stay within the width; a word that is longer stays whole.
pub fn folded(sentence: &str, first: &str, others: &str) -> String {
    let mut text = first.to_string();
    let mut width = first.chars().count();
    let mut fresh = true;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if !fresh && width + 1 + length > WIDTH {
            text.push('\n');
            text.push_str(others);
            width = others.chars().count();
            fresh = true;
        }
        if !fresh {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
        fresh = false;
    }
    text
}

/// The first rows of a longer list, and how many the list leaves out.
pub(crate) fn first<T>(all: &[T], most: usize) -> (&[T], usize) {
    let shown = &all[..all.len().min(most)];
    (shown, all.len() - shown.len())
}
