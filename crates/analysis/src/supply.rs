//! [`Supply`]: the least CPU time a reservation gives in a window of any length.
//!
//! A thread that always wants the CPU under (Q, D, T) has received at least `j Q` at `(j-1) T + D` after a
//! fresh start, as late as possible:
//!
//! ```text
//! late(x) = y Q + min(Q, x - (D - Q) - y T),   y = floor((x - (D - Q)) / T)          (0 for x < D - Q)
//! ```
//!
//! With exact enforcement it has received at most `(i+1) Q` up to the end of period `i`, and the worst window
//! begins when Q has been given at the very start of a period:
//!
//! ```text
//! guaranteed(t) = max(0, late(t + Q) - Q)
//! ```
//!
//! This is the supply bound function of the explicit deadline periodic resource (Easwaran, Anand and Lee,
//! "Compositional analysis framework using EDP resource models", RTSS 2007), with the blackout `(T-Q) +
//! (D-Q)`.
//!
//! Where budgets are looked at on the tick only, a thread overruns by o, less than a tick h. At its next
//! replenishment `j = floor(o/Q) + 1 <= k = max(1, ceil(h/Q))` budgets are granted at once, the deadline
//! moves j periods on, and `r = jQ - o` is left to run at once (`replenish_dl_entity` in
//! `kernel/sched/deadline.c`); then it may overrun again. So a window can begin r + h into a period with `jQ
//! + h` received in it and before, and
//!
//! ```text
//! guaranteed(t) = max(0, min(late(t + kQ) - kQ - h,  late(t + h) - (k-1)Q - h))
//! ```
//!
//! the first for o up to h, the second for o just below (k-1)Q. Its blackout is `(2k-1) T + D - 2kQ + h`. A
//! thread that is alone on its CPU runs as soon as it has budget: `D = Q` in `late`, and its longest gap is
//! the time from one replenishment to the next less what it ran, `k (T-Q) + h`.
//!
//! *Lines and inverses.* `linear(t) = Q/T (t - latency)` is the highest line of slope Q/T that nowhere exceeds
//! `guaranteed` (through the corners where the steps begin; Shin and Lee, "Periodic resource model for compositional
//! real-time guarantees", RTSS 2003, and Easwaran et al.), and [`Supply::time_for`] the shortest window that is
//! guaranteed an amount.
//!
//! Holds where every reservation keeps its scheduling deadlines ([`crate::edf`]).

use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

/// The guaranteed supply of one reservation under one way of enforcing budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    reservation: Reservation,
    tick: Nanos,
    alone: bool,
}

impl Supply {
    /// The supply of a reservation the kernel takes; `alone`: it has a CPU whenever it has budget.
    pub fn new(reservation: Reservation, enforcement: Enforcement, alone: bool) -> Supply {
        Supply { reservation, tick: enforcement.overrun_max(), alone }
    }

    /// (Q, D, T).
    pub fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Whether it has a CPU whenever it has budget.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The longest time without CPU for a thread that always wants it.
    pub fn blackout(&self) -> Nanos {
        let Reservation { runtime, deadline, period, .. } = self.reservation;
        let budgets = self.budgets_at_once();
        if self.alone {
            return (period - runtime) * budgets + self.tick;
        }
        period * (2 * budgets - 1) + deadline - runtime * (2 * budgets) + self.tick
    }

    /// CPU time guaranteed in every window of this length.
    pub fn guaranteed(&self, window: Nanos) -> Nanos {
        let lines = self.lines().into_iter();
        let least = lines.map(|(ahead, less)| self.at_the_latest(window + ahead) - less).min();
        least.unwrap_or(Nanos::ZERO).max(Nanos::ZERO)
    }

