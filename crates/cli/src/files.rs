//! Files that are read whole, and files that are written: [`read`] and [`NewFile`].
//!
//! A new file is made beside its place, without a name where the file system has such files, and takes the place only when it is
//! whole and on disk: who is killed or finds the disk full leaves what was there. It is never made through a symbolic link of
//! another user, and never in place of a file that this program has read.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, fchown};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use surety_kernel::files::{give_name, has_input, nameless_in, open_at_once};
use surety_model::world::Cancel;
use surety_units::Nanos;

use crate::exit::{Code, Failure};

/// The longest JSON document that is read: results, plans, scenarios. Reading takes some 16 times as much memory.
pub const DOCUMENT_MAX: u64 = 32 << 20;

/// The longest file of another program's results that is read.
pub const LENGTH_MAX: u64 = 256 << 20;

/// Every file that was read: device, inode, and when it was made, as an inode is used again.
static INPUTS: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

type Identity = (u64, u64, Option<SystemTime>);

fn identity(known: &Metadata) -> Identity {
    (known.dev(), known.ino(), known.created().ok())
}

/// Remembers a file that is read: no output may take its place.
pub fn is_input(known: &Metadata) {
    let mut inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    inputs.insert(identity(known));
}

/// Ends the wait for the writer of a pipe.
static STOP: OnceLock<Cancel> = OnceLock::new();

/// Whether it did.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Lets a signal end the wait for the writer of a pipe.
pub fn stop_with(cancel: &Cancel) {
    let _ = STOP.set(cancel.clone());
}

/// Whether a signal came before a pipe was read to its end: then that is why the command failed.
pub fn was_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// Reads a whole file, or a pipe, of at most `limit` bytes.
///
/// # Errors
/// In words, without the path: what the kernel says, that it is a device or a directory, or that it is longer.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    // What `-` stands for to everybody.
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let mut file = open_at_once(path).map_err(|e| e.to_string())?;
    let known = file.metadata().map_err(|e| e.to_string())?;
    let kind = known.file_type();
    if kind.is_dir() || kind.is_char_device() || kind.is_block_device() {
        return Err(format!("it is a {}", if kind.is_dir() { "directory" } else { "device" }));
    }
    is_input(&known);
    let too_long = || format!("it is longer than {} MiB", limit >> 20);
    if known.len() > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    if kind.is_fifo() {
        read_pipe(&mut file, limit, &mut bytes)?;
    } else {
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    }
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a pipe to its end, or past the limit; waits for its writer until there is one or a signal comes.
fn read_pipe(pipe: &mut File, limit: u64, bytes: &mut Vec<u8>) -> Result<(), String> {
    const LOOK: Nanos = Nanos::from_millis(100);
    let mut part = vec![0; 64 << 10];
    while bytes.len() as u64 <= limit {
        if STOP.get().is_some_and(Cancel::is_cancelled) {
            STOPPED.store(true, Ordering::SeqCst);
            return Err("interrupted".to_owned());
        }
        if !has_input(pipe, LOOK).map_err(|e| e.to_string())? {
            continue;
        }
        match pipe.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// The same as text.
///
/// # Errors
/// As [`read`], and the first byte that is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    let bytes = read(path, limit)?;
    String::from_utf8(bytes).map_err(|e| format!("byte {} is no UTF-8", e.utf8_error().valid_up_to()))
}

/// Writes a file of ours that was read to be written again.
///
/// # Errors
/// As [`NewFile`].
pub fn write_again(path: &Path, text: &str) -> Result<(), Failure> {
    if let Ok(known) = std::fs::metadata(path) {
        INPUTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&identity(&known));
    }
    write(path, text)
}

/// Writes a file of ours, or says why not.
///
/// # Errors
/// As [`NewFile`].
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    NewFile::create(path)?.fill(text)
}

/// Refuses, before anything is run, what could not be written after it: each is one that [`NewFile`] makes, and no two are the same.
///
/// # Errors
/// As [`NewFile::create`], and for a place that is named twice.
pub fn check_outputs<'a>(paths: impl IntoIterator<Item = Option<&'a PathBuf>>) -> Result<(), Failure> {
    let mut targets: Vec<(PathBuf, Option<(u64, u64)>)> = Vec::new();
    for path in paths.into_iter().flatten() {
        let target = target_of(path).map_err(|e| refused(path, &e))?;
        let known = std::fs::metadata(&target).ok();
        // To open a pipe would be to write it, and what is written to a device is not replaced.
        if known.as_ref().is_some_and(|known| !known.is_file() && !known.is_dir()) {
            continue;
        }
        NewFile::create(path)?;
        let inode = known.map(|known| (known.dev(), known.ino()));
        let directory = directory_of(&target).canonicalize().map_err(|e| refused(path, &e))?;
        let target = directory.join(target.file_name().unwrap_or_default());
        if targets.iter().any(|(other, its)| *other == target || (inode.is_some() && *its == inode)) {
            return Err(refused(path, &"another output of this command is written there"));
        }
        targets.push((target, inode));
    }
    Ok(())
}

