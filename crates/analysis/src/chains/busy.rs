//! The longest response of a thread that handles the events of some streams in the order in which they come.
//!
//! In a busy window that begins with the first of them, the n-th of all comes at a_n at the earliest and is done when n jobs are:
//! `max_n (done(n C) - a_n)` is the longest response, n up to the first job that is done before the next comes (Lehoczky, RTSS 1990, with
//! streams of events in the place of periods: Richter, Jersak and Ernst, RTSS 2003).

use std::cell::Cell;

use surety_units::Nanos;

use super::events::EventStream;
use crate::schedulability::task::{narrow, wide};

/// Jobs of a busy window until a search is given up.
const JOBS: u32 = 2_000;

/// Terms that all searches of a workload add up together: a second or two of a CPU.
const TERMS: u64 = 20_000_000;

/// What is left of [`TERMS`].
#[derive(Debug)]
pub(super) struct Effort {
    left: Cell<u64>,
}

impl Effort {
    /// All of it.
    pub fn new() -> Effort {
        Effort { left: Cell::new(TERMS) }
    }

    /// Takes a number of terms from what is left.
    ///
    /// # Errors
    /// In words, where it has fewer left; then it has none.
    pub fn take(&self, terms: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(u64::try_from(terms).unwrap_or(u64::MAX));
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| {
            format!(
                "the search for its response is given up after {TERMS} terms, as many as all chains together may take; \
                 leave more of its CPU free, or put fewer threads at its priority and above"
            )
        })
    }
}

/// The longest response from when an event comes, and from its planned instant.
///
/// `done`: by when an amount of work of the thread is done in a busy window, and when the work before it was.
///
/// # Errors
/// In words, where the busy window does not end within [`JOBS`], or `done` says so.
pub(super) fn longest(
    streams: &[EventStream],
    work: Nanos,
    done: impl Fn(i128, i128) -> Result<i128, String>,
) -> Result<Longest, String> {
    let first = |next: &[i128]| earliest(streams, next).ok_or("it has no events");
    let mut next = vec![0i128; streams.len()];
    let mut end = 0;
    let mut found = Longest { from_event: Nanos::ZERO, from_plan: Nanos::ZERO };
    for job in 1..=i128::from(JOBS) {
        let (stream, at) = first(&next)?;
        let planned = next[stream] * wide(streams[stream].period) - wide(streams[stream].jitter);
        next[stream] += 1;
        end = done(job * wide(work), end)?;
        found.from_event = found.from_event.max(narrow(end - at));
        found.from_plan = found.from_plan.max(narrow(end - planned));
        if end <= first(&next)?.1 {
            return Ok(found);
        }
    }
    Err(format!(
        "more than {JOBS} of its jobs may follow each other without a rest, and the search is given up there"
    ))
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

/// The least w with `w = own + others(w)`: by when an amount of work is done below others that take `others(w)` of a window. Sought from `start` on,
/// which is not beyond it.
///
/// # Errors
/// In words, where `others` ends the search, or it comes after more than 36 years.
pub(super) fn below(
    own: i128,
    start: i128,
    others: impl Fn(i128) -> Result<i128, String>,
) -> Result<i128, String> {
    let mut window = own.max(start);
    loop {
        let needed = own + others(window)?;
        if needed <= window {
            return Ok(window);
        }
        if needed > i128::from(i64::MAX / 8) {
            return Err("what stands above or beside it, and its own jobs, may take years".to_owned());
        }
        window = needed;
    }
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
            let done = |amount, before| below(amount, before + wide(own.work), |window| Ok(others(window)));
            let found = longest(&[stream(own)], own.work, done).unwrap();
            let expected = longest_response(own, above, |amount| amount);
            assert_eq!(Response::Within(wide(found.from_plan)), expected, "{set:?}");
            assert!(found.from_event <= found.from_plan);
            compared += 1;
        }
        assert!(compared > 200, "{compared}");
    }

    #[test]
    fn an_effort_ends() {
        let effort = Effort::new();
        assert_eq!(effort.take(TERMS as usize - 1), Ok(()));
        assert!(effort.take(2).unwrap_err().contains("given up"));
        assert!(effort.take(1).is_err(), "what was too much is used up");
        let stream = EventStream::sporadic(Nanos::new(10));
        let endless = longest(&[stream], Nanos::new(10), |amount, _| Ok(amount + 1));
        assert!(endless.unwrap_err().contains("without a rest"));
    }
}
