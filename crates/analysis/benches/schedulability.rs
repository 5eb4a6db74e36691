//! What it costs to decide schedulability: QPA on 10,000 sets of 20 tasks, 1,000 tasks partitioned on 64 CPUs.
//!
//! `cargo bench -p surety-analysis --bench schedulability`. Periods are drawn log-uniformly between 10 ms and 1 s in
//! nanoseconds, so that no small hyperperiod helps, deadlines between the work and the period.

use divan::{Bencher, black_box};
use surety_analysis::schedulability::partition::{CoreTest, Heuristic, partition};
use surety_analysis::schedulability::uniprocessor::processor_demand;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use generate::{Deadlines, random_set};
use schedulability::SporadicTask;

/// What the generator of the tests names by its place in the crate.
mod schedulability {
    pub use surety_analysis::schedulability::SporadicTask;
}

#[allow(dead_code, reason = "the tests draw more than is measured here")]
#[path = "../src/schedulability/tests/generate.rs"]
mod generate;

fn main() {
    divan::main();
}

fn set(count: usize, total: f64, deadlines: Deadlines, random: &mut Pcg) -> Vec<SporadicTask> {
    let periods: Vec<Nanos> =
        (0..1_000).map(|_| Nanos::from_f64_rounded(1e7 * 100f64.powf(random.unit_open()))).collect();
    random_set(count, total, &periods, Nanos::new(1), deadlines, random).expect("a set can be drawn")
}

#[divan::bench(args = [0.7, 0.9, 0.99], sample_count = 5)]
fn qpa_on_10_000_sets_of_20(bencher: Bencher<'_, '_>, utilisation: f64) {
    let mut random = Pcg::for_job(1, 1, 1);
    // Deadlines in the upper part of the period, so that not nearly every set fails at its first windows.
    let sets: Vec<Vec<SporadicTask>> = (0..10_000)
        .map(|_| {
            let mut set = set(20, utilisation, Deadlines::Constrained, &mut random);
            set.iter_mut().for_each(|t| t.deadline = t.period - (t.period - t.deadline) / 10);
            set
        })
        .collect();
    bencher.bench_local(|| black_box(&sets).iter().filter(|set| processor_demand(set).holds()).count());
}

#[divan::bench(
    args = [Heuristic::FirstFit, Heuristic::BestFit, Heuristic::WorstFit],
    consts = [48, 60],
    sample_count = 5
)]
fn edf_1_000_tasks_on_64_cpus<const LOAD: usize>(bencher: Bencher<'_, '_>, heuristic: Heuristic) {
    let tasks = set(1_000, LOAD as f64, Deadlines::Constrained, &mut Pcg::for_job(1, 1, 2));
    bencher.bench_local(|| partition(black_box(&tasks), 64, heuristic, CoreTest::Edf));
}

#[divan::bench(args = [Heuristic::FirstFit, Heuristic::BestFit, Heuristic::WorstFit], sample_count = 5)]
fn deadline_monotonic_1_000_tasks_on_64_cpus(bencher: Bencher<'_, '_>, heuristic: Heuristic) {
    let tasks = set(1_000, 48.0, Deadlines::Constrained, &mut Pcg::for_job(1, 1, 2));
    bencher.bench_local(|| partition(black_box(&tasks), 64, heuristic, CoreTest::DeadlineMonotonic));
}
