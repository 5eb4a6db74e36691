//! Work that is not independent: suspension, locks and graphs, against schedules and choices tried one by one.

use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::twin::{HYPERPERIOD, Job, PERIODS, Rule, densest, draw, in_time, play, task};
use crate::schedulability::dag::{Dag, DagError, DagTask, federated, graham, under_reservations};
use crate::schedulability::fixed::response_times;
use crate::schedulability::generate::Deadlines;
use crate::schedulability::resources::{Section, blocked, ceiling, inheritance};
use crate::schedulability::suspension::{as_jitter, oblivious};
use crate::schedulability::{Outcome, SporadicTask};
use crate::supply::Supply;

fn suspending(c: i64, s: i64, t: i64) -> SporadicTask {
    SporadicTask { suspension: Nanos::new(s), ..task(c, t, t) }
}

#[test]
fn the_set_that_refuted_suspension_as_plain_jitter_is_judged_right() {
    // Chen, Nelissen, Huang et al. 2019: (1, 0, 2), (5, 5, 20), (1, 0, 50). With a jitter of S alone the last would respond
    // in 12, which is too little; with R - C it is 22.
    let set = [suspending(1, 0, 2), suspending(5, 5, 20), suspending(1, 0, 50)];
    let verdict = as_jitter(&set);
    assert_eq!(verdict.responses, [1, 20, 22].map(Nanos::new), "{:?}", verdict.steps);
    assert!(!oblivious(&set).holds());
    let plain = [task(3, 7, 7), task(3, 12, 12), task(5, 20, 20)];
    assert_eq!(as_jitter(&plain).responses, response_times(&plain).responses);
    assert_eq!(oblivious(&plain).responses, response_times(&plain).responses);
    let late = SporadicTask { jitter: Nanos::new(1), ..plain[0] };
    assert_eq!(as_jitter(&[late]).outcome, Outcome::NotApplicable);
}

/// A job in pieces: run, wait, run, ...; the first piece is a run.
struct Pieces {
    task: usize,
    release: i64,
    left: Vec<i64>,
}

/// Fixed priorities with jobs that wait at drawn points; the longest responses.
fn play_suspending(tasks: &[SporadicTask], end: i64, random: &mut Pcg) -> Vec<i64> {
    let mut longest = vec![0; tasks.len()];
    let mut next: Vec<i64> = tasks.iter().map(|t| random.below(t.period.get() as u64) as i64).collect();
    let mut open: Vec<Pieces> = Vec::new();
    for now in 0..end {
        for (place, task) in tasks.iter().enumerate() {
            if next[place] == now {
                let (c, s) = (task.work.get(), task.suspension.get());
                let first = random.below(c as u64 + 1) as i64;
                let wait = if random.below(2) == 0 { s } else { random.below(s as u64 + 1) as i64 };
                open.push(Pieces { task: place, release: now, left: vec![first, wait, c - first] });
                let slack = random.below(3) / 2 * random.below(4);
                next[place] = now + task.period.get() + slack as i64;
            }
        }
        open.sort_by_key(|p| (p.task, p.release));
        let mut running = true;
        let mut seen = Vec::new();
        for job in &mut open {
            // A job waits for its predecessor.
            if seen.contains(&job.task) {
                continue;
            }
            seen.push(job.task);
            while job.left.first() == Some(&0) {
                job.left.remove(0);
                // Pieces are in pairs from the end: an odd number left begins with a run.
            }
            let runs = job.left.len() % 2 == 1;
            if let Some(piece) = job.left.first_mut()
                && (!runs || running)
            {
                *piece -= 1;
                running &= !runs;
            }
        }
        open.retain(|job| {
            let done = job.left.iter().all(|p| *p == 0);
            if done {
                longest[job.task] = longest[job.task].max(now + 1 - job.release);
            }
            !done
        });
    }
    for job in open {
        longest[job.task] = longest[job.task].max(end - job.release);
    }
    longest
}

