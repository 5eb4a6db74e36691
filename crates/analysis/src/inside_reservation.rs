//! What fits inside a reservation: tasks that share one thread's budget, by EDF or by fixed priorities.
//!
//! A set keeps its deadlines inside a reservation when its demand never exceeds the guaranteed supply
//! ([`crate::supply`], so exact and tick enforcement alike):
//!
//! - EDF: `dbf(t) <= guaranteed(t)` for every t (Shin and Lee, "Periodic resource model for compositional real-time
//!   guarantees", RTSS 2003; Easwaran, Anand and Lee, RTSS 2007, for a deadline before the period's end). Looked at
//!   backwards as in QPA (Zhang and Burns 2009): when `dbf(t)` is guaranteed by `s < t`, nothing between s and t can
//!   fail. Exact for the worst supply.
//! - fixed priorities: a job of task i that is the q-th of a busy window is done when the supply reaches `q C_i +
//!   B + sum_{hp} ceil((t + J_j)/T_j) C_j` (Lehoczky, RTSS 1990, for deadlines beyond periods; Almeida and Pedreiras,
//!   EMSOFT 2004, for servers); B is the longest section of lower priority that cannot be interrupted.
//!
//! Context switches inside belong into the works.

use surety_units::Nanos;

use crate::schedulability::SporadicTask;
use crate::schedulability::fixed::{Response, longest_response};
use crate::schedulability::task::{narrow, wide};
use crate::schedulability::uniprocessor::{Demanded, LIMIT, backwards};
use crate::supply::Supply;

/// A task inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// C: the most CPU time of a job.
    pub work: Nanos,
    /// D: relative to the release, any length.
    pub deadline: Nanos,
    /// T: releases are at least this far apart, jitter aside.
    pub period: Nanos,
    /// J: a release comes up to this much late. Under EDF deadlines count from the planned release.
    pub jitter: Nanos,
}

impl Inner {
    /// A task with its deadline at its period's end.
    pub fn implicit(work: Nanos, period: Nanos) -> Inner {
        Inner { work, deadline: period, period, jitter: Nanos::ZERO }
    }

    fn sporadic(&self, blocking: Nanos) -> SporadicTask {
        let plain = SporadicTask::new(self.work, self.deadline, self.period);
        SporadicTask { jitter: self.jitter, blocking, ..plain }
    }
}

/// Whether a set fits, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// A proof when true; when false, `steps` end with where it fails.
    pub fits: bool,
    /// The rule.
    pub theorem: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The numbers, line by line.
    pub steps: Vec<String>,
    /// The longest response of each task, in order, as far as known (fixed priorities).
    pub responses: Vec<Nanos>,
}

/// What makes no set: the first task with a number that cannot be, in words.
fn objection(tasks: &[Inner]) -> Option<String> {
    tasks.iter().enumerate().find_map(|(index, task)| {
        let named = [("work", task.work), ("deadline", task.deadline), ("period", task.period)];
        let bad = named.into_iter().find(|(_, time)| !time.is_positive());
        bad.map(|(what, time)| format!("task {index}: {what} {} is not positive", time.to_exact_string()))
            .or_else(|| {
                let negative = task.jitter.is_negative();
                negative
                    .then(|| format!("task {index}: jitter {} is negative", task.jitter.to_exact_string()))
            })
    })
}

/// Work per period of all tasks against Q per T: `(tasks, reservation)` over a common denominator would not fit any
/// integer, so floats decide here and only to end a search; a demand is never compared in floats.
fn utilisation(tasks: &[Inner]) -> f64 {
    tasks.iter().map(|t| t.work.get() as f64 / t.period.get() as f64).sum()
}

