//! Text for a terminal of some width: cleaned, measured, wrapped, painted.

use surety_model::verdict::Outcome;

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// No line is wider than this many columns. Below 40 it counts as 40.
    pub width: usize,
    /// Whether ANSI colours are used.
    pub colour: bool,
    /// Whether tables have all their columns, however wide that makes their lines.
    pub every_column: bool,
    /// Whether what was in force, and the environment, is shown too.
    pub verbose: bool,
}

impl Style {
    /// No colour, this wide.
    pub fn plain(width: usize) -> Style {
        Style { width, colour: false, every_column: false, verbose: false }
    }

    /// The width in use.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(40)
    }

    /// The width that tables have.
    pub(crate) fn table_columns(&self) -> usize {
        if self.every_column { usize::MAX } else { self.columns() }
    }

    /// The text in its tone, when colours are on.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        match tone.ansi() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As any text.
    #[default]
    Plain,
    /// What is to be read first.
    Strong,
    /// A promise kept.
    Good,
    /// A promise broken.
    Bad,
    /// A promise neither kept nor broken.
    Open,
    /// Read last, if at all.
    Faint,
}

impl Tone {
    fn ansi(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Strong => Some("1"),
            Tone::Good => Some("32"),
            Tone::Bad => Some("1;31"),
            Tone::Open => Some("33"),
            Tone::Faint => Some("2"),
        }
    }

    /// The word a style sheet knows it by.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Strong => "strong",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Open => "open",
            Tone::Faint => "faint",
        }
    }

    /// The tone of an outcome.
    pub(crate) fn of(outcome: Outcome) -> Tone {
        match outcome {
            Outcome::Kept => Tone::Good,
            Outcome::Broken => Tone::Bad,
            Outcome::Undecided => Tone::Open,
            Outcome::NotObservable => Tone::Faint,
        }
    }
}

/// The text on one line without anything that would move a terminal's cursor or change its state.
///
/// Names of threads and output of programs reach tables: an escape sequence in them must not act.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            // Bidirectional overrides reorder what follows them.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Columns a text takes: two for a wide East Asian character, none for a combining mark (Unicode annexes 11 and 15).
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text with spaces up to a width, on the left or on the right.
pub(crate) fn pad(text: &str, width: usize, right_aligned: bool) -> String {
    let space = " ".repeat(width.saturating_sub(columns(text)));
    if right_aligned { format!("{space}{text}") } else { format!("{text}{space}") }
}

/// The text cut to a width, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if columns(&kept) + char_columns(c) >= width {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// The text in lines of at most `width` columns, broken between words, inside a word only when it is longer.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let needed = columns(&line) + usize::from(!line.is_empty()) + columns(word);
        if needed > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if columns(&line) + char_columns(c) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Columns that a text is indented by under a lead that is too long to stand beside it.
const UNDER: usize = 6;

/// A paragraph: `first` before its first line, as many spaces before the others. `first` counts by its columns and is
/// painted in its tone.
pub(crate) fn paragraph(style: &Style, first: &str, tone: Tone, text: &str) -> String {
    let first = clean(first);
    let is_beside = columns(&first) <= style.columns() / 2;
    let indent = if is_beside { columns(&first) } else { UNDER };
    let mut out = String::new();
    let mut lines = wrap(&clean(text), style.columns() - indent).into_iter();
    if is_beside {
        out += &style.paint(tone, &first);
        out += &lines.next().unwrap_or_default();
    } else {
        // The lead is too long to stand beside anything: it gets lines of its own.
        let lead = wrap(&first, style.columns()).iter().map(|l| style.paint(tone, l)).collect::<Vec<_>>();
        out += &lead.join("\n");
    }
    let mut out = out.trim_end().to_owned();
    for line in lines {
        out += &format!("\n{}{line}", " ".repeat(indent));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_keeps_every_word_and_the_width() {
        for (text, width, lines) in [
            ("one two three", 7, vec!["one two", "three"]),
            ("abcdefghij k", 4, vec!["abcd", "efgh", "ij k"]),
            ("", 10, vec![""]),
            ("日本語 x", 4, vec!["日本", "語 x"]),
        ] {
            assert_eq!(wrap(text, width), lines, "{text}");
        }
    }

    #[test]
    fn escape_sequences_cannot_act() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d"), "a\u{fffd}[31mb c\u{fffd}d");
    }

    #[test]
    fn colour_takes_no_columns_of_the_layout() {
        let plain = paragraph(&Style::plain(40), "a  ", Tone::Good, "text");
        let painted = paragraph(&Style { colour: true, ..Style::plain(40) }, "a  ", Tone::Good, "text");
        assert_eq!(plain, "a  text\n");
        assert_eq!(painted, "\x1b[32ma  \x1b[0mtext\n");
    }
}
