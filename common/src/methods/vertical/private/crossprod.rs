//! What the sides of a run of the mechanism `crossprod` say once the budget is reserved.
//!
//! 1. Each party's own noised statistics, Alice's first, one at a time;
//! 2. both blocks behind masks, up to a share of the table between them at each party, and the shares of a public product by which both
//!    see that their masks fit;
//! 3. each party's share with its noise, Alice's first. Then all is open to both.
//!
//! A share leaves as a release: permitted, noised, stored with its bytes, and then sent. What is stored is sent again byte for byte,
//! by another process too, which needs no masks for that. A share that was not stored is noised afresh under the same permit, with fresh
//! masks of both parties: nothing of it has left. Where one party has stored its share and the other one has lost its masks, the run
//! is over and its charge stays: with new masks the stored share would open nothing, and another share of the same table with the same
//! noise would show the difference of two tables exactly.

use super::checked::CheckedTable;
use super::held::Held;
use super::table::Table;
use super::{PrivateFit, WALD};
use crate::conversation::{Refusal, Said, Step};
use crate::fit::{Coefficient, INTERCEPT};
use crate::glm::Family;
use crate::id::{Role, RunId};
use crate::methods::vertical::masked::{MaskedTable, out_of_order};
use crate::methods::vertical::message::{Body, Noised};
use crate::methods::vertical::outcome::PERFORMANCE;
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::plan::{
    CrossFit, CrossPenalised, CrossPenalty, CrossPlan, CrossRelease, CrossTables, Outlook, Side, WholeRows,
};
use crate::methods::vertical::refit::{Kept, Noised as NoisedTables};
use crate::privacy::bounds::{ClippedOutcome, ClippedRows};
use crate::privacy::ledger::Storage;
use crate::privacy::mechanism::LatticeVector;
use crate::privacy::mechanism::share::open_shares;
use crate::privacy::release::Released;
use crate::report::{PathCoefficient, PathPoint};
use crate::session::{Abort, Order, PeerFault};
use crate::study::{Study, Vertical};

/// The lattice step of a release of own statistics, in standard deviations of its noise.
pub(super) const STEP_PER_SIGMA: f64 = 1.0 / (1_u64 << 40) as f64;

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Own statistics, by their place among those of both.
    Statistics(usize),
    /// Both blocks behind masks, up to the shares of the table.
    Table,
    /// The shares of the table with their noise.
    Share {
        from: Role,
    },
    Over,
}

/// A release of a side and what came of it.
struct Slot {
    side: Side,
    release: CrossRelease,
    /// Position in the side's plan.
    index: u32,
    value: Option<LatticeVector>,
}

/// One side of the run.
pub(super) struct Crossprod {
    pair: Pair,
    plan: CrossPlan,
    rows: WholeRows,
    outcome: ClippedOutcome,
    place: Place,
    /// The statistics of both in the order in which they are said, then both shares.
    slots: Vec<Slot>,
    statistics: usize,
    table: CheckedTable,
    /// Whether the run is taken up again and its masks are those of this process.
    resumed: bool,
}

impl Crossprod {
    pub(super) fn new<S: Storage>(
        plan: CrossPlan,
        run: RunId,
        rows: ClippedRows,
        outcome: ClippedOutcome,
        held: &mut Held<S>,
    ) -> Result<Crossprod, Abort> {
        let (pair, shape) = (Pair::of(&held.study, held.role), plan.shape());
        let (statistics, slots) = slots(&plan);
        let own = slots.iter().find(|slot| slot.release == CrossRelease::Share && slot.side == pair.side());
        let index = own.map_or(0, |slot| slot.index);
        let stored = held.reserved && held.stored(index)?.is_some();
        let masked = match stored {
            true => MaskedTable::of_the_past(pair, &held.study, run, shape),
            false => MaskedTable::new(pair, &held.study, run, shape),
        };
        Ok(Crossprod {
            pair,
            rows: plan.block(pair.side(), rows, &outcome),
            outcome,
            place: Place::Statistics(0),
            slots,
            statistics,
            table: CheckedTable::new(pair, masked),
            resumed: held.reserved && !stored,
            plan,
        })
    }

