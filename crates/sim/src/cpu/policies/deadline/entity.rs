//! [`Entity`]: one reservation's budget and deadline: the Constant Bandwidth Server.
//!
//! The rules are those of `kernel/sched/deadline.c` (Abeni and Buttazzo, "Integrating Multimedia Applications in
//! Hard Real-Time Systems", RTSS 1998; the revised rule for constrained deadlines: Abeni, Lipari, Lelli 2015).
//! Products are taken in 128 bits, where the kernel shifts its factors by 10 bits to fit 64.

use surety_model::reservation::Reservation;
use surety_units::{Bandwidth, Nanos};

use crate::engine::Slot;

/// A budget that is used up and replenished. It fills two lines of a cache, which processors fetch together.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(super) struct Entity {
    /// Q, D, T; whether it uses bandwidth others leave (GRUB), or runs on as a fair thread without budget.
    pub(super) reservation: Reservation,
    bandwidth: u64,
    /// Present absolute deadline.
    pub(super) deadline: Nanos,
    /// What is left of Q; negative after an overrun.
    pub(super) budget: Nanos,
    /// Whether it waits for its replenishment.
    pub(super) throttled: bool,
    /// Whether it gave its budget up.
    pub(super) yielded: bool,
    /// Whether it has a deadline at all yet.
    pub(super) begun: bool,
    /// Its place in its CPU's queue, while it stands there: the deadline it came with, and its order.
    pub(super) place: Option<(i64, u64)>,
    /// The CPU it is accounted to.
    pub(super) cpu: usize,
    /// Whether its bandwidth counts as active.
    pub(super) active: bool,
    /// Whether its bandwidth is booked, and whether it is given back when it is no longer active.
    pub(super) booked: bool,
    pub(super) leaves: bool,
    /// Fires at the replenishment.
    pub(super) timer: Slot,
    /// Fires at the 0-lag time, when a sleeper's bandwidth becomes free.
    pub(super) inactive: Slot,
}

impl Entity {
    pub(super) fn new(reservation: Reservation, cpu: usize, timers: (Slot, Slot)) -> Entity {
        let bandwidth = Bandwidth::of(reservation.runtime, reservation.period);
        Entity {
            reservation,
            bandwidth: bandwidth.map_or(0, Bandwidth::to_kernel),
            deadline: Nanos::ZERO,
            budget: Nanos::ZERO,
            throttled: false,
            yielded: false,
            begun: false,
            place: None,
            cpu,
            active: false,
            booked: true,
            leaves: false,
            timer: timers.0,
            inactive: timers.1,
        }
    }

    /// Another reservation; deadline and budget stay until it is replenished (`__setparam_dl`).
    pub(super) fn take(&mut self, reservation: Reservation) {
        let bandwidth = Bandwidth::of(reservation.runtime, reservation.period);
        (self.reservation, self.bandwidth) = (reservation, bandwidth.map_or(0, Bandwidth::to_kernel));
    }

    /// Q/T in the kernel's fixed point.
    pub(super) fn bandwidth(&self) -> u64 {
        self.bandwidth
    }

    /// Whether it stands in its CPU's queue.
    pub(super) fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// Whether D < T.
    pub(super) fn is_constrained(&self) -> bool {
        self.reservation.deadline < self.reservation.period
    }

    /// Start of the next period.
    pub(super) fn next_period(&self) -> Nanos {
        self.deadline - self.reservation.deadline + self.reservation.period
    }

    /// Whether what is left of the budget is more than the bandwidth allows until the deadline:
    /// `q / (d - t) > Q / D`.
    pub(super) fn overflows(&self, now: Nanos) -> bool {
        let wide = |a: Nanos, b: Nanos| i128::from(a.get()) * i128::from(b.get());
        let Reservation { runtime, deadline, .. } = self.reservation;
        wide(self.budget, deadline) > wide(self.deadline - now, runtime)
    }

    /// A full budget from now on.
    pub(super) fn begin_period(&mut self, now: Nanos) {
        self.begun = true;
        self.deadline = now + self.reservation.deadline;
        self.budget = self.reservation.runtime;
    }

    /// Whether waking now falls between the deadline and the next period of a constrained reservation: it must
    /// wait for that period, or two of its jobs would come closer than T.
    pub(super) fn wakes_too_early(&self, now: Nanos) -> bool {
        self.begun && self.is_constrained() && self.deadline < now && now < self.next_period()
    }

