//! [`Plan`]: reservations with their proofs, or why there are none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surety_stats::random::stream_of;
use surety_units::{Bandwidth, Bytes, CpuSet, Nanos, Rate};

use crate::platform::{FairServer, Platform};
use crate::promise::Promise;
use crate::reservation::{DiskReservation, Reservation};
use crate::workload::{Disk, IoPriority, Stream, Workload};

/// Reservations for the activities of one workload on one platform. Its JSON form is `surety.plan/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always `surety.plan/1`.
    pub schema: String,
    /// The machine it was made for.
    pub platform: Platform,
    /// Who gets what, and why that is enough.
    pub reservations: Vec<PlannedReservation>,
    /// Which stream gets what of its disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<PlannedStream>,
    /// How the disks of those are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<PlannedDisk>,
    /// What the admission of streams starts from, as a workload file: disks, streams, what else uses the disks, realtime threads,
    /// interrupts. None without streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Texts of the files that those disks name as models, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Promises no reservation was found for.
    pub refusals: Vec<Refusal>,
}

/// What reservations leave to everything else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// CPUs on average, reservations outside the plan deducted.
    pub best_effort: f64,
    /// The largest fair server of each CPU with which the plan still stands: the kernel admits it, and the server stays in
    /// the background. `None` without a fair server, or where the plan does not stand.
    pub fair_server: Option<FairServer>,
}

/// The schema's name and version.
pub const PLAN_SCHEMA: &str = "surety.plan/1";

/// One activity's reservation with its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedReservation {
    /// Whose.
    pub activity: String,
    pub promises: Vec<Promise>,
    /// (Q, D, T).
    pub reservation: Reservation,
    /// The root domain each of its threads has to be in, where the platform has several; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_domains: Vec<CpuSet>,
    /// Why that is enough.
    pub proof: Proof,
}

/// One stream's reservation of its disk with its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStream {
    /// Whose.
    pub activity: String,
    pub promises: Vec<Promise>,
    /// Rate, batch, buffer, priority.
    pub reservation: DiskReservation,
    /// Why that is enough.
    pub proof: Proof,
}

/// A disk that streams are planned on: what its bounds rely on, whether the workload sets it or the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDisk {
    /// Which, by its name in the workload.
    pub disk: String,
    /// I/O scheduler.
    pub scheduler: String,
    /// Requests that its driver takes at a time at most; `None`: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The largest request that is made of it; `None`: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Bytes>,
    /// Target of the throttling of what the page cache writes (`blk-wbt`); `None`: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wbt: Option<Nanos>,
    /// Tunables of the I/O scheduler, in the units of the kernel's files.
    pub tunables: BTreeMap<String, u64>,
    /// What best effort keeps of it in the long run, all of it together, at worst; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_effort: Option<Rate>,
    /// Why each of those is as it is that the plan sets and the workload does not.
    pub because: Vec<String>,
}

impl PlannedDisk {
    /// What it is set to, as in a workload file, and what it leaves.
    pub fn in_words(&self) -> String {
        let mut words = vec![format!("scheduler {}", self.scheduler)];
        words.extend(self.depth.map(|depth| format!("depth {depth}")));
        words.extend(self.request.map(|request| format!("request {request}")));
        words.extend(self.wbt.map(|target| format!("wbt {target}")));
        words.extend(self.tunables.iter().map(|(name, value)| format!("{name} {value}")));
        let kept = self.best_effort.map(|rate| format!("; best effort keeps {rate} at worst"));
        words.join(", ") + &kept.unwrap_or_default()
    }

    /// Sets a disk as planned.
    pub fn set(&self, disk: &mut Disk) {
        disk.scheduler = Some(self.scheduler.clone());
        (disk.depth, disk.request) = (self.depth, self.request);
        disk.wbt = self.wbt.or(disk.wbt);
        disk.tunables.extend(self.tunables.iter().map(|(name, value)| (name.clone(), *value)));
    }
}

/// The root domain of each reserved thread of an activity, by the activity's name, where there are several.
pub type Homes = BTreeMap<String, Vec<CpuSet>>;

