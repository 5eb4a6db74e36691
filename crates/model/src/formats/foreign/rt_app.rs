//! rt-app's files, after `rt-app_parse_config.c` and `rt-app.c` of rt-app 1.0 and later: keys that begin with the name of an
//! event are events, in the order of the file; times are in microseconds; defaults are the program's.
//!
//! A thread becomes a task whose jobs come back to back: one pass through its phases each.

mod changes;
mod events;
mod forks;
mod scheduling;

use std::collections::BTreeMap;

use surety_units::{Bytes, CpuSet, Nanos};

use self::changes::{Before, Changes};
use self::events::Events;
use self::scheduling::{Policies, clamps, cpus, scheduling, taskgroup};
use super::item::{Item, Member};
use super::names::Names;
use super::object::Object;
use super::{Reading, json};
use crate::workload::{
    Fill, Group, Instances, Late, LockProtocol, Phase, Release, Resource, Sleep, Task, TaskBody, Workload,
};

/// Keys of `global` that say what is written where, and nothing of what runs.
const LOGGING: [&str; 8] = [
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
];
/// A key of old files that no version reads.
const OBSOLETE: &str = "frag";

/// What the file says of all threads.
struct Global {
    duration: Option<Nanos>,
    default_policy: &'static str,
    protocol: LockProtocol,
    /// What `iorun` writes to, and what `mem` and `iorun` write from.
    device: String,
    buffer: Bytes,
}

/// What threads of a file have in common while it is read.
#[derive(Default)]
struct Shared {
    tasks: Names,
    locks: Names,
    groups: Names,
    list: Vec<Group>,
    forks: forks::Forks,
}

/// Reads the whole file. `None` when nothing can be made of it.
pub(super) fn workload(reading: &mut Reading, text: &str) -> Option<Workload> {
    let root = match json::parse(text) {
        Ok(root) => root,
        Err(diagnostic) => {
            reading.diagnostics.push(diagnostic);
            return None;
        }
    };
    let root = Object::of(reading, "the file", &root)?;
    let said = root.get(reading, "global");
    let global = global(reading, said);
    // Resources are made as they are named; those of old files say nothing more.
    if let Some(resources) = root.get(reading, "resources") {
        Object::of(reading, "resources", resources);
    }
    let Some(tasks) = root.get(reading, "tasks") else {
        let help = "write `\"tasks\" : { \"thread0\" : { \"run\" : 10000, \"sleep\" : 10000 } }`".to_owned();
        reading.wrong(&root.span, "there are no `tasks`: this is no file of rt-app".to_owned(), Some(help));
        return None;
    };
    let tasks = Object::of(reading, "tasks", tasks)?;
    let mut shared = Shared::default();
    let mut timers = events::Timers::default();
    let mut threads: BTreeMap<String, Task> = BTreeMap::new();
    let mut workload = Workload { duration: global.duration, ..Workload::default() };
    for member in tasks.members() {
        if shared.tasks.has(&member.key) {
            let message = format!("two threads are called `{}`", member.key);
            reading.wrong(&member.span, message, Some("give each its own name".to_owned()));
            continue;
        }
        let name = shared.tasks.of(&member.key);
        reading.place(format!("task.{name}"), &member.span);
        let Some(object) = Object::of(reading, "a thread", &member.item) else { continue };
        let thread = Thread { theirs: &member.key, name, object };
        if let Some(task) = thread.read(reading, &global, &mut shared, &mut timers) {
            threads.insert(member.key.clone(), task.clone());
            workload.tasks.extend((task.instances != Instances::Count(0)).then_some(task));
        }
    }
    root.finish(reading, |_| false);
    std::mem::take(&mut shared.forks).settle(reading, &threads, &mut workload);
    timers.settle(&mut workload.tasks);
    begin_alone(&mut workload.tasks);
    let resource = |name: &String| Resource { name: name.clone(), protocol: global.protocol };
    workload.resources = shared.locks.all().map(resource).collect();
    workload.groups = shared.list;
    Some(workload)
}

/// A thread that is the only one waits for nobody, and those that are forked are made later.
fn begin_alone(tasks: &mut [Task]) {
    let threads: u32 = tasks.iter().filter(|task| task.together).map(|task| task.instances.on(1)).sum();
    if threads < 2 {
        tasks.iter_mut().for_each(|task| task.together = false);
    }
}

fn global(reading: &mut Reading, item: Option<&Item>) -> Global {
    let mut global = Global {
        duration: None,
        default_policy: "SCHED_OTHER",
        protocol: LockProtocol::None,
        device: "/dev/null".to_owned(),
        buffer: Fill::BUFFER,
    };
    let Some(object) = item.and_then(|item| Object::of(reading, "global", item)) else { return global };
    if let Some(seconds) = object.integer(reading, "duration", -1..=i64::from(i32::MAX)) {
        global.duration = Some(Nanos::from_secs(seconds)).filter(|duration| duration.is_positive());
    }
    if let Some(word) = object.word(reading, "default_policy", Policies::WORDS) {
        global.default_policy = word;
    }
    if object.boolean(reading, "pi_enabled") == Some(true) {
        global.protocol = LockProtocol::Inherit;
    }
    if let Some(device) = object.text(reading, "io_device") {
        global.device = device.to_owned();
    }
    if let Some(bytes) = object.integer(reading, "mem_buffer_size", 1..=1 << 30) {
        global.buffer = Bytes(bytes.unsigned_abs());
    }
    for key in LOGGING {
        object.get(reading, key);
    }
    object.finish(reading, |key| key == OBSOLETE);
    global
}

