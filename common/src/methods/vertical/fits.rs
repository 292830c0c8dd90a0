//! The rounds of a fit; which fits a run has, one after the other, is in [`list`].
//!
//! The party with fewer columns leads, or of several the one that the study names: it extrapolates its own coefficients, judges
//! convergence and ends the fits. The others fit their blocks exactly to whatever comes and cannot tell the difference.

use std::sync::Arc;

use nalgebra::DVector;

use crate::fit::Termination;
use crate::glm::Family;
use crate::id::Role;
use crate::linalg::Values;
use crate::report::TracePoint;
use crate::session::{Abort, PeerFault};
use crate::study::{Acceleration, Study, Vertical};

use super::accelerate::Memory;
use super::block::{Block, Pass};
use super::exchange::TableKit;
use super::followers::Followers;
use super::message::{Ended, FitEnd, Partial};
use super::meter::Meter;
use super::outcome::disclosure_refused;
use super::prepare::{Encoded, Policy};
use super::response::Response;
use super::rows;
use super::separation::Growth;
use super::subspace::Shown;

mod abreast;
mod list;

pub(super) use abreast::{Abreast, First};

/// One fit of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Job {
    /// The fold that is left out, from 1; `None` for a fit to all rows.
    pub(super) fold: Option<u32>,
    /// Its penalty.
    pub(super) lambda: Option<f64>,
}

/// A fit to all rows, as this side saw it end.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    pub(super) beta: DVector<f64>,
    pub(super) end: FitEnd,
    /// Weighted loss of the joint predictions.
    pub(super) loss: f64,
    /// Relative change of the last exchange.
    pub(super) change: f64,
    pub(super) termination: Termination,
}

/// What a fit works on.
pub(super) struct Site<'a> {
    pub(super) block: &'a mut Block,
    /// The fold of each row, from 1.
    pub(super) folds: Option<&'a [u32]>,
    /// What has been shown of the block, in all fits of the run.
    pub(super) meter: &'a mut Meter,
    /// Rounds so far of the fits beside this one.
    pub(super) other_rounds: u32,
}

/// What the leader or the follower says next.
pub(super) enum Step {
    Partial(Partial),
    Ended(Ended),
}

/// The fits of a run and the state of the present one.
pub(super) struct Fits {
    role: Role,
    leader: Role,
    study: Arc<Study<Vertical>>,
    max_disclosure: Option<f64>,
    policy_rounds: Option<u32>,
    jobs: Vec<Job>,
    current: usize,
    columns: (usize, usize),
    own_largest: f64,
    path_top: f64,
    /// Total sum of squares of the outcome without each fold, at the party that does not hold the outcome.
    fold_totals: Vec<f64>,
    pub(super) tables: Option<Arc<TableKit>>,
    /// The terms that the meter knows, by place: those of the block before any was set aside on the way.
    pub(super) metered: Vec<usize>,
    base_weights: Option<Values>,
    base_spread: f64,
    /// The units of the present fit's penalty.
    units: Vec<f64>,

    round: u32,
    rounds_before: u32,
    memory: Memory,
    /// At the leader of two parties with a penalty.
    response: Response,
    shown: Option<Shown>,
    /// At the leader of several parties, the others one by one.
    followers: Option<Followers>,
    accepted: Option<Accepted>,
    extrapolated: bool,
    own_change: f64,
    last_change: f64,
    certificate: f64,
    peer_certificate: f64,
    peer_penalty: f64,
    incoming: Option<Partial>,
    incoming_values: Values,
    growth: Growth,
    /// Whether the partner says that it has found such growth among its own columns.
    partner_grows: bool,
    /// Smallest scaled gradient and smallest change of the present fit so far, and for how many rounds now neither has
    /// become smaller.
    least: (f64, f64),
    still_rounds: u32,
    change: f64,
    loss: f64,
    pub(super) trace: Vec<TracePoint>,

    pub(super) fitted: Vec<Fitted>,
    pub(super) fold_errors: Vec<f64>,
    pub(super) restarted: bool,
    /// Whether a projection exchange can put the parties at the joint minimum where their rounds come to no rest.
    pub(super) exchanges: bool,
    /// Whether one is made after the first round, for standard errors.
    pub(super) errors_first: bool,
    /// How often the fit went on from one.
    pub(super) exchanged_for: u32,
}

