//! Which of Bob's columns stay, as the numbers of a message.

use nalgebra::DMatrix;

use crate::secure::gaussian::Reduction;

/// How many columns are set aside, their positions, and the map.
pub(in super::super) fn reduction_values(reduction: &Reduction) -> Vec<f64> {
    let dropped = reduction.dropped.iter().map(|at| *at as f64);
    std::iter::once(reduction.dropped.len() as f64).chain(dropped).chain(reduction.map.iter().copied()).collect()
}

/// The same read back; none where the numbers do not fit together.
pub(in super::super) fn read_reduction(values: &[f64], size: usize) -> Option<Reduction> {
    let whole = |value: f64| (value >= 0.0 && value <= size as f64 && value.fract() == 0.0).then_some(value as usize);
    let (count, rest) = values.split_first()?;
    let count = whole(*count)?;
    let (dropped, map) = rest.split_at_checked(count)?;
    let dropped = dropped.iter().map(|value| whole(*value)).collect::<Option<Vec<usize>>>()?;
    let kept = size - count;
    (map.len() == size * kept).then(|| Reduction { dropped, map: DMatrix::from_column_slice(size, kept, map) })
}
