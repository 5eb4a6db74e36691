//! Sizing a reservation for an interrupt thread: `lost == 0`, `rate >= X/s`, `share >= S`.
//!
//! A device raises interrupts at least P apart and holds N requests; the thread needs c for each. In a frame (D, T) the
//! runtime is the smallest that is sound by the rules of `surety_analysis::interrupts`:
//!
//! - nothing lost: the most that can ever be pending under the worst supply of the platform's enforcement is at most N;
//! - a rate of an open source: what gets through a queue of N that is served as late as the reservation allows;
//! - a rate of a closed loop: N requests in every round through device and thread under the worst supply.
//!
//! Beside requests a budget pays the switches of its server period, its ticks, and every hard handler of the workload that may
//! fall into the server period, its own included: what is left of it is the supply the rules are asked about. The frame is
//! the one with the least bandwidth among periods from the tick to 100 ms, of grids a multiple of P.

use surety_analysis::Supply;
use surety_analysis::interrupts::loss::{HELD_MAX, Phase, loss};
use surety_analysis::interrupts::pending::Interrupt;
use surety_analysis::interrupts::throughput::{budget_for, closed};
use surety_analysis::interrupts::{Argument, InterruptError};
use surety_analysis::overheads::{Interruption, all_at_most, interruptions};
use surety_analysis::work::{declared_bound, maximum};
use surety_model::plan::ProofInput;
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::reservation::{KERNEL_PERIOD_MIN, KERNEL_RUNTIME_MIN, Reservation};
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_units::{Bandwidth, Frequency, Nanos};

use crate::refusal::Refused;
use crate::{GRAIN, PlanOptions, share};

/// Server periods tried, in microseconds.
const PERIODS_US: [i64; 15] = [
    200, 500, 1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 16_000, 20_000, 32_000, 40_000, 50_000, 80_000,
    100_000,
];
/// A budget is at least this many thousandths above what the mean demand takes, where nothing may pile up.
const ABOVE_DEMAND_PERMILLE: i64 = 5;

/// What a promise about an interrupt asks of its thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wish {
    /// No request is lost.
    NoLoss,
    /// This many requests a second get through.
    Rate(f64),
    /// A share of one CPU.
    Share(Bandwidth, Option<Nanos>),
}

/// A promise as a wish, or why it is none that is planned.
pub fn wish(irq: &Irq, promise: &Promise) -> Result<Wish, String> {
    let at_least = promise.comparison == Comparison::AtLeast;
    let is_none = matches!(promise.comparison, Comparison::Equal | Comparison::AtMost);
    let limited = irq.promises.iter().any(|p| p.response_limit().is_some());
    match (promise.metric, promise.bound) {
        (Metric::Lost | Metric::Dropped, Bound::Count(0)) if is_none => Ok(Wish::NoLoss),
        (Metric::Missed | Metric::Late, Bound::Count(0)) if is_none && !limited => Ok(Wish::NoLoss),
        (Metric::Rate, Bound::Frequency(rate)) if at_least && promise.over.is_none() => {
            Ok(Wish::Rate(rate.per_second()))
        }
        (Metric::Share, Bound::Share(share)) if at_least && promise.at.is_none() => {
            Ok(Wish::Share(share, promise.over))
        }
        _ => Err(format!(
            "not planned by this version: promises of the form `{promise}` about an irq; it plans `lost == 0`, `rate >= X/s` \
             and `share >= S`"
        )),
    }
}

/// The hard handler of a source, where it has one.
///
/// Of a Poisson source the mean distance of a tenth is taken: ten times its mean rate.
pub fn handler(irq: &Irq) -> Option<Interruption> {
    let time = irq.hard.filter(|hard| hard.is_positive())?;
    let distance = match irq.arrivals {
        Arrivals::Periodic { period } => period,
        Arrivals::Sporadic { gap } => gap,
        Arrivals::Closed { service, .. } => service,
        Arrivals::Poisson { rate } => Nanos::from_f64_rounded(1e8 / rate.per_second()),
    };
    distance.is_positive().then_some(Interruption { cost: time, distance })
}

/// What interrupts whatever runs: the hard handlers of the workload, and where it was measured what they cost, wake-ups of its tasks and
/// timers of what is reserved already.
pub fn handlers(workload: &Workload, platform: &Platform) -> Vec<Interruption> {
    workload.irqs.iter().filter_map(handler).chain(interruptions(workload, platform, None)).collect()
}

/// A source with what its budgets pay.
pub struct Source<'a> {
    /// The source.
    pub irq: &'a Irq,
    /// Every hard handler of the workload.
    pub handlers: &'a [Interruption],
    /// The machine and its costs.
    pub options: &'a PlanOptions,
    /// No more reserved threads than CPUs.
    pub alone: bool,
}

