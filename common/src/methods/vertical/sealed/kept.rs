//! What opens beside the table where the study says `sealed.refit = true`, and what a party keeps of it for sub-models.
//!
//! Bob's factor, as in a fit with a penalty, and for each of his columns which of his terms it is, its mean and its scale: with the table these
//! are the cross-products of all columns as they stand in his file, and so every sub-model. Where the table opens to both, Alice sends him the
//! same of hers, with the coordinates of the outcome. Of several parties all others but the leader say theirs to it; where the tables open to all,
//! it says its own to each of them and sends on those of the others.

use nalgebra::{DMatrix, DVector};

use super::penalised::{self, Theirs};
use super::session::Work;
use crate::id::Role;
use crate::methods::vertical::block::Scaling;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::Joint;
use crate::methods::vertical::refit::{Block, Exact, Kept, Outcome};
use crate::secure::basis::OwnOutcome;
use crate::secure::gaussian::Table;
use crate::session::{Abort, PeerFault};

/// A column as its owner's file has it.
pub(super) struct Placed {
    /// Which of the owner's terms it is.
    pub(super) place: u64,
    pub(super) scaling: Scaling,
}

/// At Bob, what Alice says of her columns and of the outcome.
pub(super) struct OfAlice {
    columns: Theirs,
    outcome: OwnOutcome,
    spread: f64,
}

/// The most terms that a party may have: beyond what anybody fits.
const MOST_TERMS: f64 = 1e6;

/// Numbers that place columns in their owner's file.
pub fn placed_numbers(columns: usize) -> usize {
    3 * columns
}

/// Numbers that Alice sends where the table opens to both: her factor with units, her columns' places, and the outcome.
pub fn alice_numbers(columns: usize) -> usize {
    penalised::factor_numbers(columns, 0) + placed_numbers(columns) + columns + 4
}

/// Whether factors open for sub-models.
pub(super) fn opens(work: &Work) -> bool {
    work.study.guarantee.opens_factors()
}

/// Places, means and scales of the own columns.
pub(super) fn placed(work: &Work) -> Vec<f64> {
    if !opens(work) {
        return Vec::new();
    }
    let own = &work.encoded.block.places()[usize::from(work.encoded.block.has_intercept())..];
    let places = own.iter().map(|place| place.unwrap_or_default() as f64);
    let centres = work.scalings.iter().map(|scaling| scaling.centre);
    places.chain(centres).chain(work.scalings.iter().map(|scaling| scaling.scale)).collect()
}

/// The same read back.
pub(super) fn take_placed(size: usize, values: &[f64]) -> Result<Vec<Placed>, PeerFault> {
    if values.len() != placed_numbers(size) {
        return Err(length("places of columns", values.len(), placed_numbers(size)));
    }
    let (places, rest) = values.split_at(size);
    let (centres, scales) = rest.split_at(size);
    let whole = |place: &f64| *place >= 0.0 && *place < MOST_TERMS && place.fract() == 0.0;
    let possible = places.iter().all(whole)
        && places.windows(2).all(|pair| pair[0] < pair[1])
        && centres.iter().all(|centre| centre.is_finite())
        && scales.iter().all(|scale| *scale > 0.0 && scale.is_finite());
    if !possible {
        return Err(PeerFault::Value { what: "places of columns", expected: "possible", round: 1 });
    }
    let all = places.iter().zip(centres.iter().zip(scales));
    let placed = |(place, (centre, scale)): (&f64, (&f64, &f64))| Placed {
        place: *place as u64,
        scaling: Scaling { centre: *centre, scale: *scale },
    };
    Ok(all.map(placed).collect())
}

/// At Alice, where the table opens to both: her factor with her columns' places, then the outcome.
pub(super) fn of_alice(work: &Work) -> Result<Joint, Abort> {
    let outcome = work.own.outcome.as_ref().ok_or_else(out_of_order)?;
    // The errors of the folds are hers to compute: nobody else takes her sums over them.
    let mut joint = penalised::factor(work, &[]);
    joint.values.extend(outcome.along.iter());
    joint.values.extend([outcome.centre, outcome.rest, outcome.square, work.spread]);
    Ok(joint)
}

/// The same at Bob.
pub(super) fn take_of_alice(size: usize, values: &[f64]) -> Result<OfAlice, PeerFault> {
    if values.len() != alice_numbers(size) {
        return Err(length("a factor with the outcome", values.len(), alice_numbers(size)));
    }
    let (columns, outcome) = values.split_at(values.len() - size - 4);
    let columns = penalised::take_factor(size, 0, true, columns)?;
    let (along, rest) = outcome.split_at(size);
    let [centre, rest, square, spread] = rest[..] else { return Err(length("an outcome", rest.len(), 4)) };
    let along = DVector::from_column_slice(along);
    let length = along.norm_squared() + rest * rest;
    let possible = centre.is_finite() && square >= 0.0 && (length - square).abs() <= 1e-6 * square && spread > 0.0;
    if !(possible && spread.is_finite()) {
        return Err(PeerFault::Value { what: "the outcome's coordinates", expected: "possible", round: 1 });
    }
    Ok(OfAlice { columns, outcome: OwnOutcome { centre, along, rest, square }, spread })
}

