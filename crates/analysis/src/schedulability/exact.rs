//! [`Sum`]: a sum of fractions compared with an integer, exactly.
//!
//! Utilisations of tasks with unrelated periods have no common denominator that fits a machine word. Bounds with 64 bits
//! after the point decide nearly always; where the sum is within them of the integer, the fractions are added as long
//! integers.

use std::cmp::Ordering;

/// A sum of fractions with denominators below 2^63.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    whole: i128,
    /// Remainders `r/d` with `0 < r < d`.
    parts: Vec<(u64, u64)>,
    /// The parts with 64 bits after the point, each rounded down: the sum is less than `parts.len()` units above.
    low: u128,
}

impl Sum {
    /// Nothing.
    pub fn new() -> Sum {
        Sum::default()
    }

    /// Adds `numerator / denominator`; the denominator is positive.
    pub fn add(&mut self, numerator: i128, denominator: i64) {
        debug_assert!(denominator > 0, "a fraction has a positive denominator");
        self.whole += numerator.div_euclid(i128::from(denominator));
        let rest = numerator.rem_euclid(i128::from(denominator)) as u64;
        if rest != 0 {
            self.low += (u128::from(rest) << 64) / denominator as u128;
            self.parts.push((rest, denominator as u64));
        }
    }

    /// The sum against an integer.
    pub fn compare(&self, bound: i128) -> Ordering {
        let room = bound - self.whole;
        if room < 0 || self.parts.is_empty() {
            return 0.cmp(&room);
        }
        if room > self.parts.len() as i128 {
            return Ordering::Less;
        }
        let limit = (room as u128) << 64;
        if self.low > limit {
            return Ordering::Greater;
        }
        if self.low + (self.parts.len() as u128) <= limit {
            return Ordering::Less;
        }
        self.compare_long(room as u64)
    }

    /// Whether the sum is at most an integer.
    pub fn at_most(&self, bound: i128) -> bool {
        self.compare(bound) != Ordering::Greater
    }

    /// Bounds of the sum with 64 bits after the point: not above, not below it.
    pub fn bounds(&self) -> (i128, i128) {
        let low = (self.whole << 64) + self.low as i128;
        (low, low + self.parts.len() as i128)
    }

    /// The nearest float, for words only.
    pub fn approximate(&self) -> f64 {
        self.whole as f64 + self.low as f64 / 2f64.powi(64)
    }

    fn compare_long(&self, room: u64) -> Ordering {
        let (mut numerator, mut denominator) = (vec![0u64], vec![1u64]);
        for &(rest, divisor) in &self.parts {
            scale(&mut numerator, divisor);
            let mut added = denominator.clone();
            scale(&mut added, rest);
            add(&mut numerator, &added);
            scale(&mut denominator, divisor);
        }
        scale(&mut denominator, room);
        trim(&mut numerator);
        trim(&mut denominator);
        (numerator.len().cmp(&denominator.len()))
            .then_with(|| numerator.iter().rev().cmp(denominator.iter().rev()))
    }
}

/// Multiplies a long integer, lowest digit first.
fn scale(number: &mut Vec<u64>, factor: u64) {
    let mut carry = 0u128;
    for digit in number.iter_mut() {
        carry += u128::from(*digit) * u128::from(factor);
        *digit = carry as u64;
        carry >>= 64;
    }
    if carry > 0 {
        number.push(carry as u64);
    }
}

fn add(number: &mut Vec<u64>, other: &[u64]) {
    let length = number.len().max(other.len()) + 1;
    number.resize(length, 0);
    let mut carry = 0u128;
    for (place, digit) in number.iter_mut().enumerate() {
        carry += u128::from(*digit) + u128::from(other.get(place).copied().unwrap_or(0));
        *digit = carry as u64;
        carry >>= 64;
    }
    trim(number);
}

fn trim(number: &mut Vec<u64>) {
    while number.last() == Some(&0) {
        number.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;

    #[test]
    fn what_no_float_can_tell_apart_is_told_apart() {
        let thirds = |extra: i128| {
            let mut sum = Sum::new();
            for _ in 0..3 {
                sum.add(1 << 40, 3 << 40);
            }
            sum.add(extra, (1 << 62) + 1);
            sum
        };
        assert_eq!(thirds(0).compare(1), Ordering::Equal);
        assert_eq!(thirds(1).compare(1), Ordering::Greater);
        assert_eq!(thirds(-1).compare(1), Ordering::Less);
        assert!((thirds(1).approximate() - 1.0).abs() < 1e-15);
        assert_eq!(Sum::new().compare(0), Ordering::Equal);
        assert_eq!(Sum::new().compare(-1), Ordering::Greater);
    }

    #[test]
    fn sums_of_many_unrelated_fractions_meet_their_complements() {
        // The sum of r/d and (d - r)/d over n denominators is n, whatever they are.
        let mut random = Pcg::for_job(1, 2, 3);
        for round in 0..200 {
            let mut sum = Sum::new();
            let n = 1 + random.below(40);
            for _ in 0..n {
                let d = 2 + random.below(1 << 40) as i64;
                let r = i128::from(1 + random.below(d as u64 - 1));
                sum.add(r, d);
                sum.add(i128::from(d) - r, d);
            }
            assert_eq!(sum.compare(i128::from(n)), Ordering::Equal, "{round}");
            sum.add(1, 1 << 61);
            assert_eq!(sum.compare(i128::from(n)), Ordering::Greater, "{round}");
            sum.add(-2, 1 << 61);
            assert_eq!(sum.compare(i128::from(n)), Ordering::Less, "{round}");
        }
    }
}
