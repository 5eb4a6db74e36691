//! Whatever a trace shows of its threads, the fit ends, its accounts sum up, and its file reads back.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use surety_fit::{FitOptions, TraceView, fit_trace};
use surety_model::event::Comm;
use surety_model::formats::toml;
use surety_model::job::{Job, Separation, ThreadHistory};
use surety_trace::interrupts::Interrupts;
use surety_units::{CpuId, Nanos, Tid};

/// A thread whose jobs follow each other: distance to the next release and execution, at any scale.
fn thread() -> impl Strategy<Value = ThreadHistory> {
    let step = prop_oneof![0i64..5, 0i64..100_000_000, Just(10_000_000i64), 0i64..1 << 50];
    let jobs = proptest::collection::vec((step, 0u64..1_000, 0u64..1_000), 0..120);
    let name = proptest::array::uniform16(prop_oneof![Just(b'a'), any::<u8>()]);
    (jobs, name, -5i32..150, any::<bool>(), 0i64..1 << 62, 0i32..6).prop_map(
        |(steps, name, prio, marked, begin, tid)| {
            let mut release = Nanos::new(begin);
            let mut jobs = Vec::new();
            for (index, (step, used, interrupted)) in (0..).zip(steps) {
                let execution = Nanos::new(step).mul_ratio(used, 1_000);
                jobs.push(Job {
                    release,
                    start: release,
                    completion: release + execution,
                    execution,
                    interrupted: execution.mul_ratio(interrupted, 1_000),
                    cpu: CpuId(0),
                    preemptions: 0,
                    preempted: Nanos::ZERO,
                    throttled: Nanos::ZERO,
                    inferred: Nanos::ZERO,
                    unknown: Nanos::ZERO,
                    index: marked.then_some(index),
                });
                release += Nanos::new(step);
            }
            ThreadHistory {
                tid: Tid(tid),
                comm: Comm(name),
                prio,
                separation: if marked { Separation::Markers } else { Separation::BusyPeriod },
                open: None,
                censored: 0,
                doubtful: Vec::new(),
                run: jobs.iter().map(|job| job.execution).sum(),
                interrupted: jobs.iter().map(|job| job.interrupted).sum(),
                waited: Nanos::ZERO,
                longest_wait: Nanos::ZERO,
                unknown: Nanos::ZERO,
                seen: (Nanos::new(begin), release),
                jobs,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_threads_give_a_file_and_accounts(
        histories in proptest::collection::vec(thread(), 0..6),
        cpus in 0u32..5,
        whole in any::<bool>(),
    ) {
        let span = if whole { (Nanos::ZERO, Nanos::MAX) } else { (Nanos::ZERO, Nanos::SECOND) };
        let view = TraceView { histories: &histories, interrupts: &Interrupts::default(), cpus, span };
        let options = FitOptions { share_min: "0%".parse().unwrap(), interrupts: true, tids: Vec::new(), names: Vec::new(), in_order: false,
        shortest: Nanos::ZERO };
        let fitted = fit_trace(&view, &options);
        let a = fitted.accounts;
        let parts = [a.tasks, a.loads, a.interrupt_threads, a.remainder, a.interrupts, a.idle];
        let sum: i128 = parts.iter().map(|time| i128::from(time.get())).sum();
        prop_assert!(parts.iter().all(|time| !time.is_negative()));
        // Beyond 292 years nothing sums.
        prop_assert!(sum == i128::from(a.total.get()) || a.total == Nanos::MAX);
        let text = toml::write_commented(&fitted.workload, &fitted.comments);
        let again = toml::read("f.toml", &text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(again, fitted.workload);
        let members: usize = fitted.sources.iter().map(|source| source.threads.len()).sum();
        let threads = histories.iter().filter(|h| h.tid != Tid::IDLE).count();
        prop_assert_eq!(members + fitted.remainder.len(), threads, "every thread is somewhere");
    }
}
