//! Workers and a coordinator on one machine: models with something hidden.

use fedreg_common::exit::Exit;
use fedreg_common::methods::em::{self, DEFAULT_SMOOTHING, Estimator, Model, Stated, Update, catoni_scale};
use fedreg_common::report::Report;
use fedreg_common::study::{EmTerms, EstimatorName, Protocol, StudyFile, UpdateName};
use nalgebra::DVector;

use crate::Failure;
use crate::arguments::{Em, EstimatorFlag, HiddenName, UpdateFlag};
use crate::sites::{self, Asked, Rows, Shipped};
use crate::stage::{Place, as_study};

/// Rows that a worker reads at a time.
const BATCH_ROWS: u64 = 10_000;

/// Shipped data of a model, and what is known of them: sigma, tau, and the coefficients that they were made with.
struct Known {
    shipped: Shipped,
    sigma: f64,
    tau: f64,
    beta: [f64; 4],
}

fn known(model: Model) -> Known {
    let shipped = |name, text, outcome| Shipped { name, text, outcome, bounds: "" };
    match model {
        Model::GaussianMixture => Known {
            shipped: shipped("two_groups.csv", include_str!("../data/two_groups.csv"), ""),
            sigma: 1.0,
            tau: 5.0,
            beta: [1.5, -1.0, 0.5, 1.0],
        },
        Model::MixedRegressions => Known {
            shipped: shipped("two_regressions.csv", include_str!("../data/two_regressions.csv"), "y"),
            sigma: 0.5,
            tau: 6.0,
            beta: [1.5, -1.0, 0.5, 1.0],
        },
        Model::MissingCovariates => Known {
            shipped: shipped("missing_covariates.csv", include_str!("../data/missing_covariates.csv"), "y"),
            sigma: 0.5,
            tau: 6.0,
            beta: [1.5, -1.0, 0.5, 1.0],
        },
    }
}

pub(crate) fn run(arguments: &Em, call: String) -> Result<Exit, Failure> {
    let common = &arguments.common;
    common.check()?;
    let model = match arguments.model {
        HiddenName::Gmm => Model::GaussianMixture,
        HiddenName::Mrm => Model::MixedRegressions,
        HiddenName::Rmc => Model::MissingCovariates,
    };
    let explains = model != Model::GaussianMixture;
    let features = match (&arguments.columns, &arguments.features, explains) {
        (Some(names), _, false) => Some((names.as_str(), "--columns")),
        (Some(_), _, true) => {
            return Err(Failure::usage("--columns is for --model gmm; give --outcome and --features"));
        }
        (None, Some(_), false) => return Err(Failure::usage("--model gmm has points and no outcome: give --columns")),
        (None, Some(names), true) => Some((names.as_str(), "--features")),
        (None, None, _) => None,
    };
    if !explains && arguments.outcome.is_some() {
        return Err(Failure::usage("--model gmm has points and no outcome: give --columns"));
    }
    let known = known(model);
    let scene = Place::of(&common.out, common.as_study.as_deref(), &common.places)?;
    let place = scene.folder();
    let asked = Asked {
        data: arguments.data.as_deref(),
        table: &common.table,
        outcome: arguments.outcome.as_deref(),
        features,
        person: None,
        identifies: None,
        lists: if explains { "--features" } else { "--columns" },
        explains,
    };
    let rows = Rows::read(&asked, &known.shipped, place)?;
    let shipped = arguments.data.is_none();
    let outside = |given: Option<f64>, own: f64, flag: &str| {
        given.or(shipped.then_some(own)).ok_or_else(|| {
            Failure::usage(format!(
                "--data needs {flag}: a number that is known from outside the data, as taking it from them is a release"
            ))
        })
    };
    let (sigma, tau) = (outside(arguments.sigma, known.sigma, "--sigma")?, outside(arguments.tau, known.tau, "--tau")?);
    let mut study = sites::study(Protocol::Em, &rows, common, BATCH_ROWS);
    let mut terms = EmTerms {
        model,
        sigma: Some(sigma),
        tau: Some(tau),
        rounds: arguments.rounds,
        estimator: match arguments.estimator {
            EstimatorFlag::Clip => EstimatorName::Clip,
            EstimatorFlag::Catoni => EstimatorName::Catoni,
            EstimatorFlag::None => EstimatorName::None,
        },
        bound: arguments.bound,
        scale: None,
        smoothing: None,
        update: match arguments.update {
            UpdateFlag::Gradient => UpdateName::Gradient,
            UpdateFlag::Direct => UpdateName::Direct,
        },
        step: 1.0,
        start: arguments.start.clone(),
        seed: common.seed,
    };
    if terms.estimator == EstimatorName::Catoni {
        terms.scale = Some(scale(&terms, &study, &rows, (sigma, tau)).map_err(Failure::usage)?);
    }
    study.em = Some(terms);
    let all: Vec<usize> = (0..usize::try_from(rows.count).unwrap_or(0)).collect();
    if let Some(dir) = &common.as_study {
        return as_study((dir, &common.places), &study, None);
    }
    let own = sites::rehearse(place, "demo em", &study, &rows, &all)?;
    let mut more = Vec::new();
    if shipped && rows.features.len() == known.beta.len() {
        more.push(beside(model, &known.beta, &own));
    }
    let merged = Report { role: None, call, ..own };
    sites::show(place, &merged, &study, common.format, &more)
}

/// The scale of the smoothed truncation that costs least with so many rows, which are public.
fn scale(terms: &EmTerms, study: &StudyFile, rows: &Rows, (sigma, tau): (f64, f64)) -> Result<f64, em::EmError> {
    let stated = Stated {
        model: terms.model,
        columns: rows.features.len(),
        sigma,
        tau,
        rounds: terms.rounds,
        estimator: Estimator::None,
        update: Update::Gradient { step: 1.0 },
        averaged: 1,
    };
    let stated = em::Settings::try_from(stated)?.stated().clone();
    let sites = u32::try_from(study.workers.len()).unwrap_or(u32::MAX);
    Ok(catoni_scale(&stated, DEFAULT_SMOOTHING, rows.count, sites, study.site_mu()))
}

/// How far the estimate is from the coefficients that the shipped data were made with.
fn beside(model: Model, beta: &[f64], report: &Report) -> String {
    let estimate = report.coefficients.iter().map(|row| row.estimate.unwrap_or(f64::NAN));
    let estimate = DVector::from_iterator(beta.len(), estimate.chain(std::iter::repeat(f64::NAN)).take(beta.len()));
    let truth = DVector::from_column_slice(beta);
    let sign = if model.sign_is_free() { " up to the sign" } else { "" };
    let shown: Vec<String> = beta.iter().map(f64::to_string).collect();
    format!(
        "the shipped data were made with beta = ({}); the estimate is {:.4} away{sign}, which is {:.1} % of its length",
        shown.join(", "),
        model.distance(&estimate, &truth),
        100.0 * model.distance(&estimate, &truth) / truth.norm()
    )
}
