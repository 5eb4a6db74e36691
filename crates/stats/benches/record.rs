//! What one value costs: the recorders on the path of every activation, and the draws of the simulator.
//!
//! `cargo bench -p surety-stats`. Each benchmark takes 4096 log-normal durations a pass, so that neither the
//! branch predictor nor one cache line decides; `ns` a value is the time divided by the items divan reports.

use average::Estimate;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use surety_stats::averages::{CountWindow, CumulativeMean};
use surety_stats::p_square::{ExtendedPSquare, PSquare};
use surety_stats::{Histogram, Moments, Pcg};
use watermill::stats::Univariate;

const VALUES: usize = 4096;

fn main() {
    divan::main();
}

/// Log-normal around 50 µs.
fn durations() -> Vec<u64> {
    let mut pcg = Pcg::for_job(1, 2, 3);
    (0..VALUES).map(|_| (50_000.0 * libm::exp(0.5 * pcg.normal())) as u64).collect()
}

#[divan::bench]
fn histogram_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut histogram = Histogram::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| histogram.record(value));
        black_box(&histogram);
    });
}

#[divan::bench]
fn moments_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut moments = Moments::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| moments.record(value as f64));
        black_box(&moments);
    });
}

#[divan::bench]
fn histogram_and_moments_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut histogram = Histogram::new();
    let mut moments = Moments::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        for &value in black_box(&values) {
            histogram.record(value);
            moments.record(value as f64);
        }
        black_box((&histogram, &moments));
    });
}

/// Histogram and moments as a probe keeps them: with a count of planned, missed and late activations.
#[divan::bench]
fn histogram_moments_and_counters_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut histogram = Histogram::new();
    let mut moments = Moments::new();
    let (mut planned, mut late, mut sum) = (0u64, 0u64, CumulativeMean::new());
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        for &value in black_box(&values) {
            histogram.record(value);
            moments.record(value as f64);
            sum.record(value);
            planned += 1;
            late += u64::from(value > 100_000);
        }
        black_box((&histogram, &moments, &sum, planned, late));
    });
}

#[divan::bench]
fn count_window_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut window = CountWindow::new(1_000);
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| window.record(value));
        black_box(&window);
    });
}

#[divan::bench]
fn p_square_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut quantile = PSquare::new(0.99).expect("a quantile");
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| quantile.record(value as f64));
        black_box(&quantile);
    });
}

#[divan::bench]
fn p_square_of_average(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut quantile = average::Quantile::new(0.99);
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| quantile.add(value as f64));
        black_box(&quantile);
    });
}

#[divan::bench]
fn p_square_of_watermill(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut quantile = watermill::quantile::Quantile::new(0.99f64).expect("a quantile");
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| quantile.update(value as f64));
        black_box(&quantile);
    });
}

#[divan::bench]
fn extended_p_square_of_four_record(bencher: Bencher<'_, '_>) {
    let values = durations();
    let mut quantiles = ExtendedPSquare::new(&[0.5, 0.9, 0.99, 0.999]).expect("ascending quantiles");
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&values).iter().for_each(|&value| quantiles.record(value as f64));
        black_box(&quantiles);
    });
}

#[divan::bench]
fn pcg_next(bencher: Bencher<'_, '_>) {
    let mut pcg = Pcg::for_job(1, 2, 3);
    bencher
        .counter(ItemsCount::new(VALUES))
        .bench_local(|| (0..VALUES).fold(0, |sum, _| sum ^ pcg.next_u64()));
}

#[divan::bench]
fn pcg_normal(bencher: Bencher<'_, '_>) {
    let mut pcg = Pcg::for_job(1, 2, 3);
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| (0..VALUES).map(|_| pcg.normal()).sum::<f64>());
}

#[divan::bench]
fn generator_of_a_job(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        (0..VALUES as u64).fold(0, |sum, job| sum ^ Pcg::for_job(1, 2, black_box(job)).next_u64())
    });
}
