//! [`bounds`]: the longest time from an event of a chain to the end of the last job that handles it.
//!
//! Compositional: the response of each stage is bounded by the test of its class, and the bounds of the stages are added up.
//!
//! - A fed stage handles a stream of events ([`EventStream`]). The first has that of the chain. Behind a stage that takes between its least work B and
//!   its longest response R, events come with a jitter that is larger by R - B, at least B apart (Tindell and Clark, "Holistic schedulability
//!   analysis for distributed hard real-time systems", Microprocessing and Microprogramming 40, 1994; Richter, Jersak and Ernst, RTSS 2003).
//!   Responses depend on jitters and the other way round: from no jitter on both grow to their least fixed point.
//! - A stage with a period takes an event with the first job that starts after it was delivered. The job before had started at its release or later,
//!   so this one is released at most a period after the delivery, and is done a response later (the reaction time of Davare et al., DAC 2007, and
//!   Feiertag et al., CRTS 2008). It hands on once in a period.
//! - Under a fixed priority a job is done in the busy window of all that stand above or beside it (`busy`); above all priorities stand the
//!   reservations, with what each takes at most ([`Supply::at_most_waking`]), and the kernel's fair server. That acts beside realtime threads that leave
//!   fair ones time, too: fair threads that come late in a period of which the budget is used up wait for no more than its end.
//! - A reservation gives a busy window of its thread what it guarantees a thread that always wants the CPU ([`Supply::time_for`]): what a waking
//!   leaves of a budget is left to a thread that did not sleep, too, or it is a whole budget. With a deadline before the period's end the kernel cuts
//!   it to `Q/D` of the time to the deadline, rounded down in steps of 2^-20. A stage whose events are as far apart as the budgets of a job finds a whole budget with each.
//!
//! The kernel's own work is counted as for other bounds ([`crate::overheads`]).

mod busy;
mod events;
mod record;
mod threads;

use std::collections::BTreeMap;

use surety_model::platform::{FairServer, Platform};
use surety_model::reservation::Reservation;
use surety_model::workload::{ActivityKind, Late, PolicySpec, Task, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::{CpuId, CpuSet, Nanos};

use crate::beside::threads_of;
use crate::edf::ReservedThread;
use crate::overheads::{Interruption, busy as busy_for, interruptions};
use crate::schedulability::task::{LONGEST, narrow, wide};
use crate::supply::Supply;
use busy::{Effort, Longest, below, is_overloaded, longest};
pub use events::EventStream;
pub(crate) use record::record;
use threads::{Releases, Service, Thread, events_of};

/// The rule in a few words.
pub const THEOREM: &str = "responses of the stages added up, jitter handed on";

/// Where it comes from.
pub const SOURCE: &str =
    "Tindell and Clark, 1994; Richter, Jersak and Ernst, RTSS 2003; Davare et al., DAC 2007";

/// Rounds until the search for a fixed point is given up.
const ROUNDS: u32 = 200;

/// What stands at a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageBound {
    pub task: String,
    /// From the delivery to the end of the job that handles the event.
    pub delay: Nanos,
    /// How, in words.
    pub step: String,
}

/// What is proven of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBound {
    /// From an event to the end of the job of the last stage.
    pub limit: Nanos,
    pub stages: Vec<StageBound>,
}

/// What chains are bounded on.
#[derive(Clone, Debug)]
pub struct Ground<'a> {
    pub workload: &'a Workload,
    /// As for proofs ([`crate::overheads::with_busy`]).
    pub platform: &'a Platform,
    /// Those of the run.
    pub cpus: CpuSet,
    /// The reserved threads of the workload, which keep their deadlines beside those that others have.
    pub reserved: &'a [ReservedThread],
    /// Whether each of them has a CPU whenever it wants one.
    pub alone: bool,
    /// Ends the search.
    pub cancel: &'a Cancel,
}

