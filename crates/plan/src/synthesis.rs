//! The search over server periods: which (D, T) a task may be served in, and which of them needs the least bandwidth.
//!
//! Only two things matter to a task with releases G apart and a limit R (jitter deducted): the z = floor(G/T) budgets between
//! releases and the `k = floor((R - D)/T) + 1` within the limit. So the periods worth trying are
//!
//! - `G/n`: every release stands at the beginning of a server period;
//! - `R/m`: the limit is the end of one, and no part of it is wasted;
//! - those that are asked for,
//!
//! each with the deadline at its end, and with the one at which one more budget is complete by R, `D = R - (ceil(R/T) - 1) T`.
//! A longer period costs fewer switches, a shorter one wastes less of a limit that is no multiple of the period; in the bare
//! analysis all periods with the same k/z need the same. Where budgets are looked at on the tick, a budget below one tick is
//! considered in the task's own period only: the kernel would give several of them at once, and then none for several periods.

use std::cmp::Ordering;

use surety_analysis::overheads;
use surety_analysis::response::release_distance;
use surety_model::platform::{Enforcement, Platform};
use surety_model::reservation::{KERNEL_PERIOD_MAX, KERNEL_PERIOD_MIN, Reservation};
use surety_model::workload::{Release, Task};
use surety_units::Nanos;

use crate::frame::Frame;
use crate::refusal::Refused;

/// The parts a span is divided into.
const PARTS: [i64; 18] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100];

/// The frames to try for the shortest of the limits; the first one is the task's own period.
pub fn frames(
    task: &Task,
    shortest: Nanos,
    platform: &Platform,
    wanted: &[Nanos],
) -> Result<Vec<Frame>, Refused> {
    let Some((gap, jitter)) = release_distance(task) else {
        return Err(Refused::plainly(
            "its releases are not known: give it a period or a gap, or measure it first",
        ));
    };
    if let (Release::Periodic { period, .. }, false) = (task.release, gap.is_positive()) {
        return Err(Refused::plainly(format!(
            "its releases come up to {jitter} late, and its period of {period} is no longer than that: several may come at \
             once; declare a jitter below the period"
        )));
    }
    if gap < KERNEL_PERIOD_MIN {
        return Err(Refused::plainly(format!(
            "releases may be {gap} apart, and the kernel reserves in periods of {KERNEL_PERIOD_MIN} or longer"
        )));
    }
    // A release may find its CPU busy with what the kernel does: more jitter.
    let busy = overheads::busy(&platform.overheads);
    let room = shortest - jitter - busy;
    if !room.is_positive() {
        let begun = format!(", the kernel's own work may delay them by {busy}");
        let begun = Some(begun).filter(|_| busy.is_positive()).unwrap_or_default();
        return Err(Refused::plainly(format!(
            "releases alone come up to {jitter} late{begun}, and {shortest} is promised"
        )));
    }
    let jitter = jitter + busy;
    let own = gap / gap.div_ceil(KERNEL_PERIOD_MAX);
    let floor = match platform.enforcement {
        Enforcement::Tick(tick) => tick.max(KERNEL_PERIOD_MIN),
        Enforcement::Exact => KERNEL_PERIOD_MIN,
    };
    let fractions = PARTS.iter().flat_map(|n| [own / *n, room / *n]).chain(wanted.iter().copied());
    let fits = |period: &Nanos| *period >= floor && *period <= own && *period <= KERNEL_PERIOD_MAX;
    let periods = std::iter::once(own).chain(fractions.filter(fits));
    let mut frames: Vec<Frame> = Vec::new();
    for period in periods {
        let last = room - period * (room.div_ceil(period) - 1);
        for deadline in [period.min(room), last] {
            let mut frame = Frame { deadline, period, gap, jitter, spread: 1 };
            frame.spread = frame.spread_over(task, shortest);
            if !frames.iter().any(|f| (f.deadline, f.period) == (deadline, period)) {
                frames.push(frame);
            }
        }
    }
    Ok(frames)
}

/// Orders by bandwidth, exactly; of the same the longer period and then the longer deadline comes first.
pub fn by_bandwidth(a: &Reservation, b: &Reservation) -> Ordering {
    let wide = |q: Nanos, t: Nanos| i128::from(q.get()) * i128::from(t.get());
    let bandwidth = wide(a.runtime, b.period).cmp(&wide(b.runtime, a.period));
    bandwidth.then(b.period.cmp(&a.period)).then(b.deadline.cmp(&a.deadline))
}

/// Which of these no other has both less bandwidth and no longer period than.
pub fn pareto(reservations: &[Reservation]) -> Vec<bool> {
    let is_beaten = |r: &Reservation| {
        reservations.iter().any(|other| {
            let (shape, other_shape) = ((r.period, r.deadline), (other.period, other.deadline));
            shape != other_shape && other.period <= r.period && by_bandwidth(other, r) == Ordering::Less
        })
    };
    reservations.iter().map(|r| !is_beaten(r)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn frames_complete_what_they_say_and_stay_inside_the_kernels_limits() {
        let task = Task::periodic("t", ms(40), TimeDistribution::Constant(ms(5)));
        for (platform, shortest) in [
            (Platform::linux_6_18(1), ms(4)),
            (Platform { enforcement: Enforcement::Exact, ..Platform::linux_6_18(1) }, Nanos::ZERO),
        ] {
            for limit in [7i64, 30, 40, 79, 80, 121] {
                let frames = frames(&task, ms(limit), &platform, &[ms(9)]).unwrap();
                assert_eq!(frames[0].period, ms(40));
                assert_eq!(frames[0].deadline, ms(limit.min(40)));
                for frame in &frames {
                    assert!(frame.period >= shortest.max(KERNEL_PERIOD_MIN) && frame.period <= ms(40));
                    assert!(frame.deadline.is_positive() && frame.deadline <= frame.period, "{frame:?}");
                    let (between, within) = frame.budgets(&task, ms(limit));
                    assert!(between >= 1 && within >= 1, "{frame:?} by {limit}");
                    assert!(frame.deadline + frame.period * i64::from(within - 1) <= ms(limit));
                }
                assert!(frames.iter().any(|f| f.period == ms(9)));
            }
        }
        // One more budget is complete by 79 ms if its deadline is 39 ms.
        let found = frames(&task, ms(79), &Platform::linux_6_18(1), &[]).unwrap();
        let at = |d: i64, t: i64| found.iter().find(|f| (f.deadline, f.period) == (ms(d), ms(t))).unwrap();
        assert_eq!((at(40, 40).budgets(&task, ms(79)), at(39, 40).budgets(&task, ms(79))), ((1, 1), (1, 2)));
    }

    #[test]
    fn the_front_keeps_what_nothing_beats() {
        let of = |q: i64, t: i64| Reservation::implicit(ms(q), ms(t));
        assert_eq!(pareto(&[of(20, 40), of(11, 20), of(6, 10), of(13, 20)]), [true, true, true, false]);
        assert_eq!(pareto(&[of(20, 40), of(10, 20)]), [true, true]);
    }
}
