//! What this user may do on this machine, found by trying: who is told no learns the one line that gives more.

use surety_enforce::attr_of_policy;
use surety_host::probe_setup::ProbePolicy;
use surety_kernel::perf::ThreadSwitches;
use surety_kernel::tracefs::Tracefs;
use surety_kernel::transition::set_once;
use surety_kernel::{Kernel, KernelError, SchedPolicy, thread};
use surety_model::workload::PolicySpec;
use surety_units::{Bytes, Nanos, Tid};

/// The priority of threads that measure, unless another is asked for.
pub const PRIORITY: u32 = 80;
/// The capabilities that reservations, priorities and locked memory need, as `setcap` takes them. The tracer's files belong to root.
const CAPABILITIES: &str = "cap_sys_nice,cap_ipc_lock+ep";

/// A thing that a user may do or not.
#[derive(Debug)]
pub struct Ability {
    /// What it is called in the document.
    key: &'static str,
    /// The same for people.
    name: &'static str,
    /// Whether it was done when it was tried, with a limit that it has, or why not.
    tried: Result<Option<String>, String>,
}

/// What was found.
#[derive(Debug)]
pub struct Abilities {
    list: Vec<Ability>,
    user: u32,
}

/// The most that threads which measure may have: the usual priority, the highest that the limit of real-time priorities allows, or the
/// fair class with the kernel's reason.
pub fn probe_policy(kernel: &dyn Kernel) -> (ProbePolicy, Option<String>) {
    let class = |policy| ProbePolicy::Class(policy);
    let refused = match realtime(kernel, PRIORITY) {
        Ok(()) => return (class(PolicySpec::Fifo { priority: PRIORITY }), None),
        Err(refused) => refused.to_string(),
    };
    match realtime_limit(kernel) {
        Some(priority) => (class(PolicySpec::Fifo { priority }), Some(refused)),
        None => (class(PolicySpec::default()), Some(refused)),
    }
}

/// Whether a thread of ours gets this priority.
fn realtime(kernel: &dyn Kernel, priority: u32) -> Result<(), KernelError> {
    let sleeper = kernel.sleeping_thread()?;
    set_once(kernel, sleeper.tid, &attr_of_policy(PolicySpec::Fifo { priority }))
}

/// The highest priority below the usual one that a thread of ours gets: the limit is one number, so halving finds it.
fn realtime_limit(kernel: &dyn Kernel) -> Option<u32> {
    let (mut given, mut refused) = (0, PRIORITY);
    while refused - given > 1 {
        let middle = given.midpoint(refused);
        if realtime(kernel, middle).is_ok() { given = middle } else { refused = middle }
    }
    (given > 0).then_some(given)
}

/// Whether a thread of ours gets a small reservation on all CPUs; it gives it back at once.
fn reservation(kernel: &dyn Kernel) -> Result<(), KernelError> {
    let sleeper = kernel.sleeping_thread()?;
    kernel.set_affinity(sleeper.tid, &kernel.online_cpus()?)?;
    let (runtime, period) = (Nanos::from_micros(100), Nanos::from_millis(100));
    let fair = SchedPolicy::DEFAULT.into();
    set_once(kernel, sleeper.tid, &fair)?;
    set_once(kernel, sleeper.tid, &SchedPolicy::deadline(runtime, period, period).into())?;
    set_once(kernel, sleeper.tid, &fair)
}

impl Abilities {
    /// Tries everything; takes some milliseconds and leaves nothing behind.
    pub fn tried(kernel: &dyn Kernel) -> Abilities {
        let realtime = match probe_policy(kernel) {
            (_, None) => Ok(None),
            (ProbePolicy::Class(PolicySpec::Fifo { priority }), _) => Ok(Some(format!("up to {priority}"))),
            (_, Some(why)) => Err(why),
        };
        let memory = thread::lock_memory().map(|()| thread::unlock_memory());
        let tried = |key, name, result: Result<(), KernelError>| Ability {
            key,
            name,
            tried: result.map(|()| None).map_err(|e| e.to_string()),
        };
        let list = vec![
            Ability { key: "realtime", name: "real-time priorities", tried: realtime },
            tried("reservations", "reservations (SCHED_DEADLINE)", reservation(kernel)),
            tried("tracing", "tracing of all threads", Tracefs::open().map(drop)),
            tried(
                "own-switches",
                "tracing of own threads",
                ThreadSwitches::open(Tid(0), Bytes(4096)).map(drop),
            ),
            tried("locked-memory", "locked memory", memory),
        ];
        Abilities { list, user: kernel.effective_user() }
    }

    /// Whether a thing may be done, by its key.
    pub fn may(&self, key: &str) -> bool {
        self.list.iter().any(|ability| ability.key == key && ability.tried.is_ok())
    }

    /// Whether all of it may be done.
    pub fn is_complete(&self) -> bool {
        self.list.iter().all(|ability| ability.tried.is_ok())
    }

    /// One line: what this user may do.
    pub fn allowed(&self) -> String {
        let done = |a: &Ability| match a.tried.as_ref().ok()? {
            Some(limit) => Some(format!("{} {limit}", a.name)),
            None => Some(a.name.to_owned()),
        };
        let done: Vec<String> = self.list.iter().filter_map(done).collect();
        if done.is_empty() { "only what every program may".to_owned() } else { done.join(", ") }
    }

    /// What this user may not do; `None`: nothing is refused.
    pub fn refused(&self) -> Option<String> {
        let names: Vec<&str> = self.list.iter().filter(|a| a.tried.is_err()).map(|a| a.name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The effective user.
    pub fn user(&self) -> u32 {
        self.user
    }
}

/// The lines that give an ordinary user more, the shortest way first.
pub fn ways_to_more() -> [(String, &'static str); 3] {
    [
        (
            "sudo surety guarantee my.toml".to_owned(),
            "everything, tracing of all threads too: any command with sudo",
        ),
        (
            format!("sudo setcap {CAPABILITIES} $(command -v surety)"),
            "reservations, priorities and locked memory, for everybody who runs it",
        ),
        (
            format!("echo \"$USER - rtprio {PRIORITY}\" | sudo tee /etc/security/limits.d/surety.conf"),
            "real-time priorities up to 80, from the next login on",
        ),
    ]
}

/// The same as the half of a sentence, for a note.
pub fn one_way_to_more() -> String {
    "for more: sudo, `sudo setcap cap_sys_nice+ep $(command -v surety)`, or `ulimit -r` above 0".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::ScriptedKernel;

    #[test]
    fn the_policy_is_the_usual_one_or_the_fair_class_with_the_reason() {
        let kernel = ScriptedKernel::new(2);
        let (policy, refused) = probe_policy(&kernel);
        assert_eq!((policy.to_string().as_str(), refused), ("fifo:80", None));
        assert!(reservation(&kernel).is_ok());
        assert!(kernel.state().threads.values().all(|thread| !thread.attr.policy.is_deadline()));
        kernel.set_privileged(false);
        let (policy, refused) = probe_policy(&kernel);
        assert_eq!(policy.to_string(), "fair");
        assert!(refused.is_some_and(|why| why.contains("RLIMIT_RTPRIO")) && reservation(&kernel).is_err());
    }
}
