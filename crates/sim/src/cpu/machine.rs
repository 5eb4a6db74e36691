//! [`Machine`]: CPUs, threads and policies moved through simulated time.
//!
//! One event is worked off at a time: a tick, the end of a thread's step, the end of a sleep, a policy's timer.
//! Then every CPU that has to choose again does, in the order of the CPUs, until none has to. A CPU's tick comes on
//! a grid of its own and stops while it is idle (`NO_HZ_IDLE`). The time a thread runs is booked when somebody
//! looks: on ticks, at switches, and where a policy's kernel counterpart calls `update_curr`.

mod accounts;
mod changing;
mod interrupts;
mod lending;
mod overheads;
mod ranks;
mod switching;
mod timers;

use std::collections::VecDeque;

use surety_model::event::Comm;
use surety_model::platform::Platform;
use surety_model::world::Observer;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::cpu::device::Device;
use crate::cpu::domains::Domains;
use crate::cpu::hardware::{
    Cpu, GroupSpec, Hardware, Occasion, Rank, Scheduling, Sets, Thread, ThreadId, ThreadState,
};
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Scheduler};
use crate::cpu::program::{Moment, Programs, Step};
use crate::cpu::recorder::{Kept, Recorder};
use crate::cpu::resources::Resources;
use crate::cpu::timers::Timers;
use crate::cpu::times::Times;
use crate::engine::{Engine, Event, Simulation};

use changing::Choices;
use ranks::Ranks;
use timers::is_timer;

/// What a thread is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Its name in events.
    pub name: String,
    pub scheduling: Scheduling,
    /// Its group's place in the machine's list.
    pub group: Option<usize>,
    /// The places of the CPUs it may run on, at least one; `None`: all.
    pub allowed: Option<CpuSet>,
    /// The place of the CPU on which it slept until it starts; `None`: it is made then.
    pub slept_on: Option<usize>,
}

/// What a machine is made from.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// How it behaves.
    pub platform: Platform,
    /// Its schedulers, the most important first; they stand above the platform's.
    pub schedulers: Vec<Scheduler>,
    /// Its CPUs by number; their count stands above the platform's.
    pub cpus: Vec<CpuId>,
    /// First instant of each CPU's grid of ticks; CPUs beyond the list have 0.
    pub tick_phases: Vec<Nanos>,
    /// Groups, parents before children.
    pub groups: Vec<GroupSpec>,
    /// What schedulers leave to chance is drawn from it.
    pub seed: u64,
    /// Whether events are kept for an observer.
    pub events: bool,
}

/// What a machine has done, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events of the CPUs worked off: ticks, completions, alarms, timers.
    pub events: u64,
    /// Changes of the running thread.
    pub switches: u64,
}

/// A machine with the programs of its threads. It is a simulation by itself, or the CPUs of a larger one.
pub struct Machine<P> {
    hardware: Hardware,
    /// The schedulers, by rank.
    policies: Vec<Box<dyn CpuPolicy>>,
    /// Ranks of those that CPUs ask in turn: all but those inside reservations of groups.
    asked: Vec<usize>,
    /// Ranks of those that want to hear of all.
    watchers: Vec<usize>,
    /// Whether one wants to hear of jobs.
    hears_of_jobs: bool,
    resources: Resources,
    choices: Choices,
    devices: Vec<Device>,
    programs: P,
    counts: Counts,
    /// Where threads begin.
    home: usize,
}

impl<P: Programs> Machine<P> {
    /// A machine without threads, at time 0.
    ///
    /// # Panics
    /// Here where a scheduler serves a policy that none of them takes, and in [`Machine::spawn`] where a thread has one.
    pub fn new(spec: MachineSpec, programs: P) -> Machine<P> {
        Machine::with_times(spec, Times::KERNEL, programs)
    }

