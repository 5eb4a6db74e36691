//! [`PrintFormats`]: texts that kernel code writes with `trace_printk`, whose records hold the address of a format and
//! the arguments in binary (`lib/vsprintf.c`, `vbin_printf`); the formats are in the trace's `printk_formats`.
//!
//! Arguments stand one behind the other: characters in one byte, shorts in two on a multiple of two, everything wider on
//! a multiple of four, strings in place up to their zero. A pointer with a letter that needs the machine (`%pI4`) was
//! written as a string; addresses of functions (`%pS`) are given in hexadecimal, since only a few symbols are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::endian::Endian;

/// Wider than any record: what a width or a precision asks for beyond is not given.
const WIDTH_MAX: usize = 4096;
/// A text stops growing here.
const TEXT_MAX: usize = 1 << 16;

/// The formats of a trace, by their address in the recording kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct PrintFormats {
    formats: BTreeMap<u64, String>,
    long: u8,
}

impl PrintFormats {
    /// Reads lines of `0xADDRESS : "FORMAT"`; `long` is the kernel's long. Lines that are none are passed over.
    pub(super) fn parse(text: &str, long: u8) -> PrintFormats {
        let formats = text.lines().filter_map(|line| {
            let (address, format) = line.split_once(':')?;
            let address = address.trim().trim_start_matches("0x");
            let format = format.trim().strip_prefix('"')?;
            let format = format.strip_suffix('"').unwrap_or(format);
            Some((u64::from_str_radix(address, 16).ok()?, unescaped(format)))
        });
        PrintFormats { formats: formats.collect(), long }
    }

    /// The text at `address`, as it is.
    pub(super) fn plain(&self, address: u64, out: &mut String) {
        match self.formats.get(&address) {
            Some(text) => out.push_str(text),
            None => missing(address, out),
        }
    }

    /// The format at `address` with these arguments. Arguments that the record does not have end the text.
    pub(super) fn format(&self, address: u64, arguments: &[u8], endian: Endian, out: &mut String) {
        match self.formats.get(&address) {
            Some(format) => {
                let arguments = Arguments { bytes: arguments, at: 0, endian, long: self.long };
                let _ = arguments.print(format, out);
            }
            None => missing(address, out),
        }
    }
}

fn missing(address: u64, out: &mut String) {
    let _ = write!(out, "(the trace has no format {address:#x})");
}

/// Without the backslashes that keep a format on one line.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        plain.push(match c {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => break,
            },
            c => c,
        });
    }
    plain
}

/// What stands between `%` and the letter.
#[derive(Clone, Copy, Debug, Default)]
struct Directive {
    left: bool,
    zero: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: Endian,
    long: u8,
}

impl<'a> Arguments<'a> {
    /// An integer of `size` bytes, sign extended.
    fn integer(&mut self, size: u8) -> Option<i64> {
        self.at = self.at.next_multiple_of(usize::from(size.min(4)));
        let value = self.endian.unsigned(self.bytes, self.at, size)?;
        self.at += usize::from(size);
        let spare = 64 - 8 * u32::from(size);
        // To the top and back: the casts keep the bits.
        Some(((value << spare) as i64) >> spare)
    }

    fn string(&mut self) -> Option<std::borrow::Cow<'a, str>> {
        let rest = self.bytes.get(self.at..)?;
        let end = rest.iter().position(|b| *b == 0)?;
        self.at += end + 1;
        Some(String::from_utf8_lossy(&rest[..end]))
    }

    /// `None`: the arguments ended before the format.
    fn print(mut self, format: &str, out: &mut String) -> Option<()> {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = self.directive(&rest[at + 1..], out)?;
            if out.len() > TEXT_MAX {
                return None;
            }
        }
        out.push_str(rest);
        Some(())
    }

    /// One directive, of which the `%` is read; returns what follows it.
    fn directive<'f>(&mut self, text: &'f str, out: &mut String) -> Option<&'f str> {
        let mut directive = Directive::default();
        let mut rest = text;
        while let Some(flag) = rest.chars().next().filter(|c| "-0+ #".contains(*c)) {
            match flag {
                '-' => directive.left = true,
                '0' => directive.zero = true,
                '+' => directive.plus = true,
                ' ' => directive.blank = true,
                _ => directive.alternate = true,
            }
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('*') {
            let width = self.integer(4)?;
            directive.left |= width < 0;
            directive.width = usize::try_from(width.unsigned_abs()).ok()?.min(WIDTH_MAX);
            rest = after;
        } else {
            (directive.width, rest) = number(rest);
        }
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(after) = after.strip_prefix('*') {
                directive.precision = usize::try_from(self.integer(4)?).ok().map(|p| p.min(WIDTH_MAX));
                rest = after;
            } else {
                let (precision, after) = number(after);
                directive.precision = Some(precision);
                rest = after;
            }
        }
        let length = rest.len() - rest.trim_start_matches(['h', 'l', 'L', 'q', 'z', 'Z', 't', 'j']).len();
        let (length, after) = rest.split_at(length);
        let size = match length {
            "hh" => 1,
            "h" => 2,
            "" => 4,
            "l" | "z" | "Z" | "t" => self.long,
            _ => 8,
        };
        let letter = after.chars().next()?;
        rest = &after[letter.len_utf8()..];
        match letter {
            '%' => out.push('%'),
            'c' => {
                let character = char::from(u8::try_from(self.integer(1)? & 0xff).ok()?);
                directive.pad(out, "", &character.to_string(), false);
            }
            's' => {
                let text = self.string()?;
                directive.text(out, &text);
            }
            'd' | 'i' => {
                let value = self.integer(size)?;
                let sign = match value {
                    ..0 => "-",
                    _ if directive.plus => "+",
                    _ if directive.blank => " ",
                    _ => "",
                };
                directive.digits(out, sign, &value.unsigned_abs().to_string());
            }
            'u' | 'x' | 'X' | 'o' => {
                let mask = u64::MAX >> (64 - 8 * u32::from(size));
                // The bits without the extended sign.
                let value = self.integer(size)? as u64 & mask;
                let (sign, digits) = match letter {
                    'u' => ("", value.to_string()),
                    'x' => ("0x", format!("{value:x}")),
                    'X' => ("0X", format!("{value:X}")),
                    _ => ("0", format!("{value:o}")),
                };
                directive.digits(out, if directive.alternate { sign } else { "" }, &digits);
            }
            'p' => {
                let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
                let (letters, after) = rest.split_at(letters);
                rest = after;
                match letters.chars().next() {
                    None | Some('S' | 's' | 'F' | 'f' | 'B' | 'x' | 'K' | 'e') => {
                        let mask = u64::MAX >> (64 - 8 * u32::from(self.long));
                        let value = self.integer(self.long)? as u64 & mask;
                        directive.pad(out, "", &format!("{value:#x}"), false);
                    }
                    Some(_) => {
                        let text = self.string()?;
                        directive.text(out, &text);
                    }
                }
            }
            // Nothing the kernel prints with; shown as it stands.
            other => {
                out.push('%');
                out.push(other);
            }
        }
        Some(rest)
    }
}

