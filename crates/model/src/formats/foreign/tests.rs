//! What files of rt-app become, what is refused of them and where, and that all that is read can be written as ours.

use std::fmt::Write as _;

use proptest::prelude::*;
use surety_units::{Bytes, CpuId, CpuSet, Nanos};

use super::dialect_of;
use crate::distribution::TimeDistribution;
use crate::formats::toml;
use crate::reservation::Reservation;
use crate::workload::{
    Fill, Instances, LockProtocol, Phase, PolicySpec, Release, Schedule, TaskBody, Timer, UtilClamp, Workload,
};

fn read(text: &str) -> Workload {
    dialect_of("f.json", "").unwrap().read("f.json", text).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    dialect_of("f.json", "").unwrap().read("f.json", text).expect_err(text).to_string()
}

/// The events of a thread, in a file with nothing else.
fn thread(body: &str) -> String {
    format!("{{ \"tasks\" : {{ \"t\" : {{ {body} }} }} }}")
}

fn steps(workload: &Workload, task: usize) -> &[Phase] {
    let TaskBody::Phases(phases) = &workload.tasks[task].body else { panic!("no phases") };
    phases
}

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn run(n: i64) -> Phase {
    Phase::Run(TimeDistribution::Constant(us(n)))
}

#[test]
fn events_come_in_the_order_of_the_file_by_the_beginning_of_their_keys() {
    let text = thread(
        "\"loop\": -1, \"run\": 10, \"runtime1\": 20, \"run\": 30, \"sleep_x\": 40, \"yield\": \"\", \
         \"sem_post\": \"s\", \"sem_wait\": \"s\", \"barrier2\": \"b\"",
    );
    let workload = read(&text);
    let (name, b) = (|| "s".to_owned(), "b".to_owned());
    let expected = [
        run(10),
        Phase::Busy(us(20)),
        run(30),
        Phase::Sleep(us(40)),
        Phase::Yield,
        Phase::Signal(name()),
        Phase::Wait(name()),
        Phase::Barrier(b),
    ];
    assert_eq!(steps(&workload, 0), expected);
    let task = &workload.tasks[0];
    assert_eq!((task.release, task.jobs), (Release::BackToBack { start: Nanos::ZERO }, None));
    assert_eq!(workload.source.locate("task.t.phases.2").as_deref(), Some("f.json:1:62"));
}

#[test]
fn conditions_are_what_wait_signal_broad_sync_suspend_and_resume_say() {
    let text = "{ \"tasks\": {
        \"a.b\": { \"lock\": \"m\", \"sync\": { \"ref\": \"q\", \"mutex\": \"m\" }, \"broad\": \"q\", \"unlock\": \"m\",
                   \"run\": 1, \"suspend\" },
        \"c\": { \"resume\": \"a.b\", \"run\": 1 } } }";
    let workload = read(text);
    let (m, q, own) = (|| "m".to_owned(), || "q".to_owned(), || "a.b".to_owned());
    let lock = || "a-b".to_owned();
    let expected = [
        Phase::Lock(m()),
        Phase::Notify(q()),
        Phase::Await { condition: q(), lock: m() },
        Phase::NotifyAll(q()),
        Phase::Unlock(m()),
        run(1),
        Phase::Lock(lock()),
        Phase::Await { condition: own(), lock: lock() },
        Phase::Unlock(lock()),
    ];
    assert_eq!(steps(&workload, 0), expected);
    let resumed = [Phase::Lock(lock()), Phase::NotifyAll(own()), Phase::Unlock(lock()), run(1)];
    assert_eq!(steps(&workload, 1), resumed);
    let names: Vec<&str> = workload.resources.iter().map(|resource| resource.name.as_str()).collect();
    assert_eq!((names, workload.tasks[0].name.as_str()), (vec!["a-b", "m"], "a-b"));
}

