//! trace.dat files of version 7: packed in every way they hold the same events as version 6, as trace-cmd says too;
//! damaged ones cost what they hide and no more.

use std::path::{Path, PathBuf};

use crate::support::tracedat::{fixture, foreign, reported};
use crate::support::tracedat_v7::{Packing, converted};
use surety_model::event::{Event, TraceSink};
use surety_trace::merge::{Item, Merge};
use surety_trace::{JobBuilder, Jobs, ReadAt, ReadSummary, TraceDat, TraceDatError, TraceReader};

const PACKINGS: [Packing; 3] = [Packing::None, Packing::Zlib, Packing::Zstd];

/// Every event in words, the jobs, and the summary.
fn everything(file: &[u8]) -> (Vec<String>, Jobs, ReadSummary) {
    let (mut events, mut jobs) = (Vec::new(), JobBuilder::new());
    let mut sink = |event: &Event<'_>| {
        events.push(format!("{event:?}"));
        jobs.event(event);
    };
    let summary = TraceDat::open(file).unwrap().read(&mut sink).unwrap();
    (events, jobs.finish(), summary)
}

/// The same file as an owner of bytes of any size.
struct Owned<'a>(&'a [u8]);

impl ReadAt for Owned<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        // Never more than 1000 bytes at a time: pages and pieces are read in parts.
        let count = buf.len().min(1000);
        self.0.read_at(offset, &mut buf[..count])
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Every record of a file, decoded or not: CPU, time, bytes.
fn records(file: &[u8]) -> Vec<(u32, u64, Vec<u8>)> {
    let file = TraceDat::open(Owned(file)).unwrap();
    let mut records = Vec::new();
    let mut merge = Merge::new(file.layout(), file.table().endian(), file.pages());
    let mut take = |cpu: surety_units::CpuId, time, item: Item<'_>| {
        let Item::Record(record) = item else { return };
        records.push((cpu.0, time, record.to_vec()));
    };
    merge.for_each(&mut take).unwrap();
    records
}

#[test]
fn every_packing_holds_the_same() {
    let six = fixture();
    let expected = everything(&six);
    assert!(expected.0.len() > 300);
    for packing in PACKINGS {
        // Pieces of whole pages, as trace-cmd makes them, and pieces that end within pages.
        for piece in [10 * 4096, 4096, 3000, 77] {
            let seven = converted(&six, packing, piece);
            assert_eq!(everything(&seven), expected, "{packing:?}, pieces of {piece} bytes");
        }
        let seven = converted(&six, packing, 4096);
        let read = TraceDat::open(&seven).unwrap();
        assert_eq!((read.version(), read.clock(), read.cpus()), (7, Some("mono"), 2));
        assert_eq!((read.unusable(), read.other_buffers()), ([].as_slice(), vec!["other"]));
    }
}

fn seven() -> Option<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces/lisa_sched_load.v7-zstd.dat");
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: there is no ../shared/data/traces/lisa_sched_load.v7-zstd.dat beside the repository");
    None
}

#[test]
fn a_compressed_file_of_another_machine_is_the_uncompressed_one() {
    let (Some(six), Some(seven)) = (foreign(), seven()) else { return };
    let (six, seven) = (std::fs::read(six).unwrap(), std::fs::read(seven).unwrap());
    let (ours, expected) = (records(&seven), records(&six));
    assert_eq!(ours.len(), 3724);
    assert!(ours == expected, "records differ");
    let (seven_read, six_read) = (everything(&seven), everything(&six));
    assert_eq!(seven_read, six_read);
    let summary = seven_read.2;
    assert!(summary.is_complete() && summary.faults.is_empty());
    let read = TraceDat::open(&seven).unwrap();
    assert_eq!((read.version(), read.cpus(), read.clock()), (7, 6, Some("local")));
}

#[test]
fn a_compressed_file_of_another_machine_is_read_as_trace_cmd_does() {
    let Some(path) = seven() else { return };
    let Some(theirs) = reported(&path) else { return };
    let bytes = std::fs::read(&path).unwrap();
    let file = TraceDat::open(&bytes).unwrap();
    let mut ours: Vec<(u32, i64, String)> = records(&bytes)
        .into_iter()
        .map(|(cpu, time, record)| {
            let index = file.table().identify(&record).unwrap();
            let name = file.table().names()[index.index()].split(':').next_back().unwrap().to_owned();
            (cpu, time.cast_signed(), name)
        })
        .collect();
    let mut theirs: Vec<_> = theirs.into_iter().map(|r| (r.cpu, r.time, r.event)).collect();
    assert_eq!((ours.len(), theirs.len()), (3724, 3724));
    // Between CPUs, equal times may be listed in either order.
    ours.sort_by_key(|r| r.0);
    theirs.sort_by_key(|r| r.0);
    assert!(ours == theirs, "records differ");
}

