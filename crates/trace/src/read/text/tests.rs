//! Traces in text: what is read of them, and what is said of lines that hold none.

use super::*;
use surety_model::event::LeaveState;

fn read(text: &str) -> (TextTrace<Vec<u8>>, ReadSummary, Vec<String>) {
    let mut events = Vec::new();
    let mut trace = TextTrace::open(text.as_bytes().to_vec()).unwrap();
    let mut sink = |event: &Event<'_>| {
        let what = match event.kind {
            EventKind::Marker { text } => text.to_owned(),
            EventKind::Lost { count } => format!("lost {count:?}"),
            EventKind::Switch { prev_state, .. } => format!("{prev_state:?}"),
            other => format!("{other:?}"),
        };
        events.push(format!("{} {} {} {what}", event.time.get(), event.cpu.0, event.current));
    };
    let summary = trace.read(&mut sink).unwrap();
    (trace, summary, events)
}

fn mark(time: &str, text: &str) -> String {
    format!("          player-42      [001] .....  {time}: tracing_mark_write: {text}\n")
}

#[test]
fn headers_say_what_was_lost_before_and_how_many_cpus_there_are() {
    let header = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 10/17   #P:8\n#\n";
    let (trace, summary, events) = read(&format!("{header}{}", mark("1.000001", "hello")));
    let described = trace.description();
    assert_eq!((described.format.as_str(), described.cpus), ("text, tracer nop", Some(8)));
    assert_eq!((summary.counted_lost, summary.lost_at_least(), summary.is_complete()), (Some(7), 7, false));
    assert_eq!(events, ["1000001000 1 42 hello"]);
    assert_eq!(summary.events, [EventCount { event: "ftrace:print".to_owned(), count: 1 }]);
    assert_eq!(summary.span, Some((Nanos::new(1_000_001_000), Nanos::new(1_000_001_000))));
}

#[test]
fn losses_are_told_with_the_next_event() {
    let text = format!(
        "cpus=4\nCPU 3 is empty\n{}CPU:2 [LOST 5 EVENTS]\nCPU:0 [EVENTS DROPPED]\nCPU:2 [2 EVENTS DROPPED]\n{}CPU:1 [LOST EVENTS]\n",
        mark("1.0", "a"),
        mark("2.0", "b")
    );
    let (trace, summary, events) = read(&text);
    assert_eq!(trace.description().cpus, Some(4));
    assert_eq!((summary.gaps, summary.lost, summary.delivered, summary.malformed), (4, 7, 2, 0));
    let expected = [
        "1000000000 1 42 a",
        "2000000000 0 0 lost None",
        "2000000000 2 0 lost Some(7)",
        "2000000000 1 42 b",
        "2000000000 1 0 lost None",
    ];
    assert_eq!(events, expected);
}

#[test]
fn times_never_go_back() {
    let text = format!("{}{}{}", mark("2.0", "a"), mark("1.5", "b"), mark("2.0", "c"));
    let (_, summary, events) = read(&text);
    assert_eq!((summary.disordered, summary.disorder_max), (1, Nanos::from_millis(500)));
    assert_eq!(events, ["2000000000 1 42 a", "2000000000 1 42 b", "2000000000 1 42 c"]);
}

