//! The book under `docs/`: its index names every page, links lead somewhere, and samples print what the page shows.
//!
//! A fence whose words are `console tested` holds commands behind `$ ` (its further lines behind `> `) and what each prints, on both
//! outputs; a line `...` stands for any lines. `sh tested` is run as a script and must succeed. The fences of a page run in
//! their order, in a directory of the page's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Markdown file of the repository, below `below`.
fn pages(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git"].contains(&name.as_str()) {
                found.extend(pages(&path));
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A fenced block: the words behind the fence, its lines, and the line of the page it begins at.
struct Fence {
    words: String,
    lines: Vec<String>,
    at: usize,
}

/// The fences of a page, and its text without them.
fn divide(page: &str) -> (Vec<Fence>, Vec<&str>) {
    let (mut fences, mut prose): (Vec<Fence>, Vec<&str>) = (Vec::new(), Vec::new());
    // By how many blanks the open fence is set in; its lines are, too.
    let mut open: Option<usize> = None;
    for (number, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(_), Some(_)) => open = None,
            (Some(words), None) => {
                open = Some(indent);
                fences.push(Fence { words: words.trim().to_owned(), lines: Vec::new(), at: number + 1 });
            }
            (None, Some(by)) => {
                fences.last_mut().unwrap().lines.push(line.get(by.min(indent)..).unwrap().to_owned());
            }
            (None, None) => prose.push(line),
        }
    }
    assert!(open.is_none(), "a fence is not closed: line {}", fences.last().unwrap().at);
    (fences, prose)
}

/// What a heading can be linked by: its letters, digits, `_` and `-` in lower case, blanks as `-`.
fn anchor(heading: &str) -> String {
    let shown = links(heading).into_iter().fold(heading.to_owned(), |heading, target| {
        heading.replace(&format!("]({target})"), "").replace('[', "")
    });
    shown
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Anchors of a page; those of equal headings are numbered.
fn anchors(page: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (_, prose) = divide(page);
    let headings = prose.into_iter().filter(|line| line.starts_with('#') && line.contains("# "));
    headings
        .map(|line| {
            let name = anchor(line.trim_start_matches('#'));
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// Targets of the inline links of some text; what stands in backticks is no link.
fn links(text: &str) -> Vec<String> {
    let plain: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let rests = plain.split("](").skip(1);
    rests.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned())).collect()
}

/// What is wrong with the links of a page.
fn broken_links(page: &Path) -> Vec<String> {
    let content = text(page);
    let (_, prose) = divide(&content);
    let mut broken = Vec::new();
    for target in links(&prose.join("\n")) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
        let is_there = path.exists()
            && (heading.is_empty() || path.is_dir() || anchors(&text(&path)).iter().any(|a| a == heading));
        if !is_there {
            broken.push(format!("{}: {target}", page.display()));
        }
    }
    broken
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = pages(&root());
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "no such file or heading:\n{}", broken.join("\n"));
    let linked: usize = pages.iter().map(|page| links(&text(page)).len()).sum();
    assert!(linked > 200, "{linked} links seen");
}

#[test]
fn broken_links_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("a.md");
    let lines = "# A `b` of [c](a.md)\n[good](#a-b-of-c) [file](a.md) [bad](#a)\n`[x](none)`\n```\n[y](none)\n```\n[z](b.md)\n";
    std::fs::write(&page, lines).unwrap();
    let broken = broken_links(&page);
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].ends_with(": #a") && broken[1].ends_with(": b.md"), "{broken:?}");
}

/// `docs/SUMMARY.md` in the form that mdBook reads, with every page once.
#[test]
fn the_index_names_every_page_once() {
    let docs = root().join("docs");
    let index = text(&docs.join("SUMMARY.md"));
    for line in index.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let item = line.trim_start();
        let is_link = item.strip_prefix("- ").unwrap_or(item).starts_with('[') && item.ends_with(')');
        assert!(is_link, "mdBook takes headings and links here: {line}");
    }
    let named = links(&index);
    for page in pages(&docs).into_iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let name = page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
        let times = named.iter().filter(|target| **target == name).count();
        assert_eq!(times, 1, "docs/SUMMARY.md names {name} {times} times");
    }
    assert!(text(&root().join("book.toml")).contains("src = \"docs\""));
}

