//! Files of rt-app on the kernel that runs the tests: every event comes to its end, and none sooner than it may.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use surety_host::HostWorld;
use surety_kernel::cpu_group::CpuHierarchy;
use surety_kernel::journal::{Journal, RuntimeDir};
use surety_kernel::{Kernel as _, RealKernel, SchedPolicy};
use surety_model::formats::foreign::dialect_of;
use surety_model::record::{Distribution, Record};
use surety_model::world::{RunOptions, Unobserved, World, WorldError};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

/// Those with reservations one at a time: they share what the kernel admits.
static RESERVES: Mutex<()> = Mutex::new(());

fn try_play(text: &str, journal: Option<&Journal>) -> Result<Record, WorldError> {
    let workload = dialect_of("t.json", "")
        .expect("JSON is of rt-app")
        .read("t.json", text)
        .unwrap_or_else(|error| panic!("{error}"));
    let duration = Nanos::from_millis(800);
    let options = RunOptions { duration, warm_up: Nanos::ZERO, ..RunOptions::default() };
    HostWorld::new(&RealKernel::new(), journal).run(&workload, &options, &mut Unobserved)
}

fn play(text: &str) -> Record {
    try_play(text, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Completed passes, the shortest response in milliseconds, and the median of their executions: a hypervisor's time that the kernel learns of late
/// is taken off what runs by then (`update_rq_clock_task`), so that of one pass alone may lack most of it.
fn passes(record: &Record, name: &str) -> (u64, f64, f64) {
    let activity = record.activity(name).expect("it was run");
    let ms = |time: Option<Nanos>| time.map_or(f64::INFINITY, |time| time.get() as f64 / 1e6);
    let shortest =
        activity.response.as_ref().and_then(Distribution::observed).and_then(|times| times.moments.min());
    let middle = activity.execution.as_ref().and_then(|times| times.quantile(0.5));
    (activity.completed, shortest.map_or(f64::INFINITY, |ns| ns / 1e6), ms(middle))
}

#[test]
fn every_event_ends_and_none_too_soon() {
    let record = play(
        "{ \"tasks\": {
        \"sleeper\": { \"run\": 1000, \"sleep\": 9000 },
        \"timed\": { \"run\": 1000, \"timer\": { \"ref\": \"unique\", \"period\": 10000 } },
        \"busy\": { \"runtime\": 5000, \"sleep\": 5000, \"yield\": \"\" },
        \"thrice\": { \"loop\": 3, \"run\": 1000, \"sleep\": 1000 },
        \"looped\": { \"loop\": 1, \"phases\": { \"a\": { \"loop\": 5, \"sleep\": 2000 }, \"b\": { \"loop\": 5, \"run\": 1000 } } },
        \"late\": { \"delay\": 300000, \"loop\": 1, \"run\": 1000 },
        \"left\": { \"run\": 500, \"sleep\": 4000, \"barrier\": \"both\" },
        \"right\": { \"run\": 500, \"barrier\": \"both\" },
        \"suspended\": { \"suspend\", \"run\": 500 },
        \"resumer\": { \"sleep\": 10000, \"resume\": \"suspended\" },
        \"poster\": { \"sleep\": 10000, \"sem_post\": \"s\" },
        \"taker\": { \"sem_wait\": \"s\", \"run\": 500 },
        \"waiter\": { \"instance\": 2, \"lock\": \"m\", \"wait\": { \"ref\": \"q\", \"mutex\": \"m\" }, \"unlock\": \"m\", \"run\": 100 },
        \"broadcaster\": { \"sleep\": 10000, \"lock\": \"m\", \"broad\": \"q\", \"unlock\": \"m\" }
      } }",
    );
    // The CPU time of a job is that of its last run where that is its end; before a sleep the kernel charges it anew. It is read some
    // microseconds before or after the run begins.
    const READ: f64 = 0.02;
    for (name, response, execution) in [
        ("sleeper", 10.0, 0.0),
        ("busy", 10.0, 0.0),
        ("thrice", 2.0, 0.0),
        ("looped", 15.0, 0.0),
        ("late", 1.0, 0.0),
        ("left", 4.5, 0.0),
        ("right", 0.5, 0.0),
        ("taker", 0.5, 0.5),
        ("suspended", 0.5, 0.5),
        ("waiter", 0.1, 0.1),
    ] {
        let (count, shortest, middle) = passes(&record, name);
        assert!(
            count > 0 && shortest >= response && middle + READ >= execution,
            "{name}: {count}, {shortest}, {middle}"
        );
    }
    let count = |name: &str| passes(&record, name).0;
    assert_eq!((count("thrice"), count("looped"), count("late")), (3, 1, 1));
    // The 80 expiries of its timer, and none more.
    assert!((1..=80).contains(&count("timed")), "{}", count("timed"));
    assert!(count("left").abs_diff(count("right")) <= 1);
    assert!(count("suspended") <= count("resumer") && count("taker") <= count("poster"));
    assert!(count("waiter") <= 2 * count("broadcaster"));
}

