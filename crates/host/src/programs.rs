//! [`Programs`]: the programs of a run as `/proc` shows them: their threads, the CPU time of all of it, and the
//! reservation on the thread that does the work.
//!
//! **CPU time** is what the scheduler charges, to the nanosecond: each living process's own clock counts its threads,
//! those that have ended included, and each parent's `cutime` and `cstime` count the children it has waited for. The
//! kernel keeps those to the nanosecond and shows them in hundredths of a second, so the sum over a run is off by at
//! most 20 ms for each process that waits for children. Time that a hypervisor took is not in it. What a process did
//! that was left behind by its parent and ended unseen is lost.
//!
//! **A worker** is found by its role: its name, and its place among the living threads of that name, oldest first.
//! No reservation is inherited (the kernel lets a deadline thread start others only with reset-on-fork), so a program
//! whose work is done by one process after another is looked at every [`LOOK`] and the reservation put on the next.

use std::collections::BTreeSet;
use std::path::Path;

use surety_enforce::{Enforcer, Inspector, Owner, Place, Post, describe};
use surety_kernel::{Kernel, SchedAttr, clock};
use surety_model::workload::ThreadRole;
use surety_model::world::{Cancel, WorldError};
use surety_units::{CpuSet, Nanos, Tid};

/// Between two looks at a program's threads while it is reserved.
pub(crate) const LOOK: Nanos = Nanos::from_millis(20);
/// Between two looks while everybody waits for the worker to appear.
const LOOK_AT_START: Nanos = Nanos::from_millis(5);
/// How long a program may take until its worker is there; nothing disturbs it meanwhile.
pub(crate) const START_MAX: Nanos = Nanos::from_secs(10);
/// A `/proc` that shows no two equal pictures in this many tries is used as it is.
const TRIES: usize = 5;
/// `/proc` counts in hundredths of a second on every architecture (USER_HZ).
const CLOCK_TICK: Nanos = Nanos::from_millis(10);
/// More processes than this are not looked at: a program that forks without end must not hold up the run.
const PROCESSES_MAX: usize = 4096;

/// A living thread of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LiveThread {
    /// In ticks since boot; first, so that threads sort by age.
    pub start: u64,
    pub tid: Tid,
    pub comm: String,
}

/// The fields of a stat file from the third on; the name in field 2 may hold anything.
fn fields(kernel: &dyn Kernel, path: &str) -> Option<Vec<String>> {
    let text = kernel.read_text(Path::new(path)).ok()?;
    Some(text.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned).collect())
}

fn number(fields: &[String], field: usize) -> Option<i64> {
    fields.get(field.checked_sub(3)?)?.parse().ok()
}

/// Every process of a program: those that descend from its first, and those in its process group that were left by
/// their parents.
fn processes(kernel: &dyn Kernel, root: Tid) -> Vec<Tid> {
    let mut rows = Vec::new();
    for pid in kernel.processes().unwrap_or_default() {
        let Some(fields) = fields(kernel, &format!("/proc/{pid}/stat")) else { continue };
        if let (Some(parent), Some(group)) = (number(&fields, 4), number(&fields, 5)) {
            rows.push((pid, parent, group));
        }
    }
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for (pid, parent, group) in &rows {
            let is_of = *group == i64::from(root.0) || found.iter().any(|f| i64::from(f.0) == *parent);
            if is_of && found.len() < PROCESSES_MAX {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found.into_iter().collect();
        }
    }
}

/// The same by the lists of children the kernel keeps, which is cheap; `None` where it keeps none.
fn descendants(kernel: &dyn Kernel, root: Tid) -> Option<Vec<Tid>> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for tid in kernel.threads(pid).unwrap_or_default() {
            let path = format!("/proc/{pid}/task/{tid}/children");
            let Ok(text) = kernel.read_text(Path::new(&path)) else {
                if pid == root && tid == root && kernel.exists(Path::new(&format!("/proc/{pid}/stat"))) {
                    return None;
                }
                continue;
            };
            let children = text.split_ascii_whitespace().filter_map(|n| n.parse().ok()).map(Tid);
            found.extend(children.take(PROCESSES_MAX.saturating_sub(found.len())));
        }
    }
    Some(found)
}

/// The living threads of a program, oldest first.
pub(crate) fn threads(kernel: &dyn Kernel, root: Tid) -> Vec<LiveThread> {
    let mut list = Vec::new();
    for pid in descendants(kernel, root).unwrap_or_else(|| processes(kernel, root)) {
        for tid in kernel.threads(pid).unwrap_or_default() {
            let Some(fields) = fields(kernel, &format!("/proc/{pid}/task/{tid}/stat")) else { continue };
            let is_over = fields.first().is_none_or(|state| state == "Z" || state == "X");
            let start = number(&fields, 22).and_then(|n| u64::try_from(n).ok());
            if let (Some(start), Ok(comm), false) = (start, kernel.name(tid), is_over) {
                list.push(LiveThread { start, tid, comm });
            }
        }
    }
    list.sort_unstable();
    list
}

