//! Where a file lies on its device (`FS_IOC_FIEMAP`), and what direct access to it must be aligned to (`statx(2)`).
//!
//! Asking for the extents makes the file system read what it needs to know of them, which it then keeps in memory: a later direct
//! access does not wait for it.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};

use crate::error::{KernelError, Operation, check};
use crate::pages::PAGE;

/// `struct fiemap` of `include/uapi/linux/fiemap.h` with room for some extents.
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [FileExtent; EXTENTS],
}

/// `struct fiemap_extent` of the same.
#[repr(C)]
#[derive(Clone, Copy)]
struct FileExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// Asked for at a time.
const EXTENTS: usize = 64;
/// More extents than this of one file are not listed.
const EXTENTS_MAX: usize = 1 << 16;
/// `FS_IOC_FIEMAP`, and its flag that has what is in memory alone written first.
const GET_EXTENTS: libc::c_ulong = 0xc020_660b;
const WRITTEN_FIRST: u32 = 1;

const LAST: u32 = 1;
const UNKNOWN: u32 = 1 << 1;
const NOT_ALLOCATED_YET: u32 = 1 << 2;
const ENCODED: u32 = 1 << 3;
const ENCRYPTED: u32 = 1 << 7;
const NOT_ALIGNED: u32 = 1 << 8;
const INLINE: u32 = 1 << 9;
const TAIL: u32 = 1 << 10;
const UNWRITTEN: u32 = 1 << 11;

/// In words, whoever says it.
pub const ENCRYPTED_WORDS: &str = "encrypted by its file system";

/// A piece of a file that lies in one piece on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device; without meaning where [`Extent::oddity`] says something.
    pub physical: u64,
    pub length: u64,
    flags: u32,
}

impl Extent {
    /// The first byte of the file behind it.
    pub fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// What keeps a direct access from going to the device's bytes as they are, in words.
    pub fn oddity(&self) -> Option<&'static str> {
        let table = [
            (ENCRYPTED, ENCRYPTED_WORDS),
            (INLINE | TAIL | NOT_ALIGNED, "kept within metadata of its file system"),
            (ENCODED, "compressed by its file system"),
            (NOT_ALLOCATED_YET, "not on its device yet"),
            (UNKNOWN, "at a place that its file system does not say"),
        ];
        table.iter().find(|(bits, _)| self.flags & bits != 0).map(|(_, words)| *words)
    }

    /// Allocated and never written: reads of it give zeros without the device.
    pub fn is_unwritten(&self) -> bool {
        self.flags & UNWRITTEN != 0
    }
}

/// The extents of a file in their order, holes left out; what is in memory alone is written first.
///
/// # Errors
/// EOPNOTSUPP where the file system has no extents to tell (tmpfs), EFBIG for a file in more than 65,536 pieces.
pub fn extents_of(file: &File) -> Result<Vec<Extent>, KernelError> {
    let none =
        FileExtent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };
    let failed = |errno| KernelError::new(Operation::Read, "the extents of a file", errno);
    let mut extents: Vec<Extent> = Vec::new();
    loop {
        let start = extents.last().map_or(0, Extent::end);
        let mut map = ExtentMap {
            start,
            length: u64::MAX - start,
            flags: WRITTEN_FIRST,
            mapped: 0,
            room: EXTENTS as u32,
            reserved: 0,
            extents: [none; EXTENTS],
        };
        const { assert!(size_of::<ExtentMap>() == 32 + EXTENTS * 56) };
        // SAFETY: the kernel fills at most as many extents as the structure says there is room for.
        let asked = unsafe { libc::ioctl(file.as_raw_fd(), GET_EXTENTS as _, &raw mut map) };
        check(asked.into()).map_err(failed)?;
        let listed = &map.extents[..(map.mapped as usize).min(EXTENTS)];
        extents.extend(listed.iter().map(|extent| {
            let FileExtent { logical, physical, length, flags, .. } = *extent;
            Extent { logical, physical, length, flags }
        }));
        if listed.last().is_none_or(|extent| extent.flags & LAST != 0) {
            return Ok(extents);
        }
        if extents.len() > EXTENTS_MAX {
            return Err(failed(libc::EFBIG));
        }
    }
}

