//! What a [`Load`] of each kind takes and needs.

use surety_units::Bytes;

use super::{Load, LoadKind};

impl LoadKind {
    /// The keys of its own that it looks at.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            LoadKind::Spinners | LoadKind::Forks => &[],
            LoadKind::MemoryThrash => &["size"],
            LoadKind::Readers | LoadKind::Writers => &["size", "block", "rate", "disk", "direct", "random"],
            LoadKind::FileCopy => &["size", "block", "rate", "disk", "direct", "once"],
            LoadKind::PingFlood | LoadKind::UdpFlood | LoadKind::Messages => &["block"],
            LoadKind::UdpSender => &["block", "rate"],
            LoadKind::Timers => &["period"],
            LoadKind::Command => &["once"],
        }
    }
}

impl Load {
    /// Bytes of the file or the memory of one of it, where `size` is not said.
    pub const SIZE: Bytes = Bytes(64 << 20);

    /// Bytes of memory and of files that all of it works on, with so many CPUs in the run. Files on a disk of the workload do
    /// not count.
    pub fn bytes(&self, cpus: u32) -> u128 {
        let files = match self.kind {
            LoadKind::MemoryThrash | LoadKind::Readers | LoadKind::Writers => 1,
            LoadKind::FileCopy => 2,
            _ => 0,
        };
        if self.disk.is_some() {
            return 0;
        }
        files * u128::from(self.count.on(cpus)) * u128::from(self.size.unwrap_or(Load::SIZE).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Instances;

    #[test]
    fn memory_and_files_count_and_disks_do_not() {
        let mib = |mib: u64| u128::from(mib << 20);
        let mut load = Load::new("l", LoadKind::Writers, 2);
        assert_eq!(load.bytes(4), mib(128));
        load.count = Instances::PerCpu(1);
        assert_eq!(load.bytes(4), mib(256));
        load.disk = Some("d".to_owned());
        assert_eq!(load.bytes(4), 0);
        let copy = Load { size: Some(Bytes(1 << 20)), ..Load::new("c", LoadKind::FileCopy, 1) };
        assert_eq!((copy.bytes(1), Load::new("s", LoadKind::Spinners, 9).bytes(1)), (mib(2), 0));
    }
}
