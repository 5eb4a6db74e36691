//! [`Average`]: the mean of a level that steps, the recent past counting most (PELT, `kernel/sched/pelt.c`).
//!
//! Time is cut into periods of 1024 units of 1024 ns, and a unit that lies `n` periods back counts `y^n`, where `y^32 = 1/2`.
//! All averages share the periods, so that what a thread adds to a CPU's moves with it as a sum.

use surety_units::Nanos;

/// Units in a period, and the average of what never ends.
const PERIOD: u64 = 1024;

/// ns in a unit, as a shift.
const UNIT_SHIFT: u32 = 10;

/// What a sum comes to in the end: 1024 units in each period, for ever (`LOAD_AVG_MAX`).
const SUM_MAX: u64 = 47_742;

/// By how much the inverse of what a sum is divided by is scaled.
const INVERSE_SHIFT: u32 = 32;

/// One through what sums are divided by at the end of a period, rounded up.
const INVERSE_OF_MOST: u64 = (1 << INVERSE_SHIFT) / (SUM_MAX - 1) + 1;

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
const fn decayed(sum: u64, periods: u64) -> u64 {
    if periods > FORGOTTEN {
        return 0;
    }
    let halves = if periods < 32 * 63 { periods / 32 } else { 63 };
    multiplied(sum >> halves, DECAY[(periods % 32) as usize])
}

/// A sum times a part of 2^32.
#[inline]
const fn multiplied(sum: u64, part: u64) -> u64 {
    ((sum as u128 * part as u128) >> 32) as u64
}

/// What a level of 1 adds in the whole periods between two periods, by their distance.
const fn between(periods: u64) -> u64 {
    SUM_MAX - decayed(SUM_MAX, periods) - PERIOD
}

/// The same for less than half a life.
const BETWEEN: [u64; 32] = {
    let (mut table, mut periods) = ([0; 32], 1);
    while periods < 32 {
        table[periods] = between(periods as u64);
        periods += 1;
    }
    table
};

/// The period of an instant, which all averages share.
pub(super) fn period_of(now: Nanos) -> u64 {
    (now.get_unsigned() >> UNIT_SHIFT) / PERIOD
}

/// An instant at which many averages are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    /// Since the start, in units.
    units: u64,
    /// What all sums are divided by then, and one through that, rounded up.
    whole: u64,
    inverse: u64,
}

impl Instant {
    pub(super) fn new(now: Nanos) -> Instant {
        let units = now.get_unsigned() >> UNIT_SHIFT;
        let whole = SUM_MAX - PERIOD + units % PERIOD;
        Instant { units, whole, inverse: (1 << INVERSE_SHIFT) / whole + 1 }
    }

    /// Divides by what all sums are divided by.
    #[inline]
    fn divide(&self, product: u64) -> u64 {
        if product >> INVERSE_SHIFT != 0 {
            return product / self.whole;
        }
        // No more than 1 too great, as the inverse is by less than one.
        let quotient = (product * self.inverse) >> INVERSE_SHIFT;
        quotient - u64::from(quotient * self.whole > product)
    }
}

/// The average of one level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    /// Up to when the sum counts, in units.
    at: u64,
    level: u64,
    sum: u64,
}

impl Average {
    /// From now on the level is this.
    #[inline]
    pub(super) fn step(&mut self, now: Nanos, level: u64) {
        if self.level != level {
            self.advance(now);
            self.level = level;
        }
    }

    /// What it is an average of, at present.
    #[inline]
    pub(super) fn level(&self) -> u64 {
        self.level
    }

    /// The mean, times a scale.
    pub(super) fn get(&self, now: Nanos, scale: u64) -> u64 {
        self.at(Instant::new(now), scale)
    }

    /// The mean at an instant, times a scale.
    #[inline]
    pub(super) fn at(&self, at: Instant, scale: u64) -> u64 {
        let sum = self.sum_at(at.units);
        // Divided in 64 bits wherever they hold the product: 128 take several times as long.
        if let Some(product) = sum.checked_mul(scale) {
            return at.divide(product);
        }
        let scaled = u128::from(sum) * u128::from(scale) / u128::from(at.whole);
        u64::try_from(scaled).expect("no more than the highest level, scaled")
    }

    /// No less than the mean, times a scale, from an instant to the end of its period, while the level stays.
    #[inline]
    pub(super) fn at_most_in_period(&self, at: Instant, scale: u64) -> u64 {
        let sum = self.sum_at(at.units);
        // Between steps the mean goes one way: it is the greatest now or in the end.
        let ends = sum + self.level * (SUM_MAX - 1 - at.whole);
        let bound = |sum: u64, inverse: u64| {
            (sum * scale).checked_mul(inverse).map_or(u64::MAX, |scaled| scaled >> INVERSE_SHIFT)
        };
        bound(sum, at.inverse).max(bound(ends, INVERSE_OF_MOST))
    }

    /// As if the level had always been `level`.
    pub(super) fn always(&mut self, now: Nanos, level: u64) {
        self.replace(now, |_, whole| level * whole);
    }

