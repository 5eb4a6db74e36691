//! Interrupt threads planned, and closed loops against the simulator.

use std::collections::BTreeMap;

use proptest::prelude::*;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::record::Evidence;
use surety_model::workload::{Load, LoadKind, Workload};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;

use super::*;
use crate::check::{Checked, check};
use crate::{Planned, plan_in_full};

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn irq(arrivals: Arrivals, work: Nanos, buffer: Option<u64>, promises: &[&str]) -> Irq {
    let mut irq = Irq::new("net", arrivals, TimeDistribution::Constant(work));
    irq.buffer = buffer;
    irq.promises = promises.iter().map(|text| Promise::parse(text).unwrap()).collect();
    irq
}

fn planned(irq: Irq) -> Planned {
    let workload = Workload { irqs: vec![irq], ..Workload::default() };
    plan_in_full(&workload, &BTreeMap::new(), &PlanOptions::new(Platform::linux_6_18(2)), false)
}

/// It is planned, and verified again.
fn kept(irq: Irq) -> Planned {
    let found = planned(irq);
    assert!(found.plan.refusals.is_empty(), "{:?}", found.plan.refusals);
    let checked = check(&found.plan, &found.claims).unwrap();
    assert!(checked.iter().all(Checked::agrees), "{checked:?}");
    found
}

#[test]
fn rare_interrupts_are_served() {
    for seconds in [2, 30] {
        let gap = Nanos::from_secs(seconds);
        kept(irq(Arrivals::Sporadic { gap }, us(50), Some(4), &["lost == 0"]));
    }
}

#[test]
fn a_rate_assumes_that_requests_come() {
    for buffer in [None, Some(128), Some(256)] {
        let found = kept(irq(Arrivals::Sporadic { gap: us(95) }, us(9), buffer, &["rate >= 10000/s"]));
        let assumptions = &found.plan.reservations[0].proof.assumptions;
        assert!(assumptions.iter().any(|a| a.contains("a request comes every 95")), "{assumptions:?}");
    }
}

#[test]
fn an_easy_closed_loop_is_planned() {
    let mut easy =
        irq(Arrivals::Closed { outstanding: 4, service: us(100) }, us(50), None, &["rate >= 1000/s"]);
    easy.hard = Some(us(2));
    let found = kept(easy);
    let bandwidth = found.plan.reservations[0].reservation.bandwidth().as_f64();
    // 5 % of a CPU is the work itself.
    assert!(bandwidth < 0.15, "{bandwidth}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A loop whose thread is alone gets through what the bound says, on the ideal and on the tick platform.
    #[test]
    fn closed_loops_are_bounded_below_the_simulator(
        outstanding in 1u32..7, service in 20i64..2_000, work in 10i64..400,
        runtime in 5i64..60, period in 75i64..110, on_tick: bool,
    ) {
        let mut platform = Platform::linux_6_18(1);
        if !on_tick {
            platform.enforcement = Enforcement::Exact;
        }
        let (service, work) = (us(service), us(work));
        let reservation = Reservation::implicit(Nanos::from_millis(runtime), Nanos::from_millis(period));
        let supply = Supply::new(reservation, platform.enforcement, true);
        let bound = closed(outstanding, service * i64::from(outstanding), work, &supply).unwrap();
        let mut net = irq(Arrivals::Closed { outstanding, service }, work, None, &["rate >= 1/s"]);
        net.reservation = Some(reservation);
        let mut workload = Workload { irqs: vec![net], ..Workload::default() };
        workload.loads.push(Load::new("loops", LoadKind::Spinners, 2));
        let seconds = 4;
        let options = RunOptions { seed: 1, duration: Nanos::from_secs(seconds), ..RunOptions::default() };
        let record = SimWorld::new(platform).run(&workload, &options, &mut Unobserved).unwrap();
        let seen = match &record.activity("net").unwrap().promised[0].evidence {
            Evidence::Value { value, .. } => *value,
            other => panic!("{other:?}"),
        };
        // The edges: one server period without a budget, and one round.
        let whole = 1.0 - 2.0 * reservation.period.as_secs_f64() / seconds as f64;
        prop_assert!(
            seen >= bound.at_least * whole - f64::from(outstanding),
            "{seen} a second, at least {} by {:?}", bound.at_least, bound.argument
        );
    }
}

/// A source faster than anything that is computed with took all memory, or minutes.
#[test]
fn sources_faster_than_is_computed_with_are_refused() {
    for apart in [None, Some(Nanos::new(1))] {
        let source = Arriving { offered: 1e9, apart };
        let useful = Reservation::implicit(Nanos::from_millis(13), Nanos::from_millis(100));
        let through = source.through(&useful, Nanos::from_micros(20), 256, Nanos::ZERO);
        assert_eq!(
            through.unwrap_err().to_string().split(',').nth(1).map(str::trim),
            Some("more than the 131072 that are computed with: take a shorter period"),
        );
    }
}
