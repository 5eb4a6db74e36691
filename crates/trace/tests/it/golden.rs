//! Pages recorded on a 6.18 kernel (two CPUs, `mono` clock) against the kernel's own text of the same events.
//!
//! In the recording a program forks and executes another, and a deadline thread `player` (2 ms every 10 ms) does two
//! marked jobs: one of half a millisecond, one of 7 ms, for which it is throttled three times. That kernel records no
//! switch out of the idle thread on CPU 1, so two of the player's switch-ins have to be inferred.

use std::path::PathBuf;

use surety_model::event::Event;
use surety_model::job::{Job, Separation, ThreadHistory};
use surety_trace::{JobBuilder, Jobs, ReadSummary, TraceReader};
use surety_units::{Nanos, Tid};

const PLAYER: i32 = 8795;

fn recording() -> PathBuf {
    crate::support::fixtures().join("throttled")
}

fn kallsyms() -> String {
    std::fs::read_to_string(recording().join("kallsyms.txt")).unwrap()
}

fn read(kallsyms: &str, sink: &mut dyn surety_model::event::TraceSink) -> ReadSummary {
    let formats = crate::support::fixtures().join("formats");
    crate::support::pages(&recording(), &formats, kallsyms).read(sink).unwrap()
}

fn jobs(kallsyms: &str) -> Jobs {
    let mut builder = JobBuilder::new();
    read(kallsyms, &mut builder);
    builder.finish()
}

fn player(jobs: &Jobs) -> &ThreadHistory {
    jobs.threads.iter().find(|t| t.tid == Tid(PLAYER)).unwrap()
}

#[test]
fn every_event_is_what_the_kernel_prints() {
    let text = std::fs::read_to_string(recording().join("trace.txt")).unwrap();
    let expected = crate::support::parse_text(&text);
    let mut decoded = Vec::new();
    let mut sink = |event: &Event<'_>| decoded.push(crate::support::render(event));
    let summary = read(&kallsyms(), &mut sink);
    assert!(expected.len() > 300, "the fixture is there");
    crate::support::assert_same(&decoded, &expected);
    assert_eq!(summary.delivered, expected.len() as u64);
    assert!(summary.is_complete());
    assert_eq!((summary.unknown, summary.lost, summary.disordered), (0, 0, 0));
    let counted: u64 = summary.events.iter().map(|e| e.count).sum();
    assert_eq!(counted, summary.delivered);
}

/// The text's lines of events of the player's, as `(microseconds, line)`.
fn lines_with(what: &[&str]) -> Vec<(i64, String)> {
    let text = std::fs::read_to_string(recording().join("trace.txt")).unwrap();
    let matching = text.lines().zip(support_lines(&text));
    matching
        .filter(|(line, _)| what.iter().any(|w| line.contains(w)))
        .map(|(line, at)| (at, line.to_owned()))
        .collect()
}

fn support_lines(text: &str) -> Vec<i64> {
    text.lines()
        .map(|l| if l.starts_with('#') { 0 } else { crate::support::parse_text(l)[0].micros })
        .collect()
}

fn close(a: Nanos, micros: i64) -> bool {
    (a.get() - micros * 1000).abs() <= 1000
}

#[test]
fn marked_jobs_are_exact() {
    let jobs = jobs(&kallsyms());
    let player = player(&jobs);
    assert_eq!((player.separation, player.censored), (Separation::Markers, 0));
    let [first, second] = player.jobs.as_slice() else { panic!("{:?}", player.jobs) };
    // The release is the marker's own; the rest is compared with the text's microseconds.
    let markers = lines_with(&["surety:"]);
    for (job, index) in [(first, 0), (second, 1)] {
        let (_, begin) = &markers[2 * index];
        assert!(begin.ends_with(&format!("surety:b:{index}:{}", job.release.get())), "{begin}");
        assert!(close(job.completion, markers[2 * index + 1].0));
        assert_eq!(job.index, Some(index as u64));
        assert_sums(job);
    }
    // The first job's switch-in was recorded, the second's inferred: the CPU's last event before it was the exit of
    // the timer interrupt that woke the player.
    let switched_in = lines_with(&["next_comm=player"])[0].0;
    assert!(close(first.start, switched_in), "{first:?}");
    let (begin, _) = markers[2];
    let exit = lines_with(&["local_timer_exit"]).into_iter().rfind(|(at, _)| *at < begin).unwrap().0;
    assert!(close(second.start, exit), "{second:?}");
    assert_eq!(jobs.anomalies.inconsistent, 0);
    assert!(jobs.anomalies.inferred >= 2);
}

