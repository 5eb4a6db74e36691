//! Locks and events: who is woken, who may take what was given back, and how long the most important thread waits.

mod common;

use common::{Bench, exact, fifo, ms, nice, options, simulate, us, world};
use proptest::prelude::*;
use surety_model::formats::toml::{self, vary};
use surety_model::world::{Unobserved, World as _};
use surety_sim::cpu::hardware::ThreadId;
use surety_sim::cpu::program::Step;
use surety_units::Nanos;

const EXAMPLE: &str = include_str!("../../../examples/priority-inversion.toml");

/// Response times of (low, medium, high) by hand, in milliseconds.
///
/// none: low 0-5, high 5-6, low 6-8, medium 8-48, low 48-51, high 51-52, and low learns at 52 that it is done.
/// inherit: low 0-5, high 5-6, low 6-11, high 11-12, medium 12-52, and low learns at 52 that it is done.
const BY_HAND: [(&str, [i64; 3]); 2] = [("none", [52, 40, 47]), ("inherit", [52, 44, 7])];

#[test]
fn three_tasks_and_a_lock_take_what_they_take_by_hand() {
    let varied = toml::read("priority-inversion.toml", EXAMPLE).unwrap_or_else(|e| panic!("{e}"));
    let combinations = vary::combinations(&varied).unwrap();
    assert_eq!(combinations.len(), BY_HAND.len());
    for (settings, (protocol, expected)) in combinations.iter().zip(BY_HAND) {
        assert_eq!(settings.to_string(), format!("resource.m.protocol = {protocol}"));
        let workload = vary::with(&varied, settings).unwrap();
        let record = world().run(&workload, &options(2, 1), &mut Unobserved).unwrap();
        for (name, millis) in ["low", "medium", "high"].into_iter().zip(expected) {
            let task = record.activity(name).unwrap();
            let response = task.response.as_ref().and_then(|r| r.observed()).unwrap();
            let (least, most) = (response.moments.min().unwrap(), response.moments.max().unwrap());
            assert_eq!((least, most), (millis as f64 * 1e6, millis as f64 * 1e6), "{name} under {protocol}");
            assert_eq!(task.completed, 20, "{name} under {protocol}");
        }
    }
}

#[test]
fn with_two_tasks_a_wait_is_bounded_by_the_section_either_way() {
    let varied = toml::read("priority-inversion.toml", EXAMPLE).unwrap_or_else(|e| panic!("{e}"));
    for settings in vary::combinations(&varied).unwrap() {
        let mut workload = vary::with(&varied, &settings).unwrap();
        workload.tasks.retain(|task| task.name != "medium");
        let record = world().run(&workload, &options(2, 1), &mut Unobserved).unwrap();
        let high = record.activity("high").unwrap().response.as_ref().unwrap().observed().unwrap();
        assert_eq!(high.moments.max(), Some(7e6), "{settings}");
    }
}

#[test]
fn a_ring_of_waiters_stays_open_and_the_run_ends() {
    let text = |protocol: &str| {
        let task = |name: &str, other: &str, first: &str, second: &str| {
            format!(
                "[[task]]\nname = \"{name}\"\nphases = [{{ lock = \"{first}\" }}, {{ signal = \"{name}\" }}, \
                 {{ wait = \"{other}\" }}, {{ lock = \"{second}\" }}, {{ run = \"1ms\" }}, \
                 {{ unlock = \"{second}\" }}, {{ unlock = \"{first}\" }}]\n"
            )
        };
        let lock = |name: &str| format!("[[resource]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\n");
        [task("a", "b", "k", "l"), task("b", "a", "l", "k"), lock("k"), lock("l")].concat()
    };
    for protocol in ["none", "inherit"] {
        let record = simulate(&text(protocol), 1, 1);
        for name in ["a", "b"] {
            let task = record.activity(name).unwrap();
            assert_eq!((task.completed, task.unfinished), (0, 1), "{name} under {protocol}");
        }
    }
}

fn completions(bench: &Bench, thread: ThreadId) -> Vec<i64> {
    bench.finished(thread).iter().map(|at| at.div_floor(Nanos::MILLISECOND)).collect()
}

