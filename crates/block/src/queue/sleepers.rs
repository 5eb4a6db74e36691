//! [`Sleepers`]: processes that wait for a request.

use std::collections::VecDeque;

use crate::request::ProcessId;

/// Wait queues of a bitmap of tags (`SBQ_WAIT_QUEUES`).
const OF_TAGS: usize = 8;

/// Who sleeps until there is a request.
///
/// On 2.6 they stand in one queue. Those that wait for a tag are dealt out over eight, one after the other, and the first of each is woken in
/// turn (`sbq_wait_ptr`, `__sbitmap_queue_wake_up` in `lib/sbitmap.c`). A process takes its place when it begins to wait, and one more, for the case
/// that there is none after all, when it was woken (`blk_mq_get_tag`): the two turns go apart, so that the first to come need not be
/// the first to go. One is woken for each tag, as where an I/O scheduler limits tags or the device has fewer than 16.
#[derive(Clone, Debug)]
pub(super) struct Sleepers {
    queues: Vec<VecDeque<ProcessId>>,
    /// The queue that the next one takes its place in, and that which is woken from next.
    place: usize,
    turn: usize,
    by_process: Vec<State>,
    /// Who came for a request just now after it was woken, and its place.
    resumed: Option<(ProcessId, usize)>,
    waiting: usize,
    /// Requests that came free without a completion: somebody more is woken for each with the next.
    spare: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Waits,
    /// Was woken for a request that it has not taken yet, and has this place if there is none.
    Woken(usize),
}

impl Default for Sleepers {
    fn default() -> Sleepers {
        Sleepers::over(1)
    }
}

impl Sleepers {
    fn over(queues: usize) -> Sleepers {
        Sleepers {
            queues: vec![VecDeque::new(); queues],
            place: 0,
            turn: 0,
            by_process: Vec::new(),
            resumed: None,
            waiting: 0,
            spare: 0,
        }
    }

    /// Those that wait for tags.
    pub(super) fn of_tags() -> Sleepers {
        Sleepers::over(OF_TAGS)
    }

    /// Another process.
    pub(super) fn add_process(&mut self) {
        self.by_process.push(State::Runs);
    }

    fn next_place(&mut self) -> usize {
        let next = (self.place + 1) % self.queues.len();
        std::mem::replace(&mut self.place, next)
    }

    /// A process finds no request.
    pub(super) fn sleep(&mut self, process: ProcessId) {
        if std::mem::replace(&mut self.by_process[process.index()], State::Waits) == State::Waits {
            return;
        }
        let kept = self.resumed.take().filter(|(resumed, _)| *resumed == process);
        let place = kept.map_or_else(|| self.next_place(), |(_, place)| place);
        self.queues[place].push_back(process);
        self.waiting += 1;
    }

    /// Whether a process that submits was woken for it; it is not any more.
    pub(super) fn resumes(&mut self, process: ProcessId) -> bool {
        let state = &mut self.by_process[process.index()];
        self.resumed = None;
        if let State::Woken(place) = *state {
            (*state, self.resumed) = (State::Runs, Some((process, place)));
        }
        self.resumed.is_some()
    }

    /// A request is free, but not by a completion.
    pub(super) fn add_spare(&mut self) {
        self.spare += 1;
    }

    /// A request is complete: it wakes one process, and one for each that came free before.
    pub(super) fn wake(&mut self, woken: &mut Vec<ProcessId>) {
        let count = self.waiting.min(1 + std::mem::take(&mut self.spare));
        for _ in 0..count {
            let process = loop {
                let first = self.queues[self.turn].pop_front();
                self.turn = (self.turn + 1) % self.queues.len();
                if let Some(process) = first {
                    break process;
                }
            };
            self.waiting -= 1;
            self.by_process[process.index()] = State::Woken(self.next_place());
            woken.push(process);
        }
    }
}