/// An argument an engineer can redo by hand: theorem, inputs, steps, result. In a file it is sealed ([`Proof::sealed`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// Which rule.
    pub theorem: String,
    /// Where the rule comes from: paper or kernel file.
    pub source: String,
    /// What follows, in one sentence.
    pub conclusion: String,
    /// Lower bound of the fraction of activations within the limit, where the promise is about a fraction.
    pub probability: Option<f64>,
    /// The confidence with which that fraction holds, where work was measured; none: it is what was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Numbers it starts from.
    pub inputs: Vec<ProofInput>,
    /// What is done with them, line by line.
    pub steps: Vec<String>,
    /// What has to hold for it.
    pub assumptions: Vec<String>,
    /// Largest numerical error of an iterated computation.
    pub residual: Option<f64>,
    /// Deterministic simulations that agree.
    pub simulations: Vec<SimulationEvidence>,
    /// What [`Proof::sealed`] makes of the rest; none before it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One number a proof starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofInput {
    pub name: String,
    /// How much, with its unit.
    pub value: String,
}

impl ProofInput {
    /// A named value.
    pub fn new(name: &str, value: impl ToString) -> ProofInput {
        ProofInput { name: name.to_owned(), value: value.to_string() }
    }
}

/// A simulation anyone can repeat: same seed, same hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulationEvidence {
    /// Platform profile.
    pub profile: String,
    pub seed: u64,
    /// Hash of everything that happened, hexadecimal.
    pub hash: String,
    /// Activations simulated.
    pub activations: u64,
    /// Of those, missed.
    pub missed: u64,
}

/// Why a promise got no reservation, and the nearest thing that would get one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Whose.
    pub activity: String,
    pub promise: Promise,
    /// Which constraint binds, with the numbers.
    pub because: String,
    /// Nearest feasible requests, best first.
    pub nearest: Vec<String>,
    /// How many more jobs have to be measured before anything can be told, where that is the reason.
    #[serde(default)]
    pub more_jobs: Option<u64>,
}

/// The reservations that were compared for one activity: a trade of bandwidth against the length of the period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Front {
    /// Whose.
    pub activity: String,
    /// The promises each of them would keep.
    pub promises: Vec<Promise>,
    /// What was compared, the longest period first.
    pub points: Vec<FrontPoint>,
}

/// One reservation that was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrontPoint {
    /// (Q, D, T).
    pub reservation: Reservation,
    /// Q/T.
    pub bandwidth: f64,
    /// Of that, what is left for work.
    pub without_costs: f64,
    /// Proven lower bound of the fraction in time, where a response is promised.
    pub proven: Option<f64>,
    /// The fraction itself up to the solver's error, where an exact solver found it.
    pub exact: Option<f64>,
    /// How it compares.
    pub mark: Mark,
    /// Why it does not fit beside what was planned before, if so.
    pub objection: Option<String>,
}

/// How a reservation compares with the others of its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The one that is planned.
    Chosen,
    /// None with as short a period needs less bandwidth.
    Front,
    /// Another one with as short a period needs less.
    Dominated,
}

impl Refusal {
    /// Whether a longer measurement may decide it: it is undecided rather than infeasible.
    pub fn is_undecided(&self) -> bool {
        self.more_jobs.is_some()
    }
}

impl Proof {
    /// The same with a digest of everything in it but the fraction, which claims say too, so that an edited one is told: a slip of
    /// the hand, no forger.
    pub fn sealed(&self) -> Proof {
        Proof { digest: Some(self.digest_now()), ..self.clone() }
    }

    /// Whether it is as it was when it was sealed.
    pub fn is_as_sealed(&self) -> bool {
        self.digest.as_ref() == Some(&self.digest_now())
    }

