//! [`Leads`]: how long it takes to answer a request, so that an answer is complete at the model's instant and does not begin there.
//!
//! An answer to a read of 1 MiB is copied in 0.2 to 0.4 ms. What the quickest but one of the last few of a size took is what it takes without anybody in the way.
//! So it is with the end of a sleep. An answer to a write is a few bytes, but the kernel ends the write before it returns: that of the page cache page by page,
//! 30 MiB of them at a time. A real disk has it do that behind the interrupt, so the quickest of all is what such an answer takes.

use surety_device::Op;
use surety_units::Nanos;

/// Sizes are told apart by this.
const STEP: u64 = 4096;
/// How many of a kind are remembered.
const REMEMBERED: usize = 8;

/// What answers took, to reads by their size lately, and to all others at least, and by how much sleeps ended late.
#[derive(Debug)]
pub struct Leads {
    reads: Vec<Recent>,
    others: Option<Nanos>,
    wakes: Recent,
}

/// The last few times of a kind, in ns.
#[derive(Clone, Debug)]
struct Recent {
    ns: [u32; REMEMBERED],
    next: usize,
}

/// The mark of a place whose time is not measured yet.
const UNKNOWN: u32 = u32::MAX;

impl Recent {
    const NONE: Recent = Recent { ns: [UNKNOWN; REMEMBERED], next: 0 };

    fn learn(&mut self, took: Nanos) {
        self.ns[self.next] = took.get().clamp(0, i64::from(UNKNOWN) - 1) as u32;
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// The least but one, which an odd one out does not move; the least as long as not all are known.
    fn lead(&self) -> Option<Nanos> {
        let (mut least, mut second) = (UNKNOWN, UNKNOWN);
        for ns in self.ns {
            second = second.min(ns.max(least));
            least = least.min(ns);
        }
        let lead = if self.ns.contains(&UNKNOWN) { least } else { second };
        (lead != UNKNOWN).then(|| Nanos::new(lead.into()))
    }
}

impl Leads {
    /// Of a disk that answers at most this many bytes at a time.
    pub fn new(bytes_max: u32) -> Leads {
        let sizes = u64::from(bytes_max).div_ceil(STEP) as usize + 1;
        Leads { reads: vec![Recent::NONE; sizes], others: None, wakes: Recent::NONE }
    }

    /// Remembers what the answer to a request of `bytes` took.
    pub fn learn(&mut self, op: Op, bytes: u64, took: Nanos) {
        match op {
            Op::Read => self.reads[bytes.div_ceil(STEP) as usize].learn(took),
            _ => self.others = Some(self.others.map_or(took, |least| least.min(took))),
        }
    }

    /// A sleep ended this much late.
    pub fn learn_wake(&mut self, late: Nanos) {
        self.wakes.learn(late);
    }

    /// How much earlier a sleep is to end.
    pub fn wake(&self) -> Nanos {
        self.wakes.lead().unwrap_or_default()
    }

    /// What it takes to answer a request, and how much before its instant an answer begins; of a size that is not known, as one of the next smaller size that is.
    pub fn of(&self, op: Op, bytes: u64) -> Nanos {
        let lead = match op {
            Op::Read => self.reads[..=bytes.div_ceil(STEP) as usize].iter().rev().find_map(Recent::lead),
            _ => self.others,
        };
        lead.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_the_least_but_one_of_the_size_or_of_the_next_smaller_one() {
        let (mut leads, us) = (Leads::new(1 << 20), Nanos::from_micros);
        assert_eq!((leads.of(Op::Read, 1 << 20), leads.wake()), (Nanos::ZERO, Nanos::ZERO));
        leads.learn(Op::Read, 4096, us(7));
        for took in [10, 900, 30, 31, 30, 5000, 40, 50] {
            leads.learn(Op::Read, 65536, us(took));
        }
        [9, 5, 13_500, 230].iter().for_each(|took| leads.learn(Op::Write, 1 << 20, us(*took)));
        let of = |leads: &Leads, bytes| leads.of(Op::Read, bytes);
        let all = [512, 8192, 65536, 1 << 20].map(|bytes| of(&leads, bytes));
        assert_eq!(all, [us(7), us(7), us(30), us(30)]);
        assert_eq!(leads.of(Op::Flush, 0), us(5));
        // Another machine: what was is forgotten.
        for _ in 0..7 {
            leads.learn(Op::Read, 65536, us(80));
        }
        assert_eq!(of(&leads, 65536), us(80));
    }
}
