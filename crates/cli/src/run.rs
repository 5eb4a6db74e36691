//! `surety run`: a workload in one or more worlds, one table; with `--trace` also what the scheduler did in each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use surety_analysis::AnalysisWorld;
use surety_analysis::foundation::homes;
use surety_kernel::facts::{BudgetEnd, MachineFacts};
use surety_kernel::{Kernel, SchedPolicy, deadline};
use surety_model::event::{Comm, TraceSink};
use surety_model::platform::{OtherReservation, Platform};
use surety_model::promise::Promise;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Task, Workload};
use surety_model::world::{Observer, RunOptions, World, WorldError};
use surety_probe::interpacket::InterpacketProbe;
use surety_probe::latency::LatencyProbe;
use surety_probe::{Bindings, HostWorld, platform_of};
use surety_report::{Report, Row};
use surety_sim::SimWorld;
use surety_trace::write::perfetto::{Overlay, OverlayOf};
use surety_units::{Nanos, Tid};

use crate::args::{LatencyArgs, RunArgs, Running};
use crate::exit::{Code, Failure, Message};
use crate::files;
use crate::foreign;
use crate::gates;
use crate::input::read_varied;
use crate::lab;
use crate::lab::args::GuestArgs;
use crate::load::append_loads;
use crate::place::{Machine, Place, places_of};
use crate::repeated;
use crate::session::{Session, Watch};
use crate::trace::output::TraceOutput;
use crate::words::number_of;

/// The options of one run.
pub fn options_of(running: &Running, session: &Session) -> RunOptions {
    RunOptions {
        seed: running.seed,
        duration: running.duration,
        warm_up: running.warm_up,
        cpus: running.cpus,
        cancel: session.cancel.clone(),
    }
}

/// This machine as a platform, with what is reserved on it now.
pub fn host_platform(session: &Session) -> (MachineFacts, Platform) {
    let facts = MachineFacts::tried(&session.kernel);
    let mut platform = platform_of(&facts);
    platform.others = reserved_now(&session.kernel);
    (facts, platform)
}

/// The reservations that threads of this machine have; none where they cannot be read.
fn reserved_now(kernel: &dyn Kernel) -> Vec<OtherReservation> {
    let of = |(tid, policy): (Tid, SchedPolicy)| {
        let SchedPolicy::Deadline { runtime, deadline, period, reclaim, .. } = policy else { return None };
        let reservation = Reservation { deadline, reclaim, ..Reservation::implicit(runtime, period) };
        let name = kernel.name(tid).unwrap_or_else(|_| "thread".to_owned());
        if name == BudgetEnd::THREAD {
            return None;
        }
        let other = OtherReservation::unknown(format!("{name} (thread {})", tid.0), reservation);
        Some(OtherReservation { root_domain: kernel.affinity(tid).ok(), ..other })
    };
    deadline::reservations(kernel).unwrap_or_default().into_iter().filter_map(of).collect()
}

/// What the worlds of a command line are given.
#[derive(Clone, Debug)]
pub struct Means {
    /// Whether runs on this kernel are traced.
    pub traced: bool,
    /// Whether it may change threads that are not the caller's to change.
    pub force: bool,
    /// The devices of the workload's disks.
    pub bindings: Bindings,
    /// How guests of the lab are made.
    pub guest: GuestArgs,
}

/// One run of a workload in a world.
pub struct Runner<'a> {
    session: &'a Session,
    places: Vec<(String, Place)>,
    means: Means,
    /// This machine.
    host: Platform,
    /// The machines of guests that were booted, by their kernels.
    guests: RefCell<BTreeMap<String, Platform>>,
}

impl<'a> Runner<'a> {
    /// For worlds by their words.
    pub fn new(words: &[String], means: Means, session: &'a Session) -> Result<Runner<'a>, Failure> {
        let (_, platform) = host_platform(session);
        let places = places_of(words, &platform, session)?;
        Ok(Runner { session, places, means, host: platform, guests: RefCell::default() })
    }

    /// What the worlds are called, in the order asked for.
    pub fn worlds(&self) -> Vec<&str> {
        self.places.iter().map(|(word, _)| word.as_str()).collect()
    }

    /// The worlds in the order in which they are best run: models are of the machines beside them, which say in their
    /// records what they are.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|index| self.is_model(*index));
        order
    }

