//! The fair classes by version, as the table of schedulers makes them.
//!
//! A version whose features nobody changes has a type of its own; 6.6, and those with other features, share one.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::Fair;
use super::cfs::Cfs;
use super::eevdf::Eevdf;
use super::version::{Changed, V6_12, V6_18, V7_2, Version};

/// The fair class of 6.1: CFS.
pub fn cfs(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Fair::<Cfs>::new(hardware, rank))
}

/// The fair class of 6.6.
pub fn eevdf_6_6(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Fair::<Eevdf<Changed>>::new(hardware, rank))
}

/// The fair class of 6.12.
pub fn eevdf_6_12(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    with_features::<V6_12>(hardware, rank)
}

/// The fair class of 6.18.
pub fn eevdf_6_18(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    with_features::<V6_18>(hardware, rank)
}

/// The fair class of 7.2.
pub fn eevdf_7_2(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    with_features::<V7_2>(hardware, rank)
}

/// That of 6.18 as that kernel starts, whatever the fair class of the platform is.
pub(in crate::cpu::policies) fn plain_6_18(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Fair::<Eevdf<V6_18>>::new(hardware, rank))
}

/// A version, with the features that the platform changes.
fn with_features<V: Version + 'static>(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    if hardware.platform.features.is_empty() {
        return Box::new(Fair::<Eevdf<V>>::new(hardware, rank));
    }
    Box::new(Fair::<Eevdf<Changed>>::new(hardware, rank))
}
