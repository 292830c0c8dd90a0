//! Private vertical regression from tables that open with the noise of both their parties: the mechanism `crossprod`.
//!
//! Each party releases its own table `X'X` and, of the outcome that it holds, `X'y`. The table `X_i'X_j` between the blocks of every two
//! parties is computed on shares, and each of the two adds its whole noise to its share before the share leaves: what opens is the table
//! plus two noises. All of it opens to all parties, and everything after that is post-processing. There are no rounds, and no value a row
//! leaves in a readable form, so the error is nearly that of somebody trusted with all blocks.
//!
//! # Why it is private
//!
//! Neighbours replace one row `x` of one party by `z`; `|x|, |z| <= 1`, the intercept included, and so is `|w| <= 1` for the other party's
//! row and `|y| <= 1` for the outcome. A share is as private as the table with the noise of its sender alone, by the head of
//! [the share's module](crate::privacy::mechanism::share). With `D = |x - z|^2 <= 4`:
//!
//! - **Outcome at all `K` parties**, which is protected from none. Towards one party's rows each of its `K - 1` tables moves by `|x - z||w|`, at
//!   most 2, all of them together by at most `2 (K - 1)^(1/2)`, and `X'y` by `|x - z||y|`, at most 2. With `b` the sum of both costs they cost a
//!   pair of neighbours at most `b D/4`: as vectors `X'r` of the same rows, whose lemma at the head of
//!   [the mechanism](crate::privacy::mechanism) makes `X'X` free as long as its own cost is at most `b/4`. Equal noise `s` on tables and
//!   `X'y`: `b = 4 K/s^2`, and `X'X` has noise of variance `2 s^2/K`. Between two parties `b = 8/s^2`, with equal noise on all three. It
//!   holds towards all other parties together.
//! - **Outcome at Alice alone**, of two parties, replaced with her row, `y` by `v`. Of `X_a'X_a`, `X_a'y`, `y'y`, `X_a'X_b` and `y'X_b` at equal noise the squared
//!   shift is at most 10. Write `f = |xx' - zz'|^2 + |xy - zv|^2 + (y^2 - v^2)^2 + D + (y - v)^2`, with `g = x'z` and `r = yv`. The terms in `g` are
//!   `-2 g^2 - 2 g (1 + r)`, at most `(1 + r)^2/2`; the others grow in `|x|` and `|z|`, which are 1. So
//!   `f <= 9/2 + 2 (y^2 + v^2) + y^4 + v^4 - r - 3 r^2/2`. At `r >= 0` the value at `-r` is larger; at `r = -|y||v|` it grows in `|y|` and in `|v|`
//!   (its derivative in `y^2` is at least `2 - 3/2`), up to 10.
//! - **Bob's rows, outcome at Alice**: the table with the row of the outcome moves by `|x - z| (|w|^2 + y^2)^(1/2)`, squared at most `2 D <= 8`, and
//!   `X_b'X_b` is free beside it as above.
//!
//! The rows are integers in units of 2^-15 that were truncated and shortened before all of these sums, and all of them use the same
//! integers: rows, table and outcome are exact, and only `X'X` and `X'y` are rounded to their lattices, which the charge counts.
//!
//! The intercept is an entry of the first party's rows within their norm. Outside of it column sums and the sum of the outcome would be moved by
//! each row as well, sqrt 12 in place of sqrt 8 (with the outcome at Alice sqrt 16.5 in place of sqrt 10): over 50 data sets of 10,000 rows
//! and 5 + 5 columns at epsilon 1 the median error was .086 in place of .076 (.098 in place of .085).
//!
//! # Standard errors
//!
//! With `b` the coefficients and `N` the noise of the joint table, the solve misses by the inverse table times `(noise of X'y) - N b`. Its
//! covariance follows from the noise alone; the covariance of sampling is added, so that intervals are about the population.

mod penalised;

use std::ops::Range;

