//! Tails and quantiles of sampling laws that hold for any number of rows.
//!
//! `statrs` has them too, and is used where it is exact. Its quantile of Student's t loses digits with the degrees of freedom (five are
//! left at a million, one at ten million) and comes to no end above; that of the chi-squared law with one degree is no number below
//! .05, and others are off by thousandths or come to no end; its tail of the normal law has ten digits, and its beta law of large
//! parameters two in the middle.

use std::f64::consts::{PI, SQRT_2};

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

/// From so many degrees of freedom on Student's t is taken by its distance to the normal law.
const MANY: f64 = 1000.0;
/// Most steps towards a quantile: halving alone takes a hundred.
const STEPS: usize = 400;
/// Most terms of a continued fraction.
const TERMS: u32 = 100_000;

/// The probability that a standard normal value lies at least this far from 0 on either side.
pub(crate) fn normal_beyond(z: f64) -> f64 {
    libm::erfc(z.abs() / SQRT_2)
}

/// The probability that a standard normal value lies above this one. Noise is calibrated by [`crate::privacy::accountant::normal_tail`], the
/// same law by a slower sum, whose bits stay.
pub(crate) fn normal_above(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// Student's t with a number of degrees of freedom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Student(f64);

impl Student {
    /// The law; `None` where the degrees of freedom are not above 0 and finite.
    pub(crate) fn new(df: f64) -> Option<Student> {
        (df > 0.0 && df.is_finite()).then_some(Student(df))
    }

    /// The probability of a value at least this far from 0 on either side.
    pub(crate) fn beyond(self, t: f64) -> f64 {
        let Student(df) = self;
        let whole = df + t * t;
        // Of what overflows nothing is beyond.
        if whole.is_infinite() { 0.0 } else { beta(df / 2.0, 0.5, df / whole, t * t / whole).0 }
    }

    /// The value that a share of the law, above one half, lies below.
    pub(crate) fn quantile(self, share: f64) -> f64 {
        let Student(df) = self;
        let normal = Normal::standard().inverse_cdf(share);
        if df < MANY {
            let sides = |t: f64| {
                let above = self.beyond(t) / 2.0;
                (1.0 - above, above)
            };
            return quantile(share, (normal.ln(), 0.1), f64::exp, sides).unwrap_or(f64::NAN);
        }
        // The distance to the normal law is small and flat: each step leaves less than a thousandth of what the one before left.
        let z = (0..8).fold(normal, |z, _| normal + (z - as_normal(z, df)));
        (df * (z * z / (df - 0.5)).exp_m1()).sqrt()
    }
}

/// Hill (1970), Communications of the ACM 13, algorithm 395: a value `sqrt((df - 1/2) ln(1 + t^2 / df))` on the scale of the normal law.
fn as_normal(z: f64, df: f64) -> f64 {
    let b = 48.0 * (df - 0.5).powi(2);
    let square = z * z;
    let third = (((4.0 * square + 33.0) * square + 240.0) * square + 855.0) * z;
    z + (square + 3.0) * z / b - third / (10.0 * b * (b + 0.8 * square * square + 100.0))
}

/// The value that a share of the chi-squared law lies below; `None` where the degrees of freedom or the share are out of range.
pub(crate) fn chi_squared_quantile(df: f64, share: f64) -> Option<f64> {
    let law = ChiSquared::new(df).ok().filter(|_| df.is_finite())?;
    let spread = (2.0 / df).sqrt();
    quantile(share, (df.ln(), spread), f64::exp, |x| (law.cdf(x), law.sf(x)))
}

/// The value that a share of the beta law lies below; `None` where its parameters or the share are out of range.
pub(crate) fn beta_quantile(a: f64, b: f64, share: f64) -> Option<f64> {
    if !(a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite()) {
        return None;
    }
    let spread = (1.0 / a + 1.0 / b).sqrt();
    let logistic = |y: f64| if y < 0.0 { y.exp() / (1.0 + y.exp()) } else { 1.0 / (1.0 + (-y).exp()) };
    let of = |y: f64| (logistic(y), logistic(-y));
    quantile(share, ((a / b).ln(), spread), of, |(x, rest)| beta(a, b, x, rest)).map(|(x, _)| x)
}

/// The probabilities below and above `x` of the beta law; `rest` is `1 - x`, with its own digits.
pub(crate) fn beta(a: f64, b: f64, x: f64, rest: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    if rest <= 0.0 {
        return (1.0, 0.0);
    }
    if x.is_nan() || rest.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    let density = beta_density(a, b, x, rest);
    // How far the mean lies above x, from the smaller parameter, which keeps its digits.
    let above = if a > b { (a + b) * rest - b } else { a - (a + b) * x };
    if above < 0.0 {
        let tail = density * fraction((b, a), (rest, x), -above);
        return (1.0 - tail, tail);
    }
    let tail = density * fraction((a, b), (x, rest), above);
    (tail, 1.0 - tail)
}

/// `x^a (1 - x)^b / B(a, b)` by the deviances of Loader (2000), Fast and accurate computation of binomial probabilities, so that no
/// digits are lost between large logarithms.
fn beta_density(a: f64, b: f64, x: f64, rest: f64) -> f64 {
    let n = a + b;
    let exponent =
        beyond_stirling(n) - beyond_stirling(a) - beyond_stirling(b) - deviance(a, n * x) - deviance(b, n * rest);
    exponent.exp() * (a * b / (2.0 * PI * n)).sqrt()
}

/// The logarithm of `x!` less Stirling's formula.
fn beyond_stirling(x: f64) -> f64 {
    if x < 15.0 {
        return libm::lgamma(x + 1.0) - (x + 0.5) * x.ln() + x - 0.5 * (2.0 * PI).ln();
    }
    let square = x * x;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square)
        / x
}

