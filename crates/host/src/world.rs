//! [`HostWorld`]: a workload on this kernel, for real, traced all the while.
//!
//! Everybody is made and given policy and affinity first, waits at the gate, and starts together. The main thread
//! only sleeps while they run. The record is made from the tasks' own stamps; the trace gives what threads of
//! others did, and says how complete it is.

use std::path::Path;
use std::sync::Arc;

use surety_enforce::{ControlGroups, Enforcer, Inspector};
use surety_kernel::facts::MachineFacts;
use surety_kernel::journal::Journal;
use surety_kernel::tracefs::{Marker, Tracefs};
use surety_kernel::{Kernel, clock};
use surety_model::activation::tick_phase;
use surety_model::budget;
use surety_model::event::BlockStep;
use surety_model::first_cpus::FirstCpus;
use surety_model::plan::Homes;
use surety_model::platform::Overheads;
use surety_model::record::{Record, ThreadInForce};
use surety_model::workload::Workload;
use surety_model::world::{Cancel, Observer, RunOptions, World, WorldError};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::chains;
use crate::children::ChildrenEntry;
use crate::decode::{Decoded, decode};
use crate::disks::{Bindings, Disks, Emulator, Workshop};
use crate::groups;
use crate::interrupts::{self, Devices, Equipment, Sides};
use crate::loads::Ground;
use crate::locked_memory::LockedMemory;
use crate::measurer::MeasurerPriority;
use crate::noise::CpuUse;
use crate::outcome::{Borders, Outcome, Snapshot};
use crate::overheads;
use crate::participants::{Body, Member, Participants, Stage};
use crate::prepared::Prepared;
use crate::program_threads::ProgramThreads;
use crate::programs::{self, Programs, Reserved};
use crate::recorder::{JournalledRecording, RecordingError, RecordingOptions};
use crate::returned::{self, Activity, MemberResult, Returned};
use crate::rights;
use crate::said::{it_said, last_words};
use crate::scratch::Scratch;
use crate::shared::SharedObjects;
use crate::spans::Speaker;
use crate::startups::{Setting, Starts};
use crate::switches::OwnSwitches;
use crate::window::{Gate, Window, run_up};

/// How often the main thread looks up while a run lasts.
const LOOK: Nanos = Nanos::from_millis(100);
/// What was not taken back so long after its time, because this process stands still, the watchdog takes back.
const TAKE_BACK: Nanos = Nanos::from_secs(5);
/// This kernel as a world.
pub struct HostWorld<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    scratch: Option<&'a Path>,
    bindings: Bindings,
    emulator: Option<&'a dyn Emulator>,
    equipment: Equipment,
    outside: Option<CpuId>,
    homes: Homes,
    partitioned: bool,
    trace: bool,
    change: Option<&'a Change<'a>>,
}

/// Changes how the kernel schedules; or says why it could not.
type Change<'a> = dyn Fn() -> Result<(), String> + 'a;

