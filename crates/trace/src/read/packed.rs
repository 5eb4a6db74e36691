//! [`unpack`]: a trace file that was packed as a whole with gzip (RFC 1952) or zstd (RFC 8878).
//!
//! Readers need bytes at any offset ([`ReadAt`](crate::source::ReadAt)), so the whole is unpacked first, to where the caller
//! says. What comes from outside is not trusted: checksums and lengths are compared, memory is bounded, and an input that
//! unpacks to more than a recording could is refused ([`UnpackError::TooLarge`]).

use std::fmt;
use std::io::{self, Read, Write};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// What is read, and what is unpacked, at once.
const BUFFER: usize = 64 << 10;
/// The largest history a zstd frame may refer to: what `zstd --ultra -22` takes without `--long`.
const WINDOW_MAX: u64 = 128 << 20;
/// No recording is packed tighter; texts of one event over and over come near.
const TIMES_MAX: u64 = 256;
/// So much is unpacked in any case.
const FREE: u64 = 64 << 20;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

impl Packed {
    /// By a file's first four bytes.
    pub fn of(beginning: &[u8]) -> Option<Packed> {
        match beginning {
            [0x1f, 0x8b, 8, ..] => Some(Packed::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packed::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Packed::Gzip { "gzip" } else { "zstd" })
    }
}

/// A packed file that cannot be unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// Its end is missing.
    #[error("its {packed} data are truncated after {bytes} bytes")]
    Cut {
        /// How it is packed.
        packed: Packed,
        /// Bytes there are.
        bytes: u64,
    },
    /// It was changed.
    #[error("its {packed} data are damaged before byte {offset}: {why}")]
    Damaged {
        /// How it is packed.
        packed: Packed,
        /// What was read of it by then.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// It unpacks to more than is allowed.
    #[error("its first {taken} bytes unpack to more than {limit}, the limit {why}")]
    TooLarge {
        /// What was read of it by then.
        taken: u64,
        /// What is allowed.
        limit: u64,
        /// Why no more is.
        why: &'static str,
    },
    /// The source failed.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// What was unpacked cannot be kept.
    #[error("what it unpacks to cannot be kept: {0}")]
    Write(io::Error),
}

/// Unpacks all of `source` into `target`: at most `most` bytes, and at most 64 MiB and 256 times what was read. Returns how
/// many bytes that were. Several streams behind each other are one, as `gzip` and `zstd` have it.
///
/// # Errors
/// [`UnpackError`]. By then a part may have been written.
pub fn unpack(packed: Packed, source: impl Read, target: impl Write, most: u64) -> Result<u64, UnpackError> {
    let input =
        Input { source, buffer: vec![0; BUFFER], start: 0, end: 0, taken: 0, ended: false, failed: None };
    let mut unpacking = Unpacking { packed, input, target, given: 0, most };
    match packed {
        Packed::Gzip => unpacking.gzip()?,
        Packed::Zstd => unpacking.zstd()?,
    }
    Ok(unpacking.given)
}

/// A source, read ahead.
struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes taken from the buffer so far.
    taken: u64,
    ended: bool,
    failed: Option<io::Error>,
}