/// `x ln(x / m) + m - x`.
fn deviance(x: f64, m: f64) -> f64 {
    let ratio = (x - m) / (x + m);
    if ratio.abs() >= 0.1 {
        return x * (x / m).ln() + m - x;
    }
    // ln(x / m) = 2 (r + r^3 / 3 + r^5 / 5 + ...), less the first term.
    let square = ratio * ratio;
    let (mut power, mut sum) = (ratio, 0.0);
    for term in 1..20 {
        power *= square;
        sum += power / f64::from(2 * term + 1);
    }
    (x - m) * ratio + 2.0 * x * sum
}

/// The continued fraction of the incomplete beta function over `x^a (1 - x)^b / B(a, b)`: Didonato and Morris (1992), ACM Transactions
/// on Mathematical Software 18, equation 9. It takes about as many terms as the square root of the parameters at most.
fn fraction((a, b): (f64, f64), (x, rest): (f64, f64), above: f64) -> f64 {
    let (c, c1) = (1.0 + above, 1.0 + 1.0 / a);
    let (mut before, mut now) = ((0.0, 1.0), (1.0, c / c1));
    let (mut p, mut s, mut value) = (1.0, a + 1.0, c1 / c);
    for term in 1..TERMS {
        let n = f64::from(term);
        let (t, w) = (n / a, n * (b - n) * x);
        let alpha = p * (p + b / a) * (a / s) * (a / s) * (w * x);
        let beta = n + w / s + (1.0 + t) / (c1 + 2.0 * t) * (c + n * (1.0 + rest));
        (p, s) = (1.0 + t, s + 2.0);
        let next = (alpha * before.0 + beta * now.0, alpha * before.1 + beta * now.1);
        let last = std::mem::replace(&mut value, next.0 / next.1);
        if (value - last).abs() <= f64::EPSILON * value {
            break;
        }
        (before, now) = ((now.0 / next.1, now.1 / next.1), (value, 1.0));
    }
    value
}

