//! Oracle vectors: what R, statsmodels and glmnet say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedreg_common::fit::{Measures, Test};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What all vectors share: the data and the model.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    pub name: String,
    pub tags: Vec<String>,
    pub data: PathBuf,
    pub outcome: String,
    pub family: String,
    pub alice: Vec<String>,
    pub bob: Vec<String>,
    pub offset: Option<String>,
    pub weights: Option<String>,
    pub intercept: bool,
}

impl Case {
    pub fn is(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }

    pub fn file(&self) -> PathBuf {
        folder().join(&self.data)
    }
}

/// A reference row of a coefficient table.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    pub term: String,
    pub party: String,
    pub estimate: Option<f64>,
    pub std_error: Option<f64>,
    pub statistic: Option<f64>,
    pub p_value: Option<f64>,
    pub conf_low: Option<f64>,
    pub conf_high: Option<f64>,
}

/// A reference fit without penalty.
#[derive(Debug, Clone, Deserialize)]
pub struct Glm {
    #[serde(flatten)]
    pub case: Case,
    pub coefficients: Vec<Row>,
    pub nobs: u64,
    pub df_residual: i64,
    pub deviance: f64,
    pub null_deviance: f64,
    pub aic: Option<f64>,
    pub bic: Option<f64>,
    pub log_lik: Option<f64>,
    pub dispersion: Option<f64>,
    pub r_squared: Option<f64>,
    pub predictions: Option<Predictions>,
}

/// What follows from a reference fit.
#[derive(Debug, Clone, Deserialize)]
pub struct Implied {
    pub name: String,
    #[serde(flatten)]
    pub measures: Measures,
    pub covariance: WholeCovariance,
    pub term_tests: Vec<Term>,
    pub performance: Option<serde_json::Value>,
}

/// Standard errors from residuals of a reference fit, by kind; none where they are not defined.
#[derive(Debug, Clone, Deserialize)]
pub struct Sandwich {
    pub name: String,
    pub terms: Vec<String>,
    pub std_errors: BTreeMap<String, Option<Vec<f64>>>,
    /// By HC1, of all estimates.
    pub covariance_hc1: Vec<Vec<f64>>,
}

/// A reference fit with an estimated dispersion.
#[derive(Debug, Clone, Deserialize)]
pub struct Quasi {
    pub name: String,
    pub family: String,
    pub dispersion: f64,
    pub deviance: f64,
    pub null_deviance: f64,
    pub df_residual: i64,
    pub f_test: Test,
    pub smaller: Option<Smaller>,
    pub coefficients: Vec<QuasiRow>,
    pub term_tests: Vec<QuasiTerm>,
    pub covariance: WholeCovariance,
}

/// A row of its coefficient table.
#[derive(Debug, Clone, Deserialize)]
pub struct QuasiRow {
    pub term: String,
    pub estimate: f64,
    pub std_error: f64,
    pub statistic: f64,
    pub p_value: f64,
    pub conf_low: f64,
    pub conf_high: f64,
}

/// A test of a term of it.
#[derive(Debug, Clone, Deserialize)]
pub struct QuasiTerm {
    pub term: String,
    pub df: u64,
    pub wald: Test,
}

/// A smaller fit, and its test.
#[derive(Debug, Clone, Deserialize)]
pub struct Smaller {
    pub alice: Vec<String>,
    pub bob: Vec<String>,
    pub f: Test,
}

/// Tests of nested fits and of linear hypotheses.
#[derive(Debug, Clone, Deserialize)]
pub struct Hypotheses {
    pub name: String,
    pub smaller: Columns,
    pub f: Option<Test>,
    pub likelihood_ratio: Test,
    pub linear: Vec<LinearTest>,
    /// About terms of both parties.
    pub across: Vec<LinearTest>,
}

/// Columns of the parties.
#[derive(Debug, Clone, Deserialize)]
pub struct Columns {
    pub alice: Vec<String>,
    pub bob: Vec<String>,
}

/// A test of some hypotheses together.
#[derive(Debug, Clone, Deserialize)]
pub struct LinearTest {
    pub hypotheses: Vec<String>,
    pub test: Test,
}

/// The covariance matrix of all estimates.
#[derive(Debug, Clone, Deserialize)]
pub struct WholeCovariance {
    pub terms: Vec<String>,
    pub matrix: Vec<Vec<f64>>,
}

