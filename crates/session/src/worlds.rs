//! [`Worlds`]: the worlds of a command by their words, and runs in them.
//!
//! Each kind of world has a file below this one and a row in [`WORLDS`]; nothing else knows which there are.

use std::cell::RefCell;
use std::collections::BTreeMap;

use surety_host::Bindings;
use surety_lab::store::StoredKernel;
use surety_lab::vm::LabOptions;
use surety_model::event::{Event, TraceSink};
use surety_model::places::FilePlaces;
use surety_model::platform::{DiskDriver, Overheads, Platform, PlatformChanges};
use surety_model::record::Record;
use surety_model::source::nearest;
use surety_model::workload::Workload;
use surety_model::world::{EventsTo, LAB_PREFIX, Observer, RunOptions, World, WorldError};
use surety_units::{Bytes, Nanos};

use crate::context::{Context, Watch};
use crate::failure::Failure;
use crate::machine::this_machine;

use machines::{Machine, Machines};

mod analysis;
mod host;
mod lab;
mod machines;
mod model;
mod sim;

/// Every kind of world.
pub const WORLDS: &[WorldKind] = &[host::HOST, sim::SIM, analysis::ANALYSIS, lab::LAB];

/// A kind of world: what `--on` calls it, and how it is entered.
pub struct WorldKind {
    /// The words, for messages.
    pub words: fn() -> Vec<String>,
    /// The clock of its events, where it has any.
    pub clock: Option<&'static str>,
    /// Whether it computes what others run, on a machine that they tell it: it is run last.
    pub is_model: bool,
    /// Whether it is dear to enter and makes many runs in one visit.
    pub is_dear: bool,
    /// Has its machine be as `--platform` says, or says why it cannot and what to do.
    pub change: fn(&mut Means, &str) -> Result<(), Failure>,
    /// What a word means.
    pub open: fn(&str, &Opening<'_>) -> Opened,
}

/// What is known where words are looked up.
pub struct Opening<'a> {
    /// This machine.
    pub context: &'a dyn Context,
    /// The machines that models are of.
    pub machines: &'a Machines,
}

/// The worlds that a word means; `None` where it is none of the kind's words.
pub type Opened = Option<Result<Vec<Entered>, Failure>>;

/// A world that a word means, with what it is called in tables.
pub type Entered = (String, Box<dyn Entry>);

/// One world of a command.
pub trait Entry {
    /// The world for runs under these options.
    ///
    /// # Errors
    /// Its machine is not known.
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        options: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError>;

    /// Why it cannot run a workload, found without running anything: the first reason.
    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError>;

    /// Whether it is this machine.
    fn is_this_machine(&self) -> bool {
        false
    }

    /// The kernel of a guest.
    fn kernel(&self) -> Option<&StoredKernel> {
        None
    }

    /// The same world of a machine of another kind; a real kernel is what it is.
    fn of_another_machine(&self, _platform: &Platform) -> Option<Box<dyn World>> {
        None
    }

    /// Sends packets at a distance, and looks how far apart they are.
    ///
    /// # Errors
    /// A model has no network; else as the probe and the lab say.
    fn packets(
        &self,
        _worlds: &Worlds<'_>,
        _interval: Nanos,
        _options: &RunOptions,
        _label: &str,
    ) -> Result<Record, WorldError> {
        Err(WorldError::Unsupported {
            world: String::new(),
            object: "packets".to_owned(),
            why: "it has no network; use `--on host`".to_owned(),
        })
    }

    /// Measures the CPU time of requests under I/O schedulers ([`surety_model::request_cost`]).
    ///
    /// # Errors
    /// A model takes no CPU time for its schedulers; else as the probe and the lab say.
    fn requests(
        &self,
        _worlds: &Worlds<'_>,
        _schedulers: &[String],
        _options: &RunOptions,
    ) -> Result<Record, WorldError> {
        Err(WorldError::Unsupported {
            world: String::new(),
            object: "requests".to_owned(),
            why: "the CPU time of a kernel's I/O scheduler is not in a model; use `--on host`".to_owned(),
        })
    }
}

/// What the worlds are given.
#[derive(Clone, Debug)]
pub struct Means {
    /// Whether runs on a kernel are traced.
    pub traced: bool,
    /// Whether the host may change threads that are not the caller's to change.
    pub force: bool,
    /// The devices of the workload's disks.
    pub bindings: Bindings,
    /// What is otherwise on the machines of models.
    pub platform: PlatformChanges,
    /// How guests of the lab are made; each run brings its own seed.
    pub guest: LabOptions,
}

