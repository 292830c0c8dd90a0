//! The pictures of the HTML page, as SVG that takes its colours from the page's style sheet.
//!
//! Written out rather than drawn by a plotting library: labels then are text of the page, which `maud` escapes, the
//! colours follow the reader's light or dark setting, and no font has to be measured.

mod forest;
mod performance;

use maud::{Markup, html};

pub(crate) use self::forest::ratios;
pub(crate) use self::performance::{calibration, roc};

use super::axes::{
    Frame, Scale, Tick, WIDTH, colour, drawable, polyline, power_ticks, px, range, shortened, spread, ticks, view_box,
    whole_ticks,
};
use super::number::{duration, percent, significant, single, small, visible};
use super::{ColumnDisclosure, Comparison, Course, CvPoint, INTERCEPT, PathPoint, Seconds, TracePoint};
use crate::fit::{Coefficient, Member};
use crate::id::Role;
use crate::study::{Forming, Slice};

/// Height of a row in pictures with a row a term.
const ROW: f64 = 22.0;
/// Mean width of a character at the size of labels.
const CHARACTER: f64 = 6.7;
/// Longest label, in characters.
const LABEL: usize = 30;
/// Largest number of rows that a picture shows.
pub(crate) const MOST_ROWS: usize = 60;
/// Farthest that the axis of the coefficient picture reaches, in standard errors.
const FARTHEST: f64 = 12.0;
/// Length of the arrow that stands for an estimate beyond the axis.
const ARROW: f64 = 9.0;
/// Lines on a path that get a name.
const NAMED_LINES: usize = 14;
/// The name of an axis of penalties.
const LAMBDA: &str = "lambda (the penalty falls to the right)";

/// Estimates in units of their standard error with 95 % intervals, a row a term, with the numbers on the own scale beside.
/// `None` if nothing has a standard error.
pub(crate) fn coefficients(rows: &[Coefficient], parties: Option<Colours<'_>>) -> Option<Markup> {
    let mut shown: Vec<&Coefficient> = rows.iter().filter(|row| interval(row).is_some()).collect();
    if shown.is_empty() {
        return None;
    }
    if shown.len() > MOST_ROWS {
        let mut sizes: Vec<f64> = shown.iter().filter_map(|row| Some(interval(row)?.0.abs())).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let least = sizes[MOST_ROWS - 1];
        shown.retain(|row| interval(row).is_some_and(|(t, _)| t.abs() >= least));
        shown.truncate(MOST_ROWS);
    }
    let reach =
        shown.iter().filter_map(|row| interval(row)).map(|(t, half)| t.abs() + half).fold(4.0, f64::max).min(FARTHEST);
    let labels = label_width(shown.iter().map(|row| row.term.as_str()));
    let values: Vec<String> = shown.iter().map(|row| with_interval(row)).collect();
    let right = values.iter().map(|v| v.chars().count()).max().unwrap_or(0) as f64 * CHARACTER + 18.0;
    let (x0, x1) = (labels + 12.0, (WIDTH - right).max(labels + 150.0));
    let x = Scale::new((-reach, reach), (x0, x1));
    let top = 26.0;
    let bottom = top + ROW * shown.len() as f64;
    let height = bottom + 44.0;
    Some(html! {
        svg viewBox=(view_box(height)) role="img" aria-label="Coefficients with intervals" {
            text.axis-name x=(px(WIDTH - 4.0)) y="14" text-anchor="end" { "estimate [95 % interval]" }
            (columns(&x, &ticks((-reach, reach), 7), (top, bottom), 16.0))
            line.zero x1=(px(x.at(0.0))) x2=(px(x.at(0.0))) y1=(px(top)) y2=(px(bottom)) {}
            text.axis-name x=(px((x0 + x1) / 2.0)) y=(px(bottom + 36.0)) text-anchor="middle" {
                "estimate in units of its standard error"
            }
            @for (at, (row, value)) in shown.iter().zip(&values).enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                @let (t, half) = interval(row).unwrap_or_default();
                g class=(parties.map_or("single", |colours| colours.class(row.party))) {
                    title { (visible(&row.term)) ": " (value) ", " (single(Some(t), 4)) " standard errors from zero" }
                    (row_label(&row.term, labels, y))
                    @if let Some((from, to)) = line((t, half), reach, &x) {
                        line.interval x1=(px(from)) x2=(px(to)) y1=(px(y)) y2=(px(y)) {}
                    }
                    @if t.abs() <= reach {
                        circle.point cx=(px(x.at(t))) cy=(px(y)) r="4" {}
                    } @else {
                        // Beyond the axis: an arrow at its end, the size of the statistic inside.
                        @let (tip, back, anchor) = if t > 0.0 { (x1 - 1.0, -ARROW, "end") } else { (x0 + 1.0, ARROW, "start") };
                        path.point d=(format!("M{} {} l{back} -5 v10 z", px(tip), px(y))) {}
                        text.beyond x=(px(tip + 1.5 * back)) y=(px(y + 4.0)) text-anchor=(anchor) { (beyond(t)) }
                    }
                    text.value x=(px(WIDTH - 4.0)) y=(px(y + 4.0)) text-anchor="end" { (value) }
                }
            }
        }
    })
}

