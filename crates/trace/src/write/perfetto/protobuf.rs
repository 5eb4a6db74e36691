//! [`Message`]: a message of the protobuf wire format, written field by field.

/// The bytes of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// The bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Begins again in the same memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A field of an integer; one below 0 is as long as the longest.
    pub(super) fn integer(&mut self, field: u32, value: i64) {
        self.count(field, value.cast_unsigned());
    }

    /// A field of an integer that is never below 0.
    pub(super) fn count(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A field of bytes or a text.
    pub(super) fn put(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A field that is a message, filled by `fill`.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.put(field, inner.bytes());
    }

    /// Fields that were written before.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Seven bits to a byte, the lowest first; the top bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
