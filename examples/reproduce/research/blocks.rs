//! Private fits of several parties by tables on shares, through the real masks, ledger, releases and noise, without the conversation.

use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::plan::{CrossFit, CrossPlan, CrossRelease, WholeRows};
use fedreg_common::privacy::bounds::{ClippedOutcome, ClippedRows};
use fedreg_common::privacy::mechanism::LatticeVector;
use fedreg_common::privacy::mechanism::share::open_several;
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::secure::masks::{Labels, Seed};
use fedreg_common::secure::product::{Frame, SeveralDealer, SeveralParty, SeveralShape, SeveralTables};
use fedreg_common::secure::ring::Elements;
use fedreg_common::study::{PrivacyError, Study, Vertical};
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::private::{COEFFICIENTS, SimulatedLedger, SimulationError, least_squares};

/// Invented rows of several parties, whose ten columns together are those of [`TwoParties`](super::private::TwoParties).
pub(crate) struct Parties {
    blocks: Blocks,
    all: DMatrix<f64>,
    response: DVector<f64>,
    pooled: DVector<f64>,
}

/// How the columns are divided, and how long a party's rows are. Whatever the width, the same share of them is cut.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Columns of each party.
    pub(crate) widths: &'static [usize],
    /// Whether every party's rows have norm 1 at most, so that columns of a narrow block vary more; else all columns vary as those of a block of
    /// five.
    pub(crate) unit: bool,
}

impl Blocks {
    /// The norm at which a party's rows are cut.
    fn norm(self, width: usize) -> f64 {
        if self.unit { 1.0 } else { (width as f64 / 5.0).sqrt() }
    }

    /// The standard deviation of a party's columns: the mean square of a row is 4/9 of the square of its norm.
    fn scale(self, width: usize) -> f64 {
        self.norm(width) / (1.5 * (width as f64).sqrt())
    }
}

impl Parties {
    /// Equicorrelated normal columns, cut party by party; noise of standard deviation .3.
    ///
    /// # Errors
    /// Fewer rows than columns.
    pub(crate) fn draw(blocks: Blocks, rows: usize, correlation: f64, seed: u64) -> Result<Parties, SimulationError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let count = COEFFICIENTS.len();
        let mut all = DMatrix::zeros(rows, count);
        let mut response = DVector::zeros(rows);
        for row in 0..rows {
            let common = normal() * correlation.sqrt();
            let mut first = 0;
            for width in blocks.widths {
                let (norm, scale) = (blocks.norm(*width), blocks.scale(*width));
                let mut block = all.view_mut((row, first), (1, *width));
                block.iter_mut().for_each(|cell| *cell = (common + normal() * (1.0 - correlation).sqrt()) * scale);
                let length = block.norm();
                if length > norm {
                    block.scale_mut(norm / length);
                }
                first += width;
            }
            let mean: f64 = (0..count).map(|column| all[(row, column)] * COEFFICIENTS[column]).sum();
            response[row] = (mean + 0.3 * normal()).clamp(-1.0, 1.0);
        }
        let pooled = least_squares(&all, &response).ok_or(SimulationError::NoEstimate)?;
        Ok(Parties { blocks, all, response, pooled })
    }

    /// The study of these parties, with the true design declared.
    ///
    /// # Errors
    /// What the study's parser refuses.
    pub(crate) fn study(blocks: Blocks, correlation: f64, epsilon: f64) -> Result<Study<Vertical>, SimulationError> {
        let mut text = format!(
            "id = \"simulated\"\nmode = \"private\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"all\"\n[columns.y]\nrange = [-1.0, 1.0]\n\
             [privacy]\nepsilon = {epsilon:?}\ndelta = 1e-5\naccountant = \"exact\"\nmechanism = \"crossprod\"\n[privacy.design]\n\
             correlation = {correlation:?}\nmean_square = {:?}\n",
            4.0 / 9.0
        );
        let mut coefficients = COEFFICIENTS.iter().enumerate();
        let mut guesses = Vec::new();
        for (party, width) in blocks.widths.iter().enumerate() {
            let names: Vec<String> = coefficients
                .by_ref()
                .take(*width)
                .map(|(at, value)| {
                    guesses.push(format!("x{at} = {value:?}"));
                    format!("x{at}")
                })
                .collect();
            for name in &names {
                text.push_str(&format!("[columns.{name}]\ncentre = 0.0\nscale = 1.0\n"));
            }
            text.push_str(&format!(
                "[parties.p{party}]\ncertificate = \"p{party}\"\ncolumns = {names:?}\nrow_norm = {:?}\n",
                blocks.norm(*width)
            ));
        }
        text.push_str(&format!("[privacy.design.coefficients]\n{}\n", guesses.join("\n")));
        Study::parse(&text)?.vertical().ok_or(SimulationError::NoEstimate)
    }

    /// The slopes of a private fit, and their distance from the pooled ones, relative to their length.
    ///
    /// # Errors
    /// A study that is not of these columns, no randomness.
    pub(crate) fn error_under(&self, study: &Study<Vertical>) -> Result<f64, SimulationError> {
        let bounds = study.all_bounds().map_err(PrivacyError::from)?;
        let range = study.outcome_bounds()?;
        let plan = study.private_plan(self.response.len() as u64)?;
        let plan = plan.crossprod().ok_or(SimulationError::NoEstimate)?;
        let mut first = 0;
        let rows = self.blocks.widths.iter().zip(&bounds).map(|(width, bounds)| {
            let block = self.all.columns(first, *width).into_owned();
            first += width;
            ClippedRows::new(bounds, &block)
        });
        let rows: Vec<ClippedRows> = rows.collect();
        let outcome = ClippedOutcome::new(&range, self.response.as_slice());
        let fit = opened(plan, rows, &outcome, &mut NoisePool::new())?;
        let (values, _) = fit.on_original_scale(&bounds.iter().collect::<Vec<_>>(), &range);
        let slopes = values.rows(1, self.pooled.len());
        Ok((slopes - &self.pooled).norm() / self.pooled.norm())
    }
}

