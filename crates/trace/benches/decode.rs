//! How many events a second are decoded, and turned into jobs, on one core.
//!
//! Two CPUs' pages of wake-ups, switches, timers and interrupts in memory; the goal is 5 million events a second. The
//! allocations shown are those for threads and jobs: their number does not follow the number of events.

#[path = "../tests/support/mod.rs"]
mod support;

use divan::counter::ItemsCount;
use support::synthetic::{ROUND, Writer};
use surety_model::event::{Event, TraceSink};
use surety_trace::write::perfetto::Perfetto;
use surety_trace::{JobBuilder, PerfettoTrace, RawPages, TextTrace, TraceReader};
use surety_units::CpuId;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const ROUNDS: usize = 20_000;
const CPUS: usize = 2;

fn main() {
    divan::main();
}

fn pages() -> Vec<Vec<u8>> {
    let formats = support::formats(&support::fixtures().join("formats"));
    (0..CPUS).map(|cpu| Writer::new(&formats).rounds(ROUNDS, cpu as u64)).collect()
}

fn reader(pages: &[Vec<u8>]) -> RawPages<&Vec<u8>> {
    let formats = support::fixtures().join("formats");
    let sources = pages.iter().zip(0..).map(|(bytes, cpu)| (CpuId(cpu), bytes));
    let kallsyms = "ffffffff8141e4b0 t hrtimer_wakeup\n";
    RawPages::new(support::table(&formats, kallsyms), support::layout(&formats), sources)
}

struct Count(u64);

impl TraceSink for Count {
    fn event(&mut self, event: &Event<'_>) {
        divan::black_box(event);
        self.0 += 1;
    }
}

#[divan::bench]
fn decode(bencher: divan::Bencher<'_, '_>) {
    let pages = pages();
    let mut reader = reader(&pages);
    bencher.counter(ItemsCount::new(CPUS * ROUNDS * ROUND)).bench_local(|| {
        let mut count = Count(0);
        reader.read(&mut count).expect("memory can be read");
        assert_eq!(count.0, (CPUS * ROUNDS * ROUND) as u64);
    });
}

#[divan::bench]
fn decode_and_jobs(bencher: divan::Bencher<'_, '_>) {
    let pages = pages();
    let mut reader = reader(&pages);
    bencher.counter(ItemsCount::new(CPUS * ROUNDS * ROUND)).bench_local(|| {
        let mut builder = JobBuilder::new();
        reader.read(&mut builder).expect("memory can be read");
        let jobs: usize = builder.finish().threads.iter().map(|t| t.jobs.len()).sum();
        assert_eq!(jobs, CPUS * ROUNDS);
    });
}

/// Lines of the kernel's text of a recording, over and over.
#[divan::bench]
fn text(bencher: divan::Bencher<'_, '_>) {
    let recording = std::fs::read(support::fixtures().join("throttled/trace.txt")).expect("a fixture");
    let events = recording.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b' ')).count();
    let repeated = recording.repeat(1000);
    let mut trace = TextTrace::open(&repeated).expect("a trace");
    bencher.counter(ItemsCount::new(1000 * events)).bench_local(|| {
        let mut count = Count(0);
        trace.read_into(&mut count).expect("memory can be read");
        assert_eq!(count.0, 1000 * events as u64);
    });
}

/// The same events as a Perfetto trace.
fn perfetto_file() -> Vec<u8> {
    let pages = pages();
    let mut file = Vec::new();
    let mut sink = Perfetto::new(&mut file);
    reader(&pages).read(&mut sink).expect("memory can be read");
    sink.finish("mono").expect("memory can be written");
    file
}

#[divan::bench]
fn perfetto(bencher: divan::Bencher<'_, '_>) {
    let file = perfetto_file();
    bencher.counter(ItemsCount::new(CPUS * ROUNDS * ROUND)).bench_local(|| {
        let mut count = Count(0);
        let mut trace = PerfettoTrace::open(&file).expect("it is a trace");
        trace.read(&mut count).expect("memory can be read");
        assert_eq!(count.0, (CPUS * ROUNDS * ROUND) as u64);
    });
}

#[divan::bench]
fn write_perfetto(bencher: divan::Bencher<'_, '_>) {
    let file = perfetto_file();
    let mut trace = PerfettoTrace::open(&file).expect("it is a trace");
    bencher.counter(ItemsCount::new(CPUS * ROUNDS * ROUND)).bench_local(|| {
        let mut sink = Perfetto::new(std::io::sink());
        trace.read(&mut sink).expect("memory can be read");
        divan::black_box(sink.finish("mono").expect("a sink takes all"));
    });
}
