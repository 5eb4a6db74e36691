//! The three messages of rtnetlink that a cable takes: make a pair of devices, bring one up, give it an address
//! (`include/uapi/linux/rtnetlink.h`, `if_link.h`, `if_addr.h`, `veth.h`); and two of generic netlink that say which
//! threads serve a device (`genetlink.h`, `netdev.h`).
//!
//! Errors are errnos, as the kernel acknowledges each message with one.

use std::net::Ipv4Addr;
use std::num::NonZeroI32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{DefaultNla, Emitable, ErrorBuffer, NetlinkBuffer, NetlinkHeader, NlasIterator};
use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::net::{netdevice, recv, send, socket_with};

const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
/// Bits of the network that both ends are in.
const PREFIX: u8 = 24;

/// Makes a pair of `veth` devices: one here, one of the same name in another namespace.
pub(super) fn make_pair(name: &str, other: BorrowedFd<'_>) -> Result<(), i32> {
    let peer = [link(0, 0), bytes(&[text(LINK_NAME, name), into_namespace(other)])].concat();
    let data = bytes(&[DefaultNla::new(VETH_PEER, peer)]);
    let info = bytes(&[text(INFO_KIND, "veth"), DefaultNla::new(INFO_DATA, data)]);
    let attributes = [text(LINK_NAME, name), DefaultNla::new(LINK_INFO, info)];
    exchange(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, link(0, 0), &attributes)
}

/// Moves a device of this namespace into another, where it gets another name.
pub(super) fn move_to(name: &str, new_name: &str, other: BorrowedFd<'_>) -> Result<(), i32> {
    let attributes = [text(LINK_NAME, new_name), into_namespace(other)];
    exchange(libc::RTM_NEWLINK, 0, link(index_of(name)?, 0), &attributes)
}

/// Brings a device up. Gives its number.
pub(super) fn switch_on(name: &str) -> Result<u32, i32> {
    let index = index_of(name)?;
    exchange(libc::RTM_NEWLINK, 0, link(index, libc::IFF_UP as u32), &[])?;
    Ok(index)
}

/// Brings a device and the loopback device up and gives the former its address.
pub(super) fn bring_up(name: &str, address: Ipv4Addr) -> Result<(), i32> {
    switch_on("lo")?;
    let index = switch_on(name)?;
    // Family, bits of the network, flags, scope; then the device.
    let fixed = [[libc::AF_INET as u8, PREFIX, 0, 0], index.to_ne_bytes()].concat();
    let attributes = [ADDRESS_LOCAL, ADDRESS].map(|kind| DefaultNla::new(kind, address.octets().to_vec()));
    exchange(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, fixed, &attributes)
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
    // A message of generic netlink begins with its command, a version, and two bytes of nothing.
    let ask = |family, command, flags, attribute| {
        ask(Some(netlink::GENERIC), family, flags, vec![command, 1, 0, 0], &[attribute])
            .map_err(Errno::raw_os_error)
    };
    let answers = ask(CONTROL, GET_FAMILY, 0, text(FAMILY_NAME, "netdev"))?;
    let family = answers.first().and_then(|answer| value(answer, FAMILY_ID)?.try_into().ok());
    let family = family.map(u16::from_ne_bytes).ok_or(libc::EPROTO)?;
    let device = DefaultNla::new(IFINDEX, index_of(device)?.to_ne_bytes().to_vec());
    let word = |answer: &[u8], kind| value(answer, kind)?.try_into().ok().map(u32::from_ne_bytes);
    let napi = |answer: &Vec<u8>| {
        let thread = word(answer, PID).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        Some(Napi { id: word(answer, ID)?, thread })
    };
    Ok(ask(family, NAPI_GET, libc::NLM_F_DUMP, device)?.iter().filter_map(napi).collect())
}

/// The value of an attribute of this kind in a generic message, behind its header of four bytes.
fn value(message: &[u8], kind: u16) -> Option<Vec<u8>> {
    let mut attributes = NlasIterator::new(message.get(4..)?).map_while(Result::ok);
    attributes.find(|attribute| attribute.kind() == kind).map(|attribute| attribute.value().to_vec())
}

fn index_of(name: &str) -> Result<u32, i32> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.and_then(|socket| netdevice::name_to_index(socket, name)).map_err(Errno::raw_os_error)
}

/// `struct ifinfomsg`: family and type left open, the device, and flags to set.
fn link(index: u32, flags: u32) -> Vec<u8> {
    [0, index, flags, flags].map(u32::to_ne_bytes).concat()
}

fn into_namespace(other: BorrowedFd<'_>) -> DefaultNla {
    DefaultNla::new(LINK_NAMESPACE, other.as_raw_fd().to_ne_bytes().to_vec())
}

fn text(kind: u16, text: &str) -> DefaultNla {
    DefaultNla::new(kind, [text.as_bytes(), &[0]].concat())
}

fn bytes(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// Sends a request of rtnetlink and reads the kernel's acknowledgement.
fn exchange(kind: u16, flags: i32, fixed: Vec<u8>, attributes: &[DefaultNla]) -> Result<(), i32> {
    ask(None, kind, flags, fixed, attributes).map(|_| ()).map_err(Errno::raw_os_error)
}

/// Sends a request to a protocol of netlink (none: rtnetlink), its fixed part before its attributes, and reads what the kernel answers, without headers, up to its
/// acknowledgement or the list's end.
fn ask(
    protocol: Option<Protocol>,
    kind: u16,
    flags: i32,
    fixed: Vec<u8>,
    attributes: &[DefaultNla],
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut header = NetlinkHeader::default();
    let mut request = [vec![0; header.buffer_len()], fixed, bytes(attributes)].concat();
    header.length = u32::try_from(request.len()).expect("our messages are short");
    header.message_type = kind;
    header.flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    header.emit(&mut request);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    // Without an address it goes to the kernel.
    send(&socket, &request, SendFlags::empty())?;
    let mut answers = Vec::new();
    while !heard(&socket, &mut answers)? {}
    Ok(answers)
}

/// Takes the messages of one datagram; true when no more will come.
fn heard(socket: &OwnedFd, answers: &mut Vec<Vec<u8>>) -> Result<bool, Errno> {
    let mut buffer = vec![0; 32 << 10];
    let (got, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
    let mut rest = &buffer[..got];
    loop {
        let message = NetlinkBuffer::new_checked(rest).map_err(|_| Errno::PROTO)?;
        match message.message_type() {
            NLMSG_DONE => return Ok(true),
            // An acknowledgement is an error message whose number, negative as in the kernel, may be 0.
            NLMSG_ERROR => {
                let error = ErrorBuffer::new_checked(message.payload()).map_err(|_| Errno::PROTO)?;
                let failed = |code: NonZeroI32| Err(Errno::from_raw_os_error(code.get().saturating_neg()));
                return error.code().map_or(Ok(true), failed);
            }
            _ => answers.push(message.payload().to_vec()),
        }
        let length = message.length() as usize;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
    }
}
