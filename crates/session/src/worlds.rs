//! [`Worlds`]: the worlds of a command by their words, and runs in them. The one place that knows all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_analysis::foundation::homes;
use surety_lab::vm::LabOptions;
use surety_model::event::TraceSink;
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{Observer, RunOptions, World, WorldError};
use surety_probe::interpacket::InterpacketProbe;
use surety_probe::{Bindings, HostWorld};
use surety_sim::SimWorld;
use surety_units::Nanos;

use crate::context::{Context, Watch};
use crate::failure::Failure;
use crate::guests;
use crate::machine::this_machine;
use crate::permission;
use crate::place::{LAB, Machine, Place, places_of};

/// What the worlds are given.
#[derive(Clone, Debug)]
pub struct Means {
    /// Whether runs on a kernel are traced.
    pub traced: bool,
    /// Whether the host may change threads that are not the caller's to change.
    pub force: bool,
    /// The devices of the workload's disks.
    pub bindings: Bindings,
    /// How guests of the lab are made; each run brings its own seed.
    pub guest: LabOptions,
}

/// Worlds in which a workload is run.
pub struct Worlds<'a> {
    context: &'a dyn Context,
    places: Vec<(String, Place)>,
    means: Means,
    /// This machine.
    host: Platform,
    /// The machines of guests that were booted, by their kernels.
    guests: RefCell<BTreeMap<String, Platform>>,
}

impl<'a> Worlds<'a> {
    /// For worlds by their words.
    ///
    /// # Errors
    /// As [`places_of`].
    pub fn new(words: &[String], means: Means, context: &'a dyn Context) -> Result<Worlds<'a>, Failure> {
        let (_, host) = this_machine(context.kernel());
        let places = places_of(words, &host, context)?;
        Ok(Worlds { context, places, means, host, guests: RefCell::default() })
    }

    /// What they are called, in the order asked for.
    pub fn names(&self) -> Vec<&str> {
        self.places.iter().map(|(word, _)| word.as_str()).collect()
    }

    /// One of them, by its number in that order.
    pub fn place(&self, world: usize) -> &Place {
        &self.places[world].1
    }

    /// What the worlds are given.
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// The order in which they are best run: models are of the machines beside them, which say in their records what they are.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|world| self.place(*world).is_model());
        order
    }

    /// Why one of them cannot run a workload, found without running anything: the first reason.
    pub fn objection(&self, world: usize, workload: &Workload) -> Option<WorldError> {
        let first = |world: &dyn World| world.objections(workload).into_iter().next();
        // What a model cannot run does not depend on its machine, which a guest has yet to tell.
        match self.place(world) {
            Place::Host => first(&AtHome(self)),
            Place::Sim(_) => first(&SimWorld::new(self.host.clone())),
            Place::Analysis(_) => first(&AnalysisWorld::new(self.host.clone())),
            Place::Lab(stored) => {
                match guests::world_of(stored, &self.means.guest, self.means.guest.seed, self.context) {
                    Ok(world) => first(&world),
                    Err(error) => Some(error.into()),
                }
            }
        }
    }

