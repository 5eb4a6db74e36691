//! [`Failure`]: why a call failed, as an error number and in words; each thread has the words of its last one.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::io;

use surety_stream::{StreamError, errno_of};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    pub(crate) words: String,
}

impl Failure {
    pub(crate) fn new(errno: i32, words: impl Into<String>) -> Failure {
        Failure { errno, words: words.into() }
    }

    /// What a call was given, and what it takes.
    pub(crate) fn invalid(words: impl Into<String>) -> Failure {
        Failure::new(libc::EINVAL, words)
    }

    /// A panic, which is a defect of this library.
    pub(crate) fn internal(panic: &(dyn Any + Send)) -> Failure {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind");
        Failure::new(libc::EIO, format!("internal error, please report it: {words}"))
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        let errno = match &error {
            StreamError::File { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            StreamError::NoStream { path, .. } if path.is_dir() => libc::EISDIR,
            StreamError::Kernel(error) => error.errno,
            _ => libc::EINVAL,
        };
        Failure::new(errno, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::WouldBlock {
            let words = "the stream is paused and nothing of it is there; surety_resume fetches again";
            return Failure::new(libc::EAGAIN, words);
        }
        Failure::new(errno_of(&error).unwrap_or(libc::EIO), error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The calling thread's last failure is this one.
pub(crate) fn remember(failure: &Failure) {
    let words: Vec<u8> = failure.words.bytes().filter(|byte| *byte != 0).collect();
    // A thread that is ending has none any more.
    let _ = LAST.try_with(|last| last.replace(CString::new(words).unwrap_or_default()));
}

/// The words of the calling thread's last failure, empty before the first; they stay until the next.
pub(crate) fn last() -> *const c_char {
    const NONE: &CStr = c"";
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(NONE.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> String {
        LAST.with(|last| last.borrow().to_str().unwrap().to_owned())
    }

    #[test]
    fn each_thread_has_its_own_last_failure() {
        remember(&Failure::invalid("of this thread"));
        std::thread::spawn(|| {
            assert_eq!(words(), "");
            remember(&Failure::invalid("a NUL \0 in it"));
            assert_eq!(words(), "a NUL  in it");
        })
        .join()
        .unwrap();
        assert_eq!(words(), "of this thread");
    }

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        let panic = std::panic::catch_unwind(|| panic!("number {}", 7)).unwrap_err();
        assert!(Failure::internal(&*panic).words.ends_with("number 7"));
        let panic = std::panic::catch_unwind(|| panic!("in words")).unwrap_err();
        assert_eq!(Failure::internal(&*panic).errno, libc::EIO);
    }
}
