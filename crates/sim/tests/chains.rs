//! Chains: each rule by an example whose times are worked out by hand, and laws that hold of any.

mod common;

use common::{simulate, workload, world};
use proptest::prelude::*;
use surety_model::record::{ActivityRecord, Record, stages_of};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_units::{CpuSet, Nanos};

/// The least and the largest of a series or of the responses, in ms.
fn range(record: &Record, name: &str, series: &str) -> (f64, f64) {
    let activity = record.activity(name).expect("it is there");
    let found = if series == "response" { activity.response.as_ref() } else { activity.series.get(series) };
    let moments = &found.expect("it has times").observed().expect("it was seen").moments;
    let in_ms = |time: Option<f64>| time.expect("there are values") / 1e6;
    (in_ms(moments.min()), in_ms(moments.max()))
}

fn figure(activity: &ActivityRecord, name: &str) -> f64 {
    activity.figures.iter().find(|figure| figure.name == name).expect("it has the figure").value
}

fn task(name: &str, lines: &str) -> String {
    format!("[[task]]\nname = '{name}'\n{lines}\n")
}

fn chain(name: &str, start: &str, through: &str) -> String {
    format!(
        "[[chain]]\nname = '{name}'\nstart = {start}\nthrough = [{through}]\npromise = 'response <= 20ms @ 95%'\n"
    )
}

fn every(period: &str) -> String {
    format!("{{ kind = 'periodic', period = '{period}' }}")
}

#[test]
fn fed_stages_run_one_after_another() {
    let text = task("ui", "work = '2ms'")
        + &task("draw", "work = '3ms'")
        + &chain("key", &every("100ms"), "'ui', 'draw'");
    let record = simulate(&text, 1, 1);
    let key = record.activity("key").unwrap();
    assert_eq!((key.activations, key.completed, key.missed), (10, 10, 0));
    assert_eq!(range(&record, "key", "response"), (5.0, 5.0));
    for (part, time) in [("1 ui wait", 0.0), ("1 ui run", 2.0), ("2 draw wait", 0.0), ("2 draw run", 3.0)] {
        assert_eq!(range(&record, "key", part), (time, time), "{part}");
    }
    assert_eq!(
        stages_of(key).iter().map(|stage| (stage.task, stage.all())).collect::<Vec<_>>(),
        [("ui", 2e6), ("draw", 3e6)]
    );
    // A fed task has a job for each delivery, released by it.
    let draw = record.activity("draw").unwrap();
    assert_eq!((draw.activations, draw.completed), (10, 10));
    assert_eq!(range(&record, "draw", "response"), (3.0, 3.0));
}

/// Events at 0, 35, 70, ... and jobs at 0, 10, 20, ...: an event waits for the next of them, 5 ms or not at all.
#[test]
fn a_task_on_a_grid_takes_what_is_there_when_its_job_starts() {
    let text = task("frame", "period = '10ms'\nwork = '1ms'") + &chain("key", &every("35ms"), "'frame'");
    let record = simulate(&text, 1, 1);
    assert_eq!(range(&record, "key", "response"), (1.0, 6.0));
    assert_eq!(range(&record, "key", "1 frame wait"), (0.0, 5.0));
    assert_eq!(record.activity("frame").unwrap().activations, 100);
}

/// The job of a grid starts late, behind 4 ms of a realtime thread, and takes the event that came meanwhile.
#[test]
fn what_comes_before_a_late_job_starts_is_taken_by_it() {
    let text = task("frame", "period = '10ms'\nwork = '1ms'")
        + &task("rt", "period = '10ms'\nwork = '4ms'\npolicy = 'fifo:10'")
        + &task("input", "period = '10ms'\nstart = '0ms'\nwork = '1ms'\npolicy = 'fifo:20'")
        + &chain("key", &every("10ms"), "'input', 'frame'");
    let record = simulate(&text, 1, 1);
    // input 0 to 1, rt to 5, frame to 6.
    assert_eq!(range(&record, "key", "response"), (6.0, 6.0));
    assert_eq!(range(&record, "key", "2 frame wait"), (4.0, 4.0));
}

/// Five events come between two frames; they are one delivery from there on.
#[test]
fn events_that_one_job_took_stay_together() {
    let text = task("frame", "period = '20ms'\nwork = '2ms'")
        + &task("present", "work = '1ms'")
        + &chain("pen", &every("4ms"), "'frame', 'present'");
    let record = simulate(&text, 1, 1);
    let pen = record.activity("pen").unwrap();
    // Those of the last frame come after it has begun and are open.
    assert_eq!((pen.activations, pen.completed, pen.unfinished), (250, 246, 4));
    assert_eq!(figure(pen, "taken together"), 246.0);
    // Released 16, 12, 8, 4 ms before a frame or with it: 3 ms more.
    assert_eq!(range(&record, "pen", "response"), (3.0, 19.0));
    assert_eq!(record.activity("present").unwrap().activations, 50);
}

