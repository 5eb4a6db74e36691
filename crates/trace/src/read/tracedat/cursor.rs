//! [`Cursor`]: reads a file from its beginning on; every length is checked against what is left before memory is taken.

use super::{TraceDatError, damaged};
use crate::endian::Endian;
use crate::source::{ReadAt, read_full};

/// Names in a file (versions, systems) are shorter than this.
const NAME_MAX: usize = 256;
/// Bytes that are read together of what is taken piece by piece.
const PIECE: usize = 64 << 10;

/// A place in a source.
pub(in crate::read) struct Cursor<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
    length: u64,
    /// The file's byte order, once it is known.
    pub(in crate::read) endian: Endian,
}

impl<'a, S: ReadAt + ?Sized> Cursor<'a, S> {
    pub(in crate::read) fn new(source: &'a S) -> Cursor<'a, S> {
        Cursor { source, offset: 0, length: source.len(), endian: Endian::Little }
    }

    /// Where the next read begins.
    pub(in crate::read) fn offset(&self) -> u64 {
        self.offset
    }

    /// The length of the whole file.
    pub(in crate::read) fn length(&self) -> u64 {
        self.length
    }

    /// So many bytes; `what` names them in errors.
    pub(in crate::read) fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, TraceDatError> {
        let mut bytes = vec![0; self.room(count, what)?];
        let filled = read_full(self.source, self.offset, &mut bytes)
            .map_err(|source| TraceDatError::Read { offset: self.offset, source })?;
        if filled < bytes.len() {
            return Err(damaged(self.offset + filled as u64, format!("{what} ends early")));
        }
        self.offset += count;
        Ok(bytes)
    }

    /// Bytes behind their length in 4 bytes, a piece after the other: what is long and of which little is kept.
    pub(in crate::read) fn pieces32(
        &mut self,
        what: &str,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), TraceDatError> {
        let count = self.u32(what)?;
        let mut left = self.room(count.into(), what)?;
        let mut piece = vec![0; left.min(PIECE)];
        while left > 0 {
            let size = left.min(piece.len());
            let filled = read_full(self.source, self.offset, &mut piece[..size])
                .map_err(|source| TraceDatError::Read { offset: self.offset, source })?;
            self.offset += filled as u64;
            if filled < size {
                return Err(damaged(self.offset, format!("{what} ends early")));
            }
            take(&piece[..size]);
            left -= size;
        }
        Ok(())
    }

    /// `count` as a length, where the file has that many bytes left.
    fn room(&self, count: u64, what: &str) -> Result<usize, TraceDatError> {
        let left = self.length.saturating_sub(self.offset);
        usize::try_from(count).ok().filter(|_| count <= left).ok_or_else(|| {
            damaged(self.offset, format!("{what} would take {count} bytes, and {left} are left"))
        })
    }

    /// Passes over so many bytes.
    pub(in crate::read) fn skip(&mut self, count: u64, what: &str) -> Result<(), TraceDatError> {
        self.room(count, what)?;
        self.offset += count;
        Ok(())
    }

    /// Goes to a place of the file.
    pub(in crate::read) fn seek(&mut self, offset: u64, what: &str) -> Result<(), TraceDatError> {
        if offset > self.length {
            return Err(damaged(
                self.length,
                format!("{what} should be at byte {offset}, and the file ends before"),
            ));
        }
        self.offset = offset;
        Ok(())
    }

    /// Whether these bytes come next; then they are passed over.
    pub(in crate::read) fn is_next(&mut self, expected: &[u8]) -> Result<bool, TraceDatError> {
        let mut bytes = vec![0; expected.len()];
        let filled = read_full(self.source, self.offset, &mut bytes)
            .map_err(|source| TraceDatError::Read { offset: self.offset, source })?;
        let same = filled == expected.len() && bytes == expected;
        if same {
            self.offset += expected.len() as u64;
        }
        Ok(same)
    }

    /// A tag that must come next.
    pub(in crate::read) fn tag(&mut self, tag: &[u8]) -> Result<(), TraceDatError> {
        if self.is_next(tag)? {
            return Ok(());
        }
        let name = String::from_utf8_lossy(tag);
        Err(damaged(self.offset, format!("`{}` should begin here", name.trim_end_matches('\0').trim_end())))
    }

    /// Text up to a zero byte, which is passed over.
    pub(in crate::read) fn name(&mut self, what: &str) -> Result<String, TraceDatError> {
        let mut bytes = [0; NAME_MAX];
        let filled = read_full(self.source, self.offset, &mut bytes)
            .map_err(|source| TraceDatError::Read { offset: self.offset, source })?;
        let end = bytes[..filled]
            .iter()
            .position(|b| *b == 0)
            .ok_or_else(|| damaged(self.offset, format!("{what} does not end")))?;
        self.offset += end as u64 + 1;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// So many bytes as text; what is no UTF-8 is replaced.
    pub(in crate::read) fn text(&mut self, count: u64, what: &str) -> Result<String, TraceDatError> {
        let bytes = self.bytes(count, what)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// A text behind its length in 4 bytes.
    pub(in crate::read) fn text32(&mut self, what: &str) -> Result<String, TraceDatError> {
        let count = self.u32(what)?;
        self.text(count.into(), what)
    }

    /// A text behind its length in 8 bytes.
    pub(in crate::read) fn text64(&mut self, what: &str) -> Result<String, TraceDatError> {
        let count = self.u64(what)?;
        self.text(count, what)
    }

    /// Passes over a text behind its length in 4 bytes.
    pub(in crate::read) fn skip32(&mut self, what: &str) -> Result<(), TraceDatError> {
        let count = self.u32(what)?;
        self.skip(count.into(), what)
    }

    /// Passes over a text behind its length in 8 bytes.
    pub(in crate::read) fn skip64(&mut self, what: &str) -> Result<(), TraceDatError> {
        let count = self.u64(what)?;
        self.skip(count, what)
    }

    pub(in crate::read) fn u8(&mut self, what: &str) -> Result<u8, TraceDatError> {
        Ok(self.fixed::<1>(what)?[0])
    }

    pub(in crate::read) fn u16(&mut self, what: &str) -> Result<u16, TraceDatError> {
        let raw = self.fixed::<2>(what)?;
        Ok(if self.endian == Endian::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    pub(in crate::read) fn u32(&mut self, what: &str) -> Result<u32, TraceDatError> {
        let raw = self.fixed::<4>(what)?;
        Ok(if self.endian == Endian::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    pub(in crate::read) fn u64(&mut self, what: &str) -> Result<u64, TraceDatError> {
        let raw = self.fixed::<8>(what)?;
        Ok(if self.endian == Endian::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }

    fn fixed<const N: usize>(&mut self, what: &str) -> Result<[u8; N], TraceDatError> {
        let mut raw = [0; N];
        let filled = read_full(self.source, self.offset, &mut raw)
            .map_err(|source| TraceDatError::Read { offset: self.offset, source })?;
        if filled < N {
            return Err(damaged(self.offset, format!("{what} is missing")));
        }
        self.offset += N as u64;
        Ok(raw)
    }
}
