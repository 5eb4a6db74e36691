//! Rank tests against SciPy and published tables.

use surety_stats::rank_test::{hodges_lehmann, mann_whitney};

use crate::{assert_near, lines, numbers};

/// Every case of `mann-whitney.txt` to eleven digits.
#[test]
fn scipy_says_the_same() {
    let mut seen = 0;
    for case in lines(include_str!("../data/mann-whitney.txt")).chunks(4) {
        let (method, a, b, result) = (case[0], numbers(case[1]), numbers(case[2]), numbers(case[3]));
        let test = mann_whitney(&a, &b).unwrap();
        assert_eq!(test.u, result[0], "{method} {a:?}");
        assert_near(test.p_value, result[1], 1e-11, method);
        assert_eq!(test.exact, method != "normal");
        seen += 1;
    }
    assert_eq!(seen, 9);
}

/// The largest `U` significant at 5 % on two sides, as tables of the test print it (Mann and Whitney 1947,
/// extended by Auble 1953): 2, 23, 127 for 5, 10, 20 values each, 22 for 8 and 12.
#[test]
fn critical_values_of_the_tables() {
    for (m, n, critical) in [(5u32, 5u32, 2u32), (10, 10, 23), (20, 20, 127), (8, 12, 22)] {
        // Values of A are 0, 1, 2, ...; those of B are placed so that exactly `u` pairs have the larger in B.
        let p_value = |u: u32| {
            let a: Vec<f64> = (0..m).map(f64::from).collect();
            let (full, rest) = (u / m, u % m);
            let b: Vec<f64> = (0..n)
                .map(|i| match i {
                    _ if i < full => f64::from(m) + f64::from(i),
                    _ if i == full => f64::from(rest) - 0.5,
                    _ => -1.0 - f64::from(i),
                })
                .collect();
            let test = mann_whitney(&a, &b).unwrap();
            assert_eq!(test.u, f64::from(u));
            test.p_value
        };
        assert!(p_value(critical) <= 0.05 && p_value(critical + 1) > 0.05, "{m} {n}");
    }
}

/// Hollander and Wolfe, Nonparametric Statistical Methods, example 4.1 (permeability of chorioamnion): the
/// estimate 0.305 and the interval from -0.15 to 0.76 of term over early values.
#[test]
fn the_published_shift() {
    let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let early = [1.15, 0.88, 0.90, 0.74, 1.21];
    let shift = hodges_lehmann(&early, &term, 0.95).unwrap();
    assert_near(shift.estimate, 0.305, 1e-12, "estimate");
    assert_near(shift.low.unwrap(), -0.15, 1e-12, "low");
    assert_near(shift.high.unwrap(), 0.76, 1e-12, "high");
    let test = mann_whitney(&early, &term).unwrap();
    assert!((test.p_larger - 0.1272).abs() < 5e-5, "the book's one-sided probability: {test:?}");
}
