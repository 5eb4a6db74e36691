//! [`Divisor`]: numbers of sectors divided by one that stays, by a multiplication. A division takes some ten times as long.

/// What numbers up to 2^48 are divided by: a disk has no more sectors, spare ones included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    by: u64,
    /// 2^64 divided by it, rounded up; 0: there is none in 64 bits, or it would not do.
    inverse: u64,
}

impl Divisor {
    /// # Panics
    /// For 0.
    pub(super) fn new(by: u64) -> Divisor {
        // The inverse is too great by less than 1, and a quotient by less than 2^48 / 2^64: not enough to reach the next whole number, from
        // which it is at least 1 / by away.
        let inverse = if (2..=1 << 16).contains(&by) { u64::MAX / by + 1 } else { 0 };
        assert!(by > 0, "a number to divide by");
        Divisor { by, inverse }
    }

    pub(super) fn get(self) -> u64 {
        self.by
    }

    /// Quotient and remainder.
    #[inline]
    pub(super) fn divide(self, number: u64) -> (u64, u64) {
        if self.inverse == 0 {
            return (number / self.by, number % self.by);
        }
        let quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        (quotient, number - quotient * self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_divides(by in 1u64..1 << 17, quotient in 0u64..1 << 32, beside in 0u64..3, number in 0u64..1 << 48) {
            let near = (by * quotient + beside).saturating_sub(1).min(1 << 48);
            for number in [near, number, 1 << 48, 0] {
                prop_assert_eq!(Divisor::new(by).divide(number), (number / by, number % by));
            }
        }
    }
}
