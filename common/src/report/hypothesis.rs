//! Tests from reports that are there: of two nested fits against each other, and of linear hypotheses about the coefficients of one.
//!
//! Nothing leaves for them, and nobody else is asked: a report holds all that they need.

use std::fmt;

use nalgebra::{DMatrix, DVector};
use serde::Serialize;

use super::Report;
use crate::fit::{Coefficient, Covariance, Statistics, Test};
use crate::glm::{Family, StatedFamily};
use crate::id::{Mode, Role};

/// Null deviances of fits of the same outcome on the same rows agree to this share.
const SAME: f64 = 1e-9;

/// Why there is no test.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HypothesisError {
    /// A report of a fit that has no likelihood or no covariance for it.
    #[error("{report}: {why}")]
    Unfit {
        /// Which report.
        report: &'static str,
        /// Why.
        why: String,
    },
    /// Two reports that are not of nested fits of the same rows.
    #[error("the fits are not nested: {0}")]
    Apart(String),
    /// A hypothesis that cannot be read.
    #[error("`{hypothesis}`: {problem}")]
    Text {
        /// What was given.
        hypothesis: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Hypotheses that follow from each other, or contradict each other.
    #[error("the hypotheses depend on each other: leave one out")]
    Dependent,
}

/// What a report says of a fit, as far as tests need it.
#[derive(Clone, Copy)]
pub struct Fitted<'a> {
    /// The family.
    pub family: StatedFamily,
    /// The outcome's name.
    pub outcome: &'a str,
    /// Fit statistics.
    pub statistics: &'a Statistics,
    /// The coefficient table.
    pub coefficients: &'a [Coefficient],
    /// Covariance of the coefficients, as far as it is known.
    pub covariance: Option<&'a Covariance>,
    /// Why it stands for no maximum of a likelihood, if so.
    pub unfit: Option<&'static str>,
}

impl<'a> From<&'a Report> for Fitted<'a> {
    fn from(report: &'a Report) -> Fitted<'a> {
        let unfit = match report.mode {
            Mode::Private => Some("a private fit has no likelihood, and its noise is in every estimate"),
            Mode::Plain | Mode::Sealed if report.lambda.is_some() || report.path.is_some() => {
                Some("a fit with a penalty does not maximise the likelihood")
            }
            Mode::Plain | Mode::Sealed if report.converged != Some(true) => Some("the fit did not converge"),
            Mode::Plain | Mode::Sealed => None,
        };
        Fitted {
            family: report.family,
            outcome: &report.outcome,
            statistics: &report.statistics,
            coefficients: &report.coefficients,
            covariance: report.covariance.as_ref(),
            unfit,
        }
    }
}

/// The test of two nested fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nested {
    /// Terms that the larger fit has beside those of the smaller one, with who holds them.
    pub terms: Vec<(String, Role)>,
    /// By how much the deviance falls.
    pub deviance: f64,
    /// Where the dispersion is estimated: the F test, as `anova` has it.
    pub f: Option<Test>,
    /// Twice the difference of the log-likelihoods.
    pub likelihood_ratio: Option<Test>,
    /// Why there is no test, where there is none.
    pub reason: Option<&'static str>,
}

