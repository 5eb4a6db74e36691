//! Hidden Markov models against all sequences of modes, against what they were drawn from, and the law of their likelihood.

use proptest::prelude::*;

use super::learn::NARROWEST;
use super::*;
use crate::Pcg;

fn two() -> HiddenMarkov {
    HiddenMarkov {
        initial: vec![0.6, 0.4],
        transitions: vec![vec![0.97, 0.03], vec![0.1, 0.9]],
        means: vec![0.0, 1.5],
        deviations: vec![0.3, 0.5],
    }
}

fn three() -> HiddenMarkov {
    HiddenMarkov {
        initial: vec![0.5, 0.25, 0.25],
        transitions: vec![vec![0.95, 0.04, 0.01], vec![0.05, 0.9, 0.05], vec![0.2, 0.0, 0.8]],
        means: vec![-1.0, 0.5, 2.0],
        deviations: vec![0.2, 0.4, 0.3],
    }
}

/// Values of a model, and the modes they came from.
fn drawn(model: &HiddenMarkov, n: usize, seed: u128) -> (Vec<f64>, Vec<usize>) {
    let mut generator = Pcg::new(seed, 11);
    let pick = |masses: &[f64], u: f64| {
        let mut left = u;
        masses.iter().position(|p| {
            left -= p;
            left < 0.0
        })
    };
    let mut mode = pick(&model.initial, generator.unit_open()).unwrap_or(0);
    let mut pairs = Vec::new();
    for _ in 0..n {
        pairs.push((model.means[mode] + model.deviations[mode] * generator.normal(), mode));
        mode = pick(&model.transitions[mode], generator.unit_open()).unwrap_or(mode);
    }
    pairs.into_iter().unzip()
}

/// Every sequence of modes: the likelihood, the probability of each mode at each value.
fn enumerated(model: &HiddenMarkov, values: &[f64]) -> (f64, Vec<f64>) {
    let (m, n) = (model.modes(), values.len());
    let (mut total, mut each) = (0.0, vec![0.0; n * m]);
    for code in 0..m.pow(n as u32) {
        let modes: Vec<usize> = (0..n).map(|t| code / m.pow(t as u32) % m).collect();
        let mut p = model.initial[modes[0]];
        for (t, mode) in modes.iter().enumerate() {
            if t > 0 {
                p *= model.transitions[modes[t - 1]][*mode];
            }
            p *= libm::exp(model.log_density(*mode, values[t]));
        }
        total += p;
        modes.iter().enumerate().for_each(|(t, mode)| each[t * m + mode] += p);
    }
    each.iter_mut().for_each(|p| *p /= total);
    (libm::log(total), each)
}

/// The most probable mode of each value.
fn most_probable_each(model: &HiddenMarkov, values: &[f64]) -> Vec<usize> {
    let probabilities = model.decode(values).probabilities;
    let most = |each: &[f64]| (0..each.len()).fold(0, |a, b| if each[b] > each[a] { b } else { a });
    probabilities.chunks(model.modes()).map(most).collect()
}

#[test]
fn short_sequences_agree_with_all_sequences_of_modes() {
    for (model, n) in [(two(), 9), (three(), 7)] {
        for seed in 0..20 {
            let (values, _) = drawn(&model, n, seed);
            let (likelihood, each) = enumerated(&model, &values);
            let decoded = model.decode(&values);
            assert!((decoded.log_likelihood - likelihood).abs() < 1e-10);
            assert!(decoded.probabilities.iter().zip(&each).all(|(a, b)| (a - b).abs() < 1e-10));
            let followed: f64 = decoded.followed.iter().flatten().sum();
            assert!((followed - (n - 1) as f64).abs() < 1e-9);
        }
    }
}

