//! Programs in C99 and C++11 against the header and the library, linked both ways: every byte compared, every error in words, as root and as nobody.
//! And header, library and crate have the same functions and structures.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use surety_kernel::block::BlockDevice;
use surety_kernel::extents::pieces_of;
use surety_kernel::mount::{DetachedMount, unmount};
use surety_stream_c::{Contract, PAUSED, REPEATS, Stats};
use tempfile::TempDir;

const EBUSY: i32 = 16;
const SIGKILL: i32 = 9;

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// What cargo built beside this test.
fn built(file: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(file)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Does what a command line says; `None`, said aloud: there is no such program.
fn done(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {} cannot be started: {error}", command.get_program().display());
            None
        }
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// A directory that every user can look into, with a file of 300,007 bytes that all differ from their neighbours'.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        fs::write(place.file("film"), (0..300_007).map(byte).collect::<Vec<u8>>()).unwrap();
        fs::copy(place.file("film"), place.file("spoilt")).unwrap();
        fs::copy(place.file("film"), place.file("changed")).unwrap();
        fs::write(place.file("another"), (0..250_001).map(|at| !byte(at)).collect::<Vec<u8>>()).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program against the shared library, in C99, or against the archive, in C++11.
    fn program(&self, compiler: &str, arguments: &[&str], name: &str) -> Option<PathBuf> {
        let program = self.file(name);
        let mut command = Command::new(compiler);
        command.args(arguments).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        command.arg("-I").arg(here("include")).arg("-o").arg(&program).arg(here("tests/programs/check.c"));
        if arguments.contains(&"-static-libgcc") {
            let archive = built("libsurety_stream_c.a");
            let template = text(&here("surety-stream.pc.in"));
            let needed = template.lines().find_map(|line| line.strip_prefix("needed=")).unwrap();
            command.args(["-x", "none"]).arg(archive).args(needed.split(' '));
        } else {
            let (shared, linked) = (built("libsurety_stream_c.so"), self.file("libsurety-stream.so"));
            symlink(&shared, self.file("libsurety-stream.so.0")).unwrap();
            symlink(&shared, &linked).unwrap();
            command.arg("-L").arg(self.0.path()).arg("-lsurety-stream");
        }
        let output = done(&mut command)?;
        assert!(output.status.success(), "{compiler}: {}", words(&output));
        Some(program)
    }

    fn c99(&self) -> Option<PathBuf> {
        self.program("cc", &["-std=c99"], "c99")
    }

    fn cpp11(&self) -> Option<PathBuf> {
        self.program("c++", &["-x", "c++", "-std=c++11", "-static-libgcc"], "cpp11")
    }

    /// Runs a program on the film: what it printed.
    fn check(&self, program: &Path, what: &str, file: &str, other: &str) -> String {
        let mut command = Command::new(program);
        command.arg(what).arg(self.file(file)).arg(self.file(other));
        let output = command.env("LD_LIBRARY_PATH", self.0.path()).output().unwrap();
        assert!(
            output.status.success(),
            "{} {what}: {:?} {}",
            program.display(),
            output.status,
            words(&output)
        );
        words(&output)
    }

    fn check_all(&self, program: &Path) {
        self.check(program, "read", "film", "");
        self.check(program, "move", "film", "");
        self.check(program, "errors", "spoilt", "");
        // Not even a contract that was refused has emptied it, nor a writer that wrote nothing.
        assert!(fs::read(self.file("spoilt")).unwrap() == fs::read(self.file("film")).unwrap());
        self.check(program, "write", "written", "film");
        self.check(program, "threads", "film", "");
        self.check(program, "modes", "film", "");
        self.check(program, "changes", "changed", "another");
        let printed = self.check(program, "layout", "film", "");
        assert_eq!(printed.lines().collect::<BTreeSet<_>>(), layout().iter().map(String::as_str).collect());
    }
}

/// Sizes of the structures, and where their fields are, as the crate has them.
fn layout() -> Vec<String> {
    macro_rules! fields {
        ($of:ident, $name:literal, [$($field:ident)*]) => {
            vec![
                format!("{} {}", $name, size_of::<$of>()),
                $(format!("{}.{} {} 8", $name, stringify!($field), offset_of!($of, $field)),)*
            ]
        };
    }
    let contract = fields!(Contract, "surety_contract", [
        size rate access jitter_ns batch buffer bound_ns length flush_ns flags
    ]);
    let stats = fields!(Stats, "surety_stats", [
        size batches bytes worst_batch_ns worst_in_device_ns beyond_bound least_ahead under_runs waited_queue_ns waited_device_ns
        waited_cpu_ns buffer syncs worst_sync_ns waited_serving_cpu_ns waited_page_cache_ns waited_metadata_ns rests rested_ns longest_rest_ns
    ]);
    // No field is left out above.
    assert_eq!((contract.len() - 1) * 8, size_of::<Contract>());
    assert_eq!((stats.len() - 1) * 8, size_of::<Stats>());
    [contract, stats, vec![format!("flags {REPEATS} {PAUSED}")]].concat()
}

#[test]
fn a_program_in_c99_with_the_shared_library() {
    let place = Place::new();
    if let Some(program) = place.c99() {
        place.check_all(&program);
    }
}

