//! ROC curve and calibration of a binomial fit, on squares.

use maud::{Markup, html};

use super::super::axes::{Frame, Scale, Tick, polyline, px, ticks};
use super::super::number::single;
use crate::fit::performance::{Decile, RocPoint};

/// Side of a square.
const SIDE: f64 = 280.0;

/// A square at the left of the picture over the same interval on both axes, with its diagonal.
fn square(label: &str, (low, high): (f64, f64), names: [&str; 2], drawn: impl Fn(&Frame) -> Markup) -> Markup {
    let (left, top) = (64.0, 30.0);
    let (right, bottom) = (left + SIDE, top + SIDE);
    let frame = Frame {
        x: Scale::new((low, high), (left, right)),
        y: Scale::new((low, high), (bottom, top)),
        left,
        right,
        top,
        bottom,
    };
    let marks: Vec<Tick> = ticks((low, high), 5);
    let below = frame.below(&marks);
    let drawn = html! {
        line.limit x1=(px(left)) y1=(px(bottom)) x2=(px(right)) y2=(px(top)) {}
        (drawn(&frame))
    };
    frame.picture(label, &marks, below, names, drawn)
}

/// The curve; `None` without points.
pub(crate) fn roc(points: &[RocPoint]) -> Option<Markup> {
    if points.len() < 2 {
        return None;
    }
    let names =
        ["share of the rows with outcome 0 (1 - specificity)", "share of the rows with outcome 1 (sensitivity)"];
    Some(square("ROC curve", (0.0, 1.0), names, |frame| {
        let places: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (frame.x.within(point.false_positive), frame.y.within(point.true_positive)))
            .collect();
        html! { g.c0 { polyline.curve points=(polyline(&places)) {} } }
    }))
}

/// Observed shares against mean probabilities; `None` without groups.
pub(crate) fn calibration(groups: &[Decile]) -> Option<Markup> {
    let points: Vec<(f64, f64)> = groups
        .iter()
        .filter(|group| group.rows > 0 && group.expected.is_finite())
        .map(|group| (group.expected / group.rows as f64, group.observed as f64 / group.rows as f64))
        .collect();
    let high = points.iter().flat_map(|point| [point.0, point.1]).fold(0.0, f64::max);
    if points.is_empty() {
        return None;
    }
    // Rare outcomes leave the rest of the square empty.
    let high = if high > 0.0 { (1.1 * high).min(1.0) } else { 1.0 };
    let names = ["mean probability of the group", "observed share of the group"];
    Some(square("Calibration by deciles", (0.0, high), names, |frame| {
        let places: Vec<(f64, f64)> =
            points.iter().map(|(expected, observed)| (frame.x.within(*expected), frame.y.within(*observed))).collect();
        html! {
            g.c1 {
                polyline.curve points=(polyline(&places)) {}
                @for (place, (expected, observed)) in places.iter().zip(&points) {
                    g {
                        title { (single(Some(*expected), 3)) " expected, " (single(Some(*observed), 3)) " observed" }
                        circle.point cx=(px(place.0)) cy=(px(place.1)) r="3.4" {}
                    }
                }
            }
        }
    }))
}
