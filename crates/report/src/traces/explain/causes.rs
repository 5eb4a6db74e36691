//! What delayed a job, in words and in documents.

use serde_json::{Value, json};
use surety_model::event::Comm;
use surety_trace::blame::{Cause, Class, Culprit, DiskCause, RuleId, Submitter};
use surety_trace::jobs::interrupts::{Context, softirq_name};
use surety_units::{Nanos, Tid};

/// Names of interrupts' handlers by number, and the words of I/O schedulers' rules.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) irqs: &'a [(u32, String)],
    pub(super) rules: &'a [String],
}

impl Names<'_> {
    /// The cause in the words of a table of causes.
    pub(super) fn of(self, cause: Cause) -> String {
        match cause {
            Cause::Own => "itself".to_owned(),
            Cause::Earlier => "itself, with what came before".to_owned(),
            Cause::Ran(culprit) => format!("{} runs", thread_words(&culprit)),
            Cause::Think => "think time".to_owned(),
            Cause::Clock => "waiting for the clock".to_owned(),
            Cause::Thread(culprit) => format!("behind {}", thread_words(&culprit)),
            Cause::Irq(_) | Cause::Vector(_) | Cause::Softirq(_) => self.interrupt(cause),
            Cause::Throttled => "out of budget".to_owned(),
            Cause::Idle => "ready, its CPU idle".to_owned(),
            Cause::Unwoken => "not woken yet".to_owned(),
            Cause::Lock(culprit) => format!("waiting for a lock of {}", thread_words(&culprit)),
            Cause::Awaited(culprit) => format!("waiting inside the job for {}", thread_words(&culprit)),
            Cause::Blocked => "waiting inside the job".to_owned(),
            Cause::Device(context) => {
                format!("waiting inside the job for {}", self.interrupt(interrupt_of(context)))
            }
            Cause::Disk(cause) => self.disk(cause),
            Cause::Others => "behind further threads".to_owned(),
            Cause::Unknown => "unknown".to_owned(),
        }
    }

    /// Several causes that differ in the id of a thread alone, in the same words; one as it is.
    pub(super) fn of_all(self, causes: &[Cause]) -> String {
        let (Some(first), count) = (causes.first(), causes.len()) else { return String::new() };
        let several =
            |culprit: &Culprit| format!("{count} {} threads {}", class_words(culprit), culprit.comm);
        match first {
            _ if count == 1 => self.of(*first),
            Cause::Ran(culprit) => format!("{} run", several(culprit)),
            Cause::Thread(culprit) => format!("behind {}", several(culprit)),
            Cause::Lock(culprit) => format!("waiting for a lock of {}", several(culprit)),
            Cause::Awaited(culprit) => format!("waiting inside the job for {}", several(culprit)),
            Cause::Disk(cause) => {
                let by = |submitter: &Submitter| Submitter { tid: Tid::IDLE, ..*submitter };
                let cause = match cause {
                    DiskCause::Unsubmitted(of) => DiskCause::Unsubmitted(by(of)),
                    DiskCause::Unscheduled(Some(of)) => DiskCause::Unscheduled(Some(by(of))),
                    DiskCause::Scheduler(of, rule) => DiskCause::Scheduler(by(of), *rule),
                    DiskCause::Device(of) => DiskCause::Device(by(of)),
                    other => *other,
                };
                format!("{} ({count} threads)", self.disk(cause))
            }
            other => self.of(*other),
        }
    }

    /// What a request waits for, or is at.
    pub(super) fn disk(self, cause: DiskCause) -> String {
        match cause {
            DiskCause::Unsubmitted(by) => {
                format!("asleep, before {} submits the request", submitter_words(&by))
            }
            DiskCause::Unscheduled(None) => "disk: before the I/O scheduler".to_owned(),
            DiskCause::Unscheduled(Some(by)) => format!("no request free: behind {}", submitter_words(&by)),
            DiskCause::Scheduler(by, rule) => {
                format!("I/O scheduler: behind {}{}", submitter_words(&by), self.by_rule(rule))
            }
            DiskCause::Held(rule) => format!("I/O scheduler: held back, the disk idle{}", self.by_rule(rule)),
            DiskCause::Device(by) => format!("device queue: behind {}", submitter_words(&by)),
            DiskCause::Overhead => "disk: overhead".to_owned(),
            DiskCause::Seek => "disk: seek".to_owned(),
            DiskCause::Rotation => "disk: rotation".to_owned(),
            DiskCause::Transfer => "disk: transfer".to_owned(),
            DiskCause::Service => "disk: service".to_owned(),
            DiskCause::Completed => "disk: done, not woken yet".to_owned(),
        }
    }

    /// Words of a rule of an I/O scheduler; `None`: the trace does not say.
    fn rule(&self, rule: RuleId) -> Option<&str> {
        self.rules.get(usize::from(rule.0)).map(String::as_str).filter(|words| !words.is_empty())
    }

    /// Words of the I/O scheduler's rule that a cause names.
    pub(super) fn rule_of(&self, cause: Cause) -> Option<&str> {
        match cause {
            Cause::Disk(DiskCause::Scheduler(_, rule) | DiskCause::Held(rule)) => self.rule(rule),
            _ => None,
        }
    }

    fn by_rule(&self, rule: RuleId) -> String {
        self.rule(rule).map_or_else(String::new, |words| format!(", {words:?}"))
    }

    pub(super) fn interrupt(self, cause: Cause) -> String {
        match cause {
            Cause::Irq(irq) => format!("interrupt {irq} {}", self.handlers(irq)),
            Cause::Vector(name) => format!("interrupt {name}"),
            Cause::Softirq(vector) => format!("softirq {}", softirq_name(vector)),
            _ => String::new(),
        }
    }

    /// The handlers of an interrupt, which several devices may share.
    fn handlers(self, irq: u32) -> String {
        let names = self.irqs.iter().filter(|(number, _)| *number == irq);
        names.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// A time with its cause, under this key.
    pub(super) fn caused(self, cause: Cause, key: &str, time: Nanos) -> Value {
        let culprit = match cause {
            Cause::Ran(culprit) | Cause::Thread(culprit) | Cause::Lock(culprit) | Cause::Awaited(culprit) => {
                Some(culprit)
            }
            _ => None,
        };
        let (number, name) = match cause {
            Cause::Irq(irq) | Cause::Device(Context::Irq(irq)) => {
                (Some(i64::from(irq)), Some(self.handlers(irq)))
            }
            Cause::Vector(name) | Cause::Device(Context::Vector(name)) => (None, Some(name.to_owned())),
            Cause::Softirq(vector) | Cause::Device(Context::Softirq(vector)) => {
                (Some(i64::from(vector)), Some(softirq_name(vector)))
            }
            Cause::Disk(
                DiskCause::Scheduler(by, _)
                | DiskCause::Device(by)
                | DiskCause::Unscheduled(Some(by))
                | DiskCause::Unsubmitted(by),
            ) => {
                let number = (by.tid != Tid::IDLE).then_some(i64::from(by.tid.0));
                (number, (by.comm != Comm::default()).then(|| by.comm.text().into_owned()))
            }
            _ => culprit.map(|c| (i64::from(c.tid.0), c.comm.text().into_owned())).unzip(),
        };
        json!({
            "cause": word(cause),
            "number": number,
            "name": name,
            "class": culprit.map(|c| c.class().name()),
            "prio": culprit.map(|c| c.prio),
            "rule": self.rule_of(cause),
            key: time,
        })
    }
}

