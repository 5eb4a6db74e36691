//! `make install` and `make uninstall`, with the program that the tests are built with.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{errors, program, root, text};

/// The installer, for a tree below a directory.
fn install(destination: &Path, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(root().join("tools/install"));
    command.args(arguments).env("DESTDIR", destination).env("PREFIX", "/usr").env("PROGRAM", program);
    command.env("STRIP", "no").env_remove("ZSHDIR").output().expect("the installer can be started")
}

/// Files below a directory, by their paths in it.
fn files(below: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![below.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(below).unwrap().to_owned());
            }
        }
    }
    found
}

/// Whether a shell reads a script; `None` where there is no such shell.
fn is_read_by(shell: &str, option: &str, script: &Path) -> Option<bool> {
    match Command::new(shell).arg(option).arg(script).output() {
        Ok(output) => Some(output.status.success() && output.stderr.is_empty()),
        Err(_) => {
            eprintln!("SKIPPED: there is no {shell} to read its completions");
            None
        }
    }
}

/// Links of a page to files beside it.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inside = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    inside.map(|target| target.split('#').next().unwrap()).collect()
}

#[test]
fn a_tree_is_installed_whole_and_removed_whole() {
    let destination = tempfile::tempdir().unwrap();
    let stale = destination.path().join("usr/share/man/man1/surety-gone.1.gz");
    std::fs::create_dir_all(stale.parent().unwrap()).unwrap();
    std::fs::write(&stale, "").unwrap();
    let output = install(destination.path(), program(), &[]);
    assert!(output.status.success(), "{}", errors(&output));
    let usr = destination.path().join("usr");
    let installed = files(&usr);

    for path in &installed {
        let mode = usr.join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if path == Path::new("bin/surety") { 0o755 } else { 0o644 }, "{}", path.display());
    }
    let pages: Vec<_> = installed.iter().filter(|path| path.starts_with("share/man/man1")).collect();
    assert!(!stale.exists() && pages.len() > 30, "{pages:?}");
    assert!(installed.contains(Path::new("share/man/man1/surety-trace-record.1.gz")));
    let completions = ["bash-completion/completions/surety", "zsh/site-functions/_surety"];
    for script in completions.iter().chain(&["fish/vendor_completions.d/surety.fish"]) {
        assert!(installed.contains(&Path::new("share").join(script)), "{script}");
    }

    // What is installed finds what it links to.
    let documents = usr.join("share/doc/surety");
    let mut followed = 0;
    for page in installed.iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let page = usr.join(page);
        for target in links(&std::fs::read_to_string(&page).unwrap()) {
            followed += 1;
            let wanted = page.parent().unwrap().join(target);
            let is_source = target.starts_with("../crates/");
            assert!(is_source || wanted.exists(), "{}: {target}", page.display());
        }
    }
    assert!(followed > 100, "{followed}");
    for example in files(&root().join("examples")) {
        assert!(documents.join("examples").join(&example).exists(), "{}", example.display());
    }

    assert!(install(destination.path(), program(), &["--remove"]).status.success());
    assert_eq!(files(destination.path()), BTreeSet::new());
}

#[test]
fn shells_read_the_completions() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, option) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = directory.path().join(shell);
        let output = crate::common::surety(&["completions", shell]);
        std::fs::write(&script, &output.stdout).unwrap();
        assert_ne!(is_read_by(shell, option, &script), Some(false), "{shell}");
    }
    let asked = "source \"$0\"; COMP_WORDS=(surety trace rec); COMP_CWORD=2; _surety surety rec trace; \
                 echo \"${COMPREPLY[*]}\"";
    let output =
        Command::new("bash").args(["-c", asked]).arg(directory.path().join("bash")).output().unwrap();
    assert_eq!(text(&output).trim(), "record", "{}", errors(&output));
}

#[test]
fn what_is_not_built_is_not_installed() {
    let destination = tempfile::tempdir().unwrap();
    let output = install(destination.path(), Path::new("/nonexistent/surety"), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("make build"), "{}", errors(&output));
    assert_eq!(files(destination.path()), BTreeSet::new());
}
