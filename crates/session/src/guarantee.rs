//! The whole loop on this machine: [`Guarantee`].
//!
//! Measure as it is; profile under a generous reservation; fit the work; plan; predict by theory and simulation; enforce and
//! measure again. Each stage is a method that returns what it found; [`Guarantee::walk`] goes through all of them. Where the user may
//! not reserve, all but the last is done.

use std::collections::BTreeMap;
use std::fmt;

use surety_analysis::{AnalysisWorld, foundation};
use surety_fit::{WorkFit, fit_thread};
use surety_host::{Bindings, HostWorld, Scratch};
use surety_kernel::Kernel as _;
use surety_kernel::facts::MachineFacts;
use surety_model::claim::Claim;
use surety_model::event::TraceSink;
use surety_model::plan::{Homes, Left, Plan, Refusal, SimulationEvidence};
use surety_model::platform::Platform;
use surety_model::record::{Evidence, Record};
use surety_model::reservation::Reservation;
use surety_model::verdict::{Outcome, Verdict, decide, judge};
use surety_model::workload::{Task, Workload};
use surety_model::world::{RunOptions, World, WorldError};
use surety_plan::{PlanOptions, plan_in_full, profile_passes};
use surety_sim::SimWorld;
use surety_trace::blame::Around;
use surety_units::{Nanos, Tid};

use crate::context::{Context, Stage};
use crate::division::{self, Division};
use crate::failure::Failure;
use crate::histories::{Histories, Measuring, Seen};
use crate::longest::{self, Longest};
use crate::machine::this_machine;
use crate::modelled::ModelledDisks;
use crate::permission;
use crate::search::within;
use crate::workers::{Learnt, Workers, contradicted};

/// The CPU time of the search for budgets.
const SEARCH: Nanos = Nanos::from_secs(20);
/// How often a program is measured again whose trace lacks CPU time of it.
const RUNS_AGAIN: usize = 2;

/// What a result of the loop is of: a world, without or with the planned reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// This kernel, as it is.
    HostUnreserved,
    /// Theory, reserved.
    Analysis,
    /// The simulator, as it is.
    SimUnreserved,
    /// The simulator, reserved.
    SimReserved,
    /// This kernel, reserved.
    HostReserved,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::HostUnreserved => "host unreserved",
            State::Analysis => "analysis",
            State::SimUnreserved => "sim unreserved",
            State::SimReserved => "sim reserved",
            State::HostReserved => "host reserved",
        })
    }
}

/// How the loop is to be walked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Of every run.
    pub options: RunOptions,
    /// Whether threads may be changed that are not the caller's to change.
    pub force: bool,
    /// The devices of the workload's disks.
    pub bindings: Bindings,
    /// Whether the CPUs around the longest response of each result are kept, to be drawn.
    pub draws: bool,
}

/// What was measured without reservations.
pub struct Measured {
    /// The jobs of every thread.
    seen: Histories,
    /// Promises that cannot be given for several threads of a program.
    refusals: Vec<Refusal>,
}

/// What was learnt of each task, by its name.
pub type Fitted = BTreeMap<String, Learnt>;

/// What the loop comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Of all promises: the worst.
    pub outcome: Outcome,
    /// The last stage that was gone through.
    pub stage: Stage,
}

/// One walk through the loop: what is known so far.
pub struct Guarantee<'a> {
    context: &'a dyn Context,
    request: Request,
    facts: MachineFacts,
    platform: Platform,
    /// As declared, programs divided into the threads that do their work.
    pub workload: Workload,
    /// With fitted tasks in place of programs, for worlds that run none.
    model: Workload,
    /// The results so far; the last is of the state in force.
    pub results: Vec<(State, Record)>,
    /// Of these, the longest response with the CPUs around it and its deadline, where the events of a run are known and
    /// [`Request::draws`] asks for it.
    pub longest: Vec<(State, Around, Option<Nanos>)>,
    /// The plan, once there is one.
    pub plan: Option<Plan>,
    /// What it claims in numbers, and leaves to others.
    pub claims: Option<(Vec<Claim>, Left)>,
    /// What programs were prepared with.
    scratch: Option<Scratch<'a>>,
    /// Whether theory and the simulator can say anything of the workload.
    is_modelled: [bool; 2],
}

