//! [`SchedPolicy`] and [`SchedAttr`]: a thread's scheduling as the kernel's `struct sched_attr` says it.
//!
//! Follows `include/uapi/linux/sched/types.h` and `kernel/sched/syscalls.c`. Since 6.12 the kernel reads a fair
//! thread's slice back in `sched_runtime`, and accepts one there.

use serde::{Deserialize, Serialize};
use surety_units::{Bandwidth, CpuSet, Nanos, Tid};

use crate::error::{KernelError, Operation, check};

/// Bits of `sched_attr.sched_flags` (`include/uapi/linux/sched.h`).
pub mod flags {
    /// Children start with the default policy.
    pub const RESET_ON_FORK: u64 = 0x01;
    /// Reclaim bandwidth others leave unused (GRUB).
    pub const RECLAIM: u64 = 0x02;
    /// Send SIGXCPU when the runtime is overrun.
    pub const DL_OVERRUN: u64 = 0x04;
    /// `sched_util_min` is given.
    pub const UTIL_CLAMP_MIN: u64 = 0x20;
    /// `sched_util_max` is given.
    pub const UTIL_CLAMP_MAX: u64 = 0x40;
}

/// The least runtime SCHED_DEADLINE accepts (`DL_SCALE` 10 bits in `kernel/sched/deadline.c`).
pub const DEADLINE_RUNTIME_MIN: Nanos = Nanos::new(1024);
/// The longest period SCHED_DEADLINE accepts by default: 2^22 us.
pub const DEADLINE_PERIOD_MAX: Nanos = Nanos::new(4_194_304_000);
/// Utilisation clamps run from 0 to this.
pub const UTIL_SCALE: u32 = 1024;

/// A scheduling policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum SchedPolicy {
    /// SCHED_OTHER: the fair scheduler.
    Other {
        /// -20 (most) to 19 (least).
        nice: i32,
        /// The requested slice; `None` is the kernel's base slice. Kernels before 6.12 ignore it.
        slice: Option<Nanos>,
    },
    /// SCHED_BATCH: fair, without preempting others at wake-up.
    Batch {
        /// -20 to 19.
        nice: i32,
    },
    /// SCHED_IDLE: the least weight.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// 1 (least) to 99 (most).
        priority: u32,
    },
    /// SCHED_RR.
    RoundRobin {
        /// 1 (least) to 99 (most).
        priority: u32,
    },
    /// SCHED_DEADLINE: a constant-bandwidth server under earliest deadline first.
    Deadline {
        /// CPU time in each period, at least [`DEADLINE_RUNTIME_MIN`].
        runtime: Nanos,
        /// Relative deadline, between runtime and period.
        deadline: Nanos,
        /// Period of replenishment.
        period: Nanos,
        /// Take bandwidth others leave unused.
        reclaim: bool,
        /// Send SIGXCPU when the runtime is overrun.
        overrun_signal: bool,
    },
    /// SCHED_EXT: a scheduler loaded as BPF.
    Ext {
        /// -20 to 19.
        nice: i32,
    },
}

impl SchedPolicy {
    /// What a thread has that nobody changed.
    pub const DEFAULT: SchedPolicy = SchedPolicy::Other { nice: 0, slice: None };

    /// A plain reservation: neither reclaiming nor signalling.
    pub fn deadline(runtime: Nanos, deadline: Nanos, period: Nanos) -> SchedPolicy {
        SchedPolicy::Deadline { runtime, deadline, period, reclaim: false, overrun_signal: false }
    }

    /// The policy's name as the kernel's headers have it.
    pub fn name(&self) -> &'static str {
        match self {
            SchedPolicy::Other { .. } => "SCHED_OTHER",
            SchedPolicy::Batch { .. } => "SCHED_BATCH",
            SchedPolicy::Idle => "SCHED_IDLE",
            SchedPolicy::Fifo { .. } => "SCHED_FIFO",
            SchedPolicy::RoundRobin { .. } => "SCHED_RR",
            SchedPolicy::Deadline { .. } => "SCHED_DEADLINE",
            SchedPolicy::Ext { .. } => "SCHED_EXT",
        }
    }

    /// The bandwidth that admission books, in the kernel's 20-bit fixed point; 0 for every class but DEADLINE.
    pub fn booked_bandwidth(&self) -> u64 {
        match self {
            SchedPolicy::Deadline { runtime, period, .. } => {
                Bandwidth::of(*runtime, *period).map_or(0, Bandwidth::to_kernel)
            }
            _ => 0,
        }
    }

    /// Whether this is SCHED_DEADLINE.
    pub fn is_deadline(&self) -> bool {
        matches!(self, SchedPolicy::Deadline { .. })
    }

    /// The operation that setting this policy is, for errors.
    pub(crate) fn set_operation(&self) -> Operation {
        match self {
            SchedPolicy::Deadline { .. } => Operation::SetDeadline,
            SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. } => Operation::SetRealtime,
            _ => Operation::SetFair,
        }
    }
}

