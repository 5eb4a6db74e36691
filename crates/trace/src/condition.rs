//! [`Condition`]: `QUANTITY(THREAD) OP TIME`, looked for in the jobs of a trace as they end.
//!
//! `response(player) > 40ms` holds for the first job of a thread called `player` that takes longer. The quantities are
//! those of a [`Job`]; `wait` is the thread's longest single time without a CPU it wanted, whole job or not. Only what
//! has ended counts: a job that never ends has no response.

use std::fmt;

use surety_model::event::Comm;
use surety_model::job::Job;
use surety_model::promise::Comparison;
use surety_model::source::nearest;
use surety_units::{CpuId, Nanos, Tid};

use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals, Wait};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Release to completion of a job.
    Response,
    /// Release to start of a job.
    Latency,
    /// CPU time of a job, interrupts on top of it included.
    Execution,
    /// Time without budget in a job.
    Throttled,
    /// Longest time the thread wanted a CPU and had none.
    Wait,
}

/// Every quantity with its word.
const QUANTITIES: &[(&str, Quantity)] = &[
    ("response", Quantity::Response),
    ("latency", Quantity::Latency),
    ("execution", Quantity::Execution),
    ("throttled", Quantity::Throttled),
    ("wait", Quantity::Wait),
];

/// Whose jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Thread(Tid),
    /// Those of every thread with this name.
    Named(Comm),
}

/// What ends a recording, for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    quantity: Quantity,
    whose: Whose,
    comparison: Comparison,
    limit: Nanos,
}

/// The first time a condition held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// The thread.
    pub tid: Tid,
    /// Its name then.
    pub comm: Comm,
    /// What was compared with the limit.
    pub value: Nanos,
    /// When that was certain, on the trace's clock: the job's completion; of `wait` the thread's last event.
    pub at: Nanos,
    /// When it began: the job's release; of `wait` so long before.
    pub since: Nanos,
    /// The job; `None` for `wait`.
    pub job: Option<Job>,
}

/// Why a text is no condition, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(String);

impl Condition {
    /// Parses `response(player) > 40ms`, `wait(1234) >= 5ms`. A number is a thread id, anything else a thread's name, of
    /// which the kernel keeps 15 bytes.
    ///
    /// # Errors
    /// [`ConditionError`].
    pub fn parse(text: &str) -> Result<Condition, ConditionError> {
        let shape = || {
            ConditionError(format!(
                "`{text}` is no condition such as response(player) > 40ms or wait(1234) >= 5ms"
            ))
        };
        let (word, rest) = text.trim().split_once('(').ok_or_else(shape)?;
        let word = word.trim();
        // Names may hold parentheses and comparisons: the last closing one ends it.
        let (thread, rest) = rest.rsplit_once(')').ok_or_else(shape)?;
        let quantity = QUANTITIES.iter().find(|(w, _)| *w == word).map(|(_, q)| *q).ok_or_else(|| {
            let words = QUANTITIES.iter().map(|(w, _)| *w);
            let near = nearest(word, words.clone()).map(|near| format!("; did you mean {near}?"));
            let words = words.collect::<Vec<_>>().join(", ");
            ConditionError(format!(
                "`{word}` cannot be waited for: use one of {words}{}",
                near.unwrap_or_default()
            ))
        })?;
        let whose = match (thread.trim(), thread.trim().parse::<i32>()) {
            ("", _) => {
                return Err(ConditionError(format!("`{text}` names no thread: write its name or its id")));
            }
            (_, Ok(tid)) if tid > 0 => Whose::Thread(Tid(tid)),
            (_, Ok(tid)) => return Err(ConditionError(format!("{tid} is no thread's id"))),
            (name, Err(_)) => Whose::Named(Comm::new(name)),
        };
        let rest = rest.trim();
        let (comparison, value) = match (rest.strip_prefix(">="), rest.strip_prefix('>')) {
            (Some(value), _) => (Comparison::AtLeast, value),
            (None, Some(value)) => (Comparison::Above, value),
            (None, None) => {
                return Err(ConditionError(format!("after `{word}({thread})` comes > or >= and a time")));
            }
        };
        let limit: Nanos = value.trim().parse().map_err(|e| ConditionError(format!("{e}")))?;
        if !limit.is_positive() {
            return Err(ConditionError(
                "a time longer than nothing is needed: every job takes some".to_owned(),
            ));
        }
        Ok(Condition { quantity, whose, comparison, limit })
    }

    fn asks_for(&self, thread: &ThreadKey) -> bool {
        match self.whose {
            Whose::Thread(tid) => thread.tid == tid,
            Whose::Named(comm) => thread.comm == comm,
        }
    }

    /// A job that meets it.
    fn check_job(&self, thread: &ThreadKey, job: &Job) -> Option<Met> {
        let value = match self.quantity {
            Quantity::Response => job.response(),
            Quantity::Latency => job.latency(),
            Quantity::Execution => job.execution,
            Quantity::Throttled => job.throttled,
            Quantity::Wait => return None,
        };
        let holds = self.comparison.holds(&value, &self.limit);
        (holds && self.asks_for(thread)).then_some(Met {
            tid: thread.tid,
            comm: thread.comm,
            value,
            at: job.completion,
            since: job.release,
            job: Some(*job),
        })
    }
}

/// Waits for a condition: a sink that keeps the first time it held, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Lookout {
    condition: Condition,
    met: Option<Met>,
}

