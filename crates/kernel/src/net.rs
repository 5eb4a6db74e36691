//! Network namespaces without a name, a virtual cable between two of them, and sockets at its ends.
//!
//! A namespace here is a descriptor and lives as long as it or a socket in it does, so nothing is left behind however
//! the process ends; the cable (`veth`) goes with the namespaces its ends are in. Threads enter a namespace for a moment
//! to make a socket there; the socket then works from everywhere.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use rustix::net::{recv, send, socket_with};
use surety_units::Nanos;

use crate::clock;
use crate::error::{KernelError, Operation, check, last_errno};

pub mod cards;
mod flow;
mod metronome;
mod netlink;
pub mod threaded;

pub use cards::CardPair;
pub use flow::{Flow, STEPS_MAX};
pub use metronome::Metronome;
pub use threaded::{Counts, ThreadedCable};

/// Bytes in a packet that a flow sends: nothing but empty netlink attributes, for its filter to walk over.
pub const PAYLOAD: usize = 1400;

/// Address of the near end of a [`Cable`].
pub const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Address of its far end. Both are of a block for documentation (RFC 5737) that no network uses.
pub const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Name of the device at either end.
pub const DEVICE: &str = "surety0";

/// After this a cable that carries nothing is given up.
const CARRIES_WITHIN: Nanos = Nanos::from_secs(5);
/// Length of IPv4's header without options.
const IP_HEADER: usize = 20;
/// Length of an echo's header.
const ECHO_HEADER: usize = 8;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// A network namespace that has no name.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes one, empty but for its loopback device, which is down.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, EINVAL where the kernel has no network namespaces.
    pub fn new() -> Result<Namespace, KernelError> {
        let made = on_a_thread(|| {
            // SAFETY: takes flags; changes the namespace of the calling thread, which ends right after this.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(last_errno());
            }
            File::open("/proc/thread-self/ns/net").map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
        })?;
        let file = made.map_err(|errno| KernelError::new(Operation::MakeNamespace, "this run", errno))?;
        Ok(Namespace { file })
    }

    /// Runs `body` in a thread that is inside.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn inside<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
        let entered = on_a_thread(|| {
            // SAFETY: takes a descriptor of ours and a flag; changes only the calling thread, which ends with `body`.
            match unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(body()),
                _ => Err(last_errno()),
            }
        })?;
        entered.map_err(|errno| KernelError::new(Operation::EnterNamespace, "this run", errno))
    }
}

/// Runs `body` in a thread made for it and waits.
fn on_a_thread<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn_scoped(scope, body)
            .map_err(|e| KernelError::from_io(Operation::Spawn, "a thread for a network namespace", &e))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// An end of a [`Cable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// [`NEAR`].
    Near,
    /// [`FAR`].
    Far,
}

impl End {
    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        match self {
            End::Near => NEAR,
            End::Far => FAR,
        }
    }

    /// The end opposite.
    pub fn other(self) -> End {
        match self {
            End::Near => End::Far,
            End::Far => End::Near,
        }
    }
}

/// Two network namespaces with a pair of virtual Ethernet devices between them, up and seen to carry packets.
#[derive(Debug)]
pub struct Cable {
    near: Namespace,
    far: Namespace,
}

impl Cable {
    /// Makes both namespaces and the devices between them, and waits until an echo has come back.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN; EOPNOTSUPP where the kernel has no `veth`; ETIMEDOUT when nothing came back in 5 s.
    pub fn new() -> Result<Cable, KernelError> {
        let cable = Cable { near: Namespace::new()?, far: Namespace::new()? };
        let failed = |errno| KernelError::new(Operation::MakeLink, format!("the device {DEVICE}"), errno);
        let far = cable.far.file.as_fd();
        cable.near.inside(|| netlink::make_pair(DEVICE, far))?.map_err(failed)?;
        for end in [End::Near, End::Far] {
            cable.space(end).inside(|| netlink::bring_up(DEVICE, end.address()))?.map_err(failed)?;
        }
        cable.wait_for_echo(CARRIES_WITHIN, Nanos::MILLISECOND)?;
        Ok(cable)
    }

    /// Waits until an echo has come back; one is sent after each pause.
    fn wait_for_echo(&self, within: Nanos, pause: Nanos) -> Result<(), KernelError> {
        let echo = self.echo(End::Near, 0)?;
        let until = clock::monotonic() + within;
        loop {
            let back = echo.request(0).and_then(|()| echo.reply(Nanos::from_millis(10)));
            if matches!(back, Ok(Some(_))) {
                return Ok(());
            }
            if clock::monotonic() >= until {
                let object = format!("the device {DEVICE}");
                return Err(KernelError::new(Operation::MakeLink, object, libc::ETIMEDOUT));
            }
            let _ = clock::sleep_until(clock::monotonic() + pause, None);
        }
    }

    fn space(&self, end: End) -> &Namespace {
        match end {
            End::Near => &self.near,
            End::Far => &self.far,
        }
    }

    /// A UDP socket at one end, with a port the kernel chooses.
    pub fn udp(&self, end: End) -> Result<UdpSocket, KernelError> {
        self.udp_at(end, 0)
    }

    /// A UDP socket at a port of one end; 0: one the kernel chooses.
    fn udp_at(&self, end: End, port: u16) -> Result<UdpSocket, KernelError> {
        let made = self.space(end).inside(|| UdpSocket::bind((end.address(), port)))?;
        made.map_err(|e| KernelError::from_io(Operation::Open, "a UDP socket", &e))
    }

