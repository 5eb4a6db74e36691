//! [`Balance`]: on which CPU a fair thread runs, after `kernel/sched/fair.c`, on a machine of alike CPUs that share a cache and so are one
//! scheduling domain. Its rules are those of 6.1 to 7.2 alike. Where it is said what CPUs share, [`levels`] and [`waking`] have the rules for that.
//!
//! - A new thread goes to an idle CPU, else to the one with the least weight.
//! - A woken thread stays on its CPU if that is idle, or runs threads of `SCHED_IDLE` only; else it goes to such a one, that before its
//!   last first, then the next ones in turn (`select_idle_sibling`). The more of the domain's time was used when somebody last
//!   balanced, the fewer are looked at, and none beyond 85 % (`update_idle_cpu_scan`): then it stays.
//! - A CPU about to idle takes a thread that waits elsewhere (`sched_balance_newidle`), if it looks ([`NewlyIdle`]).
//! - A busy CPU balances when its interval is over: `n` to `2 n` ms of `n` CPUs, doubled each time all was even, times 16, less a tick
//!   (`get_sd_balance_interval`). Its tick has idle CPUs do the same each interval, not times 16, if it has a thread too many
//!   (`nohz_balancer_kick`).
//! - What is taken, and from whom, is [`imbalance`]'s, from averages ([`Average`]). Of the threads there those go first that joined
//!   or ran longest ago; one that ran in the last 0.5 ms, and so has a warm cache, only when that failed twice; and one with load to
//!   spare when its load, halved each time that nothing fitted, is at most that wanted: so three equal threads on two CPUs take turns.
//!   In 6.18 and 7.2 a busy CPU takes one that is not eligible only when balancing failed.
//!
//! - A sleeper that EEVDF leaves in its queue loads the CPU until it is let go (`set_delayed`), and may go to another one with it. In 6.12 it counts as
//!   one of the CPU's threads; from 6.14 on only as one for which the CPU is not idle (`h_nr_runnable`).
//! - Where nothing that waits may be taken, the running thread is stopped and taken: if it is the only one of a CPU to which more important
//!   ones leave little, for an idle CPU with 17 % more; or after three failures (`need_active_balance`, `active_load_balance_cpu_stop`).
//!
//! Where the threads are a session of their own, loads are those of its entities ([`session`]); with groups, of theirs ([`shares`]).
//!
//! *Not modelled* where nothing is said: wakers on other CPUs (`wake_affine`).

mod bounds;
mod groups;
mod imbalance;
mod interval;
mod levels;
mod looking;
mod newly_idle;
mod session;
mod shares;
mod taking;
mod waking;

use surety_model::platform::Platform;
use surety_model::platform::features::FairVersion;
use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use super::average::Average;
use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::places::Places;

use bounds::Bounds;
use imbalance::CAPACITY;
pub(super) use imbalance::Looks;
use interval::{INTERVALS, LONGEST_BOUND, in_ticks, ticks_of};
use levels::Levels;
use newly_idle::NewlyIdle;
use session::Session;
use shares::Shares;
pub(super) use taking::Taken;

/// Where fair threads are.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    rank: Rank,
    /// Nothing on one CPU, as are `threads`.
    cpus: Vec<CpuState>,
    threads: Vec<ThreadState>,
    /// Where all threads are of one that is scheduled as a group.
    session: Option<Session>,
    /// Where there are groups.
    shares: Option<Box<Shares>>,
    /// CPUs that exactly one of them wants, and those that several do.
    by_one: Places,
    by_several: Places,
    /// CPUs that threads of `SCHED_IDLE` want, and no others.
    by_idlers: Places,
    /// How many CPUs any wants.
    wanted_cpus: usize,
    /// CPUs that last ran a thread of a more important scheduler: at what their averages of it stand, to be looked at without them.
    outranked: Places,
    bounds: Bounds,
    /// CPUs that a woken thread looks at, and whether that changes.
    scanned: u64,
    scans_by_use: bool,
    sees_left: bool,
    /// Whether some CPU had several threads when somebody last saw all of them, or has got another since (`rd->overloaded`).
    is_overloaded: bool,
    /// How many times a thread has joined a queue or left a CPU.
    stamps: u64,
    /// Of a machine whose CPUs are said to share some things and not others.
    levels: Option<Box<Levels>>,
}