    /// The time by which the linear bound is late, rounded up.
    ///
    /// A step of `late(t + a) - b` begins at `t = D - Q + y T - a` with the value `y Q - b`: its line is late by `D - Q - a
    /// + b T/Q`.
    pub fn latency(&self) -> Nanos {
        let Reservation { runtime, period, .. } = self.reservation;
        let line = |ahead: Nanos, less: Nanos| {
            let wide = i128::from(less.get()) * i128::from(period.get());
            let rounded_up = (wide + i128::from(runtime.get()) - 1).div_euclid(i128::from(runtime.get()));
            let lateness = self.deadline() - runtime - ahead;
            lateness.saturating_add(Nanos::new(i64::try_from(rounded_up).unwrap_or(i64::MAX)))
        };
        self.lines().into_iter().map(|(ahead, less)| line(ahead, less)).fold(Nanos::ZERO, Nanos::max)
    }

    /// A straight line below [`Supply::guaranteed`], rounded down.
    pub fn linear(&self, window: Nanos) -> Nanos {
        let Reservation { runtime, period, .. } = self.reservation;
        let after = (window - self.latency()).max(Nanos::ZERO);
        after.mul_ratio(runtime.get_unsigned(), period.get_unsigned())
    }

    /// The shortest window in which this much CPU time is guaranteed.
    pub fn time_for(&self, amount: Nanos) -> Nanos {
        if !amount.is_positive() {
            return Nanos::ZERO;
        }
        let Reservation { runtime, period, .. } = self.reservation;
        // `late` reaches a > 0 in its budget number ceil(a/Q), counted from 0.
        let reaches = |amount: Nanos| {
            let whole = (amount - Nanos::new(1)).div_floor(runtime);
            self.deadline() - runtime + period * whole + (amount - runtime * whole)
        };
        let lines = self.lines().into_iter();
        lines.map(|(ahead, less)| reaches(amount + less) - ahead).fold(amount, Nanos::max)
    }

    /// `(a, b)` of the terms `late(t + a) - b` that [`Supply::guaranteed`] is the least of.
    fn lines(&self) -> Vec<(Nanos, Nanos)> {
        let runtime = self.reservation.runtime;
        let ahead = runtime * self.budgets_at_once();
        let mut lines = vec![(ahead, ahead + self.tick)];
        if self.tick != Nanos::ZERO {
            lines.push((self.tick, ahead - runtime + self.tick));
        }
        lines
    }

    /// The most CPU time it takes in any window of this length.
    ///
    /// Up to x after its start it has received at most `(floor(x/T) + k) Q + h`, and j Q at the latest by
    /// `(j-1) T + D`: in a window of t that is `(floor((t + D - Q) / T) + k) Q + h`.
    pub fn at_most(&self, window: Nanos) -> Nanos {
        let Reservation { runtime, period, .. } = self.reservation;
        if runtime >= period {
            return window;
        }
        let budgets = (window + self.deadline() - runtime).div_floor(period) + self.budgets_at_once();
        (runtime * budgets + self.tick).min(window)
    }

    /// The most CPU time that a thread which may sleep inside a budget takes in any window of this length.
    ///
    /// A budget, or what is left of it at a waking, is given within D of when it comes. With D = T, `V = d - q T/Q` (see
    /// [`crate::schedulability::Server`]) is at least t - T at any t with something left to run, and at most `t + k T` plus what
    /// an overrun has ahead: `Q/T (t + T) + k Q + h`, and `Q/T (t + 2T - 2Q)` where nothing is overrun and so deadlines are
    /// kept. With D < T budgets begin T apart and each is given within 2D, D where nothing is overrun:
    /// `(floor((t + 2D)/T) + k) Q + h`. A thread that has a CPU whenever it has budget runs from when it wakes, so V is never
    /// below t while it runs: `Q/T t + k Q + h`.
    pub fn at_most_waking(&self, window: Nanos) -> Nanos {
        let Reservation { runtime, deadline, period, .. } = self.reservation;
        if runtime >= period {
            return window;
        }
        let is_exact = self.tick == Nanos::ZERO;
        let most = match (deadline == period, is_exact) {
            (true, _) if self.alone => {
                let own = window.mul_ratio(runtime.get_unsigned(), period.get_unsigned());
                own + Nanos::new(1) + runtime * self.budgets_at_once() + self.tick
            }
            (true, true) => {
                let span = window + (period - runtime) * 2;
                span.mul_ratio(runtime.get_unsigned(), period.get_unsigned()) + Nanos::new(1)
            }
            (true, false) => {
                let own = (window + period).mul_ratio(runtime.get_unsigned(), period.get_unsigned());
                own + Nanos::new(1) + runtime * self.budgets_at_once() + self.tick
            }
            (false, true) => runtime * ((window + deadline - runtime).div_floor(period) + 1),
            (false, false) => {
                let budgets = (window + deadline * 2).div_floor(period) + self.budgets_at_once();
                runtime * budgets + self.tick
            }
        };
        most.min(window)
    }

