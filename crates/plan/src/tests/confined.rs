//! Tasks whose threads do not have all CPUs.

use surety_model::workload::{Phase, TaskBody};

use super::*;

/// The kernel refuses what is to be reserved on some CPUs, or to move what is reserved: no plan has it, and what is beside is planned.
#[test]
fn tasks_with_cpus_of_their_own_are_not_planned() {
    let wanted = |name: &str| {
        let work = TimeDistribution::Constant(ms(1));
        task(name, 20, work, &["share >= 10% over 100ms"])
    };
    let on = |cpus: &str| Task { cpus: Some(cpus.parse().unwrap()), ..wanted("t") };
    let moved = |cpus: Option<&str>| {
        let run = Phase::Run(TimeDistribution::Constant(ms(1)));
        let steps = vec![Phase::Cpus(cpus.map(|cpus| cpus.parse().unwrap())), run];
        Task { body: TaskBody::Phases(steps), ..wanted("t") }
    };
    for (task, says) in [
        (wanted("t"), None),
        (on("0-1"), None),
        (on("0-3"), Some("leave `cpus` out, or")),
        (on("1"), Some("leave `cpus` out, or")),
        (on("2-3"), Some("leave `cpus` out, or")),
        (on("1-2"), Some("leave `cpus` out, or")),
        (moved(Some("1")), Some("leave `cpus` out of its phases")),
        (moved(None), Some("leave `cpus` out of its phases")),
    ] {
        let plan = planned(vec![wanted("beside"), task], &options(2, None));
        assert!(plan.reservation_of("beside").is_some());
        assert_eq!(plan.reservation_of("t").is_some(), says.is_none(), "{:?}", plan.refusals);
        let because = plan.refusals.first().map(|refusal| refusal.because.as_str());
        assert!(because.unwrap_or_default().contains(says.unwrap_or_default()), "{because:?}");
    }
}
