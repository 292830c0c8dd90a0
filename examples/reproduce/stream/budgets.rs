//! A budget for each record, as the source's algorithm has: what budgets that fall along the stream cost, and persons who come again.

use std::cell::RefCell;

use fedreg_common::bounded::SimulatedNoise;
use fedreg_common::methods::stream::{Average, Basis, Learner, Step};
use fedreg_common::privacy::accountant::{Accountant, Budget};
use fedreg_common::privacy::mechanism::records::{Costs, Sequence, Spending, admit};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{HUBER, settings};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::research::streams::{Sine, run_each, squared_error};
use crate::sweep::Sweep;
use crate::tables::{each, median, number, slope};

const EPSILON: f64 = 3.0;
const DELTA: f64 = 1e-5;
/// Records of a person, where persons come again.
const AGAIN: usize = 10;
/// How far two slopes may be apart to count as one.
const WITHIN: f64 = 0.1;
const LAW: Sine = Sine { freedom: 3.0, scale: 1.0 };
/// Constant steps, of which the best counts.
const STEPS: &[f64] = &[0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.004];

/// Powers of a record's place that its epsilon and its delta are divided by.
const SEQUENCES: [(&str, (f64, f64)); 7] = [
    ("epsilon 3", (0.0, 0.0)),
    ("3 / n^1/8", (0.125, 0.0)),
    ("3 / n^1/4", (0.25, 0.0)),
    ("3 / n^1/2", (0.5, 0.0)),
    ("delta / n", (0.0, 1.0)),
    ("delta / n^2", (0.0, 2.0)),
    ("3 / n^1/8, delta / n", (0.125, 1.0)),
];
/// Places of sequences in which delta falls, and of those with the same epsilons and one delta.
const OF_DELTA: [(usize, usize); 3] = [(4, 0), (5, 0), (6, 1)];

/// What persons who come again may spend.
const SPENT: [&str; 5] =
    ["ten records alike", "one record", "3 / n^1/8, filter", "3 / n^1/4, filter", "3 / n^1/8, delta / n, filter"];

pub(crate) fn tables(run: &Run, document: &mut Document, basis: &Basis) -> anyhow::Result<()> {
    let whole = Budget::new(EPSILON, DELTA, Accountant::Zcdp, 1, false)?;
    let lengths: &[f64] = run.size(&[2000.0, 10_000.0, 40_000.0], &[200.0, 800.0]);
    let Some(longest) = lengths.iter().copied().reduce(f64::max) else { return Ok(()) };
    let costs = |spending| Priced::new(&whole, spending, longest as u64);
    let falling = SEQUENCES.map(|(_, exponents)| Priced::falling(whole, exponents, basis.len(), longest as u64));
    let seeds = run.seeds(10);
    sequences(document, basis, &falling, lengths, seeds)?;
    let even = |records| costs(Spending::Even { records });
    let [_, eighth, quarter, .., both] = &falling;
    persons(document, basis, [&even(AGAIN as u32), &even(1), eighth, quarter, both], lengths, seeds)
}