impl Directive {
    fn text(self, out: &mut String, text: &str) {
        let shown = match self.precision.and_then(|most| text.char_indices().nth(most)) {
            Some((end, _)) => &text[..end],
            None => text,
        };
        self.pad(out, "", shown, false);
    }

    fn digits(self, out: &mut String, sign: &str, digits: &str) {
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let digits = format!("{}{digits}", "0".repeat(zeros));
        self.pad(out, sign, &digits, self.zero && self.precision.is_none());
    }

    fn pad(self, out: &mut String, sign: &str, text: &str, zeros: bool) {
        let spare = self.width.saturating_sub(sign.len() + text.chars().count());
        let (before, between, behind) = match (self.left, zeros) {
            (true, _) => (0, 0, spare),
            (false, true) => (0, spare, 0),
            (false, false) => (spare, 0, 0),
        };
        out.extend(std::iter::repeat_n(' ', before));
        out.push_str(sign);
        out.extend(std::iter::repeat_n('0', between));
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', behind));
    }
}

/// The number a text begins with, 0 for none, and what follows.
fn number(text: &str) -> (usize, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let value = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(WIDTH_MAX) };
    (value.min(WIDTH_MAX), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(format: &str, arguments: &[u8]) -> String {
        let formats = PrintFormats::parse(&format!("0x10 : \"{format}\"\n"), 8);
        let mut out = String::new();
        formats.format(0x10, arguments, Endian::Little, &mut out);
        out
    }

    #[test]
    fn formats_are_filled_as_c_does() {
        let word = |value: i32| value.to_le_bytes().to_vec();
        let long = |value: i64| value.to_le_bytes().to_vec();
        for (format, arguments, text) in [
            ("%d|%5d|%-5d|%05d", [word(-7), word(-7), word(-7), word(-7)].concat(), "-7|   -7|-7   |-0007"),
            (
                "%u %x %#x %X %o",
                [word(-1), word(255), word(255), word(255), word(8)].concat(),
                "4294967295 ff 0xff FF 10",
            ),
            (
                "%ld %llu %lx",
                [long(-5), long(-1), long(-1)].concat(),
                "-5 18446744073709551615 ffffffffffffffff",
            ),
            ("%+d % d %.3d %5.2d", [word(1), word(2), word(3), word(4)].concat(), "+1  2 003    04"),
            ("[%6s|%-6s|%.2s]", b"abc\0abc\0abc\0".to_vec(), "[   abc|abc   |ab]"),
            ("%c%c %d", [b"ab\0\0".to_vec(), word(9)].concat(), "ab 9"),
            ("%hhd %hd", vec![0xff, 0, 0xfe, 0xff], "-1 -2"),
            ("%*d %.*s", [word(4), word(7), word(1), b"xyz\0".to_vec()].concat(), "   7 x"),
            ("%p %pS", [long(0x1000), long(0x20)].concat(), "0x1000 0x20"),
            ("%pI4 %d", [b"10.0.0.1\0\0\0\0".to_vec(), word(3)].concat(), "10.0.0.1 3"),
            (r#"100%% \"q\"\n"#, vec![], "100% \"q\"\n"),
            ("%d and %d", word(1), "1 and "),
            ("%", vec![], ""),
        ] {
            assert_eq!(printed(format, &arguments), text, "{format}");
        }
        let mut out = String::new();
        PrintFormats::parse("nonsense\n0x10 : \"a\\tb\"\n", 8).plain(0x10, &mut out);
        PrintFormats::default().plain(0x99, &mut out);
        assert_eq!(out, "a\tb(the trace has no format 0x99)");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic_or_fill_memory(format in "[%*.0-9hlzdusxpcoXI é-]{0,40}", arguments in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(printed(&format, &arguments).len() <= 40 * (WIDTH_MAX + 64) * 4);
        }
    }
}
