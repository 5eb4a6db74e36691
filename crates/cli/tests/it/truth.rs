//! What a live trace says against what is known otherwise: a disk's interrupts by the kernel's own count, a task's jobs by
//! the task itself.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use surety_host::recorder::{RawTrace, Recording, RecordingError, RecordingOptions};
use surety_kernel::tracefs::{Marker, Tracefs};
use surety_kernel::{Kernel, RealKernel, clock};
use surety_model::event::{Event, EventKind, JobMarker, TraceSink};
use surety_stats::Sample;
use surety_trace::format::parse_header_page;
use surety_trace::{EVENTS, Endian, EventTable, RawPages, StatisticsBuilder, Symbols, Wanted};
use surety_units::Nanos;

use crate::common::alone;

/// Recordings made before a test gives up.
const PATIENCE: u32 = 6;

/// A recording of these events, or a loud reason why not.
fn record(label: &str, events: &[&str]) -> Option<Recording> {
    let cpus = RealKernel::new().online_cpus().unwrap();
    let name = format!("surety-test-{}-{label}", std::process::id());
    let started = Tracefs::open()
        .map_err(RecordingError::from)
        .and_then(|tracefs| Recording::start(&tracefs, &name, &RecordingOptions::of(events), cpus));
    started.inspect_err(|error| eprintln!("SKIPPED: nothing can be recorded here: {error}")).ok()
}

fn decode(raw: &RawTrace, sink: &mut dyn TraceSink) {
    let formats = raw.formats.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let symbols = raw.symbols.as_deref().map(Symbols::parse).unwrap_or_default();
    let table = EventTable::new(Endian::NATIVE, formats, symbols).unwrap();
    let layout = parse_header_page(&raw.header_page).unwrap();
    let pages = raw.pages.iter().map(|(cpu, file)| (*cpu, file));
    RawPages::new(table, layout, pages).read_into(sink).unwrap();
}

fn sleep(time: Nanos) {
    clock::sleep_until(clock::monotonic() + time, None).unwrap();
}

/// Message-signalled interrupts of the device under the file system that `directory` is on.
fn interrupts_of_disk(directory: &Path) -> BTreeSet<u32> {
    let device = fs::metadata(directory).unwrap().dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & !0xff);
    let Ok(path) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
        return BTreeSet::new();
    };
    let lists = path.ancestors().filter_map(|above| fs::read_dir(above.join("msi_irqs")).ok());
    let names = lists.flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// How often these interrupts came, by the kernel's own count over all CPUs.
fn counted(irqs: &BTreeSet<u32>) -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let cpus = text.lines().next().unwrap().split_whitespace().count();
    let of_line = |line: &str| {
        let (irq, rest) = line.split_once(':')?;
        irqs.contains(&irq.trim().parse().ok()?).then_some(())?;
        Some(rest.split_whitespace().take(cpus).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>())
    };
    text.lines().filter_map(of_line).sum()
}

/// An instant when the disk was idle: the count then, and the mark that stands there.
struct Idle {
    count: u64,
    mark: String,
}

/// Marks an instant around which the count is the same for some milliseconds.
fn mark_when_idle(irqs: &BTreeSet<u32>, marker: &Marker, label: &str) -> Option<Idle> {
    for attempt in 0..100 {
        let mark = format!("test:{label}:{attempt}");
        let count = counted(irqs);
        sleep(Nanos::from_millis(3));
        marker.mark(mark.as_bytes()).unwrap();
        sleep(Nanos::from_millis(3));
        if counted(irqs) == count {
            return Some(Idle { count, mark });
        }
    }
    None
}

/// Arrivals of some interrupts between two marks.
struct Arrivals<'a> {
    irqs: &'a BTreeSet<u32>,
    from: &'a str,
    to: &'a str,
    inside: bool,
    count: u64,
}

impl TraceSink for Arrivals<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Marker { text } if text == self.from => self.inside = true,
            EventKind::Marker { text } if text == self.to => self.inside = false,
            EventKind::IrqEntry { irq, .. } if self.inside && self.irqs.contains(&irq) => self.count += 1,
            _ => {}
        }
    }
}

#[test]
fn traced_arrivals_of_the_disks_interrupt_are_those_the_kernel_counts() {
    let _alone = alone();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let irqs = interrupts_of_disk(&directory);
    if irqs.is_empty() {
        return eprintln!("SKIPPED: no interrupts of the disk under {} are known", directory.display());
    }
    let mut disturbed = 0;
    for attempt in 0..PATIENCE {
        let Some(recording) = record(&format!("irq-{attempt}"), &["irq:irq_handler_entry"]) else { return };
        let marker = recording.marker();
        let begin = mark_when_idle(&irqs, &marker, "begin");
        let mut file = tempfile::tempfile_in(&directory).unwrap();
        for _ in 0..20 {
            file.write_all(&[7; 4096]).unwrap();
            file.sync_all().unwrap();
        }
        let end = mark_when_idle(&irqs, &marker, "end");
        drop(marker);
        let raw = recording.finish().unwrap();
        let (Some(begin), Some(end), 0) = (begin, end, raw.lost()) else {
            disturbed += 1;
            continue;
        };
        let (from, to) = (begin.mark.as_str(), end.mark.as_str());
        let mut arrivals = Arrivals { irqs: &irqs, from, to, inside: false, count: 0 };
        decode(&raw, &mut arrivals);
        assert!(end.count > begin.count, "writing to the disk raised none of its interrupts {irqs:?}");
        assert_eq!(arrivals.count, end.count - begin.count, "traced, and counted by the kernel");
        eprintln!("{} arrivals of interrupts {irqs:?}, traced and counted alike", arrivals.count);
        return;
    }
    eprintln!("SKIPPED: in {disturbed} recordings the disk was never idle at both ends, or events were lost");
}

