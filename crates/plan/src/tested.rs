//! [`tested`]: every schedulability test put to the threads of a plan, and to the real-time threads of the workload.
//!
//! What was refused is put to them, too, in a set of its own beside all that is kept: how much less work would have to be done
//! is then seen in the factors.
//!
//! Two sets compete by different rules. Reserved threads run by earliest deadline, on any CPU of their root domain; each
//! root domain is a set of its own.
//! Threads of `SCHED_FIFO` and `SCHED_RR` run below them by priority, on one CPU each (`instances = "per-cpu"`) or on any;
//! they are looked at as far as the plan leaves them what they are, with what it reserves above them.

mod fixed_priority;

use surety_analysis::edf::{self, Demand};
use surety_analysis::foundation::{Domain, Foundation, ReservedThread};
use surety_analysis::schedulability::catalogue::{
    self, Placement, Question, Scheduler, TESTS, Test, answers,
};
use surety_analysis::schedulability::global_edf::ALONE;
use surety_analysis::schedulability::tardiness::tardiness;
use surety_analysis::schedulability::{Outcome, SporadicTask, Theorem, Verdict};
use surety_model::platform::Platform;
use surety_model::tested::{TestAnswer, Tested, TestedSet, TestedThread};
use surety_model::workload::Workload;

use crate::{PlanOptions, Planned};

/// Every set of threads that compete, put to every test.
pub fn tested(workload: &Workload, planned: &Planned, options: &PlanOptions) -> Vec<TestedSet> {
    let mut sets = Vec::new();
    sets.extend(reserved(planned));
    sets.extend(with_refused(planned));
    sets.extend(fixed_priority::tested(workload, planned, options));
    sets
}

/// The threads that the plan reserves, root domain by root domain.
fn reserved(planned: &Planned) -> Vec<TestedSet> {
    let platform = &planned.plan.platform;
    let threads: Vec<ReservedThread> = planned.threads.iter().map(|(_, thread)| *thread).collect();
    if threads.is_empty() {
        return Vec::new();
    }
    let whole = Foundation::of(&threads, platform);
    let name = |place: &usize| planned.threads[*place].0.clone();
    if whole.domains().is_empty() {
        let names: Vec<String> = planned.threads.iter().map(|(name, _)| name.clone()).collect();
        return vec![in_domain(&whole, &names, platform.cpus, &on(platform.cpus))];
    }
    let one = |domain: &Domain| {
        let names: Vec<String> = domain.threads.iter().map(name).collect();
        let cpus = u32::try_from(domain.cpus.len()).unwrap_or(u32::MAX);
        let place = format!("the root domain with {}", domain.cpus.in_words());
        in_domain(&domain.foundation, &names, cpus, &place)
    };
    whole.domains().iter().map(one).collect()
}

/// What is kept together with what was refused, as if one root domain had all CPUs.
fn with_refused(planned: &Planned) -> Option<TestedSet> {
    let threads: Vec<ReservedThread> = planned.threads_wanted.iter().map(|(_, thread)| *thread).collect();
    if threads.is_empty() {
        return None;
    }
    // What yields leaves the fair server out of a set that is too much by itself.
    let realtime = planned.plan.platform.realtime.clone().filter(|realtime| realtime.takes.is_none());
    let platform = Platform { root_domains: Vec::new(), realtime, ..planned.plan.platform.clone() };
    let names: Vec<String> = planned.threads_wanted.iter().map(|(name, _)| name.clone()).collect();
    let whole = Foundation::of(&threads, &platform);
    let set = in_domain(&whole, &names, platform.cpus, &on(platform.cpus));
    let mut refused: Vec<&str> = planned.plan.refusals.iter().map(|r| r.activity.as_str()).collect();
    refused.retain(|name| names.iter().any(|wanted| wanted == name));
    refused.dedup();
    let mut beside = set.beside;
    if !planned.plan.platform.root_domains.is_empty() {
        beside.push("the root domains are taken together here: apart, less fits".to_owned());
    }
    Some(TestedSet {
        about: format!(
            "with what was refused ({}): {} thread(s), by earliest deadline on {}",
            refused.join(", "),
            names.len(),
            on(platform.cpus)
        ),
        beside,
        // Nothing stands on it.
        tests: set.tests.into_iter().map(|tested| Tested { named: false, ..tested }).collect(),
        ..set
    })
}