    /// Whether it is a kernel of the lab: dear to boot, and able to make many runs in one boot.
    pub fn is_lab(&self, world: usize) -> bool {
        matches!(self.places[world].1, Place::Lab(_))
    }

    /// Whether it is this machine.
    pub fn is_host(&self, world: usize) -> bool {
        matches!(self.places[world].1, Place::Host)
    }

    /// Whether it computes what others run.
    pub fn is_model(&self, world: usize) -> bool {
        self.places[world].1.is_model()
    }

    /// Runs a workload in one of them.
    pub fn run(
        &self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
        sink: Option<&mut dyn TraceSink>,
    ) -> Result<Record, WorldError> {
        let mut watch = self.session.watch(label, sink);
        let record = self.world(world, options)?.run(workload, options, &mut watch)?;
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
        let mut rows = Rows { watch: self.session.watch("", None), labels };
        let plain: Vec<_> = runs.iter().map(|(w, o, _)| (w.clone(), o.clone())).collect();
        let mut made = match self.world(world, first) {
            Ok(world) => world.run_each(&plain, &mut rows),
            Err(error) => plain.iter().map(|_| Err(error.clone())).collect(),
        };
        made.truncate(count);
        made.iter().flatten().for_each(|record| self.learn(world, record));
        made
    }

    /// One of them. A guest of the lab draws from the options' seed.
    fn world(&self, world: usize, options: &RunOptions) -> Result<Box<dyn World + '_>, WorldError> {
        Ok(match &self.places[world].1 {
            Place::Host => Box::new(AtHome(self)),
            Place::Sim(machine) => Box::new(SimWorld::new(self.platform_of(machine, options)?)),
            Place::Lab(stored) => {
                let world = lab::world_of(stored, &self.means.guest, options.seed, self.session)?;
                Box::new(if self.means.traced { world } else { world.untraced() })
            }
            Place::Analysis(machine) => Box::new(AnalysisWorld::new(self.platform_of(machine, options)?)),
        })
    }

    /// Keeps what a guest said of its machine.
    fn learn(&self, world: usize, record: &Record) {
        if let (Place::Lab(stored), Some(machine)) = (&self.places[world].1, &record.in_force.machine) {
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
            what: format!("the machine of {}{kernel} is not known", lab::PREFIX),
            remedy: "run the workload on it first".to_owned(),
        };
        let world = self.places.iter().position(|(_, place)| is_it(place)).ok_or_else(unknown)?;
        let label = format!("machine of {}{kernel}", lab::PREFIX);
        let short =
            RunOptions { duration: Nanos::MILLISECOND, warm_up: Nanos::ZERO, cpus: None, ..options.clone() };
        let record = self.run(world, &Workload::default(), &short, &label, None)?;
        record.in_force.machine.ok_or_else(unknown)
    }
}

/// Shows which of several runs is on, and ends behind the last that is wanted.
struct Rows<'a> {
    watch: Watch<'a>,
    labels: Vec<&'a str>,
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
struct AtHome<'r, 'a>(&'r Runner<'a>);

impl World for AtHome<'_, '_> {
    fn name(&self) -> String {
        "host".to_owned()
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let Runner { session, means, host, .. } = self.0;
        if !means.force {
            foreign::check_workload(&session.kernel, workload, foreign::is_set_by_run)?;
        }
        let world = HostWorld::new(&session.kernel, session.journal())
            .bound(&means.bindings)
            .at_home(homes(workload, host));
        let world = if means.traced { world } else { world.untraced() };
        world.run(workload, options, observer)
    }
}

