//! [`measure`]: what a request's way to a disk and back takes on this machine, beside the time of the model.
//!
//! Between a program and the server of an emulated disk two threads of the kernel hand a request on, and the answer wakes a third. A real
//! disk's driver has none of them. So requests of a known time are made first; what they take beyond it is the way, and the model is told of
//! later requests as if they had come that much earlier.

use surety_device::fixed::{Fixed, Parameters};
use surety_device::{Model, SECTOR};
use surety_kernel::block::BlockDevice;
use surety_kernel::direct::{Access, DirectQueue, Medium};
use surety_kernel::{KernelError, Operation, clock};
use surety_units::{Nanos, Rate};

/// What a request takes by the model while the way is measured: as much as one of a hard disk, so that CPUs are as deep asleep.
const PACE: Nanos = Nanos::from_millis(4);
/// Requests of which the median is taken.
const REQUESTS: usize = 48;
/// Bytes of each.
const BYTES: usize = 4096;

/// The model that answers meanwhile.
pub(crate) fn pace(bytes: u64) -> Box<dyn Model + Send> {
    let parameters = Parameters {
        sectors: bytes / SECTOR,
        read: PACE,
        write: Nanos::ZERO,
        flush: Nanos::ZERO,
        rate: Rate(0),
        lanes: 32,
        depth: 32,
    };
    Box::new(Fixed::new(parameters))
}

/// The median of what reads of a device that answers at [`pace`] take beyond it.
///
/// # Errors
/// What the kernel refuses; EIO where the server ended.
pub(crate) fn measure(device: &BlockDevice) -> Result<Nanos, KernelError> {
    let medium = Medium::open(device.path())?;
    let mut queue = DirectQueue::new(1, BYTES)?;
    let mut ways = [Nanos::ZERO; REQUESTS];
    for (number, way) in ways.iter_mut().enumerate() {
        let begun = clock::monotonic();
        queue.submit(0, &medium, Access::Read, ((number * BYTES) as u64, BYTES))?;
        let result = loop {
            if let Some((_, result)) = queue.wait(Nanos::SECOND)? {
                break result;
            }
        };
        let failed = |errno| KernelError::new(Operation::Read, device.path().display().to_string(), errno);
        result.map_err(failed)?;
        *way = clock::monotonic() - begun - PACE;
    }
    ways.sort_unstable();
    Ok(ways[REQUESTS / 2].max(Nanos::ZERO))
}