/// A CPU and its domains.
#[derive(Clone, Debug)]
struct CpuState {
    /// Threads in its queue, the running one included, in no order.
    wanting: Vec<ThreadId>,
    /// How many of them are of `SCHED_IDLE`, and how many sleep and were left there.
    idlers: usize,
    left: usize,
    /// Sum of the weights of those in no group.
    load: Average,
    /// Whether any wants it; known where there is a session.
    wanted: Average,
    /// How many want it and do not sleep.
    runnable: Average,
    /// Whether one runs.
    used: Average,
    /// Whether a thread of a more important scheduler runs.
    outranked: Average,
    /// What those leave of it, 1..=1024, when it last looked.
    capacity: u64,
    /// The tick from which on that is known anew when it is about to idle.
    capacity_until: u64,
    lowest: Domain,
    /// Of the domains above it, where there are any.
    above: Vec<Domain>,
}

/// What a CPU knows of one of its domains.
#[derive(Clone, Debug)]
struct Domain {
    newly_idle: NewlyIdle,
    /// The tick at which it last balanced.
    balanced: u64,
    /// How long until it does so again while idle, ms.
    interval: u64,
    failures: u32,
}

impl CpuState {
    #[inline]
    fn domain(&self, level: usize) -> &Domain {
        level.checked_sub(1).map_or(&self.lowest, |above| &self.above[above])
    }

    #[inline]
    fn domain_mut(&mut self, level: usize) -> &mut Domain {
        match level.checked_sub(1) {
            None => &mut self.lowest,
            Some(above) => &mut self.above[above],
        }
    }
}

/// A thread, as balancing knows it.
#[derive(Clone, Debug)]
struct ThreadState {
    group: Option<usize>,
    /// The CPU whose averages it is in.
    home: usize,
    /// Its place among those that want it, and whether it counts there as of `SCHED_IDLE`.
    place: usize,
    is_idler: bool,
    /// Whether it sleeps and was left in the queue.
    is_left: bool,
    /// The order in which threads joined or were run.
    stamp: u64,
    /// Whether it is in a queue, whether it wants a CPU, and whether it has one.
    queued: Average,
    awake: Average,
    used: Average,
    left_at: Option<Nanos>,
    /// The CPU before its last one.
    before: usize,
}

/// How CPUs about to idle look for threads of others, and woken threads for CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Search {
    /// Whether a CPU that seldom idles looks each time (`NI_RATE`).
    pub(super) by_rate: bool,
    /// Whether a die decides if it looks (`NI_RANDOM`).
    pub(super) by_chance: bool,
    /// Whether a woken thread looks at fewer CPUs the more of them are in use (`SIS_UTIL`).
    pub(super) by_use: bool,
    /// Whether sleepers that are left in a queue count as threads that want the CPU: from 6.14 on they do not (`h_nr_runnable`), and go with others'
    /// load alone.
    pub(super) sees_left: bool,
}

impl Search {
    /// With a die, and by use.
    pub(super) const USUAL: Search =
        Search { by_rate: false, by_chance: true, by_use: true, sees_left: false };

    /// With the features of a platform whose fair class is this version.
    pub(super) fn with_features(self, platform: &Platform, version: &FairVersion) -> Search {
        let has = |name: &str| platform.has_feature(version, name);
        Search { by_rate: has("NI_RATE"), by_chance: has("NI_RANDOM"), by_use: has("SIS_UTIL"), ..self }
    }
}

/// What a CPU finds when it looks at the others.
enum Found {
    /// Nothing to even out.
    Even,
    /// Nothing but threads that may not come.
    Bound,
    /// These; none where none fits.
    Uneven(Taken),
}

