//! Scores of new rows of several parties, at the leader: every follower sends its part of the linear predictor.

use std::sync::Arc;

use crate::conversation::{Opening, Purpose};
use crate::id::Role;
use crate::session::Abort;

use super::super::message::Body;
use super::super::predict::{NewRows, Scores};
use super::super::session::Progress;
use super::{Advance, Centre, Hub, Lines};

/// A prediction, as its leader sees it.
pub struct PredictCentre {
    role: Role,
    rows: NewRows,
    agreed: bool,
}

impl Hub<PredictCentre> {
    /// Scores of new rows with all other parties of the study.
    pub fn predict(rows: NewRows, opening: &Opening) -> Hub<PredictCentre> {
        let (role, study) = (rows.role(), Arc::clone(rows.study()));
        Hub::open(&study, role, opening, PredictCentre { role, rows, agreed: false })
    }
}

impl Centre for PredictCentre {
    type Output = Option<Scores>;

    fn purpose(&self) -> Purpose {
        Purpose::Predict
    }

    fn progress(&self) -> Progress {
        Progress::lining_up()
    }

    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<Option<Scores>>, Abort> {
        let Some(bodies) = lines.heard() else { return Ok(Advance::Waits) };
        if !self.agreed {
            lines.agree_on_rows(self.role, &self.rows, bodies)?;
            self.agreed = true;
            lines.await_all("predictions of new rows");
            return Ok(Advance::Taken);
        }
        let mut sum = vec![0.0; self.rows.rows() as usize];
        for (line, body) in lines.0.iter_mut().zip(bodies) {
            let Body::Prediction(values) = body else {
                return Err(line.said_instead(&body, "predictions of new rows"));
            };
            self.rows.check_theirs(&values).map_err(|fault| line.broke(fault))?;
            sum.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
            line.leg().end();
        }
        Ok(Advance::Over(Some(self.rows.scores(sum))))
    }
}