/// Do these tasks keep their deadlines by EDF inside this supply?
pub fn edf(tasks: &[Inner], supply: &Supply) -> Fit {
    let mut fit = Fit {
        fits: false,
        theorem: "demand bound of EDF against the supply bound of the reservation",
        source: "Shin and Lee, RTSS 2003; Easwaran, Anand and Lee, RTSS 2007; Zhang and Burns, 2009 (QPA)",
        steps: Vec::new(),
        responses: Vec::new(),
    };
    if let Some(words) = objection(tasks) {
        fit.steps.push(words);
        return fit;
    }
    let (demanded, reserved) = (utilisation(tasks), supply.reservation().bandwidth().as_f64());
    fit.steps.push(format!("the tasks take {demanded:.4} of a CPU, the reservation gives {reserved:.4}"));
    if demanded >= reserved {
        fit.steps.push("no room is left for the time the reservation is late".to_owned());
        return fit;
    }
    // dbf(t) <= U t + sum U_i (T_i + J_i - D_i)+ and guaranteed(t) >= share (t - latency) cross here at the latest.
    let ahead: f64 = (tasks.iter())
        .map(|t| {
            t.work.get() as f64 / t.period.get() as f64
                * (t.period + t.jitter - t.deadline).get().max(0) as f64
        })
        .sum();
    let horizon = (ahead + reserved * supply.latency().get() as f64 + 1.0) / (demanded - reserved).abs();
    if horizon > 4e18 {
        fit.steps.push(
            "so little room is left that windows beyond a century would have to be looked at".to_owned(),
        );
        return fit;
    }
    let tasks: Vec<SporadicTask> = tasks.iter().map(|t| t.sporadic(Nanos::ZERO)).collect();
    let longest = tasks.iter().map(SporadicTask::first_window).max().unwrap_or(0);
    let horizon = (horizon as i128 + 1).max(longest + 1);
    fit.steps.push(format!("windows up to {} have to be looked at", narrow(horizon)));
    let asked = |t: i128| tasks.iter().map(|task| task.demand(t)).sum::<i128>();
    let before = |t: i128| tasks.iter().filter_map(|task| task.window_before(t)).max();
    match backwards(before(horizon), asked, |amount| wide(supply.time_for(narrow(amount))), before) {
        Demanded::Fits { looked } => {
            fit.fits = true;
            fit.steps.push(format!("no window is asked for more than is guaranteed ({looked} looked at)"));
        }
        Demanded::Exceeded { window, asked } => {
            let (window, asked) = (narrow(window), narrow(asked));
            let given = supply.guaranteed(window);
            fit.steps
                .push(format!("a window of {window} may be asked for {asked}, and {given} is guaranteed"));
        }
        Demanded::Overloaded | Demanded::Open => {
            fit.steps.push(format!("not decided after {LIMIT} windows"));
        }
    }
    fit
}