/// The CPUs and nice values that a thread of this process is seen with as SCHED_BATCH, until it has come and gone.
fn batch_of_thread(name: &str) -> Vec<(CpuSet, i32)> {
    let kernel = RealKernel::new();
    let ends = Instant::now() + Duration::from_secs(20);
    let (mut found, mut seen) = (None, Vec::new());
    while Instant::now() < ends {
        std::thread::sleep(Duration::from_micros(200));
        let named = |tid: &Tid| kernel.name(*tid).is_ok_and(|other| other == name);
        found = found.or_else(|| kernel.threads(kernel.own_pid()).ok()?.into_iter().find(named));
        let Some(tid) = found else { continue };
        let (Ok(attr), Ok(cpus)) = (kernel.scheduler(tid), kernel.affinity(tid)) else { break };
        if let SchedPolicy::Batch { nice } = attr.policy
            && !seen.contains(&(cpus, nice))
        {
            seen.push((cpus, nice));
        }
    }
    seen
}

/// Two threads share a timer of 10 ms: as many passes as it has expiries, and both have some. Their CPUs and policies are those of their
/// phases, which is what was asked for.
#[test]
fn threads_share_a_timer_and_change_with_their_phases() {
    let seen = std::thread::spawn(|| batch_of_thread("c"));
    let tick = "\"timer\": { \"ref\": \"tick\", \"period\": 10000 }";
    let record = play(&format!(
        "{{ \"tasks\": {{
        \"a\": {{ \"run\": 100, {tick} }}, \"b\": {{ \"run\": 100, {tick} }},
        \"c\": {{ \"phases\": {{ \"p\": {{ \"cpus\": [0], \"policy\": \"SCHED_BATCH\", \"priority\": 3, \"run\": 500, \"sleep\": 1000 }},
                                \"q\": {{ \"priority\": 4, \"run\": 500 }} }} }} }} }}"
    ));
    let count = |name: &str| passes(&record, name).0;
    assert!(
        count("a") > 1 && count("b") > 1 && count("a") + count("b") <= 80,
        "{} {}",
        count("a"),
        count("b")
    );
    let (completed, shortest, _) = passes(&record, "c");
    assert!(completed > 1 && shortest >= 2.0, "{completed} {shortest}");
    let threads = &record.in_force.threads;
    assert!(threads.iter().all(|thread| thread.as_requested), "{threads:?}");
    let seen = seen.join().expect("it only looks");
    let all = RealKernel::new().affinity(Tid(0)).expect("one's own");
    for expected in [(CpuSet::single(CpuId(0)), 3), (all, 4)] {
        assert!(seen.contains(&expected), "{expected:?} {seen:?}");
    }
}