impl<'a> HostWorld<'a> {
    /// The world of this kernel. With a journal it may change threads of others and leaves nothing behind even
    /// after `kill -9`; without one it changes only its own.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> HostWorld<'a> {
        HostWorld {
            kernel,
            journal,
            scratch: None,
            bindings: Bindings::new(),
            emulator: None,
            equipment: Equipment::new(),
            outside: None,
            homes: Homes::new(),
            partitioned: false,
            trace: true,
            change: None,
        }
    }

    /// The same with what programs need already prepared in a directory; without it each run prepares its own.
    pub fn prepared(self, scratch: Option<&'a Scratch<'_>>) -> HostWorld<'a> {
        HostWorld { scratch: scratch.map(Scratch::path), ..self }
    }

    /// The same with disks of the workload bound to devices, instead of made.
    pub fn bound(self, bindings: &Bindings) -> HostWorld<'a> {
        HostWorld { bindings: bindings.clone(), ..self }
    }

    /// The same with what makes disks that name a `model`; without it there are none.
    pub fn emulating(self, emulator: &'a dyn Emulator) -> HostWorld<'a> {
        HostWorld { emulator: Some(emulator), ..self }
    }

    /// The same with devices of this machine for interrupt sources, by their roles.
    pub fn equipped(self, equipment: &Equipment) -> HostWorld<'a> {
        HostWorld { equipment: equipment.clone(), ..self }
    }

    /// The same with a CPU that is in no root domain of the others (`isolcpus`): who sends to devices sends from there, as a
    /// machine at the other end of the wire would, and nothing else runs there.
    pub fn with_outside(self, cpu: Option<CpuId>) -> HostWorld<'a> {
        HostWorld { outside: cpu, ..self }
    }

    /// The same with reserved threads put into root domains of their own, where the machine has several.
    pub fn at_home(self, homes: Homes) -> HostWorld<'a> {
        HostWorld { homes, ..self }
    }

    /// The same on a machine whose CPUs are root domains of their own: devices interrupt the first CPU of the run, their threads
    /// and who keeps them busy are bound to it, tasks to the last, so that the kernel admits their reservations.
    pub fn partitioned(self) -> HostWorld<'a> {
        HostWorld { partitioned: true, ..self }
    }

    /// The same on a kernel that is changed so once its costs are measured, which takes that whoever wakes preempts.
    pub fn changed(self, change: &'a Change<'a>) -> HostWorld<'a> {
        HostWorld { change: Some(change), ..self }
    }

    /// The same without recording what the scheduler does.
    pub fn untraced(self) -> HostWorld<'a> {
        HostWorld { trace: false, ..self }
    }
}

impl World for HostWorld<'_> {
    fn name(&self) -> String {
        "host".to_owned()
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        let found = check_supported(workload, &self.equipment)
            .and_then(|()| groups::check(self.kernel, self.journal.is_some(), workload))
            .and_then(|()| rights::check(workload));
        found.err().into_iter().collect()
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        if let Some(objection) = self.objections(workload).into_iter().next() {
            return Err(objection);
        }
        // Threads are made, and wake at the same instant, in the order of their names, as they are simulated.
        let (written, ordered) = (workload, workload.by_name());
        let workload = &ordered;
        let facts = MachineFacts::tried(self.kernel);
        let (cpus, all_cpus) = self.choose_cpus(options)?;
        budget::check("host", workload, options, cpus.len() as u32)?;
        let mut prepared = self.prepare(workload, options, (cpus, all_cpus))?;
        let mut degraded = groups::beside_session(prepared.groups.as_ref(), &facts.scheduler, workload);
        let memory = LockedMemory::lock();
        let recorder = self.start_recording(&recorded_of(workload), all_cpus, &mut degraded);
        let mut enforcer = Enforcer::new(self.kernel, self.journal);
        let marker = recorder.as_ref().map(JournalledRecording::marker);
        let speaker = Speaker::new(marker.clone());
        let stage = self.stage(workload, options, (cpus, all_cpus), &prepared, marker);
        self.limit(
            clock::monotonic() + programs::START_MAX + run_up(workload) + options.warm_up + options.duration,
        );
        let has_switches = recorder.is_none() && self.trace;
        let mut run = self.assemble(stage, &mut enforcer, &options.cancel, has_switches, &mut degraded)?;
        prepared.starts.speak(speaker);
        let begun = prepared.disks.begin(&self.workshop(options, None));
        let (roots, followed) = (run.participants.programs(), run.participants.followed(self.kernel));
        let window = window_of(workload, options, facts.scheduler.tick);
        let watching = Watching { workload, window: &window, options, has_programs: !roots.is_empty() };
        let measured =
            begun.and_then(|()| self.measure(&mut run, &mut prepared, &watching, &mut enforcer, observer));
        let borders = match measured {
            Ok(borders) => borders,
            Err(error) => {
                run.participants.send_home(&prepared.gate, &prepared.shared);
                prepared.starts.abandon();
                return Err(error);
            }
        };
        degraded.extend(prepared.starts.close(&window)?);
        degraded.extend(run.programs.reserved.iter().filter_map(Reserved::objection));
        let results = collect(run.participants);
        prepared.gate.take_left().iter().for_each(|(tid, state)| run.inspector.hear(*tid, state));
        degraded.extend(returned::objections(workload, &results));
        degraded.extend(prepared.end_members());
        let undo_failures = enforcer.undo();
        degraded.extend(undo_failures.iter().map(|e| format!("a change could not be taken back: {e}")));
        if let Some(error) = results.iter().find_map(|r| r.trouble(workload)) {
            return Err(error);
        }
        let decoded = match recorder {
            Some(recording) => {
                let program_threads = ProgramThreads::new(&followed, (window.observe, window.end));
                read_recording(recording, program_threads, observer, &mut degraded)
            }
            None => run.switches.into_histories(&results, &window, observer),
        };
        let (threads, kernel) = (run.threads, self.kernel);
        let outcome =
            Outcome { kernel, workload, facts, cpus, window, borders, results, roots, decoded, memory };
        let mut record = outcome.into_record(prepared, options, threads, degraded);
        run.inspector.mark(&mut record);
        record.order_as(written);
        record.add_caveats(written, None);
        Ok(record)
    }
}

