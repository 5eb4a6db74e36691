//! Known devices characterised: the plan is answered by a model, and the profile made from the answers has to be that model again,
//! within stated errors, in its numbers and in what it does with the same requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_device::characterise::{
    Fitted, Measured, Origin, Part, Plan, Row, SECTORS_MIN, Scope, Step, compare, fit, rehearse,
};
use surety_device::profile::{Device, Profile};
use surety_device::worst::Asked;
use surety_device::{Op, hdd};
use surety_units::Nanos;

fn origin() -> Origin {
    Origin {
        name: "again".to_owned(),
        about: "a model, \"measured\"".to_owned(),
        date: "2026-11-24".to_owned(),
        sources: vec!["a model".to_owned()],
        depth: None,
    }
}

fn measured(profile: &Profile, seconds: i64, writes: bool) -> Measured {
    let writable = writes.then(|| profile.sectors());
    let scope = Scope { sectors: profile.sectors(), writable, time: Nanos::from_secs(seconds), seed: 5 };
    let mut plan = Plan::new(scope);
    rehearse(&mut plan, profile.build(3).as_mut());
    plan.into_measured()
}

/// A profile, what was measured of it, and the rows of what it does beside what the profile made from that does.
fn again(name: &str, seconds: i64, writes: bool) -> (Profile, Measured, Fitted, Vec<Row>) {
    let profile = Profile::named(name).unwrap();
    let measured = measured(&profile, seconds, writes);
    let fitted = fit(&measured, &origin()).unwrap();
    let rows = compare(&measured, &fitted.profile);
    (profile, measured, fitted, rows)
}

fn near(what: &str, found: f64, known: f64, tolerance: f64) {
    println!("{what}: {found:.4}, known {known:.4}");
    assert!((found / known - 1.0).abs() <= tolerance, "{what} is {found}, not {known} within {tolerance}");
}

/// No row is off but those that are named.
fn follows(rows: &[Row], but: &[Part]) {
    let off: Vec<&Row> =
        rows.iter().filter(|row| !row.off().is_empty() && !but.contains(&row.part)).collect();
    assert!(rows.len() > 15 && off.is_empty(), "{} rows, off: {off:#?}", rows.len());
}

#[test]
fn a_fixed_device_is_found_again_exactly() {
    let (_, measured, fitted, rows) = again("null", 30, true);
    assert_eq!(measured.turning, None);
    let Device::Fixed(found) = &fitted.profile.device else { panic!("{}", fitted.text) };
    let ten = Nanos::from_micros(10);
    assert_eq!((found.read, found.write, found.flush, found.rate.0), (ten, ten, ten, 0));
    assert_eq!((found.lanes, found.depth), (64, 64), "{}", fitted.text);
    follows(&rows, &[]);
}

/// A guarantee is given on a profile of a device that never took longer than its model may, and refused, with the read that tells it, on one of a device that
/// did once: of a virtual disk's tail no model knows.
#[test]
fn a_read_beyond_the_model_leaves_no_guarantee() {
    let asked = |profile: &Profile| Asked { range: 0..profile.sectors(), longest: 256, writes: None };
    let mut measured = measured(&Profile::named("null").unwrap(), 10, false);
    let fitted = fit(&measured, &origin()).unwrap();
    assert!(fitted.text.contains("took = \"10us\" }"), "{}", fitted.text);
    assert!(fitted.profile.worst(&asked(&fitted.profile)).is_ok());
    let random = measured.groups.iter_mut().find(|group| group.part == Part::Random).unwrap();
    random.samples[7].completed += Nanos::from_millis(5);
    let fitted = fit(&measured, &origin()).unwrap();
    let why = fitted.profile.worst(&asked(&fitted.profile)).unwrap_err();
    assert!(why.contains("a read of 4KiB made alone took 5.010 ms"), "{why}");
    let turning = again("hdd-2004", 60, false).2.profile;
    assert!(turning.worst(&asked(&turning)).is_ok(), "{:?}", turning.slowest_read);
}

