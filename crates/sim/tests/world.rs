//! The world `sim`: what it refuses, what it counts, what it says.

mod common;

use common::{ms, options, share, simulate, try_simulate, workload, world};
use surety_model::event::{Event, EventKind, JobMarker};
use surety_model::platform::Platform;
use surety_model::verdict::{Outcome, judge};
use surety_model::world::{Cancel, Observer, RunOptions, Unobserved, World as _, WorldError};
use surety_sim::SimWorld;
use surety_units::{CpuSet, Nanos};

const PLAYER: &str = r#"
[[task]]
name    = "player"
period  = "40ms"
work    = { kind = "lognormal", mean = "14ms", p99 = "22ms" }
late    = "LATE"
promise = ["response <= 40ms @ 99%"]

[[load]]
name  = "busy"
kind  = "spinners"
count = 4
"#;

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let task = |body: &str| format!("[[task]]\nname = \"a\"\n{body}");
    for (text, object) in [
        (task("command = \"true\""), "task.a"),
        (task("match = { comm = \"x\" }"), "task.a"),
        (task("period = \"1ms\"\nwork = { trace = \"x\" }"), "task.a"),
        (
            "[[irq]]\nname = \"n\"\narrivals = { kind = \"poisson\", rate = \"0/s\" }\nwork = \"9us\"".to_owned(),
            "irq.n",
        ),
        ("[[load]]\nname = \"r\"\nkind = \"readers\"\ncount = 2".to_owned(), "load.r"),
        ("[[startup]]\nname = \"s\"\ncommand = \"true\"".to_owned(), "startup.s"),
        (
            task(
                "phases = [{ lock = \"m\" }, { unlock = \"m\" }]\nreservation = { runtime = \"1ms\", period = \"10ms\" }\n\
                 [[resource]]\nname = \"m\"\nprotocol = \"inherit\"",
            ),
            "task.a",
        ),
        (String::new(), "workload"),
        // The fair servers take 10 % of two CPUs, 180 % are left.
        (
            "[[task]]\nname = \"a\"\nwork = \"forever\"\ninstances = 3\nreservation = { runtime = \"7ms\", period = \"10ms\" }"
                .to_owned(),
            "task.a",
        ),
    ] {
        match try_simulate(&text, 1, 2) {
            Err(WorldError::Unsupported { world, object: refused, why }) => {
                assert_eq!((world.as_str(), refused.as_str()), ("sim", object), "{why}");
                assert!(why.contains(';'), "says what to do: {why}");
            }
            other => panic!("{object}: {other:?}"),
        }
    }
}

/// What admission books for sched_ext is not there for reservations.
#[test]
fn a_server_of_sched_ext_leaves_less_to_reservations() {
    let on = |release: &str, runtime: &str| {
        let text = format!(
            "[[task]]\nname = \"a\"\nwork = \"forever\"\nreservation = {{ runtime = \"{runtime}\", period = \"100ms\" }}"
        );
        let workload = workload(&text);
        let options = RunOptions { duration: ms(100), cpus: Some(CpuSet::first(1)), ..RunOptions::default() };
        SimWorld::new(Platform::of_release(release, 1)).run(&workload, &options, &mut Unobserved)
    };
    assert!(on("7.2.13", "94800us").is_ok() && on("7.1.0", "89900us").is_ok());
    for (release, runtime, whose) in [
        ("7.2.13", "95100us", "the fair servers' 5.0 %"),
        ("7.1.0", "90100us", "the fair and ext servers' 10.0 %"),
    ] {
        let refused = on(release, runtime).expect_err("it is too much").to_string();
        assert!(refused.contains(whose), "{refused}");
    }
}

