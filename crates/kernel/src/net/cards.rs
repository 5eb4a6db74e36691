//! [`CardPair`]: two network cards of this machine whose wires meet, each in a network namespace of its own, so that what one
//! sends the other receives.
//!
//! A card in another namespace leaves this one's programs alone; when the namespace goes, the kernel takes the card back into the
//! first one. What a card holds of packets that nobody has handled yet is its receive ring, which ethtool reads and sets.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use surety_units::Nanos;

use super::threaded::Counts;
use super::{Cable, DEVICE, End, Flow, Metronome, Namespace, netlink};
use crate::clock;
use crate::error::{KernelError, Operation, check};
use crate::files;
use crate::mount::DetachedMount;

/// A card's link comes up after its driver has looked for it, which takes seconds.
const CARRIES_WITHIN: Nanos = Nanos::from_secs(20);
/// Between two tries.
const PAUSE: Nanos = Nanos::from_millis(50);

/// How the card of a metronome is called.
const METRONOME: &str = "surety1";
/// The port for what nobody wants (RFC 863).
const DISCARD: u16 = 9;

fn failed(name: &str, errno: i32) -> KernelError {
    KernelError::new(Operation::Network, format!("the card {name}"), errno)
}

/// A card's address, as its directory in sysfs says it.
fn address(directory: &Path) -> Result<[u8; 6], KernelError> {
    let path = directory.join("address");
    let text = files::read_text(&path)?;
    let bytes: Vec<u8> =
        text.trim().split(':').filter_map(|word| u8::from_str_radix(word, 16).ok()).collect();
    bytes.try_into().map_err(|_| KernelError::new(Operation::Read, path.display().to_string(), libc::EPROTO))
}

/// Two cards with a wire between them, up and seen to carry packets.
#[derive(Debug)]
pub struct CardPair {
    cable: Cable,
    near: DetachedMount,
    far: DetachedMount,
    /// The number of the metronome's card.
    beats: Option<u32>,
}

/// Places in a card's receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// In use.
    pub places: u32,
    pub most: u32,
}

impl CardPair {
    /// Takes two cards by the names of their devices.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN, ENODEV where there is no such device, ETIMEDOUT when no echo came back in 20 s.
    pub fn new(near: &str, far: &str) -> Result<CardPair, KernelError> {
        let cable = Cable { near: Namespace::new()?, far: Namespace::new()? };
        for (end, name) in [(End::Near, near), (End::Far, far)] {
            let into = cable.space(end);
            netlink::move_to(name, DEVICE, into.file.as_fd()).map_err(|errno| failed(name, errno))?;
            let up = into.inside(|| netlink::bring_up(DEVICE, end.address()))?;
            up.map_err(|errno| failed(name, errno))?;
        }
        let sysfs = |end: End, name| {
            cable.space(end).inside(|| DetachedMount::of(c"sysfs"))?.map_err(|errno| failed(name, errno))
        };
        let (near, far) = (sysfs(End::Near, near)?, sysfs(End::Far, far)?);
        cable.wait_for_echo(CARRIES_WITHIN, PAUSE)?;
        Ok(CardPair { cable, near, far, beats: None })
    }

    /// Takes a third card, whose wire repeats what it is given, and leads to the receiving one.
    ///
    /// # Errors
    /// ENODEV where there is no such device, ETIMEDOUT when its link is not up in 20 s.
    pub fn with_metronome(mut self, name: &str) -> Result<CardPair, KernelError> {
        let space = &self.cable.near;
        let err = |errno| failed(name, errno);
        netlink::move_to(name, METRONOME, space.file.as_fd()).map_err(err)?;
        self.beats = Some(space.inside(|| netlink::switch_on(METRONOME))?.map_err(err)?);
        let carrier = self.near.root().join("class/net").join(METRONOME).join("carrier");
        let until = clock::monotonic() + CARRIES_WITHIN;
        // It cannot be read while the card is down.
        while !files::read_text(&carrier).is_ok_and(|text| text.trim() == "1") {
            if clock::monotonic() >= until {
                return Err(err(libc::ETIMEDOUT));
            }
            let _ = clock::sleep_until(clock::monotonic() + PAUSE, None);
        }
        Ok(self)
    }

    /// Whether it has a metronome's card.
    pub fn repeats(&self) -> bool {
        self.beats.is_some()
    }

