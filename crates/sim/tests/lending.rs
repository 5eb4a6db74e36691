//! Bandwidth inheritance: who holds a lock runs on the budgets of those that wait for it, by hand; and whoever shares no lock with
//! them is not touched.

mod common;

use common::{Bench, exact, ms, options, reserved, us};
use proptest::prelude::*;
use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::world::{Unobserved, World as _};
use surety_sim::SimWorld;
use surety_sim::cpu::hardware::ThreadId;
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

fn bench(is_lent: bool) -> Bench {
    Bench::new(Platform { bandwidth_inheritance: is_lent, ..exact(1) })
}

fn ends(bench: &Bench, thread: ThreadId) -> Vec<i64> {
    bench.finished(thread).iter().map(|at| at.get() / 1_000_000).collect()
}

/// The holder has 2 ms in 20 and a section of 4. The other one, with 4 in 10, comes at 3 and wants the lock: the holder, without budget since 2, runs on
/// its budget from 3 to 5, and it then has 2 ms left itself. Else it waits for the holder's budget of 20 ms.
#[test]
fn who_has_no_budget_runs_on_that_of_who_waits() {
    for (is_lent, holder_ends, waiter_ends) in [(true, 5, 6), (false, 22, 23)] {
        let mut bench = bench(is_lent);
        let lock = bench.machine.add_lock(is_lent);
        let section = |work| [Step::Lock(lock), Step::Run(ms(work)), Step::Unlock(lock)];
        let holder = bench.spawn(reserved(ms(2), ms(20)), ms(0), &section(4));
        let waiter = bench.spawn(reserved(ms(4), ms(10)), ms(3), &section(1));
        bench.run(ms(100));
        assert_eq!((ends(&bench, holder)[1], ends(&bench, waiter)[1]), (holder_ends, waiter_ends));
    }
}

/// What is lent is used up, too: of the waiter's 4 ms in 10 the holder, whose section takes 9, has all by 7, when it waits for 13, where its budget comes again; from there to 16 it is done, and
/// the waiter has one left.
#[test]
fn what_is_lent_is_paid_for_by_who_lends() {
    let mut bench = bench(true);
    let lock = bench.machine.add_lock(true);
    let section = |work| [Step::Lock(lock), Step::Run(ms(work)), Step::Unlock(lock)];
    let holder = bench.spawn(reserved(ms(2), ms(20)), ms(0), &section(9));
    let waiter = bench.spawn(reserved(ms(4), ms(10)), ms(3), &section(2));
    bench.run(ms(100));
    // 0-2, 3-7, 13-16; the waiter 16-17, and on its next budget 23-24.
    assert_eq!((ends(&bench, holder)[1], ends(&bench, waiter)[1]), (16, 24));
}

/// A chain of two locks: the last holder runs on its own 1 ms, on that of the one in the middle from 1 to 2, and from 3 to 5 on that of the first, which
/// then lets the one in the middle run until 6, and has the lock by 7.
#[test]
fn through_a_chain_of_two_locks() {
    let mut bench = bench(true);
    let [outer, inner] = [(); 2].map(|()| bench.machine.add_lock(true));
    let last = [Step::Lock(inner), Step::Run(ms(4)), Step::Unlock(inner)];
    let middle =
        [Step::Lock(outer), Step::Lock(inner), Step::Run(ms(1)), Step::Unlock(inner), Step::Unlock(outer)];
    let first = [Step::Lock(outer), Step::Run(ms(1)), Step::Unlock(outer)];
    let last = bench.spawn(reserved(ms(1), ms(50)), ms(0), &last);
    let middle = bench.spawn(reserved(ms(1), ms(40)), ms(1), &middle);
    let first = bench.spawn(reserved(ms(5), ms(10)), ms(3), &first);
    bench.run(ms(100));
    // Who has given its lock back goes on with its own budget: those of 50 and 41 ms.
    assert_eq!(ends(&bench, last)[1..], [5, 50]);
    assert_eq!(ends(&bench, middle)[2..], [6, 6, 41]);
    assert_eq!(ends(&bench, first)[1..], [7, 7]);
}

