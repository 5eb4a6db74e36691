//! What it takes to find the reservation with the least bandwidth for one task, and the whole front over the period.
//!
//! `cargo bench -p surety-plan`. The instances: a player, work that comes close to the whole CPU, a limit that is no multiple
//! of the period, a high fraction, and 2000 samples in place of a distribution.

use std::collections::BTreeMap;

use divan::{Bencher, black_box};
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::Promise;
use surety_model::workload::{Task, Workload};
use surety_plan::{PlanOptions, plan, plan_in_full};
use surety_stats::random::Pcg;
use surety_units::Nanos;

fn main() {
    divan::main();
}

const INSTANCES: [&str; 6] = ["player", "heavy", "odd-limit", "999", "exact-enforcement", "samples"];

fn instance(name: &str) -> (Workload, PlanOptions) {
    let ms = Nanos::from_millis;
    let log_normal = |mean, p99| TimeDistribution::LogNormal { mean: ms(mean), p99: ms(p99) };
    let player = log_normal(14, 22);
    let drawn = || {
        let mut pcg = Pcg::new(7, 7);
        let pairs = (0..2_000).map(|_| (player.draw_from(&mut pcg), 1)).collect();
        TimeDistribution::Empirical(Empirical::new(pairs).expect("not empty"))
    };
    let (work, promise) = match name {
        "heavy" => (log_normal(22, 34), "response <= 40ms @ 99%"),
        "odd-limit" => (player, "response <= 79ms @ 99%"),
        "999" => (player, "response <= 40ms @ 99.9%"),
        "samples" => (drawn(), "response <= 40ms @ 95%"),
        _ => (player, "response <= 40ms @ 99%"),
    };
    let mut task = Task::periodic("task", ms(40), work);
    task.promises.push(Promise::parse(promise).expect("a promise"));
    let mut platform = Platform::linux_6_18(2);
    if name == "exact-enforcement" {
        platform.enforcement = Enforcement::Exact;
    }
    let options = PlanOptions { empirical_are_samples: name == "samples", ..PlanOptions::new(platform) };
    (Workload { tasks: vec![task], ..Workload::default() }, options)
}

#[divan::bench(args = INSTANCES, sample_count = 20)]
fn cheapest(bencher: Bencher<'_, '_>, name: &str) {
    let (workload, options) = instance(name);
    bencher.bench_local(|| {
        let plan = plan(black_box(&workload), &BTreeMap::new(), &options);
        assert_eq!(plan.reservations.len(), 1, "{:?}", plan.refusals);
        plan
    });
}

#[divan::bench(args = INSTANCES, sample_count = 5)]
fn front(bencher: Bencher<'_, '_>, name: &str) {
    let (workload, options) = instance(name);
    bencher.bench_local(|| plan_in_full(black_box(&workload), &BTreeMap::new(), &options, true));
}
