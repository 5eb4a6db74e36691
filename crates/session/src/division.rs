//! Programs whose work several threads do: each such thread becomes a task of its own, with its part of what was promised.
//!
//! A share of the whole is the sum of the threads' shares, by their parts of the CPU time that was measured. A promise about
//! jobs is given for each thread's own jobs, and for all of them or for none: where threads wake each other, what is proven
//! of each says nothing of the way through them.

use surety_analysis::RootDomain;
use surety_fit::naming::Names;
use surety_fit::worker;
use surety_model::plan::Refusal;
use surety_model::platform::Platform;
use surety_model::promise::{Bound, Metric, Promise};
use surety_model::record::{Record, ThreadSeen};
use surety_model::wakeups::is_about_jobs;
use surety_model::workload::{Task, TaskBody, ThreadMatch, ThreadRole, Workload};
use surety_units::{Bandwidth, Nanos};

use crate::workers::offer;

/// The other threads of a program may do so much of its work, as a part of its CPU time.
const REST_MAX: f64 = 0.01;
/// More threads than this are not reserved one by one.
const THREADS_MAX: usize = 64;
/// A thread gets at least this part of a CPU: under a reservation it can use no more.
const SHARE_MIN: f64 = 0.01;
/// The clocks of running threads are brought up to date on ticks: what a program used may be told wrong by two of 4 ms.
const CLOCK_ERROR: Nanos = Nanos::from_millis(8);

/// A thread that does a part of a program's work.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    role: ThreadRole,
    /// Of the CPU time of those that are reserved.
    part: f64,
}

/// What was made of the programs of a workload.
#[derive(Default)]
pub struct Division {
    /// Whether tasks were added.
    pub is_divided: bool,
    /// Promises that cannot be divided.
    pub refusals: Vec<Refusal>,
}

/// Gives every thread that does a considerable part of a program's work a task of its own. Programs whose work one thread
/// does keep it as their worker; so do those in which one process after another does it.
pub fn divide(workload: &mut Workload, record: &Record) -> Division {
    let mut division = Division::default();
    let mut names = Names::default();
    workload.activities().iter().for_each(|activity| drop(names.give(activity.name)));
    let programs: Vec<String> = undivided(workload).map(|task| task.name.clone()).collect();
    for name in programs {
        let threads = record.activity(&name).map(|a| a.threads.as_slice()).unwrap_or_default();
        let Some(task) = workload.tasks.iter_mut().find(|task| task.name == name) else { continue };
        if let Some(because) = untraced(task, record) {
            division.refusals.extend(without_promises(task, &because));
        }
        if let TaskBody::Command(program) = &mut task.body {
            let is_one = parts(threads).is_ok_and(|parts| parts.len() < 2) || takes_turns(threads);
            if program.worker.is_some() {
                continue;
            }
            if is_one || task.promises.is_empty() {
                program.worker = worker::busiest(threads).map(|found| found.role);
                continue;
            }
        } else if task.promises.is_empty() {
            continue;
        }
        match parts(threads) {
            Ok(parts) => {
                let made = tasks_of(task, &parts, &mut names, &mut division.refusals);
                division.is_divided |= !made.is_empty();
                task.promises.retain(|promise| promise.metric == Metric::Share);
                workload.tasks.extend(made);
            }
            Err(because) => {
                let refused = task.promises.iter().map(|promise| refusal(&name, promise, because.clone()));
                division.refusals.extend(refused);
            }
        }
    }
    division
}

/// Whether threads of a task's program are tasks of their own: then these are planned, and what is promised of the whole is
/// measured.
pub fn has_threads(workload: &Workload, task: &Task) -> bool {
    workload.threads_of(&task.name).next().is_some()
}

/// The same without programs whose threads are planned one by one.
pub fn without_wholes(workload: &Workload) -> Workload {
    let tasks = workload.tasks.iter().filter(|task| !has_threads(workload, task)).cloned().collect();
    Workload { tasks, ..workload.clone() }
}

