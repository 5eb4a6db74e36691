//! From what was seen of a program to its workload file: [`draw`]. Pure: what was seen comes in, text goes out.
//!
//! One thread that does nearly all of the work and wakes on a grid has jobs: a response within the period is promised. All else
//! (several threads that work, no grid, no sleep at all, events that could not be seen) gets a share of a CPU, by what it used. What was
//! seen of each thread stands in comments, with the line that makes a task for the simulator of it. A thread that sleeps for a time, and not
//! until an instant, drifts and has no period; that time is its smallest inter-arrival time, and counts as one ([`surety_fit::sleep`]).

use surety_fit::naming::Names;
use surety_fit::policy::policy_of;
use surety_fit::sleep;
use surety_fit::worker::{self, rhythm};
use surety_fit::{JOBS_MIN, fit_thread};
use surety_host::watching::{Sight, WatchedThread, Watching};
use surety_model::distribution::{TimeDistribution, log_normal_parameters};
use surety_model::formats::toml::{self, Comments};
use surety_model::job::ThreadHistory;
use surety_model::platform::Platform;
use surety_model::promise::Promise;
use surety_model::record::ThreadSeen;
use surety_model::wakeups::{Account, CONTRADICTING, OUTSIDE_MAX, View};
use surety_model::workload::{PolicySpec, Release, Task, TaskBody, ThreadRole, Work, Workload};
use surety_session::histories::Histories;
use surety_stats::Sample;
use surety_units::Nanos;

use super::places;
use super::share::{self, Share};

/// The part of the activations that may be late by the promise that is written.
const LATE: f64 = 0.01;
/// A thread that is ready or running for this part of the time never waits: it takes what it gets.
const ENDLESS: f64 = 0.95;
/// Less of a CPU than this is next to nothing.
const IDLE: f64 = 0.0005;
/// Threads with less of a CPU than this get no line.
const NEXT_TO_NOTHING: f64 = 0.00005;
/// Names of threads that get one.
const NAMED: usize = 12;

/// What the file is about.
pub struct Subject<'a> {
    /// How the program is found again.
    pub body: TaskBody,
    /// What it is called, not yet as a name of a file.
    pub name: &'a str,
    /// One line more for the head, such as for how long a process number is good.
    pub caveat: Option<String>,
    /// This machine, with what is reserved on it.
    pub platform: &'a Platform,
    /// What the file will be called, for the commands in it.
    pub file: &'a str,
}

/// A file that was drawn.
pub struct Portrait {
    /// The workload as text.
    pub text: String,
    /// What was found, in one sentence.
    pub found: String,
}

/// Why nothing was drawn, and what to do.
#[derive(Debug)]
pub struct TooLittle {
    pub what: String,
    pub remedy: &'static str,
}

/// What was found of the thread that does most of the work.
enum Rule {
    /// When its jobs come, and notes for the file.
    Jobs(Release, Vec<String>),
    /// Why there is no period.
    Without(String),
}

