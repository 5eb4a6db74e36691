//! Parallel jobs: directed acyclic graphs of work on several CPUs.
//!
//! With volume W (all work) and L (the longest path):
//!
//! - [`graham`]: any work-conserving scheduler on m CPUs is done within `L + (W - L)/m` (Graham, "Bounds on multiprocessing
//!   timing anomalies", SIAM Journal on Applied Mathematics 17(2), 1969), also where nodes take less than their work.
//! - [`federated`]: a task with `W > D` gets `ceil((W - L)/(D - L))` CPUs of its own; the others run as sequential tasks on
//!   the CPUs that are left, partitioned (Li, Chen, Agrawal, Lu, Gill and Saifullah, "Analysis of federated and global
//!   scheduling for parallel real-time tasks", ECRTS 2014).
//!
//! These two speak of CPUs. A thread with a reservation can be throttled, holding a node, while another of the same job has
//! budget and nothing to do: then work waits beside an idle supply. [`under_reservations`] counts that. Let m threads, each
//! with (Q, D, T), take ready nodes from one queue and keep each to its end. Follow the path of the nodes that ended last,
//! at most k long. While its next node waits, all m threads hold others, and while it runs, its thread holds it; each of
//! these up to 2 k intervals is a window in which the threads concerned want the CPU all the time, and so get at least `Q/T
//! (t - latency)` ([`crate::supply`]). So the job is done within
//!
//! ```text
//! T/Q (L + (W - L)/m) + 2 k latency          (T/Q L + k latency with a thread for each node)
//! ```
//!
//! which is Graham's bound on slower CPUs, and the blackouts.

use surety_units::Nanos;

use super::partition::{CoreTest, Heuristic, Partition, PartitionError, partition};
use super::task::{LONGEST, ceil, narrow, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};
use crate::supply::Supply;

/// Graham's bound.
pub const GRAHAM: Theorem = Theorem {
    name: "Graham's bound of list scheduling",
    source: "Graham, SIAM Journal on Applied Mathematics 17(2), 1969",
    strength: Strength::Sufficient,
};

/// CPUs of their own for heavy tasks.
pub const FEDERATED: Theorem = Theorem {
    name: "federated scheduling of parallel tasks",
    source: "Li, Chen, Agrawal, Lu, Gill and Saifullah, ECRTS 2014",
    strength: Strength::Sufficient,
};

/// Why nodes and edges are no graph of work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DagError {
    /// An edge to a node that is none.
    #[error("edge {from} -> {to}: there are {nodes} nodes, counted from 0")]
    NoSuchNode {
        /// Where the edge begins.
        from: usize,
        /// Where it ends.
        to: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A cycle.
    #[error("the edges make a circle through node {0}; work that waits for itself is never done")]
    Cycle(usize),
    /// Work that cannot be.
    #[error("the nodes' works must not be negative, and positive and at most {LONGEST} in all")]
    Work,
}

/// A job's parts and which waits for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dag {
    works: Vec<Nanos>,
    edges: Vec<(usize, usize)>,
    volume: Nanos,
    longest_path: Nanos,
    most_nodes: usize,
}