use nalgebra::{Cholesky, DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

pub use self::penalised::{CrossPenalised, CrossPenalty};
use super::design::{self, Design, Prediction};
use super::{PlanError, Side};
use crate::bounded::Bounded;
use crate::privacy::bounds::{ClippedOutcome, ClippedResiduals, ClippedRows, OutcomeBounds, ROW_BITS, RowBounds};
use crate::privacy::mechanism::share::ShareScale;
use crate::privacy::mechanism::{
    LatticeVector, PlannedRelease, Query, ReleaseError, ReleasePlan, free_table_rounding, noise_scale,
};
use crate::privacy::release::{PostProcessed, sealed};
use crate::secure::product::{Blocks, SeveralShape, SeveralTables, Shape, TableShare, pairs};
use crate::secure::ring::{Elements, RingError};

/// Share of the budget that the tables of a party with this number of others have beside `X'y`, where all hold the outcome: equal noise.
fn table_share(others: usize) -> f64 {
    others as f64 / (others + 1) as f64
}

/// Who holds the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeAt {
    /// All parties: it is not protected from any.
    Both,
    /// Alice alone, of two parties: it is protected together with her row.
    Alice,
}

/// What all parties agree on before anything is computed; nothing here comes from data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrossSetup {
    /// Number of rows.
    pub rows: usize,
    /// Entries of each party's rows in the order of the parties, the first one's intercept included.
    pub widths: Vec<usize>,
    /// Who holds the outcome.
    pub outcome: OutcomeAt,
    /// Ridge penalty on coefficients of unit rows, added to the diagonal of the joint table.
    pub ridge: f64,
    /// Sum of `(sensitivity / sigma)^2` that each party's releases may cost.
    pub budget: f64,
}

/// A release of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossRelease {
    /// Its own table `X'X`.
    Table,
    /// `X'y` of its own columns, and `y'y` from a party that holds the outcome alone.
    Score,
    /// Its shares of the tables between its block and those of all others, with its noise.
    Share,
}

impl CrossRelease {
    /// What a party releases where all hold the outcome, in the order of its plan.
    pub const OF_ALL: [CrossRelease; 3] = [CrossRelease::Table, CrossRelease::Score, CrossRelease::Share];

    /// The one after it in that order.
    pub fn next(self) -> Option<CrossRelease> {
        CrossRelease::OF_ALL.into_iter().skip_while(|release| *release != self).nth(1)
    }
}

/// The releases of one side with their noise, from public facts alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossSide {
    /// Entries of a row.
    pub width: usize,
    /// Noise of `X'X`.
    pub table_sigma: f64,
    /// Noise of `X'y`; zero where the side has no such release.
    pub score_sigma: f64,
    /// Noise that the side adds to its shares.
    pub share_sigma: f64,
    /// What is charged, and for what.
    pub releases: ReleasePlan,
    #[serde(skip)]
    order: Vec<CrossRelease>,
    #[serde(skip)]
    sensitivity: f64,
}

/// The whole protocol, fixed before it starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossPlan {
    setup: CrossSetup,
    #[serde(skip)]
    scale: ShareScale,
    /// In the order of the parties.
    sides: Vec<CrossSide>,
}

/// All that opened: noised, so whatever follows from it is free.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossTables {
    /// The joint table of all columns, in the order of the parties.
    pub joint: DMatrix<f64>,
    /// `X'y`, in the same order.
    pub score: DVector<f64>,
    /// `y'y`: without noise where all hold the outcome.
    pub square: f64,
}

impl CrossTables {
    /// All but `y'y` as numbers: the upper triangle of the joint table column by column, and `X'y`.
    pub fn values(&self) -> Vec<f64> {
        let triangle = (0..self.joint.ncols())
            .flat_map(|column| self.joint.column(column).iter().take(column + 1).copied().collect::<Vec<f64>>());
        triangle.chain(self.score.iter().copied()).collect()
    }
}

/// Sums with noise, and nothing else.
impl sealed::Sealed for CrossTables {}
impl PostProcessed for CrossTables {}

/// The joint fit in coefficients of unit rows, in the order of the parties.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossFit {
    /// The coefficients.
    pub coefficients: DVector<f64>,
    /// Their covariance under noise and sampling.
    pub covariance: DMatrix<f64>,
}

/// A side's clipped rows as the whole numbers of the table between the blocks: in units of 2^-15, with the outcome behind them where it is
/// protected with them, and Alice's times the factor of the table.
#[derive(Debug)]
pub struct WholeRows {
    rows: ClippedRows,
    outcome: Option<Vec<i64>>,
    factor: f64,
}

impl WholeRows {
    /// Rows as they are, with an outcome or without.
    pub fn of_rows(rows: ClippedRows, outcome: Option<Vec<i64>>) -> WholeRows {
        WholeRows { rows, outcome, factor: 1.0 }
    }

