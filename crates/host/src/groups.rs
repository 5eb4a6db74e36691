//! Control groups of a workload on this machine: what is refused beforehand, and in which one a member is born.

use surety_enforce::{ControlGroups, Entered, GroupError};
use surety_kernel::Kernel;
use surety_kernel::cpu_group::CpuHierarchy;
use surety_kernel::facts::SchedulerFacts;
use surety_kernel::journal::Journal;
use surety_model::record::ThreadInForce;
use surety_model::workload::{Instances, Load, Schedule, Task, Workload};
use surety_model::world::WorldError;
use surety_units::CpuSet;

/// Refuses members of groups that this machine cannot have; what no kernel can is [`Workload::beyond_kernels`].
///
/// # Errors
/// With the object of the workload, and what to change.
pub(crate) fn check(kernel: &dyn Kernel, has_journal: bool, workload: &Workload) -> Result<(), WorldError> {
    let Some((object, _)) = members(workload).next() else { return Ok(()) };
    let refused = |object: String, what: &str, remedy: String| {
        Err(WorldError::MachineFor { object, what: what.to_owned(), remedy })
    };
    const WHAT: &str = "it cannot be put into its control group";
    if !has_journal {
        return refused(
            object,
            WHAT,
            "there is no journal that groups could be written down in; run it by `surety run`".to_owned(),
        );
    }
    let Some(hierarchy) = CpuHierarchy::find(kernel) else {
        return refused(object, WHAT, GroupError::NoController.to_string());
    };
    let has_cpus = workload.groups.iter().find(|group| group.cpus.is_some());
    if let Some(group) = has_cpus.filter(|_| !hierarchy.has_cpusets(kernel)) {
        let object = format!("group.{}", group.name);
        return refused(object, "it cannot have CPUs of its own", GroupError::NoCpusets.to_string());
    }
    match realtime_member(workload).filter(|_| hierarchy.needs_realtime_budget(kernel)) {
        Some(object) => refused(object, WHAT, GroupError::NoRealtimeBudget.to_string()),
        None => Ok(()),
    }
}

/// Refuses groups that have none of the run's CPUs, and threads on each of these in a group that has some of them only: an affinity without a
/// CPU of its group is EINVAL. What a task says of its CPUs is [`Task::check_cpus`].
///
/// # Errors
/// With the object of the workload, and what to change.
pub(crate) fn check_cpus(workload: &Workload, run: &CpuSet) -> Result<(), WorldError> {
    const WHAT: &str = "it would be left without a CPU";
    let refused = |object: String, remedy: String| {
        Err(WorldError::MachineFor { object, what: WHAT.to_owned(), remedy })
    };
    for group in &workload.groups {
        let own = workload.cpus_of_group(Some(&group.name));
        if own.is_some_and(|own| own.intersection(run).is_empty()) {
            let why = format!(
                "none of its CPUs is left of those of the groups around it and of the run, {run}; correct `cpus`"
            );
            return refused(format!("group.{}", group.name), why);
        }
    }
    let tasks = workload.tasks.iter().map(|t| ("task", &t.name, t.instances, &t.group));
    let loads = workload.loads.iter().map(|l| ("load", &l.name, l.count, &l.group));
    for (kind, name, instances, group) in tasks.chain(loads) {
        let own = workload.cpus_of_group(group.as_deref());
        if let Some(own) = own.filter(|own| matches!(instances, Instances::PerCpu(_)) && !run.is_subset(own))
        {
            let why = format!(
                "it has threads on each CPU of the run, {run}, and its group has {own}; correct `cpus` of the group, or give \
                 their number"
            );
            return refused(format!("{kind}.{name}"), why);
        }
    }
    Ok(())
}

/// Who is in a group, by its path in the workload and its group.
fn members(workload: &Workload) -> impl Iterator<Item = (String, &str)> {
    let tasks = workload.tasks.iter().map(|task| (format!("task.{}", task.name), any_group(task)));
    let loads = workload.loads.iter().map(|load| (format!("load.{}", load.name), load.group.as_deref()));
    tasks.chain(loads).filter_map(|(object, group)| Some((object, group?)))
}

/// The group of a task, or the first that its steps bring it into.
fn any_group(task: &Task) -> Option<&str> {
    task.group.as_deref().or_else(|| task.later_groups().into_iter().flatten().next())
}