    /// What it is the sum of until now.
    pub(super) fn sum(&self, now: Nanos) -> u64 {
        self.sum_at(now.get_unsigned() >> UNIT_SHIFT)
    }

    /// The same, in units, of an instant that is not before the last step.
    #[inline]
    fn sum_at(&self, units: u64) -> u64 {
        debug_assert!(units >= self.at, "time goes on: {units}, {}", self.at);
        let periods = units / PERIOD - self.at / PERIOD;
        if periods == 0 { self.sum + self.level * (units - self.at) } else { self.sum_later(units, periods) }
    }

    /// The same, periods later. One copy of it, as the many places that advance averages would not fit into the processor's cache of
    /// instructions together.
    #[inline(never)]
    fn sum_later(&self, units: u64, periods: u64) -> u64 {
        let part = PERIOD - self.at % PERIOD;
        let (old, part, between) = match DECAY.get(periods as usize).zip(BETWEEN.get(periods as usize)) {
            Some((decay, between)) => (multiplied(self.sum, *decay), multiplied(part, *decay), *between),
            None => (decayed(self.sum, periods), decayed(part, periods), between(periods)),
        };
        old + self.level * (part + between + units % PERIOD)
    }

    /// As if it had come to another sum until now: told by the present one, and by that of a level of 1 that has always been.
    pub(super) fn replace(&mut self, now: Nanos, sum: impl FnOnce(u64, u64) -> u64) {
        self.advance(now);
        self.sum = sum(self.sum, SUM_MAX - PERIOD + self.at % PERIOD);
    }

    /// What `times` of another level have added to this one until now goes to a third.
    pub(super) fn hand_over(&mut self, to: &mut Average, part: &mut Average, times: u64, now: Nanos) {
        for average in [&mut *self, &mut *to, &mut *part] {
            average.advance(now);
        }
        let sum = part.sum * times;
        self.sum = self.sum.saturating_sub(sum);
        to.sum += sum;
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        let to = now.get_unsigned() >> UNIT_SHIFT;
        if to > self.at {
            (self.sum, self.at) = (self.sum_at(to), to);
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
        average.step(Nanos::ZERO, 1);
        assert!((511..=513).contains(&average.get(period * 32, 1024)));
        assert!((1020..=1024).contains(&average.get(period * 400, 1024)));
        average.step(period * 400, 0);
        assert!((510..=513).contains(&average.get(period * 432, 1024)));
        assert_eq!(average.get(period * 3000, 1024), 0);
    }

    #[test]
    fn a_part_moves_with_what_made_it() {
        let now = Nanos::from_millis(77);
        let (mut here, mut there, mut part) = (Average::default(), Average::default(), Average::default());
        here.step(Nanos::ZERO, 5);
        part.step(Nanos::from_millis(3), 1);
        here.step(Nanos::from_millis(3), 5 + 7);
        here.hand_over(&mut there, &mut part, 7, now);
        assert_eq!(there.get(now, 1), part.get(now, 7));
        let mut alone = Average::default();
        alone.step(Nanos::ZERO, 5);
        assert!(here.get(now, 1024).abs_diff(alone.get(now, 1024)) <= 8);
    }

    /// A few percent above at the instant of a step; never is it below until the period is over.
    #[test]
    fn no_mean_is_above_its_bound() {
        let (mut average, mut now, mut state) = (Average::default(), Nanos::ZERO, 3_u64);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let drawn = state >> 33;
            now += Nanos::new((drawn % 1_000_000) as i64 * if drawn % 16 == 0 { 300 } else { 1 });
            average.step(now, (average.level + 1 + (drawn >> 20) % 3) % 4);
            let (mean, bound) = (average.get(now, 1024), average.at_most_in_period(Instant::new(now), 1024));
            assert!(mean <= bound && bound <= mean + 4096 / 40, "{mean} {bound}");
            let mut later = now;
            while period_of(later) == period_of(now) {
                let mean = average.get(later, 1024);
                assert!(mean <= bound, "{mean} {bound}");
                later += Nanos::new(1 + (drawn % 300_000) as i64);
            }
        }
    }

    #[test]
    fn a_mean_is_divided_as_integers_are() {
        let mut state = 9_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = Instant::new(Nanos::new((state >> 24) as i64));
            let (any, times) = (state >> (state % 60), at.whole * (state >> 45));
            for product in [any, times, times.saturating_sub(1), times + 1, (1 << 32) - 1, 1 << 32] {
                assert_eq!(at.divide(product), product / at.whole, "{product} {at:?}");
            }
        }
    }

    /// In use for every other 10 us: half, wherever it is cut.
    #[test]
    fn where_time_is_cut_changes_little() {
        let mut average = Average::default();
        for turn in 0..100_000 {
            average.step(Nanos::from_micros(10) * turn, u64::from(turn % 2 == 0));
        }
        assert!((505..=519).contains(&average.get(Nanos::from_secs(1), 1024)));
    }
}
