//! What Alice and Bob say to each other.

use serde::{Deserialize, Serialize};

use crate::conversation::{self, Content, Hello};
use crate::id::Digest;
use crate::linalg::Values;
use crate::methods::vertical::matching::message::Match;
use crate::privacy::mechanism::LatticeVector;
use crate::privacy::release::{Declaration, Discloses};
use crate::secure::merging::Merged;
use crate::secure::ring::Elements;
use crate::study::HeldAs;

/// One message.
pub type Message = conversation::Message<Body>;

/// What a message says. At most one long vector each, which travels as frames of a fixed size.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// The study that the sender follows. Nothing that depends on data has been touched.
    Hello(Hello),
    /// Proof of the rows: how many, and the keyed digest of their ordered ids.
    Rows(Rows),
    /// Which rows are complete, bit by bit, least significant first; only when the study asks for complete cases.
    Complete(Vec<u8>),
    /// Keyed digests of what both hold, and the size of the sender's block.
    Shared(Shared),
    /// A whole vector that one party holds alone.
    Held(Held),
    /// The largest absolute scaled gradient of the null model over the sender's penalised columns.
    LargestGradient(f64),
    /// Partial predictions of the sender's block in one round.
    Partial(Partial),
    /// The iteration is over.
    Ended(Ended),
    /// Of cross-validation, what fits side by side say.
    Folds(Folds),
    /// Some rows of an orthonormal, randomly rotated basis of the sender's block.
    Basis(Basis),
    /// What the receiver of the basis returns.
    Table(Table),
    /// Columns of the basis turned out to depend on the receiver's: the fit is to be redone with this many fewer.
    Redo(u32),
    /// The sender's results.
    Results(Results),
    /// The sender's part of the linear predictor of new rows, one value a row.
    Prediction(Vec<f64>),
    /// In private mode: what the sender's data set may cost. Public facts.
    Terms(Terms),
    /// In private mode: a value with noise, charged and stored before it was sent.
    Noised(Noised),
    /// In private mode: coefficients, computed from noised values alone.
    Estimates(Estimates),
    /// In sealed mode: row blocks behind their mask.
    Masked(Masked),
    /// In sealed mode: the sender's shares of what opens to the receiver.
    Share(Share),
    /// In sealed mode: what follows from an opened table alone.
    Joint(Joint),
    /// In sealed mode: the sender's part of a product with the columns of a table.
    Product(Product),
    /// In sealed mode: what the dealer sends. No party says it.
    Dealt(Dealt),
    /// In a match of records, before any fit.
    Match(Match),
    /// In a match of records through the coordinator: what it says. No party says it.
    Merged(Merged),
    /// Nothing to say, go on.
    Go,
}

/// See [`Body::Rows`].
#[derive(Clone, PartialEq)]
pub struct Rows {
    /// The key of this run's digests, from the first speaker; absent in the answer.
    pub key: Option<[u8; 32]>,
    /// How many rows the sender has.
    pub rows: u64,
    /// Keyed digest of the ids in byte order.
    pub ids: Digest,
}

/// See [`Body::Shared`].
#[derive(Clone, PartialEq)]
pub struct Shared {
    /// Keyed digest of the outcome, where the sender holds it and the study says both do.
    pub outcome: Option<Digest>,
    /// The same of the offset.
    pub offset: Option<Digest>,
    /// The same of the case weights.
    pub weights: Option<Digest>,
    /// The same of the folds.
    pub folds: Option<Digest>,
    /// Columns of the sender's block that take part, the intercept included.
    pub columns: u32,
    /// Whether the sender's policy allows the exchange of a basis.
    pub basis: bool,
}

/// See [`Body::Held`].
#[derive(Clone, PartialEq)]
pub struct Held {
    /// The outcome or the weights.
    pub what: HeldKind,
    /// One value a row; for the scale, one total a fold of cross-validation.
    pub values: Vec<f64>,
    /// Weighted sum of squares of the outcome around its mean (around zero without an intercept); the scale of the
    /// stopping rule.
    pub total: f64,
}

/// What a [`Held`] message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKind {
    /// The outcome.
    Outcome,
    /// The case weights.
    Weights,
    /// The offset.
    Offset,
    /// Only the scale of the outcome.
    Scale,
    /// Predictions of the null model, less the outcome: what the first partial predictions of a path would be.
    NullResidual,
}

