//! Loads: best-effort activity that disturbs, each with a result of its own, because its loss is the price.
//!
//! A new load is one file here with its [`LoadDriver`], and one line in [`DRIVERS`].

mod block_by_block;
pub(crate) mod crew;
mod file_copy;
pub(crate) mod files;
mod helper;
mod memory_thrash;
mod ping_flood;
mod readers_writers;
mod spinners;
mod syncs;
mod timers;
mod udp;

use std::fs::File;
use std::path::PathBuf;

use surety_kernel::KernelError;
use surety_model::record::Figure;
pub(crate) use surety_model::record::loads::{Counts, completion, number, per_second};
use surety_model::workload::{Load, LoadKind};
use surety_model::world::{Cancel, WorldError};
use surety_units::Nanos;

use crate::disks::Disks;
use crate::meter::Metered;
use crate::window::{Gate, Window};

use files::FileOf;
pub use helper::{HELPER_WORD, helper_main};

/// The workers of one `[[load]]`.
pub(crate) type Workers = Vec<Box<dyn LoadWorker>>;

/// A kind of load: how its workers are made and what they have done is told.
pub(crate) struct LoadDriver {
    kind: LoadKind,
    /// More at once measure nothing any more, and take what others need.
    most: u32,
    /// Makes `count` workers, everything they need at hand: files made, memory touched, sockets open.
    prepare: fn(&Load, u32, &Ground<'_>) -> Result<Workers, WorldError>,
    /// Turns what the workers did inside the observed time into the load's figures.
    pub(crate) figures: fn(&Counts, Nanos) -> Vec<Figure>,
}

impl LoadDriver {
    /// Makes the workers, unless they are too many.
    pub fn prepare(&self, load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
        if count > self.most {
            let (most, word) = (self.most, load.kind.word());
            return Err(refused(load, format!("at most {most} of kind `{word}` run at once, not {count}")));
        }
        (self.prepare)(load, count, ground)
    }
}

/// What loads stand on.
#[derive(Clone, Debug)]
pub(crate) struct Ground<'a> {
    /// The disks of the run; `None` where none are made.
    pub disks: Option<&'a Disks<'a>>,
    /// What programs and all they start carry, so that a later start finds what a killed run left.
    pub mark: Option<String>,
    /// Ends a long preparation.
    pub cancel: &'a Cancel,
}

impl Ground<'_> {
    /// Keeps where a file lies that was made for somebody.
    pub fn note(&self, of: FileOf<'_>, file: &File, bytes: u64) {
        let disk = of.disk.and_then(|name| self.disks?.get(name));
        disk.into_iter().for_each(|disk| disk.note(of.object, file, bytes));
    }

    /// Why best effort overtakes streams on a disk, in words.
    pub fn overtaken(&self, disk: Option<&str>) -> Option<String> {
        let disk = self.disks?.get(disk?)?;
        let why =
            || "the driver of its disk takes more requests at a time than the disk: no `depth` limits them";
        disk.overtakes().then(|| why().to_owned())
    }

    /// Where files are made: on the disk of what they are for, or in the directory for temporary files.
    pub fn directory(&self, of: FileOf<'_>) -> Result<PathBuf, WorldError> {
        let Some(name) = of.disk else { return Ok(std::env::temp_dir()) };
        let disk = self.disks.and_then(|disks| disks.get(name));
        disk.map(|disk| disk.directory()).ok_or_else(|| WorldError::Unsupported {
            world: "host".to_owned(),
            object: of.object.to_owned(),
            why: format!(
                "disk `{name}` is neither made nor bound here; give it `make` or --disk {name}=DEVICE"
            ),
        })
    }
}

/// One thread of a load.
pub(crate) trait LoadWorker: Send {
    /// Works until the window ends.
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun;
}

/// What one worker did inside the observed window.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadRun {
    /// What it got.
    pub metered: Metered,
    /// Whether it never sleeps, so that its gaps are time without a CPU.
    pub is_busy: bool,
    /// Whether what it got went to processes of its own, which the kernel does not count as this one's.
    pub is_elsewhere: bool,
    /// Units of work.
    pub done: Counts,
    /// Why it could not go on to the end.
    pub trouble: Option<Trouble>,
}

impl LoadRun {
    /// A worker that had to give up.
    pub fn gave_up(what: impl Into<String>, remedy: impl Into<String>) -> LoadRun {
        let trouble = Trouble { what: what.into(), remedy: remedy.into() };
        LoadRun { trouble: Some(trouble), ..LoadRun::default() }
    }

    /// CPU time of processes of its own.
    pub fn elsewhere(&self) -> Nanos {
        if self.is_elsewhere { self.metered.run } else { Nanos::ZERO }
    }

    /// What is said of a worker whose thread panicked.
    pub fn panicked() -> Trouble {
        Trouble {
            what: "its thread panicked".to_owned(),
            remedy: "run again; report it if it repeats".to_owned(),
        }
    }
}

/// Why a load could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What happened.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Trouble {
    /// As the error of a run: nothing was observed of the load for the rest of it.
    pub fn of_load(&self, name: &str) -> WorldError {
        WorldError::MachineFor {
            object: format!("load.{name}"),
            what: format!("load.{name} failed: {}", self.what),
            remedy: self.remedy.clone(),
        }
    }
}

/// Every kind of load this world can run.
static DRIVERS: &[LoadDriver] = &[
    spinners::DRIVER,
    memory_thrash::DRIVER,
    readers_writers::READERS,
    readers_writers::WRITERS,
    file_copy::DRIVER,
    syncs::DRIVER,
    ping_flood::DRIVER,
    udp::SENDER,
    udp::FLOOD,
    helper::messages::DRIVER,
    helper::forks::DRIVER,
    timers::DRIVER,
    helper::command::DRIVER,
];

/// The driver of a load, or why there is none.
pub(crate) fn driver_of(load: &Load) -> Result<&'static LoadDriver, WorldError> {
    DRIVERS.iter().find(|d| d.kind == load.kind).ok_or_else(|| {
        let known: Vec<&str> = DRIVERS.iter().map(|d| d.kind.word()).collect();
        let why = format!("it runs loads of kind {}, not `{}`", known.join(", "), load.kind.word());
        refused(load, why)
    })
}

/// A load that cannot run as it is written.
fn refused(load: &Load, why: impl Into<String>) -> WorldError {
    WorldError::Unsupported {
        world: "host".to_owned(),
        object: format!("load.{}", load.name),
        why: why.into(),
    }
}

/// A load that this machine or this user cannot have.
fn no_machine(load: &Load, error: &KernelError) -> WorldError {
    WorldError::MachineFor {
        object: format!("load.{}", load.name),
        what: format!("load.{} of kind `{}` cannot be made", load.name, load.kind.word()),
        remedy: error.to_string(),
    }
}
