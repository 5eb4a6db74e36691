//! [`AnalysisWorld`]: the world in which nothing runs and everything said is proven.
//!
//! It bounds response times of tasks whose work is known and that run under a reservation, the share of
//! tasks under a reservation, and the responses of chains. About everything else it says that it cannot see it, and why.

use surety_model::platform::Platform;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::record::{
    ActivityRecord, Basis, Distribution, Evidence, InForce, Promised, Record, ThreadInForce,
};
use surety_model::reservation::Reservation;
use surety_model::workload::{
    Activity, ActivityKind, Instances, Late, LoadRow, Sleep, Task, Workload, unanalysed_group,
};
use surety_model::world::{
    Observer, RunOptions, World, WorldError, chosen_cpus, refused_kinds, refused_loads,
};
use surety_units::{CpuSet, Nanos};

use crate::admission::AdmissionError;
use crate::beside::{check_cpus, realtime, reserved_thread, served};
use crate::cbs::in_order;
use crate::chains::{self, ChainBound, Ground};
use crate::edf::ReservedThread;
use crate::foundation::{Foundation, lent_reservation};
use crate::guaranteed::Guaranteed;
use crate::overheads;
use crate::response::{Response, ResponseBound, ServedTask, aperiodic};
use crate::serving::with_streams;
use crate::supply::Supply;
use crate::work::declared_bound;

/// The fractions for which limits of response times are given.
const FRACTIONS: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// Theory for one machine.
#[derive(Clone, Debug)]
pub struct AnalysisWorld {
    platform: Platform,
}

impl AnalysisWorld {
    /// Theory for this machine.
    pub fn new(platform: Platform) -> AnalysisWorld {
        AnalysisWorld { platform }
    }

    /// What of a workload on these CPUs ends every proof.
    fn unproven(&self, workload: &Workload, cpus: CpuSet) -> Option<String> {
        if workload.is_reserved() && cpus.len() < self.platform.cpus as usize {
            let (affinity, span) = (Box::new(cpus), Box::new(CpuSet::first(self.platform.cpus)));
            return Some(AdmissionError::Affinity { affinity, span }.to_string());
        }
        if let Some(lent) = lent_reservation(workload, |task| task.reservation.is_some()) {
            return Some(lent);
        }
        if let Some(irq) = workload.irqs.iter().find(|irq| irq.reservation.is_some()) {
            return Some(format!("the demand of the reserved interrupt thread {} is not analysed", irq.name));
        }
        interrupts(workload)
    }
}

/// Refuses loads whose work is done in interrupts: that runs before every thread, reserved or not, and the supply of a
/// reservation does not count it. Threads and processes of the loads are below every reservation.
fn objections(workload: &Workload, platform: &Platform) -> Vec<WorldError> {
    let say = |row: &LoadRow, why: &str| format!("a load of kind `{}` {why}", row.word);
    let mut found = refused_kinds("analysis", workload, |_| None);
    found.extend(workload.simulated_policy().map(|path| WorldError::Unsupported {
        world: "analysis".to_owned(),
        object: path,
        why: "its policy has no analysis; try `--on sim`".to_owned(),
    }));
    found.extend(workload.changes_policy().map(|path| WorldError::Unsupported {
        world: "analysis".to_owned(),
        object: path,
        why: "it changes its policy, which has no analysis; try `--on sim`".to_owned(),
    }));
    found.extend(unanalysed_group(workload).map(|(object, why)| WorldError::Unsupported {
        world: "analysis".to_owned(),
        object,
        why: why.to_owned(),
    }));
    let lacking = workload.lacking_on(platform).into_iter();
    found.extend(lacking.map(|(object, why)| WorldError::Unsupported {
        world: "analysis".to_owned(),
        object,
        why,
    }));
    // Of streams something can be said beside them.
    if !workload.streams.iter().any(|stream| !stream.promises.is_empty()) {
        found.extend(refused_loads("analysis", workload, |row| row.analysis, say));
    }
    found
}

/// What is refused of a machine whose timers wait for ticks.
fn late_timers(platform: &Platform) -> Option<WorldError> {
    platform.has_late_timers().then(|| WorldError::Unsupported {
        world: "analysis".to_owned(),
        object: "--platform".to_owned(),
        why: "timers that wait for ticks (`hrtimers=off`) have no analysis; try `--on sim`".to_owned(),
    })
}

