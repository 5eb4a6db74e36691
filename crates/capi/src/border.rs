//! The functions of `include/surety-stream.h`, and all unsafe code of this crate.
//!
//! Each takes what C gave, does one thing of `open` or `table` with it, and says what C is told. A panic becomes a failure here; NULL is
//! one too. What a caller has to keep is in the header.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use crate::abi::{Contract, Stats};
use crate::failure::{self, Failure};
use crate::open::{LEVELS, Open, Whence};
use crate::table;

/// `surety_stream`: nothing that could be looked into. Its address is a number of `table`.
#[repr(C)]
#[derive(Debug)]
pub struct Handle {
    _nothing: [u8; 0],
}

/// What C is told: the result, or `failed` where there is none, with errno and the words of the failure.
fn told<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    let result = catch_unwind(AssertUnwindSafe(call));
    result.unwrap_or_else(|panic| Err(Failure::internal(&*panic))).unwrap_or_else(|failure| {
        note(&failure);
        failed
    })
}

/// Leaves errno and words for the calling thread.
fn note(failure: &Failure) {
    failure::remember(failure);
    // SAFETY: the C library gives each thread a place for its errno that is valid as long as the thread runs.
    unsafe { *libc::__errno_location() = failure.errno };
}

/// A text of C.
///
/// # Safety
/// It is NULL or ends with a NUL, and stays as it is for `'a`.
unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {name} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's to keep.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Memory of C that is written to.
///
/// # Safety
/// It is NULL or has `bytes` bytes, which nobody else looks at for `'a`. They have some value, whoever set it last: what C allocates is not
/// known to this language's compiler, and nothing here reads it.
unsafe fn memory<'a>(into: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Failure> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    if into.is_null() || isize::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!("{bytes} bytes are to be read into no memory of that size")));
    }
    // SAFETY: not NULL, no more than an object can have; the rest is the caller's to keep.
    Ok(unsafe { slice::from_raw_parts_mut(into.cast(), bytes) })
}

/// Memory of C that is read.
///
/// # Safety
/// It is NULL or has `bytes` bytes, which nobody changes for `'a`.
unsafe fn bytes_at<'a>(from: *const c_void, bytes: usize) -> Result<&'a [u8], Failure> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if from.is_null() || isize::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!("{bytes} bytes are to be taken from no memory of that size")));
    }
    // SAFETY: not NULL, no more than an object can have; the rest is the caller's to keep.
    Ok(unsafe { slice::from_raw_parts(from.cast(), bytes) })
}

/// Bytes of some items.
fn bytes_of(size: usize, count: usize) -> Result<usize, Failure> {
    let words = || Failure::invalid(format!("{count} items of {size} bytes are more than memory can have"));
    size.checked_mul(count).ok_or_else(words)
}

/// The number that a structure of C begins with: its size.
///
/// # Safety
/// It is NULL or has eight bytes.
unsafe fn size_of_structure<T>(name: &str, structure: *const T) -> Result<u64, Failure> {
    if structure.is_null() {
        return Err(Failure::invalid(format!("the {name} is NULL")));
    }
    // SAFETY: not NULL; C may have put it anywhere.
    Ok(unsafe { structure.cast::<u64>().read_unaligned() })
}

fn zero_if(done: Result<(), Failure>) -> Result<c_int, Failure> {
    done.map(|()| 0)
}

/// Opens a file as a stream; NULL: it failed.
///
/// # Safety
/// The texts end with a NUL, the contract has as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surety_fopen(
    path: *const c_char,
    mode: *const c_char,
    contract: *const Contract,
) -> *mut Handle {
    told(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let (path, mode) = unsafe { (text("path", path)?, text("mode", mode)?) };
        // SAFETY: the caller's promise.
        let size = Contract::check(unsafe { size_of_structure("contract", contract)? })?;
        // SAFETY: it has as many bytes as it says, and that many were found to be possible.
        let contract = Contract::read(unsafe { slice::from_raw_parts(contract.cast(), size) })?;
        Ok(ptr::without_provenance_mut(table::add(Open::file(path, mode, &contract)?)))
    })
}

/// Fills memory with items; fewer than asked for at the end and after an error.
///
/// # Safety
/// The memory has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surety_fread(
    into: *mut c_void,
    size: usize,
    count: usize,
    stream: *mut Handle,
) -> usize {
    told(0, || {
        let stream = table::get(stream.addr())?;
        let bytes = bytes_of(size, count)?;
        // SAFETY: the caller's promise.
        let (filled, failure) = stream.read(unsafe { memory(into, bytes)? })?;
        failure.iter().for_each(note);
        Ok(filled.checked_div(size).unwrap_or(0))
    })
}

