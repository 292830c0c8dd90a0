//! Why data are refused.

use super::{Place, cell, syntax};

/// Why data were refused. For the local terminal only: some variants quote a cell or an id.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DataError {
    /// A header without rows, or nothing at all.
    #[error("there are no rows; at least one is needed")]
    NoRows,
    /// More rows than can be indexed.
    #[error("more than {most} rows")]
    TooManyRows {
        /// Largest number of rows.
        most: usize,
    },
    /// Columns that make other coefficients than the study has.
    #[error(
        "the columns make the coefficients {found}, the study has {expected}; its `[columns.NAME] levels` must say which columns are categorical (for truth values \"FALSE\" and \"TRUE\")"
    )]
    OtherTerms {
        /// Names of the study's coefficients.
        expected: String,
        /// Names of the table's.
        found: String,
    },
    /// Columns that do not fit together; a fault of the reader.
    #[error("a column has {length} values, expected {rows}")]
    Lengths {
        /// Rows of the frame.
        rows: usize,
        /// Values of the column.
        length: usize,
    },
    /// A row order that is not one; a fault of the caller.
    #[error("the row order is not a permutation of {rows} rows")]
    Order {
        /// Rows of the frame.
        rows: usize,
    },
    /// A header cell without a name.
    #[error("column {position} of the header has no name; give it one, or write the file without it")]
    Unnamed {
        /// Position in the header, from 1.
        position: usize,
    },
    /// A name twice in a header.
    #[error("the header has the name `{column}` twice, as columns {first} and {second}", column = shown(column))]
    RepeatedName {
        /// The name.
        column: String,
        /// First position, from 1.
        first: usize,
        /// Second position, from 1.
        second: usize,
    },
    /// A column that the data do not have.
    #[error("there is no column `{column}`{}", suggestion(column, nearest.as_deref()), column = shown(column))]
    UnknownColumn {
        /// The name asked for.
        column: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A column asked for twice.
    #[error("column `{column}` is named twice", column = shown(column))]
    RepeatedColumn {
        /// The name.
        column: String,
    },
    /// Two coefficients of one name.
    #[error(
        "two coefficients would have the name `{name}`, one of `{first}` and one of `{second}`; rename a column",
        name = shown(name),
        first = shown(first),
        second = shown(second)
    )]
    SameName {
        /// The name.
        name: String,
        /// The term of the first.
        first: String,
        /// The term of the second.
        second: String,
    },
    /// A coefficient with the name of the intercept.
    #[error("a coefficient of `{term}` would have the name of the intercept; rename the column", term = shown(term))]
    NamedAsIntercept {
        /// Its term.
        term: String,
    },
    /// The outcome, an offset, a weight or the id used as a predictor too.
    #[error("column `{column}` is {role} and cannot be a predictor too", column = shown(column))]
    RoleAmongTerms {
        /// The name.
        column: String,
        /// What else the column is.
        role: &'static str,
    },
    /// The id used as a predictor, the outcome, an offset or weights too.
    #[error("column `{column}` is the id and cannot be a predictor or the outcome too", column = shown(column))]
    IdAmongColumns {
        /// The name.
        column: String,
    },
    /// Numbers and text in one column.
    #[error(
        "column `{column}` mixes numbers (first at {number}) and text (first `{text}` at {place}); \
         write one kind, and leave cells empty or write NA where a value is missing{}",
        mixed_hint(text),
        column = shown(column),
        text = shown(text)
    )]
    Mixed {
        /// The column.
        column: String,
        /// Where the first number stands.
        number: Place,
        /// Where the first text stands.
        place: Place,
        /// The first text.
        text: String,
    },
    /// The words for infinity and not-a-number.
    #[error(
        "column `{column}`, {place}: `{text}` is not a value; leave the cell empty or write NA where a value is missing, or \
         declare it: na_values = [\"{text}\"] in the private file, --na-values as a flag",
        column = shown(column),
        text = shown(text)
    )]
    NotFinite {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// What stands there.
        text: String,
    },
    /// A number too large to be squared and summed.
    #[error(
        "column `{column}`, {place}: {value} is too large; sizes up to 1e150 can be used, so rescale the column",
        column = shown(column),
        value = shown(value)
    )]
    TooLarge {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// What stands there.
        value: String,
    },
    /// A column of numbers so small that their squares are zero.
    #[error("column `{column}`: no value is larger than 1e-150, so rescale the column", column = shown(column))]
    TooSmall {
        /// The column or term.
        column: String,
    },
    /// A name that is too long for messages.
    #[error("the name `{name}...` has {bytes} bytes, more than the 1000 that a name may have; rename the column or the level", name = shown(name))]
    LongName {
        /// How it begins.
        name: String,
        /// Bytes.
        bytes: usize,
    },
    /// A name with letters that are not shown.
    #[error(
        "the name `{name}` has letters that control a terminal or hide or reorder text, such as line breaks; rename the column or the level",
        name = shown(name)
    )]
    OddName {
        /// The name.
        name: String,
    },
    /// A column of numbers with other decimals than the file declares, which would otherwise pass as a column of names.
    #[error(
        "column `{column}`, {place}: `{text}` {}",
        match declared {
            true => "is no number with a decimal comma, as is declared; write numbers one way, and nothing between thousands",
            false => "looks like a number with a comma; declare decimal = \",\" in the private file (--decimal as a flag), or write \
                      a point for decimals and nothing between thousands",
        },
        column = shown(column),
        text = shown(text)
    )]
    Comma {
        /// The column.
        column: String,
        /// Where it first stands.
        place: Place,
        /// What stands there.
        text: String,
        /// Whether a decimal comma is declared.
        declared: bool,
    },
    /// A column of dates, which would get a coefficient a day.
    #[error(
        "column `{column}`, {place}: `{text}` is a date, which can be an id and no number; derive a number from `{column}` \
         beforehand, such as an age in years or the days since a fixed day, or declare its levels to use it as categories",
        column = shown(column),
        text = shown(text)
    )]
    Date {
        /// The column.
        column: String,
        /// Where it first stands.
        place: Place,
        /// What stands there.
        text: String,
    },
    /// A text column in which no two rows agree.
    #[error(
        "column `{column}` has another text in each of {rows} rows: it identifies rows and explains nothing; \
         set `rows.id = \"{column}\"` in the study, or leave the column out",
        column = shown(column)
    )]
    Identifier {
        /// The column.
        column: String,
        /// Rows that have a text.
        rows: usize,
    },
    /// More coefficients than rows, of one party's columns alone.
    #[error(
        "{} cannot determine {columns} coefficients{}; leave columns out or use a penalty",
        counted(*rows, "row"),
        widest.as_ref().map_or(String::new(), |(column, levels)| {
            format!(", of which column `{}` makes {levels}", shown(column))
        })
    )]
    TooManyCoefficients {
        /// Rows in use.
        rows: usize,
        /// Coefficients, the intercept counted.
        columns: usize,
        /// The categorical column with the most coefficients, and how many.
        widest: Option<(String, usize)>,
    },
    /// Bytes that are not UTF-8.
    #[error("column `{column}`, {place}: the text is not UTF-8; save the file as UTF-8", column = shown(column))]
    NotUtf8 {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
    },
    /// A level that the study does not declare.
    #[error(
        "column `{column}`, {place}: level `{level}` is not declared; declared are {declared}",
        column = shown(column),
        level = shown(level)
    )]
    UndeclaredLevel {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// The level found.
        level: String,
        /// The declared levels, at most five of them.
        declared: String,
    },
    /// Text in a stream of batches, where later levels cannot be foreseen.
    #[error(
        "column `{column}`, {place}: `{level}` is text; declare the levels of the column, they are not known \
         before the last batch has been read",
        column = shown(column),
        level = shown(level)
    )]
    LevelsNeeded {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// The text found.
        level: String,
    },
    /// A function in a formula that has no value, or too few different ones.
    #[error("the term `{term}`, {problem}", term = shown_written(term))]
    Function {
        /// The term.
        term: String,
        /// What is wrong, with the row where there is one.
        problem: String,
    },
    /// A declaration of levels that cannot be used.
    #[error("the levels declared for column `{column}` {problem}", column = shown(column))]
    Levels {
        /// The column.
        column: String,
        /// What is wrong.
        problem: String,
    },
    /// A categorical column that is an identifier in truth.
    #[error(
        "column `{column}` has more than {most} different texts; is it an identifier? leave it out, or declare its levels",
        column = shown(column)
    )]
    TooManyLevels {
        /// The column.
        column: String,
        /// Largest number of levels.
        most: usize,
    },
    /// A categorical column that is the same everywhere.
    #[error(
        "column `{column}` has the single level `{level}` in all rows used; leave it out",
        column = shown(column),
        level = shown(level)
    )]
    OneLevel {
        /// The column.
        column: String,
        /// Its level.
        level: String,
    },
    /// Missing values where none are allowed.
    #[error(
        "column `{column}` has {} (the first at {place}); fill them in{}",
        counted(*rows, "missing value"),
        if *droppable { COMPLETE_CASES } else { "" },
        column = shown(column)
    )]
    Missing {
        /// The column.
        column: String,
        /// Number of rows without a value.
        rows: usize,
        /// Where the first stands.
        place: Place,
        /// Whether the study could leave such rows out.
        droppable: bool,
    },
    /// A row without an id.
    #[error("column `{column}`, {place}: the row has no id", column = shown(column))]
    MissingId {
        /// The id column.
        column: String,
        /// Where it stands.
        place: Place,
    },
    /// Nothing left to fit.
    #[error("none of the {rows} rows is complete")]
    NoCompleteRow {
        /// Rows before.
        rows: usize,
    },
    /// A mask for another number of rows; a fault of the caller.
    #[error("the rows to drop are given for {mask} rows, the data have {rows}")]
    MaskLength {
        /// Rows of the mask.
        mask: usize,
        /// Rows of the data.
        rows: usize,
    },
    /// A design matrix beyond memory.
    #[error("the design matrix would have {rows} rows and {columns} columns, which does not fit into memory")]
    TooBig {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// Text or truth values where numbers are needed.
    #[error("column `{column}` holds {found}; as {role} it must hold numbers", column = shown(column))]
    NotNumeric {
        /// The column.
        column: String,
        /// What it holds.
        found: &'static str,
        /// What it is used as.
        role: &'static str,
    },
    /// An outcome with other than two levels for binomial.
    #[error(
        "the outcome `{column}` has {}: {levels}; binomial needs two levels, or numbers from 0 to 1",
        counted(*count, "level"),
        column = shown(column)
    )]
    OutcomeLevels {
        /// The column.
        column: String,
        /// Number of levels.
        count: usize,
        /// The levels, at most five of them.
        levels: String,
    },
    /// An outcome outside the range of its family.
    #[error("the outcome `{column}`, {place}: {value} is outside the range of {family}", column = shown(column))]
    OutcomeRange {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// What stands there.
        value: f64,
        /// Family and range.
        family: &'static str,
    },
    /// A negative weight.
    #[error("the weights `{column}`, {place}: {value} is negative", column = shown(column))]
    NegativeWeight {
        /// The column.
        column: String,
        /// Where it stands.
        place: Place,
        /// What stands there.
        value: f64,
    },
    /// Weights that leave nothing.
    #[error("the weights `{column}` are all zero", column = shown(column))]
    AllWeightsZero {
        /// The column.
        column: String,
    },
}

