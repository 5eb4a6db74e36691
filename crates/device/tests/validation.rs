//! Four real drives: the model beside what was measured on them, by DiskSim's validation traces.
//!
//! The data are not in this repository. They are looked for in the directory `SURETY_DISK_DATA` names, else in
//! `../shared/data/disks` beside the checkout: DiskSim 4.0's `valid/*.{diskspecs,model,seek,trace}` of the drives.
//!
//! A trace has 10,000 requests, each with the time the drive took and the time until the next one came after it. They are
//! replayed one at a time as DiskSim does, each so long after the completion of the one before, and the distributions of the
//! response times are compared (`demerit`). The drives are described by their files alone, but for one number: the time of a
//! sector over the bus of the HP C2490A is in a file about the bus that is not among them. It is fitted on the first half
//! of that trace, and every drive is judged on all of the trace and on its second half.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]
#![allow(clippy::print_stdout, reason = "the figures are what the test is for")]

use std::path::{Path, PathBuf};

use surety_device::demerit::{correlation, demerit};
use surety_device::hdd::{Hdd, Parameters};
use surety_device::{Completion, Model, Op, Request, disksim};
use surety_units::Nanos;

/// The most that is allowed, in milliseconds.
const LIMIT_MS: f64 = 0.5;

/// A drive, the demerit DiskSim's own model has (`valid/runvalid` of DiskSim 4.0), and the one this model has, rounded up.
#[allow(clippy::approx_constant, reason = "a demerit, not a part of a circle")]
const DRIVES: &[(&str, f64, f64)] = &[
    ("atlas10k", 0.268, 0.10),
    ("barracuda", 0.349, 0.315),
    ("cheetah4LP", 0.318, 0.295),
    ("hp_c2490a", 0.254, 0.26),
];

/// A request of a trace.
struct Measured {
    request: Request,
    service_ms: f64,
    /// From its completion to the next request.
    after: Nanos,
}

/// The directory of the data, if it is there.
fn data() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disks");
    let directory = std::env::var_os("SURETY_DISK_DATA").map_or_else(beside, PathBuf::from);
    if !directory.join("atlas10k.trace").exists() {
        println!("SKIPPED: no DiskSim validation data in {}; set SURETY_DISK_DATA", directory.display());
        return None;
    }
    Some(directory)
}

/// Reads `R|W Hit|Miss SECTOR SECTORS SERVICE_US NEXT_US` lines.
fn read_trace(text: &str) -> Vec<Measured> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let op = if words[0] == "R" { Op::Read } else { Op::Write };
        let us = |word: &str| word.parse::<f64>().unwrap();
        Measured {
            request: Request::new(op, words[2].parse().unwrap(), words[3].parse().unwrap()),
            service_ms: us(words[4]) / 1000.0,
            after: Nanos::from_f64_rounded(us(words[5]) * 1000.0),
        }
    };
    text.lines().map(line).collect()
}

fn read_drive(directory: &Path, name: &str) -> (Parameters, Vec<Measured>) {
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).map_err(|wrong| wrong.to_string());
    let specs = format!("{name}.diskspecs");
    let drive = disksim::read(&specs, &read(&specs).unwrap(), &mut |file| read(file))
        .unwrap_or_else(|e| panic!("{e}"));
    (drive.parameters, read_trace(&read(&format!("{name}.trace")).unwrap()))
}

/// Replays a trace one request at a time.
fn replay(parameters: Parameters, trace: &[Measured]) -> Vec<Completion> {
    let mut disk = Hdd::new(parameters, 1);
    let mut now = Nanos::ZERO;
    let serve = |measured: &Measured| {
        disk.accept(now, 0, &measured.request);
        let done = loop {
            let at = disk.next().unwrap();
            if let Some(done) = disk.advance(at) {
                break done;
            }
        };
        now = done.completed + measured.after;
        done
    };
    trace.iter().map(serve).collect()
}

fn milliseconds(done: &[Completion]) -> Vec<f64> {
    done.iter().map(|done| done.service.total().as_millis_f64()).collect()
}

/// The time of a sector over the bus that makes the demerit on a trace least, of 0.100, 0.102, ... 0.200 ms.
fn fit_bus(parameters: &Parameters, trace: &[Measured]) -> f64 {
    let measured: Vec<f64> = trace.iter().map(|measured| measured.service_ms).collect();
    let score = |sector_transfer: f64| {
        let done = replay(Parameters { sector_transfer, ..parameters.clone() }, trace);
        demerit(&measured, &milliseconds(&done)).unwrap()
    };
    let candidates = (50..=100).map(|step| f64::from(step) * 0.002);
    let scored = candidates.map(|candidate| (score(candidate), candidate));
    scored.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
}

#[test]
fn the_model_is_as_near_to_four_drives_as_disksim_is() {
    let Some(directory) = data() else { return };
    println!("drive        demerit ms  second half  DiskSim   correlation  mean ms (model)");
    for (name, published, reached) in DRIVES {
        let (mut parameters, trace) = read_drive(&directory, name);
        let half = trace.len() / 2;
        if *name == "hp_c2490a" {
            assert_eq!(parameters.sector_transfer, 0.0, "its files leave the bus out");
            parameters.sector_transfer = fit_bus(&parameters, &trace[..half]);
            println!(
                "{name}: {:.4} ms a sector over the bus, fitted on the first half",
                parameters.sector_transfer
            );
        }
        let done = replay(parameters, &trace);
        let modelled = milliseconds(&done);
        let measured: Vec<f64> = trace.iter().map(|measured| measured.service_ms).collect();
        let whole = demerit(&measured, &modelled).unwrap();
        let second = demerit(&measured[half..], &modelled[half..]).unwrap();
        let together = correlation(&measured, &modelled).unwrap();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        println!(
            "{name:<12} {whole:<11.3} {second:<12.3} {published:<9.3} {together:<12.3} {:.3} ({:.3})",
            mean(&measured),
            mean(&modelled)
        );
        assert!(whole <= LIMIT_MS && second <= LIMIT_MS, "{name}: {whole} {second}");
        assert!(whole <= *reached, "{name}: {whole} was at most {reached}");
        assert!(together > 0.85, "{name}: {together}");
    }
}

/// What each part of the model is worth on these drives: without it the demerit is larger.
#[test]
fn each_part_of_the_model_earns_its_place() {
    let Some(directory) = data() else { return };
    println!("drive        all     no read-ahead  no buffer  no write reporting  average seek");
    for (name, ..) in &DRIVES[..3] {
        let (parameters, trace) = read_drive(&directory, name);
        let measured: Vec<f64> = trace.iter().map(|measured| measured.service_ms).collect();
        let score =
            |parameters: Parameters| demerit(&measured, &milliseconds(&replay(parameters, &trace))).unwrap();
        let full = score(parameters.clone());
        let (_, average, _) = parameters.seek.summary(parameters.geometry.cylinders());
        let without = [
            Parameters { read_ahead: surety_device::hdd::ReadAhead::None, ..parameters.clone() },
            Parameters { segments: 0, ..parameters.clone() },
            Parameters { write_back: None, ..parameters.clone() },
            Parameters { seek: surety_device::hdd::seek::SeekCurve::Constant(average), ..parameters.clone() },
        ]
        .map(score);
        let [ahead, buffer, writes, seek] = without;
        println!("{name:<12} {full:<7.3} {ahead:<14.3} {buffer:<10.3} {writes:<19.3} {seek:.3}");
        assert!(without.iter().all(|worse| *worse > full), "{name}: {without:?} {full}");
    }
}
