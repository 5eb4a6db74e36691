//! The standard normal distribution: its function by the complementary error function, its inverse by AS 241.
//!
//! The inverse is algorithm PPND16 of M. J. Wichura, "Algorithm AS 241: the percentage points of the normal
//! distribution", Applied Statistics 37 (1988) 477-484: three rational approximations of degree 7 over 7, one
//! for the centre in `0.425² - (p - 1/2)²`, two for the tails in `sqrt(-ln min(p, 1-p))`, good to one part in
//! 10^16.

use std::f64::consts::FRAC_1_SQRT_2;

/// The probability that a standard normal value is at most `z`: `erfc(-z / sqrt 2) / 2`.
///
/// The relative error stays near rounding in the lower tail too; for the upper tail ask `normal_cdf(-z)`.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The `z` that a standard normal value does not exceed with probability `p`.
///
/// Minus infinity at 0, infinity at 1, not a number outside.
pub fn normal_quantile(p: f64) -> f64 {
    let centred = p - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.180625 - centred * centred;
        return centred * ratio(&CENTRE, r);
    }
    let tail = if centred < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 || tail.is_nan() {
        return if tail == 0.0 { f64::INFINITY.copysign(centred) } else { f64::NAN };
    }
    let r = (-libm::log(tail)).sqrt();
    let z = if r <= 5.0 { ratio(&TAIL, r - 1.6) } else { ratio(&FAR_TAIL, r - 5.0) };
    z.copysign(centred)
}

/// Coefficients of a numerator and a denominator, constant terms first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio((numerator, denominator): &Rational, r: f64) -> f64 {
    let horner = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, &c| sum * r + c);
    horner(numerator) / horner(denominator)
}

const CENTRE: Rational = (
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
);

const TAIL: Rational = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

const FAR_TAIL: Rational = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The three check values printed in Wichura's paper, then 20-digit values of the same function.
    #[test]
    fn quantiles_are_the_published_ones() {
        for (p, z) in [
            (0.25, -0.674_489_750_196_081_7),
            (0.001, -3.090_232_306_167_813_5),
            (1e-20, -9.262_340_089_798_408),
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054_2),
            (0.95, 1.644_853_626_951_472_7),
            (1e-300, -37.047_096_299_361_2),
        ] {
            let actual = normal_quantile(p);
            assert!((actual - z).abs() <= 1e-15 * z.abs().max(1.0), "p = {p}: {actual} != {z}");
        }
        assert_eq!((normal_quantile(0.0), normal_quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!([-0.1, 1.1, f64::NAN].into_iter().all(|p| normal_quantile(p).is_nan()));
    }

    /// Abramowitz and Stegun, table 26.1, and its tail expansion at 10.
    #[test]
    fn distribution_function_is_the_published_one() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (2.0, 0.977_249_868_051_820_8),
            (-3.0, 1.349_898_031_630_094_5e-3),
            (-10.0, 7.619_853_024_160_527e-24),
        ] {
            let actual = normal_cdf(z);
            assert!((actual - p).abs() <= 4e-15 * p, "z = {z}: {actual} != {p}");
        }
    }

    proptest! {
        #[test]
        fn the_quantile_inverts_the_distribution_function(z in -37.0..5.0f64) {
            let back = normal_quantile(normal_cdf(z));
            // Above zero the probability itself is rounded, which its density turns into an error of z.
            let rounding = if z > 0.0 { 1e-16 / (-z * z / 2.0).exp() } else { 0.0 };
            prop_assert!((back - z).abs() <= 1e-14 * z.abs().max(1.0) + 4.0 * rounding, "{} {}", z, back);
        }

        #[test]
        fn the_quantile_ascends(a in 0.0..1.0f64, b in 0.0..1.0f64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(normal_quantile(low) <= normal_quantile(high));
        }
    }
}
