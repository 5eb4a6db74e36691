//! [`Snapshot`]: what threads and CPUs got in one interval, from what a sampler read before and after it.
//!
//! Counters of threads are those of `/proc/PID/task/TID/schedstat`: time on a CPU, time in a run queue, and how often the thread
//! got a CPU. The kernel adds a wait when it ends. Where scheduling events are traced, [`Traced`] says more: each wake-up's latency,
//! waits that go on, and who had the CPU meanwhile. Snapshots are what `surety top --json` and `--record` write, one a line
//! (`surety.top/1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surety_units::{CpuId, Nanos, Tid};

/// The name and version of the format.
pub const SCHEMA: &str = "surety.top/1";

/// What a thread got since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time on a CPU.
    pub run: Nanos,
    /// Time in a run queue.
    pub waited: Nanos,
    /// How often it got a CPU.
    pub switches: u64,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
#[non_exhaustive]
pub enum Scheduling {
    /// SCHED_OTHER.
    Fair { nice: i32 },
    /// SCHED_BATCH.
    Batch { nice: i32 },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo { priority: u32 },
    /// SCHED_RR.
    RoundRobin { priority: u32 },
    /// SCHED_DEADLINE.
    Deadline {
        #[serde(rename = "runtime_ns")]
        runtime: Nanos,
        #[serde(rename = "deadline_ns")]
        deadline: Nanos,
        #[serde(rename = "period_ns")]
        period: Nanos,
    },
    /// SCHED_EXT.
    Ext { nice: i32 },
    /// It could not be asked.
    Unknown,
}

impl Scheduling {
    /// Whether it goes before all fair threads: SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub fn is_realtime(&self) -> bool {
        matches!(self, Scheduling::Fifo { .. } | Scheduling::RoundRobin { .. } | Scheduling::Deadline { .. })
    }
}

/// A thread as a sampler found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReading {
    /// Its process.
    pub process: Tid,
    pub tid: Tid,
    pub scheduling: Scheduling,
    /// `None` where the kernel does not count or does not show them.
    pub counters: Option<Counters>,
}

/// A CPU as `/proc/stat` shows it: times since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuReading {
    pub cpu: CpuId,
    /// In programs, the kernel and interrupts.
    pub busy: Nanos,
    /// Taken by the hypervisor.
    pub stolen: Nanos,
    pub idle: Nanos,
}

/// All that a sampler read at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When, on CLOCK_MONOTONIC.
    pub at: Nanos,
    /// By thread id; each once.
    pub threads: Vec<ThreadReading>,
    pub cpus: Vec<CpuReading>,
}

/// A thread that had the CPU while another waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instead {
    /// 0: the CPU was idle, on its way out of idle, or the thread had no budget.
    pub tid: Tid,
    pub name: String,
    #[serde(rename = "time_ns")]
    pub time: Nanos,
}

/// What scheduling events say of a thread in the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Waits after a wake-up that ended in the interval.
    pub wakeups: u64,
    /// The 99th percentile of their lengths (nearest rank).
    #[serde(rename = "latency_p99_ns")]
    pub latency_p99: Option<Nanos>,
    /// The longest of them.
    #[serde(rename = "latency_max_ns")]
    pub latency_max: Option<Nanos>,
    /// The longest wait for a CPU, after a wake-up or a preemption, from its beginning, which may be before the interval; one that
    /// goes on counts up to the end of the interval.
    #[serde(rename = "wait_max_ns")]
    pub wait_max: Nanos,
    /// Of a reservation: jobs that ended after their deadline. Of any other thread: wake-ups later than the limit asked for.
    pub missed: u64,
    /// Of a reservation: the longest time from waking to sleeping of a job that ended in the interval.
    #[serde(rename = "response_max_ns")]
    pub response_max: Option<Nanos>,
    /// Who had the CPU while it waited in the interval, longest first.
    pub instead: Vec<Instead>,
}

/// A reservation in the interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// CPU time that the reservation is worth in an interval of this length.
    #[serde(rename = "supply_ns")]
    pub supply: Nanos,
    /// CPU time as a part of that; above 1 where earlier budget is used or unused bandwidth is reclaimed.
    pub used: f64,
    /// Where traced: what was left to the deadline of the job that came closest to it; negative after it.
    #[serde(rename = "slack_min_ns")]
    pub slack_min: Option<Nanos>,
}

/// A thread in the interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadNow {
    pub pid: Tid,
    pub tid: Tid,
    pub name: String,
    pub scheduling: Scheduling,
    /// Time on a CPU.
    #[serde(rename = "run_ns")]
    pub run: Nanos,
    /// Time of waits for a CPU that ended in the interval.
    #[serde(rename = "waited_ns")]
    pub waited: Nanos,
    /// How often it got a CPU.
    pub switches: u64,
    /// `None`: not traced, or nothing of it happened.
    pub traced: Option<Traced>,
    /// `None`: not SCHED_DEADLINE.
    pub reservation: Option<Use>,
}

