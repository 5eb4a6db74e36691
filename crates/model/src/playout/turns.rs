//! [`Pace`]: which stream of a disk is served next, and when none is; [`Rest`]: what the disk had for itself meanwhile.
//!
//! Of streams that want a batch the one goes first whose buffer is empty first (earliest deadline first; Liu and Layland, 1973). In the steady mode a batch is moved as soon as
//! there is room and credit for it; with the longest batches the buffers of all streams are filled, or emptied, when one has no more ahead than its jitter lasts, and
//! nothing is asked for in between (the power-saving scheduler of ABISS; de Nijs et al., Linux Symposium 2005). The host world's streams and the simulated ones go by this rule.

use surety_units::Nanos;

use crate::workload::BatchMode;

/// Whether a stream wants a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Since an instant.
    Since(Nanos),
    /// From an instant on.
    From(Nanos),
    /// Not before something else happens.
    Nothing,
}

/// A stream, as who serves the disk sees it.
pub trait Served {
    /// Whether it wants a batch.
    fn wants(&mut self, now: Nanos) -> Want;
    /// How long what is ahead of its program lasts at its rate: bytes that are there or on their way, or room that is left.
    fn lasts(&self) -> Nanos;
    /// Whether it has to be served now, where streams are served at times only: it wants a batch, or will when it has credit, and has no more ahead than its jitter lasts.
    fn is_low(&mut self, now: Nanos) -> bool;
}

impl<S: Served> Served for Option<S> {
    fn wants(&mut self, now: Nanos) -> Want {
        self.as_mut().map_or(Want::Nothing, |stream| stream.wants(now))
    }

    fn lasts(&self) -> Nanos {
        self.as_ref().map_or(Nanos::MAX, Served::lasts)
    }

    fn is_low(&mut self, now: Nanos) -> bool {
        self.as_mut().is_some_and(|stream| stream.is_low(now))
    }
}

impl<S: Served> Served for &mut S {
    fn wants(&mut self, now: Nanos) -> Want {
        (**self).wants(now)
    }

    fn lasts(&self) -> Nanos {
        (**self).lasts()
    }

    fn is_low(&mut self, now: Nanos) -> bool {
        (**self).is_low(now)
    }
}

/// A stream that wants a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub stream: usize,
    /// How long its buffer lasts from now on, at its rate.
    pub lasts: Nanos,
    /// Since when it wants the batch.
    pub since: Nanos,
}

impl Candidate {
    /// Whether it is served before another: of equal ones who has wanted it for longer, then the lower number.
    pub fn is_before(&self, other: &Candidate) -> bool {
        let key = |candidate: &Candidate| (candidate.lasts, candidate.since, candidate.stream);
        key(self) < key(other)
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A batch of this one is asked for.
    Of(Candidate),
    /// Nothing before an instant, where nothing else happens.
    From(Nanos),
    /// Nothing before something else happens.
    Nothing,
}

/// Times in which nothing of a disk's streams was at the disk.
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

/// When the streams of a disk are served.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    mode: BatchMode,
    /// All are being filled.
    is_filling: bool,
    /// Since when nothing was at the disk.
    since: Option<Nanos>,
    /// When the first transfer went to the disk.
    first: Option<Nanos>,
    rest: Rest,
}

impl Pace {
    /// In which mode.
    pub fn mode(&self) -> BatchMode {
        self.mode
    }

    /// Another mode from now on.
    pub fn change(&mut self, mode: BatchMode) {
        (self.mode, self.is_filling) = (mode, false);
    }

    /// Which of the streams is served next; `is_busy` says which have a batch under way that the next one waits for.
    pub fn turn<S: Served>(
        &mut self,
        streams: &mut [S],
        now: Nanos,
        is_busy: impl Fn(usize) -> bool,
    ) -> Turn {
        if !self.goes(|| streams.iter_mut().any(|stream| stream.is_low(now))) {
            return Turn::Nothing;
        }
        let mut soonest: Option<Nanos> = None;
        let mut first: Option<Candidate> = None;
        for (number, stream) in streams.iter_mut().enumerate().filter(|(number, _)| !is_busy(*number)) {
            match stream.wants(now) {
                Want::Since(since) => {
                    let candidate = Candidate { stream: number, lasts: stream.lasts(), since };
                    if first.is_none_or(|first| candidate.is_before(&first)) {
                        first = Some(candidate);
                    }
                }
                Want::From(at) => soonest = Some(soonest.map_or(at, |soonest| soonest.min(at))),
                Want::Nothing => {}
            }
        }
        // One that waits for its batch under way may want more.
        if first.is_none() && !(0..streams.len()).any(&is_busy) {
            self.is_filling = false;
        }
        first.map(Turn::Of).or(soonest.map(Turn::From)).unwrap_or(Turn::Nothing)
    }