    /// Whether waking now does not keep the deadline: it has passed, or is too near for what is left of the budget.
    pub(super) fn wakes_afresh(&self, now: Nanos) -> bool {
        !self.begun || self.deadline < now || self.overflows(now)
    }

    /// Whether one that wakes afresh keeps its deadline and has its budget cut.
    fn is_cut(&self, now: Nanos) -> bool {
        self.begun && self.is_constrained() && self.deadline >= now
    }

    /// The wake-up rule: keeps the deadline if the budget fits it, else begins a period, or, when the deadline of
    /// a constrained reservation lies ahead, cuts the budget to `Q/D * (d - t)`.
    pub(super) fn wake(&mut self, now: Nanos) {
        if !self.wakes_afresh(now) {
            return;
        }
        if self.is_cut(now) {
            let Reservation { runtime, deadline, .. } = self.reservation;
            self.budget = (self.deadline - now).mul_ratio(runtime.get_unsigned(), deadline.get_unsigned());
        } else {
            self.begin_period(now);
        }
    }

    /// The deadline [`Entity::wake`] would leave.
    pub(super) fn deadline_after_wake(&self, now: Nanos) -> Nanos {
        let begins = self.wakes_afresh(now) && !self.is_cut(now);
        if begins { now + self.reservation.deadline } else { self.deadline }
    }

    /// Postpones the deadline by a period for each budget added, until there is some; begins afresh when even that
    /// lies in the past.
    pub(super) fn replenish(&mut self, now: Nanos) {
        if self.yielded && self.budget.is_positive() {
            self.budget = Nanos::ZERO;
        }
        while !self.budget.is_positive() {
            self.deadline += self.reservation.period;
            self.budget += self.reservation.runtime;
        }
        if self.deadline < now {
            self.begin_period(now);
        }
        self.yielded = false;
        self.throttled = false;
    }

    /// When a sleeper's bandwidth becomes free: `d - q T / Q`.
    pub(super) fn zero_lag(&self) -> Nanos {
        let Reservation { runtime, period, .. } = self.reservation;
        self.deadline - self.budget.mul_ratio(period.get_unsigned(), runtime.get_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    fn entity(runtime: i64, relative: i64, period: i64) -> Entity {
        let mut engine = Engine::default();
        let component = engine.add_component();
        let timers = (engine.add_slot(component, 0), engine.add_slot(component, 1));
        let ms = Nanos::from_millis;
        let reservation =
            Reservation { deadline: ms(relative), ..Reservation::implicit(ms(runtime), ms(period)) };
        let mut entity = Entity::new(reservation, 0, timers);
        entity.begin_period(Nanos::ZERO);
        entity
    }

    #[test]
    fn it_is_two_lines_of_a_cache() {
        assert_eq!(size_of::<Entity>(), 128);
    }

    #[test]
    fn waking_keeps_begins_or_cuts() {
        let ms = Nanos::from_millis;
        // (Q, D, T), budget left, time of waking: deadline and budget after.
        for ((q, d, t), left, now, deadline, budget) in [
            ((2, 10, 10), 1, 4, 10, 1),  // 1/6 <= 2/10: kept
            ((2, 10, 10), 1, 5, 10, 1),  // 1/5 = 2/10: kept
            ((2, 10, 10), 1, 6, 16, 2),  // 1/4 > 2/10: a new period
            ((2, 10, 10), 1, 11, 21, 2), // past the deadline
            ((2, 8, 10), 2, 4, 8, 1),    // constrained: cut to 2/8 * 4
            ((2, 8, 10), 2, 12, 20, 2),
        ] {
            let mut entity = entity(q, d, t);
            entity.budget = ms(left);
            entity.wake(ms(now));
            assert_eq!(
                (entity.deadline, entity.budget),
                (ms(deadline), ms(budget)),
                "({q},{d},{t}) at {now}"
            );
        }
    }

    #[test]
    fn an_overrun_is_paid_back_by_postponing() {
        let ms = Nanos::from_millis;
        let mut entity = entity(1, 10, 10);
        entity.budget = ms(-3);
        entity.replenish(ms(10));
        assert_eq!((entity.deadline, entity.budget), (ms(50), ms(1)));
    }
}