impl Balance {
    pub(super) fn new(hardware: &Hardware, rank: Rank, search: Search) -> Balance {
        let cpus = hardware.cpus.len();
        let levels = hardware.domains.as_deref().filter(|domains| !domains.levels.is_empty());
        let levels = levels.map(|domains| Box::new(Levels::new(domains, hardware)));
        let domain = |cpu: usize, level: usize| Domain {
            newly_idle: NewlyIdle::new(hardware.seed, (cpu, level), search),
            balanced: 0,
            interval: INTERVALS.0 * levels.as_ref().map_or(cpus, |levels| levels.all[level].size) as u64,
            failures: 0,
        };
        let above = levels.as_ref().map_or(1, |levels| levels.all.len());
        let state = |cpu: usize| CpuState {
            wanting: Vec::new(),
            idlers: 0,
            left: 0,
            load: Average::default(),
            wanted: Average::default(),
            runnable: Average::default(),
            used: Average::default(),
            outranked: Average::default(),
            capacity: CAPACITY,
            capacity_until: 0,
            lowest: domain(cpu, 0),
            above: (1..above).map(|level| domain(cpu, level)).collect(),
        };
        Balance {
            rank,
            cpus: if cpus > 1 { (0..cpus).map(state).collect() } else { Vec::new() },
            threads: Vec::new(),
            session: (hardware.platform.autogroup && hardware.groups.is_empty()).then(Session::default),
            shares: (cpus > 1 && !hardware.groups.is_empty())
                .then(|| Box::new(Shares::new(&hardware.groups, cpus))),
            by_one: Places::none(cpus),
            by_several: Places::none(cpus),
            by_idlers: Places::none(cpus),
            wanted_cpus: 0,
            outranked: Places::none(cpus),
            bounds: Bounds::new(cpus),
            scanned: cpus as u64,
            scans_by_use: search.by_use,
            sees_left: search.sees_left,
            is_overloaded: false,
            stamps: 0,
            levels,
        }
    }

    /// Knows a thread from now on. What it adds to load is as if it had always wanted its CPU (`init_entity_runnable_average`).
    pub(super) fn admit(&mut self, hardware: &Hardware, thread: ThreadId) {
        if self.cpus.is_empty() {
            return;
        }
        let (now, cpu, group) = (hardware.now(), hardware.thread(thread).cpu, hardware.thread(thread).group);
        let mut queued = Average::default();
        queued.always(now, 1);
        self.threads.push(ThreadState {
            group,
            home: cpu,
            place: 0,
            is_idler: false,
            is_left: false,
            stamp: 0,
            queued,
            awake: queued,
            used: Average::default(),
            left_at: None,
            before: cpu,
        });
    }

    /// A thread of the scheduler `of`, or nothing, has run on a CPU for `ran`.
    #[inline]
    pub(super) fn ran(&mut self, cpu: usize, of: Option<Rank>, ran: Nanos, now: Nanos) {
        let is_outranked = of.is_some_and(|of| of < self.rank);
        if self.outranked.contains(cpu) != is_outranked {
            self.outranked.set(cpu, is_outranked);
            self.cpus[cpu].outranked.step(now - ran, u64::from(is_outranked));
        }
    }

