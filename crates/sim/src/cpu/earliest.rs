//! [`Earliest`]: the queues of a scheduler that runs the earliest deadlines of a machine, with threads confined to CPUs. It knows no budgets.
//!
//! A CPU runs the first of its queue, of equal deadlines who came first. A thread that joins goes to the CPU where it runs at once, where there
//! is one; a CPU that chooses takes a thread that waits elsewhere with an earlier deadline. So the threads that run are those with the earliest deadlines,
//! as far as the CPUs that they may use allow.

use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, ThreadId};
use crate::cpu::sorted::Sorted;

/// Where a thread stands.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    deadline: Nanos,
    /// Its key and its order in its queue, while it is there.
    place: Option<(i64, u64)>,
    /// When it joined by [`Earliest::insert_in_turn`].
    joined: Option<Nanos>,
}

/// How threads of all queues stand: by their deadlines, and those that joined in turn by when they did and who was made first.
type Order = (i64, Option<(Nanos, u32)>);

/// Behind all threads.
const LAST: Order = (i64::MAX, None);

/// What a timer of a scheduler with budgets is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The budget of what a CPU runs ends.
    End(usize),
    /// A thread without budget gets one.
    Replenishment(ThreadId),
}

impl Due {
    /// Its number on a machine with this many CPUs.
    pub fn number(self, cpus: usize) -> u32 {
        let place = match self {
            Due::End(cpu) => cpu,
            Due::Replenishment(thread) => cpus + thread.index(),
        };
        u32::try_from(place).expect("fewer than 2^28 CPUs and threads")
    }
}

/// The queues.
#[derive(Debug)]
pub struct Earliest {
    rank: Rank,
    /// By CPU, in order of deadlines, the running thread included.
    queues: Vec<Sorted<0>>,
    threads: Vec<Standing>,
    found: Option<(ThreadId, usize)>,
}

impl Earliest {
    /// Of the scheduler of a rank, without threads.
    pub fn new(cpus: usize, rank: Rank) -> Earliest {
        let queues = (0..cpus).map(|_| Sorted::default()).collect();
        Earliest { rank, queues, threads: Vec::new(), found: None }
    }

    /// Another thread exists.
    pub fn admit(&mut self) {
        self.threads.push(Standing::default());
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.queues.len()
    }

    /// What the timer of a number is for.
    pub fn due(&self, number: u32) -> Due {
        match (number as usize).checked_sub(self.cpus()) {
            Some(thread) => Due::Replenishment(ThreadId(u32::try_from(thread).expect("it was one"))),
            None => Due::End(number as usize),
        }
    }

    /// The CPU whose time has to be booked before that timer, and which it interrupts.
    pub fn interrupts(&self, number: u32) -> Option<usize> {
        match self.due(number) {
            Due::End(cpu) => Some(cpu),
            Due::Replenishment(_) => None,
        }
    }

    /// The one that a thread was last given; 0 before.
    pub fn deadline(&self, thread: ThreadId) -> Nanos {
        self.threads[thread.index()].deadline
    }

    /// Of a thread in a queue it counts when that joins one again.
    pub fn set_deadline(&mut self, thread: ThreadId, deadline: Nanos) {
        self.threads[thread.index()].deadline = deadline;
    }

    /// Whether a thread stands in a queue, or runs from one.
    pub fn is_queued(&self, thread: ThreadId) -> bool {
        self.threads[thread.index()].place.is_some()
    }

    /// Who has the earliest deadline of a CPU's queue.
    pub fn first(&self, cpu: usize) -> Option<ThreadId> {
        self.queues[cpu].first().map(|first| ThreadId(first.item))
    }

    /// A thread joins the queue of a CPU.
    pub fn insert(&mut self, cpu: usize, thread: ThreadId) {
        let standing = &mut self.threads[thread.index()];
        let key = standing.deadline.get();
        standing.place = Some((key, self.queues[cpu].insert(key, thread.0, [])));
    }

    /// The same at an instant: of those that join with one deadline then, who was made first is first.
    pub fn insert_in_turn(&mut self, cpu: usize, thread: ThreadId, now: Nanos) {
        self.threads[thread.index()].joined = Some(now);
        self.insert_in_order(cpu, thread);
    }

