//! A fitted function as a section: its values along each column in the text, curves on the page.

use maud::html;

use super::number::{column, single, thousands, visible};
use super::plot;
use super::section::Section;
use super::table::Column;
use crate::study::Function;

/// Shares of a range at which the text tells the value.
const PLACES: [(&str, usize); 5] = [("Lower end", 0), ("1/4", 15), ("Middle", 30), ("3/4", 45), ("Upper end", 60)];

/// The section of a function of this outcome.
pub(crate) fn section(function: &Function, outcome: &str) -> Section {
    let slices = &function.slices;
    let mut columns = vec![Column::left("", slices.iter().map(|slice| visible(&slice.column)).collect())];
    for (name, place) in PLACES {
        let values: Vec<Option<f64>> = slices.iter().map(|slice| slice.values.get(place).copied()).collect();
        columns.push(Column::right(name, column(&values, 4)));
    }
    let held = held(function);
    let section = Section::new("Function");
    let mut section = match slices.is_empty() {
        true => section.line("Function of levels alone: there is no column of numbers along which it could be shown"),
        false => section
            .line(format!("Function, along each column's public range{held}:"))
            .table(columns.into_iter().map(Column::text_only).collect()),
    };
    for (at, slice) in slices.iter().enumerate() {
        let forming = if at == 0 { function.forming.as_slice() } else { &[] };
        let caption = html! {
            (visible(outcome)) " along " (visible(&slice.column)) " from " (single(Some(slice.low), 6)) " to "
            (single(Some(slice.high), 6)) ", its public range"
            (held) "."
            @if !forming.is_empty() {
                " Thin lines: the function as it formed, after "
                (forming.iter().map(|stage| thousands(stage.records)).collect::<Vec<_>>().join(", "))
                " records."
            }
        };
        section = section.figure(plot::function(slice, forming, outcome), caption);
    }
    section.remark(html! {
        "Anyone who has this report as JSON can predict with it: " code { "worker predict --report report.json --data FILE" } "."
    })
}

/// Where the columns stand along which it is not shown, behind a comma.
fn held(function: &Function) -> String {
    let factors = function.inputs.iter().filter_map(|input| {
        let reference = input.levels.first()?;
        Some(format!("{} at {}", visible(&input.column), visible(reference)))
    });
    let numbers =
        (function.slices.len() > 1).then(|| "the other columns of numbers at the middle of theirs".to_owned());
    let held: Vec<String> = numbers.into_iter().chain(factors).collect();
    held.iter().map(|place| format!(", {place}")).collect()
}
