//! Work that is not independent: suspension and locks, against schedules and choices tried one by one.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::Deadlines;
use super::twin::{HYPERPERIOD, draw, task};
use crate::schedulability::fixed::response_times;
use crate::schedulability::resources::{Section, blocked, inheritance};
use crate::schedulability::suspension::{as_jitter, oblivious};
use crate::schedulability::{Outcome, SporadicTask};

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
        for (i, bound) in inheritance(tasks, &sections).iter().enumerate() {
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
            assert!(bound.get() >= worst, "{sections:?} {i}");
            tight += i32::from(bound.get() == worst && worst > 0);
        }
    }
    assert!(tight > 1_000, "{tight}");
    let set = blocked(&[task(1, 4, 4), task(1, 8, 8)], &[Nanos::new(2)]);
    assert_eq!(response_times(&set).responses, [3, 2].map(Nanos::new));
}
