//! Quantities of a profile, each with its unit and its range: what is out of range is an error at its place.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use surety_units::{Bytes, Nanos, Rate};

use crate::model::SECTOR;

/// A time, not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time(pub Nanos);

/// A time that may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shift(pub Nanos);

/// A size of whole sectors, above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sectors(pub u64);

/// A rate above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(pub Rate);

/// A whole number from 1 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count(pub u32);

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// A number of sectors of a track, not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew(pub f64);

impl Time {
    /// Milliseconds.
    pub fn ms(self) -> f64 {
        self.0.get() as f64 / 1e6
    }
}

impl<'de> Deserialize<'de> for Shift {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shift, D::Error> {
        let text = String::deserialize(from)?;
        let (sign, size) = text.strip_prefix('-').map_or((1, text.as_str()), |size| (-1, size));
        let time: Nanos = size.parse().map_err(D::Error::custom)?;
        Ok(Shift(Nanos::new(sign * time.get())))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = String::deserialize(from)?;
        let time: Nanos = text.parse().map_err(D::Error::custom)?;
        if time < Nanos::ZERO || time > Nanos::from_secs(3600) {
            return Err(D::Error::custom(format!("`{text}` is not between 0 and an hour")));
        }
        Ok(Time(time))
    }
}

impl<'de> Deserialize<'de> for Sectors {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sectors, D::Error> {
        let text = String::deserialize(from)?;
        let Bytes(bytes) = text.parse().map_err(D::Error::custom)?;
        if bytes == 0 || bytes % SECTOR != 0 {
            return Err(D::Error::custom(format!(
                "`{text}` is not a number of whole sectors of {SECTOR} bytes"
            )));
        }
        Ok(Sectors(bytes / SECTOR))
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Speed, D::Error> {
        let text = String::deserialize(from)?;
        let rate: Rate = text.parse().map_err(D::Error::custom)?;
        if rate.0 == 0 {
            return Err(D::Error::custom(format!("`{text}` would never move a byte")));
        }
        Ok(Speed(rate))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Count, D::Error> {
        let number = i64::deserialize(from)?;
        match u32::try_from(number) {
            Ok(count) if count > 0 && count <= 1 << 24 => Ok(Count(count)),
            _ => Err(D::Error::custom(format!("{number} is not between 1 and {}", 1 << 24))),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
        let number = f64::deserialize(from)?;
        if (0.0..=1.0).contains(&number) {
            Ok(Share(number))
        } else {
            Err(D::Error::custom(format!("{number} is not between 0 and 1")))
        }
    }
}

impl<'de> Deserialize<'de> for Skew {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Skew, D::Error> {
        let number = f64::deserialize(from)?;
        if (0.0..=1e6).contains(&number) {
            Ok(Skew(number))
        } else {
            Err(D::Error::custom(format!("{number} is not a number of sectors to skew by")))
        }
    }
}
