//! One admission for CPU, interrupt and disk: a task, an interrupt and a stream with promises in one plan, where the interrupt's budget lengthens the stream's bound, and where
//! it leaves the stream none.

use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::plan::Plan;
use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::check::check_written;
use surety_plan::{PlanOptions, Planned, plan_in_full};
use surety_sim::SimWorld;
use surety_units::Nanos;

const TASK: &str =
    "[[task]]\nname = 'encoder'\nperiod = '40ms'\nwork = '4ms'\npromise = 'response <= 40ms'\n";

/// A card whose thread works so long for each of its interrupts.
fn card(work: &str) -> String {
    format!(
        "[[irq]]\nname = 'card'\narrivals = {{ kind = 'sporadic', gap = '200us' }}\nwork = '{work}'\nhard = '1us'\nbuffer = 128\npromise = 'lost == 0'\n"
    )
}

fn workload(stream: &str, more: &str) -> Workload {
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '256MiB'\n[[stream]]\nname = 'movie'\ncount = 2\ndisk = 'd'\n\
         file = {{ make = '24MB' }}\nrate = '1MB/s'\n{stream}promise = 'late == 0'\n\
         [[load]]\nname = 'r'\nkind = 'readers'\ncount = 2\ndisk = 'd'\nsize = '32MiB'\n{more}"
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn planned(workload: &Workload) -> Planned {
    plan_in_full(workload, &BTreeMap::new(), &PlanOptions::new(Platform::linux_6_18(1)), false)
}

fn bound(plan: &Plan) -> Nanos {
    plan.stream_of("movie").unwrap_or_else(|| panic!("{:?}", plan.refusals)).reservation.bound
}

/// The card's thread may have the only CPU before those of the stream, so the bound is longer; each plan of the three is verified again, proven by the analysis and kept in the simulator.
#[test]
fn the_budget_of_an_interrupt_lengthens_the_bound_of_a_stream() {
    let before = bound(&planned(&workload("", TASK)).plan);
    for work in ["20us", "60us"] {
        let asked = workload("", &format!("{TASK}{}", card(work)));
        let whole = planned(&asked);
        let plan = whole.plan.sealed();
        assert!(plan.refusals.is_empty(), "{work}: {:?}", plan.refusals);
        let names: Vec<&str> = plan.reservations.iter().map(|planned| planned.activity.as_str()).collect();
        assert_eq!(names, ["encoder", "card"]);
        println!("{work}: {} after {before}", bound(&plan));
        assert!(bound(&plan) > before, "{work}: {} after {before}", bound(&plan));
        let steps = &plan.streams[0].proof.steps;
        assert!(steps[0].contains("2 reserved threads up to"), "{steps:?}");
        let found = check_written(&plan, &whole.claims, Some(&whole.left), None);
        let found = found.unwrap_or_else(|why| panic!("{why}"));
        assert!(found.len() == 3 && found.iter().all(|one| one.agrees()), "{found:?}");
        let reserved = plan.apply_to(&asked);
        let options = RunOptions { duration: Nanos::from_secs(4), ..RunOptions::default() };
        let proof = |reserved: &Workload| {
            let world = AnalysisWorld::new(plan.platform.clone());
            let record = world.run(reserved, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"));
            let verdict = judge(record.activity("movie").unwrap()).remove(0);
            (verdict.outcome, verdict.because)
        };
        let (outcome, because) = proof(&reserved);
        assert_eq!(outcome, Outcome::Kept, "{because}");
        // The analysis counts the card's thread as well: a bound that is kept without it is none.
        let mut less = reserved.clone();
        less.irqs[0].reservation =
            reserved.irqs[0].reservation.map(|of| Reservation { runtime: of.runtime / 2, ..of });
        assert_ne!(proof(&less).1, because);
        let world = SimWorld::new(plan.platform.clone());
        let record = world.run(&reserved, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"));
        for name in ["movie", "encoder", "card"] {
            let verdict = &judge(record.activity(name).unwrap())[0];
            assert_ne!(verdict.outcome, Outcome::Broken, "{name}: {}", verdict.because);
        }
    }
}

/// Beside a card that may have the only CPU the same stream is refused: its buffer is too small, with the one that it needs, and beside one that has it for longer its batches are.
#[test]
fn the_budget_of_an_interrupt_has_a_stream_refused() {
    let buffer = |plan: &Plan| plan.streams[0].reservation.buffer.0;
    let batch = |plan: &Plan| plan.streams[0].reservation.batch.0;
    let free = planned(&workload("", TASK)).plan;
    let given = format!("batch = '{}B'\nbuffer = '{}B'\n", batch(&free), buffer(&free));
    assert!(planned(&workload(&given, TASK)).plan.refusals.is_empty());
    let refused = |work: &str| {
        let plan = planned(&workload(&given, &format!("{TASK}{}", card(work)))).plan;
        assert_eq!((plan.reservations.len(), plan.streams.len()), (2, 0), "{work}: {:?}", plan.refusals);
        plan.refusals[0].clone()
    };
    let small = refused("60us");
    println!("{small:?}");
    assert!(small.because.contains("its buffer needs") && !small.nearest.is_empty(), "{small:?}");
    let nearest = given.replace(&format!("buffer = '{}B'", buffer(&free)), &small.nearest[0]);
    let kept = planned(&workload(&nearest, &format!("{TASK}{}", card("60us")))).plan;
    assert!(kept.refusals.is_empty(), "{nearest}: {:?}", kept.refusals);
    let late = refused("140us");
    assert!(late.because.contains("behind while a batch is fetched"), "{late:?}");
}
