//! Disks of a workload, and the threads that use them, on a stage.

use std::collections::BTreeMap;
use std::rc::Rc;

use surety_block::elevator::Making;
use surety_block::elevators::{self, ELEVATORS};
use surety_block::{ElevatorRow, Front, IoClass, IoGroup, Priority, Rules, Settings, kernels, queue};
use surety_device::profile::{PROFILES, Profile};
use surety_model::distribution::TimeDistribution;
use surety_model::formats::io_trace::IoTrace;
use surety_model::startup::Attempt;
use surety_model::workload::{
    ActivityKind, Direction, Disk, FileUse, IoPriority, Load, LoadKind, PolicySpec, Startup, StartupBody,
    Stream, StreamFile, Workload,
};
use surety_model::world::{Observer, RunOptions, Unobserved, WorldError};
use surety_units::{CpuSet, Nanos};

use super::super::io::{
    Actor, Fetcher, Mover, Moves, Player, Playout, Replayer, Seat, Starter, Subject, Viewer,
};
use super::super::jobs::Thread;
use super::super::{SimWorld, refuse, unsupported};
use super::{Activity, Builder, Stage};
use crate::cpu::device::{DeviceSpec, Source};
use crate::cpu::hardware::Scheduling;
use crate::disk::{self, FileId, PAGE, Unit, VIRTUAL_DEPTH};
use crate::engine::{Engine, Event, Simulation, Slot};

/// The model of a disk that names none.
const MODEL: &str = "hdd-7200";
/// The I/O scheduler of one that names none, as the kernel chooses for a device with one queue.
const SCHEDULER: &str = "mq-deadline";
/// Requests of each direction in a queue of 2.6 (`BLKDEV_MAX_RQ`).
const LEGACY_REQUESTS: u32 = 128;
/// The policy of threads that a workload says nothing of.
const FAIR: PolicySpec = PolicySpec::Fair { nice: 0, slice: None };

/// Which disk, by its place.
pub(in crate::world) type Places<'a> = BTreeMap<&'a str, usize>;

/// What of a workload's files and disks is not simulated.
pub(in crate::world) fn objections(workload: &Workload) -> Vec<WorldError> {
    let mut found = Vec::new();
    let known = |name: &Option<String>| {
        let disk = name.as_ref().filter(|name| workload.disks.iter().any(|disk| disk.name == **name));
        disk.map(|_| ()).ok_or(
            "it is on no disk of the workload, and only those are simulated; give it `disk = \"d\"` and add [disk.d]",
        )
    };
    let mut object = |kind: ActivityKind, name: &str, why: &str| {
        found.push(unsupported(kind.path(name), why));
    };
    for stream in &workload.streams {
        if let Err(why) = known(&stream.disk).and_then(|()| stream_objection(stream)) {
            object(ActivityKind::Stream, &stream.name, why);
        }
    }
    for startup in &workload.startups {
        let replays = match startup.body {
            StartupBody::Replay(_) => known(&startup.disk),
            StartupBody::Command(_) => Err(
                "a program cannot be simulated; replay its recorded I/O with `replay = \"FILE\"`, or run on the host",
            ),
        };
        if let Err(why) = replays {
            object(ActivityKind::Startup, &startup.name, why);
        }
    }
    for load in workload.loads.iter().filter(|load| is_on_disk(load.kind)) {
        if let Err(why) = known(&load.disk).map_err(str::to_owned).and_then(|()| load.check_sizes()) {
            object(ActivityKind::Load, &load.name, &why);
        }
    }
    found
}

/// Whether a kind of load is about files on a disk.
pub(in crate::world) fn is_on_disk(kind: LoadKind) -> bool {
    kind.row().file_use.is_some()
}

fn stream_objection(stream: &Stream) -> Result<(), &'static str> {
    stream.check_sizes()?;
    if let Some(batch) = stream.batch {
        if stream.direction == Direction::Write {
            return Err("only streams that read are fetched in batches; leave out `batch`");
        }
        if batch.0 == 0 || !batch.0.is_multiple_of(PAGE) {
            return Err("its `batch` is a multiple of 4KiB");
        }
    } else if stream.jitter.is_some() {
        return Err("it has `jitter` only with a `batch`; leave it out, or give both");
    }
    match &stream.file {
        StreamFile::Path(_) => Err("files of a machine are not simulated; use `file = { make = \"105MB\" }`"),
        StreamFile::Make(size) if size.0 < stream.access_bytes() => {
            Err("its file is smaller than one access")
        }
        StreamFile::Make(_) => Ok(()),
    }
}

