//! The recorder on the kernel that runs the tests: nothing is lost or told twice, whichever way pages go; a window is a
//! window.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_host::recorder::{RawTrace, Recording, RecordingError, RecordingOptions};
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, RealKernel, clock};
use surety_model::event::{Event, EventKind};
use surety_trace::format::parse_header_page;
use surety_trace::{EVENTS, Endian, EventTable, RawPages, ReadAt, ReadSummary, Symbols};
use surety_units::{Bytes, Nanos};

/// Starts a recording, or says loudly why not.
fn start(label: &str, options: &RecordingOptions) -> Option<Recording> {
    let name = format!("surety-test-{}-{label}", std::process::id());
    let cpus = RealKernel::new().online_cpus().unwrap();
    let started = Tracefs::open()
        .map_err(RecordingError::from)
        .and_then(|tracefs| Recording::start(&tracefs, &name, options, cpus));
    started.inspect_err(|error| eprintln!("SKIPPED: nothing can be recorded here: {error}")).ok()
}

/// The numbers in marks `test:N`, and what the reading met.
fn marks(raw: &RawTrace) -> (Vec<u32>, ReadSummary) {
    let formats = raw.formats.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let table = EventTable::new(Endian::NATIVE, formats, Symbols::default()).unwrap();
    let layout = parse_header_page(&raw.header_page).unwrap();
    let pages = raw.pages.iter().map(|(cpu, file)| (*cpu, file));
    let mut marks = Vec::new();
    let summary = RawPages::new(table, layout, pages).read_into(&mut |event: &Event<'_>| {
        if let EventKind::Marker { text } = event.kind {
            marks.extend(text.strip_prefix("test:").and_then(|n| n.parse::<u32>().ok()));
        }
    });
    (marks, summary.unwrap())
}

/// Records in the pages, whatever they are.
fn records(summary: &ReadSummary) -> u64 {
    summary.events.iter().map(|e| e.count).sum::<u64>() + summary.unknown
}

#[test]
fn spliced_and_read_pages_hold_what_the_kernel_says_was_read() {
    let mut options = RecordingOptions::of(EVENTS);
    let Some(spliced) = start("splice", &options) else { return };
    options.splice = false;
    let Some(read) = start("read", &options) else { return };
    let expected: Vec<u32> = (0..4_000).collect();
    for number in &expected {
        for recording in [&spliced, &read] {
            recording.marker().mark(format!("test:{number}").as_bytes()).unwrap();
        }
        if number % 500 == 0 {
            // Over some rounds of the collector.
            clock::sleep_until(clock::monotonic() + Nanos::from_millis(100), None).unwrap();
        }
    }
    for (recording, by_splice) in [(spliced, true), (read, false)] {
        let raw = recording.finish().unwrap();
        assert_eq!(raw.spliced, by_splice);
        let (found, summary) = marks(&raw);
        if raw.lost() == 0 {
            assert_eq!(found, expected, "spliced: {by_splice}");
            assert_eq!((summary.gaps, summary.damaged_pages, summary.truncated), (0, 0, 0));
        } else {
            eprintln!("SKIPPED: {} events were lost", raw.lost());
        }
        let counted: u64 = raw.stats.iter().map(|(_, stats)| stats.read).sum();
        assert_eq!(records(&summary), counted, "spliced: {by_splice}");
        let bytes: u64 = raw.pages.iter().map(|(_, pages)| pages.len()).sum();
        assert_eq!(bytes, raw.carried);
    }
}

/// The time a page begins, by its number.
fn begin_of(raw: &RawTrace, cpu: usize, page: u64) -> Option<u64> {
    let mut begin = [0; 8];
    let offset = page * raw.page_size as u64;
    (raw.pages[cpu].1.read_at(offset, &mut begin).unwrap() == 8).then(|| u64::from_ne_bytes(begin))
}

#[test]
fn a_flight_recorder_keeps_the_window_and_one_page_more() {
    let keep = Nanos::from_millis(400);
    let options = RecordingOptions { keep: Some(keep), ..RecordingOptions::of(EVENTS) };
    let Some(recording) = start("keep", &options) else { return };
    let mut written = Vec::new();
    for number in 0..150u32 {
        recording.marker().mark(format!("test:{number}").as_bytes()).unwrap();
        written.push((clock::monotonic(), number));
        clock::sleep_until(clock::monotonic() + Nanos::from_millis(10), None).unwrap();
    }
    let raw = recording.finish().unwrap();
    let since = (raw.end - keep).get_unsigned();
    for cpu in 0..raw.pages.len() {
        if let Some(second) = begin_of(&raw, cpu, 1) {
            assert!(second > since, "more than one page of CPU {cpu} begins before the window");
        }
    }
    assert!(!raw.shortened);
    let (found, _) = marks(&raw);
    if raw.lost() == 0 {
        let inside = written.iter().filter(|(at, _)| at.get_unsigned() >= since).map(|(_, n)| *n);
        for number in inside {
            assert!(found.contains(&number), "mark {number} is inside the window");
        }
    }
    assert!(raw.carried > raw.pages.iter().map(|(_, pages)| pages.len()).sum(), "something was dropped");
}

#[test]
fn a_window_too_large_for_the_disk_is_shortened_and_that_is_said() {
    let options = RecordingOptions {
        keep: Some(Nanos::from_secs(3_600)),
        size: Some(Bytes(64 << 10)),
        ..RecordingOptions::of(EVENTS)
    };
    let Some(recording) = start("short", &options) else { return };
    for _ in 0..6 {
        (0..1_000).for_each(|n| recording.marker().mark(format!("test:{n}").as_bytes()).unwrap());
        clock::sleep_until(clock::monotonic() + Nanos::from_millis(300), None).unwrap();
    }
    let raw = recording.finish().unwrap();
    assert!(raw.shortened);
    let kept: u64 = raw.pages.iter().map(|(_, pages)| pages.len()).sum();
    assert!(kept < raw.carried, "{kept} of {}", raw.carried);
}

#[test]
fn nothing_of_a_recording_stays() {
    let Some(recording) = start("gone", &RecordingOptions::of(EVENTS)) else { return };
    let tracefs = Tracefs::open().unwrap();
    let name = format!("surety-test-{}-gone", std::process::id());
    assert!(tracefs.instances().unwrap().contains(&name));
    drop(recording);
    assert!(!tracefs.instances().unwrap().contains(&name));
}
