//! [`Past`]: the last bytes that a stream gave, for programs that go back a little.
//!
//! Who looks what a file is reads its beginning, goes back, and reads it again. A stream that goes back fetches anew what it had; from here
//! it need not.

use std::collections::VecDeque;

/// Bytes of a file without a gap, up to a place, at most so many.
#[derive(Debug)]
pub(crate) struct Past {
    bytes: VecDeque<u8>,
    /// The place in the file behind the last.
    end: u64,
    most: usize,
}

impl Past {
    pub(crate) fn new(most: usize) -> Past {
        Past { bytes: VecDeque::new(), end: 0, most }
    }

    /// Where it begins.
    pub(crate) fn begin(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// Bytes of the file from a place on; where they do not follow what there is, that is forgotten.
    pub(crate) fn keep(&mut self, from: u64, bytes: &[u8]) {
        if from != self.end {
            self.bytes.clear();
        }
        self.end = from + bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.most)..];
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.bytes.drain(..over);
        self.bytes.extend(bytes);
    }

    /// Forgets all of it.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// What there is from a place on goes to the beginning of a buffer: how many bytes.
    pub(crate) fn copy(&self, from: u64, into: &mut [u8]) -> usize {
        if from < self.begin() || from >= self.end {
            return 0;
        }
        let skipped = usize::try_from(from - self.begin()).unwrap_or(usize::MAX);
        let count = into.len().min(self.bytes.len() - skipped);
        let (first, second) = self.bytes.as_slices();
        let of_first = first.get(skipped..).unwrap_or_default();
        let of_first = &of_first[..of_first.len().min(count)];
        into[..of_first.len()].copy_from_slice(of_first);
        let left = count - of_first.len();
        let from_second = skipped.saturating_sub(first.len());
        into[of_first.len()..count].copy_from_slice(&second[from_second..from_second + left]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte(at: u64) -> u8 {
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    proptest! {
        /// Whatever was kept: what is copied is what is there in the file, and the last bytes are there.
        #[test]
        fn what_is_copied_is_the_file(
            steps in prop::collection::vec((0_u64..5000, 0_usize..700, any::<bool>()), 1..40),
            most in 1_usize..1000,
            looks in prop::collection::vec((0_u64..6000, 0_usize..900), 20),
        ) {
            let (mut past, mut at) = (Past::new(most), 0);
            for (jump, length, follows) in steps {
                if !follows {
                    at = jump;
                }
                let bytes: Vec<u8> = (at..at + length as u64).map(byte).collect();
                past.keep(at, &bytes);
                at += length as u64;
                prop_assert!(past.bytes.len() <= most && past.end == at);
                prop_assert!(past.bytes.len() >= length.min(most));
                for (from, room) in &looks {
                    let mut into = vec![0; *room];
                    let count = past.copy(*from, &mut into);
                    prop_assert!(into[..count].iter().zip(*from..).all(|(got, at)| *got == byte(at)));
                    let is_there = *from >= past.begin() && *from < past.end;
                    let there = if is_there { (past.end - from) as usize } else { 0 };
                    prop_assert_eq!(count, there.min(*room));
                }
            }
        }
    }
}
