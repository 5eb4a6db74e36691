//! [`Seen`]: what a run showed, as the records of its activities.
//!
//! Tasks of ours tell of their jobs themselves; what programs and threads of others did is in the trace, and their CPU
//! time in what the kernel charged them.

use std::collections::BTreeMap;

use surety_model::job::{Job, ThreadHistory};
use surety_model::record::loads::load_account;
use surety_model::record::{Account, ActivityRecord, Basis, Caveat, Evidence, Promised, Share, ThreadSeen};
use surety_model::wakeups::{self, OUTSIDE_MAX, View, allowed_outside};
use surety_model::workload::{Irq, Load, Task, TaskBody, Workload};
use surety_units::{CpuSet, Nanos, Tid};

use crate::chains::{Chains, Handled};
use crate::interrupts::{self, Reading};
use crate::loads::{Counts, LoadRun, driver_of};
use crate::program_threads::{ProgramThread, SeenProgram};
use crate::returned::{Activity, MemberResult, Returned};
use crate::streams::{self, StreamRun};
use crate::window::Window;

/// What a run showed.
pub(crate) struct Seen<'a> {
    /// What its members returned.
    pub results: &'a [MemberResult],
    /// The programs by their first thread.
    pub programs_seen: BTreeMap<Tid, &'a SeenProgram>,
    /// Every thread of the trace.
    pub histories: BTreeMap<Tid, &'a ThreadHistory>,
    /// What each thread of the trace ran inside the window.
    pub runs: &'a BTreeMap<Tid, Nanos>,
    /// CPU time and waiting time inside the window of a member that is no thread of ours.
    pub outside: &'a dyn Fn(usize) -> Option<(Nanos, Nanos)>,
    /// What the device of an interrupt source had counted at both ends of the window.
    pub counted: &'a dyn Fn(usize) -> Option<(Reading, Reading)>,
    /// What its tasks handed on.
    pub chains: &'a Chains,
    /// When it was.
    pub window: &'a Window,
    /// On these CPUs.
    pub cpus: CpuSet,
}

