//! Fits of small shapes: one to three columns a party, few rows, and rows that no group of eight, four or two divides.

use super::*;
use crate::fit::Coefficient;
use crate::secure::open::Limits;

const FAMILIES: [&str; 3] = ["gaussian", "binomial", "poisson"];

const OPEN: &str = "[sealed]\nopens = \"both\"\n";

/// What a study may say beside its columns, after the keys of `[model]`.
const BESIDE: [&str; 10] = [
    "",
    "intercept = false\n",
    "[offset]\ncolumn = \"o\"\n",
    "[weights]\ncolumn = \"w\"\n",
    OPEN,
    "[fit]\ncoefficients = \"own\"\n",
    "[penalty]\nlambda = [0.3, 0.03]\nalpha = 0.0\n",
    "[penalty]\nlambda = [0.3, 0.03]\nalpha = 1.0\n",
    "[inference]\nallowed = false\n",
    "[offset]\ncolumn = \"o\"\nheld_by = \"alice\"\n",
];

struct Shape {
    family: &'static str,
    columns: [usize; 2],
    rows: usize,
    more: &'static str,
}

impl Shape {
    fn study(&self, mode: &str) -> Arc<Study<Vertical>> {
        let [alice, bob] = ["a", "b"].map(|party| {
            let columns = self.columns[usize::from(party == "b")];
            (1..=columns).map(|at| format!("\"{party}{at}\"")).collect::<Vec<_>>().join(", ")
        });
        let more = if mode == "sealed" { self.more } else { self.more.trim_end_matches(OPEN) };
        Arc::new(vertical(&format!(
            "id = \"s\"\nmode = \"{mode}\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [{alice}]\n\
             [parties.bob]\ncertificate = \"bob\"\ncolumns = [{bob}]\n[model]\nfamily = \"{}\"\n{more}",
            self.family
        )))
    }

    /// Columns of a party, the outcome, weights and an offset.
    fn frame(&self, role: Role) -> Frame {
        let mut rng = ChaCha8Rng::seed_from_u64((self.rows * 100 + self.columns[0] * 10 + self.columns[1]) as u64);
        let mut columns: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
        for (party, count) in self.columns.into_iter().enumerate() {
            for at in 0..count {
                // Without an intercept columns with a large mean take its place, several of them nearly the same.
                let mean = if self.more.contains("intercept = false") { 0.0 } else { [0.0, 30.0, -2.0][at] };
                let scale = [1.0, 5.0, 0.01][(at + party) % 3];
                columns[party].push((0..self.rows).map(|_| mean + scale * rng.random_range(-1.0..1.0)).collect());
            }
        }
        let outcome = (0..self.rows)
            .map(|row| {
                let eta: f64 = columns.iter().flatten().map(|column| 0.02 * column[row]).sum::<f64>();
                let noise: f64 = rng.random_range(-1.0..1.0);
                match self.family {
                    "gaussian" => 3.0 + eta + noise,
                    "binomial" => f64::from(u8::from(noise + 0.1 * eta > 0.0)),
                    _ => (2.0 + 0.2 * eta + 2.0 * noise).floor().max(0.0),
                }
            })
            .collect();
        let party = usize::from(role == Role::Bob);
        let mut named: Vec<(String, Vec<f64>)> = columns[party]
            .drain(..)
            .enumerate()
            .map(|(at, column)| (format!("{}{}", ["a", "b"][party], at + 1), column))
            .collect();
        named.push(("y".into(), outcome));
        named.push(("w".into(), (0..self.rows).map(|row| (1 + row % 3) as f64).collect()));
        named.push(("o".into(), (0..self.rows).map(|row| 0.3 * (row as f64).cos()).collect()));
        let mut places = Places::default();
        (1..=self.rows as u64).for_each(|row| places.push(Place::Row(row)));
        let columns = named.into_iter().map(|(name, values)| {
            let mut builder = ColumnBuilder::new(&name);
            for (row, value) in values.into_iter().enumerate() {
                builder.number(value, Place::Row(row as u64 + 1)).unwrap();
            }
            builder.finish().unwrap()
        });
        Frame::new(columns.collect(), None, places).unwrap()
    }

