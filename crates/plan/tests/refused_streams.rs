//! Streams that are refused run on beside those that are admitted: the bounds count them as best effort, and nothing of them goes first.
//!
//! A few workloads that chance draws are always tried; some hundreds with `cargo test -p surety-plan --test refused_streams -- --ignored --nocapture`.

use std::collections::BTreeMap;

use surety_analysis::AnalysisWorld;
use surety_model::formats::toml;
use surety_model::plan::{Plan, PlannedStream};
use surety_model::platform::Platform;
use surety_model::record::{ActivityRecord, BATCH_LATENCY, Record};
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::{Disk, IoPriority, Workload};
use surety_model::world::{RunOptions, Unobserved, World};
use surety_plan::check::check_written;
use surety_plan::{PlanOptions, Planned, plan_in_full};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::{Bytes, Nanos};

/// A movie, and what is beside it on its disk.
fn workload(beside: &str) -> Workload {
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '3GiB'\njournal = false\nscheduler = 'mq-deadline'\ndepth = 4\n\
         tunables = {{ prio_aging_expire = 3600000 }}\n\
         [[stream]]\nname = 'movie'\ndisk = 'd'\nfile = {{ make = '60MB' }}\nrate = '1MB/s'\nread = '64KiB'\npromise = 'late == 0'\n{beside}"
    );
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// Streams that ask for more than the disk has.
fn hogs(keys: &str) -> String {
    format!("[[stream]]\nname = 'hog'\ndisk = 'd'\nfile = {{ make = '60MB' }}\n{keys}")
}

const BATCHED: &str =
    "count = 8\nrate = '2MB/s'\nread = '64KiB'\nbatch = '512KiB'\nbuffer = '4MiB'\njitter = '2s'\n";
const PLAIN: &str = "count = 6\nrate = '20MB/s'\nread = '1MiB'\n";
const WRITING: &str = "count = 6\nrate = '20MB/s'\nwrite = '1MiB'\n";
const REALTIME: &str = "count = 8\nrate = '2MB/s'\nread = '64KiB'\nio-priority = 'rt:0'\n";
const PROMISED: &str = "promise = 'late == 0'\n";

/// Without a search for what may be asked instead.
fn planned(workload: &Workload) -> Planned {
    let options = PlanOptions::new(Platform::linux_6_18(2));
    options.search.hurry();
    plan_in_full(workload, &BTreeMap::new(), &options, false)
}

fn run(world: &dyn World, workload: &Workload) -> Record {
    let options = RunOptions { duration: Nanos::from_secs(5), ..RunOptions::default() };
    world.run(workload, &options, &mut Unobserved).unwrap_or_else(|why| panic!("{why}"))
}

fn of<'r>(record: &'r Record, name: &str) -> &'r ActivityRecord {
    record.activity(name).unwrap_or_else(|| panic!("{name} is not in the record"))
}

/// Nanoseconds of the longest batch that was observed.
fn longest(seen: &ActivityRecord) -> Option<f64> {
    seen.series.get(BATCH_LATENCY)?.observed()?.moments.max()
}

/// The movie's place in a plan that the analysis proves, its own check agrees with, and the simulator keeps.
fn kept(asked: &Workload) -> (Plan, PlannedStream) {
    let whole = planned(asked);
    let plan = whole.plan.clone();
    let movie = plan.stream_of("movie").unwrap_or_else(|| panic!("{:?}", plan.refusals)).clone();
    let found = check_written(&plan.sealed(), &whole.claims, Some(&whole.left), None)
        .unwrap_or_else(|why| panic!("{why}"));
    assert!(found.iter().all(|one| one.agrees()), "{found:?}");
    let applied = plan.apply_to(asked);
    let proof = run(&AnalysisWorld::new(Platform::linux_6_18(2)), &applied);
    let proven = &judge(of(&proof, "movie"))[0];
    assert_eq!((proven.outcome, proven.is_proven), (Outcome::Kept, true), "{}", proven.because);
    let record = run(&SimWorld::new(Platform::linux_6_18(2)), &applied);
    let seen = of(&record, "movie");
    let longest = longest(seen).unwrap_or_else(|| panic!("no batches"));
    println!(
        "{} refused: the longest of {} took {longest:.0} ns",
        plan.refusals.len(),
        movie.reservation.bound
    );
    assert_eq!((seen.missed, seen.skipped), (0, 0));
    assert!(longest <= movie.reservation.bound.get() as f64, "{longest} of {}", movie.reservation.bound);
    (plan, movie)
}

