//! [`Space`]: how much of the cells is free, and what it costs to free more.
//!
//! Which page is where is not kept: a drive has millions. What cleaning costs follows from how full the drive is. A block that
//! is cleaned when all others have been written since still holds the share v of valid pages with `(v - 1) / ln v = u`, where u
//! is the share of the cells in use, if writes are spread evenly (LRU cleaning in P. Desnoyers, "Analytic modeling of SSD write
//! performance", SYSTOR 2012, without the W function). Sequential writes leave whole blocks behind; of them
//! nothing is copied, so v is scaled by the share of recent writes that were not sequential.

use surety_stats::random::Pcg;

/// Of so many writes the share of random ones is the average, roughly.
const MEMORY: f64 = 1024.0;

/// The use of the cells.
#[derive(Clone, Debug)]
pub struct Space {
    /// Logical sectors of the drive.
    sectors: f64,
    /// Sectors in use.
    used: f64,
    /// Cells beyond the logical sectors, as a share of them.
    spare: f64,
    /// Share of recent writes that did not continue the one before.
    random: f64,
    last_end: u64,
}

impl Space {
    /// Of a drive of which a share is in use.
    pub fn new(sectors: u64, spare: f64, filled: f64) -> Space {
        let sectors = sectors as f64;
        Space { sectors, used: sectors * filled, spare, random: 1.0, last_end: u64::MAX }
    }

    /// Sectors that could be written before anything must be cleaned, had the drive just been cleaned.
    pub fn unused(&self) -> f64 {
        self.sectors * (1.0 + self.spare) - self.used
    }

    /// Notes a write. Of a part in use already, nothing more is in use.
    pub fn write(&mut self, sector: u64, sectors: u32) {
        self.used += f64::from(sectors) * (1.0 - self.used / self.sectors);
        let is_random = if sector == self.last_end { 0.0 } else { 1.0 };
        self.random += (is_random - self.random) / MEMORY;
        self.last_end = sector + u64::from(sectors);
    }

    /// Notes a discard.
    pub fn discard(&mut self, sectors: u32) {
        self.used = (self.used - f64::from(sectors) * self.used / self.sectors).max(0.0);
    }

    /// Share of valid pages in a block that is cleaned, with a tenth of it by chance.
    pub fn valid_share(&self, chance: &mut Pcg) -> f64 {
        let full = valid_share((self.used / (self.sectors * (1.0 + self.spare))).clamp(0.0, 0.999));
        (full * self.random * (0.9 + 0.2 * chance.unit_open())).clamp(0.0, 0.95)
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

    #[test]
    fn sequential_writes_leave_nothing_to_copy_and_discards_make_room() {
        let mut chance = Pcg::new(1, 1);
        let mut space = Space::new(1_000_000, 0.07, 0.9);
        let before = space.valid_share(&mut chance);
        (0..20_000).for_each(|i| space.write(i * 8, 8));
        assert!(space.valid_share(&mut chance) < before / 100.0);
        let unused = space.unused();
        space.discard(100_000);
        assert!(space.unused() > unused + 80_000.0);
    }
}
