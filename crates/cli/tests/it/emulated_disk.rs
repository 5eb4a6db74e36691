//! Modelled disks under this kernel: what they keep, what they say, and that nothing of them stays.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::{alone, errors, is_root, program, surety, surety_as_nobody, text};

/// A server with its device.
struct Served {
    process: Child,
    said: BufReader<ChildStdout>,
    device: PathBuf,
    /// Its directory in /proc.
    watchdog: PathBuf,
}

impl Served {
    /// `None`, said loudly, where there can be none.
    fn start(directory: &Path, arguments: &[&str]) -> Option<Served> {
        if !is_root() || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
            eprintln!("SKIPPED: modelled disks need root, /dev/fuse and loop devices");
            return None;
        }
        let mut process = Command::new(program())
            .args(["device", "serve"])
            .args(arguments)
            .env("SURETY_RUNTIME_DIR", directory.join("run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let device = PathBuf::from(line.split(' ').next().unwrap());
        assert!(device.starts_with("/dev"), "{line}");
        let watchdog = watchdog_of(process.id());
        Some(Served { process, said, device, watchdog })
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.device).unwrap()
    }

    fn queue(&self, name: &str) -> String {
        let of = Path::new("/sys/block").join(self.device.file_name().unwrap());
        fs::read_to_string(of.join("queue").join(name)).unwrap().trim().to_owned()
    }

    /// Whether the loop device has a file.
    fn is_attached(&self) -> bool {
        let of = Path::new("/sys/block").join(self.device.file_name().unwrap());
        of.join("loop/backing_file").exists()
    }

    /// Whether all that it made is gone, within a time that is far beyond what it takes.
    fn is_gone(&self) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            !self.is_attached() && !self.watchdog.exists()
        })
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// The exit code and what it said at its end.
    fn ended(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap().code(), rest)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Not killed: what is set of the queue is in a journal that goes with the test.
        let _ = Command::new("kill")
            .args(["-INT", &self.process.id().to_string()])
            .stderr(Stdio::null())
            .status();
        let _ = self.process.wait();
    }
}

/// The process that watches a server.
fn watchdog_of(server: u32) -> PathBuf {
    let parent = format!("PPid:\t{server}");
    let mut processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_it = |process: &PathBuf| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        status.starts_with("Name:\tsurety-watchdog") && status.lines().any(|line| line == parent)
    };
    processes.find(is_it).expect("a server that serves is watched")
}

#[test]
fn a_served_disk_keeps_what_is_written_and_is_gone_with_ctrl_c() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let backing = directory.path().join("data");
    let arguments = ["ssd-sata", "--size", "16MiB", "--backing", backing.to_str().unwrap()];
    let Some(mut served) = Served::start(directory.path(), &arguments) else { return };
    assert_eq!([served.queue("rotational"), served.queue("read_ahead_kb")], ["0", "128"]);
    let written: Vec<u8> = (0..3_u32 << 20).map(|n| (n % 251) as u8).collect();
    let file = served.open();
    file.write_all_at(&written, 512 * 7).unwrap();
    file.sync_all().unwrap();
    drop(file);
    served.signal("-INT");
    let (code, said) = served.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("late: mean") && said.contains("disturbed"), "{said}");
    assert!(served.is_gone());
    let mut kept = vec![0; written.len()];
    File::open(&backing).unwrap().read_exact_at(&mut kept, 512 * 7).unwrap();
    assert!(kept == written, "the backing file has what was written to the device");
    drop(served);

    // The same data are there again, and a hard disk knows no discard.
    let arguments = ["hdd-7200", "--size", "16MiB", "--backing", backing.to_str().unwrap()];
    let Some(served) = Served::start(directory.path(), &arguments) else { return };
    assert_eq!(served.queue("rotational"), "1");
    // Of a device that says so for the first time the kernel ends the call well, and offers no discards from then on.
    let discarded = [(); 2].map(|()| Command::new("blkdiscard").arg(&served.device).output());
    assert!(discarded[1].as_ref().map_or(true, |output| !output.status.success()));
    assert_eq!(served.queue("discard_max_bytes"), "0");
    served.open().read_exact_at(&mut kept, 512 * 7).unwrap();
    assert!(kept == written);
}