/// The last point that the safeguard let pass.
#[derive(Debug, Clone)]
struct Accepted {
    objective: f64,
    /// The plain next point, without extrapolation; after the own coefficients the coordinates of followers.
    plain: DVector<f64>,
}

/// Rounds in a row without a smaller gradient or a smaller change after which a fit at the limit of rounding is over.
const STILL_ROUNDS: u32 = 5;

/// A gradient this many times what rounding of single rows can make of zero is at the limit of rounding.
const ROUNDING: f64 = 64.0;

/// A relative change above which nothing is said to stand still.
const STILL: f64 = 1e-6;

/// A scaled gradient at which estimates that grow without bound are looked for, whatever the tolerance.
const FLAT: f64 = 1e-8;

/// What a follower gives as its change once it has found that its estimates grow without bound: relative changes are at most 2.
const UNENDED: f64 = 1e3;

/// Rounds beyond the columns of the smaller side after which a fit is taken for one that may not end.
const LATE_ROUNDS: usize = 8;

/// Rounds beyond twice the columns of the smaller side after which the rounds of a fit are taken for ones that come to no rest.
const RESTLESS_ROUNDS: usize = 30;

/// A scaled gradient above which a fit is not about what is left between columns that are close.
const RESTLESS: f64 = 1e-3;

/// A scaled gradient above which a quadratic model says little of other families, and the leader fits its block exactly.
const NEAR: f64 = 0.1;

/// A scaled gradient below which the second derivative hardly changes any more.
const SETTLED: f64 = 1e-4;

/// How often at most a fit goes on from a projection exchange.
pub(super) const MOST_EXCHANGES: u32 = 3;

/// An objective that is quadratic and rose by more than this share of it did not rise by rounding.
const RISE: f64 = 1e-10;

/// A relative change of the coefficients below which nothing grows without bound.
const GROWING: f64 = 1e-3;

impl Fits {
    pub(super) fn new(
        study: &Arc<Study<Vertical>>,
        (role, peer_role): (Role, Role),
        policy: &Policy,
        encoded: &Encoded,
        peer: usize,
    ) -> Fits {
        let block = &encoded.block;
        let own = block.columns();
        let own_leads = match study.leader_of_several() {
            Some(leader) => role == leader,
            // The first one leads when both have as many: it holds the intercept and would begin anyway.
            None => own < peer || (own == peer && study.is_first(role)),
        };
        let leader = if own_leads { role } else { peer_role };
        Fits {
            max_disclosure: policy.max_disclosure,
            policy_rounds: policy.max_rounds,
            metered: block.places().iter().flatten().copied().collect(),
            base_weights: block.outcome().weights.clone().map(Values::from),
            ..Fits::at_start(study, (role, leader), (own, peer))
        }
    }

    /// Before the first fit.
    fn at_start(study: &Arc<Study<Vertical>>, (role, leader): (Role, Role), columns: (usize, usize)) -> Fits {
        Fits {
            role,
            leader,
            study: Arc::clone(study),
            max_disclosure: None,
            policy_rounds: None,
            jobs: Vec::new(),
            current: 0,
            columns,
            own_largest: 0.0,
            path_top: 0.0,
            fold_totals: Vec::new(),
            tables: None,
            metered: Vec::new(),
            base_weights: None,
            base_spread: 1.0,
            units: Vec::new(),
            round: 0,
            rounds_before: 0,
            memory: Memory::new(columns.0.max(1)),
            response: Response::default(),
            shown: None,
            followers: None,
            accepted: None,
            extrapolated: false,
            own_change: f64::INFINITY,
            last_change: f64::INFINITY,
            certificate: 1.0,
            peer_certificate: 1.0,
            peer_penalty: 0.0,
            incoming: None,
            incoming_values: Values::default(),
            growth: Growth::default(),
            partner_grows: false,
            least: (f64::INFINITY, f64::INFINITY),
            still_rounds: 0,
            change: f64::INFINITY,
            loss: 0.0,
            trace: Vec::new(),
            fitted: Vec::new(),
            fold_errors: Vec::new(),
            restarted: false,
            exchanges: false,
            errors_first: false,
            exchanged_for: 0,
        }
    }

