//! [`Load`], and one row for each [`LoadKind`] ([`LOAD_KINDS`]): its words, the keys it takes, what each world does with it.
//!
//! A new kind is a variant and a row here, and its driver in the host world. Whoever has to tell kinds apart asks the row.

use surety_units::{Bytes, Nanos, Rate};

use super::{Instances, IoPriority, PolicySpec, Rights};
use crate::promise::Promise;

/// The kinds of load there are; [`LoadKind::row`] says what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LoadKind {
    /// Busy loops.
    Spinners,
    /// Random reads and writes over large blocks of memory.
    MemoryThrash,
    /// File readers.
    Readers,
    /// File writers.
    Writers,
    /// One file copied to another.
    FileCopy,
    /// Everything written on a disk, every so often.
    Syncs,
    /// Echo requests both ways.
    PingFlood,
    /// UDP packets at a rate.
    UdpSender,
    /// UDP packets as fast as they go.
    UdpFlood,
    /// Many small processes talking.
    Messages,
    /// Processes made and ended.
    Forks,
    /// Timers that fire.
    Timers,
    /// Any program.
    Command,
}

/// A key of `[[load]]` that only some kinds take, with its value where none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKey {
    /// Bytes of the file or memory it works on.
    Size(Bytes),
    /// Bytes of one access, packet or message.
    Block(Bytes),
    /// Limit of its byte rate; `None`: no limit.
    Rate(Option<Rate>),
    /// The disk its files are on.
    Disk,
    /// Past the page cache.
    Direct,
    /// In random order.
    Random,
    /// The I/O priority of its threads.
    IoPriority,
    /// Between two firings of a timer, or the begins of two of what it does.
    Period(Nanos),
    /// Done when it is done once.
    Once,
    /// CPU time of a message, where a world has no machine that takes it.
    MessageCost,
}

/// Senders of a group of a [`LoadKind::Messages`] load, and receivers.
pub const MESSAGE_SENDERS: u8 = 10;

/// What a kind of load does with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    Reads,
    Writes,
    /// From one to the other.
    Copies,
    /// Has those of others written.
    Syncs,
}

impl FileUse {
    /// What it counts its operations as.
    pub fn rounds(self) -> &'static str {
        match self {
            FileUse::Reads => "reads",
            FileUse::Writes => "writes",
            FileUse::Copies => "copies",
            FileUse::Syncs => "syncs",
        }
    }
}

/// What a world other than the host does with a kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Plays it; for the analysis: all it does runs below every reservation.
    Whole,
    /// Plays the CPU time it uses, without this.
    CpuTime {
        /// What is not in the result.
        without: &'static str,
    },
    /// Refuses the workload.
    Refused {
        /// Why, or what to do instead; the world says which load it is about.
        why: &'static str,
    },
}

/// A kind of load: everything that is to be known of it outside of its driver.
#[derive(Clone, Copy, Debug)]
pub struct LoadRow {
    pub kind: LoadKind,
    /// Its word in files and on command lines.
    pub word: &'static str,
    /// Its letter behind a count on a command line, with the noun that explains it.
    pub letter: Option<(char, &'static str)>,
    /// The keys of its own that it takes.
    pub keys: &'static [LoadKey],
    /// Whether it runs a program, which `command` names and whose rights are those of a command.
    pub is_program: bool,
    /// Files or blocks of memory of `size` bytes that each of it keeps.
    pub files: u32,
    /// What it does with files on a disk, if it has such.
    pub file_use: Option<FileUse>,
    /// Whether it makes processes.
    pub has_processes: bool,
    /// Whether a round of it is a whole, whose completion may be promised.
    pub is_completed: bool,
    /// Whether what it sends may be lost, so that a count of losses may be promised.
    pub is_lossy: bool,
    /// Modules that a kernel without built-in drivers loads for it.
    pub modules: &'static [&'static str],
    /// What the simulator does with it.
    pub simulator: Treatment,
    /// What the analysis does with it.
    pub analysis: Treatment,
    /// What a guest of the lab does with it.
    pub guest: Treatment,
}

