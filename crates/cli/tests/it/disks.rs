//! Disks bound to a run, and what goes wrong on disks under loads, streams and start-ups.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{alone, errors, is_root, program, surety, surety_as_nobody, text};

/// A loop device on a file; detached when dropped.
struct Loop {
    device: String,
    backing: PathBuf,
}

impl Loop {
    /// `None`, said loudly, where there are none.
    fn attach(directory: &Path, megabytes: u64) -> Option<Loop> {
        let backing = directory.join("backing");
        std::fs::File::create(&backing).unwrap().set_len(megabytes << 20).unwrap();
        let attached = Command::new("losetup").args(["-f", "--show"]).arg(&backing).output();
        let Some(attached) = attached.ok().filter(|o| o.status.success()) else {
            eprintln!("SKIPPED: losetup attaches nothing here");
            return None;
        };
        if Command::new("mkfs.ext4").arg("-V").output().is_err() {
            eprintln!("SKIPPED: no mkfs.ext4 (package e2fsprogs)");
            return None;
        }
        Some(Loop { device: text(&attached).trim().to_owned(), backing })
    }

    fn binding(&self) -> String {
        format!("d={}", self.device)
    }

    fn scheduler(&self) -> String {
        let name = self.device.trim_start_matches("/dev/");
        std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap()
    }

    /// Names in the root of its file system, read past every mount.
    fn names(&self) -> Option<String> {
        let listed = Command::new("debugfs").args(["-R", "ls -p", &self.device]).output().ok()?;
        Some(text(&listed))
    }

