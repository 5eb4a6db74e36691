//! [`SimWorld`]: the world `sim`.
//!
//! Time 0 is the start of the run. Activations with a planned release in `[warm_up, warm_up + duration)` are
//! observed; the run ends at `warm_up + duration`, and what happens at that very instant still counts. Shares,
//! waits and the longest gap are measured from the warm-up's end to the run's end; a gap that reaches beyond
//! either is cut there.
//!
//! What is simulated is CPU time. `spinners` and `memory-thrash` want it without end; that the latter also slows
//! its neighbours through caches and memory is not in it, and is said. `messages` are processes that write to each other
//! through sockets, at a cost that the load says. Programs are refused. Files lie on simulated disks
//! ([`crate::disk`]), and what uses them does as the host world's threads do.
//!
//! Links ([`crate::link`]) run beside the CPUs: packets take none of their time.
//!
//! An interrupt source is a device with a buffer, its hard handler and its thread ([`crate::cpu::device`]). Each
//! interrupt brings one request and none is held back while the thread is at work, as a driver that polls would.
//! The thread runs under its reservation, else as FIFO 50 on the CPU of the interrupt, which is where the kernel puts it.
//!
//! Simulated threads do not look at their own CPU time. A real one that reads `CLOCK_THREAD_CPUTIME_ID` makes the
//! kernel book its time at that instant, and so loses the CPU at the end of its slice or budget instead of at the
//! next tick (measured on 6.18: slices of 1.4 ms instead of 4 ms). Timers fire when they are due: a fair thread on a
//! machine sleeps up to 50 us longer unless its timer slack is lowered. Here it does where the platform or the task says so (`timer-slack`).
//!
//! Ungrouped threads of a run share one session, so on a platform with autogroup they share the root as well.

mod build;
mod chains;
mod interrupts;
mod io;
mod jobs;
mod links;
mod meetings;

use std::collections::BTreeMap;

use surety_device::power::ULTRASTAR_36Z15;
use surety_model::activation::first_tick;
use surety_model::budget;
use surety_model::platform::{Enforcement, Platform};
use surety_model::playout::{Level, Waits, jitter_of};
use surety_model::record::loads::{Counts, file_figures, load_account, message_figures};
use surety_model::record::{
    Account, ActivityRecord, Basis, CpuTimers, InForce, Record, RequestAccount, Share, StreamThread,
    ThreadInForce, guarantee_of, over_with_batches, stream_record,
};
use surety_model::startup::Attempt;
use surety_model::workload::{BatchMode, Direction, Load, Stream, Task, Treatment, Workload};
use surety_model::world::{Observer, RunOptions, World, WorldError, chosen_cpus};
use surety_units::{Bytes, CpuId, CpuSet, Nanos};

use crate::cpu::timers::TimerCounts;
use crate::engine::Simulation as _;
use build::{Activity, Member, Stage, disks, messages};
use io::Actor;

/// The world's name.
const NAME: &str = "sim";

fn refuse<T>(object: String, why: impl Into<String>) -> Result<T, WorldError> {
    Err(unsupported(object, why))
}

fn unsupported(object: String, why: impl Into<String>) -> WorldError {
    WorldError::Unsupported { world: NAME.to_owned(), object, why: why.into() }
}

/// Simulated time between two reports of progress.
const STRIDE: Nanos = Nanos::from_millis(100);

/// The simulator as a world.
#[derive(Clone, Debug)]
pub struct SimWorld {
    /// The machine that is simulated.
    pub platform: Platform,
}

impl SimWorld {
    /// A simulator of this machine.
    pub fn new(platform: Platform) -> SimWorld {
        SimWorld { platform }
    }
}

