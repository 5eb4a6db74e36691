//! [`TESTS`]: every test of independent tasks in one table, so that a set can be put to all of them at once.
//!
//! Which of several sufficient tests is the least pessimistic depends on the set, and no name settles it. What is compared
//! is the *scaling factor* of each: the most that all works can be multiplied by so that the test still holds (Lehoczky,
//! Sha and Ding, RTSS 1989, call it the breakdown of the set). An exact test has the largest; above 1 it says how much
//! room is left, below 1 how much less work the test would take.

use surety_units::Nanos;

use super::fixed::{HYPERBOLIC, RESPONSE_TIMES, hyperbolic, response_times};
use super::global_edf::forced_forward::{FF_DBF, demand};
use super::partition::{CoreTest, Heuristic, PartitionError, partition};
use super::task::{ceil, narrow, wide};
use super::uniprocessor::{self, DENSITY, PROCESSOR_DEMAND, UTILISATION, processor_demand};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict, global_edf, global_fixed};

/// Which ready job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The one with the earliest deadline.
    Edf,
    /// The one with the highest priority; tasks stand in order of falling priority.
    FixedPriority,
}

/// Where jobs may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// There is one CPU.
    OneCpu,
    /// On any of several CPUs.
    Global,
    /// On the CPU their task was given, of several.
    Partitioned,
}

impl Placement {
    /// The placement in words that follow "made for".
    pub fn in_words(self) -> &'static str {
        match self {
            Placement::OneCpu => "one CPU",
            Placement::Global => "tasks that may run on any of several CPUs",
            Placement::Partitioned => "tasks that each have their CPU",
        }
    }
}

/// A test and what it is made for.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// A word for tables.
    pub word: &'static str,
    /// What it rests on.
    pub theorem: Theorem,
    /// The scheduler it is about.
    pub scheduler: Scheduler,
    /// The placement it is about.
    pub placement: Placement,
    /// The test itself.
    pub ask: fn(&[SporadicTask], u32) -> Verdict,
}

impl Test {
    /// Whether it looks at all windows, or at all pairs of tasks again and again.
    pub fn is_slow(&self) -> bool {
        [global_edf::BCL_ITERATED.name, global_edf::RTA.name, FF_DBF.name].contains(&self.theorem.name)
    }
}

/// Of sets of more tasks slow tests are asked last, only where none before holds, and their scaling factors are left out.
pub const MANY: usize = 64;
/// Of more tasks on several CPUs only the first test is asked: the cost of the others grows with the square of their number.
pub const TOO_MANY: usize = 2_048;

/// One CPU in the table.
const fn local(
    word: &'static str,
    theorem: Theorem,
    scheduler: Scheduler,
    ask: fn(&[SporadicTask], u32) -> Verdict,
) -> Test {
    Test { word, theorem, scheduler, placement: Placement::OneCpu, ask }
}

/// Several CPUs with one queue in the table.
const fn global(word: &'static str, theorem: Theorem, ask: fn(&[SporadicTask], u32) -> Verdict) -> Test {
    Test { word, theorem, scheduler: Scheduler::Edf, placement: Placement::Global, ask }
}

/// Several CPUs with a queue each in the table.
const fn apart(
    word: &'static str,
    theorem: Theorem,
    scheduler: Scheduler,
    ask: fn(&[SporadicTask], u32) -> Verdict,
) -> Test {
    Test { word, theorem, scheduler, placement: Placement::Partitioned, ask }
}