#[test]
fn no_suspending_job_responds_later_than_either_bound() {
    let mut random = Pcg::for_job(9, 41, 0);
    let (mut by_work, mut by_jitter, mut only_jitter) = (0, 0, 0);
    for _ in 0..1_500 {
        let count = 2 + random.below(3) as usize;
        let mut tasks = draw(count, 0.2 + 0.6 * random.unit_open(), Deadlines::Implicit, &mut random);
        tasks.sort_by_key(|t| t.period);
        for task in &mut tasks {
            let room = (task.period - task.work).get() as u64;
            task.suspension = Nanos::new((random.below(2) * random.below(room / 2 + 1)) as i64);
        }
        let (work, jitter) = (oblivious(&tasks), as_jitter(&tasks));
        by_work += i32::from(work.holds());
        by_jitter += i32::from(jitter.holds());
        only_jitter += i32::from(jitter.holds() && !work.holds());
        for _ in 0..4 {
            let seen = play_suspending(&tasks, 3 * HYPERPERIOD, &mut random);
            for verdict in [&work, &jitter] {
                for (bound, seen) in verdict.responses.iter().zip(&seen) {
                    assert!(bound.get() >= *seen, "{tasks:?} {verdict:?} {seen}");
                }
            }
        }
    }
    assert!(by_work > 200 && by_jitter > 200 && only_jitter > 0, "{by_work} {by_jitter} {only_jitter}");
}

#[test]
fn blocking_covers_every_choice_of_sections() {
    let section = |task, lock, length| Section { task, lock, length: Nanos::new(length) };
    // Four tasks and three locks, by hand: for the first by lock 8 + 9, for the second by task 8 + 6.
    let sections = [
        section(0, 0, 1),
        section(0, 1, 2),
        section(1, 1, 9),
        section(1, 2, 3),
        section(2, 0, 8),
        section(2, 1, 7),
        section(3, 0, 6),
        section(3, 1, 5),
        section(3, 2, 4),
    ];
    assert_eq!(inheritance(4, &sections), [17, 14, 6, 0].map(Nanos::new));
    assert_eq!(ceiling(4, &sections), [9, 8, 6, 0].map(Nanos::new));
    let mut random = Pcg::for_job(9, 42, 0);
    let mut tight = 0;
    for _ in 0..3_000 {
        let (tasks, locks) = (4, 1 + random.below(3) as usize);
        let sections: Vec<Section> = (0..1 + random.below(7))
            .map(|_| {
                let (task, lock) = (random.below(tasks as u64) as usize, random.below(locks as u64) as usize);
                section(task, lock, 1 + random.below(9) as i64)
            })
            .collect();
        let (by_inheritance, by_ceiling) = (inheritance(tasks, &sections), ceiling(tasks, &sections));
        for i in 0..tasks {
            // The worst set of sections with no task and no lock twice, all of tasks below and locks shared with above.
            let mut worst = 0;
            for set in 0u32..1 << sections.len() {
                let chosen: Vec<&Section> =
                    (0..sections.len()).filter(|s| set >> s & 1 == 1).map(|s| &sections[s]).collect();
                let legal = chosen.iter().enumerate().all(|(at, s)| {
                    let shared = sections.iter().any(|o| o.lock == s.lock && o.task <= i);
                    let alone = chosen[..at].iter().all(|o| o.task != s.task && o.lock != s.lock);
                    s.task > i && shared && alone
                });
                if legal {
                    worst = worst.max(chosen.iter().map(|s| s.length.get()).sum::<i64>());
                }
            }
            assert!(by_inheritance[i].get() >= worst, "{sections:?} {i}");
            assert!(by_ceiling[i] <= by_inheritance[i]);
            tight += i32::from(by_inheritance[i].get() == worst && worst > 0);
        }
    }
    assert!(tight > 1_000, "{tight}");
    let set = blocked(&[task(1, 4, 4), task(1, 8, 8)], &[Nanos::new(2)]);
    assert_eq!(response_times(&set).responses, [3, 2].map(Nanos::new));
}

