//! What every picture with axes is made of: scales, ticks, a frame, and labels that find their place.

use maud::{Markup, html};

use super::number::{significant, single, visible};

/// Width of every picture in its own units; one is a CSS pixel when the page is wide enough.
pub(super) const WIDTH: f64 = 760.0;
/// Height of a picture with two axes, without its margins.
const HEIGHT: f64 = 230.0;

/// Whether a number can stand on an axis: widths of intervals of larger ones are not finite.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() < 1e300
}

/// The smallest interval that holds the values, widened if it is a point. `None` without values.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| drawable(*value)) {
        low = low.min(value);
        high = high.max(value);
    }
    if !low.is_finite() {
        return None;
    }
    if high - low <= 1e-12 * high.abs().max(low.abs()) {
        let half = if low == 0.0 { 1.0 } else { 0.5 * low.abs() };
        return Some((low - half, high + half));
    }
    Some((low, high))
}

/// A linear map from values to positions.
#[derive(Debug)]
pub struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    pub(super) fn new(from: (f64, f64), to: (f64, f64)) -> Scale {
        Scale { from, to }
    }

    /// The position of a value.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value - self.from.0) / (self.from.1 - self.from.0);
        // Numbers so large or so close that they have no place stand in the middle: a picture must not break the page.
        let share = if share.is_finite() { share } else { 0.5 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// The position, no farther out than the ends.
    pub(super) fn within(&self, value: f64) -> f64 {
        self.at(value.clamp(self.from.0, self.from.1))
    }
}

/// A picture with two axes.
#[derive(Debug)]
pub struct Frame {
    /// From left to right.
    pub x: Scale,
    /// From bottom to top.
    pub y: Scale,
    pub(super) left: f64,
    /// Where the horizontal axis ends.
    pub right: f64,
    /// Where the vertical axis ends.
    pub top: f64,
    /// Where both begin.
    pub bottom: f64,
}

impl Frame {
    /// For these intervals of values, with so much room at the left and at the right for labels.
    pub fn new(x: (f64, f64), y: (f64, f64), left: f64, right: f64) -> Frame {
        let (right, top) = (WIDTH - right, 34.0);
        let bottom = top + HEIGHT;
        // Air around the outermost points.
        let room = 0.04 * (y.1 - y.0);
        Frame {
            x: Scale::new(x, (left + 8.0, right - 8.0)),
            y: Scale::new((y.0 - room, y.1 + room), (bottom, top)),
            left,
            right,
            top,
            bottom,
        }
    }

    /// Of the whole picture.
    pub fn height(&self) -> f64 {
        self.bottom + 46.0
    }

    /// A picture of this name: the grid at round values of the vertical axis, `below` on the lower one, the names of both, and
    /// what is drawn.
    pub(super) fn picture(&self, label: &str, grid: &[Tick], below: Markup, names: [&str; 2], drawn: Markup) -> Markup {
        html! {
            svg viewBox=(view_box(self.height())) role="img" aria-label=(label) {
                @for (value, label) in grid { (self.horizontal(*value, label)) }
                (below)
                (self.names(names[0], names[1]))
                (drawn)
            }
        }
    }

    /// Ticks of the lower axis.
    pub(super) fn below(&self, ticks: &[Tick]) -> Markup {
        html! { @for (value, label) in ticks { (self.vertical(*value, label)) } }
    }

    /// A line of the grid with its label.
    pub fn horizontal(&self, value: f64, label: &str) -> Markup {
        let y = px(self.y.at(value));
        html! {
            line.grid x1=(px(self.left)) x2=(px(self.right)) y1=(y) y2=(y) {}
            text.tick x=(px(self.left - 8.0)) y=(px(self.y.at(value) + 4.0)) text-anchor="end" { (label) }
        }
    }

    /// A tick of the lower axis with its label.
    pub fn vertical(&self, value: f64, label: &str) -> Markup {
        let x = px(self.x.at(value));
        html! {
            line.axis x1=(x) x2=(x) y1=(px(self.bottom)) y2=(px(self.bottom + 4.0)) {}
            text.tick x=(x) y=(px(self.bottom + 18.0)) text-anchor="middle" { (label) }
        }
    }

    /// The lower axis and the names of both; the name of the vertical one stands above it, where it reads without turning.
    pub fn names(&self, horizontal: &str, vertical: &str) -> Markup {
        html! {
            line.axis x1=(px(self.left)) x2=(px(self.right)) y1=(px(self.bottom)) y2=(px(self.bottom)) {}
            text.axis-name x=(px((self.left + self.right) / 2.0)) y=(px(self.bottom + 38.0)) text-anchor="middle" { (horizontal) }
            text.axis-name x="4" y="12" { (vertical) }
        }
    }
}