/// The thread with a role among living ones.
pub(crate) fn find(threads: &[LiveThread], role: &ThreadRole) -> Option<Tid> {
    let rank = usize::try_from(role.rank).ok()?;
    threads.iter().filter(|t| t.comm == role.comm).nth(rank).map(|t| t.tid)
}

/// CPU time until now of a process and everything that descends from it, ended threads included and ended children not.
pub(crate) fn time_of_process(kernel: &dyn Kernel, root: Tid) -> Option<(Nanos, Nanos)> {
    let pids = descendants(kernel, root).unwrap_or_else(|| vec![root]);
    add_up(kernel, &pids).map(|(own, _, waited)| (own, waited))
}

/// CPU time of all of a program until now, and the time its living threads waited for a CPU, added up.
pub(crate) fn time_of(kernel: &dyn Kernel, root: Tid) -> Option<(Nanos, Nanos)> {
    // Read once more until nobody ended in between: a child that ends between two readings is counted twice or not.
    let mut last = None;
    for _ in 0..TRIES {
        let pids = processes(kernel, root);
        let reading = add_up(kernel, &pids);
        let children: Option<Nanos> = reading.map(|(_, children, _)| children);
        if last == Some((pids.clone(), children)) || pids.len() == 1 && children == Some(Nanos::ZERO) {
            return reading.map(|(own, children, waited)| (own + children, waited));
        }
        last = Some((pids, children));
    }
    let pids = processes(kernel, root);
    add_up(kernel, &pids).map(|(own, children, waited)| (own + children, waited))
}

/// CPU time of these processes, of the children they waited for, and the waiting of their threads.
fn add_up(kernel: &dyn Kernel, pids: &[Tid]) -> Option<(Nanos, Nanos, Nanos)> {
    let mut sum = None;
    for pid in pids {
        let Some(fields) = fields(kernel, &format!("/proc/{pid}/stat")) else { continue };
        let Some(own) = clock::process_cpu_time(*pid) else { continue };
        // cutime and cstime.
        let children = CLOCK_TICK * (number(&fields, 16)? + number(&fields, 17)?);
        let mut waited = Nanos::ZERO;
        for tid in kernel.threads(*pid).unwrap_or_default() {
            let path = format!("/proc/{pid}/task/{tid}/schedstat");
            let text = kernel.read_text(Path::new(&path)).unwrap_or_default();
            waited += text
                .split_ascii_whitespace()
                .nth(1)
                .and_then(|n| n.parse().ok())
                .map_or(Nanos::ZERO, Nanos::new);
        }
        let (o, c, w) = sum.unwrap_or((Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
        sum = Some((o + own, c + children, w + waited));
    }
    sum
}

/// A thread of a program that is told of by itself: with a reservation, or to be watched.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// The activity, for messages.
    pub name: String,
    /// Whether the program was there before: then its threads are changed only with a word in the journal.
    pub owner: Owner,
    /// The program's first process.
    pub root: Tid,
    /// Who gets it.
    pub role: ThreadRole,
    /// What it gets; `None`: it stays as it is.
    pub attr: Option<SchedAttr>,
    /// The CPUs of its root domain.
    pub home: CpuSet,
    /// Who has it now.
    pub worker: Option<LiveThread>,
    /// How often it was put on a thread.
    pub times: u64,
    /// Why it could not be put on the thread at the last look.
    pub refused: Option<String>,
}

impl Reserved {
    /// Looks who the worker is now, and gives it the reservation when it has none.
    pub fn look(&mut self, kernel: &dyn Kernel, enforcer: &mut Enforcer<'_>) {
        let threads = threads(kernel, self.root);
        let Some(tid) = find(&threads, &self.role) else {
            self.worker = None;
            return;
        };
        let Some(found) =
            threads.into_iter().find(|t| t.tid == tid).filter(|t| Some(t) != self.worker.as_ref())
        else {
            return;
        };
        let put = self.attr.map_or(Ok(()), |attr| {
            enforcer.set_affinity(tid, self.home, self.owner)?;
            enforcer.set_scheduler(tid, attr, self.owner)
        });
        match put {
            Ok(()) => {
                self.worker = Some(found);
                self.times += 1;
                self.refused = None;
            }
            // The one before may hold its bandwidth for a moment after its end, and this one may just have ended.
            Err(error) => self.refused = Some(error.to_string()),
        }
    }

    /// What speaks against the reservation having been in force all the time.
    pub fn objection(&self) -> Option<String> {
        let Reserved { name, role, times, refused, .. } = self;
        let Some(_) = self.attr else {
            let is_one = *times == 1 && self.worker.is_some();
            return (!is_one)
                .then(|| format!("{name}: its thread {role} was not one and the same to the end"));
        };
        let refused =
            refused.as_ref().map_or_else(String::new, |why| format!("; at last it was refused: {why}"));
        match (times, &self.worker) {
            (1, Some(_)) => None,
            (0 | 1, _) => {
                Some(format!("{name}: its worker {role} was not under the reservation to the end{refused}"))
            }
            _ => Some(format!(
                "{name}: {times} threads in turn were its worker {role}; each was reserved up to {LOOK} after it \
                 began{refused}"
            )),
        }
    }
}

/// The programs of a run that have a reservation.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub reserved: Vec<Reserved>,
}

