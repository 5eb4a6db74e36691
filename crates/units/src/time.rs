//! [`Nanos`]: an instant or a span in integer nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub, SubAssign};
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::parse::{QuantityError, Scale, parse_quantity};

/// Nanoseconds: a span, or an instant on a clock the context names.
///
/// Signed, because slack, lateness and an overdrawn budget are negative; 64 bits hold 292 years. Operators
/// panic on overflow where overflow checks are on; input-facing code uses the `checked_` and `saturating_` forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Nanos(i64);

impl<'de> Deserialize<'de> for Nanos {
    /// A whole number of nanoseconds, of a magnitude of at most [`Nanos::STORED_MAX`].
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        let ns = i64::deserialize(from)?;
        if ns.unsigned_abs() > Nanos::STORED_MAX.get_unsigned() {
            let limit = Nanos::STORED_MAX.to_exact_string();
            return Err(D::Error::custom(format!(
                "{ns} ns is beyond the longest time a document holds, {limit}"
            )));
        }
        Ok(Nanos(ns))
    }
}

/// Units a time may be written in, finest first.
const TIME_UNITS: &[Scale] = &[
    Scale { unit: "ns", factor: 1 },
    Scale { unit: "us", factor: 1_000 },
    Scale { unit: "µs", factor: 1_000 },
    Scale { unit: "ms", factor: 1_000_000 },
    Scale { unit: "s", factor: 1_000_000_000 },
    Scale { unit: "m", factor: 60_000_000_000 },
    Scale { unit: "h", factor: 3_600_000_000_000 },
];

impl Nanos {
    /// Zero length, or the clock's origin.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest representable time: "never".
    pub const MAX: Nanos = Nanos(i64::MAX);
    /// The longest time that a file, an option or a promise may name, 1000 hours, so that sums and small multiples of what is
    /// asked for stay within 64 bits. Longer ones are refused where they are read.
    pub const ASKED_MAX: Nanos = Nanos(1_000 * 3_600 * 1_000_000_000);
    /// The longest time of a document that is read back, such as the CPU time of many threads: 100 times as long.
    pub const STORED_MAX: Nanos = Nanos(100 * Nanos::ASKED_MAX.0);
    /// One microsecond.
    pub const MICROSECOND: Nanos = Nanos(1_000);
    /// One millisecond.
    pub const MILLISECOND: Nanos = Nanos(1_000_000);
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// A count of nanoseconds.
    pub const fn new(ns: i64) -> Nanos {
        Nanos(ns)
    }

    /// A count of microseconds.
    pub const fn from_micros(us: i64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// A count of milliseconds.
    pub const fn from_millis(ms: i64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// A count of seconds.
    pub const fn from_secs(s: i64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// The count of nanoseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The count of nanoseconds as unsigned; a negative time becomes 0.
    pub const fn get_unsigned(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0 as u64 }
    }

    /// Seconds, for statistics and printing only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds, for statistics and printing only.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Nearest integer nanosecond of a float; saturates, NaN becomes 0. For results of statistics.
    pub fn from_f64_rounded(ns: f64) -> Nanos {
        // `as` saturates at the type's limits and maps NaN to 0.
        Nanos(ns.round() as i64)
    }

    /// Sum, or `None` on overflow.
    pub fn checked_add(self, other: Nanos) -> Option<Nanos> {
        self.0.checked_add(other.0).map(Nanos)
    }

    /// Product with a count, or `None` on overflow.
    pub fn checked_mul(self, count: i64) -> Option<Nanos> {
        self.0.checked_mul(count).map(Nanos)
    }

    /// Sum that stops at the limits.
    pub fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Difference that stops at the limits.
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `self * numerator / denominator`, rounded down, through 128 bits.
    ///
    /// # Panics
    /// When the denominator is 0 or the result does not fit.
    pub fn mul_ratio(self, numerator: u64, denominator: u64) -> Nanos {
        let wide = i128::from(self.0) * i128::from(numerator);
        let quotient = wide.div_euclid(i128::from(denominator));
        Nanos(i64::try_from(quotient).expect("scaled time fits 64 bits"))
    }

    /// How many whole `unit`s fit, rounded up. `unit` must be positive.
    pub fn div_ceil(self, unit: Nanos) -> i64 {
        assert!(unit.0 > 0, "division by a non-positive time");
        self.0.div_euclid(unit.0) + i64::from(self.0.rem_euclid(unit.0) != 0)
    }

    /// How many whole `unit`s fit, rounded down. `unit` must be positive.
    pub fn div_floor(self, unit: Nanos) -> i64 {
        assert!(unit.0 > 0, "division by a non-positive time");
        self.0.div_euclid(unit.0)
    }

    /// True below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// True above zero.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// The exact text a workload file holds: the largest unit that divides the value, `"40ms"`.
    pub fn to_exact_string(self) -> String {
        for (unit, factor) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
            if self.0 != 0 && self.0 % factor == 0 {
                return format!("{}{unit}", self.0 / factor);
            }
        }
        if self.0 == 0 { "0s".to_owned() } else { format!("{}ns", self.0) }
    }
}

impl FromStr for Nanos {
    type Err = QuantityError;

