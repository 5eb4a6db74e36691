//! Perfetto traces against the published schema: a decoder driven by Perfetto's own `.proto` files reads what we write, and
//! we read what its encoder writes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, JobMarker, LeaveState, Rwbs, TimerFunction,
    TraceSink, Woken,
};
use surety_model::reservation::Reservation;
use surety_trace::write::perfetto::{Overlay, OverlayOf, Perfetto};
use surety_trace::{JobBuilder, PerfettoTrace, TraceDat, TraceReader};
use surety_units::{CpuId, Nanos, Tid};

use crate::schema::{decode, encode};

/// The elements of a repeated field; none where it is not there.
fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

/// What packets of one kind hold, in the file's order.
fn packets<'t>(trace: &'t Value, kind: &'t str) -> impl Iterator<Item = &'t Value> {
    list(&trace["packet"]).iter().map(move |packet| &packet[kind]).filter(|found| !found.is_null())
}

/// Every event of the file with its CPU, in the file's order.
fn events(trace: &Value) -> Vec<(u32, &Value)> {
    packets(trace, "ftrace_events")
        .flat_map(|bundle| list(&bundle["event"]).iter().map(|event| (number(&bundle["cpu"]), event)))
        .collect()
}

/// A number of any width; zero where the field is not set, as the schema has it.
fn number<N: TryFrom<i128, Error: std::fmt::Debug>>(of: &Value) -> N {
    let wide = match of {
        Value::Null => 0,
        set => set.as_i64().map(i128::from).or(set.as_u64().map(i128::from)).unwrap(),
    };
    wide.try_into().unwrap()
}

/// Text; empty where the field is not set.
fn text(of: &Value) -> String {
    if of.is_null() { String::new() } else { of.as_str().unwrap().to_owned() }
}

/// The word of an event's kind, and what it holds.
fn body(event: &Value) -> (&str, &Value) {
    let common = ["timestamp", "pid", "common_flags"];
    let mut bodies = event.as_object().unwrap().iter().filter(|(field, _)| !common.contains(&field.as_str()));
    let (kind, holds) = bodies.next().unwrap();
    assert!(bodies.next().is_none(), "two kinds in one event: {event}");
    (kind, holds)
}

/// A stretch of time a thread had a CPU: CPU, from, to, thread, name.
type Slice = (u32, u64, u64, i32, String);

/// The slices by the switches, as the viewer draws them.
fn slices(switches: impl Iterator<Item = (u32, u64, i32, String)>) -> Vec<Slice> {
    let mut open: BTreeMap<u32, (u64, i32, String)> = BTreeMap::new();
    let mut slices = Vec::new();
    for (cpu, time, next, name) in switches {
        if let Some((from, tid, name)) = open.insert(cpu, (time, next, name)) {
            slices.push((cpu, from, time, tid, name));
        }
    }
    slices.sort();
    slices
}

#[test]
fn a_recorded_trace_has_the_same_slices_in_the_published_schema() {
    let file = crate::support::tracedat::fixture();
    let (mut out, mut expected, mut kinds) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut sink = Perfetto::new(&mut out);
    let mut both = |event: &Event<'_>| {
        sink.event(event);
        let time = u64::try_from(event.time.get()).unwrap();
        if let EventKind::Switch { next, next_comm, .. } = event.kind {
            expected.push((event.cpu.0, time, next.0, next_comm.to_string()));
        }
        let line = crate::support::render(event).what;
        *kinds.entry(line.split([':', ' ']).next().unwrap().to_owned()).or_insert(0u32) += 1;
    };
    TraceDat::open(&file).unwrap().read(&mut both).unwrap();
    sink.finish("mono").unwrap();
    let trace = decode(&out);
    let found = events(&trace).into_iter().filter_map(|(cpu, event)| match body(event) {
        ("sched_switch", m) => {
            Some((cpu, number(&event["timestamp"]), number(&m["next_pid"]), text(&m["next_comm"])))
        }
        _ => None,
    });
    let expected = slices(expected.into_iter());
    assert!(expected.len() > 20, "{} slices", expected.len());
    assert_eq!(slices(found), expected);
    // Each kind is as often there.
    let mut found = BTreeMap::new();
    for (_, event) in events(&trace) {
        let name = match body(event) {
            ("generic", m) => text(&m["event_name"]),
            ("print", _) => "tracing_mark_write".to_owned(),
            (kind, _) => kind.to_owned(),
        };
        *found.entry(name).or_insert(0u32) += 1;
    }
    assert_eq!(found, kinds);
    assert!(found.len() > 12, "{found:?}");
}

