//! [`Sleepers`]: processes that wait for a request.

use std::collections::VecDeque;

use crate::kernels::{Rules, WAIT_QUEUES};
use crate::request::ProcessId;

/// Who sleeps until there is a request.
///
/// On 2.6 they stand in one queue. Those that wait for a tag are dealt out over eight, one after the other, and the first of each is woken in
/// turn (`sbq_wait_ptr`, `__sbitmap_queue_wake_up` in `lib/sbitmap.c`). A process takes its place when it begins to wait, and one more, for the case
/// that there is none after all, when it was woken (`blk_mq_get_tag`): the two turns go apart, so that the first to come need not be
/// the first to go. A batch of them is woken at once, when as many tags came free while somebody waited
/// (`sbitmap_queue_wake_up`).
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
    /// Woken, and not come yet.
    coming: usize,
    /// How many are woken at once, and whether only from one queue, however few stand there.
    batch: usize,
    of_one_queue: bool,
    /// Requests that came free since the last batch was woken, while somebody waited.
    freed: usize,
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
        Sleepers::over(1, 1, false)
    }
}

impl Sleepers {
    fn over(queues: usize, batch: usize, of_one_queue: bool) -> Sleepers {
        Sleepers {
            queues: vec![VecDeque::new(); queues],
            place: 0,
            turn: 0,
            by_process: Vec::new(),
            resumed: None,
            waiting: 0,
            coming: 0,
            batch,
            of_one_queue,
            freed: 0,
            spare: 0,
        }
    }

    /// Those that wait for tags of a queue whose I/O scheduler has `least` for its least limit on them.
    pub(super) fn of_tags(requests: u32, least: u32, rules: &Rules) -> Sleepers {
        Sleepers::over(
            WAIT_QUEUES as usize,
            rules.wake_batch(requests, least) as usize,
            rules.wakes_of_one_queue,
        )
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
            self.coming -= 1;
            (*state, self.resumed) = (State::Runs, Some((process, place)));
        }
        self.resumed.is_some()
    }

    /// A request is free, but not by a completion.
    pub(super) fn add_spare(&mut self) {
        self.spare += 1;
    }

    /// A request is complete, and with it come those that came free before: it wakes whom they make a batch for.
    pub(super) fn wake(&mut self, woken: &mut Vec<ProcessId>) {
        let freed = 1 + std::mem::take(&mut self.spare);
        if self.waiting + self.coming == 0 {
            return;
        }
        self.freed += freed;
        while self.freed >= self.batch {
            self.freed -= self.batch;
            self.wake_batch(woken);
        }
    }

    fn wake_batch(&mut self, woken: &mut Vec<ProcessId>) {
        let mut left = self.batch;
        for _ in 0..self.queues.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.queues.len();
            let count = left.min(self.queues[turn].len());
            for _ in 0..count {
                let process = self.queues[turn].pop_front().expect("it was counted");
                self.waiting -= 1;
                self.coming += 1;
                self.by_process[process.index()] = State::Woken(self.next_place());
                woken.push(process);
            }
            left -= count;
            if left == 0 || (count > 0 && self.of_one_queue) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten wait, in the order in which they came; what each of the following frees wakes.
    fn woken(sleepers: &mut Sleepers, frees: usize) -> Vec<Vec<u32>> {
        (0..10).for_each(|_| sleepers.add_process());
        (0..10).for_each(|process| sleepers.sleep(ProcessId(process)));
        let wake = |_| {
            let mut woken = Vec::new();
            sleepers.wake(&mut woken);
            woken.into_iter().map(|process| process.0).collect()
        };
        (0..frees).map(wake).collect()
    }

    /// 128 tags of which 96 are the least limit: eight at once. 6.12 takes them from the queues in turn, of which the first two have two each.
    /// 6.1 takes those of one queue: two.
    #[test]
    fn who_waits_is_woken_in_batches() {
        for (kernel, first, second) in
            [("6.12", vec![0, 8, 1, 9, 2, 3, 4, 5], vec![6, 7]), ("6.1", vec![0, 8], vec![1, 9])]
        {
            let rules = Rules::named(kernel).expect("it has a row");
            let least = rules.share(128, 75, 100);
            let of_each = woken(&mut Sleepers::of_tags(128, least, rules), 16);
            assert_eq!((of_each[7].clone(), of_each[15].clone()), (first, second), "{kernel}");
            assert_eq!(of_each.iter().filter(|woken| !woken.is_empty()).count(), 2, "{kernel}");
        }
    }

    /// A least limit of one: one for each.
    #[test]
    fn who_waits_is_woken_alone_where_the_limit_may_be_one() {
        let mut sleepers = Sleepers::of_tags(128, 1, Rules::named("6.12").expect("it has a row"));
        assert_eq!(woken(&mut sleepers, 3), [[0], [1], [2]]);
    }

    /// What comes free while nobody waits counts for no batch; what does while some are still on their way does.
    #[test]
    fn a_batch_counts_what_came_free_meanwhile() {
        let mut sleepers = Sleepers::of_tags(32, u32::MAX, Rules::named("6.12").expect("it has a row"));
        let mut none = Vec::new();
        (0..3).for_each(|_| sleepers.wake(&mut none));
        assert_eq!(none, []);
        let of_each = woken(&mut sleepers, 14);
        let at: Vec<usize> = (0..14).filter(|at| !of_each[*at].is_empty()).collect();
        assert_eq!((at, of_each.concat().len()), (vec![3, 7, 11], 10));
        assert_eq!(sleepers.freed, 2);
    }
}
