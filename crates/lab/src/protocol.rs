//! What a guest says to the host: frames that are counted, measured and summed, so that nothing is taken for a result
//! that is none.
//!
//! A frame is `S`, `Y`, kind (1 byte), number (4 bytes: 0, 1, 2, ...), length of its content (4 bytes), content, and the
//! CRC-32 of everything from the kind on; integers are little-endian. A stream begins with [`Message::Hello`]. What is said of
//! each run of the job, one after the other, ends with [`Message::Finished`] or [`Message::Refused`]; the stream ends with
//! [`Message::Done`] or [`Message::Failed`]. Anything after that, and any end before it, is an error.

use thiserror::Error;

use crate::digest::crc32;

/// The version of this protocol.
pub const VERSION: u16 = 3;
/// The longest content of a frame.
pub const CONTENT_MAX: usize = 1 << 16;
/// The most of one kind that is put together again.
pub const WHOLE_MAX: usize = 1 << 30;

const MARK: [u8; 2] = *b"SY";
const HEAD: usize = 2 + 1 + 4 + 4;

/// One thing said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The guest is there.
    Hello {
        /// Its version of the protocol.
        version: u16,
        /// Its kernel.
        release: String,
    },
    /// So much of the run is done, in ns.
    Progress {
        done: u64,
        /// Of all.
        total: u64,
    },
    /// Something the user should know.
    Notice(String),
    /// What the run observes begins and ends at these instants of the guest's clock, in ns.
    Observed { from: u64, until: u64 },
    /// A piece of the document.
    Record(Vec<u8>),
    /// A piece of the samples.
    Samples(Vec<u8>),
    /// A piece of the trace.
    Trace(Vec<u8>),
    /// The run could not be made: a [`crate::job::Refusal`] as JSON. What was said of it is nothing; the next begins.
    Refused(Vec<u8>),
    /// Everything was said of the run; the next begins.
    Finished,
    /// Everything was said of every run.
    Done,
    /// No further run can be made: a [`crate::job::Refusal`] as JSON.
    Failed(Vec<u8>),
}

/// Something that is no frame of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No frame begins here.
    #[error("byte {at} begins no frame")]
    Mark {
        /// Its place in the stream.
        at: u64,
    },
    /// A frame that is longer than any.
    #[error("the frame at byte {at} is said to hold {length} bytes")]
    Length {
        /// Its place in the stream.
        at: u64,
        /// What it says.
        length: u32,
    },
    /// Its sum does not fit.
    #[error("the frame at byte {at} is damaged")]
    Sum {
        /// Its place in the stream.
        at: u64,
    },
    /// Frames are missing, or come again.
    #[error("the frame at byte {at} is number {found}, expected {expected}")]
    Number {
        /// Its place in the stream.
        at: u64,
        /// Its number.
        found: u32,
        /// The number that follows the last.
        expected: u32,
    },
    /// Its content is not of its kind.
    #[error("the frame at byte {at} holds no content of its kind ({kind})")]
    Content {
        /// Its place in the stream.
        at: u64,
        kind: u8,
    },
    /// A frame that cannot come here.
    #[error("the frame at byte {at}: {why}")]
    Order {
        /// Its place in the stream.
        at: u64,
        /// Why not.
        why: &'static str,
    },
    /// The stream ends in a frame, or before the last.
    #[error("it ends after {at} bytes, before everything was said")]
    Cut {
        /// Its length.
        at: u64,
    },
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::Hello { .. } => 1,
            Message::Progress { .. } => 2,
            Message::Notice(_) => 3,
            Message::Record(_) => 4,
            Message::Samples(_) => 5,
            Message::Trace(_) => 6,
            Message::Refused(_) => 7,
            Message::Finished => 8,
            Message::Done => 9,
            Message::Failed(_) => 10,
            Message::Observed { .. } => 11,
        }
    }

    fn content(&self) -> Vec<u8> {
        match self {
            Message::Hello { version, release } => [&version.to_le_bytes()[..], release.as_bytes()].concat(),
            Message::Progress { done, total } => pair(*done, *total),
            Message::Observed { from, until } => pair(*from, *until),
            Message::Notice(text) => text.as_bytes().to_vec(),
            Message::Record(bytes)
            | Message::Samples(bytes)
            | Message::Trace(bytes)
            | Message::Refused(bytes)
            | Message::Failed(bytes) => bytes.clone(),
            Message::Finished | Message::Done => Vec::new(),
        }
    }

    fn read(kind: u8, content: &[u8]) -> Option<Message> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let two = || {
            let (one, other) = content.split_first_chunk::<8>()?;
            Some((u64::from_le_bytes(*one), u64::from_le_bytes(other.try_into().ok()?)))
        };
        Some(match kind {
            1 => {
                let (version, release) = content.split_first_chunk::<2>()?;
                Message::Hello { version: u16::from_le_bytes(*version), release: text(release)? }
            }
            2 => {
                let (done, total) = two()?;
                Message::Progress { done, total }
            }
            3 => Message::Notice(text(content)?),
            4 => Message::Record(content.to_vec()),
            5 => Message::Samples(content.to_vec()),
            6 => Message::Trace(content.to_vec()),
            7 => Message::Refused(content.to_vec()),
            8 if content.is_empty() => Message::Finished,
            9 if content.is_empty() => Message::Done,
            10 => Message::Failed(content.to_vec()),
            11 => {
                let (from, until) = two()?;
                Message::Observed { from, until }
            }
            _ => return None,
        })
    }
}

