//! Private gaussian fits of several parties, as their leader sees them.
//!
//! The leader passes on the row blocks behind masks, as in a sealed fit. Once all canaries were right and all budgets are reserved, every
//! party releases its noised table, its noised `X'y` and its shares with its noise; the leader opens the tables of all pairs and sends
//! what has opened to all, as noised sums: each computes the fit from them.

use std::sync::Arc;

use crate::conversation::{Opening, Purpose, Refusal, Said};
use crate::id::RunId;
use crate::methods::vertical::private::{Own, PrivateFit, Setting, Table, expected};
use crate::privacy::ledger::Storage;
use crate::privacy::mechanism::LatticeVector;
use crate::privacy::mechanism::share::{ShareError, open_several};
use crate::privacy::release::Released;
use crate::secure::product::SeveralTables;
use crate::session::{Abort, Order, PeerFault};

use super::super::agree::{Compared, compare_shared};
use super::super::masked::out_of_order;
use super::super::message::{Body, Dealt, Joint, JointKind, Noised, Shared, Terms};
use super::super::plan::{CrossRelease, CrossTables};
use super::super::session::Progress;
use super::masked::Relay;
use super::{Advance, Centre, Hub, Lines, refused};

/// A private fit, as its leader sees it.
pub struct PrivateCentre<S> {
    table: Table,
    own: Own<S>,
    run: RunId,
    at: At,
    /// Releases of all others, in the order of their plans.
    released: Vec<Vec<LatticeVector>>,
}

/// How far the fit is.
enum At {
    Rows,
    Shared,
    Masked(Box<Relay>),
    /// The terms of all others are to come.
    Terms(SeveralTables),
    /// Their releases, one after the other.
    Releases(SeveralTables, CrossRelease),
    Over,
    /// Moved out of while a step is taken.
    Between,
}

impl<S: Storage> Hub<PrivateCentre<S>> {
    /// A private fit over a clipped table with all other parties of its study. Nothing is spent yet, and whether the ledger can afford
    /// the run is checked.
    ///
    /// # Errors
    /// A study that cannot be run on this number of rows, and a ledger that refuses.
    pub fn private(table: Table, opening: &Opening, setting: Setting<S>) -> Result<Hub<PrivateCentre<S>>, Abort> {
        let own = Own::new(&table, opening, setting)?;
        let (role, study) = (own.held.role, Arc::clone(&own.held.study));
        let released = vec![Vec::new(); own.plan.parties() - 1];
        Ok(Hub::open(&study, role, opening, PrivateCentre { table, own, run: opening.run, at: At::Rows, released }))
    }
}

impl<S: Storage> Centre for PrivateCentre<S> {
    type Output = PrivateFit;

    fn purpose(&self) -> Purpose {
        Purpose::Fit
    }

    fn progress(&self) -> Progress {
        let phase = match &self.at {
            At::Rows | At::Shared | At::Between => return Progress::lining_up(),
            At::Masked(relay) if relay.waits_for_dealer() => "waiting for the dealer",
            At::Masked(_) => "exchanging masked columns",
            At::Terms(_) => "comparing budgets",
            At::Releases(..) => "waiting for noised statistics",
            At::Over => "done",
        };
        Progress { phase, fit: (0, 1), round: 0, certificate: None }
    }

    fn order(&mut self) -> Option<Order> {
        match &mut self.at {
            At::Masked(relay) => relay.order(),
            At::Rows | At::Shared | At::Terms(_) | At::Releases(..) | At::Over | At::Between => None,
        }
    }

    fn hear(&mut self, dealt: Dealt) -> Result<(), Refusal> {
        match &mut self.at {
            At::Masked(relay) => relay.hear(dealt),
            At::Rows | At::Shared | At::Terms(_) | At::Releases(..) | At::Over | At::Between => Err(Refusal::Kind),
        }
    }

    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<PrivateFit>, Abort> {
        let at = std::mem::replace(&mut self.at, At::Between);
        if let At::Masked(mut relay) = at {
            return Ok(match relay.advance(lines, &self.own.rows)? {
                Advance::Waits => self.goes(At::Masked(relay), false),
                Advance::Taken => self.goes(At::Masked(relay), true),
                Advance::Over(shares) => {
                    lines.await_all("terms of a budget");
                    self.goes(At::Terms(shares), true)
                }
            });
        }
        let Some(bodies) = lines.heard() else { return Ok(self.goes(at, false)) };
        match at {
            At::Rows => {
                lines.agree_on_rows(self.own.held.role, &self.table, bodies)?;
                lines.await_all("digests of shared columns");
                Ok(self.goes(At::Shared, true))
            }
            At::Shared => {
                self.compare(lines, bodies)?;
                lines.await_all("masked columns");
                let study = &self.own.held.study;
                let relay = Relay::new(study, self.run, self.own.shape);
                Ok(self.goes(At::Masked(Box::new(relay)), true))
            }
            At::Terms(shares) => {
                self.reserve(lines, bodies)?;
                lines.await_all(expected(CrossRelease::Table));
                Ok(self.goes(At::Releases(shares, CrossRelease::Table), true))
            }
            At::Releases(shares, release) => {
                self.take(lines, release, bodies)?;
                if let Some(next) = release.next() {
                    lines.await_all(expected(next));
                    return Ok(self.goes(At::Releases(shares, next), true));
                }
                self.at = At::Over;
                Ok(Advance::Over(self.open(lines, &shares)?))
            }
            At::Masked(_) | At::Over | At::Between => Err(out_of_order()),
        }
    }
}

