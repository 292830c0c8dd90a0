//! The plan of the mechanism that a study names.

use super::{Coefficients, CrossPlan, Design, LogisticPlan, Outcomes, Plan, Prediction, Side, logistic};
use crate::privacy::mechanism::ReleasePlan;

/// Every release of both parties, by the mechanism that makes them.
#[derive(Debug, Clone, PartialEq)]
pub enum PrivatePlan {
    /// Noised partial predictions to and fro.
    Residual(Plan),
    /// One table that opens with the noise of both.
    Crossprod(CrossPlan),
    /// The same of a binomial or poisson model, whose gradients open in the same way.
    Logistic(LogisticPlan),
}

impl PrivatePlan {
    /// What one party releases, by its place in the order of the parties, and what it is charged.
    pub fn releases(&self, place: impl Into<usize>) -> &ReleasePlan {
        let place = place.into();
        match self {
            PrivatePlan::Residual(plan) => &plan.side(Side::at(place)).releases,
            PrivatePlan::Crossprod(plan) => &plan.side(place).releases,
            PrivatePlan::Logistic(plan) => &plan.side(Side::at(place)).releases,
        }
    }

    /// Entries of a party's rows.
    pub fn width(&self, place: impl Into<usize>) -> usize {
        let place = place.into();
        match self {
            PrivatePlan::Residual(plan) => plan.side(Side::at(place)).width,
            PrivatePlan::Crossprod(plan) => plan.side(place).width,
            PrivatePlan::Logistic(plan) => plan.side(Side::at(place)).width,
        }
    }

    /// Every release of a party in its order: what it is, the standard deviation of its noise, and whether it is sent.
    pub fn lines(&self, place: impl Into<usize>) -> Vec<(String, f64, bool)> {
        let place = place.into();
        match self {
            PrivatePlan::Residual(plan) => {
                plan.side(Side::at(place)).lines().map(|(label, sigma, sent)| (label.to_owned(), sigma, sent)).collect()
            }
            PrivatePlan::Crossprod(plan) => {
                plan.side(place).lines().map(|(label, sigma)| (label.to_owned(), sigma, true)).collect()
            }
            PrivatePlan::Logistic(plan) => {
                let side = Side::at(place);
                let lines = plan.side(side).lines(plan, side);
                lines.map(|(label, sigma)| (label.to_owned(), sigma, true)).collect()
            }
        }
    }

    /// What error to expect, from public facts and a declared design; no data are involved.
    pub fn predict(&self, design: &Design) -> Prediction {
        match self {
            PrivatePlan::Residual(plan) => plan.predict(design),
            PrivatePlan::Crossprod(plan) => plan.predict(design),
            PrivatePlan::Logistic(plan) => plan.predict(design),
        }
    }

    /// How many times something opens to both: the length of a run.
    pub fn exchanges(&self) -> u32 {
        match self {
            PrivatePlan::Residual(plan) => plan.setup().rounds,
            PrivatePlan::Crossprod(_) => 1,
            PrivatePlan::Logistic(plan) => 1 + plan.gradients().len() as u32,
        }
    }

    /// The coefficients that errors are predicted for where none are declared.
    pub fn neutral(&self) -> Coefficients {
        match self {
            PrivatePlan::Residual(_) | PrivatePlan::Crossprod(_) => Coefficients::default(),
            PrivatePlan::Logistic(plan) => Coefficients::Signal(match plan.setup().outcomes {
                Outcomes::Events => logistic::SIGNAL,
                Outcomes::Counts => logistic::SIGNAL_OF_COUNTS,
            }),
        }
    }

    /// The plan of the mechanism `residual`, if that is the one.
    pub fn residual(&self) -> Option<&Plan> {
        match self {
            PrivatePlan::Residual(plan) => Some(plan),
            PrivatePlan::Crossprod(_) | PrivatePlan::Logistic(_) => None,
        }
    }

    /// The plan of the mechanism `crossprod`, if that is the one.
    pub fn crossprod(&self) -> Option<&CrossPlan> {
        match self {
            PrivatePlan::Residual(_) | PrivatePlan::Logistic(_) => None,
            PrivatePlan::Crossprod(plan) => Some(plan),
        }
    }
}