/// Draws the file.
///
/// # Errors
/// It used next to no CPU time and has no rhythm either.
pub fn draw(subject: &Subject<'_>, seen: &Watching, histories: &Histories) -> Result<Portrait, TooLittle> {
    let span = seen.window.1 - seen.window.0;
    let of_threads: Nanos = seen.threads.iter().map(|thread| thread.run).sum();
    let used = seen.used.max(of_threads).get() as f64 / span.get().max(1) as f64;
    let rule = rule_of(seen, histories, subject.platform);
    if used < IDLE && matches!(rule, Rule::Without(_)) {
        let waits = seen.threads.first().and_then(|thread| places::in_words(&thread.places));
        let waits = waits.map_or_else(String::new, |what| format!("; it waits for {what}"));
        return Err(TooLittle {
            what: format!(
                "{} used {:.3} % of a CPU in {}: it slept{waits}",
                subject.name,
                used * 100.0,
                in_millis(span)
            ),
            remedy: "give it work while it is watched, watch it for longer with --for, or start from --template",
        });
    }
    let name = Names::default().give(subject.name);
    let template = Task::periodic(&name, Nanos::SECOND, TimeDistribution::Constant(Nanos::ZERO));
    let mut task = Task { body: subject.body.clone(), release: Release::Unspecified, ..template };
    if let (TaskBody::Command(program), false) = (&mut task.body, seen.sight == Sight::Tracer) {
        // Who may not trace could not have it found by `guarantee` either.
        program.worker = worker_alone(seen);
    }
    let (promise, found, mut lines) = match rule {
        Rule::Jobs(release, notes) => {
            task.release = release;
            let interval = release.interval().unwrap_or(Nanos::SECOND);
            let promise =
                format!("response <= {} @ {:.0}%", interval.to_exact_string(), (1.0 - LATE) * 100.0);
            let at_least = if matches!(release, Release::Sporadic { .. }) { "at least " } else { "" };
            (promise, format!("a job every {at_least}{interval}, {:.2} % of a CPU", used * 100.0), notes)
        }
        Rule::Without(why) => {
            let share = share_of(&task, seen, histories, (used, subject.platform));
            let mut notes = vec![format!("No response time is promised: {why}.")];
            notes.extend(share.notes);
            let found = format!("no period, {:.2} % of a CPU", used * 100.0);
            (share::in_words(share.percent), found, notes)
        }
    };
    task.promises.push(Promise::parse(&promise).expect("a promise made of numbers reads"));
    lines.extend(of_threads_in_words(seen, histories));
    lines.extend(class_of_its_own(&task, seen, histories));
    let mut comments = Comments::new();
    comments.insert(String::new(), head(subject, seen, (used, &found, &longer_run(task.release))));
    comments.insert(format!("task.{name}"), lines);
    let title = Some(format!("{}, watched for {}", subject.name, in_millis(span)));
    let workload = Workload { title, tasks: vec![task], ..Workload::default() };
    Ok(Portrait { text: toml::write_commented(&workload, &comments), found })
}

/// The share that is promised, by what was seen of the program's threads.
fn share_of(
    task: &Task,
    seen: &Watching,
    histories: &Histories,
    (used, platform): (f64, &Platform),
) -> Share {
    let threads = as_seen(seen);
    let busiest = worker::busiest(&threads).map(|found| found.tids).unwrap_or_default();
    let is_endless =
        seen.threads.iter().any(|thread| busiest.contains(&thread.tid) && is_endless(thread, seen.window));
    let release = |thread: &WatchedThread| {
        let history = inside(histories.of(thread.tid)?, seen.window);
        Some((thread.role.clone(), rhythm(&history, Release::Unspecified, 0.0).period()?))
    };
    let releases = seen.threads.iter().filter_map(release).collect();
    let program = share::Program { task, threads: &threads, releases: &releases, used, is_endless };
    share::promised(&program, platform)
}

/// A time to the millisecond.
fn in_millis(time: Nanos) -> String {
    (Nanos::MILLISECOND * time.div_floor(Nanos::MILLISECOND)).to_exact_string()
}

/// What runs need to be told so that they hold enough jobs; nothing where they do anyhow.
fn longer_run(release: Release) -> String {
    /// Twice the jobs without which a quantile of 99 % has no bound: `ln 0.05 / ln 0.99`.
    const JOBS: i64 = 600;
    /// What runs last unless it is said.
    const USUAL: Nanos = Nanos::from_secs(25);
    let needed = release.interval().and_then(|interval| interval.checked_mul(JOBS)).unwrap_or(Nanos::ZERO);
    if needed <= USUAL { String::new() } else { format!(" --for {}s", needed.div_ceil(Nanos::SECOND)) }
}