/// Tests a fit against a larger one, of the same outcome and the same rows, whose terms contain its own.
///
/// # Errors
/// Fits that cannot be compared.
pub fn nested(smaller: Fitted<'_>, larger: Fitted<'_>) -> Result<Nested, HypothesisError> {
    for (report, fit) in [("the first report", smaller), ("the second report", larger)] {
        if let Some(why) = fit.unfit {
            return Err(HypothesisError::Unfit { report, why: why.to_string() });
        }
    }
    let apart = |what: String| Err(HypothesisError::Apart(what));
    let (a, b) = (smaller.statistics, larger.statistics);
    if smaller.family != larger.family {
        return apart(format!("the first is {}, the second {}", smaller.family, larger.family));
    }
    if smaller.outcome != larger.outcome {
        return apart(format!(
            "the outcome of the first is `{}`, that of the second `{}`",
            smaller.outcome, larger.outcome
        ));
    }
    if a.nobs != b.nobs {
        let why = "fit both on the same rows";
        return apart(format!("{} rows took part in the first, {} in the second; {why}", a.nobs, b.nobs));
    }
    let (Some(deviance), Some(of_larger)) = (a.deviance, b.deviance) else {
        return apart("a report has no deviance".to_string());
    };
    if let Some(how) = differ(a, b, smaller.family) {
        return apart(format!("{how}: the outcome, offset, weights or rows differ"));
    }
    let named = |fit: Fitted<'_>| -> Vec<(String, Role)> {
        let estimated = fit.coefficients.iter().filter(|row| row.estimate.is_some());
        estimated.map(|row| (row.term.clone(), row.party)).collect()
    };
    let (own, more) = (named(smaller), named(larger));
    if let Some((term, party)) = own.iter().find(|term| !more.contains(term)) {
        return apart(format!("`{term}` of {party} stands in the first report alone; give the smaller fit first"));
    }
    let terms: Vec<(String, Role)> = more.into_iter().filter(|term| !own.contains(term)).collect();
    let (Some(df_smaller), Some(df_larger)) = (a.df_residual, b.df_residual) else {
        return apart("a report has no residual degrees of freedom".to_string());
    };
    let df = df_smaller - df_larger;
    if df < 1 {
        return apart("the second fit has no term that the first has not".to_string());
    }
    let fall = (deviance - of_larger).max(0.0);
    let dispersion = match larger.family {
        StatedFamily::Gaussian => Some(of_larger / df_larger as f64),
        StatedFamily::Quasibinomial | StatedFamily::Quasipoisson => b.dispersion,
        StatedFamily::Binomial | StatedFamily::Poisson => None,
    };
    let f = dispersion.and_then(|dispersion| Test::f(fall / df as f64 / dispersion, df, df_larger));
    let ratio = match (larger.family.base(), a.log_lik, b.log_lik) {
        _ if larger.family.is_quasi() => None,
        (Family::Gaussian, Some(smaller), Some(larger)) => Some(2.0 * (larger - smaller)),
        (Family::Gaussian, ..) => None,
        // Deviances are twice the distance to the same saturated likelihood.
        (Family::Binomial | Family::Poisson, ..) => Some(fall),
    };
    let likelihood_ratio = ratio.and_then(|ratio| Test::chi_square(ratio.max(0.0), df));
    let reason = match (f, likelihood_ratio) {
        (None, None) if df_larger < 1 => Some(NOTHING_LEFT),
        (None, None) => Some("a statistic of the test is not finite, or a report lacks what it is made of"),
        (Some(_), _) | (_, Some(_)) => None,
    };
    Ok(Nested { terms, deviance: fall, f, likelihood_ratio, reason })
}

/// Why there is no test against a fit with as many coefficients as rows.
const NOTHING_LEFT: &str =
    "the larger fit has as many coefficients as rows, so that nothing is left over to estimate the dispersion from";

/// How two fits are told to be of different data. Null models are the same only where both fits have an intercept, or neither
/// has.
fn differ(a: &Statistics, b: &Statistics, family: StatedFamily) -> Option<String> {
    let apart = |one: f64, other: f64, size: f64| !((one - other).abs() <= SAME * size);
    let with_intercept = |of: &Statistics| of.df_null.map(|df| df < of.nobs as i64);
    if with_intercept(a) == with_intercept(b) {
        let (null, of_null) = (a.null_deviance?, b.null_deviance?);
        return apart(null, of_null, null.abs().max(of_null.abs()))
            .then(|| format!("their null models have deviances {null} and {of_null}"));
    }
    // What is left of a likelihood without the coefficients: that of a perfect fit, or of weights alone.
    let (one, other) = (constant(a, family)?, constant(b, family)?);
    let size = one.abs().max(other.abs()).max(a.nobs as f64);
    apart(one, other, size).then(|| format!("what their likelihoods have beside the coefficients is {one} and {other}"))
}

