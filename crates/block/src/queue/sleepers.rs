//! [`Sleepers`]: processes that wait for a request.

use std::collections::VecDeque;

use crate::request::ProcessId;

/// Who sleeps until there is a request, in the order in which they fell asleep.
#[derive(Clone, Debug, Default)]
pub(super) struct Sleepers {
    waiting: VecDeque<ProcessId>,
    /// By process: it was woken for a request that it has not taken yet.
    is_woken: Vec<bool>,
    /// Requests that came free without a completion: somebody more is woken for each with the next.
    spare: usize,
}

impl Sleepers {
    /// Another process.
    pub(super) fn add_process(&mut self) {
        self.is_woken.push(false);
    }

    /// A process finds no request.
    pub(super) fn sleep(&mut self, process: ProcessId) {
        if !self.waiting.contains(&process) {
            self.waiting.push_back(process);
        }
    }

    /// Whether a process that submits was woken for it; it is not any more.
    pub(super) fn resumes(&mut self, process: ProcessId) -> bool {
        std::mem::take(&mut self.is_woken[process.index()])
    }

    /// A request is free, but not by a completion.
    pub(super) fn add_spare(&mut self) {
        self.spare += 1;
    }

    /// A request is complete: it wakes one process, and one for each that came free before.
    pub(super) fn wake(&mut self, woken: &mut Vec<ProcessId>) {
        let count = self.waiting.len().min(1 + std::mem::take(&mut self.spare));
        for process in self.waiting.drain(..count) {
            self.is_woken[process.index()] = true;
            woken.push(process);
        }
    }
}