/// Each verb that `surety --help` lists has its row in `docs/commands.md`.
#[test]
fn the_page_of_commands_names_every_verb() {
    let help = Desk::new().run("surety --help");
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // What goes on from the line above stands further right.
    let lines = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    let page = text(&root().join("docs/commands.md"));
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let is_named = page.contains(&format!("`{verb}`")) || page.contains(&format!("| `{verb} "));
        assert!(is_named, "docs/commands.md has no row for `surety {verb}`");
    }
}

/// Commands of a fence, each with what it is said to print.
fn commands(fence: &Fence) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let mut continues = false;
    for line in &fence.lines {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), Vec::new()));
        } else if let Some(more) = line.strip_prefix("> ").filter(|_| continues) {
            let command = &mut commands.last_mut().unwrap().0;
            command.push('\n');
            command.push_str(more);
        } else {
            let (_, shown) = commands.last_mut().expect("a fence begins with a command");
            shown.push(line.trim_end().to_owned());
            continues = false;
            continue;
        }
        continues = true;
    }
    commands
}

/// Whether lines are as shown; `...` stands for any number of lines.
fn is_as_shown(lines: &[&str], shown: &[String]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=lines.len()).any(|skipped| is_as_shown(&lines[skipped..], rest))
        }
        Some((first, rest)) => lines.first() == Some(&first.as_str()) && is_as_shown(&lines[1..], rest),
    }
}

#[test]
fn what_is_left_out_is_marked() {
    let shown = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(is_as_shown(&["a", "b", "c"], &shown(&["a", "...", "c"])));
    assert!(is_as_shown(&["a", "c"], &shown(&["a", "...", "c"])));
    assert!(is_as_shown(&["a", "b"], &shown(&["..."])));
    assert!(!is_as_shown(&["a", "b", "c"], &shown(&["a", "c"])));
    assert!(!is_as_shown(&["a", "b", "c"], &shown(&["...", "b"])));
    assert!(!is_as_shown(&["a"], &shown(&["a", "b"])));
}

/// A page's directory: the examples are there, and a program `surety` that is the one under test.
struct Desk {
    directory: tempfile::TempDir,
    /// Exit code of the last command.
    last: i32,
}

impl Desk {
    fn new() -> Desk {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root().join("examples"), directory.path().join("examples")).unwrap();
        Desk { directory, last: 0 }
    }

    /// Runs a script as typed behind the last one; what it printed.
    fn run(&mut self, script: &str) -> String {
        let programs = Path::new(env!("CARGO_BIN_EXE_surety")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n(exit {})\n{script}", self.last)])
            .current_dir(self.directory.path())
            .env("PATH", path)
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        self.last = output.status.code().unwrap_or(-1);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Runs the tested fences of a page; how many commands there were, and what was not as shown.
fn follow(page: &Path) -> (usize, Vec<String>) {
    let content = text(page);
    let (fences, _) = divide(&content);
    let (mut count, mut wrong, mut desk) = (0, Vec::new(), Desk::new());
    for fence in fences {
        let place = format!("{}:{}", page.display(), fence.at);
        if fence.words == "sh tested" {
            count += 1;
            let printed = desk.run(&fence.lines.join("\n"));
            if desk.last != 0 {
                wrong.push(format!("{place}: exit code {}\n{printed}", desk.last));
            }
        } else if fence.words == "console tested" {
            for (command, shown) in commands(&fence) {
                count += 1;
                let printed = desk.run(&command);
                let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
                if !is_as_shown(&lines, &shown) {
                    wrong.push(format!("{place}: $ {command}\n{printed}"));
                }
            }
        } else {
            assert!(!fence.words.contains("tested"), "{place}: `{}` is not run", fence.words);
        }
    }
    (count, wrong)
}

#[test]
fn samples_print_what_the_pages_show() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages(&root().join("docs")) {
        let (commands, failures) = follow(&page);
        count += commands;
        wrong.extend(failures);
    }
    assert!(wrong.is_empty(), "not as shown; it printed:\n\n{}", wrong.join("\n"));
    assert!(count >= 20, "{count} commands were run");
}

#[test]
fn samples_that_print_something_else_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("a.md");
    let tried = "```sh tested\necho 1 > one\n```\n```console tested\n$ cat one\n1\n$ false\n$ echo $?\n1\n$ echo \\\n> a; echo b >&2\na\nb\n```\n";
    std::fs::write(&page, tried).unwrap();
    assert_eq!(follow(&page), (5, Vec::new()));
    std::fs::write(&page, tried.replace("$ cat one\n1\n", "$ cat one\n2\n").replace("echo 1", "false"))
        .unwrap();
    let (_, wrong) = follow(&page);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}
