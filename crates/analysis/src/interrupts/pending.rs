//! How many requests can be pending: the rule of the paper, the rule with the worst blackout, and the number itself.
//!
//! Manica, Abeni, Palopoli, Faggioli and Scordino ("Schedulable device drivers", 2010; "Reservation-based interrupt
//! scheduling", RTAS 2010): a thread that has used up its budget waits `T - Q`, so with interrupts at least P apart no
//! request is lost while `(T - Q)/P < N_c`. That is the wait within one server period. Budgets may come early in one
//! period and late in the next: the longest wait is the supply's blackout, `2 (T - Q)` with exact enforcement, `T + D - 2
//! Q` with a deadline before the period's end, and longer where budgets are looked at on the tick
//! ([`crate::supply`]).
//!
//! Neither rule looks at what happens after the wait, when requests go on coming while the thread catches up. The most
//! that can ever be pending is
//!
//! ```text
//! sup_t  floor(t/P) + 1 - floor(guaranteed(t)/c)
//! ```
//!
//! over the time t since the queue was last empty (the vertical distance of arrival and service curves; Le Boudec and
//! Thiran, "Network calculus", 2001, theorem 1.4.1). It is finite when `c/P < Q/T`.

use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::interrupts::{Argument, InterruptError};
use crate::supply::Supply;

/// Arrivals looked at, at most, before the pending number is called unbounded.
const ARRIVALS_MAX: i64 = 10_000_000;

/// A device and its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// P: interrupts are at least this far apart.
    pub distance: Nanos,
    /// N_c: requests the device holds.
    pub held: u32,
    /// c: the most CPU time the thread needs for one.
    pub work: Nanos,
}

/// What one rule says.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Whether no request is lost by this rule.
    pub keeps: bool,
    /// The wait the rule looks at.
    pub wait: Nanos,
    /// Requests that may come in it, as the rule counts: wait / P.
    pub delayed: f64,
    /// Why.
    pub argument: Argument,
}

impl Interrupt {
    /// Refuses what makes no sense, by its number.
    pub fn check(&self) -> Result<(), InterruptError> {
        for (what, value) in
            [("the inter-arrival time of interrupts", self.distance), ("the work of one", self.work)]
        {
            if !value.is_positive() {
                return Err(InterruptError::NotPositive { what, value: value.to_exact_string() });
            }
        }
        if self.held == 0 { Err(InterruptError::NoQueue) } else { Ok(()) }
    }

    /// `(T - Q)/P < N_c`: necessary for no loss in the worst case, not sufficient.
    pub fn paper_rule(&self, reservation: &Reservation) -> Result<Rule, InterruptError> {
        self.check()?;
        let wait = reservation.period - reservation.runtime;
        let words = format!("T - Q = {} - {} = {wait}", reservation.period, reservation.runtime);
        Ok(self.rule(
            wait,
            "wait within one server period, (T - Q)/P < N_c",
            "Manica, Abeni, Palopoli, Faggioli and Scordino, RTAS 2010",
            words,
            "the budget of every server period comes at the same place in it",
        ))
    }

    /// `blackout/P < N_c` with the longest time without CPU under the platform's enforcement.
    pub fn safe_rule(&self, supply: &Supply) -> Result<Rule, InterruptError> {
        self.check()?;
        let wait = supply.blackout();
        Ok(self.rule(
            wait,
            "longest time without CPU, blackout/P < N_c",
            "Easwaran, Anand and Lee, RTSS 2007; crate::supply for the tick",
            format!("longest time without CPU: {wait}"),
            "the thread then catches up faster than interrupts come (most_pending says how far it falls behind)",
        ))
    }

    fn rule(
        &self,
        wait: Nanos,
        theorem: &'static str,
        source: &'static str,
        words: String,
        assumption: &str,
    ) -> Rule {
        let keeps = i128::from(wait.get()) < i128::from(self.distance.get()) * i128::from(self.held);
        let delayed = wait.get() as f64 / self.distance.get() as f64;
        let sign = if keeps { "<" } else { ">=" };
        let steps = vec![words, format!("{wait} / {} = {delayed:.3} {sign} {}", self.distance, self.held)];
        let assumptions =
            vec![format!("interrupts are at least {} apart", self.distance), assumption.to_owned()];
        Rule { keeps, wait, delayed, argument: Argument { theorem, source, steps, assumptions } }
    }

