//! Every command line that is documented anywhere is one this program takes.

use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::Arguments;

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files below a directory that end so.
fn files(below: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// What people read: pages, headers of examples, the Makefile; and, with the help texts and messages in it, the code.
fn documentation() -> Vec<(PathBuf, String)> {
    let root = root();
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"]
            .map(|f| root.join(f))
            .to_vec();
    paths.extend(files(&root.join("docs"), ".md"));
    paths.extend(files(&root.join("examples"), ".toml"));
    paths.extend(
        files(&root.join("crates"), ".rs")
            .into_iter()
            .filter(|p| !p.ends_with("args/tests.rs") && p.components().any(|c| c.as_os_str() == "src")),
    );
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The words after a prompt, in a comment, or in a recipe of the Makefile, where the line is a command of this program.
fn command_of(line: &str, is_page: bool) -> Option<&str> {
    let line = line.trim_start();
    let asked =
        line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")).or_else(|| line.strip_prefix("#   "));
    let line = match asked {
        Some(rest) => rest.trim_start(),
        // Without a prompt, prose may begin with the program's name.
        None if is_page && !line.starts_with("sudo ") => return None,
        None => line,
    };
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    line.starts_with("surety ").then_some(line)
}

/// Commands that stand on a line of their own.
fn lines(path: &Path, text: &str) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy();
    if name == "Makefile" {
        let pieces = text.lines().flat_map(|line| line.split("./target/release/").skip(1));
        return pieces.filter(|piece| piece.starts_with("surety ")).map(str::to_owned).collect();
    }
    let is_page = name.ends_with(".md");
    if !is_page && !name.ends_with(".toml") {
        return Vec::new();
    }
    text.lines().filter_map(|line| command_of(line, is_page)).map(str::to_owned).collect()
}

/// Commands that stand between backquotes, perhaps over the end of a line.
fn mentions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("`surety ") {
        if !text[at + 8..].starts_with(|first: char| first.is_ascii_lowercase()) {
            continue;
        }
        let Some((inside, _)) = text[at + 1..].split_once('`') else { continue };
        let is_broken = |line: &&str| !["", "///", "//!", "//", "#"].contains(line);
        let words = inside.split('\n').map(|line| line.trim().trim_end_matches('\\'));
        let words = words
            .map(|line| line.trim_start_matches("/// ").trim_start_matches("//! ").trim_start_matches("# "));
        found.push(words.filter(is_broken).collect::<Vec<_>>().join(" "));
    }
    found
}

/// A command in which what a shell puts in, such as a process id, is a number.
fn substituted(command: &str) -> String {
    let mut out = command.replace("$!", "1");
    while let Some((before, rest)) = out.split_once("$(")
        && let Some((_, behind)) = rest.split_once(')')
    {
        out = format!("{before}1{behind}");
    }
    out
}

/// The words of a command without what is the shell's, with values in the place of words that stand for one.
fn words(command: &str) -> Vec<String> {
    let command = substituted(command.trim_end_matches('\\'));
    let words = surety_host::split_command(&command).unwrap_or_else(|e| panic!("{e}"));
    let words =
        words.into_iter().take_while(|word| !["|", ">", ">>", "&&", "||", ";"].contains(&word.as_str()));
    let value = |word: &str| {
        let bare = word.trim_start_matches('[').trim_end_matches(']').trim_end_matches("...");
        let is_number = bare == "N" || (bare.starts_with('{') && bare.ends_with('}'));
        match bare {
            "TIME" | "PERIOD" => "1ms".to_owned(),
            "PERCENT" | "{percent}%" => "10%".to_owned(),
            "VERB" => "run".to_owned(),
            _ if is_number => "1".to_owned(),
            bare => bare.to_owned(),
        }
    };
    words.map(|word| value(word.trim_end_matches(';'))).collect()
}

#[test]
fn every_documented_command_line_parses() {
    let (mut commands, mut wrong) = (0, Vec::new());
    for (path, text) in documentation() {
        for command in lines(&path, &text) {
            commands += 1;
            let words = words(&command);
            if let Err(error) = Arguments::try_parse_from(&words) {
                wrong.push(format!("{}: {command}: {error}", path.display()));
            }
            for example in words.iter().filter(|word| word.starts_with("examples/")) {
                assert!(root().join(example).exists(), "{} names {example}", path.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands >= 100, "{commands}");
}

/// What is wrong with a mention beside that it is no whole command.
fn mistake_in_mention(command: &str) -> Option<clap::Error> {
    let error = Arguments::try_parse_from(words(command)).err()?;
    let is_unfinished = match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        // An option without its value.
        ErrorKind::InvalidValue => error
            .get(ContextKind::InvalidValue)
            .is_some_and(|value| matches!(value, ContextValue::String(value) if value.is_empty())),
        _ => false,
    };
    (!is_unfinished).then_some(error)
}

/// What stands between backquotes may leave out what a command needs, but names no verb and no option that there is not.
#[test]
fn every_mentioned_verb_and_option_exists() {
    let (mut commands, mut wrong) = (0, Vec::new());
    for (path, text) in documentation() {
        for command in mentions(&text) {
            commands += 1;
            if let Some(error) = mistake_in_mention(&command) {
                wrong.push(format!("{}: {command}: {error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands >= 150, "{commands}");
}

#[test]
fn a_wrong_line_is_seen() {
    let page =
        "Text.\n\n$ sudo surety run w.toml --on sim | less\nsurety is a program\n    # surety rum w.toml\n";
    let found = lines(Path::new("a.md"), page);
    assert_eq!(found, ["surety run w.toml --on sim | less", "surety rum w.toml"]);
    assert!(Arguments::try_parse_from(words(&found[0])).is_ok());
    assert!(Arguments::try_parse_from(words(&found[1])).is_err());
    let wrapped = mentions("/// see `surety trace\n/// record --keep TIME` and `surety plan`");
    assert_eq!(wrapped, ["surety trace record --keep TIME", "surety plan"]);
    for unfinished in ["surety trace record --keep TIME", "surety plan", "surety run --ab", "surety trace"] {
        assert!(mistake_in_mention(unfinished).is_none(), "{unfinished}");
    }
    for wrong in ["surety trace recrod", "surety plan --chekc", "surety run w --repeat some"] {
        assert!(mistake_in_mention(wrong).is_some(), "{wrong}");
    }
}
