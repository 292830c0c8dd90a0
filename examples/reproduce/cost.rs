//! How long the robust method takes, one thread.

use std::time::Instant;

use fedreg_common::methods::robust::{Estimate, Estimates, FitSettings, Gram, Method, Start, consolidate, fit};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Run;
use crate::document::{Document, Table};
use crate::research::batches::{BatchLaw, batch, unit_coefficients, unit_direction};
use crate::tables::{number, row};

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("What the robust method costs");
    let repeats = run.size(15, 3);
    let mut fits = Table::new(
        "Milliseconds of one fit with a tenth of the rows corrupted, the best of several. Oracle: numpy on another machine.",
        ["rows x columns", "ols", "score", "lts", "auto"],
    );
    for (n, p, oracle) in [(5000, 100, Some(11.0)), (10_000, 10, Some(7.0)), (10_000, 20, None), (20_000, 20, None)] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let beta = unit_coefficients(&mut rng, p);
        let b = batch(&mut rng, &beta, &BatchLaw::published(n, 0.1));
        let mut taken = Vec::new();
        for start in [Start::Ols, Start::Score, Start::Lts, Start::Auto] {
            let settings = FitSettings { start, intercept: false, ..FitSettings::default() };
            let mut best = f64::INFINITY;
            for _ in 0..if start == Start::Ols { repeats } else { 3 } {
                let clock = Instant::now();
                fit(&b.x, &b.y, &settings)?;
                best = best.min(1e3 * clock.elapsed().as_secs_f64());
            }
            taken.push(best);
        }
        fits.ours(row(&format!("{n} x {p}"), &taken));
        if let Some(oracle) = oracle {
            fits.published(["  oracle".to_owned(), number(oracle)]);
        }
    }
    document.table(fits);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (many, p) = run.size((20_000, 100), (500, 20));
    let names = ["pivot", "refine", "geomed", "cmedian", "trimmed", "filter"];
    let mut table = Table::new(
        format!("Seconds of a consolidation of estimates of {p} coefficients, two fifths of them lies"),
        std::iter::once("estimates").chain(names).collect::<Vec<_>>(),
    );
    for (m, with_gram) in [(20, true), (many, false), (many, true)] {
        let beta = unit_coefficients(&mut rng, p);
        let gram = DMatrix::identity(p, p) * 4500.0;
        let mut set = Estimates::new(p, with_gram);
        for i in 0..m {
            let away = if i % 5 < 2 { 3.0 } else { 0.047 };
            let estimate = &beta + unit_direction(&mut rng, p) * away;
            set.insert(Estimate {
                worker: "worker".into(),
                batch: i as u64,
                coefficients: estimate.iter().copied().collect(),
                gram: with_gram.then(|| Gram::from_matrix(&gram)),
                nobs: 5000,
                kept: 4450,
                scale: 0.316,
                cleaned: true,
            })?;
        }
        let mut taken = Vec::new();
        for name in names {
            let clock = Instant::now();
            consolidate(&set, &name.parse::<Method>()?.into())?;
            taken.push(clock.elapsed().as_secs_f64());
        }
        table.ours(row(&format!("{m}{}", if with_gram { " with Grams" } else { "" }), &taken));
    }
    document.table(table);
    Ok(document)
}
