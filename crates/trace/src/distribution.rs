//! [`DistributionBuilder`]: all there is to say of the times of one thread, or of one interrupt.
//!
//! Of each quantity the counts on a grid and the moments are those of all values. What needs the values themselves, in
//! their order (quantiles with their confidence, dependence, stationarity, change points), is said of the first
//! [`VALUES_MAX`]. Memory: [`VALUES_MAX`] values and [`grid::CELLS_MAX`] grid points of each quantity of at most
//! [`LIVES_MAX`] threads.

use std::collections::VecDeque;

use surety_model::event::{Comm, Event, TraceSink};
use surety_model::job::{Job, Separation};
use surety_model::modes::{JOBS_MAX, ModeFit, modes};
use surety_stats::assumption::Finding;
use surety_stats::bounds::{QuantileInterval, quantile_interval};
use surety_stats::change::{ChangePoint, change_points};
use surety_stats::correlation::{Correlogram, correlogram, independence_finding};
use surety_stats::stationarity::stationarity_finding;
use surety_stats::{Moments, Sample};
use surety_units::{Nanos, Tid};

use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::jobs::{Anomalies, JobBuilder};
use crate::statistics::releases::Releases;
use crate::wanted::{Wanted, Window};

pub mod grid;

pub use grid::{Grid, Rounding, TooFine};

/// Values of one quantity that are kept in their order.
pub const VALUES_MAX: usize = 1 << 18;
/// Threads whose distributions are kept; of further ones it is known that they are there.
pub const LIVES_MAX: usize = 4;
/// Autocorrelations that are told.
const LAGS: usize = 20;
/// Quantiles that are told.
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// The values of one quantity.
#[derive(Clone, Debug)]
pub struct Values {
    grid: Grid,
    moments: Moments,
    /// The first of them, in order.
    values: Vec<u64>,
}

/// What the values in their order say.
#[derive(Clone, Debug)]
pub struct Conclusions {
    pub values: u64,
    /// Quantiles with their confidence.
    pub quantiles: Vec<QuantileInterval>,
    /// Autocorrelations; `None` when the values do not vary.
    pub correlogram: Option<Correlogram>,
    /// Whether one value tells nothing of the next.
    pub independence: Finding,
    /// Whether the distribution stays the same.
    pub stationarity: Finding,
    /// Where it changes.
    pub changes: Vec<ChangePoint>,
}

impl Values {
    /// None yet, counted on that grid.
    pub fn new(rounding: Rounding, step: Option<Nanos>) -> Values {
        Values { grid: Grid::new(rounding, step), moments: Moments::default(), values: Vec::new() }
    }

    /// Counts one.
    pub fn record(&mut self, value: Nanos) {
        self.grid.record(value);
        self.moments.record(value.get_unsigned() as f64);
        if self.values.len() < VALUES_MAX {
            self.values.push(value.get_unsigned());
        }
    }

    /// The counts.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Mean, deviation, skewness.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// What may be concluded with this confidence, which is strictly between 0 and 1.
    pub fn conclude(&self, confidence: f64) -> Conclusions {
        let sample = Sample::new(self.values.clone());
        let series: Vec<f64> = self.values.iter().map(|value| *value as f64).collect();
        Conclusions {
            values: sample.count(),
            quantiles: QUANTILES.iter().filter_map(|q| quantile_interval(&sample, *q, confidence)).collect(),
            correlogram: correlogram(&series, LAGS, confidence),
            independence: independence_finding(&series, confidence),
            stationarity: stationarity_finding(&series, confidence),
            changes: change_points(&series),
        }
    }

    /// The modes the values come in, in the order they came, as plans learn them ([`surety_model::modes::modes`]); `None` where
    /// independence is not rejected or one mode explains them best.
    pub fn modes(&self) -> Option<ModeFit> {
        let first = &self.values[..self.values.len().min(JOBS_MAX)];
        let times: Vec<Nanos> =
            first.iter().map(|ns| Nanos::new(i64::try_from(*ns).unwrap_or(i64::MAX))).collect();
        modes(&times)
    }

