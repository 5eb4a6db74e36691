//! Debian's package tool with lists and packages of our own: the machine's own are neither read nor changed, and what is
//! fetched is checked against signed lists by the tool itself.
//!
//! Mirror and proxy are those of the machine's configuration, the keys those of its Debian keyring. Only the suite is ours.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use surety_kernel::clock;
use surety_kernel::command::{ChildSetup, Command, Stream, spawn};
use surety_model::world::Cancel;
use surety_units::Nanos;

use crate::error::LabError;

/// Where Debian's own keys are.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(100);

/// The tool, for one suite.
#[derive(Debug)]
pub struct Apt<'a> {
    suite: String,
    directory: PathBuf,
    /// When everything is to be done, on CLOCK_MONOTONIC.
    end: Nanos,
    cancel: &'a Cancel,
}

impl<'a> Apt<'a> {
    /// Prepares lists of one suite below `root`.
    ///
    /// # Errors
    /// Without the tool, or where its configuration names no Debian mirror.
    pub fn of(suite: &str, root: &Path, end: Nanos, cancel: &'a Cancel) -> Result<Apt<'a>, LabError> {
        let directory = root.join("apt").join(suite);
        let apt = Apt { suite: suite.to_owned(), directory, end, cancel };
        for below in ["lists/partial", "cache/archives/partial", "packages"] {
            let path = apt.directory.join(below);
            std::fs::create_dir_all(&path)
                .map_err(|e| LabError::file(format!("making {}", path.display()), &e))?;
        }
        let keys = if Path::new(KEYS).exists() { format!(" [signed-by={KEYS}]") } else { String::new() };
        let line = format!("deb{keys} {} {suite} main\n", mirror()?);
        for (name, text) in [("sources.list", line.as_str()), ("status", "")] {
            let path = apt.directory.join(name);
            std::fs::write(&path, text)
                .map_err(|e| LabError::file(format!("writing {}", path.display()), &e))?;
        }
        Ok(apt)
    }

    /// Where packages are put.
    pub fn packages(&self) -> PathBuf {
        self.directory.join("packages")
    }

    /// Reads the suite's lists anew.
    ///
    /// # Errors
    /// With the tool's own words.
    pub fn update(&self) -> Result<(), LabError> {
        self.run("apt-get", &["update", "-qq"], "reading the lists").map(|_| ())
    }

    /// The packages that the newest version of a package depends on, and that version.
    ///
    /// # Errors
    /// When there is no such package.
    pub fn depends(&self, package: &str) -> Result<(String, Vec<String>), LabError> {
        let text = self.run(
            "apt-cache",
            &["show", "--no-all-versions", package],
            &format!("looking for {package}"),
        )?;
        let field = |name: &str| {
            text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default().to_owned()
        };
        let word = |entry: &str| entry.split_whitespace().next().unwrap_or_default().to_owned();
        let depends = field("Depends");
        Ok((field("Version"), depends.split([',', '|']).map(word).filter(|w| !w.is_empty()).collect()))
    }

    /// Fetches a package and says where it is.
    ///
    /// # Errors
    /// With the tool's own words.
    pub fn download(&self, package: &str) -> Result<PathBuf, LabError> {
        let begins = format!("{package}_");
        self.run("apt-get", &["download", "-qq", package], &format!("fetching {package}"))?;
        let entries = std::fs::read_dir(self.packages()).into_iter().flatten().flatten();
        let found = entries
            .map(|e| e.path())
            .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&begins)));
        // One that was fetched before may still be there: the newest counts.
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.max_by(|a, b| by_version(&name(a), &name(b))).ok_or_else(|| LabError::Fetch {
            what: format!("fetching {package}"),
            why: "the package is not where it was put".to_owned(),
        })
    }

    fn run(&self, program: &str, arguments: &[&str], what: &str) -> Result<String, LabError> {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let options = [
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            // Pins of the machine are not meant for these suites.
            "Dir::Etc::preferences=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "APT::Architectures=amd64".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "Acquire::Retries=1".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            "Debug::NoLocking=false".to_owned(),
        ];
        let mut command = Command::new(program);
        command.env("LC_ALL", "C.UTF-8").current_dir(self.packages());
        for option in options {
            command.arg("-o").arg(option);
        }
        let what = format!("{what} of {}", self.suite);
        run_within(command.args(arguments), self.end, self.cancel, &what)
    }
}

/// The order of two names with versions in them, by Debian's rule: runs of digits by their number, what is between by its
/// characters, letters before signs, and `~` before the end.
fn by_version(a: &str, b: &str) -> Ordering {
    let rank = |c: Option<char>| match c {
        Some('~') => -1,
        None => 0,
        Some(c) if c.is_ascii_digit() => 0,
        Some(c) if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        Some(c) => i64::from(u32::from(c)) + 0x100,
    };
    let (mut a, mut b) = (a.chars().peekable(), b.chars().peekable());
    loop {
        let is_digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
        if is_digit(a.peek()) && is_digit(b.peek()) {
            let digits = |chars: &mut Peekable<Chars<'_>>| -> String {
                let run: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
                run.trim_start_matches('0').to_owned()
            };
            let (x, y) = (digits(&mut a), digits(&mut b));
            // Without leading zeros the longer number is the larger.
            match x.len().cmp(&y.len()).then_with(|| x.cmp(&y)) {
                Ordering::Equal => continue,
                order => return order,
            }
        }
        let (x, y) = (a.next(), b.next());
        match rank(x).cmp(&rank(y)) {
            Ordering::Equal if x.is_none() && y.is_none() => return Ordering::Equal,
            Ordering::Equal if x == y => {}
            // A number is more than no number.
            Ordering::Equal => return x.is_some().cmp(&y.is_some()),
            order => return order,
        }
    }
}

