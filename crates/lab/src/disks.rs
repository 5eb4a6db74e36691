//! What a guest needs for the disks of a workload: modules, a program, memory.
//!
//! A modelled disk is a loop device on a file of FUSE, with ext4 on it. The loop driver is loaded with as many tags as the disk takes requests
//! at a time (`hw_queue_depth`), so that I/O schedulers hold back what they would hold back before the disk itself. A driver is loaded
//! once: of several disks in a workload the one that takes most decides.

use std::collections::BTreeMap;

use surety_device::profile::Profile;
use surety_model::formats::io_trace::IoTrace;
use surety_model::workload::{Disk, Startup, StartupBody, StreamFile, Workload};
use surety_model::world::WorldError;

/// Texts of recordings and profiles by the names of their files.
pub type Files = BTreeMap<String, String>;

/// Modules for a workload with disks, those it depends on not among them: FUSE, the loop device, the file system, every I/O scheduler, so
/// that runs under different ones share a boot.
const MODULES: &[&str] = &["fuse", LOOP, "ext4", "mq_deadline", "kyber_iosched", "bfq"];
const LOOP: &str = "loop";
/// Modules for measuring requests: a device that ends each request where it is begun (`irqmode=0`), and every I/O scheduler.
pub(crate) const FOR_REQUESTS: &[&str] =
    &["null_blk:queue_mode=2,irqmode=0,nr_devices=1,gb=1,bs=4096", "mq_deadline", "kyber_iosched", "bfq"];

/// Programs of this machine for a workload with disks, and the packages that bring them.
pub(crate) const PROGRAMS: &[(&str, &str)] = &[("mkfs.ext4", "e2fsprogs")];

/// One byte in this number of a disk is its file system's own: a journal of 32 MiB and 16 MiB of inodes in 1 GiB, all of it written when it is
/// made.
const FILE_SYSTEM: u128 = 16;
/// The size of a modelled disk whose `make` says none.
const SIZE: u128 = 1 << 30;

/// The modules with their parameters; none without disks.
pub(crate) fn modules(workload: &Workload, files: &Files) -> Vec<String> {
    if workload.disks.is_empty() {
        return Vec::new();
    }
    let depth = depth(workload, files);
    let parameters = |module: &&str| match depth {
        Some(depth) if *module == LOOP => format!("{LOOP}:hw_queue_depth={depth}"),
        _ => (*module).to_owned(),
    };
    MODULES.iter().map(parameters).collect()
}

/// What a kernel that serves modelled disks is booted with: their threads do not wait until another is at the end of a system call. Read-ahead of
/// 128 KiB takes 50 us of the guest's clock, and so late was each fiftieth answer of flash without this.
pub(crate) const PREEMPTION: &str = "preempt=full";

/// Requests that the disks take at a time, the most of them.
fn depth(workload: &Workload, files: &Files) -> Option<usize> {
    let of = |disk: &Disk| Profile::of_model(disk.model.as_ref()?, files).ok();
    workload.disks.iter().filter_map(of).map(|profile| profile.depth().max(1)).max()
}

/// Bytes of memory for what is written on the disks: files of loads, streams and recordings, and file systems.
pub(crate) fn bytes(workload: &Workload, files: &Files, cpus: u32) -> u128 {
    let loads = workload.loads.iter().map(|load| load.bytes_on_disk(cpus));
    let streams = workload.streams.iter().filter(|stream| stream.disk.is_some());
    let streams = streams.map(|stream| match stream.file {
        StreamFile::Make(size) => u128::from(stream.count) * u128::from(size.0),
        StreamFile::Path(_) => 0,
    });
    let systems =
        workload.disks.iter().map(|disk| disk.make.map_or(SIZE, |make| make.0.into()) / FILE_SYSTEM);
    let starts = workload.startups.iter().map(|startup| recorded(startup, files));
    loads.chain(streams).chain(systems).chain(starts).sum()
}

/// Bytes of a recording's file.
fn recorded(startup: &Startup, files: &Files) -> u128 {
    let StartupBody::Replay(file) = &startup.body else { return 0 };
    // What cannot be read is refused by the guest.
    let trace = files.get(file).and_then(|text| IoTrace::parse(text).ok());
    trace.map_or(0, |trace| trace.layout().size.into())
}

