//! Numbers for people: rounded and aligned the way R prints them.

use crate::names::is_hidden;

/// What stands for an undefined number.
pub(crate) const UNDEFINED: &str = "NA";

/// Formats numbers that stand in one column with a common number of decimals, so that the one which needs most of them
/// shows `digits` significant digits; scientific where that is narrower. What is not finite is `NA`.
///
/// # Reference
/// The rule of R's `format.default`: trailing zeros that no number needs go, and fixed notation wins ties.
pub(crate) fn column(values: &[Option<f64>], digits: usize) -> Vec<String> {
    let digits = digits.max(1);
    let mut any = false;
    let mut negative = false;
    let (mut left, mut decimals, mut significant) = (1_i32, 0_i32, 1_i32);
    let (mut largest_exponent, mut smallest_exponent) = (i32::MIN, i32::MAX);
    for x in values.iter().flatten().copied().filter(|x| x.is_finite()) {
        any = true;
        let (exponent, needed) = shape(x, digits);
        negative |= x < 0.0;
        left = left.max(i32::from(x < 0.0) + (exponent + 1).max(1));
        decimals = decimals.max(needed - exponent - 1);
        significant = significant.max(needed);
        largest_exponent = largest_exponent.max(exponent);
        smallest_exponent = smallest_exponent.min(exponent);
    }
    let mantissa = (significant - 1).max(0);
    let long_exponent = any && (largest_exponent >= 100 || smallest_exponent <= -100);
    let scientific_width =
        i32::from(negative) + 1 + i32::from(mantissa > 0) + mantissa + if long_exponent { 5 } else { 4 };
    let fixed_width = left + decimals + i32::from(decimals > 0);
    let fixed = fixed_width <= scientific_width;
    values
        .iter()
        .map(|value| match value {
            Some(x) if x.is_finite() && fixed => format!("{x:.*}", decimals.max(0) as usize),
            Some(x) if x.is_finite() => exponential(*x, mantissa as usize),
            _ => UNDEFINED.to_string(),
        })
        .collect()
}

/// One number by the rule of [`column`].
pub(crate) fn single(value: Option<f64>, digits: usize) -> String {
    column(&[value], digits).swap_remove(0)
}

/// Scientific notation with an exponent of at least two digits, as in `3.1e-09`.
pub(crate) fn exponential(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, size) = match exponent.strip_prefix('-') {
                Some(size) => ('-', size),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{size:0>2}")
        }
        None => UNDEFINED.to_string(),
    }
}

/// A measure of convergence, `3.1e-09`; `NA` if undefined, `0` if zero.
pub(crate) fn small(value: Option<f64>) -> String {
    match value {
        Some(0.0) => "0".to_string(),
        Some(x) if x.is_finite() => exponential(x, 1).replace(".0e", "e"),
        _ => UNDEFINED.to_string(),
    }
}

/// Rounds to decimals as printing would.
pub(crate) fn round(x: f64, decimals: i32) -> f64 {
    if !x.is_finite() || decimals > 300 {
        return x;
    }
    format!("{x:.*}", decimals.max(0) as usize).parse().unwrap_or(x)
}

/// Rounds to significant digits.
pub(crate) fn significant(x: f64, digits: usize) -> f64 {
    if !x.is_finite() {
        return x;
    }
    format!("{x:.*e}", digits.max(1) - 1).parse().unwrap_or(x)
}

/// The decimal exponent after rounding to `digits` significant digits, and how many of those are needed.
pub(crate) fn shape(x: f64, digits: usize) -> (i32, i32) {
    if x == 0.0 {
        return (0, 1);
    }
    let text = format!("{:.*e}", digits - 1, x.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let needed = mantissa.trim_end_matches('0').chars().filter(char::is_ascii_digit).count();
    (exponent.parse().unwrap_or(0), needed.max(1) as i32)
}

/// A whole number with separators between thousands.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in decimal units: `35.4 kB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = n as f64;
    let mut unit = 0;
    // 999.95 would print as 1000.0.
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ => format!("{size:.1} {}", UNITS[unit]),
    }
}

