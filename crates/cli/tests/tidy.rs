//! The repository checks itself: what ARCHITECTURE.md calls an invariant and the compiler does not keep.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use surety_model::formats::toml;

#[path = "tidy/circles.rs"]
mod circles;

/// Crates by floor; the house of ARCHITECTURE.md.
const FLOORS: &[&[&str]] = &[
    &["units", "stats"],
    &["model", "kernel", "block"],
    &["trace", "import", "enforce", "device", "stream"],
    &["analysis", "sim", "host", "lab", "fit", "compare"],
    &["plan", "reproduce", "report", "emudisk", "playout"],
    &["session"],
    &["cli", "capi"],
];

/// Crates without system calls, clocks, threads, files.
const PURE: &[&str] = &[
    "units",
    "stats",
    "device",
    "block",
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
fn unsafe_code_is_in_the_kernel_crate_and_at_the_border_to_c() {
    let capi = root().join("crates/capi/src");
    assert!(text(&capi.join("lib.rs")).contains("#![deny(unsafe_code)]"));
    for path in sources("capi").iter().filter(|path| **path != capi.join("border.rs")) {
        let code = code(path).replace("unsafe_code", "").replace("unsafe_blocks", "");
        assert!(!code.contains("unsafe"), "{}: unsafe code belongs into border.rs", path.display());
    }
    for name in crates().iter().filter(|n| !["kernel", "capi"].contains(&n.as_str())) {
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
    for name in ["units", "stats", "model", "device", "block", "sim"] {
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
    for world in ["analysis", "sim", "host", "lab"] {
        for path in sources(world) {
            for other in ["analysis", "sim", "host", "lab"].iter().filter(|o| **o != world) {
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
        let is_script = text.starts_with("#!") && text.lines().nth(1).unwrap().starts_with("# ");
        assert!(is_script || text.starts_with("// "), "{}", path.display());
    }
}

/// Public items of a source file without a doc comment. Fields and variants need one only where name and type do not say it all.
fn undocumented(code: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().collect();
    let (mut found, mut in_trait) = (Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        let is_public = words.starts_with("pub ");
        let words = words.strip_prefix("pub ").unwrap_or(words);
        let words = ["const ", "async ", "unsafe ", "extern \"C\" "].iter().fold(words, |words, before| {
            words.strip_prefix(before).filter(|w| w.starts_with(char::is_lowercase)).unwrap_or(words)
        });
        in_trait = (in_trait || is_public && words.starts_with("trait ")) && *line != "}";
        let kind = words.split(' ').next().unwrap_or_default();
        let is_item = ["fn", "struct", "enum", "trait", "type", "static", "union", "const"].contains(&kind)
            || words.split(':').next().is_some_and(|name| {
                !name.is_empty() && name.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '_')
            });
        let is_needed = is_item && (is_public || in_trait && line.starts_with("    fn "));
        let above = lines[..at].iter().rev().find(|line| {
            let line = line.trim_start();
            !(line.starts_with("#[")
                || line.starts_with(")]")
                || line.starts_with("//") && !line.starts_with("///"))
        });
        if is_needed && !above.is_some_and(|line| line.trim_start().starts_with("///")) {
            found.push((*line).to_owned());
        }
    }
    found
}

#[test]
fn public_items_say_what_they_are() {
    let mut found = Vec::new();
    // The program has no public items; what stands above its arguments is their help.
    for path in crates()
        .iter()
        .filter(|of| *of != "cli")
        .flat_map(|of| sources(of))
        .filter(|path| !is_test_file(path))
    {
        let body = text(&path);
        let code = body.split("#[cfg(test)]\nmod tests {").next().unwrap();
        found.extend(undocumented(code).iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(found.is_empty(), "without a doc comment: {found:#?}");
    let bare = "pub struct A {\n    pub b: u8,\n}\n/// Said.\npub const C: u8 = 1;\n/// Said.\npub trait D {\n    fn e();\n}\n";
    assert_eq!(undocumented(bare), ["pub struct A {", "    fn e();"]);
    assert_eq!(undocumented("#[must_use]\npub const fn f() {}\npub const G: u8 = 1;\n").len(), 2);
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

/// The longest function that needs no reason.
const FUNCTION_LINES: usize = 70;

/// Longer functions: the file, the name, and why it is not taken apart.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "analysis/src/fair_server.rs",
        "argument_of",
        "a table: one theorem after the other, each with its conditions and its words",
    ),
    (
        "analysis/src/response.rs",
        "within",
        "one fixed point whose terms are the formula's, in the formula's order",
    ),
    ("cli/src/apply.rs", "apply", "the order in which a plan takes force and is taken back"),
    ("fit/src/lib.rs", "fit_thread", "one decision with its cases, in the order in which they are tried"),
    (
        "fit/src/trace/grouping.rs",
        "add_group",
        "one decision with its cases, in the order in which they are tried",
    ),
    ("import/src/oslat.rs", "read", "one format, read from its first line to its last"),
    ("import/src/rtla.rs", "read", "one format, read from its first line to its last"),
    ("kernel/src/error.rs", "remedy", "a table: one sentence for each operation and errno"),
    (
        "plan/src/check.rs",
        "requests",
        "one case for each way in which requests come, with the bound that holds for it",
    ),
    ("plan/src/check/altered.rs", "limits", "a table: one claim after the other, each with its limit"),
    ("plan/src/check/simulated.rs", "simulate", "one simulation whose events share its state"),
    ("plan/src/proofs.rs", "of_task", "a table: one step of the proof after the other"),
    ("plan/src/response.rs", "from_fit", "one search whose steps share its candidates"),
    ("plan/src/response.rs", "size", "one search whose steps share its candidates"),
    ("plan/src/tested/fixed_priority.rs", "tested", "a table: one test after the other"),
    (
        "reproduce/src/experiments/player_network/kernels.rs",
        "sheet",
        "a table: one row of the published experiment after the other",
    ),
    ("trace/src/decode/printf.rs", "directive", "one state machine, a case for each directive of printf"),
    ("trace/src/jobs.rs", "switch", "one state machine, a case for each state of a thread"),
    ("trace/src/jobs.rs", "take", "one state machine, a case for each kind of event"),
    ("trace/src/read/tracedat/v7.rs", "read", "one format, read from its first byte to its last"),
    ("trace/src/write/fields.rs", "each", "a table: one kind of event after the other"),
    ("trace/src/write/lines.rs", "words", "a table: one kind of event after the other"),
    ("trace/src/write/perfetto/event.rs", "body", "a table: one kind of event after the other"),
    ("trace/src/write/tracedat/v7.rs", "write", "one format, written from its first byte to its last"),
    ("trace/src/write/tracedat_events/formats.rs", "fill", "a table: one kind of event after the other"),
];

#[test]
fn modules_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    for of in crates() {
        let root = root().join("crates").join(&of).join("src");
        let paths = sources(&of).into_iter().filter(|path| path.starts_with(&root) && !is_test_file(path));
        let files: Vec<(PathBuf, String)> = paths
            .map(|path| {
                let code = text(&path).split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
                (path, code)
            })
            .collect();
        found.extend(circles::circles(&root, &files).into_iter().map(|circle| format!("{of}: {circle}")));
    }
    assert!(found.is_empty(), "move what both need into a module of its own:\n{}", found.join("\n"));
}

/// Names of the functions of a source file with their lines, from the signature to the closing brace.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim_start().strip_prefix("pub ").unwrap_or(line.trim_start());
        let words = words.strip_prefix("pub(crate) ").or(words.strip_prefix("pub(super) ")).unwrap_or(words);
        let words = words.strip_prefix("const ").or(words.strip_prefix("unsafe ")).unwrap_or(words);
        let Some(rest) = words.strip_prefix("fn ") else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // What ends on its own line, or has no body, is short.
        let is_end = |end: &str| indent(end) == indent(line) && (end.trim() == "}" || end.ends_with(';'));
        let length = lines[at + 1..].iter().position(|end| is_end(end)).map_or(1, |length| length + 2);
        if !line.ends_with(['}', ';']) {
            found.push((name, length));
        }
    }
    found
}

#[test]
fn functions_stay_readable() {
    let mut reasons: Vec<(&str, &str)> = LONG_FUNCTIONS.iter().map(|(of, name, _)| (*of, *name)).collect();
    let mut long = Vec::new();
    for path in crates().iter().flat_map(|of| sources(of)).filter(|path| !is_test_file(path)) {
        let body = text(&path);
        let code = body.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let of = path.strip_prefix(root().join("crates")).unwrap().to_str().unwrap();
        for (name, lines) in functions(code).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES) {
            match reasons.iter().position(|reason| *reason == (of, name.as_str())) {
                // A reason is of one function.
                Some(known) => drop(reasons.remove(known)),
                None => long.push(format!("{of}: {name} has {lines} lines")),
            }
        }
    }
    assert!(long.is_empty(), "take apart, or say in LONG_FUNCTIONS why not:\n{}", long.join("\n"));
    assert!(reasons.is_empty(), "short by now, their reasons can go: {reasons:?}");
}

#[test]
fn long_functions_are_seen() {
    let body = "    step();\n".repeat(80);
    let code = format!(
        "pub(crate) fn long(\n    x: u8,\n) {{\n{body}}}\n\nfn short() {{}}\n\ntrait T {{\n    fn none();\n}}\n"
    );
    assert_eq!(functions(&code), [("long".to_owned(), 84)]);
}

/// A file that no `mod` names is not compiled, and nothing says so.
#[test]
fn every_file_is_a_module() {
    let mut unnamed = Vec::new();
    for path in crates().iter().flat_map(|name| files(&root().join("crates").join(name), &[".rs"])) {
        let inside = path.strip_prefix(root().join("crates")).unwrap();
        // The roots: of a library, a program, a test, a bench.
        let depth = inside.components().count();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "build" && depth == 2 {
            continue;
        }
        if depth == 3
            && (!inside.components().any(|c| c.as_os_str() == "src")
                || ["lib", "main"].contains(&name.as_str()))
        {
            continue;
        }
        if name == "main" {
            continue;
        }
        let directory = path.parent().unwrap();
        let (name, directory) = match name.as_str() {
            "mod" => {
                (directory.file_name().unwrap().to_string_lossy().into_owned(), directory.parent().unwrap())
            }
            _ => (name, directory),
        };
        let beside = ["mod.rs", "lib.rs", "main.rs"].map(|parent| directory.join(parent)).to_vec();
        let tests = if directory.ends_with("tests") { files(directory, &[".rs"]) } else { Vec::new() };
        let parents = beside.into_iter().chain([directory.with_extension("rs")]).chain(tests);
        let is_named = parents.filter(|parent| parent.exists()).any(|parent| {
            let wanted = format!("mod {name};");
            text(&parent).lines().any(|line| line.trim_start().trim_start_matches("pub").ends_with(&wanted))
        });
        if !is_named {
            unnamed.push(inside.to_owned());
        }
    }
    assert!(unnamed.is_empty(), "no `mod` names {unnamed:?}");
}

/// A recipe names files, and things that are in the crates of these files.
#[test]
fn recipes_name_what_there_is() {
    let contributing = text(&root().join("CONTRIBUTING.md"));
    let recipes = contributing.split("## Recipes").nth(1).expect("CONTRIBUTING.md has recipes");
    let (mut checked, mut missing) = (0, Vec::new());
    for recipe in recipes.split("\n\n").filter(|recipe| recipe.starts_with("**")) {
        let title = recipe.lines().next().unwrap();
        let words: Vec<&str> =
            recipe.split('`').skip(1).step_by(2).filter(|word| !word.contains(' ')).collect();
        let is_path = |word: &&str| word.contains('/') || word.ends_with(".rs");
        let of_path = |word: &str| Some(word.strip_prefix("crates/")?.split('/').next()?.to_owned());
        let mut named: BTreeSet<String> = words.iter().filter_map(|word| of_path(word)).collect();
        named.extend(words.iter().filter_map(|word| Some(word.split_once("::")?.0.to_owned())));
        let sources: Vec<PathBuf> =
            named.iter().flat_map(|name| files(&root().join("crates").join(name), &[".rs"])).collect();
        let code: String = sources.iter().map(|path| text(path)).collect();
        for word in words {
            checked += 1;
            let place = word.split('#').next().unwrap();
            // Capitals in the place of a name are the reader's to fill in.
            let is_placeholder = is_path(&word) && place.rsplit('/').next().unwrap().starts_with("NAME");
            let exists = match is_path(&word) {
                true => root().join(place).exists() || sources.iter().any(|path| path.ends_with(place)),
                false => code.contains(word.rsplit("::").next().unwrap()),
            };
            if !exists && !is_placeholder {
                missing.push(format!("{title}: there is no {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked >= 20, "{checked}");
}

/// Pages name files of this repository that there are.
#[test]
fn pages_name_files_that_there_are() {
    let mut missing = Vec::new();
    for page in files(&root(), &[".md"]).into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = text(&page);
        let words =
            text.split(['`', '(', ')', ' ', ',', '\n']).map(|word| word.trim_end_matches([':', '.', ';']));
        for word in words.filter(|word| word.starts_with("crates/") || word.starts_with("docs/")) {
            let is_pattern = word.contains(['*', '{', '<']) || word.contains("NAME");
            if !is_pattern && !root().join(word.split('#').next().unwrap()).exists() {
                missing.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn file_lengths_stay_readable() {
    let mut long: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for name in crates() {
        for path in sources(&name).into_iter().filter(|p| !is_test_file(p)) {
            let body = text(&path);
            let lines = body.split("#[cfg(test)]\nmod ").next().unwrap().lines().count();
            if lines > 640 {
                long.insert(path, lines);
            }
        }
    }
    assert!(long.is_empty(), "look for the seam: {long:?}");
}
