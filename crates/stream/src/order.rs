//! Which stream is served next: the one whose buffer is empty first (earliest deadline first; Liu and Layland, 1973). Within one I/O priority the
//! kernel's schedulers go by arrival or by place, so the order among streams is made here.

use surety_units::Nanos;

/// A stream that wants a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its number.
    pub stream: usize,
    /// How long its buffer lasts from now on, at its rate.
    pub lasts: Nanos,
    /// Since when it wants the batch.
    pub since: Nanos,
}

impl Candidate {
    /// Whether it is served before another: of equal ones who has wanted it for longer, then the lower number.
    pub(crate) fn is_before(&self, other: &Candidate) -> bool {
        let key = |candidate: &Candidate| (candidate.lasts, candidate.since, candidate.stream);
        key(self) < key(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_that_is_empty_first_is_first() {
        let of = |stream, lasts, since| Candidate {
            stream,
            lasts: Nanos::from_millis(lasts),
            since: Nanos::from_millis(since),
        };
        assert!(of(1, 10, 9).is_before(&of(0, 40, 0)));
        assert!(of(1, 10, 3).is_before(&of(0, 10, 5)));
        assert!(of(0, 10, 3).is_before(&of(1, 10, 3)) && !of(1, 10, 3).is_before(&of(0, 10, 3)));
    }
}
