//! [`MemberResult`]: what the threads and programs of a run came back with.

use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Tid;

use crate::interrupts::Sent;
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