/// A reservation that keeps a wish, with the argument.
#[derive(Clone, Debug)]
pub struct Sized {
    /// (Q, D, T).
    pub reservation: Reservation,
    /// Why it is enough.
    pub argument: Argument,
    /// What follows.
    pub conclusion: String,
}

impl Source<'_> {
    /// The frames (D, T) to try.
    pub fn frames(&self) -> Vec<(Nanos, Nanos)> {
        let floor = match self.options.platform.enforcement {
            Enforcement::Tick(tick) => tick.max(KERNEL_PERIOD_MIN),
            Enforcement::Exact => KERNEL_PERIOD_MIN,
        };
        let wished = PERIODS_US.iter().map(|us| Nanos::from_micros(*us));
        let mut frames = Vec::new();
        for period in wished.chain(self.options.periods.iter().copied()) {
            let period = match self.grid() {
                Some(distance) if distance <= period => distance * period.div_floor(distance),
                _ => period,
            };
            for deadline in [period, period / 2] {
                if period >= floor && period <= Nanos::SECOND && !frames.contains(&(deadline, period)) {
                    frames.push((deadline, period));
                }
            }
        }
        frames
    }

    /// P of a source whose interrupts have a smallest distance.
    fn grid(&self) -> Option<Nanos> {
        match self.irq.arrivals {
            Arrivals::Periodic { period } => Some(period),
            Arrivals::Sporadic { gap } => Some(gap),
            Arrivals::Poisson { .. } | Arrivals::Closed { .. } => None,
        }
    }

    /// What a budget leaves for requests: the reservation the rules are asked about.
    pub fn useful(&self, reservation: Reservation) -> Reservation {
        let costs = self.options.costs();
        let ticks = costs.per_tick * reservation.runtime.div_ceil(self.options.platform.tick);
        let hard = all_at_most(self.handlers, reservation.period);
        let left = (reservation.runtime - costs.per_period - ticks - hard).max(Nanos::ZERO);
        let permille = 1000 + u64::from(costs.interrupts_permille);
        Reservation { runtime: left.mul_ratio(1000, permille), ..reservation }
    }

    /// Numbers a proof starts from.
    pub fn inputs(&self, reservation: Reservation) -> Vec<ProofInput> {
        let costs = self.options.costs();
        let buffer = self.irq.buffer.map_or_else(|| "any number".to_owned(), |n| n.to_string());
        let hard = all_at_most(self.handlers, reservation.period);
        let arrivals = match self.irq.arrivals {
            Arrivals::Periodic { period } => format!("every {period}"),
            Arrivals::Sporadic { gap } => format!("at least {gap} apart"),
            Arrivals::Poisson { rate } => {
                format!("independent, {:.1} a second on average", rate.per_second())
            }
            Arrivals::Closed { outstanding, service } => {
                format!("{outstanding} in flight, {service} each in the device")
            }
        };
        vec![
            ProofInput::new("interrupts", arrivals),
            ProofInput::new("requests the device holds", buffer),
            ProofInput::new("cost of each server period (switches, timer)", costs.per_period),
            ProofInput::new("cost of each tick", costs.per_tick),
            ProofInput::new("hard handlers of the workload in a server period, at most", hard),
            ProofInput::new(
                "other interrupts on top",
                format!("{:.1} %", f64::from(costs.interrupts_permille) / 10.0),
            ),
            ProofInput::new("left of a budget for requests", self.useful(reservation).runtime),
        ]
    }

    /// The smallest runtime in a frame that keeps a wish.
    pub fn size(&self, wish: Wish, (deadline, period): (Nanos, Nanos)) -> Result<Sized, Refused> {
        let of = |runtime| Reservation { deadline, ..Reservation::implicit(runtime, period) };
        if let Wish::Share(share, over) = wish {
            let enforcement = self.options.platform.enforcement;
            let (runtime, steps) = share::runtime(share, over, (deadline, period), enforcement, self.alone)?;
            let argument = Argument {
                theorem: "supply bound of a constant-bandwidth server",
                source: "Abeni and Buttazzo, RTSS 1998; Easwaran, Anand and Lee, RTSS 2007",
                steps,
                assumptions: Vec::new(),
            };
            let conclusion = format!("{runtime} in every {period} whenever the thread wants it");
            return Ok(Sized { reservation: of(runtime), argument, conclusion });
        }
        let kept = |runtime: Nanos| match wish {
            Wish::NoLoss => self.keeps_all(of(runtime)),
            Wish::Rate(rate) => self.lets_through(rate, of(runtime)),
            Wish::Share(..) => Ok(None),
        };
        let mut high = GRAIN * deadline.div_floor(GRAIN);
        let Some(mut found) = kept(high)? else {
            return Err(Refused::infeasible(format!(
                "no runtime up to {high} in every {period} (deadline {deadline}) does it"
            )));
        };
        let mut low = Nanos::ZERO;
        // As safe as it is, only larger than needed.
        while high - low > GRAIN && !self.options.search.is_reached() {
            let middle = GRAIN * (low + (high - low) / 2).div_ceil(GRAIN);
            match kept(middle)? {
                Some(better) if middle >= KERNEL_RUNTIME_MIN => (high, found) = (middle, better),
                _ => low = middle,
            }
            if middle == high && high - low <= GRAIN {
                break;
            }
        }
        let (argument, conclusion) = found;
        Ok(Sized { reservation: of(high), argument, conclusion })
    }

    fn work(&self) -> Result<Nanos, Refused> {
        maximum(&self.irq.work).map(|most| most.max(Nanos::new(1))).ok_or_else(|| {
            Refused::plainly(
                "the work of a request has no largest value: declare bounded work, so that a rule holds",
            )
        })
    }

    /// The least time between interrupts, and the most requests in flight.
    fn source(&self) -> Result<(Nanos, Option<u32>), Refused> {
        match self.irq.arrivals {
            Arrivals::Periodic { period } => Ok((period, None)),
            Arrivals::Sporadic { gap } => Ok((gap, None)),
            Arrivals::Closed { outstanding, service } => Ok((service, Some(outstanding))),
            Arrivals::Poisson { .. } => Err(Refused::plainly(
                "its interrupts come with no minimum inter-arrival time, so no buffer holds them for ever: promise a `rate`",
            )),
        }
    }

    /// Whether nothing is lost, and why.
    fn keeps_all(&self, reservation: Reservation) -> Result<Option<(Argument, String)>, Refused> {
        let useful = self.useful(reservation);
        let work = self.work()?;
        if declared_bound(&self.irq.work).is_none() {
            return Err(Refused::plainly(
                "no request is to be lost, and the work of one is a list of values seen, the largest of which bounds no other: \
                 declare bounded work, or promise a `rate`",
            ));
        }
        let (distance, in_flight) = self.source()?;
        let held = self.irq.buffer.unwrap_or(u64::MAX);
        if useful.runtime < work {
            return Ok(None);
        }
        if let Some(most) = in_flight.filter(|n| u64::from(*n) <= held) {
            let argument = Argument {
                theorem: "a closed loop never has more requests than are in flight",
                source: "by definition of the loop",
                steps: vec![format!("{most} in flight, {held} held")],
                assumptions: vec!["a request is issued only when another one is done".to_owned()],
            };
            return Ok(Some((argument, format!("at most {most} requests are ever pending"))));
        }
        let demand = i128::from(work.get())
            * i128::from(useful.period.get())
            * i128::from(1000 + ABOVE_DEMAND_PERMILLE);
        if demand > i128::from(useful.runtime.get()) * i128::from(distance.get()) * 1000 {
            return Ok(None);
        }
        let supply = Supply::new(useful, self.options.platform.enforcement, self.alone);
        let held_here = u32::try_from(held).unwrap_or(u32::MAX);
        let device = Interrupt { distance, held: held_here, work };
        let Some((most, mut argument)) = device.most_pending(&supply).map_err(refused)? else {
            return Ok(None);
        };
        if most > held {
            return Ok(None);
        }
        let rule = device.safe_rule(&supply).map_err(refused)?;
        argument.steps.extend(rule.argument.steps);
        let conclusion = match self.irq.buffer {
            Some(held) => format!("at most {most} requests are ever pending, and the device holds {held}"),
            None => format!("at most {most} requests are ever pending"),
        };
        Ok(Some((argument, conclusion)))
    }

    /// Whether this many requests a second get through, and why.
    fn lets_through(
        &self,
        rate: f64,
        reservation: Reservation,
    ) -> Result<Option<(Argument, String)>, Refused> {
        let useful = self.useful(reservation);
        let work = self.work()?;
        if useful.runtime < work {
            return Ok(None);
        }
        let enforcement = self.options.platform.enforcement;
        let conclusion = |least: f64| format!("at least {least:.1} requests a second get through");
        if let Arrivals::Closed { outstanding, service } = self.irq.arrivals {
            let supply = Supply::new(useful, enforcement, self.alone);
            let in_device = service * i64::from(outstanding);
            let through = closed(outstanding, in_device, work, &supply).map_err(refused)?;
            let kept = through.at_least >= rate;
            return Ok(kept.then(|| (through.argument, conclusion(through.at_least))));
        }
        let offered = match self.irq.arrivals {
            Arrivals::Poisson { rate } => rate.per_second(),
            _ => self.grid().map_or(0.0, |distance| 1e9 / distance.get() as f64),
        };
        if rate > offered * (1.0 + 1e-9) {
            return Err(Refused {
                nearest: vec![format!("rate >= {}", at_most(offered).to_exact_string())],
                ..Refused::plainly(format!(
                    "{rate:.1} a second are promised and only {offered:.1} come: no reservation makes more"
                ))
            });
        }
        // A rate is of requests that come: the smallest distance alone promises none.
        let comes = self.grid().map(|distance| format!("a request comes every {distance}"));
        let assuming = |mut argument: Argument| {
            argument.assumptions.extend(comes.clone());
            argument
        };
        let Some(held) = self.irq.buffer else {
            let (needed, argument) = budget_for(rate, work, useful.period).map_err(refused)?;
            return Ok((needed <= useful.runtime).then(|| (assuming(argument), conclusion(rate))));
        };
        if let Ok(Some((argument, _))) = self.grid().map_or(Ok(None), |_| self.keeps_all(reservation)) {
            return Ok(Some((assuming(argument), conclusion(offered))));
        }
        let source = Arriving { offered, apart: self.grid() };
        let Some((through, argument)) =
            source.through(&useful, work, held, enforcement.overrun_max()).map_err(refused)?
        else {
            return Ok(None);
        };
        Ok((through >= rate).then(|| (assuming(argument), conclusion(through))))
    }
}

