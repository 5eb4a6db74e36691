//! Whose threads may be changed without being asked for by `--force`: those of the user who started this program, up to a part
//! of the CPUs.

use surety_kernel::facts::{Privileges, SchedulerFacts};
use surety_kernel::{Kernel, RealKernel};
use surety_model::plan::{Plan, PlannedDisk, PlannedReservation};
use surety_model::platform::DiskDriver;
use surety_model::playout::Level;
use surety_model::workload::{PolicySpec, Task, TaskBody, ThreadMatch, Workload};
use surety_model::world::WorldError;
use surety_plan::streams::memory_of;
use surety_units::{Bytes, Tid};

use crate::failure::Failure;

/// Reservations of others' threads may take this part of the machine's CPUs together: the rest stays for whom it was meant.
const CAP: f64 = 0.5;
/// What to do about a refusal.
const REMEDY: &str = "add --force to change it all the same";
/// Where `sudo` says who started it.
const SUDO_UID: &str = "SUDO_UID";

/// The user who started this program: under `sudo` the one before.
fn caller(kernel: &dyn Kernel) -> u32 {
    let before = std::env::var(SUDO_UID).ok().and_then(|text| text.parse().ok());
    let user = kernel.effective_user();
    before.filter(|_| user == 0).unwrap_or(user)
}

/// Refuses to change a thread that is not the caller's to change.
///
/// # Errors
/// The first process, a thread of the kernel's, of another user; one that has ended is found out where it is used.
pub fn check_thread(kernel: &dyn Kernel, tid: Tid) -> Result<(), Failure> {
    check_of(kernel, tid, caller(kernel)).map_err(|why| Failure::request(why, REMEDY))
}

fn check_of(kernel: &dyn Kernel, tid: Tid, caller: u32) -> Result<(), String> {
    let Ok(owner) = kernel.owner(tid) else { return Ok(()) };
    let name = kernel.name(tid).unwrap_or_default();
    let why = if owner.process == Tid(1) {
        "is of process 1: everything else depends on it".to_owned()
    } else if kernel.is_kernel_thread(tid) {
        "is a thread of the kernel's".to_owned()
    } else if owner.users.iter().any(|user| *user != caller) {
        format!("is of user {}, and this program was started by user {caller}", owner.users[1])
    } else {
        return Ok(());
    };
    Err(format!("thread {tid} ({name}) {why}"))
}

/// Checks the running threads that tasks of a workload mean, as far as they are changed.
///
/// # Errors
/// As [`check_thread`].
pub fn check_workload(
    kernel: &RealKernel,
    workload: &Workload,
    is_changed: impl Fn(&Task) -> bool,
) -> Result<(), WorldError> {
    let is_changed = |task: &&Task| is_changed(task) || workload.threads_of(&task.name).any(&is_changed);
    for task in workload.tasks.iter().filter(is_changed) {
        if let TaskBody::Match(which) = &task.body {
            for tid in matching(kernel, which) {
                check_of(kernel, tid, caller(kernel)).map_err(|why| WorldError::Activity {
                    object: format!("task.{}", task.name),
                    why: format!("{why}; {REMEDY}"),
                })?;
            }
        }
    }
    Ok(())
}

/// Whether a run gives the thread of a task anything.
pub fn is_set_by_run(task: &Task) -> bool {
    task.reservation.is_some() || task.policy != PolicySpec::default()
}

fn matching(kernel: &dyn Kernel, which: &ThreadMatch) -> Vec<Tid> {
    let name = match which {
        ThreadMatch::Thread(pid) => return vec![Tid(*pid)],
        ThreadMatch::Process(pid) => return kernel.threads(Tid(*pid)).unwrap_or_default(),
        // Its program is looked at.
        ThreadMatch::Of { .. } => return Vec::new(),
        ThreadMatch::Named(name) => name,
    };
    let mut found = Vec::new();
    for process in kernel.processes().unwrap_or_default() {
        for tid in kernel.threads(process).unwrap_or_default() {
            if kernel.name(tid).is_ok_and(|found| found == *name) {
                found.push(tid);
            }
        }
    }
    found
}

