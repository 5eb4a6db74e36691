//! Ordinary files read past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The same file, opened for reading past the page cache (`O_DIRECT`). Works for files without a name.
///
/// Offsets, lengths and buffers must then be multiples of the device's logical block.
///
/// # Errors
/// EINVAL where the file system has no direct access (tmpfs before 6.6, for instance).
pub fn reopen_direct(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn direct_reads_want_whole_blocks() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        file.sync_all().unwrap();
        let Ok(direct) = reopen_direct(&file) else {
            eprintln!("SKIPPED: the file system of temporary files has no direct access");
            return;
        };
        let mut buffer = vec![0; 4096 * 3];
        let start = buffer.as_ptr().align_offset(4096);
        assert_eq!(direct.read_at(&mut buffer[start..start + 8192], 0).unwrap(), 8192);
        assert!(buffer[start..start + 8192].iter().all(|b| *b == 7));
        assert!(direct.read_at(&mut buffer[start..start + 100], 0).is_err());
    }
}
