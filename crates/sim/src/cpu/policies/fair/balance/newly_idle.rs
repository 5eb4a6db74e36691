//! [`NewlyIdle`]: whether a CPU about to idle looks at the others (`NI_RANDOM` and, in 7.2, `NI_RATE` of `kernel/sched/features.h`).
//!
//! It looks as often as looks have found something lately: each time it throws a die of 1,024 sides, and what is found counts as
//! many times as looks were forgone for it. After each 512 times the rate is that of the last 1,024 or so. In 7.2 it is raised where these took
//! long: 512 times in 4 s or more, and every time is a look.

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::Search;

/// Sides of the die.
const SIDES: u64 = 1024;

/// Times after which the rate is taken anew; half of them count on.
const ROUND: u64 = 1024;

/// ns for each 1,024th of the rate, as a shift.
const RATE_SHIFT: u32 = 22;

/// What a CPU knows of its looks.
#[derive(Clone, Debug)]
pub(super) struct NewlyIdle {
    chance: Pcg,
    /// How many times it was about to idle, and what looks found.
    times: u64,
    found: u64,
    /// How many of 1,024 times it looks.
    rate: u64,
    /// When that was taken.
    taken: Nanos,
    /// For how many times the present look stands.
    weight: u64,
    search: Search,
}

impl NewlyIdle {
    /// As a CPU begins with a domain: half of the looks are thought to find something.
    pub(super) fn new(seed: u64, (cpu, level): (usize, usize), search: Search) -> NewlyIdle {
        let chance = Pcg::for_job(seed, cpu as u64, level as u64);
        NewlyIdle {
            chance,
            times: ROUND / 2,
            found: ROUND / 4,
            rate: SIDES / 2,
            taken: Nanos::ZERO,
            weight: 1,
            search,
        }
    }

    /// Whether it looks this time.
    pub(super) fn looks(&mut self, now: Nanos) -> bool {
        if self.times >= ROUND {
            let slow = if self.search.by_rate { (now - self.taken).get_unsigned() >> RATE_SHIFT } else { 0 };
            self.rate = (slow + self.found).min(SIDES);
            self.taken = now;
            self.times /= 2;
            self.found /= 2;
        }
        self.times += 1;
        if !self.search.by_chance {
            self.weight = 1;
            return true;
        }
        self.weight = 1 + self.rate;
        if self.chance.below(SIDES) > self.weight {
            return false;
        }
        self.weight = (SIDES + self.weight / 2) / self.weight;
        true
    }

    /// The look found something.
    pub(super) fn found(&mut self) {
        self.found += self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of the times in which a CPU looks in the end, where one look in `one_in` finds something.
    fn share(by_rate: bool, gap: Nanos, one_in: u64) -> f64 {
        let mut cpu = NewlyIdle::new(7, (0, 0), Search { by_rate, ..Search::USUAL });
        let mut chance = Pcg::for_job(1, 2, 3);
        let (mut looks, rounds) = (0, 40_000);
        for time in 0..2 * rounds {
            if cpu.looks(gap * time) {
                looks += i32::from(time >= rounds);
                if chance.below(one_in) == 0 {
                    cpu.found();
                }
            }
        }
        f64::from(looks) / rounds as f64
    }

    #[test]
    fn it_looks_as_often_as_it_finds_something() {
        let gap = Nanos::from_micros(100);
        for (one_in, rate) in [(2, 0.5), (4, 0.25), (8, 0.125)] {
            let share = share(false, gap, one_in);
            assert!((share - rate).abs() < 0.1, "one in {one_in}: {share}");
        }
        // From two in three on a look stands for itself alone, and nothing drives the rate.
        assert!(share(false, gap, 1) > 0.66, "always something");
        assert!(share(false, gap, 1 << 40) < 0.02, "never anything");
    }

    #[test]
    fn without_a_die_it_always_looks() {
        let search = Search { by_chance: false, ..Search::USUAL };
        let mut cpu = NewlyIdle::new(7, (0, 0), search);
        assert!((0..5000).all(|time| cpu.looks(Nanos::from_micros(time))));
    }

    #[test]
    fn in_7_2_it_always_looks_where_it_seldom_idles() {
        assert_eq!(share(true, Nanos::from_millis(9), 1 << 40), 1.0);
        let often = share(true, Nanos::from_micros(100), 1 << 40);
        assert!(often < 0.03, "{often}");
    }
}
