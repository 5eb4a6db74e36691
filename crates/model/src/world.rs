//! [`World`]: anything that takes a workload and returns a record: a simulator, a theory, a running kernel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use surety_units::{CpuSet, Nanos};
use thiserror::Error;

use crate::event::{Event, TraceSink};
use crate::platform::Platform;
use crate::record::Record;
use crate::workload::{ActivityKind, KindRow, LoadRow, Treatment, Workload};

/// Set from outside to end a run early. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
}

impl Cancel {
    /// A cancellation that shares this flag, as signal handlers set it.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Cancel {
        Cancel { flag }
    }

    /// Ends the run.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Whether the run should end.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// The flag itself, for code that polls it.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.flag
    }
}

/// How a workload is to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Chance is drawn from this; the same in every world.
    pub seed: u64,
    /// How long activity is observed.
    pub duration: Nanos,
    /// How long it runs before that, unobserved.
    pub warm_up: Nanos,
    /// The CPUs it runs on; `None`: all the world has.
    pub cpus: Option<CpuSet>,
    /// Ends the run early.
    pub cancel: Cancel,
    /// Texts of the files that a workload names, by these names, for worlds that open no files: recordings of start-ups, profiles of disks.
    pub files: Arc<BTreeMap<String, String>>,
}

impl Default for RunOptions {
    /// 25 s after half a second of warm-up, seed 1, on every CPU.
    fn default() -> RunOptions {
        RunOptions {
            seed: 1,
            duration: Nanos::from_secs(25),
            warm_up: Nanos::from_millis(500),
            cpus: None,
            cancel: Cancel::default(),
            files: Arc::default(),
        }
    }
}

/// Somebody who watches a run: a progress bar, a trace file, a job builder.
pub trait Observer {
    /// This much of the run is done.
    fn progress(&mut self, _done: Nanos, _total: Nanos) {}

    /// What is observed begins and ends at these instants of the events' clock.
    fn observes(&mut self, _window: (Nanos, Nanos)) {}

    /// Something the user should know now.
    fn notice(&mut self, _text: &str) {}

    /// Asked before each of several runs by its number from 0 ([`World::run_each`]); what is told after it is of that run.
    /// One that is not wanted is not made, and those behind it need not be.
    fn wants_run(&mut self, _number: usize) -> bool {
        true
    }

    /// Whether the run should report its events; worlds that can save work when nobody wants them ask once.
    fn wants_events(&self) -> bool {
        false
    }

    /// Something happened. Worlds that record first and decode later call this after the run.
    fn event(&mut self, _event: &Event<'_>) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Passes events to a sink and ignores the rest.
pub struct EventsTo<'a>(pub &'a mut dyn TraceSink);

impl Observer for EventsTo<'_> {
    fn wants_events(&self) -> bool {
        true
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.0.observes(window);
    }

    fn event(&mut self, event: &Event<'_>) {
        self.0.event(event);
    }
}