    /// Goes on without the outcome.
    pub fn without_outcome(&mut self) {
        self.outcome = None;
    }

    /// The rows without factor and outcome.
    pub fn clipped(&self) -> &ClippedRows {
        &self.rows
    }
}

impl Blocks for WholeRows {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.rows.width() + usize::from(self.outcome.is_some())
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        // Entries of at most 2^15 times a factor of at most 2^30: exact.
        self.rows.append(rows.clone(), self.factor, out);
        let outcome = self.outcome.as_deref().map(|outcome| &outcome[rows]);
        out.extend(outcome.into_iter().flatten().map(|y| *y as f64 * self.factor));
    }
}

impl CrossSide {
    /// The releases in their order.
    pub fn order(&self) -> &[CrossRelease] {
        &self.order
    }

    /// The place of a release in that order.
    pub fn index(&self, release: CrossRelease) -> Option<u32> {
        Some(self.order.iter().position(|planned| *planned == release)? as u32)
    }

    /// Every release in its order: what it is, and the standard deviation of its noise. All of them go to the peer.
    pub fn lines(&self) -> impl Iterator<Item = (&str, f64)> {
        let planned = self.releases.releases().iter().zip(&self.order);
        planned.map(|(planned, release)| (planned.label.as_str(), self.sigma(*release)))
    }

    /// Standard deviation of the noise of a release.
    pub fn sigma(&self, release: CrossRelease) -> f64 {
        match release {
            CrossRelease::Table => self.table_sigma,
            CrossRelease::Score => self.score_sigma,
            CrossRelease::Share => self.share_sigma,
        }
    }
}

impl CrossFit {
    /// Coefficients of unit rows of which nothing is known beside.
    fn without_errors(coefficients: DVector<f64>) -> CrossFit {
        let size = coefficients.len();
        CrossFit { coefficients, covariance: DMatrix::zeros(size, size) }
    }

    /// Intercept, less the outcome's centre, and slopes on the original scale with their variances, in the order of the parties; of rows
    /// with these bounds.
    pub fn on_original_scale(&self, bounds: &[&RowBounds], outcome: &OutcomeBounds) -> (DVector<f64>, DVector<f64>) {
        let slopes: usize = bounds.iter().map(|bounds| bounds.names().len()).sum();
        let mut map = DMatrix::zeros(1 + slopes, self.coefficients.len());
        let (mut column, mut row) = (0, 1);
        for bounds in bounds {
            let (scale, own) = (bounds.original_scale(outcome), bounds.names().len());
            for entry in 0..bounds.width() {
                let unit = DVector::from_fn(bounds.width(), |at, _| f64::from(u8::from(at == entry)));
                let image = scale.coefficients(&unit);
                map[(0, column + entry)] = image[0];
                map.view_mut((row, column + entry), (own, 1)).copy_from(&image.rows(1, own));
            }
            column += bounds.width();
            row += own;
        }
        let variances = (&map * &self.covariance * map.transpose()).diagonal();
        (&map * &self.coefficients, variances.map(|variance| variance.max(0.0)))
    }
}

