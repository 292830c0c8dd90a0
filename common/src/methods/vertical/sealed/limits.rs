//! What a sealed fit opens, in numbers, and what a party checks before a column leaves.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::kept::{alice_numbers, placed_numbers};
use super::penalised::{self, factor_numbers, path_numbers};
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::prepare::{Encoded, Prepared};
use crate::privacy::ledger::{Before, Fewest};
use crate::privacy::openings::{NotOpened, Opens};
use crate::secure::budget;
use crate::secure::kernel::CLASSES;
use crate::secure::open::{Limits, Numbers, Refusal as Limit, Rows, effective_rows, rarer_value};
use crate::secure::optimiser::MOST_EVALUATIONS;
use crate::secure::product::{RowShape, Shape, Side, VectorShape};
use crate::secure::ring::Width;
use crate::session::Abort;
use crate::study::{HeldBy, Study, Vertical};

/// Gradients of a binomial or poisson fit for which a party must have room at each lambda: a path of 100 lambdas takes about 3 at each,
/// one of 50 up to 4 as a rule. Fits that take more end where the limits are reached.
const GRADIENTS_A_LAMBDA: u64 = 4;

/// Gradients of a binomial or poisson fit without a penalty as a rule; few take more.
const GRADIENTS_A_FIT: u64 = 10;

/// Sizes of a fit that both parties know.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub(super) family: Family,
    pub(super) rows: usize,
    pub(super) alice: usize,
    pub(super) bob: usize,
    /// Folds of cross-validation, each of which has a table; 0 without.
    pub(super) folds: usize,
    /// How many lambdas a fit with a penalty has.
    pub(super) lambdas: Option<usize>,
    /// Whether the weighted table of a binomial or poisson fit opens at the end.
    pub(super) inference: bool,
    /// Whether the model has an intercept.
    pub(super) intercept: bool,
    /// Whether rows have case weights.
    pub(super) weighted: bool,
    /// At which both parties cut their parts of the linear predictor, where the study says so.
    pub(super) range: Option<f64>,
    /// Whether what opens to Alice opens to Bob too, or the tables to all of several parties.
    pub(super) both: bool,
    /// Whether factors open for sub-models.
    pub(super) refit: bool,
    /// Alice, or the leader of several: to them all others together are Bob.
    leader: Role,
    /// Of several parties, numbers that leave this one beside the tables.
    beside: Option<u64>,
}

impl Sizes {
    /// Of a study, with these rows and columns of both parties, without intercept and outcome.
    pub fn new(study: &Study<Vertical>, rows: usize, alice: usize, bob: usize) -> Sizes {
        let method = &study.method;
        let folds = method.penalty.as_ref().and_then(|penalty| penalty.cv).unwrap_or(0) as usize;
        Sizes {
            family: method.family,
            rows,
            alice,
            bob,
            folds,
            lambdas: method.penalty.as_ref().map(penalised::count),
            inference: method.inference.allowed && method.penalty.is_none(),
            intercept: method.intercept,
            weighted: method.weights.is_some(),
            range: study.guarantee.range(),
            both: study.guarantee.opens_to_both(),
            refit: study.guarantee.opens_factors(),
            leader: study.first(),
            beside: None,
        }
    }

    /// The same at one of several parties, beside the columns of each of the others. The leader answers each of these, and where the tables
    /// open to all they need one number more. Another party tells it two parts of the intercept and, unless it is the last, where its
    /// means are. A number that opens to several of them counts once: each learns the same.
    pub fn of_several(self, study: &Study<Vertical>, role: Role, others: &[usize]) -> Sizes {
        if !study.is_of_several() {
            return self;
        }
        let answer = |columns: usize| (columns as u64).saturating_mul(columns as u64 + 2).saturating_add(3);
        let beside = match self.leads(role) {
            true => others.iter().map(|columns| answer(*columns)).fold(u64::from(self.both), u64::saturating_add),
            false if self.intercept && study.parties_in_order().last() != Some(&role) => 2 + self.bob as u64,
            false => 2,
        };
        let beside = beside.saturating_add(self.for_refits(role));
        Sizes { beside: Some(beside), ..self }
    }

