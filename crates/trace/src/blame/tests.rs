//! Scripted events with the chains they must give, and the law that every response is shared out exactly.

use proptest::prelude::*;
use surety_model::event::TraceSink;

use super::*;
use crate::JobBuilder;
use crate::jobs::tests::{any_script, feed};

fn blames(script: &str, wanted: Wanted, worst: usize) -> Blames {
    let mut builder = BlameBuilder::new(wanted, worst);
    feed(script, &mut builder);
    builder.finish()
}

/// The thread of that id.
fn thread(tid: i32) -> Wanted {
    Wanted { tids: vec![Tid(tid)], ..Wanted::default() }
}

/// Threads of that name.
fn named(name: &str) -> Wanted {
    Wanted { names: vec![Comm::new(name)], ..Wanted::default() }
}

fn us(time: Nanos) -> i64 {
    time.get() / 1000
}

/// A job that waits while a CPU changes hands more often than was once remembered.
#[test]
fn a_long_wait_on_a_busy_cpu_is_told_whole() {
    let changes = 150_000;
    let mut script = "0 0 sw 0 7\n5 0 sw 7:S 8\n10 0 waking 7\n11 0 wakeup 7\n".to_owned();
    let mut at = 20;
    for _ in 0..changes / 2 {
        script += &format!("{at} 0 irq\n{} 0 irqx\n", at + 1);
        at += 2;
    }
    script += &format!("{at} 0 sw 8:R+ 7\n{} 0 sw 7:S 0\n", at + 10);
    let told = blames(&script, thread(7), 1);
    let of = |cause| told.all.causes.get(&cause).copied().unwrap_or_default();
    assert_eq!((us(of(Cause::Unknown)), us(of(Cause::Irq(9)))), (0, changes / 2));
}