const NOT_SIMULATED: Treatment = Treatment::Refused { why: "leave it out or put spinners in its place" };
const INTERRUPTS: Treatment = Treatment::Refused { why: crate::kind::INTERRUPTS };
const SIZE: LoadKey = LoadKey::Size(Bytes(64 << 20));
const FILE_BLOCK: LoadKey = LoadKey::Block(Bytes(64 << 10));
const FILE_KEYS: &[LoadKey] = &[
    SIZE,
    FILE_BLOCK,
    LoadKey::Rate(None),
    LoadKey::Disk,
    LoadKey::Direct,
    LoadKey::Random,
    LoadKey::IoPriority,
];
const COPY_KEYS: &[LoadKey] = &[
    SIZE,
    FILE_BLOCK,
    LoadKey::Rate(None),
    LoadKey::Disk,
    LoadKey::Direct,
    LoadKey::Once,
    LoadKey::IoPriority,
];
/// Of a sender of packets: 10 Mbit/s.
const PACKET_RATE: LoadKey = LoadKey::Rate(Some(Rate(1_250_000)));
const PACKET_BLOCK: LoadKey = LoadKey::Block(Bytes(1000));
/// The two ends of a virtual cable.
const CABLE: &[&str] = &["veth"];

/// What most kinds have in common; the rows below say what differs.
const COMMON: LoadRow = LoadRow {
    kind: LoadKind::Spinners,
    word: "",
    letter: None,
    keys: &[],
    is_program: false,
    files: 0,
    file_use: None,
    has_processes: false,
    is_completed: false,
    is_lossy: false,
    modules: &[],
    simulator: NOT_SIMULATED,
    analysis: INTERRUPTS,
    guest: Treatment::Whole,
};

/// Every kind of load.
pub const LOAD_KINDS: &[LoadRow] = &[
    LoadRow {
        kind: LoadKind::Spinners,
        word: "spinners",
        letter: Some(('s', "spinners")),
        simulator: Treatment::Whole,
        analysis: Treatment::Whole,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::MemoryThrash,
        word: "memory-thrash",
        letter: Some(('m', "memory thrashers")),
        keys: &[SIZE],
        files: 1,
        simulator: Treatment::CpuTime { without: "what it does to caches and memory" },
        analysis: Treatment::Whole,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Readers,
        word: "readers",
        letter: Some(('r', "readers")),
        keys: FILE_KEYS,
        files: 1,
        simulator: Treatment::Whole,
        file_use: Some(FileUse::Reads),
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Writers,
        word: "writers",
        letter: Some(('w', "writers")),
        keys: FILE_KEYS,
        files: 1,
        simulator: Treatment::Whole,
        file_use: Some(FileUse::Writes),
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::FileCopy,
        word: "file-copy",
        keys: COPY_KEYS,
        files: 2,
        is_completed: true,
        simulator: Treatment::Whole,
        file_use: Some(FileUse::Copies),
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Syncs,
        word: "syncs",
        keys: &[LoadKey::Disk, LoadKey::Period(Nanos::from_secs(2))],
        is_completed: true,
        simulator: Treatment::Whole,
        file_use: Some(FileUse::Syncs),
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::PingFlood,
        word: "ping-flood",
        keys: &[LoadKey::Block(Bytes(56))],
        is_lossy: true,
        modules: CABLE,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::UdpSender,
        word: "udp-sender",
        keys: &[PACKET_BLOCK, PACKET_RATE],
        is_lossy: true,
        modules: CABLE,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::UdpFlood,
        word: "udp-flood",
        keys: &[PACKET_BLOCK],
        is_lossy: true,
        modules: CABLE,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Messages,
        word: "messages",
        keys: &[LoadKey::Block(Bytes(100)), LoadKey::MessageCost],
        has_processes: true,
        simulator: Treatment::Whole,
        analysis: Treatment::Whole,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Forks,
        word: "forks",
        has_processes: true,
        analysis: Treatment::Whole,
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Timers,
        word: "timers",
        keys: &[LoadKey::Period(Nanos::MILLISECOND)],
        ..COMMON
    },
    LoadRow {
        kind: LoadKind::Command,
        word: "command",
        keys: &[LoadKey::Once],
        is_program: true,
        has_processes: true,
        is_completed: true,
        analysis: Treatment::Whole,
        guest: Treatment::Refused { why: "the guest has no programs" },
        ..COMMON
    },
];