    fn leads(&self, role: Role) -> bool {
        role == self.leader
    }

    /// Folds of cross-validation; 0 without.
    pub fn folds(&self) -> u64 {
        self.folds as u64
    }

    /// Whether standard errors follow.
    pub fn inference(&self) -> bool {
        self.inference
    }

    /// Numbers of the table, or of the tables of all folds.
    pub fn table(&self) -> u64 {
        let one = (self.alice as u64).saturating_add(1).saturating_mul(self.bob as u64);
        one.saturating_mul(self.folds.max(1) as u64)
    }

    /// Bytes of elements that each party sends for a gradient whose kernel has this many products of a row (poisson: one): factors behind
    /// their mask with a row of public integers, and a share of the residuals.
    pub fn gradient_bytes(&self, products: u64) -> u64 {
        let terms = if self.family == Family::Poisson { 1 } else { products as usize };
        let (width, bits, rows) = (Width::Two, 0, self.rows);
        let factors = RowShape { width, bits, rows, terms, corrected: Side::Right };
        let residuals = VectorShape { width, bits, rows, left: self.alice, right: self.bob };
        factors.bytes().saturating_add(residuals.bytes())
    }

    /// Numbers of a gradient.
    pub fn gradient(&self) -> u64 {
        u64::from(self.intercept).saturating_add(self.alice as u64).saturating_add(self.bob as u64)
    }

    /// Numbers of the weighted table that opens at the end.
    pub fn weighted(&self) -> u64 {
        let all = self.gradient();
        if self.inference { all.saturating_mul(all.saturating_add(1)) / 2 } else { 0 }
    }

    /// Sums over the rows that open at the end for the likelihood. Of a binomial fit the losses; of a poisson fit without an intercept
    /// the residuals, which are part of the gradient otherwise. No sum opens over what rounding to whole trials adds, as R's likelihood
    /// has it: where few rows have weights that are no whole numbers, it would be a sum over these rows.
    pub fn losses(&self) -> u64 {
        match (self.family, self.intercept) {
            (Family::Binomial, _) | (Family::Poisson, false) => 1,
            (Family::Gaussian, _) | (Family::Poisson, true) => 0,
        }
    }

    /// The same with their name in reports; none where nothing of the kind opens.
    pub fn losses_opened(&self) -> Option<(&'static str, u64)> {
        let what = match self.family {
            Family::Gaussian | Family::Binomial => "the sum of the losses",
            Family::Poisson => "the sum of the residuals",
        };
        Some((what, self.losses())).filter(|(_, numbers)| *numbers > 0)
    }

    /// Numbers with which Bob completes the likelihood where he has the outcome too.
    pub fn along(&self) -> u64 {
        match self.family {
            Family::Gaussian => 0,
            Family::Binomial | Family::Poisson => 1,
        }
    }

    /// Numbers that leave a party before the first gradient of a binomial or poisson fit.
    pub fn before_gradients(&self, role: Role) -> u64 {
        let factor = self.lambdas.map_or(0, |_| factor_numbers(self.bob, self.folds) as u64);
        if self.leads(role) { self.table_of(role) } else { self.table().saturating_add(factor) }
    }

    /// Gradients of a binomial or poisson fit for which a party must have room before a column leaves.
    fn fewest_gradients(&self) -> u64 {
        self.lambdas.map_or(1, |lambdas| GRADIENTS_A_LAMBDA.saturating_mul(lambdas as u64))
    }

    /// The most gradients of a binomial or poisson fit.
    pub fn most_gradients(&self) -> u64 {
        u64::from(MOST_EVALUATIONS).saturating_mul(self.lambdas.unwrap_or(1) as u64)
    }