/// What of a workload runs in interrupts and is not charged to the supply of reservations, so that nothing is proven beside it.
fn interrupts(workload: &Workload) -> Option<String> {
    let hard = workload.irqs.iter().find(|irq| irq.hard.is_some_and(Nanos::is_positive)).map(|irq| {
        let name = ActivityKind::Irq.path(&irq.name);
        format!(
            "{name} has a hard handler, which runs before every thread and is not analysed; see `surety plan`"
        )
    });
    hard.or_else(|| {
        let activities = workload.activities();
        activities.iter().find_map(|a| Some(format!("{} {}", a.kind.path(a.name), a.kind.row().analysis?)))
    })
}

impl World for AnalysisWorld {
    fn name(&self) -> String {
        "analysis".to_owned()
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        objections(workload, &self.platform)
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        if let Some(objection) =
            objections(workload, &self.platform).into_iter().chain(late_timers(&self.platform)).next()
        {
            return Err(objection);
        }
        let mut platform = self.platform.clone();
        let cpus = chosen_cpus(&platform, options)?;
        check_cpus(workload, cpus, CpuSet::first(platform.cpus))?;
        platform.cpus = u32::try_from(cpus.len()).expect("a CPU set holds at most 1024");
        let mut tasks: Vec<TaskView<'_>> =
            workload.tasks.iter().map(|t| TaskView::of(t, workload, &platform)).collect();
        let threads: Vec<ReservedThread> =
            tasks.iter().flat_map(|t| t.threads(workload, &platform)).collect();
        platform = overheads::with_busy(&platform);
        let realtime = realtime(workload, &platform, |task| task.reservation.is_none());
        platform.realtime = with_streams(realtime, workload, &platform, |stream| stream.batch.is_some());
        let foundation = Foundation::of(&threads, &platform);
        let objection = foundation.objection().or_else(|| self.unproven(workload, cpus));
        let bare = Platform { enforcement: self.platform.enforcement, ..platform.clone() };
        // Streams wait for reserved threads of interrupts, too.
        let irqs = workload.irqs.iter().filter_map(|irq| irq.reservation);
        let irqs = irqs.map(|reservation| ReservedThread { reservation, bounded: false, sleeps: true });
        let before_streams: Vec<ReservedThread> = threads.iter().copied().chain(irqs).collect();
        let guaranteed = Guaranteed::of(workload, &before_streams, (&bare, &options.files));

        for view in &mut tasks {
            let supply = |r| Supply::new(r, platform.enforcement, foundation.edf.alone);
            view.supply = view.task.reservation.map(supply);
        }
        let mut record = Record {
            world: self.name(),
            reserved: workload.is_reserved(),
            seed: Some(options.seed),
            duration: Some(options.duration),
            in_force: in_force(workload, &self.platform, cpus),
            degraded: Vec::new(),
            activities: Vec::new(),
            trace: None,
            hash: None,
        };
        let total = i64::try_from(tasks.len()).unwrap_or(i64::MAX);
        for (done, view) in tasks.iter().enumerate() {
            if options.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            record.activities.push(view.record(objection.as_deref()));
            observer.progress(Nanos::new(i64::try_from(done + 1).unwrap_or(total)), Nanos::new(total));
        }
        let alone = foundation.edf.alone;
        let ground = Ground {
            workload,
            platform: &platform,
            cpus,
            reserved: &threads,
            alone,
            cancel: &options.cancel,
        };
        let chains = chains::bounds(&ground, objection.as_deref())?;
        record.activities.extend(beside_tasks(workload, &guaranteed, &chains));
        Ok(record)
    }
}

/// The records of what is no task: of streams that are guaranteed something is known, and of chains that have a bound.
fn beside_tasks(
    workload: &Workload,
    guaranteed: &Guaranteed,
    bounds: &[Result<ChainBound, String>],
) -> Vec<ActivityRecord> {
    let one = |activity: Activity<'_>| {
        let mut chains = workload.chains.iter().zip(bounds);
        if activity.kind == ActivityKind::Chain
            && let Some((chain, bound)) = chains.find(|(chain, _)| chain.name == activity.name)
        {
            return chains::record(chain, bound);
        }
        let stream = workload.streams.iter().find(|stream| stream.name == activity.name);
        if let (ActivityKind::Stream, Some(stream)) = (activity.kind, stream) {
            return guaranteed.record(stream);
        }
        let mut unbounded = ActivityRecord::new(activity.name, activity.kind, Basis::Bound);
        let why = format!("no bound for {} in this version", activity.kind.row().noun);
        unbounded.promised = Promised::not_observable(activity.promises, &why);
        unbounded
    };
    workload.activities().into_iter().filter(|a| a.kind != ActivityKind::Task).map(one).collect()
}

