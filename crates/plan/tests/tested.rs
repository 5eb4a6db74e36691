//! What `surety plan --tests` lists: every test once, the named one is the least pessimistic, and the proof names it, too.

use std::collections::BTreeMap;

use surety_analysis::schedulability::catalogue::TESTS;
use surety_model::formats::toml;
use surety_model::platform::{Enforcement, Platform};
use surety_model::tested::{TestAnswer, Tested, TestedSet};
use surety_model::workload::Workload;
use surety_plan::tested::tested;
use surety_plan::{PlanOptions, Planned, plan_in_full};

const EXAMPLE: &str = include_str!("../../../examples/control-loop.toml");

fn sets(workload: &Workload, platform: Platform) -> (Planned, Vec<TestedSet>) {
    let options = PlanOptions::new(platform);
    let planned = plan_in_full(workload, &BTreeMap::new(), &options, false);
    let sets = tested(workload, &planned, &options);
    (planned, sets)
}

fn example(change: impl Fn(&str) -> String) -> Workload {
    toml::read("control-loop.toml", &change(EXAMPLE)).expect("the example is a workload")
}

fn named(set: &TestedSet) -> Option<&Tested> {
    set.tests.iter().find(|tested| tested.named)
}

/// Every test of the table stands once in a set, and what does not apply says why.
fn complete(set: &TestedSet) {
    for test in &TESTS {
        let same = |tested: &&Tested| tested.test == test.word && tested.theorem == test.theorem.name;
        assert_eq!(set.tests.iter().filter(same).count(), 1, "{}: {}", set.about, test.word);
    }
    for tested in &set.tests {
        assert!(!tested.source.is_empty() && !tested.steps.is_empty(), "{tested:?}");
        assert!(tested.answer != TestAnswer::NotApplicable || tested.scale_permille.is_none(), "{tested:?}");
        assert!(!tested.named || tested.answer == TestAnswer::Holds, "{tested:?}");
    }
    let best = |tested: &&Tested| tested.answer == TestAnswer::Holds;
    let largest = set.tests.iter().filter(best).map(|tested| tested.scale_permille).max();
    assert_eq!(named(set).map(|tested| tested.scale_permille), largest, "{}", set.about);
}

#[test]
fn the_least_pessimistic_test_is_named_in_the_list_and_in_the_proof() {
    let workload = example(str::to_owned);
    for (cpus, word, theorem, answered) in [
        (1, "utilisation", "utilisation bound of EDF on one CPU", 3),
        (2, "RTA", "response-time analysis of global EDF", 6),
        (4, "a CPU each", "no more reserved threads than CPUs", 1),
    ] {
        let (planned, sets) = sets(&workload, Platform::linux_6_18(cpus));
        assert_eq!((planned.plan.refusals.len(), sets.len()), (0, 2), "{cpus}");
        sets.iter().for_each(complete);
        let reserved = &sets[0];
        assert_eq!(named(reserved).map(|tested| tested.test.as_str()), Some(word), "{cpus}");
        let applies = |tested: &&Tested| tested.answer != TestAnswer::NotApplicable;
        assert_eq!(reserved.tests.iter().filter(applies).count(), answered, "{cpus}");
        for planned in &planned.plan.reservations {
            assert!(planned.proof.theorem.contains(theorem), "{cpus}: {}", planned.proof.theorem);
        }
    }
}

#[test]
fn more_than_one_test_may_hold_where_density_does_not() {
    // A heavy budget beside light ones: the density bound is above, the interference tests hold, and so the plan does.
    let workload = example(|text| text.replace("work    = \"5ms\"", "work    = \"29ms\""));
    let (planned, sets) = sets(&workload, Platform { fair_server: None, ..Platform::linux_6_18(2) });
    let answer = |word: &str| sets[0].tests.iter().find(|tested| tested.test == word).map(|t| t.answer);
    assert_eq!(planned.plan.refusals, [], "{:?}", sets[0]);
    assert_eq!(answer("RTA"), Some(TestAnswer::Holds), "{:?}", sets[0]);
}

