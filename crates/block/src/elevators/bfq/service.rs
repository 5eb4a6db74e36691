//! A queue is served: which, for how long, and what it is charged.

use super::*;

impl Bfq {
    /// The queue in service is not served any more (`bfq_bfqq_expire`).
    pub(super) fn expires(&mut self, context: &mut Context<'_>, q: usize, compensates: bool, end: End) {
        let now = context.now;
        let (is_slow, took) = self.is_slow(q, now, compensates);
        let entity = &self.engine.entities[q];
        let is_third_left = entity.left() >= entity.budget / 3;
        if self.set.charge_time
            && !self.queues[q].is_raised()
            && (is_slow || (end == End::Timeout && is_third_left))
        {
            self.charges_time(q, took);
        }
        if self.set.low_latency && !self.queues[q].is_raised() {
            self.queues[q].raising.since = now;
        }
        if self.set.low_latency && !self.queues[q].has_requests() {
            if self.queues[q].dispatched == 0 {
                self.queues[q].soft_next = self.soft_next(q, now);
            } else {
                self.queues[q].updates_soft = true;
            }
        }
        self.sets_budget(context.requests, q, end);
        self.in_service = None;
        self.timer = None;
        let queue = &mut self.queues[q];
        queue.is_awaited = false;
        if queue.has_requests() {
            self.engine.requeue(q);
            self.engine.entities[q].service = 0;
            self.reweighs(q);
            return;
        }
        if queue.dispatched == 0 {
            queue.idle_since = now;
        }
        queue.went_idle = !matches!(end, End::Timeout | End::Exhausted);
        self.leaves(q);
        if !self.queues[q].went_idle {
            self.engine.entities[q].service = 0;
        }
    }

    /// Whether a queue was served slowly, and how long it was (`bfq_bfqq_is_slow`).
    pub(super) fn is_slow(&self, q: usize, now: Nanos, compensates: bool) -> (bool, Nanos) {
        let queue = &self.queues[q];
        if !queue.sync {
            return (false, Nanos::ZERO);
        }
        let mut took = now - self.service_began;
        if compensates {
            took -= self.set.slice_idle;
        }
        if took < Nanos::MILLISECOND {
            let least = if self.rotational { self.set.slice_idle } else { rate::SHORT };
            return (queue.is_seeky(), least);
        }
        let is_long = took > Nanos::from_millis(20);
        let service = self.engine.entities[q].service;
        (if is_long { service < self.max_budget() / 2 } else { queue.is_seeky() }, took)
    }

    /// A queue is charged the part of the greatest budget that its time is of a slice.
    pub(super) fn charges_time(&mut self, q: usize, took: Nanos) {
        let entity = &self.engine.entities[q];
        if !took.is_positive() || took >= self.set.timeout {
            let whole = self.max_budget().max(entity.service);
            return self.charges(q, whole);
        }
        let part = u128::from(self.max_budget()) * u128::from(took.get_unsigned())
            / u128::from(self.set.timeout.get_unsigned().max(1));
        let whole = u64::try_from(part).unwrap_or(u64::MAX).max(entity.service);
        self.charges(q, whole);
    }

    pub(super) fn charges(&mut self, q: usize, whole: u64) {
        let entity = &mut self.engine.entities[q];
        entity.budget = entity.budget.max(whole);
        let more = whole - entity.service;
        self.engine.serve(q, more);
    }

    /// The earliest instant at which a batch makes the queue soft real-time (`bfq_bfqq_softrt_next_start`).
    pub(super) fn soft_next(&self, q: usize, now: Nanos) -> Nanos {
        let queue = &self.queues[q];
        let fluid = Nanos::SECOND.mul_ratio(queue.backlog_service, SOFT_RATE);
        let before = if queue.soft_next == Nanos::MAX { LONG_AGO } else { queue.soft_next };
        let ticks = self.tick + self.tick + self.tick + self.tick;
        before.max(queue.backlogged_since + fluid).max(now + self.set.slice_idle + ticks)
    }

