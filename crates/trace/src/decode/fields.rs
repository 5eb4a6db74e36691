//! Fields resolved to offsets: what is left of a format when decoding begins.

use surety_model::event::Comm;

use crate::endian::Endian;
use crate::format::{EventFormat, Field, FormatError, Place};

/// An integer at a fixed place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    pub(super) offset: usize,
    pub(super) size: u8,
    pub(super) signed: bool,
}

impl Scalar {
    /// The integer field of that name.
    pub(super) fn of(format: &EventFormat, name: &'static str) -> Result<Scalar, FormatError> {
        let wrong = || FormatError::Field { event: format.full_name(), field: name };
        let field = format.field(name).ok_or_else(wrong)?;
        let integer = field.place == Place::Fixed && !field.array && matches!(field.size, 1 | 2 | 4 | 8);
        let size = u8::try_from(field.size).ok().filter(|_| integer).ok_or_else(wrong)?;
        Ok(Scalar { offset: field.offset, size, signed: field.signed })
    }

    /// The value without regard to its sign.
    #[inline]
    pub(super) fn unsigned(self, endian: Endian, record: &[u8]) -> Option<u64> {
        // Eight bytes and a mask for any size, where the record has as many.
        if endian == Endian::Little
            && let Some(bytes) = record.get(self.offset..).and_then(|rest| rest.first_chunk())
        {
            return Some(u64::from_le_bytes(*bytes) & u64::MAX >> (64 - 8 * u32::from(self.size)));
        }
        endian.unsigned(record, self.offset, self.size)
    }

    /// The value, its sign extended where the kernel says the field has one.
    #[inline]
    pub(super) fn signed(self, endian: Endian, record: &[u8]) -> Option<i64> {
        let value = self.unsigned(endian, record)?;
        let spare = 64 - 8 * u32::from(self.size);
        // Shifting to the top and back is the sign extension; the casts keep the bits.
        Some(if self.signed { ((value << spare) as i64) >> spare } else { value as i64 })
    }
}

/// An address. Its own type, because the kernel calls some of them signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer(Scalar);

impl Pointer {
    pub(super) fn of(format: &EventFormat, name: &'static str) -> Result<Pointer, FormatError> {
        Scalar::of(format, name).map(Pointer)
    }

    #[inline]
    pub(super) fn read(self, endian: Endian, record: &[u8]) -> Option<u64> {
        self.0.unsigned(endian, record)
    }
}

/// Text in a record, up to its first zero byte.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// In the field itself.
    Fixed { offset: usize, size: usize },
    /// From the field to the record's end.
    Tail { offset: usize },
    /// Where the word at `offset` points; `base` is what that counts from.
    Elsewhere { offset: usize, base: usize },
}

impl Text {
    /// The text field of that name.
    pub(super) fn of(format: &EventFormat, name: &'static str) -> Result<Text, FormatError> {
        let wrong = || FormatError::Field { event: format.full_name(), field: name };
        let Field { offset, size, place, array, .. } = *format.field(name).ok_or_else(wrong)?;
        match place {
            // Older kernels call the open array of a marker `char buf` of size 0.
            Place::Fixed if !array && size != 0 => Err(wrong()),
            Place::Fixed if size == 0 => Ok(Text::Tail { offset }),
            Place::Fixed => Ok(Text::Fixed { offset, size }),
            Place::DataLoc => Ok(Text::Elsewhere { offset, base: 0 }),
            Place::RelLoc => Ok(Text::Elsewhere { offset, base: offset.saturating_add(4) }),
        }
    }

    /// The bytes, those behind the first zero included.
    #[inline]
    pub(super) fn bytes(self, endian: Endian, record: &[u8]) -> Option<&[u8]> {
        match self {
            Text::Fixed { offset, size } => record.get(offset..offset.checked_add(size)?),
            Text::Tail { offset } => record.get(offset..),
            Text::Elsewhere { offset, base } => {
                let word = endian.u32(record, offset)?;
                let start = base.checked_add((word & 0xffff) as usize)?;
                record.get(start..start.checked_add((word >> 16) as usize)?)
            }
        }
    }