/// The bound of each chain of a workload, or why it has none; `objection`: why nothing is proven that they could stand on.
///
/// # Errors
/// [`WorldError::Interrupted`].
pub fn bounds(
    ground: &Ground<'_>,
    objection: Option<&str>,
) -> Result<Vec<Result<ChainBound, String>>, WorldError> {
    if let Some(why) = objection {
        return Ok(vec![Err(format!("no proof: {why}")); ground.workload.chains.len()]);
    }
    let mut solver = Solver::new(ground);
    // What a stopped thread hands on is not bounded, so that more of them may be stopped.
    let solved = loop {
        let solved = solver.solve()?;
        let new = solver.cpus().into_iter().filter(|cpu| !solver.stopped.contains_key(cpu));
        let stopped: Vec<(CpuId, String)> =
            new.filter_map(|cpu| Some((cpu, solver.throttled(&solved, cpu)?))).collect();
        if stopped.is_empty() {
            break solved;
        }
        solver.stopped.extend(stopped);
    };
    Ok((0..ground.workload.chains.len()).map(|chain| solver.bound(chain, &solved)).collect())
}

/// The threads of a workload with what stands above them.
struct Solver<'a> {
    ground: &'a Ground<'a>,
    /// By the place of the task.
    threads: Vec<Result<Thread<'a>, String>>,
    /// Of all that is reserved, for what it takes of others.
    supplies: Vec<Supply>,
    /// The unlike fair servers of its CPUs.
    servers: Vec<FairServer>,
    /// The CPUs whose realtime threads the kernel may stop, and why.
    stopped: BTreeMap<CpuId, String>,
    effort: Effort,
}

/// A fixed point.
struct Solved {
    /// What is delivered to each stage of each chain; or why that is not bounded.
    inputs: Vec<Vec<Result<EventStream, String>>>,
    /// By the place of the task, and its CPU where it has a fixed priority.
    responses: BTreeMap<(usize, Option<CpuId>), Result<Longest, String>>,
}

