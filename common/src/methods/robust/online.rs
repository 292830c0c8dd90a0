//! The consensus over a stream: a window of estimates in which a new one replaces the oldest that the majority does not
//! stand behind.
//!
//! The majority of a full window protects itself for ever: newcomers share the places outside it and can never outvote
//! it. That withstands bursts of lies, and it also means that the source's rule never follows a change of the truth.
//! With `switch = Some(L)`, L arrivals that agree with each other and lie outside twice the trusted radius, with none
//! inside it between them, become the window. All L have to agree, not only most: six colluders and one honest arrival
//! that strayed by chance must not make seven. Garbage between them does no harm to either side.
//!
//! Sites that send more often get no more places: an arrival takes the place of an estimate of another site only where that
//! site holds more places than its own, and otherwise that of the oldest of its own site. With three or more sites in the
//! window each has one vote, L arrivals replace it only if they come from more of its sites than half, and an arrival
//! inside the radius speaks for its own site alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::consolidate::{
    Consensus, ConsolidateError, ConsolidationSettings, Frame, Method, argmin, consolidate_in_order,
};
use super::distance::{between, reach, select};
use super::estimate::{Estimate, EstimateError};
use super::weights::{SITES, Weights};

/// Arrivals agree when they lie within this many trusted radii of the tightest of them; honest noise alone spreads
/// seven arrivals of few coefficients over more than two.
const AGREEMENT: f64 = 3.0;

/// How a stream is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnlineSettings {
    /// Estimates in the window, at least three.
    pub window: usize,
    /// Agreeing arrivals that replace the window; at least two. Without it the window never follows a change.
    pub switch: Option<usize>,
    /// How the window becomes one set of coefficients.
    pub consolidation: ConsolidationSettings,
}

impl Default for OnlineSettings {
    fn default() -> Self {
        OnlineSettings { window: 7, switch: Some(7), consolidation: ConsolidationSettings::default() }
    }
}

impl OnlineSettings {
    /// The source's method: a window of seven, the mean of the dominating set, no switching.
    pub fn source() -> Self {
        OnlineSettings { window: 7, switch: None, consolidation: Method::Pivot.into() }
    }
}

/// Why an arrival changed nothing, or a stream could not be set up.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OnlineError {
    /// The window is too small to have an inside and an outside.
    #[error("expected a window of at least 3 estimates, got {0}")]
    Window(usize),
    /// One arrival must never replace the window.
    #[error("expected at least 2 agreeing arrivals before a switch, got {0}")]
    Switch(usize),
    /// The estimate is malformed.
    #[error(transparent)]
    Estimate(#[from] EstimateError),
    /// The window could not be consolidated.
    #[error(transparent)]
    Consolidate(#[from] ConsolidateError),
}

/// What became of an arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The window had room.
    Added,
    /// It replaced the oldest estimate outside the dominating set.
    Replaced {
        /// Worker of the estimate that left.
        worker: String,
        /// Batch of the estimate that left.
        batch: u64,
    },
    /// It completed a run of agreeing arrivals, which are now the window.
    Switched,
    /// A batch of this worker that is not later than its last one: it counts once and changes nothing.
    Repeated,
}

/// The state after an arrival.
#[derive(Clone, Debug)]
pub struct Update {
    /// What became of the arrival.
    pub placement: Placement,
    /// Whether it lay outside twice the trusted radius when it came.
    pub outside: bool,
    /// The consensus of the window, in order of arrival.
    pub consensus: Consensus,
}

/// A stream's window. Its memory is bounded by the window, the switch length and the number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Online {
    settings: OnlineSettings,
    coefficients: usize,
    with_gram: bool,
    window: Vec<Estimate>,
    run: Vec<Estimate>,
    warm_radius: Option<f64>,
    /// Whether three or more sites were in the window when the warm radius was taken.
    #[serde(default)]
    warm_of_sites: bool,
    /// Declared rows by which sites are weighed; empty where they weigh equally.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rows: BTreeMap<String, u64>,
    last_batch: BTreeMap<String, u64>,
    arrivals: u64,
    switches: u64,
}