/// Refuses a plan whose reservations for running threads take too much of the CPUs.
///
/// # Errors
/// More than half of all CPUs.
pub fn check_plan(plan: &Plan, workload: &Workload, cpus: u32) -> Result<(), Failure> {
    let is_foreign = |name: &str| {
        let task = workload.task(name);
        let program = task.and_then(Task::thread_of).and_then(|(of, _)| workload.task(of)).or(task);
        program.is_some_and(|task| matches!(task.body, TaskBody::Match(_)))
    };
    check_cap(plan.reservations.iter().filter(|planned| is_foreign(&planned.activity)), cpus)
}

/// Refuses reservations for running threads that take too much of the CPUs together.
///
/// # Errors
/// More than half of all CPUs.
pub fn check_cap<'p>(
    reserved: impl Iterator<Item = &'p PlannedReservation>,
    cpus: u32,
) -> Result<(), Failure> {
    let taken: f64 = reserved.map(|planned| planned.reservation.bandwidth().as_f64()).sum();
    let allowed = CAP * f64::from(cpus.max(1));
    if taken <= allowed {
        return Ok(());
    }
    let what = format!(
        "the plan takes {:.1} % of a CPU for threads that were running before; without --force it is at most {:.1} %, half of the {cpus} CPUs",
        taken * 100.0,
        allowed * 100.0
    );
    Err(Failure::request(what, "add --force to reserve it all the same"))
}

/// Whether bounds of a plan's streams count a request of each CPU.
fn counts_cpus(plan: &Plan) -> bool {
    let hands_on = |disk: &PlannedDisk| disk.depth.is_some();
    let is_looped = matches!(plan.platform.disk_driver, DiskDriver::Loop { .. });
    !plan.streams.is_empty() && (is_looped || plan.disks.iter().any(hands_on))
}

/// Refuses a plan of streams in a guest of the lab, whose kernel preempts threads that serve modelled disks.
///
/// # Errors
/// Where the plan has such streams.
pub fn check_guest(plan: &Plan) -> Result<(), Failure> {
    if !counts_cpus(plan) {
        return Ok(());
    }
    let what = "guests with modelled disks are booted with preempt=full, and the bounds of the plan's streams count one request for each CPU";
    Err(Failure::request(
        what.to_owned(),
        "run the plan on `host` or `sim`, or the workload without its plan in the lab",
    ))
}

/// Refuses a plan of streams on a machine of which its bounds do not hold: with more CPUs online than may each have a request that the driver of a disk has no room
/// for, or with a kernel that preempts threads which have one.
///
/// # Errors
/// Either, with what to do.
pub fn check_disks(plan: &Plan, scheduler: &SchedulerFacts, online: usize) -> Result<(), Failure> {
    if !counts_cpus(plan) {
        return Ok(());
    }
    let counted = plan.platform.cpus.saturating_add(plan.platform.other_cpus);
    if online > counted as usize {
        let what = format!(
            "{online} CPUs are online, and the bounds of the plan's streams count {counted} that hand requests to a disk"
        );
        return Err(Failure::request(what, "plan again for this machine: `surety plan WORKLOAD`"));
    }
    if scheduler.preempts_kernel() == Some(true) {
        let now = scheduler.preemption.as_deref().unwrap_or_default();
        let what = format!(
            "this kernel preempts threads that hand requests to a disk ({now}), and the bounds of the plan's streams count one for each CPU"
        );
        return Err(Failure::request(
            what,
            "echo voluntary > /sys/kernel/debug/sched/preempt, or boot with preempt=none",
        ));
    }
    Ok(())
}