#[test]
fn every_field_is_the_schemas() {
    let woken = Woken { tid: Tid(5), comm: Comm::new("d"), prio: -1, target: CpuId(3) };
    let kinds = [
        EventKind::Switch {
            prev: Tid(7),
            prev_comm: Comm::new("a"),
            prev_prio: -1,
            prev_state: LeaveState::Runnable { preempted: true },
            next: Tid(8),
            next_comm: Comm::new("b"),
            next_prio: 120,
        },
        EventKind::Waking(woken),
        EventKind::Migrate { tid: Tid(5), comm: Comm::new("d"), from: CpuId(1), to: CpuId(2) },
        EventKind::Fork { parent: Tid(1), child: Tid(2), child_comm: Comm::new("c") },
        EventKind::Exec { tid: Tid(3), old: Tid(4) },
        EventKind::Exit { tid: Tid(6), comm: Comm::new("e") },
        EventKind::TimerStart {
            timer: 9,
            function: TimerFunction::DeadlineReplenish,
            expires: Nanos::new(-3),
        },
        EventKind::TimerExpire { timer: 9, function: TimerFunction::Wakeup },
        EventKind::Frequency { of: CpuId(2), khz: 3_200_000 },
        EventKind::Marker { text: "hello" },
        EventKind::IrqEntry { irq: 33, name: "nvme" },
        EventKind::VectorEntry { name: "reschedule" },
    ];
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    for (time, kind) in (1..).zip(kinds) {
        sink.event(&Event { time: Nanos::new(time), cpu: CpuId(1), current: Tid(7), kind });
    }
    sink.event(&Event {
        time: Nanos::new(99),
        cpu: CpuId(1),
        current: Tid(7),
        kind: EventKind::Lost { count: Some(5) },
    });
    sink.finish("mono").unwrap();
    let trace = decode(&out);
    let found = events(&trace);
    for ((cpu, event), time) in found.iter().zip(1..) {
        assert_eq!((*cpu, number::<u32>(&event["pid"]), number::<i32>(&event["timestamp"])), (1, 7, time));
    }
    let symbols = &packets(&trace, "interned_data").next().unwrap()["kernel_symbols"];
    let symbol = |name: &str| {
        let symbol = list(symbols).iter().find(|symbol| symbol["str"] == *name).unwrap();
        symbol["iid"].clone()
    };
    let expected = [
        (
            "sched_switch",
            json!({
                "prev_comm": "a", "prev_pid": 7, "prev_prio": -1, "prev_state": 0x100,
                "next_comm": "b", "next_pid": 8, "next_prio": 120,
            }),
        ),
        ("sched_waking", json!({ "comm": "d", "pid": 5, "prio": -1, "success": 1, "target_cpu": 3 })),
        ("sched_migrate_task", json!({ "comm": "d", "pid": 5, "orig_cpu": 1, "dest_cpu": 2 })),
        ("sched_process_fork", json!({ "parent_pid": 1, "child_comm": "c", "child_pid": 2 })),
        ("sched_process_exec", json!({ "pid": 3, "old_pid": 4 })),
        ("sched_process_exit", json!({ "comm": "e", "pid": 6 })),
        ("hrtimer_start", json!({ "hrtimer": 9, "expires": -3, "function": symbol("dl_task_timer") })),
        ("hrtimer_expire_entry", json!({ "hrtimer": 9, "function": symbol("hrtimer_wakeup") })),
        ("cpu_frequency", json!({ "cpu_id": 2, "state": 3_200_000 })),
        ("print", json!({ "buf": "hello" })),
        ("irq_handler_entry", json!({ "irq": 33, "name": "nvme" })),
        ("generic", json!({ "event_name": "reschedule_entry" })),
    ];
    for ((_, event), (kind, fields)) in found.iter().zip(&expected) {
        let (found, holds) = body(event);
        assert_eq!(found, *kind);
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(&holds[field], value, "{kind}.{field}");
        }
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(packets(&trace, "ftrace_events").filter(|bundle| bundle["lost_events"] == true).count(), 1);
    let stats = packets(&trace, "ftrace_stats").next().unwrap();
    let of_cpu = &stats["cpu_stats"][0];
    assert_eq!((number::<u32>(&of_cpu["cpu"]), number::<u32>(&of_cpu["overrun"])), (1, 5));
}