impl World for SimWorld {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        build::objections(workload, &self.platform)
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let cpus = chosen_cpus(&self.platform, options)?;
        budget::check(NAME, workload, options, cpus.len() as u32)?;
        budget::check_requests(NAME, workload)?;
        // Of threads that come at the same instant one is first: not by where a file names it.
        let (written, ordered) = (workload, workload.by_name());
        let workload = &ordered;
        let idle = disks::idle_starts(self, workload, options, &cpus)?;
        let mut stage = build::stage(self, workload, options, &cpus, observer.wants_events())?;
        disks::notices(workload, observer);
        for load in &workload.loads {
            if let Treatment::CpuTime { without } = load.kind.row().simulator {
                observer.notice(&format!(
                    "load.{}: simulated by the CPU time it uses; {without} is not in the result",
                    load.name
                ));
            }
        }
        let mut requests = interrupts::Accounts::new(workload, options);
        requests.notices(workload, observer);
        chains::notices(workload, observer);
        let mut packets = links::Packets::new(workload, options)?;
        let runs_before = simulate(&mut stage, &mut requests, &mut packets, options, observer)?;
        let runs: Vec<Nanos> = stage
            .members
            .iter()
            .zip(&runs_before)
            .map(|(member, before)| (stage.machine.run_of(member.thread) - *before).max(Nanos::ZERO))
            .collect();
        let requests = requests.close(&mut stage.machine);
        let end = options.warm_up + options.duration;
        stage.machine.programs_mut().io.close(end);
        let events = stage.machine.programs_mut().chains.close(workload, (options.warm_up, end));
        let measured = Measured { stage: &stage, runs: &runs, options };
        let mut activities = measured.activities(workload, requests, &idle);
        let mut in_force = self.in_force(workload, options, cpus, &stage);
        in_force.environment.extend(measured.levels(workload));
        in_force.timers = timers_of(&stage);
        in_force.environment.extend(in_force.timers.iter().map(timers_in_words));
        activities.extend(packets.close(stage.machine.recorder_mut()));
        for record in events {
            let recorder = stage.machine.recorder_mut();
            [record.completed, record.unfinished].into_iter().for_each(|count| recorder.mix(count));
            activities.push(record);
        }
        for run in &runs {
            stage.machine.recorder_mut().mix(run.get_unsigned());
        }
        stage.mix_disks();
        let mut record = Record {
            world: self.name(),
            reserved: workload.is_reserved(),
            seed: Some(options.seed),
            duration: Some(options.duration),
            in_force,
            degraded: self.not_simulated(workload),
            activities,
            trace: None,
            hash: Some(stage.machine.recorder_mut().hash()),
        };
        record.order_as(written);
        record.add_caveats(written, None);
        Ok(record)
    }
}

impl SimWorld {
    /// What is otherwise on the platform, in words.
    fn not_simulated(&self, workload: &Workload) -> Vec<String> {
        let apart = self.platform.root_domains.len() > 1 && workload.is_reserved();
        let words = || {
            format!(
                "the machine has {} root domains, and here reserved threads go to any CPU; `surety plan --check` plays each \
                 domain for itself",
                self.platform.root_domains.len()
            )
        };
        let unlike = "the machine's CPUs differ, and here all have the speed that the work was measured at";
        let unlike = self.platform.has_unlike_cpus().then(|| unlike.to_owned());
        let clamps = "`util-min` and `util-max` change nothing here: all CPUs have one speed, which no clamp raises or lowers";
        let clamps = workload.tasks.iter().any(Task::is_clamped).then(|| clamps.to_owned());
        apart.then(words).into_iter().chain(unlike).chain(clamps).collect()
    }
}

/// Runs the machine through warm-up and observation; the CPU time of each member at the border.
fn simulate(
    stage: &mut Stage,
    requests: &mut interrupts::Accounts,
    packets: &mut links::Packets,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Vec<Nanos>, WorldError> {
    let end = options.warm_up + options.duration;
    observer.observes((options.warm_up, end));
    let mut before = None;
    let mut now = Nanos::ZERO;
    loop {
        if options.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        observer.progress(now, end);
        if before.is_none() && now >= options.warm_up {
            before = Some(stage.members.iter().map(|m| stage.machine.run_of(m.thread)).collect());
            stage.machine.observe_from_here();
            stage.machine.programs_mut().io.storage.observe_from_here();
        }
        if now >= end {
            return Ok(before.unwrap_or_default());
        }
        let next = (now + STRIDE).min(end);
        now = if now < options.warm_up { next.min(options.warm_up) } else { next };
        stage.run_until(now, observer);
        requests.collect(&mut stage.machine);
        packets.run_until(now, observer);
    }
}

fn members_of(stage: &Stage, activity: Activity) -> impl Iterator<Item = &Member> {
    stage.members.iter().filter(move |member| member.activity == activity)
}

/// What the threads of a run did.
struct Measured<'a> {
    stage: &'a Stage,
    /// CPU time of each thread while it was observed.
    runs: &'a [Nanos],
    options: &'a RunOptions,
}

