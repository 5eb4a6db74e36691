//! Disks of a workload, and the threads that use them, on a stage.

use std::collections::BTreeMap;

use surety_block::{IoClass, Priority};
use surety_device::SECTOR;
use surety_device::profile::capacity;
use surety_model::distribution::TimeDistribution;
use surety_model::formats::io_trace::IoTrace;
use surety_model::places::{FilePiece, FilePlace};
use surety_model::startup::{Attempt, REPLAY_PRIORITY, SPIN_FAIR, SPIN_REALTIME};
use surety_model::workload::{
    ActivityKind, Disk, FileUse, IoPriority, Load, LoadKind, PolicySpec, Startup, StartupBody, Workload,
};
use surety_model::world::{Observer, RunOptions, Unobserved, WorldError};
use surety_units::{CpuSet, Nanos};

use super::super::io::{Actor, Mover, Moves, Replayer, Seat, Starter, Subject, Syncer};
use super::super::jobs::Thread;
use super::super::{SimWorld, refuse, unsupported};
use super::units::{Bound, MODEL};
use super::{Activity, Builder, Place, Stage};
use crate::cpu::device::{DeviceSpec, Source};
use crate::cpu::hardware::Scheduling;
use crate::disk::{self, FileId, PAGE, Storage, Woken};
use crate::engine::{Engine, Event, Simulation};

/// The policy of threads that a workload says nothing of.
pub(super) const FAIR: PolicySpec = PolicySpec::Fair { nice: 0, slice: None };

/// Which disk, by its place.
pub(in crate::world) type Places<'a> = BTreeMap<&'a str, usize>;

/// What of a workload's files and disks is not simulated.
pub(in crate::world) fn objections(workload: &Workload) -> Vec<WorldError> {
    let mut found = Vec::new();
    let mut object = |path: String, why: &str| found.push(unsupported(path, why));
    for startup in &workload.startups {
        let replays = match startup.body {
            StartupBody::Replay(_) => known(workload, &startup.disk),
            StartupBody::Command(_) => Err(
                "a program cannot be simulated; replay its recorded I/O with `replay = \"FILE\"`, or run on the host",
            ),
        };
        if let Err(why) = replays {
            object(ActivityKind::Startup.path(&startup.name), why);
        }
    }
    for load in workload.loads.iter().filter(|load| is_on_disk(load.kind)) {
        let path = ActivityKind::Load.path(&load.name);
        if let Err(why) = known(workload, &load.disk) {
            object(path, why);
        } else if let Err(why) = load.check_sizes() {
            object(format!("{path}.block"), &why);
        } else if load.kind.row().file_use == Some(FileUse::Syncs) && load.period() <= Nanos::ZERO {
            object(format!("{path}.period"), "it is not above zero");
        }
    }
    found
}

/// Whether a kind of load is about files on a disk.
pub(in crate::world) fn is_on_disk(kind: LoadKind) -> bool {
    kind.row().file_use.is_some()
}

/// Whether a disk of the workload is named; why it has to be.
pub(in crate::world) fn known(workload: &Workload, name: &Option<String>) -> Result<(), &'static str> {
    let disk = name.as_ref().filter(|name| workload.disks.iter().any(|disk| disk.name == **name));
    disk.map(|_| ()).ok_or(
        "it is on no disk of the workload, and only those are simulated; give it `disk = \"d\"` and add [disk.d]",
    )
}

