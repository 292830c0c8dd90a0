//! What error to expect of a private run between sites, from public facts and the design that the study declares: no row is looked at, and
//! nothing is spent.

use serde::{Serialize, Serializer};

use super::horizontal::{Robust, SiteMethod, Sites};
use super::methods::{Em, Features, Release, Stream};
use super::{DesignTerms, Guarantee, Study, StudyError};
use crate::methods::em::{self, EmError};
use crate::methods::features::forecast::{
    Forecast as FeaturesForecast, FunctionDesign, FunctionPrediction, LARGEST_EXPECTED, Spread,
};
use crate::methods::features::{FeatureError, Range, output_sensitivity};
use crate::methods::robust::forecast::RobustDesign;
use crate::methods::stream;
use crate::privacy::accountant::ScaleError;
use crate::privacy::caution::{Caution, MOSTLY_NOISE, WITHHELD};
use crate::privacy::mechanism::noise_scale;

/// Standard deviation of residuals unless another is declared, in half ranges of the outcome.
const DEFAULT_RESIDUAL: f64 = 0.2;
/// Standard deviation of what is to be found unless another is declared, in half ranges of the outcome; as in vertical studies.
const DEFAULT_SIGNAL: f64 = 0.3;
/// Length of hidden coefficients unless another is declared, in lengths of the longest that sigma and tau allow.
const DEFAULT_LENGTH: f64 = 0.5;

/// Most noise of the counts of residuals, as a share of a batch's rows, with which standard errors are relied on: beyond it one estimate in
/// a hundred lies more than three of them off, and some lie far off (`coverage_of_small_batches`).
const MOST_COUNTS_NOISE: f64 = 0.1;

/// A size in half ranges of the outcome, and in its own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// In half ranges of the outcome.
    pub half_ranges: f64,
    half_range: Option<f64>,
}

impl Size {
    /// Half the outcome's public range, where there is one.
    pub fn half_range(&self) -> Option<f64> {
        self.half_range
    }

    /// In the outcome's unit; that of the points or coefficients in models with something hidden.
    pub fn outcome(&self) -> f64 {
        self.half_ranges * self.half_range.unwrap_or(1.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Both {
            half_ranges: Option<f64>,
            outcome: f64,
        }
        let half_ranges = self.half_range.map(|_| self.half_ranges);
        Both { half_ranges, outcome: self.outcome() }.serialize(serializer)
    }
}

/// What to expect of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// What the errors are errors of.
    pub of: &'static str,
    /// What was assumed, a thought a line.
    pub assumed: Vec<String>,
    /// Rows or records of each site.
    pub rows: u64,
    /// Sites of the study.
    pub sites: u32,
    /// Batches of all sites, of robust regression.
    pub batches: Option<u64>,
    /// Noise of one batch, or of the step of one round.
    pub noise_once: Option<Size>,
    /// Noise of the result.
    pub noise: Size,
    /// Error of the result: noise, sampling and what the method leaves.
    pub error: Size,
    /// Error of a fitted value, of robust regression.
    pub error_fitted: Option<Size>,
    /// Error of a site's own rows, fitted at home without noise: nothing is exchanged.
    pub error_alone: Size,
    /// Error of the result that is zero everywhere.
    pub error_zero: Size,
    /// The error, relative to what is to be found.
    pub relative_error: f64,
    /// That of a site's own rows, likewise.
    pub relative_error_alone: f64,
    /// Whether exchanging nothing is expected to do as well or better.
    pub better_alone: bool,
    /// Whether zero everywhere is expected to do as well or better.
    pub better_zero: bool,
    /// Noise of the counts of residuals as a share of a batch's rows, of robust regression: where it is large, nothing can be inferred.
    pub counts_noise: Option<f64>,
}