/// List scheduling in a drawn order of preference with drawn works up to the most: when it is done.
fn list_schedule(dag: &Dag, cpus: usize, random: &mut Pcg) -> i64 {
    let n = dag.works().len();
    let shorter = random.below(2) == 0;
    let mut left: Vec<i64> = (dag.works().iter())
        .map(|w| if shorter { random.below(w.get() as u64 + 1) as i64 } else { w.get() })
        .collect();
    let preference: Vec<u64> = (0..n).map(|_| random.next_u64()).collect();
    let mut now = 0;
    while left.iter().any(|l| *l > 0) {
        let mut ready: Vec<usize> = (0..n)
            .filter(|node| left[*node] > 0)
            .filter(|node| (0..n).all(|other| left[other] == 0 || !reaches(dag, other, *node)))
            .collect();
        ready.sort_by_key(|node| preference[*node]);
        for node in ready.into_iter().take(cpus) {
            left[node] -= 1;
        }
        now += 1;
    }
    now
}

fn reaches(dag: &Dag, from: usize, to: usize) -> bool {
    dag.edges().iter().any(|(a, b)| *a == from && (*b == to || reaches(dag, *b, to)))
}

#[test]
fn no_list_schedule_takes_longer_than_graham_says() {
    let mut random = Pcg::for_job(9, 43, 0);
    let mut reached = 0;
    for _ in 0..1_500 {
        let n = 1 + random.below(8) as usize;
        let works: Vec<Nanos> = (0..n).map(|_| Nanos::new(1 + random.below(6) as i64)).collect();
        let mut edges = Vec::new();
        for to in 1..n {
            for from in 0..to {
                if random.below(4) == 0 {
                    edges.push((from, to));
                }
            }
        }
        let dag = Dag::new(works, edges).unwrap();
        for cpus in 1..4 {
            let bound = dag.response(cpus).unwrap().get();
            for _ in 0..3 {
                let seen = list_schedule(&dag, cpus as usize, &mut random);
                assert!(seen <= bound, "{dag:?} on {cpus}: {seen}");
                reached += i32::from(seen == bound);
            }
        }
    }
    assert!(reached > 500, "{reached}");
}

/// When threads with a budget of `q` in each period are given it: late after early, or anyhow, from any instant on.
fn supplied(q: i64, t: i64, end: i64, random: &mut Pcg) -> Vec<bool> {
    let (offset, kind) = (random.below(t as u64) as i64, random.below(3));
    let mut given = vec![false; end as usize];
    for period in 0..=end / t + 1 {
        let early = kind == 0 && period == 0;
        let mut free: Vec<i64> = (0..t).collect();
        for nth in 0..q {
            let at = match kind {
                2 => free.remove(random.below(free.len() as u64) as usize),
                _ if early => nth,
                _ => t - q + nth,
            };
            if let Some(slot) =
                usize::try_from(period * t + at - offset).ok().and_then(|at| given.get_mut(at))
            {
                *slot = true;
            }
        }
    }
    given
}

/// Threads that take ready nodes in a drawn order and keep each to its end, throttled or not: when all is done.
fn reserved_schedule(dag: &Dag, supplies: &[Vec<bool>], random: &mut Pcg) -> i64 {
    let n = dag.works().len();
    let mut left: Vec<i64> = dag.works().iter().map(|w| w.get()).collect();
    let preference: Vec<u64> = (0..n).map(|_| random.next_u64()).collect();
    let mut held: Vec<Option<usize>> = vec![None; supplies.len()];
    for now in 0.. {
        let is_open = |node: usize, left: &[i64]| {
            left[node] > 0 && (0..n).all(|other| left[other] == 0 || !reaches(dag, other, node))
        };
        for thread in 0..held.len() {
            if held[thread].is_none() {
                let free = (0..n).filter(|node| is_open(*node, &left) && !held.contains(&Some(*node)));
                held[thread] = free.min_by_key(|node| preference[*node]);
            }
        }
        for (hold, supply) in held.iter_mut().zip(supplies) {
            if let Some(node) = *hold
                && supply[now]
            {
                left[node] -= 1;
                if left[node] == 0 {
                    *hold = None;
                }
            }
        }
        if left.iter().all(|l| *l == 0) {
            return now as i64 + 1;
        }
    }
    unreachable!("the supplies are long enough")
}

