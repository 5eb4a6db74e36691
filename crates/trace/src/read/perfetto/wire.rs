//! [`Fields`]: a message of the protobuf wire format, field by field.
//!
//! A field is a key (number << 3 | wire type) and a value: 0 a varint, 1 eight bytes, 2 a length and so many bytes, 5 four
//! bytes. Types 3 and 4 (groups) are of an old form that no trace uses; they end the reading as any other damage does.
//! Nothing is copied, and a length is believed only as far as its message reaches.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint, or an integer of fixed size.
    Integer(u64),
    /// A text, a message, or packed integers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The integer; 0 for bytes.
    pub(super) fn integer(self) -> u64 {
        match self {
            Value::Integer(value) => value,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes; none for an integer.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Integer(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// The fields of one message, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    broken: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0, broken: false }
    }

    /// The same from a place a former walk stood at.
    pub(super) fn from(bytes: &'a [u8], at: usize) -> Fields<'a> {
        Fields { bytes, at, broken: false }
    }

    /// Where the next field begins, or where what cannot be read does.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether the walk ended before the message did.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    #[inline]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let mut at = self.at;
        let key = varint(self.bytes, &mut at)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number != 0)?;
        let value = match key & 7 {
            0 => Value::Integer(varint(self.bytes, &mut at)?),
            1 => {
                let raw = self.bytes.get(at..)?.first_chunk::<8>()?;
                at += 8;
                Value::Integer(u64::from_le_bytes(*raw))
            }
            2 => {
                let length = usize::try_from(varint(self.bytes, &mut at)?).ok()?;
                let bytes = self.bytes.get(at..at.checked_add(length)?)?;
                at += length;
                Value::Bytes(bytes)
            }
            5 => {
                let raw = self.bytes.get(at..)?.first_chunk::<4>()?;
                at += 4;
                Value::Integer(u32::from_le_bytes(*raw).into())
            }
            _ => return None,
        };
        self.at = at;
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.broken || self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        self.broken = field.is_none();
        field
    }
}

/// The varint at `at`, which moves behind it; `None` when it does not end within ten bytes.
#[inline]
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(first.into());
    }
    let mut value = u64::from(first & 0x7f);
    for (byte, shift) in bytes.get(*at + 1..)?.iter().take(9).zip((7u32..).step_by(7)) {
        value |= u64::from(byte & 0x7f) << shift;
        *at += 1;
        if *byte < 0x80 {
            *at += 1;
            return Some(value);
        }
    }
    None
}

/// The low 32 bits as the `int32` a field is.
#[inline]
pub(super) fn signed32(value: u64) -> i32 {
    value as i32
}

/// The low 32 bits as the `uint32` a field is.
#[inline]
pub(super) fn unsigned32(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_type_is_read_or_passed_over() {
        // 1: 300; 2: "ab"; 3: four bytes; 4: eight bytes.
        let mut bytes = vec![0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1d, 1, 0, 0, 0, 0x21];
        bytes.extend(7u64.to_le_bytes());
        let mut fields = Fields::new(&bytes);
        let found: Vec<_> = fields.by_ref().collect();
        let expected = [
            (1, Value::Integer(300)),
            (2, Value::Bytes(b"ab")),
            (3, Value::Integer(1)),
            (4, Value::Integer(7)),
        ];
        assert_eq!(found, expected);
        assert!(!fields.is_broken());
    }

    #[test]
    fn what_cannot_be_read_ends_the_walk_where_it_stands() {
        let long = [[0x08].as_slice(), &[0xff; 11]].concat();
        for (bytes, at) in [
            ([0x08, 1, 0x12, 9, 0].as_slice(), 2), // longer than the message
            (&[0x08, 1, 0x0b], 2),                 // a group
            (&[0x08, 1, 0x10], 2),                 // no value
            (&[0x08, 1, 0x00, 1], 2),              // number 0
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], 0),
            (&long, 0),
        ] {
            let mut fields = Fields::new(bytes);
            fields.by_ref().for_each(drop);
            assert!(fields.is_broken(), "{bytes:?}");
            assert_eq!(fields.at(), at, "{bytes:?}");
            assert_eq!(fields.next(), None);
        }
    }

    #[test]
    fn the_longest_integers_are_whole() {
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let mut at = 0;
        assert_eq!(varint(&minus_one, &mut at), Some(u64::MAX));
        assert_eq!((at, signed32(u64::MAX), unsigned32(1 << 33 | 5)), (10, -1, 5));
    }
}
