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
        ("heads = 2", "heads = 0", "small.toml:11:9: 0 is not between 1 and 16777216"),
        ("heads = 2", "heads = -2", "small.toml:11:9: -2 is not between 1 and 16777216"),
        ("heads = 2", "heads = 300", "small.toml:11:9: 300 heads are more than any drive has"),
        (
            "rpm = 6000.0",
            "rpm = -1.0",
            "small.toml:12:7: -1 revolutions a minute are not between 60 and 60000",
        ),
        (
            "rpm = 6000.0",
            "rpm = nan",
            "small.toml:12:7: NaN revolutions a minute are not between 60 and 60000",
        ),
        (
            "head_switch = \"1ms\"",
            "head_switch = \"-1ms\"",
            "small.toml:13:15: `-1ms` is negative: a time cannot be below zero",
        ),
        (
            "head_switch = \"1ms\"",
            "head_switch = \"1\"",
            "small.toml:13:15: `1` has no unit: a time needs one of ns, us, ms, s, m, h",
        ),
        (
            "sectors_per_track = 100",
            "sectors_per_track = 0",
            "small.toml:18:21: 0 is not between 1 and 16777216",
        ),
        (
            "sectors_per_track = 100",
            "sector_per_track = 100",
            "small.toml:18:1: unknown field `sector_per_track`",
        ),
        (
            "interface = \"100MB/s\"",
            "interface = \"0B/s\"",
            "small.toml:8:13: `0B/s` would never move a byte",
        ),
        (
            "segment = \"64KiB\"",
            "segment = \"100B\"",
            "small.toml:31:11: `100B` is not a number of whole sectors of 512 bytes",
        ),
        ("average = \"5ms\"", "average = \"500us\"", "small.toml:20:1: these keys give no seek curve"),
        ("average = \"5ms\"", "table = [[1, \"1ms\"]]", "small.toml:20:1: these keys give no seek curve"),
        (
            "single = \"1ms\"\naverage = \"5ms\"",
            "table = [[2, \"1ms\"], [2, \"2ms\"]]",
            "small.toml:21:22: distance 2 is not beyond the one before it",
        ),
        ("read_ahead = \"32KiB\"", "read_ahead = \"far\"", "small.toml:32:14: `far` is no way to read ahead"),
        ("read_miss = \"0us\"\n", "", "small.toml:24:1: missing field `read_miss`"),
        ("depth = 4\n", "", "missing field `depth`"),
        ("cylinders = 10", "cylinders = 10\ncylinders = 11", "small.toml:18:1: duplicate key"),
    ];
    for (from, to, told) in cases {
        assert!(DISK.contains(from), "{from}");
        let wrong =
            Profile::read("small", "small.toml", &DISK.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(wrong.contains(told), "{wrong}\n  is not\n{told}");
    }
}

/// The same for flash and virtual disks.
#[test]
fn flash_and_virtual_disks_that_cannot_be_are_refused() {
    let of = |name: &str| PROFILES.iter().find(|row| row.0 == name).unwrap().1;
    let cases: &[(&str, &str, &str, &str)] = &[
        ("emmc", "depth = 1", "depth = 2", "a card takes one command at a time, not 2"),
        ("ssd-sata", "spare = 0.09", "spare = 0.00001", "not three blocks of each of 32 dies are spare"),
        ("ssd-sata", "spare = 0.09", "spare = 1.5", "1.5 is not between 0 and 1"),
        ("ssd-sata", "page = \"16KiB\"", "page = \"16MiB\"", "pages of 32768 sectors do not fit"),
        ("ssd-sata", "channels = 8", "channels = 8000", "32000 dies are more than any drive has"),
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
