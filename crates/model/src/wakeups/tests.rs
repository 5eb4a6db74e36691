//! Which wake-ups are jobs, on made-up histories.

use super::*;
use surety_units::CpuId;

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

/// From waking to sleeping, with this CPU time, waiting included in neither.
fn busy(release: i64, completion: i64, execution: i64) -> Job {
    Job {
        release: us(release),
        start: us(release),
        cpu: CpuId(0),
        completion: us(completion),
        execution: us(execution),
        interrupted: Nanos::ZERO,
        preemptions: 0,
        preempted: Nanos::ZERO,
        throttled: Nanos::ZERO,
        inferred: Nanos::ZERO,
        unknown: Nanos::ZERO,
        index: None,
    }
}

/// A frame of 6 ms every 20 ms that polls with 1 ms sleeps; those frames of `late` take until then.
fn polling(frames: i64, late: &[(i64, i64)]) -> Vec<Job> {
    let (mut list, mut now) = (Vec::new(), 0);
    for frame in 0..frames {
        while now < frame * 20_000 {
            list.push(busy(now, now + 15, 15));
            now += 1_015;
        }
        let end = late.iter().find(|(which, _)| *which == frame).map_or(now + 6_000, |(_, end)| *end);
        list.push(busy(now, end, 6_000));
        now = end + 1_000;
    }
    list
}

fn every(period: i64, jitter: i64) -> Release {
    Release::Periodic { period: us(period), start: Nanos::ZERO, jitter: us(jitter) }
}

fn account(busy: &[Job], end: i64, release: Release) -> Account {
    Account::of(&View { busy, open: None, window: (Nanos::ZERO, us(end)), release })
}

fn count(account: &Account) -> [usize; 3] {
    let of = |kind: fn(&JobOutcome) -> bool| account.outcomes.iter().filter(|o| kind(o)).count();
    [
        of(|o| matches!(o, JobOutcome::Completed { .. })),
        of(|o| matches!(o, JobOutcome::Skipped { .. })),
        of(|o| matches!(o, JobOutcome::Unfinished { .. })),
    ]
}

/// Of a loop with a 20 ms frame and 1 ms polls every wake-up was an activation once: 5,023 in 8 s, where 400 are planned.
#[test]
fn polls_are_no_activations_and_their_time_is_work() {
    let jobs = polling(400, &[]);
    assert!(jobs.len() > 5_000);
    let found = account(&jobs, 8_000_000, every(20_000, 1_000));
    assert_eq!(count(&found), [400, 0, 0]);
    assert_eq!(found.pieces.small as usize, jobs.len() - 400);
    assert_eq!(found.pieces.smallest, us(600));
    assert_eq!(found.pieces.time(), jobs.iter().map(|job| job.execution).sum());
    assert_eq!(found.objections(), Vec::<String>::new());
    assert_eq!(found.contradictions(0.01), Vec::<String>::new());
    assert!(found.pieces.describe().unwrap().contains("less than 600.0 us (10 % of the median work)"));
    // What is responsible for the response is the work alone.
    assert!(found.outcomes.iter().all(|o| weight(o) == us(6_000)));
    // Without jitter the poll's delay contradicts what a proof would assume.
    let found = account(&jobs, 8_000_000, every(20_000, 0));
    assert!(found.contradictions(0.01)[0].contains("came sooner"), "{:?}", found.contradictions(0.01));
    // Without a period each piece of work is one.
    assert_eq!(count(&account(&jobs, 8_000_000, Release::Unspecified)), [400, 0, 0]);
}

#[test]
fn late_frames_cost_the_points_they_run_over_and_the_window_holds_no_more() {
    // Frame 100 runs over the points of 101 and 102; frame 200 over none, though it is late.
    let jobs = polling(400, &[(100, 2_049_000), (200, 4_021_900)]);
    let found = account(&jobs, 8_000_000, every(20_000, 2_000));
    let skipped: Vec<_> = found.outcomes.iter().filter(|o| matches!(o, JobOutcome::Skipped { .. })).collect();
    assert_eq!(found.outcomes.len(), 400);
    assert!(!skipped.is_empty() && skipped.len() <= 2, "{skipped:?}");
    let late = found.outcomes.iter().filter(|o| weight(o) > us(20_000)).count();
    assert_eq!(late, skipped.len() + 2);
    assert_eq!(found.absent, 0);
}

