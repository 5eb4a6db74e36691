//! trace.dat files: what is written is read back, by us and by trace-cmd; what others recorded is read as trace-cmd
//! reads it; damaged files cost what they hide and no more.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::tracedat::{Reported, fixture, foreign, narrow_and_big, reported};
use surety_model::event::{Event, EventKind, TraceSink};
use surety_trace::merge::{Item, Merge};
use surety_trace::{
    Endian, JobBuilder, Jobs, ReadAt, ReadSummary, TraceDat, TraceDatContent, TraceDatError, TraceReader,
};
use surety_units::{CpuId, Nanos};

/// Every event in words, the jobs, and the summary.
fn everything(reader: &mut dyn TraceReader) -> (Vec<String>, Jobs, ReadSummary) {
    let (mut events, mut jobs) = (Vec::new(), JobBuilder::new());
    let mut sink = |event: &Event<'_>| {
        events.push(format!("{event:?}"));
        jobs.event(event);
    };
    let summary = reader.read(&mut sink).unwrap();
    (events, jobs.finish(), summary)
}

#[test]
fn a_written_file_gives_the_same_events_and_jobs() {
    let file = fixture();
    let mut read = TraceDat::open(&file).unwrap();
    assert_eq!((read.clock(), read.cpus(), read.unusable()), (Some("mono"), 2, [].as_slice()));
    let (events, jobs, summary) = everything(&mut read);
    let formats = crate::support::fixtures().join("formats");
    let recording = crate::support::fixtures().join("throttled");
    let symbols = std::fs::read_to_string(recording.join("kallsyms.txt")).unwrap();
    let (expected, expected_jobs, expected_summary) =
        everything(&mut crate::support::pages(&recording, &formats, &symbols));
    assert!(expected.len() > 300);
    assert_eq!(events, expected);
    assert_eq!(jobs, expected_jobs);
    assert_eq!(summary.counted_lost, Some(0), "statistics were written");
    assert!(summary.is_complete());
    let by_name = |summary: &ReadSummary| -> BTreeMap<String, u64> {
        summary.events.iter().map(|e| (e.event.clone(), e.count)).collect()
    };
    assert_eq!(by_name(&summary), by_name(&expected_summary));
}

/// Every record of a file, decoded or not, as trace-cmd lists it.
fn records<S: ReadAt>(file: &TraceDat<S>) -> Vec<(u32, i64, i32, String)> {
    let table = file.table();
    let mut records = Vec::new();
    let mut merge = Merge::new(file.layout(), table.endian(), file.pages());
    merge
        .for_each(|cpu, time, item| {
            let Item::Record(record) = item else { return };
            let name = table.identify(record).map_or("?", |index| table.names()[index.index()].as_str());
            // Where every kernel has it.
            let current = table.endian().u32(record, 4).unwrap().cast_signed();
            let name = name.split(':').next_back().unwrap().to_owned();
            records.push((cpu.0, time.cast_signed(), current, name));
        })
        .unwrap();
    records
}

/// Compares CPU by CPU: between CPUs, equal times may be listed in either order.
fn assert_same_records(ours: &[(u32, i64, i32, String)], theirs: &[Reported]) {
    let mut ours = ours.to_vec();
    let mut theirs: Vec<_> = theirs.iter().map(|r| (r.cpu, r.time, r.current, r.event.clone())).collect();
    assert_eq!(ours.len(), theirs.len());
    ours.sort_by_key(|r| r.0);
    theirs.sort_by_key(|r| r.0);
    for (k, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "record {k}");
    }
}

/// Compares what switches, wake-ups and markers say, CPU by CPU.
fn assert_same_fields(file: &mut dyn TraceReader, theirs: &[Reported]) -> usize {
    let mut ours: Vec<(u32, i64, i32, String)> = Vec::new();
    let mut sink = |event: &Event<'_>| {
        let text = match &event.kind {
            EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
                let blocked = prev_state.is_blocked();
                format!("switch {prev_comm} {prev} {prev_prio} {blocked} {next_comm} {next} {next_prio}")
            }
            EventKind::Waking(w) => format!("waking {} {} {} {}", w.comm, w.tid, w.prio, w.target.0),
            EventKind::Migrate { tid, comm, from, to } => {
                format!("migrate {comm} {tid} {} {}", from.0, to.0)
            }
            EventKind::Marker { text } => format!("print {text}"),
            _ => return,
        };
        ours.push((event.cpu.0, event.time.get(), event.current.0, text));
    };
    file.read(&mut sink).unwrap();
    let mut theirs: Vec<(u32, i64, i32, String)> = theirs
        .iter()
        .filter_map(|r| {
            let v = |key| r.value(key);
            let text = match r.event.as_str() {
                "sched_switch" => format!(
                    "switch {} {} {} {} {} {} {}",
                    r.value_until("prev_comm", "prev_pid"),
                    v("prev_pid"),
                    v("prev_prio"),
                    // Runnable, and preempted on kernels of either kind.
                    !["0", "256", "4096"].contains(&v("prev_state")) && v("prev_state") != "0x100",
                    r.value_until("next_comm", "next_pid"),
                    v("next_pid"),
                    v("next_prio")
                ),
                "sched_waking" => format!(
                    "waking {} {} {} {}",
                    r.value_until("comm", "pid"),
                    v(" pid"),
                    v("prio"),
                    v("target_cpu").parse::<u32>().unwrap()
                ),
                "sched_migrate_task" => format!(
                    "migrate {} {} {} {}",
                    r.value_until("comm", "pid"),
                    v(" pid"),
                    v("orig_cpu"),
                    v("dest_cpu")
                ),
                "print" => format!("print {}", r.fields.split_once("buf=").unwrap().1),
                _ => return None,
            };
            Some((r.cpu, r.time, r.current, text))
        })
        .collect();
    ours.sort_by_key(|r| r.0);
    theirs.sort_by_key(|r| r.0);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    ours.len()
}

