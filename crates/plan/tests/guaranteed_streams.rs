//! Plans of streams: what is applied, what is checked again, what an altered file is refused for, and what the CPUs' part of them is.

use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::plan::Plan;
use surety_model::platform::{DiskDriver, Platform};
use surety_model::record::{BATCH_LATENCY, Record};
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::{IoPriority, Workload};
use surety_model::world::{RunOptions, Unobserved, World};
use surety_plan::check::{CheckError, check_written};
use surety_plan::{PlanOptions, Planned, plan_in_full};
use surety_sim::SimWorld;
use surety_units::{Bytes, Nanos};

const MS: fn(i64) -> Nanos = Nanos::from_millis;

fn workload(more: &str) -> Workload {
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '256MiB'\n[[stream]]\nname = 'movie'\ncount = 4\ndisk = 'd'\n\
         file = {{ make = '24MB' }}\nrate = '1MB/s'\npromise = 'late == 0'\n\
         [[load]]\nname = 'r'\nkind = 'readers'\ncount = 2\ndisk = 'd'\nsize = '32MiB'\n{more}"
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn planned(workload: &Workload, platform: Platform) -> Planned {
    plan_in_full(workload, &BTreeMap::new(), &PlanOptions::new(platform), false)
}

fn checked(plan: &Plan, whole: &Planned) -> Result<bool, CheckError> {
    let found = check_written(plan, &whole.claims, Some(&whole.left), None)?;
    assert_eq!(found.len(), plan.streams.len() + whole.claims.len());
    Ok(found.iter().all(|one| one.agrees()))
}

fn run(world: &dyn World, workload: &Workload) -> Record {
    let options = RunOptions { duration: MS(4000), ..RunOptions::default() };
    world.run(workload, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"))
}

/// Applied, it is what the plan says, the analysis proves it, and the simulator is within the bound; without it the same streams are late.
#[test]
fn a_plan_is_applied_proven_and_kept() {
    let (asked, platform) = (workload(""), Platform::linux_6_18(2));
    let plan = planned(&asked, platform.clone()).plan;
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let (given, disk) = (&plan.streams[0].reservation, &plan.disks[0]);
    let reserved = plan.apply_to(&asked);
    let stream = &reserved.streams[0];
    let set = (stream.batch, stream.buffer, stream.jitter, stream.bound, stream.io_priority);
    let first = Some(IoPriority::Realtime(0));
    assert_eq!(set, (Some(given.batch), Some(given.buffer), Some(given.jitter), Some(given.bound), first));
    assert!(reserved.is_reserved() && !asked.is_reserved() && !reserved.unreserved().is_reserved());
    let of_disk = &reserved.disks[0];
    assert_eq!(of_disk.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!(of_disk.tunables["prio_aging_expire"], 3_600_000);
    // Its requests are no longer than that by themselves, and nothing is written.
    assert_eq!((of_disk.request, disk.because.len()), (None, 2), "{disk:?}");
    let proof = run(&AnalysisWorld::new(platform.clone()), &reserved);
    let proven = &judge(proof.activity("movie").unwrap())[0];
    assert_eq!((proven.outcome, proven.is_proven), (Outcome::Kept, true), "{}", proven.because);
    let record = run(&SimWorld::new(platform.clone()), &reserved);
    let seen = record.activity("movie").unwrap();
    let longest = seen.series[BATCH_LATENCY].observed().unwrap().moments.max().unwrap();
    assert_eq!((seen.missed, seen.skipped), (0, 0));
    assert!(longest > 0.0 && longest <= given.bound.get() as f64, "{longest} of {}", given.bound);
    let words = &record.in_force.environment["stream movie"];
    assert!(words.starts_with("fetched ahead, verified: "), "{words}");
    let before = run(&SimWorld::new(platform), &asked.unreserved());
    assert!(before.activity("movie").unwrap().missed > 0);
    // A batch that takes longer than its bound ends the guarantee, in words, and no proof keeps the promise then.
    let mut short = reserved.clone();
    short.streams[0].bound = Some(MS(5));
    let record = run(&SimWorld::new(Platform::linux_6_18(2)), &short);
    let verdict = &judge(record.activity("movie").unwrap())[0];
    assert!(verdict.is_withheld && verdict.because.contains("later than the bound"), "{}", verdict.because);
}

/// A file that says anything else than its admission made again is refused with what differs; so is one whose reason was taken away.
#[test]
fn an_altered_plan_of_streams_is_refused() {
    let whole = planned(&workload(""), Platform::linux_6_18(2));
    let sealed = whole.plan.sealed();
    let text = serde_json::to_string(&sealed).unwrap();
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(back, sealed);
    assert_eq!(checked(&back, &whole), Ok(true));
    type Change = fn(&mut Plan);
    let changes: [(Change, &str); 9] = [
        (|plan| plan.streams[0].reservation.batch = Bytes(4096), "its batch (4KiB)"),
        (|plan| plan.streams[0].reservation.buffer = Bytes(1 << 17), "its buffer (128KiB)"),
        (|plan| plan.streams[0].reservation.bound = MS(1), "its bound (1ms)"),
        (|plan| plan.streams[0].reservation.jitter = MS(7), "its jitter (7ms)"),
        (|plan| plan.disks[0].scheduler = "none".to_owned(), "its settings (scheduler none"),
        (|plan| plan.disks.clear(), "the disks of the plan (0)"),
        (|plan| plan.streams.clear(), "the streams of the plan"),
        (|plan| plan.asked = None, "(`asked`) cannot be used"),
        (|plan| plan.streams[0].proof.steps.clear(), "the proof's digest"),
    ];
    for (change, says) in changes {
        let mut plan = back.clone();
        change(&mut plan);
        let said = checked(&plan, &whole).unwrap_err().to_string();
        assert!(said.contains(says), "{says}: {said}");
    }
    // More best effort than it was made for.
    let mut plan = back;
    plan.asked = plan.asked.map(|asked| asked.replace("count = 2", "count = 9"));
    let said = checked(&plan, &whole).unwrap_err().to_string();
    assert!(said.contains("movie: its "), "{said}");
}

/// What is reserved of the CPUs makes the bound longer; where it leaves the threads of streams no time, they are refused. A loop device
/// takes more requests than the disk, and gets a limit.
#[test]
fn cpu_and_disk_are_one_admission() {
    let reserved = |runtime: &str| {
        workload(&format!(
            "[[task]]\nname = 't'\nperiod = '40ms'\nwork = '1ms'\nreservation = {{ runtime = '{runtime}', period = '40ms' }}\n"
        ))
    };
    let one = Platform::linux_6_18(1);
    let bound = |workload: &Workload| {
        let plan = planned(workload, one.clone()).plan;
        plan.streams.first().map(|stream| stream.reservation.bound).ok_or(plan.refusals)
    };
    let (idle, beside) = (bound(&workload("")).unwrap(), bound(&reserved("10ms")).unwrap());
    assert!(beside >= idle + MS(20), "{idle} and {beside}");
    // What is planned for one CPU is proven there, beside a task that keeps its reservation and one that is given one.
    let promised = "[[task]]\nname = 't'\nperiod = '40ms'\nwork = '4ms'\npromise = 'response <= 40ms'\n";
    for asked in [reserved("10ms"), workload(promised)] {
        let plan = planned(&asked, one.clone()).plan;
        assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
        let record = run(&AnalysisWorld::new(one.clone()), &plan.apply_to(&asked));
        let verdict = &judge(record.activity("movie").unwrap())[0];
        assert_eq!(verdict.outcome, Outcome::Kept, "{}", verdict.because);
    }
    let refused = bound(&workload(
        "[[task]]\nname = 't'\nperiod = '40ms'\nwork = '1ms'\npolicy = 'fifo:5'\n[[load]]\nname = 'hog'\nkind = 'spinners'\npolicy = 'fifo:2'\n",
    ))
    .unwrap_err();
    assert!(refused[0].because.contains("load hog is realtime"), "{refused:?}");
    let looped = Platform { disk_driver: DiskDriver::Loop { tags: Some(64) }, ..one };
    let plan = planned(&workload(""), looped).plan;
    assert_eq!(plan.disks[0].depth, Some(4), "{:?}", plan.disks);
    assert!(plan.streams[0].proof.steps[0].starts_with("CPU: "), "{:?}", plan.streams[0].proof.steps);
}