    /// Takes the content away while something uses it, after a time.
    fn vanish_after(&self, time: Duration) -> std::thread::JoinHandle<()> {
        let (device, backing) = (self.device.clone(), self.backing.clone());
        std::thread::spawn(move || {
            std::thread::sleep(time);
            std::fs::File::options().write(true).open(backing).unwrap().set_len(0).unwrap();
            Command::new("losetup").args(["-c", &device]).status().unwrap();
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

fn write(directory: &Path, body: &str) -> String {
    let path = directory.join("w.toml");
    std::fs::write(&path, format!("format = 1\n{body}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A recording of so many reads with so much thinking before each.
fn recording(directory: &Path, reads: usize, think: &str) -> String {
    let line = |i: usize| format!("p-1 {think} 8 {} Rand 0 0 R 0 C\n", 1000 + i * 8 % 800);
    let path = directory.join("small.trace");
    std::fs::write(&path, (0..reads).map(line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(path: &str, seconds: &str, device: &Loop) -> Output {
    surety(&["run", path, "--for", seconds, "--no-trace", "--verbose", "--disk", &device.binding()])
}

#[test]
fn start_ups_on_a_bound_disk_leave_nothing_on_it_and_it_can_be_used_again() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = Loop::attach(directory.path(), 64) else { return };
    let before = device.scheduler();
    let body = format!(
        "[disk.d]\nscheduler = \"mq-deadline\"\n\
         [[startup]]\nname = \"shell\"\ndisk = \"d\"\ncold = true\nrepeat = 2\ngap = \"10ms\"\n\
         prepare = \"cp -L /bin/sh sh\"\ncommand = \"./sh -c true\"\n\
         [[startup]]\nname = \"replay\"\ndisk = \"d\"\ncold = true\nrepeat = 2\ngap = \"10ms\"\nreplay = {:?}\n",
        recording(directory.path(), 20, ".0001")
    );
    let path = write(directory.path(), &body);
    // The second finds the file system that the first made.
    for turn in 0..2 {
        let output = run(&path, "3s", &device);
        let said = errors(&output);
        if said.contains("no scheduler") {
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert_eq!(output.status.code(), Some(0), "turn {turn}: {said}");
        let table = text(&output);
        assert!(table.contains("unmounted and mounted again before each"), "{table}");
        assert!(table.contains(&device.device), "{table}");
        assert_eq!(device.scheduler(), before, "turn {turn}");
        match device.names() {
            Some(names) => {
                assert!(names.contains("lost+found"), "turn {turn}: {names}");
                assert!(!names.contains("surety-startup"), "turn {turn}: {names}");
            }
            None => eprintln!("SKIPPED what is on the disk: no debugfs"),
        }
    }
}

#[test]
fn a_disk_that_goes_away_under_a_start_up_ends_the_run_in_words_and_keeps_its_scheduler() {
    let _alone = alone();
    let often = "disk = \"d\"\nrepeat = 100000\ngap = \"1ms\"\n";
    let fill = "prepare = \"sh -c 'cp -L /bin/sh sh; head -c 4M /dev/urandom > part'\"\ncommand = \"./sh -c 'cat part > /dev/null'\"\n";
    for (what, cold) in [("program", true), ("program", false), ("replay", true)] {
        let directory = tempfile::tempdir().unwrap();
        let Some(device) = Loop::attach(directory.path(), 64) else { return };
        let before = device.scheduler();
        let body = match what {
            "replay" => format!("replay = {:?}\n", recording(directory.path(), 4000, ".001")),
            _ => fill.to_owned(),
        };
        // A load that holds the disk open has the pages dropped, not the disk unmounted.
        let reader = "[[load]]\nname = \"w\"\nkind = \"readers\"\ndisk = \"d\"\nsize = \"1MiB\"\n";
        let body = format!(
            "[disk.d]\nscheduler = \"mq-deadline\"\n{}[[startup]]\nname = \"s\"\ncold = true\n{often}{body}",
            if cold { "" } else { reader }
        );
        let path = write(directory.path(), &body);
        let vanished = device.vanish_after(Duration::from_secs(4));
        let output = run(&path, "600s", &device);
        vanished.join().unwrap();
        let said = errors(&output);
        if said.contains("no scheduler") {
            eprintln!("SKIPPED: {said}");
            return;
        }
        // 2 where the program's own failure is all that is known, 3 where the disk itself was seen to fail.
        let code = output.status.code();
        assert!(matches!(code, Some(2 | 3)), "{what} {cold}: {code:?} {said}");
        assert!(said.contains("startup.s") || said.contains("disk.d"), "{what} {cold}: {said}");
        assert!(!said.contains("panicked"), "{what} {cold}: {said}");
        if what == "replay" {
            assert_eq!(code, Some(3), "{said}");
        }
        assert_eq!(device.scheduler(), before, "{what} {cold}");
    }
}

#[test]
fn a_full_disk_is_told_of_whatever_fills_it() {
    if !is_root() {
        eprintln!("SKIPPED: only root has loop devices");
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    // Places far apart keep 64 KiB between them, so this needs 64 MiB and more.
    let mut spread = String::new();
    for i in 0..1000 {
        spread += &format!("p-1 .0001 8 {} Rand 0 0 R 0 C\n", i * 100_000);
    }
    let wide = directory.path().join("wide.trace");
    std::fs::write(&wide, spread).unwrap();
    let cases = [
        ("[[load]]\nname = \"x\"\nkind = \"file-copy\"\nsize = \"64MiB\"\n".to_owned(), 3),
        ("[[stream]]\nname = \"x\"\nfile = { make = \"64MB\" }\nrate = \"1MB/s\"\n".to_owned(), 3),
        ("[[stream]]\nname = \"x\"\nfile = { make = \"64MB\" }\nrate = \"1MB/s\"\nwrite = true\n".to_owned(), 3),
        (
            "[[startup]]\nname = \"x\"\nprepare = \"sh -c 'head -c 64M /dev/zero > big'\"\ncommand = \"true\"\n"
                .to_owned(),
            2,
        ),
        (format!("[[startup]]\nname = \"x\"\nreplay = {wide:?}\n"), 3),
    ];
    for (body, code) in cases {
        let path = write(directory.path(), &format!("[disk.d]\nmake = \"24MiB\"\n{body}disk = \"d\"\n"));
        let output = surety(&["run", &path, "--for", "500ms", "--no-trace"]);
        let said = errors(&output);
        if said.contains("e2fsprogs") || said.contains("loop") {
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert_eq!(output.status.code(), Some(code), "{body}: {said}");
        let is_full = said.contains("No space left") || said.contains("are free on disk `d`");
        assert!(is_full && said.contains(".x"), "{body}: {said}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_told_of_by_streams_disks_and_start_ups() {
    let directory = tempfile::tempdir().unwrap();
    let stream = "[[stream]]\nname = \"x\"\nfile = { make = \"1MB\" }\nrate = \"1MB/s\"\n";
    let startup = "[disk.x]\nmake = \"24MiB\"\n[[startup]]\nname = \"y\"\ndisk = \"x\"\ncommand = \"true\"\n";
    for body in [stream, startup] {
        let path = write(directory.path(), body);
        let output = Command::new(program())
            .args(["run", &path, "--for", "500ms", "--no-trace"])
            .env("TMPDIR", "/proc")
            .output()
            .unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(3), "{body}: {said}");
        assert!(said.contains(".x") && said.contains("TMPDIR"), "{body}: {said}");
    }
}

#[test]
fn without_the_privilege_disks_and_networks_are_refused_in_words() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let body = "[disk.d]\nmake = \"24MiB\"\n[[startup]]\nname = \"s\"\ndisk = \"d\"\ncommand = \"true\"\n";
    let path = write(directory.path(), body);
    let Some(output) = surety_as_nobody(directory.path(), &["run", &path, "--for", "500ms", "--no-trace"])
    else {
        eprintln!("SKIPPED: no other user can be had");
        return;
    };
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("disk.d") && said.contains("root"), "{said}");
    let arguments = ["reproduce", "interpacket", "--for", "200ms"];
    let output = surety_as_nobody(directory.path(), &arguments).expect("it could run a moment ago");
    let said = format!("{}{}", text(&output), errors(&output));
    assert!(said.contains("CAP_SYS_ADMIN"), "{said}");
    // The published rows are shown; those of this machine are not run.
    assert_eq!(output.status.code(), Some(4), "{said}");
}
