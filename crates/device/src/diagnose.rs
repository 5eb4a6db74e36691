//! [`Diagnostics`]: what is wrong with a profile: where, why, and what to do.
//!
//! The same words as workloads are spoken of in, `file:line:column: message (help)`, with the bytes each is about, so that whoever
//! prints them can show the line.

use std::fmt;
use std::ops::Range;

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Bytes of the text this is about.
    pub span: Range<usize>,
    /// What stands beside the place.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Without a help.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span, label: String::new(), help: None }
    }

    /// With what stands beside the place.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

/// Everything wrong with one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text's name, a file path as a rule.
    pub name: String,
    pub text: String,
    /// In the order of the text. Never empty.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Of one thing.
    pub fn one(name: &str, text: &str, diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics { name: name.to_owned(), text: text.to_owned(), list: vec![diagnostic] }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            let (line, column) = place_of(&self.text, diagnostic.span.start);
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{line}:{column}: {}", self.name, diagnostic.message)?;
            if let Some(help) = &diagnostic.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Line and column of a byte, both from 1; the column counts characters.
pub fn place_of(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_names_its_place_and_what_to_do() {
        let one = Diagnostic::new(4..5, "wrong").help("do it right");
        let shown = Diagnostics::one("f.toml", "a\nµb\n", one).to_string();
        assert_eq!(shown, "f.toml:2:2: wrong (do it right)");
    }
}
