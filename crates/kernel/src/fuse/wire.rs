//! What the kernel asks through `/dev/fuse` and how it is answered, as bytes.
//!
//! The structures are those of the documented protocol (`include/uapi/linux/fuse.h`): numbers of this machine's byte order at fixed
//! places. Reading and writing them is plain arithmetic on slices: no system call, nothing unsafe.

/// Bytes before what is asked (`struct fuse_in_header`).
const IN_HEADER: usize = 40;
/// Bytes before what is answered (`struct fuse_out_header`).
pub const OUT_HEADER: usize = 16;
/// Bytes of `struct fuse_write_in`, which stand before the data.
const WRITE_IN: usize = 40;
/// Shorter buffers are refused by the kernel (`FUSE_MIN_READ_BUFFER`).
const BUFFER_MIN: usize = 8192;

/// The protocol that is spoken: 7.31, the first with all that is answered here (Linux 5.4).
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// `FUSE_ASYNC_READ`, `FUSE_BIG_WRITES`, `FUSE_ASYNC_DIO`, `FUSE_MAX_PAGES`.
const WANTED: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// `FOPEN_DIRECT_IO`, `FOPEN_NOFLUSH`, `FOPEN_PARALLEL_DIRECT_WRITES`.
const OPENED: u32 = 1 | 1 << 5 | 1 << 6;
/// `FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE`.
const PUNCH_HOLE: u32 = 3;
/// The root of every file system.
pub const ROOT: u64 = 1;
/// Names and attributes do not change: they are kept this long, in seconds.
const VALID_S: u64 = 1 << 30;
const PAGE: u32 = 4096;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'b> {
    /// What its answer names it by.
    pub unique: u64,
    /// Which file or directory.
    pub node: u64,
    /// What is wanted.
    pub ask: Ask<'b>,
}

/// What is wanted of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'b> {
    /// The protocol's beginning; the version the kernel speaks.
    Init {
        major: u32,
        minor: u32,
    },
    /// A name in a directory.
    Lookup {
        name: &'b [u8],
    },
    Attributes,
    Open,
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        data: &'b [u8],
    },
    /// How large the file system is.
    Statistics,
    /// What was written goes to the medium.
    Sync,
    /// The contents are not needed any more and read as zeros.
    PunchHole {
        offset: u64,
        bytes: u64,
    },
    /// A file is no longer open.
    Release,
    /// The file system is unmounted.
    Destroy,
    /// Forgotten nodes and interrupted requests: these have no answer.
    Unanswered,
    /// Anything else, by its number.
    Other(u32),
}

/// A file or a directory as the kernel wants to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub number: u64,
    pub bytes: u64,
    pub is_directory: bool,
}

/// Bytes of a buffer for requests that carry at most so many.
pub const fn buffer_bytes(bytes_max: u32) -> usize {
    let bytes = IN_HEADER + WRITE_IN + bytes_max as usize;
    if bytes > BUFFER_MIN { bytes } else { BUFFER_MIN }
}

/// What a message of the kernel asks; `None` for what is none.
pub fn read(message: &[u8]) -> Option<Incoming<'_>> {
    if usize::try_from(u32_at(message, 0)?).ok()? != message.len() {
        return None;
    }
    let (opcode, unique, node) = (u32_at(message, 4)?, u64_at(message, 8)?, u64_at(message, 16)?);
    let body = message.get(IN_HEADER..)?;
    let ask = match opcode {
        1 => Ask::Lookup { name: body.strip_suffix(b"\0")? },
        2 | 36 | 42 => Ask::Unanswered,
        3 => Ask::Attributes,
        14 => Ask::Open,
        15 => Ask::Read { offset: u64_at(body, 8)?, bytes: u32_at(body, 16)? },
        16 => {
            let data = body.get(WRITE_IN..)?;
            if usize::try_from(u32_at(body, 16)?).ok()? != data.len() {
                return None;
            }
            Ask::Write { offset: u64_at(body, 8)?, data }
        }
        17 => Ask::Statistics,
        18 => Ask::Release,
        20 => Ask::Sync,
        26 => Ask::Init { major: u32_at(body, 0)?, minor: u32_at(body, 4)? },
        38 => Ask::Destroy,
        43 if u32_at(body, 24)? == PUNCH_HOLE => {
            Ask::PunchHole { offset: u64_at(body, 8)?, bytes: u64_at(body, 16)? }
        }
        other => Ask::Other(other),
    };
    Some(Incoming { unique, node, ask })
}

