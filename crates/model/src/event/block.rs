//! [`BlockEvent`]: what happens to bios and requests of a disk, as the kernel's tracepoints tell it
//! (`include/trace/events/block.h`), and [`RequestServed`] and [`GuestDisk`], which a simulated disk adds.

use std::fmt;

use surety_units::Nanos;

use super::Comm;

/// A disk by its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskNumber {
    pub major: u32,
    pub minor: u32,
}

/// Bits of the minor number inside the kernel (`MINORBITS` in `include/linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

impl DiskNumber {
    /// From the kernel's own word, which records hold.
    pub fn from_kernel(word: u32) -> DiskNumber {
        DiskNumber { major: word >> MINOR_BITS, minor: word & ((1 << MINOR_BITS) - 1) }
    }

    /// The kernel's own word; bits it has no room for are lost.
    pub fn to_kernel(self) -> u32 {
        self.major << MINOR_BITS | self.minor & ((1 << MINOR_BITS) - 1)
    }

    /// From the word that programs see (`st_rdev`): parts of both numbers in turn, as `makedev(3)` puts them.
    pub fn from_user(word: u64) -> DiskNumber {
        let bits = |from: u32, count: u32| ((word >> from) & ((1 << count) - 1)) as u32;
        DiskNumber { major: bits(8, 12) | bits(44, 20) << 12, minor: bits(0, 8) | bits(20, 24) << 8 }
    }

    /// The word that programs see.
    pub fn to_user(self) -> u64 {
        let (major, minor) = (u64::from(self.major), u64::from(self.minor));
        (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
    }
}

/// As below `/sys/dev/block`: `8:0`.
impl fmt::Display for DiskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What is done and how, in the kernel's letters: `R` read, `W` write, `D` discard, `F` flush before or after, `S` synchronous, `A` ahead,
/// `M` metadata. At most 10, as since Linux 6.16.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rwbs([u8; 10]);

impl Rwbs {
    /// From text; what does not fit, or is no visible ASCII, ends it.
    pub fn new(letters: &[u8]) -> Rwbs {
        let mut kept = [0; 10];
        let visible = letters.iter().take_while(|letter| letter.is_ascii_graphic());
        kept.iter_mut().zip(visible).for_each(|(place, letter)| *place = *letter);
        Rwbs(kept)
    }

    /// The letters.
    pub fn text(&self) -> &str {
        let end = self.0.iter().position(|letter| *letter == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl fmt::Debug for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// What happens to a bio, or to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockStep {
    /// `block_bio_queue`: a bio is submitted.
    BioQueued,
    /// `block_bio_backmerge`: it is appended to a request.
    BioAppended,
    /// `block_bio_frontmerge`: it is put in front of a request.
    BioPrepended,
    /// `block_getrq`: a request is made of it.
    RequestMade,
    /// `block_rq_insert`: the request goes to the I/O scheduler.
    Inserted,
    /// `block_rq_merge`: the request became a part of another.
    Joined,
    /// `block_rq_issue`: the driver takes it.
    Issued,
    /// `block_rq_requeue`: the driver gives it back.
    Returned,
    /// `block_rq_complete`: the device is done with so much of it.
    Completed,
}

/// Every step with the kernel's name.
const STEPS: [(BlockStep, &str); 9] = [
    (BlockStep::BioQueued, "block_bio_queue"),
    (BlockStep::BioAppended, "block_bio_backmerge"),
    (BlockStep::BioPrepended, "block_bio_frontmerge"),
    (BlockStep::RequestMade, "block_getrq"),
    (BlockStep::Inserted, "block_rq_insert"),
    (BlockStep::Joined, "block_rq_merge"),
    (BlockStep::Issued, "block_rq_issue"),
    (BlockStep::Returned, "block_rq_requeue"),
    (BlockStep::Completed, "block_rq_complete"),
];

impl BlockStep {
    /// All of them.
    pub fn all() -> impl Iterator<Item = BlockStep> {
        STEPS.iter().map(|(step, _)| *step)
    }

    /// The kernel's name of the event.
    pub fn name(self) -> &'static str {
        STEPS.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The step of that event.
    pub fn of(name: &str) -> Option<BlockStep> {
        STEPS.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }

    /// Whether the event says bytes: it is of a request on its way to the driver.
    pub fn has_bytes(self) -> bool {
        matches!(self, BlockStep::Inserted | BlockStep::Joined | BlockStep::Issued)
    }

    /// Whether the event says an I/O priority: it is of a request.
    pub fn has_priority(self) -> bool {
        self.has_bytes() || matches!(self, BlockStep::Returned | BlockStep::Completed)
    }

    /// Whether the event names a thread.
    pub fn has_name(self) -> bool {
        !matches!(self, BlockStep::Returned | BlockStep::Completed)
    }

    /// Whether the event says an error.
    pub fn has_error(self) -> bool {
        self == BlockStep::Completed
    }
}

/// An event of the block layer. What the step's event does not say is 0, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    pub step: BlockStep,
    pub disk: DiskNumber,
    /// The first sector, of 512 bytes.
    pub sector: u64,
    pub sectors: u32,
    /// Bytes of the request, which is more than its sectors for commands that pass by the file systems.
    pub bytes: u32,
    /// I/O priority as `ioprio_set(2)` takes it: the class above bit 13.
    pub priority: u16,
    pub rwbs: Rwbs,
    /// The thread that was current then: of a bio who submitted it, of an issue who had the driver take it.
    pub comm: Comm,
    /// 0, or below 0 the kernel's error number.
    pub error: i32,
}

impl BlockEvent {
    /// The first sector behind it.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// A marker that a simulated disk writes just before a request's `block_rq_complete`: where its time in the device went, and by which rule
/// the I/O scheduler had dispatched it. The times sum to that from issue to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestServed<'a> {
    pub disk: DiskNumber,
    /// The request's first sector.
    pub sector: u64,
    /// In the device behind others; in its controller; of the arm; of the medium; of the data.
    pub parts: [Nanos; 5],
    /// The I/O scheduler's rule in words.
    pub rule: &'a str,
}

impl<'a> RequestServed<'a> {
    /// Writes the marker's text behind what `text` holds.
    pub fn write(&self, text: &mut String) {
        use fmt::Write as _;
        let _ = write!(text, "surety:d:{}:{}", self.disk, self.sector);
        for part in self.parts {
            let _ = write!(text, ":{}", part.get());
        }
        let _ = write!(text, ":{}", self.rule);
    }

