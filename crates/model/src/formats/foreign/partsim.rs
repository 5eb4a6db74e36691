//! PARTSim's files, after `rtsim/main.cpp` and what it calls of its sources of 2024: `taskset.yml`, played on the [`System`] of a `system.yml`
//! or, without one, by partitioned EDF on CPUs that take the times of the file. A tick is a microsecond.

mod code;
mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use surety_units::{CpuId, CpuSet, Nanos};

use self::code::Code;
use self::system::{Scheduler, described};
use super::item::{Item, Value};
use super::names::Names;
use super::object::{Object, text};
use super::{Reading, yaml};
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::workload::{Instances, Late, PolicySpec, RaisedEvent, Release, Sleep, Task, TaskBody, Workload};

pub use self::system::System;

/// A number of ticks.
const TICKS_MAX: i64 = 1 << 40;
/// Releases that wait in PARTSim's queue of a task where the file does not say.
const QUEUE: i64 = 100;

/// Reads the whole file. `None` when nothing can be made of it.
pub(super) fn workload(reading: &mut Reading, text: &str) -> Option<Workload> {
    let root = yaml::parse(text).map_err(|diagnostic| reading.diagnostics.push(diagnostic)).ok()?;
    let root = Object::of(reading, "the file", &root)?;
    let tasks = root.get(reading, "taskset");
    let resources = root.get(reading, "resources");
    root.finish(reading, |_| false);
    let Some(Item { value: Value::Array(items), .. }) = tasks else {
        let help = "write `taskset:` and a list below it; a system file is named beside its tasks".to_owned();
        let message = "there is no `taskset`: these are no tasks of PARTSim".to_owned();
        reading.wrong(&root.span, message, Some(help));
        return None;
    };
    let mut file = File { resources: resources_of(reading, resources), ..File::default() };
    let threads: Vec<Thread<'_>> =
        items.iter().filter_map(|item| Thread::of(reading, item, &mut file)).collect();
    let last = threads.iter().map(|thread| thread.cpu).max().unwrap_or(0);
    let system = reading.system.clone().unwrap_or_else(|| System::plain(last.saturating_add(1)));
    let tasks = threads.iter().filter_map(|thread| thread.task(reading, &system, &mut file)).collect();
    let events = file.resources.iter().filter(|(name, is_free)| **is_free && file.waited.contains(*name));
    let events: Vec<RaisedEvent> =
        events.map(|(name, _)| RaisedEvent { name: file.events[name].clone(), times: 1 }).collect();
    Some(Workload { tasks, events, ..Workload::default() })
}

/// What tasks of a file have in common while it is read.
#[derive(Default)]
struct File {
    tasks: Names,
    names: Names,
    /// Whether each resource is free when the run begins.
    resources: BTreeMap<String, bool>,
    /// The events that they are, and those that a task waits for.
    events: BTreeMap<String, String>,
    waited: BTreeSet<String>,
}

fn resources_of(reading: &mut Reading, item: Option<&Item>) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let items = match item.map(|item| (&item.value, &item.span)) {
        None | Some((Value::Null, _)) => return found,
        Some((Value::Array(items), _)) => items,
        Some((_, span)) => {
            reading.wrong(span, "`resources` is a list".to_owned(), None);
            return found;
        }
    };
    for item in items {
        let Some(object) = Object::of(reading, "a resource", item) else { continue };
        let name = object.text(reading, "name").map(str::to_owned);
        let state = object.word(reading, "initial_state", &["locked", "unlocked"]);
        object.finish(reading, |_| false);
        let Some(name) = name else {
            reading.wrong(&object.span, "a resource has a `name`".to_owned(), None);
            continue;
        };
        if found.insert(name.clone(), state != Some("locked")).is_some() {
            let help = "leave one of them".to_owned();
            reading.wrong(&object.span, format!("two resources are called `{name}`"), Some(help));
        }
    }
    found
}

/// A task of the file.
struct Thread<'j> {
    name: String,
    period: Nanos,
    deadline: Nanos,
    start: Nanos,
    cpu: u32,
    budget: Option<Reservation>,
    code: Vec<Code<'j>>,
    span: Range<usize>,
    /// Where `startcpu` and `cbs_period` stand.
    places: [Range<usize>; 2],
}

