//! [`nearest`]: what would be admitted instead of a stream that is not. Everything that is named was itself admitted.

use surety_units::Rate;

use super::{Admitted, DiskTerms, Floors, StreamDemand, admit, most_left};

/// What one stream would be admitted with, the rest being as asked for: each by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearest {
    /// The smallest batch.
    pub batch: Option<u64>,
    /// The smallest buffer, where its batch is as given or chosen.
    pub buffer: Option<u64>,
    /// A batch and the smallest buffer with it, where neither alone is enough.
    pub both: Option<(u64, u64)>,
    /// Where nothing of this keeps the rate: the highest, to a thousandth of what was asked for, with the batch and the buffer that it needs where they
    /// were asked for otherwise.
    pub rate: Option<Slower>,
    /// As many of `count`.
    pub count: Option<u32>,
    /// Where it is as asked for and best effort keeps no more than this, which is less than it is to keep.
    pub best_effort: Option<Rate>,
}

/// A lower rate, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slower {
    pub rate: Rate,
    pub batch: Option<u64>,
    pub buffer: Option<u64>,
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
    let batch = asked.batch.and_then(|_| with(&|demand| demand.batch = None));
    let buffer = asked.buffer.and_then(|_| with(&|demand| demand.buffer = None));
    let is_fixed = asked.batch.is_some() && asked.buffer.is_some();
    let both = (is_fixed && batch.is_none() && buffer.is_none())
        .then(|| with(&|demand| (demand.batch, demand.buffer) = (None, None)))
        .flatten();
    let is_kept = batch.or(buffer).or(both).is_some();
    let count = greatest(u64::from(asked.count.saturating_sub(1)), |count| {
        with(&|demand| demand.count = u32::try_from(count).unwrap_or(u32::MAX)).is_some()
    });
    Nearest {
        batch: batch.map(|stream| stream.batch),
        buffer: buffer.map(|stream| stream.buffer),
        both: both.map(|stream| (stream.batch, stream.buffer)),
        rate: if is_kept { None } else { slower(asked, &with) },
        count: count.and_then(|count| u32::try_from(count).ok()),
        best_effort: Some(floors)
            .filter(|floors| floors.best_effort.0 > 0)
            .and_then(|_| most_left(demands, disk, floors)),
    }
}

/// The highest rate with any batch and buffer.
fn slower(
    asked: &StreamDemand,
    with: &impl Fn(&dyn Fn(&mut StreamDemand)) -> Option<Admitted>,
) -> Option<Slower> {
    let rate = |step: u64| Rate((u128::from(asked.rate.0) * u128::from(step) / u128::from(STEPS)) as u64);
    let at = |step: u64| {
        let free = |demand: &mut StreamDemand| (demand.batch, demand.buffer) = (None, None);
        with(&|demand| {
            free(demand);
            demand.rate = rate(step);
        })
    };
    let step = greatest(STEPS - 1, |step| rate(step).0 > 0 && at(step).is_some())?;
    let given = at(step)?;
    let otherwise = |asked: Option<u64>, given: u64| asked.filter(|asked| *asked != given).map(|_| given);
    Some(Slower {
        rate: rate(step),
        batch: otherwise(asked.batch, given.batch),
        buffer: otherwise(asked.buffer, given.buffer),
    })
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