/// The size of a statistic that lies beyond the axis.
fn beyond(t: f64) -> String {
    single(Some(t), 3)
}

/// From where to where the line of an interval runs; none where nothing of it can be seen. It ends before an arrow and its
/// number.
fn line((t, half): (f64, f64), reach: f64, x: &Scale) -> Option<(f64, f64)> {
    let (from, to) = (x.within(t - half), x.within(t + half));
    let room = 1.0 + 1.5 * ARROW + beyond(t).chars().count() as f64 * CHARACTER + 3.0;
    let (from, to) = match t.abs() <= reach {
        true => (from, to),
        false if t > 0.0 => (from, to.min(x.at(reach) - room)),
        false => (from.max(x.at(-reach) + room), to),
    };
    (from < to).then_some((from, to))
}

/// `estimate [low, high]` with three significant digits of half the interval's width.
fn with_interval(row: &Coefficient) -> String {
    let values = [row.estimate, row.conf_low, row.conf_high];
    let half = match (row.conf_low, row.conf_high) {
        (Some(low), Some(high)) => (high - low) / 2.0,
        _ => 0.0,
    };
    let decimals = (2.0 - half.log10().floor()).max(0.0);
    let largest = values.iter().flatten().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let [estimate, low, high] = if decimals <= 6.0 && largest < 1e7 {
        values.map(|x| x.map_or_else(String::new, |x| format!("{:.*}", decimals as usize, x)))
    } else {
        values.map(|x| single(x.map(|x| significant(x, 3)), 3))
    };
    format!("{estimate} [{low}, {high}]")
}

/// The estimate in standard errors and half the width of its interval in the same unit.
fn interval(row: &Coefficient) -> Option<(f64, f64)> {
    let (estimate, std_error) = (row.estimate?, row.std_error?);
    let half = (row.conf_high? - row.conf_low?) / 2.0 / std_error;
    let t = estimate / std_error;
    (std_error > 0.0 && drawable(t) && drawable(half)).then_some((t, half))
}

/// Certificate and change of the coefficients by round on a logarithmic axis, with the tolerance. `None` without points.
pub(crate) fn convergence(trace: &[TracePoint], tol: f64) -> Option<Markup> {
    // Zero has no logarithm; nothing below this is told from it.
    let lowest = 1e-17;
    let usable = |value: f64| value.is_finite().then(|| value.max(lowest).log10());
    let values = trace.iter().flat_map(|point| [point.certificate, point.change]).filter_map(usable);
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() {
        return None;
    }
    let tol_exponent = (tol.is_finite() && tol > 0.0).then(|| tol.log10());
    let low = tol_exponent.map_or(low, |tol| tol.min(low)).floor();
    let high = tol_exponent.map_or(high, |tol| tol.max(high)).ceil().max(low + 1.0);
    let first = trace.first().map_or(0, |point| point.round);
    let last = trace.last().map_or(1, |point| point.round).max(first + 1);
    let frame = Frame::new((f64::from(first), f64::from(last)), (low, high), 64.0, 120.0);
    let rounds = frame.below(&whole_ticks((f64::from(first), f64::from(last))));
    let line = |value: fn(&TracePoint) -> f64| -> Vec<(f64, f64)> {
        trace
            .iter()
            .filter_map(|point| Some((frame.x.at(f64::from(point.round)), frame.y.at(usable(value(point))?))))
            .collect()
    };
    let certificate = line(|point| point.certificate);
    let change = line(|point| point.change);
    let ends = spread(
        &[&certificate, &change].map(|points| points.last().map_or(frame.bottom, |point| point.1)),
        14.0,
        frame.top,
        frame.bottom,
    );
    let drawn = html! {
        @if let Some(tol) = tol_exponent {
            line.limit x1=(px(frame.left)) x2=(px(frame.right)) y1=(px(frame.y.at(tol))) y2=(px(frame.y.at(tol))) {}
            text.limit-name x=(px(frame.left + 6.0)) y=(px(frame.y.at(tol) - 5.0)) { "tol " (small(Some(10_f64.powf(tol)))) }
        }
        @for (name, class, points, end) in [("certificate", "c0", &certificate, ends[0]), ("change", "c1", &change, ends[1])] {
            @if !points.is_empty() {
                g class=(class) {
                    polyline.curve points=(polyline(points)) {}
                    @if points.len() <= 60 {
                        @for point in points {
                            circle.point cx=(px(point.0)) cy=(px(point.1)) r="2.8" {}
                        }
                    }
                    text.curve-name x=(px(frame.right + 8.0)) y=(px(end + 4.0)) { (name) }
                }
            }
        }
    };
    let names = ["round", "scaled gradient and relative change"];
    Some(frame.picture("Convergence by round", &power_ticks((low, high)), rounds, names, drawn))
}