#[test]
fn a_killed_server_leaves_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for pause in [0, 3, 40] {
        let Some(mut served) = Served::start(directory.path(), &["hdd-7200", "--size", "16MiB"]) else {
            return;
        };
        let traffic: Vec<_> = (0..2)
            .map(|half: u64| {
                let file = served.open();
                std::thread::spawn(move || {
                    // It ends with an error, when its disk is gone.
                    (0_u64..).all(|n| {
                        let at = (half * 1000 + n % 1000) * 4096;
                        file.write_all_at(&[7; 4096], at).and_then(|()| file.sync_data()).is_ok()
                    })
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(pause));
        served.signal("-KILL");
        served.process.wait().unwrap();
        for thread in traffic {
            assert!(!thread.join().unwrap());
        }
        assert!(served.is_gone(), "after {pause} ms");
    }
    // The next start gives the settings of the queue back, and its own end those it made.
    let Some(mut served) = Served::start(directory.path(), &["hdd-7200", "--size", "16MiB"]) else { return };
    served.signal("-INT");
    assert_eq!(served.ended().0, Some(0));
    let journals =
        fs::read_dir(directory.path().join("run")).unwrap().flatten().map(|entry| entry.file_name());
    let journals: Vec<_> = journals.filter(|name| name.to_string_lossy().starts_with("journal-")).collect();
    assert!(journals.is_empty(), "{journals:?}");
}

#[test]
fn a_server_that_stands_still_stops_nobody_else() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(mut served) = Served::start(directory.path(), &["hdd-7200", "--size", "16MiB"]) else { return };
    let file = served.open();
    served.signal("-STOP");
    file.write_all_at(&[7; 1 << 16], 0).unwrap();
    assert!(file.sync_all().is_err(), "nothing was written");
    drop(file);
    served.signal("-CONT");
    let (code, said) = served.ended();
    assert_eq!(code, Some(3));
    assert!(!said.contains("not disturbed"), "{said}");
    assert!(served.is_gone());
}

#[test]
fn what_cannot_be_served_is_refused_in_words_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = surety(&[&["device", "serve"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(words), "{arguments:?}: {}", errors(&output));
    };
    refused(&["hdd-2040"], 2, "there is no disk `hdd-2040`");
    refused(&["hdd-2004", "--size", "1000000B"], 2, "multiple of 4096");
    refused(&["hdd-2004", "--size", "80GB"], 2, "modelled device has");
    refused(&["hdd-2004", "--json"], 2, "no JSON document");
    if is_root() && Path::new("/dev/fuse").exists() {
        refused(&["hdd-7200", "--size", "900GiB"], 3, "does not fit in memory");
        refused(&["null", "--backing", "/dev/null"], 2, "no ordinary file");
    }
    let output = surety_as_nobody(directory.path(), &["device", "serve", "hdd-2004"]).unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("run as root"), "{}", errors(&output));
}

/// A program in a mount namespace whose /dev lacks one device.
const WITHOUT: &str = r#"
dev=$1 gone=$2; shift 2
mount -t tmpfs none "$dev" || exit 99
for name in null zero urandom loop-control fuse; do
    [ $name = $gone ] || cp -a /dev/$name "$dev" || exit 99
done
mount --bind "$dev" /dev || exit 99
exec "$@"
"#;

/// Loop devices with a file.
fn attached() -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path());
    devices.filter(|device| device.join("loop/backing_file").exists()).collect()
}