/// Gives items to the stream; fewer than asked for after an error.
///
/// # Safety
/// The memory has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surety_fwrite(
    from: *const c_void,
    size: usize,
    count: usize,
    stream: *mut Handle,
) -> usize {
    told(0, || {
        let stream = table::get(stream.addr())?;
        let bytes = bytes_of(size, count)?;
        // SAFETY: the caller's promise.
        let (given, failure) = stream.write(unsafe { bytes_at(from, bytes)? })?;
        failure.iter().for_each(note);
        Ok(given.checked_div(size).unwrap_or(0))
    })
}

/// Waits until all that was written is on the medium: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_fflush(stream: *mut Handle) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.flush()))
}

/// Whether the last read ended at the end of the file; -1: no stream.
#[unsafe(no_mangle)]
pub extern "C" fn surety_feof(stream: *mut Handle) -> c_int {
    told(-1, || Ok(table::get(stream.addr())?.is_at_end()?.into()))
}

/// Whether the last transfer failed; -1: no stream.
#[unsafe(no_mangle)]
pub extern "C" fn surety_ferror(stream: *mut Handle) -> c_int {
    told(-1, || Ok(table::get(stream.addr())?.has_failed()?.into()))
}

/// Closes a stream: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_fclose(stream: *mut Handle) -> c_int {
    told(-1, || zero_if(table::remove(stream.addr())?.close()))
}

/// Moves the play-out point forward: where it is then, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_position(stream: *mut Handle, offset: i64, whence: c_int) -> i64 {
    told(-1, || table::get(stream.addr())?.position(offset, Whence::of(whence)?))
}

/// Goes on at another place: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_seek(stream: *mut Handle, offset: i64, whence: c_int) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.seek(offset, Whence::of(whence)?)))
}

/// Fetches no more: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_pause(stream: *mut Handle) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.pause()))
}

/// Fetches again: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_resume(stream: *mut Handle) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.resume()))
}

/// Another rate from now on: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_change_rate(stream: *mut Handle, rate: u64) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.change_rate(rate)))
}

/// When the streams of its disk are served, from now on: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_set_mode(stream: *mut Handle, mode: c_int) -> c_int {
    told(-1, || zero_if(table::get(stream.addr())?.set_mode(mode)))
}

/// What happened so far: 0, or -1.
///
/// # Safety
/// The structure has as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surety_stats(stream: *mut Handle, stats: *mut Stats) -> c_int {
    told(-1, || {
        let stream = table::get(stream.addr())?;
        // SAFETY: the caller's promise.
        let size = Stats::check(unsafe { size_of_structure("stats", stats)? })?;
        // SAFETY: it has as many bytes as it says, and that many were found to be possible.
        let into = unsafe { memory(stats.cast(), size)? };
        into.copy_from_slice(&stream.stats()?.bytes(size));
        Ok(0)
    })
}

/// How much of a guarantee a stream has, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn surety_level(stream: *mut Handle) -> c_int {
    told(-1, || Ok(table::get(stream.addr())?.level()? as c_int))
}

/// The word for a level; NULL: there is no such.
#[unsafe(no_mangle)]
pub extern "C" fn surety_level_name(level: c_int) -> *const c_char {
    told(ptr::null(), || {
        let row = usize::try_from(level).ok().and_then(|level| LEVELS.get(level));
        let (_, words) = row.ok_or_else(|| Failure::invalid(format!("there is no level {level}")))?;
        Ok(words.as_ptr())
    })
}

/// One of the reasons why a stream has no higher level: how long it is, 0 where there are no more, or -1.
///
/// # Safety
/// The memory has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surety_caveat(
    stream: *mut Handle,
    index: usize,
    into: *mut c_char,
    size: usize,
) -> c_int {
    told(-1, || {
        let stream = table::get(stream.addr())?;
        // SAFETY: the caller's promise.
        let into = unsafe { memory(into.cast(), size)? };
        let words = stream.caveat(index)?.unwrap_or_default();
        if let Some(room) = size.checked_sub(1) {
            let copied = words.floor_char_boundary(room);
            into[..copied].copy_from_slice(&words.as_bytes()[..copied]);
            into[copied] = 0;
        }
        Ok(c_int::try_from(words.len()).unwrap_or(c_int::MAX))
    })
}

/// Why the last call of this thread that failed did.
#[unsafe(no_mangle)]
pub extern "C" fn surety_strerror() -> *const c_char {
    failure::last()
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn surety_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_leaves_the_border() {
        assert_eq!(told(-1, || panic!("a defect")), -1);
        // SAFETY: the text of this thread stays until another call of it fails.
        let words = unsafe { CStr::from_ptr(surety_strerror()) }.to_str().unwrap();
        assert_eq!(words, "internal error, please report it: a defect");
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
        assert_eq!(told(-1, || Ok(7)), 7);
    }
}
