//! Control groups share a disk under BFQ by their weights there.

mod common;

use surety_model::record::Record;
use surety_model::world::{RunOptions, Unobserved, World};
use surety_units::{CpuSet, Nanos};

use common::{workload, world};

fn run(text: &str) -> Record {
    let options =
        RunOptions { duration: Nanos::from_secs(20), cpus: Some(CpuSet::first(2)), ..RunOptions::default() };
    world().run(&workload(text), &options, &mut Unobserved).unwrap_or_else(|e| panic!("{e}"))
}

fn rate(record: &Record, load: &str) -> f64 {
    record.activity(load).expect("its record").figures[0].value
}

/// A disk with a scheduler, and two loads of direct readers in groups of these weights.
fn two(model: &str, disk: &str, counts: (u32, u32), weights: (&str, &str), how: &str) -> (f64, f64) {
    let record = run(&format!(
        "[disk.d]\nmodel = \"{model}\"\n{disk}\n\
         [[load]]\nname = \"one\"\nkind = \"readers\"\ncount = {}\ndisk = \"d\"\ndirect = true\ngroup = \"one\"\n{how}\n\
         [[load]]\nname = \"two\"\nkind = \"readers\"\ncount = {}\ndisk = \"d\"\ndirect = true\ngroup = \"two\"\n{how}\n\
         [[group]]\nname = \"one\"\n{}\n[[group]]\nname = \"two\"\n{}\n",
        counts.0, counts.1, weights.0, weights.1
    ));
    (rate(&record, "one"), rate(&record, "two"))
}

const BFQ: &str = "scheduler = \"bfq\"\ntunables = { low_latency = 0 }";

/// Readers that always have one access on its way get the disk by the weights of their groups.
#[test]
fn readers_share_by_the_weights_of_their_groups() {
    for (model, how) in [("hdd-7200", ""), ("hdd-2004", ""), ("emmc", ""), ("emmc", "random = true")] {
        for counts in [(1, 1), (1, 10)] {
            let weights = ("io-weight = 100", "io-weight = 200");
            let (one, two) = two(model, BFQ, counts, weights, how);
            assert!((1.85..2.15).contains(&(two / one)), "{model} {how} {counts:?}: {one} and {two}");
        }
    }
}

/// Ten readers in a group get as much as one in another of the same weight; without groups at disks ten times as much.
#[test]
fn ten_readers_get_as_much_as_one() {
    for model in ["hdd-7200", "emmc"] {
        let ratio = |disk: &str, weight: &str| {
            let (one, ten) = two(model, disk, (1, 10), (weight, ""), "");
            ten / one
        };
        let grouped = ratio(BFQ, "io-weight = 100");
        assert!((0.95..1.05).contains(&grouped), "{model}: {grouped}");
        let off = "scheduler = \"bfq\"\ntunables = { low_latency = 0, groups = 0 }";
        for (disk, weight) in [(BFQ, ""), (off, "io-weight = 100")] {
            let flat = ratio(disk, weight);
            assert!((9.0..11.0).contains(&flat), "{model}: {flat}");
        }
    }
}

/// Virtual machines are in groups by the process of the host that makes their requests.
#[test]
fn virtual_machines_share_by_weight() {
    for model in ["hdd-7200", "emmc", "ssd-sata"] {
        let ratio = |weight: &str| {
            let mut text = format!("[disk.d]\nmodel = \"{model}\"\n{BFQ}\n");
            for name in ["a", "b"] {
                text.push_str(&format!(
                    "[disk.{name}]\non = \"d\"\nmake = \"10GB\"\nscheduler = \"none\"\ngroup = \"{name}\"\n\
                     [[load]]\nname = \"in-{name}\"\nkind = \"readers\"\ncount = 10\ndisk = \"{name}\"\ndirect = true\nrandom = true\n"
                ));
            }
            let record = run(&format!("{text}[[group]]\nname = \"a\"\n[[group]]\nname = \"b\"\n{weight}\n"));
            rate(&record, "in-b") / rate(&record, "in-a")
        };
        let (equal, thrice) = (ratio("io-weight = 100"), ratio("io-weight = 300"));
        assert!((0.95..1.05).contains(&equal), "{model}: {equal}");
        assert!((2.85..3.15).contains(&thrice), "{model}: {thrice}");
    }
}