/// All tests, cheap ones first among those for the same scheduler and placement.
pub const TESTS: [Test; 18] = [
    local("utilisation", UTILISATION, Scheduler::Edf, |tasks, _| uniprocessor::utilisation(tasks)),
    local("density", DENSITY, Scheduler::Edf, |tasks, _| uniprocessor::density(tasks)),
    local("QPA", PROCESSOR_DEMAND, Scheduler::Edf, |tasks, _| processor_demand(tasks)),
    global("GFB", global_edf::GFB, global_edf::density),
    global("BAK", global_edf::BAK, global_edf::baker),
    global("BCL", global_edf::BCL, global_edf::interference),
    global("BCL iterated", global_edf::BCL_ITERATED, global_edf::iterated_interference),
    global("RTA", global_edf::RTA, global_edf::response_times),
    global("FF-DBF", FF_DBF, demand),
    apart("first fit", PARTITIONED_EDF, Scheduler::Edf, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::FirstFit, CoreTest::Edf, PARTITIONED_EDF)
    }),
    apart("best fit", PARTITIONED_EDF, Scheduler::Edf, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::BestFit, CoreTest::Edf, PARTITIONED_EDF)
    }),
    apart("worst fit", PARTITIONED_EDF, Scheduler::Edf, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::WorstFit, CoreTest::Edf, PARTITIONED_EDF)
    }),
    local("hyperbolic", HYPERBOLIC, Scheduler::FixedPriority, |tasks, _| hyperbolic(tasks)),
    local("fixed RTA", RESPONSE_TIMES, Scheduler::FixedPriority, |tasks, _| response_times(tasks)),
    Test {
        word: "global fixed RTA",
        theorem: global_fixed::RTA,
        scheduler: Scheduler::FixedPriority,
        placement: Placement::Global,
        ask: global_fixed::response_times,
    },
    apart("DM first fit", PARTITIONED_FIXED, Scheduler::FixedPriority, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::FirstFit, CoreTest::DeadlineMonotonic, PARTITIONED_FIXED)
    }),
    apart("DM best fit", PARTITIONED_FIXED, Scheduler::FixedPriority, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::BestFit, CoreTest::DeadlineMonotonic, PARTITIONED_FIXED)
    }),
    apart("DM worst fit", PARTITIONED_FIXED, Scheduler::FixedPriority, |tasks, cpus| {
        packed(tasks, cpus, Heuristic::WorstFit, CoreTest::DeadlineMonotonic, PARTITIONED_FIXED)
    }),
];

/// Partitions by EDF as one test.
pub const PARTITIONED_EDF: Theorem = Theorem {
    name: "partitioned EDF: packing by falling density, processor demand on each CPU",
    source: "Baruah and Fisher, IEEE Trans. Computers 55(7), 2006; Lopez, Diaz and Garcia, Real-Time Systems 28, 2004",
    strength: Strength::Sufficient,
};

/// Partitions by deadline-monotonic priorities as one test.
pub const PARTITIONED_FIXED: Theorem = Theorem {
    name: "partitioned deadline-monotonic priorities: packing by falling density, response times on each CPU",
    source: "Fisher, Baruah and Baker, ECRTS 2006; Audsley et al., 1993",
    strength: Strength::Sufficient,
};

/// A partition as a verdict.
fn packed(
    tasks: &[SporadicTask],
    cpus: u32,
    heuristic: Heuristic,
    core_test: CoreTest,
    theorem: Theorem,
) -> Verdict {
    match partition(tasks, cpus, heuristic, core_test) {
        Err(PartitionError::Tasks(why)) => Verdict::not_applicable(theorem, why),
        Err(error @ PartitionError::NoCpu) => Verdict::not_applicable(theorem, error.to_string()),
        Ok(found) => match found.unplaced.first() {
            Some(unplaced) => Verdict::no(theorem, false, unplaced.to_string()),
            None => {
                let cpus = found.cpus.iter().enumerate().filter(|(_, tasks)| !tasks.is_empty());
                let on = |(cpu, tasks): (usize, &Vec<usize>)| {
                    let tasks: Vec<String> = tasks.iter().map(usize::to_string).collect();
                    format!("tasks {} on CPU {cpu}", tasks.join(", "))
                };
                Verdict::of(theorem, Outcome::Holds, cpus.map(on).collect::<Vec<_>>().join("; "))
            }
        },
    }
}

/// A set of tasks and how it is scheduled.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub tasks: &'a [SporadicTask],
    pub cpus: u32,
    /// Which job runs.
    pub scheduler: Scheduler,
    /// Whether the tasks of several CPUs share one queue; with one CPU it does not matter.
    pub migrate: bool,
}

