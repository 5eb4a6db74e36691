//! [`Space`]: how much of the cells is free, and what it costs to free more.
//!
//! Which page is where is not kept: a drive has millions. What cleaning costs follows from how full the drive is, and from what
//! share of the bytes written of late was random.
//!
//! Random writes: a block that is cleaned when all others have been written since still holds the share v of valid pages with
//! `(v - 1) / ln v = u`, where u is the share of the cells in use, if writes are spread evenly (LRU cleaning in P. Desnoyers,
//! "Analytic modeling of SSD write performance", SYSTOR 2012, without the W function). Each page written costs `v / (1 - v)` copies.
//!
//! Sequential writes (`flash::runs`) leave whole blocks behind, of which nothing is copied. The two are in blocks of their own, as each
//! run has open blocks of its own. So of pages of which the share r is random each costs `r * v / (1 - v)` copies: what its random
//! ones alone would, whatever is written beside them.
//!
//! The share r is of the bytes that filled the blocks last cleaned, which are as many as a drive keeps free: the `memory`. At first it
//! is of all bytes written so far: a drive begins in the steady state of the load that it gets. So are figures of data sheets measured
//! (SNIA, "Solid State Storage Performance Test Specification": each test writes its own load until the drive is steady). What another
//! load left in the cells is not modelled: a drive gives what the new load would in the long run once that has written the memory.

use surety_stats::random::Pcg;

use super::runs::Runs;

/// The use of the cells.
#[derive(Clone, Debug)]
pub struct Space {
    /// Logical sectors of the drive.
    sectors: f64,
    /// Sectors in use.
    used: f64,
    /// Cells beyond the logical sectors, as a share of them.
    spare: f64,
    runs: Runs,
    /// Sectors written over which the share of random ones is averaged: what came before them counts 37 % after as many.
    memory: f64,
    /// Sectors written of which it is known whether they were random, up to the memory.
    judged: f64,
    /// The share of random ones of them.
    random: f64,
}

impl Space {
    /// A drive with `filled` of its sectors in use, that follows `streams` sequential runs; `memory`: sectors over which the share of
    /// random writes is averaged.
    pub fn new(sectors: u64, (spare, filled): (f64, f64), streams: u32, memory: u64) -> Space {
        let sectors = sectors as f64;
        Space {
            sectors,
            used: sectors * filled,
            spare,
            runs: Runs::new(streams),
            memory: memory as f64,
            judged: 0.0,
            random: 0.0,
        }
    }

    /// Sectors that could be written before anything must be cleaned, had the drive just been cleaned.
    pub fn unused(&self) -> f64 {
        self.sectors * (1.0 + self.spare) - self.used
    }

    /// Notes a write. Of a part in use already, nothing more is in use.
    pub fn write(&mut self, sector: u64, sectors: u32) {
        self.used += f64::from(sectors) * (1.0 - self.used / self.sectors);
        let judged = self.runs.write(sector, sectors);
        self.average(judged.random, 1.0);
        self.average(judged.sequential, 0.0);
    }

    /// Adds sectors to the share of random ones.
    fn average(&mut self, sectors: u32, is_random: f64) {
        if sectors > 0 {
            self.judged = (self.judged + f64::from(sectors)).min(self.memory);
            self.random += (is_random - self.random) * (f64::from(sectors) / self.judged).min(1.0);
        }
    }

    /// Notes a discard.
    pub fn discard(&mut self, sectors: u32) {
        self.used = (self.used - f64::from(sectors) * self.used / self.sectors).max(0.0);
    }

    /// Share of valid pages in a block that is cleaned, with a tenth of it by chance.
    pub fn valid_share(&self, chance: &mut Pcg) -> f64 {
        let full = valid_share((self.used / (self.sectors * (1.0 + self.spare))).clamp(0.0, 0.999));
        // The v' of `v' / (1 - v') = r * v / (1 - v)`; v where all is random.
        let mixed = self.random * full / (1.0 - full + self.random * full);
        (mixed * (0.9 + 0.2 * chance.unit_open())).clamp(0.0, 0.95)
    }
}

/// The v of `(v - 1) / ln v = u`.
fn valid_share(used: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        // Rises with v, from 0 to 1.
        if (middle - 1.0) / libm::log(middle) < used {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed points, reckoned by hand: u = (v - 1) / ln v.
    #[test]
    fn the_share_of_valid_pages_solves_its_equation() {
        for v in [0.01, 0.2, 0.5, 0.8, 0.95] {
            let u = (v - 1.0) / libm::log(v);
            assert!((valid_share(u) - v).abs() < 1e-9, "{v}");
        }
        // At half full an even spread leaves a fifth valid: (0.2032 - 1) / ln 0.2032 = 0.5.
        assert!((valid_share(0.5) - 0.2032).abs() < 1e-4);
    }

    /// Full but for a spare share of 0.07, with a memory of 10,000 sectors.
    fn full() -> Space {
        Space::new(1_000_000, (0.07, 1.0), 4, 10_000)
    }

    /// Copies for each page written, without chance.
    fn copies(space: &Space) -> f64 {
        let mut chance = Pcg::new(1, 1);
        let shares = (0..10_000).map(|_| space.valid_share(&mut chance));
        let share = shares.sum::<f64>() / 10_000.0;
        share / (1.0 - share)
    }

    fn scattered(space: &mut Space, count: u64) {
        (0..count).for_each(|i| space.write(i * 7919 % 100_000 * 10, 8));
    }

    #[test]
    fn sequential_writes_leave_nothing_to_copy_and_discards_make_room() {
        let mut space = full();
        (0..20).for_each(|i| space.write(i * 8, 8));
        assert!(copies(&space) < 1e-9);
        let unused = space.unused();
        space.discard(100_000);
        assert!(space.unused() > unused + 80_000.0);
    }

    /// Half the bytes random, a quarter, a tenth: half of the copies for each page, a quarter, a tenth.
    #[test]
    fn random_bytes_cost_what_they_cost_alone() {
        let mut alone = full();
        scattered(&mut alone, 1000);
        for beside in [1, 3, 9] {
            let mut space = full();
            for i in 0..2000 {
                space.write(i * 7919 % 100_000 * 10, 8);
                space.write(500_003 + i * 8 * beside, 8 * beside as u32);
            }
            let share = copies(&space) / copies(&alone);
            assert!((share * (1.0 + beside as f64) - 1.0).abs() < 0.05, "beside {beside}: {share}");
        }
    }

    /// The share is of bytes: of two loads that write as many, the size of the requests does not matter.
    #[test]
    fn what_was_random_is_forgotten_by_bytes() {
        for sectors in [8, 64, 512] {
            let mut space = full();
            scattered(&mut space, 5000);
            let before = copies(&space);
            (0..40_000 / u64::from(sectors))
                .for_each(|i| space.write(500_003 + i * u64::from(sectors), sectors));
            // Four times the memory: e^-4 is left.
            assert!(copies(&space) < 0.025 * before, "{sectors}: {} of {before}", copies(&space));
        }
    }
}
