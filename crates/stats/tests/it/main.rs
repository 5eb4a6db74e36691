//! The crate against published data, certified values and other programs' results, each named beside its case.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod bursts;
mod coverage;
mod extremes;
mod nist;
mod ranks;
mod survival;

/// The lines of a data file without its comments.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect()
}

/// The numbers of a line.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// `actual` agrees with `expected` to this part of it.
#[track_caller]
fn assert_near(actual: f64, expected: f64, part: f64, what: &str) {
    assert!((actual - expected).abs() <= part * expected.abs(), "{what}: {actual} != {expected}");
}
