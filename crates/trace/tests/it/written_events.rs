//! Events written as trace.dat files, in every version and packing, are the events read back; trace-cmd lists them too.

use std::io::Cursor;

use crate::support::tracedat::reported;
use proptest::prelude::*;
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, LeaveState, RawEvent, Rwbs, TimerFunction,
    TraceSink, Woken,
};
use surety_trace::write::tracedat_events::{TEXT_MAX, Written};
use surety_trace::{
    Compression, ReadSummary, TextTrace, TraceDat, TraceDatEvents, TraceDatForm, TraceReader,
};
use surety_units::{CpuId, Nanos, Tid};

const FORMS: [TraceDatForm; 4] = [
    TraceDatForm::V6,
    TraceDatForm::V7(Compression::None),
    TraceDatForm::V7(Compression::Zlib),
    TraceDatForm::V7(Compression::Zstd),
];

fn written(events: &[Event<'_>], form: TraceDatForm) -> (Vec<u8>, Written) {
    let mut writer = TraceDatEvents::new(Vec::new());
    events.iter().for_each(|event| writer.event(event));
    let mut file = Cursor::new(Vec::new());
    let written = writer.finish(form, "mono", &mut file).unwrap();
    assert_eq!(written.bytes, file.get_ref().len() as u64);
    (file.into_inner(), written)
}

fn read(file: &[u8]) -> (Vec<String>, ReadSummary) {
    let mut events = Vec::new();
    let mut file = TraceDat::open(file).unwrap();
    assert_eq!((file.unusable(), file.clock()), ([].as_slice(), Some("mono")));
    let summary = file.read(&mut |event: &Event<'_>| events.push(format!("{event:?}"))).unwrap();
    (events, summary)
}

/// The kernel's text of an event that nobody decodes, with the number of one that the writer describes itself.
const FOREIGN: &str = "name: sched_stat_runtime\nID: 33\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u64 runtime;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"runtime=%Lu\", REC->runtime\n";

#[test]
fn events_without_a_decoder_are_carried_over_as_they_are() {
    let record = |runtime: u64| {
        let mut bytes = vec![33, 0, 1, 2];
        bytes.extend(7i32.to_le_bytes());
        bytes.extend(runtime.to_le_bytes());
        bytes
    };
    let records = [record(12_345), record(u64::MAX), vec![33, 0, 0, 0, 7, 0, 0, 0, 9], vec![33; 4096]];
    let raw = |name, record, is_little_endian| {
        EventKind::Raw(RawEvent { name, format: FOREIGN, record, is_little_endian })
    };
    let kinds = [
        EventKind::Wakeup(Woken { tid: Tid(7), comm: Comm::new("t"), prio: 120, target: CpuId(0) }),
        raw("sched:sched_stat_runtime", &records[0], true),
        raw("sched:sched_stat_runtime", &records[1], true),
        raw("net:other", &records[2], true),
        // The wrong way round, and longer than a page.
        raw("sched:sched_stat_runtime", &records[0], false),
        raw("sched:sched_stat_runtime", &records[3], true),
    ];
    let events: Vec<Event<'_>> = (1..)
        .zip(kinds)
        .map(|(time, kind)| Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(7), kind })
        .collect();
    for form in FORMS {
        let (bytes, written) = written(&events, form);
        assert_eq!((written.events, written.left_out), (4, 2));
        let mut file = TraceDat::open(&bytes[..]).unwrap();
        file.keep_undecoded();
        let mut found = Vec::new();
        let mut sink = |event: &Event<'_>| {
            if let EventKind::Raw(raw) = event.kind {
                assert_eq!((event.current, raw.is_little_endian), (Tid(7), true));
                found.push((raw.name.to_owned(), raw.record[2..].to_vec()));
            }
        };
        let summary = file.read(&mut sink).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        // A record's name is the one in its format.
        assert_eq!(names, ["sched:sched_stat_runtime", "sched:sched_stat_runtime", "net:sched_stat_runtime"]);
        assert_eq!((&found[0].1[..], &found[1].1[..]), (&records[0][2..], &records[1][2..]));
        assert_eq!(&found[2].1[..7], &records[2][2..], "in whole words");
        assert_eq!((summary.delivered, summary.malformed), (4, 0));
        // Who does not ask for them gets none, and reads how many there were.
        let (decoded, summary) = read(&bytes);
        assert_eq!(decoded.len(), 1);
        assert_eq!(summary.events.iter().map(|e| e.count).sum::<u64>(), 4);
    }
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![Just(Tid(0)), (1i32..5000).prop_map(Tid), any::<i32>().prop_map(Tid)]
}

