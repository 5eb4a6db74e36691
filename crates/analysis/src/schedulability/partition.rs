//! Partitioned scheduling: each task to one CPU, by first, best or worst fit, with an exact test for each CPU.
//!
//! Tasks are taken in order of falling density `C / min(D - J, T)`, which is falling utilisation where deadlines are the
//! periods' ends (Lopez, Diaz and Garcia, "Utilization bounds for EDF scheduling on real-time multiprocessor systems",
//! Real-Time Systems 28, 2004; Baruah and Fisher, "The partitioned multiprocessor scheduling of deadline-constrained
//! sporadic task systems", IEEE Trans. Computers 55(7), 2006). What fits on a CPU is decided by the processor demand
//! criterion of EDF or by response times in deadline-monotonic order. The exact test is spared where less decides: windows
//! that were asked for too much before, utilisation, density, and demand bounded by straight lines. Packing is hard, so a task without a place is no proof that no partition
//! exists: the result says what stood in its way on each CPU.

use std::cmp::Ordering;
use std::fmt;

use surety_units::{CpuId, Nanos};

use super::fixed::{RESPONSE_TIMES, Response, longest_response};
use super::task::{Takes, ceil, narrow, objection, overruns, wide};
use super::uniprocessor::{Demanded, PROCESSOR_DEMAND, demand_holds};
use super::{SporadicTask, Theorem};

/// Which of the CPUs that a task fits on it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heuristic {
    FirstFit,
    /// The one with the highest utilisation.
    BestFit,
    /// The one with the lowest utilisation.
    WorstFit,
}

/// What decides whether tasks fit on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreTest {
    /// EDF, by processor demand.
    Edf,
    /// Fixed priorities in deadline-monotonic order, by response times.
    DeadlineMonotonic,
}

impl CoreTest {
    /// The theorem behind it.
    pub fn theorem(self) -> Theorem {
        match self {
            CoreTest::Edf => PROCESSOR_DEMAND,
            CoreTest::DeadlineMonotonic => RESPONSE_TIMES,
        }
    }
}

/// What stands in the way of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle {
    /// The utilisations add up to more than the CPU; what is free there, for words only.
    Utilisation {
        /// The share of the CPU that is free.
        free: f64,
    },
    /// A window would be asked for more than its length.
    Demand {
        /// Its length.
        window: Nanos,
        /// What it would be asked for.
        asked: Nanos,
    },
    /// A response would be beyond its deadline.
    Response {
        /// The task that would be late, by its place in the set.
        task: usize,
        /// The response, at least.
        response: Nanos,
        deadline: Nanos,
    },
    /// The exact test did not end within its limit of steps.
    Open,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Utilisation { free } => write!(f, "only {free:.4} of it is free"),
            Obstacle::Demand { window, asked } => {
                write!(f, "a window of {window} would be asked for {asked}")
            }
            Obstacle::Response { task, response, deadline } => {
                write!(f, "task {task} would respond after {response} or more, deadline {deadline}")
            }
            Obstacle::Open => write!(f, "the exact test did not end within its limit of steps"),
        }
    }
}

/// A task that fits on no CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Unplaced {
    /// Its place in the set.
    pub task: usize,
    /// What stands in its way, CPU by CPU.
    pub obstacles: Vec<(CpuId, Obstacle)>,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} fits on no CPU", self.task)?;
        for (place, (cpu, obstacle)) in self.obstacles.iter().enumerate() {
            write!(f, "{} CPU {cpu}: {obstacle}", if place == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// Tasks on CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The places of the tasks on each CPU, in the order they were put there.
    pub cpus: Vec<Vec<usize>>,
    /// The tasks without a place, in the order they were tried; empty: every deadline is kept.
    pub unplaced: Vec<Unplaced>,
    /// What decided on each CPU.
    pub theorem: Theorem,
}

impl Partition {
    /// Whether every task has a place, and so keeps its deadlines.
    pub fn complete(&self) -> bool {
        self.unplaced.is_empty()
    }
}

/// Why no partition was tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The set cannot be partitioned by these tests.
    #[error("{0}")]
    Tasks(String),
    /// There is no CPU.
    #[error("there is no CPU to put a task on; give at least one")]
    NoCpu,
}

/// One CPU while it is filled.
#[derive(Clone, Debug, Default)]
struct Core {
    /// Places, in the order they came.
    placed: Vec<usize>,
    /// Places and tasks in deadline-monotonic order.
    tasks: Vec<(usize, SporadicTask)>,
    utilisation: Share,
    density: Share,
    /// Windows in which some task was too much.
    witnesses: Vec<Witness>,
}