    /// The same with other times in the kernel's code.
    ///
    /// # Panics
    /// As [`Machine::new`].
    pub fn with_times(spec: MachineSpec, times: Times, programs: P) -> Machine<P> {
        let mut engine = Engine::default();
        let component = engine.add_component();
        let Ranks { order, inside, inside_group } = Ranks::new(&spec.schedulers, &spec.groups);
        let mut hardware = Hardware {
            engine,
            component,
            cpus: Vec::new(),
            threads: Vec::new(),
            takes: order.iter().map(|row| row.map_or(&[][..], |row| row.takes)).collect(),
            inside,
            inside_group,
            groups: spec.groups,
            recorder: Recorder::new(spec.events),
            changes: Vec::new(),
            submits: None,
            joined: Vec::new(),
            sets: Sets::new(spec.cpus.len(), order.len()),
            domains: Domains::of(&spec.platform, spec.cpus.len()),
            waker: 0,
            timers: spec.platform.timers.map(|rules| Box::new(Timers::new(rules, spec.cpus.len()))),
            platform: spec.platform,
            seed: spec.seed,
            times,
        };
        add_cpus(&mut hardware, &spec.cpus, &spec.tick_phases);
        let policies: Vec<_> = ranks::make(&order, &mut hardware);
        let asked = (0..order.len()).filter(|rank| order[*rank].is_some()).collect();
        let hears_of_jobs = policies.iter().any(|policy| policy.hears_of_jobs());
        let watchers = (0..policies.len()).filter(|rank| policies[*rank].watches()).collect();
        Machine {
            hardware,
            policies,
            asked,
            watchers,
            hears_of_jobs,
            resources: Resources::default(),
            choices: Choices::default(),
            devices: Vec::new(),
            programs,
            counts: Counts::default(),
            home: 0,
        }
    }

    /// Adds a lock and says by which number steps name it.
    pub fn add_lock(&mut self, inherit: bool) -> usize {
        self.resources.add_lock(inherit)
    }

    /// Adds an event and says by which number steps name it.
    pub fn add_signal(&mut self) -> usize {
        self.resources.add_signal(0)
    }

    /// Adds one that was raised so often already.
    pub fn add_raised_signal(&mut self, times: u32) -> usize {
        self.resources.add_signal(u64::from(times))
    }

    /// Adds a thread, asleep until `start`.
    pub fn spawn(&mut self, spec: &ThreadSpec, start: Nanos) -> ThreadId {
        let id = ThreadId(u32::try_from(self.hardware.threads.len()).expect("fewer than 2^32 threads"));
        let alarm = self.hardware.add_slot(Occasion::Alarm(id));
        self.hardware.threads.push(Thread {
            tid: Tid(i32::try_from(id.0).expect("fewer than 2^31 threads") + 1),
            comm: Comm::new(&spec.name),
            asked: spec.scheduling,
            scheduling: spec.scheduling,
            priority: spec.scheduling.priority(),
            rank: self.hardware.rank_in(spec.scheduling, spec.group),
            group: spec.group,
            cpu: spec.slept_on.unwrap_or_else(|| self.first_cpu(spec)),
            is_new: spec.slept_on.is_none(),
            allowed: spec.allowed.map(Box::new),
            state: ThreadState::Sleeping,
            remaining: Nanos::ZERO,
            run: Nanos::ZERO,
            waited: Nanos::ZERO,
            ready_since: Nanos::ZERO,
            longest_gap: Nanos::ZERO,
            is_blocked: false,
            alarm,
        });
        for policy in &mut self.policies {
            policy.admit(&mut self.hardware, id);
        }
        self.hardware.engine.arm(alarm, start);
        id
    }

    /// Has threads that may use any CPU begin on this one.
    pub fn set_home(&mut self, cpu: usize) {
        self.home = cpu;
    }

    /// Where a thread begins: all are made on the first CPU they may use, or at home, and their schedulers move them when they wake.
    fn first_cpu(&self, spec: &ThreadSpec) -> usize {
        let first = |allowed: &CpuSet| allowed.iter().next().expect("a thread may run somewhere").index();
        spec.allowed.as_ref().map_or(self.home, first)
    }