impl From<HeldAs> for HeldKind {
    fn from(held: HeldAs) -> HeldKind {
        match held {
            HeldAs::Weights => HeldKind::Weights,
            HeldAs::Outcome => HeldKind::Outcome,
            HeldAs::Offset => HeldKind::Offset,
        }
    }
}

/// See [`Body::Partial`].
#[derive(Clone, PartialEq)]
pub struct Partial {
    /// Which fit of the run: its place in the list of penalties and folds.
    pub fit: u32,
    /// The round, from 1.
    pub round: u32,
    /// One value a row, in table form one value a basis column, or nothing for zero.
    pub values: Values,
    /// The sender's penalty at its coefficients.
    pub penalty: f64,
    /// In table form, what the sender's predictions alone add to the loss; 0 otherwise.
    pub loss: f64,
    /// Largest relative change of the sender's coefficients since its last partial predictions.
    pub change: f64,
    /// Scaled gradient of the sender's block at the point of the last exchange.
    pub certificate: f64,
}

/// See [`Body::Ended`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Why the fit ended.
    pub termination: crate::fit::Termination,
    /// Rounds in all.
    pub rounds: u32,
    /// Whether it goes on from the joint step of a projection exchange, since it came to no rest.
    pub again: bool,
}

/// Most lanes of a [`Folds`] message.
pub const LANES: usize = 64;

/// See [`Body::Folds`].
#[derive(Clone, PartialEq)]
pub struct Folds {
    /// Those that have not ended, in order.
    pub lanes: Vec<Lane>,
    /// Their values, one lane's behind the other's.
    pub values: Vec<f64>,
}

/// Fits that take their course beside others: those to all rows are in the first lane, and a fold's in that of its number modulo the lanes.
#[derive(Clone, PartialEq)]
pub struct Lane {
    /// Its number.
    pub lane: u32,
    /// What it says.
    pub says: LaneSays,
}

/// What a [`Lane`] says.
#[derive(Clone, PartialEq)]
pub enum LaneSays {
    /// Partial predictions, without their values, and how many these are.
    Partial(Partial, u64),
    /// Its fits are over.
    Ended(Ended),
}

/// See [`Body::Basis`].
#[derive(Clone, PartialEq)]
pub struct Basis {
    /// First row of this part.
    pub start: u64,
    /// Rows of this part.
    pub rows: u32,
    /// Columns of the basis.
    pub columns: u32,
    /// Column by column, `rows x columns`.
    pub values: Vec<f64>,
}

/// See [`Body::Table`].
#[derive(Clone, PartialEq)]
pub struct Table {
    /// Upper triangular, `columns x columns`, column by column: the R factor of the basis after the receiver's block
    /// was projected out.
    pub factor: Vec<f64>,
    /// The basis after projection, times the working residual.
    pub score: Vec<f64>,
    /// Weighted sum of squares of the working residual that neither block explains.
    pub residual: f64,
    /// How many columns of the receiver's block depend on the basis: the fit is to be redone without them.
    pub dependent: u32,
    /// Where the study asks for standard errors from residuals: upper triangular, `columns x columns`, column by column, `R` with
    /// covariance `R' R` of the coordinates of the basis; else empty.
    pub robust: Vec<f64>,
}

/// See [`Body::Results`].
#[derive(Clone, PartialEq)]
pub struct Results {
    /// One for each fit to all rows, in order.
    pub fits: Vec<FitEnd>,
    /// Errors of the cross-validation fits, in order, from the side that can compute them.
    pub fold_errors: Vec<f64>,
    /// Fit statistics, from Alice.
    pub statistics: Option<crate::fit::Statistics>,
    /// The sender's rows of the coefficient table, when the study shares them.
    pub coefficients: Option<Vec<crate::fit::Coefficient>>,
}

/// See [`Body::Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Epsilon of the sender's data set, for its lifetime and over all peers.
    pub epsilon: f64,
    /// Its delta.
    pub delta: f64,
    /// The largest sum of `(sensitivity / sigma)^2` that goes with them.
    pub cap: f64,
    /// Entries of the sender's rows.
    pub columns: u32,
}

/// See [`Body::Noised`].
#[derive(Debug, Clone, PartialEq)]
pub struct Noised {
    /// Position in the sender's plan.
    pub index: u32,
    /// The value on its lattice.
    pub value: LatticeVector,
}

/// See [`Body::Estimates`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// What the sender's block adds to the intercept.
    pub shift: f64,
    /// The sender's slopes, when the study shares them.
    pub slopes: Option<Vec<crate::fit::Coefficient>>,
}

