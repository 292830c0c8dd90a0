//! A table as numbered batches of numbers, in memory that does not grow with the table.

use fedreg_common::data::encode::{Design, encode};
use fedreg_common::data::formula::{self, Term};
use fedreg_common::data::outcome::numbers;
use fedreg_common::data::{DataError, Frame, Values};
use fedreg_common::methods::em::Model;
use fedreg_common::methods::robust::minimum_rows;
use fedreg_common::report::INTERCEPT;
use fedreg_common::star::site::local::Batch;
use fedreg_common::study::{Missing, SiteMethod, Sites, Study};
use nalgebra::{DMatrix, DVector};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
pub use crate::read::Arrival;
use crate::read::{Batches, ReadError, Request, Written};

use super::config::Config;
use super::last::joins;

/// Rows that are read at a time where they are only counted.
const COUNTED: usize = 10_000;

/// Rows that cannot be used whose places are named; more are counted.
const LOCATED: u64 = 20;

/// Rows that are read together for their identifiers.
const ROWS: usize = 10_000;

/// How the columns of a table become those of the study's model.
#[derive(Debug, Clone)]
pub struct Encoding {
    terms: Vec<Term>,
    outcome: String,
    intercept: bool,
    complete_cases: bool,
    /// A value may be missing in a feature, where the model has missing covariates.
    keeps_missing: bool,
    /// Private runs take every row: what cannot be used is not-a-number in it, as refusing the row would tell something about it.
    lenient: bool,
    /// Records must go on coming, whatever one of them is.
    streams: bool,
    /// Columns of the model with the levels that the study declares for them.
    columns: Vec<(String, Vec<String>)>,
    /// Whether batches are fitted, for which they need some rows.
    fits: bool,
    /// Names of the coefficients, without the intercept; once a batch is there, where no study says them.
    names: Option<Vec<String>>,
    /// Whether there is a study that could leave out rows with missing values.
    may_drop: bool,
    pub(super) request: Request,
}

impl Encoding {
    /// As the study has it.
    pub fn new(study: &Study<Sites>, written: Written) -> Encoding {
        let method = &study.method;
        let (terms, names) = (method.model.clone(), method.inputs());
        let (fits, keeps_missing, streams) = match &method.method {
            SiteMethod::Robust(_) => (true, false, false),
            SiteMethod::Em(em) => (false, em.settings.stated().model == Model::MissingCovariates, false),
            SiteMethod::Features(_) => (false, false, false),
            SiteMethod::Stream(_) => (false, false, true),
        };
        let mut columns: Vec<String> = Vec::new();
        let outcome = Some(&method.outcome).filter(|name| !name.is_empty());
        for name in formula::columns(&terms).into_iter().chain(outcome.map(String::as_str)) {
            if !columns.iter().any(|known| known == name) {
                columns.push(name.to_owned());
            }
        }
        let levels = study
            .head
            .columns
            .iter()
            .filter(|(_, terms)| !terms.levels.is_empty() && !terms.is_boolean())
            .map(|(name, terms)| (name.clone(), terms.levels.clone()))
            .collect();
        let id = study.head.rows.id.clone();
        let request = Request { columns: Some(columns), id, levels, written, ..Request::default() };
        let columns = method.features.iter().map(|name| {
            let levels = study.head.columns.get(name).map(|terms| terms.levels.clone());
            (name.clone(), levels.unwrap_or_default())
        });
        Encoding {
            complete_cases: study.head.rows.missing == Missing::CompleteCases,
            keeps_missing,
            streams,
            columns: columns.collect(),
            fits,
            names: Some(names),
            may_drop: true,
            ..Encoding::of_columns(terms, method.outcome.clone(), method.intercept, request)
        }
    }

    /// Of these columns of a table without a study.
    pub(super) fn of_columns(terms: Vec<Term>, outcome: String, intercept: bool, request: Request) -> Encoding {
        Encoding {
            terms,
            outcome,
            intercept,
            complete_cases: false,
            keeps_missing: false,
            lenient: false,
            streams: false,
            columns: Vec::new(),
            fits: true,
            names: None,
            may_drop: false,
            request,
        }
    }

