//! [`Flow`]: datagrams over a cable that whoever handles packets at its far end takes through the whole of the network's layers,
//! and no further.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::PAYLOAD;
use super::metronome::{self, Address};
use super::{Cable, End, set_option};
use crate::error::{KernelError, Operation, check};

/// Bytes of an attribute without a value, its length included (`struct nlattr`).
const ATTRIBUTE: usize = 4;
/// Attributes in a packet.
const WALK: usize = PAYLOAD / ATTRIBUTE;
/// Attributes that a filter looks at in all. The thread takes 64 packets at a time and cannot be preempted meanwhile, so a packet
/// must not take long.
pub const STEPS_MAX: usize = 64 * WALK;

/// Bytes of packets that a sender may have under way, as the kernel counts them.
const SEND_ROOM: libc::c_int = 16 << 20;

impl Cable {
    /// A socket at the near end whose datagrams end at the far one: the thread takes each through the whole of the network's
    /// layers up to a socket there, whose filter looks at so many attributes ([`STEPS_MAX`] at most) and then keeps none. So a
    /// packet can be made to take more time, and no other thread has to read it.
    ///
    /// # Errors
    /// Those of the sockets and of their filter.
    pub fn flow(&self, steps: usize) -> Result<Flow, KernelError> {
        self.flow_to(0, steps)
    }

    /// The same to a port of the far end; 0: one the kernel chooses.
    pub(super) fn flow_to(&self, port: u16, steps: usize) -> Result<Flow, KernelError> {
        let failed = |error: &std::io::Error| KernelError::from_io(Operation::Open, "a UDP socket", error);
        let (near, far) = (self.udp(End::Near)?, self.udp_at(End::Far, port)?);
        keep_nothing(&far, steps)
            .map_err(|errno| KernelError::new(Operation::Open, "a UDP socket with a filter", errno))?;
        // Packets that wait in the queue are the sender's: room for more of them than the queue has.
        set_option(&near, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_ROOM)
            .map_err(|errno| KernelError::new(Operation::Open, "a UDP socket with room to send", errno))?;
        near.connect(far.local_addr().map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
        near.set_nonblocking(true).map_err(|e| failed(&e))?;
        Ok(Flow { near, far, packet: packet() })
    }
}

/// Where datagrams are sent from, with the socket they end at.
#[derive(Debug)]
pub struct Flow {
    near: UdpSocket,
    far: UdpSocket,
    packet: [u8; PAYLOAD],
}

impl Flow {
    /// Sends one datagram of [`PAYLOAD`] bytes; false where the kernel did not take it. One that is dropped on its way was taken.
    pub fn send(&self) -> bool {
        self.near.send(&self.packet).is_ok()
    }

    /// Datagrams that came to its end until now: each was dropped there (`SO_MEMINFO` of `socket(7)`; `sk_drops`).
    ///
    /// # Errors
    /// ENOPROTOOPT before Linux 4.12.
    pub fn arrived(&self) -> Result<u32, KernelError> {
        /// `SK_MEMINFO_VARS` and `SK_MEMINFO_DROPS` of `include/uapi/linux/sock_diag.h`.
        const WORDS: usize = 9;
        const DROPS: usize = 8;
        const SO_MEMINFO: libc::c_int = 55;
        let mut words = [0_u32; WORDS];
        let mut length = size_of_val(&words) as libc::socklen_t;
        let (level, place) = (libc::SOL_SOCKET, (&raw mut words).cast());
        // SAFETY: the words have the length told and live over the call.
        let got =
            unsafe { libc::getsockopt(self.far.as_raw_fd(), level, SO_MEMINFO, place, &raw mut length) };
        check(got.into())
            .map_err(|errno| KernelError::new(Operation::Read, "what a UDP socket dropped", errno))?;
        Ok(words[DROPS])
    }

    /// The frame that one of its datagrams is on the wire, between these cards.
    pub(super) fn frame(&self, cards: (Address, Address)) -> std::io::Result<Vec<u8>> {
        let ends = (self.near.local_addr()?, self.far.local_addr()?);
        metronome::frame(cards, ends, &self.packet)
            .ok_or_else(|| std::io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }
}

/// Attributes of type 1, each of no value.
fn packet() -> [u8; PAYLOAD] {
    let mut packet = [0; PAYLOAD];
    for attribute in packet.chunks_exact_mut(ATTRIBUTE) {
        attribute[..2].copy_from_slice(&(ATTRIBUTE as u16).to_ne_bytes());
        attribute[2..].copy_from_slice(&1_u16.to_ne_bytes());
    }
    packet
}

/// Gives a socket a filter that lets nothing in, after a search for an attribute that is not there (`SO_ATTACH_FILTER`; classic
/// BPF, `include/uapi/linux/filter.h`). Classic programs have no loops; the search is one of the kernel's (`SKF_AD_NLATTR`), which
/// goes from one attribute to the next, each from the length of the one before: little code, and nothing to do at once.
fn keep_nothing(socket: &UdpSocket, steps: usize) -> Result<(), i32> {
    const LOAD_CONSTANT: u16 = 0x00;
    const LOAD_CONSTANT_TO_INDEX: u16 = 0x01;
    const LOAD_WORD: u16 = 0x20;
    const RETURN_CONSTANT: u16 = 0x06;
    const FIND_ATTRIBUTE: u32 = (-0x1000_i32 + 12) as u32;
    const NOT_THERE: u32 = 2;
    /// The filter's packet begins with the header of UDP.
    const HEADER: usize = 8;
    let instruction = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut program = vec![instruction(LOAD_CONSTANT_TO_INDEX, NOT_THERE)];
    let mut rest = steps.min(STEPS_MAX);
    while rest > 0 {
        let walk = rest.min(WALK);
        let from = HEADER + PAYLOAD - walk * ATTRIBUTE;
        program.push(instruction(LOAD_CONSTANT, from as u32));
        program.push(instruction(LOAD_WORD, FIND_ATTRIBUTE));
        rest -= walk;
    }
    program.push(instruction(RETURN_CONSTANT, 0));
    let length = u16::try_from(program.len()).expect("a walk is two instructions, and there are 64 at most");
    // The instructions outlive the call, which copies them.
    let told = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &told)
}
