//! What a run has to say of a function that followed a stream.

use crate::report::Report;
use crate::report::layout::Layout;
use crate::report::number::visible;
use crate::report::sites::Parts;

/// The report of a run.
pub fn layout(report: &Report) -> Layout<'_> {
    let title = format!("Streaming regression of {}", visible(&report.outcome));
    Parts::once(report, title, "record that came").layout(report)
}
