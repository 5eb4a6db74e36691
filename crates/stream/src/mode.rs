//! [`Mode`]: when the streams of a station are served; and [`Rest`], what its disk had for itself meanwhile.

use surety_units::Nanos;

/// When a station serves its streams. It can be changed while they run: steady, a batch as soon as there is room and credit for it, is what admission bounds; with the
/// longest batches the buffers of all streams are filled, or emptied, when one has no more ahead than its jitter lasts, and nothing is asked for in between.
pub use surety_model::workload::BatchMode as Mode;

/// Times in which nothing of a station was at its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// How many there were.
    pub count: u64,
    /// How long they were together.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// How long each was, the first ones.
    pub each: Vec<Nanos>,
    /// From the first transfer until now, or until it began to rest.
    pub span: Nanos,
}

/// Times that are kept one by one.
const EACH_MAX: usize = 1 << 16;

/// What a station does about its mode.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    mode: Mode,
    /// All are being filled.
    is_filling: bool,
    /// Since when nothing was at the disk.
    since: Option<Nanos>,
    /// When the first transfer went to the disk.
    first: Option<Nanos>,
    rest: Rest,
}

impl Pace {
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn change(&mut self, mode: Mode) {
        (self.mode, self.is_filling) = (mode, false);
    }

    /// Whether streams are served now: `is_low` says whether one of them has to be.
    pub(crate) fn goes(&mut self, is_low: impl FnOnce() -> bool) -> bool {
        self.is_filling = self.is_filling || (self.mode == Mode::Longest && is_low());
        self.mode == Mode::Steady || self.is_filling
    }

    /// No stream wants a batch now.
    pub(crate) fn nothing_wanted(&mut self) {
        self.is_filling = false;
    }

    /// A transfer goes to the disk.
    pub(crate) fn works(&mut self, now: Nanos) {
        let since = self.since.take();
        let (Some(_), Some(since)) = (self.first, since) else {
            self.first = self.first.or(Some(now));
            return;
        };
        let rested = (now - since).max(Nanos::ZERO);
        let rest = &mut self.rest;
        (rest.count, rest.total) = (rest.count + 1, rest.total + rested);
        rest.longest = rest.longest.max(rested);
        if rest.each.len() < EACH_MAX {
            rest.each.push(rested);
        }
    }

    /// Nothing is at the disk, and nothing is to go there.
    pub(crate) fn rests(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    pub(crate) fn rest(&self, now: Nanos) -> Rest {
        let span = self.first.map_or(Nanos::ZERO, |first| self.since.unwrap_or(now) - first);
        Rest { span, ..self.rest.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_rests_until_a_stream_is_low() {
        let at = Nanos::from_millis;
        let mut pace = Pace::default();
        assert!(pace.goes(|| false));
        pace.change(Mode::Longest);
        assert!(!pace.goes(|| false) && pace.goes(|| true) && pace.goes(|| false));
        pace.nothing_wanted();
        assert!(!pace.goes(|| false));
        pace.works(at(5));
        pace.rests(at(10));
        pace.works(at(40));
        pace.works(at(41));
        pace.rests(at(50));
        pace.works(at(55));
        let each = vec![at(30), at(5)];
        let span = at(55);
        assert_eq!(pace.rest(at(60)), Rest { count: 2, total: at(35), longest: at(30), each, span });
        pace.rests(at(70));
        assert_eq!(pace.rest(at(90)).span, at(65));
    }
}
