//! [`Workers`]: which thread of each program does its work, as a run showed it, and what is fitted from it.

use std::collections::BTreeMap;

use surety_fit::sleep::{self, Sleep};
use surety_fit::worker::{self, Rhythm, Worker, rhythm};
use surety_fit::{FittedTask, ReleaseFit, fit_thread};
use surety_model::job::{Job, ThreadHistory};
use surety_model::plan::Refusal;
use surety_model::promise::{Metric, Promise};
use surety_model::record::{Record, ThreadSeen};
use surety_model::wakeups::{Account, CONTRADICTING, OUTSIDE_MAX, View, allowed_outside, is_about_jobs};
use surety_model::workload::{Release, Task, TaskBody, ThreadMatch, ThreadRole, Workload};
use surety_units::{Nanos, Tid};

use crate::context::Context;
use crate::histories::Histories;
use crate::wakers::Wakers;

/// A thread that another of its program wakes more often than this has its work from there.
const HANDED: f64 = 0.1;
/// Another thread with this part of the program's CPU time is worth a word: it has no reservation.
const WORTH_A_WORD: f64 = 0.05;
/// A worker with less of the program's CPU time than this is one of several: what its reservation gives is no share of the program.
const SEVERAL: f64 = 2.0 / 3.0;
/// A share that is offered is so much more than what was used.
const SHARE_MARGIN: f64 = 1.1;

/// What was learnt of a task from a trace.
pub struct Learnt {
    /// When its jobs are released.
    pub release: Release,
    /// Its work, where that could be fitted.
    pub fit: Option<FittedTask>,
    /// What contradicts a proof about its jobs.
    objections: Vec<String>,
    /// What to declare so that such a proof holds.
    remedy: Option<String>,
    /// What contradicts a proof about its share.
    of_share: Option<String>,
    /// The part of a CPU it used.
    share: f64,
}

impl Learnt {
    /// Notes that a thread of a program has its work from another one, if so.
    pub fn hold_against_wakers(&mut self, wakers: &Wakers, own: &[Tid], program: &[ThreadSeen]) {
        let all: Vec<Tid> = program.iter().map(|thread| thread.tid).collect();
        let Some((part, waker)) = wakers.part_by(own, &all).filter(|(part, _)| *part > HANDED) else {
            return;
        };
        let name =
            program.iter().find(|t| t.tid == waker).map_or_else(String::new, |t| format!("{} ", t.role));
        self.objections.push(format!(
            "{:.0} % of its wake-ups come from other threads of the program, most of them from thread {name}({waker}): they hand \
             work to each other or wait for each other, and responses from each one's own wake-up prove no response of the \
             program",
            part * 100.0
        ));
    }

    /// The part of a CPU it used.
    pub fn used(&self) -> f64 {
        self.share
    }

    /// Of a task made for the run, whose jobs are known.
    pub fn made(fit: FittedTask) -> Learnt {
        Learnt {
            release: fit.task.release,
            fit: Some(fit),
            objections: Vec::new(),
            remedy: None,
            of_share: None,
            share: 0.0,
        }
    }
}

/// The threads that do the work of the programs of a workload.
pub struct Workers {
    found: BTreeMap<String, Found>,
}

/// What a run showed of one program.
pub struct Found {
    /// The threads with the role that bears the reservation; the busiest ones as long as there is none.
    pub worker: Worker,
    /// The role that did most of the work.
    busiest: ThreadRole,
}

impl Workers {
    /// From the threads in a record.
    pub fn of(workload: &Workload, record: &Record) -> Workers {
        let mut found = BTreeMap::new();
        for task in workload.tasks.iter().filter(|task| !task.body.is_made()) {
            let threads = record.activity(&task.name).map(|a| a.threads.as_slice()).unwrap_or_default();
            let of_program = match &task.body {
                TaskBody::Command(program) => Found::of(program.worker.as_ref(), threads),
                _ => record.in_force.threads.iter().find(|t| t.activity == task.name).map(|thread| {
                    let role = ThreadRole { comm: task.name.clone(), rank: 0 };
                    let tids = thread.tid.into_iter().collect();
                    let worker = Worker { role: role.clone(), tids, part: 1.0, others: Vec::new() };
                    Found { worker, busiest: role }
                }),
            };
            found.extend(of_program.map(|found| (task.name.clone(), found)));
        }
        Workers { found }
    }

    /// What was found of a task.
    pub fn of_task(&self, task: &Task) -> Option<&Found> {
        self.found.get(&task.name)
    }

    /// Tasks of which another thread than the reserved one did most of the work, with that thread.
    pub fn changed<'w>(&'w self, workload: &'w Workload) -> impl Iterator<Item = (&'w str, &'w ThreadRole)> {
        let reserved = workload.tasks.iter().filter(|t| t.reservation.is_some());
        reserved.filter_map(|task| {
            let found = self.found.get(&task.name)?;
            (found.busiest != found.worker.role).then_some((task.name.as_str(), &found.busiest))
        })
    }
}