/// How it was watched, what could not be seen, and what to type next.
fn head(subject: &Subject<'_>, seen: &Watching, (used, found, longer): (f64, &str, &str)) -> Vec<String> {
    let span = seen.window.1 - seen.window.0;
    let by = match seen.sight {
        Sight::Tracer => "every event of the scheduler",
        Sight::OwnSwitches => "when its threads got and lost a CPU, by performance events",
        Sight::Samples => "CPU times of /proc alone",
    };
    let mut lines = vec![
        format!("{}: {found}. Watched for {}: {by}.", subject.name, in_millis(span)),
        String::new(),
        format!("  surety run {0}{longer}                 how it does on this machine", subject.file),
        format!(
            "  sudo surety guarantee {0}{longer}      measure, plan, prove, enforce, measure again",
            subject.file
        ),
        String::new(),
    ];
    match seen.sight {
        Sight::Tracer => {}
        Sight::OwnSwitches => lines.push(
            "Not seen: who woke it, and how long it waited for a CPU: jobs begin where it got one, and on a busy machine that \
             hides a period. Root sees all."
                .to_owned(),
        ),
        Sight::Samples => lines.push(
            "Not seen: single jobs, and so no period. Root sees them, and so does the user whose program it is."
                .to_owned(),
        ),
    }
    lines.extend(seen.unseen.iter().map(|why| format!("({why})")));
    if seen.lost > 0 {
        lines.push(format!("The kernel lost {} events: jobs may be missing.", seen.lost));
    }
    if let Some((status, after, _)) = &seen.ended {
        lines.push(format!(
            "The command ended after {after} with {status}: give runs of it less time, with --warm-up and --for."
        ));
    }
    lines.extend(subject.caveat.clone());
    if used > 0.0 && seen.threads.is_empty() {
        lines.push("No thread of it lived long enough to be looked at.".to_owned());
    }
    lines
}

/// Threads as the search for the busiest takes them.
fn as_seen(seen: &Watching) -> Vec<ThreadSeen> {
    seen.threads.iter().map(|t| ThreadSeen { tid: t.tid, role: t.role.clone(), run: t.run }).collect()
}

/// The thread that does all of the work but next to nothing.
fn worker_alone(seen: &Watching) -> Option<ThreadRole> {
    let busiest = worker::busiest(&as_seen(seen))?;
    (busiest.part >= 1.0 - OUTSIDE_MAX && busiest.tids.len() == 1).then_some(busiest.role)
}

/// The rule by which the program's work comes.
fn rule_of(seen: &Watching, histories: &Histories, platform: &Platform) -> Rule {
    let threads = as_seen(seen);
    let without = |why: &str| Rule::Without(why.to_owned());
    let Some(busiest) = worker::busiest(&threads) else {
        return without("no thread of it used CPU time while it was watched");
    };
    let elsewhere: f64 = busiest.others.iter().map(|(_, part)| part).sum();
    if elsewhere > OUTSIDE_MAX {
        let all = busiest.others.iter().filter(|(_, part)| *part > 0.0).count() + 1;
        return Rule::Without(format!(
            "{all} threads do its work, {} {:.0} % of it, and a response through several is proven of none",
            busiest.role,
            busiest.part * 100.0
        ));
    }
    let [tid] = busiest.tids.as_slice() else {
        return Rule::Without(format!(
            "{} threads {} did its work, one after another",
            busiest.tids.len(),
            busiest.role
        ));
    };
    if seen.threads.iter().any(|thread| thread.tid == *tid && is_endless(thread, seen.window)) {
        return without("it never waits: it wants a CPU all the time");
    }
    if seen.sight == Sight::Samples {
        return without("single jobs could not be seen");
    }
    match histories.of(*tid) {
        Some(history) => rule_of_thread(history, seen.window, platform),
        None => without("nothing was recorded of the thread that does its work"),
    }
}

/// Jobs that begin while it was watched.
fn inside(history: &ThreadHistory, window: (Nanos, Nanos)) -> ThreadHistory {
    let jobs = history.jobs.iter().filter(|job| (window.0..window.1).contains(&job.release));
    ThreadHistory { jobs: jobs.copied().collect(), ..history.clone() }
}

