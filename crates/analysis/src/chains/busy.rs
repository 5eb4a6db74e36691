//! The longest response of a thread that handles the events of some streams in the order in which they come.
//!
//! In a busy window that begins with the first of them, the n-th of all comes at a_n at the earliest and is done when n jobs are:
//! `max_n (done(n C) - a_n)` is the longest response, n up to the first job that is done before the next comes (Lehoczky, RTSS 1990, with
//! streams of events in the place of periods: Richter, Jersak and Ernst, RTSS 2003).

use surety_units::Nanos;

use super::events::EventStream;
use crate::schedulability::task::{narrow, wide};

/// Jobs of a busy window until a search is given up.
const JOBS: u32 = 2_000;

/// Steps of one job.
const LIMIT: u32 = 10_000;

/// The longest response from when an event comes, and from its planned instant; `None` where the busy window does not end within [`JOBS`].
///
/// `done`: by when an amount of work of the thread is done in a busy window; `None`: nobody knows.
pub(super) fn longest(
    streams: &[EventStream],
    work: Nanos,
    done: impl Fn(i128) -> Option<i128>,
) -> Option<Longest> {
    let mut next = vec![0i128; streams.len()];
    let mut found = Longest { from_event: Nanos::ZERO, from_plan: Nanos::ZERO };
    for job in 1..=i128::from(JOBS) {
        let (stream, at) = earliest(streams, &next)?;
        let planned = next[stream] * wide(streams[stream].period) - wide(streams[stream].jitter);
        next[stream] += 1;
        let end = done(job * wide(work))?;
        found.from_event = found.from_event.max(narrow(end - at));
        found.from_plan = found.from_plan.max(narrow(end - planned));
        if end <= earliest(streams, &next)?.1 {
            return Some(found);
        }
    }
    None
}

/// What [`longest`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Longest {
    /// From when the event comes.
    pub from_event: Nanos,
    /// From its planned instant, its jitter in it.
    pub from_plan: Nanos,
}

/// Whether streams of jobs that take so much each take all that a share of a CPU gives, or so nearly that no busy window would end.
pub(super) fn is_overloaded<'a>(jobs: impl Iterator<Item = (&'a EventStream, Nanos)>, share: f64) -> bool {
    let load = jobs.map(|(stream, work)| work.get() as f64 / stream.period.get() as f64).sum::<f64>();
    load > share * (1.0 - 1e-6)
}

/// The stream whose next event may come first, and when.
fn earliest(streams: &[EventStream], next: &[i128]) -> Option<(usize, i128)> {
    let at = streams.iter().zip(next).map(|(stream, number)| stream.earliest(*number));
    at.enumerate().min_by_key(|(_, at)| *at)
}

/// The least w with `w = own + others(w)`: by when an amount of work is done below others that take `others(w)` of a window; `None` where that
/// does not come within [`LIMIT`] steps.
pub(super) fn below(own: i128, others: impl Fn(i128) -> i128) -> Option<i128> {
    let mut window = own;
    for _ in 0..LIMIT {
        let needed = own + others(window);
        if needed <= window {
            return Some(window);
        }
        if needed > i128::from(i64::MAX / 8) {
            return None;
        }
        window = needed;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulability::SporadicTask;
    use crate::schedulability::fixed::{Response, longest_response};
    use surety_stats::random::Pcg;

    /// With one stream each the responses are those of the tests of fixed priorities.
    #[test]
    fn one_stream_each_is_response_time_analysis() {
        let mut pcg = Pcg::new(3, 9);
        let mut drawn = |below: u64| Nanos::new(1 + (pcg.next_u64() % below) as i64);
        let mut compared = 0;
        for _ in 0..400 {
            let mut set = Vec::new();
            for _ in 0..3 {
                let period = drawn(40);
                let work = Nanos::new(1 + drawn(12).get().min(period.get() / 3));
                let jitter = drawn(30) - Nanos::new(1);
                let deadline = Nanos::new(100_000);
                set.push(SporadicTask { jitter, ..SporadicTask::new(work, deadline, period) });
            }
            let load: f64 = set.iter().map(|task| task.work.get() as f64 / task.period.get() as f64).sum();
            if load >= 0.99 {
                continue;
            }
            let stream = |task: &SporadicTask| EventStream {
                period: task.period,
                jitter: task.jitter,
                distance: Nanos::ZERO,
            };
            let (own, above) = set.split_last().unwrap();
            let others =
                |w: i128| above.iter().map(|task| stream(task).most(w) * wide(task.work)).sum::<i128>();
            let found = longest(&[stream(own)], own.work, |amount| below(amount, others)).unwrap();
            let expected = longest_response(own, above, |amount| amount);
            assert_eq!(Response::Within(wide(found.from_plan)), expected, "{set:?}");
            assert!(found.from_event <= found.from_plan);
            compared += 1;
        }
        assert!(compared > 200, "{compared}");
    }
}