impl Measured<'_> {
    fn activities(
        &self,
        workload: &Workload,
        requests: Vec<RequestAccount>,
        idle: &[Vec<Attempt>],
    ) -> Vec<ActivityRecord> {
        let mut activities = Vec::new();
        for (index, task) in workload.tasks.iter().enumerate() {
            let activity = Activity::Task(index);
            let mut account = Account::of_task(task, Basis::Sample);
            account.add_all(members_of(self.stage, activity).flat_map(|member| {
                self.stage.machine.programs().outcomes(member.thread.index(), self.options.warm_up)
            }));
            activities.push(self.with_gap(activity, account.finish(Some(self.share(activity)))));
        }
        for (index, account) in requests.into_iter().enumerate() {
            let activity = Activity::Irq(index);
            let longest = self.stage.machine.device(index).longest_queue() as u64;
            activities.push(self.with_gap(activity, account.finish(self.share(activity), longest)));
        }
        let io = &self.stage.machine.programs().io;
        for (index, stream) in workload.streams.iter().enumerate() {
            activities.push(self.with_parts(Activity::Stream(index), self.stream(index, stream)));
        }
        for (index, startup) in workload.startups.iter().enumerate() {
            let record = io::startup_record(startup, &idle[index], &io.starts.subjects[index]);
            activities.push(self.with_parts(Activity::Startup(index), record));
        }
        for (index, load) in workload.loads.iter().enumerate() {
            let activity = Activity::Load(index);
            if disks::is_on_disk(load.kind) {
                activities.push(self.with_parts(activity, self.mover(index, load)));
                continue;
            }
            if messages::talks(load.kind) {
                activities.push(self.with_gap(activity, self.talkers(index, load)));
                continue;
            }
            let account = Account::of_load(load, Basis::Sample);
            activities.push(self.with_gap(activity, account.finish(Some(self.share(activity)))));
        }
        activities
    }

    /// Where the time of its requests went, as series of its record.
    fn with_parts(&self, activity: Activity, mut record: ActivityRecord) -> ActivityRecord {
        let storage = &self.stage.machine.programs().io.storage;
        record.series.extend(storage.parts(disks::account_of(activity)));
        record
    }

    /// The actors of an activity with their threads.
    fn actors(&self, activity: Activity) -> impl Iterator<Item = (&Actor, &Member)> {
        let jobs = self.stage.machine.programs();
        members_of(self.stage, activity).filter_map(move |member| {
            let actor = jobs.threads[member.thread.index()].actor()?;
            Some((&jobs.io.actors[actor], member))
        })
    }

    /// How a stream was served that no plan guarantees; `None`: it has no station.
    fn served(&self, index: usize, stream: &Stream) -> Option<String> {
        let io = &self.stage.machine.programs().io;
        let playouts = self.actors(Activity::Stream(index)).filter_map(|(actor, _)| match actor {
            Actor::Viewer(viewer) => Some(viewer.playout()),
            _ => None,
        });
        let playouts: Vec<usize> = playouts.collect();
        let station = io.station(*playouts.first()?)?;
        let batches = playouts.iter().flat_map(|playout| io.batches(*playout));
        let longest = batches.map(|(wanted, done)| *done - *wanted).max().unwrap_or_default();
        let way =
            if stream.direction == Direction::Write { "written from a buffer" } else { "fetched ahead" };
        let mut words = format!(
            "{way}, {}; {} each, jitter {}; longest batch {longest}",
            Level::Scheduled,
            Bytes(station.buffer(playouts[0])?),
            jitter_of(stream),
        );
        if station.mode() == BatchMode::Longest {
            let rest = station.rest(self.options.warm_up + self.options.duration);
            words += &format!("; {}", ULTRASTAR_36Z15.rested(&rest));
        }
        Some(words)
    }

    /// What each thread of a stream waited for that plays from a buffer.
    fn waits(&self, index: usize) -> Vec<Waits> {
        let waits = self.actors(Activity::Stream(index)).filter_map(|(actor, _)| match actor {
            Actor::Viewer(viewer) => Some(viewer.waits()),
            _ => None,
        });
        waits.collect()
    }

    /// How each stream was served that fetches ahead, and how much of a guarantee it had where a plan guarantees it.
    fn levels(&self, workload: &Workload) -> Vec<(String, String)> {
        let of = |(index, stream): (usize, &Stream)| {
            let mut words = match guarantee_of(stream, &self.stream_threads(index, stream)).map(|of| of.words)
            {
                Some(words) => {
                    let how = if stream.direction == Direction::Write {
                        "written from a buffer"
                    } else {
                        "fetched ahead"
                    };
                    format!("{how}, {words}")
                }
                None => self.served(index, stream)?,
            };
            if let Some(waited) = Waits::in_words(&self.waits(index)) {
                words += &format!("; {waited}");
            }
            Some((format!("stream {}", stream.name), words))
        };
        workload.streams.iter().enumerate().filter_map(of).collect()
    }

    fn stream(&self, index: usize, stream: &Stream) -> ActivityRecord {
        let (observe, end) = (self.options.warm_up, self.options.warm_up + self.options.duration);
        stream_record(stream, &self.stream_threads(index, stream), (observe, end))
    }

    fn stream_threads(&self, index: usize, stream: &Stream) -> Vec<StreamThread> {
        let end = self.options.warm_up + self.options.duration;
        let threads = self.actors(Activity::Stream(index)).filter_map(|(actor, member)| {
            let got = (self.runs[member.thread.index()], self.stage.machine.waits(member.thread).0);
            match actor {
                Actor::Player(player) => Some(player.close(end, got)),
                Actor::Viewer(viewer) => {
                    let mut thread = viewer.close(end, got);
                    let io = &self.stage.machine.programs().io;
                    thread.batches = io.batches(viewer.playout()).to_vec();
                    thread.open = io.open(viewer.playout()).map(|asked| end - asked);
                    if let (Direction::Write, Some(bytes)) = (stream.direction, stream.batch) {
                        let done: Vec<_> = thread.batches.iter().map(|(_, done)| (bytes.0, *done)).collect();
                        over_with_batches(&mut thread.accesses, stream.access_bytes(), &done);
                    }
                    Some(thread)
                }
                _ => None,
            }
        });
        threads.collect()
    }

    fn mover(&self, index: usize, load: &Load) -> ActivityRecord {
        let activity = Activity::Load(index);
        let movers = self.actors(activity).filter_map(|(actor, _)| match actor {
            Actor::Mover(mover) => Some(mover.done()),
            Actor::Syncer(syncer) => Some(syncer.done()),
            _ => None,
        });
        let done: Vec<Counts> = movers.collect();
        let workers = done.len() as u64;
        let done = done.into_iter().fold(Counts::default(), Counts::plus);
        let figures = file_figures(load.kind, &done, self.options.duration);
        load_account(load, (workers, workers), &done, figures, self.share(activity))
    }

    fn talkers(&self, index: usize, load: &Load) -> ActivityRecord {
        let activity = Activity::Load(index);
        let done = self.actors(activity).filter_map(|(actor, _)| match actor {
            Actor::Talker(talker) => Some(talker.done()),
            _ => None,
        });
        let done = done.fold(Counts::default(), Counts::plus);
        let groups = (members_of(self.stage, activity).count() / messages::PROCESSES) as u64;
        let figures = message_figures(&done, self.options.duration);
        load_account(load, (groups, groups), &done, figures, self.share(activity))
    }

    fn share(&self, activity: Activity) -> Share {
        let threads = members_of(self.stage, activity).map(|member| {
            let (waited, _) = self.stage.machine.waits(member.thread);
            (self.runs[member.thread.index()], Some(waited))
        });
        Share { threads: threads.collect(), span: self.options.duration }
    }

    fn with_gap(&self, activity: Activity, record: ActivityRecord) -> ActivityRecord {
        let gaps = members_of(self.stage, activity).map(|member| self.stage.machine.waits(member.thread).1);
        ActivityRecord { longest_gap: gaps.max(), ..record }
    }
}

