//! What the sides of a run of the mechanism `residual` say once the budget is reserved.

use super::held::Held;
use super::table::Table;
use super::{PrivateFit, WALD};
use crate::conversation::{Content, Refusal, Said, Step};
use crate::fit::{Coefficient, INTERCEPT};
use crate::id::Role;
use crate::methods::vertical::message::{Body, Estimates, Noised};
use crate::methods::vertical::names;
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::plan::{Exchange, Fitted, Need, Outlook, Plan};
use crate::privacy::bounds::{ClippedOutcome, ClippedRows};
use crate::privacy::ledger::Storage;
use crate::privacy::mechanism::NoisedRelease;
use crate::privacy::release::Released;
use crate::session::{Abort, PeerFault};
use crate::study::{CoefficientTerms, Mechanism, Study, Vertical};

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A partial prediction with noise; Alice's comes first in a round.
    Partial {
        round: u32,
        from: Role,
    },
    /// Bob's coefficients come first.
    Estimates {
        answered: bool,
    },
    Over,
}

/// One side of the exchange of partial predictions.
pub(super) struct Residual {
    pair: Pair,
    rounds: u32,
    place: Place,
    exchange: Exchange,
    estimates: Option<Estimates>,
}

impl Residual {
    pub(super) fn new(pair: Pair, plan: Plan, rows: ClippedRows, outcome: ClippedOutcome) -> Result<Residual, Abort> {
        let rounds = plan.setup().rounds;
        let exchange =
            Exchange::new(plan, pair.side(), rows, outcome).map_err(|error| Abort::Bug(error.to_string()))?;
        let place = Place::Partial { round: 1, from: pair.first() };
        Ok(Residual { pair, rounds, place, exchange, estimates: None })
    }