/// Whether it hardly ever slept, by the kernel's own account of its time on CPUs and in their queues.
fn is_endless(thread: &WatchedThread, window: (Nanos, Nanos)) -> bool {
    (thread.run + thread.waited).get() as f64 >= ENDLESS * (window.1 - window.0).get() as f64
}

fn rule_of_thread(history: &ThreadHistory, window: (Nanos, Nanos), platform: &Platform) -> Rule {
    let inside = inside(history, window);
    if inside.jobs.len() < JOBS_MIN {
        return Rule::Without(format!(
            "it woke {} times, and a period takes {JOBS_MIN}: watch it for longer with --for",
            inside.jobs.len()
        ));
    }
    let found = rhythm(&inside, Release::Unspecified, CONTRADICTING * LATE);
    let jobs = &found.history;
    let Some(release @ Release::Periodic { period, jitter, .. }) = found.period().filter(|_| !found.drifts)
    else {
        let why = || format!("its {} wake-ups for work come without a period", jobs.jobs.len());
        let Some(sleep) = sleep::of(jobs) else { return Rule::Without(why()) };
        let (release, notes) = (Release::Sporadic { gap: sleep.gap }, vec![sleep.in_words()]);
        return kept_by_a_plan(jobs, release, notes, platform);
    };
    let open = history.open.map(|open| open.release);
    let account = Account::of(&View { busy: &history.jobs, open, window, release });
    if let Some(why) = account.objections().into_iter().next() {
        return Rule::Without(format!("{why} (docs/markers.md)"));
    }
    let mut notes = Vec::new();
    if jitter.is_positive() {
        notes.push(format!("Releases lie up to {jitter} beside the period."));
    }
    notes.extend(found.left_out.iter().map(|left| format!("{left}.")));
    notes.extend(account.contradictions(LATE).iter().map(|why| format!("`guarantee` may refuse: {why}.")));
    let release = Release::Periodic { period, start: Nanos::ZERO, jitter: Nanos::ZERO };
    kept_by_a_plan(jobs, release, notes, platform)
}

/// A response within the interval of these jobs, where this machine can reserve what they need.
fn kept_by_a_plan(
    history: &ThreadHistory,
    release: Release,
    mut notes: Vec<String>,
    platform: &Platform,
) -> Rule {
    let interval = release.interval().unwrap_or(Nanos::SECOND);
    let work = Sample::new(history.jobs.iter().map(|job| job.execution_net().get_unsigned()).collect());
    let usual = work.quantile(1.0 - LATE).map_or(Nanos::ZERO, |ns| Nanos::new(ns.cast_signed()));
    let comes = match release {
        Release::Sporadic { gap } => format!("a job may come {gap} after the one before"),
        _ => format!("a job comes every {interval}"),
    };
    if let Err(why) = share::keeps_response(interval, usual, platform) {
        return Rule::Without(format!(
            "{comes} and may need {usual}, for which this machine has no reservation ({why})"
        ));
    }
    notes.extend(work_of(history, release));
    Rule::Jobs(release, notes)
}

/// What the jobs need, and the line for the simulator: by the family that was recognised, else by mean and 99 % quantile.
fn work_of(history: &ThreadHistory, release: Release) -> Vec<String> {
    let hint = Task::periodic("thread", Nanos::SECOND, TimeDistribution::Constant(Nanos::ZERO));
    let fit = match fit_thread(history, Some(&Task { release, ..hint.clone() })) {
        Ok(fit) => fit,
        Err(why) => return vec![format!("{why}.")],
    };
    let series = &fit.work.net;
    let (mean, p99) = (Nanos::from_f64_rounded(series.mean), series.samples.quantile(0.99));
    let distribution = match series.distribution() {
        TimeDistribution::Empirical { .. } if log_normal_parameters(mean, p99).is_some() => {
            TimeDistribution::LogNormal { mean, p99 }
        }
        TimeDistribution::Empirical { .. } => TimeDistribution::Constant(p99),
        family => family,
    };
    let model = Task { body: TaskBody::Synthetic(Work::Drawn(distribution)), ..hint };
    let text = toml::write(&Workload { tasks: vec![model], ..Workload::default() });
    let line = text.lines().find(|line| line.starts_with("work")).unwrap_or_default();
    vec![
        format!(
            "Work of {} jobs: mean {mean}, 99 % {p99}, largest {}.",
            history.jobs.len(),
            series.maximum()
        ),
        format!("In place of the program, for the simulator and for users without rights: {line}"),
    ]
}

