//! A queue gets busy: is its weight raised, is it one of many, does it take the device from the one in service?

use super::*;

impl Bfq {
    /// A queue was made: is it one of many (`bfq_handle_burst`)? Those made while others are busy begin no set of their own.
    pub(super) fn looks_at_burst(&mut self, q: usize, now: Nanos) {
        let is_known = self.queues[q].in_large_burst || self.burst.contains(&q);
        if !self.set.bursts || is_known || self.queues[q].split + Nanos::from_millis(10) >= now {
            return;
        }
        let group = self.group_of(q);
        if self.burst_last + BURST_INTERVAL < now || group != self.burst_group {
            self.is_large_burst = false;
            self.burst.clear();
            self.burst_size = usize::from(self.busy == 0);
            if self.busy == 0 {
                self.burst.push(q);
            }
            self.burst_group = group;
        } else if self.is_large_burst {
            self.queues[q].in_large_burst = true;
        } else {
            self.burst_size += 1;
            self.burst.push(q);
            if self.burst_size == BURST {
                self.is_large_burst = true;
                for member in self.burst.drain(..) {
                    self.queues[member].in_large_burst = true;
                }
            }
        }
        self.burst_last = now;
    }

    /// A queue is not raised any more. One that was interactive may be soft real-time from here on: what it took to load counts no more
    /// (`bfq_bfqq_end_wr`).
    fn ends_raising(&mut self, q: usize, now: Nanos) {
        let queue = &mut self.queues[q];
        if queue.raising.longest != SOFT_TIME {
            queue.soft_next = now;
            if let Some(process) = queue.process {
                self.ended.push_back((process, now - queue.raising.since));
            }
        }
        queue.raising = Raising { interactive_since: queue.raising.interactive_since, ..Raising::none(now) };
        self.raised_busy -= usize::from(queue.is_busy);
    }

    /// The soft real-time raising of a queue ends: goes on with the interactive one that it interrupted, where that is not over.
    fn ends_soft(&mut self, q: usize, now: Nanos) {
        let duration = self.rate.raising();
        match self.queues[q].raising.interactive_since.filter(|since| *since + duration >= now) {
            Some(since) => self.queues[q].is_interactive_again(since, duration),
            None => self.ends_raising(q, now),
        }
    }

    /// A raised queue was served: is its time over (`bfq_update_wr_data`)?
    pub(super) fn looks_at_raising(&mut self, q: usize, now: Nanos) {
        let raising = self.queues[q].raising;
        if self.queues[q].is_raised() {
            if self.queues[q].in_large_burst {
                self.ends_raising(q, now);
            } else if raising.since.saturating_add(raising.longest) < now {
                match raising.longest {
                    SOFT_TIME => self.ends_soft(q, now),
                    _ => self.ends_raising(q, now),
                }
            }
            let raising = self.queues[q].raising;
            if raising.coefficient > 1 && raising.longest != SOFT_TIME && raising.service > RAISED_SERVICE {
                self.ends_raising(q, now);
            }
        }
        let plain = self.queues[q].weight() / self.queues[q].raising.coefficient;
        if (self.engine.of(q).weight > plain) != self.queues[q].is_raised() {
            self.weighs(q);
            self.engine.reweigh(q, self.queues[q].weight());
        }
    }

    /// A soft real-time queue that seeks all the time is none (`bfq_update_io_seektime`).
    pub(super) fn looks_at_seeks(&mut self, q: usize, now: Nanos) {
        let queue = &self.queues[q];
        if queue.is_raised() && queue.raising.longest == SOFT_TIME && queue.is_totally_seeky() {
            self.ends_soft(q, now);
        }
    }

    /// What nobody waits for comes after a pause: its queue is raised (`bfq_add_request`).
    pub(super) fn raises_async(&mut self, q: usize, now: Nanos) {
        let (duration, queue) = (self.rate.raising(), &mut self.queues[q]);
        let is_plain = !queue.sync && !queue.is_raised();
        if self.set.low_latency && self.set.interactive && is_plain && queue.raising.since + ASYNC_PAUSE < now
        {
            (queue.raising.coefficient, queue.raising.longest) = (RAISED, duration);
            self.raised_busy += 1;
        }
    }

