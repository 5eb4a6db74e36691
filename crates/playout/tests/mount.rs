//! A directory through its mount: the same names, attributes and bytes, no faster than the contract, and nothing left of it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use surety_kernel::journal::{Journal, RuntimeDir};
use surety_kernel::{Kernel, RealKernel};
use surety_playout::{How, Mount, MountError, Plan};
use surety_stream::{Contract, StationSettings};
use surety_units::{Nanos, Rate};

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(byte).collect()
}

/// Fast enough that no test waits for credit, unless it wants to.
fn fast() -> Contract {
    Contract::new(Rate(4_000_000_000)).with_batch(20_000).with_jitter(Nanos::from_micros(50))
}

/// A read waits for ever after the first batch.
fn slow() -> Contract {
    Contract::new(Rate(1)).with_access(4096).with_batch(4096).with_jitter(Nanos::ZERO)
}

/// Where a test works: a directory to show, a place to show it at, a journal.
struct Bench {
    base: tempfile::TempDir,
    kernel: RealKernel,
    journal: Journal,
}

impl Bench {
    /// `None`, said loudly, where nothing can be mounted.
    fn new() -> Option<Bench> {
        let kernel = RealKernel::new();
        if kernel.effective_user() != 0 || surety_kernel::fuse::is_offered().is_err() {
            eprintln!("SKIPPED: play-out mounts need root and /dev/fuse");
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        ["films", "place"].iter().for_each(|name| fs::create_dir(base.path().join(name)).unwrap());
        let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
        let journal = Journal::open(&kernel, &directory).unwrap();
        Some(Bench { base, kernel, journal })
    }

    fn below(&self, name: &str) -> PathBuf {
        self.base.path().join("films").join(name)
    }

    fn through(&self, name: &str) -> PathBuf {
        self.base.path().join("place").join(name)
    }

    fn film(&self, name: &str, length: usize) {
        let mut file = File::create(self.below(name)).unwrap();
        file.write_all(&bytes(0, length)).unwrap();
        file.sync_all().unwrap();
    }

    fn plan(&self, contract: Contract) -> Plan {
        let [directory, place] = ["films", "place"].map(|name| self.base.path().join(name));
        Plan { directory, place, contract, is_shared: false, station: StationSettings::default() }
    }

    fn mount(&self, contract: Contract) -> Mount<'_> {
        Mount::make(&self.plan(contract), &self.kernel, &self.journal).unwrap()
    }

    fn mounts(&self) -> usize {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        list.lines().filter(|line| line.contains(self.base.path().to_str().unwrap())).count()
    }
}

/// Whether something comes true within a time far beyond what it takes.
fn becomes(what: impl Fn() -> bool) -> bool {
    (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        what()
    })
}

/// Unmounts when the last file is closed for the server too.
fn unmounted(mut mount: Mount<'_>) -> Vec<surety_playout::Served> {
    assert!(becomes(|| mount.open_files() == 0));
    assert!(mount.unmount().unwrap());
    assert!(becomes(|| mount.is_over()));
    assert_eq!(mount.trouble(), None);
    mount.take_served().0
}

#[test]
fn every_byte_is_the_files() {
    let Some(bench) = Bench::new() else { return };
    let lengths = [0, 1, 4095, 4096, 4097, 131_072, 300_001];
    lengths.iter().for_each(|length| bench.film(&format!("f{length}"), *length));
    let mount = bench.mount(fast());
    for length in lengths {
        let read = fs::read(bench.through(&format!("f{length}"))).unwrap();
        assert!(read == bytes(0, length), "{length}");
    }
    // The end first, as players read an index; then here and there; then all of it, beside another reader.
    let mut film = File::open(bench.through("f300001")).unwrap();
    let mut got = vec![0; 5000];
    let mut place = 299_000;
    for _ in 0..40 {
        film.seek(SeekFrom::Start(place)).unwrap();
        let wanted = bytes(place, (300_001 - place as usize).min(5000));
        let mut count = 0;
        while count < wanted.len() {
            count += film.read(&mut got[count..]).unwrap();
        }
        assert!(got[..count] == wanted, "at {place}");
        place = (place * 7919 + 12_345) % 300_000;
    }
    let two: Vec<_> = (0..2)
        .map(|_| {
            let path = bench.through("f300001");
            std::thread::spawn(move || fs::read(path).unwrap() == bytes(0, 300_001))
        })
        .collect();
    assert!(two.into_iter().all(|thread| thread.join().unwrap()));
    // Several threads at several places of one open file.
    std::thread::scope(|scope| {
        for number in 0..4_u64 {
            let film = &film;
            scope.spawn(move || {
                let mut got = vec![0; 3000];
                for round in 0..20 {
                    let at = (number * 70_000 + round * 3000) % 290_000;
                    film.read_exact_at(&mut got, at).unwrap();
                    assert!(got == bytes(at, 3000), "at {at}");
                }
            });
        }
    });
    drop(film);
    let served = unmounted(mount);
    assert!(served.iter().all(|one| matches!(one.how, How::Stream { .. }) || one.bytes == 0));
    assert!(served.iter().any(|one| matches!(&one.how, How::Plainly { why } if why == "is empty")));
    assert_eq!(served.iter().filter(|one| one.path == Path::new("f300001")).count(), 4);
}