/// Every record of another person.
fn sequences(
    document: &mut Document,
    basis: &Basis,
    priced: &[Priced],
    lengths: &[f64],
    seeds: u64,
) -> anyhow::Result<()> {
    document.heading("A budget for each record");
    document.paragraph(format!(
        "Case 1, a t(3) variable as noise, median integrated squared error of {seeds} streams, best constant step of a list and the better of both averages; the zero function has \
         0.493. The n-th record has epsilon {EPSILON} / n^a at delta {DELTA:e} / n^b (`stream.budgets` of a study), b = 0 where no delta is named, each record of another person. The slides \
         state sequences epsilon_n and delta_n and no shapes of them."
    ));
    let names = SEQUENCES.map(|(name, _)| name);
    let sweep = Sweep {
        name: "budgets".to_owned(),
        caption: "Integrated squared error by length, budgets that fall along the stream".to_owned(),
        over: Axis::logarithmic("records"),
        values: lengths,
        measured: Axis::logarithmic("integrated squared error"),
        methods: &names,
    };
    let found = sweep.run(document, |records| {
        let alone = |_| (0..records as usize).collect();
        priced.iter().map(|priced| Ok(best(basis, priced, seeds, alone)?.error)).collect()
    })?;
    let slopes: Vec<f64> = found.iter().map(|errors| slope(lengths, errors)).collect();
    let even = slopes[0];
    for at in 1..OF_DELTA[0].0 {
        let own = slopes[at];
        document.finding(
            own <= even + WITHIN,
            format!(
                "with epsilon_n = {} the error falls as fast as with the same epsilon for every record: as n^{own:.2} against n^{even:.2}",
                names[at]
            ),
        );
    }
    let last = lengths.len() - 1;
    for (at, one) in OF_DELTA {
        let (own, other) = (slopes[at], slopes[one]);
        let (epsilon, delta) = names[at].split_once("delta").unwrap_or((names[at], ""));
        let also = if epsilon.is_empty() { "" } else { " and epsilon_n = " };
        document.finding(
            own <= other + WITHIN,
            format!(
                "with delta_n = {DELTA:e}{delta}{also}{} the error falls as fast as with the same delta for every record: as n^{own:.2} against n^{other:.2}, and is {} times as large at the \
                 most records",
                epsilon.trim_end_matches(", "),
                number(found[at][last] / found[one][last])
            ),
        );
    }
    Ok(())
}

/// Persons with several records each.
fn persons(
    document: &mut Document,
    basis: &Basis,
    priced: [&Priced; 5],
    lengths: &[f64],
    seeds: u64,
) -> anyhow::Result<()> {
    document.heading("Persons who come again");
    document.paragraph(format!(
        "The same, every person with {AGAIN} records at random places of the stream and epsilon {EPSILON} in all: each record with a {AGAIN}th of it (in units of mu^2), the first record only, or \
         budgets that fall, of which a person's records are used as long as they fit. The others are replaced by noise alone."
    ));
    let used = RefCell::new(Vec::new());
    let sweep = Sweep {
        name: "persons".to_owned(),
        caption: format!("Integrated squared error by length, persons with {AGAIN} records each"),
        over: Axis::logarithmic("records"),
        values: lengths,
        measured: Axis::logarithmic("integrated squared error"),
        methods: &SPENT,
    };
    let found = sweep.run(document, |records| {
        let all = priced.iter().map(|priced| {
            best(basis, priced, seeds, |seed| {
                let mut persons: Vec<usize> = (0..records as usize).map(|record| record / AGAIN).collect();
                persons.shuffle(&mut ChaCha8Rng::seed_from_u64(7000 + seed));
                persons
            })
        });
        let all = all.collect::<anyhow::Result<Vec<_>>>()?;
        used.borrow_mut().extend(all.iter().map(|best| (best.used, best.most)));
        Ok(all.iter().map(|best| best.error).collect())
    })?;
    let used = used.into_inner();
    let most = used.iter().map(|(_, most)| *most).fold(0.0, f64::max);
    document.finding(most <= 1.0, format!("no person's records cost more than the budget: at most {most:.6} of it"));
    let last = lengths.len() - 1;
    for at in 2..SPENT.len() {
        document.finding(
            found[at][last] < found[0][last],
            format!(
                "{}: {} % of the records are used at the most records, and the error is below that of ten alike: {} against {}",
                SPENT[at],
                number(100.0 * used[SPENT.len() * last + at].0),
                number(found[at][last]),
                number(found[0][last])
            ),
        );
    }
    Ok(())
}

/// The least median error over steps and averages.
struct Best {
    error: f64,
    /// Share of the records that were used, and the most that a person spent, over the budget.
    used: f64,
    most: f64,
}

/// What records cost by their places, and how much noise that buys.
struct Priced {
    costs: Vec<u64>,
    room: u64,
    whole: f64,
}

