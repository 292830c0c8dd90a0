//! The solution of a sealed binomial or poisson fit: what Alice makes of what opened, what she tells Bob, and how each party sees it.

use nalgebra::{DMatrix, DVector};

use super::glm::{End, Ended, Glm, cut};
use super::results::weight_sum;
use super::session::Work;
use crate::fit::Termination;
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::pair::Pair;
use crate::report::TracePoint;
use crate::secure::gaussian::{Answer, Means, Part, position};
use crate::session::{Abort, PeerFault};

/// The solution as one party sees it.
pub(super) struct Solved {
    /// The own part, with the covariance of the coordinates; none has opened where it is empty.
    pub(super) part: Part,
    /// What Alice's columns and the outcome hold of Bob's, in coordinates of his columns that stay.
    pub(super) held: DMatrix<f64>,
    /// At Alice: the intercept and its variance, without what Bob's columns add.
    pub(super) intercept: Option<(f64, f64)>,
    /// At Alice, where it has opened: the loss over the rows, without Bob's part of the next number.
    pub(super) loss: Option<f64>,
    /// At Alice: the outcome times Bob's part of the linear predictor, in the digits of the table, or as Bob computes it who has the outcome
    /// too.
    pub(super) along: f64,
    pub(super) end: End,
    pub(super) separated: bool,
    pub(super) evaluations: u32,
    /// Points that were named.
    pub(super) points: u32,
    pub(super) trace: Vec<TracePoint>,
}

impl Solved {
    /// Whether there are standard errors.
    pub(super) fn inference(&self) -> bool {
        !self.part.covariance.is_empty()
    }

    pub(super) fn termination(&self, dropped: bool) -> Termination {
        if self.separated { Termination::Separation } else { termination(self.end, dropped) }
    }

    /// Why the fit ended before it converged, for the reader.
    pub(super) fn note(&self, pair: Pair, family: Family) -> Option<String> {
        note(self.end, pair, self.evaluations, family)
    }
}

/// How a fit has ended whose outcomes do not count as separated; whether columns were set aside.
pub(super) fn termination(end: End, dropped: bool) -> Termination {
    match end {
        End::Converged if dropped => Termination::CollinearAcrossParties,
        End::Converged => Termination::Converged,
        End::OutOfRange => Termination::OutOfRange,
        End::Exhausted => Termination::MaxRounds,
        End::LimitOfFirst | End::LimitOfSecond => Termination::OpeningLimit,
    }
}

/// Why a fit ended after this number of gradients before it converged, for the reader.
pub(super) fn note(end: End, pair: Pair, evaluations: u32, family: Family) -> Option<String> {
    let limit = |who: Role| {
        format!(
            "{evaluations} gradients have opened, and the limits of {who} on what may open allow no further one: the fit ended before \
             it converged; leave columns out, or loosen `sealed_opened_share` in the policy of {who}"
        )
    };
    match end {
        End::Converged => None,
        End::OutOfRange if family == Family::Poisson => {
            Some("out of range: the means of the next step are beyond what fixed point holds".to_owned())
        }
        End::OutOfRange => Some(
            "out of range: the next step is beyond what a sealed fit follows: the part of the linear predictor up to 32 at one party at least, and a \
             standard deviation of the linear predictor up to 64; both parts are large where the outcomes are separated, and where columns of one \
             party nearly depend on those of the other"
                .to_owned(),
        ),
        End::Exhausted => Some(format!("{evaluations} gradients have opened without convergence")),
        End::LimitOfFirst => Some(limit(pair.first())),
        End::LimitOfSecond => Some(limit(pair.second())),
    }
}

fn missing() -> Abort {
    Abort::Bug("the evaluations have not ended".to_string())
}

