//! Texts of files and other programs made harmless for a terminal: names of threads, labels of results, mistakes in a workload.

use std::borrow::Cow;

/// Whether a terminal obeys a character, other than by going on below or to the right.
pub fn is_obeyed(c: char) -> bool {
    !matches!(c, '\n' | '\t') && surety_trace::write::is_obeyed(c)
}

/// A text whose parts come from files and other programs, with a mark in place of each character that a terminal would obey;
/// where `colored`, what only sets colours stays.
pub fn harmless(text: &str, colored: bool) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_obeyed) {
        shown += &rest[..at];
        rest = &rest[at..];
        let colour = rest.strip_prefix("\x1b[").and_then(|tail| {
            let end = tail.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
            tail[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
        });
        let length = match colour.filter(|_| colored) {
            Some(length) => {
                shown += &rest[..length];
                length
            }
            None => {
                shown.push(char::REPLACEMENT_CHARACTER);
                rest.chars().next().map_or(rest.len(), char::len_utf8)
            }
        };
        rest = &rest[length..];
    }
    shown += rest;
    Cow::Owned(shown)
}

/// The same of a file's text with as many bytes as before, so that places in it stay right.
pub fn harmless_at_its_places(text: &str) -> String {
    let mark = |c: char| match c.len_utf8() {
        _ if !is_obeyed(c) => c,
        1 => '?',
        2 => '\u{bf}',
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(mark).collect()
}

/// The same of a JSON document, where such characters are written by their numbers.
pub fn harmless_json(text: String) -> String {
    if !text.contains(is_obeyed) {
        return text;
    }
    let escaped = |c: char| if is_obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_marked_and_colours_of_ours_stay() {
        for (text, plain, coloured) in [
            ("two\nlines\tof text", "two\nlines\tof text", "two\nlines\tof text"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}", "\u{fffd}]0;title\u{fffd}"),
            ("\x1b[31mred\x1b[0m", "\u{fffd}[31mred\u{fffd}[0m", "\x1b[31mred\x1b[0m"),
            ("\x1b[2J\x1b[", "\u{fffd}[2J\u{fffd}[", "\u{fffd}[2J\u{fffd}["),
            (
                "a\u{9b}31mb\u{7f}\u{202e}c\r",
                "a\u{fffd}31mb\u{fffd}\u{fffd}c\u{fffd}",
                "a\u{fffd}31mb\u{fffd}\u{fffd}c\u{fffd}",
            ),
        ] {
            assert_eq!(harmless(text, false), plain);
            assert_eq!(harmless(text, true), coloured);
            assert_eq!(harmless_at_its_places(text).len(), text.len());
            assert!(!harmless_at_its_places(text).contains(is_obeyed));
        }
    }

    #[test]
    fn documents_hold_the_same_text_and_no_such_character() {
        let document = serde_json::json!({ "name": "a\u{1b}[2J\u{9b}1m\u{7f}\u{202e}b" });
        let text = harmless_json(format!("{document:#}\n"));
        assert!(!text.contains(is_obeyed), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), document);
    }
}
