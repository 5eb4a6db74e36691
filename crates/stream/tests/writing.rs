//! Streams that are written: every byte compared, whatever the program does and however the file ends.

#![allow(clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use surety_stream::{Cause, Contract, Level, Mode, Station, StationSettings};
use surety_units::{Nanos, Rate};

/// Fast enough that no test waits for credit, unless it wants to.
const FAST: Rate = Rate(4_000_000_000);

fn fast() -> Contract {
    Contract::new(FAST).with_jitter(Nanos::from_micros(100)).with_length(1 << 20)
}

fn bytes(from: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (from..from + length as u64).map(byte).collect()
}

/// A station of each kind: with io_uring, and without.
fn stations() -> [Station; 2] {
    [false, true].map(|is_blocking| {
        Station::start(StationSettings { is_blocking, ..StationSettings::default() }).unwrap()
    })
}

#[test]
fn a_written_file_is_what_was_given_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("written");
    for length in [0, 1, 4095, 4096, 4097, 100_000, 1_000_001, 3_000_000] {
        for station in stations() {
            for batch in [4096, 20_000, 80 << 10] {
                let mut stream = station.create(&path, &fast().with_batch(batch)).unwrap();
                stream.write_all(&bytes(0, length)).unwrap();
                assert_eq!(stream.position(), length as u64);
                stream.finish().unwrap();
                assert!(std::fs::read(&path).unwrap() == bytes(0, length), "{length} in {batch}");
            }
        }
    }
}

#[test]
fn a_contract_that_cannot_be_leaves_the_file_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    std::fs::write(&path, "kept").unwrap();
    let [station, _] = stations();
    let wrong = [
        Contract::new(Rate(0)),
        fast().with_access(0),
        fast().with_batch(2 << 30),
        Contract { repeats: true, ..fast() },
    ];
    for contract in wrong {
        station.create(&path, &contract).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept", "{contract:?}");
    }
}

#[test]
fn a_writer_that_is_dropped_has_written_what_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("written");
    for station in stations() {
        let mut stream = station.create(&path, &fast().with_batch(8192)).unwrap();
        stream.write_all(&bytes(0, 70_001)).unwrap();
        drop(stream);
        assert!(std::fs::read(&path).unwrap() == bytes(0, 70_001));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Writes, flushes and changes of the rate in any order, into a new file and over one that is there: what is behind stays.
    #[test]
    fn whatever_a_program_does_the_file_has_what_it_gave(
        steps in prop::collection::vec((0..6_u8, 0_u64..60_000), 1..24),
        batch in 1_u64..50_000,
        flush in prop::option::of(1_i64..200),
        is_blocking in any::<bool>(),
        before in prop::option::of(0_usize..400_000),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("written");
        let station = Station::start(StationSettings { is_blocking, ..StationSettings::default() }).unwrap();
        let contract = Contract { flush: flush.map(Nanos::from_micros), ..fast().with_batch(batch) };
        let mut stream = match before {
            None => station.create(&path, &contract).unwrap(),
            Some(length) => {
                std::fs::write(&path, vec![7; length]).unwrap();
                let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
                station.write_over(&file, &path, &contract).unwrap()
            }
        };
        let mut at = 0_u64;
        for (what, amount) in steps {
            match what {
                0..=3 => {
                    stream.write_all(&bytes(at, amount as usize)).unwrap();
                    at += amount;
                }
                4 => {
                    stream.flush().unwrap();
                    let now = std::fs::read(&path).unwrap();
                    prop_assert!(now[..at as usize] == bytes(0, at as usize));
                }
                _ => {
                    stream.change_rate(Rate(FAST.0 / (1 + amount)));
                    stream.change_rate(FAST);
                }
            }
            prop_assert_eq!(stream.position(), at);
        }
        stream.finish().unwrap();
        let mut wanted = vec![7; before.unwrap_or(0).max(at as usize)];
        wanted[..at as usize].copy_from_slice(&bytes(0, at as usize));
        prop_assert!(std::fs::read(&path).unwrap() == wanted);
    }
}

/// A file that outgrows its room waits for more of it, which is metadata's time and nobody else's.
#[test]
fn room_for_a_file_that_grows_is_a_cause_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    for station in stations() {
        let path = directory.path().join("grown");
        let contract = fast().with_access(4096).with_batch(4096);
        let mut stream = station.create(&path, &contract).unwrap();
        stream.write_all(&bytes(0, 1 << 20)).unwrap();
        assert_eq!(stream.stats().waits.of(Cause::Metadata), Nanos::ZERO);
        stream.write_all(&bytes(1 << 20, 100_000)).unwrap();
        assert!(stream.stats().waits.of(Cause::Metadata).is_positive());
        stream.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(0, (1 << 20) + 100_000));
    }
}

