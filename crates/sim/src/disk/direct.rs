//! Direct accesses of processes: whether one is at its disk, one that follows another in the completion's interrupt, and when each was complete.

use surety_block::ProcessId;
use surety_units::Nanos;

use super::{Operation, Storage};

impl Storage {
    /// Has a direct access follow the one that a process is at: it is submitted where that is complete, before the driver takes its next
    /// request, as by somebody who works in the completion's interrupt. There is one at most.
    pub fn chain(&mut self, process: ProcessId, operation: Operation, deadline: Option<Nanos>) {
        self.doing[process.index()].chained = Some((operation, deadline));
    }

    /// From here on it is kept of each direct access of a process when it was asked for and when it was complete.
    pub fn keep_accesses(&mut self, process: ProcessId) {
        self.doing[process.index()].kept = Some(Vec::new());
    }

    /// From here on it is kept when the driver had the requests of a process's direct accesses.
    pub fn keep_requests(&mut self, process: ProcessId) {
        self.doing[process.index()].in_device = Some(Vec::new());
    }

    /// When the driver took each of those that were complete until an instant, and when it was; handed out once.
    pub fn take_requests(&mut self, process: ProcessId, until: Nanos) -> Vec<(Nanos, Nanos)> {
        let kept = self.doing[process.index()].in_device.as_mut();
        kept.map_or_else(Vec::new, |kept| kept.extract_if(.., |(_, complete)| *complete <= until).collect())
    }

    /// When each was asked for, and when it was complete, in order.
    pub fn accesses(&self, process: ProcessId) -> &[(Nanos, Nanos)] {
        self.doing[process.index()].kept.as_deref().unwrap_or_default()
    }

    /// Whether all of a process's direct access was handed to its disk and some of it is still there: there is nothing to go on with.
    pub fn is_at_disk(&self, process: ProcessId) -> bool {
        let doing = &self.doing[process.index()];
        doing.direct > 0 && doing.unsent.is_empty()
    }

    /// Whether an access follows the one that a process is at.
    pub fn is_chained(&self, process: ProcessId) -> bool {
        self.doing[process.index()].chained.is_some()
    }

    /// How many accesses of a process were followed by a chained one since this was last asked.
    pub fn take_passed(&mut self, process: ProcessId) -> u64 {
        std::mem::take(&mut self.doing[process.index()].passed)
    }

    /// A process's direct access is complete: what was chained to it is submitted.
    pub(super) fn follow(&mut self, now: Nanos, process: ProcessId) {
        let doing = &mut self.doing[process.index()];
        if let Some((mut operation, deadline)) = doing.chained.take() {
            (doing.passed, doing.deadline) = (doing.passed + 1, deadline);
            if let Operation::Direct { file, write, first, end, is_sent } = &mut operation {
                *is_sent = true;
                self.direct(now, process, *file, *write, (*first, *end));
            }
            self.doing[process.index()].operation = Some(operation);
        }
    }
}