/// The CPUs around the longest job of those that are wanted and observed.
#[test]
fn the_longest_job_is_kept_with_its_cpus() {
    let script = "0 0 sw 0 7
        5 0 sw 7:S 8
        6 1 sw 0 9
        100 0 waking 7
        150 0 sw 8:R+ 7
        200 0 sw 7:S 8
        300 0 waking 7
        500 0 sw 8:R+ 7
        900 0 sw 7:S 8";
    let drawn = |window: Option<(i64, i64)>| {
        let mut builder = BlameBuilder::new(thread(7), 0).with_around();
        if let Some((from, until)) = window {
            builder.observes((Nanos::from_micros(from), Nanos::from_micros(until)));
        }
        feed(script, &mut builder);
        builder.finish().around
    };
    let around = drawn(None).unwrap();
    assert_eq!((us(around.job.release), us(around.from), us(around.until)), (300, 240, 900));
    // To a thousandth of the time that is shown.
    let states: Vec<(State, i64, i64)> =
        around.states.iter().map(|s| (s.what, us(s.from), us(s.until))).collect();
    assert_eq!(states, [(State::Ready, 299, 500), (State::Runs, 500, 900)]);
    let [first, second] = around.lanes.as_slice() else { panic!("{around:?}") };
    let own = |lane: &Lane| lane.held.iter().map(|held| held.what == Holder::Own).collect::<Vec<_>>();
    assert_eq!((own(first), own(second), around.hidden), (vec![false, true], vec![false], 0));
    assert_eq!(us(drawn(Some((50, 250))).unwrap().job.release), 100);
    assert_eq!(drawn(Some((400, 800))), None);
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Thread(culprit) => format!("{}:{}", culprit.class().name(), culprit.comm),
        Cause::Irq(irq) => format!("irq{irq}"),
        Cause::Vector(name) => name.to_owned(),
        Cause::Softirq(vector) => format!("softirq{vector}"),
        Cause::Lock(culprit) => format!("lock:{}", culprit.comm),
        Cause::Awaited(culprit) => format!("awaited:{}", culprit.comm),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// The chain of the thread's slowest job: `FROM CAUSE[@CPU]` for each piece, and its end.
fn chain(script: &str, tid: i32) -> String {
    let blames = blames(script, thread(tid), 1);
    let chain = &blames.worst[0].chain;
    let mut told: Vec<String> = chain
        .pieces
        .iter()
        .map(|piece| {
            let cpu = piece.cpu.map_or(String::new(), |cpu| format!("@{}", cpu.0));
            format!("{} {}{cpu}", us(piece.from), cause_name(piece.cause))
        })
        .collect();
    told.push(us(chain.job.completion).to_string());
    told.join("; ")
}

#[test]
fn every_cause_is_named() {
    let cases = [
        (
            "an idle CPU takes its time, and then nothing is in the way",
            "5 0 sw 8:S 0
             10 0 waking 7
             11 0 wakeup 7
             15 0 sw 0 7
             40 0 sw 7:S 0",
            "10 idle@0; 15 own@0; 40",
        ),
        (
            "a thread of a higher class, then one of the same",
            "5 0 sw 0 8:R:-1
             8 0 wakeup 7
             20 0 sw 8:S:-1 9:R:20
             26 0 sw 9:S:20 5
             30 0 sw 5:R+ 7
             40 0 sw 7:S 0",
            "8 deadline:t8@0; 20 realtime:t9@0; 26 fair:t5@0; 30 own@0; 40",
        ),
        (
            "the stopper is a class of its own",
            "5 0 sw 0 900:R:0
             8 0 wakeup 7
             20 0 sw 900:S:0 7
             40 0 sw 7:S 0",
            "8 stop:migration/0@0; 20 own@0; 40",
        ),
        (
            "interrupts while it waits and while it runs, the innermost counts",
            "5 0 sw 0 8
             8 0 irq
             9 0 wakeup 7
             10 0 vec
             12 0 vecx
             13 0 irqx
             20 0 sw 8:S 7
             22 0 soft
             24 0 irq
             25 0 irqx
             28 0 softx
             40 0 sw 7:S 0",
            "9 irq9@0; 10 local_timer@0; 12 irq9@0; 13 fair:t8@0; 20 own@0; 22 softirq3@0; 24 irq9@0; \
             25 softirq3@0; 28 own@0; 40",
        ),
        (
            "preempted, and carried to another CPU that is idle",
            "1 0 sw 6:S 0
             1 1 sw 6:S 0
             10 0 wakeup 7
             15 0 sw 0 7
             20 0 sw 7:R+ 8
             30 1 migrate 7 1
             33 1 sw 0 7
             40 1 sw 7:S 0",
            "10 idle@0; 15 own@0; 20 fair:t8@0; 30 idle@1; 33 own@1; 40",
        ),
        (
            "out of budget until its timer fires, and then behind another",
            "1 0 sw 6:S 0
             10 0 wakeup 7
             12 0 sw 0:R:120 7:R:-1
             15 0 arm 1 dl
             16 0 sw 7:R:-1 8:R:120
             30 0 fire 1 dl
             35 0 sw 8:R+:120 7:R:-1
             40 0 sw 7:S:-1 0",
            "10 idle@0; 12 own@0; 16 throttled; 30 fair:t8@0; 35 own@0; 40",
        ),
        (
            "a marked job: not woken in time, blocked inside, its predecessor late",
            "1 0 sw 6:S 0
             10 0 wakeup 7
             12 0 sw 0 7
             13 0 mark surety:b:0:8000
             20 0 sw 7:S 0
             30 0 wakeup 7
             31 0 sw 0 7
             50 0 mark surety:e:0
             60 0 sw 7:S 0",
            "8 unknown; 10 idle@0; 12 own@0; 20 blocked; 30 idle@0; 31 own@0; 50",
        ),
        (
            "a marked job behind the one before",
            "1 0 sw 6:S 7
             2 0 mark surety:b:0:1000
             3 0 sw 7:S 0
             6 0 wakeup 7
             7 0 sw 0 7
             20 0 mark surety:e:0
             21 0 mark surety:b:1:5000
             50 0 mark surety:e:1
             60 0 sw 7:S 0",
            "5 unwoken; 6 idle@0; 7 earlier@0; 21 own@0; 50",
        ),
        (
            "woken on its way off the CPU",
            "1 0 sw 6:S 0
             2 0 waking 7
             3 0 sw 0 7
             4 0 waking 7
             6 0 sw 7:S 8
             8 0 wakeup 7
             10 0 sw 8:S 7
             40 0 sw 7:S 0",
            "4 earlier@0; 6 fair:t8@0; 10 own@0; 40",
        ),
        (
            "a CPU of which nothing is known yet",
            "10 1 waking 7
             11 1 wakeup 7 0
             15 0 sw 0 7
             40 0 sw 7:S 0",
            "10 idle@1; 11 unknown@0; 15 own@0; 40",
        ),
        (
            "between wide bounds of a switch that was not recorded nobody knows",
            "1 0 sw 6:S 0
             10 1 waking 7
             11 1 wakeup 7 0
             1690 0@7 irq
             1691 0 irqx
             1695 0 sw 7:S 0",
            "10 idle@1; 11 unknown; 1690 irq9@0; 1691 own@0; 1695",
        ),
        (
            "the thread that wakes it held the lock; one that an interrupt wakes waited for it",
            "1 0 sw 6:S 7
             2 0 sw 7:S 0
             10 0 waking 7
             12 0 sw 0 7
             14 0 lock
             15 0 sw 7:S 8
             20 0 raise
             40 0 waking 7
             45 0 sw 8:S 7
             46 0 futexx
             47 0 lockpi
             50 0 sw 7:S 8
             58 0 irq
             60 0 waking 7
             61 0 irqx
             62 0 sw 8:S 7
             70 0 sw 7:S 0",
            "10 idle@0; 12 own@0; 15 lock:t8; 40 fair:t8@0; 45 own@0; 50 device(irq(9)); 60 irq9@0; 61 fair:t8@0; 62 own@0; 70",
        ),
        (
            "a marked job that sleeps is told who woke it",
            "1 0 sw 6:S 7
             2 0 mark surety:b:0:1000
             5 0 sw 7:S 8
             30 0 waking 7
             32 0 sw 8:S 7
             40 0 mark surety:e:0
             50 0 sw 7:S 0",
            "1 own@0; 5 awaited:t8; 30 fair:t8@0; 32 own@0; 40",
        ),
        (
            "it runs and sleeps at one instant, before the wake-up for that is read from another CPU: it is not woken twice",
            "1 0 sw 7:S 0
             1 1 sw 6:S 8
             10 0 sw 0 7
             10 0 sw 7:S 0
             10 1 waking 7
             10 1 wakeup 7 0
             30 1 waking 7
             30 1 wakeup 7 0
             31 0 sw 0 7
             40 0 sw 7:S 0",
            "30 idle@0; 31 own@0; 40",
        ),
        (
            "within narrow ones it is taken to be the earliest",
            "1 0 sw 6:S 0
             10 1 waking 7
             11 1 wakeup 7 0
             31 0@7 sw 7:S 0",
            "10 idle@1; 11 own@0; 31",
        ),
    ];
    for (what, script, expected) in cases {
        assert_eq!(chain(script, 7), expected, "{what}");
    }
}

#[test]
fn parts_are_what_the_job_counts_too() {
    let script = "1 0 sw 6:S 0
         10 0 wakeup 7
         12 0 sw 0:R:120 7:R:-1
         13 0 vec
         14 0 vecx
         15 0 arm 1 dl
         16 0 sw 7:R:-1 8:R:120
         30 0 fire 1 dl
         35 0 sw 8:R+:120 7:R:-1
         40 0 sw 7:S:-1 0";
    let blames = blames(script, thread(7), 0);
    let [job, ..] = blames.slowest.of(9, 1000)[..] else { panic!("{blames:?}") };
    assert_eq!(job.time_of(Cause::Own), job.job.execution_net());
    assert_eq!(job.time_of(Cause::Throttled), job.job.throttled);
    assert_eq!(job.time_of(Cause::Vector("local_timer")), job.job.interrupted);
    assert_eq!(blames.worst, [], "no chains were asked for");
}

#[test]
fn interrupts_lie_within_what_they_interrupt() {
    let script = "1 0 sw 6:S 8
         10 0 wakeup 7
         11 0 irq
         12 0 irqx
         13 0 vec
         15 0 vecx
         16 0 irq
         17 0 irqx
         20 0 sw 8:S 7
         40 0 sw 7:S 0";
    let blames = blames(script, thread(7), 1);
    let told = stretches(&blames.worst[0].chain.pieces);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((us(told[0].from), us(told[0].until), us(told[1].until)), (10, 20, 40));
    let on_top: Vec<(Cause, i64)> = told[0].interrupts.iter().map(|p| (p.cause, us(p.time))).collect();
    assert_eq!(on_top, [(Cause::Irq(9), 2), (Cause::Vector("local_timer"), 2)]);
    assert_eq!(blames.irq_names, [(9, "disk".to_owned())]);
}

#[test]
fn the_slowest_are_told_apart_from_all() {
    // Thread 7 runs 10 us five times; once, thread 8 is in the way for 50 us.
    let mut script = String::from("1 0 sw 6:S 0\n");
    for k in 0..5 {
        let at = 100 * (k + 1);
        script += &format!("{at} 0 wakeup 7\n{at} 0 sw 0 7\n{} 0 sw 7:S 0\n", at + 10);
    }
    script += "600 0 sw 0 8\n600 0 wakeup 7\n650 0 sw 8:S 7\n660 0 sw 7:S 0\n";
    let blames = blames(&script, thread(7), 2);
    let (all, slow) = (&blames.all, average(blames.slowest.of(blames.all.jobs, 10)));
    let behind = Cause::Thread(Culprit { tid: Tid(8), comm: Comm::new("t8"), prio: 120 });
    assert_eq!((all.jobs, us(all.mean(all.response)), us(all.mean_of(Cause::Own))), (6, 18, 10));
    assert_eq!((us(all.mean_of(behind)), us(slow.mean_of(behind)), slow.jobs), (8, 50, 1));
    assert_eq!(all.causes.values().copied().sum::<Nanos>(), all.response);
    let worst: Vec<i64> = blames.worst.iter().map(|w| us(w.chain.job.release)).collect();
    assert_eq!(worst, [600, 100], "the longest first, then the earliest");
    assert_eq!(average([]).mean_of(Cause::Own), Nanos::ZERO);
}

#[test]
fn only_the_chosen_are_kept() {
    let script =
        "1 0 sw 6:S 0\n2 0 wakeup 7\n3 0 sw 0 7\n4 0 sw 7:S 0\n5 0 wakeup 8\n6 0 sw 0 8\n7 0 sw 8:S 0";
    let chosen = |choice| blames(script, choice, 1).threads.iter().map(|t| t.tid.0).collect::<Vec<_>>();
    assert_eq!(chosen(Wanted::default()), [7, 8]);
    assert_eq!(chosen(thread(8)), [8]);
    assert_eq!(chosen(Wanted { tids: vec![Tid(8), Tid(7)], ..Wanted::default() }), [7, 8]);
    // The first event is at 1 us; the job of thread 8 is released 4 us later.
    assert_eq!(chosen(Wanted { from: Some(Nanos::from_micros(4)), ..Wanted::default() }), [8]);
    assert_eq!(chosen(Wanted { to: Some(Nanos::from_micros(4)), ..Wanted::default() }), [7]);
    assert_eq!(chosen(Wanted { cpus: "1".parse().ok(), ..Wanted::default() }), [] as [i32; 0]);
    assert_eq!(chosen(named("t7")), [7]);
    assert_eq!(chosen(Wanted { names: named("t7").names, ..thread(8) }), [] as [i32; 0]);
}

#[test]
fn what_the_histories_no_longer_hold_is_unknown() {
    let mut builder = BlameBuilder::new(thread(7), 1);
    feed("1 0 sw 6:S 8\n2 0 wakeup 7", &mut builder);
    let event = |time: i64, kind| Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(8), kind };
    let (entry, exit) = (EventKind::SoftirqEntry { vector: 1 }, EventKind::SoftirqExit { vector: 1 });
    for k in 0..i64::try_from(CPU_CHANGES_MAX).unwrap() {
        builder.event(&event(10_000 + 20 * k, entry));
        builder.event(&event(10_010 + 20 * k, exit));
    }
    let switch = |time, prev, next, prev_state| {
        let comm = Comm::default();
        let kind = EventKind::Switch {
            prev: Tid(prev),
            prev_comm: comm,
            prev_prio: 120,
            prev_state,
            next: Tid(next),
            next_comm: comm,
            next_prio: 120,
        };
        Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(prev), kind }
    };
    builder.event(&switch(2_000_000, 8, 7, surety_model::event::LeaveState::Sleeping));
    builder.event(&switch(2_000_100, 7, 0, surety_model::event::LeaveState::Sleeping));
    let blames = builder.finish();
    let job = blames.slowest.of(1, 1000)[0];
    assert!(job.time_of(Cause::Unknown) > Nanos::from_micros(500), "{job:?}");
    assert!(job.time_of(Cause::Softirq(1)) > Nanos::from_micros(200), "{job:?}");
    assert_eq!(job.parts.iter().map(|p| p.time).sum::<Nanos>(), job.job.response());
}

