//! `surety guarantee`: the whole loop.
//!
//! Measure as it is; profile under a generous reservation; fit the work; plan; predict by theory and simulation;
//! enforce and measure again; one table, one verdict. Where the user may not reserve, all but the last step is done
//! and the answer says so.

use std::collections::BTreeMap;

use surety_analysis::{AnalysisWorld, foundation};
use surety_fit::{WorkFit, fit_thread};
use surety_kernel::facts::MachineFacts;
use surety_model::claim::Claim;
use surety_model::plan::{Homes, Left, Plan, Refusal, SimulationEvidence};
use surety_model::platform::Platform;
use surety_model::record::{Evidence, Record};
use surety_model::reservation::Reservation;
use surety_model::verdict::{Verdict, decide, judge};
use surety_model::workload::{Task, Workload};
use surety_model::world::{RunOptions, World, WorldError};
use surety_plan::{PlanOptions, plan_in_full, profile_passes};
use surety_probe::{HostWorld, Scratch};
use surety_report::plan_file::{plan_to_json, planned_to_json};
use surety_report::{Report, Row};
use surety_sim::SimWorld;
use surety_units::{Nanos, Tid};

use crate::args::GuaranteeArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::foreign;
use crate::gates;
use crate::input::workload_of;
use crate::measured::{Histories, Measuring, Seen};
use crate::planning::within;
use crate::run::{host_platform, located, options_of};
use crate::session::Session;
use crate::several::{self, Division};
use crate::workers::{Learnt, Workers, contradicted};

/// The CPU time of the search for budgets.
const SEARCH: Nanos = Nanos::from_secs(20);

/// The verb.
pub fn guarantee(args: &GuaranteeArgs, session: &Session) -> Result<Code, Failure> {
    let workload = workload_of(args, &session.kernel)?;
    if workload.tasks.iter().all(|t| t.promises.is_empty()) {
        let what = "the workload promises nothing about a task: there is nothing to guarantee";
        return Err(
            Failure::new(Code::BadInput, what).help("add `promise = [\"response <= 40ms @ 99%\"]` to a task")
        );
    }
    if !args.foreign.force {
        foreign::check_workload(&session.kernel, &workload, |task| !task.promises.is_empty())?;
    }
    let outputs = [&args.running.html, &args.gates.junit, &args.gates.tap, &args.save_plan];
    files::check_outputs(outputs.map(Option::as_ref))?;
    let mut walk = Walk::new(args, workload, session);
    let outcome = walk.through();
    match outcome {
        Ok(code) => {
            // The state in force is what counts: the last.
            let named = walk.records.last().map(|(label, record)| (label.as_str(), record));
            let code = gates::check(&args.gates, named, code, session)?;
            walk.publish(code)?;
            Ok(code)
        }
        Err(failure) if failure.code == Code::Interrupted && !walk.records.is_empty() => {
            session.note("interrupted: what is finished is shown; nothing stays in force");
            walk.publish(Code::Interrupted)?;
            Ok(Code::Interrupted)
        }
        Err(failure) => Err(located(failure, &walk.workload)),
    }
}

/// One walk through the loop: what is known so far.
struct Walk<'a> {
    args: &'a GuaranteeArgs,
    session: &'a Session,
    facts: MachineFacts,
    platform: Platform,
    options: RunOptions,
    /// As declared.
    workload: Workload,
    /// With fitted tasks in place of programs, for worlds that run none.
    model: Workload,
    records: Vec<(String, Record)>,
    plan: Option<Plan>,
    /// What the plan claims in numbers, and leaves to others.
    claims: Option<(Vec<Claim>, Left)>,
    /// What programs were prepared with.
    scratch: Option<Scratch<'a>>,
}