    /// The metronome for a flow, which must have been made by [`CardPair::flow_of_metronome`]; `None` without a card for it.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn metronome(&self, flow: &Flow) -> Result<Option<Metronome>, KernelError> {
        let Some(device) = self.beats else { return Ok(None) };
        let frame = flow.frame((address(&self.sender_directory())?, address(&self.directory())?));
        let frame = frame.map_err(|e| KernelError::from_io(Operation::Open, "a UDP socket", &e))?;
        let made = self.cable.near.inside(|| Metronome::new(device, frame))?;
        made.map(Some).map_err(|errno| failed(METRONOME, errno))
    }

    /// A flow to the port that is the metronome's, in this run and every other: a frame that goes round cannot be taken back.
    ///
    /// # Errors
    /// Those of [`CardPair::flow`].
    pub fn flow_of_metronome(&self, steps: usize) -> Result<Flow, KernelError> {
        self.cable.flow_to(DISCARD, steps)
    }

    /// The wire, with its sockets.
    pub fn cable(&self) -> &Cable {
        &self.cable
    }

    /// The receiving card's directory in sysfs.
    pub fn directory(&self) -> PathBuf {
        self.far.root().join("class/net").join(DEVICE)
    }

    /// The sending card's directory in sysfs.
    pub fn sender_directory(&self) -> PathBuf {
        self.near.root().join("class/net").join(DEVICE)
    }

    /// Gives the polling of the receiving card's ring to a thread of the kernel's, `napi/NAME-N` (`dev_set_threaded` in
    /// `net/core/dev.c`, since 5.12). Gives what the names of its threads begin with.
    ///
    /// # Errors
    /// EOPNOTSUPP, ENOENT on kernels that have none.
    pub fn poll_in_a_thread(&self) -> Result<String, KernelError> {
        files::write_text(&self.directory().join("threaded"), "1")?;
        Ok(format!("napi/{DEVICE}-"))
    }

    /// A flow over the wire: [`Cable::flow`].
    ///
    /// # Errors
    /// Those of the sockets and of their filter.
    pub fn flow(&self, steps: usize) -> Result<Flow, KernelError> {
        self.cable.flow(steps)
    }

    /// The receiving card's ring.
    ///
    /// # Errors
    /// EOPNOTSUPP where its driver does not say.
    pub fn ring(&self) -> Result<Ring, KernelError> {
        let asked = self.ethtool(RingParameters { command: GET_RING, ..RingParameters::default() })?;
        Ok(Ring { places: asked.receive, most: asked.receive_max })
    }

    /// Gives the receiving card a ring of so many places; drivers round as their card asks. Gives what it has then.
    ///
    /// # Errors
    /// EINVAL for more than it can have, EOPNOTSUPP where its driver has one size only; ETIMEDOUT when the wire carries
    /// nothing afterwards.
    pub fn set_ring(&self, places: u32) -> Result<Ring, KernelError> {
        let before = self.ethtool(RingParameters { command: GET_RING, ..RingParameters::default() })?;
        if before.receive != places {
            self.ethtool(RingParameters { command: SET_RING, receive: places, ..before })?;
            self.cable.wait_for_echo(CARRIES_WITHIN, PAUSE)?;
        }
        self.ring()
    }

    fn ethtool(&self, parameters: RingParameters) -> Result<RingParameters, KernelError> {
        let asked = self.cable.space(End::Far).inside(|| ring(parameters))?;
        asked.map_err(|errno| KernelError::new(Operation::Network, format!("the ring of {DEVICE}"), errno))
    }

    /// What both cards have counted: packets handled, and those that the near one sent and the far one has not handled: lost, or
    /// still in the ring. With a metronome those that found no place, as the receiving card itself counts them.
    ///
    /// # Errors
    /// Those of reading sysfs.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        let count = |directory: PathBuf, which: &str| {
            let path = directory.join("statistics").join(which);
            let text = files::read_text(&path)?;
            let bad = || KernelError::new(Operation::Read, path.display().to_string(), libc::EIO);
            text.trim().parse::<u64>().map_err(|_| bad())
        };
        let handled = count(self.directory(), "rx_packets")?;
        if self.beats.is_some() {
            return Ok(Counts { handled, lost: count(self.directory(), "rx_missed_errors")? });
        }
        let sent = count(self.sender_directory(), "tx_packets")?;
        Ok(Counts { handled, lost: sent.saturating_sub(handled) })
    }
}

/// `ETHTOOL_GRINGPARAM` and `ETHTOOL_SRINGPARAM` of `include/uapi/linux/ethtool.h`.
const GET_RING: u32 = 0x10;
const SET_RING: u32 = 0x11;

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RingParameters {
    command: u32,
    receive_max: u32,
    mini_max: u32,
    jumbo_max: u32,
    send_max: u32,
    receive: u32,
    mini: u32,
    jumbo: u32,
    send: u32,
}

/// Asks about, or sets, the rings of the device in this namespace.
fn ring(mut parameters: RingParameters) -> Result<RingParameters, i32> {
    // SAFETY: the structure is plain bytes, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut parameters).cast();
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: the request names a structure of the command's shape; both live over the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    check(done.into())?;
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_there_is_named() {
        match CardPair::new("surety-none", "surety-none") {
            Err(error) if error.errno == libc::EPERM => eprintln!("SKIPPED: {error}"),
            Err(error) => assert!(error.to_string().contains("surety-none"), "{error}"),
            Ok(pair) => panic!("{pair:?}"),
        }
    }
}
