//! [`Source`]: a file that a stream is of, opened past the page cache with its extents known.
//!
//! Sparse, unwritten, inline, compressed and encrypted files are served too, but not from the device's bytes as they lie there: the file system has
//! to work on them, or need not ask the device. What of the guarantee that takes away is said.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surety_kernel::clock;
use surety_kernel::extents::{ENCRYPTED_WORDS, Extent, direct_alignment, extents_of, is_encrypted};
use surety_kernel::files::{open_at_once, reopen_direct_unnoted, write_back};
use surety_kernel::pages::{PAGE, Pages};
use surety_model::playout::Cause;
use surety_units::Nanos;

use crate::error::StreamError;

/// An open file.
#[derive(Debug)]
pub(crate) struct Source {
    /// What it is called in errors.
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    pub(crate) size: u64,
    /// What offsets and lengths of transfers are multiples of; `None`: it goes through the page cache, and nothing has to be.
    pub(crate) alignment: Option<u64>,
    /// What keeps it from a guarantee.
    pub(crate) caveats: Vec<String>,
    /// Bytes of it that lie elsewhere on the device than behind the byte before.
    pub(crate) breaks: Vec<u64>,
    /// Where it lies is known to its file system, and a read changes nothing there.
    pub(crate) is_looked_up: bool,
}

/// What a file has grown by, to be looked up before it is read.
#[derive(Debug)]
pub(crate) struct Grown {
    file: Arc<File>,
    begin: u64,
    pub(crate) end: u64,
    /// Calls that took their time, and from when until when.
    pub(crate) calls: [(Cause, Nanos, Nanos); 2],
    /// As of a [`Source`].
    pub(crate) is_looked_up: bool,
}

impl Grown {
    /// Has its page cache written and its extents looked up, so that no batch waits for that. It may take as long as the disk does: nobody waits meanwhile.
    pub(crate) fn look_up(&mut self) {
        let begun = clock::monotonic();
        let _ = write_back(&self.file, self.begin, self.end - self.begin);
        let written = clock::monotonic();
        let layout = Layout::of(&self.file, self.end);
        self.is_looked_up = layout.is_ok_and(|layout| layout.oddity.is_none());
        self.calls = [(Cause::PageCache, begun, written), (Cause::Metadata, written, clock::monotonic())];
    }
}