/// A term of a reference fit.
#[derive(Debug, Clone, Deserialize)]
pub struct Term {
    pub term: String,
    pub df: u64,
    pub wald: Test,
    pub vif: f64,
    pub scaled_vif: f64,
}

/// Reference sub-models of a fit of `glm/`.
#[derive(Debug, Clone, Deserialize)]
pub struct SubModels {
    pub name: String,
    pub models: Vec<SubModel>,
    pub penalised: Vec<SubPath>,
}

/// A sub-model without a penalty: columns left out, and all that follows.
#[derive(Debug, Clone, Deserialize)]
pub struct SubModel {
    pub drop: Vec<String>,
    pub coefficients: Vec<SubRow>,
    pub nobs: u64,
    pub df_residual: i64,
    pub df_null: i64,
    pub deviance: f64,
    pub null_deviance: f64,
    pub log_lik: Option<f64>,
    pub aic: Option<f64>,
    pub bic: Option<f64>,
    pub r_squared: f64,
    pub adj_r_squared: f64,
    pub f_test: Option<Test>,
    pub covariance: WholeCovariance,
    pub term_tests: Vec<Term>,
}

/// A row of its coefficient table.
#[derive(Debug, Clone, Deserialize)]
pub struct SubRow {
    pub term: String,
    pub estimate: Option<f64>,
    pub std_error: Option<f64>,
    pub p_value: Option<f64>,
}

/// A sub-model with a penalty, along given lambdas.
#[derive(Debug, Clone, Deserialize)]
pub struct SubPath {
    pub drop: Vec<String>,
    pub alpha: f64,
    pub lambda: Vec<f64>,
    pub terms: Vec<String>,
    pub path: Vec<SubPoint>,
}

/// One lambda of it.
#[derive(Debug, Clone, Deserialize)]
pub struct SubPoint {
    pub intercept: Option<f64>,
    pub coefficients: Vec<f64>,
    pub deviance: f64,
}

/// Reference scores of new rows.
#[derive(Debug, Clone, Deserialize)]
pub struct Predictions {
    pub data: PathBuf,
    pub link: Vec<f64>,
    pub response: Vec<f64>,
}

/// Data without a finite fit.
#[derive(Debug, Clone, Deserialize)]
pub struct Unbounded {
    #[serde(flatten)]
    pub case: Case,
    pub termination: String,
}

/// A reference path.
#[derive(Debug, Clone, Deserialize)]
pub struct Penalised {
    #[serde(flatten)]
    pub case: Case,
    pub alpha: f64,
    pub lambda_source: String,
    pub sd_outcome: f64,
    pub terms: Vec<String>,
    pub path: Vec<Point>,
}

/// One lambda of a reference path.
#[derive(Debug, Clone, Deserialize)]
pub struct Point {
    pub lambda: f64,
    pub df: u64,
    pub deviance: f64,
    pub intercept: Option<f64>,
    pub coefficients: Vec<f64>,
}

/// A reference cross-validation.
#[derive(Debug, Clone, Deserialize)]
pub struct CrossValidation {
    #[serde(flatten)]
    pub case: Case,
    pub alpha: f64,
    pub folds: u32,
    pub cv: Vec<CvPoint>,
    pub lambda_min: f64,
    pub lambda_1se: f64,
}

/// One lambda of a reference cross-validation.
#[derive(Debug, Clone, Deserialize)]
pub struct CvPoint {
    pub lambda: f64,
    pub mean: f64,
    pub se: f64,
}

/// A reference fit of columns that nearly depend on each other.
#[derive(Debug, Clone, Deserialize)]
pub struct Near {
    #[serde(flatten)]
    pub case: Case,
    pub coefficients: Vec<NearRow>,
}

/// A row of its coefficient table.
#[derive(Debug, Clone, Deserialize)]
pub struct NearRow {
    pub term: String,
    pub estimate: f64,
    pub std_error: f64,
}

/// The folder of the vectors.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// All vectors of a kind, in order of name.
pub fn all<T: DeserializeOwned>(kind: &str) -> Vec<T> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder().join(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let files = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    let vectors: Vec<T> = files
        .map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        })
        .collect();
    assert!(!vectors.is_empty(), "no vectors in {kind}");
    vectors
}
