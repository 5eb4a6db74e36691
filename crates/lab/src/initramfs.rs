//! [`Archive`]: the file system a guest starts with, as the `newc` archive the kernel unpacks
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`).
//!
//! Entries are sorted, numbered in that order, of the first user, and of time zero: the same content gives the same
//! bytes. It is not compressed: unpacking would be done by instructions of the guest, and reading is done by the host.

use std::collections::BTreeMap;

/// An entry of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File { mode: u32, content: Vec<u8> },
    Link { target: String },
}

/// Files by their path in the guest. Directories on the way are made as they are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Puts a file at an absolute path, in the place of what was there.
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.put(path, Entry::File { mode: mode & 0o7777, content });
    }

    /// Puts a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link { target: target.to_owned() });
    }

    /// Makes an empty directory.
    pub fn directory(&mut self, path: &str) {
        self.put(path, Entry::Directory);
    }

    /// Whether there is something at a path.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_matches('/'))
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            self.entries.entry(path[..at].to_owned()).or_insert(Entry::Directory);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// The bytes of the archive.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            let (mode, links, content) = match entry {
                Entry::Directory => (0o040_755, 2, &[][..]),
                Entry::File { mode, content } => (0o100_000 | mode, 1, content.as_slice()),
                Entry::Link { target } => (0o120_777, 1, target.as_bytes()),
            };
            member(&mut out, number + 1, path, mode, links, content);
        }
        member(&mut out, 0, "TRAILER!!!", 0, 1, &[]);
        // Archives are read in blocks.
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

/// One member: thirteen numbers of eight hexadecimal digits, the name, the content, each filled up to four bytes.
fn member(out: &mut Vec<u8>, number: usize, name: &str, mode: u32, links: u32, content: &[u8]) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
    out.extend(b"070701");
    // Number, mode, user, group, links, time, size, device (2), device of the node (2), length of the name, sum.
    for field in [number, mode, 0, 0, links, 0, size, 0, 0, 0, 0, length, 0] {
        out.extend(format!("{field:08X}").as_bytes());
    }
    out.extend(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(content);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sample() -> Archive {
        let mut archive = Archive::default();
        archive.file("/init", 0o755, b"program".to_vec());
        archive.file("/lib/x/y.so", 0o644, vec![7; 4099]);
        archive.file("/empty", 0o600, Vec::new());
        archive.link("/lib64", "lib");
        archive.directory("/tmp");
        archive
    }

    #[test]
    fn the_order_of_putting_does_not_matter() {
        let mut other = Archive::default();
        other.directory("/tmp");
        other.link("/lib64", "lib");
        other.file("/empty", 0o600, Vec::new());
        other.file("/lib/x/y.so", 0o644, vec![7; 4099]);
        other.file("/init", 0o755, b"program".to_vec());
        assert_eq!(sample().bytes(), other.bytes());
        assert!(sample().contains("/lib/x") && !sample().contains("/lib/z"));
    }

    /// A golden record names the digest of the archive its guest started from: another byte makes all of them foreign.
    #[test]
    fn the_bytes_stay_what_they_were() {
        assert_eq!(
            crate::digest::sha256_hex(&sample().bytes()),
            "c693953ff2c896c566d91f1dcaee64e0137bf2b9c2c38a456de88643fbffd7a2"
        );
    }

    #[test]
    fn another_program_unpacks_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let spawned = Command::new("cpio")
            .args(["--extract", "--quiet", "--make-directories", "--preserve-modification-time"])
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("SKIPPED: cpio is not installed");
            return;
        };
        child.stdin.take().unwrap().write_all(&sample().bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let root = directory.path();
        let read = |name: &str| std::fs::read(root.join(name)).unwrap();
        assert_eq!(read("init"), b"program");
        assert_eq!(read("lib/x/y.so"), vec![7; 4099]);
        assert_eq!(read("empty"), b"");
        assert_eq!(std::fs::read_link(root.join("lib64")).unwrap().to_str(), Some("lib"));
        assert!(root.join("tmp").is_dir());
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(root.join("init")).unwrap();
        assert_eq!((found.mode() & 0o777, found.mtime()), (0o755, 0));
        let listed = Command::new("cpio")
            .args(["--list", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut listed = listed.unwrap();
        listed.stdin.take().unwrap().write_all(&sample().bytes()).unwrap();
        let names = String::from_utf8(listed.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(
            names.lines().collect::<Vec<_>>(),
            ["empty", "init", "lib", "lib/x", "lib/x/y.so", "lib64", "tmp"]
        );
    }
}
