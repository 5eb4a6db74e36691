//! [`Record`]: what every world returns: for each activity its distributions, misses and what was in force.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use surety_stats::Failures;
use surety_units::{Bandwidth, CpuId, CpuSet, Nanos, Tid};

use crate::environment::{Check, CheckVerdict};
use crate::platform::Platform;
use crate::promise::{Bound, Promise};
use crate::workload::{ActivityKind, ThreadRole, Workload};

mod account;
mod beyond;
mod caveat;
mod chains;
mod extrapolation;
mod flows;
pub mod loads;
mod observed;
mod requests;
mod streams;

pub use account::{Account, Total};
pub use caveat::{Caveat, Effect};
pub use chains::{Pass, StageTimes, chain_record, stages_of};
pub use extrapolation::{HORIZON, NextLargest};
pub use flows::FlowAccount;
pub(crate) use observed::time;
pub use observed::{Distribution, Observed};
pub use requests::RequestAccount;
pub use streams::{
    BATCH_LATENCY, Guarantee, StreamAccess, StreamThread, guarantee_of, over_with_batches, stream_record,
};

/// Where the numbers of an activity come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Seen: a finite number of activations of a process with chance in it.
    Sample,
    /// Computed without chance or approximation.
    Exact,
    /// A proven limit; the truth is on its right side.
    Bound,
}

/// What one world said about one workload.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The world's name: `host`, `sim`, `analysis`.
    pub world: String,
    /// Whether any activity ran under a reservation.
    pub reserved: bool,
    /// What chance was drawn from; `None` where it is not known, or nothing was drawn.
    pub seed: Option<u64>,
    /// How long activity was observed, warm-up excluded; `None` where it is not known.
    pub duration: Option<Nanos>,
    /// What was really in force.
    pub in_force: InForce,
    /// What degrades the result; empty when it is trusted.
    pub degraded: Vec<String>,
    /// One record per activity, in the workload's order.
    pub activities: Vec<ActivityRecord>,
    /// How complete the trace behind it is, where there was one.
    pub trace: Option<TraceQuality>,
    /// Hash of everything that happened, where the world is deterministic: same seed, same hash, on every machine.
    pub hash: Option<u64>,
}

impl Record {
    /// The record of an activity.
    pub fn activity(&self, name: &str) -> Option<&ActivityRecord> {
        self.activities.iter().find(|a| a.name == name)
    }

    /// Puts the activities, and their threads, in the order of a workload.
    pub fn order_as(&mut self, workload: &Workload) {
        let names: Vec<&str> = workload.activities().iter().map(|activity| activity.name).collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        self.activities.sort_by_key(|activity| place(&activity.name));
        self.in_force.threads.sort_by_key(|thread| place(&thread.activity));
    }

    /// Whether nothing speaks against the result.
    pub fn is_trusted(&self) -> bool {
        self.degraded.is_empty()
    }
}

/// What was in force while a record was made, as read back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InForce {
    /// Kernel release, or the simulator's profile.
    pub kernel: String,
    /// CPUs the workload ran on.
    pub cpus: CpuSet,
    /// The machine, as far as scheduling depends on it; `None` where it is not known, as of imported results.
    pub machine: Option<Platform>,
    /// Threads with what the kernel said about them.
    pub threads: Vec<ThreadInForce>,
    /// Everything else about the machine that a reader needs to judge the numbers, by name.
    pub environment: BTreeMap<String, String>,
    /// What of a simulated machine no kernel was held against, each in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unvalidated: Vec<String>,
    /// Whether the machine was fit to measure, where it is a real one.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Timers of each CPU, where the world counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<CpuTimers>,
    /// What was taken from the CPUs meanwhile, where the machine counts it.
    pub disturbance: Option<Disturbance>,
}

/// What timers did to a CPU while activity was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimers {
    pub cpu: CpuId,
    /// Interrupts in which timers of threads or schedulers expired; those that the tick's had with it are not counted.
    pub interrupts: u64,
    pub ticks: u64,
    /// How often it stopped being idle, for an interrupt or a thread.
    pub idle_exits: u64,
    /// CPU time of these interrupts and ticks, and of the wake-ups in them, by the costs of the machine.
    #[serde(rename = "cost_ns")]
    pub cost: Nanos,
}

/// Shares of the run's CPUs that went to neither the run nor idleness while it lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The part other programs of this machine used.
    pub others: f64,
    /// The part a hypervisor took.
    pub stolen: f64,
}

impl Disturbance {
    /// Others may use this part of the CPUs before a result is theirs too.
    pub const LIMIT: f64 = 0.02;

    /// The larger of its parts.
    pub fn worst(self) -> f64 {
        self.others.max(self.stolen)
    }

