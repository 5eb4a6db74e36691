//! [`Packed`]: the pages of one CPU, which version 7 compresses in pieces, as one source of bytes.
//!
//! ```text
//! u32 count of pieces      each: u32 packed length, u32 length, packed bytes
//! ```
//!
//! The length that the buffer's option gives a CPU is that of the pieces, without the count.
//!
//! One unpacked piece of each CPU is held at a time. A piece that cannot be unpacked reads as bytes of ones: that is no
//! page (it claims to hold more than fits), so a merge counts it as damaged and says that events are lost there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

use ruzstd::decoding::FrameDecoder;

use super::codec::Codec;
use super::cursor::Cursor;
use super::{TraceDatError, damaged};
use crate::source::{ReadAt, read_full};

/// No piece may be longer unpacked. Writers put some pages into one: trace-cmd ten.
pub(in crate::read) const CHUNK_MAX: u32 = 32 << 20;
/// So many faults are described; further ones are only counted as damage.
const FAULTS_MAX: usize = 16;

/// A piece of one CPU's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct Chunk {
    /// Of the packed bytes in the file.
    offset: u64,
    packed: u32,
    /// Where its first byte is among the CPU's unpacked ones.
    start: u64,
    pub(in crate::read) length: u32,
}

/// The pieces at the cursor, which may reach to `end`; and whether the file's end cuts them.
pub(in crate::read) fn read_chunks<S: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    end: u64,
) -> Result<(Vec<Chunk>, bool), TraceDatError> {
    let (mut chunks, mut start) = (Vec::new(), 0u64);
    let there = end.min(cursor.length());
    if there.saturating_sub(cursor.offset()) < 4 {
        return Ok((chunks, true));
    }
    let count = cursor.u32("the number of pieces")?;
    for _ in 0..count {
        if there.saturating_sub(cursor.offset()) < 8 {
            return Ok((chunks, true));
        }
        let at = cursor.offset();
        let packed = cursor.u32("the packed length of a piece")?;
        let length = cursor.u32("the length of a piece")?;
        if length > CHUNK_MAX {
            return Err(damaged(at, format!("a piece of {length} bytes is more than {CHUNK_MAX}")));
        }
        if there - cursor.offset() < packed.into() {
            return Ok((chunks, true));
        }
        chunks.push(Chunk { offset: cursor.offset(), packed, start, length });
        start += u64::from(length);
        cursor.skip(packed.into(), "a piece")?;
    }
    Ok((chunks, false))
}

/// What unpacking needs and finds, shared by the CPUs of a file.
#[derive(Clone)]
pub(super) struct Unpacking {
    codec: Codec,
    decoder: Rc<RefCell<FrameDecoder>>,
    /// Why pieces could not be unpacked, by their place.
    faults: Rc<RefCell<BTreeMap<u64, String>>>,
}

impl Unpacking {
    pub(super) fn new(codec: Codec) -> Unpacking {
        Unpacking { codec, decoder: Rc::new(RefCell::new(FrameDecoder::new())), faults: Rc::default() }
    }

    /// What went wrong so far, each with its place in the file.
    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.borrow().iter().map(|(offset, what)| format!("byte {offset}: {what}")).collect()
    }
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking").field("codec", &self.codec).field("faults", &self.faults).finish()
    }
}

/// Packed pages of one CPU.
#[derive(Debug)]
pub struct Packed<'a, S: ?Sized> {
    source: &'a S,
    chunks: &'a [Chunk],
    unpacking: Unpacking,
    held: RefCell<Held>,
}

/// The piece unpacked last.
#[derive(Debug, Default)]
struct Held {
    index: Option<usize>,
    bytes: Vec<u8>,
}

impl<'a, S: ReadAt + ?Sized> Packed<'a, S> {
    pub(super) fn new(source: &'a S, chunks: &'a [Chunk], unpacking: &Unpacking) -> Packed<'a, S> {
        Packed { source, chunks, unpacking: unpacking.clone(), held: RefCell::default() }
    }

    /// Bytes of one piece.
    fn unpack(&self, chunk: &Chunk) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; chunk.packed as usize];
        let filled = read_full(self.source, chunk.offset, &mut packed)?;
        let unpacking = &self.unpacking;
        let mut decoder = unpacking.decoder.borrow_mut();
        let length = chunk.length as usize;
        unpacking.codec.unpack(&mut decoder, &packed[..filled], length).or_else(|what| {
            let mut faults = unpacking.faults.borrow_mut();
            if faults.len() < FAULTS_MAX {
                faults.insert(chunk.offset, format!("pages are lost, {what}"));
            }
            Ok(vec![0xff; length])
        })
    }
}

impl<S: ReadAt + ?Sized> ReadAt for Packed<'_, S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let index = self.chunks.partition_point(|c| c.start + u64::from(c.length) <= offset);
        let Some(chunk) = self.chunks.get(index) else { return Ok(0) };
        let mut held = self.held.borrow_mut();
        if held.index != Some(index) {
            // Freed before the next one is made.
            *held = Held::default();
            *held = Held { bytes: self.unpack(chunk)?, index: Some(index) };
        }
        held.bytes.read_at(offset - chunk.start, buf)
    }

    fn len(&self) -> u64 {
        self.chunks.last().map_or(0, |c| c.start + u64::from(c.length))
    }
}
