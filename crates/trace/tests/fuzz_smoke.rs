//! The fuzz targets without a fuzzer: every file of their corpora, and a bounded number of seeded changes to them. So what
//! reads foreign bytes is tried on every run of the tests; `tools/fuzz` searches further, led by coverage.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says where by panicking"
)]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use surety_stats::Pcg;

#[path = "../../../fuzz/bodies/trace_dat.rs"]
mod trace_dat;
#[path = "../../../fuzz/bodies/trace_pages.rs"]
mod trace_pages;
#[path = "../../../fuzz/bodies/trace_perf.rs"]
mod trace_perf;
#[path = "../../../fuzz/bodies/trace_perfetto.rs"]
mod trace_perfetto;
#[path = "../../../fuzz/bodies/trace_text.rs"]
mod trace_text;

/// Changes to one input at most.
const CHANGES_MAX: u64 = 8;
/// Bytes a changed input may grow to.
const LENGTH_MAX: usize = 1 << 16;

struct Target {
    name: &'static str,
    survives: fn(&[u8]),
    /// Changed inputs: as many as take about a second.
    rounds: u64,
}

const TARGETS: [Target; 5] = [
    Target { name: "trace_dat", survives: trace_dat::survives, rounds: 5000 },
    Target { name: "trace_pages", survives: trace_pages::survives, rounds: 20_000 },
    Target { name: "trace_perf", survives: trace_perf::survives, rounds: 5000 },
    Target { name: "trace_perfetto", survives: trace_perfetto::survives, rounds: 6000 },
    Target { name: "trace_text", survives: trace_text::survives, rounds: 10_000 },
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a directory, in order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A place in a list of that length.
fn place(pcg: &mut Pcg, length: usize) -> usize {
    (pcg.next_u64() % length.max(1) as u64) as usize
}

/// Changes an input a few times: bits, bytes, cuts, pieces of it or of another one put in.
fn change(pcg: &mut Pcg, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=pcg.next_u64() % CHANGES_MAX {
        let at = place(pcg, input.len());
        let until = at + place(pcg, input.len() - at.min(input.len()));
        match pcg.next_u64() % 6 {
            0 | 1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (pcg.next_u64() % 8)),
            2 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = (pcg.next_u64() >> 56) as u8),
            3 => input.truncate(at),
            4 => drop(input.drain(at.min(until)..until.min(input.len()))),
            _ => {
                let from = place(pcg, other.len());
                let piece = &other[from..from + place(pcg, other.len() - from)];
                input.splice(at.min(input.len())..at.min(input.len()), piece.iter().copied());
                input.truncate(LENGTH_MAX);
            }
        }
    }
}

/// Tries one input; one that fails is kept as a file, for the corpus.
fn attempt(target: &Target, input: &[u8], what: &str) {
    if catch_unwind(|| (target.survives)(input)).is_err() {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{what}", target.name));
        fs::write(&kept, input).unwrap();
        panic!("{} fails on {what}, kept as {}", target.name, kept.display());
    }
}

fn smoke(name: &str) {
    let at = TARGETS.iter().position(|target| target.name == name).unwrap();
    let target = &TARGETS[at];
    let corpus: Vec<(PathBuf, Vec<u8>)> = files(&fuzz().join("corpus").join(name))
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for (path, input) in &corpus {
        attempt(target, input, &path.file_name().unwrap().to_string_lossy());
    }
    for round in 0..target.rounds {
        let mut pcg = Pcg::for_job(1907, at as u64, round);
        let mut input = corpus[place(&mut pcg, corpus.len())].1.clone();
        let other = &corpus[place(&mut pcg, corpus.len())].1;
        change(&mut pcg, &mut input, other);
        attempt(target, &input, &format!("round-{round}"));
    }
}

#[test]
fn every_target_is_tried_here() {
    let on_disk: Vec<String> = files(&fuzz().join("fuzz_targets"))
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("trace_"))
        .collect();
    assert_eq!(on_disk, TARGETS.map(|target| target.name));
}

#[test]
fn trace_dat_survives() {
    smoke("trace_dat");
}

#[test]
fn trace_pages_survives() {
    smoke("trace_pages");
}

#[test]
fn trace_perf_survives() {
    smoke("trace_perf");
}

#[test]
fn trace_perfetto_survives() {
    smoke("trace_perfetto");
}

#[test]
fn trace_text_survives() {
    smoke("trace_text");
}
