//! Which throughput an interrupt thread's reservation allows, and the budget it needs for a wanted one.
//!
//! Work is conserved: a thread that needs c for each request gets through at most `(Q/T)/c` requests in a second, and
//! at least that while it never runs dry. An open source (sporadic, mean rate lambda) gets through `min(lambda, (Q/T)/c)` in
//! the long run. A closed loop of N requests, each a time S in the device and then c in the thread, gets through at most
//! `N/(S + c)` too, and at least N every `S + time_for(N c)`: whatever the order, each of the N has been through device
//! and thread by then (the asymptotic bounds of Denning and Buzen, ACM Computing Surveys 10(3), 1978; the second with the
//! reservation's worst supply in place of a free CPU).
//!
//! The second charges every round the longest wait there is. A thread that shares its CPUs with other reservations can
//! be made to wait in every round: it sleeps while all N are in the device, and whenever it wakes with more budget left than
//! its deadline allows for it gets a new deadline (`update_dl_entity` in `kernel/sched/deadline.c`), before which others may
//! come first again. A thread that has a CPU whenever it has budget waits for budgets only: each wait ends T after the
//! budget was granted, at the latest, and Q was used up in between, whatever it slept (a new deadline on waking comes with a
//! whole new budget). So k rounds, which use k N c, wait at most `(k N c / Q + edge) (T - Q)`, where the edge is the budgets
//! of one overrun, and in the long run
//!
//! ```text
//! at least N in  S + N c + (N c / Q) (T - Q)  =  S + N c T/Q
//! ```

use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::interrupts::{Argument, InterruptError};
use crate::supply::Supply;

/// Requests in a second, from below and from above.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// Guaranteed.
    pub at_least: f64,
    /// Cannot be exceeded.
    pub at_most: f64,
    /// Why.
    pub argument: Argument,
}

fn per_second(time: Nanos) -> f64 {
    1e9 / time.get() as f64
}

fn positive(what: &'static str, value: Nanos) -> Result<(), InterruptError> {
    if value.is_positive() {
        Ok(())
    } else {
        Err(InterruptError::NotPositive { what, value: value.to_exact_string() })
    }
}

fn share(reservation: &Reservation) -> f64 {
    reservation.runtime.get() as f64 / reservation.period.get() as f64
}

/// Requests that come by themselves, `rate` a second on average, `work` each: what gets through in the long run when the
/// device loses what it cannot hold no more often than it has to ([`crate::interrupts::loss`] for the fraction).
pub fn open(rate: f64, work: Nanos, reservation: &Reservation) -> Result<Throughput, InterruptError> {
    positive("the work of one request", work)?;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(InterruptError::NotPositive { what: "the rate of requests", value: rate.to_string() });
    }
    let capacity = share(reservation) * per_second(work);
    let through = rate.min(capacity);
    let binds = if rate <= capacity { "all of them get through" } else { "the reservation binds" };
    Ok(Throughput {
        at_least: through,
        at_most: through,
        argument: Argument {
            theorem: "conservation of work, open source",
            source: "Denning and Buzen, ACM Computing Surveys 10(3), 1978 (utilisation law)",
            steps: vec![format!(
                "{} in {} of a CPU, {work} each: at most {capacity:.1} a second; {rate:.1} come: {binds}",
                reservation.runtime, reservation.period
            )],
            assumptions: vec![
                "the device never loses a request that the thread would have had time for".to_owned(),
            ],
        },
    })
}

