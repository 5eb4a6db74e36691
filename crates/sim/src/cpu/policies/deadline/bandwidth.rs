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
    /// What no reservation of the machine has booked, for each CPU; it wraps where more is booked than there is.
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
        self.take(bandwidth);
    }

    /// What all reservations and servers of a CPU have booked.
    pub(super) fn booked(&self, cpu: usize) -> u64 {
        self.all[cpu]
    }

    /// A reservation is no more.
    pub(super) fn give_back(&mut self, cpu: usize, bandwidth: u64) {
        self.all[cpu] -= bandwidth;
        self.extra = self.extra.wrapping_add(bandwidth / self.all.len() as u64);
    }

    /// Books a fair server: with some kernels more than once.
    pub(super) fn book_server(&mut self, cpu: usize, bandwidth: u64) {
        self.book(cpu, bandwidth);
        if self.rule == Reclaiming::ToCapServersTwice {
            self.take(bandwidth);
        }
    }

    /// Books servers, one for each CPU, that have nobody to serve: they never start.
    pub(super) fn book_idle_servers(&mut self, bandwidth: Option<Bandwidth>) {
        if let Some(bandwidth) = bandwidth.map(Bandwidth::to_kernel) {
            (0..self.all.len()).for_each(|cpu| self.book_server(cpu, bandwidth));
        }
    }

    fn take(&mut self, bandwidth: u64) {
        self.extra = self.extra.wrapping_sub(bandwidth / self.all.len() as u64);
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
        // All of it is without a sign, in the kernel as well: too little left over looks like more than there is.
        let unused = (self.all[cpu] - self.active[cpu]).wrapping_add(self.extra);
        let used = |whole: u64, own: u64| if unused > whole.wrapping_sub(own) { own } else { whole - unused };
        let stretched = |part: u64| (part * self.ratio) >> RATIO_SHIFT;
        match self.rule {
            Reclaiming::ToCap | Reclaiming::ToCapServersTwice => stretched(used(self.max, bandwidth)),
            Reclaiming::BelowCap => used(1 << SHIFT, stretched(bandwidth)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A reservation of `own` percent beside others of `others` in use and `asleep` not, all of them reclaiming: the rate in
    /// thousandths.
    fn rate(rule: Reclaiming, [own, others, asleep]: [u64; 3]) -> u64 {
        let part = |percent| (percent << SHIFT) / 100;
        let mut bandwidths = Bandwidths::new(1, Bandwidth::new(95, 100).unwrap(), rule);
        bandwidths.book_server(0, part(5));
        for booked in [own, others, asleep] {
            bandwidths.book(0, part(booked));
        }
        [5, own, others].into_iter().for_each(|active| bandwidths.activate(0, part(active)));
        (bandwidths.rate(0, part(own)) * 1000) >> SHIFT
    }

    #[test]
    fn what_is_taken_twice_wraps() {
        use Reclaiming::{BelowCap, ToCap, ToCapServersTwice};
        // 1.05 = 269/256 for 1/0.95: 0.25, 0.3 and 0.25 + 0.05 in all are in use.
        assert_eq!(rate(ToCap, [20, 0, 0]), 262);
        assert_eq!(rate(ToCapServersTwice, [20, 0, 0]), 315);
        assert_eq!(rate(BelowCap, [20, 0, 0]), 299);
        // 0.95 - 0.10 - 0.90 is below nothing: as if more than all were left over, so a fifth runs down as a fifth.
        assert_eq!(rate(ToCapServersTwice, [20, 70, 0]), 210);
        assert_eq!(rate(ToCap, [20, 70, 0]), 998);
        // A tenth asleep brings it above nothing again.
        assert_eq!(rate(ToCapServersTwice, [20, 60, 10]), 945);
    }
}
