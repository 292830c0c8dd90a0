//! Error against the number of training rows, with two hundred features more than rows as in the source.

use super::counts::{EXACT, GAMMA, GAUSS, METHODS, PRIVATE_SGD, Split, errors};
use super::{Function, simulation};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::sweep::Sweep;
use crate::tables::{medians, number};

/// Features beyond the number of training rows.
const MORE: usize = 200;

pub(super) fn tables(run: &Run, document: &mut Document, functions: [(&str, Function); 2]) -> anyhow::Result<()> {
    document.heading("Error against the number of training rows");
    document.paragraph(format!(
        "As above, {MORE} features more than training rows and as many test rows, as in the source's third figure. It says that errors decay with the rows, that its Algorithm 1 is better \
         than private SGD where rows are scarce, and better than Gamma noise in all experiments. Its outcomes are divided by their norm, so that the error of every prediction falls \
         as one over the rows, that of the mean too; here errors are over that of the mean."
    ));
    let tested = run.size(200, 40);
    let values: &[f64] = run.size(&[100.0, 200.0, 400.0, 800.0], &[40.0, 80.0]);
    let seeds = run.seeds(10);
    for (name, function) in functions {
        for (sd, of) in [(40.0, "40"), (0.5, "05")] {
            let sweep = Sweep {
                name: format!("rows-{name}-{of}"),
                caption: format!(
                    "{name}: test mean squared error over that of the mean, {MORE} features more than rows, frequency sd {}, epsilon 1, median of {seeds} draws",
                    number(sd)
                ),
                over: Axis::logarithmic("training rows"),
                values,
                measured: Axis::logarithmic("error over that of the mean"),
                methods: &METHODS,
            };
            let found = sweep.run(document, |rows| {
                let rows = rows as usize;
                medians(seeds, |seed| {
                    let (x, y) = simulation(function, rows + tested, 900 + seed);
                    let part = |first, count| (x.rows(first, count).into_owned(), y.rows(first, count).into_owned());
                    let split = Split { train: part(0, rows), test: part(rows, tested) };
                    errors(&split, rows + MORE, sd, seed)
                })
            })?;
            said(document, &format!("{name}, sd {}", number(sd)), &found);
        }
    }
    Ok(())
}

fn said(document: &mut Document, about: &str, found: &[Vec<f64>]) {
    let last = found[EXACT].len() - 1;
    let ends = |at: usize| format!("{} to {}", number(found[at][0]), number(found[at][last]));
    for (at, what) in [(EXACT, "without noise"), (GAUSS, "with the source's noise")] {
        document.finding(
            found[at].windows(2).all(|pair| pair[1] < pair[0]),
            format!(
                "{about}: the test error over that of the mean decays with the training rows, {what}: from {}",
                ends(at)
            ),
        );
    }
    let private = |at: usize| PRIVATE_SGD.map(|method| found[method][at]).into_iter().fold(f64::INFINITY, f64::min);
    document.finding(
        found[GAUSS][0] < private(0),
        format!(
            "{about}: Algorithm 1, which is not private, is better than SGD that is where rows are scarce: {} against {}",
            number(found[GAUSS][0]),
            number(private(0))
        ),
    );
    document.finding(
        (0..=last).all(|at| found[GAUSS][at] < found[GAMMA][at]),
        format!("{about}: Algorithm 1 is better than Gamma noise at every number of rows"),
    );
}