    /// For a private run, which refuses no row: one that cannot be used counts as zero.
    #[must_use]
    pub fn lenient(mut self) -> Encoding {
        self.lenient = true;
        self.request.lenient = true;
        self.request.torn = self.streams;
        let declared = self.columns.iter().filter(|(_, levels)| !levels.is_empty()).cloned();
        self.request.levels.extend(declared);
        self
    }

    /// Names of the coefficients, as far as they are known.
    pub(super) fn coefficients(&self) -> Vec<String> {
        let intercept = self.intercept.then(|| INTERCEPT.to_string());
        intercept.into_iter().chain(self.names.iter().flatten().cloned()).collect()
    }

    /// Rows that a batch needs.
    pub(super) fn least(&self) -> usize {
        if self.fits { minimum_rows(self.coefficients().len()) } else { 1 }
    }

    /// Features, outcome, and how many rows were left out because a value was missing in them.
    fn encode(&mut self, frame: &mut Frame) -> Result<(DMatrix<f64>, Vec<f64>, u64), DataError> {
        let none = self.outcome.is_empty();
        if self.lenient {
            let y = if none { vec![0.0; frame.rows()] } else { features(frame, &self.outcome)?.to_vec() };
            return Ok((self.all_rows(frame)?, y, 0));
        }
        if self.keeps_missing {
            let y = numbers(frame, &self.outcome, "the outcome", None)?;
            return Ok((self.all_rows(frame)?, y, 0));
        }
        let names: Vec<String> = frame.names().map(str::to_string).collect();
        let mask = match self.complete_cases {
            true => Some(frame.missing(names.iter().map(String::as_str))?),
            false => None,
        };
        let missing = mask.as_ref().map_or(0, |mask| mask.count());
        if missing == frame.rows() {
            let x = DMatrix::zeros(0, self.names.as_ref().map_or(0, Vec::len));
            return Ok((x, Vec::new(), missing as u64));
        }
        let droppable = mask.is_none() && self.may_drop;
        let refused = |error: DataError| if droppable { error.droppable() } else { error };
        let y = match none {
            true => vec![0.0; frame.rows() - missing],
            false => numbers(frame, &self.outcome, "the outcome", mask.as_ref()).map_err(refused)?,
        };
        let Design { terms, matrix, .. } =
            encode(frame, &self.terms, self.intercept, mask.as_ref()).map_err(refused)?;
        let expected = self.names.get_or_insert_with(|| terms.clone());
        if terms != *expected {
            return Err(DataError::OtherTerms { expected: expected.join(", "), found: terms.join(", ") });
        }
        Ok((matrix, y, missing as u64))
    }

    /// Every row's features, not-a-number where a value cannot be used.
    fn all_rows(&self, frame: &Frame) -> Result<DMatrix<f64>, DataError> {
        let mut x = DMatrix::zeros(frame.rows(), self.names.as_ref().map_or(0, Vec::len));
        let mut at = 0;
        for (name, levels) in &self.columns {
            if levels.is_empty() {
                x.column_mut(at).copy_from_slice(features(frame, name)?);
                at += 1;
                continue;
            }
            let Values::Categorical { codes, .. } = &frame.column(name)?.values else {
                return Err(DataError::OtherTerms {
                    expected: name.clone(),
                    found: "a column without levels".to_string(),
                });
            };
            for level in 1..levels.len() {
                for (row, code) in codes.iter().enumerate() {
                    let known = (*code as usize) < levels.len();
                    x[(row, at)] = if known { f64::from(u8::from(*code as usize == level)) } else { f64::NAN };
                }
                at += 1;
            }
        }
        Ok(x)
    }

    /// Rows of a batch that count as zero.
    fn unusable(&self, batch: &Batch) -> impl Iterator<Item = usize> {
        let wrong = |row: usize| {
            let features = !self.keeps_missing && batch.x.row(row).iter().any(|value| !value.is_finite());
            features || !batch.y[row].is_finite()
        };
        (0..batch.y.len()).filter(move |row| self.lenient && wrong(*row))
    }
}

/// Numbers of a column, not-a-number where missing.
fn features<'a>(frame: &'a Frame, name: &str) -> Result<&'a [f64], DataError> {
    let column = frame.column(name)?;
    match &column.values {
        Values::Numeric(values) => Ok(values),
        other @ (Values::Boolean(_) | Values::Categorical { .. }) => Err(DataError::OtherTerms {
            expected: name.to_string(),
            found: format!("those of a column of {}", other.kind()),
        }),
    }
}

