//! Traces as text give the events of the records they were printed from: the kernel's own text of the same buffer in every
//! layout of its columns, trace-cmd's of a file, on this machine and on another.

use std::process::Command;

use crate::support::{Line, render};
use surety_model::event::{Event, EventKind, LeaveState};
use surety_trace::{JobBuilder, Jobs, ReadSummary, TextTrace, TraceDat, TraceReader};
use surety_units::Nanos;

/// Events in words, jobs and summary of a text.
fn read(text: &str) -> (Vec<Line>, Jobs, ReadSummary) {
    let mut trace = surety_trace::open(text.as_bytes().to_vec()).unwrap();
    assert!(trace.description().format.starts_with("text"), "{:?}", trace.description());
    let (mut lines, mut jobs) = (Vec::new(), JobBuilder::new());
    let mut sink = |event: &Event<'_>| {
        lines.push(render(event));
        surety_model::event::TraceSink::event(&mut jobs, event);
    };
    let summary = trace.read(&mut sink).unwrap();
    (lines, jobs.finish(), summary)
}

fn recorded() -> (Vec<Line>, String) {
    let recording = crate::support::fixtures().join("throttled");
    let symbols = std::fs::read_to_string(recording.join("kallsyms.txt")).unwrap();
    let mut pages = crate::support::pages(&recording, &crate::support::fixtures().join("formats"), &symbols);
    let mut decoded = Vec::new();
    pages.read(&mut |event: &Event<'_>| decoded.push(render(event))).unwrap();
    (decoded, std::fs::read_to_string(recording.join("trace.txt")).unwrap())
}

/// The parts of a line of the kernel's: thread's name, its id, CPU in brackets, flags, the rest.
fn parts(line: &str) -> [&str; 5] {
    let (task, rest) = line.split_once(" [").unwrap();
    let (comm, tid) = task.trim().rsplit_once('-').unwrap();
    let (cpu, rest) = rest.split_once("] ").unwrap();
    let (flags, rest) = rest.split_once(' ').unwrap();
    [comm, tid.trim(), cpu, flags, rest.trim_start()]
}

#[test]
fn the_kernels_text_of_a_buffer_is_what_its_pages_hold_in_every_layout() {
    let (decoded, text) = recorded();
    assert!(decoded.len() > 300);
    let events = || text.lines().filter(|line| !line.starts_with('#')).map(parts);
    let header = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 335/335   #P:2\n#\n";
    let real_time = "\
#                                _-------=> irqs-off/BH-disabled\n\
#                               / _------=> need-resched\n\
#                              | / _-----=> need-resched-lazy\n\
#                              || / _----=> hardirq/softirq\n\
#                              ||| / _---=> preempt-depth\n\
#                              |||| / _--=> preempt-lazy-depth\n\
#                              ||||| / _-=> migrate-disable\n\
#                              |||||| /     delay\n\
#           TASK-PID     CPU#  |||||||  TIMESTAMP  FUNCTION\n\
#              | |         |   |||||||     |         |\n";
    let layout = |write: &dyn Fn([&str; 5]) -> String| events().map(write).collect::<String>();
    let layouts = [
        text.clone(),
        // trace_pipe.
        layout(&|[comm, tid, cpu, flags, rest]| format!("{comm:>16}-{tid:<7} [{cpu}] {flags}  {rest}\n")),
        // A real-time kernel's columns.
        format!(
            "{header}{real_time}{}",
            layout(&|[comm, tid, cpu, flags, rest]| {
                let wide = format!("{}n{}l.", &flags[..1], &flags[2..]);
                format!("{comm:>16}-{tid:<7} [{cpu}] {wide}  {rest}\n")
            })
        ),
        // With the thread's group, known or not.
        layout(&|[comm, tid, cpu, flags, rest]| {
            let group = if tid == "0" { "-------".to_owned() } else { format!("{tid:>7}") };
            format!("{comm:>16}-{tid:<7} ({group}) [{cpu}] {flags}  {rest}\n")
        }),
        // Without flags.
        format!(
            "{header}#           TASK-PID     CPU#     TIMESTAMP  FUNCTION\n{}",
            layout(&|[comm, tid, cpu, _, rest]| format!("{comm:>16}-{tid:<7} [{cpu}]  {rest}\n"))
        ),
        // As perf script lays lines out, which names systems.
        layout(&|[comm, tid, cpu, _, rest]| {
            let (stamp, rest) = rest.split_once(": ").unwrap();
            let rest = match rest.split_once(':').unwrap() {
                (name, arguments) if name.starts_with("sched_") => format!("sched:{name}:{arguments}"),
                _ => rest.to_owned(),
            };
            format!("{comm:>16} {tid:>7} [{cpu}] {stamp}: {rest}\n")
        }),
    ];
    let jobs = read(&text).1;
    for text in layouts {
        let (lines, same_jobs, summary) = read(&text);
        crate::support::assert_same(&decoded, &lines);
        assert_eq!(same_jobs, jobs);
        assert!(summary.is_complete(), "{summary:?}");
        assert_eq!(summary.delivered, decoded.len() as u64);
    }
}

/// An event in words, as much of it as a text can say: `digits` of its time, states that are `known`.
fn said(event: &Event<'_>, digits: u32, known: bool) -> (u32, i64, i32, String) {
    let unit = 10i64.pow(9 - digits);
    let time = (event.time.get() + unit / 2) / unit;
    let mut kind = event.kind;
    if let EventKind::Switch { prev_state, .. } = &mut kind {
        *prev_state = match *prev_state {
            // trace-cmd's short form leaves out the mark of a preempted thread.
            LeaveState::Runnable { .. } if !known => LeaveState::Runnable { preempted: false },
            // A dead thread that nobody waits for was `x` once, of the number that is `P` now.
            LeaveState::Other(b'x' | b'P') => LeaveState::Other(b'P'),
            other => other,
        };
    }
    (event.cpu.0, time, event.current.0, format!("{kind:?}"))
}

#[test]
fn trace_cmds_text_of_a_file_is_what_the_file_holds() {
    let Some(path) = crate::support::tracedat::foreign() else { return };
    let file = std::fs::read(&path).unwrap();
    for (arguments, digits, known) in [
        (["report"].as_slice(), 6, false),
        (&["report", "-t"], 9, false),
        (&["report", "-R"], 6, true),
        (&["report", "-R", "-t"], 9, true),
    ] {
        let output = match Command::new("trace-cmd").args(arguments).arg(&path).output() {
            Ok(output) => output,
            Err(error) => {
                eprintln!("SKIPPED: trace-cmd cannot be started ({error}); install the package trace-cmd");
                return;
            }
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let of_file = TraceDat::open(&file)
            .unwrap()
            .read(&mut |e: &Event<'_>| ours.push(said(e, digits, known)))
            .unwrap();
        let mut text = TextTrace::open(output.stdout).unwrap();
        let of_text = text.read(&mut |e: &Event<'_>| theirs.push(said(e, digits, known))).unwrap();
        assert_eq!(text.description().cpus, Some(6));
        // Of events of one time on two CPUs trace-cmd may print either first.
        ours.sort_by_key(|event| event.0);
        theirs.sort_by_key(|event| event.0);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{arguments:?}");
        }
        assert_eq!(ours.len(), theirs.len());
        assert!(ours.len() > 400, "{}", ours.len());
        assert_eq!(
            (of_text.malformed, of_text.unknown, of_text.disordered),
            (0, 0, 0),
            "{:?}",
            of_text.faults
        );
        let total = |summary: &ReadSummary| summary.events.iter().map(|event| event.count).sum::<u64>();
        assert_eq!((total(&of_text), of_text.delivered), (total(&of_file), of_file.delivered));
        let (first, last) = of_file.span.unwrap();
        let (text_first, text_last) = of_text.span.unwrap();
        for (exact, printed) in [(first, text_first), (last, text_last)] {
            assert!((exact - printed).get().abs() <= Nanos::from_micros(1).get());
        }
    }
}

#[test]
fn trace_cmds_text_of_our_file_gives_the_same_jobs_as_its_records() {
    let file = crate::support::tracedat::fixture();
    let path = std::env::temp_dir().join(format!("surety-trace-text-{}.dat", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let output = Command::new("trace-cmd").args(["report", "-R", "-t"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let Ok(output) = output else {
        eprintln!("SKIPPED: trace-cmd cannot be started; install the package trace-cmd");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (lines, jobs, summary) = read(&text);
    let mut exact = JobBuilder::new();
    TraceDat::open(&file).unwrap().read(&mut exact).unwrap();
    let exact = exact.finish();
    assert!(summary.is_complete(), "{summary:?}");
    assert!(lines.len() > 300);
    // Nanoseconds are printed, so nothing but the functions of timers can differ.
    let threads = |jobs: &Jobs| {
        jobs.threads.iter().map(|t| (t.tid, t.comm, t.jobs.len(), t.run, t.seen)).collect::<Vec<_>>()
    };
    assert_eq!(threads(&jobs), threads(&exact));
}

/// Lines of `trace-cmd report` of a recording of Linux 6.18, of an older kernel and of perf, with what the records say.
#[test]
fn block_events_are_read_in_the_words_of_every_printer() {
    let text = "\
          surety-6020  [000]  3526.848243672: block_rq_insert:      254,0 WS 4096 () 174503872 + 8 0x2,0,4 [surety]\n\
            a b c-5997  [001]  3526.848679894: block_rq_issue:      254,0 WS 4096 () 174503872 + 8 be,0,4 [a [b] c]\n\
         python3-5997  [001]  3526.848881300: block_rq_complete:    254,0 FF () 18446744073709551615 + 0 none,0,0 [-5]\n\
         python3-5997  [001]  3526.848881400: block_rq_complete:    8,16 R () 8 + 8 [0]\n\
         python3-5997  [001]  3526.848881500: block_bio_queue:      8,16 RA 8 + 8 [python3]\n";
    let mut found = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Block(b) = event.kind {
            found.push(format!(
                "{} {},{} {} {}+{} {} {:#x} {:?} {}",
                b.step.name(),
                b.disk.major,
                b.disk.minor,
                b.rwbs.text(),
                b.sector,
                b.sectors,
                b.bytes,
                b.priority,
                b.comm.text(),
                b.error
            ));
        }
    };
    TextTrace::open(text.as_bytes()).unwrap().read(&mut sink).unwrap();
    assert_eq!(
        found,
        [
            "block_rq_insert 254,0 WS 174503872+8 4096 0x4004 \"surety\" 0",
            "block_rq_issue 254,0 WS 174503872+8 4096 0x4004 \"a [b] c\" 0",
            "block_rq_complete 254,0 FF 18446744073709551615+0 0 0x0 \"\" -5",
            "block_rq_complete 8,16 R 8+8 0 0x0 \"\" 0",
            "block_bio_queue 8,16 RA 8+8 0 0x0 \"python3\" 0",
        ]
    );
}
