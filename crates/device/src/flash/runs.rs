//! [`Runs`]: which writes are sequential.
//!
//! A write is sequential if it begins at the sector where a run of writes ends, or if a later one begins where it ends. A drive
//! follows several runs beside each other, each with open blocks of its own; of how many, the profile says (`streams`). Of a write
//! that continues nothing it is not known at once what it is: it is judged sequential when another continues it, or random when
//! [`SINGLES`] others that continue nothing have come since.
//!
//! There are two lists, so that random writes, however many, do not make the drive lose its runs: the ends of runs, of which the
//! least recently continued is forgotten, and the ends of single writes, of which the oldest is. Each write looks through both, and
//! allocates nothing.

/// Single writes of which the ends are remembered (assumed): what a queue of 32 commands (SATA NCQ) has inside.
const SINGLES: usize = 32;

/// No write ends there.
const NOWHERE: u64 = u64::MAX;

/// Sectors that a write has decided to have been sequential or random, those of earlier writes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub sequential: u32,
    pub random: u32,
}

/// The ends of runs and of single writes.
#[derive(Clone, Debug)]
pub struct Runs {
    /// First sectors behind the runs, the most recently continued first.
    ends: Box<[u64]>,
    /// First sectors behind single writes, and their sectors, in a ring.
    single_ends: [u64; SINGLES],
    single_sectors: [u32; SINGLES],
    /// Where in the ring the next single write goes: the oldest.
    oldest: usize,
}

impl Runs {
    /// None yet, of at most so many.
    pub fn new(streams: u32) -> Runs {
        Runs {
            ends: vec![NOWHERE; streams.max(1) as usize].into_boxed_slice(),
            single_ends: [NOWHERE; SINGLES],
            single_sectors: [0; SINGLES],
            oldest: 0,
        }
    }

    /// Notes a write, in sectors; returns what is known by it, of earlier writes too.
    pub fn write(&mut self, sector: u64, sectors: u32) -> Judged {
        let end = sector + u64::from(sectors);
        if let Some(at) = self.ends.iter().position(|end| *end == sector) {
            self.continued(at, end);
            return Judged { sequential: sectors, random: 0 };
        }
        if let Some(at) = self.single_ends.iter().position(|end| *end == sector) {
            self.single_ends[at] = NOWHERE;
            let before = std::mem::take(&mut self.single_sectors[at]);
            self.continued(self.ends.len() - 1, end);
            return Judged { sequential: sectors.saturating_add(before), random: 0 };
        }
        self.single_ends[self.oldest] = end;
        let random = std::mem::replace(&mut self.single_sectors[self.oldest], sectors);
        self.oldest = (self.oldest + 1) % SINGLES;
        Judged { sequential: 0, random }
    }

    /// A run, in the place of one in the list, has a new end and is the most recently continued.
    fn continued(&mut self, at: usize, end: u64) {
        self.ends[..=at].rotate_right(1);
        self.ends[0] = end;
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(judged(&mut runs, scattered(0, SINGLES as u64)), (0, 0));
        assert_eq!(judged(&mut runs, scattered(100, 5)), (5 * 8, 0));
    }

    /// As many as there are streams, in turns; one more, and each is forgotten before it comes again.
    #[test]
    fn as_many_runs_are_followed_as_there_are_streams() {
        let in_turns = |streams: u32, writers: u64| {
            let mut runs = Runs::new(streams);
            judged(&mut runs, (0..100).flat_map(|i| (0..writers).map(move |w| (w * 100_000 + i * 8, 8))))
        };
        assert_eq!(in_turns(4, 4), (0, 4 * 100 * 8));
        assert_eq!(in_turns(5, 4), (0, 4 * 100 * 8));
        let (_, sequential) = in_turns(4, 5);
        // What is forgotten begins again as a single write, and is a run again with the next.
        assert!(sequential < 5 * 100 * 8, "{sequential}");
    }

    #[test]
    fn the_least_recently_continued_run_is_forgotten() {
        let mut runs = Runs::new(2);
        judged(&mut runs, of_writer(0, 2));
        judged(&mut runs, of_writer(10_000, 2));
        assert_eq!(runs.write(16, 8).sequential, 8);
        // A third: that at 10,000 goes.
        judged(&mut runs, of_writer(20_000, 2));
        assert_eq!(runs.write(24, 8).sequential, 8);
        assert_eq!(runs.write(10_016, 8), Judged::default());
    }

    #[test]
    fn random_writes_do_not_make_a_run_forgotten() {
        let mut runs = Runs::new(1);
        judged(&mut runs, of_writer(0, 2));
        judged(&mut runs, (0..10_000).map(|i| (1_000_000 + i * 16, 8)));
        assert_eq!(runs.write(16, 8).sequential, 8);
    }
}