/// The threads of one root domain.
fn in_domain(foundation: &Foundation, names: &[String], cpus: u32, place: &str) -> TestedSet {
    let demands = foundation.demands();
    let names = &foundation.names(names);
    let tasks = edf::tasks(demands, cpus);
    let question = Question { tasks: &tasks, cpus, scheduler: Scheduler::Edf, migrate: true };
    let mut beside = vec![format!(
        "admission by the kernel, without which no thread is reserved: {}",
        match &foundation.refused {
            Some((_, error)) => error.to_string(),
            None => "granted".to_owned(),
        }
    )];
    let fair = foundation.fair_server.steps.last().cloned().unwrap_or_default();
    let word = match (foundation.fair_server.holds, foundation.counts_servers()) {
        (true, true) => "acts and is counted",
        (true, false) => "stays in the background",
        (false, _) => "may run ahead",
    };
    beside.push(format!("the kernel's fair server {word}: {fair}"));
    if foundation.is_apart() {
        beside.push(format!("{}: {}", foundation.edf.theorem, foundation.edf.steps.join("; ")));
    }
    beside.extend(lateness(&tasks, cpus));
    if let Some(words) = overruns(demands, cpus) {
        beside.push(words);
    }
    let tests = all(&question, "a deadline thread may run on every CPU of its root domain");
    beside.extend(sleepers(names, demands));
    let bounded = demands.iter().all(|demand| !demand.overrun.is_positive());
    let tests = if bounded { tests } else { sufficient(tests) };
    let tests = match edf::reclaimed(demands, cpus) {
        Some(verdict) => only(&verdict, tests),
        None => tests,
    };
    TestedSet {
        about: format!("{} reserved thread(s), by earliest deadline on {place}", names.len()),
        threads: named(&tasks, names, demands),
        tests,
        beside,
    }
}

/// CPUs in words.
pub(crate) fn on(cpus: u32) -> String {
    if cpus == 1 { "one CPU".to_owned() } else { format!("any of {cpus} CPUs") }
}

/// The tasks with the names of their threads; what stands behind these are their overruns.
fn named(tasks: &[SporadicTask], names: &[String], demands: &[Demand]) -> Vec<TestedThread> {
    let late = names.iter().zip(demands).filter(|(_, demand)| demand.has_overruns_apart());
    let overruns = late.map(|(name, _)| format!("{name}, overrun"));
    let names = names.iter().cloned().chain(overruns);
    tasks.iter().zip(names).map(|(task, name)| thread(task, name)).collect()
}

/// A task as it is shown.
pub(crate) fn thread(task: &SporadicTask, name: String) -> TestedThread {
    let SporadicTask { work, deadline, period, jitter, .. } = *task;
    TestedThread { name, work, deadline, period, jitter }
}

/// Whose budgets are no jobs.
fn sleepers(names: &[String], demands: &[Demand]) -> Option<String> {
    let mut who: Vec<&str> = names
        .iter()
        .zip(demands)
        .filter(|(_, demand)| demand.sleeps)
        .map(|(name, _)| name.as_str())
        .collect();
    who.dedup();
    if who.is_empty() {
        return None;
    }
    let mut words = format!(
        "may sleep inside a budget and wake to what is left of it, so that budgets are no jobs a period apart: {}",
        who.join(", ")
    );
    if let Some(longest) =
        demands.iter().filter(|d| d.sleeps).map(|d| d.overrun).max().filter(|h| h.is_positive())
    {
        words.push_str(&format!("; an overrun by up to {longest} of each counts in every window"));
    }
    Some(words)
}

fn overruns(demands: &[Demand], cpus: u32) -> Option<String> {
    let apart = demands.iter().filter(|d| d.has_overruns_apart());
    let longest = apart.map(|d| d.overrun).max()?;
    Some(format!(
        "budgets are looked at on the tick: a thread that may overrun by {longest} {}",
        if cpus == 1 {
            "is a budget and, at most once in a window, an overrun with the same deadline"
        } else {
            "counts with that on top of its budget"
        }
    ))
}

/// How late the threads are at most where only the sum of their bandwidths counts.
fn lateness(tasks: &[SporadicTask], cpus: u32) -> Option<String> {
    if cpus < 2 {
        return None;
    }
    let found = tardiness(tasks, cpus);
    let most = found.late.iter().max().filter(|late| late.is_positive())?;
    let theorem = found.verdict.theorem;
    Some(format!("{} ({}): at most {most} late, whatever the tests say", theorem.name, theorem.source))
}