#[test]
fn defaults_are_those_of_the_program() {
    let text = "{ \"tasks\": {
        \"other\": { \"run\": 1 }, \"nice\": { \"priority\": -19, \"run\": 1 },
        \"fifo\": { \"policy\": \"SCHED_FIFO\", \"run\": 1 }, \"rr\": { \"policy\": \"SCHED_RR\", \"priority\": 7, \"run\": 1 },
        \"batch\": { \"policy\": \"SCHED_BATCH\", \"priority\": 3, \"run\": 1 },
        \"slice\": { \"dl-runtime\": 3000, \"run\": 1 },
        \"dl\": { \"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 9000, \"run\": 1 },
        \"none\": { \"instance\": 0, \"run\": 1 },
        \"more\": { \"instance\": 3, \"delay\": 5, \"loop\": 4, \"cpus\": [0, 2], \"run\": 1 } } }";
    let workload = read(text);
    let policies: Vec<PolicySpec> = workload.tasks.iter().map(|task| task.policy).collect();
    let fair = |nice, slice| PolicySpec::Fair { nice, slice };
    let expected = [
        fair(0, None),
        fair(-19, None),
        PolicySpec::Fifo { priority: 10 },
        PolicySpec::RoundRobin { priority: 7 },
        PolicySpec::Batch { nice: 3 },
        fair(0, Some(us(3000))),
        PolicySpec::Deadline,
        fair(0, None),
    ];
    assert_eq!(policies, expected);
    let (runtime, period) = (us(2000), us(9000));
    let reservation = Reservation { runtime, deadline: period, period, reclaim: false, demote: false };
    assert_eq!(workload.tasks[6].reservation, Some(reservation));
    let more = &workload.tasks[7];
    let cpus: CpuSet = [CpuId(0), CpuId(2)].into_iter().collect();
    assert_eq!((more.instances, more.jobs, more.cpus), (Instances::Count(3), Some(4), Some(cpus)));
    assert_eq!((more.release, workload.duration), (Release::BackToBack { start: us(5) }, None));
}

#[test]
fn what_global_says_is_of_all_threads() {
    let text = "{ \"tasks\": { \"t\": { \"lock\": \"m\", \"run\": 1, \"unlock\": \"m\", \"taskgroup\": \"/a/b.c\" },
        \"r\": { \"policy\": \"SCHED_RR\", \"run\": 1 } },
        \"resources\": { \"m\": { \"type\": \"mutex\" } },
        \"global\": { \"duration\": 2, \"default_policy\": \"SCHED_BATCH\", \"pi_enabled\": true, \"calibration\": \"CPU0\",
        \"frag\": 1, \"ftrace\": true, \"log_size\": 2 } }";
    let workload = read(text);
    assert_eq!(workload.duration, Some(Nanos::from_secs(2)));
    assert_eq!(workload.tasks[0].policy, PolicySpec::Batch { nice: 0 });
    assert_eq!(workload.resources[0].protocol, LockProtocol::Inherit);
    let groups: Vec<_> = workload.groups.iter().map(|g| (g.name.as_str(), g.parent.as_deref())).collect();
    assert_eq!(groups, [("a", None), ("a-b-c", Some("a"))]);
    assert_eq!(workload.tasks[0].group.as_deref(), Some("a-b-c"));
}

#[test]
fn phases_are_loops_and_the_thread_passes_through_all_of_them() {
    let timer = "\"timer\": { \"ref\": \"unique\", \"period\": 30000";
    let text = thread(&format!(
        "\"loop\": 2, \"phases\": {{ \"p\": {{ \"sleep\": 5 }}, \"light\": {{ \"loop\": 10, \"run\": 1, {timer} }} }},
         \"light\": {{ \"loop\": -1, \"run\": 2, {timer}, \"mode\": \"absolute\" }} }} }}"
    ));
    let workload = read(&text);
    let timer = || {
        Phase::Timer(Timer { name: "unique".to_owned(), period: us(30_000), absolute: true, shared: false })
    };
    let again = |times, work| Phase::Loop { times, phases: vec![run(work), timer()] };
    assert_eq!(steps(&workload, 0), [Phase::Sleep(us(5)), again(Some(10), 1), again(None, 2)]);
    assert_eq!(workload.tasks[0].jobs, Some(2));
    assert_eq!(workload.source.locate("task.t.phases.2.phases.0").as_deref(), Some("f.json:2:33"));
}

#[test]
fn bytes_go_to_memory_and_to_the_device_of_the_file() {
    let of = |global: &str, (buffer, device): (u64, &str)| {
        let text = format!(
            "{{ \"tasks\": {{ \"t\": {{ \"mem\": 5, \"iorun\": 6 }} }}, \"global\": {{ {global} }} }}"
        );
        let workload = read(&text);
        let fill =
            |bytes, file| Phase::Fill(Fill { bytes: Bytes(bytes), buffer: Bytes(buffer), file, takes: None });
        assert_eq!(steps(&workload, 0), [fill(5, None), fill(6, Some(device.to_owned()))]);
    };
    of("", (4 << 20, "/dev/null"));
    of("\"mem_buffer_size\": 1024, \"io_device\": \"/dev/zero\"", (1024, "/dev/zero"));
}

