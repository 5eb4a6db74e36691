//! Streams of a file on a device a part of which cannot be read: all bytes before it, then an error in words; nothing is left.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use surety_kernel::block::BlockDevice;
use surety_kernel::extents::pieces_of;
use surety_kernel::mount::DetachedMount;
use surety_stream::{Contract, Level, Reader, Station, StationSettings, TransferError, errno_of};
use surety_units::{Nanos, Rate};

const LENGTH: u64 = 1_000_003;
/// The first byte of the file that cannot be had: in the middle of batches.
const BAD: u64 = 101 * 4096;
const EIO: i32 = 5;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A file system with two films, of which the second ends early: the loop device's own file does there.
struct Failing {
    mount: DetachedMount,
    _device: BlockDevice,
}

impl Failing {
    /// `None`, said aloud: this machine, or this user, has no loop devices.
    fn make() -> Option<Failing> {
        let backing = tempfile::NamedTempFile::new().unwrap();
        backing.as_file().set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096", "-O", "^has_journal"])
            .arg(backing.path())
            .status();
        let device = match (made, BlockDevice::on_file(backing.as_file())) {
            (Ok(status), Ok(device)) if status.success() => device,
            (made, device) => {
                eprintln!("SKIPPED: no file system on a loop device: {made:?}, {:?}", device.err());
                return None;
            }
        };
        let mount = DetachedMount::of_device(c"ext4", device.path()).unwrap();
        let film = |name: &str| {
            let mut film = File::create(mount.root().join(name)).unwrap();
            film.write_all(&(0..LENGTH).map(byte).collect::<Vec<u8>>()).unwrap();
            film.sync_all().unwrap();
            film
        };
        let (good, bad) = (film("good"), film("bad"));
        let place = |film: &File| pieces_of(film).unwrap().first().map(|(_, sector)| sector * 512).unwrap();
        assert!(place(&good) + LENGTH <= place(&bad), "the other one lies before it");
        backing.as_file().set_len(place(&bad) + BAD).unwrap();
        Some(Failing { mount, _device: device })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mount.root().join(name)
    }
}

/// All bytes of a stream that can be had, compared, and why there are no more.
fn read_all(reader: &mut Reader) -> (u64, io::Result<()>) {
    let mut got = vec![0; 10_000];
    loop {
        let from = reader.place();
        match reader.read(&mut got) {
            Ok(0) => return (from, Ok(())),
            Ok(count) => assert!(got[..count].iter().zip(from..).all(|(got, at)| *got == byte(at))),
            Err(error) => return (reader.place(), Err(error)),
        }
    }
}

/// Bytes that are locked in memory, and open descriptors.
fn held() -> (String, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find(|line| line.starts_with("VmLck")).unwrap();
    (locked.to_owned(), fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn what_lies_before_a_bad_place_is_read_and_then_it_is_said() {
    let before = held();
    let Some(failing) = Failing::make() else { return };
    let with_disk = held();
    for is_blocking in [false, true] {
        for batch in [4096, 20_480, 80 << 10, 1 << 20] {
            let settings = StationSettings { is_blocking, ..StationSettings::default() };
            let station = Station::start(settings).unwrap();
            let fast = Contract::new(Rate(4_000_000_000)).with_jitter(Nanos::MILLISECOND).with_batch(batch);
            let mut bad = station.open(&failing.path("bad"), &fast).unwrap();
            let mut good = station.open(&failing.path("good"), &fast).unwrap();
            let (read, ended) = read_all(&mut bad);
            let error = ended.unwrap_err();
            assert_eq!((read, errno_of(&error)), (BAD, Some(EIO)), "in batches of {batch}: {error}");
            let words = format!("reading at byte {BAD} failed: Input/output error");
            assert!(error.to_string().ends_with(&format!("/bad`: {words}")), "{error}");
            let held = error.get_ref().unwrap().downcast_ref::<TransferError>().unwrap();
            assert_eq!((held.offset(), held.path()), (BAD, Path::new(&failing.path("bad"))));
            // Again the same; and it is no stream of any guarantee any more, which is said.
            assert_eq!(bad.read(&mut [0; 10]).map_err(|error| errno_of(&error)), Err(Some(EIO)));
            assert_eq!(bad.level(), Level::Observed);
            let said = bad.caveats();
            assert!(said.iter().any(|why| why.contains("failed: Input/output error")), "{said:?}");
            // The one beside it goes on, and so does this one at another place.
            assert_eq!(read_all(&mut good).0, LENGTH);
            assert!(!good.caveats().iter().any(|why| why.contains("failed: ")));
            bad.seek(5000);
            assert_eq!(read_all(&mut bad).0, BAD);
            // What is skipped over is not had either.
            bad.seek(0);
            bad.skip(BAD + 4096);
            assert!(bad.read(&mut [0; 10]).is_err());
        }
    }
    assert_eq!(held(), with_disk, "after each of them");
    drop(failing);
    assert_eq!(held(), before, "with the disk");
}
