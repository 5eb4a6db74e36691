//! [`Lines`]: a source cut at its line ends, through one buffer of fixed size.

use std::io;
use std::ops::Range;

use crate::source::{ReadAt, read_full};

/// No line of a trace is longer: the kernel prints an event into one page.
pub(super) const LINE_MAX: usize = 1 << 16;
/// What is read at once.
const BUFFER: usize = 4 * LINE_MAX;

/// A line, and the offset of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'b> {
    /// Its bytes without the line end.
    Whole(u64, &'b [u8]),
    /// Longer than [`LINE_MAX`]: passed over.
    Overlong(u64),
}

/// The lines of a source, one after the other.
pub(super) struct Lines<'s, S: ?Sized> {
    source: &'s S,
    buffer: Vec<u8>,
    /// What of the buffer is filled and not yet handed out.
    rest: Range<usize>,
    /// Where in the source `rest` ends.
    offset: u64,
}

impl<'s, S: ReadAt + ?Sized> Lines<'s, S> {
    pub(super) fn new(source: &'s S) -> Lines<'s, S> {
        Lines { source, buffer: vec![0; BUFFER], rest: 0..0, offset: 0 }
    }

    /// Where the next line begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset - self.rest.len() as u64
    }

    /// The next line; `None` at the end. The last one may lack its line end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let at = self.offset();
        let mut searched = 0;
        loop {
            if let Some(found) = line_end(&self.buffer[self.rest.clone()][searched..]) {
                let line = self.rest.start..self.rest.start + searched + found;
                self.rest.start = line.end + 1;
                return Ok(Some(if line.len() > LINE_MAX {
                    Line::Overlong(at)
                } else {
                    Line::Whole(at, &self.buffer[line])
                }));
            }
            searched = self.rest.len();
            if searched > LINE_MAX {
                self.pass_over()?;
                return Ok(Some(Line::Overlong(at)));
            }
            if !self.fill()? {
                let line = std::mem::replace(&mut self.rest, 0..0);
                return Ok((!line.is_empty()).then(|| Line::Whole(at, &self.buffer[line])));
            }
        }
    }

    /// Reads more behind what is left; `false` at the end of the source.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.rest.clone(), 0);
        self.rest = 0..self.rest.len();
        let count = read_full(self.source, self.offset, &mut self.buffer[self.rest.end..])?;
        self.rest.end += count;
        self.offset += count as u64;
        Ok(count > 0)
    }

    /// Drops everything up to the next line end.
    fn pass_over(&mut self) -> io::Result<()> {
        loop {
            if let Some(found) = line_end(&self.buffer[self.rest.clone()]) {
                self.rest.start += found + 1;
                return Ok(());
            }
            self.rest = 0..0;
            if !self.fill()? {
                return Ok(());
            }
        }
    }
}

/// The position of the first line end. Blocks are looked at whole, so the compiler compares many bytes at a time.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for block in bytes.chunks(32) {
        if block.iter().fold(false, |found, byte| found | (*byte == b'\n')) {
            return block.iter().position(|byte| *byte == b'\n').map(|found| at + found);
        }
        at += block.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut lines = Lines::new(bytes);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push(match line {
                Line::Whole(at, bytes) => (at, Some(bytes.to_vec())),
                Line::Overlong(at) => (at, None),
            });
        }
        seen
    }

    proptest! {
        /// The same lines as the standard library cuts, wherever the buffer's end falls.
        #[test]
        fn a_text_is_cut_at_its_line_ends(lengths in prop::collection::vec(0usize..40_000, 0..30), ended in any::<bool>()) {
            let mut text = Vec::new();
            let mut expected = Vec::new();
            for (k, length) in lengths.iter().enumerate() {
                let line = vec![b'a' + u8::try_from(k % 26).unwrap(); *length];
                expected.push((text.len() as u64, Some(line.clone())));
                text.extend(line);
                text.push(b'\n');
            }
            if !ended && text.pop().is_some() && expected.last().is_some_and(|(_, l)| l.as_ref().is_some_and(Vec::is_empty)) {
                // Nothing behind the last line end is no line.
                expected.pop();
            }
            prop_assert_eq!(lines(&text), expected);
        }
    }

    #[test]
    fn a_line_too_long_is_passed_over_and_the_next_is_read() {
        for length in [LINE_MAX, LINE_MAX + 1, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER] {
            let mut text = b"first\n".to_vec();
            text.extend(std::iter::repeat_n(b'x', length));
            text.extend(b"\nlast\n");
            let seen = lines(&text);
            let middle = (length <= LINE_MAX).then(|| vec![b'x'; length]);
            let last = (7 + length as u64, Some(b"last".to_vec()));
            assert_eq!(seen, [(0, Some(b"first".to_vec())), (6, middle), last], "{length}");
        }
    }
}
