//! Jobs in numbers against the jobs themselves.

use proptest::prelude::*;
use surety_model::job::{Job, ThreadHistory};
use surety_units::CpuId;

use super::recorder::{FOLDED_NAMES_MAX, LISTED_MAX};
use super::*;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::jobs::tests::{any_script, feed};

fn us(value: i64) -> Nanos {
    Nanos::from_micros(value)
}

fn statistics(script: &str, wanted: Wanted) -> Recorded {
    let mut builder = StatisticsBuilder::new(wanted);
    feed(script, &mut builder);
    builder.finish().0
}

/// Two jobs of thread 7 on CPU 0, one of them preempted by thread 8, and one that migrates to CPU 1 and ends there.
const SCRIPT: &str = "0 0 sw 0 0
     10 0 waking 7
     12 0 sw 0 7
     20 0 sw 7:S 0
     40 0 waking 7
     41 0 sw 0 7
     45 0 sw 7:R+ 8
     50 0 sw 8:S 7
     60 0 sw 7:S 0
     80 0 waking 7
     81 0 sw 0 7
     85 0 sw 7:R+ 8
     90 1 sw 0 7
     99 1 sw 7:S 0";

fn of(recorded: &Recorded, tid: i32) -> ThreadStatistics {
    *recorded.threads.iter().find(|t| t.tid == Tid(tid)).unwrap()
}

#[test]
fn jobs_in_numbers() {
    let seen = of(&statistics(SCRIPT, Wanted::default()), 7);
    assert_eq!((seen.jobs, seen.censored, seen.preemptions, seen.exact), (3, 0, 2, false));
    assert_eq!((seen.run, seen.waited, seen.longest_wait), (us(8 + 14 + 13), us(2 + 1 + 5 + 1 + 5), us(5)));
    let response = seen.response.unwrap();
    assert_eq!((response.min, response.median, response.max), (us(10), us(19), us(20)));
    assert_eq!((seen.latency.unwrap().max, seen.observed), (us(2), us(89)));
    let gaps = seen.inter_arrival.unwrap();
    assert_eq!((gaps.count, gaps.min, gaps.max), (2, us(30), us(40)));
    let preempted = seen.preemption.unwrap();
    assert_eq!((preempted.count, preempted.min, preempted.max), (2, us(5), us(5)));
    assert_eq!(seen.execution.map(|e| e.mean), Some(us(35).mul_ratio(1, 3)));
}

#[test]
fn filters_cut_jobs_and_times() {
    let numbers = |wanted| {
        let seen = of(&statistics(SCRIPT, wanted), 7);
        (seen.jobs, seen.run, seen.waited)
    };
    let wanted = Wanted { cpus: "0".parse().ok(), ..Wanted::default() };
    assert_eq!(numbers(wanted), (3, us(8 + 14 + 4), us(2 + 1 + 5 + 1 + 5)), "jobs that started there");
    let wanted = Wanted { cpus: "1".parse().ok(), ..Wanted::default() };
    assert_eq!(numbers(wanted), (0, us(9), Nanos::ZERO));
    let wanted = Wanted { from: Some(us(15)), to: Some(us(80)), ..Wanted::default() };
    assert_eq!(
        numbers(wanted),
        (1, us(5 + 14), us(1 + 5)),
        "the third is released at the end, which is excluded"
    );
    let wanted = Wanted { tids: vec![Tid(8)], ..Wanted::default() };
    assert_eq!(statistics(SCRIPT, wanted).threads.len(), 1);
    let wanted = Wanted { names: vec![Comm::new("t7")], ..Wanted::default() };
    let seen = statistics(SCRIPT, wanted);
    assert_eq!((seen.threads.len(), seen.threads_in_trace), (1, 2));
}

