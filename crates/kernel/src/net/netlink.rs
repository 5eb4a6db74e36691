//! The three messages of rtnetlink that a cable takes: make a pair of devices, bring one up, give it an address
//! (`include/uapi/linux/rtnetlink.h`, `if_link.h`, `if_addr.h`, `veth.h`); and two of generic netlink that say which
//! threads serve a device (`genetlink.h`, `netdev.h`).
//!
//! Errors are errnos, as the kernel acknowledges each message with one.

use std::ffi::CString;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{check, last_errno};

const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
/// Length of a message's header.
const HEADER: usize = 16;
/// Bits of the network that both ends are in.
const PREFIX: u8 = 24;

/// Makes a pair of `veth` devices: one here, one of the same name in another namespace.
pub(super) fn make_pair(name: &str, other: BorrowedFd<'_>) -> Result<(), i32> {
    let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = Message::new(libc::RTM_NEWLINK, create);
    message.link(0, 0);
    message.text(LINK_NAME, name);
    let info = message.open(LINK_INFO);
    message.text(INFO_KIND, "veth");
    let data = message.open(INFO_DATA);
    let peer = message.open(VETH_PEER);
    message.link(0, 0);
    message.text(LINK_NAME, name);
    message.attribute(LINK_NAMESPACE, &other.as_raw_fd().to_ne_bytes());
    for attribute in [peer, data, info] {
        message.close(attribute);
    }
    message.exchange()
}

/// Moves a device of this namespace into another, where it gets another name.
pub(super) fn move_to(name: &str, new_name: &str, other: BorrowedFd<'_>) -> Result<(), i32> {
    let mut message = Message::new(libc::RTM_NEWLINK, 0);
    message.link(index_of(name)?, 0);
    message.text(LINK_NAME, new_name);
    message.attribute(LINK_NAMESPACE, &other.as_raw_fd().to_ne_bytes());
    message.exchange()
}

/// Brings a device up. Gives its number.
pub(super) fn switch_on(name: &str) -> Result<u32, i32> {
    let index = index_of(name)?;
    let mut message = Message::new(libc::RTM_NEWLINK, 0);
    message.link(index, libc::IFF_UP as u32);
    message.exchange()?;
    Ok(index)
}

/// Brings a device and the loopback device up and gives the former its address.
pub(super) fn bring_up(name: &str, address: Ipv4Addr) -> Result<(), i32> {
    switch_on("lo")?;
    let index = switch_on(name)?;
    let mut message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    // Family, bits of the network, flags, scope; then the device.
    message.bytes.extend([libc::AF_INET as u8, PREFIX, 0, 0]);
    message.bytes.extend(index.to_ne_bytes());
    message.attribute(ADDRESS_LOCAL, &address.octets());
    message.attribute(ADDRESS, &address.octets());
    message.exchange()
}

/// A queue of a device as the kernel serves it: its number, and the thread where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Napi {
    /// `NETDEV_A_NAPI_ID`.
    pub id: u32,
    /// `NETDEV_A_NAPI_PID`.
    pub thread: Option<i32>,
}

/// The queues of a device of this namespace that are served by polling (`NETDEV_CMD_NAPI_GET`, Linux 6.8).
///
/// ENOENT: this kernel does not tell.
pub(super) fn napis(device: &str) -> Result<Vec<Napi>, i32> {
    const CONTROL: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const NAPI_GET: u8 = 11;
    const IFINDEX: u16 = 1;
    const ID: u16 = 2;
    const PID: u16 = 4;
    let mut message = Message::generic(CONTROL, GET_FAMILY, 0);
    message.text(FAMILY_NAME, "netdev");
    let answers = message.ask(libc::NETLINK_GENERIC)?;
    let family = answers.first().and_then(|answer| value(answer, FAMILY_ID));
    let family =
        family.and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes).ok_or(libc::EPROTO)?;
    let mut message = Message::generic(family, NAPI_GET, libc::NLM_F_DUMP);
    message.attribute(IFINDEX, &index_of(device)?.to_ne_bytes());
    let word = |answer: &[u8], kind| value(answer, kind)?.try_into().ok().map(u32::from_ne_bytes);
    let napi = |answer: &Vec<u8>| {
        let thread = word(answer, PID).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        Some(Napi { id: word(answer, ID)?, thread })
    };
    Ok(message.ask(libc::NETLINK_GENERIC)?.iter().filter_map(napi).collect())
}