#[test]
fn what_has_no_counterpart_is_an_error_with_its_place() {
    for (body, expected) in [
        ("\"mem\": -5, \"run\": 1", "f.json:1:30: `mem` is between 0 and 2147483647"),
        (
            "\"run\": 1, \"memrun\": { \"type\": \"read\" }",
            "f.json:1:33: the event `memrun` has no counterpart (versions after 1.0",
        ),
        ("\"loop\": 1, \"fork\": \"t\", \"run\": 1", "f.json:1:34: `t` forks itself (fork from"),
        ("\"loop\": 1, \"fork\": \"u\", \"run\": 1", "f.json:1:34: there is no thread `u` to fork"),
        ("\"run\": 1, \"util_min\": 1025", "f.json:1:45: `util_min` is between -1 and 1024"),
        ("\"run\": 1, \"util_min\": 9, \"util_max\": 8", "f.json:1:33: `util_min` is more than `util_max`"),
        (
            "\"util_min\": 9, \"phases\": { \"p\": { \"run\": 1, \"util_max\": 8 } }",
            "f.json:1:67: `util_min` is more than `util_max`, of this phase or from before",
        ),
        (
            "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"run\": 1, \"util_max\": 8",
            "f.json:1:81: `util_max` means nothing to SCHED_DEADLINE",
        ),
        ("\"run\": 1, \"taskgroup\": \"g\"", "f.json:1:33: the task group `g` has no `/` at its beginning"),
        ("\"run\": 1, \"nodes_membind\": [0]", "f.json:1:33: `nodes_membind` has no counterpart"),
        ("\"run\": 1, \"x-class\": \"high\"", "f.json:1:33: unknown key `x-class`"),
        ("\"run\": 1, \"prioriti\": 4", "f.json:1:33: unknown key `prioriti` (did you mean `priority`?)"),
        ("\"run\": 1, \"rum\": 4", "f.json:1:33: unknown key `rum` (did you mean `run`?)"),
        ("\"run\": \"1\"", "f.json:1:30: `run` is a whole number, not a text"),
        ("\"run\": -1", "f.json:1:30: `run` is between 0 and 2147483647"),
        ("\"run\": 1.5", "f.json:1:30: `run` is a whole number, not a number of this form"),
        ("\"loop\": 1", "f.json:1:21: no events here"),
        ("\"run\": 1, \"policy\": \"SCHED_FAST\"", "f.json:1:43: `SCHED_FAST` is no policy"),
        ("\"run\": 1, \"priority\": 20", "f.json:1:45: `priority` is between -20 and 19"),
        ("\"run\": 1, \"policy\": \"SCHED_DEADLINE\"", "f.json:1:21: SCHED_DEADLINE needs `dl-runtime`"),
        ("\"run\": 1, \"loop\": 1, \"loop\": 2", "f.json:1:44: `loop` is here twice"),
        ("\"yield\": \"\"", "the jobs of `t` come back to back and take no time"),
        ("\"run\": 1, \"unlock\": \"m\"", "f.json:1:33: `m` is unlocked but not held"),
        ("\"run\": 1, \"suspend\"", "no task notifies of the condition `t`"),
        (
            "\"phases\": { \"p\": { \"run\": 1, \"dl-runtime\": 2000 } }",
            "f.json:1:52: `dl-runtime` alone changes nothing of a thread that is SCHED_OTHER",
        ),
        (
            "\"cpus\": [0], \"phases\": { \"p\": { \"run\": 1, \"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000 } }",
            "f.json:1:48: SCHED_DEADLINE and CPUs of its own are not played of one thread",
        ),
    ] {
        let told = refused(&thread(body));
        assert!(told.contains(expected), "{body}\n{told}");
    }
    assert!(refused("{ \"format\": 1 }").contains("this is no file of rt-app"));
    let twice = "{ \"tasks\": { \"t\": { \"run\": 1 }, \"t\": { \"run\": 1 } } }";
    assert!(refused(twice).contains("f.json:1:33: two threads are called `t`"));
    assert!(dialect_of("a.toml", "").is_none());
}