/// A CPU in the interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuNow {
    pub cpu: CpuId,
    /// Part of its time in programs, the kernel and interrupts, 0 to 1.
    pub busy: f64,
    /// Part taken by the hypervisor.
    pub stolen: f64,
}

/// One interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// The end of the interval, ns since 1970; longer than a time in a document may be.
    pub unix_ns: i64,
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// Threads that were seen at its end.
    pub threads_seen: usize,
    /// Whether scheduling events were traced.
    pub is_traced: bool,
    /// Events that the tracer lost so far.
    pub lost: u64,
    /// Wake-ups later than this count as missed.
    #[serde(rename = "late_ns")]
    pub late: Nanos,
    /// CPU time that the sampler took itself.
    #[serde(rename = "own_ns")]
    pub own: Nanos,
    /// What cannot be shown and how to get it, a sentence each.
    pub missing: Vec<String>,
    pub cpus: Vec<CpuNow>,
    /// Threads that ran or waited, and all that are realtime or have a reservation, by thread id.
    pub threads: Vec<ThreadNow>,
}

/// What got lost between two readings of a counter that only grows.
fn grown(before: u64, after: u64) -> u64 {
    after.saturating_sub(before)
}

impl Counters {
    /// What came to `before` since; all of it where the number belongs to another thread now, whose counters began anew.
    pub fn since(self, before: Counters) -> Counters {
        if self.switches < before.switches || self.run < before.run || self.waited < before.waited {
            return self;
        }
        Counters {
            run: self.run - before.run,
            waited: self.waited - before.waited,
            switches: grown(before.switches, self.switches),
        }
    }
}

/// The difference of two readings: CPUs, and the threads that did something.
///
/// A thread that was not there before began in the interval. What a thread got that ended in it is not known, unless it is traced.
/// `name` is asked for threads that are listed.
pub fn difference(
    before: &Reading,
    after: &Reading,
    traced: &mut BTreeMap<Tid, Traced>,
    mut name: impl FnMut(&ThreadReading) -> String,
) -> (Vec<CpuNow>, Vec<ThreadNow>) {
    let interval = after.at - before.at;
    let mut earlier = before.threads.iter().peekable();
    let mut threads = Vec::new();
    for thread in &after.threads {
        while earlier.next_if(|other| other.tid < thread.tid).is_some() {}
        let same = earlier.next_if(|other| other.tid == thread.tid);
        let then = same.and_then(|same| same.counters).unwrap_or_default();
        let got = thread.counters.unwrap_or_default().since(then);
        let traced = traced.remove(&thread.tid);
        if got == Counters::default() && traced.is_none() && !thread.scheduling.is_realtime() {
            continue;
        }
        threads.push(ThreadNow {
            pid: thread.process,
            tid: thread.tid,
            name: name(thread),
            scheduling: thread.scheduling,
            run: got.run,
            waited: got.waited,
            switches: got.switches,
            reservation: reservation(&thread.scheduling, got.run, interval, traced.as_ref()),
            traced,
        });
    }
    (cpus(before, after), threads)
}

fn reservation(scheduling: &Scheduling, run: Nanos, interval: Nanos, traced: Option<&Traced>) -> Option<Use> {
    let Scheduling::Deadline { runtime, deadline, period } = *scheduling else { return None };
    if !period.is_positive() {
        return None;
    }
    let supply = interval.mul_ratio(runtime.get_unsigned(), period.get_unsigned());
    let used = if supply.is_positive() { run.get() as f64 / supply.get() as f64 } else { 0.0 };
    let slack_min = traced.and_then(|traced| traced.response_max).map(|longest| deadline - longest);
    Some(Use { supply, used, slack_min })
}

fn cpus(before: &Reading, after: &Reading) -> Vec<CpuNow> {
    let then: BTreeMap<CpuId, &CpuReading> = before.cpus.iter().map(|cpu| (cpu.cpu, cpu)).collect();
    let of = |cpu: &CpuReading| {
        let then = then.get(&cpu.cpu)?;
        let part = |now: Nanos, then: Nanos| (now - then).max(Nanos::ZERO).get() as f64;
        let (busy, stolen) = (part(cpu.busy, then.busy), part(cpu.stolen, then.stolen));
        let all = busy + stolen + part(cpu.idle, then.idle);
        let of_all = |time: f64| if all > 0.0 { time / all } else { 0.0 };
        Some(CpuNow { cpu: cpu.cpu, busy: of_all(busy), stolen: of_all(stolen) })
    };
    after.cpus.iter().filter_map(of).collect()
}