/// The same without promises that were refused. One that was refused of a program is refused of all its threads, which
/// `declared` names.
pub fn without_refused(workload: &Workload, declared: &Workload, refused: &[Refusal]) -> Workload {
    let mut left = workload.clone();
    for task in &mut left.tasks {
        let of = declared.task(&task.name).and_then(Task::thread_of).map(|(of, _)| of.to_owned());
        let name = task.name.clone();
        let is_of = |r: &&Refusal| r.activity == name || Some(&r.activity) == of.as_ref();
        task.promises.retain(|promise| !refused.iter().filter(is_of).any(|r| r.promise == *promise));
    }
    left
}

/// One refusal of a promise about jobs for each program, in place of those of its threads.
pub fn gather(workload: &Workload, refusals: Vec<Refusal>, used: impl Fn(&Task) -> f64) -> Vec<Refusal> {
    let mut gathered: Vec<Refusal> = Vec::new();
    for refusal in refusals {
        let of = workload.task(&refusal.activity).and_then(Task::thread_of);
        let is_of_jobs = is_about_jobs(refusal.promise.metric);
        let Some(whole) = of.filter(|_| is_of_jobs).and_then(|(of, _)| workload.task(of)) else {
            gathered.push(refusal);
            continue;
        };
        let because = format!("{}: {}", refusal.activity, refusal.because);
        let same = |r: &&mut Refusal| r.activity == whole.name && r.promise == refusal.promise;
        match gathered.iter_mut().find(same) {
            Some(found) => found.because = format!("{}; {because}", found.because),
            None => gathered.push(Refusal {
                activity: whole.name.clone(),
                because: format!(
                    "what is promised of a program is promised of all threads that do its work, and {because}"
                ),
                nearest: vec![offer(whole, used(whole))],
                ..refusal
            }),
        }
    }
    gathered
}

/// Programs whose threads together use more than can be reserved: no reservation for each of them keeps its jobs in time.
pub fn too_much(workload: &Workload, record: &Record, platform: &Platform) -> Vec<Refusal> {
    let free = RootDomain::to_share(platform).free() as f64 / Bandwidth::ONE.to_kernel() as f64;
    let used_by = |task: &Task| {
        let share = record.activity(&task.name).and_then(|activity| activity.share_received());
        share.unwrap_or(0.0)
    };
    let mut refusals = Vec::new();
    for whole in workload.tasks.iter().filter(|task| has_threads(workload, task)) {
        let threads: Vec<&Task> = workload.threads_of(&whole.name).collect();
        let used: f64 = threads.iter().map(|task| used_by(task)).sum();
        let promises = threads.first().map(|task| task.promises.as_slice()).unwrap_or_default();
        for promise in promises.iter().filter(|promise| is_about_jobs(promise.metric) && used > free) {
            let because = format!(
                "its {} threads used {:.1} % of a CPU together as they are, and {:.1} % can be reserved on this machine",
                threads.len(),
                used * 100.0,
                free * 100.0
            );
            refusals.push(refusal(&whole.name, promise, because));
        }
    }
    refusals
}

/// Programs of which no thread is a task of its own.
fn undivided(workload: &Workload) -> impl Iterator<Item = &Task> {
    workload.tasks.iter().filter(|task| task.is_program() && !has_threads(workload, task))
}

/// Whether promises of a program would be refused because its trace lacks CPU time: another run may have it.
pub fn lacks_events(workload: &Workload, record: &Record) -> bool {
    let mut promised = undivided(workload).filter(|task| !task.promises.is_empty());
    promised.any(|task| untraced(task, record).is_some())
}

/// Why the threads of a program in a trace may not be all that did its work: its CPU time is more than theirs.
fn untraced(task: &Task, record: &Record) -> Option<String> {
    if matches!(&task.body, TaskBody::Command(program) if program.worker.is_some()) {
        return None;
    }
    let activity = record.activity(&task.name)?;
    let used = activity.share.as_ref()?.run();
    let traced: Nanos = activity.threads.iter().map(|thread| thread.run).sum();
    let lacks = used - traced;
    // What a single thread did is no other's, whatever was left out of it.
    let is_complete = activity.threads.len() < 2
        || lacks <= CLOCK_ERROR + Nanos::from_f64_rounded(used.get() as f64 * REST_MAX);
    (!is_complete).then(|| {
        format!(
            "the trace shows {traced} of the {used} of CPU time that it used: the kernel left events of its threads out, and \
             which of them did the rest is not known; measure again"
        )
    })
}