    /// CPU time a thread has used up to now.
    pub fn run_of(&self, thread: ThreadId) -> Nanos {
        let t = self.hardware.thread(thread);
        let cpu = &self.hardware.cpus[t.cpu];
        // Less than nothing where the kernel's own work is booked before it is done.
        let unbooked =
            if cpu.current == Some(thread) { self.hardware.now() - cpu.accounted } else { Nanos::ZERO };
        (t.run + unbooked).max(Nanos::ZERO)
    }

    /// Forgets what threads have waited so far: observation begins now. Of a wait that lasts, only what is to come is time waited,
    /// but its length is that from its beginning.
    pub fn observe_from_here(&mut self) {
        let now = self.hardware.now();
        for thread in &mut self.hardware.threads {
            let before =
                if thread.state == ThreadState::Ready { now - thread.ready_since } else { Nanos::ZERO };
            (thread.waited, thread.longest_gap) = (-before, Nanos::ZERO);
        }
        self.devices.iter_mut().for_each(Device::observe_from_here);
        if let Some(timers) = &mut self.hardware.timers {
            timers.observe_from_here();
        }
    }

    /// Time a thread has wanted a CPU without having one, and the longest single such time, since observation
    /// began; a wait that is not over counts up to now.
    pub fn waits(&self, thread: ThreadId) -> (Nanos, Nanos) {
        let t = self.hardware.thread(thread);
        match t.state {
            ThreadState::Ready => {
                let open = self.hardware.now() - t.ready_since;
                (t.waited + open, t.longest_gap.max(open))
            }
            _ => (t.waited, t.longest_gap),
        }
    }

