//! Interrupt sources of a workload as devices of a machine, and what became of their requests.

use surety_model::distribution::TimeDistribution;
use surety_model::record::{Basis, RequestAccount};
use surety_model::workload::{Arrivals, Irq, PolicySpec, Workload};
use surety_model::world::{Observer, RunOptions, WorldError};
use surety_units::{CpuId, Nanos};

use super::jobs::Jobs;
use super::refuse;
use crate::cpu::device::{DeviceSpec, Source};
use crate::cpu::machine::Machine;

/// The policy of an interrupt thread without a reservation: `sched_set_fifo` in `setup_irq_thread`.
pub(super) const POLICY: PolicySpec = PolicySpec::Fifo { priority: 50 };

/// The interrupt number of the first source.
const FIRST: u32 = 1;

/// The device of an interrupt source, the `index`-th of its workload.
pub(super) fn device(irq: &Irq, index: usize, cpu: CpuId, seed: u64) -> Result<DeviceSpec, WorldError> {
    let object = || format!("irq.{}", irq.name);
    if let Some(Err(error)) = irq.reservation.map(|r| r.check()) {
        return refuse(object(), format!("{error}; change its reservation"));
    }
    if irq.hard.is_some_and(Nanos::is_negative) {
        return refuse(object(), "its hard handler takes less than nothing; give it a time");
    }
    Ok(DeviceSpec {
        name: irq.device.clone().unwrap_or_else(|| irq.name.clone()),
        irq: FIRST + u32::try_from(index).expect("fewer than 2^32 interrupt sources"),
        cpu: cpu.index(),
        source: source(irq)?,
        work: irq.work.clone(),
        hard: irq.hard.unwrap_or_default(),
        buffer: irq.buffer,
        seed,
        key: irq.name.clone(),
    })
}

fn source(irq: &Irq) -> Result<Source, WorldError> {
    let object = || format!("irq.{}", irq.name);
    let time = match irq.arrivals {
        Arrivals::Periodic { period } => period,
        Arrivals::Sporadic { gap } => gap,
        Arrivals::Closed { service, .. } => service,
        Arrivals::Poisson { rate } => {
            let mean = Nanos::from_f64_rounded(1e9 / rate.per_second());
            if !rate.per_second().is_normal() || !mean.is_positive() {
                return refuse(object(), "its rate is nothing or above one in a nanosecond; change it");
            }
            mean
        }
    };
    if !time.is_positive() {
        return refuse(object(), "its interrupts come without time between them; give it a time above zero");
    }
    Ok(match irq.arrivals {
        Arrivals::Periodic { .. } | Arrivals::Sporadic { .. } => Source::Grid(time),
        Arrivals::Poisson { .. } => Source::Drawn(TimeDistribution::Exponential { mean: time }),
        Arrivals::Closed { outstanding, service } => Source::Closed { outstanding, service },
    })
}

/// The name of a device's thread: `irq/N-NAME`, as the kernel's.
pub(super) fn thread_name(device: &DeviceSpec) -> String {
    format!("irq/{}-{}", device.irq, device.name)
}

/// What became of the requests of every source, in the workload's order.
pub(super) struct Accounts {
    accounts: Vec<RequestAccount>,
    from: Nanos,
    to: Nanos,
}

impl Accounts {
    pub(super) fn new(workload: &Workload, options: &RunOptions) -> Accounts {
        let accounts = workload.irqs.iter().map(|irq| RequestAccount::new(irq, Basis::Sample)).collect();
        Accounts { accounts, from: options.warm_up, to: options.warm_up + options.duration }
    }

    /// Says what is assumed where a workload leaves it open.
    pub(super) fn notices(&self, workload: &Workload, observer: &mut dyn Observer) {
        for irq in &workload.irqs {
            if let Arrivals::Sporadic { gap } = irq.arrivals {
                observer.notice(&format!(
                    "irq.{}: its gap is all that is known of it; simulated at its densest, one request every {gap}",
                    irq.name
                ));
            }
        }
    }

    /// Takes what has become known since the last time.
    pub(super) fn collect(&mut self, machine: &mut Machine<Jobs>) {
        let (from, to) = (self.from, self.to);
        for (number, account) in self.accounts.iter_mut().enumerate() {
            let outcomes = machine.device_mut(number).take_outcomes();
            outcomes.into_iter().for_each(|outcome| account.add(outcome, from, to));
        }
    }

    /// The accounts, with the requests that are still open; the counts of the devices go into the hash.
    pub(super) fn close(mut self, machine: &mut Machine<Jobs>) -> Vec<RequestAccount> {
        self.collect(machine);
        let (from, to) = (self.from, self.to);
        for (number, account) in self.accounts.iter_mut().enumerate() {
            let device = machine.device(number);
            device.open(to).for_each(|outcome| account.add(outcome, from, to));
            let counts = device.counts();
            for word in [counts.arrived, counts.handled, counts.lost] {
                machine.recorder_mut().mix(word);
            }
        }
        self.accounts
    }
}