fn comm() -> impl Strategy<Value = Comm> {
    prop_oneof!["[a-z/0-9: ]{0,15}", "\\PC{0,6}"].prop_map(|name| Comm::new(&name))
}

fn function() -> impl Strategy<Value = TimerFunction> {
    prop_oneof![
        Just(TimerFunction::DeadlineReplenish),
        Just(TimerFunction::Wakeup),
        Just(TimerFunction::Tick),
        Just(TimerFunction::Other)
    ]
}

fn state() -> impl Strategy<Value = LeaveState> {
    prop_oneof![
        any::<bool>().prop_map(|preempted| LeaveState::Runnable { preempted }),
        Just(LeaveState::Sleeping),
        Just(LeaveState::Uninterruptible),
        Just(LeaveState::Stopped),
        Just(LeaveState::Dead),
        prop::sample::select(b"PIxKWNp".to_vec()).prop_map(LeaveState::Other)
    ]
}

fn woken() -> impl Strategy<Value = Woken> {
    (tid(), comm(), any::<i32>(), any::<u32>()).prop_map(|(tid, comm, prio, cpu)| Woken {
        tid,
        comm,
        prio,
        target: CpuId(cpu),
    })
}

/// Every kind of event with a record; texts live as long as the program.
fn kind() -> impl Strategy<Value = EventKind<'static>> {
    let vector = || prop::sample::select(vec!["local_timer", "call_function_single", "spurious_apic"]);
    let text = |most: usize| {
        prop::collection::vec(prop::char::range(' ', '\u{2fff}'), 0..most)
            .prop_map(|text| &*Box::leak(text.into_iter().collect::<String>().into_boxed_str()))
    };
    let time = || any::<i64>().prop_map(Nanos::new);
    prop_oneof![
        (tid(), comm(), any::<i32>(), state(), tid(), comm(), any::<i32>()).prop_map(
            |(prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio)| EventKind::Switch {
                prev,
                prev_comm,
                prev_prio,
                prev_state,
                next,
                next_comm,
                next_prio
            }
        ),
        woken().prop_map(EventKind::Waking),
        woken().prop_map(EventKind::Wakeup),
        woken().prop_map(EventKind::WakeupNew),
        (tid(), comm(), any::<u32>(), any::<u32>()).prop_map(|(tid, comm, from, to)| {
            EventKind::Migrate { tid, comm, from: CpuId(from), to: CpuId(to) }
        }),
        (tid(), tid(), comm()).prop_map(|(parent, child, child_comm)| EventKind::Fork {
            parent,
            child,
            child_comm
        }),
        (tid(), tid()).prop_map(|(tid, old)| EventKind::Exec { tid, old }),
        (tid(), comm()).prop_map(|(tid, comm)| EventKind::Exit { tid, comm }),
        (any::<u32>(), text(90)).prop_map(|(irq, name)| EventKind::IrqEntry { irq, name }),
        any::<u32>().prop_map(|irq| EventKind::IrqExit { irq }),
        vector().prop_map(|name| EventKind::VectorEntry { name }),
        vector().prop_map(|name| EventKind::VectorExit { name }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqRaise { vector }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqEntry { vector }),
        any::<u32>().prop_map(|vector| EventKind::SoftirqExit { vector }),
        (any::<u64>(), function(), time()).prop_map(|(timer, function, expires)| EventKind::TimerStart {
            timer,
            function,
            expires
        }),
        any::<u64>().prop_map(|timer| EventKind::TimerCancel { timer }),
        (any::<u64>(), function()).prop_map(|(timer, function)| EventKind::TimerExpire { timer, function }),
        (any::<u32>(), any::<u32>()).prop_map(|(of, khz)| EventKind::Frequency { of: CpuId(of), khz }),
        (any::<u64>(), any::<u32>(), any::<u32>())
            .prop_map(|(address, operation, value)| EventKind::FutexEnter { address, operation, value }),
        Just(EventKind::FutexExit),
        crate::support::events::block().prop_map(EventKind::Block),
        text(1000).prop_map(|text| EventKind::Marker { text }),
    ]
}