#[test]
fn a_program_in_cpp11_with_the_archive() {
    let place = Place::new();
    let Some(program) = place.cpp11() else { return };
    place.check_all(&program);
    let printed = place.check(&program, "level", "film", "");
    let (level, reasons) = printed.split_once('\n').unwrap();
    assert_eq!(level == "observed", !reasons.is_empty(), "{printed}");

    // Nobody has no real-time priority at a disk, and that is said; the bytes are the same, which the program compares.
    let mut as_nobody = Command::new(&program);
    if is_root() {
        as_nobody = Command::new("setpriv");
        as_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    }
    let Some(output) = done(as_nobody.arg("level").arg(place.file("film"))) else { return };
    assert!(output.status.success(), "{}", words(&output));
    let printed = words(&output);
    assert!(printed.starts_with("observed\n") && printed.contains("no priority at the disk"), "{printed}");
}

/// A file system on a loop device below the place, with the film in it; `None`, said aloud: there are no such devices here.
struct Disk {
    backing: fs::File,
    path: PathBuf,
    _device: BlockDevice,
}

impl Disk {
    fn below(place: &Place) -> Option<Disk> {
        let (backing, path) = (fs::File::create_new(place.file("backing")).unwrap(), place.file("disk"));
        backing.set_len(16 << 20).unwrap();
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-b", "4096", "-O", "^has_journal"]).arg(place.file("backing"));
        let made = done(&mut mkfs)?;
        assert!(made.status.success(), "{}", words(&made));
        let backing = fs::File::options().read(true).write(true).open(place.file("backing")).unwrap();
        let device = BlockDevice::on_file(&backing).map_err(|error| eprintln!("SKIPPED: {error}")).ok()?;
        fs::create_dir(&path).unwrap();
        DetachedMount::of_device(c"ext4", device.path()).unwrap().attach(&path).unwrap();
        fs::copy(place.file("film"), path.join("film")).unwrap();
        fs::File::open(path.join("film")).unwrap().sync_all().unwrap();
        Some(Disk { backing, path, _device: device })
    }
}

/// A program that reads and writes is killed: its process, its threads and the memory they had locked are gone, and nothing of its files is open, for
/// what they are on can be unmounted.
#[test]
fn nothing_is_left_of_a_program_that_is_killed() {
    let place = Place::new();
    let Some(program) = place.c99() else { return };
    let Some(disk) = Disk::below(&place) else { return };
    let mut command = Command::new(&program);
    command.arg("holds").arg(disk.path.join("film")).arg(disk.path.join("written"));
    command.env("LD_LIBRARY_PATH", place.0.path()).stdout(Stdio::piped());
    let mut killed = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(killed.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "holds\n");
    let process = PathBuf::from(format!("/proc/{}", killed.id()));
    let threads = || fs::read_dir(process.join("task")).map_or(0, Iterator::count);
    assert!(threads() >= 2, "the one that serves the disk");
    assert_eq!(unmount(&disk.path, false).unwrap_err().errno, EBUSY);
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(SIGKILL));
    assert!(!process.exists() && threads() == 0);
    let journals = fs::read_dir("/run/surety").into_iter().flatten().flatten();
    let of_it = |name: &str| name.split(|c: char| !c.is_ascii_digit()).any(|n| n == killed.id().to_string());
    let left: Vec<_> =
        journals.map(|entry| entry.file_name()).filter(|n| of_it(&n.to_string_lossy())).collect();
    assert!(left.is_empty(), "{left:?}");
    // The kernel ends the transfers of a ring behind the process.
    let unmounted = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        unmount(&disk.path, false).is_ok()
    });
    assert!(unmounted, "something of it is still open");
}

/// A file on a loop device whose own file ends within it: EIO from there on, in C as well.
#[test]
fn a_program_on_a_device_that_fails() {
    const BAD: u64 = 40 * 4096;
    let place = Place::new();
    let Some(program) = place.c99() else { return };
    let Some(Disk { backing, path: disk, _device }) = Disk::below(&place) else { return };
    let film = fs::File::open(disk.join("film")).unwrap();
    let sector = pieces_of(&film).unwrap()[0].1;
    backing.set_len(sector * 512 + BAD).unwrap();
    drop(film);
    let printed = place.check(&program, "fails", "disk/film", "film");
    assert_eq!(printed.trim(), BAD.to_string());
    // Nothing of it is open any more.
    unmount(&disk, false).unwrap();
}

/// Names that begin like this library's, by what splits words.
fn functions(text: &str) -> BTreeSet<String> {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.filter(|name| name.starts_with("surety_")).map(str::to_owned).collect()
}

#[test]
fn header_and_library_have_the_same_functions() {
    let header = text(&here("include/surety-stream.h"));
    // Without comments, what has a parenthesis behind it is declared.
    let code: String =
        header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let declared: BTreeSet<String> = code
        .split('(')
        .filter_map(|part| functions(part.split(['*', ' ']).next_back()?).pop_last())
        .collect();
    assert!(declared.len() > 15, "{declared:?}");
    let shared = built("libsurety_stream_c.so");
    let Some(output) = done(Command::new("nm").args(["-D", "--defined-only"]).arg(&shared)) else { return };
    // And nothing else is seen from outside.
    let exported: BTreeSet<String> =
        words(&output).lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect();
    assert_eq!(exported, declared);
    // Each is explained, and in its page.
    let page = text(&here("../../docs/c-library.md"));
    for name in &declared {
        assert!(page.contains(&format!("`{name}")), "docs/c-library.md does not name {name}");
    }
    assert!(header.contains(&format!("#define SURETY_STREAM_VERSION \"{}\"", env!("CARGO_PKG_VERSION"))));
}
