//! What the values of typed columns stand for, beyond how they are stored.

use std::borrow::Cow;

use fedreg_common::data::{ColumnBuilder, DataError, Ids, Place, dates};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::data_type::Int96;
use parquet::schema::types::ColumnDescriptor;

use super::content::{number_value, text_value};

/// Most digits of a decimal: those that 16 bytes hold.
const MOST_DIGITS: i32 = 38;

/// The Julian day of 1970-01-01.
const JULIAN_1970: i64 = 2_440_588;

/// What is said of a date or a moment that is to be a number.
pub(super) const DERIVE: &str = "it can be an id; as a term, derive a number from it beforehand, such as an age in years or the days since a fixed day";

/// A cell of any table.
#[derive(Clone, Copy)]
pub(super) enum Cell<'a> {
    /// No value.
    Missing,
    /// As it is written in a text file: what it is, the whole column decides.
    Written(&'a [u8]),
    /// A truth value.
    Truth(bool),
    /// A floating-point number.
    Number(f64),
    /// A whole number and what it stands for.
    Whole(i128, Meaning),
    /// Text, even where it looks like a number.
    Text(&'a [u8]),
}

impl Cell<'_> {
    /// Appends it to a column.
    #[inline(always)]
    pub(super) fn into_column(self, column: &mut ColumnBuilder, place: Place) -> Result<(), DataError> {
        match self {
            Cell::Missing => {
                column.missing();
                Ok(())
            }
            Cell::Written(cell) => column.cell(cell, place),
            Cell::Truth(value) => column.boolean(value, place),
            Cell::Number(value) => column.number(value, place),
            Cell::Whole(value, meaning) => column.number(meaning.number(value), place),
            Cell::Text(text) => column.level(text, place),
        }
    }

    /// It as an id; nothing where it is none.
    pub(super) fn id(&self) -> Cow<'_, [u8]> {
        match self {
            Cell::Missing | Cell::Truth(_) | Cell::Number(_) => Cow::Borrowed(&[]),
            Cell::Written(text) | Cell::Text(text) => Cow::Borrowed(text),
            Cell::Whole(value, meaning) => Cow::Owned(meaning.id(*value).into_bytes()),
        }
    }

    /// Appends its value, by which cells of tables of different formats are compared.
    pub(super) fn put_value(&self, values: &mut Ids) {
        match self {
            Cell::Missing => values.push(&[]),
            Cell::Written(text) | Cell::Text(text) => values.push(&text_value(text)),
            Cell::Truth(value) => values.push(&text_value(value.to_string().as_bytes())),
            Cell::Number(value) => values.push(&number_value(*value)),
            Cell::Whole(value, meaning) => match meaning.time() {
                Some(_) => values.push(&text_value(meaning.id(*value).as_bytes())),
                None => values.push(&number_value(meaning.number(*value))),
            },
        }
    }
}

/// What a whole number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What it is stored as.
    Plain,
    /// A whole number without sign, in the bits of a signed one.
    Unsigned,
    /// A whole number of units of the last decimal.
    Decimal {
        /// Its digits after the point.
        scale: u32,
    },
    /// Days since 1970.
    Date,
    /// Units of time since 1970.
    Moment {
        /// How many of them make a second.
        per_second: u32,
        /// Whether they count in UTC.
        utc: bool,
    },
}

/// What timestamps of old writers stand for, once they are counted from 1970.
const OLD_MOMENT: Meaning = Meaning::Moment { per_second: 1_000_000_000, utc: false };

