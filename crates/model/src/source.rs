//! Where things stand in the file they were read from, and what is wrong with them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The text a workload came from with the place of every object in it.
///
/// Takes no part in comparisons: two workloads that say the same are equal wherever they were read from.
#[derive(Clone, Default)]
pub struct Source {
    inner: Option<Arc<SourceText>>,
}

/// A named text and the byte ranges of the objects in it.
#[derive(Debug)]
struct SourceText {
    name: String,
    text: String,
    places: BTreeMap<String, Range<usize>>,
}

/// Line and column, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line from 1.
    pub line: usize,
    /// Character in the line from 1.
    pub column: usize,
}

impl Source {
    /// A text with the places of its objects, by path (`task.player.promise.0`).
    pub fn new(name: &str, text: &str, places: BTreeMap<String, Range<usize>>) -> Source {
        Source { inner: Some(Arc::new(SourceText { name: name.to_owned(), text: text.to_owned(), places })) }
    }

    /// The same text with objects in other places of it.
    pub fn with_places(&self, others: impl IntoIterator<Item = (String, Range<usize>)>) -> Source {
        let Some(inner) = &self.inner else { return Source::default() };
        let mut places = inner.places.clone();
        places.extend(others);
        Source::new(&inner.name, &inner.text, places)
    }

    /// The text's name, a file path as a rule.
    pub fn name(&self) -> Option<&str> {
        self.inner.as_ref().map(|s| s.name.as_str())
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.inner.as_ref().map(|s| s.text.as_str()).unwrap_or_default()
    }

    /// The byte range of an object itself.
    pub fn span_of(&self, path: &str) -> Option<Range<usize>> {
        self.inner.as_ref()?.places.get(path).cloned()
    }

    /// The byte range of an object, or of the nearest thing around it; of an object that is not in the file there is none.
    pub fn span(&self, path: &str) -> Option<Range<usize>> {
        let places = &self.inner.as_ref()?.places;
        let mut path = path;
        loop {
            if let Some(span) = places.get(path) {
                return Some(span.clone());
            }
            let around = &path[..path.rfind('.')?];
            if !around.contains('.') {
                return None;
            }
            path = around;
        }
    }

    /// `file:line:column` of an object, or of the nearest thing around it.
    pub fn locate(&self, path: &str) -> Option<String> {
        let span = self.span(path)?;
        let place = place_of(self.text(), span.start);
        Some(format!("{}:{}:{}", self.name()?, place.line, place.column))
    }
}

impl PartialEq for Source {
    fn eq(&self, _: &Source) -> bool {
        true
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", self.name())
    }
}

/// Line and column of a byte offset; an offset inside a character counts as that character.
pub fn place_of(text: &str, offset: usize) -> Place {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// One thing wrong with an input: what, where, why, and what to do.
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
    /// Without a label and a help.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span, label: String::new(), help: None }
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

/// Everything wrong with one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The input's name.
    pub name: String,
    pub text: String,
    /// What is wrong, in the order of the text. Never empty.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Of one thing.
    pub fn one(name: &str, text: &str, diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics { name: name.to_owned(), text: text.to_owned(), list: vec![diagnostic] }
    }
}

impl fmt::Display for Diagnostics {
    /// One line each: `file:line:column: message (help)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            let place = place_of(&self.text, diagnostic.span.start);
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{}:{}: {}", self.name, place.line, place.column, diagnostic.message)?;
            if let Some(help) = &diagnostic.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate nearest to `word` by edits, when it is near enough to be a slip.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (edit_distance(word, c), c))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance over characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters() {
        let text = "a\nµb\n";
        assert_eq!(place_of(text, 0), Place { line: 1, column: 1 });
        assert_eq!(place_of(text, 4), Place { line: 2, column: 2 });
        assert_eq!(place_of(text, 99), Place { line: 3, column: 1 });
    }

    #[test]
    fn a_diagnostic_names_its_place_and_what_to_do() {
        let one = Diagnostic::new(4..5, "wrong").help("do it right");
        let shown = Diagnostics::one("f.toml", "a\nµb\n", one).to_string();
        assert_eq!(shown, "f.toml:2:2: wrong (do it right)");
    }

    #[test]
    fn slips_are_recognised() {
        assert_eq!(nearest("perod", ["period", "work"]), Some("period"));
        assert_eq!(nearest("zzz", ["period", "work"]), None);
    }

    #[test]
    fn the_nearest_known_place_is_used() {
        let places = BTreeMap::from([("task.a".to_owned(), 2..4)]);
        let source = Source::new("f.toml", "x\nab", places);
        assert_eq!(source.locate("task.a.promise.0").as_deref(), Some("f.toml:2:1"));
        assert_eq!(source.locate("load.b"), None);
    }
}
