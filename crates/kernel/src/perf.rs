//! [`ThreadSwitches`]: when a thread was switched in and out, for an ordinary user.
//!
//! Tracefs needs root. An ordinary user may open performance events of their own threads where
//! `kernel.perf_event_paranoid` is at most 2. A software event that counts nothing carries PERF_RECORD_SWITCH
//! records with CLOCK_MONOTONIC times (`include/uapi/linux/perf_event.h`, `perf_event_switch` in
//! `kernel/events/core.c`). They tell a preemption from a thread that went to sleep; they do not tell who ran
//! instead, nor when the thread was woken.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use surety_units::{Bytes, CpuId, Nanos, Tid};

use crate::error::{KernelError, Operation, check, last_errno};

/// One record of a thread's scheduling. Times are CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchRecord {
    /// The thread got a CPU.
    In {
        /// When.
        time: Nanos,
        cpu: CpuId,
    },
    /// The thread lost its CPU.
    Out {
        /// When.
        time: Nanos,
        cpu: CpuId,
        /// It still wanted to run; otherwise it went to sleep or ended.
        preempted: bool,
    },
    /// Records are missing here: the buffer was full. What was known about the thread is void.
    Lost { count: u64 },
}

/// The scheduling records of one thread. Read at leisure by any thread of the process.
#[derive(Debug)]
pub struct ThreadSwitches {
    tid: Tid,
    event: OwnedFd,
    ring: Ring,
}

/// `struct perf_event_attr` up to its clock (version 3, 96 bytes).
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

const TYPE_SOFTWARE: u32 = 1;
const CONFIG_DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const OPEN_CLOSE_ON_EXEC: u64 = 1 << 3;

const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Bytes of a record's header: kind (u32), flags (u16), length (u16).
const HEADER: usize = 8;
/// Bytes of the identity after a record: pid, tid (u32), time (u64), cpu, reserved (u32).
const IDENTITY: usize = 24;

impl ThreadSwitches {
    /// Starts recording one thread of the caller's process or user; thread 0 is the caller. `buffer` is rounded
    /// up to a power of two of pages; a record takes 32 bytes. Threads it starts are not followed.
    ///
    /// # Errors
    /// EACCES or EPERM where `kernel.perf_event_paranoid` is above 2 or the buffers exceed
    /// `kernel.perf_event_mlock_kb` and RLIMIT_MEMLOCK; ESRCH when the thread has ended.
    pub fn open(tid: Tid, buffer: Bytes) -> Result<ThreadSwitches, KernelError> {
        let failed = |errno| KernelError::new(Operation::OpenPerf, format!("thread {tid}"), errno);
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: CONFIG_DUMMY,
            sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
            // Nothing is counted, so leaving the kernel out costs nothing and is what an ordinary user may ask.
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | SAMPLE_ID_ALL | USE_CLOCK | CONTEXT_SWITCH,
            clock: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        // SAFETY: the kernel reads `size` bytes of a structure of that size; the rest are integers.
        let event = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attr, tid.0, -1, -1, OPEN_CLOSE_ON_EXEC)
        };
        let event = i32::try_from(check(event).map_err(failed)?).expect("a descriptor fits 32 bits");
        // SAFETY: the kernel just gave this descriptor to us alone.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let ring = Ring::map(event.as_fd(), buffer).map_err(failed)?;
        Ok(ThreadSwitches { tid, event, ring })
    }

    /// The thread recorded, as given to [`ThreadSwitches::open`].
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Hands out every record that is there, oldest first, and frees its place.
    pub fn read(&mut self, mut each: impl FnMut(SwitchRecord)) {
        self.ring.drain(|kind, flags, body| {
            if let Some(record) = decode(kind, flags, body) {
                each(record);
            }
        });
    }
}

impl AsFd for ThreadSwitches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// One record; kinds that say nothing about scheduling are `None`.
fn decode(kind: u32, flags: u16, body: &[u8]) -> Option<SwitchRecord> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    match kind {
        RECORD_LOST => Some(SwitchRecord::Lost { count: long(8)? }),
        RECORD_SWITCH => {
            let identity = body.len().checked_sub(IDENTITY)?;
            let time = Nanos::new(i64::try_from(long(identity + 8)?).ok()?);
            let cpu = CpuId(word(identity + 16)?);
            Some(match flags & MISC_SWITCH_OUT {
                0 => SwitchRecord::In { time, cpu },
                _ => SwitchRecord::Out { time, cpu, preempted: flags & MISC_SWITCH_OUT_PREEMPT != 0 },
            })
        }
        _ => None,
    }
}

