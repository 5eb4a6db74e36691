//! Bounds of chains worked out by hand, and what has none.

use super::*;
use crate::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::platform::Enforcement;
use surety_model::record::{ActivityRecord, Evidence};
use surety_model::world::{RunOptions, Unobserved, World as _};

fn machine(cpus: u32) -> Platform {
    Platform { fair_server: None, enforcement: Enforcement::Exact, ..Platform::linux_6_18(cpus) }
}

/// The record of the chain `c` of a workload.
fn analysed(text: &str, platform: Platform) -> ActivityRecord {
    let workload =
        toml::read("w.toml", &format!("format = 1\n{text}")).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let record =
        AnalysisWorld::new(platform).run(&workload, &RunOptions::default(), &mut Unobserved).unwrap();
    record.activity("c").unwrap().clone()
}

fn task(name: &str, lines: &str) -> String {
    format!("[[task]]\nname = '{name}'\n{lines}\n")
}

fn chain(start: &str, through: &str) -> String {
    format!(
        "[[chain]]\nname = 'c'\nstart = {{ {start} }}\nthrough = [{through}]\npromise = 'response <= 12ms'\n"
    )
}

const EVERY_100: &str = "kind = 'periodic', period = '100ms'";

/// The bound in ms, and those of the stages.
fn bound(text: &str, platform: Platform) -> (f64, Vec<f64>) {
    let record = analysed(text, platform);
    let ms = |limits: &surety_model::record::Distribution| limits.quantile(1.0).unwrap().as_millis_f64();
    let limit = record.response.as_ref().map_or_else(|| panic!("{:?}", record.promised), ms);
    (limit, record.series.values().map(ms).collect())
}

#[test]
fn fed_stages_add_up_with_what_stands_above_each() {
    let stages = |ui: &str, draw: &str| task("ui", ui) + &task("draw", draw);
    let through = "'ui', 'draw'";
    let fifo = stages("work = '2ms'\npolicy = 'fifo:20'", "work = '3ms'\npolicy = 'fifo:10'");
    assert_eq!(bound(&(fifo + &chain(EVERY_100, through)), machine(1)), (7.0, vec![2.0, 5.0]));
    // Behind ui events come with 4 ms of jitter: its response of 5 ms, with one job of draw above it, less its least work.
    let jitter = stages(
        "work = { kind = 'uniform', low = '1ms', high = '2ms' }\npolicy = 'fifo:10'",
        "work = '3ms'\npolicy = 'fifo:20'",
    );
    let every_10 = "kind = 'sporadic', gap = '10ms'";
    assert_eq!(bound(&(jitter.clone() + &chain(every_10, through)), machine(1)), (8.0, vec![5.0, 3.0]));
    let record = analysed(&(jitter + &chain(every_10, through)), machine(1));
    let Evidence::Proven { at_least, because } = &record.promised[0].evidence else { panic!("{record:?}") };
    assert_eq!(*at_least, 1.0);
    assert!(because.contains(THEOREM) && because.contains("4.000 ms of jitter"), "{because}");
}

#[test]
fn a_stage_with_a_period_adds_the_period_or_its_start() {
    let frame =
        |more: &str| task("frame", &format!("period = '10ms'\nwork = '1ms'\npolicy = 'fifo:10'\n{more}"));
    let through = chain(EVERY_100, "'frame'");
    assert_eq!(bound(&(frame("") + &through), machine(1)).0, 11.0);
    assert_eq!(bound(&(frame("jitter = '2ms'") + &through), machine(1)).0, 13.0);
    assert_eq!(bound(&(frame("start = '25ms'") + &through), machine(1)).0, 26.0);
    // Beyond the promise nothing is kept, and nothing broken.
    let record = analysed(&(frame("start = '25ms'") + &through), machine(1));
    assert!(matches!(record.promised[0].evidence, Evidence::Proven { at_least: 0.0, .. }));
}

