//! `surety run`: a workload in one or more worlds, one table; with `--trace` also what the scheduler did in each.

use std::path::{Path, PathBuf};

use surety_analysis::AnalysisWorld;
use surety_analysis::foundation::homes;
use surety_kernel::facts::MachineFacts;
use surety_lab::store::StoredKernel;
use surety_model::event::{Comm, TraceSink};
use surety_model::platform::Platform;
use surety_model::promise::Promise;
use surety_model::record::Record;
use surety_model::source::nearest;
use surety_model::workload::{Task, Workload};
use surety_model::world::{Observer, RunOptions, World, WorldError};
use surety_probe::interpacket::InterpacketProbe;
use surety_probe::latency::LatencyProbe;
use surety_probe::{Bindings, HostWorld, platform_of};
use surety_report::{Report, Row};
use surety_sim::SimWorld;
use surety_trace::write::perfetto::{Overlay, OverlayOf};
use surety_units::Nanos;

use crate::args::{LatencyArgs, RunArgs, Running};
use crate::exit::{Code, Failure, Message};
use crate::gates;
use crate::input::read_varied;
use crate::lab;
use crate::lab::args::GuestArgs;
use crate::load::append_loads;
use crate::repeated;
use crate::session::Session;
use crate::trace::output::TraceOutput;

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

/// This machine as a platform.
pub fn host_platform(session: &Session) -> (MachineFacts, Platform) {
    let facts = MachineFacts::read(&session.kernel);
    let platform = platform_of(&facts);
    (facts, platform)
}

/// Where a workload can run: the words `--on` takes.
enum Place {
    Host,
    Sim(Platform),
    Analysis(Platform),
    Lab(Box<StoredKernel>),
}

impl Place {
    /// The clock of its events, where it has any: recordings are made on CLOCK_MONOTONIC, and a simulation's time begins
    /// at 0 and counts the same.
    fn clock(&self) -> Option<&'static str> {
        match self {
            Place::Host | Place::Sim(_) | Place::Lab(_) => Some("mono"),
            Place::Analysis(_) => None,
        }
    }
}

/// Words of `--on`, for messages.
const PLACES: &[&str] =
    &["host", "sim", "sim:linux-6.18", "sim:linux-6.12", "sim:linux-6.1", "analysis", "lab:KERNEL"];
/// A simulator of another machine than this.
const SIMULATED: &str = "sim:";

fn place_of(word: &str, host: &Platform, session: &Session) -> Result<Place, Failure> {
    if let Some(kernel) = word.strip_prefix(lab::PREFIX) {
        return Ok(Place::Lab(Box::new(lab::store(session)?.kernel(kernel)?)));
    }
    let named = word.strip_prefix(SIMULATED).and_then(|name| Platform::named(name, host.cpus));
    if let Some(platform) = named {
        return Ok(Place::Sim(platform));
    }
    match word {
        "host" => Ok(Place::Host),
        "sim" => Ok(Place::Sim(host.clone())),
        "analysis" => Ok(Place::Analysis(host.clone())),
        _ => {
            let near = nearest(word, PLACES.iter().copied());
            let help =
                near.map_or_else(|| format!("use {}", PLACES.join(", ")), |n| format!("did you mean {n}?"));
            Err(Failure::new(Code::BadInput, format!("there is no world `{word}`")).help(help))
        }
    }
}

/// What the worlds of a command line are given.
#[derive(Clone, Debug)]
pub struct Means {
    /// Whether runs on this kernel are traced.
    pub traced: bool,
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
}

impl<'a> Runner<'a> {
    /// For worlds by their words.
    pub fn new(words: &[String], means: Means, session: &'a Session) -> Result<Runner<'a>, Failure> {
        let (_, platform) = host_platform(session);
        let places = words.iter().map(|word| Ok((word.clone(), place_of(word, &platform, session)?)));
        let places = places.collect::<Result<_, Failure>>()?;
        Ok(Runner { session, places, means, host: platform })
    }

    /// The worlds' words, in the order asked for.
    pub fn worlds(&self) -> Vec<&str> {
        self.places.iter().map(|(word, _)| word.as_str()).collect()
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
        self.world(world, options.seed)?.run(workload, options, &mut watch)
    }

    /// Makes several runs in one of them; a guest of the lab draws from the seed of the first.
    pub fn run_each(
        &self,
        world: usize,
        runs: &[(Workload, RunOptions)],
        observer: &mut dyn Observer,
    ) -> Vec<Result<Record, WorldError>> {
        let Some((_, first)) = runs.first() else { return Vec::new() };
        match self.world(world, first.seed) {
            Ok(world) => world.run_each(runs, observer),
            Err(error) => runs.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// One of them. A guest of the lab draws from the seed.
    fn world(&self, world: usize, seed: u64) -> Result<Box<dyn World + '_>, WorldError> {
        Ok(match &self.places[world].1 {
            Place::Host => Box::new(AtHome(self)),
            Place::Sim(platform) => Box::new(SimWorld::new(platform.clone())),
            Place::Lab(stored) => {
                let world = lab::world_of(stored, &self.means.guest, seed, self.session)?;
                Box::new(if self.means.traced { world } else { world.untraced() })
            }
            Place::Analysis(platform) => Box::new(AnalysisWorld::new(platform.clone())),
        })
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
    let means = Means { traced: !args.no_trace, bindings: args.disks.bindings(), guest: args.guest.clone() };
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
    let mut records: Vec<(String, Record)> = Vec::new();
    let clocks: Vec<_> = runner.places.iter().map(|(_, place)| place.clock()).collect();
    let traced = clocks.iter().flatten().count();
    if args.trace.is_some() && traced == 0 {
        let said = "--trace: no world of this run has a scheduler whose events could be written";
        return Err(Failure::new(Code::BadInput, said.to_owned()).help("add `host` or `sim` to --on"));
    }
    for (index, (word, clock)) in runner.worlds().into_iter().zip(clocks).enumerate() {
        let mut output = match (&args.trace, clock) {
            (Some(path), Some(_)) => {
                let path = if traced > 1 { path_of(path, word) } else { path.clone() };
                Some((TraceOutput::create(&path, &args.storing, promised(&workload))?, path))
            }
            _ => None,
        };
        let sink = output.as_mut().map(|(output, _)| output as &mut dyn TraceSink);
        let record = runner.run(index, &workload, &options, word, sink);
        let record = record.map_err(|error| located(error.into(), &workload))?;
        if let Some((output, path)) = output {
            let written = output.finish(clock.unwrap_or_default())?;
            session.step(&format!("{}: {} events of {word}", path.display(), written.events));
            if let Some(missing) = written.missing() {
                session.note(&missing);
            }
        }
        records.push((word.to_owned(), record));
    }
    finish(&workload, &records, args, session)
}

/// The file of one world: `name.dat` becomes `name.sim.dat`.
fn path_of(path: &Path, world: &str) -> PathBuf {
    let world: String = world.chars().map(|c| if c == ':' { '-' } else { c }).collect();
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
    let report = Report {
        title: workload.title.as_deref(),
        file: workload.source.name(),
        rows: &rows,
        all_rows: true,
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