/// Says what is assumed where a workload leaves it open.
pub(in crate::world) fn notices(workload: &Workload, observer: &mut dyn Observer) {
    for disk in workload.disks.iter().filter(|disk| disk.model.is_none() && disk.on.is_none()) {
        observer.notice(&format!("disk.{}: it names no model; simulated as `{MODEL}`", disk.name));
    }
}

/// Every start on the idle machine, before the loads begin.
pub(in crate::world) fn idle_starts(
    world: &SimWorld,
    workload: &Workload,
    options: &RunOptions,
    cpus: &CpuSet,
) -> Result<Vec<Vec<Attempt>>, WorldError> {
    if workload.startups.is_empty() {
        return Ok(Vec::new());
    }
    let mut alone = workload.clone();
    (alone.tasks, alone.irqs, alone.streams, alone.loads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let longest = |startup: &Startup| {
        let one = startup.limit() + startup.gap;
        Nanos::new(one.get().saturating_mul(i64::from(startup.repeat)))
    };
    let duration = workload.startups.iter().map(longest).fold(Nanos::SECOND, Nanos::saturating_add);
    let options = RunOptions { warm_up: Nanos::ZERO, duration, ..options.clone() };
    let mut stage = super::stage(world, &alone, &options, cpus, false)?;
    let mut now = Nanos::ZERO;
    while !stage.machine.programs().io.starts.are_done() && now < duration {
        if options.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        now = now.saturating_add(Nanos::SECOND).min(duration);
        stage.run_until(now, &mut Unobserved);
    }
    let starts = &mut stage.machine.programs_mut().io.starts;
    starts.close();
    Ok(starts.subjects.iter_mut().map(|subject| std::mem::take(&mut subject.attempts)).collect())
}

impl Stage {
    /// What disks did goes into the hash.
    pub(in crate::world) fn mix_disks(&mut self) {
        for disk in 0..self.interrupts.len() {
            let unit = self.machine.programs().io.storage.unit(disk);
            let ((requests, bytes), digest) = (unit.served(), unit.digest());
            for word in [requests, bytes, digest] {
                self.machine.recorder_mut().mix(word);
            }
        }
    }

    /// Records what disks did by themselves: all interrupt on one CPU.
    fn tell(&mut self, observer: &mut dyn Observer) {
        if self.traces
            && let Some(first) = self.interrupts.first()
        {
            let mut told = std::mem::take(&mut self.told);
            told.extend(self.machine.programs_mut().io.storage.take_told());
            self.machine.at_disk(*first, told.drain(..), observer);
            self.told = told;
        }
    }

    /// Disks, and what uses them, work on by themselves: the drivers take what they can.
    fn settle(&mut self) {
        let now = self.machine.engine().now();
        let arms = self.machine.programs_mut().io.storage.settle(now);
        let engine = self.machine.engine();
        for (slot, at) in &arms {
            match at {
                Some(at) => engine.arm(*slot, *at),
                None => engine.cancel(*slot),
            }
        }
        self.machine.programs_mut().io.storage.take_back(arms);
    }
}

impl Simulation for Stage {
    fn engine(&mut self) -> &mut Engine {
        self.machine.engine()
    }

    fn occur(&mut self, event: Event, observer: &mut dyn Observer) {
        let component = self.machine.programs().io.storage.component();
        if component != Some(event.component) {
            self.machine.occur(event, observer);
        } else {
            let now = self.machine.engine().now();
            let mut woken = std::mem::take(&mut self.woken);
            woken.extend_from_slice(self.machine.programs_mut().io.storage.occur(now, event));
            self.tell(observer);
            for woken in woken.drain(..) {
                self.machine.raise(
                    self.interrupts[woken.disk],
                    self.signals[woken.process.index()],
                    observer,
                );
            }
            self.woken = woken;
        }
        if component.is_some() {
            self.settle();
            self.tell(observer);
        }
    }
}

impl<'a> Builder<'a> {
    /// Makes the disks of a workload.
    pub(in crate::world) fn disks(
        &mut self,
        workload: &'a Workload,
        options: &RunOptions,
    ) -> Result<(), WorldError> {
        let is_traced = self.stage.traces;
        // Those of virtual machines come behind the disks that they are on.
        let (virtual_ones, real): (Vec<&Disk>, Vec<&Disk>) =
            workload.disks.iter().partition(|disk| disk.on.is_some());
        for (index, disk) in real.into_iter().chain(virtual_ones).enumerate() {
            let bound = bound(disk, options)?;
            let rules = rules_of(&self.platform);
            self.stage.disks.extend(bound.in_words(disk, rules));
            let cpu = self.cpus.lowest().map_or(0, surety_units::CpuId::index);
            let irq = u32::try_from(workload.irqs.len() + index + 1).expect("fewer than 2^32 disks");
            let process = self.process(disk.group.as_deref(), priority_of(disk.io_priority));
            let stage = &mut self.stage;
            let spec = DeviceSpec {
                name: disk.name.clone(),
                irq,
                cpu,
                source: Source::Driven,
                work: TimeDistribution::Constant(Nanos::ZERO),
                hard: Nanos::ZERO,
                buffer: None,
                seed: self.seed,
                key: format!("disk.{}", disk.name),
            };
            stage.interrupts.push(stage.machine.add_device(spec));
            let mut storage = std::mem::take(&mut stage.machine.programs_mut().io.storage);
            let (hz, seed, groups) = (self.hz, self.seed, self.io_groups.clone());
            let made = match disk.on.as_deref().and_then(|on| self.disks.get(on)) {
                Some(host) => {
                    let process = storage.add_process(process);
                    stage.signals.push(stage.machine.add_signal());
                    let size = disk.make.map_or(0, |size| size.0);
                    let device = storage.make_virtual(*host, size, (process, &format!("vm/{}", disk.name)));
                    device.map(|device| disk::Device::new(Box::new(device)))
                }
                None => bound.profile.as_ref().map(|profile| disk::Device::new(profile.build(seed))),
            };
            if let Some(device) = &made {
                let unit = |slots| bound.unit((hz, groups), rules, device.clone(), slots);
                storage.add_disk(stage.machine.engine(), |device, timer| unit((device, timer)));
            }
            stage.machine.programs_mut().io.storage = storage;
            if made.is_none() {
                return refuse(
                    format!("disk.{}.make", disk.name),
                    format!("disk `{}` has no room for it", disk.on.as_deref().unwrap_or_default()),
                );
            }
            self.disks.insert(&disk.name, index);
        }
        if is_traced {
            self.stage.machine.programs_mut().io.storage.trace();
        }
        Ok(())
    }

    /// The threads of a stream.
    pub(in crate::world) fn stream(&mut self, index: usize, stream: &'a Stream) -> Result<(), WorldError> {
        self.group = stream.group.as_deref();
        let StreamFile::Make(size) = stream.file else { return Ok(()) };
        let (activity, fair) = (Activity::Stream(index), Scheduling::Policy(FAIR));
        for _ in 0..stream.count {
            let file = self.file(ActivityKind::Stream.path(&stream.name), stream.disk.as_deref(), size.0)?;
            let Some(batch) = stream.batch else {
                let priority = io_priority(stream.io_priority, fair);
                self.actor(activity, &stream.name, (fair, priority), |seat| {
                    Actor::Player(Player::new(seat, stream, file, size.0))
                });
                continue;
            };
            let playout = self.stage.machine.programs().io.playouts.len();
            let realtime = match stream.io_priority {
                None => Priority { class: IoClass::Realtime, ..Priority::default() },
                given => priority_of(given),
            };
            let viewer = self.actor(activity, &stream.name, (fair, Priority::default()), |seat| {
                Actor::Viewer(Viewer::new(seat, playout, stream))
            });
            let name = format!("{}/fetch", stream.name);
            let fetcher = self.actor(Activity::Fetcher(index), &name, (fair, realtime), |seat| {
                Actor::Fetcher(Fetcher::new(seat, playout, stream, batch.0, (file, size.0)))
            });
            let playout = Playout::new(stream, batch.0, (viewer, fetcher));
            self.stage.machine.programs_mut().io.playouts.push(playout);
        }
        Ok(())
    }

    /// The threads of start-ups, and the one that begins them.
    pub(in crate::world) fn startups(
        &mut self,
        workload: &'a Workload,
        options: &RunOptions,
    ) -> Result<(), WorldError> {
        if workload.startups.is_empty() {
            return Ok(());
        }
        let fair = (Scheduling::Policy(FAIR), Priority::default());
        let starter =
            self.actor(Activity::Starter, "surety", fair, |seat| Actor::Starter(Starter::new(seat)));
        let starts = &mut self.stage.machine.programs_mut().io.starts;
        (starts.observe, starts.end) = (options.warm_up, options.warm_up + options.duration);
        starts.starter = starter;
        for (index, startup) in workload.startups.iter().enumerate() {
            let trace = recording(startup, options)?;
            let object = ActivityKind::Startup.path(&startup.name);
            let file = self.file(object, startup.disk.as_deref(), trace.layout().size)?;
            let processes = trace.processes.len();
            self.group = startup.group.as_deref();
            let mut subject = Subject::new(startup, trace.into(), file);
            for process in 0..processes {
                let signal = self.actor(Activity::Startup(index), &startup.name, fair, |seat| {
                    subject.processes.push(seat.process);
                    Actor::Replayer(Replayer::new(seat, index, process))
                });
                subject.signals.push(signal);
            }
            self.stage.machine.programs_mut().io.starts.subjects.push(subject);
        }
        Ok(())
    }

    /// One worker of a load on a disk.
    pub(in crate::world) fn mover(
        &mut self,
        index: usize,
        instance: u32,
        load: &Load,
        scheduling: Scheduling,
        observe: Nanos,
    ) -> Result<(), WorldError> {
        let size = load.size().0;
        let mut file = || self.file(ActivityKind::Load.path(&load.name), load.disk.as_deref(), size);
        let moves = match load.kind.row().file_use {
            Some(FileUse::Copies) => Moves::Copies(file()?, file()?),
            Some(FileUse::Writes) => Moves::Writes(file()?),
            _ => Moves::Reads(file()?),
        };
        let priority = io_priority(load.io_priority, scheduling);
        self.actor(Activity::Load(index), &load.name, (scheduling, priority), |seat| {
            Actor::Mover(Mover::new(seat, moves, load, instance, observe))
        });
        Ok(())
    }

    fn file(&mut self, object: String, disk: Option<&str>, bytes: u64) -> Result<FileId, WorldError> {
        let name = disk.unwrap_or_default();
        let place = self.disks.get(name).copied();
        let storage = &mut self.stage.machine.programs_mut().io.storage;
        match place.and_then(|disk| storage.add_file(disk, bytes)) {
            Some(file) => Ok(file),
            None => refuse(
                object,
                format!(
                    "its file of {} MB lies beyond the end of disk `{name}`; make files smaller or take a larger model",
                    bytes / 1_000_000
                ),
            ),
        }
    }

    /// A thread with an actor, on the CPU and at the disk by these; the event it waits for.
    fn actor(
        &mut self,
        activity: Activity,
        name: &str,
        (scheduling, priority): (Scheduling, Priority),
        make: impl FnOnce(Seat) -> Actor,
    ) -> usize {
        let signal = self.stage.machine.add_signal();
        let group = self.group;
        let process = self.process(group, priority);
        let io = &mut self.stage.machine.programs_mut().io;
        let process = io.storage.add_process(process);
        io.storage.count_in(process, account_of(activity));
        io.actors.push(make(Seat { process, signal }));
        let number = io.actors.len() - 1;
        self.stage.signals.push(signal);
        let confined = (self.cpus.len() < self.ids.len()).then_some(self.cpus);
        let group = group.and_then(|group| self.places.get(group).copied());
        self.member(activity, name, scheduling, group, confined, Thread::of_actor(number));
        signal
    }
}

/// In which account the requests of an activity's threads are counted.
pub(in crate::world) fn account_of(activity: Activity) -> usize {
    match activity {
        Activity::Stream(index) | Activity::Fetcher(index) => index * 3 + 1,
        Activity::Startup(index) => index * 3 + 2,
        Activity::Load(index) => index * 3 + 3,
        Activity::Task(_) | Activity::Irq(_) | Activity::Starter => 0,
    }
}

fn recording(startup: &Startup, options: &RunOptions) -> Result<IoTrace, WorldError> {
    let StartupBody::Replay(file) = &startup.body else { return Ok(IoTrace::default()) };
    let object = ActivityKind::Startup.path(&startup.name);
    match options.files.get(file).map(|text| IoTrace::parse(text)) {
        Some(Ok(trace)) => Ok(trace),
        Some(Err(wrong)) => refuse(object, format!("{file}: {wrong}")),
        None => refuse(
            object,
            format!("its recording `{file}` was not given to the simulator; keep it beside the workload"),
        ),
    }
}

/// The rules of blk-mq of a platform: of the kernel that was named, `linux-6.12`. A machine whose own release is its name has those of no
/// kernel in particular.
fn rules_of(platform: &str) -> &'static Rules {
    let named = platform.split(' ').next().and_then(|name| name.strip_prefix("linux-"));
    named.and_then(Rules::named).unwrap_or(&kernels::UNNAMED)
}

