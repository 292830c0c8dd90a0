//! The mechanism `crossprod`: errors of what opens with the noise of both parties, beside a curator, residuals and nothing exchanged.

use anyhow::Context as _;
use fedreg_common::glm;
use fedreg_common::privacy::accountant::gaussian_mu;
use fedreg_common::privacy::sampler::NoisePool;
use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::Run;
use crate::chart::{Axis, Chart, Line};
use crate::document::{Document, Table};
use crate::evidence::{Coverage, held};
use crate::privacy::{DELTA, EPSILONS};
use crate::research::blocks::{Blocks, Parties};
use crate::research::logistic::{DrawnRows, SLOPES};
use crate::research::private::{TableHolder, TwoParties};
use crate::tables::{each, line, medians, number, row};

/// Correlation of all pairs of columns.
const CORRELATION: f64 = 0.3;

/// Data sets of a median that is judged, of a point of a plot beside, and of a coverage.
const JUDGED: u64 = 50;
const SHOWN: u64 = 11;
const COVERED: u64 = 100;

/// Rows of the plots.
const ROWS: [usize; 5] = [1000, 3000, 10_000, 30_000, 100_000];

/// By scheme the errors at each epsilon; of nothing exchanged they are the same.
type Errors = Vec<[f64; 3]>;

/// What was measured at a number of rows.
struct Measured {
    rows: usize,
    seeds: u64,
    errors: Errors,
    /// As planned from public facts: by the mechanism with the outcome at both and at Alice.
    planned: [[f64; 3]; 2],
}

/// What is asked of a family, and what the prototype measured.
struct Family {
    name: &'static str,
    schemes: &'static [&'static str],
    measure: fn(usize, u64) -> anyhow::Result<Measured>,
    asked: &'static [(usize, [f64; 3])],
    /// By rows: the scheme's place, and the oracle's medians.
    oracle: &'static [(usize, usize, [f64; 3])],
}

const FAMILIES: [Family; 3] = [
    Family {
        name: "gaussian",
        schemes: &[
            "crossprod, outcome at both",
            "crossprod, outcome at Alice",
            "trusted curator (simulated)",
            "nothing exchanged, no noise",
            "residual, 1 round",
        ],
        measure: gaussian,
        asked: &[(10_000, [0.08, 0.03, 0.011])],
        oracle: &[
            (10_000, 0, [0.0694, 0.0254, 0.0091]),
            (10_000, 1, [0.0780, 0.0287, 0.0102]),
            (10_000, 2, [0.0638, 0.0239, 0.0086]),
            (100_000, 0, [0.0071, 0.0027, 0.0010]),
            (100_000, 1, [0.0073, 0.0027, 0.0010]),
            (100_000, 2, [0.0064, 0.0024, 0.0009]),
        ],
    },
    Family {
        name: "binomial",
        schemes: OF_TABLE_AND_GRADIENTS,
        measure: binomial,
        asked: &[(10_000, [0.11, 0.035, 0.013]), (100_000, [0.010, 0.004, 0.0015])],
        oracle: &[
            (10_000, 0, [0.0764, 0.0259, 0.0084]),
            (10_000, 1, [0.1235, 0.0385, 0.0160]),
            (100_000, 0, [0.0070, 0.0023, 0.0010]),
            (100_000, 1, [0.0097, 0.0039, 0.0021]),
        ],
    },
    // What is asked for: 30 % beyond a prototype that left in what the cut of means moves.
    Family {
        name: "poisson",
        schemes: OF_TABLE_AND_GRADIENTS,
        measure: poisson,
        asked: &[(10_000, [0.218, 0.0845, 0.0399]), (100_000, [0.0351, 0.0296, 0.0293])],
        oracle: &[(10_000, 0, [0.1901, 0.0700, 0.0263]), (100_000, 0, [0.0191, 0.0091, 0.0064])],
    },
];

const OF_TABLE_AND_GRADIENTS: &[&str] = &[
    "crossprod, outcome at both",
    "crossprod, outcome at Alice",
    "trusted curator (simulated)",
    "nothing exchanged, no noise",
];

const HELD_BY: [&str; 2] = ["both", "alice"];