impl Runner<'_> {
    /// The same on a machine of another kind, without trace; a real kernel is what it is and refuses.
    pub fn run_on(
        &self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let mut watch = self.session.watch(label, None);
        match &self.places[world].1 {
            Place::Host | Place::Lab(_) => Err(WorldError::Machine {
                what: format!(
                    "a kernel runs on the CPUs it has, and this experiment is of {}",
                    platform.name
                ),
                remedy: "run it with --on sim".to_owned(),
            }),
            Place::Sim(_) => SimWorld::new(platform.clone()).run(workload, options, &mut watch),
            Place::Analysis(_) => AnalysisWorld::new(platform.clone()).run(workload, options, &mut watch),
        }
    }

    /// Sends packets at a distance in one of them, and looks how far apart they are.
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
                let mut watch = self.session.watch(label, None);
                InterpacketProbe::new(&self.session.kernel, self.session.journal())
                    .run(interval, options, &mut watch)
            }
            Place::Lab(stored) => {
                let (guest, stored) = (&self.means.guest, (**stored).clone());
                lab::packets::on_kernel(interval, options, guest, stored, self.session).map_err(as_world)
            }
            Place::Sim(_) | Place::Analysis(_) => Err(WorldError::Unsupported {
                world: word.clone(),
                object: "packets".to_owned(),
                why: "it has no network; use `--on host`".to_owned(),
            }),
        }
    }

    /// Runs the probe for wake-up latency in one of them.
    pub fn latency(&self, world: usize, args: &LatencyArgs) -> Result<Record, WorldError> {
        let (word, place) = &self.places[world];
        match place {
            Place::Host => {
                let options =
                    crate::latency::options_of(args, self.session.cancel.clone()).map_err(as_world)?;
                let probe = LatencyProbe::new(&self.session.kernel, self.session.journal());
                Ok(probe.run(&options, None)?.record)
            }
            Place::Lab(stored) => {
                let args = LatencyArgs { guest: self.means.guest.clone(), ..args.clone() };
                lab::latency::on_kernel(&args, (**stored).clone(), self.session).map_err(as_world)
            }
            Place::Sim(_) | Place::Analysis(_) => Err(WorldError::Unsupported {
                world: word.clone(),
                object: "the probe".to_owned(),
                why: "it measures threads of a real kernel".to_owned(),
            }),
        }
    }
}

fn as_world(failure: Failure) -> WorldError {
    if failure.code == Code::Interrupted {
        return WorldError::Interrupted;
    }
    match failure.message {
        Message::Words { what, help } => {
            WorldError::Machine { what, remedy: help.unwrap_or_else(|| "run it alone".to_owned()) }
        }
        Message::Input(why) => {
            WorldError::Machine { what: why.to_string(), remedy: "see what it names".to_owned() }
        }
    }
}

/// The verb.
pub fn run(args: &RunArgs, session: &Session) -> Result<Code, Failure> {
    let mut workload = read_varied(&args.workload)?;
    append_loads(&mut workload, &args.beside.load)?;
    args.rights.give(&mut workload)?;
    files::check_outputs(
        [&args.running.html, &args.gates.junit, &args.gates.tap, &args.trace].map(Option::as_ref),
    )?;
    let means = Means {
        traced: !args.no_trace,
        force: args.foreign.force,
        bindings: args.disks.bindings(),
        guest: args.guest.clone(),
    };
    let runner = Runner::new(&args.worlds(), means, session)?;
    if let Some(ab) = &args.ab {
        return repeated::ab(ab, &workload, args, &runner, session);
    }
    if args.repeat > 1 || !workload.vary.is_empty() {
        if args.trace.is_some() {
            let said = "--trace: the runs of [vary] would overwrite each other's file";
            return Err(Failure::new(Code::BadInput, said).help("trace a workload without [vary]"));
        }
        return repeated::varied(&workload, args, &runner, session);
    }
    let options = options_of(&args.running, session);
    let mut records: Vec<(usize, String, Record)> = Vec::new();
    let clocks: Vec<_> = runner.places.iter().map(|(_, place)| place.clock()).collect();
    let traced = clocks.iter().flatten().count();
    if args.trace.is_some() && traced == 0 {
        let said = "--trace: no world of this run has a scheduler whose events could be written";
        return Err(Failure::new(Code::BadInput, said.to_owned()).help("add `host` or `sim` to --on"));
    }
    for index in runner.order() {
        let (word, clock) = (runner.worlds()[index], clocks[index]);
        let mut output = match (&args.trace, clock) {
            (Some(path), Some(_)) => {
                let path = if traced > 1 { path_of(path, word) } else { path.clone() };
                Some((TraceOutput::create(&path, &args.storing, promised(&workload))?, path))
            }
            _ => None,
        };
        let sink = output.as_mut().map(|(output, _)| output as &mut dyn TraceSink);
        let record = match runner.run(index, &workload, &options, word, sink) {
            Err(WorldError::Interrupted) if !records.is_empty() => break,
            record => record.map_err(|error| located(error.into(), &workload))?,
        };
        if let Some((output, path)) = output {
            let written = output.finish(clock.unwrap_or_default())?;
            session.step(&format!("{}: {} events of {word}", path.display(), written.events));
            if let Some(missing) = written.missing() {
                session.note(&missing);
            }
        }
        records.push((index, word.to_owned(), record));
    }
    records.sort_by_key(|(index, ..)| *index);
    let records: Vec<_> = records.into_iter().map(|(_, word, record)| (word, record)).collect();
    finish(&workload, &records, args, session)
}

