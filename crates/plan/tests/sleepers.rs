//! Threads that sleep inside their budgets beside jobs with deadlines: what is accepted, against what the simulator's servers do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::BTreeMap;

use surety_analysis::foundation::{Foundation, ReservedThread};
use surety_analysis::response::ServedTask;
use surety_model::distribution::TimeDistribution;
use surety_model::formats::toml;
use surety_model::platform::{Enforcement, Platform};
use surety_model::promise::Promise;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Load, LoadKind, Phase, PolicySpec, Release, Task, TaskBody, Workload};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::{PlanOptions, plan};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::Nanos;

const LENGTH: Nanos = Nanos::from_millis(600);

fn us(n: u64) -> Nanos {
    Nanos::from_micros(i64::try_from(n).unwrap())
}

fn between(low: u64, high: u64, random: &mut Pcg) -> u64 {
    low + random.below(high - low + 1)
}

fn simulated(platform: &Platform, workload: &Workload, duration: Nanos) -> Record {
    let options = RunOptions { duration, warm_up: Nanos::ZERO, ..RunOptions::default() };
    SimWorld::new(platform.clone()).run(workload, &options, &mut Unobserved).unwrap_or_else(|e| panic!("{e}"))
}

/// Any reservation with this part of a CPU, in hundredths; with its deadline at the period's end or before it.
fn reservation(part: u64, random: &mut Pcg) -> Reservation {
    let period = us(between(8_000, 60_000, random));
    let runtime = period.mul_ratio(part, 100);
    let room = (period - runtime).mul_ratio(between(2, 10, random), 10);
    let deadline = if random.below(2) == 0 { period } else { runtime + room };
    Reservation { deadline, ..Reservation::implicit(runtime, period) }
}

/// A thread that runs for parts of its budget or more and sleeps in between, for parts of its period.
fn sleeper(name: &str, reservation: Reservation, random: &mut Pcg) -> Task {
    let (q, t) = (reservation.runtime, reservation.period);
    let mut phases = Vec::new();
    let mut asleep = Nanos::ZERO;
    while asleep < LENGTH {
        let run = match random.below(3) {
            0 => q.mul_ratio(between(10, 900, random), 1000),
            1 => q.mul_ratio(between(900, 1000, random), 1000),
            _ => q.mul_ratio(between(1000, 3000, random), 1000),
        };
        let sleep = t.mul_ratio(between(1, 1000, random), 1000);
        phases.extend([Phase::Run(TimeDistribution::Constant(run)), Phase::Sleep(sleep)]);
        asleep += sleep;
    }
    let mut task = Task::periodic(name, LENGTH * 4, TimeDistribution::Constant(Nanos::ZERO));
    task.body = TaskBody::Phases(phases);
    task.release =
        Release::Periodic { period: LENGTH * 4, jitter: Nanos::ZERO, start: us(random.below(20_000)) };
    task.reservation = Some(reservation);
    task
}

/// A thread whose jobs take a whole budget each, once in a period.
fn victim(name: &str, reservation: Reservation, start: Nanos) -> Task {
    let mut task = Task::periodic(name, reservation.period, TimeDistribution::Constant(reservation.runtime));
    task.release = Release::Periodic { period: reservation.period, jitter: Nanos::ZERO, start };
    task.reservation = Some(reservation);
    task.promises =
        vec![Promise::parse(&format!("response <= {}", reservation.deadline.to_exact_string())).unwrap()];
    task
}