impl CrossPlan {
    /// Calibrates every release of all sides.
    ///
    /// # Errors
    ///
    /// A number that is not positive, fewer than two parties, more than two where one alone holds the outcome, or a budget without noise.
    pub fn new(setup: CrossSetup) -> Result<CrossPlan, PlanError> {
        let narrowest = setup.widths.iter().min().copied().unwrap_or(0);
        let positive = [
            ("the number of rows", setup.rows as f64),
            ("the number of a party's columns", narrowest as f64),
            ("the number of other parties", setup.widths.len() as f64 - 1.0),
            ("the budget", setup.budget),
        ];
        if let Some(&(what, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(PlanError::Positive { what, value });
        }
        if !(setup.ridge >= 0.0 && setup.ridge.is_finite()) {
            return Err(PlanError::Positive { what: "the ridge penalty", value: setup.ridge });
        }
        let failed = PlanError::NoBudget;
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget.
        let budget = |entries: usize| (setup.budget.sqrt() * (1.0 - 1e-13) - free_table_rounding(entries)).max(0.0);
        match (setup.outcome, setup.widths.as_slice()) {
            (OutcomeAt::Both, widths) => {
                // The sides differ in their roundings alone; the unit of what opens is common.
                let others = widths.len() - 1;
                let root = budget(rounded(widths.iter().max().copied().unwrap_or(0)));
                let sensitivity = moved_by_a_row(others);
                let scale =
                    ShareScale::within(sensitivity, root * table_share(others).sqrt()).ok_or_else(|| failed.clone())?;
                let sides = widths.iter().map(|width| all_hold(*width, budget(rounded(*width)), scale, sensitivity));
                let sides = sides.collect::<Option<Vec<CrossSide>>>().ok_or(failed)?;
                Ok(CrossPlan { scale, sides, setup })
            }
            (OutcomeAt::Alice, &[alice, bob]) => {
                let sigma = 10f64.sqrt() / budget(rounded(alice) + 1);
                let scale = ShareScale::within(ROOT_EIGHT, ROOT_EIGHT / sigma).ok_or(failed)?;
                let sides = vec![holder(alice, sigma, scale)?, other(bob, scale)?];
                Ok(CrossPlan { scale, sides, setup })
            }
            (OutcomeAt::Alice, several) => Err(PlanError::Alone { parties: several.len() }),
        }
    }

    /// The plan with the noise of this one and some entries of each party's rows, by their places among those of all: what is computed from
    /// a part of the tables that have opened. None where a party has others, or nothing is left.
    pub fn of_entries(&self, entries: &[Vec<usize>]) -> Option<CrossPlan> {
        let blocks = self.blocks();
        let within = |(own, block): (&Vec<usize>, &Range<usize>)| own.iter().all(|entry| block.contains(entry));
        if entries.len() != blocks.len()
            || !entries.iter().zip(&blocks).all(within)
            || entries.iter().all(Vec::is_empty)
        {
            return None;
        }
        let mut part = self.clone();
        part.setup.widths = entries.iter().map(Vec::len).collect();
        part.sides.iter_mut().zip(&part.setup.widths).for_each(|(side, width)| side.width = *width);
        Some(part)
    }

    /// What was agreed.
    pub fn setup(&self) -> &CrossSetup {
        &self.setup
    }

    /// One side's releases, by its place in the order of the parties.
    pub fn side(&self, place: impl Into<usize>) -> &CrossSide {
        &self.sides[place.into()]
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.sides.len()
    }

    /// The table between the blocks of two parties as the dealer knows it: whole numbers in the ring that holds them. The outcome stands
    /// behind Alice's columns where she holds it alone.
    pub fn shape(&self) -> Shape {
        let [alice, bob] = [0, 1].map(|place| self.setup.widths[place]);
        let left = match self.setup.outcome {
            OutcomeAt::Both => alice,
            OutcomeAt::Alice => alice + 1,
        };
        let rows = self.setup.rows;
        Shape { width: self.scale.width(rows), bits: 0, rows, left, right: bob }
    }

    /// The tables between the blocks of several parties as the dealer knows them; none of two parties of which one holds the outcome.
    pub fn shape_of_several(&self) -> Option<SeveralShape> {
        let rows = self.setup.rows;
        match self.setup.outcome {
            OutcomeAt::Both => SeveralShape::new(self.scale.width(rows), 0, rows, &self.setup.widths),
            OutcomeAt::Alice => None,
        }
    }

    /// How products are scaled in the table that opens.
    pub fn scale(&self) -> ShareScale {
        self.scale
    }

    /// A side's block of the table between two parties.
    pub fn block(&self, side: Side, rows: ClippedRows, outcome: &ClippedOutcome) -> WholeRows {
        let factor = match side {
            Side::Alice => self.scale.factor() as f64,
            Side::Bob => 1.0,
        };
        let outcome = match (self.setup.outcome, side) {
            (OutcomeAt::Alice, Side::Alice) => Some(outcome.integers()),
            (OutcomeAt::Both, _) | (OutcomeAt::Alice, Side::Bob) => None,
        };
        WholeRows { rows, outcome, factor }
    }

    /// One of a side's local releases; none for the share, which is not of own rows alone.
    ///
    /// # Errors
    ///
    /// More rows than the integers hold.
    pub fn query(
        &self,
        place: impl Into<usize>,
        release: CrossRelease,
        rows: &ClippedRows,
        outcome: &ClippedOutcome,
    ) -> Result<Option<Query>, ReleaseError> {
        Ok(match (release, self.setup.outcome, place.into()) {
            (CrossRelease::Share, _, _) => None,
            (CrossRelease::Table, _, _) => Some(Query::gram(rows)?),
            (CrossRelease::Score, OutcomeAt::Alice, 0) => Some(Query::bounded(&held(rows, outcome))),
            (CrossRelease::Score, OutcomeAt::Both, _) | (CrossRelease::Score, OutcomeAt::Alice, _) => {
                Some(Query::score(rows, &ClippedResiduals::clip(outcome.values(), 1.0)))
            }
        })
    }

    /// A side's share of the table between the blocks of two parties, to be released with its noise.
    pub fn share(&self, side: Side, share: &TableShare) -> Query {
        let formula = match (self.setup.outcome, side) {
            (OutcomeAt::Both, _) => "2: |x - z||w|, |x|, |z|, |w| <= 1, on whole numbers, with this side's noise alone",
            (OutcomeAt::Alice, Side::Alice) => {
                "sqrt(8): (|x - z|^2 + (y - v)^2)^(1/2) |w|, on whole numbers, with this side's noise alone"
            }
            (OutcomeAt::Alice, Side::Bob) => {
                "sqrt(8): |x - z| (|w|^2 + y^2)^(1/2), on whole numbers, with this side's noise alone"
            }
        };
        Query::share(share, self.scale, self.side(side).sensitivity, formula)
    }

    /// A party's shares of its tables with all others, whose rows were masked without the factor of the scale, to be released with its
    /// noise.
    ///
    /// # Errors
    ///
    /// The ring refuses the factor, which would be a bug.
    pub fn shares_of_several(&self, shares: &SeveralTables) -> Result<Query, RingError> {
        let mut whole = shares.shares().clone();
        let factors = vec![i128::from(self.scale.factor()); whole.count()];
        whole.multiply(&Elements::from_integers(whole.width(), &factors))?;
        let formula = "2 sqrt(K - 1): |x - z| |w| of the rows w of all others, |x|, |z|, |w| <= 1, on whole numbers, with this party's \
                       noise alone";
        Ok(Query::scaled_share(&whole, self.scale, self.side(shares.place()).sensitivity, formula))
    }

    /// How many entries a side's release has.
    pub fn entries(&self, place: impl Into<usize>, release: CrossRelease) -> usize {
        let place = place.into();
        let width = self.side(place).width;
        let several = self.shape_of_several();
        match (release, self.setup.outcome) {
            (CrossRelease::Table, _) => width * (width + 1) / 2,
            (CrossRelease::Score, OutcomeAt::Both) => width,
            (CrossRelease::Score, OutcomeAt::Alice) => width + 1,
            (CrossRelease::Share, _) => {
                let opened = several.map_or_else(|| self.shape().opened(), |shape| shape.opened(place));
                opened * self.scale.width(self.setup.rows).words()
            }
        }
    }

    /// What opened between two parties, from the releases of both sides; `square` is `y'y` where both hold the outcome. None where a
    /// release is missing.
    pub fn tables(
        &self,
        released: impl Fn(Side, CrossRelease) -> Option<LatticeVector>,
        opened: &DMatrix<f64>,
        square: f64,
    ) -> Option<CrossTables> {
        let own = [Side::Alice, Side::Bob].map(|side| Some((released(side, CrossRelease::Table)?, side)));
        let [Some((alice, _)), Some((bob, _))] = own else { return None };
        let width = self.setup.widths[0];
        let of_alice = released(Side::Alice, CrossRelease::Score)?.tail(0);
        let (of_bob, square) = match self.setup.outcome {
            OutcomeAt::Both => (released(Side::Bob, CrossRelease::Score)?.tail(0), square),
            OutcomeAt::Alice => (opened.row(width).transpose(), of_alice[width]),
        };
        let score = of_alice.iter().take(width).chain(of_bob.iter()).copied();
        let score = DVector::from_iterator(self.width(), score);
        Some(self.joined(&[alice, bob], &[opened.rows(0, width).into_owned()], score, square))
    }

    /// What opened among several parties: of each its noised table and `X'y`, and the opened tables of all pairs in order.
    pub fn tables_of_several(
        &self,
        released: &[[LatticeVector; 2]],
        opened: &[DMatrix<f64>],
        square: f64,
    ) -> CrossTables {
        let own: Vec<LatticeVector> = released.iter().map(|[table, _]| table.clone()).collect();
        let score: Vec<f64> =
            released.iter().flat_map(|[_, score]| score.tail(0).iter().copied().collect::<Vec<f64>>()).collect();
        self.joined(&own, opened, DVector::from_vec(score), square)
    }

    /// What opened, from the numbers of [`CrossTables::values`]; `square` is `y'y`. None where they are of another number.
    pub fn tables_from(&self, values: &[f64], square: f64) -> Option<CrossTables> {
        let width = self.width();
        let triangle = width * (width + 1) / 2;
        if values.len() != triangle + width {
            return None;
        }
        let at = |row: usize, column: usize| {
            let (row, column) = (row.min(column), row.max(column));
            values[column * (column + 1) / 2 + row]
        };
        let joint = DMatrix::from_fn(width, width, at);
        Some(CrossTables { joint, score: DVector::from_column_slice(&values[triangle..]), square })
    }

    /// Whether tables hold what a party itself has released: its noised table and `X'y`.
    pub fn holds(&self, tables: &CrossTables, place: usize, [table, score]: [&LatticeVector; 2]) -> bool {
        let Some(block) = self.blocks().into_iter().nth(place) else { return false };
        let own = tables.joint.view((block.start, block.start), (block.len(), block.len()));
        own == table.symmetric(block.len()) && tables.score.rows(block.start, block.len()) == score.tail(0)
    }

    /// Tables of all parties and of all pairs as one.
    fn joined(&self, own: &[LatticeVector], opened: &[DMatrix<f64>], score: DVector<f64>, square: f64) -> CrossTables {
        let blocks = self.blocks();
        let mut joint = DMatrix::zeros(self.width(), self.width());
        for (block, table) in blocks.iter().zip(own) {
            let size = (block.len(), block.len());
            joint.view_mut((block.start, block.start), size).copy_from(&table.symmetric(block.len()));
        }
        for ((first, second), table) in pairs(blocks.len()).zip(opened) {
            let (first, second) = (&blocks[first], &blocks[second]);
            joint.view_mut((first.start, second.start), (first.len(), second.len())).copy_from(table);
            joint.view_mut((second.start, first.start), (second.len(), first.len())).copy_from(&table.transpose());
        }
        CrossTables { joint, score, square }
    }

    /// Entries of all parties' rows.
    fn width(&self) -> usize {
        self.setup.widths.iter().sum()
    }

    /// Where each party's entries stand among those of all.
    fn blocks(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let block = |width: &usize| {
            end += width;
            end - width..end
        };
        self.setup.widths.iter().map(block).collect()
    }

    /// The joint fit. Eigenvalues of the noised joint table are lifted to about the norm of its noise, so that it cannot blow up.
    pub fn fit(&self, opened: &CrossTables) -> Option<CrossFit> {
        let CrossSetup { rows, ridge, .. } = self.setup;
        let lifted = lifted(&opened.joint, self.floor(), ridge);
        let factor = Cholesky::new(lifted.clone())?;
        let beta = factor.solve(&opened.score);
        let rest = opened.square - 2.0 * beta.dot(&opened.score) + beta.dot(&(&lifted * &beta));
        let inverse = factor.inverse();
        let noise = &inverse * self.noise(&(&beta * beta.transpose())) * &inverse;
        let covariance = noise + &inverse * (rest.max(0.0) / rows as f64);
        let covariance = (&covariance + covariance.transpose()) * 0.5;
        Some(CrossFit { coefficients: beta, covariance })
    }

    /// What error to expect, from public facts and a declared design; no data are involved.
    ///
    /// To second order: the noise of the solve, and the mean shift of coefficients that noise in the table causes. The shift is part of the
    /// error and not of the bias: where it is not small the noise is large, and intervals cover more than they say (`coverage_by_rows` among
    /// the tests). What the ridge and the floor of eigenvalues do is the bias.
    pub fn predict(&self, design: &Design) -> Prediction {
        let rows = self.setup.rows as f64;
        let joint = design.moments() * rows;
        let (beta, weights) = (design.coefficients(), design.weights());
        let lifted = lifted(&joint, self.floor(), self.setup.ridge);
        let size = lifted.nrows();
        let inverse = lifted.clone().try_inverse().unwrap_or_else(|| DMatrix::zeros(size, size));
        let drawn = &inverse * (&joint * beta);
        let lift = &drawn - beta;
        let shift = &inverse * self.shift(&inverse) * &drawn + &lift;
        let noise = &inverse * self.noise(&(&drawn * drawn.transpose())) * &inverse;
        let squares = weights.component_mul(weights);
        let stacked = |values: DVector<f64>| values.component_mul(&squares).map(|square| square.max(0.0));
        let (bias, noise) = (stacked(design::row_squares(&lift)), stacked(noise.diagonal()));
        let moved = stacked(design::row_squares(&shift));
        let length = stacked(design::row_squares(beta)).sum().sqrt();
        let alone = design::alone(design, &self.setup.widths, rows, self.setup.ridge);
        Prediction {
            relative_error: (moved.sum() + noise.sum()).sqrt() / length,
            alone_error: stacked(alone).sum().sqrt() / length,
            bias: bias.map(f64::sqrt),
            noise: noise.map(f64::sqrt),
        }
    }

    /// About the norm of the joint table's noise.
    fn floor(&self) -> f64 {
        self.scale.sigma() * (self.width() as f64).sqrt()
    }

    /// Variance of an entry of a table between two blocks: both sides add their noise.
    fn cross_variance(&self) -> f64 {
        2.0 * self.scale.sigma() * self.scale.sigma()
    }

    /// Covariance of `(noise of X'y) - N b`, where `squares` is `b b'` or its mean.
    fn noise(&self, squares: &DMatrix<f64>) -> DMatrix<f64> {
        self.around(squares, |place| match (self.setup.outcome, place) {
            (OutcomeAt::Both, _) | (OutcomeAt::Alice, 0) => self.sides[place].score_sigma.powi(2),
            (OutcomeAt::Alice, _) => self.cross_variance(),
        })
    }

    /// The mean of `N A N` over the noise `N` of the joint table, for a symmetric `A`.
    fn shift(&self, a: &DMatrix<f64>) -> DMatrix<f64> {
        self.around(a, |_| 0.0)
    }

    /// The mean of `N A N`, with this much more on the diagonal of each party's block.
    fn around(&self, a: &DMatrix<f64>, more: impl Fn(usize) -> f64) -> DMatrix<f64> {
        let (blocks, cross) = (self.blocks(), self.cross_variance());
        let own = |block: &Range<usize>| a.view((block.start, block.start), (block.len(), block.len())).into_owned();
        let traces: Vec<f64> = blocks.iter().map(|block| own(block).trace()).collect();
        let mut mean = a * cross;
        for (place, block) in blocks.iter().enumerate() {
            let table = self.sides[place].table_sigma;
            let (own, half) = (own(block), 0.5 * table * table);
            let others = traces.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, trace)| trace);
            let diagonal = more(place) + cross * others.sum::<f64>() + half * traces[place];
            let value = DMatrix::identity(block.len(), block.len()) * diagonal + own * half;
            mean.view_mut((block.start, block.start), (block.len(), block.len())).copy_from(&value);
        }
        mean
    }
}