    /// Makes this side the leader of several parties, which have these numbers of columns.
    pub(super) fn lead_several(&mut self, columns: &[usize]) {
        self.followers = Some(Followers::new(columns));
    }

    /// The others one by one, at the leader of several parties.
    pub(super) fn followers(&mut self) -> Option<&mut Followers> {
        self.followers.as_mut()
    }

    pub(super) fn leader(&self) -> Role {
        self.leader
    }

    pub(super) fn round(&self) -> u32 {
        self.round
    }

    pub(super) fn certificate(&self) -> Option<f64> {
        (self.round > 0).then_some(self.certificate.max(self.peer_certificate))
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds_before + self.round
    }

    /// Starts again after columns were set aside; coefficients stay as a warm start.
    pub(super) fn restart(&mut self, block: &Block) {
        self.rounds_before += self.round;
        self.current = 0;
        self.fitted.clear();
        self.restarted = true;
        self.units.clear();
        self.response.forget();
        self.columns.0 = block.columns();
        self.reset_rounds();
        self.round = 0;
    }

    fn reset_rounds(&mut self) {
        self.memory.clear();
        self.response.begin();
        let partners = match &self.followers {
            Some(followers) => followers.columns(),
            None => vec![self.columns.1],
        };
        // What a round maps is made of the own coefficients and of what all partners but the first predict.
        self.memory = Memory::new((self.columns.0 + partners.iter().skip(1).sum::<usize>()).max(1));
        let unpenalised = self.study.method.penalty.is_none();
        let needed = self.minimises() || self.study.method.family != Family::Gaussian;
        self.shown = (unpenalised && needed).then(|| Shown::new(&partners, self.partner_hides()));
        self.accepted = None;
        self.extrapolated = false;
        self.own_change = f64::INFINITY;
        self.last_change = f64::INFINITY;
        self.certificate = 1.0;
        self.peer_certificate = 1.0;
        self.peer_penalty = 0.0;
        self.growth = Growth::default();
        self.partner_grows = false;
        self.least = (f64::INFINITY, f64::INFINITY);
        self.still_rounds = 0;
        self.change = f64::INFINITY;
    }

    /// Whether the leader goes to the minimum over what the partner has shown, and does not only watch for growth without bound.
    fn minimises(&self) -> bool {
        self.study.method.fit.acceleration == Acceleration::Anderson
    }

    /// Whether the partner's predictions carry a term that only it holds.
    fn partner_hides(&self) -> bool {
        !self.study.is_first(self.role) && hidden_at_first(&self.study)
    }

    /// What to say now: the leader's next point or the end, or the follower's answer.
    pub(super) fn speak(&mut self, site: &mut Site<'_>) -> Result<Step, Abort> {
        let step = if self.role == self.leader { self.lead(site)? } else { self.follow(site).map(Step::Partial)? };
        if let Step::Partial(partial) = &step {
            // What the other would refuse is told here, where the reason is known.
            sound(partial, self.exchanged(site.block), true).map_err(|_| too_large(&self.study))?;
        }
        Ok(step)
    }

    /// Takes the partner's predictions in.
    pub(super) fn hear(&mut self, site: &mut Site<'_>, partial: Partial) -> Result<(), PeerFault> {
        let follower = self.role != self.leader;
        let next_fit = follower && partial.fit as usize == self.current + 1 && self.round > 0;
        let (fit, round) = if next_fit {
            (self.current + 1, 1)
        } else {
            (self.current, if follower { self.round + 1 } else { self.round })
        };
        if partial.fit as usize != fit || fit >= self.jobs.len() {
            return Err(PeerFault::Round { came: partial.fit, expected: fit as u32 });
        }
        if partial.round != round {
            return Err(PeerFault::Round { came: partial.round, expected: round });
        }
        // An empty vector stands for zeros: the leader's start.
        sound(&partial, self.exchanged(site.block), follower)?;
        if next_fit {
            self.leave(site, Termination::Converged);
            self.rounds_before += self.round;
            self.round = 0;
            self.current += 1;
        }
        if follower {
            self.round = partial.round;
        }
        self.incoming = Some(partial);
        Ok(())
    }

