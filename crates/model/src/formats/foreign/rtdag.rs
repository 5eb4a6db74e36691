//! rtdag's files, after `input_yaml.h` and `task_set.h` of its sources of 2023: one graph of tasks that is begun anew in every
//! `dag_period`. Times are in microseconds; the lists have one value for each task.
//!
//! Each task becomes one whose jobs are released with the graph: it waits for a message on each edge that comes to it, computes, and sends
//! one on each edge that goes out. The first task begins when the graph's last one is done with the time before, as the program's own queue of
//! begin times has it; so a response of the last task is the response of the graph.

use std::ops::{Range, RangeInclusive};

use surety_units::{CpuId, CpuSet, Nanos};

use super::item::{Item, Value};
use super::names::Names;
use super::object::{Object, integer, text};
use super::{Reading, yaml};
use crate::distribution::TimeDistribution;
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::workload::{
    Instances, Late, Phase, PolicySpec, RaisedEvent, Release, Sleep, Task, TaskBody, Workload,
};

/// Keys that say nothing of what runs: counts the program does not check, what it sets nothing by, and what it computes on.
const UNUSED: [&str; 9] = [
    "n_edges",
    "n_cpus",
    "max_out_edges",
    "max_in_edges",
    "max_msg_len",
    "cpus_freq",
    "tasks_matrix_size",
    "tasks_omp_target",
    "tasks_ticks_per_us",
];
/// Tasks of a graph; the program has 64.
const TASKS_MAX: i64 = 1024;
/// How often a graph is begun at most.
const TIMES_MAX: i64 = 1 << 40;
/// A time in microseconds.
const MICROS: RangeInclusive<i64> = 0..=i32::MAX as i64;

/// What the file says of the whole graph.
struct Graph {
    count: usize,
    period: Nanos,
    deadline: Nanos,
    /// How often it is begun.
    times: u64,
    /// Whether an edge goes from one to another.
    edges: Vec<Vec<bool>>,
}

/// What it says of one task.
struct Node {
    theirs: String,
    work: Nanos,
    runtime: Nanos,
    deadline: Nanos,
    cpu: Option<CpuId>,
    policy: PolicySpec,
    span: Range<usize>,
}

/// Reads the whole file. `None` when nothing can be made of it.
pub(super) fn workload(reading: &mut Reading, text: &str) -> Option<Workload> {
    let root = match yaml::parse(text) {
        Ok(root) => root,
        Err(diagnostic) => {
            reading.diagnostics.push(diagnostic);
            return None;
        }
    };
    let root = Object::of(reading, "the file", &root)?;
    let title = root.text(reading, "dag_name").map(str::to_owned);
    let graph = graph(reading, &root);
    let nodes = graph.as_ref().and_then(|graph| nodes(reading, &root, graph.count));
    for key in UNUSED {
        root.get(reading, key);
    }
    // Without a graph nobody has asked for what its tasks are.
    root.finish(reading, |key| graph.is_none() && key.starts_with("tasks_"));
    let (graph, nodes) = (graph?, nodes?);
    let (first, last) = ends(reading, &root, &graph)?;
    let mut workload = Workload { title, duration: graph.whole(), ..Workload::default() };
    let mut names = Names::default();
    let ours: Vec<String> = nodes.iter().map(|node| names.of(&node.theirs)).collect();
    let mut events = Names::default();
    let idle = events.of("idle");
    for (place, node) in nodes.iter().enumerate() {
        reading.place(format!("task.{}", ours[place]), &node.span);
        // `>` is in no name of ours: edges of other tasks have other keys.
        let mut edge = |from: usize, to: usize| events.of(&format!("{}>{}", ours[from], ours[to]));
        let into: Vec<String> =
            (0..graph.count).filter(|from| graph.edges[*from][place]).map(|from| edge(from, place)).collect();
        let out: Vec<String> =
            (0..graph.count).filter(|to| graph.edges[place][*to]).map(|to| edge(place, to)).collect();
        let run = [Phase::Run(TimeDistribution::Constant(node.work))];
        let mut phases: Vec<Phase> =
            (first == place).then(|| Phase::Wait(idle.clone())).into_iter().collect();
        phases.extend(into.into_iter().map(Phase::Wait).chain(run).chain(out.into_iter().map(Phase::Signal)));
        phases.extend((last == place).then(|| Phase::Signal(idle.clone())));
        let mut task = node.task(&ours[place], &graph, phases);
        if last == place {
            task.promises = vec![Promise::response_within(graph.deadline)];
        }
        workload.tasks.push(task);
    }
    workload.events = vec![RaisedEvent { name: idle, times: 1 }];
    Some(workload)
}