/// A holder that sleeps inside its section leaves the servers of those that wait idle, and they wake with it: of the waiter's 3 ms 2 are left at 10, where its
/// deadline of 13 is too near for them (`2 / 3 > 3 / 12`), so that it begins anew and has 3.
#[test]
fn a_holder_that_sleeps_lets_servers_sleep() {
    let mut bench = bench(true);
    let lock = bench.machine.add_lock(true);
    let holder =
        [Step::Lock(lock), Step::Run(ms(2)), Step::SleepUntil(ms(10)), Step::Run(ms(2)), Step::Unlock(lock)];
    let holder = bench.spawn(reserved(ms(1), ms(100)), ms(0), &holder);
    let section = [Step::Lock(lock), Step::Run(ms(1)), Step::Unlock(lock)];
    let waiter = bench.spawn(reserved(ms(3), ms(12)), ms(1), &section);
    bench.run(ms(101));
    // The holder: 0-1 on its own, 1-2 on the waiter's, 10-12 likewise; the waiter 12-13. The holder goes on with its budget of 100 ms.
    assert_eq!(ends(&bench, holder)[1..], [2, 10, 12, 100]);
    assert_eq!(ends(&bench, waiter)[1..], [13, 22]);
}

/// Who yields gives up the budget that it runs on, be it lent: from 1 on that is the waiter's of 4 ms in 10, which is gone at 2 until 11. The
/// holder goes on with the 1 ms of its own that is left, and gives the lock back at 3.
#[test]
fn who_yields_gives_up_what_is_lent() {
    let mut bench = bench(true);
    let lock = bench.machine.add_lock(true);
    let holder = [Step::Lock(lock), Step::Run(ms(2)), Step::Yield, Step::Run(ms(1)), Step::Unlock(lock)];
    let holder = bench.spawn(reserved(ms(2), ms(20)), ms(0), &holder);
    let section = [Step::Lock(lock), Step::Run(ms(1)), Step::Unlock(lock)];
    let waiter = bench.spawn(reserved(ms(4), ms(10)), ms(1), &section);
    bench.run(ms(100));
    assert_eq!(ends(&bench, holder)[1..4], [2, 2, 3]);
    assert_eq!(ends(&bench, waiter)[1], 12);
}

/// A ring lends nothing, and the run ends.
#[test]
fn a_ring_lends_nothing() {
    let mut bench = bench(true);
    let [a, b] = [(); 2].map(|()| bench.machine.add_lock(true));
    let takes = |one, other| [Step::Lock(one), Step::Run(ms(2)), Step::Lock(other), Step::Run(ms(1))];
    let first = bench.spawn(reserved(ms(2), ms(20)), ms(0), &takes(a, b));
    let second = bench.spawn(reserved(ms(3), ms(10)), ms(1), &takes(b, a));
    let beside = bench.spawn(reserved(ms(5), ms(10)), ms(6), &[Step::Run(ms(20))]);
    bench.run(ms(100));
    assert_eq!((bench.run_of(first), bench.run_of(second)), (ms(2), ms(2)));
    assert_eq!(bench.finished(beside).len(), 1);
}

