//! Profiles with numbers that are wrong: each is refused at a line and a column, or a simulation of the device ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use proptest::prelude::*;

use surety_device::profile::{PROFILES, Profile};
use surety_device::{Op, Request};
use surety_stats::random::Pcg;
use surety_units::Nanos;

/// A hard disk with every key that a profile of one can have.
const DISK: &str = "format = 1\nmodel = \"hdd\"\nabout = \"a small disk\"\nsources = [\"made up\"]\ndepth = 4\nage_limit = \"1s\"\n\
    interface = \"100MB/s\"\n[platters]\nheads = 2\nrpm = 6000.0\nhead_switch = \"1ms\"\nwrite_settle = \"-100us\"\n[[zone]]\n\
    cylinders = 10\nsectors_per_track = 100\ntrack_skew = 5.0\ncylinder_skew = 7\n[[zone]]\ncylinders = 20\nsectors_per_track = 80\n\
    [seek]\nsingle = \"1ms\"\naverage = \"5ms\"\n[overheads]\nread_hit = \"10us\"\nread_miss = \"20us\"\nwrite = \"30us\"\n\
    read_completion = \"1us\"\nwrite_completion = \"2us\"\n[buffer]\nsegments = 2\nsegment = \"64KiB\"\nread_ahead = \"32KiB\"\n\
    read_ahead_after_hit = true\njoins_stream = true\nreads_while_waiting = true\nzero_latency_read = true\n\
    zero_latency_write = true\nhits_on_writes = true\nanswers_while_busy = true\n[write_back]\nruns = 4\nsize = \"64KiB\"\n\
    combines = true\n[retries]\nprobability = 0.1\nmost_revolutions = 3\n";

/// A flash disk with every key that a profile of one can have.
const FLASH: &str = "format = 1\nmodel = \"flash\"\nabout = \"a small one\"\nsources = [\"made up\"]\nsize = \"64MiB\"\ndepth = 4\n\
    link = \"100MB/s\"\nframe = \"1us\"\ncommand = \"1us\"\nlatency = \"1us\"\n[cells]\nchannels = 2\ndies_per_channel = 2\n\
    page = \"4KiB\"\npages_per_block = 16\nread = \"50us\"\nprogram = \"500us\"\nerase = \"5ms\"\nchannel = \"100MB/s\"\n\
    suspend = \"10us\"\n[buffer]\nsize = \"64KiB\"\nprotected = false\nflush = \"1ms\"\n[fast_cells]\nsize = \"1MiB\"\n\
    program = \"100us\"\n[space]\nspare = 0.1\nfilled = 0.8\nworn_in = true\nstreams = 4\n";

/// Texts of the profiles whose numbers are changed.
fn texts() -> Vec<&'static str> {
    PROFILES.iter().map(|row| row.1).chain([DISK, FLASH]).collect()
}

/// Values that stand in the place of a number, of any kind.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "63",
    "4096",
    "65536",
    "16777216",
    "4294967295",
    "99999999999999999999",
    "1e30",
    "1e-30",
    "0.5",
    "nan",
    "inf",
    "-0.0",
    "true",
    "[]",
    "{}",
    "1979-05-27",
    "\"\"",
    "\"x\"",
    "\"-\"",
    "\"0\"",
    "\"0B\"",
    "\"1B\"",
    "\"512B\"",
    "\"4KiB\"",
    "\"1MiB\"",
    "\"64MiB\"",
    "\"1GiB\"",
    "\"1024TiB\"",
    "\"8000TiB\"",
    "\"16000000TB\"",
    "\"0s\"",
    "\"1ns\"",
    "\"1s\"",
    "\"-1s\"",
    "\"10s\"",
    "\"1h\"",
    "\"1000h\"",
    "\"0B/s\"",
    "\"1kB/s\"",
    "\"1GB/s\"",
    "\"1000GB/s\"",
    "\"9999999GB/s\"",
    "\"µs\"",
];

/// Numbers that stand in the place of another, before the unit that is there.
const NUMBERS: &[&str] = &[
    "0", "1", "2", "3", "8", "10", "64", "100", "255", "512", "1000", "4096", "65536", "1000000", "16777216",
    "0.5", "0.001",
];

/// Values that no key with a number takes.
const NEVER: &[&str] = &[
    "-1",
    "nan",
    "1e30",
    "99999999999999999999",
    "true",
    "{}",
    "\"x\"",
    "\"8000TiB\"",
    "\"1000h\"",
    "\"0B/s\"",
];

/// The lines of a text that give a key a number, perhaps with a unit.
fn numbers(text: &str) -> Vec<usize> {
    let is_number = |line: &str| {
        let value = line.split_once(" = ").map_or("", |(_, value)| value).trim_start_matches(['"', '-']);
        value.starts_with(|c: char| c.is_ascii_digit())
            && !line.starts_with("format")
            && !line.starts_with('#')
    };
    text.lines().enumerate().filter(|(_, line)| is_number(line)).map(|(number, _)| number).collect()
}

/// The text with another value in a line; `None`: without the line.
fn changed(text: &str, line: usize, value: Option<&str>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let key = lines[line].split(' ').next().unwrap_or_default().to_owned();
    match value {
        Some(value) => lines[line] = format!("{key} = {value}"),
        None => drop(lines.remove(line)),
    }
    lines.join("\n") + "\n"
}