#[test]
fn more_events_than_a_stage_can_handle_wait_and_are_late() {
    let text = task("slow", "work = '8ms'") + &chain("key", &every("5ms"), "'slow'");
    let record = simulate(&text, 1, 1);
    let key = record.activity("key").unwrap();
    // By 1.5 s 187 jobs are done, 100 of them of events before 0.5 s.
    assert_eq!((key.activations, key.completed, key.unfinished), (200, 87, 113));
    assert_eq!(range(&record, "key", "response").1, 187.0 * 8.0 - 186.0 * 5.0);
    let slow = record.activity("slow").unwrap();
    assert_eq!((slow.activations, slow.completed, slow.unfinished), (200, 87, 113));
    assert_eq!(key.missed, 87 + 113 - 4, "open for 20 ms at most: those of the last 20 ms");
}

/// `both` is the first stage of one chain and the second of another, and takes what came first.
#[test]
fn a_task_of_two_chains_handles_what_comes_first() {
    let text = task("first", "work = '3ms'")
        + &task("both", "work = '2ms'")
        + &chain("a", &every("20ms"), "'first', 'both'")
        + &chain("b", &every("20ms"), "'both'");
    let record = simulate(&text, 1, 2);
    // On two CPUs: b is handled from 0 to 2, a reaches `both` at 3 and is done at 5.
    assert_eq!(range(&record, "a", "response"), (5.0, 5.0));
    assert_eq!(range(&record, "b", "response"), (2.0, 2.0));
    assert_eq!(record.activity("both").unwrap().activations, 100);
}

#[test]
fn a_stage_without_a_cpu_is_held_up() {
    let text = task("ui", "work = '2ms'\npolicy = 'fifo:10'")
        + &task("rt", "period = '100ms'\nstart = '1ms'\nwork = '5ms'\npolicy = 'fifo:20'")
        + &chain("key", &every("100ms"), "'ui'");
    let record = simulate(&text, 1, 1);
    assert_eq!(range(&record, "key", "response"), (7.0, 7.0));
    assert_eq!(range(&record, "key", "1 ui held up"), (5.0, 5.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever runs beside: each event has one outcome, the parts make up the responses, no stage has more jobs than events, and the same
    /// run comes again to the bit.
    #[test]
    fn parts_make_up_the_response_and_runs_repeat(
        seed in 0_u64..1_000,
        works in prop::collection::vec(1_i64..9, 4),
        period in prop::option::of(5_i64..30),
        rate in 5_i64..120,
        spinners in 0_u32..4,
        cpus in 1_u32..3,
        nice in -10_i32..5,
    ) {
        let sampled = period.map_or(String::new(), |period| format!("period = '{period}ms'\n"));
        let mut text = String::new();
        for (place, work) in works.iter().enumerate() {
            let own = if place == 2 { sampled.as_str() } else { "" };
            let lines = format!("{own}work = {{ kind = 'exponential', mean = '{work}ms' }}\nnice = {nice}");
            text += &task(&format!("s{place}"), &lines);
        }
        if spinners > 0 {
            text += &format!("[[load]]\nname = 'spin'\nkind = 'spinners'\ncount = {spinners}\n");
        }
        text += &chain("a", &format!("{{ kind = 'poisson', rate = '{rate}/s' }}"), "'s0', 's1', 's2', 's3'");
        text += &chain("b", &every("33ms"), "'s3', 's2'");
        let options = RunOptions {
            seed,
            duration: Nanos::from_secs(2),
            cpus: Some(CpuSet::first(cpus)),
            ..RunOptions::default()
        };
        let run = || world().run(&workload(&text), &options, &mut Unobserved).unwrap();
        let record = run();
        prop_assert_eq!(record.hash, run().hash);
        for name in ["a", "b"] {
            let activity = record.activity(name).unwrap();
            prop_assert_eq!(activity.activations, activity.completed + activity.unfinished);
            let Some(response) = activity.response.as_ref().filter(|_| activity.completed > 0) else { continue };
            let mean = |d: &surety_model::record::Distribution| d.observed().unwrap().moments.mean().unwrap();
            let parts: f64 = stages_of(activity).iter().map(|stage| stage.all()).sum();
            prop_assert!((parts / mean(response) - 1.0).abs() < 1e-9, "{} of {}", parts, mean(response));
        }
    }
}