    /// How many lambdas a fit like this may have where earlier runs let `before` numbers open and `most` may be open in all, and how many
    /// gradients of a binomial or poisson fit that allows at each.
    pub fn lambdas_within(&self, role: Role, before: u64, most: u64) -> (u64, u64) {
        let fits =
            |lambdas: usize| before.saturating_add(Sizes { lambdas: Some(lambdas), ..*self }.at_least(role)) <= most;
        let (mut below, mut above) = (0, LONGEST_PATH + 1);
        while above - below > 1 {
            let middle = (below + above) / 2;
            if fits(middle) { below = middle } else { above = middle }
        }
        (below as u64, GRADIENTS_A_LAMBDA)
    }

    /// Numbers that leave a party after the table of a binomial or poisson fit of this number of gradients, and after the factor of one with
    /// a penalty.
    pub fn leaving(&self, role: Role, gradients: u64) -> u64 {
        let bob = self.bob as u64;
        let square = bob.saturating_mul(bob);
        match self.leads(role) {
            true => {
                // A point with its range and kernel; Bob's part of the solution, and what is held of his columns.
                let points = gradients.saturating_mul(bob.saturating_add(3)).saturating_add(self.told(gradients));
                if let Some(lambdas) = self.lambdas {
                    return points.saturating_add(path_numbers(lambdas, self.bob) as u64);
                }
                let covariance = if self.inference { square.saturating_add(bob) } else { 0 };
                points.saturating_add(bob).saturating_add(square).saturating_add(covariance)
            }
            false => {
                let gradients = gradients.saturating_mul(self.gradient().saturating_add(1));
                if let Some(lambdas) = self.lambdas {
                    // A sum and a part of the intercept at each; one more says that no gradient follows.
                    let each = (lambdas as u64).saturating_mul(self.losses() + 1);
                    return gradients.saturating_add(each).saturating_add(1);
                }
                // His parts of the intercept, its variance and the likelihood; one more says that no gradient follows.
                gradients.saturating_add(self.weighted()).saturating_add(self.losses() + self.along() + 3)
            }
        }
    }

    /// Numbers that Alice's shares open to Bob, where everything opens to both.
    fn told(&self, gradients: u64) -> u64 {
        if !self.both {
            return 0;
        }
        let at_end = match self.lambdas {
            Some(lambdas) => (lambdas as u64).saturating_mul(self.losses()),
            None => self.weighted().saturating_add(self.losses()),
        };
        gradients.saturating_mul(self.gradient()).saturating_add(at_end)
    }

    /// Numbers of the table that leave a party in its share.
    pub fn table_of(&self, role: Role) -> u64 {
        if self.leads(role) && !self.both { 0 } else { self.table() }
    }

    /// Numbers of a gaussian fit that leave as such, those in the results included: its table leaves beside them.
    pub fn beside_table(&self, role: Role) -> u64 {
        let bob = self.bob as u64;
        if let Some(beside) = self.beside {
            return beside;
        }
        let solution = match (self.leads(role), self.lambdas) {
            (true, None) => bob.saturating_mul(bob.saturating_add(2)).saturating_add(2),
            (true, Some(lambdas)) => {
                let errors = self.folds().saturating_mul(lambdas as u64);
                (path_numbers(lambdas, self.bob) as u64).saturating_add(errors)
            }
            (false, None) => 2,
            (false, Some(lambdas)) => (factor_numbers(self.bob, self.folds) as u64).saturating_add(lambdas as u64),
        };
        solution.saturating_add(self.for_refits(role))
    }

    /// Numbers that open for sub-models, beside the factor that a penalty takes.
    pub fn for_refits(&self, role: Role) -> u64 {
        let numbers = match (self.leads(role), self.lambdas) {
            _ if !self.opens_factor(role) => 0,
            (true, _) => alice_numbers(self.alice),
            (false, None) => factor_numbers(self.bob, 0) + placed_numbers(self.bob),
            (false, Some(_)) => placed_numbers(self.bob),
        };
        numbers as u64
    }

