//! A queue is served: which, for how long, and what it is charged.

use super::*;

impl Bfq {
    /// The queue in service is not served any more (`bfq_bfqq_expire`). `compensates`: for the time in which it was waited for.
    pub(super) fn expires(&mut self, context: &mut Context<'_>, q: usize, compensates: bool, end: End) {
        let now = context.now;
        let (is_slow, took) = self.is_slow(q, now, compensates);
        let entity = self.engine.of(q);
        let is_third_left = entity.left() >= entity.budget / 3;
        let is_plain = !self.queues[q].is_raised();
        if self.set.charge_time && is_plain && (is_slow || (end == End::Timeout && is_third_left)) {
            self.charges_time(q, took, now);
        }
        if self.set.low_latency && is_plain {
            self.queues[q].raising.since = now;
        }
        if self.set.low_latency && !self.queues[q].has_requests() {
            if self.queues[q].dispatched == 0 {
                self.queues[q].soft_next = self.soft_next(q, now);
            } else {
                self.queues[q].updates_soft = true;
            }
        }
        (self.was_injected, self.waits_for_dispatch, self.waited) = (false, false, None);
        self.sets_budget(context.requests, q, end);
        let stays = self.stops(q, end, now);
        if stays || matches!(end, End::Timeout | End::Exhausted) {
            self.engine.of_mut(q).service = 0;
        } else {
            self.queues[q].went_idle = true;
        }
        self.engine.clears_service_above(q);
    }

    /// The queue in service waits for its turn again, or has nothing to do any more (`__bfq_bfqq_expire`). Returns whether it waits.
    pub(super) fn stops(&mut self, q: usize, end: End, now: Nanos) -> bool {
        let queue = &mut self.queues[q];
        queue.splits |= queue.is_shared && queue.is_seeky();
        queue.is_awaited = false;
        // One that is preempted while others had to wait for its next request goes on waiting its turn, though it has none.
        let stays = self.queues[q].has_requests() || (end == End::Preempted && self.needs_idling(q));
        if stays {
            if self.engine.of(q).weight != self.queues[q].weight() {
                self.weighs(q);
            }
            self.engine.requeue(q, self.queues[q].weight(), now);
        } else {
            if self.queues[q].dispatched == 0 {
                self.queues[q].timeout = self.tick.before(now);
            }
            self.leaves(q, now);
        }
        (self.in_service, self.timer) = (None, None);
        stays
    }

    /// Whether a queue was served slowly, and how long it was (`bfq_bfqq_is_slow`).
    fn is_slow(&self, q: usize, now: Nanos, compensates: bool) -> (bool, Nanos) {
        let queue = &self.queues[q];
        if !queue.sync {
            return (false, Nanos::ZERO);
        }
        let took = if compensates { self.idling_since } else { now } - self.service_began;
        if took < Nanos::MILLISECOND {
            let least = if self.rotational { self.set.slice_idle } else { rate::SHORT };
            return (queue.is_seeky(), least);
        }
        let is_long = took > Nanos::from_millis(20);
        let service = self.engine.of(q).service;
        (if is_long { service < self.greatest_budget() / 2 } else { queue.is_seeky() }, took)
    }

    /// A queue is charged the part of the greatest budget that its time is of a slice, in milliseconds (`bfq_bfqq_charge_time`).
    fn charges_time(&mut self, q: usize, took: Nanos, now: Nanos) {
        let millis = |time: Nanos| time.get_unsigned() / 1_000_000;
        let slice = millis(self.set.timeout).max(1);
        let whole = self.greatest_budget() * millis(took.max(Nanos::ZERO)).min(slice) / slice;
        let entity = self.engine.of_mut(q);
        let whole = whole.max(entity.service);
        entity.budget = entity.budget.max(whole);
        let more = whole - entity.service;
        self.serves(q, more, now);
    }

    /// So many sectors are served to a queue, or charged to it (`bfq_bfqq_served`).
    fn serves(&mut self, q: usize, sectors: u64, now: Nanos) {
        let queue = &mut self.queues[q];
        if queue.backlog_service == 0 {
            queue.first_service = now;
        }
        if queue.is_raised() {
            queue.raising.service += sectors;
        }
        queue.backlog_service += sectors;
        self.engine.serve(q, sectors);
    }

    /// The earliest instant at which a batch makes the queue soft real-time (`bfq_bfqq_softrt_next_start`).
    pub(super) fn soft_next(&self, q: usize, now: Nanos) -> Nanos {
        let queue = &self.queues[q];
        let fluid = Nanos::SECOND.mul_ratio(queue.backlog_service, SOFT_RATE);
        let ticks = self.tick.of(4);
        queue.soft_next.max(queue.backlogged_since + fluid).max(now + self.set.slice_idle + ticks)
    }

