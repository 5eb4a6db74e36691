//! Altered and nonsensical plan files.

use std::collections::BTreeMap;

use proptest::prelude::*;
use surety_model::claim::{Claim, ClaimedArrivals, ClaimedWork, RequestClaim, ResponseClaim, Subject};
use surety_model::distribution::TimeDistribution;
use surety_model::plan::{Left, Plan};
use surety_model::platform::{CpuSpec, Enforcement, FairServer, OtherReservation, Platform, TimerRules};
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Task, Workload};
use surety_units::{Bandwidth, Nanos};

use super::{Checked, check, check_written};
use crate::{PlanOptions, Planned, plan_in_full};

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn promises(texts: &[&str]) -> Vec<Promise> {
    texts.iter().map(|text| Promise::parse(text).unwrap()).collect()
}

fn planned(tasks: Vec<Task>, irqs: Vec<Irq>, cpus: u32) -> Planned {
    let workload = Workload { tasks, irqs, ..Workload::default() };
    plan_in_full(&workload, &BTreeMap::new(), &PlanOptions::new(Platform::linux_6_18(cpus)), false)
}

fn task(period: i64, work: TimeDistribution, texts: &[&str]) -> Task {
    let mut task = Task::periodic("player", ms(period), work);
    task.promises = promises(texts);
    task
}

/// A player, a network card and a share.
fn example() -> Planned {
    let player = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
    let player = task(40, player, &["response <= 40ms @ 99%"]);
    let mut share = Task::periodic("share", ms(20), TimeDistribution::Constant(ms(1)));
    share.promises = promises(&["share >= 5% over 1s"]);
    let work = TimeDistribution::Constant(Nanos::from_micros(9));
    let mut net = Irq::new("net", Arrivals::Sporadic { gap: Nanos::from_micros(95) }, work);
    (net.hard, net.buffer) = (Some(Nanos::from_micros(1)), Some(256));
    net.promises = promises(&["lost == 0", "rate >= 10000/s"]);
    planned(vec![player, share], vec![net], 4)
}

/// A file of 7.1 from before the server of sched_ext was counted: more is reserved than the kernel leaves beside it.
#[test]
fn a_plan_has_to_stand_with_the_servers_that_its_machine_has_now() {
    let now = Platform::of_release("7.1.2", 1);
    let other = Reservation::implicit(Nanos::from_micros(4_200), ms(5));
    let others = vec![OtherReservation::unknown("other".to_owned(), other)];
    let before = Platform { ext_server: None, others, ..now.clone() };
    let mut share = Task::periodic("share", ms(20), TimeDistribution::Constant(ms(1)));
    share.promises = promises(&["share >= 7% over 1s"]);
    let workload = Workload { tasks: vec![share], ..Workload::default() };
    let made = plan_in_full(&workload, &BTreeMap::new(), &PlanOptions::new(before.clone()), false);
    assert!(made.plan.refusals.is_empty(), "{:?}", made.plan.refusals);
    let plan = made.plan.sealed();
    let found = |running: &Platform| {
        let checked = check_written(&plan, &made.claims, Some(&made.left), Some(running)).unwrap();
        let finding = checked[0].findings.iter().find(|finding| finding.by.starts_with("servers")).cloned();
        finding.map(|finding| (finding.agrees, finding.words))
    };
    let (agrees, words) = found(&now).unwrap();
    assert!(!agrees && words.contains("10.00 %") && words.contains("EBUSY"), "{words}");
    let small = FairServer { runtime: ms(10), ..FairServer::DEFAULT };
    let (agrees, words) = found(&Platform { ext_server: Some(small), ..now.clone() }).unwrap();
    assert!(agrees && words.ends_with("the plan stands"), "{words}");
    assert_eq!(found(&before), None);
    assert_eq!(found(&Platform { name: "linux-7.0.1".to_owned(), ..now }), None, "of another machine");
}

