//! [`Workload`]: what runs and what was promised. Data only: no world, no device path, no CPU number of a
//! particular machine; those are bound when it runs.

mod activity;
mod beyond;
mod chain;
mod course;
mod fault;
mod group;
mod io_priority;
mod irq;
mod link;
mod load;
mod phases;
mod policy;
pub(crate) mod rarest;
mod rights;
mod stream;
mod threads;
mod together;

use std::collections::BTreeMap;

use surety_units::{Bytes, CpuId, CpuSet, Nanos, Rate};

use crate::distribution::TimeDistribution;
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::source::Source;

pub use crate::kind::{ActivityKind, KindRow};
pub use activity::Activity;
pub use chain::{Chain, Events};
pub use course::{Course, Cursor, Taken};
pub use fault::{Fails, Fault};
pub use group::{Group, Quota, unanalysed_group};
pub use io_priority::IoPriority;
pub use irq::{Arrivals, Irq};
pub use link::{Flow, LINK_SCHEDULERS, Link, LinkScheduler, ServiceCurve};
pub use load::{FileUse, LOAD_KINDS, Load, LoadKey, LoadKind, LoadRow, MESSAGE_SENDERS, Treatment};
pub use phases::{Fill, Phase, RaisedEvent, Schedule, Timer, UtilClamp, fills_mut, leaves};
pub use policy::{PolicyParameters, PolicyRow, PolicySpec, policies};
pub use rights::Rights;
pub use stream::{BatchMode, Direction, STREAM_PRIORITY, Stream, StreamFile, release_of};
pub use threads::{ThreadMatch, ThreadRole};
pub use together::{Meeting, Together};

/// Everything a workload file says. See `docs/formats/workload.md`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// One line for people.
    pub title: Option<String>,
    /// How long it is run where nothing else is said.
    pub duration: Option<Nanos>,
    /// Threads and programs that need CPU time.
    pub tasks: Vec<Task>,
    /// Interrupt sources with their handling threads.
    pub irqs: Vec<Irq>,
    /// Block devices by role.
    pub disks: Vec<Disk>,
    /// Sequential file accesses at a rate.
    pub streams: Vec<Stream>,
    /// Commands whose start-up time matters.
    pub startups: Vec<Startup>,
    /// Links that carry packets, by role.
    pub links: Vec<Link>,
    /// Messages that go over them.
    pub flows: Vec<Flow>,
    /// Best-effort activity there to disturb.
    pub loads: Vec<Load>,
    /// Control groups with a weight.
    pub groups: Vec<Group>,
    /// Events passing through tasks.
    pub chains: Vec<Chain>,
    /// Locks tasks share.
    pub resources: Vec<Resource>,
    /// Events that are raised when a run begins; others are not.
    pub events: Vec<RaisedEvent>,
    /// What is varied from run to run.
    pub vary: Vary,
    /// Where it was read from, for messages; takes no part in comparisons.
    pub source: Source,
}

/// A thread or program that needs CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its role.
    pub name: String,
    pub body: TaskBody,
    /// When its jobs are released.
    pub release: Release,
    /// How far apart releases of a sporadic task really are, drawn job by job and never below its gap; `None`:
    /// always the gap.
    pub spacing: Option<TimeDistribution>,
    /// What happens to releases while a job is late.
    pub late: Late,
    /// Scheduling class asked for without a reservation.
    pub policy: PolicySpec,
    /// How much later than asked its sleeps may end (PR_SET_TIMERSLACK), where it is no realtime or deadline thread; `None`: as the world has it.
    pub timer_slack: Option<Nanos>,
    /// Control group, by name.
    pub group: Option<String>,
    pub instances: Instances,
    /// CPUs its threads may use, by their numbers on the machine of the run; `None`: those of the run.
    pub cpus: Option<CpuSet>,
    /// Ends after this many jobs.
    pub jobs: Option<u64>,
    /// Within which limits its utilisation is taken at first.
    pub util: UtilClamp,
    /// Whether its threads wait at a barrier for all others that begin so before their first jobs.
    pub together: bool,
    /// Whether it sleeps until a time or for a time.
    pub sleep: Sleep,
    /// What was promised about it.
    pub promises: Vec<Promise>,
    /// The guarantee it runs under.
    pub reservation: Option<Reservation>,
}

