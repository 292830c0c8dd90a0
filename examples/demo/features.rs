//! Workers and a coordinator on one machine: a function of a few columns by random features.

use fedreg_common::exit::Exit;
use fedreg_common::methods::features::default_count;
use fedreg_common::report::Report;
use fedreg_common::study::{FeaturesTerms, Protocol, Release};
use fedreg_party::read::Written;
use fedreg_party::worker::predict::{csv, predictions};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::Failure;
use crate::arguments::{Features, ModeName, ReleaseFlag};
use crate::sites::{self, Asked, FROM_DATA, Rows, Shipped, shown_raw};
use crate::stage::{Place, absolute, as_study, cannot_write};

/// Rows that a worker reads at a time.
const BATCH_ROWS: u64 = 10_000;

const SHIPPED: Shipped = Shipped {
    name: "costs.csv",
    text: include_str!("../data/costs.csv"),
    outcome: "cost",
    bounds: include_str!("../data/costs.bounds.toml"),
};

pub(crate) fn run(arguments: &Features, call: String) -> Result<Exit, Failure> {
    let common = &arguments.common;
    common.check()?;
    if arguments.holdout >= 1.0 {
        return Err(Failure::usage("--holdout must be below 1"));
    }
    let private = common.mode == ModeName::Private;
    if private && arguments.release == ReleaseFlag::None {
        return Err(Failure::usage(
            "--release none sends statistics without noise: use --mode plain, or another release",
        ));
    }
    let scene = Place::of(&common.out, common.as_study.as_deref(), &common.places)?;
    let place = scene.folder();
    let asked = Asked {
        data: arguments.data.as_deref(),
        table: &common.table,
        outcome: arguments.outcome.as_deref(),
        features: arguments.features.as_deref().map(|names| (names, "--features")),
        person: None,
        identifies: None,
        lists: "--features",
        explains: true,
    };
    let rows = Rows::read(&asked, &SHIPPED, place)?;
    let mut study = sites::study(Protocol::Features, &rows, common, BATCH_ROWS);
    let (columns, from_data) = rows.columns(common)?;
    study.columns = columns;
    let mut shared: Vec<usize> = (0..usize::try_from(rows.count).unwrap_or(0)).collect();
    let mut held: Vec<usize> = Vec::new();
    if arguments.holdout > 0.0 {
        shared.shuffle(&mut ChaCha8Rng::seed_from_u64(common.seed));
        held = shared.split_off(shared.len() - (arguments.holdout * shared.len() as f64) as usize);
        shared.sort_unstable();
    }
    let default = match private {
        true => default_count(shared.len() as u64, study.site_mu()) as u32,
        false => FeaturesTerms::default().count,
    };
    study.features = Some(FeaturesTerms {
        count: arguments.count.unwrap_or(default),
        frequency_sd: arguments.frequency_sd,
        seed: common.seed,
        release: match arguments.release {
            ReleaseFlag::Statistics | ReleaseFlag::None => Release::Statistics,
            ReleaseFlag::Output => Release::Output,
        },
        lambda: arguments.lambda,
        consolidation: arguments.consolidation.clone(),
    });
    if let Some(dir) = &common.as_study {
        return as_study((dir, &common.places), &study, None);
    }
    let own = sites::rehearse(place, "demo features", &study, &rows, &shared)?;
    let mut merged = Report { role: None, call, ..own };
    if from_data {
        merged.notes.push(FROM_DATA.to_string());
    }
    let failed = |failure: fedreg_party::service::Failure| {
        Failure::new(failure.exit(), anyhow::anyhow!("{}", fedreg_party::service::chain(&failure)))
    };
    let raw = shown_raw(common, arguments.data.as_deref());
    if !held.is_empty() && !raw {
        merged.notes.push(format!(
            "{} rows were held out, but an error on held-out rows would be a number without noise of your file: plain mode and the shipped \
             data have it",
            held.len()
        ));
    }
    if let (Some(function), false, true) = (&merged.function, held.is_empty(), raw) {
        place.write("holdout.csv", &rows.file(held.iter().copied())?).map_err(cannot_write)?;
        let found = predictions(function, &place.path().join("holdout.csv"), Written::default()).map_err(failed)?;
        let outcome = rows.numbers(&rows.outcome).unwrap_or_default();
        let [low, high] = study.columns.get(&rows.outcome).and_then(|terms| terms.range).unwrap_or([0.0, 1.0]);
        let scaled = |value: f64| (value.clamp(low, high) - low) / (high - low);
        // A row with a missing value has no prediction, and no part in the error.
        let pairs = found.iter().zip(&held).map(|(found, row)| (scaled(*found), scaled(outcome[*row])));
        let pairs: Vec<(f64, f64)> = pairs.filter(|(found, truth)| !found.is_nan() && !truth.is_nan()).collect();
        let known: f64 = shared.iter().map(|row| scaled(outcome[*row])).sum::<f64>() / shared.len() as f64;
        let mean =
            |errors: &mut dyn Iterator<Item = f64>| errors.map(|error| error * error).sum::<f64>() / pairs.len() as f64;
        let ours = mean(&mut pairs.iter().map(|(found, truth)| found - truth));
        let none = mean(&mut pairs.iter().map(|(_, truth)| known - truth));
        merged.notes.push(format!(
            "on {} rows that no worker had the mean squared error is {ours:.5} in units of the outcome's range; always predicting the mean \
             has {none:.5} (seen by the demo only, where all rows are in one place)",
            pairs.len()
        ));
    }
    let mut more = Vec::new();
    if let (Some(function), Some(file)) = (&merged.function, &arguments.predict) {
        let written = common.table.written().map_err(Failure::usage)?;
        let found = predictions(function, &absolute(file)?, written).map_err(failed)?;
        place.write("predictions.csv", csv(&found).as_bytes()).map_err(cannot_write)?;
        let without = match found.iter().filter(|value| value.is_nan()).count() {
            0 => String::new(),
            rows => format!("; {rows} have no prediction (NA), as a value is missing or a level unknown"),
        };
        more.push(format!("{} rows of {} were predicted into predictions.csv{without}", found.len(), file.display()));
    }
    sites::show(place, &merged, &study, common.format, &more)
}
