//! `eevdf-6.12`: EEVDF of 6.12 to 6.16. Who was picked is protected for a whole slice, and sleepers that are left in their queue count as queued.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::balance::Search;
use super::classes;
use super::version::{Form, Plain};

#[derive(Default)]
struct V6_12;

impl Plain for V6_12 {
    const FORM: Form = Form {
        protects_whole_slice: true,
        search: Search { sees_left: true, ..Search::USUAL },
        ..Form::USUAL
    };
}

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    classes::make::<V6_12>(hardware, rank)
}