#[test]
fn a_file_that_repeats_is_written_round_after_round() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("round");
    for station in stations() {
        std::fs::write(&path, vec![0; 81_920]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let contract = Contract { repeats: true, ..fast().with_batch(28_672) };
        let mut stream = station.write_over(&file, &path, &contract).unwrap();
        stream.write_all(&bytes(0, 200_000)).unwrap();
        stream.finish().unwrap();
        let got = std::fs::read(&path).unwrap();
        let last = 200_000 - 2 * 81_920;
        assert!(
            got[..last] == bytes(163_840, last) && got[last..] == bytes(81_920 + last as u64, 81_920 - last)
        );
    }
    // Rounds so short that batches of several of them are there at a time.
    for round in 0..100 {
        std::fs::write(&path, vec![0; 8192]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let contract = Contract { repeats: true, ..fast().with_batch(4096) };
        let mut stream = stations()[0].write_over(&file, &path, &contract).unwrap();
        stream.write_all(&bytes(round, 65_536)).unwrap();
        stream.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(round + 57_344, 8192), "{round}");
    }
    std::fs::write(&path, vec![0; 81_921]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let contract = Contract { repeats: true, ..fast() };
    let refused = stations()[0].write_over(&file, &path, &contract).unwrap_err();
    assert!(refused.to_string().contains("multiple of a page"), "{refused}");
}

#[test]
fn no_program_writes_more_than_its_contract() {
    let directory = tempfile::tempdir().unwrap();
    let station = Station::start(StationSettings::default()).unwrap();
    let (rate, batch, jitter) = (2_000_000, 16_384, Nanos::from_millis(20));
    let contract = Contract::new(Rate(rate)).with_batch(batch).with_jitter(jitter).with_length(1 << 20);
    let begin = std::time::Instant::now();
    let mut stream = station.create(&directory.path().join("slow"), &contract).unwrap();
    let mut given = 0_u64;
    while given < 500_000 {
        given += stream.write(&[1; 4096]).unwrap() as u64;
        let written = stream.stats().bytes;
        let most =
            u128::from(batch) + u128::from(rate) * (begin.elapsed().as_nanos() + 20_000_000) / 1_000_000_000;
        assert!(u128::from(written) <= most + 1, "{written} of {most}");
        assert!(given <= written + 2 * batch + stream.buffer(), "{given} {written}");
    }
    assert!(stream.stats().batches > 10);
}

#[test]
fn a_device_that_is_full_is_an_error_and_the_file_has_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 303_104;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_up_to_a_limit", "--ignored"])
        .env("LIMITED_FILE", directory.path().join("limited"))
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let got = std::fs::read(directory.path().join("limited")).unwrap();
    assert!(got.len() <= limit && got == bytes(0, got.len()), "{}", got.len());
}

/// In a process of its own: a file may have 303,104 bytes (`RLIMIT_FSIZE`), as if its device were full.
#[test]
#[ignore = "run by the test above in a process of its own"]
fn writes_up_to_a_limit() {
    let Some(path) = std::env::var_os("LIMITED_FILE") else { return };
    let limit = libc::rlimit { rlim_cur: 303_104, rlim_max: 303_104 };
    // SAFETY: a plain limit, and a signal that is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    for station in stations() {
        let mut stream = station.create(Path::new(&path), &fast().with_batch(8192)).unwrap();
        let error = stream.write_all(&bytes(0, 2_000_000)).and_then(|()| stream.flush()).unwrap_err();
        assert!(
            matches!(error.kind(), std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::WriteZero),
            "{error:?}"
        );
        assert!(stream.caveats().iter().any(|caveat| caveat.contains("not allocated in advance")));
        assert!(stream.finish().is_err());
    }
}

#[test]
fn levels_say_what_a_written_stream_has() {
    let directory = tempfile::tempdir().unwrap();
    let station = Station::start(StationSettings::default()).unwrap();
    let path = directory.path().join("levels");
    let bound = Some(Nanos::from_secs(100));
    let stream = station.create(&path, &Contract { bound, ..fast() }).unwrap();
    assert!(stream.level() < Level::Admitted && !stream.caveats().is_empty());
    drop(stream);
    let mut file = File::create(&path).unwrap();
    file.write_all(&[1; 81_920]).unwrap();
    file.sync_all().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let stream = station.write_over(&file, &path, &Contract { bound, repeats: true, ..fast() }).unwrap();
    match stream.caveats() {
        caveats if caveats.is_empty() => assert_eq!(stream.level(), Level::Admitted),
        caveats => {
            assert!(caveats.iter().any(|caveat| caveat.contains("journal") || caveat.contains("direct")));
            assert!(stream.level() <= Level::Scheduled);
        }
    }
    let refused = station.create(directory.path(), &fast()).unwrap_err().to_string();
    assert!(refused.contains("is a directory"), "{refused}");
}

/// In the mode of longest batches a program that waits for all of it to be written is not left waiting for its buffer to be full.
#[test]
fn what_is_left_is_written_in_every_mode() {
    let directory = tempfile::tempdir().unwrap();
    for station in stations() {
        station.set_mode(Mode::Longest);
        for length in [1, 5000, 100_000] {
            let path = directory.path().join("longest");
            let contract = Contract::new(Rate(1_000_000)).with_length(1 << 20);
            let mut stream = station.create(&path, &contract).unwrap();
            stream.write_all(&bytes(0, length)).unwrap();
            stream.flush().unwrap();
            stream.write_all(&bytes(length as u64, 4096)).unwrap();
            stream.finish().unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes(0, length + 4096));
        }
    }
}

#[test]
fn a_buffer_that_cannot_be_leaves_the_file_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    std::fs::write(&path, b"kept").unwrap();
    let station = Station::start(StationSettings::default()).unwrap();
    assert!(station.create(&path, &fast().with_buffer(1 << 35)).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}
