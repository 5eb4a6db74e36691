//! [`objection`]: rates that are promised to loads beside streams. A plan keeps a rate for all best effort of a disk together ([`PlannedDisk::best_effort`]); how that is shared out
//! among loads nothing here bounds, so what one of them gets is measured.

use surety_model::plan::PlannedDisk;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{Load, Workload};
use surety_units::Rate;

use crate::refusal::Refused;

/// Bytes a second that a promise asks for.
pub(crate) fn rate_of(promise: &Promise) -> Option<u64> {
    match (promise.metric, promise.comparison, promise.bound) {
        (Metric::Rate, Comparison::AtLeast, Bound::Rate(rate)) => Some(rate.0),
        _ => None,
    }
}

/// Why a plan with these disks has nothing for a promise of a load; `None`: what it keeps for best effort is no less than all rates promised to loads of that disk.
pub(crate) fn objection(
    workload: &Workload,
    disks: &[PlannedDisk],
    load: &str,
    promise: &Promise,
) -> Option<Refused> {
    if rate_of(promise).is_none() {
        return Some(Refused::plainly("of a load a plan keeps a rate (`rate >= 1MB/s`), and nothing else"));
    }
    let of_load = workload.loads.iter().find(|of| of.name == load).and_then(|of| of.disk.as_ref());
    let Some(disk) = disks.iter().find(|disk| of_load == Some(&disk.disk)) else {
        let because = "a plan keeps a rate for best effort beside streams that it guarantees, and none of its disk is planned; without a plan `surety run` \
                       measures what it gets";
        return Some(Refused::plainly(because));
    };
    let wanted = promised(workload, &disk.disk);
    let kept = disk.best_effort.unwrap_or(Rate(0));
    (kept < wanted).then(|| {
        Refused::infeasible(format!(
            "disk {} keeps {kept} for best effort at worst, and {wanted} are promised to its loads together",
            disk.disk
        ))
    })
}

/// What is promised to all loads of a disk together.
pub(crate) fn promised(workload: &Workload, disk: &str) -> Rate {
    let is_here = |of: &&Load| of.disk.as_deref() == Some(disk);
    let each = workload.loads.iter().filter(is_here).flat_map(|of| &of.promises).filter_map(rate_of);
    Rate(each.fold(0, u64::saturating_add))
}