    /// A thread of weight `own` wants its CPU, on which all of its group, or those in none, have weight `load`.
    pub(super) fn joins(&mut self, hardware: &Hardware, thread: ThreadId, own: i64, load: i64) {
        if self.cpus.is_empty() {
            return;
        }
        let (now, cpu) = (hardware.now(), hardware.thread(thread).cpu);
        let state = &mut self.threads[thread.index()];
        let before = std::mem::replace(&mut state.home, cpu);
        if before != cpu {
            let [from, to] = self.cpus.get_disjoint_mut([before, cpu]).expect("two CPUs of the machine");
            if let Some((shares, group)) = self.shares.as_mut().zip(state.group) {
                let averages = (&mut state.queued, &mut state.used);
                shares.moves((group, own.unsigned_abs()), [before, cpu], averages, now);
            } else {
                from.load.hand_over(&mut to.load, &mut state.queued, own.unsigned_abs(), now);
            }
            from.runnable.hand_over(&mut to.runnable, &mut state.awake, 1, now);
            from.used.hand_over(&mut to.used, &mut state.used, 1, now);
            if self.session.is_some() {
                session::moves(from, to, &state.queued, now);
            }
            self.bounds.change(before);
        }
        if hardware.thread(thread).group != state.group {
            self.regroup(hardware, thread, own);
        }
        let state = &mut self.threads[thread.index()];
        state.queued.step(now, 1);
        state.awake.step(now, 1);
        if std::mem::take(&mut state.is_left) {
            let group = state.group;
            self.cpus[cpu].left -= 1;
            return self.count((group, cpu), load, now);
        }
        self.stamps += 1;
        state.stamp = self.stamps;
        self.comes(hardware, cpu);
        let (state, of) = (&mut self.threads[thread.index()], &mut self.cpus[cpu]);
        state.place = of.wanting.len();
        state.is_idler = is_idler(hardware, thread);
        of.wanting.push(thread);
        of.idlers += usize::from(state.is_idler);
        let group = state.group;
        if let Some(shares) = &mut self.shares {
            shares.wants((group, cpu), true, now);
        }
        self.count((group, cpu), load, now);
    }

    /// What a thread of weight `own` loads its CPU with goes from one group to another (`detach_task_cfs_rq`, `attach_task_cfs_rq`).
    fn regroup(&mut self, hardware: &Hardware, thread: ThreadId, own: i64) {
        let (now, cpu, to) = (hardware.now(), hardware.thread(thread).cpu, hardware.thread(thread).group);
        let state = &mut self.threads[thread.index()];
        let from = std::mem::replace(&mut state.group, to);
        let Some(shares) = &mut self.shares else { return };
        shares.regroups(
            (from, to),
            cpu,
            (&mut state.queued, own.unsigned_abs()),
            &mut self.cpus[cpu].load,
            now,
        );
        self.bounds.change(cpu);
    }

    /// A thread no longer wants its CPU, where those of its group in the queue have this weight then. One that is left in the queue loads it
    /// until it leaves once more.
    pub(super) fn leaves(&mut self, hardware: &Hardware, thread: ThreadId, is_left: bool, load: i64) {
        if self.cpus.is_empty() {
            return;
        }
        let (now, cpu) = (hardware.now(), hardware.thread(thread).cpu);
        let state = &mut self.threads[thread.index()];
        state.queued.step(now, u64::from(is_left));
        state.awake.step(now, 0);
        let (group, place, of) = (state.group, state.place, &mut self.cpus[cpu]);
        of.left -= usize::from(std::mem::replace(&mut state.is_left, is_left));
        if is_left {
            of.left += 1;
            return self.count((group, cpu), load, now);
        }
        of.wanting.swap_remove(place);
        of.idlers -= usize::from(state.is_idler);
        if let Some(moved) = of.wanting.get(place) {
            self.threads[moved.index()].place = place;
        }
        if let Some(shares) = &mut self.shares {
            shares.wants((group, cpu), false, now);
        }
        self.count((group, cpu), load, now);
    }

    /// A thread of any scheduler comes to a CPU, and is not counted there yet.
    pub(super) fn comes(&mut self, hardware: &Hardware, cpu: usize) {
        self.is_overloaded |= !self.cpus[cpu].wanting.is_empty() || hardware.current(cpu).is_some();
    }