/// The file of one world: `name.dat` becomes `name.sim.dat`.
fn path_of(path: &Path, world: &str) -> PathBuf {
    let world: String = world.chars().map(|c| if c == ':' || c == ' ' { '-' } else { c }).collect();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{world}.{ending}"))
}

/// What the workload reserves for its tasks and promises of them, as tracks beside their events.
fn promised(workload: &Workload) -> Vec<Overlay> {
    let of = |task: &Task| Overlay {
        of: OverlayOf::Named(Comm::new(&task.name).to_string()),
        reservation: task.reservation,
        response_limit: task.promises.iter().find_map(Promise::response_limit),
    };
    let overlays = workload.tasks.iter().map(of);
    overlays.filter(|o| o.reservation.is_some() || o.response_limit.is_some()).collect()
}

/// The code of what is finished of a command: of its own, or that of an interruption, which is told.
pub fn unless_cut_short(code: Code, finished: usize, asked: usize, session: &Session) -> Code {
    if finished == asked {
        return code;
    }
    session.note(&format!("interrupted: {finished} of {} are finished and shown", number_of(asked, "run")));
    Code::Interrupted
}

/// Prints a report of records; the code is that of the worst.
fn finish(
    workload: &Workload,
    records: &[(String, Record)],
    args: &RunArgs,
    session: &Session,
) -> Result<Code, Failure> {
    let rows: Vec<Row<'_>> =
        records.iter().map(|(label, record)| Row::new(label, record, workload)).collect();
    let verdicts = Code::of_outcome(surety_report::summary_of_all(&rows).outcome);
    let named = records.iter().map(|(label, record)| (label.as_str(), record));
    let code = gates::check(&args.gates, named, verdicts, session)?;
    let code = unless_cut_short(code, records.len(), args.worlds().len(), session);
    let report = Report {
        title: workload.title.as_deref(),
        file: workload.source.name(),
        rows: &rows,
        all_rows: true,
        judged: None,
        plan: None,
        exit: Some(code as u8),
        made: None,
    };
    session.publish(&report, &args.running)?;
    Ok(code)
}

/// A failure about an object of a workload, with the place of that object in its file.
pub fn located(failure: Failure, workload: &Workload) -> Failure {
    use crate::exit::Message;
    let Message::Words { what, help } = failure.message else { return failure };
    let object = what.split([' ', ':', '`']).find(|word| {
        let mut parts = word.split('.');
        let kind = parts.next().unwrap_or_default();
        let kinds = ["task", "irq", "disk", "stream", "startup", "load", "group", "chain"];
        kinds.contains(&kind) && parts.next().is_some()
    });
    let what = match object.and_then(|path| workload.source.locate(path)) {
        Some(place) => format!("{place}: {what}"),
        None => what,
    };
    Failure { code: failure.code, message: Message::Words { what, help } }
}
