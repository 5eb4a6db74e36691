//! [`Job`]: what a guest is booted for, as it stands in its memory, and what comes back of it.

use serde::{Deserialize, Serialize};
use surety_model::formats::toml;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::devices::Device;
use crate::samples::Series;

/// Where the job stands in the guest. A first process that finds it is a guest of the lab.
pub const JOB_PATH: &str = "/surety/job.json";

/// What the guest is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Job {
    /// Runs a workload in the host world of the guest.
    Workload {
        /// The workload, as a file would hold it.
        toml: String,
        /// What chance is drawn from.
        seed: u64,
        /// How long it is observed.
        duration: Nanos,
        /// How long it runs before that.
        warm_up: Nanos,
        /// The CPUs it runs on, as `0-1`; all without.
        cpus: Option<String>,
        /// Whether the scheduler's events come back.
        trace: bool,
        /// Whether nothing of what the scheduler does is recorded.
        untraced: bool,
        /// The devices of its interrupt sources.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<Device>,
        /// The CPU from which packets are sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<u32>,
        /// Whether each CPU is made a root domain of its own: handlers on the first of the run, tasks on the last.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partitioned: bool,
    },
    /// Runs the probe for wake-up latency.
    Latency {
        /// The words after `surety latency`.
        arguments: Vec<String>,
        /// How long it takes on the guest's clock.
        #[serde(default)]
        span: Nanos,
        /// Modules that the loads among them need, by [`modules_for`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modules: Vec<String>,
    },
    /// Gives the user a shell.
    Shell,
}

/// Modules that loads need: their network is a pair of `veth` devices.
pub fn modules_for(loads: &[Load]) -> Vec<String> {
    let is_network =
        |load: &Load| matches!(load.kind, LoadKind::PingFlood | LoadKind::UdpSender | LoadKind::UdpFlood);
    loads.iter().find(|load| is_network(load)).map(|_| "veth".to_owned()).into_iter().collect()
}

impl Job {
    /// The devices it needs.
    pub fn devices(&self) -> &[Device] {
        match self {
            Job::Workload { devices, .. } => devices,
            _ => &[],
        }
    }

    /// Modules to load before it is done, with parameters.
    pub fn modules(&self) -> Vec<String> {
        match self {
            // What cannot be read is refused by the guest.
            Job::Workload { toml: text, devices, .. } => {
                let workload = toml::read("workload", text);
                let loads = workload.map_or_else(|_| Vec::new(), |workload| modules_for(&workload.loads));
                let drivers = devices.iter().flat_map(|device| device.model.modules());
                drivers.map(|word| (*word).to_owned()).chain(loads).collect()
            }
            Job::Latency { modules, .. } => modules.clone(),
            Job::Shell => Vec::new(),
        }
    }
}

/// A job with what is there before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// What is to be done.
    pub job: Job,
    /// Modules to load, in this order: paths in the guest with their parameters.
    pub modules: Vec<(String, String)>,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Product {
    /// A document of `surety.record/1`.
    pub document: String,
    /// Every wake-up that was measured, thread by thread.
    pub samples: Vec<Series>,
    /// The scheduler's events as a trace.dat file, where they were asked for.
    pub trace: Vec<u8>,
}

/// Why a guest could not do its job, as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Refusal {
    /// [`WorldError::Unsupported`].
    Unsupported {
        /// The object in the workload.
        object: String,
        /// Why not.
        why: String,
    },
    /// [`WorldError::Activity`].
    Activity {
        /// The object in the workload.
        object: String,
        /// What happened.
        why: String,
    },
    /// Anything else.
    Machine {
        /// What could not be done.
        what: String,
        /// What to do.
        remedy: String,
    },
}

impl From<WorldError> for Refusal {
    fn from(error: WorldError) -> Refusal {
        match error {
            WorldError::Unsupported { object, why, .. } => Refusal::Unsupported { object, why },
            WorldError::Activity { object, why } => Refusal::Activity { object, why },
            WorldError::Machine { what, remedy } => Refusal::Machine { what, remedy },
            other => Refusal::machine(other.to_string()),
        }
    }
}

impl Refusal {
    /// Something that has no remedy of its own.
    pub fn machine(what: impl Into<String>) -> Refusal {
        Refusal::Machine {
            what: what.into(),
            remedy: "keep what the guest said with --lab-console FILE".to_owned(),
        }
    }

    /// As an error of the world `world`.
    pub fn into_error(self, world: &str) -> WorldError {
        match self {
            Refusal::Unsupported { object, why } => {
                WorldError::Unsupported { world: world.to_owned(), object, why }
            }
            Refusal::Activity { object, why } => WorldError::Activity { object, why },
            Refusal::Machine { what, remedy } => {
                WorldError::Machine { what: format!("in the guest: {what}"), remedy }
            }
        }
    }
}
