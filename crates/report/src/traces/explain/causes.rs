//! What delayed a job, in words and in documents.

use serde_json::{Value, json};
use surety_trace::blame::{Cause, Class, Culprit};
use surety_trace::jobs::interrupts::softirq_name;
use surety_units::Nanos;

/// Names of interrupts' handlers by number.
#[derive(Clone, Copy)]
pub(super) struct Names<'a>(pub(super) &'a [(u32, String)]);

impl Names<'_> {
    /// The cause in the words of a table of causes.
    pub(super) fn of(self, cause: Cause) -> String {
        match cause {
            Cause::Own => "itself".to_owned(),
            Cause::Earlier => "itself, with what came before".to_owned(),
            Cause::Thread(culprit) => format!("behind {}", thread_words(&culprit)),
            Cause::Irq(_) | Cause::Vector(_) | Cause::Softirq(_) => self.interrupt(cause),
            Cause::Throttled => "out of budget".to_owned(),
            Cause::Idle => "ready, its CPU idle".to_owned(),
            Cause::Unwoken => "not woken yet".to_owned(),
            Cause::Lock(culprit) => format!("waiting for a lock of {}", thread_words(&culprit)),
            Cause::Awaited(culprit) => format!("waiting inside the job for {}", thread_words(&culprit)),
            Cause::Blocked => "waiting inside the job".to_owned(),
            Cause::Others => "behind further threads".to_owned(),
            Cause::Unknown => "unknown".to_owned(),
        }
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
        let names = self.0.iter().filter(|(number, _)| *number == irq);
        names.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// A time with its cause, under this key.
    pub(super) fn caused(self, cause: Cause, key: &str, time: Nanos) -> Value {
        let (word, culprit) = match cause {
            Cause::Own => ("own", None),
            Cause::Earlier => ("earlier", None),
            Cause::Thread(culprit) => ("thread", Some(culprit)),
            Cause::Lock(culprit) => ("lock", Some(culprit)),
            Cause::Awaited(culprit) => ("awaited", Some(culprit)),
            Cause::Irq(_) => ("irq", None),
            Cause::Vector(_) => ("vector", None),
            Cause::Softirq(_) => ("softirq", None),
            Cause::Throttled => ("throttled", None),
            Cause::Idle => ("idle", None),
            Cause::Unwoken => ("unwoken", None),
            Cause::Blocked => ("blocked", None),
            Cause::Others => ("others", None),
            Cause::Unknown => ("unknown", None),
        };
        let (number, name) = match cause {
            Cause::Irq(irq) => (Some(i64::from(irq)), Some(self.handlers(irq))),
            Cause::Vector(name) => (None, Some(name.to_owned())),
            Cause::Softirq(vector) => (Some(i64::from(vector)), Some(softirq_name(vector))),
            _ => culprit.map(|c| (i64::from(c.tid.0), c.comm.text().into_owned())).unzip(),
        };
        json!({
            "cause": word,
            "number": number,
            "name": name,
            "class": culprit.map(|c| c.class().name()),
            "prio": culprit.map(|c| c.prio),
            key: time,
        })
    }
}

/// `realtime 50 irq/9-disk (123)`: class with its priority, as `chrt` and `nice` count, name and id.
pub(super) fn thread_words(culprit: &Culprit) -> String {
    let class = match culprit.class() {
        Class::Realtime => format!("realtime {}", 99 - culprit.prio),
        Class::Fair if culprit.prio != 120 => format!("fair nice {}", culprit.prio - 120),
        class => class.name().to_owned(),
    };
    format!("{class} thread {} ({})", culprit.comm, culprit.tid)
}