#[test]
fn no_graph_takes_longer_under_reservations_than_the_bound() {
    let mut random = Pcg::for_job(9, 44, 0);
    let mut near = 0;
    for _ in 0..2_000 {
        let n = 1 + random.below(7) as usize;
        let works: Vec<Nanos> = (0..n).map(|_| Nanos::new(1 + random.below(6) as i64)).collect();
        let mut edges = Vec::new();
        for to in 1..n {
            edges.extend((0..to).filter(|_| random.below(3) == 0).map(|from| (from, to)));
        }
        let dag = Dag::new(works, edges).unwrap();
        let t = 2 + random.below(8) as i64;
        let q = 1 + random.below(t as u64) as i64;
        let reservation = Reservation::implicit(Nanos::new(q), Nanos::new(t));
        let supply = Supply::new(reservation, Enforcement::Exact, false);
        let long = Nanos::new(10_000);
        let task = DagTask { dag, deadline: long, period: long };
        for threads in 1..4 {
            let verdict = under_reservations(&task, threads, &supply);
            let bound = verdict.responses[0].get();
            assert!(verdict.holds(), "{verdict:?}");
            for _ in 0..3 {
                let supplies: Vec<Vec<bool>> =
                    (0..threads).map(|_| supplied(q, t, bound + 1, &mut random)).collect();
                let seen = reserved_schedule(&task.dag, &supplies, &mut random);
                assert!(seen <= bound, "{task:?} on {threads} with ({q}, {t}): {seen}, at most {bound}");
                near += i32::from(2 * seen >= bound);
            }
        }
    }
    assert!(near > 1_000, "{near}");
    // With the whole CPU it is Graham's bound.
    let dag = Dag::new(vec![Nanos::new(4); 4], vec![(0, 1), (0, 2), (1, 3), (2, 3)]).unwrap();
    let whole = Supply::new(Reservation::implicit(Nanos::new(5), Nanos::new(5)), Enforcement::Exact, true);
    let task = DagTask { dag, deadline: Nanos::new(14), period: Nanos::new(20) };
    let verdict = under_reservations(&task, 2, &whole);
    assert_eq!((verdict.outcome, &verdict.responses), (Outcome::Holds, &graham(&task, 2).responses));
    let short = DagTask { deadline: Nanos::new(13), ..task };
    assert_eq!(under_reservations(&short, 2, &whole).outcome, Outcome::NotShown);
}

