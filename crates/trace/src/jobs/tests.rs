//! Scripted events with the jobs they must give, and laws for random scripts.
//!
//! A script is lines of `TIME CPU EVENT ...`, times in microseconds. The thread that is current is the one the last
//! switch of the CPU put there; `@TID` behind the CPU says otherwise.

use proptest::prelude::*;
use surety_model::event::{TimerFunction, Woken};
use surety_model::job::{Job, Separation};

use super::*;

mod scripts;

fn us(value: i64) -> Nanos {
    Nanos::from_micros(value)
}

/// `TID:STATE:PRIO`, the last two optional.
fn party(text: &str) -> (Tid, LeaveState, i32) {
    let mut parts = text.split(':');
    let tid = Tid(parts.next().unwrap().parse().unwrap());
    let state = match parts.next().unwrap_or("R") {
        "R+" => LeaveState::Runnable { preempted: true },
        letter => crate::states::leave_state(letter.as_bytes()[0]),
    };
    (tid, state, parts.next().map_or(120, |p| p.parse().unwrap()))
}

fn comm(tid: Tid) -> Comm {
    Comm::new(&match tid.0 {
        0 => "swapper".to_owned(),
        900 => "migration/0".to_owned(),
        901 => "ksoftirqd/0".to_owned(),
        902 => "irq/9-disk".to_owned(),
        tid => format!("t{tid}"),
    })
}

fn function(name: &str) -> TimerFunction {
    match name {
        "dl" => TimerFunction::DeadlineReplenish,
        "tick" => TimerFunction::Tick,
        _ => TimerFunction::Other,
    }
}

/// Runs a script.
fn play(script: &str) -> Jobs {
    let mut builder = JobBuilder::new();
    feed(script, &mut builder);
    builder.finish()
}

/// Hands a script's events to a sink.
pub(crate) fn feed(script: &str, sink: &mut dyn TraceSink) {
    let mut current = [Tid::IDLE; 4];
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (cpu, who) = words[1].split_once('@').unwrap_or((words[1], ""));
        let cpu: u32 = cpu.parse().unwrap();
        let here = &mut current[cpu as usize];
        if let Ok(tid) = who.parse() {
            *here = Tid(tid);
        }
        let mut running = *here;
        let number = |k: usize| words[k].parse::<i32>().unwrap();
        let target = CpuId(words.get(4).and_then(|word| word.parse().ok()).unwrap_or(cpu));
        let woken = || Woken { tid: Tid(number(3)), comm: comm(Tid(number(3))), prio: 120, target };
        let kind = match words[2] {
            "sw" => {
                let ((prev, prev_state, prev_prio), (next, _, next_prio)) =
                    (party(words[3]), party(words[4]));
                *here = next;
                EventKind::Switch {
                    prev,
                    prev_comm: comm(prev),
                    prev_prio,
                    prev_state,
                    next,
                    next_comm: comm(next),
                    next_prio,
                }
            }
            "migrate" => EventKind::Migrate {
                tid: Tid(number(3)),
                comm: comm(Tid(number(3))),
                from: CpuId(0),
                to: CpuId(words[4].parse().unwrap()),
            },
            "waking" => EventKind::Waking(woken()),
            "wakeup" => EventKind::Wakeup(woken()),
            "new" => EventKind::WakeupNew(woken()),
            "fork" => EventKind::Fork { parent: running, child: Tid(number(3)), child_comm: comm(running) },
            "exit" => EventKind::Exit { tid: Tid(number(3)), comm: comm(Tid(number(3))) },
            "exec" => {
                running = Tid(number(3));
                *here = running;
                EventKind::Exec { tid: Tid(number(3)), old: Tid(number(4)) }
            }
            "irq" => EventKind::IrqEntry { irq: 9, name: "disk" },
            "irqx" => EventKind::IrqExit { irq: 9 },
            "raise" => EventKind::SoftirqRaise { vector: 3 },
            "soft" => EventKind::SoftirqEntry { vector: 3 },
            "softx" => EventKind::SoftirqExit { vector: 3 },
            "vec" => EventKind::VectorEntry { name: "local_timer" },
            "vecx" => EventKind::VectorExit { name: "local_timer" },
            "arm" => EventKind::TimerStart {
                timer: words[3].parse().unwrap(),
                function: function(words[4]),
                expires: Nanos::ZERO,
            },
            "fire" => {
                EventKind::TimerExpire { timer: words[3].parse().unwrap(), function: function(words[4]) }
            }
            "cancel" => EventKind::TimerCancel { timer: words[3].parse().unwrap() },
            // FUTEX_LOCK_PI, FUTEX_WAIT for 2 or for another value, both private.
            "lockpi" => EventKind::FutexEnter { address: 16, operation: 6 | 128, value: 0 },
            "lock" => EventKind::FutexEnter { address: 16, operation: 128, value: 2 },
            "wait" => EventKind::FutexEnter { address: 16, operation: 128, value: 7 },
            "futexx" => EventKind::FutexExit,
            "mark" => EventKind::Marker { text: words[3] },
            "lost" => EventKind::Lost { count: None },
            other => panic!("{other}"),
        };
        let time = us(words[0].parse().unwrap());
        sink.event(&Event { time, cpu: CpuId(cpu), current: running, kind });
    }
}

