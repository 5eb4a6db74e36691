//! [`Input`]: a file's name and bytes, and its numbered lines.

use crate::ImportError;

/// A file to be read.
pub(crate) struct Input<'a> {
    name: &'a str,
    pub(crate) bytes: &'a [u8],
    /// Empty when the bytes are no UTF-8: no text format bears its mark there.
    pub(crate) text: &'a str,
}

impl<'a> Input<'a> {
    pub(crate) fn new(name: &'a str, bytes: &'a [u8]) -> Input<'a> {
        Input { name, bytes, text: std::str::from_utf8(bytes).unwrap_or_default() }
    }

    /// The file's name without directories and the last ending.
    pub(crate) fn stem(&self) -> &'a str {
        let file = self.name.rsplit('/').next().unwrap_or(self.name);
        match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        }
    }

    /// Lines from 1 without the blanks around them.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()))
    }
}

/// A mistake of a format in a line.
pub(crate) fn at_line(format: &'static str, line: usize) -> impl Fn(String) -> ImportError {
    move |why| ImportError::Line { format, line, why }
}

/// A count or a time in whole units.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{}` is no whole number from 0 to 2^64 - 1", short(text)))
}

/// A number with a fraction, neither infinite nor NaN.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|n| n.is_finite());
    parsed.ok_or_else(|| format!("`{}` is no number", short(text)))
}

/// Seconds as nanoseconds: from 0 to 104 days, below which a float is exact.
pub(crate) fn seconds(value: f64) -> Result<u64, String> {
    let ns = (value * 1e9).round();
    if !(0.0..=(1u64 << 53) as f64).contains(&ns) {
        return Err(format!("{value} s is no time from 0 to 104 days"));
    }
    // In range and whole: exact.
    Ok(ns as u64)
}

/// Whole units as nanoseconds.
pub(crate) fn scaled(value: u64, unit_ns: u64) -> Result<u64, String> {
    value.checked_mul(unit_ns).ok_or_else(|| format!("{value} times {unit_ns} ns is no time"))
}

/// The start of a text that may be long.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
