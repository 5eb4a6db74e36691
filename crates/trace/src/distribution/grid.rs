//! [`Grid`]: exact counts of times on a grid, in bounded memory.
//!
//! A time falls on the grid point above it (work must not be understated) or below it (nor arrivals spread). The mass is
//! conserved: every time is counted once. Rounding to a grid and then to a multiple of it is rounding to the multiple,
//! in either direction, so a grid that has to grow coarser on the way is exact on the grid it ends with.

use std::collections::BTreeMap;

use surety_units::Nanos;

/// Grid points that are counted at most.
pub const CELLS_MAX: usize = 1 << 16;

/// In which direction times move to the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up: for work.
    Ceil,
    /// Down: for the times between arrivals.
    Floor,
}

/// A grid that is too fine for the times on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the times fall on more than {CELLS_MAX} points of a grid of {step}; a coarser grid is needed")]
pub struct TooFine {
    /// The grid.
    pub step: Nanos,
}

/// Counts of times on a grid.
#[derive(Clone, Debug)]
pub struct Grid {
    rounding: Rounding,
    step: u64,
    /// The step was asked for, so it must not change.
    is_chosen: bool,
    is_too_fine: bool,
    /// By multiple of the step.
    cells: BTreeMap<u64, u64>,
    count: u64,
}

impl Grid {
    /// A grid of that step; without one, as fine as the bound allows: a power of ten of nanoseconds.
    pub fn new(rounding: Rounding, step: Option<Nanos>) -> Grid {
        Grid {
            rounding,
            step: step.map_or(1, Nanos::get_unsigned).max(1),
            is_chosen: step.is_some(),
            is_too_fine: false,
            cells: BTreeMap::new(),
            count: 0,
        }
    }

    /// Counts a time; a negative one counts as 0.
    pub fn record(&mut self, time: Nanos) {
        self.count += 1;
        let cell = self.cell(time.get_unsigned(), self.step);
        *self.cells.entry(cell).or_insert(0) += 1;
        while self.cells.len() > CELLS_MAX {
            self.is_too_fine |= self.is_chosen;
            self.coarsen(10);
        }
    }

    fn cell(&self, value: u64, step: u64) -> u64 {
        match self.rounding {
            Rounding::Ceil => value.div_ceil(step),
            Rounding::Floor => value / step,
        }
    }

    fn coarsen(&mut self, factor: u64) {
        let mut coarse = BTreeMap::new();
        for (cell, count) in std::mem::take(&mut self.cells) {
            *coarse.entry(self.cell(cell, factor)).or_insert(0) += count;
        }
        self.cells = coarse;
        self.step = self.step.saturating_mul(factor);
    }

    /// The counts on the grid asked for.
    ///
    /// # Errors
    /// [`TooFine`] when that grid had too many points.
    pub fn chosen(self, step: Nanos) -> Result<Grid, TooFine> {
        if self.is_too_fine { Err(TooFine { step }) } else { Ok(self) }
    }

    /// The counts on a round grid, such that the middle 99 % of the times fall on at most `bars` points and, where the
    /// times are fine enough, on at least half as many.
    pub fn with_bars(mut self, bars: u64) -> Grid {
        let (Some(low), Some(high)) = (self.quantile(0.005), self.quantile(0.995)) else { return self };
        let span = high.get_unsigned() - low.get_unsigned();
        let mut power = self.step;
        let factor = loop {
            let round = [1, 2, 3, 4, 5, 6, 8].into_iter().find(|m| span / power.saturating_mul(*m) < bars);
            match round {
                Some(m) => break power.saturating_mul(m) / self.step,
                None => power = power.saturating_mul(10),
            }
        };
        self.coarsen(factor);
        self
    }

    /// The step.
    pub fn step(&self) -> Nanos {
        time(self.step)
    }

    /// In which direction times moved.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// How many times were counted: the sum of all counts.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The grid points with a count, ascending.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = (Nanos, u64)> + '_ {
        self.cells.iter().map(|(cell, count)| (time(cell.saturating_mul(self.step)), *count))
    }

    /// The grid point of the `q` quantile: that of rank `ceil(q n)`.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let rank = surety_stats::quantile_rank(q, self.count)?;
        let mut below = 0;
        self.points().find_map(|(point, count)| {
            below += count;
            (below >= rank).then_some(point)
        })
    }
}

fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(rounding: Rounding, step: Option<i64>, values: impl IntoIterator<Item = i64>) -> Grid {
        let mut grid = Grid::new(rounding, step.map(Nanos::new));
        values.into_iter().for_each(|value| grid.record(Nanos::new(value)));
        grid
    }

    #[test]
    fn more_points_than_the_bound_make_the_grid_coarser_or_are_refused() {
        let values = || (0..3 * CELLS_MAX as i64).map(|k| 7 * k);
        let free = grid(Rounding::Ceil, None, values());
        assert_eq!(free.step(), Nanos::new(100), "10 ns would have twice the points");
        assert_eq!(free.points().map(|(_, count)| count).sum::<u64>(), 3 * CELLS_MAX as u64);
        let chosen = grid(Rounding::Ceil, Some(2), values()).chosen(Nanos::new(2));
        assert_eq!(chosen.unwrap_err(), TooFine { step: Nanos::new(2) });
        assert!(grid(Rounding::Ceil, Some(50), values()).chosen(Nanos::new(50)).is_ok());
    }

    #[test]
    fn the_grid_found_is_round_and_has_its_bars() {
        for scale in [1, 13, 999, 1_000_000, 77_777_777] {
            let found = grid(Rounding::Floor, None, (0..1000).map(|k| k * scale)).with_bars(80);
            let bars = found.points().count();
            assert!((40..=84).contains(&bars), "{bars} bars of {} for {scale}", found.step());
            let digits = found.step().get().to_string();
            assert_eq!(digits.trim_end_matches('0').len(), 1, "{digits} is round");
        }
        let one = grid(Rounding::Ceil, None, [5; 10]).with_bars(80);
        assert_eq!(one.points().collect::<Vec<_>>(), [(Nanos::new(5), 10)]);
    }

    proptest! {
        /// Growing coarser on the way changes nothing, and no mass is lost.
        #[test]
        fn coarser_is_the_same_as_coarse_from_the_beginning(
            values in prop::collection::vec(0..1_000_000_000i64, 1..200), step in 1..1000i64, factor in 1..500u64,
        ) {
            for rounding in [Rounding::Ceil, Rounding::Floor] {
                let mut fine = grid(rounding, Some(step), values.iter().copied());
                fine.coarsen(factor);
                let coarse = grid(rounding, Some(step * factor as i64), values.iter().copied());
                prop_assert_eq!(fine.points().collect::<Vec<_>>(), coarse.points().collect::<Vec<_>>());
                prop_assert_eq!(fine.points().map(|(_, n)| n).sum::<u64>(), values.len() as u64);
            }
        }
    }
}
