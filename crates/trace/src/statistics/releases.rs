//! [`Releases`]: from the releases of completed jobs to the times between arrivals.
//!
//! Jobs come in the order of completion. A marked job may complete before one that was released earlier, so a few
//! releases are held back and put in order.

use surety_units::Nanos;

/// Releases held back: a job may be overtaken by as many.
const HELD: usize = 16;

/// Puts releases in order and measures between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Releases {
    /// A ring: the earliest at `first`.
    held: [Nanos; HELD],
    first: usize,
    count: usize,
    last: Option<Nanos>,
}

impl Releases {
    /// Takes a release; gives the time between the earliest two when enough are held.
    #[inline]
    pub(crate) fn push(&mut self, release: Nanos) -> Option<Nanos> {
        let gap = if self.count == HELD { self.shift() } else { None };
        let mut place = self.count;
        while place > 0 && self.held[self.at(place - 1)] > release {
            self.held[self.at(place)] = self.held[self.at(place - 1)];
            place -= 1;
        }
        self.held[self.at(place)] = release;
        self.count += 1;
        gap
    }

    /// Gives the times between those still held. What comes after is not measured from what came before.
    pub(crate) fn flush(&mut self, mut gap: impl FnMut(Nanos)) {
        while self.count > 0 {
            self.shift().into_iter().for_each(&mut gap);
        }
        self.last = None;
    }

    /// Where the release stands that has so many before it.
    #[inline]
    fn at(&self, place: usize) -> usize {
        (self.first + place) % HELD
    }

    fn shift(&mut self) -> Option<Nanos> {
        let earliest = self.held[self.first];
        self.first = self.at(1);
        self.count -= 1;
        // One that was overtaken by more than are held has no place any more.
        let gap = self.last.map(|last| earliest - last).filter(|gap| !gap.is_negative());
        self.last = Some(self.last.map_or(earliest, |last| last.max(earliest)));
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_of_the_sorted_releases() {
        // Pairs that overtake each other.
        let mut releases: Vec<i64> = (0..100).map(|k| k * k).collect();
        let sorted: Vec<i64> = releases.windows(2).map(|pair| pair[1] - pair[0]).collect();
        releases.chunks_mut(10).for_each(<[i64]>::reverse);
        let mut order = Releases::default();
        let mut gaps: Vec<i64> =
            releases.iter().filter_map(|r| order.push(Nanos::new(*r))).map(Nanos::get).collect();
        order.flush(|gap| gaps.push(gap.get()));
        assert_eq!(gaps, sorted);
        assert_eq!(order.push(Nanos::new(5)), None, "nothing is measured across a flush");
        order.flush(|gap| panic!("{gap}"));
    }
}