/// A window and what is left of it beside the demand of the tasks of a CPU.
#[derive(Clone, Copy, Debug)]
struct Witness {
    window: i128,
    room: i128,
}

/// Windows remembered for each CPU.
const WITNESSES: usize = 8;

/// A sum of fractions with 64 bits after the point: what it is at least, and what it is at most.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    low: u128,
    high: u128,
}

const ONE: u128 = 1 << 64;

impl Share {
    fn of(work: Nanos, span: Nanos) -> Share {
        let (work, span) = (u128::from(work.get_unsigned()) << 64, u128::from(span.get_unsigned()));
        Share { low: work / span, high: work.div_ceil(span) }
    }

    fn plus(self, other: Share) -> Share {
        Share { low: self.low + other.low, high: self.high + other.high }
    }
}

/// Puts tasks on CPUs. Takes jitter, blocking (assumed not to depend on the partition) and deadlines beyond periods.
///
/// # Errors
/// A set that is none or holds self-suspension, or no CPU.
pub fn partition(
    tasks: &[SporadicTask],
    cpus: u32,
    heuristic: Heuristic,
    core_test: CoreTest,
) -> Result<Partition, PartitionError> {
    let servers = core_test == CoreTest::Edf;
    let takes = Takes { jitter: true, blocking: true, long_deadlines: true, servers };
    if let Some(why) = objection(tasks, takes) {
        return Err(PartitionError::Tasks(why));
    }
    if cpus == 0 {
        return Err(PartitionError::NoCpu);
    }
    let mut cores = vec![Core::default(); cpus as usize];
    let mut unplaced = Vec::new();
    for task in by_density(tasks) {
        let mut order: Vec<usize> = (0..cores.len()).collect();
        match heuristic {
            Heuristic::FirstFit => {}
            Heuristic::BestFit => order.sort_by_key(|c| std::cmp::Reverse(cores[*c].utilisation.low)),
            Heuristic::WorstFit => order.sort_by_key(|c| cores[*c].utilisation.low),
        }
        let mut obstacles = Vec::new();
        let mut found = None;
        for cpu in order {
            match cores[cpu].admits(task, &tasks[task], core_test) {
                Ok(()) => {
                    found = Some(cpu);
                    break;
                }
                Err(obstacle) => obstacles.push((CpuId(cpu as u32), obstacle)),
            }
        }
        match found {
            Some(cpu) => cores[cpu].put(task, tasks[task]),
            None => {
                obstacles.sort_by_key(|(cpu, _)| *cpu);
                unplaced.push(Unplaced { task, obstacles });
            }
        }
    }
    let cpus = cores.into_iter().map(|core| core.placed).collect();
    Ok(Partition { cpus, unplaced, theorem: core_test.theorem() })
}

/// The time a task's density counts over; at least one unit, so that a task that cannot be in time comes first.
fn span(task: &SporadicTask) -> Nanos {
    (task.deadline - task.jitter).min(task.period).max(Nanos::new(1))
}

/// Places in order of falling density; of equals the first stays first.
fn by_density(tasks: &[SporadicTask]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&tasks[*a], &tasks[*b]);
        compare(b, a)
    });
    order
}

fn compare(a: &SporadicTask, b: &SporadicTask) -> Ordering {
    (wide(a.work) * wide(span(b))).cmp(&(wide(b.work) * wide(span(a))))
}

impl Core {
    /// Whether a task fits beside those here, or what stands in the way; a window that stood in the way is remembered.
    fn admits(&mut self, place: usize, task: &SporadicTask, core_test: CoreTest) -> Result<(), Obstacle> {
        let utilisation = self.utilisation.plus(Share::of(task.work, task.period));
        if utilisation.low > ONE {
            let free = ONE.saturating_sub(self.utilisation.low) as f64 / ONE as f64;
            return Err(Obstacle::Utilisation { free });
        }
        match core_test {
            CoreTest::Edf => self.admits_by_demand(task, utilisation),
            CoreTest::DeadlineMonotonic => self.admits_by_response(place, task),
        }
    }