/// The file that says which kernel runs.
pub const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Whether a kernel of this release keeps a fair thread's own slice (from 6.12 on); `None` where the release has no numbers.
pub fn keeps_slices(release: &str) -> Option<bool> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?) >= (6, 12))
}

/// A thread's policy and the attributes beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedAttr {
    pub policy: SchedPolicy,
    /// Children start with the default policy. A DEADLINE thread can start others only with this set.
    pub reset_on_fork: bool,
    /// Utilisation is taken as at least this, of [`UTIL_SCALE`]. Read: `None` is the default. Set: `None` leaves it.
    pub util_min: Option<u32>,
    /// Utilisation is taken as at most this, of [`UTIL_SCALE`]. Read: `None` is the default. Set: `None` leaves it.
    pub util_max: Option<u32>,
}

impl From<SchedPolicy> for SchedAttr {
    fn from(policy: SchedPolicy) -> SchedAttr {
        SchedAttr { policy, reset_on_fork: false, util_min: None, util_max: None }
    }
}

impl SchedAttr {
    /// What to set to come back to `self`, read before `changed` was set: clamps that `changed` gave and `self`
    /// had by default are given their defaults.
    pub fn undoing(&self, changed: &SchedAttr) -> SchedAttr {
        SchedAttr {
            util_min: self.util_min.or(changed.util_min.map(|_| 0)),
            util_max: self.util_max.or(changed.util_max.map(|_| UTIL_SCALE)),
            ..*self
        }
    }

    /// Whether `self`, as read back, is what setting `wanted` leaves.
    pub fn is_result_of(&self, wanted: &SchedAttr) -> bool {
        let clamp = |read: Option<u32>, wanted: Option<u32>, default| {
            wanted.is_none_or(|wanted| read.unwrap_or(default) == wanted)
        };
        self.policy == wanted.policy
            && self.reset_on_fork == wanted.reset_on_fork
            && clamp(self.util_min, wanted.util_min, 0)
            && clamp(self.util_max, wanted.util_max, UTIL_SCALE)
    }
}

/// The kernel's `struct sched_attr`, version 1 (56 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSchedAttr {
    /// Size of the structure.
    pub size: u32,
    /// SCHED_* number.
    pub sched_policy: u32,
    /// Bits of [`flags`].
    pub sched_flags: u64,
    /// Of fair policies.
    pub sched_nice: i32,
    /// Of SCHED_FIFO and SCHED_RR.
    pub sched_priority: u32,
    /// Of SCHED_DEADLINE, ns; the slice of fair policies.
    pub sched_runtime: u64,
    /// Of SCHED_DEADLINE, ns.
    pub sched_deadline: u64,
    /// Of SCHED_DEADLINE, ns.
    pub sched_period: u64,
    /// Lower clamp.
    pub sched_util_min: u32,
    /// Upper clamp.
    pub sched_util_max: u32,
}

const RAW_SIZE: u32 = size_of::<RawSchedAttr>() as u32;
const SCHED_OTHER: u32 = 0;
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const SCHED_DEADLINE: u32 = 6;
const SCHED_EXT: u32 = 7;