    /// Whether a party's factor opens for sub-models.
    pub fn opens_factor(&self, role: Role) -> bool {
        self.refit && (self.both || !self.leads(role))
    }

    /// Numbers that a fit lets open at least: with one gradient in a binomial or poisson fit, with a penalty with some at each lambda.
    pub fn at_least(&self, role: Role) -> u64 {
        match (self.family, role) {
            (Family::Gaussian, _) => self.table_of(role).saturating_add(self.beside_table(role)),
            (Family::Binomial | Family::Poisson, _) => {
                self.before_gradients(role).saturating_add(self.leaving(role, self.fewest_gradients()))
            }
        }
    }

    /// Numbers that open of one column: with every column of the peer and with the outcome; its sum too with weights, and of Bob's columns
    /// with folds. A binomial or poisson fit opens weighted products with the same columns beside, and its part of each gradient.
    pub fn about_column(&self, role: Role) -> Numbers {
        let (own, other, sums) = match self.leads(role) {
            true => (self.alice, self.bob, self.weighted),
            false => (self.bob, self.alice, self.weighted || self.folds > 0),
        };
        // With a penalty and for sub-models with the own columns too, the column itself among them, and its mean.
        let has_factor = self.opens_factor(role) || self.lambdas.is_some() && !self.leads(role);
        let factor = if has_factor { own as u64 + 1 } else { 0 };
        let products = (other as u64).saturating_add(1).saturating_add(u64::from(sums)).saturating_add(factor);
        let later = match self.family {
            Family::Gaussian => 0,
            Family::Binomial | Family::Poisson => {
                let weighted = if self.inference { other as u64 + 1 } else { 0 };
                self.fewest_gradients().max(GRADIENTS_A_FIT).saturating_add(weighted)
            }
        };
        Numbers { products, all: products.saturating_add(later) }
    }
}

/// Whether a party's table meets its own limits beside these numbers of columns, one of each other party, as far as that party can tell
/// before it meets them. `before` is what earlier runs let open.
///
/// # Errors
/// What may not open. Rows are settled later where the study asks for complete cases: then nothing is refused here.
pub fn allowed(prepared: &Prepared, others: &[usize], before: Before) -> Result<(), Abort> {
    let Ok(encoded) = prepared.encoded() else { return Ok(()) };
    let block = &encoded.block;
    let own = block.columns() - usize::from(block.has_intercept());
    let role = prepared.role();
    let study = prepared.study();
    let peer_columns = others.iter().sum();
    let (alice, bob) = if study.is_first(role) { (own, peer_columns) } else { (peer_columns, own) };
    let sizes = Sizes::new(study, block.rows(), alice, bob).of_several(study, role, others);
    countable(study, encoded)?;
    holds_range(&sizes)?;
    within_limits(study, role, &prepared.policy.limits, &sizes, (encoded, peer_columns), before).map(drop)
}

/// Outcomes for which the likelihood of a family follows from sums alone, and to which there is something to fit: found here, where others
/// are not told what is wrong with it.
pub(super) fn countable(study: &Study<Vertical>, encoded: &Encoded) -> Result<(), Abort> {
    let family = study.method.family;
    let of = |y: f64| match family {
        Family::Gaussian => true,
        // Shares are those of trials, whose numbers the weights are.
        Family::Binomial => y == 0.0 || y == 1.0 || encoded.weights.is_some(),
        Family::Poisson => y <= 1e12,
    };
    let Some(outcome) = &encoded.outcome else { return Ok(()) };
    let refuse = |what: String| Err(Abort::OwnData(what));
    if !outcome.iter().all(|y| of(*y)) {
        return refuse(match family {
            Family::Binomial => {
                "the outcome is not 0 or 1 in every row, which a sealed binomial fit without weights needs".to_string()
            }
            Family::Gaussian | Family::Poisson => "the outcome has counts above 1e12".to_string(),
        });
    }
    let counts = |row: usize| encoded.weights.as_ref().is_none_or(|weights| weights[row] > 0.0);
    let is_always = |value: f64| (0..outcome.len()).filter(|row| counts(*row)).all(|row| outcome[row] == value);
    let ends: &[f64] = match family {
        Family::Gaussian => &[],
        Family::Binomial => &[0.0, 1.0],
        Family::Poisson => &[0.0],
    };
    match ends.iter().find(|value| is_always(**value)) {
        Some(value) => refuse(format!(
            "the outcome `{}` is {value} in every row that counts: there is nothing to fit",
            study.method.outcome.column.escape_debug()
        )),
        None => Ok(()),
    }
}

