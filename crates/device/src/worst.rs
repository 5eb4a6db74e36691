//! [`Worst`]: the longest that a device takes for requests of a range of sectors, for guarantees.
//!
//! Each is a bound over every state that the model can be in: what it served before, where it holds what was written, and, where chance is
//! bounded, what chance does. A model whose times have no bound says so in words, and so a guarantee on it is refused.
//!
//! What [`Worst`] says of `n` requests that are inside at once, `w` of which may write:
//!
//! ```text
//! all are complete within   sum of cost(request) + held.time(n, w)
//! cost(request)             fixed + bytes / rate
//! ```
//!
//! whatever the order in which the device serves them, for it is never idle while one waits. A device that holds written data
//! ([`Held`]) writes them on its own account, between requests and before them.

mod flash;
mod hdd;
mod least;

use std::ops::Range;

use surety_units::{Bytes, Nanos, Rate};

use crate::fixed::{self, transfer};
use crate::model::SECTOR;
use crate::profile::{Device, Profile, SlowestRead};
use crate::virtio;

pub use least::Least;

/// What is asked of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Sectors of which all requests are.
    pub range: Range<u64>,
    /// Sectors of the longest request.
    pub longest: u32,
    /// What is written; `None`: nothing is.
    pub writes: Option<Writes>,
}

/// What is written to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// Sectors of the shortest request.
    pub shortest: u32,
    /// Whether one may be of sectors that the device still holds from an earlier one, or is read from there.
    pub overlap: bool,
    /// Whether what the device holds is asked onto the medium ([`crate::Op::Flush`]).
    pub flushes: bool,
    /// Whether one may have to be on the medium before it is complete ([`crate::model::Request::through`]).
    pub through: bool,
}

/// A bound on the time of one request: `fixed + bytes / rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// All that does not grow with its length: controller, movement, rotation, retries.
    pub fixed: Nanos,
    /// Of the data, with the changes of tracks; 0: they take no time.
    pub rate: Rate,
}

impl Cost {
    /// Of so many bytes.
    pub fn of(&self, bytes: u64) -> Nanos {
        self.fixed + transfer(bytes, self.rate)
    }

    /// A cost in nanoseconds, the second for each sector, rounded up.
    fn new(fixed: f64, sector: f64) -> Cost {
        let rate = if sector > 0.0 { Rate((SECTOR as f64 * 1e9 / sector) as u64) } else { Rate(0) };
        // A nanosecond for the instant at which it comes and one for that at which it is complete, which are whole ones.
        Cost { fixed: Nanos::from_f64_rounded(libm::ceil(fixed)) + Nanos::new(2), rate }
    }
}

/// What a device holds of what was written and puts on the medium on its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Writes that it holds at most.
    pub most: u64,
    /// Of those, what may go before each request: one that is under way when it comes, and one that the device puts in between.
    pub per_request: u64,
    /// And before a write for which there is no room, or of sectors that it holds.
    pub per_write: u64,
    /// Whether all of it may have to go before one request: a flush.
    pub flushes: bool,
    /// Of one of them.
    pub each: Cost,
    /// Bytes of the longest one, and of all that it holds.
    pub longest: u64,
    pub bytes: u64,
}

impl Held {
    /// How long the device's own work takes at most until `requests` are complete that are inside at once or follow one another, of which
    /// `writes` may write.
    pub fn time(&self, requests: u64, writes: u64) -> Nanos {
        self.time_but(requests, writes, 0)
    }

    /// The same where `last` of the writes are known to be complete last: what the device does for them it does later, unless they are on the medium
    /// by then.
    pub fn time_but(&self, requests: u64, writes: u64, last: u64) -> Nanos {
        let before = writes.saturating_sub(last);
        let all = self.most.saturating_add(if self.most > 0 { before } else { 0 });
        let between = self.per_request.saturating_mul(requests) + self.per_write.saturating_mul(writes);
        let count = if self.flushes { all } else { all.min(between) };
        // What is held and what comes are no more bytes than there is room for and than come.
        let bytes = self.bytes.saturating_add(writes.saturating_mul(self.longest));
        let bytes = bytes.min(count.saturating_mul(self.longest));
        // A nanosecond for each, whose data alone would be rounded up, too.
        let fixed = self.each.fixed.get().saturating_add(1);
        let fixed = fixed.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        Nanos::new(fixed.saturating_add(transfer(bytes, self.each.rate).get()))
    }
}

/// The longest that a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    pub read: Cost,
    pub write: Cost,
    /// Of a flush, beside what it has the device put on the medium ([`Held`]).
    pub flush: Nanos,
    pub held: Held,
}

impl Profile {
    /// The longest that the device takes for what is asked of it, once its arm is in that range; no request that is bounded reads what another
    /// writes unless [`Writes::overlap`] says so.
    ///
    /// # Errors
    /// Why there is no bound, in words: of its model, or since the device it was measured on took longer than its model may.
    pub fn worst(&self, asked: &Asked) -> Result<Worst, String> {
        if asked.range.is_empty() || asked.range.end > self.sectors() {
            return Err(format!("{} has no sectors {:?}", self.name, asked.range));
        }
        if let Some(SlowestRead { sectors, took }) = self.slowest_read {
            // It was anywhere on the device.
            let longest = asked.longest.max(u32::try_from(sectors).unwrap_or(u32::MAX));
            let anywhere = Asked { range: 0..self.sectors(), longest, writes: None };
            let most = self.of_model_alone(&anywhere)?.read.of(sectors * SECTOR);
            if took > most {
                return Err(format!(
                    "its profile {} was measured, and a read of {} made alone took {took}, which its model has done within {most}: nothing bounds how long it takes",
                    self.name,
                    Bytes(sectors * SECTOR)
                ));
            }
        }
        self.of_model_alone(asked)
    }

    /// The same, whatever was measured.
    fn of_model_alone(&self, asked: &Asked) -> Result<Worst, String> {
        match &self.device {
            Device::Fixed(parameters) => Ok(of_fixed(parameters)),
            Device::Hdd(parameters) => Ok(hdd::worst(parameters, asked)),
            Device::Flash(parameters) => flash::worst(parameters, asked),
            Device::Virtio(parameters, behind) => {
                behind.worst(asked).map(|of| behind_a_queue(parameters, of))
            }
        }
    }
}

/// Requests beside each other take no longer than one after another.
fn of_fixed(parameters: &fixed::Parameters) -> Worst {
    let cost = |fixed| Cost { fixed, rate: parameters.rate };
    let write = cost(parameters.write.max(parameters.flush));
    Worst { read: cost(parameters.read), write, flush: parameters.flush, held: Held::default() }
}

/// Before each request and before each completion the thread may have slept.
fn behind_a_queue(parameters: &virtio::Parameters, behind: Worst) -> Worst {
    let own = parameters.submit + parameters.complete + parameters.wake * 2;
    let with = |cost: Cost| Cost { fixed: cost.fixed + own, ..cost };
    Worst { read: with(behind.read), write: with(behind.write), flush: behind.flush + own, ..behind }
}

#[cfg(test)]
mod tests;