/// The text with another number in a line, of the same unit.
fn renumbered(text: &str, line: usize, number: &str) -> String {
    let old = text.lines().nth(line).and_then(|line| line.split_once(" = ")).map_or("", |(_, value)| value);
    let old = old.split(" #").next().unwrap_or_default();
    let quote = if old.starts_with('"') { "\"" } else { "" };
    let unit = old.trim_start_matches(|c: char| !c.is_alphabetic());
    changed(text, line, Some(&format!("{quote}{number}{unit}")))
}

/// Serves 200 requests, as many at a time as the device takes.
fn serves(profile: &Profile, seed: u64) {
    let (mut device, mut chance) = (profile.build(seed), Pcg::for_job(seed, 1, 0));
    let (mut now, mut done, mut last_end) = (Nanos::ZERO, 0, 0);
    for tag in 0..200 {
        while device.queued() >= device.depth() {
            now = device.next().expect("a full device goes on");
            while let Some(completion) = device.advance(now) {
                assert!(
                    completion.completed >= completion.accepted && completion.service.total() >= Nanos::ZERO
                );
                done += 1;
            }
        }
        let sectors = 1 + chance.below(256.min(device.sectors())) as u32;
        let most = device.sectors() - u64::from(sectors);
        let sector = if chance.below(3) == 0 { most.min(last_end) } else { chance.below(most + 1) };
        let op = [Op::Read, Op::Write, Op::Read, Op::Write, Op::Discard, Op::Flush][chance.below(6) as usize];
        let sectors = if op == Op::Flush { 0 } else { sectors };
        let request = Request { op, sector, sectors, through: op == Op::Write && chance.below(8) == 0 };
        last_end = request.end();
        assert!(device.estimate(now, &request).is_none_or(|time| time >= Nanos::ZERO));
        device.accept(now, tag, &request);
    }
    while let Some(at) = device.next() {
        assert!(at >= now, "instants do not go back");
        now = at;
        while device.advance(now).is_some() {
            done += 1;
        }
    }
    assert_eq!((done, device.queued()), (200, 0), "every request is served");
}

/// Whether the text is refused, at a place in it.
fn is_refused(text: &str) -> bool {
    match Profile::read("changed", "changed.toml", text) {
        Ok(profile) => {
            serves(&profile, 3);
            assert!(!surety_device::profile::show(&profile).is_empty());
            false
        }
        Err(wrong) => {
            let said = wrong.to_string();
            let place: Vec<usize> =
                said.split(':').skip(1).take(2).map(|part| part.parse().unwrap()).collect();
            let lines: Vec<&str> = text.lines().collect();
            assert!(place[1] >= 1 && place[0] >= 1 && place[0] <= lines.len(), "{said}");
            true
        }
    }
}

/// Every number of every kind of profile: what it never is is refused at it under its name, and without it the profile is refused or
/// serves.
#[test]
fn every_number_is_refused_at_its_place() {
    for text in texts() {
        for line in numbers(text) {
            let key = text.lines().nth(line).unwrap().split(' ').next().unwrap();
            for value in NEVER {
                let changed = changed(text, line, Some(value));
                let wrong = Profile::read("x", "x.toml", &changed).err();
                let said = wrong.unwrap_or_else(|| panic!("{key} = {value} is read")).to_string();
                let told = format!("x.toml:{}:{}: `{key}`: ", line + 1, key.len() + 4);
                assert!(said.starts_with(&told), "{key} = {value}: {said}");
            }
            let without = changed(text, line, None);
            if let Err(wrong) = Profile::read("x", "x.toml", &without) {
                let said = wrong.to_string();
                let is_said =
                    said.contains(&format!("missing key `{key}`")) || said.contains("no seek curve");
                assert!(is_said, "without {key}: {said}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Up to four numbers of a profile are others, of the same unit: it is refused with a place, or it serves.
    #[test]
    fn a_profile_of_other_numbers_is_refused_or_serves(
        which in 0usize..9,
        changes in proptest::collection::vec((0usize..100, 0..NUMBERS.len()), 1..5),
    ) {
        let mut text = texts()[which].to_owned();
        let lines = numbers(&text);
        for (line, number) in changes {
            text = renumbered(&text, lines[line % lines.len()], NUMBERS[number]);
        }
        is_refused(&text);
    }

    /// Up to four numbers of a profile are anything, or missing: it is refused with a place, or it serves.
    #[test]
    fn a_changed_profile_is_refused_or_serves(
        which in 0usize..9,
        changes in proptest::collection::vec((0usize..100, proptest::option::weighted(0.95, 0usize..48)), 1..5),
    ) {
        let mut text = texts()[which].to_owned();
        for (line, value) in changes {
            let lines = numbers(&text);
            if !lines.is_empty() {
                text = changed(&text, lines[line % lines.len()], value.map(|value| VALUES[value % VALUES.len()]));
            }
        }
        is_refused(&text);
    }
}

/// Each value alone in the place of each number.
#[test]
fn every_value_in_every_place_is_refused_or_serves() {
    let (mut refused, mut all) = (0, 0);
    for text in texts() {
        for line in numbers(text) {
            for value in VALUES {
                refused += usize::from(is_refused(&changed(text, line, Some(value))));
                all += 1;
            }
        }
    }
    assert!(refused * 2 > all && refused < all, "{refused} of {all}");
}
