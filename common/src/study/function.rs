//! A fitted function of a study's columns: what anyone needs to predict with it, and how it runs along each column.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::{Sites, Study};
use crate::methods::features::FeatureModel;
use crate::methods::stream::{StreamError, StreamModel};

/// Points of a curve.
const POINTS: usize = 61;
/// Columns along which a function is shown.
const SHOWN: usize = 20;

/// A function that anyone can predict with who has the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// What it is made of.
    pub fitted: Fitted,
    /// The columns that it takes, as they stand in a table.
    pub inputs: Vec<Input>,
    /// How it runs along its numeric columns.
    pub slices: Vec<Slice>,
    /// How it formed along the first of them, of a stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forming: Vec<Forming>,
}

/// What a function is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fitted {
    /// Random features.
    Features(FeatureModel),
    /// What a stream has left.
    Stream(StreamModel),
}

/// A column that a function takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Its header.
    pub column: String,
    /// Its levels, the reference first; none of a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

/// The function along one column, at evenly spread points of its public range, every other column at the middle of its range or at its
/// reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The column.
    pub column: String,
    /// Lower end of its range.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Values of the function, in units of the outcome.
    pub values: Vec<f64>,
}

/// The function after some records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forming {
    /// How many.
    pub records: u64,
    /// Values along the first slice.
    pub values: Vec<f64>,
}

impl Fitted {
    /// Whether its parts fit each other, and the study.
    ///
    /// # Errors
    /// Another study's digest, numbers of columns, ranges or weights that differ.
    pub fn check(&self, study: Option<&str>) -> Result<(), StreamError> {
        match self {
            Fitted::Features(model) => Ok(model.check(study)?),
            Fitted::Stream(model) => model.check(study),
        }
    }

    /// Names of the inputs.
    pub fn columns(&self) -> &[String] {
        match self {
            Fitted::Features(model) => &model.columns,
            Fitted::Stream(model) => &model.columns,
        }
    }

    /// Predictions for `x`, `n x inputs` in the columns' own units; values outside a range are cut to it.
    ///
    /// # Errors
    /// As [`Fitted::check`]; another number of columns, a value that is not finite.
    pub fn predict(&self, x: &DMatrix<f64>) -> Result<Vec<f64>, StreamError> {
        match self {
            Fitted::Features(model) => Ok(model.predict(x)?.iter().copied().collect()),
            Fitted::Stream(model) => model.predict(x),
        }
    }
}

impl Function {
    /// The function of a study.
    pub fn of(study: &Study<Sites>, fitted: Fitted) -> Function {
        let inputs = study.method.features.iter().map(|column| Input {
            column: column.clone(),
            levels: study.head.columns.get(column).map(|terms| terms.levels.clone()).unwrap_or_default(),
        });
        let bare =
            Function { inputs: inputs.collect(), slices: Vec::new(), forming: Vec::new(), fitted: fitted.clone() };
        bare.with(fitted)
    }

    /// Another function of the same columns, with its curves.
    pub fn with(&self, fitted: Fitted) -> Function {
        let slices = slices(&self.inputs, &fitted);
        Function { fitted, inputs: self.inputs.clone(), slices, forming: Vec::new() }
    }

    /// The levels of its inputs, by column.
    pub fn levels(&self) -> BTreeMap<String, Vec<String>> {
        let with_levels = self.inputs.iter().filter(|input| !input.levels.is_empty());
        with_levels.map(|input| (input.column.clone(), input.levels.clone())).collect()
    }
}

fn slices(inputs: &[Input], fitted: &Fitted) -> Vec<Slice> {
    let ranges = match fitted {
        Fitted::Features(model) => &model.ranges,
        Fitted::Stream(model) => &model.ranges,
    };
    let mut middle = Vec::new();
    let mut places = Vec::new();
    for input in inputs {
        match input.levels.len() {
            0 => {
                places.push((middle.len(), &input.column));
                middle.extend(ranges.get(middle.len()).map(|range| 0.5 * (range.low + range.high)));
            }
            levels => middle.extend(std::iter::repeat_n(0.0, levels - 1)),
        }
    }
    let curve = |(at, column): (usize, &String)| {
        let range = ranges.get(at)?;
        let place = |point: usize| range.low + (range.high - range.low) * point as f64 / (POINTS - 1) as f64;
        let x = DMatrix::from_fn(POINTS, middle.len(), |i, j| if j == at { place(i) } else { middle[j] });
        let values = fitted.predict(&x).ok()?;
        Some(Slice { column: column.clone(), low: range.low, high: range.high, values })
    };
    places.into_iter().take(SHOWN).filter_map(curve).collect()
}