fn in_force(workload: &Workload, platform: &Platform, cpus: CpuSet) -> InForce {
    let threads = workload
        .tasks
        .iter()
        .map(|task| ThreadInForce {
            activity: task.name.clone(),
            tid: None,
            policy: match task.reservation {
                Some(r) => format!(
                    "deadline {}/{}/{}",
                    r.runtime.to_exact_string(),
                    r.deadline.to_exact_string(),
                    r.period.to_exact_string()
                ),
                None => task.policy.to_string(),
            },
            affinity: cpus,
            as_requested: true,
        })
        .collect();
    InForce {
        kernel: platform.name.clone(),
        cpus,
        machine: Some(platform.clone()),
        threads,
        ..InForce::default()
    }
}

/// A task with what the theory needs of it.
struct TaskView<'a> {
    task: &'a Task,
    served: Option<ServedTask>,
    supply: Option<Supply>,
    /// What the kernel's own work may take of each of its budgets.
    costs: Nanos,
}

impl<'a> TaskView<'a> {
    fn of(task: &'a Task, workload: &Workload, platform: &Platform) -> TaskView<'a> {
        let served = task.reservation.and_then(|r| served(task, r, workload, platform));
        let costs = task.reservation.map(|r| overheads::of_budget(task, r, workload, platform));
        TaskView { task, served, supply: None, costs: costs.unwrap_or_default() }
    }

    fn threads(&self, workload: &Workload, platform: &Platform) -> Vec<ReservedThread> {
        let Some(thread) = reserved_thread(self.task, workload, platform) else { return Vec::new() };
        vec![thread; self.task.instances.on(platform.cpus) as usize]
    }

    fn record(&self, objection: Option<&str>) -> ActivityRecord {
        let mut record = ActivityRecord::new(&self.task.name, ActivityKind::Task, Basis::Bound);
        record.deadline = self.task.relative_deadline();
        let promises = &self.task.promises;
        let Some(reservation) = self.task.reservation else {
            let why = "no bound for tasks without a reservation";
            record.promised = Promised::not_observable(promises, why);
            return record;
        };
        let objection = objection.map(str::to_owned).or_else(|| {
            (matches!(self.task.instances, Instances::PerCpu(_)))
                .then(|| "the kernel refuses reservations of threads pinned to one CPU (EPERM)".to_owned())
        });
        if let Some(objection) = objection {
            record.promised = Promised::not_observable(promises, &format!("no proof: {objection}"));
            return record;
        }
        let response = match self.served.clone() {
            None if self.costs >= reservation.runtime => {
                Err(format!("the kernel's own work may take {} of each budget, all of it", self.costs))
            }
            None => Err("its work or its releases are not known".to_owned()),
            Some(served) => served.solve().map_err(|error| error.to_string()),
        };
        if let Ok(response) = &response {
            let limits: Vec<(f64, Nanos)> =
                FRACTIONS.iter().filter_map(|p| response.limit(*p).map(|limit| (*p, limit))).collect();
            record.response = (!limits.is_empty()).then_some(Distribution::Limits(limits));
        }
        record.longest_gap = self.supply.map(|supply| supply.blackout());
        record.promised =
            Promised::all(promises, |p| self.evidence(p, reservation, &response, record.deadline));
        record
    }

    /// The larger of two fractions: for releases as close as the gap allows, and for distances drawn as `spacing` says.
    fn bound(
        &self,
        reservation: Reservation,
        response: &Result<Response, String>,
        limit: Nanos,
    ) -> Result<ResponseBound, String> {
        let by_gap = response.as_ref().map(|response| response.within(limit)).map_err(Clone::clone);
        match self.by_spacing(reservation, limit) {
            Some(spaced) if by_gap.as_ref().map_or(0.0, |bound| bound.probability) < spaced.probability => {
                Ok(spaced)
            }
            _ => by_gap,
        }
    }

    /// The fraction for drawn distances: of a task that queues, and whose jobs are known in no order.
    fn by_spacing(&self, reservation: Reservation, limit: Nanos) -> Option<ResponseBound> {
        let (distance, served) = (self.task.spacing.as_ref()?, self.served.as_ref()?);
        let is_drawn = in_order::jobs_of(&served.work).is_none() && served.modes.is_none();
        let is_queued = self.task.late == Late::Queue && self.task.sleep == Sleep::Absolute;
        let distances_are_drawn = in_order::jobs_of(distance).is_none();
        if !(is_drawn && is_queued && distances_are_drawn) {
            return None;
        }
        aperiodic(&served.work, (distance, served.gap), reservation, limit).ok()
    }

    fn evidence(
        &self,
        promise: &Promise,
        reservation: Reservation,
        response: &Result<Response, String>,
        deadline: Option<Nanos>,
    ) -> Evidence {
        let unseen = |because: String| Evidence::NotObservable { because };
        let below = |limit: Nanos| {
            if promise.comparison == Comparison::Below { limit - Nanos::new(1) } else { limit }
        };
        let limit = match (promise.metric, promise.bound) {
            (Metric::Response, _) if promise.over.is_none() => promise.response_limit().map(below),
            (Metric::Missed | Metric::Late, Bound::Count(0)) if promise.comparison != Comparison::Below => {
                deadline
            }
            (Metric::Share, Bound::Share(share)) => {
                let at_least = matches!(promise.comparison, Comparison::AtLeast | Comparison::Above);
                let strict = promise.comparison == Comparison::Above;
                let enough = match (promise.over, self.supply) {
                    (Some(window), Some(supply)) => {
                        let (given, owed) = (supply.guaranteed(window), share.of_span(window));
                        given > owed || (given == owed && !strict)
                    }
                    (Some(_), None) => false,
                    (None, _) => {
                        let bandwidth = reservation.bandwidth();
                        bandwidth > share || (bandwidth == share && !strict)
                    }
                };
                let span = promise.over.map_or("in the long run".to_owned(), |w| format!("in every {w}"));
                let because = format!(
                    "{} in every {} for a thread that wants it, {span}",
                    reservation.runtime, reservation.period
                );
                return if at_least && enough {
                    Evidence::Proven { at_least: 1.0, because }
                } else {
                    unseen(format!("{because}, does not prove {promise}"))
                };
            }
            _ => None,
        };
        match (limit, response) {
            (None, _) => unseen(format!("no bound for `{promise}` in this version")),
            (Some(limit), response) => {
                let bound = match self.bound(reservation, response, limit) {
                    Ok(bound) => bound,
                    Err(why) => return unseen(format!("no bound: {why}")),
                };
                let promised = promise.at.map_or(1.0, |p| p.as_f64());
                let is_seen = self.served.as_ref().is_some_and(|task| declared_bound(&task.work).is_none());
                if promised >= 1.0 && bound.probability >= 1.0 && is_seen {
                    return unseen(format!(
                        "{}: no bound: its work is a list of values seen, and the largest of them bounds no other job; \
                         declare bounded work, or promise a percentage",
                        bound.theorem
                    ));
                }
                if promise.at.is_none() && bound.probability < promised {
                    let because =
                        format!("{}: not every activation is provably within {limit}", bound.theorem);
                    return Evidence::Proven { at_least: bound.probability, because };
                }
                Evidence::Proven { at_least: bound.probability, because: bound.theorem.to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::platform::{OtherReservation, Overheads};
    use surety_model::verdict::{Outcome, judge};
    use surety_model::workload::{Load, LoadKind, PolicySpec};
    use surety_model::world::Unobserved;

    fn player(reservation: Option<Reservation>, promises: &[&str]) -> Task {
        let ms = Nanos::from_millis;
        let mut task =
            Task::periodic("player", ms(40), TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) });
        task.reservation = reservation;
        task.promises = promises.iter().map(|p| Promise::parse(p).unwrap()).collect();
        task
    }

    fn analysed(task: Task) -> ActivityRecord {
        let workload = Workload {
            tasks: vec![task],
            loads: vec![Load::new("spin", LoadKind::Spinners, 4)],
            ..Workload::default()
        };
        let world = AnalysisWorld::new(Platform::linux_6_18(2));
        let record = world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap();
        assert_eq!(record.activities.len(), 2);
        record.activities[0].clone()
    }

    /// A kernel that lacks what a workload asks for runs none of it, so nothing is proven there.
    #[test]
    fn what_the_kernel_lacks_is_refused() {
        let ms = Nanos::from_millis;
        let task = player(Some(Reservation::implicit(ms(27), ms(40))), &["response <= 40ms @ 99%"]);
        let workload = Workload { tasks: vec![task], ..Workload::default() };
        let world = AnalysisWorld::new(Platform::linux_2_6_23(2));
        let refused = world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap_err();
        assert!(refused.to_string().contains("no SCHED_DEADLINE: leave `reservation` out"), "{refused}");
        assert_eq!(world.objections(&workload).len(), 1);
        assert!(AnalysisWorld::new(Platform::linux_6_1(2)).objections(&workload).is_empty());
    }

    #[test]
    fn promises_are_proven_left_open_or_not_seen() {
        let ms = Nanos::from_millis;
        let task = player(
            Some(Reservation::implicit(ms(27), ms(40))),
            &[
                "response <= 40ms @ 99%",
                "response <= 40ms @ 99.999%",
                "response <= 40ms",
                "response <= 39ms @ 50%",
                "share >= 65%",
                "share >= 65% over 80ms",
                "latency <= 1ms @ 50%",
            ],
        );
        let record = analysed(task.clone());
        let outcomes: Vec<Outcome> = judge(&record).into_iter().map(|v| v.outcome).collect();
        use Outcome::{Kept, NotObservable, Undecided};
        assert_eq!(outcomes, [Kept, Undecided, Undecided, Undecided, Kept, NotObservable, NotObservable]);
        let limits = record.response.unwrap();
        assert_eq!(limits.quantile(0.99), Some(ms(40)));
        assert_eq!(limits.quantile(1.0), None, "log-normal work has no limit");
        assert_eq!(record.basis, Basis::Bound);
    }

    /// A cost takes of what is proven, and the more the larger it is; one that takes the whole budget ends the proof.
    #[test]
    fn overheads_never_make_a_bound_better() {
        let ms = Nanos::from_millis;
        let task = player(
            Some(Reservation::implicit(ms(9), ms(20))),
            &["response <= 60ms @ 99%", "response <= 42ms @ 50%"],
        );
        let other = Task::periodic("other", ms(1), TimeDistribution::Constant(Nanos::from_micros(10)));
        let workload = Workload { tasks: vec![task, other], ..Workload::default() };
        let proven = |cost: i64, which: usize| {
            let us = |place: usize| Nanos::from_micros(if which == place || which == 5 { cost } else { 0 });
            let overheads =
                Overheads { switch: us(0), wakeup: us(1), sleep: us(2), tick: us(3), timer: us(4) };
            let world = AnalysisWorld::new(Platform { overheads, ..Platform::linux_6_18(2) });
            let record = world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap();
            let limits: Vec<Nanos> = FRACTIONS
                .iter()
                .map(|p| {
                    record.activities[0].response.as_ref().and_then(|r| r.quantile(*p)).unwrap_or(Nanos::MAX)
                })
                .collect();
            let fractions: Vec<f64> = record.activities[0]
                .promised
                .iter()
                .map(|promised| match &promised.evidence {
                    Evidence::Proven { at_least, .. } => *at_least,
                    _ => 0.0,
                })
                .collect();
            (limits, fractions)
        };
        for which in 0..=5 {
            let mut before = proven(0, which);
            for cost in [1, 10, 50, 200, 800] {
                let now = proven(cost, which);
                assert!(now.0.iter().zip(&before.0).all(|(now, before)| now >= before), "{which} {cost}");
                assert!(now.1.iter().zip(&before.1).all(|(now, before)| now <= before), "{which} {cost}");
                before = now;
            }
            assert!(which != 5 || before.1 == [0.0, 0.0], "all of it is taken");
        }
    }

    #[test]
    fn a_lent_reservation_ends_every_proof() {
        let text = "format = 1\n[[task]]\nname = \"player\"\nperiod = \"40ms\"\nwork = \"5ms\"\n\
                    promise = \"response <= 40ms\"\nreservation = { runtime = \"20ms\", period = \"40ms\" }\n\
                    [[task]]\nname = \"lender\"\nperiod = \"40ms\"\nreservation = { runtime = \"5ms\", period = \"40ms\" }\n\
                    phases = [{ lock = \"m\" }, { run = \"1ms\" }, { unlock = \"m\" }]\n\
                    [[resource]]\nname = \"m\"\nprotocol = \"PROTOCOL\"\n";
        let world = AnalysisWorld::new(Platform::linux_6_18(2));
        let seen = |protocol: &str| {
            let workload =
                surety_model::formats::toml::read("t", &text.replace("PROTOCOL", protocol)).unwrap();
            world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap().activities[0].promised[0]
                .evidence
                .clone()
        };
        match seen("inherit") {
            Evidence::NotObservable { because } => assert!(because.contains("lender lends"), "{because}"),
            other => panic!("{other:?}"),
        }
        assert!(!matches!(seen("none"), Evidence::NotObservable { .. }), "{:?}", seen("none"));
    }

    #[test]
    fn a_load_whose_work_interrupts_do_is_refused_by_its_kind() {
        let world = AnalysisWorld::new(Platform::linux_6_18(2));
        for (word, kind) in LoadKind::words() {
            let workload = Workload {
                loads: vec![Load::new("l", kind, 1)],
                tasks: vec![player(None, &[])],
                ..Workload::default()
            };
            let refused = world.run(&workload, &RunOptions::default(), &mut Unobserved).err();
            let is_known = ["spinners", "memory-thrash", "messages", "forks", "command"].contains(&word);
            assert_eq!(refused.is_none(), is_known, "{word}");
            assert!(refused.is_none_or(|r| r.to_string().contains(&format!("`{word}`"))), "{word}");
        }
    }

    #[test]
    fn a_realtime_hog_is_counted_and_a_part_of_the_machine_ends_every_proof() {
        let ms = Nanos::from_millis;
        let task = |q| player(Some(Reservation::implicit(ms(q), ms(40))), &["response <= 40ms @ 99%"]);
        let mut hog = Load::new("hog", LoadKind::Spinners, 1);
        hog.policy = PolicySpec::Fifo { priority: 1 };
        let world = AnalysisWorld::new(Platform::linux_6_18(2));
        let seen = |task: Task, loads: Vec<Load>, cpus: Option<CpuSet>| {
            let workload = Workload { tasks: vec![task], loads, ..Workload::default() };
            let options = RunOptions { cpus, ..RunOptions::default() };
            world.run(&workload, &options, &mut Unobserved).unwrap().activities[0].promised[0]
                .evidence
                .clone()
        };
        for (task, loads, cpus, word) in [
            (task(27), Vec::new(), None, ""),
            (task(27), vec![hog.clone()], None, ""),
            (task(36), vec![hog], None, "does not show"),
            (task(27), Vec::new(), Some(CpuSet::first(1)), "EPERM"),
        ] {
            match seen(task, loads, cpus) {
                Evidence::Proven { .. } => assert!(word.is_empty()),
                Evidence::NotObservable { because } => {
                    assert!(!word.is_empty() && because.contains(word), "{because}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_other_processes_have_reserved_counts() {
        let ms = Nanos::from_millis;
        let workload = Workload {
            tasks: vec![player(Some(Reservation::implicit(ms(27), ms(40))), &["response <= 40ms @ 99%"])],
            ..Workload::default()
        };
        let other = OtherReservation::unknown("other".to_owned(), Reservation::implicit(ms(30), ms(100)));
        for (others, proven) in [(Vec::new(), true), (vec![other], false)] {
            let world = AnalysisWorld::new(Platform { others, ..Platform::linux_6_18(1) });
            let record = world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap();
            let found = &record.activities[0].promised[0].evidence;
            assert_eq!(matches!(found, Evidence::Proven { .. }), proven, "{found:?}");
        }
    }

    #[test]
    fn nothing_is_claimed_without_reservation_or_admission() {
        let ms = Nanos::from_millis;
        let mut twins = player(Some(Reservation::implicit(ms(27), ms(40))), &["response <= 40ms @ 99%"]);
        twins.instances = Instances::Count(3);
        for (task, word) in [
            (player(None, &["response <= 40ms @ 99%"]), "without a reservation"),
            (
                player(Some(Reservation::implicit(ms(13), ms(40))), &["response <= 40ms @ 99%"]),
                "larger runtime",
            ),
            (twins, "EBUSY"),
        ] {
            let record = analysed(task);
            assert!(record.response.is_none());
            match &record.promised[0].evidence {
                Evidence::NotObservable { because } => assert!(because.contains(word), "{because}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
