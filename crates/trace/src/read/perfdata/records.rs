//! [`Records`]: the records of a perf.data file one after the other; [`Unpacker`]: those that were compressed.
//!
//! ```text
//! u32 kind   u16 flags   u16 length, these 8 bytes included   body
//! ```
//!
//! Two kinds are followed by bytes that their length does not count: hardware traces, and in pipes the formats.

use std::io;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::endian::Endian;
use crate::source::{ReadAt, read_full};

/// Kinds of records.
pub(super) const LOST: u32 = 2;
pub(super) const THROTTLE: u32 = 5;
pub(super) const SAMPLE: u32 = 9;
pub(super) const LOST_SAMPLES: u32 = 13;
pub(super) const ATTRIBUTE: u32 = 64;
pub(super) const TRACING_DATA: u32 = 66;
pub(super) const FINISHED_ROUND: u32 = 68;
const HARDWARE_TRACE: u32 = 71;
/// One of a file's further parts, in a pipe.
pub(super) const PART: u32 = 80;
pub(super) const COMPRESSED: u32 = 81;
/// The same with its length before it, since it may be padded.
pub(super) const COMPRESSED2: u32 = 83;

/// The bytes before a record's body.
pub(super) const HEADER: usize = 8;
/// What is read at once; a record has at most 64 KiB.
const BUFFER: usize = 1 << 18;
/// The largest history packed records may refer to: what the levels 1 to 19 of zstd take.
const WINDOW_MAX: u64 = 8 << 20;
/// No recording is packed tighter.
const UNPACKED_TIMES_MAX: u64 = 256;

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'b> {
    /// A record of this kind at this offset.
    Record { at: u64, kind: u32, body: &'b [u8] },
    /// Nothing.
    End,
    /// The file ends in the middle of one.
    Cut,
    /// A length that no record has; nothing behind it can be found.
    Broken { at: u64 },
}

/// A part of a file as records.
pub(super) struct Records<'s, S: ?Sized> {
    source: &'s S,
    endian: Endian,
    pipe: bool,
    /// Of the next record.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Where in the source the buffer begins, and how much of it is filled.
    base: u64,
    filled: usize,
}

impl<'s, S: ReadAt + ?Sized> Records<'s, S> {
    /// The records from `at` to `end`.
    pub(super) fn new(source: &'s S, endian: Endian, pipe: bool, at: u64, end: u64) -> Records<'s, S> {
        let end = end.min(source.len());
        Records { source, endian, pipe, at, end, buffer: vec![0; BUFFER], base: 0, filled: 0 }
    }

    /// Where the next record begins.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }

    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        let at = self.at;
        if self.end <= at {
            return Ok(Next::End);
        }
        let endian = self.endian;
        let Some(start) = self.hold(at, HEADER)? else { return Ok(Next::Cut) };
        let header = &self.buffer[start..start + HEADER];
        let (Some(kind), Some(length)) = (endian.u32(header, 0), endian.u16(header, 6)) else {
            return Ok(Next::Cut);
        };
        let length = usize::from(length);
        if length < HEADER {
            return Ok(Next::Broken { at });
        }
        let Some(start) = self.hold(at, length)? else {
            self.at = self.end;
            return Ok(Next::Cut);
        };
        let record = &self.buffer[start..start + length];
        let behind = match kind {
            HARDWARE_TRACE => endian.u64(record, HEADER).unwrap_or(0),
            TRACING_DATA if self.pipe => endian.u32(record, HEADER).map_or(0, u64::from),
            _ => 0,
        };
        self.at = at.saturating_add(length as u64).saturating_add(behind);
        Ok(Next::Record { at, kind, body: &record[HEADER..] })
    }

    /// Where in the buffer `count` bytes of the source begin, from `at` on; `None` when it ends before.
    #[inline]
    fn hold(&mut self, at: u64, count: usize) -> io::Result<Option<usize>> {
        let held = |base: u64, filled: usize| {
            let start = usize::try_from(at.checked_sub(base)?).ok()?;
            (start.checked_add(count)? <= filled).then_some(start)
        };
        if self.end.saturating_sub(at) < count as u64 {
            return Ok(None);
        }
        let start = held(self.base, self.filled);
        if start.is_some() {
            return Ok(start);
        }
        self.base = at;
        self.filled = read_full(self.source, at, &mut self.buffer)?;
        Ok(held(self.base, self.filled))
    }
}

