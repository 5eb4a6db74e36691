//! Disks that a mount sets for its streams: while it is there, and given back whatever ends it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use surety_kernel::block::BlockDevice;
use surety_kernel::mount::{DetachedMount, unmount};

use crate::common::{alone, errors, is_root, program, surety};

/// A loop device of ours with a film on it.
struct Films {
    device: BlockDevice,
    directory: PathBuf,
}

impl Films {
    /// `None`, said loudly, where there can be none.
    fn make(room: &Path) -> Option<Films> {
        if !is_root() || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
            eprintln!("SKIPPED: disks of a test need root, /dev/fuse and loop devices");
            return None;
        }
        let image = room.join("image");
        let backing = File::options().read(true).write(true).create_new(true).open(&image).unwrap();
        backing.set_len(32 << 20).unwrap();
        assert!(Command::new("mkfs.ext4").arg("-q").arg(&image).status().unwrap().success());
        let device = BlockDevice::on_file(&backing).unwrap();
        let directory = room.join("films");
        fs::create_dir_all(&directory).unwrap();
        DetachedMount::of_device(c"ext4", device.path()).unwrap().attach(&directory).unwrap();
        fs::write(directory.join("film"), vec![7; 300_000]).unwrap();
        fs::create_dir(room.join("place")).unwrap();
        Some(Films { device, directory })
    }

    /// What its queue is set to: scheduler and limits.
    fn settings(&self) -> Vec<String> {
        let names = ["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"];
        names.iter().map(|name| self.device.queue(name).unwrap_or_default()).collect()
    }

    fn is_prepared(&self) -> bool {
        let is = |name: &str, value: &str| self.device.queue(name).as_deref() == Some(value);
        self.settings()[0].contains("[mq-deadline]")
            && is("max_sectors_kb", "128")
            && is("iosched/async_depth", "16")
            && is("iosched/prio_aging_expire", "3600000")
    }
}

impl Drop for Films {
    fn drop(&mut self) {
        let _ = unmount(&self.directory, std::thread::panicking());
    }
}

/// A mount of the films; ended with the test where that fails.
struct Mounted(Child);

impl Mounted {
    /// And what it noted before it was there.
    fn start(room: &Path, arguments: &[&str]) -> (Mounted, String) {
        let mut process = Command::new(program())
            .args(["stream", "mount", "--rate", "100MB/s"])
            .args(["films", "place"].map(|name| room.join(name)))
            .args(arguments)
            .env("SURETY_RUNTIME_DIR", room.join("run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mut mounted = Mounted(process);
        if !line.contains(" shows ") {
            panic!("{}", mounted.ended("-KILL").1);
        }
        (mounted, line)
    }

    /// Its exit code and what it noted, after a signal.
    fn ended(&mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let mut noted = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut noted).unwrap();
        let status = self.0.wait().unwrap();
        (status.code().or(status.signal()), noted)
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args([signal, &id]).stderr(Stdio::null()).status();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("-INT");
        }
    }
}

#[test]
fn a_mount_sets_its_disk_and_gives_it_back() {
    let _alone = alone();
    let room = tempfile::tempdir().unwrap();
    let Some(films) = Films::make(room.path()) else { return };
    let before = films.settings();
    // Not asked for: as it is, and what that lacks is said.
    let (mut plain, _) = Mounted::start(room.path(), &[]);
    assert_eq!(films.settings(), before);
    let (code, noted) = plain.ended("-INT");
    assert_eq!(code, Some(0), "{noted}");
    assert!(
        noted.contains("may let others go before streams") && noted.contains("--prepare gives it"),
        "{noted}"
    );

    let (mut prepared, _) = Mounted::start(room.path(), &["--prepare"]);
    assert!(films.is_prepared(), "{:?}", films.settings());
    assert_eq!(fs::read(room.path().join("place/film")).unwrap(), vec![7; 300_000]);
    let (code, noted) = prepared.ended("-INT");
    assert_eq!((code, films.settings()), (Some(0), before.clone()), "{noted}");
    assert!(noted.contains("until the mount is gone"), "{noted}");

    // Killed: the journal says at the next start what was set.
    let (mut killed, _) = Mounted::start(room.path(), &["--prepare"]);
    assert_eq!(killed.ended("-KILL").0, Some(9));
    assert!(films.is_prepared());
    let (mut next, _) = Mounted::start(room.path(), &[]);
    assert_eq!(films.settings(), before);
    assert_eq!(next.ended("-INT").0, Some(0));
}

#[test]
fn what_is_on_no_disk_is_not_prepared() {
    let room = tempfile::tempdir().unwrap();
    let place = room.path().to_str().unwrap();
    let output = surety(&["stream", "mount", "/proc", place, "--rate", "1MB/s", "--prepare"]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("below /proc is no disk to prepare"), "{}", errors(&output));
}
