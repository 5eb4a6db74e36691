//! Perfetto traces written and read back: every event and so every job is the same, and no damage does worse than hide
//! events.

use std::cell::Cell;
use std::io;

use proptest::prelude::*;
use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink};
use surety_trace::write::perfetto::Perfetto;
use surety_trace::{JobBuilder, PerfettoTrace, ReadAt, ReadSummary, TraceDat, TraceReader, open};
use surety_units::{CpuId, Nanos, Tid};

fn write(events: &[Event<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    events.iter().for_each(|event| sink.event(event));
    let losses = events.iter().filter(|e| matches!(e.kind, EventKind::Lost { .. })).count();
    assert_eq!(sink.finish("mono").unwrap(), (events.len() - losses) as u64);
    out
}

/// What is read, each event as text, and its jobs.
fn read(file: &[u8]) -> (Vec<String>, surety_trace::Jobs, ReadSummary) {
    let (mut seen, mut jobs) = (Vec::new(), JobBuilder::new());
    let mut sink = |event: &Event<'_>| {
        seen.push(format!("{event:?}"));
        jobs.event(event);
    };
    let summary = PerfettoTrace::open(file.to_vec()).unwrap().read(&mut sink).unwrap();
    (seen, jobs.finish(), summary)
}

fn jobs(events: &[Event<'_>]) -> surety_trace::Jobs {
    let mut builder = JobBuilder::new();
    events.iter().for_each(|event| builder.event(event));
    builder.finish()
}

/// A packet around a bundle's message, or around anything else in the field.
fn packet(field: u8, message: &[u8]) -> Vec<u8> {
    let mut out = vec![0x0a];
    let mut inner =
        if field < 16 { vec![field << 3 | 2] } else { vec![(field & 15) << 3 | 0x82, field >> 4] };
    varint(&mut inner, message.len());
    inner.extend(message);
    varint(&mut out, inner.len());
    out.extend(inner);
    out
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Every packet of a file packed in one.
fn packed(file: &[u8]) -> Vec<u8> {
    packet(50, &miniz_oxide::deflate::compress_to_vec_zlib(file, 6))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read_back(events in crate::support::events::stream(300)) {
        let file = write(&events);
        if events.is_empty() {
            prop_assert!(PerfettoTrace::open(file).is_err());
            return Ok(());
        }
        let expected: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
        for file in [packed(&file), file] {
            let (seen, built, summary) = read(&file);
            prop_assert_eq!(&seen, &expected);
            prop_assert_eq!(built, jobs(&events));
            prop_assert_eq!((summary.unknown, summary.malformed, summary.disordered), (0, 0, 0));
            prop_assert_eq!((summary.damaged_pages, summary.truncated, summary.faults.len()), (0, 0, 0));
        }
    }

    #[test]
    fn a_cut_file_keeps_what_is_before_the_cut(events in crate::support::events::stream(60), at in any::<prop::sample::Index>()) {
        prop_assume!(!events.is_empty());
        // One packet for each event, so most cuts leave some.
        let file: Vec<u8> = events.iter().flat_map(|event| write(std::slice::from_ref(event))).collect();
        let cut = &file[..at.index(file.len())];
        let Ok(mut trace) = PerfettoTrace::open(cut.to_vec()) else { return Ok(()) };
        let mut seen = Vec::new();
        let summary = trace.read(&mut |event: &Event<'_>| seen.push(format!("{event:?}"))).unwrap();
        let whole = read(&file).0;
        // A loss whose next event is cut off comes at the last time that is known.
        prop_assert!(seen.iter().all(|event| event.contains("Lost") || whole.contains(event)));
        prop_assert_eq!(summary.truncated as usize, summary.faults.len());
    }

    #[test]
    fn no_damage_panics_or_invents_much(
        events in crate::support::events::stream(80),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        pack in any::<bool>(),
    ) {
        prop_assume!(!events.is_empty());
        let mut file = write(&events);
        if pack {
            file = packed(&file);
        }
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        let Ok(mut trace) = PerfettoTrace::open(file.clone()) else { return Ok(()) };
        let (mut builder, mut last, mut count) = (JobBuilder::new(), Nanos::ZERO, 0);
        let summary = trace.read(&mut |event: &Event<'_>| {
            assert!(last <= event.time);
            last = event.time;
            count += 1;
            builder.event(event);
        }).unwrap();
        prop_assert_eq!(summary.delivered + summary.gaps, count);
        prop_assert!(summary.delivered <= 4 * events.len() as u64);
        drop(builder.finish());
    }
}

#[test]
fn a_recorded_trace_has_the_same_jobs_and_intervals() {
    let file = crate::support::tracedat::fixture();
    let (mut out, mut expected, mut built) = (Vec::new(), Vec::new(), JobBuilder::new());
    let mut sink = Perfetto::new(&mut out);
    let mut both = |event: &Event<'_>| {
        sink.event(event);
        expected.push(format!("{event:?}"));
        built.event(event);
    };
    TraceDat::open(&file).unwrap().read(&mut both).unwrap();
    assert_eq!(sink.finish("mono").unwrap(), expected.len() as u64);
    let (seen, jobs, summary) = read(&out);
    assert!(expected.len() > 300);
    assert_eq!(seen, expected);
    let built = built.finish();
    assert!(built.threads.iter().map(|thread| thread.jobs.len()).sum::<usize>() > 5);
    assert_eq!(jobs, built);
    assert!(summary.is_complete());
    // It is told by its beginning.
    let found = open(out).unwrap().description();
    assert_eq!(
        (found.format.as_str(), found.cpus, found.clock.as_deref()),
        ("Perfetto trace", Some(2), Some("boot"))
    );
}

/// A switch of CPU 1 at `time`.
fn switch(time: i64, prev_state: LeaveState) -> Event<'static> {
    let kind = EventKind::Switch {
        prev: Tid(7),
        prev_comm: Comm::new("a"),
        prev_prio: -1,
        prev_state,
        next: Tid(0),
        next_comm: Comm::new("swapper/1"),
        next_prio: 120,
    };
    Event { time: Nanos::new(time), cpu: CpuId(1), current: Tid(7), kind }
}