/// The kernel's ring of records, mapped: a control page, then a power of two of data pages.
#[derive(Debug)]
struct Ring {
    map: *mut u8,
    length: usize,
    data_offset: usize,
    data_size: usize,
    record: Vec<u8>,
}

// SAFETY: the mapping belongs to the ring alone and is not tied to the thread that made it; `drain` needs `&mut`.
unsafe impl Send for Ring {}

/// Where the control page (`struct perf_event_mmap_page`) has the kernel's and the reader's position.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

impl Ring {
    fn map(event: BorrowedFd<'_>, buffer: Bytes) -> Result<Ring, i32> {
        let page = rustix::param::page_size();
        let wanted = usize::try_from(buffer.0).map_err(|_| libc::EINVAL)?;
        let pages = wanted.div_ceil(page).max(1).checked_next_power_of_two().ok_or(libc::EINVAL)?;
        let length = pages.checked_add(1).and_then(|n| n.checked_mul(page)).ok_or(libc::EINVAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(last_errno());
        }
        // Data begin at the second page; this is the layout of every kernel, fields that say so came with 4.1.
        Ok(Ring { map: map.cast(), length, data_offset: page, data_size: pages * page, record: Vec::new() })
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of two offsets inside the control page, 8-aligned; the mapping lives as long as
        // `self`; the kernel accesses the word as a whole, as atomics do.
        unsafe { AtomicU64::from_ptr(self.map.add(at).cast()) }
    }

    /// Copies records out one by one and gives their place back at the end.
    fn drain(&mut self, mut each: impl FnMut(u32, u16, &[u8])) {
        // Acquire: the records before the head must be visible before they are read.
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        let mut record = std::mem::take(&mut self.record);
        while tail < head {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let flags = u16::from_ne_bytes([header[4], header[5]]);
            let length = u64::from(u16::from_ne_bytes([header[6], header[7]]));
            if length < HEADER as u64 || length > head - tail {
                // Cannot happen with a sound kernel; going on would read garbage for ever.
                tail = head;
                break;
            }
            record.resize(length as usize - HEADER, 0);
            self.copy(tail + HEADER as u64, &mut record);
            each(kind, flags, &record);
            tail += length;
        }
        self.record = record;
        // Release: the kernel may overwrite the records only after they were read.
        self.position(TAIL_AT).store(tail, Ordering::Release);
    }

