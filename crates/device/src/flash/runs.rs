//! [`Runs`]: which writes are sequential.
//!
//! A write is sequential if it begins at the sector where a run of writes ends that the drive follows. A drive follows several runs
//! beside each other, each with open blocks of its own; how many at most, the profile says (`streams`). A write that begins where a
//! single one ends makes a run of the two: the drive follows it where it has room, and then both were sequential. Of a write that
//! continues nothing it is not known at once what it is: it is random when as many others as are remembered have come since.
//!
//! Where the drive follows as many runs as it can, a run beyond them is as random writes, each judged when the next continues it. So one
//! run too many costs the bytes of one, and the others keep their blocks. It takes the place of the slowest that is followed where that is
//! written less than a quarter as fast ([`FASTER`]). The speed of a run is the size of its last write divided by what all runs
//! wrote between that and the write before, or have written since, if that is more: a run that has ended becomes slower with each write of
//! another. Random writes do not count in what all have written: however many, they do not make the drive lose its runs.
//!
//! Each write looks through the ends of runs and those of single writes, and allocates nothing.

/// Single writes of which the ends are remembered (assumed): what a queue of 32 commands (SATA NCQ) has inside. Beside them one for each
/// run, so that as many as are followed can begin at a time.
const SINGLES: usize = 32;

/// How many times as fast as a run that is followed one must be that takes its place (assumed): more than what runs differ by that are
/// written in turns.
const FASTER: u128 = 4;

/// No write ends there.
const NOWHERE: u64 = u64::MAX;

/// Sectors that a write has decided to have been sequential or random, those of earlier writes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub sequential: u32,
    pub random: u32,
}

/// A run of writes: one that is followed, one beyond those, or a single write.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first sector behind it.
    end: u64,
    /// Sectors of its last write.
    sectors: u32,
    /// What all runs had written at its last write, in sectors.
    at: u64,
    /// What all runs wrote from one of its writes to the next, in sectors: the longest, of which a sixteenth is forgotten with each
    /// write, since a long write comes as several that follow each other. 0: it has only one.
    gap: u64,
}

impl Run {
    const NONE: Run = Run { end: NOWHERE, sectors: 0, at: 0, gap: 0 };

    /// It goes on with a write; all runs have written `written` sectors by then.
    fn go_on(&mut self, end: u64, sectors: u32, written: u64) {
        self.gap = (written - self.at).max(self.gap - self.gap / 16);
        (self.end, self.sectors, self.at) = (end, sectors, written);
    }

    /// Whether another run is written more than `times` as fast; any is, where this is none.
    fn is_slower(&self, other: &Run, times: u128, written: u64) -> bool {
        let span = |run: &Run| u128::from(run.gap.max(written - run.at));
        u128::from(other.sectors) * span(self) > times * u128::from(self.sectors) * span(other)
    }
}

/// The ends of runs and of single writes.
#[derive(Clone, Debug)]
pub struct Runs {
    followed: Box<[Run]>,
    /// Runs beyond those, and single writes, in a ring.
    others: Box<[Run]>,
    /// Sectors of each of them that are not judged: of its last write.
    unjudged: Box<[u32]>,
    /// Where in the ring the next goes: the oldest.
    oldest: usize,
    /// Sectors that all runs have written, single writes left out.
    written: u64,
}

impl Runs {
    /// None yet, of at most so many.
    pub fn new(streams: u32) -> Runs {
        let streams = streams.max(1) as usize;
        let others = SINGLES + streams;
        Runs {
            followed: vec![Run::NONE; streams].into_boxed_slice(),
            others: vec![Run::NONE; others].into_boxed_slice(),
            unjudged: vec![0; others].into_boxed_slice(),
            oldest: 0,
            written: 0,
        }
    }