/// Each time that a thread comes to a `fork` another one begins, and does its passes; an instance that the file gives it runs beside.
#[test]
fn a_forked_thread_waits_until_it_is_begun() {
    let text = "{ \"tasks\": { \"child\": { \"instance\": 0, \"loop\": 3, \"priority\": 4, \"run\": 2, \"sleep\": 1 },
        \"once\": { \"loop\": 1, \"run\": 9 },
        \"p\": { \"instance\": 2, \"loop\": 5, \"phases\": { \"a\": { \"loop\": 2, \"run\": 1, \"fork\": \"child\" },
            \"b\": { \"fork\": \"once\" } } } } }";
    let workload = read(text);
    let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["once", "p", "child-forked", "once-forked"]);
    let fork = |name: &str| format!("fork:{name}");
    let again = |times, phases| Phase::Loop { times, phases };
    assert_eq!(
        steps(&workload, 1),
        [again(Some(2), vec![run(1), Phase::Signal(fork("child"))]), Phase::Signal(fork("once"))]
    );
    let passes = again(Some(3), vec![run(2), Phase::Sleep(us(1))]);
    assert_eq!(steps(&workload, 2), [Phase::Wait(fork("child")), passes]);
    assert_eq!(steps(&workload, 3), [Phase::Wait(fork("once")), run(9)]);
    let counts: Vec<Instances> = workload.tasks.iter().map(|task| task.instances).collect();
    assert_eq!(counts, [1, 2, 20, 10].map(Instances::Count));
    assert!(workload.tasks[2..].iter().all(|task| task.jobs == Some(1)));
    assert_eq!(workload.tasks[2].policy, PolicySpec::Fair { nice: 4, slice: None });
}

/// Of a thread that names no CPUs: those of the phase that forks it, in each of its phases that names none.
#[test]
fn a_forked_thread_has_the_cpus_of_who_forks_it() {
    let of = |child: &str, at: &str, other: &str| {
        format!(
            "{{ \"tasks\": {{ \"child\": {{ \"instance\": 0, \"loop\": 1, {child} }},
             \"p\": {{ \"loop\": 1, \"cpus\": [2], \"phases\": {{ \"a\": {{ {at} \"run\": 1, \"fork\": \"child\" }},
             \"b\": {{ {other} \"run\": 1 }} }} }} }} }}"
        )
    };
    let cpus = |cpu: u32| Some(CpuSet::single(CpuId(cpu)));
    let forked = |text: &str| read(text).tasks.swap_remove(1);
    let moving = "\"phases\": { \"x\": { \"run\": 1 }, \"y\": { \"cpus\": [3], \"run\": 2 } }";
    for (child, at, expected) in [
        ("\"run\": 1", "", cpus(2)),
        ("\"run\": 1", "\"cpus\": [1],", cpus(1)),
        ("\"cpus\": [0], \"run\": 1", "\"cpus\": [1],", cpus(0)),
        (moving, "\"cpus\": [1],", cpus(1)),
    ] {
        let task = forked(&of(child, at, ""));
        assert_eq!((task.name.as_str(), task.cpus), ("child-forked", expected), "{child} {at}");
        let leaves = task.body.leaves();
        let places: Vec<Option<CpuSet>> = leaves
            .iter()
            .filter_map(|phase| if let Phase::Cpus(cpus) = phase { Some(*cpus) } else { None })
            .collect();
        assert_eq!(places, if child == moving { vec![cpus(1), cpus(3)] } else { Vec::new() });
    }
    let twice = of("\"run\": 1", "\"cpus\": [1],", "\"fork\": \"child\",");
    let error = dialect_of("f.json", "").unwrap().read("f.json", &twice).expect_err("other CPUs");
    let expected = "f.json:3:21: `child` is forked here with the CPUs 2, and before with 1 (give it `cpus`)";
    assert!(error.list.len() == 1 && error.to_string().contains(expected), "{error}");
    read(&of("\"cpus\": [0], \"run\": 1", "\"cpus\": [1],", "\"fork\": \"child\","));
    let reserved = "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 9000, \"run\": 1";
    let error = dialect_of("f.json", "").unwrap().read("f.json", &of(reserved, "", "")).expect_err("CPUs");
    let expected = "f.json:2:75: the kernel refuses SCHED_DEADLINE";
    assert!(error.list.len() == 1 && error.to_string().contains(expected), "{error}");
}