impl<R: Read> Input<R> {
    /// The bytes that are next; none at the end.
    fn ahead(&mut self) -> io::Result<&[u8]> {
        while self.start == self.end && !self.ended {
            match self.source.read(&mut self.buffer) {
                Ok(count) => {
                    (self.start, self.end) = (0, count.min(BUFFER));
                    self.ended = count == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.failed = Some(error);
                    return Err(kind.into());
                }
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.taken += count as u64;
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let ahead = self.ahead()?;
        let count = ahead.len().min(buf.len());
        buf[..count].copy_from_slice(&ahead[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// One unpacking.
struct Unpacking<R, W> {
    packed: Packed,
    input: Input<R>,
    target: W,
    given: u64,
    most: u64,
}

impl<R: Read, W: Write> Unpacking<R, W> {
    /// Why the input cannot be used: the source failed, it ended, or else this.
    fn wrong(&mut self, why: impl fmt::Display) -> UnpackError {
        let (packed, offset) = (self.packed, self.input.taken);
        match self.input.failed.take() {
            Some(error) => UnpackError::Read(error),
            None if self.input.ended => UnpackError::Cut { packed, bytes: offset },
            None => UnpackError::Damaged { packed, offset, why: why.to_string() },
        }
    }

    /// Whether anything is left of the input.
    fn has_more(&mut self) -> Result<bool, UnpackError> {
        match self.input.ahead() {
            Ok(ahead) => Ok(!ahead.is_empty()),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], UnpackError> {
        let mut bytes = [0; N];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.wrong(error)),
        }
    }

    /// Passes over `count` bytes.
    fn skip(&mut self, mut count: u64) -> Result<(), UnpackError> {
        while count > 0 {
            if !self.has_more()? {
                return Err(self.wrong(""));
            }
            let ahead = (self.input.end - self.input.start) as u64;
            let step = ahead.min(count);
            self.input.consume(usize::try_from(step).unwrap_or(usize::MAX));
            count -= step;
        }
        Ok(())
    }

    /// Passes over a text that a zero byte ends.
    fn skip_text(&mut self) -> Result<(), UnpackError> {
        while self.bytes::<1>()? != [0] {}
        Ok(())
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), UnpackError> {
        self.given += bytes.len() as u64;
        let taken = self.input.taken;
        let by_taken = taken.saturating_mul(TIMES_MAX).saturating_add(FREE);
        if self.given > self.most {
            let why = "for an unpacked trace; unpack it to a file by other means";
            return Err(UnpackError::TooLarge { taken, limit: self.most, why });
        }
        if self.given > by_taken {
            let why = "for so few packed ones: 64 MiB and 256 times as many";
            return Err(UnpackError::TooLarge { taken, limit: by_taken, why });
        }
        self.target.write_all(bytes).map_err(UnpackError::Write)
    }

    fn gzip(&mut self) -> Result<(), UnpackError> {
        let mut state = InflateState::new_boxed(DataFormat::Raw);
        let mut unpacked = vec![0; BUFFER];
        loop {
            self.gzip_header()?;
            state.reset(DataFormat::Raw);
            let (mut checksum, before) = (crc32fast::Hasher::new(), self.given);
            loop {
                self.has_more()?;
                let ahead = &self.input.buffer[self.input.start..self.input.end];
                let step = inflate(&mut state, ahead, &mut unpacked, MZFlush::None);
                self.input.consume(step.bytes_consumed);
                checksum.update(&unpacked[..step.bytes_written]);
                self.give(&unpacked[..step.bytes_written])?;
                match step.status {
                    Ok(MZStatus::StreamEnd) => break,
                    Ok(_) | Err(MZError::Buf) if step.bytes_consumed + step.bytes_written > 0 => {}
                    _ => return Err(self.wrong("what follows is no deflated data")),
                }
            }
            let told = (u32::from_le_bytes(self.bytes()?), u32::from_le_bytes(self.bytes()?));
            // The length is told by its low 32 bits.
            let length = (self.given - before) & u64::from(u32::MAX);
            if told.0 != checksum.finalize() || u64::from(told.1) != length {
                return Err(self.damaged("its checksum or its length is wrong"));
            }
            if !self.is_more_gzip()? {
                return Ok(());
            }
        }
    }

    /// Whether another stream follows; zeros that fill a block of a tape are passed over.
    fn is_more_gzip(&mut self) -> Result<bool, UnpackError> {
        while self.has_more()? {
            if self.input.buffer[self.input.start] != 0 {
                return Ok(true);
            }
            self.input.consume(1);
        }
        Ok(false)
    }

    fn gzip_header(&mut self) -> Result<(), UnpackError> {
        const CHECKSUM: u8 = 1 << 1;
        const EXTRA: u8 = 1 << 2;
        const NAME: u8 = 1 << 3;
        const COMMENT: u8 = 1 << 4;
        let [first, second, method, flags, ..] = self.bytes::<10>()?;
        if [first, second] != [0x1f, 0x8b] {
            return Err(self.damaged("trailing data after the gzip stream"));
        }
        if method != 8 || flags & !0x1f != 0 {
            return Err(self.damaged("its header names a method that is not known"));
        }
        if flags & EXTRA != 0 {
            let length = u16::from_le_bytes(self.bytes()?);
            self.skip(u64::from(length))?;
        }
        for flag in [NAME, COMMENT] {
            if flags & flag != 0 {
                self.skip_text()?;
            }
        }
        self.skip(if flags & CHECKSUM != 0 { 2 } else { 0 })
    }

    /// Damage that is not for lack of input.
    fn damaged(&self, why: &str) -> UnpackError {
        UnpackError::Damaged { packed: self.packed, offset: self.input.taken, why: why.to_owned() }
    }

    fn zstd(&mut self) -> Result<(), UnpackError> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        while self.has_more()? {
            match decoder.init(&mut self.input) {
                Ok(()) => self.zstd_frame(&mut decoder)?,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(u64::from(length))?,
                Err(error) => return Err(self.wrong(error)),
            }
        }
        Ok(())
    }

    fn zstd_frame(&mut self, decoder: &mut FrameDecoder) -> Result<(), UnpackError> {
        let mut unpacked = Vec::new();
        while !decoder.is_finished() {
            let block = decoder.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1));
            if let Err(error) = block {
                return Err(self.wrong(error));
            }
            unpacked.clear();
            decoder.collect_to_writer(&mut unpacked).map_err(UnpackError::Write)?;
            self.give(&unpacked)?;
        }
        let (told, made) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
        if told.is_some() && told != made {
            return Err(self.damaged("its checksum is wrong"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    const ROOM: u64 = 1 << 30;

    /// With a name, a comment, an extra field and a checksum of the header.
    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = vec![0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3, 2, 0, b'x', b'y'];
        packed.extend(*b"trace.dat\0a comment\0hc");
        packed.extend(miniz_oxide::deflate::compress_to_vec(bytes, 6));
        packed.extend(crc32fast::hash(bytes).to_le_bytes());
        packed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        packed
    }

    fn pack(packed: Packed, bytes: &[u8]) -> Vec<u8> {
        match packed {
            Packed::Gzip => gzip(bytes),
            Packed::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        }
    }

    fn unpacked(packed: Packed, bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
        let mut target = Vec::new();
        let given = unpack(packed, bytes, &mut target, most).map_err(|error| error.to_string())?;
        assert_eq!(given, target.len() as u64);
        Ok(target)
    }

    const BOTH: [Packed; 2] = [Packed::Gzip, Packed::Zstd];

    fn events() -> Vec<u8> {
        (0..200_000u32).flat_map(|n| (n.wrapping_mul(n) >> 11).to_le_bytes()).collect()
    }

    #[test]
    fn what_is_packed_comes_back_and_cut_or_changed_it_is_refused() {
        let bytes = events();
        for packed in BOTH {
            let whole = pack(packed, &bytes);
            assert_eq!(Packed::of(&whole), Some(packed));
            assert_eq!(unpacked(packed, &whole, ROOM).as_ref(), Ok(&bytes));
            assert_eq!(unpacked(packed, &pack(packed, b""), ROOM), Ok(vec![]));
            let two = [whole.clone(), whole.clone()].concat();
            assert_eq!(unpacked(packed, &two, ROOM), Ok(bytes.repeat(2)));
            for length in [3, 9, 12, 20, 1000, whole.len() / 2, whole.len() - 1] {
                let said = unpacked(packed, &whole[..length], ROOM).unwrap_err();
                assert!(said.contains(&format!("are truncated after {length} bytes")), "{length}: {said}");
            }
            let said = unpacked(packed, &[whole.as_slice(), b"something else"].concat(), ROOM).unwrap_err();
            assert!(said.contains("damaged"), "{said}");
            let said = unpacked(packed, &whole, bytes.len() as u64 - 1).unwrap_err();
            assert!(said.contains(&format!("more than {}, the limit for", bytes.len() - 1)), "{said}");
        }
        let mut changed = gzip(&bytes);
        let last = changed.len() - 5;
        changed[last] ^= 1;
        assert!(unpacked(Packed::Gzip, &changed, ROOM).unwrap_err().contains("checksum"));
        // What a tape's block is filled with.
        assert_eq!(unpacked(Packed::Gzip, &[gzip(b"trace"), vec![0; 512]].concat(), ROOM).unwrap(), b"trace");
    }

    #[test]
    fn a_frame_of_zstd_that_is_to_be_skipped_is() {
        let note = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let whole = [note.clone(), pack(Packed::Zstd, b"trace"), note].concat();
        assert_eq!(unpacked(Packed::Zstd, &whole, ROOM).unwrap(), b"trace");
        assert!(unpacked(Packed::Zstd, &whole[..whole.len() - 1], ROOM).unwrap_err().contains("truncated"));
    }

    #[test]
    fn a_small_input_that_would_fill_the_disk_is_refused() {
        for packed in BOTH {
            let bomb = pack(packed, &vec![0; 100 << 20]);
            let said = unpacked(packed, &bomb, ROOM).unwrap_err();
            assert!(bomb.len() < 300_000 && said.contains("256 times as many"), "{said}");
        }
        // A frame that announces a history of 2 GiB.
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
        assert!(unpacked(Packed::Zstd, &window, ROOM).unwrap_err().contains("damaged"));
    }

    #[test]
    fn a_source_that_fails_and_a_full_disk_are_told_apart() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the medium failed"))
            }
        }
        for packed in BOTH {
            let whole = pack(packed, &events());
            let source = whole[..100].chain(Failing);
            let said = unpack(packed, source, io::sink(), ROOM).unwrap_err().to_string();
            assert_eq!(said, "it cannot be read: the medium failed");
            let mut full = [0u8; 10];
            let said = unpack(packed, whole.as_slice(), full.as_mut_slice(), ROOM).unwrap_err().to_string();
            assert!(said.starts_with("what it unpacks to cannot be kept"), "{said}");
        }
    }

    proptest! {
        /// Nothing that begins as packed data makes it panic or loop.
        #[test]
        fn no_input_is_its_end(rest in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200, at in 0usize..200) {
            for packed in BOTH {
                let mut whole = pack(packed, &rest);
                let at = at % whole.len();
                whole[at] ^= 0x55;
                whole.truncate(cut.max(4));
                let _ = unpacked(packed, &whole, ROOM);
                let _ = unpacked(packed, &[&whole[..4], &rest].concat(), ROOM);
            }
        }
    }
}