/// Runs a program until it ends, the time is up, or the user has enough; returns what it said.
pub(crate) fn run_within(
    command: &mut Command,
    end: Nanos,
    cancel: &Cancel,
    what: &str,
) -> Result<String, LabError> {
    let name = command.name();
    let failed = |why: String| LabError::Fetch { what: what.to_owned(), why };
    let file = || tempfile::tempfile().map_err(|e| LabError::file("making a temporary file", &e));
    let copy = |file: &std::fs::File| file.try_clone().map_err(|e| LabError::file("a temporary file", &e));
    let (out, errors) = (file()?, file()?);
    command.stdin(Stream::Null).stdout(copy(&out)?).stderr(copy(&errors)?);
    let mut child = spawn(command, &ChildSetup::default()).map_err(|error| {
        let package = if name.starts_with("apt") { "apt" } else { "dpkg" };
        if error.errno == 2 {
            LabError::NoProgram { program: name.clone(), package: package.to_owned() }
        } else {
            failed(error.to_string())
        }
    })?;
    let ended = loop {
        if cancel.is_cancelled() {
            return Err(LabError::Interrupted);
        }
        let now = clock::monotonic();
        if now >= end {
            return Err(failed("the time for it is up".to_owned()));
        }
        let ended = child.wait_until((now + LOOK).min(end)).map_err(|e| failed(e.to_string()))?;
        if let Some(ended) = ended {
            break ended;
        }
    };
    let text = |mut file: std::fs::File| {
        use std::io::{Read, Seek};
        let mut bytes = Vec::new();
        let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    if ended.status.success() {
        return Ok(text(out));
    }
    let said = text(errors);
    let lines: Vec<&str> = said.lines().filter(|l| l.starts_with("E:")).collect();
    let said = if lines.is_empty() { said.trim().to_owned() } else { lines.join("; ") };
    Err(failed(format!("{name} ended with {}: {said}", ended.status)))
}

/// The machine's mirror of Debian.
fn mirror() -> Result<String, LabError> {
    let failed = |why: &str| LabError::Fetch {
        what: "looking for a Debian mirror in the configuration of apt".to_owned(),
        why: why.to_owned(),
    };
    let output = std::process::Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)|$(LABEL)|$(COMPONENT)", "Created-By: Packages"])
        .output()
        .map_err(|_| LabError::NoProgram { program: "apt-get".to_owned(), package: "apt".to_owned() })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    mirror_in(&text).ok_or_else(|| failed("it names none"))
}

/// The first that says it is Debian's main archive; where its lists were never read, the first that looks like one.
fn mirror_in(targets: &str) -> Option<String> {
    let rows: Vec<Vec<&str>> = targets.lines().map(|l| l.split('|').collect()).collect();
    let named = rows.iter().find(|r| r.len() == 3 && r[1] == "Debian" && r[2] == "main");
    let guessed = || rows.iter().find(|r| r[0].trim_end_matches('/').ends_with("/debian"));
    named.or_else(guessed).map(|r| r[0].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_main_archives() {
        let targets = "http://sec.example/debian-security/|Debian-Security|main\n\
                       http://a.example/debian/|Debian|contrib\nhttp://b.example/debian/|Debian|main\n";
        assert_eq!(mirror_in(targets).as_deref(), Some("http://b.example/debian/"));
        let unread = "http://other.example/|$(LABEL)|main\nhttp://c.example/debian|$(LABEL)|main\n";
        assert_eq!(mirror_in(unread).as_deref(), Some("http://c.example/debian"));
        assert_eq!(mirror_in(""), None);
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let ascending = [
            "linux-image-6.1.0-9_6.1.27-1_amd64.deb",
            "linux-image-6.1.0-9_6.1.27-2~bpo11+1_amd64.deb",
            "linux-image-6.1.0-9_6.1.27-2_amd64.deb",
            "linux-image-6.1.0-9_6.1.147-1_amd64.deb",
            "linux-image-6.1.0-50_6.1.9-1_amd64.deb",
            "linux-image-6.12.0-1_6.12-1_amd64.deb",
            "linux-image-6.12.0-1_6.12.1-1_amd64.deb",
        ];
        for (place, a) in ascending.iter().enumerate() {
            for (other, b) in ascending.iter().enumerate() {
                assert_eq!(by_version(a, b), place.cmp(&other), "{a} {b}");
            }
        }
        assert_eq!(by_version("6.01", "6.1"), Ordering::Equal);
    }
}