#[test]
fn readers_are_told_bits_clocks_and_processes() {
    let comm = Comm::new;
    let fork =
        |parent, child| EventKind::Fork { parent: Tid(parent), child: Tid(child), child_comm: comm("sh") };
    let exec = |tid| EventKind::Exec { tid: Tid(tid), old: Tid(tid) };
    let leave = |tid, name| EventKind::Switch {
        prev: Tid(tid),
        prev_comm: comm(name),
        prev_prio: 120,
        prev_state: LeaveState::Runnable { preempted: true },
        next: Tid(0),
        next_comm: comm("swapper/0"),
        next_prio: 120,
    };
    // 10 is a shell; 11 becomes a program of it; 12 is forked by that and never calls exec: a thread or a process.
    let kinds = [
        exec(10),
        fork(10, 11),
        exec(11),
        fork(11, 12),
        leave(11, "player"),
        leave(12, "worker"),
        leave(10, "sh"),
    ];
    let write = |clock: &str| {
        let mut out = Vec::new();
        let mut sink = Perfetto::new(&mut out);
        for (time, kind) in (7..).zip(kinds) {
            sink.event(&Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(10), kind });
        }
        sink.finish(clock).unwrap();
        out
    };
    let out = write("mono");
    let trace = decode(&out);
    let utsname = &trace["packet"][0]["system_info"]["utsname"];
    assert_eq!((text(&utsname["sysname"]), text(&utsname["release"])), ("Linux".into(), "4.14".into()));
    let snapshot = packets(&trace, "clock_snapshot").next().unwrap();
    let clocks: Vec<(u32, u64)> =
        list(&snapshot["clocks"]).iter().map(|c| (number(&c["clock_id"]), number(&c["timestamp"]))).collect();
    assert_eq!(clocks, [(6, 7), (3, 7)], "boot and monotonic at the first event");
    let tree = packets(&trace, "process_tree").next().unwrap();
    let processes: Vec<(i32, i32, String)> = list(&tree["processes"])
        .iter()
        .map(|p| (number(&p["pid"]), number(&p["ppid"]), text(&p["cmdline"][0])))
        .collect();
    assert_eq!(processes, [(10, 0, "sh".to_owned()), (11, 10, "player".to_owned())]);
    let unnamed = decode(&write("x86-tsc"));
    assert_eq!(packets(&unnamed, "clock_snapshot").count(), 0, "a counter is no clock of the format");
    // Read back, the bits mean what was written.
    let mut states = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Switch { prev_state, .. } = event.kind {
            states.push(prev_state);
        }
    };
    let mut reader = surety_trace::open(out).unwrap();
    reader.read(&mut sink).unwrap();
    assert_eq!(states, [LeaveState::Runnable { preempted: true }; 3]);
    assert_eq!(reader.unread(), [] as [&str; 0]);
}