/// The window of a run, which begins when everybody can have gone, at its phase of a tick.
fn window_of(workload: &Workload, options: &RunOptions, tick: Nanos) -> Window {
    let gone = clock::monotonic() + run_up(workload);
    let begin = Window::aligned_begin(gone, tick, tick_phase(options.seed, tick));
    Window::new(begin, options.warm_up, options.duration)
}

/// What is recorded of a run: what disks did too where a start-up or a stream may have waited for them.
fn recorded_of(workload: &Workload) -> RecordingOptions {
    let mut recorded = RecordingOptions::of(surety_trace::EVENTS);
    if !workload.startups.is_empty() || !workload.streams.is_empty() {
        recorded.events.extend(BlockStep::all().map(|step| format!("block:{}", step.name())));
    }
    recorded
}

/// Everybody made and in force, and who looks whether it stays so.
struct Assembled {
    participants: Participants,
    programs: Programs,
    inspector: Inspector,
    threads: Vec<ThreadInForce>,
    switches: OwnSwitches,
}

impl HostWorld<'_> {
    /// What is changed of others is taken back by the watchdog if this process has not done it a while after `end`.
    fn limit(&self, end: Nanos) {
        if let Some(journal) = self.journal {
            journal.until(Some(end + TAKE_BACK));
        }
    }

    fn prepare<'s>(
        &'s self,
        workload: &Workload,
        options: &'s RunOptions,
        (cpus, all_cpus): (CpuSet, CpuSet),
    ) -> Result<Prepared<'s>, WorldError> {
        groups::check_cpus(workload, &cpus)?;
        let overheads = self.overheads(cpus, all_cpus);
        self.change.map_or(Ok(()), |change| change()).map_err(|what| WorldError::Machine {
            what,
            remedy: "leave it out with --platform".to_owned(),
        })?;
        let (kernel, journal, cancel) = (self.kernel, self.journal, &options.cancel);
        let files = &*options.files;
        let scratch = match self.scratch {
            Some(_) => None,
            None => Scratch::prepare(workload, kernel, journal, cancel)?,
        };
        // Before programs are marked: at the next start these are ended first, and leave their groups empty.
        let groups = groups::make(kernel, journal, workload)?;
        let children = ChildrenEntry::open(workload, journal, kernel);
        let mark = children.as_ref().map(|children| children.mark().to_owned());
        let workshop = self.workshop(options, mark.clone());
        let mut disks = Disks::prepare(workload, &self.bindings, &workshop)?;
        let setting = Setting { kernel, cpus, mark, cancel, files };
        let mut starts = Starts::prepare(workload, &mut disks, setting)?;
        if !workload.startups.is_empty() {
            disks.begin(&workshop)?;
            starts.idle(&mut disks)?;
            // Others' files are made next.
            disks.pause();
        }
        let handlers = cpus.lowest().filter(|_| self.partitioned);
        let sides = Sides { inside: cpus, outside: self.outside, handlers };
        let devices = Devices::prepare(workload, &self.equipment, kernel, sides, cancel)?;
        let shared = SharedObjects::of(workload, options, cpus);
        let shared = shared.map_err(|error| WorldError::Machine {
            what: "tasks of the workload share a lock with protocol `inherit`".to_owned(),
            remedy: error.to_string(),
        })?;
        let shared = shared.with_groups(groups.as_ref().map(ControlGroups::seats));
        let (shared, gate) = (Arc::new(shared), Arc::new(Gate::default()));
        Ok(Prepared { overheads, shared, gate, devices, starts, disks, children, groups, scratch })
    }

    /// What disks are made with.
    fn workshop<'s>(&'s self, options: &'s RunOptions, mark: Option<String>) -> Workshop<'s> {
        Workshop {
            kernel: self.kernel,
            journal: self.journal,
            mark,
            cancel: &options.cancel,
            emulator: self.emulator,
            seed: options.seed,
            files: &options.files,
        }
    }

    /// Where everybody is made.
    fn stage<'s>(
        &'s self,
        workload: &'s Workload,
        options: &'s RunOptions,
        (cpus, all_cpus): (CpuSet, CpuSet),
        prepared: &'s Prepared<'_>,
        marker: Option<Marker>,
    ) -> Stage<'s> {
        let mark = prepared.mark();
        Stage {
            kernel: self.kernel,
            workload,
            seed: options.seed,
            cpus,
            first_cpus: FirstCpus::of(workload, &cpus),
            all_cpus,
            homes: &self.homes,
            gate: Arc::clone(&prepared.gate),
            shared: Arc::clone(&prepared.shared),
            marker,
            ground: Ground { disks: Some(&prepared.disks), mark: mark.clone(), cancel: &options.cancel },
            mark,
            devices: &prepared.devices,
            groups: prepared.groups.as_ref(),
            outside: self.outside,
            partitioned: self.partitioned,
            scratch: self.scratch.or(prepared.scratch.as_ref().map(Scratch::path)),
        }
    }

    /// Makes everybody and puts them in force. The stage ends here: it holds a marker, and the kernel keeps an instance of
    /// its tracer that somebody may write to.
    fn assemble(
        &self,
        stage: Stage<'_>,
        enforcer: &mut Enforcer<'_>,
        cancel: &Cancel,
        has_switches: bool,
        degraded: &mut Vec<String>,
    ) -> Result<Assembled, WorldError> {
        let mut participants = stage.assemble(enforcer)?;
        // Without the kernel's tracer a user still sees the switches of their own threads.
        let switches = match has_switches {
            true => OwnSwitches::open(participants.own_tasks(), degraded),
            false => OwnSwitches::default(),
        };
        let mut programs = stage.workers(&participants);
        if let Err(error) = programs.settle(self.kernel, enforcer, cancel) {
            participants.send_home(&stage.gate, &stage.shared);
            return Err(error);
        }
        stage.admit(&mut participants, &programs);
        let inspector = stage.inspector(&participants);
        let threads = stage.read_back(&participants, &programs);
        Ok(Assembled { participants, programs, inspector, threads, switches })
    }

    /// Lets everybody go and looks on; what is in force is read before anything is taken back, and before anybody ends.
    fn measure(
        &self,
        run: &mut Assembled,
        prepared: &mut Prepared<'_>,
        watching: &Watching<'_>,
        enforcer: &mut Enforcer<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Borders, WorldError> {
        let Assembled { participants, programs, inspector, switches, .. } = run;
        let Prepared { starts, disks, devices, gate, .. } = prepared;
        let window = watching.window;
        chains::notices(watching.workload, observer);
        self.limit(window.end);
        gate.open(*window);
        observer.observes((window.observe, window.end));
        let mut look = || {
            programs.look(self.kernel, enforcer);
            // Until then threads go to their first CPUs.
            if clock::monotonic() >= window.begin && inspector.look(self.kernel) {
                programs.inspect(self.kernel, inspector);
            }
            starts.look(disks, window)
        };
        let measurer = MeasurerPriority::while_needed(self.kernel, !self.equipment.is_empty());
        let watched = self.watch(participants, switches, (watching, devices), &mut look, observer);
        inspector.read(self.kernel);
        programs.inspect(self.kernel, inspector);
        drop(measurer);
        watched
    }

    /// The CPUs of the run, and all CPUs of the machine.
    fn choose_cpus(&self, options: &RunOptions) -> Result<(CpuSet, CpuSet), WorldError> {
        let failed = |error: surety_kernel::KernelError| WorldError::Machine {
            what: "the machine's CPUs are not known".to_owned(),
            remedy: error.to_string(),
        };
        let inside =
            |cpus: CpuSet| -> CpuSet { cpus.iter().filter(|cpu| Some(*cpu) != self.outside).collect() };
        let online = inside(self.kernel.online_cpus().map_err(failed)?);
        // Without a choice a thread outside all partitions may use the CPUs that are left to it.
        let allowed = match self.partitioned {
            true => online,
            false => inside(self.kernel.affinity(Tid(0)).map_err(failed)?),
        };
        let Some(wanted) = options.cpus else { return Ok((allowed, online)) };
        if wanted.is_empty() || !wanted.is_subset(&online) {
            return Err(WorldError::Machine {
                what: format!("CPUs {wanted} are not all there: online are {online}"),
                remedy: "choose with --cpus among those".to_owned(),
            });
        }
        Ok((wanted, online))
    }

    /// Starts recording where the user may; says why not otherwise.
    /// What the kernel's own work takes on the first CPU of the run, recorded as the run will be and with a recording of its own.
    fn overheads(&self, cpus: CpuSet, all_cpus: CpuSet) -> Result<Overheads, String> {
        let recording =
            self.start_recording(&RecordingOptions::of(surety_trace::EVENTS), all_cpus, &mut Vec::new());
        let marker = recording.as_ref().map(JournalledRecording::marker);
        let cpu = cpus.lowest().ok_or("there is no CPU")?;
        let found = overheads::measure(self.kernel, cpu, marker.as_ref());
        drop(marker);
        if let Some(Err(error)) = recording.map(JournalledRecording::finish) {
            return Err(error.to_string());
        }
        found
    }

    fn start_recording(
        &self,
        recorded: &RecordingOptions,
        cpus: CpuSet,
        degraded: &mut Vec<String>,
    ) -> Option<JournalledRecording<'_>> {
        if !self.trace {
            return None;
        }
        Tracefs::open()
            .map_err(RecordingError::from)
            .and_then(|tracefs| {
                JournalledRecording::start(&tracefs, self.journal, self.kernel, recorded, cpus)
            })
            .map_err(|why| degraded.push(format!("the kernel's scheduling events were not recorded: {why}")))
            .ok()
    }

    /// Sleeps through the run; reads the counts where observation starts and where it ends.
    fn watch(
        &self,
        participants: &mut Participants,
        switches: &mut OwnSwitches,
        (watching, devices): (&Watching<'_>, &Devices),
        look: &mut dyn FnMut() -> Result<(), WorldError>,
        observer: &mut dyn Observer,
    ) -> Result<Borders, WorldError> {
        let Watching { workload, window, options, has_programs } = *watching;
        let total = window.end - window.begin;
        let mut before = None;
        loop {
            let now = clock::monotonic();
            if options.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            observer.progress((now - window.begin).max(Nanos::ZERO).min(total), total);
            self.check_programs(participants, workload, now, window)?;
            if let Some(error) = participants.load_that_gave_up(workload, window) {
                return Err(error);
            }
            look()?;
            switches.collect();
            if before.is_none() && now >= window.observe {
                before = Some(self.snapshot(participants, devices, options));
            }
            if now >= window.end {
                let after = self.snapshot(participants, devices, options);
                return Ok(Borders { before: before.unwrap_or_default(), after });
            }
            let pause = if has_programs { programs::LOOK } else { LOOK };
            let mut next = (now + pause).min(window.end);
            if before.is_none() {
                next = next.min(window.observe);
            }
            clock::sleep_until(next, None).map_err(|error| WorldError::Machine {
                what: "the run could not be timed".to_owned(),
                remedy: error.to_string(),
            })?;
        }
    }

    /// A program that ends before its time is the end of the run: nothing was observed of it for the rest.
    fn check_programs(
        &self,
        participants: &mut Participants,
        workload: &Workload,
        now: Nanos,
        window: &Window,
    ) -> Result<(), WorldError> {
        for member in &mut participants.members {
            let (Body::Program(program, errors), Activity::Task(index)) = (&mut member.body, member.activity)
            else {
                continue;
            };
            let ended = program.wait_until(Nanos::ZERO).ok().flatten();
            let Some(ended) = ended.filter(|_| now < window.end) else { continue };
            let words = it_said(last_words(errors));
            let lasted = (now - window.begin).max(Nanos::ZERO);
            let why = if ended.status.success() {
                format!(
                    "the command was done after {lasted} of a run of {}; observe it for less with --for, or give one \
                     that lasts",
                    window.end - window.begin
                )
            } else {
                format!(
                    "the command ended with {} before the run did{words}; run it by itself to see what it needs",
                    ended.status
                )
            };
            return Err(WorldError::Activity { object: format!("task.{}", workload.tasks[index].name), why });
        }
        Ok(())
    }

    fn snapshot(&self, participants: &Participants, devices: &Devices, options: &RunOptions) -> Snapshot {
        let cpus = options.cpus.or_else(|| self.kernel.affinity(Tid(0)).ok()).unwrap_or_default();
        let of_member = |member: &Member| -> Option<(Nanos, Nanos)> {
            match &member.body {
                Body::Program(program, _) => programs::time_of(self.kernel, program.pid()),
                Body::Process => programs::time_of_process(self.kernel, member.tid),
                Body::Found | Body::Handler => self.schedstat(&format!("/proc/{}/schedstat", member.tid)),
                _ => None,
            }
        };
        Snapshot {
            use_of_cpus: CpuUse::read(self.kernel, &cpus),
            members: participants.members.iter().map(of_member).collect(),
            devices: devices.read(),
        }
    }

    /// CPU time and waiting time of a thread.
    fn schedstat(&self, path: &str) -> Option<(Nanos, Nanos)> {
        let text = self.kernel.read_text(Path::new(path)).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().map(Nanos::new));
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// What the main thread watches over while a run lasts.
struct Watching<'a> {
    workload: &'a Workload,
    window: &'a Window,
    options: &'a RunOptions,
    has_programs: bool,
}

