//! [`Workload::beyond_kernels`]: what no running kernel can be asked for, this machine's or the lab's.

use super::{ActivityKind, Disk, Irq, PolicySpec, Task, TaskBody, Workload};

impl Workload {
    /// The first object that no kernel can run in this version, by its path, and why; found without asking any.
    pub fn beyond_kernels(&self) -> Option<(String, &'static str)> {
        for (index, irq) in self.irqs.iter().enumerate() {
            let is_taken = |other: &Irq| irq.device.is_some() && other.device == irq.device;
            if self.irqs[..index].iter().any(is_taken) {
                let why = "another source has the same device, and a virtual cable has one thread; give it a device of its own";
                return Some((format!("irq.{}", irq.name), why));
            }
        }
        let activities = self.activities();
        let refused = activities.iter().find_map(|a| Some((a.kind.path(a.name), a.kind.row().kernels?)));
        if refused.is_some() {
            return refused;
        }
        if let Some(refused) = self.beyond_groups() {
            return Some(refused);
        }
        if let Some(task) =
            self.tasks.iter().find(|t| t.schedules().any(|of| of.reservation.is_some_and(|r| r.demote)))
        {
            let why = "no kernel runs a reserved task on as a fair one when its budget is used up; leave out `demote`";
            return Some((format!("task.{}", task.name), why));
        }
        if let Some(refused) = self.disks.iter().find_map(beyond) {
            return Some(refused);
        }
        if let Some(path) = self.simulated_policy() {
            return Some((path, "no kernel has its policy; try `--on sim`"));
        }
        if let Some(path) = self.latency_nice() {
            return Some((path, "no mainline kernel has `latency_nice`; leave it out, or try `--on sim`"));
        }
        activities
            .is_empty()
            .then(|| ("workload".to_owned(), "there is nothing in it to run; add a [[task]]"))
    }

    /// What of its control groups is for simulation alone.
    fn beyond_groups(&self) -> Option<(String, &'static str)> {
        let was_there = |task: &&Task| matches!(task.body, TaskBody::Match(_)) || task.thread_of().is_some();
        if let Some(task) = self.tasks.iter().filter(|task| task.group.is_some()).find(was_there) {
            let why = "threads that existed before the run are not moved into a control group; leave `group` out, or give it to \
                       the task of the whole program";
            return Some((format!("task.{}", task.name), why));
        }
        if let Some(group) = self.groups.iter().find(|group| group.io_weight.is_some()) {
            let why = "on a kernel groups get no weight at disks in this version; leave `io-weight` out, or try `--on sim`";
            return Some((format!("group.{}", group.name), why));
        }
        if let Some(group) = self.groups.iter().find(|group| group.reservation.is_some()) {
            let why = "no kernel reserves CPU time for a group; leave `reservation` out, or try `--on sim`";
            return Some((format!("group.{}", group.name), why));
        }
        let streams = self.streams.iter().map(|s| ("stream", &s.name, &s.group));
        let startups = self.startups.iter().map(|s| ("startup", &s.name, &s.group));
        let disks = self.disks.iter().map(|d| ("disk", &d.name, &d.group));
        let (kind, name, _) = streams.chain(startups).chain(disks).find(|(.., group)| group.is_some())?;
        let why = "on a kernel tasks and loads are put into control groups, and nothing else in this version; leave `group` \
                   out, or try `--on sim`";
        Some((format!("{kind}.{name}"), why))
    }

    /// The first task or load, by its path, whose policy no kernel has.
    pub fn simulated_policy(&self) -> Option<String> {
        self.first_with(|policy| matches!(policy, PolicySpec::Simulated { .. }))
    }

    /// The first task or load, by its path, with a latency nice.
    pub fn latency_nice(&self) -> Option<String> {
        self.first_with(|policy| matches!(policy, PolicySpec::LatencyNice { .. }))
    }

    /// The first task, by its path, that changes how it is scheduled: no bound here covers it.
    pub fn changes_policy(&self) -> Option<String> {
        let found = self.tasks.iter().find(|task| task.changes().1);
        found.map(|task| ActivityKind::Task.path(&task.name))
    }

