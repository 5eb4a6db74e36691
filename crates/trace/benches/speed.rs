//! How fast a trace of more than 1.4 million events is decoded, condensed and shown, beside `trace-cmd report` on the same
//! file in the same run; and how much memory a file of 2 GiB takes.
//!
//! Goals: 5 million events a second decoded on one core; statistics within 1.5 times the decoding; ten times as fast as
//! `trace-cmd report`. Each figure is the median of [`RUNS`] runs. Nothing here fails: a machine that is busy with other
//! things shows in the figures.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::synthetic::{ROUND, Repeated, Writer};
use surety_model::event::{Event, TraceSink};
use surety_trace::write::lines::Lines;
use surety_trace::{
    BlameBuilder, Endian, InterruptBuilder, JobBuilder, RawPages, StatisticsBuilder, TraceDatContent,
    TraceReader, Wanted,
};
use surety_units::CpuId;

const RUNS: usize = 5;
const CPUS: usize = 2;
const ROUNDS: usize = 52_000;
/// Bytes of the file that is made as it is read.
const LARGE: u64 = 2 << 30;

fn main() {
    let formats = support::formats(&support::fixtures().join("formats"));
    let pages: Vec<Vec<u8>> = (0..CPUS).map(|cpu| Writer::new(&formats).rounds(ROUNDS, cpu as u64)).collect();
    let path = std::env::temp_dir().join(format!("surety-speed-{}.dat", std::process::id()));
    let file = File::create(&path).expect("the temporary directory can be written");
    let header_page = std::fs::read_to_string(support::fixtures().join("formats/header_page.txt"));
    let content = TraceDatContent {
        endian: Endian::Little,
        header_page: &header_page.expect("the fixture is there"),
        header_event: support::tracedat::HEADER_EVENT,
        formats: formats.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        symbols: "ffffffff8141e4b0 t hrtimer_wakeup\n",
        printk_formats: "",
        names: "",
        clock: "mono",
        statistics: Vec::new(),
        pages: (0..).map(CpuId).zip(&pages).collect(),
    };
    content.write(&mut BufWriter::new(file)).expect("the file can be written");
    let bytes = std::fs::read(&path).expect("it was just written");
    println!("{} events, {} MB", CPUS * ROUNDS * ROUND, bytes.len() / 1_000_000);

    let decode = run("decode", &bytes, || Count(0));
    let ratio = |time: Duration| time.as_secs_f64() / decode.as_secs_f64();
    let against = |name: &str, time: Duration| println!("{name:24} {:.2} times the decoding", ratio(time));
    against("jobs", run("jobs, all kept", &bytes, JobBuilder::new));
    against("stats", run("stats", &bytes, || StatisticsBuilder::new(Wanted::default())));
    against("irqs", run("irqs", &bytes, || InterruptBuilder::new(Wanted::default())));
    against("explain", run("explain", &bytes, || BlameBuilder::new(Wanted::default(), 5)));
    against("show", run("show, to nowhere", &bytes, || Lines::new(std::io::sink(), None)));
    match trace_cmd(&path) {
        Some(time) => {
            report("trace-cmd report", time, (CPUS * ROUNDS * ROUND) as u64);
            println!(
                "decode is {:.1} times as fast as trace-cmd report",
                1.0 / (decode.as_secs_f64() / time.as_secs_f64())
            );
        }
        None => println!("SKIPPED: trace-cmd is not installed or cannot read the file"),
    }
    large(&formats);
    if let Err(error) = std::fs::remove_file(&path) {
        println!("{} is left behind: {error}", path.display());
    }
}

struct Count(u64);

impl TraceSink for Count {
    fn event(&mut self, event: &Event<'_>) {
        black_box(event);
        self.0 += 1;
    }
}

/// The median of some runs over the same bytes.
fn run<K: TraceSink>(name: &str, bytes: &[u8], sink: impl Fn() -> K) -> Duration {
    let mut events = 0;
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let mut trace = surety_trace::open(bytes).expect("our own file can be read");
            let mut sink = sink();
            let begin = Instant::now();
            events = trace.read(&mut sink).expect("memory can be read").delivered;
            let time = begin.elapsed();
            drop(black_box(sink));
            time
        })
        .collect();
    times.sort_unstable();
    report(name, times[RUNS / 2], events);
    times[RUNS / 2]
}

fn report(name: &str, time: Duration, events: u64) {
    let rate = events as f64 / time.as_secs_f64() / 1e6;
    println!("{name:24} {:8.1} ms   {rate:6.2} million events/s", time.as_secs_f64() * 1e3);
}

fn trace_cmd(path: &std::path::Path) -> Option<Duration> {
    let begin = Instant::now();
    let mut command = Command::new("trace-cmd");
    command.args(["report", "-i"]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?.success().then(|| begin.elapsed())
}

/// A file that is larger than it would be wise to hold: pages are made as they are asked for.
fn large(formats: &[(String, String)]) {
    let directory = support::fixtures().join("formats");
    let source = Repeated::new(Writer::new(formats).rounds(5_000, 0), LARGE);
    let table = support::table(&directory, "ffffffff8141e4b0 t hrtimer_wakeup\n");
    let mut reader = RawPages::new(table, support::layout(&directory), [(CpuId(0), source)]);
    let before = support::peak_kib();
    let mut sink = StatisticsBuilder::new(Wanted::default());
    let begin = Instant::now();
    let events = reader.read(&mut sink).expect("pages are made without fail").delivered;
    report("stats of 2 GiB", begin.elapsed(), events);
    let threads = sink.finish().0.threads.len();
    if let (Some(before), Some(after)) = (before, support::peak_kib()) {
        println!("{threads} threads; the peak of memory grew by {} KiB", after - before);
    }
    std::io::stdout().flush().expect("the terminal is there");
}
