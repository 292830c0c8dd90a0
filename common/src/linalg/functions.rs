//! Exponential and logarithm without branches, so that loops over rows compute several at a time.
//!
//! The errors are a few units in the last place, as those of the standard library are one. Results are the same bits on every processor.

use std::f64::consts::{LN_2, LOG2_E};

/// 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The logarithm of 2 in two parts, of which the first times an integer of a few bits is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Beyond these the exponential is infinite, or zero.
const LEAST: f64 = -1000.0;
const MOST: f64 = 1000.0;

/// 1 / k! from 13 down to 0.
const EXPONENTIAL: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// 1 / (2 k + 1) from 11 down to 1.
const LOGARITHM: [f64; 11] = [
    1.0 / 23.0,
    1.0 / 21.0,
    1.0 / 19.0,
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
];

/// 2 to the power of an integer of size up to 1000.
#[inline(always)]
fn power_of_2(exponent: f64) -> f64 {
    f64::from_bits(((exponent + ROUND).to_bits() << 52).wrapping_add(1023 << 52))
}

/// A polynomial by Horner's rule, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[0];
    let mut at = 1;
    while at < N {
        sum = sum * x + coefficients[at];
        at += 1;
    }
    sum
}

/// The exponential.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    let whole = (x * LOG2_E + ROUND) - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let sum = polynomial(&EXPONENTIAL, rest);
    // In two parts, each of which is a normal number.
    let half = (0.5 * whole + ROUND) - ROUND;
    sum * power_of_2(half) * power_of_2(whole - half)
}

/// The logarithm of `1 + x`, for `x` between 0 and 1.
#[inline(always)]
pub(crate) fn ln_1p(x: f64) -> f64 {
    // ln(1 + x) = k ln 2 + 2 artanh(s), with k = 1 where 1 + x is nearer to 2.
    let upper = x > 0.414_213_562_373_095;
    let (over, under) = if upper { (x - 1.0, x + 3.0) } else { (x, x + 2.0) };
    let s = over / under;
    let square = s * s;
    let sum = polynomial(&LOGARITHM, square);
    let small = 2.0 * s + 2.0 * s * square * sum;
    if upper { LN_2 + small } else { small }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, ulps: f64) -> bool {
        found == expected || (found - expected).abs() <= ulps * f64::EPSILON * expected.abs() + 5e-324
    }

    #[test]
    fn functions_are_those_of_the_standard_library() {
        for step in -760_000..=720_000 {
            let x = f64::from(step) * 1e-3 + 1e-7 * f64::from(step % 977);
            assert!(close(exp(x), x.exp(), 2.0), "exp({x}) = {:e}, expected {:e}", exp(x), x.exp());
        }
        for x in [0.0, -0.0, 1e-300, f64::MIN_POSITIVE, -1e-17, 709.78, 709.79, 1e9, -745.2, -1e9] {
            assert!(close(exp(x), x.exp(), 2.0), "exp({x}) = {:e}, expected {:e}", exp(x), x.exp());
        }
        assert_eq!((exp(f64::INFINITY), exp(f64::NEG_INFINITY)), (f64::INFINITY, 0.0));
        assert!(exp(f64::NAN).is_nan());
        for step in 0..=1_000_000 {
            for x in [f64::from(step) * 1e-6, (-f64::from(step) * 7e-4).exp()] {
                assert!(close(ln_1p(x), x.ln_1p(), 2.0), "ln_1p({x}) = {:e}, expected {:e}", ln_1p(x), x.ln_1p());
            }
        }
    }
}
