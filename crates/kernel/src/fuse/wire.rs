//! What the kernel asks through `/dev/fuse`, as bytes.
//!
//! The structures are those of the documented protocol (`include/uapi/linux/fuse.h`): numbers of this machine's byte order at fixed
//! places. Reading them is plain arithmetic on slices: no system call, nothing unsafe. What they are answered with is in [`super::answers`].

/// Bytes before what is asked (`struct fuse_in_header`).
const IN_HEADER: usize = 40;
/// Bytes before what is answered (`struct fuse_out_header`).
pub const OUT_HEADER: usize = 16;
/// Bytes of `struct fuse_write_in`, which stand before the data.
const WRITE_IN: usize = 40;
/// Bytes of `struct fuse_batch_forget_in`, and of each `struct fuse_forget_one` behind it.
const BATCH_IN: usize = 8;
const FORGET_ONE: usize = 16;
/// Shorter buffers are refused by the kernel (`FUSE_MIN_READ_BUFFER`).
const BUFFER_MIN: usize = 8192;

/// The protocol that is spoken: 7.31, the first with all that is answered here (Linux 5.4).
pub(super) const MAJOR: u32 = 7;
pub(super) const MINOR: u32 = 31;
/// `FUSE_GETATTR_FH`: the file is open.
const BY_HANDLE: u32 = 1;
/// `FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE`.
const PUNCH_HOLE: u32 = 3;
/// The root of every file system.
pub const ROOT: u64 = 1;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'b> {
    /// What its answer names it by.
    pub unique: u64,
    /// Which file or directory.
    pub node: u64,
    /// The thread that asks; 0: one that this process cannot see.
    pub thread: i32,
    /// What is wanted.
    pub ask: Ask<'b>,
}

/// What is wanted of a node. A handle is the number that an answer to opening it gave.
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
    Attributes {
        handle: Option<u64>,
    },
    /// Where a symbolic link leads.
    ReadLink,
    /// With the flags of `open`.
    Open {
        flags: u32,
    },
    Read {
        handle: u64,
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
    Release {
        handle: u64,
    },
    OpenDirectory,
    /// Names from a place in the list on.
    ReadDirectory {
        handle: u64,
        offset: u64,
        bytes: u32,
    },
    ReleaseDirectory {
        handle: u64,
    },
    /// The kernel does not name a node any more that it was told of so often. No answer.
    Forget {
        lookups: u64,
    },
    /// The same of several nodes. No answer.
    ForgetMany(Forgotten<'b>),
    /// A signal came for the thread that waits for the answer of this request. No answer.
    Interrupt {
        unique: u64,
    },
    /// The file system is unmounted.
    Destroy,
    /// Anything else, by its number.
    Other(u32),
}

/// Nodes, and how often the kernel was told of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten<'b>(&'b [u8]);

impl Iterator for Forgotten<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let one = (u64_at(self.0, 0)?, u64_at(self.0, 8)?);
        self.0 = &self.0[FORGET_ONE..];
        Some(one)
    }
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
    let thread = u32_at(message, 32)?.cast_signed();
    let ask = ask_of(opcode, message.get(IN_HEADER..)?)?;
    Some(Incoming { unique, node, thread, ask })
}

fn ask_of(opcode: u32, body: &[u8]) -> Option<Ask<'_>> {
    Some(match opcode {
        1 => Ask::Lookup { name: body.strip_suffix(b"\0")? },
        2 => Ask::Forget { lookups: u64_at(body, 0)? },
        3 => {
            let is_open = u32_at(body, 0)? & BY_HANDLE != 0;
            Ask::Attributes { handle: if is_open { Some(u64_at(body, 8)?) } else { None } }
        }
        5 => Ask::ReadLink,
        14 => Ask::Open { flags: u32_at(body, 0)? },
        15 => Ask::Read { handle: u64_at(body, 0)?, offset: u64_at(body, 8)?, bytes: u32_at(body, 16)? },
        16 => {
            let data = body.get(WRITE_IN..)?;
            if usize::try_from(u32_at(body, 16)?).ok()? != data.len() {
                return None;
            }
            Ask::Write { offset: u64_at(body, 8)?, data }
        }
        17 => Ask::Statistics,
        18 => Ask::Release { handle: u64_at(body, 0)? },
        20 => Ask::Sync,
        26 => Ask::Init { major: u32_at(body, 0)?, minor: u32_at(body, 4)? },
        27 => Ask::OpenDirectory,
        28 => Ask::ReadDirectory {
            handle: u64_at(body, 0)?,
            offset: u64_at(body, 8)?,
            bytes: u32_at(body, 16)?,
        },
        29 => Ask::ReleaseDirectory { handle: u64_at(body, 0)? },
        36 => Ask::Interrupt { unique: u64_at(body, 0)? },
        38 => Ask::Destroy,
        42 => {
            let nodes = body.get(BATCH_IN..)?;
            let count = usize::try_from(u32_at(body, 0)?).ok()?;
            if count.checked_mul(FORGET_ONE)? != nodes.len() {
                return None;
            }
            Ask::ForgetMany(Forgotten(nodes))
        }
        43 if u32_at(body, 24)? == PUNCH_HOLE => {
            Ask::PunchHole { offset: u64_at(body, 8)?, bytes: u64_at(body, 16)? }
        }
        other => Ask::Other(other),
    })
}

