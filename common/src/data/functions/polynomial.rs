//! Orthogonal polynomials of a column, as `poly` of R has them.
//!
//! # Reference
//!
//! Kennedy and Gentle, Statistical Computing (1980), pages 342 to 348: the three-term recurrence, with coefficients from the data.

/// What the basis takes from the values of the fit: the `degree` centres of the recurrence, then `degree + 1` squared norms, that of the
/// constant first.
pub(super) fn learn(values: &[f64], degree: usize) -> Result<Vec<f64>, String> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    // About the mean, for the digits.
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let mut distinct = centred.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() <= degree {
        return Err(format!(
            "degree {degree} needs more than {degree} different values, and there are {}",
            distinct.len()
        ));
    }
    let (mut before, mut now) = (vec![0.0; values.len()], vec![1.0; values.len()]);
    let (mut centres, mut norms) = (Vec::new(), vec![n]);
    for step in 0..degree {
        let norm = norms[step];
        let centre = now.iter().zip(&centred).map(|(p, x)| x * p * p).sum::<f64>() / norm;
        let ratio = if step == 0 { 0.0 } else { norm / norms[step - 1] };
        let next: Vec<f64> =
            (0..values.len()).map(|row| (centred[row] - centre) * now[row] - ratio * before[row]).collect();
        centres.push(centre + mean);
        norms.push(next.iter().map(|value| value * value).sum());
        (before, now) = (now, next);
    }
    centres.extend(norms);
    Ok(centres)
}

/// The polynomials of degree 1 to `degree` at these values.
pub(super) fn columns(values: &[f64], degree: usize, learnt: &[f64]) -> Result<Vec<Vec<f64>>, String> {
    if learnt.len() != 2 * degree + 1 || !learnt[degree..].iter().all(|norm| *norm > 0.0) {
        return Err("the model file lacks its coefficients".to_owned());
    }
    let (centres, norms) = learnt.split_at(degree);
    let mut columns: Vec<Vec<f64>> = Vec::with_capacity(degree);
    let ones = vec![1.0; values.len()];
    for step in 0..degree {
        let now = if step == 0 { &ones } else { &columns[step - 1] };
        let before = step.checked_sub(2).map(|at| &columns[at]).or((step == 1).then_some(&ones));
        let ratio = if step == 0 { 0.0 } else { norms[step] / norms[step - 1] };
        let next = (0..values.len())
            .map(|row| (values[row] - centres[step]) * now[row] - before.map_or(0.0, |before| ratio * before[row]))
            .collect();
        columns.push(next);
    }
    for (column, norm) in columns.iter_mut().zip(&norms[1..]) {
        column.iter_mut().for_each(|value| *value /= norm.sqrt());
    }
    Ok(columns)
}
