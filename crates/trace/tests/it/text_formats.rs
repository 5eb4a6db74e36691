//! Events as JSON lines and CSV: read back with readers that are not ours they say what the kernel's own text says, and
//! have the keys that the page about them lists; of chosen events nothing else comes out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, LeaveState, RawEvent, Rwbs, TimerFunction,
    TraceSink, Woken,
};
use surety_trace::write::csv::Csv;
use surety_trace::write::jsonl::JsonLines;
use surety_trace::write::keep::{Kept, Wanted};
use surety_trace::{TraceDat, TraceReader};
use surety_units::{CpuId, Nanos, Tid};

fn lines(out: &[u8]) -> Vec<Value> {
    std::str::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn jsonl(wanted: Wanted) -> Vec<Value> {
    let (file, mut out) = (crate::support::tracedat::fixture(), Vec::new());
    let mut sink = Kept::new(wanted, JsonLines::new(&mut out));
    TraceDat::open(&file).unwrap().read(&mut sink).unwrap();
    let written = sink.into_inner().finish().unwrap();
    let lines = lines(&out);
    assert_eq!(written, lines.len() as u64);
    lines
}

/// One of every kind, with texts that need escapes.
fn every_kind() -> Vec<EventKind<'static>> {
    let comm = Comm::new("a,\"b\\\n");
    let woken = Woken { tid: Tid(5), comm, prio: -1, target: CpuId(3) };
    let switch = |prev_state| EventKind::Switch {
        prev: Tid(5),
        prev_comm: comm,
        prev_prio: 120,
        prev_state,
        next: Tid(0),
        next_comm: Comm::new("swapper/1"),
        next_prio: 120,
    };
    let block = |step| {
        EventKind::Block(BlockEvent {
            step,
            disk: DiskNumber { major: 8, minor: 16 },
            sector: u64::MAX,
            sectors: 8,
            bytes: 4096,
            priority: 2 << 13,
            rwbs: Rwbs::new(b"WS"),
            comm,
            error: -5,
        })
    };
    vec![
        switch(LeaveState::Runnable { preempted: true }),
        switch(LeaveState::Other(b'I')),
        EventKind::Waking(woken),
        EventKind::Wakeup(woken),
        EventKind::WakeupNew(woken),
        EventKind::Migrate { tid: Tid(5), comm, from: CpuId(1), to: CpuId(2) },
        EventKind::Fork { parent: Tid(5), child: Tid(6), child_comm: comm },
        EventKind::Exec { tid: Tid(5), old: Tid(6) },
        EventKind::Exit { tid: Tid(5), comm },
        EventKind::IrqEntry { irq: 9, name: "disk, \u{1}\"é\"" },
        EventKind::IrqExit { irq: 9 },
        EventKind::VectorEntry { name: "local_timer" },
        EventKind::VectorExit { name: "local_timer" },
        EventKind::SoftirqRaise { vector: 1 },
        EventKind::SoftirqEntry { vector: 1 },
        EventKind::SoftirqExit { vector: 1 },
        EventKind::TimerStart { timer: u64::MAX, function: TimerFunction::Tick, expires: Nanos::new(-1) },
        EventKind::TimerCancel { timer: 1 },
        EventKind::TimerExpire { timer: 1, function: TimerFunction::DeadlineReplenish },
        EventKind::Frequency { of: CpuId(1), khz: 800_000 },
        EventKind::Marker { text: "two\nlines, \"quoted\"" },
        EventKind::FutexEnter { address: 4096, operation: 128, value: 2 },
        EventKind::FutexExit,
        block(BlockStep::BioQueued),
        block(BlockStep::BioAppended),
        block(BlockStep::BioPrepended),
        block(BlockStep::RequestMade),
        block(BlockStep::Inserted),
        block(BlockStep::Joined),
        block(BlockStep::Issued),
        block(BlockStep::Returned),
        block(BlockStep::Completed),
        EventKind::Raw(RawEvent {
            name: "power:cpu_idle",
            format: "",
            record: &[0, 255],
            is_little_endian: true,
        }),
        EventKind::Lost { count: Some(u64::MAX) },
        EventKind::Lost { count: None },
    ]
}

fn written<K: TraceSink>(sink: &mut K) {
    for (k, kind) in (0..).zip(every_kind()) {
        sink.event(&Event { time: Nanos::new(k), cpu: CpuId(1), current: Tid(5), kind });
    }
}

/// Rows of cells, by RFC 4180.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(!quoted && cell.is_empty() && row.is_empty());
    rows
}