/// Why there is nothing to say beforehand.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoExpectation {
    /// No noise, or no sites.
    #[error("the study is not private, or not one of many sites")]
    NotPrivate,
    /// No rows.
    #[error("the number of rows is not known: say `--rows`")]
    NoRows,
    /// The study refuses so many rows, as a run would.
    #[error("a run of so many rows would be refused: {0}")]
    Refused(#[from] StudyError),
    /// The spectrum would take too long.
    #[error("with more than {most} random features no error is foretold: their spectrum takes too long")]
    TooManyFeatures {
        /// Most that are reckoned with.
        most: usize,
    },
    /// Models with something hidden.
    #[error("the invented records could not be fitted: {0}")]
    Hidden(#[from] EmError),
    /// Random features.
    #[error("the invented statistics could not be solved: {0}")]
    Features(#[from] FeatureError),
    /// Noise.
    #[error(transparent)]
    Noise(#[from] ScaleError),
}

/// Numbers of a method before they get their units and names.
struct Found {
    noise_once: Option<f64>,
    noise: f64,
    error: f64,
    fitted: Option<f64>,
    alone: f64,
    zero: f64,
    counts: Option<f64>,
}

/// Numbers that a design declares, or the neutral ones.
#[derive(Clone, Copy)]
struct Reckoned<'a> {
    design: &'a DesignTerms,
    residual: f64,
    signal: f64,
}

impl DesignTerms {
    fn reckoned(&self) -> Reckoned<'_> {
        Reckoned {
            design: self,
            residual: self.residual.unwrap_or(DEFAULT_RESIDUAL),
            signal: self.signal.unwrap_or(DEFAULT_SIGNAL),
        }
    }

    /// Length of the coefficients of a model with something hidden.
    pub(super) fn hidden_length(&self, em: &Em) -> f64 {
        self.signal.unwrap_or(DEFAULT_LENGTH * em.settings.radius())
    }
}

impl Study<Sites> {
    /// How many sites there may be.
    pub fn number_of_sites(&self) -> u32 {
        u32::try_from(self.method.workers.len().max(1)).unwrap_or(u32::MAX)
    }

    /// What error to expect of a private run in which every site has so many rows or records.
    ///
    /// # Errors
    /// Says in a sentence why nothing sound can be said.
    pub fn expectation(&self, rows: u64) -> Result<Expectation, NoExpectation> {
        let reckoned = match &self.guarantee {
            Guarantee::Plain => return Err(NoExpectation::NotPrivate),
            Guarantee::Private(terms) => terms.stated.design.reckoned(),
        };
        if rows == 0 {
            return Err(NoExpectation::NoRows);
        }
        let Reckoned { design, residual, signal } = reckoned;
        let half_range = self.half_range();
        let sites = self.number_of_sites();
        let mut assumed = vec![format!("every one of the {sites} sites has as many rows as this one")];
        let sizes = format!(
            "what is to be found has standard deviation {signal}, and residuals {residual}, in half ranges of the outcome"
        );
        let mut batches = None;
        let (of, found) = match &self.method.method {
            SiteMethod::Robust(robust) => {
                let (found, all) = self.expect_robust(robust, rows, reckoned)?;
                batches = Some(all);
                let correlation = match design.correlation.unwrap_or(0.0) {
                    0.0 => "columns are uncorrelated".to_owned(),
                    correlation => format!("any two columns have correlation {correlation}"),
                };
                assumed.push(format!(
                    "{correlation}; rows beside the intercept have mean square 4/9 of their public norm"
                ));
                assumed.push(sizes);
                assumed.push(format!(
                    "{:.0} % of the rows are corrupted, and rejected",
                    100.0 * design.corrupted.unwrap_or(0.0)
                ));
                assumed.push("every batch is trusted".to_owned());
                ("norm of the coefficients of unit rows", found)
            }
            SiteMethod::Em(em) => {
                let (found, length) = self.expect_em(em, rows, design)?;
                assumed.push(format!(
                    "the model is true, with coefficients of length {length:.4} in an invented direction: median over invented records"
                ));
                if em.settings.stated().model == em::Model::MissingCovariates {
                    assumed.push(format!("{:.0} % of the covariates are missing", 100.0 * em::MISSING));
                }
                ("norm of the coefficients", found)
            }
            SiteMethod::Features(features) => {
                assumed.push("inputs are spread evenly over their ranges and levels, each by itself".to_owned());
                assumed.push("the function is a draw of the study's own kernel".to_owned());
                assumed.push(sizes);
                ("function, root mean square over its inputs", self.expect_features(features, rows, reckoned)?)
            }
            SiteMethod::Stream(stream) => {
                assumed.push("covariates are spread evenly over their ranges, each by itself".to_owned());
                assumed.push("the function is a draw of the study's own kernel".to_owned());
                assumed.push(sizes);
                ("function, root mean square over its covariates", self.expect_stream(stream, rows, reckoned)?)
            }
        };
        let size = |half_ranges: f64| Size { half_ranges, half_range };
        Ok(Expectation {
            of,
            assumed,
            rows,
            sites,
            batches,
            noise_once: found.noise_once.map(size),
            noise: size(found.noise),
            error: size(found.error),
            error_fitted: found.fitted.map(size),
            error_alone: size(found.alone),
            error_zero: size(found.zero),
            relative_error: found.error / found.zero,
            relative_error_alone: found.alone / found.zero,
            // What is not finite is no better than anything.
            better_alone: !(found.error < found.alone),
            better_zero: !(found.error < found.zero),
            counts_noise: found.counts,
        })
    }

    /// Half the public range of the outcome, 1 where it is not stated; none where there is no outcome.
    fn half_range(&self) -> Option<f64> {
        let half_of = |range: Range| 0.5 * (range.high - range.low);
        match &self.method.method {
            SiteMethod::Em(_) => None,
            SiteMethod::Robust(_) => {
                let range = self.head.columns.get(&self.method.outcome).and_then(|terms| terms.range);
                Some(range.map_or(1.0, |[low, high]| half_of(Range { low, high })))
            }
            SiteMethod::Features(features) => Some(half_of(features.outcome)),
            SiteMethod::Stream(stream) => Some(half_of(stream.units())),
        }
    }

    fn expect_robust(&self, robust: &Robust, rows: u64, reckoned: Reckoned<'_>) -> Result<(Found, u64), NoExpectation> {
        let Reckoned { design, residual, signal } = reckoned;
        let wanted = self.site_terms().batch_rows.max(1);
        // A short last batch joins the one before it.
        let own = (rows / wanted + u64::from(rows % wanted >= wanted.div_ceil(2))).max(1);
        let all = own.saturating_mul(u64::from(self.number_of_sites()));
        let plan = self.batch_plan(robust, rows / own)?;
        let intercept = self.batch_bounds(robust).ok().and_then(|bounds| bounds.intercept());
        let moments = RobustDesign::equicorrelated(plan.setup().width, intercept, design.correlation.unwrap_or(0.0));
        let corrupted = design.corrupted.unwrap_or(0.0);
        let predicted = plan.predict(&RobustDesign { moments, residual, signal, corrupted }, all, rows);
        let found = Found {
            noise_once: Some(predicted.batch_noise),
            noise: predicted.noise,
            error: predicted.error,
            fitted: Some(predicted.fitted),
            alone: predicted.alone,
            zero: predicted.length,
            counts: Some(predicted.counts),
        };
        Ok((found, all))
    }

    fn expect_em(&self, em: &Em, rows: u64, design: &DesignTerms) -> Result<(Found, f64), NoExpectation> {
        let Em { settings, start } = em;
        let length = design.hidden_length(em);
        let expected = em::expected(settings, start, (rows, self.number_of_sites()), self.site_mu(), length)?;
        let found = Found {
            noise_once: Some(expected.round_noise),
            noise: expected.noise,
            error: expected.error,
            fitted: None,
            alone: expected.alone,
            zero: expected.length,
            counts: None,
        };
        Ok((found, length))
    }

    fn expect_features(&self, features: &Features, rows: u64, reckoned: Reckoned<'_>) -> Result<Found, NoExpectation> {
        let forecast = self.features_forecast(features, reckoned)?;
        let predicted = self.predict_features(&forecast, features, rows)?;
        Ok(Found {
            noise_once: None,
            noise: predicted.noise,
            error: predicted.error,
            fitted: None,
            alone: predicted.alone,
            zero: predicted.zero,
            counts: None,
        })
    }

    fn features_forecast(
        &self,
        features: &Features,
        reckoned: Reckoned<'_>,
    ) -> Result<FeaturesForecast, NoExpectation> {
        let Reckoned { residual, signal, .. } = reckoned;
        let spread = |column: &String| match self.head.columns.get(column).map_or(0, |terms| terms.levels.len()) {
            0 => Spread::Even,
            levels => Spread::Levels(levels - 1),
        };
        let inputs = self.method.features.iter().map(spread).collect();
        FeaturesForecast::new(&features.map, &FunctionDesign { inputs, residual, signal })?
            .ok_or(NoExpectation::TooManyFeatures { most: LARGEST_EXPECTED })
    }

    /// The spectrum of the study's features; none without noise, and with more features than can be reckoned with.
    pub(super) fn function_forecast(&self, features: &Features) -> Option<FeaturesForecast> {
        self.features_forecast(features, self.private()?.stated.design.reckoned()).ok()
    }

    /// Of the features and the ridge of these terms, which may be fewer than those of the study.
    pub(super) fn predict_features(
        &self,
        forecast: &FeaturesForecast,
        features: &Features,
        rows: u64,
    ) -> Result<FunctionPrediction, NoExpectation> {
        let (sites, lambda) = (self.number_of_sites(), features.lambda);
        Ok(match features.release {
            Release::Statistics => forecast.statistics(rows, sites, self.features_sigma(features)?, lambda)?,
            Release::Output => {
                let count = usize::try_from(rows).unwrap_or(usize::MAX);
                let sensitivity = output_sensitivity(count, features.map.count(), lambda);
                let (sigma, _) = noise_scale(sensitivity, features.map.count(), self.site_mu())?;
                forecast.solutions(rows, sites, sigma, lambda)
            }
        })
    }

    /// What to expect of so many records of a stream with noise, and the budget of one; none without noise, and with more random features
    /// than can be reckoned with.
    pub fn stream_forecast(&self, stream: &Stream) -> Option<(stream::Forecast, f64)> {
        match &self.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => {
                let forecast = stream.forecast(terms.stated.design.reckoned()).ok()?;
                Some((forecast, stream.record_mu(&self.guarantee)))
            }
        }
    }

    fn expect_stream(&self, stream: &Stream, rows: u64, reckoned: Reckoned<'_>) -> Result<Found, NoExpectation> {
        let forecast = stream.forecast(reckoned)?;
        let all = rows.saturating_mul(u64::from(self.number_of_sites()));
        let (error, noise) = forecast.error(all, stream.record_mu(&self.guarantee));
        Ok(Found {
            noise_once: None,
            noise,
            error,
            fitted: None,
            alone: forecast.alone(rows),
            zero: forecast.zero(),
            counts: None,
        })
    }
}