    pub(super) fn progress(&self) -> (&'static str, u32) {
        match self.place {
            Place::Statistics(_) => ("exchanging noised statistics", 0),
            Place::Table if self.table.waits_for_dealer() => ("waiting for the dealer", 0),
            Place::Table => ("exchanging masked columns", 0),
            Place::Share { .. } => ("exchanging noised shares", 0),
            Place::Over => ("done", 1),
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Statistics(at) => (self.pair.at(self.slots.get(at)?.side), "noised statistics"),
            Place::Table => return self.table.step(),
            Place::Share { from } => (from, "a noised share"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        match self.place {
            Place::Table => self.table.order(),
            Place::Statistics(_) | Place::Share { .. } | Place::Over => None,
        }
    }

    pub(super) fn go_ahead(&mut self) -> Result<(), Abort> {
        match self.place {
            Place::Table => self.table.go_ahead(&self.rows),
            Place::Statistics(_) | Place::Share { .. } | Place::Over => Ok(()),
        }
    }

    /// Whether the own share is out and the peer's has not come.
    pub(super) fn has_shared(&self) -> bool {
        self.place == Place::Share { from: self.pair.peer() }
            && self.own_share().is_some_and(|slot| slot.value.is_some())
    }

    /// Why a peer that is ahead cannot be followed: it goes on from its stored share, and the masks that belong to it are gone here.
    pub(super) fn left_behind<S>(&self, held: &Held<S>) -> Option<Abort> {
        let waits = match self.place {
            Place::Statistics(_) | Place::Table => true,
            Place::Share { .. } | Place::Over => false,
        };
        (self.resumed && waits).then(|| without_masks(held))
    }

    /// In a run of the past, what stands for a message of the masked exchange: nothing follows from it.
    pub(super) fn stands_in(&self) -> Option<Body> {
        let past = match self.place {
            Place::Table => self.table.is_past(),
            Place::Statistics(_) | Place::Share { .. } | Place::Over => false,
        };
        past.then_some(Body::Go)
    }

    fn own_share(&self) -> Option<&Slot> {
        let own = self.pair.side();
        self.slots[self.statistics..].iter().find(|slot| slot.side == own)
    }

    pub(super) fn build<S: Storage>(&mut self, held: &mut Held<S>) -> Result<Said<Body>, Abort> {
        match self.place {
            Place::Statistics(at) => {
                let (side, release, index) = {
                    let slot = &self.slots[at];
                    (slot.side, slot.release, slot.index)
                };
                let query =
                    self.plan.query(side, release, self.rows.clipped(), &self.outcome)?.ok_or_else(out_of_order)?;
                let noised = held.release(index, &query)?;
                self.slots[at].value = Some(noised.lattice().clone());
                self.place = self.after_statistics(at);
                Ok(said(&noised))
            }
            Place::Table => {
                let body = self.table.build(&self.rows)?;
                self.after_table();
                Ok(body.into())
            }
            Place::Share { from } => {
                let index = self.own_share().map(|slot| slot.index).ok_or_else(out_of_order)?;
                let noised = match held.stored(index)? {
                    Some(noised) => noised,
                    None => {
                        let share = self.table.take_share()?;
                        held.release(index, &self.plan.share(self.pair.side(), &share))?
                    }
                };
                self.take(self.pair.side(), noised.lattice().clone());
                self.place = self.after_share(from);
                Ok(said(&noised))
            }
            Place::Over => Err(out_of_order()),
        }
    }

    pub(super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Statistics(at), Body::Noised(noised)) => {
                let slot = &self.slots[at];
                expect(&noised, slot.index)?;
                let (side, release) = (slot.side, slot.release);
                let sigma = self.plan.side(side).sigma(release);
                let fits = noised.value.require(self.plan.entries(side, release), sigma * STEP_PER_SIGMA);
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.slots[at].value = Some(noised.value);
                self.place = self.after_statistics(at);
            }
            (Place::Table, body) => {
                self.table.absorb(body, &self.rows)?;
                self.after_table();
            }
            (Place::Share { from }, Body::Noised(noised)) => {
                let side = self.pair.side_of(from);
                let index = self.slots[self.statistics..].iter().find(|slot| slot.side == side).map(|slot| slot.index);
                expect(&noised, index.ok_or_else(out_of_order)?)?;
                let fits = noised.value.require(self.plan.entries(side, CrossRelease::Share), self.plan.scale().step());
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.take(side, noised.value);
                self.place = self.after_share(from);
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    fn take(&mut self, side: Side, value: LatticeVector) {
        if let Some(slot) = self.slots[self.statistics..].iter_mut().find(|slot| slot.side == side) {
            slot.value = Some(value);
        }
    }

    fn after_statistics(&self, at: usize) -> Place {
        if at + 1 < self.statistics { Place::Statistics(at + 1) } else { Place::Table }
    }

    fn after_table(&mut self) {
        if self.table.step().is_none() {
            self.place = Place::Share { from: self.pair.first() };
        }
    }

    fn after_share(&self, from: Role) -> Place {
        if from == self.pair.first() { Place::Share { from: self.pair.second() } } else { Place::Over }
    }

    /// The joint fit; the same at both parties, as both know the same values.
    pub(super) fn finish<S: Storage>(&mut self, held: &Held<S>, table: &Table) -> Result<PrivateFit, Abort> {
        let missing = || Abort::Bug("a noised value is missing".to_string());
        let of = |side: Side, release: CrossRelease| {
            self.slots
                .iter()
                .find(|slot| slot.side == side && slot.release == release)
                .and_then(|slot| slot.value.clone())
        };
        let shares = [Side::Alice, Side::Bob].map(|side| of(side, CrossRelease::Share));
        let [Some(alice), Some(bob)] = &shares else { return Err(missing()) };
        let shape = self.plan.shape();
        let opened =
            open_shares([alice, bob], [shape.left, shape.right], shape.rows, self.plan.scale()).map_err(|error| {
                let fault = PeerFault::Sealed(error.to_string());
                Abort::Peer { peer: self.pair.peer(), fault }
            })?;
        let square = self.outcome.values().iter().map(|y| y * y).sum();
        let tables = self.plan.tables(of, &opened, square).ok_or_else(missing)?;
        concluded(held, &self.plan, &tables, table.rows())
    }
}

/// The joint fit on the original scale, from all that has opened.
pub(super) fn concluded<S: Storage>(
    held: &Held<S>,
    plan: &CrossPlan,
    tables: &CrossTables,
    rows: usize,
) -> Result<PrivateFit, Abort> {
    let outlook = held.study.outlook(&held.plan).map_err(|error| Abort::Bug(error.to_string()))?;
    let Solved { coefficients, path, shown_lambda } = match held.study.cross_penalty() {
        Some(penalty) => penalised(&held.study, plan, tables, &penalty)?,
        None => {
            let fit = plan.fit(tables).ok_or_else(no_inverse)?;
            Solved { coefficients: coefficients(&held.study, &fit)?, path: None, shown_lambda: None }
        }
    };
    let statement = held.statement()?;
    let noised = NoisedTables::new(plan, tables, statement.clone());
    Ok(PrivateFit {
        coefficients,
        nobs: rows as u64,
        rounds: 1,
        notes: notes(&held.study, &outlook),
        caution: None,
        statement,
        outlook,
        path,
        shown_lambda,
        kept: Some(Kept::noised(&held.study, (held.role, held.run.clone()), noised)),
    })
}

/// The end of a run whose other party has made a share with masks that are lost here.
pub(super) fn without_masks<S>(held: &Held<S>) -> Abort {
    Abort::Refused(format!(
        "run {} cannot go on: {} has made its share with masks that were lost here when the process ended; what the run reserved is \
         spent, start a new run",
        held.run,
        held.study.peer(held.role)
    ))
}

/// The releases of both sides in the order in which they are said, and how many of them are statistics.
fn slots(plan: &CrossPlan) -> (usize, Vec<Slot>) {
    let sides = [Side::Alice, Side::Bob];
    let of = |side: Side| {
        let order = plan.side(side).order().iter().enumerate();
        order.map(move |(index, release)| Slot { side, release: *release, index: index as u32, value: None })
    };
    let mut slots: Vec<Slot> = sides.into_iter().flat_map(of).collect();
    // One statistic of each in turn; the shares, of which each side has one, come last.
    slots.sort_by_key(|slot| {
        (slot.release == CrossRelease::Share, slot.index * u32::from(slot.release != CrossRelease::Share))
    });
    let statistics = slots.iter().filter(|slot| slot.release != CrossRelease::Share).count();
    (statistics, slots)
}

pub(super) fn said(noised: &crate::privacy::mechanism::NoisedRelease) -> Said<Body> {
    Said::Released(Released::noised(noised, |index, value| Body::Noised(Noised { index, value })))
}

pub(super) fn expect(noised: &Noised, expected: u32) -> Result<(), PeerFault> {
    match noised.index == expected {
        true => Ok(()),
        false => Err(PeerFault::Round { came: noised.index, expected }),
    }
}

fn no_inverse() -> Abort {
    Abort::Bug("the joint table has no inverse".to_string())
}

/// What the tables come to.
struct Solved {
    coefficients: Vec<Coefficient>,
    path: Option<Vec<PathPoint>>,
    shown_lambda: Option<f64>,
}

/// The fits along lambda, the last of which the coefficient table shows, as in the other modes.
fn penalised(
    study: &Study<Vertical>,
    plan: &CrossPlan,
    tables: &CrossTables,
    penalty: &CrossPenalty,
) -> Result<Solved, Abort> {
    let bounds = study.outcome_bounds().map_err(|error| Abort::Bug(error.to_string()))?;
    let fits = plan.penalised(tables, penalty, bounds.half_range()).ok_or_else(no_inverse)?;
    let mut points = Vec::with_capacity(fits.len());
    let mut shown = Vec::new();
    for CrossPenalised { lambda, fit, violation } in fits {
        shown = coefficients(study, &fit)?;
        let kept = shown.iter().filter(|row| row.term != INTERCEPT && row.estimate.is_some_and(|b| b != 0.0)).count();
        let each = shown.iter().cloned();
        points.push(PathPoint {
            lambda,
            df: kept as u64,
            // As elsewhere in private mode: nobody looks at how well the rows are met.
            deviance: f64::NAN,
            kkt: violation,
            coefficients: each
                .map(|row| PathCoefficient { term: row.term, party: row.party, estimate: row.estimate })
                .collect(),
        });
    }
    let shown_lambda = points.last().map(|point| point.lambda);
    Ok(Solved { coefficients: shown, path: Some(points).filter(|points| points.len() > 1), shown_lambda })
}

/// Intercept and slopes of all parties with their standard errors, in the order of the parties.
fn coefficients(study: &Study<Vertical>, fit: &CrossFit) -> Result<Vec<Coefficient>, Abort> {
    let refused = |error: crate::privacy::bounds::BoundsError| Abort::Bug(error.to_string());
    let outcome = study.outcome_bounds().map_err(refused)?;
    let roles = study.parties_in_order();
    let bounds = study.all_bounds().map_err(refused)?;
    let (values, variances) = fit.on_original_scale(&bounds.iter().collect::<Vec<_>>(), &outcome);
    let inference = study.method.inference.allowed && study.method.penalty.is_none();
    let error = |at: usize| inference.then(|| variances[at].sqrt());
    let named = roles.iter().zip(&bounds).flat_map(|(role, bounds)| bounds.names().iter().map(|name| (*role, name)));
    let intercept = Some(outcome.centre() + values[0]);
    let first = study.first();
    let mut rows = vec![Coefficient::normal(INTERCEPT.to_string(), first, intercept, error(0))];
    rows.extend(
        named
            .enumerate()
            .map(|(at, (role, name))| Coefficient::normal(name.clone(), role, Some(values[at + 1]), error(at + 1))),
    );
    Ok(rows)
}

/// Why a private fit of counts has neither.
const NO_ERRORS_OF_COUNTS: &str = "not computed. Counts, and the means that are computed on shares, are cut at the largest count that the study \
                                   declares; what that moves is taken off as far as the linear predictor is normal, and what it leaves is in \
                                   no standard error: intervals from noise and sampling alone would not hold what they say";

/// What standard errors from noised tables hold.
pub(in crate::methods::vertical) fn errors_of_noise(study: &Study<Vertical>) -> String {
    let parties = if study.is_of_several() { "all" } else { "both" };
    format!(
        "standard errors and intervals include the noise of {parties} parties and what a sample leaves open about the population of rows that \
         are cut as these are"
    )
}

/// Why a fit to noised tables has no tests of terms.
pub(in crate::methods::vertical) fn no_tests_of_terms() -> String {
    format!(
        "{WALD}: not computed in private mode, though nothing more would have to leave: they would follow from the noised tables as the \
         standard errors of single coefficients do, which are all that is stated"
    )
}

pub(super) fn notes(study: &Study<Vertical>, outlook: &Outlook) -> Vec<String> {
    let mut notes = super::foretold(outlook);
    if study.method.family == Family::Binomial {
        notes.push(format!(
            "{PERFORMANCE}: not computed in private mode, since they would need values of rows without noise"
        ));
    }
    if study.method.penalty.is_some() {
        notes.push("penalised estimates have no standard errors".to_string());
        notes.push(
            "the penalty cost nothing of the budget: the estimates at every lambda are computed from the same noised tables; the expected \
             error is that of the estimates without a penalty"
                .to_string(),
        );
        return notes;
    }
    match study.method.family {
        Family::Gaussian | Family::Binomial => {}
        Family::Poisson => {
            notes.push(format!("standard errors and intervals: {NO_ERRORS_OF_COUNTS}"));
            notes.push(format!("{WALD}: not computed, as the standard errors that they would belong to"));
            notes.extend(outlook.bias());
            return notes;
        }
    }
    match study.method.inference.allowed {
        true => {
            notes.push(errors_of_noise(study));
            notes.push(no_tests_of_terms());
            notes.extend(outlook.bias());
        }
        false => notes.push("standard errors: the study does not allow them".to_string()),
    }
    notes
}
