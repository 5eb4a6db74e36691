//! [`Waits`]: what programs waited for that needed bytes of a stream which were not there (under-runs), by [`Cause`]; the host's streams and the simulated ones are
//! accounted for by this rule.
//!
//! The way of a batch divides the time: it was wanted, handed to the kernel, there, and the program went on. What its time in the kernel went for is divided where a trace or
//! the simulator tells when the device had its requests ([`Inside`]); else it has a name of its own that says what was not told apart. Nothing is estimated.

use surety_units::Nanos;

/// What a program that needed bytes waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Batches of other streams were served first.
    QueueAhead,
    /// The thread that serves the disk was ready, and did not have a CPU: before it asked for the batch, or when that was there.
    ServingCpu,
    /// The file system looked up, allocated or noted where the file lies.
    Metadata,
    /// Without direct access: the page cache, and the disk where that asked it.
    PageCache,
    /// The batch waited in the I/O scheduler, or for a place there.
    Scheduler,
    /// The device had a request of the batch.
    Device,
    /// The I/O scheduler or the device had the batch: not told apart.
    Disk,
    /// The same, or its file system noted the time of a write or that a place was written: not told apart.
    DiskOrMetadata,
    /// The batch was there, and the program did not have a CPU yet.
    WakeUp,
}

impl Cause {
    /// All, in the order of a batch's way.
    pub const ALL: [Cause; 9] = [
        Cause::QueueAhead,
        Cause::ServingCpu,
        Cause::Metadata,
        Cause::PageCache,
        Cause::Scheduler,
        Cause::Device,
        Cause::Disk,
        Cause::DiskOrMetadata,
        Cause::WakeUp,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Cause::QueueAhead => "batches of other streams ahead",
            Cause::ServingCpu => "a CPU for the thread that serves the disk",
            Cause::Metadata => "metadata of the file system",
            Cause::PageCache => "the page cache",
            Cause::Scheduler => "the I/O scheduler",
            Cause::Device => "the device",
            Cause::Disk => "the I/O scheduler or the device",
            Cause::DiskOrMetadata => "the I/O scheduler, the device or metadata",
            Cause::WakeUp => "a CPU for the program",
        }
    }

    /// As a key of documents.
    pub fn key(self) -> &'static str {
        match self {
            Cause::QueueAhead => "other_streams",
            Cause::ServingCpu => "serving_cpu",
            Cause::Metadata => "metadata",
            Cause::PageCache => "page_cache",
            Cause::Scheduler => "scheduler",
            Cause::Device => "device",
            Cause::Disk => "scheduler_or_device",
            Cause::DiskOrMetadata => "scheduler_device_or_metadata",
            Cause::WakeUp => "cpu",
        }
    }
}

/// What a batch's time in the kernel may go for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Through {
    /// Direct access to places that were looked up before: the I/O scheduler and the device alone.
    #[default]
    Disk,
    /// The same, and metadata that the access itself changes.
    Metadata,
    /// The page cache.
    Cache,
}

/// One batch: instants of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// There was credit and room for it, and the stream's batch before it was there.
    pub wanted: Nanos,
    /// It was handed to the kernel.
    pub submitted: Nanos,
    /// The thread that serves the disk had it.
    pub done: Nanos,
    /// Bytes of the stream in it.
    pub bytes: u64,
    /// How long that thread was ready and had no CPU, just before it was handed over and just before it was there.
    pub ready: (Nanos, Nanos),
    /// How it went.
    pub through: Through,
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

/// What a trace, or the simulator, tells of a batch's time in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Its first bio came to the block layer.
    pub queued: Nanos,
    /// Of each of its requests, when the driver took it and when it was complete.
    pub device: Vec<(Nanos, Nanos)>,
}

/// A program that needed bytes waited for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderRun {
    /// It was owed the bytes, and asked for them.
    pub needed: Nanos,
    /// It had them.
    pub went_on: Nanos,
    pub batch: Batch,
}