pub(crate) fn tables(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Noise in the shares before anything opens: the mechanism crossprod");
    document.paragraph(
        "Two parties with five columns each, correlation 0.3, delta 1e-5: the median of |b - b_pooled| / |b_pooled|, without intercepts. \
         Gaussian rows go through real masks, ledgers and noise without the conversation, binomial and poisson ones through whole sessions \
         with a dealer. Counts, cut at 8, have half of the slopes of events. A curator, whom both would trust with their rows, releases the same tables (and gradients) with noise for a person's row in \
         both blocks at once; its noise is continuous. Oracle: numpy, floating-point simulations of what opens; its binomial curator divides the \
         budget in another way and is left out.",
    );
    for family in &FAMILIES {
        let sizes: &[usize] = run.size(&ROWS[..], &ROWS[..1]);
        let mut measured = Vec::new();
        for rows in sizes {
            let judged = family.asked.iter().any(|(asked, _)| asked == rows);
            measured.push((family.measure)(*rows, run.seeds(if judged { JUDGED } else { SHOWN }))?);
        }
        for one in measured.iter().filter(|one| run.quick || [10_000, 100_000].contains(&one.rows)) {
            errors_table(run, document, family, one);
        }
        plot(document, family, &measured);
    }
    among_three(run, document)?;
    coverage(run, document)
}

/// Columns of three parties, and how far their error may be from that of two.
const THREE: [usize; 3] = [4, 3, 3];
const UNIT: Blocks = Blocks { widths: &THREE, unit: true };
const ALIKE: Blocks = Blocks { widths: &THREE, unit: false };
const MOST_OF_TWO: f64 = 1.6;

/// The same ten columns at three parties, gaussian, beside two of five and a curator.
fn among_three(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let (rows, seeds) = (run.size(10_000, 1000), run.seeds(JUDGED));
    let [mut three, mut alike, mut two, mut curator, mut planned] = [const { [f64::NAN; 3] }; 5];
    for (at, epsilon) in EPSILONS.into_iter().enumerate() {
        let of_three = Parties::study(UNIT, CORRELATION, epsilon)?;
        let of_alike = Parties::study(ALIKE, CORRELATION, epsilon)?;
        planned[at] = of_three.outlook(&of_three.private_plan(rows as u64)?)?.relative_error;
        let of_two = TwoParties::crossprod_study(CORRELATION, epsilon, "both")?;
        let errors = medians(seeds, |seed| {
            let data = TwoParties::draw(rows, CORRELATION, seed)?;
            let mut random = ChaCha8Rng::seed_from_u64(4000 + seed);
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            let curated = data.solve_noised_table(TableHolder::Curator, gaussian_mu(epsilon, DELTA), &mut normal);
            Ok(vec![
                Parties::draw(UNIT, rows, CORRELATION, seed)?.error_under(&of_three)?,
                Parties::draw(ALIKE, rows, CORRELATION, seed)?.error_under(&of_alike)?,
                data.error(&data.opened_under(&of_two)?.0),
                data.error(&curated.context("singular table")?),
            ])
        })?;
        (three[at], alike[at], two[at], curator[at]) = (errors[0], errors[1], errors[2], errors[3]);
    }
    let caption =
        format!("gaussian, the same columns at three parties, 4+3+3, outcome at all, {rows} rows, median of {seeds}");
    let mut table = Table::new(caption, ["scheme", "epsilon 1", "3", "10"]);
    table.ours(row("crossprod, three parties, rows of norm 1", &three));
    table.ours(row("  as planned", &planned));
    table.ours(row("crossprod, three parties, columns as those of two", &alike));
    table.ours(row("crossprod, two parties, 5+5", &two));
    table.ours(row("trusted curator (simulated)", &curator));
    document.table(table);
    for (of, rows) in [(three, "rows of norm 1"), (alike, "columns as those of two")] {
        for ((epsilon, three), two) in EPSILONS.iter().zip(of).zip(two) {
            let words = format!("three parties, {rows}, within {MOST_OF_TWO} of two at epsilon {epsilon}");
            if !run.quick {
                document.target(three <= MOST_OF_TWO * two, format!("{words}: {}", number(three / two)));
            }
        }
    }
    Ok(())
}