#[test]
fn real_time_threads_are_looked_at_below_what_is_reserved() {
    let fixed = |set: &TestedSet| {
        set.tests.iter().find(|tested| tested.test == "fixed RTA").cloned().expect("it is in the list")
    };
    let workload = example(str::to_owned);
    let one = |workload: &Workload| sets(workload, Platform::linux_6_18(1)).1.remove(1);
    let set = one(&workload);
    assert_eq!(set.threads.len(), 5, "three budgets stand above two threads: {set:?}");
    let plain = fixed(&set);
    assert_eq!((plain.answer, plain.exact), (TestAnswer::Holds, false), "{plain:?}");
    // Of equal priorities either may wait for the other: no easier than either order.
    let tied = fixed(&one(&example(|text| text.replace("fifo:70", "fifo:80"))));
    assert_eq!(tied.answer, TestAnswer::Holds, "{tied:?}");
    assert!(tied.scale_permille <= plain.scale_permille, "{tied:?} {plain:?}");
    // A deadline shorter than the budgets above is not shown.
    let short = fixed(&one(&example(|text| text.replace("period = \"50ms\"", "period = \"20ms\""))));
    assert_eq!(short.answer, TestAnswer::NotShown, "{short:?}");
    // What has no largest work is in no test, and says so.
    let open = example(|text| {
        text.replace("work   = \"300us\"", "work = { kind = \"exponential\", mean = \"300us\" }")
    });
    let set = one(&open);
    assert!(set.tests.iter().all(|tested| tested.answer == TestAnswer::NotApplicable), "{set:?}");
    assert!(fixed(&set).steps[0].contains("`motor` has no largest value"), "{set:?}");
    // On several CPUs threads below reservations are covered by none, unless each has a CPU.
    let set = sets(&workload, Platform::linux_6_18(2)).1.remove(1);
    assert!(set.tests.iter().all(|tested| tested.answer == TestAnswer::NotApplicable), "{set:?}");
    let set = sets(&workload, Platform::linux_6_18(8)).1.remove(1);
    assert_eq!(named(&set).map(|tested| tested.test.as_str()), Some("a CPU each"));
}

#[test]
fn overruns_are_shown_as_what_they_are() {
    // A log-normal work may reach a further budget, so its thread may run over by a tick.
    let workload = example(|text| {
        text.replace("work    = \"5ms\"\npromise = [\"response <= 33ms\"]", "work = { kind = \"lognormal\", mean = \"5ms\", p99 = \"8ms\" }\npromise = [\"response <= 33ms @ 99%\"]")
    });
    let (_, on_ticks) = sets(&workload, Platform::linux_6_18(1));
    let names: Vec<&str> = on_ticks[0].threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["control", "camera", "logger", "camera, overrun"]);
    assert!(on_ticks[0].beside.iter().any(|words| words.contains("looked at on the tick")));
    let exact = Platform { enforcement: Enforcement::Exact, ..Platform::linux_6_18(1) };
    assert_eq!(sets(&workload, exact).1[0].threads.len(), 3);
}

#[test]
fn root_domains_are_planned_tested_and_verified_each_for_itself() {
    // No test of global EDF shows that they fit two CPUs; on one of its own each pair does.
    let text = |name: &str, work: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"100ms\"\nwork = \"{work}\"\npromise = [\"response <= 100ms\"]\n"
        )
    };
    let tasks =
        [("a", "50ms"), ("b", "50ms"), ("c", "30ms"), ("d", "25ms")].map(|(n, w)| text(n, w)).concat();
    let workload = toml::read("apart.toml", &format!("format = 1\n{tasks}")).expect("a workload");
    let (global, _) = sets(&workload, Platform::linux_6_18(2));
    assert!(!global.plan.refusals.is_empty(), "global EDF is shown to hold by some test");
    let (planned, sets) = sets(&workload, Platform::linux_6_18(2).partitioned(&[1, 1]));
    assert_eq!(planned.plan.refusals, []);
    let names = |set: &TestedSet| set.threads.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(sets.iter().map(names).collect::<Vec<_>>(), ["a c", "b d"]);
    sets.iter().for_each(complete);
    let homes = planned.plan.homes();
    let homes: Vec<String> = ["a", "b", "c", "d"].iter().map(|name| homes[*name][0].to_string()).collect();
    assert_eq!(homes, ["0", "1", "0", "1"]);
    let proof = &planned.plan.reservations[0].proof;
    assert!(proof.theorem.contains("EDF in each root domain"), "{}", proof.theorem);
    assert!(
        proof.assumptions.iter().any(|words| words.contains("0, 2 of the plan")),
        "{:?}",
        proof.assumptions
    );
    let checked = surety_plan::check::check(&planned.plan, &planned.claims).expect("the plan is well formed");
    assert!(checked.len() == 4 && checked.iter().all(|claim| claim.agrees()), "{checked:?}");
}