/// The most requests in one server period that are computed with.
const ARRIVALS_MAX: usize = 1 << 17;

/// Requests that come by themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arriving {
    /// This many a second.
    pub offered: f64,
    /// Evenly, this far apart; else independent.
    pub apart: Option<Nanos>,
}

impl Arriving {
    /// How many a second get at least through a queue of `held`, and why; `None` where a budget may be too short for one.
    pub(crate) fn through(
        self,
        useful: &Reservation,
        work: Nanos,
        held: u64,
        overrun: Nanos,
    ) -> Result<Option<(f64, Argument)>, InterruptError> {
        // What ran over into the period before is missing from this one.
        let in_one = useful.runtime - overrun;
        if in_one < work {
            return Ok(None);
        }
        let served = usize::try_from(in_one.div_floor(work)).unwrap_or(usize::MAX);
        let held = usize::try_from(held).unwrap_or(HELD_MAX).min(HELD_MAX);
        let arrivals = self.in_a_period(useful.period)?;
        let mean: f64 = arrivals.iter().enumerate().map(|(n, p)| n as f64 * p).sum();
        let lost = loss(&arrivals, served, held, Phase::Any)?;
        // More may be counted in a period than come on average, so what is lost is deducted as a number.
        let lost_a_second = lost.fraction * mean / useful.period.as_secs_f64();
        let through = (self.offered - lost_a_second).max(0.0);
        let mut argument = lost.argument;
        argument
            .steps
            .push(format!("{:.1} a second, less {lost_a_second:.6} lost: {through:.1}", self.offered));
        Ok(Some((through, argument)))
    }