/// Whether fixed point has digits for the range that the study fixes.
pub(super) fn holds_range(sizes: &Sizes) -> Result<(), Abort> {
    let (Family::Poisson, Some(range)) = (sizes.family, sizes.range) else { return Ok(()) };
    // Both parts together; the outcome is not known to both.
    let holds = |range: f64| budget::poisson(sizes.rows, 2.0 * range, 0.0).is_some();
    if holds(range) {
        return Ok(());
    }
    let most = CLASSES.into_iter().rev().find(|class| holds(*class)).unwrap_or_default();
    Err(Abort::Data(format!(
        "{} rows are too many for a poisson fit with `sealed.range` = {range}: fixed point has digits for {most} at most",
        sizes.rows
    )))
}

/// Refuses what may not open of this table alone; what it and another one must differ by.
pub(super) fn within_limits(
    study: &Study<Vertical>,
    role: Role,
    limits: &Limits,
    sizes: &Sizes,
    (encoded, peer): (&Encoded, usize),
    before: Before,
) -> Result<Fewest, Abort> {
    let block = &encoded.block;
    let own = usize::from(block.has_intercept())..block.columns();
    // Rows of weight zero are in no product.
    let (rows, columns, other) = (used(block.rows(), encoded), own.len() as u64, peer as u64);
    let weights = encoded.weights.as_deref().filter(|_| encoded.unweighted > 0);
    let kept = |column| kept(column, weights);
    let kept_weights: Option<Vec<f64>> =
        encoded.weights.as_ref().map(|weights| weights.iter().copied().filter(|weight| *weight > 0.0).collect());
    let columns_of: Vec<(&str, Cow<'_, [f64]>)> = own
        .map(|j| {
            let name = block.places()[j].and_then(|place| encoded.terms.get(place)).map_or("", String::as_str);
            (name, kept(block.column(j)))
        })
        .chain(outcome_to_others(study, sizes, encoded).map(|(name, outcome)| (name, kept(outcome))))
        .collect();
    let rest = references(encoded, weights);
    let named: Vec<(&str, &[f64])> = columns_of.iter().map(|(name, column)| (*name, &column[..])).collect();
    let named: Vec<(&str, &[f64])> =
        named.into_iter().chain(rest.iter().map(|(name, column)| (name.as_str(), &column[..]))).collect();
    let folds: Option<Vec<u32>> = encoded.folds.as_ref().map(|folds| match weights {
        Some(weights) => {
            folds.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(fold, _)| *fold).collect()
        }
        None => folds.clone(),
    });
    let (both, numbers) = (columns.saturating_add(other), sizes.about_column(role));
    let weights = kept_weights.as_deref();
    limits
        .rows(Rows::All, rows, both)
        .and_then(|()| limits.columns(Rows::All, named.iter().copied(), weights, numbers))
        .and_then(|()| match &folds {
            Some(folds) => limits.folds(folds, sizes.folds as u32, &named, weights, (both, numbers)),
            None => Ok(()),
        })
        .and_then(|()| limits.opened(before.earlier(), sizes.at_least(role), rows, [columns, other]))
        .map_err(|limit| beyond(role, &limit, Some(sizes)))?;
    Ok(Fewest { rows: limits.part(named.iter().copied(), weights, numbers), values: limits.differing(numbers) })
}

