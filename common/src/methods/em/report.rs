//! What expectation maximisation has to say of a run: how the coefficients came to rest.

use crate::report::Report;
use crate::report::layout::Layout;
use crate::report::number::visible;
use crate::report::sites::{Parts, course};

/// The report of a run.
pub fn layout(report: &Report) -> Layout<'_> {
    let title = match visible(&report.outcome) {
        outcome if outcome.is_empty() => "Mixture of two groups".to_string(),
        outcome => format!("Expectation maximisation of {outcome}"),
    };
    let sections = course(report).into_iter().collect();
    Parts { sections, ..Parts::new(title, report.termination.to_string()) }.layout(report)
}