/// Takes the promises out of a task; what they are refused with. A share, too: the thread that does the rest would get none of it.
fn without_promises(task: &mut Task, because: &str) -> Vec<Refusal> {
    let promises = std::mem::take(&mut task.promises);
    promises.iter().map(|promise| refusal(&task.name, promise, because.to_owned())).collect()
}

/// The threads that do the work, the busiest first; `Err`: why they cannot be reserved one by one.
fn parts(threads: &[ThreadSeen]) -> Result<Vec<Part>, String> {
    if threads.is_empty() {
        return Err("which of its threads do the work was not seen, as this user may not record other programs: run as root, \
                    or name the one that does with `worker = { comm = \"NAME\" }`"
            .to_owned());
    }
    let Some(busiest) = worker::busiest(threads) else {
        return Err(
            "none of its threads used CPU time while it was measured: start its work, or measure longer"
                .to_owned(),
        );
    };
    let mut parts = vec![Part { role: busiest.role, part: busiest.part }];
    let mut rest = 1.0 - busiest.part;
    for (role, part) in busiest.others.into_iter().take_while(|(_, part)| *part > 0.0) {
        if rest <= REST_MAX {
            break;
        }
        rest -= part;
        parts.push(Part { role, part });
    }
    if parts.len() > THREADS_MAX {
        return Err(format!(
            "its work is done by {} threads, and at most {THREADS_MAX} are reserved one by one",
            parts.len()
        ));
    }
    let turns = |part: &&Part| threads.iter().filter(|t| t.role == part.role).count() > 1;
    if let Some(Part { role, .. }) = parts.iter().find(turns) {
        let count = threads.iter().filter(|t| t.role == *role).count();
        return Err(format!(
            "its threads come and go: {count} threads {role} ran one after another, and a reservation is not inherited; let it \
             keep its threads, where it has an option for that"
        ));
    }
    let sum: f64 = parts.iter().map(|part| part.part).sum();
    parts.iter_mut().for_each(|part| part.part /= sum);
    Ok(parts)
}

/// Whether one thread after another did most of the work.
fn takes_turns(threads: &[ThreadSeen]) -> bool {
    worker::busiest(threads).is_some_and(|busiest| busiest.tids.len() > 1)
}

/// A task for each thread, with its part of what is promised.
fn tasks_of(whole: &Task, parts: &[Part], names: &mut Names, refusals: &mut Vec<Refusal>) -> Vec<Task> {
    let mut promises_of = vec![Vec::new(); parts.len()];
    for promise in &whole.promises {
        match divided(promise, parts) {
            Ok(each) => promises_of.iter_mut().zip(each).for_each(|(own, part)| own.push(part)),
            Err(because) => refusals.push(refusal(&whole.name, promise, because)),
        }
    }
    if promises_of.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let task = |(part, promises): (&Part, Vec<Promise>)| Task {
        name: names.give(&format!("{}-{}", whole.name, part.role.comm)),
        body: TaskBody::Match(ThreadMatch::Of { task: whole.name.clone(), role: part.role.clone() }),
        promises,
        ..whole.clone()
    };
    parts.iter().zip(promises_of).map(task).collect()
}

