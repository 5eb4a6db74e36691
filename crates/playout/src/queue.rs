//! [`Queue`]: the reads of an open file that wait, and which is served next.
//!
//! A program with one thread has one read at a time. Page faults of a mapping, and threads, have several, which come in any order: they are served in the order
//! of the file as far as the stream's buffer reaches, or each would throw away what was fetched for the other.

/// A read passed over so often by others is served.
const PASSED_MAX: u32 = 8;

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What its answer names it by.
    pub(crate) unique: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    /// The thread that waits for it.
    pub(crate) thread: i32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    /// How often another was served that came later.
    passed: u32,
    /// A signal came for its thread.
    is_doubted: bool,
}

/// The reads of one open file.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Vec<Waiting>,
    serving: Option<Waiting>,
    /// The one being served is wanted no more.
    is_given_up: bool,
    /// The file is closed.
    is_closed: bool,
}

/// What is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It waited: whoever gave it up answers.
    Waiting(u64),
    /// It is being served: who serves it answers when called back.
    Serving,
}

impl Queue {
    /// A read comes.
    pub(crate) fn push(&mut self, request: Request) {
        self.waiting.push(Waiting { request, passed: 0, is_doubted: false });
    }

    /// The next to serve: the first in the file of those between two places, where there are some; else the one that came first.
    pub(crate) fn next(&mut self, (from, to): (u64, u64)) -> Option<Request> {
        let near = |one: &&Waiting| (from..=to).contains(&one.request.offset);
        let at = self.waiting.iter().position(|one| one.passed >= PASSED_MAX).or_else(|| {
            let first = self.waiting.iter().filter(near).map(|one| one.request.offset).min()?;
            self.waiting.iter().position(|one| one.request.offset == first)
        });
        if self.waiting.is_empty() {
            return None;
        }
        let next = self.waiting.remove(at.unwrap_or(0));
        self.waiting[..at.unwrap_or(0)].iter_mut().for_each(|passed| passed.passed += 1);
        (self.serving, self.is_given_up) = (Some(next), false);
        Some(next.request)
    }

    /// The one that was served has its answer.
    pub(crate) fn answered(&mut self) {
        self.serving = None;
    }

    /// Whether the one being served is wanted no more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up || self.is_closed
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Nobody serves it any more: what waited and what was being served is handed out.
    pub(crate) fn abandon(&mut self) -> Vec<Request> {
        let serving = self.serving.take().map(|one| one.request);
        self.close().into_iter().chain(serving).collect()
    }

    /// The file is closed: what waited is handed out.
    pub(crate) fn close(&mut self) -> Vec<Request> {
        self.is_closed = true;
        self.waiting.drain(..).map(|one| one.request).collect()
    }

    /// A signal came for the thread of a read; whether there is that read.
    pub(crate) fn doubt(&mut self, unique: u64) -> bool {
        let all = self.waiting.iter_mut().chain(&mut self.serving);
        let found = all.filter(|one| one.request.unique == unique).map(|one| one.is_doubted = true);
        found.count() > 0
    }

    /// The reads for whose threads signals came.
    pub(crate) fn doubted(&self) -> Vec<Request> {
        let all = self.waiting.iter().chain(&self.serving);
        all.filter(|one| one.is_doubted).map(|one| one.request).collect()
    }

    /// A read is wanted no more.
    pub(crate) fn give_up(&mut self, unique: u64) -> Option<GivenUp> {
        if self.serving.is_some_and(|one| one.request.unique == unique) {
            self.is_given_up = true;
            return Some(GivenUp::Serving);
        }
        let at = self.waiting.iter().position(|one| one.request.unique == unique)?;
        Some(GivenUp::Waiting(self.waiting.remove(at).request.unique))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(unique: u64, offset: u64) -> Request {
        Request { unique, offset, bytes: 4096, thread: 1 }
    }

    #[test]
    fn what_is_near_goes_in_the_order_of_the_file_and_the_rest_as_it_came() {
        let mut queue = Queue::default();
        for (unique, offset) in [(1, 900), (2, 140), (3, 100), (4, 120), (5, 50)] {
            queue.push(read(unique, offset));
        }
        let mut served = Vec::new();
        while let Some(request) = queue.next((100, 200)) {
            served.push(request.unique);
            queue.answered();
        }
        assert_eq!(served, [3, 4, 2, 1, 5]);
    }

    #[test]
    fn a_signal_doubts_a_read_and_only_that_one_is_given_up() {
        let mut queue = Queue::default();
        (1..=3).for_each(|unique| queue.push(read(unique, unique * 10)));
        assert_eq!(queue.next((0, 100)).map(|request| request.unique), Some(1));
        assert!(queue.doubt(1) && queue.doubt(3) && !queue.doubt(9));
        assert_eq!(queue.doubted().iter().map(|one| one.unique).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(queue.give_up(3), Some(GivenUp::Waiting(3)));
        assert!(!queue.is_given_up());
        assert_eq!(queue.give_up(1), Some(GivenUp::Serving));
        assert!(queue.is_given_up());
        queue.answered();
        assert_eq!(queue.next((0, 100)).map(|request| request.unique), Some(2));
        assert!(!queue.is_given_up(), "that was another one");
        queue.push(read(7, 0));
        assert_eq!(queue.abandon(), [read(7, 0), read(2, 20)]);
        assert!(queue.is_given_up() && queue.is_closed());
        assert_eq!(queue.close(), []);
    }

    proptest! {
        /// However others crowd in front of it, each read is served before more than some that came later.
        #[test]
        fn nobody_waits_for_ever(offsets in prop::collection::vec(0_u64..300, 1..60)) {
            let mut queue = Queue::default();
            queue.push(read(0, 1000));
            let mut served = 0;
            for (unique, offset) in (1..).zip(&offsets) {
                queue.push(read(unique, *offset));
                served += 1;
                if queue.next((0, 300)).is_some_and(|request| request.unique == 0) {
                    break;
                }
            }
            prop_assert!(served <= PASSED_MAX + 1);
        }
    }
}