    /// Parses `"40ms"`, `"16.6ms"`, `"1.5h"`. Exact: what is no whole number of nanoseconds is refused, and so is what is
    /// longer than [`Nanos::ASKED_MAX`].
    fn from_str(text: &str) -> Result<Nanos, QuantityError> {
        let value = parse_quantity(text, "a time", TIME_UNITS)?;
        let time = i64::try_from(value).ok().map(Nanos).filter(|time| *time <= Nanos::ASKED_MAX);
        time.ok_or_else(|| QuantityError::OutOfRange {
            text: text.to_owned(),
            what: "a time that can be worked with",
            why: "it is longer than 1000h",
        })
    }
}

impl fmt::Display for Nanos {
    /// For people: four significant digits in the unit that fits, `14.02 ms`. The precision, when given,
    /// is the number of decimals: `{:.1}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (unit, factor) = match magnitude {
            0 => return f.pad("0 ns"),
            1..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => ("us", 1e3),
            1_000_000..1_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        let scaled = self.0 as f64 / factor;
        let decimals = f.precision().unwrap_or(match scaled.abs() {
            x if x < 10.0 => 3,
            x if x < 100.0 => 2,
            x if x < 1000.0 => 1,
            _ => 0,
        });
        let text = format!("{scaled:.decimals$} {unit}");
        match f.width() {
            Some(width) => write!(f, "{text:>width$}"),
            None => f.write_str(&text),
        }
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl Neg for Nanos {
    type Output = Nanos;
    fn neg(self) -> Nanos {
        Nanos(-self.0)
    }
}

impl Mul<i64> for Nanos {
    type Output = Nanos;
    fn mul(self, count: i64) -> Nanos {
        Nanos(self.0 * count)
    }
}

impl Div<i64> for Nanos {
    type Output = Nanos;
    fn div(self, count: i64) -> Nanos {
        Nanos(self.0 / count)
    }
}

impl Rem for Nanos {
    type Output = Nanos;
    fn rem(self, unit: Nanos) -> Nanos {
        Nanos(self.0 % unit.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        iter.fold(Nanos::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_are_exact() {
        for (text, ns) in [
            ("40ms", 40_000_000),
            ("16.6ms", 16_600_000),
            ("1.5 s", 1_500_000_000),
            ("3m", 180_000_000_000),
            ("0s", 0),
            ("95us", 95_000),
            ("95µs", 95_000),
            ("1024ns", 1024),
        ] {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos::new(ns)), "{text}");
        }
        for text in [
            "40",
            "-1ms",
            "ms",
            "1.5ns",
            "4 0ms",
            "",
            "1e3ms",
            "40mss",
            "99999999999h",
            "1..5s",
            "1001h",
            "9223372036854775807ns",
        ] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_too_long_to_work_with_is_refused_where_it_is_read() {
        assert_eq!("1000h".parse(), Ok(Nanos::ASKED_MAX));
        let said = "9223372036854775807ns".parse::<Nanos>().unwrap_err().to_string();
        assert!(said.ends_with("it is longer than 1000h"), "{said}");
        let stored = |text: &str| -> Result<Nanos, _> { serde_json::from_str(text) };
        assert_eq!(stored("360000000000000000").unwrap(), Nanos::STORED_MAX);
        assert_eq!(stored("-360000000000000000").unwrap(), -Nanos::STORED_MAX);
        for text in ["360000000000000001", "-9223372036854775808", "18446744073709551615", "1.5"] {
            assert!(stored(text).is_err(), "{text}");
        }
    }

    #[test]
    fn exact_strings_read_back() {
        for ns in [0, 1, 999, 1_000, 26_500_000, 40_000_000, 3_600_000_000_000] {
            let time = Nanos::new(ns);
            assert_eq!(time.to_exact_string().parse::<Nanos>(), Ok(time));
        }
    }

    #[test]
    fn display_keeps_four_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (14_020_000, "14.02 ms"),
            (-5_100, "-5.100 us"),
            (250_000_000, "250.0 ms"),
        ] {
            assert_eq!(Nanos::new(ns).to_string(), text);
        }
    }

    #[test]
    fn ceil_and_floor_agree_on_multiples() {
        assert_eq!(Nanos::new(8).div_ceil(Nanos::new(4)), 2);
        assert_eq!(Nanos::new(9).div_ceil(Nanos::new(4)), 3);
        assert_eq!(Nanos::new(-1).div_ceil(Nanos::new(4)), 0);
        assert_eq!(Nanos::new(-1).div_floor(Nanos::new(4)), -1);
    }
}