    /// Where a thread stands among those of all queues.
    fn order(&self, thread: ThreadId) -> Order {
        let Standing { deadline, place, joined } = self.threads[thread.index()];
        let key = place.map_or(deadline.get(), |(key, _)| key);
        (key, joined.map(|joined| (joined, thread.0)))
    }

    /// A thread joins a queue in front of those with its deadline that have joined in turn after it.
    fn insert_in_order(&mut self, cpu: usize, thread: ThreadId) {
        let own = self.order(thread);
        let queue = self.queues[cpu].iter().skip_while(|member| member.key < own.0);
        let equal = queue.take_while(|member| member.key == own.0);
        let is_behind =
            |item: &u32| self.threads[*item as usize].joined.map(|joined| (joined, *item)) > own.1;
        let behind: Vec<u32> = equal.map(|member| member.item).filter(is_behind).collect();
        self.insert(cpu, thread);
        for other in behind.into_iter().map(ThreadId) {
            self.remove(cpu, other);
            self.insert(cpu, other);
        }
    }

    /// A thread leaves it, where it is there.
    pub fn remove(&mut self, cpu: usize, thread: ThreadId) {
        if let Some((key, order)) = self.threads[thread.index()].place.take() {
            self.queues[cpu].remove(key, order);
        }
    }

    /// Whether a thread comes before what a CPU runs.
    pub fn comes_before(&self, hardware: &Hardware, cpu: usize, thread: ThreadId) -> bool {
        let Some(current) = hardware.current(cpu) else { return true };
        let rank = hardware.thread(current).rank;
        let is_earlier = || self.deadline(thread) < self.deadline(current);
        rank > self.rank || rank == self.rank && (!self.is_queued(current) || is_earlier())
    }

    /// The CPU for a thread: its own where that has nothing of the class or more important, else one without, else the one with the latest
    /// deadline, where that is later; of equal ones that of the thread that stands last.
    pub fn target(&self, hardware: &Hardware, thread: ThreadId) -> Option<usize> {
        let t = hardware.thread(thread);
        let runs = |cpu: usize| hardware.current(cpu).map(|current| hardware.thread(current).rank);
        let is_free =
            |cpu: usize| runs(cpu).is_none_or(|rank| rank > self.rank) && self.queues[cpu].is_empty();
        let cpus = self.queues.len();
        let nearest = (0..cpus).map(|step| (t.cpu + step) % cpus).filter(|cpu| t.may_run_on(*cpu));
        let latest = |cpu: &usize| self.first(*cpu).map_or(LAST, |first| self.order(first));
        nearest.clone().find(|cpu| is_free(*cpu)).or_else(|| {
            let candidates = nearest.filter(|cpu| runs(*cpu).is_none_or(|rank| rank >= self.rank));
            let found = candidates.max_by_key(latest)?;
            (latest(&found).0 > self.deadline(thread).get()).then_some(found)
        })
    }

    /// A thread was preempted: it may run where a later deadline does.
    pub fn preempted(&self, hardware: &mut Hardware, cpu: usize, thread: ThreadId) {
        if self.is_queued(thread)
            && let Some(target) = self.target(hardware, thread).filter(|target| *target != cpu)
        {
            hardware.reschedule(target);
        }
    }

    /// As [`crate::cpu::policy::CpuPolicy::pulls_from`].
    pub fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        let mut best = self.first(cpu).map_or(LAST, |first| self.order(first));
        self.found = None;
        for (other, queue) in self.queues.iter().enumerate().filter(|(other, _)| *other != cpu) {
            let current = hardware.current(other).map(|thread| thread.0);
            let fits = |item: u32| Some(item) != current && hardware.thread(ThreadId(item)).may_run_on(cpu);
            if let Some(member) =
                queue.iter().find(|member| fits(member.item)).map(|member| ThreadId(member.item))
                && self.order(member) < best
            {
                (best, self.found) = (self.order(member), Some((member, other)));
            }
        }
        self.found.map(|(_, from)| from)
    }

    /// Takes what [`Earliest::pulls_from`] has found.
    pub fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        if let Some((thread, from)) = self.found.take() {
            self.remove(from, thread);
            hardware.move_waiting(thread, cpu);
            self.insert_in_order(cpu, thread);
        }
    }
}
