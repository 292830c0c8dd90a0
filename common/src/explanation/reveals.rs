//! What can be learnt from each kind of value that leaves a party: `check` says it beside how much of it there is.

use crate::glm::Family;
use crate::id::Role;
use crate::privacy::release::Declaration;
use crate::study::{HeldColumn, Study, Vertical, VerticalGuarantee};

use super::listed;

/// A party of a study, and what its values are looked at for.
#[derive(Debug, Clone, Copy)]
pub struct Reveals<'a> {
    study: &'a Study<Vertical>,
    role: Role,
    /// Whether messages of the fit have one value a basis column in place of one a row.
    tables: bool,
}

impl<'a> Reveals<'a> {
    /// Of a party; `tables` says whether the fits exchange a few numbers in place of a value a row.
    pub fn of(study: &'a Study<Vertical>, role: Role, tables: bool) -> Reveals<'a> {
        Reveals { study, role, tables }
    }

    /// Whether this is the party that all others of several dial.
    fn leads_several(&self) -> bool {
        self.study.leader_of_several() == Some(self.role)
    }

    /// What can be learnt from a kind of value; nothing of kinds that no study between parties declares.
    pub fn declared(&self, declaration: Declaration) -> &'static str {
        match declaration {
            Declaration::PartialPrediction if self.tables => {
                "combinations of the columns, beside the basis nothing new"
            }
            Declaration::PartialPrediction if self.leads_several() => {
                "after as many rounds as there are columns, the span of sums of the others' columns"
            }
            Declaration::PartialPrediction => {
                "after as many rounds as there are columns, their span; columns of zeros and ones outright"
            }
            Declaration::Summary => match self.study.guarantee {
                VerticalGuarantee::Plain => "gradients, changes, penalty, the fit's statistics",
                VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) => "the fit's statistics",
            },
            Declaration::Outcome => "the outcome of every row",
            Declaration::Weights => "the weight of every row",
            Declaration::Offset => "the offset of every row",
            Declaration::Basis if self.study.has_errors_first() => {
                "the span of the columns, in full, after the first round: also where the fit then fails"
            }
            Declaration::Basis => "the span of the columns, in full",
            Declaration::ProjectionTable => self.projection_table(),
            Declaration::MissingRows if self.leads_several() => "which rows have a missing value at any other party",
            Declaration::MissingRows => "which rows have a missing value here",
            Declaration::Membership => {
                membership(self.study.leader().is_some(), self.study.leader() == Some(self.role)).1
            }
            Declaration::Coefficients
                if self.study.method.penalty.is_some() || !self.study.method.inference.allowed =>
            {
                "the estimates"
            }
            Declaration::Coefficients => "the estimates with their standard errors",
            Declaration::Prediction => {
                "this party's part of each score, and which rows have none because a value is missing here"
            }
            Declaration::Masked => "nothing: each element is uniform for a party that does not hold its mask",
            Declaration::CrossProducts => self.cross_products(),
            Declaration::Covariance => {
                "with the basis, or after as many rounds as there are columns, every single column: it counts as shown in full"
            }
            Declaration::Undeclarable => "nothing: it never leaves",
            // Of a match, which says itself what it tells, and of studies between many sites.
            Declaration::MatchCounts
            | Declaration::SameRecords
            | Declaration::BatchEstimate
            | Declaration::BatchGram
            | Declaration::GradientSum
            | Declaration::FeatureStatistics
            | Declaration::FeatureSolution
            | Declaration::RecordUpdate => "",
        }
    }

    /// What can be learnt from a projection table, and from the second one that errors from residuals need.
    fn projection_table(&self) -> &'static str {
        let of_residuals = !self.study.method.inference.errors.is_model();
        match (self.leads_several(), self.study.has_errors_first(), of_residuals) {
            (true, _, false) => "how the columns of a party relate to those of all others together",
            (true, _, true) => {
                "how the columns of a party relate to those of all others together; and for errors from residuals a table of squared residuals \
                 times products of columns, in coordinates of its basis"
            }
            (false, true, false) => {
                "how the columns relate to the other party's, after the first round: also where the fit then fails"
            }
            (false, true, true) => {
                "how the columns relate to the other party's, and for errors from residuals a table of squared residuals times products of \
                 columns, in coordinates of the basis, after the first round: also where the fit then fails"
            }
            (false, false, false) => "how the columns relate to the other party's",
            (false, false, true) => {
                "how the columns relate to the other party's; and for errors from residuals a table of squared residuals times products of \
                 columns, in coordinates of the basis"
            }
        }
    }

    /// The column that leaves whole as a kind of value; none of other kinds.
    fn whole(&self, declaration: Declaration) -> Option<&'a HeldColumn> {
        let method = &self.study.method;
        let columns = [
            (Declaration::Outcome, Some(&method.outcome)),
            (Declaration::Weights, method.weights.as_ref()),
            (Declaration::Offset, method.offset.as_ref()),
        ];
        columns.into_iter().find(|(kind, _)| *kind == declaration)?.1
    }

    /// Those who are told something by a kind of value: all who are sent it but whoever holds the column itself. The leader sends a column that
    /// it was sent to everybody, its holder among them.
    pub fn told(&self, declaration: Declaration) -> Vec<Role> {
        let column = self.whole(declaration);
        let holds = |peer: &Role| column.is_some_and(|column| self.study.has(*peer, column));
        self.study.peers(self.role).into_iter().filter(|peer| !holds(peer)).collect()
    }

    /// Of several parties, who gets a column that leaves whole, in words; none of two parties and of other kinds of values.
    pub fn receivers(&self, declaration: Declaration) -> Option<String> {
        let leader = self.study.leader_of_several()?;
        self.whole(declaration)?;
        if leader == self.role {
            let told = self.told(declaration);
            let names: Vec<String> = told.iter().map(Role::to_string).collect();
            let all = names.len() == self.study.peers(self.role).len();
            return Some(if all { "each of the others".to_string() } else { listed(&names) });
        }
        // What the leader was sent it holds as if it were its own.
        let goes_on = self.study.disclosures(leader).allows(declaration);
        Some(match goes_on {
            true => format!("{leader}, who sends it on to all others"),
            false => format!("{leader}, whose partial predictions to all others contain it"),
        })
    }

    /// What can be learnt from the tables that open.
    pub fn cross_products(&self) -> &'static str {
        let to_all = self.study.guarantee.opens_to_both();
        let leads = self.study.is_first(self.role);
        // A factor of this party's columns opens where it is for sub-models and somebody else holds the table.
        let with_factor = self.study.guarantee.opens_factors() && (to_all || !leads);
        match (self.study.is_of_several(), leads) {
            (true, _) if with_factor => {
                "how the columns relate to each other, to those of every other party and to the outcome, and their means and standard deviations: \
                 every sub-model; the report has R squared of each on all of them"
            }
            (true, _) if to_all => {
                "to each of the others, how the columns relate to those of every other party and to the outcome; the report has R squared of \
                 each on all of them"
            }
            (true, true) => {
                "to each of the others, how well all columns but its own together explain its own, and how its own relate to the column means of \
                 this party and of those before it and, where it holds the outcome, to the rest of the linear predictor"
            }
            (true, false) => {
                "to the leader, how the columns relate to those of every other party and to the outcome; to the others, what is in how well all \
                 columns but their own together explain their own; the report has R squared of each on all of them"
            }
            (false, true) if with_factor => {
                "how the columns relate to each other, to the other party's and to the outcome, and their means and standard deviations: every \
                 sub-model; the report has R squared of each on what the other party holds"
            }
            (false, false) if with_factor => {
                "how the columns relate to each other, to the other party's and to the outcome, and their means and standard deviations: every \
                 sub-model; the report has R squared of each on what the other party holds"
            }
            (false, true) if to_all => match self.study.method.family {
                Family::Gaussian => {
                    "how the columns relate to the other party's and, where that holds it, to the outcome; the report has R squared of each"
                }
                Family::Binomial | Family::Poisson => {
                    "how the columns relate to the other party's and, where that holds it, to the outcome, as they are and weighted by the fit; \
                     R squared of each in the report counts them as they are and is no upper bound"
                }
            },
            (false, true) => self.of_first(),
            (false, false) => match self.study.method.family {
                Family::Gaussian => {
                    "how the columns relate to the other party's and to the outcome; the report has R squared of each"
                }
                Family::Binomial | Family::Poisson => {
                    "how the columns relate to the other party's and to the outcome, as they are and weighted by the fit; R squared of each in \
                     the report counts them as they are and is no upper bound"
                }
            },
        }
    }

    /// What the second of two parties learns of the first one's columns from its part of the solution, where the table does not open to it.
    fn of_first(&self) -> &'static str {
        match self.study.method.outcome.held_by.is_shared() {
            true => {
                "how well the columns together explain the other party's, and how those relate to the column means here and to this party's \
                 part of the linear predictor: where all coefficients are shown, also to a single column whose term is most of that part; with \
                 one column here, how each of the other party's relates to it"
            }
            false => {
                "how well the columns together explain the other party's, and how those relate to the column means here and to what the columns \
                 here leave of the outcome; with one column here, how each of the other party's relates to it"
            }
        }
    }

    /// What can be learnt from an outcome that is not sent by itself, and yet leaves in partial predictions; none where it does not.
    pub fn outcome_within_predictions(&self) -> Option<&'static str> {
        match self.study.guarantee {
            VerticalGuarantee::Plain => {}
            VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) => return None,
        }
        let alone = self.study.method.outcome.held_by.is_alone();
        let within = self.study.is_first(self.role) && alone && !self.study.sends_outcome();
        let within = within && !self.told(Declaration::Outcome).is_empty();
        within.then_some(
            "with the first one the outcome up to the fit's own error; with one more than there are columns every value",
        )
    }
}