/// Turns messages into bytes, each with its number.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    number: u32,
}

impl Encoder {
    /// The frame of a message. A text that is too long is cut; pieces are to be cut by the caller.
    pub fn frame(&mut self, message: &Message) -> Vec<u8> {
        let mut content = message.content();
        if content.len() > CONTENT_MAX {
            let end = (0..=CONTENT_MAX).rev().find(|at| content[*at] & 0xc0 != 0x80).unwrap_or(0);
            content.truncate(end);
        }
        let mut frame = MARK.to_vec();
        frame.push(message.kind());
        frame.extend(self.number.to_le_bytes());
        frame.extend(u32::try_from(content.len()).expect("no longer than CONTENT_MAX").to_le_bytes());
        frame.extend(content);
        let sum = crc32(&frame[MARK.len()..]);
        frame.extend(sum.to_le_bytes());
        self.number = self.number.wrapping_add(1);
        frame
    }
}

/// Finds messages in bytes that come in pieces of any length.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    waiting: Vec<u8>,
    /// Bytes before `waiting`.
    passed: u64,
    number: u32,
    is_over: bool,
}

impl Decoder {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next message; `None` while it is not all there.
    ///
    /// # Errors
    /// [`ProtocolError`]. The stream is of no use after that.
    pub fn next_message(&mut self) -> Result<Option<Message>, ProtocolError> {
        let at = self.passed;
        let begun = &self.waiting[..self.waiting.len().min(MARK.len())];
        if !MARK.starts_with(begun) {
            return Err(ProtocolError::Mark { at });
        }
        if self.is_over && !begun.is_empty() {
            return Err(ProtocolError::Order { at, why: "it comes after the last" });
        }
        let Some(head) = self.waiting.first_chunk::<HEAD>() else { return Ok(None) };
        let word =
            |from: usize| u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
        let (kind, number, length) = (head[2], word(3), word(7));
        let content = usize::try_from(length).unwrap_or(usize::MAX);
        if content > CONTENT_MAX {
            return Err(ProtocolError::Length { at, length });
        }
        let Some(frame) = self.waiting.get(..HEAD + content + 4) else { return Ok(None) };
        let (summed, sum) = frame[MARK.len()..].split_at(HEAD - MARK.len() + content);
        if crc32(summed).to_le_bytes() != sum {
            return Err(ProtocolError::Sum { at });
        }
        if number != self.number {
            return Err(ProtocolError::Number { at, found: number, expected: self.number });
        }
        let message = Message::read(kind, &frame[HEAD..HEAD + content]);
        let message = message.ok_or(ProtocolError::Content { at, kind })?;
        match (&message, self.number) {
            (Message::Hello { version, .. }, 0) if *version != VERSION => {
                return Err(ProtocolError::Order { at, why: "it speaks another version of the protocol" });
            }
            (Message::Hello { .. }, 0) => {}
            (Message::Hello { .. }, _) | (_, 0) => {
                return Err(ProtocolError::Order { at, why: "the first, and only the first, is a greeting" });
            }
            _ => {}
        }
        self.is_over = matches!(message, Message::Done | Message::Failed(_));
        self.number = self.number.wrapping_add(1);
        let used = frame.len();
        self.passed += used as u64;
        self.waiting.drain(..used);
        Ok(Some(message))
    }