impl UnderRun {
    /// `None`: it did not wait for the batch.
    pub fn of(needed: Nanos, batch: &Batch, went_on: Nanos) -> Option<UnderRun> {
        let needed = needed.max(batch.wanted);
        (went_on > needed && batch.done > needed).then_some(UnderRun { needed, went_on, batch: *batch })
    }
}

/// How often programs waited, and for how long, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Reads, or writes, that a program no faster than its contract had to wait for.
    pub under_runs: u64,
    /// By [`Cause::ALL`].
    by: [Nanos; Cause::ALL.len()],
}

impl Waits {
    /// How long they waited for one cause.
    pub fn of(&self, cause: Cause) -> Nanos {
        self.by[cause as usize]
    }

    /// One more; `inside`: what is known of the batch's time in the kernel.
    pub fn add(&mut self, under_run: &UnderRun, inside: Option<&Inside>) {
        self.under_runs += 1;
        let UnderRun { needed, went_on, batch } = under_run;
        let mut from = *needed;
        let mut until = |cause: Cause, end: Nanos| {
            let end = end.min(*went_on);
            self.by[cause as usize] += (end - from).max(Nanos::ZERO);
            from = from.max(end);
        };
        until(Cause::QueueAhead, batch.submitted - batch.ready.0);
        until(Cause::ServingCpu, batch.submitted);
        match inside.filter(|inside| !inside.device.is_empty()) {
            Some(inside) => {
                until(Cause::Metadata, inside.queued);
                let mut device = inside.device.clone();
                device.sort_unstable();
                for (issued, complete) in device {
                    until(Cause::Scheduler, issued.min(batch.done));
                    until(Cause::Device, complete.min(batch.done));
                }
            }
            None => {
                let cause = match batch.through {
                    Through::Disk => Cause::Disk,
                    Through::Metadata => Cause::DiskOrMetadata,
                    Through::Cache => Cause::PageCache,
                };
                until(cause, batch.done - batch.ready.1);
            }
        }
        until(Cause::ServingCpu, batch.done);
        until(Cause::WakeUp, *went_on);
    }

    /// A program that needed bytes was in a call that is measured by itself, from one instant to another.
    pub fn add_call(&mut self, cause: Cause, from: Nanos, until: Nanos) {
        if until > from {
            self.under_runs += 1;
            self.by[cause as usize] += until - from;
        }
    }