#[test]
fn no_federated_set_that_is_accepted_misses() {
    let mut random = Pcg::for_job(9, 46, 0);
    let (mut heavy, mut light) = (0, 0);
    for _ in 0..3_000 {
        let cpus = 2 + random.below(4) as u32;
        let graph = |random: &mut Pcg| {
            let n = 1 + random.below(6) as usize;
            let works = (0..n).map(|_| Nanos::new(1 + random.below(4) as i64)).collect();
            let pairs = (1..n).flat_map(|to| (0..to).map(move |from| (from, to)));
            let edges = pairs.filter(|_| random.below(4) == 0).collect();
            let period = PERIODS[random.below(PERIODS.len() as u64) as usize];
            let deadline = Nanos::new(period - random.below(period as u64 / 2) as i64);
            DagTask { dag: Dag::new(works, edges).unwrap(), deadline, period: Nanos::new(period) }
        };
        let set: Vec<DagTask> = (0..1 + random.below(4)).map(|_| graph(&mut random)).collect();
        let found = federated(&set, cpus).unwrap();
        if !found.verdict.holds() {
            continue;
        }
        let given: u32 = found.own.iter().sum();
        assert!(given <= cpus, "{set:?}");
        // On CPUs of its own a job of a heavy task meets nobody: each job is done before the next comes.
        for (task, own) in set.iter().zip(&found.own).filter(|(_, own)| **own > 0) {
            for _ in 0..4 {
                let seen = list_schedule(&task.dag, *own as usize, &mut random);
                assert!(seen <= task.deadline.get(), "{seen} on {own} CPUs: {task:?}");
                heavy += 1;
            }
        }
        // The others one node after the other, by earliest deadline on the CPUs that are left.
        let shared = found.shared.map(|shared| shared.cpus).unwrap_or_default();
        assert!(shared.len() as u32 + given <= cpus, "{set:?}");
        let mut placed: Vec<usize> = shared.iter().flatten().map(|at| found.light[*at]).collect();
        for core in &shared {
            let of = |at: &usize| &set[found.light[*at]];
            let tasks: Vec<SporadicTask> = core
                .iter()
                .map(|at| SporadicTask::new(of(at).dag.volume(), of(at).deadline, of(at).period))
                .collect();
            let end = 2 * HYPERPERIOD;
            let jobs: Vec<Job> =
                tasks.iter().enumerate().flat_map(|(at, task)| densest(at, task, end)).collect();
            let seen = play(&jobs, tasks.len(), 1, Rule::Edf, true, end);
            assert!(in_time(&tasks, &seen), "{seen:?}: {tasks:?}");
            light += tasks.len();
        }
        placed.extend(found.own.iter().enumerate().filter(|(_, own)| **own > 0).map(|(at, _)| at));
        placed.sort_unstable();
        assert!(placed.into_iter().eq(0..set.len()), "every task has its place: {set:?}");
    }
    assert!(heavy > 1_000 && light > 1_000, "{heavy} {light}");
}

#[test]
fn known_graphs_get_their_bounds_and_cpus() {
    let of = |works: &[i64], edges: &[(usize, usize)]| {
        Dag::new(works.iter().copied().map(Nanos::new).collect(), edges.to_vec())
    };
    // A fork and join: 1, then 4 x 3, then 1: W = 14, L = 5.
    let fork =
        of(&[1, 3, 3, 3, 3, 1], &[(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (2, 5), (3, 5), (4, 5)]).unwrap();
    assert_eq!((fork.volume(), fork.longest_path()), (Nanos::new(14), Nanos::new(5)));
    assert_eq!(fork.response(1), Some(Nanos::new(14)));
    assert_eq!(fork.response(2), Some(Nanos::new(10)));
    assert_eq!(fork.response(0), None);
    let due = |dag: &Dag, d: i64, t: i64| DagTask {
        dag: dag.clone(),
        deadline: Nanos::new(d),
        period: Nanos::new(t),
    };
    assert_eq!(graham(&due(&fork, 10, 10), 2).outcome, Outcome::Holds);
    assert_eq!(graham(&due(&fork, 9, 10), 2).outcome, Outcome::NotShown);
    assert_eq!(graham(&due(&fork, 4, 10), 9).outcome, Outcome::Fails);
    // D = 8: ceil((14 - 5)/(8 - 5)) = 3 CPUs.
    let light = of(&[2, 2], &[]).unwrap();
    let set = [due(&fork, 8, 10), due(&light, 8, 8), due(&light, 8, 8)];
    let found = federated(&set, 4).unwrap();
    assert_eq!((found.own, found.light), (vec![3, 0, 0], vec![1, 2]));
    assert!(found.verdict.holds() && found.shared.is_some_and(|s| s.cpus == [vec![0, 1]]));
    assert!(!federated(&set, 3).unwrap().verdict.holds());
    assert!(!federated(&set, 2).unwrap().verdict.holds());
    assert_eq!(federated(&[due(&fork, 4, 10)], 9).unwrap().verdict.outcome, Outcome::Fails);
    assert_eq!(of(&[1, 1], &[(0, 1), (1, 0)]), Err(DagError::Cycle(0)));
    assert!(of(&[1], &[(0, 1)]).unwrap_err().to_string().contains("there are 1 nodes"));
    assert_eq!(of(&[0], &[]), Err(DagError::Work));
}
