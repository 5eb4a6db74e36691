//! What was put in force is read again: no change of it passes unseen, and each withholds the verdicts it speaks against.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_enforce::{Enforcer, INSPECTED_EVERY, Inspector, Owner, Place, Post, ThreadState};
use surety_kernel::{Kernel, RealKernel, SchedAttr, SchedPolicy, ScriptedKernel};
use surety_model::promise::Promise;
use surety_model::record::{
    ActivityRecord, Basis, Caveat, Evidence, InForce, Promised, Record, ThreadInForce,
};
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::ActivityKind;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

const OURS: Tid = Tid(1001);
const THEIRS: Tid = Tid(101);
const FOUND: Tid = Tid(102);

fn reservation(ms: i64) -> SchedAttr {
    let period = Nanos::from_millis(10);
    SchedPolicy::deadline(Nanos::from_millis(ms), period, period).into()
}

/// A task of ours pinned to CPU 1, a reserved thread of another process, and one that was only found.
fn machine() -> (ScriptedKernel, Inspector) {
    let kernel = ScriptedKernel::new(2);
    kernel.add_thread(OURS, kernel.own_pid(), "ours");
    kernel.add_thread(THEIRS, Tid(100), "theirs");
    kernel.add_thread(FOUND, Tid(100), "found");
    let pinned = CpuSet::single(CpuId(1));
    let fifo: SchedAttr = SchedPolicy::Fifo { priority: 5 }.into();
    kernel.set_affinity(OURS, &pinned).unwrap();
    surety_kernel::transition::set_once(&kernel, OURS, &fifo).unwrap();
    surety_kernel::transition::set_once(&kernel, THEIRS, &reservation(3)).unwrap();
    let mut inspector = Inspector::new(&kernel);
    let set = |name, tid, owner, attr, cpus| {
        Post::set(&kernel, (name, tid, owner), Some(attr), Place::Exactly(cpus))
    };
    inspector.expect(set("ours", OURS, Owner::Ours, fifo, pinned));
    inspector.expect(set("theirs", THEIRS, Owner::Others, reservation(3), CpuSet::first(2)));
    let fair = SchedPolicy::DEFAULT.into();
    let found = set("found", FOUND, Owner::Others, fair, CpuSet::first(2));
    inspector.expect(Post { is_set: false, ..found });
    inspector.read(&kernel);
    assert_eq!(inspector.differences().count(), 0);
    (kernel, inspector)
}

/// A record in which every activity kept its promise.
fn record() -> Record {
    let activity = |name: &str| {
        let mut record = ActivityRecord::new(name, ActivityKind::Task, Basis::Sample);
        let promise = Promise::parse("response <= 10ms @ 90%").unwrap();
        let evidence = Evidence::Counted((0..1000).map(|_| false).collect());
        record.promised = vec![Promised { promise, evidence }];
        record
    };
    let thread = |activity: &str, tid| ThreadInForce {
        activity: activity.to_owned(),
        tid: Some(tid),
        policy: String::new(),
        affinity: CpuSet::EMPTY,
        as_requested: true,
    };
    Record {
        world: "host".to_owned(),
        reserved: true,
        seed: None,
        duration: None,
        in_force: InForce {
            threads: vec![thread("ours", OURS), thread("theirs", THEIRS), thread("found", FOUND)],
            ..InForce::default()
        },
        degraded: Vec::new(),
        activities: ["ours", "theirs", "found"].map(activity).to_vec(),
        trace: None,
        hash: None,
    }
}

/// The activities of which no verdict may be given.
fn withheld(inspector: &Inspector) -> (Vec<String>, Record) {
    let mut record = record();
    inspector.mark(&mut record);
    let outcome = |a: &ActivityRecord| judge(a)[0].outcome;
    let names = record.activities.iter().filter(|a| outcome(a) == Outcome::Undecided).map(|a| a.name.clone());
    (names.collect(), record)
}

#[test]
fn what_has_not_changed_keeps_its_verdicts() {
    let (kernel, mut inspector) = machine();
    inspector.hear(OURS, &ThreadState::read(&kernel, OURS).unwrap());
    kernel.end_thread(OURS);
    inspector.read(&kernel);
    let (names, record) = withheld(&inspector);
    assert!(names.is_empty() && record.is_trusted(), "{:?}", record.degraded);
}

