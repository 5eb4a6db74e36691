//! [`Probability`]: the `99.9%` of a promise, exact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::bandwidth::decimal_percent;
use crate::parse::{QuantityError, Scale, parse_quantity};

/// A probability in parts per 10^11 (nine decimals of a percent), between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Probability(u64);

const WHOLE: u64 = 100_000_000_000;

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0);
    /// Always.
    pub const ONE: Probability = Probability(WHOLE);

    /// The nearest float, for statistics.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// One minus this, exact.
    pub const fn complement(self) -> Probability {
        Probability(WHOLE - self.0)
    }

    /// The exact text a workload file holds, `"99.9%"`.
    pub fn to_exact_string(self) -> String {
        decimal_percent(u128::from(self.0))
    }
}

impl FromStr for Probability {
    type Err = QuantityError;

    /// Parses `"99.9%"`; more than 100 % is refused.
    fn from_str(text: &str) -> Result<Probability, QuantityError> {
        let units = parse_quantity(text, "a percentage", &[Scale { unit: "%", factor: 1_000_000_000 }])?;
        if units > WHOLE {
            return Err(QuantityError::OutOfRange {
                text: text.to_owned(),
                what: "a fraction of activations",
                why: "it exceeds 100%",
            });
        }
        Ok(Probability(units))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_exact_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_exact() {
        let p: Probability = "99.9%".parse().unwrap();
        assert_eq!(p.to_exact_string(), "99.9%");
        assert_eq!("100%".parse(), Ok(Probability::ONE));
        assert!("100.1%".parse::<Probability>().is_err());
        assert!("99.9".parse::<Probability>().is_err());
    }
}