    pub(super) fn progress(&self) -> (&'static str, u32) {
        let phase = match self.place {
            Place::Partial { .. } => "fitting",
            Place::Estimates { .. } => "exchanging results",
            Place::Over => "done",
        };
        (phase, self.exchange.rounds())
    }

    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Partial { from, .. } => (from, "noised values"),
            Place::Estimates { answered: false } => (self.pair.second(), "noised estimates"),
            Place::Estimates { answered: true } => (self.pair.first(), "noised estimates"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    pub(super) fn build<S: Storage>(&mut self, held: &mut Held<S>, table: &Table) -> Result<Said<Body>, Abort> {
        let said = match self.place {
            Place::Partial { .. } => {
                let noised = self.work(held)?.ok_or_else(|| Abort::Bug("no partial prediction".to_string()))?;
                Said::Released(Released::noised(&noised, |index, value| Body::Noised(Noised { index, value })))
            }
            Place::Estimates { .. } => {
                self.work(held)?;
                let shared: fn(&Fitted) -> Body = match held.study.method.fit.coefficients {
                    CoefficientTerms::Shared => |fitted| Body::Estimates(estimates(fitted)),
                    CoefficientTerms::Own => {
                        |fitted| Body::Estimates(Estimates { shift: fitted.shift(), slopes: None })
                    }
                };
                Said::Released(Released::post_processed(&self.fitted(table)?, shared))
            }
            Place::Over => Body::Go.into(),
        };
        self.advance();
        Ok(said)
    }

    pub(super) fn absorb<S: Storage>(&mut self, held: &mut Held<S>, body: Body) -> Result<(), Refusal> {
        let came = body.kind();
        match (self.place, body) {
            (Place::Partial { round, .. }, Body::Noised(noised)) => self.absorb_partial(held, round, &noised)?,
            (Place::Estimates { .. }, Body::Estimates(theirs)) => {
                let shared = held.study.method.fit.coefficients == CoefficientTerms::Shared;
                let peer = self.pair.peer();
                let owned = theirs.slopes.iter().flatten().all(|row| row.party == peer);
                if !theirs.shift.is_finite() || theirs.slopes.is_some() != shared || !owned {
                    return Err(PeerFault::Kind { came, expected: "those that the study shares" }.into());
                }
                names::given(&held.study, &[peer], theirs.slopes.as_deref().unwrap_or_default())?;
                self.estimates = Some(theirs);
            }
            _ => return Err(Refusal::Kind),
        }
        self.advance();
        Ok(())
    }

    pub(super) fn finish<S: Storage>(&mut self, held: &mut Held<S>, table: &Table) -> Result<PrivateFit, Abort> {
        let missing = || Abort::Bug("the peer's results are missing".to_string());
        let theirs = self.estimates.clone().ok_or_else(missing)?;
        self.work(held)?;
        let fitted = self.fitted(table)?;
        let own = estimates(&fitted);
        let inference = held.study.method.inference.allowed;
        let bare = |mut row: Coefficient| {
            if !inference {
                row = Coefficient::normal(row.term, row.party, row.estimate, None);
            }
            row
        };
        // In one order at both parties, so that both print the same digits.
        let (alice, bob) = if self.pair.leads() { (&own, &theirs) } else { (&theirs, &own) };
        let shift = alice.shift + bob.shift;
        let (alice, bob) = (alice.slopes.clone(), bob.slopes.clone());
        let mut coefficients = Vec::new();
        if alice.is_some() {
            let (_, outcome) = table.bounds();
            let intercept = outcome.centre() + shift;
            coefficients.push(Coefficient::normal(INTERCEPT.to_string(), self.pair.first(), Some(intercept), None));
        }
        coefficients.extend(alice.into_iter().flatten().map(bare));
        coefficients.extend(bob.into_iter().flatten().map(bare));
        let outlook = held.study.outlook(&held.plan).map_err(|error| Abort::Bug(error.to_string()))?;
        Ok(PrivateFit {
            coefficients,
            nobs: table.rows() as u64,
            rounds: self.exchange.rounds(),
            notes: notes(&held.study, table.rows() as u64, &outlook),
            caution: None,
            statement: held.statement()?,
            outlook,
            path: None,
            shown_lambda: None,
            kept: None,
        })
    }

    fn advance(&mut self) {
        self.place = match self.place {
            Place::Partial { round, from } if from == self.pair.first() => {
                Place::Partial { round, from: self.pair.second() }
            }
            Place::Partial { round, .. } if round < self.rounds => {
                Place::Partial { round: round + 1, from: self.pair.first() }
            }
            Place::Partial { .. } => Place::Estimates { answered: false },
            Place::Estimates { answered: false } => Place::Estimates { answered: true },
            Place::Estimates { answered: true } | Place::Over => Place::Over,
        };
    }

    /// Makes releases until one is to be sent, or a message is needed, or nothing is.
    fn work<S: Storage>(&mut self, held: &mut Held<S>) -> Result<Option<NoisedRelease>, Abort> {
        loop {
            match self.exchange.need().map_err(|error| Abort::Bug(error.to_string()))? {
                Need::Release { index, query, send } => {
                    let noised = held.release(index, &query)?;
                    self.exchange.supply(&noised).map_err(|error| Abort::Bug(error.to_string()))?;
                    if send {
                        return Ok(Some(noised));
                    }
                }
                Need::Message { .. } | Need::Nothing => return Ok(None),
            }
        }
    }

    fn fitted(&self, table: &Table) -> Result<Fitted, Abort> {
        let (rows, outcome) = table.bounds();
        self.exchange
            .fitted(self.pair.own(), rows, outcome)
            .ok_or_else(|| Abort::Bug("no estimate at the end".to_string()))
    }

    /// The peer's partial prediction: whatever it holds, the residuals made of it are cut here.
    fn absorb_partial<S: Storage>(&mut self, held: &mut Held<S>, round: u32, noised: &Noised) -> Result<(), Refusal> {
        let expected = 2 * round;
        if noised.index != expected {
            return Err(PeerFault::Round { came: noised.index, expected }.into());
        }
        self.work(held)?;
        Ok(self.exchange.receive(&noised.value).map_err(|error| PeerFault::Garbage(error.to_string()))?)
    }
}

fn estimates(fitted: &Fitted) -> Estimates {
    let party = fitted.party();
    let row = |slope: &crate::methods::vertical::plan::Slope| {
        Coefficient::normal(slope.term.clone(), party, Some(slope.estimate), Some(slope.std_error))
    };
    Estimates { shift: fitted.shift(), slopes: Some(fitted.slopes().iter().map(row).collect()) }
}

fn notes(study: &Study<Vertical>, rows: u64, outlook: &Outlook) -> Vec<String> {
    let mut notes = super::foretold(outlook);
    notes.extend(better(study, rows, outlook));
    if study.method.inference.allowed {
        notes.push(
            "standard errors and intervals show the noise alone, about the coefficient that the same rounds and cuts give \
             without noise; they do not show what a sample tells about a population"
                .to_string(),
        );
        notes.extend(outlook.bias());
        notes.push(
            "no standard error for the intercept: both blocks add to it, and how their noise moves together does not follow \
             from noised values"
                .to_string(),
        );
        notes.push(format!(
            "{WALD}: not computed in private mode by `residual`, since noised cross-products of all columns and a noised sum of squared residuals \
             would have to leave too, at a further cost of the budget"
        ));
    } else {
        notes.push("standard errors: the study does not allow them".to_string());
    }
    notes
}

/// That the mechanism `crossprod` is expected to do better, where it is.
fn better(study: &Study<Vertical>, rows: u64, outlook: &Outlook) -> Option<String> {
    let plan = study.plan_by(Mechanism::Crossprod, rows).ok()?;
    let other = study.outlook(&plan).ok()?;
    let (error, own) = (other.relative_error, outlook.relative_error);
    (error < own).then(|| {
        format!(
            "mechanism = \"crossprod\" in [privacy] is expected to do better under the same budget: by the same assumptions the slopes \
             would miss the pooled ones by {:.1} % of their length, not {:.1} %",
            100.0 * error,
            100.0 * own
        )
    })
}