    /// The state it shares with its policies.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// What has happened, for mixing in more.
    pub fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.hardware.recorder
    }

    /// The programs.
    pub fn programs(&self) -> &P {
        &self.programs
    }

    /// The programs, to set them up before they run.
    pub fn programs_mut(&mut self) -> &mut P {
        &mut self.programs
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn rank_of(&self, thread: ThreadId) -> usize {
        self.hardware.thread(thread).rank.0
    }

    fn tick(&mut self, cpu: usize) {
        let next = self.hardware.now() + self.hardware.platform.tick;
        let slot = self.hardware.cpus[cpu].tick;
        self.hardware.engine.arm(slot, next);
        self.count_timer(cpu, true);
        self.hardware.keep(cpu, Kept::Tick { entry: true });
        self.account(cpu);
        self.interrupted_by_timer(cpu, self.hardware.platform.overheads.tick);
        if let Some(thread) = self.hardware.current(cpu) {
            let rank = self.rank_of(thread);
            self.policies[rank].tick(&mut self.hardware, cpu, thread);
        }
        // Idle CPUs balance as without their ticks.
        if self.hardware.cpus.len() > 1 && self.hardware.current(cpu).is_some() {
            for rank in 0..self.policies.len() {
                if self.policies[rank].wants_balance(&self.hardware, cpu) {
                    self.account_all();
                    self.policies[rank].balance(&mut self.hardware, cpu);
                }
            }
        }
        self.hardware.keep(cpu, Kept::Tick { entry: false });
        self.expire_others(cpu);
        // One that came on an idle CPU is its last; whom it has woken starts ticks anew.
        if self.hardware.current(cpu).is_none() && !self.hardware.ticks_while_idle() {
            self.hardware.engine.cancel(slot);
        }
    }

    /// Whether another timer of the CPUs expires at this instant, before anything else happens. Timers that wait for ticks expire in the
    /// tick's interrupt, ahead of its scheduler (`run_local_timers` in `update_process_times`): CPUs choose behind both.
    fn more_timers_expire(&self, after: Occasion) -> bool {
        let next = self.hardware.engine.at_once();
        let next = next.filter(|next| next.component == self.hardware.component);
        let next = next.map(|next| Occasion::of(next.number));
        let is_late = || is_timer(after) && self.hardware.platform.has_late_timers();
        next.is_some_and(|next| is_timer(next) || (matches!(next, Occasion::Tick(_)) && is_late()))
    }

    /// What follows at once from what has happened, and hands on what was recorded.
    fn come_to_rest(&mut self, observer: &mut dyn Observer) {
        self.settle();
        if self.hardware.recorder.is_wanted() {
            self.hardware.recorder.hand_on(observer);
        }
    }

    /// Lets every CPU that has to choose again do so, and every thread that has nothing left to do take its next
    /// step, until all is at rest.
    fn settle(&mut self) {
        loop {
            self.make_changes();
            let Some(cpu) = self.hardware.first_due() else { return };
            self.schedule(cpu);
        }
    }

    /// Schedules threads as they are to be from now on: mostly none.
    #[inline]
    fn make_changes(&mut self) {
        if !self.hardware.changes.is_empty() || !self.hardware.joined.is_empty() {
            self.make_all_changes();
        }
    }

    #[inline(never)]
    fn make_all_changes(&mut self) {
        let mut made = 0;
        while let Some((thread, scheduling)) = self.hardware.changes.get(made).copied() {
            made += 1;
            // One that is to be as it asked keeps what a lock lends it.
            let is_own = scheduling == self.hardware.thread(thread).asked;
            let scheduling =
                if is_own { self.resources.inherited(&self.hardware, thread) } else { scheduling };
            self.change(thread, scheduling);
        }
        self.hardware.changes.clear();
        self.tell_moved();
    }

    /// Tells schedulers that watch of the threads that others have moved.
    fn tell_moved(&mut self) {
        let mut told = 0;
        while let Some((cpu, rank)) = self.hardware.joined.get(told).copied() {
            told += 1;
            self.tell_joined(cpu, rank);
        }
        self.hardware.joined.clear();
    }

    #[inline]
    fn tell_enqueued(&mut self, cpu: usize, thread: ThreadId) {
        self.tell_joined(cpu, self.hardware.thread(thread).rank);
    }

    /// A thread of the scheduler of a rank has joined a CPU's queue. What the CPU idled until then is not time in which the thread could
    /// have run: it is booked before (`dl_server_start` updates the current task first).
    #[inline]
    fn tell_joined(&mut self, cpu: usize, rank: Rank) {
        if !self.watchers.is_empty() && self.hardware.cpus[cpu].current.is_none() {
            self.account(cpu);
        }
        for watcher in &self.watchers {
            self.policies[*watcher].enqueued(&mut self.hardware, cpu, rank);
        }
    }

    /// Wakes a thread, in the context of CPU `waker`.
    fn wake(&mut self, thread: ThreadId, waker: usize) {
        let t = self.hardware.thread(thread);
        if t.state != ThreadState::Sleeping {
            return;
        }
        if self.resources.ends_wait(thread) {
            self.disarm_alarm(thread);
        }
        let t = self.hardware.thread(thread);
        let rank = self.rank_of(thread);
        let arrival = if t.is_new { Arrival::New } else { Arrival::Woken };
        // One that has not left its CPU yet is woken there (`ttwu_queue_wakelist` of a thread that is `on_cpu`, in
        // `kernel/sched/core.c`).
        let target = if self.hardware.current(t.cpu) == Some(thread) {
            t.cpu
        } else {
            self.hardware.waker = waker;
            self.policies[rank].select_cpu(&mut self.hardware, thread, arrival)
        };
        if self.hardware.recorder.is_wanted() {
            let (here, target) = (self.hardware.here(waker), self.hardware.cpus[target].id);
            let thread = self.hardware.thread(thread).named();
            self.hardware.recorder.keep(here, Kept::Waking { thread, target });
            self.hardware.recorder.keep(here, Kept::Wakeup { thread, target });
        }
        self.hardware.migrate(thread, target);
        let now = self.hardware.now();
        let t = &mut self.hardware.threads[thread.index()];
        t.state = ThreadState::Ready;
        t.is_blocked = false;
        t.is_new = false;
        t.ready_since = now;
        self.account_of(target, rank, thread);
        self.policies[rank].enqueue(&mut self.hardware, target, thread, arrival);
        self.tell_enqueued(target, thread);
        self.check_preempt(target, thread);
    }

    /// The current thread of a CPU stops wanting it.
    fn leave(&mut self, cpu: usize, thread: ThreadId, departure: Departure) {
        self.account(cpu);
        let rank = self.rank_of(thread);
        if departure == Departure::Sleeps {
            self.goes_on_for(cpu, self.hardware.platform.overheads.sleep);
        }
        self.policies[rank].dequeue(&mut self.hardware, cpu, thread, departure);
        self.hardware.threads[thread.index()].state = match departure {
            Departure::Exits => ThreadState::Exited,
            _ => ThreadState::Sleeping,
        };
        self.hardware.reschedule(cpu);
    }

    /// Has the current thread of a CPU, when it has nothing left to do, take steps until one takes time. Its scheduler hears of it
    /// when the thread calls the kernel: one that goes on with a late job does not.
    fn advance(&mut self, cpu: usize) {
        self.account_thread(cpu);
        self.advance_behind(cpu, Nanos::ZERO);
    }

    /// The same for a thread that takes its steps a while later, when the CPU is done with it.
    fn advance_behind(&mut self, cpu: usize, switch: Nanos) {
        while let Some(thread) = self.hardware.current(cpu) {
            let t = self.hardware.thread(thread);
            if t.remaining.is_positive() || t.state != ThreadState::Running {
                break;
            }
            let moment = Moment { now: self.hardware.free_from(cpu) + switch, run: t.run + switch, thread };
            let step = self.next_step(cpu, moment);
            match step {
                Step::Run(work) => self.hardware.threads[thread.index()].remaining = work.max(Nanos::ZERO),
                Step::RunForever => self.hardware.threads[thread.index()].remaining = Nanos::MAX,
                Step::SleepUntil(until) if until > moment.now => {
                    self.arm_alarm(cpu, thread, until);
                    self.leave(cpu, thread, Departure::Sleeps);
                }
                Step::SleepUntil(_) => {}
                Step::Lock(lock) => {
                    // One taken from whoever it was handed to lends nothing anew: that one was less important with all that its waiters
                    // lend, and what these lend goes to the new holder as soon as that one runs and waits itself.
                    if !self.resources.lock(&self.hardware, lock, thread) {
                        self.leave(cpu, thread, Departure::Sleeps);
                        self.inherit(lock);
                    }
                }
                Step::Unlock(lock) => {
                    if let Some(next) = self.resources.unlock(&self.hardware, lock, thread) {
                        self.goes_on_for(cpu, self.hardware.platform.overheads.wakeup);
                        self.wake(next, cpu);
                        self.inherit(lock);
                    }
                    let own = self.resources.inherited(&self.hardware, thread);
                    self.change(thread, own);
                    if self.is_preempted(cpu, thread) {
                        break;
                    }
                }
                Step::Wait(signal) => self.wait_for(cpu, thread, signal, false),
                Step::Block(signal) => self.wait_for(cpu, thread, signal, true),
                Step::WaitUntil(signal, until) => self.wait_until(cpu, thread, (signal, until)),
                Step::Signal(_) | Step::SignalAll(_) => {
                    self.raise_event(cpu, step);
                    if self.is_preempted(cpu, thread) {
                        break;
                    }
                }
                Step::Serve(device) => {
                    if !self.serve(device, thread) {
                        self.leave(cpu, thread, Departure::Sleeps);
                    }
                }
                Step::Yield => {
                    self.account(cpu);
                    let rank = self.rank_of(thread);
                    self.policies[rank].yield_now(&mut self.hardware, cpu, thread);
                    self.hardware.reschedule(cpu);
                    break;
                }
                Step::Confine(_) | Step::Become(_) | Step::Regroup(_) => {
                    if self.changes_itself(cpu, thread, step) {
                        break;
                    }
                }
                Step::Exit => self.leave(cpu, thread, Departure::Exits),
            }
        }
        self.arm_completion(cpu);
    }

    /// What the current thread of a CPU does next; a scheduler that listens hears of the jobs that it begins and ends.
    fn next_step(&mut self, cpu: usize, moment: Moment) -> Step {
        let thread = moment.thread;
        let Machine { hardware, policies, programs, hears_of_jobs, .. } = self;
        let mut mark = |marker| {
            let here = hardware.here(cpu);
            hardware.recorder.marker(here, marker);
            if *hears_of_jobs {
                let Rank(rank) = hardware.thread(thread).rank;
                policies[rank].job(hardware, thread, marker);
            }
        };
        let step = self.resources.again(thread).unwrap_or_else(|| programs.next(moment, &mut mark));
        self.tell_at_disk(cpu);
        step
    }

    /// Whether a thread that woke another gives way before its next step.
    fn is_preempted(&self, cpu: usize, thread: ThreadId) -> bool {
        self.hardware.cpus[cpu].reschedule && !self.policies[self.rank_of(thread)].finishes_steps()
    }

    fn arm_completion(&mut self, cpu: usize) {
        let slot = self.hardware.cpus[cpu].completion;
        let remaining = self.hardware.current(cpu).map(|t| self.hardware.thread(t).remaining);
        match remaining {
            Some(left) if left.is_positive() && left != Nanos::MAX => {
                self.hardware.engine.arm(slot, self.hardware.free_from(cpu) + left);
            }
            _ => self.hardware.engine.cancel(slot),
        }
    }
}

