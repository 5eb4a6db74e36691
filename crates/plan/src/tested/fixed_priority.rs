//! The real-time threads of a workload as tasks of fixed priorities, put to the tests made for them.
//!
//! Above them stand the threads that the plan reserves, each as a task of its budget that comes up to `D - Q` late
//! (its budget may be given at the end of one period and at the beginning of the next) and, where budgets are looked at on
//! the tick, an overrun (`surety_analysis::supply`). A thread that may sleep inside a budget takes up to `Q/T (t + 2T)` of a
//! window of t (`Supply::at_most_waking`): it counts as one that comes up to `2 D` late; and the kernel's fair server, unless it provably stays in the
//! background. Threads of equal priority take turns or wait for each other, so each counts as above the other: one CPU is
//! asked once for each order of them that matters.
//!
//! Jobs of steps are their longest runs. On one CPU locks with inheritance block ([`steps`]), and sleeps are self-suspension; both
//! at once no test here covers. That a thread is not preempted, and that its jobs run in parallel, no workload can say.

mod steps;

use surety_analysis::beside::threads_of;
use surety_analysis::foundation::ReservedThread;
use surety_analysis::overheads::{all_at_most, enforcement, interruptions};
use surety_analysis::schedulability::SporadicTask;
use surety_analysis::schedulability::catalogue::{Question, Scheduler, TESTS};
use surety_analysis::schedulability::suspension::{as_jitter, oblivious};
use surety_analysis::schedulability::task::LONGEST;
use surety_analysis::work::declared_bound;
use surety_analysis::work::drawn_work;
use surety_model::platform::{FairServer, Platform};
use surety_model::reservation::Reservation;
use surety_model::tested::{TestAnswer, Tested, TestedSet};
use surety_model::workload::{Instances, Release, Task, TaskBody, Workload};
use surety_units::Nanos;

use crate::tested::{all, on, shown, sufficient, thread};
use crate::{PlanOptions, Planned};

/// A thread with its priority.
struct Level {
    name: String,
    priority: u32,
    task: SporadicTask,
    /// Locks it holds, each as long as it does at most.
    sections: Vec<(String, Nanos)>,
}

