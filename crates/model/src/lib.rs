//! Surety's words: what runs, what was promised, what guarantees it, what became of it.
//!
//! The flow, walked once: a [`workload::Workload`] is read from a file ([`formats`]); a [`world::World`] runs it
//! and returns a [`record::Record`]; a [`verdict::Verdict`] holds each [`promise::Promise`] against the record; a
//! [`plan::Plan`] adds [`reservation::Reservation`]s, each with its proof. Data and arithmetic only: no I/O, no
//! clock, no thread.

#![forbid(unsafe_code)]

pub mod activation;
pub mod budget;
pub mod claim;
pub mod distribution;
pub mod environment;
pub mod event;
pub mod expectation;
pub mod first_cpus;
pub mod formats;
pub mod interpacket;
pub mod job;
pub mod kind;
mod lacks;
pub mod latency;
pub mod metric;
pub mod modes;
pub mod noise;
pub mod percent;
pub mod places;
pub mod plan;
pub mod platform;
pub mod playout;
pub mod promise;
pub mod record;
pub mod request_cost;
pub mod reservation;
pub mod schedulers;
pub mod source;
pub mod startup;
pub mod tested;
pub mod top;
mod topology;
pub mod until;
pub mod verdict;
pub mod wakeups;
pub mod weight;
pub mod workload;
pub mod world;