fn errors_table(run: &Run, document: &mut Document, family: &Family, measured: &Measured) {
    let Measured { rows, seeds, errors, planned } = measured;
    let caption = format!("{}, {rows} rows, median of {seeds}", family.name);
    let mut table = Table::new(caption, ["scheme", "epsilon 1", "3", "10"]);
    for (at, (name, errors)) in family.schemes.iter().zip(errors).enumerate() {
        table.ours(row(name, errors));
        if let Some(planned) = planned.get(at) {
            table.ours(row("  as planned", planned));
        }
        let oracle = family.oracle.iter().find(|(of, scheme, _)| (of, *scheme) == (rows, at));
        if let Some((_, _, oracle)) = oracle {
            table.published(row("  oracle", oracle));
        }
    }
    document.table(table);
    if let Some((_, asked)) = family.asked.iter().find(|(of, _)| of == rows) {
        for ((epsilon, largest), measured) in EPSILONS.iter().zip(asked).zip(errors[0]) {
            let what = format!("{} crossprod, {rows} rows, epsilon {epsilon}", family.name);
            run.target(document, measured, *largest, &what);
        }
    }
}

fn plot(document: &mut Document, family: &Family, measured: &[Measured]) {
    let rows: Vec<f64> = measured.iter().map(|one| one.rows as f64).collect();
    let of = |scheme: usize, epsilon: usize| -> Vec<f64> {
        measured.iter().map(|one| one.errors[scheme][epsilon]).collect()
    };
    let by_epsilon = |scheme: usize, name: &str, first: usize| -> Vec<Line> {
        let line = |(at, epsilon): (usize, &f64)| {
            line(&format!("{name}, epsilon {epsilon}"), first + at, &rows, &of(scheme, at), false)
        };
        EPSILONS.iter().enumerate().map(line).collect()
    };
    let mut lines = by_epsilon(0, "crossprod", 0);
    lines.push(line("nothing exchanged", 3, &rows, &of(3, 0), false));
    // Residuals where there are such, or else the curator.
    let (beside, name) = if family.schemes.len() > 4 { (4, "residual") } else { (2, "curator") };
    lines.extend(by_epsilon(beside, name, 4));
    let chart = Chart {
        title: format!("Relative error against rows, {}", family.name),
        x: Axis::logarithmic("rows"),
        y: Axis::logarithmic("relative error"),
        lines,
    };
    document.figure(
        format!("rows-{}", family.name),
        chart,
        format!("{}: medians, outcome at both, five columns a party, correlation 0.3.", family.name),
    );
}

/// Values of each scheme, a column an epsilon.
fn schemes(by_epsilon: &[Vec<f64>]) -> Errors {
    let count = by_epsilon.first().map_or(0, Vec::len);
    (0..count).map(|at| std::array::from_fn(|epsilon| by_epsilon[epsilon][at])).collect()
}

fn gaussian(rows: usize, seeds: u64) -> anyhow::Result<Measured> {
    let (mut by_epsilon, mut planned) = (Vec::new(), [[f64::NAN; 3]; 2]);
    for (at, epsilon) in EPSILONS.into_iter().enumerate() {
        let mut studies = Vec::new();
        for (held_by, planned) in HELD_BY.iter().zip(&mut planned) {
            let study = TwoParties::crossprod_study(CORRELATION, epsilon, held_by)?;
            planned[at] = study.outlook(&study.private_plan(rows as u64)?)?.relative_error;
            studies.push(study);
        }
        let residual = TwoParties::study(CORRELATION, epsilon, 1)?;
        by_epsilon.push(medians(seeds, |seed| {
            let data = TwoParties::draw(rows, CORRELATION, seed)?;
            let mut errors = Vec::new();
            for study in &studies {
                errors.push(data.error(&data.opened_under(study)?.0));
            }
            let mut random = ChaCha8Rng::seed_from_u64(4000 + seed);
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            let curated = data.solve_noised_table(TableHolder::Curator, gaussian_mu(epsilon, DELTA), &mut normal);
            errors.push(data.error(&curated.context("singular table")?));
            errors.push(data.error(&data.alone().context("dependent columns")?));
            errors.push(data.error(&data.exchange_under(&residual)?));
            Ok(errors)
        })?);
    }
    Ok(Measured { rows, seeds, errors: schemes(&by_epsilon), planned })
}