    /// Takes the answer of one of several followers in, which is part of a partner's.
    pub(super) fn hear_part(&mut self, block: &Block, at: usize, partial: Partial) -> Result<(), PeerFault> {
        if partial.fit as usize != self.current {
            return Err(PeerFault::Round { came: partial.fit, expected: self.current as u32 });
        }
        if partial.round != self.round {
            return Err(PeerFault::Round { came: partial.round, expected: self.round });
        }
        sound(&partial, self.exchanged(block), false)?;
        if let Some(followers) = &mut self.followers {
            followers.hear(at, partial);
        }
        Ok(())
    }

    fn exchanged(&self, block: &Block) -> usize {
        match &self.tables {
            Some(kit) => kit.exchanged(),
            None => block.rows(),
        }
    }

    /// The leader said that the fits are over.
    pub(super) fn hear_end(&mut self, site: &mut Site<'_>, ended: Ended) -> Result<(), PeerFault> {
        let last = self.current + 1 == self.jobs.len();
        if self.round == 0 || !last || ended.rounds != self.rounds() {
            return Err(PeerFault::Round { came: ended.rounds, expected: self.rounds() });
        }
        self.leave(site, ended.termination);
        Ok(())
    }

    fn follow(&mut self, site: &mut Site<'_>) -> Result<Partial, Abort> {
        let Some(partial) = self.incoming.take() else {
            return Err(Abort::Bug("an answer before a question".to_string()));
        };
        if partial.round == 1 {
            self.enter(site)?;
        }
        self.check_rounds(site)?;
        let Site { block, meter, .. } = site;
        let before = block.beta().clone();
        self.incoming_values = partial.values.clone();
        let last = block.take(partial.values, partial.loss);
        let followed = self.tables.is_none() && partial.round > 1;
        let first = followed.then(|| block.follow(&last, self.loss)).flatten();
        drop(last);
        let unpenalised = self.study.method.penalty.is_none() && block.outcome().family != Family::Gaussian;
        let tol = if unpenalised { exact_tol(partial.certificate) } else { inner_tol(partial.certificate) };
        let mut solved = block.solve(tol, first);
        self.own_change = block.change(&before, block.beta());
        let at_rest = self.own_change <= self.study.method.fit.tol;
        if unpenalised && at_rest {
            let (stepped, change) = block.step_on(solved);
            solved = stepped;
            self.own_change = self.own_change.max(change);
        }
        // Also where other columns are still on their way: in plain rounds that may take long.
        let look = at_rest || partial.certificate.max(solved.certificate) <= FLAT || self.is_late(self.own_change);
        let unended = unpenalised && look && self.growth.exhausted(block, self.study.method.intercept, None);
        if unended {
            self.own_change = self.own_change.max(1.0);
        }
        let beta = block.beta().clone();
        self.loss = solved.loss;
        self.certificate = solved.certificate;
        self.peer_certificate = partial.certificate;
        self.change = partial.change.max(self.own_change);
        let penalty = block.penalty_at(&beta);
        let objective = solved.loss + penalty + partial.penalty;
        self.record(partial.round, partial.certificate.max(solved.certificate), self.change, objective);
        let values = block.outgoing();
        let own_loss = block.own_loss(&beta);
        self.charge(&beta, block, meter)?;
        Ok(Partial {
            fit: self.current as u32,
            round: self.round,
            values,
            penalty,
            loss: own_loss,
            change: if unended { UNENDED } else { finite(self.own_change) },
            certificate: solved.certificate,
        })
    }