#[test]
fn the_other_byte_order_and_long_are_read() {
    let six = crate::support::tracedat::narrow_and_big();
    let expected = everything(&six);
    assert_eq!(expected.0.len(), 2);
    for packing in PACKINGS {
        assert_eq!(everything(&converted(&six, packing, 100)), expected, "{packing:?}");
    }
}

fn place_of(file: &[u8], bytes: &[u8]) -> usize {
    file.windows(bytes.len()).position(|w| w == bytes).unwrap()
}

#[test]
fn a_piece_that_cannot_be_unpacked_costs_its_own_pages() {
    let six = fixture();
    let whole = everything(&six);
    let mut seven = converted(&six, Packing::Zlib, 4096);
    // The first zlib stream behind the section of pages; its header is made impossible.
    let buffer = place_of(&seven, &[3, 0, 1, 0, 0, 0, 0, 0]);
    let piece = buffer + place_of(&seven[buffer..], &[0x78]);
    seven[piece] = 0xff;
    let (events, _, summary) = everything(&seven);
    assert!(events.len() > 50 && events.len() < whole.0.len(), "{} events", events.len());
    assert_eq!((summary.damaged_pages, summary.truncated, summary.malformed), (1, 0, 0));
    let [fault] = summary.faults.as_slice() else { panic!("{:?}", summary.faults) };
    assert!(fault.starts_with(&format!("byte {piece}: pages are lost, zlib cannot unpack it")), "{fault}");
    assert!(!summary.is_complete());
    let lost = events.iter().filter(|e| e.contains("Lost")).count();
    assert_eq!(lost, summary.gaps as usize, "the loss is told where a later page follows");
}

fn refusal(file: &[u8]) -> String {
    TraceDat::open(file).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_not_read_is_refused_in_words() {
    let whole = converted(&fixture(), Packing::Zstd, 4096);
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let words = refusal(&changed(18, b"lz4\0"));
    assert!(words.starts_with("byte 18: the file is compressed with `lz4`, which is not read"), "{words}");
    // Behind the name and the version of the compression stands where the options are.
    let first = 18 + b"zstd\x001.5.4\0".len();
    let words = refusal(&changed(first, &[0; 8]));
    assert!(words.starts_with(&format!("byte {first}: the file has no options")), "{words}");
    let words = refusal(&changed(first, &[0xff; 8]));
    assert!(words.contains("a list of options should be at byte"), "{words}");
    // A list that leads to itself.
    let options = surety_trace::Endian::Little.u64(&whole, first).unwrap();
    let link = place_of(&whole[options as usize..], b"from the future") + options as usize + 15 + 6;
    let words = refusal(&changed(link, &options.to_le_bytes()));
    assert!(words.contains("lies before what leads to it"), "{words}");
    // A text that would unpack to 4 GiB, and one that unpacks to another length.
    for (length, reason) in [(u32::MAX, "more than are read"), (1000, "unpacks to")] {
        let words = refusal(&changed(first + 8 + 16 + 4, &length.to_le_bytes()));
        assert!(words.contains(reason), "{words}");
    }
}

#[test]
fn a_file_cut_anywhere_gives_an_answer() {
    for packing in PACKINGS {
        let whole = converted(&fixture(), packing, 4096);
        for cut in (0..whole.len()).step_by(61) {
            // Where its pages are is said at the end.
            match TraceDat::open(&whole[..cut]) {
                Err(TraceDatError::Foreign) => assert!(cut < 11),
                Err(TraceDatError::Damaged { offset, .. }) => assert!(offset <= cut as u64, "cut at {cut}"),
                Err(error) => panic!("cut at {cut}: {error}"),
                Ok(_) => panic!("cut at {cut}: read without its last options"),
            }
        }
    }
}

#[test]
fn bytes_that_lie_give_an_answer() {
    let delivered = everything(&fixture()).2.delivered;
    for packing in PACKINGS {
        let whole = converted(&fixture(), packing, 4096);
        let mut opened = 0;
        for at in (10..whole.len()).step_by(53) {
            for flip in [0x01, 0x80, 0xff] {
                let mut file = whole.clone();
                file[at] ^= flip;
                let Ok(mut read) = TraceDat::open(&file) else { continue };
                let summary = read.read(&mut |_: &Event<'_>| {}).unwrap();
                assert!(summary.delivered <= delivered + 4096, "byte {at}");
                opened += 1;
            }
        }
        assert!(opened > 50, "{packing:?}: {opened}");
    }
}
