//! [`Codec`]: what trace.dat files of version 7 are compressed with, unpacked within a stated size.
//!
//! zlib is RFC 1950, zstd RFC 8878. Both come from outside and are not trusted: output beyond the length the file
//! announces ends the unpacking, so a small file cannot ask for much memory.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest history a zstd frame may refer to. Level 19, the highest that compressors use unasked, takes 8 MiB.
const WINDOW_MAX: u64 = 8 << 20;

/// How something is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Codec {
    /// Not at all.
    None,
    /// `zlib`.
    Zlib,
    /// `zstd`.
    Zstd,
}

impl Codec {
    /// By the name in the file.
    pub(in crate::read) fn of(name: &str) -> Option<Codec> {
        match name {
            "none" => Some(Codec::None),
            "zlib" => Some(Codec::Zlib),
            "zstd" => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// Exactly `length` bytes from all of `packed`, or why not. The decoder keeps its memory between calls.
    pub(in crate::read) fn unpack(
        self,
        decoder: &mut FrameDecoder,
        packed: &[u8],
        length: usize,
    ) -> Result<Vec<u8>, String> {
        let bytes = match self {
            Codec::None => packed.to_vec(),
            Codec::Zlib => decompress_to_vec_zlib_with_limit(packed, length)
                .map_err(|error| format!("zlib cannot unpack it ({error})"))?,
            Codec::Zstd => unzstd(decoder, packed, length)?,
        };
        if bytes.len() == length {
            Ok(bytes)
        } else {
            Err(format!("it unpacks to {} bytes instead of {length}", bytes.len()))
        }
    }
}

/// One frame of zstd, at most `length` bytes.
fn unzstd(decoder: &mut FrameDecoder, mut packed: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("zstd cannot unpack it ({error})");
    let mut bytes = Vec::new();
    // A frame in one segment refers to all of itself.
    decoder.set_max_window_size(WINDOW_MAX.max(length as u64));
    decoder.init(&mut packed).map_err(|error| wrong(&error))?;
    while !decoder.is_finished() {
        decoder
            .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|error| wrong(&error))?;
        // Until the end the decoder keeps what later blocks may repeat.
        if bytes.len().saturating_add(decoder.can_collect()) > length {
            return Err(format!("it unpacks to more than {length} bytes"));
        }
        decoder.collect_to_writer(&mut bytes).map_err(|error| wrong(&error))?;
    }
    let (told, made) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
    if told.is_some() && told != made {
        return Err("its checksum is wrong".to_owned());
    }
    if packed.is_empty() { Ok(bytes) } else { Err(format!("{} bytes stand behind it", packed.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn pack(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        match codec {
            Codec::None => bytes.to_vec(),
            Codec::Zlib => miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6),
            Codec::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        }
    }

    #[test]
    fn what_is_packed_comes_back_and_no_other_length_does() {
        let bytes: Vec<u8> = (0..400_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut decoder = FrameDecoder::new();
        for codec in [Codec::None, Codec::Zlib, Codec::Zstd] {
            for length in [0, 1, 4096, 200_000, bytes.len()] {
                let packed = pack(codec, &bytes[..length]);
                assert_eq!(
                    codec.unpack(&mut decoder, &packed, length).as_deref(),
                    Ok(&bytes[..length]),
                    "{codec:?}"
                );
                assert!(codec.unpack(&mut decoder, &packed, length + 1).is_err());
                if length > 0 {
                    assert!(codec.unpack(&mut decoder, &packed, length - 1).is_err());
                    assert!(codec.unpack(&mut decoder, &packed[..packed.len() - 1], length).is_err());
                }
            }
        }
    }

    #[test]
    fn a_small_input_that_would_fill_memory_is_refused() {
        let packed = [Codec::Zlib, Codec::Zstd].map(|codec| (codec, pack(codec, &vec![0; 64 << 20])));
        for (codec, packed) in packed {
            assert!(packed.len() < 100_000);
            assert!(codec.unpack(&mut FrameDecoder::new(), &packed, 4096).is_err(), "{codec:?}");
        }
        // A frame that announces a history of 2 GiB: magic, no flags, exponent 21.
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
        let refused = Codec::Zstd.unpack(&mut FrameDecoder::new(), &window, 0).unwrap_err();
        assert!(refused.contains("zstd cannot unpack it"), "{refused}");
    }
}
