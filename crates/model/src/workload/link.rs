//! [`Link`], which carries packets, and [`Flow`], whose packets they are.

use surety_units::{Bytes, Nanos, Rate};

use super::Arrivals;
use crate::promise::Promise;

/// A link: packets of flows, one after the other at a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its role: the `l` of `[link.l]`.
    pub name: String,
    pub rate: Rate,
    /// The word of a row of [`LINK_SCHEDULERS`].
    pub scheduler: String,
    /// Bytes of a turn, where the scheduler has turns; `None`: the largest packet of its flows.
    pub quantum: Option<Bytes>,
}

/// A scheduler of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkScheduler {
    pub word: &'static str,
    /// What `tc qdisc` calls it; `None`: Linux has no such queueing discipline.
    pub tc: Option<&'static str>,
}

/// Every scheduler a link can have; the first is that of a link that names none.
pub const LINK_SCHEDULERS: &[LinkScheduler] = &[
    LinkScheduler { word: "fifo", tc: Some("bfifo") },
    LinkScheduler { word: "wfq", tc: None },
    LinkScheduler { word: "wf2q+", tc: None },
    LinkScheduler { word: "b-wf2q+", tc: None },
    LinkScheduler { word: "drr", tc: Some("drr") },
    LinkScheduler { word: "qfq", tc: Some("qfq") },
    LinkScheduler { word: "hfsc", tc: Some("hfsc") },
    LinkScheduler { word: "bfq-raising", tc: None },
];

/// Messages that go over a link in packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its role.
    pub name: String,
    /// Link, by name.
    pub link: String,
    /// How many of it, each a flow of its own to the scheduler.
    pub count: u32,
    /// Its part of the link, relative to the others'.
    pub weight: u32,
    /// Bytes of a packet, but for the last one of a message.
    pub packet: Bytes,
    /// Bytes of a message; `None`: one packet.
    pub size: Option<Bytes>,
    /// When messages come.
    pub arrivals: Arrivals,
    /// The first one comes no earlier.
    pub start: Nanos,
    /// What it is guaranteed in real time, where the scheduler is `hfsc`.
    pub curve: Option<ServiceCurve>,
    /// What was promised about it.
    pub promises: Vec<Promise>,
}

/// A service curve of two pieces: bytes that are due so long after the flow has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCurve {
    /// The rate up to the bend.
    pub first: Rate,
    pub bend: Nanos,
    /// The rate from there on.
    pub then: Rate,
}

impl Flow {
    /// [`Flow::packet`] where none is given: what an Ethernet frame carries.
    pub const PACKET: Bytes = Bytes(1500);
    /// The most that a packet has: of IP, with what the kernel hands to a card at once.
    pub const PACKET_MAX: Bytes = Bytes(1 << 16);
    /// The heaviest weight (`QFQ_MAX_WEIGHT`).
    pub const WEIGHT_MAX: u32 = 1 << 10;

    /// Bytes of a message.
    pub fn message(&self) -> Bytes {
        self.size.unwrap_or(self.packet)
    }
}