    /// Whether streams are served now: `is_low` says whether one of them has to be.
    fn goes(&mut self, is_low: impl FnOnce() -> bool) -> bool {
        self.is_filling = self.is_filling || (self.mode == BatchMode::Longest && is_low());
        self.mode == BatchMode::Steady || self.is_filling
    }

    /// A transfer goes to the disk.
    pub fn works(&mut self, now: Nanos) {
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
    pub fn rests(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// The rests until now that are over.
    pub fn rest(&self, now: Nanos) -> Rest {
        let span = self.first.map_or(Nanos::ZERO, |first| self.since.unwrap_or(now) - first);
        Rest { span, ..self.rest.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// One with so much ahead, which wants its batch since then, or from then on; its jitter is 10 ms.
    struct Fixed(Want, i64);

    impl Served for Fixed {
        fn wants(&mut self, _: Nanos) -> Want {
            self.0
        }

        fn lasts(&self) -> Nanos {
            at(self.1)
        }

        fn is_low(&mut self, _: Nanos) -> bool {
            self.0 != Want::Nothing && self.1 <= 10
        }
    }

    #[test]
    fn the_buffer_that_is_empty_first_is_first() {
        let of = |stream, lasts, since| Candidate { stream, lasts: at(lasts), since: at(since) };
        assert!(of(1, 10, 9).is_before(&of(0, 40, 0)));
        assert!(of(1, 10, 3).is_before(&of(0, 10, 5)));
        assert!(of(0, 10, 3).is_before(&of(1, 10, 3)) && !of(1, 10, 3).is_before(&of(0, 10, 3)));
    }

    #[test]
    fn streams_take_their_turns() {
        let (mut pace, now) = (Pace::default(), at(100));
        let mut turn =
            |streams: &mut [Option<Fixed>], busy: usize| pace.turn(streams, now, |stream| stream == busy);
        let mut streams = [None, Some(Fixed(Want::Since(at(3)), 40)), Some(Fixed(Want::Since(at(5)), 20))];
        let of = |stream, lasts, since| Turn::Of(Candidate { stream, lasts: at(lasts), since: at(since) });
        assert_eq!(turn(&mut streams, 9), of(2, 20, 5));
        assert_eq!(turn(&mut streams, 2), of(1, 40, 3));
        streams[2] = Some(Fixed(Want::From(at(140)), 20));
        assert_eq!(turn(&mut streams, 1), Turn::From(at(140)));
        assert_eq!(turn(&mut [None, Some(Fixed(Want::Nothing, 0))], 9), Turn::Nothing);
    }

    #[test]
    fn all_rest_until_one_is_low() {
        let mut pace = Pace::default();
        pace.change(BatchMode::Longest);
        let mut turn = |ahead: i64, want| {
            let mut streams = [Fixed(Want::Since(at(1)), 90), Fixed(want, ahead)];
            matches!(pace.turn(&mut streams, at(100), |_| false), Turn::Of(_))
        };
        assert!(!turn(40, Want::Since(at(2))), "none is low");
        assert!(turn(10, Want::From(at(200))), "one is, and has no credit yet: the other goes meanwhile");
        assert!(turn(40, Want::Since(at(2))), "they are filled to the end");
        let nothing = pace.turn(&mut [Fixed(Want::Nothing, 90)], at(100), |_| false);
        assert_eq!(nothing, Turn::Nothing);
        assert_eq!(pace.turn(&mut [Fixed(Want::Since(at(2)), 40)], at(100), |_| false), Turn::Nothing);
    }

    /// Where each stream has its own batches at the disk, one that has as many as it may is filled on when they are there.
    #[test]
    fn a_batch_under_way_does_not_end_the_filling() {
        let mut pace = Pace::default();
        pace.change(BatchMode::Longest);
        let mut turn = |ahead, is_busy: bool| {
            let mut streams = [Fixed(Want::Since(at(1)), ahead)];
            matches!(pace.turn(&mut streams, at(100), |_| is_busy), Turn::Of(_))
        };
        assert!(turn(10, false), "it is low");
        assert!(!turn(20, true), "its batch is under way");
        assert!(turn(20, false), "it is filled to the end");
    }

    #[test]
    fn rests_are_counted() {
        let mut pace = Pace::default();
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