/// Share of each own column that the peer could reconstruct, as bars. `None` without columns.
pub(crate) fn disclosure(role: Role, all: &[ColumnDisclosure], colours: Colours<'_>) -> Option<Markup> {
    shares((role, colours.class(role)), all, "reconstruct")
}

/// Share of each own column that the peer could predict, as bars. `None` without columns.
pub(crate) fn predicted(role: Role, all: &[ColumnDisclosure], colours: Colours<'_>) -> Option<Markup> {
    shares((role, colours.class(role)), all, "predict")
}

fn shares((role, class): (Role, &str), all: &[ColumnDisclosure], could: &str) -> Option<Markup> {
    if all.is_empty() {
        return None;
    }
    let mut shown: Vec<&ColumnDisclosure> = all.iter().collect();
    if shown.len() > MOST_ROWS {
        shown.sort_by(|a, b| b.share.total_cmp(&a.share));
        shown.truncate(MOST_ROWS);
    }
    let labels = label_width(shown.iter().map(|column| column.term.as_str()));
    let x = Scale::new((0.0, 1.0), (labels + 12.0, WIDTH - 76.0));
    let top = 6.0;
    let bottom = top + ROW * shown.len() as f64;
    Some(html! {
        svg viewBox=(view_box(bottom + 40.0)) role="img" aria-label=(format!("Share of each column of {role} that the peer could {could}")) {
            (columns(&x, &[0.0, 0.25, 0.5, 0.75, 1.0].map(whole_percent), (top, bottom), 15.0))
            text.axis-name x=(px((x.at(0.0) + x.at(1.0)) / 2.0)) y=(px(bottom + 34.0)) text-anchor="middle" {
                "share of the column's variance"
            }
            @for (at, column) in shown.iter().enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                @let share = if column.share.is_finite() { column.share.clamp(0.0, 1.0) } else { 0.0 };
                g class=(class) {
                    title { (visible(&column.term)) ": " (percent(column.share)) }
                    (row_label(&column.term, labels, y))
                    rect.bar x=(px(x.at(0.0))) y=(px(y - 6.5)) width=(px(x.at(share) - x.at(0.0))) height="13" {}
                    text.value x=(px(WIDTH - 4.0)) y=(px(y + 4.0)) text-anchor="end" { (percent(column.share)) }
                }
            }
        }
    })
}

/// The colours of the parties of a report: those of alice and bob, or of several in their order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Colours<'a>(pub(crate) &'a [Role]);

/// Classes of the style sheet for several parties.
const PARTIES: [&str; 16] =
    ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"];

impl<'a> Colours<'a> {
    /// The class of a party.
    pub(crate) fn class(self, role: Role) -> &'static str {
        let place = self.0.iter().position(|party| *party == role);
        // What names a party in a report that was read back need not be one of its parties.
        match (place.and_then(|place| PARTIES.get(place)), role) {
            (Some(class), _) => class,
            (None, Role::Alice) => "alice",
            (None, Role::Bob) => "bob",
            (None, Role::Party(_) | Role::Worker | Role::Coordinator) => "single",
        }
    }

    /// The parties in a legend.
    pub(crate) fn legend(self) -> Vec<(Role, &'static str)> {
        let roles = if self.0.is_empty() { &[Role::Alice, Role::Bob] } else { self.0 };
        roles.iter().map(|role| (*role, self.class(*role))).collect()
    }
}