proptest! {
    /// However contradictory the events: the parts sum to the response, the chain has no gap, and the jobs are those
    /// that the job builder finds.
    #[test]
    fn every_response_is_shared_out_exactly(script in any_script()) {
        let mut plain = JobBuilder::new();
        feed(&script, &mut plain);
        let plain = plain.finish();
        let blames = blames(&script, Wanted::default(), usize::MAX);
        prop_assert_eq!(blames.anomalies, plain.anomalies, "watching changes nothing");
        let mut jobs: Vec<Job> = Vec::new();
        for blamed in blames.slowest.of(blames.all.jobs, 1000) {
            jobs.push(blamed.job);
            let sum: Nanos = blamed.parts.iter().map(|part| part.time).sum();
            prop_assert_eq!(sum, blamed.job.response(), "{:?}", blamed);
            prop_assert!(blamed.parts.iter().all(|part| part.time.is_positive()), "{:?}", blamed);
            prop_assert!(blamed.time_of(Cause::Throttled) <= blamed.job.response());
        }
        for Worst { chain, .. } in &blames.worst {
            let mut cursor = chain.job.release;
            for piece in &chain.pieces {
                prop_assert_eq!(piece.from, cursor, "{:?}", chain);
                prop_assert!(piece.until > piece.from);
                cursor = piece.until;
            }
            prop_assert_eq!(cursor, chain.job.completion);
            let told: Nanos = stretches(&chain.pieces).iter().map(Stretch::time).sum();
            prop_assert_eq!(told, chain.job.response());
        }
        prop_assert_eq!(blames.worst.len() as u64, blames.all.jobs + blames.doubtful);
        prop_assert_eq!(blames.all.causes.values().copied().sum::<Nanos>(), blames.all.response);
        let order = |job: &Job| (job.completion, job.release, job.index, job.execution, job.start);
        let mut listed: Vec<Job> = plain.threads.iter().flat_map(|t| t.jobs.iter().copied()).collect();
        listed.sort_by_key(order);
        jobs.sort_by_key(order);
        prop_assert_eq!(jobs, listed, "every job");
        let counts = |of: &[surety_model::job::ThreadHistory]| -> Vec<(Tid, u64)> {
            of.iter().filter(|t| !t.jobs.is_empty()).map(|t| (t.tid, t.jobs.len() as u64)).collect()
        };
        let mut seen: Vec<(Tid, u64)> = blames.threads.iter().map(|t| (t.tid, t.jobs)).collect();
        let mut expected = counts(&plain.threads);
        seen.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(seen, expected);
    }
}