/// Round numbers within an interval, about as many as asked for.
pub fn nice_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let raw = (high - low) / about.max(1) as f64;
    if !(raw.is_finite() && raw > 0.0) {
        return Vec::new();
    }
    let power = 10_f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= raw * 0.999).unwrap_or(raw);
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    if !(step > 0.0 && first.is_finite() && last.is_finite() && last - first < 100.0) {
        return Vec::new();
    }
    (0..=(last - first) as i32)
        // Adding zero turns minus zero into zero.
        .map(|k| (first + f64::from(k)) * step + 0.0)
        .collect()
}

/// A place on an axis with what stands there.
pub(super) type Tick = (f64, String);

/// Round numbers within an interval with their labels.
pub(super) fn ticks((low, high): (f64, f64), about: usize) -> Vec<Tick> {
    nice_ticks(low, high, about).into_iter().map(|tick| (tick, tick_label(tick))).collect()
}

/// Whole numbers within an interval with their labels.
pub(super) fn whole_ticks(interval: (f64, f64)) -> Vec<Tick> {
    let mut ticks = ticks(interval, 10);
    ticks.retain(|(tick, _)| tick.fract() == 0.0);
    ticks
}

/// Powers of ten between two exponents, at most seven of them, with their labels.
pub(super) fn power_ticks((low, high): (f64, f64)) -> Vec<Tick> {
    let every = ((high - low) / 6.0).ceil().max(1.0);
    let exponents = (0..=((high - low) / every) as i32).map(|k| low + f64::from(k) * every);
    exponents.map(|exponent| (exponent, power_of_ten(exponent))).collect()
}

/// A tick's number without the digits that rounding left in it.
pub fn tick_label(value: f64) -> String {
    let value = significant(value, 6);
    single(Some(value), 6)
}

/// `1e+03` for 3.
pub fn power_of_ten(exponent: f64) -> String {
    match exponent as i32 {
        0 => "1".to_string(),
        exponent => format!("1e{exponent:+03}"),
    }
}

/// Moves labels apart, keeping their order and staying within the picture where they fit.
pub fn spread(wanted: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut placed = wanted.to_vec();
    let mut limit = f64::NEG_INFINITY;
    for &at in &order {
        placed[at] = placed[at].max(limit).max(top);
        limit = placed[at] + apart;
    }
    limit = bottom;
    for &at in order.iter().rev() {
        placed[at] = placed[at].min(limit);
        limit = placed[at] - apart;
    }
    placed
}

/// A name of at most a given number of characters; the middle goes, since levels of one column differ at the end.
pub fn shortened(term: &str, most: usize) -> String {
    let characters: Vec<char> = visible(term).chars().collect();
    if characters.len() <= most {
        return characters.into_iter().collect();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    let mut text: String = characters[..head].iter().collect();
    text.push('…');
    text.extend(&characters[characters.len() - tail..]);
    text
}

/// The points of an SVG `polyline`.
pub fn polyline(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
    points.join(" ")
}

/// The `viewBox` of a picture of this height.
pub fn view_box(height: f64) -> String {
    format!("0 0 {} {}", px(WIDTH), px(height))
}

/// A position to a tenth, without needless decimals.
pub fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_string(),
        Some(whole) => whole.to_string(),
        None => text,
    }
}

/// One of eight colours; lines after the eighth are dashed, so that no two of sixteen look alike.
pub fn colour(at: usize) -> String {
    let dashed = if at / 8 % 2 == 1 { " dashed" } else { "" };
    format!("c{}{dashed}", at % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(nice_ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(nice_ticks(-12.0, 12.0, 7), [-10.0, -5.0, 0.0, 5.0, 10.0]);
        assert_eq!(nice_ticks(1.0, 1.0, 5), Vec::<f64>::new());
        assert_eq!(nice_ticks(f64::NAN, 1.0, 5), Vec::<f64>::new());
        assert_eq!(tick_label(0.6000000000000001), "0.6");
    }

    #[test]
    fn labels_move_apart_and_keep_their_order() {
        let placed = spread(&[50.0, 50.0, 51.0, 0.0], 10.0, 0.0, 60.0);
        assert!(placed[0] < placed[1] && placed[1] < placed[2], "{placed:?}");
        assert_eq!(placed[3], 0.0);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 10.0), "{sorted:?}");
        assert!(sorted[3] <= 60.0);
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("region_of_birth_north-east", 11), "regio…-east");
        assert_eq!(shortened("short", 11), "short");
    }
}