/// The value `of(y)` below which a law has this share. `near` is a `y` in its middle and the size of a step from there; `sides` are the
/// probabilities below and above a value, of which the smaller one is compared. The Illinois method, and halving where it is slow.
fn quantile<X>(share: f64, near: (f64, f64), of: impl Fn(f64) -> X, sides: impl Fn(X) -> (f64, f64)) -> Option<X> {
    if !(share > 0.0 && share < 1.0) {
        return match share {
            0.0 => Some(of(f64::NEG_INFINITY)),
            1.0 => Some(of(f64::INFINITY)),
            _ => None,
        };
    }
    // On a scale on which tails are straight.
    let excess = |y: f64| {
        let (below, above) = sides(of(y));
        if share < 0.5 { below.ln() - share.ln() } else { (1.0 - share).ln() - above.ln() }
    };
    let (mut low, mut high, mut step) = (near.0 - near.1, near.0 + near.1, near.1);
    let (mut at_low, mut at_high) = (excess(low), excess(high));
    for _ in 0..60 {
        if at_low > 0.0 {
            (high, at_high) = (low, at_low);
            low -= step;
            at_low = excess(low);
        } else if at_high < 0.0 {
            (low, at_low) = (high, at_high);
            high += step;
            at_high = excess(high);
        } else {
            break;
        }
        step *= 2.0;
    }
    if !(at_low <= 0.0 && at_high >= 0.0) {
        return None;
    }
    for count in 0..STEPS {
        if high - low <= 2.0 * f64::EPSILON * low.abs().max(high.abs()).max(f64::MIN_POSITIVE) {
            break;
        }
        let secant = high - at_high * (high - low) / (at_high - at_low);
        let middle = low + (high - low) / 2.0;
        let y = if count % 4 < 3 && secant > low && secant < high { secant } else { middle };
        let at = excess(y);
        if at == 0.0 {
            return Some(of(y));
        }
        if at < 0.0 {
            (low, at_low) = (y, at);
            at_high /= 2.0;
        } else {
            (high, at_high) = (y, at);
            at_low /= 2.0;
        }
    }
    Some(of(low + (high - low) / 2.0))
}

#[cfg(test)]
mod tests {
    //! Expected values of R 4.2.2, printed by `tests/vectors/make/laws.R`.

