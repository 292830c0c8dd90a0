//! Fits of cross-validation side by side: a message carries what those of several folds say, so that a run waits for the line as often
//! as its longest lane and not as often as all of them together.
//!
//! A fold begins at nothing, whatever came before it, so its fits take the same course in a lane of their own. The first lane has the
//! fits to all rows, and the block of the session.

use super::super::block::Block;
use super::super::exchange::PART_VALUES;
use super::super::message::{Folds, LANES, Lane, LaneSays, Partial};
use super::{Fits, Job, Site, Step};
use crate::conversation::Refusal;
use crate::session::{Abort, PeerFault};

/// The lanes beside the first.
pub(in super::super) struct Abreast {
    others: Vec<Other>,
    /// Whether the first lane has fits left.
    first_open: bool,
    /// All fits of the run, in the order of its results.
    jobs: Vec<Job>,
}

struct Other {
    fits: Fits,
    block: Block,
    open: bool,
}

/// The first lane, which the session has.
pub(in super::super) struct First<'a> {
    pub(in super::super) fits: &'a mut Fits,
    pub(in super::super) site: Site<'a>,
}

/// In which lane the fits of a fold are; those to all rows are in the first.
fn lane_of(job: &Job, lanes: usize) -> usize {
    job.fold.unwrap_or(0) as usize % lanes
}

impl Abreast {
    /// Divides the fits of a run into lanes; `None` where one is all there is. The parties see the same sizes and so divide alike.
    pub(in super::super) fn divide(fits: &mut Fits, block: &Block) -> Option<Abreast> {
        let folds = fits.jobs.iter().filter_map(|job| job.fold).max().unwrap_or(0) as usize;
        let lanes = (PART_VALUES / fits.exchanged(block).max(1)).min(folds + 1).min(LANES);
        if lanes < 2 || fits.followers.is_some() {
            return None;
        }
        let jobs = std::mem::take(&mut fits.jobs);
        let of = |lane: usize| jobs.iter().filter(|job| lane_of(job, lanes) == lane).copied().collect();
        fits.jobs = of(0);
        let others = (1..lanes).map(|lane| Other {
            fits: fits.beside(of(lane)),
            block: block.beside(fits.tables.is_some()),
            open: true,
        });
        Some(Abreast { others: others.collect(), first_open: true, jobs })
    }

    /// Where the fits are: how many have ended, and one more; of how many.
    pub(in super::super) fn position(&self, first: &Fits) -> (usize, usize) {
        let ended = self.others.iter().map(|other| other.fits.current).sum::<usize>() + first.current;
        ((ended + 1).min(self.jobs.len()), self.jobs.len())
    }

    /// Whether any lane has fits left.
    pub(in super::super) fn is_open(&self) -> bool {
        self.first_open || self.others.iter().any(|other| other.open)
    }

    fn open(&self) -> Vec<usize> {
        let others = self.others.iter().enumerate().filter(|(_, other)| other.open).map(|(at, _)| at + 1);
        std::iter::once(0).filter(|_| self.first_open).chain(others).collect()
    }