fn assert_sums(job: &Job) {
    assert!(job.release <= job.start && job.start <= job.completion);
    assert!(job.execution + job.throttled <= job.completion - job.start);
    assert!(job.interrupted <= job.execution);
}

/// From each switch-out of the player that the kernel calls runnable to the next expiry of a `dl_task_timer`, by the
/// text alone.
fn throttled_by_the_text() -> (u32, i64) {
    let (mut windows, mut total, mut since) = (0, 0, None);
    for (at, line) in lines_with(&["prev_comm=player", "hrtimer_expire_entry"]) {
        if line.contains("prev_state=R ") {
            since = Some(at);
        } else if line.contains("function=dl_task_timer")
            && let Some(since) = since.take()
        {
            windows += 1;
            total += at - since;
        }
    }
    (windows, total)
}

#[test]
fn throttling_is_told_from_preemption() {
    let (windows, micros) = throttled_by_the_text();
    assert_eq!(windows, 3);
    let jobs = jobs(&kallsyms());
    let second = player(&jobs).jobs[1];
    // The timer leaves its queue (`hrtimer_cancel`, not in every kernel's trace of an expiry) a moment before it is
    // said to expire.
    assert!((second.throttled.get() - micros * 1000).abs() < 15_000, "{second:?}, text {micros} us");
    assert_eq!(second.preemptions, 0);
    assert_eq!(player(&jobs).jobs[0].throttled, Nanos::ZERO);
}

#[test]
fn a_hidden_symbol_table_changes_no_job() {
    let hidden = kallsyms().lines().map(|l| format!("{}{}\n", "0".repeat(16), &l[16..])).collect::<String>();
    assert_eq!(player(&jobs(&hidden)), player(&jobs(&kallsyms())));
}

#[test]
fn the_executed_program_lives_once() {
    let jobs = jobs(&kallsyms());
    let program: Vec<&ThreadHistory> = jobs.threads.iter().filter(|t| t.comm.text() == "true").collect();
    let [program] = program.as_slice() else { panic!("{program:?}") };
    assert!(program.run.is_positive() && program.run <= program.seen.1 - program.seen.0);
    assert_eq!(program.separation, Separation::BusyPeriod);
}

#[test]
fn sums_hold_for_every_thread() {
    let jobs = jobs(&kallsyms());
    assert!(jobs.threads.len() > 5);
    for thread in &jobs.threads {
        thread.jobs.iter().for_each(assert_sums);
        let executed: Nanos = thread.jobs.iter().map(|j| j.execution).sum();
        assert!(executed <= thread.run, "{thread:?}");
        assert!(thread.longest_wait <= thread.waited, "{thread:?}");
    }
}

#[test]
fn cut_recordings_keep_what_is_readable() {
    let formats = crate::support::fixtures().join("formats");
    let whole = std::fs::read(recording().join("cpu0.raw")).unwrap();
    let mut before = 0;
    for cut in (0..=whole.len()).step_by(61) {
        let source = [(surety_units::CpuId(0), whole[..cut].to_vec())];
        let table = crate::support::table(&formats, "");
        let mut reader = surety_trace::RawPages::new(table, crate::support::layout(&formats), source);
        let summary = reader.read(&mut |_: &Event<'_>| {}).unwrap();
        assert!(summary.delivered >= before && summary.malformed == 0, "cut at {cut}");
        before = summary.delivered;
    }
    assert!(before > 50);
}