impl LoadKind {
    /// What is to be known of it.
    pub fn row(self) -> &'static LoadRow {
        LOAD_KINDS.iter().find(|row| row.kind == self).expect("every kind is in the table")
    }

    /// Its word in a workload file.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// Every kind with its word.
    pub fn words() -> Vec<(&'static str, LoadKind)> {
        LOAD_KINDS.iter().map(|row| (row.word, row.kind)).collect()
    }
}

impl LoadKey {
    /// Its word in a workload file.
    pub fn word(self) -> &'static str {
        match self {
            LoadKey::Size(_) => "size",
            LoadKey::Block(_) => "block",
            LoadKey::Rate(_) => "rate",
            LoadKey::Disk => "disk",
            LoadKey::Direct => "direct",
            LoadKey::Random => "random",
            LoadKey::IoPriority => "io-priority",
            LoadKey::Period(_) => "period",
            LoadKey::Once => "once",
            LoadKey::MessageCost => "message-cost",
        }
    }
}

impl LoadRow {
    /// Whether it takes the key of this word.
    pub fn takes(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known.word() == key)
    }

    fn default_of<T>(&self, of: impl Fn(&LoadKey) -> Option<T>) -> Option<T> {
        self.keys.iter().find_map(of)
    }
}

/// Best-effort activity there to disturb. It has a result too: its price is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its role.
    pub name: String,
    /// What it does.
    pub kind: LoadKind,
    pub count: Instances,
    /// Scheduling class.
    pub policy: PolicySpec,
    /// Control group, by name.
    pub group: Option<String>,
    /// [`LoadKey::Size`].
    pub size: Option<Bytes>,
    /// [`LoadKey::Block`].
    pub block: Option<Bytes>,
    /// [`LoadKey::Rate`].
    pub rate: Option<Rate>,
    /// Disk, by name.
    pub disk: Option<String>,
    /// Past the page cache.
    pub direct: bool,
    /// In random order.
    pub random: bool,
    /// Of its threads; `None`: that of their scheduling class.
    pub io_priority: Option<IoPriority>,
    /// [`LoadKey::Period`].
    pub period: Option<Nanos>,
    /// [`LoadKey::MessageCost`]: of its write and its read together.
    pub message_cost: Option<Nanos>,
    /// A copy or a program is done when it is done once; else it is begun again until the run ends.
    pub once: bool,
    /// The program, of a kind that runs one.
    pub command: Option<String>,
    /// As whom that program runs.
    pub rights: Rights,
    /// What was promised about it.
    pub promises: Vec<Promise>,
}

impl Load {
    /// A load of a kind with this many in it, everything else as it is by default.
    pub fn new(name: &str, kind: LoadKind, count: u32) -> Load {
        Load {
            name: name.to_owned(),
            kind,
            count: Instances::Count(count),
            policy: PolicySpec::default(),
            group: None,
            size: None,
            block: None,
            rate: None,
            disk: None,
            direct: false,
            random: false,
            io_priority: None,
            period: None,
            message_cost: None,
            once: false,
            command: None,
            rights: Rights::default(),
            promises: Vec::new(),
        }
    }

    /// Bytes of the file or memory of each of it; 0 for a kind that has none.
    pub fn size(&self) -> Bytes {
        let default = || {
            self.kind.row().default_of(|key| if let LoadKey::Size(size) = key { Some(*size) } else { None })
        };
        self.size.or_else(default).unwrap_or(Bytes(0))
    }

    /// Bytes of one access, packet or message; 0 for a kind that has none.
    pub fn block(&self) -> Bytes {
        let default = || {
            self.kind
                .row()
                .default_of(|key| if let LoadKey::Block(block) = key { Some(*block) } else { None })
        };
        self.block.or_else(default).unwrap_or(Bytes(0))
    }

