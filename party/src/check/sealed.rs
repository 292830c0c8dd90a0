//! What a sealed run would disclose.

use std::sync::Arc;

use fedreg_common::data::formula::Formula;
use fedreg_common::explanation::{Rests, Reveals, membership};
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::pair::Pair;
use fedreg_common::methods::vertical::report::sealed::size_in_words;
use fedreg_common::methods::vertical::sealed::{self, Opening, OpeningOfSeveral, Sizes};
use fedreg_common::privacy::ledger::Before;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::report::{INTERCEPT, Opened};
use fedreg_common::secure::open::Limits;
use fedreg_common::study::{Missing, Study, Vertical};

use super::{Foreseen, Leaving, size};
use crate::config::Config;
use crate::failure::Failure;
use crate::openings;
use crate::party::Party;

/// An element of a share, in bytes.
const ELEMENT: u64 = 16;
/// What a message has beside its elements and numbers, and how many of them a party sends beside its greeting and its columns.
pub(super) const MESSAGE: u64 = 95;
const MESSAGES: u64 = 6;
/// The same of several parties, on each line.
const MESSAGES_OF_SEVERAL: u64 = 8;
/// A key of the study in a greeting, beside its name.
const KEY: u64 = 38;

/// Bytes of the study's keys in the greeting.
pub(super) fn greeting(study: &Study<Vertical>) -> u64 {
    study.key_digests().iter().map(|(key, _)| key.len() as u64 + KEY).sum()
}
/// A row of the coefficient table.
const COEFFICIENT: u64 = 45;

/// Rows and terms of the table, and what a run with them would bring.
///
/// # Errors
/// What the run would end with here before a column leaves.
pub(super) fn foresee(party: Party<'_>) -> Result<(u64, Vec<String>, Foreseen), Failure> {
    let Party { role, config, study } = party;
    party.dealer()?;
    let table = party.table()?;
    let mut terms = table.term_names();
    let (rows, own) = (table.rows() as u64, terms.len() as u64);
    let others: Vec<usize> = study.others(role).into_iter().map(|other| columns_of(study, other)).collect();
    // A run counts what opens in a ledger, which it makes if there is none; that needs a place for the anchor.
    let also = openings::counted_here(party)?;
    let before = openings::before(config, &also, None)?;
    sealed::allowed(&table, &others, before)?;
    let leads = study.is_first(role);
    if study.method.intercept && leads {
        terms.insert(0, INTERCEPT.to_string());
    }
    let peer = others.iter().sum::<usize>() as u64;
    let (alice, bob) = if leads { (own, peer) } else { (peer, own) };
    let sizes = Sizes::new(study, table.rows(), alice as usize, bob as usize).of_several(study, role, &others);
    let others = others.into_iter().map(|columns| columns as u64).collect();
    let forecast = Forecast { role, leads, config, study, rows, alice, bob, others, before, sizes };
    let table = forecast.one_table();
    let run = Foreseen {
        leaves: forecast.leaves(),
        predicted_rounds: table.then_some(1),
        round_limit: if table { 1 } else { forecast.gradients() as u32 },
        fits: 1,
        predicted_bytes: table.then(|| forecast.bytes()),
        policy: forecast.policy(),
        opened: forecast.opened(),
    };
    Ok((rows, terms, run))
}

/// What a party's columns lack of the limits on what may open, for a rehearsal on one's own data; `others` are the numbers of columns of
/// each of the other parties. Nothing where they lack nothing, or where the table cannot be read.
pub fn beyond_limits(role: Role, config: &Config, study: &Arc<Study<Vertical>>, others: &[usize]) -> Option<String> {
    let table = Party { role, config, study }.table().ok()?;
    sealed::allowed(&table, others, Before::default()).err().map(|refused| refused.to_string())
}

/// Columns of another party as the study names them; a categorical one makes more, and a formula may name all that its table has.
fn columns_of(study: &Study<Vertical>, other: Role) -> usize {
    let Some(terms) = study.method.parties.get(&other) else { return 1 };
    let named = match terms.formula.as_deref().map(Formula::parse) {
        Some(Ok(formula)) => {
            let named: Vec<&str> = formula.predictors();
            formula.terms(&named, &[]).len()
        }
        Some(Err(_)) | None => terms.columns.len(),
    };
    named.max(1)
}

