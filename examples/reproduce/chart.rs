//! Lines over two axes, either of them logarithmic: for tables of simulations, paths and streams.

use fedreg_common::report::axes::{
    Frame, colour, nice_ticks, polyline, power_of_ten, px, range, shortened, spread, tick_label, view_box,
};
use fedreg_common::report::visible;
use maud::{Markup, PreEscaped, html};

/// Colours of a picture that stands alone, where no page gives them; the light ones of the page.
const ALONE: &str = concat!(
    "svg{font:12px system-ui,sans-serif;fill:#1c2024;background:#fff}",
    ".c0{--mark:#0072b2}.c1{--mark:#d55e00}.c2{--mark:#009e73}.c3{--mark:#8a8f98}",
    ".c4{--mark:#b6498f}.c5{--mark:#a67c00}.c6{--mark:#3f8fc9}.c7{--mark:#5b4db0}",
    "line.grid{stroke:#e8ebee}.axis{stroke:#5d666f}.tick,.axis-name{fill:#5d666f}",
    ".curve{fill:none;stroke:var(--mark);stroke-width:1.8;stroke-linejoin:round}.published .curve,.dashed .curve{stroke-dasharray:6 3}",
    ".point{fill:var(--mark)}.hollow{fill:#fff;stroke:var(--mark);stroke-width:1.8}",
    ".curve-name{fill:var(--mark);font-weight:600}.leader{stroke:var(--mark);opacity:.6}"
);

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// What it shows, with its unit.
    pub(crate) name: String,
    /// Whether equal distances are equal factors; values that are not positive are then left out.
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// Equal distances are equal differences.
    pub(crate) fn linear(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), logarithmic: false }
    }

    /// Equal distances are equal factors.
    pub(crate) fn logarithmic(name: impl Into<String>) -> Axis {
        Axis { name: name.into(), logarithmic: true }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let at = if self.logarithmic { value.log10() } else { value };
        (at.abs() < 1e300).then_some(at)
    }

    /// Positions on the axis with their labels.
    fn ticks(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        if !self.logarithmic {
            return nice_ticks(low, high, 7).into_iter().map(|tick| (tick, tick_label(tick))).collect();
        }
        let every = ((high - low) / 7.0).ceil().max(1.0) as i32;
        let factors: &[f64] = if high - low < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (low.floor() as i32..=high.ceil() as i32)
            .filter(|exponent| exponent % every == 0)
            .flat_map(|exponent| factors.iter().map(move |factor| (exponent, factor)))
            .map(|(exponent, factor)| {
                let at = f64::from(exponent) + factor.log10();
                let label = if (-4..5).contains(&exponent) {
                    tick_label(10_f64.powf(at))
                } else {
                    power_of_ten(f64::from(exponent))
                };
                (at, label)
            })
            .filter(|(at, _)| (low - 1e-9..=high + 1e-9).contains(at))
            .collect()
    }
}

/// A line with its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Stands at its end.
    pub(crate) name: String,
    /// In the order in which they are joined.
    pub(crate) points: Vec<(f64, f64)>,
    /// Which of eight colours; lines that belong together share one.
    pub(crate) colour: usize,
    /// How it is drawn.
    pub(crate) shape: Shape,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// With a mark at each of few points.
    Marked,
    /// Numbers from elsewhere: dashed with hollow marks.
    Published,
    /// Five points at one place, the least, the quartiles and the largest: a box with whiskers, a line at its middle.
    Box,
}

/// Half the width of a box.
const HALF_BOX: f64 = 6.0;

/// Lines over two axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// What it shows, for readers who do not see it.
    pub(crate) title: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// From bottom to top.
    pub(crate) y: Axis,
    /// The lines.
    pub(crate) lines: Vec<Line>,
}