/// One thread in a line: its jobs as `release/start/completion execution`, what is not zero of the rest, and what was
/// censored.
fn tell(jobs: &Jobs, tid: i32) -> String {
    let lives: Vec<String> = jobs
        .threads
        .iter()
        .filter(|t| t.tid == Tid(tid))
        .map(|thread| {
            let mut told: Vec<String> = thread.jobs.iter().map(tell_job).collect();
            told.extend(thread.doubtful.iter().map(|job| format!("doubtful {}", tell_job(job))));
            if thread.censored > 0 {
                told.push(format!("censored {}", thread.censored));
            }
            told.join("; ")
        })
        .collect();
    lives.join(" | ")
}

fn tell_job(job: &Job) -> String {
    let micros = |t: Nanos| t.get() / 1000;
    let mut text = format!(
        "{}/{}/{} {}",
        micros(job.release),
        micros(job.start),
        micros(job.completion),
        micros(job.execution)
    );
    for (name, value) in [
        ("int", micros(job.interrupted)),
        ("pre", i64::from(job.preemptions)),
        ("thr", micros(job.throttled)),
        ("inferred", micros(job.inferred)),
        ("unknown", micros(job.unknown)),
    ] {
        if value != 0 {
            text += &format!(" {name} {value}");
        }
    }
    job.index.map_or(text.clone(), |index| format!("#{index} {text}"))
}

#[test]
fn scripts_give_their_jobs() {
    for (what, script, tid, expected) in scripts::SCRIPTS {
        assert_eq!(&tell(&play(script), *tid), expected, "{what}");
    }
}

#[test]
fn waiting_is_what_was_wanted_and_not_had() {
    let jobs = play(
        "10 0 waking 7
         15 0 sw 0 7
         20 0 sw 7:R+ 8
         40 0 sw 8:S 7
         50 0 sw 7:S 0
         60 0 waking 7
         70 1 waking 9",
    );
    let thread = jobs.threads.iter().find(|t| t.tid == Tid(7)).unwrap();
    assert_eq!((thread.waited, thread.longest_wait), (us(5 + 20 + 10), us(20)));
    assert_eq!((thread.run, thread.seen), (us(15), (us(10), us(60))));
}

#[test]
fn separation_is_markers_only_with_markers() {
    let jobs = play("10 0 waking 7\n12 0 sw 0 7\n13 0 mark surety:b:0:9000\n14 0 waking 8");
    let separations: Vec<Separation> = jobs.threads.iter().map(|t| t.separation).collect();
    assert_eq!(separations, [Separation::Markers, Separation::BusyPeriod]);
}

#[test]
fn anomalies_are_counted() {
    for (script, expected) in [
        ("5 0 irqx", Anomalies { unmatched_exits: 1, ..Anomalies::default() }),
        ("5 0 lost\n6 1 lost", Anomalies { gaps: 2, ..Anomalies::default() }),
        (
            "1 0 waking 7\n2 0 sw 0 7\n3 0 sw 7:S 0\n5 0 sw 0 7\n6 1 waking 7\n7 0 sw 7:S 0",
            Anomalies { reordered: 1, ..Anomalies::default() },
        ),
        (
            "1 0 waking 7\n2 0 sw 0 7\n3 0 sw 7:S 0\n5 0 sw 0 7\n7 0 sw 7:S 0",
            Anomalies { unreleased: 1, ..Anomalies::default() },
        ),
        ("1 0 waking 7\n2 0 sw 0 7\n3 1 sw 0 7", Anomalies { inconsistent: 1, ..Anomalies::default() }),
        ("1 0 sw 5:S 0\n2 0@7 irq", Anomalies { inferred: 1, ..Anomalies::default() }),
        ("1 0 sw 5:S 0\n100 0@7 irq", Anomalies { doubtful: 1, ..Anomalies::default() }),
        ("1 0@7 mark surety:b:1:9000", Anomalies { misdated: 1, ..Anomalies::default() }),
        (
            "1 0@7 mark surety:e:1\n2 0 mark surety:b:2:0\n3 0 mark surety:b:3:0",
            Anomalies { unmatched_markers: 2, ..Anomalies::default() },
        ),
    ] {
        assert_eq!(play(script).anomalies, expected, "{script}");
    }
    let mut builder = JobBuilder::new();
    let kind = EventKind::Lost { count: None };
    builder.event(&Event { time: us(1), cpu: CpuId(u32::MAX), current: Tid(1), kind });
    assert_eq!(builder.finish().anomalies, Anomalies { impossible: 1, ..Anomalies::default() });
}