impl<'a> Walk<'a> {
    fn new(args: &'a GuaranteeArgs, workload: Workload, session: &'a Session) -> Walk<'a> {
        let (facts, platform) = host_platform(session);
        let workload = workload.without_planned_reservations();
        Walk {
            args,
            session,
            facts,
            platform,
            options: options_of(&args.running, session),
            model: workload.clone(),
            workload,
            records: Vec::new(),
            plan: None,
            claims: None,
            scratch: None,
        }
    }

    fn through(&mut self) -> Result<Code, Failure> {
        let session = self.session;
        let may_reserve = self.facts.privileges.sys_nice;
        self.scratch =
            Scratch::prepare(&self.workload, &session.kernel, session.journal(), &self.options.cancel)?;
        let (seen, mut refusals) = self.measure_as_it_is()?;
        let asked = several::without_wholes(&self.workload);
        let asked = several::without_refused(&asked, &self.workload, &refusals);
        let fitted = if may_reserve {
            session.step("profiling under generous reservations");
            self.profile(&asked)?
        } else {
            session.note(
                "this user may not reserve CPU time, so work is fitted from the run above and the promise can only be \
                 kept in simulation; run as root or with CAP_SYS_NICE to enforce it",
            );
            let all: Vec<String> = asked.tasks.iter().map(|t| t.name.clone()).collect();
            let (_, record) = self.records.last().expect("a run was measured");
            self.fit(&asked, &all, (record, &Workers::of(&self.workload, record)), &seen)
        };
        let works: BTreeMap<String, WorkFit> =
            fitted.iter().filter_map(|(n, f)| Some((n.clone(), f.fit.as_ref()?.work.clone()))).collect();
        self.take_over(&fitted);
        session.step("planning");
        let used = |whole: &Task| {
            self.workload.threads_of(&whole.name).filter_map(|t| fitted.get(&t.name)).map(Learnt::used).sum()
        };
        refusals.extend(several::gather(&self.workload, contradicted(&asked, &fitted), used));
        let workload = several::without_refused(&self.model, &self.workload, &refusals);
        let options = self.plan_options();
        let limit = options.search.clone();
        let planned = within(self.session, Some((SEARCH, &limit)), move || {
            plan_in_full(&workload, &works, &options, false)
        })?;
        let mut plan = planned.plan;
        plan.refusals.extend(refusals);
        self.claims = Some((planned.claims, planned.left));
        // What a longer run may decide is undecided, all else refused; what can be planned is kept all the same.
        let refused = Code::of_refusals(&plan.refusals);
        let is_all_refused = plan.reservations.is_empty() && !plan.refusals.is_empty();
        self.plan = Some(plan);
        if is_all_refused {
            self.predict_unreserved();
            // The verdict is of the last row: of what was measured, not of what was only simulated.
            self.records.sort_by_key(|(label, _)| label == "host unreserved");
            return Ok(refused);
        }
        session.step("predicting by analysis and simulation");
        self.predict_reserved()?;
        if !may_reserve {
            return Ok(self.code_by_simulation().worse(refused));
        }
        if !self.args.foreign.force {
            foreign::check_plan(self.plan_made(), &self.workload, self.platform.cpus)?;
        }
        session.step("enforcing and measuring again");
        let reserved = self.plan_made().apply_to(&self.workload);
        let (record, _) = self.measure("host reserved", &reserved)?;
        let verdicts = self.keep("host reserved", record);
        Ok(self.code_with_proofs(&verdicts).worse(refused))
    }

    fn plan_made(&self) -> &Plan {
        self.plan.as_ref().expect("a plan is made before it is used")
    }

    /// Measures without reservations, and learns which threads of each program do its work, where the workload does not say.
    /// Where several do, each is measured as a task of its own. What cannot be promised of several threads is refused.
    fn measure_as_it_is(&mut self) -> Result<(Histories, Vec<Refusal>), Failure> {
        self.session.step("measuring as it is");
        let (mut record, mut seen) = self.measure("host unreserved", &self.workload.unreserved())?;
        let Division { is_divided, mut refusals } = several::divide(&mut self.workload, &record);
        self.model = several::without_wholes(&self.workload);
        if is_divided {
            self.session.step("measuring as it is, thread by thread");
            (record, seen) = self.measure("host unreserved", &self.workload.unreserved())?;
        }
        refusals.extend(several::too_much(&self.workload, &record, &self.platform));
        self.keep("host unreserved", record);
        Ok((seen, refusals))
    }

    /// Runs a workload on this kernel, with the jobs its trace shows.
    fn measure(&self, label: &str, workload: &Workload) -> Result<(Record, Histories), Failure> {
        let mut seen = Seen::default();
        let world = HostWorld::new(&self.session.kernel, self.session.journal())
            .prepared(self.scratch.as_ref())
            .at_home(self.homes(workload))
            .bound(&self.args.disks.bindings());
        let record = {
            let watch = self.session.watch(label, None);
            world.run(workload, &self.options, &mut Measuring { watch, seen: &mut seen })?
        };
        Ok((record, seen.histories()))
    }

    /// Where the plan puts reserved threads; those that no plan is about go where they fit.
    fn homes(&self, workload: &Workload) -> Homes {
        let planned = self.plan.as_ref().map(Plan::homes).unwrap_or_default();
        if planned.is_empty() { foundation::homes(workload, &self.platform) } else { planned }
    }

    /// Adds a row, and returns its verdicts.
    fn keep(&mut self, label: &str, record: Record) -> Vec<Verdict> {
        let verdicts = self.judge_all(&record);
        self.records.push((label.to_owned(), record));
        verdicts
    }

    /// Every promise held against a record.
    fn judge_all(&self, record: &Record) -> Vec<Verdict> {
        record.activities.iter().flat_map(|a| judge(self.workload.promises_of(&a.name), a)).collect()
    }

    /// Runs the tasks with promises under generous reservations, loads on, and fits their work.
    fn profile(&self, asked: &Workload) -> Result<BTreeMap<String, Learnt>, Failure> {
        let mut fitted = BTreeMap::new();
        for pass in profile_passes(asked, &self.platform) {
            let reserved = reserve(&self.workload, &pass);
            let (record, jobs) = self.measure("profile", &reserved)?;
            for reason in &record.degraded {
                self.session.note(&format!("profile pass: {reason}"));
            }
            let only: Vec<String> = pass.into_iter().map(|(name, _)| name).collect();
            let found = Workers::of(&reserved, &record);
            for (name, used) in found.changed(&reserved) {
                self.session.note(&format!(
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
    ) -> BTreeMap<String, Learnt> {
        let tids = threads_of(record);
        let own = |name: &str| tids.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut fitted = BTreeMap::new();
        for task in workload.tasks.iter().filter(|t| !t.promises.is_empty() && names.contains(&t.name)) {
            if !task.body.is_made() {
                let worker = workers.of_task(task);
                let mut learnt = worker.and_then(|worker| worker.learn(task, histories, self.session));
                let program = task.thread_of().and_then(|(of, _)| record.activity(of));
                if let (Some(learnt), Some(program)) = (&mut learnt, program) {
                    learnt.hold_against_wakers(&histories.wakers, own(&task.name), &program.threads);
                }
                fitted.extend(learnt.map(|learnt| (task.name.clone(), learnt)));
                continue;
            }
            let Some(history) = own(&task.name).iter().find_map(|tid| histories.of(*tid)) else {
                self.session.note(&format!("{}: no trace of it; planned as declared", task.name));
                continue;
            };
            match fit_thread(history, Some(task)) {
                Ok(fit) => {
                    for note in &fit.notes {
                        self.session.note(&format!("{}: {note}", task.name));
                    }
                    fitted.insert(task.name.clone(), Learnt::made(fit));
                }
                Err(error) => self.session.note(&format!("{}: {error}", task.name)),
            }
        }
        fitted
    }

    /// Puts fitted releases and works where the workload declares none: programs become tasks the other worlds can run.
    fn take_over(&mut self, fitted: &BTreeMap<String, Learnt>) {
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
        options.verified_by(&self.model, self.options.duration)
    }

    /// What the simulator says of the workload as it is; what it cannot run is noted.
    fn predict_unreserved(&mut self) {
        match self.simulate("sim unreserved", &self.model.unreserved()) {
            Ok(record) => drop(self.keep("sim unreserved", record)),
            Err(error) => self.session.note(&format!("not simulated: {error}")),
        }
    }

    fn simulate(&self, label: &str, workload: &Workload) -> Result<Record, WorldError> {
        let mut watch = self.session.watch(label, None);
        SimWorld::new(self.platform.clone()).run(workload, &self.options, &mut watch)
    }

    /// Analysis and both simulations; the reserved one joins every proof as evidence.
    fn predict_reserved(&mut self) -> Result<(), Failure> {
        let reserved = self.plan_made().apply_to(&self.model);
        let analysis = {
            let mut watch = self.session.watch("analysis", None);
            AnalysisWorld::new(self.platform.clone()).run(&reserved, &self.options, &mut watch)
        };
        match analysis {
            Ok(mut record) => {
                self.limit_to_plan(&mut record);
                self.keep("analysis", record);
            }
            Err(error) => self.session.note(&format!("not analysed: {error}")),
        }
        self.predict_unreserved();
        if self.options.cancel.is_cancelled() {
            return Err(WorldError::Interrupted.into());
        }
        match self.simulate("sim reserved", &reserved) {
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
                }
                self.keep("sim reserved", record);
            }
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
            Err(error) => self.session.note(&format!("not simulated: {error}")),
        }
        Ok(())
    }

    /// The analysis knows the declared work, the plan the measured: an analysed record claims no more than the plan's
    /// own proof, and of a measured distribution never that it has a largest value.
    fn limit_to_plan(&self, record: &mut Record) {
        for planned in &self.plan_made().reservations {
            let Some(probability) = planned.proof.probability else { continue };
            let found = record.activities.iter_mut().filter(|a| a.name == planned.activity);
            for evidence in found.flat_map(|a| &mut a.evidence) {
                if let Evidence::Proven { at_least, because } = evidence
                    && *at_least > probability
                {
                    *because = format!("{because}; for the work as measured: {}", planned.proof.theorem);
                    *at_least = probability;
                }
            }
        }
    }

    fn verdicts_of(&self, label: &str) -> Vec<Verdict> {
        let found = self.records.iter().find(|(l, _)| l == label);
        found.map(|(_, record)| self.judge_all(record)).unwrap_or_default()
    }

    /// The code of measured verdicts. What measuring alone never decides (a promise about every activation) is
    /// decided by a proof of the same reservations.
    fn code_with_proofs(&self, measured: &[Verdict]) -> Code {
        let proven = self.verdicts_of("analysis");
        let decided = measured.iter().map(|v| decide(v, proven.iter().map(|p| ("analysis", p))).outcome);
        Code::of_outcomes(decided)
    }

    /// The code when nothing could be enforced: kept only in simulation is not kept.
    fn code_by_simulation(&self) -> Code {
        let simulated = self.verdicts_of("sim reserved");
        match Code::of(&simulated) {
            Code::Broken => Code::Broken,
            _ => Code::Undecided,
        }
    }

    /// Prints and writes everything that was found out.
    fn publish(&self, code: Code) -> Result<(), Failure> {
        let rows: Vec<Row<'_>> =
            self.records.iter().map(|(label, record)| Row::new(label, record, &self.workload)).collect();
        let report = Report {
            title: self.workload.title.as_deref(),
            file: self.workload.source.name(),
            rows: &rows,
            plan: self.plan.as_ref(),
            exit: Some(code as u8),
            ..Report::default()
        };
        if let (Some(plan), Some(path)) = (&self.plan, &self.args.save_plan) {
            let text = match &self.claims {
                Some((claims, left)) => planned_to_json(plan, claims, left),
                None => plan_to_json(plan),
            };
            files::write(path, &text)?;
        }
        if let (Some(plan), false) = (&self.plan, self.session.json) {
            let style = self.session.style();
            let plan_text = match self.args.explain {
                true => surety_report::table::explain(plan, &style),
                false => surety_report::table::plan(plan, &style),
            };
            self.session.print(&format!("{plan_text}\n"))?;
        }
        self.session.publish(&report, &self.args.running)?;
        if let (Some(advice), false) = (self.advice(code), self.session.json) {
            self.session.print(&format!("\n{advice}\n"))?;
        }
        Ok(())
    }

    /// What is to be added to the verdict in the last row, and what to do.
    fn advice(&self, code: Code) -> Option<&'static str> {
        match self.plan.as_ref().map(|p| (p.refusals.as_slice(), p.reservations.is_empty())) {
            Some((refusals @ [_, ..], _)) if refusals.iter().all(Refusal::is_undecided) => {
                return Some(
                    "Undecided: too few jobs were measured to plan every promise; above stands how many more it takes: \
                     measure longer with --for.",
                );
            }
            Some(([_, ..], true)) => {
                return Some(
                    "Refused: no reservation was found that keeps any promise; above stands why, and what would be \
                     feasible where that is known.",
                );
            }
            Some(([_, ..], false)) => {
                return Some(
                    "Refused in part: the other promises have their reservations; above stands why not all, and what \
                     would be feasible where that is known.",
                );
            }
            _ => {}
        }
        if !self.records.iter().any(|(label, _)| label == "host reserved") {
            let simulated = self.records.iter().any(|(label, _)| label == "sim reserved");
            return Some(if simulated {
                "Not enforced: this user may not reserve CPU time, so the promise is kept in simulation only. Run as \
                 root, or give the program CAP_SYS_NICE."
            } else {
                "Not enforced: this user may not reserve CPU time. Run as root, or give the program CAP_SYS_NICE."
            });
        }
        (code == Code::Undecided).then_some("Undecided: measure longer with --for.")
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