/// Where each party's time went, as stacked bars on one axis.
pub(crate) fn timings(parties: &[(Option<Role>, &Seconds)]) -> Option<Markup> {
    let parts = |s: &Seconds| {
        let known = [s.read, s.solve, s.exchange].map(|x| if drawable(x) { x.max(0.0) } else { 0.0 });
        let rest = (s.total - known.iter().sum::<f64>()).max(0.0);
        [known[0], known[1], known[2], if drawable(rest) { rest } else { 0.0 }]
    };
    let longest = parties.iter().map(|(_, seconds)| parts(seconds).iter().sum::<f64>()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let names = ["reading", "computing", "exchange", "other"];
    let axis: Vec<Tick> = ticks((0.0, longest), 6).into_iter().map(|(tick, label)| (tick, label + " s")).collect();
    let x = Scale::new((0.0, longest), (92.0, WIDTH - 84.0));
    let top = 30.0;
    let bottom = top + 34.0 * parties.len() as f64;
    Some(html! {
        svg viewBox=(view_box(bottom + 26.0)) role="img" aria-label="Where the time went" {
            @for (at, name) in names.iter().enumerate() {
                g class=(format!("c{at}")) {
                    rect.bar x=(px(92.0 + 110.0 * at as f64)) y="5" width="12" height="12" {}
                    text.legend x=(px(110.0 + 110.0 * at as f64)) y="15" { (name) }
                }
            }
            (columns(&x, &axis, (top, bottom), 15.0))
            @for (at, (role, seconds)) in parties.iter().enumerate() {
                @let y = top + 34.0 * at as f64 + 6.0;
                @let parts = parts(seconds);
                text.label x="80" y=(px(y + 15.0)) text-anchor="end" { (role.as_ref().map_or("", Role::name)) }
                @for (part, name) in names.iter().enumerate() {
                    @let before: f64 = parts[..part].iter().sum();
                    @let width = x.at(before + parts[part]) - x.at(before);
                    @if width > 0.0 {
                        g class=(format!("c{part}")) {
                            title { (name) " " (duration(parts[part])) }
                            rect.bar x=(px(x.at(before))) y=(px(y)) width=(px(width)) height="22" {}
                        }
                    }
                }
                text.value x=(px(WIDTH - 4.0)) y=(px(y + 15.0)) text-anchor="end" { (duration(parts.iter().sum())) }
            }
        }
    })
}

/// Whether the sizes of the lines of a path differ so much that they are drawn relative to their largest.
pub(crate) fn path_is_relative(path: &[PathPoint]) -> bool {
    let sizes: Vec<f64> = lines(path).iter().map(Line::size).filter(|size| *size > 0.0).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    largest > 1000.0 * smallest
}

struct Line<'a> {
    term: &'a str,
    party: Role,
    /// Index on the path and estimate.
    points: Vec<(usize, f64)>,
}

impl Line<'_> {
    fn size(&self) -> f64 {
        self.points.iter().map(|point| point.1.abs()).fold(0.0, f64::max)
    }
}

/// A line a coefficient, without the intercept and without those that never enter.
fn lines(path: &[PathPoint]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = path
        .first()
        .map(|point| point.coefficients.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|c| Line { term: &c.term, party: c.party, points: Vec::with_capacity(path.len()) })
        .collect();
    for (at, point) in path.iter().enumerate() {
        for (line, c) in lines.iter_mut().zip(&point.coefficients) {
            if let Some(estimate) = c.estimate.filter(|x| drawable(*x) && c.term == line.term && c.party == line.party)
            {
                line.points.push((at, estimate));
            }
        }
    }
    lines.retain(|line| line.term != INTERCEPT && line.size() > 0.0);
    lines
}

/// Coefficients against lambda, which falls to the right on a logarithmic axis; above, how many are not zero.
pub(crate) fn path(path: &[PathPoint], chosen: &[(&str, f64)]) -> Option<Markup> {
    let lines = lines(path);
    let x_of = |lambda: f64| (lambda > 0.0 && lambda.is_finite()).then(|| -lambda.log10());
    let (from, to) = range(path.iter().filter_map(|point| x_of(point.lambda)))?;
    let relative = path_is_relative(path);
    let value = |line: &Line<'_>, x: f64| if relative { x / line.size() } else { x };
    let (low, high) =
        range(lines.iter().flat_map(|line| line.points.iter().map(|point| value(line, point.1))).chain([0.0]))?;
    let frame = Frame::new((from, to), (low, high), 64.0, 150.0);
    let mut largest: Vec<(usize, f64)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, value(line, line.points.last()?.1)))).collect();
    largest.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    largest.truncate(NAMED_LINES);
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let heights: Vec<f64> = largest.iter().map(|(_, end)| frame.y.at(*end)).collect();
    let heights = spread(&heights, 13.5, frame.top, frame.bottom);
    let drawn = html! {
        (zero(&frame))
        @for (at, line) in lines.iter().enumerate() {
            @let points: Vec<(f64, f64)> = line.points.iter()
                .filter_map(|(at, x)| Some((frame.x.at(x_of(path[*at].lambda)?), frame.y.at(value(line, *x)))))
                .collect();
            g class=(colour(at)) {
                title { (visible(line.term)) " (" (line.party) ")" }
                polyline.curve points=(polyline(&points)) {}
            }
        }
        (chosen_lines(&frame, chosen))
        @for ((at, end), height) in largest.iter().zip(&heights) {
            g class=(colour(*at)) { (leader(&frame, lines[*at].term, frame.y.at(*end), *height)) }
        }
    };
    let df = path.iter().filter_map(|point| Some((x_of(point.lambda)?, point.df)));
    let names = [LAMBDA, if relative { "coefficient / its largest" } else { "coefficient" }];
    let below = lambda_axis(&frame, from, to, df);
    Some(frame.picture("Coefficients against lambda", &ticks((low, high), 6), below, names, drawn))
}