/// Says what is assumed where a workload leaves it open.
pub(in crate::world) fn notices(workload: &Workload, observer: &mut dyn Observer) {
    for disk in workload.disks.iter().filter(|disk| disk.model.is_none() && disk.on.is_none()) {
        observer.notice(&format!("disk.{}: it names no model; simulated as `{MODEL}`", disk.name));
    }
    if workload.groups.iter().any(|group| group.io_weight.is_some()) {
        for disk in workload.disks.iter().filter(|disk| disk.scheduler.as_deref() != Some("bfq")) {
            observer.notice(&format!(
                "disk.{}: `io-weight` of groups has no effect; its scheduler is not `bfq`",
                disk.name
            ));
        }
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
    let io = &mut stage.machine.programs_mut().io;
    io.close(now);
    let starts = &mut io.starts;
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

    /// Whether the kernel's workers, which run the queues of disks, have to wait for the CPU that the disks interrupt. Who waits in
    /// `woken` is about to be woken there.
    fn hold_workers(&mut self, woken: &[Woken]) {
        let signals = woken.iter().map(|woken| self.signals[woken.process.index()]);
        let holds = self.interrupts.first().is_some_and(|first| self.machine.holds_workers(*first, signals));
        let now = self.machine.engine().now();
        self.machine.programs_mut().io.storage.hold_workers(now, holds);
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
            let storage = &mut self.machine.programs_mut().io.storage;
            storage.hold_workers(now, true);
            woken.extend_from_slice(storage.occur(now, event));
            // The driver asks for its next requests where one completes; only then do those who waited for it go on, unless they are
            // above the worker that has it asked.
            self.hold_workers(&woken);
            self.settle();
            self.tell(observer);
            // Whoever a completion wakes goes on behind its one interrupt.
            for of_disk in woken.chunk_by(|a, b| a.disk == b.disk) {
                let signals = of_disk.iter().map(|woken| self.signals[woken.process.index()]);
                self.machine.raise(self.interrupts[of_disk[0].disk], signals, observer);
            }
            woken.clear();
            self.woken = woken;
        }
        if component.is_some() {
            self.hold_workers(&[]);
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
        self.stage.machine.programs_mut().io.storage = Storage::on_a_machine_with(self.platform.memory);
        // Those of virtual machines come behind the disks that they are on.
        let (virtual_ones, real): (Vec<&Disk>, Vec<&Disk>) =
            workload.disks.iter().partition(|disk| disk.on.is_some());
        for (index, disk) in real.into_iter().chain(virtual_ones).enumerate() {
            let bound = Bound::of(disk, &self.platform, options)?;
            self.stage.disks.extend(bound.in_words(disk));
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
                let made = disk.make.filter(|_| disk.on.is_none());
                let size = made.map_or(u64::MAX, |bytes| bytes.0 / SECTOR);
                let unit = |slots| bound.unit((hz, groups), device.clone(), slots).of_size(size);
                storage.add_disk(stage.machine.engine(), |device, timer| unit((device, timer)));
            }
            stage.machine.programs_mut().io.storage = storage;
            if made.is_none() {
                let host = disk.on.as_deref().unwrap_or_default();
                let storage = &self.stage.machine.programs().io.storage;
                let room = self.disks.get(host).map_or((0, 0), |disk| storage.unit(*disk).room());
                let size = disk.make.map_or(0, |size| size.0);
                let why = beyond(size, host, room, "make it smaller");
                return refuse(format!("disk.{}.make", disk.name), why);
            }
            self.disks.insert(&disk.name, index);
        }
        let storage = &mut self.stage.machine.programs_mut().io.storage;
        for file in &self.files {
            if let Some(disk) = self.disks.get(file.disk.as_str()) {
                storage.reserve(*disk, &pieces_of(file), file.bytes);
            }
        }
        if is_traced {
            storage.trace();
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
            let path = ActivityKind::Startup.path(&startup.name);
            let file = self.file((&path, "replay"), startup.disk.as_deref(), trace.layout().size)?;
            let processes = trace.processes.len();
            self.group = startup.group.as_deref();
            let (policy, spin) = self.pace();
            let activity = self.stage.machine.recorder_mut().add_activity(&startup.name);
            let mut subject = Subject::new((startup, activity), trace.into(), file, spin);
            let scheduling = (Scheduling::Policy(policy), priority_of(startup.io_priority));
            for process in 0..processes {
                let signal = self.actor(Activity::Startup(index), &startup.name, scheduling, |seat| {
                    subject.processes.push(seat.process);
                    Actor::Replayer(Replayer::new(seat, index, process))
                });
                subject.signals.push(signal);
            }
            self.stage.machine.programs_mut().io.starts.subjects.push(subject);
        }
        Ok(())
    }

    /// How the threads of replays run, and how much of a think time they look at the clock: as on the host, where a scheduler takes that.
    fn pace(&self) -> (PolicySpec, Nanos) {
        let fifo = PolicySpec::Fifo { priority: REPLAY_PRIORITY };
        let is_taken = self.stage.schedulers.iter().any(|row| row.takes.contains(&fifo.word()));
        if is_taken { (fifo, SPIN_REALTIME) } else { (FAIR, SPIN_FAIR) }
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
        let path = ActivityKind::Load.path(&load.name);
        let mut file = || self.file((&path, "size"), load.disk.as_deref(), size);
        let priority = io_priority(load.io_priority, scheduling);
        let moves = match load.kind.row().file_use {
            Some(FileUse::Syncs) => {
                let name = load.disk.as_deref().unwrap_or_default();
                let (disk, period) = (self.disks.get(name).copied().unwrap_or_default(), load.period());
                self.actor(Activity::Load(index), &load.name, (scheduling, priority), |seat| {
                    Actor::Syncer(Syncer::new(seat, disk, period, observe))
                });
                return Ok(());
            }
            Some(FileUse::Copies) => Moves::Copies(file()?, file()?),
            Some(FileUse::Writes) => Moves::Writes(file()?),
            _ => Moves::Reads(file()?),
        };
        self.actor(Activity::Load(index), &load.name, (scheduling, priority), |seat| {
            Actor::Mover(Mover::new(seat, moves, load, instance, observe))
        });
        Ok(())
    }

    /// A file of an activity, where a kernel placed it, else behind those that the disk has; `key` says how large it is.
    pub(super) fn file(
        &mut self,
        (activity, key): (&str, &str),
        disk: Option<&str>,
        bytes: u64,
    ) -> Result<FileId, WorldError> {
        let name = disk.unwrap_or_default();
        let place = self.disks.get(name).copied();
        let seen = self.files.iter().position(|file| file.disk == name && file.activity == activity);
        let pieces = seen.map(|index| pieces_of(&self.files.remove(index)));
        let storage = &mut self.stage.machine.programs_mut().io.storage;
        let added = place.and_then(|disk| match pieces {
            Some(pieces) => storage.add_file_at(disk, pieces, bytes),
            None => storage.add_file(disk, bytes),
        });
        if let Some(file) = added {
            return Ok(file);
        }
        let object = format!("{activity}.{key}");
        let (all, left) = place.map_or((0, 0), |disk| storage.unit(disk).room());
        refuse(object, beyond(bytes, name, (all, left), "make files smaller or fewer, or the disk larger"))
    }

    /// A thread with an actor, on the CPU and at the disk by these; the event it waits for.
    pub(super) fn actor(
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
        let place = Place { group, allowed: self.within_group(group, confined), ..Place::default() };
        self.member(activity, name, scheduling, place, Thread::of_actor(number));
        signal
    }
}

