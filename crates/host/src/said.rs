//! What programs and the system said, as the end of a message, and what to do about it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The last line a program wrote to standard error, for messages.
pub(crate) fn last_words(errors: &mut File) -> Option<String> {
    const ENOUGH: i64 = 4096;
    let length = i64::try_from(errors.metadata().ok()?.len()).ok()?;
    errors.seek(SeekFrom::End(-length.min(ENOUGH))).ok()?;
    let mut bytes = Vec::new();
    errors.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(str::to_owned)
}

/// The last line a program wrote, as the end of a message, with what a program may lack that was refused something.
pub(crate) fn it_said(words: Option<String>) -> String {
    let Some(words) = words else { return String::new() };
    let is_refused = ["not permitted", "ermission denied"].iter().any(|refusal| words.contains(refusal));
    let hint = if is_refused {
        "; what it may do is in `keep_capabilities` and `user` (--keep-capabilities, --user)"
    } else {
        ""
    };
    format!("; it said: {words}{hint}")
}

/// The system's words without its number, which tells a reader nothing.
pub(crate) fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What to do about an error of a file.
pub(crate) fn remedy_of(error: &io::Error, on_disk: bool, direct: bool) -> &'static str {
    match (error.kind(), on_disk) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, true) => {
            "make the disk (`make`) larger, or what lies on it smaller: its size or `count`"
        }
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, false) => {
            "make room there, set TMPDIR to a directory with room, or make the size or `count` smaller"
        }
        (io::ErrorKind::InvalidInput, _) if direct => {
            "this file system has no direct access: leave out `direct`"
        }
        (_, true) => "see `dmesg` for what the device said",
        _ => "set TMPDIR to a directory that can be written and has room",
    }
}