#[test]
fn trace_cmd_reads_the_same_in_a_written_file() {
    let path = std::env::temp_dir().join(format!("surety-tracedat-{}.dat", std::process::id()));
    let bytes = fixture();
    std::fs::write(&path, &bytes).unwrap();
    let theirs = reported(&path);
    let _ = std::fs::remove_file(&path);
    let Some(theirs) = theirs else { return };
    let mut file = TraceDat::open(&bytes).unwrap();
    assert!(theirs.len() > 300);
    assert_same_records(&records(&file), &theirs);
    assert!(assert_same_fields(&mut file, &theirs) > 40);
    let named = theirs.iter().any(|r| r.event == "hrtimer_start" && r.fields.contains("dl_task_timer"));
    assert!(named, "the symbol table came along");
}

fn open(path: &Path) -> TraceDat<Vec<u8>> {
    TraceDat::open(std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_file_of_another_machine_is_read_whole() {
    let Some(path) = foreign() else { return };
    let mut file = open(&path);
    assert_eq!((file.cpus(), file.unusable()), (6, [].as_slice()));
    let (events, jobs, summary) = everything(&mut file);
    let counts: BTreeMap<&str, u64> = summary.events.iter().map(|e| (e.event.as_str(), e.count)).collect();
    let expected = [
        ("ftrace:print", 6),
        ("power:cpu_frequency", 16),
        ("power:cpu_idle", 474),
        ("sched:sched_migrate_task", 28),
        ("sched:sched_switch", 399),
    ];
    for (event, count) in expected {
        assert_eq!(counts.get(event), Some(&count), "{counts:?}");
    }
    assert_eq!(counts.values().sum::<u64>(), 3724, "those without a decoder are counted by name");
    assert_eq!(events.len(), 399 + 28 + 6 + 16);
    assert_eq!((summary.unknown, summary.malformed, summary.gaps), (0, 0, 0));
    assert!(summary.is_complete() && jobs.threads.len() > 5);
}

#[test]
fn a_file_of_another_machine_is_read_as_trace_cmd_does() {
    let Some(path) = foreign() else { return };
    let Some(theirs) = reported(&path) else { return };
    assert_eq!(theirs.len(), 3724);
    let mut file = open(&path);
    assert_same_records(&records(&file), &theirs);
    assert!(assert_same_fields(&mut file, &theirs) > 400);
}

#[test]
fn the_other_byte_order_and_long_are_read() {
    let file = narrow_and_big();
    let mut read = TraceDat::open(&file).unwrap();
    assert_eq!((read.cpus(), read.table().endian(), read.layout().long_size()), (3, Endian::Big, 4));
    let mut seen = Vec::new();
    let mut sink = |event: &Event<'_>| {
        let EventKind::Marker { text } = event.kind else { panic!("{event:?}") };
        seen.push((event.time, event.cpu, event.current.0, text.to_owned()));
    };
    let summary = read.read(&mut sink).unwrap();
    let at = |ns: i64| Nanos::new(1_000_000 + ns);
    assert_eq!(seen, [(at(7), CpuId(2), 77, "one".to_owned()), (at(16), CpuId(2), 77, "two".to_owned())]);
    assert_eq!((summary.counted_lost, summary.lost_at_least(), summary.gaps), (Some(5), 5, 0));
    assert!(!summary.is_complete(), "losses that left no mark count too");
}

fn refusal(file: &[u8]) -> String {
    TraceDat::open(file).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_not_read_is_refused_in_words() {
    let mut other = fixture();
    assert!(matches!(TraceDat::open(b"GIF89a".as_slice()), Err(TraceDatError::Foreign)));
    assert!(matches!(TraceDat::open([].as_slice()), Err(TraceDatError::Foreign)));
    other[10] = b'5';
    assert!(refusal(&other).starts_with("byte 10: version 5 of trace.dat is not read by this version"));
    for (from, to, words) in [
        ("flyrecord\0", "latency  \0", "a latency tracer's text"),
        ("flyrecord\0", "flyrecorx\0", "neither options nor pages begin here"),
        ("header_page", "header_cage", "byte 18: `header_page` should begin here"),
    ] {
        let error = refusal(&replaced(&fixture(), from.as_bytes(), to.as_bytes()));
        assert!(error.contains(words), "{error}");
    }
}

fn replaced(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = file.windows(from.len()).position(|w| w == from).unwrap();
    let mut file = file.to_vec();
    file[at..at + to.len()].copy_from_slice(to);
    file
}

#[test]
fn times_that_are_no_nanoseconds_are_refused() {
    let formats_dir = crate::support::fixtures().join("formats");
    let header = std::fs::read_to_string(formats_dir.join("header_page.txt")).unwrap();
    for (clock, refused) in [("x86-tsc", true), ("counter", true), ("boot", false)] {
        let content = TraceDatContent::<Vec<u8>> {
            endian: Endian::Little,
            header_page: &header,
            header_event: "",
            formats: Vec::new(),
            symbols: "",
            printk_formats: "",
            names: "",
            clock,
            statistics: Vec::new(),
            pages: Vec::new(),
        };
        let mut file = Vec::new();
        content.write(&mut file).unwrap();
        match TraceDat::open(&file) {
            Ok(read) => assert_eq!((read.clock(), refused), (Some(clock), false)),
            Err(error) => assert!(refused && error.to_string().contains(clock), "{error}"),
        }
    }
}

#[test]
fn a_file_cut_anywhere_keeps_what_comes_before() {
    let whole = fixture();
    let pages_at = whole.len() - 4 * 4096;
    let (mut before, mut opened) = (0, false);
    for cut in (0..whole.len()).step_by(97) {
        match TraceDat::open(&whole[..cut]) {
            Ok(mut file) => {
                let summary = file.read(&mut |_: &Event<'_>| {}).unwrap();
                assert!(summary.delivered >= before && summary.malformed == 0, "cut at {cut}");
                assert!(summary.truncated > 0 && !summary.is_complete(), "cut at {cut}");
                before = summary.delivered;
                opened = true;
            }
            Err(TraceDatError::Foreign) => assert!(cut < 11),
            Err(TraceDatError::Damaged { offset, .. }) => {
                assert!(!opened && cut < pages_at && offset <= cut as u64, "cut at {cut}: {offset}");
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert!(before > 200, "most of the events come before the last cut: {before}");
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let whole = fixture();
    let lies = |at: usize, size: usize| {
        let mut file = whole.clone();
        file[at..at + size].fill(0xff);
        file
    };
    // Behind `header_page\0` stands a length of eight bytes.
    let words = refusal(&lies(18 + 12, 8));
    let expected = format!("byte 38: the description of pages would take {} bytes", u64::MAX);
    assert!(words.starts_with(&expected), "{words}");
    // Any eight bytes before the pages may lie: an answer comes, and no panic.
    for at in (10..whole.len() - 4 * 4096 - 8).step_by(7) {
        if let Ok(mut file) = TraceDat::open(&lies(at, 8)) {
            file.read(&mut |_: &Event<'_>| {}).unwrap();
        }
    }
}

#[test]
fn pages_that_several_cpus_claim_are_refused() {
    let mut file = fixture();
    let table = file.windows(10).position(|w| w == b"flyrecord\0").unwrap() + 10;
    // The second CPU's pages begin where the first one's do and reach to the end, as those do now.
    let length = file.len() as u64;
    for cpu in 0..2 {
        file[table + 16 * cpu..][..8].copy_from_slice(&100u64.to_le_bytes());
        file[table + 16 * cpu + 8..][..8].copy_from_slice(&length.to_le_bytes());
    }
    assert!(
        refusal(&file)
            .ends_with("2 CPUs have more pages than the file has room for; the file is cut or damaged there")
    );
}

#[test]
fn a_format_that_cannot_be_used_costs_its_own_event() {
    let file = replaced(&fixture(), b"name: sched_waking\nID:", b"name: sched_waking\nIX:");
    let mut read = TraceDat::open(&file).unwrap();
    let [unusable] = read.unusable() else { panic!("{:?}", read.unusable()) };
    assert!(unusable.to_string().contains("sched:sched_waking"), "{unusable}");
    let (_, jobs, summary) = everything(&mut read);
    assert!(summary.unknown > 10 && !jobs.threads.is_empty());
}