#[test]
fn parameters_are_recovered_and_their_number_too() {
    for truth in [two(), three()] {
        let (values, modes) = drawn(&truth, 6_000, 3);
        let choice = choose(&values, 6, 1).unwrap();
        let found = &choice.best.model;
        assert_eq!(found.modes(), truth.modes(), "{:?}", choice.orders);
        for g in 0..truth.modes() {
            assert!((found.means[g] - truth.means[g]).abs() < 0.05, "{found:?}");
            assert!((found.deviations[g] / truth.deviations[g] - 1.0).abs() < 0.08, "{found:?}");
            for to in 0..truth.modes() {
                let off = (found.transitions[g][to] - truth.transitions[g][to]).abs();
                assert!(off < 0.04, "{g} {to} {found:?}");
            }
        }
        let agree = most_probable_each(found, &values).iter().zip(&modes).filter(|(a, b)| a == b).count();
        assert!(agree > 5_700, "{agree}");
        let chosen = choice.chosen();
        assert!(chosen.residuals.are_independent(0.01), "{chosen:?}");
        let one = &choice.orders[0].residuals;
        assert!(!one.are_independent(0.001) && one.lag_one > 0.5, "{one:?}");
        assert!(chosen.residuals.lag_one.abs() < 0.05);
        let shares = found.shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
    // Two modes: p/(p + q).
    assert!((two().shares()[1] - 0.03 / 0.13).abs() < 1e-9);
}

#[test]
fn independent_values_have_one_mode() {
    let mut generator = Pcg::new(9, 2);
    let values: Vec<f64> = (0..2_000).map(|_| generator.normal()).collect();
    let choice = choose(&values, 6, 1).unwrap();
    assert_eq!(choice.best.model.modes(), 1, "{:?}", choice.orders);
    assert!(choice.chosen().residuals.are_independent(0.01));
    assert_eq!(choice, choose(&values, 6, 1).unwrap(), "the same values, the same answer");
}

#[test]
fn what_cannot_be_learnt_is_not() {
    assert!(learn(&[1.0; 50], 2, 1).is_none());
    assert!(learn(&[1.0, 2.0, 3.0], 2, 1).is_none());
    assert!(learn(&[1.0, f64::NAN, 3.0, 4.0], 1, 1).is_none());
    assert!(choose(&[], 3, 1).is_none());
    // Two values only: a mode for each would be infinitely dense, but is not made so.
    let values: Vec<f64> = (0..200).map(|t| f64::from((t / 20) % 2)).collect();
    let learned = learn(&values, 2, 1).unwrap();
    assert!(learned.model.deviations.iter().all(|d| *d >= NARROWEST * 0.4), "{learned:?}");
    assert_eq!(most_probable_each(&learned.model, &values)[..21], [[0; 20].as_slice(), &[1]].concat());
    // A value that no mode explains leaves numbers.
    let far = two().decode(&[0.0, 1e200, 0.0]);
    assert!(far.probabilities.iter().all(|p| p.is_finite()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn the_likelihood_never_falls(
        values in proptest::collection::vec(-3.0f64..3.0, 20..120), modes in 1usize..5, stay in 0.2f64..0.99,
    ) {
        let m = modes as f64;
        let leave = if modes > 1 { (1.0 - stay) / (m - 1.0) } else { 0.0 };
        let row = |g: usize| (0..modes).map(|to| if modes == 1 { 1.0 } else if g == to { stay } else { leave }).collect();
        let mut model = HiddenMarkov {
            initial: vec![1.0 / m; modes],
            transitions: (0..modes).map(row).collect(),
            means: (0..modes).map(|g| -2.0 + 4.0 * (g as f64 + 0.5) / m).collect(),
            deviations: vec![1.0; modes],
        };
        let mut passes = Passes::new(values.len(), modes);
        let mut before = f64::NEG_INFINITY;
        for _ in 0..30 {
            model.smooth(&values, &mut passes);
            let now = passes.log_likelihood();
            prop_assert!(now >= before - 1e-7 * (1.0 + before.abs().min(1e9)), "{now} {before}");
            before = now;
            for t in 0..values.len() {
                prop_assert!((passes.at(t).iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            model.maximise(&values, &passes, 1e-3);
            for row in &model.transitions {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}