#[test]
fn time_that_was_counted_is_not_counted_again_by_inference() {
    // Thread 5 runs on CPU 1 until a switch there does not name it; then an event of CPU 0 finds it there.
    let jobs = play("0 1 sw 0 5\n0 0 sw 0 0\n1 1 sw 0 0\n1 0@5 sw 0 0");
    assert_eq!(jobs.threads.iter().map(|t| t.run).sum::<Nanos>(), us(1), "{jobs:?}");
    // Thread 1 is found on CPU 2, then on CPU 0, each after a long time in which no event named it.
    let jobs = play("0 2@0 irq\n0 0@9 irq\n70 2@1 irqx\n70 0@1 irqx");
    let thread = jobs.threads.iter().find(|t| t.tid == Tid(1)).unwrap();
    assert_eq!(thread.run + thread.unknown, us(70), "{jobs:?}");
}

/// A thread of 1 ms every 4 ms on CPU 1, woken by that CPU's timer; the short one of 12 us between is woken by CPU 0. Switches out of
/// idle are left out where `blind`.
fn periodic(blind: bool) -> String {
    let mut script = String::from("0 0@9 irq\n1 0@9 irqx\n2 1 sw 8:S 0\n");
    for k in 1..=40 {
        let t = 4_000 * k;
        let switch = |at: i64, tid: i32| if blind { String::new() } else { format!("{at} 1@0 sw 0 {tid}\n") };
        script += &format!("{t} 1@0 vec\n{t} 1 waking 7\n{} 1 wakeup 7\n{} 1 vecx\n", t + 1, t + 5);
        script += &switch(t + 7, 7);
        script += &format!("{} 1@7 sw 7:S 0\n", t + 1_007);
        script += &format!("{} 0@9 waking 6\n{} 0 wakeup 6 1\n", t + 2_000, t + 2_001);
        script += &switch(t + 2_005, 6);
        script += &format!("{} 1@6 sw 6:S 0\n", t + 2_017);
    }
    script
}

#[test]
fn a_cpu_that_records_no_switch_out_of_idle_keeps_its_jobs() {
    let (whole, blind) = (play(&periodic(false)), play(&periodic(true)));
    assert_eq!((whole.anomalies.inferred, whole.anomalies.doubtful), (0, 0));
    let of = |jobs: &Jobs, tid: i32| jobs.threads.iter().find(|t| t.tid == Tid(tid)).unwrap().clone();
    let (long, short) = (of(&blind, 7), of(&blind, 6));
    // Until it is clear that the CPU leaves them all out, a wide gap is unknown.
    assert_eq!((long.jobs.len(), long.censored, blind.anomalies.doubtful), (38, 2, 2));
    assert_eq!((short.jobs.len(), short.censored, blind.anomalies.inferred), (40, 0, 78));
    assert_eq!(long.unknown, us(2 * 1_002));
    for (truth, found) in of(&whole, 7).jobs[2..].iter().zip(&long.jobs) {
        assert_eq!((found.release, found.completion), (truth.release, truth.completion));
        assert_eq!((truth.start - found.start, found.inferred), (us(2), us(1_002)));
    }
    assert_eq!(tell_job(&short.jobs[0]), "6000/6001/6017 16 inferred 16");
    // What the doubtful ones can have used at most counts for who makes plans of it.
    let all = long.at_most();
    assert_eq!((all.jobs.len(), all.censored), (40, 0));
    assert!(all.jobs.iter().all(|job| job.execution >= us(1_000)), "{all:?}");
}

