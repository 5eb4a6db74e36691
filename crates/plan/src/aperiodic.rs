//! [`choices`]: reservations for a thread of which a trace shows the distributions of its work and of the distances of its
//! releases, and nothing else: an interrupt's.
//!
//! The paper's question (N. Manica et al., *Schedulable Device Drivers*, 2010): which (Q, T) serves interrupts that
//! arrive and take time by chance, so that all but a stated part of them are done in time? In each server period T the smallest
//! Q is taken for which [`surety_analysis::response::aperiodic`] proves that part; the least bandwidth of all is the choice. Where the
//! smallest inter-arrival time is much below the mean, this asks for far less than one budget for each smallest distance, as
//! [`crate::plan`] does, whose proof holds for any order of releases; this one for independent ones.

use surety_analysis::response::aperiodic;
use surety_model::distribution::TimeDistribution;
use surety_model::reservation::{KERNEL_PERIOD_MIN, Reservation};
use surety_units::{Nanos, Probability};

use crate::{GRAIN, Overhead};

/// Server periods tried, in microseconds.
const PERIODS_US: [i64; 12] =
    [500, 1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 16_000, 20_000, 40_000, 50_000, 100_000];
/// Besides these quantiles of the distances and whole parts of them: where releases come closer than a server period, no budget is
/// counted between them, so a dense source is served in periods as short as its distances.
const QUANTILES: [f64; 3] = [0.01, 0.1, 0.5];
const PARTS: i64 = 4;
/// The kernel admits so many thousandths of a CPU, its fair server's included.
const ADMITTED_PERMILLE: i64 = 900;

/// A reservation that is enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// (Q, T), costs included.
    pub reservation: Reservation,
    /// What of Q is for work.
    pub worth: Nanos,
    /// The part of the jobs that is done in time is at least this.
    pub at_least: f64,
    /// Why.
    pub steps: Vec<String>,
}

/// The smallest reservation in each server period that the limit has room for, in the order of periods; the periods in which none
/// is enough, or only one that is not admitted beside the fair server, are left out.
///
/// A budget pays the costs of its server period ([`Overhead::per_period`]) beside the work; the rest of what a job costs has to be in its
/// work, measured under a reservation: in another class it is less.
pub fn choices(
    work: &TimeDistribution,
    distance: &TimeDistribution,
    limit: Nanos,
    at: Probability,
    overhead: &Overhead,
) -> Vec<Choice> {
    let mut periods: Vec<Nanos> = PERIODS_US.iter().map(|us| Nanos::from_micros(*us)).collect();
    for near in QUANTILES.map(|q| distance.quantile(q)) {
        // Whole microseconds, rounded down.
        let part = |parts: i64| Nanos::from_micros((near / parts).div_floor(Nanos::MICROSECOND));
        periods.extend((1..=PARTS).map(part));
    }
    periods.retain(|period| *period >= KERNEL_PERIOD_MIN && *period <= limit);
    periods.sort_unstable();
    periods.dedup();
    periods.into_iter().filter_map(|period| smallest(work, distance, limit, at, (period, overhead))).collect()
}

/// The one with the least bandwidth; of equal ones that with the longest period, which switches least.
pub fn least(choices: &[Choice]) -> Option<&Choice> {
    choices.iter().rev().min_by_key(|choice| choice.reservation.bandwidth())
}

fn smallest(
    work: &TimeDistribution,
    distance: &TimeDistribution,
    limit: Nanos,
    at: Probability,
    (period, overhead): (Nanos, &Overhead),
) -> Option<Choice> {
    let most = (period * ADMITTED_PERMILLE / 1000 - overhead.per_period).div_floor(GRAIN);
    let proven = |grains: i64| {
        let reservation = Reservation::implicit(GRAIN * grains, period);
        let bound = aperiodic(work, (distance, Nanos::ZERO), reservation, limit).ok()?;
        (bound.probability >= at.as_f64()).then_some(bound)
    };
    // More budget never proves less, up to the grid the work is put on: what is found is proven in any case.
    let (mut low, mut high) = (0, most.max(0));
    let mut found = if high > 0 { proven(high) } else { None }?;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match proven(middle) {
            Some(bound) => (high, found) = (middle, bound),
            None => low = middle,
        }
    }
    let worth = GRAIN * high;
    Some(Choice {
        reservation: Reservation::implicit(worth + overhead.per_period, period),
        worth,
        at_least: found.probability,
        steps: found.steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::Empirical;

    fn us(value: i64) -> Nanos {
        Nanos::from_micros(value)
    }

    #[test]
    fn a_budget_of_its_work_in_each_distance_is_the_choice_of_a_constant_source() {
        let (work, distance) = (TimeDistribution::Constant(us(300)), TimeDistribution::Constant(us(2_000)));
        let at: Probability = "99%".parse().unwrap();
        let overhead = Overhead { per_period: us(10), ..Overhead::default() };
        let found = choices(&work, &distance, us(2_000), at, &overhead);
        let best = least(&found).unwrap();
        assert_eq!(best.reservation.period, us(2_000));
        assert!((us(300)..=us(320)).contains(&best.worth), "{best:?}");
        assert_eq!(best.reservation.runtime, best.worth + us(10));
        assert!(choices(&work, &distance, us(90), at, &overhead).is_empty(), "no period is so short");
    }

    #[test]
    fn chance_in_the_distances_costs_bandwidth_and_a_later_limit_saves_it() {
        let work = TimeDistribution::Uniform { low: us(200), high: us(400) };
        let spread = TimeDistribution::Exponential { mean: us(2_000) };
        let at: Probability = "99%".parse().unwrap();
        let of = |distance: &TimeDistribution, limit| {
            let found = choices(&work, distance, us(limit), at, &Overhead::default());
            least(&found).unwrap().reservation.bandwidth().as_f64()
        };
        let constant = TimeDistribution::Constant(us(2_000));
        assert!(of(&spread, 4_000) > of(&constant, 4_000));
        assert!(of(&spread, 20_000) < of(&spread, 4_000));
        // A dense source, 200 us every 300 us or so, is served in a period of its distances.
        let measured = (0..100).map(|n| (us(280 + n % 50), 1)).collect();
        let dense = TimeDistribution::Empirical(Empirical::new(measured).unwrap());
        let constant = TimeDistribution::Constant(us(200));
        let found = choices(&constant, &dense, us(5_000), at, &Overhead::default());
        let best = least(&found).unwrap().reservation;
        assert!((us(100)..=us(330)).contains(&best.period), "{best:?}");
        assert!((0.66..0.85).contains(&best.bandwidth().as_f64()), "{best:?}");
        // Nothing is enough for less than the work that comes.
        assert!(of(&spread, 100_000) > 0.15);
        let overload = TimeDistribution::Constant(us(310));
        assert!(choices(&work, &overload, us(100_000), at, &Overhead::default()).is_empty());
    }
}
