//! A trace.dat file of version 6 turned into one of version 7, packed in any of its ways: something to read where
//! trace-cmd cannot make it.
#![allow(dead_code, clippy::unwrap_used)]

use surety_trace::Endian;

/// How the new file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// With zlib.
    Zlib,
    /// With zstd.
    Zstd,
}

impl Packing {
    fn name(self) -> &'static [u8] {
        match self {
            Packing::None => b"none\0\0",
            Packing::Zlib => b"zlib\x001.3\0",
            Packing::Zstd => b"zstd\x001.5.4\0",
        }
    }

    fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Packing::None => bytes.to_vec(),
            Packing::Zlib => miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6),
            Packing::Zstd => {
                ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
            }
        }
    }
}

/// The parts of a version 6 file made by our writer.
struct Old<'a> {
    file: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Old<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        self.at += count;
        &self.file[self.at - count..self.at]
    }

    fn u32(&mut self) -> usize {
        self.endian.u32(self.take(4), 0).unwrap() as usize
    }

    fn u64(&mut self) -> usize {
        usize::try_from(self.endian.u64(self.take(8), 0).unwrap()).unwrap()
    }

    /// Everything from `start` to here.
    fn since(&self, start: usize) -> &'a [u8] {
        &self.file[start..self.at]
    }

    fn formats(&mut self) -> &'a [u8] {
        let start = self.at;
        for _ in 0..self.u32() {
            let length = self.u64();
            self.take(length);
        }
        self.since(start)
    }

    fn systems(&mut self) -> &'a [u8] {
        let start = self.at;
        for _ in 0..self.u32() {
            while self.take(1) != [0] {}
            self.formats();
        }
        self.since(start)
    }
}

struct New {
    bytes: Vec<u8>,
    endian: Endian,
    packing: Packing,
}

impl New {
    fn u16(&mut self, value: u16) {
        let little = self.endian == Endian::Little;
        self.bytes.extend(if little { value.to_le_bytes() } else { value.to_be_bytes() });
    }

    fn u32(&mut self, value: usize) {
        let value = u32::try_from(value).unwrap();
        let little = self.endian == Endian::Little;
        self.bytes.extend(if little { value.to_le_bytes() } else { value.to_be_bytes() });
    }

    fn u64(&mut self, value: usize) {
        let value = value as u64;
        let little = self.endian == Endian::Little;
        self.bytes.extend(if little { value.to_le_bytes() } else { value.to_be_bytes() });
    }

    /// Returns where the section begins.
    fn section(&mut self, number: u16, flags: u16, length: usize) -> usize {
        let at = self.bytes.len();
        self.u16(number);
        self.u16(flags);
        self.u32(0);
        self.u64(length);
        at
    }

    fn text(&mut self, number: u16, text: &[u8]) -> usize {
        let packed = self.packing.pack(text);
        if self.packing == Packing::None {
            let at = self.section(number, 0, text.len());
            self.bytes.extend(text);
            return at;
        }
        let at = self.section(number, 1, packed.len() + 8);
        self.u32(packed.len());
        self.u32(text.len());
        self.bytes.extend(packed);
        at
    }

    fn option_place(&mut self, number: u16, place: usize) {
        self.u16(number);
        self.u32(8);
        self.u64(place);
    }

    fn option(&mut self, number: u16, bytes: &[u8]) {
        self.u16(number);
        self.u32(bytes.len());
        self.bytes.extend(bytes);
    }

    fn patch_u64(&mut self, at: usize, value: usize) {
        let rest = self.bytes.split_off(at);
        self.u64(value);
        self.bytes.extend(&rest[8..]);
    }
}

/// The same recording as version 7, in pieces of `piece` bytes. The further buffer `other` has no pages.
pub fn converted(file: &[u8], packing: Packing, piece: usize) -> Vec<u8> {
    let endian = if file[12] == 0 { Endian::Little } else { Endian::Big };
    let mut old = Old { file, at: 18, endian };
    let head = old.at;
    old.take(b"header_page\0".len());
    let length = old.u64();
    old.take(length + b"header_event\0".len());
    let length = old.u64();
    old.take(length);
    let header = old.since(head);
    let (own, systems) = (old.formats(), old.systems());
    let start = old.at;
    let length = old.u32();
    old.take(length);
    let symbols = old.since(start);
    let length = old.u32();
    old.take(length);
    let length = old.u64();
    old.take(length);
    let cpus = old.u32();
    let mut statistics: Vec<&[u8]> = Vec::new();
    assert_eq!(old.take(10), b"options  \0");
    loop {
        let id = endian.u16(old.take(2), 0).unwrap();
        if id == 0 {
            break;
        }
        let length = old.u32();
        let text = old.take(length);
        if id == 2 {
            statistics.push(text);
        }
    }
    assert_eq!(old.take(10), b"flyrecord\0");
    let pages: Vec<&[u8]> = (0..cpus)
        .map(|_| {
            let (offset, length) = (old.u64(), old.u64());
            &file[offset..offset + length]
        })
        .collect();

    let mut new = New { bytes: file[..18].to_vec(), endian, packing };
    new.bytes[10] = b'7';
    new.bytes.extend(packing.name());
    let first = new.bytes.len();
    new.u64(0);
    let places = [(16, header), (17, own), (18, systems), (19, symbols)].map(|(n, t)| (n, new.text(n, t)));
    let options = new.section(0, 0, 0);
    new.patch_u64(first, options);
    for (number, place) in places {
        new.option_place(number, place);
    }
    for text in statistics {
        new.option(2, text);
    }
    new.option(99, b"from the future");
    new.u16(0);
    new.u32(8);
    let link = new.bytes.len();
    new.u64(0);
    let length = new.bytes.len() - options - 16;
    new.patch_u64(options + 8, length);

    let buffer = new.section(3, u16::from(packing != Packing::None), 0);
    let mut table = Vec::new();
    for (cpu, pages) in pages.iter().enumerate().filter(|(_, pages)| !pages.is_empty()) {
        let at = new.bytes.len();
        if packing == Packing::None {
            new.bytes.extend(*pages);
        } else {
            new.u32(pages.chunks(piece).count());
            for piece in pages.chunks(piece) {
                let packed = packing.pack(piece);
                new.u32(packed.len());
                new.u32(piece.len());
                new.bytes.extend(packed);
            }
        }
        // The length counts the pieces, not the word before them.
        let count = if packing == Packing::None { 0 } else { 4 };
        table.push((cpu, at, new.bytes.len() - at - count));
    }
    let second = new.section(0, 0, 0);
    new.patch_u64(link, second);
    for (name, table) in [("other", Vec::new()), ("", table)] {
        new.u16(3);
        new.u32(8 + name.len() + 1 + 5 + 8 + 20 * table.len());
        new.u64(buffer);
        new.bytes.extend(name.bytes());
        new.bytes.extend(b"\0mono\0");
        new.u32(0);
        new.u32(table.len());
        for (cpu, offset, length) in table {
            new.u32(cpu);
            new.u64(offset);
            new.u64(length);
        }
    }
    new.option_place(0, 0);
    let length = new.bytes.len() - second - 16;
    new.patch_u64(second + 8, length);
    new.bytes
}