/// The other remedy for missing values, where there is one.
const COMPLETE_CASES: &str = ", or leave such rows out with `missing = \"complete-cases\"` in [rows] of the study (`--missing complete-cases` of `demo vertical` and `demo robust`)";

impl DataError {
    /// The same in a study that could leave rows with missing values out: the sentence then says how.
    pub fn droppable(mut self) -> DataError {
        if let DataError::Missing { droppable, .. } = &mut self {
            *droppable = true;
        }
        self
    }
}

impl DataError {
    /// Whether the sentence may quote a cell. Names of columns and places of rows are no cells.
    pub fn quotes(&self) -> bool {
        !matches!(
            self,
            DataError::NoRows
                | DataError::TooManyRows { .. }
                | DataError::Unnamed { .. }
                | DataError::RepeatedName { .. }
                | DataError::UnknownColumn { .. }
                | DataError::RepeatedColumn { .. }
                | DataError::RoleAmongTerms { .. }
                | DataError::IdAmongColumns { .. }
                | DataError::NotUtf8 { .. }
                | DataError::Missing { .. }
                | DataError::MissingId { .. }
                | DataError::NoCompleteRow { .. }
                | DataError::TooManyLevels { .. }
        )
    }
}

fn suggestion(column: &str, nearest: Option<&str>) -> String {
    let nearest = nearest.map_or(String::new(), |nearest| format!("; the nearest name is `{}`", shown(nearest)));
    let remedy = syntax::remedy(column).map_or(String::new(), |remedy| format!("; {remedy}"));
    nearest + &remedy
}

