//! Files that do not lie on their device as they are read: within an inode, compressed, encrypted. Every byte is compared, and the level and its reason are in words.

#![allow(clippy::unwrap_used)]

use std::ffi::{CStr, c_ulong};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use surety_kernel::block::BlockDevice;
use surety_kernel::mount::DetachedMount;
use surety_stream::{Contract, Level, Station, StationSettings};
use surety_units::Rate;

/// Few different bytes, so that a file system finds it worth to be compressed; blocks differ from their neighbours.
fn byte(at: usize) -> u8 {
    if at.is_multiple_of(64) { (at / 64 % 251) as u8 } else { 7 }
}

fn written(path: &Path, length: usize) -> File {
    let mut file = File::create_new(path).unwrap();
    write_all(&mut file, length);
    file
}

fn write_all(file: &mut File, length: usize) {
    file.write_all(&(0..length).map(byte).collect::<Vec<u8>>()).unwrap();
    file.sync_all().unwrap();
}

/// A file system of a kind on a loop device; `None`, said aloud: there are no such devices or no such file systems here.
fn made(kind: &CStr, size: u64, mkfs: &[&str]) -> Option<(DetachedMount, BlockDevice)> {
    let skipped = |why: String| -> Option<(DetachedMount, BlockDevice)> {
        eprintln!("SKIPPED: no {} on a loop device: {why}", kind.to_string_lossy());
        None
    };
    let backing = tempfile::NamedTempFile::new().unwrap();
    backing.as_file().set_len(size).unwrap();
    let [program, arguments @ ..] = mkfs else { return None };
    match Command::new(program).args(arguments).arg(backing.path()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => return skipped(format!("{program} cannot be started: {error}")),
    }
    let device = match BlockDevice::on_file(backing.as_file()) {
        Ok(device) => device,
        Err(error) => return skipped(error.to_string()),
    };
    match DetachedMount::of_device(kind, device.path()) {
        Ok(mount) => Some((mount, device)),
        Err(error) => skipped(error.to_string()),
    }
}

/// Reads all of a file as a stream: right, *observed*, with these words for a reason.
fn is_observed(path: &Path, words: &str) {
    let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
    for is_blocking in [false, true] {
        let settings = StationSettings { is_blocking, ..StationSettings::default() };
        let station = Station::start(settings).unwrap();
        let contract = Contract::new(Rate(1_000_000_000)).with_batch(64 << 10);
        let mut stream = station.open(path, &contract).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.len() == length && (0..length).all(|at| all[at] == byte(at)), "wrong bytes");
        assert_eq!(stream.level(), Level::Observed);
        let caveats = stream.caveats();
        assert!(caveats.iter().any(|why| why.contains(words)), "{caveats:?}");
    }
}

#[test]
fn a_file_within_its_inode() {
    let mkfs = ["mkfs.ext4", "-q", "-b", "4096", "-I", "256", "-O", "inline_data"];
    let Some((mount, _device)) = made(c"ext4", 16 << 20, &mkfs) else { return };
    let path = mount.root().join("small");
    drop(written(&path, 100));
    is_observed(&path, "kept within metadata of its file system");
}

/// `FS_IOC_SETFLAGS` with `FS_COMPR_FL` of `include/uapi/linux/fs.h`: what `chattr +c` does.
fn compress(file: &File) -> io::Result<()> {
    const SET_FLAGS: c_ulong = 0x4008_6602;
    let flags: libc::c_long = 4;
    // SAFETY: the kernel reads an int of the flags within the call.
    done(unsafe { libc::ioctl(file.as_raw_fd(), SET_FLAGS, &raw const flags) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn a_compressed_file() {
    let Some((mount, _device)) = made(c"btrfs", 128 << 20, &["mkfs.btrfs", "-q"]) else { return };
    let path = mount.root().join("film");
    let mut film = File::create_new(&path).unwrap();
    compress(&film).unwrap();
    write_all(&mut film, 700_001);
    drop(film);
    is_observed(&path, "compressed by its file system");
}

/// `struct fscrypt_add_key_arg` of `include/uapi/linux/fscrypt.h` with a key of 64 bytes behind it.
#[repr(C)]
struct AddedKey {
    /// By an identifier that the kernel says.
    kind: u32,
    reserved: u32,
    identifier: [u8; 32],
    raw_size: u32,
    others: [u32; 9],
    raw: [u8; 64],
}

/// `struct fscrypt_policy_v2` of the same.
#[repr(C)]
struct Policy {
    version: u8,
    contents: u8,
    names: u8,
    flags: u8,
    reserved: [u8; 4],
    identifier: [u8; 16],
}

/// Whatever is made in a directory from now on is encrypted.
fn encrypt(directory: &File) -> io::Result<()> {
    const ADD_KEY: c_ulong = 0xc050_6617;
    const SET_POLICY: c_ulong = 0x800c_6613;
    const { assert!(size_of::<AddedKey>() == 80 + 64 && size_of::<Policy>() == 24) };
    let raw = std::array::from_fn(|at| at as u8);
    let mut key = AddedKey { kind: 2, reserved: 0, identifier: [0; 32], raw_size: 64, others: [0; 9], raw };
    // SAFETY: the kernel reads the key and writes its identifier within the call.
    done(unsafe { libc::ioctl(directory.as_raw_fd(), ADD_KEY, &raw mut key) })?;
    let mut identifier = [0; 16];
    identifier.copy_from_slice(&key.identifier[..16]);
    // AES-256-XTS, names by AES-256-CTS.
    let policy = Policy { version: 2, contents: 1, names: 4, flags: 3, reserved: [0; 4], identifier };
    // SAFETY: the kernel reads the policy within the call.
    done(unsafe { libc::ioctl(directory.as_raw_fd(), SET_POLICY, &raw const policy) })
}

#[test]
fn an_encrypted_file() {
    let mkfs = ["mkfs.ext4", "-q", "-b", "4096", "-O", "encrypt"];
    let Some((mount, _device)) = made(c"ext4", 16 << 20, &mkfs) else { return };
    let place = mount.root().join("secret");
    fs::create_dir(&place).unwrap();
    if let Err(error) = encrypt(&File::open(&place).unwrap()) {
        return eprintln!("SKIPPED: this kernel encrypts no files (CONFIG_FS_ENCRYPTION): {error}");
    }
    let path = place.join("film");
    drop(written(&path, 700_001));
    is_observed(&path, "encrypted by its file system");
}
