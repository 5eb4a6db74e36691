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

/// A one-CPU file of a machine with the other byte order and a long of four bytes: two markers.
pub fn narrow_and_big() -> Vec<u8> {
    let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                  \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
                  \tfield: char data;\toffset:12;\tsize:500;\tsigned:0;\n";
    let print = "name: print\nID: 5\nformat:\n\
                 \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                 \tfield:unsigned long ip;\toffset:8;\tsize:4;\tsigned:0;\n\
                 \tfield:char buf[];\toffset:12;\tsize:0;\tsigned:0;\n";
    let mut page = vec![0; 512];
    page[..8].copy_from_slice(&1_000_000u64.to_be_bytes());
    page[8..12].copy_from_slice(&40u32.to_be_bytes());
    for (at, delta, text) in [(12, 7, b"one\0"), (32, 9, b"two\0")] {
        // 16 bytes of payload: type 4 in the top five bits, the time in the others.
        page[at..at + 4].copy_from_slice(&(4u32 << 27 | delta).to_be_bytes());
        page[at + 4..at + 6].copy_from_slice(&5u16.to_be_bytes());
        page[at + 8..at + 12].copy_from_slice(&77i32.to_be_bytes());
        page[at + 16..at + 20].copy_from_slice(text);
    }
    let content = TraceDatContent {
        endian: Endian::Big,
        header_page: header,
        header_event: HEADER_EVENT,
        formats: vec![("ftrace:print", print)],
        symbols: "",
        printk_formats: "",
        names: "",
        clock: "mono",
        statistics: vec!["overrun: 3\ncommit overrun: 0\ndropped events: 2\n".to_owned()],
        pages: vec![(CpuId(2), page)],
    };
    let mut file = Vec::new();
    content.write(&mut file).unwrap();
    file
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