/// A thread is on its CPU from the beginning of the trace, or again after a loss, and only other events name it until it leaves.
#[test]
fn the_first_segment_is_of_the_thread_that_other_events_name() {
    let waking = |time: u64, pid: i32, tid: i32| {
        let body = json!({ "comm": name(tid), "pid": tid, "prio": 98, "target_cpu": 0 });
        json!({ "timestamp": time, "pid": pid, "sched_waking": body })
    };
    let bundle = |events: Vec<Value>, switch: (u64, i32), lost: bool| {
        let columns = json!({
            "intern_table": [name(switch.1)],
            "switch_timestamp": [switch.0],
            "switch_prev_state": [1],
            "switch_next_pid": [switch.1],
            "switch_next_prio": [120],
            "switch_next_comm_index": [0],
        });
        let bundle = json!({ "cpu": 0, "lost_events": lost, "event": events, "compact_sched": columns });
        json!({ "ftrace_events": bundle })
    };
    let trace = json!({ "packet": [
        bundle(vec![waking(1_000, 7, 5), waking(2_000, 7, 6)], (5_000, 5), false),
        bundle(vec![waking(9_000, 6, 8)], (10_000, 0), true),
    ] });
    let mut jobs = JobBuilder::new();
    let mut left = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Switch { prev, prev_comm, prev_prio, .. } = event.kind {
            left.push((event.current.0, prev.0, prev_comm.text().into_owned(), prev_prio));
        }
        jobs.event(event);
    };
    PerfettoTrace::open(encode(&trace)).unwrap().read(&mut sink).unwrap();
    // Nobody tells the name of 7; that of 6 is known from its waking before the loss.
    assert_eq!(left, [(7, 7, String::new(), 120), (6, 6, name(6), 98)]);
    let jobs = jobs.finish();
    let run = |tid| jobs.threads.iter().find(|t| t.tid == Tid(tid)).unwrap().run;
    assert_eq!((run(7), run(6)), (Nanos::new(4_000), Nanos::new(1_000)));
    assert_eq!(jobs.anomalies.inconsistent, 0);
}

/// One switch or waking of a CPU.
#[derive(Clone, Debug)]
struct Drawn {
    step: u64,
    waking: bool,
    tid: i32,
    prio: i32,
    state: i64,
    target: i32,
}

fn name(tid: i32) -> String {
    if tid == 0 { "swapper".to_owned() } else { format!("t{tid}") }
}

/// The columns of the compact form, filled event by event.
#[derive(Default)]
struct Columns {
    lists: BTreeMap<&'static str, Vec<Value>>,
    names: Vec<String>,
    switched: u64,
    woken: u64,
}

