//! A disk that a file describes is planned as one of ours is; the plan keeps the file's text, and whatever has no bound is refused in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use surety_analysis::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::plan::Plan;
use surety_model::platform::Platform;
use surety_model::record::BATCH_LATENCY;
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World};
use surety_plan::check::check_written;
use surety_plan::{PlanOptions, Planned, plan_in_full};
use surety_sim::SimWorld;
use surety_units::Nanos;

const OURS: &str = include_str!("../../device/src/profiles/hdd-2004.toml");
const FLASH: &str = include_str!("../../device/src/profiles/ssd-sata.toml");

type Files = Arc<BTreeMap<String, String>>;

fn files(text: &str) -> Files {
    Arc::new(BTreeMap::from([("mine.toml".to_owned(), text.to_owned()), ("other".to_owned(), String::new())]))
}

fn workload(model: &str, more: &str) -> Workload {
    let text = format!(
        "format = 1\n[disk.d]\nmodel = '{model}'\nmake = '256MiB'\n[[stream]]\nname = 'movie'\ncount = 4\ndisk = 'd'\n\
         file = {{ make = '24MB' }}\nrate = '1MB/s'\npromise = 'late == 0'\n\
         [[load]]\nname = 'r'\nkind = 'readers'\ncount = 2\ndisk = 'd'\nsize = '32MiB'\n{more}"
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn planned(workload: &Workload, files: &Files) -> Planned {
    let options = PlanOptions { files: files.clone(), ..PlanOptions::new(Platform::linux_6_18(2)) };
    plan_in_full(workload, &BTreeMap::new(), &options, false)
}

fn checked(plan: &Plan, whole: &Planned) -> Result<bool, String> {
    let found = check_written(plan, &whole.claims, Some(&whole.left), None);
    found.map(|all| all.iter().all(|one| one.agrees())).map_err(|why| why.to_string())
}

fn refused(workload: &Workload, files: &Files) -> String {
    let plan = planned(workload, files).plan;
    assert!(plan.streams.is_empty() && plan.models.is_empty(), "{:?}", plan.streams);
    plan.refusals[0].because.clone()
}

/// Of a file equal to a profile of ours the admission is the same; proven by the analysis, kept in the simulator and verified again from the plan alone.
#[test]
fn a_file_is_planned_as_the_same_profile_of_ours() {
    let (ours, mine) = (workload("hdd-2004", ""), workload("mine.toml", ""));
    let files = files(OURS);
    let (of_ours, of_mine) = (planned(&ours, &files).plan, planned(&mine, &files));
    let plan = &of_mine.plan;
    assert!(plan.refusals.is_empty() && of_ours.models.is_empty(), "{:?}", plan.refusals);
    assert_eq!(of_ours.streams[0].reservation, plan.streams[0].reservation);
    assert_eq!(of_ours.disks, plan.disks);
    assert_eq!(of_ours.streams[0].proof.steps, plan.streams[0].proof.steps);
    // What else was read is not its affair.
    assert_eq!(plan.models, BTreeMap::from([("mine.toml".to_owned(), OURS.to_owned())]));
    let reserved = plan.apply_to(&mine);
    let worlds: [&dyn World; 2] =
        [&AnalysisWorld::new(plan.platform.clone()), &SimWorld::new(plan.platform.clone())];
    let options = RunOptions { duration: Nanos::from_millis(4000), files, ..RunOptions::default() };
    let [proof, record] = worlds
        .map(|world| world.run(&reserved, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}")));
    let proven = &judge(proof.activity("movie").unwrap())[0];
    assert_eq!((proven.outcome, proven.is_proven), (Outcome::Kept, true), "{}", proven.because);
    let seen = record.activity("movie").unwrap();
    let longest = seen.series[BATCH_LATENCY].observed().and_then(|batches| batches.moments.max()).unwrap();
    assert!(longest <= plan.streams[0].reservation.bound.get() as f64 && seen.missed == 0, "{longest}");
    let text = serde_json::to_string(&plan.sealed()).unwrap();
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(checked(&back, &of_mine), Ok(true));
}

/// A slower disk has longer bounds, and a plan whose text of the file is another, or is not there, is refused by its check.
#[test]
fn a_plan_stands_with_its_own_file() {
    let asked = workload("mine.toml", "");
    let whole = planned(&asked, &files(OURS));
    let slow = OURS.replace("rpm = 7200.0", "rpm = 7100.0");
    let slower = planned(&asked, &files(&slow)).plan;
    let bound = |plan: &Plan| plan.streams[0].reservation.bound;
    assert!(bound(&slower) > bound(&whole.plan), "{} {}", bound(&slower), bound(&whole.plan));
    let mut plan = whole.plan.sealed();
    plan.models.insert("mine.toml".to_owned(), slow);
    let said = checked(&plan, &whole).unwrap_err();
    assert!(said.contains("movie: its ") && said.contains("admission made again"), "{said}");
    plan.models.clear();
    let said = checked(&plan, &whole).unwrap_err();
    assert!(said.contains("its profile `mine.toml` was not given"), "{said}");
}

/// What a file says nothing of has no bound: writes to flash, a device that was slower than its model when it was measured, a file with a mistake, a file that is not there, a
/// file of a stream that lies elsewhere.
#[test]
fn what_a_file_does_not_say_is_refused() {
    let asked = workload("mine.toml", "");
    assert!(planned(&asked, &files(FLASH)).plan.refusals.is_empty());
    let writers =
        workload("mine.toml", "[[load]]\nname = 'w'\nkind = 'writers'\ndisk = 'd'\nsize = '8MiB'\n");
    let said = refused(&writers, &files(FLASH));
    assert!(said.contains("how long flash takes to clean blocks"), "{said}");
    let with = |took: &str| {
        let line = format!("slowest_read = {{ bytes = \"4KiB\", took = \"{took}\" }}\ndepth = 1 #");
        files(&OURS.replacen("depth = 1 #", &line, 1))
    };
    assert!(planned(&asked, &with("20ms")).plan.refusals.is_empty());
    let said = refused(&asked, &with("40ms"));
    assert!(said.contains("a read of 4KiB made alone took 40.00 ms"), "{said}");
    let said = refused(&asked, &files(&OURS.replace("heads = 8", "heads = 0")));
    assert!(said.contains("mine.toml:") && said.contains("`heads`: 0"), "{said}");
    let said = refused(&asked, &Arc::default());
    assert!(said.contains("its profile `mine.toml` was not given"), "{said}");
    let mut elsewhere = workload("hdd-2004", "");
    elsewhere.streams[0].file = surety_model::workload::StreamFile::Path("/films/film".to_owned());
    let said = refused(&elsewhere, &Arc::default());
    assert!(said.contains("is of a file that is there already"), "{said}");
}