/// Events of three CPUs in the order of time, then of CPUs, as every reader hands them on; some follow a loss.
fn events() -> impl Strategy<Value = Vec<Event<'static>>> {
    let step = prop_oneof![Just(0u64), 1u64..2000, (1u64 << 26)..(1 << 28), (1u64 << 32)..(1 << 40)];
    let lost =
        prop_oneof![8 => Just(None), 1 => Just(Some(None)), 1 => (1u64..9).prop_map(|n| Some(Some(n)))];
    let one = (step, 0u32..3, tid(), lost, kind());
    prop::collection::vec(one, 0..80).prop_map(|raw| {
        let (mut now, mut events) = (0u64, Vec::new());
        let mut last = 0;
        for (step, cpu, current, lost, kind) in raw {
            let cpu = if step == 0 { cpu.max(last) } else { cpu };
            last = cpu;
            now += step;
            let at =
                |kind, current| Event { time: Nanos::new(now.cast_signed()), cpu: CpuId(cpu), current, kind };
            events.extend(lost.map(|count| at(EventKind::Lost { count }, Tid::IDLE)));
            events.push(at(kind, current));
        }
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read_back(events in events()) {
        let expected: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
        for form in FORMS {
            let (file, written) = written(&events, form);
            prop_assert_eq!((written.events, written.left_out, written.cut), (expected.len() as u64, 0, 0));
            let (read, summary) = read(&file);
            prop_assert_eq!(&read, &expected, "{:?}", form);
            prop_assert_eq!((summary.damaged_pages, summary.malformed, summary.unknown), (0, 0, 0));
        }
    }
}

fn marker(time: i64, cpu: u32, text: &str) -> Event<'_> {
    Event { time: Nanos::new(time), cpu: CpuId(cpu), current: Tid(7), kind: EventKind::Marker { text } }
}

#[test]
fn what_has_no_room_is_cut_or_left_out_and_counted() {
    let long = "ä".repeat(TEXT_MAX);
    let events = [
        marker(-1, 0, "too early"),
        marker(5, 1 << 16, "no such CPU"),
        marker(6, 0, &long),
        Event { kind: EventKind::VectorEntry { name: "from the future" }, ..marker(7, 0, "") },
        marker(8, 0, "last"),
    ];
    let (file, written) = written(&events, TraceDatForm::V6);
    assert_eq!((written.events, written.left_out, written.cut), (2, 3, 1));
    let (read, _) = read(&file);
    let cut = "ä".repeat(TEXT_MAX / 2);
    assert_eq!(read, [marker(6, 0, &cut), marker(8, 0, "last")].map(|event| format!("{event:?}")));
}

