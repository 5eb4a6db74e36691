//! [`Metronome`]: a frame that is given to a card once, whose wire goes on repeating it: the beat is kept by whoever made the
//! wire (an emulator's timer), so no CPU of this machine sends.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::PAYLOAD;
use crate::error::check;

/// A card's address on the wire.
pub(super) type Address = [u8; 6];

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
/// `ETH_P_IP` of `include/uapi/linux/if_ether.h`.
const OF_IP: u16 = 0x0800;
/// `IPPROTO_UDP`.
const OF_UDP: u8 = 17;

/// A card's end of a wire that repeats, and the frame for it.
#[derive(Debug)]
pub struct Metronome {
    socket: OwnedFd,
    frame: Vec<u8>,
}

impl Metronome {
    /// Of the device of this number in the namespace of the calling thread.
    pub(super) fn new(device: u32, frame: Vec<u8>) -> Result<Metronome, i32> {
        // Without a protocol it sends and hears nothing.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(Errno::raw_os_error)?;
        // SAFETY: the structure is plain integers, for which zero bytes are a value.
        let mut place: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        place.sll_family = libc::AF_PACKET as u16;
        place.sll_ifindex = i32::try_from(device).map_err(|_| libc::ENODEV)?;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives over the call and has the length told.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const place).cast(), length) }.into())?;
        Ok(Metronome { socket, frame })
    }

    /// Sends the frame, once. Each time this is called one more goes round.
    ///
    /// # Errors
    /// Those of `send(2)`: ENETDOWN while the card is down, ENOBUFS where its link is not up yet.
    pub fn start(&self) -> std::io::Result<()> {
        send(&self.socket, &self.frame, SendFlags::empty())?;
        Ok(())
    }
}

/// A frame with one datagram (IEEE 802.3, RFC 791, RFC 768; the datagram without a checksum, which UDP over IPv4 need not have).
pub(super) fn frame(
    (from, to): (Address, Address),
    (sender, receiver): (SocketAddr, SocketAddr),
    payload: &[u8; PAYLOAD],
) -> Option<Vec<u8>> {
    let (SocketAddr::V4(sender), SocketAddr::V4(receiver)) = (sender, receiver) else { return None };
    let datagram = UDP + payload.len();
    let mut frame = Vec::with_capacity(ETHERNET + IP + datagram);
    frame.extend(to);
    frame.extend(from);
    frame.extend(OF_IP.to_be_bytes());
    frame.extend(ip_header(*sender.ip(), *receiver.ip(), u16::try_from(IP + datagram).ok()?));
    frame.extend(sender.port().to_be_bytes());
    frame.extend(receiver.port().to_be_bytes());
    frame.extend(u16::try_from(datagram).ok()?.to_be_bytes());
    frame.extend([0; 2]);
    frame.extend(payload);
    Some(frame)
}

fn ip_header(from: Ipv4Addr, to: Ipv4Addr, length: u16) -> [u8; IP] {
    /// Version 4, five words.
    const FIRST: u8 = 0x45;
    const LIVES: u8 = 64;
    let mut header = [0; IP];
    header[0] = FIRST;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    // Not to be cut.
    header[6] = 0x40;
    header[8] = LIVES;
    header[9] = OF_UDP;
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let words = header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_sums_to_nothing() {
        let header = ip_header(super::super::NEAR, super::super::FAR, 1428);
        let sum: u32 = header.chunks_exact(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn a_frame_holds_one_datagram() {
        let (sender, receiver) = ("192.0.2.1:7".parse().unwrap(), "192.0.2.2:9".parse().unwrap());
        let frame = frame(([1; 6], [2; 6]), (sender, receiver), &[7; PAYLOAD]).unwrap();
        assert_eq!(frame.len(), 14 + 20 + 8 + PAYLOAD);
        assert_eq!((&frame[..6], &frame[6..12], &frame[12..14]), (&[2; 6][..], &[1; 6][..], &[8, 0][..]));
        assert_eq!(frame[34..40], [0, 7, 0, 9, 5, 128]);
        assert!(frame[42..].iter().all(|byte| *byte == 7));
    }
}