    /// Does something in a lane.
    fn within<T>(&mut self, first: &mut First<'_>, lane: usize, act: impl FnOnce(&mut Fits, &mut Site<'_>) -> T) -> T {
        let of_others: u32 = self.others.iter().map(|other| other.fits.rounds()).sum();
        let Some(at) = lane.checked_sub(1) else {
            first.site.other_rounds = of_others;
            return act(first.fits, &mut first.site);
        };
        let Other { fits, block, .. } = &mut self.others[at];
        let other_rounds = of_others - fits.rounds() + first.fits.rounds();
        let mut site = Site { block, folds: first.site.folds, meter: first.site.meter, other_rounds };
        act(fits, &mut site)
    }

    fn end(&mut self, lane: usize) {
        match lane.checked_sub(1) {
            None => self.first_open = false,
            Some(at) => self.others[at].open = false,
        }
    }

    /// What all open lanes say now.
    pub(in super::super) fn speak(&mut self, first: &mut First<'_>) -> Result<Folds, Abort> {
        let mut folds = Folds { lanes: Vec::new(), values: Vec::new() };
        for lane in self.open() {
            let says = match self.within(first, lane, Fits::speak)? {
                Step::Partial(mut partial) => {
                    let values = std::mem::take(&mut partial.values);
                    folds.values.extend_from_slice(&values);
                    LaneSays::Partial(partial, values.len() as u64)
                }
                Step::Ended(ended) => {
                    self.end(lane);
                    LaneSays::Ended(ended)
                }
            };
            folds.lanes.push(Lane { lane: lane as u32, says });
        }
        Ok(folds)
    }

    /// Takes what the partner's open lanes say in. Only a leader ends a lane.
    pub(in super::super) fn hear(&mut self, first: &mut First<'_>, folds: Folds) -> Result<(), Refusal> {
        let open = self.open();
        let Folds { lanes, values } = folds;
        if !lanes.iter().map(|lane| lane.lane as usize).eq(open.iter().copied()) {
            return Err(PeerFault::Garbage("fits of other folds than those that are under way".to_string()).into());
        }
        let mut rest = values.as_slice();
        for (lane, says) in open.into_iter().zip(lanes.into_iter().map(|lane| lane.says)) {
            match says {
                LaneSays::Partial(partial, count) => {
                    let own = usize::try_from(count).ok().and_then(|count| rest.split_at_checked(count));
                    let Some((own, others)) = own else {
                        let (came, expected) = (rest.len() as u64, count);
                        return Err(PeerFault::Length { what: "partial predictions", came, expected }.into());
                    };
                    rest = others;
                    let partial = Partial { values: own.to_vec().into(), ..partial };
                    self.within(first, lane, |fits, site| fits.hear(site, partial))?;
                }
                LaneSays::Ended(ended) => {
                    if first.fits.role == first.fits.leader {
                        return Err(Refusal::Kind);
                    }
                    self.within(first, lane, |fits, site| fits.hear_end(site, ended))?;
                    self.end(lane);
                }
            }
        }
        if !rest.is_empty() {
            let came = values.len() as u64;
            let expected = came - rest.len() as u64;
            return Err(PeerFault::Length { what: "partial predictions", came, expected }.into());
        }
        Ok(())
    }

    /// Puts what all lanes left where one would have left it; rounds are those of the longest.
    pub(in super::super) fn join(self, first: &mut Fits) {
        let lanes = self.others.len() + 1;
        let rounds = self.others.iter().map(|other| other.fits.rounds()).fold(first.rounds(), u32::max);
        let own = std::mem::take(&mut first.fold_errors);
        let errors = std::iter::once(own).chain(self.others.into_iter().map(|other| other.fits.fold_errors));
        let mut errors: Vec<_> = errors.map(Vec::into_iter).collect();
        let of_folds = self.jobs.iter().filter(|job| job.fold.is_some());
        first.fold_errors = of_folds.filter_map(|job| errors[lane_of(job, lanes)].next()).collect();
        first.jobs = self.jobs;
        first.current = first.jobs.len().saturating_sub(1);
        (first.rounds_before, first.round) = (rounds, 0);
    }
}

impl Fits {
    /// Further fits of the run, over the same columns.
    fn beside(&self, jobs: Vec<Job>) -> Fits {
        Fits {
            max_disclosure: self.max_disclosure,
            policy_rounds: self.policy_rounds,
            jobs,
            fold_totals: self.fold_totals.clone(),
            tables: self.tables.clone(),
            metered: self.metered.clone(),
            base_weights: self.base_weights.clone(),
            base_spread: self.base_spread,
            ..Fits::at_start(&self.study, (self.role, self.leader), self.columns)
        }
    }
}