impl Found {
    fn of(named: Option<&ThreadRole>, threads: &[ThreadSeen]) -> Option<Found> {
        let busiest = worker::busiest(threads)?;
        let role = named.cloned().unwrap_or_else(|| busiest.role.clone());
        let part = match role == busiest.role {
            true => busiest.part,
            false => busiest.others.iter().find(|(other, _)| *other == role).map_or(0.0, |(_, part)| *part),
        };
        let mut others = busiest.others;
        others.insert(0, (busiest.role.clone(), busiest.part));
        others.retain(|(other, _)| *other != role);
        let tids = threads.iter().filter(|t| t.role == role).map(|t| t.tid).collect();
        Some(Found { worker: Worker { role, tids, part, others }, busiest: busiest.role })
    }

    /// Says who the worker is and fits its jobs; what cannot be fitted is noted and planned as declared.
    pub fn learn(&self, task: &Task, histories: &Histories, context: &dyn Context) -> Option<Learnt> {
        let Worker { role, tids, part, others } = &self.worker;
        let name = &task.name;
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let own: Vec<&ThreadHistory> = tids.iter().filter_map(|tid| histories.of(*tid)).collect();
        let is_it = |who: &str, does: &str| match &task.body {
            TaskBody::Command(_) => context.step(&format!(
                "{name}: the worker is {who}, {} of the program's CPU time, {does}",
                percent(*part)
            )),
            _ => context.step(&format!("{name}: {does}")),
        };
        let learnt = match own.as_slice() {
            [] => {
                context.note(&format!("{name}: no trace of its worker {role}; planned as declared"));
                return None;
            }
            [history] => {
                let who = format!("thread {role} ({})", history.tid);
                let mut learnt =
                    learn_thread(task, history, histories.window, context, &|does| is_it(&who, does));
                self.hold_against_threads(&mut learnt);
                Some(learnt)
            }
            turns => {
                is_it(&format!("{} threads {role}, one after another", turns.len()), "no period of its own");
                context.note(&format!(
                    "{name}: a reservation is not inherited, so each of them gets it a moment after it began, which no \
                     proof covers"
                ));
                None
            }
        };
        for (other, part) in others.iter().filter(|(_, part)| *part >= WORTH_A_WORD) {
            context.note(&format!(
                "{name}: thread {other} does {} of its CPU time and stays without a reservation",
                percent(*part)
            ));
        }
        learnt
    }
}

impl Found {
    /// One thread bears the reservation: promises about work that others do are not proven by it.
    fn hold_against_threads(&self, learnt: &mut Learnt) {
        let Worker { role, part, others, .. } = &self.worker;
        let elsewhere: f64 = others.iter().map(|(_, part)| part).sum();
        let busy = others.iter().filter(|(_, part)| *part >= WORTH_A_WORD).count();
        let why = format!(
            "{:.1} % of the program's CPU time is used by other threads than {role} ({busy} of them use 5 % or more), and a \
             reservation is put on one thread",
            elsewhere * 100.0
        );
        if elsewhere > OUTSIDE_MAX * part {
            learnt.objections.push(why.clone());
        }
        learnt.of_share = (*part < SEVERAL).then_some(why);
        // What can be promised is of the whole program.
        learnt.share /= part.max(f64::MIN_POSITIVE);
    }
}

/// Fits the jobs of one thread inside the window and holds them against what a proof will assume.
fn learn_thread(
    task: &Task,
    history: &ThreadHistory,
    window: Option<(Nanos, Nanos)>,
    context: &dyn Context,
    tell: &dyn Fn(&str),
) -> Learnt {
    let name = &task.name;
    let window = window.unwrap_or(history.seen);
    let is_inside = |job: &&Job| (window.0..window.1).contains(&job.release);
    let inside =
        ThreadHistory { jobs: history.jobs.iter().filter(is_inside).copied().collect(), ..history.clone() };
    let allowed = allowed_outside(&task.promises);
    let found = rhythm(&inside, task.release, CONTRADICTING * allowed.unwrap_or(1.0));
    let release = planned_release(task.release, &found);
    // Nothing is planned by the work of jobs that come at any time.
    let is_planned = allowed.is_none() || release != Release::Unspecified;
    let fit = is_planned.then(|| fit_rhythm(task, &found, release));
    tell(&found.describe(fit.as_ref().and_then(|fit| Some(&fit.as_ref().ok()?.work))));
    if let Some(note) = &found.left_out {
        context.note(&format!("{name}: {note}"));
    }
    match &fit {
        Some(Ok(fit)) => {
            // The rhythm says it better: polling hides the period from the rule of single releases.
            let rule = fit.release.as_ref().map(ReleaseFit::describe);
            let notes = fit.notes.iter().filter(|note| Some(*note) != rule.as_ref());
            notes.for_each(|note| context.note(&format!("{name}: {note}")));
        }
        Some(Err(why)) => context.note(&format!("{name}: {why}")),
        None => {}
    }
    let open = history.open.map(|open| open.release);
    let account = Account::of(&View { busy: &history.jobs, open, window, release });
    let mut objections = Vec::new();
    if let Some(allowed) = allowed {
        objections.extend(account.objections());
        objections.extend(account.contradictions(allowed));
    }
    let without = match release {
        Release::Unspecified => Some(without_period(&inside.jobs)),
        _ => is_on_no_grid(task.release, &found).then(|| on_no_grid(release)),
    };
    let without = without.filter(|_| allowed.is_some());
    let remedy = without.as_ref().and_then(|_| sleep::of(&found.history)).map(gap_instead);
    objections.extend(without);
    let used = account.pieces.time().get() as f64 / (window.1 - window.0).get().max(1) as f64;
    Learnt { release, fit: fit.and_then(Result::ok), objections, remedy, of_share: None, share: used }
}

