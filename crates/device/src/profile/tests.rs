//! Profiles: those that come with the program, and what is said of a bad one.

use super::*;
use crate::model::{Op, Request};
use surety_units::Nanos;

const DISK: &str = "\
format = 1
model = \"hdd\"
about = \"a small disk\"
sources = [\"made up\"]

depth = 4
age_limit = \"1s\"
interface = \"100MB/s\"

[platters]
heads = 2
rpm = 6000.0
head_switch = \"1ms\"
write_settle = \"-100us\"

[[zone]]
cylinders = 10
sectors_per_track = 100

[seek]
single = \"1ms\"
average = \"5ms\"

[overheads]
read_hit = \"0us\"
read_miss = \"0us\"
write = \"0us\"

[buffer]
segments = 2
segment = \"64KiB\"
read_ahead = \"32KiB\"
read_ahead_after_hit = false
joins_stream = true
reads_while_waiting = false
zero_latency_read = false
zero_latency_write = false
hits_on_writes = true
answers_while_busy = false
";

#[test]
fn every_profile_of_ours_reads_names_its_sources_and_serves() {
    for (name, text) in PROFILES {
        let profile = Profile::read(name, name, text).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(!profile.about.is_empty() && !profile.sources.is_empty());
        let mut device = profile.build(1);
        assert_eq!((device.sectors(), device.depth()), (profile.sectors(), profile.depth()));
        device.accept(Nanos::ZERO, 3, &Request::new(Op::Read, profile.sectors() - 1, 1));
        let mut done = None;
        while let (None, Some(at)) = (done, device.next()) {
            done = device.advance(at);
        }
        assert_eq!(done.map(|done| done.tag), Some(3), "{name}");
        // Each number says where it is from.
        for line in
            text.lines().filter(|line| line.contains('=') && line.contains(|c: char| c.is_ascii_digit()))
        {
            let is_listed = ["format", "about", "sources", "sectors_per_track", "cylinders"]
                .iter()
                .any(|key| line.starts_with(key));
            assert!(is_listed || line.contains('#'), "{name}: {line}");
        }
    }
    let names: Vec<&str> = PROFILES.iter().map(|row| row.0).collect();
    assert!(names.is_sorted());
    assert!(Profile::named("floppy").is_none());
}

/// A skew that is left out just hides the switch: a long read loses a sector at each, and no revolution.
#[test]
fn skews_that_are_left_out_hide_the_switches() {
    let profile = Profile::read("small", "small.toml", DISK).unwrap();
    let Device::Hdd(hdd) = &profile.device else { panic!("it is a disk") };
    let zone = hdd.geometry.zones().next().unwrap().0.clone();
    // 1 ms of 10 is a tenth of 100 sectors; one more.
    assert_eq!((zone.track_skew, zone.cylinder_skew), (11.0, 11.0));
    assert_eq!(hdd.write_settle, -0.1);
}

/// Each case changes one place.
#[test]
fn what_is_wrong_is_told_with_its_place() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "format = 1",
            "format = 2",
            "small.toml:1:10: format 2 is not one that is read (write `format = 1`)",
        ),
        (
            "\"hdd\"",
            "\"tape\"",
            "small.toml:2:9: there is no model `tape` (use one of fixed, hdd, flash, emmc, virtio)",
        ),
        ("heads = 2", "heads = 0", "small.toml:11:9: `heads`: 0 is not a whole number from 1 to 255"),
        ("heads = 2", "heads = -2", "small.toml:11:9: `heads`: -2 is not a whole number from 1 to 255"),
        ("heads = 2", "heads = 300", "small.toml:11:9: `heads`: 300 is not a whole number from 1 to 255"),
        ("rpm = 6000.0", "rpm = -1.0", "small.toml:12:7: `rpm`: -1 is not a number from 60 to 60000"),
        ("rpm = 6000.0", "rpm = nan", "small.toml:12:7: `rpm`: NaN is not a number from 60 to 60000"),
        (
            "head_switch = \"1ms\"",
            "head_switch = \"-1ms\"",
            "small.toml:13:15: `head_switch`: `-1ms` is negative: a time cannot be below zero",
        ),
        (
            "head_switch = \"1ms\"",
            "head_switch = \"1\"",
            "small.toml:13:15: `head_switch`: `1` has no unit: a time needs one of ns, us, ms, s, m, h",
        ),
        (
            "sectors_per_track = 100",
            "sectors_per_track = 0",
            "small.toml:18:21: `sectors_per_track`: 0 is not a whole number from 1 to 65536",
        ),
        (
            "sectors_per_track = 100",
            "sector_per_track = 100",
            "small.toml:18:1: unknown key `sector_per_track` (did you mean `sectors_per_track`?)",
        ),
        (
            "interface = \"100MB/s\"",
            "interface = \"0B/s\"",
            "small.toml:8:13: `interface`: `0B/s` is not between 1kB/s and 1000GB/s",
        ),
        (
            "segment = \"64KiB\"",
            "segment = \"100B\"",
            "small.toml:31:11: `segment`: `100B` is not a number of whole sectors of 512 bytes",
        ),
        (
            "average = \"5ms\"",
            "average = \"500us\"",
            "small.toml:22:11: `average`: 500us is shorter than `single`, 1ms, a seek to the next cylinder (from 1ms to 10s)",
        ),
        ("average = \"5ms\"", "table = [[1, \"1ms\"]]", "small.toml:20:1: these keys give no seek curve"),
        (
            "single = \"1ms\"\naverage = \"5ms\"",
            "table = [[2, \"1ms\"], [2, \"2ms\"]]",
            "small.toml:21:22: `table`: distance 2 is not beyond the one before it",
        ),
        (
            "average = \"5ms\"",
            "full = \"500us\"",
            "small.toml:22:8: `full`: 500us is shorter than `single`, 1ms, a seek to the next cylinder (from 1ms to 10s)",
        ),
        (
            "single = \"1ms\"\naverage = \"5ms\"",
            "table = [[0, \"1ms\"]]",
            "small.toml:21:10: `table`: 0 is not a whole number from 1 to 16777216",
        ),
        (
            "single = \"1ms\"\naverage = \"5ms\"",
            "table = []",
            "small.toml:21:9: `table`: it has no points (write `[[1, \"1ms\"]]`)",
        ),
        (
            "single = \"1ms\"\naverage = \"5ms\"",
            "table = [[1, \"9ms\"], [2, \"1ms\"]]",
            "small.toml:21:22: `table`: the last two points go on to -55.0 ms for all 9 cylinders, which is not between 0 ms and \
             20000 ms",
        ),
        (
            "cylinders = 10",
            "cylinders = 16777217",
            "small.toml:17:13: `cylinders`: 16777217 is not a whole number from 1 to 16777216",
        ),
        (
            "[seek]",
            "[[zone]]\ncylinders = 16777216\nsectors_per_track = 9\n\n[seek]",
            "small.toml:21:13: `cylinders`: with those of the zones before they are 16777226 (a disk has at most 16777216)",
        ),
        ("[[zone]]\ncylinders = 10\nsectors_per_track = 100", "[zone]", "small.toml:16:1: `zone`: "),
        (
            "segments = 2",
            "segments = 65536",
            "small.toml:30:12: `segments`: 65536 is not a whole number from 0 to 4096",
        ),
        (
            "segments = 2",
            "segments = -1",
            "small.toml:30:12: `segments`: -1 is not a whole number from 0 to 4096",
        ),
        (
            "segments = 2",
            "segments = 1.5",
            "small.toml:30:12: `segments`: 1.5 is not a whole number from 0 to 4096",
        ),
        (
            "segment = \"64KiB\"",
            "segment = 64",
            "`segment`: 64 has no unit: a size is a text such as \"64KiB\"",
        ),
        ("segment = \"64KiB\"", "segment = true", "`segment`: a yes or no is not a size"),
        ("segment = \"64KiB\"", "segment = \"1s\"", "`segment`: `s` in `1s` is not a unit of a size"),
        ("segment = \"64KiB\"", "segment = \"1GiB\"", "`segment`: `1GiB` is not between 512B and 64MiB"),
        (
            "age_limit = \"1s\"",
            "age_limit = \"2h\"",
            "small.toml:7:13: `age_limit`: `2h` is not between 0s and 3600s",
        ),
        (
            "depth = 4",
            "depth = 99999999999999999999",
            "small.toml:6:9: `depth`: 99999999999999999999 is not a whole number",
        ),
        ("-100us", "-2s", "small.toml:14:16: `write_settle`: `-2s` is not between -1s and 1s"),
        ("joins_stream = true", "joins_stream = 1", "small.toml:34:16: `joins_stream`: invalid type"),
        (
            "read_ahead = \"32KiB\"",
            "read_ahead = \"far\"",
            "small.toml:32:14: `read_ahead`: `far` is not a size: it does not start with a number (use none, track",
        ),
        ("read_miss = \"0us\"\n", "", "small.toml:24:1: missing key `read_miss` (nothing is filled in"),
        ("depth = 4\n", "", "small.toml:1:1: missing key `depth`"),
        ("cylinders = 10", "cylinders = 10\ncylinders = 11", "small.toml:18:1: duplicate key"),
    ];
    let mut wrong = Vec::new();
    for (from, to, told) in cases {
        assert!(DISK.contains(from), "{from}");
        let said = Profile::read("small", "small.toml", &DISK.replacen(from, to, 1)).unwrap_err().to_string();
        if !said.contains(told) {
            wrong.push(format!("{said}\n  is not\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same for flash and virtual disks.
#[test]
fn flash_and_virtual_disks_that_cannot_be_are_refused() {
    let of = |name: &str| PROFILES.iter().find(|row| row.0 == name).unwrap().1;
    let cases: &[(&str, &str, &str, &str)] = &[
        ("emmc", "depth = 1", "depth = 2", "a card takes one command at a time, not 2"),
        ("ssd-sata", "spare = 0.09", "spare = 0.00001", "not three blocks of each of 32 dies are spare"),
        ("null", "size = \"250GiB\"", "size = \"0B\"", "`size`: `0B` is not between 512B and 1024TiB"),
        (
            "null",
            "size = \"250GiB\"",
            "size = \"8000TiB\"",
            "`size`: `8000TiB` is not between 512B and 1024TiB",
        ),
        (
            "nvme",
            "dies_per_channel = 4",
            "dies_per_channel = 4000",
            "`dies_per_channel`: 16 channels of 4000 dies",
        ),
        (
            "emmc",
            "size = \"512KiB\"",
            "size = \"512B\"",
            "`size`: a buffer of 1 sectors never fills a page of 64",
        ),
        (
            "emmc",
            "pages_per_block = 256",
            "pages_per_block = 16384",
            "`spare`: of 0.05 not three blocks of each of 2 dies",
        ),
        ("emmc", "size = \"62537072640B\"", "size = \"100MiB\"", "`spare`: of 0.05 not three blocks"),
        (
            "emmc",
            "size = \"62537072640B\"",
            "size = \"10MiB\"",
            "`pages_per_block`: 3 blocks of each of 2 dies",
        ),
        ("ssd-sata", "spare = 0.09", "spare = 1.5", "`spare`: 1.5 is not a number from 0 to 1"),
        ("ssd-sata", "page = \"16KiB\"", "page = \"16MiB\"", "`page`: `16MiB` is not between 512B and 8MiB"),
        (
            "ssd-sata",
            "channels = 8",
            "channels = 3000",
            "`channels`: 3000 channels of 4 dies are more dies than any drive has (together at most 4096)",
        ),
        (
            "virtio-hdd",
            "behind = \"hdd-7200\"",
            "behind = \"disk\"",
            "there is no profile disk; there are emmc, hdd-2004,",
        ),
        (
            "virtio-hdd",
            "depth = 256",
            "depth = 256\nsize = \"9TB\"",
            "17578125000 sectors are more than the 15631712000 of hdd-7200",
        ),
    ];
    for (name, from, to, told) in cases {
        let text = of(name);
        assert!(text.contains(from), "{name}: {from}");
        let wrong = Profile::read(name, name, &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(wrong.contains(told), "{wrong}");
    }
}

/// What `surety device show` prints.
#[test]
fn a_profile_on_a_page() {
    let profile = Profile::read("small", "small.toml", DISK).unwrap();
    let page = "\
profile         small
what            a small disk
model           hdd
capacity        1.02 MB (2000 sectors)
commands        4 at a time
rotation        6000 rpm, 10.00 ms
platters        2 heads, 10 cylinders
seek            1.00 ms shortest, 4.23 ms mean, 8.50 ms longest
head switch     1.00 ms
zones           sectors 0 to 1999: 100 on a track, 4.6 MB/s
buffer          2 segments of 64KiB, reads ahead 32KiB
writes          complete on the medium
sources         made up
";
    assert_eq!(show(&profile), page);
    let lines: Vec<String> =
        list().iter().map(|line| format!("{} {} {}", line.name, line.capacity, line.depth)).collect();
    assert_eq!(
        lines,
        [
            "emmc 62.54 GB 1",
            "hdd-2004 40.03 GB 1",
            "hdd-7200 8.00 TB 32",
            "null 268.4 GB 64",
            "nvme 1.92 TB 1023",
            "ssd-sata 960.2 GB 32",
            "virtio-hdd 8.00 TB 256",
        ]
    );
    let all: String = PROFILES.iter().map(|row| show(&Profile::named(row.0).unwrap())).collect();
    assert!(all.contains("behind          hdd-7200") && all.contains("write buffer    512KiB, volatile"));
}