/// A share from 0 to 1 as a percentage that says 100 % or 0 % only when it is.
pub(crate) fn percent(share: f64) -> String {
    if !share.is_finite() {
        UNDEFINED.to_string()
    } else if share >= 1.0 - 1e-9 {
        "100 %".to_string()
    } else if share >= 0.9995 {
        ">99.9 %".to_string()
    } else if share <= 0.0 {
        "0 %".to_string()
    } else if share < 0.0005 {
        "<0.1 %".to_string()
    } else {
        format!("{:.1} %", 100.0 * share)
    }
}

/// A number of a privacy account, to six significant digits.
pub(crate) fn plain_number(x: f64) -> String {
    match shape(x, 6) {
        (exponent, digits) if x.is_finite() && exponent.abs() > 6 => exponential(x, (digits - 1) as usize),
        _ => single(Some(x).filter(|x| x.is_finite()), 6),
    }
}

/// Wall-clock seconds with a unit that suits them.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        UNDEFINED.to_string()
    } else if seconds == 0.0 {
        "0 s".to_string()
    } else if seconds < 0.0995 {
        let milliseconds = seconds * 1e3;
        if milliseconds < 1.0 { "<1 ms".to_string() } else { format!("{milliseconds:.0} ms") }
    } else if seconds < 99.95 {
        format!("{seconds:.1} s")
    } else if seconds < 5999.5 {
        format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor())
    } else {
        format!("{:.0} h {:02.0} min", (seconds / 3600.0).floor(), (seconds % 3600.0 / 60.0).floor())
    }
}

/// A name that came with data, made safe for a terminal and for one line: control characters and those that turn the
/// direction of writing are shown as escapes.
pub fn visible(name: &str) -> String {
    name.chars()
        .flat_map(|c| {
            let (escaped, plain) = if is_hidden(c) { (Some(c.escape_default()), None) } else { (None, Some(c)) };
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(values: &[f64], digits: usize) -> Vec<String> {
        column(&values.iter().copied().map(Some).collect::<Vec<_>>(), digits)
    }

    // Expected strings were printed by R 4: format(c(...), digits = d), without the padding.
    #[test]
    fn numbers_in_a_column_are_formatted_as_r_formats_them() {
        assert_eq!(formatted(&[152.1335, -10.0099], 4), ["152.13", "-10.01"]);
        assert_eq!(formatted(&[1.0, 10.0, 100.0], 7), ["1", "10", "100"]);
        assert_eq!(formatted(&[1e-10, 1.0], 4), ["1e-10", "1e+00"]);
        assert_eq!(formatted(&[123456.0], 3), ["123456"]);
        assert_eq!(formatted(&[0.00001], 4), ["1e-05"]);
        assert_eq!(formatted(&[0.0001234], 3), ["0.000123"]);
        assert_eq!(formatted(&[1e100, 1.5], 4), ["1.0e+100", "1.5e+00"]);
        assert_eq!(formatted(&[99999.7], 4), ["1e+05"]);
        assert_eq!(formatted(&[0.0, -0.5], 4), ["0.0", "-0.5"]);
        assert_eq!(formatted(&[2621009.0, 1263985.75], 5), ["2621009", "1263986"]);
    }

    #[test]
    fn what_is_not_finite_is_undefined_and_changes_no_neighbour() {
        assert_eq!(column(&[Some(f64::NAN), None, Some(f64::INFINITY), Some(1.25)], 4), ["NA", "NA", "NA", "1.25"]);
        assert_eq!(column(&[], 4), Vec::<String>::new());
        assert_eq!(single(Some(f64::MAX), 4), "1.798e+308");
        assert_eq!(single(Some(5e-324), 4), "4.941e-324");
    }

    #[test]
    fn a_percentage_says_all_or_nothing_only_when_it_is() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.99999), ">99.9 %");
        assert_eq!(percent(0.999), "99.9 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(f64::NAN), "NA");
    }

    #[test]
    fn sizes_and_times_carry_their_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(bytes(35_412), "35.4 kB");
        assert_eq!(bytes(u64::MAX), "18446.7 PB");
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(123_456), "123,456");
        assert_eq!(duration(0.0123), "12 ms");
        assert_eq!(duration(0.0999), "0.1 s");
        assert_eq!(duration(61.0), "61.0 s");
        assert_eq!(duration(119.99), "1 min 59 s");
        assert_eq!(duration(7300.0), "2 h 01 min");
        assert_eq!(duration(f64::NAN), "NA");
    }

    #[test]
    fn control_and_direction_characters_become_visible() {
        assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(visible("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(visible("größe 体重"), "größe 体重");
    }
}