/// What a match has let leave before the run, and what that tells; among several parties by whether this one leads them.
pub fn membership(several: bool, leads: bool) -> (&'static str, &'static str) {
    match (several, leads) {
        (false, _) => (
            "to the other, which of its rows this party has too, and how many rows this party searched, when `match` was run",
            "that the persons of the matched rows are in both tables",
        ),
        (true, true) => (
            "to each of the others, which of its rows all parties have, and how many match, when `match` was run",
            "that the persons of these rows are in all tables",
        ),
        (true, false) => (
            "to the leader, when `match` was run: which of its rows this party has too, how many rows took part, and of several \
             passes which entries are one row",
            "that these persons are in this table, also those that are not in all",
        ),
    }
}

/// A kind of value that leaves a party of a private study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoisedKind {
    /// A value a row and round, with noise on each.
    Predictions,
    /// Coefficients, from noised values.
    Coefficients,
    /// Columns behind masks.
    Masked,
    /// Factors of the means of a binomial model behind masks.
    MaskedFactors,
    /// Sums over own columns.
    Statistics,
    /// The share of one table.
    Share,
    /// Shares of several tables or gradients.
    Shares,
}

impl NoisedKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            NoisedKind::Predictions => "noised partial predictions",
            NoisedKind::Coefficients => "noised coefficients",
            NoisedKind::Masked => "masked columns",
            NoisedKind::MaskedFactors => "masked factors of means",
            NoisedKind::Statistics => "noised statistics",
            NoisedKind::Share => "a noised share",
            NoisedKind::Shares => "noised shares",
        }
    }

    /// What can be learnt from it, of two parties or of several.
    pub fn reveals(self, several: bool) -> &'static str {
        match (self, several) {
            (NoisedKind::Predictions, _) | (NoisedKind::Statistics, false) => {
                "what the budget permits, whatever the other does with them"
            }
            (NoisedKind::Statistics, true) => "what the budget permits, whatever the others do with them",
            (NoisedKind::Coefficients, _) => "nothing more: they are computed from noised values alone",
            (NoisedKind::Masked | NoisedKind::MaskedFactors, false) => {
                "nothing to the other, as long as the dealer gives the masks to nobody else"
            }
            (NoisedKind::Masked | NoisedKind::MaskedFactors, true) => {
                "nothing to the others, as long as the dealer gives the masks to nobody else"
            }
            (NoisedKind::Share | NoisedKind::Shares, false) => {
                "what the budget permits: what opens has the noise of both parties"
            }
            (NoisedKind::Share | NoisedKind::Shares, true) => {
                "what the budget permits: what opens has the noise of this party and of the other one"
            }
        }
    }
}
