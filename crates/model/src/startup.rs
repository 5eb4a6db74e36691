//! [`StartupAccount`]: the start-ups of one program, added up into its record.
//!
//! One that was given up took longer than it was watched: it is kept with that time as *right-censored*, and medians are those
//! of Kaplan and Meier ([`surety_stats::survival`]).

use surety_stats::survival::{KaplanMeier, Observation};
use surety_units::Nanos;

use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::record::{
    Account, ActivityRecord, Basis, Distribution, Evidence, Figure, JobOutcome, Observed, Promised,
};
use crate::workload::{Activity, ActivityKind, Startup};

mod throughput;

pub use throughput::{During, OTHERWISE, STARTING, Throughput};

/// The priority of the threads of a replay, in the class FIFO where that is permitted: above every fair thread and below every other
/// real-time one.
pub const REPLAY_PRIORITY: u32 = 1;

/// The last of a think time, which a thread of a replay spends looking at the clock, as the program spent it working: more than nearly
/// every wake-up of a real-time thread is late by, also on a virtual machine; less of a fair thread, which loses the CPU to others
/// the sooner the longer it has run.
pub const SPIN_REALTIME: Nanos = Nanos::from_millis(2);
/// The same of a fair thread.
pub const SPIN_FAIR: Nanos = Nanos::from_micros(150);

/// The series of a record that holds the start-ups that got ready.
pub const READY: &str = "startup";
/// Those that were given up, with the time they were watched.
pub const GIVEN_UP: &str = "startup given up";
/// Those on the idle machine.
pub const IDLE: &str = "idle startup";
/// Those given up there.
pub const IDLE_GIVEN_UP: &str = "idle startup given up";

/// What became of one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Ready after this.
    Ready(Nanos),
    /// Not ready when it was given up after this.
    GivenUp(Nanos),
}

/// Ready ones and given up ones.
#[derive(Clone, Debug, Default)]
struct Times {
    ready: Observed,
    given_up: Observed,
}

impl Times {
    fn add(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Ready(time) => self.ready.record(time),
            Attempt::GivenUp(time) => {
                self.ready.record_open();
                self.given_up.record(time);
            }
        }
    }
}

/// Adds up the starts of one program: an [`Account`] whose limits may be multiples of what an idle machine needs.
#[derive(Clone, Debug)]
pub struct StartupAccount {
    name: String,
    promises: Vec<Promise>,
    idle: Times,
    attempts: Vec<Attempt>,
}

impl StartupAccount {
    /// An empty account.
    pub fn new(startup: &Startup) -> StartupAccount {
        StartupAccount {
            name: startup.name.clone(),
            promises: startup.promises.clone(),
            idle: Times::default(),
            attempts: Vec::new(),
        }
    }

    /// Takes a start on the idle machine.
    pub fn add_idle(&mut self, attempt: Attempt) {
        self.idle.add(attempt);
    }

    /// Takes a start beside the loads.
    pub fn add(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
    }

    /// How many were taken beside the loads.
    pub fn count(&self) -> usize {
        self.attempts.len()
    }

    /// The record, with figures of its own.
    pub fn finish(self, figures: Vec<Figure>) -> ActivityRecord {
        let limited: Vec<Result<Promise, &str>> = self.promises.iter().map(|p| self.limited(p)).collect();
        let counted: Vec<Promise> = limited.iter().flatten().copied().collect();
        let activity = Activity { kind: ActivityKind::Startup, name: &self.name, promises: &counted };
        let (mut account, mut loaded) = (Account::new(activity, None, Basis::Sample), Times::default());
        for attempt in &self.attempts {
            loaded.add(*attempt);
            let (release, start, execution) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            account.add(match *attempt {
                Attempt::Ready(completion) => JobOutcome::Completed { release, start, completion, execution },
                // Not ready at that time: it takes longer.
                Attempt::GivenUp(time) => JobOutcome::Unfinished { release, until: time + Nanos::new(1) },
            });
        }
        let mut record = account.finish(None);
        let mut counted = std::mem::take(&mut record.promised).into_iter();
        let judged = |(promise, limited): (&Promise, Result<Promise, &str>)| {
            let found = limited.map(|_| counted.next().expect("one for each that has a limit").evidence);
            let unseen = |because: &str| Evidence::NotObservable { because: because.to_owned() };
            Promised { promise: *promise, evidence: found.unwrap_or_else(unseen) }
        };
        record.promised = self.promises.iter().zip(limited).map(judged).collect();
        // Its times are in series of their own, those on the idle machine beside them.
        (record.response, record.latency, record.execution) = (None, None, None);
        record.figures = figures;
        for (name, observed) in [
            (READY, loaded.ready),
            (GIVEN_UP, loaded.given_up),
            (IDLE, self.idle.ready),
            (IDLE_GIVEN_UP, self.idle.given_up),
        ] {
            if observed.histogram.count() > 0 {
                record.series.insert(name.to_owned(), Distribution::from(observed));
            }
        }
        record
    }