/// The part of a log-likelihood that depends on the outcome and the weights alone.
fn constant(of: &Statistics, family: StatedFamily) -> Option<f64> {
    let (log_lik, deviance, rows) = (of.log_lik?, of.deviance?, of.nobs as f64);
    let constant = match family.base() {
        Family::Gaussian => log_lik + 0.5 * rows * (deviance / rows).ln(),
        Family::Binomial | Family::Poisson => log_lik + 0.5 * deviance,
    };
    constant.is_finite().then_some(constant)
}

/// A Wald test of linear hypotheses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Linear {
    /// The hypotheses, as they were read.
    pub hypotheses: Vec<String>,
    /// What the estimates make of each, less its right side.
    pub distances: Vec<f64>,
    /// Standard errors of these.
    pub std_errors: Vec<f64>,
    /// All together: F where the dispersion is estimated, chi-square otherwise.
    pub test: Option<Test>,
}

/// Tests linear hypotheses about the coefficients of one fit, together: each `sum of terms = sum of terms`, a term as the report names it,
/// with a number and `*` before it or without. Names with spaces or signs stand between backticks.
///
/// # Errors
/// A hypothesis that cannot be read, or about terms whose covariance is not in the report.
pub fn linear(fit: Fitted<'_>, hypotheses: &[String]) -> Result<Linear, HypothesisError> {
    let unfit = |why: String| HypothesisError::Unfit { report: "the report", why };
    if let Some(why) = fit.unfit {
        return Err(unfit(why.to_string()));
    }
    let covariance = fit.covariance.ok_or_else(|| unfit("it has no covariance of the coefficients".to_string()))?;
    let size = covariance.terms.len();
    let mut rows = DMatrix::zeros(hypotheses.len(), size);
    let mut right = DVector::zeros(hypotheses.len());
    for (at, hypothesis) in hypotheses.iter().enumerate() {
        let wrong = |problem: String| HypothesisError::Text { hypothesis: hypothesis.clone(), problem };
        let Sides { weights, constant } = Sides::read(hypothesis, &covariance.terms).map_err(wrong)?;
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(wrong("names no coefficient".to_string()));
        }
        rows.row_mut(at).copy_from_slice(&weights);
        right[at] = -constant;
    }
    let estimate = |(term, party): (&String, &Role)| {
        let row = fit.coefficients.iter().find(|row| row.term == *term && row.party == *party);
        row.and_then(|row| row.estimate).unwrap_or(f64::NAN)
    };
    let estimates: Vec<f64> = covariance.terms.iter().zip(&covariance.parties).map(estimate).collect();
    let used: Vec<usize> = (0..size).filter(|at| rows.column(*at).iter().any(|weight| *weight != 0.0)).collect();
    let mut matrix = DMatrix::zeros(size, size);
    for (i, j) in used.iter().flat_map(|i| used.iter().map(move |j| (*i, *j))) {
        let entry = covariance.matrix.get(i).and_then(|row| row.get(j)).copied().flatten();
        matrix[(i, j)] = entry.ok_or_else(|| {
            let [a, b] = [i, j].map(|at| format!("`{}` of {}", covariance.terms[at], covariance.parties[at]));
            unfit(format!("the covariance of {a} with {b} is in no report: test each party's coefficients alone"))
        })?;
    }
    let sums = &rows * DVector::from_vec(estimates) - right;
    let spread = &rows * matrix * rows.transpose();
    let errors = spread.diagonal().map(|variance| variance.max(0.0).sqrt());
    // On the scale of the standard errors, so that hypotheses of different sizes meet.
    let scaled = DMatrix::from_fn(spread.nrows(), spread.ncols(), |i, j| spread[(i, j)] / (errors[i] * errors[j]));
    let distances = sums.component_div(&errors);
    let factor = scaled.cholesky().ok_or(HypothesisError::Dependent)?;
    if factor.l_dirty().diagonal().iter().any(|pivot| !(*pivot > 1e-7)) {
        return Err(HypothesisError::Dependent);
    }
    let statistic = distances.dot(&factor.solve(&distances));
    let df = hypotheses.len() as i64;
    let test = match fit.family.estimates_dispersion() {
        true => {
            let df_residual = fit.statistics.df_residual.unwrap_or(0);
            Test::f(statistic / df as f64, df, df_residual)
        }
        false => Test::chi_square(statistic, df),
    };
    let (distances, std_errors) = (sums.as_slice().to_vec(), errors.as_slice().to_vec());
    Ok(Linear { hypotheses: hypotheses.to_vec(), distances, std_errors, test })
}

