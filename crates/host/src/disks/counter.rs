//! [`Counter`]: bytes that a disk has moved for all processes, by the kernel's count.

use std::path::PathBuf;

use surety_kernel::{Kernel, clock};
use surety_units::Nanos;

/// A sector of `/sys/block/NAME/stat`, whatever the disk's own are (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// The count of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    file: PathBuf,
}

impl Counter {
    /// By its `stat` file.
    pub(crate) fn new(file: PathBuf) -> Counter {
        Counter { file }
    }

    /// What it is now; `None` where it cannot be read.
    pub(crate) fn read(&self, kernel: &dyn Kernel) -> Option<(Nanos, u64)> {
        let text = kernel.read_text(&self.file).ok()?;
        Some((clock::monotonic(), bytes_of(&text)?))
    }
}

/// Bytes read and written: the third and the seventh number are sectors.
fn bytes_of(stat: &str) -> Option<u64> {
    let sectors = |at| stat.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
    Some((sectors(2)? + sectors(6)?) * SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_read_and_written_count() {
        let stat = "     446        3    22330      158      284      224     8192      128        0      220      287        0        0\n";
        assert_eq!(bytes_of(stat), Some((22_330 + 8192) * 512));
        assert_eq!(bytes_of("1 2 3"), None);
    }
}