#[test]
fn reservations_give_a_fresh_budget_or_what_they_supply() {
    let fed = |work: &str| {
        task("ui", &format!("work = '{work}'\nreservation = {{ runtime = '4ms', period = '10ms' }}"))
    };
    let alone = |work: &str, start: &str| bound(&(fed(work) + &chain(start, "'ui'")), machine(1)).0;
    let other =
        task("other", "work = '1ms'\nperiod = '20ms'\nreservation = { runtime = '1ms', period = '20ms' }");
    let beside = |work: &str, start: &str| bound(&(fed(work) + &other + &chain(start, "'ui'")), machine(1)).0;
    assert_eq!(beside("3ms", EVERY_100), 10.0);
    assert_eq!(beside("9ms", EVERY_100), 30.0);
    // Events sooner than the budgets of a job: twice T - Q without any, then the work. Alone on its CPU a thread waits for one budget at most.
    let every_9 = "kind = 'sporadic', gap = '9ms'";
    assert_eq!(beside("3ms", every_9), 15.0);
    assert_eq!(alone("3ms", every_9), 9.0);
    // A fixed priority below a reservation is done in the least window with room for its work.
    let above = fed("3ms") + &task("draw", "work = '5ms'\npolicy = 'fifo:1'") + &chain(EVERY_100, "'draw'");
    let supply = Supply::new(
        Reservation::implicit(Nanos::from_millis(4), Nanos::from_millis(10)),
        Enforcement::Exact,
        true,
    );
    let limit = bound(&above, machine(1)).0;
    let window = Nanos::from_f64_rounded(limit * 1e6);
    assert_eq!(window, Nanos::from_millis(5) + supply.at_most_waking(window), "{limit}");
}

/// However much time realtime threads leave, it stands above them.
#[test]
fn the_fair_server_counts() {
    let of = |work: &str| {
        let platform = Platform::linux_6_18(1);
        let tick = platform.tick;
        let text = task("ui", &format!("work = '{work}'\npolicy = 'fifo:9'")) + &chain(EVERY_100, "'ui'");
        (bound(&text, platform).0, tick)
    };
    for work in [20.0, 40.0] {
        let (limit, tick) = of(&format!("{work}ms"));
        // Two budgets of 50 ms may meet, and a third comes 100 ms after they begin, each with a tick of overrun.
        assert_eq!(limit, work + 3.0 * (50.0 + tick.as_millis_f64()));
    }
}

#[test]
fn what_has_no_bound_says_which_stage_and_why() {
    let fifo = "policy = 'fifo:10'\n";
    let with = |lines: &str| task("ui", &format!("{fifo}{lines}"));
    let other = |lines: &str| with("work = '1ms'") + &task("other", lines);
    let reserved = "reservation = { runtime = '4ms', period = '10ms' ";
    for (text, start, cpus, expected) in [
        (task("ui", "work = '1ms'"), EVERY_100, 1, "stage `ui`: `fair` guarantees it no CPU time"),
        (with("work = '1ms'"), "kind = 'poisson', rate = '9/s'", 1, "come at random"),
        (with("work = { kind = 'exponential', mean = '1ms' }"), EVERY_100, 1, "no largest value"),
        (with("work = '1ms'\ngap = '10ms'"), EVERY_100, 1, "at least, not at most"),
        (with("work = '1ms'"), EVERY_100, 2, "pin it with `cpus`"),
        (with("work = '20ms'"), "kind = 'periodic', period = '10ms'", 1, "may take all of the CPU"),
        (with("work = '11ms'\nperiod = '10ms'\nlate = 'skip'"), EVERY_100, 1, "may take all of the CPU"),
        (
            other("work = '1ms'\nperiod = '5ms'\npolicy = 'fifo:10'\nsleep = 'relative'"),
            EVERY_100,
            1,
            "sleeps for a time",
        ),
        (
            with("work = '6ms'\nperiod = '10ms'\nlate = 'skip'")
                + &task("other", "work = '6ms'\nperiod = '20ms'\npolicy = 'fifo:10'"),
            EVERY_100,
            1,
            "gives up releases",
        ),
        (other("work = 'forever'\npolicy = 'fifo:10'"), EVERY_100, 1, "`other` stands above or beside it"),
        (
            with("work = '1ms'")
                + "[[load]]\nname = 'hog'\nkind = 'spinners'\ncount = 1\npolicy = 'fifo:50'\n",
            EVERY_100,
            1,
            "the load `hog`",
        ),
        (task("ui", &format!("work = '1ms'\n{reserved}, reclaim = true }}")), EVERY_100, 1, "reclaims"),
        (
            task("ui", &format!("work = '5ms'\n{reserved}}}")),
            "kind = 'periodic', period = '10ms'",
            1,
            "more than its reservation gives",
        ),
        (
            with("work = '1ms'\ncpus = '0'")
                + &task("other", "work = '1ms'\nperiod = '5ms'\npolicy = 'fifo:11'"),
            EVERY_100,
            2,
            "may run on several CPUs",
        ),
    ] {
        let record = analysed(&(text.clone() + &chain(start, "'ui'")), machine(cpus));
        assert!(record.response.is_none(), "{text}");
        let Evidence::NotObservable { because } = &record.promised[0].evidence else { panic!("{text}") };
        assert!(because.contains(expected), "{text}: {because}");
    }
}