/// The pieces of a file, each by its first page; a piece that begins within a page begins with the next one.
fn pieces_of(file: &FilePlace) -> Vec<(u64, u64)> {
    let piece = |piece: &FilePiece| {
        let page = piece.at.div_ceil(PAGE);
        (page, piece.sector + (page * PAGE - piece.at) / SECTOR)
    };
    file.pieces.iter().map(piece).collect()
}

/// Why a file of so many bytes is on no disk that has `all` sectors, of which `left` are behind the files before it.
fn beyond(bytes: u64, disk: &str, (all, left): (u64, u64), what_to_do: &str) -> String {
    let behind = if left == all {
        String::new()
    } else {
        format!(", of which {} are left behind the files before it", capacity(left))
    };
    format!(
        "its file of {} lies beyond the end of disk `{disk}`, which has {}{behind}; {what_to_do}",
        capacity(bytes.div_ceil(SECTOR)),
        capacity(all)
    )
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
    let object = format!("{}.replay", ActivityKind::Startup.path(&startup.name));
    match options.files.get(file).map(|text| IoTrace::parse(text)) {
        Some(Ok(trace)) => Ok(trace),
        Some(Err(wrong)) => refuse(object, wrong.in_file(file)),
        None => refuse(
            object,
            format!("its recording `{file}` was not given to the simulator; keep it beside the workload"),
        ),
    }
}

/// The I/O priority of a thread: the one that it was given, else that of its scheduling class (`task_nice_ioclass` in
/// `include/linux/ioprio.h`).
pub(super) fn io_priority(given: Option<IoPriority>, scheduling: Scheduling) -> Priority {
    if given.is_some() {
        return priority_of(given);
    }
    let default = Priority::default();
    match scheduling {
        Scheduling::Deadline(_) | Scheduling::Reserved(..) | Scheduling::Within(..) => {
            Priority { class: IoClass::Realtime, ..default }
        }
        Scheduling::Policy(policy) => match policy {
            PolicySpec::Fair { nice, .. }
            | PolicySpec::LatencyNice { nice, .. }
            | PolicySpec::Batch { nice } => Priority { level: IoPriority::level_of_nice(nice), ..default },
            PolicySpec::Idle => Priority { class: IoClass::Idle, level: 7 },
            // No kernel says; as a fair thread.
            PolicySpec::Simulated { .. } => default,
            PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. } | PolicySpec::Deadline => {
                Priority { class: IoClass::Realtime, ..default }
            }
        },
    }
}

pub(super) fn priority_of(given: Option<IoPriority>) -> Priority {
    match given {
        None => Priority::default(),
        Some(IoPriority::Realtime(level)) => Priority { class: IoClass::Realtime, level },
        Some(IoPriority::BestEffort(level)) => Priority { class: IoClass::BestEffort, level },
        Some(IoPriority::Idle) => Priority { class: IoClass::Idle, level: 7 },
    }
}