/// What a task is.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskBody {
    /// Made for the run: burns CPU time.
    Synthetic(Work),
    /// Made for the run: a sequence of steps each job goes through.
    Phases(Vec<Phase>),
    Command(Program),
    /// A thread that is already running.
    Match(ThreadMatch),
}

/// CPU time of each job.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Never done.
    Forever,
    /// Drawn for each job.
    Drawn(TimeDistribution),
    /// Taken job by job from a recorded file.
    Trace(String),
}

/// A program to run, and everything it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The command, in words as a shell splits them.
    pub line: String,
    /// A command that is run once before, in the directory the program will run in: it makes what that needs.
    pub prepare: Option<String>,
    /// The package that brings the program, for whoever lacks it.
    pub package: Option<String>,
    /// The thread that does the work and bears the reservation; `None`: not known yet, the program's first.
    pub worker: Option<ThreadRole>,
    /// As whom it runs.
    pub rights: Rights,
}

impl Program {
    /// A program that needs nothing prepared.
    pub fn new(line: &str) -> Program {
        Program { line: line.to_owned(), ..Program::default() }
    }
}

/// When jobs are released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Not known or not asked: one job, or found from a trace.
    #[default]
    Unspecified,
    /// On an absolute grid.
    Periodic {
        /// Distance of the grid's points.
        period: Nanos,
        /// First point.
        start: Nanos,
        /// A release comes up to this much after its grid point.
        jitter: Nanos,
    },
    /// At least this far apart.
    Sporadic {
        /// Smallest distance.
        gap: Nanos,
    },
    /// Each at the instant at which the one before was done.
    BackToBack {
        /// The first.
        start: Nanos,
    },
}

impl Release {
    /// When the first is planned.
    pub fn start(&self) -> Nanos {
        match self {
            Release::Periodic { start, .. } | Release::BackToBack { start } => *start,
            Release::Unspecified | Release::Sporadic { .. } => Nanos::ZERO,
        }
    }

    /// Period or smallest gap.
    pub fn interval(&self) -> Option<Nanos> {
        match self {
            Release::Unspecified | Release::BackToBack { .. } => None,
            Release::Periodic { period, .. } => Some(*period),
            Release::Sporadic { gap } => Some(*gap),
        }
    }
}

/// What becomes of releases that pass while a job still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// They wait: every planned activation runs, late.
    #[default]
    Queue,
    /// They are given up and counted as missed.
    Skip,
}

/// How a periodic task sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// Until the next grid point.
    #[default]
    Absolute,
    /// For the rest of the period, measured from when it looks.
    Relative,
}

/// How many of a task there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instances {
    Count(u32),
    /// This many pinned to each CPU of the run.
    PerCpu(u32),
}

impl Instances {
    /// The number on a machine with `cpus` CPUs in the run.
    pub fn on(self, cpus: u32) -> u32 {
        match self {
            Instances::Count(count) => count,
            Instances::PerCpu(each) => each.saturating_mul(cpus),
        }
    }

    /// The one CPU of `cpus` that instance `instance` stays on; `None`: wherever the run may be.
    pub fn pinned_to(self, instance: u32, cpus: &CpuSet) -> Option<CpuId> {
        let Instances::PerCpu(each) = self else { return None };
        cpus.iter().nth((instance / each.max(1)) as usize)
    }
}

