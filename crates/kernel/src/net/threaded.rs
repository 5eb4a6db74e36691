//! [`ThreadedCable`]: a virtual cable whose far device is served by a thread of the kernel's own (threaded NAPI) instead of
//! by softirqs, so that a policy or a reservation can be put on what handles its packets.
//!
//! A `veth` device polls its queue once it merges what it receives (GRO), and it queues what comes from a device that does
//! not cut large packets itself (`veth_skb_is_eligible_for_gro`); all else is handled where it was sent. `threaded` in its directory in sysfs gives
//! that polling to a thread (`dev_set_threaded` in `net/core/dev.c`, since 5.12), and generic netlink says which one
//! (`NETDEV_CMD_NAPI_GET`, since 6.8). The queue holds [`ROOM`] packets (`VETH_RING_SIZE` in `drivers/net/veth.c`); what
//! finds it full is dropped and counted by the near device. Each end's directory is reached through a mount of sysfs
//! for its namespace that has no place, so all of it goes with the process: devices, thread, mounts.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use surety_units::{Nanos, Tid};

use super::{Cable, DEVICE, End, Flow, netlink};
use crate::clock;
use crate::error::{KernelError, Operation, check};
use crate::files;
use crate::kernel::Kernel;
use crate::mount::DetachedMount;

/// Packets that wait for the thread at most.
pub const ROOM: u64 = 256;

/// How long the kernel may take to make the thread.
const THREAD_WITHIN: Nanos = Nanos::from_secs(2);

/// A [`Cable`] with a thread that handles what arrives at its far end.
#[derive(Debug)]
pub struct ThreadedCable {
    cable: Cable,
    near: DetachedMount,
    far: DetachedMount,
    thread: Tid,
    queue: u32,
}

/// What the devices counted since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets the thread has taken from the queue and handled.
    pub handled: u64,
    /// Packets that found the queue full.
    pub lost: u64,
}

impl ThreadedCable {
    /// Makes a cable, gives its far end a thread, and finds that thread by asking the kernel.
    ///
    /// # Errors
    /// Those of [`Cable::new`]; EOPNOTSUPP where the kernel has no threaded polling (5.12) or does not say which thread it is
    /// (6.8).
    pub fn new(kernel: &dyn Kernel) -> Result<ThreadedCable, KernelError> {
        let cable = Cable::new()?;
        let failed = |errno| KernelError::new(Operation::ThreadQueue, format!("the device {DEVICE}"), errno);
        let sysfs = |end| cable.space(end).inside(|| DetachedMount::of(c"sysfs"))?.map_err(failed);
        let (near, far) = (sysfs(End::Near)?, sysfs(End::Far)?);
        cable.space(End::Far).inside(|| switch(ETHTOOL_SGRO, true))?.map_err(failed)?;
        cable.space(End::Near).inside(|| switch(ETHTOOL_STSO, false))?.map_err(failed)?;
        let threaded = far.root().join(format!("class/net/{DEVICE}/threaded"));
        files::write_text(&threaded, "1").map_err(|error| failed(unsupported(error.errno)))?;
        let until = clock::monotonic() + THREAD_WITHIN;
        let (queue, thread) = loop {
            let queues = cable.space(End::Far).inside(|| netlink::napis(DEVICE))?;
            match queues.map_err(|errno| failed(unsupported(errno)))?.as_slice() {
                [one] => {
                    if let Some(thread) = one.thread {
                        break (one.id, Tid(thread));
                    }
                }
                // One queue is what is made; a kernel that makes more splits the packets over several threads.
                [] => {}
                _ => return Err(failed(libc::EOPNOTSUPP)),
            }
            if clock::monotonic() >= until {
                return Err(failed(libc::ETIMEDOUT));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        // What the kernel says is held against the thread itself.
        let name = kernel.name(thread)?;
        if !(kernel.is_kernel_thread(thread) && name == format!("napi/{DEVICE}-{queue}")) {
            return Err(failed(libc::ESRCH));
        }
        Ok(ThreadedCable { cable, near, far, thread, queue })
    }

    /// The thread that handles what arrives at the far end.
    pub fn thread(&self) -> Tid {
        self.thread
    }

    /// The kernel's number of the queue it serves.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// A flow over this cable: [`Cable::flow`].
    ///
    /// # Errors
    /// Those of the sockets and of their filter.
    pub fn flow(&self, steps: usize) -> Result<Flow, KernelError> {
        self.cable.flow(steps)
    }

    /// What both devices have counted.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        let count = |end: &DetachedMount, which: &str| {
            let path = end.root().join(format!("class/net/{DEVICE}/statistics/{which}"));
            let text = files::read_text(&path)?;
            let bad = || KernelError::new(Operation::Read, path.display().to_string(), libc::EIO);
            text.trim().parse::<u64>().map_err(|_| bad())
        };
        let handled = count(&self.far, "rx_packets")?;
        let lost = count(&self.near, "tx_dropped")? + count(&self.far, "rx_dropped")?;
        Ok(Counts { handled, lost })
    }
}