/// The line at zero of the vertical axis.
fn zero(frame: &Frame) -> Markup {
    let y = px(frame.y.at(0.0));
    html! { line.zero x1=(px(frame.left)) x2=(px(frame.right)) y1=(y) y2=(y) {} }
}

/// The name of a curve at the right, with a line to where the curve ends.
fn leader(frame: &Frame, term: &str, end: f64, height: f64) -> Markup {
    html! {
        line.leader x1=(px(frame.right)) x2=(px(frame.right + 10.0)) y1=(px(end)) y2=(px(height)) {}
        text.curve-name x=(px(frame.right + 13.0)) y=(px(height + 4.0)) { (shortened(term, 19)) }
    }
}

/// Cross-validated error with bars of one standard error against lambda.
pub(crate) fn cross_validation(
    cv: &[CvPoint],
    path: &[PathPoint],
    measure: &str,
    chosen: &[(&str, f64)],
) -> Option<Markup> {
    let points: Vec<(f64, f64, f64)> = cv
        .iter()
        .filter(|p| p.lambda > 0.0 && drawable(p.lambda) && drawable(p.mean))
        .map(|p| (-p.lambda.log10(), p.mean, if drawable(p.se) { p.se.max(0.0) } else { 0.0 }))
        .collect();
    let (from, to) = range(points.iter().map(|p| p.0))?;
    let (low, high) = range(points.iter().flat_map(|p| [p.1 - p.2, p.1 + p.2]))?;
    let frame = Frame::new((from, to), (low, high), 64.0, 24.0);
    let df = path.iter().filter(|point| point.lambda > 0.0).map(|point| (-point.lambda.log10(), point.df));
    let drawn = html! {
        @for (lambda, mean, se) in &points {
            g.c1 {
                title { "lambda " (single(Some(10_f64.powf(-lambda)), 4)) ": " (single(Some(*mean), 5)) " ± " (single(Some(*se), 3)) }
                path.whisker d=(format!("M{x} {a} V{b} M{l} {a} H{r} M{l} {b} H{r}",
                    x = px(frame.x.at(*lambda)), a = px(frame.y.at(mean - se)), b = px(frame.y.at(mean + se)),
                    l = px(frame.x.at(*lambda) - 2.0), r = px(frame.x.at(*lambda) + 2.0))) {}
                circle.point cx=(px(frame.x.at(*lambda))) cy=(px(frame.y.at(*mean))) r="2.6" {}
            }
        }
        (chosen_lines(&frame, chosen))
    };
    let below = lambda_axis(&frame, from, to, df);
    let label = "Cross-validated error against lambda";
    Some(frame.picture(label, &ticks((low, high), 6), below, [LAMBDA, measure], drawn))
}

/// Ticks at powers of ten and, where there are few of those, at 2 and 5 times them; above, the numbers of coefficients.
fn lambda_axis(frame: &Frame, from: f64, to: f64, df: impl Iterator<Item = (f64, u64)>) -> Markup {
    let factors: &[f64] = if to - from < 4.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = ((to - from) / 9.0).ceil().max(1.0) as i32;
    let ticks: Vec<Tick> = ((-to).floor() as i32..=(-from).ceil() as i32)
        .filter(|exponent| exponent % every == 0)
        .flat_map(|exponent| factors.iter().map(move |factor| factor * 10_f64.powi(exponent)))
        .map(|lambda| (-lambda.log10(), single(Some(lambda), 2)))
        .filter(|(at, _)| (from - 1e-9..=to + 1e-9).contains(at))
        .collect();
    // As many numbers above as there is room for.
    let mut room = f64::NEG_INFINITY;
    let mut above: Vec<(f64, u64)> = Vec::new();
    for (at, df) in df {
        let x = frame.x.at(at);
        if x - room >= 55.0 {
            above.push((x, df));
            room = x;
        }
    }
    html! {
        (frame.below(&ticks))
        @if !above.is_empty() {
            text.tick x=(px(frame.left - 10.0)) y=(px(frame.top - 8.0)) text-anchor="end" { "df" }
        }
        @for (x, df) in &above {
            text.tick x=(px(*x)) y=(px(frame.top - 8.0)) text-anchor="middle" { (df) }
        }
    }
}