/// One request at a time and a rate, as `scsi_debug` with a delay behind a slow bus.
#[test]
fn a_fixed_device_with_one_lane_and_a_rate_is_found_again() {
    let text = "format = 1\nmodel = \"fixed\"\nabout = \"\"\nsources = []\nsize = \"1GiB\"\nread = \"200us\"\n\
                write = \"300us\"\nflush = \"2ms\"\nrate = \"100MB/s\"\nlanes = 1\ndepth = 64\n";
    let profile = Profile::read("one", "one", text).unwrap();
    let measured = measured(&profile, 30, true);
    let fitted = fit(&measured, &origin()).unwrap();
    let Device::Fixed(found) = &fitted.profile.device else { panic!("{}", fitted.text) };
    near("read", found.read.get() as f64, 200e3, 0.01);
    near("rate", found.rate.0 as f64, 100e6, 0.01);
    assert_eq!((found.lanes, found.flush), (1, Nanos::from_millis(2)));
    follows(&compare(&measured, &fitted.profile), &[]);
}

/// Cells, link and dies of a solid state disk: a read takes a sum of times, of which many at a time tell the parts.
#[test]
fn a_solid_state_disk_is_found_again() {
    for writes in [false, true] {
        let (profile, measured, fitted, rows) = again("ssd-sata", 30, writes);
        assert_eq!(measured.turning, None);
        let (Device::Flash(known), Device::Flash(found)) = (&profile.device, &fitted.profile.device) else {
            panic!("{}", fitted.text)
        };
        let dies =
            |flash: &surety_device::flash::Parameters| f64::from(flash.channels * flash.dies_per_channel);
        near("dies", dies(found), dies(known), 0.15);
        near("cells", found.read.get() as f64, known.read.get() as f64, 0.1);
        near("link", found.link.0 as f64, known.link.0 as f64, 0.02);
        near("frame", found.frame.get() as f64, known.frame.get() as f64, 0.1);
        // The time before the cells, and theirs, are one sum to a reader; a write has the first alone.
        let latency = if writes { 0.01 } else { 0.3 };
        near("latency", found.latency.get() as f64, known.latency.get() as f64, latency);
        // The known one is worn in and cleans as it is written to; what cleaning takes is not measured.
        follows(&rows, &[Part::WriteStream]);
        assert_eq!(writes, !fitted.text.contains("protected = true # assumed"), "{}", fitted.text);
    }
}

/// A faster one, of which no depth that is tried needs all dies: its numbers are not found, what it does is.
#[test]
fn what_an_nvme_disk_does_with_reads_is_found_again() {
    let (_, _, fitted, rows) = again("nvme", 30, false);
    assert_eq!(fitted.profile.model, "flash", "{}", fitted.text);
    assert!(fitted.text.contains("assumed as in nvme"), "{}", fitted.text);
    follows(&rows, &[]);
}

/// The seek curves and the zones of two disks, at a distance in shares of the disk.
fn moves_alike(known: &hdd::Parameters, found: &hdd::Parameters) {
    let sectors = |disk: &hdd::Parameters| disk.geometry.sectors();
    near("size", sectors(found) as f64, sectors(known) as f64, 0.002);
    let seek = |disk: &hdd::Parameters, share: f64| {
        disk.seek.time((f64::from(disk.geometry.cylinders()) * share) as u32)
    };
    for share in [0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 0.6] {
        let (found, known) = (seek(found, share), seek(known, share));
        println!("seek over {share}: {found:.3} ms, known {known:.3} ms");
        assert!((found - known).abs() < 0.25 + 0.05 * known, "over {share}: {found} ms, not {known} ms");
    }
    let overheads = (found.overheads.read_miss[0], known.overheads.read_miss[0]);
    near("overhead", overheads.0, overheads.1, 0.1);
    near("interface", 1.0 / found.sector_transfer, 1.0 / known.sector_transfer, 0.02);
}

