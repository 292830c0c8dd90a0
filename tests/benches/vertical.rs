//! What the vertical method spends its time on: a cross-product matrix, the fit of one block, one exchange of a run.
//!
//! `cargo bench -p fedreg-tests`. Throughput is in rows.

// Benchmark code may unwrap: a failed unwrap ends the benchmark.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::linalg;
use fedreg_common::methods::vertical::block::{Block, Outcome};
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::methods::vertical::session::VerticalSession;
use fedreg_common::session::{Session, Turn};
use fedreg_common::study::{Study, Vertical};
use fedreg_tests::vertical::{numeric, session};
use nalgebra::DMatrix;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

const ROWS: usize = 100_000;
const COLUMNS: usize = 50;

/// Columns that share a factor, and an outcome of zeros and ones that depends on all of them.
fn data(columns: usize, seed: u64) -> (DMatrix<f64>, Vec<f64>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut x = DMatrix::zeros(ROWS, columns);
    let mut event = Vec::with_capacity(ROWS);
    for mut row in x.row_iter_mut() {
        let factor: f64 = random.sample(StandardNormal);
        row.iter_mut().for_each(|x| *x = 0.6 * factor + random.sample::<f64, _>(StandardNormal));
        let eta = 0.2 * row.sum();
        event.push(f64::from(u8::from(random.random::<f64>() < Family::Binomial.mean(eta))));
    }
    (x, event)
}

fn gram(criterion: &mut Criterion) {
    let (x, _) = data(COLUMNS, 1);
    let mut group = criterion.benchmark_group("gram");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("100000 x 50", |bench| bench.iter(|| linalg::gram(black_box(&x), None)));
    let weights = vec![0.25; ROWS];
    group.bench_function("100000 x 50, weighted", |bench| bench.iter(|| linalg::gram(black_box(&x), Some(&weights))));
}

fn solve(criterion: &mut Criterion) {
    let (x, y) = data(COLUMNS, 2);
    let mut group = criterion.benchmark_group("solve");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    for family in [Family::Gaussian, Family::Binomial] {
        let outcome = Outcome { family, y: y.clone(), weights: None, offset: None, hidden: None, spread: 0.5 };
        let fresh = || Block::new(x.clone(), true, true, outcome.clone());
        group.bench_function(format!("one block of 100000 x 50, {family}"), |bench| {
            bench.iter_batched(fresh, |mut block| block.solve(1e-10, None).certificate, BatchSize::LargeInput);
        });
    }
}

/// Both parties just before the exchange that is measured, with the message that starts it.
fn midway(
    study: &Arc<Study<Vertical>>,
    blocks: [&DMatrix<f64>; 2],
    y: &[f64],
    exchanges: usize,
) -> (VerticalSession, Message) {
    let start = |role, names: &[String], x: &DMatrix<f64>| {
        let mut names = names.to_vec();
        names.push("y".to_string());
        let columns: Vec<&[f64]> = (0..x.ncols()).map(|j| &x.as_slice()[j * ROWS..(j + 1) * ROWS]).chain([y]).collect();
        session(study, role, Policy::default(), numeric(&names, &columns)).unwrap()
    };
    let mut ends = [(Role::Alice, 0), (Role::Bob, 1)]
        .map(|(role, at)| start(role, &study.method.parties[&role].columns, blocks[at]));
    let mut message = match ends[0].start().unwrap() {
        Turn::Send(message) => Message::from(message),
        other => panic!("{other:?}"),
    };
    ends[1].start().unwrap();
    for turn in 0..exchanges {
        message = match ends[(turn + 1) % 2].receive(message.header.sender, message).unwrap() {
            Turn::Send(message) => Message::from(message),
            other => panic!("{other:?}"),
        };
    }
    let [alice, bob] = ends;
    (if exchanges.is_multiple_of(2) { bob } else { alice }, message)
}

fn round(criterion: &mut Criterion) {
    let ((a, _), (b, y)) = (data(10, 3), data(10, 4));
    let names = |letter: &str| (1..=10).map(|j| format!("\"{letter}{j}\"")).collect::<Vec<_>>().join(", ");
    let mut group = criterion.benchmark_group("round");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    for family in [Family::Gaussian, Family::Binomial] {
        let study = Study::parse(&format!(
            "id = \"benchmark\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [{}]\n[parties.bob]\n\
             certificate = \"bob\"\ncolumns = [{}]\n[outcome]\ncolumn = \"y\"\n[model]\nfamily = \"{family}\"\n",
            names("a"),
            names("b")
        ));
        let study = Arc::new(study.unwrap().vertical().unwrap());
        // The proof of rows is over and the blocks have been fitted a first time.
        for (who, exchanges) in [("one side", 9), ("the other side", 10)] {
            group.bench_function(format!("{who} of 100000 rows, 10+10 columns, {family}"), |bench| {
                bench.iter_batched(
                    || midway(&study, [&a, &b], &y, exchanges),
                    |(mut end, message)| end.receive(message.header.sender, message).unwrap(),
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = gram, solve, round
}
criterion_main!(benches);