/// Of each factor the level that has no column, which is what its indicators leave of 1.
pub(super) fn references(encoded: &Encoded, weights: Option<&[f64]>) -> Vec<(String, Vec<f64>)> {
    let block = &encoded.block;
    let mut factors: BTreeMap<&str, Vec<&[f64]>> = BTreeMap::new();
    for j in usize::from(block.has_intercept())..block.columns() {
        let column = block.column(j);
        if let Some(source) = block.places()[j].and_then(|place| encoded.sources.get(place))
            && rarer_value(column, None).is_some()
        {
            factors.entry(source).or_default().push(column);
        }
    }
    let reference = |(source, columns): (&str, Vec<&[f64]>)| {
        let low: Vec<f64> = columns.iter().map(|column| column.iter().copied().fold(f64::INFINITY, f64::min)).collect();
        let high = |row: usize| columns.iter().zip(&low).filter(|(column, low)| column[row] != **low).count();
        let rows = columns[0].len();
        // Indicators of levels exclude each other.
        let exclude = columns.len() > 1 && (0..rows).all(|row| high(row) < 2);
        let rest = || (0..rows).map(|row| f64::from(u8::from(high(row) == 0))).collect::<Vec<f64>>();
        exclude.then(|| (format!("{source}, its reference level"), kept(&rest(), weights).into_owned()))
    };
    factors.into_iter().filter_map(reference).collect()
}

/// The rows of a column that have a weight.
fn kept<'a>(column: &'a [f64], weights: Option<&[f64]>) -> Cow<'a, [f64]> {
    let Some(weights) = weights else { return Cow::Borrowed(column) };
    Cow::Owned(column.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(value, _)| *value).collect())
}

/// The outcome with its name where one party alone holds it and its products with the others' columns open to them too.
fn outcome_to_others<'a>(
    study: &'a Study<Vertical>,
    sizes: &Sizes,
    encoded: &'a Encoded,
) -> Option<(&'a str, &'a [f64])> {
    let is_alone = match study.method.outcome.held_by {
        HeldBy::One(_) => true,
        HeldBy::Both | HeldBy::All => false,
    };
    let outcome = encoded.outcome.as_deref().filter(|_| is_alone && sizes.both)?;
    Some((&study.method.outcome.column, outcome))
}

/// Rows as the limits count them.
fn used(rows: usize, encoded: &Encoded) -> u64 {
    encoded.weights.as_deref().map_or(rows as u64, effective_rows)
}

/// The longest path for which room is looked for.
const LONGEST_PATH: usize = 1_000_000;