impl From<&SchedAttr> for RawSchedAttr {
    fn from(attr: &SchedAttr) -> RawSchedAttr {
        let mut raw = RawSchedAttr { size: RAW_SIZE, ..RawSchedAttr::default() };
        match attr.policy {
            SchedPolicy::Other { nice, slice } => {
                (raw.sched_policy, raw.sched_nice) = (SCHED_OTHER, nice);
                raw.sched_runtime = slice.map_or(0, Nanos::get_unsigned);
            }
            SchedPolicy::Batch { nice } => (raw.sched_policy, raw.sched_nice) = (SCHED_BATCH, nice),
            SchedPolicy::Idle => raw.sched_policy = SCHED_IDLE,
            SchedPolicy::Ext { nice } => (raw.sched_policy, raw.sched_nice) = (SCHED_EXT, nice),
            SchedPolicy::Fifo { priority } => (raw.sched_policy, raw.sched_priority) = (SCHED_FIFO, priority),
            SchedPolicy::RoundRobin { priority } => {
                (raw.sched_policy, raw.sched_priority) = (SCHED_RR, priority)
            }
            SchedPolicy::Deadline { runtime, deadline, period, reclaim, overrun_signal } => {
                raw.sched_policy = SCHED_DEADLINE;
                raw.sched_runtime = runtime.get_unsigned();
                raw.sched_deadline = deadline.get_unsigned();
                raw.sched_period = period.get_unsigned();
                raw.sched_flags |= if reclaim { flags::RECLAIM } else { 0 };
                raw.sched_flags |= if overrun_signal { flags::DL_OVERRUN } else { 0 };
            }
        }
        raw.sched_flags |= if attr.reset_on_fork { flags::RESET_ON_FORK } else { 0 };
        if let Some(min) = attr.util_min {
            raw.sched_flags |= flags::UTIL_CLAMP_MIN;
            raw.sched_util_min = min;
        }
        if let Some(max) = attr.util_max {
            raw.sched_flags |= flags::UTIL_CLAMP_MAX;
            raw.sched_util_max = max;
        }
        raw
    }
}

impl TryFrom<&RawSchedAttr> for SchedAttr {
    type Error = i32;

    /// Reads the kernel's answer; a policy number nobody knows is EINVAL.
    fn try_from(raw: &RawSchedAttr) -> Result<SchedAttr, i32> {
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let policy = match raw.sched_policy {
            SCHED_OTHER => SchedPolicy::Other {
                nice: raw.sched_nice,
                slice: (raw.sched_runtime != 0).then(|| time(raw.sched_runtime)),
            },
            SCHED_BATCH => SchedPolicy::Batch { nice: raw.sched_nice },
            SCHED_IDLE => SchedPolicy::Idle,
            SCHED_EXT => SchedPolicy::Ext { nice: raw.sched_nice },
            SCHED_FIFO => SchedPolicy::Fifo { priority: raw.sched_priority },
            SCHED_RR => SchedPolicy::RoundRobin { priority: raw.sched_priority },
            SCHED_DEADLINE => SchedPolicy::Deadline {
                runtime: time(raw.sched_runtime),
                deadline: time(raw.sched_deadline),
                period: time(raw.sched_period),
                reclaim: raw.sched_flags & flags::RECLAIM != 0,
                overrun_signal: raw.sched_flags & flags::DL_OVERRUN != 0,
            },
            _ => return Err(libc::EINVAL),
        };
        // A kernel without clamping leaves both at 0; a maximum of 0 is then "not there", not "no speed at all".
        Ok(SchedAttr {
            policy,
            reset_on_fork: raw.sched_flags & flags::RESET_ON_FORK != 0,
            util_min: (raw.sched_util_min != 0).then_some(raw.sched_util_min),
            util_max: (raw.sched_util_max != 0 && raw.sched_util_max != UTIL_SCALE)
                .then_some(raw.sched_util_max),
        })
    }
}

/// One `sched_setattr` call; thread 0 is the caller. Nothing protects against the bandwidth leak here: use
/// [`crate::transition::set_scheduler`].
pub(crate) fn write_attr(tid: Tid, attr: &SchedAttr) -> Result<(), KernelError> {
    write_attr_plainly(tid, attr)
        .map_err(|errno| KernelError::new(attr.policy.set_operation(), format!("thread {tid}"), errno))
}

/// As [`write_attr`], without allocating: usable between fork and exec.
pub(crate) fn write_attr_plainly(tid: Tid, attr: &SchedAttr) -> Result<(), i32> {
    write_raw(tid, &RawSchedAttr::from(attr))
}

/// One `sched_setattr` call with the structure as it is, rules of the kernel broken or not; the error is its errno.
///
/// For whoever wants to hear what the kernel says: nothing protects against the bandwidth leak here, see
/// [`crate::transition::set_scheduler`].
pub fn write_raw(tid: Tid, raw: &RawSchedAttr) -> Result<(), i32> {
    let raw = RawSchedAttr { size: RAW_SIZE, ..*raw };
    // SAFETY: the kernel reads `size` bytes of a structure of exactly that size, which lives over the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid.0, &raw const raw, 0_u32) };
    check(result).map(|_| ())
}

