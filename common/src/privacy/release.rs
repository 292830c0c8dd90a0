//! The only values that can become a message.
//!
//! A value leaves a party on one of two roads: under a disclosure that the study declares, or as a noised release that
//! was charged to the ledger. Both roads end in [`Released`], which has no other constructor, and only a [`Released`]
//! converts to the wire.

use std::fmt;

use thiserror::Error;

use crate::id::Header;
use crate::privacy::mechanism::records::NoisedRecords;
use crate::privacy::mechanism::{LatticeVector, NoisedRelease};

/// A kind of un-noised value that a protocol may disclose when its study says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Declaration {
    /// Partial predictions of one's own block, one value a row and round.
    PartialPrediction,
    /// The outcome, from the party that holds it alone.
    Outcome,
    /// The case weights, from the party that holds them alone.
    Weights,
    /// The offset, from a party that holds it alone and does not lead.
    Offset,
    /// An orthonormal, randomly rotated basis of one's own block, for inference.
    Basis,
    /// What the basis exchange returns: a table of the size of the sender's block.
    ProjectionTable,
    /// Scalars: gradients, changes, objective, penalty, sums of squares.
    Summary,
    /// Which rows are complete.
    MissingRows,
    /// One's own coefficients with their standard errors.
    Coefficients,
    /// Covariances of all coefficients, also across the parties: as good as the cross-products of all columns.
    Covariance,
    /// Partial predictions of new rows, and which of them have none because a value is missing, towards the party that the
    /// study names.
    Prediction,
    /// Estimate, counts and scale of one mini-batch.
    BatchEstimate,
    /// Cross-products of the rows that the fit of one mini-batch kept.
    BatchGram,
    /// The sum of a site's gradients at given coefficients, with their number.
    GradientSum,
    /// Cross-products of a site's random features, among each other and with the outcome.
    FeatureStatistics,
    /// A site's own solution in random features.
    FeatureSolution,
    /// What a record adds to a function: it gives the record away.
    RecordUpdate,
    /// Columns behind a mask: uniform for a receiver that cannot expand the mask.
    Masked,
    /// Shares of a table of cross-products between both blocks, and what is computed of the opened table alone.
    CrossProducts,
    /// How many records a party has for a match, and how many both have.
    MatchCounts,
    /// Which records both parties have.
    Membership,
    /// Of several parties, to the leader: which entries of a party's lists of different passes are one record.
    SameRecords,
    /// A value in the place of a noised one. No study can declare it: noised values leave by [`Released::noised`].
    Undeclarable,
}

impl Declaration {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Declaration::PartialPrediction => "partial predictions",
            Declaration::Outcome => "outcome",
            Declaration::Weights => "weights",
            Declaration::Offset => "offset",
            Declaration::Basis => "basis",
            Declaration::ProjectionTable => "projection table",
            Declaration::Summary => "summaries",
            Declaration::MissingRows => "missing rows",
            Declaration::Coefficients => "coefficients",
            Declaration::Covariance => "covariances of all coefficients",
            Declaration::Prediction => "predictions of new rows",
            Declaration::BatchEstimate => "batch estimates",
            Declaration::BatchGram => "cross-products of batches",
            Declaration::GradientSum => "sums of gradients",
            Declaration::FeatureStatistics => "cross-products of features",
            Declaration::FeatureSolution => "solutions of single sites",
            Declaration::RecordUpdate => "records, as what each adds to the function",
            Declaration::Masked => "masked columns",
            Declaration::CrossProducts => "cross-products of both blocks",
            Declaration::MatchCounts => "numbers of records in a match",
            Declaration::Membership => "which records both parties have",
            Declaration::SameRecords => "which entries of several passes are one record",
            Declaration::Undeclarable => "values that were not charged",
        }
    }

    /// The name in reports of a study of more than two parties, where it is another.
    pub fn name_among(self, several: bool) -> &'static str {
        if several && self == Declaration::CrossProducts {
            "cross-products of all blocks"
        } else if several && self == Declaration::Membership {
            "which records all parties have"
        } else {
            self.name()
        }
    }
}

/// The disclosures that a study declares; in private mode there are none.
#[derive(Debug, Clone, Default)]
pub struct Disclosures {
    declared: Vec<Declaration>,
}