/// A file in the making; it goes away unless it is kept.
#[derive(Debug)]
pub struct NewFile {
    /// As it was named.
    path: PathBuf,
    /// Where that leads.
    target: PathBuf,
    file: File,
    way: Way,
}

/// How the file comes to its place.
#[derive(Debug)]
enum Way {
    /// It has no name yet.
    Nameless,
    /// It has this name meanwhile.
    Beside(PathBuf),
    /// A device or a pipe is written as it is.
    InPlace,
}

impl NewFile {
    /// A new file for this place.
    ///
    /// # Errors
    /// 2 where it cannot be made there: in words, with what to do.
    pub fn create(path: &Path) -> Result<NewFile, Failure> {
        let refused = |why: &dyn std::fmt::Display| refused(path, why);
        let target = target_of(path).map_err(|e| refused(&e))?;
        let known = std::fs::metadata(&target).ok();
        if let Some(known) = &known {
            if known.is_dir() {
                return Err(refused(&"it is a directory"));
            }
            let inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
            if inputs.contains(&identity(known)) {
                return Err(refused(&"it is a file that is read, and would be lost"));
            }
            // Nobody replaces what they may not write.
            let opened = OpenOptions::new().write(true).open(&target).map_err(|e| refused(&e))?;
            if !known.is_file() {
                return Ok(NewFile { path: path.to_owned(), target, file: opened, way: Way::InPlace });
            }
        }
        let directory = directory_of(&target);
        let (file, way) = match nameless_in(&directory) {
            Ok(file) => (file, Way::Nameless),
            Err(_) => {
                let part = beside(&target);
                let file = File::options().read(true).write(true).create_new(true).open(&part);
                (file.map_err(|e| refused(&e))?, Way::Beside(part))
            }
        };
        if let Some(known) = known {
            // Who may read it stays as it was, and whose it is where that is ours to say.
            let _ = fchown(&file, Some(known.uid()), Some(known.gid()));
            file.set_permissions(known.permissions()).map_err(|e| refused(&e))?;
        }
        Ok(NewFile { path: path.to_owned(), target, file, way })
    }

    /// The same, where a device or a pipe will not do: what is written is read again.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn ordinary(path: &Path) -> Result<NewFile, Failure> {
        let new = NewFile::create(path)?;
        if matches!(new.way, Way::InPlace) { Err(refused(path, &"it is no ordinary file")) } else { Ok(new) }
    }

    /// What is written to, readable too where it is an ordinary file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The directory it is made in.
    pub fn directory(&self) -> PathBuf {
        directory_of(&self.target)
    }

    /// A failure to write it.
    pub fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(Code::Machine, format!("{} could not be written: {why}", self.path.display()))
            .help("make room, or choose another place; what was there is unchanged")
    }

    /// Writes all of it and keeps it.
    ///
    /// # Errors
    /// As [`NewFile::keep`].
    pub fn fill(self, text: &str) -> Result<(), Failure> {
        self.file().write_all(text.as_bytes()).map_err(|e| self.failed(&e))?;
        self.keep()
    }

    /// Brings it to the disk and gives it its place.
    ///
    /// # Errors
    /// 3 where that fails; what was there is still there then.
    pub fn keep(mut self) -> Result<(), Failure> {
        self.place().map_err(|e| self.failed(&e))
    }

    fn place(&mut self) -> io::Result<()> {
        if matches!(self.way, Way::InPlace) {
            return self.file.flush();
        }
        self.file.sync_all()?;
        if let Way::Nameless = self.way {
            match give_name(&self.file, &self.target) {
                Ok(()) => {
                    self.way = Way::InPlace;
                    return synced(&self.directory());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let part = beside(&self.target);
            give_name(&self.file, &part)?;
            self.way = Way::Beside(part);
        }
        if let Way::Beside(part) = &self.way {
            std::fs::rename(part, &self.target)?;
            self.way = Way::InPlace;
        }
        synced(&self.directory())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Way::Beside(part) = &self.way {
            let _ = std::fs::remove_file(part);
        }
    }
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::BadInput, format!("{} cannot be written: {why}", path.display()))
        .help("choose a place you can write to")
}

