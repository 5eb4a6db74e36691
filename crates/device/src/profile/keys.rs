//! Keys of a profile from its text: what is wrong with one is told at its place, under its name.

use std::ops::Range;

use serde::de::DeserializeOwned;
use surety_model::source::{Diagnostic, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the keys of a type; what is wrong is told where.
pub(super) fn keys<T: DeserializeOwned>(text: &str) -> Result<T, Diagnostic> {
    toml::from_str(text).map_err(|wrong| told(text, &wrong))
}

/// What is wrong, in the words of a profile.
fn told(text: &str, wrong: &toml::de::Error) -> Diagnostic {
    let span = wrong.span().unwrap_or(0..0);
    let message = wrong.message().lines().next().unwrap_or_default();
    let quoted = |lead: &str| message.strip_prefix(lead)?.split('`').nth(1);
    let (words, help) = if let Some(key) = quoted("missing field") {
        let help = "nothing is filled in: each number is written down with its source".to_owned();
        (format!("missing key `{key}`"), Some(help))
    } else if let Some(key) = quoted("unknown field") {
        let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        let help = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        (format!("unknown key `{key}`"), Some(help))
    } else {
        match key_at(text, span.start) {
            Some(key) => (format!("`{key}`: {message}"), None),
            None => (message.to_owned(), None),
        }
    };
    let found = Diagnostic::new(beginning(text, span), words);
    match help {
        Some(help) => found.help(help),
        None => found,
    }
}

/// The key in whose value a byte of the text is; the innermost. `None`: the text is no TOML, or the byte is in no value.
fn key_at(text: &str, at: usize) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    in_table(document.get_ref(), at)
}

fn in_table(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        in_value(value, at).or_else(|| is_in(value, at).then(|| key.get_ref().to_string()))
    })
}

fn in_value(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, at),
        DeValue::Array(list) => list.iter().find_map(|value| in_value(value, at)),
        _ => None,
    }
}

/// Whether a byte is in a value as it is written; what is of a table and stands elsewhere is not.
fn is_in(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    value.span().contains(&at)
}

/// The first line of a span, which of a missing key is the whole table.
fn beginning(text: &str, span: Range<usize>) -> Range<usize> {
    let line = text.get(span.clone()).and_then(|part| part.find('\n'));
    span.start..line.map_or(span.end, |length| span.start + length)
}