    /// The same with the counts on the grid asked for, or on one of at most `bars` points.
    ///
    /// # Errors
    /// [`TooFine`] when the grid asked for had too many points.
    pub fn on_grid(self, step: Option<Nanos>, bars: u64) -> Result<Values, TooFine> {
        let grid = match step {
            Some(step) => self.grid.chosen(step)?,
            None => self.grid.with_bars(bars),
        };
        Ok(Values { grid, ..self })
    }
}

/// The distributions of one thread.
#[derive(Clone, Debug)]
pub struct ThreadDistributions {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// How its jobs were separated.
    pub separation: Separation,
    /// Whether its jobs are activations told apart by switches alone: there are no responses, and arrivals are starts.
    pub by_switches: bool,
    /// Complete jobs.
    pub jobs: u64,
    /// CPU time of a job, interrupts on top of it taken off.
    pub execution: Values,
    /// From one release to the next.
    pub inter_arrival: Values,
    /// From release to completion.
    pub response: Values,
    releases: Releases,
}

impl ThreadDistributions {
    fn new(thread: &ThreadKey, step: Option<Nanos>) -> ThreadDistributions {
        ThreadDistributions {
            tid: thread.tid,
            comm: thread.comm,
            separation: thread.separation,
            by_switches: false,
            jobs: 0,
            execution: Values::new(Rounding::Ceil, step),
            inter_arrival: Values::new(Rounding::Floor, step),
            response: Values::new(Rounding::Ceil, step),
            releases: Releases::default(),
        }
    }

    fn interrupt_arrivals(&mut self) {
        let inter_arrival = &mut self.inter_arrival;
        self.releases.flush(|gap| inter_arrival.record(gap));
    }
}

/// What was found of the chosen threads.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Chosen threads with jobs, in the order of their ends; at most [`LIVES_MAX`].
    pub threads: Vec<ThreadDistributions>,
    /// Jobs of further ones.
    pub others: u64,
    /// Names of threads, the last ones seen.
    pub names: VecDeque<Comm>,
    /// What did not go by the book.
    pub anomalies: Anomalies,
}

/// The sink.
#[derive(Debug)]
struct Collector {
    wanted: Wanted,
    window: Window,
    step: Option<Nanos>,
    /// The thread of each slot that has jobs.
    open: Vec<(usize, Box<ThreadDistributions>)>,
    found: Found,
    /// A wake-up was told: the trace has them.
    woken: bool,
}

impl Collector {
    /// A job, or an activation, whose release is not known.
    fn take(&mut self, thread: &ThreadKey, job: &Job, is_released: bool) {
        if !self.wanted.thread(thread.tid, thread.comm) {
            return;
        }
        if !self.wanted.job(self.window, job) {
            self.of(thread.slot).into_iter().for_each(ThreadDistributions::interrupt_arrivals);
            return;
        }
        if self.of(thread.slot).is_none() {
            if self.open.len() + self.found.threads.len() >= LIVES_MAX {
                self.found.others += 1;
                return;
            }
            self.open.push((thread.slot, Box::new(ThreadDistributions::new(thread, self.step))));
        }
        let Some(open) = self.of(thread.slot) else { return };
        open.jobs += 1;
        open.by_switches |= !is_released;
        open.execution.record(job.execution_net());
        if is_released {
            open.response.record(job.response());
        }
        if let Some(gap) = open.releases.push(job.release) {
            open.inter_arrival.record(gap);
        }
    }

    fn of(&mut self, slot: usize) -> Option<&mut ThreadDistributions> {
        self.open.iter_mut().find(|(open, _)| *open == slot).map(|(_, thread)| thread.as_mut())
    }
}