impl Stream {
    fn forecast(&self, reckoned: Reckoned<'_>) -> Result<stream::Forecast, NoExpectation> {
        stream::Forecast::new(&self.settings, self.average, reckoned.residual, reckoned.signal)
            .ok_or(NoExpectation::TooManyFeatures { most: LARGEST_EXPECTED })
    }
}

impl Expectation {
    /// Sizes with what they are of, in the order in which they are read.
    pub fn lines(&self) -> Vec<(String, Size)> {
        let mut lines = Vec::new();
        let after = match self.batches {
            Some(1) => "noise of the result, of 1 batch".to_owned(),
            Some(batches) => format!("noise of the result, of {batches} batches"),
            None => "noise of the result".to_owned(),
        };
        if let Some(once) = self.noise_once {
            lines.push((
                if self.batches.is_some() { "noise of one batch" } else { "noise of one round" }.to_owned(),
                once,
            ));
        }
        lines.push((after, self.noise));
        lines.push(("error of the result: noise, sampling, method".to_owned(), self.error));
        if let Some(fitted) = self.error_fitted {
            lines.push(("  as error of a fitted value".to_owned(), fitted));
        }
        lines.push(("nothing exchanged: own rows, no noise".to_owned(), self.error_alone));
        lines.push(("zero everywhere: length of what is sought".to_owned(), self.error_zero));
        lines
    }

