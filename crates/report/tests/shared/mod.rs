//! A whole loop made up without a machine: the jobs of a queue simulated by hand with deterministic draws.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failing fixture is a failing test")]

use std::collections::BTreeMap;
use std::path::Path;

use surety_model::distribution::TimeDistribution;
use surety_model::environment::Check;
use surety_model::formats::toml;
use surety_model::plan::{
    PLAN_SCHEMA, Plan, PlannedReservation, Proof, ProofInput, Refusal, SimulationEvidence,
};
use surety_model::platform::Platform;
use surety_model::promise::Promise;
use surety_model::record::{
    Account, ActivityRecord, Basis, Caveat, Distribution, Disturbance, Evidence, Figure, InForce, JobOutcome,
    Observed, Promised, Record, Share, ThreadInForce, ThreadSeen, TraceQuality,
};
use surety_model::reservation::Reservation;
use surety_model::workload::{ActivityKind, ThreadRole, Workload};
use surety_report::Row;
use surety_units::{CpuSet, Nanos, Tid};

/// A player beside a busy network: the loop's usual example.
pub fn workload() -> Workload {
    let text = r#"
format = 1
title  = "A video player beside a busy network"

[[task]]
name    = "player"
period  = "40ms"
work    = { kind = "lognormal", mean = "14ms", p99 = "22ms" }
promise = ["response <= 40ms @ 99%", "share >= 30%"]

[[task]]
name    = "audio"
period  = "5ms"
work    = { kind = "uniform", low = "200us", high = "400us" }
promise = ["response <= 5ms", "latency <= 2ms @ 99.9%"]

[[load]]
name  = "hogs"
kind  = "spinners"
count = 4

[[load]]
name    = "copy"
kind    = "file-copy"
promise = ["rate >= 20MB/s"]
"#;
    toml::read("player.toml", text).unwrap()
}

/// A record of `world`: every job waits for a draw from `delay` before it starts.
fn record(world: &str, reserved: bool, delay: &TimeDistribution, hogs: f64) -> Record {
    let workload = workload();
    let span = Nanos::from_secs(25);
    let mut activities = Vec::new();
    for task in &workload.tasks {
        let interval = task.release.interval().unwrap();
        let surety_model::workload::TaskBody::Synthetic(surety_model::workload::Work::Drawn(work)) =
            &task.body
        else {
            panic!("the example's tasks draw their work");
        };
        let mut account = Account::of_task(task, Basis::Sample);
        let mut free = Nanos::ZERO;
        let mut run = Nanos::ZERO;
        let jobs = span.div_floor(interval);
        for job in 0..jobs as u64 {
            let release = interval * job as i64;
            let execution = work.draw(1, &task.name, job);
            let scaled = delay.draw(2, &task.name, job).mul_ratio(interval.get_unsigned(), 40_000_000);
            let start = (release + scaled).max(free);
            let completion = start + execution + scaled / 2;
            if completion > span {
                account.add(JobOutcome::Unfinished { release, until: span });
                continue;
            }
            free = completion;
            run += execution;
            account.add(JobOutcome::Completed { release, start, completion, execution });
        }
        let share = Share { threads: vec![(run, Some(run / 7))], span };
        let mut activity = account.finish(Some(share));
        activity.longest_gap = Some(Nanos::new(61_234_567));
        let role = ThreadRole { comm: "player".to_owned(), rank: 0 };
        activity.threads = vec![ThreadSeen { tid: Tid(7001), role, run }];
        for Promised { evidence, .. } in activity.promised.iter_mut().filter(|_| reserved) {
            // Three runs, where one alone has no interval.
            if let Evidence::Value { value, .. } = *evidence {
                *evidence = Evidence::Runs(vec![value * 0.99, value, value * 1.01]);
            }
        }
        activities.push(activity);
    }
    let mut load = ActivityRecord::new("hogs", ActivityKind::Load, Basis::Sample);
    load.share = Some(Share {
        threads: (0..4).map(|_| (Nanos::from_f64_rounded(hogs / 4.0 * 25e9), None)).collect(),
        span,
    });
    activities.push(load);
    let mut copy = ActivityRecord::new("copy", ActivityKind::Load, Basis::Sample);
    let mut write = Observed::default();
    (1..=100).for_each(|us| write.record(Nanos::from_micros(us)));
    copy.series.insert("write".to_owned(), Distribution::from(write));
    let rate = 61_000_000.0 * hogs;
    copy.figures = vec![
        Figure { name: "rate".to_owned(), value: rate, unit: "B/s".into() },
        Figure { name: "copies".to_owned(), value: (hogs * 10.0).floor(), unit: "".into() },
    ];
    copy.caveats = vec![Caveat::excuses("the hypervisor took 9 % of CPU 0")];
    copy.promised = promised("copy", [Evidence::Runs(vec![rate * 0.99, rate, rate * 1.01])]);
    activities.push(copy);
    let thread = |activity: &str, tid, policy: &str, as_requested| ThreadInForce {
        activity: activity.to_owned(),
        tid,
        policy: policy.to_owned(),
        affinity: CpuSet::first(2),
        as_requested,
    };
    let policy = if reserved { "deadline 22ms/40ms/40ms" } else { "fair nice 0" };
    let is_host = world == "host";
    Record {
        world: world.to_owned(),
        reserved,
        seed: Some(1),
        duration: Some(span),
        in_force: InForce {
            kernel: if is_host { "6.18.5" } else { "linux-6.18" }.to_owned(),
            cpus: CpuSet::first(2),
            machine: Some(Platform {
                name: if is_host { "linux-6.18.5" } else { "linux-6.18" }.to_owned(),
                ..Platform::linux_6_18(2)
            }),
            checks: vec![
                Check::good("clock", "tsc"),
                Check::limited("load", "3.10 2.00 1.00", "end what else runs, or choose CPUs with --cpus"),
            ],
            threads: vec![
                thread("player", is_host.then_some(Tid(4711)), policy, true),
                thread("audio", is_host.then_some(Tid(4712)), policy, !is_host || reserved),
            ],
            environment: BTreeMap::from([
                ("clock source".to_owned(), "tsc".to_owned()),
                ("governor".to_owned(), "performance".to_owned()),
            ]),
            unvalidated: Vec::new(),
            timers: Vec::new(),
            disturbance: is_host.then_some(Disturbance { others: 0.0, stolen: 0.004 }),
        },
        degraded: if is_host {
            vec!["the machine runs in a virtual machine: 0.4 % of its time was stolen".to_owned()]
        } else {
            Vec::new()
        },
        activities,
        trace: is_host.then_some(TraceQuality { events: 182_345, lost: 0, censored_jobs: 0 }),
        hash: (!is_host).then_some(0x0123_4567_89ab_cdef),
    }
}