    /// The next budget (`__bfq_bfqq_recalc_budget`).
    pub(super) fn sets_budget(&mut self, requests: &Requests, q: usize, end: End) {
        let (most, least) = (self.max_budget(), self.min_budget());
        self.budgets += 1;
        let queue = &self.queues[q];
        let budget = if queue.is_raised() { 2 * least } else { queue.max_budget };
        let service = self.engine.entities[q].service;
        let next = match (queue.sync, end) {
            (_, End::Preempted) => budget,
            _ if queue.is_raised() || !self.set.feedback => budget,
            (false, _) => most,
            (true, End::TooIdle) if queue.dispatched > 0 => (2 * budget).min(most),
            (true, End::TooIdle) if budget > 5 * least => budget - 4 * least,
            (true, End::TooIdle) => least,
            (true, End::Timeout) => (2 * budget).min(most),
            (true, End::Exhausted) => (4 * budget).min(most),
            (true, End::NoMoreRequests) => service.max(least),
        };
        self.queues[q].max_budget = next.min(most.max(least));
        if let Some(id) = self.queues[q].next {
            let charge = self.charge(requests, q, id);
            self.engine.entities[q].budget = self.queues[q].max_budget.max(charge);
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
            let entity = &self.engine.entities[q];
            let may_end = !self.queues[q].is_awaited || entity.left() >= entity.budget / 3;
            if rule == BUDGET && may_end && context.now >= self.queues[q].slice_end && !self.must_idle(q) {
                self.expires(context, q, false, End::Timeout);
            } else if let Some(id) = self.queues[q].next {
                if rule == NEXT || self.charge(context.requests, q, id) <= entity.left() {
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

    /// Serves the next queue.
    fn begins(&mut self, context: &Context<'_>) -> Option<()> {
        let now = context.now;
        // The idle class starves for no longer than this.
        let starves = self.busy_class[2] > 0 && now > self.idle_class_served + IDLE_CLASS;
        let q = self.engine.take(if starves { 2 } else { 0 })?;
        if self.queues[q].priority.class == IoClass::Idle || self.busy_class[2] == 0 {
            self.idle_class_served = now;
        }
        self.looks_at_raising(q, now);
        let queue = &mut self.queues[q];
        // Raised queues have their slice in proportion, soft real-time ones do not.
        let slices = if queue.raising.longest == SOFT_TIME { 1 } else { queue.raising.coefficient };
        queue.slice_end = now.saturating_add(self.set.timeout.mul_ratio(slices, 1));
        (self.in_service, self.service_began, self.looked_at_fifo) = (Some(q), now, false);
        Some(())
    }

    /// Dispatches the next request of a queue.
    pub(super) fn sends(&mut self, context: &mut Context<'_>, q: usize) -> Option<RequestId> {
        let now = context.now;
        let mut id = self.queues[q].next?;
        if self.in_service == Some(q) && !std::mem::replace(&mut self.looked_at_fifo, true) {
            let oldest = self.queues[q].fifo.oldest();
            id = oldest.filter(|(_, expires)| *expires <= now).map_or(id, |(oldest, _)| oldest);
        }
        let charge = self.charge(context.requests, q, id);
        self.engine.serve(q, charge);
        self.queues[q].backlog_service += charge;
        if self.queues[q].is_raised() {
            self.queues[q].raising.service += charge;
        }
        let (sector, sectors) = (context.requests[id].sector, u64::from(context.requests[id].sectors));
        self.removes(context.requests, q, id);
        self.queues[q].dispatched += 1;
        self.rate.dispatched(now, sector, sectors, self.in_driver);
        self.in_driver += 1;
        self.position = sector + sectors;
        if self.in_service == Some(q) {
            if std::mem::take(&mut self.waits_for_dispatch) {
                self.waited = Some(id);
            }
            self.looks_at_raising(q, now);
            if self.busy > 1 && self.queues[q].priority.class == IoClass::Idle {
                self.expires(context, q, false, End::Exhausted);
            }
        }
        Some(id)
    }
}