/// See [`Body::Masked`].
#[derive(Clone, PartialEq)]
pub struct Masked {
    /// The number of the first row block.
    pub first: u64,
    /// Row blocks one behind the other, each column by column.
    pub entries: Elements,
}

/// See [`Body::Share`].
#[derive(Clone, PartialEq)]
pub struct Share {
    /// Of the product of the public columns that stand behind the blocks.
    pub canary: Elements,
    /// Of the table, from a side that has checked the other's canary; `left x right`, column by column.
    pub table: Option<Elements>,
}

/// See [`Body::Product`].
#[derive(Clone, PartialEq)]
pub struct Product {
    /// Which product of the run, counted from 0: a part of another one must never be taken for one of this.
    pub number: u32,
    /// What it is.
    pub what: ProductKind,
    /// Of rows: the number of the first row block.
    pub first: u64,
    /// Row blocks one behind the other, each column by column; or shares.
    pub entries: Elements,
}

/// What a [`Product`] message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductKind {
    /// Row blocks behind their mask.
    Rows,
    /// Shares of products of public integers, one a product within rows.
    Canary,
    /// The same, then the sender's shares of what opens to the receiver.
    Shares,
}

/// See [`Body::Joint`].
#[derive(Clone, PartialEq)]
pub struct Joint {
    /// What the numbers are.
    pub what: JointKind,
    /// In the order that [`JointKind`] states.
    pub values: Vec<f64>,
}

/// What a [`Joint`] message holds. Matrices stand column by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JointKind {
    /// What the leader's columns leave of the receiver's, `p x p`: sent where columns depend across the parties.
    LeftOver,
    /// The answer: how many columns are set aside, their positions, and a basis of the others, `p x (p - dropped)`.
    Reduction,
    /// The receiver's part of the joint solution: coordinates, their covariance, their covariance with the leader's linear predictor at
    /// its means, and the mean square of the residuals.
    Answer,
    /// The linear predictor at the sender's column means, and what the sender's columns add to the variance of the intercept.
    Means,
    /// A point at which a gradient is to open: digits of the kernel (poisson: bits of the largest outcome), the sender's range, the
    /// intercept where the receiver adds it, and the receiver's coordinates.
    Point,
    /// The answer: the sender's range.
    Range,
    /// There are no further points: why, as a number. With a penalty 5 in place of it says that the fit at one lambda has converged, and that
    /// the sum opens from which its loss follows.
    End,
    /// The sender's factor, row by row from the diagonal on, and the standard deviations in which a penalty measures its columns; with
    /// folds sums over each; where sub-models are to follow, which of the sender's terms each column is, their means and their scales, and
    /// from Alice the outcome's coordinates, mean, rest, mean square and standard deviation.
    Factor,
    /// At each lambda: lambda, mean square of the residuals (of a binomial or poisson fit the deviance per unit of weight, -1 where it is not
    /// known), violation of the optimality conditions, and the receiver's coefficients; then for each of the receiver's columns R squared on
    /// the sender's columns and the outcome.
    Path,
    /// What the sender's centring takes from the intercept, at each lambda.
    Shifts,
    /// Of several parties, columns of each in order, without the intercept.
    Columns,
    /// Of several parties to all of which the tables open: these, in the order of all pairs, and the root mean square of what the leader's
    /// columns leave of the outcome.
    Tables,
    /// In such a fit, which columns of a third party stay: its place, then as in its own answer.
    Reduced,
    /// Of several parties in private mode, all that has opened: the noised joint table, its upper triangle column by column, and the
    /// noised `X'y`.
    Noised,
    /// Of two parties in plain mode: covariance of the sender's coefficients, then what covariances across the parties follow from; empty
    /// where there are no standard errors.
    Covariance,
}

/// See [`Body::Dealt`].
#[derive(Clone, PartialEq)]
pub enum Dealt {
    /// The seed of the receiver's masks.
    Seed([u8; 32]),
    /// The receiver's share of a product of masks.
    Correction(Elements),
    /// Corrections of row blocks, from the one with this number on.
    Rows(u64, Elements),
}

/// How one fit ended, as one side sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitEnd {
    /// What the sender's centring takes from the intercept.
    pub shift: f64,
    /// Scaled gradient, or violation of the optimality conditions, of the sender's block.
    pub certificate: f64,
}

impl Content for Body {
    const GO: Body = Body::Go;

    fn greeting(hello: Hello) -> Body {
        Body::Hello(hello)
    }