/// At Alice: the solution, and what Bob is told of it.
pub(super) fn answer(work: &Work, glm: &Glm) -> Result<(Solved, Joint), Abort> {
    let (lead, end) = (glm.lead().ok_or_else(missing)?, glm.end().ok_or_else(missing)?);
    let table = work.table().ok_or_else(missing)?;
    let Ended { point, covariance, loss, along, separated } = lead.ended();
    let (alice, first) = (table.left(), lead.first());
    let bob = point.len() - first - alice;
    let constant = if work.study.method.intercept { point[0] } else { 0.0 };
    let place = position(&work.own.factor, &work.means_of(&[]));
    let held = table.held();
    let gamma = point.rows(first + alice, bob).into_owned();
    let mut values = vec![f64::from(u8::from(separated)), f64::from(u8::from(covariance.is_some()))];
    values.extend_from_slice(gamma.as_slice());
    values.extend_from_slice(held.as_slice());
    let own = point.rows(first, alice).into_owned();
    // The intercept stands beside an offset without its mean.
    let shift = constant - place.dot(&own) - work.offset.as_ref().map_or(0.0, |offset| offset.mean);
    let loss = loss.map(|loss| loss - outcome_along(work, &part(work, &own, constant)));
    // In the unit of the study's weights.
    let unit = weight_sum(work) / work.rows as f64;
    let (own_covariance, variance) = match covariance.map(|covariance| covariance / unit) {
        None => (DMatrix::zeros(0, 0), 0.0),
        Some(covariance) => {
            let of_bob = first + alice;
            let of_alice = covariance.view((first, first), (alice, alice)).into_owned();
            // Between Bob's coordinates and the linear predictor at Alice's column means, less the intercept.
            let mut lean = covariance.view((of_bob, first), (bob, alice)) * &place;
            let mut variance = (&of_alice * &place).dot(&place);
            if work.study.method.intercept {
                lean -= covariance.view((of_bob, 0), (bob, 1)).column(0);
                variance += covariance[(0, 0)] - 2.0 * covariance.view((first, 0), (alice, 1)).column(0).dot(&place);
            }
            values.extend(covariance.view((of_bob, of_bob), (bob, bob)).iter());
            values.extend(lean.iter());
            (of_alice, variance)
        }
    };
    let solved = Solved {
        part: Part { gamma: own, covariance: own_covariance },
        held,
        intercept: Some((shift, variance)),
        loss,
        along,
        end,
        separated,
        evaluations: glm.evaluations(),
        points: glm.points(),
        trace: lead.trace.clone(),
    };
    Ok((solved, Joint { what: JointKind::Answer, values }))
}

/// Numbers of a solution that opens with a message: all but its two marks.
pub(super) fn numbers(answer: &Joint) -> usize {
    answer.values.len() - 2
}

/// At Bob: the solution as Alice tells it, and his part of the intercept.
pub(super) fn take_answer(work: &Work, glm: &Glm, values: &[f64]) -> Result<(Solved, Means), PeerFault> {
    let size = work.shape.right - work.dropped().len();
    let wrong = || PeerFault::Value { what: "the solution", expected: "possible", round: glm.evaluations() };
    let (head, rest) = values.split_first_chunk::<2>().ok_or_else(|| length("the solution", values.len(), 2))?;
    let flag = |value: f64| (value == 0.0 || value == 1.0).then_some(value == 1.0);
    let (separated, inference) = (flag(head[0]).ok_or_else(wrong)?, flag(head[1]).ok_or_else(wrong)?);
    let expected = size + size * size + usize::from(inference) * (size * size + size);
    if rest.len() != expected {
        return Err(length("the solution", values.len(), 2 + expected));
    }
    let end = glm.end().ok_or_else(wrong)?;
    if inference && (separated || end != End::Converged || !work.study.method.inference.allowed) {
        return Err(wrong());
    }
    let (gamma, rest) = rest.split_at(size);
    let (held, rest) = rest.split_at(size * size);
    let gamma = DVector::from_column_slice(gamma);
    let held = DMatrix::from_column_slice(size, size, held);
    let (covariance, lean) = match inference {
        false => (DMatrix::zeros(0, 0), DVector::zeros(size)),
        true => {
            let (covariance, lean) = rest.split_at(size * size);
            (DMatrix::from_column_slice(size, size, covariance), DVector::from_column_slice(lean))
        }
    };
    if covariance.diagonal().iter().any(|variance| !(*variance > 0.0)) {
        return Err(wrong());
    }
    work.check_solution(glm, &held, (&gamma, separated), inference.then_some(&covariance))?;
    let whole = if inference { covariance.clone() } else { DMatrix::zeros(size, size) };
    let answer = Answer { part: Part { gamma: gamma.clone(), covariance: whole }, lean, residual: 0.0 };
    let means = answer.means(&work.factor(), &work.means_of(&work.dropped()));
    let solved = Solved {
        part: Part { gamma, covariance },
        held,
        intercept: None,
        loss: None,
        along: 0.0,
        end,
        separated,
        evaluations: glm.evaluations(),
        points: glm.points(),
        trace: Vec::new(),
    };
    Ok((solved, means))
}

