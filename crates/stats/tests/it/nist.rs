//! NIST Statistical Reference Datasets, univariate summary statistics: all nine sets; and what statsmodels
//! 0.15.0 and SciPy 1.17.1 say of the four measured ones.

use surety_stats::Moments;
use surety_stats::correlation::correlogram;
use surety_stats::goodness::autocorrelation;
use surety_stats::stationarity::{kpss, mann_kendall};

use crate::{assert_near, lines, numbers};

fn measured(name: &str) -> Vec<f64> {
    let text = match name {
        "Lew" => include_str!("../data/nist-lew.txt"),
        "Lottery" => include_str!("../data/nist-lottery.txt"),
        "Mavro" => include_str!("../data/nist-mavro.txt"),
        _ => include_str!("../data/nist-michelson.txt"),
    };
    lines(text).into_iter().flat_map(numbers).collect()
}

/// One centre value, then 500 pairs around it.
fn alternating(centre: f64, low: f64, high: f64) -> Vec<f64> {
    let pairs = (0..1000).map(|i| if i % 2 == 0 { low } else { high });
    std::iter::once(centre).chain(pairs).collect()
}

/// A fraction below ten in limbs of nine digits, the first of them the whole part.
struct Fixed(Vec<u64>);

impl Fixed {
    fn divide(&mut self, by: u64) {
        let mut rest = 0;
        for limb in &mut self.0 {
            let value = rest * 1_000_000_000 + *limb;
            *limb = value / by;
            rest = value % by;
        }
    }

    fn add(&mut self, other: &Fixed, times: i64) {
        let mut carry = 0i64;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0).rev() {
            let sum = *mine as i64 + times * *theirs as i64 + carry;
            carry = sum.div_euclid(1_000_000_000);
            *mine = sum.rem_euclid(1_000_000_000) as u64;
        }
    }
}

/// The first digits of pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239).
fn digits_of_pi(count: usize) -> Vec<f64> {
    let limbs = count / 9 + 4;
    let mut pi = Fixed(vec![0; limbs]);
    for (factor, of) in [(16i64, 5u64), (-4, 239)] {
        let mut power = Fixed(vec![0; limbs]);
        power.0[0] = 1;
        power.divide(of);
        let mut k = 0u64;
        while power.0.iter().any(|&limb| limb > 0) {
            let mut term = Fixed(power.0.clone());
            term.divide(2 * k + 1);
            pi.add(&term, if k.is_multiple_of(2) { factor } else { -factor });
            power.divide(of * of);
            k += 1;
        }
    }
    let text: String = pi.0[1..].iter().map(|limb| format!("{limb:09}")).collect();
    let all = format!("{}{text}", pi.0[0]);
    all.bytes().take(count).map(|digit| f64::from(digit - b'0')).collect()
}

/// PiDigits as NIST certified it: the file has a 3 in the place of one 8, and the certified mean, 4.5348, is that
/// of the file; the first 5000 digits of pi have 4.5358.
fn pi_digits_of_nist() -> Vec<f64> {
    let mut digits = digits_of_pi(5_000);
    assert_eq!(digits.iter().sum::<f64>() / 5_000.0, 4.5358);
    assert_eq!(std::mem::replace(&mut digits[956], 3.0), 8.0);
    digits
}

/// Certified mean, standard deviation and first autocorrelation, to 13 digits wherever doubles allow; NumAcc3
/// and NumAcc4 lose the digits their decimal values lose when they become doubles near 10^6 and 10^7.
#[test]
fn certified_values() {
    for (name, samples, mean, std_dev, lag_one, spread_part) in [
        ("Lew", measured("Lew"), -177.435, 277.332168044316, -0.307304800605679, 1e-13),
        ("Lottery", measured("Lottery"), 518.958715596330, 291.699727470969, -0.120948622967393, 1e-13),
        ("Mavro", measured("Mavro"), 2.001856, 0.000429123454003053, 0.937989183438248, 1e-11),
        ("Michelson", measured("Michelson"), 299.8524, 0.0790105478190518, 0.535199668621283, 1e-11),
        ("PiDigits", pi_digits_of_nist(), 4.5348, 2.86733906028871, -0.00355099287237972, 1e-12),
        ("NumAcc1", vec![10_000_001.0, 10_000_003.0, 10_000_002.0], 10_000_002.0, 1.0, -0.5, 1e-13),
        ("NumAcc2", alternating(1.2, 1.1, 1.3), 1.2, 0.1, -0.999, 1e-13),
        ("NumAcc3", alternating(1_000_000.2, 1_000_000.1, 1_000_000.3), 1_000_000.2, 0.1, -0.999, 2e-9),
        ("NumAcc4", alternating(10_000_000.2, 10_000_000.1, 10_000_000.3), 10_000_000.2, 0.1, -0.999, 2e-8),
    ] {
        let moments: Moments = samples.iter().copied().collect();
        assert_near(moments.mean().unwrap(), mean, 2e-14, name);
        assert_near(moments.std_dev().unwrap(), std_dev, spread_part, name);
        assert_near(autocorrelation(&samples, 1).unwrap(), lag_one, spread_part * 10.0, name);
    }
}

/// statsmodels 0.15.0 (`kpss` level form with our number of lags, `acorr_ljungbox` of ten lags) and SciPy
/// 1.17.1 (`skew` and `kurtosis`, biased).
#[test]
fn other_programs_say_the_same() {
    for (name, eta, lags, q, q_p, [g1, g2]) in [
        (
            "Lew",
            0.012789031783807572,
            4,
            815.5394423121969,
            9.409780514887585e-169,
            [-0.05022629545821298, -1.4887601738140257],
        ),
        (
            "Lottery",
            0.24418385951699972,
            4,
            13.780946723308917,
            0.18321982137513873,
            [-0.09268823145035579, -1.1927809417579538],
        ),
        (
            "Mavro",
            0.686480972678061,
            3,
            179.99959485288423,
            2.343442411521927e-33,
            [0.6254180701455688, -0.8583840278172601],
        ),
        (
            "Michelson",
            0.6738530602639635,
            4,
            39.7261068534402,
            1.8933417532917606e-05,
            [-0.018259613962657212, 0.2635305323114663],
        ),
    ] {
        let samples = measured(name);
        let found = kpss(&samples).unwrap();
        assert_near(found.statistic, eta, 1e-9, name);
        assert_eq!(found.lags, lags, "{name}");
        let test = correlogram(&samples, 10, 0.95).unwrap().ljung_box().unwrap();
        assert_near(test.statistic, q, 1e-9, name);
        assert_near(test.p_value, q_p, 1e-7, name);
        let moments: Moments = samples.iter().copied().collect();
        assert_near(moments.skewness().unwrap(), g1, 1e-8, name);
        assert_near(moments.excess_kurtosis().unwrap(), g2, 1e-8, name);
        assert!(mann_kendall(&samples).is_some(), "{name}");
    }
}