#[test]
fn every_change_withholds_the_verdicts_it_speaks_against() {
    type Change = fn(&ScriptedKernel);
    let all = ["ours", "theirs", "found"];
    let cases: [(&str, Change, &[&str], Option<Tid>); 7] = [
        ("another class", |k| k.interfere(OURS, SchedPolicy::DEFAULT.into()), &all, Some(OURS)),
        ("other parameters", |k| k.interfere(THEIRS, reservation(2)), &all, Some(THEIRS)),
        ("other CPUs", |k| k.set_affinity(OURS, &CpuSet::first(2)).unwrap(), &all, Some(OURS)),
        ("a CPU gone", |k| k.set_online(CpuId(1), false), &all, Some(OURS)),
        ("the target gone", |k| k.end_thread(THEIRS), &all, Some(THEIRS)),
        (
            "another thread with its number",
            |k| {
                k.end_thread(THEIRS);
                k.add_thread(THEIRS, Tid(100), "another");
                surety_kernel::transition::set_once(k, THEIRS, &reservation(3)).unwrap();
            },
            &all,
            Some(THEIRS),
        ),
        (
            "a thread that nothing was asked of",
            |k| k.interfere(FOUND, SchedPolicy::Idle.into()),
            &all[2..],
            Some(FOUND),
        ),
    ];
    for (what, change, withheld_of, of_thread) in cases {
        let (kernel, mut inspector) = machine();
        change(&kernel);
        inspector.read(&kernel);
        let (names, record) = withheld(&inspector);
        assert_eq!(names, withheld_of, "{what}");
        assert!(!record.is_trusted(), "{what}");
        let changed = record.in_force.threads.iter().filter(|t| !t.as_requested).map(|t| t.tid);
        assert!(changed.clone().any(|tid| tid == of_thread), "{what}: {:?}", record.in_force.threads);
        let caveats = record.activities[2].caveats.as_slice();
        assert!(matches!(caveats, [Caveat { because, .. }, ..] if !because.is_empty()), "{what}");
    }
}

#[test]
fn a_change_that_was_mended_is_still_one() {
    let (kernel, mut inspector) = machine();
    kernel.set_online(CpuId(1), false);
    inspector.look(&kernel);
    assert_eq!(inspector.differences().count(), 0, "it has just looked");
    kernel.advance(INSPECTED_EVERY);
    inspector.look(&kernel);
    kernel.set_online(CpuId(1), true);
    kernel.set_affinity(OURS, &CpuSet::single(CpuId(1))).unwrap();
    kernel.set_affinity(THEIRS, &CpuSet::first(2)).unwrap();
    inspector.read(&kernel);
    let said: Vec<&str> = inspector.differences().collect();
    assert_eq!(said[0], "CPU 0 is online and no longer CPUs 0-1");
    assert_eq!(said[1], "ours (thread 1001) has fifo:5 on CPU 0 and not fifo:5 on CPU 1");
    assert_eq!(withheld(&inspector).0.len(), 3);
}

#[test]
fn what_a_thread_of_ours_read_at_its_end_counts() {
    let (kernel, mut inspector) = machine();
    kernel.interfere(OURS, SchedPolicy::DEFAULT.into());
    let last = ThreadState::read(&kernel, OURS).unwrap();
    kernel.end_thread(OURS);
    inspector.read(&kernel);
    assert_eq!(inspector.differences().count(), 0, "threads of ours end with the run");
    inspector.hear(OURS, &last);
    assert_eq!(withheld(&inspector).0.len(), 3);
}

#[test]
fn a_slice_of_its_own_that_is_the_base_slice_is_in_force() {
    let kernel = RealKernel::new();
    let Some(base) = kernel.base_slice() else {
        eprintln!("SKIPPED: this kernel has no slices of threads");
        return;
    };
    let own = kernel.own_tid();
    let before = kernel.scheduler(own).unwrap();
    let mut enforcer = Enforcer::new(&kernel, None);
    for slice in [base * 2, base] {
        let wanted = SchedAttr::from(SchedPolicy::Other { nice: 0, slice: Some(slice) });
        enforcer.set_scheduler(own, wanted, Owner::Ours).unwrap();
        let mut inspector = Inspector::new(&kernel);
        let place = Place::Exactly(kernel.affinity(own).unwrap());
        inspector.expect(Post::set(&kernel, ("own", own, Owner::Ours), Some(wanted), place));
        inspector.read(&kernel);
        assert_eq!(inspector.differences().collect::<Vec<_>>(), Vec::<&str>::new());
    }
    enforcer.set_scheduler(own, before, Owner::Ours).unwrap();
}