    fn count(&mut self, (group, cpu): (Option<usize>, usize), load: i64, now: Nanos) {
        let state = &mut self.cpus[cpu];
        let (wanting, idlers) = (state.wanting.len(), state.idlers);
        let load = load.unsigned_abs();
        if let Some(session) = &mut self.session {
            session.step(now, state.load.level(), load);
            state.wanted.step(now, u64::from(wanting > 0));
        }
        match self.shares.as_mut().zip(group) {
            Some((shares, group)) => shares.step((group, cpu), load, now),
            None => state.load.step(now, load),
        }
        state.runnable.step(now, (wanting - state.left) as u64);
        let was_wanted = self.by_one.contains(cpu) || self.by_several.contains(cpu);
        self.wanted_cpus = self.wanted_cpus + usize::from(wanting > 0) - usize::from(was_wanted);
        self.by_one.set(cpu, wanting == 1);
        self.by_several.set(cpu, wanting > 1);
        self.by_idlers.set(cpu, wanting > 0 && idlers == wanting);
        self.bounds.change(cpu);
    }

    /// A CPU goes from one fair thread to another; to or from none where it is nothing or another scheduler's.
    pub(super) fn switches(
        &mut self,
        cpu: usize,
        prev: Option<ThreadId>,
        next: Option<ThreadId>,
        now: Nanos,
    ) {
        if self.cpus.is_empty() {
            return;
        }
        if let Some(prev) = prev {
            let state = &mut self.threads[prev.index()];
            state.used.step(now, 0);
            state.left_at = Some(now);
            if let Some(shares) = &mut self.shares {
                shares.runs((state.group, cpu), false, now);
            }
        }
        if let Some(next) = next {
            self.stamps += 1;
            let state = &mut self.threads[next.index()];
            state.used.step(now, 1);
            state.stamp = self.stamps;
            if let Some(shares) = &mut self.shares {
                shares.runs((state.group, cpu), true, now);
            }
        }
        self.cpus[cpu].used.step(now, u64::from(next.is_some()));
        self.bounds.change(cpu);
    }

    /// Whether a CPU has a thread that waits there.
    pub(super) fn is_crowded(&self, hardware: &Hardware) -> bool {
        let sets = &hardware.sets;
        self.wanted_cpus > 0
            && self.by_several.is_any(&self.by_one, [sets.idle(), &sets.by_rank()[self.rank.0]])
    }

    /// Whether nothing runs or waits there but threads of `SCHED_IDLE`.
    fn is_free(&self, hardware: &Hardware, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        if state.wanting.is_empty() {
            return hardware.is_idle(cpu);
        }
        self.by_idlers.contains(cpu) && hardware.current_of(cpu, self.rank).is_some()
    }

    /// Idle CPUs that no thread wants, the lowest first.
    fn idle(&self, hardware: &Hardware) -> impl Iterator<Item = usize> {
        hardware.idle_cpus().filter(|cpu| self.cpus[*cpu].wanting.is_empty())
    }

    /// How many fair threads balancing sees on a CPU (`h_nr_queued`, later `h_nr_runnable`).
    #[inline]
    fn fair(&self, cpu: usize) -> usize {
        let state = &self.cpus[cpu];
        state.wanting.len() - if self.sees_left { 0 } else { state.left }
    }

    /// How many threads of a CPU wait and will not run when it chooses.
    fn spare(&self, hardware: &Hardware, cpu: usize) -> usize {
        let elsewhere = self.runs_other(hardware, cpu);
        let wanting = self.cpus[cpu].wanting.len();
        wanting - usize::from(!elsewhere && wanting > 0)
    }

    /// Whether a thread of another scheduler runs there.
    #[inline]
    fn runs_other(&self, hardware: &Hardware, cpu: usize) -> bool {
        !hardware.sets.idle().contains(cpu) && !hardware.sets.by_rank()[self.rank.0].contains(cpu)
    }

    /// A thread came from a CPU that was stopped for it.
    pub(super) fn took_stopped(&mut self, from: usize, to: usize) {
        let level = self.levels.as_ref().map_or(0, |levels| levels.common(from, to));
        self.cpus[to].domain_mut(level).failures = 0;
    }