    /// The sealed fits of both parties, and the plain ones.
    fn fits(&self) -> [[VerticalFit; 2]; 2] {
        let limits = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, opened_share: 1e6 };
        let policy = Policy { limits, ..Policy::default() };
        let start = |study: &Arc<Study<Vertical>>, role| {
            Prepared::new(Arc::clone(study), role, policy.clone(), self.frame(role)).unwrap()
        };
        let study = self.study("plain");
        let [mut alice, mut bob] =
            [Role::Alice, Role::Bob].map(|role| VerticalSession::new(start(&study, role), opening(role)));
        let plain = pair::run(&mut alice, &mut bob, Faults::NONE, |_, _| {});
        let study = self.study("sealed");
        let [mut alice, mut bob] = [Role::Alice, Role::Bob]
            .map(|role| SealedSession::new(start(&study, role), opening(role), Box::new(OneRun)));
        let dealer = dealer(&study, RUN, |_, _| {});
        [super::fits(pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _| {}, dealer)), super::fits(plain)]
    }
}

/// Every number of a fit with its name and the least that it is compared to.
fn numbers(fit: &VerticalFit) -> Vec<(String, Option<f64>, f64)> {
    let largest = |of: fn(&Coefficient) -> Option<f64>| fit.coefficients.iter().filter_map(of).fold(1e-6, f64::max);
    let size = largest(|row| row.std_error.or(row.estimate.map(f64::abs)));
    let mut numbers = Vec::new();
    for row in &fit.coefficients {
        numbers.push((format!("estimate of {}", row.term), row.estimate, row.std_error.unwrap_or(size)));
        numbers.push((format!("error of {}", row.term), row.std_error, 0.0));
    }
    let of = &fit.statistics;
    let null = of.null_deviance.unwrap();
    for (name, value) in [
        ("deviance", of.deviance),
        ("null deviance", of.null_deviance),
        ("log likelihood", of.log_lik),
        ("aic", of.aic),
        ("dispersion", of.dispersion),
        ("r squared", of.r_squared),
    ] {
        numbers.push((name.to_string(), value, if name == "r squared" { 1.0 } else { null }));
    }
    let path = fit.path.iter().flatten();
    numbers.extend(path.map(|point| (format!("deviance at {}", point.lambda), Some(point.deviance), null)));
    numbers
}

/// The first thing in which two fits differ by more than rounding.
fn difference(sealed: &VerticalFit, plain: &VerticalFit) -> Option<String> {
    if sealed.termination != plain.termination {
        return Some(format!("{}, plain: {}", sealed.termination, plain.termination));
    }
    let (ours, theirs) = (numbers(sealed), numbers(plain));
    assert_eq!(ours.len(), theirs.len());
    ours.into_iter().zip(theirs).find_map(|((name, ours, _), (_, theirs, unit))| match (ours, theirs) {
        (Some(a), Some(b)) if (a - b).abs() <= 1e-6 * b.abs().max(unit) => None,
        (None, None) => None,
        _ => Some(format!("{name}: {ours:?}, plain: {theirs:?}")),
    })
}

#[test]
fn every_small_shape_is_fitted_as_in_plain_mode() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (alice, bob) in (1..=3).flat_map(|alice| (1..=3).map(move |bob| (alice, bob))) {
        for (at, family) in FAMILIES.into_iter().enumerate() {
            for rest in 0..8 {
                // Each family meets each of these with each rest of eight over the shapes.
                for more in [BESIDE[0], BESIDE[1 + (3 * alice + bob + at + rest) % (BESIDE.len() - 1)]] {
                    let shape = Shape { family, columns: [alice, bob], rows: 10 + 5 * (alice + bob) + rest, more };
                    let [sealed, plain] = shape.fits();
                    let different = sealed.iter().zip(&plain).find_map(|(sealed, plain)| difference(sealed, plain));
                    compared += 1;
                    wrong.extend(
                        different.map(|of| {
                            format!("{family}, {alice} + {bob} columns, {} rows, {more:?}: {of}", shape.rows)
                        }),
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