/// The promises of an activity with their evidence.
fn promised<const N: usize>(name: &str, evidence: [Evidence; N]) -> Vec<Promised> {
    let workload = workload();
    assert_eq!(workload.promises_of(name).len(), N);
    let pairs = workload.promises_of(name).iter().zip(evidence);
    pairs.map(|(promise, evidence)| Promised { promise: *promise, evidence }).collect()
}

/// What theory says: limits and a proof for the player, nothing for the rest.
fn analysis() -> Record {
    let mut player = ActivityRecord::new("player", ActivityKind::Task, Basis::Bound);
    player.deadline = Some(Nanos::from_millis(40));
    player.response = Some(Distribution::Limits(vec![(0.99, Nanos::from_millis(40))]));
    let evidence = [
        Evidence::Proven {
            at_least: 0.9937,
            because: "the budget covers the work of 99.37 % of the jobs".to_owned(),
        },
        Evidence::NotObservable { because: "the analysis bounds response times only".to_owned() },
    ];
    player.promised = promised("player", evidence);
    let mut audio = ActivityRecord::new("audio", ActivityKind::Task, Basis::Bound);
    audio.deadline = Some(Nanos::from_millis(5));
    audio.response = Some(Distribution::Limits(vec![(1.0, Nanos::new(4_912_345))]));
    let evidence = [
        Evidence::Proven { at_least: 1.0, because: "processor demand".to_owned() },
        Evidence::NotObservable { because: "the analysis bounds response times only".to_owned() },
    ];
    audio.promised = promised("audio", evidence);
    Record {
        world: "analysis".to_owned(),
        reserved: true,
        seed: Some(u64::MAX),
        duration: Some(Nanos::from_secs(25)),
        in_force: InForce {
            kernel: "linux-6.18".to_owned(),
            cpus: CpuSet::first(2),
            machine: Some(Platform::linux_6_18(2)),
            ..InForce::default()
        },
        degraded: Vec::new(),
        activities: vec![player, audio],
        trace: None,
        hash: None,
    }
}

/// The five records of the loop with their labels.
pub fn records() -> Vec<(&'static str, Record)> {
    let ms = Nanos::from_millis;
    let starved = TimeDistribution::LogNormal { mean: ms(20), p99: ms(70) };
    let starved_sim = TimeDistribution::LogNormal { mean: ms(18), p99: ms(60) };
    let served = TimeDistribution::LogNormal { mean: ms(1), p99: ms(4) };
    let served_sim = TimeDistribution::Uniform { low: ms(0), high: ms(3) };
    vec![
        ("host unreserved", record("host", false, &starved, 1.7)),
        ("analysis", analysis()),
        ("sim unreserved", record("sim", false, &starved_sim, 1.66)),
        ("sim reserved", record("sim", true, &served_sim, 1.21)),
        ("host reserved", record("host", true, &served, 1.23)),
    ]
}

