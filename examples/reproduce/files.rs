//! Tables that the user gives: CSV files, refused in one sentence that shows no value.

use std::path::Path;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub(crate) struct Unusable {
    file: String,
    problem: String,
}

/// The cells of a file.
#[derive(Debug)]
pub(crate) struct Cells {
    file: String,
    /// Names of the columns.
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Lines of the rows.
    lines: Vec<u64>,
}

impl Cells {
    /// Reads a file whose first line names its columns; commas or semicolons separate them.
    ///
    /// # Errors
    /// A file that cannot be read, has no row, or has a row with more or fewer cells than names.
    pub(crate) fn read(path: &Path) -> Result<Cells, Unusable> {
        Cells::parse(path, &text(path)?, None)
    }

    /// Reads a file without such a line.
    ///
    /// # Errors
    /// As [`Cells::read`].
    pub(crate) fn read_without_names(path: &Path, names: &[&str]) -> Result<Cells, Unusable> {
        Cells::parse(path, &text(path)?, Some(names))
    }

    fn parse(path: &Path, text: &str, names: Option<&[&str]>) -> Result<Cells, Unusable> {
        let file = path.display().to_string();
        let unusable = |problem: String| Unusable { file: file.clone(), problem };
        let separator = if text.lines().next().is_some_and(|line| line.contains(';')) { b';' } else { b',' };
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .delimiter(separator)
            .from_reader(text.as_bytes());
        let mut names: Vec<String> = names.unwrap_or_default().iter().map(|name| (*name).to_owned()).collect();
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for record in reader.records() {
            let record = record.map_err(|error| unusable(format!("not a CSV file: {error}")))?;
            let line = record.position().map_or(0, csv::Position::line);
            let cells: Vec<String> = record.iter().map(str::to_owned).collect();
            if names.is_empty() {
                names = cells;
                continue;
            }
            if cells.len() != names.len() {
                return Err(unusable(format!("line {line}: expected {} cells, got {}", names.len(), cells.len())));
            }
            rows.push(cells);
            lines.push(line);
        }
        if rows.is_empty() {
            return Err(unusable("expected rows, got none".to_owned()));
        }
        Ok(Cells { file, names, rows, lines })
    }

    /// Checks the names of the columns.
    ///
    /// # Errors
    /// Other names, or in another order.
    pub(crate) fn expect(&self, names: &[&str]) -> Result<(), Unusable> {
        if self.names == names {
            Ok(())
        } else {
            Err(self.unusable(format!("expected the columns {}", names.join(", "))))
        }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }

    /// The text of a cell.
    pub(crate) fn text(&self, row: usize, column: usize) -> &str {
        &self.rows[row][column]
    }

    /// The finite number of a cell.
    ///
    /// # Errors
    /// Anything else in it.
    pub(crate) fn number(&self, row: usize, column: usize) -> Result<f64, Unusable> {
        let number = self.text(row, column).parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.cell(row, column, "expected a number"))
    }

    /// What is wrong with a cell.
    pub(crate) fn cell(&self, row: usize, column: usize, problem: &str) -> Unusable {
        // By its place: where the line of names is missing, the first row would be shown as names.
        self.unusable(format!("line {}, column {}: {problem}", self.lines[row], column + 1))
    }

    /// What is wrong with the file.
    pub(crate) fn unusable(&self, problem: impl Into<String>) -> Unusable {
        Unusable { file: self.file.clone(), problem: problem.into() }
    }
}

fn text(path: &Path) -> Result<String, Unusable> {
    std::fs::read_to_string(path)
        .map_err(|error| Unusable { file: path.display().to_string(), problem: format!("cannot be read: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Cells, Unusable> {
        Cells::parse(Path::new("table.csv"), text, None)
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_in_one_sentence_without_its_values() {
        let cells = parsed("\"a\";\"b\"\n1;2\n3.5;secret\n").unwrap();
        assert_eq!((cells.len(), cells.width(), cells.number(1, 0).unwrap()), (2, 2, 3.5));
        let said = cells.number(1, 1).unwrap_err().to_string();
        assert_eq!(said, "table.csv: line 3, column 2: expected a number");
        assert!(cells.expect(&["a", "b"]).is_ok());
        assert_eq!(cells.expect(&["a", "c"]).unwrap_err().to_string(), "table.csv: expected the columns a, c");
        for (text, says) in [
            ("", "expected rows, got none"),
            ("a,b\n", "expected rows, got none"),
            ("a,b\n1,2\n1,2,3\n", "line 3: expected 2 cells, got 3"),
            ("a\nNaN\n", ""),
        ] {
            match parsed(text) {
                Ok(cells) => assert!(cells.number(0, 0).is_err()),
                Err(error) => assert_eq!(error.to_string(), format!("table.csv: {says}")),
            }
        }
        let said = Cells::read(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(said.starts_with("/nowhere/at/all: cannot be read: "), "{said}");
    }
}
