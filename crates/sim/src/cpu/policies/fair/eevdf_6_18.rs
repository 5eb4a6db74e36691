//! `fair`: EEVDF of 6.17 to 7.0. Balancing leaves those alone at first that are not eligible.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::classes;
use super::version::{Form, Plain};

#[derive(Default)]
struct V6_18;

impl Plain for V6_18 {
    const FORM: Form = Form { gives_eligible_first: true, ..Form::USUAL };
}

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    classes::make::<V6_18>(hardware, rank)
}

/// That of 6.18 as that kernel starts, whatever the fair class of the platform is.
pub(in crate::cpu::policies) fn plain(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    classes::plain::<V6_18>(hardware, rank)
}