    /// Whether a CPU about to idle looks at the others.
    pub(super) fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        if !self.is_overloaded {
            return false;
        }
        if self.levels.is_some() {
            // Each domain has a die of its own.
            return true;
        }
        if !self.cpus[cpu].lowest.newly_idle.looks(hardware.now()) {
            return false;
        }
        if ticks_of(hardware) >= self.cpus[cpu].capacity_until {
            self.weigh(hardware, cpu);
        }
        self.is_overloaded = self.is_crowded(hardware);
        true
    }

    /// What more important threads leave of a CPU, as its averages have it now (`update_group_capacity`).
    fn weigh(&mut self, hardware: &Hardware, cpu: usize) {
        let (now, ticks) = (hardware.now(), ticks_of(hardware));
        let interval = in_ticks(hardware, self.cpus[cpu].lowest.interval).clamp(1, self.longest(hardware));
        let state = &mut self.cpus[cpu];
        state.capacity = CAPACITY.saturating_sub(state.outranked.get(now, CAPACITY)).max(1);
        state.capacity_until = ticks + interval;
        self.bounds.change(cpu);
    }

    /// What a CPU about to idle takes; [`Balance::bound`] has been called.
    pub(super) fn for_newly_idle(
        &self,
        hardware: &Hardware,
        cpu: usize,
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Option<Taken> {
        match self.look(hardware, cpu, Looks::NewlyIdle, load_of) {
            Found::Uneven(taken) if taken.stops || !taken.threads.is_empty() => Some(taken),
            _ => None,
        }
    }

    /// A CPU took what it had found at a level.
    fn took(&mut self, cpu: usize, level: usize) {
        let interval = INTERVALS.0 * self.size(level) as u64;
        let domain = self.cpus[cpu].domain_mut(level);
        (domain.failures, domain.interval) = (0, interval);
    }

    /// CPUs of a domain of a level.
    fn size(&self, level: usize) -> usize {
        self.levels.as_ref().map_or(self.cpus.len(), |levels| levels.all[level].size)
    }

    /// A CPU about to idle took what it had found.
    pub(super) fn took_newly_idle(&mut self, cpu: usize, level: usize) {
        self.took(cpu, level);
        self.cpus[cpu].domain_mut(level).newly_idle.found();
    }

    /// Whether others want a CPU, and its last balancing did not fail.
    pub(super) fn is_choosy(&self, cpu: usize, level: usize) -> bool {
        self.cpus[cpu].domain(level).failures == 0 && !self.cpus[cpu].wanting.is_empty()
    }

    /// Whether nominated threads stay where they are for one that takes: others want it, and balancing did not fail too often (`task_hot`).
    pub(super) fn leaves_buddies(&self, cpu: usize, level: usize) -> bool {
        !self.patience(cpu, level).is_over() && !self.cpus[cpu].wanting.is_empty()
    }

    /// What a CPU takes when it balances at a level, and whether it goes on with the level above.
    pub(super) fn balance(
        &mut self,
        hardware: &Hardware,
        (cpu, level, looks): (usize, usize, Looks),
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> (Option<Taken>, bool) {
        if self.levels.is_some() {
            return self.balance_at(hardware, (cpu, level, looks), load_of);
        }
        self.begin(hardware, cpu, level);
        self.bound(hardware);
        let found = self.look(hardware, cpu, looks, load_of);
        (self.ends(cpu, level, found), false)
    }

    /// A CPU has looked for something to take.
    fn ends(&mut self, cpu: usize, level: usize, found: Found) -> Option<Taken> {
        match found {
            Found::Even => {
                self.even(cpu, level, 0);
                None
            }
            Found::Bound => {
                self.even(cpu, level, LONGEST_BOUND);
                None
            }
            Found::Uneven(taken) => {
                let failures = self.cpus[cpu].domain(level).failures;
                self.took(cpu, level);
                if taken.threads.is_empty() {
                    self.cpus[cpu].domain_mut(level).failures = failures + 1;
                }
                Some(taken)
            }
        }
    }
}

fn is_idler(hardware: &Hardware, thread: ThreadId) -> bool {
    matches!(hardware.thread(thread).scheduling, Scheduling::Policy(PolicySpec::Idle))
}
