//! [`LatencyGrid`] and [`LatencyAccount`]: what a probe that wakes up periodically has measured, kept apart from the
//! clock it reads and the thread it runs in.
//!
//! The probe plans activations at `first + k period`, sleeps until the next and says when it woke. A wake-up that comes
//! `L` after the activation it was for gives two kinds of value:
//!
//! - *raw* latency: `L`, one for each wake-up, what other probes print;
//! - *intended-time* latency: one for each planned activation. While the probe was late, `floor(L / period)` further
//!   activations passed without a wake-up of their own; they are *missed*, and this wake-up answers them `L - period`,
//!   `L - 2 period`, ... after their time. A probe that leaves these out reports one bad sample for a stall in which
//!   a program would have been late again and again (Tene, *How NOT to measure latency*, 2013).
//!
//! **Invariant:** intended-time values = planned activations = raw values + missed, apart from a wake-up whose own
//! activation lies in the warm-up or beyond the end.

use surety_stats::averages::TimeWindow;
use surety_units::Nanos;

use crate::record::Observed;

/// The figure of a record that holds the autocorrelation of neighbouring intended-time values.
pub const LAG_ONE: &str = "lag-1 autocorrelation";
/// The figure that holds how many independent samples these are worth.
pub const EFFECTIVE: &str = "effective samples";
/// The series of raw latencies.
pub const RAW: &str = "raw latency";

/// How a probe sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// Until instants of a grid that stands from the beginning.
    #[default]
    Absolute,
    /// For one period from the present: every wake-up moves the grid by its own latency, and each sleep is a plan of
    /// its own.
    Relative,
}

/// When a probe is due, and what each wake-up says of the plan.
#[derive(Clone, Copy, Debug)]
pub struct LatencyGrid {
    period: Nanos,
    sleep: Sleep,
    /// Activations that are not recorded.
    warm_up: u64,
    /// Activations in all.
    end: u64,
    next: u64,
    due: Nanos,
}

/// What a wake-up was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The number of the activation it was for, from 0, warm-up excluded; `None` in the warm-up.
    pub activation: Option<u64>,
    /// When that was planned.
    pub planned: Nanos,
    /// How long after that it came; never negative.
    pub latency: Nanos,
    /// How many recorded activations passed meanwhile without a wake-up of their own.
    pub missed: u64,
    /// Of the activations that passed, how many before the first that is recorded.
    offset: u64,
    period: Nanos,
}

impl LatencyGrid {
    /// A grid whose first activation is at `first`; the first `warm_up` are not recorded, the `jobs` after them are.
    ///
    /// A period below 1 ns counts as 1 ns.
    pub fn new(first: Nanos, period: Nanos, sleep: Sleep, warm_up: u64, jobs: u64) -> LatencyGrid {
        let period = period.max(Nanos::new(1));
        LatencyGrid { period, sleep, warm_up, end: warm_up.saturating_add(jobs), next: 0, due: first }
    }

    /// The instant of the next activation; `None` when all are done.
    pub fn due(&self) -> Option<Nanos> {
        (self.next < self.end).then_some(self.due)
    }

    /// How the probe sleeps.
    pub fn sleep(&self) -> Sleep {
        self.sleep
    }

    /// Begins a relative sleep at `now`: the activation is planned one period later. Does nothing to a grid that stands.
    pub fn asked(&mut self, now: Nanos) {
        if self.sleep == Sleep::Relative {
            self.due = now.saturating_add(self.period);
        }
    }

    /// Takes the wake-up for the activation that is due, at `now`. A clock that went back counts as standing still.
    pub fn woke(&mut self, now: Nanos) -> Wake {
        let latency = now.saturating_sub(self.due).max(Nanos::ZERO);
        let passed = u64::try_from(latency.div_floor(self.period)).unwrap_or(0);
        let (first, planned) = (self.next, self.due);
        // Activations first..=last are answered by this wake-up.
        let last = first.saturating_add(passed).min(self.end.saturating_sub(1).max(first));
        self.next = last + 1;
        let steps = i64::try_from(last - first).unwrap_or(i64::MAX).saturating_add(1);
        self.due = planned.saturating_add(self.period.checked_mul(steps).unwrap_or(Nanos::MAX));
        let offset = self.warm_up.saturating_sub(first).min(last - first + 1);
        let recorded = last - first + 1 - offset;
        let activation = (first >= self.warm_up && first < self.end).then(|| first - self.warm_up);
        let missed = recorded - u64::from(activation.is_some());
        Wake { activation, planned, latency, missed, offset, period: self.period }
    }
}

impl Wake {
    /// The intended-time latency of each recorded activation that this wake-up answers, the largest first.
    pub fn intended(&self) -> impl Iterator<Item = Nanos> + use<> {
        let count = self.missed + u64::from(self.activation.is_some());
        let skipped = i64::try_from(self.offset).unwrap_or(i64::MAX);
        let mut next = self.latency.saturating_sub(self.period.checked_mul(skipped).unwrap_or(Nanos::MAX));
        let period = self.period;
        (0..count).map(move |_| {
            let this = next;
            next = next.saturating_sub(period);
            this.max(Nanos::ZERO)
        })
    }
}

