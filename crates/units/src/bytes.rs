//! Sizes, byte rates and event rates.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse::{QuantityError, Scale, parse_quantity};

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

/// How often something happens, in events per 1000 seconds (millihertz), so that `"0.5/s"` is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frequency(pub u64);

const SIZE_UNITS: &[Scale] = &[
    Scale { unit: "B", factor: 1 },
    Scale { unit: "kB", factor: 1_000 },
    Scale { unit: "MB", factor: 1_000_000 },
    Scale { unit: "GB", factor: 1_000_000_000 },
    Scale { unit: "TB", factor: 1_000_000_000_000 },
    Scale { unit: "KiB", factor: 1 << 10 },
    Scale { unit: "MiB", factor: 1 << 20 },
    Scale { unit: "GiB", factor: 1 << 30 },
    Scale { unit: "TiB", factor: 1 << 40 },
];

/// Bits are counted per 8 seconds here, so that one table with whole factors serves bytes and bits.
const RATE_UNITS_TIMES_8: &[Scale] = &[
    Scale { unit: "B/s", factor: 8 },
    Scale { unit: "kB/s", factor: 8_000 },
    Scale { unit: "MB/s", factor: 8_000_000 },
    Scale { unit: "GB/s", factor: 8_000_000_000 },
    Scale { unit: "KiB/s", factor: 8 << 10 },
    Scale { unit: "MiB/s", factor: 8 << 20 },
    Scale { unit: "GiB/s", factor: 8 << 30 },
    Scale { unit: "bit/s", factor: 1 },
    Scale { unit: "kbit/s", factor: 1_000 },
    Scale { unit: "Mbit/s", factor: 1_000_000 },
    Scale { unit: "Gbit/s", factor: 1_000_000_000 },
];

const FREQUENCY_UNITS: &[Scale] = &[
    Scale { unit: "/s", factor: 1_000 },
    Scale { unit: "Hz", factor: 1_000 },
    Scale { unit: "kHz", factor: 1_000_000 },
];

impl FromStr for Bytes {
    type Err = QuantityError;

    /// Parses `"64KiB"`, `"1.5GB"`.
    fn from_str(text: &str) -> Result<Bytes, QuantityError> {
        parse_quantity(text, "a size", SIZE_UNITS).map(Bytes)
    }
}

impl Bytes {
    /// The exact text a workload file holds.
    pub fn to_exact_string(self) -> String {
        exact(self.0, &["TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"], SIZE_UNITS, "B")
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_exact_string())
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    /// Parses `"1MB/s"`, `"10Mbit/s"`; the result must be whole bytes per second.
    fn from_str(text: &str) -> Result<Rate, QuantityError> {
        let bits = parse_quantity(text, "a rate", RATE_UNITS_TIMES_8)?;
        if bits % 8 != 0 {
            return Err(QuantityError::TooFine { text: text.to_owned(), what: "a rate" });
        }
        Ok(Rate(bits / 8))
    }
}

impl Rate {
    /// The exact text a workload file holds.
    pub fn to_exact_string(self) -> String {
        for (unit, factor) in [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("KiB/s", 1024), ("kB/s", 1_000)]
        {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return format!("{}{unit}", self.0 / factor);
            }
        }
        format!("{}B/s", self.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_exact_string())
    }
}

impl FromStr for Frequency {
    type Err = QuantityError;

    /// Parses `"5/s"`, `"0.5/s"`, `"60Hz"`.
    fn from_str(text: &str) -> Result<Frequency, QuantityError> {
        parse_quantity(text, "a frequency", FREQUENCY_UNITS).map(Frequency)
    }
}

impl Frequency {
    /// Events per second, for statistics.
    pub fn per_second(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The exact text a workload file holds.
    pub fn to_exact_string(self) -> String {
        if self.0.is_multiple_of(1000) {
            return format!("{}/s", self.0 / 1000);
        }
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        format!("{}/s", text.trim_end_matches('0'))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_exact_string())
    }
}

fn exact(value: u64, preference: &[&str], units: &[Scale], base: &str) -> String {
    for name in preference {
        if let Some(scale) = units.iter().find(|s| s.unit == *name)
            && value != 0
            && value.is_multiple_of(scale.factor)
        {
            return format!("{}{name}", value / scale.factor);
        }
    }
    format!("{value}{base}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_exact() {
        assert_eq!("64KiB".parse(), Ok(Bytes(65_536)));
        assert_eq!("105MB".parse(), Ok(Bytes(105_000_000)));
        assert_eq!("1MB/s".parse(), Ok(Rate(1_000_000)));
        assert_eq!("10Mbit/s".parse(), Ok(Rate(1_250_000)));
        assert_eq!("0.5/s".parse(), Ok(Frequency(500)));
        assert!("1bit/s".parse::<Rate>().is_err());
        assert!("0.3B".parse::<Bytes>().is_err());
        assert!("64".parse::<Bytes>().is_err());
    }

    #[test]
    fn texts_read_back() {
        for value in [0, 1, 1000, 1024, 65_536, 105_000_000, 1 << 40, 123_456_789] {
            assert_eq!(Bytes(value).to_exact_string().parse(), Ok(Bytes(value)));
            assert_eq!(Rate(value).to_exact_string().parse(), Ok(Rate(value)));
            assert_eq!(Frequency(value).to_exact_string().parse(), Ok(Frequency(value)));
        }
    }
}