/// The largest budget of the last thread with which a set is accepted, if any is.
fn largest(threads: &mut [ReservedThread], platform: &Platform) -> Option<Nanos> {
    let (mut low, mut high) = (us(20), threads.last()?.reservation.deadline);
    let mut holds = |runtime: Nanos| {
        threads.last_mut().unwrap().reservation.runtime = runtime;
        Foundation::of(threads, platform).holds()
    };
    if !holds(low) {
        return None;
    }
    while high - low > us(5) {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    holds(low).then_some(low)
}

/// No accepted set misses, whoever sleeps when; counted as sporadic tasks, as if budgets always came a period apart, many an
/// accepted set does: the test would have seen it.
#[test]
fn no_accepted_set_misses_beside_threads_that_sleep_inside_their_budgets() {
    let mut random = Pcg::for_job(9, 71, 0);
    let mut seen = BTreeMap::new();
    for round in 0..4_000 {
        let cpus = 1 + (round % 3) as u32;
        let enforcement = if round % 2 == 0 { Enforcement::Exact } else { Enforcement::Tick(us(1_000)) };
        let platform =
            Platform { tick: us(1_000), enforcement, fair_server: None, ..Platform::linux_6_18(cpus) };
        let count = between(u64::from(cpus), 2 * u64::from(cpus), &mut random);
        let part = 80 * u64::from(cpus) / (count + 1);
        let sleepers: Vec<Reservation> = (0..count)
            .map(|_| reservation(between(5, part.clamp(6, 60), &mut random), &mut random))
            .collect();
        let others = 1 + random.below(2);
        let victims: Vec<Reservation> =
            (0..others).map(|_| reservation(between(5, 30, &mut random), &mut random)).collect();
        let tasks: Vec<Task> =
            sleepers.iter().enumerate().map(|(i, r)| sleeper(&format!("s{i}"), *r, &mut random)).collect();
        let starts: Vec<Nanos> = victims.iter().map(|_| us(random.below(30_000))).collect();
        for as_sporadic in [false, true] {
            let thread = |reservation: &Reservation, sleeps: bool| ReservedThread {
                reservation: *reservation,
                bounded: !sleeps,
                sleeps: sleeps && !as_sporadic,
            };
            let mut threads: Vec<ReservedThread> = sleepers.iter().map(|r| thread(r, true)).collect();
            threads.extend(victims.iter().map(|r| thread(r, false)));
            let Some(runtime) = largest(&mut threads, &platform) else { continue };
            let mut victims = victims.clone();
            victims.last_mut().unwrap().runtime = runtime;
            let mut tasks = tasks.clone();
            for (i, (r, start)) in victims.iter().zip(&starts).enumerate() {
                tasks.push(victim(&format!("v{i}"), *r, *start));
            }
            let loads = vec![Load::new("busy", LoadKind::Spinners, cpus * 2)];
            let record = simulated(&platform, &Workload { tasks, loads, ..Workload::default() }, LENGTH);
            let missed = (0..victims.len()).any(|i| {
                let (within, of) =
                    record.activity(&format!("v{i}")).unwrap().promised[0].evidence.counted().unwrap();
                within < of
            });
            assert!(as_sporadic || !missed, "round {round}: {platform:?} {sleepers:?} {victims:?}");
            let kind = (cpus > 1, enforcement == Enforcement::Exact, as_sporadic);
            let (accepted, late) = seen.entry(kind).or_insert((0u32, 0u32));
            *accepted += 1;
            *late += u32::from(missed);
        }
    }
    for ((several, exact, as_sporadic), (accepted, late)) in &seen {
        println!(
            "{} CPU, {}: {accepted} accepted {}, {late} of them missed",
            if *several { "several" } else { "one" },
            if *exact { "exact" } else { "tick" },
            if *as_sporadic { "as sporadic tasks" } else { "as servers" },
        );
        assert!(*as_sporadic || *accepted > 400, "{several} {exact}: {accepted}");
    }
    let late =
        |several| seen.iter().filter(|((s, _, old), _)| *s == several && *old).map(|(_, v)| v.1).sum::<u32>();
    assert!(late(false) > 20 && late(true) > 0, "{seen:?}");
}

/// What a thread below by fixed priority is told to fit in holds beside one that sleeps inside its budget above it.
#[test]
fn a_window_is_asked_for_no_more_than_is_said_of_a_thread_that_sleeps() {
    let mut random = Pcg::for_job(9, 72, 0);
    let mut beyond = 0;
    for round in 0..600 {
        let enforcement = if round % 2 == 0 { Enforcement::Exact } else { Enforcement::Tick(us(1_000)) };
        let platform =
            Platform { tick: us(1_000), enforcement, fair_server: None, ..Platform::linux_6_18(1) };
        let part = between(10, 60, &mut random);
        let own = reservation(part, &mut random);
        let supply = surety_analysis::Supply::new(own, enforcement, true);
        // The longest response of a job below is the least window that holds it and what is above.
        let work = own.period.mul_ratio(between(20, 400, &mut random), 100);
        let response = |most: &dyn Fn(Nanos) -> Nanos| {
            let mut window = work;
            for _ in 0..10_000 {
                let next = work + most(window);
                if next <= window || window > LENGTH {
                    break;
                }
                window = next;
            }
            window
        };
        let limit = response(&|window: Nanos| supply.at_most_waking(window));
        if limit > LENGTH {
            continue;
        }
        let period = limit + us(between(100, 9_000, &mut random));
        let mut below = Task::periodic("below", period, TimeDistribution::Constant(work));
        below.policy = PolicySpec::Fifo { priority: 10 };
        below.release = Release::Periodic { period, jitter: Nanos::ZERO, start: us(random.below(20_000)) };
        below.promises = vec![Promise::parse(&format!("response <= {}", limit.to_exact_string())).unwrap()];
        let tasks = vec![sleeper("s", own, &mut random), below];
        let record = simulated(&platform, &Workload { tasks, ..Workload::default() }, LENGTH);
        let (within, of) = record.activity("below").unwrap().promised[0].evidence.counted().unwrap();
        assert_eq!(within, of, "round {round}: {own:?} {work} {limit}");
        beyond += u32::from(limit > work);
    }
    assert!(beyond > 200, "{beyond}");
}

/// The sets with which a reader found the hole: what is planned is kept, or it is refused.
#[test]
fn a_sleeper_beside_a_short_deadline_is_refused_or_kept() {
    let one = "[[task]]\nname = \"s\"\nperiod = \"400ms\"\n\
               phases = [{ run = \"25ms\" }, { sleep = \"25ms\" }, { run = \"48ms\" }, { sleep = \"1ms\" }]\n\
               promise = [\"share >= 50%\"]\n";
    let two = |name: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"400ms\"\n\
             phases = [{{ run = \"9.6ms\" }}, {{ sleep = \"40.2ms\" }}, {{ run = \"40ms\" }}, {{ sleep = \"1ms\" }}]\n\
             promise = [\"share >= 19.6%\"]\n"
        )
    };
    let late = |work: &str| {
        format!(
            "[[task]]\nname = \"v\"\nperiod = \"400ms\"\nwork = \"{work}\"\npromise = [\"response <= 150ms\"]\n"
        )
    };
    for (text, cpus) in
        [(format!("{one}{}", late("88ms")), 1), (format!("{}{}{}", two("a"), two("b"), late("122ms")), 2)]
    {
        let mut workload = toml::read("t", &format!("format = 1\n{text}")).unwrap();
        let platform = Platform::linux_6_18(cpus);
        let found = plan(&workload, &BTreeMap::new(), &PlanOptions::new(platform.clone()));
        assert!(!found.refusals.is_empty(), "{found:?}");
        // What was planned before this was counted, and was late in 49 of 49 jobs.
        for task in &mut workload.tasks {
            task.reservation = found.reservation_of(&task.name).map(|planned| planned.reservation);
        }
        workload.tasks.retain(|task| task.reservation.is_some());
        workload.loads = vec![Load::new("busy", LoadKind::Spinners, cpus * 2)];
        let record = simulated(&platform, &workload, Nanos::from_secs(4));
        for task in &workload.tasks {
            if let Some((within, of)) = record.activity(&task.name).unwrap().promised[0].evidence.counted() {
                assert_eq!(within, of, "{}", task.name);
            }
        }
    }
}

