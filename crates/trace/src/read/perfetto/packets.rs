//! Packets of a file: found one after the other, loaded again by their place, and unpacked where several are packed
//! together.
//!
//! A `compressed_packets` field is a zlib stream (RFC 1950) of packets as the file has them. Nothing that comes out of one
//! is unpacked again. What the file claims is believed up to [`PACKET_MAX`] bytes for a packet, packed or not.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::wire::{Fields, varint};
use crate::perfetto::{PACKET, packet};
use crate::source::{ReadAt, read_full};

/// No packet may be longer. Recorders cut them at some 100 KiB.
pub(super) const PACKET_MAX: u64 = 16 << 20;
/// A key and a length.
const HEAD_MAX: usize = 20;
/// Unpacked packets kept for CPUs that are a little behind.
const KEPT: usize = 4;
/// The key of a packet.
const PACKET_KEY: u64 = (PACKET as u64) << 3 | 2;

/// Bytes of a source, read ahead.
pub(super) struct Ahead<'s, S: ?Sized> {
    source: &'s S,
    start: u64,
    bytes: Vec<u8>,
    /// How much is read at least.
    least: usize,
}

impl<'s, S: ReadAt + ?Sized> Ahead<'s, S> {
    pub(super) fn new(source: &'s S, least: usize) -> Ahead<'s, S> {
        Ahead { source, start: 0, bytes: Vec::new(), least }
    }

    /// So many bytes, fewer at the end.
    pub(super) fn bytes(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        let inside = |start: u64, length: usize| {
            let at = usize::try_from(offset.checked_sub(start)?).ok()?;
            (at <= length).then_some(at)
        };
        let held = inside(self.start, self.bytes.len()).filter(|at| self.bytes.len() - at >= count);
        let at = match held {
            Some(at) => at,
            None => {
                let wanted = count.max(self.least);
                self.bytes.resize(wanted, 0);
                // One long packet does not keep its memory.
                self.bytes.shrink_to(wanted.saturating_mul(2));
                self.start = offset;
                let filled = read_full(self.source, offset, &mut self.bytes)?;
                self.bytes.truncate(filled);
                0
            }
        };
        let end = at.saturating_add(count).min(self.bytes.len());
        Ok(self.bytes.get(at..end).unwrap_or_default())
    }
}

/// What stands at an offset of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Packet {
        start: u64,
        length: u64,
    },
    /// A field no trace has; the next one is there.
    Other {
        next: u64,
    },
    /// The file's end.
    End,
    /// No field, or one that the file's end cuts.
    Damage(String),
}

/// What stands at `offset`.
pub(super) fn find<S: ReadAt + ?Sized>(
    ahead: &mut Ahead<'_, S>,
    length: u64,
    offset: u64,
) -> io::Result<Found> {
    let head = ahead.bytes(offset, HEAD_MAX)?;
    if head.is_empty() {
        return Ok(Found::End);
    }
    let mut at = 0;
    let key = varint(head, &mut at);
    let value = varint(head, &mut at);
    let (Some(key), Some(value)) = (key, value) else {
        return Ok(Found::Damage("no packet begins here".to_owned()));
    };
    let start = offset + at as u64;
    let left = length.saturating_sub(start);
    Ok(match key & 7 {
        2 if value > left => Found::Damage(format!("a packet would take {value} bytes, and {left} are left")),
        2 if key == PACKET_KEY => Found::Packet { start, length: value },
        2 => Found::Other { next: start + value },
        0 => Found::Other { next: start },
        _ => Found::Damage("no packet begins here".to_owned()),
    })
}

/// Whether a file that begins so is a Perfetto trace: a packet whose fields are a packet's, as far as the bytes show.
pub(in crate::read) fn is_trace(beginning: &[u8]) -> bool {
    let mut at = 0;
    if varint(beginning, &mut at) != Some(PACKET_KEY) {
        return false;
    }
    let Some(length) = varint(beginning, &mut at).and_then(|length| usize::try_from(length).ok()) else {
        return false;
    };
    let shown = beginning.get(at..).unwrap_or_default();
    let is_cut = length > shown.len();
    let shown = &shown[..length.min(shown.len())];
    let mut fields = Fields::new(shown);
    let mut count = 0;
    for (number, value) in fields.by_ref() {
        let integer = matches!(value, super::wire::Value::Integer(_));
        if number > 1000 || integer != packet::INTEGERS.contains(&number) {
            return false;
        }
        count += 1;
    }
    if !fields.is_broken() {
        return count > 0;
    }
    // A message that reaches beyond what is shown; its key and length must be there.
    let mut at = fields.at();
    let key = varint(shown, &mut at).unwrap_or(0);
    let claimed = varint(shown, &mut at).and_then(|length| usize::try_from(length).ok());
    let room = length.saturating_sub(at);
    is_cut && key & 7 == 2 && key >> 3 <= 1000 && claimed.is_some_and(|claimed| claimed <= room)
}

/// Unpacks packed packets, and keeps the latest.
#[derive(Debug, Default)]
pub(super) struct Inflater {
    kept: VecDeque<(u64, Rc<Vec<u8>>)>,
    /// Bytes made so far.
    pub(super) made: u64,
}

impl Inflater {
    /// What the field `packed` of the packet at `place` holds.
    pub(super) fn inflate(&mut self, place: u64, packed: &[u8]) -> Result<Rc<Vec<u8>>, String> {
        let limit = usize::try_from(PACKET_MAX).unwrap_or(usize::MAX);
        let bytes = decompress_to_vec_zlib_with_limit(packed, limit)
            .map_err(|error| format!("packed packets cannot be unpacked ({error})"))?;
        self.made = self.made.saturating_add(bytes.len() as u64);
        let bytes = Rc::new(bytes);
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((place, Rc::clone(&bytes)));
        Ok(bytes)
    }

    /// The same, if it was unpacked not long ago.
    pub(super) fn kept(&self, place: u64) -> Option<Rc<Vec<u8>>> {
        self.kept.iter().find(|(known, _)| *known == place).map(|(_, bytes)| Rc::clone(bytes))
    }
}

/// The field of that number in a packet.
pub(super) fn field(packet: &[u8], number: u32) -> Option<&[u8]> {
    Fields::new(packet).find(|(found, _)| *found == number).map(|(_, value)| value.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_told_by_its_first_packet() {
        let packet = [0x0a, 6, 0x50, 1, 0x0a, 2, 0x08, 1];
        assert!(is_trace(&packet));
        // The rest of a long bundle is not shown.
        assert!(is_trace(&[0x0a, 0x80, 1, 0x0a, 0x7d, 0x08, 1]));
        for other in [
            b"".as_slice(),
            b"GIF89a",
            b"\n# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1\n",
            b"\n\n\n\n\n\n\n\n\n",
            b"\n  swapper 0 [000] 1.000000: sched:sched_switch: a b c d e f g\n",
            &[0x0a, 0],
            &[0x0a, 4, 0x0a, 9, 0, 0],
        ] {
            assert!(!is_trace(other), "{other:?}");
        }
    }

    #[test]
    fn reading_ahead_gives_the_same_bytes_as_the_file() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut ahead = Ahead::new(&bytes, 16);
        for (offset, count) in [(0, 4), (3, 13), (10, 20), (0, 1), (250, 20), (256, 1), (9999, 3)] {
            let expected = bytes.get(offset..).unwrap_or_default();
            let expected = &expected[..count.min(expected.len())];
            assert_eq!(ahead.bytes(offset as u64, count).unwrap(), expected, "{offset} {count}");
        }
    }
}
