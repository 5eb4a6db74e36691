//! A queue gets busy: is its weight raised, is it one of many, does it take the device from the one in service?

use super::*;

impl Bfq {
    /// A queue was made: is it one of many (`bfq_handle_burst`)?
    pub(super) fn looks_at_burst(&mut self, q: usize, now: Nanos) {
        if !self.set.bursts || (self.burst.is_empty() && !self.is_large_burst && self.busy > 0) {
            return;
        }
        if now - self.burst_last > BURST_INTERVAL {
            self.is_large_burst = false;
            self.burst.clear();
        } else if self.is_large_burst {
            self.queues[q].in_large_burst = true;
        }
        if !self.is_large_burst {
            self.burst.push(q);
            if self.burst.len() >= BURST {
                self.is_large_burst = true;
                for member in self.burst.drain(..) {
                    self.queues[member].in_large_burst = true;
                }
            }
        }
        self.burst_last = now;
    }

    /// A raised queue has been served, or waits: is its time over (`bfq_update_wr_data`)?
    pub(super) fn looks_at_raising(&mut self, q: usize, now: Nanos) {
        let (duration, is_busy) = (self.rate.raising(), self.queues[q].is_busy);
        let queue = &mut self.queues[q];
        if !queue.is_raised() {
            return;
        }
        let is_soft = queue.raising.longest == SOFT_TIME;
        if queue.in_large_burst {
            queue.ends_raising(now);
        } else if now > queue.raising.since.saturating_add(queue.raising.longest) {
            match queue.raising.interactive_since.filter(|since| is_soft && now <= *since + duration) {
                Some(since) => {
                    (queue.raising.coefficient, queue.raising.longest) = (RAISED, duration);
                    (queue.raising.since, queue.raising.interactive_since) = (since, None);
                }
                None => queue.ends_raising(now),
            }
        } else if !is_soft && queue.raising.service > RAISED_SERVICE {
            queue.ends_raising(now);
        }
        if !queue.is_raised() && is_busy {
            self.raised_busy -= 1;
        }
    }

    /// The weight of a queue may have changed: tells the engine, unless it is in service (then when it is done).
    pub(super) fn reweighs(&mut self, q: usize) {
        if self.engine.entities[q].standing != Standing::InService {
            let weight = self.queues[q].weight();
            self.engine.reweigh(q, weight);
        }
    }

    /// A queue gets busy with a request (`bfq_bfqq_handle_idle_busy_switch`).
    pub(super) fn gets_busy(&mut self, context: &mut Context<'_>, q: usize, id: RequestId) {
        let now = context.now;
        let long = self.queues[q].idle_since.saturating_add(RAISED_IDLE) < now;
        let in_time = now
            <= self.queues[q].think.last_end
                + self.set.slice_idle
                + self.set.slice_idle
                + self.set.slice_idle;
        let (is_default, charge) =
            (self.queues[q].priority.level == 4, u64::from(context.requests[id].sectors));
        if self.queues[q].is_new {
            self.looks_at_burst(q, now);
        } else if long && self.queues[q].in_large_burst && now - self.burst_last > Nanos::from_secs(10) {
            self.queues[q].in_large_burst = false;
        }
        let queue = &mut self.queues[q];
        queue.is_new = false;
        let in_burst = queue.in_large_burst;
        let interactive = self.set.interactive && !in_burst && long && is_default;
        let soft = self.set.soft
            && !queue.is_totally_seeky()
            && !in_burst
            && queue.soft_next < now
            && queue.dispatched == 0
            && is_default;
        let deserves = self.set.low_latency && queue.sync && (queue.is_raised() || interactive || soft);
        // Its budget: what was left where it comes back in time, else a new one.
        let entity = &mut self.engine.entities[q];
        let goes_on = queue.went_idle && in_time && entity.left() > 0;
        let preempts = if goes_on {
            entity.budget = entity.left().min(queue.max_budget);
            true
        } else {
            entity.budget = queue.max_budget.max(charge);
            deserves
        };
        entity.service = 0;
        if !queue.is_io_bound {
            queue.in_time = if in_time { queue.in_time + 1 } else { 0 };
            queue.is_io_bound = queue.in_time >= IN_TIME;
        }
        if self.set.low_latency {
            self.raises(q, now, deserves.then_some(charge), (interactive, soft));
        }
        let queue = &mut self.queues[q];
        (queue.backlogged_since, queue.backlog_service, queue.updates_soft) = (now, 0, false);
        self.adds_busy(q, goes_on);
        self.may_preempt(context, q, preempts);
    }

    /// The raising of a queue that gets busy begins, goes on or ends; `deserves` has the charge of its request where it is to be raised
    /// (`bfq_update_bfqq_wr_on_rq_arrival`).
    fn raises(&mut self, q: usize, now: Nanos, deserves: Option<u64>, (interactive, soft): (bool, bool)) {
        let (raising_time, least) = (self.rate.raising(), 2 * self.min_budget());
        let queue = &mut self.queues[q];
        let before = queue.raising.coefficient;
        if let Some(charge) = deserves.filter(|_| before == 1) {
            queue.raising.service = 0;
            if interactive {
                (queue.raising.coefficient, queue.raising.longest) = (RAISED, raising_time);
            } else {
                (queue.raising.coefficient, queue.raising.longest) = (RAISED_SOFT, SOFT_TIME);
                queue.raising.interactive_since = None;
            }
            let entity = &mut self.engine.entities[q];
            entity.budget = entity.budget.min(least).max(charge);
        } else if before > 1 {
            if interactive {
                (queue.raising.coefficient, queue.raising.longest) = (RAISED, raising_time);
            } else if queue.in_large_burst {
                queue.raising.coefficient = 1;
            } else if soft {
                if queue.raising.longest != SOFT_TIME {
                    queue.raising.interactive_since = Some(queue.raising.since);
                    (queue.raising.coefficient, queue.raising.longest) = (RAISED_SOFT, SOFT_TIME);
                }
                queue.raising.since = now;
            }
        }
        if before == 1 || queue.raising.coefficient == 1 || interactive {
            queue.raising.since = now;
        }
    }

    pub(super) fn adds_busy(&mut self, q: usize, goes_on: bool) {
        let queue = &mut self.queues[q];
        queue.is_busy = true;
        queue.went_idle = false;
        self.busy += 1;
        self.busy_class[queue.priority.class.place()] += 1;
        self.raised_busy += usize::from(queue.is_raised());
        let coefficient = queue.raising.coefficient;
        self.reweighs(q);
        self.engine.activate(q, goes_on, coefficient);
    }

    /// A queue has got busy: does the one in service have to go for it?
    pub(super) fn may_preempt(&mut self, context: &mut Context<'_>, q: usize, wants: bool) {
        let Some(served) = self.in_service.filter(|served| *served != q) else { return };
        let (new, old) = (&self.queues[q], &self.queues[served]);
        let is_above = new.priority.class < old.priority.class
            || (new.priority.class == old.priority.class && new.weight() > old.weight());
        let may = (wants && new.raising.coefficient >= old.raising.coefficient)
            || is_above
            || !self.idles_for(served);
        if may {
            self.expires(context, served, false, End::Preempted);
        }
    }
}