    /// Notes a write, in sectors; returns what is known by it, of earlier writes too.
    pub fn write(&mut self, sector: u64, sectors: u32) -> Judged {
        let end = sector + u64::from(sectors);
        if let Some(run) = self.followed.iter_mut().find(|run| run.end == sector) {
            self.written += u64::from(sectors);
            run.go_on(end, sectors, self.written);
            return Judged { sequential: sectors, random: 0 };
        }
        let Some(place) = self.others.iter().position(|run| run.end == sector) else {
            let random = self.remember(Run { end, sectors, at: self.written, gap: 0 });
            return Judged { sequential: 0, random };
        };
        let mut run = std::mem::replace(&mut self.others[place], Run::NONE);
        let before = std::mem::take(&mut self.unjudged[place]);
        self.written += u64::from(sectors);
        run.go_on(end, sectors, self.written);
        let written = self.written;
        let slowest = self
            .followed
            .iter_mut()
            .reduce(|one, other| if other.is_slower(one, 1, written) { other } else { one });
        if let Some(slowest) = slowest.filter(|slowest| slowest.is_slower(&run, FASTER, written)) {
            // It is known again where it goes on, so runs that write several times in their turn do not displace each other.
            self.others[place] = std::mem::replace(slowest, run);
            return Judged { sequential: sectors.saturating_add(before), random: 0 };
        }
        if (place + 1) % self.others.len() == self.oldest {
            self.oldest = place;
        }
        Judged { sequential: 0, random: self.remember(run).saturating_add(before) }
    }

    /// Puts a run into the ring, its last write not judged; returns the sectors of the one in its place, which were random.
    fn remember(&mut self, run: Run) -> u32 {
        self.others[self.oldest] = run;
        let random = std::mem::replace(&mut self.unjudged[self.oldest], run.sectors);
        self.oldest = (self.oldest + 1) % self.others.len();
        random
    }
}

#[cfg(test)]
mod tests {
    use surety_stats::random::Pcg;

    use super::*;

    /// Random and sequential sectors of writes, each at a sector and so long.
    fn judged(runs: &mut Runs, writes: impl IntoIterator<Item = (u64, u32)>) -> (u32, u32) {
        writes.into_iter().fold((0, 0), |(random, sequential), (sector, sectors)| {
            let judged = runs.write(sector, sectors);
            (random + judged.random, sequential + judged.sequential)
        })
    }

    /// A writer's requests one after the other, from its first sector on.
    fn of_writer(first: u64, count: u64) -> impl Iterator<Item = (u64, u32)> {
        (0..count).map(move |i| (first + i * 8, 8))
    }

    /// Writes of several writers in turns, each beginning far from the others; `at_once` of one follow each other.
    fn in_turns(writers: u64, turns: u64, at_once: u64) -> impl Iterator<Item = (u64, u32)> {
        let of = move |turn: u64, writer: u64| of_writer(writer * 10_000_000 + turn * at_once * 8, at_once);
        (0..turns).flat_map(move |turn| (0..writers).flat_map(move |writer| of(turn, writer)))
    }

    #[test]
    fn the_first_write_of_a_run_is_judged_by_the_second() {
        let mut runs = Runs::new(4);
        assert_eq!(runs.write(0, 8), Judged::default());
        assert_eq!(runs.write(8, 16), Judged { sequential: 24, random: 0 });
        assert_eq!(runs.write(24, 8), Judged { sequential: 8, random: 0 });
    }

    #[test]
    fn a_write_that_nothing_continues_is_random_when_it_is_forgotten() {
        let mut runs = Runs::new(4);
        let scattered = |from: u64, count: u64| (from..from + count).map(|i| (i * 1000, 8));
        assert_eq!(judged(&mut runs, scattered(0, SINGLES as u64 + 4)), (0, 0));
        assert_eq!(judged(&mut runs, scattered(100, 5)), (5 * 8, 0));
    }

