//! Files of rt-app in the simulator: what each event means, in exact numbers.

mod common;

use common::{ms, options, share, simulate, us, world};
use surety_model::formats::foreign::dialect_of;
use surety_model::platform::{Overheads, Platform};
use surety_model::record::Record;
use surety_model::workload::{TaskBody, Workload, fills_mut};
use surety_model::world::{RunOptions, Unobserved, World as _, WorldError};
use surety_sim::SimWorld;
use surety_units::Nanos;

/// Threads on one or two CPUs for a second.
fn try_play(tasks: &str, cpus: u32) -> Result<Record, WorldError> {
    let options = RunOptions { warm_up: Nanos::ZERO, ..options(1, cpus) };
    world().run(&read(tasks), &options, &mut Unobserved)
}

fn read(tasks: &str) -> Workload {
    let text = format!("{{ \"tasks\" : {{ {tasks} }} }}");
    let dialect = dialect_of("t.json", "").expect("JSON is of rt-app");
    dialect.read("t.json", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn play(tasks: &str, cpus: u32) -> Record {
    try_play(tasks, cpus).unwrap_or_else(|error| panic!("{error}"))
}

/// Completed passes, the shortest and the longest.
fn passes(record: &Record, name: &str) -> (u64, Nanos, Nanos) {
    let activity = record.activity(name).expect("it was run");
    let response =
        activity.response.as_ref().and_then(|response| response.observed()).expect("it has responses");
    let time = |ns: Option<f64>| Nanos::from_f64_rounded(ns.expect("it completed"));
    (activity.completed, time(response.moments.min()), time(response.moments.max()))
}

/// A thread above all others that runs from 2 to 8 ms.
const ABOVE: &str = "\"above\": { \"policy\": \"SCHED_FIFO\", \"priority\": 50, \"delay\": 2000, \"loop\": 1, \"run\": 6000 }";

#[test]
fn run_is_cpu_time_and_the_end_of_a_phase_is_no_yield() {
    let rival = "\"rival\": { \"policy\": \"SCHED_FIFO\", \"delay\": 500, \"run\": 1000 }";
    let record = play(&format!("\"t\": {{ \"policy\": \"SCHED_FIFO\", \"run\": 1000 }}, {rival}"), 1);
    assert_eq!((passes(&record, "t"), share(&record, "rival")), ((1000, ms(1), ms(1)), 0.0));
    let phases = "\"phases\": { \"a\": { \"loop\": 3, \"run\": 1000 }, \"b\": { \"run\": 1000 } }";
    let record = play(&format!("\"t\": {{ \"policy\": \"SCHED_FIFO\", {phases} }}, {rival}"), 1);
    assert_eq!((passes(&record, "t"), share(&record, "rival")), ((250, ms(4), ms(4)), 0.0));
    let yields = "\"t\": { \"policy\": \"SCHED_FIFO\", \"run\": 1000, \"yield\": \"\" }";
    let record = play(&format!("{yields}, {}", rival.replace("1000", "1000, \"yield\": \"\"")), 1);
    assert!((share(&record, "t") - 0.5).abs() < 0.002, "{}", share(&record, "t"));
    assert!((share(&record, "rival") - 0.5).abs() < 0.002);
}

/// Forked at 1, 3 and 5 ms, each runs 1 ms and then beside nobody: 2, 4 and 6 ms from the beginning of the run.
#[test]
fn a_forked_thread_begins_where_it_is_forked() {
    let child = "\"c\": { \"policy\": \"SCHED_FIFO\", \"instance\": 0, \"loop\": 1, \"run\": 1000 }";
    let parent =
        "\"p\": { \"policy\": \"SCHED_FIFO\", \"loop\": 3, \"run\": 1000, \"fork\": \"c\", \"sleep\": 1000 }";
    let record = play(&format!("{child}, {parent}"), 1);
    assert_eq!(passes(&record, "p"), (3, ms(2), ms(2)));
    assert_eq!(passes(&record, "c-forked"), (3, ms(2), ms(6)));
    assert!((share(&record, "c-forked") - 0.003).abs() < 1e-9);
}

#[test]
fn a_sleep_begins_when_the_work_is_done() {
    let thread = "\"t\": { \"policy\": \"SCHED_FIFO\", \"run\": 1000, \"sleep\": 9000 }";
    assert_eq!(passes(&play(thread, 1), "t"), (100, ms(10), ms(10)));
    let record = play(&format!("{thread}, {}", ABOVE.replace("2000", "10500")), 1);
    assert_eq!(passes(&record, "t"), (99, ms(10), ms(16)));
}

#[test]
fn a_timer_counts_from_where_it_last_expired() {
    let thread = "\"t\": { \"policy\": \"SCHED_FIFO\", \"run\": 1000, \"timer\": { \"ref\": \"unique\", \"period\": 10000 } }";
    let record = play(&format!("{thread}, {}", ABOVE.replace("2000", "10500")), 1);
    assert_eq!(passes(&record, "t"), (100, ms(10), ms(10)));
}

/// 2 x (10, timer 20), then 30 for a timer of 20, then 3 x (10, timer 20): the tutorial's figures of both modes.
#[test]
fn a_timer_that_is_missed_is_set_to_now_or_stays_on_its_grid() {
    let timer = |mode: &str| {
        let part = |loops: u32, work: u32| {
            format!(
                "{{ \"loop\": {loops}, \"run\": {work}, \"timer\": {{ \"ref\": \"unique\", \"period\": 20000, \"mode\": \"{mode}\" }} }}"
            )
        };
        let (p, q, r) = (part(2, 10_000), part(1, 30_000), part(3, 10_000));
        let phases = format!("\"phases\": {{ \"p\": {p}, \"q\": {q}, \"r\": {r} }}");
        passes(&play(&format!("\"t\": {{ \"policy\": \"SCHED_FIFO\", \"loop\": 1, {phases} }}"), 1), "t")
    };
    assert_eq!(timer("relative"), (1, ms(130), ms(130)));
    assert_eq!(timer("absolute"), (1, ms(120), ms(120)));
}

/// `runtime` is looked at after every 32 us of work: 6 of the 10 ms are another's, and 125 pieces fill the rest.
#[test]
fn runtime_is_wall_clock_time_in_pieces_of_work() {
    let thread = |event: &str| format!("\"t\": {{ \"policy\": \"SCHED_FIFO\", \"loop\": 1, {event} }}");
    assert_eq!(passes(&play(&thread("\"runtime\": 1000"), 1), "t"), (1, us(1024), us(1024)));
    let record = play(&format!("{}, {ABOVE}", thread("\"runtime\": 10000")), 1);
    assert_eq!(passes(&record, "t"), (1, ms(10), ms(10)));
    let used = record.activity("t").unwrap().execution.as_ref().and_then(|e| e.observed()).unwrap();
    assert_eq!(used.moments.max(), Some(4e6));
    let record = play(&format!("{}, {ABOVE}", thread("\"run\": 10000")), 1);
    assert_eq!(passes(&record, "t"), (1, ms(16), ms(16)));
}

#[test]
fn a_resume_is_lost_where_nobody_is_suspended_and_a_post_is_kept() {
    let both = |wake: &str, wait: &str| {
        let tasks = format!(
            "\"a\": {{ \"loop\": 1, {wake}, \"sleep\": 20000, {wake}, \"run\": 1 }},
             \"b\": {{ \"loop\": 1, \"sleep\": 5000, {wait}, \"run\": 1000 }}"
        );
        passes(&play(&tasks, 2), "b")
    };
    assert_eq!(both("\"resume\": \"b\"", "\"suspend\""), (1, ms(21), ms(21)));
    assert_eq!(both("\"sem_post\": \"s\"", "\"sem_wait\": \"s\""), (1, ms(6), ms(6)));
}

/// At 5 ms one of three is woken, who runs before the signaller, a fair thread, falls asleep: at 11 ms the other two.
#[test]
fn a_signal_wakes_who_came_first_and_a_broadcast_all() {
    let record = play(
        "\"w\": { \"policy\": \"SCHED_FIFO\", \"instance\": 3, \"loop\": 1, \"lock\": \"m\",
                  \"wait\": { \"ref\": \"q\", \"mutex\": \"m\" }, \"unlock\": \"m\", \"run\": 1000 },
         \"s\": { \"loop\": 1, \"sleep\": 5000, \"lock\": \"m\", \"signal\": \"q\", \"unlock\": \"m\",
                  \"sleep\": 5000, \"lock\": \"m\", \"broad\": \"q\", \"unlock\": \"m\" }",
        1,
    );
    assert_eq!(passes(&record, "w"), (3, ms(6), ms(13)));
}

/// The one who syncs wakes the other and waits itself, for what the other signals 2 ms later.
#[test]
fn sync_wakes_one_and_waits_itself() {
    let record = play(
        "\"b\": { \"loop\": 1, \"lock\": \"m\", \"wait\": { \"ref\": \"q\", \"mutex\": \"m\" }, \"unlock\": \"m\",
                  \"run\": 2000, \"lock\": \"m\", \"signal\": \"q\", \"unlock\": \"m\" },
         \"a\": { \"loop\": 1, \"sleep\": 5000, \"lock\": \"m\", \"sync\": { \"ref\": \"q\", \"mutex\": \"m\" },
                  \"unlock\": \"m\", \"run\": 1000 }",
        2,
    );
    assert_eq!((passes(&record, "b"), passes(&record, "a")), ((1, ms(7), ms(7)), (1, ms(8), ms(8))));
}

/// The tutorial's example 7 with CPU time in place of `runtime`: 3, 6 and 9 ms, whoever comes first.
#[test]
fn a_barrier_lets_all_go_when_the_last_has_come() {
    let record = play(
        "\"a\": { \"loop\": -1, \"run\": 1000, \"sleep\": 2000, \"barrier\": \"FIRST\", \"run\": 2000,
                  \"barrier\": \"SECOND\", \"run\": 1000, \"sleep\": 2000, \"barrier\": \"THIRD\" },
         \"b\": { \"loop\": -1, \"run\": 2000, \"barrier\": \"FIRST\", \"run\": 1000, \"sleep\": 2000,
                  \"barrier\": \"SECOND\", \"run\": 2000, \"barrier\": \"THIRD\" }",
        2,
    );
    assert_eq!((passes(&record, "a"), passes(&record, "b")), ((111, ms(9), ms(9)), (111, ms(9), ms(9))));
}

/// A lock is held while others wait for it, and a delay is when the first pass is released.
#[test]
fn a_lock_keeps_others_waiting_and_a_delay_moves_the_start() {
    let record = play(
        "\"holder\": { \"loop\": 1, \"lock\": \"m\", \"run\": 5000, \"unlock\": \"m\" },
         \"waiter\": { \"loop\": 1, \"delay\": 3000, \"lock\": \"m\", \"run\": 1000, \"unlock\": \"m\" }",
        2,
    );
    assert_eq!(
        (passes(&record, "holder"), passes(&record, "waiter")),
        ((1, ms(5), ms(5)), (1, ms(3), ms(3)))
    );
}

#[test]
fn threads_keep_to_their_cpus_and_others_are_refused() {
    let two = |first: u32, second: u32| {
        let record = play(
            &format!(
                "\"a\": {{ \"cpus\": [{first}], \"run\": 1000 }}, \"b\": {{ \"cpus\": [{second}], \"run\": 1000 }}"
            ),
            2,
        );
        (share(&record, "a"), share(&record, "b"))
    };
    assert_eq!(two(0, 1), (1.0, 1.0));
    let (a, b) = two(1, 1);
    assert!((a - 0.5).abs() < 0.01 && (a + b - 1.0).abs() < 1e-9, "{a} {b}");
    let refusal = try_play("\"a\": { \"cpus\": [0, 7], \"run\": 1 }", 2).unwrap_err().to_string();
    assert!(refusal.contains("0,7") && refusal.contains("task.a"), "{refusal}");
}

/// The part of a CPU that a spinner on it is left with by a thread above it that goes to and fro: 3 ms here, 1 ms there.
#[test]
fn a_thread_goes_to_the_cpus_of_its_phase() {
    let spinner = |cpu: u32| format!("\"r{cpu}\": {{ \"cpus\": [{cpu}], \"run\": 1000 }}");
    let phases = "\"phases\": { \"a\": { \"cpus\": [0], \"run\": 3000 }, \"b\": { \"run\": 1000 } }";
    for policy in ["\"policy\": \"SCHED_FIFO\"", "\"policy\": \"SCHED_FIFO\", \"loop\": 1000"] {
        let record = play(
            &format!("\"t\": {{ {policy}, \"cpus\": [1], {phases} }}, {}, {}", spinner(0), spinner(1)),
            2,
        );
        assert_eq!(passes(&record, "t"), (250, ms(4), ms(4)));
        let (first, second) = (share(&record, "r0"), share(&record, "r1"));
        assert!((first - 0.25).abs() < 1e-6 && (second - 0.75).abs() < 1e-6, "{first} {second}");
    }
    // Of two fair threads on a CPU each has a half of it, whoever comes from elsewhere.
    let record = play(&format!("\"t\": {{ \"cpus\": [1], {phases} }}, {}, {}", spinner(0), spinner(1)), 2);
    let (all, first) = (share(&record, "t"), share(&record, "r0"));
    assert!((all - 0.5).abs() < 0.02 && (first - 0.625).abs() < 0.02, "{all} {first}");
}

/// Beside a spinner it has half of the CPU as a fair thread and all of it as SCHED_FIFO: 2 + 1 ms for 1 + 1. What a phase does not say stays.
#[test]
fn a_thread_is_scheduled_as_its_phase_says() {
    let rival = "\"rival\": { \"run\": 1000 }";
    let fifo = "\"policy\": \"SCHED_FIFO\", \"run\": 30000";
    let other = "\"policy\": \"SCHED_OTHER\", \"run\": 30000";
    let of = |phases: &str| {
        let record = play(&format!("\"t\": {{ \"phases\": {{ {phases} }} }}, {rival}"), 1);
        share(&record, "t")
    };
    let is_near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.03, "{found} {expected}");
    is_near(of(&format!("\"a\": {{ {other} }}, \"b\": {{ {fifo} }}")), 2.0 / 3.0);
    is_near(of(&format!("\"a\": {{ {other} }}, \"b\": {{ {fifo} }}, \"c\": {{ \"run\": 30000 }}")), 0.75);
    // A thread that has become SCHED_FIFO stays so in its later passes, and takes all that realtime threads may.
    assert!(of(&format!("\"a\": {{ \"run\": 30000 }}, \"b\": {{ {fifo} }}")) > 0.9);
    is_near(
        of("\"a\": { \"priority\": 5, \"run\": 30000 }, \"b\": { \"priority\": 5, \"run\": 1 }"),
        335.0 / 1359.0,
    );
}

/// 4 ms at 2 ms in 10 take 12 ms, and the sleeps 50; woken as a fair thread it waits for the spinner's slice to end on a tick.
#[test]
fn a_thread_takes_a_reservation_and_gives_it_back() {
    let deadline = "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 10000, \"run\": 4000, \"sleep\": 20000";
    let other = "\"policy\": \"SCHED_OTHER\", \"sleep\": 30000";
    let tasks = format!(
        "\"t\": {{ \"loop\": 10, \"phases\": {{ \"a\": {{ {deadline} }}, \"b\": {{ {other} }} }} }}, \"r\": {{ \"run\": 1000 }}"
    );
    let platform = surety_model::platform::Platform {
        enforcement: surety_model::platform::Enforcement::Exact,
        ..surety_model::platform::Platform::linux_6_18(1)
    };
    let text = format!("{{ \"tasks\" : {{ {tasks} }} }}");
    let workload = dialect_of("t.json", "").unwrap().read("t.json", &text).unwrap();
    let world = surety_sim::SimWorld { platform };
    let options = RunOptions { warm_up: Nanos::ZERO, ..options(1, 1) };
    let record = world.run(&workload, &options, &mut Unobserved).unwrap_or_else(|error| panic!("{error}"));
    let (completed, least, most) = passes(&record, "t");
    assert_eq!(completed, 10, "{least} {most}");
    assert!(least >= ms(62) && most <= ms(67), "{least} {most}");
    let wide = text.replace("2000", "9800");
    let workload = dialect_of("t.json", "").unwrap().read("t.json", &wide).unwrap();
    let refusal = world.run(&workload, &options, &mut Unobserved).unwrap_err().to_string();
    assert!(refusal.contains("task.t") && refusal.contains("103.0 %"), "{refusal}");
}

/// Each use moves the timer of both on: one thread comes at 10, 30, ... ms, the other at 20, 40, ...
#[test]
fn threads_take_turns_at_a_timer_that_they_share() {
    let thread =
        "\"policy\": \"SCHED_FIFO\", \"run\": 1000, \"timer\": { \"ref\": \"tick\", \"period\": 10000 }";
    let record = play(&format!("\"a\": {{ {thread} }}, \"b\": {{ {thread} }}"), 2);
    assert_eq!(passes(&record, "a"), (50, ms(10), ms(20)));
    assert_eq!(passes(&record, "b"), (50, ms(20), ms(20)));
}

/// The spinner: one thread at nice -20 beside ten at 0, by their weights of 88761 and 1024.
#[test]
fn shares_of_spinners_follow_their_weights() {
    let text = "{ \"tasks\": {
        \"hi\": { \"priority\": -20, \"loop\": -1, \"run\": 100000 },
        \"lo\": { \"instance\": 10, \"priority\": 0, \"loop\": -1, \"run\": 100000 } },
      \"global\": { \"duration\": 20, \"calibration\": 1, \"default_policy\": \"SCHED_OTHER\" } }";
    let workload = dialect_of("spin.json", "").unwrap().read("spin.json", text).unwrap();
    let record = world().run(&workload, &options(20, 1), &mut Unobserved).unwrap();
    let (hi, lo) = (share(&record, "hi"), share(&record, "lo"));
    assert!((hi - 0.8966).abs() < 0.002 && (lo - 0.1034).abs() < 0.002, "{hi} {lo}");
}

/// Each pass of a loop draws anew: the sum of a thousand is near a thousand means.
#[test]
fn passes_of_a_loop_draw_each_for_itself() {
    let phases = "phases = [{ loop = 400, phases = [{ run = { kind = \"uniform\", low = \"0ms\", high = \"2ms\" } }] }]";
    let release = "release = \"back-to-back\"";
    let record = simulate(&format!("[[task]]\nname = \"t\"\n{release}\n{phases}"), 10, 1);
    let (count, least, most) = passes(&record, "t");
    let is_near = |sum: Nanos| (sum - ms(400)).get().abs() < ms(50).get();
    assert!(
        (23..=26).contains(&count) && is_near(least) && is_near(most) && least < most,
        "{count} {least} {most}"
    );
}

/// Both are woken while the lock of their condition is still held: they sleep again at once, and are woken from there before
/// their CPU has chosen another. What they use is the work of their passes, and no time without work.
#[test]
fn who_is_woken_while_it_falls_asleep_works_as_much_as_it_has_to() {
    let sub = "\"policy\": \"SCHED_FIFO\", \"priority\": 36, \"suspend\": \"sub\", \"run\": 100";
    let record = play(
        &format!(
            "\"main\": {{ \"policy\": \"SCHED_FIFO\", \"priority\": 30, \"resume\": \"sub\", \"run\": 3000 }},
             \"one\": {{ {sub} }}, \"two\": {{ {sub} }},
             \"other\": {{ \"policy\": \"SCHED_FIFO\", \"priority\": 38, \"run\": 700, \"sleep\": 1100 }}"
        ),
        2,
    );
    for name in ["one", "two"] {
        let (completed, _, _) = passes(&record, name);
        let worked = completed as f64 * 100e-6;
        assert!(
            completed > 200 && (share(&record, name) - worked).abs() <= 100e-6,
            "{name} {completed} {}",
            share(&record, name)
        );
    }
}

/// 0.8 of a CPU three times are more than the 1.8 of two CPUs, so one of two threads that leaves after 30 ms comes back when the bandwidth of before is
/// free: 50 ms of budget are left of 80 in 100, which is 62.5 ms before the deadline. Of 0.4 three times there is room: it comes back at once.
#[test]
fn a_thread_that_comes_back_waits_while_there_is_no_room_beside_its_last_bandwidth() {
    let returns = |runtime: u32| {
        let deadline = format!(
            "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": {runtime}, \"dl-period\": 100000, \"run\": 30000"
        );
        let other = "\"policy\": \"SCHED_OTHER\", \"run\": 100";
        let phases = format!("\"a\": {{ {deadline} }}, \"b\": {{ {other} }}");
        let record =
            play(&format!("\"t\": {{ \"instance\": 2, \"loop\": 2, \"phases\": {{ {phases} }} }}"), 2);
        passes(&record, "t")
    };
    assert_eq!(returns(80_000), (4, us(30_100), us(37_500)));
    // From 30.1 ms on the 10 ms that are left, until the tick at 40.5 ms, and 19.6 ms of the next period.
    assert_eq!(returns(40_000), (4, us(30_100), us(89_600)));
}

/// The shape of rt-app's `mp3-long`: `decoder` stands still for good where `helper` does not yet wait when it signals, 1.6 ms from the beginning.
const DECODING: &str = r#"
    "out": { "priority": -19, "run": 275, "resume": "track", "run": 4725, "timer": { "ref": "unique", "period": 30000 } },
    "tick": { "priority": -19, "cpus": [0], "timer": { "ref": "unique", "period": 30000 } },
    "track": { "priority": -16, "suspend": "track", "run": 300, "resume": "decoder" },
    "xhelper": { "priority": -2, "lock": "m", "wait": { "ref": "q", "mutex": "m" }, "unlock": "m", "run": 300,
        "lock": "m", "signal": "q", "unlock": "m" },
    "ydecoder": { "priority": -2, "suspend": "decoder", "run": 1000, "lock": "m", "signal": "q",
        "wait": { "ref": "q", "mutex": "m" }, "unlock": "m", "run": 150 }"#;

/// Whether a CPU that is about to idle takes the helper, which waits behind `out`, is a matter of chance. That a thread which went to sleep there is
/// kept for what it owes, as it is where sleeping costs something, is not: the kernel looks when it has let go of it.
#[test]
fn a_cpu_with_nothing_but_kept_sleepers_takes_what_waits_elsewhere() {
    let goes_on = |sleep: Nanos| {
        let of = |seed| {
            let platform =
                Platform { overheads: Overheads { sleep, ..Overheads::NONE }, ..Platform::linux_6_18(2) };
            let options = RunOptions { warm_up: Nanos::ZERO, seed, ..options(1, 2) };
            let record = SimWorld::new(platform).run(&read(DECODING), &options, &mut Unobserved);
            record.expect("it can be simulated").activity("ydecoder").unwrap().completed > 10
        };
        (1..=20).filter(|seed| of(*seed)).count()
    };
    let (free, costly) = (goes_on(Nanos::ZERO), goes_on(us(2)));
    assert!((6..=14).contains(&free), "the first look is one of two: {free} of 20");
    assert_eq!(free, costly);
}

/// 2 ms for the memory and 1 for the device in each pass, beside 1 of work and 6 of sleep.
#[test]
fn bytes_take_the_time_that_is_said() {
    let mut workload = read("\"t\": { \"run\": 1000, \"mem\": 9000000, \"iorun\": 100000, \"sleep\": 6000 }");
    let options = RunOptions { warm_up: Nanos::ZERO, ..options(1, 1) };
    let refused = world().run(&workload, &options, &mut Unobserved).unwrap_err().to_string();
    assert!(refused.contains("task.t") && refused.contains("`memory = 9MB` takes; add `takes`"), "{refused}");
    let TaskBody::Phases(phases) = &mut workload.tasks[0].body else { panic!("no phases") };
    for (fill, takes) in fills_mut(phases).into_iter().zip([ms(2), ms(1)]) {
        fill.takes = Some(takes);
    }
    let record = world().run(&workload, &options, &mut Unobserved).unwrap();
    assert_eq!(passes(&record, "t"), (100, ms(10), ms(10)));
    assert!((share(&record, "t") - 0.4).abs() < 1e-9);
}
