//! [`Counted`]: times counted on a grid, ready to be drawn: which of the points are shown, and what is beyond them.
//!
//! The points shown are the middle 99 % of the mass, or all where they fit: a few stragglers must not squeeze the rest
//! into one bar. What is left out is said in words.

use surety_units::Nanos;

/// Points shown at most.
pub(crate) const SHOWN_MAX: u64 = 80;

/// Times of one quantity on a grid.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// What they are: `execution`.
    pub name: String,
    /// Distance of the grid's points; positive.
    pub step: Nanos,
    /// Times moved up to the next point, not down.
    pub rounded_up: bool,
    /// Points, ascending, with how many times fell on each.
    pub points: Vec<(Nanos, u64)>,
    /// Autocorrelations of lags 1, 2, ...
    pub correlations: Vec<f64>,
    /// Independent values keep each within plus and minus this.
    pub correlation_bound: f64,
    /// What else is to be said, as a name and a sentence.
    pub facts: Vec<(String, String)>,
}

/// The part of the points that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    /// The first and the last point drawn.
    pub(crate) low: Nanos,
    pub(crate) high: Nanos,
    /// The mass of each grid point from `low` to `high`, empty ones too.
    pub(crate) masses: Vec<f64>,
    /// How many times are below and above.
    pub(crate) below: u64,
    pub(crate) above: u64,
}

impl Counted {
    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.points.iter().map(|(_, count)| count).sum()
    }

    /// In which direction times moved, in words.
    pub(crate) fn rounding(&self) -> &'static str {
        if self.rounded_up { "rounded up" } else { "rounded down" }
    }

    /// What is drawn; `None` when nothing was counted.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let step = self.step.get_unsigned().max(1);
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        let index = |at: Nanos| (at - first).get_unsigned() / step;
        let mut shown = Shown { low: first, high: last, masses: Vec::new(), below: 0, above: 0 };
        if index(last) >= SHOWN_MAX {
            (shown.low, shown.high) = (self.quantile(0.005)?, self.quantile(0.995)?);
            // A grid chosen too fine for the drawing: the middle of it.
            let room = Nanos::new(i64::try_from(step * (4 * SHOWN_MAX - 1)).unwrap_or(i64::MAX));
            shown.high = shown.high.min(shown.low.saturating_add(room));
        }
        let count = self.count() as f64;
        let bars = usize::try_from(index(shown.high) - index(shown.low) + 1).unwrap_or(1);
        shown.masses = vec![0.0; bars];
        for (point, times) in &self.points {
            if *point < shown.low {
                shown.below += times;
            } else if *point > shown.high {
                shown.above += times;
            } else if let Ok(bar) = usize::try_from(index(*point) - index(shown.low))
                && let Some(mass) = shown.masses.get_mut(bar)
            {
                *mass += *times as f64 / count;
            }
        }
        Some(shown)
    }

    /// What is not drawn, in words.
    pub(crate) fn beyond(&self, shown: &Shown) -> Option<String> {
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        match (shown.below, shown.above) {
            (0, 0) => None,
            (0, above) => Some(format!("{above} beyond, up to {last}")),
            (below, 0) => Some(format!("{below} below, down to {first}")),
            (below, above) => Some(format!("{below} below, down to {first}; {above} beyond, up to {last}")),
        }
    }

    fn quantile(&self, q: f64) -> Option<Nanos> {
        let rank = surety_stats::quantile_rank(q, self.count())?;
        let mut below = 0;
        self.points.iter().find_map(|(point, count)| {
            below += count;
            (below >= rank).then_some(*point)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(points: &[(i64, u64)]) -> Counted {
        Counted {
            step: Nanos::new(10),
            points: points.iter().map(|(at, count)| (Nanos::new(*at), *count)).collect(),
            ..Counted::default()
        }
    }

    #[test]
    fn few_points_are_all_shown_with_the_empty_ones_between() {
        let shown = counted(&[(20, 1), (50, 3)]).shown().unwrap();
        assert_eq!((shown.low, shown.high), (Nanos::new(20), Nanos::new(50)));
        assert_eq!(shown.masses, [0.25, 0.0, 0.0, 0.75]);
        assert_eq!(counted(&[]).shown(), None);
    }

    #[test]
    fn stragglers_are_told_and_not_drawn() {
        let counted = counted(&[(20, 500), (30, 499), (10_000_000, 1)]);
        let shown = counted.shown().unwrap();
        assert_eq!((shown.masses.len(), shown.below, shown.above), (2, 0, 1));
        assert_eq!(counted.beyond(&shown).unwrap(), "1 beyond, up to 10.00 ms");
        assert!((shown.masses.iter().sum::<f64>() - 0.999).abs() < 1e-12);
    }
}
