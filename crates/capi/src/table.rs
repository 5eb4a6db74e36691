//! What the handles of C stand for. A number is given once, so that of a closed stream is never another's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::failure::Failure;
use crate::open::Open;

/// Open streams by handle, each with the process that opened it.
static OPEN: RwLock<BTreeMap<usize, (u32, Arc<Open>)>> = RwLock::new(BTreeMap::new());

/// The next handle. None is 0, which is NULL.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The handle of a stream from now on.
pub(crate) fn add(stream: Open) -> usize {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    open.insert(handle, (std::process::id(), Arc::new(stream)));
    handle
}

/// The stream that a handle stands for.
///
/// # Errors
/// EINVAL for NULL; EBADF where it stands for none, or for one of the process that this one was forked from.
pub(crate) fn get(handle: usize) -> Result<Arc<Open>, Failure> {
    if handle == 0 {
        return Err(Failure::invalid("the stream is NULL: surety_fopen failed, or was not called"));
    }
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    let (owner, stream) = open
        .get(&handle)
        .ok_or_else(|| Failure::new(libc::EBADF, "no open stream: it was closed, or never opened"))?;
    if *owner != std::process::id() {
        let words = "the stream was opened before a fork and belongs to the parent process; open one here";
        return Err(Failure::new(libc::EBADF, words));
    }
    Ok(Arc::clone(stream))
}

/// The same, and the handle stands for none any more.
///
/// # Errors
/// As [`get`].
pub(crate) fn remove(handle: usize) -> Result<Arc<Open>, Failure> {
    get(handle)?;
    let removed = OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    // Two threads may close it at the same time.
    removed
        .map(|(_, stream)| stream)
        .ok_or_else(|| Failure::new(libc::EBADF, "the stream was closed meanwhile"))
}