#[test]
fn what_is_refused_counts_as_best_effort() {
    for keys in [BATCHED, PLAIN, WRITING, REALTIME] {
        let asked = workload(&hogs(&format!("{keys}{PROMISED}")));
        let (plan, movie) = kept(&asked);
        assert_eq!(plan.refusals.len(), 1, "{:?}", plan.refusals);
        let first = movie.proof.steps.iter().find(|step| step.contains("go first for")).unwrap();
        assert!(!first.contains("for 0 ns"), "{keys}: {first}");
    }
}

/// What a proof counts of best effort.
fn beside(planned: &PlannedStream) -> Vec<String> {
    let names = [
        "best-effort requests at once",
        "of those out of the I/O scheduler",
        "commits and flushes before all",
    ];
    let inputs = planned.proof.inputs.iter().filter(|input| names.contains(&input.name.as_str()));
    inputs.map(|input| format!("{}: {}", input.name, input.value)).collect()
}

/// One that is refused counts as it does without its promise.
#[test]
fn a_refused_promise_is_none() {
    for (keys, promise) in [(PLAIN, "'late == 0'"), (WRITING, "['late == 0', 'rate >= 1MB/s']")] {
        let (_, without) = kept(&workload(&hogs(keys)));
        let (_, movie) = kept(&workload(&hogs(&format!("{keys}promise = {promise}\n"))));
        assert_eq!(beside(&movie), beside(&without), "{keys}{promise}");
        // Its thread is fair, and takes nothing of the CPUs before those of the movie.
        assert_eq!(movie.reservation, without.reservation, "{keys}{promise}");
    }
}

/// A refused stream that has realtime priority of its own is served with best effort, in batches or not, and keeps no bound of its own.
#[test]
fn what_is_refused_does_not_go_first() {
    let bounded = format!("{BATCHED}bound = '300ms'\n");
    for keys in [REALTIME, BATCHED, bounded.as_str()] {
        let asked = workload(&hogs(&format!("{keys}{PROMISED}")));
        let mut plan = planned(&asked).plan;
        // Whatever the file says of refusals.
        plan.refusals.clear();
        let applied = plan.apply_to(&asked);
        assert_eq!(applied.streams[1].io_priority, Some(IoPriority::BestEffort(4)), "{keys}");
        assert!(applied.streams[0].is_reserved() && !applied.streams[1].is_reserved());
    }
}