/// Vertical lines at the chosen lambdas.
fn chosen_lines(frame: &Frame, chosen: &[(&str, f64)]) -> Markup {
    let marks: Vec<(f64, &str)> = chosen
        .iter()
        .filter(|(_, lambda)| *lambda > 0.0)
        .map(|(name, lambda)| (frame.x.at(-lambda.log10()), *name))
        .filter(|(x, _)| (frame.left - 1.0..=frame.right + 1.0).contains(x))
        .collect();
    html! {
        @for (x, name) in &marks {
            line.limit x1=(px(*x)) x2=(px(*x)) y1=(px(frame.top)) y2=(px(frame.bottom)) {}
            text.limit-name x=(px(x + 4.0)) y=(px(frame.top + 12.0)) { (name) }
        }
    }
}

/// Most batches that a picture draws.
const MOST_BATCHES: usize = 2000;

/// Whether a picture of a given number of batches leaves some out.
pub(crate) fn thinned(batches: usize) -> bool {
    batches > MOST_BATCHES
}

/// Distance of each batch to the consensus, on a logarithmic axis where they differ much, and below it the share of rows
/// kept. `None` without batches.
pub(crate) fn batches(all: &[Member]) -> Option<Markup> {
    let every = all.len().div_ceil(MOST_BATCHES).max(1);
    // Whatever is left out, what was not trusted is seen.
    let drawn: Vec<(usize, &Member)> =
        all.iter().enumerate().filter(|(at, b)| at % every == 0 || !b.trusted).take(2 * MOST_BATCHES).collect();
    let distances = || all.iter().map(|b| b.distance).filter(|d| drawable(*d) && *d > 0.0);
    let (smallest, largest) = (distances().fold(f64::INFINITY, f64::min), distances().fold(0.0, f64::max));
    let logarithmic = largest > 30.0 * smallest;
    let place = |d: f64| match (drawable(d), logarithmic) {
        (false, true) => largest.log10(),
        (false, false) => largest,
        (true, true) => d.max(smallest).log10(),
        (true, false) => d,
    };
    let (low, high) = match logarithmic {
        true => (smallest.log10().floor(), largest.log10().ceil()),
        false => range(distances().chain([0.0]))?,
    };
    let last = all.len().max(2) as f64;
    let upper = Frame::new((1.0, last), (low, high), 64.0, 24.0);
    let room = 110.0;
    let lower = Frame {
        x: Scale::new((1.0, last), (upper.left + 8.0, upper.right - 8.0)),
        y: Scale::new((0.0, 1.0), (upper.bottom + 38.0 + room, upper.bottom + 38.0)),
        left: upper.left,
        right: upper.right,
        top: upper.bottom + 38.0,
        bottom: upper.bottom + 38.0 + room,
    };
    let distances = if logarithmic { power_ticks((low, high)) } else { ticks((low, high), 6) };
    let mut numbers = whole_ticks((1.0, last));
    numbers.retain(|(tick, _)| *tick >= 1.0);
    let radius = if drawn.len() > 300 { 1.8 } else { 3.4 };
    (!all.is_empty()).then(|| {
        html! {
            svg viewBox=(view_box(lower.height())) role="img" aria-label="Distance of each batch to the consensus, and share of rows kept" {
                @for (tick, label) in &distances { (upper.horizontal(*tick, label)) }
                text.axis-name x="4" y="12" { "distance to the consensus" }
                @for (tick, label) in [0.0, 0.5, 1.0].map(whole_percent) { (lower.horizontal(tick, &label)) }
                text.axis-name x="4" y=(px(lower.top - 12.0)) { "rows kept" }
                (lower.below(&numbers))
                line.axis x1=(px(lower.left)) x2=(px(lower.right)) y1=(px(lower.bottom)) y2=(px(lower.bottom)) {}
                text.axis-name x=(px((lower.left + lower.right) / 2.0)) y=(px(lower.bottom + 38.0)) text-anchor="middle" { "batch" }
                @for (at, b) in &drawn {
                    @let x = px(upper.x.at(*at as f64 + 1.0));
                    @let share = if b.nobs == 0 { 0.0 } else { (b.kept as f64 / b.nobs as f64).min(1.0) };
                    g class=(if b.trusted { "c2" } else { "c1" }) {
                        title {
                            (visible(&b.worker)) ", batch " (b.batch) ": distance " (single(Some(b.distance), 3)) ", " (percent(share)) " of "
                            (b.nobs) " rows kept, " @if b.trusted { "in the consensus" } @else { "set aside" }
                        }
                        circle class=(if b.trusted { "point" } else { "hollow" }) cx=(x) cy=(px(upper.y.at(place(b.distance)))) r=(radius) {}
                        circle class=(if b.trusted { "point" } else { "hollow" }) cx=(x) cy=(px(lower.y.at(share))) r=(radius) {}
                    }
                }
            }
        }
    })
}