/// The real-time threads that the plan does not reserve; `None` where there are none.
pub(crate) fn tested(workload: &Workload, planned: &Planned, options: &PlanOptions) -> Option<TestedSet> {
    let platform = &options.platform;
    let is_left =
        |task: &&Task| priority(task).is_some() && planned.plan.reservation_of(&task.name).is_none();
    let realtime: Vec<&Task> = workload.tasks.iter().filter(is_left).collect();
    if realtime.is_empty() {
        return None;
    }
    let per_cpu = realtime.iter().filter(|task| matches!(task.instances, Instances::PerCpu(_))).count();
    let cpus = if per_cpu == realtime.len() { 1 } else { platform.cpus };
    let mixed = per_cpu > 0 && cpus > 1;
    let levels: Result<Vec<Vec<Level>>, String> =
        realtime.iter().map(|task| levels_of(task, workload, options)).collect();
    let about = format!(
        "{} real-time task(s) below what is reserved, by fixed priority on {}",
        realtime.len(),
        if cpus < platform.cpus { "one CPU each".to_owned() } else { on(cpus) }
    );
    let mut levels: Vec<Level> = match levels {
        Ok(levels) if !mixed => levels.into_iter().flatten().collect(),
        Ok(_) => {
            let why = "some real-time tasks are bound to a CPU each and some to none: no test covers both";
            return Some(untested(about, why));
        }
        Err(why) => return Some(untested(about, &why)),
    };
    let below = match dependent(&levels, workload, planned, platform) {
        Ok(below) => below,
        Err(why) => return Some(untested(about, &why)),
    };
    // Stable: of equals the first stays first.
    levels.sort_by_key(|level| std::cmp::Reverse(level.priority));
    let budget = |(name, thread): &(String, ReservedThread)| {
        let overrun = if thread.bounded { Nanos::ZERO } else { enforcement(platform).overrun_max() };
        let Reservation { runtime, deadline, .. } = thread.reservation;
        let late = if thread.sleeps { deadline * 2 } else { deadline - runtime };
        budgets(name, thread.reservation, overrun, late)
    };
    let others = threads_of(&planned.plan.platform);
    let mut above: Vec<Level> = planned.threads.iter().chain(&others).flat_map(budget).collect();
    let mut beside = vec!["no other real-time thread of the machine has a priority above theirs".to_owned()];
    let (fair, words) = fair_server(&above, &levels, platform);
    if cpus > 1 && !fair.is_empty() {
        return Some(untested(about, &words));
    }
    above.extend(fair);
    beside.push(words);
    if let Some(limit) = platform.realtime_limit {
        let most = most_in(limit.period, above.iter().chain(&levels));
        if most > limit.runtime {
            let why = format!(
                "they may take {most} of {}, of which the kernel leaves them {}: it would stop them all",
                limit.period, limit.runtime
            );
            return Some(untested(about, &why));
        }
        beside.push(format!("they take at most {most} of {}: the kernel never stops them", limit.period));
    }
    let threads = planned.threads.len() + others.len() + levels.len();
    if cpus > 1 && !above.is_empty() && threads > cpus as usize {
        let why =
            "reserved threads stand above, by earliest deadline: on several CPUs no test here covers both";
        return Some(untested(about, why));
    }
    if cpus > 1 {
        // Each has a CPU of its own, or nothing stands above.
        above.clear();
    }
    let ranked: Vec<&Level> = above.iter().chain(&levels).collect();
    Some(TestedSet {
        about,
        threads: ranked.iter().map(|level| thread(&level.task, level.name.clone())).collect(),
        tests: tests(&ranked, &below, cpus, above.is_empty()),
        beside,
    })
}

fn priority(task: &Task) -> Option<u32> {
    task.policy.realtime_priority().filter(|_| task.reservation.is_none())
}

/// What keeps the levels from being independent: the sections of threads below them; or why no test covers it.
fn dependent(
    levels: &[Level],
    workload: &Workload,
    planned: &Planned,
    platform: &Platform,
) -> Result<Vec<Vec<(String, Nanos)>>, String> {
    let sleeps = levels.iter().find(|level| level.task.suspension.is_positive());
    let locks = levels.iter().find(|level| !level.sections.is_empty());
    match (sleeps, locks) {
        (Some(sleeps), Some(locks)) => Err(format!(
            "`{}` sleeps inside its jobs and `{}` takes a lock: no test here covers both at once",
            sleeps.name, locks.name
        )),
        (None, Some(locks)) if platform.cpus > 1 => {
            Err(format!("`{}` takes a lock: blocking is bounded here on one CPU only", locks.name))
        }
        (Some(sleeps), None) if platform.cpus > 1 && levels.len() > 1 => {
            // Bound to a CPU each they do not share one.
            let is_bound = |level: &Level| {
                let task = workload.tasks.iter().find(|task| task.name == level.name);
                task.is_some_and(|task| matches!(task.instances, Instances::PerCpu(_)))
            };
            let why = format!("`{}` sleeps inside its jobs: that is covered on one CPU only", sleeps.name);
            if levels.iter().all(is_bound) { Ok(Vec::new()) } else { Err(why) }
        }
        _ => {
            let taken: Vec<&String> = levels.iter().flat_map(|l| &l.sections).map(|(lock, _)| lock).collect();
            let is_level = |task: &Task| levels.iter().any(|level| level.name == task.name);
            let is_reserved =
                |task: &Task| task.reservation.is_some() || planned.plan.reservation_of(&task.name).is_some();
            steps::sections_below(workload, is_level, is_reserved, &taken, platform.cpus)
        }
    }
}

