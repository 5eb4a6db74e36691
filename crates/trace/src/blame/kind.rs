//! [`Kind`]: causes by what a reader could change: other programs' requests, the I/O scheduler, the disk, the CPUs.

use super::{Cause, DiskCause, Submitter};

/// What kind of cause it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The disk, or all requests it can take, were at another request.
    Requests,
    /// The request was held back though the disk had nothing to do.
    Held,
    /// The disk was at the request itself.
    Disk,
    /// What was to be done ran.
    Cpu,
    /// It was ready, and others or nobody had the CPU.
    CpuOfOthers,
    /// Recorded think time.
    Think,
    /// It waited for something else: a lock, a thread, the clock, a device that is no disk.
    Waits,
    /// The trace does not say.
    Unknown,
}

impl Kind {
    /// All, in the order in which they are told.
    pub const ALL: [Kind; 8] = [
        Kind::Requests,
        Kind::Held,
        Kind::Disk,
        Kind::Cpu,
        Kind::CpuOfOthers,
        Kind::Think,
        Kind::Waits,
        Kind::Unknown,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Requests => "behind other requests",
            Kind::Held => "held back, the disk idle",
            Kind::Disk => "the disk",
            Kind::Cpu => "CPU time",
            Kind::CpuOfOthers => "ready without a CPU",
            Kind::Think => "think time",
            Kind::Waits => "other waits",
            Kind::Unknown => "unknown",
        }
    }

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Requests => "requests",
            Kind::Held => "held",
            Kind::Disk => "disk",
            Kind::Cpu => "cpu",
            Kind::CpuOfOthers => "cpu-of-others",
            Kind::Think => "think",
            Kind::Waits => "waits",
            Kind::Unknown => "unknown",
        }
    }
}

impl Cause {
    /// Of which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Cause::Disk(cause) => cause.kind(),
            Cause::Own | Cause::Earlier | Cause::Ran(_) => Kind::Cpu,
            Cause::Thread(_)
            | Cause::Irq(_)
            | Cause::Vector(_)
            | Cause::Softirq(_)
            | Cause::Throttled
            | Cause::Idle
            | Cause::Others => Kind::CpuOfOthers,
            Cause::Think => Kind::Think,
            Cause::Unwoken
            | Cause::Lock(_)
            | Cause::Awaited(_)
            | Cause::Blocked
            | Cause::Clock
            | Cause::Device(_) => Kind::Waits,
            Cause::Unknown => Kind::Unknown,
        }
    }
}

impl DiskCause {
    fn kind(self) -> Kind {
        match self {
            // For nobody's request: the device's own work.
            DiskCause::Device(by) if by == Submitter::default() => Kind::Disk,
            DiskCause::Unsubmitted(_) => Kind::Waits,
            DiskCause::Unscheduled(Some(_)) | DiskCause::Scheduler(..) | DiskCause::Device(_) => {
                Kind::Requests
            }
            DiskCause::Unscheduled(None) | DiskCause::Held(_) => Kind::Held,
            DiskCause::Overhead
            | DiskCause::Seek
            | DiskCause::Rotation
            | DiskCause::Transfer
            | DiskCause::Service => Kind::Disk,
            DiskCause::Completed => Kind::CpuOfOthers,
        }
    }
}
