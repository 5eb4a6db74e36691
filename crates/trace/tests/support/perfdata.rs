//! A writer of perf.data files for tests: as a file, as a pipe, or packed, in the layouts of perf's
//! `Documentation/perf.data-file-format.txt`. Little-endian, since the records of the fixtures are.
#![allow(dead_code, clippy::unwrap_used)]

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use surety_trace::Endian;
use surety_trace::format::{EventFormat, parse_header_page};
use surety_trace::merge::{Item, Merge};
use surety_units::CpuId;

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// With a table of its parts.
    File,
    /// Records only.
    Pipe,
    /// A file whose records are compressed.
    Packed,
}

/// What goes into a file.
pub struct Content<'a> {
    /// The text that describes pages.
    pub header_page: &'a str,
    /// `(system:name, format text)`.
    pub formats: Vec<(&'a str, &'a str)>,
    /// The symbol table.
    pub symbols: &'a str,
    /// CPU, time and bytes of each record, in order of time.
    pub records: Vec<(u32, u64, Vec<u8>)>,
}

/// Records in a round.
const ROUND: usize = 64;
/// Parts of samples: identifier, instruction, thread, time, CPU, period, raw record.
const PARTS: u64 = 1 << 16 | 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10;
/// Those of a hardware counter's: identifier, time, CPU.
const COUNTER_PARTS: u64 = 1 << 16 | 1 << 2 | 1 << 7;
const COUNTER_ID: u64 = 7;
const ATTRIBUTE: usize = 128;

/// The records of two CPUs' pages.
pub fn records(header_page: &str, pages: [&[u8]; 2]) -> Vec<(u32, u64, Vec<u8>)> {
    let layout = parse_header_page(header_page).unwrap();
    let sources = (0..).map(CpuId).zip(pages.map(<[u8]>::to_vec));
    let mut records = Vec::new();
    Merge::new(layout, Endian::Little, sources)
        .for_each(|cpu, time, item| {
            if let Item::Record(record) = item {
                records.push((cpu.0, time, record.to_vec()));
            }
        })
        .unwrap();
    records
}

fn attribute(kind: u32, config: u64, parts: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend((ATTRIBUTE as u32).to_le_bytes());
    for word in [config, 1, parts, 0, 1 << 18 | 1 << 25] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(92, 0);
    // The clock mono.
    bytes.extend(1u32.to_le_bytes());
    bytes.resize(ATTRIBUTE, 0);
    bytes
}

/// One record.
pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(0u16.to_le_bytes());
    bytes.extend(u16::try_from(body.len() + 8).unwrap().to_le_bytes());
    bytes.extend(body);
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A tracepoint's sample.
pub fn sample(cpu: u32, time: u64, id: u64, raw: &[u8]) -> Vec<u8> {
    let mut body = words(&[id, 0xffff_ffff_8100_0000, 5 << 32 | 5, time, u64::from(cpu), 1]);
    // The length and the bytes fill whole words together.
    let length = (raw.len() + 4).next_multiple_of(8) - 4;
    body.extend(u32::try_from(length).unwrap().to_le_bytes());
    body.extend(raw);
    body.resize(body.len() + length - raw.len(), 0);
    record(9, &body)
}

/// Told that records were lost, with the parts of `PARTS` a record that is no sample has.
pub fn lost(cpu: u32, time: u64, id: u64, count: u64) -> Vec<u8> {
    record(2, &words(&[id, count, 5 << 32 | 5, time, u64::from(cpu), id]))
}

