//! What a private run would disclose and cost.

use fedreg_common::explanation::{NoisedKind, membership};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::pair::Pair;
use fedreg_common::methods::vertical::plan::{
    CrossPlan, CrossRelease, LogisticPlan, LogisticRelease, PrivatePlan, Side,
};
use fedreg_common::privacy::ledger::PersonDigests;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::report::INTERCEPT;
use fedreg_common::secure::product;
use fedreg_common::session::Abort;
use fedreg_common::study::{Study, Vertical};

use super::{Foreseen, Leaving, sealed, size};
use crate::failure::Failure;
use crate::party::Party;
use crate::{privacy, private};

/// Rows and terms of the table, and what a run with them would bring. Here, and only here, a row that cannot be used is refused: a run would count it as
/// zeros without a word, because the word would be about that row.
pub(super) fn foresee(party: Party<'_>) -> Result<(u64, Vec<String>, Foreseen), Failure> {
    let Party { role, config, study } = party;
    private::allowed(party)?;
    let table = private::read_table(party, false)?;
    let rows = table.rows() as u64;
    let mut terms = table.term_names().to_vec();
    if study.is_first(role) {
        terms.insert(0, INTERCEPT.to_string());
    }
    let planned = privacy::plan(role, config, Some(rows))?;
    let mut policy = planned.budget_lines();
    let mut ledger = private::open(config)?;
    let persons = PersonDigests::new(&ledger.key()?, private::charged(party, &table)?, 1)?;
    ledger.afford(&config.data_set(), &persons, &party.study.digest().to_string(), &planned.plan)?;
    if let Some(most) = config.policy.max_epsilon {
        policy.push(format!("a run may cost at most epsilon {most}"));
    }
    if let Some(least) = config.policy.min_rows {
        policy.push(format!("at least {least} rows must take part"));
    }
    let (mut leaves, rounds, bytes) =
        match study.private_plan(rows).map_err(|error| Abort::Refused(error.to_string()))? {
            PrivatePlan::Residual(plan) => by_residual(plan.setup().rounds, rows, terms.len()),
            PrivatePlan::Crossprod(plan) if study.is_of_several() => {
                let (leaves, bytes) = by_crossprod_of_several(study, role, &plan);
                (leaves, 1, bytes)
            }
            PrivatePlan::Crossprod(plan) => {
                let (leaves, bytes) = by_crossprod(&plan, Pair::of(study, role).side(), rows);
                (leaves, 1, bytes + sealed::greeting(study))
            }
            PrivatePlan::Logistic(plan) => {
                let (leaves, bytes) = by_logistic(&plan, Pair::of(study, role).side(), rows);
                (leaves, 1 + plan.gradients().len() as u32, bytes + sealed::greeting(study))
            }
        };
    if study.head.matching.is_some() {
        let (amount, reveals) = membership(study.leader().is_some(), study.is_first(role));
        leaves.insert(0, Leaving { what: Declaration::Membership.name(), amount: amount.to_string(), reveals });
    }
    let run = Foreseen {
        leaves,
        predicted_rounds: Some(rounds.into()),
        round_limit: rounds,
        fits: 1,
        predicted_bytes: Some(bytes),
        policy,
        opened: Vec::new(),
    };
    Ok((rows, terms, run))
}

/// Messages of a party by the mechanism `crossprod` beside its greeting and its columns.
const CROSSPROD_MESSAGES: u64 = 9;

/// The same of several parties, on each line.
const SEVERAL_MESSAGES: u64 = 9;

/// The same of a binomial or poisson model.
const LOGISTIC_MESSAGES: u64 = 20;

/// What leaves by the mechanism `residual`, with the rounds and the bytes.
fn by_residual(rounds: u32, rows: u64, terms: usize) -> (Vec<Leaving>, u32, u64) {
    let leaves = vec![
        Leaving {
            what: NoisedKind::Predictions.name(),
            amount: format!("{rounds} vectors of {rows} values, {} each", size(8 * rows)),
            reveals: NoisedKind::Predictions.reveals(false),
        },
        Leaving {
            what: NoisedKind::Coefficients.name(),
            amount: format!("{terms} estimates with the noise's standard deviation"),
            reveals: NoisedKind::Coefficients.reveals(false),
        },
    ];
    (leaves, rounds, u64::from(rounds) * (8 * rows + 200))
}

/// What leaves by the mechanism `crossprod`, with the bytes beside the greeting's.
fn by_crossprod(plan: &CrossPlan, side: Side, rows: u64) -> (Vec<Leaving>, u64) {
    let shape = plan.shape();
    let (masked, columns) = match side {
        Side::Alice => (shape.bytes(product::Side::Left), shape.left),
        Side::Bob => (shape.bytes(product::Side::Right), shape.right),
    };
    let order = plan.side(side).order().iter();
    let own = order.clone().filter(|release| **release != CrossRelease::Share);
    let numbers: usize = own.map(|release| plan.entries(side, *release)).sum();
    let all: usize = order.map(|release| plan.entries(side, *release)).sum();
    let leaves = vec![
        Leaving {
            what: NoisedKind::Masked.name(),
            amount: format!("{columns} columns and a public one of {rows} values, {}", size(masked)),
            reveals: NoisedKind::Masked.reveals(false),
        },
        Leaving {
            what: NoisedKind::Statistics.name(),
            amount: format!("{numbers} sums over own columns"),
            reveals: NoisedKind::Statistics.reveals(false),
        },
        Leaving {
            what: NoisedKind::Share.name(),
            amount: format!("of a table of {} x {}", shape.left, shape.right),
            reveals: NoisedKind::Share.reveals(false),
        },
    ];
    (leaves, masked + 8 * all as u64 + CROSSPROD_MESSAGES * sealed::MESSAGE)
}