/// Waits for our threads, which end by themselves, and ends programs.
fn collect(participants: Participants) -> Vec<MemberResult> {
    let result_of = |member: Member| {
        let outcome = match member.body {
            Body::Synthetic(handle) => handle.join().map_or(Returned::Outside, Returned::Synthetic),
            Body::Worker(handle) => handle.join().map_or(Returned::Outside, Returned::Worker),
            Body::Stream(handle) => handle.join().map_or(Returned::Outside, Returned::Stream),
            Body::Sender(handle) => handle.join().map_or(Returned::Outside, Returned::Sender),
            Body::Program(..) | Body::Found | Body::Process | Body::Handler => Returned::Outside,
        };
        MemberResult { activity: member.activity, tid: member.tid, outcome }
    };
    participants.members.into_iter().map(result_of).collect()
}

/// Ends a recording and decodes it.
fn read_recording(
    recording: JournalledRecording<'_>,
    program_threads: ProgramThreads,
    observer: &mut dyn Observer,
    degraded: &mut Vec<String>,
) -> Decoded {
    let finished = recording.finish();
    let decoded = finished.map_err(|e| e.to_string()).and_then(|raw| decode(&raw, program_threads, observer));
    match decoded {
        Ok(decoded) => {
            if decoded.quality.is_some_and(|q| q.lost > 0) {
                let quality = decoded.quality.unwrap_or_default();
                degraded.push(format!(
                    "the tracer lost {} events; {} jobs were given up because of that",
                    quality.lost, quality.censored_jobs
                ));
            }
            decoded
        }
        Err(why) => {
            degraded.push(format!("the recorded events could not be read: {why}"));
            Decoded::default()
        }
    }
}

/// Says in words what this world cannot run.
fn check_supported(workload: &Workload, equipment: &Equipment) -> Result<(), WorldError> {
    let refuse = |object: String, why: &str| {
        Err(WorldError::Unsupported { world: "host".to_owned(), object, why: why.to_owned() })
    };
    for irq in &workload.irqs {
        if let Some(why) = interrupts::objection(irq, equipment.get(interrupts::role_of(irq))) {
            return refuse(format!("irq.{}", irq.name), &why);
        }
    }
    match workload.beyond_kernels() {
        Some((object, why)) => refuse(object, why),
        None => Ok(()),
    }
}