/// What `sched_rt_runtime_us` leaves reservations is the limit of admission, of what a reservation reclaims, and gone at -1.
#[test]
fn the_limit_of_realtime_threads_is_that_of_reservations_too() {
    let on = |limit: &str, runtime: &str, reclaim: bool| {
        let text = format!(
            "[[task]]\nname = 'a'\nwork = 'forever'\nreservation = {{ runtime = '{runtime}', period = '10ms', reclaim = {reclaim} }}"
        );
        let workload = workload(&text);
        let options =
            RunOptions { duration: ms(2_000), cpus: Some(CpuSet::first(1)), ..RunOptions::default() };
        let changes: surety_model::platform::PlatformChanges = limit.parse().unwrap();
        let platform = changes.on(&Platform::linux_6_12(1)).unwrap();
        SimWorld::new(platform).run(&workload, &options, &mut Unobserved)
    };
    let half = "rt-limit=500ms/1s,rt-throttled=run,fair-server=off,enforcement=exact";
    let refused = on(half, "8ms", false).expect_err("it is too much").to_string();
    assert!(refused.contains("80.0 %") && refused.contains("the kernel admits 50.0 %"), "{refused}");
    // One that reclaims gets the cap and no more (`grub_reclaim`).
    let reclaiming = on(half, "2ms", true).unwrap();
    assert!((share(&reclaiming, "a") - 0.5).abs() < 0.01, "{}", share(&reclaiming, "a"));
    assert!(on("rt-limit=950ms/1s", "9700us", false).is_err());
    let unlimited = on("rt-limit=off", "9700us", false).unwrap();
    assert!((share(&unlimited, "a") - 0.97).abs() < 0.02, "{}", share(&unlimited, "a"));
}

