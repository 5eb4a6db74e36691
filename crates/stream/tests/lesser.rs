//! Streams where something is missing: memory that may be locked, io_uring, direct access. Every byte is compared, the level and its
//! reason are in words, and nothing stays locked or open.
//!
//! What is missing is taken from a process of its own, which is this program once more, with [`reads_a_file`] alone.

#![allow(clippy::unwrap_used)]

use std::ffi::{CString, c_ulong};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use surety_stream::{Contract, Level, Station, StationSettings};
use surety_units::Rate;

const LENGTH: u64 = 700_001;
/// Names the file to the process of its own.
const FILE: &str = "SURETY_TEST_STREAM";
const CAP_IPC_LOCK: c_ulong = 14;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn film(directory: &Path) -> PathBuf {
    let path = directory.join("film");
    let mut file = File::create(&path).unwrap();
    file.write_all(&(0..LENGTH).map(byte).collect::<Vec<u8>>()).unwrap();
    file.sync_all().unwrap();
    path
}

/// Bytes that are locked in memory, in kB, and open descriptors.
fn held() -> (u64, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    let locked = locked.trim().trim_end_matches(" kB").parse().unwrap();
    (locked, fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
#[ignore = "the other tests of this file start it, in a process of its own"]
fn reads_a_file() {
    let path = PathBuf::from(std::env::var_os(FILE).expect("the other tests name it"));
    let before = held();
    let station = Station::start(StationSettings::default()).unwrap();
    let mut stream = station.open(&path, &Contract::new(Rate(200_000_000)).with_batch(64 << 10)).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.len() as u64 == LENGTH && (0..LENGTH).all(|at| all[at as usize] == byte(at)), "wrong bytes");
    println!("level: {:?}; locked: {} kB", stream.level(), held().0);
    stream.caveats().iter().for_each(|caveat| println!("caveat: {caveat}"));
    assert!(stream.level() == Level::Observed || stream.caveats().is_empty());
    drop((stream, station));
    assert_eq!(held(), before, "locked memory and open descriptors");
}

/// What such a process says of its stream; `None`, said aloud: this user may not take away what is to be missing.
fn in_a_process(
    path: &Path,
    without: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "reads_a_file", "--ignored", "--nocapture"]).env(FILE, path);
    // SAFETY: `without` makes system calls alone, with what was made before the fork.
    unsafe { command.pre_exec(without) };
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
            Some(said)
        }
        Err(error) => {
            eprintln!("SKIPPED: this user may not take it away: {error}");
            None
        }
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn with_too_little_memory_to_lock_a_stream_is_observed() {
    let directory = tempfile::tempdir().unwrap();
    let said = in_a_process(&film(directory.path()), || {
        let limit = libc::rlimit { rlim_cur: 16 << 10, rlim_max: 16 << 10 };
        // SAFETY: the limit is read within the call; who may not drop the right does not have it.
        unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_IPC_LOCK);
            done(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit))
        }
    });
    if let Some(said) = said {
        assert!(said.contains("level: Observed; locked: 0 kB"), "{said}");
        assert!(said.contains("caveat: its buffer is not locked in memory: "), "{said}");
    }
}

/// Lets `io_uring_setup` fail as on a kernel without it (`seccomp(2)`).
fn without_io_uring() -> io::Result<()> {
    let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap_or(u32::MAX);
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let step = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, setup, 1),
        step(libc::BPF_RET | libc::BPF_K, missing, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    // SAFETY: the program and its steps are read within the calls.
    unsafe {
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        done(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program))
    }
}

#[test]
fn without_io_uring_a_stream_is_observed() {
    let directory = tempfile::tempdir().unwrap();
    if let Some(said) = in_a_process(&film(directory.path()), without_io_uring) {
        assert!(said.contains("level: Observed"), "{said}");
        assert!(
            said.contains("caveat: one batch at a time is fetched: ") && said.contains("io_uring"),
            "{said}"
        );
    }
}

/// A directory in memory; `None`, said aloud: there is none here.
fn in_memory() -> Option<tempfile::TempDir> {
    let made = tempfile::tempdir_in("/dev/shm");
    made.map_err(|error| eprintln!("SKIPPED: no file system in memory: {error}")).ok()
}

#[test]
fn on_a_file_system_in_memory_a_stream_is_observed() {
    let Some(directory) = in_memory() else { return };
    let said = in_a_process(&film(directory.path()), || Ok(())).expect("nothing is taken away");
    assert!(said.contains("level: Observed"), "{said}");
    assert!(says_why(&said), "{said}");
}

/// Up to 6.5 such a file system has no direct access; later ones allow it, and do not say where a file lies.
fn says_why(said: &str) -> bool {
    said.contains("caveat: ") && (said.contains("direct") || said.contains("where it lies is not known"))
}

#[test]
fn on_an_overlay_of_it_a_stream_is_observed() {
    let Some(directory) = in_memory() else { return };
    let of = |name: &str| {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work, merged) = (of("lower"), of("upper"), of("work"), of("merged"));
    film(&lower);
    let options =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let (options, target) =
        (CString::new(options).unwrap(), CString::new(merged.as_os_str().as_bytes()).unwrap());
    let said = in_a_process(&merged.join("film"), move || {
        // SAFETY: all names are strings that end with 0 and outlive the calls.
        unsafe {
            done(libc::unshare(libc::CLONE_NEWNS))?;
            let private = libc::MS_REC | libc::MS_PRIVATE;
            done(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), private, ptr::null()))?;
            let (kind, options) = (c"overlay".as_ptr(), options.as_ptr().cast());
            done(libc::mount(kind, target.as_ptr(), kind, 0, options))
        }
    });
    if let Some(said) = said {
        assert!(said.contains("level: Observed"), "{said}");
        assert!(says_why(&said), "{said}");
    }
}