    /// By demand: what was in the way before, then what surely is not, then the exact test.
    fn admits_by_demand(&mut self, task: &SporadicTask, utilisation: Share) -> Result<(), Obstacle> {
        for witness in &self.witnesses {
            let own = task.demand(witness.window);
            if own > witness.room {
                let asked = witness.window - witness.room + own;
                return Err(Obstacle::Demand { window: narrow(witness.window), asked: narrow(asked) });
            }
        }
        let tasks = self.with(task);
        let blocked = tasks.iter().any(|t| t.blocking.is_positive()) || overruns(&tasks) > 0;
        let late = tasks.iter().any(|t| t.jitter >= t.deadline);
        if !blocked
            && !late
            && (self.density.plus(density(task)).high <= ONE || below_lines(&tasks, utilisation))
        {
            debug_assert!(
                matches!(demand_holds(&tasks), Demanded::Fits { .. } | Demanded::Open),
                "{tasks:?}"
            );
            return Ok(());
        }
        match demand_holds(&tasks) {
            Demanded::Fits { .. } => Ok(()),
            Demanded::Exceeded { window, asked } => {
                if !blocked {
                    self.remember(Witness { window, room: window - (asked - task.demand(window)) });
                }
                Err(Obstacle::Demand { window: narrow(window), asked: narrow(asked) })
            }
            Demanded::Overloaded => Err(Obstacle::Utilisation { free: 0.0 }),
            Demanded::Open => Err(Obstacle::Open),
        }
    }

    /// By responses: what has a higher priority than the new task does not feel it.
    fn admits_by_response(&self, place: usize, task: &SporadicTask) -> Result<(), Obstacle> {
        let at = self.level_of(task);
        let tasks = self.with(task);
        for level in at..tasks.len() {
            match longest_response(&tasks[level], &tasks[..level], |work| work) {
                Response::Within(_) => {}
                Response::Beyond(response) => {
                    let after = |level: usize| self.tasks[level - 1].0;
                    return Err(Obstacle::Response {
                        task: if level == at { place } else { after(level) },
                        response: narrow(response),
                        deadline: tasks[level].deadline,
                    });
                }
                Response::Open => return Err(Obstacle::Open),
            }
        }
        Ok(())
    }

    /// The level a task gets: below those with deadlines no longer than its own.
    fn level_of(&self, task: &SporadicTask) -> usize {
        self.tasks.partition_point(|(_, other)| other.deadline <= task.deadline)
    }

    /// The tasks with one more, in deadline-monotonic order.
    fn with(&self, task: &SporadicTask) -> Vec<SporadicTask> {
        let at = self.level_of(task);
        let mut tasks = Vec::with_capacity(self.tasks.len() + 1);
        tasks.extend(self.tasks[..at].iter().map(|(_, task)| *task));
        tasks.push(*task);
        tasks.extend(self.tasks[at..].iter().map(|(_, task)| *task));
        tasks
    }

    /// Puts a task here.
    fn put(&mut self, place: usize, task: SporadicTask) {
        self.placed.push(place);
        self.utilisation = self.utilisation.plus(Share::of(task.work, task.period));
        self.density = self.density.plus(density(&task));
        for witness in &mut self.witnesses {
            witness.room -= task.demand(witness.window);
        }
        let at = self.level_of(&task);
        self.tasks.insert(at, (place, task));
    }

    /// Keeps a window that was asked for too much; the oldest goes.
    fn remember(&mut self, witness: Witness) {
        if self.witnesses.len() == WITNESSES {
            self.witnesses.remove(0);
        }
        self.witnesses.push(witness);
    }
}

/// The share of a CPU that a task counts for by its density.
fn density(task: &SporadicTask) -> Share {
    Share::of(task.work, span(task))
}

/// Whether demand is below its window because straight lines above it are: `dbf_i(t) <= C_i + U_i (t + J_i - D_i)` from the
/// first window on, and 0 before (of a server also before, so that it has no step there); with a utilisation of at most 1 only the first windows have to be looked at (Baruah and
/// Fisher, 2006). Sufficient; nothing is blocked.
fn below_lines(tasks: &[SporadicTask], utilisation: Share) -> bool {
    if utilisation.high > ONE {
        return false;
    }
    tasks.iter().all(|at| {
        let window = at.first_window();
        let line = |task: &SporadicTask| {
            let after = window - task.first_window();
            let more = if after > 0 { ceil(wide(task.work) * after, wide(task.period)) } else { 0 };
            if task.server.is_some() {
                let ahead = wide(task.period) - wide(task.deadline);
                return ceil(wide(task.work) * (window + ahead), wide(task.period));
            }
            if after < 0 { 0 } else { wide(task.work) + more }
        };
        tasks.iter().map(line).sum::<i128>() <= window
    })
}