#[test]
fn every_planned_activation_is_counted_once() {
    for late in ["skip", "queue"] {
        let record = simulate(&PLAYER.replace("LATE", late), 10, 1);
        let player = record.activity("player").unwrap();
        // Releases at 520, 560, ... 10480 ms: warm-up ends at 500, the run at 10500.
        assert_eq!(player.activations, 250, "{late}");
        assert_eq!(player.completed + player.skipped + player.unfinished, 250, "{late}");
        assert_eq!(player.skipped > 0, late == "skip");
        assert!(player.missed > 200, "a fifth of a CPU is not enough: {}", player.missed);
        let (within, of) = player.promised[0].evidence.counted().unwrap();
        // One that is open and not yet late says nothing.
        assert!(of - within == player.missed && of >= 249, "{within} of {of}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let text = PLAYER.replace("LATE", "skip");
    let run = |seed| {
        let options = RunOptions { seed, ..options(2, 2) };
        world().run(&workload(&text), &options, &mut Unobserved).unwrap().hash.unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn time_is_split_into_running_and_waiting() {
    let record = simulate(&PLAYER.replace("LATE", "queue"), 5, 1);
    let busy = record.activity("busy").unwrap().share.as_ref().unwrap();
    for (run, waited) in &busy.threads {
        assert_eq!(*run + waited.unwrap(), Nanos::from_secs(5));
    }
    let all: Nanos = record.activities.iter().map(|a| a.share.as_ref().unwrap().run()).sum();
    assert_eq!(all, Nanos::from_secs(5));
}

#[test]
fn instances_per_cpu_are_pinned_and_cpus_keep_their_numbers() {
    let text = "[[load]]\nname = \"busy\"\nkind = \"memory-thrash\"\ncount = \"2 per-cpu\"";
    struct Notices(Vec<String>);
    impl Observer for Notices {
        fn notice(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }
    let cpus: CpuSet = "2,5".parse().unwrap();
    let options = RunOptions { cpus: Some(cpus), ..options(1, 2) };
    let mut notices = Notices(Vec::new());
    let machine = surety_sim::SimWorld::new(surety_model::platform::Platform::linux_6_18(6));
    let record = machine.run(&workload(text), &options, &mut notices).unwrap();
    let affinities: Vec<String> = record.in_force.threads.iter().map(|t| t.affinity.to_string()).collect();
    assert_eq!(affinities, ["2", "2", "5", "5"]);
    assert_eq!(record.in_force.cpus, cpus);
    assert!(notices.0[0].contains("load.busy"), "{:?}", notices.0);
    for (run, _) in &record.activity("busy").unwrap().share.as_ref().unwrap().threads {
        assert!((run.as_secs_f64() - 0.5).abs() < 0.01);
    }
}

#[test]
fn a_cancelled_run_ends_and_progress_is_reported_sparingly() {
    let text = PLAYER.replace("LATE", "skip");
    struct Watch {
        cancel: Cancel,
        reports: Vec<Nanos>,
    }
    impl Observer for Watch {
        fn progress(&mut self, done: Nanos, total: Nanos) {
            assert_eq!(total, ms(10_500));
            self.reports.push(done);
            if done >= ms(1000) {
                self.cancel.cancel();
            }
        }
    }
    let mut watch = Watch { cancel: Cancel::default(), reports: Vec::new() };
    let options = RunOptions { cancel: watch.cancel.clone(), ..options(10, 1) };
    let result = world().run(&workload(&text), &options, &mut watch);
    assert_eq!(result.unwrap_err(), WorldError::Interrupted);
    assert!(
        watch.reports.len() <= 11 && watch.reports.windows(2).all(|w| w[0] < w[1]),
        "{:?}",
        watch.reports
    );
}

/// Keeps what a trace analysis relies on, and counts.
#[derive(Default)]
struct Trace {
    last: Nanos,
    running: Vec<i32>,
    switches: u64,
    wakeups: u64,
    begun: u64,
    ended: u64,
    starts: u64,
    expiries: u64,
    migrations: u64,
    run: std::collections::BTreeMap<i32, (Nanos, Nanos)>,
}

impl Observer for Trace {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        assert!(event.time >= self.last, "events come in order");
        self.last = event.time;
        let cpu = event.cpu.index();
        self.running.resize(self.running.len().max(cpu + 1), 0);
        assert_eq!(
            event.current.0, self.running[cpu],
            "the current thread is the one switched to: {event:?}"
        );
        match event.kind {
            EventKind::Switch { prev, next, .. } => {
                self.switches += 1;
                assert_eq!(prev.0, self.running[cpu]);
                assert_ne!(prev, next);
                self.running[cpu] = next.0;
                let leaves = self.run.entry(prev.0).or_default();
                leaves.0 += event.time - leaves.1;
                self.run.entry(next.0).or_default().1 = event.time;
            }
            EventKind::Wakeup(_) => self.wakeups += 1,
            EventKind::Migrate { from, to, .. } => {
                assert_ne!(from, to);
                self.migrations += 1;
            }
            EventKind::Marker { text } => match JobMarker::parse(text).expect("a job marker") {
                JobMarker::Begin { job, release } => {
                    assert!(release <= event.time && release == ms(40) * job as i64);
                    self.begun += 1;
                }
                JobMarker::End { .. } => self.ended += 1,
            },
            EventKind::TimerStart { expires, .. } => {
                assert!(expires >= event.time);
                self.starts += 1;
            }
            EventKind::TimerExpire { .. } => self.expiries += 1,
            _ => {}
        }
    }
}

#[test]
fn events_tell_the_whole_story_and_change_nothing() {
    let text = PLAYER
        .replace("LATE", "skip")
        .replace("promise", "reservation = { runtime = \"20ms\", period = \"40ms\" }\npromise");
    let mut trace = Trace::default();
    let record = world().run(&workload(&text), &options(5, 2), &mut trace).unwrap();
    let silent = simulate(&text, 5, 2);
    assert_eq!(record.hash, silent.hash, "watching changes nothing");
    let player = record.activity("player").unwrap();
    // Twelve or thirteen releases lie in the warm-up.
    assert!(trace.ended >= player.completed && trace.ended <= player.completed + 13);
    assert!(trace.begun >= trace.ended && trace.begun <= trace.ended + 1);
    assert!(trace.switches > 1000 && trace.wakeups > 100 && trace.migrations > 0);
    assert!(trace.expiries > 0 && trace.starts >= trace.expiries);
    // Tid 1 is the player's. Its CPU time by switches is what the record says, give or take the warm-up.
    let from_switches = trace.run[&1].0.as_secs_f64();
    let from_record = player.share.as_ref().unwrap().run().as_secs_f64();
    assert!((from_switches - from_record).abs() < 0.3, "{from_switches} {from_record}");
}

#[test]
fn phases_share_resources_and_pass_events() {
    let text = r#"
[[task]]
name   = "producer"
period = "10ms"
phases = [{ run = "1ms" }, { lock = "l" }, { run = "1ms" }, { unlock = "l" }, { signal = "e" }]

[[task]]
name   = "consumer"
period = "10ms"
phases = [{ wait = "e" }, { lock = "l" }, { run = { kind = "uniform", low = "1ms", high = "2ms" } }, { unlock = "l" }, { sleep = "500us" }]

[[resource]]
name = "l"
"#;
    let record = simulate(text, 2, 2);
    for name in ["producer", "consumer"] {
        let activity = record.activity(name).unwrap();
        assert_eq!((activity.completed, activity.missed), (200, 0), "{name}");
    }
    let consumer = record.activity("consumer").unwrap();
    let response = consumer.response.as_ref().unwrap();
    assert!(response.quantile(0.01).unwrap() >= ms(3) && response.quantile(1.0).unwrap() <= ms(5));
}

#[test]
fn time_left_at_the_end_is_an_open_job() {
    let record =
        simulate("[[task]]\nname = \"t\"\nperiod = \"100ms\"\nwork = \"60ms\"\nstart = \"70ms\"", 1, 1);
    let task = record.activity("t").unwrap();
    // Releases from 570 to 1470; the last one is open at 1500.
    assert_eq!((task.activations, task.completed, task.unfinished, task.missed), (10, 9, 1, 0));
}

#[test]
fn a_switch_costs_the_thread_switched_to() {
    let mut world = world();
    world.platform.overheads.switch = Nanos::from_micros(100);
    let text = "[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"1ms\"";
    let record = world.run(&workload(text), &options(1, 1), &mut Unobserved).unwrap();
    let response = record.activity("t").unwrap().response.as_ref().unwrap();
    assert_eq!(response.observed().unwrap().moments.max(), Some(1.1e6));
}

/// Wants the first so many runs, and counts the events of each.
struct FirstRuns {
    wanted: usize,
    events: Vec<u64>,
}

impl Observer for FirstRuns {
    fn wants_run(&mut self, number: usize) -> bool {
        assert_eq!(number.min(self.wanted), self.events.len());
        if number < self.wanted {
            self.events.push(0);
        }
        number < self.wanted
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, _event: &Event<'_>) {
        *self.events.last_mut().expect("a run was begun") += 1;
    }
}

#[test]
fn several_runs_are_each_as_if_it_were_alone_and_a_refused_one_ends_no_other() {
    let options = RunOptions { duration: Nanos::from_secs(2), ..RunOptions::default() };
    let other = RunOptions { seed: 2, ..options.clone() };
    let player = workload(&PLAYER.replace("LATE", "queue"));
    let refused = workload("[[task]]\nname = \"a\"\ncommand = \"true\"");
    let runs = [
        (player.clone(), options.clone()),
        (refused, options.clone()),
        (player.clone(), other.clone()),
        (player.clone(), options.clone()),
    ];
    let world = world();
    let mut watch = FirstRuns { wanted: 3, events: Vec::new() };
    let made = world.run_each(&runs, &mut watch);
    assert!(watch.events[0] > 0 && watch.events[1] == 0 && watch.events[2] > 0, "{:?}", watch.events);
    let completed = |made: &Result<surety_model::record::Record, WorldError>| {
        let record = made.as_ref().unwrap_or_else(|e| panic!("{e}"));
        format!("{:?}", record.activities)
    };
    assert_eq!(completed(&made[0]), completed(&world.run(&player, &options, &mut Unobserved)));
    assert_eq!(completed(&made[2]), completed(&world.run(&player, &other, &mut Unobserved)));
    assert_ne!(completed(&made[0]), completed(&made[2]));
    assert!(matches!(&made[1], Err(WorldError::Unsupported { object, .. }) if object == "task.a"));
    assert!(matches!(&made[3], Err(WorldError::Interrupted)));
}

/// A FIFO load of 300 ms, exponentially every 5 s in the mean, beside a 20 ms task: late activations come in bursts of 19
/// or so, and one in 14 is late. Counted one by one they keep or break a promise wrongly in 10 to 14 % of runs.
#[test]
fn bursts_of_a_rare_load_decide_no_promise_wrongly() {
    let text = "[[task]]\nname = \"player\"\nperiod = \"20ms\"\nwork = \"4ms\"\n\
                promise = [\"response <= 20ms @ 95%\", \"response <= 20ms @ 91%\"]\n\
                [[task]]\nname = \"burst\"\ngap = \"1ms\"\nspacing = { kind = \"exponential\", mean = \"5s\" }\nwork = \"300ms\"\n\
                policy = \"fifo:50\"\n";
    let workload = workload(text);
    let judged = |seconds, seed| {
        let options = RunOptions { seed, ..options(seconds, 1) };
        let record = world().run(&workload, &options, &mut Unobserved).unwrap();
        let player = record.activity("player").unwrap();
        let verdicts = judge(player);
        let (within, of) = player.promised[0].evidence.counted().unwrap();
        ([verdicts[0].outcome, verdicts[1].outcome], verdicts[0].because.clone(), of - within, of)
    };
    // Five bursts are too few to say kept, and the verdict says how many seconds show ten of them.
    let short = (1..=20).map(|seed| judged(25, seed));
    for (outcomes, because, ..) in short {
        assert!(!outcomes.contains(&Outcome::Kept), "{because}");
        assert!(
            outcomes[0] != Outcome::Undecided || because.contains("50s") || because.contains("between"),
            "{because}"
        );
    }
    let (mut kept, mut broken, mut late, mut all) = (0, 0, 0, 0);
    let runs = 300;
    for seed in 1..=runs {
        let ([at_95, at_91], _, outside, of) = judged(60, seed);
        kept += u32::from(at_95 == Outcome::Kept);
        broken += u32::from(at_91 == Outcome::Broken);
        (late, all) = (late + outside, all + of);
    }
    let fraction = late as f64 / all as f64;
    assert!((0.06..0.082).contains(&fraction), "{fraction} of all activations are late");
    // 5 % and three standard errors of 300 runs.
    assert!(kept <= 26 && broken <= 26, "{kept} falsely kept, {broken} falsely broken of {runs}");
}

/// The budget ends with the job: the thread sleeps when its demotion is carried out, on whatever CPU it runs.
#[test]
fn a_demoted_thread_may_go_to_sleep_at_that_instant() {
    let text = "[[task]]\nname = \"r\"\nperiod = \"9ms\"\nwork = \"1ms\"\n\
                reservation = { runtime = \"1ms\", period = \"9ms\", demote = true }\n\
                [[task]]\nname = \"s\"\nperiod = \"7ms\"\nwork = \"2ms\"\n\
                reservation = { runtime = \"1ms\", period = \"7ms\", demote = true }\n\
                [[task]]\nname = \"t\"\nperiod = \"5ms\"\nwork = \"1ms\"\ninstances = 3\n\
                [[load]]\nname = \"busy\"\nkind = \"spinners\"\ncount = 2";
    let world = surety_sim::SimWorld::new(surety_model::platform::Platform::linux_6_18(3));
    let record = world.run(&workload(text), &options(5, 3), &mut Unobserved).unwrap();
    assert_eq!(record.activity("r").unwrap().missed, 0);
    let used: f64 = ["r", "s", "t", "busy"].map(|name| share(&record, name)).iter().sum();
    assert!(used <= 3.0 && share(&record, "busy") > 1.0, "{used}");
}

/// Beside a busy loop on one CPU a kernel of the lab (6.12) had 3.8 and 2.3 % of these activations late; without its rule for
/// sleepers that are left in the queue it was 32 and 50 % here. Work of exactly a quarter would meet lag zero again and again.
#[test]
fn a_short_sleeper_that_was_left_in_the_queue_takes_over_when_it_wakes() {
    for (period, low, high, lab) in [(200, 48, 52, 3.8), (1000, 390, 410, 2.3)] {
        let text = format!(
            "[[task]]\nname = \"t\"\nperiod = \"{period}us\"\n\
             work = {{ kind = \"uniform\", low = \"{low}us\", high = \"{high}us\" }}\n\
             [[load]]\nname = \"hog\"\nkind = \"spinners\""
        );
        let record = simulate(&text, 3, 1);
        let task = record.activity("t").unwrap();
        let missed = task.missed as f64 / task.activations as f64 * 100.0;
        assert!((missed - lab).abs() <= 5.0, "{period}: {missed} %, the lab has {lab}");
    }
}