#[test]
fn a_mapped_file_is_the_file() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 300_001);
    let mount = bench.mount(fast());
    for kind in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        let film = File::open(bench.through("film")).unwrap();
        // SAFETY: a new mapping to read; its bytes are looked at while it lives and the file keeps its length.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 300_001, libc::PROT_READ, kind, film.as_raw_fd(), 0);
            if at == libc::MAP_FAILED && kind == libc::MAP_SHARED {
                eprintln!("SKIPPED: shared mappings need Linux 6.6");
                continue;
            }
            assert_ne!(at, libc::MAP_FAILED);
            let mapped = std::slice::from_raw_parts(at.cast::<u8>(), 300_001);
            assert!(mapped == bytes(0, 300_001));
            libc::munmap(at, 300_001);
        }
    }
    unmounted(mount);
}

/// What `stat` says of all below a directory, and where links lead.
fn list(root: &Path) -> BTreeMap<PathBuf, ([i64; 5], Option<PathBuf>)> {
    let (mut found, mut left) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(at) = left.pop() {
        let path = root.join(&at);
        let of = fs::symlink_metadata(&path).unwrap();
        if of.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| at.join(entry.unwrap().file_name())));
        }
        let bytes = if of.is_dir() { 0 } else { of.len() as i64 };
        let numbers = [of.mode().into(), bytes, of.mtime(), of.mtime_nsec(), of.nlink() as i64];
        found.insert(at, (numbers, fs::read_link(&path).ok()));
    }
    found
}

#[test]
fn names_and_attributes_are_those_below() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir_all(bench.below("a/b/c")).unwrap();
    for number in 0..300 {
        fs::write(bench.below(&format!("a/b/{number}-{}", "x".repeat(number % 90))), "film").unwrap();
    }
    bench.film("odd name\n \u{fffd}", 10_001);
    fs::set_permissions(bench.below("a/b/c"), PermissionsExt::from_mode(0o750)).unwrap();
    fs::hard_link(bench.below("a/b/0-"), bench.below("again")).unwrap();
    symlink("../nowhere", bench.below("a/link")).unwrap();
    symlink("/etc/passwd", bench.below("away")).unwrap();
    assert!(Command::new("mkfifo").arg(bench.below("pipe")).status().unwrap().success());
    let mount = bench.mount(fast());
    let below = list(&bench.base.path().join("films"));
    assert_eq!(list(&bench.base.path().join("place")), below);
    assert!(below.len() > 305);
    // Links lead where they lead for the program, not for the server.
    assert_eq!(fs::read(bench.through("away")).unwrap(), fs::read("/etc/passwd").unwrap());
    let errno = |result: std::io::Result<File>| result.unwrap_err().raw_os_error();
    assert_eq!(errno(File::open(bench.through("none"))), Some(libc::ENOENT));
    assert_eq!(errno(OpenOptions::new().write(true).open(bench.through("again"))), Some(libc::EROFS));
    assert_eq!(errno(File::create(bench.through("new"))), Some(libc::EROFS));
    assert!(fs::remove_file(bench.through("again")).is_err());
    unmounted(mount);
}