/// Do these tasks, in order of falling priority, keep their deadlines inside this supply?
///
/// `blocking`: the longest time that a task may be kept waiting by one of lower priority.
pub fn fixed_priority(tasks: &[Inner], blocking: Nanos, supply: &Supply) -> Fit {
    let mut fit = Fit {
        fits: false,
        theorem: "response times of fixed priorities under the supply bound of the reservation",
        source: "Lehoczky, RTSS 1990; Almeida and Pedreiras, EMSOFT 2004",
        steps: Vec::new(),
        responses: Vec::new(),
    };
    if let Some(words) = objection(tasks) {
        fit.steps.push(words);
        return fit;
    }
    for (index, task) in tasks.iter().enumerate() {
        let above: Vec<SporadicTask> = tasks[..index].iter().map(|t| t.sporadic(Nanos::ZERO)).collect();
        if utilisation(&tasks[..=index]) >= supply.reservation().bandwidth().as_f64() {
            fit.steps.push(format!("task {index} and those above it take all that is reserved, or more"));
            return fit;
        }
        let time_for = |amount: i128| wide(supply.time_for(narrow(amount)));
        match longest_response(&task.sporadic(blocking), &above, time_for) {
            Response::Within(response) => {
                let response = narrow(response);
                fit.steps
                    .push(format!("task {index}: response at most {response}, deadline {}", task.deadline));
                fit.responses.push(response);
            }
            Response::Beyond(response) => {
                let response = narrow(response);
                fit.steps.push(format!(
                    "task {index}: response up to {response} or more, deadline {}",
                    task.deadline
                ));
                return fit;
            }
            Response::Open => {
                fit.steps.push(format!("task {index}: its busy window does not end"));
                return fit;
            }
        }
    }
    fit.fits = true;
    fit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::platform::Enforcement;
    use surety_model::reservation::Reservation;

    fn task(c: i64, d: i64, t: i64) -> Inner {
        Inner { deadline: Nanos::new(d), ..Inner::implicit(Nanos::new(c), Nanos::new(t)) }
    }

    fn supply(q: i64, d: i64, t: i64) -> Supply {
        let r =
            Reservation { deadline: Nanos::new(d), ..Reservation::implicit(Nanos::new(q), Nanos::new(t)) };
        Supply::new(r, Enforcement::Exact, false)
    }

    #[test]
    fn known_sets_fit_or_say_where_they_do_not() {
        // The workload (50, 7), (75, 9) of Shin and Lee, RTSS 2003, takes 0.26 of a CPU. With T = 10 and EDF the window of
        // 50 binds: 7 are guaranteed in it from Q = 2.75 on, in tenths of a millisecond 28 of 100.
        let set = [task(70, 500, 500), task(90, 750, 750)];
        for (q, fits) in [(20, false), (27, false), (28, true), (50, true), (100, true)] {
            let by_edf = edf(&set, &supply(q, 100, 100));
            assert_eq!(by_edf.fits, fits, "{q}: {by_edf:?}");
        }
        for (q, fits) in [(26, false), (40, true), (100, true)] {
            assert_eq!(fixed_priority(&set, Nanos::ZERO, &supply(q, 100, 100)).fits, fits, "{q}");
        }
        // A whole CPU: Liu and Layland's bound is not in the way, and response times are the textbook ones.
        let textbook = [task(3, 7, 7), task(3, 12, 12), task(5, 20, 20)];
        let whole = fixed_priority(&textbook, Nanos::ZERO, &supply(100, 100, 100));
        assert_eq!(whole.responses, [3, 6, 20].map(Nanos::new));
        assert!(whole.fits && edf(&textbook, &supply(100, 100, 100)).fits);
        // Lehoczky 1990: (26, 70), (62, 100): responses of the second 114, 102, 116, 104, 118, ...
        let beyond = [task(26, 70, 70), task(62, 118, 100)];
        assert_eq!(
            fixed_priority(&beyond, Nanos::ZERO, &supply(1000, 1000, 1000)).responses[1],
            Nanos::new(118)
        );
        let bad = edf(&[task(0, 1, 1)], &supply(1, 2, 2));
        assert!(!bad.fits && bad.steps[0].contains("work 0s"));
    }

    /// The worst supply and synchronous releases, simulated under EDF or by fixed priorities: is every deadline kept?
    fn simulated(tasks: &[Inner], supply: &Supply, by_deadline: bool, length: i64) -> bool {
        let mut open: Vec<(i64, i64, i64)> = Vec::new();
        for now in 0..length {
            for (place, task) in tasks.iter().enumerate() {
                if now % task.period.get() == 0 {
                    let due = now + task.deadline.get();
                    open.push((if by_deadline { due } else { place as i64 }, due, task.work.get()));
                }
            }
            open.sort_by_key(|job| job.0);
            let given = supply.guaranteed(Nanos::new(now + 1)) - supply.guaranteed(Nanos::new(now));
            if given.is_positive()
                && let Some(first) = open.first_mut()
            {
                first.2 -= 1;
            }
            open.retain(|job| job.2 > 0);
            if open.iter().any(|job| job.1 <= now + 1) {
                return false;
            }
        }
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn what_fits_keeps_its_deadlines_under_the_worst_supply_and_what_does_not_misses(
            raw in prop::collection::vec((1i64..4, 0i64..20, 0i64..12), 1..4),
            q in 1i64..8, d in 0i64..5, t in 0i64..5,
        ) {
            let tasks: Vec<Inner> = raw.iter().map(|(c, d, t)| task(*c, c + d, c + d + t)).collect();
            let supply = supply(q, q + d, q + d + t);
            let room = supply.reservation().bandwidth().as_f64() - utilisation(&tasks);
            prop_assume!(room.abs() > 1e-9);
            let length = 4_000;
            let by_edf = edf(&tasks, &supply);
            // Where there is room the first miss is within the windows looked at.
            if by_edf.fits || room > 0.02 {
                prop_assert_eq!(by_edf.fits, simulated(&tasks, &supply, true, length), "{:?}", by_edf);
            }
            let by_fp = fixed_priority(&tasks, Nanos::ZERO, &supply);
            if by_fp.fits || room > 0.02 {
                prop_assert_eq!(by_fp.fits, simulated(&tasks, &supply, false, length), "{:?}", by_fp);
            }
        }
    }
}
