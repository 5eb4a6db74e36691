//! [`ThreadStatistics`]: a thread's history in a few numbers, for others to show.

use serde::Serialize;
use surety_model::event::Comm;
use surety_model::job::{Job, Separation, ThreadHistory};
use surety_stats::Sample;
use surety_units::{Nanos, Tid};

/// Mean and quantiles of one quantity of a thread's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min: Nanos,
    /// Arithmetic mean, rounded down to the nanosecond.
    pub mean: Nanos,
    /// Half the values are at most this.
    pub median: Nanos,
    /// 90 % are at most this.
    pub p90: Nanos,
    /// 99 % are at most this.
    pub p99: Nanos,
    /// Largest.
    pub max: Nanos,
}

impl Spread {
    /// Of these values; `None` when there are none. Quantiles are values that occurred: the one of rank `ceil(q n)`.
    /// A negative value (no trace of [`crate::jobs`] has any) counts as 0.
    pub fn of(values: impl IntoIterator<Item = Nanos>) -> Option<Spread> {
        let sample: Sample = values.into_iter().map(Nanos::get_unsigned).collect();
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let quantile = |q| sample.quantile(q).map(time);
        let sum: u128 = sample.as_slice().iter().map(|ns| u128::from(*ns)).sum();
        let mean = sum.checked_div(u128::from(sample.count()))?;
        Some(Spread {
            count: sample.count(),
            min: time(sample.min()?),
            mean: time(u64::try_from(mean).ok()?),
            median: quantile(0.5)?,
            p90: quantile(0.9)?,
            p99: quantile(0.99)?,
            max: time(sample.max()?),
        })
    }
}

/// A thread's history in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadStatistics {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// Whether its jobs are exact: separated by markers.
    pub exact: bool,
    /// Complete jobs.
    pub jobs: u64,
    /// Jobs given up.
    pub censored: u64,
    /// CPU time.
    pub run: Nanos,
    /// Time without a CPU it wanted, throttling included.
    pub waited: Nanos,
    /// Longest such time.
    pub longest_wait: Nanos,
    /// From the first to the last event that names it.
    pub observed: Nanos,
    /// Preemptions in complete jobs.
    pub preemptions: u64,
    /// Time without budget in complete jobs.
    pub throttled: Nanos,
    /// Release to completion.
    pub response: Option<Spread>,
    /// Release to start.
    pub latency: Option<Spread>,
    /// CPU time of a job, interrupts on top of it included.
    pub execution: Option<Spread>,
    /// Interrupts on top of a job.
    pub interrupted: Option<Spread>,
    /// From one release to the next. Releases, not starts: those would show the scheduler, not the arrivals.
    pub inter_arrival: Option<Spread>,
}

impl ThreadStatistics {
    /// Of one history.
    pub fn of(history: &ThreadHistory) -> ThreadStatistics {
        let jobs = &history.jobs;
        let each = |value: fn(&Job) -> Nanos| Spread::of(jobs.iter().map(value));
        let mut releases: Vec<Nanos> = jobs.iter().map(|job| job.release).collect();
        releases.sort_unstable();
        ThreadStatistics {
            tid: history.tid,
            comm: history.comm,
            exact: history.separation == Separation::Markers,
            jobs: jobs.len() as u64,
            censored: history.censored,
            run: history.run,
            waited: history.waited,
            longest_wait: history.longest_wait,
            observed: history.seen.1 - history.seen.0,
            preemptions: jobs.iter().map(|job| u64::from(job.preemptions)).sum(),
            throttled: jobs.iter().map(|job| job.throttled).sum(),
            response: each(Job::response),
            latency: each(Job::latency),
            execution: each(|job| job.execution),
            interrupted: each(|job| job.interrupted),
            inter_arrival: Spread::of(releases.windows(2).map(|pair| pair[1] - pair[0])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: i64) -> Nanos {
        Nanos::from_millis(value)
    }

    #[test]
    fn a_history_in_numbers() {
        let job = |release, start, completion| Job {
            release: ms(release),
            start: ms(start),
            completion: ms(completion),
            execution: ms(completion - start),
            interrupted: Nanos::ZERO,
            preemptions: 1,
            throttled: ms(2),
            index: None,
        };
        let history = ThreadHistory {
            tid: Tid(7),
            comm: Comm::new("player"),
            prio: 120,
            separation: Separation::BusyPeriod,
            // Completed out of the order of release, as overlapping marked jobs may be.
            jobs: vec![job(0, 1, 5), job(80, 81, 84), job(40, 46, 90)],
            censored: 1,
            run: ms(60),
            interrupted: Nanos::ZERO,
            waited: ms(7),
            longest_wait: ms(6),
            seen: (ms(0), ms(100)),
        };
        let s = ThreadStatistics::of(&history);
        assert_eq!((s.jobs, s.censored, s.preemptions, s.throttled), (3, 1, 3, ms(6)));
        assert_eq!(s.inter_arrival.map(|i| (i.count, i.min, i.max)), Some((2, ms(40), ms(40))));
        let response = s.response.unwrap();
        assert_eq!((response.min, response.median, response.max), (ms(4), ms(5), ms(50)));
        assert_eq!(response.mean, Nanos::new(59_000_000 / 3));
        assert_eq!(s.latency.unwrap().max, ms(6));
        assert_eq!((s.observed, s.exact), (ms(100), false));
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([ms(3)]).map(|s| (s.mean, s.p99)), Some((ms(3), ms(3))));
    }
}