/// The rule a proof assumes: as declared, with the jitter that was seen where none is declared; else the period found. The
/// shortest distance ever seen is none to plan by.
fn planned_release(declared: Release, found: &Rhythm) -> Release {
    match declared {
        Release::Sporadic { .. } => declared,
        Release::Periodic { jitter, .. } if jitter.is_positive() => declared,
        _ => found.period().unwrap_or(declared),
    }
}

/// Whether what is planned by would be the mean period of a thread that sleeps for a time and not until an instant.
fn is_on_no_grid(declared: Release, found: &Rhythm) -> bool {
    found.drifts && !matches!(declared, Release::Sporadic { .. })
}

/// Why the mean period of a thread that sleeps for a time is nothing to plan a response by.
fn on_no_grid(mean: Release) -> String {
    let about = mean.interval().map_or_else(String::new, |period| format!(" of about {period}"));
    format!(
        "it sleeps for a time and not until an instant, so each delay moves all later releases: its period{about} is a mean, \
         and two releases may come closer together"
    )
}

/// What to declare of it instead.
fn gap_instead(sleep: Sleep) -> String {
    let gap = sleep.gap.to_exact_string();
    let since = if sleep.after_job { "after each job" } else { "from one job's beginning" };
    format!(
        "declare the time it sleeps for {since} as its minimum inter-arrival time: `gap = \"{gap}\"` in a workload file, as `surety init` \
         writes it"
    )
}

/// Why there is nothing to plan a response by.
fn without_period(jobs: &[Job]) -> String {
    let mut distances: Vec<Nanos> = jobs.windows(2).map(|pair| pair[1].release - pair[0].release).collect();
    distances.sort_unstable();
    match (distances.first(), distances.get(distances.len() / 2), distances.last()) {
        (Some(shortest), Some(median), Some(longest)) => format!(
            "it is released without a period: {} wake-ups for work came {shortest} to {longest} apart ({median} in the median), \
             and no bound on responses holds for releases that may come at any time",
            jobs.len()
        ),
        _ => "no release of it was seen".to_owned(),
    }
}

/// The work of the jobs in a rhythm; the error is one sentence.
fn fit_rhythm(task: &Task, found: &Rhythm, release: Release) -> Result<FittedTask, String> {
    let hint = Task { release, ..task.clone() };
    let mut fit = fit_thread(&found.history, Some(&hint)).map_err(|error| error.to_string())?;
    fit.work.wakes_between = found.small > 0;
    Ok(fit)
}

/// The promises that what was learnt contradicts, with what can be promised instead. Nothing is planned for them.
pub fn contradicted(workload: &Workload, learnt: &BTreeMap<String, Learnt>) -> Vec<Refusal> {
    let of_task = |task: &Task| {
        let learnt = learnt.get(&task.name)?;
        let refusal = |promise: &Promise| {
            let is_share = promise.metric == Metric::Share;
            let because = match is_about_jobs(promise.metric) {
                true => Some(learnt.objections.join("; ")).filter(|why| !why.is_empty()),
                false => learnt.of_share.clone().filter(|_| is_share),
            }?;
            let instead = match (&learnt.of_share, is_share) {
                (None, _) => offer(task, learnt.share),
                _ => "let the program do its work in one thread, where it has an option for that".to_owned(),
            };
            let remedy = learnt.remedy.clone().filter(|_| !is_share);
            Some(Refusal {
                activity: task.name.clone(),
                promise: *promise,
                because,
                nearest: remedy.into_iter().chain([instead]).collect(),
                more_jobs: None,
            })
        };
        Some(task.promises.iter().filter_map(refusal).collect::<Vec<_>>())
    };
    workload.tasks.iter().filter_map(of_task).flatten().collect()
}