    fn lead(&mut self, site: &mut Site<'_>) -> Result<Step, Abort> {
        let Some(answer) = self.incoming.take() else {
            return self.open(site);
        };
        let block = &mut *site.block;
        let beta = block.beta().clone();
        self.partner_grows = answer.change >= UNENDED;
        self.incoming_values = answer.values.clone();
        block.take(answer.values, answer.loss);
        self.peer_penalty = answer.penalty;
        self.peer_certificate = answer.certificate;
        let pass = block.pass(&beta);
        let objective = pass.loss + block.penalty_at(&beta) + answer.penalty;
        self.loss = pass.loss;
        self.certificate = block.certificate(&pass.gradient, &beta);
        if !self.minimises()
            && let Some(shown) = &mut self.shown
        {
            let vectors = vectors(&self.followers, &self.incoming_values);
            shown.take(block, &vectors);
        }
        let change = self.own_change.max(if self.partner_grows { 1.0 } else { answer.change });
        let certificate = self.certificate.max(answer.certificate).max(self.unsettled(block));
        self.change = change;
        self.record(self.round, certificate, change, objective);
        let ended = self.verdict(block, certificate, change);
        self.last_change = change;
        if let Some(termination) = ended {
            return self.close(site, termination);
        }
        if self.is_restless(certificate) {
            let ended = self.close(site, Termination::MaxRounds)?;
            return Ok(match ended {
                Step::Ended(ended) => Step::Ended(Ended { again: true, ..ended }),
                partial @ Step::Partial(_) => partial,
            });
        }
        self.check_rounds(site)?;
        let block = &mut *site.block;
        let minimises = self.minimises();
        let next = match &mut self.shown {
            Some(shown) if minimises => {
                let before = self.accepted.as_ref().map_or(f64::INFINITY, |accepted| accepted.objective);
                let quadratic = self.study.method.family == Family::Gaussian && self.followers.is_none();
                if quadratic && objective > before + RISE * before.abs() {
                    shown.distrust();
                }
                self.accepted = Some(Accepted { objective, plain: DVector::zeros(0) });
                let tol = inner_tol(certificate).max(1e-3 * self.certificate);
                let vectors = vectors(&self.followers, &self.incoming_values);
                let minimum = shown.minimise(block, &pass, &vectors, tol);
                if vectors.len() > 1 {
                    let later = shown.go_to(block, &minimum, &vectors);
                    if let Some(followers) = &mut self.followers {
                        followers.go_on_from(later);
                    }
                }
                minimum.own
            }
            Some(_) | None => {
                let next = self.quasi_newton_point(block, &beta, &pass, objective);
                next.unwrap_or_else(|| self.next_point(block, &beta, pass, objective))
            }
        };
        let from = self.response.gone_back_to().cloned().unwrap_or(beta);
        self.propose(site, &from, next)
    }

    /// Gives back the memory of row vectors that only a further round would need.
    pub(super) fn rest(&mut self) {
        (self.shown, self.followers, self.incoming) = (None, None, None);
        (self.growth, self.incoming_values) = (Growth::default(), Values::default());
    }

    /// How large the scaled gradient of a follower may have become by what those after it answered: each answered to what it knew.
    fn unsettled(&self, block: &Block) -> f64 {
        let Some(followers) = &self.followers else { return 0.0 };
        let outcome = block.outcome();
        let roots = |start: usize, moved: &mut [f64]| {
            if let Some(weights) = &outcome.weights {
                moved.iter_mut().zip(&weights[start..]).for_each(|(moved, weight)| *moved *= weight.sqrt());
            }
        };
        let moved = match outcome.family {
            Family::Gaussian => followers.unsettled(roots),
            // A variance is at most a quarter.
            Family::Binomial => 0.25 * followers.unsettled(roots),
            Family::Poisson => followers.unsettled(|start, moved| {
                roots(start, moved);
                let rows = moved.iter_mut().enumerate();
                rows.for_each(|(i, moved)| *moved *= outcome.family.variance(block.predictor(start + i)));
            }),
        };
        moved / (block.weight_sum().sqrt() * outcome.spread)
    }

    /// Whether the fit is over, and why.
    fn verdict(&mut self, block: &Block, certificate: f64, change: f64) -> Option<Termination> {
        let tol = self.study.method.fit.tol;
        let mut step = change;
        if self.study.method.fit.acceleration == Acceleration::None {
            // The steps of the plain method shrink by a ratio; what is left to go is a geometric sum of them.
            let ratio = change / self.last_change;
            step = if ratio < 1.0 { change / (1.0 - ratio) } else { f64::INFINITY };
            if change == 0.0 {
                step = 0.0;
            }
        }
        let unbounded = self.study.method.penalty.is_none()
            && block.outcome().family != Family::Gaussian
            && self.unbounded(block, certificate, change);
        if unbounded {
            return Some(Termination::Separation);
        }
        if certificate <= tol && step <= tol {
            return Some(Termination::Converged);
        }
        // Below rounding no tolerance is met, however long the fit goes on.
        let smaller = certificate < self.least.0 || change < self.least.1;
        self.still_rounds = if smaller { 0 } else { self.still_rounds + 1 };
        self.least = (self.least.0.min(certificate), self.least.1.min(change));
        let still = self.still_rounds >= STILL_ROUNDS && change <= STILL;
        if still && certificate <= ROUNDING * block.rounding() {
            return Some(Termination::Converged);
        }
        (self.before_exchange() + self.round >= self.study.method.fit.round_limit()).then_some(Termination::MaxRounds)
    }