    /// Runs a workload in one of them.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run(
        &self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
        sink: Option<&mut dyn TraceSink>,
    ) -> Result<Record, WorldError> {
        let mut watch = self.context.watch(label, sink);
        let record = self.world(world, options)?.run(workload, options, &mut *watch)?;
        self.learn(world, &record);
        Ok(record)
    }

    /// Makes the first so many of several runs in one of them, which is told all of them; a guest of the lab draws from the seed
    /// of the first. Each has a name that is shown while it lasts.
    pub fn run_first(
        &self,
        count: usize,
        world: usize,
        runs: &[(Workload, RunOptions, String)],
    ) -> Vec<Result<Record, WorldError>> {
        let Some((_, first, _)) = runs.first() else { return Vec::new() };
        let labels = runs.iter().take(count).map(|(.., label)| label.as_str()).collect();
        let mut watch = self.context.watch("", None);
        let mut rows = Rows { watch: &mut *watch, labels };
        let plain: Vec<_> = runs.iter().map(|(w, o, _)| (w.clone(), o.clone())).collect();
        let mut made = match self.world(world, first) {
            Ok(world) => world.run_each(&plain, &mut rows),
            Err(error) => plain.iter().map(|_| Err(error.clone())).collect(),
        };
        made.truncate(count);
        made.iter().flatten().for_each(|record| self.learn(world, record));
        made
    }

    /// The same as [`Worlds::run`] on a machine of another kind, without trace; a real kernel is what it is and refuses.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_on(
        &self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let mut watch = self.context.watch(label, None);
        match self.place(world) {
            Place::Host | Place::Lab(_) => Err(WorldError::Machine {
                what: format!(
                    "a kernel runs on the CPUs it has, and this experiment is of {}",
                    platform.name
                ),
                remedy: "run it with --on sim".to_owned(),
            }),
            Place::Sim(_) => SimWorld::new(platform.clone()).run(workload, options, &mut *watch),
            Place::Analysis(_) => AnalysisWorld::new(platform.clone()).run(workload, options, &mut *watch),
        }
    }

    /// Sends packets at a distance in one of them, and looks how far apart they are.
    ///
    /// # Errors
    /// A model has no network; else as the probe and the lab say.
    pub fn packets(
        &self,
        world: usize,
        interval: Nanos,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let (word, place) = &self.places[world];
        match place {
            Place::Host => {
                let mut watch = self.context.watch(label, None);
                let probe = InterpacketProbe::new(self.context.kernel(), self.context.journal());
                probe.run(interval, options, &mut *watch)
            }
            Place::Lab(stored) => {
                guests::packets(interval, options, &self.means.guest, (**stored).clone(), self.context)
            }
            Place::Sim(_) | Place::Analysis(_) => Err(WorldError::Unsupported {
                world: word.clone(),
                object: "packets".to_owned(),
                why: "it has no network; use `--on host`".to_owned(),
            }),
        }
    }

    /// One of them. A guest of the lab draws from the options' seed.
    fn world(&self, world: usize, options: &RunOptions) -> Result<Box<dyn World + '_>, WorldError> {
        Ok(match self.place(world) {
            Place::Host => Box::new(AtHome(self)),
            Place::Sim(machine) => Box::new(SimWorld::new(self.platform_of(machine, options)?)),
            Place::Lab(stored) => {
                let world = guests::world_of(stored, &self.means.guest, options.seed, self.context)?;
                Box::new(if self.means.traced { world } else { world.untraced() })
            }
            Place::Analysis(machine) => Box::new(AnalysisWorld::new(self.platform_of(machine, options)?)),
        })
    }

    /// Keeps what a guest said of its machine.
    fn learn(&self, world: usize, record: &Record) {
        if let (Place::Lab(stored), Some(machine)) = (self.place(world), &record.in_force.machine) {
            self.guests.borrow_mut().insert(stored.name().to_owned(), machine.clone());
        }
    }

    /// The machine of a model.
    fn platform_of(&self, machine: &Machine, options: &RunOptions) -> Result<Platform, WorldError> {
        match machine {
            Machine::Known(platform) => Ok((**platform).clone()),
            Machine::Guest(kernel) => self.guest(kernel, options),
            Machine::Like { name, guest } => {
                let guest = self.guest(guest, options)?;
                Ok(Platform::named(name, guest.cpus).unwrap_or(guest))
            }
        }
    }

    /// The machine of a guest: what it said of itself, or says now in a run of nothing.
    fn guest(&self, kernel: &str, options: &RunOptions) -> Result<Platform, WorldError> {
        if let Some(machine) = self.guests.borrow().get(kernel) {
            return Ok(machine.clone());
        }
        let is_it = |place: &Place| matches!(place, Place::Lab(stored) if stored.name() == kernel);
        let unknown = || WorldError::Machine {
            what: format!("the machine of {LAB}{kernel} is not known"),
            remedy: "run the workload on it first".to_owned(),
        };
        let world = self.places.iter().position(|(_, place)| is_it(place)).ok_or_else(unknown)?;
        let label = format!("machine of {LAB}{kernel}");
        let short =
            RunOptions { duration: Nanos::MILLISECOND, warm_up: Nanos::ZERO, cpus: None, ..options.clone() };
        let record = self.run(world, &Workload::default(), &short, &label, None)?;
        record.in_force.machine.ok_or_else(unknown)
    }
}

/// Shows which of several runs is on, and ends behind the last that is wanted.
struct Rows<'w> {
    watch: &'w mut dyn Watch,
    labels: Vec<&'w str>,
}

impl Observer for Rows<'_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        self.watch.progress(done, total);
    }

    fn notice(&mut self, text: &str) {
        self.watch.notice(text);
    }

    fn wants_run(&mut self, number: usize) -> bool {
        let label = self.labels.get(number);
        if let Some(label) = label {
            self.watch.turn_to(&format!("{}/{} {label}", number + 1, self.labels.len()));
        }
        label.is_some()
    }
}

/// The host, with reserved threads of each workload in root domains where they fit.
struct AtHome<'r, 'a>(&'r Worlds<'a>);

impl AtHome<'_, '_> {
    fn host(&self) -> HostWorld<'_> {
        let Worlds { context, means, .. } = self.0;
        let world = HostWorld::new(context.kernel(), context.journal()).bound(&means.bindings);
        if means.traced { world } else { world.untraced() }
    }
}

impl World for AtHome<'_, '_> {
    fn name(&self) -> String {
        self.host().name()
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        self.host().objections(workload)
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let Worlds { context, means, host, .. } = self.0;
        if !means.force {
            permission::check_workload(context.kernel(), workload, permission::is_set_by_run)?;
        }
        self.host().at_home(homes(workload, host)).run(workload, options, observer)
    }
}