/// The copies of B would fork C, too: C is begun twice, and not once.
#[test]
fn forks_that_cannot_be_counted_are_refused_with_their_place() {
    let b = "\"B\": { \"loop\": 1, \"fork\": \"C\", \"run\": 1 }";
    for (threads, expected) in [
        (
            format!("{b}, \"A\": {{ \"loop\": 1, \"fork\": \"B\", \"run\": 1 }}"),
            "f.json:1:32: `C` is forked by `B`, which is itself forked",
        ),
        (
            b.replacen("loop\": 1", "instance\": 0", 1),
            "f.json:1:36: `C` is forked by `B`, which has no instance",
        ),
        (b.replacen("loop\": 1", "loop\": 10001", 1), "f.json:1:36: `C` is forked more than 10000 times"),
        (b.replacen("loop\": 1", "loop\": -1", 1), "f.json:1:33: `C` is forked more than 10000 times"),
        (
            b.replacen("C", "A", 1) + ", \"A\": { \"delay\": 5, \"run\": 1 }",
            "f.json:1:32: `A`, which is forked, has a `delay`",
        ),
    ] {
        let c = "\"C\": { \"instance\": 0, \"loop\": 1, \"run\": 1 }";
        let text = format!("{{ \"tasks\": {{ {threads}, {c} }} }}");
        let error = dialect_of("f.json", "").unwrap().read("f.json", &text).expect_err(&text);
        assert!(error.list.len() == 1 && error.to_string().contains(expected), "{text}\n{error}");
    }
}

/// A phase that says what its thread says changes nothing.
#[test]
fn a_phase_may_repeat_what_its_thread_says() {
    let said = "\"cpus\": [1], \"priority\": 3, \"taskgroup\": \"/g\"";
    let workload = read(&thread(&format!("{said}, \"phases\": {{ \"p\": {{ \"run\": 1, {said} }} }}")));
    assert_eq!((workload.groups.len(), steps(&workload, 0)), (1, [run(1)].as_slice()));
}

/// A thread goes to the group of its phase and stays there; `/` is that of the run, and an empty one says nothing. Clamps stay, too.
#[test]
fn phases_change_the_group_and_the_clamps_of_their_thread() {
    let text = "\"taskgroup\": \"/g\", \"util_max\": 700, \"phases\": {
        \"a\": { \"taskgroup\": \"/g/h\", \"run\": 1 }, \"b\": { \"util_min\": 100, \"util_max\": -1, \"run\": 2 },
        \"c\": { \"taskgroup\": \"\", \"run\": 3 }, \"d\": { \"taskgroup\": \"/\", \"run\": 4 } }";
    let workload = read(&thread(text));
    let task = &workload.tasks[0];
    let clamp = |min, max| UtilClamp { min, max };
    assert_eq!((task.group.as_deref(), task.util), (Some("g"), clamp(None, Some(700))));
    let group = |name: Option<&str>| Phase::Group(name.map(str::to_owned));
    let expected = [
        group(Some("g-h")),
        run(1),
        Phase::Clamp(clamp(Some(100), None)),
        run(2),
        run(3),
        group(None),
        run(4),
    ];
    assert_eq!(steps(&workload, 0), expected);
    let groups: Vec<_> = workload.groups.iter().map(|g| (g.name.as_str(), g.parent.as_deref())).collect();
    assert_eq!(groups, [("g", None), ("g-h", Some("g"))]);
    let written = toml::write(&workload);
    assert_eq!(toml::read("w", &written).unwrap_or_else(|error| panic!("{error}\n{written}")), workload);
}

/// Threads meet at a barrier before they begin; one that is alone, or that another begins, does not.
#[test]
fn threads_begin_together_but_those_that_are_forked() {
    let together = |text: &str| -> Vec<(String, bool)> {
        read(text).tasks.into_iter().map(|task| (task.name, task.together)).collect()
    };
    assert_eq!(together(&thread("\"run\": 1")), [("t".to_owned(), false)]);
    assert_eq!(together(&thread("\"instance\": 2, \"run\": 1")), [("t".to_owned(), true)]);
    let text = "{ \"tasks\": { \"a\": { \"loop\": 1, \"run\": 1, \"fork\": \"c\" }, \"b\": { \"run\": 1 },
        \"c\": { \"instance\": 0, \"loop\": 1, \"run\": 1 } } }";
    let expected = [("a", true), ("b", true), ("c-forked", false)];
    assert_eq!(together(text), expected.map(|(name, together)| (name.to_owned(), together)));
}