impl Source {
    /// Opens a file to read.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn open(path: &Path) -> Result<Source, StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        // Opening a pipe or some device would wait, or do something.
        check(path, &std::fs::metadata(path).map_err(failed)?)?;
        let file = open_at_once(path).map_err(failed)?;
        Source::of(path, &file)
    }

    /// Of a file that is open.
    ///
    /// # Errors
    /// In words, which call it `path`.
    pub(crate) fn of(path: &Path, file: &File) -> Result<Source, StreamError> {
        let failed = |error| StreamError::File { path: path.to_owned(), error };
        let metadata = file.metadata().map_err(failed)?;
        check(path, &metadata)?;
        if metadata.len() == 0 {
            return Err(StreamError::NoStream { path: path.to_owned(), why: "is empty".to_owned() });
        }
        let mut caveats = Vec::new();
        let layout = laid_out(file, metadata.len(), &mut caveats);
        let mut is_looked_up = layout.as_ref().is_some_and(|layout| layout.oddity.is_none());
        let alignment = direct_alignment(file);
        let direct = alignment.and_then(|alignment| Some((alignment, reopen_direct_unnoted(file).ok()?)));
        let direct = direct.filter(|(alignment, (file, _))| serves(file, *alignment));
        let (file, alignment) = match direct {
            Some((alignment, (file, is_unnoted))) => {
                if !is_unnoted {
                    let why = "it is another user's: a read may wait until the time of reading is noted in its file system";
                    caveats.push(why.to_owned());
                    is_looked_up = false;
                }
                (file, Some(alignment.max(PAGE as u64)))
            }
            None => {
                caveats
                    .push("its file system has no direct access: it goes through the page cache".to_owned());
                (file.try_clone().map_err(failed)?, None)
            }
        };
        let (path, file) = (path.to_owned(), Arc::new(file));
        let breaks = layout.map_or_else(Vec::new, |layout| layout.breaks);
        Ok(Source { path, file, size: metadata.len(), alignment, caveats, breaks, is_looked_up })
    }

    /// A transfer of at most so many bytes, a multiple of the alignment, that has a byte of the file: where it begins and how long it is,
    /// aligned, and what of it is the stream's. Those that follow one another begin aligned.
    pub(crate) fn piece(&self, offset: u64, bytes: u64) -> Piece {
        let alignment = self.alignment.unwrap_or(1);
        let begin = offset / alignment * alignment;
        let end = self.size.min(begin.saturating_add(bytes));
        let length = (end.div_ceil(alignment) * alignment).saturating_sub(begin);
        Piece { begin, length, skipped: offset - begin, bytes: end.saturating_sub(offset) }
    }

    /// What it has grown by since it was looked at.
    pub(crate) fn grown(&self) -> Option<Grown> {
        let end = self.file.metadata().ok()?.len();
        let calls = [(Cause::PageCache, Nanos::ZERO, Nanos::ZERO); 2];
        let (file, begin, is_looked_up) = (Arc::clone(&self.file), self.size, false);
        (end > begin).then_some(Grown { file, begin, end, calls, is_looked_up })
    }

    /// Its size now: it may have grown, or got shorter.
    pub(crate) fn look_again(&mut self) -> io::Result<u64> {
        self.size = self.file.metadata()?.len();
        Ok(self.size)
    }
}

/// A part of a file that a transfer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) begin: u64,
    pub(crate) length: u64,
    /// Bytes before those of the stream.
    pub(crate) skipped: u64,
    /// Bytes of the stream.
    pub(crate) bytes: u64,
}

/// Refuses what is no file.
///
/// # Errors
/// In words.
pub(crate) fn check(path: &Path, metadata: &Metadata) -> Result<(), StreamError> {
    let refuse = |why: &str| Err(StreamError::NoStream { path: path.to_owned(), why: why.to_owned() });
    let kind = metadata.file_type();
    if kind.is_dir() {
        return refuse("is a directory; name a file");
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        return refuse("has no rate of its own to be served at; name a file");
    }
    if kind.is_block_device() {
        return refuse("is a whole device; name a file on it");
    }
    Ok(())
}

/// Whether direct access really works: some file systems take the flag and refuse each read.
fn serves(file: &File, alignment: u64) -> bool {
    let pages = Pages::new(usize::try_from(alignment).unwrap_or(PAGE));
    pages.is_ok_and(|mut pages| file.read_at(&mut pages, 0).is_ok())
}

/// How a file lies on its device. Asking has its file system look that up, so that no transfer waits for it.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What keeps its bytes from being moved as they lie there.
    pub(crate) oddity: Option<&'static str>,
    /// Bytes of it that are holes or were never written.
    pub(crate) unwritten: u64,
    /// As of a [`Source`].
    pub(crate) breaks: Vec<u64>,
}

impl Layout {
    /// Of a file of `size` bytes.
    ///
    /// # Errors
    /// In words: where it lies is not known.
    pub(crate) fn of(file: &File, size: u64) -> Result<Layout, String> {
        let extents = extents_of(file).map_err(|error| format!("where it lies is not known: {error}"))?;
        // The last extent is of whole blocks and may reach beyond the end.
        let written = extents.iter().filter(|extent| !extent.is_unwritten());
        let on_device: u64 =
            written.map(|extent| extent.end().min(size).saturating_sub(extent.logical)).sum();
        Ok(Layout {
            oddity: is_encrypted(file)
                .then_some(ENCRYPTED_WORDS)
                .or_else(|| extents.iter().find_map(Extent::oddity)),
            unwritten: size.saturating_sub(on_device),
            breaks: breaks_of(extents.iter().map(|e| (e.logical, e.physical, e.length))),
        })
    }