/// What was seen of this machine when something ran on it.
#[derive(Clone, Debug, Default)]
struct SeenHere {
    overheads: Overheads,
    disk_driver: DiskDriver,
    memory: Option<Bytes>,
    files: Vec<FilePlaces>,
}

/// Worlds in which a workload is run.
pub struct Worlds<'a> {
    context: &'a dyn Context,
    entered: Vec<(&'static WorldKind, Entered)>,
    means: Means,
    /// This machine.
    host: Platform,
    /// What its kernel's own work takes, what drives its modelled disks, its memory, and where files lie on the disks, once something ran on it.
    seen: RefCell<SeenHere>,
    /// The machines of guests that were booted, by their kernels.
    guests: RefCell<BTreeMap<String, Platform>>,
}

impl<'a> Worlds<'a> {
    /// For worlds by their words.
    ///
    /// # Errors
    /// A word that is no world, and a kernel that is not here.
    pub fn new(words: &[String], mut means: Means, context: &'a dyn Context) -> Result<Worlds<'a>, Failure> {
        let (_, host) = this_machine(context.kernel());
        let machines = Machines::of(words, &host);
        let opening = Opening { context, machines: &machines };
        let mut entered = Vec::new();
        for word in words {
            let found = WORLDS.iter().find_map(|kind| Some((kind, (kind.open)(word, &opening)?)));
            let (kind, opened) = found.ok_or_else(|| unknown(word))?;
            if !means.platform.is_empty() {
                (kind.change)(&mut means, word)?;
            }
            entered.extend(opened?.into_iter().map(|entry| (kind, entry)));
        }
        let (seen, guests) = (RefCell::default(), RefCell::default());
        Ok(Worlds { context, entered, means, host, seen, guests })
    }

    /// What they are called, in the order asked for.
    pub fn names(&self) -> Vec<&str> {
        self.entered.iter().map(|(_, (name, _))| name.as_str()).collect()
    }

    /// One of them, by its number in that order.
    pub fn entry(&self, world: usize) -> &dyn Entry {
        let (_, (_, entry)) = &self.entered[world];
        &**entry
    }

    /// Its kind.
    pub fn kind(&self, world: usize) -> &'static WorldKind {
        self.entered[world].0
    }