/// A gap across a job that was given up is no time between arrivals.
#[test]
fn what_was_given_up_breaks_the_row_of_arrivals() {
    let script = "0 0 sw 0 0
         10 0 waking 7\n12 0 sw 0 7\n14 0 sw 7:S 0
         20 0 waking 7\n22 0 sw 0 7\n23 0 lost\n25 0@0 irq\n26 0 irqx
         30 0 waking 7\n32 0 sw 0 7\n34 0 sw 7:S 0
         40 0 waking 7\n42 0 sw 0 7\n44 0 sw 7:S 0";
    let seen = of(&statistics(script, Wanted::default()), 7);
    assert_eq!((seen.jobs, seen.censored), (3, 1));
    assert_eq!(seen.inter_arrival.map(|i| (i.count, i.max)), Some((1, us(10))));
}

/// Without wake-ups an activation is from getting a CPU after a sleep to the next sleep, preemptions inside it.
#[test]
fn switches_alone_tell_activations() {
    let script = "0 0 sw 0 7\n5 0 sw 7:S 0
         10 0 sw 0 7\n12 0 sw 7:R 8\n15 0 sw 8:D 7\n18 0 sw 7:D 0
         30 0 sw 0 7\n31 0 irq\n32 0 irqx\n34 0 sw 7:S 0";
    let seen = of(&statistics(script, Wanted::default()), 7);
    assert_eq!((seen.by_switches, seen.jobs, seen.censored), (true, 2, 1));
    assert_eq!((seen.response, seen.latency), (None, None));
    let execution = seen.execution.unwrap();
    assert_eq!((execution.min, execution.max, seen.preemptions), (us(4), us(5), 1));
    assert_eq!(seen.execution_net.map(|s| s.min), Some(us(3)));
    assert_eq!(seen.inter_arrival.map(|s| (s.count, s.min)), Some((1, us(20))));
    assert_eq!(seen.run, us(5 + 5 + 4));

    // One wake-up, of anybody, shows that they are told: then the others' are missing.
    let seen = of(&statistics(&format!("{script}\n40 0 waking 9"), Wanted::default()), 7);
    assert_eq!((seen.by_switches, seen.jobs, seen.censored), (false, 0, 3));
    assert_eq!((seen.execution, seen.inter_arrival, seen.preemptions, seen.run), (None, None, 0, us(14)));
}

/// Threads that neither get nor lose a CPU are those that the recorder names at the end, and those that are current all along.
#[test]
fn threads_of_which_no_event_tells_are_shown() {
    let script = "0 0@5 irq\n1 0@5 irqx\n2 1 sw 0 7\n4 1 sw 7:S 0\n90 0@5 irq\n91 0@5 irqx
         95 1@9 mark surety:t:5:R:0:spin\n95 1@9 mark surety:t:7:S:1:worker\n95 1@9 mark surety:t:11:R:1:starved
         95 1@9 mark surety:t:12:S:0:sleeper\n95 1@9 mark surety:t:13:R:3:alone\n100 1@9 irq\n100 1@9 irqx";
    let recorded = statistics(script, Wanted::default());
    let told = |tid| {
        let seen = of(&recorded, tid);
        (seen.throughout, seen.comm.text().into_owned(), seen.run, seen.waited)
    };
    let none = Nanos::ZERO;
    assert_eq!(told(5), (Some(Throughout::Running), "spin".to_owned(), us(100), none));
    assert_eq!(told(7), (None, "worker".to_owned(), us(2), none));
    assert_eq!(told(11), (Some(Throughout::Ready), "starved".to_owned(), none, us(100)));
    assert_eq!(told(12), (Some(Throughout::Asleep), "sleeper".to_owned(), none, none));
    assert_eq!(told(13), (Some(Throughout::Running), "alone".to_owned(), us(100), none));
    let mut keep = JobBuilder::new();
    feed(script, &mut keep);
    let jobs = keep.finish();
    assert!(jobs.threads.iter().all(|thread| thread.tid.0 < 10), "others are not told of them");
}

