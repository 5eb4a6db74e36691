//! Sizing a reservation for `share >= S [over W]`.
//!
//! The period is that of the task's own jobs, where it has one: then every job finds a whole budget. It is at most
//! 100 ms, or a tenth of the window where that is shorter (then a whole fraction of the task's), and at least ten
//! ticks where budgets are looked at on the tick (then a whole multiple), so that overruns are small beside budgets.
//! Of a task without a period it is that longest one. In the long run Q/T is given
//! exactly; in every window of W what [`Supply::guaranteed`] says. One percent is added: interrupts on top
//! burn budget, and the kernel's bandwidths are rounded down.

use surety_analysis::Supply;
use surety_model::platform::{Enforcement, Platform};
use surety_model::reservation::{KERNEL_PERIOD_MIN, Reservation};
use surety_units::{Bandwidth, Nanos};

use crate::GRAIN;
use crate::refusal::Refused;

/// The share aimed at is larger than promised by this many thousandths of it.
const MARGIN_PERMILLE: u64 = 10;
/// The period where nothing asks for a shorter one.
const PERIOD: Nanos = Nanos::from_millis(100);
/// Periods are at least this many ticks.
const TICKS_MIN: i64 = 10;

/// The period for a share of a task with this interval between its jobs, if any.
pub fn period(interval: Option<Nanos>, over: Option<Nanos>, platform: &Platform) -> Nanos {
    let wished = over.map_or(PERIOD, |window| PERIOD.min(window / 10));
    let shortest = match platform.enforcement {
        Enforcement::Tick(tick) => tick * TICKS_MIN,
        Enforcement::Exact => KERNEL_PERIOD_MIN,
    };
    let Some(interval) = interval.filter(|i| i.is_positive()) else { return wished.max(shortest) };
    if interval > wished {
        let fraction = interval / interval.div_ceil(wished);
        return if fraction >= shortest { fraction } else { shortest };
    }
    interval * shortest.div_ceil(interval).max(1)
}

/// The smallest runtime in a frame (D, T), with the steps, or why none is enough.
pub fn runtime(
    share: Bandwidth,
    over: Option<Nanos>,
    (deadline, period): (Nanos, Nanos),
    enforcement: Enforcement,
    alone: bool,
) -> Result<(Nanos, Vec<String>), Refused> {
    let (numerator, denominator) = share.ratio();
    let aimed = |span: Nanos| {
        span.mul_ratio(numerator, denominator).mul_ratio(1000 + MARGIN_PERMILLE, 1000) + Nanos::new(1)
    };
    let up = |runtime: Nanos| GRAIN * runtime.div_ceil(GRAIN);
    let in_the_long_run = up(aimed(period));
    let mut steps = vec![format!(
        "{share} and {} % of it in each {period}: {in_the_long_run}",
        MARGIN_PERMILLE as f64 / 10.0
    )];
    let Some(window) = over else { return Ok((in_the_long_run, steps)) };
    let supply = |runtime: Nanos| {
        Supply::new(Reservation { deadline, ..Reservation::implicit(runtime, period) }, enforcement, alone)
    };
    let enough = |runtime: Nanos| supply(runtime).guaranteed(window) >= aimed(window);
    let (mut low, mut high) = (in_the_long_run - GRAIN, deadline);
    if !enough(high) {
        return Err(Refused::infeasible(format!(
            "no runtime guarantees {share} in every window of {window}: with {high} in each {period} it is {} in the worst \
             one",
            supply(high).guaranteed(window)
        )));
    }
    while high - low > GRAIN {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    let runtime = up(high).min(deadline);
    steps.push(format!(
        "every window of {window} has to give {}: with {runtime} in each {period} the worst gives {}, its longest gap is {}",
        aimed(window),
        supply(runtime).guaranteed(window),
        supply(runtime).blackout()
    ));
    Ok((runtime, steps))
}