    /// Writers in turns: as many as there are streams write nothing random, and of more those beyond write nothing else; also where each
    /// writes several times in its turn.
    #[test]
    fn as_many_runs_are_followed_as_there_are_streams() {
        const TURNS: u64 = 1000;
        for (streams, at_once) in [(1_u64, 1), (5, 1), (64, 1), (1, 16), (5, 16), (64, 4)] {
            // Random and sequential sectors, as multiples of those of one writer.
            let all = |writers: u64| {
                let (random, sequential) =
                    judged(&mut Runs::new(streams as u32), in_turns(writers, TURNS, at_once));
                [random, sequential].map(|sectors| f64::from(sectors) / (TURNS * at_once * 8) as f64)
            };
            for writers in [1, streams.div_ceil(2), streams] {
                assert_eq!(all(writers), [0.0, writers as f64], "{writers} of {streams}");
            }
            for beyond in [1, 2, 30] {
                let [random, sequential] = all(streams + beyond);
                assert!((random - beyond as f64).abs() < 0.05, "{streams} and {beyond}: {random}");
                assert!((sequential - streams as f64).abs() < 0.05, "{streams} and {beyond}: {sequential}");
            }
        }
    }

    /// The same, each turn in an order of its own.
    #[test]
    fn the_order_of_writers_does_not_matter() {
        for (streams, beyond) in [(1_u64, 0), (1, 1), (5, 0), (5, 1), (5, 5), (64, 0), (64, 1)] {
            let (mut runs, mut chance) = (Runs::new(streams as u32), Pcg::new(3, 3));
            let mut writers: Vec<u64> = (0..streams + beyond).collect();
            let mut random = 0;
            for turn in 0..1000 {
                for place in (1..writers.len()).rev() {
                    writers.swap(place, chance.below(place as u64 + 1) as usize);
                }
                let writes = writers.iter().map(|writer| (writer * 10_000_000 + turn * 8, 8));
                random += judged(&mut runs, writes).0;
            }
            let random = f64::from(random) / 8000.0;
            assert!((random - beyond as f64).abs() < 0.05, "{streams} and {beyond}: {random}");
        }
    }

    /// A drive that follows two: a third run is random while both go on, and takes the place of one that has ended.
    #[test]
    fn a_run_that_has_ended_gives_its_place_to_the_next() {
        let mut runs = Runs::new(2);
        assert_eq!(judged(&mut runs, in_turns(2, 10, 1)), (0, 2 * 10 * 8));
        let (random, sequential) = judged(&mut runs, of_writer(50_000_000, 20));
        assert!(random <= 8 * 8 && sequential >= 12 * 8, "{random} {sequential}");
        assert_eq!(judged(&mut runs, of_writer(50_000_000 + 20 * 8, 1000)), (0, 8000));
        // The next has no less: whatever has ended is slow by now.
        assert_eq!(judged(&mut runs, of_writer(60_000_000, 1000)), (0, 8000));
    }

    /// One run after the other of four writes, as many files make.
    #[test]
    fn short_runs_one_after_the_other_are_sequential() {
        let mut runs = Runs::new(5);
        let files = (0..1000).flat_map(|file| of_writer(file * 1_000_000, 4));
        let (random, sequential) = judged(&mut runs, files);
        assert!(random < 32_000 / 100 && sequential > 32_000 * 98 / 100, "{random} {sequential}");
    }

    /// A run that has few bytes of all keeps no place from one that has most.
    #[test]
    fn a_fast_run_takes_the_place_of_a_slow_one() {
        let mut runs = Runs::new(1);
        let slow = |i: u64| (i * 8, 8);
        let fast = |i: u64, k: u64| (50_000_000 + (i * 100 + k) * 8, 8);
        let (random, sequential) = judged(
            &mut runs,
            (0..100).flat_map(|i| std::iter::once(slow(i)).chain((0..100).map(move |k| fast(i, k)))),
        );
        assert!(random < 2 * 100 * 8, "{random}");
        assert!(sequential > 99 * 100 * 8, "{sequential}");
    }

    #[test]
    fn random_writes_do_not_make_a_run_forgotten() {
        for streams in [1, 5, 64] {
            let mut runs = Runs::new(streams as u32);
            judged(&mut runs, in_turns(streams, 2, 1));
            judged(&mut runs, (0..10_000).map(|i| (1_000_000_000 + i * 16, 8)));
            let (_, sequential) = judged(&mut runs, (0..streams).map(|writer| (writer * 10_000_000 + 16, 8)));
            assert_eq!(u64::from(sequential), streams * 8);
        }
    }
}
