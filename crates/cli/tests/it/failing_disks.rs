//! Modelled disks of which a part fails: what streams give, say and leave, through the library, the mount and a run.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use surety_kernel::mount::{DetachedMount, unmount};
use surety_stream::{Contract, Level, Station, StationSettings, errno_of};
use surety_units::{Nanos, Rate};

use crate::common::{alone, errors, is_root, program, surety, text};

const LENGTH: usize = 1_000_000;
const PAGE: usize = 4096;
/// The first byte of its file that cannot be had.
const BAD: usize = 101 * PAGE;
const EIO: i32 = 5;

/// A byte of one of the files.
fn byte(of: &str, at: usize) -> u8 {
    ((at as u64 ^ (u64::from(of.as_bytes()[0]) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(of: &str) -> Vec<u8> {
    (0..LENGTH).map(|at| byte(of, at)).collect()
}

fn can_fail() -> bool {
    let can = is_root() && Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists();
    if !can {
        eprintln!("SKIPPED: modelled disks need root, /dev/fuse and loop devices");
    }
    can
}

/// An image with three files, and where in it the page of each is that is to be bad.
fn image(directory: &Path, names: [&str; 3]) -> (PathBuf, [usize; 3]) {
    let (films, image) = (directory.join("films"), directory.join("image"));
    fs::create_dir(&films).unwrap();
    names.iter().for_each(|name| fs::write(films.join(name), bytes(name)).unwrap());
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-b", "4096", "-O", "^has_journal", "-d"])
        .args([&films, &image])
        .arg("32M")
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let whole = fs::read(&image).unwrap();
    let bad = |name: &str| {
        let wanted = &bytes(name)[BAD..BAD + PAGE];
        whole.chunks(PAGE).position(|page| page == wanted).unwrap() * PAGE
    };
    (image, names.map(bad))
}

/// A program that runs until it is told to end; the first line that it said.
struct Running {
    process: Child,
    line: String,
}

impl Running {
    fn start(directory: &Path, arguments: &[&str]) -> Running {
        let mut process = Command::new(program())
            .args(arguments)
            .env("SURETY_RUNTIME_DIR", directory.join("run"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = process.stdout.as_mut().unwrap();
        // One byte at a time, so that the rest is still to be read.
        while !line.ends_with('\n') {
            let mut one = [0];
            assert!(said.read(&mut one).unwrap() > 0, "{line}");
            line.push(char::from(one[0]));
        }
        Running { process, line }
    }

    /// So that a test that fails leaves nothing behind that waits.
    fn interrupt(&self) -> bool {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status().unwrap().success()
    }

    /// The exit code and the rest of what it said, after Ctrl-C.
    fn ended(mut self) -> (Option<i32>, String) {
        assert!(self.interrupt());
        let mut rest = String::new();
        BufReader::new(self.process.stdout.take().unwrap()).read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.interrupt();
        }
    }
}

/// A station's streams of a file that fails to be read, and of one that fails to be written.
fn through_the_library(films: &Path) {
    let station = Station::start(StationSettings::default()).unwrap();
    let fast = Contract::new(Rate(400_000_000)).with_jitter(Nanos::from_millis(20));
    let mut reader = station.open(&films.join("bad"), &fast).unwrap();
    let mut got = Vec::new();
    let error = reader.read_to_end(&mut got).unwrap_err();
    assert_eq!((got.len(), errno_of(&error)), (BAD, Some(EIO)), "{error}");
    assert!(got.iter().enumerate().all(|(at, got)| *got == byte("bad", at)));
    assert!(error.to_string().contains(&format!("reading at byte {BAD} failed: Input/output error")));

    let path = films.join("record");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut writer = station.write_over(&file, &path, &fast).unwrap();
    let new: Vec<u8> = bytes("new");
    let error = writer.write_all(&new).and_then(|()| writer.flush()).unwrap_err();
    let begin = BAD / (80 << 10) * (80 << 10);
    assert!(error.to_string().contains(&format!("writing at byte {begin} failed: Input/output error")));
    assert_eq!((errno_of(&error), writer.level()), (Some(EIO), Level::Observed));
    assert_eq!(writer.check().map_err(|error| errno_of(&error)), Err(Some(EIO)));
    assert_eq!(writer.finish().map_err(|error| errno_of(&error)), Err(Some(EIO)));
    let mut now = vec![0; LENGTH];
    file.read_exact_at(&mut now, 0).unwrap();
    assert!(now[..begin] == new[..begin], "what lies before is written");
    assert!(
        now[begin..].iter().zip(begin..).all(|(got, at)| [byte("record", at), byte("new", at)].contains(got))
    );
}

/// Any program through the mount: a page at a time to the bad one, past it, and another file beside it.
fn through_the_mount(place: &Path) {
    let (bad, mut good) = (File::open(place.join("bad")).unwrap(), File::open(place.join("good")).unwrap());
    let mut page = [0; PAGE];
    let is_right =
        |page: &[u8], from: usize| page.iter().zip(from..).all(|(got, at)| *got == byte("bad", at));
    for from in (0..BAD).step_by(PAGE) {
        bad.read_exact_at(&mut page, from as u64).unwrap();
        assert!(is_right(&page, from), "at {from}");
    }
    let failed = |from: usize| bad.read_at(&mut [0; PAGE], from as u64).map_err(|e| e.raw_os_error());
    assert_eq!(failed(BAD), Err(Some(EIO)));
    bad.read_exact_at(&mut page, (BAD + PAGE) as u64).unwrap();
    assert!(is_right(&page, BAD + PAGE));
    assert_eq!(failed(BAD), Err(Some(EIO)));
    let mut got = Vec::new();
    good.read_to_end(&mut got).unwrap();
    assert!(got == bytes("good"));
}

#[test]
fn streams_of_a_disk_that_fails_give_what_can_be_had_and_say_the_rest() {
    if !can_fail() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (image, [_, bad, record]) = image(directory.path(), ["good", "bad", "record"]);
    let fails = |at: usize, what: &str| format!("{at}B+{PAGE}B:{what}");
    let (reads, writes) = (fails(bad, "reads"), fails(record, "writes"));
    let image = image.to_str().unwrap();
    let of_disk = ["--size", "32MiB", "--backing", image, "--fail", &reads, "--fail", &writes];
    let disk = Running::start(directory.path(), &[&["device", "serve", "ssd-sata"], &of_disk[..]].concat());
    let device = disk.line.split(' ').next().unwrap();
    let [films, place] = ["disk", "place"].map(|name| directory.path().join(name));
    [&films, &place].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    DetachedMount::of_device(c"ext4", Path::new(device)).unwrap().attach(&films).unwrap();

    let _unmounted = Unmounted(&films);
    through_the_library(&films);
    let [from, to] = [&films, &place].map(|path| path.to_str().unwrap());
    let mount = ["stream", "mount", from, to, "--rate", "400MB/s", "--access", "4KiB"];
    let mount = Running::start(directory.path(), &mount);
    through_the_mount(&place);
    let (code, said) = mount.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains(&format!("observed: reading at byte {BAD} failed: Input/output error (bad)")),
        "{said}"
    );
    // Nothing of it is open any more.
    unmount(&films, false).unwrap();
    let (code, said) = disk.ended();
    assert_eq!(code, Some(0), "{said}");
}

/// Unmounts a place at last, where a test that failed has not.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = unmount(self.0, true);
        }
    }
}

const STREAM: &str = "[[stream]]\nname = \"movie\"\ndisk = \"d\"\nfile = { make = \"2MB\" }\nrate = \"4MB/s\"\nread = \"32KiB\"\n\
batch = \"80KiB\"\njitter = \"100ms\"\nbuffer = \"1MB\"\npromise = \"late == 0\"\n";

/// A run tells where files lie; with a fault in one it fails in words, and so do the worlds that know no faults.
#[test]
fn a_run_on_a_disk_that_fails_says_where_and_keeps_no_promise() {
    if !can_fail() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.toml");
    let run = |verb: &str, faults: &str, more: &[&str]| {
        let disk = format!("format = 1\n[disk.d]\nmodel = \"hdd-2004\"\nmake = \"64MiB\"\n{faults}");
        fs::write(&path, disk + STREAM).unwrap();
        let output = surety(&[&[verb, path.to_str().unwrap()], more].concat());
        (output.status.code(), text(&output), errors(&output))
    };
    let short = ["--no-trace", "--for", "300ms", "--warm-up", "100ms", "--json"];
    let (code, said, noted) = run("run", "", &short);
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{code:?} {noted}"));
    let piece = &document["results"][0]["in_force"]["machine"]["files"][0]["files"][0]["pieces"][0];
    let begin = piece["sector"].as_u64().unwrap_or_else(|| panic!("{document:#}")) * 512;
    let faults = format!("faults = [{{ at = \"{}B\", bytes = \"4KiB\" }}]\n", begin + BAD as u64);
    let (code, said, noted) = run("run", &faults, &short);
    let words =
        format!("stream.movie failed: `the file made for stream.movie`: reading at byte {BAD} failed");
    assert_eq!(code, Some(3), "{said}{noted}");
    assert!(said.contains(&words), "{said}{noted}");
    let (code, said, noted) = run("run", &faults, &["--on", "sim", "--for", "1s"]);
    assert!(code != Some(0) && (said + &noted).contains("requests that fail are not simulated"), "{noted}");
    let (code, said, noted) = run("plan", &faults, &["--cpu-count", "2"]);
    assert_eq!(code, Some(1), "{said}{noted}");
    assert!(said.contains("what cannot be had has no bound"), "{said}{noted}");
    // A fault that the disk does not have, and one of a disk that cannot be had fail.
    let beyond = "faults = [{ at = \"64MiB\", bytes = \"4KiB\" }]\n";
    let (code, said, noted) = run("run", beyond, &short);
    assert_eq!(code, Some(3), "{said}{noted}");
    assert!(said.contains("name a part of the disk"), "{said}{noted}");
}
