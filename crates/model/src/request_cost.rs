//! [`CostAbove`]: the CPU time that a kernel takes for one request of a disk that needs no time, under an I/O scheduler and beyond another.
//!
//! A record of the probe has one activity for each I/O scheduler, with the series [`COST`]: one value for each turn that it had, the mean
//! of many requests. What the scheduler itself takes is the difference to `none`, whose path through the block layer is the same but for it.

use surety_stats::intervals::quantile_upper_rank;
use surety_units::Nanos;

use crate::record::{ActivityRecord, Basis, Distribution, Observed, Record};
use crate::workload::ActivityKind;

/// The series of the turns.
pub const COST: &str = "CPU time of a request";
/// Of each end of an interval.
const CONFIDENCE: f64 = 0.975;
/// The entry of the environment that says of which device.
pub const DEVICE: &str = "requests of";

/// What a scheduler takes for a request beyond another, most often `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostAbove {
    /// The median of the turns' differences.
    pub median: Nanos,
    /// Between these it is with a confidence of 95 %, whatever the distribution, if turns are independent.
    pub interval: (Nanos, Nanos),
}

impl CostAbove {
    /// By a record of the probe, whose turns are taken in pairs; `None`: it has nothing of one of them, or too few turns.
    pub fn of(record: &Record, scheduler: &str, other: &str) -> Option<CostAbove> {
        let (turns, others) = (turns(record, scheduler)?, turns(record, other)?);
        let mut above: Vec<i64> = turns.iter().zip(&others).map(|(turn, other)| turn - other).collect();
        above.sort_unstable();
        let count = above.len() as u64;
        let high = quantile_upper_rank(count, 0.5, CONFIDENCE)?;
        let at = |rank: u64| above.get(usize::try_from(rank.checked_sub(1)?).ok()?).copied().map(Nanos::new);
        Some(CostAbove { median: at(count.div_ceil(2))?, interval: (at(count + 1 - high)?, at(high)?) })
    }

    /// Whether it is told from nothing.
    pub fn is_known(&self) -> bool {
        self.interval.0.is_positive()
    }
}

/// The median cost of a request under a scheduler.
pub fn median(record: &Record, scheduler: &str) -> Option<Nanos> {
    let mut turns = turns(record, scheduler)?;
    turns.sort_unstable();
    turns.get(turns.len().checked_sub(1)? / 2).copied().map(Nanos::new)
}

/// How many turns a scheduler had.
pub fn count(record: &Record, scheduler: &str) -> usize {
    turns(record, scheduler).map_or(0, |turns| turns.len())
}

fn turns(record: &Record, scheduler: &str) -> Option<Vec<i64>> {
    let observed = record.activity(scheduler)?.series.get(COST)?.observed()?;
    observed.in_order()?.values().iter().map(|value| i64::try_from(*value).ok()).collect()
}

/// The activity of a scheduler by the means of its turns, each of this number of requests.
pub fn activity(scheduler: &str, turns: &[Nanos], requests: u64) -> ActivityRecord {
    let mut observed = Observed::default();
    turns.iter().for_each(|turn| observed.record(*turn));
    let mut record = ActivityRecord::new(scheduler, ActivityKind::Probe, Basis::Sample);
    record.activations = requests * turns.len() as u64;
    record.completed = record.activations;
    record.series.insert(COST.to_owned(), Distribution::from(observed));
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let none: Vec<Nanos> = (0..24).map(|turn| Nanos::new(2000 + turn * turn % 7)).collect();
        let dearer = |by: i64| none.iter().map(|turn| *turn + Nanos::new(by)).collect::<Vec<_>>();
        let mut bfq = dearer(1900);
        // Something else ran in a few turns, and a little in every second.
        bfq[3] = Nanos::new(90_000);
        bfq[17] = Nanos::new(1000);
        let noisy: Vec<Nanos> =
            none.iter().enumerate().map(|(at, turn)| *turn + Nanos::new([-400, 500][at % 2])).collect();
        let all = [("none", none.clone()), ("bfq", bfq), ("kyber", noisy), ("few", dearer(5)[..5].to_vec())];
        let activities = all.map(|(scheduler, turns)| activity(scheduler, &turns, 800)).to_vec();
        Record { activities, ..Record::default() }
    }

    #[test]
    fn a_turn_in_which_something_else_ran_moves_nothing() {
        let record = record();
        let above = CostAbove::of(&record, "bfq", "none").unwrap();
        let expected = Nanos::new(1900);
        assert_eq!((above.median, above.interval, above.is_known()), (expected, (expected, expected), true));
        assert_eq!((median(&record, "few"), count(&record, "bfq")), (Some(Nanos::new(2007)), 24));
        assert_eq!(record.activities[1].completed, 24 * 800);
    }

    #[test]
    fn what_is_not_told_from_nothing_is_not_known() {
        let record = record();
        let noise = CostAbove::of(&record, "kyber", "none").unwrap();
        assert!(!noise.is_known() && noise.interval == (Nanos::new(-400), Nanos::new(500)), "{noise:?}");
        assert_eq!(CostAbove::of(&record, "few", "none"), None, "five turns bound no median");
        assert_eq!(CostAbove::of(&record, "cfq", "none"), None);
        assert_eq!(median(&record, "cfq"), None);
    }
}
