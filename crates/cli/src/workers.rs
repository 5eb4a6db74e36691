//! [`Workers`]: which thread of each program does its work, as a run showed it, and what is fitted from it.

use std::collections::BTreeMap;

use surety_fit::worker::{self, Rhythm, Worker, rhythm};
use surety_fit::{FittedTask, ReleaseFit, fit_thread};
use surety_model::job::ThreadHistory;
use surety_model::record::Record;
use surety_model::workload::{Release, Task, TaskBody, ThreadRole, Workload};

use crate::session::Session;

/// Another thread with this part of the program's CPU time is worth a word: it has no reservation.
const WORTH_A_WORD: f64 = 0.05;

/// What was learnt of a task from a trace.
pub struct Learnt {
    /// When its jobs are released.
    pub release: Release,
    /// Its work, where that could be fitted.
    pub fit: Option<FittedTask>,
}

/// The workers of the programs of a workload.
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
        for task in &workload.tasks {
            let TaskBody::Command(program) = &task.body else { continue };
            let threads = record.activity(&task.name).map(|a| a.threads.as_slice()).unwrap_or_default();
            let Some(busiest) = worker::busiest(threads) else { continue };
            let role = program.worker.clone().unwrap_or_else(|| busiest.role.clone());
            let of_role: Vec<_> = threads.iter().filter(|t| t.role == role).collect();
            let part = match role == busiest.role {
                true => busiest.part,
                false => {
                    busiest.others.iter().find(|(other, _)| *other == role).map_or(0.0, |(_, part)| *part)
                }
            };
            let mut all = busiest.others.clone();
            all.insert(0, (busiest.role.clone(), busiest.part));
            all.retain(|(other, _)| *other != role);
            let tids = of_role.iter().map(|t| t.tid).collect();
            let worker = Worker { role, tids, part, others: all };
            found.insert(task.name.clone(), Found { worker, busiest: busiest.role });
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
    /// Says who the worker is and fits its jobs; what cannot be fitted is noted and planned as declared.
    pub fn learn(&self, task: &Task, histories: &[ThreadHistory], session: &Session) -> Option<Learnt> {
        let Worker { role, tids, part, others } = &self.worker;
        let (name, percent) = (&task.name, |part: f64| format!("{:.0} %", part * 100.0));
        let own: Vec<&ThreadHistory> =
            tids.iter().filter_map(|tid| histories.iter().find(|h| h.tid == *tid)).collect();
        let is_it = |who: &str, does: &str| {
            session.step(&format!(
                "{name}: the worker is {who}, {} of the program's CPU time, {does}",
                percent(*part)
            ));
        };
        let learnt = match own.as_slice() {
            [] => {
                session.note(&format!("{name}: no trace of its worker {role}; planned as declared"));
                return None;
            }
            [history] => {
                let found = rhythm(history);
                let fit = fit_rhythm(task, &found);
                let work = fit.as_ref().ok().map(|fit| &fit.work);
                is_it(&format!("thread {role} ({})", history.tid), &found.describe(work));
                match &fit {
                    Ok(fit) => {
                        // The rhythm says it better: polling hides the period from the rule of single releases.
                        let rule = fit.release.as_ref().map(ReleaseFit::describe);
                        let notes = fit.notes.iter().filter(|note| Some(*note) != rule.as_ref());
                        notes.for_each(|note| session.note(&format!("{name}: {note}")));
                    }
                    Err(why) => session.note(&format!("{name}: {why}")),
                }
                let release = period_of(&found).unwrap_or_default();
                Some(Learnt { release, fit: fit.ok() })
            }
            turns => {
                is_it(&format!("{} threads {role}, one after another", turns.len()), "no period of its own");
                session.note(&format!(
                    "{name}: a reservation is not inherited, so each of them gets it a moment after it began, which no \
                     proof covers"
                ));
                None
            }
        };
        for (other, part) in others.iter().filter(|(_, part)| *part >= WORTH_A_WORD) {
            session.note(&format!(
                "{name}: thread {other} does {} of its CPU time and stays without a reservation",
                percent(*part)
            ));
        }
        learnt
    }
}

/// The release rule of a rhythm, when it is a period: the shortest distance ever seen is none to plan by.
fn period_of(found: &Rhythm) -> Option<Release> {
    let release = found.release.as_ref()?.release;
    matches!(release, Release::Periodic { .. }).then_some(release)
}

/// The work of the jobs in a rhythm; the error is one sentence.
fn fit_rhythm(task: &Task, found: &Rhythm) -> Result<FittedTask, String> {
    let mut hint = task.clone();
    if let (Release::Unspecified, Some(release)) = (hint.release, period_of(found)) {
        hint.release = release;
    }
    fit_thread(&found.history, Some(&hint)).map_err(|error| error.to_string())
}