/// A hypothesis as `weights' coefficients + constant = 0`.
struct Sides {
    weights: Vec<f64>,
    constant: f64,
}

impl Sides {
    fn read(text: &str, terms: &[String]) -> Result<Sides, String> {
        let mut sides = Sides { weights: vec![0.0; terms.len()], constant: 0.0 };
        let mut rest = text.trim_start();
        let (mut sign, mut expects, mut equals) = (1.0, true, 0);
        while !rest.is_empty() {
            let first = rest.chars().next().unwrap_or_default();
            match first {
                '=' if !expects && equals == 0 => (sign, expects, equals) = (1.0, true, 1),
                '+' | '-' => {
                    // A sign before a summand, or between two.
                    let own = if first == '-' { -1.0 } else { 1.0 };
                    sign = if expects { sign * own } else { own };
                    expects = true;
                }
                _ if expects => {
                    let side = if equals == 0 { 1.0 } else { -1.0 };
                    rest = sides.summand(rest, side * sign, terms)?.trim_start();
                    (sign, expects) = (1.0, false);
                    continue;
                }
                _ => return Err(format!("`+`, `-` or `=` is missing before `{rest}`")),
            }
            rest = rest[first.len_utf8()..].trim_start();
        }
        match (equals, expects) {
            (1, false) if !sides.weights.iter().chain([&sides.constant]).all(|number| number.is_finite()) => {
                Err("has a number that is too large".to_string())
            }
            (1, false) => Ok(sides),
            (1, true) => Err("ends where a number or a coefficient is missing".to_string()),
            _ => Err("has no `=`".to_string()),
        }
    }

    /// Takes a number, a term, or a number times a term; gives what follows.
    fn summand<'a>(&mut self, rest: &'a str, sign: f64, terms: &[String]) -> Result<&'a str, String> {
        if let Some((at, after)) = term_of(rest, terms) {
            self.weights[at] += sign;
            return Ok(after);
        }
        let length = number(rest);
        let Ok(value) = rest[..length].parse::<f64>() else {
            let known = terms.join(", ");
            return Err(format!(
                "`{rest}` begins with no number and no coefficient with an estimate; these are {known}"
            ));
        };
        let after = rest[length..].trim_start();
        match after.strip_prefix('*') {
            Some(after) => {
                let (at, after) = term_of(after.trim_start(), terms)
                    .ok_or_else(|| format!("no coefficient with an estimate stands behind `{}*`", &rest[..length]))?;
                self.weights[at] += sign * value;
                Ok(after)
            }
            None => {
                self.constant += sign * value;
                Ok(after)
            }
        }
    }
}

/// How far a number goes.
fn number(text: &str) -> usize {
    let mut end = 0;
    let mut before = ' ';
    for (at, sign) in text.char_indices() {
        let goes_on = sign.is_ascii_digit()
            || sign == '.'
            || (matches!(sign, 'e' | 'E') && end > 0)
            || (matches!(sign, '+' | '-') && matches!(before, 'e' | 'E'));
        if !goes_on {
            break;
        }
        end = at + 1;
        before = sign;
    }
    end
}