/// 1 ms of a budget of 2 ms in 20, then 1 ms without one: two passes each period. What is left of the budget is more than it can have overrun, but where the
/// machine takes its CPU away in between.
#[test]
fn a_thread_that_overran_nothing_comes_back_to_its_reservation_at_once() {
    if RealKernel::new().effective_user() != 0 {
        return;
    }
    let _alone = RESERVES.lock().unwrap_or_else(PoisonError::into_inner);
    let deadline =
        "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 20000, \"run\": 1000";
    let other = "\"policy\": \"SCHED_OTHER\", \"priority\": -10, \"run\": 1000";
    let record = play(&format!(
        "{{ \"tasks\": {{ \"t\": {{ \"phases\": {{ \"a\": {{ {deadline} }}, \"b\": {{ {other} }} }} }} }} }}"
    ));
    let (completed, ..) = passes(&record, "t");
    let times = |why: &String| why.split_once("task.t waited ")?.1.split(' ').next()?.parse::<u64>().ok();
    let waited = record.degraded.iter().find_map(times).unwrap_or(0);
    assert!(completed > 1 && waited * 2 < completed, "{completed} {:?}", record.degraded);
    assert!(!record.degraded.iter().any(|why| why.contains("ended before")), "{:?}", record.degraded);
}

/// A thread of 0.8 for each CPU: the kernel has no room for one more, so one that comes back before its 0-lag time waits, which the record
/// says.
#[test]
fn a_thread_waits_for_the_bandwidth_that_it_left_behind() {
    let cpus = RealKernel::new().affinity(Tid(0)).expect("one's own").len();
    if RealKernel::new().effective_user() != 0 || cpus > 7 {
        return;
    }
    let _alone = RESERVES.lock().unwrap_or_else(PoisonError::into_inner);
    let deadline =
        "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 80000, \"dl-period\": 100000, \"run\": 20000";
    let other = "\"policy\": \"SCHED_OTHER\", \"run\": 100";
    let phases = format!("\"a\": {{ {deadline} }}, \"b\": {{ {other} }}");
    let record = play(&format!(
        "{{ \"tasks\": {{ \"t\": {{ \"instance\": {cpus}, \"phases\": {{ {phases} }} }} }} }}"
    ));
    let waited =
        |why: &String| why.contains("task.t waited") && why.contains("to come back to SCHED_DEADLINE");
    assert!(record.degraded.iter().any(waited), "{:?}", record.degraded);
    assert!(!record.degraded.iter().any(|why| why.contains("ended before")), "{:?}", record.degraded);
    assert!(passes(&record, "t").0 > 1);
}

#[test]
fn threads_stay_on_their_cpus_or_are_refused() {
    let text = "{ \"tasks\": { \"t\": { \"cpus\": [1023], \"run\": 1 } } }";
    let workload = dialect_of("t.json", "").expect("JSON is of rt-app").read("t.json", text).unwrap();
    let options = RunOptions { duration: Nanos::from_millis(50), ..RunOptions::default() };
    let refusal =
        HostWorld::new(&RealKernel::new(), None).run(&workload, &options, &mut Unobserved).unwrap_err();
    assert!(refusal.to_string().contains("1023"), "{refusal}");
}

/// What bytes take, a machine says. They take CPU time, and the same pass without them takes less.
#[test]
fn bytes_are_written_and_take_time() {
    let pass = "\"run\": 200, \"sleep\": 2000";
    let record = play(&format!(
        "{{ \"tasks\": {{ \"w\": {{ \"mem\": 50000000, \"iorun\": 100000, {pass} }}, \"n\": {{ {pass} }} }} }}"
    ));
    let [(written, _, with), (plain, _, without)] = ["w", "n"].map(|name| passes(&record, name));
    assert!(written > 3 && plain > 3, "{written} {plain}");
    assert!(with > without, "50 MB in {with} ms, without {without}");
    let text = "{ \"tasks\": { \"t\": { \"iorun\": 1, \"run\": 1 } }, \"global\": { \"io_device\": \"/proc/nothing\" } }";
    let record = play(text);
    assert!(
        record.degraded.iter().any(|why| why.contains("/proc/nothing cannot be written")),
        "{:?}",
        record.degraded
    );
}

