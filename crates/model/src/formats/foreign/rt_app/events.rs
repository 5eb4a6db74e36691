//! The events of a thread or a phase as steps of a job.

use surety_units::{Bytes, CpuSet, Nanos};

use super::{Global, Shared};
use crate::formats::foreign::Reading;
use crate::formats::foreign::item::{Member, Value};
use crate::formats::foreign::object::{Object, integer, text};
use crate::workload::{Fill, Phase, Task, TaskBody, Timer};

/// What a key that begins with the word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Run,
    Runtime,
    Sleep,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broad,
    Sync,
    Barrier,
    Timer,
    Suspend,
    Resume,
    SemPost,
    SemWait,
    Yield,
    Fork,
    Mem,
    IoRun,
    /// Has no counterpart, for this reason.
    Unsupported(&'static str),
}

/// Of versions after 1.0, which has `mem` alone: reading, and chasing pointers by a pattern.
const MEMORY_RUN: &str =
    "versions after 1.0 read and chase pointers with it; `mem` writes, and every version has it";

/// Every event; of two words that fit, the first.
const EVENTS: [(&str, Kind); 20] = [
    ("runtime", Kind::Runtime),
    ("run", Kind::Run),
    ("sleep", Kind::Sleep),
    ("memrun", Kind::Unsupported(MEMORY_RUN)),
    ("mem", Kind::Mem),
    ("iorun", Kind::IoRun),
    ("lock", Kind::Lock),
    ("unlock", Kind::Unlock),
    ("signal", Kind::Signal),
    ("broad", Kind::Broad),
    ("wait", Kind::Wait),
    ("sync", Kind::Sync),
    ("barrier", Kind::Barrier),
    ("timer", Kind::Timer),
    ("resume", Kind::Resume),
    ("suspend", Kind::Suspend),
    ("yield", Kind::Yield),
    ("fork", Kind::Fork),
    ("sem_post", Kind::SemPost),
    ("sem_wait", Kind::SemWait),
];

fn kind_of(key: &str) -> Option<Kind> {
    EVENTS.iter().find(|(word, _)| key.starts_with(word)).map(|(_, kind)| *kind)
}

/// The words of events, without those that have no counterpart.
pub(super) fn words() -> Vec<&'static str> {
    let has_counterpart = |event: &&(&str, Kind)| !matches!(event.1, Kind::Unsupported(_));
    EVENTS.iter().filter(has_counterpart).map(|(word, _)| *word).collect()
}

/// Whether a key is one of an event.
pub(super) fn is_event(key: &str) -> bool {
    kind_of(key).is_some()
}

/// One use of a timer.
struct Use {
    name: String,
    task: String,
    instances: u32,
    absolute: bool,
}

/// The timers of a file.
#[derive(Default)]
pub(super) struct Timers {
    uses: Vec<Use>,
}

impl Timers {
    /// A timer is one for all threads that name it, unless its name begins with `unique`: then each has its own. It is absolute where one
    /// of its uses says so.
    pub(super) fn settle(&self, tasks: &mut [Task]) {
        for task in tasks {
            if let TaskBody::Phases(phases) = &mut task.body {
                self.settle_of(&task.name, phases);
            }
        }
    }

    fn settle_of(&self, task: &str, phases: &mut [Phase]) {
        for phase in phases {
            match phase {
                Phase::Timer(timer) => {
                    let is_unique = timer.name.starts_with("unique");
                    let is_same = |one: &&Use| one.name == timer.name && (!is_unique || one.task == task);
                    let mut uses = self.uses.iter().filter(is_same);
                    timer.absolute = uses.clone().any(|one| one.absolute);
                    timer.shared = !is_unique && uses.any(|one| one.task != task || one.instances > 1);
                }
                Phase::Loop { phases, .. } => self.settle_of(task, phases),
                _ => {}
            }
        }
    }
}

/// Reads the events of one thread.
pub(super) struct Events<'a> {
    /// The thread's name in the file, and of the task.
    pub(super) thread: &'a str,
    pub(super) task: &'a str,
    pub(super) instances: u32,
    /// How often each instance comes to the events that are read; `None`: without end.
    pub(super) times: Option<u64>,
    /// The thread's CPUs then; `None`: those of the run.
    pub(super) cpus: Option<CpuSet>,
    pub(super) global: &'a Global,
    pub(super) shared: &'a mut Shared,
    pub(super) timers: &'a mut Timers,
}

