//! [`Tags`]: which tags of a queue are taken, by number (`lib/sbitmap.c`); kyber's tokens likewise.
//!
//! A limit is one on numbers: of each word of the map, only the first bits may be taken. The search begins in the word of the tag that was
//! freed last and takes the lowest bit there; under a limit it begins at that bit. A freed bit can be taken again only after the search has found nothing
//! in its word (`cleared` is moved into `word` then), so numbers go up through a word before they come again.
//!
//! The kernel has a hint for each CPU, drawn at first; here all CPUs have one, 0 at first.

use crate::kernels::{Rules, Shallow};
use crate::request::RequestId;

/// A word of the map.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Taken, or freed and not found again yet.
    taken: u64,
    /// The freed ones of them.
    freed: u64,
}

impl Word {
    /// Takes one of the first `depth` bits, from `from` on and then from 0.
    #[inline]
    fn take(&mut self, depth: u32, from: u32) -> Option<u32> {
        let within = if depth < 64 { (1_u64 << depth) - 1 } else { u64::MAX };
        loop {
            let open = !self.taken & within;
            let ahead = if from < depth { open >> from << from } else { 0 };
            let from_here = if ahead != 0 { ahead } else { open };
            if from_here != 0 {
                let bit = from_here.trailing_zeros();
                self.taken |= 1 << bit;
                return Some(bit);
            }
            if self.freed == 0 {
                return None;
            }
            self.taken &= !std::mem::take(&mut self.freed);
        }
    }
}

/// The tags of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    words: Vec<Word>,
    made: u32,
    /// Those that may be taken, the first of those that were made ([`Tags::resize`]).
    count: u32,
    /// Bits of a word; the last may have fewer.
    width: u32,
    shallow: Shallow,
    /// The tag at which the next search begins.
    hint: u32,
    in_use: u32,
    /// The tag of each request.
    of: Vec<u32>,
}

impl Tags {
    /// `count` tags, all free.
    pub(crate) fn new(count: u32, rules: &Rules) -> Tags {
        let width = Rules::word(count);
        Tags {
            words: vec![Word::default(); count.div_ceil(width) as usize],
            made: count,
            count,
            width,
            shallow: rules.shallow,
            hint: 0,
            in_use: 0,
            of: Vec::new(),
        }
    }

