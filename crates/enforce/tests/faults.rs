//! Whatever call of the kernel fails, and wherever the process dies: the machine ends as it began.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_enforce::{Binding, Enforcer, Owner, put_in_force};
use surety_kernel::journal::{Journal, RuntimeDir, recover_dead};
use surety_kernel::{Kernel, ScriptedKernel};
use surety_model::plan::{PLAN_SCHEMA, Plan, PlannedReservation, Proof};
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

fn plan() -> Plan {
    let proof = Proof {
        theorem: String::new(),
        source: String::new(),
        conclusion: String::new(),
        probability: None,
        confidence: None,
        inputs: Vec::new(),
        steps: Vec::new(),
        assumptions: Vec::new(),
        residual: None,
        simulations: Vec::new(),
        digest: None,
    };
    let reserve = |activity: &str, ms| PlannedReservation {
        activity: activity.to_owned(),
        promises: Vec::new(),
        reservation: Reservation::implicit(Nanos::from_millis(ms), Nanos::from_millis(40)),
        root_domains: Vec::new(),
        proof: proof.clone(),
    };
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        platform: Platform::linux_6_18(2),
        reservations: vec![reserve("a", 10), reserve("b", 12)],
        streams: Vec::new(),
        disks: Vec::new(),
        asked: None,
        models: std::collections::BTreeMap::new(),
        refusals: Vec::new(),
    }
}

/// Two threads of somebody else's, one of them pinned.
fn machine() -> (ScriptedKernel, Vec<Binding>) {
    let kernel = ScriptedKernel::new(2);
    kernel.add_thread(Tid(101), Tid(100), "a");
    kernel.add_thread(Tid(102), Tid(100), "b");
    kernel.set_affinity(Tid(102), &CpuSet::single(CpuId(1))).unwrap();
    let bind = |name: &str, tid| Binding { activity: name.to_owned(), tid: Tid(tid), owner: Owner::Others };
    (kernel, vec![bind("a", 101), bind("b", 102)])
}

#[test]
fn a_plan_is_put_in_force_and_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    let (kernel, bindings) = machine();
    let original = kernel.state();
    let journal = Journal::open(&kernel, &RuntimeDir::at(directory.path()).unwrap()).unwrap();
    let mut enforcer = Enforcer::new(&kernel, Some(&journal));
    let applied = put_in_force(&plan(), &bindings, CpuSet::first(2), &kernel, &mut enforcer).unwrap();
    assert_eq!(applied.len(), 2);
    assert_eq!(applied[0].policy, "deadline 10ms/40ms/40ms");
    assert!(kernel.scheduler(Tid(102)).unwrap().policy.is_deadline());
    assert!(enforcer.undo().is_empty());
    assert_eq!(kernel.state(), original);
}

#[test]
fn threads_go_to_the_root_domains_of_the_plan() {
    let (kernel, bindings) = machine();
    let mut plan = plan();
    plan.reservations[0].root_domains = ["0-1", "0"].map(|cpus| cpus.parse().unwrap()).to_vec();
    // Two threads of one activity; the second belongs elsewhere, which the one root domain of this machine refuses.
    let second = Binding { activity: "a".to_owned(), ..bindings[1].clone() };
    let bindings = [bindings[0].clone(), second];
    let before = kernel.state();
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&kernel, &RuntimeDir::at(directory.path()).unwrap()).unwrap();
    let mut enforcer = Enforcer::new(&kernel, Some(&journal));
    let error = put_in_force(&plan, &bindings, CpuSet::first(2), &kernel, &mut enforcer).unwrap_err();
    assert!(error.to_string().contains("root domain"), "{error}");
    let asked = |calls: &[surety_kernel::scripted::Call], text: &str| {
        calls.iter().filter(|call| call.object.contains(text)).count()
    };
    let calls = kernel.calls();
    assert!(asked(&calls, "thread 102, CPUs 0,") == 1 && asked(&calls, "thread 101, CPUs 0,") == 0);
    drop(enforcer);
    drop(journal);
    assert_eq!(kernel.state(), before);
}

#[test]
fn a_fault_at_any_call_leaves_the_machine_as_it_was() {
    let mut reached_the_end = false;
    for at in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let (kernel, bindings) = machine();
        let original = kernel.state();
        let journal = Journal::open(&kernel, &RuntimeDir::at(directory.path()).unwrap()).unwrap();
        kernel.fail_at(kernel.calls().len() + at, 5);
        let mut enforcer = Enforcer::new(&kernel, Some(&journal));
        let result = put_in_force(&plan(), &bindings, CpuSet::first(2), &kernel, &mut enforcer);
        kernel.clear_faults();
        drop(enforcer);
        assert_eq!(kernel.state(), original, "fault at call {at}");
        if result.is_ok() {
            reached_the_end = true;
            break;
        }
    }
    assert!(reached_the_end, "the faults never ran past the last call");
}

#[test]
fn dying_at_any_call_is_mended_by_the_next_start() {
    let mut reached_the_end = false;
    for at in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeDir::at(directory.path()).unwrap();
        let (kernel, bindings) = machine();
        let original = kernel.state();
        let journal = Journal::open(&kernel, &runtime).unwrap();
        kernel.die_at(kernel.calls().len() + at);
        let mut enforcer = Enforcer::new(&kernel, Some(&journal));
        let result = put_in_force(&plan(), &bindings, CpuSet::first(2), &kernel, &mut enforcer);
        reached_the_end = result.is_ok();
        // The process is gone: neither the enforcer nor the journal tidies up.
        std::mem::forget(enforcer);
        drop(journal);
        kernel.restart();
        recover_dead(&kernel, &runtime).unwrap();
        assert_eq!(kernel.state(), original, "death at call {at}");
        if reached_the_end {
            break;
        }
    }
    assert!(reached_the_end, "the deaths never ran past the last call");
}