impl Online {
    /// An empty window for estimates of `coefficients` numbers, all with or all without their Gram.
    ///
    /// # Errors
    /// When the window or the switch length is too small.
    pub fn new(settings: OnlineSettings, coefficients: usize, with_gram: bool) -> Result<Self, OnlineError> {
        if settings.window < 3 {
            return Err(OnlineError::Window(settings.window));
        }
        if let Some(switch) = settings.switch.filter(|s| *s < 2) {
            return Err(OnlineError::Switch(switch));
        }
        Ok(Online {
            settings,
            coefficients,
            with_gram,
            window: Vec::new(),
            run: Vec::new(),
            warm_radius: None,
            warm_of_sites: false,
            rows: BTreeMap::new(),
            last_batch: BTreeMap::new(),
            arrivals: 0,
            switches: 0,
        })
    }

    /// Gives sites votes in proportion to these rows, where every site has them, in place of one vote each.
    #[must_use]
    pub fn weighed_by(mut self, rows: BTreeMap<String, u64>) -> Self {
        self.rows = rows;
        self
    }

    /// Estimates in the window, oldest first.
    pub fn window(&self) -> &[Estimate] {
        &self.window
    }

    /// Arrivals that counted so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Times the window was replaced.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The consensus of the window as it stands.
    ///
    /// # Errors
    /// When nothing has arrived.
    pub fn consensus(&self) -> Result<Consensus, ConsolidateError> {
        consolidate_in_order(&self.window.iter().collect::<Vec<_>>(), &self.rows, &self.settings.consolidation)
    }

    /// Takes the next arrival and gives the new consensus. Batches of one worker must come with rising numbers; earlier
    /// ones count as repeats.
    ///
    /// # Errors
    /// When the estimate is malformed; the window is then unchanged.
    ///
    /// # Reference
    /// Algorithm 3; the switch is an addition, see the module.
    pub fn push(&mut self, estimate: Estimate) -> Result<Update, OnlineError> {
        estimate.check(self.coefficients, self.with_gram)?;
        if self.last_batch.get(&estimate.worker).is_some_and(|last| estimate.batch <= *last) {
            return Ok(Update { placement: Placement::Repeated, outside: false, consensus: self.consensus()? });
        }
        self.last_batch.insert(estimate.worker.clone(), estimate.batch);
        self.arrivals += 1;
        // Until the window is full for the first time there is no majority to defend.
        let Some(warm) = self.warm_radius else {
            self.window.push(estimate);
            let consensus = self.consensus()?;
            if self.window.len() == self.settings.window {
                self.warm_radius = Some(consensus.radius);
                self.warm_of_sites = sites(&self.window) >= SITES;
            }
            return Ok(Update { placement: Placement::Added, outside: false, consensus });
        };
        let now = self.consensus()?;
        let voting = sites(&self.window);
        let warm = match voting >= SITES && !self.warm_of_sites {
            // One site alone may have filled the window first, and its radius says what it likes.
            true => {
                self.warm_of_sites = true;
                self.warm_radius = Some(now.radius);
                now.radius
            }
            false => warm,
        };
        let members: Vec<&Estimate> = self.window.iter().collect();
        let frame = Frame::new(&members, &Weights::of(&members, &self.rows), &self.settings.consolidation)?;
        let pivot = frame.points(&[members[now.pivot]]);
        let away = between(frame.points(&[&estimate]).as_slice(), pivot.as_slice());
        // Identical colluders would shrink the radius to nothing and lock everyone else out; the warm one is its floor.
        let trusted = now.radius.max(warm);
        let outside = away > 2.0 * trusted;
        if let Some(switch) = self.settings.switch {
            if !outside {
                self.run.retain(|earlier| voting >= SITES && earlier.worker != estimate.worker);
            } else {
                // Of one site no more than the run has room for, so that it cannot push the others out.
                let own = self.run.iter().filter(|earlier| earlier.worker == estimate.worker).count();
                if voting >= SITES
                    && own >= switch
                    && let Some(oldest) = self.run.iter().position(|earlier| earlier.worker == estimate.worker)
                {
                    self.run.remove(oldest);
                }
                self.run.push(estimate.clone());
                let excess = self.run.len().saturating_sub(2 * switch * voting.max(1));
                self.run.drain(..excess);
            }
            if let Some(agreeing) = self.agreeing(&frame, switch, AGREEMENT * trusted) {
                self.window = agreeing;
                self.run.clear();
                while self.window.len() > self.settings.window {
                    self.window.remove(self.most_crowded());
                }
                self.switches += 1;
                return Ok(Update { placement: Placement::Switched, outside, consensus: self.consensus()? });
            }
        }
        let placement = if self.window.len() < self.settings.window {
            self.window.push(estimate);
            Placement::Added
        } else {
            let left = self.window.remove(self.place_for(&estimate.worker, &now.dominating));
            self.window.push(estimate);
            Placement::Replaced { worker: left.worker, batch: left.batch }
        };
        Ok(Update { placement, outside, consensus: self.consensus()? })
    }

