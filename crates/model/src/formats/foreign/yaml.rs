//! YAML as a tree of [`Item`]s with their places: one document of block and flow collections, plain and quoted scalars.
//!
//! The syntax is the crate's; here are the limits. Anchors, aliases and tags are refused, so a file is as large as what it says, and collections
//! are at most [`DEPTH_MAX`] deep. A plain scalar is null, true, false or a number by YAML 1.2's core schema, else a text.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::item::{DEPTH_MAX, Item, Member, Value};
use crate::source::Diagnostic;

/// Reads one document, which is all of the text.
///
/// # Errors
/// The first thing that is no YAML, or that is not read, with its place.
pub(super) fn parse(text: &str) -> Result<Item, Diagnostic> {
    let places = Places::of(text);
    let mut tree = Tree { open: Vec::new(), root: None };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| places.not_yaml(&error))?;
        let span = places.bytes(&span);
        tree.take(event, span)?;
    }
    let nothing = || Diagnostic::new(0..0, "there is nothing in the file");
    tree.root.ok_or_else(nothing)
}

/// Byte offsets of the characters of a text; the parser counts characters.
struct Places<'t> {
    text: &'t str,
    /// None where each character is a byte.
    offsets: Option<Vec<usize>>,
}

impl Places<'_> {
    fn of(text: &str) -> Places<'_> {
        let offsets = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Places { text, offsets }
    }

    fn byte(&self, character: usize) -> usize {
        let end = self.text.len();
        match &self.offsets {
            None => character.min(end),
            Some(offsets) => offsets.get(character).copied().unwrap_or(end),
        }
    }

    /// Blanks behind a value are none of it.
    fn bytes(&self, span: &Span) -> Range<usize> {
        let (start, end) = (self.byte(span.start.index()), self.byte(span.end.index()));
        let end = end.max(start);
        start..start + self.text[start..end].trim_end().len()
    }

    fn not_yaml(&self, error: &ScanError) -> Diagnostic {
        let at = self.byte(error.marker().index());
        let mut diagnostic = Diagnostic::new(at..at, format!("this is no YAML: {}", error.info()));
        diagnostic.label = "here".to_owned();
        diagnostic
    }
}

/// A collection whose end has not come.
enum Open {
    Array(Vec<Item>, usize),
    /// And the key whose value comes next.
    Object(Vec<Member>, usize, Option<(String, Range<usize>)>),
}

/// What was read so far.
struct Tree {
    open: Vec<Open>,
    root: Option<Item>,
}

fn refused(span: Range<usize>, message: &str, help: &str) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(span, message);
    diagnostic.label = "here".to_owned();
    diagnostic.help = Some(help.to_owned());
    diagnostic
}

impl Tree {
    fn take(&mut self, event: Event<'_>, span: Range<usize>) -> Result<(), Diagnostic> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain_only(anchor, tag.is_some(), &span)?;
                self.put(scalar(&text, style), span)
            }
            Event::SequenceStart(anchor, tag) => {
                plain_only(anchor, tag.is_some(), &span)?;
                self.open(Open::Array(Vec::new(), span.start), span)
            }
            Event::MappingStart(anchor, tag) => {
                plain_only(anchor, tag.is_some(), &span)?;
                self.open(Open::Object(Vec::new(), span.start, None), span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::Array(items, start)) => self.put(Value::Array(items), start..span.end.max(start)),
                Some(Open::Object(members, start, _)) => {
                    self.put(Value::Object(members), start..span.end.max(start))
                }
                None => Ok(()),
            },
            Event::Alias(_) => {
                Err(refused(span, "an alias is not read", "write what it stands for in its place"))
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(refused(span, "a second document begins", "leave one document in the file"))
            }
            Event::DocumentStart(_)
            | Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, open: Open, span: Range<usize>) -> Result<(), Diagnostic> {
        self.may_be_value(&span)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(Diagnostic::new(span, format!("values are at most {DEPTH_MAX} deep")));
        }
        self.open.push(open);
        Ok(())
    }

    /// A collection is no key.
    fn may_be_value(&self, span: &Range<usize>) -> Result<(), Diagnostic> {
        match self.open.last() {
            Some(Open::Object(_, _, None)) => {
                Err(refused(span.clone(), "a key is a text", "write `key: value`"))
            }
            _ => Ok(()),
        }
    }

    fn put(&mut self, value: Value, span: Range<usize>) -> Result<(), Diagnostic> {
        match self.open.last_mut() {
            None => self.root = Some(Item { value, span }),
            Some(Open::Array(items, _)) => items.push(Item { value, span }),
            Some(Open::Object(members, _, key)) => match (key.take(), value) {
                (Some((key, of_key)), value) => {
                    members.push(Member { key, span: of_key, item: Item { value, span } })
                }
                (None, Value::Text(text) | Value::Number(text)) => *key = Some((text, span)),
                (None, _) => return Err(refused(span, "a key is a text", "write `key: value`")),
            },
        }
        Ok(())
    }
}

