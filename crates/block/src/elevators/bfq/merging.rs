//! Queues whose processes read interleaved, or were made together, become one (`bfq_setup_cooperator`,
//! `bfq_do_or_sched_stable_merge`), and are split when that does not pay (`bfq_split_bfqq`).

use super::close::CLOSE;
use super::queue::{Member, Saved};
use super::*;

/// A queue that has been served for longer is not merged with a close one (`bfq_merge_time_limit`).
const LATE: Nanos = Nanos::from_millis(100);
/// Queues made within this of the first are candidates to be merged for good, or begin a new set
/// (`bfq_activation_stable_merging`).
const TOGETHER: Nanos = Nanos::from_millis(600);
/// Such a merge is decided when the queue is this old (`bfq_late_stable_merging`).
const DECIDED: Nanos = Nanos::from_millis(600);

impl Bfq {
    /// The queue for a process's requests, made where there is none, split off where it does not pay to share it.
    pub(super) fn queue_of(&mut self, context: &Context<'_>, process: ProcessId, sync: bool) -> usize {
        let (priority, now) = (context.processes[process.index()].priority, context.now);
        if !sync {
            let group = self.group_of_process(context, process);
            return match self.of_priority.get(&(group, priority)) {
                Some(known) => *known,
                None => {
                    let q = self.makes(priority, false, group, now);
                    self.of_priority.insert((group, priority), q);
                    q
                }
            };
        }
        let q = match self.members[process.index()].queue {
            None => {
                let group = self.group_of_process(context, process);
                self.makes_for(process, (priority, group), false, now)
            }
            Some(q) if self.queues[q].splits && !self.members[process.index()].is_stable => {
                self.splits(process, q, now)
            }
            Some(q) => q,
        };
        if self.queues[q].merges_into.is_none() && self.queues[q].processes == 1 {
            self.queues[q].owner = Some(process);
        }
        self.queues[q].process = Some(process);
        if self.queues[q].is_new && (self.burst_size > 0 || self.busy == 0) {
            self.looks_at_burst(q, now);
        }
        q
    }

    /// The queue that a process's bios go to, where it has one.
    pub(super) fn known_queue_of(&self, context: &Context<'_>, bio: &Bio) -> Option<usize> {
        match bio.sync {
            true => self.members.get(bio.process.index())?.queue,
            false => {
                let priority = context.processes[bio.process.index()].priority;
                self.of_priority.get(&(self.group_of_process(context, bio.process), priority)).copied()
            }
        }
    }

    fn makes(&mut self, priority: Priority, sync: bool, group: usize, now: Nanos) -> usize {
        let mut queue = Queue::new(priority, sync, now, self.max_budget() * 2 / 3);
        if self.rules.bfq_new_queue_ends_sample {
            queue.injection.decreased = LONG_AGO;
        }
        self.engine.add(Entity::new(priority.class, queue.weight(), group));
        self.queues.push(queue);
        self.queues.len() - 1
    }

    /// A queue for a process; `again`: after a split.
    fn makes_for(
        &mut self,
        process: ProcessId,
        (priority, group): (Priority, usize),
        again: bool,
        now: Nanos,
    ) -> usize {
        let mut q = self.makes(priority, true, group, now);
        self.members[process.index()].queue = Some(q);
        if !again && self.set.merging {
            q = self.joins_those_made_before(process, q, now);
        }
        q
    }

    /// A queue was made shortly after others: it is one with the first of them, at once where the device keeps several requests going
    /// and does not turn, later elsewhere (`bfq_do_or_sched_stable_merge`).
    fn joins_those_made_before(&mut self, process: ProcessId, q: usize, now: Nanos) -> usize {
        let (queue, group) = (&self.queues[q], self.group_of(q));
        let first = self.made_last[group].filter(|first| {
            let first = &self.queues[*first];
            first.created + TOGETHER >= queue.created && first.priority == queue.priority
        });
        let Some(first) = first else {
            self.made_last[group] = Some(q);
            return q;
        };
        if self.queues[first].created + BURST_INTERVAL < queue.created {
            return q;
        }
        if !self.is_flash_with_queue() {
            self.members[process.index()].merges_later = Some(first);
            return q;
        }
        let Some(into) = self.sets_up(q, first) else { return q };
        self.marks_stable(process, into);
        self.queues[q].owner = Some(process);
        self.merges(process, q, now)
    }

    fn marks_stable(&mut self, process: ProcessId, into: usize) {
        self.members[process.index()].is_stable = true;
        if let Some(owner) = self.queues[into].owner {
            self.members[owner.index()].is_stable = true;
        }
    }

    pub(super) fn is_flash_with_queue(&self) -> bool {
        !self.rotational && self.device_queues != Some(false)
    }

    /// Whether a queue has been served for too long to be merged with a close one.
    pub(super) fn has_been_served_for_long(&self, q: usize, now: Nanos) -> bool {
        let queue = &self.queues[q];
        queue.backlog_service > 0 && queue.first_service + LATE < now
    }

