//! What a disk is to keep for best effort (`best-effort`): the smallest batches that keep it are planned, and more than it can keep is refused with the most that it can.

use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::plan::Plan;
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::check::check;
use surety_plan::{PlanOptions, plan_in_full};
use surety_sim::SimWorld;
use surety_units::{Bytes, Nanos, Rate};

/// Two streams beside readers past the page cache, with further keys of the disk and of the readers.
fn workload(disk: &str, readers: &str) -> Workload {
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '256MiB'\n{disk}\n[[stream]]\nname = 'movie'\ncount = 2\ndisk = 'd'\n\
         file = {{ make = '40MB' }}\nrate = '1MB/s'\njitter = '400ms'\npromise = 'late == 0'\n\
         [[load]]\nname = 'r'\nkind = 'readers'\ncount = 2\ndisk = 'd'\nsize = '32MiB'\nblock = '128KiB'\ndirect = true\n{readers}"
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn planned(workload: &Workload) -> Plan {
    let options = PlanOptions::new(Platform::linux_6_18(2));
    plan_in_full(workload, &BTreeMap::new(), &options, false).plan
}

fn run(plan: &Plan, asked: &Workload) -> Record {
    let options = RunOptions { duration: Nanos::from_secs(6), ..RunOptions::default() };
    let world = SimWorld::new(plan.platform.clone());
    world.run(&plan.apply_to(asked), &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"))
}

/// More for best effort takes larger batches; the plan says how much there is, its check looks at it, and readers that want all they can have get no less.
#[test]
fn the_smallest_batch_that_keeps_the_floor_is_planned() {
    let mut before = 0;
    for floor in [1_000_000, 2_000_000, 2_500_000, 3_000_000] {
        let asked = workload(&format!("best-effort = '{floor}B/s'"), "");
        let plan = planned(&asked);
        assert!(plan.refusals.is_empty(), "{floor}: {:?}", plan.refusals);
        let (batch, kept) = (plan.streams[0].reservation.batch.0, plan.disks[0].best_effort.unwrap());
        assert!(kept >= Rate(floor), "{floor}: {kept}");
        assert!(plan.disks[0].in_words().contains(&format!("best effort keeps {kept} at worst")));
        if floor > 2_000_000 {
            assert!(batch > before, "{floor}: {batch} after {before}");
            let mut smaller = asked.clone();
            smaller.streams[0].batch = Some(Bytes(batch - 4096));
            let refused = planned(&smaller).refusals;
            let says = "in the long run, and is to keep";
            assert!(refused.first().is_some_and(|why| why.because.contains(says)), "{floor}: {refused:?}");
        }
        before = batch;
        let record = run(&plan, &asked);
        let rate = record.activity("r").unwrap().figures.iter().find(|figure| figure.name == "rate").unwrap();
        println!("{floor}: batches of {batch}, {kept} at worst, {} B/s", rate.value);
        assert!(rate.value >= floor as f64, "{floor}: {}", rate.value);
        let checked = check(&plan, &[]).unwrap_or_else(|why| panic!("{why}"));
        assert!(checked.iter().all(|one| one.agrees()), "{checked:?}");
        // The analysis has the same floor.
        let proof = |more: u64| {
            let mut reserved = plan.apply_to(&asked);
            reserved.disks[0].best_effort = Some(Rate(kept.0 + more));
            let options = RunOptions::default();
            let world = AnalysisWorld::new(plan.platform.clone());
            let record =
                world.run(&reserved, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"));
            judge(record.activity("movie").unwrap())[0].outcome
        };
        assert_eq!(proof(0), Outcome::Kept, "{floor}");
        assert_ne!(proof(1), Outcome::Kept, "{floor}");
        let mut altered = plan.clone();
        altered.disks[0].best_effort = Some(Rate(kept.0 + 1));
        let said = check(&altered, &[]).unwrap_err().to_string();
        assert!(said.contains("disk d: its settings"), "{said}");
    }
}

/// What no batch keeps is refused with the most that one keeps, which is then planned; so is a floor for nobody.
#[test]
fn more_than_is_left_is_refused_with_the_most_that_is() {
    let plan = planned(&workload("best-effort = '5MB/s'", ""));
    let refusal = &plan.refusals[0];
    assert!(refusal.because.contains("in the long run, and is to keep 5MB/s"), "{refusal:?}");
    let found = refusal
        .nearest
        .iter()
        .find_map(|words| words.strip_prefix("best-effort = \"")?.strip_suffix("\" of disk d"));
    let most = found.unwrap_or_else(|| panic!("{refusal:?}"));
    let kept = planned(&workload(&format!("best-effort = '{most}'"), ""));
    assert!(kept.refusals.is_empty(), "{most}: {:?}", kept.refusals);
    let mut alone = workload("best-effort = '1MB/s'", "");
    alone.loads.clear();
    let said = &planned(&alone).refusals[0].because;
    assert!(said.contains("nothing of the workload uses it at best effort"), "{said}");
}

/// Rates of loads are planned together: as much as the disk keeps. What each gets is measured.
#[test]
fn rates_of_loads_are_held_against_what_is_kept() {
    let asked = workload("best-effort = '2MB/s'", "promise = 'rate >= 2MB/s'\n");
    let plan = planned(&asked);
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let verdict = &judge(run(&plan, &asked).activity("r").unwrap())[0];
    assert!(matches!(verdict.outcome, Outcome::Kept | Outcome::Undecided), "{}", verdict.because);
    let more = planned(&workload("best-effort = '2MB/s'", "promise = 'rate >= 4MB/s'\n"));
    assert_eq!((more.streams.len(), more.refusals.len()), (1, 1));
    let refusal = &more.refusals[0];
    assert!(refusal.because.contains("4MB/s are promised to its loads together"), "{refusal:?}");
    // Nobody is kept 4 MB/s beside the stream, and so it is not offered; what is kept is.
    let kept = more.disks[0].best_effort.unwrap();
    assert_eq!(refusal.nearest, [format!("rate >= {}", kept.to_exact_string())]);
    let three = planned(&workload("best-effort = '2MB/s'", "promise = 'rate >= 3MB/s'\n"));
    assert!(three.refusals[0].nearest[0].starts_with("best-effort = \"3MB/s\""), "{:?}", three.refusals);
    let other = planned(&workload("best-effort = '2MB/s'", "promise = 'share >= 1%'\n"));
    assert!(other.refusals[0].because.contains("a plan keeps a rate"), "{:?}", other.refusals);
}