    /// Whether the estimates grow without bound.
    fn unbounded(&mut self, block: &Block, certificate: f64, change: f64) -> bool {
        if self.growth.unbounded(block, self.partner_hides()) && change > GROWING {
            return true;
        }
        if self.partner_grows {
            return true;
        }
        // Before a fit may end, and where it takes longer than a finite estimate does.
        if certificate > self.study.method.fit.tol.max(FLAT) && !self.is_late(change) {
            return false;
        }
        let intercept = self.study.method.intercept;
        self.growth.exhausted(block, intercept, self.shown.as_ref())
    }

    /// Whether coefficients still change in a round by which finite ones as a rule do not.
    fn is_late(&self, change: f64) -> bool {
        self.round as usize > self.columns.0.min(self.columns.1) + LATE_ROUNDS && change > GROWING
    }

    /// Whether the exchange for standard errors is still to come, and comes before the fit goes on.
    pub(super) fn errors_are_first(&self) -> bool {
        self.errors_first && self.exchanged_for == 0
    }

    /// Whether a projection exchange is to come: the one for standard errors, or one that ends rounds which come to no rest, as columns of
    /// the two sides are so close that what one side cannot see of the other decides.
    fn is_restless(&self, certificate: f64) -> bool {
        let rounds = 2 * self.columns.0.min(self.columns.1) + RESTLESS_ROUNDS;
        let may = self.exchanges && self.minimises() && self.exchanged_for < MOST_EXCHANGES;
        self.errors_are_first() || may && self.round as usize > rounds && certificate < RESTLESS
    }

    /// The next point of a fit with a penalty between two parties, by what is known of the partner's answers.
    fn quasi_newton_point(
        &mut self,
        block: &mut Block,
        beta: &DVector<f64>,
        pass: &Pass,
        objective: f64,
    ) -> Option<DVector<f64>> {
        if self.study.method.penalty.is_none() || self.followers.is_some() || !self.minimises() {
            return None;
        }
        let mut slack = block.slack(objective);
        if self.response.is_worse(objective, slack) {
            slack = block.wide_slack(objective);
        }
        self.response.take(beta, &pass.gradient, objective, slack);
        let far = self.study.method.family != Family::Gaussian && self.certificate > NEAR;
        if far && !self.response.turned_back() {
            block.solve(inner_tol(self.certificate), Some(pass.clone()));
            return Some(block.beta().clone());
        }
        block.step_by(&mut self.response, self.certificate < SETTLED)
    }

    /// The next point: extrapolated where that is safe, else the plain image of the last one.
    fn next_point(&mut self, block: &mut Block, beta: &DVector<f64>, pass: Pass, objective: f64) -> DVector<f64> {
        let accelerated = self.study.method.fit.acceleration == Acceleration::Anderson;
        let worse = self
            .accepted
            .as_ref()
            .is_some_and(|accepted| !(objective <= accepted.objective + block.slack(accepted.objective)));
        let rejected = self.extrapolated && worse;
        let usable = objective.is_finite();
        let image = if usable {
            match block.exact_step(beta, &pass) {
                Some(image) => image,
                None => {
                    block.solve(inner_tol(self.certificate), Some(pass));
                    block.beta().clone()
                }
            }
        } else {
            beta.clone()
        };
        let (point, image) = match &mut self.followers {
            Some(followers) if accelerated => {
                let (started, answered) = (followers.started(), followers.answered());
                (joined(beta, &started), joined(&image, &answered))
            }
            _ => (beta.clone(), image),
        };
        if usable && accelerated {
            self.memory.remember(&point, &image);
        }
        if rejected && let Some(accepted) = &self.accepted {
            self.extrapolated = false;
            let plain = accepted.plain.clone();
            return self.go_on_at(plain);
        }
        self.accepted = Some(Accepted { objective, plain: image.clone() });
        let extrapolated = if accelerated {
            let (own, metric) = (block.columns(), block.metric());
            self.memory.extrapolate(|step| {
                let mut embedded = step.clone();
                embedded.rows_mut(0, own).copy_from(&metric.embed(&step.rows(0, own).into_owned()));
                embedded
            })
        } else {
            None
        };
        self.extrapolated = extrapolated.is_some();
        self.go_on_at(extrapolated.unwrap_or(image))
    }