impl Priced {
    /// Records of a given number of numbers whose budgets fall along the stream by these powers of their places.
    fn falling(whole: Budget, exponents: (f64, f64), numbers: usize, longest: u64) -> Priced {
        let sequence = Sequence::new(whole, (EPSILON, DELTA), exponents, numbers);
        Priced::new(&whole, Spending::Sequence(sequence), longest)
    }

    fn new(whole: &Budget, spending: Spending, longest: u64) -> Priced {
        let mut costs = Costs::new(spending);
        Priced {
            costs: (1..=longest).map(|place| costs.of(place)).collect(),
            room: spending.room(),
            whole: whole.cap(),
        }
    }
}

/// Which records are used, and the budget of each.
struct Charged {
    records: Vec<(f64, bool)>,
    most: f64,
}

impl Charged {
    fn new(Priced { costs, room, whole }: &Priced, persons: &[usize]) -> Charged {
        let mut spent = vec![0; persons.iter().max().map_or(0, |last| last + 1)];
        let records = persons.iter().zip(costs).map(|(&person, &cost)| {
            let after = admit(spent[person], cost, *room);
            spent[person] = after.unwrap_or(spent[person]);
            ((whole * cost as f64 / *room as f64).sqrt(), after.is_some())
        });
        let records = records.collect();
        let most = spent.iter().copied().max().unwrap_or(0) as f64 / *room as f64;
        Charged { records, most }
    }
}

/// `persons` says whose each record of a stream is.
fn best(
    basis: &Basis,
    priced: &Priced,
    seeds: u64,
    persons: impl Fn(u64) -> Vec<usize> + Sync,
) -> anyhow::Result<Best> {
    let charged = each(seeds, |seed| Ok(Charged::new(priced, &persons(seed))))?;
    let mut error = f64::INFINITY;
    for &length in STEPS {
        let settings = settings(basis, HUBER, Step::Constant { length })?;
        let errors = each(seeds, |seed| {
            let charged = &charged[usize::try_from(seed)?];
            let records = LAW.draw(Sine::function, charged.records.len(), seed);
            let mut noise = SimulatedNoise::seeded(seed + 500);
            let budget = |place: usize| Some(charged.records[place]);
            let learner: Learner = run_each(&settings, &records, &mut noise, budget)?;
            let part = |part| squared_error(Sine::function, &settings, &learner, part);
            Ok([part(Average::LastHalf)?, part(Average::All)?])
        })?;
        for at in 0..2 {
            error = error.min(median(errors.iter().map(|errors| errors[at]).collect()));
        }
    }
    let (all, used) = charged
        .iter()
        .flat_map(|charged| &charged.records)
        .fold((0, 0), |(all, used), record| (all + 1, used + usize::from(record.1)));
    let most = charged.iter().map(|charged| charged.most).fold(0.0, f64::max);
    Ok(Best { error, used: used as f64 / all as f64, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_costs_what_its_own_epsilon_and_its_own_delta_amount_to() {
        let whole = Budget::new(EPSILON, DELTA, Accountant::Zcdp, 1, false).unwrap();
        // Place 127 is the last of those that have a budget in common.
        let cost = |at: usize| {
            let priced = Priced::falling(whole, SEQUENCES[at].1, 30, 127);
            priced.costs[126] as f64 / priced.room as f64
        };
        let of = |epsilon: f64, delta: f64| Accountant::Zcdp.cap(epsilon, delta);
        for (at, (_, (epsilon, delta))) in SEQUENCES.iter().enumerate() {
            let own = of(EPSILON / 127_f64.powf(*epsilon), DELTA / 127_f64.powf(*delta));
            let expected = own / of(EPSILON, DELTA);
            assert!((cost(at) / expected - 1.0).abs() < 1e-9, "{at}: {} against {expected}", cost(at));
        }
        assert!(cost(4) < 0.75 && cost(5) < cost(4) && cost(6) < cost(1));
    }
}