/// A block device by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its role: the `d` of `[disk.d]`.
    pub name: String,
    /// Made for the run with this size.
    pub make: Option<Bytes>,
    /// Device model when emulated or simulated.
    pub model: Option<String>,
    /// I/O scheduler.
    pub scheduler: Option<String>,
    /// Requests that its driver takes at a time at most; `None`: as it is.
    pub depth: Option<u32>,
    /// The largest request that is made of it; `None`: as it is.
    pub request: Option<Bytes>,
    /// Writes of the page cache that its queue has at a time follow latencies of reads against this target (`blk-wbt`); 0: no such limit; `None`: as it is.
    pub wbt: Option<Nanos>,
    /// What a plan keeps for best effort, all of it together, in the long run; `None`: what the plan keeps by itself.
    pub best_effort: Option<Rate>,
    /// Whether the file system that is made for the run has a journal.
    pub journal: Option<bool>,
    /// The disk of the host on which it is a virtual machine's, with the size of `make`.
    pub on: Option<String>,
    /// There: I/O priority of the process of the host that makes its requests.
    pub io_priority: Option<IoPriority>,
    /// The kernel by whose rules its files are read ahead, where they are simulated.
    pub read_ahead: Option<String>,
    /// And its control group, by name.
    pub group: Option<String>,
    /// Its tunables under the kernel's own names, in the units of the kernel's files.
    pub tunables: BTreeMap<String, u64>,
    /// Parts of it that fail, where it has a model and is no simulated one.
    pub faults: Vec<Fault>,
}

/// What a start-up runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupBody {
    /// A program.
    Command(String),
    /// The recorded I/O of one.
    Replay(String),
}

/// When a started program counts as ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// When it exits.
    #[default]
    Exit,
    /// When it prints this.
    Stdout(String),
    /// When this socket takes connections.
    Socket(String),
}

/// A command whose time to start is the promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Startup {
    /// Its role.
    pub name: String,
    /// What is started.
    pub body: StartupBody,
    /// A command that fills the directory it is started in, once.
    pub prepare: Option<String>,
    /// As whom a command runs.
    pub rights: Rights,
    /// When it is ready.
    pub ready: Ready,
    /// With nothing of it cached.
    pub cold: bool,
    /// How often.
    pub repeat: u32,
    /// From the end of one to the begin of the next.
    pub gap: Nanos,
    /// Given up after this.
    pub timeout: Option<Nanos>,
    /// Disk, by name.
    pub disk: Option<String>,
    /// Of its processes; `None`: that of their scheduling class.
    pub io_priority: Option<IoPriority>,
    /// Control group of its processes, by name.
    pub group: Option<String>,
    /// What was promised about it.
    pub promises: Vec<Promise>,
}

impl Startup {
    /// [`Startup::gap`] where none is given.
    pub const GAP: Nanos = Nanos::from_secs(1);
    /// After which a start is given up where no time is given, as start-up benchmarks do.
    pub const TIMEOUT: Nanos = Nanos::from_secs(120);

    /// After which a start is given up.
    pub fn limit(&self) -> Nanos {
        self.timeout.unwrap_or(Startup::TIMEOUT)
    }
}

/// What a lock does about priority inversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockProtocol {
    /// Nothing.
    #[default]
    None,
    /// The holder inherits the highest waiter's priority.
    Inherit,
}

/// A lock tasks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    /// What it does about priority inversion.
    pub protocol: LockProtocol,
}

/// What is varied from run to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vary {
    /// Every combination of these: path into the workload (`disk.d.scheduler`) and its values.
    pub product: BTreeMap<String, Vec<VaryValue>>,
    /// Rows of paths set together.
    pub rows: Vec<BTreeMap<String, VaryValue>>,
}

impl Vary {
    /// Whether nothing is varied.
    pub fn is_empty(&self) -> bool {
        self.product.is_empty() && self.rows.is_empty()
    }
}

/// One value a path is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaryValue {
    /// Text, a quantity with its unit included.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Yes or no.
    Boolean(bool),
}

impl VaryValue {
    /// What it is called among the places of a file, as the value of a path.
    pub fn place(&self, path: &str) -> String {
        format!("vary.{path} = {self}")
    }
}

impl std::fmt::Display for VaryValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VaryValue::Text(text) => f.write_str(text),
            VaryValue::Integer(number) => number.fmt(f),
            VaryValue::Boolean(yes) => yes.fmt(f),
        }
    }
}