/// A disclosure that the study does not declare.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the study does not declare that {} may leave", .0.name())]
pub struct Undeclared(pub Declaration);

impl Disclosures {
    /// The disclosures that were read from a study.
    pub fn new(declared: impl IntoIterator<Item = Declaration>) -> Disclosures {
        Disclosures { declared: declared.into_iter().collect() }
    }

    /// What is declared, in the order of declaration.
    pub fn declared(&self) -> &[Declaration] {
        &self.declared
    }

    /// Whether values of this kind may leave.
    pub fn allows(&self, declaration: Declaration) -> bool {
        declaration != Declaration::Undeclarable && self.declared.contains(&declaration)
    }

    /// Lets a message leave, if the study declares everything that it discloses.
    ///
    /// # Errors
    /// Something in it is not declared.
    pub fn release<T: Discloses>(&self, value: T) -> Result<Released<T>, Undeclared> {
        match value.discloses().into_iter().find(|declaration| !self.allows(*declaration)) {
            Some(declaration) => Err(Undeclared(declaration)),
            None => Ok(Released { value }),
        }
    }
}

/// A value that is computed from noised values and public bounds alone. Plans of this crate make such values; nothing else can claim it.
pub trait PostProcessed: sealed::Sealed {}

pub(crate) mod sealed {
    /// Keeps [`PostProcessed`](super::PostProcessed) from being implemented outside this crate.
    pub trait Sealed {}
}

/// A message that knows what it discloses.
pub trait Discloses {
    /// The kinds of un-noised values in it; empty for what is public anyway.
    fn discloses(&self) -> Vec<Declaration>;
}

/// A value that may leave the party.
///
/// `Debug` prints no value: messages end up in logs, and their content is data.
///
/// A raw vector is not one:
///
/// ```compile_fail
/// use fedreg_common::privacy::release::Released;
/// let leak = Released { value: vec![1.0] };
/// ```
#[derive(Clone, PartialEq)]
pub struct Released<T> {
    value: T,
}

impl<T> Released<T> {
    /// The value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The value, as its receiver sees it.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Released<T> {
    /// Lets a noised value leave that was charged and whose bytes are stored. `wrap` makes the message of its position
    /// in the plan and its value; as a plain function it cannot bring anything else along.
    ///
    /// ```compile_fail
    /// # use fedreg_common::privacy::mechanism::NoisedRelease;
    /// # use fedreg_common::privacy::release::Released;
    /// fn smuggle(noised: &NoisedRelease, raw: Vec<f64>) -> Released<Vec<f64>> {
    ///     Released::noised(noised, |_, _| raw.clone())
    /// }
    /// ```
    ///
    /// ```
    /// # use fedreg_common::privacy::mechanism::NoisedRelease;
    /// # use fedreg_common::privacy::release::Released;
    /// fn honest(noised: &NoisedRelease) -> Released<Vec<f64>> {
    ///     Released::noised(noised, |_, value| value.values())
    /// }
    /// ```
    pub fn noised(noised: &NoisedRelease, wrap: fn(u32, LatticeVector) -> T) -> Released<T> {
        Released { value: wrap(noised.receipt().index, noised.lattice().clone()) }
    }

    /// Lets noised records leave whose stream was charged. `wrap` makes the message of their number and their values.
    pub fn noised_records(noised: &NoisedRecords, wrap: fn(u64, Vec<f64>) -> T) -> Released<T> {
        Released { value: wrap(noised.records(), noised.values().to_vec()) }
    }

    /// Adds the number of rows, which is public: no definition here protects it.
    pub fn of_rows(self, rows: u64, wrap: fn(u64, T) -> T) -> Released<T> {
        Released { value: wrap(rows, self.value) }
    }

    /// Lets a value leave that was computed from noised values and public bounds alone: post-processing is free.
    pub fn post_processed<V: PostProcessed>(value: &V, wrap: fn(&V) -> T) -> Released<T> {
        Released { value: wrap(value) }
    }

    /// Puts a value that may leave under the head of a message.
    pub fn under<M>(self, header: Header, wrap: fn(Header, T) -> M) -> Released<M> {
        Released { value: wrap(header, self.value) }
    }
}

impl<T> fmt::Debug for Released<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Released<{}>", std::any::type_name::<T>())
    }
}