impl Meaning {
    /// What the values of a column stand for; the name of their type where it has no place in a table.
    // Types that Parquet has beside these annotate columns that are read as they are stored.
    #[allow(clippy::wildcard_enum_match_arm)]
    pub(super) fn of(descriptor: &ColumnDescriptor) -> Result<Meaning, &'static str> {
        let whole = matches!(descriptor.physical_type(), Type::INT32 | Type::INT64);
        let decimal =
            |precision: i32, scale: i32| match (u32::try_from(scale), scale <= precision && precision <= MOST_DIGITS) {
                (Ok(scale), true) => Ok(Meaning::Decimal { scale }),
                _ => Err("decimal of more than 38 digits"),
            };
        let meaning = match descriptor.logical_type_ref() {
            Some(LogicalType::Decimal(decimals)) => decimal(decimals.precision, decimals.scale)?,
            Some(LogicalType::Date) => Meaning::Date,
            Some(LogicalType::Timestamp(time)) => {
                let per_second = match time.unit {
                    TimeUnit::MILLIS => 1000,
                    TimeUnit::MICROS => 1_000_000,
                    TimeUnit::NANOS => 1_000_000_000,
                };
                Meaning::Moment { per_second, utc: time.is_adjusted_to_u_t_c }
            }
            Some(LogicalType::Time(_)) => return Err("time"),
            Some(LogicalType::Bson) => return Err("BSON"),
            Some(LogicalType::Uuid) => return Err("UUID"),
            Some(LogicalType::Float16) => return Err("half-precision number"),
            Some(LogicalType::Integer(integer)) if !integer.is_signed => Meaning::Unsigned,
            // A column of nulls only has a type of its own.
            Some(
                LogicalType::String
                | LogicalType::Enum
                | LogicalType::Json
                | LogicalType::Integer(_)
                | LogicalType::Unknown,
            ) => Meaning::Plain,
            Some(_) => return Err("unknown to this reader"),
            None => match descriptor.converted_type() {
                ConvertedType::DECIMAL => decimal(descriptor.type_precision(), descriptor.type_scale())?,
                ConvertedType::DATE => Meaning::Date,
                ConvertedType::TIMESTAMP_MILLIS => Meaning::Moment { per_second: 1000, utc: true },
                ConvertedType::TIMESTAMP_MICROS => Meaning::Moment { per_second: 1_000_000, utc: true },
                ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS => return Err("time"),
                ConvertedType::INTERVAL => return Err("interval"),
                ConvertedType::BSON => return Err("BSON"),
                ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
                    Meaning::Unsigned
                }
                _ => Meaning::Plain,
            },
        };
        match (meaning, descriptor.physical_type()) {
            (_, Type::INT96) => Ok(OLD_MOMENT),
            (Meaning::Decimal { .. }, Type::FIXED_LEN_BYTE_ARRAY) if !(1..=16).contains(&descriptor.type_length()) => {
                Err("decimal of more than 38 digits")
            }
            (Meaning::Decimal { .. }, Type::FIXED_LEN_BYTE_ARRAY | Type::BYTE_ARRAY) => Ok(meaning),
            (_, Type::FIXED_LEN_BYTE_ARRAY) => Err("bytes of fixed length"),
            (Meaning::Plain, _) => Ok(meaning),
            (_, _) if whole => Ok(meaning),
            _ => Err("unknown to this reader"),
        }
    }

    /// The name of a type that is a date or a moment.
    pub(super) fn time(self) -> Option<&'static str> {
        match self {
            Meaning::Date => Some("date"),
            Meaning::Moment { .. } => Some("timestamp"),
            Meaning::Plain | Meaning::Unsigned | Meaning::Decimal { .. } => None,
        }
    }

    pub(super) fn of_32(self, value: i32) -> i128 {
        if self == Meaning::Unsigned { i128::from(value as u32) } else { i128::from(value) }
    }

    pub(super) fn of_64(self, value: i64) -> i128 {
        if self == Meaning::Unsigned { i128::from(value as u64) } else { i128::from(value) }
    }

    /// A stored whole number as a number, rounded once.
    pub(super) fn number(self, value: i128) -> f64 {
        match self {
            // Reading the digits rounds once, and dividing what was rounded would do it again.
            Meaning::Decimal { scale } if scale > 0 => decimal(value, scale).parse().unwrap_or(f64::NAN),
            Meaning::Plain | Meaning::Unsigned | Meaning::Decimal { .. } | Meaning::Date | Meaning::Moment { .. } => {
                value as f64
            }
        }
    }

    /// A stored whole number as an id.
    pub(super) fn id(self, value: i128) -> String {
        match self {
            Meaning::Decimal { scale } => decimal(value, scale),
            Meaning::Date => dates::date(i64::try_from(value).unwrap_or(i64::MAX)),
            Meaning::Moment { per_second, utc } => dates::timestamp(value, per_second, utc),
            Meaning::Plain | Meaning::Unsigned => value.to_string(),
        }
    }
}

/// All digits of a decimal.
fn decimal(value: i128, scale: u32) -> String {
    let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs().to_string());
    let scale = scale as usize;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// A whole number from its bytes, the highest first; `None` where there are more than 16.
pub(super) fn whole(bytes: &[u8]) -> Option<i128> {
    let first = bytes.len().checked_sub(1).map(|_| bytes[0])?;
    if bytes.len() > 16 {
        return None;
    }
    let mut wide = [if first & 0x80 == 0 { 0 } else { 0xff }; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Nanoseconds since 1970 of a timestamp of old writers.
pub(super) fn nanoseconds(value: &Int96) -> i128 {
    let &[low, high, day] = value.data() else { return 0 };
    let nanoseconds = i128::from((u64::from(high) << 32 | u64::from(low)) as i64);
    let days = i128::from(i64::from(day) - JULIAN_1970);
    days * 86_400_000_000_000 + nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_all_their_digits_and_are_rounded_once() {
        assert_eq!(decimal(-1250, 2), "-12.50");
        assert_eq!(decimal(5, 3), "0.005");
        assert_eq!(decimal(7, 0), "7");
        assert_eq!(decimal(i128::MIN, 38), "-1.70141183460469231731687303715884105728");
        let number = |value, scale| Meaning::Decimal { scale }.number(value);
        assert_eq!([number(-1250, 2), number(5, 3), number(7, 0)], [-12.5, 0.005, 7.0]);
        // 2^53 + 1 tenths: dividing the rounded numerator gives another neighbour.
        assert_eq!(number(9_007_199_254_740_993, 1), 900_719_925_474_099.3);
        assert_eq!(number(123_456_789_012_345_678_901_234_567, 20), 1_234_567.890_123_456_8);
    }

    #[test]
    fn bytes_are_whole_numbers_with_the_highest_first() {
        assert_eq!(whole(&[]), None);
        assert_eq!(whole(&[0xff]), Some(-1));
        assert_eq!(whole(&[0x01, 0x00]), Some(256));
        assert_eq!(whole(&[0x80, 0x00]), Some(-32_768));
        assert_eq!(whole(&[0x7f; 16]), Some(i128::from_be_bytes([0x7f; 16])));
        assert_eq!(whole(&[0; 17]), None);
    }

    #[test]
    fn timestamps_of_old_writers_count_from_a_julian_day() {
        let at = |nanoseconds: u64, day: u32| {
            let value = Int96::from(vec![nanoseconds as u32, (nanoseconds >> 32) as u32, day]);
            OLD_MOMENT.id(super::nanoseconds(&value))
        };
        assert_eq!(at(0, 2_440_588), "1970-01-01T00:00:00");
        assert_eq!(at(30_600_250_000_000, 2_460_341), "2024-01-31T08:30:00.25");
        assert!(!at(u64::MAX, u32::MAX).is_empty() && !at(0, 0).is_empty());
    }
}
