//! [`Throughput`]: what a disk moves for all processes together while a program starts, and while none does: what the start-up costs
//! the others.
//!
//! An I/O scheduler that raises a process which starts (BFQ) serves few requests of the others meanwhile, and may keep the disk idle for
//! it. Both numbers are of one run, so of the same load under the same scheduler.

use surety_units::Nanos;

use crate::record::Figure;

/// The figure of the bytes a second of its disk while a program started.
pub const STARTING: &str = "disk while starting";
/// The same while no program started, after the first start.
pub const OTHERWISE: &str = "disk otherwise";

/// What went on between two readings of a disk's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// The program started.
    Start,
    /// Another program started.
    Another,
    /// None did.
    Load,
}

/// Bytes, and the time in which a disk moved them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    bytes: u64,
    time: Nanos,
}

impl Moved {
    /// Bytes a second; `None` of no time.
    fn rate(&self) -> Option<f64> {
        self.time.is_positive().then(|| self.bytes as f64 / self.time.as_secs_f64())
    }
}

/// Readings of one disk's count of bytes, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    last: Option<(Nanos, u64)>,
    starting: Moved,
    otherwise: Moved,
}

impl Throughput {
    /// Takes how many bytes the disk has moved by an instant, and what went on since the reading before. The first reading begins the
    /// count. One that is not later than that before it adds its bytes alone; a count that went back adds none.
    pub fn read(&mut self, at: Nanos, bytes: u64, during: During) {
        if let Some((since, before)) = self.last {
            let moved = match during {
                During::Start => Some(&mut self.starting),
                During::Load => Some(&mut self.otherwise),
                During::Another => None,
            };
            if let Some(moved) = moved {
                moved.bytes += bytes.saturating_sub(before);
                moved.time += (at - since).max(Nanos::ZERO);
            }
        }
        self.last = Some((at, bytes));
    }

    /// [`STARTING`] and [`OTHERWISE`], each where there was such a time.
    pub fn figures(&self) -> Vec<Figure> {
        let both = [(STARTING, self.starting), (OTHERWISE, self.otherwise)];
        both.into_iter().filter_map(|(name, moved)| Some(Figure::new(name, moved.rate()?, "B/s"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_for_what_went_on_when_it_was_moved() {
        let at = |seconds, bytes, during| (Nanos::from_secs(seconds), bytes, during);
        let mut throughput = Throughput::default();
        assert_eq!(throughput.figures(), []);
        // What was moved before the first reading is not known; a program starts for 2 s, none does for 3, another for 5, none for 1.
        for (at, bytes, during) in [
            at(10, 700, During::Load),
            at(12, 900, During::Start),
            at(15, 1800, During::Load),
            at(20, 9000, During::Another),
            at(21, 9300, During::Load),
        ] {
            throughput.read(at, bytes, during);
        }
        let expected = [Figure::new(STARTING, 100.0, "B/s"), Figure::new(OTHERWISE, 300.0, "B/s")];
        assert_eq!(throughput.figures(), expected);
    }

    #[test]
    fn a_count_that_goes_back_and_an_instant_twice_add_nothing() {
        let mut throughput = Throughput::default();
        throughput.read(Nanos::SECOND, 50, During::Load);
        throughput.read(Nanos::SECOND, 50, During::Start);
        assert_eq!(throughput.figures(), []);
        throughput.read(Nanos::from_secs(2), 10, During::Start);
        assert_eq!(throughput.figures(), [Figure::new(STARTING, 0.0, "B/s")]);
    }
}