    /// How many there were, and what those that waited longest waited for, of the threads of a stream; `None`: there were none.
    pub fn in_words(each: &[Waits]) -> Option<String> {
        let count: u64 = each.iter().map(|waits| waits.under_runs).sum();
        let longest = |cause: &Cause| {
            let waited = each.iter().map(|waits| waits.of(*cause)).max().unwrap_or_default();
            waited.is_positive().then(|| format!("{waited} for {}", cause.words()))
        };
        let causes: Vec<String> = Cause::ALL.iter().filter_map(longest).collect();
        let s = if count == 1 { "" } else { "s" };
        (count > 0).then(|| {
            format!("{count} under-run{s}; in all of its own one thread waited up to {}", causes.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(i64) -> Nanos = Nanos::from_millis;

    fn batch() -> Batch {
        let ready = (Nanos::ZERO, Nanos::ZERO);
        Batch { wanted: MS(10), submitted: MS(14), done: MS(30), bytes: 4096, ready, through: Through::Disk }
    }

    /// Milliseconds of the causes that there were.
    fn shared(needed: i64, batch: &Batch, went_on: i64, inside: Option<&Inside>) -> Vec<(Cause, i64)> {
        let mut waits = Waits::default();
        let under_run = UnderRun::of(MS(needed), batch, MS(went_on));
        under_run.iter().for_each(|one| waits.add(one, inside));
        assert_eq!(waits.under_runs, u64::from(under_run.is_some()));
        let all: Nanos = Cause::ALL.iter().map(|cause| waits.of(*cause)).sum();
        let whole = under_run.map_or(Nanos::ZERO, |one| one.went_on - one.needed);
        assert_eq!(all, whole, "all of it and no more");
        let of = |cause: &Cause| (*cause, waits.of(*cause).as_millis_f64() as i64);
        Cause::ALL.iter().map(of).filter(|(_, time)| *time > 0).collect()
    }

    #[test]
    fn a_wait_is_shared_out_among_its_causes() {
        use Cause::{Disk, QueueAhead, WakeUp};
        let batch = batch();
        assert_eq!(shared(12, &batch, 31, None), [(QueueAhead, 2), (Disk, 16), (WakeUp, 1)]);
        // Needed before it was wanted: until then the contract is what held it up.
        assert_eq!(shared(0, &batch, 31, None), [(QueueAhead, 4), (Disk, 16), (WakeUp, 1)]);
        assert_eq!(shared(20, &batch, 30, None), [(Disk, 10)]);
        // It was there.
        assert_eq!(shared(30, &batch, 31, None), []);
    }

    #[test]
    fn what_was_not_told_apart_is_named_so() {
        for (through, cause) in [
            (Through::Disk, Cause::Disk),
            (Through::Metadata, Cause::DiskOrMetadata),
            (Through::Cache, Cause::PageCache),
        ] {
            assert_eq!(shared(14, &Batch { through, ..batch() }, 30, None), [(cause, 16)]);
            // A trace without its requests tells nothing.
            assert_eq!(
                shared(14, &Batch { through, ..batch() }, 30, Some(&Inside::default())),
                [(cause, 16)]
            );
        }
    }

    #[test]
    fn the_thread_that_serves_has_its_own_part() {
        use Cause::{Disk, QueueAhead, ServingCpu, WakeUp};
        let late = Batch { ready: (MS(1), MS(5)), ..batch() };
        let parts = [(QueueAhead, 3), (ServingCpu, 6), (Disk, 11), (WakeUp, 2)];
        assert_eq!(shared(10, &late, 32, None), parts);
        // No more than there was time.
        let late = Batch { ready: (MS(100), MS(100)), ..batch() };
        assert_eq!(shared(10, &late, 30, None), [(ServingCpu, 20)]);
    }

    #[test]
    fn what_a_trace_tells_divides_the_time_in_the_kernel() {
        use Cause::{Device, Metadata, QueueAhead, Scheduler, ServingCpu, WakeUp};
        let inside = Inside { queued: MS(16), device: vec![(MS(22), MS(27)), (MS(17), MS(20))] };
        let of = |needed, went_on| shared(needed, &batch(), went_on, Some(&inside));
        let all = [(QueueAhead, 4), (ServingCpu, 3), (Metadata, 2), (Scheduler, 3), (Device, 8), (WakeUp, 1)];
        assert_eq!(of(10, 31), all);
        assert_eq!(of(26, 30), [(ServingCpu, 3), (Device, 1)]);
        // Two in the device at a time are one wait.
        let two = Inside { queued: MS(14), device: vec![(MS(14), MS(25)), (MS(15), MS(30))] };
        assert_eq!(shared(14, &batch(), 30, Some(&two)), [(Device, 16)]);
    }

    #[test]
    fn words_name_what_there_was() {
        let mut waits = Waits::default();
        assert_eq!(Waits::in_words(&[waits]), None);
        waits.add_call(Cause::Metadata, MS(5), MS(5));
        assert_eq!(Waits::in_words(&[waits]), None);
        waits.add_call(Cause::Metadata, MS(5), MS(7));
        let words =
            "1 under-run; in all of its own one thread waited up to 2.000 ms for metadata of the file system";
        assert_eq!(Waits::in_words(&[waits]).as_deref(), Some(words));
        assert!(Waits::in_words(&[waits, waits]).is_some_and(|words| words.starts_with("2 under-runs; in")));
        for (number, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, number);
            assert!(Cause::ALL.iter().all(|other| other == cause || other.key() != cause.key()));
        }
    }
}
