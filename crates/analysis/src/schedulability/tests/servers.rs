//! Budgets in which a thread sleeps, simulated unit by unit by the kernel's rule, against what is said of them.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::twin::task;
use crate::schedulability::global_edf::{self, GFB, density};
use crate::schedulability::partition::{CoreTest, Heuristic, partition};
use crate::schedulability::uniprocessor::{self, processor_demand, utilisation};
use crate::schedulability::{Outcome, SporadicTask, fixed, tardiness};

/// A server and its thread, which sleeps and wakes as chance has it, or a plain task with its one job.
struct Entity {
    of: SporadicTask,
    due: i64,
    left: i64,
    /// Asleep, or waiting for a replenishment, up to then.
    until: i64,
    throttled: bool,
    /// What the thread runs before it sleeps again.
    run: i64,
    /// What ran by which deadline, with when it was awake first: `(awake, due, work)`.
    ran: Vec<(i64, i64, i64)>,
}

impl Entity {
    /// `update_dl_entity`, `dl_check_constrained_dl`, `replenish_dl_entity`.
    fn wakes(&mut self, now: i64) {
        let (q, d, t) = (self.of.work.get(), self.of.deadline.get(), self.of.period.get());
        if self.of.server.is_none() {
            (self.due, self.left) = (now + d, q);
        } else if self.throttled {
            self.throttled = false;
            self.due += t;
            self.left = q;
        } else if self.due < now && now < self.due - d + t {
            (self.throttled, self.until) = (true, self.due - d + t);
            return;
        } else if self.due < now {
            (self.due, self.left) = (now + d, q);
        } else if self.left * d > (self.due - now) * q {
            if d < t { self.left = (self.due - now) * q / d } else { (self.due, self.left) = (now + d, q) }
        }
        if self.left == 0 {
            (self.throttled, self.until) = (true, self.due - d + t);
            return;
        }
        self.ran.push((now, self.due, 0));
    }

    fn is_ready(&self, now: i64) -> bool {
        self.until <= now
    }

    /// One unit, after which it may be asleep or throttled.
    fn runs(&mut self, now: i64, random: &mut Pcg) {
        let (d, t) = (self.of.deadline.get(), self.of.period.get());
        (self.left, self.run) = (self.left - 1, self.run - 1);
        if let Some(last) = self.ran.last_mut() {
            last.2 += 1;
        }
        if self.left == 0 {
            (self.throttled, self.until) = (true, (self.due - d + t).max(now + 1));
        }
        if self.of.server.is_none() {
            if self.left == 0 {
                self.throttled = false;
                self.until = self.due - d + t + random.below(3) as i64 * random.below(t as u64) as i64;
            }
        } else if self.run <= 0 {
            self.run = 1 + random.below(2 * self.of.work.get() as u64) as i64;
            self.until = self.until.max(now + 1 + random.below(t as u64) as i64);
            if self.throttled && self.until > self.due - d + t {
                // The timer fires while it sleeps.
                (self.throttled, self.due, self.left) = (false, self.due + t, self.of.work.get());
            }
        }
    }
}

/// Plays EDF; whether nothing that was ready ran past its deadline.
fn in_time(tasks: &[SporadicTask], cpus: usize, end: i64, random: &mut Pcg) -> (bool, Vec<Entity>) {
    let mut all: Vec<Entity> = (tasks.iter())
        .map(|of| Entity {
            of: *of,
            due: -10 * of.period.get(),
            left: 0,
            until: random.below(of.period.get() as u64) as i64,
            throttled: false,
            run: 1 + random.below(of.work.get() as u64) as i64,
            ran: Vec::new(),
        })
        .collect();
    let mut awake = vec![false; all.len()];
    for now in 0..end {
        for (entity, awake) in all.iter_mut().zip(&mut awake) {
            if entity.is_ready(now) && !*awake {
                entity.wakes(now);
            }
            *awake = entity.is_ready(now);
        }
        let mut ready: Vec<usize> = (0..all.len()).filter(|place| awake[*place]).collect();
        if ready.iter().any(|place| all[*place].due <= now) {
            return (false, all);
        }
        ready.sort_by_key(|place| all[*place].due);
        for place in ready.into_iter().take(cpus) {
            all[place].runs(now, random);
            awake[place] = all[place].is_ready(now) && all[place].left > 0;
        }
    }
    (true, all)
}

fn draw(count: u64, most: u64, random: &mut Pcg) -> Vec<SporadicTask> {
    (0..count)
        .map(|_| {
            let t = 4 + random.below(20) as i64;
            let c = 1 + random.below((t as u64 * most / 100).max(1)) as i64;
            let d = if random.below(2) == 0 { t } else { c + random.below((t - c) as u64 + 1) as i64 };
            let plain = task(c, d, t);
            if random.below(3) > 0 { plain.served(Nanos::ZERO) } else { plain }
        })
        .collect()
}