    /// Reads a marker's text; `None` when it is another's.
    pub fn parse(text: &'a str) -> Option<RequestServed<'a>> {
        let mut words = text.trim_end().strip_prefix("surety:d:")?.splitn(9, ':');
        let disk = DiskNumber { major: words.next()?.parse().ok()?, minor: words.next()?.parse().ok()? };
        let sector = words.next()?.parse().ok()?;
        let mut parts = [Nanos::ZERO; 5];
        for part in &mut parts {
            *part = Nanos::new(words.next()?.parse().ok().filter(|time| *time >= 0)?);
        }
        Some(RequestServed { disk, sector, parts, rule: words.next()? })
    }
}

/// A marker that a simulated disk of a guest writes before all else: it is a piece of another disk, the host's, where a process of the host
/// makes its requests again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestDisk {
    pub disk: DiskNumber,
    pub host: DiskNumber,
    /// The piece on the host's disk.
    pub first: u64,
    pub sectors: u64,
    /// The name of the host's process.
    pub process: Comm,
}

impl GuestDisk {
    /// Writes the marker's text behind what `text` holds.
    pub fn write(&self, text: &mut String) {
        use fmt::Write as _;
        let GuestDisk { disk, host, first, sectors, process } = self;
        let _ = write!(text, "surety:g:{disk}:{host}:{first}:{sectors}:{process}");
    }

    /// Reads a marker's text; `None` when it is another's.
    pub fn parse(text: &str) -> Option<GuestDisk> {
        let mut words = text.trim_end().strip_prefix("surety:g:")?.splitn(7, ':');
        let disk = DiskNumber { major: words.next()?.parse().ok()?, minor: words.next()?.parse().ok()? };
        let host = DiskNumber { major: words.next()?.parse().ok()?, minor: words.next()?.parse().ok()? };
        let (first, sectors) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(GuestDisk { disk, host, first, sectors, process: Comm::new(words.next()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_disks_read_back() {
        // makedev(8, 16) and makedev(259, 1000000) of the C library.
        for (major, minor, user) in
            [(8, 16, 0x810), (259, 1_000_000, 0xf421_0340), (0xf_ffff, 0, 0xf_f000_000f_ff00)]
        {
            let disk = DiskNumber { major, minor };
            assert_eq!(disk.to_user(), user, "{disk}");
            assert_eq!(DiskNumber::from_user(user), disk);
        }
        let disk = DiskNumber { major: 7, minor: 1023 };
        assert_eq!(disk.to_kernel(), 7 << 20 | 1023);
        assert_eq!(DiskNumber::from_kernel(disk.to_kernel()), disk);
    }

    #[test]
    fn letters_end_at_what_is_none() {
        assert_eq!(Rwbs::new(b"WFSM\0junk").text(), "WFSM");
        assert_eq!(Rwbs::new(b"R\xffS").text(), "R");
        assert_eq!(Rwbs::new(b"ABCDEFGHIJKL").text(), "ABCDEFGHIJ");
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        for step in BlockStep::all() {
            assert_eq!(BlockStep::of(step.name()), Some(step));
        }
        assert_eq!(BlockStep::of("block_plug"), None);
    }

    #[test]
    fn markers_of_requests_read_back() {
        let served = RequestServed {
            disk: DiskNumber { major: 8, minor: 16 },
            sector: u64::MAX,
            parts: [0, 1, 2, i64::MAX, 4].map(Nanos::new),
            rule: "nearest: of the queue, in service",
        };
        let mut text = String::new();
        served.write(&mut text);
        assert_eq!(RequestServed::parse(&text), Some(served));
        let guest = GuestDisk {
            disk: DiskNumber { major: 8, minor: 16 },
            host: DiskNumber { major: 8, minor: 0 },
            first: 1 << 40,
            sectors: u64::MAX,
            process: Comm::new("vm/a:b"),
        };
        text.clear();
        guest.write(&mut text);
        assert_eq!(GuestDisk::parse(&text), Some(guest));
        for other in ["", "surety:g:8:16:8:0:1:2", "surety:g:8:16:8:0:1:-2:vm/a", "surety:d:1:2"] {
            assert_eq!(GuestDisk::parse(other), None, "{other}");
        }
        for other in ["", "surety:d:8:0:1:2:3:4:5:6", "surety:d:8:0:1:2:3:4:-5:6:r", "surety:b:1:2"] {
            assert_eq!(RequestServed::parse(other), None, "{other}");
        }
    }
}
