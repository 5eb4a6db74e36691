//! Links of a workload beside its machine, and what became of their flows' messages.

use surety_model::record::{ActivityRecord, Basis, FlowAccount};
use surety_model::workload::Workload;
use surety_model::world::{Observer, RunOptions, WorldError};
use surety_units::Nanos;

use super::unsupported;
use crate::cpu::recorder::Recorder;
use crate::engine::Simulation as _;
use crate::link::{Links, News};

/// Packets on the links of a run.
pub(super) struct Packets {
    links: Links,
    accounts: Vec<FlowAccount>,
    end: Nanos,
    /// Whether there is anything to carry.
    is_used: bool,
}

impl Packets {
    pub(super) fn new(workload: &Workload, options: &RunOptions) -> Result<Packets, WorldError> {
        let links = Links::new(workload, options.seed).map_err(|(object, why)| unsupported(object, why))?;
        let end = options.warm_up + options.duration;
        let account = |flow| FlowAccount::new(flow, Basis::Sample, (options.warm_up, end));
        let accounts = workload.flows.iter().map(account).collect();
        Ok(Packets { links, accounts, end, is_used: !workload.flows.is_empty() })
    }

    pub(super) fn run_until(&mut self, now: Nanos, observer: &mut dyn Observer) {
        if !self.is_used {
            return;
        }
        self.links.run_until(now, observer);
        for (flow, news) in self.links.take_news() {
            match news {
                News::Packet { at, bytes } => self.accounts[flow].add_packet(at, bytes),
                News::Message(outcome) => self.accounts[flow].add(outcome),
            }
        }
    }

    /// The records, with the messages that are still open; what was carried goes into the hash.
    pub(super) fn close(mut self, recorder: &mut Recorder) -> Vec<ActivityRecord> {
        self.links.open(self.end).for_each(|(flow, outcome)| self.accounts[flow].add(outcome));
        let mut records = Vec::new();
        for (flow, account) in self.accounts.into_iter().enumerate() {
            let record = account.finish(self.links.longest_queue(flow));
            recorder.mix(record.completed);
            recorder.mix(record.unfinished);
            records.push(record);
        }
        records
    }
}

/// Links as they were simulated, for the record.
pub(super) fn in_force(workload: &Workload) -> impl Iterator<Item = (String, String)> {
    let said = |rate, scheduler| format!("{rate}, {scheduler}, simulated without CPU time");
    workload.links.iter().map(move |link| (format!("link {}", link.name), said(link.rate, &link.scheduler)))
}
