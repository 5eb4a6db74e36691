//! [`Marks`]: a set of a file's pages in which the next one is found without looking at every page.

/// Bits of a word.
const WORD: usize = 64;

/// Some of many pages: a bit for each, and a bit for each word of those that is not zero.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<u64>,
    used: Vec<u64>,
}

impl Marks {
    /// The empty set, of a file of `pages` pages.
    pub(super) fn none(pages: usize) -> Marks {
        let words = pages.div_ceil(WORD);
        Marks { words: vec![0; words], used: vec![0; words.div_ceil(WORD)] }
    }

    /// Adds a page, or takes it out.
    #[inline]
    pub(super) fn set(&mut self, page: usize, is_in: bool) {
        let place = page / WORD;
        put(&mut self.words[place], page, is_in);
        put(&mut self.used[place / WORD], place, self.words[place] != 0);
    }

    /// The first page from one on.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let place = from / WORD;
        if let Some(bit) = first(*self.words.get(place)?, from % WORD) {
            return Some(place * WORD + bit);
        }
        let behind = place + 1;
        let words = self.used.iter().enumerate().skip(behind / WORD);
        let place = words.into_iter().find_map(|(at, word)| {
            let from = if at == behind / WORD { behind % WORD } else { 0 };
            first(*word, from).map(|bit| at * WORD + bit)
        })?;
        first(self.words[place], 0).map(|bit| place * WORD + bit)
    }
}

fn put(word: &mut u64, bit: usize, is_in: bool) {
    let bit = 1 << (bit % WORD);
    *word = if is_in { *word | bit } else { *word & !bit };
}

/// The first bit of a word from one on.
fn first(word: u64, from: usize) -> Option<usize> {
    let left = word & (u64::MAX << from);
    (left != 0).then(|| left.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_is_that_of_a_searched_list(
            pages in 1usize..20_000,
            changes in proptest::collection::vec((0usize..20_000, any::<bool>()), 0..200),
            from in proptest::collection::vec(0usize..21_000, 1..20),
        ) {
            let (mut marks, mut list) = (Marks::none(pages), vec![false; pages]);
            for (page, is_in) in changes {
                marks.set(page % pages, is_in);
                list[page % pages] = is_in;
            }
            for from in from {
                let next = (from..pages).find(|page| list[*page]);
                prop_assert_eq!(marks.next(from), next);
            }
        }
    }
}
