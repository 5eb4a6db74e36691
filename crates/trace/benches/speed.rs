//! How fast a trace of more than 1.4 million events is decoded, condensed and shown, beside `trace-cmd report` on the same
//! file in the same run; and how much memory a file of 2 GiB takes.
//!
//! With `-- FILE...` it is recorded trace.dat files instead, each read by both programs in turn: `surety trace stats FILE`
//! (the program that the variable `SURETY` names, or `surety`) and `trace-cmd report -i FILE`, from start to end of the
//! process, with what they print thrown away.
//!
//! Goals: 5 million events a second decoded on one core; statistics within 1.5 times the decoding; the statistics twenty
//! times as fast as `trace-cmd report`. Each figure is the median of [`RUNS`] runs. Nothing here fails: a machine that is
//! busy with other things shows in the figures.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
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

const RUNS: usize = 7;
const CPUS: usize = 2;
const ROUNDS: usize = 52_000;
/// Bytes of the file that is made as it is read.
const LARGE: u64 = 2 << 30;

fn main() {
    // Of `cargo bench` is a flag of its own.
    let files: Vec<PathBuf> =
        std::env::args_os().skip(1).map(PathBuf::from).filter(|path| path.is_file()).collect();
    if !files.is_empty() {
        return files.iter().for_each(|file| programs(file));
    }
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
    let stats = run("stats", &bytes, || StatisticsBuilder::new(Wanted::default()));
    against("stats", stats);
    against("irqs", run("irqs", &bytes, || InterruptBuilder::new(Wanted::default())));
    against("explain", run("explain", &bytes, || BlameBuilder::new(Wanted::default(), 5)));
    against("show", run("show, to nowhere", &bytes, || Lines::new(std::io::sink(), None)));
    match trace_cmd(&path) {
        Some(time) => {
            report("trace-cmd report", time, (CPUS * ROUNDS * ROUND) as u64);
            for (name, own) in [("decode", decode), ("stats", stats)] {
                let ratio = time.as_secs_f64() / own.as_secs_f64();
                println!("{name} is {ratio:.1} times as fast as trace-cmd report");
            }
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

/// Both programs on one file, in turn.
fn programs(file: &Path) {
    let surety = std::env::var_os("SURETY").unwrap_or_else(|| "surety".into());
    let own = || {
        Command::new(&surety)
            .args(["trace", "stats"])
            .arg(file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    let mut taken: [Vec<(Duration, Duration)>; 2] = Default::default();
    for _ in 0..RUNS {
        let begin = (Instant::now(), cpu_of_children());
        if !own().is_ok_and(|status| status.success()) {
            return println!(
                "SKIPPED: {} cannot be started or cannot read {}",
                surety.display(),
                file.display()
            );
        }
        taken[0].push((begin.0.elapsed(), cpu_of_children().saturating_sub(begin.1)));
        let before = cpu_of_children();
        let Some(time) = trace_cmd(file) else {
            return println!("SKIPPED: trace-cmd is not installed or cannot read {}", file.display());
        };
        taken[1].push((time, cpu_of_children().saturating_sub(before)));
    }
    let [own, other] = taken.map(|runs| {
        let cpu: Duration = runs.iter().map(|(_, cpu)| *cpu).sum();
        let mut times: Vec<Duration> = runs.into_iter().map(|(time, _)| time).collect();
        times.sort_unstable();
        (times[times.len() / 2], cpu / RUNS as u32)
    });
    println!("{}", file.display());
    for (name, (time, cpu)) in [("surety trace stats", own), ("trace-cmd report", other)] {
        let (time, cpu) = (time.as_secs_f64() * 1e3, cpu.as_secs_f64() * 1e3);
        println!("{name:24} {time:8.1} ms in the median, {cpu:8.1} ms of CPU time in the mean");
    }
    let ratio = |own: Duration, other: Duration| other.as_secs_f64() / own.as_secs_f64();
    println!(
        "surety trace stats is {:.1} times as fast as trace-cmd report, and {:.1} times by CPU time",
        ratio(own.0, other.0),
        ratio(own.1, other.1)
    );
}

/// CPU time of the children that have ended: `cutime` and `cstime` of proc(5), in ticks of 10 ms.
fn cpu_of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in parentheses; these are the 16th and the 17th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn trace_cmd(path: &Path) -> Option<Duration> {
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