impl Question<'_> {
    /// Where jobs may run.
    pub fn placement(&self) -> Placement {
        match (self.cpus, self.migrate) {
            (0 | 1, _) => Placement::OneCpu,
            (_, true) => Placement::Global,
            (_, false) => Placement::Partitioned,
        }
    }

    /// The tests made for it, cheap ones first.
    pub fn tests(&self) -> impl Iterator<Item = &'static Test> + use<> {
        let (scheduler, placement) = (self.scheduler, self.placement());
        let asked = move |test: &&Test| test.scheduler == scheduler && test.placement == placement;
        let is_slow = self.is_of_many();
        let quick = TESTS.iter().filter(asked).filter(move |test| !(is_slow && test.is_slow()));
        let slow = TESTS.iter().rev().filter(asked).filter(move |test| is_slow && test.is_slow());
        quick.chain(slow)
    }

    /// Whether there are so many tasks that only the first test is asked.
    pub fn is_of_too_many(&self) -> bool {
        self.cpus > 1 && self.tasks.len() > TOO_MANY
    }

    /// Whether there are so many tasks that slow tests are asked only where no other holds.
    fn is_of_many(&self) -> bool {
        self.tasks.len() > MANY
    }
}

/// What a test says about a set, and by how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its word in [`TESTS`].
    pub word: &'static str,
    /// What it says.
    pub verdict: Verdict,
    /// The scaling factor in thousandths, rounded down; `None` where the test does not apply or nothing passes it.
    pub scale: Option<u64>,
}

/// The answers of all tests made for a question, in the order of the table; of more than [`MANY`] tasks slow ones last.
pub fn answers(question: &Question<'_>) -> Vec<Answer> {
    let mut found: Vec<Answer> = Vec::new();
    for test in question.tests() {
        if question.is_of_too_many() && !found.is_empty() {
            let why = format!("of more than {TOO_MANY} tasks only the first test is asked");
            let verdict = Verdict::not_applicable(test.theorem, why);
            found.push(Answer { word: test.word, verdict, scale: None });
            continue;
        }
        let is_left_out = question.is_of_many() && test.is_slow();
        if let Some(before) = found.iter().find(|a| is_left_out && a.verdict.holds()) {
            let why = format!(
                "of more than {MANY} tasks it is asked only where no quicker test holds; {} does",
                before.word
            );
            let verdict = Verdict::not_applicable(test.theorem, why);
            found.push(Answer { word: test.word, verdict, scale: None });
            continue;
        }
        let verdict = (test.ask)(question.tasks, question.cpus);
        let scale = match verdict.outcome {
            Outcome::NotApplicable => None,
            _ if is_left_out => None,
            _ => scaling_factor(test, question),
        };
        found.push(Answer { word: test.word, verdict, scale });
    }
    found
}

/// The answer that holds with the largest scaling factor; of equals, the first.
pub fn least_pessimistic(answers: &[Answer]) -> Option<&Answer> {
    answers.iter().filter(|a| a.verdict.holds()).rev().max_by_key(|a| a.scale)
}

/// Works times `permille` thousandths, rounded up.
fn scaled(tasks: &[SporadicTask], permille: u64) -> Vec<SporadicTask> {
    let work = |work: Nanos| narrow(ceil(wide(work) * i128::from(permille), 1000));
    tasks.iter().map(|task| SporadicTask { work: work(task.work), ..*task }).collect()
}