    /// The queue that a process's next requests go to from here on instead of its own, where they are about to begin at a sector
    /// (`bfq_setup_cooperator`).
    fn partner(&mut self, context: &Context<'_>, q: usize, process: ProcessId, sector: u64) -> Option<usize> {
        let now = context.now;
        if let Some(mut into) = self.queues[q].merges_into {
            while let Some(next) = self.queues[into].merges_into {
                into = next;
            }
            return Some(into);
        }
        if self.is_flash_with_queue() {
            return None;
        }
        let queue = &self.queues[q];
        let is_decided = !queue.is_new && queue.split + DECIDED < now && queue.created + DECIDED < now;
        if is_decided && let Some(first) = self.members[process.index()].merges_later.take() {
            let is_left = self.queues[first].processes == 0 || self.boosts_by_idling(q);
            let into = if is_left { None } else { self.sets_up(q, first) };
            if let Some(into) = into {
                self.marks_stable(process, into);
            }
            return into;
        }
        if self.has_been_served_for_long(q, now) || self.busy == 1 {
            return None;
        }
        if let Some(served) = self.in_service.filter(|served| *served != q)
            && self.served_position.abs_diff(sector) <= CLOSE
            && self.group_of(served) == self.group_of(q)
            && self.may_cooperate(q, served, now)
            && let Some(into) = self.sets_up(q, served)
        {
            return Some(into);
        }
        let close = self.closest(context, self.group_of(q), sector).filter(|close| *close != q)?;
        if self.may_cooperate(q, close, now) { self.sets_up(q, close) } else { None }
    }

    fn may_cooperate(&self, q: usize, other: usize, now: Nanos) -> bool {
        let (one, other_one) = (&self.queues[q], &self.queues[other]);
        !self.has_been_served_for_long(other, now)
            && one.priority.class == other_one.priority.class
            && one.priority.class != IoClass::Idle
            && !one.is_seeky()
            && !other_one.is_seeky()
            && one.sync
            && other_one.sync
    }

    /// Requests of a queue's processes are going to go to another (`bfq_setup_merge`).
    fn sets_up(&mut self, q: usize, mut into: usize) -> Option<usize> {
        if self.queues[into].processes == 0 {
            return None;
        }
        while let Some(next) = self.queues[into].merges_into {
            if next == q {
                return None;
            }
            into = next;
        }
        let (processes, others) = (self.queues[q].processes, self.queues[into].processes);
        if into == q || processes == 0 || others == 0 || self.group_of(into) != self.group_of(q) {
            return None;
        }
        self.queues[q].merges_into = Some(into);
        self.queues[into].processes += processes;
        Some(into)
    }

    /// A process is about to have a request at a sector in its queue: the one it has it in, after a merge where that pays.
    pub(super) fn cooperates(
        &mut self,
        context: &Context<'_>,
        process: ProcessId,
        q: usize,
        sector: u64,
    ) -> usize {
        if !self.set.merging {
            return q;
        }
        let Some(into) = self.partner(context, q, process, sector) else { return q };
        let mut at = q;
        while at != into && self.members[process.index()].queue == Some(at) {
            at = self.merges(process, at, context.now);
        }
        self.queues[q].is_new = false;
        into
    }

    /// A process leaves its queue for the one that is set up (`bfq_merge_bfqqs`).
    fn merges(&mut self, process: ProcessId, q: usize, now: Nanos) -> usize {
        let into = self.queues[q].merges_into.expect("it is set up");
        self.saves(q, now);
        self.saves(into, now);
        let is_io_bound = std::mem::take(&mut self.queues[q].intensity.is_io_bound);
        self.queues[into].intensity.is_io_bound |= is_io_bound;
        if let Some(waker) = self.queues[q].waker.filter(|waker| *waker != into)
            && self.queues[into].waker.is_none()
        {
            self.has_waker(into, Some(waker));
        }
        let raising = self.queues[q].raising;
        if raising.coefficient > 1 {
            let service = self.queues[into].raising.service;
            if !self.queues[into].is_raised() {
                self.queues[into].raising = Raising { service, ..raising };
                self.raised_busy += usize::from(self.queues[into].is_busy);
            }
            self.queues[q].raising.coefficient = 1;
            self.raised_busy -= usize::from(self.queues[q].is_busy);
        }
        self.members[process.index()].queue = Some(into);
        self.queues[into].is_shared = true;
        (self.queues[q].owner, self.queues[into].owner) = (None, None);
        let last = &mut self.made_last[self.engine.of(q).group];
        if *last == Some(q) {
            *last = Some(into);
        }
        self.releases(q, now);
        into
    }

    /// A process exits (`bfq_exit_icq`).
    pub(super) fn lets_go(&mut self, context: &mut Context<'_>, process: ProcessId) {
        let Some(member) = self.members.get_mut(process.index()) else { return };
        let requests = member.requests;
        let q = std::mem::replace(member, Member { requests, ..Member::default() }).queue;
        let Some(q) = q else { return };
        // Its number is another's from here on.
        if self.queues[q].owner == Some(process) {
            self.queues[q].owner = None;
        }
        if self.in_service == Some(q) {
            // Its turn ends, and what it was served counts for the next one, too.
            self.stops(q, End::Timeout, context.now);
            self.runs_queue = true;
        }
        self.leaves_chain(q);
        self.releases(q, context.now);
    }