/// What is to be said of a plan whose streams' buffers are more than this user may lock, so that runs of it on this machine are *observed*; `None`: they may be locked.
pub fn unlocked(plan: &Plan, workload: &Workload, privileges: &Privileges) -> Option<String> {
    let most = privileges.locked_memory_limit.filter(|_| !privileges.ipc_lock)?;
    let buffers = memory_of(&plan.streams, workload);
    (buffers > most).then(|| {
        format!(
            "buffers of the plan's streams take {} of locked memory, and this user may lock {} (RLIMIT_MEMLOCK): run here they are {}, not {}; lift the limit (ulimit -l unlimited) or grant \
             CAP_IPC_LOCK",
            Bytes(buffers),
            Bytes(most),
            Level::Observed,
            Level::Admitted
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use surety_kernel::ScriptedKernel;
    use surety_model::platform::Platform;

    /// A plan of streams with a limited driver is refused where more CPUs are online than it counts, or the kernel preempts what hands requests on; of buffers that may not be locked
    /// is told.
    #[test]
    fn bounds_of_streams_need_the_cpus_that_they_count() {
        let text = "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '256MiB'\ndepth = 4\n[[stream]]\nname = 's'\ndisk = 'd'\n\
                    file = { make = '24MB' }\nrate = '1MB/s'\npromise = 'late == 0'\n";
        let workload =
            surety_model::formats::toml::read("w.toml", text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let platform = Platform { other_cpus: 1, ..Platform::linux_6_18(2) };
        let plan = surety_plan::plan(&workload, &BTreeMap::new(), &surety_plan::PlanOptions::new(platform));
        assert!(!plan.streams.is_empty(), "{:?}", plan.refusals);
        let known = surety_kernel::facts::MachineFacts::read(&ScriptedKernel::new(2)).scheduler;
        let of = |preemption: Option<&str>, online: usize| {
            let scheduler = SchedulerFacts { preemption: preemption.map(str::to_owned), ..known.clone() };
            check_disks(&plan, &scheduler, online).map_err(|error| error.to_string())
        };
        for model in
            [None, Some("PREEMPT_DYNAMIC"), Some("PREEMPT_DYNAMIC none"), Some("PREEMPT_DYNAMIC voluntary")]
        {
            assert_eq!(of(model, 3), Ok(()), "{model:?}");
        }
        for model in ["PREEMPT", "PREEMPT_RT", "PREEMPT_DYNAMIC full", "PREEMPT_DYNAMIC lazy"] {
            let why = of(Some(model), 3).unwrap_err();
            assert!(why.contains(&format!("({model})")), "{why}");
        }
        let why = of(None, 4).unwrap_err();
        assert!(why.contains("4 CPUs are online, and the bounds of the plan's streams count 3"), "{why}");
        let without = Plan { streams: Vec::new(), ..plan.clone() };
        assert!(check_disks(&without, &known, 4).is_ok());
        // More than may be locked is told, unless there is no limit or the right to pass it.
        let buffers = memory_of(&plan.streams, &workload);
        let told = |limit: Option<u64>, ipc_lock: bool| {
            let of = surety_kernel::facts::MachineFacts::read(&ScriptedKernel::new(2)).privileges;
            let privileges = Privileges { ipc_lock, locked_memory_limit: limit, ..of };
            unlocked(&plan, &workload, &privileges)
        };
        assert_eq!((told(Some(buffers), false), told(None, false), told(Some(0), true)), (None, None, None));
        let said = told(Some(buffers - 1), false).unwrap_or_default();
        assert!(said.contains("RLIMIT_MEMLOCK") && said.contains("observed, not admitted"), "{said}");
    }

    #[test]
    fn only_threads_of_the_caller_are_changed_unasked() {
        let kernel = ScriptedKernel::new(2);
        let thread = |tid: i32, process: i32, users: [u32; 2], flags: u64| {
            kernel.add_thread(Tid(tid), Tid(process), "some");
            let [real, effective] = users;
            let status =
                format!("Name:\tsome\nTgid:\t{process}\nUid:\t{real}\t{effective}\t{effective}\t{real}\n");
            kernel.add_file(format!("/proc/{tid}/status"), &status);
            kernel.add_file(format!("/proc/{tid}/stat"), &format!("{tid} (some) S 0 0 0 0 0 {flags} 0\n"));
        };
        thread(1, 1, [0, 0], 0);
        thread(7, 1, [0, 0], 0);
        thread(20, 20, [0, 0], 0x20_0000);
        thread(30, 30, [1000, 1000], 0);
        thread(31, 30, [1000, 0], 0);
        thread(32, 32, [0, 0], 0);
        for (tid, caller, why) in [
            (1, 0, "process 1"),
            (7, 0, "process 1"),
            (20, 0, "the kernel's"),
            (30, 0, "is of user 1000, and this program was started by user 0"),
            (30, 1000, ""),
            (31, 1000, "of user 0"),
            (32, 1000, "of user 0"),
            (32, 0, ""),
            (99, 0, ""),
        ] {
            match check_of(&kernel, Tid(tid), caller) {
                Ok(()) => assert_eq!(why, "", "{tid} for {caller}"),
                Err(said) => {
                    assert!(!why.is_empty() && said.contains(why), "{tid} for {caller}: {said}");
                }
            }
        }
    }
}
