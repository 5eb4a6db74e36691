//! [`fetch`]: the newest kernel of a name, from the mirror into the store.
//!
//! A package `linux-image-amd64` depends on the image of one version; since 7.x that image is in parts (`PARTS`), so these are
//! fetched too. Of an unpacked kernel the image is kept, the modules that devices of an emulator, block schedulers, file systems and
//! traffic control are in, and the list of those that are built into the image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use surety_kernel::command::Command;

use surety_kernel::clock;
use surety_model::world::Cancel;
use surety_units::Nanos;

use crate::apt::{Apt, run_within};
use crate::error::LabError;
use crate::kernels;
use crate::modules::{BUILT_IN, depends, module_name};
use crate::store::{KERNEL, Store, StoredKernel};

/// Directories of modules that are kept, below `kernel/`.
const KEPT: &[&str] = &[
    "block/",
    "crypto/",
    "drivers/ata/ata_",
    "drivers/ata/ahci",
    "drivers/ata/lib",
    "drivers/block/",
    "drivers/char/virtio",
    "drivers/mmc/",
    "drivers/net/ethernet/amd/pcnet32",
    "drivers/net/ethernet/intel/e1000/",
    "drivers/net/net_failover",
    "drivers/net/veth",
    "drivers/net/virtio_net",
    "drivers/nvme/",
    "drivers/scsi/scsi_",
    "drivers/scsi/sd_mod",
    "drivers/scsi/sg",
    "drivers/scsi/virtio_scsi",
    "drivers/virtio/",
    "fs/ext4/",
    "fs/fuse/fuse",
    "fs/jbd2/",
    "fs/mbcache",
    "lib/",
    "net/core/failover",
    "net/sched/",
];

/// How the packages begin that an image is in parts in: the image itself, its modules, and the list of what is built in.
const PARTS: &[&str] = &["linux-binary-", "linux-modules-", "linux-base-"];

/// How a directory begins that a kernel is unpacked in, before the number of the process that does it.
const UNPACKED: &str = "unpacked-";

/// Which list of modules this is. A kernel stored with another is fetched anew, even where its version is the newest.
const SELECTION: u32 = 4;

/// Fetches the newest kernel of a name within a time; `said` hears what is done.
///
/// # Errors
/// [`LabError`]: an unknown name, no mirror, no network, no room, no time left.
pub fn fetch(
    store: &Store,
    name: &str,
    within: Nanos,
    cancel: &Cancel,
    said: &mut dyn FnMut(&str),
) -> Result<StoredKernel, LabError> {
    let kernel = kernels::find(name)?;
    let end = clock::monotonic().saturating_add(within);
    sweep(store.root());
    let apt = Apt::of(kernel.suite, store.root(), end, cancel)?;
    said(&format!("{name}: reading the lists of {}", kernel.suite));
    apt.update()?;
    let (_, depends) = apt.depends(kernel.package)?;
    let image = depends.iter().find(|d| d.starts_with("linux-image-")).ok_or_else(|| LabError::Fetch {
        what: format!("looking for the newest of {}", kernel.package),
        why: "it depends on no image".to_owned(),
    })?;
    let (version, parts) = apt.depends(image)?;
    if let Ok(stored) = store.kernel(name)
        && (stored.manifest().package.as_str(), stored.manifest().version.as_str()) == (image, &version)
        && stored.manifest().selection == SELECTION
        && stored.check().is_ok()
    {
        said(&format!("{name}: {image} {version} is here already"));
        return Ok(stored);
    }
    let is_part = |d: &&String| PARTS.iter().any(|begin| d.starts_with(begin));
    let packages: Vec<&String> = std::iter::once(image).chain(parts.iter().filter(is_part)).collect();
    let unpacked = tempfile::Builder::new()
        .prefix(&format!("{UNPACKED}{}-", std::process::id()))
        .tempdir_in(store.root())
        .map_err(|e| LabError::file(format!("making a directory in {}", store.root().display()), &e))?;
    for package in packages {
        said(&format!("{name}: fetching {package} {version}"));
        let file = apt.download(package)?;
        let mut extract = Command::new("dpkg-deb");
        extract.arg("--extract").arg(&file).arg(unpacked.path());
        run_within(&mut extract, end, cancel, &format!("unpacking {package}"))?;
        // What is unpacked is not needed again: the store has it.
        let _ = std::fs::remove_file(&file);
    }
    said(&format!("{name}: storing {image} {version}"));
    store.put(name, image, &version, SELECTION, &kept(unpacked.path())?)
}

/// Removes what a killed fetch unpacked and did not store.
fn sweep(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(UNPACKED)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // What cannot be removed stays, and is no reason not to fetch.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The files to keep of an unpacked kernel, by their path in the store: those of [`KEPT`], and what they depend on.
fn kept(root: &Path) -> Result<BTreeMap<String, PathBuf>, LabError> {
    let mut kept = BTreeMap::new();
    let mut modules: BTreeMap<String, (String, PathBuf)> = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = Vec::new();
    for (path, file) in files(root) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name == KERNEL || name.starts_with("vmlinuz-") {
            kept.insert(KERNEL.to_owned(), file);
        } else if name == BUILT_IN {
            kept.insert(BUILT_IN.to_owned(), file);
        } else if let Some((_, inside)) = path.split_once("/kernel/")
            && let Some(module) = module_name(inside)
        {
            if KEPT.iter().any(|begin| inside.starts_with(begin)) {
                waiting.push(file.clone());
                kept.insert(format!("modules/{inside}"), file.clone());
            }
            modules.insert(module, (inside.to_owned(), file));
        }
    }
    while let Some(file) = waiting.pop() {
        for needed in depends(&file)? {
            let Some((inside, file)) = modules.get(&needed) else { continue };
            if kept.insert(format!("modules/{inside}"), file.clone()).is_none() {
                waiting.push(file.clone());
            }
        }
    }
    if kept.contains_key(KERNEL) {
        return Ok(kept);
    }
    Err(LabError::Fetch {
        what: "unpacking the kernel".to_owned(),
        why: "there is no image in it".to_owned(),
    })
}

/// Ordinary files below a directory, by their path in it.
fn files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file()
                && let Ok(inside) = entry.path().strip_prefix(root)
            {
                found.push((inside.display().to_string(), entry.path()));
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_and_the_modules_a_guest_can_use_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let modules = "usr/lib/modules/7.2/kernel";
        for file in [
            "boot/vmlinuz-7.2",
            "boot/config-7.2",
            "usr/lib/modules/7.2/modules.builtin",
            &format!("{modules}/fs/fuse/fuse.ko"),
            &format!("{modules}/fs/fuse/virtiofs.ko"),
            &format!("{modules}/drivers/block/null_blk/null_blk.ko"),
            &format!("{modules}/drivers/gpu/drm/big.ko"),
            &format!("{modules}/net/sched/sch_netem.ko"),
            &format!("{modules}/net/sched/notes.txt"),
        ] {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        let kept: Vec<String> = kept(directory.path()).unwrap().into_keys().collect();
        assert_eq!(
            kept,
            [
                "modules.builtin",
                "modules/drivers/block/null_blk/null_blk.ko",
                "modules/fs/fuse/fuse.ko",
                "modules/net/sched/sch_netem.ko",
                "vmlinuz"
            ]
        );
        assert!(super::kept(&directory.path().join("usr")).is_err());
    }
}
