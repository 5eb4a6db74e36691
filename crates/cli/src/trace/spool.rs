//! [`pages`]: a trace as bytes at any offset, from a file, a pipe or standard input, unpacked where it is packed.
//!
//! What cannot be read at any offset goes through a file without a name, where temporary files are; that is gone with the
//! process, however it ends.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use surety_host::recorder::PageFile;
use surety_kernel::files::{has_input, open_at_once};
use surety_model::world::Cancel;
use surety_trace::read::packed::{Packed, UnpackError, unpack};
use surety_units::Nanos;

use crate::files;

/// The most that is taken from a pipe, or unpacked.
const SPOOLED_MAX: u64 = 16 << 30;
/// A file's first bytes, which tell whether it is packed.
const BEGINNING: u64 = 4;

/// Opens the file, or standard input where the path is `-`.
///
/// # Errors
/// In words, without the path. A signal is one of them: then `cancel` is set.
pub fn pages(path: &Path, cancel: &Cancel) -> Result<PageFile, String> {
    let words = |error: io::Error| error.to_string();
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    // Opened at once: a pipe does not wait for its writer here.
    let mut file = open_at_once(path).map_err(words)?;
    let known = file.metadata().map_err(words)?;
    let is_pipe = !known.is_file();
    if is_pipe && !std::os::unix::fs::FileTypeExt::is_fifo(&known.file_type()) {
        return Err("it is no ordinary file and no pipe".to_owned());
    }
    files::is_input(&known);
    let mut beginning = Vec::new();
    let mut source = Source { file: &mut file, is_pipe, cancel };
    (&mut source).take(BEGINNING).read_to_end(&mut beginning).map_err(words)?;
    let packed = Packed::of(&beginning);
    if packed.is_none() && !is_pipe {
        return PageFile::new(file).map_err(words);
    }
    let mut spool = tempfile::tempfile().map_err(|error| format!("no file to keep it in: {error}"))?;
    let whole = beginning.chain(source);
    match packed {
        Some(packed) => unpack(packed, whole, &mut spool, SPOOLED_MAX).map(|_| ()).map_err(unpacked_to),
        None => copy(whole, &mut spool),
    }?;
    spool.seek(SeekFrom::Start(0)).map_err(words)?;
    PageFile::new(spool).map_err(words)
}

/// A file or a pipe that is read from its beginning to its end, or to a signal.
struct Source<'a> {
    file: &'a mut File,
    is_pipe: bool,
    cancel: &'a Cancel,
}

impl Read for Source<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        const LOOK: Nanos = Nanos::from_millis(100);
        loop {
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            if self.is_pipe && !has_input(self.file, LOOK)? {
                continue;
            }
            match self.file.read(buf) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                result => return result,
            }
        }
    }
}

/// Takes all of a pipe.
fn copy(mut pipe: impl Read, spool: &mut File) -> Result<(), String> {
    let mut part = vec![0; 1 << 18];
    let mut taken = 0;
    loop {
        let count = pipe.read(&mut part).map_err(|error| error.to_string())?;
        if count == 0 {
            return Ok(());
        }
        taken += count as u64;
        if taken > SPOOLED_MAX {
            return Err(format!("it is longer than {} GiB, the limit for a pipe", SPOOLED_MAX >> 30));
        }
        spool.write_all(&part[..count]).map_err(|error| unkept(&error))?;
    }
}

fn unpacked_to(error: UnpackError) -> String {
    match error {
        UnpackError::Write(error) => unkept(&error),
        error => error.to_string(),
    }
}

/// What is read cannot be kept.
fn unkept(error: &io::Error) -> String {
    format!(
        "it cannot be kept in {}: {error}; set TMPDIR to a directory with room",
        std::env::temp_dir().display()
    )
}
