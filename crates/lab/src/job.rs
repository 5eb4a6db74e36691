//! [`Job`]: what a guest is booted for, as it stands in its memory, and what comes back of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use surety_model::formats::toml;
use surety_model::source::Diagnostics;
use surety_model::workload::{Load, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_units::{CpuSet, Nanos};

use crate::devices::Device;
use crate::disks::{self, Files};
use crate::error::LabError;
use crate::machine::GuestMachine;
use crate::programs::program_in_path;
use crate::samples::Series;

/// Where the job stands in the guest. A first process that finds it is a guest of the lab.
pub const JOB_PATH: &str = "/surety/job.json";
/// What measuring requests takes at most: 96,000 of 12 us, and 192 changes of the scheduler.
const REQUESTS_SPAN: Nanos = Nanos::from_secs(10);

/// What the guest is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Job {
    /// Runs workloads in the host world of the guest, one after the other.
    Workload {
        runs: Vec<Run>,
        /// The devices of the interrupt sources of each of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<Device>,
        /// The CPU from which packets are sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<u32>,
        /// Whether each CPU is made a root domain of its own: handlers on the first of the run, tasks on the last.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partitioned: bool,
        /// What the guest's machine has to be.
        #[serde(default, skip_serializing_if = "GuestMachine::is_as_ever")]
        machine: GuestMachine,
    },
    /// Runs the probe for wake-up latency.
    Latency {
        /// What is asked of it.
        probe: Probe,
    },
    /// Sends packets between two cards, and looks how far apart they are.
    Packets {
        /// Between two packets.
        interval: Nanos,
        /// How long it is observed.
        duration: Nanos,
        /// How long it runs before that.
        warm_up: Nanos,
        /// What chance is drawn from.
        seed: u64,
        /// The cards.
        devices: Vec<Device>,
    },
    /// Measures the CPU time of requests under I/O schedulers.
    Requests {
        /// The schedulers, by their words.
        schedulers: Vec<String>,
        /// What chance is drawn from.
        seed: u64,
    },
    /// Gives the user a shell.
    Shell,
}

/// One run of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The workload, as a file would hold it.
    pub toml: String,
    /// Streams whose bound a plan admitted, which no file says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admitted: Vec<String>,
    /// What chance is drawn from.
    pub seed: u64,
    /// How long it is observed.
    pub duration: Nanos,
    /// How long it runs before that.
    pub warm_up: Nanos,
    /// The CPUs it runs on, as `0-1`; all without.
    pub cpus: Option<String>,
    /// Whether the scheduler's events come back.
    pub trace: bool,
    /// Whether nothing of what the scheduler does is recorded.
    pub untraced: bool,
    /// Texts of recordings and profiles by the names of their files.
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    pub files: Files,
}

impl Run {
    /// A run that records what the scheduler does; with `trace` its events come back.
    pub fn of(workload: &Workload, options: &RunOptions, trace: bool) -> Run {
        Run {
            toml: toml::write(workload),
            admitted: workload.streams.iter().filter(|s| s.admitted).map(|s| s.name.clone()).collect(),
            seed: options.seed,
            duration: options.duration,
            warm_up: options.warm_up,
            cpus: options.cpus.map(|cpus| cpus.to_string()),
            trace,
            untraced: false,
            files: disks::files_of(workload, &options.files),
        }
    }

    /// Reads the workload, and marks the streams whose bound a plan admitted.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub fn workload(&self) -> Result<Workload, Diagnostics> {
        let mut workload = toml::read("workload", &self.toml)?;
        for stream in workload.streams.iter_mut().filter(|stream| self.admitted.contains(&stream.name)) {
            stream.admitted = true;
        }
        Ok(workload)
    }

    /// How long it takes on the guest's clock.
    pub fn span(&self) -> Nanos {
        self.duration.saturating_add(self.warm_up)
    }
}

