//! The two parties of a run between two, as one of them sees them, whatever the study names them.

use crate::id::Role;
use crate::methods::vertical::plan;
use crate::secure::product;
use crate::study::{Study, Vertical};

/// The parties of a run between two: this one, the one that holds the intercept, and the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    own: Role,
    first: Role,
    second: Role,
}

impl Pair {
    /// As a party of the study sees it.
    pub fn of(study: &Study<Vertical>, own: Role) -> Pair {
        let first = study.first();
        let second = study.others(first).first().copied().unwrap_or(first);
        Pair { own, first, second }
    }

    /// This party.
    pub fn own(self) -> Role {
        self.own
    }

    /// The party that holds the intercept, and whose columns are the rows of a table: alice, or the leader.
    pub fn first(self) -> Role {
        self.first
    }

    /// The other one.
    pub fn second(self) -> Role {
        self.second
    }

    /// Whether this party is the first.
    pub fn leads(self) -> bool {
        self.own == self.first
    }

    /// The party that this one speaks with.
    pub fn peer(self) -> Role {
        if self.leads() { self.second } else { self.first }
    }

    /// A sentence in which `{first}` and `{second}` stand for the names of the parties.
    pub fn named(self, text: &str) -> String {
        text.replace("{first}", self.first.name()).replace("{second}", self.second.name())
    }

    /// The party on a side of a plan.
    pub(super) fn at(self, side: plan::Side) -> Role {
        match side {
            plan::Side::Alice => self.first,
            plan::Side::Bob => self.second,
        }
    }

    /// The side of a party in a plan.
    pub(super) fn side_of(self, role: Role) -> plan::Side {
        if role == self.first { plan::Side::Alice } else { plan::Side::Bob }
    }

    /// The own side in a plan.
    pub fn side(self) -> plan::Side {
        self.side_of(self.own)
    }

    /// The own side of a table: the first party's columns are its rows.
    pub(super) fn half(self) -> product::Side {
        if self.leads() { product::Side::Left } else { product::Side::Right }
    }
}
