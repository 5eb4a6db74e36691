//! [`Bandwidth`]: a share of one CPU, exact.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Rem;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse::{QuantityError, Scale, parse_quantity};
use crate::time::Nanos;

/// A share of one CPU as an exact ratio of two counts: runtime over period. May exceed one (a sum over CPUs).
///
/// The kernel's own fixed-point value is [`Bandwidth::to_kernel`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    numerator: u64,
    denominator: u64,
}

/// Bits after the point in the kernel's bandwidths (`BW_SHIFT` in `kernel/sched/sched.h`).
pub const KERNEL_BANDWIDTH_SHIFT: u32 = 20;

impl Bandwidth {
    /// Nothing.
    pub const ZERO: Bandwidth = Bandwidth { numerator: 0, denominator: 1 };
    /// One whole CPU.
    pub const ONE: Bandwidth = Bandwidth { numerator: 1, denominator: 1 };

    /// The ratio, reduced. `None` when the denominator is 0.
    pub fn new(numerator: u64, denominator: u64) -> Option<Bandwidth> {
        if denominator == 0 {
            return None;
        }
        let divisor = common_divisor(numerator, denominator).max(1);
        Some(Bandwidth { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// `runtime / period`; `None` when the period is not positive or the runtime negative.
    pub fn of(runtime: Nanos, period: Nanos) -> Option<Bandwidth> {
        if runtime.is_negative() || !period.is_positive() {
            return None;
        }
        Bandwidth::new(runtime.get_unsigned(), period.get_unsigned())
    }

    /// The reduced ratio as (numerator, denominator).
    pub const fn ratio(self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    /// The kernel's fixed point with 20 fraction bits, rounded down (`to_ratio` in `kernel/sched/core.c`).
    ///
    /// Saturates where the shifted runtime would not fit, which no admissible reservation reaches.
    pub fn to_kernel(self) -> u64 {
        let wide = (u128::from(self.numerator) << KERNEL_BANDWIDTH_SHIFT) / u128::from(self.denominator);
        u64::try_from(wide).unwrap_or(u64::MAX)
    }

    /// The nearest float, for printing and statistics.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The exact sum; `None` when the reduced ratio does not fit 64 bits.
    pub fn checked_add(self, other: Bandwidth) -> Option<Bandwidth> {
        let numerator = u128::from(self.numerator) * u128::from(other.denominator)
            + u128::from(other.numerator) * u128::from(self.denominator);
        let denominator = u128::from(self.denominator) * u128::from(other.denominator);
        let divisor = common_divisor(numerator, denominator).max(1);
        Some(Bandwidth {
            numerator: u64::try_from(numerator / divisor).ok()?,
            denominator: u64::try_from(denominator / divisor).ok()?,
        })
    }

    /// The time this share gives in `span`, rounded down.
    pub fn of_span(self, span: Nanos) -> Nanos {
        span.mul_ratio(self.numerator, self.denominator)
    }

    /// The exact text a workload file holds, `"25%"`, when the ratio is a decimal percentage; else `None`.
    pub fn to_exact_percent(self) -> Option<String> {
        let scaled = u128::from(self.numerator) * 100_000_000_000;
        if scaled % u128::from(self.denominator) != 0 {
            return None;
        }
        let units = scaled / u128::from(self.denominator);
        Some(decimal_percent(units))
    }
}

/// Formats a count of 1e-9 percent as a percentage without trailing zeros.
pub(crate) fn decimal_percent(units: u128) -> String {
    let (whole, fraction) = (units / 1_000_000_000, units % 1_000_000_000);
    if fraction == 0 {
        return format!("{whole}%");
    }
    let digits = format!("{fraction:09}");
    format!("{whole}.{}%", digits.trim_end_matches('0'))
}

impl PartialEq for Bandwidth {
    fn eq(&self, other: &Bandwidth) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bandwidth {}

impl PartialOrd for Bandwidth {
    fn partial_cmp(&self, other: &Bandwidth) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bandwidth {
    fn cmp(&self, other: &Bandwidth) -> Ordering {
        let left = u128::from(self.numerator) * u128::from(other.denominator);
        let right = u128::from(other.numerator) * u128::from(self.denominator);
        left.cmp(&right)
    }
}

impl FromStr for Bandwidth {
    type Err = QuantityError;

    /// Parses a percentage of one CPU: `"25%"`, `"33.3%"`.
    fn from_str(text: &str) -> Result<Bandwidth, QuantityError> {
        let units = parse_quantity(text, "a share of a CPU", &[Scale { unit: "%", factor: 1_000_000_000 }])?;
        Ok(Bandwidth::new(units, 100_000_000_000).expect("constant denominator is not 0"))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*} %", f.precision().unwrap_or(2), self.as_f64() * 100.0)
    }
}

/// The greatest common divisor of two counts (Euclid), that of 0 and `a` being `a`.
pub fn common_divisor<T: Copy + Default + PartialEq + Rem<Output = T>>(mut a: T, mut b: T) -> T {
    while b != T::default() {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_fixed_point_is_rounded_down() {
        // Values of kernel logs quoted in the kernel's own admission messages: 95 % is 996147, 5 % is 52428.
        let percent = |p| Bandwidth::new(p, 100).unwrap().to_kernel();
        assert_eq!(percent(95), 996_147);
        assert_eq!(percent(5), 52_428);
        assert_eq!(Bandwidth::of(Nanos::new(1024), Nanos::new(4_194_304_000)).unwrap().to_kernel(), 0);
    }

    #[test]
    fn sums_and_order_are_exact() {
        let third = Bandwidth::new(1, 3).unwrap();
        let sum = third.checked_add(third).and_then(|s| s.checked_add(third)).unwrap();
        assert_eq!(sum, Bandwidth::ONE);
        assert!(Bandwidth::new(333_333, 1_000_000).unwrap() < third);
        assert_eq!("33.5%".parse(), Ok(Bandwidth::new(335, 1000).unwrap()));
        assert_eq!(Bandwidth::new(1, 4).unwrap().to_exact_percent().as_deref(), Some("25%"));
        assert_eq!(third.to_exact_percent(), None);
    }
}
