//! What a site and the hub say to each other.

use std::fmt;

use crate::exit::Exit;
use crate::id::{Digest, RunId};
use crate::privacy::release::{Declaration, Discloses, Released};

/// The version of the conversation; both ends must speak the same.
pub const VERSION: u32 = 2;

/// Most contributions of a site, and rounds: far beyond any run, and far from where counting on would overflow, here or in a file.
pub const MOST: u64 = 1 << 48;

/// What a contribution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The estimate of a batch, without its cross-products.
    Estimate,
    /// The estimate of a batch with its cross-products.
    EstimateWithGram,
    /// A batch that could not be fitted: its rows are counted, nothing else leaves.
    Unfit,
    /// Coefficients at which the hub asks for sums of gradients.
    Coefficients,
    /// A site's sum of gradients.
    GradientSum,
    /// A site's cross-products of random features.
    FeatureStatistics,
    /// A site's own solution in random features.
    FeatureSolution,
    /// The weights of a function that the hub has found so far.
    Weights,
    /// What some records add to the function, one after the other.
    Updates,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 9] = [
        Kind::Estimate,
        Kind::EstimateWithGram,
        Kind::Unfit,
        Kind::Coefficients,
        Kind::GradientSum,
        Kind::FeatureStatistics,
        Kind::FeatureSolution,
        Kind::Weights,
        Kind::Updates,
    ];

    /// Whether a contribution of this kind counts as one for the quorum.
    pub fn counts(self) -> bool {
        self != Kind::Unfit
    }

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Estimate => "an estimate without cross-products",
            Kind::EstimateWithGram => "an estimate with cross-products",
            Kind::Unfit => "a batch that could not be fitted",
            Kind::Coefficients => "coefficients",
            Kind::GradientSum => "a sum of gradients",
            Kind::FeatureStatistics => "cross-products of features",
            Kind::FeatureSolution => "a solution in features",
            Kind::Weights => "weights of a function",
            Kind::Updates => "updates of a function",
        }
    }
}

/// The content of a contribution or a broadcast: whole numbers, then numbers, in the order that the method fixes.
#[derive(Clone, PartialEq)]
pub struct Body {
    /// What it is.
    pub kind: Kind,
    /// Whole numbers, such as counts of rows.
    pub counts: Vec<u64>,
    /// Numbers.
    pub values: Vec<f64>,
}

impl Body {
    /// Its content in 32 bytes: equal for equal bits, and for nothing else.
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::with_capacity(24 + 8 * (self.counts.len() + self.values.len()));
        bytes.push(self.kind as u8);
        bytes.extend((self.counts.len() as u64).to_le_bytes());
        bytes.extend(self.counts.iter().flat_map(|count| count.to_le_bytes()));
        bytes.extend(self.values.iter().flat_map(|value| value.to_bits().to_le_bytes()));
        Digest::of(&bytes)
    }

    /// Noised values of a kind. Their number of rows is public and comes by [`Released::of_rows`].
    pub fn noised(kind: Kind, values: Vec<f64>) -> Body {
        Body { kind, counts: Vec::new(), values }
    }

    /// The same with its number of rows.
    pub fn counted(rows: u64, body: Body) -> Body {
        Body { counts: vec![rows], ..body }
    }

    /// Bytes of its numbers.
    pub fn bytes(&self) -> u64 {
        8 * (self.counts.len() + self.values.len()) as u64
    }
}

// Sizes only: the numbers are what the study declares to leave a site, and logs are not declared.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("kind", &self.kind)
            .field("counts", &self.counts.len())
            .field("values", &self.values.len())
            .finish()
    }
}

impl Discloses for Body {
    fn discloses(&self) -> Vec<Declaration> {
        match self.kind {
            Kind::Estimate | Kind::Unfit => vec![Declaration::BatchEstimate],
            Kind::EstimateWithGram => vec![Declaration::BatchEstimate, Declaration::BatchGram],
            Kind::GradientSum => vec![Declaration::GradientSum],
            Kind::FeatureStatistics => vec![Declaration::FeatureStatistics],
            Kind::FeatureSolution => vec![Declaration::FeatureSolution],
            Kind::Updates => vec![Declaration::RecordUpdate],
            // What the hub says came from it in the first place.
            Kind::Coefficients | Kind::Weights => Vec::new(),
        }
    }
}

/// What a site says. On its way out the content of a contribution is a [`Released<Body>`].
#[derive(Debug, Clone, PartialEq)]
pub enum ToHub<B = Body> {
    /// First on every line.
    Join(Join),
    /// A numbered piece.
    Contribution(Contribution<B>),
    /// End of the contributions, with their number.
    Complete {
        /// The run.
        run: RunId,
        /// How many.
        contributions: u64,
    },
    /// The site leaves the run for good, and says why without data.
    Leave {
        /// Its exit code.
        exit: Exit,
        /// The reason.
        sentence: String,
    },
    /// The rows are read and nothing stands against taking part: said to a hub that holds the run.
    Ready,
    /// The outcome has arrived and is kept.
    Done,
}

/// See [`ToHub::Join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// [`VERSION`].
    pub version: u32,
    /// Drawn when the process starts: a second line of the same process replaces the first, one of another is refused.
    pub instance: [u8; 16],
    /// The digest of each key of the site's study.
    pub keys: Vec<(String, Digest)>,
}

/// See [`ToHub::Contribution`].
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution<B = Body> {
    /// Digest of the study that the site follows.
    pub study: Digest,
    /// The run.
    pub run: RunId,
    /// Its number at this site, from 0.
    pub number: u64,
    /// The content.
    pub body: B,
}

impl From<ToHub<Released<Body>>> for ToHub {
    fn from(message: ToHub<Released<Body>>) -> ToHub {
        match message {
            ToHub::Join(join) => ToHub::Join(join),
            ToHub::Contribution(Contribution { study, run, number, body }) => {
                ToHub::Contribution(Contribution { study, run, number, body: body.into_inner() })
            }
            ToHub::Complete { run, contributions } => ToHub::Complete { run, contributions },
            ToHub::Leave { exit, sentence } => ToHub::Leave { exit, sentence },
            ToHub::Ready => ToHub::Ready,
            ToHub::Done => ToHub::Done,
        }
    }
}

/// What the hub says.
#[derive(Debug, Clone, PartialEq)]
pub enum ToSite {
    /// Answer to [`ToHub::Join`]; again when a run that was held is held no more.
    Welcome {
        /// Keys in which the site's study differs from the hub's; if there are any, the site is refused.
        differing: Vec<String>,
        /// The run.
        run: RunId,
        /// The first number that the hub does not have from this site.
        next: u64,
        /// Whether the quorum is still waited for: until it is there nothing is asked of anybody.
        held: bool,
    },
    /// Everything below this number is durable.
    Acknowledged {
        /// The first number that the hub does not have.
        next: u64,
    },
    /// A contribution was not accepted; the report names it.
    Rejected {
        /// Its number.
        number: u64,
        /// The reason, for the report.
        reason: String,
    },
    /// What the hub has found so far, or what it asks.
    Broadcast {
        /// Its number, rising.
        number: u64,
        /// The content.
        body: Body,
    },
    /// The run is over.
    Outcome {
        /// The code with which everybody exits.
        exit: Exit,
        /// The site's report as JSON; the reason where there is no result.
        report: String,
    },
    /// The site has no place in this run.
    Refused {
        /// The code with which it exits.
        exit: Exit,
        /// The sentence for the user.
        sentence: String,
    },
}
