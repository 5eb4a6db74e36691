//! Every batch of admitted streams is within its bound in runs of the simulator on `hdd-2004` under mq-deadline, beside readers, writers
//! and copies that chance draws, and no bound is more than 2.5 times the worst batch of these runs.
//!
//! A few runs of each kind are always made; a hundred of each with
//! `cargo test -p surety-plan --test streams -- --ignored --nocapture`, which prints both.

use std::collections::BTreeMap;

use surety_analysis::streams::{Admission, Floors, admit};
use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::record::{BATCH_LATENCY, Record};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_plan::streams::{demand, terms};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::{CpuSet, Nanos};

/// What is beside the streams, drawn by a generator; and the streams.
struct Mix {
    name: &'static str,
    streams: &'static str,
    /// Further keys of the disk.
    disk: &'static str,
    loads: fn(&mut Pcg) -> String,
    /// Runs that are always made.
    runs: u64,
}

/// The bound over the worst batch, at most.
const LOOSEST: f64 = 2.5;

fn readers(chance: &mut Pcg) -> String {
    let (count, random) = (1 + chance.below(4), chance.below(2) == 0);
    let block = ["16KiB", "128KiB", "256KiB"][chance.below(3) as usize];
    let size = 20 + chance.below(100);
    format!(
        "[[load]]\nname = 'r'\nkind = 'readers'\ndisk = 'd'\ncount = {count}\nrandom = {random}\ndirect = {random}\nblock = '{block}'\nsize = '{size}MB'\n"
    )
}

fn writers(chance: &mut Pcg) -> String {
    let (count, size) = (1 + chance.below(4), 1 + chance.below(3));
    format!(
        "[[load]]\nname = 'w'\nkind = 'writers'\ndisk = 'd'\ncount = {count}\ndirect = true\nblock = '128KiB'\nsize = '{size}MiB'\nrandom = {}\n",
        chance.below(2) == 0
    )
}

fn copy(chance: &mut Pcg) -> String {
    let size = 1 + chance.below(3);
    format!(
        "[[load]]\nname = 'c'\nkind = 'file-copy'\ndisk = 'd'\ndirect = true\nblock = '128KiB'\nsize = '{size}MiB'\n"
    )
}

/// Readers, writers that flush and a copy at once.
fn all(chance: &mut Pcg) -> String {
    [readers(chance), writers(chance), copy(chance)].concat()
}

/// Readers past the page cache that fill what the driver takes.
fn deep_readers(chance: &mut Pcg) -> String {
    let count = 5 + chance.below(4);
    format!(
        "[[load]]\nname = 'r'\nkind = 'readers'\ndisk = 'd'\ncount = {count}\nrandom = true\ndirect = true\nblock = '128KiB'\nsize = '100MB'\n"
    )
}

/// Readers, writers that flush and a copy, all through the page cache.
fn cached(chance: &mut Pcg) -> String {
    let (readers, writers, size) = (1 + chance.below(3), 1 + chance.below(4), 1 + chance.below(8));
    format!(
        "[[load]]\nname = 'r'\nkind = 'readers'\ndisk = 'd'\ncount = {readers}\nblock = '128KiB'\nsize = '60MB'\n\
         [[load]]\nname = 'w'\nkind = 'writers'\ndisk = 'd'\ncount = {writers}\nblock = '128KiB'\nsize = '{size}MiB'\n\
         [[load]]\nname = 'c'\nkind = 'file-copy'\ndisk = 'd'\nblock = '128KiB'\nsize = '{size}MiB'\n"
    )
}

const ONE: &str =
    "count = 1\nrate = '1200kB/s'\nread = '64KiB'\nbatch = '128KiB'\njitter = '400ms'\nbuffer = '1984KiB'\n";
const FOUR: &str =
    "count = 4\nrate = '1MB/s'\nread = '64KiB'\nbatch = '128KiB'\njitter = '400ms'\nbuffer = '1984KiB'\n";
const FOUR_DEEP: &str =
    "count = 4\nrate = '1MB/s'\nread = '64KiB'\nbatch = '640KiB'\njitter = '400ms'\nbuffer = '2560KiB'\n";

const TWO_THAT_WRITE: &str =
    "count = 2\nrate = '1MB/s'\nwrite = '64KiB'\nbatch = '128KiB'\njitter = '400ms'\nbuffer = '1984KiB'\n";

