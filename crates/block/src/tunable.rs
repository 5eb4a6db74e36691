//! [`Tunable`]: what of an I/O scheduler can be set, under the kernel's own names (`/sys/block/DISK/queue/iosched`).

use surety_units::Nanos;
use thiserror::Error;

/// A number that can be set. Its unit is that of the kernel's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The kernel's name, or that of a part that can be switched off where the kernel has no such file.
    pub name: &'static str,
    /// Its value where nothing else is said.
    pub default: u64,
    pub min: u64,
    pub max: u64,
    /// `ms`, `us`, `ns`, `jiffies`, `sectors`, `requests`; empty: a count or a switch.
    pub unit: &'static str,
    /// What it does, for the list of an I/O scheduler's tunables.
    pub meaning: &'static str,
}

impl Tunable {
    /// A number from 0 to 2^31 - 1, as most of the kernel's files take.
    pub(crate) const fn number(
        name: &'static str,
        default: u64,
        unit: &'static str,
        meaning: &'static str,
    ) -> Tunable {
        Tunable { name, default, min: 0, max: i32::MAX.unsigned_abs() as u64, unit, meaning }
    }

    /// A number of 1 or more, where the kernel takes 1 for anything less.
    pub(crate) const fn positive(
        name: &'static str,
        default: u64,
        unit: &'static str,
        meaning: &'static str,
    ) -> Tunable {
        Tunable { min: 1, ..Tunable::number(name, default, unit, meaning) }
    }

    /// 0 or 1.
    pub(crate) const fn switch(name: &'static str, default: u64, meaning: &'static str) -> Tunable {
        Tunable { name, default, min: 0, max: 1, unit: "", meaning }
    }
}

/// Values of an I/O scheduler's tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    tunables: &'static [Tunable],
    values: Vec<u64>,
}

/// A tunable that cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// It is of another scheduler, or of none.
    #[error("there is no tunable `{name}`; it has {known}")]
    Unknown { name: String, known: String },
    /// It is too small or too large.
    #[error("`{name}` is {value}, outside {min} to {max}")]
    Range { name: &'static str, value: u64, min: u64, max: u64 },
}

impl Settings {
    /// All defaults.
    pub fn new(tunables: &'static [Tunable]) -> Settings {
        Settings { tunables, values: tunables.iter().map(|tunable| tunable.default).collect() }
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SettingsError> {
        let Some(place) = self.tunables.iter().position(|tunable| tunable.name == name) else {
            let known: Vec<_> = self.tunables.iter().map(|tunable| tunable.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(SettingsError::Unknown { name: name.to_owned(), known });
        };
        let Tunable { name, min, max, .. } = self.tunables[place];
        if !(min..=max).contains(&value) {
            return Err(SettingsError::Range { name, value, min, max });
        }
        self.values[place] = value;
        Ok(())
    }

    /// The value of a tunable, in its unit.
    ///
    /// # Panics
    /// Where the scheduler has no tunable of this name.
    pub fn get(&self, name: &str) -> u64 {
        let place = self.tunables.iter().position(|tunable| tunable.name == name);
        self.values[place.expect("a scheduler asks for its own tunables")]
    }

    /// A value in milliseconds.
    ///
    /// # Panics
    /// As [`Settings::get`].
    pub fn millis(&self, name: &str) -> Nanos {
        Nanos::from_millis(i64::try_from(self.get(name)).expect("within its limits"))
    }

    /// Whether a switch is on.
    ///
    /// # Panics
    /// As [`Settings::get`].
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) != 0
    }

    /// All of them with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Tunable, u64)> + '_ {
        self.tunables.iter().zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use crate::elevators::ELEVATORS;

    use super::*;

    /// 0 is refused where the kernel takes 1 for it, and as a target of `kyber`; all others may be 0.
    #[test]
    fn the_least_is_that_of_the_kernel() {
        let positive = [
            ("kyber", &["read_lat_nsec", "write_lat_nsec"][..]),
            ("cfq-v2", &["quantum", "fifo_expire_r", "fifo_expire_w"]),
            (
                "cfq",
                &[
                    "quantum",
                    "fifo_expire_sync",
                    "fifo_expire_async",
                    "slice_sync",
                    "slice_async",
                    "slice_async_rq",
                ],
            ),
            ("bfq", &["fifo_expire_sync", "fifo_expire_async", "timeout_sync", "back_seek_penalty"]),
        ];
        for row in ELEVATORS {
            let of = positive.iter().find(|of| of.0 == row.word).map_or(&[][..], |of| of.1);
            for tunable in row.tunables {
                let mut settings = Settings::new(row.tunables);
                let name = tunable.name;
                let expected = if of.contains(&name) {
                    let (min, max) = (1, tunable.max);
                    Err(SettingsError::Range { name, value: 0, min, max })
                } else {
                    Ok(())
                };
                assert_eq!(settings.set(name, 0), expected, "{} {name}", row.word);
                assert!(settings.set(name, 1).is_ok() && settings.set(name, tunable.default).is_ok());
            }
        }
    }

    #[test]
    fn a_value_below_the_least_is_told_with_it() {
        let row = ELEVATORS.iter().find(|row| row.word == "cfq").expect("it has a row");
        let wrong = Settings::new(row.tunables).set("quantum", 0).expect_err("it is refused");
        assert_eq!(wrong.to_string(), "`quantum` is 0, outside 1 to 2147483647");
    }
}