    /// The next budget (`__bfq_bfqq_recalc_budget`).
    fn sets_budget(&mut self, requests: &Requests, q: usize, end: End) {
        let (most, least) = (self.greatest_budget(), self.min_budget());
        let queue = &self.queues[q];
        let budget = if queue.is_raised() { 2 * least } else { queue.max_budget };
        let service = self.engine.of(q).service;
        let next = match (queue.sync, end) {
            (false, _) => most,
            _ if queue.is_raised() || !self.set.feedback => budget,
            (true, End::Preempted) => return,
            (true, End::TooIdle) if queue.dispatched > 0 => (2 * budget).min(most),
            (true, End::TooIdle) if budget > 5 * least => budget - 4 * least,
            (true, End::TooIdle) => least,
            (true, End::Timeout) => (2 * budget).min(most),
            (true, End::Exhausted) => (4 * budget).min(most),
            (true, End::NoMoreRequests) => service.max(least),
        };
        let is_limited = self.budgets >= FIRST_BUDGETS && self.set.max_budget == 0;
        self.queues[q].max_budget = if is_limited { next.min(most) } else { next };
        if let Some(id) = self.queues[q].next {
            let charge = self.charge(requests, q, id);
            self.engine.of_mut(q).budget = self.queues[q].max_budget.max(charge);
        }
    }

    /// Chooses the queue to dispatch from, and why (`bfq_select_queue`).
    pub(super) fn selects(&mut self, context: &mut Context<'_>) -> Option<(usize, Rule)> {
        let mut rule = BUDGET;
        loop {
            let Some(q) = self.in_service else {
                self.begins(context)?;
                rule = NEXT;
                continue;
            };
            if rule == BUDGET && self.may_time_out(q, context.now) && !self.must_idle(q) {
                self.expires(context, q, false, End::Timeout);
            } else if let Some(id) = self.queues[q].next {
                if self.charge(context.requests, q, id) <= self.engine.of(q).left() {
                    if std::mem::take(&mut self.queues[q].is_awaited) {
                        self.timer = None;
                    }
                    return Some((q, if self.queues[q].is_raised() { RAISED_FIRST } else { rule }));
                }
                self.expires(context, q, false, End::Exhausted);
            } else if self.queues[q].is_awaited || (self.queues[q].dispatched > 0 && self.idles_for(q)) {
                return self.injects(context.requests, q).map(|other| (other, INJECTED));
            } else {
                self.expires(context, q, false, End::NoMoreRequests);
            }
        }
    }

    /// Whether a queue's time is over, unless it is awaited and has used most of its budget (`bfq_may_expire_for_budg_timeout`).
    pub(super) fn may_time_out(&self, q: usize, now: Nanos) -> bool {
        let entity = self.engine.of(q);
        let may_end = !self.queues[q].is_awaited || entity.left() >= entity.budget / 3;
        may_end && now >= self.queues[q].timeout
    }

    /// Serves the next queue (`bfq_set_in_service_queue`).
    fn begins(&mut self, context: &Context<'_>) -> Option<()> {
        let now = context.now;
        let q = self.engine.take(now)?;
        self.budgets = (self.budgets * 7 + 256) / 8;
        let queue = &mut self.queues[q];
        let raising = &mut queue.raising;
        let is_soft = raising.coefficient > 1 && raising.longest == SOFT_TIME;
        if is_soft && raising.since < now && queue.timeout < now {
            // What it waited for its turn does not count.
            raising.since =
                if queue.timeout > raising.since { raising.since + (now - queue.timeout) } else { now };
        }
        // Raised queues have their slice in proportion, soft real-time ones do not.
        let plain = queue.weight() / queue.raising.coefficient;
        let slices = if queue.raising.longest == SOFT_TIME { 1 } else { self.engine.of(q).weight / plain };
        queue.timeout = self.tick.before(now).saturating_add(self.set.timeout.mul_ratio(slices, 1));
        (self.in_service, self.service_began, self.looked_at_fifo) = (Some(q), now, false);
        self.served_position = 0;
        Some(())
    }

    /// Dispatches the next request of a queue.
    pub(super) fn sends(&mut self, context: &mut Context<'_>, q: usize) -> Option<RequestId> {
        let now = context.now;
        let id = self.queues[q].next?;
        let charge = self.charge(context.requests, q, id);
        self.serves(q, charge, now);
        if self.in_service == Some(q) && std::mem::take(&mut self.waits_for_dispatch) {
            self.waited = Some(id);
        }
        self.queues[q].dispatched += 1;
        let (sector, sectors) = (context.requests[id].sector, context.requests[id].sectors);
        self.rate.dispatched(now, sector, sectors, self.in_driver);
        self.position = sector + u64::from(sectors);
        if self.in_service == Some(q) {
            self.served_position = self.position;
        }
        self.removes(context, q, id);
        self.in_driver += 1;
        if self.in_service == Some(q) {
            self.looks_at_raising(q, now);
            if self.busy > 1 && self.queues[q].priority.class == IoClass::Idle {
                self.expires(context, q, false, End::Exhausted);
            }
        }
        Some(id)
    }
}