fn hdd_of(profile: &Profile) -> hdd::Parameters {
    match &profile.device {
        Device::Hdd(parameters) => (**parameters).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_disk_with_a_queue_is_found_again() {
    let (profile, measured, fitted, rows) = again("hdd-7200", 60, false);
    let turning = measured.turning.unwrap();
    near("revolution, ms", turning.revolution / 1e6, 60_000.0 / 7200.0, 1e-6);
    let (known, found) = (hdd_of(&profile), hdd_of(&fitted.profile));
    moves_alike(&known, &found);
    assert_eq!((found.depth, found.answers_while_busy), (32, true));
    assert!((64..=128).contains(&found.segments), "96 are known: {}", found.segments);
    let spt = |disk: &hdd::Parameters, share: u64| {
        f64::from(disk.geometry.place(disk.geometry.sectors() / 16 * share).sectors_per_track)
    };
    for share in [0, 4, 8, 12, 15] {
        // 16 places, not where its 16 zones begin, which differ by up to 4 %.
        near("sectors of a track", spt(&found, share), spt(&known, share), 0.04);
    }
    follows(&rows, &[]);
}

#[test]
fn a_disk_without_a_queue_is_found_again() {
    let (profile, measured, fitted, rows) = again("hdd-2004", 60, true);
    near("revolution, ms", measured.turning.unwrap().revolution / 1e6, 60_000.0 / 7200.0, 1e-6);
    let (known, found) = (hdd_of(&profile), hdd_of(&fitted.profile));
    moves_alike(&known, &found);
    assert_eq!((found.depth, found.answers_while_busy), (1, false));
    assert!((16..=32).contains(&found.segments), "16 are known: {}", found.segments);
    assert_eq!(found.geometry.zones().count(), 1, "{}", fitted.text);
    assert!(found.write_back.is_some(), "{}", fitted.text);
    follows(&rows, &[]);
}

/// A guest's disk on a turning one turns, and the host's thread is in its overhead.
#[test]
fn a_virtual_disk_on_a_turning_one_is_a_turning_one() {
    let (_, measured, fitted, rows) = again("virtio-hdd", 60, false);
    near("revolution, ms", measured.turning.unwrap().revolution / 1e6, 60_000.0 / 7200.0, 1e-6);
    let found = hdd_of(&fitted.profile);
    // 30 us of the disk and 50 us of the thread.
    near("overhead, ms", found.overheads.read_hit[0], 0.08, 0.05);
    follows(&rows, &[]);
}

/// Every profile gives one that is read, with whatever time there was, or words.
#[test]
fn any_time_gives_a_profile_or_words() {
    for (name, _) in surety_device::profile::PROFILES {
        let profile = Profile::named(name).unwrap();
        for millis in [0, 50] {
            let scope = Scope {
                sectors: profile.sectors().min(SECTORS_MIN << (millis % 7)),
                writable: (millis == 50).then_some(SECTORS_MIN),
                time: Nanos::from_millis(millis),
                seed: 1,
            };
            let mut plan = Plan::new(scope);
            rehearse(&mut plan, profile.build(1).as_mut());
            let measured = plan.into_measured();
            match fit(&measured, &origin()) {
                Ok(fitted) => drop(compare(&measured, &fitted.profile)),
                Err(wrong) => assert!(!wrong.to_string().is_empty()),
            }
        }
    }
}

/// What a plan asks stays inside what it was given, ends in time, and writes only where it may.
#[test]
fn a_plan_keeps_to_its_scope() {
    let profile = Profile::named("hdd-2004").unwrap();
    for writable in [None, Some(SECTORS_MIN)] {
        let scope = Scope { sectors: 1 << 20, writable, time: Nanos::from_secs(20), seed: 9 };
        let mut plan = Plan::new(scope);
        let mut device = profile.build(1);
        let (mut now, mut writes, mut queue) = (Nanos::ZERO, 0, Vec::new());
        loop {
            match plan.next(now) {
                Step::Issue(tag, request) => {
                    let end = if request.op == Op::Read { scope.sectors } else { writable.unwrap() };
                    assert!(request.end() <= end, "{request:?}");
                    assert!(now <= scope.time, "{now:?}");
                    writes += u32::from(request.op == Op::Write);
                    queue.push((tag, request));
                }
                Step::Wait => {
                    let (tag, request) = queue.remove(0);
                    device.accept(now, tag, &request);
                    while let Some(at) = device.next() {
                        now = at;
                        if let Some(done) = device.advance(now) {
                            plan.complete(done.tag, now);
                            break;
                        }
                    }
                }
                Step::Done => break,
            }
        }
        assert!(now < scope.time + Nanos::from_secs(2), "{now:?}");
        assert_eq!(writes > 0, writable.is_some());
    }
}