/// A limit that is not kept, with the key that loosens it; of a fit that has not begun, with what would keep it.
fn beyond(role: Role, limit: &Limit, sizes: Option<&Sizes>) -> Abort {
    let remedy = |key: &str, other: &str| format!("{limit}; {other}, or loosen `{key}` in your own policy");
    match limit {
        Limit::Entropy { .. } | Limit::Levels { .. } => {
            Abort::OwnData(remedy("sealed_entropy_bits", "leave the column out"))
        }
        Limit::Rare { .. } => Abort::OwnData(remedy("sealed_level_rows", "leave the column out")),
        Limit::Sparse { .. } => Abort::OwnData(remedy("sealed_level_rows", "leave the column out")),
        Limit::Together(of) => {
            let key = match **of {
                Limit::Entropy { .. } | Limit::Levels { .. } => "sealed_entropy_bits",
                Limit::Rare { .. }
                | Limit::Sparse { .. }
                | Limit::Together(_)
                | Limit::Rows { .. }
                | Limit::Opened { .. } => "sealed_level_rows",
            };
            Abort::OwnData(remedy(key, "leave one of these columns out, join levels"))
        }
        Limit::Rows { .. } => Abort::Data(remedy("sealed_rows_per_column", "leave columns out")),
        // The share is 1 at most.
        Limit::Opened { before, unknowns, .. } if *before > 0 && before >= unknowns => {
            let what = format!(
                "{limit}; no limit leaves room after that: let a sealed run of this data set come before others, or, where the earlier \
                 ones were rehearsals, give it a state folder and an anchor of its own (`--state`, `privacy.anchor`)"
            );
            Abort::Spent { who: role, what }
        }
        Limit::Opened { before, most, .. } if *before > 0 && before >= most => {
            let what =
                format!("{limit}; the earlier runs have used that up: loosen `sealed_opened_share` in your own policy");
            Abort::Spent { who: role, what }
        }
        Limit::Opened { before, most, .. } => {
            let path = sizes.and_then(|sizes| Some((sizes, sizes.lambdas.filter(|lambdas| *lambdas > 1)?)));
            let shorter = path.map(|(sizes, lambdas)| {
                let (fit, _) = sizes.lambdas_within(role, *before, *most);
                format!("{fit} of the {lambdas} lambdas fit here, and fewer may at the other party: shorten the path, leave columns out")
            });
            let other = shorter.as_deref().unwrap_or("leave columns out");
            let what = remedy("sealed_opened_share", other);
            if *before > 0 { Abort::Spent { who: role, what } } else { Abort::Policy { who: role, what } }
        }
    }
}

/// `sizes` are those of a fit that has not begun.
pub(super) fn not_opened(role: Role, why: NotOpened, sizes: Option<&Sizes>) -> Abort {
    match why {
        NotOpened::Limit(limit) => beyond(role, &limit, sizes),
        NotOpened::Ledger(error) => Abort::Ledger(error),
    }
}

/// What the account is asked.
pub(super) fn opens<'a>(
    numbers: u64,
    rows: usize,
    shape: &Shape,
    encoded: &'a Encoded,
    (limits, apart): (&'a Limits, Fewest),
) -> Opens<'a> {
    Opens {
        numbers,
        rows: used(rows, encoded),
        columns: [shape.left - 1, shape.right].map(|columns| columns as u64),
        dropped: encoded.complete.as_ref().map(|complete| &complete.dropped),
        weights: encoded.weights.as_deref(),
        folds: encoded.folds.as_deref(),
        limits,
        apart,
    }
}

/// The shape of the table, with the outcome behind Alice's columns; `own` and `peer` columns are without intercept and outcome. Of several
/// parties the leader is Alice, and all others of a party together are the other one.
pub(super) fn shape_of(
    study: &Study<Vertical>,
    role: Role,
    rows: usize,
    [own, peer]: [usize; 2],
) -> Result<Shape, Abort> {
    let leads = study.is_first(role);
    let (alice, bob) = if leads { (own, peer) } else { (peer, own) };
    let others = if study.is_of_several() { "the others".to_string() } else { study.peer(role).to_string() };
    for (who, columns) in [(role.to_string(), own), (others, peer)] {
        if columns == 0 {
            let of = if study.is_of_several() { "all parties" } else { "both" };
            return Err(Abort::Data(format!("{who} has no column in the model: a sealed fit needs columns of {of}")));
        }
    }
    let family = study.method.family;
    let bits = match family {
        Family::Gaussian => budget::gaussian(rows),
        Family::Binomial => budget::binomial(rows).map(|bits| bits.columns),
        Family::Poisson => budget::gaussian(rows).map(|_| budget::POISSON_COLUMNS),
    };
    let bits = bits.ok_or_else(|| {
        Abort::Data(format!("{rows} rows are more than the {} that a sealed fit has digits for", budget::MOST_ROWS))
    })?;
    Ok(Shape { width: Width::Two, bits, rows, left: alice + 1, right: bob })
}