    /// What degrades a run on `cpus` that was disturbed so: empty below [`Disturbance::LIMIT`].
    pub fn objections(self, cpus: &CpuSet) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.others > Disturbance::LIMIT {
            reasons.push(format!(
                "other programs used {:.1} % of CPUs {cpus} meanwhile; end them or choose other CPUs with --cpus",
                self.others * 100.0
            ));
        }
        if self.stolen > Disturbance::LIMIT {
            reasons.push(format!("the hypervisor took {:.1} % of CPUs {cpus}", self.stolen * 100.0));
        }
        reasons
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [others, stolen] = [self.others, self.stolen].map(|part| part * 100.0);
        write!(f, "{others:.2} % of the CPUs, {stolen:.2} % by the hypervisor")
    }
}

impl InForce {
    /// The checks that did not find what they should.
    pub fn faults(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.verdict != CheckVerdict::Good)
    }
}

/// A thread with its policy and affinity as read back from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInForce {
    /// Whose thread.
    pub activity: String,
    /// Which; `None` in a world without real threads.
    pub tid: Option<Tid>,
    /// The policy, in words.
    pub policy: String,
    /// The CPUs it may run on.
    pub affinity: CpuSet,
    /// Whether this is what was asked for.
    pub as_requested: bool,
}

/// How complete a trace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceQuality {
    /// Events decoded.
    pub events: u64,
    /// Events the tracer lost.
    pub lost: u64,
    /// Jobs given up because of that.
    pub censored_jobs: u64,
}

/// What became of one activity.
#[derive(Clone, Debug)]
pub struct ActivityRecord {
    /// Its name in the workload.
    pub name: String,
    pub kind: ActivityKind,
    /// Where the numbers come from.
    pub basis: Basis,
    /// Planned activations inside the observed time.
    pub activations: u64,
    /// Of those, done before its end.
    pub completed: u64,
    /// Of those, given up because the one before was late.
    pub skipped: u64,
    /// Of those, still open at the end or lost by the tracer.
    pub unfinished: u64,
    /// Of those, past their deadline: late, skipped, or open beyond it.
    pub missed: u64,
    /// The missed ones in the order of the releases; without trials where that is not known.
    pub misses: Failures,
    /// The span after a release at which an activation counts as missed.
    pub deadline: Option<Nanos>,
    /// Release to completion.
    pub response: Option<Distribution>,
    /// Release to start.
    pub latency: Option<Distribution>,
    /// CPU time of a job.
    pub execution: Option<Distribution>,
    /// Further distributions of times by name: `raw latency`, an imported `read clat`.
    pub series: BTreeMap<String, Distribution>,
    /// CPU time received.
    pub share: Option<Share>,
    /// The threads of a program, where they were traced, in the order of their creation.
    pub threads: Vec<ThreadSeen>,
    /// Longest time a thread that wanted the CPU was without it.
    pub longest_gap: Option<Nanos>,
    /// Every promise of the activity with its evidence, in the workload's order.
    pub promised: Vec<Promised>,
    /// What speaks against a verdict on these counts.
    pub caveats: Vec<Caveat>,
    /// Other results by name, with their unit: a load's rate, for instance.
    pub figures: Vec<Figure>,
    /// The largest latency of the time to come, where it was asked.
    pub next_largest: Option<NextLargest>,
}

/// A thread of a program as a trace shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSeen {
    /// Its id in this run.
    pub tid: Tid,
    /// What it is recognised by in another.
    #[serde(flatten)]
    pub role: ThreadRole,
    /// Time on CPUs while it was observed, interrupts on top and time a hypervisor took included.
    #[serde(rename = "run_ns")]
    pub run: Nanos,
}

/// One named number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    /// How much; one that is not finite is `null` in files.
    #[serde(deserialize_with = "finite_or_nan")]
    pub value: f64,
    pub unit: Cow<'static, str>,
}

fn finite_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|value| value.unwrap_or(f64::NAN))
}

impl Figure {
    /// A figure; one without a unit is a count.
    pub fn new(name: &str, value: f64, unit: &'static str) -> Figure {
        Figure { name: name.to_owned(), value, unit: unit.into() }
    }
}

/// CPU time received by the threads of an activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Per thread: CPU time, and time spent waiting for a CPU where it is known.
    pub threads: Vec<(Nanos, Option<Nanos>)>,
    /// Over this span.
    pub span: Nanos,
}

impl Share {
    /// CPU time of all threads.
    pub fn run(&self) -> Nanos {
        self.threads.iter().map(|(run, _)| *run).sum()
    }

    /// CPU time of all threads over the span, as a share of one CPU.
    pub fn fraction(&self) -> f64 {
        if self.span.is_positive() { self.run().get() as f64 / self.span.get() as f64 } else { 0.0 }
    }

