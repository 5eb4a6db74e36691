//! Published experiments: the numbers as printed, the workloads that repeat them, and both side by side.
//!
//! The flow: an [`Experiment`] builds a workload for each configuration, has a [`Bench`] run it in every world asked
//! for, and sets what it finds beside the published number in a [`Sheet`], with the difference. A published number is
//! compared, never used as a result; where an experiment needs a parameter that was not published, the rows it is
//! calibrated on are named in the notes and not counted as predictions.
//!
//! A new experiment is one file in `experiments` and one line in [`EXPERIMENTS`].

#![forbid(unsafe_code)]

mod experiments;
pub mod published;
pub mod sheet;
mod unvalidated;
pub mod validation;

pub use experiments::EXPERIMENTS;
pub use sheet::{Cell, Column, Mark, Origin, Sheet, SheetRow};

use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::workload::{LoadKind, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_units::{Bytes, CpuSet, Nanos};

/// What an experiment measures that is no workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Packets at this distance, seen at the sender, at the receiver and in between: the series of
    /// [`surety_model::interpacket`].
    Interpacket {
        /// Between two packets.
        interval: Nanos,
    },
    /// How late threads wake. The record has an activity of the kind `probe` for each CPU.
    Latency(LatencyProbe),
    /// The CPU time that a kernel takes for a request of a disk: [`surety_model::request_cost`].
    RequestCost {
        /// Under each of these I/O schedulers.
        schedulers: Vec<String>,
    },
}

/// A probe for wake-up latency: a thread on each CPU that sleeps until planned instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyProbe {
    /// Between two wake-ups.
    pub period: Nanos,
    /// How many there are. The duration of the options is not looked at.
    pub jobs: u64,
    /// Its real-time priority, in the class FIFO.
    pub priority: u8,
    /// What runs beside it: kind, count, and `block` where it is not the kind's own; other keys are as by default.
    pub loads: Vec<(LoadKind, u32, Option<Bytes>)>,
}

/// One of several runs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What is run.
    pub workload: Workload,
    pub options: RunOptions,
    /// What it is called while it lasts.
    pub label: String,
}

/// Runs workloads for an experiment.
pub trait Bench {
    /// The worlds asked for, as `--on` names them.
    fn worlds(&self) -> Vec<String>;

    /// Whether one of them can make the run of a label: not where it has records and none of this one.
    fn has(&self, _world: usize, _label: &str) -> bool {
        true
    }

    /// Runs a workload in one of them.
    ///
    /// # Errors
    /// What the world says.
    fn run(
        &mut self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError>;

    /// Makes several runs in one of them, each as if it were the only one, and gives what came of each in their order: one
    /// that fails ends no other. A kernel of the lab is booted once for all that can share a boot.
    fn run_each(&mut self, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        self.run_first(runs.len(), world, runs)
    }

    /// The first so many of several runs, in a world that was told all of them: in a kernel of the lab these are the same
    /// instructions as those of [`Bench::run_each`], up to where it is ended.
    fn run_first(&mut self, count: usize, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        let first = runs.iter().take(count);
        first.map(|run| self.run(world, &run.workload, &run.options, &run.label)).collect()
    }

    /// Runs a probe in one of them.
    ///
    /// # Errors
    /// What the world says; [`WorldError::Unsupported`] where it has nothing to measure.
    fn probe(
        &mut self,
        world: usize,
        probe: &Probe,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError>;

    /// Runs a workload in one of them on the machine an experiment was published of. A world that is bound to a real
    /// machine refuses.
    ///
    /// # Errors
    /// What the world says.
    fn run_on(
        &mut self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError>;
}

/// What is asked of an experiment.
#[derive(Clone, Debug)]
pub struct Request {
    /// How each run is made; its CPUs are those the experiment runs on.
    pub options: RunOptions,
    /// How many runs are made of each configuration, with one seed after the other. Experiments whose result hangs on no
    /// chance make one.
    pub seeds: u32,
    /// Words of configurations: of those that an experiment names, only these are run.
    pub only: Vec<String>,
}

/// A published experiment.
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it is about, in one line.
    pub title: &'static str,
    /// Where its numbers were published, in words.
    pub source: &'static str,
    /// The worlds it runs in when none is named.
    pub worlds: &'static [&'static str],
    /// How long each run is observed when nothing is said.
    pub duration: Nanos,
    /// The same on kernels of the lab, whose time is dear.
    pub lab_duration: Option<Nanos>,
    /// An instruction of the lab's guests takes `2^N` ns where nothing is said.
    pub lab_shift: u32,
    /// The devices that the lab's guests have for its interrupt sources where nothing is said, as `--lab-device` takes them.
    pub lab_devices: &'static [&'static str],
    /// How many CPUs they have at least.
    pub lab_cpus: u32,
    /// How much memory they have at least, MiB.
    pub lab_memory_mib: u64,
    /// Words of its configurations that can be asked for alone.
    pub selects: &'static [&'static str],
    /// Whether it looks at what only a trace shows, such as how long threads waited.
    pub is_traced: bool,
    /// Makes its runs. [`WorldError::Interrupted`] ends it; a world that cannot run a configuration gives a refused cell instead.
    pub(crate) reproduce: fn(&mut dyn Bench, &Request) -> Result<Sheet, WorldError>,
}

/// What most experiments have in common.
pub(crate) const COMMON: Experiment = Experiment {
    name: "",
    title: "",
    source: "",
    worlds: &["sim", "host"],
    duration: Nanos::ZERO,
    lab_duration: None,
    lab_shift: 0,
    lab_devices: &[],
    lab_cpus: 1,
    lab_memory_mib: 0,
    selects: &[],
    is_traced: false,
    reproduce: |_, _| Err(WorldError::Interrupted),
};

/// The first CPU of those asked for: experiments on one CPU run there.
pub(crate) fn one_cpu(options: &RunOptions) -> RunOptions {
    let first = options.cpus.as_ref().and_then(|cpus| cpus.iter().next());
    let cpus = first.map_or_else(|| CpuSet::first(1), |cpu| [cpu].into_iter().collect());
    RunOptions { cpus: Some(cpus), ..options.clone() }
}

/// Kernels and emulators that made records of the lab, each said once.
#[derive(Debug, Default)]
pub(crate) struct Builds(pub(crate) Vec<String>);

impl Builds {
    /// What the lab writes into a record's environment of what made it.
    const FACTS: [&str; 4] = ["lab kernel", "lab emulator", "lab machine", "lab clock"];

    /// Takes what came of a run.
    pub(crate) fn add(&mut self, world: &str, result: &Result<Record, WorldError>) {
        let Ok(record) = result else { return };
        let fact = |name: &&str| record.in_force.environment.get(*name).map(String::as_str);
        let Some(facts) = Self::FACTS.iter().map(fact).collect::<Option<Vec<&str>>>() else { return };
        let said = format!("{world}: {}", facts.join("; "));
        if !self.0.contains(&said) {
            self.0.push(said);
        }
    }
}

/// A cell from what a world said: a refusal becomes words, an interruption ends the experiment.
pub(crate) fn cell_of(
    result: Result<Record, WorldError>,
    value: impl FnOnce(&Record) -> Cell,
) -> Result<Cell, WorldError> {
    match result {
        Ok(record) => Ok(value(&record)),
        Err(WorldError::Interrupted) => Err(WorldError::Interrupted),
        Err(why) => Ok(Cell::Refused(why.to_string())),
    }
}