    /// Copies bytes at a position of the ring, around its end where needed.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let start = (position % self.data_size as u64) as usize;
        let first = to.len().min(self.data_size - start);
        let (before_end, wrapped) = to.split_at_mut(first);
        // SAFETY: both ranges are inside the data pages (no record is longer than them), which live as long as
        // `self`; the kernel does not write between tail and head, where `position` lies.
        unsafe {
            let data = self.map.add(self.data_offset);
            std::ptr::copy_nonoverlapping(data.add(start), before_end.as_mut_ptr(), before_end.len());
            std::ptr::copy_nonoverlapping(data, wrapped.as_mut_ptr(), wrapped.len());
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, unmapped once; nothing borrows from it any more.
        unsafe { libc::munmap(self.map.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn the_structure_has_the_kernels_layout() {
        assert_eq!(size_of::<Attr>(), 96);
        assert_eq!(std::mem::offset_of!(Attr, clock), 92);
    }

    #[test]
    fn records_are_read_by_their_bytes() {
        let identity: Vec<u8> = [7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()]
            .concat()
            .into_iter()
            .chain(5_000_u64.to_ne_bytes())
            .chain(3_u32.to_ne_bytes())
            .chain([0; 4])
            .collect();
        let (time, cpu) = (Nanos::new(5_000), CpuId(3));
        let lost: Vec<u8> = [1_u64.to_ne_bytes(), 42_u64.to_ne_bytes()].concat();
        let cases = [
            (RECORD_SWITCH, 0, &identity, Some(SwitchRecord::In { time, cpu })),
            (
                RECORD_SWITCH,
                MISC_SWITCH_OUT,
                &identity,
                Some(SwitchRecord::Out { time, cpu, preempted: false }),
            ),
            (
                RECORD_SWITCH,
                MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT,
                &identity,
                Some(SwitchRecord::Out { time, cpu, preempted: true }),
            ),
            (RECORD_LOST, 0, &lost, Some(SwitchRecord::Lost { count: 42 })),
            (3, 0, &identity, None),
            (RECORD_SWITCH, 0, &vec![0; 4], None),
        ];
        for (kind, flags, body, expected) in cases {
            assert_eq!(decode(kind, flags, body), expected, "kind {kind} flags {flags:#x}");
        }
    }

    /// A thread sleeps some times; its records must alternate and lie in its time.
    fn observe_sleeps() -> Result<(), KernelError> {
        let start = clock::monotonic();
        let mut switches = ThreadSwitches::open(Tid(0), Bytes(64 * 1024))?;
        let before = sleeps_and_preemptions();
        for _ in 0..20 {
            clock::sleep_until(clock::monotonic() + Nanos::from_micros(200), None)?;
        }
        let (after, end) = (sleeps_and_preemptions(), clock::monotonic());
        let mut records = Vec::new();
        // The reader need not be the thread that is observed.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| switches.read(|record| records.push(record)));
            reader.join().expect("the reader does not panic");
        });
        let (mut slept, mut preempted_times, mut last, mut on_cpu) = (0_u64, 0_u64, start, true);
        for record in &records {
            let (time, is_in) = match *record {
                SwitchRecord::In { time, .. } | SwitchRecord::Out { time, .. } if time > end => break,
                SwitchRecord::In { time, .. } => (time, true),
                SwitchRecord::Out { time, preempted, .. } => {
                    slept += u64::from(!preempted);
                    preempted_times += u64::from(preempted);
                    (time, false)
                }
                SwitchRecord::Lost { .. } => panic!("nothing is lost in {} records", records.len()),
            };
            assert!(time >= last, "{records:?}");
            assert_ne!(is_in, on_cpu, "in and out alternate: {records:?}");
            (last, on_cpu) = (time, is_in);
        }
        // One may come between a count and a reading of the clock.
        let counted = (after.0 - before.0, after.1 - before.1);
        assert!(slept.abs_diff(counted.0) <= 1, "{slept} of {counted:?} in {records:?}");
        assert!(preempted_times.abs_diff(counted.1) <= 3, "{preempted_times} of {counted:?} in {records:?}");
        Ok(())
    }

    #[test]
    fn sleeping_is_seen_as_switches_by_any_user() {
        let _alone = crate::testing::machine_wide();
        for as_nobody in [false, true] {
            let result = std::thread::spawn(move || {
                if as_nobody && !crate::testing::become_nobody() {
                    eprintln!("SKIPPED as another user: not root");
                    return Ok(());
                }
                observe_sleeps()
            });
            match result.join().unwrap() {
                Ok(()) => {}
                Err(error) if error.is_refused() => {
                    assert!(error.to_string().contains("perf_event_paranoid"));
                    eprintln!("SKIPPED: {error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// How often the calling thread went to sleep and was preempted so far, as /proc counts it.
    fn sleeps_and_preemptions() -> (u64, u64) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = |key: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            value.trim_start_matches(':').trim().parse::<u64>().unwrap()
        };
        (count("voluntary_ctxt_switches"), count("nonvoluntary_ctxt_switches"))
    }

    fn switches_so_far() -> u64 {
        let (sleeps, preemptions) = sleeps_and_preemptions();
        sleeps + preemptions
    }

    #[test]
    fn a_full_ring_says_what_was_lost() {
        let observed = std::thread::spawn(|| {
            let mut switches = ThreadSwitches::open(Tid(0), Bytes(4096))?;
            let before = switches_so_far();
            for _ in 0..400 {
                std::thread::sleep(std::time::Duration::from_micros(10));
            }
            let (mut kept, mut lost) = (0, 0);
            let mut read = |switches: &mut ThreadSwitches| {
                switches.read(|record| match record {
                    SwitchRecord::Lost { count } => lost += count,
                    _ => kept += 1,
                });
                (kept, lost)
            };
            let (first, _) = read(&mut switches);
            assert!(first > 0 && first <= 4096 / 32, "{first} records in 4096 bytes");
            // The loss is told with the next record that finds room.
            while read(&mut switches).1 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(10));
            }
            let after = switches_so_far();
            let (kept, lost) = read(&mut switches);
            // Each switch is one record out and one in; a switch may come between a count and a reading.
            let (records, expected) = (kept + lost, 2 * (after - before));
            assert!(records.abs_diff(expected) <= 8, "{kept} kept, {lost} lost, {expected} expected");
            Ok::<(), KernelError>(())
        });
        if let Err(error) = observed.join().unwrap() {
            eprintln!("SKIPPED: {error}");
        }
    }
}