impl<'a> Guarantee<'a> {
    /// For a workload, whose reservations of earlier plans are left out.
    ///
    /// # Errors
    /// Nothing is promised of a task or a stream; threads are matched that are not the caller's to change; this kernel cannot run the workload. What
    /// theory or the simulator cannot is noted, and the loop goes without it.
    pub fn new(
        workload: Workload,
        request: Request,
        context: &'a dyn Context,
    ) -> Result<Guarantee<'a>, Failure> {
        let is_promised = workload.tasks.iter().any(|t| !t.promises.is_empty())
            || workload.streams.iter().any(|s| !s.promises.is_empty());
        if !is_promised {
            let what =
                "the workload promises nothing about a task or a stream: there is nothing to guarantee";
            return Err(Failure::request(what, "add `promise = [\"response <= 40ms @ 99%\"]` to a task"));
        }
        if !request.force {
            permission::check_workload(context.kernel(), &workload, |task| !task.promises.is_empty())?;
        }
        let (facts, platform) = this_machine(context.kernel());
        let workload = workload.without_planned_reservations();
        let host = HostWorld::new(context.kernel(), context.journal());
        if let Some(objection) = host.objections(&workload.unreserved()).into_iter().next() {
            return Err(objection.into());
        }
        let models: [&dyn World; 2] =
            [&AnalysisWorld::new(platform.clone()), &SimWorld::new(platform.clone())];
        // Programs are in a model what is learnt of them.
        let is_program =
            |error: &WorldError| error.object().is_some_and(|object| object.starts_with("task."));
        let is_modelled = models.map(|world| {
            let objection = world.objections(&workload).into_iter().find(|error| !is_program(error));
            objection.iter().for_each(|why| context.note(&format!("left out: {why}")));
            objection.is_none()
        });
        Ok(Guarantee {
            context,
            request,
            facts,
            platform,
            model: workload.clone(),
            workload,
            results: Vec::new(),
            longest: Vec::new(),
            plan: None,
            claims: None,
            scratch: None,
            is_modelled,
        })
    }

    /// Every stage, as far as this user and the plan allow.
    ///
    /// # Errors
    /// What ends it early; [`Guarantee::results`] holds what is finished.
    pub fn walk(&mut self) -> Result<Conclusion, Failure> {
        let measured = self.measure()?;
        let fitted = self.profile(&measured)?;
        let refused = self.plan(measured, &fitted)?;
        let plan = self.plan_made()?;
        if plan.is_empty() && !plan.refusals.is_empty() {
            self.predict_unreserved();
            // The verdict is of the last result: of what was measured, not of what was only simulated.
            self.results.sort_by_key(|(state, _)| *state == State::HostUnreserved);
            return Ok(Conclusion { outcome: refused, stage: Stage::Planning });
        }
        self.predict()?;
        if !self.may_reserve() {
            let outcome = worse(self.outcome_by_simulation(), refused);
            return Ok(Conclusion { outcome, stage: Stage::Predicting });
        }
        let verdicts = self.enforce()?;
        Ok(Conclusion { outcome: worse(self.with_proofs(&verdicts), refused), stage: Stage::Enforcing })
    }

    /// Whether this user may reserve CPU time.
    pub fn may_reserve(&self) -> bool {
        self.facts.privileges.sys_nice
    }

    /// Learns the work of every task with a promise: from runs under generous reservations where this user may reserve, else from the
    /// run as it is.
    ///
    /// # Errors
    /// What ends a run.
    pub fn profile(&mut self, measured: &Measured) -> Result<Fitted, Failure> {
        let asked = self.asked(&measured.refusals);
        let fitted = if asked.tasks.iter().all(|task| task.promises.is_empty()) {
            self.note_rights();
            Fitted::new()
        } else if self.may_reserve() {
            self.context.stage(Stage::Profiling);
            self.profile_reserved(&asked)?
        } else {
            self.note_rights();
            let all: Vec<String> = asked.tasks.iter().map(|t| t.name.clone()).collect();
            let (_, record) = self.results.last().expect("a run was measured");
            self.fit(&asked, &all, (record, &Workers::of(&self.workload, record)), &measured.seen)
        };
        self.take_over(&fitted);
        Ok(fitted)
    }

    fn note_rights(&self) {
        if !self.may_reserve() {
            self.context.note(
                "this user may not reserve CPU time, so work is fitted from the run above and the promise can only be \
                 kept in simulation; run as root or with CAP_SYS_NICE to enforce it",
            );
        }
    }

    /// Plans every promise that was not refused before; what can be planned is kept in the plan beside what is refused.
    ///
    /// Returns what the refusals come to: what a longer run may decide is undecided, all else broken.
    ///
    /// # Errors
    /// An interruption.
    pub fn plan(&mut self, measured: Measured, fitted: &Fitted) -> Result<Outcome, Failure> {
        let asked = self.asked(&measured.refusals);
        let mut refusals = measured.refusals;
        let works: BTreeMap<String, WorkFit> =
            fitted.iter().filter_map(|(n, f)| Some((n.clone(), f.fit.as_ref()?.work.clone()))).collect();
        self.context.stage(Stage::Planning);
        let used = |whole: &Task| {
            self.workload.threads_of(&whole.name).filter_map(|t| fitted.get(&t.name)).map(Learnt::used).sum()
        };
        refusals.extend(division::gather(&self.workload, contradicted(&asked, fitted), used));
        let workload = division::without_refused(&self.model, &self.workload, &refusals);
        let options = self.plan_options();
        let limit = options.search.clone();
        let planned = within(self.context, Some((SEARCH, &limit)), move || {
            plan_in_full(&workload, &works, &options, false)
        })?;
        let mut plan = planned.plan;
        plan.refusals.extend(refusals);
        self.claims = Some((planned.claims, planned.left));
        let outcome = of_refusals(&plan.refusals);
        self.plan = Some(plan);
        Ok(outcome)
    }

    /// The reserved workload on this kernel, with every promise held against it.
    ///
    /// # Errors
    /// The plan takes too much of the CPUs for threads that were running before; what ends the run.
    pub fn enforce(&mut self) -> Result<Vec<Verdict>, Failure> {
        let plan = self.plan_made()?;
        if !self.request.force {
            permission::check_plan(plan, &self.workload, self.platform.cpus)?;
        }
        let online = self.context.kernel().online_cpus()?.len();
        permission::check_disks(plan, &self.facts.scheduler, online)?;
        let reserved = plan.apply_to(&self.workload);
        self.context.stage(Stage::Enforcing);
        let (record, mut seen) = self.run_here(&State::HostReserved.to_string(), &reserved)?;
        self.draw(State::HostReserved, seen.around.take());
        Ok(self.keep(State::HostReserved, record))
    }

    /// What is planned: threads in place of their programs, without what is refused already.
    fn asked(&self, refusals: &[Refusal]) -> Workload {
        let asked = division::without_wholes(&self.workload);
        division::without_refused(&asked, &self.workload, refusals)
    }

    fn plan_made(&self) -> Result<&Plan, Failure> {
        let missing = || Failure::request("there is no plan yet", "call `plan` first");
        self.plan.as_ref().ok_or_else(missing)
    }

    /// Measures without reservations, and learns which threads of each program do its work, where the workload does not say.
    /// Where several do, each is measured as a task of its own. What cannot be promised of several threads is refused.
    ///
    /// # Errors
    /// What ends a run.
    pub fn measure(&mut self) -> Result<Measured, Failure> {
        let context = self.context;
        let cancel = &self.request.options.cancel;
        self.scratch = Scratch::prepare(&self.workload, context.kernel(), context.journal(), cancel)?;
        let label = State::HostUnreserved.to_string();
        let mut runs = 0;
        let (mut record, mut seen) = loop {
            context.stage(Stage::Measuring);
            let run = self.run_here(&label, &self.workload.unreserved())?;
            runs += 1;
            if runs > RUNS_AGAIN || !division::lacks_events(&self.workload, &run.0) {
                break run;
            }
        };
        let Division { is_divided, mut refusals } = division::divide(&mut self.workload, &record);
        self.model = division::without_wholes(&self.workload);
        if is_divided {
            context.stage(Stage::MeasuringThreads);
            (record, seen) = self.run_here(&label, &self.workload.unreserved())?;
        }
        refusals.extend(division::too_much(&self.workload, &record, &self.platform));
        // Plan, theory and simulator count what the kernel's own work took in this very run.
        if let Some(machine) = &record.in_force.machine {
            self.platform.overheads = machine.overheads;
            self.platform.disk_driver = machine.disk_driver;
            self.platform.memory = machine.memory;
        }
        self.draw(State::HostUnreserved, seen.around.take());
        self.keep(State::HostUnreserved, record);
        Ok(Measured { seen, refusals })
    }

    /// Runs a workload on this kernel, with the jobs its trace shows.
    fn run_here(&self, label: &str, workload: &Workload) -> Result<(Record, Histories), Failure> {
        let mut seen = if self.request.draws { Seen::with_longest(workload) } else { Seen::default() };
        let world = HostWorld::new(self.context.kernel(), self.context.journal())
            .prepared(self.scratch.as_ref())
            .at_home(self.homes(workload))
            .bound(&self.request.bindings)
            .emulating(&ModelledDisks::HOST);
        let record = {
            let mut watch = self.context.watch(label, None);
            let mut measuring = Measuring { watch: &mut *watch, seen: &mut seen };
            world.run(workload, &self.request.options, &mut measuring)?
        };
        Ok((record, seen.histories()))
    }

    /// Where the plan puts reserved threads; those that no plan is about go where they fit.
    fn homes(&self, workload: &Workload) -> Homes {
        let planned = self.plan.as_ref().map(Plan::homes).unwrap_or_default();
        if planned.is_empty() { foundation::homes(workload, &self.platform) } else { planned }
    }

    /// Keeps what is to be drawn of a result.
    fn draw(&mut self, state: State, around: Option<Around>) {
        if let Some(around) = around {
            let deadline = longest::deadline_of(&self.workload, &around);
            self.longest.push((state, around, deadline));
        }
    }

    /// Adds a row, and returns its verdicts.
    fn keep(&mut self, state: State, record: Record) -> Vec<Verdict> {
        let verdicts = self.judge_all(&record);
        self.results.push((state, record));
        verdicts
    }

    /// Every promise held against a record.
    fn judge_all(&self, record: &Record) -> Vec<Verdict> {
        record.activities.iter().flat_map(judge).collect()
    }

    /// Runs the tasks with promises under generous reservations, loads on, and fits their work.
    fn profile_reserved(&self, asked: &Workload) -> Result<Fitted, Failure> {
        let mut fitted = BTreeMap::new();
        for pass in profile_passes(asked, &self.platform) {
            let reserved = reserve(&self.workload, &pass);
            let (record, jobs) = self.run_here("profile", &reserved)?;
            for reason in &record.degraded {
                self.context.note(&format!("profile pass: {reason}"));
            }
            let only: Vec<String> = pass.into_iter().map(|(name, _)| name).collect();
            let found = Workers::of(&reserved, &record);
            for (name, used) in found.changed(&reserved) {
                self.context.note(&format!(
                    "{name}: under the reservation thread {used} did most of the work; say which is the worker with \
                     `worker = {{ comm = \"...\", rank = 0 }}`"
                ));
            }
            fitted.extend(self.fit(&reserved, &only, (&record, &found), &jobs));
        }
        Ok(fitted)
    }

    /// Fits what the trace shows of the tasks `names` with a promise; what cannot be fitted is noted and planned as
    /// declared.
    fn fit(
        &self,
        workload: &Workload,
        names: &[String],
        (record, workers): (&Record, &Workers),
        histories: &Histories,
    ) -> Fitted {
        let tids = threads_of(record);
        let own = |name: &str| tids.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut fitted = BTreeMap::new();
        for task in workload.tasks.iter().filter(|t| !t.promises.is_empty() && names.contains(&t.name)) {
            if !task.body.is_made() {
                let worker = workers.of_task(task);
                let mut learnt = worker.and_then(|worker| worker.learn(task, histories, self.context));
                let program = task.thread_of().and_then(|(of, _)| record.activity(of));
                if let (Some(learnt), Some(program)) = (&mut learnt, program) {
                    learnt.hold_against_wakers(&histories.wakers, own(&task.name), &program.threads);
                }
                fitted.extend(learnt.map(|learnt| (task.name.clone(), learnt)));
                continue;
            }
            let Some(history) = own(&task.name).iter().find_map(|tid| histories.of(*tid)) else {
                self.context.note(&format!("{}: no trace of it; planned as declared", task.name));
                continue;
            };
            match fit_thread(history, Some(task)) {
                Ok(fit) => {
                    for note in &fit.notes {
                        self.context.note(&format!("{}: {note}", task.name));
                    }
                    fitted.insert(task.name.clone(), Learnt::made(fit));
                }
                Err(error) => self.context.note(&format!("{}: {error}", task.name)),
            }
        }
        fitted
    }

    /// Puts fitted releases and works where the workload declares none: programs become tasks the other worlds can run.
    fn take_over(&mut self, fitted: &Fitted) {
        for task in &mut self.model.tasks {
            let Some(learnt) = fitted.get(&task.name) else { continue };
            if task.release.interval().is_none() || !task.body.is_made() {
                task.release = learnt.release;
            }
            if let (Some(fit), false) = (&learnt.fit, task.body.is_made()) {
                task.body = fit.task.body.clone();
            }
        }
        // What is measured from here on is held against the releases that the plan assumes.
        for task in self.workload.tasks.iter_mut().filter(|task| !task.body.is_made()) {
            if let Some(learnt) = fitted.get(&task.name) {
                task.release = learnt.release;
            }
        }
    }

    fn plan_options(&self) -> PlanOptions {
        let mut options = PlanOptions::new(self.platform.clone());
        // What programs do was learnt from a few jobs.
        let programs = self.workload.tasks.iter().filter(|task| !task.body.is_made());
        options.fitted = programs.map(|task| task.name.clone()).collect();
        options.files = self.request.options.files.clone();
        options.verified_by(&self.model, self.request.options.duration)
    }

    /// What the simulator says of the workload as it is; what it cannot run is noted.
    fn predict_unreserved(&mut self) {
        if !self.is_modelled[1] {
            return;
        }
        match self.simulate(State::SimUnreserved, &self.model.unreserved()) {
            Ok(record) => drop(self.keep(State::SimUnreserved, record)),
            Err(error) => self.context.note(&format!("not simulated: {error}")),
        }
    }

    fn simulate(&mut self, state: State, workload: &Workload) -> Result<Record, WorldError> {
        let mut longest = if self.request.draws { Longest::of(workload) } else { None };
        let record = {
            let sink = longest.as_mut().map(|longest| longest as &mut dyn TraceSink);
            let mut watch = self.context.watch(&state.to_string(), sink);
            SimWorld::new(self.platform.clone()).run(workload, &self.request.options, &mut *watch)?
        };
        self.draw(state, longest.and_then(Longest::finish));
        Ok(record)
    }

    /// Analysis and both simulations; the reserved one joins every proof as evidence.
    ///
    /// # Errors
    /// An interruption.
    pub fn predict(&mut self) -> Result<(), Failure> {
        let reserved = self.plan_made()?.apply_to(&self.model);
        self.context.stage(Stage::Predicting);
        self.analyse(&reserved);
        self.predict_unreserved();
        if self.request.options.cancel.is_cancelled() {
            return Err(WorldError::Interrupted.into());
        }
        if !self.is_modelled[1] {
            return Ok(());
        }
        match self.simulate(State::SimReserved, &reserved) {
            Ok(record) => {
                let evidence = |activity: &str| {
                    let seen = record.activity(activity)?;
                    Some(SimulationEvidence {
                        profile: record.in_force.kernel.clone(),
                        seed: record.seed?,
                        hash: format!("{:016x}", record.hash?),
                        activations: seen.activations,
                        missed: seen.missed,
                    })
                };
                if let Some(plan) = &mut self.plan {
                    for planned in &mut plan.reservations {
                        planned.proof.simulations.extend(evidence(&planned.activity));
                    }
                    for planned in &mut plan.streams {
                        planned.proof.simulations.extend(evidence(&planned.activity));
                    }
                }
                self.keep(State::SimReserved, record);
            }
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
            Err(error) => self.context.note(&format!("not simulated: {error}")),
        }
        Ok(())
    }

    /// What theory says of the reserved workload.
    fn analyse(&mut self, reserved: &Workload) {
        if !self.is_modelled[0] {
            return;
        }
        let analysis = {
            let mut watch = self.context.watch(&State::Analysis.to_string(), None);
            AnalysisWorld::new(self.platform.clone()).run(reserved, &self.request.options, &mut *watch)
        };
        match analysis {
            Ok(mut record) => {
                self.limit_to_plan(&mut record);
                self.keep(State::Analysis, record);
            }
            Err(error) => self.context.note(&format!("not analysed: {error}")),
        }
    }

    /// The analysis knows the declared work, the plan the measured: an analysed record claims no more than the plan's
    /// own proof, and of a measured distribution never that it has a largest value.
    fn limit_to_plan(&self, record: &mut Record) {
        for planned in self.plan.iter().flat_map(|plan| &plan.reservations) {
            let Some(probability) = planned.proof.probability else { continue };
            let found = record.activities.iter_mut().filter(|a| a.name == planned.activity);
            for promised in found.flat_map(|a| &mut a.promised) {
                if let Evidence::Proven { at_least, because } = &mut promised.evidence
                    && *at_least > probability
                {
                    *because = format!("{because}; for the work as measured: {}", planned.proof.theorem);
                    *at_least = probability;
                }
            }
        }
    }

    /// The result of a state, where it was come to.
    pub fn result(&self, state: State) -> Option<&Record> {
        self.results.iter().find(|(found, _)| *found == state).map(|(_, record)| record)
    }

    fn verdicts_of(&self, state: State) -> Vec<Verdict> {
        let found = self.result(state);
        found.map(|record| self.judge_all(record)).unwrap_or_default()
    }

    /// What measured verdicts come to. What measuring alone never decides (a promise about every activation) is
    /// decided by a proof of the same reservations.
    fn with_proofs(&self, measured: &[Verdict]) -> Outcome {
        let proven = self.verdicts_of(State::Analysis);
        let decided = measured.iter().map(|v| decide(v, proven.iter().map(|p| ("analysis", p))).outcome);
        decided.fold(Outcome::Kept, worse)
    }

    /// What it comes to when nothing could be enforced: kept only in simulation is not kept.
    fn outcome_by_simulation(&self) -> Outcome {
        let simulated = self.verdicts_of(State::SimReserved);
        let is_broken = simulated.iter().any(|verdict| verdict.outcome == Outcome::Broken);
        if is_broken { Outcome::Broken } else { Outcome::Undecided }
    }
}