/// A closed loop of `outstanding` requests, each `device` in the device (all at the same time, if need be) and `work` in
/// the thread.
pub fn closed(
    outstanding: u32,
    device: Nanos,
    work: Nanos,
    supply: &Supply,
) -> Result<Throughput, InterruptError> {
    positive("the work of one request", work)?;
    if device.is_negative() {
        let value = device.to_exact_string();
        return Err(InterruptError::NotPositive { what: "the time in the device", value });
    }
    if outstanding == 0 {
        return Err(InterruptError::NoQueue);
    }
    let reservation = supply.reservation();
    let n = f64::from(outstanding);
    let capacity = share(reservation) * per_second(work);
    let at_most = capacity.min(n * per_second(device + work));
    let round = device + supply.time_for(work * i64::from(outstanding));
    let in_a_round = (n * per_second(round)).min(at_most);
    // N c T/Q, rounded up.
    let needed = i128::from((work * i64::from(outstanding)).get()) * i128::from(reservation.period.get());
    let drawn = needed.div_euclid(i128::from(reservation.runtime.get().max(1))) + 1;
    let many = i64::try_from(drawn).ok().map(|drawn| device.saturating_add(Nanos::new(drawn)));
    let many = many.filter(|_| supply.is_alone());
    let over_many = many.map_or(0.0, |long| (n * per_second(long)).min(at_most));
    let at_least = in_a_round.max(over_many);
    let below = match many.filter(|_| over_many > in_a_round) {
        Some(long) => format!(
            "at least {outstanding} in {long} over many rounds: the device, then {work} each, of which every {} take at most \
             {} (the thread has a CPU whenever it has budget)",
            reservation.runtime, reservation.period
        ),
        None => {
            format!("at least {outstanding} in {round}: the device, then {work} each under the worst supply")
        }
    };
    Ok(Throughput {
        at_least,
        at_most,
        argument: Argument {
            theorem: "asymptotic bounds of a closed loop, with the worst supply of the reservation",
            source: "Denning and Buzen, ACM Computing Surveys 10(3), 1978",
            steps: vec![
                format!(
                    "at most {capacity:.1} a second by the reservation, {:.1} by the loop ({outstanding} in {})",
                    n * per_second(device + work),
                    device + work
                ),
                below,
            ],
            assumptions: vec![
                format!("a request is at most {device} in the device, however many are"),
                "the next request follows at once".to_owned(),
            ],
        },
    })
}

/// The fraction of the throughput without reservations that a share of a CPU allows: `min(1, (Q/T)/need)`.
///
/// `need`: the share of a CPU that the thread takes at full throughput.
pub fn relative(need: f64, reservation: &Reservation) -> Result<f64, InterruptError> {
    if !(need > 0.0 && need <= 1.0) {
        return Err(InterruptError::NotAShare { what: "the thread's need at full throughput", value: need });
    }
    Ok((share(reservation) / need).min(1.0))
}