/// The first member of a group that is FIFO or RR, from its beginning or from a step on, by its path in the workload.
fn realtime_member(workload: &Workload) -> Option<String> {
    let at_times = |of: Schedule| of.reservation.is_none() && of.policy.is_realtime();
    let task = |t: &&Task| any_group(t).is_some() && t.schedules().any(at_times);
    let load = |l: &&Load| l.group.is_some() && l.policy.is_realtime();
    let of_tasks = workload.tasks.iter().find(task).map(|task| format!("task.{}", task.name));
    of_tasks.or_else(|| workload.loads.iter().find(load).map(|load| format!("load.{}", load.name)))
}

/// Makes the groups of a workload, where anybody is in one.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn make<'a>(
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    workload: &Workload,
) -> Result<Option<ControlGroups<'a>>, WorldError> {
    let Some(journal) = journal.filter(|_| members(workload).next().is_some()) else { return Ok(None) };
    ControlGroups::make(kernel, journal, &workload.groups).map(Some).map_err(not_made)
}

/// Puts the calling thread into a group while it makes who is in it.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn enter<'a>(
    groups: Option<&'a ControlGroups<'a>>,
    name: Option<&str>,
) -> Result<Option<Entered<'a>>, WorldError> {
    let Some((groups, name)) = groups.zip(name) else { return Ok(None) };
    groups.entered(name).map(Some).map_err(not_made)
}

/// What is said of a thread with its control group, where it is to be in one.
pub(crate) fn with_group(
    groups: Option<&ControlGroups<'_>>,
    workload: &Workload,
    thread: ThreadInForce,
) -> ThreadInForce {
    let of_task = workload.tasks.iter().find(|t| t.name == thread.activity).map(|t| &t.group);
    let of_load = || workload.loads.iter().find(|l| l.name == thread.activity).map(|l| &l.group);
    let group = of_task.or_else(of_load).and_then(Option::as_ref);
    // One that its steps move is where they say.
    let moves = |task: &Task| task.name == thread.activity && !task.later_groups().is_empty();
    let group = group.filter(|_| !workload.tasks.iter().any(moves));
    let (Some(groups), Some(group), Some(tid)) = (groups, group, thread.tid) else { return thread };
    let is_there = groups.holds(group, tid);
    let policy = format!("{}, {} group {group}", thread.policy, if is_there { "in" } else { "not in" });
    ThreadInForce { policy, as_requested: thread.as_requested && is_there, ..thread }
}

/// What is otherwise than the workload says where autogroup keeps threads without a group in that of their session.
pub(crate) fn beside_session(
    groups: Option<&ControlGroups<'_>>,
    scheduler: &SchedulerFacts,
    workload: &Workload,
) -> Vec<String> {
    let leaves = |task: &Task| task.group.is_none() || task.later_groups().contains(&None);
    let all_are_in_groups =
        workload.activities().len() == members(workload).count() && !workload.tasks.iter().any(leaves);
    let are_topmost = groups.is_some_and(ControlGroups::are_topmost);
    let applies = are_topmost && scheduler.divides_by_session() && !all_are_in_groups;
    let reason = applies.then(|| {
        "threads without a group were in that of their session (autogroup), which has weight 100 beside the others; put them into \
         groups, too, or write 0 to /proc/sys/kernel/sched_autogroup_enabled"
            .to_owned()
    });
    reason.into_iter().collect()
}

