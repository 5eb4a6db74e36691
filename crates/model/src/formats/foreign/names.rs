//! [`Names`]: names of another program's file as names of ours, which are letters, digits, `-` and `_`.

use std::collections::{BTreeMap, BTreeSet};

/// The names of one kind that were given so far.
#[derive(Default)]
pub(super) struct Names {
    given: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Names {
    /// Ours for theirs, the same each time: other characters become `-`, and a number tells apart what is then alike.
    pub(super) fn of(&mut self, theirs: &str) -> String {
        if let Some(ours) = self.given.get(theirs) {
            return ours.clone();
        }
        let fine = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        let mut plain: String = theirs.chars().map(fine).collect();
        if plain.is_empty() {
            plain.push('-');
        }
        let numbered = (2_u32..).map(|number| format!("{plain}-{number}"));
        let mut candidates = std::iter::once(plain.clone()).chain(numbered);
        let ours =
            candidates.find(|name| !self.taken.contains(name)).expect("numbers do not end before names do");
        self.taken.insert(ours.clone());
        self.given.insert(theirs.to_owned(), ours.clone());
        ours
    }

    /// All of ours, in the order of theirs.
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.given.values()
    }

    /// Whether a name of theirs was given.
    pub(super) fn has(&self, theirs: &str) -> bool {
        self.given.contains_key(theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_apart() {
        let mut names = Names::default();
        let ours: Vec<String> = ["a.b", "a-b", "a b", "a.b", ""].iter().map(|name| names.of(name)).collect();
        assert_eq!(ours, ["a-b", "a-b-2", "a-b-3", "a-b", "-"]);
        assert!(names.has("a b") && !names.has("a-b-2"));
        assert_eq!(names.all().count(), 4);
    }
}