#[test]
fn what_is_refused_is_put_to_the_tests_beside_what_is_kept() {
    let workload = example(|text| text.replace("work    = \"10ms\"", "work    = \"90ms\""));
    let (planned, sets) = sets(&workload, Platform::linux_6_18(1));
    assert_eq!(planned.plan.refusals.len(), 1, "{:?}", planned.plan.refusals);
    let set = sets.iter().find(|set| set.about.starts_with("with what was refused (logger)"));
    let set = set.unwrap_or_else(|| panic!("{sets:?}"));
    let names: Vec<&str> = set.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["control", "camera", "logger"]);
    let exact = set.tests.iter().find(|tested| tested.test == "QPA").expect("it is in the list");
    assert_eq!(exact.answer, TestAnswer::Fails, "{exact:?}");
    assert!(exact.scale_permille.is_some_and(|scale| scale < 1000), "{exact:?}");
    assert!(set.tests.iter().all(|tested| !tested.named), "no proof stands on it");
    // One alone that is too much is shown, too.
    let alone = "format = 1\n[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwork = \"11ms\"\npromise = [\"response <= 10ms\"]\n";
    let workload = toml::read("alone.toml", alone).expect("a workload");
    let (planned, sets) = self::sets(&workload, Platform::linux_6_18(1));
    assert!(planned.plan.reservations.is_empty() && planned.threads.is_empty());
    assert_eq!(sets.len(), 1, "{sets:?}");
    let fails = sets[0].tests.iter().filter(|t| t.answer == TestAnswer::Fails).count();
    assert!(fails > 0 && sets[0].tests.iter().all(|t| t.scale_permille.is_none_or(|s| s < 1000)), "{sets:?}");
}

/// Three real-time threads on one CPU, the first and the last of which share a lock.
fn sharing(first: &str, protocol: &str) -> Workload {
    let task = |name: &str, period: u32, priority: u32, phases: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}ms\"\npolicy = \"fifo:{priority}\"\nphases = [{phases}]\n"
        )
    };
    let text = [
        "format = 1\n".to_owned(),
        task("high", 20, 80, first),
        task("middle", 50, 70, "{ run = \"5ms\" }"),
        task("low", 100, 60, "{ run = \"1ms\" }, { lock = \"m\" }, { run = \"4ms\" }, { unlock = \"m\" }"),
        format!("[[resource]]\nname = \"m\"\n{protocol}\n"),
    ];
    toml::read("sharing.toml", &text.concat()).expect("a workload")
}

#[test]
fn locks_block_and_sleeps_suspend() {
    let locking = "{ run = \"2ms\" }, { lock = \"m\" }, { run = \"1ms\" }, { unlock = \"m\" }";
    let inherit = "protocol = \"inherit\"";
    let platform = || Platform { fair_server: None, realtime_limit: None, ..Platform::linux_6_18(1) };
    let of = |workload: &Workload, word: &str| {
        let (_, sets) = sets(workload, platform());
        sets[0].tests.iter().find(|tested| tested.test == word).cloned().unwrap_or_else(|| panic!("{sets:?}"))
    };
    // The section of the lowest keeps the highest waiting: 3 ms of its own and 4 ms.
    let found = of(&sharing(locking, inherit), "fixed RTA");
    assert_eq!((found.answer, found.exact), (TestAnswer::Holds, false), "{found:?}");
    let response = found.steps.iter().find(|step| step.contains("task 0")).expect("the highest is in it");
    assert!(response.contains("at most 7."), "{response}");
    let (free, bound) = ("{ run = \"3ms\" }", |t: &Tested| t.scale_permille);
    let without = of(&sharing(free, inherit), "fixed RTA");
    assert!(bound(&without) > bound(&found), "{without:?} {found:?}");
    // What no bound covers is said.
    for (first, protocol, words) in [
        (locking, "", "has no protocol"),
        (
            "{ lock = \"m\" }, { sleep = \"1ms\" }, { unlock = \"m\" }, { run = \"1ms\" }",
            inherit,
            "sleeps while it holds",
        ),
        ("{ run = \"1ms\" }, { sleep = \"1ms\" }", inherit, "no test here covers both at once"),
    ] {
        let found = of(&sharing(first, protocol), "fixed RTA");
        assert_eq!(found.answer, TestAnswer::NotApplicable, "{found:?}");
        assert!(found.steps[0].contains(words), "{words}: {found:?}");
    }
    // Without the lock sleep is work, or jitter of those below.
    let mut sleeping = sharing("{ run = \"1ms\" }, { sleep = \"5ms\" }, { run = \"1ms\" }", inherit);
    sleeping.tasks.retain(|task| task.name != "low");
    for word in ["sleep as work", "sleep as jitter"] {
        let found = of(&sleeping, word);
        assert_eq!(found.answer, TestAnswer::Holds, "{found:?}");
    }
    let plain = of(&sleeping, "fixed RTA");
    assert_eq!(plain.answer, TestAnswer::NotApplicable, "{plain:?}");
    // On several CPUs neither is covered.
    let (_, sets) = sets(&sharing(locking, inherit), Platform::linux_6_18(2));
    assert!(sets[0].tests.iter().all(|tested| tested.answer == TestAnswer::NotApplicable), "{sets:?}");
}

