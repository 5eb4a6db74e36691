//! [`Irq`]: an interrupt source, and when its interrupts come.

use surety_units::{Frequency, Nanos};

use crate::distribution::TimeDistribution;
use crate::promise::Promise;
use crate::reservation::Reservation;

/// An interrupt source with its handling thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Irq {
    /// Its role.
    pub name: String,
    /// The device's role, bound when it runs.
    pub device: Option<String>,
    /// When interrupts come.
    pub arrivals: Arrivals,
    /// CPU time of one request in the thread.
    pub work: TimeDistribution,
    /// CPU time of the hard handler, which each interrupt takes from whatever runs before the thread is woken.
    pub hard: Option<Nanos>,
    /// How many requests the device holds; the one in service has left it. `None`: any number.
    pub buffer: Option<u64>,
    /// What was promised about it.
    pub promises: Vec<Promise>,
    /// The guarantee its thread runs under.
    pub reservation: Option<Reservation>,
}

impl Irq {
    /// A source with nothing promised, without hard handler and with room for every request: a start to fill in.
    pub fn new(name: &str, arrivals: Arrivals, work: TimeDistribution) -> Irq {
        Irq {
            name: name.to_owned(),
            device: None,
            arrivals,
            work,
            hard: None,
            buffer: None,
            promises: Vec::new(),
            reservation: None,
        }
    }
}

/// When requests or events arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// On a grid.
    Periodic {
        /// Distance.
        period: Nanos,
    },
    /// At least this far apart.
    Sporadic {
        /// Smallest distance.
        gap: Nanos,
    },
    /// Independent of each other.
    Poisson {
        /// Mean rate.
        rate: Frequency,
    },
    /// A fixed number in flight: a completed request makes the next one.
    Closed {
        /// How many in flight.
        outstanding: u32,
        /// How long the device takes for one.
        service: Nanos,
    },
}
