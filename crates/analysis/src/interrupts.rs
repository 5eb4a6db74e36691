//! Interrupt threads under a reservation: how many requests a device has to hold, how many it loses, and which
//! throughput a reservation allows.
//!
//! A device raises an interrupt at least P apart from the next and holds up to N_c requests; its thread has (Q, D, T)
//! and needs c of CPU time for each. [`pending`] has the rules that no request is lost, [`loss`] the fraction that is
//! lost when they do not hold, [`throughput`] what gets through. Every result names what it rests on and what it
//! assumes.

pub mod loss;
pub mod pending;
pub mod throughput;

use thiserror::Error;

/// Why nothing can be said about an interrupt thread.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum InterruptError {
    /// A time that has to be positive is not.
    #[error("{what} is {value}: it has to be positive")]
    NotPositive {
        what: &'static str,
        /// As given.
        value: String,
    },
    /// The device holds nothing.
    #[error("a device that holds 0 requests loses every one: give the size of its queue")]
    NoQueue,
    /// More states than a chain is solved for.
    #[error("a queue of {held} requests is larger than the {limit} this analysis takes")]
    TooLong {
        /// Requests the device holds.
        held: usize,
        /// The most.
        limit: usize,
    },
    /// More requests in one server period than are computed with.
    #[error(
        "up to {count:.0} requests come in one server period, more than the {limit} that are computed with: take a shorter period, or make them rarer"
    )]
    TooMany {
        /// As many as may come.
        count: f64,
        /// The most.
        limit: usize,
    },
    /// The arrivals are no distribution.
    #[error("the arrivals of one server period: {0}")]
    Arrivals(#[from] crate::cbs::CbsError),
    /// A share or a probability outside 0 to 1.
    #[error("{what} is {value}: it lies between 0 and 1")]
    NotAShare {
        what: &'static str,
        /// As given.
        value: f64,
    },
    /// The wish is beyond what any reservation gives.
    #[error("{wanted} is wanted, and even a whole CPU gives {most}")]
    OutOfReach {
        /// What is asked for.
        wanted: String,
        /// What there is at most.
        most: String,
    },
}

/// The rule, source and assumptions behind a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The rule.
    pub theorem: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The numbers, line by line.
    pub steps: Vec<String>,
    /// What has to hold.
    pub assumptions: Vec<String>,
}
