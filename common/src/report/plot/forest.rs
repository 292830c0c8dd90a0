//! Ratios of odds or rates with their intervals on a logarithmic axis.

use maud::{Markup, html};

use super::super::axes::{Scale, Tick, WIDTH, nice_ticks, px, tick_label, view_box};
use super::super::number::{significant, single, visible};
use super::{CHARACTER, Colours, MOST_ROWS, ROW, columns, label_width, row_label};
use crate::fit::{Coefficient, INTERCEPT};

/// Farthest that the axis reaches, as a power of ten.
const FARTHEST: f64 = 3.0;

/// `ratio [low, high]`, each with three significant digits.
fn with_interval(ends: [f64; 3]) -> String {
    let [ratio, low, high] = ends.map(|x| single(Some(significant(x, 3)), 3));
    format!("{ratio} [{low}, {high}]")
}

/// The ratio and the ends of its interval, where all can stand on a logarithmic axis.
fn ends(row: &Coefficient) -> Option<[f64; 3]> {
    let ends = [row.ratio?, row.ratio_low?, row.ratio_high?];
    (row.term != INTERCEPT && ends.iter().all(|x| x.is_finite() && *x > 1e-300)).then_some(ends)
}

/// Round ratios within powers of ten.
fn ratio_ticks((low, high): (f64, f64)) -> Vec<Tick> {
    let place = |ratio: f64| (ratio.log10(), tick_label(ratio));
    if high - low < 0.9 {
        return nice_ticks(10_f64.powf(low), 10_f64.powf(high), 6)
            .into_iter()
            .filter(|x| *x > 0.0)
            .map(place)
            .collect();
    }
    let factors: &[f64] = if high - low < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (low.floor() as i32..=high.ceil() as i32)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .map(place)
        .filter(|(at, _)| (low..=high).contains(at))
        .collect()
}

/// Ratios with 95 % intervals, a row a term without the intercept. `None` if none has an interval.
pub(crate) fn ratios(rows: &[Coefficient], name: &str, parties: Option<Colours<'_>>) -> Option<Markup> {
    let mut shown: Vec<(&Coefficient, [f64; 3])> = rows.iter().filter_map(|row| Some((row, ends(row)?))).collect();
    shown.truncate(MOST_ROWS);
    let within = |x: f64| x.log10().clamp(-FARTHEST, FARTHEST);
    let all = || shown.iter().flat_map(|(_, ends)| ends.iter().map(|x| within(*x))).chain([0.0]);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if shown.is_empty() {
        return None;
    }
    let room = (0.04 * (high - low)).max(0.01);
    let (low, high) = (low - room, high + room);
    let labels = label_width(shown.iter().map(|(row, _)| row.term.as_str()));
    let values: Vec<String> = shown.iter().map(|(_, ends)| with_interval(*ends)).collect();
    let right = values.iter().map(|v| v.chars().count()).max().unwrap_or(0) as f64 * CHARACTER + 18.0;
    let (x0, x1) = (labels + 12.0, (WIDTH - right).max(labels + 150.0));
    let x = Scale::new((low, high), (x0, x1));
    let (top, bottom) = (26.0, 26.0 + ROW * shown.len() as f64);
    Some(html! {
        svg viewBox=(view_box(bottom + 44.0)) role="img" aria-label=(format!("{name}s with intervals")) {
            text.axis-name x=(px(WIDTH - 4.0)) y="14" text-anchor="end" { (name) " [95 % interval]" }
            (columns(&x, &ratio_ticks((low, high)), (top, bottom), 16.0))
            line.zero x1=(px(x.at(0.0))) x2=(px(x.at(0.0))) y1=(px(top)) y2=(px(bottom)) {}
            text.axis-name x=(px((x0 + x1) / 2.0)) y=(px(bottom + 36.0)) text-anchor="middle" {
                (name) " for one more unit of the column, logarithmic"
            }
            @for (at, ((row, [ratio, from, to]), value)) in shown.iter().zip(&values).enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                g class=(parties.map_or("single", |colours| colours.class(row.party))) {
                    title { (visible(&row.term)) ": " (value) }
                    (row_label(&row.term, labels, y))
                    line.interval x1=(px(x.within(from.log10()))) x2=(px(x.within(to.log10()))) y1=(px(y)) y2=(px(y)) {}
                    @if (low..=high).contains(&ratio.log10()) {
                        circle.point cx=(px(x.at(ratio.log10()))) cy=(px(y)) r="4" {}
                    } @else {
                        // Beyond the axis: an arrow at its end; the numbers stand beside.
                        @let (tip, back) = if *ratio > 1.0 { (x1 - 1.0, -9.0) } else { (x0 + 1.0, 9.0) };
                        path.point d=(format!("M{} {} l{back} -5 v10 z", px(tip), px(y))) {}
                    }
                    text.value x=(px(WIDTH - 4.0)) y=(px(y + 4.0)) text-anchor="end" { (value) }
                }
            }
        }
    })
}