/// A disk of a workload as it is simulated.
struct Bound {
    /// `None`: it is a virtual machine's.
    profile: Option<Profile>,
    row: &'static ElevatorRow,
    settings: Settings,
}

fn profile_of(disk: &Disk, object: &str, options: &RunOptions) -> Result<Profile, WorldError> {
    let model = disk.model.as_deref().unwrap_or(MODEL);
    let read = options.files.get(model).map(|text| Profile::read(model, model, text));
    let read = read.transpose().or_else(|wrong| refuse(object.to_owned(), wrong.to_string()))?;
    if let Some(profile) = read.or_else(|| Profile::named(model)) {
        return Ok(profile);
    }
    let names: Vec<&str> = PROFILES.iter().map(|row| row.0).collect();
    let why = format!(
        "there is no model `{model}`; name a profile's file (FILE.toml), or one of {}",
        names.join(", ")
    );
    refuse(object.to_owned(), why)
}

fn bound(disk: &Disk, options: &RunOptions) -> Result<Bound, WorldError> {
    let object = format!("disk.{}", disk.name);
    let profile = match disk.on {
        Some(_) => None,
        None => Some(profile_of(disk, &object, options)?),
    };
    let scheduler = disk.scheduler.as_deref().unwrap_or(SCHEDULER);
    let Some(row) = elevators::by_word(scheduler) else {
        let words: Vec<&str> = ELEVATORS.iter().map(|row| row.word).collect();
        let why =
            format!("the I/O scheduler `{scheduler}` is not simulated; use one of {}", words.join(", "));
        return refuse(object, why);
    };
    let mut settings = Settings::new(row.tunables);
    for (name, value) in &disk.tunables {
        if let Err(error) = settings.set(name, *value) {
            return refuse(format!("{object}.tunables.{name}"), format!("{scheduler}: {error}"));
        }
    }
    Ok(Bound { profile, row, settings })
}

