//! [`Least`]: the least between the ends of two requests of a device that takes one at a time.
//!
//! A request begins when the one before it is complete. A device of fixed times takes no less than its time; a hard disk takes no less than its
//! data do over the interface, wherever they were (an overhead may have passed while it waited, and what is read ahead is there at once).

use surety_units::{Nanos, Rate};

use crate::model::SECTOR;
use crate::profile::{Device, Profile};

/// The least from the end of one request to the end of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Nanoseconds of a read and of a write, however short.
    pub read: Nanos,
    pub write: Nanos,
    /// Of the data of either, where they take time of their own; 0: none is counted.
    pub rate: Rate,
}

impl Least {
    /// Of a read, or a write, of so many bytes, rounded down.
    pub fn of(&self, writes: bool, bytes: u64) -> Nanos {
        let fixed = if writes { self.write } else { self.read };
        let data = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.0.max(1));
        let data = if self.rate.0 == 0 { 0 } else { i64::try_from(data).unwrap_or(i64::MAX) };
        // Ends are whole nanoseconds.
        fixed.max(Nanos::new(data.saturating_sub(1)))
    }
}

impl Profile {
    /// The least between the ends of two requests; `None`: it takes more than one at a time, or chance says how long it takes.
    pub fn least(&self) -> Option<Least> {
        if self.depth() > 1 {
            return None;
        }
        match &self.device {
            Device::Fixed(fixed) => Some(Least { read: fixed.read, write: fixed.write, rate: Rate(0) }),
            Device::Hdd(hdd) => {
                let rate = SECTOR as f64 * 1e3 / hdd.sector_transfer;
                // A rate that is no number, of an interface without a time, is as good as none.
                let rate = if hdd.sector_transfer > 0.0 { libm::ceil(rate) as u64 } else { 0 };
                Some(Least { rate: Rate(rate), ..Least::default() })
            }
            Device::Flash(_) | Device::Virtio(..) => None,
        }
    }
}
