//! The structures that go over the border, as `include/surety-stream.h` has them: numbers of 64 bits alone, the first of which is the structure's size.
//! So each can get more at its end, and programs that were compiled before that go on.

use surety_stream::{Cause, Rest};
use surety_units::{Nanos, Rate};

use crate::failure::Failure;

/// `SURETY_REPEATS`: the file begins again at its end.
pub const REPEATS: u64 = 1;
/// `SURETY_PAUSED`: nothing is fetched before `surety_resume`.
pub const PAUSED: u64 = 2;

/// Bytes of a structure at most; more is no structure.
const SIZE_MAX: u64 = 4096;

/// `struct surety_contract`. Of all but the rate 0 is the default of [`surety_stream::Contract`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// Bytes of this structure.
    pub size: u64,
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that the program takes at once.
    pub access: u64,
    /// How much the program, or the disk, may be late.
    pub jitter_ns: u64,
    /// Bytes fetched at once.
    pub batch: u64,
    /// Bytes of the play-out buffer.
    pub buffer: u64,
    /// The longest that a batch takes, where that was admitted; 0: it was not.
    pub bound_ns: u64,
    /// Bytes that will be written; 0: not known.
    pub length: u64,
    /// What is written is brought to the medium each time so much of the stream was; 0: when the program asks for it.
    pub flush_ns: u64,
    /// [`REPEATS`], [`PAUSED`].
    pub flags: u64,
}

impl Contract {
    /// Bytes of it that there are to be at least: of its first version.
    const SIZE_MIN: u64 = 80;

    /// The size that a structure says it has.
    ///
    /// # Errors
    /// EINVAL: less than the first version had; E2BIG: more than any will have.
    pub(crate) fn check(size: u64) -> Result<usize, Failure> {
        check("contract", "SURETY_CONTRACT(rate)", size, Contract::SIZE_MIN)
    }

    /// From its bytes, as many as [`Contract::check`] found right.
    ///
    /// # Errors
    /// E2BIG where it says something that this version does not know.
    pub(crate) fn read(bytes: &[u8]) -> Result<Contract, Failure> {
        let mut numbers = bytes.chunks(8).map(|chunk| {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(number)
        });
        let mut next = || numbers.next().unwrap_or(0);
        let contract = Contract {
            size: next(),
            rate: next(),
            access: next(),
            jitter_ns: next(),
            batch: next(),
            buffer: next(),
            bound_ns: next(),
            length: next(),
            flush_ns: next(),
            flags: next(),
        };
        if numbers.any(|number| number != 0) {
            let words = "the contract has a field that this version of libsurety-stream does not know, and it is not 0";
            return Err(Failure::new(libc::E2BIG, words));
        }
        Ok(contract)
    }

    /// What it promises.
    ///
    /// # Errors
    /// EINVAL: unknown flags, times beyond 292 years.
    pub(crate) fn promised(&self) -> Result<surety_stream::Contract, Failure> {
        if self.flags & !(REPEATS | PAUSED) != 0 {
            return Err(Failure::invalid(format!("the contract has unknown flags: {:#x}", self.flags)));
        }
        let time = |name: &str, ns: u64| match i64::try_from(ns) {
            Ok(ns) => Ok(Nanos::new(ns)),
            Err(_) => Err(Failure::invalid(format!("the contract's {name} is {ns}: was it negative?"))),
        };
        let (jitter, bound) = (time("jitter_ns", self.jitter_ns)?, time("bound_ns", self.bound_ns)?);
        let flush = time("flush_ns", self.flush_ns)?;
        let mut contract = surety_stream::Contract::new(Rate(self.rate));
        contract.access = if self.access == 0 { contract.access } else { self.access };
        contract.jitter = if jitter == Nanos::ZERO { contract.jitter } else { jitter };
        contract.batch = if self.batch == 0 { contract.batch } else { self.batch };
        contract.buffer = Some(self.buffer).filter(|bytes| *bytes != 0);
        contract.bound = Some(bound).filter(|bound| *bound != Nanos::ZERO);
        contract.length = Some(self.length).filter(|bytes| *bytes != 0);
        contract.flush = Some(flush).filter(|flush| *flush != Nanos::ZERO);
        contract.repeats = self.flags & REPEATS != 0;
        contract.is_paused = self.flags & PAUSED != 0;
        Ok(contract)
    }
}

