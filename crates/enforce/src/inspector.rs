//! [`Inspector`]: whether what was put in force still is.
//!
//! Reading back after a change shows that the kernel took it. Later another program, or the thread itself, may change it
//! again, and a CPU that goes offline gives its threads other CPUs. So everything is read again while a run lasts and at its
//! end. A difference is kept, one that has gone meanwhile too: the run was not what was asked for.

use surety_kernel::{Kernel, KernelError, ProcessIdentity, SchedAttr};
use surety_model::record::{Caveat, Record};
use surety_units::{CpuSet, Nanos, Tid};

use crate::attributes::describe;
use crate::enforcer::Owner;

/// How often [`Inspector::look`] reads everything.
pub const INSPECTED_EVERY: Nanos = Nanos::from_millis(100);

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Its class with the parameters.
    pub attr: SchedAttr,
    /// The CPUs it may use.
    pub affinity: CpuSet,
}

impl ThreadState {
    /// Of a thread, now; of the caller for thread 0.
    ///
    /// # Errors
    /// ESRCH when there is no such thread.
    pub fn read(kernel: &dyn Kernel, tid: Tid) -> Result<ThreadState, KernelError> {
        Ok(ThreadState { attr: kernel.scheduler(tid)?, affinity: kernel.affinity(tid)? })
    }
}

/// The CPUs a thread is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those and no others.
    Exactly(CpuSet),
    /// Some of them: a program chooses for itself.
    Within(CpuSet),
}

impl Place {
    fn holds(self, affinity: CpuSet) -> bool {
        match self {
            Place::Exactly(cpus) => affinity == cpus,
            Place::Within(cpus) => affinity.is_subset(&cpus),
        }
    }

    fn cpus(self) -> CpuSet {
        match self {
            Place::Exactly(cpus) | Place::Within(cpus) => cpus,
        }
    }
}

/// A thread with what it is to have until the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Whose thread, in the words of the workload.
    pub activity: String,
    pub tid: Tid,
    /// Who it is; `None` where another cannot have its number: a thread or child of this process.
    pub identity: Option<ProcessIdentity>,
    /// Whether its end is no difference.
    pub may_end: bool,
    /// Its class; `None` where it chooses for itself.
    pub attr: Option<SchedAttr>,
    /// Its CPUs.
    pub place: Place,
    /// Whether the whole run depends on it: what the run set is part of every result, what was found only of this activity's.
    pub is_set: bool,
}

impl Post {
    /// A thread that was given its class and its CPUs; one of ours may end.
    pub fn set(
        kernel: &dyn Kernel,
        (activity, tid, owner): (&str, Tid, Owner),
        attr: Option<SchedAttr>,
        place: Place,
    ) -> Post {
        let identity = match owner {
            Owner::Ours => None,
            // One that is gone already is found gone at the first look.
            Owner::Others => {
                Some(kernel.identity(tid).unwrap_or(ProcessIdentity { pid: tid, start_time: 0 }))
            }
        };
        Post {
            activity: activity.to_owned(),
            tid,
            identity,
            may_end: owner == Owner::Ours,
            attr: attr.map(|attr| kernel.as_told(attr)),
            place,
            is_set: true,
        }
    }

    /// What the kernel says now that differs, as one sentence.
    fn difference(&self, kernel: &dyn Kernel) -> Option<String> {
        let is_other = self.identity.is_some_and(|identity| !kernel.is_alive(identity));
        match ThreadState::read(kernel, self.tid) {
            Ok(state) if !is_other => self.compare(&state),
            _ => (!self.may_end)
                .then(|| format!("{} (thread {}) ended before the run did", self.activity, self.tid)),
        }
    }

    /// What differs from a state of this thread, as one sentence.
    fn compare(&self, state: &ThreadState) -> Option<String> {
        let has_class = self.attr.is_none_or(|wanted| state.attr.is_result_of(&wanted));
        if has_class && self.place.holds(state.affinity) {
            return None;
        }
        let found = describe(&state.attr);
        let wanted = self.attr.map_or_else(|| found.clone(), |wanted| describe(&wanted));
        Some(format!(
            "{} (thread {}) has {found} on {} and not {wanted} on {}",
            self.activity,
            self.tid,
            state.affinity.in_words(),
            self.place.cpus().in_words()
        ))
    }
}

