//! The probe for wake-up latency in a guest of the lab, and what its values say of the time to come.

use surety_host::latency::LatencyOptions;
use surety_host::probe_setup::ProbePolicyError;
use surety_lab::job::{Job, Probe};
use surety_lab::store::StoredKernel;
use surety_lab::vm::LabOptions;
use surety_lab::world::record_of;
use surety_model::formats::toml;
use surety_model::latency::Sleep;
use surety_model::record::{ActivityRecord, NextLargest, Record};
use surety_model::workload::{ActivityKind, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::{CpuId, Nanos};

use crate::context::Context;
use crate::failure::Failure;
use crate::guests::{lab_of, product_of};

/// The job of a guest. Rules that end a run by what was measured stay behind: what the probe says of them does not come back.
pub fn job_of(options: &LatencyOptions) -> Job {
    let loads = Workload { loads: options.loads.clone(), ..Workload::default() };
    Job::Latency {
        probe: Probe {
            cpus: options.cpus,
            period: options.period,
            relative: options.sleep == Sleep::Relative,
            policy: options.policy.to_string(),
            jobs: options.jobs,
            warm_up: options.warm_up,
            seed: options.seed,
            loads: toml::write(&loads),
        },
    }
}

/// What is asked of the probe in a guest.
///
/// # Errors
/// The policy is none.
pub fn options_of(probe: &Probe, cancel: Cancel) -> Result<LatencyOptions, ProbePolicyError> {
    Ok(LatencyOptions {
        cpus: probe.cpus,
        period: probe.period,
        sleep: if probe.relative { Sleep::Relative } else { Sleep::Absolute },
        policy: probe.policy.parse()?,
        jobs: probe.jobs,
        warm_up: probe.warm_up,
        until: None,
        stop_over: None,
        loads: probe.loads(),
        seed: probe.seed,
        cancel,
    })
}

/// Runs the probe in a guest of a kernel.
///
/// # Errors
/// The guest has no such CPUs or not enough memory; what ends the run.
pub fn on_kernel(
    options: &LatencyOptions,
    guest: &LabOptions,
    stored: StoredKernel,
    context: &dyn Context,
) -> Result<Record, Failure> {
    if let Some(cpus) = options.cpus {
        guest.check_cpus(cpus).map_err(WorldError::from)?;
    }
    let job = job_of(options);
    let lab = lab_of(stored, guest.clone(), &[], context)?;
    lab.check(&job).map_err(WorldError::from)?;
    context.step(&format!("booting {}", lab.stored().in_words()));
    let product = product_of(&lab, &job, context)?;
    Ok(record_of(&product, &lab)?)
}

/// Extrapolates the median of the maximum of the next hour of each CPU, or says why that cannot be told: of the values of its
/// activity in their order, or where there are none, of those that the record keeps.
pub fn look_ahead(record: &mut Record, samples: &[(CpuId, Vec<u64>)], period: Nanos, seed: u64) {
    let probes = record.activities.iter_mut().filter(|a| a.kind == ActivityKind::Probe);
    let probes: Vec<&mut ActivityRecord> = probes.filter(|a| a.withheld().is_none()).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(probes.len().max(1));
    let shares = probes.len().div_ceil(workers).max(1);
    let mut probes = probes;
    std::thread::scope(|scope| {
        for part in probes.chunks_mut(shares) {
            scope.spawn(move || {
                for probe in part {
                    probe.next_largest = next_largest(probe, samples, period, seed);
                }
            });
        }
    });
}

fn next_largest(
    probe: &ActivityRecord,
    samples: &[(CpuId, Vec<u64>)],
    period: Nanos,
    seed: u64,
) -> Option<NextLargest> {
    let own = samples.iter().find(|(cpu, _)| probe.name == format!("cpu{cpu}"));
    if let Some((_, values)) = own {
        return Some(NextLargest::of(values, period, seed));
    }
    let observed = probe.latency.as_ref()?.observed()?;
    Some(match observed.in_order() {
        Some(kept) if kept.every() == 1 => NextLargest::of(kept.values(), period, seed),
        Some(kept) => NextLargest::untold(
            kept.count(),
            format!("of {} values only one in {} is known in its order", kept.count(), kept.every()),
        ),
        None => NextLargest::untold(observed.histogram.count(), "the order of its values is not known"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::workload::{Load, LoadKind};
    use surety_units::{Bytes, CpuSet};

    #[test]
    fn the_guest_is_asked_what_the_user_asked() {
        let asked = LatencyOptions {
            cpus: Some(CpuSet::first(2)),
            period: Nanos::from_micros(250),
            sleep: Sleep::Relative,
            policy: "deadline:1ms/3ms/5ms".parse().unwrap(),
            jobs: 17,
            warm_up: Nanos::ZERO,
            until: None,
            stop_over: None,
            loads: vec![
                Load::new("spinners", LoadKind::Spinners, 4),
                Load { block: Some(Bytes(1000)), ..Load::new("ping-flood", LoadKind::PingFlood, 2) },
            ],
            seed: u64::MAX,
            cancel: Cancel::default(),
        };
        let text = serde_json::to_string(&job_of(&asked)).unwrap();
        let Job::Latency { probe } = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        let again = options_of(&probe, asked.cancel.clone()).unwrap();
        assert_eq!(format!("{asked:?}"), format!("{again:?}"));
        assert_eq!(probe.span(), Nanos::from_micros(250 * 17));
    }
}
