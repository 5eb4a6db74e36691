//! The device is kept idle for a queue, or others' requests are injected meanwhile.

use super::queue::{Candidate, Injection};
use super::*;

impl Bfq {
    /// Whether queues with different rights are busy, and this one's is not the least, or several groups are (`bfq_asymmetric_scenario`).
    /// Raised ones count elsewhere.
    pub(super) fn is_asymmetric(&self, q: usize) -> bool {
        let least = self.weights.keys().next().copied();
        let is_least = least.is_some() && self.queues[q].counted == least;
        let classes = self.busy_class.iter().filter(|busy| **busy > 0).count();
        classes > 1 || (!is_least && self.weights.len() > 1) || self.are_groups_asymmetric()
    }

    /// Whether idling for a queue's next request raises the device's throughput, and harms nobody
    /// (`idling_boosts_thr_without_issues`).
    pub(super) fn boosts_by_idling(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        let streams = !queue.is_seeky() && queue.intensity.is_io_bound && queue.has_short_think;
        let has_no_queue = self.device_queues == Some(false);
        let boosts = match self.rotational {
            true => has_no_queue || streams,
            false => has_no_queue && streams,
        };
        boosts && queue.processes > 0 && self.raised_busy == 0
    }

    /// Whether to keep the device idle for the next request of a queue rather than to go on with another (`bfq_better_to_idle`).
    pub(super) fn idles_for(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        if self.set.strict {
            return queue.processes > 0;
        }
        if !self.set.idling
            || !self.set.slice_idle.is_positive()
            || !queue.sync
            || queue.priority.class == IoClass::Idle
        {
            return false;
        }
        self.boosts_by_idling(q) || self.needs_idling(q)
    }

    /// Whether the queue would get less than its right if others went meanwhile (`idling_needed_for_service_guarantees`).
    pub(super) fn needs_idling(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        let is_raised_alone =
            queue.is_raised() && (self.raised_busy < self.busy || self.in_driver >= queue.dispatched + 4);
        queue.processes > 0 && (is_raised_alone || self.is_asymmetric(q) || self.busy == 1)
    }

    pub(super) fn must_idle(&self, q: usize) -> bool {
        !self.queues[q].has_requests() && self.idles_for(q)
    }

    /// Another queue whose request may go while one is waited for (`bfq_select_queue`): what nobody waits for of the same process, the
    /// queue that this one waits for, one that waits for this one, or any other as far as that does not slow this one down.
    pub(super) fn injects(&mut self, requests: &Requests, q: usize) -> Option<usize> {
        if !self.set.injection {
            return None;
        }
        let fits = |other: usize| {
            let next = self.queues[other].next.filter(|_| self.queues[other].is_busy)?;
            let charge = self.charge(requests, other, next);
            (charge <= self.engine.of(other).left()).then_some((other, next))
        };
        let served = &self.queues[q];
        let own = self.of_priority.get(&(self.group_of(q), served.priority)).and_then(|own| fits(*own));
        let own = own.filter(|(_, next)| served.owner == Some(requests[*next].process));
        let waker = || served.waker.and_then(fits);
        let woken = || served.woken.first().and_then(|woken| fits(*woken));
        if let Some((other, _)) = own.or_else(waker).or_else(woken) {
            return Some(other);
        }
        if self.boosts_by_idling(q) || (served.is_raised() && self.raised_busy <= 1 && served.has_short_think)
        {
            return None;
        }
        // The kernel would allow one where idling takes long, but compares jiffies with nanoseconds: never.
        if self.in_driver >= served.injection.limit {
            return None;
        }
        let takes_any = !served.is_raised() || !served.has_short_think;
        let found = self.engine.waiting().find_map(|other| {
            let (other, next) = fits(other)?;
            // One large request at a time on a device that does not turn.
            let is_large = !self.rotational && requests[next].sectors >= rate::LARGE && self.in_driver >= 1;
            (!is_large && (takes_any || self.queues[other].is_raised())).then_some(other)
        });
        self.was_injected |= found.is_some();
        found
    }