    fn first_with(&self, is_looked_for: impl Fn(PolicySpec) -> bool) -> Option<String> {
        let tasks = self.tasks.iter().map(|task| (ActivityKind::Task, &task.name, task.policy));
        let loads = self.loads.iter().map(|load| (ActivityKind::Load, &load.name, load.policy));
        let found = tasks.chain(loads).find(|(.., policy)| is_looked_for(*policy));
        found.map(|(kind, name, _)| kind.path(name))
    }
}

/// What of a disk is for simulation alone.
fn beyond(disk: &Disk) -> Option<(String, &'static str)> {
    let why = if disk.on.is_some() {
        "a virtual machine's disk is for simulation; leave out `on` here"
    } else if disk.read_ahead.is_some() {
        "read-ahead by the rules of a kernel is for simulation; leave out `read-ahead` here"
    } else {
        return None;
    };
    Some((format!("disk.{}", disk.name), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::formats::toml;
    use crate::reservation::Reservation;
    use crate::workload::{Phase, Schedule, Task};
    use surety_units::Nanos;

    #[test]
    fn kernels_are_not_asked_for_a_latency_nice() {
        let mut task =
            Task::periodic("t", Nanos::from_millis(10), TimeDistribution::Constant(Nanos::from_millis(1)));
        task.policy = PolicySpec::LatencyNice { nice: 0, latency_nice: -20 };
        let mut workload = Workload { tasks: vec![task], ..Workload::default() };
        let (path, why) = workload.beyond_kernels().unwrap();
        assert!(path == "task.t" && why.contains("no mainline kernel has `latency_nice`"), "{path}: {why}");
        workload.tasks[0].policy = PolicySpec::default();
        assert_eq!(workload.beyond_kernels(), None);
    }

    #[test]
    fn no_step_demotes() {
        let mut task =
            Task::periodic("t", Nanos::from_millis(10), TimeDistribution::Constant(Nanos::from_millis(1)));
        for (demote, refused) in [(false, None), (true, Some("task.t"))] {
            let implicit = Reservation::implicit(Nanos::MILLISECOND, Nanos::SECOND);
            let reservation = Some(Reservation { demote, ..implicit });
            let schedule = Schedule { policy: PolicySpec::Deadline, reservation };
            task.body = TaskBody::Phases(vec![Phase::Become(schedule)]);
            let workload = Workload { tasks: vec![task.clone()], ..Workload::default() };
            assert_eq!(workload.beyond_kernels().map(|(path, _)| path).as_deref(), refused);
        }
    }

    #[test]
    fn groups_are_refused_where_no_kernel_of_this_version_has_them() {
        let of = |text: &str| {
            let text =
                format!("format = 1\n{text}\n[[load]]\nname = \"l\"\nkind = \"spinners\"\ngroup = \"ui\"\n");
            toml::read("test", &text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}")).beyond_kernels()
        };
        let ui = "[[group]]\nname = \"ui\"\nweight = 50\nquota = \"5ms\"\n";
        let task = |rest: &str| format!("[[task]]\nname = \"t\"\ngroup = \"ui\"\n{rest}\n{ui}");
        assert_eq!(of(ui), None);
        assert_eq!(of(&task("work = \"forever\"")), None);
        assert_eq!(of(&task("command = \"sleep 9\"")), None);
        let stream =
            "[[stream]]\nname = \"s\"\nfile = { make = \"1MB\" }\nrate = \"1MB/s\"\ngroup = \"ui\"\n";
        for (text, object, says) in [
            (task("match = { pid = 1 }"), "task.t", "leave `group` out"),
            (ui.replace("weight = 50", "io-weight = 50"), "group.ui", "`io-weight`"),
            (
                ui.replace("weight = 50", "reservation = { runtime = \"1ms\", period = \"9ms\" }"),
                "group.ui",
                "`reservation`",
            ),
            (format!("{stream}{ui}"), "stream.s", "tasks and loads"),
        ] {
            let (found, why) = of(&text).unwrap();
            assert!(found == object && why.contains(says), "{found}: {why}");
        }
    }
}