/// Rows of records held against the workload's promises.
pub fn rows<'a>(records: &'a [(&'static str, Record)]) -> Vec<Row<'a>> {
    records.iter().map(|(label, record)| Row::new(label, record)).collect()
}

/// A plan with two proofs and a refusal.
pub fn plan() -> Plan {
    let ms = Nanos::from_millis;
    let simulation = |seed| SimulationEvidence {
        profile: "linux-6.18".to_owned(),
        seed,
        hash: "0123456789abcdef".to_owned(),
        activations: 30_000,
        missed: 41,
    };
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        platform: Platform::linux_6_18(2),
        reservations: vec![
            PlannedReservation {
                activity: "player".to_owned(),
                promises: vec![promise("response <= 40ms @ 99%"), promise("share >= 30%")],
                reservation: Reservation::implicit(Nanos::new(22_345_678), ms(40)),
                root_domains: Vec::new(),
                proof: Proof {
                    theorem: "stationary backlog of a constant bandwidth server".to_owned(),
                    source: "Abeni and Buttazzo, RTSS 1998; Palopoli et al., IEEE TPDS 27 (2016)".to_owned(),
                    conclusion: "At least 99.37 % of the jobs end within 40 ms of their release.".to_owned(),
                    probability: Some(0.9937),
                    confidence: None,
                    inputs: vec![
                        ProofInput::new("work", "log-normal, mean 14 ms, p99 22 ms, from 622 jobs"),
                        ProofInput::new("Q, T", "22.345678 ms, 40 ms"),
                        ProofInput::new("grid", "50 us"),
                    ],
                    steps: vec![
                        "A job of work c takes ceil((c + backlog) / Q) periods; it is in time when that is 1.".to_owned(),
                        "The backlog after a job is max(0, backlog + c - Q): a random walk on the grid with 447 states."
                            .to_owned(),
                        "Its stationary distribution is found by cyclic reduction in 9 iterations.".to_owned(),
                        "The sum of its probabilities with c + backlog <= Q is 0.9937.".to_owned(),
                    ],
                    assumptions: vec![
                        "Jobs need independent amounts of work with the fitted distribution.".to_owned(),
                        "Budgets are enforced on a tick of 4 ms; an overrun is paid back.".to_owned(),
                    ],
                    residual: Some(3.1e-13),
                    simulations: vec![simulation(1), simulation(2)],
                    digest: None,
                },
            },
            PlannedReservation {
                activity: "audio".to_owned(),
                promises: vec![promise("response <= 5ms")],
                reservation: Reservation {
                    runtime: Nanos::from_micros(500),
                    deadline: ms(4),
                    period: ms(5),
                    reclaim: true,
                    demote: false,
                },
                root_domains: Vec::new(),
                proof: Proof {
                    theorem: "processor demand criterion".to_owned(),
                    source: "Baruah, Mok and Rosier, RTSS 1990".to_owned(),
                    conclusion: "Every job ends within 5 ms of its release.".to_owned(),
                    probability: None,
                    confidence: None,
                    inputs: vec![ProofInput::new("largest work", "400 us")],
                    steps: vec!["dbf(t) <= t at each of the 8 test points up to 40 ms.".to_owned()],
                    assumptions: Vec::new(),
                    residual: None,
                    simulations: Vec::new(),
                    digest: None,
                },
            },
        ],
        streams: Vec::new(),
        disks: Vec::new(),
        asked: None,
        models: BTreeMap::new(),
        refusals: vec![Refusal {
            activity: "audio".to_owned(),
            promise: promise("latency <= 2ms @ 99.9%"),
            because: "a budget of 500 us in each 5 ms may come 8.8 ms late (blackout 2 (D - Q) + tick), longer than the \
                      2 ms promised"
                .to_owned(),
            nearest: vec!["latency <= 8.8ms @ 99.9%".to_owned(), "a period of 1 ms with runtime 400 us".to_owned()],
            more_jobs: None,
        }],
    }
}

/// Compares with the expected text in `tests/snapshots`; `SURETY_UPDATE_SNAPSHOTS=1` writes it instead.
pub fn snapshot(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("SURETY_UPDATE_SNAPSHOTS").is_some_and(|v| v == "1") {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if let Some(at) = expected.lines().zip(found.lines()).position(|(a, b)| a != b) {
        let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
        panic!("{name}, line {}:\nexpected {}\n   found {}", at + 1, line(&expected), line(found));
    }
    assert_eq!(expected, found, "{name}");
}

fn promise(text: &str) -> Promise {
    Promise::parse(text).unwrap()
}
