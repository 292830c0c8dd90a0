//! The modes between parties, in the words of the book's table.

use crate::study::{Mechanism, VerticalGuarantee};
use crate::terms::statement::Protects;

/// What a mode of a study between parties is, in the cells of the book's table of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeFacts {
    /// The mode in a sentence.
    pub sentence: &'static str,
    /// Values of a row that leave readably.
    pub readable: &'static str,
    /// What the other side can learn of a column.
    pub learnt: &'static str,
    /// What is assumed of the other party.
    pub of_party: &'static str,
    /// What is assumed of the coordinator.
    pub of_coordinator: &'static str,
    /// The kind of guarantee.
    pub kind: &'static str,
    /// What is counted over runs.
    pub counted: &'static str,
}

impl ModeFacts {
    /// Of a guarantee between parties.
    pub fn of(guarantee: &VerticalGuarantee) -> ModeFacts {
        match guarantee {
            VerticalGuarantee::Plain => ModeFacts {
                sentence: "partial predictions leave as they are",
                readable: "one a round, for every row",
                learnt: "after as many rounds as there are columns, the whole column space; 0/1 columns outright",
                of_party: "that it may see what it can work out",
                of_coordinator: "little that concerns values: it receives the size of scaled gradients and how a run ended, with the reason",
                kind: "none; declared, counted and metered",
                counted: "the numbers that left, for later sealed runs; they limit no plain run",
            },
            VerticalGuarantee::Sealed(_) => ModeFacts {
                sentence: "columns leave behind masks; small declared tables of exact numbers open",
                readable: "none",
                learnt: "what its own columns and the opened cross-products predict of it: R squared in the report",
                of_party: "that it follows the protocol and brings its real columns",
                of_coordinator: "that it colludes with neither party",
                kind: "computational: masks are expanded from seeds (AES-256)",
                counted: "the numbers that opened, and the rows that they are about",
            },
            VerticalGuarantee::Private(terms) => {
                let (of_party, of_coordinator, kind) = match terms.stated.mechanism {
                    Mechanism::Residual => {
                        ("nothing", "nothing", "information-theoretic, up to the generator of the noise")
                    }
                    Mechanism::Crossprod => (
                        "that it follows the protocol",
                        "that it colludes with neither party",
                        "computational, as for `sealed`",
                    ),
                };
                ModeFacts {
                    sentence: "everything that can be read has noise first",
                    readable: "none without noise",
                    learnt: "at most (epsilon, delta) about any row",
                    of_party,
                    of_coordinator,
                    kind,
                    counted: "the budget, for the lifetime of the data",
                }
            }
        }
    }
}

/// What a mode in which a dealer hands out masks rests on, by the number of parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rests {
    /// Alice and Bob.
    Two,
    /// Several others.
    Several,
}

impl Rests {
    /// Of a study of several parties or of two.
    pub fn of(several: bool) -> Rests {
        if several { Rests::Several } else { Rests::Two }
    }

    /// On whom, after "rests on".
    pub fn on(self) -> &'static str {
        match self {
            Rests::Two => "a peer that follows the protocol and on a dealer that colludes with neither party",
            Rests::Several => "parties that follow the protocol and on a dealer that colludes with none of them",
        }
    }
}

/// What a private study between parties protects, as its reports say; what others may spend stands in ledgers, not here.
pub(super) fn protects(mechanism: Mechanism, several: bool, outcome_at_both: bool) -> Protects {
    match (mechanism, several) {
        (Mechanism::Residual, _) => Protects::Block { peer_cap: 0.0 },
        (Mechanism::Crossprod, true) => Protects::SharesOfSeveral { others_cap: 0.0 },
        (Mechanism::Crossprod, false) => Protects::Shares { peer_cap: 0.0, outcome_at_both },
    }
}