fn not_made(error: GroupError) -> WorldError {
    WorldError::Machine {
        what: "the workload's control groups could not be made".to_owned(),
        remedy: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::ScriptedKernel;
    use surety_model::formats::toml;

    const V1: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
    const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";

    fn machine(mounts: &str, has_budgets: bool) -> ScriptedKernel {
        let kernel = ScriptedKernel::new(1);
        kernel.add_file("/proc/mounts", mounts);
        kernel.add_file("/proc/self/cgroup", "2:cpuset:/\n1:cpu:/\n0::/\n");
        kernel.add_file("/sys/fs/cgroup/cgroup.procs", "");
        kernel.add_file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
        if has_budgets {
            kernel.add_file("/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000");
        }
        kernel
    }

    fn refusal(kernel: &ScriptedKernel, has_journal: bool, text: &str) -> Option<String> {
        let text = format!("format = 1\n{text}\n[[group]]\nname = \"ui\"\n");
        let workload = toml::read("test", &text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        let error = check(kernel, has_journal, &workload).err()?;
        Some(format!("{}: {error}", error.object().unwrap_or_default()))
    }

    #[test]
    fn what_cannot_be_in_a_group_is_said_with_what_to_change() {
        let task = |rest: &str| format!("[[task]]\nname = \"t\"\ngroup = \"ui\"\n{rest}");
        let jobs = task("period = \"10ms\"\nwork = \"1ms\"");
        let fifo = task("period = \"10ms\"\nwork = \"1ms\"\npolicy = \"fifo:3\"");
        let later = task("period = \"10ms\"\nphases = [{ run = \"1ms\" }, { policy = \"rr:3\" }]");
        let load = "[[load]]\nname = \"l\"\nkind = \"spinners\"\ngroup = \"ui\"".to_owned();
        let fifo_load = format!("{load}\npolicy = \"fifo:3\"");
        let round_robin_load = format!("{load}\npolicy = \"rr:3\"");
        let with_cpus = jobs.clone() + "\n[[group]]\nname = \"two\"\ncpus = \"0-1\"";
        let none = "[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"1ms\"".to_owned();
        let with_cpusets = format!("{V1}cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n");
        for (mounts, has_budgets, has_journal, text, says) in [
            (V1, true, true, &jobs, None),
            (V2, false, true, &jobs, None),
            (V1, true, true, &load, None),
            (V1, true, true, &fifo, Some("CONFIG_RT_GROUP_SCHED")),
            (V1, true, true, &later, Some("CONFIG_RT_GROUP_SCHED")),
            (V1, false, true, &later, None),
            (V1, true, true, &fifo_load, Some("CONFIG_RT_GROUP_SCHED")),
            (V1, true, true, &round_robin_load, Some("load.l")),
            (V1, false, true, &fifo, None),
            (V1, false, true, &fifo_load, None),
            (V1, false, false, &jobs, Some("no journal")),
            ("", false, true, &jobs, Some("no control groups with the `cpu` controller")),
            ("", false, true, &load, Some("no control groups with the `cpu` controller")),
            ("", false, false, &none, None),
            (V2, false, true, &with_cpus, None),
            (with_cpusets.as_str(), false, true, &with_cpus, None),
            (V1, false, true, &with_cpus, Some("CPUs of a group need the `cpuset` controller")),
        ] {
            let refused = refusal(&machine(mounts, has_budgets), has_journal, text);
            match says {
                None => assert_eq!(refused, None, "{mounts}{text}"),
                Some(says) => {
                    assert!(refused.as_ref().is_some_and(|why| why.contains(says)), "{refused:?}: {says}")
                }
            }
        }
    }
    #[test]
    fn nobody_is_left_without_a_cpu() {
        let one = "[[group]]\nname = \"one\"\ncpus = \"1\"\n";
        let load = |count: &str| {
            format!("{one}[[load]]\nname = \"l\"\nkind = \"spinners\"\ngroup = \"one\"\n{count}")
        };
        let task = |rest: &str| {
            format!("{one}[[task]]\nname = \"t\"\ngroup = \"one\"\nperiod = \"10ms\"\nwork = \"1ms\"\n{rest}")
        };
        for (run, text, says) in [
            ("0-1", load("count = 2"), None),
            ("0-1", task(""), None),
            ("1", load("count = \"per-cpu\""), None),
            ("0", load("count = 2"), Some("group.one: it would be left without a CPU")),
            ("2-3", task(""), Some("group.one: it would be left without a CPU")),
            ("0-1", load("count = \"per-cpu\""), Some("load.l: it would be left without a CPU")),
            ("0-1", task("instances = \"per-cpu\""), Some("task.t: it would be left without a CPU")),
        ] {
            let workload = toml::read("test", &format!("format = 1\n{text}")).unwrap();
            let refused = check_cpus(&workload, &run.parse().unwrap()).err();
            let said = refused.map(|why| format!("{}: {why}", why.object().unwrap_or_default()));
            assert_eq!(said.is_some(), says.is_some(), "{run} {text}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(says.unwrap_or_default()), "{text}");
        }
    }
}
