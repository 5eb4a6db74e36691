//! The block layer of Linux: from a bio to the request that the driver takes, and back.
//!
//! ```text
//! bio -> Queue (plug, merge, tags or nr_requests) -> Elevator (order, time) -> Queue -> driver -> completion
//! ```
//!
//! Everything here is a state machine that is told the time: it reads no clock, makes no event and knows no
//! device. Whoever drives it (the simulator, a test) passes the instant with each call, asks what the driver may take
//! ([`Elevator::dispatch`]), and asks for the next instant at which something happens by itself ([`Elevator::timer`]).
//!
//! An I/O scheduler is one file and one row of [`elevators::ELEVATORS`]; none knows another.

#![forbid(unsafe_code)]

pub mod elevator;
pub mod elevators;
pub mod fairq;
pub mod kernels;
mod order;
pub mod queue;
pub mod request;
mod tick;
pub mod tunable;

#[cfg(test)]
mod script;

pub use elevator::{
    Context, Elevator, ElevatorRow, Front, Making, Outgoing, Positioning, Rule, Side, Throttling,
};
pub use kernels::Rules;
pub use queue::{Queue, Step, StepKind, Submitted};
pub use request::{
    Bio, BioId, IoClass, IoGroup, Op, Priority, Process, ProcessId, Request, RequestId, Requests,
};
pub use tunable::{Settings, SettingsError, Tunable};