    /// 64 bits of FNV-1a over its texts in order, numbers to ten digits: a reader of JSON may lose the last of them.
    fn digest_now(&self) -> String {
        let number = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.9e}"));
        let inputs = self.inputs.iter().flat_map(|input| [input.name.clone(), input.value.clone()]);
        let simulation = |s: &SimulationEvidence| {
            format!("{} {} {} {} {}", s.profile, s.seed, s.hash, s.activations, s.missed)
        };
        let lists = [
            vec![self.theorem.clone(), self.source.clone(), self.conclusion.clone()],
            vec![number(self.confidence), number(self.residual)],
            inputs.collect(),
            self.steps.clone(),
            self.assumptions.clone(),
            self.simulations.iter().map(simulation).collect(),
        ];
        // Separators of texts and of lists that no text of a proof has.
        let all: Vec<String> = lists.iter().map(|list| list.join("\u{1f}")).collect();
        format!("{:016x}", stream_of(&all.join("\u{1e}")))
    }
}

impl Plan {
    /// The same with its proofs sealed, as it is written to a file.
    pub fn sealed(&self) -> Plan {
        let mut plan = self.clone();
        plan.reservations.iter_mut().for_each(|planned| planned.proof = planned.proof.sealed());
        plan.streams.iter_mut().for_each(|planned| planned.proof = planned.proof.sealed());
        plan
    }

    /// The workload with this plan's reservations on its activities; those that the plan has none for keep their own.
    pub fn apply_to(&self, workload: &Workload) -> Workload {
        let mut reserved = workload.clone();
        for planned in &self.reservations {
            for task in reserved.tasks.iter_mut().filter(|t| t.name == planned.activity) {
                task.reservation = Some(planned.reservation);
            }
            for irq in reserved.irqs.iter_mut().filter(|i| i.name == planned.activity) {
                irq.reservation = Some(planned.reservation);
            }
        }
        for PlannedStream { activity, reservation, .. } in &self.streams {
            for stream in reserved.streams.iter_mut().filter(|stream| stream.name == *activity) {
                (stream.batch, stream.buffer) = (Some(reservation.batch), Some(reservation.buffer));
                (stream.jitter, stream.overlap) = (Some(reservation.jitter), reservation.overlap);
                stream.io_priority = Some(IoPriority::Realtime(reservation.priority));
                (stream.bound, stream.admitted) = (Some(reservation.bound), true);
            }
        }
        // With a promise and not planned: beside guaranteed ones it does not go before best effort, whatever the file says of refusals.
        let is_unplanned =
            |stream: &&mut Stream| !stream.promises.is_empty() && self.stream_of(&stream.name).is_none();
        for stream in reserved.streams.iter_mut().filter(is_unplanned) {
            if self.disks.iter().any(|planned| stream.disk.as_ref() == Some(&planned.disk)) {
                stream.lower();
            } else {
                stream.leave_batches_out();
            }
        }
        for planned in &self.disks {
            reserved.disks.iter_mut().filter(|d| d.name == planned.disk).for_each(|disk| planned.set(disk));
        }
        reserved
    }

    /// Sum of the reservations' bandwidths; `None` when the exact sum does not fit.
    pub fn total_bandwidth(&self) -> Option<Bandwidth> {
        self.reservations
            .iter()
            .try_fold(Bandwidth::ZERO, |sum, planned| sum.checked_add(planned.reservation.bandwidth()))
    }

    /// Where its threads have to be; empty where the platform has one root domain.
    pub fn homes(&self) -> Homes {
        let apart = self.reservations.iter().filter(|planned| !planned.root_domains.is_empty());
        apart.map(|planned| (planned.activity.clone(), planned.root_domains.clone())).collect()
    }

    /// Whether it reserves nothing, neither CPU time nor a disk.
    pub fn is_empty(&self) -> bool {
        self.reservations.is_empty() && self.streams.is_empty()
    }

    /// What is planned for a stream.
    pub fn stream_of(&self, activity: &str) -> Option<&PlannedStream> {
        self.streams.iter().find(|planned| planned.activity == activity)
    }

    /// The planned reservation of an activity.
    pub fn reservation_of(&self, activity: &str) -> Option<&PlannedReservation> {
        self.reservations.iter().find(|r| r.activity == activity)
    }
}
