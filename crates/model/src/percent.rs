//! Fractions in percent, rounded so that what is said is true: "at least" down, "at most" up.

/// Which way a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To what is smaller: for "at least".
    Down,
    /// To what is larger: for "at most".
    Up,
    /// To what is nearest: for what was measured.
    Nearest,
}

/// A fraction in percent: two decimals, or as many as show three digits of its distance from 0 or 100 %.
pub fn percent(fraction: f64, rounding: Rounding) -> String {
    let percent = fraction * 100.0;
    let distance = percent.min(100.0 - percent);
    if !percent.is_finite() || percent == 0.0 {
        return "0 %".to_owned();
    }
    let (mut decimals, mut scale) = (2, 100.0);
    while decimals < 12 && distance > 0.0 && distance * scale < 100.0 * (1.0 - 1e-9) {
        decimals += 1;
        scale *= 10.0;
    }
    // A decimal fraction is not a float: one part in 10^12 is not a digit.
    let rounded = match rounding {
        Rounding::Down => (percent * scale * (1.0 + 1e-13)).floor(),
        Rounding::Up => (percent * scale * (1.0 - 1e-13)).ceil(),
        Rounding::Nearest => (percent * scale).round(),
    };
    let text = format!("{:.decimals$}", rounded / scale);
    // Digits beyond the second are there to tell it from 0 or 100.
    let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
    let (kept, more) = digits.split_at(digits.len().min(2));
    format!("{whole}.{kept}{} %", more.trim_end_matches('0'))
}

/// A fraction rounded down: for "at least".
pub fn at_least(fraction: f64) -> String {
    percent(fraction, Rounding::Down)
}

/// A fraction rounded up: for "at most".
pub fn at_most(fraction: f64) -> String {
    percent(fraction, Rounding::Up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_is_rounded_down_and_at_most_up() {
        for (fraction, least, most) in [
            (0.0, "0 %", "0 %"),
            (1.0, "100.00 %", "100.00 %"),
            (0.01, "1.00 %", "1.00 %"),
            (0.95, "95.00 %", "95.00 %"),
            (0.246_57, "24.65 %", "24.66 %"),
            (0.007_574_9, "0.757 %", "0.758 %"),
            (0.000_123_45, "0.0123 %", "0.0124 %"),
            (0.999_99, "99.999 %", "99.999 %"),
            (0.999_999_96, "99.999996 %", "99.999996 %"),
            (0.999_876_54, "99.9876 %", "99.9877 %"),
        ] {
            assert_eq!((at_least(fraction).as_str(), at_most(fraction).as_str()), (least, most));
        }
    }
}