/// How far one row moves a party's tables with this number of others: `|x - z| |w|` of the rows `w` of all of them.
fn moved_by_a_row(others: usize) -> f64 {
    match others {
        1 => 2.0,
        several => (2.0 * (several as f64).sqrt()).next_up(),
    }
}

const ROOT_EIGHT: f64 = 2.828_427_124_746_190_3;

/// Entries of a side's local releases, which are rounded.
fn rounded(width: usize) -> usize {
    width * (width + 1) / 2 + width
}

fn planned(label: &str, mu: f64) -> PlannedRelease {
    PlannedRelease { label: label.to_owned(), mu }
}

const TABLE: &str = "X'X";
const SCORE: &str = "X'y";
const HELD: &str = "X'y and y'y";
/// The label of a share in plans and receipts.
pub(crate) const SHARE: &str = "share of the table between the blocks";
/// The same of several parties.
pub(crate) const SHARES: &str = "shares of the tables between the blocks";

/// A side where all hold the outcome; `root` is that of its budget. None where it buys no finite noise.
fn all_hold(width: usize, root: f64, scale: ShareScale, sensitivity: f64) -> Option<CrossSide> {
    let share = scale.mu(sensitivity).ok()?;
    let score = (root * root - share * share).max(0.0).sqrt();
    // Within a quarter of what the vectors cost: then it is free.
    let table = (0.25 * (1.0 - 1e-8) * (score * score + share * share)).sqrt();
    let shares = if sensitivity > 2.0 { SHARES } else { SHARE };
    let releases = vec![planned(TABLE, table), planned(SCORE, score), planned(shares, share)];
    let releases = ReleasePlan::with_free_table(releases, 0, &[1, 2], rounded(width));
    Some(CrossSide {
        width,
        table_sigma: noise_scale(std::f64::consts::SQRT_2.next_up(), width * (width + 1) / 2, table).ok()?.0,
        score_sigma: noise_scale(2.0, width, score).ok()?.0,
        share_sigma: scale.sigma(),
        releases,
        order: CrossRelease::OF_ALL.to_vec(),
        sensitivity,
    })
}