/// Where a file lies on its device: of each piece the first byte in the file, and the sector of 512 bytes at which that is. `None` where it has holes
/// or more pieces than a file that was written at once, and where its file system does not say.
pub fn pieces_of(file: &File) -> Option<Vec<(u64, u64)>> {
    let extents = extents_of(file).ok().filter(|extents| !extents.is_empty() && extents.len() <= EXTENTS)?;
    let mut pieces = Vec::new();
    let (mut end, mut physical_end) = (0, 0);
    for extent in &extents {
        if extent.logical != end {
            return None;
        }
        if pieces.is_empty() || extent.physical != physical_end {
            pieces.push((extent.logical, extent.physical / 512));
        }
        (end, physical_end) = (extent.end(), extent.physical + extent.length);
    }
    Some(pieces)
}

/// Whether a file is encrypted by its file system (`STATX_ATTR_ENCRYPTED`): ext4 does not say so of its extents.
pub fn is_encrypted(file: &File) -> bool {
    let told = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::ENCRYPTED))
}

/// What offsets and lengths of direct access to a file are multiples of, as its file system says; a page where it says nothing
/// (before Linux 6.1). `None`: it has no direct access.
pub fn direct_alignment(file: &File) -> Option<u64> {
    let asked = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::from_bits_retain(libc::STATX_DIOALIGN));
    match asked {
        Ok(told) if told.stx_mask & libc::STATX_DIOALIGN != 0 => {
            let alignment = told.stx_dio_offset_align.max(told.stx_dio_mem_align);
            (alignment > 0).then_some(u64::from(alignment))
        }
        _ => Some(PAGE as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_lies_in_pieces_and_one_with_holes_nowhere() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        let Some(pieces) = pieces_of(&file) else {
            eprintln!("SKIPPED: the file system of temporary files does not say where files lie");
            return;
        };
        assert_eq!(pieces[0].0, 0);
        assert!(pieces.is_sorted_by(|a, b| a.0 < b.0 && b.0 < 1 << 20), "{pieces:?}");
        let holed = tempfile::tempfile().unwrap();
        holed.write_all_at(&[7; 4096], 1 << 20).unwrap();
        assert_eq!(pieces_of(&holed), None);
        assert!(direct_alignment(&file).is_none_or(|alignment| alignment.is_power_of_two()));
    }

    /// What a file system may say of an extent, each flag alone and with those that come with it.
    #[test]
    fn what_is_not_read_as_it_lies_is_said() {
        let said = |flags| Extent { logical: 0, physical: 0, length: 4096, flags }.oddity();
        let plain = [0, LAST, UNWRITTEN, 1 << 12, 1 << 13];
        assert!(plain.iter().all(|flags| said(*flags).is_none()), "last, unwritten, merged, shared");
        for (flags, words) in [
            (INLINE | NOT_ALIGNED | LAST, "kept within metadata"),
            (TAIL | NOT_ALIGNED, "kept within metadata"),
            (ENCODED | LAST, "compressed"),
            (ENCODED | ENCRYPTED, "encrypted"),
            (NOT_ALLOCATED_YET | UNKNOWN, "not on its device yet"),
            (UNKNOWN, "at a place that its file system does not say"),
        ] {
            assert!(said(flags).is_some_and(|said| said.starts_with(words)), "{flags:#x}: {:?}", said(flags));
        }
    }

    /// Each second page is a hole, so there are more pieces than are asked for at a time.
    #[test]
    fn many_extents_are_listed_all() {
        let file = tempfile::tempfile().unwrap();
        for page in 0..300 {
            file.write_all_at(&[1; 4096], page * 8192).unwrap();
        }
        let Ok(extents) = extents_of(&file) else {
            eprintln!("SKIPPED: the file system of temporary files does not say where files lie");
            return;
        };
        assert_eq!(extents.len(), 300);
        assert!(
            extents
                .iter()
                .zip(0..)
                .all(|(extent, page)| extent.logical == page * 8192 && extent.length == 4096)
        );
        assert!(extents.iter().all(|extent| extent.oddity().is_none()));
        let empty = tempfile::tempfile().unwrap();
        assert_eq!(extents_of(&empty).unwrap(), []);
        rustix::fs::fallocate(&empty, rustix::fs::FallocateFlags::empty(), 0, 8192).unwrap();
        assert!(extents_of(&empty).unwrap().iter().all(Extent::is_unwritten));
    }
}