#[test]
fn whoever_runs_on_takes_a_lock_back_from_a_lesser_waiter() {
    for inherit in [false, true] {
        let mut bench = Bench::new(exact(1));
        let lock = bench.machine.add_lock(inherit);
        let section = |work| [Step::Lock(lock), Step::Run(ms(work)), Step::Unlock(lock)];
        // High is asleep inside its section while low comes to wait, and wants the lock again at once.
        let high = [
            Step::Lock(lock),
            Step::SleepUntil(ms(2)),
            Step::Run(ms(1)),
            Step::Unlock(lock),
            Step::Lock(lock),
            Step::Run(ms(1)),
            Step::Unlock(lock),
        ];
        let high = bench.spawn(fifo(20), ms(0), &high);
        let low = bench.spawn(fifo(10), ms(1), &section(5));
        bench.run(ms(50));
        let done = (completions(&bench, high)[6], completions(&bench, low)[2]);
        // Ordinary: high takes it back before low runs. Lending: it is low's already, but low has not run, so high may
        // steal it.
        assert_eq!(done, (4, 9), "inherit: {inherit}");
    }
}

#[test]
fn a_lock_handed_over_is_kept_from_equals_and_stolen_by_the_more_important() {
    for (rival, first) in [(10, "waiter"), (15, "rival")] {
        let mut bench = Bench::new(exact(1));
        let lock = bench.machine.add_lock(true);
        let section = [Step::Lock(lock), Step::Run(ms(1)), Step::Unlock(lock)];
        // The holder gives it back at 3 ms and runs on until 5; the rival asks at 4, before the waiter has run.
        let holder = [
            Step::Lock(lock),
            Step::SleepUntil(ms(2)),
            Step::Run(ms(1)),
            Step::Unlock(lock),
            Step::Run(ms(2)),
        ];
        bench.spawn(fifo(12), ms(0), &holder);
        let waiter = bench.spawn(fifo(10), ms(1), &section);
        let rival = bench.spawn(fifo(rival), ms(4), &section);
        bench.run(ms(50));
        let waiter_first = completions(&bench, waiter)[2] < completions(&bench, rival)[2];
        assert_eq!(waiter_first, first == "waiter");
    }
}

#[test]
fn waiters_are_woken_by_priority_and_the_fair_in_their_order() {
    for inherit in [false, true] {
        let mut bench = Bench::new(exact(1));
        let lock = bench.machine.add_lock(inherit);
        let section = [Step::Lock(lock), Step::Run(ms(1)), Step::Unlock(lock)];
        let holder =
            [Step::Lock(lock), Step::SleepUntil(ms(20)), Step::Unlock(lock), Step::SleepUntil(ms(30))];
        bench.spawn(fifo(50), ms(0), &holder);
        let waiters = [nice(5), nice(-5), fifo(1), fifo(2)]
            .map(|scheduling| (scheduling, bench.spawn(scheduling, ms(1), &section)));
        bench.run(ms(100));
        let mut order: Vec<_> =
            waiters.iter().enumerate().map(|(k, (_, id))| (bench.finished(*id)[2], k)).collect();
        order.sort();
        let order: Vec<_> = order.iter().map(|(_, k)| *k).collect();
        // The fair ones came to wait in the order the fair class ran them.
        let fair_order =
            if bench.finished(waiters[0].1)[0] < bench.finished(waiters[1].1)[0] { [0, 1] } else { [1, 0] };
        assert_eq!(order[..2], [3, 2], "inherit: {inherit}");
        assert_eq!(order[2..], fair_order, "inherit: {inherit}");
    }
}

/// A thread: its start, and sections with work before each; a section takes locks in ascending order, works under each,
/// and gives them back in reverse.
type Shape = (i64, Vec<(i64, Vec<(usize, i64)>)>);

fn shape(locks: usize) -> impl Strategy<Value = Shape> {
    let section = proptest::collection::vec((0..locks, 1i64..3_000), 1..3);
    (0i64..10_000, proptest::collection::vec((0i64..3_000, section), 1..4))
}

/// Its steps, and the longest time it holds any lock, of its own work.
fn steps(shape: &Shape) -> (Vec<Step>, Nanos) {
    let (mut steps, mut longest) = (Vec::new(), Nanos::ZERO);
    for (before, nested) in &shape.1 {
        steps.push(Step::Run(us(*before)));
        let mut locks: Vec<(usize, i64)> = nested.clone();
        locks.sort_unstable();
        locks.dedup_by_key(|(lock, _)| *lock);
        for (lock, work) in &locks {
            steps.extend([Step::Lock(*lock), Step::Run(us(*work))]);
        }
        steps.extend(locks.iter().rev().map(|(lock, _)| Step::Unlock(*lock)));
        longest = longest.max(locks.iter().map(|(_, work)| us(*work)).sum());
    }
    (steps, longest)
}