impl Events<'_> {
    /// The steps of an object, whose paths count from 0.
    pub(super) fn read(&mut self, reading: &mut Reading, object: &Object<'_>, path: &str) -> Vec<Phase> {
        self.read_after(reading, object, path, 0)
    }

    /// The same behind the steps of the thread that come before.
    pub(super) fn read_after(
        &mut self,
        reading: &mut Reading,
        object: &Object<'_>,
        path: &str,
        before: usize,
    ) -> Vec<Phase> {
        let mut steps = Vec::new();
        let mut has_any = false;
        for member in object.members() {
            let Some(kind) = kind_of(&member.key) else { continue };
            has_any = true;
            let found = self.event(reading, kind, member).unwrap_or_default();
            for step in found {
                let whole = member.span.start..member.item.span.end.max(member.span.end);
                reading.place(format!("{path}.{}", before + steps.len()), &whole);
                steps.push(step);
            }
        }
        if !has_any {
            let help = "write `\"run\" : 10000`, in microseconds".to_owned();
            reading.wrong(&object.span, "no events here".to_owned(), Some(help));
        }
        steps
    }

    fn event(&mut self, reading: &mut Reading, kind: Kind, member: &Member) -> Option<Vec<Phase>> {
        let (key, item) = (member.key.as_str(), &member.item);
        let micros = |reading: &mut Reading| {
            integer(reading, key, item, 0..=i64::from(i32::MAX)).map(Nanos::from_micros)
        };
        let name = |reading: &mut Reading| text(reading, key, item).map(str::to_owned);
        Some(match kind {
            Kind::Run => vec![Phase::Run(crate::distribution::TimeDistribution::Constant(micros(reading)?))],
            Kind::Runtime => vec![Phase::Busy(micros(reading)?)],
            Kind::Sleep => vec![Phase::Sleep(micros(reading)?)],
            Kind::Lock => vec![Phase::Lock(self.lock(&name(reading)?))],
            Kind::Unlock => vec![Phase::Unlock(self.lock(&name(reading)?))],
            Kind::Signal => vec![Phase::Notify(name(reading)?)],
            Kind::Broad => vec![Phase::NotifyAll(name(reading)?)],
            Kind::Wait => vec![self.wait(reading, member)?],
            Kind::Sync => {
                let wait = self.wait(reading, member)?;
                let Phase::Await { condition, .. } = &wait else { return None };
                vec![Phase::Notify(condition.clone()), wait]
            }
            Kind::Barrier => vec![Phase::Barrier(name(reading)?)],
            Kind::Timer => vec![self.timer(reading, member)?],
            Kind::Suspend => {
                let condition = match &item.value {
                    Value::Omitted => String::new(),
                    _ => name(reading)?,
                };
                // Left empty it is the thread's own name.
                let condition = if condition.is_empty() { self.thread.to_owned() } else { condition };
                let lock = self.lock(&condition);
                let wait = Phase::Await { condition, lock: lock.clone() };
                vec![Phase::Lock(lock.clone()), wait, Phase::Unlock(lock)]
            }
            Kind::Resume => {
                let condition = name(reading)?;
                let lock = self.lock(&condition);
                vec![Phase::Lock(lock.clone()), Phase::NotifyAll(condition), Phase::Unlock(lock)]
            }
            Kind::SemPost => vec![Phase::Signal(name(reading)?)],
            Kind::SemWait => vec![Phase::Wait(name(reading)?)],
            Kind::Yield => vec![Phase::Yield],
            Kind::Fork => {
                let target = name(reading)?;
                let by = (self.task, self.times, self.cpus);
                vec![Phase::Signal(self.shared.forks.note(&target, by, &member.span))]
            }
            Kind::Mem => vec![self.fill(reading, member, None)?],
            Kind::IoRun => vec![self.fill(reading, member, Some(self.global.device.clone()))?],
            Kind::Unsupported(why) => {
                reading.wrong(
                    &member.span,
                    format!("the event `{key}` has no counterpart"),
                    Some(why.to_owned()),
                );
                return None;
            }
        })
    }

    fn lock(&mut self, theirs: &str) -> String {
        self.shared.locks.of(theirs)
    }

    /// `mem` and `iorun`: bytes from the thread's buffer. How long they take nobody has measured yet.
    fn fill(&self, reading: &mut Reading, member: &Member, file: Option<String>) -> Option<Phase> {
        let bytes = integer(reading, &member.key, &member.item, 0..=i64::from(i32::MAX))?.unsigned_abs();
        Some(Phase::Fill(Fill { bytes: Bytes(bytes), buffer: self.global.buffer, file, takes: None }))
    }

    /// `wait` and `sync`: a condition and the mutex that is given back meanwhile.
    fn wait(&mut self, reading: &mut Reading, member: &Member) -> Option<Phase> {
        let object = Object::of(reading, &format!("`{}`", member.key), &member.item)?;
        let condition = object.text(reading, "ref").unwrap_or("unknown").to_owned();
        let lock = object.text(reading, "mutex").unwrap_or("unknown");
        object.finish(reading, |_| false);
        Some(Phase::Await { condition, lock: self.lock(lock) })
    }

    fn timer(&mut self, reading: &mut Reading, member: &Member) -> Option<Phase> {
        let object = Object::of(reading, &format!("`{}`", member.key), &member.item)?;
        let name = object.text(reading, "ref").unwrap_or("unknown").to_owned();
        let period = object.micros(reading, "period").unwrap_or(Nanos::ZERO);
        let absolute = object.word(reading, "mode", &["relative", "absolute"]) == Some("absolute");
        object.finish(reading, |_| false);
        let (task, instances) = (self.task.to_owned(), self.instances);
        self.timers.uses.push(Use { name: name.clone(), task, instances, absolute });
        Some(Phase::Timer(Timer { name, period, absolute: false, shared: false }))
    }
}