impl Graph {
    /// How long all of it takes at least, where that is a time of a run.
    fn whole(&self) -> Option<Nanos> {
        let times = i64::try_from(self.times).ok()?;
        self.period.get().checked_mul(times).map(Nanos::new)
    }
}

impl Node {
    fn task(&self, name: &str, graph: &Graph, phases: Vec<Phase>) -> Task {
        Task {
            name: name.to_owned(),
            body: TaskBody::Phases(phases),
            release: Release::Periodic { period: graph.period, start: Nanos::ZERO, jitter: Nanos::ZERO },
            spacing: None,
            late: Late::Queue,
            policy: self.policy,
            group: None,
            instances: Instances::Count(1),
            cpus: self.cpu.map(CpuSet::single),
            jobs: Some(graph.times),
            timer_slack: None,
            together: false,
            util: crate::workload::UtilClamp::default(),
            sleep: Sleep::Absolute,
            promises: Vec::new(),
            reservation: self.reservation(),
        }
    }

    fn reservation(&self) -> Option<Reservation> {
        self.policy.takes_reservation().then(|| Reservation::implicit(self.runtime, self.deadline))
    }
}

/// The policy of each task. Those that have no priority are of one class: where one of them has a CPU of its own all are `edf`, since
/// no kernel gives SCHED_DEADLINE to that one.
fn policies(cpus: &[i64], priorities: &[i64]) -> Vec<PolicySpec> {
    let is_pinned = cpus.iter().zip(priorities).any(|(cpu, priority)| *cpu >= 0 && *priority == 0);
    let of_deadlines = if is_pinned { PolicySpec::edf() } else { PolicySpec::Deadline };
    let of = |priority: &i64| match u32::try_from(*priority) {
        Ok(priority) if priority > 0 => PolicySpec::Fifo { priority },
        _ => of_deadlines,
    };
    priorities.iter().map(of).collect()
}

/// A key that has to be there.
fn required<'j>(
    reading: &mut Reading,
    root: &Object<'j>,
    key: &'static str,
    example: &str,
) -> Option<&'j Item> {
    let found = root.get(reading, key);
    if found.is_none() {
        let help = format!("write `{key}: {example}`");
        reading.wrong(&root.span_of(key), format!("`{key}` is missing"), Some(help));
    }
    found
}

fn number(
    reading: &mut Reading,
    root: &Object<'_>,
    key: &'static str,
    limits: RangeInclusive<i64>,
) -> Option<i64> {
    let item = required(reading, root, key, "300000")?;
    integer(reading, key, item, limits)
}

fn graph(reading: &mut Reading, root: &Object<'_>) -> Option<Graph> {
    let count = number(reading, root, "n_tasks", 1..=TASKS_MAX);
    let period = number(reading, root, "dag_period", 1..=*MICROS.end());
    let deadline = number(reading, root, "dag_deadline", 1..=*MICROS.end());
    let hyperperiod = number(reading, root, "hyperperiod", 1..=i64::MAX);
    let repetitions = number(reading, root, "repetitions", 1..=i64::from(i32::MAX));
    let matrix = required(reading, root, "adjacency_matrix", "[[0, 1], [0, 0]]");
    let count = usize::try_from(count?).ok()?;
    let edges = edges(reading, matrix?, count)?;
    let (period, hyperperiod) = (period?, hyperperiod?);
    let times =
        (hyperperiod / period).checked_mul(repetitions?).filter(|times| (1..=TIMES_MAX).contains(times));
    let Some(times) = times else {
        let help =
            "it is a whole multiple of `dag_period`, the graph's own where there is one graph".to_owned();
        let message = "the graph is begun once at least, and 2^40 times at most".to_owned();
        reading.wrong(&root.span_of("hyperperiod"), message, Some(help));
        return None;
    };
    let micros = Nanos::from_micros;
    Some(Graph {
        count,
        period: micros(period),
        deadline: micros(deadline?),
        times: times.unsigned_abs(),
        edges,
    })
}