/// Realtime threads that a kernel may throttle have no bound there.
#[test]
fn throttling_is_excluded_or_said() {
    let of = |work: &str| {
        let text = task("ui", &format!("work = '{work}'\npolicy = 'fifo:9'")) + &chain(EVERY_100, "'ui'");
        analysed(&text, Platform { fair_server: None, ..Platform::linux_6_1(1) })
    };
    assert_eq!(of("20ms").response.unwrap().quantile(1.0), Some(Nanos::from_millis(20)));
    let Evidence::NotObservable { because } = &of("97ms").promised[0].evidence else { panic!() };
    assert!(because.contains("would stop them all"), "{because}");
}

/// 100 tasks at 97 % of a CPU are searched through; 400 at 99.9 % are beyond the search, which says so.
#[test]
fn a_search_that_takes_too_long_is_given_up() {
    let text = |count: usize, load: f64| {
        let one = |number: usize| {
            // Periods that have no common grid.
            let period = 10_007 + 997 * number;
            let work = (period as f64 * load / count as f64) as usize;
            task(
                &format!("t{number}"),
                &format!("period = '{period}us'\nwork = '{work}us'\npolicy = 'fifo:10'"),
            )
        };
        (0..count).map(one).collect::<String>() + &chain(EVERY_100, "'t0'")
    };
    let record = analysed(&text(400, 0.999), machine(1));
    let Evidence::NotObservable { because } = &record.promised[0].evidence else { panic!("{record:?}") };
    assert!(because.contains("is given up"), "{because}");
    assert!(analysed(&text(100, 0.97), machine(1)).response.is_some());
}

#[test]
fn a_cancelled_search_ends_and_tasks_have_cpus_of_the_run() {
    let text = task("ui", "work = '1ms'\npolicy = 'fifo:10'\ncpus = '1'") + &chain(EVERY_100, "'ui'");
    let workload = toml::read("w.toml", &format!("format = 1\n{text}")).unwrap();
    let run = |cpus, options: &RunOptions| {
        AnalysisWorld::new(machine(cpus)).run(&workload, options, &mut Unobserved).unwrap_err().to_string()
    };
    let elsewhere = run(1, &RunOptions::default());
    assert!(
        elsewhere.contains("task.ui") && elsewhere.contains("not all among those of the run"),
        "{elsewhere}"
    );
    let cancel = Cancel::default();
    cancel.cancel();
    let platform = machine(2);
    let ground = Ground {
        workload: &workload,
        platform: &platform,
        cpus: CpuSet::first(2),
        reserved: &[],
        alone: false,
        cancel: &cancel,
    };
    assert!(matches!(bounds(&ground, None), Err(WorldError::Interrupted)));
}

/// Where the kernel's own work may carry a job beyond the next event, that one finds no whole budget.
#[test]
fn a_late_job_leaves_no_fresh_budget() {
    let ms = Nanos::from_millis;
    let stream = EventStream::sporadic(ms(20));
    let fresh = |late| fresh(&[stream], ms(8), Reservation::implicit(ms(4), ms(10)), Nanos::ZERO, late);
    assert_eq!(fresh(Nanos::ZERO), Some(ms(20)));
    assert_eq!(fresh(Nanos::new(1)), None);
}