    /// What speaks against the run, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.better_zero {
            warnings.push(format!(
                "this run is hopeless for this design: {} would do as well or better, for nothing",
                if self.batches.is_some() { "coefficients that are all zero" } else { "zero everywhere" }
            ));
        }
        if self.better_alone {
            let batches = match self.batches {
                Some(batches) if batches > u64::from(self.sites) => {
                    "; larger batches (`sites.batch_rows`) have less noise, as all of a site's cost as much as one"
                }
                _ => "",
            };
            warnings.push(format!(
                "for this design exchanging nothing would do as well or better: a site's own rows, fitted at home without noise{batches}"
            ));
        }
        warnings.extend(
            self.counts_sentence().map(|sentence| format!("{sentence}: p-values and intervals will be withheld")),
        );
        warnings
    }

    fn counts_sentence(&self) -> Option<String> {
        let share = self.counts_noise.filter(|share| !(*share <= MOST_COUNTS_NOISE))?;
        Some(format!(
            "the counts of residuals, from which standard errors are read, have noise of {:.0} % of a batch's rows, above {:.0} %",
            100.0 * share,
            100.0 * MOST_COUNTS_NOISE
        ))
    }

    /// What a reader of the result must know first, from public facts alone.
    pub fn caution(&self) -> Option<Caution> {
        // What is not finite is no smaller than anything.
        let noise = (!(self.relative_error < 1.0)).then(|| {
            let reason = format!(
                "its plan foretold, from public facts alone, an error of {:.0} % of what is sought ({}); more rows, larger batches or a larger \
                 epsilon make it less, and `privacy plan` says by how much",
                100.0 * self.relative_error,
                self.of
            );
            Caution::new(MOSTLY_NOISE, reason, true)
        });
        let counts = self.counts_sentence().map(|sentence| {
            let remedy = "larger batches (`sites.batch_rows`), more rows or a larger epsilon make it less";
            Caution::new(
                WITHHELD,
                format!("{sentence}, and intervals would miss more often than they say; {remedy}"),
                true,
            )
        });
        Caution::joined(noise, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::{sites, written};

    fn text(protocol: &str, epsilon: f64, more: &str) -> String {
        format!(
            r#"
            id = "sites"
            protocol = "{protocol}"
            mode = "private"
            [privacy]
            epsilon = {epsilon:?}
            delta = 1e-6
            [workers.north]
            certificate = "north"
            [workers.south]
            certificate = "south"
            [model]
            features = ["a", "b"]
            {more}
            "#
        )
    }

    const COLUMNS: &str = "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 10]\n[columns.b]\nlevels = [\"u\", \"v\", \"w\"]\n[columns.y]\nrange = [0, 70000]\n";

    fn of(protocol: &str, epsilon: f64) -> Study<Sites> {
        sites(&text_of(protocol, epsilon))
    }

    fn text_of(protocol: &str, epsilon: f64) -> String {
        match protocol {
            "em" => text("em", epsilon, "[em]\nmodel = \"gmm\"\nsigma = 1.0\ntau = 5.0\nrounds = 6"),
            "stream" => {
                // One covariate: the noise of two fills a grid of as many points squared.
                let columns = COLUMNS.replace("levels = [\"u\", \"v\", \"w\"]", "range = [0, 1]");
                text("stream", epsilon, &columns).replace("[\"a\", \"b\"]", "[\"a\"]")
            }
            "features" => text("features", epsilon, &format!("{COLUMNS}[features]\ncount = 20")),
            other => text(other, epsilon, &format!("{COLUMNS}[sites]\nbatch_rows = 5000")),
        }
    }

    #[test]
    fn every_method_has_an_expectation_and_warns_where_nothing_is_gained() {
        for protocol in ["robust", "em", "features", "stream"] {
            let rich = of(protocol, 8.0).expectation(if protocol == "stream" { 1_000_000 } else { 40_000 }).unwrap();
            assert!(rich.error.half_ranges < rich.error_zero.half_ranges, "{protocol}: {rich:?}");
            assert!(!rich.better_zero && rich.warnings().len() == usize::from(rich.better_alone), "{rich:?}");
            assert!(rich.noise.half_ranges <= rich.error.half_ranges * 1.2, "{protocol}: {rich:?}");
            assert_eq!(rich.batches, (protocol == "robust").then_some(16));
            let poor = match protocol {
                "robust" => of(protocol, 0.3).expectation(5_000).unwrap(),
                _ => of(protocol, 0.05).expectation(200).unwrap(),
            };
            assert!(poor.better_alone && !poor.warnings().is_empty(), "{protocol}: {poor:?}");
            assert!(poor.relative_error > 3.0 * rich.relative_error, "{protocol}: {poor:?}");
            // Noised statistics pull towards the middle, robust plans are refused before they come to this.
            assert_eq!(poor.better_zero, ["em", "stream"].contains(&protocol), "{protocol}: {poor:?}");
        }
    }

    #[test]
    fn sizes_are_in_half_ranges_and_in_the_outcomes_unit() {
        let found = of("robust", 3.0).expectation(10_000).unwrap();
        assert!((found.noise.outcome() / found.noise.half_ranges - 35_000.0).abs() < 1e-9);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["noise"]["outcome"].as_f64(), Some(found.noise.outcome()));
        assert_eq!(json["batches"], 4);
        // Points have no outcome, and so no range of it.
        let points = serde_json::to_value(of("em", 3.0).expectation(1000).unwrap()).unwrap();
        assert_eq!(points["noise"]["half_ranges"], serde_json::Value::Null);
        assert!(points["noise"]["outcome"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn a_declared_design_is_what_is_reckoned_with() {
        let plain = of("robust", 1.0).expectation(10_000).unwrap();
        let declared = |design: &str| {
            let columns = format!("{COLUMNS}[sites]\nbatch_rows = 5000\n[privacy.design]\n{design}");
            sites(&text("robust", 1.0, &columns)).expectation(10_000).unwrap()
        };
        let batches = plain.warnings().iter().any(|warning| warning.contains("larger batches"));
        assert_eq!(batches, plain.better_alone && plain.batches > Some(2));
        let noisy = declared("residual = 0.4");
        assert!(noisy.noise.half_ranges > 1.8 * plain.noise.half_ranges, "the cut grows with the residuals");
        assert!(noisy.assumed.iter().any(|line| line.contains("residuals 0.4")), "{:?}", noisy.assumed);
        assert!(declared("correlation = 0.8").noise.half_ranges > 1.2 * plain.noise.half_ranges);
        assert!(declared("corrupted = 0.4").noise.half_ranges > 1.5 * plain.noise.half_ranges);
        assert!(declared("signal = 0.6").error_zero.half_ranges > 1.9 * plain.error_zero.half_ranges);
    }

    #[test]
    fn designs_that_a_protocol_does_not_reckon_with_are_refused() {
        for (protocol, design, says) in [
            ("em", "residual = 0.1", "`privacy.design.residual` has no place"),
            ("em", "correlation = 0.1", "`privacy.design.correlation` has no place"),
            ("robust", "mean_square = 0.5", "`privacy.design.mean_square` has no place"),
            ("em", "coefficients = 0.5", "`privacy.design.coefficients` has no place"),
            ("stream", "corrupted = 0.1", "`privacy.design.corrupted` has no place"),
            ("robust", "corrupted = 0.5", "below .5"),
            ("robust", "signal = 0.0", "must be positive"),
            ("features", "residual = -1.0", "must be positive"),
        ] {
            let text = written(&text_of(protocol, 1.0));
            let text = text.replace("[privacy.design]\n", &format!("[privacy.design]\n{design}\n"));
            let complaint = Study::parse(&text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(complaint.contains(says), "{protocol} {design}: {complaint}");
        }
    }

    #[test]
    fn where_nothing_sound_can_be_said_a_sentence_says_why() {
        let many = sites(&text("features", 1.0, &format!("{COLUMNS}[features]\ncount = 400")));
        assert!(many.expectation(1000).unwrap_err().to_string().contains("more than 300 random features"));
        let few = of("robust", 0.3).expectation(40).unwrap_err().to_string();
        assert!(few.starts_with("a run of so many rows would be refused: ") && few.contains("on 40 rows"), "{few}");
        assert!(of("stream", 1.0).expectation(0).unwrap_err().to_string().contains("--rows"));
    }
}