/// Batches of a table, one after the other.
#[derive(Debug)]
pub struct Source {
    batches: Batches,
    encoding: Encoding,
    rows: usize,
    /// Whether a batch goes out as soon as it is there; then the last one cannot join the one before it.
    at_once: bool,
    /// A batch that has been read before it is known whether the next one joins it.
    ahead: Option<Batch>,
    next: u64,
    /// Rows that were read.
    read: u64,
    /// Rows among them that count as zero in a private run.
    unusable: u64,
    /// Of everything that was read in a private run, in its order.
    content: Sha256,
    /// Whether a private stream could not be read on.
    broken: bool,
}

impl Source {
    /// Opens a worker's table.
    ///
    /// # Errors
    /// A file that cannot be read or is no table, a column that is not there.
    pub fn open(config: &Config, encoding: Encoding, rows: u64, how: &Arrival) -> Result<Source, ReadError> {
        let batches = Batches::open(config.source(), &encoding.request, how)?;
        let at_once = how.follow || config.reads_stdin();
        Ok(Source::new(batches, encoding, rows, at_once))
    }

    /// Batches of `rows` rows of something that is being read.
    pub fn new(batches: Batches, encoding: Encoding, rows: u64, at_once: bool) -> Source {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
        let (next, read, unusable) = (0, 0, 0);
        let content = Sha256::new();
        Source { batches, encoding, rows, at_once, ahead: None, next, read, unusable, content, broken: false }
    }

    /// Stands for the source in messages.
    pub(super) fn name(&self) -> &str {
        self.batches.name()
    }

    /// How its columns become features.
    pub(super) fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Numbers batches from here on: where the rows before are gone, as on standard input.
    pub fn number_from(&mut self, next: u64) {
        self.next = next;
    }

    /// Counts rows from here on: where a number of rows before are gone.
    pub fn rows_from(&mut self, rows: u64) {
        self.read = rows;
    }

    /// The next batch; `None` after the last. A last one of less than half the rows, or of too few to be fitted, joins the one
    /// before it, unless batches go out at once: then it is given as it is.
    ///
    /// # Errors
    /// Everything that makes data unusable, with its place.
    pub fn batch(&mut self) -> Result<Option<Batch>, ReadError> {
        if self.at_once {
            return self.read();
        }
        let Some(first) = self.ahead.take().map_or_else(|| self.read(), |batch| Ok(Some(batch)))? else {
            return Ok(None);
        };
        match self.read()? {
            Some(after) if is_last(&after, self.rows) && joins(after.y.len(), self.rows, self.encoding.least()) => {
                Ok(Some(joined(first, after)))
            }
            after => {
                self.ahead = after;
                Ok(Some(first))
            }
        }
    }

    /// The next rows, at most this number, as soon as they are there.
    ///
    /// # Errors
    /// As [`Source::batch`].
    pub fn take(&mut self, rows: u64) -> Result<Option<Batch>, ReadError> {
        self.rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
        self.read()
    }

    /// Passes over a given number of rows.
    ///
    /// # Errors
    /// As [`Source::batch`].
    pub(crate) fn skip(&mut self, mut rows: u64) -> Result<(), ReadError> {
        let most = self.rows as u64;
        while rows > 0 {
            let Some(batch) = self.take(rows.min(most))? else { break };
            rows = rows.saturating_sub(batch.y.len() as u64 + batch.missing);
        }
        Ok(())
    }