/// The worse of two outcomes: broken, undecided, kept. What a world cannot see is undecided.
pub fn worse(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Outcome::Broken, _) | (_, Outcome::Broken) => Outcome::Broken,
        (Outcome::Kept, Outcome::Kept) => Outcome::Kept,
        _ => Outcome::Undecided,
    }
}

/// What refusals come to: what a longer measurement may decide is undecided, all else broken.
pub fn of_refusals(refusals: &[Refusal]) -> Outcome {
    match refusals {
        [] => Outcome::Kept,
        refusals if refusals.iter().all(Refusal::is_undecided) => Outcome::Undecided,
        _ => Outcome::Broken,
    }
}

/// A workload in which these tasks are reserved, beside those that the workload itself reserves.
fn reserve(workload: &Workload, pass: &[(String, Reservation)]) -> Workload {
    let mut reserved = workload.clone();
    let of = |task: &Task| pass.iter().find(|(name, _)| *name == task.name).map(|(_, r)| *r);
    for task in &mut reserved.tasks {
        task.reservation = of(task).or(task.reservation);
    }
    reserved
}

/// The threads of each activity.
fn threads_of(record: &Record) -> BTreeMap<String, Vec<Tid>> {
    let mut threads: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    for thread in &record.in_force.threads {
        if let Some(tid) = thread.tid {
            threads.entry(thread.activity.clone()).or_default().push(tid);
        }
    }
    threads
}