#[test]
fn no_accepted_set_of_servers_misses() {
    let mut random = Pcg::for_job(9, 81, 0);
    let (mut accepted, mut plainly) = ([0; 2], [0; 2]);
    for round in 0..40_000 {
        let cpus = 1 + (round % 3) as usize;
        let several = usize::from(cpus > 1);
        let most = if several == 1 { 60 } else { 45 };
        let tasks = draw(2 + cpus as u64 + random.below(3), most, &mut random);
        let holds = |tasks: &[SporadicTask]| match cpus {
            1 => processor_demand(tasks).holds(),
            _ => global_edf::TESTS.iter().any(|(_, test)| test(tasks, cpus as u32).holds()),
        };
        let plain: Vec<SporadicTask> =
            tasks.iter().map(|task| SporadicTask { server: None, ..*task }).collect();
        if !holds(&tasks) && !holds(&plain) {
            continue;
        }
        let (kept, _) = in_time(&tasks, cpus, 600, &mut random);
        if holds(&tasks) {
            assert!(kept, "{cpus}: {tasks:?}");
            accepted[several] += 1;
        } else if !kept {
            plainly[several] += 1;
        }
    }
    // As sporadic tasks some of those not accepted are, and miss.
    assert!(accepted.iter().all(|n| *n > 1_000) && plainly[0] > 8, "{accepted:?} {plainly:?}");
}

#[test]
fn no_window_is_asked_for_more_than_the_demand_of_a_server() {
    let mut random = Pcg::for_job(9, 82, 0);
    let mut reached = 0;
    for _ in 0..2_000 {
        let server = draw(1, 80, &mut random)[0].served(Nanos::ZERO);
        let (kept, mut all) = in_time(&[server], 1, 300, &mut random);
        assert!(kept, "{server:?}");
        let ran = std::mem::take(&mut all[0].ran);
        for (from, (begin, _, _)) in ran.iter().enumerate() {
            let mut sum = 0;
            for (_, due, work) in &ran[from..] {
                sum += i128::from(*work);
                let most = server.demand(i128::from(due - begin));
                assert!(sum <= most, "{server:?}: {sum} in {}", due - begin);
                reached += u32::from(sum == most && due - begin > server.period.get());
            }
        }
    }
    assert!(reached > 100, "{reached}");
}

#[test]
fn tests_take_servers_or_say_that_they_do_not() {
    let server = task(2, 4, 8).served(Nanos::ZERO);
    assert_eq!([0, 1, 3, 4, 7, 8, 9, 12].map(|t| server.demand(t)), [0, 1, 2, 2, 2, 2, 3, 4]);
    let implicit = task(3, 9, 9).served(Nanos::ZERO);
    assert_eq!([0, 1, 3, 9, 12, 18].map(|t| implicit.demand(t)), [0, 1, 1, 3, 4, 6]);
    // A leftover of 2 due in 4 beside a job of 3 due in 5: too much, though their first budgets fit as jobs.
    let set = [task(4, 10, 10).served(Nanos::ZERO), task(4, 6, 20)];
    let plain = set.map(|task| SporadicTask { server: None, ..task });
    assert!(processor_demand(&plain).holds());
    assert_eq!(processor_demand(&set).outcome, Outcome::NotShown);
    assert!(utilisation(&[set[0], implicit]).holds());
    // An overrun by 1 of each counts once in every window from the shortest deadline on.
    let late = [task(1, 5, 5).served(Nanos::new(1)), task(2, 10, 10).served(Nanos::new(1))];
    assert!(processor_demand(&late).holds() && uniprocessor::density(&late).holds());
    assert_eq!(utilisation(&late).outcome, Outcome::NotApplicable);
    assert!(!processor_demand(&late.map(|task| task.served(Nanos::new(2)))).holds());
    assert_eq!(density(&[late[0]; 3], 2).theorem, GFB);
    assert!(density(&[late[0]; 3], 2).holds() && !density(&[late[0].served(Nanos::new(2)); 3], 2).holds());
    for (theorem, test) in &global_edf::TESTS[1..] {
        let verdict = test(&[server; 3], 2);
        assert_eq!(verdict.outcome, Outcome::NotApplicable, "{}", theorem.name);
        assert!(verdict.steps[0].contains("sleep"), "{verdict:?}");
    }
    assert_eq!(fixed::response_times(&[server]).outcome, Outcome::NotApplicable);
    assert_eq!(tardiness::tardiness(&[implicit; 3], 2).verdict.outcome, Outcome::NotApplicable);
    assert!(partition(&set, 2, Heuristic::FirstFit, CoreTest::Edf).is_ok_and(|found| found.complete()));
    assert!(partition(&set, 1, Heuristic::FirstFit, CoreTest::Edf).is_ok_and(|found| !found.complete()));
    assert!(partition(&set, 2, Heuristic::FirstFit, CoreTest::DeadlineMonotonic).is_err());
    // What a server cannot be.
    for wrong in [SporadicTask { jitter: Nanos::new(1), ..server }, task(1, 9, 8).served(Nanos::ZERO)] {
        assert_eq!(processor_demand(&[wrong]).outcome, Outcome::NotApplicable, "{wrong:?}");
    }
}
