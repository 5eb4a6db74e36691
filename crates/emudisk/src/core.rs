//! [`Core`]: what a disk does with a request, without a clock, a thread or a kernel: `(state, event) -> completions`.
//!
//! The kernel gives more requests than the device takes at a time: the loop driver has 128 tags. Those wait here, in the order they came, and are accepted by
//! the model at the instant at which it completes another. A flush waits for nothing but its place. So the model sees what it would see from a
//! driver that is never late, whenever its own time is looked at.

use std::collections::VecDeque;

use surety_device::{Completion, Model, Request};
use surety_units::Nanos;

/// What happens to a disk, at an instant that is told with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request came. The tag names it until it is complete; no two at a time have the same.
    Arrived { tag: u32, request: Request },
    /// Time went by.
    Time,
}

/// A request that the device is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub tag: u32,
    /// When it is to be answered.
    pub due: Nanos,
    /// What it took the device, without waiting in it for other requests.
    pub service: Nanos,
}

/// A device model and the requests that it has no room for yet.
pub struct Core {
    model: Box<dyn Model + Send>,
    waiting: VecDeque<(u32, Request)>,
    /// When something happened in it last.
    latest: Nanos,
}

impl Core {
    /// A disk at rest.
    pub fn new(model: Box<dyn Model + Send>) -> Core {
        Core { model, waiting: VecDeque::new(), latest: Nanos::ZERO }
    }

    /// Takes an event at an instant, and adds what is complete by then, in that order. A request that comes before something that happened
    /// already comes at that instant.
    ///
    /// # Panics
    /// With a request beyond the disk's sectors.
    pub fn take(&mut self, now: Nanos, event: Event, done: &mut Vec<Done>) {
        self.advance(now, done);
        if let Event::Arrived { tag, request } = event {
            self.latest = self.latest.max(now);
            self.waiting.push_back((tag, request));
            self.fill(self.latest);
            // A request that takes no time is complete already.
            self.advance(self.latest, done);
        }
    }

    /// When a request comes for the model that would come at an instant: not before something that happened already.
    pub fn arrival(&self, at: Nanos) -> Nanos {
        at.max(self.latest)
    }

    /// When something happens in it next; `None`: never, unless a request comes.
    pub fn next(&self) -> Option<Nanos> {
        self.model.next()
    }

    /// The tag of a request that is certain to be complete at an instant, though its time may not have come: the first, or the one after that many others.
    pub fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.model.foreseen(after)
    }

    /// Puts another disk in its place, which remembers nothing, if no request is inside; says whether it did.
    pub fn renew(&mut self, model: Box<dyn Model + Send>) -> bool {
        let is_idle = self.inside() == 0;
        if is_idle {
            self.model = model;
        }
        is_idle
    }

    /// Requests that came and are not complete.
    pub fn inside(&self) -> usize {
        self.waiting.len() + self.model.queued()
    }

    /// Whether requests wait in front of the device, which has room for no more.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(at) = self.model.next().filter(|at| *at <= now) {
            // At its own instant and not at the one at which it was looked at.
            self.latest = self.latest.max(at);
            while let Some(completion) = self.model.advance(at) {
                done.push(of(&completion));
            }
            self.fill(at);
        }
    }

    /// Gives the model what it has room for.
    fn fill(&mut self, now: Nanos) {
        while self.model.queued() < self.model.depth() {
            let Some((tag, request)) = self.waiting.pop_front() else { break };
            self.model.accept(now, tag, &request);
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a disk with {} requests", self.inside())
    }
}

