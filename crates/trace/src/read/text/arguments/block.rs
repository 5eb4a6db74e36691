//! The arguments of the block layer's events as the kernel prints them:
//! - bios, and requests that are made: `8,0 RA 4096 + 8 [reader]`;
//! - requests on their way: `8,0 RA 4096 () 2048 + 8 be,0,4 [reader]`;
//! - requests that come back: `8,0 RA () 2048 + 8 be,0,4 [0]`.
//!
//! Kernels before 6.5 do not print the I/O priority; trace-cmd prints its class as a number, `0x2`.

use surety_model::event::{BlockEvent, BlockStep, Comm, DiskNumber, Rwbs};

use super::super::head::{comm, number, position};
use super::signed;

/// Words of the classes of I/O priorities, by number.
const CLASSES: [&[u8]; 4] = [b"none", b"rt", b"be", b"idle"];
/// The class that stands for none that is known.
const INVALID: u16 = 7;

pub(super) fn event(step: BlockStep, text: &[u8]) -> Option<BlockEvent> {
    let (major, rest) = unsigned(text)?;
    let (minor, rest) = unsigned(rest.strip_prefix(b",")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let (rwbs, mut rest) = rest.split_at(position(rest, b' ')?);
    let mut bytes = 0;
    if step.has_bytes() {
        (bytes, rest) = unsigned(rest.strip_prefix(b" ")?)?;
    }
    if step.has_priority() {
        // The bytes of a command, if any.
        let end = rest.windows(2).position(|pair| pair == b") ")?;
        rest = rest[..end].strip_prefix(b" (").map(|_| &rest[end + 1..])?;
    }
    let (sector, rest) = sector(rest.strip_prefix(b" ")?)?;
    let (sectors, rest) = unsigned(rest.strip_prefix(b" + ")?)?;
    let (priority, rest) = match rest.strip_prefix(b" ")? {
        rest if step.has_priority() && !rest.starts_with(b"[") => priority(rest)?,
        rest => (0, rest),
    };
    let last = rest.strip_prefix(b"[")?.strip_suffix(b"]")?;
    Some(BlockEvent {
        step,
        disk: DiskNumber { major, minor },
        sector,
        sectors,
        bytes,
        priority,
        rwbs: Rwbs::new(rwbs),
        comm: if step.has_name() { comm(last) } else { Comm::default() },
        error: if step.has_error() { signed(last).filter(|(_, rest)| rest.is_empty())?.0 } else { 0 },
    })
}

/// A number of 64 bits: of a flush the kernel tells the highest.
fn sector(text: &[u8]) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at(position(text, b' ')?);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

fn unsigned(text: &[u8]) -> Option<(u32, &[u8])> {
    let (value, rest) = number(text)?;
    Some((u32::try_from(value).ok()?, rest))
}

/// `CLASS,HINT,LEVEL` and a space: 3, 10 and 3 bits.
fn priority(text: &[u8]) -> Option<(u16, &[u8])> {
    let (word, rest) = text.split_at(position(text, b',')?);
    let class = match word.strip_prefix(b"0x") {
        // trace-cmd does not know the kernel's words.
        Some(digits) => {
            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|class| *class < 8)?
        }
        None => CLASSES.iter().position(|class| *class == word).map_or(INVALID, |class| class as u16),
    };
    let (hint, rest) = unsigned(rest.strip_prefix(b",")?)?;
    let (level, rest) = unsigned(rest.strip_prefix(b",")?)?;
    let low = u16::try_from(hint << 3 | level).ok().filter(|low| *low < 1 << 13 && level < 8)?;
    Some((class << 13 | low, rest.strip_prefix(b" ")?))
}