/// Alice, who holds the outcome alone and adds noise of at least `sigma` to everything.
fn holder(width: usize, sigma: f64, scale: ShareScale) -> Result<CrossSide, PlanError> {
    let failed = |_| PlanError::NoBudget;
    let alone = [std::f64::consts::SQRT_2.next_up(), 2.0, ROOT_EIGHT.next_up()];
    let [table, score] = [alone[0], alone[1]].map(|sensitivity| (sensitivity / sigma).next_down());
    let share = scale.mu(alone[2]).map_err(failed)?;
    let releases = vec![planned(TABLE, table), planned(HELD, score), planned(SHARE, share)];
    let releases = ReleasePlan::with_joint(releases, &alone, 10f64.sqrt().next_up(), rounded(width) + 1);
    Ok(CrossSide {
        width,
        table_sigma: noise_scale(alone[0], width * (width + 1) / 2, table).map_err(failed)?.0,
        score_sigma: noise_scale(alone[1], width + 1, score).map_err(failed)?.0,
        share_sigma: scale.sigma(),
        releases,
        order: vec![CrossRelease::Table, CrossRelease::Score, CrossRelease::Share],
        sensitivity: alone[2],
    })
}

/// Bob, where Alice holds the outcome alone.
fn other(width: usize, scale: ShareScale) -> Result<CrossSide, PlanError> {
    let failed = |_| PlanError::NoBudget;
    let sensitivity = ROOT_EIGHT.next_up();
    let share = scale.mu(sensitivity).map_err(failed)?;
    let table = (0.25 * share * share * (1.0 - 1e-8)).sqrt();
    let entries = width * (width + 1) / 2;
    let releases = vec![planned(TABLE, table), planned(SHARE, share)];
    Ok(CrossSide {
        width,
        table_sigma: noise_scale(std::f64::consts::SQRT_2.next_up(), entries, table).map_err(failed)?.0,
        score_sigma: 0.0,
        share_sigma: scale.sigma(),
        releases: ReleasePlan::with_free_table(releases, 0, &[1], entries),
        order: vec![CrossRelease::Table, CrossRelease::Share],
        sensitivity,
    })
}