    /// The most requests that can ever be pending, the one in work included; `None` when there is no bound because
    /// they come faster than the reservation works them off. No request is lost when it is at most `held`.
    pub fn most_pending(&self, supply: &Supply) -> Result<Option<(u64, Argument)>, InterruptError> {
        self.check()?;
        let Reservation { runtime, period, .. } = *supply.reservation();
        let (c, p) = (i128::from(self.work.get()), i128::from(self.distance.get()));
        // c/P < Q/T.
        if c * i128::from(period.get()) >= i128::from(runtime.get()) * p {
            return Ok(None);
        }
        let (mut most, mut at) = (0i64, Nanos::ZERO);
        for arrivals in 1..=ARRIVALS_MAX {
            let now = self.distance * (arrivals - 1);
            let pending = arrivals - supply.guaranteed(now).div_floor(self.work);
            if pending > most {
                (most, at) = (pending, now);
            }
            // From here on the line below the supply has caught up for good.
            if supply.linear(now) > self.work * arrivals {
                break;
            }
            if arrivals == ARRIVALS_MAX {
                return Ok(None);
            }
        }
        let argument = Argument {
            theorem: "most pending requests: arrivals less guaranteed service, over all times since the queue was empty",
            source: "Le Boudec and Thiran, Network Calculus, theorem 1.4.1",
            steps: vec![format!(
                "{at} after the queue was empty up to {} requests have come and {} of CPU time is guaranteed, {} each: {most} \
                 pending",
                at.div_floor(self.distance) + 1,
                supply.guaranteed(at),
                self.work
            )],
            assumptions: vec![
                format!("interrupts are at least {} apart", self.distance),
                format!("no request needs more than {} of its thread", self.work),
            ],
        };
        Ok(Some((u64::try_from(most).unwrap_or(0), argument)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::platform::Enforcement;

    fn of(distance: i64, held: u32, work: i64) -> Interrupt {
        Interrupt { distance: Nanos::new(distance), held, work: Nanos::new(work) }
    }

    fn reservation(q: i64, d: i64, t: i64) -> Reservation {
        Reservation { deadline: Nanos::new(d), ..Reservation::implicit(Nanos::new(q), Nanos::new(t)) }
    }

    #[test]
    fn the_paper_counts_half_of_the_worst_wait() {
        let r = reservation(20, 100, 100);
        let exact = Supply::new(r, Enforcement::Exact, false);
        for (held, paper, safe) in [(8, false, false), (9, true, false), (16, true, false), (17, true, true)]
        {
            let irq = of(10, held, 1);
            assert_eq!(irq.paper_rule(&r).unwrap().keeps, paper, "{held}");
            assert_eq!(irq.safe_rule(&exact).unwrap().keeps, safe, "{held}");
        }
        // T + D - 2Q.
        let early = Supply::new(reservation(20, 50, 100), Enforcement::Exact, false);
        assert_eq!(of(10, 12, 1).safe_rule(&early).unwrap().wait, Nanos::new(110));
        // On the tick the budget of 1 ms may be overrun fourfold, and paid back.
        let ms = Nanos::from_millis;
        let tick = Supply::new(Reservation::implicit(ms(1), ms(10)), Enforcement::Tick(ms(4)), false);
        let irq = Interrupt { distance: ms(5), held: 8, work: Nanos::from_micros(10) };
        assert!(irq.paper_rule(tick.reservation()).unwrap().keeps);
        let rule = irq.safe_rule(&tick).unwrap();
        assert!(!rule.keeps && rule.wait == ms(76), "{rule:?}");
        assert_eq!(of(10, 0, 1).check().unwrap_err(), InterruptError::NoQueue);
        assert!(of(0, 1, 1).check().unwrap_err().to_string().contains("0s"));
        // The slope of arrivals is that of the supply: no bound.
        assert_eq!(of(5, 9, 1).most_pending(&exact).unwrap(), None);
    }

    proptest! {
        /// A request each P and Q at the end of one period, then early... any placement in the periods: never more
        /// pending than said.
        #[test]
        fn nothing_exceeds_the_most_pending(
            q in 2i64..8, slack in 1i64..12, p in 2i64..9, c in 1i64..4, phase in 0i64..20,
            places in prop::collection::vec(0i64..20, 40),
        ) {
            let t = q + slack;
            let irq = of(p, 1, c);
            let supply = Supply::new(reservation(q, t, t), Enforcement::Exact, false);
            let Some((most, _)) = irq.most_pending(&supply).unwrap() else { return Ok(()) };
            let (mut left, mut pending) = (0i64, 0u64);
            for (period, place) in places.iter().enumerate() {
                let from = place % (slack + 1);
                for now in 0..t {
                    let time = period as i64 * t + now;
                    if time >= phase && (time - phase) % p == 0 {
                        pending += 1;
                        left += c;
                    }
                    prop_assert!(pending <= most, "{pending} > {most} at {time}");
                    if (from..from + q).contains(&now) && left > 0 {
                        left -= 1;
                        pending = u64::try_from((left + c - 1) / c).unwrap();
                    }
                }
            }
        }
    }
}
