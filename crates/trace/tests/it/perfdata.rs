//! perf.data files give the events of the records in them: files made of a recording of ours, and those of the `perf` of
//! this machine against its own text of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::perfdata::{Content, Shape, lost, record, records, sample, written};
use surety_model::event::{Event, EventKind};
use surety_trace::{PerfData, ReadSummary, TextTrace, TraceReader};
use surety_units::CpuId;

/// Writes the fixture's recording, after `change`.
fn fixture(shape: Shape, change: impl FnOnce(&mut Vec<(u32, u64, Vec<u8>)>)) -> Vec<u8> {
    let dir = crate::support::fixtures().join("formats");
    let recording = crate::support::fixtures().join("throttled");
    let header_page = std::fs::read_to_string(dir.join("header_page.txt")).unwrap();
    let formats = crate::support::formats(&dir);
    let symbols = std::fs::read_to_string(recording.join("kallsyms.txt")).unwrap();
    let pages = [0, 1].map(|cpu| std::fs::read(recording.join(format!("cpu{cpu}.raw"))).unwrap());
    let mut records = records(&header_page, [&pages[0], &pages[1]]);
    change(&mut records);
    let formats = formats.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    written(&Content { header_page: &header_page, formats, symbols: &symbols, records }, shape)
}

fn events(reader: &mut dyn TraceReader) -> (Vec<String>, ReadSummary) {
    let mut events = Vec::new();
    let summary = reader.read(&mut |event: &Event<'_>| events.push(format!("{event:?}"))).unwrap();
    (events, summary)
}

fn expected() -> (Vec<String>, ReadSummary) {
    let recording = crate::support::fixtures().join("throttled");
    let symbols = std::fs::read_to_string(recording.join("kallsyms.txt")).unwrap();
    events(&mut crate::support::pages(&recording, &crate::support::fixtures().join("formats"), &symbols))
}

#[test]
fn files_pipes_and_compressed_files_give_the_same_events_as_pages() {
    let (expected, of_pages) = expected();
    assert!(expected.len() > 300);
    for shape in [Shape::File, Shape::Pipe, Shape::Packed] {
        let file = fixture(shape, |_| {});
        let mut trace = surety_trace::open(file).unwrap();
        let described = trace.description();
        assert!(described.format.starts_with("perf.data"), "{described:?}");
        assert_eq!(described.clock.as_deref(), Some("mono"));
        assert_eq!(described.cpus, Some(2));
        let (events, summary) = events(trace.as_mut());
        assert_eq!(events, expected, "{shape:?}");
        let counts = |summary: &ReadSummary| {
            summary.events.iter().map(|e| (e.event.clone(), e.count)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(counts(&summary), counts(&of_pages));
        assert_eq!((summary.span, summary.disordered), (of_pages.span, 0));
        // One sample of a hardware counter in each round.
        assert!(summary.unknown > 3 && summary.is_complete(), "{summary:?}");
    }
}

#[test]
fn what_the_recorder_lost_is_told_where_it_was_lost() {
    // A pipe may go on, so records can be put behind it.
    let mut file = fixture(Shape::Pipe, |_| {});
    let end = u64::MAX >> 8;
    file.extend(lost(1, end, 105, 17));
    file.extend(record(13, &[3u64, 5 << 32 | 5, end, 0, 105].map(u64::to_le_bytes).concat()));
    let mut losses = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Lost { count } = event.kind {
            losses.push((event.cpu, count));
        }
    };
    let summary = PerfData::open(file).unwrap().read(&mut sink).unwrap();
    assert_eq!(losses, [(CpuId(1), Some(17)), (CpuId(0), Some(3))]);
    assert_eq!((summary.gaps, summary.lost, summary.is_complete()), (2, 20, false));
}

#[test]
fn damage_costs_what_it_hides() {
    let whole = fixture(Shape::Pipe, |_| {});
    let (all, _) = events(&mut PerfData::open(whole.clone()).unwrap());
    let mut cut = whole.clone();
    cut.truncate(whole.len() - 20);
    let (events_cut, summary) = events(&mut PerfData::open(cut).unwrap());
    assert_eq!((summary.truncated, events_cut.len() <= all.len()), (1, true));
    // A record of length 0 hides what follows; a sample shorter than it should be hides itself.
    let mut broken = whole.clone();
    broken.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    broken.extend(sample(0, 1, 105, &[5, 0, 0, 0, 0, 0, 0, 0]));
    let (events_broken, summary) = events(&mut PerfData::open(broken).unwrap());
    assert_eq!((summary.damaged_pages, events_broken.len()), (1, all.len()));
    assert!(
        summary.faults[0].starts_with(&format!("byte {}: a record of an impossible length", whole.len()))
    );
    let mut short = whole.clone();
    short.extend(record(9, &105u64.to_le_bytes()));
    assert_eq!(events(&mut PerfData::open(short).unwrap()).1.malformed, 1);
}

#[test]
fn a_packed_file_that_was_changed_is_read_as_far_as_it_can_be() {
    let whole = fixture(Shape::Packed, |_| {});
    let (all, _) = events(&mut PerfData::open(whole.clone()).unwrap());
    let mut met = 0;
    for at in (1000..whole.len()).step_by(211) {
        let mut changed = whole.clone();
        changed[at] ^= 0x5a;
        let Ok(mut trace) = PerfData::open(changed) else { continue };
        let (some, summary) = events(&mut trace);
        met += u64::from(summary.damaged_pages > 0 && some.len() < all.len());
    }
    assert!(met > 0);
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let whole = fixture(Shape::File, |_| {});
    let refused = |file: Vec<u8>| PerfData::open(file).map(|_| ()).unwrap_err().to_string();
    assert!(refused(whole[..50].to_vec()).starts_with("byte "), "{}", refused(whole[..50].to_vec()));
    // No further parts: perf was killed.
    let mut killed = whole.clone();
    killed[72] = 0;
    assert!(refused(killed).contains("no formats of tracepoints"));
    // The first attribute's samples without a CPU.
    let at = 104 + 8 * (crate::support::formats(&crate::support::fixtures().join("formats")).len() + 1) + 24;
    let mut blind = whole.clone();
    blind[at] &= !(1 << 7);
    assert_eq!(
        refused(blind),
        "attribute 0: its samples have no CPU; record with `perf record -a -e 'sched:*'`"
    );
    // Attributes that differ and no identifier.
    let mut mixed = whole.clone();
    mixed[at + 2] = 0;
    assert!(refused(mixed).contains("cannot be told apart"));
    let mut huge = whole;
    huge[16..24].copy_from_slice(&1u64.to_le_bytes());
    assert!(refused(huge).contains("attributes of 1 bytes each"));
}

/// What to record: jobs need little more.
const EVENTS: &str = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup,sched:sched_wakeup_new,\
    sched:sched_migrate_task,sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit,\
    irq:softirq_raise,irq:softirq_entry,irq:softirq_exit,irq:irq_handler_entry,irq:irq_handler_exit";

/// Runs perf on some forks and sleeps; `None`, loudly, where that is not possible.
fn perf_record(arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("perf")
        .args(["record", "-q", "-a", "-e", EVENTS])
        .args(arguments)
        .args(["--", "sh", "-c", "for k in 1 2 3; do sleep 0.02; (true); done"])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            eprintln!("SKIPPED: perf cannot record here: {}", why.trim());
            None
        }
        Err(error) => {
            eprintln!("SKIPPED: perf cannot be started ({error}); install the package linux-perf");
            None
        }
    }
}