impl Chart {
    /// A picture for a page that has the style sheet; nothing where no point can be drawn.
    pub(crate) fn picture(&self) -> Markup {
        let placed: Vec<Vec<(f64, f64)>> = self
            .lines
            .iter()
            .map(|line| line.points.iter().filter_map(|p| Some((self.x.place(p.0)?, self.y.place(p.1)?))).collect())
            .collect();
        let all = || placed.iter().flatten();
        let (Some(x), Some(y)) = (range(all().map(|p| p.0)), range(all().map(|p| p.1))) else {
            return html! {};
        };
        let frame = Frame::new(x, y, 64.0, 170.0);
        let named: Vec<(usize, f64)> = placed
            .iter()
            .enumerate()
            // Boxes of one kind share a name, which stands once.
            .filter(|(at, _)| !self.lines[*at].name.is_empty())
            .filter_map(|(at, points)| Some((at, frame.y.at(points.last()?.1))))
            .collect();
        let heights = spread(&named.iter().map(|(_, y)| *y).collect::<Vec<_>>(), 13.5, frame.top, frame.bottom);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view_box(frame.height())) role="img" aria-label=(self.title) {
                @for (at, label) in self.y.ticks(y.0, y.1) { (frame.horizontal(at, &label)) }
                @for (at, label) in self.x.ticks(x.0, x.1) { (frame.vertical(at, &label)) }
                (frame.names(&self.x.name, &self.y.name))
                @for (line, points) in self.lines.iter().zip(&placed) {
                    @let points: Vec<(f64, f64)> = points.iter().map(|p| (frame.x.at(p.0), frame.y.at(p.1))).collect();
                    g class=(class(line)) {
                        title { (visible(&line.name)) }
                        @if line.shape == Shape::Box {
                            polyline.curve points=(polyline(&boxed(&points))) {}
                        } @else {
                            polyline.curve points=(polyline(&points)) {}
                            @if points.len() <= 60 {
                                @for point in &points {
                                    circle class=(if line.shape == Shape::Published { "hollow" } else { "point" }) cx=(px(point.0)) cy=(px(point.1)) r="3" {}
                                }
                            }
                        }
                    }
                }
                @for ((at, end), height) in named.iter().zip(&heights) {
                    @let line = &self.lines[*at];
                    g class=(colour(line.colour)) {
                        line.leader x1=(px(frame.right)) x2=(px(frame.right + 10.0)) y1=(px(*end)) y2=(px(*height)) {}
                        text.curve-name x=(px(frame.right + 13.0)) y=(px(height + 4.0)) { (shortened(&line.name, 23)) }
                    }
                }
            }
        }
    }

    /// A file of its own.
    pub(crate) fn svg(&self) -> String {
        let picture = self.picture().into_string();
        match picture.split_once('>') {
            Some((head, rest)) => {
                let style = html! { style { (PreEscaped(ALONE)) } }.into_string();
                format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{head}>{style}{rest}\n")
            }
            None => picture,
        }
    }
}

fn class(line: &Line) -> String {
    let colour = colour(line.colour);
    if line.shape == Shape::Published { format!("{colour} published dashed") } else { colour }
}

/// The outline of a box with whiskers, from five points at one place; nothing of fewer.
fn boxed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let &[least, first, middle, third, most] = points else { return Vec::new() };
    let (left, right) = (middle.0 - HALF_BOX, middle.0 + HALF_BOX);
    // One stroke: up the lower whisker, around the lower half, the upper half, and up the upper whisker.
    let corners = [
        (left, first.1),
        (left, middle.1),
        (right, middle.1),
        (left, middle.1),
        (left, third.1),
        (right, third.1),
        (right, first.1),
        first,
    ];
    [least, first].into_iter().chain(corners).chain([(right, first.1), (right, third.1), third, most]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let line = |name: &str, points: &[(f64, f64)], published| Line {
            name: name.to_owned(),
            points: points.to_vec(),
            colour: 1,
            shape: if published { Shape::Published } else { Shape::Marked },
        };
        Chart {
            title: "error <against> budget".to_owned(),
            x: Axis::logarithmic("epsilon"),
            y: Axis::logarithmic("error"),
            lines: vec![
                line("ours & theirs", &[(0.5, 0.04), (1.0, 0.02), (3.0, 0.01), (0.0, 1.0), (f64::NAN, 1.0)], false),
                line("published", &[(0.5, 0.05), (3.0, 0.02)], true),
                line("nothing", &[], false),
            ],
        }
    }

    #[test]
    fn points_that_have_no_place_are_left_out_and_names_are_escaped() {
        let svg = chart().svg();
        assert_eq!(svg.matches("class=\"point\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"hollow\"").count(), 2);
        assert!(svg.contains("ours &amp; theirs") && svg.contains("&lt;against&gt;") && !svg.contains("NaN"));
        assert!(svg.starts_with("<?xml") && svg.contains("<style>") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(Chart { lines: vec![], ..chart() }.svg(), "");
    }

    #[test]
    fn a_box_has_its_whiskers_and_its_middle() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 5.0, 9.0].iter().map(|y| (10.0, *y)).collect();
        let outline = boxed(&points);
        assert_eq!((outline[0], outline[outline.len() - 1]), ((10.0, 1.0), (10.0, 9.0)));
        // The middle is crossed from side to side, and no whisker lies within the box.
        assert!(outline.windows(2).any(|pair| pair == [(4.0, 3.0), (16.0, 3.0)]));
        assert!(outline.iter().filter(|point| point.0 == 10.0).all(|point| [1.0, 2.0, 5.0, 9.0].contains(&point.1)));
        assert_eq!(boxed(&points[..4]), []);
    }

    #[test]
    fn logarithmic_ticks_are_round_and_inside() {
        let labels = |low: f64, high: f64| -> Vec<String> {
            Axis::logarithmic("x").ticks(low.log10(), high.log10()).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(0.5, 3.0), ["0.5", "1", "2"]);
        assert_eq!(labels(1e-6, 1.0), ["1e-06", "1e-05", "1e-04", "0.001", "0.01", "0.1", "1"]);
    }
}