impl Programs {
    /// Waits, while nothing disturbs them, until every worker is there and has its reservation.
    pub fn settle(
        &mut self,
        kernel: &dyn Kernel,
        enforcer: &mut Enforcer<'_>,
        cancel: &Cancel,
    ) -> Result<(), WorldError> {
        let until = clock::monotonic() + START_MAX;
        loop {
            self.look(kernel, enforcer);
            let Some(open) = self.reserved.iter().find(|r| r.worker.is_none()) else { return Ok(()) };
            if cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            if threads(kernel, open.root).is_empty() {
                // It has ended already: whoever watches the programs says how.
                return Ok(());
            }
            let now = clock::monotonic();
            if now >= until {
                return Err(open.missing(kernel));
            }
            clock::sleep_until(now + LOOK_AT_START, None).map_err(|error| WorldError::Machine {
                what: "the run could not be timed".to_owned(),
                remedy: error.to_string(),
            })?;
        }
    }

    /// Reads again what the workers have.
    pub fn inspect(&self, kernel: &dyn Kernel, inspector: &mut Inspector) {
        for (reserved, worker) in self.reserved.iter().filter_map(|r| Some((r, r.worker.as_ref()?))) {
            let Some(attr) = reserved.attr else { continue };
            let who = (reserved.name.as_str(), worker.tid, reserved.owner);
            let post = Post::set(kernel, who, Some(attr), Place::Exactly(reserved.home));
            inspector.read_also(kernel, &post);
        }
    }

    /// Looks at every reserved program.
    pub fn look(&mut self, kernel: &dyn Kernel, enforcer: &mut Enforcer<'_>) {
        self.reserved.iter_mut().for_each(|reserved| reserved.look(kernel, enforcer));
    }
}

impl Reserved {
    fn missing(&self, kernel: &dyn Kernel) -> WorldError {
        if let Some(why) = &self.refused {
            return WorldError::Machine {
                what: format!(
                    "{}: its worker {} could not get {}",
                    self.name,
                    self.role,
                    self.attr.as_ref().map_or_else(String::new, describe)
                ),
                remedy: why.clone(),
            };
        }
        let mut names: Vec<String> = threads(kernel, self.root).into_iter().map(|t| t.comm).collect();
        names.dedup();
        names.truncate(8);
        let there = names.join(", ");
        WorldError::Activity {
            object: format!("task.{}", self.name),
            why: format!(
                "the program has no thread {} after {START_MAX} (its threads: {there}): where its threads come and go none can be \
                 reserved; else mend the thread's name, or leave it out and let `guarantee` find it",
                self.role
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use surety_kernel::RealKernel;

    #[test]
    fn the_worker_is_the_thread_of_its_name_and_age() {
        let thread = |start, tid, comm: &str| LiveThread { start, tid: Tid(tid), comm: comm.to_owned() };
        let threads = [thread(1, 9, "a"), thread(2, 5, "b"), thread(3, 3, "a"), thread(3, 4, "a")];
        let role = |comm: &str, rank| ThreadRole { comm: comm.to_owned(), rank };
        for (comm, rank, tid) in [
            ("a", 0, Some(9)),
            ("a", 1, Some(3)),
            ("a", 2, Some(4)),
            ("a", 3, None),
            ("b", 0, Some(5)),
            ("c", 0, None),
        ] {
            assert_eq!(find(&threads, &role(comm, rank)), tid.map(Tid), "{comm} {rank}");
        }
    }

    #[test]
    fn time_of_children_that_have_ended_is_counted() {
        let kernel = RealKernel::new();
        // Each child burns CPU time of its own and is gone when the numbers are read; then the shell waits.
        let script = "for i in 1 2 3; do (n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done; true); done; times; echo done; read x";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let root = Tid(i32::try_from(child.id()).unwrap());
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let said: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|l| l != "done").collect();
        let (run, _) = time_of(&kernel, root).unwrap();
        let own = clock::process_cpu_time(root).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        // `times` prints user and system time of the shell, then of its children, as 0m0.120000s.
        let seconds = |text: &str| {
            let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        };
        let children: f64 = said[1].split_ascii_whitespace().map(seconds).sum();
        assert!(children > 0.0, "{said:?}");
        let found = (run - own).as_millis_f64() / 1e3;
        assert!((found - children).abs() <= 0.03, "{found} s found, {children} s by the shell's own account");
    }
}