fn tracing_data(content: &Content<'_>) -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
    bytes.extend([0, 8]);
    bytes.extend(4096u32.to_le_bytes());
    let text64 = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(b"header_page\0");
    text64(&mut bytes, content.header_page);
    bytes.extend(b"header_event\0");
    text64(&mut bytes, "");
    let of = |own: bool| content.formats.iter().filter(move |(name, _)| name.starts_with("ftrace:") == own);
    bytes.extend(u32::try_from(of(true).count()).unwrap().to_le_bytes());
    of(true).for_each(|(_, text)| text64(&mut bytes, text));
    bytes.extend(u32::try_from(of(false).count()).unwrap().to_le_bytes());
    for (name, text) in of(false) {
        bytes.extend(name.split(':').next().unwrap().as_bytes());
        bytes.push(0);
        bytes.extend(1u32.to_le_bytes());
        text64(&mut bytes, text);
    }
    bytes.extend(u32::try_from(content.symbols.len()).unwrap().to_le_bytes());
    bytes.extend(content.symbols.as_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes
}

/// The file.
pub fn written(content: &Content<'_>, shape: Shape) -> Vec<u8> {
    let ids: Vec<u16> = content
        .formats
        .iter()
        .map(|(name, text)| EventFormat::parse(name.split(':').next().unwrap(), text).unwrap().id)
        .collect();
    let mut attributes: Vec<(Vec<u8>, u64)> =
        ids.iter().map(|id| (attribute(2, u64::from(*id), PARTS), 100 + u64::from(*id))).collect();
    attributes.push((attribute(0, 0, COUNTER_PARTS), COUNTER_ID));
    let mut rounds = Vec::new();
    for part in content.records.chunks(ROUND) {
        let mut round = Vec::new();
        // The busiest CPU's buffer is not always the first.
        for cpu in [1, 0] {
            for (_, time, raw) in part.iter().filter(|(of, ..)| *of == cpu) {
                let id = 100 + u64::from(u16::from_le_bytes([raw[0], raw[1]]));
                round.extend(sample(cpu, *time, id, raw));
            }
        }
        let (cpu, time, _) = part[0];
        round.extend(record(9, &words(&[COUNTER_ID, time, u64::from(cpu)])));
        rounds.push(round);
    }
    let finished = record(68, &[]);
    let mut data = Vec::new();
    if shape == Shape::Packed {
        let all: Vec<u8> = rounds.concat();
        let packed = compress_to_vec(all.as_slice(), CompressionLevel::Fastest);
        for (k, piece) in packed.chunks(5000).enumerate() {
            // Both kinds, the second one padded.
            if k % 2 == 0 {
                data.extend(record(81, piece));
            } else {
                let mut body = words(&[piece.len() as u64]);
                body.extend(piece);
                body.resize(body.len().next_multiple_of(8), 0);
                data.extend(record(83, &body));
            }
            data.extend(&finished);
        }
    } else {
        for round in &rounds {
            data.extend(round);
            data.extend(&finished);
        }
    }
    let formats = tracing_data(content);
    if shape == Shape::Pipe {
        return pipe(&attributes, formats, &data);
    }
    let ids_at = 104;
    let attributes_at = ids_at + 8 * attributes.len();
    let size = ATTRIBUTE + 16;
    let data_at = attributes_at + size * attributes.len();
    let table_at = data_at + data.len();
    let formats_at = table_at + 32;
    let cpus_at = formats_at + formats.len();
    let mut file = b"PERFILE2".to_vec();
    let at = |n: usize| n as u64;
    file.extend(words(&[104, at(size), at(attributes_at), at(size * attributes.len())]));
    file.extend(words(&[at(data_at), at(data.len()), 0, 0, 1 << 1 | 1 << 7, 0, 0, 0]));
    attributes.iter().for_each(|(_, id)| file.extend(id.to_le_bytes()));
    for (k, (bytes, _)) in attributes.iter().enumerate() {
        file.extend(bytes);
        file.extend(words(&[at(ids_at + 8 * k), 8]));
    }
    file.extend(data);
    file.extend(words(&[at(formats_at), at(formats.len()), at(cpus_at), 8]));
    file.extend(formats);
    file.extend([4, 0, 0, 0, 2, 0, 0, 0]);
    file
}

fn pipe(attributes: &[(Vec<u8>, u64)], mut formats: Vec<u8>, data: &[u8]) -> Vec<u8> {
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[16]));
    for (bytes, id) in attributes {
        file.extend(record(64, &[bytes.as_slice(), &words(&[*id])].concat()));
    }
    // The number of CPUs: possible, online.
    file.extend(record(80, &words(&[7, 2 << 32 | 4])));
    formats.resize(formats.len().next_multiple_of(8), 0);
    file.extend(record(66, &words(&[formats.len() as u64])));
    file.extend(formats);
    file.extend(data);
    file
}
