//! [`Bandwidths`]: who uses how much of each CPU, for GRUB (Greedy Reclamation of Unused Bandwidth).
//!
//! After `grub_reclaim` in `kernel/sched/deadline.c`, with the kernel's fixed point: a bandwidth has 20 fractional
//! bits, the ratio that stretches it to the whole CPU has 8. The roughness of the latter is visible in shares
//! (269/256 instead of 1/0.95), so it is kept.

use surety_model::platform::Reclaiming;
use surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT;
use surety_units::{Bandwidth, Nanos};

/// Fractional bits of a bandwidth.
const SHIFT: u32 = KERNEL_BANDWIDTH_SHIFT;
/// Fractional bits of the stretching ratio.
const RATIO_SHIFT: u32 = 8;

/// The bandwidths of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Bandwidths {
    /// Of all reservations on each CPU.
    all: Vec<u64>,
    /// Of those that run, wait to run, or slept too little for their bandwidth to be free.
    active: Vec<u64>,
    /// What no reservation of the machine has booked, for each CPU.
    extra: u64,
    max: u64,
    ratio: u64,
    rule: Reclaiming,
}

impl Bandwidths {
    pub(super) fn new(cpus: usize, cap: Bandwidth, rule: Reclaiming) -> Bandwidths {
        let (part, whole) = cap.ratio();
        let stretch = Bandwidth::new(whole, part).unwrap_or(Bandwidth::ONE);
        let (max, ratio) = (cap.to_kernel(), stretch.to_kernel() >> (SHIFT - RATIO_SHIFT));
        Bandwidths { all: vec![0; cpus], active: vec![0; cpus], extra: max, max, ratio, rule }
    }

    /// Books a new reservation.
    pub(super) fn book(&mut self, cpu: usize, bandwidth: u64) {
        self.all[cpu] += bandwidth;
        self.extra = self.extra.saturating_sub(bandwidth / self.all.len() as u64);
    }

    pub(super) fn activate(&mut self, cpu: usize, bandwidth: u64) {
        self.active[cpu] += bandwidth;
    }

    pub(super) fn deactivate(&mut self, cpu: usize, bandwidth: u64) {
        self.active[cpu] -= bandwidth;
    }

    /// A reservation goes to another CPU.
    pub(super) fn migrate(&mut self, from: usize, to: usize, bandwidth: u64, active: bool) {
        self.all[from] -= bandwidth;
        self.all[to] += bandwidth;
        if active {
            self.active[from] -= bandwidth;
            self.active[to] += bandwidth;
        }
    }

    /// How fast a reclaiming reservation's budget runs down, with 20 fractional bits: see [`Reclaiming`].
    pub(super) fn rate(&self, cpu: usize, bandwidth: u64) -> u64 {
        let unused = self.all[cpu] - self.active[cpu] + self.extra;
        let stretched = |part: u64| (part * self.ratio) >> RATIO_SHIFT;
        match self.rule {
            Reclaiming::ToCap => stretched(bandwidth.max(self.max.saturating_sub(unused))),
            Reclaiming::BelowCap => stretched(bandwidth).max((1 << SHIFT) - unused.min(1 << SHIFT)),
        }
    }

    /// Budget used by running for `ran` at a rate.
    pub(super) fn used(ran: Nanos, rate: u64) -> Nanos {
        ran.mul_ratio(rate, 1 << SHIFT)
    }

    /// How long a budget lasts at a rate, rounded up.
    pub(super) fn lasts(budget: Nanos, rate: u64) -> Nanos {
        budget.mul_ratio(1 << SHIFT, rate.max(1)) + Nanos::new(1)
    }
}