    /// A promise with its limit as a time; the error says why it has none.
    fn limited(&self, promise: &Promise) -> Result<Promise, &'static str> {
        let is_limit = matches!(promise.comparison, Comparison::AtMost | Comparison::Below);
        match (promise.metric, promise.bound) {
            (Metric::Startup, Bound::TimesIdle(thousandths)) => {
                let idle = curve(&[Some(&self.idle.ready)], &[Some(&self.idle.given_up)]);
                let median = idle.median(0.95).estimate;
                let median =
                    median.ok_or("there is no median on the idle machine: too many were given up there")?;
                let limit = Nanos::from_f64_rounded(median as f64 * thousandths as f64 / 1e3);
                let limited = Promise { bound: Bound::Time(limit), ..*promise };
                if is_limit { Ok(limited) } else { Err(AT_MOST) }
            }
            (Metric::Startup, Bound::Time(_)) if !is_limit => Err(AT_MOST),
            _ => Ok(*promise),
        }
    }
}

const AT_MOST: &str = "a start-up is promised to take at most a time";

/// The curve of the starts that a record holds, beside the loads or on the idle machine; `None` where there were none.
pub fn survival(record: &ActivityRecord, idle: bool) -> Option<KaplanMeier> {
    let (ready, given_up) = if idle { (IDLE, IDLE_GIVEN_UP) } else { (READY, GIVEN_UP) };
    let of = |name: &str| record.series.get(name).and_then(Distribution::observed);
    let found = curve(&[of(ready)], &[of(given_up)]);
    (found.count() > 0).then_some(found)
}

fn curve(ready: &[Option<&Observed>], given_up: &[Option<&Observed>]) -> KaplanMeier {
    let mut observations = Vec::new();
    for observed in ready.iter().flatten() {
        observations.extend(values(observed).into_iter().map(Observation::ended));
    }
    for observed in given_up.iter().flatten() {
        observations.extend(values(observed).into_iter().map(Observation::given_up));
    }
    KaplanMeier::new(&observations)
}

/// Every value: exactly where their order was kept, else the middle of its bucket.
fn values(observed: &Observed) -> Vec<u64> {
    if let Some(sequence) = observed.in_order().filter(|s| s.every() == 1) {
        return sequence.values().to_vec();
    }
    let buckets = observed.histogram.buckets();
    let middle = |(low, high, count): (u64, u64, u64)| {
        let (min, max) = (observed.histogram.min().unwrap_or(low), observed.histogram.max().unwrap_or(high));
        let (low, high) = (low.max(min), high.min(max));
        std::iter::repeat_n(low + (high - low) / 2, usize::try_from(count).unwrap_or(0))
    };
    buckets.flat_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Ready, StartupBody};

    fn startup(promises: &[&str]) -> Startup {
        Startup {
            name: "x".to_owned(),
            body: StartupBody::Command("true".to_owned()),
            prepare: None,
            rights: crate::workload::Rights::default(),
            ready: Ready::Exit,
            cold: false,
            repeat: 4,
            gap: Nanos::SECOND,
            timeout: None,
            disk: None,
            io_priority: None,
            group: None,
            promises: promises.iter().map(|p| Promise::parse(p).unwrap()).collect(),
        }
    }

    #[test]
    fn given_up_ones_count_against_a_limit_they_outlived_and_for_no_other() {
        let ms = Nanos::from_millis;
        let mut account =
            StartupAccount::new(&startup(&["startup <= 1.5x idle", "startup <= 80ms @ 50%", "late == 0"]));
        for time in [20, 22, 18] {
            account.add_idle(Attempt::Ready(ms(time)));
        }
        // The limits are 30 ms and 80 ms.
        for attempt in [Attempt::Ready(ms(29)), Attempt::Ready(ms(70)), Attempt::GivenUp(ms(50))] {
            account.add(attempt);
        }
        let record = account.finish(Vec::new());
        assert_eq!(record.promised[0].evidence, Evidence::Counted([false, true, true].into_iter().collect()));
        assert_eq!(record.promised[1].evidence, Evidence::Counted([false, false].into_iter().collect()));
        assert!(matches!(record.promised[2].evidence, Evidence::NotObservable { .. }));
        assert_eq!((record.activations, record.completed, record.unfinished), (3, 2, 1));
        let median = |idle| survival(&record, idle).unwrap().median(0.95).estimate;
        assert_eq!(median(true), Some(20_000_000));
        assert_eq!(median(false), Some(70_000_000));
    }

    #[test]
    fn without_a_median_when_idle_nothing_is_a_multiple_of_it() {
        let mut account = StartupAccount::new(&startup(&["startup <= 2x idle"]));
        account.add_idle(Attempt::GivenUp(Nanos::MILLISECOND));
        account.add(Attempt::GivenUp(Nanos::MILLISECOND));
        let record = account.finish(Vec::new());
        assert!(matches!(record.promised[0].evidence, Evidence::NotObservable { .. }));
        let curve = survival(&record, false).unwrap();
        assert_eq!((curve.censored(), curve.median(0.95).estimate), (1, None));
    }
}
