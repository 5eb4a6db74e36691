//! Recording allocates nothing: every recorder, counted by an allocator that counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_stats::averages::{CountWindow, CumulativeMean, DecayingMean, FadingMean, TimeWindow};
use surety_stats::p_square::{ExtendedPSquare, PSquare};
use surety_stats::{Histogram, Moments, Pcg, Sequence};

fn allocations(mut record: impl FnMut(u64)) -> u64 {
    let mut pcg = Pcg::for_job(121, 1, 1);
    allocation_counter::measure(|| (0..10_000).for_each(|_| record(pcg.next_u64() >> 20))).count_total
}

#[test]
fn recorders_allocate_nothing() {
    let mut kept = Vec::new();
    assert!(allocations(|value| kept.push(value)) > 0, "the allocator must count");

    let (mut histogram, mut moments, mut sequence) = (Histogram::new(), Moments::new(), Sequence::new());
    let mut cumulative = CumulativeMean::new();
    let (mut window, mut timed) = (CountWindow::new(100), TimeWindow::new(1_000, 100));
    let (mut fading, mut decaying) = (FadingMean::like_window(10), DecayingMean::new(100));
    let mut p_square = PSquare::new(0.999).unwrap();
    let mut extended = ExtendedPSquare::new(&[0.5, 0.99]).unwrap();
    let mut now = 0;
    let recorders: [(&str, &mut dyn FnMut(u64)); 10] = [
        ("histogram", &mut |value| histogram.record(value)),
        ("moments", &mut |value| moments.record(value as f64)),
        ("sequence", &mut |value| sequence.record(value)),
        ("cumulative mean", &mut |value| cumulative.record(value)),
        ("count window", &mut |value| window.record(value)),
        ("time window", &mut |value| {
            now += value & 31;
            timed.record(now, value);
        }),
        ("fading mean", &mut |value| fading.record(value as f64)),
        ("decaying mean", &mut |value| decaying.record(value, value as f64)),
        ("P-square", &mut |value| p_square.record(value as f64)),
        ("extended P-square", &mut |value| extended.record(value as f64)),
    ];
    for (name, record) in recorders {
        assert_eq!(allocations(record), 0, "{name}");
    }
    assert_eq!(histogram.count(), 10_000);
}
