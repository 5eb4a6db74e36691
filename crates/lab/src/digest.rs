//! SHA-256 and CRC-32 (IEEE 802.3): what stored files and frames are checked by.

use sha2::{Digest, Sha256};

/// SHA-256 of bytes, as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 64 bits of SHA-256: what records call their hash.
pub fn hash64(pieces: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    let digest = hash.finalize();
    u64::from_be_bytes(digest[..8].try_into().expect("eight bytes of thirty-two"))
}

/// CRC-32 of bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_examples() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(sha256_hex(b"").starts_with("e3b0c44298fc1c14"));
    }

    /// Stored records hold this hash.
    #[test]
    fn the_hash_of_a_record_stays_what_it_was() {
        let many: Vec<u8> = (0..1000_u32).map(|i| (i * 7 % 251) as u8).collect();
        assert_eq!(hash64(&[]), 0xe3b0_c442_98fc_1c14);
        assert_eq!(hash64(&[b"ab", b"c"]), 0x43ee_6555_79de_01ca);
        assert_ne!(hash64(&[b"ab", b"c"]), hash64(&[b"a", b"bc"]));
        assert_eq!(hash64(&[&many, &1_u64.to_le_bytes()]), 0xdbfe_941d_d084_25aa);
    }
}