    /// What the threads got of the time in which they wanted a CPU; all of it where they wanted none. `None` where
    /// waiting is not known.
    pub fn of_demand(&self) -> Option<f64> {
        let waited: Option<Vec<Nanos>> = self.threads.iter().map(|(_, waited)| *waited).collect();
        let waited: Nanos = waited?.into_iter().sum();
        let run = self.run();
        let wanted = run + waited;
        if self.threads.is_empty() {
            return None;
        }
        Some(if wanted.is_positive() { run.get() as f64 / wanted.get() as f64 } else { 1.0 })
    }
}

/// A promise with what a world saw of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Promised {
    /// What was promised.
    pub promise: Promise,
    /// What speaks for or against it.
    pub evidence: Evidence,
}

impl Promised {
    /// Promises, each with its evidence.
    pub fn all(promises: &[Promise], evidence: impl Fn(&Promise) -> Evidence) -> Vec<Promised> {
        promises.iter().map(|promise| Promised { promise: *promise, evidence: evidence(promise) }).collect()
    }

    /// Promises this world cannot see, for one reason.
    pub fn not_observable(promises: &[Promise], because: &str) -> Vec<Promised> {
        Promised::all(promises, |_| Evidence::NotObservable { because: because.to_owned() })
    }
}

/// What speaks for or against one promise.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Activations that can be judged, in the order of their release; one outside of the limit is a failure.
    Counted(Failures),
    /// One measured value of the whole run.
    Value {
        /// The value, in the promise's base unit (ns, share of a CPU, bytes or events per second, a count).
        value: f64,
        /// What got in the way of more, where that was known: the same value relative to what was asked for.
        of_demand: Option<f64>,
    },
    /// The same value of each of several runs.
    Runs(Vec<f64>),
    /// A proof that the fraction within the limit is at least this.
    Proven {
        /// Lower bound of the long-run fraction.
        at_least: f64,
        /// What proves it.
        because: String,
    },
    /// This world cannot see it.
    NotObservable {
        /// Why.
        because: String,
    },
}

impl Evidence {
    /// How many activations were within the limit, of how many; `None` of anything else.
    pub fn counted(&self) -> Option<(u64, u64)> {
        match self {
            Evidence::Counted(outside) => Some((outside.trials() - outside.failures(), outside.trials())),
            _ => None,
        }
    }
}

/// What became of one job, as a world saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// Done.
    Completed {
        /// Planned release.
        release: Nanos,
        /// First instant on a CPU.
        start: Nanos,
        /// End.
        completion: Nanos,
        /// CPU time used.
        execution: Nanos,
    },
    /// Given up because the job before was late.
    Skipped {
        /// Planned release.
        release: Nanos,
    },
    /// Still open when observation ended, or lost by the tracer.
    Unfinished {
        /// Planned release.
        release: Nanos,
        /// Last instant it was known to be open.
        until: Nanos,
    },
}

impl JobOutcome {
    /// The planned release.
    pub fn release(&self) -> Nanos {
        match *self {
            JobOutcome::Completed { release, .. }
            | JobOutcome::Skipped { release }
            | JobOutcome::Unfinished { release, .. } => release,
        }
    }
}

impl ActivityRecord {
    /// An empty record.
    pub fn new(name: &str, kind: ActivityKind, basis: Basis) -> ActivityRecord {
        ActivityRecord {
            name: name.to_owned(),
            kind,
            basis,
            activations: 0,
            completed: 0,
            skipped: 0,
            unfinished: 0,
            missed: 0,
            misses: Failures::new(),
            deadline: None,
            response: None,
            latency: None,
            execution: None,
            series: BTreeMap::new(),
            share: None,
            threads: Vec::new(),
            longest_gap: None,
            promised: Vec::new(),
            caveats: Vec::new(),
            figures: Vec::new(),
            next_largest: None,
        }
    }

    /// The evidence for each promise, in their order.
    pub fn evidence(&self) -> Vec<&Evidence> {
        self.promised.iter().map(|promised| &promised.evidence).collect()
    }

    /// Missed over planned activations.
    pub fn miss_ratio(&self) -> Option<f64> {
        (self.activations > 0).then(|| self.missed as f64 / self.activations as f64)
    }

    /// CPU time received as a share of one CPU, where it was seen.
    pub fn share_received(&self) -> Option<f64> {
        self.share.as_ref().map(Share::fraction)
    }
}

/// The value of a promise's bound in its base unit.
pub fn bound_value(bound: Bound) -> f64 {
    match bound {
        Bound::Time(time) => time.get() as f64,
        Bound::Count(count) => count as f64,
        Bound::Share(share) => Bandwidth::as_f64(share),
        Bound::Rate(rate) => rate.0 as f64,
        Bound::Frequency(frequency) => frequency.per_second(),
        Bound::TimesIdle(thousandths) => thousandths as f64 / 1e3,
    }
}