#[test]
fn a_loss_that_nothing_follows_is_told() {
    let lost = |time, count| Event {
        time: Nanos::new(time),
        cpu: CpuId(1),
        current: Tid::IDLE,
        kind: EventKind::Lost { count },
    };
    let events = [marker(3, 1, "before"), lost(9, Some(4)), marker(11, 2, "elsewhere")];
    for form in FORMS {
        let (read, summary) = read(&written(&events, form).0);
        assert_eq!(read, events.map(|event| format!("{event:?}")), "{form:?}");
        assert_eq!((summary.gaps, summary.lost, summary.counted_lost), (1, 4, Some(4)));
    }
    // Two in a row are one hole; of an unknown size where one of them is.
    let (read, summary) = read(&written(&[lost(9, Some(4)), lost(10, None)], TraceDatForm::V6).0);
    assert_eq!((read.len(), summary.gaps, summary.lost), (1, 1, 0));
}

#[test]
fn no_events_are_a_file_without_any() {
    for form in FORMS {
        let (read, summary) = read(&written(&[], form).0);
        assert!(read.is_empty() && summary.is_complete());
    }
}

/// A second of two CPUs: a thread that runs and sleeps, ticks, a timer, an interrupt, texts, the steps of a request.
fn second() -> Vec<Event<'static>> {
    let (player, idle) = (Comm::new("player one"), Comm::new("swapper/0"));
    let mut events = Vec::new();
    for round in 0..200i64 {
        let cpu = CpuId((round % 2) as u32);
        let mut put = |after: i64, current: i32, kind| {
            let time = Nanos::new(1_000_000_000 + round * 5_000_000 + after);
            events.push(Event { time, cpu, current: Tid(current), kind });
        };
        let thread = Woken { tid: Tid(4711), comm: player, prio: -1, target: cpu };
        put(0, 0, EventKind::VectorEntry { name: "local_timer" });
        put(5, 0, EventKind::TimerExpire { timer: 0xffff_8880_0000_1000, function: TimerFunction::Wakeup });
        put(10, 0, EventKind::Waking(thread));
        put(20, 0, EventKind::Wakeup(thread));
        put(30, 0, EventKind::VectorExit { name: "local_timer" });
        let (next, next_comm, prev_comm) = (Tid(4711), player, idle);
        let prev_state = LeaveState::Runnable { preempted: false };
        put(
            40,
            0,
            EventKind::Switch {
                prev: Tid(0),
                prev_comm,
                prev_prio: 120,
                prev_state,
                next,
                next_comm,
                next_prio: -1,
            },
        );
        put(60, 4711, EventKind::Marker { text: "surety:b:1:7" });
        put(1000, 4711, EventKind::IrqEntry { irq: 30, name: "eth0-rx" });
        put(1100, 4711, EventKind::SoftirqRaise { vector: 3 });
        put(1200, 4711, EventKind::IrqExit { irq: 30 });
        put(
            2000,
            4711,
            EventKind::TimerStart {
                timer: 0x1000,
                function: TimerFunction::DeadlineReplenish,
                expires: Nanos::new(7),
            },
        );
        for (after, step) in (2100..).zip(BlockStep::all()) {
            let block = BlockEvent {
                step,
                disk: DiskNumber { major: 259, minor: 3 },
                sector: if round == 0 { u64::MAX } else { (1 << 40) + round.unsigned_abs() },
                sectors: 8,
                bytes: if step.has_bytes() { 4096 } else { 0 },
                // Best effort, level 4.
                priority: if step.has_priority() { 2 << 13 | 4 } else { 0 },
                rwbs: Rwbs::new(b"RAS"),
                comm: if step.has_name() { player } else { Comm::default() },
                error: if step.has_error() { -5 } else { 0 },
            };
            put(after, 4711, EventKind::Block(block));
        }
        let prev_state =
            [LeaveState::Sleeping, LeaveState::Runnable { preempted: true }, LeaveState::Other(b'P')];
        let prev_state = prev_state[(round % 3) as usize];
        put(
            3000,
            4711,
            EventKind::Switch {
                prev: next,
                prev_comm: player,
                prev_prio: -1,
                prev_state,
                next: Tid(0),
                next_comm: idle,
                next_prio: 120,
            },
        );
    }
    events
}