/// Events by CPU, as perf prints what a file holds: event for event and nanosecond for nanosecond the same.
fn assert_perf_agrees(path: &Path) {
    let output = Command::new("perf").args(["script", "--ns", "-i"]).arg(path).output().unwrap();
    let by_cpu = |reader: &mut dyn TraceReader| {
        let mut events: Vec<(u32, String)> = Vec::new();
        let summary = reader
            .read(&mut |event: &Event<'_>| {
                // perf may know an exiting thread by another id than its records do.
                events.push((event.cpu.0, format!("{} {:?}", event.time.get(), event.kind)));
            })
            .unwrap();
        events.sort_by_key(|event| event.0);
        (events, summary)
    };
    let (ours, summary) = by_cpu(&mut PerfData::open(std::fs::read(path).unwrap()).unwrap());
    let (theirs, of_text) = by_cpu(&mut TextTrace::open(output.stdout).unwrap());
    assert!(ours.len() > 50, "{summary:?}");
    assert_eq!(of_text.malformed, 0, "{:?}", of_text.faults);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    let counts = |summary: &ReadSummary| {
        summary.events.iter().map(|e| (e.event.clone(), e.count)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(counts(&summary), counts(&of_text));
    assert_eq!(
        (summary.malformed, summary.damaged_pages, summary.truncated, summary.disordered),
        (0, 0, 0, 0)
    );
}

#[test]
fn perf_prints_what_we_read_in_its_files() {
    // perf renames what it finds under its file's name.
    let directory = std::env::temp_dir().join(format!("surety-trace-perf-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("perf.data");
    let name = path.to_str().unwrap();
    for arguments in [["-o", name].as_slice(), &["-z", "-o", name], &["-k", "mono", "-o", name]] {
        if perf_record(arguments).is_none() {
            break;
        }
        assert_perf_agrees(&path);
    }
    if let Some(pipe) = perf_record(&["-o", "-"]) {
        std::fs::write(&path, pipe).unwrap();
        assert_perf_agrees(&path);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