/// What is asked of the probe for wake-up latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// One thread for each; all without.
    pub cpus: Option<CpuSet>,
    /// Between two activations.
    pub period: Nanos,
    /// Whether each sleeps from the present, not until planned instants.
    pub relative: bool,
    /// What the threads run under, as `surety latency --policy` takes it.
    pub policy: String,
    /// Activations of each thread that are recorded.
    pub jobs: u64,
    /// How long it runs before that.
    pub warm_up: Nanos,
    /// What chance is drawn from.
    pub seed: u64,
    /// The loads beside it, as sections of a workload file.
    pub loads: String,
}

impl Probe {
    /// The loads beside it; what cannot be read is refused by the guest.
    pub fn loads(&self) -> Vec<Load> {
        toml::read("loads", &self.loads).map(|workload| workload.loads).unwrap_or_default()
    }

    /// How long it takes on the guest's clock.
    pub fn span(&self) -> Nanos {
        let jobs = i64::try_from(self.jobs).unwrap_or(i64::MAX);
        self.period.checked_mul(jobs).unwrap_or(Nanos::MAX).saturating_add(self.warm_up)
    }
}

/// Modules that a workload needs: for the network of its loads, a pair of `veth` devices, and for its disks.
pub(crate) fn modules_for(workload: &Workload, files: &Files) -> Vec<String> {
    let loads: BTreeSet<&str> =
        workload.loads.iter().flat_map(|load| load.kind.row().modules).copied().collect();
    loads.into_iter().map(str::to_owned).chain(disks::modules(workload, files)).collect()
}

impl Job {
    /// The devices it needs.
    pub fn devices(&self) -> &[Device] {
        match self {
            Job::Workload { devices, .. } | Job::Packets { devices, .. } => devices,
            _ => &[],
        }
    }

    /// How long each of its runs takes on the guest's clock.
    pub fn spans(&self) -> Vec<Nanos> {
        match self {
            Job::Workload { runs, .. } => runs.iter().map(Run::span).collect(),
            Job::Latency { probe } => vec![probe.span()],
            Job::Packets { duration, warm_up, .. } => vec![duration.saturating_add(*warm_up)],
            Job::Requests { .. } => vec![REQUESTS_SPAN],
            Job::Shell => Vec::new(),
        }
    }

    /// Bytes that the loads of its largest run keep in the guest's memory, files included, on so many CPUs.
    pub fn bytes(&self, cpus: u32) -> u128 {
        match self {
            Job::Workload { runs, .. } => {
                let of = |run: &Run| {
                    let workload = run.workload().ok()?;
                    let loads: u128 = workload.loads.iter().map(|load| load.bytes(cpus)).sum();
                    Some(loads + disks::bytes(&workload, &run.files, cpus))
                };
                runs.iter().filter_map(of).max().unwrap_or(0)
            }
            Job::Latency { probe } => probe.loads().iter().map(|load| load.bytes(cpus)).sum(),
            Job::Packets { .. } | Job::Requests { .. } | Job::Shell => 0,
        }
    }

    /// Whether modelled disks are made for it.
    fn has_disks(&self) -> bool {
        let Job::Workload { runs, .. } = self else { return false };
        runs.iter().filter_map(|run| run.workload().ok()).any(|workload| !workload.disks.is_empty())
    }