/// Gives a machine its CPUs, idle; their ticks begin where those of idle CPUs go on.
fn add_cpus(hardware: &mut Hardware, ids: &[CpuId], tick_phases: &[Nanos]) {
    for (index, id) in ids.iter().enumerate() {
        let place = u32::try_from(index).expect("fewer than 2^32 CPUs");
        let tick = hardware.add_slot(Occasion::Tick(place));
        let completion = hardware.add_slot(Occasion::Completion(place));
        let handler_end = hardware.add_slot(Occasion::HandlerEnd(place));
        hardware.cpus.push(Cpu {
            id: *id,
            current: None,
            entered: None,
            serves: false,
            accounted: Nanos::ZERO,
            untold: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            reschedule: false,
            resting: 0,
            pushes_to: None,
            tick_phase: tick_phases.get(index).copied().unwrap_or_default(),
            handling: None,
            handlers: VecDeque::new(),
            tick,
            completion,
            handler_end,
        });
    }
    if hardware.ticks_while_idle() {
        for cpu in &hardware.cpus {
            hardware.engine.arm(cpu.tick, cpu.tick_phase);
        }
    }
}

impl<P: Programs> Simulation for Machine<P> {
    fn engine(&mut self) -> &mut Engine {
        &mut self.hardware.engine
    }