    /// A request of the queue in service whose time was taken has ended (`bfq_update_inject_limit`).
    pub(super) fn looks_at_injection(&mut self, q: usize, now: Nanos) {
        let (most, in_driver, was_injected) = (self.most_in_driver, self.in_driver, self.was_injected);
        let injection = &mut self.queues[q].injection;
        let (total, old) = (now - self.sampled_since, injection.limit);
        if let Some(alone) = injection.alone.filter(|_| was_injected) {
            let threshold = alone.mul_ratio(3, 2);
            if total >= threshold && old > 0 {
                injection.limit -= 1;
                injection.decreased = self.tick.before(now);
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
        self.idling_since = now;
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
        let is_over = context.now >= self.queues[q].timeout;
        let is_small = self.queues[q].sorted.len() == 1 && sectors < 32;
        if is_small && self.boosts_by_idling(q) && !is_over {
            // More may come that it can be merged with.
            return;
        }
        self.queues[q].is_awaited = false;
        self.timer = None;
        if is_over {
            self.expires(context, q, false, End::Timeout);
        }
    }

    /// The think time of a queue that somebody waits for may have become short or long (`bfq_update_has_short_ttime`).
    pub(super) fn looks_at_think_time(&mut self, q: usize, now: Nanos) {
        let idle = self.set.slice_idle;
        let queue = &mut self.queues[q];
        if queue.sync && queue.dispatched == 0 && !queue.is_busy {
            queue.think.add(now, idle);
        }
        let counts = queue.sync && queue.priority.class != IoClass::Idle && idle.is_positive();
        if !counts || queue.split + RAISED_IDLE >= now {
            return;
        }
        let is_short = !queue.think.is_longer(Nanos::new(idle.get() / 2));
        let has_changed = std::mem::replace(&mut queue.has_short_think, is_short) != is_short;
        let is_old = queue.injection.decreased + self.tick.up(Nanos::from_millis(100)) <= now;
        if has_changed && queue.injection.alone.is_none() && (is_old || !is_short) {
            self.resets_injection(q, now);
        }
    }

    /// Nothing is known of what others' requests cost a queue (`bfq_reset_inject_limit`).
    fn resets_injection(&mut self, q: usize, now: Nanos) {
        let limit = u32::from(!self.queues[q].has_short_think);
        self.queues[q].injection = Injection { limit, alone: None, decreased: self.tick.before(now) };
        self.waited = None;
    }

    /// A request comes to a queue whose process has no other: its time is taken, at most every 10 ms (`bfq_add_request`).
    pub(super) fn begins_sample(&mut self, q: usize, now: Nanos) {
        self.looks_for_waker(q, now);
        if self.queues[q].injection.decreased + Nanos::SECOND <= now {
            self.resets_injection(q, now);
        }
        let injection = &self.queues[q].injection;
        let goes_on = injection.alone.is_some() && self.was_injected && self.in_driver > 0;
        if self.in_service == Some(q)
            && (self.in_driver == 0 || goes_on)
            && injection.decreased + self.tick.up(Nanos::from_millis(10)) <= now
        {
            (self.sampled_since, self.waits_for_dispatch) = (now, true);
            if self.in_driver == 0 {
                self.was_injected = false;
            }
        }
    }

    /// Requests of a queue with long think times come three times in a row right after one of another queue has ended: that one is its
    /// waker (`bfq_check_waker`).
    fn looks_for_waker(&mut self, q: usize, now: Nanos) {
        let Some(last) = self.completed_last.filter(|last| self.set.wakers && *last != q) else { return };
        if self.queues[q].has_short_think || now - self.rate.last_completion() >= Nanos::from_millis(4) {
            return;
        }
        let window = self.set.slice_idle.mul_ratio(128, 1);
        let known =
            self.queues[q].candidate.filter(|known| known.queue == last && now <= known.since + window);
        let candidate = match known {
            Some(known) => Candidate { seen: known.seen + 1, ..known },
            None => Candidate { queue: last, seen: 1, since: now },
        };
        if candidate.seen == 3 {
            self.has_waker(q, Some(last));
        } else {
            self.queues[q].candidate = Some(candidate);
        }
    }
}