/// The I/O priority of a thread: the one that it was given, else that of its scheduling class (`task_nice_ioclass` in
/// `include/linux/ioprio.h`).
fn io_priority(given: Option<IoPriority>, scheduling: Scheduling) -> Priority {
    if given.is_some() {
        return priority_of(given);
    }
    let default = Priority::default();
    match scheduling {
        Scheduling::Deadline(_) => Priority { class: IoClass::Realtime, ..default },
        Scheduling::Policy(policy) => match policy {
            PolicySpec::Fair { nice, .. } | PolicySpec::Batch { nice } => {
                Priority { level: IoPriority::level_of_nice(nice), ..default }
            }
            PolicySpec::Idle => Priority { class: IoClass::Idle, level: 7 },
            // No kernel says; as a fair thread.
            PolicySpec::Simulated { .. } => default,
            PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. } | PolicySpec::Deadline => {
                Priority { class: IoClass::Realtime, ..default }
            }
        },
    }
}

fn priority_of(given: Option<IoPriority>) -> Priority {
    match given {
        None => Priority::default(),
        Some(IoPriority::Realtime(level)) => Priority { class: IoClass::Realtime, level },
        Some(IoPriority::BestEffort(level)) => Priority { class: IoClass::BestEffort, level },
        Some(IoPriority::Idle) => Priority { class: IoClass::Idle, level: 7 },
    }
}