    /// From here on only the first `count` may be taken, of those that were made; others that are taken stay so (`sbitmap_resize`).
    pub(crate) fn resize(&mut self, count: u32) {
        self.count = count.min(self.made);
        if self.hint >= self.count {
            self.hint = 0;
        }
        for word in &mut self.words {
            word.taken &= !std::mem::take(&mut word.freed);
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Takes a tag that is within a limit, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, limit: Option<u32>) -> Option<u32> {
        let found = if self.in_use < self.made { self.search(limit) } else { None };
        match found {
            None => self.hint = 0,
            Some(tag) => {
                self.in_use += 1;
                if tag == self.hint {
                    self.hint = if tag + 2 < self.count { tag + 1 } else { 0 };
                }
            }
        }
        found
    }

    fn search(&mut self, limit: Option<u32>) -> Option<u32> {
        let (first, bit) = ((self.hint / self.width) as usize, self.hint % self.width);
        let mut from = if limit.is_some() { bit } else { 0 };
        for place in (first..self.count.div_ceil(self.width) as usize).chain(0..first) {
            let index = place as u32;
            let depth = match limit {
                Some(limit) => self.shallow.depth(self.count, self.width, index, limit),
                None => self.width.min(self.count - index * self.width),
            };
            if let Some(bit) = self.words[place].take(depth, std::mem::take(&mut from)) {
                return Some(index * self.width + bit);
            }
        }
        None
    }

    /// Notes the tag that was taken for a request.
    #[inline]
    pub(crate) fn give(&mut self, tag: u32, id: RequestId) {
        if self.of.len() <= id.index() {
            self.of.resize(id.index() + 1, 0);
        }
        self.of[id.index()] = tag;
    }

    /// Frees the tag of a request.
    #[inline]
    pub(crate) fn free(&mut self, id: RequestId) {
        let tag = self.of[id.index()];
        self.words[(tag / self.width) as usize].freed |= 1 << (tag % self.width);
        self.in_use -= 1;
        if tag < self.count {
            self.hint = tag;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(kernel: &str, count: u32, hint: u32) -> Tags {
        Tags { hint, ..Tags::new(count, Rules::named(kernel).unwrap()) }
    }

    fn taken(tags: &mut Tags, limit: Option<u32>, count: u32) -> Vec<u32> {
        (0..count).map_while(|_| tags.take(limit)).collect()
    }

    /// 64 tags are four words of 16: from the hint's word on, each from its lowest. The hint runs ahead of the taken and goes to 0 ahead of the last tag.
    #[test]
    fn a_search_begins_in_the_word_of_the_hint() {
        let mut tags = tags("6.12", 64, 37);
        assert_eq!(taken(&mut tags, None, 100), (32..63).chain(0..32).chain([63]).collect::<Vec<u32>>());
        assert_eq!(tags.take(None), None);
    }

    /// Half of 64 are eight of each word, and the search begins at the hint's bit where that is among them.
    #[test]
    fn a_limit_is_of_the_first_tags_of_each_word() {
        let mut new = tags("6.12", 64, 18);
        let expected: Vec<u32> = (18..24).chain(16..18).chain(32..40).chain(48..56).chain(0..8).collect();
        assert_eq!(taken(&mut new, Some(32), 100), expected);
        // Of 6.1 a limit is told by word.
        assert_eq!(taken(&mut tags("6.1", 64, 18), Some(8), 100), expected);
        // What is not limited has the others.
        assert_eq!(taken(&mut new, None, 100).len(), 32);
    }

    /// A limit of one of 1024 tags is tag 0; requests without a limit come to it only in its turn.
    #[test]
    fn a_limit_of_one_is_the_first_tag() {
        let mut tags = tags("6.12", 1024, 512);
        assert_eq!(taken(&mut tags, None, 20).len(), 20);
        assert_eq!(taken(&mut tags, Some(1), 2), [0]);
    }

    /// Freed bits come back when nothing else is found in their word.
    #[test]
    fn a_freed_tag_is_found_again_after_the_rest_of_its_word() {
        let mut tags = tags("7.2", 64, 0);
        let mut used = Vec::new();
        for request in 0..17 {
            let (tag, id) = (tags.take(None).unwrap(), RequestId(0));
            tags.give(tag, id);
            tags.free(id);
            used.push(tag);
            assert_eq!(tags.in_use, 0, "{request}");
        }
        assert_eq!(used, (0..16).chain([0]).collect::<Vec<u32>>());
    }

    /// 8 of 64, of which 20 are taken: none; a freed one of the first eight is found, one behind them is not.
    #[test]
    fn of_fewer_tags_those_taken_before_stay_taken() {
        let mut tags = tags("6.12", 64, 0);
        for number in 0..20 {
            let tag = tags.take(None).unwrap();
            tags.give(tag, RequestId(number));
        }
        tags.resize(8);
        assert_eq!((tags.count(), tags.take(None)), (8, None));
        tags.free(RequestId(17));
        assert_eq!(tags.take(None), None);
        tags.free(RequestId(3));
        assert_eq!((tags.take(None), tags.take(None)), (Some(3), None));
        tags.resize(100);
        assert_eq!((tags.count(), taken(&mut tags, None, 100).len()), (64, 45));
    }

    /// Nobody has a tag twice, no limit is exceeded, and every tag is found.
    #[test]
    fn tags_are_neither_lost_nor_given_twice() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..300 {
            let count = 1 + next(if round % 2 == 0 { 70 } else { 2000 }) as u32;
            let mut tags = tags(["6.1", "6.12"][round % 2], count, next(u64::from(count)) as u32);
            let mut held: std::collections::BTreeMap<u32, RequestId> = Default::default();
            let mut free: Vec<u32> = (0..count).collect();
            for _ in 0..500 {
                if next(5) < 2 && !held.is_empty() {
                    let place = next(held.len() as u64) as usize;
                    let (tag, id) = held.iter().nth(place).map(|(tag, id)| (*tag, *id)).unwrap();
                    held.remove(&tag);
                    tags.free(id);
                    free.push(id.0);
                    continue;
                }
                let limit = (next(2) == 0).then(|| 1 + next(u64::from(count)) as u32);
                let is_within = |tag: u32| match limit {
                    None => true,
                    Some(limit) => {
                        tag % tags.width < tags.shallow.depth(count, tags.width, tag / tags.width, limit)
                    }
                };
                let open = (0..count).filter(|tag| is_within(*tag)).any(|tag| !held.contains_key(&tag));
                let found = tags.take(limit);
                assert_eq!(found.is_some(), open, "{count} {limit:?}");
                if let Some(tag) = found {
                    assert!(tag < count);
                    let id = RequestId(free.pop().unwrap());
                    tags.give(tag, id);
                    assert_eq!(held.insert(tag, id), None);
                }
            }
        }
    }
}