/// What this party keeps for sub-models; none where it does not see the table, or no factor has opened.
pub(super) fn kept(work: &Work) -> Result<Option<Kept>, Abort> {
    if !opens(work) {
        return Ok(None);
    }
    let Some(table) = work.opened_table() else { return Ok(None) };
    let of_first = match work.leads {
        true => work.own.outcome.as_ref().map(|outcome| (outcome, work.spread)),
        false => work.of_alice().map(|alice| (&alice.outcome, alice.spread)),
    };
    let (outcome, spread) = of_first.ok_or_else(out_of_order)?;
    let blocks = work.study.parties_in_order().into_iter().enumerate();
    let blocks = blocks.map(|(place, party)| block_of(work, place, party)).collect::<Result<Vec<Block>, Abort>>()?;
    let exact = exact(work, (table, outcome, spread, blocks))?;
    let run = (work.role, work.opening.run.to_string());
    let missing = work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64);
    Ok(Some(Kept::exact(&work.study, run, missing, exact)))
}

/// The columns of the party at a place.
fn block_of(work: &Work, place: usize, party: Role) -> Result<Block, Abort> {
    if party == work.role {
        return Ok(block(party, work.encoded.terms.clone(), &Columns::of(work)));
    }
    let theirs = match place.checked_sub(1) {
        None => work.of_alice().map(|alice| &alice.columns),
        Some(at) => work.theirs(at),
    };
    Ok(block(party, peer_terms(work, party), &Columns::of_peer(theirs.ok_or_else(out_of_order)?)?))
}

fn exact(
    work: &Work,
    (table, outcome, spread, blocks): (&Table, &OwnOutcome, f64, Vec<Block>),
) -> Result<Exact, Abort> {
    let statistics = match (&work.own_results, &work.peer) {
        (Some(own), _) if work.leads => own.statistics.as_ref(),
        (_, Some(peer)) => peer.statistics.as_ref(),
        (_, None) => None,
    };
    let null_deviance = statistics.and_then(|statistics| statistics.null_deviance).ok_or_else(out_of_order)?;
    if blocks.iter().any(|block| block.places.last().is_some_and(|last| *last >= block.terms.len() as u64)) {
        let fault = PeerFault::Value { what: "places of columns", expected: "those of terms", round: 1 };
        return Err(Abort::Peer { peer: work.opening.peer, fault });
    }
    let weights = work.encoded.weights.as_deref();
    // The outcome counts by its number of values alone.
    let unit = work.study.method.family.log_likelihood(&vec![0.0; work.rows], weights, 1.0, |_| 0.0);
    Ok(Exact {
        rows: work.rows as u64,
        unweighted: work.encoded.unweighted as u64,
        weight: weights.map_or(work.rows as f64, |weights| weights.iter().sum()),
        null_deviance,
        unit_log_lik: (work.encoded.unweighted == 0).then_some(unit).filter(|unit| unit.is_finite()),
        outcome: Outcome {
            centre: outcome.centre,
            along: outcome.along.as_slice().to_vec(),
            rest: outcome.rest,
            square: outcome.square,
            spread,
        },
        blocks,
        cross: table.cross().as_slice().to_vec(),
        along: table.along().as_slice().to_vec(),
        inner: table.inner().as_slice().to_vec(),
        across: table.nothing_across(),
    })
}

/// The names of another party's terms, which its coefficients have.
fn peer_terms(work: &Work, party: Role) -> Vec<String> {
    let rows = work.peer.iter().flat_map(|peer| peer.coefficients.iter().flatten());
    let rows = rows.filter(|row| row.party == party);
    let first = usize::from(work.study.method.intercept && work.study.is_first(party));
    rows.skip(first).map(|row| row.term.clone()).collect()
}

/// A party's columns as they are kept.
struct Columns<'a> {
    factor: &'a DMatrix<f64>,
    units: &'a [f64],
    placed: Vec<(u64, Scaling)>,
}

impl<'a> Columns<'a> {
    fn of(work: &'a Work) -> Columns<'a> {
        let own = &work.encoded.block.places()[usize::from(work.encoded.block.has_intercept())..];
        let places = own.iter().map(|place| place.unwrap_or_default() as u64);
        Columns {
            factor: &work.own.factor,
            units: &work.units,
            placed: places.zip(work.scalings.iter().copied()).collect(),
        }
    }

    fn of_peer(theirs: &'a Theirs) -> Result<Columns<'a>, Abort> {
        let placed = theirs.placed.as_ref().ok_or_else(out_of_order)?;
        let placed = placed.iter().map(|column| (column.place, column.scaling)).collect();
        Ok(Columns { factor: &theirs.factor, units: &theirs.units, placed })
    }
}

fn block(party: Role, terms: Vec<String>, Columns { factor, units, placed }: &Columns<'_>) -> Block {
    let size = factor.ncols();
    Block {
        party,
        terms,
        places: placed.iter().map(|(place, _)| *place).collect(),
        factor: (0..size).flat_map(|i| (i..size).map(move |j| factor[(i, j)])).collect(),
        units: units.to_vec(),
        centres: placed.iter().map(|(_, scaling)| scaling.centre).collect(),
        scales: placed.iter().map(|(_, scaling)| scaling.scale).collect(),
    }
}
