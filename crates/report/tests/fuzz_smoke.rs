//! The fuzz targets `workload`, `foreign`, `plan` and `record` without a fuzzer: their corpora, and cut, flipped and extreme ones of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::fs;
use std::path::Path;

use surety_stats::Pcg;

#[path = "../../../fuzz/bodies/foreign.rs"]
mod foreign;
#[path = "../../../fuzz/bodies/plan.rs"]
mod plan;
#[path = "../../../fuzz/bodies/record.rs"]
mod record;
#[path = "../../../fuzz/bodies/workload.rs"]
mod workload;

/// Bytes put in place of a number.
const NUMBERS: [&[u8]; 8] =
    [b"0", b"-1", b"1e308", b"9223372036854775807", b"18446744073709551616", b"0.5", b"null", b"1000"];

/// A few changes, most of them of a number.
fn changed(whole: &[u8], pcg: &mut Pcg) -> Vec<u8> {
    let mut input = whole.to_vec();
    for _ in 0..=pcg.below(3) {
        let at = pcg.below(input.len().max(1) as u64) as usize;
        match pcg.below(8) {
            0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << pcg.below(8)),
            1 => input.truncate(at),
            2 => drop(input.drain(at..(at + pcg.below(40) as usize).min(input.len()))),
            _ => {
                let is_digit = |place: &usize| input[*place].is_ascii_digit();
                let Some(start) = (at..input.len()).find(is_digit) else { continue };
                let end = (start..input.len()).find(|place| !is_digit(place)).unwrap_or(input.len());
                input.splice(start..end, NUMBERS[pcg.below(8) as usize].iter().copied());
            }
        }
    }
    input
}

fn try_all(name: &str, rounds: u64, survives: fn(&[u8])) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let inputs: Vec<_> = fs::read_dir(&here).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(inputs.len() >= 4, "{} has few inputs", here.display());
    for path in inputs {
        let whole = fs::read(&path).unwrap();
        survives(&whole);
        for round in 0..rounds {
            let input = changed(&whole, &mut Pcg::for_job(815, whole.len() as u64, round));
            if std::panic::catch_unwind(|| survives(&input)).is_err() {
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-last"));
                fs::write(&kept, &input).unwrap();
                panic!("{} changed (round {round}) fails, kept as {}", path.display(), kept.display());
            }
        }
    }
}

#[test]
fn any_bytes_as_a_workload_are_survived() {
    try_all("workload", 400, workload::survives);
}

#[test]
fn any_bytes_as_a_workload_of_another_program_are_survived() {
    try_all("foreign", 1000, foreign::survives);
}

#[test]
fn any_bytes_as_a_plan_are_survived() {
    try_all("plan", 400, plan::survives);
}

#[test]
fn any_bytes_as_results_are_survived() {
    try_all("record", 200, record::survives);
}
