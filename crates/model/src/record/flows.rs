//! [`FlowAccount`]: the messages of a flow added up into its record.
//!
//! A message is an activation: it is released when it comes, starts when its first packet goes onto the link, and is complete
//! when its last one is off it. Its execution is the time that the link needs for its packets alone.

use surety_units::Nanos;

use super::{Account, ActivityRecord, Basis, Figure, JobOutcome, Total};
use crate::promise::Promise;
use crate::workload::{Activity, ActivityKind, Flow};

/// Adds up the messages of a flow, of all that are of its kind.
#[derive(Clone, Debug)]
pub struct FlowAccount {
    jobs: Account,
    outcomes: Vec<JobOutcome>,
    /// What is observed.
    span: (Nanos, Nanos),
    bytes: u64,
}

impl FlowAccount {
    /// An empty account of messages that come from the first instant of `span` on and before its second. The deadline is the
    /// shortest limit promised for the response.
    pub fn new(flow: &Flow, basis: Basis, span: (Nanos, Nanos)) -> FlowAccount {
        let deadline = flow.promises.iter().filter_map(Promise::response_limit).min();
        let activity = Activity { kind: ActivityKind::Flow, name: &flow.name, promises: &flow.promises };
        FlowAccount { jobs: Account::new(activity, deadline, basis), outcomes: Vec::new(), span, bytes: 0 }
    }

    /// Takes a message.
    pub fn add(&mut self, outcome: JobOutcome) {
        if (self.span.0..self.span.1).contains(&outcome.release()) {
            self.outcomes.push(outcome);
        }
    }

    /// A packet is off the link: of whatever message, it counts for the rate after the first instant and not after the second.
    pub fn add_packet(&mut self, at: Nanos, bytes: u64) {
        if at > self.span.0 && at <= self.span.1 {
            self.bytes += bytes;
        }
    }

    /// The record, with the most packets of one flow that waited at a time.
    pub fn finish(mut self, longest_queue: u64) -> ActivityRecord {
        let span = (self.span.1 - self.span.0).as_secs_f64();
        let rate = if span > 0.0 { self.bytes as f64 / span } else { 0.0 };
        self.jobs.add_total(Total::Bytes(rate));
        self.jobs.add_all(self.outcomes);
        let mut record = self.jobs.finish(None);
        record.figures =
            vec![Figure::new("rate", rate, "B/s"), Figure::new("longest queue", longest_queue as f64, "")];
        record
    }
}
