//! [`Power`]: what a hard disk takes while it works, waits and sleeps, and what resting it saves.
//!
//! The sum is that of a policy that knows each rest's length when it begins, so no real one takes less: the disk sleeps through a rest
//! where that saves energy, and is awake when the rest ends.

use surety_model::playout::Rest;
use surety_units::Nanos;

/// Power and energy of one disk, in milliwatts and millijoules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power {
    /// Which disk.
    pub name: &'static str,
    /// Where the numbers are from.
    pub source: &'static str,
    /// While it works.
    pub active: u64,
    /// While it waits, spinning.
    pub idle: u64,
    /// While it sleeps.
    pub standby: u64,
    /// How long it takes to stop, and the energy for that.
    pub stop: (Nanos, u64),
    /// How long it takes until it works again, and the energy for that.
    pub start: (Nanos, u64),
}

/// A server disk of 2001 of 15,000 turns a minute, the one that studies of disks' energy use.
pub const ULTRASTAR_36Z15: Power = Power {
    name: "Ultrastar 36Z15",
    source: "IBM's specification, as in Carrera, Pinheiro and Bianchini, Conserving Disk Energy in Network Servers, ICS 2003",
    active: 13_500,
    idle: 10_200,
    standby: 2_500,
    stop: (Nanos::from_millis(1_500), 13_000),
    start: (Nanos::from_millis(10_900), 135_000),
};

/// The energy of a time, in millijoules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// Where it never sleeps.
    pub awake: u64,
    /// Where it sleeps through the rests in which that takes less.
    pub with_sleep: u64,
    /// How many those were.
    pub sleeps: u64,
}

/// Millijoules of milliwatts for a time, rounded down.
fn over(milliwatts: u64, time: Nanos) -> u64 {
    let energy = u128::from(milliwatts) * u128::from(time.max(Nanos::ZERO).get_unsigned()) / 1_000_000_000;
    u64::try_from(energy).unwrap_or(u64::MAX)
}

impl Power {
    /// The energy of one rest with sleep; `None`: it is too short to stop and start in.
    fn asleep(&self, rest: Nanos) -> Option<u64> {
        let still = rest - self.stop.0 - self.start.0;
        (still >= Nanos::ZERO).then(|| self.stop.1 + self.start.1 + over(self.standby, still))
    }

    /// The shortest rest through which it takes less energy asleep, to a millisecond.
    pub fn break_even(&self) -> Nanos {
        let saves = |rest: Nanos| self.asleep(rest).is_some_and(|asleep| asleep < over(self.idle, rest));
        let (mut bad, mut good) = (0_i64, 3_600_000_i64);
        while good - bad > 1 {
            let middle = (good + bad) / 2;
            if saves(Nanos::from_millis(middle)) { good = middle } else { bad = middle }
        }
        Nanos::from_millis(good)
    }

    /// In words: how streams left a disk alone, and what this one would take meanwhile.
    pub fn rested(&self, rest: &Rest) -> String {
        let energy = self.energy(rest.span, &rest.each);
        let power = |millijoules: u64| millijoules as f64 / 1e3 / rest.span.as_secs_f64().max(1e-9);
        format!(
            "left its disk alone {} times, for {} of {}, at most {}; that would take an {} {:.1} W, and {:.1} W if it slept through the {} rests of {} and more",
            rest.count,
            rest.total,
            rest.span,
            rest.longest,
            self.name,
            power(energy.awake),
            power(energy.with_sleep),
            energy.sleeps,
            self.break_even(),
        )
    }

    /// The energy of a time in which it rests so and works otherwise.
    pub fn energy(&self, time: Nanos, rests: &[Nanos]) -> Energy {
        let resting: Nanos = rests.iter().fold(Nanos::ZERO, |sum, rest| sum + *rest);
        let working = over(self.active, time - resting);
        let mut energy = Energy { awake: working, with_sleep: working, sleeps: 0 };
        for rest in rests {
            let idle = over(self.idle, *rest);
            let asleep = self.asleep(*rest).filter(|asleep| *asleep < idle);
            energy.awake += idle;
            energy.with_sleep += asleep.unwrap_or(idle);
            energy.sleeps += u64::from(asleep.is_some());
        }
        energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 148 J to stop and start, and 7.7 W less while asleep: from 15.2 s on.
    #[test]
    fn a_long_rest_is_slept_through_and_a_short_one_is_not() {
        let disk = ULTRASTAR_36Z15;
        let even = disk.break_even();
        let exact = (148.0 - 2.5 * 12.4) / (10.2 - 2.5);
        assert!((even.as_secs_f64() - exact).abs() < 0.002, "{even} {exact}");
        let second = Nanos::SECOND;
        let (short, long) = (even - Nanos::from_millis(2), even + Nanos::from_millis(2));
        let energy = disk.energy(second * 60, &[short, long]);
        assert_eq!(energy.sleeps, 1);
        assert!(energy.with_sleep < energy.awake);
        let awake = disk.energy(second * 60, &[second; 30]);
        assert_eq!((awake.awake, awake.with_sleep), (30 * 13_500 + 30 * 10_200, awake.awake));
    }
}
