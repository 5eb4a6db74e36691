//! A run of the host world on the scripted kernel: enforced, read back, watched, taken back. Whatever call fails, and wherever the
//! process dies, threads of others end as they began.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_enforce::{Enforcer, Inspector, Owner, Place, Post, Wanted, enforce_all};
use surety_kernel::journal::{Journal, RuntimeDir, recover_dead};
use surety_kernel::{Kernel, SchedAttr, SchedPolicy, ScriptedKernel};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

const OURS: Tid = Tid(11);
const LOAD: Tid = Tid(12);
const THEIRS: Tid = Tid(21);
const FOUND: Tid = Tid(22);

fn reserved(ms: i64) -> SchedAttr {
    SchedPolicy::deadline(Nanos::from_millis(ms), Nanos::from_millis(40), Nanos::from_millis(40)).into()
}

/// Two threads of others beside two of the run: a handler that gets a reservation, and a program that is only moved.
fn machine() -> (ScriptedKernel, Vec<Wanted>) {
    let kernel = ScriptedKernel::new(2);
    for (tid, process, name) in
        [(OURS, 1, "ours"), (LOAD, 1, "load"), (THEIRS, 20, "irq/9"), (FOUND, 20, "found")]
    {
        kernel.add_thread(tid, Tid(process), name);
    }
    kernel.set_affinity(THEIRS, &CpuSet::single(CpuId(1))).unwrap();
    let want = |tid, owner, affinity, attr| Wanted { tid, owner, affinity, attr };
    let all = CpuSet::first(2);
    let wanted = vec![
        want(OURS, Owner::Ours, Some(all), Some(reserved(10))),
        want(LOAD, Owner::Ours, Some(CpuSet::single(CpuId(0))), Some(SchedPolicy::Idle.into())),
        want(THEIRS, Owner::Others, Some(all), Some(reserved(4))),
        want(FOUND, Owner::Others, Some(CpuSet::single(CpuId(1))), None),
    ];
    (kernel, wanted)
}

/// The order of the host world: enforce all, read back, take back.
fn run(kernel: &ScriptedKernel, journal: &Journal, wanted: &[Wanted]) -> Result<usize, String> {
    let mut enforcer = Enforcer::new(kernel, Some(journal));
    enforce_all(&mut enforcer, wanted).map_err(|(place, error)| format!("{place}: {error}"))?;
    let mut inspector = Inspector::new(kernel);
    for w in wanted {
        let place = w.affinity.map_or(Place::Within(CpuSet::first(2)), Place::Exactly);
        inspector.expect(Post::set(kernel, ("t", w.tid, w.owner), w.attr, place));
    }
    inspector.read(kernel);
    let differences = inspector.differences().count();
    let failed = enforcer.undo();
    failed.is_empty().then_some(differences).ok_or_else(|| format!("{failed:?}"))
}

/// What is not ours, as it is now.
fn of_others(kernel: &ScriptedKernel) -> Vec<(SchedAttr, CpuSet)> {
    [THEIRS, FOUND].map(|tid| (kernel.scheduler(tid).unwrap(), kernel.affinity(tid).unwrap())).to_vec()
}

#[test]
fn reservations_come_last_and_everything_is_read_back_and_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    let (kernel, wanted) = machine();
    let before = of_others(&kernel);
    let journal = Journal::open(&kernel, &RuntimeDir::at(directory.path()).unwrap()).unwrap();
    let begin = kernel.calls().len();
    assert_eq!(run(&kernel, &journal, &wanted), Ok(0));
    assert_eq!(of_others(&kernel), before);
    assert_eq!(kernel.scheduler(OURS).unwrap(), reserved(10), "threads of ours end with the process");
    let calls = kernel.calls();
    let set = |operation: &str, tid: Tid| {
        let is = |call: &&surety_kernel::scripted::Call| {
            format!("{:?}", call.operation).contains(operation)
                && call.object.contains(&format!("thread {tid}"))
        };
        calls[begin..]
            .iter()
            .position(|call| is(&call))
            .unwrap_or_else(|| panic!("{operation} {tid}: {calls:?}"))
    };
    assert!(
        set("SetDeadline", OURS) > set("SetAffinity", LOAD)
            && set("SetDeadline", OURS) > set("SetAffinity", FOUND)
    );
}

#[test]
fn a_fault_at_any_call_leaves_others_as_they_were() {
    let (mut faults, mut reached_the_end) = (0, false);
    for at in 0..200 {
        let directory = tempfile::tempdir().unwrap();
        let (kernel, wanted) = machine();
        let before = of_others(&kernel);
        let journal = Journal::open(&kernel, &RuntimeDir::at(directory.path()).unwrap()).unwrap();
        let begin = kernel.calls().len();
        kernel.fail_at(begin + at, 5);
        let result = run(&kernel, &journal, &wanted);
        let calls = kernel.calls().len() - begin;
        kernel.clear_faults();
        faults += u32::from(result.is_err());
        // What the fault kept from being undone is undone by the next start.
        let runtime = RuntimeDir::at(directory.path()).unwrap();
        drop(journal);
        kernel.restart();
        recover_dead(&kernel, &runtime).unwrap();
        assert_eq!(of_others(&kernel), before, "fault at call {at}: {result:?}");
        if calls <= at {
            reached_the_end = true;
            break;
        }
    }
    assert!(reached_the_end && faults > 10, "{faults} faults");
}

#[test]
fn dying_at_any_call_is_mended_by_the_next_start() {
    let mut reached_the_end = false;
    for at in 0..200 {
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeDir::at(directory.path()).unwrap();
        let (kernel, wanted) = machine();
        let before = of_others(&kernel);
        let journal = Journal::open(&kernel, &runtime).unwrap();
        kernel.die_at(kernel.calls().len() + at);
        let mut enforcer = Enforcer::new(&kernel, Some(&journal));
        reached_the_end = enforce_all(&mut enforcer, &wanted).is_ok();
        // The process is gone: neither the enforcer nor the journal tidies up.
        std::mem::forget(enforcer);
        drop(journal);
        kernel.restart();
        recover_dead(&kernel, &runtime).unwrap();
        assert_eq!(of_others(&kernel), before, "death at call {at}");
        if reached_the_end {
            break;
        }
    }
    assert!(reached_the_end, "the deaths never ran past the last call");
}

/// A kernel before 6.12 takes the policy and leaves the slice out: nobody else is to blame.
#[test]
fn a_kernel_without_slices_of_threads_is_named_as_the_reason() {
    let slice = Nanos::from_millis(1);
    let wanted = SchedAttr::from(SchedPolicy::Other { nice: 3, slice: Some(slice) });
    let refused = |release: &str| {
        let (kernel, _) = machine();
        kernel.add_file("/proc/sys/kernel/osrelease", release);
        Enforcer::new(&kernel, None).set_scheduler(OURS, wanted, Owner::Ours).err().map(|e| e.to_string())
    };
    assert_eq!(refused("6.12.57+deb13-cloud-amd64\n"), None);
    let said = refused("6.1.0-40-cloud-amd64\n").unwrap();
    assert!(
        said.contains("Linux 6.1.0-40-cloud-amd64 knows none") && said.contains("leave `slice` out"),
        "{said}"
    );
    // One that asks for no slice is given what it asked for.
    let (kernel, _) = machine();
    kernel.add_file("/proc/sys/kernel/osrelease", "6.1.0");
    let fair = SchedAttr::from(SchedPolicy::Other { nice: 3, slice: None });
    assert!(Enforcer::new(&kernel, None).set_scheduler(OURS, fair, Owner::Ours).is_ok());
}
