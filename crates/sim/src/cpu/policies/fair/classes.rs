//! The fair classes of EEVDF, as the file of each version makes its own.
//!
//! One whose features nobody changes has a type of its own; 6.6, and those with other features, share one.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::Fair;
use super::eevdf::Eevdf;
use super::version::{Changed, Form, Plain};

/// The fair class of a version as its kernel starts, whatever that of the platform is.
pub(super) fn plain<V: Plain + 'static>(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    let rule = Eevdf::new(&hardware.platform, hardware.cpus.len(), V::default());
    Box::new(Fair::new(hardware, rank, rule))
}

/// That of a version by its form, with the features that the platform has.
pub(super) fn changed(hardware: &mut Hardware, rank: Rank, form: Form) -> Box<dyn CpuPolicy> {
    let version = Changed::of(form, &hardware.platform);
    let rule = Eevdf::new(&hardware.platform, hardware.cpus.len(), version);
    Box::new(Fair::new(hardware, rank, rule))
}

/// That of a version with the features that the platform has: of a type of its own where they are those with which its kernel starts.
pub(super) fn make<V: Plain + 'static>(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    if !hardware.platform.features.is_empty() {
        return changed(hardware, rank, V::FORM);
    }
    debug_assert_eq!(
        V::FORM,
        V::FORM.with_features(&hardware.platform),
        "the table has the features of its form"
    );
    plain::<V>(hardware, rank)
}
