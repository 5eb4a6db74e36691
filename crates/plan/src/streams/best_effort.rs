//! [`objection`]: rates that are promised to loads beside streams. A plan keeps a rate for all best effort of a disk together ([`PlannedDisk::best_effort`]); how that is shared out
//! among loads nothing here bounds, so what one of them gets is measured.

use surety_model::plan::PlannedDisk;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{Load, Workload};
use surety_units::Rate;

use crate::refusal::Refused;

/// Bytes a second that a promise asks for.
fn rate_of(promise: &Promise) -> Option<u64> {
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
    let planned = workload
        .loads
        .iter()
        .find(|of| of.name == load)
        .and_then(|of| disks.iter().find(|disk| of.disk.as_ref() == Some(&disk.disk)));
    let (Some(disk), Some(_)) = (planned, rate_of(promise)) else {
        return Some(Refused::plainly("not planned by this version: promises about a load"));
    };
    let is_here = |of: &&Load| of.disk.as_ref() == Some(&disk.disk);
    let each = workload.loads.iter().filter(is_here).flat_map(|of| &of.promises).filter_map(rate_of);
    let wanted = Rate(each.fold(0, u64::saturating_add));
    let kept = disk.best_effort.unwrap_or(Rate(0));
    (kept < wanted).then(|| Refused {
        nearest: vec![format!("best-effort = \"{wanted}\" of disk {}", disk.disk)],
        ..Refused::plainly(format!(
            "disk {} keeps {kept} for best effort at worst, and {wanted} are promised to its loads together",
            disk.disk
        ))
    })
}
