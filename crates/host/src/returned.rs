//! [`MemberResult`]: what the threads and programs of a run came back with.

use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::{Nanos, Tid};

use crate::interrupts::{self, Sent};
use crate::loads::LoadRun;
use crate::streams::StreamRun;
use crate::tasks::TaskRun;

/// Whose member it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// `workload.tasks[_]`.
    Task(usize),
    /// `workload.loads[_]`.
    Load(usize),
    /// `workload.streams[_]`.
    Stream(usize),
    /// `workload.irqs[_]`.
    Irq(usize),
}

/// What a member returned.
#[derive(Debug)]
pub(crate) struct MemberResult {
    pub activity: Activity,
    pub tid: Tid,
    pub outcome: Returned,
}

impl MemberResult {
    /// Why it could not go on, of a load that could not.
    pub fn trouble(&self, workload: &Workload) -> Option<WorldError> {
        let index = match (&self.outcome, self.activity) {
            (Returned::Stream(run), Activity::Stream(index)) => {
                return run.trouble_of(&workload.streams.get(index)?.name);
            }
            (_, Activity::Load(index)) => index,
            _ => return None,
        };
        let name = &workload.loads.get(index)?.name;
        match &self.outcome {
            Returned::Worker(run) => run.trouble.as_ref().map(|trouble| trouble.of_load(name)),
            _ => Some(LoadRun::panicked().of_load(name)),
        }
    }
}

/// What a member returned, by its kind.
#[derive(Debug)]
pub(crate) enum Returned {
    Synthetic(TaskRun),
    Worker(LoadRun),
    Stream(StreamRun),
    Sender(Sent),
    Outside,
}

/// What tasks and devices came back with that the record has to say: why they ended before their time, and what tasks waited for.
pub(crate) fn objections(workload: &Workload, results: &[MemberResult]) -> Vec<String> {
    let of = |result: &MemberResult| match (&result.outcome, result.activity) {
        (Returned::Sender(sent), Activity::Irq(index)) => {
            interrupts::sender_objection(&workload.irqs[index], *sent).into_iter().collect()
        }
        (Returned::Synthetic(run), Activity::Task(index)) => {
            let name = &workload.tasks[index].name;
            let ended = run.trouble.as_ref().map(|why| format!("task.{name} ended before its time: {why}"));
            ended.into_iter().chain(waits(name, run.waited)).collect()
        }
        _ => Vec::new(),
    };
    results.iter().flat_map(of).collect()
}

/// Waits of a task that its steps do not have.
fn waits(name: &str, (times, waited): (u32, Nanos)) -> Option<String> {
    let times = match times {
        0 => return None,
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    Some(format!(
        "task.{name} waited {times}, {waited} in all, to come back to SCHED_DEADLINE: the kernel still had its last budget booked; \
         its responses contain it"
    ))
}