    /// As a thread's name.
    #[inline]
    pub(super) fn comm(self, endian: Endian, record: &[u8]) -> Option<Comm> {
        let bytes = self.bytes(endian, record)?;
        let raw = match bytes.first_chunk::<16>() {
            Some(chunk) => *chunk,
            None => {
                let mut raw = [0; 16];
                raw[..bytes.len()].copy_from_slice(bytes);
                raw
            }
        };
        Some(name(raw))
    }

    /// As text; what follows a byte that is no UTF-8 is cut off.
    #[inline]
    pub(super) fn text(self, endian: Endian, record: &[u8]) -> Option<&str> {
        let bytes = self.bytes(endian, record)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let bytes = &bytes[..end];
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        })
    }
}

/// A thread's name. Most are followed by zeros only, and a name that is copied as it is can be read at once: of one made
/// from words the processor has to wait until they are written.
#[inline]
pub(super) fn name(raw: [u8; 16]) -> Comm {
    let cleared = until_zero(raw);
    if cleared == raw { Comm(raw) } else { unclean(cleared) }
}

#[cold]
#[inline(never)]
fn unclean(cleared: [u8; 16]) -> Comm {
    Comm(cleared)
}

/// Clears what stands behind the first zero byte, and the last byte, which the kernel keeps zero: the name's end may be
/// followed by the rest of a longer one.
#[inline]
fn until_zero(raw: [u8; 16]) -> [u8; 16] {
    const ONES: u128 = u128::MAX / 0xff;
    let name = u128::from_le_bytes(raw) & (u128::MAX >> 8);
    // The lowest byte that is zero is the lowest whose top bit is set here (Mycroft's test).
    let zeros = name.wrapping_sub(ONES) & !name & (ONES << 7);
    let kept = zeros.trailing_zeros() & !7;
    (name & !(u128::MAX << kept)).to_le_bytes()
}

/// The low 32 bits as the kernel's `int`: fields of interest are no wider.
#[inline]
pub(super) fn signed32(value: i64) -> i32 {
    value as i32
}

/// The low 32 bits as `unsigned int`.
#[inline]
pub(super) fn unsigned32(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn signs_are_extended_where_the_kernel_says_so() {
        let record = [0xff, 0xff, 0xff, 0xfe];
        for (size, signed, value) in [(1, true, -1), (1, false, 255), (4, true, -0x0100_0001), (2, true, -1)]
        {
            let field = Scalar { offset: 0, size, signed };
            assert_eq!(field.signed(Endian::Little, &record), Some(value), "{size} {signed}");
        }
        assert_eq!(Scalar { offset: 1, size: 4, signed: true }.signed(Endian::Little, &record), None);
    }

    #[test]
    fn text_is_found_in_every_place() {
        // A word that points to offset 8, 5 bytes long, from the start or from the word's end.
        let mut record = vec![0; 4];
        record.extend((5u32 << 16 | 8).to_le_bytes());
        record.extend(*b"abc\0zdefg\0");
        let read = |text: Text| text.text(Endian::Little, &record);
        assert_eq!(read(Text::Elsewhere { offset: 4, base: 0 }), Some("abc"));
        record[4..8].copy_from_slice(&(4u32 << 16 | 5).to_le_bytes());
        let read = |text: Text| text.text(Endian::Little, &record);
        assert_eq!(read(Text::Elsewhere { offset: 4, base: 8 }), Some("defg"));
        assert_eq!(read(Text::Tail { offset: 13 }), Some("defg"));
        assert_eq!(read(Text::Fixed { offset: 8, size: 2 }), Some("ab"));
        assert_eq!(read(Text::Fixed { offset: 8, size: 99 }), None);
        assert_eq!(read(Text::Elsewhere { offset: 16, base: 0 }), None);
    }

    #[test]
    fn text_that_is_not_utf8_is_cut() {
        let text = Text::Tail { offset: 0 };
        assert_eq!(text.text(Endian::Little, b"ab\xffcd\0"), Some("ab"));
    }

    proptest! {
        /// The word-parallel clearing is the same as looking at one byte after the other.
        #[test]
        fn names_end_at_their_first_zero(raw in prop::array::uniform16(prop_oneof![Just(0u8), Just(1), Just(0x80), any::<u8>()])) {
            let end = raw[..15].iter().position(|b| *b == 0).unwrap_or(15);
            let mut expected = [0; 16];
            expected[..end].copy_from_slice(&raw[..end]);
            prop_assert_eq!(until_zero(raw), expected);
        }
    }
}
