//! Files drawn from threads whose jobs are known.

use std::collections::BTreeMap;

use surety_host::watching::{Sight, WatchedThread, Watching};
use surety_model::event::Comm;
use surety_model::formats::toml;
use surety_model::job::{Job, Separation, ThreadHistory};
use surety_model::platform::Platform;
use surety_model::workload::{Program, Release, Task, TaskBody, ThreadRole};
use surety_session::histories::Histories;
use surety_stats::random::Pcg;
use surety_units::{CpuId, Nanos, Tid};

use super::portrait::{Portrait, Subject, TooLittle, draw};

/// A thread's name, its jobs, and for how many microseconds it was busy beside them.
type Thread = (&'static str, Vec<Job>, i64);

const SPAN: Nanos = Nanos::from_secs(5);

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

/// Jobs with these releases, each of this work.
fn jobs(releases: impl Iterator<Item = i64>, work: i64) -> Vec<Job> {
    let job = |release: i64| Job {
        release: us(release),
        start: us(release),
        cpu: CpuId(0),
        completion: us(release + work),
        execution: us(work),
        interrupted: Nanos::ZERO,
        preemptions: 0,
        preempted: Nanos::ZERO,
        throttled: Nanos::ZERO,
        inferred: Nanos::ZERO,
        unknown: Nanos::ZERO,
        index: None,
    };
    releases.map(job).collect()
}

/// Threads with their jobs, numbered from 1; a thread without jobs never slept for this time.
fn seen(sight: Sight, threads: &[Thread]) -> (Watching, Histories) {
    let mut watching = Watching {
        threads: Vec::new(),
        window: (Nanos::ZERO, SPAN),
        used: Nanos::ZERO,
        sight,
        unseen: Vec::new(),
        lost: 0,
        ended: None,
    };
    let mut histories = Histories {
        threads: Vec::new(),
        wakers: Default::default(),
        window: Some(watching.window),
        around: None,
    };
    for (number, (comm, jobs, busy)) in threads.iter().enumerate() {
        let tid = Tid(number as i32 + 1);
        let run = jobs.iter().map(|job| job.execution).sum::<Nanos>() + us(*busy);
        watching.threads.push(WatchedThread {
            tid,
            role: ThreadRole { comm: (*comm).to_owned(), rank: 0 },
            run,
            waited: Nanos::ZERO,
            slept: jobs.len() as u64,
            places: BTreeMap::from([("hrtimer_nanosleep".to_owned(), 9)]),
            ready: 0,
        });
        watching.used += run;
        histories.threads.push(ThreadHistory {
            tid,
            comm: Comm::new(comm),
            prio: 120,
            separation: Separation::BusyPeriod,
            jobs: jobs.clone(),
            open: None,
            censored: 0,
            doubtful: Vec::new(),
            run,
            interrupted: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            seen: (Nanos::ZERO, SPAN),
        });
    }
    (watching, histories)
}

fn drawn(sight: Sight, threads: &[Thread]) -> Result<Portrait, TooLittle> {
    let (watching, histories) = seen(sight, threads);
    let body = TaskBody::Command(Program::new("player a.mkv"));
    let platform = Platform::linux_6_18(2);
    let subject = Subject { body, name: "the player", caveat: None, platform: &platform, file: "my.toml" };
    draw(&subject, &watching, &histories)
}

/// The one task of what was drawn, read back from its text.
fn task_of(portrait: &Portrait) -> Task {
    let workload = toml::read("drawn", &portrait.text).unwrap_or_else(|e| panic!("{e}: {}", portrait.text));
    assert_eq!(workload.tasks.len(), 1);
    workload.tasks[0].clone()
}

fn promise_of(task: &Task) -> String {
    task.promises[0].to_string().replace(' ', "")
}

#[test]
fn a_thread_on_a_grid_is_promised_its_period() {
    for period in [2_000, 10_000, 40_000] {
        let releases = (0..5_000_000 / period).map(|k| 300 + k * period + k % 3 * 20);
        let portrait = drawn(Sight::Tracer, &[("player", jobs(releases, period / 5), 0)]).unwrap();
        let task = task_of(&portrait);
        let Release::Periodic { period: found, .. } = task.release else { panic!("{:?}", task.release) };
        assert!((found - us(period)).get().abs() * 100 < us(period).get(), "{found}");
        assert_eq!(task.name, "the-player");
        assert!(promise_of(&task).starts_with("response<="), "{}", portrait.text);
        // The line for the simulator is one that a workload takes.
        let line = portrait.text.lines().find_map(|line| Some(line.split_once("rights: ")?.1)).unwrap();
        let simulated = portrait.text.replace("command = \"player a.mkv\"", line);
        assert!(task_of(&Portrait { text: simulated, found: String::new() }).body.is_made());
        assert!(portrait.text.contains("waits for a timer"), "{}", portrait.text);
    }
}

#[test]
fn a_thread_that_sleeps_for_a_time_is_promised_that_time() {
    // It works for 1 to 4 ms and then sleeps for 10.05 ms, now and then longer: no grid.
    let mut now = 0;
    let mut list = Vec::new();
    for k in 0..300_i64 {
        let work = 1_000 + k * k * 37 % 3_000;
        list.extend(jobs(std::iter::once(now), work));
        now += work + 10_050 + k * 7 % 11 * (k % 13) * 30;
    }
    let portrait = drawn(Sight::Tracer, &[("loop", list, 0)]).unwrap();
    assert_eq!(task_of(&portrait).release, Release::Sporadic { gap: us(10_000) }, "{}", portrait.text);
    assert!(portrait.text.contains("not until an instant"), "{}", portrait.text);
}

/// Late by up to 0.5 ms, in no order, and one in seven wake-ups by up to 6 ms.
fn late(generator: &mut Pcg) -> i64 {
    let most = if generator.below(7) == 0 { 6_000 } else { 500 };
    generator.below(most) as i64
}

/// Releases of a thread that sleeps, by the time of the one before and of its end.
fn sleeping(seed: u128, count: i64, next: impl Fn(i64, i64, i64) -> i64) -> Vec<Job> {
    let mut generator = Pcg::new(seed, 3);
    let mut now = 0;
    let job = |_| {
        let work = 1_000 + generator.below(100) as i64;
        let job = jobs(std::iter::once(now), work);
        now = next(now, now + work, late(&mut generator) / 4);
        job
    };
    (0..count).flat_map(job).collect()
}

/// Late wake-ups: on a grid the next pause is shorter, after a sleep everything moves.
#[test]
fn late_wake_ups_do_not_make_a_grid_a_sleep_or_a_sleep_a_grid() {
    for seed in 0..20 {
        let mut generator = Pcg::new(seed, 4);
        let on_grid = jobs((0..500).map(|k| k * 10_000 + late(&mut generator) / 4), 1_000);
        let portrait = drawn(Sight::Tracer, &[("grid", on_grid, 0)]).unwrap();
        let Release::Periodic { period, .. } = task_of(&portrait).release else {
            panic!("{}", portrait.text)
        };
        assert!((period - us(10_000)).get().abs() < 10_000, "{period}");
        // `sleep(0.01)` after work of 1 ms: nearly even, and the mean is no period of it.
        let after_work = sleeping(seed, 440, |_, end, late| end + 10_050 + late);
        let portrait = drawn(Sight::Tracer, &[("sleep", after_work, 0)]).unwrap();
        assert_eq!(task_of(&portrait).release, Release::Sporadic { gap: us(10_000) }, "{}", portrait.text);
        assert!(portrait.text.contains("after each job"), "{}", portrait.text);
        assert_eq!(promise_of(&task_of(&portrait)), "response<=10ms@99%");
        // The same on a quiet machine, late by as much above the median as below it.
        let quiet = sleeping(seed, 440, |_, end, late| end + 10_050 + late % 60);
        let portrait = drawn(Sight::Tracer, &[("sleep", quiet, 0)]).unwrap();
        assert_eq!(task_of(&portrait).release, Release::Sporadic { gap: us(10_000) }, "{}", portrait.text);
    }
}

/// `sleep(0.01 - passed)`: its jobs begin that far apart, and drift all the same.
#[test]
fn who_sleeps_for_the_rest_of_a_time_is_promised_all_of_it() {
    let mut generator = Pcg::new(1, 5);
    let mut now = 0;
    let mut list = Vec::new();
    for _ in 0..440 {
        list.extend(jobs(std::iter::once(now), 2_000 + generator.below(3_000) as i64));
        now += 10_050 + late(&mut generator) / 4;
    }
    let portrait = drawn(Sight::Tracer, &[("rest", list, 0)]).unwrap();
    assert_eq!(task_of(&portrait).release, Release::Sporadic { gap: us(10_000) }, "{}", portrait.text);
    assert!(portrait.text.contains("however long they take"), "{}", portrait.text);
}

/// Jobs that no reservation keeps in time are no response to promise.
#[test]
fn a_response_that_cannot_be_reserved_is_not_promised() {
    // 9.3 ms in every 10 ms of a grid, and 30 ms of work between sleeps of 1 ms.
    let full = jobs((0..500).map(|k| k * 10_000), 9_300);
    let long = sleeping(1, 160, |_, end, late| end + 29_000 + late);
    let long: Vec<Job> = long
        .into_iter()
        .map(|job| Job { completion: job.completion + us(28_000), execution: us(29_000), ..job })
        .collect();
    for list in [full, long] {
        let portrait = drawn(Sight::Tracer, &[("full", list, 0)]).unwrap();
        assert!(promise_of(&task_of(&portrait)).starts_with("share>=8"), "{}", portrait.text);
        assert!(portrait.text.contains("no reservation"), "{}", portrait.text);
    }
}

#[test]
fn what_has_no_jobs_of_one_thread_is_promised_a_share_by_what_it_used() {
    let grid = |work| jobs((0..500).map(|k| k * 10_000), work);
    let events = jobs((0..400_i64).map(|k| k * 12_000 + k * k * 7_919 % 11_000), 600);
    let busy = SPAN.get() / 1_000;
    let cases: [(Sight, Vec<Thread>, &str, &str); 4] = [
        // Two threads alike, and a tenth more than they used.
        (
            Sight::Tracer,
            vec![("a", grid(2_000), 0), ("b", grid(2_000), 0)],
            "share>=44%",
            "2 threads do its work",
        ),
        (Sight::Tracer, vec![("server", events, 0)], "share>=6%", "without a period"),
        // Never more than can be reserved.
        (Sight::OwnSwitches, vec![("hog", Vec::new(), busy)], "share>=84%", "it never waits"),
        (Sight::Samples, vec![("player", grid(2_000), 0)], "share>=22%", "could not be seen"),
    ];
    for (sight, threads, promise, why) in cases {
        let portrait = drawn(sight, &threads).unwrap();
        let task = task_of(&portrait);
        assert_eq!(
            (promise_of(&task).as_str(), task.release),
            (promise, Release::Unspecified),
            "{}",
            portrait.text
        );
        assert!(portrait.text.contains(why), "{}", portrait.text);
        assert_eq!(portrait.text.contains("Not seen:"), sight != Sight::Tracer, "{}", portrait.text);
        let TaskBody::Command(program) = &task.body else { panic!("{:?}", task.body) };
        assert_eq!(program.worker.is_some(), sight != Sight::Tracer);
    }
}

#[test]
fn a_program_that_slept_gives_no_file() {
    let little = drawn(Sight::Tracer, &[("daemon", Vec::new(), 0)]).err().expect("nothing to promise");
    assert!(
        little.what.contains("it slept; it waits for a timer") && little.remedy.contains("--for"),
        "{little:?}"
    );
    // A rhythm is something to promise, however little it takes.
    let ticks = jobs((0..50).map(|k| k * 100_000), 20);
    assert!(drawn(Sight::Tracer, &[("daemon", ticks, 0)]).is_ok());
}
