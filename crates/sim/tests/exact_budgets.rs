//! Budgets enforced exactly, with jobs as long as their budget: the simulator comes to an end.

mod common;

use common::{exact, options, workload};
use surety_model::world::{Unobserved, World};
use surety_sim::SimWorld;

#[test]
fn a_job_as_long_as_its_budget_beside_busy_loops_ends() {
    let text = r#"
[[task]]
name        = "t"
period      = "13ms"
work        = "2ms"
reservation = { runtime = "2ms", deadline = "5ms", period = "10ms" }

[[load]]
name  = "busy"
kind  = "spinners"
count = 2
"#;
    let record = SimWorld::new(exact(1)).run(&workload(text), &options(2, 1), &mut Unobserved).unwrap();
    let task = record.activity("t").unwrap();
    assert!(task.completed > 100, "{task:?}");
}