/// `struct surety_stats`: what happened to a stream since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of this structure.
    pub size: u64,
    /// Batches that are complete, and bytes of the stream in them.
    pub batches: u64,
    /// Of the file.
    pub bytes: u64,
    /// The longest from wanting a batch, and having the one before it, until it was complete.
    pub worst_batch_ns: u64,
    /// The longest in the kernel and the device; a batch may be there behind the one before it, so this can be the longer one.
    pub worst_in_device_ns: u64,
    /// Batches that took longer than `bound_ns`.
    pub beyond_bound: u64,
    /// Bytes ahead of the program when a batch came, the fewest; all ones: none came while it read.
    pub least_ahead: u64,
    /// Calls that a program no faster than its contract had to wait in.
    pub under_runs: u64,
    /// How long they waited for batches of other streams.
    pub waited_queue_ns: u64,
    /// For the I/O scheduler or the device; of what is written, for metadata that it changes too.
    pub waited_device_ns: u64,
    /// For a CPU for the program.
    pub waited_cpu_ns: u64,
    /// Bytes of memory that the stream has.
    pub buffer: u64,
    /// Times that what was written was brought to the medium.
    pub syncs: u64,
    /// The longest of them.
    pub worst_sync_ns: u64,
    /// How long calls waited for a CPU for the thread that serves the disk.
    pub waited_serving_cpu_ns: u64,
    /// For the page cache.
    pub waited_page_cache_ns: u64,
    /// For metadata, in calls of their own.
    pub waited_metadata_ns: u64,
    /// Times so far in which no batch of the disk's streams of this process was at it.
    pub rests: u64,
    /// Together.
    pub rested_ns: u64,
    /// The longest.
    pub longest_rest_ns: u64,
}

impl Stats {
    const NUMBERS: usize = size_of::<Stats>() / 8;
    /// Bytes of its first version.
    const SIZE_MIN: u64 = 112;

    /// As [`Contract::check`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check(size: u64) -> Result<usize, Failure> {
        check("stats", "SURETY_STATS", size, Stats::SIZE_MIN)
    }

    pub(crate) fn of(stats: &surety_stream::Stats, buffer: u64, rest: &Rest) -> Stats {
        let waited = |cause| stats.waits.of(cause).get_unsigned();
        // No trace is looked at here, so the first two are 0.
        let device = [Cause::Scheduler, Cause::Device, Cause::Disk, Cause::DiskOrMetadata].map(waited);
        Stats {
            size: size_of::<Stats>() as u64,
            batches: stats.batches,
            bytes: stats.bytes,
            worst_batch_ns: stats.worst_batch.get_unsigned(),
            worst_in_device_ns: stats.worst_in_device.get_unsigned(),
            beyond_bound: stats.beyond_bound,
            least_ahead: stats.least_ahead.unwrap_or(u64::MAX),
            under_runs: stats.waits.under_runs,
            waited_queue_ns: waited(Cause::QueueAhead),
            waited_device_ns: device.iter().sum(),
            waited_cpu_ns: waited(Cause::WakeUp),
            buffer,
            syncs: stats.syncs,
            worst_sync_ns: stats.worst_sync.get_unsigned(),
            waited_serving_cpu_ns: waited(Cause::ServingCpu),
            waited_page_cache_ns: waited(Cause::PageCache),
            waited_metadata_ns: waited(Cause::Metadata),
            rests: rest.count,
            rested_ns: rest.total.get_unsigned(),
            longest_rest_ns: rest.longest.get_unsigned(),
        }
    }

    /// Its bytes for a structure of another size: no more than that, and zeros for what this version does not know.
    pub(crate) fn bytes(&self, size: usize) -> Vec<u8> {
        let numbers: [u64; Stats::NUMBERS] = [
            size as u64,
            self.batches,
            self.bytes,
            self.worst_batch_ns,
            self.worst_in_device_ns,
            self.beyond_bound,
            self.least_ahead,
            self.under_runs,
            self.waited_queue_ns,
            self.waited_device_ns,
            self.waited_cpu_ns,
            self.buffer,
            self.syncs,
            self.worst_sync_ns,
            self.waited_serving_cpu_ns,
            self.waited_page_cache_ns,
            self.waited_metadata_ns,
            self.rests,
            self.rested_ns,
            self.longest_rest_ns,
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        bytes.resize(size, 0);
        bytes
    }
}

