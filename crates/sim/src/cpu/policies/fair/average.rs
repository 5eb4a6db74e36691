//! [`Average`]: how much of a CPU's time goes to something, the recent past counting most (PELT, `kernel/sched/pelt.c`).
//!
//! Time is cut into periods of 1024 units of 1024 ns, and a unit that lies `n` periods back counts `y^n`, where `y^32 = 1/2`.
//! A CPU that was in use all the time has the average 1024.

use surety_units::Nanos;

/// Units in a period, and the average of what never ends.
const PERIOD: u64 = 1024;

/// ns in a unit, as a shift.
const UNIT_SHIFT: u32 = 10;

/// What a sum comes to in the end: 1024 units in each period, for ever (`LOAD_AVG_MAX`).
const SUM_MAX: u64 = 47_742;

/// Periods after which nothing is left of a sum.
const FORGOTTEN: u64 = 2016;

/// `y^n` for less than half a life, of 2^32 - 1.
const DECAY: [u64; 32] = decay_table();

/// `y^n = 2^(-n/32)`: the 32nd root of two by bisection, with 62 fractional bits in 128, then by multiplying.
const fn decay_table() -> [u64; 32] {
    const ONE: u128 = 1 << 62;
    let (mut low, mut high) = (ONE, 2 * ONE);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let (mut power, mut squared) = (middle, 0);
        while squared < 5 && power < 2 * ONE {
            power = (power * power) >> 62;
            squared += 1;
        }
        if power < 2 * ONE { low = middle } else { high = middle }
    }
    let mut table = [0; 32];
    let (mut root, mut place) = (ONE, 0);
    while place < 32 {
        table[place] = ((ONE * ONE / root * 0xffff_ffff) >> 62) as u64;
        root = (root * high) >> 62;
        place += 1;
    }
    table
}

/// A sum, `periods` later.
fn decayed(sum: u64, periods: u64) -> u64 {
    if periods > FORGOTTEN {
        return 0;
    }
    let halved = sum >> (periods / 32).min(63);
    (halved * DECAY[(periods % 32) as usize]) >> 32
}

/// The average of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Average {
    /// Up to when the sum counts.
    at: Nanos,
    /// Whether the CPU has been in use since then.
    in_use: bool,
    sum: u64,
    /// Units of the present period that are over.
    part: u64,
}

impl Average {
    /// From now on the CPU is in use, or not.
    pub(super) fn turn(&mut self, now: Nanos, in_use: bool) {
        if self.in_use != in_use {
            self.advance(now);
            self.in_use = in_use;
        }
    }

    /// 0..=1024.
    pub(super) fn get(&self, now: Nanos) -> u64 {
        let mut average = self.clone();
        average.advance(now);
        (average.sum * PERIOD / (SUM_MAX - PERIOD + average.part)).min(PERIOD)
    }

    fn advance(&mut self, now: Nanos) {
        let units = (now - self.at).get_unsigned() >> UNIT_SHIFT;
        self.at += Nanos::new(i64::try_from(units << UNIT_SHIFT).expect("a part of an i64"));
        let periods = (units + self.part) / PERIOD;
        let mut new = units;
        if periods > 0 {
            self.sum = decayed(self.sum, periods);
            let first = PERIOD - self.part;
            self.part = (units + self.part) % PERIOD;
            let between = SUM_MAX - decayed(SUM_MAX, periods) - PERIOD;
            new = decayed(first, periods) + between + self.part;
        } else {
            self.part += units;
        }
        if self.in_use {
            self.sum += new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own table begins and ends so.
    #[test]
    fn the_table_is_the_kernels() {
        assert_eq!(DECAY[..4], [0xffff_ffff, 0xfa83_b2da, 0xf525_7d14, 0xefe4_b99a]);
        assert_eq!(DECAY[31], 0x82cd_8698);
    }

    #[test]
    fn half_of_it_is_as_old_as_32_periods() {
        let mut average = Average::default();
        let period = Nanos::new(1 << 20);
        average.turn(Nanos::ZERO, true);
        assert!((511..=513).contains(&average.get(period * 32)));
        assert!((1020..=1024).contains(&average.get(period * 400)));
        average.turn(period * 400, false);
        assert!((510..=513).contains(&average.get(period * 432)));
        assert_eq!(average.get(period * 3000), 0);
    }

    /// In use for every other 10 us: half, wherever it is cut.
    #[test]
    fn where_time_is_cut_changes_little() {
        let mut average = Average::default();
        for turn in 0..100_000 {
            average.turn(Nanos::from_micros(10) * turn, turn % 2 == 0);
        }
        assert!((505..=519).contains(&average.get(Nanos::from_secs(1))));
    }
}
