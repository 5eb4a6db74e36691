//! The play-out buffer of a stream: how large it is, the [`Credit`] that holds its fetching to the rate, and how much of a guarantee it has.
//!
//! Credit accrues at the stream's rate up to one batch and what the jitter allows; fetching takes it. So a stream never takes more
//! from its disk than its contract, however fast it is consumed, and may catch up by as much as it was held up. This is the prefetcher of ABISS
//! (de Nijs et al., Linux Symposium 2005).

mod ledger;
mod turns;
mod waits;

use std::fmt;

pub use ledger::Ledger;
pub use turns::{Candidate, Pace, Rest, Served, Turn, Want};
pub use waits::{Batch, Cause, Inside, Through, UnderRun, Waits};

use surety_units::{Nanos, Rate};

use crate::workload::Stream;

/// What a buffer holds beyond one access and one batch where none is given, and the jitter that the credit allows where none is: 430 ms
/// of the stream, as in the reference (105 pages at 1 MB/s).
pub const AHEAD: Nanos = Nanos::from_millis(430);

/// Bytes x 1e9: what a rate gives in a nanosecond is whole in it.
const SCALE: u128 = 1_000_000_000;

/// Bytes of a stream's play-out buffer when it fetches batches of so many bytes.
pub fn buffer_of(stream: &Stream, batch: u64) -> u64 {
    let ahead = i128::from(AHEAD.get()) * i128::from(stream.rate.0) / 1_000_000_000;
    let computed = stream.access_bytes() + batch + u64::try_from(ahead).unwrap_or(u64::MAX >> 1);
    stream.buffer.map_or(computed, |bytes| bytes.0).max(batch + stream.access_bytes())
}

/// Bytes of memory that a buffer takes, which is made of whole batches.
pub fn in_whole_batches(buffer: u64, batch: u64) -> u64 {
    buffer.div_ceil(batch.max(1)).saturating_mul(batch)
}

/// The jitter of a stream.
pub fn jitter_of(stream: &Stream) -> Nanos {
    stream.jitter.unwrap_or(AHEAD).max(Nanos::ZERO)
}

/// How much of a guarantee a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Fetched ahead and counted; the disk treats it as anybody's.
    Observed,
    /// Past the page cache, from locked memory, its requests before best effort; nothing bounds how long they take.
    Scheduled,
    /// The same, and a bound on every batch follows from a model of the disk. A batch that took longer ends this.
    Admitted,
    /// Admitted, and runs were within the bound.
    Verified,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Observed => "observed",
            Level::Scheduled => "scheduled",
            Level::Admitted => "admitted",
            Level::Verified => "verified",
        })
    }
}

/// What a stream may fetch now.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    rate: Rate,
    /// Bytes x 1e9, as of an instant, and the most of it.
    amount: u128,
    at: Nanos,
    most: u128,
    /// What was taken and is not owed any more: it is made up for before anything accrues. 0 where there is an amount.
    debt: u128,
}

impl Credit {
    /// As much as there can be: a batch, and what the rate gives in the jitter.
    pub fn full(rate: Rate, batch: u64, jitter: Nanos, now: Nanos) -> Credit {
        let jitter = jitter.max(Nanos::ZERO).get_unsigned();
        let most = u128::from(batch) * SCALE + u128::from(jitter) * u128::from(rate.0);
        Credit { rate, amount: most, at: now, most, debt: 0 }
    }

    /// The same with no more than one batch of it.
    pub fn of_one(self, batch: u64) -> Credit {
        Credit { amount: self.amount.min(u128::from(batch) * SCALE), ..self }
    }

    /// It accrues until an instant, which is not before the last.
    pub fn accrue(&mut self, now: Nanos) {
        let elapsed = (now - self.at).max(Nanos::ZERO).get_unsigned();
        let gained = u128::from(elapsed) * u128::from(self.rate.0);
        let paid = gained.min(self.debt);
        self.debt -= paid;
        self.amount = (self.amount + gained - paid).min(self.most);
        self.at = now.max(self.at);
    }

    /// Whether it is enough for so many bytes.
    pub fn is_enough(&self, bytes: u64) -> bool {
        self.amount >= u128::from(bytes) * SCALE
    }

    /// Takes it for so many bytes.
    ///
    /// # Panics
    /// Where it is not enough.
    pub fn take(&mut self, bytes: u64) {
        self.amount =
            self.amount.checked_sub(u128::from(bytes) * SCALE).expect("asked before whether it is enough");
    }

    /// The first instant at which it is enough; the last at which it was looked at where it is.
    pub fn enough_at(&self, bytes: u64) -> Nanos {
        let missing = (u128::from(bytes) * SCALE + self.debt).saturating_sub(self.amount);
        let wait = missing.div_ceil(u128::from(self.rate.0.max(1)));
        self.at + Nanos::new(i64::try_from(wait).unwrap_or(i64::MAX / 4))
    }