fn work(steps: &[Step]) -> Nanos {
    let of = |step: &Step| if let Step::Run(work) = step { *work } else { Nanos::ZERO };
    steps.iter().map(of).sum()
}

/// Threads in the order of their priority, the least first, on CPUs with locks; the bench after they all had time.
fn run(shapes: &[Shape], cpus: u32, locks: &[bool]) -> (Bench, Vec<ThreadId>) {
    let mut bench = Bench::new(exact(cpus));
    for inherit in locks {
        bench.machine.add_lock(*inherit);
    }
    let ids = shapes.iter().enumerate().map(|(place, shape)| {
        let priority = u32::try_from(place).expect("few") + 1;
        bench.spawn(fifo(priority), us(shape.0), &steps(shape).0)
    });
    let ids = ids.collect();
    bench.run(Nanos::from_secs(1));
    (bench, ids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Locks taken in one order cannot make a deadlock: every thread ends, and every lock is free again.
    #[test]
    fn all_threads_end_and_all_locks_are_free(
        shapes in proptest::collection::vec(shape(3), 1..6),
        protocols in proptest::collection::vec(any::<bool>(), 3),
        cpus in 1u32..4,
    ) {
        let (mut bench, ids) = run(&shapes, cpus, &protocols);
        for (id, shape) in ids.iter().zip(&shapes) {
            let (steps, _) = steps(shape);
            prop_assert_eq!(bench.finished(*id).len(), steps.len());
            prop_assert_eq!(bench.run_of(*id), work(&steps));
        }
        let all: Vec<Step> = (0..3).flat_map(|lock| [Step::Lock(lock), Step::Unlock(lock)]).collect();
        let late = bench.spawn(fifo(1), Nanos::from_secs(1) + ms(1), &all);
        bench.run(Nanos::from_secs(2));
        prop_assert_eq!(bench.finished(late).len(), all.len());
    }

    /// On one CPU and with inheritance, a job of the most important thread waits for at most one section of each other
    /// thread (Sha, Rajkumar and Lehoczky, "Priority inheritance protocols", IEEE Trans. Computers 39(9), 1990),
    /// and where there is one lock, for one section in all.
    #[test]
    fn inheritance_bounds_the_wait_of_the_most_important(
        shapes in proptest::collection::vec(shape(3), 2..6),
        locks in 1usize..4,
    ) {
        let within = |shape: &Shape| -> Shape {
            let sections = shape.1.iter().map(|(before, nested)| {
                (*before, nested.iter().map(|(lock, work)| (lock % locks, *work)).collect())
            });
            (shape.0, sections.collect())
        };
        let shapes: Vec<Shape> = shapes.iter().map(within).collect();
        let (bench, ids) = run(&shapes, 1, &vec![true; locks]);
        let (high, others) = shapes.split_last().expect("two at least");
        let longest = others.iter().map(|shape| steps(shape).1);
        let wait: Nanos = if locks == 1 { longest.max().unwrap_or_default() } else { longest.sum() };
        let bound = work(&steps(high).0) + wait;
        let id = ids[ids.len() - 1];
        let response = *bench.finished(id).last().expect("it ended") - us(high.0);
        prop_assert!(response <= bound, "{response} beyond {bound}");
    }
}

/// What inheritance bounds is the wait. It does not make every run faster: here the least thread, lent priority, is through
/// with its first section earlier and inside its second one when the most important thread comes.
#[test]
fn inheritance_may_lengthen_a_single_wait_within_its_bound() {
    let shapes: [Shape; 4] = [
        (993, vec![(22, vec![(0, 1358)]), (408, vec![(0, 2626)])]),
        (3795, vec![(1524, vec![(0, 1)])]),
        (2781, vec![(0, vec![(0, 1038)]), (530, vec![(0, 1524)])]),
        (6975, vec![(0, vec![(0, 1)])]),
    ];
    let response = |inherit| {
        let (bench, ids) = run(&shapes, 1, &[inherit]);
        *bench.finished(ids[3]).last().expect("it ended") - us(6975)
    };
    assert!(response(true) > response(false), "{} {}", response(true), response(false));
    assert!(response(true) <= us(1 + 2626), "{}", response(true));
}