/// A job that uses its budget up to the last of it leaves one that is replenished while nobody wants it: with D < T a release
/// inside that period finds only a part of it.
#[test]
fn a_job_as_long_as_its_budget_is_bounded_only_on_the_grid_or_with_a_deadline_at_the_end() {
    let ms = Nanos::from_millis;
    let platform = Platform::linux_6_18(1);
    for (work, deadline, gap, is_bounded) in
        [(2_000, 5, 13, false), (1_999, 5, 13, true), (2_000, 10, 13, true), (2_000, 5, 20, true)]
    {
        let reservation = Reservation { deadline: ms(deadline), ..Reservation::implicit(ms(2), ms(10)) };
        let work = TimeDistribution::Constant(us(work));
        let mut task = Task::periodic("t", ms(gap), work.clone());
        task.reservation = Some(reservation);
        task.promises = vec![Promise::parse(&format!("response <= {deadline}ms")).unwrap()];
        let served = ServedTask {
            work,
            modes: None,
            gap: ms(gap),
            jitter: Nanos::ZERO,
            grid: true,
            late: task.late,
            reservation,
            enforcement: platform.enforcement,
        };
        assert_eq!(served.is_bounded(), is_bounded, "{served:?}");
        let loads = vec![Load::new("busy", LoadKind::Spinners, 2)];
        let record =
            simulated(&platform, &Workload { tasks: vec![task], loads, ..Workload::default() }, LENGTH);
        let (within, of) = record.activity("t").unwrap().promised[0].evidence.counted().unwrap();
        assert_eq!(within == of, is_bounded, "{served:?}: {within} of {of}");
    }
}