    /// Another rate from an instant on; what there is stays, but for what is beyond the new most.
    pub fn change(&mut self, rate: Rate, batch: u64, jitter: Nanos, now: Nanos) {
        self.accrue(now);
        let full = Credit::full(rate, batch, jitter, self.at);
        *self = Credit { amount: self.amount.min(full.most), debt: self.debt, ..full };
    }

    /// Another batch or jitter from an instant on, as if it had been so from the beginning: what there is more or less of is given, or owed.
    pub fn resize(&mut self, batch: u64, jitter: Nanos, now: Nanos) {
        self.accrue(now);
        let most = Credit::full(self.rate, batch, jitter, now).most;
        let (more, less) = (most.saturating_sub(self.most), self.most.saturating_sub(most));
        let (paid, taken) = (more.min(self.debt), less.min(self.amount));
        self.amount = self.amount + (more - paid) - taken;
        self.debt = self.debt - paid + (less - taken);
        self.most = most;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credit_accrues_to_the_byte() {
        let mut credit = Credit::full(Rate(1_000_000), 80_000, Nanos::from_millis(20), Nanos::ZERO);
        assert!(credit.is_enough(100_000) && !credit.is_enough(100_001));
        credit.take(80_000);
        assert_eq!(credit.enough_at(80_000), Nanos::from_millis(60));
        credit.accrue(Nanos::from_millis(60) - Nanos::new(1));
        assert!(!credit.is_enough(80_000));
        credit.accrue(Nanos::from_millis(60));
        assert!(credit.is_enough(80_000));
        credit.accrue(Nanos::from_secs(9));
        assert!(!credit.is_enough(100_001));
        credit.change(Rate(10), 50_000, Nanos::ZERO, Nanos::from_secs(10));
        assert!(credit.is_enough(50_000) && !credit.is_enough(50_001));
    }

    proptest! {
        /// However often it is resized, no more was taken since the beginning than the rate gives and what it is now full with, and what is taken beyond is owed.
        #[test]
        fn resizing_gives_nothing_away(
            rate in 1_u64..1_000_000_000,
            steps in prop::collection::vec((0_i64..500_000_000, 1_u64..1_000_000, any::<bool>()), 1..60),
        ) {
            let mut credit = Credit::full(Rate(rate), 1_000, Nanos::ZERO, Nanos::ZERO);
            let (mut now, mut batch, mut taken) = (Nanos::ZERO, 1_000, 0_u128);
            for (wait, size, resizes) in steps {
                now += Nanos::new(wait);
                if resizes {
                    batch = size;
                    credit.resize(batch, Nanos::ZERO, now);
                }
                credit.accrue(now);
                if credit.is_enough(batch / 3) {
                    credit.take(batch / 3);
                    taken += u128::from(batch / 3);
                }
                let given = u128::from(rate) * u128::from(now.get_unsigned()) + u128::from(batch) * SCALE;
                prop_assert!(taken * SCALE + credit.amount <= given + credit.debt);
                prop_assert!(credit.debt == 0 || credit.amount == 0);
                let at = credit.enough_at(batch);
                credit.accrue(at);
                prop_assert!(credit.is_enough(batch));
                now = at;
            }
        }

        /// In no interval is more taken than a batch, the jitter's bytes, and the rate times the interval.
        #[test]
        fn no_interval_takes_more_than_the_contract(
            rate in 1_u64..1_000_000_000,
            batch in 1_u64..1_000_000,
            jitter in 0_i64..1_000_000_000,
            waits in prop::collection::vec(0_i64..500_000_000, 1..60),
        ) {
            let jitter = Nanos::new(jitter);
            let mut credit = Credit::full(Rate(rate), batch, jitter, Nanos::ZERO);
            let (mut now, mut taken) = (Nanos::ZERO, Vec::new());
            for wait in waits {
                now += Nanos::new(wait);
                credit.accrue(now);
                if credit.is_enough(batch) {
                    credit.take(batch);
                    taken.push(now);
                }
                let at = credit.enough_at(batch);
                prop_assert!(at >= now);
                let mut then = credit;
                then.accrue(at);
                prop_assert!(then.is_enough(batch) || batch == 0);
            }
            for (first, from) in taken.iter().enumerate() {
                for (count, to) in taken[first..].iter().enumerate() {
                    let bytes = u128::from(batch) * (count as u128 + 1) * SCALE;
                    let span = (*to - *from + jitter).get_unsigned();
                    prop_assert!(bytes <= u128::from(batch) * SCALE + u128::from(rate) * u128::from(span));
                }
            }
        }
    }
}