impl Workload {
    /// The task of this name.
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|t| t.name == name)
    }

    /// Whether any activity runs under a reservation, from its beginning or from a step on.
    pub fn is_reserved(&self) -> bool {
        self.tasks.iter().any(|t| t.schedules().any(|of| of.reservation.is_some()))
            || self.irqs.iter().any(|i| i.reservation.is_some())
            || self.streams.iter().any(Stream::is_reserved)
    }

    /// Whether an activity would hold bandwidth as it is declared, by a reservation or as a realtime thread.
    pub fn holds_bandwidth(&self, activity: &str) -> bool {
        let holds = |of: Schedule| of.reservation.is_some() || of.policy.realtime_priority().is_some();
        self.tasks.iter().any(|t| t.name == activity && t.schedules().any(holds))
            || self.irqs.iter().any(|i| i.name == activity && i.reservation.is_some())
    }

    /// The same without the reservations of activities that are promised something: a plan makes these anew.
    pub fn without_planned_reservations(&self) -> Workload {
        let mut workload = self.clone();
        workload.tasks.iter_mut().filter(|t| !t.promises.is_empty()).for_each(|t| t.reservation = None);
        workload.irqs.iter_mut().filter(|i| !i.promises.is_empty()).for_each(|i| i.reservation = None);
        workload.streams.iter_mut().filter(|s| !s.promises.is_empty()).for_each(|s| s.bound = None);
        workload
    }

    /// The same with the activities of each kind in the order of their names, so that a run does not depend on the order of the file. Tasks with
    /// `together` come first and keep that order: it tells which of them opens the barrier.
    pub fn by_name(&self) -> Workload {
        let mut workload = self.clone();
        workload
            .tasks
            .sort_by_cached_key(|task| (!task.together, (!task.together).then(|| task.name.clone())));
        workload.irqs.sort_by(|a, b| a.name.cmp(&b.name));
        workload.links.sort_by(|a, b| a.name.cmp(&b.name));
        workload.flows.sort_by(|a, b| a.name.cmp(&b.name));
        workload.loads.sort_by(|a, b| a.name.cmp(&b.name));
        workload.groups.sort_by(|a, b| a.name.cmp(&b.name));
        workload.chains.sort_by(|a, b| a.name.cmp(&b.name));
        workload
    }

    /// The same without any reservation: what happens today.
    pub fn unreserved(&self) -> Workload {
        let mut workload = self.clone();
        workload.tasks.iter_mut().for_each(|t| t.reservation = None);
        workload.irqs.iter_mut().for_each(|i| i.reservation = None);
        workload.streams.iter_mut().for_each(|s| s.bound = None);
        workload
    }
}

impl Task {
    /// A synthetic periodic task at nice 0 with nothing promised: a start to fill in.
    pub fn periodic(name: &str, period: Nanos, work: TimeDistribution) -> Task {
        Task {
            name: name.to_owned(),
            body: TaskBody::Synthetic(Work::Drawn(work)),
            release: Release::Periodic { period, start: Nanos::ZERO, jitter: Nanos::ZERO },
            spacing: None,
            late: Late::default(),
            policy: PolicySpec::default(),
            timer_slack: None,
            group: None,
            instances: Instances::Count(1),
            cpus: None,
            jobs: None,
            together: false,
            util: UtilClamp::default(),
            sleep: Sleep::default(),
            promises: Vec::new(),
            reservation: None,
        }
    }

    /// The span after a release by which the job should be done: the shortest time limit promised for its
    /// response, else the reservation's deadline, else the period or gap. A task without releases has none unless promised;
    /// one whose distances are drawn has none of its own, as its smallest gap says little of them.
    pub fn relative_deadline(&self) -> Option<Nanos> {
        let promised = self.promises.iter().filter_map(Promise::response_limit).min();
        let interval = self.release.interval();
        let reserved = interval.and(self.reservation.map(|r| r.deadline));
        promised.or(reserved).or(interval.filter(|_| self.spacing.is_none()))
    }

    /// Whether it never completes: no job of it is ever an activation.
    pub fn is_endless(&self) -> bool {
        matches!(self.body, TaskBody::Synthetic(Work::Forever))
    }
}