const MIXES: [Mix; 8] = [
    Mix { name: "readers", streams: FOUR, disk: "", loads: readers, runs: 12 },
    Mix { name: "writers", streams: ONE, disk: "", loads: writers, runs: 12 },
    Mix { name: "a copy", streams: ONE, disk: "", loads: copy, runs: 8 },
    Mix { name: "all of them", streams: FOUR, disk: "", loads: all, runs: 8 },
    Mix { name: "readers, writing", streams: TWO_THAT_WRITE, disk: "", loads: readers, runs: 8 },
    Mix { name: "all of them, writing", streams: TWO_THAT_WRITE, disk: "", loads: all, runs: 8 },
    Mix {
        name: "the page cache, writing",
        streams: TWO_THAT_WRITE,
        disk: "wbt = '1ms'\n",
        loads: cached,
        runs: 8,
    },
    Mix { name: "readers, depth 4", streams: FOUR_DEEP, disk: "depth = 4\n", loads: deep_readers, runs: 8 },
];

fn workload(mix: &Mix, seed: u64) -> Workload {
    let mut chance = Pcg::for_job(seed, 11, 0);
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\njournal = false\nscheduler = 'mq-deadline'\n{}tunables = {{ prio_aging_expire = 3600000 }}\n\
         [[stream]]\nname = 's'\ndisk = 'd'\nfile = {{ make = '40MB' }}\n{}promise = ['late == 0']\n{}",
        mix.disk,
        mix.streams,
        (mix.loads)(&mut chance)
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn admission(workload: &Workload) -> Admission {
    let platform = Platform::linux_6_18(2);
    let disk = terms(workload, &workload.disks[0], (&platform, &BTreeMap::new()), |_| true)
        .unwrap_or_else(|why| panic!("{why}"));
    let demands: Vec<_> = workload.streams.iter().map(demand).collect();
    admit(&demands, &disk, &Floors::default()).unwrap_or_else(|refused| panic!("{}: {disk:?}", refused.why))
}

/// The worst batch of a run, of those asked for after an instant.
fn run(workload: &Workload, seed: u64, warm_up: Nanos) -> (Nanos, Record) {
    let options = RunOptions {
        duration: Nanos::from_secs(6),
        warm_up,
        cpus: Some(CpuSet::first(2)),
        seed,
        ..RunOptions::default()
    };
    let world = SimWorld::new(Platform::linux_6_18(2));
    let record = world.run(workload, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"));
    let batches = record.activity("s").and_then(|s| s.series.get(BATCH_LATENCY)?.observed().cloned());
    let most = batches.and_then(|batches| batches.moments.max()).unwrap_or_else(|| panic!("no batches"));
    (Nanos::new(most as i64), record)
}

/// In `runs` runs of a mix no batch is above its bound, nothing is late; of all runs the loosest bound is held against the worst batch.
fn hold(mix: &Mix, runs: u64) {
    let (mut bound, mut worst) = (Nanos::ZERO, Nanos::ZERO);
    for seed in 0..runs {
        let mut workload = workload(mix, seed);
        let given = admission(&workload).streams[0];
        // As planned: each stream has its next batch in the block layer.
        workload.streams[0].bound = Some(given.latency);
        let (took, record) = run(&workload, seed, Nanos::ZERO);
        assert!(took <= given.at_start, "{} {seed}: {took}, at most {}", mix.name, given.at_start);
        let stream = record.activity("s").expect("its record");
        assert_eq!((stream.missed, stream.skipped), (0, 0), "{} {seed}", mix.name);
        let (later, _) = run(&workload, seed, Nanos::from_secs(2));
        assert!(later <= given.latency, "{} {seed}: {later}, at most {}", mix.name, given.latency);
        (bound, worst) = (bound.max(given.latency), worst.max(later));
    }
    let ratio = bound.as_secs_f64() / worst.as_secs_f64();
    println!("beside {}, {runs} runs: at most {bound}, worst {worst}, {ratio:.2} times", mix.name);
    assert!(ratio <= LOOSEST, "{}: at most {bound}, worst {worst}", mix.name);
}

#[test]
fn no_batch_takes_longer_than_its_bound() {
    MIXES.iter().for_each(|mix| hold(mix, mix.runs));
}

#[test]
#[ignore = "takes long; prints what docs/streams.md says"]
fn no_batch_takes_longer_than_its_bound_in_a_hundred_runs() {
    MIXES.iter().for_each(|mix| hold(mix, 100));
}

/// Small streams, as many as the queue of the disk has requests for with best effort: all are admitted, and all are kept. One more is refused.
#[test]
fn as_many_small_streams_as_there_are_requests_are_kept() {
    let readers = "[[load]]\nname = 'r'\nkind = 'readers'\ndisk = 'd'\ncount = 2\ndirect = true\nrandom = true\nblock = '128KiB'\nsize = '50MB'\n";
    let of = |count: u32, loads: &str| {
        let text = format!(
            "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\ntunables = {{ prio_aging_expire = 3600000 }}\n\
             [[stream]]\nname = 's'\ndisk = 'd'\nfile = {{ make = '4MB' }}\ncount = {count}\nrate = '32kB/s'\nread = '16KiB'\n\
             batch = '128KiB'\njitter = '4s'\nbuffer = '144KiB'\npromise = ['late == 0']\n{loads}"
        );
        toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    for (count, loads) in [(64, ""), (62, readers)] {
        let mut workload = of(count, loads);
        let given = admission(&workload).streams[0];
        workload.streams[0].bound = Some(given.latency);
        let (took, record) = run(&workload, 1, Nanos::ZERO);
        let stream = record.activity("s").expect("its record");
        assert_eq!((stream.missed, stream.skipped), (0, 0), "{count}");
        assert!(took <= given.at_start && stream.completed > u64::from(count) * 8, "{took}: {given:?}");
        println!("{count} streams: at most {}, worst {took}", given.at_start);
    }
    let more = of(65, "");
    let disk = terms(&more, &more.disks[0], (&Platform::linux_6_18(2), &BTreeMap::new()), |_| true)
        .expect("it has terms");
    let demands: Vec<_> = more.streams.iter().map(demand).collect();
    admit(&demands, &disk, &Floors::default()).expect_err("there are 64 requests");
}

/// Beside what the page cache writes, a limit of all writes is chosen for streams that read, and for streams that write one of the page cache's alone. A plan
/// with that is verified again, in the simulator too.
#[test]
fn streams_that_write_have_what_the_page_cache_writes_throttled() {
    let of = |direction: &str| {
        let text = format!(
            "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\njournal = false\n\
             [[stream]]\nname = 's'\ndisk = 'd'\nfile = {{ make = '40MB' }}\nrate = '1MB/s'\n{direction} = '64KiB'\npromise = ['late == 0']\n\
             [[load]]\nname = 'w'\nkind = 'writers'\ndisk = 'd'\ncount = 2\nsize = '20MB'\n"
        );
        toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    for (direction, throttled, depth) in
        [("read", None, Some(&4)), ("write", Some(Nanos::from_millis(1)), None)]
    {
        let options = surety_plan::PlanOptions::new(Platform::linux_6_18(2));
        let plan = surety_plan::plan(&of(direction), &std::collections::BTreeMap::new(), &options);
        assert!(plan.refusals.is_empty(), "{direction}: {:?}", plan.refusals);
        let disk = &plan.disks[0];
        assert_eq!((disk.wbt, disk.tunables.get("async_depth")), (throttled, depth), "{direction}");
        let checked =
            surety_plan::check::check(&plan, &[]).unwrap_or_else(|why| panic!("{direction}: {why}"));
        assert!(!checked.is_empty() && checked.iter().all(|one| one.agrees()), "{direction}: {checked:?}");
    }
}

/// A stream is planned with its batch, its buffer and each step; one too many is refused with what is admitted beside the others.
#[test]
fn streams_are_planned_or_refused_with_the_nearest() {
    let of = |count: u32| {
        let text = format!(
            "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\ntunables = {{ prio_aging_expire = 3600000 }}\n\
             [[stream]]\nname = 's'\ndisk = 'd'\nfile = {{ make = '40MB' }}\ncount = {count}\nrate = '1MB/s'\npromise = ['late == 0']\n\
             [[load]]\nname = 'r'\nkind = 'readers'\ndisk = 'd'\n"
        );
        toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    let plan = |workload: &Workload| {
        let options = surety_plan::PlanOptions::new(Platform::linux_6_18(2));
        surety_plan::plan(workload, &std::collections::BTreeMap::new(), &options)
    };
    let kept = plan(&of(3));
    assert!(kept.refusals.is_empty(), "{:?}", kept.refusals);
    let given = &kept.streams[0];
    assert!(given.proof.theorem.contains("admitted") && given.proof.steps.len() == 8, "{given:?}");
    let refused = plan(&of(12));
    assert!(refused.streams.is_empty());
    let nearest = &refused.refusals[0].nearest;
    let count = nearest.iter().find_map(|words| words.strip_prefix("count = ")?.parse().ok());
    let feasible = plan(&of(count.unwrap_or_else(|| panic!("{nearest:?}"))));
    assert!(feasible.refusals.is_empty() && !feasible.streams.is_empty(), "{:?}", feasible.refusals);
}