/// The consensus over time, every coefficient divided by its largest size. `None` without points.
pub(crate) fn course(course: &Course, axis: &str) -> Option<Markup> {
    let (from, to) = range(course.points.iter().map(|point| point.arrival as f64))?;
    let lines: Vec<(&str, Vec<f64>)> = course
        .terms
        .iter()
        .enumerate()
        .filter_map(|(at, term)| {
            let values: Vec<f64> =
                course.points.iter().map(|point| point.coefficients.get(at).copied().unwrap_or(f64::NAN)).collect();
            let size =
                values.iter().filter(|value| drawable(**value)).fold(0.0, |size: f64, value| size.max(value.abs()));
            (size > 0.0).then(|| (term.as_str(), values.iter().map(|value| value / size).collect()))
        })
        .take(NAMED_LINES)
        .collect();
    let (low, high) = range(lines.iter().flat_map(|(_, values)| values.iter().copied()).chain([0.0]))?;
    let frame = Frame::new((from, to), (low, high), 64.0, 150.0);
    let x = |at: usize| course.points[at].arrival as f64;
    let ends: Vec<f64> = lines.iter().map(|(_, values)| frame.y.at(values.last().copied().unwrap_or(0.0))).collect();
    let heights = spread(&ends, 13.5, frame.top, frame.bottom);
    let drawn = html! {
        (zero(&frame))
        @for point in course.points.iter().filter(|point| point.switched) {
            @let at = px(frame.x.at(point.arrival as f64));
            line.limit x1=(at) x2=(at) y1=(px(frame.top)) y2=(px(frame.bottom)) {}
        }
        @for (at, (term, values)) in lines.iter().enumerate() {
            g class=(colour(at)) {
                title { (visible(term)) }
                polyline.curve points=(curve(&frame, values, x)) {}
                (leader(&frame, term, ends[at], heights[at]))
            }
        }
        g.c3 {
            @for point in course.points.iter().filter(|point| point.outside) {
                circle.hollow cx=(px(frame.x.at(point.arrival as f64))) cy=(px(frame.bottom - 6.0)) r="3" {}
            }
        }
    };
    let below = frame.below(&whole_ticks((from, to)));
    let names = [axis, "coefficient / its largest"];
    Some(frame.picture("Consensus over time", &ticks((low, high), 6), below, names, drawn))
}

/// The points of a curve through those values that can stand on an axis.
fn curve(frame: &Frame, values: &[f64], x: impl Fn(usize) -> f64) -> String {
    let drawn = values.iter().enumerate().filter(|(_, value)| drawable(**value));
    polyline(&drawn.map(|(at, value)| (frame.x.at(x(at)), frame.y.at(*value))).collect::<Vec<_>>())
}

/// A function along one column, with the thin lines of how it formed. `None` without finite values.
pub(crate) fn function(slice: &Slice, forming: &[Forming], outcome: &str) -> Option<Markup> {
    let all = slice.values.iter().chain(forming.iter().flat_map(|stage| &stage.values)).copied();
    let (low, high) = range(all)?;
    let frame = Frame::new((slice.low, slice.high), (low, high), 64.0, 60.0);
    let steps = slice.values.len().saturating_sub(1).max(1) as f64;
    let place = |at: usize| slice.low + (slice.high - slice.low) * at as f64 / steps;
    let drawn = html! {
        @for (at, stage) in forming.iter().enumerate() {
            @let share = (at + 1) as f64 / (forming.len() + 1) as f64;
            g.c1 {
                title { "after " (stage.records) " records" }
                polyline.curve points=(curve(&frame, &stage.values, place)) stroke-width="1" opacity=(format!("{:.2}", 0.15 + 0.6 * share)) style="stroke-width:1" {}
            }
        }
        g.c0 { polyline.curve points=(curve(&frame, &slice.values, place)) {} }
    };
    let (column, outcome) = (visible(&slice.column), visible(outcome));
    let below = frame.below(&ticks((slice.low, slice.high), 8));
    let label = format!("{outcome} along {column}");
    Some(frame.picture(&label, &ticks((low, high), 6), below, [&column, &outcome], drawn))
}