    #![allow(clippy::excessive_precision)]

    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
        assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found:e} and {expected:e}");
    }

    #[test]
    fn students_t_has_its_digits_at_any_number_of_rows() {
        // Degrees of freedom, quantiles of .975 and .995, probabilities beyond .01, .5, 2, 5, 10 and 30.
        let expected = [
            [
                1.0,
                12.706204736174694,
                63.656741162871526,
                0.9936340144701835,
                0.7048327646991336,
                0.2951672353008664,
                0.12566591637800234,
                0.06345103486110712,
                0.021212804811070848,
            ],
            [
                2.5,
                3.574654842003692,
                7.163728138948803,
                0.9927639943579083,
                0.6576979198697148,
                0.15739149575796593,
                0.023451189970861843,
                0.004441495767307422,
                0.0002910647091573955,
            ],
            [
                30.0,
                2.0422724563012378,
                2.7499956535672254,
                0.9920874925731777,
                0.6207230048851273,
                0.0546250449629831,
                2.3296685467007786e-05,
                4.5752514082296097e-11,
                6.251791630608899e-24,
            ],
            [
                999.0,
                1.9623414611334493,
                2.5807596372676356,
                9.9202328392849481e-01,
                6.1718519093028934e-01,
                4.5770616973756985e-02,
                6.7683618958010874e-07,
                1.6708218826871362e-22,
                1.6728272131171855e-141,
            ],
            [
                1e3,
                1.9623390808264076,
                2.5807546980659501,
                9.9202328193218725e-01,
                6.1718508083387502e-01,
                4.5770346493251658e-02,
                6.7672563646486137e-07,
                1.6670702958600081e-22,
                1.5374687444045064e-141,
            ],
            [
                1e4,
                1.9602012398906257,
                2.5763210466685278,
                9.9202148684935576e-01,
                6.1708607932323334e-01,
                4.5527260661435469e-02,
                5.8303266136626421e-07,
                1.9632807428664022e-23,
                2.0443270474257309e-189,
            ],
            [
                1e5,
                1.9599877075346088,
                2.5758784699083743,
                9.9202130731882310e-01,
                6.1707617765441802e-01,
                4.5502963457506464e-02,
                5.7427016786416476e-07,
                1.5633015300207413e-23,
                7.3785368722218244e-197,
            ],
            [
                1e6,
                1.9599663568141066,
                2.5758342201053335,
                9.9202128936554768e-01,
                6.1707518747237167e-01,
                4.5500533851319185e-02,
                5.7339978708907352e-07,
                1.5278610768178301e-23,
                1.2020094233663332e-197,
            ],
            [
                1e7,
                1.9599642217672049,
                2.5758297952037479,
                9.9202128757021790e-01,
                6.1707508845401504e-01,
                4.5500290891842946e-02,
                5.7331280750085435e-07,
                1.5243592290273609e-23,
                1.0014613690819025e-197,
            ],
            [
                19999949.0,
                1.9599641031539248,
                2.5758295493769285,
                9.9202128747047769e-01,
                6.1707508295300861e-01,
                4.5500277394134772e-02,
                5.7330797562553712e-07,
                1.5241649056836340e-23,
                9.9135136972951159e-198,
            ],
            [
                1e9,
                1.9599639869123249,
                2.5758293084654476,
                9.9202128737273165e-01,
                6.1707507756199376e-01,
                4.5500264166313330e-02,
                5.7330324039516277e-07,
                1.5239744906090896e-23,
                9.8154196879674238e-198,
            ],
        ];
        for [df, half, more, beyond @ ..] in expected {
            let law = Student::new(df).unwrap();
            let tolerance = 5e-15;
            close(law.quantile(0.975), half, tolerance, &format!("quantile at {df}"));
            close(law.quantile(0.995), more, tolerance, &format!("quantile at {df}"));
            for (t, expected) in [0.01, 0.5, 2.0, 5.0, 10.0, 30.0].into_iter().zip(beyond) {
                close(law.beyond(-t), expected, 5e-14 * t.max(1.0), &format!("beyond {t} at {df}"));
            }
        }
        let law = Student::new(10.0).unwrap();
        assert!(law.beyond(f64::NAN).is_nan());
        assert_eq!([0.0, 1e-200, 1e200, f64::INFINITY].map(|t| law.beyond(t)), [1.0, 1.0, 0.0, 0.0]);
        for df in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Student::new(df).is_none(), "{df}");
        }
    }

    #[test]
    fn quantiles_of_chi_squared_come_to_an_end_and_have_their_digits() {
        // Quantiles of .001, .02, .5, .9 and .9999.
        let expected = [
            [
                1.0,
                1.5707971492624904e-06,
                6.2845016128367035e-04,
                4.5493642311957283e-01,
                2.7055434540954155,
                1.5136705226623603e+01,
            ],
            [
                2.0,
                2.0010006671670670e-03,
                4.0405414635038897e-02,
                1.3862943611198906,
                4.6051701859880918,
                1.8420680743952587e+01,
            ],
            [
                10.0,
                1.47874346383566491,
                3.05905141086871746,
                9.34181776559196919,
                15.98717917210526274,
                35.56401394195238908,
            ],
            [300.0, 229.96343517804479, 251.86365540770038, 299.33359734921760, 331.78851972453924, 399.75593550052838],
            [1e5, 98623.703816369598, 99083.682238099675, 99999.333334123468, 100573.553826989082, 101671.755069582578],
            [1e7, 9986185.7604888491, 9990817.5010525417, 9999999.3333333414, 10005731.7009134777, 10016640.5020284560],
        ];
        for [df, quantiles @ ..] in expected {
            for (share, expected) in [0.001, 0.02, 0.5, 0.9, 0.9999].into_iter().zip(quantiles) {
                close(chi_squared_quantile(df, share).unwrap(), expected, 1e-11, &format!("{share} at {df}"));
            }
        }
        assert_eq!([0.0, 1.0].map(|share| chi_squared_quantile(3.0, share)), [Some(0.0), Some(f64::INFINITY)]);
        for (df, share) in [(0.0, 0.5), (f64::NAN, 0.5), (f64::INFINITY, 0.5), (3.0, -0.1), (3.0, 1.1), (3.0, f64::NAN)]
        {
            assert!(chi_squared_quantile(df, share).is_none(), "{df} {share}");
        }
    }

    #[test]
    fn quantiles_of_beta_come_to_an_end_and_have_their_digits() {
        // Of m halved the quantiles of 1e-6, .025, .5 and .99; of nine tenths of m and one those of 1e-6, .5 and .99.
        let expected = [
            [2.0, 1e-6, 0.025, 0.5, 0.99, 1.4416938572449126e-03, 9.8556916840127229e-01, 9.9999999995426425e-01],
            [
                100.0,
                0.27465129414143019,
                0.40269791659005755,
                0.5,
                0.61503950170738086,
                0.70696222693877886,
                0.90266536157931099,
                0.95720890999382013,
            ],
            [
                1e4,
                4.7624570454877813e-01,
                4.9020087622196157e-01,
                0.5,
                5.1163045646998273e-01,
                8.8516760810210393e-01,
                9.0002666660887853e-01,
                9.0686041817277308e-01,
            ],
            [
                1e6,
                4.9762330067683658e-01,
                4.9902001870387463e-01,
                0.5,
                5.0116317265407084e-01,
                8.9856821738002546e-01,
                9.0000026666666100e-01,
                9.0069672686967572e-01,
            ],
            [
                1e8,
                4.9976232879739013e-01,
                4.9990200180146910e-01,
                0.5,
                5.0011631739241902e-01,
                8.9985733968726522e-01,
                9.0000000266666669e-01,
                9.0006977867018079e-01,
            ],
        ];
        for [m, quantiles @ ..] in expected {
            let cases = [1e-6, 0.025, 0.5, 0.99].map(|share| (0.5, share)).into_iter();
            let cases = cases.chain([1e-6, 0.5, 0.99].map(|share| (0.9, share)));
            for ((part, share), expected) in cases.zip(quantiles) {
                close(
                    beta_quantile(part * m, (1.0 - part) * m, share).unwrap(),
                    expected,
                    1e-12,
                    &format!("{share} at {m}"),
                );
            }
        }
        // Parameters, and quantiles of .001, .5 and .9.
        for [a, b, quantiles @ ..] in [
            [0.3, 0.7, 1.6635847966858327e-10, 0.1587746869785015, 0.8540780751826776],
            [0.5, 30.0, 2.639901978454992e-08, 0.007616525601879417, 0.04445007443195981],
            [2.5, 0.4, 0.10811117269274889, 0.936658341042495, 0.9989403604299323],
        ] {
            for (share, expected) in [0.001, 0.5, 0.9].into_iter().zip(quantiles) {
                close(beta_quantile(a, b, share).unwrap(), expected, 1e-12, &format!("{share} at {a} and {b}"));
            }
        }
        assert!(beta_quantile(0.0, 1.0, 0.5).is_none() && beta_quantile(1.0, f64::INFINITY, 0.5).is_none());
    }

    #[test]
    fn upper_tails_of_f_have_their_digits() {
        // Degrees of freedom, and the probabilities beyond .5, 1.2 and 2.
        let expected = [
            [1.0, 3.0, 0.530477770932957, 0.35338746628869816, 0.2522154963555042],
            [2.0, 40.0, 0.6102709428588299, 0.3118047268860846, 0.14864362802414374],
            [50.0, 1000.0, 0.9986165173155, 0.16472472726872991, 6.585830492539146e-05],
            [50.0, 1000000.0, 0.998807368307685, 0.15724969434988387, 3.457340788633291e-05],
            [1.0, 20000000.0, 0.4795001304255395, 0.2733216914835711, 0.15729922261681636],
            [50.0, 20000000.0, 0.9988075420099529, 0.15724241060294958, 3.455051822641055e-05],
            [300.0, 100000.0, 0.9999999999999822, 0.010017114964795697, 4.1349265015992624e-22],
        ];
        for [first, second, beyond @ ..] in expected {
            for (f, expected) in [0.5, 1.2, 2.0].into_iter().zip(beyond) {
                let whole = second + first * f;
                let (found, _) = beta(second / 2.0, first / 2.0, second / whole, first * f / whole);
                close(found, expected, 1e-12, &format!("beyond {f} at {first} and {second}"));
            }
        }
    }

    #[test]
    fn tails_of_the_normal_law_have_their_digits() {
        for (z, beyond) in [
            (0.01, 0.9920212873707368),
            (1.0, 0.3173105078629141),
            (2.0, 0.045500263896358424),
            (5.0, 5.733031437583878e-07),
            (10.0, 1.5239706048321054e-23),
            (30.0, 9.813427854296374e-198),
        ] {
            close(normal_beyond(-z), beyond, 1e-14 * z.max(1.0), &format!("beyond {z}"));
            close(normal_above(z), 0.5 * beyond, 1e-14 * z.max(1.0), &format!("above {z}"));
            close(normal_above(-z), 1.0 - 0.5 * beyond, 1e-15, &format!("above -{z}"));
        }
    }
}