    /// The distribution of the requests that come in one server period; of a grid the most that can.
    fn in_a_period(self, period: Nanos) -> Result<Vec<f64>, InterruptError> {
        let mean = self.offered * period.as_secs_f64();
        let most = match self.apart {
            Some(distance) => period.div_ceil(distance) as f64,
            None => mean + 12.0 * mean.sqrt() + 20.0,
        };
        if most > ARRIVALS_MAX as f64 {
            return Err(InterruptError::TooMany { count: most, limit: ARRIVALS_MAX });
        }
        let most = most as usize;
        if self.apart.is_some() {
            let mut masses = vec![0.0; most + 1];
            masses[most] = 1.0;
            return Ok(masses);
        }
        let log_factorial = |n: usize| libm::lgamma(n as f64 + 1.0);
        let mut masses: Vec<f64> =
            (0..=most).map(|n| libm::exp(n as f64 * libm::log(mean) - mean - log_factorial(n))).collect();
        // What was cut counts as the most.
        let total: f64 = masses[..most].iter().sum();
        masses[most] = (1.0 - total).max(0.0);
        Ok(masses)
    }
}

/// A rate that is no more than this, to four digits.
pub(crate) fn at_most(per_second: f64) -> Frequency {
    let thousandths = (per_second * 1000.0).max(1.0) as u64;
    let grain = 10u64.pow(thousandths.ilog10().saturating_sub(3));
    Frequency(thousandths / grain * grain)
}

fn refused(error: InterruptError) -> Refused {
    Refused::plainly(error.to_string())
}

#[cfg(test)]
mod tests;