/// The interrupt itself, as a cause.
pub(super) fn interrupt_of(context: Context) -> Cause {
    match context {
        Context::Irq(irq) => Cause::Irq(irq),
        Context::Vector(name) => Cause::Vector(name),
        Context::Softirq(vector) => Cause::Softirq(vector),
    }
}

/// The word of a cause in documents.
pub(super) fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Own => "own",
        Cause::Earlier => "earlier",
        Cause::Ran(_) => "ran",
        Cause::Think => "think",
        Cause::Thread(_) => "thread",
        Cause::Lock(_) => "lock",
        Cause::Awaited(_) => "awaited",
        Cause::Irq(_) => "irq",
        Cause::Vector(_) => "vector",
        Cause::Softirq(_) => "softirq",
        Cause::Throttled => "throttled",
        Cause::Idle => "idle",
        Cause::Unwoken => "unwoken",
        Cause::Blocked => "blocked",
        Cause::Clock => "clock",
        Cause::Device(Context::Irq(_)) => "device-irq",
        Cause::Device(Context::Vector(_)) => "device-vector",
        Cause::Device(Context::Softirq(_)) => "device-softirq",
        Cause::Disk(cause) => disk_word(cause),
        Cause::Others => "others",
        Cause::Unknown => "unknown",
    }
}

/// The word of a cause at a disk in documents.
fn disk_word(cause: DiskCause) -> &'static str {
    match cause {
        DiskCause::Unsubmitted(_) => "disk-unsubmitted",
        DiskCause::Unscheduled(_) => "disk-unscheduled",
        DiskCause::Scheduler(..) => "disk-scheduler",
        DiskCause::Held(_) => "disk-held",
        DiskCause::Device(_) => "disk-queue",
        DiskCause::Overhead => "disk-overhead",
        DiskCause::Seek => "disk-seek",
        DiskCause::Rotation => "disk-rotation",
        DiskCause::Transfer => "disk-transfer",
        DiskCause::Service => "disk-service",
        DiskCause::Completed => "disk-completed",
    }
}

/// Whose request; a thread without an id is told by its name.
fn submitter_words(by: &Submitter) -> String {
    match (by.tid, by.comm == Comm::default()) {
        (Tid::IDLE, true) => "the device's own work".to_owned(),
        (Tid::IDLE, false) => by.comm.to_string(),
        (tid, _) => format!("{} ({tid})", by.comm),
    }
}

/// `realtime 50 irq/9-disk (123)`: class with its priority, as `chrt` and `nice` count, name and id.
pub(super) fn thread_words(culprit: &Culprit) -> String {
    format!("{} thread {} ({})", class_words(culprit), culprit.comm, culprit.tid)
}

fn class_words(culprit: &Culprit) -> String {
    match culprit.class() {
        Class::Realtime => format!("realtime {}", 99 - culprit.prio),
        Class::Fair if culprit.prio != 120 => format!("fair nice {}", culprit.prio - 120),
        class => class.name().to_owned(),
    }
}