/// What an old kernel answers becomes one number.
fn unsupported(errno: i32) -> i32 {
    match errno {
        libc::ENOENT | libc::EINVAL => libc::EOPNOTSUPP,
        other => other,
    }
}

/// Merging of what is received (GRO), and cutting of what is sent by the device (TSO), in `include/uapi/linux/ethtool.h`.
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_STSO: u32 = 0x1f;

/// Switches a feature of the device in this namespace.
pub(super) fn switch(command: u32, on: bool) -> Result<(), i32> {
    #[repr(C)]
    struct Value {
        command: u32,
        value: u32,
    }
    let mut value = Value { command, value: on.into() };
    // SAFETY: the structure is plain bytes, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: the request names a structure of the command's shape; both live over the call.
    let set = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    check(set.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealKernel;
    use crate::net::STEPS_MAX;
    use crate::sched::{SchedAttr, SchedPolicy};

    #[test]
    fn a_thread_of_the_kernels_handles_every_packet_or_counts_it_as_lost() {
        let _alone = crate::testing::machine_wide();
        let kernel = RealKernel::new();
        let cable = match ThreadedCable::new(&kernel) {
            Ok(cable) => cable,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let flow = cable.flow(0).unwrap();
        let before = cable.counts().unwrap();
        let sent = 5_000;
        assert!((0..sent).all(|_| flow.send()));
        let seen = || {
            let now = cable.counts().unwrap();
            (now.handled - before.handled, now.lost - before.lost)
        };
        let until = clock::monotonic() + Nanos::from_secs(20);
        while seen().0 + seen().1 < sent && clock::monotonic() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (handled, lost) = seen();
        // The namespaces' own packets, to find each other, are a few.
        assert!((sent..sent + 20).contains(&(handled + lost)), "{handled} handled, {lost} lost of {sent}");

        // A filter that looks as long as it may is taken, and the packets still end there.
        let slow = cable.flow(STEPS_MAX).unwrap();
        let before = cable.counts().unwrap().handled;
        assert!(slow.send());
        let until = clock::monotonic() + Nanos::from_secs(20);
        while cable.counts().unwrap().handled == before && clock::monotonic() < until {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(cable.counts().unwrap().handled > before);

        // A thread that may not run: what the queue has no room for is lost.
        let thread = cable.thread();
        kernel.set_affinity(thread, &kernel.online_cpus().unwrap()).unwrap();
        let second = Nanos::SECOND;
        let little: SchedAttr = SchedPolicy::deadline(Nanos::from_micros(100), second, second).into();
        if let Err(error) = crate::transition::set_once(&kernel, thread, &little) {
            return eprintln!("SKIPPED the reservation: {error}");
        }
        let before = cable.counts().unwrap();
        (0..100_000).for_each(|_| assert!(flow.send()));
        let lost = cable.counts().unwrap().lost - before.lost;
        assert!(lost > 0, "none of 100,000 found the queue full");
        assert!(crate::transition::set_once(&kernel, thread, &SchedPolicy::DEFAULT.into()).is_ok());
        let identity = kernel.identity(thread).unwrap();
        drop((flow, slow, cable));
        let until = clock::monotonic() + Nanos::from_secs(20);
        while kernel.is_alive(identity) && clock::monotonic() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!kernel.is_alive(identity), "the thread outlived its device");
    }
}