/// `sched_rt_runtime_us` limits reservations: one of 65 % is refused where it leaves them half of a CPU, and a plan for more has to stand on
/// the machine as it is.
#[test]
fn a_plan_stays_within_the_limit_of_reservations_and_has_to_stand_with_that_of_its_machine() {
    let player = TimeDistribution::LogNormal { mean: ms(14), p99: ms(22) };
    let workload =
        Workload { tasks: vec![task(40, player, &["response <= 40ms @ 99%"])], ..Workload::default() };
    let machine = Platform::linux_6_18(1);
    let on = |text: &str| {
        let changes = text.parse::<surety_model::platform::PlatformChanges>().unwrap();
        changes.on(&machine).unwrap()
    };
    let made = |platform: &Platform| {
        plan_in_full(&workload, &BTreeMap::new(), &PlanOptions::new(platform.clone()), false)
    };
    let refused = made(&on("rt-limit=500ms/1s")).plan.refusals;
    assert!(refused.len() == 1 && refused[0].because.contains("exceeds 45.00 %"), "{refused:?}");
    for (asked, steps) in [("rt-limit=950ms/1s", "of 943719 kernel units"), ("rt-limit=off", "sets no limit")]
    {
        let planned = made(&on(asked));
        assert!(planned.plan.refusals.is_empty(), "{:?}", planned.plan.refusals);
        let said = planned.plan.reservations[0].proof.steps.join("\n");
        assert!(said.contains(steps), "{said}");
        let plan = planned.plan.sealed();
        let found = |running: &Platform| {
            let checked = check_written(&plan, &planned.claims, Some(&planned.left), Some(running)).unwrap();
            let finding = checked[0].findings.iter().find(|finding| finding.by.starts_with("limit")).cloned();
            finding.map(|finding| (finding.agrees, finding.words))
        };
        let same = asked == "rt-limit=950ms/1s";
        assert_eq!(found(&machine).is_none(), same);
        if !same {
            let (agrees, words) = found(&machine).unwrap();
            assert!(
                agrees
                    && words.contains("to 95.00 % of each CPU now, not at all")
                    && words.ends_with("the plan stands"),
                "{words}"
            );
        }
        let half = Platform { name: machine.name.clone(), ..on("rt-limit=500ms/1s") };
        let (agrees, words) = found(&half).unwrap();
        assert!(!agrees && words.contains("50.00 %") && words.contains("EBUSY"), "{words}");
        let another = Platform { name: "linux-6.12".to_owned(), ..half };
        assert_eq!(found(&another), None, "of another machine");
    }
}

/// The two numbers of one setting of the kernel agree in a file: the limit of realtime threads once left the cap where it was.
#[test]
fn a_cap_other_than_the_limit_of_its_machine_is_refused() {
    let mut example = example();
    let limit = surety_model::platform::RealtimeLimit { runtime: ms(500), period: ms(1_000) };
    example.plan.platform.realtime_limit = Some(limit);
    let refused = check(&example.plan, &example.claims).unwrap_err().to_string();
    assert!(refused.contains("`deadline_cap`: 95.00 %") && refused.contains("50.00 %"), "{refused}");
}

fn response(claims: &mut [Claim]) -> &mut ResponseClaim {
    let mut found = claims.iter_mut().filter_map(|claim| match &mut claim.about {
        Subject::Response(response) => Some(response),
        _ => None,
    });
    found.next().unwrap()
}

fn requests(claims: &mut [Claim], with_rate: bool) -> &mut RequestClaim {
    let mut found = claims.iter_mut().filter_map(|claim| match &mut claim.about {
        Subject::Requests(requests) if requests.rate.is_some() == with_rate => Some(requests),
        _ => None,
    });
    found.next().unwrap()
}

fn promised<'a>(claims: &'a mut [Claim], now: &str) -> &'a mut Promise {
    &mut claims.iter_mut().find(|claim| claim.promise.to_string() == now).unwrap().promise
}

fn slack(slack: Nanos) -> TimerRules {
    TimerRules { slack, ..TimerRules::default() }
}

