//! Every batch of admitted streams is within its bound: 100 runs of the simulator on `hdd-2004` under mq-deadline, beside readers, writers
//! and a copy that chance draws, and beside readers the bound is no more than 2.5 times the worst of them.
//!
//! Beside those that write and flush it is looser: it has the drive put all of its write buffer on the medium before a batch, each
//! write with a seek and a revolution of its own, which these runs do not come near.

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
    loads: fn(&mut Pcg) -> String,
    runs: u64,
    /// The bound is no more than so many times the worst batch.
    loosest: f64,
}

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

const MIXES: [Mix; 3] = [
    Mix {
        name: "readers",
        streams: "count = 4\nrate = '1MB/s'\nread = '64KiB'\nbatch = '128KiB'\njitter = '200ms'\nbuffer = '1984KiB'\n",
        loads: readers,
        runs: 100,
        loosest: 2.5,
    },
    Mix {
        name: "writers",
        streams: "count = 1\nrate = '1200kB/s'\nread = '64KiB'\nbatch = '128KiB'\njitter = '400ms'\nbuffer = '1984KiB'\n",
        loads: writers,
        runs: 30,
        loosest: 6.0,
    },
    Mix {
        name: "copy",
        streams: "count = 1\nrate = '1200kB/s'\nread = '64KiB'\nbatch = '128KiB'\njitter = '400ms'\nbuffer = '1984KiB'\n",
        loads: copy,
        runs: 30,
        loosest: 6.0,
    },
];

fn workload(mix: &Mix, seed: u64) -> Workload {
    let mut chance = Pcg::for_job(seed, 11, 0);
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\nscheduler = 'mq-deadline'\ntunables = {{ prio_aging_expire = 3600000 }}\n\
         [[stream]]\nname = 's'\ndisk = 'd'\nfile = {{ make = '40MB' }}\n{}promise = ['late == 0']\n{}",
        mix.streams,
        (mix.loads)(&mut chance)
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn admission(workload: &Workload) -> Admission {
    let platform = Platform::linux_6_18(2);
    let disk = terms(workload, &workload.disks[0], &platform, |_| true).unwrap_or_else(|why| panic!("{why}"));
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

#[test]
fn no_batch_takes_longer_than_its_bound_in_all_runs() {
    for mix in &MIXES {
        // Of all runs the loosest bound is held against the worst batch.
        let (mut bound, mut worst) = (Nanos::ZERO, Nanos::ZERO);
        for seed in 0..mix.runs {
            let workload = workload(mix, seed);
            let given = admission(&workload).streams[0];
            let (took, record) = run(&workload, seed, Nanos::ZERO);
            assert!(took <= given.at_start, "{} {seed}: {took}, at most {}", mix.name, given.at_start);
            let stream = record.activity("s").expect("its record");
            assert_eq!((stream.missed, stream.skipped), (0, 0), "{} {seed}", mix.name);
            let (later, _) = run(&workload, seed, Nanos::from_secs(2));
            assert!(later <= given.latency, "{} {seed}: {later}, at most {}", mix.name, given.latency);
            (bound, worst) = (bound.max(given.latency), worst.max(later));
        }
        let ratio = bound.as_secs_f64() / worst.as_secs_f64();
        println!("{}: at most {bound}, worst {worst}, {ratio:.2} times", mix.name);
        assert!(ratio <= mix.loosest, "{}: at most {bound}, worst {worst}", mix.name);
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
