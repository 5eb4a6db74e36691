//! What it costs to solve the queue in front of a constant-bandwidth server, beside numpy's dense cyclic reduction.
//!
//! `cargo bench -p surety-analysis`. The instances are in `instances.txt`; the number in a name is the width of a level of
//! the quasi-birth-death process, the last one the load. After divan's table the same instances are solved by
//! `dense_cyclic_reduction.py` (with `PYTHON`, or `python3`), and both answers and times stand side by side.

use std::process::Command;
use std::time::{Duration, Instant};

use divan::{Bencher, black_box};
use surety_analysis::cbs::modulated::ModulatedQueue;
use surety_analysis::cbs::modulated::solution::ModulatedSolver;
use surety_analysis::cbs::modulated::solution::by_modes::ByModes;
use surety_analysis::cbs::solver::analytic::Analytic;
use surety_analysis::cbs::solver::exponential::Exponential;
use surety_analysis::cbs::solver::reduction::{CyclicReduction, LogReduction};
use surety_analysis::cbs::solver::wiener_hopf::WienerHopf;
use surety_analysis::cbs::{Queue, Solver, Worth};

const INSTANCES: &str = include_str!("instances.txt");

fn main() {
    divan::main();
    let listing = std::env::args().any(|a| a == "--list" || a == "--test");
    if !listing {
        beside_numpy();
    }
}

fn instances() -> impl Iterator<Item = (&'static str, u32, Queue)> {
    INSTANCES.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(|line| {
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("a word");
        let name = next();
        let (periods, budget) = (next().parse().expect("z"), next().parse().expect("Q"));
        let mut work: Vec<f64> = Vec::new();
        for run in words {
            let (range, weight) = run.split_once('*').expect("low-high*weight");
            let (low, high) = range.split_once('-').expect("low-high");
            let (low, high): (usize, usize) = (low.parse().expect("low"), high.parse().expect("high"));
            let weight: f64 = weight.parse().expect("weight");
            work.resize(work.len().max(high + 1), 0.0);
            work[low..=high].iter_mut().for_each(|w| *w += weight);
        }
        let total: f64 = work.iter().sum();
        work.iter_mut().for_each(|w| *w /= total);
        (name, periods, Queue::periodic(work, periods, budget).expect("a stable queue"))
    })
}

fn names(narrow: bool) -> Vec<&'static str> {
    instances().filter(|(_, _, q)| !narrow || q.walk().block() <= 128).map(|(name, _, _)| name).collect()
}

fn queue(name: &str) -> Queue {
    instances().find(|(n, _, _)| *n == name).expect("listed").2
}

#[divan::bench(args = names(false))]
fn wiener_hopf(bencher: Bencher<'_, '_>, name: &str) {
    let queue = queue(name);
    bencher.bench_local(|| WienerHopf::default().solve(black_box(&queue)).expect("solved").within(1));
}

#[divan::bench(args = names(false))]
fn exponential(bencher: Bencher<'_, '_>, name: &str) {
    let queue = queue(name);
    bencher.bench_local(|| Exponential.solve(black_box(&queue)).expect("a bound").within(1));
}

#[divan::bench(args = names(false))]
fn analytic(bencher: Bencher<'_, '_>, name: &str) {
    let queue = queue(name);
    bencher.bench_local(|| Analytic::default().solve(black_box(&queue)).expect("a bound").within(1));
}

#[divan::bench(args = names(true), sample_count = 10)]
fn cyclic_reduction(bencher: Bencher<'_, '_>, name: &str) {
    let queue = queue(name);
    bencher.bench_local(|| CyclicReduction::default().solve(black_box(&queue)).expect("solved").within(1));
}

#[divan::bench(args = names(true), sample_count = 10)]
fn log_reduction(bencher: Bencher<'_, '_>, name: &str) {
    let queue = queue(name);
    bencher.bench_local(|| LogReduction::default().solve(black_box(&queue)).expect("solved").within(1));
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn beside_numpy() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/benches");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(&python)
        .args([format!("{here}/dense_cyclic_reduction.py"), format!("{here}/instances.txt")])
        .output();
    let theirs = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => {
            println!("\nSKIPPED beside numpy: {}", String::from_utf8_lossy(&output.stderr).trim());
            String::new()
        }
        Err(error) => {
            println!("\nSKIPPED beside numpy: {python}: {error}");
            String::new()
        }
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nP{{done within the budgets between releases}}, medians; load of the machine {}", load.trim());
    println!("| instance | level | load | P | proven error | Wiener-Hopf | numpy dense | difference of P |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, periods, queue) in instances() {
        let solver = WienerHopf::default();
        let solution = solver.solve(&queue).expect("solved");
        let p = solution.within(periods).value;
        let Worth::Exact(certificate) = solution.worth else { continue };
        let ours = median(|| {
            black_box(solver.solve(black_box(&queue)).expect("solved").within(periods));
        });
        let line = theirs.lines().find(|l| l.split(' ').next() == Some(name));
        let (seconds, difference) = line.map_or(("-".to_owned(), "-".to_owned()), |line| {
            let numbers: Vec<f64> = line.split(' ').skip(1).filter_map(|w| w.parse().ok()).collect();
            (format!("{:.1} ms", numbers[0] * 1e3), format!("{:.1e}", (numbers[1] - p).abs()))
        });
        println!(
            "| {name} | {} | {:.3} | {p:.9} | {:.1e} | {:.2} ms | {seconds} | {difference} |",
            queue.walk().block(),
            queue.load(),
            certificate.error,
            ours.as_secs_f64() * 1e3
        );
    }
}

/// The player in two modes, light and heavy scenes of a hundred jobs on average; 400 cells of budget.
fn in_modes() -> ModulatedQueue {
    let spread = |low: usize, high: usize| {
        let mut masses = vec![0.0; high + 1];
        masses[low..=high].fill(1.0 / (high + 1 - low) as f64);
        masses
    };
    let stays = vec![vec![0.99, 0.01], vec![0.02, 0.98]];
    ModulatedQueue::new(vec![spread(60, 160), spread(260, 420)], &stays, 1, 400).expect("a stable queue")
}

#[divan::bench]
fn modes_by_factors(bencher: Bencher<'_, '_>) {
    let queue = in_modes();
    bencher.bench_local(|| ByModes::default().solve(black_box(&queue)).expect("solved").within(1));
}

#[divan::bench]
fn modes_as_independent(bencher: Bencher<'_, '_>) {
    let queue = Queue::periodic(in_modes().mixture(), 1, 400).expect("a stable queue");
    bencher.bench_local(|| WienerHopf::default().solve(black_box(&queue)).expect("solved").within(1));
}
