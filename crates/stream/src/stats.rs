//! What a stream got: counters that can be read at any time.

use surety_units::Nanos;

/// One batch: instants of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// There was credit and room for it, and the stream's batch before it was there.
    pub wanted: Nanos,
    /// It was handed to the kernel.
    pub submitted: Nanos,
    /// The thread that serves the disk had it.
    pub done: Nanos,
    /// Bytes of the stream in it.
    pub bytes: u64,
}

impl Batch {
    /// From wanting it until it was there: what admission bounds.
    pub fn latency(&self) -> Nanos {
        self.done - self.wanted
    }

    /// What it took in the kernel and the device.
    pub fn in_device(&self) -> Nanos {
        self.done - self.submitted
    }
}

/// What a program that needed bytes waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Batches of other streams were served first.
    QueueAhead,
    /// The kernel's scheduler and the device had the batch.
    Device,
    /// The batch was there, and the program did not have a CPU yet.
    WakeUp,
}

impl Cause {
    /// All, in the order of a batch's way.
    pub const ALL: [Cause; 3] = [Cause::QueueAhead, Cause::Device, Cause::WakeUp];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Cause::QueueAhead => "batches of other streams ahead",
            Cause::Device => "the I/O scheduler and the device",
            Cause::WakeUp => "a CPU for the program",
        }
    }
}

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
    /// Reads, or writes, that a program no faster than its contract had to wait for.
    pub under_runs: u64,
    /// How long they waited, by [`Cause::ALL`].
    pub waited: [Nanos; 3],
    /// Times that what was written was brought to the medium.
    pub syncs: u64,
    /// The longest of them.
    pub worst_sync: Nanos,
}

impl Stats {
    /// How long reads waited for one cause.
    pub fn waited_for(&self, cause: Cause) -> Nanos {
        self.waited[cause as usize]
    }

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

    /// A program that needed a batch from an instant on went on at another.
    pub(crate) fn waited_until(&mut self, needed: Nanos, batch: &Batch, went_on: Nanos) {
        let needed = needed.max(batch.wanted);
        if went_on <= needed || batch.done <= needed {
            return;
        }
        self.under_runs += 1;
        let ends = [batch.submitted, batch.done, went_on];
        let mut from = needed;
        for (waited, end) in self.waited.iter_mut().zip(ends) {
            *waited += (end - from).max(Nanos::ZERO);
            from = from.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_shared_out_among_its_causes() {
        let at = Nanos::from_millis;
        let batch = Batch { wanted: at(10), submitted: at(14), done: at(30), bytes: 4096 };
        let told = |needed, went_on| {
            let mut stats = Stats::default();
            stats.waited_until(at(needed), &batch, at(went_on));
            (stats.under_runs, stats.waited.map(|time| time.as_millis_f64() as i64))
        };
        assert_eq!(told(12, 31), (1, [2, 16, 1]));
        // Needed before it was wanted: until then the contract is what held it up.
        assert_eq!(told(0, 31), (1, [4, 16, 1]));
        assert_eq!(told(20, 30), (1, [0, 10, 0]));
        // It was there.
        assert_eq!(told(30, 31), (0, [0, 0, 0]));
        let mut stats = Stats::default();
        stats.came(&batch, Some(at(19)));
        assert_eq!((stats.worst_batch, stats.worst_in_device, stats.beyond_bound), (at(20), at(16), 1));
    }
}