#[test]
fn trace_cmd_lists_the_same_events() {
    let events = second();
    let known = std::process::Command::new("trace-cmd").args(["list", "-c"]).output();
    let known = known.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    for (index, form) in FORMS.into_iter().enumerate() {
        if form == TraceDatForm::V7(Compression::Zlib) && !known.contains("zlib") {
            eprintln!("SKIPPED: this trace-cmd was built without zlib");
            continue;
        }
        let path = std::env::temp_dir().join(format!("surety-written-{}-{index}.dat", std::process::id()));
        std::fs::write(&path, written(&events, form).0).unwrap();
        let theirs = reported(&path);
        let _ = std::fs::remove_file(&path);
        let Some(theirs) = theirs else { continue };
        assert_eq!(theirs.len(), events.len(), "{form:?}");
        for (ours, theirs) in events.iter().zip(&theirs) {
            let at = (ours.cpu.0, ours.time.get(), ours.current.0);
            assert_eq!((theirs.cpu, theirs.time, theirs.current), at, "{theirs:?}");
            let (name, fields) = match ours.kind {
                EventKind::Switch { prev, next, .. } => {
                    ("sched_switch", vec![("prev_pid", prev.0.into()), ("next_pid", next.0.into())])
                }
                EventKind::Waking(w) => {
                    ("sched_waking", vec![(" pid", w.tid.0.into()), ("prio", w.prio.into())])
                }
                EventKind::Wakeup(w) => {
                    ("sched_wakeup", vec![(" pid", w.tid.0.into()), ("prio", w.prio.into())])
                }
                EventKind::VectorEntry { .. } => ("local_timer_entry", vec![]),
                EventKind::VectorExit { .. } => ("local_timer_exit", vec![]),
                EventKind::TimerExpire { .. } => ("hrtimer_expire_entry", vec![]),
                EventKind::TimerStart { .. } => ("hrtimer_start", vec![("expires", 7i64)]),
                EventKind::IrqEntry { irq, .. } => ("irq_handler_entry", vec![("irq", irq.into())]),
                EventKind::IrqExit { irq } => ("irq_handler_exit", vec![("irq", irq.into())]),
                EventKind::SoftirqRaise { vector } => ("softirq_raise", vec![("vec", vector.into())]),
                EventKind::Block(block) => {
                    let mut fields = vec![
                        ("dev", i64::from(block.disk.to_kernel())),
                        (" sector", block.sector.cast_signed()),
                        ("nr_sector", block.sectors.into()),
                    ];
                    if block.step.has_bytes() {
                        fields.push(("bytes", block.bytes.into()));
                    }
                    (block.step.name(), fields)
                }
                _ => ("print", vec![]),
            };
            assert_eq!(theirs.event, name);
            for (key, value) in fields {
                let told = theirs.value(key);
                let found = told.parse::<i64>().or_else(|_| told.parse::<u64>().map(u64::cast_signed)).ok();
                assert_eq!(found, Some(value), "{key} of {theirs:?}");
            }
        }
    }
}

/// What trace-cmd prints of our file by the formats in it, in the kernel's words, is read back as the same events.
#[test]
fn trace_cmd_prints_block_events_as_the_kernel_does() {
    let events = second();
    let path = std::env::temp_dir().join(format!("surety-block-{}.dat", std::process::id()));
    std::fs::write(&path, written(&events, TraceDatForm::V6).0).unwrap();
    let printed = std::process::Command::new("trace-cmd").args(["report", "-t"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let Ok(printed) = printed else {
        eprintln!("SKIPPED: trace-cmd cannot be started; install the package trace-cmd");
        return;
    };
    let block = |found: &mut Vec<BlockEvent>, event: &Event<'_>| {
        if let EventKind::Block(block) = event.kind {
            found.push(block);
        }
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    events.iter().for_each(|event| block(&mut ours, event));
    let mut text = TextTrace::open(&printed.stdout[..]).unwrap();
    text.read(&mut |event: &Event<'_>| block(&mut theirs, event)).unwrap();
    assert_eq!(theirs, ours);
}