/// Distance of our estimates and of pooled least squares from those of the rows without damage, a row a term.
pub(crate) fn comparison(rows: &[Comparison]) -> Option<Markup> {
    let away = |row: &Comparison, value: Option<f64>| {
        let error = row.pooled_std_error.filter(|error| *error > 0.0)?;
        Some((value? - row.undamaged?) / error).filter(|away| drawable(*away))
    };
    let shown: Vec<&Comparison> = rows.iter().filter(|row| away(row, row.estimate).is_some()).take(MOST_ROWS).collect();
    let all = shown.iter().flat_map(|row| [away(row, row.estimate), away(row, row.pooled)]).flatten();
    let (low, high) = range(all.chain([0.0]))?;
    if shown.is_empty() {
        return None;
    }
    let labels = label_width(shown.iter().map(|row| row.term.as_str()));
    let x = Scale::new((low, high), (labels + 24.0, WIDTH - 24.0));
    let top = 30.0;
    let bottom = top + ROW * shown.len() as f64;
    Some(html! {
        svg viewBox=(view_box(bottom + 44.0)) role="img" aria-label="Ours beside least squares of all rows" {
            @for (at, (class, name)) in [("c2", "ours"), ("c1", "least squares of all rows")].iter().enumerate() {
                g class=(class) {
                    circle.point cx=(px(labels + 30.0 + 110.0 * at as f64)) cy="11" r="4" {}
                    text.legend x=(px(labels + 40.0 + 110.0 * at as f64)) y="15" { (name) }
                }
            }
            (columns(&x, &ticks((low, high), 8), (top, bottom), 16.0))
            line.zero x1=(px(x.at(0.0))) x2=(px(x.at(0.0))) y1=(px(top)) y2=(px(bottom)) {}
            text.axis-name x=(px((labels + WIDTH) / 2.0)) y=(px(bottom + 36.0)) text-anchor="middle" { "standard errors from the rows without damage" }
            @for (at, row) in shown.iter().enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                (row_label(&row.term, labels, y))
                @for (class, value) in [("c1", row.pooled), ("c2", row.estimate)] {
                    @if let Some(away) = away(row, value) {
                        g class=(class) { circle.point cx=(px(x.at(away))) cy=(px(y)) r="4" {} }
                    }
                }
            }
        }
    })
}

/// Lines of the grid of a picture with a row a term, from top to bottom, with their labels so far below.
fn columns(x: &Scale, ticks: &[Tick], (top, bottom): (f64, f64), below: f64) -> Markup {
    html! {
        @for (tick, label) in ticks {
            line.grid x1=(px(x.at(*tick))) x2=(px(x.at(*tick))) y1=(px(top)) y2=(px(bottom)) {}
            text.tick x=(px(x.at(*tick))) y=(px(bottom + below)) text-anchor="middle" { (label) }
        }
    }
}

/// A share as a tick.
fn whole_percent(share: f64) -> Tick {
    (share, format!("{:.0} %", 100.0 * share))
}

fn label_width<'a>(terms: impl Iterator<Item = &'a str>) -> f64 {
    let longest = terms.map(|term| visible(term).chars().count()).max().unwrap_or(0);
    (longest.min(LABEL) as f64 * CHARACTER + 8.0).max(60.0)
}

fn row_label(term: &str, right: f64, y: f64) -> Markup {
    html! {
        text.label x=(px(right)) y=(px(y + 4.0)) text-anchor="end" { (shortened(term, LABEL)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_interval_ends_before_the_number_of_an_estimate_beyond_the_axis() {
        let x = Scale::new((-12.0, 12.0), (100.0, 340.0));
        assert_eq!(line((3.0, 2.0), 12.0, &x), Some((x.at(1.0), x.at(5.0))));
        // An arrow of 9, a gap, and `12.5`.
        let (from, to) = line((12.5, 6.0), 12.0, &x).unwrap();
        assert!(from == x.at(6.5) && to < 340.0 - 14.5 - 4.0 * CHARACTER, "{from} {to}");
        let (from, to) = line((-12.5, 6.0), 12.0, &x).unwrap();
        assert!(to == x.at(-6.5) && from > 100.0 + 14.5 + 5.0 * CHARACTER, "{from} {to}");
        // All that reaches in lies under the number.
        assert_eq!(line((13.0, 1.96), 12.0, &x), None);
        assert_eq!(line((30.0, 1.96), 12.0, &x), None);
    }
}
