//! What opens, as `check` foretells it and a report states it.

use super::folds::fold_numbers;
use super::kept::{alice_numbers, placed_numbers};
use super::penalised::{factor_numbers, path_numbers};
use crate::id::Role;
use crate::methods::vertical::pair::Pair;
use crate::report::{OF_BOTH, OF_PAIRS, Opened};

/// Who opens something to the peer, and what both parties have.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// Who opens, and to whom.
    pub pair: Pair,
    /// Rows of the data.
    pub rows: u64,
    /// Alice's columns.
    pub alice: u64,
    /// Bob's columns.
    pub bob: u64,
    /// Folds of cross-validation; 0 without.
    pub folds: u64,
    /// Whether its factor opens for sub-models.
    pub refit: bool,
}

impl Opening {
    /// Values that the numbers are about: rows times the columns of the party that has fewer.
    pub fn unknowns(&self) -> u64 {
        self.rows * self.alice.min(self.bob)
    }

    /// A table that opens to the peer; `{first}` and `{second}` stand for the names of the parties.
    pub fn one(&self, what: &str, [rows, columns]: [u64; 2], numbers: u64) -> Opened {
        let what = self.pair.named(what);
        Opened { what, rows, columns, numbers, unknowns: self.unknowns(), to: self.pair.peer() }
    }

    /// Alice's columns and the outcome with Bob's, over all rows or fold by fold.
    pub fn table(&self) -> Opened {
        let (rows, tables) = (self.alice + 1, self.folds.max(1));
        let what = match self.folds {
            0 => OF_BOTH.to_string(),
            _ => format!("{OF_BOTH}, of each fold"),
        };
        self.one(&what, [rows * tables, self.bob], rows * tables * self.bob)
    }

    /// What opens for sub-models, beside the factor that Bob opens where there is a penalty.
    pub fn for_refits(&self, penalised: bool) -> Option<Opened> {
        let (alice, bob) = (self.alice, self.bob);
        self.refit.then(|| match (self.pair.leads(), penalised) {
            (true, _) => self.one(
                "{first}'s factor with places, means and scales of its columns, and the outcome in their coordinates",
                [alice + 5, alice + 1],
                alice_numbers(alice as usize) as u64,
            ),
            (false, true) => {
                self.one("places, means and scales of {second}'s columns", [3, bob], placed_numbers(bob as usize) as u64)
            }
            (false, false) => self.one(
                "{second}'s factor with places, means and scales of its columns: with the table the cross-products of all columns",
                [bob + 4, bob],
                (factor_numbers(bob as usize, 0) + placed_numbers(bob as usize)) as u64,
            ),
        })
    }

    /// Points at which a gradient was to open, each with Bob's coordinates of his columns; nothing where no point was named.
    pub fn points(&self, points: u64, columns: u64) -> Vec<Opened> {
        let all = [
            self.one("points: {second}'s coordinates and the intercept", [points, columns + 1], points * (columns + 1)),
            self.one("ranges and kernels of the points", [points, 2], points * 2),
        ];
        all.into_iter().filter(|opened| opened.numbers > 0).collect()
    }

    /// Gradients that opened, each of a number of numbers; of Bob his ranges of all points too, which stand with the points of Alice. Nothing
    /// where none opened.
    pub fn gradients(&self, [gradients, points]: [u64; 2], numbers: u64) -> Vec<Opened> {
        let ranges = (!self.pair.leads()).then(|| self.one("ranges of the points", [points, 1], points));
        let gradients = self.one("gradients", [gradients, numbers], gradients * numbers);
        std::iter::once(gradients).chain(ranges).filter(|opened| opened.numbers > 0).collect()
    }

    /// What opens at every lambda of a gaussian fit.
    pub fn along(&self, lambdas: u64) -> Vec<Opened> {
        self.along_with("mean square", lambdas, Vec::new())
    }

    /// What opens at every lambda of a binomial or poisson fit; `gradients` after Bob's factor, or before Alice's fits.
    pub fn along_gradients(&self, lambdas: u64, gradients: Vec<Opened>) -> Vec<Opened> {
        self.along_with("deviance", lambdas, gradients)
    }

    fn along_with(&self, residual: &str, lambdas: u64, gradients: Vec<Opened>) -> Vec<Opened> {
        let (bob, folds) = (self.bob, self.folds);
        let mut opened = Vec::new();
        match self.pair.leads() {
            true => {
                opened.extend(gradients);
                opened.extend(self.for_refits(true));
                opened.push(self.one(
                    &format!(
                        "{{second}}'s coefficients at every lambda, with lambda, {residual} and certificate, and what is known of its columns"
                    ),
                    [lambdas + 1, bob + 3],
                    path_numbers(lambdas as usize, bob as usize) as u64,
                ));
                if folds > 0 {
                    let what = "the mean held-out error of each fold at every lambda";
                    opened.push(self.one(what, [folds, lambdas], folds * lambdas));
                }
            }
            false => {
                opened.push(self.table());
                opened.push(self.one(
                    "{second}'s factor: with the table the correlations of all columns",
                    [bob + 1, bob],
                    factor_numbers(bob as usize, 0) as u64,
                ));
                if folds > 0 {
                    let (what, numbers) =
                        ("products and sums of {second}'s columns, of each fold", fold_numbers(bob as usize));
                    opened.push(self.one(what, [folds * bob, bob + 1], folds * numbers as u64));
                }
                opened.extend(self.for_refits(true));
                opened.extend(gradients);
                opened.push(self.one("{second}'s part of the intercept at every lambda", [lambdas, 1], lambdas));
            }
        }
        opened
    }
}

