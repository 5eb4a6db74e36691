//! Plans for platforms whose overheads were measured.

use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::{Overheads, Platform};
use surety_model::record::Evidence;
use surety_model::workload::Release;
use surety_model::world::{RunOptions, Unobserved, World};
use surety_units::Nanos;

use super::{of, player, task};
use crate::check::check;
use crate::{PlanOptions, plan_in_full};

/// What was measured of the kernel's own work never makes a budget smaller, and a plan made for it is found right again.
#[test]
fn measured_overheads_never_make_a_budget_smaller() {
    let runtime = |cost: i64, which: usize| {
        let us = |place: usize| Nanos::from_micros(if which == place || which == 5 { cost } else { 0 });
        let overheads = Overheads { switch: us(0), wakeup: us(1), sleep: us(2), tick: us(3), timer: us(4) };
        let options = PlanOptions::new(Platform { overheads, ..Platform::linux_6_18(2) });
        let other = task("other", 2, TimeDistribution::Constant(Nanos::from_micros(100)), &[]);
        let tasks = vec![task("player", 40, player(), &["response <= 40ms @ 99%"]), other];
        let workload = of(tasks);
        let planned = plan_in_full(&workload, &BTreeMap::new(), &options, false);
        let reservation = planned.plan.reservations[0].reservation;
        check(&planned.plan, &planned.claims).unwrap_or_else(|e| panic!("{which} {cost}: {e}"));
        reservation.bandwidth().as_f64()
    };
    let stated = runtime(0, 0);
    for which in 0..=5 {
        let mut before = stated;
        for cost in [1, 5, 20, 60] {
            let now = runtime(cost, which);
            assert!(now >= before, "{which} {cost}: {now} and before {before}");
            before = now;
        }
        assert!(before > stated || which == 2, "{which}: 60 us cost nothing");
    }
}

/// The analysis of the machine that a plan was made for proves what the plan promises: neither counts what the other leaves out.
#[test]
fn a_plan_for_measured_overheads_is_proven_on_that_machine() {
    for (cost, jitter) in [(0, 0), (1, 0), (5, 2), (8, 0), (10, 8)] {
        let us = Nanos::from_micros(cost);
        let overheads = Overheads { switch: us, wakeup: us, sleep: us, tick: us, timer: us };
        let platform = Platform { overheads, ..Platform::linux_6_18(2) };
        for work in [player(), TimeDistribution::Constant(Nanos::from_millis(8))] {
            let mut asked = task("player", 40, work, &["response <= 40ms @ 99%"]);
            let Release::Periodic { jitter: declared, .. } = &mut asked.release else { panic!("periodic") };
            *declared = Nanos::from_millis(jitter);
            let workload = of(vec![asked]);
            let planned =
                plan_in_full(&workload, &BTreeMap::new(), &PlanOptions::new(platform.clone()), false);
            check(&planned.plan, &planned.claims).unwrap_or_else(|e| panic!("{cost}: {e}"));
            let world = AnalysisWorld::new(platform.clone());
            let reserved = planned.plan.apply_to(&workload);
            let record = world.run(&reserved, &RunOptions::default(), &mut Unobserved).unwrap();
            let [promised] = record.activities[0].promised.as_slice() else { panic!("{record:?}") };
            let Evidence::Proven { at_least, .. } = promised.evidence else { panic!("{promised:?}") };
            assert!(at_least >= 0.99, "costs of {cost} us, jitter of {jitter} ms: {at_least}");
        }
    }
}
