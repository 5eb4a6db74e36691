//! The order of a run's values in bounded memory: what a [`crate::Histogram`] forgets.
//!
//! All values are kept while there are fewer than [`Sequence::MOST`]; of longer runs one of each group of
//! neighbours, the groups twice as long each time room runs out. Which one is chance (a stratified sample): a fixed stride would see nothing, or
//! only, what comes back in step with it. The chance is seeded, so equal runs give equal sequences.

use crate::random::Pcg;

/// What of a run's values is kept, in the order they were taken.
#[derive(Clone, Debug)]
pub struct Sequence {
    values: Vec<u64>,
    /// Values for each one that is kept.
    every: u64,
    /// Values recorded.
    count: u64,
    /// Which of the group being recorded is kept.
    chosen: u64,
    chance: Pcg,
}

/// The stream of the choice within groups; see [`Pcg::for_job`].
const STREAM: u64 = 0x5e9;

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence::new()
    }
}

impl Sequence {
    /// Room for values: of a run of as many or more, at least half as many are kept.
    pub const MOST: usize = 2_048;

    /// An empty sequence, with room for all it will ever keep.
    pub fn new() -> Sequence {
        Sequence {
            values: Vec::with_capacity(Sequence::MOST),
            every: 1,
            count: 0,
            chosen: 0,
            chance: Pcg::for_job(1, STREAM, 0),
        }
    }

    /// A sequence that was kept before: its values, and how many each stands for. Takes no more values.
    ///
    /// `None` where that cannot be: more than [`Sequence::MOST`] values, or not as many groups as `count` has.
    pub fn of_kept(values: Vec<u64>, every: u64, count: u64) -> Option<Sequence> {
        let groups = count.checked_div(every)?;
        let fits = values.len() <= Sequence::MOST && values.len() as u64 == groups;
        fits.then(|| Sequence { values, every, count, ..Sequence::new() })
    }

    /// Takes one value. Allocates nothing.
    pub fn record(&mut self, value: u64) {
        let place = self.count % self.every;
        self.count += 1;
        if place == self.chosen {
            self.values.push(value);
        }
        if place + 1 == self.every {
            if self.values.len() == Sequence::MOST {
                self.halve();
            }
            self.chosen = if self.every == 1 { 0 } else { self.chance.below(self.every) };
        }
    }

    /// One of each pair of neighbours is kept.
    fn halve(&mut self) {
        for pair in 0..self.values.len() / 2 {
            self.values[pair] = self.values[2 * pair + self.chance.below(2) as usize];
        }
        self.values.truncate(self.values.len() / 2);
        self.every *= 2;
    }

    /// Takes over another, without allocating.
    pub fn copy_from(&mut self, other: &Sequence) {
        self.values.clear();
        self.values.extend_from_slice(&other.values);
        (self.every, self.count, self.chosen) = (other.every, other.count, other.chosen);
        self.chance = other.chance.clone();
    }

    /// What is kept, in order. Of an unfinished group nothing may be, or its value already.
    pub fn values(&self) -> &[u64] {
        let whole = usize::try_from(self.count / self.every).unwrap_or(usize::MAX);
        &self.values[..self.values.len().min(whole)]
    }

    /// How many values each kept one stands for.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_kept_whole() {
        let mut sequence = Sequence::new();
        let run: Vec<u64> = (0..Sequence::MOST as u64 - 1).map(|i| i * 7 % 1_000).collect();
        run.iter().for_each(|value| sequence.record(*value));
        assert_eq!((sequence.values(), sequence.every()), (run.as_slice(), 1));
    }

    /// Each kept value is one of its own group, in order, whatever the length.
    #[test]
    fn groups_keep_their_order() {
        for length in [2_048u64, 2_049, 5_000, 100_000, 131_071] {
            let mut sequence = Sequence::new();
            (0..length).for_each(|value| sequence.record(value));
            let (kept, every) = (sequence.values(), sequence.every());
            assert_eq!(kept.len() as u64, length / every, "{length}");
            assert!((Sequence::MOST / 2..=Sequence::MOST).contains(&kept.len()), "{length}: {}", kept.len());
            assert!(kept.iter().zip(0..).all(|(value, group)| value / every == group), "{length}");
        }
    }

    /// Every fourth value is large, in step with every group length: about a quarter of the kept ones are.
    #[test]
    fn what_comes_in_step_with_the_groups_is_seen_as_often_as_it_is() {
        let mut sequence = Sequence::new();
        (0..200_000u64).for_each(|i| sequence.record(u64::from(i % 4 == 0)));
        let part = sequence.values().iter().sum::<u64>() as f64 / sequence.values().len() as f64;
        assert!((part - 0.25).abs() < 0.05, "{part}");
    }

    #[test]
    fn copies_and_stored_ones_are_the_same() {
        let (mut sequence, mut copy) = (Sequence::new(), Sequence::new());
        (0..10_001).for_each(|value| sequence.record(value));
        copy.copy_from(&sequence);
        assert_eq!((copy.values(), copy.count()), (sequence.values(), sequence.count()));
        let kept = sequence.values().to_vec();
        let stored = Sequence::of_kept(kept.clone(), sequence.every(), sequence.count()).unwrap();
        assert_eq!((stored.values(), stored.count()), (kept.as_slice(), 10_001));
        assert!(Sequence::of_kept(kept.clone(), 1, 10_001).is_none());
        assert!(Sequence::of_kept(kept, 0, 10_001).is_none());
        assert!(Sequence::of_kept(vec![1; 4_000], 1, 4_000).is_none());
    }
}