impl Lookout {
    /// Nothing has met it yet.
    pub fn new(condition: Condition) -> Lookout {
        Lookout { condition, met: None }
    }

    /// The first time it held, whichever thread's.
    pub fn met(&self) -> Option<Met> {
        self.met
    }

    fn take(&mut self, new: Option<Met>) {
        if let Some(new) = new.filter(|new| self.met.is_none_or(|met| new.at < met.at)) {
            self.met = Some(new);
        }
    }
}

impl JobSink for Lookout {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.take(self.condition.check_job(thread, job));
    }

    /// Its response is exact and its execution at least that; when it started nobody knows.
    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        if self.condition.quantity != Quantity::Latency {
            self.take(self.condition.check_job(thread, job));
        }
    }

    /// What was found before a thread marked its jobs stays found: the recording has ended by then.
    fn forget(&mut self, _: &ThreadKey) {}

    fn waited(&mut self, thread: &ThreadKey, _: CpuId, from: Nanos, until: Nanos, _: Wait) {
        let Condition { quantity, comparison, limit, .. } = self.condition;
        let value = until - from;
        let holds = quantity == Quantity::Wait && comparison.holds(&value, &limit);
        if holds && self.condition.asks_for(thread) {
            let (tid, comm) = (thread.tid, thread.comm);
            self.take(Some(Met { tid, comm, value, at: until, since: from, job: None }));
        }
    }

    fn ended(&mut self, _: &ThreadKey, _: &ThreadTotals) {}
}

impl fmt::Display for Condition {
    /// The text that parses to the same condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = QUANTITIES.iter().find(|(_, q)| *q == self.quantity).map_or("", |(word, _)| word);
        write!(f, "{word}(")?;
        match self.whose {
            Whose::Thread(tid) => write!(f, "{tid}")?,
            Whose::Named(comm) => write!(f, "{comm}")?,
        }
        write!(f, ") {} {}", self.comparison.sign(), self.limit.to_exact_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::job::Separation;

    fn ms(value: i64) -> Nanos {
        Nanos::from_millis(value)
    }

    #[test]
    fn conditions_read_back() {
        for text in [
            "response(player) > 40ms",
            "latency(1234) >= 5ms",
            "wait(irq/36-virtio1) > 300us",
            "execution((sd-pam)) > 1s",
            "throttled(a b > c) >= 1ns",
        ] {
            assert_eq!(Condition::parse(text).map(|c| c.to_string()), Ok(text.to_owned()));
        }
        let long = Condition::parse("response(a-name-that-is-too-long)>1ms").unwrap();
        assert_eq!(long.to_string(), "response(a-name-that-is-) > 1ms");
    }

    #[test]
    fn what_is_none_is_refused_in_words() {
        for (text, part) in [
            ("", "no condition such as"),
            ("response > 40ms", "no condition such as"),
            ("respons(a) > 40ms", "did you mean response?"),
            ("lost(a) > 1ms", "use one of response, latency"),
            ("response() > 1ms", "names no thread"),
            ("response(-3) > 1ms", "-3 is no thread's id"),
            ("response(0) > 1ms", "0 is no thread's id"),
            ("response(a) < 1ms", "comes > or >="),
            ("response(a) > 40", "40"),
            ("response(a) > 0ms", "longer than nothing"),
            ("response(a) > 1ms @ 99%", "99%"),
        ] {
            let error = Condition::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_first_job_beyond_the_limit_meets_it() {
        let job = |release, start, completion| Job {
            release: ms(release),
            start: ms(start),
            completion: ms(completion),
            execution: ms(completion - start),
            interrupted: Nanos::ZERO,
            preemptions: 0,
            preempted: Nanos::ZERO,
            cpu: CpuId(0),
            throttled: ms(3),
            inferred: Nanos::ZERO,
            unknown: Nanos::ZERO,
            index: None,
        };
        let jobs = [job(0, 1, 40), job(40, 50, 81), job(80, 81, 190)];
        let thread = ThreadKey {
            slot: 0,
            life: 0,
            tid: Tid(7),
            comm: Comm::new("player"),
            separation: Separation::BusyPeriod,
        };
        let met = |text: &str| {
            let mut lookout = Lookout::new(Condition::parse(text).unwrap());
            for job in &jobs {
                lookout.waited(&thread, CpuId(0), job.release, job.start, Wait::Woken);
                lookout.job(&thread, job);
            }
            lookout.met()
        };
        let completion = |text: &str| met(text).map(|m| m.at);
        for (text, expected) in [
            ("response(player) > 40ms", Some(ms(81))),
            ("response(player) >= 40ms", Some(ms(40))),
            ("response(7) > 41ms", Some(ms(190))),
            ("response(7) > 110ms", None),
            ("response(8) > 1ms", None),
            ("response(playe) > 1ms", None),
            ("latency(player) > 9ms", Some(ms(81))),
            ("execution(player) > 40ms", Some(ms(190))),
            ("throttled(player) >= 3ms", Some(ms(40))),
            ("wait(player) >= 10ms", Some(ms(50))),
            ("wait(player) > 10ms", None),
        ] {
            assert_eq!(completion(text), expected, "{text}");
        }
        let met = met("response(player) > 40ms").unwrap();
        assert_eq!((met.value, met.since, met.job.map(|j| j.start)), (ms(41), ms(40), Some(ms(50))));
    }
}
