//! Streams of real files: every byte compared, whatever happens to the file and however it is read.

#![allow(clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use surety_stream::{Cause, Contract, Level, Mode, Station, StationSettings};
use surety_units::{Nanos, Rate};

/// Fast enough that no test waits for credit, unless it wants to.
const FAST: Rate = Rate(4_000_000_000);

fn fast() -> Contract {
    Contract::new(FAST).with_jitter(Nanos::from_micros(100))
}

/// The byte of a file at a place.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(byte).collect()
}

fn file(directory: &Path, length: usize) -> PathBuf {
    let path = directory.join(format!("of-{length}"));
    let mut file = File::create(&path).unwrap();
    file.write_all(&bytes(0, length)).unwrap();
    file.sync_all().unwrap();
    path
}

/// A station of each kind: with io_uring, and without.
fn stations() -> [Station; 2] {
    [false, true].map(|is_blocking| {
        Station::start(StationSettings { is_blocking, ..StationSettings::default() }).unwrap()
    })
}

#[test]
fn a_stream_is_the_file_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    for length in [1, 4095, 4096, 4097, 100_000, 1_000_000] {
        let path = file(directory.path(), length);
        for station in stations() {
            for batch in [4096, 20_000, 80 << 10] {
                let mut stream = station.open(&path, &fast().with_batch(batch)).unwrap();
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                assert!(all == bytes(0, length), "{length} in batches of {batch}");
                assert_eq!(stream.position(), length as u64);
                assert_eq!(stream.stats().bytes, length as u64);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Reads, seeks, skips, pauses and changes of the rate in any order give the bytes that are at the position.
    #[test]
    fn whatever_a_program_does_it_gets_what_is_at_its_position(
        steps in prop::collection::vec((0..5_u8, 0_u64..150_000), 1..40),
        batch in 1_u64..50_000,
        is_blocking in any::<bool>(),
    ) {
        const LENGTH: u64 = 120_001;
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), LENGTH as usize);
        let station = Station::start(StationSettings { is_blocking, ..StationSettings::default() }).unwrap();
        let mut stream = station.open(&path, &fast().with_batch(batch)).unwrap();
        let mut at = 0_u64;
        for (what, amount) in steps {
            match what {
                0 | 1 => {
                    let mut got = vec![0; amount as usize];
                    let count = stream.read(&mut got).unwrap();
                    prop_assert!(count > 0 || amount == 0 || at >= LENGTH);
                    prop_assert!(got[..count] == bytes(at, count));
                    at += count as u64;
                }
                2 => {
                    at = amount.min(LENGTH);
                    stream.seek(at);
                }
                3 => {
                    let over = amount.min(LENGTH - at);
                    stream.skip(over);
                    at += over;
                }
                _ => {
                    stream.pause();
                    stream.change_rate(Rate(FAST.0 / (1 + amount)));
                    stream.change_rate(FAST);
                    stream.go_on();
                }
            }
            prop_assert_eq!(stream.position(), at);
        }
    }
}

#[test]
fn a_file_that_repeats_begins_again_in_the_middle_of_a_batch() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 10_001);
    for station in stations() {
        let contract = Contract { repeats: true, ..fast().with_batch(8192) };
        let mut stream = station.open(&path, &contract).unwrap();
        let mut got = vec![0; 35_000];
        stream.read_exact(&mut got).unwrap();
        assert!(got.iter().zip(0_u64..).all(|(got, at)| *got == byte(at % 10_001)));
    }
}

#[test]
fn no_program_pulls_more_than_its_contract() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 1_000_000);
    let station = Station::start(StationSettings::default()).unwrap();
    let (rate, batch, jitter) = (2_000_000, 16_384, Nanos::from_millis(20));
    let contract = Contract::new(Rate(rate)).with_batch(batch).with_jitter(jitter);
    let begin = std::time::Instant::now();
    let mut stream = station.open(&path, &contract).unwrap();
    let mut got = vec![0; 4096];
    let mut taken = 0_u64;
    while taken < 600_000 {
        taken += stream.read(&mut got).unwrap() as u64;
        let most =
            u128::from(batch) + u128::from(rate) * (begin.elapsed().as_nanos() + 20_000_000) / 1_000_000_000;
        assert!(u128::from(taken) <= most + 1, "{taken} of {most}");
    }
}