#[test]
fn a_sleeping_cpu_does_not_lend_its_time_to_a_thread() {
    // CPU 1 leaves out its switches out of idle, and nothing of it is seen between a wake-up by CPU 0 and the sleep of a thread that
    // else needs 12 us.
    let late = "170000 0@9 waking 6\n170001 0 wakeup 6 1\n171680 1@6 sw 6:S 0\n";
    let thread = |script: &str| play(script).threads.iter().find(|t| t.tid == Tid(6)).unwrap().clone();
    let found = thread(&(periodic(true) + late));
    assert_eq!((found.jobs.len(), found.censored), (40, 1));
    assert_eq!(tell_job(&found.doubtful[0]), "170000/171680/171680 0 unknown 1679");
    assert_eq!(found.run, us(40 * 16), "nothing of it is taken for execution");
}

/// A script of any events.
pub(crate) fn any_script() -> impl Strategy<Value = String> {
    prop::collection::vec(any_event(), 0..120).prop_map(|events| {
        let mut now = 0;
        let line = |(step, event): (i64, String)| {
            now += step;
            format!("{now} {event}\n")
        };
        events.into_iter().map(line).collect()
    })
}

/// Any event of a small world: three CPUs, six threads, two timers.
fn any_event() -> impl Strategy<Value = (i64, String)> {
    let state = prop_oneof![Just("R"), Just("R+"), Just("S"), Just("D"), Just("X")];
    let kind = prop_oneof![
        6 => (0..6i32, state, -1..1i32, 0..6i32, -1..1i32)
            .prop_map(|(p, s, pp, n, np)| format!("sw {p}:{s}:{pp} {n}:R:{np}")),
        4 => (1..6i32).prop_map(|t| format!("waking {t}")),
        2 => (1..6i32, 0..3u8).prop_map(|(t, cpu)| format!("wakeup {t} {cpu}")),
        1 => (1..6i32, 0..3u8).prop_map(|(t, cpu)| format!("migrate {t} {cpu}")),
        1 => (1..6i32).prop_map(|t| format!("new {t}")),
        1 => (1..6i32).prop_map(|t| format!("fork {t}")),
        1 => (1..6i32).prop_map(|t| format!("exit {t}")),
        1 => (1..6i32, 1..6i32).prop_map(|(a, b)| format!("exec {a} {b}")),
        4 => prop_oneof![Just("irq"), Just("irqx"), Just("soft"), Just("softx"), Just("vec"), Just("vecx")]
            .prop_map(str::to_owned),
        3 => (1..3i32, prop_oneof![Just("arm"), Just("fire")], prop_oneof![Just("dl"), Just("?")])
            .prop_map(|(t, what, f)| format!("{what} {t} {f}")),
        4 => (0..3u8, any::<bool>(), -10_000..3_000_000i64).prop_map(|(job, begin, release)| if begin {
            format!("mark surety:b:{job}:{release}")
        } else {
            format!("mark surety:e:{job}")
        }),
        1 => Just("lost".to_owned()),
    ];
    let current = prop::option::weighted(0.1, 0..6i32);
    (0..20i64, 0..3u8, current, kind).prop_map(|(step, cpu, current, kind)| {
        let who = current.map_or(String::new(), |tid| format!("@{tid}"));
        (step, format!("{cpu}{who} {kind}"))
    })
}

proptest! {
    /// However contradictory the events: the sums hold.
    #[test]
    fn sums_hold_for_any_events(script in any_script()) {
        let last = script.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
        let now: i64 = last.unwrap_or(0);
        let jobs = play(&script);
        for thread in &jobs.threads {
            let mut executed = Nanos::ZERO;
            let mut before = Nanos::ZERO;
            for job in &thread.jobs {
                prop_assert!(job.start <= job.completion, "{job:?}");
                prop_assert!(job.release <= job.start, "{job:?}");
                prop_assert!(!job.interrupted.is_negative() && job.interrupted <= job.execution, "{job:?}");
                prop_assert!(job.execution + job.throttled <= job.completion - job.start, "{job:?}");
                prop_assert!(before <= job.completion, "jobs come in the order of completion");
                before = job.completion;
                executed += job.execution;
            }
            prop_assert!(executed <= thread.run);
            prop_assert!(thread.longest_wait <= thread.waited);
            prop_assert!(thread.run + thread.waited + thread.unknown <= us(now), "{thread:?}");
            for job in &thread.doubtful {
                prop_assert!(job.unknown.is_positive() && job.release <= job.start && job.start <= job.completion);
                prop_assert!(job.execution + job.unknown + job.throttled <= job.response(), "{job:?}");
            }
            prop_assert!(thread.seen.0 <= thread.seen.1);
        }
        prop_assert_eq!(play(&script), jobs, "the same events give the same jobs");
    }
}