/// What each thread has to be promised for the whole to have this.
fn divided(promise: &Promise, parts: &[Part]) -> Result<Vec<Promise>, String> {
    /// Shares are rounded up to this part of a CPU.
    const GRAIN: f64 = 10_000.0;
    /// What floating point may add to a whole number of these.
    const ERROR: f64 = 1e-6;
    match (promise.metric, promise.bound) {
        (metric, _) if is_about_jobs(metric) => Ok(vec![*promise; parts.len()]),
        (Metric::Share, Bound::Share(share)) => {
            let of = |part: &Part| {
                let units = (share.as_f64() * part.part).max(SHARE_MIN.min(share.as_f64())) * GRAIN - ERROR;
                let share = Bandwidth::new(units.ceil() as u64, GRAIN as u64).unwrap_or(Bandwidth::ONE);
                match share > Bandwidth::ONE {
                    true => Err(format!(
                        "thread {} would need {share} of a CPU, and a thread runs on one at a time",
                        part.role
                    )),
                    false => Ok(Promise { bound: Bound::Share(share), ..*promise }),
                }
            };
            parts.iter().map(of).collect()
        }
        _ => {
            Err("it cannot be divided among the threads of a program: promise a share, or a response"
                .to_owned())
        }
    }
}

fn refusal(activity: &str, promise: &Promise, because: String) -> Refusal {
    Refusal {
        activity: activity.to_owned(),
        promise: *promise,
        because,
        nearest: Vec::new(),
        more_jobs: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::record::{ActivityRecord, Basis, Share};
    use surety_model::workload::ActivityKind;
    use surety_model::workload::Program;
    use surety_units::Tid;

    fn seen(tid: i32, comm: &str, rank: u32, ms: i64) -> ThreadSeen {
        let role = ThreadRole { comm: comm.to_owned(), rank };
        ThreadSeen { tid: Tid(tid), role, run: Nanos::from_millis(ms) }
    }

    fn program(promises: &[&str], threads: Vec<ThreadSeen>) -> (Workload, Record) {
        let mut task = Task::periodic("enc", Nanos::from_millis(40), TimeDistribution::Constant(Nanos::ZERO));
        task.body = TaskBody::Command(Program::new("enc"));
        task.promises = promises.iter().map(|text| Promise::parse(text).unwrap()).collect();
        let activity =
            ActivityRecord { threads, ..ActivityRecord::new("enc", ActivityKind::Task, Basis::Sample) };
        let record = Record { world: "host".to_owned(), activities: vec![activity], ..Record::default() };
        (Workload { tasks: vec![task], ..Workload::default() }, record)
    }

    /// One of eight threads was reserved once, and the promise given for all of the program.
    #[test]
    fn every_thread_that_works_gets_its_part_of_the_share_and_all_of_the_response() {
        let mut threads: Vec<ThreadSeen> =
            (0..8).map(|rank| seen(10 + rank as i32, "work", rank, 100)).collect();
        threads.push(seen(9, "main", 0, 200));
        threads.push(seen(8, "looks-in", 0, 5));
        let (mut workload, record) = program(&["share >= 50%", "response <= 40ms @ 99%"], threads);
        let division = divide(&mut workload, &record);
        assert!(division.is_divided && division.refusals.is_empty());
        let tasks: Vec<&Task> = workload.threads_of("enc").collect();
        assert_eq!(tasks.len(), 9);
        assert_eq!(tasks[0].name, "enc-main");
        let shares: Vec<f64> = tasks
            .iter()
            .map(|task| match task.promises[0].bound {
                Bound::Share(share) => share.as_f64(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((shares[0], shares[1]), (0.1, 0.05));
        assert!(shares.iter().sum::<f64>() >= 0.5 - 1e-9, "{shares:?}");
        assert!(tasks.iter().all(|task| task.promises[1].to_string() == "response <= 40 ms @ 99 %"
            || task.promises[1] == Promise::parse("response <= 40ms @ 99%").unwrap()));
        // The whole keeps its share, to be measured, and is not planned itself.
        assert_eq!(workload.task("enc").unwrap().promises.len(), 1);
        assert!(without_wholes(&workload).task("enc").is_none());
        // What is refused of the whole is asked of no thread.
        let refused = refusal("enc", &Promise::parse("response <= 40ms @ 99%").unwrap(), String::new());
        let left = without_refused(&workload, &workload, &[refused]);
        assert!(left.threads_of("enc").all(|task| task.promises.len() == 1));
    }

    /// A plan for one of two threads was made where the kernel had left every switch of the other one out of the trace.
    #[test]
    fn nothing_is_promised_of_a_program_where_its_trace_lacks_cpu_time_of_it() {
        let used = |ms| Some(Share { threads: vec![(Nanos::from_millis(ms), None)], span: Nanos::SECOND });
        let promises = ["share >= 10%", "response <= 40ms @ 99%"];
        // As it was: 111 of 153 ms.
        for (traced, ms, is_refused) in
            [(111, 153, true), (150, 153, false), (900, 918, true), (900, 910, false)]
        {
            let (mut workload, mut record) =
                program(&promises, vec![seen(1, "a", 0, traced), seen(2, "b", 0, 0)]);
            record.activities[0].share = used(ms);
            let refused = divide(&mut workload, &record).refusals;
            assert_eq!(refused.len(), if is_refused { 2 } else { 0 }, "{traced} of {ms} ms: {refused:?}");
            assert_eq!(workload.tasks[0].promises.len(), 2 - refused.len());
            let says_how_much =
                |r: &Refusal| r.because.contains(&format!("shows {traced}.0 ms of the {ms}.0 ms"));
            assert!(refused.iter().all(says_how_much), "{refused:?}");
            // Who says which thread does the work knows.
            let (mut workload, mut record) =
                program(&promises, vec![seen(1, "a", 0, traced), seen(2, "b", 0, 0)]);
            record.activities[0].share = used(ms);
            let TaskBody::Command(program_of) = &mut workload.tasks[0].body else { panic!("a program") };
            program_of.worker = Some(ThreadRole { comm: "a".to_owned(), rank: 0 });
            assert!(divide(&mut workload, &record).refusals.is_empty());
        }
    }

    #[test]
    fn one_worker_stays_a_worker_and_threads_that_come_and_go_are_told() {
        let (mut workload, record) =
            program(&["share >= 50%"], vec![seen(1, "a", 0, 995), seen(2, "b", 0, 5)]);
        assert!(!divide(&mut workload, &record).is_divided);
        let TaskBody::Command(program_of) = &workload.tasks[0].body else { panic!("a program") };
        assert_eq!(program_of.worker.as_ref().unwrap().comm, "a");
        let turns = vec![seen(1, "a", 0, 500), seen(2, "b", 0, 200), seen(3, "b", 0, 300)];
        let (mut workload, record) = program(&["share >= 50%"], turns.clone());
        workload.tasks[0].body = TaskBody::Match(ThreadMatch::Process(7));
        let division = divide(&mut workload, &record);
        assert!(!division.is_divided);
        assert!(
            division.refusals[0].because.contains("2 threads `b` ran one after another"),
            "{:?}",
            division.refusals
        );
        // Each thread runs on one CPU at a time.
        let (mut workload, record) =
            program(&["share >= 150%"], vec![seen(1, "a", 0, 800), seen(2, "b", 0, 200)]);
        let division = divide(&mut workload, &record);
        assert!(
            division.refusals[0].because.contains("would need 120.00 % of a CPU"),
            "{:?}",
            division.refusals
        );
    }

    #[test]
    fn a_promise_about_jobs_is_given_for_all_threads_or_for_none() {
        let threads = vec![seen(1, "a", 0, 500), seen(2, "b", 0, 500)];
        let (mut workload, record) = program(&["response <= 40ms @ 99%"], threads);
        divide(&mut workload, &record);
        let promise = workload.tasks[1].promises[0];
        let of_threads = vec![
            refusal("enc-a", &promise, "it has no period".to_owned()),
            refusal("enc-b", &promise, "it is woken by a".to_owned()),
        ];
        let gathered = gather(&workload, of_threads, |_| 0.39);
        assert_eq!(gathered.len(), 1, "{gathered:?}");
        assert_eq!(gathered[0].activity, "enc");
        assert!(gathered[0].because.contains("enc-a: it has no period; enc-b: it is woken by a"));
        assert!(gathered[0].nearest[0].contains("share >= 43%"), "{gathered:?}");
    }
}