#[test]
fn a_file_that_grows_goes_on_and_one_that_shrinks_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for station in stations() {
        let path = file(directory.path(), 50_000);
        let mut stream = station.open(&path, &fast().with_batch(4096)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all_at(&bytes(50_000, 30_000), 50_000).unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == bytes(0, 80_000));
        // Where that lies was looked up before it was read, which the program waited for.
        assert!(stream.stats().waits.of(Cause::Metadata).is_positive());

        // Opened at its old length; nothing of the rest is made up.
        let slow = fast().with_access(4096).with_batch(4096).with_buffer(8192);
        let mut stream = station.open(&path, &slow).unwrap();
        let mut got = vec![0; 4096];
        stream.read_exact(&mut got).unwrap();
        writer.set_len(40_000).unwrap();
        let mut rest = Vec::new();
        let error = stream.read_to_end(&mut rest).unwrap_err();
        assert!(error.to_string().contains("made shorter"), "{error}");
        assert!(rest == bytes(4096, rest.len()) && rest.len() <= 40_000 - 4096);
        // It can be read on from another place.
        stream.seek(100);
        stream.read_exact(&mut got).unwrap();
        assert!(got == bytes(100, 4096));
    }
}

#[test]
fn a_replaced_file_is_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (file(directory.path(), 300_000), directory.path().join("other"));
    std::fs::write(&other, vec![0; 300_000]).unwrap();
    for station in stations() {
        let mut stream =
            station.open(&path, &fast().with_access(4096).with_batch(4096).with_buffer(8192)).unwrap();
        let mut all = vec![0; 10];
        stream.read_exact(&mut all).unwrap();
        let kept = directory.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        std::fs::copy(&other, &path).unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == bytes(0, 300_000));
        std::fs::rename(&kept, &path).unwrap();
    }
}

#[test]
fn many_streams_of_one_station_are_served_and_closed_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 400_000);
    let station = Station::start(StationSettings::default()).unwrap();
    let threads: Vec<_> = (0..16_u64)
        .map(|number| {
            let (station, path) = (station.clone(), path.clone());
            std::thread::spawn(move || {
                let contract = Contract::new(Rate(400_000_000)).with_batch(4096 * (1 + number % 5));
                let mut stream = station.open(&path, &contract).unwrap();
                let mut got = vec![0; 4000 + 37 * number as usize];
                for round in 0..(3 * number) {
                    stream.read_exact(&mut got).unwrap();
                    assert!(got == bytes(round * got.len() as u64, got.len()));
                }
            })
        })
        .collect();
    drop(station);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// No descriptor of the file stays open.
#[test]
fn what_is_closed_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 100_000);
    let of = |path: &Path| {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
            .count()
    };
    let station = Station::start(StationSettings::default()).unwrap();
    let stream = station.open(&path, &fast()).unwrap();
    assert!(of(&path) > 0);
    drop((stream, station));
    assert_eq!(of(&path), 0);
}

#[test]
fn what_a_file_is_not_is_said_and_lowers_the_level() {
    let directory = tempfile::tempdir().unwrap();
    let station = Station::start(StationSettings::default()).unwrap();
    let sparse = directory.path().join("sparse");
    File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
    let mut stream = station.open(&sparse, &fast()).unwrap();
    assert_eq!(stream.level(), Level::Observed);
    assert!(
        stream
            .caveats()
            .iter()
            .any(|caveat| caveat.contains("never written") || caveat.contains("not known"))
    );
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.len() == 1 << 20 && all.iter().all(|byte| *byte == 0));

    let path = file(directory.path(), 200_000);
    let contract = Contract { bound: Some(Nanos::from_secs(100)), ..fast() };
    let stream = station.open(&path, &contract).unwrap();
    match stream.caveats() {
        caveats if caveats.is_empty() => assert_eq!(stream.level(), Level::Admitted),
        caveats => {
            eprintln!("SKIPPED: the level of an admitted stream: {}", caveats.join("; "));
            assert_eq!(stream.level(), Level::Observed);
        }
    }
    let never = Contract { bound: Some(Nanos::new(-1)), ..contract };
    let mut stream = station.open(&path, &never).unwrap();
    stream.read_exact(&mut [0; 4096]).unwrap();
    assert!(stream.level() < Level::Admitted && stream.stats().beyond_bound > 0);
}

#[test]
fn contracts_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 5_000);
    let station = Station::start(StationSettings::default()).unwrap();
    let said = |contract: &Contract| station.open(&path, contract).unwrap_err().to_string();
    assert_eq!(said(&Contract::new(Rate(0))), "a stream's rate is above nothing");
    assert!(said(&fast().with_access(0)).contains("access"));
    assert!(said(&fast().with_batch(0)).contains("batch"));
    assert!(said(&fast().with_jitter(Nanos::from_secs(100))).contains("buffer is at most"));
}