/// The share that can be promised instead of responses.
pub fn offer(task: &Task, used: f64) -> String {
    let percent = (used * SHARE_MARGIN * 100.0).ceil().max(1.0);
    let percent = if task.is_program() { percent } else { percent.min(100.0) };
    let with = match &task.body {
        TaskBody::Match(ThreadMatch::Thread(pid) | ThreadMatch::Process(pid)) => {
            format!(", as with `surety guarantee --pid {pid} --share {percent}%`")
        }
        _ => String::new(),
    };
    format!("promise a share: \"share >= {percent}%\"{with} (it used {:.1} % of a CPU)", used * 100.0)
}

/// What a thread given by its number on the command line is called.
pub fn thread_name(pid: i32) -> String {
    format!("thread-{pid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::event::Comm;
    use surety_model::job::Separation;
    use surety_units::CpuId;

    /// Jobs of 1 ms, released at these distances in microseconds.
    fn history(distances: impl Iterator<Item = i64>) -> ThreadHistory {
        let (mut release, length) = (Nanos::ZERO, Nanos::from_millis(1));
        let jobs: Vec<Job> = distances
            .map(|distance| {
                release += Nanos::from_micros(distance);
                Job {
                    release,
                    start: release,
                    cpu: CpuId(0),
                    completion: release + length,
                    execution: length,
                    interrupted: Nanos::ZERO,
                    preemptions: 0,
                    preempted: Nanos::ZERO,
                    throttled: Nanos::ZERO,
                    inferred: Nanos::ZERO,
                    unknown: Nanos::ZERO,
                    index: None,
                }
            })
            .collect();
        ThreadHistory {
            tid: Tid(7),
            comm: Comm::new("t"),
            prio: 120,
            separation: Separation::BusyPeriod,
            open: None,
            censored: 0,
            doubtful: Vec::new(),
            run: jobs.iter().map(|job| job.execution).sum(),
            interrupted: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            unknown: Nanos::ZERO,
            seen: (Nanos::ZERO, release + length),
            jobs,
        }
    }

    /// The mean period of a program that slept for 10 ms was planned by as a grid.
    #[test]
    fn who_sleeps_for_a_time_is_planned_by_its_gap_alone() {
        let late = |k: i64| 30 + k * 7_919 % 401;
        let sleeps = history((0..600).map(|k| 11_000 + late(k)));
        let on_grid = history((0..600).map(|k| 11_000 + late(k + 1) - late(k)));
        let found = |history: &ThreadHistory| rhythm(history, Release::Unspecified, 0.01);
        assert!(is_on_no_grid(Release::Unspecified, &found(&sleeps)));
        assert!(!is_on_no_grid(Release::Sporadic { gap: Nanos::from_millis(10) }, &found(&sleeps)));
        assert!(!is_on_no_grid(Release::Unspecified, &found(&on_grid)));
        let instead = gap_instead(sleep::of(&found(&sleeps).history).unwrap());
        assert!(instead.contains("`gap = \"11ms\"`") || instead.contains("`gap = \"10ms\"`"), "{instead}");
    }

    /// One of eight threads was reserved once, and the promise given for all of the program.
    #[test]
    fn what_one_thread_of_several_cannot_guarantee_is_refused() {
        let role = |rank| ThreadRole { comm: "enc".to_owned(), rank };
        let mut task = Task::periodic("t", Nanos::from_millis(40), TimeDistribution::Constant(Nanos::ZERO));
        task.promises = ["response <= 40ms @ 99%", "share >= 60%"]
            .iter()
            .map(|text| Promise::parse(text).unwrap())
            .collect();
        let workload = Workload { tasks: vec![task], ..Workload::default() };
        for (part, others, refused) in [(1.0, 0, 0), (0.9, 1, 1), (0.125, 7, 2)] {
            let each = (1.0 - part) / f64::from(others.max(1));
            let others = (0..others).map(|rank| (role(rank as u32 + 1), each)).collect();
            let worker = Worker { role: role(0), tids: Vec::new(), part, others };
            let mut learnt = Learnt {
                release: Release::Unspecified,
                fit: None,
                objections: Vec::new(),
                remedy: None,
                of_share: None,
                share: 0.1,
            };
            Found { worker, busiest: role(0) }.hold_against_threads(&mut learnt);
            let found = contradicted(&workload, &BTreeMap::from([("t".to_owned(), learnt)]));
            assert_eq!(found.len(), refused, "{part}: {found:?}");
            assert!(found.iter().all(|r| r.because.contains("on one thread")), "{found:?}");
            let is_offered = |r: &Refusal| r.nearest[0].contains("share >= 13%");
            assert_eq!(found.iter().any(is_offered), refused == 1, "{found:?}");
        }
    }
}