#[test]
fn files_that_change_below_are_as_they_are_now() {
    let Some(bench) = Bench::new() else { return };
    let names = ["grows", "shrinks", "replaced", "removed"];
    names.iter().for_each(|name| bench.film(name, 100_000));
    let mount = bench.mount(fast());
    let open = |name: &str| File::open(bench.through(name)).unwrap();
    let rest = |mut film: &File| {
        let mut all = Vec::new();
        film.read_to_end(&mut all).unwrap();
        all
    };
    let grows = open("grows");
    assert!(rest(&grows) == bytes(0, 100_000));
    let below = OpenOptions::new().write(true).open(bench.below("grows")).unwrap();
    below.write_all_at(&bytes(100_000, 30_001), 100_000).unwrap();
    assert!(rest(&grows) == bytes(100_000, 30_001));
    assert_eq!(grows.metadata().unwrap().len(), 130_001);

    let shrinks = open("shrinks");
    shrinks.read_exact_at(&mut [0; 10], 0).unwrap();
    OpenOptions::new().write(true).open(bench.below("shrinks")).unwrap().set_len(50_000).unwrap();
    let all = rest(&shrinks);
    assert!(all == bytes(0, all.len()) && (50_000..=100_000).contains(&all.len()), "{}", all.len());
    assert_eq!(fs::metadata(bench.through("shrinks")).unwrap().len(), 50_000);

    let replaced = open("replaced");
    fs::write(bench.below("other"), "other").unwrap();
    fs::rename(bench.below("other"), bench.below("replaced")).unwrap();
    assert!(rest(&replaced) == bytes(0, 100_000), "the one that was opened");
    assert_eq!(fs::read(bench.through("replaced")).unwrap(), b"other");
    assert_eq!(replaced.metadata().unwrap().len(), 100_000);

    let removed = open("removed");
    fs::remove_file(bench.below("removed")).unwrap();
    assert!(rest(&removed) == bytes(0, 100_000));
    assert!(!bench.through("removed").exists());

    // A directory that is moved keeps what is in it, under its new name.
    fs::create_dir(bench.below("old")).unwrap();
    bench.film("old/film", 5000);
    assert!(bench.through("old/film").exists());
    fs::rename(bench.below("old"), bench.below("new")).unwrap();
    assert!(!bench.through("old/film").exists());
    assert!(fs::read(bench.through("new/film")).unwrap() == bytes(0, 5000));
    drop((grows, shrinks, replaced, removed));
    unmounted(mount);
}

#[test]
fn no_program_gets_more_than_the_contract() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 1_000_000);
    let (rate, batch, jitter) = (2_000_000_u64, 16_384_u64, Nanos::from_millis(20));
    let contract = Contract::new(Rate(rate)).with_access(8192).with_batch(batch).with_jitter(jitter);
    let mount = bench.mount(contract);
    let mut film = File::open(bench.through("film")).unwrap();
    let begin = Instant::now();
    let most = || {
        let nanos = begin.elapsed().as_nanos() as u64 + jitter.get_unsigned();
        batch + rate * nanos / 1_000_000_000 + 1
    };
    let (mut taken, mut got) = (0, vec![0; 100_000]);
    while taken < 300_000 {
        taken += film.read(&mut got).unwrap() as u64;
        assert!(taken <= most(), "{taken} of {}", most());
    }
    // Nor by going to and fro.
    for at in [900_000, 0, 500_000] {
        film.read_exact_at(&mut got[..100], at).unwrap();
    }
    drop(film);
    let served = unmounted(mount);
    let How::Stream { stats, .. } = &served[0].how else { panic!("{served:?}") };
    assert!(stats.bytes <= most(), "{stats:?}");
    assert_eq!(served[0].jumps, 3);
}

#[test]
fn a_client_that_is_killed_leaves_nothing_and_a_hung_one_holds_up_nobody() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 100_000);
    let mount = bench.mount(slow());
    let dd = |path: &Path| {
        let input = format!("if={}", path.display());
        Command::new("dd").arg(input).args(["of=/dev/null", "bs=4096"]).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut clients: Vec<_> = (0..3).map(|_| dd(&bench.through("film"))).collect();
    assert!(becomes(|| mount.read_files() == 3));
    // They wait for hours; another program does not wait for them.
    assert!(fs::read_dir(bench.through("")).unwrap().count() == 1);
    let mut got = [0; 4096];
    let another = File::open(bench.through("film")).unwrap();
    another.read_exact_at(&mut got, 0).unwrap();
    assert!(got[..] == bytes(0, 4096));
    drop(another);
    std::thread::sleep(Duration::from_millis(30));
    for (number, client) in clients.iter_mut().enumerate() {
        let signal = ["-KILL", "-TERM", "-ALRM"][number];
        assert!(Command::new("kill").args([signal, &client.id().to_string()]).status().unwrap().success());
    }
    let begin = Instant::now();
    assert!(clients.iter_mut().all(|client| !client.wait().unwrap().success()));
    assert!(becomes(|| mount.read_files() == 0), "their streams are gone");
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(unmounted(mount).len(), 4);
}