    /// What its kernel is booted with besides.
    pub fn words_of_kernel(&self) -> Option<&'static str> {
        self.has_disks().then_some(disks::PREEMPTION)
    }

    /// Programs of this machine that it needs, each by its name and where it is.
    ///
    /// # Errors
    /// [`LabError::NoProgram`] for the first that is not installed.
    pub fn programs(&self) -> Result<Vec<(&'static str, PathBuf)>, LabError> {
        if !self.has_disks() {
            return Ok(Vec::new());
        }
        let find = |(program, package): &(&'static str, &'static str)| {
            let missing =
                || LabError::NoProgram { program: (*program).to_owned(), package: (*package).to_owned() };
            Ok((*program, program_in_path(program).ok_or_else(missing)?))
        };
        disks::PROGRAMS.iter().map(find).collect()
    }

    /// Modules to load before it is done, with parameters.
    pub fn modules(&self) -> Vec<String> {
        match self {
            Job::Workload { runs, devices, .. } => {
                let needed =
                    runs.iter().filter_map(|run| Some(modules_for(&run.workload().ok()?, &run.files)));
                let drivers = devices.iter().flat_map(|device| device.model.modules());
                let mut modules: Vec<String> = drivers.map(|word| (*word).to_owned()).collect();
                for module in needed.flatten() {
                    if !modules.contains(&module) {
                        modules.push(module);
                    }
                }
                modules
            }
            Job::Latency { probe } => {
                modules_for(&Workload { loads: probe.loads(), ..Workload::default() }, &Files::new())
            }
            Job::Packets { devices, .. } => {
                devices.iter().flat_map(|d| d.model.modules()).map(|word| (*word).to_owned()).collect()
            }
            Job::Requests { .. } => disks::FOR_REQUESTS.iter().map(|word| (*word).to_owned()).collect(),
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

/// What came back of a run.
#[derive(Clone, Debug, Default)]
pub struct Product {
    /// A document of `surety.record/1`.
    pub document: String,
    /// Every wake-up that was measured, thread by thread.
    pub samples: Vec<Series>,
    /// What was observed, on the clock of the events, where the guest said so.
    pub window: Option<(Nanos, Nanos)>,
    /// The scheduler's events as a trace.dat file, where they were asked for.
    pub trace: Vec<u8>,
}

/// Why a guest could not make a run, as it travels.
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
        /// The object in the workload, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<String>,
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
            WorldError::Machine { what, remedy } => Refusal::Machine { object: None, what, remedy },
            WorldError::MachineFor { object, what, remedy } => {
                Refusal::Machine { object: Some(object), what, remedy }
            }
            other => Refusal::machine(other.to_string()),
        }
    }
}

impl Refusal {
    /// Something that has no remedy of its own.
    pub fn machine(what: impl Into<String>) -> Refusal {
        Refusal::Machine {
            object: None,
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
            Refusal::Machine { object, what, remedy } => {
                let what = format!("in the guest: {what}");
                match object {
                    Some(object) => WorldError::MachineFor { object, what, remedy },
                    None => WorldError::Machine { what, remedy },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Model;

    #[test]
    fn a_job_travels_as_it_is_and_its_modules_are_those_of_all_its_runs() {
        let flood = "format = 1\n[[load]]\nname = \"flood\"\nkind = \"ping-flood\"\ncount = 1\n";
        let run = |toml: &str, ms| Run {
            toml: toml.to_owned(),
            admitted: Vec::new(),
            seed: 7,
            duration: Nanos::from_millis(ms),
            warm_up: Nanos::from_millis(1),
            cpus: Some("0-1".to_owned()),
            trace: true,
            untraced: false,
            files: Files::new(),
        };
        let runs = vec![run("format = 1\n", 10), run(flood, 20), run(flood, 30)];
        let job = Job::Workload {
            runs,
            devices: vec![Device::new("eth", Model::E1000)],
            outside: Some(1),
            partitioned: true,
            machine: GuestMachine { hrtimers: Some(false), ..GuestMachine::default() },
        };
        let errand = Errand { job: job.clone(), modules: vec![("/m.ko".to_owned(), "a=1".to_owned())] };
        let text = serde_json::to_string(&errand).unwrap();
        assert_eq!(serde_json::from_str::<Errand>(&text).unwrap(), errand);
        assert_eq!(job.modules(), ["e1000", "veth"]);
        assert_eq!(job.spans(), [11, 21, 31].map(Nanos::from_millis));
    }

    #[test]
    fn measuring_requests_takes_a_device_without_time_and_every_scheduler() {
        let job = Job::Requests { schedulers: vec!["none".to_owned(), "bfq".to_owned()], seed: 3 };
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
        let modules = job.modules();
        assert!(modules[0].starts_with("null_blk:queue_mode=2,irqmode=0,"), "{modules:?}");
        assert_eq!(modules[1..], ["mq_deadline", "kyber_iosched", "bfq"]);
        assert_eq!((job.spans(), job.bytes(1), job.devices().len()), (vec![REQUESTS_SPAN], 0, 0));
    }
}