/// The latest values that are kept for the dependence of neighbours.
pub const RECENT: usize = 1 << 16;
/// The span of the moving average.
const MOVING: Nanos = Nanos::SECOND;

/// Everything a probe has recorded, in memory made before it began: recording allocates nothing.
#[derive(Clone, Debug)]
pub struct LatencyAccount {
    /// Counts and distributions.
    pub totals: LatencyTotals,
    moving: TimeWindow,
    recent: Vec<u64>,
    /// Where the next goes once the room is full.
    oldest: usize,
}

/// Counts and distributions, as they are copied for somebody who watches.
#[derive(Clone, Debug, Default)]
pub struct LatencyTotals {
    /// Activations planned so far.
    pub planned: u64,
    /// Of those, how many passed without a wake-up of their own.
    pub missed: u64,
    /// One value for each wake-up of its own.
    pub raw: Observed,
    /// One value for each planned activation.
    pub intended: Observed,
    /// Mean of the intended-time values of the last second, in nanoseconds.
    pub moving_mean: Option<f64>,
}

impl LatencyTotals {
    /// Nothing yet, in memory that has been written to.
    pub fn touched() -> LatencyTotals {
        let mut totals = LatencyTotals::default();
        totals.copy_from(&LatencyTotals::default());
        totals
    }

    /// Takes over everything, without allocating.
    pub fn copy_from(&mut self, other: &LatencyTotals) {
        (self.planned, self.missed) = (other.planned, other.missed);
        self.moving_mean = other.moving_mean;
        self.raw.copy_from(&other.raw);
        self.intended.copy_from(&other.intended);
    }
}

impl LatencyAccount {
    /// An empty account with room for a second of a probe of this period, and for [`RECENT`] values.
    pub fn new(period: Nanos) -> LatencyAccount {
        let a_second = usize::try_from(MOVING.div_ceil(period.max(Nanos::new(1)))).unwrap_or(RECENT);
        // Memory that is only reserved would be faulted in by the first value.
        let mut recent = vec![1; RECENT];
        recent.clear();
        LatencyAccount {
            totals: LatencyTotals::touched(),
            moving: TimeWindow::new(MOVING.get_unsigned(), a_second.saturating_add(1).min(RECENT)),
            recent,
            oldest: 0,
        }
    }

    /// Takes a wake-up that came at `now`.
    pub fn record(&mut self, wake: &Wake, now: Nanos) {
        let totals = &mut self.totals;
        if wake.activation.is_some() {
            totals.raw.record(wake.latency);
            totals.planned += 1;
        }
        totals.planned += wake.missed;
        totals.missed += wake.missed;
        for latency in wake.intended() {
            totals.intended.record(latency);
            let value = latency.get_unsigned();
            self.moving.record(now.get_unsigned(), value);
            if self.recent.len() < RECENT {
                self.recent.push(value);
            } else {
                self.recent[self.oldest] = value;
                self.oldest = (self.oldest + 1) % RECENT;
            }
        }
        totals.moving_mean = self.moving.mean();
    }

    /// The latest intended-time values in the order they were planned, at most [`RECENT`].
    pub fn recent(&self) -> Vec<f64> {
        self.values().into_iter().map(|value| value as f64).collect()
    }