/// The smallest budget in each `period` with which `rate` requests a second of `work` each get through.
pub fn budget_for(rate: f64, work: Nanos, period: Nanos) -> Result<(Nanos, Argument), InterruptError> {
    positive("the work of one request", work)?;
    positive("the server period", period)?;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(InterruptError::NotPositive { what: "the wanted rate", value: rate.to_string() });
    }
    let need = rate / per_second(work);
    if need > 1.0 {
        return Err(InterruptError::OutOfReach {
            wanted: format!("{rate:.1} requests of {work} a second"),
            most: format!("{:.1}", per_second(work)),
        });
    }
    // Never a rounding below what is needed.
    let exact = need * period.get() as f64;
    let budget = Nanos::new((exact * (1.0 + 4.0 * f64::EPSILON)).ceil() as i64).min(period);
    let argument = Argument {
        theorem: "conservation of work",
        source: "Denning and Buzen, ACM Computing Surveys 10(3), 1978 (utilisation law)",
        steps: vec![format!("{rate:.1} a second x {work} = {need:.4} of a CPU: {budget} in each {period}")],
        assumptions: vec!["the device holds what comes between two budgets (most_pending)".to_owned()],
    };
    Ok((budget, argument))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::platform::Enforcement;

    fn of(q: i64, t: i64) -> Reservation {
        Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t))
    }

    /// Copy times of a file by the disk thread's reservation: Manica et al., "Schedulable device drivers", 2010, "Full disk
    /// experiments (II)". The need is calibrated on the rows without and with (50, 100) ms, the others are predicted.
    #[test]
    fn published_copy_times_follow_from_one_number() {
        let (none, half) = (16.89, 31.49);
        let need = 0.5 * half / none;
        for (q, seconds) in [(30, 52.85), (40, 39.52), (60, 26.23), (70, 22.58), (80, 19.77), (90, 17.59)] {
            let predicted = none / relative(need, &of(q, 100)).unwrap();
            assert!((predicted / seconds - 1.0).abs() < 0.015, "{q}: {predicted} {seconds}");
        }
    }

    #[test]
    fn rates_and_budgets_invert_each_other_and_nonsense_is_refused() {
        let work = Nanos::from_micros(50);
        let (budget, _) = budget_for(4_000.0, work, Nanos::from_millis(100)).unwrap();
        assert_eq!(budget, Nanos::new(20_000_001));
        let reservation = Reservation::implicit(budget, Nanos::from_millis(100));
        let open = open(4_000.0, work, &reservation).unwrap();
        assert_eq!((open.at_least, open.at_most), (4_000.0, 4_000.0));
        assert_eq!(super::open(9_000.0, work, &of(20, 100)).unwrap().at_most.round(), 4_000.0);
        for (error, word) in [
            (budget_for(30_000.0, work, Nanos::from_millis(1)).unwrap_err(), "20000.0"),
            (budget_for(f64::NAN, work, Nanos::from_millis(1)).unwrap_err(), "NaN"),
            (budget_for(1.0, Nanos::ZERO, Nanos::from_millis(1)).unwrap_err(), "0s"),
            (relative(1.5, &of(1, 2)).map(|_| ()).unwrap_err(), "1.5"),
        ] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_thread_alone_waits_for_budgets_only() {
        let us = Nanos::from_micros;
        let loop_of = |alone| {
            let supply = Supply::new(of(20, 100), Enforcement::Tick(Nanos::from_millis(4)), alone);
            closed(4, us(400), us(50), &supply).unwrap()
        };
        // 400 us in the device and 200 us of work at a fifth of a CPU: 4 in 1.4 ms.
        assert!((loop_of(true).at_least - 4.0 / 1.4e-3).abs() < 1.0, "{:?}", loop_of(true));
        assert!(loop_of(false).at_least < 100.0, "{:?}", loop_of(false));
        assert!(loop_of(true).argument.steps[1].contains("over many rounds"));
    }

    proptest! {
        /// A loop simulated in milliseconds with budgets anywhere in their periods stays within its bounds.
        #[test]
        fn a_played_loop_stays_within_its_bounds(
            n in 1u32..5, device in 0i64..9, work in 1i64..4, q in 1i64..6, slack in 0i64..6,
            places in prop::collection::vec(0i64..6, 300),
        ) {
            let t = q + slack;
            let ms = Nanos::from_millis;
            let supply = Supply::new(of(q, t), Enforcement::Exact, false);
            let bounds = closed(n, ms(device), ms(work), &supply).unwrap();
            let mut back: Vec<i64> = vec![device; n as usize];
            let (mut left, mut done, mut budget) = (0i64, 0u32, 0i64);
            let length = t * places.len() as i64;
            for now in 0..length {
                if now % t == 0 { budget = q }
                // The budget waits for work, but is complete by the period's end where there is work.
                let begins = places[(now / t) as usize].min(slack);
                if now % t >= begins && budget > 0 {
                    if left == 0 && let Some(next) = back.iter_mut().find(|b| **b <= now) {
                        *next = i64::MAX;
                        left = work;
                    }
                    if left > 0 {
                        budget -= 1;
                        left -= 1;
                        if left == 0 {
                            done += 1;
                            let slot = back.iter_mut().find(|b| **b == i64::MAX).unwrap();
                            *slot = now + 1 + device;
                        }
                    }
                }
            }
            let seconds = length as f64 / 1e3;
            let seen = f64::from(done);
            // A round at either end.
            let edge = f64::from(n) + 1.0;
            prop_assert!(seen <= bounds.at_most * seconds + edge, "{seen} {}", bounds.at_most * seconds);
            prop_assert!(seen >= bounds.at_least * seconds - edge, "{seen} {}", bounds.at_least * seconds);
        }
    }
}