/// What the driver of a disk says of it.
struct Driver {
    /// Requests that the device takes at a time, and that the driver has tags for.
    depth: u32,
    tags: u32,
    asks_first: bool,
    max_sectors: u32,
    rotational: bool,
}

impl Driver {
    /// virtio-blk: one device of 256 requests, which the kernel takes for one that turns.
    const VIRTUAL: Driver = Driver {
        depth: VIRTUAL_DEPTH,
        tags: VIRTUAL_DEPTH,
        asks_first: false,
        max_sectors: u32::MAX,
        rotational: true,
    };

    /// Of a device that takes so many requests at a time. Drivers have 32 tags (ATA) or 64 (MMC) where those are fewer.
    fn of(profile: &Profile, depth: u32) -> Driver {
        // An IDE disk without 48-bit addresses takes a byte's worth of sectors (`ATA_MAX_SECTORS`).
        let is_ide = profile.model == "hdd" && depth == 1 && profile.sectors() < 1 << 28;
        Driver {
            depth,
            tags: depth.max(if profile.model == "emmc" { 64 } else { 32 }),
            // Hard disks are SCSI's or ATA's, and so is flash that takes no more than ATA can name.
            asks_first: profile.model == "hdd" || (profile.model == "flash" && depth <= 32),
            max_sectors: if is_ide { 256 } else { u32::MAX },
            rotational: profile.is_rotational(),
        }
    }
}