    fn occur(&mut self, event: Event, observer: &mut dyn Observer) {
        debug_assert_eq!(event.component, self.hardware.component, "an event of the CPUs");
        self.counts.events += 1;
        let occasion = Occasion::of(event.number);
        match occasion {
            Occasion::Tick(cpu) => self.tick(cpu as usize),
            Occasion::Completion(cpu) => self.advance(cpu as usize),
            Occasion::Alarm(thread) => self.alarm(thread),
            Occasion::Interrupt(device) => self.interrupt(device as usize),
            Occasion::HandlerEnd(cpu) => self.handler_ends(cpu as usize),
            Occasion::Policy(rank, number) => {
                let rank = usize::from(rank);
                let cpu = self.policies[rank].timer_cpu(number);
                if let Some(cpu) = cpu {
                    self.count_timer(cpu, false);
                    if self.policies[rank].accounts_all_for_timer(number) {
                        self.account_all();
                    } else if self.policies[rank].accounts_for_timer(number) {
                        self.account(cpu);
                    }
                    self.interrupted_by_timer(cpu, self.hardware.platform.overheads.timer);
                }
                self.policies[rank].timer(&mut self.hardware, number);
                if let Some(cpu) = cpu {
                    self.expire_others(cpu);
                }
            }
        }
        if (is_timer(occasion) || matches!(occasion, Occasion::Tick(_))) && self.more_timers_expire(occasion)
        {
            return;
        }
        self.come_to_rest(observer);
    }
}