    /// The oldest estimate of the site that holds most places.
    fn most_crowded(&self) -> usize {
        let places = self.places();
        let held = |at: usize| places.get(self.window[at].worker.as_str()).copied().unwrap_or(0);
        (0..self.window.len()).min_by_key(|&at| (std::cmp::Reverse(held(at)), at)).unwrap_or(0)
    }

    fn places(&self) -> BTreeMap<&str, usize> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for estimate in &self.window {
            *places.entry(&estimate.worker).or_default() += 1;
        }
        places
    }

    /// Whose place an arrival of this worker takes: outside the dominating set the oldest estimate of the site that holds
    /// most places, if those are more than its own; otherwise the oldest of its own.
    fn place_for(&self, worker: &str, dominating: &[usize]) -> usize {
        let places = self.places();
        let held = |at: usize| places.get(self.window[at].worker.as_str()).copied().unwrap_or(0);
        let own = places.get(worker).copied().unwrap_or(0);
        let outside = |at: &usize| !dominating.contains(at);
        let all = 0..self.window.len();
        let crowded = all
            .clone()
            .filter(outside)
            .filter(|&at| self.window[at].worker == worker || held(at) > own)
            // The first of those that hold most.
            .min_by_key(|&at| (std::cmp::Reverse(held(at)), at));
        let of_own = || all.clone().find(|&at| self.window[at].worker == worker);
        crowded.or_else(of_own).or_else(|| all.clone().find(outside)).unwrap_or(0)
    }

    /// The arrivals of the run that lie within `tolerance` of its tightest member, if they are enough for a switch.
    fn agreeing(&self, frame: &Frame, switch: usize, tolerance: f64) -> Option<Vec<Estimate>> {
        if self.run.len() < switch {
            return None;
        }
        let points = frame.points(&self.run.iter().collect::<Vec<_>>());
        let radii = reach(&points, |row| select(row, switch - 1));
        let tightest = argmin(&radii);
        let centre = points.column(tightest);
        let agrees = |i: usize| between(points.column(i).as_slice(), centre.as_slice()) <= tolerance;
        let agreeing: Vec<Estimate> = (0..self.run.len()).filter(|&i| agrees(i)).map(|i| self.run[i].clone()).collect();
        let voting = sites(&self.window);
        let enough = voting < SITES || 2 * sites(&agreeing) > voting;
        (radii[tightest] <= tolerance && enough).then_some(agreeing)
    }
}

/// Number of sites among some estimates.
fn sites(all: &[Estimate]) -> usize {
    all.iter().map(|estimate| estimate.worker.as_str()).collect::<BTreeSet<_>>().len()
}