/// CPUs are those of the phase, else of the thread, else all; scheduling is kept until a phase says another, and what that leaves out is
/// the default of its policy.
#[test]
fn phases_change_cpus_and_scheduling_of_their_thread() {
    let cpus = |list: &[u32]| Phase::Cpus(Some(list.iter().map(|cpu| CpuId(*cpu)).collect()));
    let becomes = |policy| Phase::Become(Schedule { policy, reservation: None });
    let phases = |thread: &str| {
        format!(
            "{thread} \"phases\": {{ \"a\": {{ \"cpus\": [0], \"priority\": 5, \"run\": 1 }}, \"b\": {{ \"run\": 2 }},
             \"c\": {{ \"loop\": 2, \"policy\": \"SCHED_FIFO\", \"cpus\": [1], \"run\": 3 }},
             \"d\": {{ \"priority\": 7, \"run\": 4 }} }}"
        )
    };
    let fifo = |priority| becomes(PolicySpec::Fifo { priority });
    let again = || Phase::Loop { times: Some(2), phases: vec![run(3)] };
    let workload = read(&thread(&phases("\"cpus\": [2],")));
    let nice = |nice, slice| becomes(PolicySpec::Fair { nice, slice });
    let own = || cpus(&[2]);
    let expected = [
        cpus(&[0]),
        nice(5, None),
        run(1),
        own(),
        run(2),
        cpus(&[1]),
        fifo(10),
        again(),
        own(),
        fifo(7),
        run(4),
    ];
    assert_eq!(steps(&workload, 0), expected);
    assert_eq!(workload.tasks[0].cpus, [CpuId(2)].into_iter().collect::<CpuSet>().into());
    assert_eq!(workload.source.locate("task.t.phases.5").as_deref(), Some("f.json:2:14"));
    let workload = read(&thread(&phases("\"dl-runtime\": 3000,")));
    assert_eq!(steps(&workload, 0)[1], nice(5, Some(us(3000))));
    assert_eq!((&steps(&workload, 0)[3], workload.tasks[0].cpus), (&Phase::Cpus(None), None));
    // What all phases say alike is what the thread has.
    let alike = "\"phases\": { \"a\": { \"cpus\": [1], \"run\": 1 }, \"b\": { \"cpus\": [1], \"run\": 2 } }";
    let workload = read(&thread(alike));
    assert_eq!(
        (steps(&workload, 0), workload.tasks[0].cpus),
        ([run(1), run(2)].as_slice(), Some([CpuId(1)].into_iter().collect()))
    );
    let deadline = "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 9000,
        \"phases\": { \"a\": { \"run\": 1 }, \"b\": { \"dl-runtime\": 1000, \"run\": 2 } }";
    let (runtime, period) = (us(1000), us(1000));
    let reservation = Some(Reservation { runtime, deadline: period, period, reclaim: false, demote: false });
    let schedule = Schedule { policy: PolicySpec::Deadline, reservation };
    assert_eq!(steps(&read(&thread(deadline)), 0), [run(1), Phase::Become(schedule), run(2)]);
}

/// A timer without `unique` is one for all threads and instances that name it, and absolute where one of them says so.
#[test]
fn a_timer_is_shared_unless_it_is_unique() {
    let text = |timer: &str, second: &str| {
        let timer = format!("\"run\": 1, \"timer\": {{ \"ref\": \"{timer}\", \"period\": 9");
        format!(
            "{{ \"tasks\": {{ \"a\": {{ {timer} }} }}, \"b\": {{ {second} {timer}, \"mode\": \"absolute\" }} }} }} }}"
        )
    };
    let timer = |name: &str, absolute, shared| {
        Phase::Timer(Timer { name: name.to_owned(), period: us(9), absolute, shared })
    };
    let workload = read(&text("tick", ""));
    assert_eq!(
        (&steps(&workload, 0)[1], &steps(&workload, 1)[1]),
        (&timer("tick", true, true), &timer("tick", true, true))
    );
    let workload = read(&text("unique1", "\"instance\": 2,"));
    assert_eq!(
        (&steps(&workload, 0)[1], &steps(&workload, 1)[1]),
        (&timer("unique1", false, false), &timer("unique1", true, false))
    );
    let alone = read(&thread("\"instance\": 2, \"run\": 1, \"timer\": { \"ref\": \"tick\", \"period\": 9 }"));
    assert_eq!(steps(&alone, 0)[1], timer("tick", false, true));
    let written = toml::write(&alone);
    assert_eq!(toml::read("w.toml", &written).unwrap_or_else(|error| panic!("{error}\n{written}")), alone);
}