/// `X_a'y` and `y'y` of the integers that the table is made of: `|xy - zv|^2 + (y^2 - v^2)^2 <= (|y| + |v|)^2 (1 + (|y| - |v|)^2)`, which grows
/// in both up to 4.
fn held(rows: &ClippedRows, outcome: &ClippedOutcome) -> Bounded {
    let outcome = outcome.integers();
    let mut sums = products(rows, &outcome);
    sums.push(outcome.iter().map(|y| i128::from(y * y)).sum());
    Bounded::new(sums, -2 * ROW_BITS, 2.0, "2: |xy - zv|^2 + (y^2 - v^2)^2 <= 4, |x| <= 1, |y| <= 1")
}

/// `X'y` of integers, each of at most 2^15 in size.
pub(super) fn products(rows: &ClippedRows, outcome: &[i64]) -> Vec<i128> {
    rows.along(|row| outcome.get(row).map_or(0.0, |y| *y as f64))
}

/// A symmetric matrix with its eigenvalues lifted to a floor, plus a ridge.
pub(super) fn lifted(joint: &DMatrix<f64>, floor: f64, ridge: f64) -> DMatrix<f64> {
    let mut eigen = SymmetricEigen::new(joint.clone());
    if eigen.eigenvalues.min() >= floor && ridge == 0.0 {
        return joint.clone();
    }
    eigen.eigenvalues.iter_mut().for_each(|value| *value = value.max(floor) + ridge);
    let lifted = eigen.recompose();
    (&lifted + lifted.transpose()) * 0.5
}

#[cfg(test)]
mod tests;