    /// The own coefficients of a point, at the rest of which the followers' round starts.
    fn go_on_at(&mut self, point: DVector<f64>) -> DVector<f64> {
        let Some(followers) = &mut self.followers else { return point };
        let own = self.columns.0;
        if point.len() == own {
            followers.go_on_from_answers();
            return point;
        }
        followers.go_on_at(point.rows(own, point.len() - own).into_owned());
        point.rows(0, own).into_owned()
    }

    /// Sends the next point of the present fit.
    fn propose(&mut self, site: &mut Site<'_>, from: &DVector<f64>, next: DVector<f64>) -> Result<Step, Abort> {
        self.own_change = site.block.change(from, &next);
        self.partial(site, next)
    }

    /// The first point of a fit.
    fn open(&mut self, site: &mut Site<'_>) -> Result<Step, Abort> {
        let warm = self.enter(site)?;
        let block = &mut *site.block;
        if self.study.is_first(self.role) && !warm {
            block.solve(inner_tol(1.0), None);
        }
        self.own_change = f64::INFINITY;
        let beta = block.beta().clone();
        self.partial(site, beta)
    }

    fn partial(&mut self, site: &mut Site<'_>, beta: DVector<f64>) -> Result<Step, Abort> {
        let Site { block, meter, .. } = site;
        let zero = beta.iter().all(|b| *b == 0.0) && block.outcome().hidden.is_none();
        let mut values = block.predict(&beta);
        if zero {
            values = Values::default();
        } else {
            self.charge(&beta, block, meter)?;
        }
        let penalty = block.penalty_at(&beta);
        let loss = block.own_loss(&beta);
        block.place(beta);
        self.round += 1;
        Ok(Step::Partial(Partial {
            fit: self.current as u32,
            round: self.round,
            values,
            penalty,
            loss,
            change: finite(self.own_change),
            certificate: self.certificate,
        }))
    }

    /// Ends the present fit and opens the next one, or ends them all.
    fn close(&mut self, site: &mut Site<'_>, termination: Termination) -> Result<Step, Abort> {
        self.leave(site, termination);
        if self.current + 1 < self.jobs.len() {
            self.current += 1;
            self.rounds_before += self.round;
            self.round = 0;
            return self.open(site);
        }
        let worst = self.fitted.iter().map(|fit| fit.termination).find(|termination| !termination.converged());
        let termination = worst.unwrap_or(termination);
        Ok(Step::Ended(Ended { termination, rounds: self.rounds(), again: false }))
    }

    fn record(&mut self, round: u32, certificate: f64, change: f64, objective: f64) {
        if self.jobs.get(self.current).is_some_and(|job| job.fold.is_none()) {
            let round = self.before_exchange() + round;
            self.trace.push(TracePoint { round, certificate, change: finite(change), objective });
        }
    }

    /// Rounds of the present fit before the exchange from which it went on: it is the same fit.
    fn before_exchange(&self) -> u32 {
        if self.exchanged_for > 0 { self.rounds_before } else { 0 }
    }

    fn check_rounds(&self, site: &Site<'_>) -> Result<(), Abort> {
        match self.policy_rounds.filter(|most| site.other_rounds + self.rounds() > *most) {
            Some(most) => Err(Abort::Policy { who: self.role, what: format!("more than {most} rounds") }),
            None => Ok(()),
        }
    }

