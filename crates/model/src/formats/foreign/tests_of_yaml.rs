//! What files of rtdag and PARTSim become, and what is refused of them and where.

use surety_units::{CpuId, CpuSet, Nanos};

use super::dialect_of;
use super::partsim::System;
use crate::distribution::TimeDistribution;
use crate::formats::toml;
use crate::reservation::Reservation;
use crate::workload::{Phase, PolicySpec, RaisedEvent, Release, TaskBody, Workload};

const GRAPH: &str = "dag_name: \"g\"
n_tasks: 3
repetitions: 5
hyperperiod: 600 # us
dag_period: 300
dag_deadline: 290
tasks_name: [\"a\", \"b\", \"c\"]
tasks_type: [\"cpu\", \"cpu\", \"cpu\"]
tasks_wcet: [10, 100, 30]
tasks_expected_wcet_ratio: [1, .95, 1]
tasks_runtime: [20, 110, 40]
tasks_rel_deadline: [100, 150, 100]
tasks_affinity: [-1, 2, 0]
tasks_prio: [0, 0, 99]
adjacency_matrix: [
   [0, 8, 1],
   [0, 0, 1],
   [0, 0, 0],
]
";

const TASKS: &str = "taskset:
  - name: t.0
    iat: 1000
    deadline: 900
    ph: 5
    rdl: 1
    startcpu: 1
    cbs_runtime: 1
    cbs_period: 1000
    code:
      - lock(DAG)
      - fixed(200,bzip2); unlock(c)
  - name: t1
    iat: 1000
    code:
      - lock(c)
      - suspend(7)
      - fixed(3);
      - unlock(DAG)
resources:
  - name: DAG
    initial_state: unlocked
  - name: c
    initial_state: locked
";

fn try_read(text: &str) -> Result<Workload, String> {
    let dialect = dialect_of("f.yml", text).expect("YAML is of some program");
    dialect.read("f.yml", text).map_err(|error| error.to_string())
}

fn read(text: &str) -> Workload {
    let workload = try_read(text).unwrap_or_else(|error| panic!("{error}"));
    let written = toml::write(&workload);
    assert_eq!(toml::read("w.toml", &written).unwrap_or_else(|e| panic!("{e}\n{written}")), workload);
    workload
}

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn run(n: i64) -> Phase {
    Phase::Run(TimeDistribution::Constant(us(n)))
}

fn steps(workload: &Workload, task: usize) -> &[Phase] {
    let TaskBody::Phases(phases) = &workload.tasks[task].body else { panic!("no phases") };
    phases
}

#[test]
fn a_graph_is_tasks_that_wait_for_each_other() {
    let workload = read(GRAPH);
    let [wait, signal] =
        [|name: &str| Phase::Wait(name.to_owned()), |name: &str| Phase::Signal(name.to_owned())];
    assert_eq!(steps(&workload, 0), [wait("idle"), run(10), signal("a-b"), signal("a-c")]);
    assert_eq!(steps(&workload, 1), [wait("a-b"), run(95), signal("b-c")]);
    assert_eq!(steps(&workload, 2), [wait("a-c"), wait("b-c"), run(30), signal("idle")]);
    assert_eq!(workload.events, [RaisedEvent { name: "idle".to_owned(), times: 1 }]);
    let policies: Vec<PolicySpec> = workload.tasks.iter().map(|task| task.policy).collect();
    assert_eq!(policies, [PolicySpec::edf(), PolicySpec::edf(), PolicySpec::Fifo { priority: 99 }]);
    let b = &workload.tasks[1];
    assert_eq!(b.reservation, Some(Reservation::implicit(us(110), us(150))));
    assert_eq!((b.cpus, b.jobs), (Some(CpuSet::single(CpuId(2))), Some(10)));
    assert_eq!(b.release, Release::Periodic { period: us(300), start: Nanos::ZERO, jitter: Nanos::ZERO });
    assert_eq!((workload.duration, workload.title.as_deref()), (Some(us(3000)), Some("g")));
    assert_eq!(workload.tasks[2].promises[0].response_limit(), Some(us(290)));
    assert!(b.promises.is_empty());
}

/// Pinned ones and others compete by their deadlines, so they are of one class; who has a priority does not count.
#[test]
fn the_tasks_of_a_graph_without_priority_are_of_one_class() {
    for (affinity, policy, pinned) in [
        ("[-1, -1, -1]", PolicySpec::Deadline, [false; 3]),
        ("[-1, -1, 0]", PolicySpec::Deadline, [false, false, true]),
        ("[0, -1, -1]", PolicySpec::edf(), [true, false, false]),
        ("[0, 1, -1]", PolicySpec::edf(), [true, true, false]),
    ] {
        let workload = read(&GRAPH.replacen("[-1, 2, 0]", affinity, 1));
        let policies: Vec<PolicySpec> = workload.tasks.iter().map(|task| task.policy).collect();
        assert_eq!(policies, [policy, policy, PolicySpec::Fifo { priority: 99 }], "{affinity}");
        let are_pinned: Vec<bool> = workload.tasks.iter().map(|task| task.cpus.is_some()).collect();
        assert_eq!(are_pinned, pinned, "{affinity}");
    }
}

/// 50 us in 90 us: less than a period of the kernel's.
#[test]
fn budgets_of_a_graph_have_the_limits_of_their_class() {
    let short = |affinity: &str| {
        let text = GRAPH.replacen("[20, 110, 40]", "[50, 110, 40]", 1).replacen("[100, 150", "[90, 150", 1);
        try_read(&text.replacen("[-1, 2, 0]", affinity, 1))
    };
    let workload = short("[-1, 2, 0]").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(workload.tasks[0].reservation, Some(Reservation::implicit(us(50), us(90))));
    let told = short("[-1, -1, -1]").unwrap_err();
    assert!(told.contains("f.yml:7:14: ") && told.contains("period"), "{told}");
}

/// Of which both edges would be called `a-b-c`.
#[test]
fn edges_of_other_tasks_are_other_events() {
    let workload = read(
        "dag_name: \"g\"
n_tasks: 4
repetitions: 1
hyperperiod: 900
dag_period: 900
dag_deadline: 900
tasks_name: [\"a\", \"a-b\", \"b-c\", \"c\"]
tasks_wcet: [10, 10, 10, 10]
tasks_rel_deadline: [200, 200, 200, 200]
tasks_affinity: [-1, -1, -1, -1]
adjacency_matrix: [[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
",
    );
    let signalled = |task: usize| {
        let names = steps(&workload, task).iter().filter_map(|phase| match phase {
            Phase::Signal(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(signalled(0), ["a-a-b", "a-b-c"]);
    assert_eq!((signalled(1), signalled(2)), (vec!["a-b-c-2"], vec!["b-c-c"]));
    let waits = |name: &str| Phase::Wait(name.to_owned());
    assert_eq!(steps(&workload, 2)[0], waits("a-b-c"));
    assert_eq!(steps(&workload, 3)[..2], [waits("a-b-c-2"), waits("b-c-c")]);
}

/// A key that is missing, and those that cannot be read without it.
#[test]
fn what_is_missing_in_a_graph_is_told_once() {
    for (key, without) in [("tasks_wcet", "tasks_runtime"), ("n_tasks", ""), ("adjacency_matrix", "")] {
        let kept = |line: &&str| {
            let is = |key: &str| !key.is_empty() && line.starts_with(key);
            !is(key)
                && !is(without)
                && (key != "adjacency_matrix" || !line.trim_start().starts_with(['[', ']']))
        };
        let text: Vec<&str> = GRAPH.lines().filter(kept).collect();
        let error = dialect_of("f.yml", GRAPH).unwrap().read("f.yml", &text.join("\n")).unwrap_err();
        assert_eq!(error.list.len(), 1, "{key}: {error}");
        assert!(error.list[0].message.contains(&format!("`{key}` is missing")), "{error}");
    }
}

#[test]
fn what_a_graph_cannot_be_is_refused_with_its_place() {
    for (from, to, expected) in [
        ("[1, .95, 1]", "[.95]", "f.yml:10:28: `tasks_expected_wcet_ratio` has 1 value for 3 tasks"),
        ("[1, .95, 1]", "[1, 2, 1]", "f.yml:10:32: `tasks_expected_wcet_ratio` is between 0 and 1"),
        ("\"cpu\", \"cpu\"]", "\"fred\", \"cpu\"]", "f.yml:8:21: a task of type `fred` has no counterpart"),
        ("   [0, 0, 0],", "   [1, 0, 0],", "f.yml:15:1: tasks of the graph wait for each other in a ring"),
        ("[0, 0, 1]", "[0, 0, 0]", "a graph has one first and one last task, this one 1 and 2"),
        ("[0, 0, 1]", "[0, 0]", "f.yml:17:4: `adjacency_matrix` has 2 values for 3 tasks"),
        ("tasks_wcet", "task_wcet", "`tasks_wcet` is missing"),
        ("tasks_prio", "tasks_priority", "unknown key `tasks_priority` (did you mean `tasks_prio`?)"),
        ("[20, 110, 40]", "[20, 160, 40]", "f.yml:7:19: runtime 160us is longer than the period 150us"),
        ("[\"a\", \"b\"", "[\"a\", \"a\"", "f.yml:7:19: two tasks are called `a`"),
        ("hyperperiod: 600", "hyperperiod: 200", "the graph is begun once at least"),
        ("dag_period: 300", "dag_period: 0", "f.yml:5:13: `dag_period` is between 1 and"),
    ] {
        let told = try_read(&GRAPH.replacen(from, to, 1)).expect_err(to);
        assert!(told.contains(expected), "{to}\n{told}");
    }
}

#[test]
fn a_set_of_partsim_is_tasks_under_edf() {
    let workload = read(TASKS);
    let [wait, signal] =
        [|name: &str| Phase::Wait(name.to_owned()), |name: &str| Phase::Signal(name.to_owned())];
    assert_eq!(steps(&workload, 0), [wait("DAG"), run(200), signal("c")]);
    assert_eq!(steps(&workload, 1), [wait("c"), Phase::Sleep(us(7)), run(3), signal("DAG")]);
    assert_eq!(workload.events, [RaisedEvent { name: "DAG".to_owned(), times: 1 }]);
    let first = &workload.tasks[0];
    assert_eq!(
        (first.name.as_str(), first.policy, first.cpus),
        ("t-0", PolicySpec::edf(), Some(CpuSet::single(CpuId(1))))
    );
    assert_eq!(first.release, Release::Periodic { period: us(1000), start: us(5), jitter: Nanos::ZERO });
    assert_eq!(first.relative_deadline(), Some(us(900)));
    assert_eq!(first.reservation, Some(Reservation::implicit(us(1), us(1000))));
    assert_eq!(
        (workload.tasks[1].reservation, workload.tasks[1].relative_deadline()),
        (None, Some(us(1000)))
    );
}

#[test]
fn what_a_set_cannot_be_is_refused_with_its_place() {
    for (from, to, expected) in [
        ("- lock(c)", "- lock(d)", "f.yml:16:9: there is no resource `d`"),
        ("suspend(7)", "delay(unif(1,2))", "f.yml:17:9: the instruction `delay` has no counterpart"),
        ("suspend(7)", "suspend", "f.yml:17:9: `suspend` is no instruction"),
        ("suspend(7)", "suspend(x)", "f.yml:17:9: `x` is no number of ticks"),
        ("fixed(3)", "fixed(3,a,b)", "f.yml:18:9: `fixed` has other parameters"),
        ("ph: 5", "qs: 2", "f.yml:5:5: a short `qs` has no counterpart"),
        ("cbs_period: 1000", "cbs_perod: 1000", "unknown key `cbs_perod` (did you mean `cbs_period`?)"),
        ("cbs_runtime: 1", "cbs_runtime: 1001", "f.yml:8:5: runtime 1001us is longer than the period 1ms"),
        ("cbs_runtime: 1", "cbs_deadline: 9", "f.yml:8:5: `cbs_deadline` is other than `cbs_period`"),
        ("name: t1", "name: t.0", "two tasks are called `t.0`"),
        ("  - name: c\n", "  - name: DAG\n", "two resources are called `DAG`"),
        ("    iat: 1000\n    code", "    code", "a task has a `name` and an `iat` above 0"),
        ("initial_state: locked", "initial_state: closed", "`closed` is no initial_state"),
    ] {
        let told = try_read(&TASKS.replacen(from, to, 1)).expect_err(to);
        assert!(told.contains(expected), "{to}\n{told}");
    }
}

#[test]
fn a_set_is_played_on_its_system() {
    let system = "cpu_islands:
  - name: one
    numcpus: 1
    kernel: { scheduler: edf, task_placement: partitioned }
    volts: [1]
    freqs: [500, 1000]
    base_freq: 500
    power_model: m
    speed_model: m
  - name: two
    numcpus: 3
    kernel: { scheduler: truefifo, task_placement: global }
    volts: [1]
    freqs: [1000]
    power_model: m
    speed_model: m
power_models:
  - { name: m, type: table_based, filename: m.csv }
";
    let table = "model,freq,workload,power,speed\nm,500,bzip2,1,0.5\nm,1000,bzip2,1,1\nm,500,hash,1,0.3\n";
    let on = |tasks: &str| {
        let system = System::read("s.yml", system, &mut |_| Ok(table.to_owned())).unwrap();
        let dialect = dialect_of("f.yml", tasks).unwrap();
        dialect.read_on("f.yml", tasks, Some(&system)).map_err(|error| error.to_string())
    };
    let set = |cpu: u32, code: &str| {
        format!("taskset:\n- name: t\n  iat: 100\n  startcpu: {cpu}\n  code: [\"fixed(10,{code})\"]\n")
    };
    for (cpu, code, ticks, cpus) in [(0, "bzip2", 20, "0"), (0, "hash", 34, "0"), (2, "bzip2", 10, "1-3")] {
        let workload = on(&set(cpu, code)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(steps(&workload, 0), [run(ticks)], "{code} on CPU {cpu}");
        assert_eq!(workload.tasks[0].cpus.unwrap().to_string(), cpus);
        assert_eq!(
            workload.tasks[0].policy,
            if cpu == 0 { PolicySpec::edf() } else { PolicySpec::Fifo { priority: 1 } }
        );
    }
    let told = on(&set(3, "hash")).unwrap_err();
    assert!(
        told.contains("f.yml:5:10: island `two` does not know the workload `hash` (it knows bzip2)"),
        "{told}"
    );
    let slow = set(0, "bzip2").replacen("fixed(10", "fixed(549755813889", 1);
    assert!(on(&slow).unwrap_err().contains("f.yml:5:10: island `one` takes more than 1099511627776 ticks"));
    assert!(on(&set(4, "bzip2")).unwrap_err().contains("f.yml:4:3: the system has no CPU 4"));
}

#[test]
fn a_yaml_file_is_of_the_program_whose_key_it_has() {
    for (text, program) in
        [(GRAPH, "rtdag"), (TASKS, "PARTSim"), ("", "PARTSim"), ("# dag_period:\n", "PARTSim")]
    {
        assert_eq!(dialect_of("f.yaml", text).map(|dialect| dialect.program), Some(program), "{text}");
    }
    assert!(try_read("a: 1").unwrap_err().contains("these are no tasks of PARTSim"));
}