/// The value of an attribute of this kind in a generic message, behind its header of four bytes.
fn value(message: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = message.get(4..)?;
    loop {
        let half = |at: usize| rest.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
        let (length, found) = (usize::from(half(0)?), half(2)?);
        if found == kind {
            return rest.get(4..length);
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn index_of(name: &str) -> Result<u32, i32> {
    let name = CString::new(name).map_err(|_| libc::EINVAL)?;
    // SAFETY: the name is a C string that lives over the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(last_errno()),
        index => Ok(index),
    }
}

/// A request in the making.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: i32) -> Message {
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Message { bytes }
    }

    /// `struct ifinfomsg`: family and type left open, the device, and flags to set.
    fn link(&mut self, index: u32, flags: u32) {
        self.bytes.extend([0; 4]);
        for word in [index, flags, flags] {
            self.bytes.extend(word.to_ne_bytes());
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let at = self.open(kind);
        self.bytes.extend(value);
        self.close(at);
    }

    fn text(&mut self, kind: u16, text: &str) {
        let at = self.open(kind);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self.close(at);
    }

    /// Begins an attribute, whose length is known when it is closed.
    fn open(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        at
    }

    fn close(&mut self, at: usize) {
        let length = u16::try_from(self.bytes.len() - at).expect("our attributes are short");
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        // The next one begins at a multiple of four.
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// A message of generic netlink: command, version, two bytes of nothing.
    fn generic(family: u16, command: u8, flags: i32) -> Message {
        let mut message = Message::new(family, flags);
        message.bytes.extend([command, 1, 0, 0]);
        message
    }

    /// Sends it and reads the kernel's acknowledgement.
    fn exchange(self) -> Result<(), i32> {
        self.ask(libc::NETLINK_ROUTE).map(|_| ())
    }

    /// Sends it and reads what the kernel answers, without headers, up to its acknowledgement or the list's end.
    fn ask(mut self, protocol: i32) -> Result<Vec<Vec<u8>>, i32> {
        let length = u32::try_from(self.bytes.len()).expect("our messages are short");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes integers.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        check(socket.into())?;
        // SAFETY: `socket` just gave this descriptor to us alone.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let (start, length) = (self.bytes.as_ptr(), self.bytes.len());
        // SAFETY: the message is `length` bytes that live over the call. Without an address it goes to the kernel.
        check(unsafe { libc::send(socket.as_raw_fd(), start.cast(), length, 0) } as libc::c_long)?;
        let mut answers = Vec::new();
        let mut buffer = vec![0_u8; 32 << 10];
        loop {
            // SAFETY: the buffer has the length told and lives over the call.
            let got = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let got = usize::try_from(check(got as libc::c_long)?).unwrap_or(0);
            let mut rest = &buffer[..got];
            if rest.len() < HEADER {
                return Err(libc::EPROTO);
            }
            while let Some((length, kind)) = header(rest) {
                let payload = rest.get(HEADER..length).ok_or(libc::EPROTO)?;
                match kind {
                    libc::NLMSG_DONE => return Ok(answers),
                    // An acknowledgement is an error message whose number, negative as in the kernel, may be 0.
                    libc::NLMSG_ERROR => {
                        let word = payload.get(..4).ok_or(libc::EPROTO)?;
                        return match i32::from_ne_bytes([word[0], word[1], word[2], word[3]]) {
                            0 => Ok(answers),
                            negative => Err(negative.saturating_neg()),
                        };
                    }
                    _ => answers.push(payload.to_vec()),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// Length and kind of the message at the front; `None` where there is none.
fn header(bytes: &[u8]) -> Option<(usize, i32)> {
    let length = bytes.get(..4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))?;
    let kind = bytes.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]))?;
    let length = usize::try_from(length).ok().filter(|length| *length >= HEADER)?;
    Some((length, i32::from(kind)))
}
