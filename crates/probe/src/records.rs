//! [`Seen`]: what a run showed, as the records of its activities.
//!
//! Tasks of ours tell of their jobs themselves; what programs and threads of others did is in the trace, and their CPU
//! time in what the kernel charged them.

use std::collections::BTreeMap;

use surety_model::job::ThreadHistory;
use surety_model::promise::{Bound, Metric, Promise};
use surety_model::record::{ActivityRecord, Basis, Evidence, JobAccount, JobOutcome, Share, ThreadSeen};
use surety_model::workload::{Irq, Load, LoadKind, Release, Task, TaskBody, Workload};
use surety_units::{CpuSet, Nanos, Tid};

use crate::cast::{Activity, MemberResult, Returned};
use crate::interrupts::{self, Reading};
use crate::kin::{Family, KinThread};
use crate::loads::{COMPLETION, Counts, LoadRun, driver_of};
use crate::streams::{self, StreamRun};
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
    /// What the device of an interrupt source had counted at both ends of the window.
    pub counted: &'a dyn Fn(usize) -> Option<(Reading, Reading)>,
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
        for (index, irq) in workload.irqs.iter().enumerate() {
            records.push(self.irq_record(irq, index, &of(Activity::Irq(index))));
        }
        for (index, stream) in workload.streams.iter().enumerate() {
            records.push(streams::record(stream, &runs_of_stream(self.results, index), self.window));
        }
        for (index, load) in workload.loads.iter().enumerate() {
            let members = of(Activity::Load(index));
            let runs: Vec<LoadRun> = members
                .iter()
                .filter_map(|(_, m)| match &m.outcome {
                    Returned::Worker(run) => Some(run.clone()),
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
        if !task.body.is_made() && record.activations == 0 {
            let because = "without the kernel's scheduling events the jobs of a program cannot be told apart"
                .to_owned();
            for evidence in record.evidence.iter_mut().filter(|e| matches!(e, Evidence::Counted { .. })) {
                *evidence = Evidence::NotObservable { because: because.clone() };
            }
        }
        record
    }

    fn irq_record(&self, irq: &Irq, index: usize, members: &[(usize, &MemberResult)]) -> ActivityRecord {
        let sent = members.iter().filter_map(|(_, member)| match &member.outcome {
            Returned::Sender(sent) => Some(*sent),
            _ => None,
        });
        let sent = sent.fold(interrupts::Sent::default(), interrupts::Sent::plus);
        let handler = members.iter().find(|(_, member)| matches!(member.outcome, Returned::Outside));
        let used = handler.and_then(|(member, _)| (self.outside)(*member));
        let mut record = interrupts::record(irq, (self.counted)(index), used, sent);
        record.longest_gap = handler.and_then(|(_, member)| self.longest_wait(&[member.tid]));
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

/// What the threads of a stream did.
pub(crate) fn runs_of_stream(results: &[MemberResult], index: usize) -> Vec<&StreamRun> {
    let of_stream = results.iter().filter(|result| result.activity == Activity::Stream(index));
    let runs = of_stream.filter_map(|result| match &result.outcome {
        Returned::Stream(run) => Some(run),
        _ => None,
    });
    runs.collect()
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
    let done = runs.iter().fold(Counts::default(), |sum, run| sum.plus(run.done));
    record.figures =
        driver_of(load).map(|driver| driver.figures(&done, window.observed())).unwrap_or_default();
    let evidence_of = |promise: &Promise| {
        let rate = |unit: &str| record.figures.iter().find(|f| f.unit == unit).map(|f| f.value);
        let value = match (promise.metric, promise.bound) {
            (Metric::Share, _) => {
                return Evidence::Value { value: share.fraction(), of_demand: share.of_demand() };
            }
            (Metric::Rate, Bound::Frequency(_)) => rate("/s"),
            (Metric::Rate, _) => rate("B/s"),
            (Metric::Completion, _) => {
                let figure = record.figures.iter().find(|figure| figure.name == COMPLETION);
                if figure.is_none() && is_completed(load.kind) {
                    return Evidence::NotObservable { because: "none was completed in the run".to_owned() };
                }
                figure.map(|figure| figure.value)
            }
            (Metric::Lost, _) if is_lossy(load.kind) => Some(done.lost as f64),
            _ => None,
        };
        let because = format!("a load of kind `{}` has no such result", load.kind.word());
        value.map_or(Evidence::NotObservable { because }, |value| Evidence::Value { value, of_demand: None })
    };
    record.evidence = load.promises.iter().map(evidence_of).collect();
    record.share = Some(share);
    record
}

/// Whether a round of this kind of load is a whole that is completed.
fn is_completed(kind: LoadKind) -> bool {
    matches!(kind, LoadKind::FileCopy | LoadKind::Command)
}

/// Whether what this kind of load sends may be lost.
fn is_lossy(kind: LoadKind) -> bool {
    matches!(kind, LoadKind::PingFlood | LoadKind::UdpSender | LoadKind::UdpFlood)
}