    fn hello(&self) -> Option<&Hello> {
        if let Body::Hello(hello) = self { Some(hello) } else { None }
    }

    fn kind(&self) -> &'static str {
        match self {
            Body::Hello(_) => "a greeting",
            Body::Rows(_) => "a proof of rows",
            Body::Complete(_) => "a mask of complete rows",
            Body::Shared(_) => "digests of shared columns",
            Body::Held(_) => "a held vector",
            Body::LargestGradient(_) => "a largest gradient",
            Body::Partial(_) => "partial predictions",
            Body::Ended(_) => "the end of the iteration",
            Body::Folds(_) => "fits of several folds",
            Body::Basis(_) => "a part of the basis",
            Body::Table(_) => "a projection table",
            Body::Redo(_) => "a call to redo the fit",
            Body::Results(_) => "results",
            Body::Prediction(_) => "predictions of new rows",
            Body::Terms(_) => "terms of a budget",
            Body::Noised(_) => "noised values",
            Body::Estimates(_) => "noised estimates",
            Body::Masked(_) => "masked columns",
            Body::Share(_) => "shares of a table",
            Body::Joint(_) => "numbers of the joint solution",
            Body::Product(Product { what: ProductKind::Rows, .. }) => "masked rows of a product",
            Body::Product(Product { what: ProductKind::Canary, .. }) => "the share of a product's canary",
            Body::Product(Product { what: ProductKind::Shares, .. }) => "shares of a product",
            Body::Dealt(Dealt::Seed(_)) => "the seed of masks",
            Body::Dealt(Dealt::Correction(_)) => "a correction",
            Body::Dealt(Dealt::Rows(..)) => "corrections of rows",
            Body::Match(message) => message.kind(),
            Body::Merged(merged) => merged.kind(),
            Body::Go => "a go-ahead",
        }
    }
}

impl Discloses for Body {
    fn discloses(&self) -> Vec<Declaration> {
        match self {
            Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Ended(_) | Body::Redo(_) | Body::Go => vec![],
            Body::Terms(_) => vec![],
            Body::Noised(_) | Body::Estimates(_) | Body::Dealt(_) | Body::Merged(_) => {
                vec![Declaration::Undeclarable]
            }
            // The share of a product of public integers says nothing of any column.
            Body::Masked(_) | Body::Share(Share { table: None, .. }) => vec![Declaration::Masked],
            Body::Product(Product { what: ProductKind::Rows, .. }) => vec![Declaration::Masked],
            Body::Product(Product { what: ProductKind::Canary | ProductKind::Shares, .. })
            | Body::Share(Share { table: Some(_), .. })
            | Body::Joint(Joint {
                what:
                    JointKind::LeftOver
                    | JointKind::Reduction
                    | JointKind::Answer
                    | JointKind::Means
                    | JointKind::Point
                    | JointKind::Range
                    | JointKind::End
                    | JointKind::Factor
                    | JointKind::Path
                    | JointKind::Shifts
                    | JointKind::Columns
                    | JointKind::Tables
                    | JointKind::Reduced,
                ..
            }) => vec![Declaration::CrossProducts],
            Body::Joint(Joint { what: JointKind::Covariance, .. }) => vec![Declaration::Covariance],
            // Leaves as what was computed from noised values, or not at all.
            Body::Joint(Joint { what: JointKind::Noised, .. }) => vec![Declaration::Undeclarable],
            Body::Match(message) => message.discloses(),
            Body::Complete(_) => vec![Declaration::MissingRows],
            Body::Held(held) => match held.what {
                HeldKind::Outcome | HeldKind::NullResidual => vec![Declaration::Outcome, Declaration::Summary],
                HeldKind::Weights => vec![Declaration::Weights],
                HeldKind::Offset => vec![Declaration::Offset],
                HeldKind::Scale => vec![Declaration::Summary],
            },
            Body::LargestGradient(_) => vec![Declaration::Summary],
            Body::Partial(_) | Body::Folds(_) => vec![Declaration::PartialPrediction, Declaration::Summary],
            Body::Basis(_) => vec![Declaration::Basis],
            Body::Prediction(_) => vec![Declaration::Prediction],
            Body::Table(_) => vec![Declaration::ProjectionTable],
            Body::Results(results) => match results.coefficients {
                Some(_) => vec![Declaration::Summary, Declaration::Coefficients],
                None => vec![Declaration::Summary],
            },
        }
    }
}