    /// For one that uses files, whether accesses of its size go into them; else why not.
    pub fn check_sizes(&self) -> Result<(), String> {
        let (block, size) = (self.block().0, self.size().0);
        if self.kind.row().files == 0 {
            return Ok(());
        }
        if block == 0 || size < block || block > 1 << 30 || (self.direct && !block.is_multiple_of(4096)) {
            return Err(format!(
                "`block` is at most `size` and 1GiB, and with `direct` a multiple of 4KiB, not {block} bytes of {size}"
            ));
        }
        Ok(())
    }

    /// Limit of its byte rate, if there is one.
    pub fn rate(&self) -> Option<Rate> {
        let default =
            || self.kind.row().default_of(|key| if let LoadKey::Rate(rate) = key { *rate } else { None });
        self.rate.or_else(default)
    }

    /// Time between two firings of a timer or begins of what it does; 0 for a kind that has none.
    pub fn period(&self) -> Nanos {
        let default = || {
            self.kind.row().default_of(|key| if let LoadKey::Period(time) = key { Some(*time) } else { None })
        };
        self.period.or_else(default).unwrap_or(Nanos::ZERO)
    }

    /// Bytes of memory and of files that all of it works on, with so many CPUs in the run. Files on a disk of the workload do
    /// not count.
    pub fn bytes(&self, cpus: u32) -> u128 {
        if self.disk.is_some() { 0 } else { self.kept(cpus) }
    }

    /// Bytes of its files on a disk of the workload, with `cpus` CPUs in the run.
    pub fn bytes_on_disk(&self, cpus: u32) -> u128 {
        if self.disk.is_some() { self.kept(cpus) } else { 0 }
    }

    fn kept(&self, cpus: u32) -> u128 {
        u128::from(self.kind.row().files) * u128::from(self.count.on(cpus)) * u128::from(self.size().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_files_count_and_disks_do_not() {
        let mib = |mib: u64| u128::from(mib << 20);
        let mut load = Load::new("l", LoadKind::Writers, 2);
        assert_eq!(load.bytes(4), mib(128));
        load.count = Instances::PerCpu(1);
        assert_eq!(load.bytes(4), mib(256));
        load.disk = Some("d".to_owned());
        assert_eq!((load.bytes(4), load.bytes_on_disk(4)), (0, mib(256)));
        let copy = Load { size: Some(Bytes(1 << 20)), ..Load::new("c", LoadKind::FileCopy, 1) };
        assert_eq!((copy.bytes(1), Load::new("s", LoadKind::Spinners, 9).bytes(1)), (mib(2), 0));
    }

    #[test]
    fn rows_have_words_and_letters_of_their_own_and_defaults_for_what_they_take() {
        for (place, row) in LOAD_KINDS.iter().enumerate() {
            let others =
                || LOAD_KINDS.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, r)| r);
            assert!(
                !row.word.is_empty() && others().all(|o| o.word != row.word && o.kind != row.kind),
                "{row:?}"
            );
            assert!(
                row.letter
                    .is_none_or(|(letter, _)| others().all(|o| o.letter.is_none_or(|(l, _)| l != letter)))
            );
            let load = Load::new("l", row.kind, 1);
            assert_eq!(load.size().0 > 0, row.takes("size"), "{}", row.word);
            assert_eq!(load.block().0 > 0, row.takes("block"), "{}", row.word);
            assert_eq!(load.period().is_positive(), row.takes("period"), "{}", row.word);
            assert!(row.files == 0 || row.takes("size"), "{}", row.word);
        }
        let sender = Load::new("l", LoadKind::UdpSender, 1);
        assert_eq!(sender.rate(), Some(Rate(1_250_000)));
        assert_eq!(Load { rate: Some(Rate(5)), ..sender }.rate(), Some(Rate(5)));
        assert_eq!(Load::new("l", LoadKind::Readers, 1).rate(), None);
    }
}
