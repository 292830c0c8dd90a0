//! Two groups of persons by income, as a mixture: ADULT, and census microdata such as those of IPUMS.

use std::path::Path;

use fedreg_common::bounded::SimulatedNoise;
use fedreg_common::methods::em::{Model, Records, Update, simulate};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::sweeps::{METHODS, bounds};
use super::{ROUNDS, Trial};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::files::{Cells, Unusable};
use crate::sweep::Sweep;
use crate::tables::{medians, number};

/// Columns of the ADULT data, which have no line of names.
const ADULT: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
];
/// Places of those that are used: all numbers but the sampling weight.
const ADULT_NUMBERS: [usize; 5] = [0, 4, 10, 11, 12];
/// Monthly income in dollars that divides the groups of IPUMS.
const DIVIDE: f64 = 300.0;

/// As many points of each of two groups, their middle at zero.
pub(super) struct Groups {
    name: String,
    points: DMatrix<f64>,
    /// The centre of the group above.
    beta: DVector<f64>,
    sigma: f64,
}

/// The tables that the user gave.
pub(super) fn given(run: &Run) -> anyhow::Result<Vec<Groups>> {
    let mut tables = Vec::new();
    if let Some(path) = &run.adult {
        tables.push(adult(path)?);
    }
    for (at, path) in run.ipums.iter().enumerate() {
        let name = if run.ipums.len() > 1 { format!("IPUMS {}", at + 1) } else { "IPUMS".to_owned() };
        tables.push(ipums(&name, path)?);
    }
    Ok(tables)
}

fn adult(path: &Path) -> Result<Groups, Unusable> {
    let cells = Cells::read_without_names(path, &ADULT)?;
    let (mut x, mut above) = (Vec::new(), Vec::new());
    for row in 0..cells.len() {
        for column in ADULT_NUMBERS {
            x.push(cells.number(row, column)?);
        }
        // The second file of the archive has a full stop behind.
        above.push(match cells.text(row, 14).trim_end_matches('.') {
            ">50K" => true,
            "<=50K" => false,
            _ => return Err(cells.cell(row, 14, "expected <=50K or >50K")),
        });
    }
    Groups::new("ADULT".to_owned(), &cells, &DMatrix::from_row_slice(above.len(), ADULT_NUMBERS.len(), &x), &above)
}

fn ipums(name: &str, path: &Path) -> Result<Groups, Unusable> {
    let cells = Cells::read(path)?;
    let Some(columns) = cells.width().checked_sub(1).filter(|columns| *columns > 0) else {
        return Err(cells.unusable("expected two columns or more, the last of them the income"));
    };
    let (mut x, mut income) = (Vec::new(), Vec::new());
    for row in 0..cells.len() {
        for column in 0..columns {
            x.push(cells.number(row, column)?);
        }
        income.push(cells.number(row, columns)?);
    }
    let divided = income.iter().all(|income| [0.0, 1.0].contains(income));
    let above: Vec<bool> =
        income.iter().map(|income| if divided { *income == 1.0 } else { *income > DIVIDE }).collect();
    Groups::new(name.to_owned(), &cells, &DMatrix::from_row_slice(above.len(), columns, &x), &above)
}

impl Groups {
    /// Of all rows and whether each is above: columns in units of their standard deviation, which the paper does not say, as many rows of one group
    /// as of the other.
    fn new(name: String, cells: &Cells, x: &DMatrix<f64>, above: &[bool]) -> Result<Groups, Unusable> {
        let mut groups =
            [false, true].map(|side| -> Vec<usize> { (0..above.len()).filter(|&row| above[row] == side).collect() });
        let size = groups[0].len().min(groups[1].len());
        if size < 2 {
            return Err(cells.unusable("expected at least two rows of either group"));
        }
        let mut generator = ChaCha8Rng::seed_from_u64(0);
        for group in &mut groups {
            group.shuffle(&mut generator);
            group.truncate(size);
        }
        let mut points = x.select_rows(&groups.concat());
        for (at, mut column) in points.column_iter_mut().enumerate() {
            let spread = column.variance().sqrt();
            if spread.is_nan() || spread <= 0.0 {
                return Err(cells.unusable(format!("expected columns that vary, the {}. used one does not", at + 1)));
            }
            column /= spread;
        }
        let centre = |first: usize| points.rows(first, size).row_mean().transpose();
        let (below, over) = (centre(0), centre(size));
        let largest = |first: usize, middle: &DVector<f64>| {
            let mut rows = points.rows(first, size).into_owned();
            rows.row_iter_mut().for_each(|mut row| row -= middle.transpose());
            SymmetricEigen::new(rows.tr_mul(&rows) / size as f64).eigenvalues.max()
        };
        // The paper takes the eigenvalue itself, a variance, for sigma.
        let sigma = largest(0, &below).max(largest(size, &over)).sqrt();
        let middle = (&below + &over) * 0.5;
        points.row_iter_mut().for_each(|mut row| row -= middle.transpose());
        Ok(Groups { name, points, beta: (over - below) * 0.5, sigma })
    }
}