impl Bound {
    /// The disk, with requests as the kernel gives its queue: as many as its driver has tags, and with an I/O scheduler twice as many
    /// up to 256 (`blk_mq_init_sched`).
    fn unit(
        self,
        (hz, groups): (u32, Vec<IoGroup>),
        rules: &'static Rules,
        device: disk::Device,
        slots: (Slot, Slot),
    ) -> Unit {
        let driver =
            self.profile.as_ref().map_or(Driver::VIRTUAL, |profile| Driver::of(profile, device.depth()));
        let making = Making {
            hz,
            requests: match self.row.front {
                Front::Legacy => LEGACY_REQUESTS,
                Front::BlkMq if self.row.word == "none" => driver.tags,
                Front::BlkMq => 2 * driver.tags.min(128),
            },
            tags: driver.depth,
            asks_first: driver.asks_first,
            max_sectors: driver.max_sectors,
            rotational: driver.rotational,
            device: Some(Rc::new(device.clone())),
            settings: self.settings,
            groups,
            rules,
        };
        Unit::new(queue::make(self.row, &making), device, slots)
    }

    fn in_words(&self, disk: &Disk, rules: &Rules) -> Vec<(String, String)> {
        let mut said = vec![
            match (&self.profile, &disk.on) {
                (Some(profile), _) => (format!("disk {} model", disk.name), profile.name.clone()),
                (None, on) => (format!("disk {} on", disk.name), on.clone().unwrap_or_default()),
            },
            (format!("disk {} scheduler", disk.name), format!("{} ({})", self.row.word, self.row.source)),
        ];
        if self.row.front == Front::BlkMq {
            let kernel = match rules.kernel {
                "" => "no kernel in particular".to_owned(),
                kernel => format!("Linux {kernel}"),
            };
            said.push((format!("disk {} rules", disk.name), format!("{kernel} (read: {})", rules.seen)));
        }
        let set: Vec<String> =
            disk.tunables.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !set.is_empty() {
            said.push((format!("disk {} tunables", disk.name), set.join(", ")));
        }
        said
    }
}