/// What of the machine and of what the workload asks of it no kernel was held against.
fn unvalidated(platform: &Platform, workload: &Workload, stage: &Stage) -> Vec<String> {
    let rows = stage.schedulers.iter().filter(|row| !row.is_of_kernels).map(|row| row.word);
    let lends = platform.bandwidth_inheritance.then_some("bandwidth inheritance");
    let asks = workload.latency_nice().map(|_| "latency_nice");
    let of_no_kernel: Vec<&str> = rows.chain(lends).chain(asks).collect();
    let mut said = platform.unvalidated();
    if !of_no_kernel.is_empty() {
        let names = of_no_kernel.join(", ");
        said.push(format!("{names}: no kernel of the lab has it, held against its rules alone"));
    }
    said
}

/// What timers did to each CPU.
fn timers_of(stage: &Stage) -> Vec<CpuTimers> {
    let of = |(cpu, counts): (u32, TimerCounts)| {
        let TimerCounts { interrupts, ticks, idle_exits, cost, .. } = counts;
        CpuTimers { cpu: CpuId(cpu), interrupts, ticks, idle_exits, cost }
    };
    (0..).zip(stage.machine.timer_counts()).map(of).collect()
}

fn timers_in_words(timers: &CpuTimers) -> (String, String) {
    let CpuTimers { cpu, interrupts, ticks, idle_exits, cost } = timers;
    let words = format!(
        "{interrupts} interrupts, {ticks} ticks, {} of CPU time, {idle_exits} exits from idle",
        cost.to_exact_string()
    );
    (format!("timers.cpu{cpu}"), words)
}