/// Whether the kernel speaks a protocol that is spoken here.
pub fn is_spoken(major: u32, minor: u32) -> bool {
    major == MAJOR && minor >= MINOR
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::super::answers::{put, put64};
    use super::*;
    use proptest::prelude::*;

    fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        put(&mut message, &[(IN_HEADER + body.len()) as u32, opcode]);
        put64(&mut message, &[77, node]);
        put(&mut message, &[0, 0, 4321]);
        message.resize(IN_HEADER, 0);
        message.extend(body);
        message
    }

    fn asked(opcode: u32, body: &[u8]) -> Option<Ask<'static>> {
        let message = Vec::leak(message(opcode, 2, body));
        read(message).map(|incoming| {
            assert_eq!((incoming.unique, incoming.node, incoming.thread), (77, 2, 4321));
            incoming.ask
        })
    }

    /// `fh`, `offset`, `size`, `flags`, and the rest of `fuse_read_in` and `fuse_write_in`.
    fn access(offset: u64, bytes: u32) -> Vec<u8> {
        let mut body = Vec::new();
        put64(&mut body, &[9, offset]);
        put(&mut body, &[bytes, 0, 0, 0, 0, 0]);
        body
    }

    #[test]
    fn requests_are_what_their_bytes_say() {
        assert_eq!(asked(1, b"disk\0"), Some(Ask::Lookup { name: b"disk" }));
        assert_eq!(asked(1, b"disk"), None);
        assert_eq!(asked(15, &access(4096, 512)), Some(Ask::Read { handle: 9, offset: 4096, bytes: 512 }));
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
    }

    #[test]
    fn requests_of_trees_are_what_their_bytes_say() {
        assert_eq!(
            asked(28, &access(3, 4096)),
            Some(Ask::ReadDirectory { handle: 9, offset: 3, bytes: 4096 })
        );
        assert_eq!(asked(14, &[0x41, 0, 0, 0, 0, 0, 0, 0]), Some(Ask::Open { flags: 0x41 }));
        assert_eq!(asked(18, &access(0, 0)), Some(Ask::Release { handle: 9 }));
        assert_eq!(asked(36, &77_u64.to_ne_bytes()), Some(Ask::Interrupt { unique: 77 }));
        assert_eq!(asked(2, &3_u64.to_ne_bytes()), Some(Ask::Forget { lookups: 3 }));
        let attributes = |flags: u32| {
            let mut body = Vec::new();
            put(&mut body, &[flags, 0]);
            put64(&mut body, &[9]);
            body
        };
        assert_eq!(asked(3, &attributes(0)), Some(Ask::Attributes { handle: None }));
        assert_eq!(asked(3, &attributes(BY_HANDLE)), Some(Ask::Attributes { handle: Some(9) }));
        let mut many = Vec::new();
        put(&mut many, &[2, 0]);
        put64(&mut many, &[5, 1, 6, 2]);
        let Some(Ask::ForgetMany(forgotten)) = asked(42, &many) else { panic!("{many:?}") };
        assert_eq!(forgotten.collect::<Vec<_>>(), [(5, 1), (6, 2)]);
        many.truncate(30);
        assert_eq!(asked(42, &many), None, "fewer nodes than it says");
    }

    proptest! {
        #[test]
        fn no_message_is_read_beyond_its_end(bytes in prop::collection::vec(any::<u8>(), 0..200), opcode in 0..60_u32) {
            let _ = read(&bytes);
            let whole = message(opcode, 1, &bytes);
            if let Some(Incoming { ask: Ask::ForgetMany(forgotten), .. }) = read(&whole) {
                prop_assert!(forgotten.count() <= bytes.len() / FORGET_ONE);
            }
        }
    }
}