/// One level for each instance on a CPU, its costs included; or why a task is none of fixed priority.
fn levels_of(task: &Task, workload: &Workload, options: &PlanOptions) -> Result<Vec<Level>, String> {
    let name = &task.name;
    let period = task
        .release
        .interval()
        .ok_or_else(|| format!("nothing says how often `{name}` is released: give it a period or a gap"))?;
    let steps = match &task.body {
        TaskBody::Phases(phases) => steps::steps_of(task, phases, workload)?,
        _ => steps::Steps::default(),
    };
    let drawn = drawn_work(task).and_then(declared_bound);
    let work = drawn.or(Some(steps.work).filter(|work| work.is_positive())).ok_or_else(|| match task.body {
        TaskBody::Synthetic(_) => {
            format!(
                "the work of `{name}` has no largest value that is declared: give it a constant or a uniform one"
            )
        }
        TaskBody::Phases(_) => format!("the jobs of `{name}` go through steps without any work"),
        TaskBody::Command(_) | TaskBody::Match(_) => {
            format!("`{name}` is a program, and nothing says how much work its jobs are")
        }
    })?;
    let deadline = task.relative_deadline().unwrap_or(period);
    let jitter = match task.release {
        Release::Periodic { jitter, .. } => jitter,
        _ => Nanos::ZERO,
    };
    let costs = options.costs();
    let with_costs = |work: Nanos| {
        let interrupts = work.mul_ratio(u64::from(costs.interrupts_permille), 1000);
        work + interrupts + costs.per_tick * (work + options.platform.tick).div_ceil(options.platform.tick)
    };
    let others = interruptions(workload, &options.platform, Some(name));
    let foreign = all_at_most(&others, deadline.max(period));
    // Every sleep and every lock may cost two switches more.
    let waits = steps.sections.len() as i64 + i64::from(steps.sleep.is_positive()) * phases_of(task);
    let work = (with_costs(work) + costs.per_job + costs.per_period * (1 + waits)).saturating_add(foreign);
    let section = |(lock, length): (String, Nanos)| (lock, with_costs(length) + costs.per_period);
    let sections: Vec<(String, Nanos)> = steps.sections.into_iter().map(section).collect();
    let priority = priority(task).unwrap_or(0);
    let count = match task.instances {
        Instances::Count(count) => count,
        // Every CPU has as many.
        Instances::PerCpu(each) => each,
    };
    // What comes more seldom than can be counted, or is due later, counts as if it came that often and were due that soon.
    let longest = LONGEST - Nanos::new(1);
    let suspension = steps.sleep;
    let plain = SporadicTask::new(work, deadline.min(longest), period.min(longest));
    let task = SporadicTask { jitter, suspension, ..plain };
    let level = || Level { name: name.clone(), priority, task, sections: sections.clone() };
    Ok((0..count).map(|_| level()).collect())
}

/// How many steps its jobs have.
fn phases_of(task: &Task) -> i64 {
    match &task.body {
        TaskBody::Phases(phases) => phases.len() as i64,
        _ => 0,
    }
}

/// A reservation as what it may take from everything below it: its own deadline is no concern here.
fn budgets(name: &str, reservation: Reservation, overrun: Nanos, late: Nanos) -> Vec<Level> {
    let Reservation { runtime, period, .. } = reservation;
    // Where a budget is shorter than an overrun, several may be given at once.
    let at_once = overrun.div_ceil(runtime).max(1);
    let jitter = late + period * (at_once - 1);
    let level = |name: String, task| Level { name, priority: u32::MAX, task, sections: Vec::new() };
    let budget = SporadicTask { jitter, ..SporadicTask::new(runtime, LONGEST, period) };
    let mut levels = vec![level(format!("{name}, budget"), budget)];
    if overrun.is_positive() {
        levels.push(level(format!("{name}, overrun"), SporadicTask::new(overrun, LONGEST, LONGEST)));
    }
    levels
}

