//! Memory does not follow the length of a trace: a recording of 256 MiB, made page by page as it is read, passes through
//! every builder in what its threads and the stated constants take. `cargo bench --bench speed` does the same with 2 GiB.

#![allow(clippy::unwrap_used)]

mod support;

use support::peak_kib;
use support::synthetic::{Repeated, Writer};
use surety_model::event::TraceSink;
use surety_trace::statistics::recorder::RECORDER_BYTES_MAX;
use surety_trace::{
    BlameBuilder, DistributionBuilder, InterruptBuilder, RawPages, StatisticsBuilder, TraceReader,
};
use surety_trace::{ReadSummary, Wanted};
use surety_units::{CpuId, Tid};

/// Threads of the recording.
const THREADS: usize = 50;
/// Bytes of the recording: ten times what is allowed to be used.
const LENGTH: u64 = 256 << 20;

fn read(length: u64, sink: &mut dyn TraceSink) -> ReadSummary {
    let directory = support::fixtures().join("formats");
    let formats = support::formats(&directory);
    let source = Repeated::new(Writer::new(&formats).sparse(THREADS, 0), length);
    let table = support::table(&directory, "ffffffff8141e4b0 t hrtimer_wakeup\n");
    RawPages::new(table, support::layout(&directory), [(CpuId(0), source)]).read(sink).unwrap()
}

/// How many KiB the peak of this process grows by.
fn growth(sink: &mut dyn TraceSink) -> Option<u64> {
    let before = peak_kib()?;
    let summary = read(LENGTH, sink);
    assert!(summary.delivered > 900_000 && summary.is_complete(), "{summary:?}");
    Some(peak_kib()? - before)
}

/// One test, for the peak is that of the process.
#[test]
fn a_long_recording_takes_the_memory_of_its_threads() {
    if peak_kib().is_none() {
        eprintln!("SKIPPED: this system does not tell how much memory a process has had");
        return;
    }
    let wanted = Wanted::default;
    let constant = 8 << 10;
    let mut statistics = StatisticsBuilder::new(wanted());
    let grown = growth(&mut statistics).unwrap();
    let (recorded, anomalies) = statistics.finish();
    assert_eq!((recorded.threads.len(), anomalies.inconsistent), (THREADS, 0));
    let jobs: u64 = recorded.threads.iter().map(|t| t.jobs).sum();
    assert!(jobs > 60_000, "{jobs}");
    let allowed = (THREADS * RECORDER_BYTES_MAX) as u64 / 1024 + constant;
    assert!(grown < allowed, "statistics: {grown} KiB, {allowed} are allowed");

    let mut interrupts = InterruptBuilder::new(wanted());
    let grown = growth(&mut interrupts).unwrap();
    assert!(grown < constant, "interrupts: {grown} KiB");
    assert!(interrupts.finish().sources.iter().map(|s| s.count()).sum::<u64>() > 180_000);

    // One CPU's changes, each thread's changes, and the slowest jobs.
    let mut blames = BlameBuilder::new(wanted(), 5);
    let grown = growth(&mut blames).unwrap();
    assert!(grown < 48 << 10, "blame: {grown} KiB");
    assert_eq!(blames.finish().all.jobs, jobs);

    let one = Wanted { tids: vec![Tid(1000)], ..Wanted::default() };
    let mut distributions = DistributionBuilder::new(one, None);
    let grown = growth(&mut distributions).unwrap();
    assert!(grown < 16 << 10, "distributions: {grown} KiB");
    assert_eq!(distributions.finish().threads[0].jobs, jobs.div_ceil(THREADS as u64));
}