    /// Whether nothing was said yet.
    pub fn is_silent(&self) -> bool {
        self.passed == 0 && self.waiting.is_empty()
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// [`ProtocolError::Cut`] where it ends before everything was said.
    pub fn finish(&self) -> Result<(), ProtocolError> {
        if self.is_over && self.waiting.is_empty() {
            Ok(())
        } else {
            Err(ProtocolError::Cut { at: self.passed + self.waiting.len() as u64 })
        }
    }
}

/// Two numbers, little-endian.
fn pair(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
        prop_oneof![
            (any::<u64>(), any::<u64>()).prop_map(|(done, total)| Message::Progress { done, total }),
            "\\PC{0,20}".prop_map(Message::Notice),
            (any::<u64>(), any::<u64>()).prop_map(|(from, until)| Message::Observed { from, until }),
            bytes().prop_map(Message::Record),
            bytes().prop_map(Message::Samples),
            bytes().prop_map(Message::Trace),
            bytes().prop_map(Message::Refused),
            Just(Message::Finished),
        ]
    }

    fn stream(middle: &[Message]) -> (Vec<Message>, Vec<u8>) {
        let mut all = vec![Message::Hello { version: VERSION, release: "6.12".to_owned() }];
        all.extend_from_slice(middle);
        all.push(Message::Done);
        let mut encoder = Encoder::default();
        let bytes = all.iter().flat_map(|m| encoder.frame(m)).collect();
        (all, bytes)
    }

    fn decode(bytes: &[u8], piece: usize) -> Result<Vec<Message>, ProtocolError> {
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(piece.max(1)) {
            decoder.push(piece);
            while let Some(message) = decoder.next_message()? {
                found.push(message);
            }
        }
        decoder.finish().map(|()| found)
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(
            middle in proptest::collection::vec(message(), 0..6),
            piece in 1usize..300,
        ) {
            let (all, bytes) = stream(&middle);
            prop_assert_eq!(decode(&bytes, piece), Ok(all));
        }

        #[test]
        fn no_damage_goes_unseen(
            middle in proptest::collection::vec(message(), 0..6),
            place in any::<prop::sample::Index>(),
            flip in 1u8..=255,
            piece in 1usize..300,
        ) {
            let (_, mut bytes) = stream(&middle);
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
            prop_assert!(decode(&bytes, piece).is_err());
        }

        #[test]
        fn no_end_goes_unseen(
            middle in proptest::collection::vec(message(), 0..6),
            place in any::<prop::sample::Index>(),
        ) {
            let (_, mut bytes) = stream(&middle);
            bytes.truncate(place.index(bytes.len()));
            prop_assert!(decode(&bytes, 64).is_err());
        }

        #[test]
        fn rubbish_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1usize..100) {
            prop_assert!(decode(&bytes, piece).is_err());
        }

        #[test]
        fn rubbish_after_a_good_beginning_is_refused(
            bytes in proptest::collection::vec(any::<u8>(), 1..600),
            with_mark in any::<bool>(),
        ) {
            let (_, mut all) = stream(&[]);
            if with_mark {
                all.extend(MARK);
            }
            all.extend(bytes);
            prop_assert!(decode(&all, 7).is_err());
        }
    }

    #[test]
    fn a_frame_that_is_left_out_or_said_twice_is_seen() {
        let mut encoder = Encoder::default();
        let hello = encoder.frame(&Message::Hello { version: VERSION, release: String::new() });
        let one = encoder.frame(&Message::Record(vec![1]));
        let two = encoder.frame(&Message::Record(vec![2]));
        let done = encoder.frame(&Message::Done);
        let number = |frames: &[&Vec<u8>]| decode(&frames.concat_all(), 50).unwrap_err();
        assert!(matches!(
            number(&[&hello, &two, &done]),
            ProtocolError::Number { found: 2, expected: 1, .. }
        ));
        assert!(matches!(number(&[&hello, &one, &one]), ProtocolError::Number { found: 1, expected: 2, .. }));
        assert!(matches!(number(&[&one]), ProtocolError::Number { .. }));
        let mut other = Encoder::default();
        let later = other.frame(&Message::Hello { version: VERSION + 1, release: String::new() });
        assert!(matches!(number(&[&later]), ProtocolError::Order { .. }));
    }

    trait ConcatAll {
        fn concat_all(&self) -> Vec<u8>;
    }

    impl ConcatAll for &[&Vec<u8>] {
        fn concat_all(&self) -> Vec<u8> {
            self.iter().flat_map(|f| f.iter().copied()).collect()
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "ä".repeat(CONTENT_MAX);
        let mut encoder = Encoder::default();
        let mut bytes = encoder.frame(&Message::Hello { version: VERSION, release: String::new() });
        bytes.extend(encoder.frame(&Message::Notice(text)));
        bytes.extend(encoder.frame(&Message::Done));
        let messages = decode(&bytes, 1000).unwrap();
        assert!(matches!(&messages[1], Message::Notice(t) if t.len() <= CONTENT_MAX && t.ends_with('ä')));
    }
}