/// The most that they take in a window, however late each may be.
fn most_in<'a>(window: Nanos, levels: impl Iterator<Item = &'a Level>) -> Nanos {
    let most = |Level { task, .. }: &Level| {
        // One above all others has its lateness in the jitter.
        let late = if task.deadline == LONGEST { task.jitter } else { task.jitter + task.deadline };
        task.work * (window + late).div_ceil(task.period)
    };
    levels.map(most).fold(Nanos::ZERO, Nanos::saturating_add)
}

/// The fair server where it may act, and what can be said about it.
fn fair_server(above: &[Level], levels: &[Level], platform: &Platform) -> (Vec<Level>, String) {
    let unlike: Vec<FairServer> =
        platform.unlike_fair_servers().into_iter().map(|(server, _)| server).collect();
    let Some(first) = unlike.first() else {
        return (Vec::new(), "the kernel has no fair server".to_owned());
    };
    let window_of = |server: FairServer| server.period - server.runtime;
    let most_of = |server: FairServer| most_in(window_of(server), above.iter().chain(levels));
    let may_act = |server: &FairServer| most_of(*server) > window_of(*server) - server.runtime;
    let acting = unlike.iter().copied().find(may_act);
    let server = acting.unwrap_or(*first);
    let (window, most) = (window_of(server), most_of(server));
    if acting.is_none() {
        let words = format!(
            "the kernel's fair server stays in the background: they take at most {most} of any {window}, and {} are \
             left for it",
            window - most
        );
        return (Vec::new(), words);
    }
    let words = format!(
        "the kernel's fair server may act, since they may take {most} of {window}: it stands above them with {} in {}",
        server.runtime, server.period
    );
    // Where they are unlike, none takes more than the largest budget in the shortest period, as late as the latest.
    let largest = |of: fn(&FairServer) -> Nanos| unlike.iter().map(of).max().unwrap_or(Nanos::ZERO);
    let period = unlike.iter().map(|server| server.period).min().unwrap_or(server.period);
    // What it overruns it does not pay back.
    let runtime = largest(|server| server.runtime) + platform.tick;
    let reservation = Reservation::implicit(runtime, period);
    // It starts whenever fair threads come, and keeps its deadlines: `Q/T (t + 2 (T - Q))` of a window of t.
    let late = largest(|server| server.period - server.runtime) * 2;
    (budgets("fair server", reservation, Nanos::ZERO, late), words)
}