impl Columns {
    fn push(&mut self, time: u64, event: &Drawn) {
        let name = name(event.tid);
        let index = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let of = if event.waking { &mut self.woken } else { &mut self.switched };
        let step = time - std::mem::replace(of, time);
        let row: &[(&'static str, Value)] = if event.waking {
            &[
                ("waking_timestamp", step.into()),
                ("waking_pid", event.tid.into()),
                ("waking_target_cpu", event.target.into()),
                ("waking_prio", event.prio.into()),
                ("waking_comm_index", index.into()),
                ("waking_common_flags", 1.into()),
            ]
        } else {
            &[
                ("switch_timestamp", step.into()),
                ("switch_prev_state", event.state.into()),
                ("switch_next_pid", event.tid.into()),
                ("switch_next_prio", event.prio.into()),
                ("switch_next_comm_index", index.into()),
            ]
        };
        row.iter().for_each(|(column, value)| self.lists.entry(column).or_default().push(value.clone()));
    }

    fn message(self) -> Value {
        let mut message = json!(self.lists);
        message["intern_table"] = self.names.into();
        message
    }
}

/// The plain form of an event on a CPU that `last`, thread and priority, has; nobody named the thread before the first switch.
fn plain_event(time: u64, event: &Drawn, last: Option<(i32, i32)>) -> Value {
    let (tid, prio) = last.unwrap_or((0, 120));
    let (kind, body) = if event.waking {
        let woken = name(event.tid);
        let target = event.target;
        ("sched_waking", json!({ "comm": woken, "pid": event.tid, "prio": event.prio, "target_cpu": target }))
    } else {
        let body = json!({
            "prev_comm": last.map_or(String::new(), |(tid, _)| name(tid)),
            "prev_pid": tid,
            "prev_prio": prio,
            "prev_state": event.state,
            "next_comm": name(event.tid),
            "next_pid": event.tid,
            "next_prio": event.prio,
        });
        ("sched_switch", body)
    };
    json!({ "timestamp": time, "pid": tid, kind: body })
}

/// The two forms of the same bundles.
fn both_forms(cpus: &[Vec<Drawn>], per_bundle: usize) -> [Vec<u8>; 2] {
    let (mut compact, mut plain) = (Vec::new(), Vec::new());
    for (cpu, drawn) in cpus.iter().enumerate() {
        let (mut time, mut last) = (1000, None);
        for chunk in drawn.chunks(per_bundle) {
            let (mut columns, mut events) = (Columns::default(), Vec::new());
            for event in chunk {
                time += event.step;
                columns.push(time, event);
                events.push(plain_event(time, event, last));
                if !event.waking {
                    last = Some((event.tid, event.prio));
                }
            }
            plain.push(json!({ "ftrace_events": { "cpu": cpu, "event": events } }));
            compact.push(json!({ "ftrace_events": { "cpu": cpu, "compact_sched": columns.message() } }));
        }
    }
    [compact, plain].map(|packets| encode(&json!({ "packet": packets })))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_compact_form_says_what_the_plain_one_says(
        cpus in prop::collection::vec(
            prop::collection::vec(
                (1..5000u64, any::<bool>(), 0..6i32, prop_oneof![Just(-1), 0..139i32],
                    prop::sample::select(vec![0i64, 1, 2, 0x100, 0x80]), 0..4i32),
                1..60,
            ),
            1..4,
        ),
        per_bundle in 1..20usize,
    ) {
        let cpus: Vec<Vec<Drawn>> = cpus.into_iter().map(|drawn| {
            drawn.into_iter().map(|(step, waking, tid, prio, state, target)| {
                Drawn { step, waking, tid, prio, state, target }
            }).collect()
        }).collect();
        let [compact, plain] = both_forms(&cpus, per_bundle).map(|file| {
            let mut seen = Vec::new();
            let summary = PerfettoTrace::open(file).unwrap()
                .read(&mut |event: &Event<'_>| seen.push(format!("{event:?}"))).unwrap();
            assert!(summary.is_complete(), "{summary:?}");
            (seen, summary.events)
        });
        prop_assert_eq!(compact.0.len(), cpus.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(compact, plain);
    }
}

/// Tracks by number: their names, and the numbers of the tracks above them.
fn descriptors(trace: &Value) -> BTreeMap<u64, (String, u64)> {
    let mut names = BTreeMap::new();
    for track in packets(trace, "track_descriptor") {
        let named = (text(&track["name"]), number(&track["parent_uuid"]));
        assert!(names.insert(number(&track["uuid"]), named).is_none(), "once each");
    }
    names
}

/// Tracks by name, each with its slices, instants and counter values in the order of the file.
fn tracks(trace: &Value) -> BTreeMap<String, Vec<(u64, String, i64)>> {
    let names = descriptors(trace);
    let mut found: BTreeMap<String, Vec<(u64, String, i64)>> = BTreeMap::new();
    for packet in list(&trace["packet"]).iter().filter(|packet| !packet["track_event"].is_null()) {
        assert_eq!(packet["trusted_packet_sequence_id"], 2);
        let event = &packet["track_event"];
        let (name, parent) = &names[&number(&event["track_uuid"])];
        let value = match event["type"].as_str().unwrap() {
            "TYPE_SLICE_BEGIN" => 1,
            "TYPE_SLICE_END" => -1,
            "TYPE_INSTANT" => 0,
            _ => number(&event["counter_value"]),
        };
        let group = &names[parent].0;
        let mark = (number(&packet["timestamp"]), text(&event["name"]), value);
        found.entry(format!("{group}/{name}")).or_default().push(mark);
    }
    found
}

#[test]
fn promises_become_tracks() {
    let ms = Nanos::from_millis;
    let (mut out, mut jobs) = (Vec::new(), JobBuilder::new());
    let reservation = Reservation { deadline: ms(8), ..Reservation::implicit(ms(4), ms(10)) };
    let overlay = Overlay {
        of: OverlayOf::Named("player".to_owned()),
        reservation: Some(reservation),
        response_limit: Some(ms(6)),
    };
    let mut sink = Perfetto::with_overlays(&mut out, vec![overlay]);
    let (idle, player) = ((Tid(0), Comm::new("swapper/0"), 120), (Tid(9), Comm::new("player"), -1));
    let sleeping = LeaveState::Sleeping;
    let runnable = LeaveState::Runnable { preempted: false };
    let mut at = |time: i64, current: i32, kind| {
        let event = Event { time: Nanos::new(time * 1_000_000), cpu: CpuId(0), current: Tid(current), kind };
        sink.event(&event);
        jobs.event(&event);
    };
    let switch = |prev: (Tid, Comm, i32), prev_state, next: (Tid, Comm, i32)| EventKind::Switch {
        prev: prev.0,
        prev_comm: prev.1,
        prev_prio: prev.2,
        prev_state,
        next: next.0,
        next_comm: next.1,
        next_prio: next.2,
    };
    let waking = EventKind::Waking(Woken { tid: Tid(9), comm: player.1, prio: -1, target: CpuId(0) });
    let timer = |timer| EventKind::TimerStart {
        timer,
        function: TimerFunction::DeadlineReplenish,
        expires: Nanos::new(40_000_000),
    };
    at(1, 0, EventKind::SoftirqRaise { vector: 1 });
    at(10, 0, waking);
    at(10, 0, switch(idle, runnable, player));
    at(13, 9, switch(player, sleeping, idle)); // in time, 3 ms of 4
    at(30, 0, waking);
    at(30, 0, switch(idle, runnable, player));
    at(35, 9, timer(77)); // 5 ms: out of budget
    at(35, 9, switch(player, runnable, idle));
    at(40, 0, EventKind::TimerExpire { timer: 77, function: TimerFunction::DeadlineReplenish });
    at(40, 0, switch(idle, runnable, player));
    at(41, 9, switch(player, sleeping, idle)); // 11 ms after its release
    sink.finish("mono").unwrap();
    let trace = decode(&out);
    let found = tracks(&trace);
    let of = |name: &str| -> Vec<(u64, &str, i64)> {
        let marks = found.get(&format!("player 9/{name}")).unwrap_or_else(|| panic!("{name} in {found:?}"));
        marks.iter().map(|(time, text, value)| (time / 1_000_000, text.as_str(), *value)).collect()
    };
    let jobs = jobs.finish();
    let history = jobs.threads.iter().find(|thread| thread.tid == Tid(9)).unwrap();
    assert_eq!(history.jobs.len(), 2);
    let late = format!("job 1 late by {}", ms(5));
    let reserved = format!("{} / {} / {}", ms(4), ms(8), ms(10));
    assert_eq!(of("jobs"), [(10, "job 0", 1), (13, "", -1), (30, "job 1", 1), (41, "", -1)]);
    assert_eq!(of("deadlines"), [(16, "deadline of job 0", 0), (36, "deadline of job 1", 0)]);
    assert_eq!(of("misses"), [(36, late.as_str(), 1), (41, "", -1)]);
    assert_eq!(of("throttled"), [(35, "throttled", 1), (40, "", -1)]);
    assert_eq!(of("reservation"), [(10, reserved.as_str(), 1), (41, "", -1)]);
    let ms = 1_000_000;
    assert_eq!(
        of("budget"),
        [(10, "", 4 * ms), (13, "", ms), (30, "", 4 * ms), (35, "", -ms), (40, "", 3 * ms), (41, "", 2 * ms)]
    );
    // The tracks do not hide the events.
    let mut again = JobBuilder::new();
    PerfettoTrace::open(out).unwrap().read(&mut again).unwrap();
    assert_eq!(again.finish(), jobs);
}

#[test]
fn marked_jobs_that_overlap_are_drawn_one_after_the_other() {
    let mut out = Vec::new();
    let overlay =
        Overlay { of: OverlayOf::Thread(Tid(9)), reservation: None, response_limit: Some(Nanos::new(5)) };
    let mut sink = Perfetto::with_overlays(&mut out, vec![overlay]);
    let event = |time, kind| Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(9), kind };
    let woken = Woken { tid: Tid(9), comm: Comm::new("p"), prio: 120, target: CpuId(0) };
    sink.event(&event(1, EventKind::Waking(woken)));
    for (job, release, begin, end) in [(0, 10, 12, 30), (1, 20, 31, 40)] {
        let mut marker = |time, marker: JobMarker| {
            let mut text = [0; 64];
            let length = marker.write(&mut text);
            let text = std::str::from_utf8(&text[..length]).unwrap();
            let kind = EventKind::Marker { text };
            sink.event(&Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(9), kind });
        };
        marker(begin, JobMarker::Begin { job, release: Nanos::new(release) });
        marker(end, JobMarker::End { job });
    }
    sink.finish("mono").unwrap();
    let found = tracks(&decode(&out));
    let edges = |name: &str| -> Vec<(u64, i64)> { found[name].iter().map(|(t, _, v)| (*t, *v)).collect() };
    assert_eq!(edges("p 9/jobs"), [(10, 1), (30, -1), (30, 1), (40, -1)]);
    assert_eq!(edges("p 9/misses"), [(15, 1), (30, -1), (30, 1), (40, -1)]);
}

/// Two requests side by side in a disk: each is a slice from issue to completion on a track of its own, with the time it was queued; the
/// events are those of the published schema.
#[test]
fn requests_of_a_disk_are_slices() {
    let step = |time: i64, step, sector| {
        let has_name = BlockStep::has_name(step);
        let kind = EventKind::Block(BlockEvent {
            step,
            disk: DiskNumber { major: 8, minor: 16 },
            sector,
            sectors: 8,
            bytes: if step.has_bytes() { 4096 } else { 0 },
            priority: 0,
            rwbs: Rwbs::new(b"R"),
            comm: if has_name { Comm::new("reader") } else { Comm::default() },
            error: 0,
        });
        Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(7), kind }
    };
    let mut out = Vec::new();
    let mut sink = Perfetto::new(&mut out);
    for event in [
        step(10, BlockStep::Inserted, 100),
        step(20, BlockStep::Inserted, 300),
        step(30, BlockStep::Issued, 100),
        step(50, BlockStep::Issued, 300),
        step(70, BlockStep::Completed, 300),
        step(90, BlockStep::Completed, 100),
    ] {
        sink.event(&event);
    }
    sink.finish("mono").unwrap();
    let trace = decode(&out);
    let issued = events(&trace).into_iter().find_map(|(_, event)| match body(event) {
        ("block_rq_issue", m) => Some(m),
        _ => None,
    });
    let issued = issued.unwrap();
    assert_eq!((number(&issued["dev"]), number(&issued["sector"])), (0x810, 100));
    assert_eq!((number(&issued["nr_sector"]), text(&issued["rwbs"])), (8, "R".to_owned()));
    let names = descriptors(&trace);
    let mut open: BTreeMap<u64, (u64, String, Vec<i64>)> = BTreeMap::new();
    let mut slices = Vec::new();
    for packet in list(&trace["packet"]).iter().filter(|packet| !packet["track_event"].is_null()) {
        let event = &packet["track_event"];
        let (track, time) = (number(&event["track_uuid"]), number(&packet["timestamp"]));
        match event["type"].as_str().unwrap() {
            "TYPE_SLICE_BEGIN" => {
                let numbers = list(&event["debug_annotations"]).iter().map(|a| number(&a["int_value"]));
                open.insert(track, (time, text(&event["name"]), numbers.collect()));
            }
            "TYPE_SLICE_END" => {
                let (from, name, numbers) = open.remove(&track).unwrap();
                slices.push((names[&track].0.clone(), from, time, name, numbers));
            }
            _ => {}
        }
    }
    slices.sort();
    let slice = |track: &str, from, to, name: &str, numbers: &[i64]| {
        (track.to_owned(), from, to, name.to_owned(), numbers.to_vec())
    };
    assert_eq!(
        slices,
        [
            slice("in the device 1", 30, 90, "R 100 + 8", &[20, 7, 0]),
            slice("in the device 2", 50, 70, "R 300 + 8", &[30, 7, 0]),
            slice("queued 1", 10, 30, "R 100 + 8", &[7]),
            slice("queued 2", 20, 50, "R 300 + 8", &[7]),
        ]
    );
    assert!(
        names.values().any(|(name, _)| name == "disk 8:16")
            && names.values().any(|(name, _)| name == "requests queued")
    );
}