/// All parties' shares of the tables between their blocks, computed by all of them and a dealer.
fn shares(shape: SeveralShape, blocks: &[WholeRows]) -> Result<Vec<SeveralTables>, SimulationError> {
    let labels = || Labels::new(Digest([1; 32]), RunId([2; 16]));
    let seeds: Vec<Seed> = (0..blocks.len()).map(|place| Seed::new([11 + place as u8; 32])).collect();
    let start = |(place, seed): (usize, &Seed)| SeveralParty::new(shape, place, seed, &mut labels());
    let mut parties: Vec<SeveralParty> = seeds.iter().enumerate().map(start).collect();
    let hide = |(party, own): (&mut SeveralParty, &WholeRows)| party.hide_blocks(own, usize::MAX);
    let sent = parties.iter_mut().zip(blocks).map(hide).collect::<Result<Vec<Vec<Frame>>, _>>()?;
    for (place, party) in parties.iter_mut().enumerate() {
        let join = |at: usize| {
            let others =
                sent.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, frames)| &frames[at].entries);
            Ok(Frame {
                block: at as u64,
                entries: Elements::concat(shape.width, others).map_err(|_| SimulationError::NoEstimate)?,
            })
        };
        let frames = (0..shape.blocks()).map(join).collect::<Result<Vec<Frame>, SimulationError>>()?;
        party.take_blocks(&frames)?;
    }
    let mut dealer = SeveralDealer::new(shape, &seeds, &mut labels());
    while dealer.step() {}
    let corrections = std::iter::once(None).chain(dealer.finish()?.into_iter().map(Some));
    let made = parties.into_iter().zip(corrections).map(|(party, correction)| party.finish(correction.as_ref()));
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let canaries: Vec<Elements> = made.iter().map(|shares| shares.canary().clone()).collect();
    let check = |(place, shares): (usize, fedreg_common::secure::product::SeveralShares)| {
        let of = |other: usize| {
            let at = if place < other { place } else { place - 1 };
            canaries[other].slice(at..at + 1)
        };
        let theirs: Vec<Elements> = shape.partners(place).map(of).collect();
        let theirs = Elements::concat(shape.width, theirs.iter()).map_err(|_| SimulationError::NoEstimate)?;
        Ok(shares.check(&theirs)?)
    };
    made.into_iter().enumerate().map(check).collect()
}

/// The fit of what opens of clipped rows.
fn opened(
    plan: &CrossPlan,
    rows: Vec<ClippedRows>,
    outcome: &ClippedOutcome,
    pool: &mut NoisePool,
) -> Result<CrossFit, SimulationError> {
    let shape = plan.shape_of_several().ok_or(SimulationError::NoEstimate)?;
    let blocks: Vec<WholeRows> = rows.into_iter().map(|rows| WholeRows::of_rows(rows, None)).collect();
    let (mut statistics, mut noised) = (Vec::new(), Vec::new());
    for (block, shares) in blocks.iter().zip(shares(shape, &blocks)?) {
        let place = shares.place();
        let mut ledger = SimulatedLedger::reserved(&plan.side(place).releases)?;
        let mut values: Vec<LatticeVector> = Vec::new();
        for (index, release) in CrossRelease::OF_ALL.into_iter().enumerate() {
            let query = match plan.query(place, release, block.clipped(), outcome)? {
                Some(query) => query,
                None => plan.shares_of_several(&shares).map_err(|_| SimulationError::NoEstimate)?,
            };
            values.push(ledger.release(&query, index as u32, pool)?.lattice().clone());
        }
        let [table, score, share]: [LatticeVector; 3] = values.try_into().map_err(|_| SimulationError::NoEstimate)?;
        statistics.push([table, score]);
        noised.push(share);
    }
    let opened = open_several(&noised, &shape, plan.scale()).map_err(|(_, error)| error)?;
    let square = outcome.values().iter().map(|y| y * y).sum();
    plan.fit(&plan.tables_of_several(&statistics, &opened, square)).ok_or(SimulationError::NoEstimate)
}