/// The longest term that a text begins with, or the one between backticks; and what follows.
fn term_of<'a>(text: &'a str, terms: &[String]) -> Option<(usize, &'a str)> {
    if let Some(quoted) = text.strip_prefix('`') {
        let (name, after) = quoted.split_once('`')?;
        return terms.iter().position(|term| term == name).map(|at| (at, after));
    }
    let ends =
        |after: &str| !after.chars().next().is_some_and(|next| next.is_alphanumeric() || matches!(next, '_' | '.'));
    let begun = terms.iter().enumerate().filter_map(|(at, term)| Some((at, text.strip_prefix(term.as_str())?)));
    begun.filter(|(_, after)| ends(after)).max_by_key(|(at, _)| terms[*at].len())
}

impl fmt::Display for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(|(term, party)| format!("{term} ({party})")).collect();
        writeln!(f, "Terms of the larger fit alone: {}", terms.join(", "))?;
        writeln!(f, "The deviance falls by {}", self.deviance)?;
        if let Some(test) = &self.f {
            writeln!(f, "F test:                 {}", said(test))?;
        }
        if let Some(test) = &self.likelihood_ratio {
            writeln!(f, "Likelihood-ratio test:  {}", said(test))?;
        }
        if let Some(reason) = self.reason {
            writeln!(f, "No test: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((hypothesis, distance), error) in self.hypotheses.iter().zip(&self.distances).zip(&self.std_errors) {
            writeln!(f, "{hypothesis}: left side less right side {distance}, std. error {error}")?;
        }
        match &self.test {
            Some(test) => writeln!(f, "Wald test:  {}", said(test)),
            None => writeln!(f, "Wald test:  not defined"),
        }
    }
}

fn said(test: &Test) -> String {
    let Test { statistic, df, df_residual, p_value } = test;
    // A small probability in digits behind the point is a row of zeros.
    let p = if *p_value < 1e-4 { format!("{p_value:e}") } else { p_value.to_string() };
    match df_residual {
        Some(df_residual) => format!("F = {statistic} on {df} and {df_residual} df, p = {p}"),
        None => format!("chi-square = {statistic} on {df} df, p = {p}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Result<(Vec<f64>, f64), String> {
        let terms = ["(Intercept)", "a", "a1", "a:b", "blood pressure", "x.y"].map(str::to_string);
        Sides::read(text, &terms).map(|sides| (sides.weights, sides.constant))
    }

    #[test]
    fn hypotheses_are_read_with_numbers_signs_and_names_of_any_kind() {
        for (text, weights, constant) in [
            ("a = 0", [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 0.0),
            ("a1=1.5", [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], -1.5),
            ("a - 2*a1 = 1e-3 + 1", [0.0, 1.0, -2.0, 0.0, 0.0, 0.0], -1.001),
            ("-a:b + .5 * x.y = a", [0.0, -1.0, 0.0, -1.0, 0.0, 0.5], 0.0),
            ("(Intercept) - -`blood pressure` = -3", [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3.0),
            ("2e+1*a + a = 0", [0.0, 21.0, 0.0, 0.0, 0.0, 0.0], 0.0),
        ] {
            assert_eq!(sides(text), Ok((weights.to_vec(), constant)), "{text}");
        }
    }

    #[test]
    fn what_is_no_hypothesis_is_refused_with_the_place() {
        for (text, part) in [
            ("a", "has no `=`"),
            ("a = ", "ends where"),
            ("= 1", "begins with no number"),
            ("a b = 1", "is missing before `b = 1`"),
            ("c = 1", "`c = 1` begins with no number and no coefficient"),
            ("2*c = 1", "behind `2*`"),
            ("a = 1 = 2", "is missing before `= 2`"),
            ("`a = 1", "begins with no number"),
            ("a2 = 0", "begins with no number"),
            ("", "has no `=`"),
            ("a = 1e400", "has a number that is too large"),
            ("1e400 * a = 0", "has a number that is too large"),
            ("1e308 * a + 1e308 * a = 0", "has a number that is too large"),
        ] {
            let problem = sides(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