/// The values of a list that has one for each task.
fn list<'j>(reading: &mut Reading, key: &str, item: &'j Item, count: usize) -> Option<&'j [Item]> {
    let Value::Array(items) = &item.value else {
        reading.wrong(&item.span, format!("`{key}` is a list"), Some("write `[1, 2]`".to_owned()));
        return None;
    };
    if items.len() != count {
        let values = if items.len() == 1 { "1 value".to_owned() } else { format!("{} values", items.len()) };
        let message = format!("`{key}` has {values} for {count} tasks");
        reading.wrong(&item.span, message, Some("give one for each task".to_owned()));
        return None;
    }
    Some(items)
}

fn edges(reading: &mut Reading, matrix: &Item, count: usize) -> Option<Vec<Vec<bool>>> {
    let key = "adjacency_matrix";
    let rows = list(reading, key, matrix, count)?;
    let mut edges = Vec::with_capacity(rows.len());
    for row in rows {
        let items = list(reading, key, row, count)?;
        let bytes: Option<Vec<i64>> =
            items.iter().map(|item| integer(reading, key, item, 0..=i64::from(i32::MAX))).collect();
        edges.push(bytes?.into_iter().map(|bytes| bytes != 0).collect());
    }
    Some(edges)
}

/// Whole numbers, one for each task; where the key may be left out, `other` of them.
fn numbers(
    reading: &mut Reading,
    root: &Object<'_>,
    (key, limits): (&'static str, RangeInclusive<i64>),
    other: Option<Vec<i64>>,
    count: usize,
) -> Option<Vec<i64>> {
    let item = match other {
        None => required(reading, root, key, "[1000, 1000]")?,
        Some(other) => match root.get(reading, key) {
            None => return Some(other),
            Some(item) => item,
        },
    };
    let items = list(reading, key, item, count)?;
    items.iter().map(|item| integer(reading, key, item, limits.clone())).collect()
}

fn nodes(reading: &mut Reading, root: &Object<'_>, count: usize) -> Option<Vec<Node>> {
    let names = required(reading, root, "tasks_name", "[\"n000\", \"n001\"]");
    let names = names.and_then(|item| list(reading, "tasks_name", item, count));
    types(reading, root, count);
    let wcets = numbers(reading, root, ("tasks_wcet", MICROS), None, count);
    let otherwise = wcets.clone().unwrap_or_default();
    let runtimes = numbers(reading, root, ("tasks_runtime", MICROS), Some(otherwise), count);
    let deadlines = numbers(reading, root, ("tasks_rel_deadline", MICROS), None, count);
    let last = i64::from(CpuSet::LIMIT) - 1;
    let cpus = numbers(reading, root, ("tasks_affinity", -1..=last), None, count);
    let priorities = numbers(reading, root, ("tasks_prio", 0..=99), Some(vec![0; count]), count);
    let ratios = ratios(reading, root, count);
    let (names, wcets, runtimes, deadlines) = (names?, wcets?, runtimes?, deadlines?);
    let (cpus, priorities, ratios) = (cpus?, priorities?, ratios?);
    let policies = policies(&cpus, &priorities);
    let mut nodes = Vec::with_capacity(count);
    for (place, name) in names.iter().enumerate() {
        let theirs = text(reading, "tasks_name", name)?.to_owned();
        let micros = |list: &[i64]| Nanos::from_micros(list[place]);
        let node = Node {
            theirs,
            // As the program: microseconds times the ratio, rounded down.
            work: Nanos::from_micros((wcets[place] as f32 * ratios[place]) as i64),
            runtime: micros(&runtimes),
            deadline: micros(&deadlines),
            cpu: u32::try_from(cpus[place]).ok().map(CpuId),
            policy: policies[place],
            span: name.span.clone(),
        };
        if nodes.iter().any(|other: &Node| other.theirs == node.theirs) {
            let help = "give each its own name".to_owned();
            reading.wrong(&name.span, format!("two tasks are called `{}`", node.theirs), Some(help));
        }
        if let Some(reservation) = node.reservation()
            && let Err(error) = node.policy.check_reservation(&reservation)
        {
            let help =
                format!("`tasks_runtime` and `tasks_rel_deadline` of `{}` are its budget", node.theirs);
            reading.wrong(&name.span, error.to_string(), Some(help));
        }
        nodes.push(node);
    }
    Some(nodes)
}

/// Refuses tasks that run elsewhere than on a CPU.
fn types(reading: &mut Reading, root: &Object<'_>, count: usize) {
    let Some(item) = root.get(reading, "tasks_type") else { return };
    for item in list(reading, "tasks_type", item, count).unwrap_or_default() {
        if let Some(word) = text(reading, "tasks_type", item).filter(|word| *word != "cpu") {
            let message = format!("a task of type `{word}` has no counterpart: tasks run on CPUs here");
            let help = "make it `cpu`, with the time that the device takes as `tasks_wcet`".to_owned();
            reading.wrong(&item.span, message, Some(help));
        }
    }
}

/// The part of its `tasks_wcet` that each task takes.
fn ratios(reading: &mut Reading, root: &Object<'_>, count: usize) -> Option<Vec<f32>> {
    let key = "tasks_expected_wcet_ratio";
    let Some(item) = root.get(reading, key) else { return Some(vec![1.0; count]) };
    let mut ratio = |item: &Item| {
        let number = match &item.value {
            Value::Number(number) => number.parse::<f32>().ok().filter(|ratio| (0.0..=1.0).contains(ratio)),
            _ => None,
        };
        if number.is_none() {
            reading.wrong(&item.span, format!("`{key}` is between 0 and 1"), None);
        }
        number
    };
    match &item.value {
        Value::Array(items) if items.len() == count => items.iter().map(&mut ratio).collect(),
        _ => {
            list(reading, key, item, count);
            None
        }
    }
}

/// The only task to which no edge comes, and the only one from which none goes; none where tasks wait in a ring.
fn ends(reading: &mut Reading, root: &Object<'_>, graph: &Graph) -> Option<(usize, usize)> {
    let all = 0..graph.count;
    let is_first = |to: &usize| all.clone().all(|from| !graph.edges[from][*to]);
    let is_last = |from: &usize| graph.edges[*from].iter().all(|edge| !edge);
    let firsts: Vec<usize> = all.clone().filter(is_first).collect();
    let lasts: Vec<usize> = all.clone().filter(is_last).collect();
    let mut waits: Vec<usize> =
        all.clone().map(|to| all.clone().filter(|from| graph.edges[*from][to]).count()).collect();
    let mut done = firsts.clone();
    let mut seen = 0;
    while let Some(from) = done.get(seen).copied() {
        seen += 1;
        for to in all.clone().filter(|to| graph.edges[from][*to]) {
            waits[to] -= 1;
            if waits[to] == 0 {
                done.push(to);
            }
        }
    }
    let span = root.span_of("adjacency_matrix");
    if done.len() < graph.count {
        let help = "leave an edge of the ring out".to_owned();
        reading.wrong(&span, "tasks of the graph wait for each other in a ring".to_owned(), Some(help));
        return None;
    }
    if let ([first], [last]) = (&firsts[..], &lasts[..]) {
        return Some((*first, *last));
    }
    let message =
        format!("a graph has one first and one last task, this one {} and {}", firsts.len(), lasts.len());
    let help = "lead the edges of all from one task, and to one".to_owned();
    reading.wrong(&span, message, Some(help));
    None
}