#[test]
fn losses_keep_their_place_and_their_sum() {
    let lost = |count| Event { kind: EventKind::Lost { count }, ..switch(20, LeaveState::Sleeping) };
    let file = write(&[
        switch(10, LeaveState::Dead),
        lost(Some(3)),
        switch(20, LeaveState::Sleeping),
        lost(None),
        lost(Some(4)),
    ]);
    let (seen, _, summary) = read(&file);
    assert_eq!((summary.gaps, summary.lost, summary.counted_lost), (2, 0, Some(7)));
    assert!(seen[1].contains("Lost") && seen[3].contains("Lost"), "{seen:?}");
    assert_eq!(summary.lost_at_least(), 7);
    assert!(!summary.is_complete());
}

/// A source that tells the most that was asked for at once.
struct Measured {
    bytes: Vec<u8>,
    most: Cell<usize>,
}

impl ReadAt for Measured {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.most.set(self.most.get().max(buf.len()));
        self.bytes.read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[test]
fn a_million_events_are_read_in_small_pieces() {
    let mut bytes = Vec::new();
    let mut sink = Perfetto::new(&mut bytes);
    for time in 0..1_000_000 {
        let cpu = CpuId((time % 8) as u32);
        let kind = EventKind::SoftirqRaise { vector: 1 };
        sink.event(&Event { time: Nanos::new(time), cpu, current: Tid(1), kind });
    }
    sink.finish("mono").unwrap();
    assert!(bytes.len() > 10_000_000);
    let source = Measured { bytes, most: Cell::new(0) };
    let (mut count, mut sum) = (0i64, 0i64);
    let mut count_events = |event: &Event<'_>| {
        count += 1;
        sum += event.time.get();
    };
    let summary = PerfettoTrace::open(&source).unwrap().read_into(&mut count_events).unwrap();
    assert_eq!((count, sum), (1_000_000, 499_999_500_000));
    assert_eq!(summary.delivered, 1_000_000);
    assert!(source.most.get() <= 1 << 18, "{} bytes at once", source.most.get());
}

#[test]
fn lengths_that_lie_are_counted_with_their_place() {
    let good = write(&[switch(10, LeaveState::Sleeping)]);
    // (what follows the good packet, damaged, truncated, words)
    for (tail, damaged, truncated, words) in [
        ([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f].as_slice(), 0, 1, "are left"),
        (&[0x0b], 0, 1, "no packet begins here"),
        (&[0x0a, 5, 0x0a, 9, 0x08, 1, 0], 1, 0, "a packet is damaged"),
        // A bundle of CPU 1 whose event is longer than the bundle.
        (&[0x0a, 6, 0x0a, 4, 0x08, 1, 0x12, 99], 1, 0, "an event of the bundle is cut or damaged"),
        (&packet(50, b"no zlib"), 1, 0, "cannot be unpacked"),
        // What one packed packet holds is not unpacked again.
        (&packed(&packed(&write(&[switch(10, LeaveState::Dead)]))), 0, 0, ""),
        (&packet(1, &[0x08, 0xff, 0xff, 0x7f, 0x18, 1]), 1, 0, "no machine has a CPU"),
    ] {
        let file = [good.as_slice(), tail].concat();
        let (_, _, summary) = read(&file);
        assert_eq!(summary.delivered, 1, "{words}");
        assert_eq!((summary.damaged_pages, summary.truncated), (damaged, truncated), "{words}: {summary:?}");
        let told = summary.faults.first().map(String::as_str).unwrap_or_default();
        assert!(told.contains(words), "{words}: {told}");
    }
    // A megabyte that would become a gigabyte.
    let bomb = packet(50, &miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; 64 << 20], 1));
    let (_, _, summary) = read(&[good.as_slice(), &bomb].concat());
    assert_eq!((summary.delivered, summary.damaged_pages), (1, 1));
}

#[test]
fn bundles_of_another_clock_are_moved_by_the_pair_they_carry() {
    let event = |time: u8| [0x12, 7, 0x08, time, 0x10, 1, 0xd2, 0x01, 0].to_vec();
    let bundle = |cpu: u8, time: u8, rest: &[u8]| packet(1, &[&[0x08, cpu], rest, &event(time)].concat());
    let pair = [0x28, 4, 0x30, 10, 0x38, 100];
    let times = |file: &[u8]| {
        let mut times = Vec::new();
        let mut trace = PerfettoTrace::open(file.to_vec()).unwrap();
        trace.read(&mut |event: &Event<'_>| times.push(event.time.get())).unwrap();
        (times, trace.description().clock.unwrap())
    };
    let own = bundle(0, 5, &pair);
    assert_eq!(times(&own), (vec![5], "mono_raw".to_owned()));
    let mixed = [own, bundle(1, 90, &[]), bundle(0, 6, &[0x28, 4])].concat();
    assert_eq!(times(&mixed), (vec![90, 95, 96], "boot".to_owned()));
}