fn directory_of(target: &Path) -> PathBuf {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A name that nobody else has, in the same directory.
fn beside(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}

/// The new name is on disk. Some file systems have no such thing for directories.
fn synced(directory: &Path) -> io::Result<()> {
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Where a path leads, symbolic links followed one by one: those of root and our own.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    // Links there lead to descriptors, and belong to the process.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Ok(path.to_owned());
    }
    let us = std::fs::metadata("/proc/self")?.uid();
    let parts = |path: &Path| -> VecDeque<PathBuf> {
        path.components().map(|c| PathBuf::from(c.as_os_str())).collect()
    };
    let (mut left, mut found, mut links) = (parts(path), PathBuf::new(), 0);
    while let Some(part) = left.pop_front() {
        let next = found.join(&part);
        let is_name = matches!(part.components().next(), Some(Component::Normal(_)));
        match std::fs::symlink_metadata(&next) {
            Ok(known) if is_name && known.is_symlink() => {
                links += 1;
                if links > 40 {
                    return Err(io::Error::other("too many symbolic links"));
                }
                if known.uid() != us && known.uid() != 0 {
                    let said = format!(
                        "{} is a symbolic link of another user (uid {})",
                        next.display(),
                        known.uid()
                    );
                    return Err(io::Error::other(said));
                }
                let mut further = parts(&std::fs::read_link(&next)?);
                further.append(&mut left);
                left = further;
            }
            Err(error) if !(left.is_empty() && error.kind() == ErrorKind::NotFound) => return Err(error),
            // An absolute part begins anew.
            _ => found = next,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn what_was_there_stays_until_the_new_file_is_kept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.json");
        write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let new = NewFile::create(&path).unwrap();
        new.file().write_all(b"half").unwrap();
        drop(new);
        assert_eq!((text(&path).as_str(), names(room.path())), ("old", 1));
        write(&path, "new").unwrap();
        assert_eq!((text(&path).as_str(), names(room.path())), ("new", 1));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn an_input_is_not_overwritten_under_any_name() {
        let room = tempfile::tempdir().unwrap();
        let (path, link, hard) = (room.path().join("w"), room.path().join("link"), room.path().join("hard"));
        write(&path, "input").unwrap();
        symlink("w", &link).unwrap();
        std::fs::hard_link(&path, &hard).unwrap();
        assert_eq!(read_text(&link, 100), Ok("input".to_owned()));
        for name in [&path, &link, &hard] {
            let said = write(name, "output").unwrap_err();
            assert!(
                said.to_string().contains("a file that is read") && said.code == Code::BadInput,
                "{said}"
            );
        }
        assert_eq!(text(&path), "input");
    }

    #[test]
    fn links_of_others_are_not_followed_and_our_own_are() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        write(&at("d/file"), "theirs").unwrap();
        symlink("file", at("d/own")).unwrap();
        symlink("d", at("dir")).unwrap();
        write(&at("dir/own"), "ours").unwrap();
        assert_eq!(text(&at("d/file")), "ours");
        assert!(std::fs::symlink_metadata(at("d/own")).unwrap().is_symlink());
        symlink("nowhere", at("loop")).unwrap();
        write(&at("loop"), "made").unwrap();
        assert_eq!(text(&at("nowhere")), "made");
        for link in ["d/own", "dir"] {
            if lchown(at(link), Some(12_345), None).is_err() {
                println!("SKIPPED: only root gives links to others");
                return;
            }
            let said = write(&at("dir/own"), "stolen").unwrap_err().to_string();
            assert!(said.contains("symbolic link of another user (uid 12345)"), "{said}");
        }
        assert_eq!(text(&at("d/file")), "ours");
    }

    #[test]
    fn a_full_disk_is_the_machines_fault_and_a_missing_directory_the_callers() {
        assert_eq!(write(Path::new("/dev/full"), "text").unwrap_err().code, Code::Machine);
        assert_eq!(write(Path::new("/nowhere/at/all"), "text").unwrap_err().code, Code::BadInput);
        assert_eq!(write(Path::new("/dev/null"), "text").map_err(|e| e.to_string()), Ok(()));
    }

    #[test]
    fn devices_and_what_is_too_long_are_not_read() {
        assert_eq!(read(Path::new("/dev/zero"), 100), Err("it is a device".to_owned()));
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("long");
        write(&path, &"x".repeat(1 << 20)).unwrap();
        assert_eq!(read(&path, (1 << 20) - 1), Err("it is longer than 0 MiB".to_owned()));
        assert_eq!(read(&path, 1 << 20).map(|bytes| bytes.len()), Ok(1 << 20));
        // Files of the kernel have no length before they are read.
        assert_eq!(read(Path::new("/proc/self/maps"), 10), Err("it is longer than 0 MiB".to_owned()));
    }
}