#[test]
fn a_reservation_that_reclaims_is_refused_in_words() {
    let text = "format = 1\n[[task]]\nname = \"b\"\nwork = \"forever\"\npromise = [\"share >= 20%\"]\n\
                reservation = { runtime = \"20ms\", period = \"100ms\", reclaim = true }\n";
    let workload = toml::read("reclaims.toml", text).expect("a workload");
    let (planned, _) = sets(&workload, Platform::linux_6_18(1));
    assert!(planned.plan.reservations.is_empty());
    assert!(planned.plan.refusals[0].because.contains("GRUB"), "{:?}", planned.plan.refusals);
}

#[test]
fn tasks_of_equal_priority_keep_their_numbers_and_long_periods_their_tests() {
    let two = |a: (&str, &str), b: (&str, &str)| {
        let task = |name: &str, (period, work): (&str, &str)| {
            format!(
                "[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\nwork = \"{work}\"\npolicy = \"fifo:3\"\n"
            )
        };
        toml::read("t", &format!("format = 1\n{}{}", task("a", a), task("b", b))).expect("a workload")
    };
    let bare = Platform { fair_server: None, ..Platform::linux_6_18(1) };
    let set = |workload: &Workload| sets(workload, bare.clone()).1.pop().expect("a set");
    let of =
        |set: &TestedSet, word: &str| set.tests.iter().find(|t| t.test == word).cloned().expect("listed");
    // The first is late below the second, and is called by its place in the table.
    let tied = set(&two(("10ms", "5ms"), ("20ms", "9ms")));
    let step = of(&tied, "fixed RTA").steps.pop().expect("a step");
    assert!(step.starts_with("task 0: ") && step.contains("deadline 10.00 ms"), "{step}");
    // In order of rising periods, but for the tie.
    let tied = set(&two(("40ms", "4ms"), ("50ms", "30ms")));
    assert!(of(&tied, "hyperbolic").steps[0].contains("the same priority"), "{tied:?}");
    // What comes every 30 h counts as if every 18 minutes.
    let long = set(&two(("18m", "2s"), ("30h", "2ms")));
    assert_eq!(of(&long, "fixed RTA").answer, TestAnswer::Holds, "{long:?}");
}

#[test]
fn budgets_in_which_a_thread_sleeps_are_named_and_leave_out_tests() {
    let text = "format = 1\n[[task]]\nname = \"s\"\nperiod = \"50ms\"\nphases = [{ run = \"5ms\" }, { sleep = \"9ms\" }]\n\
                promise = [\"share >= 10%\"]\ninstances = 3\n";
    let workload = toml::read("t", text).expect("a workload");
    let (planned, sets) = sets(&workload, Platform::linux_6_18(2));
    assert_eq!(planned.plan.refusals, []);
    complete(&sets[0]);
    assert!(
        sets[0].beside.iter().any(|words| words.contains("sleep inside a budget") && words.contains(": s;"))
    );
    let holds = |t: &&Tested| t.answer == TestAnswer::Holds;
    let words: Vec<&str> = sets[0].tests.iter().filter(holds).map(|t| t.test.as_str()).collect();
    assert_eq!(words, ["GFB"]);
}
