//! The caution of a private run, which stands before the numbers in every form of its report.

use maud::{Markup, html};

use super::Report;
use super::number::visible;
use super::table::list;
use crate::fit::Coefficient;
pub use crate::privacy::caution::{Caution, MAYBE_NOISE, MOSTLY_NOISE, WITHHELD};

impl Report {
    /// With what the reader must know first, and without p-values and intervals where these would mislead.
    #[must_use]
    pub fn cautioned(mut self, caution: Option<Caution>) -> Report {
        self.caution = Caution::joined(self.caution.take(), caution);
        if self.caution.as_ref().is_some_and(|caution| caution.inference_withheld) {
            self.coefficients.iter_mut().for_each(Coefficient::withhold_inference);
        }
        self
    }
}

/// The caution as the first lines of a text.
pub(super) fn text(out: &mut String, caution: &Caution) {
    let line = "*".repeat(72);
    out.push_str(&format!("{line}\n{}\n", visible(&caution.banner).to_uppercase()));
    let withheld = "p-values and intervals are withheld (NA; null in JSON)".to_string();
    let withheld = caution.inference_withheld.then_some(withheld);
    list(out, caution.reasons.iter().map(|reason| visible(reason)).chain(withheld));
    out.push_str(&format!("{line}\n\n"));
}

/// The caution as the first thing on a page.
pub(super) fn banner(report: &Report) -> Markup {
    html! {
        @if let Some(caution) = &report.caution {
            div.caution role="alert" {
                p.title { (visible(&caution.banner)) }
                ul {
                    @for reason in &caution.reasons { li { (visible(reason)) } }
                    @if caution.inference_withheld { li { "P-values and intervals are withheld." } }
                }
            }
        }
    }
}
