//! [`Account`]: how many requests there were, what they took by the model, and how much later they were answered.

use std::fmt;

use surety_device::{Op, SECTOR};
use surety_stats::histogram::Histogram;
use surety_units::Nanos;

/// A disk is disturbed where the lateness that 1 % of its answers exceed is more than this part of what a request takes in the mean: 4 %.
const DISTURBED_PER_MILLE: u128 = 40;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Account {
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    bytes: u64,
    service_ns: u128,
    response_ns: u128,
    lateness_ns: u128,
    lateness: Histogram,
    /// Requests that the disk had room for when they came.
    prompt: u64,
}

/// An answered request, by the model and by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub op: Op,
    pub sectors: u32,
    /// What it took by the model, without waiting in the device and with it.
    pub service: Nanos,
    pub response: Nanos,
    /// How much later than by the model it was answered.
    pub lateness: Nanos,
    /// Whether the disk had room for it when it came: else it waited in front of the disk, as it would have had it come earlier.
    pub is_prompt: bool,
}

/// What a reader of measurements needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    /// Read and written.
    pub bytes: u64,
    /// What a request took by the model in the mean, without waiting for others in the device.
    pub service: Nanos,
    /// By the model, from a request's arrival to its answer, in the mean.
    pub response: Nanos,
    /// How much later than by the model a request was answered, or earlier.
    pub lateness_mean: Nanos,
    pub lateness_p99: Nanos,
    pub lateness_max: Nanos,
    /// Requests that the disk had room for when they came; the others waited in front of it.
    pub prompt: u64,
    /// Whether the 99th percentile of lateness exceeds 4 % of `service`.
    pub is_disturbed: bool,
}

impl Account {
    /// Counts an answered request. One that came early counts as one that came late by as much.
    pub fn count(&mut self, answered: &Answered) {
        let Answered { op, sectors, service, response, lateness, is_prompt } = *answered;
        match op {
            Op::Read => self.reads += 1,
            Op::Write => self.writes += 1,
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
        }
        if matches!(op, Op::Read | Op::Write) {
            self.bytes += u64::from(sectors) * SECTOR;
        }
        let lateness = lateness.get().unsigned_abs();
        self.service_ns += u128::from(service.get_unsigned());
        self.response_ns += u128::from(response.get_unsigned());
        self.lateness_ns += u128::from(lateness);
        self.lateness.record(lateness);
        self.prompt += u64::from(is_prompt);
    }

    /// What it comes to; `None` without a request.
    pub fn summary(&self) -> Option<Summary> {
        let requests = u128::from(self.lateness.count());
        let (p99, max) = (self.lateness.quantile(0.99)?, self.lateness.max()?);
        let mean = |sum: u128| nanos((sum + requests / 2) / requests);
        Some(Summary {
            reads: self.reads,
            writes: self.writes,
            flushes: self.flushes,
            discards: self.discards,
            bytes: self.bytes,
            service: mean(self.service_ns),
            response: mean(self.response_ns),
            lateness_mean: mean(self.lateness_ns),
            lateness_p99: nanos(p99.into()),
            lateness_max: nanos(max.into()),
            prompt: self.prompt,
            is_disturbed: u128::from(p99) * requests * 1000 > self.service_ns * DISTURBED_PER_MILLE,
        })
    }
}

impl Summary {
    /// Requests of every kind.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }

    /// Whether a time that each request took beside the model is more than 4 % of what it takes by the model.
    pub(crate) fn is_exceeded_by(&self, time: Nanos) -> bool {
        u128::from(time.get_unsigned()) * 1000
            > u128::from(self.response.get_unsigned()) * DISTURBED_PER_MILLE
    }

    /// Why what was measured on it decides nothing, where that is so.
    pub fn objection(&self) -> Option<String> {
        let words = || {
            format!(
                "disturbed: answers were later than the model's by {} (p99), more than 4 % of the {} that a request takes",
                self.lateness_p99, self.service
            )
        };
        self.is_disturbed.then(words)
    }
}

/// `mean 3.1 us, p99 11 us, max 40 us, of 120 requests that take 8.4 ms in the mean`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mean {}, p99 {}, max {}, of {} requests that take {} in the mean",
            self.lateness_mean,
            self.lateness_p99,
            self.lateness_max,
            self.requests(),
            self.service
        )
    }
}

fn nanos(ns: u128) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_that_is_late_by_more_than_4_percent_disturbs() {
        let of = |late: u64, by: i64| {
            let mut account = Account::default();
            for n in 0..1000 {
                let lateness = Nanos::from_micros(if n < late { by } else { 1 });
                let (service, response) = (Nanos::from_millis(10), Nanos::from_millis(30));
                let (op, sectors, is_prompt) = (Op::Read, 8, n % 4 == 0);
                account.count(&Answered { op, sectors, service, response, lateness, is_prompt });
            }
            account.summary().unwrap()
        };
        assert!(!of(9, 100_000).is_disturbed, "fewer than a hundredth");
        assert!(of(11, 420).is_disturbed);
        assert!(of(11, 420).objection().unwrap().contains("disturbed"));
        assert!(!of(1000, 390).is_disturbed);
        assert!(of(11, -420).is_disturbed, "early answers are as wrong");
        let summary = of(0, 0);
        assert_eq!((summary.requests(), summary.prompt, summary.bytes), (1000, 250, 4096 * 1000));
        assert_eq!((summary.service, summary.response), (Nanos::from_millis(10), Nanos::from_millis(30)));
        assert_eq!(summary.lateness_mean, Nanos::from_micros(1));
        assert_eq!(Account::default().summary(), None);
    }
}
