//! Integers as the recording machine wrote them: either byte order, any of the sizes C gives a field.
//!
//! Every read is checked against the slice's end and returns `None` beyond it, so decoders need no other bound.

/// The byte order of the recording machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first (x86, arm64, riscv).
    Little,
    /// Most significant byte first (s390x, some powerpc).
    Big,
}

impl Endian {
    /// The byte order this program runs on: right for live traces.
    pub const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    /// Two bytes at `at`.
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk::<2>()?;
        Some(if self == Endian::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    /// Four bytes at `at`.
    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self == Endian::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    /// Eight bytes at `at`.
    #[inline]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self == Endian::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }

    /// An unsigned integer of `size` bytes at `at`; `None` when the size is none of 1, 2, 4, 8.
    #[inline]
    pub fn unsigned(self, bytes: &[u8], at: usize, size: u8) -> Option<u64> {
        match size {
            1 => bytes.get(at).map(|b| u64::from(*b)),
            2 => self.u16(bytes, at).map(u64::from),
            4 => self.u32(bytes, at).map(u64::from),
            8 => self.u64(bytes, at),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_every_size() {
        let bytes = [0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08];
        for (size, little, big) in [
            (1, 0x01, 0x01),
            (2, 0x0201, 0x0102),
            (4, 0x0403_0201, 0x0102_0304),
            (8, 0x0807_0605_0403_0201, 0x0102_0304_0506_0708),
        ] {
            assert_eq!(Endian::Little.unsigned(&bytes, 0, size), Some(little));
            assert_eq!(Endian::Big.unsigned(&bytes, 0, size), Some(big));
            assert_eq!(Endian::Big.unsigned(&bytes, 9 - usize::from(size), size), None, "one byte beyond");
            assert_eq!(Endian::Big.unsigned(&bytes, usize::MAX, size), None);
        }
        assert_eq!(Endian::Little.unsigned(&bytes, 0, 3), None);
    }
}