    /// The same as whole nanoseconds.
    pub fn values(&self) -> Vec<u64> {
        let (newer, older) = self.recent.split_at(self.oldest);
        [older, newer].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = Nanos::MILLISECOND;

    /// Runs a grid against a scripted clock: each wake-up comes this long after it was due, or at once when the instant
    /// has passed already.
    fn run(grid: &mut LatencyGrid, delays: &[Nanos]) -> (LatencyAccount, Nanos) {
        let mut account = LatencyAccount::new(MS);
        let mut now = Nanos::ZERO;
        let mut delays = delays.iter();
        while let Some(due) = grid.due() {
            grid.asked(now);
            let due = if grid.sleep() == Sleep::Relative { now + MS } else { due };
            now = due.max(now) + delays.next().copied().unwrap_or(Nanos::new(7));
            account.record(&grid.woke(now), now);
        }
        (account, now)
    }

    #[test]
    fn a_stall_of_k_periods_misses_k_activations_exactly() {
        for k in [0, 1, 2, 50, 998] {
            let mut grid = LatencyGrid::new(MS, MS, Sleep::Absolute, 0, 1000);
            let (account, _) = run(&mut grid, &[Nanos::new(7), MS * k + Nanos::new(7)]);
            let totals = &account.totals;
            assert_eq!((totals.planned, totals.missed), (1000, k as u64), "{k}");
            assert_eq!(totals.raw.moments.count(), 1000 - k as u64);
            assert_eq!(totals.intended.moments.count(), 1000);
            assert_eq!(totals.intended.histogram.max(), Some((MS * k).get_unsigned() + 7));
            // Of the activations in the stall every one is later than the one after it by a period.
            let expected: i64 = (0..=k).map(|j| (MS * j).get() + 7).sum::<i64>() + 7 * (999 - k);
            let mean = totals.intended.moments.mean().unwrap();
            assert!((mean - expected as f64 / 1000.0).abs() < 1e-3, "{k}: {mean}");
        }
    }

    #[test]
    fn raw_hides_a_stall_that_intended_time_shows() {
        // 1000 activations, 100 of them in a stall.
        let mut grid = LatencyGrid::new(MS, MS, Sleep::Absolute, 0, 1000);
        let (account, _) = run(&mut grid, &[MS * 100]);
        let p99 = |o: &Observed| o.histogram.quantile(0.99).unwrap();
        assert_eq!(p99(&account.totals.raw), 7);
        assert!(p99(&account.totals.intended) > 88_000_000, "{}", p99(&account.totals.intended));
    }

    #[test]
    fn a_wake_up_just_before_the_next_activation_misses_none() {
        let mut grid = LatencyGrid::new(MS, MS, Sleep::Absolute, 0, 10);
        assert_eq!(grid.woke(MS * 2 - Nanos::new(1)).missed, 0);
        assert_eq!(grid.due(), Some(MS * 2));
        assert_eq!(grid.woke(MS * 3).missed, 1);
        assert_eq!(grid.due(), Some(MS * 4));
        // A clock that goes back.
        assert_eq!(grid.woke(Nanos::ZERO).latency, Nanos::ZERO);
    }

    #[test]
    fn the_end_and_the_warm_up_cut_a_stall() {
        // Two of warm-up, three recorded: a stall over everything.
        let mut grid = LatencyGrid::new(MS, MS, Sleep::Absolute, 2, 3);
        let wake = grid.woke(MS * 100);
        assert_eq!((wake.activation, wake.missed), (None, 3));
        assert_eq!(wake.intended().collect::<Vec<_>>(), [MS * 97, MS * 96, MS * 95]);
        assert_eq!(grid.due(), None);
        let mut grid = LatencyGrid::new(MS, MS, Sleep::Absolute, 2, 3);
        grid.woke(MS);
        let wake = grid.woke(MS * 4 + Nanos::new(5));
        assert_eq!((wake.activation, wake.missed), (None, 2));
        assert_eq!(wake.intended().collect::<Vec<_>>(), [MS + Nanos::new(5), Nanos::new(5)]);
        let wake = grid.woke(MS * 5 + Nanos::new(1));
        assert_eq!((wake.activation, wake.missed, grid.due()), (Some(2), 0, None));
    }

    #[test]
    fn relative_sleeping_drifts_and_each_sleep_is_a_plan_of_its_own() {
        let mut grid = LatencyGrid::new(MS, MS, Sleep::Relative, 0, 100);
        let (account, end) = run(&mut grid, &[]);
        assert_eq!((account.totals.planned, account.totals.missed), (100, 0));
        assert_eq!(end, (MS + Nanos::new(7)) * 100);
        assert_eq!(account.totals.raw.histogram.max(), Some(7));
    }

    #[test]
    fn copies_say_the_same_and_recent_values_are_in_order() {
        let mut account = LatencyAccount::new(MS);
        let mut grid = LatencyGrid::new(Nanos::ZERO, MS, Sleep::Absolute, 0, RECENT as u64 + 10);
        let mut k = 0;
        while let Some(due) = grid.due() {
            let now = due + Nanos::new(k);
            account.record(&grid.woke(now), now);
            k += 1;
        }
        let recent = account.recent();
        assert_eq!((recent.len(), recent[0], recent[RECENT - 1]), (RECENT, 10.0, RECENT as f64 + 9.0));
        let mut copy = LatencyTotals::default();
        copy.intended.record(Nanos::SECOND);
        copy.copy_from(&account.totals);
        assert_eq!(copy.intended.histogram, account.totals.intended.histogram);
        assert_eq!(copy.raw.moments, account.totals.raw.moments);
        assert_eq!(copy.planned, RECENT as u64 + 10);
        // The last second of a probe of 1 ms: about the last thousand values.
        let moving = copy.moving_mean.unwrap();
        assert!((moving - (RECENT as f64 + 10.0 - 500.0)).abs() < 2.0, "{moving}");
    }

    proptest! {
        /// Every planned activation has exactly one intended-time value, whatever the clock does.
        #[test]
        fn every_planned_activation_is_answered_once(
            delays in prop::collection::vec(0i64..5_000_000, 0..200),
            warm_up in 0u64..20,
            jobs in 1u64..300,
            relative in any::<bool>(),
        ) {
            let sleep = if relative { Sleep::Relative } else { Sleep::Absolute };
            let mut grid = LatencyGrid::new(MS, MS, sleep, warm_up, jobs);
            let delays: Vec<Nanos> = delays.into_iter().map(Nanos::new).collect();
            let (account, _) = run(&mut grid, &delays);
            let totals = &account.totals;
            prop_assert_eq!(totals.planned, jobs);
            prop_assert_eq!(totals.intended.moments.count(), jobs);
            prop_assert_eq!(totals.raw.moments.count() + totals.missed, jobs);
        }
    }
}