fn check(name: &str, initialiser: &str, size: u64, least: u64) -> Result<usize, Failure> {
    if size < least {
        let words = format!(
            "the size of the {name} is {size}, at least {least} is right: initialise it with {initialiser}"
        );
        return Err(Failure::invalid(words));
    }
    if size > SIZE_MAX {
        return Err(Failure::new(
            libc::E2BIG,
            format!("the size of the {name} is {size}, at most {SIZE_MAX} is right"),
        ));
    }
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contract as C hands it over, with more behind it.
    fn handed(numbers: &[u64]) -> Result<Contract, Failure> {
        Contract::check(numbers[0])?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Contract::read(&bytes)
    }

    #[test]
    fn nothing_is_the_default_of_the_streams() {
        let contract = handed(&[80, 1000, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(contract.promised().unwrap(), surety_stream::Contract::new(Rate(1000)));
        let all = handed(&[80, 1, 2, 3, 4, 5, 6, 7, 8, REPEATS | PAUSED]).unwrap().promised().unwrap();
        assert_eq!((all.rate, all.access, all.jitter, all.batch), (Rate(1), 2, Nanos::new(3), 4));
        assert_eq!(
            (all.buffer, all.bound, all.length, all.flush),
            (Some(5), Some(Nanos::new(6)), Some(7), Some(Nanos::new(8)))
        );
        assert!(all.repeats && all.is_paused);
    }

    #[test]
    fn structures_of_other_versions_are_taken_or_refused() {
        // Of a later one, which asks for nothing new.
        assert_eq!(handed(&[88, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap().rate, 1000);
        assert_eq!(handed(&[88, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap_err().errno, libc::E2BIG);
        assert_eq!(handed(&[5000]).unwrap_err().errno, libc::E2BIG);
        let nothing = handed(&[0]).unwrap_err();
        assert!(nothing.words.contains("initialise it with SURETY_CONTRACT(rate)"), "{}", nothing.words);
        let rest = Rest { count: 5, ..Rest::default() };
        let stats = Stats::of(&surety_stream::Stats { batches: 7, ..Default::default() }, 9, &rest);
        // Of the first version, of this one, and of a later one.
        let (first, now, later) = (stats.bytes(112), stats.bytes(160), stats.bytes(168));
        assert_eq!((first[8], first[88], first.len()), (7, 9, 112));
        assert_eq!((&now[8..112], now[136], size_of::<Stats>()), (&first[8..], 5, 160));
        assert_eq!((&later[8..160], &later[160..]), (&now[8..], &[0_u8; 8][..]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |contract: Contract| contract.promised().unwrap_err().words;
        let contract = Contract { rate: 1, ..Contract::default() };
        assert_eq!(refused(Contract { flags: 4, ..contract }), "the contract has unknown flags: 0x4");
        assert!(refused(Contract { jitter_ns: u64::MAX, ..contract }).contains("negative"));
    }
}