/// One `sched_getattr` call; thread 0 is the caller. The slice of a fair thread is as the kernel says it.
pub fn read_attr(tid: Tid) -> Result<SchedAttr, KernelError> {
    let error = |errno| KernelError::new(Operation::ReadScheduler, format!("thread {tid}"), errno);
    let mut raw = RawSchedAttr::default();
    // SAFETY: the kernel writes at most RAW_SIZE bytes into a structure of that size, which lives over the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid.0, &raw mut raw, RAW_SIZE, 0_u32) };
    check(result).map_err(error)?;
    SchedAttr::try_from(&raw).map_err(error)
}

/// Sets a thread's CPU affinity; thread 0 is the caller.
pub(crate) fn write_affinity(tid: Tid, cpus: &CpuSet) -> Result<(), KernelError> {
    write_affinity_plainly(tid, cpus).map_err(|errno| {
        KernelError::new(Operation::SetAffinity, format!("thread {tid}, CPUs {cpus},"), errno)
    })
}

/// As [`write_affinity`], without allocating: usable between fork and exec.
pub(crate) fn write_affinity_plainly(tid: Tid, cpus: &CpuSet) -> Result<(), i32> {
    let words = cpus.as_words();
    // SAFETY: the kernel reads as many bytes of the mask as its length says; the mask lives over the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid.0, size_of_val(words), words.as_ptr()) };
    check(result).map(|_| ())
}

/// A thread's CPU affinity; thread 0 is the caller.
pub(crate) fn read_affinity(tid: Tid) -> Result<CpuSet, KernelError> {
    let mut words = *CpuSet::EMPTY.as_words();
    // SAFETY: the kernel writes at most as many bytes as the length says into a mask of that length.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid.0, size_of_val(&words), words.as_mut_ptr()) };
    check(result)
        .map_err(|errno| KernelError::new(Operation::ReadAffinity, format!("thread {tid}"), errno))?;
    Ok(CpuSet::from_words(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_structure_has_the_kernels_layout() {
        assert_eq!(size_of::<RawSchedAttr>(), 56);
        assert_eq!(std::mem::offset_of!(RawSchedAttr, sched_runtime), 24);
        assert_eq!(std::mem::offset_of!(RawSchedAttr, sched_util_max), 52);
    }

    fn any_policy() -> impl Strategy<Value = SchedPolicy> {
        let time = || (1..=Nanos::STORED_MAX.get()).prop_map(Nanos::new);
        prop_oneof![
            (-20..20, proptest::option::of(time()))
                .prop_map(|(nice, slice)| SchedPolicy::Other { nice, slice }),
            (-20..20).prop_map(|nice| SchedPolicy::Batch { nice }),
            Just(SchedPolicy::Idle),
            (-20..20).prop_map(|nice| SchedPolicy::Ext { nice }),
            (1..100_u32).prop_map(|priority| SchedPolicy::Fifo { priority }),
            (1..100_u32).prop_map(|priority| SchedPolicy::RoundRobin { priority }),
            (time(), time(), time(), any::<bool>(), any::<bool>()).prop_map(
                |(runtime, deadline, period, reclaim, overrun_signal)| SchedPolicy::Deadline {
                    runtime,
                    deadline,
                    period,
                    reclaim,
                    overrun_signal
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn attributes_read_back_as_they_were_written(
            policy in any_policy(),
            reset_on_fork: bool,
            util_min in proptest::option::of(1..=UTIL_SCALE),
            util_max in proptest::option::of(1..UTIL_SCALE),
        ) {
            let attr = SchedAttr { policy, reset_on_fork, util_min, util_max };
            prop_assert_eq!(SchedAttr::try_from(&RawSchedAttr::from(&attr)), Ok(attr));
            let text = serde_json::to_string(&attr).unwrap();
            prop_assert_eq!(serde_json::from_str::<SchedAttr>(&text).unwrap(), attr);
        }
    }

    #[test]
    fn an_unknown_policy_is_an_error_not_a_guess() {
        let raw = RawSchedAttr { sched_policy: 42, ..RawSchedAttr::default() };
        assert_eq!(SchedAttr::try_from(&raw), Err(libc::EINVAL));
    }

    #[test]
    fn undoing_resets_clamps_that_were_given() {
        let old = SchedAttr::from(SchedPolicy::DEFAULT);
        let set = SchedAttr { util_min: Some(300), ..old };
        assert_eq!(old.undoing(&set).util_min, Some(0));
        assert_eq!(old.undoing(&set).util_max, None);
        assert!(old.is_result_of(&old.undoing(&set)));
        assert!(!set.is_result_of(&old.undoing(&set)));
    }
}