fn of(completion: &Completion) -> Done {
    let service = completion.service.total() - completion.service.queue;
    Done { tag: completion.tag, due: completion.completed, service }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_device::Op;
    use surety_device::profile::Profile;

    fn ms(ms: i64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// A device that takes 1 ms for each request and `lanes` at a time.
    fn fixed(depth: u32, lanes: u32) -> Core {
        let text = format!(
            "format = 1\nmodel = \"fixed\"\nabout = \"a test\"\nsources = []\nsize = \"1GiB\"\nread = \"1ms\"\nwrite = \"1ms\"\nflush = \"1ms\"\n\
             lanes = {lanes}\ndepth = {depth}\n"
        );
        Core::new(Profile::read("test", "test", &text).unwrap().build(1))
    }

    fn read(tag: u32) -> Event {
        Event::Arrived { tag, request: Request::new(Op::Read, u64::from(tag) * 8, 8) }
    }

    #[test]
    fn requests_beyond_the_depth_are_accepted_when_others_complete_however_late_one_looks() {
        let (mut core, mut done) = (fixed(1, 1), Vec::new());
        for tag in 0..4 {
            core.take(Nanos::ZERO, read(tag), &mut done);
        }
        assert_eq!((done.len(), core.inside(), core.next()), (0, 4, Some(ms(1))));
        assert!(core.is_full());
        // Looked at once, long after: the instants are those of a device that never waited.
        core.take(ms(100), Event::Time, &mut done);
        let due: Vec<(u32, Nanos)> = done.iter().map(|done| (done.tag, done.due)).collect();
        assert_eq!(due, [(0, ms(1)), (1, ms(2)), (2, ms(3)), (3, ms(4))]);
        assert!(done.iter().all(|done| done.service == ms(1)), "what a request waited for is not its own");
        assert_eq!((core.inside(), core.next(), core.is_full()), (0, None, false));
    }

    #[test]
    fn an_arrival_finds_the_device_as_it_is_then() {
        let (mut core, mut done) = (fixed(2, 1), Vec::new());
        core.take(Nanos::ZERO, read(0), &mut done);
        core.take(ms(5), read(1), &mut done);
        assert_eq!(done.iter().map(|d| d.due).collect::<Vec<_>>(), [ms(1)]);
        core.take(ms(9), Event::Time, &mut done);
        assert_eq!(done[1].due, ms(6), "it began when it came");
    }

    #[test]
    fn a_request_comes_no_earlier_than_what_happened_before_it() {
        let (mut core, mut done) = (fixed(2, 1), Vec::new());
        core.take(ms(1), read(0), &mut done);
        core.take(ms(5), Event::Time, &mut done);
        assert_eq!(done[0].due, ms(2));
        // Looking at it at 5 ms was nothing that happened.
        core.take(ms(3), read(1), &mut done);
        core.take(ms(2), read(2), &mut done);
        core.take(ms(9), Event::Time, &mut done);
        assert_eq!(done[1..].iter().map(|d| d.due).collect::<Vec<_>>(), [ms(4), ms(5)]);
        core.take(ms(1), read(3), &mut done);
        core.take(ms(9), Event::Time, &mut done);
        assert_eq!(done[3].due, ms(6), "it began when the one before it ended");
        assert_eq!([1, 8].map(|at| core.arrival(ms(at))), [ms(6), ms(8)]);
    }

    #[test]
    fn another_disk_takes_its_place_only_while_nothing_is_inside() {
        let profile = Profile::named("hdd-7200").unwrap();
        let (mut core, mut done) = (Core::new(profile.build(3)), Vec::new());
        let mut took = |core: &mut Core, at: Nanos| {
            core.take(at, Event::Arrived { tag: 0, request: Request::new(Op::Read, 80_000, 8) }, &mut done);
            core.renew(profile.build(3));
            while let Some(next) = core.next() {
                core.take(next, Event::Time, &mut done);
            }
            done.pop().unwrap().due - at
        };
        let (first, again) = (took(&mut core, ms(10)), took(&mut core, ms(50)));
        assert!(first > again * 3, "{first} from the medium, {again} from its buffer");
        core.renew(profile.build(3));
        // Twelve turns after the first.
        let forgotten = took(&mut core, ms(110));
        assert!(forgotten.get().abs_diff(first.get()) < 50_000, "{forgotten} again, {first} at first");
    }

    proptest! {
        /// Whatever comes when and however seldom one looks: each request is complete once, in order, and the same as driven at each instant.
        #[test]
        fn how_often_one_looks_changes_nothing(
            gaps in prop::collection::vec((0..4000_i64, 0..1_000_000_u64, any::<bool>()), 1..60),
            looks in prop::collection::vec(1..5000_i64, 1..20),
        ) {
            let profile = Profile::named("hdd-7200").unwrap();
            let run = |eager: bool| {
                let (mut core, mut done, mut now) = (Core::new(profile.build(3)), Vec::new(), Nanos::ZERO);
                for (tag, (gap, sector, is_read)) in gaps.iter().enumerate() {
                    let until = now + Nanos::from_micros(*gap);
                    while let Some(at) = core.next().filter(|at| eager && *at <= until) {
                        core.take(at, Event::Time, &mut done);
                    }
                    if !eager {
                        let look = now + Nanos::from_micros(looks[tag % looks.len()]);
                        core.take(look.min(until), Event::Time, &mut done);
                    }
                    now = until;
                    let op = if *is_read { Op::Read } else { Op::Write };
                    let request = Request::new(op, sector * 8, 8);
                    core.take(now, Event::Arrived { tag: tag as u32, request }, &mut done);
                }
                while let Some(at) = core.next() {
                    core.take(at, Event::Time, &mut done);
                }
                done
            };
            let (eager, lazy) = (run(true), run(false));
            prop_assert_eq!(&eager, &lazy);
            let mut tags: Vec<u32> = eager.iter().map(|done| done.tag).collect();
            tags.sort_unstable();
            prop_assert_eq!(tags, (0..gaps.len() as u32).collect::<Vec<_>>());
            prop_assert!(eager.is_sorted_by_key(|done| done.due));
        }
    }
}
