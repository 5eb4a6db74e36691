//! Graphs of rtdag in the simulator.

mod common;

use common::{options, us, world};
use surety_model::formats::foreign::dialect_of;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_units::Nanos;

/// Four tasks of 100 us each that begin together at 10 us on two CPUs, by their deadlines and CPUs: when each is done.
fn done(deadlines: &str, affinity: &str) -> Vec<Nanos> {
    let text = format!(
        "dag_name: g
n_tasks: 6
repetitions: 1
hyperperiod: 2000
dag_period: 2000
dag_deadline: 2000
tasks_name: [first, a, b, c, d, last]
tasks_wcet: [10, 100, 100, 100, 100, 10]
tasks_runtime: [20, 200, 200, 200, 200, 20]
tasks_rel_deadline: [100, {deadlines}, 2000]
tasks_affinity: [-1, {affinity}, -1]
adjacency_matrix: [[0, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1],
   [0, 0, 0, 0, 0, 0]]
"
    );
    let dialect = dialect_of("t.yaml", &text).expect("it is one of rtdag");
    let workload = dialect.read("t.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { warm_up: Nanos::ZERO, ..options(1, 2) };
    let record = world().run(&workload, &options, &mut Unobserved).unwrap_or_else(|error| panic!("{error}"));
    let of = |name: &&str| {
        let response = record.activity(name).and_then(|activity| activity.response.as_ref());
        let longest = response.and_then(|response| response.observed()?.moments.max());
        Nanos::from_f64_rounded(longest.expect("it completed"))
    };
    ["a", "b", "c", "d"].iter().map(of).collect()
}

/// Whoever has the earlier deadlines goes first, on CPUs of their own or not.
#[test]
fn tasks_with_a_cpu_of_their_own_compete_with_others_by_their_deadlines() {
    let (early, late) = (us(110), us(210));
    assert_eq!(done("600, 700, 800, 900", "-1, -1, 0, 1"), [early, early, late, late]);
    assert_eq!(done("800, 900, 600, 700", "-1, -1, 0, 1"), [late, late, early, early]);
}