    /// Counts the rows that are left without looking at them.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn count(mut self) -> Result<u64, ReadError> {
        let mut rows = 0;
        while let Some(frame) = self.batches.next(COUNTED)? {
            rows += frame.rows() as u64;
        }
        Ok(rows)
    }

    /// A digest of everything that was read in a private run, in its order: anyone who goes on with a run must hold the same rows in
    /// the same places.
    pub(crate) fn content(&self) -> [u8; 32] {
        self.content.clone().finalize().into()
    }

    /// The next rows. A private stream that cannot be read on ends, as for the others it may not depend on what was read how the run
    /// ends; why stands in the log of this worker, and nowhere else.
    fn read(&mut self) -> Result<Option<Batch>, ReadError> {
        if self.broken {
            return Ok(None);
        }
        match self.rows_of_a_batch() {
            Err(error) if self.encoding.request.torn => {
                self.broken = true;
                tracing::warn!("the stream ends here, as it cannot be read on: {}", crate::output::chain(&error));
                Ok(None)
            }
            read => read,
        }
    }

    fn rows_of_a_batch(&mut self) -> Result<Option<Batch>, ReadError> {
        let Some(mut frame) = self.batches.next(self.rows)? else {
            if self.unusable > 0 {
                tracing::warn!("{} rows of {} could not be used and count as zeros", self.unusable, self.name());
                self.unusable = 0;
            }
            return Ok(None);
        };
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let rows = frame.rows();
        let place = (frame.place(0), frame.place(rows.saturating_sub(1)));
        let ids = frame.ids().map(|ids| ids.iter().map(<[u8]>::to_vec).collect()).unwrap_or_default();
        let encoded = self.encoding.encode(&mut frame);
        let (x, y, missing) = encoded.map_err(|source| ReadError::Data { file: self.name().to_owned(), source })?;
        let mut batch = Batch { number, x, y: DVector::from_vec(y), place, missing, ids };
        if self.encoding.lenient {
            if batch.ids.is_empty() {
                batch.ids =
                    (1..=rows as u64).map(|row| self.read.saturating_add(row).to_string().into_bytes()).collect();
            }
            for id in &batch.ids {
                self.content.update((id.len() as u64).to_le_bytes());
                self.content.update(id);
            }
            batch.x.iter().chain(batch.y.iter()).for_each(|value| self.content.update(value.to_bits().to_le_bytes()));
            for row in self.encoding.unusable(&batch) {
                self.unusable += 1;
                if self.unusable <= LOCATED {
                    let place = frame.place(row);
                    tracing::warn!("{}, {place}: the row cannot be used and counts as zero", self.batches.name());
                }
            }
        }
        self.read = self.read.saturating_add(rows as u64);
        Ok(Some(batch))
    }
}

/// Gives the identifiers of a table's rows in their order; row numbers where the study names no column of them. The whole table is read
/// as a private run reads it, so that what would end one for its form is found.
///
/// # Errors
/// A table that cannot be read, or that comes from standard input.
pub(crate) fn each_id(config: &Config, study: &Study<Sites>, mut give: impl FnMut(&[u8])) -> Result<(), Failure> {
    if config.reads_stdin() {
        return Err(needs_a_file(study));
    }
    let encoding = Encoding::new(study, config.written());
    let mut batches = Batches::open(config.source(), &encoding.lenient().request, &Arrival::default())?;
    let mut row = 0u64;
    while let Some(frame) = batches.next(ROWS)? {
        match frame.ids() {
            Some(ids) => ids.iter().for_each(&mut give),
            None => (0..frame.rows()).for_each(|_| {
                row += 1;
                give(row.to_string().as_bytes());
            }),
        }
    }
    Ok(())
}

/// Standard input where rows are read beforehand.
pub(crate) fn needs_a_file(study: &Study<Sites>) -> Failure {
    let name = study.protocol().name();
    Failure::Usage(format!("a private study of protocol `{name}` needs a file: its persons are registered beforehand"))
}

/// Only the last can have fewer rows than were asked for.
fn is_last(batch: &Batch, rows: usize) -> bool {
    (batch.y.len() as u64 + batch.missing) < rows as u64
}

fn joined(first: Batch, second: Batch) -> Batch {
    let (n, m) = (first.y.len(), second.y.len());
    let mut x = DMatrix::zeros(n + m, first.x.ncols());
    x.rows_mut(0, n).copy_from(&first.x);
    x.rows_mut(n, m).copy_from(&second.x);
    let y = DVector::from_iterator(n + m, first.y.iter().chain(second.y.iter()).copied());
    Batch {
        number: first.number,
        x,
        y,
        place: (first.place.0, second.place.1),
        missing: first.missing + second.missing,
        ids: [first.ids, second.ids].concat(),
    }
}

#[cfg(test)]
mod tests {
    use fedreg_common::data::Place;

    use super::*;
    use crate::read::Opened;

    const STUDY: &str = r#"
        id = "s"
        protocol = "robust"
        [workers.north]
        certificate = "north"
        [model]
        features = ["a", "region", "smoker"]
        [outcome]
        column = "y"
        [columns.region]
        levels = ["x", "y"]
        [columns.smoker]
        levels = ["false", "true"]
    "#;

