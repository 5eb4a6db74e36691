//! [`FirstCpus`]: on which CPU each thread of a run sleeps until it first wakes.
//!
//! Where a thread sleeps is where it wakes, unless somebody more important runs there: a `SCHED_FIFO` thread that wakes on the CPU of a
//! spinner stays beside it for as long as nothing else moves it. So a run chooses the CPUs, where it can, instead of leaving them to where
//! its threads happened to be made.

use surety_units::{CpuId, CpuSet, Nanos};

use crate::workload::{Instances, TaskBody, Workload};

/// The turn of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How many come before it, and how many there are.
    pub number: usize,
    pub of: usize,
    /// Where it sleeps.
    pub cpu: CpuId,
}

/// The CPUs of a run in turn: in the order in which threads are first released, of equal ones tasks first, then loads, each instance a step.
/// So who comes later, or never, changes nothing of the others. Threads with CPUs of their own or of their group, and programs, have no turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstCpus {
    cpus: Vec<CpuId>,
    /// The turn of the first instance of each task and load; `None` for those that have none.
    tasks: Vec<Option<usize>>,
    loads: Vec<Option<usize>>,
    turns: usize,
}

impl FirstCpus {
    /// For a workload in the order in which its threads are made, on these CPUs.
    pub fn of(workload: &Workload, cpus: &CpuSet) -> FirstCpus {
        let is_made = |body: &TaskBody| matches!(body, TaskBody::Synthetic(_) | TaskBody::Phases(_));
        let is_free = |group: &Option<String>| workload.cpus_of_group(group.as_deref()).is_none();
        let of_tasks = workload.tasks.iter().map(|task| {
            let has_none = task.cpus.is_none() && is_free(&task.group);
            (is_made(&task.body) && takes_turns(task.instances) && has_none)
                .then(|| (task.release.start(), task.instances))
        });
        let of_loads = workload.loads.iter().map(|load| {
            (takes_turns(load.count) && is_free(&load.group)).then_some((Nanos::ZERO, load.count))
        });
        let all: Vec<Option<(Nanos, Instances)>> = of_tasks.chain(of_loads).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|place| all[*place].map(|(start, _)| start));
        let (mut tasks, mut turns) = (vec![None; all.len()], 0);
        for place in order {
            if let Some((_, instances)) = all[place] {
                tasks[place] = Some(turns);
                turns += instances.on(cpus.len() as u32) as usize;
            }
        }
        let loads = tasks.split_off(workload.tasks.len());
        FirstCpus { cpus: cpus.iter().collect(), tasks, loads, turns }
    }

    /// That of an instance of a task, by its place in the workload.
    pub fn of_task(&self, index: usize, instance: u32) -> Option<Turn> {
        self.at(*self.tasks.get(index)?, instance)
    }

    /// That of an instance of a load.
    pub fn of_load(&self, index: usize, instance: u32) -> Option<Turn> {
        self.at(*self.loads.get(index)?, instance)
    }

    fn at(&self, first: Option<usize>, instance: u32) -> Option<Turn> {
        let number = first? + instance as usize;
        let cpu = *self.cpus.get(number % self.cpus.len().max(1))?;
        Some(Turn { number, of: self.turns, cpu })
    }
}

fn takes_turns(instances: Instances) -> bool {
    matches!(instances, Instances::Count(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::workload::{Release, Task};

    #[test]
    fn threads_take_the_cpus_in_turn() {
        let task = |instances| {
            let work = TimeDistribution::Constant(Nanos::MILLISECOND);
            Task { instances, ..Task::periodic("t", Nanos::SECOND, work) }
        };
        let tasks = [Instances::Count(1), Instances::PerCpu(1), Instances::Count(3)].map(task).to_vec();
        let workload = Workload { tasks, ..Workload::default() };
        let cpus: CpuSet = [CpuId(2), CpuId(5)].into_iter().collect();
        let first = FirstCpus::of(&workload, &cpus);
        let of = |task: usize, count: u32| -> Vec<Option<u32>> {
            (0..count).map(|instance| first.of_task(task, instance).map(|turn| turn.cpu.0)).collect()
        };
        assert_eq!((of(0, 1), of(1, 2)), (vec![Some(2)], vec![None, None]));
        assert_eq!(of(2, 3), [Some(5), Some(2), Some(5)]);
    }

    #[test]
    fn who_is_released_first_has_the_first_turn() {
        let task = |start| Task {
            release: Release::Periodic {
                period: Nanos::SECOND,
                start: Nanos::from_millis(start),
                jitter: Nanos::ZERO,
            },
            ..Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(Nanos::MILLISECOND))
        };
        let numbers = |starts: &[i64]| -> Vec<usize> {
            let tasks: Vec<Task> = starts.iter().map(|start| task(*start)).collect();
            let first = FirstCpus::of(&Workload { tasks, ..Workload::default() }, &CpuSet::first(2));
            (0..starts.len()).map(|place| first.of_task(place, 0).expect("a turn").number).collect()
        };
        assert_eq!(numbers(&[5, 0, 5, 2]), [2, 0, 3, 1]);
        assert_eq!(numbers(&[5, 0, 5_000, 5, 2])[..2], [2, 0], "one that comes later changes nothing");
    }
}