impl JobSink for Collector {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.take(thread, job, true);
    }

    fn activation(&mut self, thread: &ThreadKey, job: &Job) {
        if self.woken { self.censored(thread, job.completion) } else { self.take(thread, job, false) }
    }

    fn wake_ups_are_told(&mut self) {
        self.woken = true;
        self.open.retain(|(_, thread)| !thread.by_switches);
        self.found.threads.retain(|thread| !thread.by_switches);
    }

    /// Work is rounded up: the most it can have been.
    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        self.job(thread, &job.at_most());
    }

    fn censored(&mut self, thread: &ThreadKey, _: Nanos) {
        self.of(thread.slot).into_iter().for_each(ThreadDistributions::interrupt_arrivals);
    }

    fn forget(&mut self, thread: &ThreadKey) {
        self.open.retain(|(slot, _)| *slot != thread.slot);
    }

    fn ended(&mut self, thread: &ThreadKey, _: &ThreadTotals) {
        if self.found.names.len() >= crate::statistics::recorder::NAMES_MAX {
            self.found.names.pop_front();
        }
        self.found.names.push_back(thread.comm);
        let Some(place) = self.open.iter().position(|(slot, _)| *slot == thread.slot) else { return };
        let (_, mut open) = self.open.swap_remove(place);
        open.interrupt_arrivals();
        (open.comm, open.separation) = (thread.comm, thread.separation);
        self.found.threads.push(*open);
    }
}

/// Collects the distributions of the wanted threads from events in order of time.
#[derive(Debug)]
pub struct DistributionBuilder {
    jobs: JobBuilder<Collector>,
    begun: bool,
}

impl DistributionBuilder {
    /// Nothing seen yet. Counts are on a grid of `step`; without one, as fine as the bound allows. A thread is chosen
    /// by the name it bears when the job completes.
    pub fn new(wanted: Wanted, step: Option<Nanos>) -> DistributionBuilder {
        let collector = Collector {
            wanted,
            window: Window::ALL,
            step,
            open: Vec::new(),
            found: Found::default(),
            woken: false,
        };
        DistributionBuilder { jobs: JobBuilder::into_sink(collector), begun: false }
    }

    /// Ends the trace.
    pub fn finish(self) -> Found {
        let (collector, anomalies) = self.jobs.end();
        Found { anomalies, ..collector.found }
    }
}

impl TraceSink for DistributionBuilder {
    fn event(&mut self, event: &Event<'_>) {
        if !self.begun {
            self.begun = true;
            let collector = self.jobs.sink_mut();
            collector.window = collector.wanted.window(event.time);
        }
        self.jobs.event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::feed;

    #[test]
    fn work_is_rounded_up_and_gaps_are_rounded_down() {
        let mut script = String::from("0 0 sw 0 0\n");
        for k in 0..100 {
            let at = 10 + 1_050 * k;
            script += &format!("{at} 0 waking 7\n{} 0 sw 0 7\n{} 0 sw 7:S 0\n", at + 2, at + 302 + k % 3);
        }
        let wanted = Wanted { names: vec![Comm::new("t7")], ..Wanted::default() };
        let step = Some(Nanos::from_micros(200));
        let mut builder = DistributionBuilder::new(wanted, step);
        feed(&script, &mut builder);
        let found = builder.finish();
        let [thread] = found.threads.as_slice() else { panic!("{found:?}") };
        let points = |values: &Values| values.grid().points().collect::<Vec<_>>();
        assert_eq!(points(&thread.execution), [(Nanos::from_micros(400), 100)]);
        assert_eq!(points(&thread.inter_arrival), [(Nanos::from_micros(1000), 99)]);
        assert_eq!(thread.execution.moments().min(), Some(300_000.0));
        let said = thread.execution.conclude(0.95);
        assert_eq!((said.values, said.quantiles[0].estimate), (100, Some(301_000)));
        // 300, 301, 302, 300, ...: as dependent as can be.
        assert!(!said.independence.holds(), "{:?}", said.independence);
        assert!(said.stationarity.holds(), "{:?}", said.stationarity);
    }

    #[test]
    fn threads_beyond_the_bound_are_only_counted() {
        let mut script = String::from("0 0 sw 0 0\n");
        for tid in 1..9 {
            let at = 10 * tid;
            script += &format!("{at} 0 waking {tid}\n{at} 0 sw 0 {tid}\n{} 0 sw {tid}:S 0\n", at + 3);
        }
        let mut builder = DistributionBuilder::new(Wanted::default(), None);
        feed(&script, &mut builder);
        let found = builder.finish();
        assert_eq!((found.threads.len(), found.others), (LIVES_MAX, 4));
    }
}