/// Of two threads of one priority on one CPU the one that comes last to the barrier goes on, and waits for its condition before the other is there
/// to signal it: as threads of one instant the first would signal nobody.
#[test]
fn who_comes_last_to_the_barrier_goes_on_first() {
    if RealKernel::new().effective_user() != 0 {
        return;
    }
    let of = "\"cpus\": [0], \"policy\": \"SCHED_FIFO\", \"loop\": 1, \"lock\": \"m\"";
    let record = play(&format!(
        "{{ \"tasks\": {{ \"waker\": {{ {of}, \"signal\": \"q\", \"unlock\": \"m\", \"run\": 100 }},
        \"waiter\": {{ {of}, \"wait\": {{ \"ref\": \"q\", \"mutex\": \"m\" }}, \"unlock\": \"m\", \"run\": 100 }} }} }}"
    ));
    assert_eq!(["waker", "waiter"].map(|name| passes(&record, name).0), [1, 1]);
}

/// The last part of the control group of a thread of this process, each time that it is seen in another one than before.
fn groups_of_thread(name: &str) -> Vec<String> {
    let ends = Instant::now() + Duration::from_secs(20);
    let (kernel, mut found, mut seen) = (RealKernel::new(), None, Vec::new());
    while Instant::now() < ends {
        std::thread::sleep(Duration::from_micros(200));
        let named = |tid: &Tid| kernel.name(*tid).is_ok_and(|other| other == name);
        found = found.or_else(|| kernel.threads(kernel.own_pid()).ok()?.into_iter().find(named));
        let Some(tid) = found else { continue };
        let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{tid}/cgroup")) else { break };
        let part = text
            .lines()
            .find_map(|line| line.rsplit_once('/').filter(|(_, last)| last.starts_with("surety-")));
        let part = part.map_or_else(String::new, |(_, last)| last.to_owned());
        if seen.last() != Some(&part) {
            seen.push(part);
        }
    }
    seen
}

/// A thread is in the group of its phase, inside another one, and back in that of the run; none of them is left afterwards.
#[test]
fn a_thread_goes_to_the_group_of_its_phase() {
    let kernel = RealKernel::new();
    let Some(hierarchy) = CpuHierarchy::find(&kernel).filter(|_| kernel.effective_user() == 0) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let place = RuntimeDir::at(&directory.path().join("run")).expect("a place for it");
    let journal = Journal::open(&kernel, &place).expect("a journal");
    let seen = std::thread::spawn(|| groups_of_thread("goes"));
    let phase = |group: &str| format!("{{ \"taskgroup\": \"{group}\", \"run\": 2000, \"sleep\": 2000 }}");
    let (a, b) = (phase("/g/h"), phase("/"));
    let record = try_play(
        &format!("{{ \"tasks\": {{ \"goes\": {{ \"phases\": {{ \"a\": {a}, \"b\": {b} }} }} }} }}"),
        Some(&journal),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let (completed, shortest, _) = passes(&record, "goes");
    assert!(completed > 3 && shortest >= 8.0, "{completed} {shortest} {:?}", record.degraded);
    let seen = seen.join().expect("it only looks");
    let is_back = |pair: &[String]| pair[0] == "surety-g-h" && pair[1].is_empty();
    assert!(seen.windows(2).any(is_back), "{seen:?}");
    let left = std::fs::read_dir(&hierarchy.top).expect("it is mounted").filter_map(Result::ok);
    let left: Vec<_> = left.filter(|entry| entry.path().join("surety-g-h").exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Clamps are what was asked for, or refused in words on a kernel without them: of the thread before it runs, of a phase when it comes there.
#[test]
fn clamps_are_set_or_refused_in_words() {
    let of = |clamps: &str, phase: &str| {
        let text = format!(
            "{{ \"tasks\": {{ \"t\": {{ {clamps} \"phases\": {{ \"p\": {{ {phase} \"run\": 1000, \"sleep\": 1000 }} }} }} }} }}"
        );
        match try_play(&text, None) {
            Ok(record) if passes(&record, "t").0 > 3 => String::new(),
            Ok(record) => record.degraded.join("\n"),
            Err(error) => error.to_string(),
        }
    };
    for (clamps, phase) in [("\"util_max\": 512,", ""), ("", "\"util_min\": 100, \"util_max\": 512,")] {
        let why = of(clamps, phase);
        assert!(why.is_empty() || why.contains("CONFIG_UCLAMP_TASK"), "{why}");
    }
    assert_eq!(of("", ""), "");
}
