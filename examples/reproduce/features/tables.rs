//! The data sets of the source, scaled by public ranges.

use std::path::Path;

use fedreg_common::methods::features::Range;
use nalgebra::DMatrix;

use crate::files::{Cells, Unusable};

/// Covariates in `[0, 1]`, outcomes in `[0, 1]`, and groups of the records.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) x: DMatrix<f64>,
    pub(crate) y: Vec<f64>,
    /// By what, and the group of each record.
    pub(crate) groups: Vec<(&'static str, Vec<&'static str>)>,
    pub(crate) own: Own,
}

/// Covariates as the source has them where it compares groups.
pub(crate) struct Own {
    /// Numbers in their own units, then a column for each level of each category.
    pub(crate) x: DMatrix<f64>,
    /// How many of them are numbers.
    pub(crate) numbers: usize,
    /// Standard deviation of the source's frequencies.
    pub(crate) sd: f64,
}

/// Age, sex, body-mass index, children, smoker, four regions; the charges.
pub(crate) fn insurance(path: &Path) -> anyhow::Result<Table> {
    let cells = Cells::read(path)?;
    cells.expect(&["age", "sex", "bmi", "children", "smoker", "region", "charges"])?;
    let one_of = |row: usize, column: usize, levels: &[&str]| -> Result<usize, Unusable> {
        let found = levels.iter().position(|level| *level == cells.text(row, column));
        found.ok_or_else(|| cells.cell(row, column, &format!("expected one of {}", levels.join(", "))))
    };
    let number = |row: usize, column: usize, low: f64, high: f64| -> anyhow::Result<f64> {
        Ok(Range::new(low, high)?.scale(cells.number(row, column)?))
    };
    let (mut x, mut y, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sexes, mut smokers) = (Vec::new(), Vec::new());
    for row in 0..cells.len() {
        let sex = one_of(row, 1, &["female", "male"])?;
        let smoker = one_of(row, 4, &["no", "yes"])?;
        let region = one_of(row, 5, &["northeast", "northwest", "southeast", "southwest"])?;
        x.extend([number(row, 0, 18.0, 64.0)?, sex as f64, number(row, 2, 15.96, 53.13)?]);
        x.extend([number(row, 3, 0.0, 5.0)?, smoker as f64]);
        x.extend((0..4).map(|at| f64::from(u8::from(at == region))));
        y.push(number(row, 6, 1121.8739, 63770.42801)?);
        own.extend([cells.number(row, 0)?, cells.number(row, 2)?, cells.number(row, 3)?]);
        own.extend([sex, 2 + smoker, 4 + region].iter().fold([0.0; 8], |mut levels, at| {
            levels[*at] = 1.0;
            levels
        }));
        sexes.push(["women", "men"][sex]);
        smokers.push(["others", "smokers"][smoker]);
    }
    let groups = vec![("smoking", smokers), ("sex", sexes)];
    let own = Own { x: DMatrix::from_row_slice(y.len(), 11, &own), numbers: 3, sd: 2e-5_f64.sqrt() };
    Ok(Table { name: "insurance charges", x: DMatrix::from_row_slice(y.len(), 9, &x), y, groups, own })
}

/// Columns of the wine data with public ranges.
const WINE: [(&str, f64, f64); 12] = [
    ("fixed acidity", 3.0, 16.0),
    ("volatile acidity", 0.0, 1.6),
    ("citric acid", 0.0, 1.7),
    ("residual sugar", 0.0, 66.0),
    ("chlorides", 0.0, 0.65),
    ("free sulfur dioxide", 0.0, 290.0),
    ("total sulfur dioxide", 0.0, 440.0),
    ("density", 0.98, 1.04),
    ("pH", 2.7, 4.1),
    ("sulphates", 0.2, 2.0),
    ("alcohol", 8.0, 15.0),
    ("quality", 3.0, 9.0),
];

/// Eleven measurements of wines and their quality; of two files the first is of red wine and the second of white.
pub(crate) fn wine(paths: &[impl AsRef<Path>]) -> anyhow::Result<Table> {
    let (mut x, mut y, mut own, mut colours) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (path, colour) in paths.iter().zip(["red", "white"]) {
        let cells = Cells::read(path.as_ref())?;
        cells.expect(&WINE.map(|(name, ..)| name))?;
        for row in 0..cells.len() {
            for (column, (_, low, high)) in WINE.iter().enumerate() {
                let value = cells.number(row, column)?;
                let scaled = Range::new(*low, *high)?.scale(value);
                if column + 1 < WINE.len() {
                    x.push(scaled);
                    own.push(value);
                } else {
                    y.push(scaled);
                }
            }
            colours.push(colour);
        }
    }
    // With one file there is nothing to compare.
    let groups = if paths.len() > 1 { vec![("colour", colours)] } else { Vec::new() };
    let columns = WINE.len() - 1;
    let own = Own { x: DMatrix::from_row_slice(y.len(), columns, &own), numbers: columns, sd: 20_f64.sqrt() };
    Ok(Table { name: "wine quality", x: DMatrix::from_row_slice(y.len(), columns, &x), y, groups, own })
}
