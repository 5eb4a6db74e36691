//! The calling thread's I/O priority (`ioprio_set(2)`), which I/O schedulers look at.
//!
//! A thread that was given none has that of its scheduling class: best effort by its nice value, but real-time for a thread
//! of a real-time class (`include/linux/ioprio.h`). So a thread that changes its class for the CPU's sake changes what the
//! disk's scheduler does with it, unless it is given a priority. New threads inherit it.

use crate::error::{KernelError, Operation, check};

/// `IOPRIO_WHO_PROCESS`; 0 is then the calling thread.
const WHO_THREAD: libc::c_long = 1;
/// A priority is its class shifted by this, and its level.
const CLASS_SHIFT: u32 = 13;
const LEVEL_MASK: u32 = (1 << 3) - 1;
const CLASS_REALTIME: u32 = 1;
const CLASS_BEST_EFFORT: u32 = 2;
const CLASS_IDLE: u32 = 3;
/// The last level of a class.
const LEVEL_MAX: u8 = 7;

/// An I/O priority that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// That of the scheduling class: none was given.
    OfClass,
    /// Best effort, level 0 (first) to 7.
    BestEffort(u8),
    /// Real-time, level 0 (first) to 7.
    Realtime(u8),
    Idle,
    /// Of a class that is not known here, as the kernel says it.
    Other(u32),
}

/// The calling thread's.
///
/// # Errors
/// Those of `ioprio_get`; ENOSYS where the kernel has no block layer.
pub fn own_io_priority() -> Result<IoPriority, KernelError> {
    // SAFETY: takes integers only.
    let raw = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_THREAD, 0_i64) };
    let raw = check(raw).map_err(failed)?;
    let raw = u32::try_from(raw).unwrap_or(0);
    Ok(match raw >> CLASS_SHIFT {
        0 => IoPriority::OfClass,
        CLASS_REALTIME => IoPriority::Realtime((raw & LEVEL_MASK) as u8),
        CLASS_BEST_EFFORT => IoPriority::BestEffort((raw & LEVEL_MASK) as u8),
        CLASS_IDLE => IoPriority::Idle,
        _ => IoPriority::Other(raw),
    })
}

/// Gives the calling thread one. Levels above 7 are 7.
///
/// # Errors
/// Those of `ioprio_set`: EPERM for real-time without CAP_SYS_ADMIN or CAP_SYS_NICE.
pub fn set_own_io_priority(priority: IoPriority) -> Result<(), KernelError> {
    let of = |class: u32, level: u8| class << CLASS_SHIFT | u32::from(level.min(LEVEL_MAX));
    let raw = i64::from(match priority {
        IoPriority::OfClass => 0,
        IoPriority::Realtime(level) => of(CLASS_REALTIME, level),
        IoPriority::BestEffort(level) => of(CLASS_BEST_EFFORT, level),
        IoPriority::Idle => of(CLASS_IDLE, LEVEL_MAX),
        IoPriority::Other(raw) => raw,
    });
    // SAFETY: takes integers only.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, 0_i64, raw) };
    check(result).map(|_| ()).map_err(failed)
}

fn failed(errno: i32) -> KernelError {
    KernelError::new(Operation::Prctl, "the thread's I/O priority", errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_priority_is_read_back_and_inherited_by_threads() {
        let other = std::thread::spawn(|| {
            set_own_io_priority(IoPriority::BestEffort(6)).unwrap();
            let inherited = std::thread::spawn(own_io_priority).join().unwrap();
            (own_io_priority().unwrap(), inherited.unwrap())
        });
        let (own, inherited) = other.join().unwrap();
        assert_eq!(own, IoPriority::BestEffort(6));
        assert_eq!(inherited, IoPriority::BestEffort(6));
    }
}