/// A difference that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    /// Whose verdicts it speaks against; `None`: everybody's.
    activity: Option<String>,
    tid: Option<Tid>,
    what: String,
}

/// Reads again what is in force, and keeps the differences.
#[derive(Debug)]
pub struct Inspector {
    online: Option<CpuSet>,
    posts: Vec<Post>,
    differences: Vec<Difference>,
    next: Nanos,
}

impl Inspector {
    /// Nobody yet, on the CPUs that are online now.
    pub fn new(kernel: &dyn Kernel) -> Inspector {
        Inspector {
            online: kernel.online_cpus().ok(),
            posts: Vec::new(),
            differences: Vec::new(),
            next: Nanos::ZERO,
        }
    }

    /// One more thread to read.
    pub fn expect(&mut self, post: Post) {
        self.posts.push(post);
    }

    /// Reads everything, when [`INSPECTED_EVERY`] has passed since the last time; whether it has.
    pub fn look(&mut self, kernel: &dyn Kernel) -> bool {
        let is_due = kernel.monotonic() >= self.next;
        if is_due {
            self.read(kernel);
        }
        is_due
    }

    /// Reads everything now.
    pub fn read(&mut self, kernel: &dyn Kernel) {
        self.next = kernel.monotonic() + INSPECTED_EVERY;
        let now = kernel.online_cpus().ok();
        if let (Some(before), Some(now)) = (self.online, now)
            && before != now
        {
            let what = format!("{} online and no longer {}", are(now), before.in_words());
            self.keep(Difference { activity: None, tid: None, what });
        }
        for at in 0..self.posts.len() {
            let found = self.posts[at].difference(kernel);
            self.keep_of(at, found);
        }
    }

    /// Reads a thread that is only now known to be the one.
    pub fn read_also(&mut self, kernel: &dyn Kernel, post: &Post) {
        if let Some(what) = post.difference(kernel) {
            self.keep(Difference { activity: None, tid: Some(post.tid), what });
        }
    }

    /// Takes what a thread of ours read of itself when it was done.
    pub fn hear(&mut self, tid: Tid, state: &ThreadState) {
        if let Some(at) = self.posts.iter().position(|post| post.tid == tid && post.may_end) {
            let found = self.posts[at].compare(state);
            self.keep_of(at, found);
        }
    }

    fn keep_of(&mut self, at: usize, found: Option<String>) {
        let Some(what) = found else { return };
        let post = &self.posts[at];
        let activity = (!post.is_set).then(|| post.activity.clone());
        self.keep(Difference { activity, tid: Some(post.tid), what });
    }

    fn keep(&mut self, difference: Difference) {
        if !self.differences.contains(&difference) {
            self.differences.push(difference);
        }
    }

    /// What differed at any time, in the order it was found.
    pub fn differences(&self) -> impl Iterator<Item = &str> {
        self.differences.iter().map(|difference| difference.what.as_str())
    }

    /// Marks a record with what differed: the run is degraded, and the verdicts it speaks against are withheld.
    pub fn mark(&self, record: &mut Record) {
        for Difference { activity, tid, what } in &self.differences {
            record.degraded.push(format!("what was in force has changed: {what}"));
            for thread in record.in_force.threads.iter_mut().filter(|t| tid.is_some() && t.tid == *tid) {
                thread.as_requested = false;
            }
            let concerned = |name: &str| activity.as_deref().is_none_or(|only| only == name);
            for of in record.activities.iter_mut().filter(|of| concerned(&of.name)) {
                of.caveats.push(Caveat::withholds(what));
            }
        }
    }
}

fn are(cpus: CpuSet) -> String {
    format!("{} {}", cpus.in_words(), if cpus.len() == 1 { "is" } else { "are" })
}