/// What the task's own clocks say of its jobs, ns: the least and the most each can be, for the marks lie between two readings.
#[derive(Default)]
struct Truth {
    response: [Vec<u64>; 2],
    latency: [Vec<u64>; 2],
    execution: [Vec<u64>; 2],
}

/// 100 jobs of 3 ms every 10 ms, each between its markers.
fn run_task(marker: &Marker) -> Truth {
    let (period, work) = (Nanos::from_millis(10), Nanos::from_millis(3));
    let begin = clock::monotonic() + period;
    let mut truth = Truth::default();
    let mark = |job: JobMarker| {
        let mut buffer = [0; 64];
        let length = job.write(&mut buffer);
        marker.mark(&buffer[..length]).unwrap();
        clock::monotonic()
    };
    for job in 0..100 {
        let release = begin + period * i64::try_from(job).unwrap();
        clock::sleep_until(release, None).unwrap();
        let (started, used_before) = (clock::monotonic(), clock::thread_cpu_time());
        let begun = mark(JobMarker::Begin { job, release });
        let used = clock::spin_cpu_time(work);
        let done = clock::monotonic();
        let ended = mark(JobMarker::End { job });
        let used_at_most = clock::thread_cpu_time() - used_before;
        for (seen, [least, most]) in [
            (&mut truth.latency, [started - release, begun - release]),
            (&mut truth.execution, [used, used_at_most]),
            (&mut truth.response, [done - release, ended - release]),
        ] {
            seen[0].push(least.get_unsigned());
            seen[1].push(most.get_unsigned());
        }
    }
    truth
}

/// Ticks a hypervisor has taken from all CPUs so far.
fn stolen() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    text.lines().next().and_then(|cpu| cpu.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}

/// Mean, median and 90 % quantile.
fn figures(times: &[u64]) -> [u64; 3] {
    let (sum, sample) = (times.iter().sum::<u64>(), Sample::new(times.to_vec()));
    let quantile = |at| sample.quantile(at).unwrap();
    [sum / sample.count(), quantile(0.5), quantile(0.9)]
}

#[test]
fn statistics_of_a_known_task_are_the_truth_within_1_percent_or_50_us() {
    let _alone = alone();
    let (mut errors, mut undisturbed) = (Vec::new(), false);
    for attempt in 0..PATIENCE {
        let Some(recording) = record(&format!("task-{attempt}"), EVENTS) else { return };
        let before = stolen();
        let marker = recording.marker();
        let task = std::thread::Builder::new().name("surety-known".to_owned());
        let truth = task.spawn(move || run_task(&marker)).unwrap().join().unwrap();
        let was_stolen = stolen() > before;
        let raw = recording.finish().unwrap();
        if raw.lost() > 0 {
            errors.push(format!("{} events lost", raw.lost()));
            continue;
        }
        let mut statistics = StatisticsBuilder::new(Wanted::default());
        decode(&raw, &mut statistics);
        let (recorded, anomalies) = statistics.finish();
        let mut threads = recorded.threads.iter();
        let found = threads.find(|t| t.comm.text() == "surety-known" && t.jobs > 0).unwrap();
        assert!(found.exact);
        assert_eq!(found.jobs + found.censored, 100);
        if found.censored > 0 {
            // Some kernels leave switches out; a job over one is told apart, and its time is unknown.
            assert!(anomalies.doubtful >= found.censored, "{anomalies:?}");
            errors.push(format!("{} jobs over switches that were not recorded", found.censored));
            continue;
        }
        let between = found.inter_arrival.unwrap();
        let period = Nanos::from_millis(10);
        assert_eq!((between.min, between.mean, between.max), (period, period, period));

        let mut worst = Vec::new();
        for (what, spread, truth) in [
            ("response", found.response.unwrap(), &truth.response),
            ("latency", found.latency.unwrap(), &truth.latency),
            ("execution", found.execution.unwrap(), &truth.execution),
        ] {
            let [least, most] = truth.each_ref().map(|side| figures(side));
            for (which, said, at) in
                [("mean", spread.mean, 0), ("median", spread.median, 1), ("p90", spread.p90, 2)]
            {
                let (least, most) = (least[at], most[at]);
                let slack = (most / 100).max(50_000);
                if !(least.saturating_sub(slack)..=most + slack).contains(&said.get_unsigned()) {
                    worst.push(format!("{which} of {what}: {said} instead of {least} to {most} ns"));
                }
            }
        }
        if worst.is_empty() {
            return;
        }
        undisturbed |= !was_stolen;
        errors.push(format!("stolen: {was_stolen}; {}", worst.join(", ")));
    }
    assert!(!undisturbed, "{errors:?}");
    eprintln!("SKIPPED: every run was disturbed: {errors:?}");
}