/// A thread of the file.
struct Thread<'j> {
    theirs: &'j str,
    name: String,
    object: Object<'j>,
}

impl Thread<'_> {
    /// The task that it is, with no instance where it has none.
    fn read(
        self,
        reading: &mut Reading,
        global: &Global,
        shared: &mut Shared,
        timers: &mut events::Timers,
    ) -> Option<Task> {
        let object = &self.object;
        let instances = object.integer(reading, "instance", 0..=10_000).unwrap_or(1);
        let delay = object.micros(reading, "delay").unwrap_or(Nanos::ZERO);
        let own = scheduling(reading, object, global.default_policy)?;
        let cpus = cpus(reading, object);
        let util = clamps(reading, object, own.policy);
        let group = taskgroup(reading, object, shared).flatten();
        let path = format!("task.{}.phases", self.name);
        let instance_count = u32::try_from(instances).unwrap_or(0);
        let phases_of = object.get(reading, "phases");
        let loops = object.integer(reading, "loop", i64::from(i32::MIN)..=i64::from(i32::MAX));
        let jobs = loops.and_then(passes);
        let thread = self.theirs;
        let (instances, task) = (instance_count, self.name.as_str());
        let mut events = Events { thread, task, instances, times: jobs, cpus, global, shared, timers };
        let (phases, cpus) = match phases_of {
            Some(item) => {
                let before = Before { own: &own, cpus, group: group.as_deref(), util };
                let phases = phases(reading, item, &path, &before, &mut events);
                if loops == Some(0) {
                    let message = format!("thread `{}` never runs", self.theirs);
                    reading.wrong(&object.span_of("loop"), message, Some("leave it out".to_owned()));
                }
                object.finish(reading, |_| false);
                phases
            }
            None => {
                let phases = events.read(reading, object, &path);
                object.finish_beside(reading, events::is_event, &events::words());
                (phases, cpus)
            }
        };
        Some(Task {
            body: TaskBody::Phases(phases),
            release: Release::BackToBack { start: delay },
            spacing: None,
            late: Late::Queue,
            policy: own.policy,
            timer_slack: None,
            together: true,
            util,
            group,
            instances: Instances::Count(instance_count),
            cpus,
            jobs,
            sleep: Sleep::Absolute,
            promises: Vec::new(),
            reservation: own.reservation,
            name: self.name,
        })
    }
}

/// How often something with this `loop` is done; `None`: for ever.
fn passes(loops: i64) -> Option<u64> {
    (loops > 0).then(|| loops.unsigned_abs())
}

/// The phases of a thread, one after another, and the CPUs of all of them where these are the same.
fn phases(
    reading: &mut Reading,
    item: &Item,
    path: &str,
    before: &Before<'_>,
    events: &mut Events<'_>,
) -> (Vec<Phase>, Option<CpuSet>) {
    let Some(object) = Object::of(reading, "phases", item) else { return (Vec::new(), before.cpus) };
    let mut members: Vec<&Member> = Vec::new();
    let mut objects: Vec<Object<'_>> = Vec::new();
    for member in object.members() {
        let Some(phase) = Object::of(reading, "a phase", &member.item) else { continue };
        members.push(member);
        objects.push(phase);
    }
    let Changes { steps, places, cpus } = Changes::of(reading, &objects, before, events.shared);
    let mut list = Vec::new();
    let of_thread = events.times;
    for ((member, phase), (first, place)) in
        members.into_iter().zip(objects).zip(steps.into_iter().zip(places))
    {
        events.cpus = place;
        for step in first {
            reading.place(format!("{path}.{}", list.len()), &member.span);
            list.push(step);
        }
        let loops = phase.integer(reading, "loop", i64::from(i32::MIN)..=i64::from(i32::MAX)).unwrap_or(1);
        let all = |each: u64| of_thread.and_then(|times| times.checked_mul(each));
        events.times = passes(loops).and_then(all);
        if loops == 1 {
            let inner = events.read_after(reading, &phase, path, list.len());
            list.extend(inner);
        } else {
            let place = format!("{path}.{}", list.len());
            reading.place(place.clone(), &member.span);
            let phases = events.read(reading, &phase, &format!("{place}.phases"));
            list.push(Phase::Loop { times: passes(loops), phases });
        }
        phase.finish_beside(reading, events::is_event, &events::words());
    }
    (list, cpus)
}