/// Why a world returned no record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The workload holds something this world cannot run.
    #[error("{world} cannot run {object}: {why}")]
    Unsupported {
        world: String,
        /// Path of the object in the workload, `task.player`.
        object: String,
        /// Why not, and what to do.
        why: String,
    },
    /// The machine or the user's rights do not allow it.
    #[error("{what}: {remedy}")]
    Machine {
        /// What could not be done.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The same of an object of the workload.
    #[error("{what}: {remedy}")]
    MachineFor {
        /// Path of the object in the workload.
        object: String,
        /// What could not be done.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// An activity ended that should not have.
    #[error("{object} failed: {why}")]
    Activity {
        /// Path of the object in the workload.
        object: String,
        /// What happened and what to do.
        why: String,
    },
    /// Ended by the user.
    #[error("interrupted")]
    Interrupted,
}

impl WorldError {
    /// Path of the object of the workload that it is about.
    pub fn object(&self) -> Option<&str> {
        match self {
            WorldError::Unsupported { object, .. }
            | WorldError::MachineFor { object, .. }
            | WorldError::Activity { object, .. } => Some(object),
            WorldError::Machine { .. } | WorldError::Interrupted => None,
        }
    }
}

/// The CPUs of a run on a machine that is computed: those chosen, or all.
///
/// # Errors
/// CPUs that the machine has not.
pub fn chosen_cpus(platform: &Platform, options: &RunOptions) -> Result<CpuSet, WorldError> {
    let all = CpuSet::first(platform.cpus);
    let cpus = options.cpus.unwrap_or(all);
    if cpus.is_empty() || !cpus.is_subset(&all) {
        return Err(WorldError::Machine {
            what: format!("CPUs {cpus} are not all there: {} has {all}", platform.name),
            remedy: "choose with --cpus among those".to_owned(),
        });
    }
    Ok(cpus)
}

/// The objections of a world to the activities whose kind it refuses; a workload in which nothing is left to run is one, too.
pub fn refused_kinds(
    world: &str,
    workload: &Workload,
    why: impl Fn(&KindRow) -> Option<&'static str>,
) -> Vec<WorldError> {
    let unsupported = |object: String, why: &str| WorldError::Unsupported {
        world: world.to_owned(),
        object,
        why: why.to_owned(),
    };
    let activities = workload.activities();
    let mut found: Vec<WorldError> = activities
        .iter()
        .filter_map(|a| why(a.kind.row()).map(|why| unsupported(a.kind.path(a.name), why)))
        .collect();
    if activities.is_empty() {
        found.push(unsupported("workload".to_owned(), "there is nothing in it to run; add a [[task]]"));
    } else if found.len() == activities.len() {
        let why = "nothing is left of it to run: no kind of activity in it is run there; add a [[task]]";
        found.push(unsupported("workload".to_owned(), why));
    }
    found
}

/// The objections of a world to the loads whose row refuses them there; `say` gives the reason in words.
pub fn refused_loads(
    world: &str,
    workload: &Workload,
    treatment: impl Fn(&LoadRow) -> Treatment,
    say: impl Fn(&LoadRow, &str) -> String,
) -> Vec<WorldError> {
    let refused = workload.loads.iter().filter_map(|load| match treatment(load.kind.row()) {
        Treatment::Refused { why } => Some(WorldError::Unsupported {
            world: world.to_owned(),
            object: ActivityKind::Load.path(&load.name),
            why: say(load.kind.row(), why),
        }),
        Treatment::Whole | Treatment::CpuTime { .. } => None,
    });
    refused.collect()
}

/// What stands before the name of a kernel of the lab in the name of its world.
pub const LAB_PREFIX: &str = "lab:";

/// One of the places a workload can run in.
pub trait World {
    /// Its name in tables: `host`, `sim`, `analysis`.
    fn name(&self) -> String;

    /// What it cannot run of a workload, found without running anything. Empty: all of it can be run, as far as that can be
    /// told before.
    ///
    /// Each is the error with which [`World::run`] would refuse the workload, [`WorldError::Unsupported`] for an object of it.
    fn objections(&self, _workload: &Workload) -> Vec<WorldError> {
        Vec::new()
    }

    /// Runs the workload, reservations included, and says what became of every activity.
    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError>;

    /// Makes several runs, each as if it were the only one, and gives what came of each in their order: one that fails ends
    /// no other. Worlds that are dear to enter override this to make several in one visit. Those that the observer does not
    /// want are [`WorldError::Interrupted`].
    fn run_each(
        &self,
        runs: &[(Workload, RunOptions)],
        observer: &mut dyn Observer,
    ) -> Vec<Result<Record, WorldError>> {
        let made = runs.iter().enumerate().map(|(number, (workload, options))| {
            if observer.wants_run(number) {
                self.run(workload, options, observer)
            } else {
                Err(WorldError::Interrupted)
            }
        });
        made.collect()
    }
}