impl<'j> Thread<'j> {
    fn of(reading: &mut Reading, item: &'j Item, file: &mut File) -> Option<Thread<'j>> {
        let object = Object::of(reading, "a task", item)?;
        let ticks = |reading: &mut Reading, key| object.integer(reading, key, 0..=TICKS_MAX);
        let theirs = object.text(reading, "name");
        let period = ticks(reading, "iat").filter(|period| *period > 0);
        let deadline = ticks(reading, "deadline").filter(|deadline| *deadline > 0).or(period);
        let start = ticks(reading, "ph").unwrap_or(0);
        let cpu = object.integer(reading, "startcpu", 0..=i64::from(CpuSet::LIMIT) - 1).unwrap_or(0);
        // PARTSim reads `deadline`, and no `rdl`.
        object.get(reading, "rdl");
        let queue = object.integer(reading, "qs", 0..=TICKS_MAX).unwrap_or(QUEUE);
        let budget = budget(reading, &object);
        let lines = object.get(reading, "code");
        object.finish(reading, |_| false);
        if queue < QUEUE {
            let help = format!("releases wait without end here; leave it out, or write {QUEUE} or more");
            reading.wrong(&object.span_of("qs"), "a short `qs` has no counterpart".to_owned(), Some(help));
        }
        let (Some(theirs), Some(period), Some(deadline)) = (theirs, period, deadline) else {
            let help = "write `name: task0` and `iat: 1000`, in ticks".to_owned();
            let message = "a task has a `name` and an `iat` above 0".to_owned();
            reading.wrong(&object.span, message, Some(help));
            return None;
        };
        if file.tasks.has(theirs) {
            let help = "give each its own name".to_owned();
            reading.wrong(&object.span, format!("two tasks are called `{theirs}`"), Some(help));
            return None;
        }
        let micros = Nanos::from_micros;
        Some(Thread {
            name: file.tasks.of(theirs),
            period: micros(period),
            deadline: micros(deadline),
            start: micros(start),
            cpu: u32::try_from(cpu).expect("within its limits"),
            budget,
            code: code(reading, &object, lines, file)?,
            span: object.span_of("name"),
            places: [object.span_of("startcpu"), object.span_of("cbs_period")],
        })
    }

    /// The task that it is on a system.
    fn task(&self, reading: &mut Reading, system: &System, file: &mut File) -> Option<Task> {
        reading.place(format!("task.{}", self.name), &self.span);
        let [of_cpu, of_budget] = &self.places;
        let Some(island) = system.island_of(self.cpu) else {
            let message = format!("the system has no CPU {}", self.cpu);
            let help = format!("its CPUs are 0 to {}", system.cpus().saturating_sub(1));
            reading.wrong(of_cpu, message, Some(help));
            return None;
        };
        let policy = match island.scheduler {
            Scheduler::Edf => PolicySpec::edf(),
            Scheduler::TrueFifo => PolicySpec::Fifo { priority: 1 },
        };
        if self.budget.is_some() && island.scheduler != Scheduler::Edf {
            let message =
                format!("a server on {}, which is not of `edf`, has no counterpart", described(island));
            reading.wrong(of_budget, message, Some("leave the `cbs_` keys out".to_owned()));
        }
        let mut phases = Vec::with_capacity(self.code.len());
        for instruction in &self.code {
            phases.extend(instruction.phase(reading, island, file)?);
        }
        let all = (island.first..island.first + island.cpus).map(CpuId).collect();
        let cpus = if island.is_global { all } else { CpuSet::single(CpuId(self.cpu)) };
        let (period, start) = (self.period, self.start);
        Some(Task {
            name: self.name.clone(),
            body: TaskBody::Phases(phases),
            release: Release::Periodic { period, start, jitter: Nanos::ZERO },
            spacing: None,
            late: Late::Queue,
            policy,
            group: None,
            instances: Instances::Count(1),
            cpus: Some(cpus),
            jobs: None,
            timer_slack: None,
            together: false,
            util: crate::workload::UtilClamp::default(),
            sleep: Sleep::Absolute,
            promises: vec![Promise::response_within(self.deadline)],
            reservation: self.budget,
        })
    }
}

/// `cbs_runtime` in each `cbs_period`; none without a `cbs_period`.
fn budget(reading: &mut Reading, object: &Object<'_>) -> Option<Reservation> {
    let ticks = |reading: &mut Reading, key| object.integer(reading, key, 0..=TICKS_MAX);
    let runtime = ticks(reading, "cbs_runtime");
    let period = ticks(reading, "cbs_period").filter(|period| *period > 0);
    let deadline = ticks(reading, "cbs_deadline").or(period);
    if deadline != period {
        let help =
            "PARTSim reads it, and its servers have their period for a deadline; leave it out".to_owned();
        let span = object.span_of("cbs_deadline");
        reading.wrong(&span, "`cbs_deadline` is other than `cbs_period`".to_owned(), Some(help));
    }
    let Some(period) = period else {
        if runtime.is_some_and(|runtime| runtime > 0) {
            let help = "write `cbs_period: 1000`; without one PARTSim makes no server".to_owned();
            let span = object.span_of("cbs_runtime");
            reading.wrong(&span, "`cbs_runtime` has no `cbs_period`".to_owned(), Some(help));
        }
        return None;
    };
    let micros = Nanos::from_micros;
    let reservation = Reservation::implicit(micros(runtime.unwrap_or(0)), micros(period));
    if let Err(error) = PolicySpec::edf().check_reservation(&reservation) {
        let help = "a server has 0 < cbs_runtime <= cbs_period".to_owned();
        reading.wrong(&object.span_of("cbs_runtime"), error.to_string(), Some(help));
        return None;
    }
    Some(reservation)
}

/// The instructions of a task.
fn code<'j>(
    reading: &mut Reading,
    object: &Object<'_>,
    item: Option<&'j Item>,
    file: &mut File,
) -> Option<Vec<Code<'j>>> {
    let lines = match item.map(|item| &item.value) {
        Some(Value::Array(lines)) if !lines.is_empty() => lines,
        _ => {
            let help = "write `code:` and a list below it, `- fixed(10,bzip2)`".to_owned();
            reading.wrong(&object.span_of("code"), "a task has `code`".to_owned(), Some(help));
            return None;
        }
    };
    let mut all = Vec::new();
    for line in lines {
        let said = text(reading, "code", line)?;
        code::instructions(reading, said, &line.span, file, &mut all)?;
    }
    Some(all)
}