    /// The order in which they are best run: models are of the machines beside them, which say in their records what they are.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.entered.len()).collect();
        order.sort_by_key(|world| self.kind(*world).is_model);
        order
    }

    /// Why one of them cannot run a workload, found without running anything: the first reason.
    pub fn objection(&self, world: usize, workload: &Workload) -> Option<WorldError> {
        self.entry(world).objection(self, workload)
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

    /// Makes several runs in one of them as [`Worlds::run_first`] does; the events of each go to its sink.
    pub fn run_traced(
        &self,
        world: usize,
        runs: &[(Workload, RunOptions, String)],
        sinks: &mut [&mut dyn TraceSink],
    ) -> Vec<Result<Record, WorldError>> {
        let Some((_, first, _)) = runs.first() else { return Vec::new() };
        let labels = runs.iter().map(|(.., label)| label.as_str()).collect();
        let mut watch = self.context.watch("", None);
        let mut rows = Traced { rows: Rows { watch: &mut *watch, labels }, sinks, number: 0 };
        let plain: Vec<_> = runs.iter().map(|(w, o, _)| (w.clone(), o.clone())).collect();
        match self.world(world, first) {
            Ok(world) => world.run_each(&plain, &mut rows),
            Err(error) => plain.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The same as [`Worlds::run_on`] with a trace.
    ///
    /// # Errors
    /// As [`Worlds::run_on`].
    pub fn run_on_traced(
        &self,
        platform: &Platform,
        world: usize,
        (workload, options): (&Workload, &RunOptions),
        sink: &mut dyn TraceSink,
    ) -> Result<Record, WorldError> {
        let world = self.entry(world).of_another_machine(platform).ok_or_else(|| stays(platform))?;
        world.run(workload, options, &mut EventsTo(sink))
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
        match self.entry(world).of_another_machine(platform) {
            Some(world) => world.run(workload, options, &mut *watch),
            None => Err(stays(platform)),
        }
    }

    /// Sends packets at a distance in one of them, and looks how far apart they are.
    ///
    /// # Errors
    /// As [`Entry::packets`].
    pub fn packets(
        &self,
        world: usize,
        interval: Nanos,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let made = self.entry(world).packets(self, interval, options, label);
        made.map_err(|error| self.named(world, error))
    }

    /// Measures the CPU time of requests under I/O schedulers in one of them.
    ///
    /// # Errors
    /// As [`Entry::requests`].
    pub fn requests(
        &self,
        world: usize,
        schedulers: &[String],
        options: &RunOptions,
    ) -> Result<Record, WorldError> {
        let made = self.entry(world).requests(self, schedulers, options);
        made.map_err(|error| self.named(world, error))
    }

    /// What a world does not do, with its name.
    fn named(&self, world: usize, error: WorldError) -> WorldError {
        match error {
            WorldError::Unsupported { object, why, .. } => {
                WorldError::Unsupported { world: self.names()[world].to_owned(), object, why }
            }
            error => error,
        }
    }

    /// One of them. A guest of the lab draws from the options' seed.
    fn world(&self, world: usize, options: &RunOptions) -> Result<Box<dyn World + '_>, WorldError> {
        self.entry(world).world(self, options)
    }

    /// Keeps what a guest said of its machine, and what was measured of this one.
    fn learn(&self, world: usize, record: &Record) {
        let (entry, Some(mut machine)) = (self.entry(world), record.in_force.machine.clone()) else { return };
        if entry.is_this_machine() {
            let mut seen = self.seen.borrow_mut();
            FilePlaces::add_others(&mut machine.files, &seen.files);
            *seen = SeenHere {
                overheads: machine.overheads,
                disk_driver: machine.disk_driver,
                memory: machine.memory,
                files: machine.files.clone(),
            };
        }
        if let Some(stored) = entry.kernel() {
            let mut guests = self.guests.borrow_mut();
            let before = guests.get(stored.name()).map(|guest| guest.files.as_slice());
            FilePlaces::add_others(&mut machine.files, before.unwrap_or_default());
            guests.insert(stored.name().to_owned(), machine);
        }
    }

    /// The machine of a model.
    fn platform_of(&self, machine: &Machine, options: &RunOptions) -> Result<Platform, WorldError> {
        let platform = match machine {
            Machine::Known(platform) if **platform == self.host => {
                let SeenHere { overheads, disk_driver, memory, files } = self.seen.borrow().clone();
                Platform { overheads, disk_driver, memory, files, ..self.host.clone() }
            }
            Machine::Known(platform) => (**platform).clone(),
            Machine::Guest(kernel) => self.guest(kernel, options)?,
            Machine::Like { name, guest } => {
                let guest = self.guest(guest, options)?;
                Platform::named(name, guest.cpus).unwrap_or(guest)
            }
        };
        self.means.platform.on(&platform).map_err(|why| WorldError::Machine {
            what: format!("{} cannot have {}: {why}", platform.name, self.means.platform),
            remedy: "change --platform".to_owned(),
        })
    }

    /// The machine of a guest: what it said of itself, or says now in a run of nothing.
    fn guest(&self, kernel: &str, options: &RunOptions) -> Result<Platform, WorldError> {
        if let Some(machine) = self.guests.borrow().get(kernel) {
            return Ok(machine.clone());
        }
        let unknown = || WorldError::Machine {
            what: format!("the machine of {}{kernel} is not known", LAB_PREFIX),
            remedy: "run the workload on it first".to_owned(),
        };
        let is_it = |world: &usize| self.entry(*world).kernel().is_some_and(|stored| stored.name() == kernel);
        let world = (0..self.entered.len()).find(is_it).ok_or_else(unknown)?;
        let label = format!("machine of {}{kernel}", LAB_PREFIX);
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

/// The same with the events of each run.
struct Traced<'w, 's, 't> {
    rows: Rows<'w>,
    sinks: &'s mut [&'t mut dyn TraceSink],
    number: usize,
}

impl Observer for Traced<'_, '_, '_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        self.rows.progress(done, total);
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.sinks[self.number].observes(window);
    }

    fn notice(&mut self, text: &str) {
        self.rows.notice(text);
    }

    fn wants_run(&mut self, number: usize) -> bool {
        self.number = number;
        self.rows.wants_run(number)
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        self.sinks[self.number].event(event);
    }
}

/// Why no other machine can be put under a real kernel.
fn stays(platform: &Platform) -> WorldError {
    WorldError::Machine {
        what: format!("a kernel runs on the CPUs it has, and this experiment is of {}", platform.name),
        remedy: "run it with --on sim".to_owned(),
    }
}

fn unknown(word: &str) -> Failure {
    let words: Vec<String> = WORLDS.iter().flat_map(|kind| (kind.words)()).collect();
    let all = || format!("use {}", words.join(", "));
    let near = nearest(word, words.iter().map(String::as_str));
    let help = near.map_or_else(all, |near| format!("did you mean {near}?"));
    Failure::request(format!("there is no world `{word}`"), help)
}