impl SimWorld {
    fn in_force(&self, workload: &Workload, options: &RunOptions, cpus: CpuSet, stage: &Stage) -> InForce {
        let platform = &self.platform;
        let threads = stage.members.iter().filter_map(|member| {
            let activity = match member.activity {
                Activity::Task(index) => &workload.tasks[index].name,
                Activity::Irq(index) => &workload.irqs[index].name,
                Activity::Stream(index) => &workload.streams[index].name,
                Activity::Startup(index) => &workload.startups[index].name,
                Activity::Starter | Activity::Fetcher(_) => return None,
                Activity::Load(index) => &workload.loads[index].name,
            };
            Some(ThreadInForce {
                activity: activity.clone(),
                tid: None,
                policy: member.scheduling.to_string(),
                affinity: member.allowed.unwrap_or_else(|| CpuSet::first(platform.cpus)),
                as_requested: true,
            })
        });
        let enforcement = match platform.enforcement {
            Enforcement::Tick(_) => "on the tick".to_owned(),
            Enforcement::Exact => "exact".to_owned(),
        };
        let order: Vec<&str> = stage.schedulers.iter().map(|row| row.word).collect();
        let mut environment = BTreeMap::from([
            ("tick".to_owned(), platform.tick.to_exact_string()),
            ("tick phase".to_owned(), first_tick(platform, options.seed).to_exact_string()),
            ("enforcement".to_owned(), enforcement),
            ("base slice".to_owned(), platform.base_slice.to_exact_string()),
            ("class order".to_owned(), order.join(" > ")),
            ("switch cost".to_owned(), platform.overheads.switch.to_exact_string()),
        ]);
        if !platform.overheads.are_none() {
            environment.insert("overheads".to_owned(), platform.overheads.to_string());
        }
        environment
            .extend(build::servers::too_much(stage, cpus).map(|words| ("servers of edf".to_owned(), words)));
        if !platform.features.is_empty() {
            environment.insert("features".to_owned(), platform.features.join(" "));
        }
        if workload.latency_nice().is_some() {
            let is_cfs = platform.fair_version().is_some_and(|version| version.is_cfs);
            let what = if is_cfs { "an offset of wake-up preemption" } else { "a slice" };
            environment.insert("latency_nice".to_owned(), what.to_owned());
        }
        environment.extend(stage.disks.iter().cloned());
        environment.extend(links::in_force(workload));
        for row in workload.loads.iter().map(|load| load.kind.row()) {
            if let Treatment::CpuTime { .. } = row.simulator {
                environment.insert(row.word.to_owned(), "simulated by its CPU time only".to_owned());
            }
        }
        InForce {
            kernel: platform.name.clone(),
            cpus,
            machine: Some(platform.clone()),
            threads: threads.collect(),
            environment,
            unvalidated: unvalidated(platform, workload, stage),
            ..InForce::default()
        }
    }
}
