//! [`nearest`]: what would be admitted instead of a stream that is not. Everything that is named was itself admitted.

use surety_units::Rate;

use super::{DiskTerms, Floors, StreamDemand, admit};

/// What one stream would be admitted with, the rest being as asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearest {
    /// The highest rate, to a thousandth of what was asked for.
    pub rate: Option<Rate>,
    /// The smallest batch.
    pub batch: Option<u64>,
    /// The smallest buffer, where its batch is as given or chosen.
    pub buffer: Option<u64>,
    /// As many of `count`.
    pub count: Option<u32>,
}

/// Parts of a rate that are told apart.
const STEPS: u64 = 1000;

/// The nearest that is admitted of one demand, by its place, with the others as they are.
pub fn nearest(demands: &[StreamDemand], place: usize, disk: &DiskTerms, floors: &Floors) -> Nearest {
    let with = |change: &dyn Fn(&mut StreamDemand)| {
        let mut changed = demands.to_vec();
        change(&mut changed[place]);
        admit(&changed, disk, floors).ok().map(|admission| admission.streams[place])
    };
    let asked = &demands[place];
    let rate = |step: u64| Rate((u128::from(asked.rate.0) * u128::from(step) / u128::from(STEPS)) as u64);
    let steps =
        greatest(STEPS - 1, |step| rate(step).0 > 0 && with(&|demand| demand.rate = rate(step)).is_some());
    let count = greatest(u64::from(asked.count.saturating_sub(1)), |count| {
        with(&|demand| demand.count = u32::try_from(count).unwrap_or(u32::MAX)).is_some()
    });
    let batch = asked.batch.and_then(|_| with(&|demand| demand.batch = None));
    let buffer = asked.buffer.and_then(|_| with(&|demand| demand.buffer = None));
    Nearest {
        rate: steps.map(rate),
        batch: batch.map(|stream| stream.batch),
        buffer: buffer.map(|stream| stream.buffer),
        count: count.and_then(|count| u32::try_from(count).ok()),
    }
}

/// The greatest number from 1 to `most` that holds, found by halving: where what holds has gaps, one that holds.
fn greatest(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    (good > 0).then_some(good)
}