/// Streams with a promise, of which some are too many for their disk, and loads.
fn drawn(seed: u64) -> Workload {
    let mut chance = Pcg::for_job(seed, 20, 0);
    let mut of = |words: &[&str]| words[chance.below(words.len() as u64) as usize].to_owned();
    let model = of(&["hdd-2004", "hdd-2004", "hdd-7200"]);
    let disk = of(&["", "depth = 4\n", "depth = 8\n", "depth = 4\nrequest = '64KiB'\n", "wbt = '1ms'\n"]);
    let mut text = format!("format = 1\n[disk.d]\nmodel = '{model}'\nmake = '3GiB'\njournal = false\n{disk}");
    let asks = [
        ("0", "", of(&["100kB/s", "300kB/s", "1MB/s"]), of(&["1", "2"])),
        ("1", "", of(&["300kB/s", "1MB/s", "3MB/s"]), of(&["1", "4"])),
        ("2", "", of(&["2MB/s", "20MB/s", "60MB/s"]), of(&["2", "6", "8"])),
    ];
    for (name, _, rate, count) in asks {
        let way = of(&["read", "read", "write"]);
        let access = of(&["4KiB", "20kB", "64KiB", "256KiB", "1MiB"]);
        let batch = of(&[
            "",
            "",
            "",
            "batch = '512KiB'\njitter = '2s'\n",
            "batch = '64KiB'\nbuffer = '4MiB'\n",
            "batch = '1MiB'\noverlap = true\n",
        ]);
        let priority = of(&["", "", "io-priority = 'rt:0'\n", "io-priority = 'be:2'\n"]);
        let promise = of(&["'late == 0'", "'late == 0'", "['late == 0', 'rate >= 1kB/s']"]);
        text += &format!(
            "[[stream]]\nname = 's{name}'\ncount = {count}\ndisk = 'd'\nfile = {{ make = '40MB' }}\nrate = '{rate}'\n{way} = '{access}'\n{batch}{priority}promise = {promise}\n"
        );
    }
    for kind in ["readers", "writers"] {
        if of(&["", "", "1"]) == "1" {
            let (block, direct) = (of(&["16KiB", "128KiB", "1MiB"]), of(&["true", "false"]));
            text += &format!(
                "[[load]]\nname = '{kind}'\nkind = '{kind}'\ndisk = 'd'\ncount = 2\nsize = '10MB'\nblock = '{block}'\ndirect = {direct}\n"
            );
        }
    }
    toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// In runs of plans that admit some streams and refuse others no batch is above its bound, nothing that is admitted is late, and the analysis proves it: how many there were.
fn hold(seeds: std::ops::Range<u64>) -> usize {
    let mut found = 0;
    for seed in seeds {
        let asked = drawn(seed);
        let plan = planned(&asked).plan;
        if plan.streams.is_empty() || plan.refusals.is_empty() {
            continue;
        }
        found += 1;
        let applied = plan.apply_to(&asked);
        let proof = run(&AnalysisWorld::new(Platform::linux_6_18(2)), &applied);
        let record = run(&SimWorld::new(Platform::linux_6_18(2)), &applied);
        for planned in &plan.streams {
            let (name, bound) = (&planned.activity, planned.reservation.bound);
            let proven = &judge(of(&proof, name))[0];
            assert!(proven.is_proven, "{seed} {name}: {}", proven.because);
            let seen = of(&record, name);
            // A slow stream with a full buffer may ask for none in a run.
            let longest = longest(seen).unwrap_or(0.0);
            println!(
                "{seed} {name}: {longest:.0} ns of {bound}, {} late, {} dropped",
                seen.missed, seen.skipped
            );
            assert!((seen.missed, seen.skipped) == (0, 0), "{seed} {name}");
            assert!(longest <= bound.get() as f64, "{seed} {name}: {longest} of {bound}");
        }
    }
    found
}

#[test]
fn bounds_hold_beside_what_is_refused() {
    assert!(hold(0..8) > 2);
}

#[test]
#[ignore = "minutes of simulation"]
fn bounds_hold_beside_what_is_refused_in_many_runs() {
    println!("{} plans with refused streams", hold(8..308));
}

/// Buffers are locked, so all of them have to have the memory: what the platform says, or what is assumed.
#[test]
fn buffers_have_the_memory() {
    let asked = |count: u32, buffer: &str| {
        toml::read(
            "w.toml",
            &format!(
                "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '3GiB'\n[[stream]]\nname = 'movie'\ncount = {count}\ndisk = 'd'\n\
                 file = {{ make = '60MB' }}\nrate = '500kB/s'\nread = '64KiB'\npromise = 'late == 0'\nbuffer = '{buffer}'\n"
            ),
        )
        .unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    let on = |memory: Option<Bytes>, asked: &Workload| {
        let platform = Platform { memory, ..Platform::linux_6_18(2) };
        plan_in_full(asked, &BTreeMap::new(), &PlanOptions::new(platform), false).plan
    };
    let refused = on(None, &asked(4, "100GB")).refusals;
    assert!(refused[0].because.contains("of memory, which is locked, and may have 1GiB"), "{refused:?}");
    assert!(refused[0].nearest[0].starts_with("buffer = "), "{refused:?}");
    assert!(on(Some(Bytes(1 << 40)), &asked(4, "100GB")).refusals.is_empty());
    let small = Some(Bytes(8 << 20));
    assert!(on(small, &asked(2, "1MiB")).refusals.is_empty());
    assert!(!on(small, &asked(2, "3MiB")).refusals.is_empty(), "two of 3 MiB, and half of 8 MiB");
}

/// A chosen batch goes into the stream's file, and a given one that does not is refused, as are accesses that no world makes.
#[test]
fn what_no_world_runs_is_not_admitted() {
    let text = |file: &str, more: &str| {
        format!(
            "format = 1\n[disk.d]\nmodel = 'hdd-7200'\nmake = '3GiB'\njournal = false\ndepth = 4\n[[stream]]\nname = 's0'\ncount = 4\ndisk = 'd'\n\
             file = {{ make = '{file}' }}\nrate = '1500kB/s'\nread = '8KiB'\npromise = 'late == 0'\n{more}"
        )
    };
    let read = |text: &str| toml::read("w.toml", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let load = |block: &str| {
        format!(
            "[[load]]\nname = 'l0'\nkind = 'writers'\ndisk = 'd'\nsize = '10MB'\nblock = '{block}'\ndirect = true\n"
        )
    };
    for file in ["5MB", "60MB"] {
        let asked = read(&text(file, &load("128KiB")));
        let plan = planned(&asked).plan;
        for given in &plan.streams {
            assert!(given.reservation.batch <= Bytes(if file == "5MB" { 5_000_000 } else { 60_000_000 }));
        }
        assert!(file == "5MB" || plan.refusals.is_empty(), "{:?}", plan.refusals);
        run(&SimWorld::new(Platform::linux_6_18(2)), &plan.apply_to(&asked));
    }
    let said = |text: &str| planned(&read(text)).plan.refusals[0].because.clone();
    let because = said(&text("60MB", &load("100000B")));
    assert!(because.contains("load l0: `block` is at most"), "{because}");
    let because = said(&text("60MB", "").replace("make = '3GiB'", "make = '200MB'"));
    assert!(
        because.contains("the files of streams and loads have 240.0 MB, and the disk 200.0 MB"),
        "{because}"
    );
    let wrong = toml::read("w.toml", &text("5MB", "batch = '8MiB'\n")).unwrap_err().to_string();
    assert!(wrong.contains("its `batch` is larger than its file"), "{wrong}");
}

/// What cannot be admitted takes no other stream with it: not who writes to a file system with a journal, nor who takes all of the CPUs.
#[test]
fn a_hopeless_stream_is_refused_alone() {
    let write = "rate = '100kB/s'\nwrite = '64KiB'\n";
    for (keys, words) in
        [(write, "use `journal = false`"), ("rate = '1GB/s'\nread = '64KiB'\n", "no CPU within a bound")]
    {
        let asked = workload(&hogs(&format!("{keys}{PROMISED}")));
        let asked = Workload { disks: vec![Disk { journal: None, ..asked.disks[0].clone() }], ..asked };
        let (plan, _) = kept(&asked);
        assert_eq!(plan.refusals.len(), 1, "{:?}", plan.refusals);
        assert!(plan.refusals[0].because.contains(words), "{:?}", plan.refusals);
    }
}

/// One that is refused, whether anything else of its disk is planned or not, runs without the keys of batches that it has none of.
#[test]
fn what_is_refused_runs_without_keys_of_batches() {
    for (rate, planned_streams) in [("1MB/s", 1), ("9MB/s", 0)] {
        let keys =
            format!("count = 8\nrate = '2MB/s'\nread = '64KiB'\njitter = '1s'\noverlap = true\n{PROMISED}");
        let mut asked = workload(&hogs(&keys));
        asked.streams[0].rate = rate.parse().unwrap();
        let plan = planned(&asked).plan;
        assert_eq!(plan.streams.len(), planned_streams, "{:?}", plan.refusals);
        run(&SimWorld::new(Platform::linux_6_18(2)), &plan.apply_to(&asked));
    }
}

/// Why a stream is refused says nothing of a key that the plan tried by itself.
#[test]
fn a_refusal_is_about_what_was_asked() {
    let asked = toml::read("w.toml", include_str!("../../../examples/recording-streams.toml")).unwrap();
    let plan = planned(&asked).plan;
    println!("{:?}\n{:?}", plan.streams, plan.refusals);
    assert!(!plan.refusals.is_empty());
    for refusal in &plan.refusals {
        assert!(!refusal.because.contains("`overlap`"), "{refusal:?}");
    }
}
