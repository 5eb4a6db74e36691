//! The device is kept idle for a queue, or others' requests are injected meanwhile.

use super::*;

impl Bfq {
    /// Whether queues with different rights are busy (`bfq_asymmetric_scenario`).
    pub(super) fn is_asymmetric(&self, q: usize) -> bool {
        let weight = self.queues[q].weight();
        let waiting = self.engine.waiting().chain(self.in_service);
        let mut weights =
            waiting.filter(|other| self.queues[*other].is_busy).map(|other| self.queues[other].weight());
        let classes = self.busy_class.iter().filter(|busy| **busy > 0).count();
        classes > 1 || weights.any(|other| other < weight)
    }

    /// Whether to keep the device idle for the next request of a queue rather than to go on with another (`bfq_better_to_idle`).
    pub(super) fn idles_for(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        if self.set.strict {
            return true;
        }
        if !self.set.idling
            || !self.set.slice_idle.is_positive()
            || !queue.sync
            || queue.priority.class == IoClass::Idle
        {
            return false;
        }
        let streams = !queue.is_seeky() && queue.is_io_bound && queue.has_short_think;
        let is_alone = self.rotational && !self.device_queues;
        let boosts =
            (is_alone || ((self.rotational || !self.device_queues) && streams)) && self.raised_busy == 0;
        boosts || self.needs_idling(q)
    }

    /// Whether the queue would get less than its right if others went meanwhile (`idling_needed_for_service_guarantees`).
    fn needs_idling(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        (queue.is_raised() && (self.raised_busy < self.busy || self.in_driver >= queue.dispatched + 4))
            || self.is_asymmetric(q)
            || self.busy == 1
    }

    pub(super) fn must_idle(&self, q: usize) -> bool {
        !self.queues[q].has_requests() && self.idles_for(q)
    }

    /// Another queue whose request may go while one is waited for (`bfq_choose_bfqq_for_injection`).
    pub(super) fn injects(&mut self, requests: &Requests, q: usize) -> Option<usize> {
        if !self.set.injection {
            return None;
        }
        let fits = |bfq: &Bfq, other: usize| {
            let next = bfq.queues[other].next?;
            (bfq.charge(requests, other, next) <= bfq.engine.entities[other].left()).then_some((other, next))
        };
        let own = self.of_priority.get(&self.queues[q].priority).copied();
        if let Some((own, _)) = own.filter(|own| self.queues[*own].is_busy).and_then(|own| fits(self, own)) {
            return Some(own);
        }
        let served = &self.queues[q];
        if served.is_raised() && self.raised_busy <= 1 && served.has_short_think {
            return None;
        }
        let limit = served.injection.limit;
        if self.in_driver >= limit {
            return None;
        }
        let found = self.engine.waiting().find_map(|other| {
            let (other, next) = fits(self, other)?;
            let is_large = !self.rotational && requests[next].sectors >= LARGE && self.in_driver >= 1;
            let limit = if is_large { limit.min(1) } else { limit };
            (self.in_driver < limit).then_some(other)
        });
        self.was_injected |= found.is_some();
        found
    }

    /// A request of the queue in service whose time was taken has ended (`bfq_update_inject_limit`).
    pub(super) fn looks_at_injection(&mut self, q: usize, now: Nanos) {
        let (most, in_driver, was_injected) = (self.most_in_driver, self.in_driver, self.was_injected);
        let injection = &mut self.queues[q].injection;
        let (total, old) = (now - injection.since, injection.limit);
        if let Some(alone) = injection.alone.filter(|_| was_injected) {
            let threshold = alone.mul_ratio(3, 2);
            if total >= threshold && old > 0 {
                injection.limit -= 1;
                injection.decreased = now;
            } else if total < threshold && old <= most {
                injection.limit += 1;
            }
        }
        let is_alone = in_driver == 1;
        if (injection.alone.is_none() && is_alone) || injection.alone.is_some_and(|alone| total < alone) {
            if injection.alone.is_none() {
                injection.limit = old.max(1);
            }
            injection.alone = Some(total);
        } else if !was_injected && is_alone {
            injection.alone = Some(total);
        }
        (self.waited, self.was_injected) = (None, false);
    }

    /// Waits for the next request of the queue in service (`bfq_arm_slice_timer`).
    pub(super) fn awaits(&mut self, q: usize, now: Nanos) {
        let is_asymmetric = self.is_asymmetric(q);
        let queue = &mut self.queues[q];
        queue.is_awaited = true;
        let wait = if queue.is_raised() {
            self.set.slice_idle.max(Nanos::from_millis(20))
        } else if queue.is_seeky() && !is_asymmetric {
            self.set.slice_idle.min(rate::SHORT)
        } else {
            self.set.slice_idle
        };
        self.timer = Some(now + wait);
    }

    /// A request has come for the queue that is in service (`bfq_rq_enqueued`).
    pub(super) fn came_to_served(&mut self, context: &mut Context<'_>, q: usize, sectors: u32) {
        if self.in_service != Some(q) || !self.queues[q].is_awaited {
            return;
        }
        let is_over = context.now >= self.queues[q].slice_end;
        let is_small = self.queues[q].sorted.len() == 1 && sectors < 32;
        if is_small && self.idles_for(q) && !is_over {
            // More may come that it can be merged with.
            return;
        }
        self.queues[q].is_awaited = false;
        self.timer = None;
        if is_over {
            self.expires(context, q, false, End::Timeout);
        }
    }

    /// A new request begins to be waited for: its time is taken, at most every 10 ms (`bfq_add_request`).
    pub(super) fn begins_sample(&mut self, q: usize, now: Nanos) {
        let is_served = self.in_service == Some(q);
        let has_short_think = self.queues[q].has_short_think;
        let injection = &mut self.queues[q].injection;
        if now >= injection.decreased + Nanos::SECOND {
            injection.limit = u32::from(!has_short_think);
            (injection.alone, injection.decreased) = (None, now);
            self.waited = None;
        }
        let goes_on = injection.alone.is_some() && self.was_injected && self.in_driver > 0;
        if is_served
            && (self.in_driver == 0 || goes_on)
            && now >= injection.decreased + Nanos::from_millis(10)
        {
            injection.since = now;
            self.waits_for_dispatch = true;
            if self.in_driver == 0 {
                self.was_injected = false;
            }
        }
    }
}