extern "C" fn nothing(_: libc::c_int) {}

/// As with any file: a signal that a program handles interrupts no read.
#[test]
fn a_signal_that_is_handled_interrupts_no_read() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 100_000);
    let contract = Contract::new(Rate(20_000)).with_access(4096).with_batch(4096).with_jitter(Nanos::ZERO);
    let mount = bench.mount(contract);
    let film = File::open(bench.through("film")).unwrap();
    // SAFETY: `sigaction` is plain data; the handler does nothing; without SA_RESTART a call that can be interrupted would be.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        // SAFETY: takes no argument and cannot fail.
        tell.send(unsafe { libc::pthread_self() }).unwrap();
        let mut got = vec![0; 4096];
        (0..2_u64).all(|n| film.read_at(&mut got, n * 4096).unwrap() == 4096 && got == bytes(n * 4096, 4096))
    });
    let thread = told.recv().unwrap();
    while !reader.is_finished() {
        // SAFETY: the thread has not been joined, so its handle is valid.
        unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(reader.join().unwrap());
    unmounted(mount);
}

#[test]
fn an_open_file_keeps_the_mount_and_is_served_on_when_that_is_detached() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 100_000);
    let mounts = bench.mounts();
    let mut mount = bench.mount(fast());
    assert_eq!(bench.mounts(), mounts + 1);
    assert_eq!(bench.journal.open_entries().len(), 1);
    let mut film = File::open(bench.through("film")).unwrap();
    film.read_exact(&mut [0; 100]).unwrap();
    assert!(!mount.unmount().unwrap(), "refused while a file is open");
    assert_eq!((bench.mounts(), mount.open_files(), mount.read_files()), (mounts + 1, 1, 1));
    mount.detach();
    assert_eq!((bench.mounts(), bench.journal.open_entries().len()), (mounts, 0));
    let mut rest = Vec::new();
    film.read_to_end(&mut rest).unwrap();
    assert!(rest == bytes(100, 99_900));
    assert!(!mount.is_over());
    drop(film);
    assert!(becomes(|| mount.is_over()));
    drop(mount);

    // One that is dropped while a file is open ends that: an error, and no waiting.
    let mount = bench.mount(slow());
    let mut film = File::open(bench.through("film")).unwrap();
    film.read_exact(&mut [0; 100]).unwrap();
    drop(mount);
    assert!(film.read(&mut [0; 10]).is_err());
    drop(film);
    assert_eq!((bench.mounts(), bench.journal.open_entries().len()), (mounts, 0));
    let links: Vec<_> = fs::read_dir("/proc/self/fd").unwrap().flatten().collect();
    let held: Vec<_> = links.iter().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    let ours = ["films", "place"].map(|name| bench.base.path().join(name));
    assert!(!held.iter().any(|to| ours.iter().any(|ours| to.starts_with(ours))), "{held:?}");
}

#[test]
fn what_cannot_be_is_said() {
    let Some(bench) = Bench::new() else { return };
    bench.film("film", 10);
    fs::create_dir(bench.below("inside")).unwrap();
    let plan = bench.plan(fast());
    let refused = |plan: &Plan| Mount::make(plan, &bench.kernel, &bench.journal).map(drop).unwrap_err();
    let (films, inside, place) = (plan.directory.clone(), bench.below("inside"), plan.place.clone());
    for (directory, place) in [(&films, &inside), (&inside, &films), (&films, &films)] {
        let plan = Plan { directory: directory.clone(), place: place.clone(), ..plan.clone() };
        assert!(matches!(refused(&plan), MountError::Nested { .. }));
    }
    let none = Plan { directory: bench.below("none"), ..plan.clone() };
    assert!(
        matches!(refused(&none), MountError::Directory { error, .. } if error.kind() == ErrorKind::NotFound)
    );
    let file = Plan { place: bench.below("film"), ..plan.clone() };
    assert!(matches!(refused(&file), MountError::Place { .. }));
    let never = Plan { contract: Contract { rate: Rate(0), ..fast() }, ..plan.clone() };
    assert_eq!(refused(&never).to_string(), "a stream's rate is above nothing");
    let mount = bench.mount(fast());
    assert!(matches!(refused(&plan), MountError::Taken { path } if path == place));
    unmounted(mount);
    assert_eq!(bench.mounts(), 0);
}