/// At Bob, where he has the outcome of a binomial or poisson fit: the outcome times his part of the linear predictor.
pub(super) fn along(work: &Work) -> Vec<f64> {
    let Some(solved) = work.solved.as_ref().filter(|_| work.study.method.outcome.held_by.is_shared()) else {
        return Vec::new();
    };
    let gamma = match &work.reduction {
        Some(reduction) => &reduction.map * &solved.part.gamma,
        None => solved.part.gamma.clone(),
    };
    vec![outcome_along(work, &part(work, &gamma, 0.0))]
}

/// The own part of the linear predictor as it stands in the sums over the rows, with the intercept at Alice.
fn part(work: &Work, gamma: &DVector<f64>, intercept: f64) -> Vec<f64> {
    let mut eta = work.holds().predictor(gamma);
    let (range, add) =
        (work.study.guarantee.range(), |eta: &mut Vec<f64>| eta.iter_mut().for_each(|eta| *eta += intercept));
    match work.study.method.family {
        Family::Poisson => {
            add(&mut eta);
            cut(&mut eta, range);
        }
        Family::Gaussian | Family::Binomial => {
            cut(&mut eta, range);
            add(&mut eta);
        }
    }
    eta
}

/// Whether weights are numbers of trials, 1 where there are none; R's likelihood rounds them.
pub(super) fn counts_trials(work: &Work) -> bool {
    work.study.method.family == Family::Binomial
}

/// The loss of a perfect fit, in weights of mean 1.
pub(super) fn saturated(work: &Work) -> f64 {
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    let weight = |row: usize| work.weights.as_ref().map_or(1.0, |weights| weights.values[row]);
    let used = y.iter().enumerate().filter(|(row, _)| weight(*row) > 0.0);
    used.map(|(row, y)| weight(row) * work.study.method.family.saturated(*y)).sum()
}

/// The outcome times a part of the linear predictor, in weights of mean 1.
pub(super) fn outcome_along(work: &Work, eta: &[f64]) -> f64 {
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    let weight = |row: usize| work.weights.as_ref().map_or(1.0, |weights| weights.values[row]);
    y.iter().zip(eta).enumerate().map(|(row, (y, eta))| weight(row) * y * eta).sum()
}

/// What rounding the successes of a row adds to them.
pub(super) fn rounded_successes(work: &Work) -> impl Iterator<Item = f64> {
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    let weight = move |row: usize| work.encoded.weights.as_ref().map_or(1.0, |weights| weights[row]);
    y.iter().enumerate().map(move |(row, y)| (weight(row) * y).round_ties_even() - weight(row) * y)
}

/// What is left of an intercept once Bob's part is known.
pub(super) fn intercept(solved: &Solved, means: Means) -> Result<(f64, f64), Abort> {
    let (shift, variance) = solved.intercept.ok_or_else(out_of_order)?;
    Ok((shift - means.shift, variance + means.spread))
}