    /// A process is not going to follow its queue to those it was to be merged with.
    fn leaves_chain(&mut self, q: usize) {
        let mut behind = self.queues[q].merges_into;
        while let Some(next) = behind {
            self.queues[next].processes -= 1;
            behind = self.queues[next].merges_into;
        }
    }

    /// A process has no requests for a queue any more (`bfq_release_process_ref`).
    fn releases(&mut self, q: usize, now: Nanos) {
        self.queues[q].processes -= 1;
        if self.queues[q].is_busy && !self.queues[q].has_requests() && self.in_service != Some(q) {
            self.leaves(q, now);
        }
        let last = &mut self.made_last[self.engine.of(q).group];
        if *last == Some(q) {
            *last = None;
        }
        if self.queues[q].processes == 0 {
            self.forgets_waker(q);
        }
    }

    fn saves(&mut self, q: usize, now: Nanos) {
        let queue = &self.queues[q];
        let Some(owner) = queue.owner else { return };
        let mut raising = queue.raising;
        if queue.is_new && !queue.in_large_burst && self.set.low_latency {
            // It would have been raised with its first request.
            raising = Raising { coefficient: RAISED, longest: self.rate.raising(), ..Raising::none(now) };
        }
        let saved = Saved {
            injection: queue.injection,
            think: queue.think,
            has_short_think: queue.has_short_think,
            intensity: queue.intensity,
            in_large_burst: queue.in_large_burst,
            was_in_burst: self.burst.contains(&q),
            raising,
        };
        self.members[owner.index()].saved = Some(saved);
    }

    /// A process leaves a shared queue (`bfq_split_bfqq`).
    fn splits(&mut self, process: ProcessId, q: usize, now: Nanos) -> usize {
        let waker = self.queues[q].waker.filter(|waker| self.queues[*waker].processes > 0);
        let what = (self.queues[q].priority, self.group_of(q));
        if self.queues[q].in_large_burst
            && let Some(saved) = &mut self.members[process.index()].saved
        {
            saved.in_large_burst = true;
        }
        if self.queues[q].processes == 1 && self.queues[q].merges_into.is_none() {
            (self.queues[q].is_shared, self.queues[q].splits) = (false, false);
            self.resumes(process, q, now);
            return q;
        }
        self.leaves_chain(q);
        self.releases(q, now);
        let new = self.makes_for(process, what, true, now);
        self.queues[new].split = now;
        if let Some(saved) = self.members[process.index()].saved {
            let in_large = saved.in_large_burst || (saved.was_in_burst && self.is_large_burst);
            self.queues[new].in_large_burst = in_large;
            if saved.was_in_burst && !in_large {
                self.burst.push(new);
            }
        }
        self.resumes(process, new, now);
        self.has_waker(new, waker);
        new
    }

    /// A queue is as it was before it was merged (`bfq_bfqq_resume_state`).
    fn resumes(&mut self, process: ProcessId, q: usize, now: Nanos) {
        let Some(saved) = self.members[process.index()].saved else { return };
        let duration = self.rate.raising();
        let queue = &mut self.queues[q];
        let was_raised = queue.is_raised();
        (queue.has_short_think, queue.intensity) = (saved.has_short_think, saved.intensity);
        (queue.injection, queue.think) = (saved.injection, saved.think);
        let coefficient = queue.raising.coefficient;
        queue.raising = saved.raising;
        if !self.set.low_latency {
            queue.raising.coefficient = coefficient;
        }
        let is_over = queue.raising.since.saturating_add(queue.raising.longest) < now;
        if queue.is_raised() && (queue.in_large_burst || is_over) {
            let is_soft = queue.raising.longest == SOFT_TIME && !queue.in_large_burst;
            match queue.raising.interactive_since.filter(|since| is_soft && *since + duration >= now) {
                Some(since) => queue.is_interactive_again(since, duration),
                None => queue.raising.coefficient = 1,
            }
        }
        let (is_raised, is_busy) = (queue.is_raised(), queue.is_busy);
        if is_busy && was_raised != is_raised {
            self.raised_busy = if is_raised { self.raised_busy + 1 } else { self.raised_busy - 1 };
        }
    }

    /// A queue has another waker, or none.
    pub(super) fn has_waker(&mut self, q: usize, waker: Option<usize>) {
        if let Some(old) = self.queues[q].waker {
            self.queues[old].woken.retain(|other| *other != q);
        }
        (self.queues[q].waker, self.queues[q].candidate) = (waker, None);
        if let Some(waker) = waker {
            self.queues[waker].woken.insert(0, q);
        }
    }

    /// A queue is nobody's waker any more, and has none.
    fn forgets_waker(&mut self, q: usize) {
        self.has_waker(q, None);
        for woken in std::mem::take(&mut self.queues[q].woken) {
            self.queues[woken].waker = None;
        }
        if self.completed_last == Some(q) {
            self.completed_last = None;
        }
    }
}
