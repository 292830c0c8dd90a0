//! What a run has to say of a function by random features.

use crate::methods::robust::report::with_consensus;
use crate::report::Report;
use crate::report::layout::Layout;
use crate::report::number::visible;
use crate::report::sites::Parts;

/// The report of a run.
pub fn layout(report: &Report) -> Layout<'_> {
    let title = format!("Random features of {}", visible(&report.outcome));
    with_consensus(report, Parts::once(report, title, "worker's release")).layout(report)
}
