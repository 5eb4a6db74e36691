//! [`boots`]: which runs share a boot.
//!
//! A guest has its devices and its modules from its boot on. Runs for which these are the same are made by one guest, one after the
//! other, however they are mixed with others; a boot takes as long as many a run.

use surety_model::workload::Workload;
use surety_model::world::{Cancel, RunOptions};

use crate::devices::{Device, devices_of};
use crate::error::LabError;
use crate::job::{Job, Run, modules_for};
use crate::vm::LabOptions;
use crate::vm::outside;

/// What is recorded of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Whether the scheduler's events come back.
    pub trace: bool,
    /// Whether nothing of what the scheduler does is recorded.
    pub untraced: bool,
}

/// One boot with the runs that are made in it.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The numbers of its runs, in their order.
    pub numbers: Vec<usize>,
    /// What the guest is told.
    pub job: Job,
    /// Ends it early.
    pub cancel: Cancel,
    modules: Vec<String>,
}

/// The boots that runs need, in the order of their first runs, and the numbers of those runs whose devices cannot be, each with
/// [`LabError::Options`].
pub fn boots(
    runs: &[(usize, &Workload, &RunOptions)],
    guest: &LabOptions,
    recorded: Recorded,
) -> (Vec<Boot>, Vec<(usize, LabError)>) {
    let (mut boots, mut refused) = (Vec::<Boot>::new(), Vec::new());
    for (number, workload, options) in runs {
        let needed = match devices_of(workload, &guest.devices) {
            Ok(devices) => devices,
            Err(error) => {
                refused.push((*number, error));
                continue;
            }
        };
        let modules = modules_for(workload, &options.files);
        let run = Run { untraced: recorded.untraced, ..Run::of(workload, options, recorded.trace) };
        let shared = boots.iter_mut().find(|boot| boot.is_for(&needed, &modules, &options.cancel));
        if let Some(Boot { numbers, job: Job::Workload { runs, .. }, .. }) = shared {
            numbers.push(*number);
            runs.push(run);
            continue;
        }
        let outside = outside(&needed, guest).map(|cpu| cpu.0);
        boots.push(Boot {
            numbers: vec![*number],
            job: Job::Workload {
                runs: vec![run],
                devices: needed,
                outside,
                partitioned: guest.partitioned,
                machine: guest.machine.clone(),
            },
            cancel: options.cancel.clone(),
            modules,
        });
    }
    (boots, refused)
}

impl Boot {
    /// Whether a run with these devices and modules can be made in it, and is ended by the same flag.
    fn is_for(&self, devices: &[Device], modules: &[String], cancel: &Cancel) -> bool {
        self.job.devices() == devices
            && self.modules == modules
            && std::sync::Arc::ptr_eq(self.cancel.flag(), cancel.flag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::workload::{Arrivals, Irq, Load, LoadKind};
    use surety_units::Nanos;

    const RECORDED: Recorded = Recorded { trace: false, untraced: true };

    fn with(arrivals: Arrivals) -> Workload {
        let irq = Irq::new("device", arrivals, TimeDistribution::Constant(Nanos::MICROSECOND));
        Workload { irqs: vec![irq], ..Workload::default() }
    }

    fn disk() -> Workload {
        with(Arrivals::Closed { outstanding: 1, service: Nanos::MICROSECOND })
    }

    fn card(period: Nanos) -> Workload {
        with(Arrivals::Periodic { period })
    }

    fn numbers(runs: &[(Workload, RunOptions)], guest: &LabOptions) -> Vec<Vec<usize>> {
        let numbered: Vec<_> = runs.iter().enumerate().map(|(number, (w, o))| (number, w, o)).collect();
        let (boots, refused) = boots(&numbered, guest, RECORDED);
        assert!(refused.is_empty(), "{refused:?}");
        boots.into_iter().map(|boot| boot.numbers).collect()
    }

    #[test]
    fn runs_with_the_same_devices_share_a_boot_whatever_else_they_are() {
        let options = RunOptions::default();
        let other = RunOptions { seed: 9, duration: Nanos::SECOND, warm_up: Nanos::ZERO, ..options.clone() };
        let ms = Nanos::from_millis;
        let runs = [
            (disk(), options.clone()),
            (card(ms(1)), options.clone()),
            (disk(), other.clone()),
            // The emulator's own packets come at another distance: that is told to it when it starts.
            (card(ms(2)), options.clone()),
            (card(ms(1)), other.clone()),
            (Workload::default(), other),
        ];
        let guest = LabOptions::default();
        assert_eq!(numbers(&runs, &guest), [vec![0, 2], vec![1, 4], vec![3], vec![5]]);
        let numbered: Vec<_> = runs.iter().enumerate().map(|(number, (w, o))| (number, w, o)).collect();
        let (boots, _) = boots(&numbered, &guest, RECORDED);
        let Job::Workload { runs, devices, .. } = &boots[0].job else { panic!("{:?}", boots[0].job) };
        assert_eq!((runs.len(), devices.len(), runs[1].seed), (2, 1, 9));
        assert_eq!(runs[1].span(), Nanos::SECOND);
        assert!(runs.iter().all(|run| run.untraced && !run.trace));
    }

    #[test]
    fn a_network_for_loads_and_another_way_to_end_it_are_boots_of_their_own() {
        let options = RunOptions::default();
        let flood = Workload { loads: vec![Load::new("flood", LoadKind::PingFlood, 1)], ..disk() };
        let ended_otherwise = RunOptions { cancel: Cancel::default(), ..options.clone() };
        let runs = [(disk(), options.clone()), (flood, options), (disk(), ended_otherwise)];
        assert_eq!(numbers(&runs, &LabOptions::default()), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn a_run_whose_device_cannot_be_is_refused_alone() {
        let options = RunOptions::default();
        let devices = vec![Device::of_words("device=sd-card").unwrap()];
        let guest = LabOptions { devices, ..LabOptions::default() };
        let (card, disk) = (card(Nanos::SECOND), disk());
        let runs = [(0, &disk, &options), (1, &card, &options), (2, &disk, &options)];
        let (boots, refused) = boots(&runs, &guest, RECORDED);
        assert_eq!(boots.len(), 1);
        assert_eq!(boots[0].numbers, [0, 2]);
        assert!(matches!(&refused[..], [(1, LabError::Options { .. })]), "{refused:?}");
    }
}