/// A command that takes a real-time class takes itself out of a reservation.
fn class_of_its_own(task: &Task, seen: &Watching, histories: &Histories) -> Option<String> {
    let busiest = seen.threads.iter().max_by_key(|thread| thread.run)?;
    let history = histories.of(busiest.tid).filter(|_| seen.sight == Sight::Tracer)?;
    let policy = policy_of(history.prio);
    let is_realtime = matches!(policy, PolicySpec::Fifo { .. });
    (is_realtime && matches!(task.body, TaskBody::Command(_))).then(|| {
        format!(
            "It takes {policy} itself, and so leaves a reservation: under `guarantee` leave `keep_capabilities` out, so that it may not."
        )
    })
}

/// A line for each name of threads, the busiest first.
fn of_threads_in_words(seen: &Watching, histories: &Histories) -> Vec<String> {
    let span = (seen.window.1 - seen.window.0).get().max(1) as f64;
    let mut groups: Vec<(&str, Vec<&WatchedThread>)> = Vec::new();
    for thread in &seen.threads {
        match groups.iter_mut().find(|(name, _)| *name == thread.role.comm) {
            Some((_, group)) => group.push(thread),
            None => groups.push((&thread.role.comm, vec![thread])),
        }
    }
    let run = |group: &[&WatchedThread]| group.iter().map(|t| t.run).sum::<Nanos>();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(run(group)));
    let line = |(name, group): &(&str, Vec<&WatchedThread>)| {
        let several = if group.len() > 1 { format!(" ({} of them)", group.len()) } else { String::new() };
        let mut line =
            format!("Thread {name}{several}: {:.2} % of a CPU", run(group).get() as f64 / span * 100.0);
        let busiest = group.iter().max_by_key(|thread| thread.run);
        if busiest.is_some_and(|thread| is_endless(thread, seen.window)) {
            line += ", never asleep";
        } else if let Some(history) = busiest.and_then(|thread| histories.of(thread.tid)) {
            // Performance events say nothing of priorities.
            if seen.sight == Sight::Tracer && policy_of(history.prio) != PolicySpec::default() {
                line += &format!(", {}", policy_of(history.prio));
            }
            let history = inside(history, seen.window);
            if history.jobs.len() >= JOBS_MIN {
                line += &format!(", {}", rhythm(&history, Release::Unspecified, 0.0).describe(None));
            }
        } else if let Some(thread) = busiest.filter(|thread| thread.slept > 0) {
            line += &format!(", slept {:.0} times a second", thread.slept as f64 * 1e9 / span);
        }
        let places = group.iter().flat_map(|thread| &thread.places);
        let mut sums = std::collections::BTreeMap::new();
        places.for_each(|(place, count)| *sums.entry(place.clone()).or_default() += count);
        if let Some(what) = places::in_words(&sums) {
            line += &format!("; waits for {what}");
        }
        line + "."
    };
    let idle = |group: &[&WatchedThread]| (run(group).get() as f64) < NEXT_TO_NOTHING * span;
    let named = groups.iter().position(|(_, group)| idle(group)).unwrap_or(groups.len()).min(NAMED);
    let mut lines: Vec<String> = groups[..named].iter().map(line).collect();
    let more: usize = groups[named..].iter().map(|(_, group)| group.len()).sum();
    if more > 0 {
        lines.push(format!("{more} more that did next to nothing or less than these."));
    }
    lines
}
