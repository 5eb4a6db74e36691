//! Names for a workload file from names of threads and interrupts: letters, digits, `-` and `_`, each name once.

use std::collections::BTreeSet;

/// The names given so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A valid name like `wanted` that nobody has yet.
    pub fn give(&mut self, wanted: &str) -> String {
        let mut plain = String::new();
        for letter in wanted.chars() {
            let is_fine = letter.is_alphanumeric() || letter == '_';
            if is_fine {
                plain.push(letter);
            } else if !plain.is_empty() && !plain.ends_with('-') {
                plain.push('-');
            }
        }
        let plain = plain.trim_end_matches('-');
        let plain = if plain.is_empty() { "unnamed" } else { plain };
        let mut name = plain.to_owned();
        let mut number = 2u64;
        while !self.taken.insert(name.clone()) {
            name = format!("{plain}-{number}");
            number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_unique() {
        let mut names = Names::default();
        for (wanted, given) in [
            ("kworker/0:1", "kworker-0-1"),
            ("kworker/0:1-ev", "kworker-0-1-ev"),
            ("kworker/0:1", "kworker-0-1-2"),
            ("(sd-pam)", "sd-pam"),
            ("\u{1}\u{2}", "unnamed"),
            ("", "unnamed-2"),
            ("größe_1", "größe_1"),
        ] {
            assert_eq!(names.give(wanted), given);
        }
    }
}
