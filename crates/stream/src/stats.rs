//! What a stream got: counters that can be read at any time.

pub use surety_model::playout::{Batch, Cause, UnderRun, Waits};
use surety_units::Nanos;

/// What happened to a stream since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Batches that are there: in memory where the stream is read, at the device where it is written.
    pub batches: u64,
    /// Bytes of the stream in them.
    pub bytes: u64,
    /// The longest from wanting a batch until it was there, and the longest in the kernel and the device.
    pub worst_batch: Nanos,
    /// Of [`Batch::in_device`].
    pub worst_in_device: Nanos,
    /// Batches that took longer than was admitted.
    pub beyond_bound: u64,
    /// Bytes ahead of the program when a batch was there, the fewest: ready to be read, or room to write to; `None`: none came meanwhile.
    pub least_ahead: Option<u64>,
    /// Reads, or writes, that a program no faster than its contract had to wait for, and for what.
    pub waits: Waits,
    /// Times that what was written was brought to the medium.
    pub syncs: u64,
    /// The longest of them.
    pub worst_sync: Nanos,
}

impl Stats {
    /// A batch came.
    pub(crate) fn came(&mut self, batch: &Batch, bound: Option<Nanos>) {
        self.batches += 1;
        self.bytes += batch.bytes;
        self.worst_batch = self.worst_batch.max(batch.latency());
        self.worst_in_device = self.worst_in_device.max(batch.in_device());
        self.beyond_bound += u64::from(bound.is_some_and(|bound| batch.latency() > bound));
    }

    /// What was written is on the medium after so long.
    pub(crate) fn synced(&mut self, took: Nanos) {
        self.syncs += 1;
        self.worst_sync = self.worst_sync.max(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_batches_are_kept() {
        let at = Nanos::from_millis;
        let batch =
            Batch { wanted: at(10), submitted: at(14), done: at(30), bytes: 4096, ..Batch::default() };
        let mut stats = Stats::default();
        stats.came(&batch, Some(at(19)));
        assert_eq!((stats.worst_batch, stats.worst_in_device, stats.beyond_bound), (at(20), at(16), 1));
    }
}