#[test]
fn every_altered_place_of_a_plan_is_named() {
    type Edit = fn(&mut Plan, &mut Vec<Claim>);
    let edits: &[(&str, Edit)] = &[
        ("`response <= 30ms @ 99%`", |_, c| {
            *promised(c, "response <= 40ms @ 99%") = Promise::parse("response <= 30ms @ 99%").unwrap()
        }),
        ("99.99999%", |_, c| {
            *promised(c, "response <= 40ms @ 99%") = Promise::parse("response <= 40ms @ 99.99999%").unwrap()
        }),
        ("20000/s", |_, c| *promised(c, "rate >= 10000/s") = Promise::parse("rate >= 20000/s").unwrap()),
        ("lost <= 1000000", |_, c| *promised(c, "lost == 0") = Promise::parse("lost <= 1000000").unwrap()),
        ("`share >= 50%", |_, c| {
            *promised(c, "share >= 5% over 1s") = Promise::parse("share >= 50% over 1s").unwrap()
        }),
        ("1ms", |p, _| p.reservations[0].promises = promises(&["response <= 1ms"])),
        ("promises", |p, _| p.reservations[1].promises.clear()),
        ("fraction of its proof (1)", |p, _| p.reservations[0].proof.probability = Some(1.0)),
        ("fraction of its proof (0.5)", |p, _| p.reservations[1].proof.probability = Some(0.5)),
        ("lost == 0", |_, c| c.retain(|claim| claim.promise.to_string() != "lost == 0")),
        ("claims nothing", |_, c| c.retain(|claim| claim.activity != "net")),
        ("no reservation", |p, _| p.reservations.retain(|planned| planned.activity != "net")),
        ("deducts at least", |p, c| {
            let runtime = p.reservations[0].reservation.runtime;
            let claim = response(c);
            (claim.beside, claim.permille, claim.worth) = (Nanos::ZERO, 0, runtime);
        }),
        ("leaves", |p, c| response(c).worth = p.reservations[0].reservation.runtime),
        ("its device", |_, c| requests(c, true).buffer = Some(1)),
        ("leaves", |p, c| {
            for with_rate in [false, true] {
                requests(c, with_rate).worth = p.reservation_of("net").unwrap().reservation.runtime;
            }
        }),
        ("the rate of interrupts is 1e300", |_, c| {
            for with_rate in [false, true] {
                requests(c, with_rate).arrivals = ClaimedArrivals::Independent(1e300);
            }
        }),
        ("less than is promised", |p, c| {
            response(c).proven = 0.5;
            p.reservations[0].proof.probability = Some(0.5);
        }),
        // What cannot be is refused before anything is computed from it.
        ("its number of threads is 4000000000", |_, c| {
            c.iter_mut().for_each(|claim| claim.threads = 4_000_000_000)
        }),
        ("the inter-arrival time of releases is 9000000000s", |_, c| {
            response(c).gap = Nanos::new(9_000_000_000_000_000_000)
        }),
        ("theorem of its proof (by decree)", |p, _| p.reservations[0].proof.theorem = "by decree".into()),
        ("theorem of its proof (supply", |p, _| {
            p.reservations[1].proof.theorem = crate::proofs::SUPPLY_THEOREM.into()
        }),
        ("the source of its proof (hearsay)", |p, _| p.reservations[2].proof.source = "hearsay".into()),
        ("that of its claims (constant", |p, _| {
            p.reservations[0].proof.theorem = p.reservations[1].proof.theorem.clone()
        }),
        ("the steps of its proof", |p, _| {
            let steps = &mut p.reservations[2].proof.steps;
            let step = steps.iter_mut().find(|step| step.starts_with("admission: ")).unwrap();
            *step = step.replace(" of ", " of at least ");
        }),
        ("its root domains", |p, _| p.reservations[0].root_domains = vec![surety_units::CpuSet::first(1)]),
        ("the budget left for work", |_, c| response(c).worth = Nanos::new(i64::MAX)),
        ("the inter-arrival time of interrupts is 1ns", |_, c| {
            for with_rate in [false, true] {
                requests(c, with_rate).arrivals = ClaimedArrivals::Apart(Nanos::new(1));
            }
        }),
        ("CPUs of the platform: 2000", |p, _| p.platform.cpus = 2_000),
        ("cpu_specs", |p, _| p.platform.cpu_specs = vec![CpuSpec::default(); 3_000]),
        ("class_order", |p, _| p.platform.schedulers = vec!["fair".to_owned(); 3_000]),
        ("no scheduler `x`", |p, _| p.platform.schedulers[2] = "x".to_owned()),
        ("base_slice", |p, _| p.platform.base_slice = Nanos::ZERO),
        ("`features`: SLOW, outside", |p, _| p.platform.features = vec!["SLOW".to_owned()]),
        ("WA_BIAS is on in the simulator", |p, _| p.platform.features = vec!["NO_WA_BIAS".to_owned()]),
        ("`timers.slack`: -1ns", |p, _| p.platform.timers = Some(slack(Nanos::new(-1)))),
        ("`timers.slack`: 1000000001ns", |p, _| {
            p.platform.timers = Some(slack(TimerRules::SLACK_MAX + Nanos::new(1)))
        }),
        ("`timers.high_resolution`: false", |p, _| {
            p.platform.enforcement = Enforcement::Exact;
            p.platform.timers = Some(TimerRules { high_resolution: false, ..TimerRules::default() });
        }),
        ("its work", |_, c| response(c).work = ClaimedWork::Constant(Nanos::new(i64::MAX))),
    ];
    let example = example();
    assert_eq!(
        (example.plan.reservations.len(), example.claims.len()),
        (3, 4),
        "{:?}",
        example.plan.refusals
    );
    for (word, edit) in edits {
        let (mut plan, mut claims) = (example.plan.clone(), example.claims.clone());
        edit(&mut plan, &mut claims);
        let error = check(&plan, &claims).expect_err(word).to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// Each text and number of a proof, and what is left, as they stand in a file.
#[test]
fn every_altered_place_of_a_written_proof_is_told() {
    type Edit = fn(&mut Plan, &mut Option<Left>);
    let example = example();
    let plan = example.plan.sealed();
    let check = |edit: Edit| {
        let (mut plan, mut left) = (plan.clone(), Some(example.left));
        edit(&mut plan, &mut left);
        check_written(&plan, &example.claims, left.as_ref(), None)
    };
    assert!(check(|_, _| {}).unwrap().iter().all(Checked::agrees));
    let edits: &[(&str, Edit)] = &[
        ("digest", |p, _| p.reservations[0].proof.conclusion.push('!')),
        ("digest", |p, _| p.reservations[1].proof.theorem.push('!')),
        ("digest", |p, _| p.reservations[2].proof.source.clear()),
        ("digest", |p, _| p.reservations[0].proof.inputs[0].value = "1 ms".into()),
        ("digest", |p, _| p.reservations[0].proof.inputs[1].name = "runtime".into()),
        ("digest", |p, _| drop(p.reservations[0].proof.inputs.pop())),
        ("digest", |p, _| p.reservations[0].proof.residual = Some(1e-20)),
        ("digest", |p, _| p.reservations[0].proof.confidence = Some(0.999)),
        ("digest", |p, _| drop(p.reservations[1].proof.assumptions.pop())),
        ("digest", |p, _| p.reservations[1].proof.assumptions[0].clear()),
        ("digest (none)", |p, _| p.reservations[1].proof.digest = None),
        ("digest", |p, _| {
            let simulation = surety_model::plan::SimulationEvidence {
                profile: "linux".into(),
                seed: 1,
                hash: "00".into(),
                activations: 1_000_000,
                missed: 0,
            };
            p.reservations[0].proof.simulations.push(simulation);
        }),
        // The same sealed again: a forger is told where the claims tell another story.
        ("by decree", |p, _| {
            let proof = &mut p.reservations[0].proof;
            proof.theorem = "by decree".into();
            *proof = proof.sealed();
        }),
        ("0.5", |p, _| p.reservations[0].proof.probability = Some(0.5)),
        ("what is left (", |_, left| left.as_mut().unwrap().best_effort += 0.01),
        ("what is left (", |_, left| left.as_mut().unwrap().fair_server = None),
        ("what is left (", |_, left| {
            left.as_mut().unwrap().fair_server.as_mut().unwrap().runtime += Nanos::MILLISECOND
        }),
        ("what is left (not said)", |_, left| *left = None),
    ];
    for (word, edit) in edits {
        let error = check(*edit).expect_err(word).to_string();
        assert!(error.contains(word) && error.contains("altered"), "{word}: {error}");
    }
    for planned in 0..plan.reservations.len() {
        for step in 0..plan.reservations[planned].proof.steps.len() {
            let mut plan = plan.clone();
            plan.reservations[planned].proof.steps[step].push('0');
            let error =
                check_written(&plan, &example.claims, Some(&example.left), None).unwrap_err().to_string();
            assert!(error.contains("digest"), "{planned} {step}: {error}");
        }
    }
}

#[test]
fn rules_of_a_platform_within_their_limits_are_no_alteration() {
    let Planned { mut plan, claims, .. } = example();
    plan.platform.features = vec!["NO_RUN_TO_PARITY".to_owned(), "NEXT_BUDDY".to_owned()];
    plan.platform.timers = Some(TimerRules { high_resolution: false, ..slack(TimerRules::SLACK_MAX) });
    super::altered::unaltered(&plan, &claims).unwrap();
    plan.platform.enforcement = Enforcement::Exact;
    plan.platform.timers = Some(slack(Nanos::ZERO));
    super::altered::unaltered(&plan, &claims).unwrap();
}

#[test]
fn what_is_planned_is_verified() {
    let example = example();
    for checked in check(&example.plan, &example.claims).unwrap() {
        assert!(checked.agrees(), "{checked:?}");
    }
}

#[test]
fn wide_work_is_not_refuted_by_a_solver_that_cannot_tell() {
    let us = Nanos::from_micros;
    for p99 in [3_694, 2_500] {
        let work = TimeDistribution::LogNormal { mean: us(1_030), p99: us(p99) };
        let found = planned(vec![task(10, work, &["response <= 5ms @ 50%"])], vec![], 1);
        let checked = check(&found.plan, &found.claims).unwrap();
        assert!(checked.len() == 1 && checked.iter().all(Checked::agrees), "{checked:?}");
    }
    // A fraction beyond what can be is still refuted by computation.
    let work = TimeDistribution::LogNormal { mean: us(1_030), p99: us(3_694) };
    let mut found = planned(vec![task(10, work, &["response <= 5ms @ 50%"])], vec![], 1);
    response(&mut found.claims).proven = 0.9999;
    found.plan.reservations[0].proof.probability = Some(0.9999);
    let checked = check(&found.plan, &found.claims).unwrap();
    assert!(!checked[0].findings[1].agrees, "{:?}", checked[0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever stands in a plan's numbers, the answer is words, never a crash.
    #[test]
    fn mutated_plans_never_panic(
        edits in prop::collection::vec((0u32..26, prop_oneof![
            Just(0i64), Just(1), Just(-1), Just(i64::MAX), Just(i64::MIN), Just(1_000), Just(1_000_000_000),
            Just(4_000_000_000), any::<i64>(), 1i64..100_000_000, 1i64..100_000_000_000_000,
        ]), 1..3),
    ) {
        let mut found = EXAMPLE.with(Clone::clone);
        for (place, value) in edits {
            mutate(&mut found, place, value);
        }
        // Right or wrong: it comes back.
        let _ = check(&found.plan, &found.claims).map_err(|error| error.to_string());
    }
}

thread_local! {
    static EXAMPLE: Planned = example();
}

fn mutate(found: &mut Planned, place: u32, value: i64) {
    let (time, count) = (Nanos::new(value), value.unsigned_abs() as u32);
    let claims = &mut found.claims;
    let platform = &mut found.plan.platform;
    match place {
        0 => response(claims).gap = time,
        1 => response(claims).jitter = time,
        2 => response(claims).limit = time,
        3 => response(claims).worth = time,
        4 => response(claims).beside = time,
        5 => response(claims).permille = count,
        6 => response(claims).work = ClaimedWork::Constant(time),
        7 => response(claims).work = ClaimedWork::LogNormal(time / 2, time),
        8 => response(claims).work = ClaimedWork::Uniform(Nanos::ZERO, time),
        9 => claims.iter_mut().for_each(|claim| claim.threads = count),
        10 => platform.cpus = count,
        11 => platform.tick = time,
        12 => platform.enforcement = surety_model::platform::Enforcement::Tick(time),
        13 => platform.base_slice = time,
        14 => platform.fair_server.iter_mut().for_each(|server| server.runtime = time),
        15 => platform.fair_server.iter_mut().for_each(|server| server.period = time),
        16 => platform.overheads.switch = time,
        17 | 18 => {
            for planned in &mut found.plan.reservations {
                if place == 17 {
                    planned.reservation.period = time;
                } else {
                    (planned.reservation.deadline, planned.reservation.period) = (time, time);
                }
            }
        }
        19 => {
            let share = Bandwidth::new(value.unsigned_abs(), 1 + u64::from(count)).unwrap();
            for claim in claims {
                if let Subject::Share { share: now, over } = &mut claim.about {
                    (*now, *over) = (share, Some(time));
                    claim.promise = Promise {
                        metric: Metric::Share,
                        comparison: Comparison::AtLeast,
                        bound: Bound::Share(share),
                        at: None,
                        over: Some(time),
                    };
                }
            }
        }
        _ => {
            for with_rate in [false, true] {
                let requests = requests(claims, with_rate);
                match place {
                    20 => requests.arrivals = ClaimedArrivals::Apart(time),
                    21 => requests.arrivals = ClaimedArrivals::Independent(value as f64),
                    22 => requests.arrivals = ClaimedArrivals::Closed(count, time),
                    23 => requests.buffer = Some(value.unsigned_abs()),
                    24 => requests.work = ClaimedWork::Constant(time),
                    _ => requests.hard = time,
                }
            }
        }
    }
}
