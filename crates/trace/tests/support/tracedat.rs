//! trace.dat files to read: one made of the recorded fixture, and what trace-cmd says of a file.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use surety_trace::{Endian, TraceDatContent};
use surety_units::CpuId;

/// The fixture's recording as a trace.dat file.
pub fn fixture() -> Vec<u8> {
    let formats_dir = super::fixtures().join("formats");
    let recording = super::fixtures().join("throttled");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let formats = super::formats(&formats_dir);
    let content = TraceDatContent {
        endian: Endian::Little,
        header_page: &read(formats_dir.join("header_page.txt")),
        header_event: HEADER_EVENT,
        formats: formats.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect(),
        symbols: &read(recording.join("kallsyms.txt")),
        printk_formats: "0xffffffff828195af : \"a format\"\n",
        names: "8795 player\n",
        clock: "mono",
        statistics: vec![statistics(0), statistics(1)],
        pages: [0, 1]
            .map(|cpu| (CpuId(cpu), std::fs::read(recording.join(format!("cpu{cpu}.raw"))).unwrap()))
            .to_vec(),
    };
    let mut file = Vec::new();
    assert_eq!(content.write(&mut file).unwrap(), file.len() as u64);
    file
}

/// Some text for the description of event headers; nobody reads it.
pub const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n";

fn statistics(cpu: u32) -> String {
    format!("CPU: {cpu}\nentries: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 0\nread events: 100\n")
}

/// A file recorded on another machine, kept beside the repository: six CPUs, 3724 events, no lost ones.
pub fn foreign() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces/lisa_sched_load.dat");
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: there is no ../shared/data/traces/lisa_sched_load.dat beside the repository");
    None
}

/// One line of `trace-cmd report -R -t`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reported {
    /// The CPU.
    pub cpu: u32,
    /// Nanoseconds.
    pub time: i64,
    /// The event's name without its system.
    pub event: String,
    /// The current thread.
    pub current: i32,
    /// What follows the name.
    pub fields: String,
}

impl Reported {
    /// The value of `key=` up to the next blank.
    pub fn value(&self, key: &str) -> &str {
        let marked = format!("{key}=");
        let at = self.fields.find(&marked).unwrap_or_else(|| panic!("{key} in {self:?}"));
        self.fields[at + marked.len()..].split(' ').next().unwrap()
    }

    /// The value of `key=` up to ` next=`: names may hold blanks.
    pub fn value_until(&self, key: &str, next: &str) -> &str {
        let rest = &self.fields[self.fields.find(&format!("{key}=")).unwrap() + key.len() + 1..];
        rest.split(&format!(" {next}=")).next().unwrap()
    }
}

/// What trace-cmd reads in a file; `None`, loudly, where there is no trace-cmd.
pub fn reported(file: &Path) -> Option<Vec<Reported>> {
    let output = match Command::new("trace-cmd").args(["report", "-R", "-t"]).arg(file).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: trace-cmd cannot be started ({error}); install the package trace-cmd");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().filter_map(line).collect())
}

/// `COMM-PID [CPU] SECONDS.NANOS: event: fields`; `None` for headings.
fn line(line: &str) -> Option<Reported> {
    let (head, rest) = line.split_once("] ")?;
    let (task, cpu) = head.rsplit_once('[')?;
    let (stamp, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, nanos) = stamp.split_once('.')?;
    assert_eq!(nanos.len(), 9, "{line}");
    let (event, fields) = rest.split_once(':')?;
    Some(Reported {
        cpu: cpu.parse().ok()?,
        time: seconds.parse::<i64>().ok()? * 1_000_000_000 + nanos.parse::<i64>().ok()?,
        event: event.trim().to_owned(),
        current: task.trim_end().rsplit('-').next()?.parse().ok()?,
        fields: fields.trim().to_owned(),
    })
}
