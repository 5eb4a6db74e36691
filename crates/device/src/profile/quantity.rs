//! Quantities of a profile, each with its unit and its range: what is out of range is an error at its place.
//!
//! The ranges are wider than those of any device there is, and narrow enough that a simulation of the device ends: its instants are
//! nanoseconds in 63 bits, and a request may pass over thousands of tracks or pages.

use std::fmt::{self, Display};

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use surety_units::{Bytes, Nanos, Rate};

use crate::model::SECTOR;

/// Sectors of a device at most: 1 PiB, four times the largest there is.
pub const DISK_MAX: u64 = crate::hdd::geometry::SECTORS_MAX;
/// Sectors of a buffer at most: 64 GiB.
pub const BUFFER_MAX: u64 = 1 << 27;
/// Bytes a second of a link, at least and at most.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// A time, not negative, of so many seconds at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time<const SECONDS: i64 = 10>(pub Nanos);

/// A time that may be negative, of a second at most either way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shift(pub Nanos);

/// A size of whole sectors, above zero and so many at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size<const MOST: u64>(pub u64);

/// A rate of data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(pub Rate);

/// A whole number between two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count<const MOST: u32, const LEAST: u32 = 1>(pub u32);

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// A number between two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number<const MOST: u32, const LEAST: u32 = 0>(pub f64);

impl<const SECONDS: i64> Time<SECONDS> {
    /// Milliseconds.
    pub fn ms(self) -> f64 {
        self.0.get() as f64 / 1e6
    }
}

/// A value of any kind, as it stands in the file.
enum Given {
    Text(String),
    Whole(i128),
    Number(f64),
    /// In words.
    Other(&'static str),
}

impl Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Text(text) => write!(f, "`{text}`"),
            Given::Whole(number) => number.fmt(f),
            Given::Number(number) if number.abs() >= 1e9 || (*number != 0.0 && number.abs() < 1e-6) => {
                write!(f, "{number:e}")
            }
            Given::Number(number) => number.fmt(f),
            Given::Other(words) => f.write_str(words),
        }
    }
}

impl Given {
    /// The text of a quantity with its unit.
    fn quantity<E: Error>(self, what: &str, example: &str) -> Result<String, E> {
        match self {
            Given::Text(text) => Ok(text),
            Given::Whole(_) | Given::Number(_) => {
                Err(E::custom(format!("{self} has no unit: {what} is a text such as \"{example}\"")))
            }
            Given::Other(_) => {
                Err(E::custom(format!("{self} is not {what}, which is a text such as \"{example}\"")))
            }
        }
    }

    /// It as a number; `None`: it is none.
    fn number(&self) -> Option<f64> {
        match self {
            Given::Whole(number) => Some(*number as f64),
            Given::Number(number) => Some(*number),
            Given::Text(_) | Given::Other(_) => None,
        }
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Given, E> {
        Ok(Given::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Given, E> {
        Ok(Given::Whole(number.into()))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Given, E> {
        Ok(Given::Whole(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Given, E> {
        Ok(Given::Whole(number.into()))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Given, E> {
        Ok(Given::Whole(i128::try_from(number).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Given, E> {
        Ok(Given::Number(number))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Given, E> {
        Ok(Given::Other("a yes or no"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Given::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Given, A::Error> {
        while table.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Given::Other("a table or a date"))
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Given, D::Error> {
        from.deserialize_any(AnyValue)
    }
}

impl<'de> Deserialize<'de> for Shift {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shift, D::Error> {
        let text = Given::deserialize(from)?.quantity("a time", "-100us")?;
        let (sign, size) = text.trim().strip_prefix('-').map_or((1, text.as_str()), |size| (-1, size));
        let time: Nanos = size.parse().map_err(D::Error::custom)?;
        if time > Nanos::SECOND {
            return Err(D::Error::custom(format!("`{text}` is not between -1s and 1s")));
        }
        Ok(Shift(Nanos::new(sign * time.get())))
    }
}

impl<'de, const SECONDS: i64> Deserialize<'de> for Time<SECONDS> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time<SECONDS>, D::Error> {
        let text = Given::deserialize(from)?.quantity("a time", "100us")?;
        let time: Nanos = text.parse().map_err(D::Error::custom)?;
        let most = Nanos::from_secs(SECONDS);
        if time < Nanos::ZERO || time > most {
            return Err(D::Error::custom(format!(
                "`{text}` is not between 0s and {}",
                most.to_exact_string()
            )));
        }
        Ok(Time(time))
    }
}

impl<'de, const MOST: u64> Deserialize<'de> for Size<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size<MOST>, D::Error> {
        let text = Given::deserialize(from)?.quantity("a size", "64KiB")?;
        sectors(&text, MOST).map(Size).map_err(D::Error::custom)
    }
}

/// The sectors that a text says, one to so many; or why it does not.
pub fn sectors(text: &str, most: u64) -> Result<u64, String> {
    let Bytes(bytes) = text.parse().map_err(|wrong: surety_units::QuantityError| wrong.to_string())?;
    if bytes % SECTOR != 0 {
        return Err(format!("`{text}` is not a number of whole sectors of {SECTOR} bytes"));
    }
    let sectors = bytes / SECTOR;
    if sectors == 0 || sectors > most {
        let most = Bytes(most * SECTOR).to_exact_string();
        return Err(format!("`{text}` is not between {SECTOR}B and {most}"));
    }
    Ok(sectors)
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Speed, D::Error> {
        let text = Given::deserialize(from)?.quantity("a rate", "100MB/s")?;
        let rate: Rate = text.parse().map_err(D::Error::custom)?;
        if !RATES.contains(&rate.0) {
            return Err(D::Error::custom(format!("`{text}` is not between 1kB/s and 1000GB/s")));
        }
        Ok(Speed(rate))
    }
}

impl<'de, const MOST: u32, const LEAST: u32> Deserialize<'de> for Count<MOST, LEAST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Count<MOST, LEAST>, D::Error> {
        let given = Given::deserialize(from)?;
        let count = if let Given::Whole(number) = given { u32::try_from(number).ok() } else { None };
        let found = count.filter(|count| (LEAST..=MOST).contains(count));
        let wrong = || D::Error::custom(format!("{given} is not a whole number from {LEAST} to {MOST}"));
        found.map(Count).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
        Number::<1>::deserialize(from).map(|number| Share(number.0))
    }
}

impl<'de, const MOST: u32, const LEAST: u32> Deserialize<'de> for Number<MOST, LEAST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number<MOST, LEAST>, D::Error> {
        let given = Given::deserialize(from)?;
        let range = f64::from(LEAST)..=f64::from(MOST);
        let found = given.number().filter(|number| range.contains(number));
        let wrong = || D::Error::custom(format!("{given} is not a number from {LEAST} to {MOST}"));
        found.map(Number).ok_or_else(wrong)
    }
}