/// The largest multiple of all works in thousandths with which the test holds, by bisection: the test is taken to hold
/// below any multiple with which it does.
fn scaling_factor(test: &Test, question: &Question<'_>) -> Option<u64> {
    let holds = |permille: u64| (test.ask)(&scaled(question.tasks, permille), question.cpus).holds();
    let used = uniprocessor::total_utilisation(question.tasks).bounds().0.max(1);
    // Beyond the whole capacity nothing holds.
    let most = (i128::from(question.cpus.max(1)) << 64).checked_mul(1000)? / used + 1;
    let (mut low, mut high) = (0, u64::try_from(most).ok()?.min(MOST_SCALED));
    if holds(high) {
        return Some(high);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// Works are multiplied by this at most, a thousand times, in thousandths.
const MOST_SCALED: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulability::tests::generate::{Deadlines, random_set};
    use surety_stats::random::Pcg;

    fn task(c: i64, d: i64, t: i64) -> SporadicTask {
        SporadicTask::new(Nanos::from_millis(c), Nanos::from_millis(d), Nanos::from_millis(t))
    }

    #[test]
    fn each_question_gets_the_tests_made_for_it() {
        let tasks = [task(1, 10, 10), task(2, 20, 20), task(3, 30, 30)];
        for (cpus, scheduler, migrate, words) in [
            (1, Scheduler::Edf, true, "utilisation density QPA"),
            (1, Scheduler::FixedPriority, false, "hyperbolic fixed RTA"),
            (2, Scheduler::Edf, true, "GFB BAK BCL BCL iterated RTA FF-DBF"),
            (2, Scheduler::Edf, false, "first fit best fit worst fit"),
            (2, Scheduler::FixedPriority, true, "global fixed RTA"),
            (2, Scheduler::FixedPriority, false, "DM first fit DM best fit DM worst fit"),
        ] {
            let question = Question { tasks: &tasks, cpus, scheduler, migrate };
            let answers = answers(&question);
            let names: Vec<&str> = answers.iter().map(|a| a.word).collect();
            assert_eq!(names.join(" "), words);
            assert!(answers.iter().all(|a| a.verdict.holds() && a.scale > Some(1000)), "{answers:?}");
        }
    }

    #[test]
    fn the_scaling_factor_is_where_the_verdict_turns() {
        // Utilisation 3/5: up to 5/3 times the work.
        let tasks = [task(1, 5, 5), task(4, 10, 10)];
        let question = Question { tasks: &tasks, cpus: 1, scheduler: Scheduler::Edf, migrate: true };
        let found = answers(&question);
        assert_eq!(found.iter().map(|a| a.scale).collect::<Vec<_>>(), [Some(1666); 3]);
        assert_eq!(least_pessimistic(&found).map(|a| a.word), Some("utilisation"));
        // Dhall's effect: too much for every test as it is, and each says how much less it would take.
        let tasks = [task(2, 10, 10), task(2, 10, 10), task(19, 20, 20)];
        let question = Question { tasks: &tasks, cpus: 2, ..question };
        let found = answers(&question);
        assert!(least_pessimistic(&found).is_none());
        assert!(found.iter().all(|a| a.scale.is_some_and(|s| s < 1000)), "{found:?}");
    }

    #[test]
    fn of_too_many_tasks_only_the_first_test_is_asked() {
        let light: Vec<SporadicTask> =
            (0..TOO_MANY as i64 + 1).map(|k| task(1, 2000 + k, 2000 + k)).collect();
        let question = Question { tasks: &light, cpus: 2, scheduler: Scheduler::Edf, migrate: true };
        let found = answers(&question);
        assert_eq!(found.len(), 6);
        assert!(found[0].verdict.outcome != Outcome::NotApplicable && found[0].scale.is_some());
        assert!(found[1..].iter().all(|a| a.verdict.outcome == Outcome::NotApplicable && a.scale.is_none()));
    }

    #[test]
    fn of_many_tasks_slow_tests_are_asked_where_no_other_holds() {
        let light: Vec<SporadicTask> = (0..80).map(|k| task(1, 20 + k, 20 + k)).collect();
        let question = Question { tasks: &light, cpus: 8, scheduler: Scheduler::Edf, migrate: true };
        let found = answers(&question);
        assert_eq!(found.len(), 6);
        assert!(found[0].verdict.holds() && found[0].scale.is_some(), "{:?}", found[0]);
        assert!(found[3..].iter().all(|a| a.verdict.outcome == Outcome::NotApplicable && a.scale.is_none()));
        // Dhall's effect with many short ones: no quick test holds.
        let mut tasks: Vec<SporadicTask> = (0..79).map(|_| task(1, 100, 100)).collect();
        tasks.push(task(199, 200, 200));
        let found = answers(&Question { tasks: &tasks, cpus: 2, ..question });
        assert!(found[..3].iter().all(|a| !a.verdict.holds()), "{found:?}");
        assert_ne!(found[3].verdict.outcome, Outcome::NotApplicable);
        assert_eq!(found[3].word, "FF-DBF");
    }

    #[test]
    fn the_exact_test_has_the_largest_factor() {
        let mut random = Pcg::for_job(9, 40, 0);
        let periods = [4, 5, 6, 8, 10, 12].map(Nanos::from_millis);
        for deadlines in [Deadlines::Implicit, Deadlines::Constrained] {
            for _ in 0..50 {
                let tasks =
                    random_set(4, 0.8, &periods, Nanos::from_micros(10), deadlines, &mut random).unwrap();
                let question = Question { tasks: &tasks, cpus: 1, scheduler: Scheduler::Edf, migrate: true };
                let found = answers(&question);
                assert_eq!(found[2].scale, found.iter().filter_map(|a| a.scale).max(), "{found:?}");
            }
        }
    }
}
