//! [`Seen`]: what a run showed, as the records of its activities.
//!
//! Tasks of ours tell of their jobs themselves; what programs and threads of others did is in the trace, and their CPU
//! time in what the kernel charged them.

use std::collections::BTreeMap;

use surety_model::job::ThreadHistory;
use surety_model::promise::Metric;
use surety_model::record::{ActivityRecord, Basis, Evidence, JobAccount, JobOutcome, Share, ThreadSeen};
use surety_model::workload::{Load, Release, Task, TaskBody, Workload};
use surety_units::{CpuSet, Nanos, Tid};

use crate::cast::{Activity, MemberResult, Returned};
use crate::kin::{Family, KinThread};
use crate::loads::{LoadRun, driver_of};
use crate::window::Window;

/// What a run showed.
pub(crate) struct Seen<'a> {
    /// What its members returned.
    pub results: &'a [MemberResult],
    /// The programs by their first thread.
    pub families: BTreeMap<Tid, &'a Family>,
    /// Every thread of the trace.
    pub histories: BTreeMap<Tid, &'a ThreadHistory>,
    /// CPU time and waiting time inside the window of a member that is no thread of ours.
    pub outside: &'a dyn Fn(usize) -> Option<(Nanos, Nanos)>,
    /// When it was.
    pub window: &'a Window,
    /// On these CPUs.
    pub cpus: CpuSet,
}

impl Seen<'_> {
    /// One record per activity, in the workload's order.
    pub fn records(&self, workload: &Workload) -> Vec<ActivityRecord> {
        let of = |activity: Activity| -> Vec<(usize, &MemberResult)> {
            self.results.iter().enumerate().filter(|(_, r)| r.activity == activity).collect()
        };
        let mut records = Vec::new();
        for (index, task) in workload.tasks.iter().enumerate() {
            records.push(self.task_record(task, &of(Activity::Task(index))));
        }
        for (index, load) in workload.loads.iter().enumerate() {
            let members = of(Activity::Load(index));
            let runs: Vec<LoadRun> = members
                .iter()
                .filter_map(|(_, m)| match &m.outcome {
                    Returned::Worker(run) => Some(*run),
                    _ => None,
                })
                .collect();
            records.push(load_record(load, &runs, self.window, self.cpus));
        }
        records
    }

    fn task_record(&self, task: &Task, members: &[(usize, &MemberResult)]) -> ActivityRecord {
        let window = self.window;
        let mut account = JobAccount::new(task, Basis::Sample);
        let mut share = Share { threads: Vec::new(), span: window.observed() };
        let mut threads = Vec::new();
        let (observe, end) = (window.since_begin(window.observe), window.since_begin(window.end));
        let mut longest_gap = None;
        for (index, member) in members {
            match &member.outcome {
                Returned::Synthetic(run) => {
                    longest_gap = longest_gap.max(self.longest_wait(&[member.tid]));
                    run.plan.outcomes(&run.stamps, observe, end).into_iter().for_each(|o| account.add(o));
                    share.threads.push((run.metered.run, run.metered.waited));
                }
                _ => {
                    let family = self.families.get(&member.tid);
                    if let Some((run, wait)) = (self.outside)(*index) {
                        // A program as a whole waits only while none of its threads runs; without a trace the waiting
                        // of its threads is added up.
                        let waited = family.map_or(wait, |f| (f.busy + f.starved - run).max(Nanos::ZERO));
                        share.threads.push((run, Some(waited)));
                    }
                    let workers = match family {
                        Some(family) => workers(task, family),
                        None => vec![member.tid],
                    };
                    longest_gap = longest_gap.max(self.longest_wait(&workers));
                    self.count_jobs(task, &workers, &mut account);
                    let seen = |t: &KinThread| ThreadSeen { tid: t.tid, role: t.role.clone(), run: t.run };
                    threads.extend(family.into_iter().flat_map(|f| &f.threads).map(seen));
                }
            }
        }
        let seen = !share.threads.is_empty();
        let mut record = account.finish(seen.then_some(share));
        record.longest_gap = longest_gap;
        record.threads = threads;
        if !matches!(task.body, TaskBody::Synthetic(_)) && record.activations == 0 {
            let because = "without the kernel's scheduling events the jobs of a program cannot be told apart"
                .to_owned();
            for evidence in record.evidence.iter_mut().filter(|e| matches!(e, Evidence::Counted { .. })) {
                *evidence = Evidence::NotObservable { because: because.clone() };
            }
        }
        record
    }

    fn longest_wait(&self, tids: &[Tid]) -> Option<Nanos> {
        tids.iter().filter_map(|tid| self.histories.get(tid)).map(|h| h.longest_wait).max()
    }

    /// Takes the jobs that the trace shows of threads of others.
    fn count_jobs(&self, task: &Task, tids: &[Tid], account: &mut JobAccount) {
        let window = self.window;
        let mut complete = 0;
        let mut is_traced = false;
        for history in tids.iter().filter_map(|tid| self.histories.get(tid)) {
            is_traced = true;
            for job in history.jobs.iter().filter(|j| (window.observe..window.end).contains(&j.release)) {
                complete += 1;
                account.add(JobOutcome::Completed {
                    release: job.release,
                    start: job.start,
                    completion: job.completion,
                    execution: job.execution_net(),
                });
            }
        }
        // A late thread does not sleep between two jobs, so a busy period may hold several releases: what a
        // known period planned beyond the periods seen never got a response of its own.
        if let (true, Release::Periodic { period, .. }) = (is_traced, task.release) {
            let planned = window.observed().div_floor(period).max(0).unsigned_abs();
            for _ in complete..planned {
                account.add(JobOutcome::Skipped { release: window.observe });
            }
        }
    }
}

/// The threads of a program whose jobs are the task's: its worker, or as long as none is known the busiest.
fn workers(task: &Task, family: &Family) -> Vec<Tid> {
    let named = match &task.body {
        TaskBody::Command(program) => program.worker.as_ref(),
        _ => None,
    };
    let Some(role) = named.or_else(|| family.busiest()) else { return Vec::new() };
    family.threads.iter().filter(|t| t.role == *role).map(|t| t.tid).collect()
}

pub(crate) fn load_record(load: &Load, runs: &[LoadRun], window: &Window, cpus: CpuSet) -> ActivityRecord {
    let mut record = ActivityRecord::new(&load.name, "load", Basis::Sample);
    record.activations = u64::from(load.count.on(cpus.len() as u32));
    record.completed = runs.len() as u64;
    let threads = runs.iter().map(|r| (r.metered.run, r.metered.waited)).collect();
    let share = Share { threads, span: window.observed() };
    record.longest_gap = runs.iter().filter(|r| r.is_busy).map(|r| r.metered.longest_gap).max();
    let done = runs.iter().map(|r| r.done).sum();
    record.figures =
        driver_of(load).map(|driver| driver.figures(done, window.observed())).unwrap_or_default();
    let rate = record.figures.iter().find(|f| f.name == "rate").map(|f| f.value);
    let evidence_of = |metric: Metric| match (metric, rate) {
        (Metric::Share, _) => Evidence::Value { value: share.fraction(), of_demand: share.of_demand() },
        (Metric::Rate, Some(value)) => Evidence::Value { value, of_demand: None },
        _ => Evidence::NotObservable {
            because: format!("a load of kind `{}` has no such result", load.kind.word()),
        },
    };
    record.evidence = load.promises.iter().map(|p| evidence_of(p.metric)).collect();
    record.share = Some(share);
    record
}