impl Dag {
    /// Nodes with their most work and edges from a node to one that waits for it.
    ///
    /// # Errors
    /// An edge to nowhere, a cycle, or work that cannot be.
    pub fn new(works: Vec<Nanos>, edges: Vec<(usize, usize)>) -> Result<Dag, DagError> {
        let nodes = works.len();
        if let Some(&(from, to)) = edges.iter().find(|(from, to)| *from >= nodes || *to >= nodes) {
            return Err(DagError::NoSuchNode { from, to, nodes });
        }
        let volume = works.iter().map(|w| wide(*w)).sum::<i128>();
        if works.iter().any(|w| w.is_negative()) || volume <= 0 || volume > wide(LONGEST) {
            return Err(DagError::Work);
        }
        let mut waits = vec![0usize; nodes];
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for (from, to) in &edges {
            waits[*to] += 1;
            after[*from].push(*to);
        }
        let mut ready: Vec<usize> = (0..nodes).filter(|n| waits[*n] == 0).collect();
        let mut path = works.clone();
        let mut length = vec![1usize; nodes];
        let mut done = 0;
        while let Some(node) = ready.pop() {
            done += 1;
            for &next in &after[node] {
                path[next] = path[next].max(path[node] + works[next]);
                length[next] = length[next].max(length[node] + 1);
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(next);
                }
            }
        }
        if done < nodes {
            return Err(DagError::Cycle(waits.iter().position(|w| *w > 0).unwrap_or(0)));
        }
        let longest_path = path.into_iter().max().unwrap_or(Nanos::ZERO);
        let most_nodes = length.into_iter().max().unwrap_or(0);
        Ok(Dag { works, edges, volume: narrow(volume), longest_path, most_nodes })
    }

    /// W: all work.
    pub fn volume(&self) -> Nanos {
        self.volume
    }

    /// L: the work on the longest path.
    pub fn longest_path(&self) -> Nanos {
        self.longest_path
    }

    /// k: the most nodes on a path.
    pub fn most_nodes(&self) -> usize {
        self.most_nodes
    }

    /// The work of each node.
    pub fn works(&self) -> &[Nanos] {
        &self.works
    }

    /// Which node waits for which: from, to.
    pub fn edges(&self) -> &[(usize, usize)] {
        &self.edges
    }

    /// The longest response of one job alone on m CPUs, rounded up; `None` without a CPU.
    pub fn response(&self, cpus: u32) -> Option<Nanos> {
        let (volume, path) = (wide(self.volume), wide(self.longest_path));
        (cpus > 0).then(|| narrow(path + ceil(volume - path, i128::from(cpus))))
    }
}

/// A graph released at least T apart and due D after its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DagTask {
    /// Its work.
    pub dag: Dag,
    /// D, up to the period.
    pub deadline: Nanos,
    /// T.
    pub period: Nanos,
}

/// Graham's bound against a deadline, for one task alone on m CPUs.
pub fn graham(task: &DagTask, cpus: u32) -> Verdict {
    let Some(response) = task.dag.response(cpus) else {
        return Verdict::not_applicable(GRAHAM, "there is no CPU");
    };
    if task.deadline > task.period {
        return Verdict::not_applicable(GRAHAM, "a deadline beyond its period: two jobs may overlap");
    }
    let (volume, path) = (task.dag.volume, task.dag.longest_path);
    let step = format!(
        "{volume} of work, {path} on the longest path, {cpus} CPUs: done within {response}, deadline {}",
        task.deadline
    );
    let outcome = if response <= task.deadline {
        Outcome::Holds
    } else if path > task.deadline {
        Outcome::Fails
    } else {
        Outcome::NotShown
    };
    Verdict { responses: vec![response], ..Verdict::of(GRAHAM, outcome, step) }
}

/// Graham's bound under reservations.
pub const RESERVED: Theorem = Theorem {
    name: "Graham's bound on the least supply of reservations",
    source: "Graham, SIAM Journal on Applied Mathematics 17(2), 1969, with the linear supply bound of Shin and Lee, RTSS \
             2003; derived in docs/schedulability.md",
    strength: Strength::Sufficient,
};

/// The longest response of one job whose nodes are taken from one queue by m threads with the same reservation each, which
/// all keep their scheduling deadlines. Gives the response.
pub fn under_reservations(task: &DagTask, threads: u32, supply: &Supply) -> Verdict {
    if threads == 0 {
        return Verdict::not_applicable(RESERVED, "there is no thread");
    }
    if task.deadline > task.period {
        return Verdict::not_applicable(RESERVED, "a deadline beyond its period: two jobs may overlap");
    }
    let dag = &task.dag;
    let (volume, path) = (wide(dag.volume), wide(dag.longest_path));
    let (runtime, period) = (wide(supply.reservation().runtime), wide(supply.reservation().period));
    let (m, nodes) = (i128::from(threads), dag.most_nodes as i128);
    let (work, blackouts) = if dag.works.len() <= threads as usize {
        (ceil(path * period, runtime), nodes)
    } else {
        (ceil((path * m + volume - path) * period, m * runtime), 2 * nodes)
    };
    let response = narrow(work + blackouts * wide(supply.latency()));
    let step = format!(
        "{} of work, {} on the longest path of up to {nodes} nodes, {threads} threads with {} in {} each: done within \
         {response}, deadline {}",
        dag.volume,
        dag.longest_path,
        supply.reservation().runtime,
        supply.reservation().period,
        task.deadline
    );
    let outcome = if response <= task.deadline { Outcome::Holds } else { Outcome::NotShown };
    Verdict { responses: vec![response], ..Verdict::of(RESERVED, outcome, step) }
}

