//! [`CpuSet`]: a set of CPUs in the kernel's list notation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::CpuId;
use crate::parse::QuantityError;

const WORDS: usize = 16;

/// A set of CPUs, up to [`CpuSet::LIMIT`] of them; `Copy`, no allocation. Text form `0-2,5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// CPU numbers are below this.
    pub const LIMIT: u32 = (WORDS * 64) as u32;
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet { words: [0; WORDS] };

    /// CPUs `0..count`; more than [`CpuSet::LIMIT`] are cut there.
    pub fn first(count: u32) -> CpuSet {
        (0..count.min(CpuSet::LIMIT)).map(CpuId).collect()
    }

    /// The set with one member.
    pub fn single(cpu: CpuId) -> CpuSet {
        std::iter::once(cpu).collect()
    }

    /// From the kernel's bit masks, least significant word first.
    pub fn from_words(words: [u64; WORDS]) -> CpuSet {
        CpuSet { words }
    }

    /// The kernel's bit masks, least significant word first.
    pub fn as_words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Adds a CPU; false when it is beyond [`CpuSet::LIMIT`].
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let fits = cpu.0 < CpuSet::LIMIT;
        if fits {
            self.words[cpu.index() / 64] |= 1 << (cpu.0 % 64);
        }
        fits
    }

    /// Whether a CPU is in.
    pub fn contains(&self, cpu: CpuId) -> bool {
        cpu.0 < CpuSet::LIMIT && self.words[cpu.index() / 64] & (1 << (cpu.0 % 64)) != 0
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Whether every member of `self` is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    /// The members of both.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        let mut words = self.words;
        words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
        CpuSet { words }
    }

    /// The members that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        let mut words = self.words;
        words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
        CpuSet { words }
    }

    /// The members of either.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        let mut words = self.words;
        words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
        CpuSet { words }
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        (0..CpuSet::LIMIT).map(CpuId).filter(|c| self.contains(*c))
    }

    /// With the word before it: `CPU 2`, `CPUs 0-1,3`.
    pub fn in_words(&self) -> String {
        format!("{} {self}", if self.len() == 1 { "CPU" } else { "CPUs" })
    }

    /// The lowest member.
    pub fn lowest(&self) -> Option<CpuId> {
        self.iter().next()
    }
}

impl FromIterator<CpuId> for CpuSet {
    /// CPUs at or beyond [`CpuSet::LIMIT`] are left out.
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl FromStr for CpuSet {
    type Err = QuantityError;

    /// Parses the kernel's list form: `"2-3"`, `"0,4-7"`. Empty text is the empty set.
    fn from_str(text: &str) -> Result<CpuSet, QuantityError> {
        let wrong = |why| QuantityError::OutOfRange {
            text: text.to_owned(),
            what: "a list of CPUs such as 0-2,5",
            why,
        };
        let mut set = CpuSet::EMPTY;
        for part in text.trim().split(',').filter(|p| !p.trim().is_empty()) {
            let number = |t: &str| t.trim().parse::<u32>().map_err(|_| wrong("a part is not a CPU number"));
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if low > high {
                return Err(wrong("a range runs backwards"));
            }
            if high >= CpuSet::LIMIT {
                return Err(wrong("CPU numbers end at 1023"));
            }
            for cpu in low..=high {
                set.insert(CpuId(cpu));
            }
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut cpu = 0;
        while cpu < CpuSet::LIMIT {
            if !self.contains(CpuId(cpu)) {
                cpu += 1;
                continue;
            }
            let start = cpu;
            while self.contains(CpuId(cpu + 1)) {
                cpu += 1;
            }
            if !first {
                f.write_str(",")?;
            }
            first = false;
            if start == cpu {
                write!(f, "{start}")?
            } else {
                write!(f, "{start}-{cpu}")?
            }
            cpu += 1;
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_notation() {
        let set: CpuSet = "0-2,5".parse().unwrap();
        assert_eq!(set.to_string(), "0-2,5");
        assert_eq!(set.len(), 4);
        assert!("3-1".parse::<CpuSet>().is_err());
        assert!("1024".parse::<CpuSet>().is_err());
        assert!("a".parse::<CpuSet>().is_err());
        assert_eq!(CpuSet::first(3).to_string(), "0-2");
        assert_eq!(
            (CpuSet::first(1).in_words(), set.in_words()),
            ("CPU 0".to_owned(), "CPUs 0-2,5".to_owned())
        );
    }

    proptest! {
        #[test]
        fn text_reads_back(cpus in proptest::collection::vec(0u32..1024, 0..40)) {
            let set: CpuSet = cpus.iter().copied().map(CpuId).collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
            let half = CpuSet::first(512);
            let (low, high) = (set.intersection(&half), set.without(&half));
            prop_assert!(low.intersection(&high).is_empty());
            prop_assert_eq!(low.union(&high), set);
        }
    }
}