    /// What that means for batches with a bound: one over a break is a request more than it counts.
    pub(crate) fn broken(breaks: &[u64], batch: u64) -> Option<String> {
        let inside = breaks.iter().filter(|at| !at.is_multiple_of(batch)).count();
        let why =
            "of its batches lie in several pieces on the device: each takes a request more than was counted";
        (inside > 0).then(|| format!("{inside} {why}"))
    }
}

/// Where a file goes on at another place of its device: of the first byte, the place and the length of each piece.
fn breaks_of(pieces: impl Iterator<Item = (u64, u64, u64)>) -> Vec<u64> {
    let mut next = None;
    let mut breaks = Vec::new();
    for (logical, physical, length) in pieces {
        if next.is_some_and(|next| next != (logical, physical)) {
            breaks.push(logical);
        }
        next = Some((logical.saturating_add(length), physical.saturating_add(length)));
    }
    breaks
}

/// How a file that is read lies, and what of that is in the way of a guarantee.
fn laid_out(file: &File, size: u64, caveats: &mut Vec<String>) -> Option<Layout> {
    let layout = match Layout::of(file, size) {
        Ok(layout) => layout,
        Err(why) => {
            caveats.push(why);
            return None;
        }
    };
    if let Some(oddity) = layout.oddity {
        caveats.push(format!("it is {oddity}: a part of it is not read as it lies on the device"));
    }
    if layout.unwritten > 0 {
        let holes = layout.unwritten;
        caveats
            .push(format!("{holes} bytes of it are holes or were never written: they are not on the device"));
    }
    Some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(size: u64, alignment: Option<u64>) -> Source {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let (caveats, breaks, is_looked_up) = (Vec::new(), Vec::new(), true);
        Source { path: PathBuf::new(), file, size, alignment, caveats, breaks, is_looked_up }
    }

    #[test]
    fn transfers_are_aligned_and_end_with_the_file() {
        let piece = |begin, length, skipped, bytes| Piece { begin, length, skipped, bytes };
        let direct = source(10_000, Some(4096));
        assert_eq!(direct.piece(0, 8192), piece(0, 8192, 0, 8192));
        assert_eq!(direct.piece(8192, 8192), piece(8192, 4096, 0, 1808));
        assert_eq!(direct.piece(5000, 4096), piece(4096, 4096, 904, 3192));
        assert_eq!(direct.piece(5000, 8192), piece(4096, 8192, 904, 5000));
        assert_eq!(direct.piece(12_000, 100).bytes, 0);
        let cached = source(10_000, None);
        assert_eq!(cached.piece(5000, 8192), piece(5000, 5000, 0, 5000));
    }

    #[test]
    fn batches_in_several_pieces_have_no_bound() {
        let pieces = [(0, 1000, 8192), (8192, 9192, 4096), (12_288, 50_000, 4096), (20_480, 58_192, 10)];
        let breaks = breaks_of(pieces.into_iter());
        assert_eq!(breaks, [12_288, 20_480]);
        assert_eq!((Layout::broken(&breaks, 4096), Layout::broken(&[], 8192)), (None, None));
        assert!(Layout::broken(&breaks, 8192).is_some_and(|why| why.starts_with("2 of its batches")));
    }

    #[test]
    fn what_is_no_file_is_refused_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let said = |path: &Path| Source::open(path).unwrap_err().to_string();
        assert!(said(directory.path()).ends_with("is a directory; name a file"));
        assert!(said(Path::new("/dev/null")).contains("name a file"));
        assert!(said(&directory.path().join("none")).contains("cannot be opened"));
        let empty = directory.path().join("empty");
        File::create(&empty).unwrap();
        assert!(said(&empty).ends_with("is empty"));
    }
}