/// The number in a set of this size that the 99th percentile is (nearest rank), counted from 0.
pub fn rank_p99(count: usize) -> Option<usize> {
    (count * 99).div_ceil(100).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(at: i64, threads: &[(i32, i64, i64, u64)]) -> Reading {
        let thread = |&(tid, run, waited, switches): &(i32, i64, i64, u64)| ThreadReading {
            process: Tid(tid),
            tid: Tid(tid),
            scheduling: Scheduling::Fair { nice: 0 },
            counters: Some(Counters { run: Nanos::new(run), waited: Nanos::new(waited), switches }),
        };
        Reading { at: Nanos::new(at), threads: threads.iter().map(thread).collect(), cpus: Vec::new() }
    }

    fn between(before: &Reading, after: &Reading) -> Vec<(i32, i64, i64, u64)> {
        let (_, threads) = difference(before, after, &mut BTreeMap::new(), |_| String::new());
        threads.iter().map(|t| (t.tid.0, t.run.get(), t.waited.get(), t.switches)).collect()
    }

    #[test]
    fn threads_that_begin_end_sleep_and_inherit_a_number() {
        let before = reading(0, &[(1, 5, 5, 1), (2, 7, 7, 2), (4, 900, 9, 9), (5, 1, 1, 1)]);
        let after = reading(10, &[(1, 8, 6, 2), (3, 2, 0, 1), (4, 3, 1, 1), (5, 1, 1, 1)]);
        assert_eq!(between(&before, &after), [(1, 3, 1, 1), (3, 2, 0, 1), (4, 3, 1, 1)]);
    }

    #[test]
    fn a_reservation_is_worth_its_bandwidth_and_its_slack_is_to_the_deadline() {
        let ms = Nanos::from_millis;
        let scheduling = Scheduling::Deadline { runtime: ms(10), deadline: ms(30), period: ms(40) };
        let traced = Traced { response_max: Some(ms(33)), ..Traced::default() };
        let now = reservation(&scheduling, ms(100), ms(1000), Some(&traced)).unwrap();
        assert_eq!((now.supply, now.used, now.slack_min), (ms(250), 0.4, Some(ms(-3))));
        assert_eq!(reservation(&Scheduling::Idle, ms(1), ms(1), None), None);
    }

    #[test]
    fn shares_of_a_cpu_are_of_its_own_time() {
        let cpu = |busy, stolen, idle| {
            let [busy, stolen, idle] = [busy, stolen, idle].map(Nanos::from_millis);
            Reading { cpus: vec![CpuReading { cpu: CpuId(0), busy, stolen, idle }], ..Reading::default() }
        };
        let now = cpus(&cpu(100, 10, 0), &cpu(400, 110, 600));
        assert_eq!((now[0].busy, now[0].stolen), (0.3, 0.1));
        assert_eq!(cpus(&cpu(1, 1, 1), &cpu(1, 1, 1))[0].busy, 0.0);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let snapshot = Snapshot {
            schema: SCHEMA.to_owned(),
            unix_ns: 1_795_807_901_206_218_016,
            interval: Nanos::from_secs(1),
            threads_seen: 3,
            is_traced: true,
            lost: 0,
            late: Nanos::MILLISECOND,
            own: Nanos::MILLISECOND,
            missing: Vec::new(),
            cpus: vec![CpuNow { cpu: CpuId(1), busy: 0.1, stolen: 0.0 }],
            threads: vec![ThreadNow {
                pid: Tid(1),
                tid: Tid(2),
                name: "a \"b\"".to_owned(),
                scheduling: Scheduling::Fifo { priority: 3 },
                run: Nanos::new(1),
                waited: Nanos::new(2),
                switches: 3,
                traced: Some(Traced { latency_max: Some(Nanos::new(4)), ..Traced::default() }),
                reservation: Some(Use { supply: Nanos::new(5), used: 0.3, slack_min: Some(Nanos::new(-6)) }),
            }],
        };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot, "{text}");
    }

    #[test]
    fn the_percentile_is_of_the_nearest_rank() {
        for (count, rank) in [(0, None), (1, Some(0)), (99, Some(98)), (100, Some(98)), (101, Some(99))] {
            assert_eq!(rank_p99(count), rank, "{count}");
        }
    }

    proptest! {
        /// Two intervals side by side say what one over both does, whoever comes and goes.
        #[test]
        fn intervals_add_up(steps in prop::collection::vec((1..8_i32, 0..100_i64, 0..100_i64, 1..5_u64), 0..40)) {
            let (one, two) = steps.split_at(steps.len() / 2);
            let mut sums: BTreeMap<i32, (i64, i64, u64)> = BTreeMap::new();
            let mut at = |part: &[(i32, i64, i64, u64)], time| {
                for (tid, run, waited, switches) in part {
                    let sum = sums.entry(*tid).or_default();
                    *sum = (sum.0 + run, sum.1 + waited, sum.2 + switches);
                }
                let list: Vec<_> = sums.iter().map(|(tid, s)| (*tid, s.0, s.1, s.2)).collect();
                reading(time, &list)
            };
            let (a, b, c) = (at(&[], 0), at(one, 1), at(two, 2));
            let mut added: BTreeMap<i32, (i64, i64, u64)> = BTreeMap::new();
            for (tid, run, waited, switches) in between(&a, &b).into_iter().chain(between(&b, &c)) {
                let sum = added.entry(tid).or_default();
                *sum = (sum.0 + run, sum.1 + waited, sum.2 + switches);
            }
            let whole: BTreeMap<_, _> =
                between(&a, &c).into_iter().map(|(tid, run, waited, n)| (tid, (run, waited, n))).collect();
            prop_assert_eq!(added, whole);
        }
    }
}