/// Of several parties the leader is Alice, and all others of a party together are the other one.
struct Forecast<'a> {
    role: Role,
    /// Whether it is Alice, or the leader of several.
    leads: bool,
    config: &'a Config,
    study: &'a Study<Vertical>,
    rows: u64,
    alice: u64,
    bob: u64,
    /// Columns of each other party, in order.
    others: Vec<u64>,
    /// What other runs let open.
    before: Before,
    sizes: Sizes,
}

/// Products of a row in a gradient, of most kernels of a fit.
const FEW_TERMS: u64 = 6;
const MANY_TERMS: u64 = 30;

impl Forecast<'_> {
    /// Whether the table opens to both parties, or to all of several.
    fn both(&self) -> bool {
        self.study.guarantee.opens_to_both()
    }

    /// Whether all follows from one table.
    fn one_table(&self) -> bool {
        self.study.method.family == Family::Gaussian
    }

    /// Gradients that the own limit on openings allows.
    fn gradients(&self) -> u64 {
        let limits = self.config.policy.limits();
        let before = self.sizes.before_gradients(self.role);
        let allowed = |gradients: &u64| {
            let numbers = before.saturating_add(self.sizes.leaving(self.role, *gradients));
            limits.opened(self.before.earlier(), numbers, self.rows, [self.alice, self.bob]).is_ok()
        };
        (0..=self.sizes.most_gradients()).rev().find(allowed).unwrap_or(0)
    }

    /// How long a path of a binomial or poisson fit may be by the own limit on openings.
    fn path(&self) -> Option<String> {
        let lambdas = self.lambdas()?;
        let most = (self.opening().unknowns() as f64 * self.config.policy.limits().opened_share).floor() as u64;
        let (fit, each) = self.sizes.lambdas_within(self.role, self.before.numbers, most);
        Some(format!(
            "there is room for a path of {fit} lambdas, counted with {each} gradients at each: the study has {lambdas}"
        ))
    }

    /// What opens in a fit that is led by gradients: once a gradient, and at the end.
    fn opened_by_gradients(&self, opening: &Opening) -> Vec<Opened> {
        let (bob, sizes) = (self.bob, &self.sizes);
        let one = |what: &str, size: [u64; 2], numbers: u64| opening.one(what, size, numbers);
        let all = sizes.gradient();
        let point = one(
            "a point for each gradient: {second}'s coordinates, the intercept, range and kernel",
            [1, bob + 3],
            bob + 3,
        );
        let gradient = match self.leads {
            true => one("a gradient, several times", [1, all], all),
            false => one("a gradient with {second}'s range, several times", [1, all + 1], all + 1),
        };
        // What opens to Alice, and to Bob where everything opens to both.
        let opens = !self.leads || self.both();
        let table = opens.then(|| opening.table());
        if let Some(lambdas) = self.lambdas() {
            let sums = sizes
                .losses_opened()
                .map(|(what, each)| one(&format!("{what} at every lambda"), [lambdas, each], lambdas * each));
            let gradients = std::iter::once(gradient).chain(sums).filter(|_| opens);
            let between = self.leads.then_some(point).into_iter().chain(gradients).collect();
            // That of Bob stands before his factor.
            return table.filter(|_| self.leads).into_iter().chain(opening.along_gradients(lambdas, between)).collect();
        }
        let mut opened: Vec<Opened> = table.into_iter().chain(self.leads.then_some(point)).collect();
        if opens {
            opened.push(gradient);
            if sizes.inference() {
                opened.push(one("weighted cross-products", [all, all], sizes.weighted()));
            }
            opened.extend(sizes.losses_opened().map(|(what, numbers)| one(what, [1, numbers], numbers)));
        }
        match self.leads {
            true => {
                let covariance = if sizes.inference() { bob + 1 } else { 0 };
                opened.extend([
                    one("what {first}'s columns and the outcome hold of {second}'s", [bob, bob], bob * bob),
                    one(
                        "{second}'s part of the solution with its covariance",
                        [bob, 1 + covariance],
                        bob * (1 + covariance),
                    ),
                ]);
            }
            false => {
                opened.push(one("{second}'s part of the intercept and of its variance", [1, 2], 2));
                if self.study.method.outcome.held_by.is_shared() {
                    let numbers = sizes.along();
                    opened.push(one(
                        "the outcome's product with {second}'s part of the linear predictor",
                        [1, numbers],
                        numbers,
                    ));
                }
            }
        }
        opened
    }

    /// Masked columns that leave: the own ones and a canary, at Alice the outcome too.
    fn masked(&self) -> u64 {
        if self.leads { self.alice + 2 } else { self.bob + 1 }
    }

    /// Columns behind masks that leave of other parties: the leader of several hands each of the others those of all but that one.
    fn passed_on(&self) -> u64 {
        match self.study.is_of_several() && self.leads {
            true => {
                let wide: u64 = self.others.iter().map(|columns| columns + 1).sum();
                let twice = self.others.len() as u64 - 1;
                twice * (self.masked() + wide)
            }
            false => 0,
        }
    }

    fn opening(&self) -> Opening {
        let (rows, alice, bob) = (self.rows, self.alice, self.bob);
        let pair = Pair::of(self.study, self.role);
        Opening { pair, rows, alice, bob, folds: self.sizes.folds(), refit: self.sizes.opens_factor(self.role) }
    }

    fn opened(&self) -> Vec<Opened> {
        if self.study.is_of_several() {
            let parties = self.study.parties_in_order();
            let (own, others) = if self.leads { (self.alice, self.bob) } else { (self.bob, self.alice) };
            let intercept = self.study.method.intercept;
            let (role, rows, to_all) = (self.role, self.rows, self.both());
            let refit = self.study.guarantee.opens_factors();
            let opening = OpeningOfSeveral { parties: &parties, role, rows, own, others, intercept, to_all, refit };
            return if self.leads { opening.of_leader(&self.others, &[]) } else { opening.of_another(None) };
        }
        let bob = self.bob;
        let opening = self.opening();
        if !self.one_table() {
            return self.opened_by_gradients(&opening);
        }
        let table = (self.leads && self.both()).then(|| opening.table());
        let factor = opening.for_refits(false);
        if let Some(lambdas) = self.lambdas() {
            return table.into_iter().chain(opening.along(lambdas)).collect();
        }
        match self.leads {
            true => {
                let what = "{second}'s part of the solution with its covariance, and two sums";
                let solution = opening.one(what, [bob, bob + 2], bob * (bob + 2) + 2);
                table.into_iter().chain(factor).chain([solution]).collect()
            }
            false => {
                let means = opening.one("{second}'s part of the intercept and of its variance", [1, 2], 2);
                std::iter::once(opening.table()).chain(factor).chain([means]).collect()
            }
        }
    }

    /// How many lambdas a fit with a penalty has.
    fn lambdas(&self) -> Option<u64> {
        self.study.method.penalty.as_ref().map(|terms| sealed::lambdas(terms) as u64)
    }

    /// The same as [`Self::bytes`] of several parties: each sends its masked columns once, and the leader those of all others too; beside
    /// them a share of a canary for each pair, and at another than the leader those of its tables.
    fn bytes_of_several(&self) -> u64 {
        let (alice, bob, lines) = (self.alice, self.bob, self.others.len() as u64);
        let keys = greeting(self.study);
        let numbers = self.sizes.beside_table(self.role);
        if !self.leads {
            let elements = self.rows * self.masked() + lines + (alice + 1) * bob;
            let messages = MESSAGES_OF_SEVERAL + u64::from(self.sizes.opens_factor(self.role));
            return ELEMENT * elements + 8 * numbers + COEFFICIENT * bob + keys + messages * MESSAGE;
        }
        let elements = self.rows * (self.masked() + self.passed_on()) + lines * lines;
        // To each of the others the coefficients of all but itself, and how many columns all have.
        let rows = lines * (alice + 1) + (lines - 1) * bob;
        // Where they open to all, the tables of all pairs with a number more.
        let tables = match self.both() {
            true => 8 * ((alice + 1) * bob + self.between_others() + 1) + MESSAGE,
            false => 0,
        };
        let each = keys + 8 * (lines + 1) + MESSAGES_OF_SEVERAL * MESSAGE + tables;
        let factor = self.sizes.for_refits(self.role);
        let numbers = numbers - u64::from(self.both()) - factor;
        ELEMENT * elements + 8 * numbers + COEFFICIENT * rows + lines * each + self.factors_told(factor)
    }

    /// Bytes of the factors that the leader sends where they open to all: its own to each of the others, and to each those of all but itself.
    fn factors_told(&self, own: u64) -> u64 {
        let of =
            |columns: &u64| sealed::factor_numbers(*columns as usize, 0) + sealed::placed_numbers(*columns as usize);
        let all: u64 = self.others.iter().map(|columns| 8 * (of(columns) as u64 + 1) + MESSAGE).sum();
        let lines = self.others.len() as u64;
        if own > 0 { lines * (8 * (own + 1) + MESSAGE) + (lines - 1) * all } else { 0 }
    }

    /// Numbers of the tables between any two of the others.
    fn between_others(&self) -> u64 {
        let others = &self.others;
        others.iter().enumerate().map(|(at, columns)| columns * others[at + 1..].iter().sum::<u64>()).sum()
    }

    /// Elements behind masks and in shares, numbers of the solution, coefficients, and the study's keys in the greeting.
    fn bytes(&self) -> u64 {
        if self.study.is_of_several() {
            return self.bytes_of_several();
        }
        let (alice, bob) = (self.alice, self.bob);
        let canary = alice + 2 + bob;
        let (shared, rows) = match self.leads {
            true if self.both() => (canary + 1 + (alice + 1) * bob, alice + 1),
            true => (canary, alice + 1),
            false => (canary + (alice + 1) * bob, bob),
        };
        let numbers = self.sizes.beside_table(self.role);
        let keys = greeting(self.study);
        let tables = self.sizes.folds().max(1);
        // Masked columns, the canary or the share of a further table; where it opens to both, Alice's share of each.
        let both = self.both() && self.leads;
        // With a penalty the places of columns stand in the message that has Bob's factor.
        let factor = self.sizes.opens_factor(self.role) && (both || self.lambdas().is_none());
        let messages = MESSAGES + 2 * (tables - 1) + u64::from(both) * tables + u64::from(factor);
        let elements = self.rows * self.masked() + shared * tables;
        ELEMENT * elements + 8 * numbers + COEFFICIENT * rows + keys + messages * MESSAGE
    }

    fn leaves(&self) -> Vec<Leaving> {
        let declared = self.study.disclosures(self.role);
        declared.declared().iter().map(|declaration| self.leaving(*declaration)).collect()
    }

    fn leaving(&self, declaration: Declaration) -> Leaving {
        let Forecast { leads, rows, alice, bob, .. } = *self;
        let (own, several) = (if leads { alice } else { bob }, self.study.is_of_several());
        let amount = match declaration {
            Declaration::Masked => format!(
                "{rows} rows of {} and a canary, {} elements of {ELEMENT} bytes, {}{}",
                if leads { format!("{own} columns, the outcome") } else { format!("{own} columns") },
                rows * self.masked(),
                size(ELEMENT * rows * self.masked()),
                match self.passed_on() {
                    _ if several && !leads => ", which pass by the leader to all others".to_string(),
                    0 => String::new(),
                    more => format!(
                        "; to each of the {} others, with those of all but itself: {} in all",
                        self.others.len(),
                        size(ELEMENT * rows * (self.masked() + more)),
                    ),
                }
            ),
            Declaration::CrossProducts => {
                let opened = self.opened();
                let tables = opened.iter().map(|table| format!("{} ({})", table.what, size_in_words(table)));
                let mut tables: Vec<String> = tables.collect();
                // What opens to several parties is the same to each.
                tables.dedup();
                let beside = format!("{}, beside {} unknown values", tables.join(", "), self.opening().unknowns());
                beside + &self.where_columns_depend().unwrap_or_default()
            }
            Declaration::Summary => "a few numbers".to_string(),
            Declaration::MissingRows if several && leads => format!("{rows} bits to each"),
            Declaration::MissingRows => format!("{rows} bits"),
            Declaration::Membership => membership(self.study.leader().is_some(), leads).0.to_string(),
            Declaration::Coefficients if several && leads => {
                format!("{} rows of the coefficient table, of all parties", alice + bob)
            }
            Declaration::Coefficients => format!("{own} rows of the coefficient table"),
            // None of these is declared by a sealed study.
            Declaration::PartialPrediction
            | Declaration::Outcome
            | Declaration::Weights
            | Declaration::Offset
            | Declaration::Basis
            | Declaration::ProjectionTable
            | Declaration::Covariance
            | Declaration::Prediction
            | Declaration::BatchEstimate
            | Declaration::BatchGram
            | Declaration::GradientSum
            | Declaration::FeatureStatistics
            | Declaration::FeatureSolution
            | Declaration::RecordUpdate
            | Declaration::MatchCounts
            | Declaration::SameRecords
            | Declaration::Undeclarable => String::new(),
        };
        let reveals = Reveals::of(self.study, self.role, false).declared(declaration);
        Leaving { what: declaration.name(), amount, reveals }
    }

    /// What opens only where columns depend on those of another party, of which this one learns in the run; with a penalty none is set aside.
    fn where_columns_depend(&self) -> Option<String> {
        if self.lambdas().is_some() {
            return None;
        }
        let numbers = |columns: u64| columns.saturating_mul(columns);
        let (peer, own) = (self.study.first(), numbers(self.bob));
        Some(match (self.study.is_of_several(), self.leads) {
            (false, true) => format!(
                "; where columns of {} depend on those here, what these leave of them too: {own} numbers",
                self.study.peer(self.role)
            ),
            (false, false) => {
                format!("; where columns here depend on those of {peer}, which of them stay too: at most {own} numbers")
            }
            (true, true) => format!(
                "; where columns of another party depend on those of the parties before it, what these leave of them too: at most {} numbers",
                self.others.iter().copied().map(numbers).fold(0, u64::saturating_add)
            ),
            (true, false) => format!(
                "; where columns here depend on those of the parties before, which of them stay too: at most {own} numbers"
            ),
        })
    }

    fn policy(&self) -> Vec<String> {
        let limits = self.config.policy.limits();
        let Limits { entropy_bits, level_rows, rows_per_column, opened_share } = limits;
        let columns = self.alice + self.bob;
        let about = self.sizes.about_column(self.role);
        let several = self.study.is_of_several();
        let mut lines = vec![
            format!("sealed mode rests on {}", Rests::of(several).on()),
            format!(
                "at least {rows_per_column} rows for each column of all parties: {} are needed here",
                columns * rows_per_column
            ),
            format!("at least {level_rows} rows with the rarer value of a two-valued column"),
            format!(
                "of a column that has one value in more than half of the rows at least {} rows with others: {} numbers open of a column",
                limits.differing(about),
                about.all
            ),
            format!(
                "at least {entropy_bits} bits of entropy in a column of few different values for each of the {} products that open of it: {} \
                 are needed here",
                about.products,
                entropy_bits * about.products as f64
            ),
            format!(
                "at most {} % of the unknown values may open as numbers, over all runs: {} of {} here; {}",
                100.0 * opened_share,
                self.sizes.at_least(self.role),
                self.opening().unknowns(),
                openings::sentence(self.before)
                    .unwrap_or_else(|| "no number of this data set is open from other runs".to_string()),
            ),
        ];
        if self.sizes.opens_factor(self.role) {
            lines.push(
                "`sealed.refit` is true: factor, means and scales open with the table, and whoever has it fits sub-models without asking again"
                    .to_string(),
            );
        }
        if let Some(range) = self.study.guarantee.range() {
            lines.push(format!(
                "the study fixes the range: this party's part of the linear predictor is cut at {range}, either way, that number stands in \
                 every message in place of its own, and the report here says first whether anything was cut"
            ));
        }
        if !self.one_table() {
            lines.push(format!(
                "with these numbers at most {} may open; each sends {} to {}, as the kernel of the means has {FEW_TERMS} to {MANY_TERMS} \
                 products of a row (poisson: one)",
                match self.gradients() {
                    1 => "1 gradient".to_string(),
                    gradients => format!("{gradients} gradients"),
                },
                size(self.sizes.gradient_bytes(FEW_TERMS)),
                size(self.sizes.gradient_bytes(MANY_TERMS)),
            ));
            lines.extend(self.path());
        }
        if self.study.head.rows.missing == Missing::CompleteCases {
            let others = if several { "the others" } else { "the other party" };
            lines.push(format!(
                "which rows take part is settled with {others}: two-valued columns and the number of rows are checked then"
            ));
        }
        if let Some(least) = self.config.policy.min_rows {
            lines.push(format!("at least {least} rows must take part"));
        }
        lines
    }
}