impl<'a> Solver<'a> {
    fn new(ground: &'a Ground<'a>) -> Solver<'a> {
        let Ground { workload, platform, cpus, reserved, alone, .. } = *ground;
        let threads = workload.tasks.iter().map(|task| Thread::of(task, workload, platform, cpus)).collect();
        let supply = |thread: ReservedThread| Supply::new(thread.reservation, platform.enforcement, alone);
        let others = threads_of(platform).into_iter().map(|(_, thread)| thread);
        let supplies = others.chain(reserved.iter().copied()).map(supply).collect();
        let servers = ground.platform.unlike_fair_servers().into_iter().map(|(server, _)| server).collect();
        Solver { ground, threads, supplies, servers, stopped: BTreeMap::new(), effort: Effort::new() }
    }

    /// Responses and jitters from no jitter on, until both stand.
    fn solve(&self) -> Result<Solved, WorldError> {
        let chains = &self.ground.workload.chains;
        let mut inputs: Vec<Vec<Result<EventStream, String>>> =
            chains.iter().map(|chain| vec![events_of(chain); chain.through.len()]).collect();
        for (at, chain) in chains.iter().enumerate() {
            for stage in 1..chain.through.len() {
                inputs[at][stage] = self.undelayed(at, stage - 1, &inputs[at][stage - 1]);
            }
        }
        for _ in 0..ROUNDS {
            if self.ground.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            let responses = self.responses(&inputs);
            let next = self.handed_on(&inputs, &responses);
            if next == inputs {
                return Ok(Solved { inputs, responses });
            }
            inputs = next;
        }
        let why =
            format!("jitters and responses still grow after {ROUNDS} rounds, and the search is given up");
        let all = |stages: Vec<_>| stages.iter().map(|_| Err(why.clone())).collect();
        let inputs: Vec<Vec<Result<EventStream, String>>> = inputs.into_iter().map(all).collect();
        let responses = self.responses(&inputs);
        Ok(Solved { inputs, responses })
    }

    /// The thread of a stage.
    fn stage(&self, chain: usize, stage: usize) -> (usize, &Task) {
        let name = &self.ground.workload.chains[chain].through[stage];
        let place = self.ground.workload.tasks.iter().position(|task| task.name == *name);
        let place = place.expect("a workload names tasks that are there");
        (place, &self.ground.workload.tasks[place])
    }

    /// What a stage hands on that delays nothing: the least that may come behind it.
    fn undelayed(
        &self,
        chain: usize,
        stage: usize,
        input: &Result<EventStream, String>,
    ) -> Result<EventStream, String> {
        match &self.threads[self.stage(chain, stage).0] {
            Ok(Thread { releases: Releases::Grid { stream, .. }, .. }) => {
                Ok(EventStream { jitter: Nanos::ZERO, ..*stream })
            }
            _ => input.clone(),
        }
    }

    /// The events of a thread.
    fn streams(
        &self,
        thread: &Thread<'_>,
        inputs: &[Vec<Result<EventStream, String>>],
    ) -> Result<Vec<EventStream>, String> {
        match &thread.releases {
            Releases::Grid { stream, .. } | Releases::Gap(stream) => Ok(vec![*stream]),
            Releases::Deliveries(stages) => {
                stages.iter().map(|(chain, stage)| inputs[*chain][*stage].clone()).collect()
            }
        }
    }

    /// The longest response of each thread that has one.
    fn responses(
        &self,
        inputs: &[Vec<Result<EventStream, String>>],
    ) -> BTreeMap<(usize, Option<CpuId>), Result<Longest, String>> {
        let mut found = BTreeMap::new();
        for (place, thread) in self.threads.iter().enumerate() {
            match thread.as_ref().map(|thread| (thread, &thread.service)) {
                Ok((thread, Service::Reserved(reservation))) => {
                    let streams = self.streams(thread, inputs);
                    let response = streams.and_then(|of| self.reserved(&of, thread.work, *reservation));
                    found.insert((place, None), response);
                }
                Ok((thread, Service::Fixed { cpus, is_pinned: true, .. })) => {
                    for cpu in cpus.iter() {
                        let response = self.fixed(place, thread, cpu, inputs);
                        let is_stopped = |found| self.stopped.get(&cpu).cloned().map_or(Ok(found), Err);
                        found.insert((place, Some(cpu)), response.and_then(is_stopped));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        found
    }

    /// Under a reservation.
    fn reserved(
        &self,
        streams: &[EventStream],
        work: Nanos,
        reservation: Reservation,
    ) -> Result<Longest, String> {
        let Reservation { runtime, deadline, period, .. } = reservation;
        let platform = self.ground.platform;
        let overrun = platform.enforcement.overrun_max();
        if deadline < period && overrun > runtime {
            return Err(format!(
                "its deadline is before its period's end and a budget may be overrun by {overrun}, more than it is"
            ));
        }
        // What a cut budget loses in the kernel's fixed point.
        let cut = if deadline < period { Nanos::new((deadline.get() >> 20) + 2) } else { Nanos::ZERO };
        let late = busy_for(&platform.overheads).saturating_add(cut);
        let supply = Supply::new(reservation, platform.enforcement, self.ground.alone);
        let done = |amount: i128, _| {
            self.effort.take(1)?;
            let window = (amount < wide(LONGEST)).then(|| supply.time_for(narrow(amount)));
            let why = || format!("its jobs may take more than {LONGEST} of CPU time one after the other");
            window.map(|window| wide(window.saturating_add(late))).ok_or_else(why)
        };
        let bandwidth = reservation.bandwidth().as_f64();
        let is_overloaded = is_overloaded(streams.iter().map(|stream| (stream, work)), bandwidth);
        let found = if is_overloaded {
            Err("its events may ask for more than its reservation gives".to_owned())
        } else {
            longest(streams, work, done)
        };
        match (fresh(streams, work, reservation, overrun, late), streams) {
            (Some(fresh), [stream]) => {
                let by_plan = fresh.saturating_add(stream.jitter);
                let found = found.unwrap_or(Longest { from_event: fresh, from_plan: by_plan });
                Ok(Longest {
                    from_event: found.from_event.min(fresh),
                    from_plan: found.from_plan.min(by_plan),
                })
            }
            _ => found,
        }
    }
}

/// Within so long a job is done that finds a whole budget, where every one does: events come no sooner than the budgets of a job are over, and the job
/// before is done, `late` after its last deadline.
fn fresh(
    streams: &[EventStream],
    work: Nanos,
    reservation: Reservation,
    overrun: Nanos,
    late: Nanos,
) -> Option<Nanos> {
    let Reservation { runtime, deadline, period, .. } = reservation;
    let [stream] = streams else { return None };
    let budgets = work.div_ceil(runtime);
    let between = narrow(stream.earliest(1)).div_floor(period);
    // A budget that ends with the job comes again at the period's end all the same.
    let is_whole = deadline == period || (overrun == Nanos::ZERO && work < runtime * between);
    let done = (deadline + period * (budgets - 1)).saturating_add(late);
    (budgets <= between && is_whole && wide(done) <= stream.earliest(1)).then_some(done)
}

/// How long jobs at a fixed priority take on their CPU.
impl Solver<'_> {
    /// At a fixed priority on a CPU.
    fn fixed(
        &self,
        place: usize,
        thread: &Thread<'_>,
        cpu: CpuId,
        inputs: &[Vec<Result<EventStream, String>>],
    ) -> Result<Longest, String> {
        let Service::Fixed { priority, .. } = thread.service else {
            return Err("it has no fixed priority".to_owned());
        };
        self.unbounded_above(priority)?;
        self.effort.take(self.threads.len())?;
        let mut above: Vec<(EventStream, Nanos)> = Vec::new();
        for (other, task) in self.ground.workload.tasks.iter().enumerate() {
            let is_above = task.reservation.is_none()
                && task.policy.realtime_priority().is_some_and(|other| other >= priority);
            if !is_above {
                continue;
            }
            let named = |why: String| format!("`{}` stands above or beside it: {why}", task.name);
            let found = self.threads[other].as_ref().map_err(|why| named(why.clone()))?;
            let Service::Fixed { cpus, is_pinned, .. } = found.service else { continue };
            if !cpus.contains(cpu) {
                continue;
            }
            if !is_pinned {
                return Err(named("it may run on several CPUs; pin it with `cpus`".to_owned()));
            }
            let count = found.count.saturating_sub(u32::from(other == place));
            let streams = self.streams(found, inputs).map_err(named)?;
            let each = streams.iter().map(|stream| (*stream, found.work));
            above.extend((0..count).flat_map(|_| each.clone()));
        }
        let platform = self.ground.platform;
        let begun = wide(busy_for(&platform.overheads));
        let kernel = self.kernels_own(Some(&thread.task.name));
        let terms = above.len() + kernel.len() + self.supplies.len() + 1;
        let others = |window: i128| {
            self.effort.take(terms)?;
            let of_threads: i128 = above.iter().map(|(stream, work)| stream.most(window) * wide(*work)).sum();
            let of_kernel: i128 = kernel.iter().map(|one| wide(one.at_most(narrow(window)))).sum();
            Ok(of_threads + of_kernel + self.reserved_at_most(narrow(window)) + begun)
        };
        let streams = self.streams(thread, inputs)?;
        let own = streams.iter().map(|stream| (stream, thread.work));
        let all = above.iter().map(|(stream, work)| (stream, *work)).chain(own);
        let reserved = self.supplies.iter().map(|supply| supply.reservation().bandwidth().as_f64());
        let share = |s: FairServer| (s.runtime + platform.tick).get() as f64 / s.period.get() as f64;
        let server = self.servers.iter().map(|server| share(*server)).fold(0.0, f64::max);
        if is_overloaded(all, 1.0 - server - reserved.sum::<f64>()) {
            // No busy window would end.
            return Err(
                "what stands above or beside it, and its own jobs, may take all of the CPU".to_owned()
            );
        }
        // A job takes its work after the one before it.
        longest(&streams, thread.work, |amount, before| below(amount, before + wide(thread.work), others))
    }

    /// What nothing bounds that may stand above a priority, in words.
    fn unbounded_above(&self, priority: u32) -> Result<(), String> {
        let workload = self.ground.workload;
        let is_above =
            |policy: &PolicySpec| policy.realtime_priority().is_some_and(|other| other >= priority);
        if let Some(load) = workload.loads.iter().find(|load| is_above(&load.policy)) {
            return Err(format!("nothing bounds what the load `{}` takes above or beside it", load.name));
        }
        if let Some(lock) = workload.resources.first() {
            return Err(format!("the lock `{}` may lend a thread below a priority above it", lock.name));
        }
        let counted = [ActivityKind::Task, ActivityKind::Load, ActivityKind::Chain];
        let activities = workload.activities();
        if let Some(other) = activities.iter().find(|activity| !counted.contains(&activity.kind)) {
            return Err(format!(
                "{} has threads whose priority and work are not counted",
                other.kind.path(other.name)
            ));
        }
        let order = &self.ground.platform.schedulers;
        let above = order.iter().take_while(|word| *word != "realtime");
        if let Some(word) = above.into_iter().find(|word| *word != "deadline") {
            return Err(format!("the platform has `{word}` above realtime threads"));
        }
        if workload.tasks.iter().any(|task| task.reservation.is_some_and(|r| r.reclaim)) {
            return Err("a reservation above it reclaims what others leave".to_owned());
        }
        Ok(())
    }

    /// What the kernel's own work takes beside the jobs on a CPU: other wake-ups, timers, ticks.
    fn kernels_own(&self, name: Option<&str>) -> Vec<Interruption> {
        let Ground { workload, platform, .. } = *self.ground;
        let mut found = interruptions(workload, platform, name);
        found.push(Interruption { cost: platform.overheads.tick, distance: platform.tick });
        found
    }

    /// What reservations and the fair server take of a window at most.
    fn reserved_at_most(&self, window: Nanos) -> i128 {
        let most = |supply: &Supply| wide(supply.at_most_waking(window).max(supply.at_most(window)));
        // It starts whenever fair threads come, and keeps its deadlines; what it overruns it does not pay back. Of unlike ones that of
        // whichever CPU takes most.
        let taken = |server: FairServer| {
            let runtime = server.runtime + self.ground.platform.tick;
            let late = (server.period - runtime).max(Nanos::ZERO) * 2;
            let stream = EventStream { period: server.period, jitter: late, distance: Nanos::ZERO };
            stream.most(wide(window)) * wide(runtime)
        };
        let server = self.servers.iter().map(|server| taken(*server)).max().unwrap_or(0);
        self.supplies.iter().map(most).sum::<i128>() + server
    }

    /// What runs above fair threads on a CPU in a window at most, each job anywhere within its response; `None`: nobody knows.
    fn above_fair(&self, solved: &Solved, cpu: CpuId, window: Nanos) -> Option<i128> {
        let workload = self.ground.workload;
        let realtime = |policy: &PolicySpec| policy.realtime_priority().is_some();
        if workload.loads.iter().any(|load| realtime(&load.policy)) {
            return None;
        }
        let kernel = self.kernels_own(None);
        let mut most = kernel.iter().map(|one| wide(one.at_most(window))).sum::<i128>();
        most += self.reserved_at_most(window) + wide(busy_for(&self.ground.platform.overheads));
        for (place, task) in workload.tasks.iter().enumerate() {
            if task.reservation.is_some() || !realtime(&task.policy) {
                continue;
            }
            let thread = self.threads[place].as_ref().ok()?;
            let Service::Fixed { cpus, is_pinned, .. } = thread.service else { continue };
            if !cpus.contains(cpu) {
                continue;
            }
            let response = solved.responses.get(&(place, Some(cpu))).filter(|_| is_pinned)?.as_ref().ok()?;
            let inside = wide(window.saturating_add(response.from_event));
            let streams = self.streams(thread, &solved.inputs).ok()?;
            let jobs: i128 = streams.iter().map(|stream| stream.most(inside)).sum();
            most += jobs * wide(thread.work) * i128::from(thread.count);
        }
        Some(most)
    }

    /// The CPUs on which a stage has a fixed priority.
    fn cpus(&self) -> Vec<CpuId> {
        let of = |thread: &Thread<'_>| match &thread.service {
            Service::Fixed { cpus, is_pinned: true, .. } => cpus.iter().collect(),
            _ => Vec::new(),
        };
        let mut all: Vec<CpuId> = self.threads.iter().flatten().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Why the kernel may stop the realtime threads of a CPU; `None`: it does not.
    fn throttled(&self, solved: &Solved, cpu: CpuId) -> Option<String> {
        let limit = self.ground.platform.realtime_limit?;
        match self.above_fair(solved, cpu, limit.period) {
            Some(most) if most <= wide(limit.runtime) => None,
            Some(most) => Some(format!(
                "realtime threads may take {} of {}, of which the kernel leaves them {}: it would stop them all",
                narrow(most),
                limit.period,
                limit.runtime
            )),
            None => Some(
                "nothing bounds how much realtime threads take, and the kernel stops them at a limit"
                    .to_owned(),
            ),
        }
    }
}

/// How jitter goes from stage to stage, and what a chain's stages add up to.
impl Solver<'_> {
    /// What stages hand on.
    fn handed_on(
        &self,
        inputs: &[Vec<Result<EventStream, String>>],
        responses: &BTreeMap<(usize, Option<CpuId>), Result<Longest, String>>,
    ) -> Vec<Vec<Result<EventStream, String>>> {
        let mut next = inputs.to_vec();
        for (chain, stages) in next.iter_mut().enumerate() {
            // What has no bound has none any more, for the reason found first.
            for stage in (1..stages.len()).filter(|stage| inputs[chain][*stage].is_ok()) {
                stages[stage] = self.behind(chain, stage - 1, &inputs[chain][stage - 1], responses);
            }
        }
        next
    }

    /// What a stage hands on.
    fn behind(
        &self,
        chain: usize,
        stage: usize,
        input: &Result<EventStream, String>,
        responses: &BTreeMap<(usize, Option<CpuId>), Result<Longest, String>>,
    ) -> Result<EventStream, String> {
        let (place, task) = self.stage(chain, stage);
        let named = |why: String| format!("`{}` has no bound: {why}", task.name);
        let thread = self.threads[place].as_ref().map_err(|why| named(why.clone()))?;
        let response = self.response(place, thread, responses).map_err(named)?;
        match &thread.releases {
            Releases::Deliveries(_) => Ok(input.clone()?.behind(thread.least, response.from_event)),
            Releases::Grid { stream, .. } => {
                let planned = EventStream { jitter: Nanos::ZERO, ..*stream };
                Ok(planned.behind(thread.least, response.from_plan))
            }
            Releases::Gap(_) => Err(named(NO_GRID.to_owned())),
        }
    }

    /// The response of a stage.
    fn response(
        &self,
        place: usize,
        thread: &Thread<'_>,
        responses: &BTreeMap<(usize, Option<CpuId>), Result<Longest, String>>,
    ) -> Result<Longest, String> {
        let cpu = match &thread.service {
            Service::Reserved(_) => None,
            Service::Fixed { is_pinned: false, .. } => {
                return Err("it may run on several CPUs; pin it with `cpus`".to_owned());
            }
            Service::Fixed { cpus, .. } => cpus.lowest(),
        };
        responses.get(&(place, cpu)).cloned().unwrap_or_else(|| Err("it has no response".to_owned()))
    }

    /// The bound of a chain.
    fn bound(&self, chain: usize, solved: &Solved) -> Result<ChainBound, String> {
        let through = &self.ground.workload.chains[chain].through;
        events_of(&self.ground.workload.chains[chain])?;
        let mut stages = Vec::new();
        for (stage, name) in through.iter().enumerate() {
            let found = self.stage_bound(chain, stage, solved);
            stages.push(found.map_err(|why| format!("stage `{name}`: {why}"))?);
        }
        let limit = stages.iter().fold(Nanos::ZERO, |sum, stage| sum.saturating_add(stage.delay));
        Ok(ChainBound { limit, stages })
    }

    fn stage_bound(&self, chain: usize, stage: usize, solved: &Solved) -> Result<StageBound, String> {
        let (place, task) = self.stage(chain, stage);
        let thread = self.threads[place].as_ref().map_err(Clone::clone)?;
        let response = self.response(place, thread, &solved.responses)?;
        let (delay, step) = match &thread.releases {
            Releases::Deliveries(_) => {
                let input = solved.inputs[chain][stage].clone()?;
                let delay = response.from_event;
                let how = match thread.service {
                    Service::Reserved(_) => "the supply of its reservation",
                    Service::Fixed { .. } => "response times of fixed priorities",
                };
                (delay, format!("{delay} by {how}, {} and {} of jitter", input.period, input.jitter))
            }
            Releases::Grid { stream, late, .. }
                if *late == Late::Skip && response.from_plan >= stream.period =>
            {
                return Err(format!(
                    "its jobs may take {} of their period of {}, and it gives up releases that pass",
                    response.from_plan, stream.period
                ));
            }
            Releases::Grid { stream, start, .. } => {
                let (wait, answer) = (stream.period.max(*start), response.from_plan);
                (wait.saturating_add(answer), format!("{wait} until it samples, {answer} until it is done"))
            }
            Releases::Gap(_) => return Err(NO_GRID.to_owned()),
        };
        Ok(StageBound { task: task.name.clone(), delay, step })
    }
}

/// Why a sampling stage has no bound.
const NO_GRID: &str = "its gap says how far apart its jobs come at least, not at most; give it a `period`";

#[cfg(test)]
mod tests;
