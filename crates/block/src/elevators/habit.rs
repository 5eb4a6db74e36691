//! [`Mean`]: what schedulers of 2.6 learn of a process, in their fixed-point arithmetic.

/// One, as samples count it.
const ONE: u64 = 256;

/// A mean that forgets an eighth with each sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    samples: u64,
    total: u64,
}

impl Mean {
    /// Another sample.
    pub(super) fn add(&mut self, value: u64) {
        self.samples = (7 * self.samples + ONE) / 8;
        self.total = (7 * self.total + ONE * value) / 8;
    }

    /// The mean; 0 where there is no sample.
    pub(super) fn get(&self) -> u64 {
        (self.total + 128).checked_div(self.samples).unwrap_or(0)
    }

    /// What the samples weigh, up to 256: more than 80 from the third on.
    pub(super) fn weight(&self) -> u64 {
        self.samples
    }
}

/// How far from the end of one request to the next a process went, in sectors; a way that is much longer than usual counts for less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seeks {
    mean: Mean,
    position: Option<u64>,
}

impl Seeks {
    /// A request from one sector up to another; false: it is the first.
    pub(super) fn add(&mut self, sector: u64, end: u64) -> bool {
        let Some(position) = self.position.replace(end) else { return false };
        let slack = if self.mean.weight() <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        self.mean.add(position.abs_diff(sector).min(4 * self.mean.get() + slack));
        true
    }

    /// The mean of them.
    pub(super) fn mean(&self) -> &Mean {
        &self.mean
    }
}