#[test]
fn what_is_no_event_is_counted_with_its_place() {
    let long = "x".repeat(LINE_MAX + 1);
    let lines = [
        mark("1.0", "a line"),
        "its rest\n".to_owned(),
        "          player-42      [001] .....  1.000000: sched_waking: comm=a\n".to_owned(),
        "          player-42      [001] .....  1.000000: do_exit <-do_group_exit\n".to_owned(),
        "          player-42      [001] .....  1.000000: cpu_idle: state=1 cpu_id=1\n".to_owned(),
        " => schedule\n\n".to_owned(),
        format!("{long}\n"),
        "guest:           player-42      [001]  1.000000: print: tracing_mark_write: x\n".to_owned(),
    ];
    let (trace, summary, events) = read(&lines.concat());
    let offset = |k: usize| lines[..k].iter().map(String::len).sum::<usize>();
    assert_eq!(events, ["1000000000 1 42 a line"]);
    let faults = [
        format!("byte {}: there is no CPU in brackets", offset(1)),
        format!("byte {}: sched_waking with arguments of no form known", offset(2)),
        format!("byte {}: a line of more than {LINE_MAX} bytes", offset(6)),
    ];
    assert_eq!(summary.faults, faults);
    assert_eq!((summary.malformed, summary.unknown, summary.delivered), (3, 1, 1));
    let names: Vec<&str> = summary.events.iter().map(|e| e.event.as_str()).collect();
    assert_eq!(names, ["cpu_idle", "ftrace:print", "sched:sched_waking"]);
    assert_eq!(trace.unread(), ["the further buffer guest (1 lines)"]);
}

#[test]
fn hostile_names_of_events_cost_bounded_memory() {
    let text: String = (0..2 * NAMES_MAX)
        .map(|k| format!("          player-42      [001] .....  1.0: event{k}: \n"))
        .collect();
    let (_, summary, _) = read(&text);
    assert_eq!(summary.events.len(), NAMES_MAX);
    assert_eq!(summary.unknown, NAMES_MAX as u64);
}

#[test]
fn a_latency_tracers_text_is_refused() {
    let text =
        b"# tracer: wakeup\n#\n# wakeup latency trace v1.1.5 on 6.1\n# latency trace v1.1.5\n".to_vec();
    let error = TextTrace::open(text).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("latency tracer"), "{error}");
}

#[test]
fn a_text_is_told_by_its_lines() {
    for text in [
        "# tracer: nop\n",
        "cpus=2\n",
        "CPU 0 is empty\n",
        &mark("1.0", ""),
        "noise\n             a-1 [000] 1.0: e: x",
    ] {
        assert!(is_text(text.as_bytes()), "{text}");
    }
    for text in ["", "GIF89a", "hello\nworld", "{\"time\": 1}", "# tracer: nop\n\0", "CPU:x [LOST]"] {
        assert!(!is_text(text.as_bytes()), "{text}");
    }
}

#[test]
fn states_of_perf_and_trace_cmd_are_read_alike() {
    let lines = "\
              ab  7 [000]     1.000001:     sched:sched_switch: prev_comm=ab prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=3 next_prio=4\n\
              ab-7     [000]     1.000002: sched_switch:         ab:7 [120] S ==> b:3 [4]\n\
              ab-7     [000]     1.000003: sched_switch:         prev_comm=ab prev_pid=7 prev_prio=120 prev_state=256 next_comm=b next_pid=3 next_prio=4\n";
    let (_, summary, events) = read(lines);
    let preempted = LeaveState::Runnable { preempted: true };
    let expected = [(1, preempted), (2, LeaveState::Sleeping), (3, preempted)]
        .map(|(k, s)| format!("100000{k}000 0 7 {s:?}"));
    assert_eq!(events, expected);
    assert_eq!(summary.events, [EventCount { event: "sched:sched_switch".to_owned(), count: 3 }]);
}

#[test]
fn a_thread_that_perf_can_no_longer_number_is_still_known() {
    let switch = |head: &str, time: &str, prev: u32, state: &str, next: u32| {
        format!(
            "{head} [001] {time}: sched:sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state={state} ==> \
             next_comm=b next_pid={next} next_prio=120\n"
        )
    };
    let text = [
        switch("a 7", "1.0", 7, "S", 8),
        "             :-1    -1 [001]     2.0: sched:sched_waking: comm=c pid=9 prio=120 target_cpu=000\n"
            .to_owned(),
        switch("             :-1    -1", "3.0", 8, "X", 7),
    ];
    let (_, summary, events) = read(&text.concat());
    assert_eq!((summary.delivered, summary.malformed), (3, 0));
    let of: Vec<&str> = events.iter().filter_map(|event| event.split(' ').nth(2)).collect();
    assert_eq!(of, ["7", "8", "8"]);
}