#[test]
fn a_job_open_at_the_end_is_late_when_it_is() {
    let jobs = polling(350, &[]);
    let open = Some(us(7_000_500));
    let view =
        |busy, open| View { busy, open, window: (Nanos::ZERO, us(8_000_000)), release: every(20_000, 1_000) };
    let found = Account::of(&view(&jobs, open));
    // Released at 7,000.5 ms and still open at 8 s: it ran over 49 points.
    assert_eq!(count(&found), [350, 49, 1]);
    assert!(
        found.outcomes.contains(&JobOutcome::Unfinished { release: us(7_000_500), until: us(8_000_000) })
    );
    // The same where it ended after the window, by itself or by being killed.
    let mut ended = jobs.clone();
    ended.push(busy(7_000_500, 8_300_000, 900_000));
    assert_eq!(count(&Account::of(&view(&ended, None))), [350, 49, 1]);
    // One that began before the window and never ends: nothing was done.
    let view =
        |open| View { busy: &[], open, window: (us(1_000_000), us(2_000_000)), release: every(20_000, 0) };
    assert_eq!(count(&Account::of(&view(Some(us(10))))), [0, 49, 0]);
    assert_eq!(Account::of(&view(Some(us(10)))).absent, 0);
    let asleep = Account::of(&view(None));
    assert_eq!((asleep.outcomes.len(), asleep.absent), (49, 49));
}

#[test]
fn what_is_released_otherwise_than_declared_is_said() {
    // A server: a request about every 300 us, declared as a job every 10 ms.
    let server: Vec<Job> =
        (0..20_000).map(|k| busy(k * 300 + k % 7 * 11, k * 300 + k % 7 * 11 + 40, 40)).collect();
    let found = account(&server, 6_000_000, every(10_000, 0));
    assert_eq!(found.outcomes.len(), 600, "never more than the window holds");
    let said = found.contradictions(0.01);
    assert!(said[0].contains("more than once in a period of 10ms"), "{said:?}");
    assert!(said[0].contains("up to 3") && said[0].contains("as close as 234.0 us"), "{said:?}");
    // Jobs that sleep in the middle, now and then: more of them than a tenth of what may be late.
    let halves = |every: i64| -> Vec<Job> {
        let of = |k: i64| {
            let at = k * 20_000;
            let whole = vec![busy(at, at + 6_000, 6_000)];
            let split = vec![busy(at, at + 3_000, 3_000), busy(at + 5_000, at + 8_000, 3_000)];
            if k % every == 0 { split } else { whole }
        };
        (0..1_000).flat_map(of).collect()
    };
    let found = account(&halves(50), 20_000_000, every(20_000, 0));
    assert_eq!((count(&found), found.in_pieces), ([1_000, 0, 0], 20));
    assert!(found.contradictions(0.05)[0].contains("20 of 1000"), "{:?}", found.contradictions(0.05));
    assert_eq!(found.contradictions(0.25), Vec::<String>::new(), "2 % of 25 % allowed");
    // Its response ends with the last piece.
    assert_eq!(found.outcomes.iter().filter(|o| weight(o) == us(8_000)).count(), 20);
    // A loop that sleeps 20 ms after 6 ms of work is not released every 20 ms.
    let slower: Vec<Job> = (0..300).map(|k| busy(k * 26_000, k * 26_000 + 6_000, 6_000)).collect();
    let found = account(&slower, 7_800_000, every(20_000, 0));
    assert_eq!(found.outcomes.len(), 389);
    assert!(found.objections()[0].contains("not released every 20ms"), "{:?}", found.objections());
    // A smallest inter-arrival time is held against what came.
    let found = account(&slower, 7_800_000, Release::Sporadic { gap: us(30_000) });
    assert!(found.contradictions(0.01)[0].contains("sooner"), "{:?}", found.contradictions(0.01));
    assert_eq!(account(&slower, 7_800_000, Release::Sporadic { gap: us(26_000) }).early, 0);
}

#[test]
fn a_period_that_is_a_little_off_and_jitter_cost_no_activation() {
    // 16.67 ms declared of 16.666667, up to 3 ms late: over 60 s the grid drifts by 12 ms.
    let jobs: Vec<Job> = (0..3_600)
        .map(|k| {
            let at = k * 50_000 / 3 + (k * 7_919) % 3_000;
            busy(at, at + 4_000, 4_000)
        })
        .collect();
    let found = account(&jobs, 60_000_000, every(16_670, 3_000));
    assert_eq!(count(&found), [3_599, 0, 0]);
    assert_eq!((found.absent, found.in_pieces, found.early), (0, 0, 0));
    // Where there is no crowd, jobs of any length are jobs.
    let varied: Vec<Job> =
        (0..400).map(|k| busy(k * 20_000, k * 20_000 + 5_000, if k % 3 == 0 { 5_000 } else { 20 })).collect();
    let found = account(&varied, 8_000_000, every(20_000, 0));
    assert_eq!((count(&found), found.pieces.small), ([400, 0, 0], 0));
}

#[test]
fn many_wake_ups_that_use_much_are_not_next_to_nothing() {
    // 5 ms every 20 ms, and 17 wake-ups of 0.3 ms between: half of the CPU time.
    let list: Vec<Job> = (0..400)
        .flat_map(|k| {
            let at = k * 20_000;
            let polls = (0..13).map(move |p| busy(at + 6_000 + p * 1_000, at + 6_300 + p * 1_000, 300));
            std::iter::once(busy(at, at + 5_000, 5_000)).chain(polls)
        })
        .collect();
    let found = account(&list, 8_000_000, every(20_000, 0));
    assert!(found.objections()[0].contains("cannot be told"), "{:?}", found.objections());
}