/// An event of a file, with what it needs around it so that the file can be played.
fn event() -> impl Strategy<Value = String> {
    let number = 1..100_000_u32;
    prop_oneof![
        number.clone().prop_map(|n| format!("\"run\": {n}")),
        number.clone().prop_map(|n| format!("\"runtime\": {n}")),
        number.clone().prop_map(|n| format!("\"sleep\": {n}")),
        number
            .clone()
            .prop_map(|n| format!("\"timer\": {{ \"ref\": \"unique{}\", \"period\": {n} }}", n % 3)),
        number.prop_map(|n| format!("\"lock\": \"m{0}\", \"broad\": \"q{0}\", \"unlock\": \"m{0}\"", n % 3)),
        Just("\"yield\"".to_owned()),
        Just("\"sem_post\": \"s\", \"sem_wait\": \"s\"".to_owned()),
        Just("\"resume\": \"t\"".to_owned()),
    ]
}

/// What phases of a thread say of its CPUs and of how it is scheduled: the kernel has no CPUs beside SCHED_DEADLINE.
fn changes() -> impl Strategy<Value = Vec<String>> {
    let nothing = || Just(String::new());
    let fair = (-20..20_i32, 0..2_u32).prop_map(|(nice, batch)| {
        let word = ["SCHED_OTHER", "SCHED_BATCH"][batch as usize];
        format!("\"policy\": \"{word}\", \"priority\": {nice}, ")
    });
    let realtime = (1..100_u32, 0..2_u32).prop_map(|(priority, rr)| {
        let word = ["SCHED_FIFO", "SCHED_RR"][rr as usize];
        format!("\"policy\": \"{word}\", \"priority\": {priority}, ")
    });
    let policy = prop_oneof![nothing(), fair, realtime].boxed();
    let cpus = prop_oneof![nothing(), (0..4_u32).prop_map(|cpu| format!("\"cpus\": [{cpu}], "))];
    let confined = (policy.clone(), cpus).prop_map(|(policy, cpus)| policy + &cpus);
    let deadline = (2_000..9_000_u32, 10_000..90_000_u32).prop_map(|(runtime, period)| {
        format!("\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": {runtime}, \"dl-period\": {period}, ")
    });
    let reserved = prop_oneof![policy, deadline];
    prop_oneof![prop::collection::vec(confined, 1..4), prop::collection::vec(reserved, 1..4)]
}

proptest! {
    /// What is read is written as our own file, which reads back the same.
    #[test]
    fn a_file_becomes_one_of_ours(
        threads in prop::collection::vec(
            (prop::collection::vec(event(), 1..8), -1..4_i32, 1..3_u32, changes()), 1..4,
        ),
    ) {
        let mut text = "{ \"tasks\": {".to_owned();
        for (number, (events, loops, instances, changes)) in threads.iter().enumerate() {
            let _ = writeln!(text, "\"t.{number}\": {{ \"instance\": {instances}, \"phases\": {{ // x");
            let events = events.join(", ");
            for (place, change) in changes.iter().enumerate() {
                let _ = writeln!(text, "\"p{place}\": {{ {change}\"loop\": {loops}, \"run\": 1, {events}, }},");
            }
            text.push_str("} },");
        }
        text.push_str("} }");
        let workload = read(&text);
        let written = toml::write(&workload);
        prop_assert_eq!(toml::read("w.toml", &written).unwrap_or_else(|e| panic!("{e}\n{written}")), workload);
    }

    /// Any text is read or refused, with a place inside it.
    #[test]
    fn any_text_is_read_or_refused(text in "[{}\\[\\]:,\"/*a-z0-9 \n\\\\-]{0,80}") {
        if let Err(error) = dialect_of("f.json", "").unwrap().read("f.json", &text) {
            prop_assert!(error.list.iter().all(|one| one.span.end <= text.len()), "{}", error);
        }
    }
}