/// The answers to the levels; those of equal priority each once as the lowest of them. `only`: nothing stands above that is
/// counted at its most.
fn tests(ranked: &[&Level], below: &[Vec<(String, Nanos)>], cpus: u32, only: bool) -> Vec<Tested> {
    let shared = "the workload binds these threads to no CPU";
    let is_tied = |at: usize| {
        let same = |other: usize| ranked.get(other).is_some_and(|o| o.priority == ranked[at].priority);
        ranked[at].priority != u32::MAX && (same(at + 1) || (at > 0 && same(at - 1)))
    };
    let tied: Vec<usize> = (0..ranked.len()).filter(|at| is_tied(*at)).collect();
    let order = |lowest: Option<usize>| -> Vec<usize> {
        let mut order: Vec<usize> = (0..ranked.len()).collect();
        if let Some(at) = lowest {
            // Behind the last of its priority.
            let last = (0..ranked.len()).rev().find(|o| ranked[*o].priority == ranked[at].priority);
            order.remove(at);
            order.insert(last.unwrap_or(at), at);
        }
        order
    };
    let ask = |lowest: Option<usize>| {
        let places = order(lowest);
        let tasks: Vec<SporadicTask> = places.iter().map(|at| ranked[*at].task).collect();
        let sections: Vec<&[(String, Nanos)]> =
            places.iter().map(|at| ranked[*at].sections.as_slice()).collect();
        let tasks = steps::with_blocking(&tasks, &sections, below);
        let question = Question { tasks: &tasks, cpus, scheduler: Scheduler::FixedPriority, migrate: true };
        let mut found = all(&question, shared);
        if cpus == 1 && tasks.iter().any(|task| task.suspension.is_positive()) {
            let both = [("sleep as work", oblivious(&tasks)), ("sleep as jitter", as_jitter(&tasks))];
            let best = both.iter().rposition(|(_, verdict)| verdict.holds());
            let shown = both
                .iter()
                .enumerate()
                .map(|(at, (word, verdict))| shown(word, verdict, None, best == Some(at)));
            found.splice(0..0, shown.collect::<Vec<_>>());
        }
        found
            .iter_mut()
            .flat_map(|tested| &mut tested.steps)
            .for_each(|step| *step = renumbered(step, &places));
        found
    };
    // A bound of blocking is one of what may come together.
    let is_blocked = ranked.iter().any(|level| !level.sections.is_empty());
    if tied.is_empty() {
        let found = ask(None);
        return if only && !is_blocked { found } else { sufficient(found) };
    }
    let mut orders = tied.into_iter().map(|at| ask(Some(at)));
    let Some(first) = orders.next() else { return Vec::new() };
    let mut found = orders.fold(first, |so_far, next| so_far.into_iter().map(|t| worse(t, &next)).collect());
    // A bound for one order of priorities says nothing where some order of equals is another.
    let is_of_one_order = |t: &Tested| t.test == "hyperbolic" && t.answer == TestAnswer::NotApplicable;
    let is_uncovered = |t: &Tested| {
        if cpus > 1 { t.answer != TestAnswer::NotApplicable && !t.exact } else { is_of_one_order(t) }
    };
    if cpus > 1 || in_periods(ranked) {
        for tested in found.iter_mut().filter(|t| is_uncovered(t)) {
            tested.answer = TestAnswer::NotApplicable;
            (tested.scale_permille, tested.named) = (None, false);
            tested.steps =
                vec!["two tasks have the same priority, which this test does not cover".to_owned()];
        }
    }
    sufficient(found)
}

/// Whether tasks stand in order of rising periods with deadlines at their ends: then only ties stand in the way of a bound made
/// for that order.
fn in_periods(ranked: &[&Level]) -> bool {
    ranked.windows(2).all(|pair| pair[0].task.period <= pair[1].task.period)
        && ranked
            .iter()
            .all(|level| level.task.deadline >= level.task.period && !level.task.jitter.is_positive())
}

/// A step about `task N` of an order, N as the tasks are shown.
fn renumbered(step: &str, places: &[usize]) -> String {
    let Some(rest) = step.strip_prefix("task ") else { return step.to_owned() };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    match rest[..digits].parse::<usize>().ok().and_then(|at| places.get(at)) {
        Some(place) => format!("task {place}{}", &rest[digits..]),
        None => step.to_owned(),
    }
}

/// The worse of a test's answers to two orders.
fn worse(one: Tested, others: &[Tested]) -> Tested {
    let same = |other: &&Tested| (&other.test, &other.theorem) == (&one.test, &one.theorem);
    let Some(other) = others.iter().find(same) else { return one };
    let named = one.named && other.named;
    let scale = one.scale_permille.min(other.scale_permille);
    let worse = if one.answer == TestAnswer::Holds { other.clone() } else { one };
    Tested { named, scale_permille: scale, ..worse }
}

/// A set that no test covers.
fn untested(about: String, why: &str) -> TestedSet {
    let tests = TESTS.iter().map(|test| Tested {
        test: test.word.to_owned(),
        theorem: test.theorem.name.to_owned(),
        source: test.theorem.source.to_owned(),
        exact: false,
        answer: TestAnswer::NotApplicable,
        steps: vec![why.to_owned()],
        scale_permille: None,
        named: false,
    });
    TestedSet { about, threads: Vec::new(), tests: tests.collect(), beside: Vec::new() }
}