/// The header of an answer with `bytes` bytes of data, or with an error (negative errno).
pub fn out_header(unique: u64, error: i32, bytes: usize) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    let length = u32::try_from(OUT_HEADER + bytes).expect("answers are shorter than 4 GiB");
    header[..4].copy_from_slice(&length.to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// Whether the kernel speaks a protocol that is spoken here.
pub fn is_spoken(major: u32, minor: u32) -> bool {
    major == MAJOR && minor >= MINOR
}

/// The answer to [`Ask::Init`]: at most `requests_max` requests at a time, of at most `bytes_max` bytes each.
pub fn init(bytes_max: u32, requests_max: u16) -> Vec<u8> {
    let pages = u16::try_from(bytes_max.div_ceil(PAGE)).unwrap_or(u16::MAX);
    let mut out = Vec::new();
    put(&mut out, &[MAJOR, MINOR, bytes_max, WANTED]);
    // The queue is never called congested: who is served is the I/O scheduler's affair.
    out.extend([requests_max, requests_max].iter().flat_map(|n| n.to_ne_bytes()));
    put(&mut out, &[bytes_max, 1]);
    out.extend([pages, 0].iter().flat_map(|n| n.to_ne_bytes()));
    out.resize(64, 0);
    out
}

/// The answer to [`Ask::Lookup`].
pub fn entry(node: Node) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[node.number, 0, VALID_S, VALID_S]);
    put(&mut out, &[0, 0]);
    attributes_of(&mut out, node);
    out
}

/// The answer to [`Ask::Attributes`].
pub fn attributes(node: Node) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[VALID_S]);
    put(&mut out, &[0, 0]);
    attributes_of(&mut out, node);
    out
}

/// The answer to [`Ask::Open`]: past the page cache, writes at the same time, nothing asked on `close`.
pub fn opened() -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[0]);
    put(&mut out, &[OPENED, 0]);
    out
}

/// The answer to [`Ask::Write`].
pub fn written(bytes: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&bytes.to_ne_bytes());
    out
}

/// The answer to [`Ask::Statistics`]: a file system of blocks of 4 KiB that is full.
pub fn statistics(bytes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put64(&mut out, &[bytes / u64::from(PAGE), 0, 0, 1, 0]);
    put(&mut out, &[PAGE, 255, PAGE, 0]);
    out.resize(80, 0);
    out
}

/// `struct fuse_attr`.
fn attributes_of(out: &mut Vec<u8>, node: Node) {
    put64(out, &[node.number, node.bytes, node.bytes / 512, 0, 0, 0]);
    let mode = if node.is_directory { S_IFDIR | 0o700 } else { S_IFREG | 0o600 };
    put(out, &[0, 0, 0, mode, 1, 0, 0, 0, PAGE, 0]);
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

fn put64(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        put(&mut message, &[(IN_HEADER + body.len()) as u32, opcode]);
        put64(&mut message, &[77, node]);
        message.resize(IN_HEADER, 0);
        message.extend(body);
        message
    }

    fn asked(opcode: u32, body: &[u8]) -> Option<Ask<'static>> {
        let message = Vec::leak(message(opcode, 2, body));
        read(message).map(|incoming| {
            assert_eq!((incoming.unique, incoming.node), (77, 2));
            incoming.ask
        })
    }

    /// `fh`, `offset`, `size`, `flags`, and the rest of `fuse_read_in` and `fuse_write_in`.
    fn access(offset: u64, bytes: u32) -> Vec<u8> {
        let mut body = Vec::new();
        put64(&mut body, &[0, offset]);
        put(&mut body, &[bytes, 0, 0, 0, 0, 0]);
        body
    }

    #[test]
    fn requests_are_what_their_bytes_say() {
        assert_eq!(asked(1, b"disk\0"), Some(Ask::Lookup { name: b"disk" }));
        assert_eq!(asked(1, b"disk"), None);
        assert_eq!(asked(15, &access(4096, 512)), Some(Ask::Read { offset: 4096, bytes: 512 }));
        let mut write = access(512, 3);
        write.extend(b"abc");
        assert_eq!(asked(16, &write), Some(Ask::Write { offset: 512, data: b"abc" }));
        write.push(0);
        assert_eq!(asked(16, &write), None, "more data than it says");
        let mut punch = Vec::new();
        put64(&mut punch, &[0, 8192, 4096]);
        put(&mut punch, &[PUNCH_HOLE, 0]);
        assert_eq!(asked(43, &punch), Some(Ask::PunchHole { offset: 8192, bytes: 4096 }));
        punch[24] = 0x11;
        assert_eq!(asked(43, &punch), Some(Ask::Other(43)), "zeros are written by the kernel");
        assert_eq!(asked(22, &[]), Some(Ask::Other(22)));
        assert_eq!([2, 36, 42].map(|n| asked(n, &[0; 8])), [Some(Ask::Unanswered); 3]);
    }

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        let node = Node { number: 2, bytes: 1 << 30, is_directory: false };
        assert_eq!(init(1 << 20, 256).len(), 64);
        assert_eq!(entry(node).len(), 128);
        assert_eq!(attributes(node).len(), 104);
        assert_eq!(opened().len(), 16);
        assert_eq!(statistics(1 << 30).len(), 80);
        assert_eq!(u64_at(&attributes(node), 16 + 8), Some(1 << 30));
        assert_eq!(u32_at(&init(1 << 20, 256), 28).map(|pages| pages & 0xffff), Some(256));
        assert_eq!(u32_at(&out_header(5, -libc::EIO, 0), 0), Some(16));
    }

    proptest! {
        #[test]
        fn no_message_is_read_beyond_its_end(bytes in prop::collection::vec(any::<u8>(), 0..200), opcode in 0..60_u32) {
            let _ = read(&bytes);
            let whole = message(opcode, 1, &bytes);
            let _ = read(&whole);
        }
    }
}
