//! Which texts are dates or timestamps, and how typed files' ones are written.

/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// Whether a text is a date, with or without a time of day: `2024-01-31`, `31.1.2024`, `1/31/2024`, `2024-01-31T08:30:00Z`.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '/' | '.'))).unwrap_or(text.len());
    let (day, time) = text.split_at(end);
    let Some(separator) = day.chars().find(|c| !c.is_ascii_digit()) else { return false };
    let parts: Vec<&str> = day.split(separator).collect();
    let number = |part: &str, most: usize| match (1..=most).contains(&part.len()) {
        true => part.parse::<u16>().ok(),
        false => None,
    };
    let (year, two) = match parts[..] {
        [year, a, b] if year.len() == 4 => (number(year, 4), [number(a, 2), number(b, 2)]),
        [a, b, year] if year.len() == 4 => (number(year, 4), [number(a, 2), number(b, 2)]),
        _ => return false,
    };
    let [Some(a), Some(b)] = two else { return false };
    year.is_some() && a.min(b) >= 1 && a.min(b) <= 12 && a.max(b) <= 31 && is_time(time)
}

/// Whether a text is a time of day as it follows a date, or nothing.
fn is_time(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['T', ' ']) else { return text.is_empty() };
    let bytes = rest.as_bytes();
    let known =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b',' | b'+' | b'-' | b' ' | b'Z' | b'z');
    bytes.len() >= 5
        && bytes.len() <= 40
        && bytes[0].is_ascii_digit()
        && bytes[1].is_ascii_digit()
        && bytes[2] == b':'
        && bytes.iter().all(known)
}

/// A day counted from 1970-01-01, as `2024-01-31`.
///
/// # Reference
///
/// Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub fn date(day: i64) -> String {
    let day = day.saturating_add(TO_1970);
    let (era, of_era) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March, so that the leap day is the last of them.
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day_of_month:02}", year.unsigned_abs())
}

/// A moment counted from 1970-01-01 in units of which a second has `per_second`, as `2024-01-31T08:30:00.25`; the fraction
/// only where there is one, so that one moment has one text whatever the unit is. `utc` appends `Z`.
pub fn timestamp(count: i128, per_second: u32, utc: bool) -> String {
    let per_second = i128::from(per_second.max(1));
    let (seconds, rest) = (count.div_euclid(per_second), count.rem_euclid(per_second));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let day = date(i64::try_from(day).unwrap_or(if day < 0 { i64::MIN } else { i64::MAX }));
    let mut text = format!("{day}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    if rest > 0 {
        let digits = per_second.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    if utc {
        text.push('Z');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_are_told_from_other_texts() {
        for text in [
            "2024-01-31",
            " 2024-1-3 ",
            "31.1.2024",
            "1/31/2024",
            "31/01/2024",
            "2024/12/31",
            "2024-01-31 08:30",
            "2024-01-31T08:30:00Z",
            "2024-01-31T08:30:00.123456+02:00",
            "31.12.1999 23:59:59",
        ] {
            assert!(is_date(text), "{text}");
        }
        for text in [
            "",
            "2024",
            "2024-01",
            "north",
            "1.5",
            "13.13.2024",
            "2024-00-01",
            "2024-01-32",
            "192.168.0.1",
            "2024-01-31x",
            "2024-01-31T",
            "P-1-2024x",
            "24-01-31",
            "1-2-3-2024",
            "2024-01.31",
            "+2024-01-01",
            "2024-+1-01",
            "größe",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }

    /// Expected: `datetime.date.fromordinal(719163 + day)` in Python 3, and `datetime.fromtimestamp` in UTC.
    #[test]
    fn days_and_moments_of_typed_files_are_written_as_the_calendar_has_them() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_753, "2024-01-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
            (-25_508, "1900-03-01"),
            (-25_509, "1900-02-28"),
            (2_932_896, "9999-12-31"),
            (-719_162, "0001-01-01"),
        ] {
            assert_eq!(date(day), expected);
        }
        assert_eq!(timestamp(1_706_689_800, 1, true), "2024-01-31T08:30:00Z");
        assert_eq!(timestamp(1_706_689_800_250, 1000, false), "2024-01-31T08:30:00.25");
        assert_eq!(timestamp(1_706_689_800_250_000, 1_000_000, false), "2024-01-31T08:30:00.25");
        assert_eq!(timestamp(-1, 1_000_000_000, true), "1969-12-31T23:59:59.999999999Z");
        for count in [i128::MIN, i128::from(i64::MIN), i128::MAX] {
            for per_second in [0, 1, 1000, 1_000_000_000] {
                assert!(!timestamp(count, per_second, true).is_empty());
            }
        }
        assert!(!date(i64::MAX).is_empty() && !date(i64::MIN).is_empty());
    }
}
