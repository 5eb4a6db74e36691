//! Numbers with their nouns.

use std::fmt::Display;

/// `1 job`, `2 jobs`: a count with its noun, which takes an `s` unless it is one.
pub fn number_of(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [number_of(0, "job"), number_of(1, "CPU"), number_of(21u64, "job")],
            ["0 jobs", "1 CPU", "21 jobs"]
        );
    }
}