#[test]
fn without_fuse_or_loop_devices_it_is_refused_in_words_and_nothing_is_made() {
    let _alone = alone();
    if !is_root() {
        return eprintln!("SKIPPED: a mount namespace needs root");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.toml");
    let workload = "format = 1\n[disk.d]\nmake = \"16MiB\"\nmodel = \"hdd-7200\"\n\
                    [[load]]\nname = \"r\"\nkind = \"readers\"\ncount = 1\ndisk = \"d\"\nsize = \"1MiB\"\n";
    fs::write(&path, workload).unwrap();
    let dev = directory.path().join("dev");
    fs::create_dir(&dev).unwrap();
    let before = attached();
    for (gone, words) in [("fuse", "CONFIG_FUSE_FS, modprobe fuse"), ("loop-control", "CONFIG_BLK_DEV_LOOP")]
    {
        let run = ["run", path.to_str().unwrap(), "--on", "host", "--for", "1s", "--no-trace"];
        for arguments in [["device", "serve", "hdd-7200"].as_slice(), &run] {
            let output = Command::new("unshare")
                .args([
                    "--mount",
                    "sh",
                    "-c",
                    WITHOUT,
                    "sh",
                    dev.to_str().unwrap(),
                    gone,
                    program().to_str().unwrap(),
                ])
                .args(arguments)
                .env("SURETY_RUNTIME_DIR", directory.path().join("run"))
                .output();
            let output = match output {
                Ok(output) if output.status.code() != Some(99) => output,
                other => return eprintln!("SKIPPED: no mount namespace: {other:?}"),
            };
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(3), "{gone}: {said}");
            assert!(said.contains(words), "{gone}: {said}");
        }
    }
    assert_eq!(attached(), before);
}

/// What is no FUSE at all is found out when it is mounted: the file of the data was made by then.
#[test]
fn a_disk_that_cannot_be_made_leaves_no_file() {
    let _alone = alone();
    if !is_root() || !Path::new("/dev/fuse").exists() {
        return eprintln!("SKIPPED: a mount namespace needs root, and /dev/fuse something to put over it");
    }
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let script = "mount --bind /dev/null /dev/fuse || exit 99; exec \"$0\" device serve emmc --size 16MiB --backing \"$1\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, program().to_str().unwrap(), data.to_str().unwrap()])
        .env("SURETY_RUNTIME_DIR", directory.path().join("run"))
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(99) => output,
        other => return eprintln!("SKIPPED: no mount namespace: {other:?}"),
    };
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(!data.exists());
}

#[test]
fn a_run_on_a_modelled_disk_says_what_it_was_and_how_late() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.toml");
    let workload = "format = 1\n[disk.d]\nmake = \"64MiB\"\nmodel = \"hdd-7200\"\nscheduler = \"bfq\"\n\
                    [[stream]]\nname = \"movie\"\ncount = 2\ndisk = \"d\"\nfile = { make = \"8MB\" }\nrate = \"1MB/s\"\n\
                    read = \"64KiB\"\npromise = [\"late == 0\"]\n";
    fs::write(&path, workload).unwrap();
    let output =
        surety(&["run", path.to_str().unwrap(), "--on", "host", "--for", "1s", "--no-trace", "--json"]);
    if output.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", errors(&output));
        return;
    }
    let said = text(&output);
    for words in
        ["hdd-7200, its first 64MiB in memory", "requests at a time, the disk takes 32", "disk d lateness"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    // Making the file system has some kernels compute it anew.
    assert_eq!(said["results"][0]["in_force"]["environment"]["disk d read-ahead"], "128 KiB");
    let machine = &said["results"][0]["in_force"]["machine"];
    let files = machine["files"][0]["files"].as_array().unwrap();
    let sectors: Vec<u64> = files.iter().map(|file| file["pieces"][0]["sector"].as_u64().unwrap()).collect();
    // Where the file system put its two files, beyond its own blocks and not over one another.
    assert_eq!(sectors.len(), 2, "{machine}");
    assert!(sectors[0].abs_diff(sectors[1]) >= 8_000_000 / 512, "{sectors:?}");
    assert!(sectors.iter().all(|sector| (8..(64 << 20) / 512).contains(sector)), "{sectors:?}");
}
