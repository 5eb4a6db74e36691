//! Task sets of PARTSim in the simulator, held against the completion times that PARTSim itself gives.
//!
//! The numbers are from its sources of 2024 (`github.com/gabrieleara/PARTSim`, commit 37a9a4c), each set by
//!
//! ```text
//! rtsim system.yml taskset.yml TICKS -t trace.txt; grep ' ended, its arrival' trace.txt
//! ```

mod common;

use std::collections::BTreeMap;

use surety_model::event::{Event, EventKind, JobMarker};
use surety_model::formats::foreign::dialect_of;
use surety_model::formats::foreign::partsim::System;
use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::{Observer, RunOptions, World as _};
use surety_sim::SimWorld;
use surety_units::{CpuSet, Nanos};

/// When jobs of each task were done, in ticks.
#[derive(Default)]
struct Completions {
    names: BTreeMap<i32, String>,
    done: BTreeMap<String, Vec<i64>>,
}

impl Observer for Completions {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Wakeup(woken) => drop(self.names.insert(woken.tid.0, woken.comm.to_string())),
            EventKind::Marker { text } => {
                if let Some(JobMarker::End { .. }) = JobMarker::parse(text) {
                    let name = self.names.get(&event.current.0).expect("it was woken").clone();
                    assert_eq!(event.time.get() % 1000, 0, "{name} is done within a tick");
                    self.done.entry(name).or_default().push(event.time.get() / 1000);
                }
            }
            _ => {}
        }
    }
}

fn workload(system: &str, tasks: &str) -> (Workload, u32) {
    let mut table =
        |_: &str| Ok("model,freq,workload,power,speed\nm,1000,w,0.5,1\nm,1000,idle,0.1,1\n".to_owned());
    let system = System::read("system.yml", system, &mut table).unwrap_or_else(|error| panic!("{error}"));
    let dialect = dialect_of("taskset.yml", tasks).expect("it is one of PARTSim");
    let workload =
        dialect.read_on("taskset.yml", tasks, Some(&system)).unwrap_or_else(|error| panic!("{error}"));
    (workload, system.cpus())
}

/// Completion times of each task of a set, in ticks, as simulated for `ticks`.
fn completions(system: &str, tasks: &str, ticks: i64) -> BTreeMap<String, Vec<i64>> {
    let (workload, cpus) = workload(system, tasks);
    let options = RunOptions {
        warm_up: Nanos::ZERO,
        duration: Nanos::from_micros(ticks) + Nanos::new(1),
        cpus: Some(CpuSet::first(cpus)),
        ..RunOptions::default()
    };
    let mut seen = Completions::default();
    let world = SimWorld::new(Platform::linux_6_18(cpus));
    world.run(&workload, &options, &mut seen).unwrap_or_else(|error| panic!("{error}"));
    seen.done
}

/// Islands on which each tick of work is one: CPUs, scheduler, placement.
fn system(islands: &[(u32, &str, &str)]) -> String {
    let mut text =
        "power_models:\n  - name: m\n    type: table_based\n    filename: m.csv\ncpu_islands:\n".to_owned();
    for (cpus, scheduler, placement) in islands {
        text += &format!(
            "  - name: i\n    numcpus: {cpus}\n    kernel:\n      scheduler: {scheduler}\n      task_placement: {placement}\n    \
             volts: [1]\n    freqs: [1000]\n    power_model: m\n    speed_model: m\n"
        );
    }
    text
}

/// A set from lines `name iat[+ph] cpu budget/period code...`, with `-` for no server. The resource `free` is free, all others are taken.
fn taskset(lines: &str) -> String {
    let mut text = "taskset:\n".to_owned();
    let mut resources: Vec<String> = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, iat, cpu, server, code @ ..] = words.as_slice() else { panic!("{line}") };
        let (iat, phase) = iat.split_once('+').unwrap_or((iat, "0"));
        text += &format!("  - name: {name}\n    iat: {iat}\n    ph: {phase}\n    startcpu: {cpu}\n");
        if let Some((budget, period)) = server.split_once('/') {
            text += &format!("    cbs_runtime: {budget}\n    cbs_period: {period}\n");
        }
        text += "    code:\n";
        for instruction in code {
            text += &format!("      - {instruction}\n");
            let named =
                instruction.split_once("lock(").map(|(_, rest)| rest.trim_end_matches(')').to_owned());
            resources.extend(named.filter(|name| !resources.contains(name)));
        }
    }
    text += "resources:\n";
    for name in &resources {
        let state = if name == "free" { "unlocked" } else { "locked" };
        text += &format!("  - name: {name}\n    initial_state: {state}\n");
    }
    text
}

/// A set, the ticks it is run for, and the completion times of each task that PARTSim gives before these have passed.
type Case<'a> = (&'a [(u32, &'a str, &'a str)], &'a str, i64, &'a [(&'a str, &'a [i64])]);

const ONE: &[(u32, &str, &str)] = &[(1, "edf", "partitioned")];
const TWO: &[(u32, &str, &str)] = &[(2, "edf", "partitioned")];