impl Seen<'_> {
    /// One record per activity, in the workload's order, and by what rule the jobs of programs were told.
    pub fn records(&self, workload: &Workload) -> (Vec<ActivityRecord>, Vec<(String, String)>) {
        let of = |activity: Activity| -> Vec<(usize, &MemberResult)> {
            self.results.iter().enumerate().filter(|(_, r)| r.activity == activity).collect()
        };
        let (mut records, mut rules) = (Vec::new(), Vec::new());
        for (index, task) in workload.tasks.iter().enumerate() {
            let is_split = workload.threads_of(&task.name).next().is_some();
            records.push(self.task_record((task, is_split), &of(Activity::Task(index)), &mut rules));
        }
        for (index, task) in workload.tasks.iter().enumerate() {
            let roots = of(Activity::Task(index));
            let caveats =
                roots.iter().filter_map(|(_, root)| self.outside_threads(workload, (task, root.tid)));
            for caveat in caveats {
                let threads =
                    workload.threads_of(&task.name).filter(|t| allowed_outside(&t.promises).is_some());
                for thread in threads {
                    let of_thread = records.iter_mut().filter(|record| record.name == thread.name);
                    of_thread.for_each(|record| record.caveats.push(caveat.clone()));
                }
            }
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
        let span = (self.window.since_begin(self.window.observe), self.window.since_begin(self.window.end));
        records.extend(self.chains.records(workload, span, self.handled()));
        (records, rules)
    }

    /// What tasks took from chains.
    fn handled(&self) -> impl Iterator<Item = &Handled> {
        let runs = self.results.iter().filter_map(|result| match &result.outcome {
            Returned::Synthetic(run) => Some(run),
            _ => None,
        });
        runs.flat_map(|run| &run.handled)
    }

    fn task_record(
        &self,
        (task, is_split): (&Task, bool),
        members: &[(usize, &MemberResult)],
        rules: &mut Vec<(String, String)>,
    ) -> ActivityRecord {
        let window = self.window;
        let mut account = Account::of_task(task, Basis::Sample);
        let mut share = Share { threads: Vec::new(), span: window.observed() };
        let mut threads = Vec::new();
        let (observe, end) = (window.since_begin(window.observe), window.since_begin(window.end));
        let (mut longest_gap, mut outcomes, mut caveats) = (None, Vec::new(), Vec::new());
        for (index, member) in members {
            match &member.outcome {
                Returned::Synthetic(run) => {
                    longest_gap = longest_gap.max(self.longest_wait(&[member.tid]));
                    outcomes.extend(run.outcomes(self.chains, (observe, end)));
                    share.threads.push((run.metered.run, run.metered.waited));
                }
                _ => {
                    let family = self.programs_seen.get(&member.tid).filter(|_| task.is_program());
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
                    let all = family.map_or(vec![member.tid], |f| f.threads.iter().map(|t| t.tid).collect());
                    // What has threads with results of their own has no jobs besides.
                    if let Some(found) = self.jobs_of(task, &workers).filter(|_| !is_split) {
                        outcomes.extend_from_slice(&found.outcomes);
                        let rule =
                            found.pieces.describe().map(|text| (format!("jobs of {}", task.name), text));
                        rules.extend(rule);
                        caveats.extend(self.caveats_of(task, &found, (&workers, &all)));
                    }
                    let seen =
                        |t: &ProgramThread| ThreadSeen { tid: t.tid, role: t.role.clone(), run: t.run };
                    threads.extend(family.into_iter().flat_map(|f| &f.threads).map(seen));
                }
            }
        }
        account.add_all(outcomes);
        let seen = !share.threads.is_empty();
        let mut record = account.finish(seen.then_some(share));
        record.longest_gap = longest_gap;
        record.threads = threads;
        record.caveats = caveats;
        if !task.body.is_made() && record.activations == 0 {
            let because = "without the kernel's scheduling events the jobs of a program cannot be told apart";
            for Promised { evidence, .. } in &mut record.promised {
                if matches!(evidence, Evidence::Counted { .. }) {
                    *evidence = Evidence::NotObservable { because: because.to_owned() };
                }
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

    /// The planned activations of threads of others, as the trace shows them; `None`: it shows none of them.
    fn jobs_of(&self, task: &Task, tids: &[Tid]) -> Option<wakeups::Account> {
        let histories: Vec<_> = tids.iter().filter_map(|tid| self.histories.get(tid)).collect();
        // The response of a doubtful job is exact: without them only the fortunate would count.
        let busy: Vec<Job> = histories.iter().flat_map(|h| busy_of(h)).collect();
        let open = histories.iter().filter_map(|h| h.open).map(|open| open.release).min();
        let window = (self.window.observe, self.window.end);
        let view = View { busy: &busy, open, window, release: task.release };
        (!histories.is_empty()).then(|| wakeups::Account::of(&view))
    }

    /// What speaks against these counts as evidence for promises about jobs.
    fn caveats_of(
        &self,
        task: &Task,
        found: &wakeups::Account,
        (counted, all): (&[Tid], &[Tid]),
    ) -> Vec<Caveat> {
        let Some(allowed) = allowed_outside(&task.promises) else { return Vec::new() };
        let mut reasons = found.objections();
        if task.reservation.is_some() {
            reasons.extend(found.contradictions(allowed));
        }
        reasons.extend(self.outside_jobs(found, counted, all));
        reasons.into_iter().map(Caveat::withholds).collect()
    }

    /// Why what a program ran in other threads than those that are told of by themselves is too much to overlook, if it is.
    fn outside_threads(&self, workload: &Workload, (task, root): (&Task, Tid)) -> Option<Caveat> {
        let is_of = |index: usize| workload.tasks[index].thread_of().is_some_and(|(of, _)| of == task.name);
        let is_told = |tid: Tid| {
            let mut results = self.results.iter().filter(|result| result.tid == tid);
            results.any(|result| matches!(result.activity, Activity::Task(index) if is_of(index)))
        };
        let family =
            self.programs_seen.get(&root).filter(|_| workload.threads_of(&task.name).next().is_some())?;
        let (told, others): (Vec<&ProgramThread>, Vec<&ProgramThread>) =
            family.threads.iter().partition(|thread| is_told(thread.tid));
        let sum = |threads: &[&ProgramThread]| threads.iter().map(|thread| thread.run).sum::<Nanos>();
        let (inside, outside) = (sum(&told), sum(&others));
        (outside.get() as f64 > OUTSIDE_MAX * inside.get() as f64).then(|| {
            Caveat::withholds(format!(
                "{} threads of {} that are promised something used {inside} of CPU time, and its other threads {outside}: \
                 the work is not done by those threads alone",
                told.len(),
                task.name
            ))
        })
    }

    /// Why what the program ran outside its counted jobs is too much to overlook, if it is.
    fn outside_jobs(&self, found: &wakeups::Account, counted: &[Tid], all: &[Tid]) -> Option<String> {
        let ran: Nanos = all.iter().filter_map(|tid| self.runs.get(tid)).copied().sum();
        let (observe, end) = (self.window.observe, self.window.end);
        let histories = counted.iter().filter_map(|tid| self.histories.get(tid));
        let mut in_jobs = Nanos::ZERO;
        for history in histories {
            let all = history.jobs.iter().chain(&history.doubtful);
            let complete = all.filter(|job| job.completion > observe && job.release < end);
            in_jobs += complete.map(|job| job.execution).sum::<Nanos>();
            in_jobs += history.open.filter(|open| open.release < end).map_or(Nanos::ZERO, |o| o.execution);
        }
        let (outside, jobs) = (ran - in_jobs, found.pieces.time());
        let is_much = outside.get() as f64 > OUTSIDE_MAX * jobs.get() as f64;
        (is_much && jobs.is_positive()).then(|| {
            let others: Nanos =
                all.iter().filter(|tid| !counted.contains(tid)).filter_map(|tid| self.runs.get(tid)).copied().sum();
            let why = match others > outside / 2 {
                true => "most of that in other threads of the program, whose jobs are not counted: promise a share of the whole program",
                false => "in jobs whose beginning or end the trace does not show: measure longer",
            };
            format!(
                "the counted jobs used {jobs} of CPU time and the program {outside} more ({:.1} %; {:.0} % are overlooked), {why}",
                outside.get() as f64 / jobs.get() as f64 * 100.0,
                OUTSIDE_MAX * 100.0
            )
        })
    }
}

/// The busy periods of a thread, with the most they can have used.
fn busy_of(history: &ThreadHistory) -> impl Iterator<Item = Job> {
    history.jobs.iter().chain(&history.doubtful).map(Job::at_most)
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
fn workers(task: &Task, family: &SeenProgram) -> Vec<Tid> {
    let named = match &task.body {
        TaskBody::Command(program) => program.worker.as_ref(),
        _ => None,
    };
    let Some(role) = named.or_else(|| family.busiest()) else { return Vec::new() };
    family.threads.iter().filter(|t| t.role == *role).map(|t| t.tid).collect()
}

pub(crate) fn load_record(load: &Load, runs: &[LoadRun], window: &Window, cpus: CpuSet) -> ActivityRecord {
    let done = runs.iter().fold(Counts::default(), |sum, run| sum.plus(run.done));
    let figures =
        driver_of(load).map(|driver| (driver.figures)(&done, window.observed())).unwrap_or_default();
    let threads = runs.iter().map(|r| (r.metered.run, r.metered.waited)).collect();
    let share = Share { threads, span: window.observed() };
    let workers = (u64::from(load.count.on(cpus.len() as u32)), runs.len() as u64);
    let mut record = load_account(load, workers, &done, figures, share);
    record.longest_gap = runs.iter().filter(|r| r.is_busy).map(|r| r.metered.longest_gap).max();
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::event::Comm;
    use surety_model::job::Separation;
    use surety_model::promise::Promise;
    use surety_units::CpuId;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    /// A thread with a job of 5 ms every 20 ms.
    fn history(tid: i32, jobs: i64) -> ThreadHistory {
        let job = |k: i64| Job {
            release: ms(20 * k),
            start: ms(20 * k),
            cpu: CpuId(0),
            completion: ms(20 * k + 5),
            execution: ms(5),
            interrupted: Nanos::ZERO,
            preemptions: 0,
            preempted: Nanos::ZERO,
            throttled: Nanos::ZERO,
            inferred: Nanos::ZERO,
            unknown: Nanos::ZERO,
            index: None,
        };
        ThreadHistory {
            tid: Tid(tid),
            comm: Comm::new("t"),
            prio: 120,
            separation: Separation::BusyPeriod,
            jobs: (0..jobs).map(job).collect(),
            open: None,
            censored: 0,
            doubtful: Vec::new(),
            run: ms(5 * jobs),
            interrupted: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            seen: (Nanos::ZERO, ms(2_000)),
        }
    }

    #[test]
    fn cpu_time_outside_the_counted_jobs_withholds_the_verdict() {
        let one = history(7, 100);
        let mut task = Task::periodic("t", ms(20), TimeDistribution::Constant(Nanos::ZERO));
        task.promises = vec![Promise::parse("response <= 20ms @ 99%").unwrap()];
        // What it ran itself, and what another thread of the program did, in ms.
        for (own, other, words) in [
            (500, 0, None),
            (509, 0, None),
            (511, 0, Some("measure longer")),
            (500, 9, None),
            (500, 60, Some("in other threads of the program")),
        ] {
            let window = Window::new(Nanos::ZERO, Nanos::ZERO, ms(2_000));
            let runs = BTreeMap::from([(Tid(7), ms(own)), (Tid(8), ms(other))]);
            let seen = Seen {
                results: &[],
                programs_seen: BTreeMap::new(),
                histories: BTreeMap::from([(Tid(7), &one)]),
                runs: &runs,
                outside: &|_| None,
                counted: &|_| None,
                chains: &Chains::default(),
                window: &window,
                cpus: CpuSet::single(CpuId(0)),
            };
            let found = seen.jobs_of(&task, &[Tid(7)]).unwrap();
            assert_eq!(found.outcomes.len(), 100);
            let caveats = seen.caveats_of(&task, &found, (&[Tid(7)], &[Tid(7), Tid(8)]));
            let said: Vec<&str> = caveats.iter().map(|caveat| caveat.because.as_str()).collect();
            assert_eq!(said.len(), usize::from(words.is_some()), "{said:?}");
            assert!(words.is_none_or(|words| said[0].contains(words)), "{said:?}");
            // A share counts all of the program.
            let shared = Task { promises: vec![Promise::parse("share >= 5%").unwrap()], ..task.clone() };
            assert!(seen.caveats_of(&shared, &found, (&[Tid(7)], &[Tid(7), Tid(8)])).is_empty());
        }
    }
}