/// What no guest has of disks and start-ups, by the object and why.
pub(crate) fn unsupported(workload: &Workload) -> Option<(String, &'static str)> {
    let is_program = |startup: &&Startup| matches!(startup.body, StartupBody::Command(_));
    if let Some(startup) = workload.startups.iter().find(is_program) {
        let why = "the guest has no programs; give it a recording with `replay`";
        return Some((format!("startup.{}", startup.name), why));
    }
    let disk = workload.disks.iter().find(|disk| disk.model.is_none())?;
    let why = "a guest has modelled disks only; add `model`, such as model = \"hdd-2004\"";
    Some((format!("disk.{}", disk.name), why))
}

/// Whether every model is one.
///
/// # Errors
/// [`WorldError::Unsupported`] for the first that is none.
pub(crate) fn check(workload: &Workload, files: &Files, world: &str) -> Result<(), WorldError> {
    for disk in &workload.disks {
        let Some(model) = &disk.model else { continue };
        Profile::of_model(model, files).map_err(|why| WorldError::Unsupported {
            world: world.to_owned(),
            object: format!("disk.{}.model", disk.name),
            why,
        })?;
    }
    Ok(())
}

/// The texts among `files` that a workload may need: all where it names any, none else.
pub(crate) fn files_of(workload: &Workload, files: &Files) -> Files {
    let is_replay = |startup: &Startup| matches!(startup.body, StartupBody::Replay(_));
    let names_any = workload.startups.iter().any(is_replay)
        || workload
            .disks
            .iter()
            .any(|disk| disk.model.as_ref().is_some_and(|model| files.contains_key(model)));
    if names_any { files.clone() } else { Files::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::formats::toml;

    fn workload(text: &str) -> Workload {
        toml::read("test", &format!("format = 1\n{text}")).unwrap()
    }

    #[test]
    fn a_workload_with_disks_needs_modules_and_tags_for_the_deepest_of_them() {
        let files = Files::new();
        assert!(modules(&workload("[[load]]\nname = 'l'\nkind = 'spinners'\n"), &files).is_empty());
        let one = "[disk.d]\nmodel = 'hdd-2004'\n[[load]]\nname = 'l'\nkind = 'readers'\ndisk = 'd'\n";
        assert_eq!(
            modules(&workload(one), &files),
            ["fuse", "loop:hw_queue_depth=1", "ext4", "mq_deadline", "kyber_iosched", "bfq"]
        );
        let two = format!("{one}[disk.e]\nmodel = 'hdd-7200'\n");
        assert_eq!(modules(&workload(&two), &files)[1], "loop:hw_queue_depth=32");
    }

    #[test]
    fn memory_is_for_what_is_written() {
        let text = "[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\n\
            [[load]]\nname = 'r'\nkind = 'readers'\ncount = 3\nsize = '8MiB'\ndisk = 'd'\n\
            [[startup]]\nname = 's'\nreplay = 'r.iotrace'\ndisk = 'd'\n";
        let of = |files: &Files| bytes(&workload(text), files, 1) >> 20;
        assert_eq!(of(&Files::new()), 64 + 24);
        let line = "p .0 2048 0 Rand 0 0 R 1.0 C\n";
        assert_eq!(of(&[("r.iotrace".to_owned(), line.to_owned())].into()), 64 + 24 + 1);
    }

    #[test]
    fn what_a_guest_has_not_is_told() {
        let why = |text: &str| unsupported(&workload(text)).map(|(object, why)| format!("{object}: {why}"));
        let reader = "[[load]]\nname = 'l'\nkind = 'readers'\ndisk = 'd'\n";
        assert!(
            why(&format!("[disk.d]\nmake = '1GiB'\n{reader}")).unwrap().starts_with("disk.d: a guest has")
        );
        assert_eq!(why(&format!("[disk.d]\nmodel = 'emmc'\n{reader}")), None);
        let start = "[disk.d]\nmodel = 'emmc'\n[[startup]]\nname = 's'\ndisk = 'd'\n";
        assert!(
            why(&format!("{start}command = 'sh'\n"))
                .unwrap()
                .contains("startup.s: the guest has no programs")
        );
        assert_eq!(why(&format!("{start}replay = 'x'\n")), None);
        let bad = workload(&format!("[disk.d]\nmodel = 'hdd-2005'\n{reader}"));
        let refused = check(&bad, &Files::new(), "lab").unwrap_err().to_string();
        assert!(refused.contains("did you mean `hdd-2004`"), "{refused}");
    }
}