    /// A socket at one end for echoes of the other, with `payload` bytes in each (65,000 at most).
    pub fn echo(&self, end: End, payload: usize) -> Result<EchoSocket, KernelError> {
        let made = self.space(end).inside(|| raw_icmp(end.other().address()))?;
        let socket = made.map_err(|errno| KernelError::new(Operation::Open, "a raw ICMP socket", errno))?;
        Ok(EchoSocket { socket, payload: payload.min(65_000) })
    }
}

/// A raw socket that takes echo replies of one host only.
fn raw_icmp(peer: Ipv4Addr) -> Result<OwnedFd, i32> {
    /// `ICMP_FILTER` of `include/uapi/linux/icmp.h`, of level SOL_RAW.
    const ICMP_FILTER: i32 = 1;
    const SOL_RAW: i32 = 255;
    let (family, protocol) = (AddressFamily::INET, Some(ipproto::ICMP));
    let socket =
        socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map_err(Errno::raw_os_error)?;
    // One bit for each type that is kept out.
    let kept_out: u32 = !(1 << ECHO_REPLY);
    set_option(&socket, SOL_RAW, ICMP_FILTER, &kept_out)?;
    rustix::net::connect(&socket, &SocketAddrV4::new(peer, 0)).map_err(Errno::raw_os_error)?;
    Ok(socket)
}

/// Brings a device of the calling thread's namespace up. The error is an errno.
pub(crate) fn switch_on(name: &str) -> Result<(), i32> {
    netlink::switch_on(name).map(|_| ())
}

fn set_option<T>(socket: &impl AsRawFd, level: i32, name: i32, value: &T) -> Result<(), i32> {
    let length = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: the value lives over the call and has the length told; the kernel copies it.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), length) };
    check(set.into()).map(|_| ())
}

/// Sends echo requests (ICMP, RFC 792) to the other end of a cable, whose kernel answers, and takes the replies.
#[derive(Debug)]
pub struct EchoSocket {
    socket: OwnedFd,
    payload: usize,
}

impl EchoSocket {
    /// Bytes of one packet, its IP header included.
    pub fn packet(&self) -> usize {
        IP_HEADER + ECHO_HEADER + self.payload
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The kernel's: ENOBUFS where there is no memory for it.
    pub fn request(&self, sequence: u16) -> io::Result<()> {
        const IDENTIFIER: u16 = 0x5352;
        let mut packet = vec![0; ECHO_HEADER + self.payload];
        packet[0] = ECHO_REQUEST;
        packet[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        for (byte, fill) in packet[ECHO_HEADER..].iter_mut().zip(0_u8..=255) {
            *byte = fill;
        }
        let sum = internet_checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        send(&self.socket, &packet, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// The sequence number of the next reply, waited for at most so long; `None` when none came.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reply(&self, wait: Nanos) -> io::Result<Option<u16>> {
        let mut header = [0_u8; IP_HEADER + ECHO_HEADER];
        loop {
            // What does not fit is cut off: the header is enough.
            match recv(&self.socket, &mut header, RecvFlags::DONTWAIT) {
                Ok((got, _)) if got == IP_HEADER + ECHO_HEADER => {
                    return Ok(Some(u16::from_be_bytes([header[IP_HEADER + 6], header[IP_HEADER + 7]])));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.wait(wait)? => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is something to take; false when the time is over.
    fn wait(&self, wait: Nanos) -> io::Result<bool> {
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&clock::timespec(wait))) {
            Ok(ready) => Ok(ready != 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The one's complement of the one's complement sum of 16-bit words (RFC 1071).
fn internet_checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_makes_the_sum_of_all_words_complete() {
        // The example of RFC 1071, section 3.
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let mut packet = vec![8, 0, 0, 0, 0x12, 0x34, 0, 7, 1, 2, 3];
        let sum = internet_checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(internet_checksum(&packet), 0);
    }

    fn cable() -> Option<Cable> {
        match Cable::new() {
            Ok(cable) => Some(cable),
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                None
            }
        }
    }

    #[test]
    fn echoes_and_datagrams_cross_the_cable_and_nothing_of_it_is_seen_outside() {
        let outside = || {
            let devices = crate::files::list_dir(std::path::Path::new("/sys/class/net"));
            (devices.unwrap_or_default(), std::fs::read_link("/proc/thread-self/ns/net").unwrap())
        };
        let before = outside();
        let Some(cable) = cable() else { return };
        let echo = cable.echo(End::Far, 56).unwrap();
        assert_eq!(echo.packet(), 84);
        for sequence in [1, 500, 65_535] {
            echo.request(sequence).unwrap();
            assert_eq!(echo.reply(Nanos::from_secs(5)).unwrap(), Some(sequence));
        }
        assert_eq!(echo.reply(Nanos::from_millis(1)).unwrap(), None);
        let (near, far) = (cable.udp(End::Near).unwrap(), cable.udp(End::Far).unwrap());
        near.send_to(b"over there", far.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 32];
        let (length, from) = far.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.ip()), (&b"over there"[..], NEAR.into()));
        assert_eq!(outside(), before);
    }

    #[test]
    fn without_the_privilege_the_refusal_says_what_is_missing() {
        let text = KernelError::new(Operation::MakeNamespace, "this run", libc::EPERM).to_string();
        assert!(text.contains("CAP_SYS_ADMIN"), "{text}");
        let text = KernelError::new(Operation::MakeLink, "it", libc::EOPNOTSUPP).to_string();
        assert!(text.contains("CONFIG_VETH"), "{text}");
    }
}