#[test]
fn what_is_not_lent_is_refused() {
    let text = |other: &str, more: &str| {
        let task = |name: &str, more: &str| {
            format!(
                "[[task]]\nname = '{name}'\nperiod = '20ms'\n{more}\n\
                 phases = [{{ lock = 'm' }}, {{ run = '1ms' }}, {{ unlock = 'm' }}]\n"
            )
        };
        let (other, steps) = other.split_once('|').unwrap_or((other, ""));
        let reserved = format!("reservation = {{ runtime = '2ms', period = '20ms'{more} }}");
        let lock = "[[resource]]\nname = 'm'\nprotocol = 'inherit'\n";
        let other = task("b", other).replace("[{ lock", &format!("[{steps}{{ lock"));
        toml::read("test", &["format = 1\n", &task("a", &reserved), &other, lock].concat()).unwrap()
    };
    let own = "reservation = { runtime = '3ms', period = '20ms' }";
    let lends = |cpus| Platform { bandwidth_inheritance: true, ..Platform::linux_6_18(cpus) };
    for (platform, workload, why) in [
        (Platform::linux_6_18(1), text(own, ""), "deadline-inheritance=bandwidth"),
        (lends(2), text(own, ""), "say `cpus=1`"),
        (lends(1), text("", ""), "`b` takes it without a reservation"),
        (lends(1), text(own, ", demote = true"), "leave `demote` out"),
        (
            lends(1),
            text(&format!("{own}|{{ policy = 'fifo:1' }}, "), ""),
            "`b` takes it and changes its policy",
        ),
    ] {
        let refused = SimWorld::new(platform).run(&workload, &options(1, 1), &mut Unobserved).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let record = SimWorld::new(lends(1)).run(&text(own, ""), &options(1, 1), &mut Unobserved).unwrap();
    let said = &record.in_force.unvalidated[0];
    assert!(said.starts_with("bandwidth inheritance: no kernel of the lab has it"), "{said}");
    assert_eq!(record.activity("b").unwrap().completed, 50);
}

/// A thread that shares locks: budget and period in ms, its start, and sections of work under one lock or two.
type Shape = (i64, i64, i64, Vec<(usize, i64, bool)>);

fn shape() -> impl Strategy<Value = Shape> {
    let sections = proptest::collection::vec((0usize..3, 100i64..6_000, any::<bool>()), 1..5);
    (1i64..5, 20i64..60, 0i64..15, sections)
}

/// Sections one after another for longer than a test; locks are taken in ascending order.
fn steps(sections: &[(usize, i64, bool)], locks: &[usize]) -> Vec<Step> {
    let section = |(lock, work, is_nested): &(usize, i64, bool)| {
        let taken: Vec<usize> = (*lock..3).filter(|l| l == lock || *is_nested).map(|l| locks[l]).collect();
        let take = taken.iter().map(|lock| Step::Lock(*lock));
        let give = taken.iter().rev().map(|lock| Step::Unlock(*lock));
        take.chain([Step::Run(us(*work))]).chain(give).collect::<Vec<_>>()
    };
    let once: i64 = sections.iter().map(|(_, work, _)| *work).sum();
    (0..=ms(500).div_floor(us(once)))
        .flat_map(|_| sections.iter().flat_map(section).collect::<Vec<_>>())
        .collect()
}

/// When a reserved thread that shares no lock ends its jobs beside threads that do, or that only work as long; and what those have had.
fn beside(shapes: &[Shape], alone: (i64, i64), is_lent: bool, has_locks: bool) -> (Vec<Nanos>, Nanos) {
    let mut bench = bench(is_lent);
    let locks: Vec<usize> = (0..3).map(|_| bench.machine.add_lock(true)).collect();
    let (runtime, period) = (ms(alone.0), ms(alone.1));
    let jobs = common::periodic(period, runtime, 500 / alone.1);
    let alone = bench.spawn(reserved(runtime, period), ms(0), &jobs);
    let sharing = shapes.iter().map(|(runtime, period, start, sections)| {
        let mut steps = steps(sections, &locks);
        steps.retain(|step| has_locks || matches!(step, Step::Run(_)));
        (reserved(ms(*runtime), ms(*period)), ms(*start), steps)
    });
    // No two have the same deadline, of which who came first would be first.
    let sharing: Vec<ThreadId> = (1..)
        .zip(sharing)
        .map(|(place, (reserved, start, steps))| bench.spawn(reserved, start + us(place), &steps))
        .collect();
    bench.run(ms(500));
    let had = sharing.iter().map(|thread| bench.run_of(*thread)).sum();
    (bench.finished(alone).to_vec(), had)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Servers whose threads always want the CPU are the same whether these share locks or not: who shares none ends each job at the same nanosecond, in
    /// time, and those that do have together what they would have without.
    #[test]
    fn locks_of_others_change_nothing(
        shapes in proptest::collection::vec(shape(), 2..5),
        alone in (1i64..6, 10i64..30),
    ) {
        let with = beside(&shapes, alone, true, true);
        let without = beside(&shapes, alone, true, false);
        prop_assert_eq!(&with, &without);
        let parts = shapes.iter().map(|(runtime, period, ..)| (*runtime, *period)).chain([alone]);
        let whole: f64 = parts.map(|(runtime, period)| runtime as f64 / period as f64).sum();
        for (job, done) in (1..).zip(with.0.iter().step_by(2)).filter(|_| whole <= 1.0) {
            prop_assert!(*done <= ms(alone.1) * job, "job {job} of {alone:?} at {done}");
        }
    }
}