/// What leaves in a binomial or poisson model, with the bytes beside the greeting's. How many factors a row leave depends in a binomial model on
/// a point that opens during the run, so that bytes are those of a point of usual length.
fn by_logistic(plan: &LogisticPlan, side: Side, rows: u64) -> (Vec<Leaving>, u64) {
    let end = match side {
        Side::Alice => product::Side::Left,
        Side::Bob => product::Side::Right,
    };
    let (table, gradients) = (plan.table_shape(), plan.gradients().len());
    let masked = table.bytes(end);
    let columns = match side {
        Side::Alice => table.left,
        Side::Bob => table.right,
    };
    let [usual, most] = plan.factors();
    // Behind the factors comes a share of the residuals.
    let means = gradients as u64 * rows * (usual as u64 + 1) * table.width.bytes() as u64;
    let (mut statistics, mut all) = (0, 0);
    for release in plan.side(side).order() {
        let entries = plan.entries(side, *release) as u64;
        all += entries;
        statistics += match release {
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => entries,
            LogisticRelease::Share | LogisticRelease::Gradient(_) => 0,
        };
    }
    let leaves = vec![
        Leaving {
            what: NoisedKind::Masked.name(),
            amount: format!("{columns} columns and a public one of {rows} values, {}", size(masked)),
            reveals: NoisedKind::Masked.reveals(false),
        },
        Leaving {
            what: NoisedKind::MaskedFactors.name(),
            amount: match usual == most {
                true => format!("{most} for each of {rows} rows, {gradients} times, {}", size(means)),
                false => format!(
                    "about {usual} and at most {most} for each of {rows} rows, {gradients} times, about {}",
                    size(means)
                ),
            },
            reveals: NoisedKind::MaskedFactors.reveals(false),
        },
        Leaving {
            what: NoisedKind::Statistics.name(),
            amount: format!("{statistics} sums over own columns"),
            reveals: NoisedKind::Statistics.reveals(false),
        },
        Leaving {
            what: NoisedKind::Shares.name(),
            amount: format!(
                "of a table of {} x {}, and of {gradients} gradients of {} numbers",
                table.left,
                table.right,
                1 + plan.columns().left + plan.columns().right
            ),
            reveals: NoisedKind::Shares.reveals(false),
        },
    ];
    (leaves, masked + means + 8 * all + LOGISTIC_MESSAGES * sealed::MESSAGE)
}

/// What leaves among several parties, with all bytes: of the leader on all lines together.
fn by_crossprod_of_several(study: &Study<Vertical>, role: Role, plan: &CrossPlan) -> (Vec<Leaving>, u64) {
    let (place, lines, rows) = (study.place(role), plan.parties() as u64 - 1, plan.setup().rows as u64);
    let widths = &plan.setup().widths;
    let (own, all) = (widths[place], widths.iter().sum::<usize>());
    let element = plan.scale().width(plan.setup().rows).bytes() as u64;
    // Behind each block stands a public column.
    let masked = rows * (own as u64 + 1) * element;
    let wide = (all + widths.len()) as u64;
    let passed_on = lines * rows * wide * element - rows * (wide - own as u64 - 1) * element;
    let entries = |release| plan.entries(place, release) as u64;
    let statistics = entries(CrossRelease::Table) + entries(CrossRelease::Score);
    let shares = entries(CrossRelease::Share);
    let leads = study.is_first(role);
    let sums = (all * (all + 1) / 2 + all) as u64;
    let leaves = vec![
        Leaving {
            what: NoisedKind::Masked.name(),
            amount: match leads {
                false => format!(
                    "{own} columns and a public one of {rows} values, {}, which pass by the leader to all others",
                    size(masked)
                ),
                true => format!(
                    "{own} columns and a public one of {rows} values, {}; to each of the others, with those of all but itself: {} in all",
                    size(masked),
                    size(passed_on)
                ),
            },
            reveals: NoisedKind::Masked.reveals(true),
        },
        Leaving {
            what: NoisedKind::Statistics.name(),
            amount: match leads {
                false => format!("{statistics} sums over own columns, to the leader, who sends them to all"),
                true => format!("{statistics} sums over own columns, and those of all others, to all"),
            },
            reveals: NoisedKind::Statistics.reveals(true),
        },
        Leaving {
            what: NoisedKind::Shares.name(),
            amount: format!("of the tables of {own} columns with the {} of all others", all - own),
            reveals: NoisedKind::Shares.reveals(true),
        },
    ];
    let line = sealed::greeting(study) + SEVERAL_MESSAGES * sealed::MESSAGE;
    let bytes = match leads {
        true => passed_on + lines * (8 * sums + lines * element + line),
        false => masked + 8 * (statistics + shares) + lines * element + line,
    };
    (leaves, bytes)
}