fn agree(cases: &[Case<'_>]) {
    for (islands, set, ticks, expected) in cases {
        let mut done = completions(&system(islands), &taskset(set), *ticks);
        done.values_mut().for_each(|times| times.retain(|time| time < ticks));
        let expected: BTreeMap<String, Vec<i64>> =
            expected.iter().map(|(name, times)| ((*name).to_owned(), times.to_vec())).collect();
        assert_eq!(done, expected, "{set}");
    }
}

/// The sets of its folder `examples`, and the graph of its `single-dag.yml`. Of equal deadlines at one instant the order of names counts here, and
/// that of the file there: tasks are named in its order.
#[test]
fn its_example_sets_have_its_completion_times() {
    let gpu = [(1, "edf", "partitioned"), (1, "truefifo", "partitioned")];
    let fifo = [(1, "truefifo", "partitioned")];
    agree(&[
        (
            ONE,
            "a 40 0 - fixed(10,w)\n b 100 0 - fixed(60,w)",
            200,
            &[("a", &[10, 50, 90, 130, 180]), ("b", &[80, 170])],
        ),
        (
            ONE,
            "a 100 0 10/20 fixed(15,w)\n b 100 0 10/20 fixed(15,w)",
            200,
            &[("a", &[25, 125]), ("b", &[30, 130])],
        ),
        (
            ONE,
            "a 100 0 10/20 fixed(15,w)\n b 100 0 10/20 suspend(10) fixed(15,w)",
            300,
            &[("a", &[25, 125, 225]), ("b", &[45, 145, 245])],
        ),
        (
            ONE,
            "a 100 0 10/20 fixed(15,w) unlock(l)\n b 100 0 10/20 lock(l) fixed(15,w)",
            200,
            &[("a", &[25, 125]), ("b", &[50, 150])],
        ),
        (
            ONE,
            "a 100 0 5/10 fixed(19,w) unlock(l)\n b 100 0 10/20 lock(l) fixed(15,w)",
            200,
            &[("a", &[34, 134]), ("b", &[59, 159])],
        ),
        (
            &gpu,
            "a 4 0 - fixed(1,w) unlock(ab) lock(ae) fixed(1,w)
             b 4 1 - lock(ab) fixed(2,w) unlock(ae)
             c 10 0 - fixed(1,w) unlock(cb) lock(ce) fixed(1,w)
             d 10 1 - lock(cb) fixed(3,w) unlock(ce)",
            10,
            &[("a", &[4, 9]), ("b", &[3, 8]), ("c", &[7]), ("d", &[6])],
        ),
        (
            &fifo,
            "a 1000 0 - fixed(10,w) lock(q) fixed(10,w)\n b 1000 0 - fixed(10,w) unlock(q)\n c 1000 0 - fixed(10,w)",
            200,
            &[("a", &[40]), ("b", &[20]), ("c", &[30])],
        ),
        (
            ONE,
            "a 1000 0 1/1000 lock(free) unlock(ab)
             b 1000 0 250/1000 lock(ab) fixed(200,w) unlock(bd) unlock(bc)
             c 1000 0 250/1000 lock(bc) fixed(200,w) unlock(ce)
             d 1000 0 550/1000 lock(bd) fixed(500,w) unlock(de)
             e 1000 0 1/1000 lock(de) lock(ce) unlock(free)",
            2000,
            &[
                ("a", &[0, 1000]),
                ("b", &[200, 1200]),
                ("c", &[400, 1400]),
                ("d", &[900, 1900]),
                ("e", &[900, 1900]),
            ],
        ),
    ]);
}

/// Drawn sets: more than a CPU can do, two CPUs with one queue, budgets of several servers that end together, and one that ends with its job.
#[test]
fn drawn_sets_have_its_completion_times() {
    agree(&[
        (
            ONE,
            "a 83 0 - fixed(17,w)\n b 83 0 - fixed(12,w)\n c 50 0 - fixed(14,w)\n d 37 0 - fixed(8,w)",
            600,
            &[
                ("a", &[47, 100, 195, 288, 379, 439, 537]),
                ("b", &[59, 134, 207, 300, 391, 459, 549]),
                ("c", &[22, 73, 122, 170, 221, 272, 322, 364, 422, 473, 514, 572]),
                ("d", &[8, 45, 82, 119, 156, 193, 230, 267, 308, 341, 378, 415, 452, 489, 526, 563]),
            ],
        ),
        (
            &[(2, "edf", "global")],
            "a 50 0 - fixed(6,w)\n b 50+1 0 - fixed(15,w)\n c 50+2 0 - fixed(13,w)\n d 83+3 0 - fixed(21,w)\n e 83+4 0 - fixed(16,w)",
            450,
            &[
                ("a", &[6, 56, 106, 156, 206, 256, 306, 356, 406]),
                ("b", &[16, 66, 116, 166, 216, 266, 316, 366, 416]),
                ("c", &[19, 69, 119, 169, 219, 269, 319, 369, 419]),
                ("d", &[37, 122, 190, 287, 371, 439]),
                ("e", &[35, 122, 186, 285, 371, 435]),
            ],
        ),
        (
            ONE,
            "a 113 0 4/20 fixed(14,w)\n b 113 0 2/25 fixed(7,w)\n c 150 0 1/20 fixed(5,w)\n d 113 0 4/20 fixed(17,w)",
            1200,
            &[
                ("a", &[62, 175, 288, 401, 514, 627, 740, 853, 966, 1079, 1192]),
                ("b", &[76, 189, 302, 415, 528, 642, 754, 867, 980, 1093]),
                ("c", &[81, 235, 388, 531, 687, 831, 981, 1135]),
                ("d", &[82, 194, 307, 420, 533, 646, 759, 872, 985, 1098]),
            ],
        ),
        (
            TWO,
            "a 200 1 26/50 fixed(25,w) unlock(ab) unlock(ac) unlock(ad)
             b 200 0 19/100 lock(ab) fixed(19,w) unlock(bd)
             c 200 1 17/50 lock(ac) fixed(8,w) unlock(cd)
             d 200 1 29/100 lock(ad) lock(bd) lock(cd) fixed(19,w)",
            600,
            &[("a", &[25, 225, 425]), ("b", &[44, 244, 444]), ("c", &[33, 233, 433]), ("d", &[63, 263, 463])],
        ),
    ]);
}

/// A server that was never idle keeps its budget and its deadline for the next job, and of equal deadlines on two CPUs it is who came last that
/// is preempted: `c` of the third set keeps its CPU when `e` comes, `a` of the fourth begins beside `e`.
#[test]
fn late_jobs_and_equal_deadlines_have_its_completion_times() {
    let two = &[(2, "edf", "global")];
    agree(&[
        (ONE, "b 80 0 3/80 fixed(4,w)", 410, &[("b", &[81, 162, 243, 401])]),
        (ONE, "a 60 0 2/20 fixed(2,w) fixed(1,w) fixed(4,w)", 300, &[("a", &[61, 122, 201, 262])]),
        (
            two,
            "c 37 0 - fixed(5,w)\n e 20 0 - fixed(4,w)\n f 37 0 - fixed(9,w)",
            160,
            &[
                ("c", &[5, 42, 79, 116, 153]),
                ("e", &[4, 24, 44, 64, 84, 104, 124, 144]),
                ("f", &[13, 48, 83, 120, 157]),
            ],
        ),
        (
            two,
            "a 100 0 - fixed(15,w)\n b 100 0 - fixed(42,w)\n e 83 0 - fixed(28,w)",
            250,
            &[("a", &[15, 115, 215]), ("b", &[57, 153, 242]), ("e", &[28, 111, 194])],
        ),
        (
            two,
            "b 50+4 0 - fixed(15,w)\n c 100 0 - fixed(10,w)\n d 100 0 - fixed(39,w)",
            260,
            &[("b", &[19, 69, 119, 169, 219]), ("c", &[10, 110, 210]), ("d", &[45, 145, 245])],
        ),
    ]);
}

/// Where PARTSim is not held against, because it does not follow its own rule: it takes a server for idle from its zero-lag time rounded down
/// to a tick on, here 6 instead of `10 - 1 * 10 / 3 = 6.67`, and gives a whole budget to who wakes at 6, so it has 8, 88, 168 and 248 for
/// `b`; and it leaves a CPU without work while a task sleeps that began with that, so it has 25 for the first job of `d`.
#[test]
fn what_it_plays_against_its_rules_is_played_by_them() {
    agree(&[
        (ONE, "b 80 0 3/10 fixed(2,w) suspend(4) fixed(2,w)", 260, &[("b", &[11, 91, 171, 251])]),
        (ONE, "c 80 0 - suspend(19) fixed(1,w)\n d 83 0 - fixed(5,w)", 100, &[("c", &[20]), ("d", &[5, 88])]),
    ]);
}

/// Servers that ask for more than the CPUs have that they may use are played, and the record says so, wherever else there is room.
#[test]
fn servers_that_are_too_much_for_their_cpus_are_said() {
    let said = |lines: &str| {
        let (workload, cpus) = workload(&system(TWO), &taskset(lines));
        let options = RunOptions { cpus: Some(CpuSet::first(cpus)), ..RunOptions::default() };
        let world = SimWorld::new(Platform::linux_6_18(cpus));
        let record = world.run(&workload, &options, &mut Completions::default()).unwrap();
        record.in_force.environment.get("servers of edf").cloned()
    };
    assert_eq!(said("a 100 0 10/20 fixed(5,w)\n b 100 0 10/20 fixed(5,w)\n c 100 1 20/20 fixed(5,w)"), None);
    assert_eq!(
        said("a 100 0 10/20 fixed(5,w)\n b 100 1 1/20 fixed(5,w)\n c 100 0 11/20 fixed(5,w)").as_deref(),
        Some("not admitted: those for CPU 0 ask for 105.0 % of a CPU; budgets come late")
    );
}
