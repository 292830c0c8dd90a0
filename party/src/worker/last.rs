//! A short last batch joins the one before it: one rule for everybody who cuts a table into batches.

/// Whether a last batch of `rows` rows joins the one before it, where batches have `wanted` rows and a fit needs `least`:
/// when it has less than half the rows of a batch, or too few to be fitted.
pub fn joins(rows: usize, wanted: usize, least: usize) -> bool {
    rows < wanted && rows < least.max(wanted / 2)
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
}