/// Errors by epsilon.
pub(super) fn errors(run: &Run, document: &mut Document, groups: &Groups) -> anyhow::Result<()> {
    let Groups { name, points, beta, sigma } = groups;
    let (n, columns) = points.shape();
    let length = beta.norm();
    document.paragraph(format!(
        "{name}: {n} records, half of them above, {columns} columns in units of their standard deviation. beta is half the distance of the groups' centres, of length {}; sigma {} \
         is the root of the largest eigenvalue of a group's covariance. Both, and tau, are taken from the data without being paid for, as in the paper.",
        number(length),
        number(*sigma)
    ));
    let trial =
        Trial { model: Model::GaussianMixture, n, columns, rounds: ROUNDS, update: Update::Gradient { step: 1.0 } };
    let records = Records::mixture(points)?;
    let tau = sigma * sigma + beta.amax().powi(2);
    let epsilons = [0.2, 0.5, 1.0];
    let file: String = name.to_lowercase().replace(' ', "-");
    let sweep = Sweep {
        name: format!("census-{file}"),
        caption: format!("{name}: error over the length of beta"),
        over: Axis::logarithmic("epsilon"),
        values: &epsilons,
        measured: Axis::logarithmic("error over the length of beta"),
        methods: &METHODS,
    };
    let found = sweep.run(document, |epsilon| {
        medians(run.seeds(10), |seed| {
            let mut errors = Vec::new();
            for (bound, mu) in bounds(epsilon, n) {
                let settings = trial.settings((*sigma, tau), bound, mu, 1)?;
                let start = simulate::direction(columns, 0.5 * length, 500 + seed);
                let mut noise = SimulatedNoise::seeded(9000 + seed);
                let path = simulate::fit(&settings, std::slice::from_ref(&records), &start, mu, &mut noise)?;
                errors.push(Model::GaussianMixture.distance(&settings.estimate(&path), beta) / length);
            }
            Ok(errors)
        })
    })?;
    document.finding(
        found[0].iter().all(|error| *error < 0.5),
        format!("{name}: EM without privacy finds the centres of the two groups: its error is {} of their distance from the middle", number(found[0][0])),
    );
    document.finding(
        found[1].iter().zip(&found[2]).all(|(theirs, clipped)| theirs < clipped),
        format!(
            "{name}: Algorithm 2 outperforms clipping at C = 1 at every epsilon: at epsilon 1 {} against {}",
            number(found[1][2]),
            number(found[2][2])
        ),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_one_size_around_zero_and_beta_is_the_centre_of_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census.csv");
        let rows: Vec<String> = (0..90)
            .map(|row| {
                let above = row % 3 == 0;
                let noise = f64::from(row * 37 % 11) - 5.0;
                format!(
                    "{},{},{}",
                    if above { 20.0 } else { 10.0 } + noise,
                    noise * noise,
                    if above { 450 } else { 100 }
                )
            })
            .collect();
        std::fs::write(&path, format!("age,rooms,income\n{}\n", rows.join("\n"))).unwrap();
        let groups = ipums("IPUMS", &path).unwrap();
        assert_eq!(groups.points.shape(), (60, 2));
        let above = groups.points.rows(30, 30).row_mean().transpose();
        let below = groups.points.rows(0, 30).row_mean().transpose();
        assert!((&above - &groups.beta).norm() < 1e-12 && (above + below).norm() < 1e-12);
        assert!(groups.beta[0] > 0.5 && groups.sigma > 0.0);
        for (text, says) in [
            ("age,income\n1,100\n2,200\n", "expected at least two rows of either group"),
            ("age,income\n1,100\n1,400\n1,100\n1,400\n", "expected columns that vary, the 1. used one does not"),
            ("income\n100\n400\n", "expected two columns or more, the last of them the income"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = ipums("IPUMS", &path).err().unwrap().to_string();
            assert!(said.ends_with(says), "{said}");
        }
    }
}
