//! Random task sets, the same on every machine: [`uunifast_discard`] and [`random_set`].
//!
//! UUniFast draws n utilisations with a given sum uniformly (Bini and Buttazzo, "Measuring the performance of
//! schedulability tests", Real-Time Systems 30, 2005); draws with one above 1 are thrown away where the sum is above 1
//! (Davis and Burns, "Priority assignment for global fixed priority pre-emptive scheduling", RTSS 2009).

use surety_stats::random::Pcg;
use surety_units::Nanos;

use crate::schedulability::SporadicTask;

/// Draws before [`uunifast_discard`] gives up.
const DRAWS: u32 = 10_000;

/// `count` utilisations up to 1 that add up to `total`; `None` where the total is not positive, above half of what fits
/// in a way that draws are hardly ever kept, or no task is asked for.
pub fn uunifast_discard(count: usize, total: f64, random: &mut Pcg) -> Option<Vec<f64>> {
    if count == 0 || !total.is_finite() || total <= 0.0 || total > count as f64 {
        return None;
    }
    for _ in 0..DRAWS {
        let mut left = total;
        let mut drawn: Vec<f64> = Vec::with_capacity(count);
        for rest in (1..count).rev() {
            let next = left * libm::pow(random.unit_open(), 1.0 / rest as f64);
            drawn.push(left - next);
            left = next;
        }
        drawn.push(left);
        if drawn.iter().all(|u| *u <= 1.0) {
            return Some(drawn);
        }
    }
    None
}

/// How deadlines are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// At the period's end.
    Implicit,
    /// Uniform between the work and the period.
    Constrained,
    /// Uniform between the work and twice the period.
    Arbitrary,
}

/// A set with periods drawn uniformly from a list and works rounded to whole units, at least one; its utilisation is the
/// asked one up to that rounding. `None` as [`uunifast_discard`], or where no period is given.
pub fn random_set(
    count: usize,
    total: f64,
    periods: &[Nanos],
    unit: Nanos,
    deadlines: Deadlines,
    random: &mut Pcg,
) -> Option<Vec<SporadicTask>> {
    if periods.is_empty() || !unit.is_positive() {
        return None;
    }
    let shares = uunifast_discard(count, total, random)?;
    Some(
        shares
            .into_iter()
            .map(|share| {
                let period = periods[random.below(periods.len() as u64) as usize];
                let units = libm::round(period.get() as f64 / unit.get() as f64 * share) as i64;
                let work = (unit * units).max(unit).min(period);
                let mut between = |low: Nanos, high: Nanos| {
                    low + unit * random.below(((high - low).get_unsigned() / unit.get_unsigned()) + 1) as i64
                };
                let deadline = match deadlines {
                    Deadlines::Implicit => period,
                    Deadlines::Constrained => between(work, period),
                    Deadlines::Arbitrary => between(work, period * 2),
                };
                SporadicTask::new(work, deadline, period)
            })
            .collect(),
    )
}