    /// k of the header.
    fn budgets_at_once(&self) -> i64 {
        self.tick.div_ceil(self.reservation.runtime).max(1)
    }

    fn deadline(&self) -> Nanos {
        if self.alone { self.reservation.runtime } else { self.reservation.deadline }
    }

    /// `late(x)` of the header.
    fn at_the_latest(&self, since_start: Nanos) -> Nanos {
        let Reservation { runtime, period, .. } = self.reservation;
        let after = since_start - (self.deadline() - runtime);
        if after.is_negative() {
            return Nanos::ZERO;
        }
        let whole = after.div_floor(period);
        runtime * whole + runtime.min(after - period * whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(q: i64, d: i64, t: i64) -> Reservation {
        let ms = Nanos::from_millis;
        Reservation { deadline: ms(d), ..Reservation::implicit(ms(q), ms(t)) }
    }

    #[test]
    fn blackouts_are_the_textbook_ones_and_cover_what_was_measured() {
        let tick = Enforcement::Tick(Nanos::from_millis(4));
        for (reservation, enforcement, alone, blackout) in [
            (of(2, 10, 10), Enforcement::Exact, false, 16),
            (of(2, 6, 10), Enforcement::Exact, false, 12),
            (of(2, 6, 10), Enforcement::Exact, true, 8),
            (of(26, 40, 40), tick, false, 32),
            // Measured on 6.18 at 250 Hz, alone on a CPU: gaps up to 37.3 ms and 18.9 ms.
            (of(1, 10, 10), tick, true, 40),
            (of(2, 10, 10), tick, true, 20),
            (of(1, 10, 10), tick, false, 76),
        ] {
            let supply = Supply::new(reservation, enforcement, alone);
            let found = supply.blackout();
            assert_eq!(found, Nanos::from_millis(blackout), "{reservation:?} {enforcement:?}");
            assert_eq!(supply.guaranteed(found), Nanos::ZERO);
        }
        let exact = Supply::new(of(2, 10, 10), Enforcement::Exact, false);
        assert!(exact.guaranteed(exact.blackout() + Nanos::new(1)).is_positive());
        assert_eq!(exact.guaranteed(Nanos::from_millis(1016)), Nanos::from_millis(200));
    }

    /// A thread that always runs under (Q, T) whose budget is looked at every `h` ticks only, alone on its
    /// CPU: true where it runs, one entry per time unit. `h = 1` enforces exactly. Replenished as the kernel
    /// does.
    fn alone(q: i64, t: i64, h: i64, phase: i64, length: usize) -> Vec<bool> {
        let (mut budget, mut deadline, mut throttled) = (q, t, false);
        (0..length as i64)
            .map(|now| {
                if throttled && now >= deadline {
                    while budget <= 0 {
                        budget += q;
                        deadline += t;
                    }
                    throttled = false;
                } else if !throttled && (now + phase) % h == 0 && budget <= 0 {
                    throttled = true;
                    if now >= deadline {
                        while budget <= 0 {
                            budget += q;
                            deadline += t;
                        }
                        throttled = false;
                    }
                }
                budget -= i64::from(!throttled);
                !throttled
            })
            .collect()
    }

    /// By hand from the definitions: the periodic resource (T 5, Q 3) that Shin and Lee, RTSS 2003, draw, and two with a
    /// deadline before the period's end (Easwaran et al. 2007).
    #[test]
    fn supplies_of_the_papers_definitions() {
        for ((q, d, t), values) in [
            ((3, 4, 5), vec![(3, 0), (4, 1), (6, 3), (8, 3), (9, 4)]),
            ((2, 2, 8), vec![(6, 0), (7, 1), (8, 2), (14, 2), (15, 3)]),
        ] {
            let supply = Supply::new(of(q, d, t), Enforcement::Exact, false);
            for (window, given) in values {
                let found = supply.guaranteed(Nanos::from_millis(window));
                assert_eq!(found, Nanos::from_millis(given), "({q}, {d}, {t}) {window}");
            }
        }
        // A request as long as its period, which no kernel admits, takes every window whole, however short its period.
        let hours = Nanos::from_secs(3 * 3600);
        let all = Reservation { deadline: hours, ..Reservation::implicit(hours, Nanos::from_micros(1)) };
        let all = Supply::new(all, Enforcement::Exact, false);
        assert_eq!([all.at_most(hours), all.at_most_waking(hours)], [hours, hours]);
        let supply = Supply::new(of(3, 5, 5), Enforcement::Exact, false);
        // lsbf(t) = Q/T (t - 2 (T - Q)).
        assert_eq!(supply.latency(), Nanos::from_millis(4));
        assert_eq!(supply.linear(Nanos::from_millis(9)), Nanos::from_millis(3));
        assert_eq!(supply.time_for(Nanos::from_millis(4)), Nanos::from_millis(10));
    }

    proptest! {
        #[test]
        fn no_window_of_a_replayed_server_gets_less_or_more(
            q in 1i64..12, slack in 0i64..20, h in 1i64..9, phase in 0i64..9, window in 1usize..120,
        ) {
            let t = q + slack;
            let ran = alone(q, t, h, phase, 600);
            let ns = |n: i64| Nanos::new(n);
            let enforcement = if h == 1 { Enforcement::Exact } else { Enforcement::Tick(ns(h)) };
            for alone in [true, false] {
                let supply = Supply::new(Reservation::implicit(ns(q), ns(t)), enforcement, alone);
                let (least, most) = (supply.guaranteed(ns(window as i64)), supply.at_most(ns(window as i64)));
                for part in ran.windows(window) {
                    let got = ns(part.iter().filter(|r| **r).count() as i64);
                    prop_assert!(got >= least, "got {got:?}, guaranteed {least:?}");
                    prop_assert!(got <= most, "got {got:?}, at most {most:?}");
                    prop_assert!(got > Nanos::ZERO || ns(window as i64) <= supply.blackout());
                }
            }
        }

        #[test]
        fn more_time_never_guarantees_less(q in 1i64..50, d in 0i64..50, t in 0i64..50, w in 0i64..500) {
            let supply = Supply::new(of(q, q + d, q + d + t), Enforcement::Tick(Nanos::from_millis(4)), false);
            let at = |w| supply.guaranteed(Nanos::from_millis(w));
            prop_assert!(at(w) <= at(w + 1));
            prop_assert!(supply.linear(Nanos::from_millis(w)) <= at(w));
            // The inverse is the first window that is guaranteed as much.
            let amount = Nanos::from_micros(1 + 700 * w);
            let window = supply.time_for(amount);
            prop_assert!(supply.guaranteed(window) >= amount);
            prop_assert!(supply.guaranteed(window - Nanos::new(1)) < amount);
            prop_assert!(at(w) <= supply.at_most(Nanos::from_millis(w)));
        }
    }
}
