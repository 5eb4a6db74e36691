//! `eevdf-7.2`: EEVDF of 7.1 and later. A timer ends slices, lag is bounded by the longest one, and a CPU that seldom idles looks each time.

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

use super::balance::Search;
use super::classes;
use super::version::{Form, Plain};

#[derive(Default)]
struct V7_2;

impl Plain for V7_2 {
    const FORM: Form = Form {
        gives_eligible_first: true,
        lag_by_longest_slice: true,
        hrtick: true,
        search: Search { by_rate: true, ..Search::USUAL },
        ..Form::USUAL
    };
}

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    classes::make::<V7_2>(hardware, rank)
}