/// Unpacks records. All of a file are one endless frame of zstd, of which each compressed record holds a piece. One block
/// is unpacked at a time, so memory holds the history records may refer to and little more.
pub(super) struct Unpacker {
    endian: Endian,
    decoder: FrameDecoder,
    started: bool,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
    /// What of `unpacked` was handed out.
    taken: usize,
    /// Bytes taken in and given out so far.
    total: (u64, u64),
}

impl Unpacker {
    pub(super) fn new(endian: Endian) -> Unpacker {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        let (packed, unpacked) = (Vec::new(), Vec::new());
        Unpacker { endian, decoder, started: false, packed, unpacked, taken: 0, total: (0, 0) }
    }

    /// Takes a compressed record's body; what it holds must be taken out before the next.
    pub(super) fn push(&mut self, kind: u32, body: &[u8]) -> Result<(), String> {
        let piece = if kind == COMPRESSED2 {
            let length = self.endian.u64(body, 0).and_then(|length| usize::try_from(length).ok());
            let end = length.and_then(|length| length.checked_add(8));
            end.and_then(|end| body.get(8..end)).ok_or("a compressed record longer than its body")?
        } else {
            body
        };
        self.packed.extend_from_slice(piece);
        self.total.0 += piece.len() as u64;
        Ok(())
    }

    /// Ends the frame, which the recorder left open: what was kept for later references comes out.
    pub(super) fn finish(&mut self) {
        if self.started {
            // A last block without content.
            self.packed.extend_from_slice(&[1, 0, 0]);
        }
    }

    /// Unpacks one more block; `false` when there is no whole one.
    fn block(&mut self) -> Result<bool, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("zstd cannot unpack it ({error})");
        let mut packed = self.packed.as_slice();
        if !self.started {
            // The longest beginning of a frame.
            if packed.len() < 18 {
                return Ok(false);
            }
            self.decoder.init(&mut packed).map_err(|error| wrong(&error))?;
            self.started = true;
        }
        let whole = block_size(packed).is_some_and(|size| size <= packed.len());
        if whole {
            self.decoder
                .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|error| wrong(&error))?;
            self.unpacked.drain(..self.taken);
            self.taken = 0;
            let count = self.decoder.collect_to_writer(&mut self.unpacked).map_err(|error| wrong(&error))?;
            self.total.1 += count as u64;
            self.started = !self.decoder.is_finished();
        }
        let consumed = self.packed.len() - packed.len();
        self.packed.drain(..consumed);
        let (taken, given) = self.total;
        if given > taken.saturating_mul(UNPACKED_TIMES_MAX).saturating_add(WINDOW_MAX) {
            return Err(format!("{taken} bytes unpack to more than {given}, which no recording does"));
        }
        Ok(whole)
    }

    /// The next record; `None` when the pieces so far hold no further whole one. An error where no record can be found
    /// any more.
    pub(super) fn next(&mut self) -> Result<Option<(u32, &[u8])>, String> {
        loop {
            let rest = self.unpacked.get(self.taken..).unwrap_or_default();
            if let (Some(kind), Some(length)) = (self.endian.u32(rest, 0), self.endian.u16(rest, 6)) {
                let length = usize::from(length);
                if length < HEADER {
                    return Err("a record of an impossible length in it".to_owned());
                }
                if length <= rest.len() {
                    let start = self.taken;
                    self.taken += length;
                    return Ok(Some((kind, &self.unpacked[start + HEADER..start + length])));
                }
            }
            if !self.block()? {
                return Ok(None);
            }
        }
    }

    /// Whether a part of a record is left.
    pub(super) fn is_cut(&self) -> bool {
        self.taken < self.unpacked.len() || !self.packed.is_empty()
    }
}

/// Bytes of the block that begins here, its header included: bit 0 says whether it is the last, bits 1 and 2 its kind,
/// the rest its size; a block of kind 1 repeats one byte (RFC 8878, 3.1.1.2).
fn block_size(packed: &[u8]) -> Option<usize> {
    let raw = packed.first_chunk::<3>()?;
    let word = u32::from_le_bytes([raw[0], raw[1], raw[2], 0]);
    let size = if word >> 1 & 3 == 1 { 1 } else { usize::try_from(word >> 3).ok()? };
    Some(3 + size)
}
