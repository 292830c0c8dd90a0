//! Sites that a consensus set aside, first in a report: what each of them says alone, beside the consensus.

use maud::{Markup, html};

use super::number::{UNDEFINED, column, single, thousands, visible};
use super::table::{Column, folded, table};
use crate::fit::Coefficient;
use crate::methods::robust::Standing;
use crate::methods::robust::report::Consolidation;

/// Sites whose own coefficients are shown.
const NAMED_SITES: usize = 4;

/// Sites of which nothing is in the consensus.
fn set_aside(c: &Consolidation) -> Vec<&Standing> {
    match c.guaranteed() {
        true => c.sites.iter().filter(|site| site.set_aside()).collect(),
        // Without a consensus nobody can know which site is the odd one.
        false => Vec::new(),
    }
}

/// What stands first, a sentence each: sites that are wholly set aside, and sites that repeat another's estimates.
fn sentences(c: &Consolidation) -> Vec<String> {
    let aside = set_aside(c).into_iter().map(|site| {
        let own = site.estimates - site.copies;
        let estimates = match own {
            1 => "its estimate disagrees".to_string(),
            own => format!("all {} of its estimates disagree", thousands(own)),
        };
        format!(
            "{} is set aside: {estimates} with the consensus, and nothing of it is in the result",
            visible(&site.worker)
        )
    });
    let copies = c.sites.iter().filter(|site| site.copies > 0).map(|site| {
        let of_others = c.batches.iter().any(|batch| {
            batch.worker == site.worker && batch.copy_of.as_ref().is_some_and(|(worker, _)| *worker != site.worker)
        });
        let whose = if of_others { "those of another site" } else { "earlier ones of its own" };
        let (copies, all) = (thousands(site.copies), thousands(site.estimates));
        format!(
            "{copies} of {all} estimates of {} repeat {whose} to rounding: the same rows count once",
            visible(&site.worker)
        )
    });
    aside.chain(copies).collect()
}

/// The coefficients of sites that were set aside, beside the consensus: their names, then a column each.
fn beside<'a>(c: &'a Consolidation, rows: &[Coefficient]) -> (Vec<&'a Standing>, Vec<Vec<Option<f64>>>) {
    let shown: Vec<&Standing> =
        set_aside(c).into_iter().filter(|site| site.coefficients.len() == rows.len()).take(NAMED_SITES).collect();
    let columns = std::iter::once(rows.iter().map(|row| row.estimate).collect())
        .chain(shown.iter().map(|site| site.coefficients.iter().map(|value| Some(*value)).collect()))
        .collect();
    (shown, columns)
}

/// The banner as text with a blank line after it; nothing where no site is set aside.
///
/// # Errors
/// Never, when writing to a string.
pub(crate) fn write(out: &mut String, c: &Consolidation, rows: &[Coefficient]) -> std::fmt::Result {
    let sentences = sentences(c);
    if sentences.is_empty() {
        return Ok(());
    }
    for sentence in sentences {
        out.push_str(&folded(&sentence, "*** ", "    "));
        out.push('\n');
    }
    let (shown, columns) = beside(c, rows);
    if !shown.is_empty() && !rows.is_empty() {
        let cells = |values: &Vec<Option<f64>>| column(values, 4);
        let mut table_columns = vec![
            Column::left("", rows.iter().map(|row| visible(&row.term)).collect()),
            Column::right("Consensus", cells(&columns[0])),
        ];
        for (site, values) in shown.iter().zip(&columns[1..]) {
            table_columns.push(Column::right(&format!("{} alone", visible(&site.worker)), cells(values)));
        }
        table(out, &table_columns)?;
    }
    out.push('\n');
    Ok(())
}

/// The banner as the first section of a page.
pub(crate) fn section(c: &Consolidation, rows: &[Coefficient]) -> Markup {
    let sentences = sentences(c);
    let (shown, columns) = beside(c, rows);
    let number = |value: Option<f64>| value.map_or_else(|| UNDEFINED.to_string(), |value| single(Some(value), 5));
    html! {
        @if !sentences.is_empty() {
            section.notes {
                h2 { "Set aside" }
                @for sentence in &sentences { p { strong { (sentence) "." } } }
                @if !shown.is_empty() && !rows.is_empty() {
                    div.scroll {
                        table {
                            thead { tr { th.text { "Term" } th { "Consensus" } @for site in &shown { th { (visible(&site.worker)) " alone" } } } }
                            tbody {
                                @for (at, row) in rows.iter().enumerate() {
                                    tr {
                                        td.text { (visible(&row.term)) }
                                        @for values in &columns { td { (number(values[at])) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How the sites stand, in the words of a table: a name, estimates in the consensus of those sent, and the share of the vote.
pub(crate) fn rows(c: &Consolidation) -> Vec<[String; 3]> {
    let share = |site: &Standing| match c.site_votes {
        true => super::number::percent(site.share),
        false => UNDEFINED.to_string(),
    };
    c.sites
        .iter()
        .map(|site| {
            let of = format!("{} of {}", thousands(site.trusted), thousands(site.estimates));
            [visible(&site.worker), of, share(site)]
        })
        .collect()
}