/// Who of several parties opens something to those it speaks with.
#[derive(Debug, Clone, Copy)]
pub struct OpeningOfSeveral<'a> {
    /// All parties in order, the leader first.
    pub parties: &'a [Role],
    /// Who opens.
    pub role: Role,
    /// Rows of the data.
    pub rows: u64,
    /// Columns of the one that opens.
    pub own: u64,
    /// Columns of all others together.
    pub others: u64,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// Whether the tables open to all, and not to the leader alone.
    pub to_all: bool,
    /// Whether factors open for sub-models.
    pub refit: bool,
}

impl OpeningOfSeveral<'_> {
    /// The tables of the own columns, as they open to one or to several.
    fn tables(&self) -> impl Iterator<Item = Opened> {
        let OpeningOfSeveral { parties, role, rows, own, others, to_all, .. } = *self;
        let leader = parties.first() == Some(&role);
        let (what, [height, width], more) = match leader {
            true => {
                (format!("{OF_PAIRS} {role}'s columns and the outcome with those of all others"), [own + 1, others], 1)
            }
            false => {
                (format!("{OF_PAIRS} {role}'s columns with those of all others and the outcome"), [others + 1, own], 0)
            }
        };
        let to = parties.iter().enumerate().filter(move |(at, to)| **to != role && (to_all || *at == 0));
        to.map(move |(_, to)| Opened {
            what: what.clone(),
            rows: height,
            columns: width,
            numbers: height * width + more,
            unknowns: rows * own.min(others),
            to: *to,
        })
    }

    /// The factor of the own columns, where it opens for sub-models: to the leader, or to all.
    fn factors(&self) -> impl Iterator<Item = Opened> {
        let OpeningOfSeveral { parties, role, rows, own, others, to_all, refit, .. } = *self;
        let leader = parties.first() == Some(&role);
        let size = own as usize;
        let (what, [height, width], numbers) = match leader {
            true => (
                format!(
                    "{role}'s factor with places, means and scales of its columns, and the outcome in their coordinates"
                ),
                [own + 5, own + 1],
                alice_numbers(size),
            ),
            false => (
                format!("{role}'s factor with places, means and scales of its columns"),
                [own + 4, own],
                factor_numbers(size, 0) + placed_numbers(size),
            ),
        };
        let to = parties.iter().enumerate().filter(move |(at, to)| **to != role && (to_all || *at == 0));
        to.filter(move |_| refit).map(move |(_, to)| Opened {
            what: what.clone(),
            rows: height,
            columns: width,
            numbers: numbers as u64,
            unknowns: rows * own.min(others),
            to: *to,
        })
    }

    /// What the leader opens to each of the others, of which a number of columns stay; before it `left_over`, of those whose columns
    /// depend on others how many they have.
    pub fn of_leader(&self, stay: &[u64], left_over: &[(Role, u64)]) -> Vec<Opened> {
        let one = |to: Role, what: String, [rows, columns]: [u64; 2], numbers: u64| {
            let unknowns = self.rows * self.own.min(rows);
            Opened { what, rows, columns, numbers, unknowns, to }
        };
        let left = left_over.iter().map(|(to, columns)| {
            let what = format!("what the columns before leave of {to}'s");
            one(*to, what, [*columns, *columns], columns * columns)
        });
        let answers = self.parties.iter().skip(1).zip(stay).map(|(to, stay)| {
            let what = format!("{to}'s part of the solution with its covariance, two sums and a count");
            one(*to, what, [*stay, stay + 2], stay * (stay + 2) + 3)
        });
        self.tables().chain(self.factors()).chain(left).chain(answers).collect()
    }

    /// What another party opens to the leader, and to all others where the tables do; how many of its own columns it has set aside, where
    /// it was asked.
    pub fn of_another(&self, dropped: Option<u64>) -> Vec<Opened> {
        let OpeningOfSeveral { parties, role, rows, own, others, intercept, to_all, .. } = *self;
        let (leader, stay) = (parties.first().copied().unwrap_or(role), own - dropped.unwrap_or(0).min(own));
        let unknowns = rows * own.min(others);
        let told = |to: Role, what: String, [rows, columns]: [u64; 2], numbers: u64| Opened {
            what,
            rows,
            columns,
            numbers,
            unknowns,
            to,
        };
        let one = |what: String, size: [u64; 2], numbers: u64| told(leader, what, size, numbers);
        let mut all: Vec<Opened> = self.tables().chain(self.factors()).collect();
        if let Some(dropped) = dropped {
            let what = format!("which of {role}'s columns stay, and what they are");
            let to = parties.iter().filter(|to| **to == leader || (to_all && **to != role));
            all.extend(to.map(|to| told(*to, what.clone(), [own, stay], own * stay + dropped)));
        }
        all.push(one(format!("{role}'s part of the intercept and of its variance"), [1, 2], 2));
        if intercept && parties.last() != Some(&role) {
            let what = format!("the means of {role}'s columns, in the coordinates of their basis");
            all.push(one(what, [1, stay], stay));
        }
        all
    }
}
