//! Schedulers that have nothing to run on a CPU rest there: they are not asked until they say otherwise.
//!
//! Every choice of a CPU asks its schedulers in turn, and mostly the more important ones have nothing. [`Hardware::rests`] is for those
//! that know when that changes, and whose answer changes nothing else until then.

use crate::cpu::hardware::{Hardware, Rank};

impl Hardware {
    /// A scheduler has nothing to run on a CPU, and need not be asked until it [stirs](Hardware::stirs).
    #[inline]
    pub fn rests(&mut self, cpu: usize, rank: Rank) {
        self.cpus[cpu].resting |= bit_of(rank);
    }

    /// A scheduler may have something to run on a CPU again.
    #[inline]
    pub fn stirs(&mut self, cpu: usize, rank: Rank) {
        self.cpus[cpu].resting &= !bit_of(rank);
    }

    /// Whether a scheduler need not be asked what to run on a CPU.
    #[inline]
    pub(crate) fn is_resting(&self, cpu: usize, rank: Rank) -> bool {
        self.cpus[cpu].resting & bit_of(rank) != 0
    }
}

/// The bit of a scheduler; those behind the first 16 have none and never rest.
#[inline]
fn bit_of(rank: Rank) -> u16 {
    if rank.0 < 16 { 1 << rank.0 } else { 0 }
}