    /// A queue gets busy with a request (`bfq_bfqq_handle_idle_busy_switch`). Returns whether its application seems to start.
    pub(super) fn gets_busy(&mut self, context: &mut Context<'_>, q: usize, id: RequestId) -> bool {
        let now = context.now;
        let idle = self.set.slice_idle;
        let charge = self.charge(context.requests, q, self.queues[q].next.unwrap_or(id));
        let process = context.requests[id].process;
        let queue = &mut self.queues[q];
        let long = queue.dispatched == 0 && queue.timeout + RAISED_IDLE < now;
        let in_time = now <= queue.think.last_end + idle + idle + idle;
        let (is_default, in_burst) = (queue.level() == 4, queue.in_large_burst);
        let is_own =
            queue.owner.is_some() || self.members.get(process.index()).is_some_and(|member| member.is_stable);
        let interactive = self.set.interactive && !in_burst && long && is_default;
        let soft = self.set.soft
            && !queue.is_totally_seeky()
            && !in_burst
            && queue.soft_next < now
            && queue.dispatched == 0
            && is_default;
        let deserves =
            self.set.low_latency && (queue.is_raised() || (queue.sync && is_own && (interactive || soft)));
        // Its budget: what was left where it comes back in time, else a new one.
        let entity = self.engine.of_mut(q);
        let goes_on = queue.went_idle && in_time && entity.left() > 0;
        entity.budget = match goes_on {
            true => entity.left().min(queue.max_budget),
            false => queue.max_budget.max(charge),
        };
        entity.service = 0;
        if !queue.is_new && long && queue.timeout + BURST_OVER < now {
            queue.in_large_burst = false;
            self.burst.retain(|other| *other != q);
        }
        queue.is_new = false;
        if self.set.low_latency && queue.split + RAISED_IDLE < now {
            self.raises(q, now, deserves, (interactive, soft));
        }
        let queue = &mut self.queues[q];
        (queue.backlogged_since, queue.backlog_service, queue.updates_soft) = (now, 0, false);
        self.adds_busy(q, goes_on, now);
        self.may_preempt(context, q, goes_on);
        interactive
    }

    /// The raising of a queue that gets busy begins, goes on or ends (`bfq_update_bfqq_wr_on_rq_arrival`).
    fn raises(&mut self, q: usize, now: Nanos, deserves: bool, (interactive, soft): (bool, bool)) {
        let (duration, least) = (self.rate.raising(), 2 * self.min_budget());
        let (queue, entity) = (&mut self.queues[q], self.engine.of_mut(q));
        let raising = &mut queue.raising;
        if raising.coefficient == 1 {
            if !deserves {
                return;
            }
            if interactive {
                (raising.coefficient, raising.longest, raising.service) = (RAISED, duration, 0);
            } else {
                (raising.coefficient, raising.longest) = (RAISED_SOFT, SOFT_TIME);
                raising.interactive_since = None;
            }
            entity.budget = entity.budget.min(least);
        } else if interactive {
            (raising.coefficient, raising.longest) = (RAISED, duration);
        } else if queue.in_large_burst {
            raising.coefficient = 1;
        } else if soft {
            if raising.longest != SOFT_TIME {
                raising.interactive_since = Some(raising.since);
                (raising.coefficient, raising.longest) = (RAISED_SOFT, SOFT_TIME);
            }
            raising.since = now;
        }
    }

    fn adds_busy(&mut self, q: usize, goes_on: bool, now: Nanos) {
        let queue = &mut self.queues[q];
        queue.is_busy = true;
        queue.went_idle = false;
        self.busy += 1;
        self.busy_class[queue.priority.class.place()] += 1;
        self.raised_busy += usize::from(queue.is_raised());
        let weights = (queue.weight(), queue.raising.coefficient);
        self.weighs(q);
        self.pends(q);
        self.engine.activate(q, goes_on, weights, now);
    }

    /// Counts a queue under its weight among those that are not raised, once it has something to do or its weight changes
    /// (`bfq_weights_tree_add`).
    pub(super) fn weighs(&mut self, q: usize) {
        self.weighs_no_more(q);
        let queue = &mut self.queues[q];
        if !queue.is_raised() {
            queue.counted = Some(queue.weight());
            *self.weights.entry(queue.weight()).or_default() += 1;
        }
    }

    /// A queue has nothing to do any more, here or in the device.
    pub(super) fn weighs_no_more(&mut self, q: usize) {
        let Some(weight) = self.queues[q].counted.take() else { return };
        if let Some(count) = self.weights.get_mut(&weight) {
            *count -= 1;
            if *count == 0 {
                self.weights.remove(&weight);
            }
        }
    }

    /// A queue has got busy: does the one in service have to go for it, which `wants` to go on with what was left to it?
    fn may_preempt(&mut self, context: &mut Context<'_>, q: usize, wants: bool) {
        let Some(served) = self.in_service.filter(|served| *served != q) else { return };
        let (new, old) = (&self.queues[q], &self.queues[served]);
        let (weight, served_weight) =
            (self.engine.weight_against(q, served), self.engine.weight_against(served, q));
        let is_above = new.priority.class < old.priority.class || weight > served_weight;
        let may = (wants && new.raising.coefficient >= old.raising.coefficient)
            || is_above
            || !self.idles_for(served);
        if may && self.engine.may_be_another() {
            self.expires(context, served, false, End::Preempted);
        }
    }
}