/// CPUs given to parallel tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Federation {
    /// For each task the CPUs of its own, 0 for those that share.
    pub own: Vec<u32>,
    /// The places of the tasks that share, in the numbering of `shared`.
    pub light: Vec<usize>,
    /// The light ones on the CPUs that are left; `None` where there are none of them.
    pub shared: Option<Partition>,
    /// Whether deadlines are kept.
    pub verdict: Verdict,
}

/// Federated scheduling of parallel tasks on m CPUs, the light ones by EDF and first fit.
///
/// # Errors
/// A light task that is no task (a deadline or period that cannot be).
pub fn federated(tasks: &[DagTask], cpus: u32) -> Result<Federation, PartitionError> {
    let mut own = vec![0u32; tasks.len()];
    let mut light = Vec::new();
    let refuse = |own, light, verdict| Ok(Federation { own, light, shared: None, verdict });
    let mut left = i128::from(cpus);
    for (place, task) in tasks.iter().enumerate() {
        let (volume, path) = (wide(task.dag.volume), wide(task.dag.longest_path));
        let deadline = wide(task.deadline);
        if task.deadline > task.period {
            let why = format!("task {place} has a deadline beyond its period");
            return refuse(own, light, Verdict::not_applicable(FEDERATED, why));
        }
        if path > deadline {
            let step = format!("task {place}: its longest path is beyond its deadline on any number of CPUs");
            return refuse(own, light, Verdict::of(FEDERATED, Outcome::Fails, step));
        }
        if volume <= deadline {
            light.push(place);
            continue;
        }
        // The path fills the deadline and there is more: no number of CPUs is shown to be enough.
        let need = if deadline == path { i128::MAX } else { ceil(volume - path, deadline - path) };
        if need > left {
            let step = format!("task {place}: {left} CPUs are left and do not do");
            return refuse(own, light, Verdict::no(FEDERATED, false, step));
        }
        left -= need;
        own[place] = u32::try_from(need).unwrap_or(u32::MAX);
    }
    let sequential: Vec<SporadicTask> = light
        .iter()
        .map(|place| {
            let task = &tasks[*place];
            SporadicTask::new(task.dag.volume, task.deadline, task.period)
        })
        .collect();
    let left = u32::try_from(left).unwrap_or(0);
    let heavy = own.iter().filter(|n| **n > 0).count();
    let mut verdict = Verdict::of(
        FEDERATED,
        Outcome::Holds,
        format!("{heavy} heavy tasks on {} CPUs of their own", cpus - left),
    );
    if sequential.is_empty() {
        return Ok(Federation { own, light, shared: None, verdict });
    }
    if left == 0 {
        verdict.outcome = Outcome::NotShown;
        verdict.steps.push(format!("no CPU is left for {} light tasks", sequential.len()));
        return Ok(Federation { own, light, shared: None, verdict });
    }
    let shared = partition(&sequential, left, Heuristic::FirstFit, CoreTest::Edf)?;
    verdict.steps.push(match shared.unplaced.first() {
        None => format!("{} light tasks share {left} CPUs", sequential.len()),
        Some(unplaced) => {
            verdict.outcome = Outcome::NotShown;
            format!("of the light tasks, {unplaced}")
        }
    });
    Ok(Federation { own, light, shared: Some(shared), verdict })
}