/// Refuses what stands before a value.
fn plain_only(anchor: usize, has_tag: bool, span: &Range<usize>) -> Result<(), Diagnostic> {
    match (anchor, has_tag) {
        (0, false) => Ok(()),
        (0, true) => Err(refused(span.clone(), "a tag is not read", "leave it out")),
        _ => Err(refused(span.clone(), "an anchor is not read", "leave it out, and write the value again")),
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Boolean(true),
        "false" | "False" | "FALSE" => Value::Boolean(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

/// Decimal numbers: what else the core schema has (`0x1f`, `.inf`) no program's file needs.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-', '.']);
    digits.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::place_of;

    fn number(text: &str) -> Value {
        Value::Number(text.to_owned())
    }

    #[test]
    fn collections_and_scalars_have_their_places() {
        let text = "# ü\na: [1, -2.5, .5]\nb:\n  - name: n000 # x\n    on: true\n  - ~\n'c': \"1\"\n";
        let Value::Object(members) = parse(text).unwrap().value else { panic!("no object") };
        let keys: Vec<&str> = members.iter().map(|member| &text[member.span.clone()]).collect();
        assert_eq!(keys, ["a", "b", "'c'"]);
        let Value::Array(items) = &members[0].item.value else { panic!("no array") };
        let values: Vec<&Value> = items.iter().map(|item| &item.value).collect();
        assert_eq!(values, [&number("1"), &number("-2.5"), &number(".5")]);
        assert_eq!(&text[items[1].span.clone()], "-2.5");
        let Value::Array(items) = &members[1].item.value else { panic!("no array") };
        let Value::Object(inner) = &items[0].value else { panic!("no object") };
        assert_eq!(&text[inner[0].item.span.clone()], "n000");
        assert_eq!((&inner[1].item.value, &items[1].value), (&Value::Boolean(true), &Value::Null));
        assert_eq!(members[2].item.value, Value::Text("1".to_owned()));
    }

    #[test]
    fn what_is_not_read_is_told_with_its_place() {
        let deep = format!("a: {}", "[".repeat(40));
        let mut wrong = Vec::new();
        for (text, line, column, message) in [
            ("a: 1\nb: &x 2", 2, 4, "an anchor is not read"),
            ("a: 1\nb: *x", 2, 4, "unknown anchor"),
            ("a: &x 1\nb: *x", 1, 4, "an anchor is not read"),
            ("a: !!str 1", 1, 4, "a tag is not read"),
            ("a: 1\n---\nb: 2", 2, 1, "a second document begins"),
            ("? [a]\n: 1", 1, 3, "a key is a text"),
            ("a: [1", 1, 6, "this is no YAML"),
            ("", 1, 1, "there is nothing in the file"),
            (deep.as_str(), 1, 35, "values are at most 32 deep"),
        ] {
            let diagnostic = parse(text).expect_err(text);
            let place = place_of(text, diagnostic.span.start);
            let told = (place.line, place.column, diagnostic.message.contains(message));
            if told != (line, column, true) {
                wrong.push((text, place, diagnostic.message));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
