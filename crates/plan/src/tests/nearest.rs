//! The nearest requests of a refusal, typed back in.

use std::collections::BTreeMap;

use surety_model::distribution::TimeDistribution;
use surety_model::plan::Refusal;
use surety_model::promise::Promise;
use surety_model::workload::{Arrivals, Irq, Late, Release, Task, TaskBody, Work, Workload};
use surety_units::Nanos;

use super::{device, ms, of, options, player, task};
use crate::alternatives::Alternative;
use crate::{PlanOptions, plan};

/// What stands in a plan as the nearest request, typed back in by its text alone.
fn typed(
    text: &str,
    refusal: &Refusal,
    workload: &Workload,
    options: &PlanOptions,
) -> (Workload, PlanOptions) {
    let between = |before: &str, after: &str| -> Option<String> {
        let rest = text.split_once(before)?.1;
        Some(rest.split_once(after).map_or(rest, |(value, _)| value).to_owned())
    };
    let permille = |percent: String| (percent.parse::<f64>().unwrap() * 10.0).round() as u32;
    let alternative = if let Some(time) = between("with releases ", " apart") {
        Alternative::Apart(time.parse().unwrap())
    } else if let Some(cpus) = between("promise on ", " CPUs") {
        Alternative::Cpus(cpus.parse().unwrap())
    } else if let Some(percent) = between("reduced to ", " % of") {
        let activity = between("the work of `", "`").unwrap_or_else(|| refusal.activity.clone());
        Alternative::Work { own: activity == refusal.activity, activity, permille: permille(percent) }
    } else {
        Alternative::Promise(Promise::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")))
    };
    assert_eq!(alternative.to_string(), text);
    alternative.apply(refusal, workload, options)
}

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn log_normal(mean: i64, p99: i64) -> TimeDistribution {
    TimeDistribution::LogNormal { mean: us(mean), p99: us(p99) }
}

/// Beside 5.6 ms in every 7.
fn beside(task: Task) -> Workload {
    let mut other = super::task("b", 7, TimeDistribution::Constant(us(5_600)), &["response <= 7ms"]);
    other.late = Late::Queue;
    of(vec![other, task])
}

fn share(promise: &str) -> Task {
    let mut share = task("s", 40, player(), &[promise]);
    (share.release, share.body) = (Release::Unspecified, TaskBody::Synthetic(Work::Forever));
    share
}

fn with_device(gap: Nanos, promise: &str) -> Workload {
    let irq = Irq { arrivals: Arrivals::Sporadic { gap }, ..device(&[promise]) };
    Workload { irqs: vec![irq], ..of(vec![]) }
}

/// `1.5 ms in every 2.13 ms` as two times.
fn pair(text: &str) -> (Nanos, Nanos) {
    let (runtime, period) = text.split_once(" in every ").unwrap_or_else(|| panic!("{text}"));
    let period: Vec<&str> = period.split(' ').take(2).collect();
    (runtime.parse().unwrap(), period.concat().parse().unwrap())
}

/// Each nearest request that a plan prints is planned when it is asked for as it is printed, and the numbers of a refusal agree: what is
/// feasible is less than what is needed, in figures that can be typed back in.
#[test]
fn every_nearest_request_is_planned_as_it_is_printed() {
    let mut short = task("a", 1, TimeDistribution::Constant(us(200)), &["response <= 230us"]);
    short.release = Release::Periodic { period: us(2_130), jitter: Nanos::ZERO, start: Nanos::ZERO };
    let workloads = [
        of(vec![task("a", 40, log_normal(14_000, 33_000), &["response <= 31.337ms @ 99.9%"])]),
        of(vec![task("a", 40, log_normal(14_000, 22_000), &["response <= 40ms"])]),
        beside(short),
        beside(task("a", 33, TimeDistribution::Constant(us(3_333)), &["response <= 7.77ms"])),
        beside(share("share >= 13.37%")),
        with_device(us(95), "rate >= 12000.7/s"),
        with_device(ms(1_700), "rate >= 0.9/s"),
    ];
    let options = options(1, None);
    let (mut typed_back, mut compared) = (0, 0);
    for workload in &workloads {
        let plan = plan(workload, &BTreeMap::new(), &options);
        let refusal = plan.refusals.last().unwrap_or_else(|| panic!("{workload:?} is not refused"));
        println!("{}: {}\n  {}", refusal.promise, refusal.because, refusal.nearest.join("\n  "));
        assert!(!refusal.nearest.is_empty(), "{refusal:?}");
        for text in &refusal.nearest {
            let (changed, with) = typed(text, refusal, workload, &options);
            let again = crate::plan(&changed, &BTreeMap::new(), &with);
            assert!(again.refusals.is_empty(), "{refusal:?}: {text}: {:?}", again.refusals);
            typed_back += 1;
        }
        let needed = refusal.because.split_once(" are needed");
        let feasible = refusal.because.rsplit_once("at most ");
        if let (Some((needed, rest)), Some((_, feasible))) = (needed, feasible) {
            let (needed, feasible) = (pair(needed), pair(feasible));
            assert!(feasible.0 < needed.0 && feasible.1 == needed.1, "{}", refusal.because);
            assert_eq!(rest.matches("at most").count(), 1, "{}", refusal.because);
            compared += 1;
        }
    }
    assert!(typed_back > 12 && compared >= 1, "{typed_back} {compared}");
}
