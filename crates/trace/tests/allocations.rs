//! No event costs an allocation: a recording of half as much again, of the same threads, is decoded and condensed with as
//! many allocations as the shorter one, counted by an allocator that counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod support;

use support::synthetic::{Repeated, Writer};
use surety_model::event::{Event, TraceSink};
use surety_trace::{InterruptBuilder, RawPages, StatisticsBuilder, TraceReader, Wanted};
use surety_units::CpuId;

/// Jobs of each of the 50 threads in one repetition.
const JOBS: usize = 40;

/// Events of so many repetitions, and the allocations from the first to the last of them.
fn allocations(repetitions: u64, sink: &mut dyn TraceSink) -> (u64, u64) {
    let directory = support::fixtures().join("formats");
    let formats = support::formats(&directory);
    let pages = Writer::new(&formats).rounds(50 * JOBS, 0);
    let length = repetitions * pages.len() as u64;
    let table = support::table(&directory, "ffffffff8141e4b0 t hrtimer_wakeup\n");
    let source = Repeated::new(pages, length);
    let mut reader = RawPages::new(table, support::layout(&directory), [(CpuId(0), source)]);
    let mut events = 0;
    let counted = allocation_counter::measure(|| events = reader.read(sink).unwrap().delivered);
    (events, counted.count_total)
}

/// A sink's name, and how it is made.
type Made = (&'static str, fn() -> Box<dyn TraceSink>);

/// Takes one more allocation for every event, so that the counting is known to count.
struct Wasteful(Vec<String>);

impl TraceSink for Wasteful {
    fn event(&mut self, event: &Event<'_>) {
        self.0.push(event.time.to_string());
    }
}

#[test]
fn no_event_costs_an_allocation() {
    // By then every series of every thread is in its histogram: a thread has 2,160 jobs, and 2,048 values are kept at most.
    let (short, long) = (54, 58);
    let sinks: [Made; 3] = [
        ("decoding", || Box::new(|_: &Event<'_>| {})),
        ("statistics", || Box::new(StatisticsBuilder::new(Wanted::default()))),
        ("interrupts", || Box::new(InterruptBuilder::new(Wanted::default()))),
    ];
    for (name, sink) in sinks {
        let (fewer, before) = allocations(short, sink().as_mut());
        let (more, after) = allocations(long, sink().as_mut());
        assert!(more > fewer + 100_000, "{name}: {fewer} and {more} events");
        assert_eq!(before, after, "{name}: {fewer} and {more} events");
    }
    let (events, wasted) = allocations(1, &mut Wasteful(Vec::new()));
    assert!(wasted > events, "the allocator must count");
}