#[test]
fn threads_beyond_the_bound_are_added_up_by_name() {
    let mut sink = Recorders::new(Wanted::default());
    let lives = LISTED_MAX as i64 + 3 * FOLDED_NAMES_MAX as i64;
    for life in 0..lives {
        let name = Comm::new(&format!("n{}", life % (2 * FOLDED_NAMES_MAX as i64)));
        let thread = ThreadKey {
            slot: 0,
            life: life as u64,
            tid: Tid(1),
            comm: name,
            separation: surety_model::job::Separation::BusyPeriod,
        };
        sink.ran(&thread, CpuId(0), Nanos::ZERO, Nanos::new(life));
        let totals = ThreadTotals {
            prio: 120,
            open: None,
            censored: 0,
            run: Nanos::ZERO,
            interrupted: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            seen: (Nanos::ZERO, Nanos::ZERO),
            throughout: None,
        };
        sink.ended(&thread, &totals);
    }
    let recorded = sink.finish();
    assert_eq!((recorded.threads.len(), recorded.threads_in_trace), (LISTED_MAX, lives as u64));
    assert_eq!(recorded.threads[0].run, Nanos::new(lives - 1), "the busiest first");
    let folded: u64 = recorded.folded.iter().map(|f| f.threads).sum();
    assert_eq!(folded, lives as u64 - LISTED_MAX as u64);
    assert!(recorded.folded.len() <= FOLDED_NAMES_MAX + 1);
    let run: Nanos = recorded.folded.iter().map(|f| f.run).sum();
    let all: Nanos = recorded.threads.iter().map(|t| t.run).sum::<Nanos>() + run;
    assert_eq!(all, Nanos::new(lives * (lives - 1) / 2), "no time is lost");
}

/// The same numbers from a history that keeps every job.
fn by_hand(history: &ThreadHistory) -> (u64, u64, Nanos, Nanos, Option<Nanos>, Option<Nanos>) {
    let response = |job: &Job| job.response();
    (
        history.jobs.len() as u64,
        history.censored,
        history.run,
        history.waited,
        history.jobs.iter().map(response).max(),
        history.jobs.iter().map(Job::latency).min(),
    )
}

proptest! {
    /// However contradictory the events: what is condensed on the way is what all jobs kept would give.
    #[test]
    fn streaming_and_keeping_agree(script in any_script()) {
        let mut keep = JobBuilder::new();
        feed(&script, &mut keep);
        let mut kept: Vec<_> = keep.finish().threads.iter().map(|t| (t.tid, by_hand(t))).collect();
        let recorded = statistics(&script, Wanted::default());
        let mut streamed: Vec<_> = recorded.threads.iter().map(|t| {
            let (max, min) = (t.response.map(|r| r.max), t.latency.map(|l| l.min));
            // Who keeps jobs gives activations up.
            let (jobs, censored) = if t.by_switches { (0, t.censored + t.jobs) } else { (t.jobs, t.censored) };
            (t.tid, (jobs, censored, t.run, t.waited, max, min))
        }).collect();
        kept.sort_unstable();
        streamed.sort_unstable();
        prop_assert_eq!(streamed, kept);
    }

    /// Windows and CPUs that share a trace out share out its time and its jobs.
    #[test]
    fn parts_of_a_trace_add_up(script in any_script(), cut in 1..2000i64) {
        let all = statistics(&script, Wanted::default());
        let to = Wanted { to: Some(us(cut)), ..Wanted::default() };
        let from = Wanted { from: Some(us(cut)), ..Wanted::default() };
        let cpus = ["0", "1", "2"].map(|cpu| Wanted { cpus: cpu.parse().ok(), ..Wanted::default() });
        let sums = |recorded: &Recorded| recorded.threads.iter()
            .fold((0, Nanos::ZERO), |(jobs, run), t| (jobs + t.jobs, run + t.run));
        let add = |parts: Vec<Wanted>| parts.into_iter()
            .map(|wanted| sums(&statistics(&script, wanted)))
            .fold((0, Nanos::ZERO), |a, b| (a.0 + b.0, a.1 + b.1));
        let by_time = add(vec![to, from]);
        prop_assert_eq!(by_time.1, sums(&all).1);
        // A marked job may name a release before the trace begins; that lies in the first part.
        prop_assert_eq!(by_time.0, sums(&all).0);
        prop_assert_eq!(add(cpus.into()), sums(&all));
    }
}
