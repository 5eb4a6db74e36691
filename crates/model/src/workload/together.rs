//! [`Together`]: threads that begin at a barrier, as those of rt-app do (`threads_barrier` in `rt-app.c`).

use super::{Task, Workload};

/// The place of a thread among those that begin together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// How many of them are made before it.
    pub number: usize,
    /// How many they are.
    pub of: usize,
}

impl Meeting {
    /// Whether it comes last: then it passes at time 0 and wakes the others.
    pub fn is_last(self) -> bool {
        self.number + 1 == self.of
    }
}

/// The threads of a workload that begin together, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// The task, and its first place.
    tasks: Vec<(String, usize)>,
    all: usize,
}

impl Together {
    /// `cpus`: of the run, each of which has an instance of a task with `instances = "per-cpu"`.
    pub fn of(workload: &Workload, cpus: u32) -> Together {
        let mut together = Together::default();
        for task in workload.tasks.iter().filter(|task| task.together) {
            together.tasks.push((task.name.clone(), together.all));
            together.all += task.instances.on(cpus) as usize;
        }
        together
    }

    /// That of an instance of a task; `None` where it begins by itself.
    pub fn meeting(&self, task: &Task, instance: u32) -> Option<Meeting> {
        let first = self.tasks.iter().find(|(name, _)| *name == task.name)?.1;
        Some(Meeting { number: first + instance as usize, of: self.all })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Instances;
    use super::*;
    use crate::distribution::TimeDistribution;
    use surety_units::Nanos;

    #[test]
    fn the_last_instance_of_the_last_task_comes_last() {
        let task = |name: &str, together, count| Task {
            together,
            instances: Instances::Count(count),
            ..Task::periodic(name, Nanos::SECOND, TimeDistribution::Constant(Nanos::MILLISECOND))
        };
        let tasks = vec![task("a", true, 2), task("b", false, 1), task("c", true, 2)];
        let workload = Workload { tasks, ..Workload::default() };
        let together = Together::of(&workload, 2);
        let places = |place: usize| -> Vec<Option<(usize, bool)>> {
            let task = &workload.tasks[place];
            let of = |instance| together.meeting(task, instance).map(|at| (at.number, at.is_last()));
            (0..task.instances.on(2)).map(of).collect()
        };
        assert_eq!(places(0), [Some((0, false)), Some((1, false))]);
        assert_eq!(places(1), [None]);
        assert_eq!(places(2), [Some((2, false)), Some((3, true))]);
    }

    #[test]
    fn the_order_of_the_file_is_that_of_who_begins_together() {
        let task = |name: &str, together| Task {
            together,
            ..Task::periodic(name, Nanos::SECOND, TimeDistribution::Constant(Nanos::MILLISECOND))
        };
        let tasks = vec![task("d", false), task("c", true), task("a", true), task("b", false)];
        let ordered = Workload { tasks, ..Workload::default() }.by_name();
        let names: Vec<&str> = ordered.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["c", "a", "b", "d"]);
    }
}