/// The answers of the tests made for a question, then why the others do not apply. `shared`: why the threads are not
/// partitioned, in words, where they are not.
pub(crate) fn all(question: &Question<'_>, shared: &str) -> Vec<Tested> {
    let alone = alone(question);
    let found = if alone.is_some() { Vec::new() } else { answers(question) };
    let best = catalogue::least_pessimistic(&found).map(|best| best.word);
    let mut tests: Vec<Tested> =
        alone.iter().map(|verdict| shown("a CPU each", verdict, None, true)).collect();
    tests.extend(found.iter().map(|a| shown(a.word, &a.verdict, a.scale, best == Some(a.word))));
    // Those that turn out not to cover the set stand with those not made for it.
    tests.sort_by_key(|tested| tested.answer == TestAnswer::NotApplicable);
    let made: Vec<&str> = found.iter().map(|answer| answer.word).collect();
    let is_asked = |test: &&Test| {
        test.scheduler == question.scheduler
            && test.placement == question.placement()
            && made.contains(&test.word)
    };
    for test in TESTS.iter().filter(|test| !is_asked(test)) {
        let verdict = Verdict {
            theorem: test.theorem,
            outcome: Outcome::NotApplicable,
            steps: vec![why_not(test, question, alone.is_some(), shared)],
            responses: Vec::new(),
        };
        tests.push(shown(test.word, &verdict, None, false));
    }
    tests
}

/// A CPU for each thread, which no other test has to look beyond.
fn alone(question: &Question<'_>) -> Option<Verdict> {
    let Question { tasks, cpus, .. } = question;
    (question.placement() == Placement::Global && tasks.len() <= *cpus as usize).then(|| Verdict {
        theorem: ALONE,
        outcome: Outcome::Holds,
        steps: vec![format!("{} threads on {cpus} CPUs: each has one whenever it is ready", tasks.len())],
        responses: Vec::new(),
    })
}

/// Why a test does not apply.
fn why_not(test: &Test, question: &Question<'_>, alone: bool, shared: &str) -> String {
    let Question { tasks, cpus, scheduler, .. } = *question;
    if test.scheduler != scheduler {
        return match test.scheduler {
            Scheduler::Edf => "for earliest deadlines; these threads run by fixed priorities",
            Scheduler::FixedPriority => "for fixed priorities; these threads run by earliest deadline",
        }
        .to_owned();
    }
    let placement = question.placement();
    match (test.placement, placement) {
        (Placement::Partitioned, Placement::Global) => {
            let holds = (test.ask)(tasks, cpus).holds();
            let would = if holds { "would hold" } else { "would not show it either" };
            format!("for one root domain (cpuset partition) for each CPU, where it {would}; {shared}")
        }
        (made_for, _) if made_for == placement && alone => {
            "not needed: each thread has a CPU of its own".to_owned()
        }
        (made_for, Placement::OneCpu) => format!("made for {}; there is one CPU", made_for.in_words()),
        (made_for, _) => format!("made for {}; there are {cpus} CPUs", made_for.in_words()),
    }
}

/// A verdict as it is shown.
pub(crate) fn shown(word: &str, verdict: &Verdict, scale_permille: Option<u64>, named: bool) -> Tested {
    let Theorem { name, source, strength } = verdict.theorem;
    Tested {
        test: word.to_owned(),
        theorem: name.to_owned(),
        source: source.to_owned(),
        exact: strength == surety_analysis::schedulability::Strength::Exact,
        answer: match verdict.outcome {
            Outcome::Holds => TestAnswer::Holds,
            Outcome::Fails => TestAnswer::Fails,
            Outcome::NotShown => TestAnswer::NotShown,
            Outcome::NotApplicable => TestAnswer::NotApplicable,
        },
        steps: verdict.steps.clone(),
        scale_permille,
        named,
    }
}

/// The answers where something is counted at its most: what does not pass is no proof of a miss.
pub(crate) fn sufficient(tests: Vec<Tested>) -> Vec<Tested> {
    let no_proof = |tested: Tested| match tested.answer {
        TestAnswer::Fails => Tested { answer: TestAnswer::NotShown, exact: false, ..tested },
        _ => Tested { exact: false, ..tested },
    };
    tests.into_iter().map(no_proof).collect()
}

/// The one verdict that covers reservations that reclaim; the other tests do not.
fn only(verdict: &Verdict, tests: Vec<Tested>) -> Vec<Tested> {
    let uncovered = |tested: Tested| match tested.answer {
        TestAnswer::NotApplicable => tested,
        _ => Tested {
            answer: TestAnswer::NotApplicable,
            steps: vec![
                "a reservation reclaims what others leave, which this test does not cover".to_owned(),
            ],
            scale_permille: None,
            named: false,
            ..tested
        },
    };
    let first = shown("GRUB", verdict, None, verdict.holds());
    std::iter::once(first).chain(tests.into_iter().map(uncovered)).collect()
}