#[test]
fn both_formats_say_the_same_of_every_kind_and_as_documented() {
    let (mut json, mut table) = (Vec::new(), Vec::new());
    let (mut lines_sink, mut csv_sink) = (JsonLines::new(&mut json), Csv::new(&mut table));
    written(&mut lines_sink);
    written(&mut csv_sink);
    let count = every_kind().len() as u64;
    assert_eq!((lines_sink.finish().unwrap(), csv_sink.finish().unwrap()), (count, count));
    let (objects, rows) = (lines(&json), rows(std::str::from_utf8(&table).unwrap()));
    assert_eq!(rows.len(), objects.len() + 1);
    let mut keys = BTreeSet::new();
    for (object, row) in objects.iter().zip(&rows[1..]) {
        let object = object.as_object().unwrap();
        keys.extend(object.keys().cloned());
        let cells: BTreeMap<&str, &str> =
            rows[0].iter().zip(row).map(|(key, cell)| (key.as_str(), cell.as_str())).collect();
        assert_eq!((row.len(), cells.len()), (rows[0].len(), rows[0].len()));
        for (key, cell) in cells {
            let value = match object.get(key) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            assert_eq!(value, cell, "{key} of {object:?}");
        }
    }
    assert_eq!(objects[9]["handler"], "disk, \u{1}\"é\"");
    assert_eq!(
        (&objects[16]["timer"], &objects[16]["expires_ns"]),
        (&"0xffffffffffffffff".into(), &(-1).into())
    );
    let page = include_str!("../../../../docs/formats/trace-events.md");
    let listed = |prefix: &str| -> Vec<String> {
        let rows = page.lines().filter_map(|l| l.strip_prefix(prefix)?.split_once('`'));
        rows.map(|(key, _)| key.to_owned()).collect()
    };
    assert_eq!(listed("| `"), rows[0], "the page lists the columns in their order");
    assert_eq!(keys, rows[0].iter().cloned().collect(), "every column is some event's");
    assert!(objects.iter().any(|o| o["event"] == "cpu_idle" && o["system"] == "power" && o["raw"] == "00ff"));
    let decoded = objects.iter().filter(|o| o.get("raw").is_none());
    let names: BTreeSet<String> = decoded.map(|o| o["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed("- `").into_iter().collect::<BTreeSet<_>>(), names);
}

#[test]
fn lines_say_what_the_kernel_prints() {
    let text = std::fs::read_to_string(crate::support::fixtures().join("throttled/trace.txt")).unwrap();
    let theirs = crate::support::parse_text(&text);
    let ours = jsonl(Wanted::default());
    assert!(ours.len() > 300);
    assert_eq!(ours.len(), theirs.len());
    let in_words = |o: &Value| {
        let text = |key: &str| match &o[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let what = match o["event"].as_str().unwrap() {
            "sched_switch" => format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} next_prio={}",
                text("prev_name"),
                text("prev_tid"),
                text("prev_prio"),
                text("prev_state"),
                text("next_name"),
                text("next_tid"),
                text("next_prio")
            ),
            name @ ("sched_waking" | "sched_wakeup" | "sched_wakeup_new") => format!(
                "{name}: comm={} pid={} prio={} target_cpu={:03}",
                text("name"),
                text("thread"),
                text("prio"),
                o["to_cpu"].as_u64().unwrap()
            ),
            "print" => format!("tracing_mark_write: {}", text("text")),
            _ => return None,
        };
        let micros = (o["time_ns"].as_i64().unwrap() + 500) / 1000;
        Some((o["cpu"].as_u64().unwrap(), micros, o["tid"].as_i64().unwrap(), what))
    };
    let mut ours: Vec<_> = ours.iter().filter_map(in_words).collect();
    let kinds =
        ["sched_switch: ", "sched_waking: ", "sched_wakeup: ", "sched_wakeup_new: ", "tracing_mark_write: "];
    let mut theirs: Vec<_> = theirs
        .into_iter()
        .filter(|l| kinds.iter().any(|kind| l.what.starts_with(kind)))
        .map(|l| (u64::from(l.cpu), l.micros, i64::from(l.current), l.what))
        .collect();
    // Between CPUs, equal times may be listed in either order.
    ours.sort_by_key(|l| l.0);
    theirs.sort_by_key(|l| l.0);
    assert!(ours.len() > 50);
    assert_eq!(ours, theirs);
}

#[test]
fn only_wanted_events_come_out() {
    let all = jsonl(Wanted::default());
    let player = jsonl(Wanted { tids: vec![Tid(8795)], ..Wanted::default() });
    let concerns = |o: &Value| ["tid", "prev_tid", "next_tid", "thread"].iter().any(|key| o[*key] == 8795);
    assert_eq!(player, all.iter().filter(|o| concerns(o)).cloned().collect::<Vec<_>>());
    assert!(player.len() > 10 && player.len() < all.len());
    let named = jsonl(Wanted { names: vec![Comm::new("player")], ..Wanted::default() });
    assert!(named.iter().all(concerns), "only one thread has the name");
    assert!(named.len() > 10);
    let second = jsonl(Wanted { cpus: Some("1".parse().unwrap()), ..Wanted::default() });
    assert_eq!(second, all.iter().filter(|o| o["cpu"] == 1).cloned().collect::<Vec<_>>());
    let first = all[0]["time_ns"].as_i64().unwrap();
    let (from, to) = (Nanos::from_millis(5), Nanos::from_millis(20));
    let some = jsonl(Wanted { from: Some(from), to: Some(to), ..Wanted::default() });
    let within = |o: &&Value| (from.get()..to.get()).contains(&(o["time_ns"].as_i64().unwrap() - first));
    assert_eq!(some, all.iter().filter(within).cloned().collect::<Vec<_>>());
    assert!(!some.is_empty() && some.len() < all.len());
}

#[test]
fn an_output_that_fails_is_reported_and_left_alone() {
    let mut room = [0; 100];
    let mut sink = JsonLines::new(room.as_mut_slice());
    written(&mut sink);
    assert_eq!(sink.finish().unwrap_err().kind(), std::io::ErrorKind::WriteZero);
    let mut sink = Csv::new([0u8; 0].as_mut_slice());
    written(&mut sink);
    assert!(sink.finish().is_err());
}