impl<S: Storage> PrivateCentre<S> {
    fn goes(&mut self, at: At, taken: bool) -> Advance<PrivateFit> {
        self.at = at;
        if taken { Advance::Taken } else { Advance::Waits }
    }

    /// Compares what all hold.
    fn compare(&self, lines: &mut Lines, bodies: Vec<Body>) -> Result<(), Abort> {
        let (study, role, plan) = (&self.own.held.study, self.own.held.role, &self.own.plan);
        let all: usize = plan.setup().widths.iter().sum();
        for (at, (line, body)) in lines.0.iter_mut().zip(bodies).enumerate() {
            let Body::Shared(theirs) = body else { return Err(line.said_instead(&body, "digests of shared columns")) };
            let own = Compared::shared(&self.table, &line.key)?;
            compare_shared(study, &own, &theirs, (role, line.peer))?;
            self.own.held.check_width_of(&[at + 1], theirs.columns).map_err(|fault| line.broke(fault))?;
            let columns = (all - theirs.columns as usize) as u32;
            line.leg().say(Body::Shared(Shared { columns, ..own }));
        }
        Ok(())
    }

    /// Compares budgets, tells each party those of all others together, and reserves the own one.
    fn reserve(&mut self, lines: &mut Lines, bodies: Vec<Body>) -> Result<(), Abort> {
        let mut all = vec![self.own.held.own_terms()?];
        for (at, (line, body)) in lines.0.iter().zip(bodies).enumerate() {
            let Body::Terms(terms) = body else { return Err(line.said_instead(&body, "terms of a budget")) };
            self.own.held.check_terms(&[at + 1], &terms).map_err(|refusal| refused(line.peer, refusal))?;
            all.push(terms);
        }
        let but = |place: usize| {
            let others = all.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, terms)| *terms);
            others.reduce(together).ok_or_else(out_of_order)
        };
        self.own.held.absorb_terms(but(0)?).map_err(|refusal| refused(self.own.held.role, refusal))?;
        self.own.held.reserve()?;
        for (at, line) in lines.0.iter_mut().enumerate() {
            line.leg().say(Body::Terms(but(at + 1)?));
        }
        Ok(())
    }

    /// Takes in the same release of all others.
    fn take(&mut self, lines: &Lines, release: CrossRelease, bodies: Vec<Body>) -> Result<(), Abort> {
        for (at, (line, body)) in lines.0.iter().zip(bodies).enumerate() {
            let Body::Noised(Noised { index, value }) = body else {
                return Err(line.said_instead(&body, expected(release)));
            };
            let value = self.own.check(at + 1, release, Noised { index, value }).map_err(|fault| line.broke(fault))?;
            self.released[at].push(value);
        }
        Ok(())
    }

    /// Opens the tables of all pairs, and sends what has opened to all. The own releases, which leave within it alone, are made once those of
    /// all others are there: a run that ends before costs the leader nothing.
    fn open(&mut self, lines: &mut Lines, own: &SeveralTables) -> Result<PrivateFit, Abort> {
        for release in CrossRelease::OF_ALL {
            self.own.release(release, own)?;
        }
        let (plan, shape) = (&self.own.plan, &self.own.shape);
        let (mut statistics, mut shares) = (Vec::new(), Vec::new());
        for values in std::iter::once(self.own.released.clone()).chain(std::mem::take(&mut self.released)) {
            let [table, score, share]: [LatticeVector; 3] = values.try_into().map_err(|_| out_of_order())?;
            statistics.push([table, score]);
            shares.push(share);
        }
        let opened =
            open_several(&shares, shape, plan.scale()).map_err(|(place, error)| self.at_fault(lines, place, &error))?;
        let tables = plan.tables_of_several(&statistics, &opened, self.own.square());
        for line in &mut lines.0 {
            let leg = line.leg();
            leg.say(Said::Released(Released::post_processed(&tables, all_that_opened)));
            leg.end();
        }
        self.own.conclude(&tables)
    }

    /// What opened and no rows can give: the later of the two parties is named.
    fn at_fault(&self, lines: &Lines, place: usize, error: &ShareError) -> Abort {
        match place.checked_sub(1).and_then(|at| lines.0.get(at)) {
            Some(line) => line.broke(PeerFault::Sealed(error.to_string())),
            None => Abort::Bug(error.to_string()),
        }
    }
}

fn all_that_opened(tables: &CrossTables) -> Body {
    Body::Joint(Joint { what: JointKind::Noised, values: tables.values() })
}

/// The terms of two parties as those of one.
fn together(a: Terms, b: Terms) -> Terms {
    Terms {
        epsilon: a.epsilon.max(b.epsilon),
        delta: a.delta.max(b.delta),
        cap: a.cap + b.cap,
        columns: a.columns + b.columns,
    }
}
