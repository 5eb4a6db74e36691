//! `eevdf-6.6`: EEVDF of 6.6 to 6.11, as it came in, without slices that threads ask for and sleepers that stay in the queue. A nominated entity is
//! picked only where `NEXT_BUDDY` nominates.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::classes;
use super::version::Form;

/// With the features that the platform has.
pub(super) const FORM: Form = Form {
    protects_whole_slice: true,
    own_slices: false,
    keeps_lag_in_time: false,
    idle_gives_way: true,
    ..Form::USUAL
};

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    classes::changed(hardware, rank, FORM)
}