fn binomial(rows: usize, seeds: u64) -> anyhow::Result<Measured> {
    by_gradients(glm::Family::Binomial, rows, seeds)
}

fn poisson(rows: usize, seeds: u64) -> anyhow::Result<Measured> {
    by_gradients(glm::Family::Poisson, rows, seeds)
}

fn by_gradients(family: glm::Family, rows: usize, seeds: u64) -> anyhow::Result<Measured> {
    let (mut by_epsilon, mut planned) = (Vec::new(), [[f64::NAN; 3]; 2]);
    for (at, epsilon) in EPSILONS.into_iter().enumerate() {
        let mut studies = Vec::new();
        for (held_by, planned) in HELD_BY.iter().zip(&mut planned) {
            let study = DrawnRows::study(family, epsilon, held_by)?;
            planned[at] = study.outlook(&study.private_plan(rows as u64)?)?.relative_error;
            studies.push(study);
        }
        by_epsilon.push(medians(seeds, |seed| {
            let data = DrawnRows::draw(family, rows, 100 + seed)?;
            let mut errors = Vec::new();
            for study in &studies {
                errors.push(data.error(&data.run(study, [NoisePool::new(), NoisePool::new()])?.0));
            }
            let mut random = ChaCha8Rng::seed_from_u64(4000 + seed);
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            let curated = data.curated(gaussian_mu(epsilon, DELTA), &mut normal);
            errors.push(data.error(&curated.context("no fit of what a curator releases")?));
            errors.push(data.error(&data.alone().context("no finite maximum")?));
            Ok(errors)
        })?);
    }
    Ok(Measured { rows, seeds, errors: schemes(&by_epsilon), planned })
}

/// How often the 95 % intervals of the families that have some hold the coefficients that the rows were drawn with.
fn coverage(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let (sets, rows) = (run.seeds(COVERED), run.size(10_000, 1000));
    // Outcomes are cut, so the coefficients of the law are those of very many rows.
    let many = TwoParties::draw(run.size(400_000, 20_000), CORRELATION, 1_000_003)?;
    let law = DVector::from_column_slice(&SLOPES);
    let mut table = Table::new(
        format!(
            "95 % intervals, {rows} rows, {sets} data sets: per cent that hold the coefficient of the law, and the least and the most of one"
        ),
        ["fit", "epsilon 1", "3", "10"],
    );
    let mut statements = Document::new("");
    let with_intervals = FAMILIES.iter().filter(|family| family.name != "poisson");
    for (family, held_by) in with_intervals.flat_map(|family| HELD_BY.map(|held_by| (family, held_by))) {
        let mut cells = vec![format!("{}, outcome at {held_by}", family.name)];
        for epsilon in EPSILONS {
            let found = match family.name {
                "gaussian" => {
                    let study = TwoParties::crossprod_study(CORRELATION, epsilon, held_by)?;
                    each(sets, |seed| {
                        let data = TwoParties::draw(rows, CORRELATION, 5000 + seed)?;
                        let (slopes, errors) = data.opened_under(&study)?;
                        Ok(held(&slopes, &errors, many.pooled()))
                    })?
                }
                _ => {
                    let study = DrawnRows::study(glm::Family::Binomial, epsilon, held_by)?;
                    each(sets, |seed| {
                        let data = DrawnRows::draw(glm::Family::Binomial, rows, 5000 + seed)?;
                        let (slopes, errors) = data.run(&study, [NoisePool::new(), NoisePool::new()])?;
                        Ok(held(&slopes, &errors.context("no standard errors")?, &law))
                    })?
                }
            };
            let coverage = Coverage::of(&found);
            cells.push(coverage.cell());
            if !run.quick && sets >= COVERED {
                let share = coverage.mean();
                statements.target(
                    (0.92..=0.97).contains(&share),
                    format!(
                        "{}, outcome at {held_by}, epsilon {epsilon}: 92 to 97 % of the intervals hold, {} % did",
                        family.name,
                        number(100.0 * share)
                    ),
                );
            }
        }
        table.ours(cells);
    }
    document.table(table);
    document.parts.extend(statements.parts);
    Ok(())
}