/// What tables often write for a missing value.
const USUAL: [&str; 14] =
    [".", "-", "--", "?", "N/A", "n/a", "#N/A", "na", "NULL", "null", "None", "none", "nil", "missing"];

fn mixed_hint(text: &str) -> String {
    if cell::number_with_comma(text) {
        return "; a decimal comma must be declared, decimal = \",\" in the private file (--decimal as a flag), or be a point, and \
                thousands are written without a comma"
            .to_owned();
    }
    match USUAL.contains(&text.trim()) {
        true => format!(
            "; if `{0}` marks one, declare it: na_values = [\"{0}\"] in the private file, --na-values as a flag",
            text.trim()
        ),
        false => "; of a column of classes name them in the study file: `levels` under [columns.NAME]".to_owned(),
    }
}

pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// At most five levels, for a message.
pub(super) fn few(levels: &[String]) -> String {
    const MOST: usize = 5;
    let mut out: Vec<String> = levels.iter().take(MOST).map(|level| format!("`{}`", shown(level))).collect();
    if levels.len() > MOST {
        out.push(format!("and {} more", levels.len() - MOST));
    }
    out.join(", ")
}

/// A name or a term that somebody wrote, as it may be shown on a terminal: quotes and backslashes as they are, and without control characters.
pub(crate) fn shown_written(name: &str) -> String {
    let mut shown = String::new();
    for letter in name.chars() {
        match letter {
            // Accents that follow their letter are no marks of their own.
            '\\' | '"' | '\'' | '\u{300}'..='\u{36f}' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

/// Text from a file as it may be shown on a terminal: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let mut out = shown_written(&text.chars().take(MOST).collect::<String>());
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}