    fn source(study: &str, rows: usize, text: &str, at_once: bool) -> Source {
        let encoding = Encoding::new(&Study::parse(study).unwrap().sites().unwrap(), Written::default());
        let text = std::io::Cursor::new(text.as_bytes().to_vec());
        let batches = Opened::from_reader(text, "rows.csv", None).unwrap().batches(&encoding.request).unwrap();
        Source::new(batches, encoding, rows as u64, at_once)
    }

    fn table(rows: usize) -> String {
        let row = |at: usize| format!("{at},{},{},{}\n", ["x", "y"][at % 2], at.is_multiple_of(3), 2 * at);
        format!("a,region,smoker,y\n{}", (0..rows).map(row).collect::<String>())
    }

    fn sizes(mut source: Source) -> Vec<(u64, usize)> {
        let mut all = Vec::new();
        while let Some(batch) = source.batch().unwrap() {
            all.push((batch.number, batch.y.len()));
        }
        all
    }

    #[test]
    fn a_short_last_batch_joins_the_one_before_it_unless_batches_go_out_at_once() {
        assert_eq!(sizes(source(STUDY, 20, &table(60), false)), [(0, 20), (1, 20), (2, 20)]);
        assert_eq!(sizes(source(STUDY, 20, &table(51), false)), [(0, 20), (1, 31)]);
        assert_eq!(sizes(source(STUDY, 20, &table(53), false)), [(0, 20), (1, 20), (2, 13)]);
        assert_eq!(sizes(source(STUDY, 20, &table(51), true)), [(0, 20), (1, 20), (2, 11)]);
        assert_eq!(sizes(source(STUDY, 20, &table(7), false)), [(0, 7)]);
    }

    #[test]
    fn every_row_comes_once_whatever_the_number_of_batches() {
        for rows in 1..60 {
            let mut source = source(STUDY, 20, &table(rows), false);
            let (mut sizes, mut seen) = (Vec::new(), Vec::new());
            while let Some(batch) = source.batch().unwrap() {
                sizes.push(batch.y.len());
                seen.extend(batch.y.iter().map(|y| *y as usize / 2));
            }
            assert_eq!(seen, (0..rows).collect::<Vec<_>>());
            assert!(rows < 20 || sizes.iter().all(|size| (10..40).contains(size)), "{sizes:?}");
        }
    }

    #[test]
    fn every_batch_has_the_columns_of_the_study_whatever_levels_occur_in_it() {
        let text = "a,region,smoker,y\n1,x,true,5\n2,x,FALSE,6\n3,y,true,7\n4,y,false,8\n";
        let mut source = source(STUDY, 2, text, true);
        let first = source.batch().unwrap().unwrap();
        assert_eq!(first.x, DMatrix::from_row_slice(2, 3, &[1.0, 0.0, 1.0, 2.0, 0.0, 0.0]));
        assert_eq!(first.place, (Place::Line(2), Place::Line(3)));
        assert_eq!(source.batch().unwrap().unwrap().x.row(0).iter().copied().collect::<Vec<_>>(), [3.0, 1.0, 1.0]);
    }

    #[test]
    fn columns_that_are_no_numbers_and_were_not_declared_are_refused() {
        let study = STUDY.replace("[columns.smoker]\n        levels = [\"false\", \"true\"]", "");
        let error = source(&study, 20, &table(20), true).batch().unwrap_err();
        let text = crate::output::chain(&error);
        assert!(text.contains("smokerTRUE") && text.contains("must say which columns are categorical"), "{text}");
    }

    #[test]
    fn incomplete_rows_are_left_out_and_counted_where_the_study_says_so() {
        let study = STUDY.replace("[outcome]", "[rows]\nmissing = \"complete-cases\"\n[outcome]");
        let text = "a,region,smoker,y\n1,x,true,5\n,x,FALSE,6\n3,y,NA,7\n4,y,false,8\n";
        let batch = source(&study, 20, text, true).batch().unwrap().unwrap();
        assert_eq!((batch.y.as_slice(), batch.missing), (&[5.0, 8.0][..], 2));
        assert!(source(STUDY, 20, text, true).batch().is_err());
        let none = "a,region,smoker,y\n,x,true,5\n";
        assert_eq!(source(&study, 20, none, true).batch().unwrap().unwrap().y.len(), 0);
    }
}