    /// Counts the outcome less its mean as sent: the hidden term alone.
    pub(super) fn meter_null_residual(&self, meter: &mut Meter) {
        let terms = self.metered.len();
        meter.record(&DVector::from_fn(terms + 1, |at, _| f64::from(u8::from(at == terms))));
    }

    /// Counts what is about to leave, and refuses it where it would show too much.
    fn charge(&self, beta: &DVector<f64>, block: &Block, meter: &mut Meter) -> Result<(), Abort> {
        if self.tables.is_some() {
            return Ok(());
        }
        let hidden = usize::from(block.outcome().hidden.is_some());
        let mut shown = DVector::zeros(self.metered.len() + hidden);
        // Its coefficient is always 1.
        shown.rows_mut(self.metered.len(), hidden).fill(1.0);
        for (place, b) in block.places().iter().zip(beta.iter()) {
            if let Some(known) = place.and_then(|place| self.metered.iter().position(|metered| *metered == place)) {
                shown[known] = *b;
            }
        }
        if let Some(most) = self.max_disclosure {
            let share = meter.largest_share_with(&shown);
            if share > most {
                return Err(disclosure_refused(self.role, share, most));
            }
        }
        meter.record(&shown);
        Ok(())
    }
}

/// What each partner sent last; the one partner of two is not kept by itself.
fn vectors<'a>(followers: &'a Option<Followers>, only: &'a Values) -> Vec<&'a Values> {
    match followers {
        Some(followers) => followers.vectors(),
        None => vec![only],
    }
}

fn joined(own: &DVector<f64>, others: &DVector<f64>) -> DVector<f64> {
    DVector::from_iterator(own.len() + others.len(), own.iter().chain(others.iter()).copied())
}

/// Checks the numbers of a partner's predictions; none at all stand for zeros where that may be.
fn sound(partial: &Partial, expected: usize, may_be_zero: bool) -> Result<(), PeerFault> {
    if !(partial.values.is_empty() && may_be_zero) && partial.values.len() != expected {
        let came = partial.values.len() as u64;
        return Err(PeerFault::Length { what: "partial predictions", came, expected: expected as u64 });
    }
    let finite = rows::all(&partial.values, |value| value.abs() <= 1e200);
    let scalars = [partial.penalty, partial.certificate];
    if !finite
        || !partial.loss.is_finite()
        || !scalars.iter().all(|value| value.is_finite() && *value >= 0.0)
        || partial.change.is_nan()
    {
        return Err(PeerFault::Value {
            what: "partial predictions",
            expected: "a finite number",
            round: partial.round,
        });
    }
    Ok(())
}

/// Why a fit ends whose predictions or means are too large for double precision.
fn too_large(study: &Study<Vertical>) -> Abort {
    let why = "the means of the fit are too large for double precision";
    Abort::Data(match &study.method.offset {
        Some(offset) => {
            let (name, held_by) = (&offset.column, offset.held_by.holder());
            let whose = held_by.map_or_else(String::new, |holder| format!(" of {holder}"));
            format!(
                "{why}: the offset `{name}`{whose} is added to the linear predictor as it is, and its values are far apart; of \
                 an exposure the offset is the logarithm, log({name})"
            )
        }
        None => format!("{why}: give columns smaller units, or leave out rows far from all others"),
    })
}

/// How far an inner fit goes: far below the certificate of the exchange, so that the map that is accelerated depends on
/// the partner's predictions alone.
fn inner_tol(certificate: f64) -> f64 {
    (1e-4 * certificate).clamp(1e-14, 1e-8)
}

/// The same where the leader takes the partner's answer for a minimum over its block, which columns that are close to
/// each other magnify what is missing of.
fn exact_tol(certificate: f64) -> f64 {
    (1e-6 * certificate).clamp(1e-14, 1e-10)
}

/// Whether the first party's predictions carry a term that only it holds.
fn hidden_at_first(study: &Study<Vertical>) -> bool {
    let alone = |column: &crate::study::HeldColumn| column.held_by.is_alone();
    (alone(&study.method.outcome) && study.method.family == Family::Gaussian)
        || (study.method.offset.as_ref().is_some_and(alone) && !study.sends_offset())
}

/// A first point has changed from nothing, which is a relative change of 1.
fn finite(change: f64) -> f64 {
    if change.is_finite() { change } else { 1.0 }
}