#[test]
fn a_paused_stream_fetches_nothing_and_says_that_it_would_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 200_000);
    for station in stations() {
        let contract = Contract { is_paused: true, ..fast().with_batch(4096) };
        let mut stream = station.open(&path, &contract).unwrap();
        let mut got = vec![0; 4096];
        assert_eq!(stream.read(&mut got).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(stream.stats().batches, 0);
        let begin = std::time::Instant::now();
        stream.go_on();
        stream.read_exact(&mut got).unwrap();
        assert!(got == bytes(0, 4096));
        // No batch was wanted while it was paused.
        let worst = u128::from(stream.stats().worst_batch.get_unsigned());
        assert!(worst <= begin.elapsed().as_nanos());
    }
}

#[test]
fn what_is_gone_over_before_it_was_asked_for_is_not_fetched() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 1_000_003);
    for station in stations() {
        let contract =
            Contract { repeats: true, ..fast().with_access(4096).with_batch(4096).with_buffer(8192) };
        let mut stream = station.open(&path, &contract).unwrap();
        let mut at = 0_u64;
        let mut got = vec![0; 10_000];
        for over in [900_000, 5, 2_500_000, 4096] {
            stream.skip(over);
            at += over;
            stream.read_exact(&mut got).unwrap();
            assert!(got.iter().zip(at..).all(|(got, at)| *got == byte(at % 1_000_003)), "at {at}");
            at += got.len() as u64;
        }
        assert!(stream.stats().bytes < 200_000, "{:?}", stream.stats());
    }
}

/// A thread that waits is called back and has lost nothing; a call that comes too late is of the next wait.
#[test]
fn who_waits_is_called_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 100_000);
    for station in stations() {
        let slow = Contract::new(Rate(1)).with_access(4096).with_batch(4096).with_jitter(Nanos::ZERO);
        let mut stream = station.open(&path, &slow).unwrap();
        let mut got = vec![0; 4096];
        stream.read_exact(&mut got).unwrap();
        let caller = stream.caller();
        let waiting = std::thread::spawn(move || {
            let error = stream.read(&mut [0; 10]).unwrap_err();
            (error.kind(), stream)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        caller.call();
        let (kind, mut stream) = waiting.join().unwrap();
        assert_eq!((kind, stream.position()), (std::io::ErrorKind::TimedOut, 4096));
        caller.call();
        assert_eq!(stream.read(&mut got).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        stream.change_rate(FAST);
        stream.read_exact(&mut got).unwrap();
        assert!(got == bytes(4096, 4096));
    }
}

/// A program that plays at its rate: in the mode of longest batches the disk rests as long as the buffer lasts, and the mode can be changed while it plays.
#[test]
fn longest_batches_leave_the_disk_alone_for_as_long_as_the_buffer_lasts() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), 1_000_000);
    let station = Station::start(StationSettings::default()).unwrap();
    let contract = Contract { repeats: true, ..Contract::new(Rate(8_000_000)) };
    let contract = contract.with_access(8192).with_batch(16_384).with_jitter(Nanos::from_millis(10));
    let mut stream = station.open(&path, &contract.with_buffer(1 << 20)).unwrap();
    let mut play = |accesses: u64, at: &mut u64| {
        let before = station.rest();
        let begin = std::time::Instant::now();
        let mut got = vec![0; 8192];
        for number in 0..accesses {
            let due = std::time::Duration::from_nanos(number * 1_024_000);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            stream.read_exact(&mut got).unwrap();
            assert!(got.iter().zip(*at..).all(|(got, at)| *got == byte(at % 1_000_000)));
            *at += 8192;
        }
        station.rest().count - before.count
    };
    let mut at = 0;
    station.set_mode(Mode::Longest);
    let longest = play(384, &mut at);
    station.set_mode(Mode::Steady);
    let steady = play(384, &mut at);
    station.set_mode(Mode::Longest);
    let again = play(384, &mut at);
    // 3 MiB are three buffers, and 192 batches.
    assert!(longest <= 20 && again <= 20 && steady >= 60, "{longest} {steady} {again}");
    assert_eq!(station.mode(), Mode::Longest);
    assert!(station.rest().longest > Nanos::from_millis(20));
}
