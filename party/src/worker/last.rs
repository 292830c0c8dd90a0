//! A short last batch joins the one before it: one rule for everybody who cuts a table into batches.

use nalgebra::{DMatrix, DVector};

/// Whether a last batch of `rows` rows joins the one before it, where batches have `wanted` rows and a fit needs `least`:
/// when it has less than half the rows of a batch, or too few to be fitted.
pub fn joins(rows: usize, wanted: usize, least: usize) -> bool {
    rows < wanted && rows < least.max(wanted / 2)
}

/// A batch that has been read before it is known whether the next one joins it.
#[derive(Debug)]
pub(crate) struct Ahead<B>(Option<B>);

impl<B> Default for Ahead<B> {
    fn default() -> Self {
        Ahead(None)
    }
}

impl<B> Ahead<B> {
    /// The next batch, with the one after it where `short` says that that one is a short last one.
    pub(crate) fn next<E>(
        &mut self,
        mut read: impl FnMut() -> Result<Option<B>, E>,
        short: impl Fn(&B) -> bool,
        join: impl Fn(B, B) -> B,
    ) -> Result<Option<B>, E> {
        let first = match self.0.take() {
            Some(batch) => batch,
            None => match read()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        match read()? {
            Some(after) if short(&after) => Ok(Some(join(first, after))),
            after => {
                self.0 = after;
                Ok(Some(first))
            }
        }
    }
}

/// Features and outcome of two batches, one below the other.
pub(crate) fn stacked(
    above: (&DMatrix<f64>, &DVector<f64>),
    below: (&DMatrix<f64>, &DVector<f64>),
) -> (DMatrix<f64>, DVector<f64>) {
    let (n, m) = (above.1.len(), below.1.len());
    let mut x = DMatrix::zeros(n + m, above.0.ncols());
    x.rows_mut(0, n).copy_from(above.0);
    x.rows_mut(n, m).copy_from(below.0);
    let y = DVector::from_iterator(n + m, above.1.iter().chain(below.1.iter()).copied());
    (x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_batch_of_less_than_half_or_too_few_rows_joins_the_one_before() {
        for (rows, expected) in [(49, true), (50, false), (99, false), (100, false)] {
            assert_eq!(joins(rows, 100, 15), expected, "{rows}");
        }
        assert!(joins(19, 24, 20) && !joins(20, 24, 20));
        // Where no batch can be fitted, whole ones are still told from the last one.
        assert!(joins(9, 10, 15) && !joins(10, 10, 15));
    }

    #[test]
    fn every_row_comes_once_whatever_the_number_of_batches() {
        let wanted = 10;
        for rows in 0..60_usize {
            let mut left: Vec<usize> = (0..rows).collect();
            let mut ahead = Ahead::default();
            let mut sizes = Vec::new();
            let mut seen = Vec::new();
            loop {
                let read = || -> Result<Option<Vec<usize>>, ()> {
                    let rest = left.split_off(left.len().min(wanted));
                    let batch = std::mem::replace(&mut left, rest);
                    Ok((!batch.is_empty()).then_some(batch))
                };
                let Some(batch) = ahead.next(read, |b| joins(b.len(), wanted, 3), |a, b| [a, b].concat()).unwrap()
                else {
                    break;
                };
                sizes.push(batch.len());
                seen.extend(batch);
            }
            assert_eq!(seen, (0..rows).collect::<Vec<_>>());
            assert!(rows < 5 || sizes.iter().all(|size| (5..15).contains(size)), "{sizes:?}");
        }
    }
}
