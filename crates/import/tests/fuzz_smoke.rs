//! The fuzz target `import` without a fuzzer: its corpus, the examples, and cut and flipped ones of both.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::fs;
use std::path::Path;

use surety_stats::Pcg;

#[path = "../../../fuzz/bodies/import.rs"]
mod import;

/// Changes tried of each input.
const ROUNDS: u64 = 60;

#[test]
fn any_bytes_are_survived() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for directory in [here.join("../../fuzz/corpus/import"), here.join("tests/data")] {
        let inputs: Vec<_> = fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(inputs.len() >= 10, "{} has few inputs", directory.display());
        for path in inputs {
            let whole = fs::read(&path).unwrap();
            import::survives(&whole);
            for round in 0..ROUNDS {
                let mut pcg = Pcg::for_job(1907, whole.len() as u64, round);
                let mut input = whole.clone();
                for _ in 0..=pcg.below(4) {
                    let at = pcg.below(input.len().max(1) as u64) as usize;
                    match pcg.below(3) {
                        0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << pcg.below(8)),
                        1 => input.truncate(at),
                        _ => input.extend_from_within(at.min(input.len())..),
                    }
                }
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("import-last");
                let failed = std::panic::catch_unwind(|| import::survives(&input)).is_err();
                if failed {
                    fs::write(&kept, &input).unwrap();
                    panic!("{} changed (round {round}) fails, kept as {}", path.display(), kept.display());
                }
            }
        }
    }
}
