//! The repository checks itself: what ARCHITECTURE.md calls an invariant and the compiler does not keep.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use surety_model::formats::toml;

/// Crates by floor; the house of ARCHITECTURE.md.
const FLOORS: &[&[&str]] = &[
    &["units", "stats"],
    &["model", "kernel"],
    &["trace", "import", "enforce"],
    &["analysis", "sim", "probe", "lab", "fit", "compare", "report"],
    &["plan", "reproduce"],
    &["session"],
    &["cli"],
];

/// Crates without system calls, clocks, threads, files.
const PURE: &[&str] = &[
    "units",
    "stats",
    "model",
    "trace",
    "import",
    "analysis",
    "sim",
    "fit",
    "compare",
    "plan",
    "report",
    "reproduce",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn floor_of(name: &str) -> usize {
    FLOORS.iter().position(|f| f.contains(&name)).unwrap_or_else(|| panic!("crate {name} has no floor"))
}

/// Files below a directory with one of these endings, in order.
fn files(below: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(below) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                found.extend(files(&path, endings));
            }
        } else if endings.iter().any(|e| name.ends_with(e)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A source file without its tests and comments.
fn code(path: &Path) -> String {
    let text = text(path);
    let body = text.split("#[cfg(test)]\nmod ").next().unwrap();
    body.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn crates() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn sources(name: &str) -> Vec<PathBuf> {
    files(&root().join("crates").join(name).join("src"), &[".rs"])
}

/// Whether a file holds nothing but tests.
fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name == "tests.rs" || name == "testing.rs" || path.components().any(|c| c.as_os_str() == "tests")
}

#[test]
fn kinds_of_load_are_told_apart_by_their_rows() {
    for path in crates().iter().flat_map(|name| sources(name)) {
        if is_test_file(&path) || path.ends_with("model/src/workload/load.rs") {
            continue;
        }
        let code = code(&path);
        for (at, word) in code.match_indices("LoadKind::") {
            let (before, after) = (code[..at].trim_end(), &code[at + word.len()..]);
            let after = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim_start();
            let is_compared = ["==", "!="].iter().any(|sign| before.ends_with(sign))
                || ["==", "!=", "=>", "|"].iter().any(|sign| after.starts_with(sign));
            assert!(!is_compared, "{}: ask LoadKind::row instead of comparing kinds", path.display());
        }
    }
}

#[test]
fn dependencies_point_down_and_no_crate_is_empty() {
    for name in crates() {
        let floor = floor_of(&name);
        let manifest = text(&root().join("crates").join(&name).join("Cargo.toml"));
        let ordinary = manifest.split("[dev-dependencies]").next().unwrap();
        for line in ordinary.lines() {
            let Some(used) = line.strip_prefix("surety-").and_then(|l| l.split(['.', ' ', '=']).next())
            else {
                continue;
            };
            assert!(
                floor_of(used) < floor,
                "{name} (floor {}) uses {used} (floor {})",
                floor + 1,
                floor_of(used) + 1
            );
        }
        let lines: usize = sources(&name).iter().map(|p| text(p).lines().count()).sum();
        assert!(lines > 50, "{name} is empty");
    }
}

#[test]
fn unsafe_code_is_in_the_kernel_crate_only() {
    for name in crates().iter().filter(|n| *n != "kernel") {
        let entry = ["lib.rs", "main.rs"].map(|f| root().join("crates").join(name).join("src").join(f));
        for path in entry.iter().filter(|p| p.exists()) {
            assert!(
                text(path).contains("#![forbid(unsafe_code)]"),
                "{} does not forbid unsafe code",
                path.display()
            );
        }
    }
}

#[test]
fn pure_crates_touch_nothing() {
    let forbidden = [
        "std::fs",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "std::time::",
        "Instant::now",
        "SystemTime",
        "libc::",
        "tempfile::",
        "thread_rng",
        "HashMap<",
        "HashSet<",
    ];
    for name in PURE {
        for path in sources(name).iter().filter(|p| !is_test_file(p)) {
            let code = code(path);
            for word in forbidden {
                // Order-free maps are a matter of determinism, and trace only looks up in them.
                let lookup_only = word.starts_with("Hash") && *name == "trace";
                assert!(lookup_only || !code.contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

#[test]
fn decisions_of_the_simulator_use_no_platform_mathematics() {
    let forbidden = [".ln()", ".exp()", ".powf(", ".powi(", ".sin()", ".cos()", ".log2()", ".log10()"];
    for name in ["units", "stats", "model", "sim"] {
        for path in sources(name).iter().filter(|p| !is_test_file(p)) {
            let code = code(path);
            for word in forbidden {
                assert!(!code.contains(word), "{} uses the platform's {word}", path.display());
            }
        }
    }
}

#[test]
fn nothing_below_the_program_prints() {
    for name in crates().iter().filter(|n| *n != "cli") {
        for path in sources(name).iter().filter(|p| !is_test_file(p)) {
            let code = code(path);
            for word in ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!("] {
                assert!(!code.contains(word), "{} prints with {word}", path.display());
            }
        }
    }
}

/// The macros panic when nobody reads; `Session::print` and `Session::note` do not.
#[test]
fn the_program_prints_through_its_session() {
    for path in sources("cli") {
        let code = code(&path);
        for word in ["print!(", "println!("] {
            assert!(!code.contains(word), "{} prints with {word}", path.display());
        }
    }
}

#[test]
fn the_program_makes_files_in_one_place() {
    for path in sources("cli").into_iter().filter(|path| !path.ends_with("files.rs") && !is_test_file(path)) {
        let code = code(&path);
        for call in ["fs::write(", "fs::read(", "fs::read_to_string(", " File::create("] {
            let code = code.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains(call), "{}: {call}: use `files`", path.display());
        }
    }
}

#[test]
fn no_world_knows_another() {
    for world in ["analysis", "sim", "probe", "lab"] {
        for path in sources(world) {
            for other in ["analysis", "sim", "probe", "lab"].iter().filter(|o| **o != world) {
                assert!(
                    !text(&path).contains(&format!("surety_{other}")),
                    "{} knows {other}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_file_says_what_it_is_about() {
    for path in files(&root(), &[".rs"]) {
        assert!(text(&path).starts_with("//!"), "{} has no header", path.display());
    }
    for path in files(&root().join("tools"), &[""]) {
        let text = text(&path);
        assert!(
            text.starts_with("#!") && text.lines().nth(1).unwrap().starts_with("# "),
            "{}",
            path.display()
        );
    }
}

#[test]
fn nothing_is_left_unfinished() {
    // Spelled in pieces, so that this file does not hold them.
    let words: Vec<String> =
        [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("unimpl", "emented!"), ("to", "do!(")]
            .map(|(a, b)| format!("{a}{b}"))
            .to_vec();
    for path in files(&root(), &[".rs", ".md", ".toml", ".sh"]) {
        let text = text(&path);
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} holds {word}", path.display());
        }
    }
}

#[test]
fn every_example_is_read_and_mentioned() {
    let mentions: String = files(&root(), &[".md"]).iter().map(|p| text(p)).collect::<String>()
        + &text(&root().join("Makefile"));
    let examples = files(&root().join("examples"), &[".toml"]);
    assert!(!examples.is_empty());
    for path in examples {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = text(&path);
        toml::read(&name, &text).unwrap_or_else(|e| panic!("{e}"));
        assert!(text.starts_with('#'), "{name} does not say what it is about");
        assert!(mentions.contains(&name), "{name} is mentioned nowhere");
    }
}

#[test]
fn the_code_map_names_every_crate() {
    let architecture = text(&root().join("ARCHITECTURE.md"));
    for name in crates() {
        assert!(architecture.contains(&format!("| `{name}` |")), "ARCHITECTURE.md does not name {name}");
    }
    let floors: BTreeSet<&str> = FLOORS.iter().flat_map(|f| f.iter().copied()).collect();
    assert_eq!(floors.len(), crates().len());
}

#[test]
fn file_lengths_stay_readable() {
    let mut long: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for name in crates() {
        for path in sources(&name).into_iter().filter(|p| !is_test_file(p)) {
            let body = text(&path);
            let lines = body.split("#[cfg(test)]\nmod ").next().unwrap().lines().count();
            if lines > 700 {
                long.insert(path, lines);
            }
        }
    }
    assert!(long.is_empty(), "look for the seam: {long:?}");
}
